//! Asks that have a node reserved. Each is a class of its own, and is pending in a phase of its
//! own.
//!
//! # Two conditions
//! An ask with a reserved node is placed on that node as soon as it has capacity, or on any other
//! node that has capacity first. Reserved nodes are tried before other nodes, for all asks of an
//! application. So two facts are kept for each: whether its own node has changed since it was last
//! tried there, and what it waits for otherwise (quota, or capacity on another node).
//!
//! # Invariants
//! * A reserved ask with outstanding instances is the only member of its class, and its class has
//!   an entry here, under its key. In the order of all classes no event makes that class be tried
//!   again; only its entry here does.
//! * No other class has an entry here.

use std::collections::BTreeMap;

use super::ask::Ask;
use super::reserved_waits::ReservedWaits;
use super::table::Asks;
use crate::order::keys::AskKey;
use crate::specs::ask::TaskGroup;
use crate::values::ids::{AskSlot, ClassId, NodeSlot};
use crate::waiting::{View, WaitSet};

impl Asks {
    /// The number of asks that have a node reserved.
    pub fn reserved_len(&self) -> usize {
        self.n_reserved
    }

    /// The number of asks whose reservation is suspended: their node is open to all, since they
    /// could not run there.
    pub fn suspended_len(&self) -> usize {
        self.n_suspended
    }

    /// Whether any ask has a reservation that is not suspended.
    pub fn reserves_any(&self) -> bool {
        self.n_reserved > self.n_suspended
    }

    /// Suspends the reservation of an ask: its node is open to all until the ask can run there.
    /// Returns whether it was not suspended before.
    pub fn suspend(&mut self, slot: AskSlot) -> bool {
        let is_new = self.ask(slot).is_reserved() && !self.ask(slot).search.is_suspended;
        if is_new {
            self.ask_mut(slot).search.make().is_suspended = true;
            self.n_suspended += 1;
        }
        is_new
    }

    /// Resumes the reservation of an ask: its node is reserved for it again.
    pub fn resume(&mut self, slot: AskSlot) {
        if let Some(search) = self.ask_mut(slot).search.find_mut()
            && std::mem::take(&mut search.is_suspended)
        {
            self.n_suspended -= 1;
        }
    }

    /// Returns the bound over all classes whose ask has a node reserved.
    pub fn reserved_waits(&self) -> WaitSet {
        match self.reserved.bound() {
            None => WaitSet::Nothing,
            Some(bound) if bound.own => WaitSet::Due,
            Some(bound) => bound.elsewhere.clone(),
        }
    }

    /// Returns the asks that have a node reserved and are members of a task group, with the group.
    pub fn reserved_members(&self) -> impl Iterator<Item = (AskSlot, &TaskGroup)> {
        self.reserved.iter().filter_map(|(_, class, _)| {
            let group = self.class(*class).shape.member_of()?;
            Some((self.first_member(*class), group))
        })
    }

    /// Returns the first class, in order, whose reserved node is to be tried.
    pub fn first_at_reserved(&self, view: &View<'_>) -> Option<(ClassId, AskSlot)> {
        let may = |waits: &ReservedWaits| waits.own || waits.elsewhere.may_have_quota(view);
        let (_, class, _) = self.reserved.first(may)?;
        Some((*class, self.first_member(*class)))
    }

    /// Returns the first class, in order, that has a node reserved and may be able to use another
    /// one.
    pub fn first_beside_reserved(&self, view: &View<'_>) -> Option<(ClassId, AskSlot)> {
        let (_, class, _) = self.reserved.first(|waits| waits.elsewhere.may(view))?;
        Some((*class, self.first_member(*class)))
    }

    /// Records that an ask has reserved this node; `elsewhere` is its bound on other nodes.
    pub fn reserve(&mut self, slot: AskSlot, node: NodeSlot, elsewhere: WaitSet) {
        let ask = self.ask_mut(slot);
        debug_assert!(!ask.is_reserved() && ask.outstanding > 0, "a pending ask reserves one node");
        self.set_apart_as(slot, elsewhere, |asks| {
            asks.n_reserved += 1;
            asks.ask_mut(slot).search.make().reserved = Some(node);
        });
    }

    /// Records that an ask has no node reserved any more: it waits like any other, and is tried
    /// again. Returns whether it had one.
    pub fn unreserve(&mut self, slot: AskSlot) -> bool {
        if !self.table.find(slot).is_some_and(Ask::is_reserved) {
            return false;
        }
        self.resume(slot);
        self.leave_class(slot);
        self.n_reserved -= 1;
        let ask = self.ask_mut(slot);
        ask.search.make().reserved = None;
        ask.refresh();
        ask.join_others();
        self.join_class(slot);
        true
    }

    /// Records that the reserved node of a class was tried without result: other nodes are next.
    pub fn pass_over_reserved(&mut self, class: ClassId) {
        let key = self.class(class).key;
        let entry = self.reserved.get(&key);
        debug_assert!(entry.is_some(), "a class whose ask has a node reserved has an entry");
        let Some((_, waits)) = entry else { return };
        let mut waits = ReservedWaits { own: false, elsewhere: waits.elsewhere.clone() };
        if waits.elsewhere.is_short() {
            waits.elsewhere = WaitSet::Due;
        }
        self.reserved.set_bound(&key, waits);
    }

    /// Records that the predicate refused the reserved node of an ask, for these reasons. Other
    /// nodes are searched now, even if none was found before; if there is none, the ask rests like
    /// any other ask that was refused.
    pub fn refused_at_reserved(&mut self, slot: AskSlot, reasons: BTreeMap<String, u32>) {
        let ask = self.ask_mut(slot);
        ask.attempted = true;
        ask.refuse_at_reserved();
        ask.refusals_mut().reasons = reasons;
        if let Some(class) = self.class_of(slot) {
            let key = self.class(class).key;
            self.reserved.set_bound(&key, ReservedWaits { own: false, elsewhere: WaitSet::Due });
        }
    }

    /// Lets the reserved node of an ask be tried again. Returns whether it has outstanding
    /// instances.
    pub fn wake_at_reserved(&mut self, slot: AskSlot) -> bool {
        let Some(class) =
            self.table.find(slot).filter(|ask| ask.is_reserved()).and_then(|ask| ask.class)
        else {
            return false;
        };
        let key = self.class(class).key;
        let entry = self.reserved.get(&key);
        debug_assert!(entry.is_some(), "a class whose ask has a node reserved has an entry");
        let Some((_, waits)) = entry else { return false };
        let waits = ReservedWaits { own: true, elsewhere: waits.elsewhere.clone() };
        self.reserved.set_bound(&key, waits)
    }

    /// Lets an ask be tried with the next offer, since what it waits for may have arrived. Returns
    /// whether it has outstanding instances.
    pub fn try_again(&mut self, slot: AskSlot) -> bool {
        if self.ask(slot).is_reserved() {
            return self.wake_at_reserved(slot);
        }
        let class = self.class_of(slot);
        if let Some(class) = class {
            self.set_waits(class, WaitSet::Due);
        }
        class.is_some()
    }

    /// Records that the reservation of the ask with this key was ended from outside, perhaps for an
    /// ask that comes before it. Returns whether it had one.
    pub fn reservation_ended(&mut self, key: &str, was_replaced: bool) -> bool {
        let Some(slot) = self.slot_of(key) else { return false };
        let any = self.unreserve(slot);
        if was_replaced {
            self.ask_mut(slot).search.make().was_replaced = true;
        }
        any
    }

    /// Records that the reservation of the ask with this key was suspended from outside: the next
    /// offer tries whether it can run again. Returns whether it is due.
    pub fn reservation_suspended(&mut self, key: &str) -> bool {
        let Some(slot) = self.slot_of(key) else { return false };
        self.suspend(slot) && self.wake_at_reserved(slot)
    }

    /// Lets the next offer check the reservation of the ask with this key, which may have waited
    /// too long for quota. Returns whether it is due.
    pub fn reservation_waited(&mut self, key: &str) -> bool {
        self.slot_of(key).is_some_and(|slot| self.wake_at_reserved(slot))
    }

    /// Makes every class due that found no node when it was too young to reserve one, and whose
    /// first member was created after `after_ns` and no later than `until_ns`. Returns whether
    /// there is one, and the creation time of the next ask that will be old enough.
    ///
    /// Asks created up to `after_ns` were old enough at the last call.
    pub fn wake_old(&mut self, after_ns: i64, until_ns: i64) -> (bool, Option<i64>) {
        let (mut old, mut next) = (Vec::new(), None::<i64>);
        let first = self.order.first(WaitSet::may_lack_node).map(|(key, ..)| *key);
        let mut priority = first.map(|key| key.priority());
        let mut behind = priority.map(|priority| AskKey::new(priority, after_ns, u64::MAX));
        while let Some(from) = behind {
            let found = self.order.first_after(&from, WaitSet::may_lack_node);
            let Some((key, class, waits)) = found.map(|(key, class, waits)| (*key, *class, waits))
            else {
                break;
            };
            let is_too_young = matches!(waits, WaitSet::Parked(parked) if !parked.reserves);
            behind = if priority != Some(key.priority()) {
                priority = Some(key.priority());
                Some(AskKey::new(key.priority(), after_ns, u64::MAX))
            } else if key.created() > until_ns && is_too_young {
                next = Some(next.map_or(key.created(), |next| next.min(key.created())));
                Some(AskKey::new(key.priority(), i64::MAX, u64::MAX))
            } else {
                if is_too_young {
                    old.push(class);
                }
                Some(key)
            };
        }
        for class in &old {
            let first = self.first_member(*class);
            if let Some(refusals) = self.ask_mut(first).noted_refusals() {
                refusals.retries.begin_by_time();
            }
            self.set_waits(*class, WaitSet::Due);
        }
        (!old.is_empty(), next)
    }

    /// Whether an ask with a reserved node is to be tried on that node, or on all nodes.
    pub fn is_due_at_reserved(&self, slot: AskSlot) -> bool {
        let Some(class) = self.ask(slot).class else { return false };
        let waits = self.reserved.get(&self.class(class).key).map(|(_, waits)| waits);
        waits.is_some_and(|waits| waits.own || waits.elsewhere == WaitSet::Due)
    }
}
