//! Whether an ask, or a gang, may look for victims at all now.

use std::time::Duration;

use super::reasons::NoPreemption;
use crate::values::instant::after;

/// How long at least between two tries of one ask, or of those like it.
pub const TRY_AGAIN: Duration = Duration::from_secs(15);

/// One who would preempt for a guarantee.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct Wish {
    /// The partition has preemption switched on.
    pub is_enabled: bool,
    /// Its policy lets it preempt others; of a gang, that of every group.
    pub may_preempt: bool,
    /// Victims leave for it already.
    pub has_preempted: bool,
    /// It requires a node.
    pub requires_node: bool,
    /// When it was created, or its gang was admitted, ns since the epoch.
    pub created_ns: i64,
    /// How old it has to be: `preemption.delay` of its leaf.
    pub delay: Duration,
    /// The last try in vain.
    pub last: Option<LastTry>,
    /// How long at least between two tries: [`TRY_AGAIN`].
    pub again: Duration,
}

/// A try in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastTry {
    /// When, ns since the epoch.
    pub at_ns: i64,
    /// Something has changed since that could matter: usage, a queue, a node, or a bound ended.
    pub has_changed_since: bool,
}

/// What became of the tries of an ask, or a gang, to preempt others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    /// When it tried last, ns since the epoch, and how many changes there had been by then
    /// ([`Books::changes`](crate::books::Books::changes)); none where that was no try in vain.
    pub last: Option<(i64, u64)>,
    /// Why that was in vain.
    pub why: Option<NoPreemption>,
    /// When the first bound ends that kept something from being taken, ns since the epoch.
    pub bound_ends_ns: Option<i64>,
    /// It waits until asks are placed that have promises: there may be nodes for it then.
    pub waits_for_promises: bool,
}

impl Tries {
    /// The last try in vain, where there have been so many changes by now. An RM that refused may
    /// answer otherwise at any time.
    pub fn last(&self, changes: u64, now_ns: i64) -> Option<LastTry> {
        let (at_ns, _) = self.last?;
        let was_refused = matches!(self.why, Some(NoPreemption::Refused | NoPreemption::Short));
        let has_changed_since = was_refused || self.has_passed(changes, now_ns);
        Some(LastTry { at_ns, has_changed_since })
    }

    /// Whether what made the last try one in vain may be otherwise by now.
    fn has_passed(&self, changes: u64, now_ns: i64) -> bool {
        let bound_ended = self.bound_ends_ns.is_some_and(|end| end <= now_ns);
        bound_ended || self.last.is_some_and(|(_, by_then)| by_then != changes)
    }

    /// Why the last try was in vain, for people: said of the past where that may be otherwise by now.
    ///
    /// ```
    /// use monoceros_rules::decide::preemption::{NoPreemption, Tries};
    /// let why = Some(NoPreemption::NotNeeded);
    /// let tries = Tries { last: Some((5, 7)), why, ..Tries::default() };
    /// assert_eq!(tries.explained(7, 6).unwrap(), "it fits without preemption");
    /// assert!(tries.explained(8, 6).unwrap().starts_with("when it looked last, it fits"));
    /// ```
    pub fn explained(&self, changes: u64, now_ns: i64) -> Option<String> {
        let why = self.why.as_ref()?;
        Some(if self.has_passed(changes, now_ns) {
            format!(
                "when it looked last, {why}; that may be otherwise now, and it looks again \
                 {} seconds after that at the latest",
                TRY_AGAIN.as_secs()
            )
        } else {
            why.to_string()
        })
    }
}

impl Wish {
    /// Whether it may try now.
    ///
    /// # Errors
    /// The first reason why not, of those that are asked for in this order.
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

    #[test]
    fn who_was_refused_by_the_rm_may_try_again_though_nothing_changed() {
        for (why, may) in [
            (NoPreemption::Refused, true),
            (NoPreemption::Short, true),
            (NoPreemption::NoNode, false),
        ] {
            let tries = Tries { last: Some((5, 7)), why: Some(why.clone()), ..Tries::default() };
            assert_eq!(tries.last(7, 8).unwrap().has_changed_since, may);
            assert_eq!(tries.explained(7, 8), Some(why.to_string()), "nothing is known to be past");
        }
    }

    #[test]
    fn the_end_of_a_bound_is_a_change() {
        let tries = Tries { last: Some((5, 7)), bound_ends_ns: Some(9), ..Tries::default() };
        let has_changed = |changes, now| tries.last(changes, now).unwrap().has_changed_since;
        assert!(!has_changed(7, 8));
        assert!(has_changed(7, 9));
        assert!(has_changed(8, 8));
    }
}
