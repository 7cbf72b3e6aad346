//! Preemption for a guarantee: how fast a queue gets its guarantee back, and the cost to others of
//! requests that want to preempt and cannot.
//!
//! `cargo bench --bench preemption -- [FILTER]`, in process. 500 nodes are full: 4,000 allocations
//! of one application, in a queue without a guarantee.
//!
//! *reclaim*: 4,000 requests arrive in a queue that is guaranteed everything, old enough to
//! preempt. The resource manager confirms each batch of victims on receipt. Wall and CPU time are
//! from the first request sent to the last allocation received.
//!
//! *in vain*: nothing may be preempted, and 4,000 requests that would preempt are pending. They
//! search for victims a second after their arrival, which is measured separately. Afterwards
//! another client asks for one allocation every two milliseconds, on nodes that are too small for
//! the pending requests, and releases it on receipt. The latency is measured from the send. The
//! time is slightly more than twice the 15 seconds after which an unsuccessful request searches
//! again, so each searches at most twice. Searches are counted from the engine's log lines. See
//! docs/performance.md for the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod aims;
mod allocator;
mod shim;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle, Threads};
use monoceros_proto::si::v1 as si;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber, span};

use crate::aims::at_most;
use crate::shim::{Clock, median, resource};

const NODES: usize = 500;
const HELD: usize = 4_000;
/// Nodes for the client that does not preempt, each for one allocation.
const SPARE: usize = 200;
const SMALL: [(&str, i64); 2] = [("memory", 10), ("vcore", 1)];
/// More than a spare node has.
const LARGE: [(&str, i64); 2] = [("memory", 20), ("vcore", 2)];
const RUNS: usize = 5;
const TICK: Duration = Duration::from_millis(2);
const MEASURED: Duration = Duration::from_secs(32);
/// Time after which all pending requests have searched once.
const FIRST: Duration = Duration::from_secs(3);
const IMPORTANT: i32 = 1_000_000;

/// Differences between the preempting requests.
#[derive(Clone, Copy, Debug)]
enum Askers {
    /// All are equal, in one application.
    Alike,
    /// All are equal, in a hundred applications.
    InApplications,
    /// Each has another priority.
    Different,
}

impl Askers {
    const ALL: [Self; 3] = [Self::Alike, Self::InApplications, Self::Different];

    fn name(self) -> &'static str {
        match self {
            Self::Alike => "alike, in one application",
            Self::InApplications => "alike, in 100 applications",
            Self::Different => "of 4,000 priorities",
        }
    }

    fn applications(self) -> usize {
        if matches!(self, Self::InApplications) { 100 } else { 1 }
    }

    fn priority(self, number: usize) -> i32 {
        if matches!(self, Self::Different) { i32::try_from(number).unwrap() } else { 0 }
    }
}

/// The reason why nothing may be preempted.
#[derive(Clone, Copy, Debug)]
enum Obstacle {
    /// The requests' policy does not let them preempt: they only wait.
    Policy,
    /// The victims' queue is protected.
    Disabled,
    /// The victims' queue has no more than its guarantee.
    Guaranteed,
    /// The running allocations have a higher priority.
    Priority,
}

/// Number of searches for victims without result.
static LOOKS: AtomicU64 = AtomicU64::new(0);

/// Counts the engine's log lines about searches without result, and disables all others.
struct Looks;

impl Subscriber for Looks {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "monoceros_actors::application::preempting"
    }
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }
    fn event(&self, event: &Event<'_>) {
        event.record(&mut Message);
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

struct Message;

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" && format!("{value:?}") == "nothing is preempted" {
            LOOKS.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The next action of the resource manager.
enum Next {
    Allocated(Box<si::Allocation>),
    /// These allocations were preempted: their releases are confirmed.
    Confirm(Vec<si::AllocationRelease>),
}

struct ForwardingCallback(mpsc::UnboundedSender<Next>);

impl ResourceManagerCallback for ForwardingCallback {
    fn update_allocation(&self, response: si::AllocationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
        let mut released = response.released;
        let preempted = si::TerminationType::PreemptedByScheduler as i32;
        released.retain(|release| release.termination_type == preempted);
        if !released.is_empty() {
            let _ = self.0.send(Next::Confirm(released));
        }
        for allocation in response.new {
            let _ = self.0.send(Next::Allocated(Box::new(allocation)));
        }
    }
    fn update_application(&self, response: si::ApplicationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
    }
    fn update_node(&self, response: si::NodeResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
    }
}

struct Full {
    scheduler: SchedulerHandle,
    next: mpsc::UnboundedReceiver<Next>,
}

impl Full {
    /// `batch` is the YAML of the queue whose application holds everything, without its name.
    async fn start(threads: Threads, batch: &str, priority: i32) -> Self {
        let guaranteed = "guaranteed: {memory: 40000, vcore: 4000}";
        let config = format!(
            "partitions: [{{name: default, queues: [{{name: root, submitacl: '*', queues: [\
             {{name: batch, {batch}}}, \
             {{name: owed, resources: {{{guaranteed}}}, properties: {{preemption.delay: 1s}}}}, \
             {{name: other, properties: {{preemption.policy: disabled}}}}]}}]}}]"
        );
        let scheduler = Scheduler::builder().threads(threads).start().unwrap();
        let (sender, next) = mpsc::unbounded_channel();
        let request = si::RegisterResourceManagerRequest {
            rm_id: "bench".into(),
            config,
            ..Default::default()
        };
        scheduler
            .register_resource_manager(request, Arc::new(ForwardingCallback(sender)))
            .await
            .unwrap();
        let mut full = Self { scheduler, next };
        let each = i64::try_from(HELD / NODES).unwrap();
        full.nodes("node", NODES, &SMALL.map(|(name, amount)| (name, amount * each))).await;
        full.application("batch", "root.batch").await;
        let held = |number: usize| si::AllocationAsk { priority, ..ask("held", number, "batch") };
        full.ask((0..HELD).map(held).collect()).await;
        full.hear_of(HELD).await;
        full
    }

    async fn nodes(&self, prefix: &str, count: usize, capacity: &[(&str, i64)]) {
        let node = |number: usize| si::NodeInfo {
            node_id: format!("{prefix}-{number:04}"),
            action: si::node_info::ActionFromRm::Create as i32,
            schedulable_resource: Some(resource(capacity)),
            ..Default::default()
        };
        let nodes = (0..count).map(node).collect();
        let request = si::NodeRequest { rm_id: "bench".into(), nodes, ..Default::default() };
        self.scheduler.update_node(request).await.unwrap();
    }

    async fn application(&self, id: &str, queue: &str) {
        let new = vec![si::AddApplicationRequest {
            application_id: id.into(),
            queue_name: queue.into(),
            ugi: Some(si::UserGroupInformation { user: "bench".into(), groups: vec![] }),
            ..Default::default()
        }];
        let request = si::ApplicationRequest { rm_id: "bench".into(), new, ..Default::default() };
        self.scheduler.update_application(request).await.unwrap();
    }

    async fn ask(&self, asks: Vec<si::AllocationAsk>) {
        for asks in asks.chunks(1_000) {
            let request = si::AllocationRequest {
                rm_id: "bench".into(),
                asks: asks.to_vec(),
                ..Default::default()
            };
            self.scheduler.update_allocation(request).await.unwrap();
        }
    }

    async fn release(&self, allocations_to_release: Vec<si::AllocationRelease>) {
        let releases =
            si::AllocationReleasesRequest { allocations_to_release, ..Default::default() };
        let request = si::AllocationRequest {
            rm_id: "bench".into(),
            releases: Some(releases),
            ..Default::default()
        };
        self.scheduler.update_allocation(request).await.unwrap();
    }

    /// Waits for this many allocations and confirms victims. Returns the number of victims.
    async fn hear_of(&mut self, mut missing: usize) -> usize {
        let mut preempted = 0;
        while missing > 0 {
            match self.next.recv().await.expect("the scheduler is there") {
                Next::Allocated(_) => missing -= 1,
                Next::Confirm(releases) => {
                    preempted += releases.len();
                    self.release(releases).await;
                }
            }
        }
        preempted
    }

    /// Creates the preempting applications and their requests; `tags` belong to each request.
    async fn askers(
        &self,
        askers: Askers,
        size: &[(&str, i64)],
        allow_preempt_other: bool,
        tags: &[(&str, &str)],
    ) -> Vec<si::AllocationAsk> {
        let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let tags: BTreeMap<String, String> = tags.collect();
        for number in 0..askers.applications() {
            self.application(&format!("owed-{number}"), "root.owed").await;
        }
        let one = |number: usize| si::AllocationAsk {
            resource_ask: Some(resource(size)),
            priority: askers.priority(number),
            preemption_policy: Some(si::PreemptionPolicy {
                allow_preempt_self: true,
                allow_preempt_other,
            }),
            tags: tags.clone(),
            ..ask("wants", number, &format!("owed-{}", number % askers.applications()))
        };
        self.scheduler.settle().await;
        (0..HELD).map(one).collect()
    }
}

fn ask(prefix: &str, number: usize, application: &str) -> si::AllocationAsk {
    si::AllocationAsk {
        allocation_key: format!("{prefix}-{number:06}"),
        application_id: application.into(),
        resource_ask: Some(resource(&SMALL)),
        max_allocations: 1,
        ..Default::default()
    }
}

async fn reclaim() {
    println!(
        "| 4,000 requests | own threads, ms, median (best) | CPU ms | one thread, ms, median (best) | \
         CPU ms | victims | aim, ms |\n|---|---|---|---|---|---|---|"
    );
    for askers in Askers::ALL {
        let mut victims = 0;
        let mut columns = String::new();
        for threads in [Threads::PerPartition, Threads::One] {
            let (mut walls, mut cpus) = (Vec::new(), Vec::new());
            for _ in 0..RUNS {
                let mut full = Full::start(threads, "properties: {}", 0).await;
                // With the oldest possible creation time.
                let asks = full.askers(askers, &SMALL, true, &[("creationTime", "1")]).await;
                let clock = Clock::start();
                full.ask(asks).await;
                victims = full.hear_of(HELD).await;
                let took = clock.took();
                walls.push(took.wall.as_secs_f64() * 1e3);
                cpus.push(took.cpu.as_secs_f64() * 1e3);
                full.scheduler.shutdown().await;
            }
            let wall = median(&mut walls);
            let _ = write!(
                columns,
                " {} ({:.0}) | {:.0} |",
                at_most(wall, 500.0, 0),
                walls[0],
                median(&mut cpus)
            );
        }
        println!("| {} |{columns} {victims} | 500 |", askers.name());
    }
}

/// A client that asks for one allocation after another, with the time of each send.
#[derive(Default)]
struct Others {
    sent: BTreeMap<String, Instant>,
    took: Vec<Duration>,
}

impl Others {
    /// Makes and releases allocations for a while.
    async fn come_and_go(&mut self, full: &mut Full) {
        let until = Instant::now() + MEASURED;
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut number = 0;
        while Instant::now() < until || !self.sent.is_empty() {
            tokio::select! {
                _ = ticks.tick(), if Instant::now() < until => {
                    let next = ask("other", number, "other");
                    number += 1;
                    self.sent.insert(next.allocation_key.clone(), Instant::now());
                    full.ask(vec![next]).await;
                }
                next = full.next.recv() => match next.expect("the scheduler is there") {
                    Next::Allocated(allocation) => self.has(full, *allocation).await,
                    Next::Confirm(_) => panic!("nothing may be preempted"),
                },
            }
        }
    }

    async fn has(&mut self, full: &Full, allocation: si::Allocation) {
        let sent = self.sent.remove(&allocation.allocation_key).expect("it was asked for");
        self.took.push(sent.elapsed());
        let release = si::AllocationRelease {
            application_id: allocation.application_id,
            allocation_key: allocation.allocation_key,
            termination_type: si::TerminationType::StoppedByRm as i32,
            ..Default::default()
        };
        full.release(vec![release]).await;
    }
}

async fn in_vain() {
    println!(
        "| 4,000 requests wait | first looks | their CPU, ms | then looks each in 15 s | of others: \
         allocations | p50 µs | p99 µs | worst ms | CPU s in {} s |\n\
         |---|---|---|---|---|---|---|---|---|",
        MEASURED.as_secs(),
    );
    wait_in_vain("nobody", Obstacle::Policy, None).await;
    for (what, obstacle) in [
        ("may not preempt", Obstacle::Policy),
        ("victims of a queue that is protected", Obstacle::Disabled),
        ("victims of a queue within its guarantee", Obstacle::Guaranteed),
        ("victims that are more important", Obstacle::Priority),
    ] {
        for askers in Askers::ALL {
            let name = format!("{what}: {}", askers.name());
            wait_in_vain(&name, obstacle, Some(askers)).await;
        }
    }
}

async fn wait_in_vain(name: &str, obstacle: Obstacle, askers: Option<Askers>) {
    let batch = match obstacle {
        Obstacle::Disabled => "properties: {preemption.policy: disabled}",
        Obstacle::Guaranteed => "resources: {guaranteed: {memory: 40000, vcore: 4000}}",
        Obstacle::Policy | Obstacle::Priority => "properties: {}",
    };
    let priority = if matches!(obstacle, Obstacle::Priority) { IMPORTANT } else { 0 };
    let mut full = Full::start(Threads::PerPartition, batch, priority).await;
    full.nodes("spare", SPARE, &SMALL).await;
    full.application("other", "root.other").await;
    let may = !matches!(obstacle, Obstacle::Policy);
    let asks = match askers {
        Some(askers) => full.askers(askers, &LARGE, may, &[]).await,
        None => Vec::new(),
    };
    full.scheduler.settle().await;
    LOOKS.store(0, Ordering::Relaxed);
    let clock = Clock::start();
    full.ask(asks).await;
    tokio::time::sleep(FIRST).await;
    full.scheduler.settle().await;
    let first = clock.took();
    let first_looks = LOOKS.swap(0, Ordering::Relaxed);
    assert_eq!(first_looks > 0, may && askers.is_some(), "looks are counted");
    let mut others = Others::default();
    let clock = Clock::start();
    others.come_and_go(&mut full).await;
    let took = clock.took();
    let mut micros: Vec<f64> = others.took.iter().map(|it| it.as_secs_f64() * 1e6).collect();
    micros.sort_by(f64::total_cmp);
    let at = |hundredth: usize| micros[(micros.len() * hundredth / 100).min(micros.len() - 1)];
    let each = LOOKS.load(Ordering::Relaxed) as f64 * 15.0 / (HELD as f64 * MEASURED.as_secs_f64());
    println!(
        "| {name} | {first_looks} | {:.0} | {each:.3} | {} | {:.0} | {:.0} | {:.1} | {:.2} |",
        first.cpu.as_secs_f64() * 1e3,
        micros.len(),
        at(50),
        at(99),
        at(100) / 1e3,
        took.cpu.as_secs_f64(),
    );
    full.scheduler.shutdown().await;
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    tracing::subscriber::set_global_default(Looks).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if "reclaim".starts_with(&filter) {
            reclaim().await;
        }
        if "in vain".starts_with(&filter) {
            in_vain().await;
        }
    });
}
