//! Members that a declared gang lost to nodes, to preemption or to failures: as many of its asks go
//! before others of its queue until the gang is whole again. For people,
//! `docs/gangs.md#members-that-are-lost`.
//!
//! # Why the application remembers
//! Which groups are owed members depends on placements in flight, which no book of the application
//! counts by group. `owed` is computed again where they may have changed, and only while a member is
//! owed: an application that lost nothing pays one comparison.

use std::sync::Arc;

use monoceros_rules::allocations::{Allocation, Pairing};
use monoceros_rules::applications::native::Departure;
use monoceros_rules::specs::ask::TaskGroup;
use monoceros_rules::values::ids::AllocationId;

use super::Application;
use super::effects::VisitEffects;
use crate::events::{Event, EventKind, Message};
use crate::step::Baton;

impl Application {
    /// Counts a new allocation, if it is of a member of the gang.
    pub(super) fn joined(&mut self, id: AllocationId, baton: &Baton) {
        let Some(native) = self.book.native_mut() else { return };
        let Some(entry) = baton.books.allocations.get(id) else { return };
        if let Some(group) = entry.spec.member_of() {
            native.joined(group, matches!(entry.pairing, Pairing::Took { .. }));
        }
    }

    /// Counts the end of an allocation of a member of this task group.
    pub(super) fn member_left(
        &mut self,
        group: &TaskGroup,
        departure: Departure,
        effects: &mut VisitEffects,
    ) {
        if departure != Departure::NotStarted {
            self.book.member_runs(Some(group));
        }
        let Some(gang) = &mut self.book.gang else { return };
        if gang.member_left(group, departure) {
            effects.lost_member(group);
        }
    }

    /// Counts a held place of this task group that was lost with its node or to preemption.
    pub(super) fn place_lost(&mut self, group: Option<&TaskGroup>, effects: &mut VisitEffects) {
        let (Some(group), Some(gang)) = (group, &mut self.book.gang) else { return };
        if gang.place_lost(group) {
            effects.lost_member(group);
        }
    }

    /// Finds the groups that are owed members. To be called where members came or went, or where their
    /// predicates may be asked.
    pub(super) fn review_lost(&mut self, baton: &Baton) {
        let is_owed = self.book.gang.as_ref().is_some_and(|gang| gang.owes());
        if !is_owed && self.owed.is_empty() {
            return;
        }
        self.owed.clear();
        let Some(gang) = self.book.gang.as_ref().filter(|_| is_owed) else { return };
        let Some(native) = &gang.native else { return };
        let table = &baton.books.allocations;
        let asked = |group: &TaskGroup| {
            let is_it = |entry: &&Allocation| {
                entry.takes().is_none() && entry.spec.member_of() == Some(group)
            };
            let asked = self.book.unsettled.iter().filter_map(|id| table.get(*id)).filter(is_it);
            asked.count() as u64
        };
        let lost = native.groups().iter().filter(|group| group.lost() > 0).map(|group| &group.name);
        let owed = lost.filter(|group| gang.owed(group, asked(group)) > 0);
        self.owed.extend(owed.cloned());
    }

    /// Whether the gang asks for members that it lost, with the priority of the application.
    pub(super) fn lacks_members(&self) -> bool {
        !self.owed.is_empty() && self.book.asks.any_in_priority(&self.owed)
    }

    /// Makes an event for each group that has fewer members than it needs since this visit.
    pub(super) fn report_lost_members(&self, baton: &Baton, effects: &mut VisitEffects) {
        for group in std::mem::take(&mut effects.lost_members) {
            let lacks = self.book.gang.as_ref().and_then(|gang| gang.lacking(&group));
            let Some(lacks) = lacks else { continue };
            effects.happens(baton, |at| {
                let event = Event::about(&self.book, EventKind::GangLacksMembers, at);
                let event = event.referring(&Arc::from(group.as_str()));
                event.with_message(Message::LacksMembers(Box::new(lacks)))
            });
        }
    }
}
