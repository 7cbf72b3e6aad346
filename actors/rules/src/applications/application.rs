//! An application: its state, its asks, and its allocations.
//!
//! The actor owns an [`Application`] and reports its changes to others. The rules here decide which
//! event follows from which change, so that they can be tested without an actor.
//!
//! # Invariants
//! * `allocated` is the sum of its allocations in the table, those that wait for their predicate
//!   included, without zero entries; `placeholders` is the part of it that placeholders hold.
//! * Accepted and Resuming never hold an allocation that is settled, except placeholders.
//!   Completing has no pending asks and holds at most placeholders; Failing has no pending asks.
//! * A terminated application holds nothing and has no pending asks.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::applications::application_state::{ApplicationEvent, ApplicationState, Transition};
use crate::applications::gang::Gang;
use crate::applications::native::{Native, Stage};
use crate::applications::owed::OwedGroups;
use crate::applications::removal::Removal;
use crate::applications::resource_seconds::History;
use crate::asks::{Asks, Bundled};
use crate::specs::ask::{AskSpec, TaskGroup};
#[cfg(test)]
use crate::specs::declaration::DeclaredGroup;
use crate::specs::declaration::{Declaration, Fault};
use crate::specs::quotas::{self, Held};
use crate::specs::tags::{self, RUN_TIME_LIMIT, Tags, run_time_limit};
use crate::values::hashing::SeededMap;
use crate::values::ids::{AllocationId, AskSlot};
use crate::values::resources::Resources;
use crate::values::usual::is_usual;

/// The most entries of a state log; when it is full, the oldest entry is dropped. Only an
/// application that returns from Completing a few hundred times has so many.
const LOG_MAX: usize = 1_000;

/// The submission of an application by its RM.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewApplication {
    /// The id, unique among the active applications of the partition.
    pub id: Arc<str>,
    /// The queue that it requests, as sent.
    pub queue: String,
    /// The owner.
    pub user: Arc<str>,
    /// The user's groups, in order of resolution.
    pub groups: Vec<String>,
    /// The tags as sent.
    pub tags: Option<Tags>,
    /// The amount of all placeholders together; empty if it is no gang.
    pub placeholder_ask: Resources,
    /// The members that it needs all at once, or the fault of their declaration; `None` if it
    /// declares none.
    pub task_groups: Option<Box<Result<Declaration, Fault>>>,
    /// The time for which placeholders of a gang may wait, ms; `None` if the RM stated none.
    pub execution_timeout_ms: Option<NonZeroU64>,
    /// The time for which it may run, ms; `None`: without limit. A gang never has one.
    pub run_limit_ms: Option<NonZeroU64>,
    /// What happens to a gang whose placeholders have waited for too long.
    pub gang_style: GangStyle,
}

/// What happens to a gang whose placeholders have waited for too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GangStyle {
    /// The gang continues without its placeholders.
    #[default]
    Soft,
    /// The gang fails.
    Hard,
}

impl GangStyle {
    /// Reads the style as an RM writes it: exactly `Hard` is hard, any other text is soft.
    ///
    /// ```
    /// use monoceros_rules::applications::application::GangStyle;
    /// assert_eq!(GangStyle::read("Hard"), GangStyle::Hard);
    /// assert_eq!(GangStyle::read("hard"), GangStyle::Soft);
    /// ```
    pub fn read(text: &str) -> Self {
        if text == "Hard" { Self::Hard } else { Self::Soft }
    }
}

/// A change of state, to be reported to the RM and counted by the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// The state before.
    pub from: ApplicationState,
    /// The state now.
    pub to: ApplicationState,
    /// The event that led there.
    pub event: ApplicationEvent,
    /// The reason that is reported to the RM.
    pub message: &'static str,
}

/// Which kinds of allocations and asks an application lost in one step, for [`Application::judge`].
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Whether asks, or parts of them, were withdrawn.
    pub asks: bool,
    /// Whether allocations ended that are not placeholders.
    pub real: bool,
    /// Whether placeholders ended.
    pub placeholders: bool,
    /// Whether all its allocations were released at once, even if it had none.
    pub all: bool,
}

impl Left {
    /// Whether the step ended anything.
    pub fn anything(self) -> bool {
        self.asks || self.real || self.placeholders || self.all
    }
}

/// How far an application has come on its way to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Progress {
    /// See [`Application::is_starting`].
    pub is_starting: bool,
    /// See [`Application::may_run_soon`].
    pub may_run_soon: bool,
}

/// The message to the RM about a gang that has waited for its placeholders for too long.
pub const PLACEHOLDER_TIMEOUT: &str = "ResourceReservationTimeout";

impl StateChange {
    /// Returns the change of the number of running applications on its path.
    pub fn running(self) -> i64 {
        let is_running = |state| i64::from(state == ApplicationState::Running);
        is_running(self.to) - is_running(self.from)
    }
}

/// An application of a partition: its owner, its state, its asks and its allocations.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Application {
    /// The id, as submitted.
    pub id: Arc<str>,
    /// The canonical path of its leaf.
    pub queue: Arc<str>,
    /// The owner.
    pub user: Arc<str>,
    /// The user's groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The tags, as submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Tags>,
    /// The time of its acceptance, ns since the epoch.
    pub arrived_ns: i64,
    /// The time of submission, or if it is earlier the creation that its tags state or that of its
    /// oldest ask, ns since the epoch.
    pub submitted_ns: i64,
    /// The time at which it last entered Running, ns since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ns: Option<i64>,
    /// The time at which it entered a terminated state, ns since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_ns: Option<i64>,
    /// The asks of the application, satisfied ones included.
    pub asks: Asks,
    /// The allocations by UUID.
    #[serde(with = "crate::values::pairs")]
    pub allocations: SeededMap<Arc<str>, AllocationId>,
    /// The placements that wait for their predicate, or for the placeholder that they replace.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unsettled: BTreeSet<AllocationId>,
    /// The gang of the application, if it ever had or announced placeholders, or declared members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<Box<Gang>>,
    /// What happens to the gang if its placeholders have waited for too long.
    pub gang_style: GangStyle,
    /// The longest wait of its placeholders, or if it has none, its longest run, ms; `None`: not
    /// set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_timeout_ms: Option<NonZeroU64>,
    /// The resource-seconds of allocations that have ended.
    pub history: History,
    /// The facts of its removal, once its RM has removed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<Box<Removal>>,
    /// The task groups of its gang whose asks come before others, because they lost members.
    pub(super) owed: OwedGroups,
    state: ApplicationState,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    log: Vec<(i64, ApplicationState)>,
    #[serde(default, skip_serializing_if = "is_usual")]
    allocated: Resources,
    #[serde(default, skip_serializing_if = "is_usual")]
    placeholders: Resources,
    #[serde(default, skip_serializing_if = "is_usual")]
    peak: Resources,
    /// The longest time that each of its allocations runs, as its RM claims, ms; `None`: no claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run_time_limit_ms: Option<NonZeroU64>,
    /// The approximate memory of its own texts, in bytes.
    #[serde(default, skip_serializing_if = "is_usual")]
    bytes: u64,
}

impl NewApplication {
    /// Returns the approximate memory that it takes before it has any ask, in bytes.
    pub fn bytes(&self) -> u64 {
        let texts = self.id.len() + self.user.len() + self.queue.len();
        let groups: usize = self.groups.iter().map(String::len).sum();
        let tags = self.tags.iter().map(|tags| quotas::bytes_of_texts(tags.iter())).sum::<u64>();
        let declared =
            self.task_groups.as_ref().and_then(|declared| declared.as_ref().as_ref().ok());
        let members = declared.map_or(0, |declared| declared.groups().len());
        let members = members as u64 * quotas::ASK_BYTES;
        quotas::APPLICATION_BYTES + (texts + groups) as u64 + tags + members
    }
}

impl Application {
    /// Builds an application that is submitted to a leaf now.
    pub fn new(new: NewApplication, queue: Arc<str>, now_ns: i64) -> Self {
        let bytes = new.bytes();
        let run_time_limit_ms =
            new.tags.as_ref().and_then(|tags| run_time_limit(tags.get(RUN_TIME_LIMIT)?).ok()?);
        let stated_ns = new.tags.as_ref().and_then(|tags| tags::created_ns(|name| tags.get(name)));
        Self {
            id: new.id,
            queue,
            user: new.user,
            groups: new.groups,
            tags: new.tags,
            arrived_ns: now_ns,
            submitted_ns: stated_ns.map_or(now_ns, |stated_ns| stated_ns.min(now_ns)),
            started_ns: None,
            finished_ns: None,
            asks: Asks::new(),
            allocations: SeededMap::default(),
            unsettled: BTreeSet::new(),
            gang: match new.task_groups.map(|declared| *declared) {
                Some(Ok(declared)) => Some(Box::new(Gang::declared(&declared))),
                _ => (!new.placeholder_ask.is_zero())
                    .then(|| Box::new(Gang::new(new.placeholder_ask))),
            },
            gang_style: new.gang_style,
            execution_timeout_ms: new.execution_timeout_ms,
            history: History::default(),
            removal: None,
            owed: OwedGroups::new(),
            state: ApplicationState::New,
            log: Vec::new(),
            allocated: Resources::new(),
            placeholders: Resources::new(),
            peak: Resources::new(),
            run_time_limit_ms,
            bytes,
        }
    }

    /// Gives an ask the application's limit of run times, if the ask has none of its own.
    pub fn pass_limit(&self, spec: &mut Arc<AskSpec>) {
        if let Some(limit) = self.run_time_limit_ms
            && spec.run_time_limit_ms.is_none()
        {
            Arc::make_mut(spec).particulars.make().run_time_limit_ms = Some(limit);
        }
    }

    /// Returns the numbers and bytes that count against the quotas of its RM.
    pub fn counted(&self) -> Held {
        let allocations = (self.allocations.len() + self.unsettled.len()) as u64;
        Held {
            asks: self.asks.n_pending() as u64,
            applications: 1,
            bytes: self.bytes + self.asks.bytes() + allocations * quotas::ALLOCATION_BYTES,
            ..Held::default()
        }
    }

    /// The state.
    pub fn state(&self) -> ApplicationState {
        self.state
    }

    /// Returns the states that it entered, oldest first, with times in ns since the epoch.
    pub fn log(&self) -> &[(i64, ApplicationState)] {
        &self.log
    }

    /// The sum of its allocations and unsettled placements.
    pub fn allocated(&self) -> &Resources {
        &self.allocated
    }

    /// The sum of its placeholders.
    pub fn placeholders(&self) -> &Resources {
        &self.placeholders
    }

    /// Whether real asks of this task group wait for its placeholders.
    pub fn waits_for_placeholders(&self, group: &TaskGroup) -> bool {
        self.gang.as_ref().is_some_and(|gang| gang.is_usable(group))
    }

    /// Returns the asks that have a node reserved and wait for placeholders of their task group,
    /// placed or pending. Such asks can only replace placeholders, and need no node of their own.
    pub fn reserved_for_placeholders(&self) -> Vec<AskSlot> {
        if self.gang.is_none() || self.asks.reserved_len() == 0 {
            return Vec::new();
        }
        let members = self.asks.reserved_members();
        let waiting = members.filter(|(_, group)| self.waits_for_placeholders(group));
        waiting.map(|(slot, _)| slot).collect()
    }

    /// Whether it has declared members, decided or not.
    pub fn has_declared_members(&self) -> bool {
        self.gang.as_ref().is_some_and(|gang| gang.native.is_some())
    }

    /// Returns the members of the gang for which places are searched, with the declaration. `None`
    /// if there is no such gang, or if asks of it are missing.
    pub fn undecided_bundle(&self) -> Option<(&Native, Bundled)> {
        let native = self.undecided().filter(|native| native.stage == Stage::Undecided)?;
        Some((native, native.bundle(&self.asks).ok()?))
    }

    /// Returns the declared gang, until it is decided that its members get places.
    pub fn undecided(&self) -> Option<&Native> {
        self.gang.as_ref()?.undecided()
    }

    /// The declared gang, if there is one.
    pub fn native(&self) -> Option<&Native> {
        self.gang.as_ref()?.native.as_deref()
    }

    /// Mutable access to the declared gang.
    pub fn native_mut(&mut self) -> Option<&mut Native> {
        self.gang.as_mut()?.native.as_deref_mut()
    }

    /// Returns the allocations and the held places, in no order.
    pub fn each_allocation(&self) -> impl Iterator<Item = AllocationId> + '_ {
        self.allocations.values().copied().chain(self.holds())
    }

    /// Returns the places that are held for members of a declared gang.
    pub fn holds(&self) -> impl Iterator<Item = AllocationId> + '_ {
        let native = self.gang.as_ref().and_then(|gang| gang.native.as_ref());
        native.into_iter().flat_map(|native| native.holds.iter().copied())
    }

    /// Records that all members of a declared gang have their places: the application runs,
    /// whatever its state.
    pub fn decided(&mut self, now_ns: i64, changes: &mut Vec<StateChange>) {
        self.runs(now_ns, changes);
    }

    /// Mutable access to the gang, which is created if there is none.
    pub fn gang_mut(&mut self) -> &mut Gang {
        self.gang.get_or_insert_default()
    }

    /// Returns the component-wise peak of [`Self::allocated`].
    pub fn peak(&self) -> &Resources {
        &self.peak
    }

    /// Whether it has still to start: it has not run, and holds nothing. An application with a
    /// placement that waits for its predicate, with placeholders, or with a reserved node counts as
    /// running against maxima already.
    pub fn is_starting(&self) -> bool {
        self.has_not_run() && !self.has_place()
    }

    /// Whether it counts as running against maxima and does not run yet: it may run soon.
    pub fn may_run_soon(&self) -> bool {
        self.has_not_run() && self.has_place()
    }

    /// Returns how far it has come on its way to run, to be compared after a change.
    pub fn progress(&self) -> Progress {
        Progress { is_starting: self.is_starting(), may_run_soon: self.may_run_soon() }
    }

    /// Whether it has not run, and has allocations (placeholders) or a reserved node.
    pub fn is_allocating(&self) -> bool {
        self.has_not_run() && (!self.allocations.is_empty() || self.asks.reserves_any())
    }

    /// Whether it has allocations or placements, or a reserved node.
    pub fn has_place(&self) -> bool {
        self.holds_anything() || self.asks.reserves_any()
    }

    /// Whether it has allocations, placeholders included, or placements that wait.
    pub fn holds_anything(&self) -> bool {
        !self.unsettled.is_empty() || !self.allocations.is_empty() || self.holds().next().is_some()
    }

    fn has_not_run(&self) -> bool {
        matches!(self.state, ApplicationState::New | ApplicationState::Accepted)
    }

    /// Moves the submission back to an older ask or allocation. Returns whether it moved.
    pub fn submitted_no_later_than(&mut self, created_ns: i64) -> bool {
        let moves = created_ns < self.submitted_ns;
        self.submitted_ns = self.submitted_ns.min(created_ns);
        moves
    }

    /// Records that an ask was added.
    pub fn ask_added(&mut self, now_ns: i64, changes: &mut Vec<StateChange>) {
        if matches!(self.state, ApplicationState::New | ApplicationState::Completing) {
            self.fire(ApplicationEvent::Run, now_ns, changes);
        }
    }

    /// Books an allocation. If it is real, the application runs afterwards, whatever its state. If
    /// it is a placeholder, the application runs once its placeholders have reached the announced
    /// amount.
    pub fn booked(
        &mut self,
        resources: &Resources,
        placeholder: bool,
        now_ns: i64,
        changes: &mut Vec<StateChange>,
    ) {
        self.allocated.add(resources);
        self.asks.log_waiting(now_ns);
        self.counts(resources, placeholder, now_ns, changes);
    }

    fn counts(
        &mut self,
        resources: &Resources,
        placeholder: bool,
        now_ns: i64,
        changes: &mut Vec<StateChange>,
    ) {
        self.peak.raise_to(&self.allocated);
        if !placeholder {
            return self.runs(now_ns, changes);
        }
        self.placeholders.add(resources);
        if self.state == ApplicationState::New {
            self.fire(ApplicationEvent::Run, now_ns, changes);
        }
        let gang = self.gang.as_ref();
        if gang.is_some_and(|gang| gang.placeholder_ask.same_amount(&self.placeholders)) {
            self.fire(ApplicationEvent::Run, now_ns, changes);
        }
    }

    /// Records a placement that is to replace a placeholder, in the capacity of the placeholder.
    pub fn waits_in_place(&mut self, placement: AllocationId) {
        self.unsettled.insert(placement);
    }

    /// Records that such a placement was withdrawn, or its ask was.
    pub fn waits_no_longer(&mut self, placement: AllocationId) {
        self.unsettled.remove(&placement);
    }

    /// Records that a real allocation has replaced a placeholder, which has ended.
    pub fn swapped(
        &mut self,
        (placeholder, real): (&Resources, &Resources),
        placement: AllocationId,
        now_ns: i64,
        changes: &mut Vec<StateChange>,
    ) {
        self.unsettled.remove(&placement);
        self.allocated.subtract(placeholder);
        self.allocated.add(real);
        self.allocated.prune();
        self.placeholders.subtract(placeholder);
        self.placeholders.prune();
        self.peak.raise_to(&self.allocated);
        self.runs(now_ns, changes);
    }

    /// Records a placement that holds its amount and waits for its predicate.
    pub fn held(&mut self, placement: AllocationId, resources: &Resources) {
        self.allocated.add(resources);
        self.unsettled.insert(placement);
    }

    /// Records that the predicate of a placement passed: it is an allocation, and counts as
    /// [`Self::booked`].
    pub fn settled(
        &mut self,
        placement: AllocationId,
        (resources, placeholder): (&Resources, bool),
        now_ns: i64,
        changes: &mut Vec<StateChange>,
    ) {
        self.unsettled.remove(&placement);
        self.counts(resources, placeholder, now_ns, changes);
    }

    /// Records that a placement was withdrawn.
    pub fn refunded(&mut self, placement: AllocationId, resources: &Resources) {
        self.unsettled.remove(&placement);
        self.unbooked(resources, false);
    }

    fn runs(&mut self, now_ns: i64, changes: &mut Vec<StateChange>) {
        self.fire(ApplicationEvent::Run, now_ns, changes);
        if self.state == ApplicationState::Accepted {
            self.fire(ApplicationEvent::Run, now_ns, changes);
        }
    }

    /// Changes the amount of an allocation.
    pub fn resized(&mut self, delta: &Resources, placeholder: bool) {
        self.allocated.add(delta);
        self.allocated.prune();
        if placeholder {
            self.placeholders.add(delta);
            self.placeholders.prune();
        }
        self.peak.raise_to(&self.allocated);
    }

    /// Records that an allocation ended. Call [`Self::judge`] once all ends of the step are
    /// recorded.
    pub fn unbooked(&mut self, resources: &Resources, placeholder: bool) {
        self.allocated.subtract(resources);
        self.allocated.prune();
        if placeholder {
            self.placeholders.subtract(resources);
            self.placeholders.prune();
        }
    }

    /// Decides on the state after asks or allocations ended in this step. The application completes
    /// or fails if it has none left. It continues if the last placeholder of a gang that gave up
    /// has ended. A completing application has ended when its RM releases all that it holds,
    /// because no ask will follow. Placements that wait for a predicate or for a placeholder count
    /// as pending. An undecided gang waits for its members, even if none of them has a size or an
    /// ask.
    pub fn judge(&mut self, left: Left, now_ns: i64, changes: &mut Vec<StateChange>) {
        let has_placeholders = self.gang.is_some() && !self.placeholders.is_zero();
        let last_placeholder = left.placeholders && !has_placeholders;
        if self.state == ApplicationState::Resuming {
            if last_placeholder {
                self.fire(ApplicationEvent::Run, now_ns, changes);
            }
            return;
        }
        let is_undecided = self.undecided().is_some();
        let asks = !self.unsettled.is_empty() || !self.asks.pending().is_zero();
        let has_real = !self.allocated.same_amount(&self.placeholders);
        if asks || has_real {
            return;
        }
        match self.state {
            ApplicationState::Failing if !has_placeholders => {
                self.fire(ApplicationEvent::Fail, now_ns, changes);
            }
            ApplicationState::Accepted | ApplicationState::Running
                if (left.real || !has_placeholders) && !is_undecided =>
            {
                self.fire(ApplicationEvent::Complete, now_ns, changes);
            }
            ApplicationState::Completing if last_placeholder || left.all => {
                self.fire(ApplicationEvent::Complete, now_ns, changes);
            }
            _ => {}
        }
    }

    /// Fires an event. If the event is refused, the state stays as it is.
    pub fn fire(&mut self, event: ApplicationEvent, now_ns: i64, changes: &mut Vec<StateChange>) {
        self.fire_because(event, event.text(), now_ns, changes);
    }

    /// Fires an event with a reason for the RM; see [`Self::fire`].
    pub fn fire_because(
        &mut self,
        event: ApplicationEvent,
        message: &'static str,
        now_ns: i64,
        changes: &mut Vec<StateChange>,
    ) {
        let Ok(Transition::To(to)) = self.state.on(event) else {
            return;
        };
        let from = std::mem::replace(&mut self.state, to);
        if self.log.len() == LOG_MAX {
            self.log.remove(0);
        }
        self.log.push((now_ns, to));
        match to {
            ApplicationState::Running => self.started_ns = Some(now_ns),
            state if state.is_terminated() => self.finished_ns = Some(now_ns),
            _ => {}
        }
        changes.push(StateChange { from, to, event, message });
    }

    /// Returns a UUID for the next allocation of an ask, which is outstanding or waits for its
    /// predicate: the key of the ask if no allocation has it, else `key#n`.
    pub fn next_uuid(&mut self, slot: AskSlot) -> Arc<str> {
        let ask = self.asks.ask(slot);
        let still_to_come = ask.outstanding as usize + ask.search.unsettled.len();
        let single = still_to_come == 1 && ask.next_uuid == 1 && ask.live.is_empty();
        let key = Arc::clone(&ask.key);
        if single && !self.allocations.contains_key(&key) {
            return key;
        }
        let mut number = ask.next_uuid;
        loop {
            let uuid: Arc<str> = Arc::from(format!("{key}#{number}"));
            number += 1;
            if !self.allocations.contains_key(&uuid) {
                self.asks.ask_mut(slot).next_uuid = number;
                return uuid;
            }
        }
    }
}

#[cfg(test)]
impl NewApplication {
    /// Returns an application of the queue `root.a` without a gang, or with one of this task group.
    pub(crate) fn small(group: Option<DeclaredGroup>) -> Self {
        let declaration = group.map(|group| Declaration::new(vec![group]));
        Self {
            id: Arc::from("app"),
            queue: "root.a".to_owned(),
            user: Arc::from("ann"),
            groups: Vec::new(),
            tags: None,
            placeholder_ask: Resources::new(),
            task_groups: declaration.map(Box::new),
            execution_timeout_ms: None,
            run_limit_ms: None,
            gang_style: GangStyle::Soft,
        }
    }
}

#[cfg(test)]
impl Application {
    /// Returns a new [`NewApplication::small`] in its queue.
    pub(crate) fn small(group: Option<DeclaredGroup>) -> Self {
        Self::new(NewApplication::small(group), Arc::from("root.a"), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ask_without_a_limit_has_that_of_its_application() {
        let limits = |of_application: &str, of_ask: Option<u64>| {
            let tags = [(RUN_TIME_LIMIT.to_owned(), of_application.to_owned())];
            let tags = Some(Arc::new(tags.into()));
            let new = NewApplication { tags, ..NewApplication::small(None) };
            let mut spec = AskSpec::new("a", Resources::new());
            if let Some(limit) = of_ask {
                spec = spec.with(|it| it.run_time_limit_ms = NonZeroU64::new(limit));
            }
            let mut spec = Arc::new(spec);
            Application::new(new, Arc::from("root.a"), 0).pass_limit(&mut spec);
            (spec.run_time_limit_ms.map(u64::from), spec.particulars.is_there())
        };
        assert_eq!(limits("2s", None), (Some(2_000), true));
        assert_eq!(limits("2s", Some(1)), (Some(1), true));
        assert_eq!(limits("soon", None), (None, false));
    }
}
