//! The table of all asks of an application, and the operations that change asks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ask::Ask;
use super::class::Class;
use super::reserved_waits::ReservedWaits;
use super::wait_log::WaitLog;
use crate::nodes::{Domain, Exclusion, NodeIndex};
use crate::order::keys::{AskKey, MIN_PRIORITY};
use crate::order::tree::OrderedTree;
use crate::specs::ask::{AskSpec, Form, Shape, TaskGroup};
use crate::values::hashing::SeededMap;
use crate::values::ids::{AllocationId, AskSlot, ClassId};
use crate::values::key_index::KeyIndex;
use crate::values::resources::{Resources, Sum};
use crate::values::slots::Slots;
use crate::waiting::{View, WaitSet};

/// All asks of an application, including those that are fully allocated.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Asks {
    pub(super) table: Slots<AskSlot, Ask>,
    #[serde(skip)] // built again from the asks
    pub(super) by_key: KeyIndex<AskSlot>,
    pub(super) classes: Slots<ClassId, Class>,
    #[serde(skip)] // built again from the classes
    pub(super) by_shape: SeededMap<Shape, ClassId>,
    /// The class that an ask joined last: the next ask is usually of the same class.
    pub(super) last_joined: Option<ClassId>,
    pub(super) order: OrderedTree<AskKey, ClassId, WaitSet>,
    /// The classes of the real members of each task group.
    pub(super) members: BTreeMap<TaskGroup, BTreeSet<ClassId>>,
    /// The classes whose ask has a node reserved.
    pub(super) reserved: OrderedTree<AskKey, ClassId, ReservedWaits>,
    /// The number of asks with a reserved node, including those that wait for a predicate.
    pub(super) n_reserved: usize,
    pub(super) n_suspended: usize,
    /// The number of asks for which a scale-up signal may still be sent.
    pub(super) n_unsignalled: usize,
    /// The number of asks with outstanding instances.
    pub(super) n_pending: usize,
    /// The approximate memory of all asks, in bytes.
    pub(super) bytes: u64,
    pub(super) pending: Sum,
    pub(super) waits: WaitLog,
}

impl Asks {
    /// Builds a table without asks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the sum of resource × outstanding over all asks.
    pub fn pending(&self) -> &Sum {
        &self.pending
    }

    /// Returns the highest pending priority; [`MIN_PRIORITY`] if no ask is pending.
    pub fn priority(&self) -> i32 {
        self.order.first(|_| true).map_or(MIN_PRIORITY, |(key, _, _)| key.priority())
    }

    /// Returns the bound over all classes that have no node reserved.
    pub fn waits(&self) -> WaitSet {
        self.order.bound().cloned().unwrap_or_default()
    }

    /// Returns the ask with the RM's key.
    pub fn slot_of(&self, key: &str) -> Option<AskSlot> {
        self.by_key.find(key, |slot| Some(&*self.table.find(slot)?.spec.key))
    }

    /// Returns an ask by its slot, which must be of this application and still in use.
    #[inline]
    pub fn ask(&self, slot: AskSlot) -> &Ask {
        &self.table[slot]
    }

    /// Returns an ask by its slot, if that is still in use.
    pub fn find(&self, slot: AskSlot) -> Option<&Ask> {
        self.table.find(slot)
    }

    /// Returns an ask, to change fields that no order depends on.
    #[inline]
    pub fn ask_mut(&mut self, slot: AskSlot) -> &mut Ask {
        &mut self.table[slot]
    }

    /// Returns the slot of each ask, in order.
    pub fn slots(&self) -> Vec<AskSlot> {
        self.table.iter().map(|(slot, _)| slot).collect()
    }

    /// Returns one more than the highest slot that was ever in use, for callers that read asks in
    /// parts.
    pub fn bound(&self) -> usize {
        self.table.bound()
    }

    /// Returns every ask, in order of its slot.
    pub fn iter(&self) -> impl Iterator<Item = &Ask> {
        self.table.values()
    }

    /// The number of asks, satisfied ones included.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The number of asks with outstanding instances.
    pub fn n_pending(&self) -> usize {
        self.n_pending
    }

    /// The approximate memory of all asks, satisfied ones included, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether there is no ask.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Returns the first class, in order, that may be able to use an offer, with its first member.
    /// Classes with a reserved node are not considered.
    pub fn first(&self, view: &View<'_>) -> Option<(ClassId, AskSlot)> {
        let (_, class, _) = self.order.first(|waits| waits.may(view))?;
        Some((*class, self.first_member(*class)))
    }

    /// Returns the shape of a class that is in use.
    pub fn shape(&self, class: ClassId) -> &Shape {
        &self.class(class).shape
    }

    /// Returns the class of an ask with outstanding instances.
    #[inline]
    pub fn class_of(&self, slot: AskSlot) -> Option<ClassId> {
        self.ask(slot).class
    }

    /// Sets the bound of a class that was tried without result, or that must be tried.
    pub fn set_waits(&mut self, class: ClassId, waits: WaitSet) {
        let (key, first) = (self.class(class).key, self.first_member(class));
        let waits = self.unless_backing_off(first, waits);
        if self.ask(first).is_reserved() {
            self.reserved.set_bound(&key, ReservedWaits::of(waits));
        } else {
            self.order.set_bound(&key, waits);
        }
    }

    /// Makes every class due that requires `node`; returns whether there is one.
    pub fn wake_named(&mut self, node: &str) -> bool {
        self.wake(|shape, _| shape.required_node().is_some_and(|required| **required == *node))
    }

    /// Makes every class due that requires `node`, after a placement that was never settled
    /// returned its capacity there. An ask that was refused there had that capacity at hand, and
    /// stays as it is.
    pub fn wake_named_by_return(&mut self, node: &str) -> bool {
        self.wake(|shape, first| {
            shape.required_node().is_some_and(|required| **required == *node) && !first.is_resting()
        })
    }

    /// Makes every class due whose asks were to replace placeholders of the group, because no
    /// placeholder is left. Returns whether there is one.
    pub fn wake_members(&mut self, group: &TaskGroup) -> bool {
        self.wake(|shape, _| shape.member_of() == Some(group))
    }

    /// Returns the first ask, in order, after the one with the given key, that is a real member of
    /// a task group for which `is_meant` is true, and that does not back off.
    pub fn next_member(
        &self,
        after: Option<&AskKey>,
        is_meant: impl Fn(&TaskGroup) -> bool,
    ) -> Option<(AskKey, AskSlot)> {
        let classes = self.tried_classes(is_meant);
        classes.filter_map(|class| class.first_after(after)).min_by(|a, b| a.0.cmp(&b.0))
    }

    /// Returns the results of repeated [`Self::next_member`] after this key. The first result reads
    /// all classes of the groups, each further one reads one class.
    pub fn next_members(
        &self,
        after: AskKey,
        is_meant: impl Fn(&TaskGroup) -> bool,
    ) -> impl Iterator<Item = (AskKey, AskSlot)> {
        let classes: Vec<_> = self.tried_classes(is_meant).collect();
        let first = |(at, class): (usize, &&Class), after: &AskKey| {
            class.first_after(Some(after)).map(|(key, slot)| Reverse((key, at, slot)))
        };
        let firsts = classes.iter().enumerate().filter_map(|class| first(class, &after));
        let mut firsts: BinaryHeap<_> = firsts.collect();
        std::iter::from_fn(move || {
            let Reverse((key, at, slot)) = firsts.pop()?;
            firsts.extend(first((at, &classes[at]), &key));
            Some((key, slot))
        })
    }

    /// Whether any real member of the task group is outstanding.
    pub fn has_members(&self, group: &TaskGroup) -> bool {
        self.members.contains_key(group)
    }

    /// Drops the refusals of searches under way, and makes every class due whose first ask
    /// predicates refused on every node or on its reserved one. Only asks for which `is_meant` is
    /// true are considered. Returns whether a class is due.
    pub fn wake_refused(&mut self, is_meant: impl Fn(&Ask) -> bool) -> bool {
        for ask in self.table.values_mut() {
            if ask.trying().is_some() && is_meant(ask) {
                ask.refresh();
            }
        }
        let was_refused = |ask: &Ask| ask.is_resting() || ask.is_refused_at_reserved();
        self.wake(|_, first| was_refused(first) && is_meant(first))
    }

    /// Whether predicates have refused any ask, on some nodes or on all.
    pub fn any_refused(&self) -> bool {
        self.iter().any(|ask| !ask.is_fresh())
    }

    /// Makes every class due that was tried without result, since its marks may not be those of its
    /// queues. An ask that predicates refused is not due, unless a node has grown since.
    pub fn wake_all(&mut self, nodes: &NodeIndex) {
        let parked = self.order.iter().filter(|(_, _, waits)| waits.may_be_tried(nodes));
        for class in parked.map(|(_, class, _)| *class).collect::<Vec<_>>() {
            self.set_waits(class, WaitSet::Due);
        }
    }

    pub(super) fn wake(&mut self, is_meant: impl Fn(&Shape, &Ask) -> bool) -> bool {
        let meant: Vec<ClassId> = self
            .order
            .iter()
            .map(|(_, class, _)| *class)
            .filter(|class| is_meant(self.shape(*class), self.ask(self.first_member(*class))))
            .collect();
        for class in &meant {
            self.set_waits(*class, WaitSet::Due);
        }
        !meant.is_empty()
    }

    /// Adds an ask, or replaces the outstanding instances of the ask with this key. Returns the
    /// change of pending.
    ///
    /// `sequence` is the number of its arrival. A replaced ask keeps its creation time if the new
    /// request states none.
    pub fn put(
        &mut self,
        spec: impl Into<Arc<AskSpec>>,
        now_ns: i64,
        sequence: u64,
    ) -> (AskSlot, Sum) {
        let spec = spec.into();
        let outstanding = spec.instances;
        self.put_outstanding(spec, outstanding, now_ns, sequence)
    }

    /// Adds an internal ask, for members of a declared gang that have no ask of their own. It has
    /// no key, and no scale-up signal is sent for it.
    pub fn put_internal(&mut self, spec: Arc<AskSpec>, now_ns: i64, sequence: u64) -> AskSlot {
        let mut ask = Ask::new(spec, 0, now_ns, sequence);
        ask.signalled = true;
        self.bytes += ask.spec.bytes();
        self.table.insert(ask)
    }

    /// Sets the number of outstanding instances of an ask. Returns the change of pending.
    pub fn set_outstanding(&mut self, slot: AskSlot, outstanding: u32) -> Sum {
        let before = self.pending.clone();
        self.leave_class(slot);
        self.ask_mut(slot).outstanding = outstanding;
        self.join_class(slot);
        self.pending.since(&before)
    }

    /// Removes an internal ask, with its outstanding instances. Returns the amount that was
    /// pending.
    pub fn remove_internal(&mut self, slot: AskSlot) -> Sum {
        let before = self.pending.clone();
        self.leave_class(slot);
        self.bytes -= self.table.remove(slot).spec.bytes();
        before.since(&self.pending)
    }

    /// The number of outstanding instances of real members of the task group.
    pub fn outstanding_members(&self, group: &TaskGroup) -> u64 {
        let classes = self.members.get(group).into_iter().flatten();
        classes.map(|class| self.class(*class).outstanding).sum()
    }

    /// Returns the asks that are real members of the task group, in order, each with its number of
    /// outstanding instances.
    pub fn members_of(&self, group: &TaskGroup) -> Vec<(AskSlot, u32)> {
        let classes = self.members.get(group).into_iter().flatten();
        let mut members: Vec<(AskKey, AskSlot)> =
            classes.flat_map(|class| self.class(*class).in_order()).collect();
        members.sort_unstable_by_key(|member| member.0);
        members.into_iter().map(|(_, slot)| (slot, self.ask(slot).outstanding)).collect()
    }

    /// Sets the domains in which asks of task groups have to stay, or none; also for internal asks
    /// and for asks without outstanding instances.
    pub fn set_domains<'a>(&mut self, of: impl Fn(&TaskGroup) -> Option<&'a Arc<Domain>>) {
        for ask in self.table.values_mut() {
            ask.set_domain(ask.spec.task_group.as_ref().and_then(&of).cloned());
        }
    }

    /// Adds an ask without outstanding instances, whose allocation exists already.
    pub fn put_allocated(
        &mut self,
        spec: impl Into<Arc<AskSpec>>,
        now_ns: i64,
        sequence: u64,
    ) -> AskSlot {
        self.put_outstanding(spec.into(), 0, now_ns, sequence).0
    }

    pub(super) fn put_outstanding(
        &mut self,
        mut spec: Arc<AskSpec>,
        outstanding: u32,
        now_ns: i64,
        sequence: u64,
    ) -> (AskSlot, Sum) {
        let Some(slot) = self.slot_of(&spec.key) else {
            return self.add_outstanding(spec, outstanding, now_ns, sequence);
        };
        let stated = self.ask(slot).spec.created_ns;
        if spec.created_ns.is_none() && stated.is_some() {
            Arc::make_mut(&mut spec).created_ns = stated;
        }
        let before = self.pending.clone();
        self.bytes += spec.bytes();
        self.leave_class(slot);
        self.bytes -= self.ask(slot).spec.bytes();
        let ask = self.ask_mut(slot);
        ask.forget_failures();
        ask.forget_tries();
        if !ask.spec.is_repeated_by(&spec) {
            ask.forget_starts();
        }
        ask.created_ns = spec.counted_creation_ns(ask.arrived_ns);
        ask.spec = spec;
        ask.outstanding = outstanding;
        ask.sequence = sequence;
        ask.withdrawn = false;
        ask.join_others();
        ask.forget_refusals();
        self.join_class(slot);
        (slot, self.pending.since(&before))
    }

    /// Adds an ask whose key is new; see [`Self::put`].
    pub fn add(&mut self, spec: Arc<AskSpec>, now_ns: i64, sequence: u64) -> (AskSlot, Sum) {
        let outstanding = spec.instances;
        self.add_outstanding(spec, outstanding, now_ns, sequence)
    }

    pub(super) fn add_outstanding(
        &mut self,
        spec: Arc<AskSpec>,
        outstanding: u32,
        now_ns: i64,
        sequence: u64,
    ) -> (AskSlot, Sum) {
        debug_assert!(self.slot_of(&spec.key).is_none(), "a key is there once");
        self.bytes += spec.bytes();
        let slot = self.table.next();
        self.by_key.insert(&spec.key, slot);
        let ask = Ask::new(spec, outstanding, now_ns, sequence);
        let mut pending = ask.pending();
        pending.prune();
        self.table.insert(ask);
        self.join_class(slot);
        (slot, pending)
    }

    /// Changes only the amount of an ask. Returns the change of pending.
    pub fn resize(&mut self, slot: AskSlot, resources: Resources) -> Sum {
        let before = self.pending.clone();
        self.leave_class(slot);
        let ask = self.ask_mut(slot);
        Arc::make_mut(&mut ask.spec).resources = Arc::new(resources);
        ask.forget_starts();
        ask.join_others();
        ask.forget_refusals();
        self.join_class(slot);
        self.pending.since(&before)
    }

    /// Changes only priority, policy and tags of an ask, after it was requested again. The ask
    /// keeps its position among those of its priority, and its search for a node begins again.
    pub fn restate(&mut self, slot: AskSlot, said: &AskSpec) {
        self.leave_class(slot);
        self.bytes -= self.ask(slot).spec.bytes();
        let ask = self.ask_mut(slot);
        Arc::make_mut(&mut ask.spec).restate(said);
        ask.forget_starts();
        ask.join_others();
        ask.forget_refusals();
        ask.forget_tries();
        self.bytes += self.ask(slot).spec.bytes();
        self.join_class(slot);
    }

    /// Records that one outstanding instance was placed.
    pub fn take_one(&mut self, slot: AskSlot) {
        let ask = self.ask_mut(slot);
        if let Some(refusals) = ask.noted_refusals() {
            refusals.retries.passed();
        }
        self.take(slot);
    }

    /// Records that one outstanding instance has a node and waits for its predicate.
    pub fn hold_one(&mut self, slot: AskSlot, placement: AllocationId) {
        self.ask_mut(slot).search.make().unsettled.push(placement);
        self.take(slot);
    }

    /// Records that the predicate of a placement passed: it is an allocation.
    pub fn settle_one(&mut self, slot: AskSlot, placement: AllocationId) {
        let ask = self.ask_mut(slot);
        ask.waits_no_longer(placement);
        ask.live.push(placement);
        ask.forget_refusals();
    }

    /// Records that all waiting placements of the ask were withdrawn: their instances are
    /// outstanding again. Returns the change of pending.
    pub fn take_back_all(&mut self, slot: AskSlot) -> Sum {
        let ask = self.ask_mut(slot);
        let unsettled = ask.search.find_mut().map(|search| std::mem::take(&mut search.unsettled));
        let waiting = unsettled.map_or(0, |unsettled| unsettled.len());
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        let outstanding = ask.outstanding.saturating_add(waiting);
        self.set_outstanding(slot, outstanding)
    }

    /// Records that a placement was withdrawn: its instance is outstanding again. Returns the
    /// change of pending.
    pub fn take_back(&mut self, slot: AskSlot, placement: AllocationId) -> Sum {
        self.ask_mut(slot).waits_no_longer(placement);
        self.give_back(slot)
    }

    pub(super) fn take(&mut self, slot: AskSlot) {
        let ask = &mut self.table[slot];
        self.pending.subtract(&ask.spec.resources);
        self.pending.prune();
        debug_assert!(ask.outstanding > 0, "only a pending ask is placed");
        ask.outstanding -= 1;
        if let Some(class) = ask.class {
            let class = &mut self.classes[class];
            class.outstanding -= 1;
            class.noted = None;
        }
        if ask.outstanding == 0 {
            self.forget_member(slot, &Sum::default());
        }
    }

    /// Makes one instance outstanding again. Returns the change of pending.
    pub fn give_back(&mut self, slot: AskSlot) -> Sum {
        let before = self.pending.clone();
        self.leave_class(slot);
        let ask = self.ask_mut(slot);
        ask.outstanding += 1;
        ask.withdrawn = false;
        self.join_class(slot);
        self.pending.since(&before)
    }

    /// Withdraws the outstanding instances of an ask. Returns the amount that was pending. The
    /// entry is kept while allocations made from it live.
    pub fn withdraw(&mut self, slot: AskSlot) -> Sum {
        let before = self.pending.clone();
        self.leave_class(slot);
        let ask = self.ask_mut(slot);
        ask.withdrawn |= ask.outstanding > 0;
        ask.outstanding = 0;
        self.drop_if_done(slot);
        before.since(&self.pending)
    }

    /// Removes an ask that has no outstanding instances, waiting placements or live allocations.
    pub fn drop_if_done(&mut self, slot: AskSlot) {
        if self.table.find(slot).is_some_and(Ask::is_over) {
            let ask = self.table.remove(slot);
            debug_assert!(!ask.is_reserved(), "its reservation ends before it goes");
            self.bytes -= ask.spec.bytes();
            self.by_key.remove(&ask.spec.key, slot);
        }
    }

    /// Gives an ask a class of its own with this bound, because predicates refused every node. The
    /// caller records whether it rests.
    pub fn single_out(&mut self, slot: AskSlot, waits: WaitSet) {
        self.ask_mut(slot).refusals_mut().retries.refused();
        self.set_apart(slot, waits);
    }

    /// Records that an ask waits for a node on which another placement holds room. Returns the
    /// bound for an ask that is still to be [singled out](Self::single_out); `None` if it waited
    /// before in its search.
    pub fn await_return(&mut self, slot: AskSlot, waits: WaitSet) -> Option<WaitSet> {
        if let Some(trying) = self.ask_mut(slot).trying_mut()
            && trying.waits_again()
            && let Some(class) = self.class_of(slot)
        {
            // The ask is alone in its class already, and its deadline is set.
            self.set_waits(class, waits);
            return None;
        }
        Some(waits)
    }

    /// Records that one instance of an ask has got a node. If the RM refused a reservation before,
    /// the class becomes due for its next instance.
    pub fn begin_instance(&mut self, slot: AskSlot) {
        if self.ask(slot).may_not_reserve()
            && let Some(class) = self.class_of(slot)
        {
            self.set_waits(class, WaitSet::Due);
        }
    }

    /// Records the question to the RM whether an ask may reserve a node. Until it is answered the
    /// ask waits, alone in its class, as if it could reserve none.
    pub fn ask_to_reserve(&mut self, slot: AskSlot, question: u64, waits: WaitSet) {
        self.set_apart(slot, waits);
        self.ask_mut(slot).refusals_mut().claim = Some(question);
    }

    /// Excludes a node for the ask until a deadline. The ask gets a class of its own, which is
    /// tried again.
    pub fn exclude(&mut self, slot: AskSlot, exclusion: Exclusion) {
        let excluded = &mut self.ask_mut(slot).refusals_mut().excluded;
        excluded.retain(|earlier| earlier.node != exclusion.node);
        excluded.push(exclusion);
        self.set_apart(slot, WaitSet::Due);
    }

    /// Lets an ask be tried again because the pause after the refusal with this number is over.
    /// Returns whether it is tried. An ask that was refused again since has a later deadline of its
    /// own.
    pub fn retry(&mut self, key: &str, retry: u32) -> bool {
        let Some(slot) = self.slot_of(key) else { return false };
        let Some(class) = self.class_of(slot) else { return false };
        let ask = self.ask_mut(slot);
        let begins = ask.noted_refusals().is_some_and(|refusals| refusals.retries.begin(retry));
        if begins {
            ask.refresh();
            self.set_waits(class, WaitSet::Due);
        }
        begins
    }

    /// Ends an exclusion: the ask may use the node again, and is tried again. Returns whether this
    /// exclusion was still in force; the ask may have been excluded again since.
    pub fn admit(&mut self, slot: AskSlot, over: &Exclusion) -> bool {
        let Some(refusals) = self.ask_mut(slot).noted_refusals() else { return false };
        let before = refusals.excluded.len();
        refusals.excluded.retain(|excluded| excluded != over);
        let is_admitted = refusals.excluded.len() < before;
        if is_admitted && let Some(class) = self.ask(slot).class {
            self.set_waits(class, WaitSet::Due);
        }
        is_admitted
    }

    /// Returns the bound of a class. If it has a reserved node, the bound on all other nodes.
    pub fn waits_of(&self, class: ClassId) -> &WaitSet {
        let key = self.class(class).key;
        let reserved = self.reserved.get(&key).map(|(_, waits)| waits.elsewhere());
        let waits = reserved.or_else(|| self.order.get(&key).map(|(_, waits)| waits));
        waits.unwrap_or(&WaitSet::Nothing)
    }

    /// Returns the asks of a class, in order.
    pub fn members_of_class(&self, class: ClassId) -> impl Iterator<Item = AskSlot> {
        self.class(class).in_order().map(|(_, slot)| slot)
    }

    /// Gives an ask a class of its own, with this bound.
    pub fn set_apart(&mut self, slot: AskSlot, waits: WaitSet) {
        self.set_apart_as(slot, waits, |_| {});
    }

    /// Gives an ask a class of its own, with this bound, and applies `change` to it. The results of
    /// its tries move with it.
    pub(super) fn set_apart_as(
        &mut self,
        slot: AskSlot,
        waits: WaitSet,
        change: impl FnOnce(&mut Self),
    ) {
        let log = self.failures(slot).cloned().map(Box::new);
        let noted = self.class_of(slot).and_then(|class| self.class(class).noted);
        self.leave_class(slot);
        self.take_along(slot, log);
        self.ask_mut(slot).is_single = true;
        change(self);
        if let Some(class) = self.join_class(slot) {
            let entry = &mut self.classes[class];
            entry.noted = entry.noted.or(noted);
            self.set_waits(class, waits);
        }
    }

    /// Returns the keys of all asks that the RM sent, of this form if one is given, that are
    /// outstanding or wait for a predicate, in order of arrival.
    pub fn pending_keys(&self, form: Option<Form>) -> Vec<Arc<str>> {
        let mut pending: Vec<&Ask> = self
            .iter()
            .filter(|ask| ask.outstanding > 0 || !ask.search.unsettled.is_empty())
            .filter(|ask| ask.form != Form::Internal && form.is_none_or(|form| ask.form == form))
            .collect();
        pending.sort_by_key(|ask| ask.sequence);
        pending.into_iter().map(|ask| Arc::clone(&ask.key)).collect()
    }

    /// Returns every class in order, with its shape, its first member's slot and its bound. The
    /// bound is empty if a node is reserved. For a full search.
    pub fn classes(&self) -> impl Iterator<Item = (&Shape, AskSlot, &WaitSet)> {
        self.order
            .iter()
            .map(|(_, class, waits)| (self.shape(*class), self.first_member(*class), waits))
    }
}
