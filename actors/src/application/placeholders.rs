//! The placeholders of an application from the moment in which they are placed until they have left:
//! their time, how the RM is asked to end them, and what is counted of each task group. How a member
//! takes the place of one is in [`super::gang`]. For people, `docs/gangs.md`.
//!
//! # Invariants
//! * The RM is asked once to end a placeholder.
//! * While a placeholder is placed that the RM was not asked to end, a deadline is set, unless the
//!   application fails.
//! * Whoever leaves a task group with fewer placeholders looks whether its members have still any to
//!   wait for ([`Application::placeholders_fewer`]).

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::allocations::{Allocation, Leaving};
use monoceros_rules::applications::application::{GangStyle, PLACEHOLDER_TIMEOUT as TIMEOUT_TEXT};
use monoceros_rules::applications::application_state::{ApplicationEvent, ApplicationState};
use monoceros_rules::applications::gang::PlaceholderEnd;
use monoceros_rules::specs::ask::{AskSpec, TaskGroup};
use monoceros_rules::values::ids::AllocationId;

use super::Application;
use super::effects::VisitEffects;
use crate::events::EventKind;
use crate::step::{Alarm, Baton, Ending, Notice, Op, PLACEHOLDER_TIMEOUT, Released};

/// The tag of an application that says since when its placeholders may wait, in seconds since the
/// epoch: a restart of the scheduler does not prolong their time.
const CREATION_TIME: &str = "yunikorn.apache.org/creationTime";

/// The rest of the time for which places are held that are held since then, where the application gives them so
/// long.
pub(super) fn holding_time_left(
    timeout_ms: Option<NonZeroU64>,
    since_ns: i64,
    now_ns: i64,
) -> Duration {
    let timeout = timeout_ms.map_or(PLACEHOLDER_TIMEOUT, |ms| Duration::from_millis(ms.get()));
    let age = u64::try_from(now_ns.saturating_sub(since_ns)).unwrap_or(0);
    timeout.saturating_sub(Duration::from_nanos(age))
}

impl Application {
    /// A placeholder is an allocation from now on, with its name: it is free to be taken, and the
    /// time of all begins with the first.
    pub(super) fn placeholder_settled(&mut self, id: AllocationId, baton: &mut Baton) {
        let Some(entry) = baton.books.allocations.get(id) else { return };
        let Some(group) = entry.spec.place_in() else { return };
        let group = Arc::clone(group);
        self.put_free(&group, id, entry);
        self.look_for_pairs(&group);
        self.arm_placeholders(baton);
    }

    /// Sets the deadline of the placeholders, if they need one and have none.
    pub(super) fn arm_placeholders(&mut self, baton: &mut Baton) {
        let state = self.book.state();
        let needs_one = state != ApplicationState::Failing && !state.is_terminated();
        let has_some = !self.book.placeholders().is_zero();
        let Some(gang) = &mut self.book.gang else { return };
        if !needs_one || !has_some || gang.timer.is_some() {
            return;
        }
        // What is held for members is held since the decision, unless a scheduler before this one held it.
        let since_ns = if let Some(native) = &gang.native {
            native.held_since_ns()
        } else {
            let tags = self.book.tags.as_ref();
            let created = tags.and_then(|tags| tags.get(CREATION_TIME)?.parse::<i64>().ok());
            let created_ns = created.and_then(|seconds| seconds.checked_mul(1_000_000_000));
            created_ns.map(|created_ns| created_ns.min(self.book.arrived_ns))
        };
        let (timeout_ms, now_ns) = (self.book.execution_timeout_ms, baton.now_ns);
        let left = holding_time_left(timeout_ms, since_ns.unwrap_or(now_ns), now_ns);
        let wait = left.max(Duration::from_millis(1));
        let (application, id) = (self.slot, Arc::clone(&self.book.id));
        let alarm = Alarm::Order { application, id, op: Box::new(Op::PlaceholdersOver) };
        gang.timer = Some(baton.effects.arm(wait, alarm));
    }

    /// Takes the deadline of the placeholders back, if there are none any more.
    pub(super) fn disarm_placeholders(&mut self, baton: &mut Baton) {
        let is_needed = !self.book.placeholders().is_zero() && !self.book.state().is_terminated();
        if let Some(gang) = self.book.gang.as_mut().filter(|_| !is_needed) {
            baton.effects.disarm(gang.timer.take());
        }
    }

    /// The placeholders have waited for as long as they may. A gang in which something real runs
    /// goes on without them; any other gives up, for good or to be scheduled as an ordinary
    /// application.
    pub(super) fn placeholders_over(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let Some(gang) = &mut self.book.gang else { return };
        gang.timer = None;
        if let Some(native) = &mut gang.native {
            native.is_over = true;
            return self.end_holds(EventKind::AllocationTimedOut, |_| true, baton, effects);
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

    /// The RM is asked to end every placeholder that it was not asked to end before.
    pub(super) fn end_placeholders(
        &mut self,
        why: &'static str,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        for id in self.all_allocations() {
            if baton.books.allocations.get(id).is_some_and(|entry| entry.spec.placeholder) {
                self.placeholder_overdue(id, why, baton, effects);
            }
        }
    }

    /// The RM is asked to end a placeholder, unless it was asked before. A member that waits for
    /// the predicate of its place waits again.
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

    /// The RM is asked to end a placeholder because its time is over or it is of no use, unless it
    /// was asked already.
    pub(super) fn end_placeholder(
        &mut self,
        id: AllocationId,
        why: &'static str,
        baton: &mut Baton,
    ) {
        let Some(entry) = baton.books.allocations.get_mut(id) else { return };
        if entry.leaving.is_some() {
            return;
        }
        entry.change().leaving = Some(Leaving::Released);
        let released = Released::of(&self.book.id, entry, Ending::Timeout, why);
        baton.effects.notify(Notice::Released(Box::new(released)));
        self.take_free(id, baton);
    }

    /// Every pending ask is given up, and the RM is told why. Members that are on their way go on
    /// where `keeps_pairs`.
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
                self.give_up_asked(slot, baton, effects);
            } else {
                self.give_up_ask(slot, baton, effects);
            }
            let form = self.book.asks.ask(slot).form;
            if self.withdraw_slot(slot, EventKind::AskTimedOut, baton, effects) {
                self.tell_ask_released(form, key, Ending::Timeout, why, baton);
            }
        }
    }

    /// A placeholder has left every holder.
    pub(super) fn forget_placeholder(
        &mut self,
        id: AllocationId,
        entry: &Allocation,
        end: PlaceholderEnd,
        effects: &mut VisitEffects,
    ) {
        let Some(group) = entry.spec.place_in() else { return };
        let gang = self.book.gang_mut();
        gang.take_free(group, id, entry);
        gang.end(group, end, 1);
        self.pairs_changed();
        self.placeholders_fewer(group, effects);
    }

    /// A placeholder is not placed any more, and its ask is pending again, perhaps as something else
    /// than it was placed as.
    pub(super) fn leave_place(&mut self, id: AllocationId, entry: &Allocation) {
        if let (Some(group), Some(gang)) = (entry.spec.place_in(), &mut self.book.gang) {
            gang.take_free(group, id, entry);
            self.pairs_changed();
        }
    }

    /// What was counted in this group, if in any, is one of this specification from now on.
    pub(super) fn count_otherwise(
        &mut self,
        before: Option<&TaskGroup>,
        spec: &AskSpec,
        effects: &mut VisitEffects,
    ) {
        if before == spec.place_in() {
            return;
        }
        if let Some(group) = spec.place_in() {
            self.book.gang_mut().add(group, &spec.resources, 1);
        }
        if let Some(group) = before {
            self.book.gang_mut().take_off(group, 1);
            self.placeholders_fewer(group, effects);
        }
    }

    /// A task group has fewer placeholders, placed or asked for: without any, its members are
    /// scheduled like any ask.
    pub(super) fn placeholders_fewer(&mut self, group: &TaskGroup, effects: &mut VisitEffects) {
        if !self.book.waits_for_placeholders(group) {
            effects.touched |= self.book.asks.wake_members(group);
        }
    }
}
