//! Applications that show why requests are pending: a queue that always wants more than its quota,
//! with a user at the limit; short report jobs, whose queue takes back its guarantee from its
//! neighbour; a container for which a node is reserved; one too large for any node; and two
//! applications that are rejected.
//!
//! # Invariants
//! * The number of applications is bounded: none is submitted while the existing ones of its kind
//!   want more than a fixed number of cores (`Show::most`).

use std::time::Duration;

use super::job::JobKind;

/// A kind of application, with the times of its submission.
struct Show {
    kind: JobKind,
    /// Time of the first submission, and the interval of later ones, in seconds.
    first: u64,
    every: u64,
    /// Most cores that existing applications of this kind may want. While they want more, none is
    /// submitted.
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

/// The next submission of each kind.
#[derive(Debug)]
pub(super) struct Contention([Duration; SHOWS.len()]);

impl Contention {
    /// Starts the times of all kinds with the cluster.
    pub(super) fn new() -> Self {
        Self(SHOWS.map(|show| Duration::from_secs(show.first)))
    }

    /// Returns the kinds to submit now. `wanted` returns the cores that existing applications of a
    /// kind want.
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
