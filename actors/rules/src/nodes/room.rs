//! The room of a node, or a bound of the rooms of many nodes, for searches.
//!
//! # Why kinds
//! The obvious bound of several nodes is the maximum that any has of each resource. If nodes are
//! full in different resources, that bound allows everything, and a search examines every node
//! without result: 1 to 3 ms for a hundred thousand. So nodes are distinguished by the resource
//! that is scarcest on them, and the maximum is kept for each such *kind*. Then the cores of a node
//! without memory are not combined with the memory of a node without cores, and the same search
//! ends at the root.

use serde::{Deserialize, Deserializer, Serialize};
use smallvec::SmallVec;

use crate::order::tree::Bound;
use crate::values::resources::{Name, Resources};

/// The room of a node, or the maximum of the rooms of nodes of each kind.
///
/// Kinds ascend, and amounts have no names of zero or below: equal rooms are equal values. A node
/// that is closed or reserved has no kind at all. An open node that is full has its kind, with an
/// empty amount, since it still holds an ask for nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Room {
    #[serde(deserialize_with = "ascending")]
    kinds: SmallVec<[(Name, Resources); 1]>,
    /// The flags that any of the nodes has, of any kind; see `affinity/flags.rs`.
    flags: u64,
}

/// Reads kinds, whose names may have other numbers in this process than where they were written.
fn ascending<'de, D>(deserializer: D) -> Result<SmallVec<[(Name, Resources); 1]>, D::Error>
where
    D: Deserializer<'de>,
{
    let mut kinds = SmallVec::<[(Name, Resources); 1]>::deserialize(deserializer)?;
    kinds.sort_unstable_by_key(|kind| kind.0);
    Ok(kinds)
}

impl Room {
    /// Returns the room of a node that searches do not find.
    pub(super) fn closed() -> Self {
        Self::default()
    }

    /// Returns the room of an open node. An amount that fits in its total and in its available
    /// amount fits in the smaller of both.
    pub(super) fn open(total: &Resources, available: &Resources) -> Self {
        let mut free = Resources::new();
        let (mut kind, mut least) = (Name::MEMORY, f64::INFINITY);
        for (name, total) in total.entries() {
            let both = available.get(name).min(total);
            if both > 0 {
                free.push(name, both);
            }
            let share = both as f64 / total as f64;
            if share < least {
                (kind, least) = (name, share);
            }
        }
        Self { kinds: SmallVec::from_buf([(kind, free)]), flags: 0 }
    }

    /// Returns the room with these flags.
    pub(super) fn with_flags(self, flags: u64) -> Self {
        Self { flags, ..self }
    }

    /// Whether the node has all of these flags; of several nodes, whether each flag is on one of
    /// them.
    pub(super) fn has_flags(&self, needed: u64) -> bool {
        self.flags & needed == needed
    }

    /// Whether the node, or perhaps one of the nodes, holds the ask.
    pub(super) fn holds(&self, ask: &Resources) -> bool {
        self.kinds.iter().any(|(_, free)| free.holds(ask))
    }

    /// Whether any node is open.
    pub(super) fn is_open(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// Returns a lower bound of the [`missing_share`] of the node that comes nearest to an ask;
    /// `None` if no node is open.
    pub(super) fn least_missing(&self, ask: &Resources) -> Option<f64> {
        let shares = self.kinds.iter().map(|(_, free)| missing_share(ask, free));
        shares.reduce(f64::min)
    }

    /// Returns the maximum of the free amounts of each kind.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &Resources> {
        self.kinds.iter().map(|(_, free)| free)
    }

    fn position(&self, kind: Name) -> Result<usize, usize> {
        self.kinds.binary_search_by_key(&kind, |room| room.0)
    }

    fn of_kind(&self, kind: Name) -> Option<&Resources> {
        // There are two or three kinds: a scan is quicker than a binary search.
        self.kinds.iter().find(|room| room.0 == kind).map(|room| &room.1)
    }
}

/// Returns the largest missing part of any resource of an ask. Above 1 if a free amount is
/// negative.
pub(super) fn missing_share(ask: &Resources, free: &Resources) -> f64 {
    let missing = ask.entries().filter(|(_, wanted)| *wanted > 0).map(|(name, wanted)| {
        let short = i128::from(wanted) - i128::from(free.get(name));
        short.max(0) as f64 / wanted as f64
    });
    missing.fold(0.0, f64::max)
}

impl Bound for Room {
    fn join(&mut self, other: &Self) {
        self.flags |= other.flags;
        for (kind, free) in &other.kinds {
            let at = self.kinds.iter().position(|room| room.0 >= *kind);
            let at = at.unwrap_or(self.kinds.len());
            match self.kinds.get_mut(at) {
                Some(room) if room.0 == *kind => room.1.raise_to(free),
                _ => self.kinds.insert(at, (*kind, free.clone())),
            }
        }
    }

    fn covers(&self, other: &Self) -> bool {
        let mut rooms = other.kinds.iter();
        self.has_flags(other.flags)
            && rooms.all(|(kind, free)| self.of_kind(*kind).is_some_and(|most| most.holds(free)))
    }

    fn without<'a>(
        &self,
        gone: &Self,
        parts: impl Iterator<Item = &'a Self> + Clone,
    ) -> Option<Self> {
        let mut left: Option<Self> = None;
        if gone.flags != 0 {
            let flags = parts.clone().fold(0, |flags, part| flags | part.flags);
            if flags != self.flags {
                left = Some(Self { flags, ..self.clone() });
            }
        }
        for (kind, free) in &gone.kinds {
            let mut of_kind = parts.clone().filter_map(|part| part.of_kind(*kind)).peekable();
            if of_kind.peek().is_none() {
                left.get_or_insert_with(|| self.clone()).kinds.retain(|room| room.0 != *kind);
                continue;
            }
            let most = self.of_kind(*kind).expect("a join has the kinds of its parts");
            let Some(most) = most_left(most, free, of_kind) else { continue };
            let left = left.get_or_insert_with(|| self.clone());
            let at = left.position(*kind).expect("it has the kinds of what it was copied from");
            left.kinds[at].1 = most;
        }
        left
    }
}

/// Returns the maximum of `parts`; `most` is the maximum of `parts` and of `gone`. `None` if both
/// are the same.
fn most_left<'a>(
    most: &Resources,
    gone: &Resources,
    parts: impl Iterator<Item = &'a Resources>,
) -> Option<Resources> {
    // The quantities for which `gone` is the maximum, with the maximum of each among the parts.
    let mut rests: SmallVec<[(Name, i64, i64); 4]> = gone
        .entries()
        .filter(|&(name, quantity)| quantity == most.get(name))
        .map(|(name, quantity)| (name, quantity, 0))
        .collect();
    for part in parts {
        let mut same = true;
        for (name, quantity, next) in &mut rests {
            *next = part.get(*name).max(*next);
            same &= next == quantity;
        }
        if same {
            return None;
        }
    }
    let mut left = most.clone();
    for (name, _, next) in rests {
        left.set(name, next);
    }
    left.prune();
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vcore: i64, memory: i64) -> Room {
        let total = Resources::of(&[("vcore", 10), ("memory", 100)]);
        Room::open(&total, &Resources::of(&[("vcore", vcore), ("memory", memory)]))
    }

    fn joined(rooms: &[Room]) -> Room {
        let mut all = Room::closed();
        for room in rooms {
            all.join(room);
        }
        all
    }

    #[test]
    fn room_of_different_nodes_is_not_added_up() {
        let all = joined(&[of(9, 3), of(8, 5), of(1, 90)]);
        assert!(!all.holds(&Resources::of(&[("vcore", 2), ("memory", 20)])));
        assert!(
            all.holds(&Resources::of(&[("vcore", 9), ("memory", 5)])),
            "but among one kind it is"
        );
        assert!(all.holds(&Resources::of(&[("memory", 90)])));
    }

    #[test]
    fn flags_are_those_of_any_node_and_go_with_the_last_that_has_them() {
        let (a, b) = (of(9, 3).with_flags(0b11), of(5, 3).with_flags(0b01));
        let all = joined(&[a.clone(), b.clone()]);
        assert!(all.has_flags(0b11) && all.covers(&a) && !b.covers(&a));
        let left = [b.clone()];
        assert_eq!(all.without(&a, left.iter()), Some(joined(&left)));
        assert_eq!(all.without(&b, [a].iter()), None);
    }

    #[test]
    fn without_the_largest_the_next_is_left() {
        let (most, next, other) = (of(9, 3), of(5, 3), of(1, 90));
        let all = joined(&[most.clone(), next.clone(), other.clone()]);
        let left = [next.clone(), other.clone()];
        assert_eq!(all.without(&most, left.iter()), Some(joined(&left)));
        let left = [most.clone(), other.clone()];
        assert_eq!(all.without(&next, left.iter()), None, "as much memory is left with the other");
        let left = [most, next];
        assert_eq!(all.without(&other, left.iter()), Some(joined(&left)), "a kind goes");
    }

    #[test]
    fn a_closed_node_holds_not_even_nothing_and_a_full_one_does() {
        assert!(!Room::closed().holds(&Resources::new()));
        assert!(of(0, 0).holds(&Resources::new()));
        assert!(!of(0, 0).holds(&Resources::of(&[("vcore", 1)])));
    }
}
