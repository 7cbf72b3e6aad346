//! Which nodes pods may use by what the nodes alone say, counted beforehand for those who ask why pods wait.
//!
//! # Why counted beforehand
//! An explanation is given from the middle of the scheduler's work and must not look at ten thousand nodes
//! there for each kind of pod. So the thread that follows the cluster counts, a few nodes at a time, and an
//! explanation looks the result up. Pods of one template want the same and are counted once; a node that
//! changes is looked at again, and no other.
//!
//! # Invariants
//! * What is told of a node is what the predicate would say of it, as the node is now: what has changed and
//!   was not looked at again is not told.
//! * Only what somebody has asked for is counted, at most [`LOOKS`] nodes at a time, of at most
//!   [`TEMPLATES`] templates.

use std::collections::VecDeque;
use std::sync::Arc;

use monoceros_actors::{Fits, NodeFits, NodePlaces};
use rustc_hash::FxHashMap;

use super::node::{self, NodeWish};
use super::scene::Seats;

/// Nodes that are looked at in a round, which takes about half a millisecond.
const LOOKS: usize = 1_000;
/// Templates that are kept. The one that nobody has asked about for longest is dropped first.
const TEMPLATES: usize = 1_000;
/// So many different reasons of nodes are told of a template; the last stands for all others.
const REASONS: usize = 200;
/// Nodes that have changed and are looked at where somebody asks, and not in a round.
const AT_ONCE: u64 = 64;
/// Changes of nodes that are remembered. A template that has missed more is counted anew.
const CHANGES: usize = 10_000;

/// What was counted.
#[derive(Debug, Default)]
pub(super) struct NodesCounted {
    /// The position of each node in the lists of templates, also of nodes that are gone.
    places: Arc<NodePlaces>,
    names: Vec<Arc<str>>,
    /// Positions of nodes that have changed, the last [`CHANGES`] of them.
    changes: VecDeque<u32>,
    /// How many changes came before these.
    n_dropped: u64,
    templates: FxHashMap<Arc<NodeWish>, Template>,
    /// Templates that are not counted in full.
    wanted: VecDeque<Arc<NodeWish>>,
    /// The number of questions so far.
    asked: u64,
}

/// What nodes say to pods that want the same of them.
#[derive(Debug)]
struct Template {
    refusals: Vec<u16>,
    reasons: Vec<Arc<str>>,
    /// The first node that was not looked at at all.
    next: usize,
    /// The number of changes of nodes that were looked at.
    seen: u64,
    /// The number of the last question about it.
    asked: u64,
    is_wanted: bool,
    /// A copy for explanations; none after a change.
    told: Option<Arc<NodeFits>>,
}

impl NodesCounted {
    fn n_changes(&self) -> u64 {
        self.n_dropped + self.changes.len() as u64
    }

    /// A node comes, changes or goes; so many are there.
    pub(super) fn node_changed(&mut self, name: &Arc<str>, n_nodes: usize) {
        if self.places.is_empty() {
            // Nobody has asked yet.
            return;
        }
        if self.names.len() > 2 * n_nodes + CHANGES {
            // Most of those that have a place are gone for good.
            *self = Self::default();
            return;
        }
        let place = self.place(name);
        self.changes.push_back(place);
        if self.changes.len() > CHANGES {
            self.changes.pop_front();
            self.n_dropped += 1;
        }
    }

    fn place(&mut self, name: &Arc<str>) -> u32 {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        // What was told holds the list, which would be copied.
        self.templates.values_mut().for_each(|template| template.told = None);
        Arc::make_mut(&mut self.places).insert(Arc::clone(name), place);
        self.names.push(Arc::clone(name));
        place
    }

    /// What nodes say to pods that want this, if it is known; else it is counted from now on.
    pub(super) fn ask(&mut self, wish: &Arc<NodeWish>, seats: &Seats) -> Fits {
        if wish.filter.names_nodes() {
            // One that is for a node by name is a template of its own.
            return Fits::Unknown;
        }
        if self.places.is_empty() {
            let mut names: Vec<_> = seats.keys().map(Arc::clone).collect();
            names.sort_unstable();
            for name in &names {
                self.place(name);
            }
        }
        self.asked += 1;
        let (asked, n_changes) = (self.asked, self.n_changes());
        let new = || Template::new(n_changes);
        let template = self.templates.entry(Arc::clone(wish)).or_insert_with(new);
        template.asked = asked;
        let missed = n_changes.saturating_sub(template.seen);
        if template.next >= self.names.len() && (1..=AT_ONCE).contains(&missed) {
            // A few nodes that have changed are looked at now: what was counted of all others holds.
            let missed = usize::try_from(missed).unwrap_or(usize::MAX);
            for place in self.changes.iter().rev().take(missed) {
                template.look(*place as usize, wish, &self.names, seats);
            }
            (template.seen, template.told) = (n_changes, None);
        }
        if template.is_done(self.names.len(), n_changes) {
            let Template { refusals, reasons, told, .. } = template;
            let told = told.get_or_insert_with(|| {
                let places = Arc::clone(&self.places);
                Arc::new(NodeFits::new(places, refusals.clone(), reasons.clone()))
            });
            return Fits::Known(Arc::clone(told));
        }
        if !std::mem::replace(&mut template.is_wanted, true) {
            self.wanted.push_back(Arc::clone(wish));
        }
        if self.templates.len() > TEMPLATES {
            self.forget_one();
        }
        Fits::Counting
    }

    /// Forgets the template that nobody has asked for longest.
    fn forget_one(&mut self) {
        let oldest = self.templates.iter().min_by_key(|(_, template)| template.asked);
        if let Some(oldest) = oldest.map(|(wish, _)| Arc::clone(wish)) {
            self.templates.remove(&oldest);
            self.wanted.retain(|wish| *wish != oldest);
        }
    }

    /// Whether something is still to be counted.
    pub(super) fn has_work(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Looks at some nodes. Returns at how many.
    pub(super) fn count(&mut self, seats: &Seats) -> usize {
        let mut looks = 0;
        let n_changes = self.n_changes();
        while looks < LOOKS
            && let Some(wish) = self.wanted.front()
        {
            let Some(template) = self.templates.get_mut(wish) else {
                self.wanted.pop_front();
                continue;
            };
            if template.seen < self.n_dropped {
                let asked = template.asked;
                *template = Template { asked, is_wanted: true, ..Template::new(n_changes) };
            }
            template.told = None;
            let seen = usize::try_from(template.seen - self.n_dropped).unwrap_or(usize::MAX);
            let changed = self.changes.iter().skip(seen).map(|place| *place as usize);
            let new = template.next..self.names.len();
            let n_new = new.len();
            let places = new.chain(changed).take(LOOKS - looks);
            let before = looks;
            for place in places {
                template.look(place, wish, &self.names, seats);
                looks += 1;
            }
            let n_looked = looks - before;
            template.next += n_looked.min(n_new);
            template.seen += n_looked.saturating_sub(n_new) as u64;
            if template.is_done(self.names.len(), n_changes) {
                template.is_wanted = false;
                self.wanted.pop_front();
            }
        }
        looks
    }
}

impl Template {
    /// One of which no node was looked at, after so many changes of nodes.
    fn new(n_changes: u64) -> Self {
        Self {
            refusals: Vec::new(),
            reasons: Vec::new(),
            next: 0,
            seen: n_changes,
            asked: 0,
            is_wanted: false,
            told: None,
        }
    }

    fn is_done(&self, n_names: usize, n_changes: u64) -> bool {
        self.next >= n_names && self.seen >= n_changes
    }

    /// Looks at the node in this place. One that is gone says nothing.
    fn look(&mut self, place: usize, wish: &NodeWish, names: &[Arc<str>], seats: &Seats) {
        let node = names.get(place).and_then(|name| seats.get(name)?.node.as_ref());
        let refusal = node.and_then(|node| node::check(wish, node).err());
        let number = refusal.map_or(0, |reason| self.number(&reason));
        if self.refusals.len() <= place {
            self.refusals.resize(place + 1, 0);
        }
        self.refusals[place] = number;
    }

    /// The number of a reason, and one more.
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
