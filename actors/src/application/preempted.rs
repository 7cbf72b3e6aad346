//! Allocations of this application that are preempted: `docs/preemption.md`.
//!
//! # Invariant
//! What is preempted holds what it held until its RM confirms that it is gone, or says that it stays;
//! it counts as *preempting* in every queue of its path exactly as long.

use std::collections::BTreeSet;
use std::sync::Arc;

use monoceros_rules::allocations::{Allocation, Grounds, Leaving};
use monoceros_rules::applications::native::NativeGroup;
use monoceros_rules::decide::preemption::{
    ApplicationFacts, Chosen, GroupFacts, STAYS_FOR, goes_as_one,
};
use monoceros_rules::specs::ask::TaskGroup;
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot};
use monoceros_rules::values::instant::after;

use super::Application;
use super::effects::VisitEffects;
use crate::events::{Event, EventKind, Message, Preempted};
use crate::partition::surveys::Together;
use crate::step::{Baton, Ending, Notice, Released};

/// What of it may be taken.
impl Application {
    /// What of it goes together, where something of it may be taken.
    pub(crate) fn together(&self, baton: &Baton) -> Together {
        let table = &baton.books.allocations;
        let mut short = BTreeSet::new();
        let native = self.book.gang.as_ref().and_then(|gang| gang.native.as_ref());
        for group in native.map(|native| native.groups()).unwrap_or_default() {
            let real: Vec<AllocationId> = self.real_members(group, baton).collect();
            if real.len() <= group.min_members as usize {
                short.extend(real);
            }
        }
        let mut mates = Vec::new();
        if goes_as_one(self.book.tags.as_ref()) {
            mates = self.all_allocations();
            mates.retain(|id| table.get(*id).is_some_and(|it| it.leaving.is_none()));
        }
        Together { mates, short }
    }

    /// What is to be known of this application where something of it may be taken for another.
    /// Without a winner it is for a queue that is above its maximum.
    pub(crate) fn losing(
        &self,
        queue: usize,
        winner: Option<ApplicationSlot>,
        baton: &Baton,
    ) -> ApplicationFacts {
        let (evictions, now_ns) = (&baton.books.evictions, baton.now_ns);
        let bounds = &self.leaf_settings(baton).eviction;
        let native = self.book.gang.as_ref().and_then(|gang| gang.native.as_ref());
        let groups = native.map(|native| {
            let groups = native.groups().iter();
            groups.map(|group| GroupFacts {
                name: group.name.clone(),
                min_members: group.min_members,
            })
        });
        ApplicationFacts {
            allowance: evictions.allowance(self.slot, bounds, now_ns),
            bound_ends_ns: evictions.bound_ends_ns(self.slot, winner, bounds, now_ns),
            is_barred: winner.is_some_and(|winner| evictions.is_barred(winner, self.slot, now_ns)),
            goes_as_one: goes_as_one(self.book.tags.as_ref()),
            groups: groups.into_iter().flatten().collect(),
            ..ApplicationFacts::of(self.slot, queue)
        }
    }
}

/// Being preempted.
impl Application {
    /// These allocations are preempted. Places that are held end at once: the RM does not know of
    /// them.
    pub(super) fn preempted(
        &mut self,
        ids: &[AllocationId],
        (grounds, chosen): (&Arc<Grounds>, &[Chosen]),
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let mut lost_holds = false;
        let short = self.left_short_by(ids, baton);
        for id in ids {
            let Some(entry) = baton.books.allocations.get_mut(*id) else { continue };
            if entry.leaving.is_some() {
                continue;
            }
            if entry.is_hold() {
                lost_holds = true;
                self.end_hold(*id, EventKind::AllocationPreempted, None, baton, effects);
                continue;
            }
            let circumstances = entry.change();
            circumstances.leaving = Some(Leaving::Preempted);
            circumstances.preempted_for = Some(Arc::clone(grounds));
            effects.delta.preempting.add(entry.resources());
            effects.touched = true;
            let spec = Arc::clone(&entry.spec);
            let is_placeholder = entry.spec.placeholder;
            let leaves_short = entry.spec.member_of().is_some_and(|group| short.contains(group));
            let why = Preempted { grounds: Arc::clone(grounds), leaves_short };
            let released = Released::of(&self.book.id, entry, Ending::Preempted, why.to_string());
            tracing::debug!(placement = %id, application = %self.book.id, allocation = %entry.uuid,
                %why, "preempted");
            baton.effects.notify(Notice::Released(Box::new(released)));
            let chosen = chosen.iter().find(|chosen| chosen.victim == *id);
            baton.keep_eviction(self.decided_for(), *id, chosen, grounds);
            effects.happens(baton, |at| {
                let event = Event::of(EventKind::VictimChosen, &spec.key, at);
                let event = event.referring(&self.book.id).of_pod(spec.pod());
                event.amount(&spec.resources).with_message(Message::Preempted(why))
            });
            if is_placeholder && let Some(entry) = baton.books.allocations.get(*id) {
                self.book.take_free(*id, entry);
            }
        }
        if lost_holds {
            self.holds_lost(baton, effects);
        }
    }

    /// The groups of its gang that have fewer members than they need without these allocations.
    fn left_short_by(&self, ids: &[AllocationId], baton: &Baton) -> BTreeSet<TaskGroup> {
        let table = &baton.books.allocations;
        let native = self.book.gang.as_ref().and_then(|gang| gang.native.as_ref());
        let groups = native.map(|native| native.groups()).unwrap_or_default().iter();
        let lost = |group: &&NativeGroup| {
            let of_group = |entry: &Allocation| entry.spec.member_of() == Some(&group.name);
            ids.iter().any(|id| table.get(*id).is_some_and(of_group))
        };
        let is_short = |group: &&NativeGroup| {
            let stay = self.real_members(group, baton).filter(|id| !ids.contains(id));
            stay.count() < group.min_members as usize
        };
        groups.filter(lost).filter(is_short).map(|group| Arc::clone(&group.name)).collect()
    }

    /// The members of a group that run and do not leave.
    fn real_members<'a>(
        &'a self,
        group: &'a NativeGroup,
        baton: &'a Baton,
    ) -> impl Iterator<Item = AllocationId> + 'a {
        self.book.each_allocation().filter(|id| {
            baton
                .books
                .allocations
                .get(*id)
                .is_some_and(|it| it.leaving.is_none() && it.spec.member_of() == Some(&group.name))
        })
    }

    /// Its RM says that an allocation which is preempted stays: it is not any more, nor again for a
    /// while, and nobody gets its room.
    pub(super) fn stay(&mut self, id: AllocationId, baton: &mut Baton, effects: &mut VisitEffects) {
        let stays_until_ns = after(baton.now_ns, STAYS_FOR);
        let entry = baton.books.allocations.get_mut(id);
        let Some(entry) = entry.filter(|it| it.leaving == Some(Leaving::Preempted)) else { return };
        let circumstances = entry.change();
        (circumstances.leaving, circumstances.preempted_for) = (None, None);
        circumstances.stays_until_ns = stays_until_ns;
        effects.delta.preempting.subtract(entry.resources());
        effects.touched = true;
        tracing::debug!(placement = %id, application = %self.book.id, allocation = %entry.uuid,
            "preempted, and stays");
        if entry.spec.placeholder {
            self.placeholder_settled(id, baton);
        }
        baton.victim_stays(id);
    }

    /// A preempted allocation is gone.
    pub(super) fn note_preempted(
        id: AllocationId,
        entry: &Allocation,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        if entry.leaving == Some(Leaving::Preempted) {
            effects.delta.preempting.subtract(entry.resources());
            baton.victim_left(id, entry.node);
        }
    }

    /// Another was placed, or not, for which something of this application was taken, or was to be:
    /// whatever waited for that is looked at again.
    pub(super) fn nomination_ended(&mut self, baton: &Baton, effects: &mut VisitEffects) {
        self.book.asks.wake_all(&baton.books.nodes);
        (effects.touched, effects.loosens) = (true, true);
    }
}
