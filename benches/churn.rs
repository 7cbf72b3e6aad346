//! Gangs that start and end all the time: stability of latency and memory.
//!
//! `cargo bench --bench churn -- [SECONDS]` starts 10,000 members per second in gangs of 20, and
//! ends as many, for some seconds (default 20; a long run is 600). Half of the gangs are declared,
//! and their members ask right after the application. The others ask for placeholders first. Each
//! gang lives for half a second after its last member was allocated. Then its members are released
//! and its application is removed. In process, on 1,000 nodes, of which the gangs use about a half.
//!
//! For each third of the time it prints the time from the submission of a gang to the allocation of
//! its last member, the CPU time, and the memory in use at the end of the third. The scheduler
//! keeps at most 1,000 ended applications here, instead of 10,000, and the five seconds before the
//! first third are not counted: after them all bounded collections are full. See
//! docs/performance.md for the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_possible_truncation)]
#![allow(clippy::cast_sign_loss, missing_docs)]

mod allocator;
mod shim;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle, Threads};
use monoceros_proto::si::v1 as si;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use crate::shim::{cpu_time, resident_kib, resource};

const PER_SECOND: usize = 10_000;
const MEMBERS: usize = 20;
const TICK: Duration = Duration::from_millis(10);
const GANGS_PER_TICK: usize = PER_SECOND / MEMBERS / 100;
const LIFE: Duration = Duration::from_millis(500);
const WARM_UP: Duration = Duration::from_secs(5);
const SECONDS: u64 = 20;
const NODES: usize = 1_000;
const MEMBER: [(&str, i64); 2] = [("memory", 10), ("vcore", 1)];
const GROUP: &str = "workers";
const CONFIG: &str = "partitions:\n- name: default\n  queues:\n  - name: root\n    submitacl: '*'\n    \
                      queues:\n    - {name: jobs, properties: {application.sort.policy: fifo}}\n";

/// The next action of the resource manager.
enum Next {
    /// The placeholders of this gang are allocated: its members ask.
    Ask(usize),
    /// All members of this gang have been allocated since this time. The gang was submitted this
    /// long before it.
    Runs(usize, Instant, Duration),
    /// The scheduler waits for confirmation of these releases.
    Confirm(Vec<si::AllocationRelease>),
}

/// A gang whose members are not all allocated.
struct Gang {
    submitted: Instant,
    placeholders_missing: usize,
    members_missing: usize,
}

struct ChurnShim {
    gangs: Mutex<BTreeMap<usize, Gang>>,
    next: mpsc::UnboundedSender<Next>,
}

impl ResourceManagerCallback for ChurnShim {
    fn update_allocation(&self, response: si::AllocationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
        let mut gangs = self.gangs.lock().unwrap();
        for allocation in response.new {
            let number = number_of(&allocation.application_id);
            let Some(gang) = gangs.get_mut(&number) else { continue };
            if allocation.placeholder {
                gang.placeholders_missing -= 1;
                if gang.placeholders_missing == 0 {
                    let _ = self.next.send(Next::Ask(number));
                }
                continue;
            }
            gang.members_missing -= 1;
            if gang.members_missing == 0 {
                let (now, submitted) = (Instant::now(), gang.submitted);
                gangs.remove(&number);
                let _ = self.next.send(Next::Runs(number, now, now - submitted));
            }
        }
        let mut to_confirm = response.released;
        let replaced = si::TerminationType::PlaceholderReplaced as i32;
        to_confirm.retain(|release| release.termination_type == replaced);
        if !to_confirm.is_empty() {
            let _ = self.next.send(Next::Confirm(to_confirm));
        }
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
    }

    fn update_node(&self, response: si::NodeResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected.first());
    }
}

/// Counts of times by range. Each range is a twentieth longer than the previous one, so the memory
/// does not grow.
struct Histogram {
    counts: Vec<u64>,
    most: Duration,
}

impl Histogram {
    const FACTOR: f64 = 1.05;

    fn new() -> Self {
        Self { counts: vec![0; 512], most: Duration::ZERO }
    }

    fn add(&mut self, time: Duration) {
        let micros = (time.as_secs_f64() * 1e6).max(1.0);
        let range = (micros.ln() / Self::FACTOR.ln()) as usize;
        let last = self.counts.len() - 1;
        self.counts[range.min(last)] += 1;
        self.most = self.most.max(time);
    }

    fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the time, in milliseconds, that this share of the counted times does not exceed.
    fn at(&self, share: f64) -> f64 {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut so_far = 0;
        for (range, count) in self.counts.iter().enumerate() {
            so_far += count;
            if so_far >= wanted {
                return Self::FACTOR.powf(range as f64 + 1.0) / 1e3;
            }
        }
        0.0
    }
}

/// The resource manager.
struct Churn {
    scheduler: SchedulerHandle,
    shim: Arc<ChurnShim>,
    submitted: usize,
    /// Running gangs, with their start.
    running: VecDeque<(usize, Instant)>,
    /// Applications whose members were released in the last tick.
    over: Vec<usize>,
    asks: Vec<si::AllocationAsk>,
    releases: Vec<si::AllocationRelease>,
    took: Histogram,
}

impl Churn {
    async fn start(next: mpsc::UnboundedSender<Next>) -> Self {
        let builder = Scheduler::builder().threads(Threads::PerPartition);
        let scheduler = builder.ended_applications(1_000).start().unwrap();
        let shim = Arc::new(ChurnShim { gangs: Mutex::default(), next });
        let request = si::RegisterResourceManagerRequest {
            rm_id: "bench".into(),
            config: CONFIG.into(),
            ..Default::default()
        };
        let callback = Arc::clone(&shim);
        scheduler.register_resource_manager(request, callback).await.unwrap();
        let nodes = (0..NODES).map(|number| si::NodeInfo {
            node_id: format!("node-{number:06}"),
            action: si::node_info::ActionFromRm::Create as i32,
            schedulable_resource: Some(resource(&[("memory", 100), ("vcore", 10)])),
            ..Default::default()
        });
        let nodes = nodes.collect();
        let request = si::NodeRequest { rm_id: "bench".into(), nodes, ..Default::default() };
        scheduler.update_node(request).await.unwrap();
        scheduler.settle().await;
        Self {
            scheduler,
            shim,
            submitted: 0,
            running: VecDeque::new(),
            over: Vec::new(),
            asks: Vec::new(),
            releases: Vec::new(),
            took: Histogram::new(),
        }
    }

    /// Starts gangs, and ends those that have run for long enough.
    async fn tick(&mut self) {
        let now = Instant::now();
        let remove = std::mem::take(&mut self.over).into_iter().map(|number| {
            si::RemoveApplicationRequest { application_id: id_of(number), ..Default::default() }
        });
        let remove = remove.collect();
        let mut new = Vec::with_capacity(GANGS_PER_TICK);
        for number in self.submitted..self.submitted + GANGS_PER_TICK {
            let is_declared = is_declared(number);
            let placeholders_missing = if is_declared { 0 } else { MEMBERS };
            let gang = Gang { submitted: now, placeholders_missing, members_missing: MEMBERS };
            self.shim.gangs.lock().unwrap().insert(number, gang);
            new.push(application(number));
            if is_declared {
                self.asks.extend(asks(number, false));
            } else {
                self.asks.extend(asks(number, true));
            }
        }
        self.submitted += GANGS_PER_TICK;
        let request =
            si::ApplicationRequest { rm_id: "bench".into(), new, remove, ..Default::default() };
        self.scheduler.update_application(request).await.unwrap();
        while let Some((number, since)) = self.running.front().copied() {
            if now.saturating_duration_since(since) < LIFE {
                break;
            }
            self.running.pop_front();
            self.releases.extend((0..MEMBERS).map(|member| si::AllocationRelease {
                application_id: id_of(number),
                allocation_key: key_of(number, member, false),
                termination_type: si::TerminationType::StoppedByRm as i32,
                ..Default::default()
            }));
            self.over.push(number);
        }
        self.flush().await;
    }

    async fn flush(&mut self) {
        if self.asks.is_empty() && self.releases.is_empty() {
            return;
        }
        let releases = si::AllocationReleasesRequest {
            allocations_to_release: std::mem::take(&mut self.releases),
            ..Default::default()
        };
        let request = si::AllocationRequest {
            rm_id: "bench".into(),
            asks: std::mem::take(&mut self.asks),
            releases: Some(releases),
            ..Default::default()
        };
        self.scheduler.update_allocation(request).await.unwrap();
    }

    fn take(&mut self, next: Next) {
        match next {
            Next::Ask(number) => self.asks.extend(asks(number, false)),
            Next::Runs(number, since, took) => {
                self.took.add(took);
                self.running.push_back((number, since));
            }
            Next::Confirm(releases) => self.releases.extend(releases),
        }
    }
}

fn is_declared(number: usize) -> bool {
    number.is_multiple_of(2)
}

fn id_of(number: usize) -> String {
    format!("app-{number}")
}

fn number_of(id: &str) -> usize {
    id["app-".len()..].parse().unwrap()
}

fn key_of(number: usize, member: usize, placeholder: bool) -> String {
    let kind = if placeholder { "place" } else { "member" };
    format!("{kind}-{number}-{member}")
}

fn application(number: usize) -> si::AddApplicationRequest {
    let members = i32::try_from(MEMBERS).unwrap();
    let group = si::TaskGroup {
        name: GROUP.into(),
        min_members: members,
        member: Some(resource(&MEMBER)),
        ..Default::default()
    };
    let total = MEMBER.map(|(name, each)| (name, each * i64::from(members)));
    let is_declared = is_declared(number);
    si::AddApplicationRequest {
        application_id: id_of(number),
        queue_name: "root.jobs".into(),
        ugi: Some(si::UserGroupInformation { user: "bench".into(), groups: vec![] }),
        task_groups: if is_declared { vec![group] } else { vec![] },
        placeholder_ask: (!is_declared).then(|| resource(&total)),
        ..Default::default()
    }
}

fn asks(number: usize, placeholder: bool) -> impl Iterator<Item = si::AllocationAsk> {
    (0..MEMBERS).map(move |member| si::AllocationAsk {
        allocation_key: key_of(number, member, placeholder),
        application_id: id_of(number),
        resource_ask: Some(resource(&MEMBER)),
        max_allocations: 1,
        placeholder,
        task_group_name: GROUP.into(),
        ..Default::default()
    })
}

/// Starts and ends gangs until the time `until`.
async fn churn(churn: &mut Churn, next: &mut mpsc::UnboundedReceiver<Next>, until: Instant) {
    let mut ticks = tokio::time::interval(TICK);
    // Missed ticks are made up for, so that the rate is constant.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    while Instant::now() < until {
        tokio::select! {
            _ = ticks.tick() => churn.tick().await,
            Some(first) = next.recv() => {
                churn.take(first);
                while let Ok(more) = next.try_recv() {
                    churn.take(more);
                }
                churn.flush().await;
            }
        }
    }
}

#[tokio::main]
async fn main() {
    let seconds = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(SECONDS);
    let (sender, mut next) = mpsc::unbounded_channel();
    let mut load = Churn::start(sender).await;
    churn(&mut load, &mut next, Instant::now() + WARM_UP).await;
    println!(
        "| third of {seconds} s | gangs | members/s | p50 ms | p99 ms | p99.9 ms | worst ms | CPU µs \
         per member | memory then, MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    println!("| begin | | | | | | | | {:.1} |", resident_kib() as f64 / 1024.0);
    for third in ["first", "second", "last"] {
        load.took = Histogram::new();
        let (start, cpu) = (Instant::now(), cpu_time());
        churn(&mut load, &mut next, start + Duration::from_secs(seconds) / 3).await;
        let (wall, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
        let gangs = load.took.count();
        let members = (gangs * MEMBERS as u64) as f64;
        println!(
            "| {third} | {gangs} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} |",
            members / wall.as_secs_f64(),
            load.took.at(0.5),
            load.took.at(0.99),
            load.took.at(0.999),
            load.took.most.as_secs_f64() * 1e3,
            cpu.as_secs_f64() * 1e6 / members,
            resident_kib() as f64 / 1024.0,
        );
    }
    let waiting = load.shim.gangs.lock().unwrap().len();
    println!("\n{waiting} gangs have yet to get their members");
    load.scheduler.shutdown().await;
}
