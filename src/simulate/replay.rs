//! Drives the scheduler through a trace in virtual time.
//!
//! # How time passes
//! The clock of the runtime is paused: it jumps to the next timer whenever everyone waits. The
//! replay sleeps until its next event (or until the scheduler decides something by a timer of its
//! own), tells the scheduler everything that falls due at that instant, and lets it settle, which
//! takes no virtual time. So weeks pass in seconds, and the scheduler's actors are the very ones
//! that run in production.
//!
//! # Order within an instant
//! Ends come before withdrawals and withdrawals before arrivals: room that is given back can be
//! taken by whoever comes in the same second. A pod that ends in the second in which it starts does
//! hold its room until the scheduler has settled.
//!
//! # Gangs
//! A gang is one application, submitted when the first of its pods comes, with all of them as its
//! task groups. Each pod asks when it comes. So a gang is decided when there is room for all of it,
//! and what is held for pods that have still to come is nobody else's.
//!
//! # Preemption
//! A victim holds what it has until the resource manager says that it is gone, which the replay says
//! after a time of its options. Its end may come first: then nothing is lost. Else it asks again, in the
//! same instant, with its whole duration or with what is left of it.
//!
//! # Invariants, checked in every run
//! * No machine holds more than it has, and no pod runs on a GPU model that it does not accept.
//! * After every step, what root has allocated is what the replay counts as running.

use std::cmp::{Reverse, max};
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::{ReadError, SchedulerHandle, UpdateError};
use monoceros_proto::si::v1 as si;
use tokio::time::Instant;

use super::amount::{Amount, ResourceKind};
use super::decisions::{Decision, Decisions, ask_key};
use super::evictions::{Eviction, Grounds};
use super::fairness::{Fairness, entitlements};
use super::fragmentation::Fragmentation;
use super::history::{History, PodHistory, PodOutcome, Usage};
use super::jobs::Jobs;
use super::queues::{leaf_for, leaves};
use super::series::{LeafSample, Sample, Series};
use super::trace::{Lifetime, Trace};

pub(crate) const RM: &str = "simulator";
pub(crate) const PARTITION: &str = "default";

/// Why a replay broke off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    #[error("the scheduler refuses a request")]
    Update(#[from] UpdateError),
    #[error("the scheduler does not show its queues")]
    Read(#[from] ReadError),
    #[error("the configuration has no queue that takes applications")]
    NoLeaf,
    #[error("node `{node}` is refused: {reason}")]
    MachineRefused { node: String, reason: String },
    #[error("the scheduler decided on something that was never submitted: {0}")]
    Unknown(String),
    #[error("the scheduler placed pod `{pod}` on node `{node}` where it does not fit")]
    Misplaced { pod: String, node: String },
    #[error(
        "the books differ at {at} s: root has {theirs:?} allocated, {held:?} of that for pods that \
         have still to come, and the pods hold {ours:?}"
    )]
    BooksDiffer { at: i64, theirs: Amount, held: Amount, ours: Amount },
}

/// What a replay assumes that is not in the trace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Assumptions {
    /// Others may be preempted for a pod of which the trace says nothing.
    pub(crate) all_preempt: bool,
    /// How long a victim needs to leave, in milliseconds.
    pub(crate) confirm_after: i64,
    /// What a victim has done is not lost: it asks again for what is left.
    pub(crate) keep_progress: bool,
}

/// Replays the trace to its last event. `decisions` is registered with the scheduler already;
/// `tick` is called with the number of pods that are done with, whenever it may have changed.
pub(crate) async fn replay(
    scheduler: SchedulerHandle,
    trace: Arc<Trace>,
    decisions: Arc<Decisions>,
    assumptions: Assumptions,
    tick: impl FnMut(usize),
) -> Result<History, ReplayError> {
    let snapshot = scheduler.queues(PARTITION).await?;
    let leaves: Vec<_> = leaves(&snapshot).iter().map(|leaf| leaf.queue_name.clone()).collect();
    let mut pods = Vec::with_capacity(trace.pods.len());
    let jobs = Jobs::of(&trace);
    for pod in 0..trace.pods.len() {
        let first = jobs.of_pod(pod).pods[0];
        let queue = leaf_for(&trace.pods[first].qos, &leaves).ok_or(ReplayError::NoLeaf)?;
        pods.push(PodHistory::new(queue));
    }
    let mut replay = Replay {
        scheduler,
        decisions,
        start: Instant::now(),
        now: trace.start() * 1000,
        states: vec![PodState::Ahead; trace.pods.len()],
        free: trace.machines.iter().map(|machine| machine.capacity).collect(),
        fragmentation: Fragmentation::new(&trace),
        events: BinaryHeap::new(),
        n_events: 0,
        pending: Amount::default(),
        n_done: 0,
        usage: Usage::default(),
        series: Series::default(),
        fairness: Fairness::default(),
        evictions: Vec::new(),
        done: vec![0; trace.pods.len()],
        assumptions,
        pods,
        jobs,
        trace,
    };
    replay.run(tick).await?;
    Ok(replay.finish())
}

/// The state of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PodState {
    Ahead,
    Waiting { attempt: u32 },
    Running(Run),
    Done,
}

/// One attempt of a pod on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    attempt: u32,
    machine: usize,
    uuid: String,
    /// Milliseconds on the clock of the trace.
    since: i64,
    /// It was told to leave: when, and why.
    told: Option<(i64, Grounds)>,
}

/// In the order in which events of one instant are told to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EventKind {
    /// The pod's attempt of this number has run its time.
    End {
        attempt: u32,
    },
    /// The pod's attempt of this number leaves because it was told to.
    Leave {
        attempt: u32,
    },
    /// The pod is withdrawn if it still waits.
    Withdraw,
    Arrive,
}

/// Something that will happen to a pod; the derived order is the order in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    /// Milliseconds on the clock of the trace.
    at: i64,
    kind: EventKind,
    sequence: u64,
    pod: usize,
}

struct Replay {
    scheduler: SchedulerHandle,
    trace: Arc<Trace>,
    decisions: Arc<Decisions>,
    /// The instant of the clock that is the first second of the trace.
    start: Instant,
    /// Milliseconds on the clock of the trace.
    now: i64,
    states: Vec<PodState>,
    /// What is free on each machine.
    free: Vec<Amount>,
    fragmentation: Fragmentation,
    events: BinaryHeap<Reverse<Event>>,
    n_events: u64,
    pending: Amount,
    n_done: usize,
    usage: Usage,
    series: Series,
    fairness: Fairness,
    evictions: Vec<Eviction>,
    /// What each pod has done in attempts that it lost, in milliseconds, where that is kept.
    done: Vec<i64>,
    assumptions: Assumptions,
    pods: Vec<PodHistory>,
    jobs: Jobs,
}

impl Replay {
    async fn run(&mut self, mut tick: impl FnMut(usize)) -> Result<(), ReplayError> {
        self.add_machines().await?;
        for (at, pod) in self.trace.clone().pods.iter().enumerate() {
            self.plan(pod.creation * 1000, EventKind::Arrive, at);
        }
        while let Some(&Reverse(next)) = self.events.peek() {
            let due = self.start + self.since_start(next.at);
            tokio::select! {
                biased;
                () = self.decisions.more() => {}
                () = tokio::time::sleep_until(due) => {}
            }
            let now = self.clock(Instant::now());
            self.usage.pass(now - self.now);
            self.fairness.pass(now - self.now);
            self.now = now;
            let decided = self.absorb().await?;
            let due = self.due();
            if due.is_empty() && !decided {
                continue;
            }
            self.tell(&due).await?;
            self.settle().await?;
            self.plan_withdrawals(&due);
            self.sample().await?;
            tick(self.n_done);
        }
        Ok(())
    }

    fn finish(self) -> History {
        let mut pods = self.pods;
        for (pod, state) in pods.iter_mut().zip(&self.states) {
            if matches!(state, PodState::Waiting { .. }) {
                pod.outcome = pod.outcome_unplaced(PodOutcome::Unplaced);
            }
        }
        History {
            pods,
            usage: self.usage,
            samples: self.series,
            fairness: self.fairness,
            evictions: self.evictions,
            end: self.now,
        }
    }

    async fn add_machines(&mut self) -> Result<(), ReplayError> {
        let nodes = self.trace.machines.iter().map(|machine| si::NodeInfo {
            node_id: machine.name.clone(),
            action: si::node_info::ActionFromRm::Create.into(),
            schedulable_resource: Some(machine.capacity.to_wire()),
            attributes: machine.attributes.clone(),
            ..si::NodeInfo::default()
        });
        let nodes = nodes.collect();
        let request = si::NodeRequest { nodes, rm_id: RM.to_owned(), ..si::NodeRequest::default() };
        self.scheduler.update_node(request).await?;
        self.settle().await
    }

    /// Tells the scheduler what falls due: room given back, then who leaves and comes, then asks.
    async fn tell(&mut self, due: &[Event]) -> Result<(), ReplayError> {
        let mut batch = InstantRequests::default();
        for event in due {
            let pod = event.pod;
            match (event.kind, self.states[pod].clone()) {
                (EventKind::Arrive, _) => {
                    if self.jobs.submit(pod) {
                        batch.new.push(self.application(pod));
                    }
                    batch.asks.push(self.ask(pod, 0));
                    self.wait(pod, 0);
                }
                (EventKind::Withdraw, PodState::Waiting { .. }) => {
                    self.withdraw(pod, &mut batch);
                    self.pods[pod].outcome = self.pods[pod].outcome_unplaced(PodOutcome::Withdrawn);
                }
                (EventKind::End { attempt }, PodState::Running(run)) if attempt == run.attempt => {
                    let stopped = si::TerminationType::StoppedByRm;
                    batch.releases.push(self.release(pod, run.uuid, stopped));
                    self.give_back(pod, run.machine);
                    self.pods[pod].outcome = PodOutcome::Completed;
                    self.pods[pod].end = Some(self.now);
                    self.done(pod, &mut batch);
                }
                (EventKind::Leave { attempt }, PodState::Running(run))
                    if attempt == run.attempt =>
                {
                    self.leave(pod, run, &mut batch);
                }
                // The end of an attempt that was preempted, or a withdrawal of what has started.
                (EventKind::End { .. } | EventKind::Leave { .. } | EventKind::Withdraw, _) => {}
            }
        }
        self.send(batch).await
    }

    async fn send(&self, batch: InstantRequests) -> Result<(), ReplayError> {
        let InstantRequests { releases, withdrawn, remove, new, asks } = batch;
        if !(releases.is_empty() && withdrawn.is_empty()) {
            let releases = si::AllocationReleasesRequest {
                allocations_to_release: releases,
                allocation_asks_to_release: withdrawn,
            };
            let request =
                si::AllocationRequest { releases: Some(releases), ..allocation_request() };
            self.scheduler.update_allocation(request).await?;
        }
        if !(remove.is_empty() && new.is_empty()) {
            let rm_id = RM.to_owned();
            let request = si::ApplicationRequest { new, remove, rm_id, ..Default::default() };
            self.scheduler.update_application(request).await?;
        }
        if !asks.is_empty() {
            let request = si::AllocationRequest { asks, ..allocation_request() };
            self.scheduler.update_allocation(request).await?;
        }
        Ok(())
    }

    /// Lets the scheduler go on until neither it nor the replay has anything more to say.
    async fn settle(&mut self) -> Result<(), ReplayError> {
        loop {
            self.scheduler.settle().await;
            if !self.absorb().await? {
                return Ok(());
            }
        }
    }

    /// Takes over what the scheduler has decided; says whether there was anything.
    async fn absorb(&mut self) -> Result<bool, ReplayError> {
        let heard = self.decisions.take();
        let any = !heard.is_empty();
        let mut batch = InstantRequests::default();
        for (instant, decision) in heard {
            match decision {
                Decision::Placed { pod, attempt, machine, uuid } => {
                    self.placed(self.clock(instant), pod, attempt, machine, uuid)?;
                }
                Decision::Preempted { pod, uuid, why } => {
                    self.preempted(self.clock(instant), pod, (&uuid, &why), &mut batch);
                }
                Decision::PodRefused { pod, reason } => self.refused(pod, reason, &mut batch),
                Decision::MachineRefused { machine, reason } => {
                    let node = self.trace.machines[machine].name.clone();
                    return Err(ReplayError::MachineRefused { node, reason });
                }
                Decision::Unknown(what) => return Err(ReplayError::Unknown(what)),
            }
        }
        self.send(batch).await?;
        Ok(any)
    }

    fn placed(
        &mut self,
        at: i64,
        pod: usize,
        attempt: u32,
        machine: usize,
        uuid: String,
    ) -> Result<(), ReplayError> {
        let row = &self.trace.pods[pod];
        let admitted = row.admits(&self.trace.machines[machine].model);
        let awaited = self.states[pod] == PodState::Waiting { attempt };
        if !(awaited && admitted && self.free[machine].holds(&row.ask)) {
            let node = self.trace.machines[machine].name.clone();
            return Err(ReplayError::Misplaced { pod: row.name.clone(), node });
        }
        let (ask, lifetime) = (row.ask, row.lifetime);
        self.stop_waiting(pod);
        self.free[machine].subtract(&ask);
        self.fragmentation.set_free(machine, self.free[machine]);
        self.usage.take(&ask);
        let run = Run { attempt, machine, uuid, since: at, told: None };
        self.states[pod] = PodState::Running(run);
        self.pods[pod].start.get_or_insert(at);
        self.pods[pod].machine = Some(machine);
        let end = match lifetime {
            Lifetime::Runs(seconds) => at + seconds * 1000 - self.done[pod],
            Lifetime::WantedUntil(until) => max(at, until * 1000),
            Lifetime::RunsToEnd => max(at, self.trace.end * 1000),
        };
        self.plan(end, EventKind::End { attempt }, pod);
        Ok(())
    }

    /// The pod is told to leave.
    fn preempted(
        &mut self,
        at: i64,
        pod: usize,
        (uuid, why): (&str, &str),
        batch: &mut InstantRequests,
    ) {
        let PodState::Running(run) = &mut self.states[pod] else {
            return; // It ended in the same instant.
        };
        if run.uuid != uuid || run.told.is_some() {
            return;
        }
        run.told = Some((at, Grounds::of(why)));
        if self.assumptions.confirm_after == 0 {
            let run = run.clone();
            return self.leave(pod, run, batch);
        }
        let attempt = run.attempt;
        self.plan(at + self.assumptions.confirm_after, EventKind::Leave { attempt }, pod);
    }

    /// The pod leaves its machine and asks again, as its controller would have it do.
    fn leave(&mut self, pod: usize, run: Run, batch: &mut InstantRequests) {
        let Run { attempt, machine, uuid, since, told } = run;
        let Some((told, grounds)) = told else { return };
        let preempted = si::TerminationType::PreemptedByScheduler;
        batch.releases.push(self.release(pod, uuid, preempted));
        batch.asks.push(self.ask(pod, attempt + 1));
        self.give_back(pod, machine);
        let kept = if self.assumptions.keep_progress { told - since } else { 0 };
        self.done[pod] += kept;
        let (at, lost) = (self.now, self.now - since - kept);
        self.evictions.push(Eviction { at, pod, machine, grounds, ran: self.now - since, lost });
        self.pods[pod].preemptions += 1;
        self.wait(pod, attempt + 1);
        if let Lifetime::WantedUntil(until) = self.trace.pods[pod].lifetime {
            self.plan(max(self.now, until * 1000), EventKind::Withdraw, pod);
        }
    }

    fn refused(&mut self, pod: usize, reason: String, batch: &mut InstantRequests) {
        if matches!(self.states[pod], PodState::Waiting { .. }) {
            self.withdraw(pod, batch);
            self.pods[pod].outcome = PodOutcome::Rejected { reason };
        }
    }

    /// A pod that waits is not wanted any more.
    fn withdraw(&mut self, pod: usize, batch: &mut InstantRequests) {
        let state = self.states[pod].clone();
        self.stop_waiting(pod);
        if let (false, PodState::Waiting { attempt }) = (self.done(pod, batch), state) {
            batch.withdrawn.push(self.withdrawal(pod, attempt));
        }
    }

    /// Pods that came just now, still wait, and are wanted for a limited time only.
    fn plan_withdrawals(&mut self, due: &[Event]) {
        for event in due {
            let waits = matches!(self.states[event.pod], PodState::Waiting { .. });
            let lifetime = self.trace.pods[event.pod].lifetime;
            if let (EventKind::Arrive, true, Lifetime::WantedUntil(until)) =
                (event.kind, waits, lifetime)
            {
                self.plan(until * 1000, EventKind::Withdraw, event.pod);
            }
        }
    }

    async fn sample(&mut self) -> Result<(), ReplayError> {
        let root = self.scheduler.queues(PARTITION).await?;
        let (theirs, ours) = (Amount::of_named(root.allocated_resource.sorted()), self.usage.now);
        let held_of_leaf = self.held_for_gangs().await?;
        let mut held = Amount::default();
        for of_leaf in held_of_leaf.values() {
            held.add(of_leaf);
        }
        let mut of_pods = theirs;
        of_pods.subtract(&held);
        if of_pods != ours {
            return Err(ReplayError::BooksDiffer { at: self.now / 1000, theirs, held, ours });
        }
        let owed = entitlements(&root, &self.trace.capacity());
        let leaves = leaves(&root).into_iter().map(|leaf| {
            let mut held = Amount::of_named(leaf.allocated_resource.sorted());
            held.subtract(held_of_leaf.get(&leaf.queue_name).unwrap_or(&Amount::default()));
            let pending = Amount::of_named(leaf.pending_resource.sorted());
            let owed = owed.get(&leaf.queue_name).copied().unwrap_or_default();
            LeafSample::new(leaf.queue_name.clone(), held, pending, &owed)
        });
        let leaves: Vec<_> = leaves.collect();
        self.usage.note_pending();
        self.fairness.set(&leaves, self.usage.pending > 0);
        self.series.push(Sample {
            at: self.now,
            allocated: ours,
            running: self.usage.running,
            pending: self.pending,
            n_pending: self.usage.pending,
            jain: self.fairness.index(),
            leaves,
            n_evicted: self.evictions.len(),
            fragmentation: ResourceKind::ALL.map(|kind| self.fragmentation.of(kind)),
        });
        Ok(())
    }

    /// What is held in each leaf for pods of gangs that have still to come.
    async fn held_for_gangs(&self) -> Result<BTreeMap<String, Amount>, ReplayError> {
        let mut held: BTreeMap<String, Amount> = BTreeMap::new();
        for pod in self.jobs.gangs() {
            let id = self.trace.pods[pod].application();
            let Some(gang) = self.scheduler.application(PARTITION, id).await? else { continue };
            let of_leaf = held.entry(gang.queue_name).or_default();
            for place in gang.allocations.iter().filter(|it| it.placeholder) {
                of_leaf.add(&Amount::of_named(place.resource.sorted()));
            }
        }
        Ok(held)
    }

    fn wait(&mut self, pod: usize, attempt: u32) {
        self.states[pod] = PodState::Waiting { attempt };
        self.pending.add(&self.trace.pods[pod].ask);
        self.usage.pending += 1;
    }

    fn stop_waiting(&mut self, pod: usize) {
        self.pending.subtract(&self.trace.pods[pod].ask);
        self.usage.pending -= 1;
    }

    fn give_back(&mut self, pod: usize, machine: usize) {
        let ask = self.trace.pods[pod].ask;
        self.free[machine].add(&ask);
        self.fragmentation.set_free(machine, self.free[machine]);
        self.usage.give_back(&ask);
    }

    /// A pod is done with; with the last of its application, that is removed. Says whether it was
    /// the last.
    fn done(&mut self, pod: usize, batch: &mut InstantRequests) -> bool {
        self.states[pod] = PodState::Done;
        self.n_done += 1;
        let is_last = self.jobs.end(pod);
        if is_last {
            batch.remove.push(self.removal(pod));
        }
        is_last
    }

    fn plan(&mut self, at: i64, kind: EventKind, pod: usize) {
        self.n_events += 1;
        self.events.push(Reverse(Event { at, kind, sequence: self.n_events, pod }));
    }

    /// Takes the events that fall due now, in order.
    fn due(&mut self) -> Vec<Event> {
        let mut due = Vec::new();
        while let Some(&Reverse(event)) = self.events.peek() {
            if event.at > self.now {
                break;
            }
            due.push(event);
            self.events.pop();
        }
        due
    }

    /// An instant as milliseconds on the clock of the trace.
    fn clock(&self, instant: Instant) -> i64 {
        let passed = instant.saturating_duration_since(self.start).as_millis();
        self.trace.start() * 1000 + i64::try_from(passed).unwrap_or(i64::MAX)
    }

    fn since_start(&self, at: i64) -> Duration {
        Duration::from_millis(u64::try_from(at - self.trace.start() * 1000).unwrap_or(0))
    }

    fn application(&self, pod: usize) -> si::AddApplicationRequest {
        let all_preempt = self.assumptions.all_preempt;
        si::AddApplicationRequest {
            application_id: self.trace.pods[pod].application().to_owned(),
            queue_name: self.pods[pod].queue.clone(),
            partition_name: PARTITION.to_owned(),
            ugi: Some(si::UserGroupInformation { user: RM.to_owned(), groups: Vec::new() }),
            task_groups: self.jobs.of_pod(pod).task_groups(&self.trace, all_preempt),
            ..si::AddApplicationRequest::default()
        }
    }

    fn removal(&self, pod: usize) -> si::RemoveApplicationRequest {
        si::RemoveApplicationRequest {
            application_id: self.trace.pods[pod].application().to_owned(),
            partition_name: PARTITION.to_owned(),
        }
    }

    fn withdrawal(&self, pod: usize, attempt: u32) -> si::AllocationAskRelease {
        let row = &self.trace.pods[pod];
        si::AllocationAskRelease {
            application_id: row.application().to_owned(),
            allocation_key: ask_key(&row.name, attempt),
            partition_name: PARTITION.to_owned(),
            ..si::AllocationAskRelease::default()
        }
    }

    fn ask(&self, pod: usize, attempt: u32) -> si::AllocationAsk {
        let row = &self.trace.pods[pod];
        si::AllocationAsk {
            allocation_key: ask_key(&row.name, attempt),
            application_id: row.application().to_owned(),
            partition_name: PARTITION.to_owned(),
            resource_ask: Some(row.ask.to_wire()),
            max_allocations: 1,
            priority: row.wishes.priority.unwrap_or(0),
            tags: row.wishes.all_tags(),
            preemption_policy: row.wishes.policy(self.assumptions.all_preempt),
            task_group_name: self.jobs.of_pod(pod).group_of(pod, &self.trace).unwrap_or_default(),
            ..si::AllocationAsk::default()
        }
    }

    fn release(
        &self,
        pod: usize,
        uuid: String,
        termination: si::TerminationType,
    ) -> si::AllocationRelease {
        si::AllocationRelease {
            partition_name: PARTITION.to_owned(),
            application_id: self.trace.pods[pod].application().to_owned(),
            uuid,
            termination_type: termination.into(),
            ..si::AllocationRelease::default()
        }
    }
}

/// What is sent to the scheduler in one instant.
#[derive(Default)]
struct InstantRequests {
    releases: Vec<si::AllocationRelease>,
    withdrawn: Vec<si::AllocationAskRelease>,
    remove: Vec<si::RemoveApplicationRequest>,
    new: Vec<si::AddApplicationRequest>,
    asks: Vec<si::AllocationAsk>,
}

fn allocation_request() -> si::AllocationRequest {
    si::AllocationRequest { rm_id: RM.to_owned(), ..si::AllocationRequest::default() }
}
