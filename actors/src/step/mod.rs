//! The messages that travel through a partition: one boxed [`Baton`] that owns the books.
//!
//! # Why a baton
//! A partition runs one *step* at a time. A step is a baton that goes from actor to actor by
//! messages through synchronous handlers and comes home. State is written only with the baton in
//! hand, so that no two steps can overlap.
//!
//! Three things travel with the baton, one at a time:
//! * an **offer** goes down the queues, is turned into decisions by an application and its nodes,
//!   and rises again ([`Offering`]);
//! * a **visit** goes to one application (or node, or leaf) with something to do, from there to the
//!   nodes it concerns ([`NodeWork`]), and then **climbs** the queues with the change;
//! * a **survey** goes from actor to actor and reads or renews each ([`Survey`]).
//!
//! A value that a message brings is in the message, beside the baton (`Visit { baton, ops }`). The
//! baton itself has only what several handlers on its way need. For the work on each ask, and for
//! surveys, there is no message: the baton is put into the hand of the next actor, with its mail
//! ([`BatonAddress`]).
//!
//! [`baton`] has the struct, [`effects`] the effects of a step that are carried out at home, and
//! [`routes`] the choice of the baton's next stop. The other files have the values that it brings.

mod alarm;
mod answering;
mod applications;
mod assuming;
mod baton;
mod baton_address;
mod binding;
mod directory;
mod directory_image;
mod effects;
mod imaging;
mod members;
pub(crate) mod named;
mod node_change;
mod nodes;
mod nominations;
mod offer;
mod op;
mod placement;
mod predicates;
mod records;
mod routes;
mod slots;
mod survey;
mod visit;

pub(crate) use crate::notices::{
    Allocated, AskReleased, Ending, Entered, Owner, RELEASED_BY_RM, Released, ScaleUpRequests,
    Successor, UnplacedRequest,
};
pub(crate) use crate::session::{Barrier, HeldNow, Notice, PartitionClosed, Prepared, SessionLink};
pub(crate) use alarm::{Alarm, WaitsFor};
pub(crate) use answering::{Answers, Passed, Settlement};
pub(crate) use assuming::Counting;
pub(crate) use baton::{Baton, Guard, Mail, Services, StepSettings};
pub(crate) use baton_address::{BatonAddress, Visited};
pub(crate) use directory::{ApplicationEntry, Directory, Listed, QueueCounts, QueueEntry};
pub(crate) use directory_image::{Addresses, DirectoryImage};
pub(crate) use effects::{Deadlines, PreemptionRequest, StepEffects};
pub(crate) use imaging::{Gathering, Imaged, Imaging};
pub(crate) use monoceros_rules::specs::release::{Cause, Which};
pub(crate) use node_change::{ForeignReport, NodeChange};
pub(crate) use offer::{Frame, Offering, RowKey, RowUpdate};
pub(crate) use op::{
    ClaimAnswer, DueOp, Existing, GangOp, ManyEnd, NoVictims, Op, PreemptionOp, ReservationOp,
    StartTime,
};
pub(crate) use placement::{PlaceAnswer, Placement, Takes};
pub(crate) use slots::{QueueSlot, RowSlot};
pub(crate) use survey::{AwaitsAnswers, Route, Survey, Surveyed, Surveyor};
pub(crate) use visit::{Climbing, Consequences, Gathered, NewMembers, NodeWork, Resume};
