//! Checks the guarantees of the interface from the messages alone: one answer for each item, no
//! second placement, no rejection after an allocation, releases answered once, states along the
//! diagram. A scenario compares only what it expects; the judge also finds faults that no scenario
//! expects.
//!
//! # Names of allocations
//! In the older forms the name of an allocation is its UUID. In the present form it has none: there
//! its name is its application and key, and the scheduler may show another name.
//!
//! # Expected answers
//! A script line is judged strictly if it has one item and the run waits after it (it does not end
//! in `&`): the state before the line determines the answer. Other lines are judged only by rules
//! that hold in any order; when the scheduler has nothing left to decide, the state is copied from
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monoceros_actors::snapshot::NodeSnapshot;
use monoceros_actors::tags::HELD_AGAIN;
use monoceros_proto::si::v1::{self as si, TerminationType};
use monoceros_rules::allocations::Pairing;
use monoceros_rules::applications::application_state::{
    ApplicationEvent, ApplicationState, Transition,
};
use monoceros_rules::audit::{ApplicationFact, Facts};
use monoceros_rules::decide::preemption::STAYS;
use monoceros_rules::limits::PlaceUsage;
use monoceros_rules::values::resources::Name;

use crate::recording_callback::Notification;
use crate::script::{Item, Which, Wish};

/// An allocation: its application, and its UUID or, in today's form, its key.
type Id = (String, String);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Live {
    key: String,
    node: String,
}

/// An attribute that stays the same while its node exists, in all histories.
pub(crate) const FIXED: &str = "place";

/// The state of a partition as known to its resource manager, and the faults found in the
/// notifications.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// Active applications with their states.
    apps: BTreeMap<String, String>,
    nodes: BTreeSet<String>,
    live: BTreeMap<Id, Live>,
    /// Allocations of `live` that were notified without a UUID since the last comparison with the
    /// state of the scheduler.
    unnamed: BTreeSet<Id>,
    /// Keys, with their applications, that were ever used in the present form.
    today: BTreeSet<Id>,
    /// Keys, with their applications, that were ever used in an older form.
    older: BTreeSet<Id>,
    /// Allocations for which a release was notified.
    ending: BTreeSet<Id>,
    /// Pending requests. In the present form the scheduler ends them like allocations.
    asked: BTreeSet<Id>,
    /// Submitted applications without an answer.
    new_apps: BTreeMap<String, usize>,
    new_nodes: BTreeMap<String, usize>,
    wishes: BTreeMap<Id, usize>,
    /// Items of the present line; several if it is not judged strictly.
    line_items: Vec<Item>,
    strict: bool,
    /// Releases that must be notified.
    owed: BTreeSet<Id>,
    /// Pending requests whose release must be notified.
    owed_asks: BTreeSet<Id>,
    /// Keys of requests that must be answered at some time by an allocation, a rejection or a
    /// release, unless their RM withdraws or reports them itself.
    open: BTreeSet<Id>,
    /// Placements notified in this line.
    placed: Vec<Placed>,
    /// Applications of which the RM has placed an allocation itself.
    reported: BTreeSet<String>,
    wrong: Vec<String>,
}

#[derive(Debug)]
struct Placed {
    app: String,
    key: String,
    uuid: String,
    node: String,
    /// Names of the resources it uses.
    names: Vec<String>,
}

impl Judge {
    /// Records a message of the RM.
    pub(crate) fn sent(&mut self, items: &[Item], waits: bool) {
        let strict = items.len() == 1 && waits && self.line_items.is_empty();
        self.strict = strict;
        self.placed.clear();
        // The scheduler processes a message in this order: asks before releases.
        let asks = |item: &&Item| matches!(item, Item::Ask(_) | Item::Request(_));
        items.iter().filter(asks).for_each(|item| self.notes_open(item));
        items.iter().filter(|item| !asks(item)).for_each(|item| self.notes_open(item));
        for item in items {
            self.notes_forms(item);
            match item {
                Item::App { id, .. } => *self.new_apps.entry(id.clone()).or_default() += 1,
                Item::Node(node) => *self.new_nodes.entry(node.id.clone()).or_default() += 1,
                Item::Ask(wish) | Item::Request(wish) | Item::Exists(wish, _) => {
                    let id = (wish.app.clone(), wish.key.clone());
                    *self.wishes.entry(id).or_default() += 1;
                }
                Item::Foreign { key, .. } => {
                    *self.wishes.entry((String::new(), key.clone())).or_default() += 1;
                }
                _ => {}
            }
            if let Item::Exists(wish, _) = item {
                // A new allocation with this name is not the one being released.
                let id = (wish.app.clone(), wish.uuid.clone());
                if self.live.get(&id).is_some_and(|live| live.key != wish.key) {
                    self.ending.remove(&id);
                }
                if wish.tags.iter().any(|(name, value)| name == STAYS && value == "true") {
                    let live = &self.live;
                    let stays = |(app, uuid): &Id| {
                        let id = (app.clone(), uuid.clone());
                        *app == wish.app && live.get(&id).is_some_and(|it| it.key == wish.key)
                    };
                    self.ending.retain(|id| !stays(id));
                }
            }
            if strict {
                self.owed = self.owed_for(item);
                if let Item::RemoveApp(app) = item {
                    let asked = self.asked.iter().filter(|(of, _)| of == app);
                    self.owed_asks = asked.cloned().collect();
                }
                self.apply_effects(item);
            }
            self.line_items.push(item.clone());
        }
    }

    /// Records in which form keys are used.
    fn notes_forms(&mut self, item: &Item) {
        let id = |wish: &Wish| (wish.app.clone(), wish.key.clone());
        match item {
            // Only existing allocations have a UUID in a script; a request has none, in any form.
            Item::Request(wish) | Item::Exists(wish, _) if wish.uuid.is_empty() => {
                self.today.insert(id(wish));
            }
            Item::Ask(wish) | Item::Exists(wish, _) => {
                self.older.insert(id(wish));
            }
            Item::Node(words) => self.older.extend(words.holds.iter().map(id)),
            _ => {}
        }
    }

    /// Updates which requests need an answer.
    fn notes_open(&mut self, item: &Item) {
        match item {
            Item::Ask(wish) | Item::Request(wish) => {
                self.open.insert((wish.app.clone(), wish.key.clone()));
            }
            Item::Exists(wish, _) => {
                self.open.remove(&(wish.app.clone(), wish.key.clone()));
            }
            Item::Withdraw { app, key, .. } => {
                self.open.retain(|(of, open)| of != app || !key.is_empty() && open != key);
            }
            Item::Release { app, which, .. } => self.open.retain(|(of, open)| {
                of != app
                    || match which {
                        Which::All => false,
                        Which::Key(key) | Which::Uuid(key) => key != open,
                    }
            }),
            _ => {}
        }
    }

    /// Records that the request with this key is answered.
    fn is_answered(&mut self, app: &str, key: &str) {
        self.open.remove(&(app.to_owned(), key.to_owned()));
    }

    /// Checks the form of a notification: one with UUIDs is for a key used in an older form, one
    /// without for a key used in the present form.
    fn is_in_its_form(&mut self, app: &str, key: &str, names: [&str; 2], partition: &str) {
        let id = (app.to_owned(), key.to_owned());
        let [uuid, allocation_id] = names;
        if uuid != allocation_id {
            self.wrong.push(format!("{id:?} is called {uuid} and {allocation_id}"));
        }
        let of_that_form = if uuid.is_empty() { &self.today } else { &self.older };
        if !of_that_form.contains(&id) {
            self.wrong.push(format!("{id:?} is called `{uuid}`, which is not the form it came in"));
        }
        if uuid.is_empty() != (partition.is_empty() || partition.starts_with('[')) {
            self.wrong.push(format!("{id:?}, called `{uuid}`, is in partition `{partition}`"));
        }
    }

    /// The name of an allocation, or of a pending request, in this judge.
    fn called(&self, app: &str, key: &str, uuid: &str) -> Id {
        let own = (app.to_owned(), if uuid.is_empty() { key } else { uuid }.to_owned());
        if !uuid.is_empty() || self.live.get(&own).is_some_and(|live| live.key == key) {
            return own;
        }
        let of_key = self.live.iter().find(|((of, _), live)| of == app && live.key == key);
        of_key.map_or(own, |(id, _)| id.clone())
    }

    /// The name of a new allocation. The RM may have used its key as the UUID of another one.
    fn calls(&mut self, new: &si::Allocation) -> Id {
        let (app, key) = (new.application_id.clone(), &new.allocation_key);
        if !new.uuid.is_empty() {
            return (app, new.uuid.clone());
        }
        let mut id = (app, key.clone());
        if self.live.get(&id).is_some_and(|live| live.key != *key) {
            id.1.push_str(" by its key");
        }
        self.unnamed.insert(id.clone());
        id
    }

    /// Renames allocations that were notified without a UUID to the name shown by the scheduler.
    fn name_as_shown(&mut self, shown: &BTreeMap<Id, Live>) {
        for id in std::mem::take(&mut self.unnamed) {
            let Some(live) = self.live.get(&id).filter(|live| shown.get(&id) != Some(live)) else {
                continue;
            };
            let is_it = |(other, found): &(&Id, &Live)| {
                other.0 == id.0 && *found == live && !self.live.contains_key(*other)
            };
            let Some((name, _)) = shown.iter().find(is_it) else { continue };
            let live = live.clone();
            self.live.remove(&id);
            self.live.insert(name.clone(), live);
            if self.ending.remove(&id) {
                self.ending.insert(name.clone());
            }
        }
    }

    /// Applies an item's effects that need no notification.
    fn apply_effects(&mut self, item: &Item) {
        match item {
            // The release is a confirmation, or reports a failed start: the allocation is removed
            // (and perhaps placed again) without an answer.
            Item::Release { app, which, .. } if self.owed.is_empty() => {
                for id in self.named(app, which) {
                    self.live.remove(&id);
                }
            }
            Item::RemoveApp(app) => {
                self.apps.remove(app);
            }
            Item::RemoveNode(node) => {
                self.nodes.remove(node);
            }
            _ => {}
        }
    }

    /// The releases that must answer an item.
    fn owed_for(&self, item: &Item) -> BTreeSet<Id> {
        let stopped = |kind: i32| {
            !matches!(
                TerminationType::try_from(kind),
                Ok(TerminationType::Timeout
                    | TerminationType::PreemptedByScheduler
                    | TerminationType::PlaceholderReplaced
                    | TerminationType::SchedulingFailedOnRm)
            )
        };
        match item {
            Item::Release { app, which, kind } if stopped(*kind) => self.named(app, which),
            Item::RemoveApp(app) => self.named(app, &Which::All),
            Item::RemoveNode(node) => {
                let here = self.live.iter().filter(|(_, live)| live.node == *node);
                here.map(|(id, _)| id.clone()).collect()
            }
            _ => BTreeSet::new(),
        }
    }

    fn named(&self, app: &str, which: &Which) -> BTreeSet<Id> {
        let all = self.live.iter().filter(|((of, _), _)| of == app);
        let named = all.filter(|((_, uuid), live)| match which {
            Which::All => true,
            Which::Key(key) => live.key == *key,
            Which::Uuid(named) => uuid == named,
        });
        named.map(|(id, _)| id.clone()).collect()
    }

    /// Checks a notification of the scheduler.
    pub(crate) fn receive(&mut self, notification: &Notification) {
        match notification {
            Notification::AppAccepted(id) => {
                self.answers_app(id);
                if self.apps.insert(id.clone(), "New".to_owned()).is_some() && self.strict {
                    self.wrong.push(format!("{id} was active and is accepted again"));
                }
            }
            Notification::AppRejected(id, _) => self.answers_app(id),
            Notification::AppUpdated(app) if app.message == HELD_AGAIN => {
                self.answers_app(&app.application_id);
            }
            Notification::AppUpdated(app) => self.moves(&app.application_id, &app.state),
            Notification::Allocated(new) => {
                let id = self.calls(new);
                self.notes_placed(new, &id.1);
                self.is_answered(&new.application_id, &new.allocation_key);
                let (app, key) = (&new.application_id, &new.allocation_key);
                let names = [&*new.uuid, &*new.allocation_id];
                self.is_in_its_form(app, key, names, &new.partition_name);
                if new.uuid.is_empty() && (new.priority != 0 || !new.allocation_tags.is_empty()) {
                    self.wrong.push(format!("{id:?} repeats what its RM knows"));
                }
                let live = Live { key: new.allocation_key.clone(), node: new.node_id.clone() };
                if self.strict && !self.nodes.contains(&live.node) {
                    self.wrong.push(format!("{id:?} is on an unknown node"));
                }
                // An earlier allocation of this name was removed, with its open release.
                self.ending.remove(&id);
                if self.live.insert(id.clone(), live).is_some() && self.strict {
                    self.wrong.push(format!("{id:?} is placed twice"));
                }
            }
            Notification::Released(gone) => self.releases(gone),
            Notification::AskReleased(gone) => self.ends_ask(gone),
            Notification::AskRejected(ask) => {
                self.rejects(&ask.application_id, &ask.allocation_key);
            }
            Notification::AllocationRejected(ask) => {
                self.rejects(&ask.application_id, &ask.allocation_key);
            }
            Notification::NodeAccepted(id) => {
                self.answers_node(id);
                self.nodes.insert(id.clone());
                self.book_allocations_of(id);
            }
            Notification::NodeRejected(id, _) => self.answers_node(id),
            Notification::Resync(_) => {}
        }
    }

    fn notes_placed(&mut self, new: &si::Allocation, uuid: &str) {
        let amounts = new.resource_per_alloc.iter().flat_map(|amounts| &amounts.resources);
        let names = amounts.filter(|(_, quantity)| quantity.value > 0).map(|(name, _)| name);
        self.placed.push(Placed {
            app: new.application_id.clone(),
            key: new.allocation_key.clone(),
            uuid: uuid.to_owned(),
            node: new.node_id.clone(),
            names: names.cloned().collect(),
        });
    }

    fn answers_app(&mut self, id: &str) {
        answer(&mut self.new_apps, &id.to_owned(), &mut self.wrong);
    }

    fn answers_node(&mut self, id: &str) {
        let unknown_action = |item: &Item| matches!(item, Item::Act { node, .. } if node == id);
        if !self.line_items.iter().any(unknown_action) {
            answer(&mut self.new_nodes, &id.to_owned(), &mut self.wrong);
        }
    }

    fn book_allocations_of(&mut self, node: &str) {
        let holds = self.line_items.iter().find_map(|item| match item {
            Item::Node(words) if words.id == node => Some(words.holds.clone()),
            _ => None,
        });
        for wish in holds.unwrap_or_default() {
            self.recovers(&wish, node);
        }
    }

    fn recovers(&mut self, wish: &Wish, node: &str) {
        self.reported.insert(wish.app.clone());
        let uuid = if wish.uuid.is_empty() { &wish.key } else { &wish.uuid };
        let id = (wish.app.clone(), uuid.clone());
        let live = Live { key: wish.key.clone(), node: node.to_owned() };
        self.live.entry(id).or_insert(live);
    }

    fn rejects(&mut self, app: &str, key: &str) {
        self.is_answered(app, key);
        let id = (app.to_owned(), key.to_owned());
        answer(&mut self.wishes, &id, &mut self.wrong);
        let is_it = |placed: &Placed| placed.app == app && placed.key == key;
        if self.strict && self.placed.iter().any(is_it) {
            self.wrong.push(format!("{id:?} is rejected after an allocation"));
        }
    }

    fn moves(&mut self, id: &str, state: &str) {
        let Some(old) = self.apps.get(id).cloned() else {
            self.wrong.push(format!("{id} is {state} and not active"));
            return;
        };
        let leads = |event| {
            let to = state_of(&old).on(event);
            to == Ok(Transition::To(state_of(state)))
        };
        let events = [
            ApplicationEvent::Run,
            ApplicationEvent::Complete,
            ApplicationEvent::Fail,
            ApplicationEvent::Resume,
        ];
        if !events.into_iter().any(leads) {
            self.wrong
                .push(format!("{id} goes from {old} to {state}, which the diagram does not have"));
        }
        if state_of(state).is_terminated() {
            self.apps.remove(id);
            if self.strict && self.live.keys().any(|(app, _)| app == id) {
                self.wrong.push(format!("{id} is {state} and holds something"));
            }
        } else {
            self.apps.insert(id.to_owned(), state.to_owned());
        }
    }

    fn releases(&mut self, gone: &si::AllocationRelease) {
        let (app, key) = (&gone.application_id, &gone.allocation_key);
        let id = self.called(app, key, &gone.uuid);
        self.is_in_its_form(app, key, [&gone.uuid, &gone.allocation_id], &gone.partition_name);
        self.is_answered(app, key);
        let is_request = gone.allocation_key == id.1 && self.asked.contains(&id);
        match self.live.get(&id) {
            // A request with a key that the RM also used as the UUID of another allocation.
            Some(live) if is_request && live.key != gone.allocation_key => return,
            Some(live) if live.key == gone.allocation_key => {}
            Some(_) => self.wrong.push(format!("{id:?} is released with another key")),
            None if self.strict && !self.asked.contains(&id) && !self.reports(&id) => {
                self.wrong.push(format!("{id:?} is released and does not live"));
            }
            None => {}
        }
        match TerminationType::try_from(gone.termination_type) {
            Ok(TerminationType::StoppedByRm) => {
                self.live.remove(&id);
                self.ending.remove(&id);
                if !self.owed.remove(&id) && !self.owed_asks.remove(&id) && self.strict {
                    self.wrong.push(format!("nobody asked to release {id:?}"));
                }
            }
            Ok(
                TerminationType::Timeout
                | TerminationType::PlaceholderReplaced
                | TerminationType::PreemptedByScheduler,
            ) => {
                if !self.ending.insert(id.clone()) {
                    self.wrong.push(format!("{id:?} is told to end twice"));
                }
            }
            other => self.wrong.push(format!("{id:?} is released with {other:?}")),
        }
    }

    /// Whether this line reports the allocation by its UUID. That has no answer: a placeholder may
    /// have to end at once.
    fn reports(&self, (app, uuid): &Id) -> bool {
        let reports = |item: &Item| match item {
            Item::Exists(wish, _) => wish.app == *app && wish.uuid == *uuid,
            _ => false,
        };
        self.line_items.iter().any(reports)
    }

    /// Checks the end of an ask by the scheduler, which happens only when a gang times out, or with
    /// the application.
    fn ends_ask(&mut self, gone: &si::AllocationAskRelease) {
        let id = (&gone.application_id, &gone.allocation_key);
        self.is_answered(id.0, id.1);
        if gone.termination_type == TerminationType::StoppedByRm as i32 {
            let owned = (id.0.clone(), id.1.clone());
            if !self.owed_asks.remove(&owned) && self.strict {
                self.wrong.push(format!("nobody asked to end the ask {id:?}"));
            }
            return;
        }
        if gone.termination_type != TerminationType::Timeout as i32 {
            let kind = gone.termination_type;
            self.wrong.push(format!("the ask {id:?} ends with {kind}"));
        }
        let state = self.apps.get(&gone.application_id).map(String::as_str);
        if !matches!(state, Some("Resuming" | "Failing")) {
            self.wrong.push(format!("the ask {id:?} ends while its application is {state:?}"));
        }
    }

    /// Checks when the scheduler has nothing left to decide: missing notifications, differences
    /// from the state shown by the scheduler, and decisions that exceeded a limit.
    pub(crate) fn settles(&mut self, facts: &Facts, nodes: &[NodeSnapshot]) -> Vec<String> {
        let line_items = std::mem::take(&mut self.line_items);
        for item in &line_items {
            self.settles_item(item);
        }
        for (id, count) in &self.new_apps {
            self.wrong.push(format!("{count} answers for {id} are missing"));
        }
        for (id, count) in &self.new_nodes {
            self.wrong.push(format!("{count} answers for {id} are missing"));
        }
        for id in std::mem::take(&mut self.owed) {
            self.wrong.push(format!("the release of {id:?} is not answered"));
        }
        for id in std::mem::take(&mut self.owed_asks) {
            self.wrong.push(format!("the request {id:?} went with its application unheard"));
        }
        self.new_apps.clear();
        self.new_nodes.clear();
        self.wishes.clear();
        let shown = shown(nodes);
        self.name_as_shown(&shown);
        self.check_tracked(facts);
        self.check_domains(facts);
        if self.strict {
            self.agrees(&shown, facts);
            self.check_limits(line_items.first(), facts);
        }
        self.live = shown;
        self.apps = facts
            .applications
            .iter()
            .map(|app| (app.id.to_string(), app.state.text().to_owned()))
            .collect();
        self.nodes = nodes.iter().map(|node| node.node_id.clone()).collect();
        let asks = |app: &ApplicationFact| {
            let id = app.id.to_string();
            // To the RM, a placement in flight is pending. Its name is its key until it is placed.
            let own = facts.allocations.iter().filter(|fact| fact.application == app.slot);
            let on_their_way = own.filter(|fact| app.unsettled.contains(&fact.id));
            let pending = app.asks.iter().map(|ask| ask.key.to_string());
            let keys = pending.chain(on_their_way.map(|fact| fact.uuid.to_string()));
            // Members without a request are known to the scheduler only.
            let keys = keys.filter(|key| !key.is_empty());
            keys.map(|key| (id.clone(), key)).collect::<Vec<_>>()
        };
        self.asked = facts.applications.iter().flat_map(asks).collect();
        let shown = self.live.iter().map(|((app, _), live)| (app.clone(), live.key.clone()));
        let known: BTreeSet<Id> = shown.chain(self.asked.iter().cloned()).collect();
        for id in self.open.difference(&known) {
            self.wrong.push(format!("{id:?} has no answer and does not wait"));
        }
        self.open.clone_from(&self.asked);
        self.ending.retain(|id| self.live.contains_key(id));
        self.strict = true;
        self.placed.clear();
        std::mem::take(&mut self.wrong)
    }

    /// A recovered allocation has no answer unless it is rejected.
    fn settles_item(&mut self, item: &Item) {
        let Item::Exists(wish, node) = item else { return };
        if !wish.uuid.is_empty()
            && self.wishes.contains_key(&(wish.app.clone(), wish.key.clone()))
            && self.nodes.contains(node)
            && self.apps.contains_key(&wish.app)
        {
            self.recovers(wish, node);
        }
    }

    fn agrees(&mut self, shown: &BTreeMap<Id, Live>, facts: &Facts) {
        for (id, live) in shown {
            match self.live.get(id) {
                Some(notified) if notified == live => {}
                notified => self.wrong.push(format!("{id:?}: told {notified:?}, shown {live:?}")),
            }
        }
        for id in self.live.keys().filter(|id| !shown.contains_key(*id)) {
            self.wrong.push(format!("{id:?} was told and is not shown"));
        }
        let active: BTreeMap<String, String> = facts
            .applications
            .iter()
            .map(|app| (app.id.to_string(), app.state.text().to_owned()))
            .collect();
        if active != self.apps {
            self.wrong.push(format!("told of {:?}, active are {active:?}", self.apps));
        }
    }

    /// Checks that no decision exceeds a limit of a queue, node, user or group. A check at the end
    /// of the line is enough: decisions only add, so each of them was within the limits. A member
    /// that replaces a placeholder uses capacity charged before, unless it was enlarged in flight,
    /// which no limit prevents.
    fn check_limits(&mut self, item: Option<&Item>, facts: &Facts) {
        let forced = match item {
            Some(Item::Exists(wish, _)) => Some((&wish.app, &wish.key)),
            _ => None,
        };
        for placed in &self.placed {
            if forced == Some((&placed.app, &placed.uuid)) {
                continue;
            }
            let app = facts.applications.iter().find(|fact| *fact.id == *placed.app);
            let node = facts.nodes.iter().find(|fact| *fact.id == *placed.node);
            let (Some(app), Some(node)) = (app, node) else { continue };
            let took_a_place = facts.allocations.iter().any(|fact| {
                fact.application == app.slot
                    && *fact.uuid == *placed.uuid
                    && matches!(fact.pairing, Pairing::Took { .. })
            });
            if took_a_place {
                continue;
            }
            for name in placed.names.iter().filter_map(|name| Name::known(name)) {
                if node.available.get(name) < 0 {
                    let id = &node.id;
                    self.wrong.push(format!("too much {name} was placed on {id}"));
                }
                let mut at = Some(app.leaf);
                while let Some(queue) =
                    at.and_then(|slot| facts.queues.iter().find(|queue| queue.slot == slot))
                {
                    let max = queue.ledger.max.as_ref().and_then(|max| max.find(name));
                    if max.is_some_and(|max| queue.ledger.allocated().get(name) > max) {
                        let path = &queue.config.path;
                        self.wrong.push(format!("{path} is over its {name}"));
                    }
                    at = queue.parent;
                }
                self.wrong.extend(over_limits(app, name, facts));
            }
        }
    }

    /// Checks that every tracked user has usage or a limit, and that the members of a group with a
    /// required topology are in one domain, whether running, waiting for an answer or held, unless
    /// the RM has placed one itself. Checks [`FIXED`] only: another attribute may have changed
    /// since.
    fn check_domains(&mut self, facts: &Facts) {
        for app in facts.applications.iter().filter(|app| !self.reported.contains(&*app.id)) {
            for (group, domain) in app.domains.iter().filter(|(_, domain)| &*domain.key == FIXED) {
                let own = facts.allocations.iter().filter(|fact| fact.application == app.slot);
                let members = own.filter(|fact| {
                    fact.member_of.as_ref().or(fact.place_in.as_ref()) == Some(group)
                });
                for fact in members {
                    let node = facts.nodes.iter().find(|node| node.slot == fact.node);
                    let value = node.and_then(|node| node.attributes.get(FIXED));
                    if value != Some(&*domain.value) {
                        let (id, uuid) = (&app.id, &fact.uuid);
                        self.wrong.push(format!("{id}/{uuid} of {group} is not in {domain}"));
                    }
                }
            }
        }
    }

    fn check_tracked(&mut self, facts: &Facts) {
        let users = facts.users.iter().map(|user| (&user.name, &user.queues, &user.groups));
        let idle = users.filter(|(_, queues, groups)| is_idle(queues) && groups.is_empty());
        let asks = |user: &Arc<str>| facts.applications.iter().any(|app| app.user == *user);
        for (user, ..) in idle.filter(|(user, ..)| !asks(user)) {
            self.wrong.push(format!("{user} is tracked for nothing"));
        }
        for group in &facts.groups {
            if is_idle(&group.queues) && group.applications.is_empty() {
                self.wrong.push(format!("{} is tracked for nothing", group.name));
            }
        }
    }
}

/// Limits of user or group that are exceeded, as shown by the trackers.
fn over_limits(app: &ApplicationFact, name: Name, facts: &Facts) -> Vec<String> {
    let mut wrong = Vec::new();
    let user = facts.users.iter().filter(|user| user.name == app.user);
    let group = facts.groups.iter().filter(|group| Some(&group.name) == app.group.as_ref());
    let user = user.map(|user| (&user.name, &user.queues));
    let mut places: Vec<(&Arc<str>, &PlaceUsage)> =
        user.chain(group.map(|group| (&group.name, &group.queues))).collect();
    while let Some((whose, place)) = places.pop() {
        let max = place.max_resources.as_ref().and_then(|max| max.find(name));
        if max.is_some_and(|max| place.usage.get(name) > max) {
            let path = &place.path;
            wrong.push(format!("{whose} is over its {name} at {path}"));
        }
        let leaf = facts.queues.iter().find(|queue| queue.slot == app.leaf);
        let is_above = |place: &&PlaceUsage| {
            leaf.is_some_and(|leaf| {
                let below = leaf.config.path.strip_prefix(&*place.path);
                below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
        };
        places.extend(place.children.iter().filter(is_above).map(|place| (whose, place)));
    }
    wrong
}

/// Whether neither usage nor a limit exists here or below.
fn is_idle(place: &PlaceUsage) -> bool {
    place.usage.is_empty()
        && place.running.is_empty()
        && place.max_resources.is_none()
        && place.max_applications == 0
        && place.children.iter().all(is_idle)
}

fn answer<K: Ord + Clone + std::fmt::Debug>(
    open: &mut BTreeMap<K, usize>,
    key: &K,
    wrong: &mut Vec<String>,
) {
    match open.get_mut(key) {
        Some(1) => {
            open.remove(key);
        }
        Some(count) => *count -= 1,
        None => wrong.push(format!("{key:?} is answered and was not asked")),
    }
}

fn state_of(text: &str) -> ApplicationState {
    use ApplicationState as State;
    [
        State::New,
        State::Accepted,
        State::Running,
        State::Resuming,
        State::Completing,
        State::Completed,
        State::Failing,
        State::Failed,
        State::Rejected,
        State::Expired,
    ]
    .into_iter()
    .find(|state| state.text() == text)
    .unwrap_or_else(|| panic!("`{text}` is no state"))
}

/// Allocations shown by nodes.
fn shown(nodes: &[NodeSnapshot]) -> BTreeMap<Id, Live> {
    let mut shown = BTreeMap::new();
    for node in nodes {
        // Held places of members are not notified.
        for held in node.allocations.iter().filter(|held| !held.internal) {
            let key = held.allocation_key.clone();
            let uuid = if held.uuid.is_empty() { key.clone() } else { held.uuid.clone() };
            let live = Live { key, node: node.node_id.clone() };
            shown.insert((held.application_id.clone(), uuid), live);
        }
    }
    shown
}
