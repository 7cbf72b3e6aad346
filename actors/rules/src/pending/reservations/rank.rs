//! The rank of a request among those that would reserve nodes; and effective priorities, which
//! decide who may borrow a reserved node.
//!
//! # Effective priorities
//! Two requests are compared in the queue where their paths meet. Each priority counts with the
//! offsets of the queues below that queue; a queue with a priority fence replaces the priority by
//! its own offset. So the priority stated by a request never counts beyond its fence.
//!
//! ```
//! use monoceros_rules::pending::reservations::EffectivePriority;
//! use monoceros_rules::queues::{PriorityPolicy, QueueSettings};
//! use std::cmp::Ordering;
//!
//! let plain = QueueSettings::default();
//! let fenced = QueueSettings { priority_policy: PriorityPolicy::Fence, ..plain };
//! // From the leaf up to root: root is queue 0.
//! let of = |priority, leaf, settings| {
//!     EffectivePriority::of(priority, [(leaf, settings), (0, &plain)].into_iter())
//! };
//! let (high, low) = (of(1_000, 1, &fenced), of(5, 1, &fenced));
//! assert_eq!(high.compare(&low), Ordering::Greater, "within their fence");
//! assert_eq!(high.compare(&of(1, 2, &plain)), Ordering::Less, "the fence shows 0");
//! ```

use std::cmp::Ordering;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::asks::Ask;
use crate::limits::LaneId;
use crate::queues::figures::QueueTable;
use crate::queues::{PriorityPolicy, QueueSettings};

/// The priority of a request in each queue of its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectivePriority {
    /// The queues from root to the leaf: the slot of each, and the priority there.
    at: SmallVec<[(u32, i64); 4]>,
}

impl EffectivePriority {
    /// Returns the effective priorities of a request of this priority. `upward` are the queues from
    /// its leaf up to root, each with its slot in the directory.
    pub fn of<'a>(priority: i32, upward: impl Iterator<Item = (u32, &'a QueueSettings)>) -> Self {
        let mut seen = i64::from(priority);
        let mut at = SmallVec::new();
        for (queue, settings) in upward {
            at.push((queue, seen));
            let offset = i64::from(settings.priority_offset);
            seen = match settings.priority_policy {
                PriorityPolicy::Default => seen + offset,
                PriorityPolicy::Fence => offset,
            };
        }
        at.reverse();
        Self { at }
    }

    /// Returns the effective priority of a request of this priority in a leaf.
    pub fn in_leaf(queues: &QueueTable, leaf: u32, priority: i32) -> Self {
        let upward = queues.upward(leaf);
        Self::of(priority, upward.map(|(queue, figures)| (queue, &figures.config().settings)))
    }

    /// Compares two requests of one partition in the queue where their paths meet.
    pub fn compare(&self, other: &Self) -> Ordering {
        let both = self.at.iter().zip(&other.at);
        let common = both.take_while(|(own, theirs)| own.0 == theirs.0).last();
        common.map_or(Ordering::Equal, |(own, theirs)| own.1.cmp(&theirs.1))
    }
}

/// The holder of a reservation, as far as the decisions of others depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The id of its application.
    pub application: Arc<str>,
    /// The slot of its leaf in the directory.
    pub leaf: u32,
    /// The lane of its application, if its user or group has limits.
    pub lane: Option<LaneId>,
    /// The creation time of the request, ns since the epoch.
    pub created_ns: i64,
    /// Whether its earlier reservation was replaced by one of a higher rank.
    pub was_replaced: bool,
}

impl Holder {
    /// The holder for an ask of this application, in this leaf and lane.
    pub fn of(ask: &Ask, application: &Arc<str>, leaf: u32, lane: Option<LaneId>) -> Self {
        Self {
            application: Arc::clone(application),
            leaf,
            lane,
            created_ns: ask.created_ns,
            was_replaced: ask.search.was_replaced,
        }
    }

    /// Returns the rank of a request of this priority.
    pub fn rank(&self, queues: &QueueTable, priority: i32) -> Rank {
        Rank {
            effective: EffectivePriority::in_leaf(queues, self.leaf, priority),
            created_ns: self.created_ns,
            was_replaced: self.was_replaced,
        }
    }
}

/// The rank of a request among those that would reserve nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    /// The priority in each queue of its path.
    pub effective: EffectivePriority,
    /// The creation time, ns since the epoch.
    pub created_ns: i64,
    /// Whether its earlier reservation was replaced. If so, it replaces no other because of its
    /// age.
    pub was_replaced: bool,
}

impl Rank {
    /// Whether this request replaces a reservation of `other`: that has a lower effective priority,
    /// or the same priority and is younger. Age counts only for a request that was not replaced
    /// itself. Since a fence can make different priorities equal, three requests could otherwise
    /// replace each other in turn, each by age or priority, without end.
    pub fn replaces(&self, other: &Self) -> bool {
        match self.effective.compare(&other.effective) {
            Ordering::Greater => true,
            Ordering::Equal => !self.was_replaced && self.created_ns < other.created_ns,
            Ordering::Less => false,
        }
    }

    /// Compares two requests in the order in which their reservations end: the least important
    /// first, of equal ones the youngest.
    pub fn compare(&self, other: &Self) -> Ordering {
        let by_age = other.created_ns.cmp(&self.created_ns);
        self.effective.compare(&other.effective).then(by_age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(policy: PriorityPolicy, offset: i32) -> QueueSettings {
        QueueSettings {
            priority_policy: policy,
            priority_offset: offset,
            ..QueueSettings::default()
        }
    }

    fn rank(priority: i32, path: &[(u32, &QueueSettings)], created_ns: i64) -> Rank {
        let effective = EffectivePriority::of(priority, path.iter().copied());
        Rank { effective, created_ns, was_replaced: false }
    }

    #[test]
    fn offsets_count_below_the_queue_where_two_meet_and_not_in_it() {
        let [plain, raised] = [0, 10].map(|offset| settings(PriorityPolicy::Default, offset));
        let low = rank(0, &[(1, &raised), (0, &plain)], 5);
        let high = rank(9, &[(2, &plain), (0, &raised)], 5);
        assert!(low.replaces(&high) && !high.replaces(&low), "0 + 10 and 9");
        let same_leaf = rank(9, &[(1, &raised), (0, &plain)], 5);
        assert!(same_leaf.replaces(&low), "9 and 0 in one leaf");
    }

    #[test]
    fn the_older_replaces_the_younger_of_equal_priority_once() {
        let plain = QueueSettings::default();
        let [old, young] = [1, 2].map(|created| rank(0, &[(0, &plain)], created));
        assert!(old.replaces(&young) && !young.replaces(&old) && !old.replaces(&old.clone()));
        let replaced = Rank { was_replaced: true, ..old.clone() };
        assert!(!replaced.replaces(&young), "by priority only");
        let more = Rank { was_replaced: true, ..rank(1, &[(0, &plain)], 9) };
        assert!(more.replaces(&old));
        assert_eq!(young.compare(&old), Ordering::Less, "the youngest is the first to go");
        assert_eq!(young.compare(&more), Ordering::Less);
    }

    /// Tests that a chain of replacements ends, whichever priorities a fence makes equal.
    #[test]
    fn no_three_replace_each_other_for_ever() {
        let plain = QueueSettings::default();
        let fence = settings(PriorityPolicy::Fence, 0);
        let within = |priority, created| rank(priority, &[(1, &fence), (0, &plain)], created);
        let mut all = [within(9, 3), within(1, 1), rank(0, &[(2, &plain), (0, &plain)], 2)];
        assert!(all[0].replaces(&all[1]) && all[2].replaces(&all[0]) && all[1].replaces(&all[2]));
        let (mut holder, mut times) = (1, 0);
        while let Some(next) = (0..3).find(|at| all[*at].replaces(&all[holder])) {
            all[holder].was_replaced = true;
            (holder, times) = (next, times + 1);
            assert!(times <= 3);
        }
    }
}
