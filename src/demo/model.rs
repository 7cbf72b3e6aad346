//! What the demo's resource manager wants: nodes that drain now and then, and applications of three
//! kinds that come, run for a while, and go.
//!
//! The model knows no socket and no clock: time comes in with [`Model::tick`], answers with the
//! `on_…` functions, and what it wants goes out with [`Model::take_orders`]. So hours of it run in
//! a test.
//!
//! # Invariants
//! * State is bounded: at most [`MOST_APPLICATIONS`], each with a bounded number of containers.
//! * What all applications will ever want at a time stays below the tide, which moves between about
//!   60 % and 90 % of the cluster, so that the cluster is busy and never only full.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::TerminationType;
use monoceros_proto::si::v1::node_info::ActionFromRm;
use tracing::{info, warn};

use super::cluster::{CORES, NODES, action, amount, node, node_name, release};
use crate::chance::Chance;

/// No application comes while there are so many.
pub const MOST_APPLICATIONS: usize = 60;

const USERS: [&str; 3] = ["alice", "bob", "carol"];

/// The time from one high tide to the next.
const TIDE: Duration = Duration::from_secs(300);

/// After so long an application that should have completed by itself is removed.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the model wants said to the scheduler.
#[derive(Debug, Default)]
pub struct Orders {
    /// For the node stream.
    pub nodes: Vec<si::NodeInfo>,
    /// For the application stream.
    pub new: Vec<si::AddApplicationRequest>,
    /// For the application stream.
    pub remove: Vec<si::RemoveApplicationRequest>,
    /// For the allocation stream.
    pub asks: Vec<si::Allocation>,
    /// For the allocation stream.
    pub releases: Vec<si::AllocationRelease>,
}

/// The simulated resource manager.
#[derive(Debug)]
pub struct Model {
    now: Duration,
    chance: Chance,
    n_submitted: u64,
    n_retries: u64,
    next_arrival: Duration,
    next_drain: Duration,
    drained: Option<(String, Duration)>,
    applications: BTreeMap<String, Application>,
    orders: Orders,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobKind {
    /// A driver, then a wave of executors; removed when they are done.
    Spark,
    /// Replicas that run until the application is removed.
    Service,
    /// Tasks; the application completes by itself.
    Batch,
}

#[derive(Debug)]
struct Application {
    kind: JobKind,
    /// Cores of one container; each has four times as many GiB of memory.
    cores: u64,
    submitted: Duration,
    /// Containers it will ask for when its first one runs.
    later: u64,
    /// Keys of containers asked for.
    pending: BTreeSet<String>,
    /// Keys of containers that run, each with its end.
    running: BTreeMap<String, Duration>,
    /// The time at which it is removed, whatever it does.
    ends: Duration,
}

/// The container whose end is that of its application.
const DRIVER: &str = "driver";
const FOREVER: Duration = Duration::MAX;

impl Model {
    /// A cluster without applications, whose nodes are the first order.
    pub fn new(seed: u64) -> Self {
        let nodes = (0..NODES).map(node).collect();
        Self {
            now: Duration::ZERO,
            chance: Chance::new(seed),
            n_submitted: 0,
            n_retries: 0,
            next_arrival: Duration::from_secs(1),
            next_drain: Duration::from_secs(45),
            drained: None,
            applications: BTreeMap::new(),
            orders: Orders { nodes, ..Orders::default() },
        }
    }

    /// What is to be said since the last call.
    pub fn take_orders(&mut self) -> Orders {
        mem::take(&mut self.orders)
    }

    /// Time has passed: containers end, applications come, nodes drain and return.
    pub fn tick(&mut self, now: Duration) {
        self.now = now;
        self.end_containers();
        self.end_applications();
        if now >= self.next_arrival {
            self.submit();
        }
        self.drain_or_return();
    }

    /// Says how busy the cluster is.
    pub fn report(&self) {
        let containers =
            |count: fn(&Application) -> usize| self.applications.values().map(count).sum::<usize>();
        info!(
            busy = format_args!("{} %", self.running_cores() * 100 / CORES),
            applications = self.applications.len(),
            running = containers(|application| application.running.len()),
            waiting = containers(|application| application.pending.len()),
            "how busy the cluster is"
        );
    }

    /// Answers of the node stream.
    pub fn on_nodes(&mut self, reply: si::NodeResponse) {
        if !reply.accepted.is_empty() {
            info!(nodes = reply.accepted.len(), "nodes are up");
        }
        for rejected in reply.rejected {
            warn!(node = rejected.node_id, reason = rejected.reason, "node rejected");
        }
    }

    /// Answers of the application stream.
    pub fn on_applications(&mut self, reply: si::ApplicationResponse) {
        for accepted in reply.accepted {
            self.start(&accepted.application_id);
        }
        for rejected in reply.rejected {
            let (id, reason) = (rejected.application_id, rejected.reason);
            self.applications.remove(&id);
            warn!(application = id, reason, "application rejected");
        }
        for update in reply.updated {
            if ["Completed", "Failed", "Expired"].contains(&update.state.as_str())
                && self.applications.remove(&update.application_id).is_some()
            {
                info!(
                    application = update.application_id,
                    state = update.state,
                    "application is over"
                );
            }
        }
    }

    /// Answers and decisions of the allocation stream.
    pub fn on_allocations(&mut self, reply: si::AllocationResponse) {
        for new in reply.new {
            self.run(&new.application_id, &new.allocation_key);
        }
        for rejected in reply.rejected_allocations {
            let (id, key) = (rejected.application_id, rejected.allocation_key);
            if let Some(application) = self.applications.get_mut(&id) {
                application.pending.remove(&key);
            }
            warn!(application = id, key, reason = rejected.reason, "request rejected");
        }
        for released in reply.released {
            self.lose(released);
        }
    }

    fn submit(&mut self) {
        let wanted = self.wanted_cores();
        let tide = self.tide_cores();
        if wanted >= tide || self.applications.len() >= MOST_APPLICATIONS {
            self.next_arrival = self.now + Duration::from_secs(1);
            return;
        }
        // Far from the tide they come faster, so that the cluster soon fills.
        let most = if wanted < tide * 3 / 4 { 1 } else { 4 };
        self.next_arrival = self.now + self.chance.seconds(0, most);
        let (kind, queue, name) = self.chance.one_of(&[
            (JobKind::Spark, "root.spark", "spark"),
            (JobKind::Spark, "root.spark", "spark"),
            (JobKind::Service, "root.services", "service"),
            (JobKind::Batch, "root.batch.team-a", "batch"),
            (JobKind::Batch, "root.batch.team-b", "batch"),
        ]);
        if kind == JobKind::Service && self.wanted_of(JobKind::Service) > CORES / 6 {
            return;
        }
        self.n_submitted += 1;
        let id = format!("{name}-{:05}", self.n_submitted);
        let user = self.chance.one_of(&USERS);
        let application = self.application(kind);
        info!(
            application = id,
            queue,
            user,
            containers = application.later + u64::from(kind == JobKind::Spark),
            "application submitted"
        );
        let ugi = si::UserGroupInformation { user: user.to_owned(), groups: vec![user.to_owned()] };
        self.orders.new.push(si::AddApplicationRequest {
            application_id: id.clone(),
            queue_name: queue.to_owned(),
            partition_name: "default".to_owned(),
            ugi: Some(ugi),
            ..Default::default()
        });
        self.applications.insert(id, application);
    }

    fn application(&mut self, kind: JobKind) -> Application {
        let chance = &mut self.chance;
        let (cores, later, ends) = match kind {
            JobKind::Spark => (chance.one_of(&[2, 4]), chance.between(8, 32), FOREVER),
            JobKind::Service => {
                (4, chance.between(2, 6), self.now.saturating_add(chance.seconds(120, 480)))
            }
            JobKind::Batch => (chance.one_of(&[1, 2]), chance.between(10, 50), FOREVER),
        };
        Application {
            kind,
            cores,
            submitted: self.now,
            later,
            pending: BTreeSet::new(),
            running: BTreeMap::new(),
            ends,
        }
    }

    /// An application was accepted: it asks for its first containers.
    fn start(&mut self, id: &str) {
        let Some(application) = self.applications.get_mut(id) else { return };
        let keys = match application.kind {
            JobKind::Spark => vec![DRIVER.to_owned()],
            JobKind::Service => numbered("replica", mem::take(&mut application.later)),
            JobKind::Batch => numbered("task", mem::take(&mut application.later)),
        };
        self.ask(id, keys);
    }

    fn ask(&mut self, id: &str, keys: Vec<String>) {
        let Some(application) = self.applications.get_mut(id) else { return };
        for key in keys {
            let originator = key == DRIVER;
            let cores = if originator { 1 } else { application.cores };
            application.pending.insert(key.clone());
            self.orders.asks.push(si::Allocation {
                allocation_key: key,
                application_id: id.to_owned(),
                partition_name: "default".to_owned(),
                resource_per_alloc: Some(amount(cores, 4 * cores)),
                originator,
                ..Default::default()
            });
        }
    }

    /// A container got a node.
    fn run(&mut self, id: &str, key: &str) {
        let known = self.applications.get_mut(id);
        let Some(application) = known.filter(|application| application.pending.contains(key))
        else {
            // Of an application that has ended meanwhile.
            self.orders.releases.push(release(id, key, TerminationType::StoppedByRm));
            return;
        };
        application.pending.remove(key);
        let life = match application.kind {
            JobKind::Spark if key == DRIVER => FOREVER,
            JobKind::Spark => self.chance.seconds(20, 60),
            JobKind::Service => FOREVER,
            JobKind::Batch => self.chance.seconds(10, 40),
        };
        application.running.insert(key.to_owned(), self.now.saturating_add(life));
        if key == DRIVER {
            let executors = mem::take(&mut application.later);
            let waited = (self.now.saturating_sub(application.submitted)).as_secs_f32();
            info!(
                application = id,
                executors,
                waited = format_args!("{waited:.1} s"),
                "driver runs, asking for executors"
            );
            self.ask(id, numbered("executor", executors));
        }
    }

    /// The scheduler says that a container has ended, or has to.
    fn lose(&mut self, released: si::AllocationRelease) {
        let cause = released.termination_type();
        let (id, key) = (released.application_id, released.allocation_key);
        if cause != TerminationType::StoppedByRm {
            self.orders.releases.push(release(&id, &key, cause));
        }
        let Some(application) = self.applications.get_mut(&id) else { return };
        if application.running.remove(&key).is_none() {
            return;
        }
        info!(application = id, key, cause = cause.as_str_name(), "container lost");
        if key == DRIVER {
            application.ends = self.now;
            return;
        }
        // Another key: within one message asks come before releases.
        self.n_retries += 1;
        self.ask(&id, vec![format!("retry-{}", self.n_retries)]);
    }

    fn end_containers(&mut self) {
        for (id, application) in &mut self.applications {
            application.running.retain(|key, ends| {
                let goes_on = *ends > self.now;
                if !goes_on {
                    self.orders.releases.push(release(id, key, TerminationType::StoppedByRm));
                }
                goes_on
            });
        }
    }

    fn end_applications(&mut self) {
        let mut removed = Vec::new();
        for (id, application) in &mut self.applications {
            let took = self.now.saturating_sub(application.submitted).as_secs();
            match application.kind {
                JobKind::Spark if application.is_done_but_for(DRIVER) => {
                    info!(application = id, took = format_args!("{took} s"), "job is done");
                    removed.push(id.clone());
                }
                // It should complete by itself now; remove it should that not be told.
                JobKind::Batch if application.is_done() && application.ends == FOREVER => {
                    info!(application = id, took = format_args!("{took} s"), "all tasks are done");
                    application.ends = self.now.saturating_add(PATIENCE);
                }
                JobKind::Spark | JobKind::Service | JobKind::Batch => {
                    if self.now >= application.ends {
                        info!(application = id, "application stopped");
                        removed.push(id.clone());
                    }
                }
            }
        }
        for application_id in removed {
            self.applications.remove(&application_id);
            let partition_name = "default".to_owned();
            let removal = si::RemoveApplicationRequest { application_id, partition_name };
            self.orders.remove.push(removal);
        }
    }

    fn drain_or_return(&mut self) {
        if let Some((node_id, until)) = &self.drained {
            if self.now >= *until {
                info!(node = node_id, "node is back");
                let node_id = node_id.clone();
                self.orders.nodes.push(action(node_id, ActionFromRm::DrainToSchedulable));
                self.drained = None;
                self.next_drain = self.now + self.chance.seconds(30, 90);
            }
        } else if self.now >= self.next_drain {
            let node_id = node_name(self.chance.between(0, NODES - 1));
            let rest = self.chance.seconds(15, 40);
            info!(node = node_id, seconds = rest.as_secs(), "node is being drained");
            self.orders.nodes.push(action(node_id.clone(), ActionFromRm::DrainNode));
            self.drained = Some((node_id, self.now + rest));
        }
    }

    /// What all applications want at a time at most.
    fn wanted_cores(&self) -> u64 {
        self.applications.values().map(Application::cores).sum()
    }

    fn wanted_of(&self, kind: JobKind) -> u64 {
        let of_kind = self.applications.values().filter(|application| application.kind == kind);
        of_kind.map(Application::cores).sum()
    }

    fn running_cores(&self) -> u64 {
        let cores =
            |application: &Application| application.running.len() as u64 * application.cores;
        self.applications.values().map(cores).sum()
    }

    /// The cores that applications may come to want: from 70 % to 90 % of the cluster and back.
    fn tide_cores(&self) -> u64 {
        let turn = self.now.as_secs() % TIDE.as_secs();
        let half = TIDE.as_secs() / 2;
        let from_low = if turn < half { turn } else { TIDE.as_secs() - turn };
        CORES * (70 + 20 * from_low / half) / 100
    }
}

impl Application {
    /// What its containers need when all of them run.
    fn cores(&self) -> u64 {
        (self.later + (self.pending.len() + self.running.len()) as u64) * self.cores
    }

    fn is_done(&self) -> bool {
        self.later == 0 && self.pending.is_empty() && self.running.is_empty()
    }

    fn is_done_but_for(&self, key: &str) -> bool {
        let rest = self.running.len() == 1 && self.running.contains_key(key);
        self.later == 0 && self.pending.is_empty() && rest
    }
}

fn numbered(name: &str, n: u64) -> Vec<String> {
    (1..=n).map(|number| format!("{name}-{number}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scheduler that has room for everything: accepts, places and acknowledges at once.
    fn obey(model: &mut Model, orders: Orders) {
        let accepted = orders
            .new
            .into_iter()
            .map(|new| si::AcceptedApplication { application_id: new.application_id });
        model.on_applications(si::ApplicationResponse {
            accepted: accepted.collect(),
            ..Default::default()
        });
        model.on_allocations(si::AllocationResponse {
            new: orders.asks,
            released: orders.releases,
            ..Default::default()
        });
    }

    /// An hour, with a look after each tick.
    fn one_hour(mut look: impl FnMut(&Model, &Orders)) {
        let mut model = Model::new(1);
        for tick in 0..4 * 3_600 {
            model.tick(Duration::from_millis(250 * tick));
            let orders = model.take_orders();
            look(&model, &orders);
            obey(&mut model, orders);
            // Applications whose tasks are done complete at once.
            let done = model.applications.iter().filter(|(_, a)| a.ends != FOREVER && a.is_done());
            let updated = done.map(|(id, _)| si::UpdatedApplication {
                application_id: id.clone(),
                state: "Completed".to_owned(),
                ..Default::default()
            });
            let updated = updated.collect();
            model.on_applications(si::ApplicationResponse { updated, ..Default::default() });
        }
    }

    #[test]
    fn the_cluster_is_busy_and_not_swamped() {
        let (mut sum, mut n_looks, mut least) = (0, 0, 100);
        one_hour(|model, _| {
            assert!(model.running_cores() <= CORES, "{} cores run", model.running_cores());
            assert!(model.applications.len() <= MOST_APPLICATIONS);
            if model.now > Duration::from_secs(60) {
                sum += model.running_cores() * 100 / CORES;
                n_looks += 1;
                least = least.min(model.running_cores() * 100 / CORES);
            }
        });
        let average = sum / n_looks;
        assert!((65..=85).contains(&average), "{average} % busy on average");
        assert!(least > 45, "only {least} % busy at some time");
    }

    #[test]
    fn every_kind_comes_and_goes_and_nodes_drain_and_return() {
        let (mut submitted, mut removed) = (BTreeMap::<String, u64>::new(), BTreeMap::new());
        let (mut drained, mut returned) = (0, 0);
        let kind = |id: &str| id.split('-').next().unwrap().to_owned();
        one_hour(|_, orders| {
            for new in &orders.new {
                *submitted.entry(kind(&new.application_id)).or_default() += 1;
            }
            for remove in &orders.remove {
                *removed.entry(kind(&remove.application_id)).or_insert(0_u64) += 1;
            }
            let count = |action: ActionFromRm| {
                orders.nodes.iter().filter(|node| node.action() == action).count()
            };
            drained += count(ActionFromRm::DrainNode);
            returned += count(ActionFromRm::DrainToSchedulable);
        });
        for kind in ["spark", "service", "batch"] {
            assert!(submitted[kind] > 25, "{submitted:?}");
        }
        assert!(removed["spark"] + 20 > submitted["spark"]);
        assert!(removed["service"] + 20 > submitted["service"]);
        assert!(!removed.contains_key("batch"), "they complete by themselves");
        assert!(drained > 10 && returned + 1 >= drained, "{drained} drained, {returned} back");
    }

    #[test]
    fn a_preempted_container_is_confirmed_and_asked_for_again() {
        let mut model = Model::new(1);
        let running = |model: &Model| {
            let busy = model.applications.iter().find(|(_, a)| a.running.len() > 1);
            busy.map(|(id, a)| (id.clone(), a.running.keys().next_back().unwrap().clone()))
        };
        let mut tick = 0;
        let (id, key) = loop {
            tick += 1;
            model.tick(Duration::from_millis(250 * tick));
            let orders = model.take_orders();
            obey(&mut model, orders);
            if let Some(container) = running(&model) {
                break container;
            }
        };
        model.take_orders();
        let preempted = release(&id, &key, TerminationType::PreemptedByScheduler);
        model.on_allocations(si::AllocationResponse {
            released: vec![preempted.clone()],
            ..Default::default()
        });
        let orders = model.take_orders();
        assert_eq!(orders.releases, [preempted]);
        assert_eq!(orders.asks.len(), 1);
        assert_ne!(orders.asks[0].allocation_key, key, "asks come before releases");
    }
}
