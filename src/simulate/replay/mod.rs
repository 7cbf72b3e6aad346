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
//! and what is held for pods that have still to come is nobody else's. Where none of its pods is
//! there for so long that its places are given up and the scheduler ends the application, it is
//! submitted again, as no gang, with the next pod.
//!
//! # Preemption
//! A victim holds what it has until the resource manager says that it is gone, which the replay says
//! after a time of its options. Its end may come first: then nothing is lost. Else it asks again, in the
//! same instant, with its whole duration or with what is left of it.
//!
//! # Invariants, checked in every run
//! * No machine holds more than it has, and no pod runs on a GPU model that it does not accept.
//! * After every step, what root has allocated is what the replay counts as running.
//!
//! # The parts
//! `agenda` knows what comes next, `attempts` what becomes of each pod, `requests` what the scheduler
//! is asked, and `books` compares both sides after each step.

mod agenda;
mod attempts;
mod books;
mod requests;

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::{ReadError, SchedulerHandle, UpdateError};
use monoceros_proto::si::v1 as si;
use tokio::time::Instant;

use super::amount::Amount;
use super::decisions::{Decision, Decisions};
use super::evictions::Eviction;
use super::fairness::Fairness;
use super::fragmentation::Fragmentation;
use super::history::{History, PodHistory, PodOutcome, Usage};
use super::jobs::Jobs;
use super::queues::{leaf_for, leaves};
use super::series::Series;
use super::trace::{Lifetime, Trace};

use agenda::{Agenda, Event, EventKind};
use attempts::PodState;
use requests::InstantRequests;

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
        agenda: Agenda::default(),
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
    agenda: Agenda,
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
            self.agenda.plan(pod.creation * 1000, EventKind::Arrive, at);
        }
        while let Some(next) = self.next_at() {
            let due = self.start + self.since_start(next);
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
            let due = self.agenda.due(self.now);
            if due.is_empty() && !decided {
                continue;
            }
            if due.iter().any(|event| self.comes_later(event)) {
                // Its application may have ended in this very instant.
                self.settle().await?;
            }
            self.tell(&due).await?;
            self.settle().await?;
            self.plan_withdrawals(&due);
            self.sample().await?;
            tick(self.n_done);
        }
        Ok(())
    }

    /// When something happens next, in milliseconds on the clock of the trace. What is left of
    /// attempts that are over happens to nobody: after the last pod the replay is at its end.
    fn next_at(&mut self) -> Option<i64> {
        let states = &self.states;
        self.agenda.next_at(|event| match (event.kind, &states[event.pod]) {
            (EventKind::Arrive, _) | (EventKind::Withdraw, PodState::Waiting { .. }) => false,
            (EventKind::End { attempt } | EventKind::Leave { attempt }, PodState::Running(run)) => {
                attempt != run.attempt
            }
            // Who has to leave, and is not wanted any more, is withdrawn by an event of its own.
            (EventKind::End { .. } | EventKind::Leave { .. } | EventKind::Withdraw, _) => true,
        })
    }

    /// A pod comes whose application came with another.
    fn comes_later(&self, event: &Event) -> bool {
        event.kind == EventKind::Arrive && self.jobs.is_submitted(event.pod)
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
                Decision::ApplicationEnded { pod } => self.jobs.is_ended(pod),
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

    /// Pods that came just now, still wait, and are wanted for a limited time only.
    fn plan_withdrawals(&mut self, due: &[Event]) {
        for event in due {
            let waits = matches!(self.states[event.pod], PodState::Waiting { .. });
            let lifetime = self.trace.pods[event.pod].lifetime;
            if let (EventKind::Arrive, true, Lifetime::WantedUntil(until)) =
                (event.kind, waits, lifetime)
            {
                self.agenda.plan(until * 1000, EventKind::Withdraw, event.pod);
            }
        }
    }

    /// An instant as milliseconds on the clock of the trace.
    fn clock(&self, instant: Instant) -> i64 {
        let passed = instant.saturating_duration_since(self.start).as_millis();
        self.trace.start() * 1000 + i64::try_from(passed).unwrap_or(i64::MAX)
    }

    fn since_start(&self, at: i64) -> Duration {
        Duration::from_millis(u64::try_from(at - self.trace.start() * 1000).unwrap_or(0))
    }
}
