//! Conditions on their way: how many are written in a second, and those of PodGroups that wait for that.
//!
//! # Invariants
//! * Conditions of pods and of PodGroups are written together at the rate that is set: what is too much
//!   waits for its turn.
//! * What could not be written is tried again while it is what is to be said.
//! * Of each type a PodGroup is told what was to be said of it last, and nothing older after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Shim;
use super::gathering::{DISRUPTION_TARGET, INITIALLY_SCHEDULED};
use super::said::{GroupCondition, HandOrder};
use super::waiting::APART;

/// A PodGroup as `namespace/name`, and the type of a condition.
type Subject = (String, &'static str);

/// What was to be said of PodGroups last.
#[derive(Debug, Default)]
pub(super) struct GroupWords {
    last: BTreeMap<Subject, GroupWord>,
    /// Those that have not been ordered, by when they may be.
    turns: BTreeSet<(Duration, Subject)>,
}

#[derive(Debug)]
struct GroupWord {
    condition: GroupCondition,
    /// Its turn; none once it was ordered.
    turn: Option<Duration>,
}

impl GroupWords {
    /// It could not be written: it is said again from then on, unless something else was to be said since.
    fn put_back(&mut self, condition: &GroupCondition, turn: Duration) {
        let subject = subject(condition);
        let Some(word) = self.last.get_mut(&subject) else { return };
        if word.condition == *condition && word.turn.is_none() {
            word.turn = Some(turn);
            self.turns.insert((turn, subject));
        }
    }

    /// Has this be said from then on, in place of what was to be said before.
    fn put(&mut self, condition: GroupCondition, turn: Duration) {
        let subject = subject(&condition);
        let word = GroupWord { condition, turn: Some(turn) };
        if let Some(GroupWord { turn: Some(turn), .. }) = self.last.insert(subject.clone(), word) {
            self.turns.remove(&(turn, subject.clone()));
        }
        self.turns.insert((turn, subject));
    }

    /// What is to be ordered next, if its turn has come.
    fn take(&mut self, now: Duration) -> Option<GroupCondition> {
        if self.first_turn()? > now {
            return None;
        }
        let (_, subject) = self.turns.pop_first()?;
        let word = self.last.get_mut(&subject)?;
        word.turn = None;
        Some(word.condition.clone())
    }

    /// The first turn of any.
    pub(super) fn first_turn(&self) -> Option<Duration> {
        self.turns.first().map(|(turn, _)| *turn)
    }

    /// A PodGroup is gone.
    pub(super) fn forget(&mut self, group: &str) {
        for type_ in [INITIALLY_SCHEDULED, DISRUPTION_TARGET] {
            let subject = (group.to_owned(), type_);
            if let Some(GroupWord { turn: Some(turn), .. }) = self.last.remove(&subject) {
                self.turns.remove(&(turn, subject));
            }
        }
    }
}

fn subject(condition: &GroupCondition) -> Subject {
    (format!("{}/{}", condition.namespace, condition.name), condition.type_)
}

impl Shim {
    /// Whether one more condition may be written, besides those that are being asked about.
    #[allow(clippy::cast_precision_loss)] // A few.
    pub(super) fn may_say(&self) -> bool {
        self.budget >= 1.0 + self.n_asking as f64
    }

    /// As many conditions more may be written as this time gives.
    pub(super) fn refill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.refilled).as_secs_f64();
        self.budget = (self.budget + passed * self.rate).min(self.rate);
        self.refilled = now;
    }

    /// Has the condition of a PodGroup be written, when its turn comes.
    pub(super) fn say_of_group(&mut self, condition: GroupCondition, now: Duration) {
        self.group_words.put(condition, now);
        self.say_group_words(now);
    }

    /// How a PodGroup stands could not be written: it is tried again after a pause.
    pub(super) fn group_condition_failed(&mut self, condition: &GroupCondition, now: Duration) {
        self.group_words.put_back(condition, now + APART);
    }

    /// Orders conditions of PodGroups whose turn has come, as many as may be.
    pub(super) fn say_group_words(&mut self, now: Duration) {
        while self.may_say()
            && let Some(condition) = self.group_words.take(now)
        {
            // A group that has been scheduled once stays so, whoever has said it.
            let group = self.groups.get(&format!("{}/{}", condition.namespace, condition.name));
            let is_scheduled = group.is_some_and(|group| group.is(INITIALLY_SCHEDULED));
            if condition.type_ == INITIALLY_SCHEDULED && is_scheduled {
                continue;
            }
            self.budget -= 1.0;
            self.hands.push(HandOrder::GroupCondition(condition));
        }
    }
}
