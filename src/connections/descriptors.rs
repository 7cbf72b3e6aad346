//! What the file descriptors that the process may have are for: connections, threads of partitions,
//! and the rest.
//!
//! # Why
//! A process without a descriptor left takes no connection, reads no certificate and writes no file; a
//! probe of health then waits until it gives up. So connections and threads are bounded below what the
//! system allows, each by a part of its own, and the soft limit is raised to the hard one first, which
//! is what it is for.

use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::{info, warn};

use super::places::Limits;

/// Left free for files, look-ups of users, and what libraries open.
const OTHERS: usize = 32;

/// One part in so many is for threads of partitions.
const THREADS_PART: usize = 4;

/// How many a thread of partitions takes: those of its runtime.
const PER_THREAD: usize = 4;

/// What is counted as open where the system does not say.
const OPEN_ALREADY: usize = 32;

/// No more are asked for: each costs the kernel some memory.
const MOST: u64 = 65_536;

/// Those that the process may have, if the system says.
#[derive(Clone, Copy, Debug)]
pub struct Descriptors(Option<usize>);

impl Descriptors {
    /// As many as the process may ask for.
    pub fn raised() -> Self {
        Self(raised())
    }

    /// How many threads they suffice for; none if nobody knows.
    pub fn partition_threads(self) -> Option<usize> {
        self.0.map(threads_of)
    }

    /// `wanted` of each edge, as far as they suffice.
    pub fn fitting(self, wanted: [Limits; 2]) -> [Limits; 2] {
        let Some(allowed) = self.0 else { return wanted };
        let open = fs::read_dir("/proc/self/fd").map_or(OPEN_ALREADY, Iterator::count);
        let others = OTHERS + threads_of(allowed) * PER_THREAD;
        let free = allowed.saturating_sub(open + others);
        let fitting = shared(wanted, free);
        if fitting != wanted {
            warn!(
                descriptors = allowed,
                grpc = fitting[0].served,
                rest = fitting[1].served,
                "fewer connections are served than the settings say: too few file descriptors (ulimit -n)"
            );
        }
        fitting
    }
}

fn threads_of(allowed: usize) -> usize {
    (allowed / THREADS_PART / PER_THREAD).max(1)
}

/// Each gets what it wants, or its part of what there is.
fn shared(wanted: [Limits; 2], free: usize) -> [Limits; 2] {
    let half = free / 2;
    let [grpc, rest] = wanted.map(|limits| limits.in_all());
    // What one does not need, the other may have.
    let of_grpc = half.max(free.saturating_sub(rest)).min(grpc);
    let of_rest = free.saturating_sub(of_grpc);
    [wanted[0].within(of_grpc), wanted[1].within(of_rest)]
}

/// How many descriptors the process may have, after asking for as many as it may ask for.
fn raised() -> Option<usize> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let wanted = hard.min(MOST).max(soft);
    let allowed = match setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) {
        Ok(()) => wanted,
        Err(error) => {
            info!(%error, "the limit of file descriptors stays as it is");
            soft
        }
    };
    Some(usize::try_from(allowed).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_are_halved_and_what_one_edge_does_not_need_the_other_gets() {
        let usual = Limits::serving(1_024);
        let small = Limits { spare: 1, newcomers: 1, ..Limits::serving(8) };
        assert_eq!(shared([usual; 2], 10_000), [usual; 2]);
        let [grpc, rest] = shared([usual; 2], 72);
        assert_eq!((grpc.in_all(), rest.in_all()), (36, 36));
        let [grpc, rest] = shared([usual, small], 100);
        assert_eq!((grpc.in_all(), rest), (90, small));
        let [grpc, rest] = shared([small, usual], 100);
        assert_eq!((grpc, rest.in_all()), (small, 90));
    }
}
