//! What comes to the demo besides its tide, so that a viewer sees who waits and why: a queue that is always
//! wanted more than it has, with a user at the limit; reports that take back what their queue is promised; a
//! container for which a node is kept; one that no node can ever hold; and two that are refused.
//!
//! # Invariants
//! * It is bounded: none of a kind comes while those that are there want more than so many cores.

use std::time::Duration;

use super::job::JobKind;

/// Some applications of a kind.
struct Show {
    kind: JobKind,
    /// When the first one comes, and how often they come from then on, in seconds.
    first: u64,
    every: u64,
    /// None comes while those that are there want more cores.
    most: u64,
}

const SHOWS: [Show; 7] = [
    Show { kind: JobKind::Adhoc, first: 2, every: 9, most: 96 },
    Show { kind: JobKind::Bulk, first: 4, every: 20, most: 20 },
    Show { kind: JobKind::Giant, first: 6, every: 170, most: 0 },
    Show { kind: JobKind::Stray, first: 9, every: 140, most: 0 },
    Show { kind: JobKind::Database, first: 30, every: 120, most: 0 },
    Show { kind: JobKind::Report, first: 34, every: 75, most: 0 },
    Show { kind: JobKind::Swarm, first: 50, every: 160, most: 0 },
];

/// When the next of each kind is due.
#[derive(Debug)]
pub(super) struct Contention([Duration; SHOWS.len()]);

impl Contention {
    /// From the beginning of the cluster on.
    pub(super) fn new() -> Self {
        Self(SHOWS.map(|show| Duration::from_secs(show.first)))
    }

    /// The kinds that come now, where so many cores are wanted by those of a kind that are there.
    pub(super) fn due(&mut self, now: Duration, wanted: impl Fn(JobKind) -> u64) -> Vec<JobKind> {
        let mut come = Vec::new();
        for (Show { kind, every, most, .. }, due) in SHOWS.into_iter().zip(&mut self.0) {
            if now < *due {
                continue;
            }
            *due = now + Duration::from_secs(every);
            if wanted(kind) <= most {
                come.push(kind);
            }
        }
        come
    }
}
