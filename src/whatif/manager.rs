//! The resource manager that a replay plays: it knows what runs and what waits.
//!
//! # What it does
//! * An allocation ends when its duration is over: it releases it, as the controller of a pod would.
//! * It confirms each end that the scheduler asks for, after a fixed time.
//! * What is preempted, and what loses its node, asks anew with a new key, as a controller would. What
//!   may only run on the lost node does not, nor does a placeholder.
//!
//! # Invariants
//! * An allocation is started once and ends once, whatever the scheduler tells late.
//! * Ends are on whole seconds of the replay, so that many of them are sent together.
//!
//! Only this file changes what runs and what waits; `replay` sends its requests and passes time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::image::{ImagedRequest, ResourceManagerImage};
use monoceros_actors::{ForkedPredicates, Resources};
use monoceros_proto::si::v1 as si;

use super::changes::SubmittedAsk;
use super::durations::{DurationCounts, Durations, Subject};
use super::history::{AppHistory, Cause, Eviction, Start, WorkHistory};
use super::recorder::{Released, Started, Told};
use super::replay::ReplayError;
use super::usage::{Amount, Usage, Whose};
use crate::replay::agenda::Agenda;
use crate::replay::grounds::Grounds;

/// What is planned for an allocation. The order is the order within one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Planned {
    /// Its end is confirmed.
    Leave,
    /// Its duration is over.
    End,
}

type Event = crate::replay::agenda::Event<Planned>;

/// The requests of one time.
#[derive(Default)]
pub(super) struct Requests {
    pub(super) releases: Vec<si::AllocationRelease>,
    pub(super) asks: Vec<si::AllocationAsk>,
}

/// Work: a request, by the key of its first attempt.
struct Work {
    history: WorkHistory,
    source: Source,
    resources: Arc<Resources>,
    amount: Amount,
    limit: Option<Duration>,
    /// The number of its allocations so far.
    n_runs: u64,
    /// The number of keys that it has used.
    n_keys: u32,
}

/// The message from which work is asked for.
#[derive(Clone)]
enum Source {
    Imaged(ImagedRequest),
    Submitted(Arc<si::AllocationAsk>),
}

/// A key that is pending.
struct Asked {
    key: Arc<str>,
    work: usize,
    since: i64,
    /// The eviction because of which it is asked for again.
    replaces: Option<usize>,
    left: u32,
}

/// An allocation.
struct Run {
    work: usize,
    /// Its name in messages. Empty if its key names it.
    uuid: Arc<str>,
    key: Arc<str>,
    node: Arc<str>,
    since: i64,
    state: RunState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunState {
    Running,
    /// Its end was asked for, with this type; for an eviction that has this number.
    Leaving(si::TerminationType, Option<usize>),
    Over,
}

/// The resource manager of a replay.
pub(super) struct Manager {
    durations: Durations,
    predicates: Option<Arc<dyn ForkedPredicates>>,
    /// How long an allocation needs to leave, in milliseconds.
    leave_after: i64,
    horizon: i64,
    applications: Vec<AppHistory>,
    /// By partition, then id.
    by_id: HashMap<(Arc<str>, Arc<str>), usize>,
    partitions: Vec<Arc<str>>,
    works: Vec<Work>,
    asked: Vec<Asked>,
    /// The numbers of the keys of each application.
    asked_of: Vec<Vec<usize>>,
    /// Keys of an application, pending or not, by its number.
    by_key: HashMap<(usize, Arc<str>), usize>,
    runs: Vec<Run>,
    /// Allocations that are not over, by application, and name or key.
    by_name: HashMap<(usize, Arc<str>), usize>,
    removed_nodes: Vec<Arc<str>>,
    agenda: Agenda<Planned>,
    usage: Usage,
    starts: Vec<Start>,
    evictions: Vec<Eviction>,
    running: DurationCounts,
    started: DurationCounts,
    refused: Vec<String>,
}

/// What a manager knows at the end.
pub(super) struct Ended {
    pub(super) applications: Vec<AppHistory>,
    pub(super) works: Vec<WorkHistory>,
    pub(super) starts: Vec<Start>,
    pub(super) evictions: Vec<Eviction>,
    pub(super) running: DurationCounts,
    pub(super) started: DurationCounts,
    pub(super) usage: Usage,
    pub(super) refused: Vec<String>,
}

impl Manager {
    /// Takes over the work of an image. Time 0 is that of the image.
    pub(super) fn new(
        image: &ResourceManagerImage,
        durations: Durations,
        usage: Usage,
        (leave_after, horizon): (i64, i64),
        predicates: Option<Arc<dyn ForkedPredicates>>,
    ) -> Self {
        let mut manager = Self {
            durations,
            predicates,
            leave_after,
            horizon,
            applications: Vec::new(),
            by_id: HashMap::new(),
            partitions: Vec::new(),
            works: Vec::new(),
            asked: Vec::new(),
            asked_of: Vec::new(),
            by_key: HashMap::new(),
            runs: Vec::new(),
            by_name: HashMap::new(),
            removed_nodes: Vec::new(),
            agenda: Agenda::default(),
            usage,
            starts: Vec::new(),
            evictions: Vec::new(),
            running: DurationCounts::default(),
            started: DurationCounts::default(),
            refused: Vec::new(),
        };
        for partition in &image.partitions {
            let name: Arc<str> = Arc::from(partition.plain_name());
            manager.partitions.push(Arc::clone(&name));
            let mut applications: Vec<_> = partition.applications().collect();
            applications.sort_unstable_by_key(|application| Arc::clone(application.id()));
            for of in applications {
                let (id, queue, user) = (of.id().clone(), of.queue().clone(), of.user().clone());
                let partition = Arc::clone(&name);
                let number = manager.application(AppHistory { partition, id, queue, user });
                for pending in of.pending() {
                    let since = (pending.since_ns - image.at_ns()) / 1_000_000;
                    let work = manager.work_of(number, &pending.request);
                    manager.ask(work, since, pending.count);
                }
                for run in of.running() {
                    let work = manager.work_of(number, &run.request);
                    let since = (run.since_ns - image.at_ns()) / 1_000_000;
                    let key = Arc::clone(run.request.key());
                    manager.take_over(
                        Run {
                            work,
                            uuid: run.uuid,
                            key,
                            node: run.node,
                            since,
                            state: RunState::Running,
                        },
                        run.leaves,
                    );
                }
            }
        }
        manager
    }

    fn application(&mut self, application: AppHistory) -> usize {
        let key = (Arc::clone(&application.partition), Arc::clone(&application.id));
        let number = self.applications.len();
        self.applications.push(application);
        self.asked_of.push(Vec::new());
        self.by_id.insert(key, number);
        number
    }

    /// Returns the work of a request of the image.
    fn work_of(&mut self, application: usize, request: &ImagedRequest) -> usize {
        if let Some(asked) = self.by_key.get(&(application, Arc::clone(request.key()))) {
            return self.asked[*asked].work;
        }
        let (resources, limit) = (Arc::clone(request.resources()), request.run_time_limit());
        let source = Source::Imaged(request.clone());
        self.work(application, Arc::clone(request.key()), source, (resources, limit))
    }

    fn work(
        &mut self,
        application: usize,
        key: Arc<str>,
        source: Source,
        (resources, limit): (Arc<Resources>, Option<Duration>),
    ) -> usize {
        let history = WorkHistory {
            application,
            key: Arc::clone(&key),
            pending: 0,
            starts: Vec::new(),
            waiting: 0,
            refused: None,
            is_submitted: matches!(source, Source::Submitted(_)),
        };
        let amount = self.usage.amount(&resources);
        let work = Work { history, source, resources, amount, limit, n_runs: 0, n_keys: 0 };
        self.works.push(work);
        let number = self.works.len() - 1;
        let asked =
            Asked { key: Arc::clone(&key), work: number, since: 0, replaces: None, left: 0 };
        self.add_key(application, key, asked);
        number
    }

    fn add_key(&mut self, application: usize, key: Arc<str>, asked: Asked) {
        let number = self.asked.len();
        self.asked.push(asked);
        self.asked_of[application].push(number);
        self.by_key.insert((application, key), number);
    }

    /// Notes that allocations of the first key of this work are pending.
    fn ask(&mut self, work: usize, since: i64, count: u32) {
        let Work { history, .. } = &mut self.works[work];
        history.pending += count;
        let key = (history.application, Arc::clone(&history.key));
        let asked = &mut self.asked[self.by_key[&key]];
        (asked.since, asked.left) = (since, asked.left + count);
    }

    /// Notes an allocation of the image.
    fn take_over(&mut self, run: Run, leaves: Option<si::TerminationType>) {
        let mut counts = self.running;
        let number = self.begin(run, &mut counts);
        if let Some(kind) = leaves {
            self.runs[number].state = RunState::Leaving(kind, None);
            self.agenda.plan(self.leave_after, Planned::Leave, number);
        } else {
            self.running = counts;
        }
    }

    /// Notes work that the question submits at time 0, to an application that is there.
    pub(super) fn submit(&mut self, ask: &SubmittedAsk) -> Result<(), ReplayError> {
        let id = (Arc::clone(&ask.partition), Arc::from(ask.message.application_id.as_str()));
        let Some(&application) = self.by_id.get(&id) else {
            return Err(ReplayError::Unknown(format!("application `{}`", id.1)));
        };
        let source = Source::Submitted(Arc::clone(&ask.message));
        let key: Arc<str> = Arc::from(ask.message.allocation_key.as_str());
        let what = (Arc::new(ask.resources.clone()), ask.limit);
        let work = self.work(application, key, source, what);
        self.ask(work, 0, ask.count);
        Ok(())
    }

    /// Notes an application that the question submits. Its queue is known when it is placed.
    pub(super) fn submit_application(&mut self, partition: Arc<str>, id: &str, user: &str) {
        let (id, queue, user) = (Arc::from(id), Arc::from(""), Arc::from(user));
        self.application(AppHistory { partition, id, queue, user });
    }

    /// Notes that a node is removed: what ran there asks anew.
    pub(super) fn node_removed(&mut self, node: &str) {
        self.removed_nodes.push(Arc::from(node));
    }

    /// Returns the time of the next event, in milliseconds.
    pub(super) fn next_at(&mut self) -> Option<i64> {
        let runs = &self.runs;
        self.agenda.next_at(|event| is_stale(runs, event))
    }

    /// Begins an allocation. Returns its number.
    fn begin(&mut self, run: Run, counts: &mut DurationCounts) -> usize {
        let work = &mut self.works[run.work];
        work.n_runs += 1;
        let application = &self.applications[work.history.application];
        let age = u64::try_from(-run.since.min(0)).unwrap_or_default();
        let subject = Subject {
            partition: &application.partition,
            queue: &application.queue,
            user: &application.user,
            application: &application.id,
            key: &work.history.key,
            number: work.n_runs,
            resources: &work.resources,
            limit: work.limit,
            age: Duration::from_millis(age),
        };
        let is_placeholder = match &work.source {
            Source::Imaged(request) => request.is_placeholder(),
            Source::Submitted(ask) => ask.placeholder,
        };
        let rest = if is_placeholder { None } else { self.durations.rest(&subject, counts) };
        let at = run.since.max(0);
        let number = self.runs.len();
        if let Some(rest) = rest.and_then(|rest| i64::try_from(rest.as_millis()).ok()) {
            let end = at.saturating_add(rest);
            if end < self.horizon {
                self.agenda.plan((end + 999) / 1_000 * 1_000, Planned::End, number);
            }
        }
        for whose in self.whose(run.work) {
            let amount = &self.works[run.work].amount;
            self.usage.change(at, whose, amount, 1);
        }
        let application = self.works[run.work].history.application;
        let name = if run.uuid.is_empty() { &run.key } else { &run.uuid };
        self.by_name.insert((application, Arc::clone(name)), number);
        self.runs.push(run);
        number
    }

    fn whose(&self, work: usize) -> [Whose; 2] {
        let application = &self.applications[self.works[work].history.application];
        let (queue, user) = (&application.queue, &application.user);
        [Whose::Queue(Arc::clone(queue)), Whose::User(Arc::clone(user))]
    }

    /// Ends an allocation.
    fn end(&mut self, at: i64, number: usize) {
        self.runs[number].state = RunState::Over;
        if let Some(predicates) = &self.predicates {
            predicates.ended(&self.runs[number].key);
        }
        let Run { work, uuid, key, .. } = &self.runs[number];
        let (work, name) = (*work, if uuid.is_empty() { key } else { uuid });
        let name = (self.works[work].history.application, Arc::clone(name));
        if self.by_name.get(&name) == Some(&number) {
            self.by_name.remove(&name);
        }
        for whose in self.whose(work) {
            let amount = &self.works[work].amount;
            self.usage.change(at, whose, amount, -1);
        }
    }

    /// Passes time until `at`, in milliseconds, before anything happens at that time.
    pub(super) fn pass(&mut self, at: i64) {
        self.usage.sample_until(at);
    }

    /// Does what is due until `at`, in milliseconds.
    pub(super) fn due(&mut self, at: i64, requests: &mut Requests) {
        for event in self.agenda.due(at) {
            if is_stale(&self.runs, &event) {
                continue;
            }
            let run = event.subject;
            match self.runs[run].state {
                RunState::Running => {
                    requests.releases.push(self.release(run, si::TerminationType::StoppedByRm));
                    self.end(at, run);
                }
                RunState::Leaving(_, eviction) if event.kind == Planned::End => {
                    // It ends by itself before it has to leave: nothing is lost.
                    requests.releases.push(self.release(run, si::TerminationType::StoppedByRm));
                    self.end(at, run);
                    if let Some(eviction) = eviction {
                        self.evictions[eviction].is_void = true;
                    }
                }
                RunState::Leaving(kind, eviction) => {
                    requests.releases.push(self.release(run, kind));
                    self.end(at, run);
                    // Of one that was on its way out at the image, nobody counts the eviction.
                    if kind == si::TerminationType::PreemptedByScheduler {
                        self.ask_anew(at, run, eviction, requests);
                    }
                }
                RunState::Over => {}
            }
        }
    }

    fn release(&self, run: usize, kind: si::TerminationType) -> si::AllocationRelease {
        let Run { work, uuid, key, .. } = &self.runs[run];
        let application = &self.applications[self.works[*work].history.application];
        si::AllocationRelease {
            partition_name: application.partition.to_string(),
            application_id: application.id.to_string(),
            uuid: uuid.to_string(),
            allocation_key: key.to_string(),
            termination_type: kind.into(),
            ..si::AllocationRelease::default()
        }
    }

    /// Asks for the work of an allocation again, as its controller would.
    fn ask_anew(&mut self, at: i64, run: usize, eviction: Option<usize>, requests: &mut Requests) {
        let Run { work: number, node, .. } = &self.runs[run];
        let (number, node) = (*number, Arc::clone(node));
        let work = &mut self.works[number];
        let application = work.history.application;
        let of = &self.applications[application];
        let is_gone = self.removed_nodes.contains(&node);
        let (is_placeholder, required) = match &work.source {
            Source::Imaged(request) => (request.is_placeholder(), request.required_node()),
            Source::Submitted(ask) => (ask.placeholder, None),
        };
        if is_placeholder || is_gone && required == Some(&*node) {
            return;
        }
        let key: Arc<str> = loop {
            work.n_keys += 1;
            let key: Arc<str> = Arc::from(format!("{}~{}", work.history.key, work.n_keys));
            if !self.by_key.contains_key(&(application, Arc::clone(&key))) {
                break key;
            }
        };
        let mut ask = match &work.source {
            Source::Imaged(request) => request.ask_anew(&of.partition, &of.id, &key),
            Source::Submitted(ask) => si::AllocationAsk::clone(ask),
        };
        key.as_ref().clone_into(&mut ask.allocation_key);
        if let Some(predicates) = &self.predicates {
            predicates.created(&key, &self.runs[run].key);
        }
        ask.max_allocations = 1;
        requests.asks.push(ask);
        if let Some(eviction) = eviction {
            self.evictions[eviction].is_asked_anew = true;
        }
        let asked =
            Asked { key: Arc::clone(&key), work: number, since: at, replaces: eviction, left: 1 };
        self.add_key(application, key, asked);
    }

    /// Takes what the scheduler has told at a time.
    pub(super) fn hear(
        &mut self,
        at: i64,
        told: Told,
        requests: &mut Requests,
    ) -> Result<(), ReplayError> {
        match told {
            Told::Started(started) => self.starts(at, started)?,
            Told::Released(released) => self.released(at, &released, requests)?,
            Told::AskEnded { application, key } => self.withdrawn(&application, &key, None),
            Told::AskRefused { application, key, reason } => {
                self.withdrawn(&application, &key, Some(&reason));
            }
            Told::ApplicationRefused { application, reason } => {
                self.refused.push(format!("application `{application}` is refused: {reason}"));
                self.withdrawn(&application, "", Some(&reason));
            }
            Told::ApplicationState { application, state } => {
                if matches!(&*state, "Failed" | "Failing" | "Completed") {
                    self.withdrawn(&application, "", None);
                }
            }
            Told::Placed { partition, application, queue } => {
                let id = (partition, Arc::from(application.as_str()));
                if let Some(&number) = self.by_id.get(&id) {
                    self.applications[number].queue = Arc::from(queue);
                }
            }
            Told::NodeRefused { node, reason } => {
                self.refused.push(format!("node `{node}` is refused: {reason}"));
            }
            Told::Lost { cause } => return Err(ReplayError::Lost(cause)),
        }
        Ok(())
    }

    fn starts(&mut self, at: i64, started: Started) -> Result<(), ReplayError> {
        let Started { partition, application, key, uuid, node } = started;
        let application = self.by_id.get(&(partition, application)).copied();
        let asked = application.and_then(|it| self.by_key.get(&(it, Arc::clone(&key))).copied());
        let Some(asked) = asked else {
            return Err(ReplayError::Unknown(format!("request `{key}`")));
        };
        let Asked { work, since, replaces, left, .. } = &mut self.asked[asked];
        let (work, wait, replaces) = (*work, at - *since, *replaces);
        *left = left.saturating_sub(1);
        let history = &mut self.works[work].history;
        let is_first = key == history.key;
        if is_first {
            history.starts.push(at);
        }
        if let Some(eviction) = replaces {
            self.evictions[eviction].again = Some(at);
        }
        self.starts.push(Start { at, work, wait, is_again: !is_first });
        let mut counts = self.started;
        self.begin(Run { work, uuid, key, node, since: at, state: RunState::Running }, &mut counts);
        self.started = counts;
        Ok(())
    }

    fn released(
        &mut self,
        at: i64,
        released: &Released,
        requests: &mut Requests,
    ) -> Result<(), ReplayError> {
        let id = (Arc::clone(&released.partition), Arc::from(released.application.as_str()));
        let Some(&application) = self.by_id.get(&id) else {
            return Err(ReplayError::Unknown(format!("application `{}`", id.1)));
        };
        let name = if released.uuid.is_empty() { &released.key } else { &released.uuid };
        let Some(&run) = self.by_name.get(&(application, Arc::from(name.as_str()))) else {
            // The answer to a release of this manager, or the end of a pending request.
            if released.uuid.is_empty() {
                self.withdrawn(&released.application, &released.key, None);
            }
            return Ok(());
        };
        let is_asked = released.kind != si::TerminationType::StoppedByRm;
        let Run { work, node, since, state, .. } = &self.runs[run];
        let (node, ran) = (Arc::clone(node), at - since);
        let eviction = |cause| Eviction {
            at,
            work: *work,
            node: Arc::clone(&node),
            cause,
            why: released.why.clone(),
            ran,
            is_asked_anew: false,
            again: None,
            is_void: false,
        };
        match state {
            RunState::Running if is_asked => {
                let is_preempted = released.kind == si::TerminationType::PreemptedByScheduler;
                let number = is_preempted.then_some(self.evictions.len());
                if is_preempted {
                    let grounds = Grounds::of(&released.why);
                    self.evictions.push(eviction(Cause::Preempted(grounds)));
                }
                self.runs[run].state = RunState::Leaving(released.kind, number);
                self.agenda.plan(at + self.leave_after, Planned::Leave, run);
            }
            RunState::Leaving(..) if is_asked => {}
            RunState::Running | RunState::Leaving(..) => {
                let is_gone = self.removed_nodes.contains(&node);
                let number = match state {
                    RunState::Leaving(_, number) => *number,
                    _ => is_gone.then_some(self.evictions.len()),
                };
                if is_gone && number == Some(self.evictions.len()) {
                    self.evictions.push(eviction(Cause::NodeRemoved));
                }
                self.end(at, run);
                if is_gone {
                    self.ask_anew(at, run, number, requests);
                }
            }
            RunState::Over => {}
        }
        Ok(())
    }

    /// Notes that a key of an application is not pending any more; with an empty one, none is.
    fn withdrawn(&mut self, application: &str, key: &str, reason: Option<&str>) {
        let id: Arc<str> = Arc::from(application);
        let in_partition = |name: &Arc<str>| self.by_id.get(&(Arc::clone(name), Arc::clone(&id)));
        let numbers: Vec<_> = self.partitions.iter().filter_map(in_partition).copied().collect();
        for number in numbers {
            let keys: Vec<usize> = if key.is_empty() {
                self.asked_of[number].clone()
            } else {
                self.by_key.get(&(number, Arc::from(key))).copied().into_iter().collect()
            };
            for asked in keys {
                let Asked { key, left, work, .. } = &mut self.asked[asked];
                let was_pending = std::mem::take(left) > 0;
                if let (true, Some(predicates)) = (was_pending, &self.predicates) {
                    predicates.ended(key);
                }
                if let (true, Some(reason)) = (was_pending, reason) {
                    self.works[*work].history.refused = Some(reason.to_owned());
                }
            }
        }
    }

    /// Notes the end of an application by its resource manager.
    pub(super) fn end_application(&mut self, partition: &Arc<str>, id: &str) {
        let Some(&number) = self.by_id.get(&(Arc::clone(partition), Arc::from(id))) else { return };
        for run in 0..self.runs.len() {
            let of_it = self.works[self.runs[run].work].history.application == number;
            if of_it && self.runs[run].state != RunState::Over {
                self.end(0, run);
            }
        }
        for asked in &mut self.asked {
            if self.works[asked.work].history.application == number {
                asked.left = 0;
            }
        }
    }

    /// The applications that have pending requests, by partition and id.
    pub(super) fn waiting(&self) -> Vec<(usize, Arc<str>, Arc<str>)> {
        let mut numbers: Vec<_> = self
            .asked
            .iter()
            .filter(|asked| asked.left > 0)
            .map(|asked| self.works[asked.work].history.application)
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        let of = |number: usize| {
            let AppHistory { partition, id, .. } = &self.applications[number];
            (number, Arc::clone(partition), Arc::clone(id))
        };
        numbers.into_iter().map(of).collect()
    }

    /// Returns the work that a key of an application belongs to.
    pub(super) fn work_by_key(&self, application: usize, key: &str) -> Option<usize> {
        let asked = self.by_key.get(&(application, Arc::from(key)))?;
        Some(self.asked[*asked].work)
    }

    /// Ends the replay.
    pub(super) fn finish(mut self) -> Ended {
        for asked in &self.asked {
            self.works[asked.work].history.waiting += asked.left;
        }
        Ended {
            applications: self.applications,
            works: self.works.into_iter().map(|work| work.history).collect(),
            starts: self.starts,
            evictions: self.evictions.into_iter().filter(|eviction| !eviction.is_void).collect(),
            running: self.running,
            started: self.started,
            usage: self.usage,
            refused: self.refused,
        }
    }
}

/// Whether the event of an allocation has no object any more.
fn is_stale(runs: &[Run], event: &Event) -> bool {
    match (event.kind, runs[event.subject].state) {
        (Planned::End, RunState::Running) | (_, RunState::Leaving(..)) => false,
        (Planned::Leave, RunState::Running) | (_, RunState::Over) => true,
    }
}
