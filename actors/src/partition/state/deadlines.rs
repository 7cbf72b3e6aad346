//! The deadlines of a partition, in the order in which they are due.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Clock;
use crate::step::{Alarm, Deadlines};

/// All deadlines. Of those due at the same time, the one that was armed first comes first.
#[derive(Clone, Default)]
pub(in crate::partition) struct DeadlineList {
    /// Deadlines by due time and number, with the number that disarms each, if it has one.
    in_order: BTreeMap<(Instant, u64), (Option<u64>, Alarm)>,
    next: u64,
    /// The position in the order of each deadline that can be disarmed.
    by_number: BTreeMap<u64, (Instant, u64)>,
}

/// A deadline as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DueAlarm {
    /// ns since the epoch.
    at_ns: i64,
    /// The number by which it can be disarmed, if it can.
    number: Option<u64>,
    alarm: Alarm,
}

impl DeadlineList {
    /// Carries out what a step has armed and disarmed.
    pub(in crate::partition) fn take_in(&mut self, changes: &mut Deadlines) {
        if !changes.armed.is_empty() {
            let now = Instant::now();
            for (wait, number, alarm) in changes.armed.drain(..) {
                self.arm(now, wait, number, alarm);
            }
        }
        for number in changes.disarmed.drain(..) {
            // The deadline may have been due already.
            if let Some(place) = self.by_number.remove(&number) {
                self.in_order.remove(&place);
            }
        }
    }

    fn arm(&mut self, now: Instant, wait: Duration, number: Option<u64>, alarm: Alarm) {
        // A wait beyond what the clock can hold never ends.
        let Some(due) = now.checked_add(wait) else { return };
        self.arm_at(due, number, alarm);
    }

    fn arm_at(&mut self, due: Instant, number: Option<u64>, alarm: Alarm) {
        let place = (due, self.next);
        self.next += 1;
        if let Some(number) = number {
            self.by_number.insert(number, place);
        }
        self.in_order.insert(place, (number, alarm));
    }

    /// Returns every deadline, in the order in which they are due.
    pub(in crate::partition) fn image(&self, clock: &Clock) -> Vec<DueAlarm> {
        let in_order = self.in_order.iter();
        let due = |(&(due, _), (number, alarm)): (&(Instant, u64), &(Option<u64>, Alarm))| {
            DueAlarm { at_ns: clock.ns_at(due), number: *number, alarm: alarm.clone() }
        };
        in_order.map(due).collect()
    }

    /// Builds the list of these deadlines, which are in their order.
    pub(in crate::partition) fn restored(due: Vec<DueAlarm>, clock: &Clock) -> Self {
        let mut list = Self::default();
        for DueAlarm { at_ns, number, alarm } in due {
            if let Some(at) = clock.instant_at(at_ns) {
                list.arm_at(at, number, alarm);
            }
        }
        list
    }

    /// Returns the time at which the earliest deadline is due.
    pub(in crate::partition) fn next_due(&self) -> Option<Instant> {
        self.in_order.keys().next().map(|&(due, _)| due)
    }

    /// Takes out the earliest deadline, if it is due at `now`.
    pub(in crate::partition) fn pop_due(&mut self, now: Instant) -> Option<Alarm> {
        let first = self.in_order.first_entry().filter(|first| first.key().0 <= now)?;
        let (number, alarm) = first.remove();
        if let Some(number) = number {
            self.by_number.remove(&number);
        }
        Some(alarm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::StepEffects;

    #[tokio::test(start_paused = true)]
    async fn deadlines_are_due_in_order_unless_they_were_disarmed() {
        let (mut list, mut effects) = (DeadlineList::default(), StepEffects::default());
        effects.remind(Duration::from_secs(2), Alarm::ScaleUp);
        let number = effects.arm(Duration::from_secs(1), Alarm::Retention);
        effects.remind(Duration::from_secs(2), Alarm::CleanQueues);
        effects.arm(Duration::from_secs(2), Alarm::ReorderWindow);
        effects.remind(Duration::MAX, Alarm::NominationsWaited);
        list.take_in(&mut effects.deadlines);
        let begin = Instant::now();
        assert_eq!(list.next_due(), Some(begin + Duration::from_secs(1)));
        effects.disarm(Some(number));
        list.take_in(&mut effects.deadlines);
        assert!(list.pop_due(begin + Duration::from_secs(1)).is_none());
        let later = begin + Duration::from_secs(3);
        let due: Vec<_> =
            std::iter::from_fn(|| Some(format!("{:?}", list.pop_due(later)?))).collect();
        assert_eq!(due, ["ScaleUp", "CleanQueues", "ReorderWindow"]);
        effects.disarm(Some(number));
        list.take_in(&mut effects.deadlines);
        assert_eq!(list.next_due(), None, "a wait without end is not armed");
    }
}
