//! Chaos: a resource manager uses every kind of request, while connections are cut, the service is
//! killed, and requests are repeated. At rest, both sides must agree.
//!
//! A seed determines the actions, but not how they coincide with those of the service. `belief` has
//! the resource manager's state, from its requests and answers. `compare` compares it with REST and
//! the state dump. A failure prints the seed and the history. By default the first few seeds are
//! played. For as many as fit into a time, for others, and for a single one:
//!
//! ```sh
//! CHAOS_SECONDS=3600 cargo test --test chaos
//! CHAOS_FROM=1000 cargo test --test chaos
//! CHAOS_SEED=17 cargo test --test chaos oldest
//! ```
//!
//! In a cluster, the same happens to the owner among three members on an etcd. A test without etcd
//! prints why in one line, and passes.
//!
//! `reloads` cuts and kills nothing, but changes a large configuration all the time.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "cluster")]
#[allow(dead_code, unreachable_pub, reason = "takeovers use all of it")]
#[path = "../takeovers/play/bed.rs"]
mod bed;
mod belief;
mod compare;
#[cfg(feature = "cluster")]
#[allow(unreachable_pub, reason = "takeovers share it")]
#[path = "../takeovers/play/connections.rs"]
mod connections;
#[path = "../harness/mod.rs"]
mod harness;
mod oldest;
mod play;
mod reloads;
mod scheduler;
#[cfg(feature = "cluster")]
#[allow(dead_code, unreachable_pub, reason = "the tests of the store use all of it")]
#[path = "../../cluster/store/tests/etcd/servers.rs"]
mod servers;
mod today;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::play::Dialect;
use crate::scheduler::Scheduler;

/// Number of seeds, unless `CHAOS_SECONDS` gives a time.
const SEEDS: u64 = 12;
/// The same in a cluster, whose members take longer to come back.
#[cfg(feature = "cluster")]
const SEEDS_IN_CLUSTER: u64 = 3;

/// A dialect, and the scheduler to which it is spoken.
#[derive(Clone, Copy, Debug)]
struct Setting {
    dialect: Dialect,
    in_cluster: bool,
}

#[cfg_attr(
    not(feature = "cluster"),
    allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "a cluster differs")
)]
impl Setting {
    fn seeds(self) -> u64 {
        #[cfg(feature = "cluster")]
        if self.in_cluster {
            return SEEDS_IN_CLUSTER;
        }
        SEEDS
    }

    /// Starts the scheduler. `None` without etcd, if it needs one.
    async fn scheduler(self) -> Option<Scheduler> {
        #[cfg(feature = "cluster")]
        if self.in_cluster {
            return scheduler::cluster::Members::start().await.map(Scheduler::Cluster);
        }
        Some(Scheduler::alone().await)
    }

    /// Part of the name of its test.
    fn test(self) -> &'static str {
        match self {
            Self { in_cluster: true, dialect: Dialect::Today } => "with_the_library",
            Self { in_cluster: true, dialect: Dialect::Oldest } => "over_one_stream",
            Self { dialect: Dialect::Today, .. } => "three_streams",
            Self { dialect: Dialect::Oldest, .. } => "oldest",
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap())
}

/// Plays [`SEEDS`] seeds, or those that begin within `CHAOS_SECONDS`, two at a time. Stops after a
/// failure.
fn chaos(setting: Setting) {
    let begin = Instant::now();
    let time = number("CHAOS_SECONDS").map(Duration::from_secs);
    let alone = number("CHAOS_SEED");
    let first = alone.or(number("CHAOS_FROM")).unwrap_or(1);
    let (next, has_failed) = (AtomicU64::new(first), AtomicBool::new(false));
    let last = AtomicU64::new(first);
    let play_some = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_over = match (alone, time) {
                (Some(_), _) => seed > first,
                (None, Some(time)) => seed > first && begin.elapsed() > time,
                (None, None) => seed >= first + setting.seeds(),
            };
            if is_over || has_failed.load(Ordering::Relaxed) {
                return;
            }
            play(setting, seed, &has_failed);
            last.fetch_max(seed, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(play_some);
        play_some();
    });
    let (last, took) = (last.into_inner(), begin.elapsed());
    eprintln!("chaos: {setting:?}: seeds {first} to {last} in {took:?}");
}

fn play(setting: Setting, seed: u64, has_failed: &AtomicBool) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let played = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let Some(scheduler) = setting.scheduler().await else { return };
            play::play(setting.dialect, scheduler, seed).await;
        });
    }));
    if let Err(panic) = played {
        has_failed.store(true, Ordering::Relaxed);
        let test = setting.test();
        eprintln!("chaos: failed; again: CHAOS_SEED={seed} cargo test --test chaos {test}");
        resume_unwind(panic);
    }
}

#[test]
fn both_sides_agree_over_three_streams_with_numbers() {
    chaos(Setting { dialect: Dialect::Today, in_cluster: false });
}

#[test]
fn both_sides_agree_over_the_oldest_dialect() {
    chaos(Setting { dialect: Dialect::Oldest, in_cluster: false });
}

#[cfg(feature = "cluster")]
#[test]
fn in_a_cluster_both_sides_agree_over_one_stream() {
    chaos(Setting { dialect: Dialect::Oldest, in_cluster: true });
}

#[cfg(feature = "cluster")]
#[test]
fn in_a_cluster_both_sides_agree_with_the_library() {
    chaos(Setting { dialect: Dialect::Today, in_cluster: true });
}
