//! Claims of a cluster: the rules by which one of its members serves a resource manager (RM).
//!
//! Several processes, the *members*, form one scheduler. Each RM has one *owner* among them, named
//! by its *claim* in an existing coordination store, the *arbiter* (etcd, or the API server of
//! Kubernetes). Nothing is replicated: a new owner hears all it needs from the RM itself.
//!
//! This crate has the rules of being alive, claiming, handing over and being fenced as one state
//! machine, [`Member`]. It does no I/O and reads no clock: events come in with the time, effects go
//! out, and requests to the arbiter are data ([`Request`]). So a model checker runs the same code
//! that a service runs (`model`, in the tests), through every order of events within its bounds.
//!
//! # Promises
//! * A member decides only by a compare-and-set that it won.
//! * At most one member decides for an RM and is listened to by it. The exceptions are two
//!   processes of one RM of which one stays with an owner that stood still between its look at the
//!   clock and its write, whose answers were still under way, or whose clock stood still; and an RM
//!   that gives its proof to another process.
//! * The epoch of an RM never goes back. After a restored backup that holds from one lease
//!   after its acceptance on.
//! * Once faults have ended, an RM that registers is served.
//!
//! # How it is driven
//! Pass [`Event::Wake`] several times in each [`Timing::renew`], every reply of the arbiter, and
//! whatever else happens. Carry out the effects in their order. Ask [`Member::may_decide`] before
//! each hand-over of decisions to an RM.
//!
//! ```
//! use monoceros_cluster::{
//!     Details, Effect, Event, Incarnation, Member, MemberId, Operation, Owner, Reply, Request,
//!     Revision, Snapshot, Timing, Version,
//! };
//!
//! let second = 1_000_000_000;
//! let me = Owner { member: MemberId("a".into()), incarnation: Incarnation(7) };
//! let mut member = Member::new(me, Details::default(), Timing::new(5 * second).unwrap());
//!
//! // It looks for a record of its own id, writes one, and reads all records.
//! let wake = Event::Wake { front_answers: true };
//! assert!(matches!(member.handle(0, wake)[..], [Effect::Ask(_, Request::Read(_))]));
//! let reply = |reply| Event::Reply(Operation::Renewal, reply);
//! let effects = member.handle(1, reply(Reply::Read(None, Revision(1))));
//! assert!(matches!(effects[..], [Effect::Ask(_, Request::CompareAndSet { .. })]));
//! let effects = member.handle(2, reply(Reply::Won(Version(2), Revision(2))));
//! assert_eq!(effects, [Effect::Ask(Operation::Renewal, Request::ReadAll)]);
//! let all = Snapshot { revision: Revision(2), ..Snapshot::default() };
//! assert_eq!(member.handle(3, reply(Reply::All(all))), [Effect::Ready]);
//!
//! // Without another renewal it stops before others may depose it.
//! assert!(member.may_decide(4 * second));
//! assert!(!member.may_decide(5 * second));
//! ```

mod arbiter;
mod groups;
mod hand_over;
mod long_silence;
mod member;
#[cfg(test)]
mod model;
mod names;
mod observed;
mod records;
mod registration;
mod renewal;
mod restore;
mod rules;
mod spread;
mod tasks;
mod timing;
mod verdict;

pub use crate::arbiter::{Reply, Request, Snapshot};
pub use crate::groups::{
    Checksum, Configuration, GroupId, Judgement, MAX_EARLIER, MAX_PACKED, MAX_SOURCE, MAX_TEXT,
    Occasion, Offer, TooLarge,
};
pub use crate::member::{Effect, EndReason, Event, Forwarded, Member, Operation, Session, Status};
pub use crate::names::{
    Epoch, Incarnation, MemberId, Nanos, Owner, ProofHash, Revision, RmId, Version,
};
pub use crate::records::{Claim, Details, Era, Holder, Key, Life, MemberRecord, Record, Versioned};
pub use crate::spread::less_loaded;
pub use crate::tasks::Refusal;
pub use crate::timing::{LeaseTooShort, Timing};
pub use crate::verdict::{CallId, Registration};
