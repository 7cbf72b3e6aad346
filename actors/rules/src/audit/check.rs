//! Whether the facts of a partition agree with each other: sums, limits and states.
//!
//! Every sum is kept twice, since the parts and the whole live in different actors: what a queue
//! says it holds, and what its applications and nodes say. A charge that was lost or made twice
//! shows as a difference between the two.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{AllocationFact, Facts};
use crate::order::keys::{MIN_PRIORITY, exposed_priority};
use crate::queues::object_state::ObjectState;
use crate::values::resources::{Limits, Resources};
use crate::work::allocations::AllocationId;
use crate::work::application_state::ApplicationState;

impl Facts {
    /// Everything that does not agree; empty when the books are right.
    pub fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        self.check_applications(&mut wrong);
        self.check_questions(&mut wrong);
        self.check_nodes(&mut wrong);
        self.check_queues(&mut wrong);
        self.check_usage(&mut wrong);
        wrong
    }

    fn check_applications(&self, wrong: &mut Vec<String>) {
        let mut claimed = BTreeSet::new();
        let table = self.table();
        for application in &self.applications {
            let id = &application.id;
            let mut held = Resources::new();
            for allocation in application.allocations.iter().chain(&application.unsettled) {
                if !claimed.insert(*allocation) {
                    wrong.push(format!("{id}: {allocation:?} is held twice"));
                }
                match table.get(allocation) {
                    Some(fact) if fact.application == application.slot => {
                        held.add(&fact.resources);
                    }
                    _ => wrong.push(format!("{id}: {allocation:?} is not in the table as its own")),
                }
            }
            same(wrong, "allocated by the application", id, &application.allocated, &held);
            let mut pending = Resources::new();
            for ask in &application.asks {
                pending.add(&ask.resources.times(i64::from(ask.repeat)));
            }
            same(wrong, "pending in the application", id, &application.pending, &pending);
            let highest = application.asks.iter().map(|ask| ask.priority).max();
            if application.priority != highest.unwrap_or(MIN_PRIORITY) {
                wrong.push(format!("{id}: priority {} is not {highest:?}", application.priority));
            }
            let holds = !application.allocations.is_empty();
            let asks = !application.asks.is_empty() || !application.unsettled.is_empty();
            let fits_state = match application.state {
                ApplicationState::Accepted => !holds,
                ApplicationState::Running => asks || holds,
                ApplicationState::New | ApplicationState::Completing => !asks && !holds,
                ApplicationState::Failing => !asks,
                _ => false,
            };
            if !fits_state {
                let state = application.state;
                wrong.push(format!("{id} is {state} with asks {asks}, holds {holds}"));
            }
        }
        for fact in &self.allocations {
            if !claimed.contains(&fact.id) {
                wrong.push(format!("{:?} is in the table and of no application", fact.id));
            }
        }
    }

    /// Each placement that waits for its predicate stands in the allocation table, among the open
    /// questions and in its application.
    fn check_questions(&self, wrong: &mut Vec<String>) {
        let asked: BTreeSet<(u64, AllocationId)> = self.questions.iter().copied().collect();
        let waits = |fact: &AllocationFact| Some((fact.question?, fact.id));
        let waiting: BTreeSet<_> = self.allocations.iter().filter_map(waits).collect();
        if asked != waiting {
            wrong.push(format!("questions {asked:?} but waiting {waiting:?}"));
        }
        let of_applications = self.applications.iter().flat_map(|app| &app.unsettled).copied();
        let of_applications: BTreeSet<AllocationId> = of_applications.collect();
        if of_applications != waiting.into_iter().map(|(_, id)| id).collect() {
            wrong.push(format!("applications count {of_applications:?} as unsettled"));
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
                    same(wrong, "index, available", id, &fact.available, &node.available);
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
        if held.len() != self.allocations.len() {
            wrong.push("allocations and what nodes hold differ in number".to_owned());
        }
        if let Some(root) = self.queue(0) {
            let path = &root.config.path;
            same(
                wrong,
                "allocated by root, on the nodes",
                path,
                root.ledger.allocated(),
                &allocated,
            );
            let max = root.ledger.max.as_ref().map(Limits::as_resources).unwrap_or_default();
            same(wrong, "maximum of root", path, &max, &total);
        }
    }

    fn check_queues(&self, wrong: &mut Vec<String>) {
        for queue in &self.queues {
            let path = &queue.config.path;
            let (mut allocated, mut pending) = (Resources::new(), Resources::new());
            let (mut running, mut starting) = (0, 0);
            let mut priority = MIN_PRIORITY;
            let mut is_empty = true;
            if queue.config.is_leaf {
                for application in self.applications.iter().filter(|a| a.leaf == queue.slot) {
                    is_empty = false;
                    allocated.add(&application.allocated);
                    pending.add(&application.pending);
                    running += u64::from(application.state == ApplicationState::Running);
                    starting += u64::from(application.may_run_soon());
                    priority = priority.max(application.priority);
                }
            } else {
                for child in self.children(queue.slot) {
                    is_empty = false;
                    allocated.add(child.ledger.allocated());
                    pending.add(child.ledger.pending());
                    running += child.ledger.running();
                    starting += child.ledger.starting();
                    priority = priority.max(child.priority);
                }
            }
            if is_empty && queue.state == ObjectState::Draining {
                wrong.push(format!("{path} drains and has nothing to wait for"));
            }
            let (ledger, config) = (&queue.ledger, &queue.config);
            let limits = queue.parent.is_none() || ledger.max == config.max;
            let guarantees = ledger.guaranteed == config.guaranteed;
            if !limits || !guarantees || ledger.max_running != config.max_applications {
                wrong.push(format!("{path} is not limited as configured"));
            }
            same(wrong, "allocated by the queue", path, queue.ledger.allocated(), &allocated);
            same(wrong, "pending in the queue", path, queue.ledger.pending(), &pending);
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
            for amount in [queue.ledger.allocated(), queue.ledger.pending()] {
                if amount.has_negative() || amount.entries().any(|(_, q)| q == 0) {
                    wrong.push(format!("not above zero: {path} counts {amount}"));
                }
            }
        }
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
