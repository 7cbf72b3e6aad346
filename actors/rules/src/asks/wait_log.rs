//! The wait log of an application: the obstacles for which it waited, in order, for its timeline.
//!
//! # Which obstacle
//! Several classes may wait for different obstacles at a time. The log has the obstacle of the
//! first class in order, since the application waits for that class first. A class that backs off
//! is not considered, nor is a class that is still to be tried after a placement: the last entry
//! holds until then.
//!
//! # Invariants
//! * The log has at most 24 entries, the newest. Neighbours differ, so an application that is tried
//!   again and again without result for one cause has one entry.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::table::Asks;
use crate::waiting::obstacle::Obstacle;

/// Most entries of a log.
const ENTRIES_MAX: usize = 24;

/// Most classes that are considered for one entry, since all of them may back off.
const CLASSES_MAX: usize = 8;

/// The time since when an obstacle is that of the first class, ns since the epoch, and the
/// obstacle. `None`: no ask is pending.
pub type WaitEntry = (i64, Option<Obstacle>);

/// The last obstacles of an application.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct WaitLog(VecDeque<WaitEntry>);

impl WaitLog {
    fn note(&mut self, now_ns: i64, obstacle: Option<Obstacle>) {
        let last = self.0.back().and_then(|(_, last)| *last);
        if last == obstacle {
            return;
        }
        if self.0.len() == ENTRIES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((now_ns, obstacle));
    }
}

impl Asks {
    /// Brings the wait log up to date, after an ask was parked, placed or withdrawn.
    pub fn log_waiting(&mut self, now_ns: i64) {
        if self.n_pending == 0 {
            self.waits.note(now_ns, None);
        } else if let Some(obstacle) = self.first_obstacle() {
            self.waits.note(now_ns, Some(obstacle));
        }
    }

    /// Returns the obstacle of the first class that does not back off; `None` if it has none.
    fn first_obstacle(&self) -> Option<Obstacle> {
        let (_, head, _) = self.order.first(|_| true)?;
        let first = if self.class_backs_off(*head) {
            let mut classes = self.order.iter().map(|(_, class, _)| class).take(CLASSES_MAX);
            classes.find(|class| !self.class_backs_off(**class))?
        } else {
            head
        };
        self.class(*first).noted.map(|(obstacle, _)| obstacle)
    }

    /// Returns the entries of the wait log, the oldest first.
    pub fn wait_log(&self) -> impl Iterator<Item = WaitEntry> + '_ {
        self.waits.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specs::ask::AskSpec;
    use crate::values::ids::AskSlot;
    use crate::values::resources::Resources;

    /// Builds two asks of different classes, which wait for quota and for a node since one pass.
    fn two_classes() -> (Asks, [AskSlot; 2]) {
        let mut asks = Asks::new();
        let ask =
            |key: &str, amount| AskSpec::new(key.to_owned(), Resources::of(&[("vcore", amount)]));
        let slots = [asks.put(ask("a", 1), 0, 1).0, asks.put(ask("b", 2), 0, 2).0];
        asks.note_parked(slots[0], Obstacle::Quota, 5);
        asks.note_parked(slots[1], Obstacle::NoNode, 5);
        (asks, slots)
    }

    fn place(asks: &mut Asks, slot: AskSlot, now_ns: i64) {
        asks.take_one(slot);
        asks.log_waiting(now_ns);
    }

    #[test]
    fn of_two_classes_the_first_one_is_logged() {
        let (mut asks, [_, second]) = two_classes();
        asks.note_parked(second, Obstacle::Limits, 6);
        place(&mut asks, second, 7);
        assert_eq!(asks.wait_log().collect::<Vec<_>>(), [(5, Some(Obstacle::Quota))]);
    }

    #[test]
    fn the_next_class_is_logged_once_the_first_one_is_placed() {
        let (mut asks, [first, second]) = two_classes();
        place(&mut asks, first, 7);
        place(&mut asks, second, 9);
        let log: Vec<_> = asks.wait_log().collect();
        assert_eq!(log, [(5, Some(Obstacle::Quota)), (7, Some(Obstacle::NoNode)), (9, None)]);
    }

    #[test]
    fn a_wait_ends_when_no_ask_is_pending() {
        let mut asks = Asks::new();
        let ask = |key: &str| AskSpec::new(key.to_owned(), Resources::of(&[("vcore", 1)]));
        let (first, second) = (asks.put(ask("a"), 0, 1).0, asks.put(ask("b"), 0, 2).0);
        asks.log_waiting(1);
        for (now_ns, obstacle) in
            [(2, Obstacle::Quota), (3, Obstacle::Quota), (5, Obstacle::NoNode)]
        {
            asks.note_parked(first, obstacle, now_ns);
        }
        asks.take_one(first);
        asks.log_waiting(6);
        asks.take_one(second);
        asks.log_waiting(7);
        asks.log_waiting(8);
        let log: Vec<_> = asks.wait_log().collect();
        assert_eq!(log, [(2, Some(Obstacle::Quota)), (5, Some(Obstacle::NoNode)), (7, None)]);
    }

    #[test]
    fn the_oldest_entry_makes_room() {
        let mut log = WaitLog::default();
        for now_ns in 0..30 {
            let obstacle = if now_ns % 2 == 0 { Obstacle::Quota } else { Obstacle::NoNode };
            log.note(now_ns, Some(obstacle));
        }
        let times: Vec<_> = log.0.iter().map(|(at_ns, _)| *at_ns).collect();
        assert_eq!(times, (6..30).collect::<Vec<_>>());
    }
}
