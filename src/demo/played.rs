//! Tests of the demo with the scheduler, in one process and in virtual time: its gangs, and the
//! pending, evicted and rejected applications.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::snapshot::ApplicationSnapshot;
use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::TerminationType;

use super::model::{Model, Orders};
use super::{QUEUES, RM_ID, SEED, TICK};

/// Length of the run.
const MINUTES: u64 = 10;

/// Interval between queries of pending applications: a multiple of the tick.
const LOOK: Duration = Duration::from_secs(1);

/// Records the scheduler's messages until the model receives them.
#[derive(Debug, Default)]
struct RecordingCallback(Mutex<Messages>);

#[derive(Debug, Default)]
struct Messages {
    nodes: Vec<si::NodeResponse>,
    applications: Vec<si::ApplicationResponse>,
    allocations: Vec<si::AllocationResponse>,
}

impl ResourceManagerCallback for RecordingCallback {
    fn update_allocation(&self, response: si::AllocationResponse) {
        self.0.lock().unwrap().allocations.push(response);
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        self.0.lock().unwrap().applications.push(response);
    }

    fn update_node(&self, response: si::NodeResponse) {
        self.0.lock().unwrap().nodes.push(response);
    }
}

#[derive(Debug, Default)]
struct Gang {
    members: usize,
    is_declared: bool,
    /// Number of ticks at which it was pending, with some or none of its placeholders.
    waited: u32,
    placeholders_placed: usize,
    replaced: usize,
    /// Number of members that were placed. Placeholders do not count.
    started: usize,
    /// Largest number of members at a time.
    together: usize,
    completed: bool,
}

impl Gang {
    fn of(new: &si::AddApplicationRequest) -> Option<Self> {
        let declared: i32 = new.task_groups.iter().map(|group| group.min_members).sum();
        if declared > 0 {
            let members = usize::try_from(declared).unwrap();
            return Some(Self { members, is_declared: true, ..Self::default() });
        }
        // A placeholder has four cores.
        let cores = new.placeholder_ask.as_ref()?.resources["vcore"].value;
        Some(Self { members: usize::try_from(cores / 4_000).unwrap(), ..Self::default() })
    }

    /// Checks that a declared gang has all of its members or none, and that a gang with
    /// placeholders has no member before all of its placeholders.
    fn look(&mut self, application: &ApplicationSnapshot) {
        let id = &application.application_id;
        let all = application.allocations.len();
        let held = application.allocations.iter().filter(|it| it.placeholder).count();
        if application.application_state == "Accepted" {
            self.waited += 1;
        }
        if self.is_declared && self.together == 0 {
            assert!(all == 0 || all == self.members, "{id} has {all} of {}", self.members);
        }
        if !self.is_declared && self.placeholders_placed < self.members {
            assert_eq!(all, held, "{id} has a member before all of its placeholders");
        }
        self.together = self.together.max(all - held);
    }
}

#[derive(Debug, Default)]
struct Seen {
    gangs: BTreeMap<String, Gang>,
    rejected: Vec<String>,
    /// Kinds of applications with preempted containers.
    preempted: BTreeSet<String>,
    /// Kinds of applications with the causes of their explanations.
    causes: BTreeSet<(String, String)>,
    /// Kinds of applications with a reserved node.
    reserving: BTreeSet<String>,
    /// Kinds of applications that have run.
    ran: BTreeSet<String>,
}

impl Seen {
    fn record_orders(&mut self, orders: &Orders) {
        for new in &orders.new {
            let gang = Gang::of(new).map(|gang| (new.application_id.clone(), gang));
            self.gangs.extend(gang);
        }
    }

    fn record_messages(&mut self, messages: &Messages) {
        for reply in &messages.applications {
            let rejected = reply.rejected.iter();
            self.rejected
                .extend(rejected.map(|it| format!("{}: {}", it.application_id, it.reason)));
            for update in reply.updated.iter().filter(|update| update.state == "Completed") {
                if let Some(gang) = self.gangs.get_mut(&update.application_id) {
                    gang.completed = true;
                }
            }
        }
        for reply in &messages.allocations {
            let rejected = reply.rejected_allocations.iter();
            let rejected = rejected.map(|it| format!("{}: {}", it.allocation_key, it.reason));
            self.rejected.extend(rejected);
            for new in &reply.new {
                self.ran.insert(kind(&new.application_id).to_owned());
                let Some(gang) = self.gangs.get_mut(&new.application_id) else { continue };
                if new.placeholder {
                    gang.placeholders_placed += 1;
                } else {
                    gang.started += 1;
                }
            }
            for released in &reply.released {
                if released.termination_type() == TerminationType::PreemptedByScheduler {
                    self.preempted.insert(kind(&released.application_id).to_owned());
                }
                let gang = self.gangs.get_mut(&released.application_id);
                if let Some(gang) = gang
                    && released.termination_type() == TerminationType::PlaceholderReplaced
                {
                    gang.replaced += 1;
                }
            }
        }
    }
}

/// Returns the prefix of an application's name.
fn kind(application: &str) -> &str {
    application.split('-').next().unwrap_or_default()
}

/// Queries pending applications and their explanations.
async fn look(scheduler: &SchedulerHandle, seen: &mut Seen) {
    for application in scheduler.all_applications("default").await.unwrap() {
        let id = &application.application_id;
        if application.has_reserved {
            seen.reserving.insert(kind(id).to_owned());
        }
        if application.requests.is_empty() {
            continue;
        }
        for entry in scheduler.explain("default", id, 0).await.unwrap() {
            seen.causes.insert((kind(id).to_owned(), entry.cause));
        }
    }
}

async fn send(scheduler: &SchedulerHandle, orders: Orders) {
    let rm_id = || RM_ID.to_owned();
    let Orders { nodes, new, remove, asks, releases } = orders;
    let request = si::NodeRequest { nodes, rm_id: rm_id(), ..Default::default() };
    scheduler.update_node(request).await.unwrap();
    let request = si::ApplicationRequest { new, remove, rm_id: rm_id(), ..Default::default() };
    scheduler.update_application(request).await.unwrap();
    let releases =
        si::AllocationReleasesRequest { allocations_to_release: releases, ..Default::default() };
    let request = si::AllocationRequest {
        allocations: asks,
        releases: Some(releases),
        rm_id: rm_id(),
        ..Default::default()
    };
    scheduler.update_allocation(request).await.unwrap();
}

async fn play() -> Seen {
    let scheduler = Scheduler::builder().epoch_ns(0).start_local().unwrap();
    let callback = Arc::new(RecordingCallback::default());
    let registration = si::RegisterResourceManagerRequest {
        rm_id: RM_ID.to_owned(),
        config: QUEUES.to_owned(),
        ..Default::default()
    };
    scheduler.register_resource_manager(registration, callback.clone()).await.unwrap();
    let mut model = Model::new(SEED);
    let mut seen = Seen::default();
    let start = tokio::time::Instant::now();
    while start.elapsed() < Duration::from_secs(60 * MINUTES) {
        model.tick(start.elapsed());
        loop {
            let orders = model.take_orders();
            if orders == Orders::default() {
                break;
            }
            seen.record_orders(&orders);
            send(&scheduler, orders).await;
            scheduler.settle().await;
            let messages = std::mem::take(&mut *callback.0.lock().unwrap());
            seen.record_messages(&messages);
            messages.nodes.into_iter().for_each(|reply| model.on_nodes(reply));
            messages.applications.into_iter().for_each(|reply| model.on_applications(reply));
            messages.allocations.into_iter().for_each(|reply| model.on_allocations(reply));
        }
        for queue in ["root.gangs.mpi", "root.gangs.training"] {
            for application in scheduler.applications("default", queue).await.unwrap() {
                let gang = seen.gangs.get_mut(&application.application_id).unwrap();
                gang.look(&application);
            }
        }
        if start.elapsed().as_millis().is_multiple_of(LOOK.as_millis()) {
            look(&scheduler, &mut seen).await;
        }
        tokio::time::sleep(TICK).await;
    }
    assert_eq!(scheduler.check_books("default").await.unwrap(), [""; 0]);
    scheduler.shutdown().await;
    seen
}

fn played() -> Seen {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, play())
}

#[test]
fn every_cause_occurs_with_evictions_and_rejections() {
    let seen = played();
    for (kind, cause) in [
        // The quota of the queue, the limit of a user, no node that is large enough, and no free
        // node.
        ("adhoc", "queueQuota"),
        ("bulk", "userQuota"),
        ("giant", "noNode"),
        ("database", "noNode"),
    ] {
        let waited = (kind.to_owned(), cause.to_owned());
        assert!(seen.causes.contains(&waited), "{waited:?}: {:?}", seen.causes);
    }
    assert!(seen.reserving.contains("database"), "{:?}", seen.reserving);
    let mut preempted: Vec<&str> = seen.preempted.iter().map(String::as_str).collect();
    preempted.retain(|kind| *kind != "bulk");
    assert_eq!(
        preempted,
        ["adhoc"],
        "reports take what they are promised from their neighbour alone"
    );
    for kind in ["adhoc", "bulk", "report", "database"] {
        assert!(seen.ran.contains(kind), "{kind}: {:?}", seen.ran);
    }
    assert!(!seen.ran.contains("giant"));
    let refused: BTreeSet<&str> = seen.rejected.iter().map(|rejected| kind(rejected)).collect();
    assert_eq!(refused, ["stray", "swarm"].into(), "{:?}", seen.rejected);
}

#[test]
fn gangs_run_whole_and_some_wait_first() {
    let seen = played();
    for is_declared in [false, true] {
        let admitted = || seen.gangs.iter().filter(|(id, _)| !id.starts_with("swarm"));
        let gangs =
            || admitted().map(|(_, gang)| gang).filter(|gang| gang.is_declared == is_declared);
        let whole = gangs().filter(|gang| gang.together == gang.members).count();
        assert!(whole >= 10, "{whole} ran whole: {seen:?}");
        let ticks = u32::try_from(Duration::from_secs(5).as_millis() / TICK.as_millis()).unwrap();
        let waited =
            gangs().filter(|gang| gang.waited > ticks && gang.together == gang.members).count();
        assert!(waited >= 3, "{waited} of {whole} waited for room: {seen:?}");
        for gang in gangs().filter(|gang| gang.together > 0) {
            assert_eq!(gang.started, gang.members, "{gang:?}");
            let n_placeholders = if is_declared { 0 } else { gang.members };
            assert_eq!(gang.placeholders_placed, n_placeholders, "{gang:?}");
            assert_eq!(gang.replaced, n_placeholders, "{gang:?}");
        }
    }
    let completed = seen.gangs.values().filter(|gang| gang.completed).count();
    assert!(completed >= 5, "{completed} completed: {seen:?}");
}
