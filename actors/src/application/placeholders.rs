//! The placeholders of an application, from their placement to their end: their deadline, the
//! requests to the RM to end them, and the counts of each task group. How a member takes the place
//! of one is in [`super::gang`]. For people, `docs/gangs.md`.
//!
//! # Invariants
//! * The RM is asked once to end a placeholder.
//! * While a placeholder is placed that the RM was not asked to end, a deadline is set, unless the
//!   application fails.
//! * Code that leaves a task group with fewer placeholders checks whether its members still have
//!   any to wait for ([`placeholders_fewer`]).
//!
//! [`placeholders_fewer`]: monoceros_rules::applications::application::Application::placeholders_fewer

use std::sync::Arc;

use monoceros_rules::allocations::{Allocation, Leaving};
use monoceros_rules::applications::application::{GangStyle, PLACEHOLDER_TIMEOUT as TIMEOUT_TEXT};
use monoceros_rules::applications::application_state::{ApplicationEvent, ApplicationState};
use monoceros_rules::applications::gang::PlaceholderEnd;
use monoceros_rules::values::ids::AllocationId;

use super::Application;
use super::effects::VisitEffects;
use super::predicates::GiveUp;
use crate::events::EventKind;
use crate::step::{Baton, Ending, GangOp, Notice, Op, Released};

impl Application {
    /// Notes that a placeholder is an allocation from now on: a member may take its place. The time
    /// of all placeholders begins with the first.
    pub(super) fn placeholder_settled(&mut self, id: AllocationId, baton: &mut Baton) {
        let Some(entry) = baton.books.allocations.known(id) else { return };
        let Some(group) = entry.spec.place_in() else {
            return debug_assert!(false, "a placeholder belongs to a task group");
        };
        let group = Arc::clone(group);
        self.pairs.put_free(self.book.gang_mut(), &group, (id, entry));
        self.search_pairs(&group);
        self.arm_placeholders(baton);
    }

    /// Sets the deadline of the placeholders, if they need one and have none.
    pub(super) fn arm_placeholders(&mut self, baton: &mut Baton) {
        let Some(wait) = self.book.placeholders_wait(baton.now_ns) else { return };
        let number = baton.effects.arm(wait, self.alarm(Op::Gang(GangOp::PlaceholdersOver)));
        self.book.gang_mut().timer = Some(number);
    }

    /// Ends the placeholders, which have waited for as long as they may. A declared gang only loses
    /// its holds, and an application that runs already goes on without placeholders. Any other
    /// fails, or is scheduled as an ordinary application: its gang style decides which.
    pub(super) fn placeholders_over(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let Some(gang) = &mut self.book.gang else { return };
        gang.timer = None;
        if let Some(native) = &mut gang.native {
            native.is_over = true;
            return self.end_holds(None, baton, effects);
        }
        if matches!(self.book.state(), ApplicationState::Running | ApplicationState::Completing) {
            return self.end_placeholders("placeholder timeout", baton, effects);
        }
        let event = match self.book.gang_style {
            GangStyle::Soft => ApplicationEvent::Resume,
            GangStyle::Hard => ApplicationEvent::Fail,
        };
        self.book.fire_because(event, TIMEOUT_TEXT, baton.now_ns, &mut self.changes);
        effects.delta.running += self.tell_changes(baton);
        self.end_placeholders("placeholder timeout", baton, effects);
        let in_flight = self.book.gang_style == GangStyle::Soft;
        self.give_up_asks(in_flight, "placeholder timeout", baton, effects);
        effects.left.asks = true;
        effects.touched = true;
    }

    /// Asks the RM to end every placeholder that it was not asked to end before.
    pub(super) fn end_placeholders(
        &mut self,
        why: &'static str,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        for id in self.book.all_allocations() {
            if baton.books.allocations.get(id).is_some_and(|entry| entry.spec.placeholder) {
                self.placeholder_overdue(id, why, baton, effects);
            }
        }
    }

    /// Asks the RM to end a placeholder, unless it was asked before. A member that waits for the
    /// predicate of its place is pending again.
    pub(super) fn placeholder_overdue(
        &mut self,
        id: AllocationId,
        why: &'static str,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(entry) = baton.books.allocations.get(id) else { return };
        if entry.leaving.is_some() {
            return;
        }
        if entry.is_hold() {
            if entry.gives_way_to().is_none() {
                self.end_hold(id, EventKind::AllocationTimedOut, None, baton, effects);
            }
            return;
        }
        if let Some(real) = entry.gives_way_to() {
            self.unpair(real, None, baton, effects);
        }
        self.end_placeholder(id, why, baton);
    }

    /// Asks the RM to end a placeholder whose time is over or that is of no use, unless it was
    /// asked already.
    pub(super) fn end_placeholder(
        &mut self,
        id: AllocationId,
        why: &'static str,
        baton: &mut Baton,
    ) {
        let Some(entry) = baton.books.allocations.known_mut(id) else { return };
        if entry.leaving.is_some() {
            return;
        }
        entry.change().leaving = Some(Leaving::Released);
        let released = Released::of(&self.book.id, entry, Ending::Timeout, why);
        self.book.take_free(id, entry);
        baton.effects.notify(Notice::Released(Box::new(released)));
    }

    /// Withdraws every pending ask, and notifies the RM of the reason. If `keeps_pairs`, members
    /// that are on their way go on.
    pub(super) fn give_up_asks(
        &mut self,
        keeps_pairs: bool,
        why: &'static str,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        for key in self.book.asks.pending_keys(None) {
            let Some(slot) = self.book.asks.slot_of(&key) else { continue };
            if keeps_pairs {
                self.give_up_ask(slot, GiveUp::Asked, baton, effects);
            } else {
                self.give_up_ask(slot, GiveUp::All, baton, effects);
            }
            let form = self.book.asks.ask(slot).form;
            if self.withdraw_slot(slot, EventKind::AskTimedOut, baton, effects) {
                baton.notify_ask_released(&self.book.id, (form, key), Ending::Timeout, why);
            }
        }
    }

    /// Counts the end of a placeholder, or of a hold, that every holder has released. Without an
    /// `end` its ask is pending again, perhaps not as a placeholder.
    pub(super) fn forget_placeholder(
        &mut self,
        id: AllocationId,
        entry: &Allocation,
        end: Option<PlaceholderEnd>,
        effects: &mut VisitEffects,
    ) {
        if entry.spec.place_in().is_none() {
            return;
        }
        match end {
            Some(end) => effects.touched |= self.book.forget_placeholder(id, entry, end),
            None => self.book.take_free(id, entry),
        }
        self.pairs_changed();
    }
}
