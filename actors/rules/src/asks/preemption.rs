//! The preemption attempts of an ask or a gang, and the reasons why it does not preempt.
//!
//! Whether an ask may try is decided elsewhere; this module keeps the result, and words it for
//! people.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::values::instant::after;
use crate::values::usual::is_usual;

/// The least time between two preemption attempts of one ask, or of asks like it.
pub const TRY_AGAIN: Duration = Duration::from_secs(15);

/// A try without result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastTry {
    /// The time of the try, ns since the epoch.
    pub at_ns: i64,
    /// Whether a change since may matter: of usage, a queue or a node, or the end of a bound.
    pub has_changed_since: bool,
}

/// The preemption attempts of an ask or a gang.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tries {
    /// The time of the last try, ns since the epoch, and the count of changes at that time
    /// ([`Books::changes`](crate::books::Books::changes)); `None` if the last try is not counted as
    /// one without result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<(i64, u64)>,
    /// The reason why the last try was without result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<NoPreemption>,
    /// The time at which the first of the bounds ends that protected an allocation, ns since the
    /// epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ends_ns: Option<i64>,
    /// Whether the ask waits until preemptors with nominations are placed: there may be nodes for
    /// it then.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub waits_for_nominations: bool,
}

/// The consequence if no victim can be evicted from the node that an ask requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotCleared {
    /// The time at which the ask is tried again even without a change on its node, ns since the
    /// epoch. `None` if it waits for a change there.
    pub again_ns: Option<i64>,
    /// Whether an event is to be recorded: the cause is on the node, and there was no event
    /// recently.
    pub is_event: bool,
}

impl Tries {
    /// Begins a try; `changes` is the present count of changes.
    pub fn begin(&mut self, changes: u64, now_ns: i64) {
        *self = Self { last: Some((now_ns, changes)), ..Self::default() };
    }

    /// Records a try without result. `changes` is the present count of changes; `any_nominated` is
    /// whether preemptors have nominations. Returns whether the ask waits until those are placed.
    pub fn found_nothing(
        &mut self,
        why: NoPreemption,
        bound_ends_ns: Option<i64>,
        any_nominated: bool,
        (changes, now_ns): (u64, i64),
    ) -> bool {
        let waits = why == NoPreemption::NodesAreNominated && any_nominated;
        let last = (!waits).then_some((now_ns, changes));
        *self = Self { last, why: Some(why), bound_ends_ns, waits_for_nominations: waits };
        waits
    }

    /// Records that no victim can be evicted from the node that the ask requires. If the cause is
    /// not on the node, such as a quota, the ask tries again after [`TRY_AGAIN`]. Otherwise it
    /// waits for a change of its node, or for the end of the first bound that protects a victim
    /// there.
    pub fn not_cleared(
        &mut self,
        why: NoPreemption,
        bound_ends_ns: Option<i64>,
        (changes, now_ns): (u64, i64),
    ) -> NotCleared {
        let is_elsewhere = matches!(
            why,
            NoPreemption::OverLimits | NoPreemption::OverMaximum | NoPreemption::RoomIsComing
        );
        self.why = Some(why);
        if is_elsewhere {
            return NotCleared { again_ns: Some(after(now_ns, TRY_AGAIN)), is_event: false };
        }
        let is_event = self.last.is_none_or(|(at_ns, _)| after(at_ns, TRY_AGAIN) <= now_ns);
        if is_event {
            self.last = Some((now_ns, changes));
        }
        NotCleared { again_ns: bound_ends_ns, is_event }
    }

    /// Returns the last try without result; `changes` is the present count of changes. If the RM
    /// refused, it may answer differently at any time.
    pub fn last(&self, changes: u64, now_ns: i64) -> Option<LastTry> {
        let (at_ns, _) = self.last?;
        let was_refused = matches!(self.why, Some(NoPreemption::Refused | NoPreemption::Short));
        let has_changed_since = was_refused || self.has_passed(changes, now_ns);
        Some(LastTry { at_ns, has_changed_since })
    }

    /// Whether the reason of the last try without result may be out of date.
    fn has_passed(&self, changes: u64, now_ns: i64) -> bool {
        let bound_ended = self.bound_ends_ns.is_some_and(|end| end <= now_ns);
        bound_ended || self.last.is_some_and(|(_, by_then)| by_then != changes)
    }

    /// Words why the last try was without result, for people; in the past tense if the reason may
    /// be out of date.
    ///
    /// ```
    /// use monoceros_rules::asks::preemption::{NoPreemption, Tries};
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

/// The reason why an ask, or a gang, does not preempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoPreemption {
    /// Preemption is switched off in the partition.
    SwitchedOff,
    /// The policy of the ask forbids it.
    MayNotPreempt,
    /// Victims are already being evicted for it.
    HasPreempted,
    /// The ask requires a node, for which victims are searched in another way.
    RequiresNode,
    /// A start of it failed, and none has succeeded since.
    StartFailed,
    /// The ask is too young.
    TooYoung {
        /// The time from which it may try, ns since the epoch.
        until_ns: i64,
    },
    /// A recent search was without result.
    TriedLately {
        /// The time from which it may try again, ns since the epoch.
        until_ns: i64,
    },
    /// A search was without result, and there was no change since.
    NothingChanged,
    /// The limits of its user or group leave too little, the nominations of others subtracted.
    OverLimits,
    /// A queue on its path leaves too little, the nominations of others subtracted.
    OverMaximum,
    /// Orphaned victims are already ending, and their amount is enough.
    RoomIsComing,
    /// The ask would not fit on its required node, whatever is evicted there.
    NotOnItsNode,
    /// The application does not run yet, and the maximum of running applications is reached.
    MayNotStart,
    /// The ask waits for a preemptor that evicted allocations of its application, until that is
    /// placed.
    GivesWay,
    /// No queue on its path has a guarantee.
    NoGuarantee,
    /// A queue on its path is a fence of preemption or at its maximum, and all its usage is in the
    /// ask's own leaf.
    AtItsFence {
        /// The queue.
        queue: Arc<str>,
    },
    /// The ask does not fit into the unused part of the guarantee.
    BeyondGuarantee,
    /// No allocation may be evicted.
    NoCandidates,
    /// No node has enough allocations that may be evicted.
    NoNode,
    /// No node has enough, but suitable ones are reserved by asks for which victims end. This does
    /// not count as a try without result: it may try again as soon as one of these is placed.
    NodesAreNominated,
    /// The RM refused every suitable node.
    Refused,
    /// The RM's answer has too few victims for the amount of the ask.
    Short,
    /// The ask fits without any victim.
    NotNeeded,
    /// The application would get back what it recently lost to another application.
    Loop {
        /// The other application.
        with: Arc<str>,
    },
    /// The plan was out of date before it could be carried out, several times in a row.
    Stale(Stale),
}

/// The part of a plan that is out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stale {
    /// A victim has ended, is already ending, or may not be evicted any more.
    Victim,
    /// The node was removed, closed or reserved by another ask, or is not suitable any more.
    Node,
    /// A queue would fall below its guarantee.
    Guarantee,
    /// The freed amount would be too small now.
    Room,
    /// The ask fits without any victim.
    NotNeeded,
}

impl fmt::Display for NoPreemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SwitchedOff => f.write_str("preemption is switched off in this partition"),
            Self::MayNotPreempt => f.write_str("its policy does not allow it to preempt others"),
            Self::HasPreempted => f.write_str("victims are leaving for it already"),
            Self::RequiresNode => f.write_str("it requires a node, and may only take room there"),
            Self::StartFailed => {
                f.write_str("its last start failed, and it takes nothing from others before one succeeds")
            }
            Self::TooYoung { .. } => f.write_str("it has not waited for the preemption delay yet"),
            Self::TriedLately { .. } => f.write_str("it has looked for victims a moment ago, and does so once in 15 seconds"),
            Self::NothingChanged => f.write_str("nothing has changed since it was tried in vain"),
            Self::OverLimits => f.write_str("the limits of its user or group leave too little for it"),
            Self::OverMaximum => f.write_str("a queue on its path leaves too little for it"),
            Self::RoomIsComing => f.write_str(
                "others are leaving already whose room nobody was promised, and it is enough",
            ),
            Self::NotOnItsNode => f.write_str(
                "whatever may leave the node that it requires, it would not fit there: others are more \
                 important, require that node, too, hold too little, or stayed a moment ago",
            ),
            Self::MayNotStart => {
                f.write_str("its application does not run yet, and as many run as may")
            }
            Self::GivesWay => f.write_str(
                "something was taken from its application for another, which is still to be placed",
            ),
            Self::NoGuarantee => f.write_str("neither its queue nor one above it is guaranteed anything"),
            Self::AtItsFence { queue } => {
                write!(f, "queue `{queue}` is at its maximum or a fence, and nothing is below but its own")
            }
            Self::BeyondGuarantee => {
                f.write_str("it does not fit what its queue has left of the guarantee")
            }
            Self::NoCandidates => f.write_str(
                "no allocation may be taken: others are within their guarantees, more important, \
                 protected, or stayed a moment ago",
            ),
            Self::NoNode => f.write_str("no node would have room for it, whatever may be taken there"),
            Self::NodesAreNominated => f.write_str(
                "the nodes that would do are reserved by asks for which victims are leaving",
            ),
            Self::Refused => f.write_str("the resource manager refused every node that would do"),
            Self::Short => f.write_str("preemption would help, but leave it short of resources"),
            Self::NotNeeded => f.write_str("it fits without preemption"),
            Self::Loop { with } => write!(
                f,
                "its application would get back from application `{with}` what it lost a moment \
                 ago: they would take from each other in turns"
            ),
            Self::Stale(stale) => write!(f, "what was planned was no longer so: {stale}"),
        }
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Victim => "a victim had left or may not be taken any more",
            Self::Node => "the node may not be used any more",
            Self::Guarantee => "a queue would have fallen below its guarantee",
            Self::Room => "there would have been too little room",
            Self::NotNeeded => "there is room without a victim",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn only_nominations_make_a_try_wait_for_others() {
        for (why, any_nominated, waits) in [
            (NoPreemption::NodesAreNominated, true, true),
            (NoPreemption::NodesAreNominated, false, false),
            (NoPreemption::NoNode, true, false),
        ] {
            let mut tries = Tries::default();
            tries.begin(7, 5);
            assert_eq!(tries.found_nothing(why, Some(9), any_nominated, (8, 6)), waits);
            assert_eq!(tries.last, (!waits).then_some((6, 8)), "a try that waits is none");
            assert_eq!((tries.waits_for_nominations, tries.bound_ends_ns), (waits, Some(9)));
        }
    }

    #[test]
    fn a_new_try_forgets_the_last_one() {
        let mut tries = Tries::default();
        tries.found_nothing(NoPreemption::NodesAreNominated, Some(9), true, (8, 6));
        tries.begin(9, 7);
        assert_eq!(tries, Tries { last: Some((7, 9)), ..Tries::default() });
    }

    #[test]
    fn a_cause_off_the_node_is_tried_again_soon() {
        let mut tries = Tries::default();
        let not_cleared = tries.not_cleared(NoPreemption::OverLimits, Some(9), (1, 0));
        let again_ns = Some(after(0, TRY_AGAIN));
        assert_eq!(not_cleared, NotCleared { again_ns, is_event: false });
        assert_eq!((tries.last, tries.why), (None, Some(NoPreemption::OverLimits)));
    }

    #[test]
    fn an_event_is_made_once_in_a_while() {
        let mut tries = Tries::default();
        let mut at =
            |now_ns| tries.not_cleared(NoPreemption::NotOnItsNode, Some(9), (1, now_ns)).is_event;
        let soon = after(0, TRY_AGAIN);
        assert_eq!([0, soon - 1, soon, soon + 1].map(&mut at), [true, false, true, false]);
        let again = tries.not_cleared(NoPreemption::NotOnItsNode, Some(9), (1, soon + 2));
        assert_eq!(again.again_ns, Some(9));
    }
}
