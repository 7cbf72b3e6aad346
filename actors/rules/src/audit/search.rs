//! The reference scheduler: everything sorted anew, every ask and every node looked at.
//!
//! It takes time in proportion to the whole partition for each decision, which a live scheduler
//! cannot afford. In return it has no bound, mark or cache that could be stale, so that it can
//! judge one that has.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ApplicationFact, AskFact, Decision, Facts, NodeFact, QueueFact};
use crate::nodes::NodeOrder;
use crate::order::keys::{ApplicationKey, ApplicationView, AskKey, QueueKey, QueueView};
use crate::order::ledger;
use crate::values::resources::Limits;
use crate::work::application_state::ApplicationState;

impl Facts {
    /// What a search of everything decides next; `passes` are the RM's predicates by ask key and
    /// node id. `None`: nothing can be placed.
    pub fn next_decision(
        &self,
        passes: &dyn Fn(&str, &str) -> bool,
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
        let search = Search { facts: self, nodes, passes };
        search.queue(self.queue(0)?, &Limits::unlimited(), true)
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
                application.state == ApplicationState::Accepted && application.unsettled.is_empty();
            let may_run = (!starts || may_start) && self.facts.may_run(application);
            if !application.pending.is_positive() || !may_run || application.backs_off {
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
        applications.find_map(|application| self.application(application, headroom, most))
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
            if !of_user.allows(&ask.resources) || !headroom.allows(&ask.resources) {
                continue;
            }
            let fits = |node: &&&NodeFact| {
                let may_come = match &ask.required_node {
                    Some(required) => *required == node.id,
                    None => node.open,
                };
                may_come
                    && !ask.excluded.contains(&node.id)
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
            n_unplaceable += u64::from(ask.required_node.is_none());
        }
        None
    }
}
