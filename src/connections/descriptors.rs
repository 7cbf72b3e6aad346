//! The budget of file descriptors: for connections, threads of partitions, and the rest.
//!
//! # Why
//! A process out of descriptors accepts no connections, reads no certificates and writes no files;
//! health probes then run into their timeouts. So connections and threads get fixed shares of what
//! the system allows. The soft limit is first raised to the hard one, as intended for such
//! processes.

use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::{info, warn};

use super::slots::Limits;

/// Reserved for files, user look-ups, and libraries.
const OTHERS: usize = 32;

/// The share of partition threads, as a divisor.
const THREADS_PART: usize = 4;

/// Descriptors of one partition thread: those of its runtime.
const PER_THREAD: usize = 4;

/// Assumed number of open descriptors if the system does not report it.
const OPEN_ALREADY: usize = 32;

/// Upper limit requested: each descriptor costs the kernel memory.
const MOST: u64 = 65_536;

/// The number of descriptors that the process may have, if known.
#[derive(Clone, Copy, Debug)]
pub struct Descriptors(Option<usize>);

impl Descriptors {
    /// Raises the limit as far as the process may.
    pub fn raised() -> Self {
        Self(raised())
    }

    /// The number of partition threads that this allows. `None` if unknown.
    pub fn partition_threads(self) -> Option<usize> {
        self.0.map(threads_of)
    }

    /// Reduces the limits of both edges (gRPC, REST) to the descriptors available.
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

/// Splits the free descriptors between both edges.
fn shared(wanted: [Limits; 2], free: usize) -> [Limits; 2] {
    let half = free / 2;
    let [grpc, rest] = wanted.map(|limits| limits.in_all());
    // An edge may use the share that the other edge does not need.
    let of_grpc = half.max(free.saturating_sub(rest)).min(grpc);
    let of_rest = free.saturating_sub(of_grpc);
    [wanted[0].within(of_grpc), wanted[1].within(of_rest)]
}

/// Raises the soft limit. Returns the limit then in force.
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
    fn edges_share_scarce_descriptors() {
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
