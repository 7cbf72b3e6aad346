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
//! `reloads` cuts and kills nothing, but changes a large configuration all the time.
#![allow(clippy::unwrap_used)]

mod belief;
mod compare;
#[path = "../harness/mod.rs"]
mod harness;
mod oldest;
mod play;
mod reloads;
mod today;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::play::Dialect;

/// Number of seeds, unless `CHAOS_SECONDS` gives a time.
const SEEDS: u64 = 12;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap())
}

/// Plays [`SEEDS`] seeds, or those that begin within `CHAOS_SECONDS`, two at a time. Stops after a
/// failure.
fn chaos(dialect: Dialect) {
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
                (None, None) => seed >= first + SEEDS,
            };
            if is_over || has_failed.load(Ordering::Relaxed) {
                return;
            }
            play(dialect, seed, &has_failed);
            last.fetch_max(seed, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(play_some);
        play_some();
    });
    let (last, took) = (last.into_inner(), begin.elapsed());
    eprintln!("chaos: {dialect:?}: seeds {first} to {last} in {took:?}");
}

fn play(dialect: Dialect, seed: u64, has_failed: &AtomicBool) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let played = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(play::play(dialect, seed));
    }));
    if let Err(panic) = played {
        has_failed.store(true, Ordering::Relaxed);
        let test = match dialect {
            Dialect::Today => "three_streams",
            Dialect::Oldest => "oldest",
        };
        eprintln!("chaos: failed; again: CHAOS_SEED={seed} cargo test --test chaos {test}");
        resume_unwind(panic);
    }
}

#[test]
fn both_sides_agree_over_three_streams_with_numbers() {
    chaos(Dialect::Today);
}

#[test]
fn both_sides_agree_over_the_oldest_dialect() {
    chaos(Dialect::Oldest);
}
