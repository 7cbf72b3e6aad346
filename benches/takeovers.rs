//! Takeovers in a cluster of three members: how long resource managers are not served after a
//! fault, by its cause and by the kind of client; and how many asks are lost or placed twice.
//!
//! `cargo bench --bench takeovers` measures 1,000, in about an hour; `-- 100` another number,
//! `-- 100 17` with the seed 17. Needs etcd: `MONOCEROS_ETCD_PACKAGED=PROGRAM` names it, and
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
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<u64>().ok());
    let takeovers = usize::try_from(numbers.next().unwrap_or(1_000)).unwrap();
    let seed = numbers.next().unwrap_or_else(|| u64::from(std::process::id()));
    let lease = std::time::Duration::from_secs(5);
    let plan = play::Plan { seed, lease, takeovers, is_short: false, only: None };
    eprintln!("seed {seed}");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(outcome) = runtime.block_on(play::play(&plan)) else {
        return std::process::ExitCode::FAILURE;
    };
    let (samples, verdict) = (&outcome.samples, &outcome.verdict);
    println!("{}", play::figures::table(samples, &outcome.faults));
    println!("| all | all | {} | | | |", samples.len());
    println!("| lost: {}, doubled: {} | | | | | |", verdict.lost.len(), verdict.doubled.len());
    if verdict.is_good() {
        let n_faults: usize = outcome.faults.values().sum();
        eprintln!("{n_faults} faults, {} allocations", outcome.n_allocations);
        return std::process::ExitCode::SUCCESS;
    }
    eprintln!("{verdict}\n{}", outcome.account);
    std::process::ExitCode::FAILURE
}
