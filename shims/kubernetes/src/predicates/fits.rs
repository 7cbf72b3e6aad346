//! Counts in advance which nodes pods may use by the nodes' own properties, for explanations of
//! pending pods.
//!
//! # Why in advance
//! An explanation is made in the middle of the scheduler's work, and must not check ten thousand
//! nodes there for each kind of pod. So the thread that follows the cluster checks a few nodes at a
//! time, and explanations look up the result. Pods of one template have the same requirements and
//! are counted once. A changed node is checked again, and no other.
//!
//! # Invariants
//! * A result is returned only if it equals the predicate's answer for every node as it is now.
//! * Only requested templates are counted: at most [`NODES_PER_ROUND`] nodes per round and [`TEMPLATES`]
//!   templates.

use std::collections::VecDeque;
use std::sync::Arc;

use monoceros_actors::{Fits, NodeFits, NodePlaces};
use rustc_hash::FxHashMap;

use super::node::{self, NodeRequirements};
use super::scene::NodeEntries;

/// Nodes checked in a round, which takes about 0.5 ms.
const NODES_PER_ROUND: usize = 1_000;
/// Most templates kept. The one without a request for the longest time is dropped first.
const TEMPLATES: usize = 1_000;
/// Most different reasons kept of a template. The last stands for all others.
const REASONS: usize = 200;
/// Most changed nodes that are checked at a request instead of in a round.
const CHECKED_AT_ONCE: u64 = 64;
/// Most node changes remembered. A template that has missed more is counted again from the start.
const CHANGES: usize = 10_000;

/// Templates and their results.
#[derive(Debug, Default)]
pub(super) struct NodeResults {
    /// Position of each node in the lists of templates, including removed nodes.
    positions: Arc<NodePlaces>,
    names: Vec<Arc<str>>,
    /// Positions of changed nodes, the last [`CHANGES`] of them.
    changes: VecDeque<u32>,
    /// Number of changes before those in `changes`.
    n_dropped: u64,
    templates: FxHashMap<Arc<NodeRequirements>, Template>,
    /// Templates that are not counted in full.
    queue: VecDeque<Arc<NodeRequirements>>,
    /// Number of requests so far.
    asked: u64,
}

/// Results for pods with the same requirements of nodes.
#[derive(Debug)]
struct Template {
    refusals: Vec<u16>,
    reasons: Vec<Arc<str>>,
    /// The first node that was never checked.
    next: usize,
    /// Number of node changes that were checked.
    seen: u64,
    /// Number of the last request for the template.
    asked: u64,
    is_queued: bool,
    /// Copy of the result for explanations. `None` after a change.
    shared: Option<Arc<NodeFits>>,
}

impl NodeResults {
    fn n_changes(&self) -> u64 {
        self.n_dropped + self.changes.len() as u64
    }

    /// Notes that a node was added, changed or removed. `n_nodes` nodes exist now.
    pub(super) fn node_changed(&mut self, name: &Arc<str>, n_nodes: usize) {
        if self.positions.is_empty() {
            // There was no request yet.
            return;
        }
        if self.names.len() > 2 * n_nodes + CHANGES {
            // Most positions belong to removed nodes.
            *self = Self::default();
            return;
        }
        let position = self.position(name);
        self.changes.push_back(position);
        if self.changes.len() > CHANGES {
            self.changes.pop_front();
            self.n_dropped += 1;
        }
    }

    fn position(&mut self, name: &Arc<str>) -> u32 {
        if let Some(position) = self.positions.get(name) {
            return *position;
        }
        let position = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        // The shared results hold the list, which would be copied on write.
        self.templates.values_mut().for_each(|template| template.shared = None);
        Arc::make_mut(&mut self.positions).insert(Arc::clone(name), position);
        self.names.push(Arc::clone(name));
        position
    }

    /// Returns the result for these requirements if it is complete. Otherwise queues them to be
    /// counted.
    pub(super) fn ask(
        &mut self,
        requirements: &Arc<NodeRequirements>,
        entries: &NodeEntries,
    ) -> Fits {
        if requirements.filter.names_nodes() {
            // A pod for a named node would be a template of its own.
            return Fits::Unknown;
        }
        if self.positions.is_empty() {
            let mut names: Vec<_> = entries.keys().map(Arc::clone).collect();
            names.sort_unstable();
            for name in &names {
                self.position(name);
            }
        }
        self.asked += 1;
        let (asked, n_changes) = (self.asked, self.n_changes());
        let new = || Template::new(n_changes);
        let template = self.templates.entry(Arc::clone(requirements)).or_insert_with(new);
        template.asked = asked;
        let missed = n_changes.saturating_sub(template.seen);
        if template.next >= self.names.len() && (1..=CHECKED_AT_ONCE).contains(&missed) {
            // A few changed nodes are checked at once. The result for all others holds.
            let missed = usize::try_from(missed).unwrap_or(usize::MAX);
            for position in self.changes.iter().rev().take(missed) {
                template.check_node(*position as usize, requirements, &self.names, entries);
            }
            (template.seen, template.shared) = (n_changes, None);
        }
        if template.is_done(self.names.len(), n_changes) {
            let Template { refusals, reasons, shared, .. } = template;
            let shared = shared.get_or_insert_with(|| {
                let positions = Arc::clone(&self.positions);
                Arc::new(NodeFits::new(positions, refusals.clone(), reasons.clone()))
            });
            return Fits::Known(Arc::clone(shared));
        }
        if !std::mem::replace(&mut template.is_queued, true) {
            self.queue.push_back(Arc::clone(requirements));
        }
        if self.templates.len() > TEMPLATES {
            self.forget_one();
        }
        Fits::Counting
    }

    /// Forgets the template without a request for the longest time.
    fn forget_one(&mut self) {
        let oldest = self.templates.iter().min_by_key(|(_, template)| template.asked);
        if let Some(oldest) = oldest.map(|(requirements, _)| Arc::clone(requirements)) {
            self.templates.remove(&oldest);
            self.queue.retain(|requirements| *requirements != oldest);
        }
    }

    /// Returns whether a template is not counted in full.
    pub(super) fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Checks the nodes of a round. Returns their number.
    pub(super) fn count(&mut self, entries: &NodeEntries) -> usize {
        let mut n_checked = 0;
        let n_changes = self.n_changes();
        while n_checked < NODES_PER_ROUND
            && let Some(requirements) = self.queue.front()
        {
            let Some(template) = self.templates.get_mut(requirements) else {
                self.queue.pop_front();
                continue;
            };
            if template.seen < self.n_dropped {
                let asked = template.asked;
                *template = Template { asked, is_queued: true, ..Template::new(n_changes) };
            }
            template.shared = None;
            let seen = usize::try_from(template.seen - self.n_dropped).unwrap_or(usize::MAX);
            let changed = self.changes.iter().skip(seen).map(|position| *position as usize);
            let new = template.next..self.names.len();
            let n_new = new.len();
            let positions = new.chain(changed).take(NODES_PER_ROUND - n_checked);
            let before = n_checked;
            for position in positions {
                template.check_node(position, requirements, &self.names, entries);
                n_checked += 1;
            }
            let n_checked_here = n_checked - before;
            template.next += n_checked_here.min(n_new);
            template.seen += n_checked_here.saturating_sub(n_new) as u64;
            if template.is_done(self.names.len(), n_changes) {
                template.is_queued = false;
                self.queue.pop_front();
            }
        }
        n_checked
    }
}

impl Template {
    /// Makes a template of which no node was checked.
    fn new(n_changes: u64) -> Self {
        Self {
            refusals: Vec::new(),
            reasons: Vec::new(),
            next: 0,
            seen: n_changes,
            asked: 0,
            is_queued: false,
            shared: None,
        }
    }

    fn is_done(&self, n_names: usize, n_changes: u64) -> bool {
        self.next >= n_names && self.seen >= n_changes
    }

    /// Checks the node at this position. A removed node has no reason.
    fn check_node(
        &mut self,
        position: usize,
        requirements: &NodeRequirements,
        names: &[Arc<str>],
        entries: &NodeEntries,
    ) {
        let node = names.get(position).and_then(|name| entries.get(name)?.node.as_ref());
        let refusal = node.and_then(|node| node::check(requirements, node).err());
        let number = refusal.map_or(0, |reason| self.number(&reason));
        if self.refusals.len() <= position {
            self.refusals.resize(position + 1, 0);
        }
        self.refusals[position] = number;
    }

    /// Returns the number of a reason, starting with 1.
    fn number(&mut self, reason: &str) -> u16 {
        let known = self.reasons.iter().position(|known| **known == *reason);
        let number = known.unwrap_or_else(|| match self.reasons.len() {
            REASONS => REASONS - 1,
            n_known => {
                let is_last = n_known == REASONS - 1;
                self.reasons.push(Arc::from(if is_last {
                    "there are more reasons"
                } else {
                    reason
                }));
                n_known
            }
        });
        u16::try_from(number + 1).unwrap_or(u16::MAX)
    }
}
