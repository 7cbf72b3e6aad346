//! The asks of one application, grouped in classes (applications chapter, 2.2, 2.3, 3.3).
//!
//! Asks of the same shape are one class: what quota, user or node room says of one member holds for
//! all, so a class is tried once, whether it has one member or a hundred thousand. A class stands in
//! the order of its first member (priority, creation time, arrival) and moves when that one leaves.
//! A predicate's refusal concerns one ask alone: that ask is *singled out* into a class of its own.
//!
//! # Invariants
//! * [`Asks::pending`] is the sum of resource × repeat over all asks, without zero entries.
//! * Every ask with something outstanding is in exactly one class, every other in none; a class has
//!   at least one member.
//! * The classes' order equals the order of their first members.
//! * An instance is outstanding, or waits for its predicate, or is allocated: an ask stays as long as
//!   any of its instances is one of these.

mod attempts;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::decide::predicates::Try;
use crate::order::keys::{AskKey, MIN_PRIORITY};
use crate::order::tree::OrderedTree;
use crate::order::waits::{View, WaitSet};
use crate::values::resources::Resources;
use crate::work::allocations::{AllocationId, Form, Tags};

/// What is asked for, as the RM sent it.
#[derive(Clone, Debug)]
pub struct AskSpec {
    /// The RM's key, unique within the application.
    pub key: Arc<str>,
    /// Per allocation.
    pub resources: Resources,
    /// How many allocations are outstanding.
    pub repeat: u32,
    /// Higher is more important.
    pub priority: i32,
    /// Creation time, ns since the epoch; `None`: the arrival.
    pub created_ns: Option<i64>,
    /// The only node that may be used.
    pub required_node: Option<Arc<str>>,
    /// Whether it is the driver or first task of its application.
    pub originator: bool,
    /// Who may preempt whom.
    pub preemption: Preemption,
    /// The task group it is a member of.
    pub task_group: Option<TaskGroup>,
    /// After which time of running each allocation is ended, ms; `None`: never (2.8).
    pub execution_timeout_ms: Option<NonZeroU64>,
    /// How it came in.
    pub form: Form,
    /// As sent.
    pub tags: Option<Tags>,
}

/// The name of a task group. Few asks have one, and an ask without pays for one pointer.
pub type TaskGroup = Arc<String>;

/// Whether an ask may be preempted, and whether it may preempt others (2.2, D38). One byte, since
/// every ask has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preemption {
    /// Neither.
    Neither,
    /// It may be preempted.
    #[default]
    Itself,
    /// It may preempt others.
    Others,
    /// Both.
    Both,
}

impl Preemption {
    /// As the interface says it.
    pub fn new(itself: bool, others: bool) -> Self {
        match (itself, others) {
            (false, false) => Self::Neither,
            (true, false) => Self::Itself,
            (false, true) => Self::Others,
            (true, true) => Self::Both,
        }
    }

    /// Whether it may be preempted.
    pub fn of_itself(self) -> bool {
        matches!(self, Self::Itself | Self::Both)
    }

    /// Whether it may preempt others.
    pub fn of_others(self) -> bool {
        matches!(self, Self::Others | Self::Both)
    }
}

/// What members of a class have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Per allocation.
    pub resources: Resources,
    /// Higher is more important.
    pub priority: i32,
    /// The only node that may be used.
    pub required_node: Option<Arc<str>>,
    /// Of an ask that was singled out: its sequence number. 0 of all others.
    single: u64,
}

/// A class: a place in [`Asks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(u32);

/// An ask: a place in [`Asks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskSlot(u32);

/// One ask of the application.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug)]
pub struct Ask {
    /// The RM's key.
    pub key: Arc<str>,
    /// Outstanding allocations.
    pub repeat: u32,
    /// Creation time, ns since the epoch.
    pub created_ns: i64,
    /// Order of arrival.
    pub sequence: u64,
    /// How it came in.
    pub form: Form,
    /// Whether it is the driver or first task.
    pub originator: bool,
    /// Who may preempt whom.
    pub preemption: Preemption,
    /// What was outstanding of it was withdrawn.
    pub withdrawn: bool,
    /// What predicates said of it since it was told last, each with the number of nodes; only for
    /// events.
    pub reasons: BTreeMap<String, u32>,
    /// When it was told last that predicates refused it, ns since the epoch.
    pub refusal_told_ns: Option<i64>,
    /// It did not fit its queues when it was tried last.
    pub over_quota: bool,
    /// It did not fit what its user and group had left when it was tried last.
    pub over_user_quota: bool,
    /// The RM was told that more machines would help it: once in its life (3.8).
    pub signalled: bool,
    /// Tried at least once with enough room by its user's limits (3.3 step 4).
    pub attempted: bool,
    /// When it was tried last, nobody said of some nodes whether they would do: more machines need
    /// not help it.
    pub unanswered: bool,
    /// See [`AskSpec::execution_timeout_ms`].
    pub execution_timeout_ms: Option<NonZeroU64>,
    /// The task group it is a member of.
    pub task_group: Option<TaskGroup>,
    /// As sent.
    pub tags: Option<Tags>,
    /// Allocations made from it that live.
    pub live: SmallVec<[AllocationId; 1]>,
    /// Placements of it that wait for their predicate.
    pub unsettled: SmallVec<[AllocationId; 1]>,
    /// What predicates have said of it so far.
    pub standing: Standing,
    /// The next number to try in `<key>#n`.
    pub next_uuid: u32,
    /// How often all nodes refused it in a row when nothing but time had passed; decides when it
    /// is tried again.
    pub refusals: u32,
    /// Number of its last refusal, so that an earlier deadline is known to be stale.
    pub retry: u32,
    /// It is tried because time has passed, not because something changed.
    pub retried_by_time: bool,
    shape: Arc<Shape>,
    class: Option<ClassId>,
}

/// What predicates have said of an ask since its last allocation.
#[derive(Debug, Default)]
pub enum Standing {
    /// Nothing that still counts.
    #[default]
    Fresh,
    /// Some nodes refused it; the next are asked.
    Trying(Box<Try>),
    /// Every node with room refused it, or the one it names did: it waits.
    Resting,
}

impl Ask {
    /// What one allocation of it takes.
    pub fn resources(&self) -> &Resources {
        &self.shape.resources
    }

    /// Higher is more important.
    pub fn priority(&self) -> i32 {
        self.shape.priority
    }

    /// The only node that may be used.
    pub fn required_node(&self) -> Option<&Arc<str>> {
        self.shape.required_node.as_ref()
    }

    /// Whether it was tried, and more machines may be what it lacks.
    fn lacks_machines(&self) -> bool {
        self.attempted && !self.unanswered
    }

    /// See [`Standing::Resting`].
    pub fn is_resting(&self) -> bool {
        matches!(self.standing, Standing::Resting)
    }

    /// Its next allocation begins as if no predicate had ever refused it.
    fn forget_refusals(&mut self) {
        self.refusals = 0;
        self.reasons.clear();
        self.unanswered = false;
        self.standing = Standing::Fresh;
    }
}

impl ClassId {
    /// Ids for tests of rules that only pass them on.
    #[cfg(test)]
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..).map(Self)
    }
}

#[derive(Debug)]
struct Class {
    shape: Arc<Shape>,
    members: BTreeMap<(i64, u64), AskSlot>,
    key: AskKey,
    /// Allocations outstanding over all members.
    outstanding: u64,
    /// Members of which nobody was told that more machines would help.
    unsignalled: usize,
}

/// All asks of an application. See the module.
#[derive(Debug, Default)]
pub struct Asks {
    places: Vec<Option<Ask>>,
    free_places: Vec<u32>,
    by_key: FxHashMap<Arc<str>, AskSlot>,
    classes: Vec<Option<Class>>,
    free_classes: Vec<u32>,
    by_shape: FxHashMap<Arc<Shape>, ClassId>,
    order: OrderedTree<AskKey, ClassId, WaitSet>,
    pending: Resources,
}

impl Asks {
    /// No asks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Resource × repeat over all asks.
    pub fn pending(&self) -> &Resources {
        &self.pending
    }

    /// The highest priority of what is pending, [`MIN_PRIORITY`] if nothing is.
    pub fn priority(&self) -> i32 {
        self.order.iter().next().map_or(MIN_PRIORITY, |(key, _, _)| key.priority())
    }

    /// The bound over all classes.
    pub fn waits(&self) -> WaitSet {
        self.order.bound().cloned().unwrap_or_default()
    }

    /// Looks an ask up by the RM's key.
    pub fn slot_of(&self, key: &str) -> Option<AskSlot> {
        self.by_key.get(key).copied()
    }

    /// An ask by its place. The place must have come from this application and still be in use.
    pub fn ask(&self, slot: AskSlot) -> &Ask {
        self.places[slot.0 as usize].as_ref().expect("an ask's slot is used while the ask lives")
    }

    /// As [`Self::ask`], to change what no order depends on.
    pub fn ask_mut(&mut self, slot: AskSlot) -> &mut Ask {
        self.places[slot.0 as usize].as_mut().expect("an ask's slot is used while the ask lives")
    }

    /// Every ask, in order of its place.
    pub fn iter(&self) -> impl Iterator<Item = &Ask> {
        self.places.iter().flatten()
    }

    /// Number of asks, satisfied ones included.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there is no ask.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The first class in order that may be able to use an offer, with its first member.
    pub fn first(&self, view: &View<'_>) -> Option<(ClassId, AskSlot)> {
        let (_, class, _) = self.order.first(|waits| waits.may(view))?;
        Some((*class, self.first_member(*class)))
    }

    /// The shape of a class that is in use.
    pub fn shape(&self, class: ClassId) -> &Shape {
        &self.class(class).shape
    }

    /// The class of an ask with something outstanding.
    pub fn class_of(&self, slot: AskSlot) -> Option<ClassId> {
        self.ask(slot).class
    }

    /// Records what became of a class that was tried in vain, or that it must be tried.
    pub fn set_waits(&mut self, class: ClassId, waits: WaitSet) {
        let key = self.class(class).key;
        self.order.set_bound(&key, waits);
    }

    /// Makes every class due that wants `node` and no other; says whether there is one.
    pub fn wake_named(&mut self, node: &str) -> bool {
        self.wake(|shape, _| shape.required_node.as_deref() == Some(node))
    }

    /// As [`Self::wake_named`] when what came back to the node was held for a placement that was
    /// never settled: whoever was refused there had that room in hand.
    pub fn wake_named_by_return(&mut self, node: &str) -> bool {
        self.wake(|shape, first| {
            shape.required_node.as_deref() == Some(node) && !first.is_resting()
        })
    }

    /// Makes every class due whose ask predicates refused and `is_meant`, and forgets who refused.
    /// Says whether there is one.
    pub fn wake_refused(&mut self, is_meant: impl Fn(&Ask) -> bool) -> bool {
        for ask in self.places.iter_mut().flatten() {
            if matches!(ask.standing, Standing::Trying(_)) && is_meant(ask) {
                ask.standing = Standing::Fresh;
            }
        }
        self.wake(|_, first| first.is_resting() && is_meant(first))
    }

    /// Whether predicates have refused any ask, on some nodes or on all.
    pub fn any_refused(&self) -> bool {
        self.iter().any(|ask| !matches!(ask.standing, Standing::Fresh))
    }

    fn wake(&mut self, is_meant: impl Fn(&Shape, &Ask) -> bool) -> bool {
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

    /// Adds an ask, or replaces what is outstanding of the one with this key (2.3, D7). Returns
    /// the change of pending.
    ///
    /// `sequence` is the order of arrival; a replaced ask keeps its creation time where the new
    /// one names none.
    pub fn put(&mut self, spec: AskSpec, now_ns: i64, sequence: u64) -> (AskSlot, Resources) {
        let before = self.pending.clone();
        let shape = Arc::new(Shape {
            resources: spec.resources,
            priority: spec.priority,
            required_node: spec.required_node,
            single: 0,
        });
        let slot = if let Some(slot) = self.slot_of(&spec.key) {
            self.leave_class(slot);
            let ask = self.ask_mut(slot);
            ask.shape = shape;
            ask.repeat = spec.repeat;
            ask.created_ns = spec.created_ns.unwrap_or(ask.created_ns);
            ask.sequence = sequence;
            ask.originator = spec.originator;
            ask.preemption = spec.preemption;
            ask.task_group = spec.task_group;
            ask.form = spec.form;
            ask.execution_timeout_ms = spec.execution_timeout_ms;
            ask.tags = spec.tags;
            ask.withdrawn = false;
            ask.forget_refusals();
            slot
        } else {
            self.add(Ask {
                key: spec.key,
                repeat: spec.repeat,
                created_ns: spec.created_ns.unwrap_or(now_ns),
                sequence,
                form: spec.form,
                originator: spec.originator,
                preemption: spec.preemption,
                task_group: spec.task_group,
                withdrawn: false,
                reasons: BTreeMap::new(),
                refusal_told_ns: None,
                over_quota: false,
                over_user_quota: false,
                signalled: false,
                attempted: false,
                unanswered: false,
                execution_timeout_ms: spec.execution_timeout_ms,
                tags: spec.tags,
                live: SmallVec::new(),
                unsettled: SmallVec::new(),
                standing: Standing::Fresh,
                next_uuid: 1,
                refusals: 0,
                retry: 0,
                retried_by_time: false,
                shape,
                class: None,
            })
        };
        self.join_class(slot);
        (slot, self.pending.minus(&before).pruned())
    }

    /// Changes only the resources of an ask (2.5). Returns the change of pending.
    pub fn resize(&mut self, slot: AskSlot, resources: Resources) -> Resources {
        let before = self.pending.clone();
        self.leave_class(slot);
        let ask = self.ask_mut(slot);
        ask.shape = Arc::new(Shape { resources, single: 0, ..(*ask.shape).clone() });
        ask.forget_refusals();
        self.join_class(slot);
        self.pending.minus(&before).pruned()
    }

    /// One outstanding instance of the ask was placed.
    pub fn take_one(&mut self, slot: AskSlot) {
        self.ask_mut(slot).refusals = 0;
        self.take(slot);
    }

    /// One outstanding instance of the ask has a node and waits for its predicate.
    pub fn hold_one(&mut self, slot: AskSlot, placement: AllocationId) {
        self.ask_mut(slot).unsettled.push(placement);
        self.take(slot);
    }

    /// The predicate passed: the placement is an allocation.
    pub fn settle_one(&mut self, slot: AskSlot, placement: AllocationId) {
        let ask = self.ask_mut(slot);
        ask.unsettled.retain(|unsettled| *unsettled != placement);
        ask.live.push(placement);
        ask.forget_refusals();
    }

    /// The placement was taken back: its instance is outstanding again. Returns the change of
    /// pending.
    pub fn take_back(&mut self, slot: AskSlot, placement: AllocationId) -> Resources {
        self.ask_mut(slot).unsettled.retain(|unsettled| *unsettled != placement);
        self.give_back(slot)
    }

    fn take(&mut self, slot: AskSlot) {
        let ask = self.places[slot.0 as usize].as_mut().expect("the caller's ask lives");
        self.pending.subtract(&ask.shape.resources);
        self.pending.prune();
        debug_assert!(ask.repeat > 0, "only a pending ask is placed");
        ask.repeat -= 1;
        if let Some(class) = ask.class {
            let class = self.classes[class.0 as usize].as_mut();
            class.expect("an ask's class is in use").outstanding -= 1;
        }
        if self.ask(slot).repeat == 0 {
            self.forget_member(slot, &Resources::new());
        }
    }

    /// One instance is outstanding again. Returns the change of pending.
    pub fn give_back(&mut self, slot: AskSlot) -> Resources {
        let before = self.pending.clone();
        self.leave_class(slot);
        let ask = self.ask_mut(slot);
        ask.repeat += 1;
        ask.withdrawn = false;
        self.join_class(slot);
        self.pending.minus(&before).pruned()
    }

    /// Drops what is outstanding of an ask. Returns what was pending of it. The entry stays while
    /// allocations made from it live.
    pub fn withdraw(&mut self, slot: AskSlot) -> Resources {
        let before = self.pending.clone();
        self.leave_class(slot);
        let ask = self.ask_mut(slot);
        ask.withdrawn |= ask.repeat > 0;
        ask.repeat = 0;
        self.drop_if_done(slot);
        before.minus(&self.pending).pruned()
    }

    /// Forgets an ask that has nothing outstanding, nothing that waits for its predicate, and no
    /// live allocation.
    pub fn drop_if_done(&mut self, slot: AskSlot) {
        let Some(Some(ask)) = self.places.get(slot.0 as usize) else { return };
        if ask.repeat == 0 && ask.live.is_empty() && ask.unsettled.is_empty() {
            self.by_key.remove(&ask.key);
            self.places[slot.0 as usize] = None;
            self.free_places.push(slot.0);
        }
    }

    /// Gives an ask that every node refused a class of its own, in the state given. Whoever calls
    /// this says whether it rests.
    pub fn single_out(&mut self, slot: AskSlot, waits: WaitSet) {
        self.leave_class(slot);
        let ask = self.ask_mut(slot);
        let by_time = std::mem::take(&mut ask.retried_by_time);
        ask.refusals = if by_time { ask.refusals.saturating_add(1) } else { 1 };
        ask.retry = ask.retry.wrapping_add(1);
        let single = ask.sequence;
        ask.shape = Arc::new(Shape { single, ..(*ask.shape).clone() });
        let class = self.join_class(slot);
        if let Some(class) = class {
            self.set_waits(class, waits);
        }
    }

    /// Records an allocation that has no outstanding ask (recovered or placed by the RM).
    pub fn put_allocated(&mut self, spec: AskSpec, now_ns: i64, sequence: u64) -> AskSlot {
        self.put(AskSpec { repeat: 0, ..spec }, now_ns, sequence).0
    }

    /// The keys of all asks of the form with something outstanding or waiting for its predicate, in
    /// order of arrival.
    pub fn pending_keys(&self, form: Option<Form>) -> Vec<Arc<str>> {
        let mut pending: Vec<&Ask> = self
            .iter()
            .filter(|ask| ask.repeat > 0 || !ask.unsettled.is_empty())
            .filter(|ask| form.is_none_or(|form| ask.form == form))
            .collect();
        pending.sort_by_key(|ask| ask.sequence);
        pending.into_iter().map(|ask| Arc::clone(&ask.key)).collect()
    }

    /// Every class in order, with its shape, its first member's slot and its bound: for a full
    /// search.
    pub fn classes(&self) -> impl Iterator<Item = (&Shape, AskSlot, &WaitSet)> {
        self.order
            .iter()
            .map(|(_, class, waits)| (self.shape(*class), self.first_member(*class), waits))
    }

    fn class(&self, class: ClassId) -> &Class {
        self.classes[class.0 as usize]
            .as_ref()
            .expect("a class's slot is used while it has members")
    }

    fn first_member(&self, class: ClassId) -> AskSlot {
        *self.class(class).members.values().next().expect("a class has at least one member")
    }

    fn add(&mut self, ask: Ask) -> AskSlot {
        let key = Arc::clone(&ask.key);
        let slot = if let Some(slot) = self.free_places.pop() {
            self.places[slot as usize] = Some(ask);
            AskSlot(slot)
        } else {
            self.places.push(Some(ask));
            AskSlot(u32::try_from(self.places.len() - 1).expect("an application's asks fit u32"))
        };
        self.by_key.insert(key, slot);
        slot
    }

    /// Puts an ask with something outstanding into its class, at the end of the order if it is new.
    fn join_class(&mut self, slot: AskSlot) -> Option<ClassId> {
        let ask = self.ask(slot);
        if ask.repeat == 0 {
            return None;
        }
        let member = (ask.created_ns, ask.sequence);
        let (outstanding, unsignalled) = (u64::from(ask.repeat), usize::from(!ask.signalled));
        let shape = Arc::clone(&ask.shape);
        let key = AskKey::new(shape.priority, member.0, member.1);
        self.pending.add(&shape.resources.times(i64::from(ask.repeat)));
        self.pending.prune();
        let class = if let Some(class) = self.by_shape.get(&shape) {
            let class = *class;
            let entry = self.classes[class.0 as usize].as_mut().expect("a named class is in use");
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
            let shape = Arc::clone(&entry.shape);
            self.ask_mut(slot).shape = shape;
            class
        } else {
            let entry = Class {
                shape: Arc::clone(&shape),
                members: BTreeMap::from([(member, slot)]),
                key,
                outstanding,
                unsignalled,
            };
            let class = if let Some(class) = self.free_classes.pop() {
                self.classes[class as usize] = Some(entry);
                ClassId(class)
            } else {
                self.classes.push(Some(entry));
                ClassId(u32::try_from(self.classes.len() - 1).expect("classes fit u32"))
            };
            self.by_shape.insert(shape, class);
            self.order.insert(key, class, WaitSet::Due);
            class
        };
        self.ask_mut(slot).class = Some(class);
        Some(class)
    }

    /// Takes an ask out of its class and its outstanding amount out of pending.
    fn leave_class(&mut self, slot: AskSlot) {
        let ask = self.ask(slot);
        if ask.class.is_none() {
            return;
        }
        let outstanding = ask.shape.resources.times(i64::from(ask.repeat));
        self.forget_member(slot, &outstanding);
    }

    fn forget_member(&mut self, slot: AskSlot, outstanding: &Resources) {
        if !outstanding.is_empty() {
            self.pending.subtract(outstanding);
            self.pending.prune();
        }
        let ask = self.places[slot.0 as usize].as_mut().expect("the caller's ask lives");
        let Some(class) = ask.class.take() else { return };
        let was_tried = ask.lacks_machines();
        let member = (ask.created_ns, ask.sequence);
        let entry = self.classes[class.0 as usize].as_mut().expect("an ask's class is in use");
        entry.members.remove(&member);
        entry.outstanding -= u64::from(ask.repeat);
        entry.unsignalled -= usize::from(!ask.signalled);
        if let Some((&(created, sequence), _)) = entry.members.first_key_value() {
            let key = AskKey::new(entry.shape.priority, created, sequence);
            if key != entry.key {
                let old = std::mem::replace(&mut entry.key, key);
                let waits = self.order.get(&old).map(|(_, waits)| waits.clone());
                if was_tried && matches!(waits, Some(WaitSet::Parked(_))) {
                    // It was tried for all of them.
                    let first = self.first_member(class);
                    self.ask_mut(first).attempted = true;
                }
                self.order.rekey(&old, key, waits.unwrap_or(WaitSet::Due));
            }
        } else {
            self.order.remove(&entry.key);
            self.by_shape.remove(&entry.shape);
            self.classes[class.0 as usize] = None;
            self.free_classes.push(class.0);
        }
    }
}

#[cfg(test)]
mod tests;
