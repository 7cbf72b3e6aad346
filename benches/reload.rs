//! Pause of allocations during a reload of many queues.
//!
//! `cargo bench --bench reload -- [FILTER]`: 5,000 queues on three levels, 10,000 applications with
//! pending asks, in process, with allocations at full rate. The figure is the longest time between
//! two of them while a configuration is applied, compared with the longest in 300 ms without one.
//! See docs/performance.md.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_possible_truncation, missing_docs)]

mod aims;
mod allocator;
mod shim;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::aims::at_most;
use crate::shim::{median, resource};

const PARENTS: usize = 100;
const LEAVES: usize = 49;
const APPLICATIONS: usize = 10_000;
const ASKS: usize = 1_000_000;
const RUNS: usize = 5;
/// The time measured without a reload. With one, it is the reload and half of this.
const PAUSE: Duration = Duration::from_millis(300);

/// Measures the longest time between two answers with allocations.
struct Gaps {
    seen: Mutex<(Instant, Duration)>,
    allocated: AtomicU64,
    first: Notify,
}

impl ResourceManagerCallback for Gaps {
    fn update_allocation(&self, response: si::AllocationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
        let new = response.new.len() as u64;
        if new == 0 {
            return;
        }
        let now = Instant::now();
        {
            let mut seen = self.seen.lock().unwrap();
            let (last, longest) = *seen;
            *seen = (now, longest.max(now.duration_since(last)));
        }
        if self.allocated.fetch_add(new, Ordering::AcqRel) == 0 {
            self.first.notify_one();
        }
    }
    fn update_application(&self, response: si::ApplicationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
    }
    fn update_node(&self, response: si::NodeResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
    }
}

impl Gaps {
    /// Returns the longest time since the last call, and starts again.
    fn take(&self) -> Duration {
        let now = Instant::now();
        let mut seen = self.seen.lock().unwrap();
        let (last, longest) = std::mem::replace(&mut *seen, (now, Duration::ZERO));
        longest.max(now.duration_since(last))
    }
}

/// The difference between consecutive configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The maximum of one leaf.
    One,
    /// The maximum of every leaf.
    All,
    /// The maximum of every leaf and every parent.
    Parents,
    /// 500 queues are added or removed.
    Tree,
    /// 500 leaves without applications become parents, or leaves again.
    Flip,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::One => "the maximum of one leaf",
            Self::All => "the maximum of every leaf",
            Self::Parents => "the maximum of every queue",
            Self::Tree => "500 queues come or go",
            Self::Flip => "500 empty leaves become parents, or the other way",
        }
    }
}

/// Returns the `turn`-th configuration.
fn queues(kind: Kind, turn: usize) -> String {
    let mut text =
        "partitions:\n- queues:\n  - name: root\n    submitacl: '*'\n    queues:\n".to_owned();
    for parent in 0..PARENTS {
        let more = if kind == Kind::Parents { turn } else { 0 };
        let _ = writeln!(text, "    - name: p{parent:03}");
        let _ = writeln!(text, "      resources: {{max: {{memory: {}}}}}", 1_000_000_000 + more);
        let _ = writeln!(text, "      queues:");
        let leaves = if kind == Kind::Tree && turn % 2 == 1 { LEAVES + 5 } else { LEAVES };
        if kind == Kind::Flip {
            let is_parent = turn % 2 == 1;
            for empty in 0..5 {
                let _ = writeln!(text, "      - {{name: e{empty}, parent: {is_parent}}}");
            }
        }
        for leaf in 0..leaves {
            let changes = match kind {
                Kind::One => parent == 50 && leaf == 25,
                Kind::All | Kind::Parents => true,
                Kind::Tree | Kind::Flip => false,
            };
            let memory = 100_000_000 + if changes { turn } else { 0 };
            let _ = writeln!(
                text,
                "      - {{name: q{leaf:02}, resources: {{max: {{memory: {memory}, vcore: 1k}}}}}}"
            );
        }
    }
    text
}

async fn start(kind: Kind) -> (SchedulerHandle, Arc<Gaps>) {
    let scheduler = Scheduler::builder().start().unwrap();
    let gaps = Arc::new(Gaps {
        seen: Mutex::new((Instant::now(), Duration::ZERO)),
        allocated: AtomicU64::new(0),
        first: Notify::new(),
    });
    let request = si::RegisterResourceManagerRequest {
        rm_id: "bench".into(),
        config: queues(kind, 0),
        ..Default::default()
    };
    let callback = Arc::clone(&gaps);
    scheduler.register_resource_manager(request, callback).await.unwrap();
    let new = (0..APPLICATIONS).map(|number| si::AddApplicationRequest {
        application_id: format!("app-{number:05}"),
        queue_name: format!("root.p{:03}.q{:02}", number % PARENTS, number / PARENTS % LEAVES),
        ugi: Some(si::UserGroupInformation { user: "bench".into(), groups: vec![] }),
        ..Default::default()
    });
    let new = new.collect();
    let request = si::ApplicationRequest { rm_id: "bench".into(), new, ..Default::default() };
    scheduler.update_application(request).await.unwrap();
    let wanted = resource(&[("memory", 10), ("vcore", 1)]);
    for from in (0..ASKS).step_by(1_000) {
        let asks = (from..from + 1_000).map(|number| si::AllocationAsk {
            allocation_key: format!("ask-{number:07}"),
            application_id: format!("app-{:05}", number % APPLICATIONS),
            resource_ask: Some(wanted.clone()),
            max_allocations: 1,
            ..Default::default()
        });
        let asks = asks.collect();
        let request = si::AllocationRequest { rm_id: "bench".into(), asks, ..Default::default() };
        scheduler.update_allocation(request).await.unwrap();
    }
    scheduler.settle().await;
    // Added last, so that only decisions follow.
    let nodes = (0..5_000).map(|number| si::NodeInfo {
        node_id: format!("node-{number:04}"),
        action: si::node_info::ActionFromRm::Create as i32,
        schedulable_resource: Some(resource(&[("memory", 10_000), ("vcore", 1_000)])),
        ..Default::default()
    });
    let nodes = nodes.collect();
    let request = si::NodeRequest { rm_id: "bench".into(), nodes, ..Default::default() };
    scheduler.update_node(request).await.unwrap();
    (scheduler, gaps)
}

async fn run(kind: Kind) {
    let (scheduler, gaps) = start(kind).await;
    gaps.first.notified().await;
    sleep(PAUSE).await;
    gaps.take();
    let (mut without, mut with, mut taken, mut rates) = (vec![], vec![], vec![], vec![]);
    for turn in 1..=RUNS {
        let before = gaps.allocated.load(Ordering::Acquire);
        sleep(PAUSE).await;
        without.push(gaps.take().as_secs_f64() * 1e3);
        let config = queues(kind, turn);
        let request = si::UpdateConfigurationRequest { config, ..Default::default() };
        let begun = Instant::now();
        scheduler.update_configuration(request).await.unwrap();
        taken.push(begun.elapsed().as_secs_f64() * 1e3);
        sleep(PAUSE / 2).await;
        with.push(gaps.take().as_secs_f64() * 1e3);
        let told = gaps.allocated.load(Ordering::Acquire) - before;
        rates.push(told as f64 / begun.elapsed().saturating_add(PAUSE).as_secs_f64() / 1e3);
    }
    let all = gaps.allocated.load(Ordering::Acquire);
    assert!(all < ASKS as u64, "the load ended before the measurement");
    println!(
        "| {} | {} ({:.1}) | {:.1} | {:.1} | {:.0} | 10 |",
        kind.name(),
        at_most(median(&mut with), 10.0, 1),
        with.last().unwrap(),
        median(&mut without),
        median(&mut taken),
        median(&mut rates)
    );
    scheduler.shutdown().await;
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    println!(
        "| what changes | longest gap, ms, median (worst) | without a reload, ms | until in force, ms | thousand allocations/s | aim, ms |"
    );
    println!("|---|---|---|---|---|---|");
    for kind in [Kind::One, Kind::All, Kind::Parents, Kind::Tree, Kind::Flip] {
        if filter.is_empty() || format!("{kind:?}").eq_ignore_ascii_case(&filter) {
            runtime.block_on(run(kind));
        }
    }
}
