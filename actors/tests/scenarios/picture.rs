//! The state that a resource manager reports to a restarted scheduler: its nodes, its active
//! applications as submitted, its allocations and its pending asks. A random history recovers at
//! any moment; afterwards allocations must be charged as before.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use monoceros_actors::snapshot::{AllocationSnapshot, NodeSnapshot};
use monoceros_rules::allocations::Pairing;
use monoceros_rules::audit::{AllocationFact, ApplicationFact, Facts};
use monoceros_rules::values::resources::Resources;

use crate::recording_callback::Notification;
use crate::script::{Amounts, Item, NodeWords, Wish};

/// Applications of an RM by id, as submitted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Submitted {
    /// Applications without an answer.
    asked: BTreeMap<String, Item>,
    accepted: BTreeMap<String, Item>,
}

impl Submitted {
    /// Records an item of the RM.
    pub(crate) fn sent(&mut self, item: &Item) {
        if let Item::App { id, .. } = item {
            self.asked.entry(id.clone()).or_insert_with(|| item.clone());
        }
    }

    /// Records a notification of the scheduler.
    pub(crate) fn receive(&mut self, notification: &Notification) {
        match notification {
            Notification::AppAccepted(id) => self.accepted.extend(self.asked.remove_entry(id)),
            Notification::AppRejected(id, _) => drop(self.asked.remove(id)),
            _ => {}
        }
    }
}

/// Amounts charged for an application: in all, and for its placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Charged {
    all: Resources,
    placeholders: Resources,
}

/// The state to be reported.
#[derive(Debug)]
pub(crate) struct Picture {
    applications: BTreeMap<String, Item>,
    nodes: Vec<NodeWords>,
    /// Allocations with their nodes.
    runs: Vec<(Wish, String)>,
    asks: Vec<Wish>,
    charged: BTreeMap<String, Charged>,
    /// Whether allocations are reported together with their node.
    with_nodes: bool,
}

impl Picture {
    pub(crate) fn of(
        facts: &Facts,
        nodes: &[NodeSnapshot],
        known: &Submitted,
        number: u64,
    ) -> Self {
        let mut applications = BTreeMap::new();
        let (mut asks, mut charged) = (BTreeMap::new(), BTreeMap::new());
        for fact in &facts.applications {
            let id = fact.id.to_string();
            let Some(item) = known.accepted.get(&id) else { continue };
            applications.insert(id.clone(), item.clone());
            charged.insert(id.clone(), runs_of(fact, facts));
            asks_of(fact, facts, &mut asks);
        }
        let mut runs: Vec<_> = nodes
            .iter()
            .flat_map(|node| &node.allocations)
            // The RM does not know the held places of the scheduler.
            .filter(|held| !held.internal)
            .map(|held| (wish_of(held), held.node_id.clone()))
            .collect();
        runs.sort_by_key(|(wish, _)| shuffled(number, (&wish.app, &wish.uuid)));
        let mut asks: Vec<Wish> = asks.into_values().collect();
        asks.sort_by_key(|wish| shuffled(number, (&wish.app, &wish.key)));
        let others = |node: &NodeSnapshot| {
            let fact = facts.nodes.iter().find(|fact| *fact.id == *node.node_id);
            fact.map(|fact| fact.others.clone()).unwrap_or_default()
        };
        let nodes = nodes.iter().map(|node| NodeWords {
            id: node.node_id.clone(),
            total: Some(amounts(&node.capacity)),
            occupied: Some(amounts(&others(node))),
            drained: !node.schedulable,
            ..NodeWords::default()
        });
        let with_nodes = number.is_multiple_of(2);
        Self { applications, nodes: nodes.collect(), runs, asks, charged, with_nodes }
    }

    pub(crate) fn applications(&self) -> Vec<Item> {
        self.applications.values().cloned().collect()
    }

    /// Removes applications that were not accepted again because the queues have changed.
    pub(crate) fn keeps_active(&mut self, facts: &Facts) {
        let is_active = |id: &str| facts.applications.iter().any(|fact| *fact.id == *id);
        self.runs.retain(|(wish, _)| is_active(&wish.app));
        self.asks.retain(|wish| is_active(&wish.app));
        self.charged.retain(|id, _| is_active(id));
    }

    pub(crate) fn nodes_and_allocations(&self) -> Vec<Item> {
        let node = |words: &NodeWords| {
            let mut words = words.clone();
            if self.with_nodes {
                let here = self.runs.iter().filter(|(_, node)| *node == words.id);
                words.holds = here.map(|(wish, _)| wish.clone()).collect();
            }
            Item::Node(words)
        };
        let mut items: Vec<Item> = self.nodes.iter().map(node).collect();
        if !self.with_nodes {
            let runs = self.runs.iter();
            items.extend(runs.map(|(wish, node)| Item::Exists(wish.clone(), node.clone())));
        }
        items
    }

    pub(crate) fn asks(&self) -> Vec<Item> {
        self.asks.iter().cloned().map(Item::Ask).collect()
    }

    /// Applications that are charged differently than before.
    pub(crate) fn differs_from(&self, facts: &Facts) -> Vec<String> {
        let mut wrong = Vec::new();
        for (id, before) in &self.charged {
            let fact = facts.applications.iter().find(|fact| *fact.id == **id);
            let after = fact.map(|fact| runs_of(fact, facts));
            // Held places are in no report, because the RM does not know them.
            let is_native = fact.is_some_and(|fact| fact.is_native);
            let real = |charged: &Charged| charged.all.minus(&charged.placeholders);
            let is_same = after.as_ref().is_some_and(|after| {
                if is_native {
                    return real(after).same_amount(&real(before));
                }
                after.all.same_amount(&before.all)
                    && after.placeholders.same_amount(&before.placeholders)
            });
            if !is_same {
                wrong.push(format!("{id} came back with {after:?} instead of {before:?}"));
            }
        }
        wrong
    }
}

/// The charged amounts of an application.
fn runs_of(application: &ApplicationFact, facts: &Facts) -> Charged {
    let mut all = Resources::new();
    let own = facts.allocations.iter().filter(|fact| fact.application == application.slot);
    for fact in own.filter(|fact| !is_on_its_way(fact)) {
        all.add(&fact.resources);
    }
    Charged { all, placeholders: application.placeholders.clone() }
}

fn is_on_its_way(fact: &AllocationFact) -> bool {
    fact.question.is_some() || matches!(fact.pairing, Pairing::Takes { .. })
}

/// Pending asks and placements in flight, which the RM cannot distinguish.
fn asks_of(
    application: &ApplicationFact,
    facts: &Facts,
    asks: &mut BTreeMap<(String, String), Wish>,
) {
    let id = application.id.to_string();
    for ask in &application.asks {
        let mut wish = Wish::of(&id, &ask.key, amounts(&ask.resources));
        wish.repeat = i32::try_from(ask.repeat).unwrap();
        wish.priority = ask.priority;
        wish.required = ask.required_node.as_ref().map(ToString::to_string);
        in_group(&mut wish, ask.task_group.as_ref().map(|group| group.as_str()), ask.placeholder);
        asks.insert((id.clone(), wish.key.clone()), wish);
    }
    let own = facts.allocations.iter().filter(|fact| fact.application == application.slot);
    for fact in own.filter(|fact| is_on_its_way(fact)) {
        // The UUID of an allocation on its way is its key.
        let key = fact.uuid.to_string();
        let group = fact.place_in.as_ref().or(fact.member_of.as_ref());
        let entry = asks.entry((id.clone(), key.clone())).or_insert_with(|| {
            let mut wish = Wish::of(&id, &key, amounts(&fact.resources));
            wish.repeat = 0;
            in_group(&mut wish, group.map(|group| group.as_str()), fact.place_in.is_some());
            wish
        });
        entry.repeat += 1;
    }
}

fn in_group(wish: &mut Wish, group: Option<&str>, is_placeholder: bool) {
    let group = group.unwrap_or_default().to_owned();
    if is_placeholder {
        wish.placeholder = Some(group);
    } else {
        wish.group = group;
    }
}

/// An allocation as its RM reports it.
fn wish_of(held: &AllocationSnapshot) -> Wish {
    let key = &held.allocation_key;
    let mut wish = Wish::of(&held.application_id, key, amounts(&held.resource));
    wish.uuid.clone_from(if held.uuid.is_empty() { key } else { &held.uuid });
    wish.priority = held.priority;
    in_group(&mut wish, Some(&held.task_group_name), held.placeholder);
    wish
}

fn amounts(resources: &Resources) -> Amounts {
    Amounts(resources.sorted().into_iter().map(|(name, q)| (name.to_string(), q)).collect())
}

fn shuffled(number: u64, id: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (number, id).hash(&mut hasher);
    hasher.finish()
}
