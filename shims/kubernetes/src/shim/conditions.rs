//! Rate limit of conditions, and the queue of PodGroup conditions.
//!
//! # Invariants
//! * Conditions of pods and PodGroups share one rate. Conditions beyond it wait.
//! * A condition that could not be written is retried until it is outdated.
//! * For each type a PodGroup gets the latest condition, and no older one after it: one write is under
//!   way at a time, since two may overtake each other.

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
    /// Whether a write is under way, of this condition or of the one before. The next one waits for
    /// its end.
    is_writing: bool,
}

impl GroupConditions {
    /// Notes the end of a write. A condition that could not be written has its next turn at `again`,
    /// unless a later one waits.
    fn end(&mut self, condition: &GroupCondition, again: Option<Duration>) {
        let subject = subject(condition);
        let Some(queued) = self.last.get_mut(&subject) else { return };
        queued.is_writing = false;
        if queued.turn.is_none() && queued.condition == *condition {
            queued.turn = again;
        }
        if let Some(turn) = queued.turn {
            self.turns.insert((turn, subject));
        }
    }

    /// Queues a condition. It replaces an earlier one that waits.
    fn put(&mut self, condition: GroupCondition, turn: Duration) {
        let subject = subject(&condition);
        let before = self.last.get(&subject);
        let is_writing = before.is_some_and(|before| before.is_writing);
        if let Some(turn) = before.and_then(|before| before.turn) {
            self.turns.remove(&(turn, subject.clone()));
        }
        if !is_writing {
            self.turns.insert((turn, subject.clone()));
        }
        self.last.insert(subject, QueuedCondition { condition, turn: Some(turn), is_writing });
    }

    /// Takes the next condition whose time has come.
    fn take(&mut self, now: Duration) -> Option<GroupCondition> {
        if self.first_turn()? > now {
            return None;
        }
        let (_, subject) = self.turns.pop_first()?;
        let queued = self.last.get_mut(&subject)?;
        queued.turn = None;
        queued.is_writing = true;
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

    /// Handles the end of a write. A PodGroup condition that could not be written is retried after a
    /// pause.
    pub(super) fn group_condition_ended(
        &mut self,
        condition: &GroupCondition,
        is_written: bool,
        now: Duration,
    ) {
        self.group_conditions.end(condition, (!is_written).then_some(now + APART));
        self.order_group_conditions(now);
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
                self.group_conditions.end(&condition, None);
                continue;
            }
            self.budget -= 1.0;
            self.api_orders.push(ApiOrder::GroupCondition(condition));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(status: bool) -> GroupCondition {
        GroupCondition {
            namespace: "ns".to_owned(),
            name: "g".to_owned(),
            type_: INITIALLY_SCHEDULED,
            status,
            reason: "why".to_owned(),
            message: String::new(),
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_condition_is_written_after_the_end_of_the_write_before() {
        let mut conditions = GroupConditions::default();
        conditions.put(condition(false), at(0));
        assert_eq!(conditions.take(at(0)), Some(condition(false)));
        conditions.put(condition(true), at(1));
        assert_eq!((conditions.take(at(5)), conditions.first_turn()), (None, None));
        conditions.end(&condition(false), Some(at(9)));
        assert_eq!(conditions.take(at(5)), Some(condition(true)), "the failed one is outdated");
        conditions.end(&condition(true), None);
        assert_eq!(conditions.first_turn(), None);
    }

    #[test]
    fn a_condition_that_could_not_be_written_has_another_turn() {
        let mut conditions = GroupConditions::default();
        conditions.put(condition(false), at(0));
        conditions.take(at(0)).unwrap();
        conditions.end(&condition(false), Some(at(9)));
        assert_eq!(conditions.take(at(8)), None);
        assert_eq!(conditions.take(at(9)), Some(condition(false)));
        conditions.forget("ns/g");
        conditions.end(&condition(false), Some(at(20)));
        assert_eq!(conditions.first_turn(), None, "the group is gone");
    }
}
