//! Keeps the time at which asks that found no node become old enough to reserve one.
//!
//! # Invariants
//! * One deadline is armed, for the next ask that will be old enough, however many there are. If an
//!   earlier deadline has replaced it, the end of the replaced one changes nothing.
//! * Asks created up to `reached_ns` were woken before, and are not woken again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::asks::Asks;
use crate::values::instant::after;

/// The ages of the asks of an application.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Aging {
    /// The time of the armed deadline, ns since the epoch.
    deadline_ns: Option<i64>,
    /// The creation time, ns since the epoch, up to which asks were old enough at the last
    /// deadline.
    reached_ns: i64,
}

/// The effects of the end of a deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aged {
    /// Whether an ask is due.
    pub any: bool,
    /// The deadline that the caller has to arm next, ns since the epoch; `None`: none.
    pub next_ns: Option<i64>,
}

impl Default for Aging {
    fn default() -> Self {
        Self { deadline_ns: None, reached_ns: i64::MIN }
    }
}

impl Aging {
    /// Returns the time of the armed deadline, ns since the epoch.
    pub fn deadline_ns(&self) -> Option<i64> {
        self.deadline_ns
    }

    /// Records that an ask will be old enough at this time, ns since the epoch. Returns whether the
    /// caller has to arm a deadline: no, if one is armed already for this time or earlier.
    #[must_use]
    pub fn wait_until(&mut self, at_ns: i64) -> bool {
        let is_earlier = self.deadline_ns.is_none_or(|armed| at_ns < armed);
        if is_earlier {
            self.deadline_ns = Some(at_ns);
        }
        is_earlier
    }

    /// Handles the end of the deadline at `at_ns`: asks older than `delay` are due. Nothing changes
    /// without a delay, or if an earlier deadline has replaced this one.
    pub fn deadline_over(
        &mut self,
        at_ns: i64,
        now_ns: i64,
        delay: Option<Duration>,
        asks: &mut Asks,
    ) -> Aged {
        let Some(delay) = delay.filter(|_| self.deadline_ns == Some(at_ns)) else {
            return Aged::default();
        };
        let delay_ns = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        let until_ns = now_ns.saturating_sub(delay_ns).saturating_sub(1);
        let after_ns = std::mem::replace(&mut self.reached_ns, until_ns);
        let (any, next) = asks.wake_old(after_ns, until_ns);
        self.deadline_ns = next.map(|created_ns| after(created_ns, delay).saturating_add(1));
        Aged { any, next_ns: self.deadline_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{NodeIndex, NodeOrder};
    use crate::specs::ask::AskSpec;
    use crate::values::epoch::Loosening;
    use crate::values::resources::{Limits, Resources};
    use crate::waiting::View;
    use crate::waiting::obstacle::Obstacle;

    const DELAY: Duration = Duration::from_nanos(50);

    /// Asks created at these times, each of a different size, that found no node.
    fn parked(created_ns: &[i64]) -> Asks {
        let (mut asks, nodes) = (Asks::new(), NodeIndex::new(NodeOrder::default()));
        let (headroom, loosening) = (&Limits::unlimited(), Loosening::numbered(1));
        let nodes = Some(&nodes);
        let view = View { headroom, loosening, may_start: true, nodes, limits: None, queues: None };
        for (sequence, created_ns) in (1..).zip(created_ns) {
            let vcore = i64::try_from(sequence).unwrap();
            let spec = AskSpec::new(format!("a{sequence}"), Resources::of(&[("vcore", vcore)]));
            let (slot, _) = asks.put(spec, *created_ns, sequence);
            let class = asks.class_of(slot).unwrap();
            let waits = Obstacle::NoNode.waits(&asks.ask(slot).spec, &view);
            asks.set_waits(class, waits);
        }
        asks
    }

    #[test]
    fn only_an_earlier_deadline_is_armed() {
        let mut aging = Aging::default();
        assert!(aging.wait_until(10));
        assert!(!aging.wait_until(10) && !aging.wait_until(11));
        assert!(aging.wait_until(9));
        assert_eq!(aging.deadline_ns(), Some(9));
    }

    #[test]
    fn a_deadline_wakes_old_asks_and_names_the_next() {
        let mut asks = parked(&[0, 20]);
        let mut aging = Aging::default();
        assert!(aging.wait_until(51));
        let aged = aging.deadline_over(51, 51, Some(DELAY), &mut asks);
        assert_eq!(aged, Aged { any: true, next_ns: Some(71) });
        assert_eq!(aging.deadline_ns(), Some(71));
        let aged = aging.deadline_over(71, 71, Some(DELAY), &mut asks);
        assert_eq!(aged, Aged { any: true, next_ns: None });
    }

    #[test]
    fn a_replaced_deadline_changes_nothing() {
        let mut asks = parked(&[0]);
        let mut aging = Aging::default();
        assert!(aging.wait_until(60) && aging.wait_until(51));
        assert_eq!(aging.deadline_over(60, 60, Some(DELAY), &mut asks), Aged::default());
        assert_eq!(aging.deadline_ns(), Some(51));
    }

    #[test]
    fn without_delay_no_ask_grows_old_enough() {
        let mut asks = parked(&[0]);
        let mut aging = Aging::default();
        assert!(aging.wait_until(51));
        assert_eq!(aging.deadline_over(51, 51, None, &mut asks), Aged::default());
    }
}
