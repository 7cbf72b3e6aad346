//! Transitions of a pod: pending, running, evicted, pending again, ended.
//!
//! Only this file changes the replay's counts of free, used and pending amounts.

use std::cmp::max;

use monoceros_proto::si::v1 as si;

use super::super::evictions::Eviction;
use super::super::history::PodOutcome;
use super::super::trace::Lifetime;
use super::events::EventKind;
use super::requests::InstantRequests;
use super::{Replay, ReplayError};
use crate::replay::grounds::Grounds;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodState {
    Ahead,
    Waiting { attempt: u32 },
    Running(Run),
    Done,
}

/// An attempt of a pod that runs on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) attempt: u32,
    pub(super) machine: usize,
    pub(super) uuid: String,
    /// Start in milliseconds on the clock of the trace.
    since: i64,
    /// Time and grounds of its eviction, once the scheduler has requested it.
    evicted: Option<(i64, Grounds)>,
}

impl Replay {
    pub(super) fn placed(
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
        let run = Run { attempt, machine, uuid, since: at, evicted: None };
        self.states[pod] = PodState::Running(run);
        self.pods[pod].start.get_or_insert(at);
        self.pods[pod].machine = Some(machine);
        let end = match lifetime {
            Lifetime::Runs(seconds) => at + seconds * 1000 - self.done[pod],
            Lifetime::WantedUntil(until) => max(at, until * 1000),
            Lifetime::RunsToEnd => max(at, self.trace.end * 1000),
        };
        self.agenda.plan(end, EventKind::End { attempt }, pod);
        Ok(())
    }

    /// Records that the scheduler evicts the pod.
    pub(super) fn preempted(
        &mut self,
        at: i64,
        pod: usize,
        (uuid, why): (&str, &str),
        batch: &mut InstantRequests,
    ) {
        let PodState::Running(run) = &mut self.states[pod] else {
            return; // It ended in the same instant.
        };
        if run.uuid != uuid || run.evicted.is_some() {
            return;
        }
        run.evicted = Some((at, Grounds::of(why)));
        if self.assumptions.confirm_after == 0 {
            let run = run.clone();
            return self.leave(pod, run, batch);
        }
        let attempt = run.attempt;
        self.agenda.plan(at + self.assumptions.confirm_after, EventKind::Leave { attempt }, pod);
    }

    /// Ends an evicted pod's attempt, and asks again as its controller would.
    pub(super) fn leave(&mut self, pod: usize, run: Run, batch: &mut InstantRequests) {
        let Run { attempt, machine, uuid, since, evicted } = run;
        let Some((evicted, grounds)) = evicted else {
            debug_assert!(false, "only an evicted pod leaves");
            return;
        };
        let preempted = si::TerminationType::PreemptedByScheduler;
        batch.releases.push(self.release(pod, uuid, preempted));
        batch.asks.push(self.ask(pod, attempt + 1));
        self.give_back(pod, machine);
        let kept = if self.assumptions.keep_progress { evicted - since } else { 0 };
        self.done[pod] += kept;
        let (at, lost) = (self.now, self.now - since - kept);
        self.evictions.push(Eviction { at, pod, machine, grounds, ran: self.now - since, lost });
        self.pods[pod].preemptions += 1;
        self.wait(pod, attempt + 1);
        if let Lifetime::WantedUntil(until) = self.trace.pods[pod].lifetime {
            self.agenda.plan(max(self.now, until * 1000), EventKind::Withdraw, pod);
        }
    }

    pub(super) fn refused(&mut self, pod: usize, reason: String, batch: &mut InstantRequests) {
        if matches!(self.states[pod], PodState::Waiting { .. }) {
            self.withdraw(pod, batch);
            self.pods[pod].outcome = PodOutcome::Rejected { reason };
        }
    }

    pub(super) fn withdraw(&mut self, pod: usize, batch: &mut InstantRequests) {
        let state = self.states[pod].clone();
        self.stop_waiting(pod);
        if let (false, PodState::Waiting { attempt }) = (self.done(pod, batch), state) {
            batch.withdrawn.push(self.withdrawal(pod, attempt));
        }
    }

    pub(super) fn wait(&mut self, pod: usize, attempt: u32) {
        self.states[pod] = PodState::Waiting { attempt };
        self.pending.add(&self.trace.pods[pod].ask);
        self.usage.pending += 1;
    }

    fn stop_waiting(&mut self, pod: usize) {
        self.pending.subtract(&self.trace.pods[pod].ask);
        self.usage.pending -= 1;
    }

    pub(super) fn give_back(&mut self, pod: usize, machine: usize) {
        let ask = self.trace.pods[pod].ask;
        self.free[machine].add(&ask);
        self.fragmentation.set_free(machine, self.free[machine]);
        self.usage.give_back(&ask);
    }

    /// Ends a pod. The last pod of an application removes the application. Returns whether it was
    /// the last.
    pub(super) fn done(&mut self, pod: usize, batch: &mut InstantRequests) -> bool {
        self.states[pod] = PodState::Done;
        self.n_done += 1;
        let is_last = self.jobs.end(pod);
        if is_last {
            batch.remove.push(self.removal(pod));
        }
        is_last
    }
}
