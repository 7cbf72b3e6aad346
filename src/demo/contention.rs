//! What comes to the demo besides its tide, so that a viewer sees who waits and why: a queue that is always
//! wanted more than it has, with a user at the limit; reports that take back what their queue is promised; a
//! container for which a node is kept; one that no node can ever hold; and two that are refused.
//!
//! # Invariants
//! * It is bounded: one application of a kind at a time, but for those of the queue that is always full,
//!   which want [`ADHOC_CORES`] and one application more at most.

use std::time::Duration;

use super::job::JobKind;

/// No application comes to the full queue while those that are there want more.
const ADHOC_CORES: u64 = 160;

/// A kind, when the first of it comes, and how often they come from then on; in seconds.
const SHOWS: [(JobKind, u64, u64); 6] = [
    (JobKind::Adhoc, 2, 9),
    (JobKind::Giant, 6, 170),
    (JobKind::Stray, 9, 140),
    (JobKind::Database, 30, 120),
    (JobKind::Report, 34, 75),
    (JobKind::Swarm, 50, 160),
];

/// When the next of each kind is due.
#[derive(Debug)]
pub(super) struct Contention([Duration; SHOWS.len()]);

impl Contention {
    /// From the beginning of the cluster on.
    pub(super) fn new() -> Self {
        Self(SHOWS.map(|(_, first, _)| Duration::from_secs(first)))
    }

    /// The kinds that come now, where so many cores are wanted by those of a kind that are there.
    pub(super) fn due(&mut self, now: Duration, wanted: impl Fn(JobKind) -> u64) -> Vec<JobKind> {
        let mut come = Vec::new();
        for ((kind, _, every), due) in SHOWS.into_iter().zip(&mut self.0) {
            if now < *due {
                continue;
            }
            *due = now + Duration::from_secs(every);
            let most = if kind == JobKind::Adhoc { ADHOC_CORES } else { 0 };
            if wanted(kind) <= most {
                come.push(kind);
            }
        }
        come
    }
}
