//! Items that came before what they name (scheduler-interface chapter, 3.4 O3 and O4).
//!
//! Over gRPC, allocations, applications and nodes come by streams of their own, and an item may
//! overtake the application or node that it names. It waits here for the reorder window and is done
//! when that comes; else it is rejected as if it had just arrived. In process there is one order
//! and no window.
//!
//! Nothing waits for an application that was rejected or removed: that is not on its way. Releases
//! never wait: of what is not there, there is nothing to release but what waits itself.
//!
//! # Invariants
//! * An item waits for one thing at a time and, whatever comes, no longer than the window in all.
//! * What waits for one thing is done in the order in which it came.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::work::asks::AskSpec;
use monoceros_rules::work::rejection::{Ignored, Rejection};
use tokio::time::Instant;

use super::{NewNode, Partition};
use crate::application::Op;
use crate::node::NodeChange;
use crate::step::{Alarm, Baton, Notice};

/// Items that may wait unless set otherwise; beyond, they are rejected at once.
const ITEMS_MAX: usize = 10_000;
/// So many applications are remembered that were rejected or removed; beyond, items for the oldest
/// of them wait in vain.
const GONE_MAX: usize = 10_000;

/// What an item may wait for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Awaited {
    Application(Arc<str>),
    Node(Arc<str>),
}

/// What waits, and for what nothing waits.
pub(super) struct Early {
    window: Duration,
    items_max: usize,
    waiting: BTreeMap<Awaited, Vec<Waiting>>,
    items: usize,
    /// For which application each node waits.
    nodes: BTreeMap<Arc<str>, Arc<str>>,
    gone: BTreeSet<Arc<str>>,
    /// The same in the order in which they went; more than once if they came again.
    gone_order: VecDeque<Arc<str>>,
}

struct Waiting {
    what: What,
    until: Instant,
}

enum What {
    /// Something wanted of an application.
    Op(Arc<str>, Op),
    /// A node with allocations of applications that are not all there.
    Node(Box<NewNode>),
    /// Something that concerns a node that waits.
    NodeChange(Arc<str>, NodeChange),
}

impl Early {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
            items_max: ITEMS_MAX,
            waiting: BTreeMap::new(),
            items: 0,
            nodes: BTreeMap::new(),
            gone: BTreeSet::new(),
            gone_order: VecDeque::new(),
        }
    }

    /// For what comes from now on.
    pub(super) fn set_window(&mut self, window: Duration) {
        self.window = window;
    }

    /// For what comes from now on.
    pub(super) fn set_items_max(&mut self, items_max: usize) {
        self.items_max = items_max;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Nothing waits for this application any more.
    pub(super) fn application_gone(&mut self, id: &Arc<str>) {
        if self.window.is_zero() || !self.gone.insert(Arc::clone(id)) {
            return;
        }
        self.gone_order.push_back(Arc::clone(id));
        while self.gone_order.len() > GONE_MAX {
            if let Some(oldest) = self.gone_order.pop_front() {
                self.gone.remove(&oldest);
            }
        }
    }

    fn takes(&self, awaited: &Awaited, n_items: usize) -> bool {
        let may_come = match awaited {
            Awaited::Application(id) => !self.gone.contains(id),
            Awaited::Node(_) => true,
        };
        may_come && !self.window.is_zero() && self.items + n_items <= self.items_max
    }

    fn put(&mut self, awaited: Awaited, what: What, until: Instant, baton: &mut Baton) {
        if let (What::Node(node), Awaited::Application(application)) = (&what, &awaited) {
            self.nodes.insert(Arc::clone(&node.id), Arc::clone(application));
        }
        self.items += 1;
        let waiting = self.waiting.entry(awaited.clone()).or_default();
        if waiting.is_empty() {
            let wait = until.saturating_duration_since(Instant::now());
            baton.alarms.push((wait, Alarm::ReorderWindow { awaited }));
        }
        waiting.push(Waiting { what, until });
    }

    fn take(&mut self, awaited: &Awaited) -> Vec<Waiting> {
        let waiting = self.waiting.remove(awaited).unwrap_or_default();
        self.items -= waiting.len();
        for item in &waiting {
            if let What::Node(node) = &item.what {
                self.nodes.remove(&node.id);
            }
        }
        waiting
    }

    /// Of what waits for `application` or is wanted of it, what `op` releases is forgotten.
    fn release(&mut self, application: &Arc<str>, op: &Op) {
        let items = &mut self.items;
        self.waiting.retain(|_, waiting| {
            waiting.retain(|item| {
                let released = match &item.what {
                    What::Op(of, early) => of == application && op.takes_back(early),
                    What::Node(_) | What::NodeChange(..) => false,
                };
                *items -= usize::from(released);
                !released
            });
            !waiting.is_empty()
        });
    }
}

impl Partition {
    /// Something is wanted of an application. What names an application or node that is not here
    /// waits, if it may until `until` or else for the whole window.
    pub(super) fn application_request(
        &mut self,
        id: &Arc<str>,
        ops: Vec<Op>,
        until: Option<Instant>,
        baton: &mut Baton,
    ) {
        let ops = self.may_ask(id, ops, baton);
        if !self.early.is_empty() {
            for op in &ops {
                self.early.release(id, op);
            }
        }
        let Some(slot) = baton.directory.application_by_id.get(id).copied() else {
            self.unknown_application(id, ops, until, baton);
            return;
        };
        let names_unknown = |op: &Op, baton: &Baton| match op {
            Op::Existing(existing) if baton.books.nodes.slot_of(&existing.node).is_none() => {
                Some(Awaited::Node(Arc::clone(&existing.node)))
            }
            _ => None,
        };
        let mut here = ops;
        if here.iter().any(|op| names_unknown(op, baton).is_some()) {
            for op in std::mem::take(&mut here) {
                match names_unknown(&op, baton).filter(|node| self.early.takes(node, 1)) {
                    // Without a node it would be rejected by its application; the same later.
                    None => here.push(op),
                    Some(node) => {
                        let until = self.until(until);
                        self.early.put(node, What::Op(Arc::clone(id), op), until, baton);
                    }
                }
            }
        }
        if !here.is_empty() {
            self.agenda.push_back(super::Task::Visit(slot, here));
        }
    }

    fn unknown_application(
        &mut self,
        id: &Arc<str>,
        ops: Vec<Op>,
        until: Option<Instant>,
        baton: &mut Baton,
    ) {
        let (asks, others): (Vec<Op>, Vec<Op>) =
            ops.into_iter().partition(|op| op.spec().is_some());
        let ignored = others.iter().map(|_| Notice::Ignored(Ignored::ReleaseOfUnknown));
        baton.notices.extend(ignored);
        let awaited = Awaited::Application(Arc::clone(id));
        if !self.early.takes(&awaited, asks.len()) {
            reject(id, &asks, baton);
            return;
        }
        let until = self.until(until);
        for op in asks {
            self.early.put(awaited.clone(), What::Op(Arc::clone(id), op), until, baton);
        }
    }

    /// A node names an application that is not here. Comes back if it may not wait for it.
    pub(super) fn node_waits(
        &mut self,
        new: Box<NewNode>,
        application: &Arc<str>,
        until: Option<Instant>,
        baton: &mut Baton,
    ) -> Result<(), Box<NewNode>> {
        let awaited = Awaited::Application(Arc::clone(application));
        if !self.early.takes(&awaited, 1) {
            return Err(new);
        }
        let until = self.until(until);
        self.early.put(awaited, What::Node(new), until, baton);
        Ok(())
    }

    /// A change of a node that is not here. Comes back if it need not wait, as no such node does.
    pub(super) fn change_waits(
        &mut self,
        id: &Arc<str>,
        change: NodeChange,
        baton: &mut Baton,
    ) -> Option<NodeChange> {
        let Some(application) = self.early.nodes.get(id).cloned() else { return Some(change) };
        let until = self.until(None);
        let what = What::NodeChange(Arc::clone(id), change);
        self.early.put(Awaited::Application(application), what, until, baton);
        None
    }

    /// A node leaves that is not here. Says whether it waited; it is rejected then.
    pub(super) fn waiting_node_leaves(&mut self, id: &Arc<str>, baton: &mut Baton) -> bool {
        let Some(application) = self.early.nodes.get(id).cloned() else { return false };
        let awaited = Awaited::Application(application);
        for Waiting { what, until } in self.early.take(&awaited) {
            let concerned = match &what {
                What::Node(new) => new.id == *id,
                What::NodeChange(node, _) => node == id,
                What::Op(..) => false,
            };
            if concerned {
                self.refuse(&awaited, what, baton);
            } else {
                self.early.put(awaited.clone(), what, until, baton);
            }
        }
        true
    }

    /// It has come: what waited for it is done, after it has joined.
    pub(super) fn join_early(&mut self, awaited: &Awaited, baton: &mut Baton) {
        if let Awaited::Application(id) = awaited {
            self.early.gone.remove(id);
        }
        if self.early.is_empty() {
            return;
        }
        let mut ops: Option<(Arc<str>, Instant, Vec<Op>)> = None;
        for Waiting { what, until } in self.early.take(awaited) {
            match what {
                What::Op(id, op) => match &mut ops {
                    Some((of, _, ops)) if *of == id => ops.push(op),
                    _ => {
                        if let Some((id, until, ops)) = ops.replace((id, until, vec![op])) {
                            self.application_request(&id, ops, Some(until), baton);
                        }
                    }
                },
                What::Node(new) => self.create_node(new, Some(until), baton),
                What::NodeChange(id, change) => self.change_node(&id, change, baton),
            }
        }
        if let Some((id, until, ops)) = ops {
            self.application_request(&id, ops, Some(until), baton);
        }
    }

    /// It will not come: what waited for it is rejected.
    pub(super) fn reject_early(&mut self, awaited: &Awaited, baton: &mut Baton) {
        for item in self.early.take(awaited) {
            self.refuse(awaited, item.what, baton);
        }
    }

    /// Some that waited may have waited for long enough.
    pub(super) fn expire_early(&mut self, awaited: &Awaited, baton: &mut Baton) {
        let now = Instant::now();
        for Waiting { what, until } in self.early.take(awaited) {
            if until <= now {
                self.refuse(awaited, what, baton);
            } else {
                self.early.put(awaited.clone(), what, until, baton);
            }
        }
    }

    fn until(&self, until: Option<Instant>) -> Instant {
        until.unwrap_or_else(|| {
            let now = Instant::now();
            // As good as never, for a window that no clock can hold.
            now.checked_add(self.early.window).unwrap_or(now + Duration::from_secs(1 << 32))
        })
    }

    fn refuse(&self, awaited: &Awaited, what: What, baton: &mut Baton) {
        match (what, awaited) {
            (What::Op(id, op), Awaited::Application(_)) => reject(&id, &[op], baton),
            (What::Op(id, op), Awaited::Node(node)) => {
                reject_with(&id, &[op], baton, |_| Rejection::NodeUnknown(Arc::clone(node)));
            }
            (What::Node(new), Awaited::Application(id) | Awaited::Node(id)) => {
                baton.tally.shared().nodes.failed.inc();
                let reason = Rejection::ApplicationUnknown(Arc::clone(id));
                baton.notices.push(Notice::NodeRejected { id: new.id, reason });
            }
            (What::NodeChange(node, _), _) => self.node_unknown(&node, baton),
        }
    }
}

fn reject(id: &Arc<str>, ops: &[Op], baton: &mut Baton) {
    reject_with(id, ops, baton, |_| Rejection::ApplicationUnknown(Arc::clone(id)));
}

/// Rejects what is asked for of an application, each for the reason given.
pub(super) fn reject_with(
    id: &Arc<str>,
    ops: &[Op],
    baton: &mut Baton,
    reason: impl Fn(&AskSpec) -> Rejection,
) {
    for spec in ops.iter().filter_map(Op::spec) {
        baton.tally.ask_rejected(false);
        baton.notices.push(Notice::AskRejected {
            form: spec.form,
            key: Arc::clone(&spec.key),
            application: Arc::clone(id),
            reason: reason(spec),
        });
    }
}
