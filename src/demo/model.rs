//! The model of the demo: nodes that drain now and then, and applications of several kinds that
//! arrive, run for a while, and end. Two of the kinds are gangs, some of which wait until there is
//! capacity for all members. Others show why requests are pending (`contention`).
//!
//! The model has no socket and no clock: time comes from [`Model::tick`], answers from the `on_…`
//! functions, and orders go out through [`Model::take_orders`]. So a test can run hours of it.
//!
//! # Invariants
//! * The state is bounded: at most [`MOST_APPLICATIONS`], each with a bounded number of containers.
//! * The demand of the usual applications stays below the tide, which moves between 50 % and 70 %
//!   of the cluster. So the cluster is busy even with the applications that show contention, and
//!   not always full.

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::TerminationType;
use monoceros_proto::si::v1::node_info::ActionFromRm;
use tracing::{info, warn};

use super::cluster::{CORES, NODES, action, node, node_name, release};
use super::contention::Contention;
use super::gangs;
use super::job::{Application, DRIVER, FOREVER, JobKind};
use crate::chance::Chance;

/// Most applications at a time.
pub const MOST_APPLICATIONS: usize = 60;

/// Time from one high tide to the next.
const TIDE: Duration = Duration::from_secs(300);

/// Time after which an application that should have completed by itself is removed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Messages for the scheduler.
#[derive(Debug, Default, PartialEq)]
pub struct Orders {
    /// Changes for the node stream.
    pub nodes: Vec<si::NodeInfo>,
    /// New applications, for the application stream.
    pub new: Vec<si::AddApplicationRequest>,
    /// Removed applications, for the application stream.
    pub remove: Vec<si::RemoveApplicationRequest>,
    /// Asks, for the allocation stream.
    pub asks: Vec<si::Allocation>,
    /// Releases, for the allocation stream.
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
    contention: Contention,
    applications: BTreeMap<String, Application>,
    orders: Orders,
}

impl Model {
    /// Makes a cluster without applications. Its nodes are the first order.
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
            contention: Contention::new(),
            applications: BTreeMap::new(),
            orders: Orders { nodes, ..Orders::default() },
        }
    }

    /// Returns the orders since the last call.
    pub fn take_orders(&mut self) -> Orders {
        mem::take(&mut self.orders)
    }

    /// Advances the time: containers end, applications arrive, nodes drain and return.
    pub fn tick(&mut self, now: Duration) {
        self.now = now;
        self.end_containers();
        self.end_applications();
        if now >= self.next_arrival {
            self.follow_tide();
        }
        let wanted = |kind| wanted_of(&self.applications, kind);
        for kind in self.contention.due(now, wanted) {
            self.submit(kind);
        }
        self.drain_or_return();
    }

    /// Logs how busy the cluster is.
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

    /// Handles answers of the node stream.
    pub fn on_nodes(&mut self, reply: si::NodeResponse) {
        if !reply.accepted.is_empty() {
            info!(nodes = reply.accepted.len(), "nodes are up");
        }
        for rejected in reply.rejected {
            warn!(node = rejected.node_id, reason = rejected.reason, "node rejected");
        }
    }

    /// Handles answers of the application stream.
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
            if update.state == "Resuming" {
                self.go_on_without_places(&update.application_id);
            }
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

    /// Handles answers and decisions of the allocation stream.
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

    /// Submits an application if demand is below the tide.
    fn follow_tide(&mut self) {
        let wanted = self.wanted_cores();
        let tide = self.tide_cores();
        if wanted >= tide || self.applications.len() >= MOST_APPLICATIONS {
            self.next_arrival = self.now + Duration::from_secs(1);
            return;
        }
        // Far below the tide, applications arrive faster, so that the cluster fills soon.
        let most = if wanted < tide * 3 / 4 { 1 } else { 4 };
        self.next_arrival = self.now + self.chance.seconds(0, most);
        let may_come = |kind: &JobKind| wanted_of(&self.applications, *kind) <= most_cores(*kind);
        let kinds: Vec<_> = JobKind::AS_THEY_COME.into_iter().filter(may_come).collect();
        if kinds.is_empty() {
            return;
        }
        let kind = self.chance.one_of(&kinds);
        self.submit(kind);
    }

    fn submit(&mut self, kind: JobKind) {
        let (queues, name) = kind.names();
        let queue = self.chance.one_of(queues);
        self.n_submitted += 1;
        let id = format!("{name}-{:05}", self.n_submitted);
        let user = self.chance.one_of(kind.users());
        let application = Application::new(kind, self.now, &mut self.chance);
        info!(
            application = id,
            queue,
            user,
            containers = application.later + u64::from(kind.has_driver()),
            "application submitted"
        );
        let ugi = si::UserGroupInformation { user: user.to_owned(), groups: vec![user.to_owned()] };
        let mut new = si::AddApplicationRequest {
            application_id: id.clone(),
            queue_name: queue.to_owned(),
            partition_name: "default".to_owned(),
            ugi: Some(ugi),
            ..Default::default()
        };
        gangs::announce(&mut new, &application);
        self.orders.new.push(new);
        self.applications.insert(id, application);
    }

    /// Starts an accepted application: asks for its first containers, or for its placeholders.
    fn start(&mut self, id: &str) {
        let Some(application) = self.applications.get_mut(id) else { return };
        let keys = match application.kind {
            kind if kind.has_driver() => vec![DRIVER.to_owned()],
            JobKind::Mpi => {
                let places = gangs::numbered("placeholder", application.later);
                return self.ask_for_places(id, places);
            }
            _ => application.next_containers(),
        };
        self.ask(id, keys);
    }

    fn ask(&mut self, id: &str, keys: Vec<String>) {
        let Some(application) = self.applications.get_mut(id) else { return };
        for key in keys {
            application.pending.insert(key.clone());
            self.orders.asks.push(request(id, application, key));
        }
    }

    fn ask_for_places(&mut self, id: &str, keys: Vec<String>) {
        let Some(application) = self.applications.get_mut(id) else { return };
        for key in keys {
            application.places.asked(&key);
            let ask = si::Allocation { placeholder: true, ..request(id, application, key) };
            self.orders.asks.push(ask);
        }
    }

    /// Handles the placement of a container.
    fn run(&mut self, id: &str, key: &str) {
        let Some(application) = self.applications.get_mut(id) else {
            return self.run_for_nothing(id, key);
        };
        if let Some(was_last) = application.places.placed(key) {
            if was_last {
                let members = application.next_containers();
                let n_members = members.len();
                info!(application = id, members = n_members, "gang has all its placeholders");
                self.ask(id, members);
            }
            return;
        }
        if !application.pending.contains(key) {
            return self.run_for_nothing(id, key);
        }
        application.runs(key, self.now, &mut self.chance);
        if key == DRIVER {
            let others = application.next_containers();
            let waited = (self.now.saturating_sub(application.submitted)).as_secs_f32();
            info!(
                application = id,
                containers = others.len(),
                waited = format_args!("{waited:.1} s"),
                "driver runs, asking for the others"
            );
            self.ask(id, others);
        }
    }

    /// Releases a container whose application has ended since it was requested.
    fn run_for_nothing(&mut self, id: &str, key: &str) {
        self.orders.releases.push(release(id, key, TerminationType::StoppedByRm));
    }

    /// Gives up the placeholders of a gang after a timeout. Its members are then scheduled like
    /// others.
    fn go_on_without_places(&mut self, id: &str) {
        let Some(application) = self.applications.get_mut(id) else { return };
        application.places.given_up();
        let members = application.next_containers();
        self.ask(id, members);
    }

    /// Handles the end of a container, or the request to end it.
    fn lose(&mut self, released: si::AllocationRelease) {
        let cause = released.termination_type();
        let (id, key) = (released.application_id, released.allocation_key);
        if cause != TerminationType::StoppedByRm {
            self.orders.releases.push(release(&id, &key, cause));
        }
        let Some(application) = self.applications.get_mut(&id) else { return };
        if application.places.gone(&key) {
            // A replaced or given up placeholder is not needed any more. The same applies to a
            // placeholder whose member was asked for already.
            let is_over =
                matches!(cause, TerminationType::PlaceholderReplaced | TerminationType::Timeout);
            if !is_over && application.later > 0 {
                self.n_retries += 1;
                self.ask_for_places(&id, vec![format!("placeholder-retry-{}", self.n_retries)]);
            }
            return;
        }
        if application.running.remove(&key).is_none() {
            return;
        }
        info!(application = id, key, cause = cause.as_str_name(), "container lost");
        if key == DRIVER {
            application.ends = self.now;
            return;
        }
        // Uses a new key, because asks precede releases within one message.
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
                kind if kind.has_driver() && application.is_done_but_for(DRIVER) => {
                    info!(application = id, took = format_args!("{took} s"), "job is done");
                    removed.push(id.clone());
                }
                // The application should complete by itself now. If no completion is reported, it
                // is removed later.
                kind if kind.completes()
                    && application.is_done()
                    && application.ends == FOREVER =>
                {
                    info!(application = id, took = format_args!("{took} s"), "all tasks are done");
                    application.ends = self.now.saturating_add(PATIENCE);
                }
                _ => {
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

    /// Returns the most cores that the usual applications want, running or not.
    fn wanted_cores(&self) -> u64 {
        let tide = self.applications.values();
        let tide = tide.filter(|application| JobKind::AS_THEY_COME.contains(&application.kind));
        tide.map(Application::cores).sum()
    }

    fn running_cores(&self) -> u64 {
        let cores =
            |application: &Application| application.running.len() as u64 * application.cores;
        self.applications.values().map(cores).sum()
    }

    /// Returns the tide: from 50 % to 70 % of the cluster and back.
    fn tide_cores(&self) -> u64 {
        let turn = self.now.as_secs() % TIDE.as_secs();
        let half = TIDE.as_secs() / 2;
        let from_low = if turn < half { turn } else { TIDE.as_secs() - turn };
        CORES * (50 + 20 * from_low / half) / 100
    }
}

/// Returns the most cores that applications of a kind want, running or not.
fn wanted_of(applications: &BTreeMap<String, Application>, kind: JobKind) -> u64 {
    let of_kind = applications.values().filter(|application| application.kind == kind);
    of_kind.map(Application::cores).sum()
}

/// Makes a request for a container.
fn request(id: &str, application: &Application, key: String) -> si::Allocation {
    si::Allocation {
        application_id: id.to_owned(),
        partition_name: "default".to_owned(),
        resource_per_alloc: Some(application.size(&key)),
        originator: key == DRIVER,
        preemption_policy: Some(si::PreemptionPolicy {
            allow_preempt_self: true,
            allow_preempt_other: application.kind == JobKind::Report,
        }),
        task_group_name: gangs::task_group(application.kind, &key).to_owned(),
        allocation_tags: pod(id, &key),
        allocation_key: key,
        ..Default::default()
    }
}

/// Returns the tags by which dashboards identify a container: a pod in a namespace.
fn pod(id: &str, key: &str) -> BTreeMap<String, String> {
    let namespace = id.split_once('-').map_or(id, |(kind, _)| kind);
    let tags = [("namespace", namespace.to_owned()), ("podName", format!("{id}-{key}"))];
    tags.map(|(tag, value)| (format!("kubernetes.io/meta/{tag}"), value)).into()
}

/// Returns the demand of a kind above which no more applications of it are submitted. Gangs may
/// want more than their queues have, so that some are pending now and then.
fn most_cores(kind: JobKind) -> u64 {
    match kind {
        JobKind::Service => CORES / 6,
        JobKind::Mpi => 100,
        JobKind::Training => 180,
        _ => CORES,
    }
}

#[cfg(test)]
mod tests;
