//! The decisions, as rules.
//!
//! # Why a module of its own
//! These rules are what the scheduler is for. Each rule takes the facts that it needs, changes
//! nothing, and returns a value that names what to do; actors carry it out. So each rule can be
//! tested with a few lines of plain values, and a new kind of decision (pairs, reservations, gangs,
//! constraints, preemption) is one more rule here.
//!
//! | rule | decides |
//! |---|---|
//! | [`attempt`] | which ask of an application is placed on which node |
//! | [`at_reserved`] | where an ask that has a node reserved is placed |
//! | [`bundle`] | which members of a gang are placed on which nodes, all of them or none |
//! | [`explain`] | why an ask waits, with figures, and what would let it run |
//! | [`gang`] | whether and where places for all members of an undecided gang are searched for |
//! | [`in_flight`] | what follows from answers about members of a gang, which are all in flight at once |
//! | [`lending`] | which asks may use a node that another ask has reserved |
//! | [`pairs`] | which ask takes the place of which placeholder |
//! | [`predicates`] | whether a placement whose predicate is answered later is settled |
//! | [`preemption`] | which allocations are evicted, for a guarantee, a daemon or a quota |
//! | [`scale_up`] | for which asks more machines would help |
//! | [`reservations`] | which ask reserves a node, and until when |
//! | [`quota_timer`] | when a queue above a lowered maximum starts to evict |

pub mod at_reserved;
pub mod attempt;
pub mod bundle;
pub mod explain;
pub mod gang;
pub mod in_flight;
pub mod lending;
pub mod pairs;
pub mod predicates;
pub mod preemption;
pub mod quota_timer;
pub mod reservations;
pub mod scale_up;
