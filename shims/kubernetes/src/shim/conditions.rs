//! Rate limit of conditions, and the queue of PodGroup conditions.
//!
//! # Invariants
//! * Conditions of pods and PodGroups share one rate. Conditions beyond it wait.
//! * A condition that could not be written is retried until it is outdated.
//! * For each type a PodGroup gets the latest condition, and no older one after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Shim;
use super::group_status::{DISRUPTION_TARGET, INITIALLY_SCHEDULED};
use super::messages::{ApiOrder, GroupCondition};
use super::waiting::APART;

/// A PodGroup as `namespace/name`, and a condition type.
type Subject = (String, &'static str);

/// The latest condition of each subject.
#[derive(Debug, Default)]
pub(super) struct GroupConditions {
    last: BTreeMap<Subject, QueuedCondition>,
    /// Subjects whose condition waits, by the earliest time of the write.
    turns: BTreeSet<(Duration, Subject)>,
}

#[derive(Debug)]
struct QueuedCondition {
    condition: GroupCondition,
    /// Earliest time of the write. `None` once it was ordered.
    turn: Option<Duration>,
}

impl GroupConditions {
    /// Requeues a condition that could not be written, unless a later one has replaced it.
    fn put_back(&mut self, condition: &GroupCondition, turn: Duration) {
        let subject = subject(condition);
        let Some(queued) = self.last.get_mut(&subject) else { return };
        if queued.condition == *condition && queued.turn.is_none() {
            queued.turn = Some(turn);
            self.turns.insert((turn, subject));
        }
    }

    /// Queues a condition. It replaces an earlier one that waits.
    fn put(&mut self, condition: GroupCondition, turn: Duration) {
        let subject = subject(&condition);
        let queued = QueuedCondition { condition, turn: Some(turn) };
        if let Some(QueuedCondition { turn: Some(turn), .. }) =
            self.last.insert(subject.clone(), queued)
        {
            self.turns.remove(&(turn, subject.clone()));
        }
        self.turns.insert((turn, subject));
    }

    /// Takes the next condition whose time has come.
    fn take(&mut self, now: Duration) -> Option<GroupCondition> {
        if self.first_turn()? > now {
            return None;
        }
        let (_, subject) = self.turns.pop_first()?;
        let queued = self.last.get_mut(&subject)?;
        queued.turn = None;
        Some(queued.condition.clone())
    }

    /// Returns the earliest time of a write.
    pub(super) fn first_turn(&self) -> Option<Duration> {
        self.turns.first().map(|(turn, _)| *turn)
    }

    /// Forgets a PodGroup that is gone.
    pub(super) fn forget(&mut self, group: &str) {
        for type_ in [INITIALLY_SCHEDULED, DISRUPTION_TARGET] {
            let subject = (group.to_owned(), type_);
            if let Some(QueuedCondition { turn: Some(turn), .. }) = self.last.remove(&subject) {
                self.turns.remove(&(turn, subject));
            }
        }
    }
}

fn subject(condition: &GroupCondition) -> Subject {
    (format!("{}/{}", condition.namespace, condition.name), condition.type_)
}

impl Shim {
    /// Returns whether one more condition may be written, besides those that await an explanation.
    #[allow(clippy::cast_precision_loss)] // A few.
    pub(super) fn has_budget(&self) -> bool {
        self.budget >= 1.0 + self.n_explaining as f64
    }

    /// Adds the writes allowed since the last call.
    pub(super) fn refill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.refilled).as_secs_f64();
        self.budget = (self.budget + passed * self.rate).min(self.rate);
        self.refilled = now;
    }

    /// Queues a condition of a PodGroup.
    pub(super) fn queue_group_condition(&mut self, condition: GroupCondition, now: Duration) {
        self.group_conditions.put(condition, now);
        self.order_group_conditions(now);
    }

    /// Retries a PodGroup condition that could not be written, after a pause.
    pub(super) fn group_condition_failed(&mut self, condition: &GroupCondition, now: Duration) {
        self.group_conditions.put_back(condition, now + APART);
    }

    /// Orders the PodGroup conditions whose time has come, within the rate, once this replica leads.
    pub(super) fn order_group_conditions(&mut self, now: Duration) {
        while self.leads
            && self.has_budget()
            && let Some(condition) = self.group_conditions.take(now)
        {
            // A group that was scheduled once keeps that condition, whichever replica wrote it.
            let group = self.groups.get(&format!("{}/{}", condition.namespace, condition.name));
            let is_scheduled = group.is_some_and(|group| group.is(INITIALLY_SCHEDULED));
            if condition.type_ == INITIALLY_SCHEDULED && is_scheduled {
                continue;
            }
            self.budget -= 1.0;
            self.api_orders.push(ApiOrder::GroupCondition(condition));
        }
    }
}
