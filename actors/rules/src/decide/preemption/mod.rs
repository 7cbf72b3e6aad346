//! Preemption: which allocations are evicted, so that an ask or a gang gets what its queue is
//! guaranteed, an ask gets the only node on which it may run, or a queue comes back to its maximum.
//!
//! # The words
//! The *preemptor* is the ask, or the gang, that would run. *Candidates* are allocations that may
//! be preempted for it, *victims* those that are. The *fence* is the queue below which a preemptor
//! may have allocations evicted. A *guarantee* is the amount that the configuration guarantees a
//! queue; the *rest* of it is the part that the queue does not use. The amount that victims hold
//! until their RM has confirmed their end is *preempting*. A preemptor gets a *nomination* when its
//! victims are evicted: their capacity is reserved for it.
//!
//! # What is never done
//! * No victim is evicted for a preemptor that cannot run afterwards ([`Planner::plan`],
//!   [`Planner::recheck`]).
//! * No victim is evicted that is not needed, unless the RM adds it.
//! * No queue falls below its guarantee. Only a queue below its own guarantee preempts, never more
//!   than the rest of its guarantee: the nominations of earlier preemptors count as used.
//! * The freed capacity is available to the preemptor alone ([`Nominations`]).
//! * No application loses more allocations than its leaf allows, and none preempts an application
//!   that has just preempted it ([`History`]).
//!
//! # Who calls what, and when
//! For a guarantee, of an ask that found no quota or no node, or of a gang:
//! ```text
//! offer finds nothing ─ Wish::may_try ──── no: the reason is kept, for explain
//!                        │ yes
//! survey, a walk:       Survey::begin(queues, preemptor, now)      says at once if nothing can be taken
//!                       survey.application(…) of leaves that may_lose
//!                       survey.books(books, nominations, …)
//!                       survey.finish() ──▸ Planner
//!                        │
//! without an RM to ask: planner.plan(judge) ──▸ Plan           one member of the class after another:
//!                       …, planner.commit(&plan), plan(…), …   each plan is taken off the survey
//! with one:             Inquiry::begin, next ──▸ Ask(questions), answer(…), …, Done(plan)
//!                        │
//! commit, one step:     if questions were out: a fresh survey, planner.recheck(&plan, judge)
//!                       history.loop_with(winner, &plan.losers): then history.bar, an event, no more
//!                       mark the victims, end the holds, end reservations (Place::cancels),
//!                       reserve Place::node, nominations.make, history.lost
//! confirmation:         nominations.confirmed(victim)
//! placed, refused, …:   nominations.end
//! ```
//! A [`Stale`] plan is made again at once, at most [`PLANNED_ANEW`] times. [`NoPreemption`] is the
//! reason why a try was without result. Except after [`NoPreemption::NodesAreNominated`], the next
//! try may follow once [`TRY_AGAIN`] has passed and there was a change.
//!
//! For a daemon, [`required_node::plan`] and its question; for a maximum that was lowered,
//! [`quota::due`] once a second at most and [`quota::plan`]. A daemon has a nomination of its
//! amount like any preemptor. A quota run has no preemptor, so it makes no nomination.
//!
//! # What it costs
//! A survey costs about as much as sorting the allocations in the queues that may lose some. A plan
//! on it examines few nodes: each node has a bound on the weight of its victims, and the node with
//! the best bound comes first.
//!
//! # A small example
//! ```
//! use monoceros_rules::allocations::{Allocation, AllocationTable};
//! use monoceros_rules::decide::preemption::{
//!     AnyNode, ApplicationFacts, Demand, Claimed, NodeFacts, QueueFacts, Survey,
//! };
//! use monoceros_rules::queues::QueueSettings;
//! use monoceros_rules::specs::ask::AskSpec;
//! use monoceros_rules::values::ids::{NodeSlot, ApplicationSlot};
//! use monoceros_rules::values::resources::Resources;
//! use std::sync::Arc;
//!
//! let vcore = |n| Resources::of(&[("vcore", n)]);
//! let queue = |path, parent, guaranteed: Option<i64>, used| QueueFacts {
//!     path: Arc::from(path),
//!     parent,
//!     guaranteed: guaranteed.map(vcore),
//!     max: None,
//!     capacity: None,
//!     allocated: vcore(used),
//!     preempting: Resources::new(),
//!     nominated: Resources::new(),
//!     settings: QueueSettings::default(),
//! };
//! let queues = [
//!     queue("root", None, None, 10),
//!     queue("root.etl", Some(0), Some(5), 0),
//!     queue("root.adhoc", Some(0), Some(5), 10),
//! ];
//! let (etl, adhoc) = (ApplicationSlot::at(0), ApplicationSlot::at(1));
//! let n1 = NodeSlot::at(0);
//! let mut table = AllocationTable::new();
//! let mut runs = |key, size, created_ns| {
//!     let spec = Arc::new(AskSpec::new(key, vcore(size)));
//!     table.insert(Allocation::new(adhoc, spec, n1, created_ns, created_ns))
//! };
//! let (_old, new) = (runs("old", 5, 1), runs("new", 5, 2));
//!
//! let mut survey = Survey::begin(&queues, Demand::ask(etl, 1, 0, vcore(5)), 0).unwrap();
//! assert!(survey.may_lose(2));
//! survey.application(&ApplicationFacts::of(adhoc, 2));
//! survey.node(&NodeFacts {
//!     slot: n1,
//!     total: vcore(10),
//!     available: Resources::new(),
//!     is_open: true,
//!     claim: Claimed::Free,
//! });
//! table.iter().for_each(|(id, allocation)| survey.allocation(id, allocation));
//! let plan = survey.finish().plan(&AnyNode).unwrap();
//! assert_eq!((plan.places[0].node, plan.victims), (n1, vec![new]));
//! ```
//!
//! [`History`]: crate::pending::history::History
//! [`NoPreemption`]: crate::asks::preemption::NoPreemption
//! [`NoPreemption::NodesAreNominated`]: crate::asks::preemption::NoPreemption::NodesAreNominated
//! [`Nominations`]: crate::pending::nominations::Nominations
//! [`Stale`]: crate::asks::preemption::Stale
//! [`TRY_AGAIN`]: crate::asks::preemption::TRY_AGAIN

mod asking;
mod bounds;
mod choose;
mod chosen;
mod conditions;
mod demand;
mod hierarchy;
mod inquiry;
mod losing;
mod plan;
mod planner;
mod planning;
mod preemptors;
pub mod quota;
mod ranking;
mod recheck;
pub mod required_node;
mod rows;
mod score;
mod solution;
mod survey;
mod taking;
#[cfg(test)]
mod tests;
mod turns;

pub use asking::{Asking, Kind, MayUse, NoVictimsFor};
pub use chosen::{Choice, Chosen};
pub use conditions::Wish;
pub use demand::{AnyNode, Demand, Judge, Trial};
pub use hierarchy::QueueFacts;
pub use inquiry::{Answer, BATCH, Inquiry, Next, Question};
pub use losing::{Loser, Together};
pub use plan::{PLANNED_ANEW, Place, Plan};
pub use planner::Planner;
pub use preemptors::Preemptors;
pub use survey::{
    ApplicationFacts, Claimant, Claimed, DISRUPTION, GroupFacts, NodeFacts, STAYS, STAYS_FOR,
    Survey, goes_as_one, may_be_taken, stays,
};
pub use turns::{Later, ParkedRequest, Turn, Turns};
