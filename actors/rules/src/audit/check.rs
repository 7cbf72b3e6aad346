//! Consistency checks of a partition's facts: sums, limits and states.
//!
//! Every sum is kept twice, since the parts and the whole are in different actors: in the queue
//! that has the sum, and in its applications and nodes. A charge that was lost or made twice shows
//! as a difference between the two.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{AllocationFact, ApplicationFact, Facts};
use crate::allocations::Pairing;
use crate::applications::application_state::ApplicationState;
use crate::order::keys::{MIN_PRIORITY, exposed_priority};
use crate::queues::object_state::ObjectState;
use crate::specs::ask::TaskGroup;
use crate::values::ids::{AllocationId, ApplicationSlot};
use crate::values::resources::{Limits, Resources, Sum};

impl Facts {
    /// Returns all differences; empty if the books are right.
    pub fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        self.check_applications(&mut wrong);
        self.check_questions(&mut wrong);
        self.check_nodes(&mut wrong);
        self.check_reservations(&mut wrong);
        self.check_queues(&mut wrong);
        self.check_usage(&mut wrong);
        self.check_held(&mut wrong);
        wrong
    }

    /// Checks that the counts of the quotas are the actual counts.
    fn check_held(&self, wrong: &mut Vec<String>) {
        let Some(held) = self.held else { return };
        let pending = self.applications.iter().map(|application| application.asks.len()).sum();
        for (what, counted, there) in [
            ("applications", held.applications, self.applications.len()),
            ("nodes", held.nodes, self.nodes.len()),
            ("pending asks", held.asks, pending),
        ] {
            if counted != there as u64 {
                wrong.push(format!("quotas count {counted} {what}, and there are {there}"));
            }
        }
    }

    fn check_applications(&self, wrong: &mut Vec<String>) {
        let mut claimed = BTreeSet::new();
        let table = self.table();
        for application in &self.applications {
            let id = &application.id;
            let (mut held, mut placeholders) = (Resources::new(), Resources::new());
            let mut has_real = false;
            for allocation in application.allocations.iter().chain(&application.unsettled) {
                if !claimed.insert(*allocation) {
                    wrong.push(format!("{id}: {allocation:?} is held twice"));
                }
                match table.get(allocation) {
                    Some(fact) if fact.application == application.slot => {
                        if fact.takes_a_place() {
                            continue;
                        }
                        held.add(&fact.resources);
                        let is_booked =
                            fact.question.is_none() && fact.pairing != Pairing::InBundle;
                        has_real |= is_booked && fact.place_in.is_none();
                        if is_booked && fact.place_in.is_some() {
                            placeholders.add(&fact.resources);
                        }
                    }
                    _ => wrong.push(format!("{id}: {allocation:?} is not in the table as its own")),
                }
            }
            same(wrong, "allocated by the application", id, &application.allocated, &held);
            same(wrong, "held by placeholders", id, &application.placeholders, &placeholders);
            self.check_groups_of(application, wrong);
            let mut pending = Sum::default();
            for ask in &application.asks {
                pending.add_times(&ask.resources, i64::from(ask.repeat));
            }
            same_sum(wrong, "pending in the application", id, &application.pending, pending);
            check_bundle_of(application, wrong);
            let highest = application.asks.iter().map(|ask| ask.priority).max();
            if application.priority != highest.unwrap_or(MIN_PRIORITY) {
                wrong.push(format!("{id}: priority {} is not {highest:?}", application.priority));
            }
            let holds = !application.allocations.is_empty();
            let asks = !application.asks.is_empty() || !application.unsettled.is_empty();
            let fits_state = match application.state {
                ApplicationState::Accepted | ApplicationState::Resuming => !has_real,
                ApplicationState::Running => asks || holds,
                ApplicationState::New => !asks && !holds,
                ApplicationState::Completing => !asks && !has_real,
                ApplicationState::Failing => !asks && holds,
                _ => false,
            };
            if !fits_state {
                let state = application.state;
                wrong.push(format!(
                    "{id} is {state} with asks {asks}, holds {holds}, real ones {has_real}"
                ));
            }
        }
        for fact in &self.allocations {
            if fact.is_assumed != fact.is_to_be_assumed() {
                let is = if fact.is_assumed { "is" } else { "is not" };
                wrong.push(format!("{:?} {is} assumed by its RM", fact.id));
            }
            if !claimed.contains(&fact.id) {
                wrong.push(format!("{:?} is in the table and of no application", fact.id));
            }
        }
    }

    /// Checks that each placement that waits for its predicate is in the allocation table, among
    /// the open questions and in its application.
    fn check_questions(&self, wrong: &mut Vec<String>) {
        let asked: BTreeSet<(u64, AllocationId)> = self.questions.iter().copied().collect();
        let waits = |fact: &AllocationFact| Some((fact.question?, fact.id));
        let waiting: BTreeSet<_> = self.allocations.iter().filter_map(waits).collect();
        if asked != waiting {
            wrong.push(format!("questions {asked:?} but waiting {waiting:?}"));
        }
        let n_unbooked = self.applications.iter().map(|app| app.unsettled.len()).sum::<usize>();
        if self.n_booked + n_unbooked != self.allocations.len() {
            let n_there = self.allocations.len();
            wrong.push(format!("{} of {n_there} are booked, {n_unbooked} wait", self.n_booked));
        }
        let of_applications = self.applications.iter().flat_map(|app| &app.unsettled).copied();
        let of_applications: BTreeSet<AllocationId> = of_applications.collect();
        let with_others = self
            .allocations
            .iter()
            .filter(|fact| fact.takes_a_place() || fact.pairing == Pairing::InBundle);
        let on_their_way = waiting.into_iter().map(|(_, id)| id);
        if of_applications != on_their_way.chain(with_others.map(|fact| fact.id)).collect() {
            wrong.push(format!("applications count {of_applications:?} as unsettled"));
        }
    }

    /// Checks that the counted placeholders of each group exist, and that a placeholder and the ask
    /// that takes its place name each other.
    fn check_groups_of(&self, application: &ApplicationFact, wrong: &mut Vec<String>) {
        let id = &application.id;
        let own = || self.allocations.iter().filter(|fact| fact.application == application.slot);
        let mut counted: BTreeMap<&TaskGroup, (u64, BTreeSet<AllocationId>)> = BTreeMap::new();
        for fact in own() {
            let Some(group) = &fact.place_in else { continue };
            let counted = counted.entry(group).or_default();
            counted.0 += 1;
            let is_free = !fact.leaves && fact.pairing == Pairing::None && fact.question.is_none();
            if is_free {
                counted.1.insert(fact.id);
            }
        }
        for ask in application.asks.iter().filter(|ask| ask.placeholder) {
            if let Some(group) = &ask.task_group {
                counted.entry(group).or_default().0 += u64::from(ask.repeat);
            }
        }
        self.check_members(application, wrong);
        for (name, group) in &application.task_groups {
            let (there, free) = counted.remove(name).unwrap_or_default();
            if group.count != there + group.replaced + group.timed_out {
                wrong.push(format!("{id}: {there} placeholders of {name}, counted {group:?}"));
            }
            if !group.free.values().copied().collect::<BTreeSet<_>>().eq(&free) {
                wrong.push(format!("{id}: free in {name} are {free:?}, not {:?}", group.free));
            }
        }
        if !counted.is_empty() {
            wrong.push(format!("{id}: uncounted placeholders {counted:?}"));
        }
        // No placeholder may hold a place without end. A placeholder that gives way stays until the
        // answer about its member.
        let waits = |fact: &AllocationFact| {
            let gives_way = matches!(fact.pairing, Pairing::GivesWay(_));
            fact.place_in.is_some() && fact.question.is_none() && !fact.leaves && !gives_way
        };
        let in_flight = application.bundle.as_ref().is_some_and(|bundle| bundle.in_flight);
        let may_end = application.state != ApplicationState::Failing && !in_flight;
        if may_end && own().any(waits) && !application.has_placeholder_timer {
            wrong.push(format!("{id}: no deadline of its placeholders"));
        }
        if application.has_placeholder_timer && application.placeholders.is_zero() {
            wrong.push(format!("{id}: a deadline without placeholders"));
        }
        let table = self.table();
        for fact in own() {
            let is_mutual = match fact.pairing {
                Pairing::Takes { placeholder, .. } => table.get(&placeholder).is_some_and(|other| {
                    other.pairing == Pairing::GivesWay(fact.id)
                        && other.application == fact.application
                        && other.place_in.is_some()
                        && other.place_in == fact.member_of
                        && other.leaves == fact.question.is_none()
                }),
                Pairing::GivesWay(real) => table.get(&real).is_some_and(|other| {
                    matches!(other.pairing, Pairing::Takes { placeholder, .. } if placeholder == fact.id)
                }),
                Pairing::None | Pairing::Took { .. } | Pairing::InBundle => true,
            };
            if !is_mutual {
                wrong.push(format!("{id}: {fact:?} is paired with nobody"));
            }
        }
    }

    fn check_nodes(&self, wrong: &mut Vec<String>) {
        let mut total = Resources::new();
        let mut allocated = Resources::new();
        let mut held = BTreeSet::new();
        let table = self.table();
        for node in &self.nodes {
            let id = &node.id;
            let mut sum = Resources::new();
            for allocation in &node.holds {
                if !held.insert(*allocation) {
                    wrong.push(format!("{allocation:?} is on two nodes"));
                }
                match table.get(allocation) {
                    Some(fact) if fact.node == node.slot => sum.add(&fact.resources),
                    _ => wrong.push(format!("{id}: {allocation:?} is not in the table as here")),
                }
            }
            same(wrong, "allocated on the node", id, &node.allocated, &sum);
            let left = node.total.minus(&node.allocated).minus(&node.others);
            same(wrong, "available on the node", id, &node.available, &left);
            match self.index.iter().find(|fact| fact.slot == node.slot) {
                Some(fact) => {
                    let kept = self.nominations.kept(node.slot).unwrap_or_default();
                    let shown = node.available.minus(&kept).pruned();
                    same(wrong, "index, available", id, &fact.available, &shown);
                    if fact.open != node.open {
                        wrong
                            .push(format!("index: {id} open {} but node {}", fact.open, node.open));
                    }
                }
                None => wrong.push(format!("index: {id} is missing")),
            }
            total.add(&node.total);
            allocated.add(&node.allocated);
        }
        let root = self.root_path();
        same(wrong, "total of all nodes", &root, &self.capacity, &total);
        if self.index.len() != self.nodes.len() {
            wrong.push("index and nodes differ in number".to_owned());
        }
        let on_nodes = self.allocations.iter().filter(|fact| fact.is_on_node());
        if held.len() != on_nodes.count() {
            wrong.push("allocations and what nodes hold differ in number".to_owned());
        }
        if let Some(root) = self.queue(0) {
            let path = &root.config.path;
            // A member that is to be placed on another node than its placeholder's holds its amount
            // on that node alone.
            let elsewhere = self.allocations.iter().filter(|fact| fact.takes_a_place());
            for fact in elsewhere.filter(|fact| fact.is_on_node()) {
                allocated.subtract(&fact.resources);
            }
            same(
                wrong,
                "allocated by root, on the nodes",
                path,
                root.ledger.allocated(),
                &allocated,
            );
            let shown = root.ledger.capacity.as_ref().map(Limits::as_resources).unwrap_or_default();
            same(wrong, "capacity of root", path, &shown, &total);
        }
    }

    /// Checks that each reservation is in the table and in its ask, that the node index has set
    /// aside exactly the reserved nodes, and that a node has one reservation, or any number by asks
    /// that require it.
    fn check_reservations(&self, wrong: &mut Vec<String>) {
        let mut of_asks: BTreeSet<(ApplicationSlot, &Arc<str>)> = BTreeSet::new();
        for application in &self.applications {
            let reserved = application.asks.iter().filter(|ask| ask.is_reserved);
            of_asks.extend(reserved.map(|ask| (application.slot, &ask.key)));
            let in_table = self.reservations.iter().filter(|it| it.application == application.slot);
            let suspended = in_table.clone().filter(|it| it.is_suspended).count();
            if suspended != application.suspended {
                let (id, counted) = (&application.id, application.suspended);
                wrong.push(format!("{id} counts {counted} suspended reservations"));
            }
            if in_table.count() != application.reserved {
                let (id, counted) = (&application.id, application.reserved);
                wrong.push(format!("{id} counts {counted} asks with a node reserved"));
            }
        }
        let mut in_table = BTreeSet::new();
        for it in &self.reservations {
            let (key, named) = (&it.key, (it.application, &it.key));
            if !in_table.insert(named) {
                wrong.push(format!("{key} has reserved two nodes"));
            }
            // An ask whose last instance waits for a predicate is not among the pending ones.
            let application = self.applications.iter().find(|a| a.slot == it.application);
            let is_unsettled = application.is_some_and(|a| !a.unsettled.is_empty());
            if !of_asks.contains(&named) && !is_unsettled {
                wrong.push(format!(
                    "{key} has reserved a node and does not know, or is not pending"
                ));
            }
            let Some(node) = self.nodes.iter().find(|node| node.slot == it.node) else {
                wrong.push(format!("{key} has reserved a node that is not there"));
                continue;
            };
            let is_required = it.required_node.as_ref();
            if is_required.is_some_and(|required| *required != node.id) {
                wrong.push(format!("{key} has reserved {} and requires another", node.id));
            }
            if !node.total.holds(&it.resources) {
                wrong.push(format!("{key} has reserved {}, which is too small", node.id));
            }
            let others = self.reservations.iter().filter(|other| other.node == it.node);
            if is_required.is_none() && others.count() > 1 {
                wrong.push(format!("{key} has reserved {}, and others have, too", node.id));
            }
        }
        if let Some((_, key)) = of_asks.difference(&in_table).next() {
            wrong.push(format!("{key} is marked as having a node reserved, and has none"));
        }
        for node in &self.index {
            let mut protected = self.reservations.iter().filter(|it| !it.is_suspended);
            let is_reserved = protected.any(|it| it.node == node.slot);
            if node.reserved != is_reserved {
                wrong.push(format!("index: {:?} reserved {}", node.slot, node.reserved));
            }
        }
    }

    fn check_queues(&self, wrong: &mut Vec<String>) {
        for queue in &self.queues {
            let path = &queue.config.path;
            let (mut allocated, mut pending) = (Resources::new(), Sum::default());
            let (mut running, mut starting) = (0, 0);
            let mut priority = MIN_PRIORITY;
            let mut is_empty = true;
            if queue.config.is_leaf {
                for application in self.applications.iter().filter(|a| a.leaf == queue.slot) {
                    is_empty = false;
                    allocated.add(&application.allocated);
                    pending.add_sum(&application.pending);
                    running += u64::from(application.state == ApplicationState::Running);
                    starting += u64::from(application.may_run_soon());
                    priority = priority.max(application.priority);
                }
            } else {
                for child in self.children(queue.slot) {
                    is_empty = false;
                    allocated.add(child.ledger.allocated());
                    pending.add_sum(child.ledger.pending());
                    running += child.ledger.running();
                    starting += child.ledger.starting();
                    priority = priority.max(child.priority);
                }
            }
            if is_empty && queue.state == ObjectState::Draining {
                wrong.push(format!("{path} drains and has nothing to wait for"));
            }
            let (ledger, config) = (&queue.ledger, &queue.config);
            let limits = ledger.max == config.max;
            let guarantees = ledger.guaranteed == config.guaranteed;
            if !limits || !guarantees || ledger.max_running != config.max_applications {
                wrong.push(format!("{path} is not limited as configured"));
            }
            same(wrong, "allocated by the queue", path, queue.ledger.allocated(), &allocated);
            same_sum(wrong, "pending in the queue", path, queue.ledger.pending(), pending);
            if queue.ledger.running() != running {
                wrong.push(format!("{path} counts {} as running", queue.ledger.running()));
            }
            if queue.ledger.starting() != starting {
                wrong.push(format!("{path} counts {} as starting", queue.ledger.starting()));
            }
            let settings = &queue.config.settings;
            let exposed =
                exposed_priority(priority, settings.priority_policy, settings.priority_offset);
            if exposed != queue.priority {
                wrong.push(format!("{path} shows priority {} not {exposed}", queue.priority));
            }
            for amount in [queue.ledger.allocated(), queue.ledger.pending().shown()] {
                if amount.has_negative() || amount.entries().any(|(_, q)| q == 0) {
                    wrong.push(format!("not above zero: {path} counts {amount}"));
                }
            }
        }
    }
}

/// Checks that an undecided gang has an internal ask for every member with a size that its RM has
/// not asked for, and a decided gang none.
fn check_bundle_of(application: &ApplicationFact, wrong: &mut Vec<String>) {
    let sum = |group: &TaskGroup, internal: bool| -> u32 {
        let of_group = application.asks.iter().filter(|ask| ask.task_group.as_ref() == Some(group));
        of_group.filter(|ask| ask.internal == internal).map(|ask| ask.repeat).sum()
    };
    let id = &application.id;
    let Some(bundle) = &application.bundle else {
        if application.asks.iter().any(|ask| ask.internal) {
            wrong.push(format!("{id}: something is asked for internally of a gang with places"));
        }
        return;
    };
    if bundle.in_flight {
        return;
    }
    for (group, needed) in bundle.groups.iter().filter(|(group, _)| bundle.sized.contains(group)) {
        let (real, internal) = (sum(group, false), sum(group, true));
        if internal != needed.saturating_sub(real) {
            wrong
                .push(format!("{id}: {group} of {needed} has {real} asks and {internal} internal"));
        }
    }
}

/// Compares exact sums, before they are limited to the range of a quantity as amounts are.
fn same_sum(wrong: &mut Vec<String>, what: &str, whose: &Arc<str>, is: &Sum, mut should: Sum) {
    should.prune();
    if *is != should {
        wrong.push(format!("{what}: {whose} has {is:?}, the sum is {should:?}"));
    }
}

pub(super) fn same(
    wrong: &mut Vec<String>,
    what: &str,
    whose: &Arc<str>,
    is: &Resources,
    should: &Resources,
) {
    if !is.same_amount(should) {
        wrong.push(format!("{what}: {whose} has {is}, the sum is {should}"));
    }
}
