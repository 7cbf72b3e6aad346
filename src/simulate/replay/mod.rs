//! Drives the scheduler through a trace in virtual time.
//!
//! # How time passes
//! The clock of the runtime is paused: it jumps to the next timer when all tasks wait. The replay
//! sleeps until its next event (or until a timer of the scheduler leads to a decision), sends
//! everything that is due at that time, and lets the scheduler settle, which takes no virtual time.
//! So weeks take seconds, with the same actors that run in production.
//!
//! # Order within an instant
//! Ends come before withdrawals, and withdrawals before arrivals, so released capacity is available
//! to pods that arrive in the same second. A pod that ends in the second of its start holds its
//! capacity until the scheduler has settled.
//!
//! # Gangs
//! A gang is one application. It is submitted when the first of its pods arrives, with task groups
//! for all of them. Each pod asks when it arrives. So a gang is admitted when there is capacity for
//! all of it, and capacity for later pods is held. If no pod of the gang exists for so long that
//! its holds end and the scheduler ends the application, the next pod submits the application
//! again, without a gang.
//!
//! # Preemption
//! A victim holds its allocation until the resource manager confirms its exit, which the replay
//! does after a configured time. If the victim ends before that, nothing is lost. Otherwise it asks
//! again at the time of its exit, for its whole duration or for the rest of it.
//!
//! # Invariants, checked in every run
//! * No machine holds more than its capacity, and no pod runs on a GPU model that it does not
//!   accept.
//! * After every step, root's allocated amount equals the amount that the replay counts as running.
//!
//! # The parts
//! `events` is what is planned, `attempts` changes the states of pods, `requests` builds messages
//! for the scheduler, and `books` compares both sides after each step.

mod attempts;
mod books;
mod events;
mod requests;

use std::sync::Arc;

use monoceros_actors::{ReadError, SchedulerHandle, UpdateError};
use monoceros_proto::si::v1 as si;

use super::amount::Amount;
use super::decisions::{Decision, Decisions};
use super::evictions::Eviction;
use super::fairness::Fairness;
use super::fragmentation::Fragmentation;
use super::history::{History, PodHistory, PodOutcome, Sample, Usage};
use super::jobs::Jobs;
use super::queues::{leaf_for, leaves};
use super::trace::{Lifetime, Trace};
use crate::replay::agenda::Agenda;
use crate::replay::series::Series;
use crate::replay::virtual_time::Clock;

use attempts::PodState;
use events::{Event, EventKind};
use requests::InstantRequests;

pub(crate) const RM: &str = "simulator";
pub(crate) const PARTITION: &str = "default";

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

/// Assumptions of a replay that are not in the trace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Assumptions {
    /// Whether pods without a preemption policy may preempt others.
    pub(crate) all_preempt: bool,
    /// Time that a victim needs to exit, in milliseconds.
    pub(crate) confirm_after: i64,
    /// Whether the work of a victim is kept: it then asks again for the remaining time.
    pub(crate) keep_progress: bool,
}

/// Replays the trace to its last event. `decisions` is registered with the scheduler already.
/// `tick` is called with the number of ended pods whenever it may have changed.
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
        clock: Clock::start(trace.start() * 1000),
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
    clock: Clock,
    /// The time that the replay has reached, in milliseconds on the clock of the trace.
    now: i64,
    states: Vec<PodState>,
    /// Free amount of each machine.
    free: Vec<Amount>,
    fragmentation: Fragmentation,
    agenda: Agenda<EventKind>,
    pending: Amount,
    n_done: usize,
    usage: Usage,
    series: Series<Sample>,
    fairness: Fairness,
    evictions: Vec<Eviction>,
    /// Work that each pod keeps from evicted attempts, in milliseconds.
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
            let due = self.clock.instant_of(next);
            tokio::select! {
                biased;
                () = self.decisions.more() => {}
                () = tokio::time::sleep_until(due) => {}
            }
            let now = self.clock.now();
            self.usage.pass(now - self.now);
            self.fairness.pass(now - self.now);
            self.now = now;
            let decided = self.absorb().await?;
            let due = self.agenda.due(self.now);
            if due.is_empty() && !decided {
                continue;
            }
            if due.iter().any(|event| self.comes_later(event)) {
                // An application may have ended at this time.
                self.settle().await?;
            }
            self.send_events(&due).await?;
            self.settle().await?;
            self.plan_withdrawals(&due);
            self.sample().await?;
            tick(self.n_done);
        }
        Ok(())
    }

    /// Returns the time of the next event, in milliseconds on the clock of the trace. Events of
    /// past attempts are stale, so that the replay ends with the last pod.
    fn next_at(&mut self) -> Option<i64> {
        let states = &self.states;
        self.agenda.next_at(|event| match (event.kind, &states[event.subject]) {
            (EventKind::Arrive, _) | (EventKind::Withdraw, PodState::Waiting { .. }) => false,
            (EventKind::End { attempt } | EventKind::Leave { attempt }, PodState::Running(run)) => {
                attempt != run.attempt
            }
            // The end of a pod that does not run, or the withdrawal of a pod that is not pending. A
            // victim that exits after its deletion in the trace is withdrawn by another event.
            (EventKind::End { .. } | EventKind::Leave { .. } | EventKind::Withdraw, _) => true,
        })
    }

    /// Whether the event is the arrival of a pod whose application was submitted before.
    fn comes_later(&self, event: &Event) -> bool {
        event.kind == EventKind::Arrive && self.jobs.is_submitted(event.subject)
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

    /// Sends the due events to the scheduler: releases, then removed and new applications, then
    /// asks.
    async fn send_events(&mut self, due: &[Event]) -> Result<(), ReplayError> {
        let mut batch = InstantRequests::default();
        for event in due {
            let pod = event.subject;
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
                // The end of an evicted attempt, or the withdrawal of a started pod.
                (EventKind::End { .. } | EventKind::Leave { .. } | EventKind::Withdraw, _) => {}
            }
        }
        self.send(batch).await
    }

    /// Runs the scheduler and applies its decisions until there are no more.
    async fn settle(&mut self) -> Result<(), ReplayError> {
        loop {
            self.scheduler.settle().await;
            if !self.absorb().await? {
                return Ok(());
            }
        }
    }

    /// Applies the scheduler's decisions. Returns whether there were any.
    async fn absorb(&mut self) -> Result<bool, ReplayError> {
        let recorded = self.decisions.take();
        let any = !recorded.is_empty();
        let mut batch = InstantRequests::default();
        for (instant, decision) in recorded {
            match decision {
                Decision::Placed { pod, attempt, machine, uuid } => {
                    self.placed(self.clock.time_of(instant), pod, attempt, machine, uuid)?;
                }
                Decision::Preempted { pod, uuid, why } => {
                    self.preempted(self.clock.time_of(instant), pod, (&uuid, &why), &mut batch);
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

    /// Plans withdrawals of pods that arrived now, are still pending, and are wanted for a limited
    /// time.
    fn plan_withdrawals(&mut self, due: &[Event]) {
        for event in due {
            let pod = event.subject;
            let waits = matches!(self.states[pod], PodState::Waiting { .. });
            let lifetime = self.trace.pods[pod].lifetime;
            if let (EventKind::Arrive, true, Lifetime::WantedUntil(until)) =
                (event.kind, waits, lifetime)
            {
                self.agenda.plan(until * 1000, EventKind::Withdraw, pod);
            }
        }
    }
}
