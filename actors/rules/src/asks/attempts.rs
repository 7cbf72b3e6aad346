//! The extent of a pass: the asks that were tried, and the ask at which the pass ended because too
//! many before it had found no node.
//!
//! A pass tries asks in their order, and a class is tried once for all of its members. So the
//! number of members that count as tried depends on where the pass ended. Without back-off the pass
//! covers every member of every class; with back-off it covers members up to the ask at which it
//! ended. Each ask counts as one, however many allocations of it are outstanding.

use rustc_hash::FxHashMap;

use super::class::Class;
use super::table::Asks;
use crate::order::keys::AskKey;
use crate::specs::ask::Shape;
use crate::values::ids::{AskSlot, ClassId};
use crate::values::resources::Resources;
use crate::waiting::{View, WaitSet};

/// Requests of one class that were tried and are pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The class of the requests.
    pub class: ClassId,
    /// The amount of each allocation.
    pub resources: Resources,
    /// The number of outstanding allocations.
    pub count: u64,
}

/// The asks of one bundle, by group, each with its number of instances.
pub type Bundled = Vec<Vec<(AskSlot, u32)>>;

/// The first requests of a class, for each of which a scale-up signal is to be sent unless one was
/// sent before. They are processed in parts, so that other work may be done in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToSignal {
    class: ClassId,
    /// The amount of each allocation. Between two parts the class may be removed, and its number
    /// used for another class; then the amount differs.
    resources: Resources,
    /// The number of allocations after `behind` that are left.
    count: u64,
    behind: Option<AskKey>,
}

impl ToSignal {
    /// Returns the first requests of a class, with this number of outstanding allocations of this
    /// amount.
    pub fn first(class: ClassId, resources: Resources, count: u64) -> Self {
        Self { class, resources, count, behind: None }
    }

    /// Whether all parts are processed.
    pub fn is_over(&self) -> bool {
        self.count == 0
    }
}

/// The result of processing one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signalled {
    /// The requests for which a signal is to be sent.
    pub due: Vec<AskSlot>,
    /// The number of requests that were examined, including those for which a signal was sent
    /// before.
    pub looked_at: usize,
}

impl Asks {
    /// Returns the ask at which a pass ends that has reached `next`, or has tried all asks. That is
    /// the ask with which `limit` asks before `next` have found no node, if another one is pending
    /// after it. `limit` is above 0.
    ///
    /// The counted asks before `next` fit the headroom, were tried in this pass or before, and had
    /// no node. Asks are not counted if they require a node, if they `waits_otherwise`, or if they
    /// could not be started and back off.
    pub fn last_of_pass(
        &self,
        limit: u64,
        view: &View<'_>,
        next: Option<ClassId>,
        waits_otherwise: impl Fn(&Shape) -> bool,
    ) -> Option<AskKey> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        if self.len() <= limit {
            return None;
        }
        let end = next.map(|class| self.class(class).key);
        let is_before = |key: &AskKey| end.is_none_or(|end| *key < end);
        let roomless = |class: &&Class| {
            let wanted = class.shape.resources();
            class.shape.required_node().is_none()
                && view.headroom.allows(wanted)
                && view.nodes.is_none_or(|nodes| nodes.is_free_in_all(wanted))
                && !waits_otherwise(&class.shape)
        };
        let is_tried = |class: &ClassId| !self.class_backs_off(*class);
        let before = self.order.iter().take_while(|(key, ..)| is_before(key));
        let before = before.map(|(_, class, _)| *class).filter(is_tried);
        let classes = before.map(|class| self.class(class)).filter(roomless);
        let classes: Vec<&Class> = classes.collect();
        if classes.iter().map(|class| class.members.len()).sum::<usize>() < limit {
            return None;
        }
        // Members of one class may come before and after members of another.
        let firsts =
            classes.iter().flat_map(|class| class.keys().take(limit).take_while(is_before));
        let mut firsts: Vec<AskKey> = firsts.collect();
        if firsts.len() < limit {
            return None;
        }
        let (_, last, _) = firsts.select_nth_unstable(limit - 1);
        let last = *last;
        let is_behind = |class: &ClassId| last < self.class(*class).last_key();
        let is_followed = next.is_some()
            || self.order.iter().any(|(_, class, _)| is_tried(class) && is_behind(class));
        is_followed.then_some(last)
    }

    /// Returns the pending asks that were tried, class by class in order. In a class that was tried
    /// without result all members count, since the first was tried for all; if the last pass ended
    /// at `reached`, only those up to it count. In a class that is due, only members that were
    /// tried before count.
    pub fn tried(&self, reached: Option<AskKey>) -> Vec<Waiting> {
        let mut tried = Vec::new();
        for (_, id, waits) in self.order.iter() {
            let class = self.class(*id);
            let is_whole = self.is_tried_as_one(class, waits)
                && reached.is_none_or(|reached| class.last_key() <= reached);
            let count = if is_whole {
                class.outstanding
            } else {
                let members = self.tried_members(class, waits, None, reached);
                members.map(|(_, slot)| u64::from(self.ask(slot).outstanding)).sum()
            };
            if count > 0 {
                let resources = class.shape.resources().clone();
                tried.push(Waiting { class: *id, resources, count });
            }
        }
        tried
    }

    /// Returns the asks of a bundle that were tried together and are pending, class by class. Empty
    /// if one of them was not tried with the others: then the bundle has changed, and is still to
    /// be tried.
    pub fn tried_together(&self, bundled: &Bundled) -> Vec<Waiting> {
        let mut tried: Vec<Waiting> = Vec::new();
        let mut places = FxHashMap::default();
        for (slot, count) in bundled.iter().flatten() {
            let ask = self.ask(*slot);
            let Some(class) = ask.class.filter(|_| ask.lacks_machines()) else { return Vec::new() };
            let place = *places.entry(class).or_insert_with(|| {
                let resources = self.class(class).shape.resources().clone();
                tried.push(Waiting { class, resources, count: 0 });
                tried.len() - 1
            });
            tried[place].count += u64::from(*count);
        }
        tried
    }

    /// Returns the members of a class, after an ask if one is given, that have its first `count`
    /// tried outstanding allocations, each with its number of these. `reached` as in
    /// [`Self::tried`]. Empty for a class that no longer exists.
    pub fn tried_after(
        &self,
        class: ClassId,
        after: Option<&AskKey>,
        count: u64,
        reached: Option<AskKey>,
    ) -> impl Iterator<Item = (AskKey, AskSlot, u64)> + use<'_> {
        let class = self.classes.find(class);
        let entry = class.and_then(|class| Some((class, self.order.get(&class.key)?.1)));
        let members = entry.map(|(class, waits)| self.tried_members(class, waits, after, reached));
        members.into_iter().flatten().scan(count, |left, (key, slot)| {
            let taken = (*left).min(u64::from(self.ask(slot).outstanding));
            *left -= taken;
            (taken > 0).then_some((key, slot, taken))
        })
    }

    /// Marks requests for which a signal is to be sent: once in the life of a request, and never
    /// for one that requires a node. Examines at most `most` requests, whether a signal was sent
    /// for them or not; the others stay in `to_signal`.
    pub fn signal(
        &mut self,
        to_signal: &mut ToSignal,
        reached: Option<AskKey>,
        most: usize,
    ) -> Signalled {
        let ToSignal { class, ref resources, count, behind } = *to_signal;
        to_signal.count = 0;
        let is_unsignalled = |class: &Class| {
            class.unsignalled > 0
                && class.shape.required_node().is_none()
                && class.shape.resources() == resources
        };
        let mut signalled = Signalled::default();
        let Some(class_here) = self.classes.find(class).filter(|it| is_unsignalled(it)) else {
            return signalled;
        };
        let n_unsignalled = class_here.unsignalled;
        let Signalled { due, looked_at } = &mut signalled;
        let mut left = count;
        for (key, slot, taken) in self.tried_after(class, behind.as_ref(), count, reached) {
            if due.len() == n_unsignalled {
                break;
            }
            if *looked_at == most {
                to_signal.count = left;
                break;
            }
            *looked_at += 1;
            left -= taken;
            to_signal.behind = Some(key);
            if !self.ask(slot).signalled {
                due.push(slot);
            }
        }
        for slot in &signalled.due {
            self.ask_mut(*slot).signalled = true;
        }
        let n_told = signalled.due.len();
        self.classes[class].unsignalled -= n_told;
        self.n_unsignalled -= n_told;
        signalled
    }

    /// Whether an outstanding request that does not require a node has no scale-up signal yet.
    pub fn any_unsignalled(&self) -> bool {
        self.n_unsignalled > 0
    }

    /// Whether the result of its first member holds for the whole class.
    fn is_tried_as_one(&self, class: &Class, waits: &WaitSet) -> bool {
        let first = class.members.values().next();
        let is_tried = first.is_some_and(|slot| self.ask(*slot).lacks_machines());
        is_tried && matches!(waits, WaitSet::Parked(_))
    }

    fn tried_members<'a>(
        &'a self,
        class: &'a Class,
        waits: &WaitSet,
        after: Option<&AskKey>,
        reached: Option<AskKey>,
    ) -> impl Iterator<Item = (AskKey, AskSlot)> + use<'a> {
        let as_one = self.is_tried_as_one(class, waits);
        class.after(after).filter(move |(key, slot)| {
            let is_reached = reached.is_none_or(|reached| *key <= reached);
            (as_one && is_reached) || self.ask(*slot).lacks_machines()
        })
    }
}
