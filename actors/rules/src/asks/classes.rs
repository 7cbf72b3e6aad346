//! Classes: asks that are tried as one, and the position of each class in the order.
//!
//! A class has the position of its first member. Its other members are not in the order at all, so
//! that the number of equal asks does not slow a search down.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::class::Class;
use super::reserved_waits::ReservedWaits;
use super::table::Asks;
use crate::order::keys::AskKey;
use crate::specs::ask::Shape;
use crate::values::ids::{AskSlot, ClassId};
use crate::values::resources::Sum;
use crate::waiting::WaitSet;

impl Asks {
    pub(super) fn class(&self, class: ClassId) -> &Class {
        &self.classes[class]
    }

    pub(super) fn first_member(&self, class: ClassId) -> AskSlot {
        *self.class(class).members.values().next().expect("a class has at least one member")
    }

    /// Adds an ask with outstanding instances to its class, which is created if there is none.
    pub(super) fn join_class(&mut self, slot: AskSlot) -> Option<ClassId> {
        let ask = self.ask(slot);
        if ask.outstanding == 0 {
            return None;
        }
        let member = (ask.created_ns, ask.sequence);
        let (outstanding, unsignalled) = (u64::from(ask.outstanding), usize::from(!ask.signalled));
        let key = AskKey::new(ask.priority, member.0, member.1);
        let (shape, pending) = (ask.shape(), ask.pending());
        if shape.required_node().is_none() {
            self.n_unsignalled += unsignalled;
        }
        self.pending.add_sum(&pending);
        self.pending.prune();
        let class = if let Some(class) = self.class_with(&shape) {
            let entry = &mut self.classes[class];
            entry.members.insert(member, slot);
            entry.outstanding += outstanding;
            entry.unsignalled += unsignalled;
            if key < entry.key {
                let old = std::mem::replace(&mut entry.key, key);
                self.order.rekey(&old, key, WaitSet::Due);
            } else {
                let old = entry.key;
                self.order.set_bound(&old, WaitSet::Due);
            }
            class
        } else {
            let members = BTreeMap::from([(member, slot)]);
            let refusals = self.table[slot].noted_refusals();
            let failures = refusals.and_then(|refusals| refusals.failures.take());
            let class = self.classes.insert(Class {
                shape: shape.clone(),
                members,
                key,
                outstanding,
                unsignalled,
                failures,
                noted: None,
            });
            if let Some(group) = shape.member_of() {
                self.members.entry(Arc::clone(group)).or_default().insert(class);
            }
            self.by_shape.insert(shape, class);
            if self.ask(slot).is_reserved() {
                self.order.insert(key, class, WaitSet::Nothing);
                self.reserved.insert(key, class, ReservedWaits::of(WaitSet::Due));
            } else {
                let waits = self.unless_backing_off(slot, WaitSet::Due);
                self.order.insert(key, class, waits);
            }
            class
        };
        self.ask_mut(slot).class = Some(class);
        self.last_joined = Some(class);
        self.n_pending += 1;
        Some(class)
    }

    /// Returns the class of this shape; tests the class that an ask joined last first.
    fn class_with(&self, shape: &Shape) -> Option<ClassId> {
        let is_alike =
            |class: &ClassId| self.classes.find(*class).is_some_and(|class| class.shape == *shape);
        let last = self.last_joined.filter(is_alike);
        last.or_else(|| self.by_shape.get(shape).copied())
    }

    /// Removes an ask from its class, and its outstanding amount from pending.
    pub(super) fn leave_class(&mut self, slot: AskSlot) {
        let ask = self.ask(slot);
        if ask.class.is_some() {
            let outstanding = ask.pending();
            self.forget_member(slot, &outstanding);
        }
    }

    pub(super) fn forget_member(&mut self, slot: AskSlot, outstanding: &Sum) {
        if !outstanding.is_empty() {
            self.pending.subtract_sum(outstanding);
            self.pending.prune();
        }
        let ask = &mut self.table[slot];
        let class = ask.class.take();
        debug_assert!(class.is_some(), "an ask that leaves its class is in one");
        let Some(class) = class else { return };
        self.n_pending -= 1;
        let (was_tried, is_reserved) = (ask.lacks_machines(), ask.is_reserved());
        let unsignalled = usize::from(!ask.signalled);
        let entry = &mut self.classes[class];
        entry.members.remove(&(ask.created_ns, ask.sequence));
        entry.outstanding -= u64::from(ask.outstanding);
        entry.unsignalled -= unsignalled;
        if entry.shape.required_node().is_none() {
            self.n_unsignalled -= unsignalled;
        }
        if let Some((&(created, sequence), _)) = entry.members.first_key_value() {
            let key = AskKey::new(entry.shape.priority(), created, sequence);
            if key != entry.key {
                let old = std::mem::replace(&mut entry.key, key);
                let waits = self.order.get(&old).map(|(_, waits)| waits.clone());
                if was_tried && matches!(waits, Some(WaitSet::Parked(_))) {
                    // The former first member was tried for all of them.
                    let first = self.first_member(class);
                    self.ask_mut(first).attempted = true;
                }
                self.order.rekey(&old, key, waits.unwrap_or(WaitSet::Due));
            }
        } else {
            let Class { key, shape, failures, .. } = self.classes.remove(class);
            self.take_along(slot, failures);
            self.order.remove(&key);
            if is_reserved {
                self.reserved.remove(&key);
            }
            self.by_shape.remove(&shape);
            if let Some(group) = shape.member_of()
                && let Some(classes) = self.members.get_mut(group)
            {
                classes.remove(&class);
                if classes.is_empty() {
                    self.members.remove(group);
                }
            }
        }
    }
}
