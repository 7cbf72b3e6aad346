//! The conditions under which an ask or a gang may search for victims now.

use std::time::Duration;

use crate::asks::preemption::{LastTry, NoPreemption};
use crate::values::instant::after;

/// The facts of an ask or a gang that would preempt others for a guarantee.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct Wish {
    /// Whether the partition has preemption switched on.
    pub is_enabled: bool,
    /// Whether the policy of the ask lets it preempt others; for a gang, whether the policy of
    /// every group does.
    pub may_preempt: bool,
    /// Whether victims are being evicted for it already.
    pub has_preempted: bool,
    /// Whether the ask requires a node.
    pub requires_node: bool,
    /// The time at which it was created, or its gang was admitted, ns since the epoch.
    pub created_ns: i64,
    /// The age from which it may preempt: `preemption.delay` of its leaf.
    pub delay: Duration,
    /// The last try without result.
    pub last: Option<LastTry>,
    /// The minimum time between two tries: [`TRY_AGAIN`](crate::asks::preemption::TRY_AGAIN).
    pub again: Duration,
}

impl Wish {
    /// Whether the ask or gang may search for victims now.
    ///
    /// # Errors
    /// The first reason why it may not, in the order of these tests.
    pub fn may_try(&self, now_ns: i64) -> Result<(), NoPreemption> {
        if !self.is_enabled {
            return Err(NoPreemption::SwitchedOff);
        }
        if !self.may_preempt {
            return Err(NoPreemption::MayNotPreempt);
        }
        if self.has_preempted {
            return Err(NoPreemption::HasPreempted);
        }
        if self.requires_node {
            return Err(NoPreemption::RequiresNode);
        }
        let old_ns = after(self.created_ns, self.delay);
        if now_ns < old_ns {
            return Err(NoPreemption::TooYoung { until_ns: old_ns });
        }
        let Some(last) = self.last else { return Ok(()) };
        let again_ns = after(last.at_ns, self.again);
        if now_ns < again_ns {
            return Err(NoPreemption::TriedLately { until_ns: again_ns });
        }
        if last.has_changed_since { Ok(()) } else { Err(NoPreemption::NothingChanged) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asks::preemption::TRY_AGAIN;

    const SECOND: i64 = 1_000_000_000;

    fn wish() -> Wish {
        Wish {
            is_enabled: true,
            may_preempt: true,
            has_preempted: false,
            requires_node: false,
            created_ns: 0,
            delay: Duration::from_secs(30),
            last: None,
            again: TRY_AGAIN,
        }
    }

    #[test]
    fn an_ask_of_30_seconds_may_try_and_one_of_29_may_not() {
        assert_eq!(wish().may_try(30 * SECOND), Ok(()));
        let until_ns = 30 * SECOND;
        assert_eq!(wish().may_try(29 * SECOND), Err(NoPreemption::TooYoung { until_ns }));
    }

    #[test]
    fn what_keeps_an_ask_from_trying() {
        let now = 100 * SECOND;
        let last = |seconds, has_changed_since| {
            Some(LastTry { at_ns: now - seconds * SECOND, has_changed_since })
        };
        for (wish, why) in [
            (Wish { is_enabled: false, ..wish() }, NoPreemption::SwitchedOff),
            (Wish { may_preempt: false, ..wish() }, NoPreemption::MayNotPreempt),
            (Wish { has_preempted: true, ..wish() }, NoPreemption::HasPreempted),
            (Wish { requires_node: true, ..wish() }, NoPreemption::RequiresNode),
            (
                Wish { last: last(10, true), ..wish() },
                NoPreemption::TriedLately { until_ns: 105 * SECOND },
            ),
            (Wish { last: last(15, false), ..wish() }, NoPreemption::NothingChanged),
        ] {
            assert_eq!(wish.may_try(now), Err(why));
        }
        assert_eq!(Wish { last: last(15, true), ..wish() }.may_try(now), Ok(()));
    }
}
