//! The reference scheduler: everything sorted anew, every ask and every node looked at.
//!
//! It takes time in proportion to the whole partition for each decision, which a live scheduler
//! cannot afford. In return it has no bound, mark or cache that could be stale, so that it can
//! judge one that has.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{AllocationFact, ApplicationFact, AskFact, Decision, Facts, NodeFact, QueueFact};
use crate::nodes::{NodeOrder, NodeSlot};
use crate::order::keys::{ApplicationKey, ApplicationView, AskKey, QueueKey, QueueView};
use crate::order::ledger;
use crate::order::waits::Phase;
use crate::values::resources::Limits;
use crate::work::allocations::Pairing;
use crate::work::application_state::ApplicationState;

impl Facts {
    /// What a search of everything decides next; `passes` are the RM's predicates by ask key, node
    /// id, and whether the ask is to be allocated there. `None`: nothing can be decided.
    pub fn next_decision(
        &self,
        passes: &dyn Fn(&str, &str, bool) -> bool,
        order: &NodeOrder,
    ) -> Option<Decision> {
        if self.nodes.is_empty() {
            return None;
        }
        let mut nodes: Vec<&NodeFact> = self.nodes.iter().collect();
        nodes.sort_by(|a, b| {
            let score = |node: &NodeFact| order.score(&node.total, &node.available);
            score(a).total_cmp(&score(b)).then_with(|| a.id.cmp(&b.id))
        });
        let (root, none) = (self.queue(0)?, Limits::unlimited());
        [Phase::Reserved, Phase::Pairs, Phase::Normal].into_iter().find_map(|phase| {
            Search { facts: self, phase, nodes: &nodes, passes }.queue(root, &none, true)
        })
    }
}

/// A full search under way.
struct Search<'a> {
    facts: &'a Facts,
    phase: Phase,
    /// In the order of the policy.
    nodes: &'a [&'a NodeFact],
    passes: &'a dyn Fn(&str, &str, bool) -> bool,
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
            .filter(|child| child.state.is_scheduled() && child.ledger.pending().is_positive())
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
                application.state == ApplicationState::Accepted && !application.may_run_soon();
            let may_run = (!starts || may_start) && self.facts.may_run(application);
            let is_passed_over = match self.phase {
                Phase::Reserved => !may_run,
                Phase::Pairs => false,
                Phase::Normal => !may_run || application.backs_off,
            };
            if !application.pending.is_positive() || is_passed_over {
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
        let most = settings.backoff_asks;
        let mut applications = applications.into_values();
        applications.find_map(|application| match self.phase {
            Phase::Reserved => None,
            Phase::Pairs => self.pair(application),
            Phase::Normal => self.application(application, headroom, most),
        })
    }

    /// The first member that takes the place of a placeholder; see [`crate::decide::pairs`].
    fn pair(&self, application: &ApplicationFact) -> Option<Decision> {
        let mut members: Vec<&AskFact> =
            application.asks.iter().filter(|ask| !ask.placeholder).collect();
        members.sort_by_key(|ask| AskKey::new(ask.priority, ask.created_ns, ask.sequence));
        let mut places: Vec<&AllocationFact> = self.facts.allocations.iter().collect();
        places.retain(|fact| {
            let is_free = fact.pairing == Pairing::None && !fact.leaves && fact.question.is_none();
            fact.application == application.slot && fact.place_in.is_some() && is_free
        });
        places.sort_by(|a, b| (a.created_ns, &a.uuid).cmp(&(b.created_ns, &b.uuid)));
        let mut first = None;
        for ask in members {
            // What is too small for a member goes, and is free for nobody after it.
            let mut taken = None;
            places.retain(|place| {
                let is_meant = taken.is_none() && place.place_in == ask.task_group;
                if is_meant && place.resources.minus(&ask.resources).has_negative() {
                    return false;
                }
                if is_meant {
                    first = first.or(Some((ask, *place)));
                    if self.takes(ask, place.node, false) {
                        taken = Some(*place);
                    }
                }
                true
            });
            if let Some(place) = taken {
                return Some(replace(application, ask, place));
            }
        }
        let (ask, place) = first?;
        // Of the placeholders that are left: one before may have been too small for a later member.
        let still = places.iter().find(|still| still.place_in == ask.task_group);
        let place = still.copied().unwrap_or(place);
        still?;
        let node = self.nodes.iter().find(|node| self.has_room(ask, node))?;
        debug_assert!(self.takes(ask, node.slot, true));
        Some(replace(application, ask, place))
    }

    /// Whether the member may run on the node of a placeholder, or on any other.
    fn takes(&self, ask: &AskFact, node: NodeSlot, allocate: bool) -> bool {
        let node = self.nodes.iter().find(|fact| fact.slot == node);
        node.is_some_and(|node| {
            ask.required_node.as_ref().is_none_or(|required| *required == node.id)
                && !ask.excluded.contains(&node.id)
                && (self.passes)(&ask.key, &node.id, allocate)
        })
    }

    /// Whether the ask can be placed on the node.
    fn has_room(&self, ask: &AskFact, node: &NodeFact) -> bool {
        (ask.required_node.is_some() || node.open)
            && node.total.holds(&ask.resources)
            && node.available.holds(&ask.resources)
            && self.takes(ask, node.slot, true)
    }

    /// Gives up where `most` asks have found no node and one more is pending; 0: never.
    fn application(
        &self,
        application: &ApplicationFact,
        headroom: &Limits,
        most: u64,
    ) -> Option<Decision> {
        let mut n_unplaceable = 0;
        let of_user = self.facts.user_headroom(application);
        let mut asks: Vec<&AskFact> = application.asks.iter().collect();
        asks.sort_by_key(|ask| AskKey::new(ask.priority, ask.created_ns, ask.sequence));
        for ask in asks {
            if most > 0 && n_unplaceable >= most {
                return None;
            }
            let member_of = ask.task_group.as_ref().filter(|_| !ask.placeholder);
            if member_of.is_some_and(|group| application.waits_for_placeholders(group)) {
                continue;
            }
            if !of_user.allows(&ask.resources) || !headroom.allows(&ask.resources) {
                continue;
            }
            if let Some(node) = self.nodes.iter().find(|node| self.has_room(ask, node)) {
                return Some(Decision::Place {
                    application: Arc::clone(&application.id),
                    key: Arc::clone(&ask.key),
                    node: Arc::clone(&node.id),
                });
            }
            n_unplaceable += u64::from(ask.required_node.is_none());
        }
        None
    }
}

fn replace(application: &ApplicationFact, ask: &AskFact, place: &AllocationFact) -> Decision {
    Decision::Replace {
        application: Arc::clone(&application.id),
        key: Arc::clone(&ask.key),
        placeholder: Arc::clone(&place.uuid),
    }
}
