//! What became of all work in one replay. Times are milliseconds since the image.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::durations::DurationCounts;
use super::usage::{Held, Whose};
use crate::replay::grounds::Grounds;

/// One replay.
#[derive(Debug)]
pub(super) struct History {
    pub(super) applications: Vec<AppHistory>,
    /// Those of the image come first, and in the order of the image.
    pub(super) works: Vec<WorkHistory>,
    /// All starts, in order.
    pub(super) starts: Vec<Start>,
    pub(super) evictions: Vec<Eviction>,
    /// The run times of what ran at the image, and of what started.
    pub(super) running: DurationCounts,
    pub(super) started: DurationCounts,
    pub(super) held: BTreeMap<Whose, Held>,
    /// Why work waits at the end, by its number.
    pub(super) reasons: BTreeMap<usize, Reason>,
    /// Nodes and applications that were refused, with the reason.
    pub(super) refused: Vec<String>,
    /// The number of requests whose predicates are unknown, so that they pass. `None`: those of all.
    pub(super) unknown_asks: Option<usize>,
}

/// An application.
#[derive(Clone, Debug)]
pub(super) struct AppHistory {
    /// The partition, without the prefix of the RM.
    pub(super) partition: Arc<str>,
    pub(super) id: Arc<str>,
    pub(super) queue: Arc<str>,
    pub(super) user: Arc<str>,
}

/// A request, by its key, with all its allocations.
#[derive(Clone, Debug)]
pub(super) struct WorkHistory {
    /// The number of its application.
    pub(super) application: usize,
    pub(super) key: Arc<str>,
    /// The number of allocations that were pending at the image, or were submitted.
    pub(super) pending: u32,
    /// The starts of these.
    pub(super) starts: Vec<i64>,
    /// The allocations that still wait at the end: those, and what was evicted.
    pub(super) waiting: u32,
    /// Why the scheduler refused the request.
    pub(super) refused: Option<String>,
    /// Whether the question has submitted it.
    pub(super) is_submitted: bool,
}

/// A start of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) at: i64,
    pub(super) work: usize,
    /// The time from the request until the start. Before the image, too.
    pub(super) wait: i64,
    /// Whether it replaces an allocation that was evicted or lost its node.
    pub(super) is_again: bool,
}

/// The end of an allocation that would have gone on.
#[derive(Clone, Debug)]
pub(super) struct Eviction {
    pub(super) at: i64,
    pub(super) work: usize,
    pub(super) node: Arc<str>,
    pub(super) cause: Cause,
    /// What the scheduler says.
    pub(super) why: String,
    /// How long the allocation had run.
    pub(super) ran: i64,
    /// Whether its work is asked for anew.
    pub(super) is_asked_anew: bool,
    /// When its work starts again.
    pub(super) again: Option<i64>,
    /// Whether the allocation ended by itself before it had to leave.
    pub(super) is_void: bool,
}

/// Why an allocation was evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// It was preempted.
    Preempted(Grounds),
    /// Its node was removed.
    NodeRemoved,
}

/// Why a request waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) why: String,
    pub(super) cure: String,
    pub(super) gang: String,
}
