//! The wait log of an application: the obstacles that its asks met, in order, for its timeline.
//!
//! # Invariants
//! * The log has at most 24 entries, the newest. Neighbours differ, so an application that is tried
//!   again and again without result for one cause has one entry.

use std::collections::VecDeque;

use super::table::Asks;
use crate::waiting::obstacle::Obstacle;

/// Most entries of a log.
const ENTRIES_MAX: usize = 24;

/// An obstacle, and the time since when asks met it, ns since the epoch. `None`: no ask is pending.
pub type WaitEntry = (i64, Option<Obstacle>);

/// The last obstacles of an application.
#[derive(Debug, Default)]
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
    /// Records the obstacle of an ask in the wait log.
    pub(super) fn note_waiting(&mut self, obstacle: Obstacle, now_ns: i64) {
        self.waits.note(now_ns, Some(obstacle));
    }

    /// Ends the last entry of the wait log if no ask is pending any more.
    pub fn note_satisfied(&mut self, now_ns: i64) {
        if self.n_pending == 0 {
            self.waits.note(now_ns, None);
        }
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
    use crate::values::resources::Resources;

    #[test]
    fn a_wait_ends_when_no_ask_is_pending() {
        let mut asks = Asks::new();
        let ask = |key: &str| AskSpec::new(key.to_owned(), Resources::of(&[("vcore", 1)]));
        let (first, second) = (asks.put(ask("a"), 0, 1).0, asks.put(ask("b"), 0, 2).0);
        asks.note_satisfied(1);
        for (now_ns, obstacle) in
            [(2, Obstacle::Quota), (3, Obstacle::Quota), (5, Obstacle::NoNode)]
        {
            asks.note_parked(first, obstacle, now_ns);
        }
        asks.take_one(first);
        asks.note_satisfied(6);
        asks.take_one(second);
        asks.note_satisfied(7);
        asks.note_satisfied(8);
        let log: Vec<_> = asks.wait_log().collect();
        assert_eq!(log, [(2, Some(Obstacle::Quota)), (5, Some(Obstacle::NoNode)), (7, None)]);
    }

    #[test]
    fn the_oldest_entry_makes_room() {
        let mut asks = Asks::new();
        for now_ns in 0..30 {
            let obstacle = if now_ns % 2 == 0 { Obstacle::Quota } else { Obstacle::NoNode };
            asks.note_waiting(obstacle, now_ns);
        }
        let times: Vec<_> = asks.wait_log().map(|(at_ns, _)| at_ns).collect();
        assert_eq!(times, (6..30).collect::<Vec<_>>());
    }
}
