//! The history of evictions: it bounds the evictions of an application, and prevents two
//! applications from preempting each other in turns.
//!
//! # Loops
//! If application A lost allocations to B, and then preempted B, B could preempt A again, and so
//! on: each time work is lost and no application gains. So A may not preempt B as long as A's loss
//! is remembered (`preemption.window` of its leaf), nor through others: if A lost to B, and B to C,
//! then A preempting C would close a ring. Rings of up to [`LINKS`] losses are found. The attempt
//! that would close a ring is dropped, and the winner may not preempt that loser for a window of
//! the loser's leaf.
//!
//! # Bounds
//! At most [`MOST`] losses and as many bars are kept; if there are more, the one that expires first
//! is dropped. An application has at most as many evictions on record as it may lose.
//!
//! ```
//! use monoceros_rules::pending::history::History;
//! use monoceros_rules::queues::EvictionBounds;
//! use monoceros_rules::values::ids::ApplicationSlot;
//! let (a, b) = (ApplicationSlot::at(0), ApplicationSlot::at(1));
//! let bounds = EvictionBounds { max_evictions: 2, ..EvictionBounds::default() };
//! let mut history = History::default();
//! history.lost(a, Some(b), 1, &bounds, 0);
//! assert_eq!(history.allowance(a, &bounds, 1), Some(1));
//! assert!(history.would_loop(a, b, 1), "A would take back from B");
//! assert!(!history.would_loop(b, a, 1), "B may go on");
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::queues::EvictionBounds;
use crate::values::ids::ApplicationSlot;
use crate::values::instant::after;

/// The maximum number of losses in a loop that is found.
pub const LINKS: usize = 4;
/// The maximum number of losses that are kept.
pub const MOST: usize = 65_536;

/// The recent evictions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct History {
    /// The times of evictions by application, ns since the epoch; the newest last.
    evictions: BTreeMap<ApplicationSlot, VecDeque<i64>>,
    losses: Pairs,
    bars: Pairs,
}

/// Pairs of applications, each with the time at which it expires.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Pairs {
    #[serde(with = "crate::values::pairs")]
    until: BTreeMap<(ApplicationSlot, ApplicationSlot), i64>,
    by_time: BTreeSet<(i64, ApplicationSlot, ApplicationSlot)>,
}

impl History {
    /// Counts a loss of this many allocations. `winner` is the application that gained by it;
    /// `None` for a queue above its maximum. The caller does not count held places and
    /// placeholders.
    pub fn lost(
        &mut self,
        loser: ApplicationSlot,
        winner: Option<ApplicationSlot>,
        count: u32,
        bounds: &EvictionBounds,
        now_ns: i64,
    ) {
        if bounds.max_evictions > 0 {
            let times = self.evictions.entry(loser).or_default();
            times.extend((0..count).map(|_| now_ns));
            let most = bounds.max_evictions as usize;
            while times.len() > most
                || times.front().is_some_and(|time| after(*time, bounds.window) <= now_ns)
            {
                times.pop_front();
            }
        }
        if let Some(winner) = winner.filter(|winner| *winner != loser) {
            self.losses.set(loser, winner, after(now_ns, bounds.window), now_ns);
        }
    }

    /// Returns the number of allocations that an application may still lose; `None`: any number.
    pub fn allowance(
        &self,
        application: ApplicationSlot,
        bounds: &EvictionBounds,
        now_ns: i64,
    ) -> Option<u32> {
        if bounds.max_evictions == 0 {
            return None;
        }
        let times = self.evictions.get(&application);
        let recent = times.map_or(0, |times| {
            times.iter().filter(|time| after(**time, bounds.window) > now_ns).count()
        });
        Some(bounds.max_evictions.saturating_sub(u32::try_from(recent).unwrap_or(u32::MAX)))
    }

    /// Whether `winner`, by preempting `loser`, would regain what it lost to it directly or through
    /// others.
    pub fn would_loop(&self, winner: ApplicationSlot, loser: ApplicationSlot, now_ns: i64) -> bool {
        let mut reached = BTreeSet::from([winner]);
        let mut last = vec![winner];
        for _ in 0..LINKS {
            let mut next = Vec::new();
            for of in last {
                for to in self.losses.of(of, now_ns) {
                    if to == loser {
                        return true;
                    }
                    if reached.insert(to) {
                        next.push(to);
                    }
                }
            }
            last = next;
        }
        false
    }

    /// Returns the first of these losers for which [`Self::would_loop`] holds.
    pub fn loop_with(
        &self,
        winner: ApplicationSlot,
        losers: &[ApplicationSlot],
        now_ns: i64,
    ) -> Option<ApplicationSlot> {
        losers.iter().copied().find(|loser| self.would_loop(winner, *loser, now_ns))
    }

    /// Bars the winner from preempting the loser, after a loop was found, for the window of the
    /// loser's leaf.
    pub fn bar(
        &mut self,
        winner: ApplicationSlot,
        loser: ApplicationSlot,
        bounds: &EvictionBounds,
        now_ns: i64,
    ) {
        self.bars.set(winner, loser, after(now_ns, bounds.window), now_ns);
    }

    /// Whether the winner is barred from preempting the loser now.
    pub fn is_barred(&self, winner: ApplicationSlot, loser: ApplicationSlot, now_ns: i64) -> bool {
        self.bars.until.get(&(winner, loser)).is_some_and(|until| *until > now_ns)
    }

    /// Returns the time at which the first bound ends that protects allocations of the loser from
    /// this winner, ns since the epoch; `None` if there is no bound.
    pub fn bound_ends_ns(
        &self,
        loser: ApplicationSlot,
        winner: Option<ApplicationSlot>,
        bounds: &EvictionBounds,
        now_ns: i64,
    ) -> Option<i64> {
        let times = self.evictions.get(&loser).filter(|_| bounds.max_evictions > 0);
        let forgotten = times.into_iter().flatten().map(|time| after(*time, bounds.window));
        let bar = winner.and_then(|winner| self.bars.until.get(&(winner, loser)).copied());
        forgotten.chain(bar).filter(|end| *end > now_ns).min()
    }

    /// Forgets an application that was removed, since its slot may be given to another.
    pub fn forget(&mut self, application: ApplicationSlot) {
        self.evictions.remove(&application);
        self.losses.forget(application);
        self.bars.forget(application);
    }
}

impl Pairs {
    fn set(&mut self, from: ApplicationSlot, to: ApplicationSlot, until: i64, now_ns: i64) {
        if let Some(old) = self.until.insert((from, to), until) {
            self.by_time.remove(&(old, from, to));
        }
        self.by_time.insert((until, from, to));
        while let Some((first, from, to)) = self.by_time.first().copied() {
            if first > now_ns && self.by_time.len() <= MOST {
                break;
            }
            self.by_time.pop_first();
            self.until.remove(&(from, to));
        }
    }

    /// Returns the applications that this one lost to.
    fn of(&self, from: ApplicationSlot, now_ns: i64) -> impl Iterator<Item = ApplicationSlot> {
        let first = (from, ApplicationSlot::at(0));
        let all = self.until.range(first..).take_while(move |((of, _), _)| *of == from);
        all.filter(move |(_, until)| **until > now_ns).map(|((_, to), _)| *to)
    }

    fn forget(&mut self, application: ApplicationSlot) {
        self.until.retain(|(from, to), _| *from != application && *to != application);
        self.by_time.retain(|(_, from, to)| *from != application && *to != application);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const MINUTE: i64 = 60 * SECOND;

    fn app(at: u32) -> ApplicationSlot {
        ApplicationSlot::at(at)
    }

    #[test]
    fn who_lost_takes_nothing_back_within_ten_minutes() {
        let (mut history, bounds) = (History::default(), EvictionBounds::default());
        history.lost(app(0), Some(app(1)), 1, &bounds, 0);
        assert!(history.would_loop(app(0), app(1), 10 * MINUTE - 1));
        assert!(!history.would_loop(app(0), app(1), 10 * MINUTE));
        assert!(!history.would_loop(app(1), app(0), 1), "the winner may win again");
        assert_eq!(history.loop_with(app(0), &[app(2), app(1)], 1), Some(app(1)));
    }

    #[test]
    fn a_ring_is_found_over_four_losses_and_not_over_five() {
        let (mut history, bounds) = (History::default(), EvictionBounds::default());
        for at in 0..5 {
            history.lost(app(at), Some(app(at + 1)), 1, &bounds, 0);
        }
        assert!(history.would_loop(app(0), app(4), 1));
        assert!(!history.would_loop(app(0), app(5), 1));
        history.forget(app(2));
        assert!(!history.would_loop(app(0), app(4), 1), "an application on the way is gone");
    }

    #[test]
    fn who_would_loop_is_barred_for_a_window() {
        let (mut history, bounds) = (History::default(), EvictionBounds::default());
        history.bar(app(0), app(1), &bounds, MINUTE);
        assert!(history.is_barred(app(0), app(1), 11 * MINUTE - 1));
        assert!(!history.is_barred(app(0), app(1), 11 * MINUTE));
        assert!(!history.is_barred(app(1), app(0), MINUTE));
    }

    #[test]
    fn an_application_loses_no_more_than_it_may_in_any_window() {
        let bounds = EvictionBounds { max_evictions: 3, ..EvictionBounds::default() };
        let mut history = History::default();
        assert_eq!(history.allowance(app(0), &bounds, 0), Some(3));
        history.lost(app(0), None, 2, &bounds, 0);
        history.lost(app(0), None, 1, &bounds, MINUTE);
        assert_eq!(history.allowance(app(0), &bounds, 2 * MINUTE), Some(0));
        assert_eq!(history.allowance(app(0), &bounds, 10 * MINUTE), Some(2));
        assert_eq!(history.allowance(app(0), &bounds, 11 * MINUTE), Some(3));
        assert_eq!(history.allowance(app(0), &EvictionBounds::default(), 0), None);
    }

    #[test]
    fn a_bound_ends_with_the_first_eviction_that_is_forgotten_or_with_the_bar() {
        let bounds = EvictionBounds { max_evictions: 3, ..EvictionBounds::default() };
        let mut history = History::default();
        let ends = |history: &History, winner, now| {
            history.bound_ends_ns(app(0), winner, &bounds, now * MINUTE)
        };
        assert_eq!(ends(&history, Some(app(1)), 0), None);
        history.lost(app(0), None, 1, &bounds, 0);
        history.lost(app(0), None, 1, &bounds, 3 * MINUTE);
        history.bar(app(1), app(0), &bounds, MINUTE);
        assert_eq!(ends(&history, Some(app(1)), 9), Some(10 * MINUTE));
        assert_eq!(ends(&history, Some(app(1)), 10), Some(11 * MINUTE));
        assert_eq!(ends(&history, None, 10), Some(13 * MINUTE));
        assert_eq!(ends(&history, Some(app(1)), 13), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (mut history, bounds) = (History::default(), EvictionBounds::default());
        for at in 0..u32::try_from(MOST).unwrap() + 10 {
            history.lost(app(at), Some(app(at + 1)), 1, &bounds, i64::from(at));
        }
        assert_eq!((history.losses.until.len(), history.losses.by_time.len()), (MOST, MOST));
        assert!(!history.would_loop(app(0), app(1), 100_000), "the oldest made room");
        assert!(history.would_loop(app(100), app(101), 100_000));
        history.lost(app(0), Some(app(1)), 1, &bounds, 20 * MINUTE);
        assert_eq!(history.losses.until.len(), 1, "what is over is forgotten");
    }
}
