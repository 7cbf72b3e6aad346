//! The books compared with a full search: what the bounds, the tree and the running totals must
//! agree with.
//!
//! [`Facts`] is what every actor says of itself between two steps. [`Facts::check`] verifies the
//! sums and limits of the applications chapter, section 12; [`Facts::next_decision`] is the reference
//! scheduler: it sorts everything anew, looks at every ask and every node, and knows nothing of
//! bounds, marks or headroom that travels. Tests compare every decision and every silence with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::allocations::{AllocationId, ApplicationSlot};
use crate::application_state::ApplicationState;
use crate::asks::Asks;
use crate::books::Books;
use crate::config::QueueConfig;
use crate::ledger::{self, QueueLedger};
use crate::nodes::NodeSlot;
use crate::object_state::ObjectState;
use crate::order::{
    ApplicationKey, ApplicationView, AskKey, MIN_PRIORITY, QueueKey, QueueView, exposed_priority,
};
use crate::resources::{Limits, Resources};

/// What a queue says of itself.
#[derive(Clone, Debug)]
pub struct QueueFact {
    /// Its place in the directory; root is 0.
    pub slot: u32,
    /// Its parent's place.
    pub parent: Option<u32>,
    /// Its totals.
    pub ledger: QueueLedger,
    /// What its parent sees of its priority.
    pub priority: i32,
    /// As configured.
    pub config: Arc<QueueConfig>,
    /// Whether it still is.
    pub state: ObjectState,
    /// What its share is measured against.
    pub fair_max: Option<Limits>,
}

/// What an application says of itself.
#[derive(Clone, Debug)]
pub struct ApplicationFact {
    /// Its place in the directory.
    pub slot: ApplicationSlot,
    /// As submitted.
    pub id: Arc<str>,
    /// Place of its leaf.
    pub leaf: u32,
    /// Its state.
    pub state: ApplicationState,
    /// ns since the epoch.
    pub submitted_ns: i64,
    /// What it holds.
    pub allocated: Resources,
    /// What it asks for.
    pub pending: Resources,
    /// Of what is pending.
    pub priority: i32,
    /// Its allocations.
    pub allocations: Vec<AllocationId>,
    /// Its placements that wait for their predicate.
    pub unsettled: Vec<AllocationId>,
    /// Its pending asks.
    pub asks: Vec<AskFact>,
}

/// A pending ask.
#[derive(Clone, Debug)]
pub struct AskFact {
    /// The RM's key.
    pub key: Arc<str>,
    /// Per allocation.
    pub resources: Resources,
    /// Outstanding.
    pub repeat: u32,
    /// Higher is more important.
    pub priority: i32,
    /// ns since the epoch.
    pub created_ns: i64,
    /// Order of arrival.
    pub sequence: u64,
    /// The only node it may use.
    pub required_node: Option<Arc<str>>,
}

impl ApplicationFact {
    /// See [`crate::application::Application::may_run_soon`].
    fn may_run_soon(&self) -> bool {
        self.state == ApplicationState::Accepted && !self.unsettled.is_empty()
    }

    /// The pending ones of an application's asks.
    pub fn asks(asks: &Asks) -> Vec<AskFact> {
        let pending = asks.iter().filter(|ask| ask.repeat > 0);
        let fact = |ask: &crate::asks::Ask| AskFact {
            key: Arc::clone(&ask.key),
            resources: ask.resources().clone(),
            repeat: ask.repeat,
            priority: ask.priority(),
            created_ns: ask.created_ns,
            sequence: ask.sequence,
            required_node: ask.required_node().cloned(),
        };
        pending.map(fact).collect()
    }
}

/// What a node says of itself.
#[derive(Clone, Debug)]
pub struct NodeFact {
    /// Its place in the index.
    pub slot: NodeSlot,
    /// Its id.
    pub id: Arc<str>,
    /// Its capacity.
    pub total: Resources,
    /// By this scheduler.
    pub allocated: Resources,
    /// By anybody else.
    pub others: Resources,
    /// What is left, without zero entries.
    pub available: Resources,
    /// Its allocations.
    pub holds: Vec<AllocationId>,
    /// Whether it takes new allocations.
    pub open: bool,
}

/// What the books say of an allocation.
#[derive(Clone, Debug)]
pub struct AllocationFact {
    /// Its id.
    pub id: AllocationId,
    /// Whose it is.
    pub application: ApplicationSlot,
    /// Where it is.
    pub node: NodeSlot,
    /// What it holds.
    pub resources: Resources,
    /// The question whose answer it waits for.
    pub question: Option<u64>,
}

/// What the node index says of a node.
#[derive(Clone, Debug)]
pub struct IndexFact {
    /// Its place.
    pub slot: NodeSlot,
    /// Its score.
    pub score: f64,
    /// What is left.
    pub available: Resources,
    /// Whether it is searched.
    pub open: bool,
}

/// A partition between two steps. See the module.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Of every queue.
    pub queues: Vec<QueueFact>,
    /// Of every active application.
    pub applications: Vec<ApplicationFact>,
    /// Of every node.
    pub nodes: Vec<NodeFact>,
    /// From the table.
    pub allocations: Vec<AllocationFact>,
    /// Open questions, each with the placement it is about.
    pub questions: Vec<(u64, AllocationId)>,
    /// From the index.
    pub index: Vec<IndexFact>,
    /// Sum of capacities according to the index.
    pub capacity: Resources,
}

/// What comes next: an ask of an application goes to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The application's id.
    pub application: Arc<str>,
    /// The ask's key.
    pub key: Arc<str>,
    /// The node's id.
    pub node: Arc<str>,
}

impl Facts {
    /// Adds what the books know.
    pub fn take_books(&mut self, books: &Books) {
        self.allocations = books
            .allocations
            .iter()
            .map(|(id, entry)| AllocationFact {
                id,
                application: entry.application,
                node: entry.node,
                resources: entry.resources.clone(),
                question: entry.question,
            })
            .collect();
        let questions = books.unsettled.iter();
        self.questions =
            questions.map(|(number, question)| (number, question.allocation)).collect();
        self.index = books
            .nodes
            .by_id()
            .map(|slot| IndexFact {
                slot,
                score: books.nodes.score(slot),
                available: books.nodes.available(slot).clone().pruned(),
                open: books.nodes.is_open(slot),
            })
            .collect();
        self.capacity = books.nodes.capacity().clone();
    }

    /// Everything that does not agree; empty when the books are right (section 12, invariants 1–5,
    /// 7, 8, 13, 14).
    pub fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        self.check_applications(&mut wrong);
        self.check_questions(&mut wrong);
        self.check_nodes(&mut wrong);
        self.check_queues(&mut wrong);
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
            same(wrong, "invariant 1, allocated", id, &application.allocated, &held);
            let mut pending = Resources::new();
            for ask in &application.asks {
                pending.add(&ask.resources.times(i64::from(ask.repeat)));
            }
            same(wrong, "invariant 1, pending", id, &application.pending, &pending);
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
                wrong
                    .push(format!("invariant 21: {id} is {state} with asks {asks}, holds {holds}"));
            }
        }
        for fact in &self.allocations {
            if !claimed.contains(&fact.id) {
                wrong.push(format!("{:?} is in the table and of no application", fact.id));
            }
        }
    }

    /// What waits for its predicate is one thing in the table, among the questions and in its
    /// application.
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
                    wrong.push(format!("invariant 14: {allocation:?} is on two nodes"));
                }
                match table.get(allocation) {
                    Some(fact) if fact.node == node.slot => sum.add(&fact.resources),
                    _ => wrong.push(format!("{id}: {allocation:?} is not in the table as here")),
                }
            }
            same(wrong, "invariant 3, allocated", id, &node.allocated, &sum);
            let left = node.total.minus(&node.allocated).minus(&node.others);
            same(wrong, "invariant 3, available", id, &node.available, &left);
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
        same(wrong, "invariant 5, total", &root, &self.capacity, &total);
        if self.index.len() != self.nodes.len() {
            wrong.push("index and nodes differ in number".to_owned());
        }
        if held.len() != self.allocations.len() {
            wrong.push("invariant 5: allocations and what nodes hold differ in number".to_owned());
        }
        if let Some(root) = self.queue(0) {
            let path = &root.config.path;
            same(wrong, "invariant 4", path, root.ledger.allocated(), &allocated);
            let max = root.ledger.max.as_ref().map(Limits::as_resources).unwrap_or_default();
            same(wrong, "invariant 5, root max", path, &max, &total);
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
            same(wrong, "invariant 2, allocated", path, queue.ledger.allocated(), &allocated);
            same(wrong, "invariant 2, pending", path, queue.ledger.pending(), &pending);
            if queue.ledger.running() != running {
                wrong.push(format!("invariant 11: {path} counts {}", queue.ledger.running()));
            }
            if queue.ledger.starting() != starting {
                wrong.push(format!("{path} counts {} as starting", queue.ledger.starting()));
            }
            let settings = &queue.config.settings;
            let exposed =
                exposed_priority(priority, settings.priority_policy, settings.priority_offset);
            if exposed != queue.priority {
                wrong.push(format!("invariant 23: {path} has {} not {exposed}", queue.priority));
            }
            for amount in [queue.ledger.allocated(), queue.ledger.pending()] {
                if amount.has_negative() || amount.entries().any(|(_, q)| q == 0) {
                    wrong.push(format!("invariant 7: {path} counts {amount}"));
                }
            }
        }
    }

    /// What a search of everything decides next; `passes` are the RM's predicates by ask key and
    /// node id. `None`: nothing can be placed.
    pub fn next_decision(
        &self,
        passes: &dyn Fn(&str, &str) -> bool,
        order: &crate::nodes::NodeOrder,
    ) -> Option<Decision> {
        if self.nodes.is_empty() {
            return None;
        }
        let mut nodes: Vec<&NodeFact> = self.nodes.iter().collect();
        nodes.sort_by(|a, b| {
            let score = |node: &NodeFact| order.score(&node.total, &node.available);
            score(a).total_cmp(&score(b)).then_with(|| a.id.cmp(&b.id))
        });
        let search = Search { facts: self, nodes, passes };
        search.queue(self.queue(0)?, &Limits::unlimited(), true)
    }

    fn table(&self) -> BTreeMap<AllocationId, &AllocationFact> {
        self.allocations.iter().map(|fact| (fact.id, fact)).collect()
    }

    fn queue(&self, slot: u32) -> Option<&QueueFact> {
        self.queues.iter().find(|queue| queue.slot == slot)
    }

    fn children(&self, slot: u32) -> impl Iterator<Item = &QueueFact> {
        self.queues.iter().filter(move |queue| queue.parent == Some(slot))
    }

    fn root_path(&self) -> Arc<str> {
        self.queue(0).map_or_else(|| Arc::from("root"), |root| Arc::clone(&root.config.path))
    }
}

/// A full search under way.
struct Search<'a> {
    facts: &'a Facts,
    /// In the order of the policy.
    nodes: Vec<&'a NodeFact>,
    passes: &'a dyn Fn(&str, &str) -> bool,
}

impl Search<'_> {
    fn queue(&self, queue: &QueueFact, above: &Limits, may_start: bool) -> Option<Decision> {
        let mut headroom = above.clone();
        if let Some(max) = &queue.ledger.max {
            headroom.narrow(&max.less(queue.ledger.allocated()));
        }
        let limit = queue.ledger.max_running;
        let counted = queue.ledger.running() + queue.ledger.starting();
        let may_start = may_start && (limit == 0 || counted < limit);
        if queue.config.is_leaf {
            return self.leaf(queue, &headroom, may_start);
        }
        let mut children: Vec<(QueueKey, &QueueFact)> = self
            .facts
            .children(queue.slot)
            .filter(|child| child.ledger.pending().is_positive())
            .map(|child| (self.queue_key(queue, child), child))
            .collect();
        children.sort_by(|a, b| a.0.cmp(&b.0));
        children.into_iter().find_map(|(_, child)| self.queue(child, &headroom, may_start))
    }

    fn queue_key(&self, parent: &QueueFact, child: &QueueFact) -> QueueKey {
        QueueKey::new(
            parent.config.settings.priority_sort,
            &QueueView {
                priority: child.priority,
                allocated: child.ledger.allocated(),
                guaranteed: child.config.guaranteed.as_ref(),
                fair_max: self.fair_max(child).as_ref(),
                pending: child.ledger.pending(),
                path: &child.config.path,
            },
        )
    }

    fn fair_max(&self, queue: &QueueFact) -> Option<Limits> {
        match queue.parent.and_then(|parent| self.facts.queue(parent)) {
            None => queue.ledger.max.clone(),
            Some(parent) => {
                ledger::fair_max(self.fair_max(parent).as_ref(), queue.config.max.as_ref())
            }
        }
    }

    fn leaf(&self, leaf: &QueueFact, headroom: &Limits, may_start: bool) -> Option<Decision> {
        let settings = &leaf.config.settings;
        let mut applications: BTreeMap<ApplicationKey, &ApplicationFact> = BTreeMap::new();
        for application in self.facts.applications.iter().filter(|a| a.leaf == leaf.slot) {
            let starts =
                application.state == ApplicationState::Accepted && application.unsettled.is_empty();
            if !application.pending.is_positive() || (starts && !may_start) {
                continue;
            }
            let view = ApplicationView {
                priority: application.priority,
                submitted: application.submitted_ns,
                allocated: &application.allocated,
                guaranteed: leaf.config.guaranteed.as_ref(),
                id: &application.id,
            };
            let key = ApplicationKey::new(settings.sort_policy, settings.priority_sort, &view);
            applications.insert(key, application);
        }
        applications.into_values().find_map(|application| self.application(application, headroom))
    }

    fn application(&self, application: &ApplicationFact, headroom: &Limits) -> Option<Decision> {
        let mut asks: Vec<&AskFact> = application.asks.iter().collect();
        asks.sort_by_key(|ask| AskKey::new(ask.priority, ask.created_ns, ask.sequence));
        for ask in asks {
            if !headroom.allows(&ask.resources) {
                continue;
            }
            let fits = |node: &&&NodeFact| {
                let may_come = match &ask.required_node {
                    Some(required) => *required == node.id,
                    None => node.open,
                };
                may_come
                    && node.total.holds(&ask.resources)
                    && node.available.holds(&ask.resources)
                    && (self.passes)(&ask.key, &node.id)
            };
            if let Some(node) = self.nodes.iter().find(fits) {
                return Some(Decision {
                    application: Arc::clone(&application.id),
                    key: Arc::clone(&ask.key),
                    node: Arc::clone(&node.id),
                });
            }
        }
        None
    }
}

fn same(wrong: &mut Vec<String>, what: &str, whose: &Arc<str>, is: &Resources, should: &Resources) {
    if !is.same_amount(should) {
        wrong.push(format!("{what}: {whose} has {is}, the sum is {should}"));
    }
}
