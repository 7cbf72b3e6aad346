//! Pending asks, class by class, as explanations show them.

use std::sync::Arc;

use super::ask::Ask;
use super::class::Class;
use super::table::Asks;
use crate::specs::ask::{Shape, TaskGroup};
use crate::values::ids::{AskSlot, ClassId};
use crate::waiting::WaitSet;
use crate::waiting::obstacle::Obstacle;

/// A class of asks with outstanding instances.
#[derive(Debug)]
pub struct PendingClass<'a> {
    /// The number of classes before it.
    pub position: usize,
    /// The shape of its members.
    pub shape: &'a Shape,
    /// The member that is tried for all members.
    pub first: &'a Ask,
    /// The keys of its first members, in order.
    pub keys: Vec<Arc<str>>,
    /// The number of outstanding allocations of all members.
    pub count: u64,
    /// The bound of the class.
    pub waits: &'a WaitSet,
    /// The obstacle for which it was parked, and the time since when it is the same, ns since the
    /// epoch.
    pub noted: Option<(Obstacle, i64)>,
}

impl Asks {
    /// Records the obstacle for which the class of an ask was just parked. If the obstacle was the
    /// same before, and no member was placed since, the earlier time is kept.
    pub fn note_parked(&mut self, slot: AskSlot, obstacle: Obstacle, now_ns: i64) {
        let Some(class) = self.ask(slot).class else { return };
        let noted = &mut self.classes[class].noted;
        if noted.is_none_or(|(before, _)| before != obstacle) {
            *noted = Some((obstacle, now_ns));
        }
        self.log_waiting(now_ns);
    }

    /// The number of classes.
    pub fn n_classes(&self) -> usize {
        self.order.len()
    }

    /// Returns the key of the ask that is first in order.
    pub fn first_key(&self) -> Option<&Arc<str>> {
        let (_, class, _) = self.order.iter().next()?;
        Some(&self.ask(self.first_member(*class)).key)
    }

    /// The number of placeholders of a task group that are still to be placed.
    pub fn pending_placeholders(&self, group: &TaskGroup) -> u64 {
        let of_group = |class: &&Class| {
            let spec = &self.ask(*class.members.values().next().expect("it has members")).spec;
            spec.placeholder && spec.task_group.as_ref() == Some(group)
        };
        self.classes.values().filter(of_group).map(|class| class.outstanding).sum()
    }

    /// Returns the classes in order, without the first `offset`, each with at most `keys` keys.
    pub fn pending_classes(
        &self,
        offset: usize,
        keys: usize,
    ) -> impl Iterator<Item = PendingClass<'_>> {
        let classes = self.order.iter_behind(offset).zip(offset..);
        classes.map(move |((_, class, _), at)| self.pending_class(at, *class, keys))
    }

    /// Returns the class of an ask, with at most `keys` keys, of which the ask's own is the first;
    /// `None` if it has no outstanding instances.
    pub fn pending_class_of(&self, slot: AskSlot, keys: usize) -> Option<PendingClass<'_>> {
        let id = self.ask(slot).class?;
        let class = self.class(id);
        let mut pending = self.pending_class(self.order.rank(&class.key), id, keys);
        let own = &self.ask(slot).key;
        pending.keys.retain(|key| key != own);
        pending.keys.insert(0, Arc::clone(own));
        pending.keys.truncate(keys);
        Some(pending)
    }

    fn pending_class(&self, position: usize, id: ClassId, keys: usize) -> PendingClass<'_> {
        let class = self.class(id);
        let members = class.members.values().take(keys);
        PendingClass {
            position,
            shape: &class.shape,
            first: self.ask(self.first_member(id)),
            keys: members.map(|slot| Arc::clone(&self.ask(*slot).key)).collect(),
            count: class.outstanding,
            waits: self.waits_of(id),
            noted: class.noted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specs::ask::AskSpec;
    use crate::values::resources::Resources;

    fn asks(amounts: &[i64]) -> (Asks, Vec<AskSlot>) {
        let mut asks = Asks::new();
        let slots = (1..).zip(amounts).map(|(number, amount)| {
            let amount = Resources::of(&[("vcore", *amount)]);
            asks.put(AskSpec::new(format!("a{number}"), amount), 0, number).0
        });
        let slots = slots.collect();
        (asks, slots)
    }

    fn shown(class: &PendingClass<'_>) -> (usize, u64, String) {
        let keys: Vec<&str> = class.keys.iter().map(|key| &**key).collect();
        (class.position, class.count, keys.join(" "))
    }

    #[test]
    fn classes_come_in_order_each_with_its_first_keys() {
        let (asks, slots) = asks(&[1, 2, 1, 3, 1]);
        let all: Vec<_> = asks.pending_classes(0, 2).map(|class| shown(&class)).collect();
        assert_eq!(all, [(0, 3, "a1 a3".into()), (1, 1, "a2".into()), (2, 1, "a4".into())]);
        let rest: Vec<_> = asks.pending_classes(2, 9).map(|class| shown(&class)).collect();
        assert_eq!(rest, [(2, 1, "a4".into())]);
        let of_one = asks.pending_class_of(slots[4], 2).map(|class| shown(&class));
        assert_eq!(of_one, Some((0, 3, "a5 a1".into())));
        assert_eq!(asks.first_key().map(|key| &**key), Some("a1"));
    }

    #[test]
    fn what_a_class_waits_for_is_noted_since_it_began() {
        let (mut asks, slots) = asks(&[1, 1]);
        let noted = |asks: &Asks| asks.pending_class_of(slots[1], 1).and_then(|class| class.noted);
        assert_eq!(noted(&asks), None);
        asks.note_parked(slots[0], Obstacle::Quota, 5);
        asks.note_parked(slots[0], Obstacle::Quota, 9);
        assert_eq!(noted(&asks), Some((Obstacle::Quota, 5)), "one time for the whole class");
        asks.note_parked(slots[0], Obstacle::NoNode, 11);
        assert_eq!(noted(&asks), Some((Obstacle::NoNode, 11)));
        asks.take_one(slots[0]);
        assert_eq!(noted(&asks), None, "it was not in the way for a moment");
    }
}
