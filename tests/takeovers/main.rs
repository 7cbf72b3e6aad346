//! Twenty takeovers on a real etcd, of RMs that are under load: none of their asks is lost or
//! placed twice. `cargo bench --bench takeovers` plays a thousand, and measures them. The same in a
//! rolling restart of all members.
//!
//! The seed is printed. Another one, or as many takeovers as one likes:
//!
//! ```sh
//! TAKEOVERS=100 TAKEOVERS_SEED=17 cargo test --test takeovers
//! ```
//!
//! `TAKEOVERS_ONLY=Part,MoveStore` plays faults of these causes alone, as many as `TAKEOVERS` says.
//! `TAKEOVERS_SHOW=1` prints the sessions before each of them.
//!
//! Without etcd, the test prints why in one line, and passes.
#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used)]

#[path = "../harness/mod.rs"]
mod harness;
#[allow(dead_code, unreachable_pub, reason = "the bench and this test use a part each")]
mod play;
#[allow(dead_code, unreachable_pub, reason = "the tests of the store use all of it")]
#[path = "../../cluster/store/tests/etcd/servers.rs"]
mod servers;

use std::time::Duration;

use tokio::sync::Mutex;

use crate::play::faults::Cause;
use crate::play::{Plan, figures, play, rolling};

/// The right to use the machine: a member that gets no processor loses its lease.
static ALONE: Mutex<()> = Mutex::const_new(());

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_ask_is_lost_or_placed_twice_in_twenty_takeovers() {
    let _alone = ALONE.lock().await;
    let seed = number("TAKEOVERS_SEED").unwrap_or(7);
    let takeovers = usize::try_from(number("TAKEOVERS").unwrap_or(20)).unwrap();
    let only = std::env::var("TAKEOVERS_ONLY").ok().map(|names| Cause::named(&names));
    let lease = Duration::from_secs(3);
    let plan = Plan { seed, lease, takeovers, is_short: true, only };
    eprintln!("takeovers: again: TAKEOVERS_SEED={seed} cargo test --test takeovers");
    let Some(outcome) = play(&plan).await else { return };
    eprintln!("{}", figures::table(&outcome.samples, &outcome.faults));
    let n_faults: usize = outcome.faults.values().sum();
    eprintln!("{n_faults} faults, {} allocations", outcome.n_allocations);
    assert!(outcome.verdict.is_good(), "{}\n{}", outcome.verdict, outcome.account);
    assert!(plan.only.is_some() || outcome.samples.len() >= takeovers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_loses_no_ask() {
    let _alone = ALONE.lock().await;
    let lease = Duration::from_secs(3);
    let Some((gaps, outcome)) = rolling::roll(lease, 7, 1).await else { return };
    eprintln!("{}", rolling::table(&gaps));
    assert!(outcome.verdict.is_good(), "{}\n{}", outcome.verdict, outcome.account);
    // A client with a proof waits for nothing but the hand-over.
    let proven = gaps.iter().filter(|(kind, _)| kind.proves());
    let longest = proven.flat_map(|(_, gaps)| gaps).max().unwrap();
    assert!(*longest < lease, "{longest:?}\n{}", outcome.account);
}
