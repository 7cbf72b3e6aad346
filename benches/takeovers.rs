//! Takeovers in a cluster of three members: how long resource managers are not served after a
//! fault, by its cause and by the kind of client; and how many asks are lost or placed twice.
//!
//! `cargo bench --bench takeovers` measures 1,000, in about an hour; `-- 100` another number,
//! `-- 100 17` with the seed 17. `-- rolling` measures 20 rolling restarts of all members; `-- rolling
//! 5 17` as before. Needs etcd: `MONOCEROS_ETCD_PACKAGED=PROGRAM` names it, and
//! `MONOCEROS_ETCD=install` unpacks Debian's. See docs/performance.md.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

#[cfg(feature = "cluster")]
#[path = "../tests/harness/mod.rs"]
mod harness;
#[cfg(feature = "cluster")]
#[allow(dead_code, unreachable_pub, reason = "this benchmark and the test use a part each")]
#[path = "../tests/takeovers/play/mod.rs"]
mod play;
#[cfg(feature = "cluster")]
#[allow(dead_code, unreachable_pub, reason = "the tests of the store use all of it")]
#[path = "../cluster/store/tests/etcd/servers.rs"]
mod servers;

#[cfg(not(feature = "cluster"))]
fn main() {
    eprintln!("built without the feature `cluster`");
}

#[cfg(feature = "cluster")]
fn main() -> std::process::ExitCode {
    let is_rolling = std::env::args().any(|argument| argument == "rolling");
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<u64>().ok());
    let times = numbers.next().unwrap_or(if is_rolling { 20 } else { 1_000 });
    let times = usize::try_from(times).unwrap();
    let seed = numbers.next().unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("seed {seed}");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let outcome = runtime.block_on(async {
        if is_rolling { roll(seed, times).await } else { take_over(seed, times).await }
    });
    let Some(outcome) = outcome else { return std::process::ExitCode::FAILURE };
    let verdict = &outcome.verdict;
    if verdict.is_good() {
        let n_faults: usize = outcome.faults.values().sum();
        eprintln!("{n_faults} faults, {} allocations", outcome.n_allocations);
        return std::process::ExitCode::SUCCESS;
    }
    eprintln!("{verdict}\n{}", outcome.account);
    std::process::ExitCode::FAILURE
}

#[cfg(feature = "cluster")]
const LEASE: std::time::Duration = std::time::Duration::from_secs(5);

/// Prints the table of takeovers.
#[cfg(feature = "cluster")]
async fn take_over(seed: u64, takeovers: usize) -> Option<play::Outcome> {
    let plan = play::Plan { seed, lease: LEASE, takeovers, is_short: false, only: None };
    let outcome = play::play(&plan).await?;
    let (samples, verdict) = (&outcome.samples, &outcome.verdict);
    println!("{}", play::figures::table(samples, &outcome.faults));
    println!("| all | all | {} | | | |", samples.len());
    println!("| lost: {}, doubled: {} | | | | | |", verdict.lost.len(), verdict.doubled.len());
    Some(outcome)
}

/// Prints the table of rolling restarts.
#[cfg(feature = "cluster")]
async fn roll(seed: u64, times: usize) -> Option<play::Outcome> {
    let (gaps, outcome) = play::rolling::roll(LEASE, seed, times).await?;
    let verdict = &outcome.verdict;
    println!("{}", play::rolling::table(&gaps));
    println!("| lost: {}, doubled: {} | | | |", verdict.lost.len(), verdict.doubled.len());
    Some(outcome)
}
