//! The reorder buffer: items that came before what they name.
//!
//! Over gRPC, allocations, applications and nodes come by streams of their own, and an item may
//! overtake the application or node that it names. It waits here for the reorder window and is done
//! when that comes; else it is rejected as if it had just arrived. In process there is one order
//! and no window.
//!
//! Only an id that is new to the session can be on its way: nothing waits for an application that
//! was rejected, removed or has ended, nor for a node that was rejected or removed. Releases never
//! wait: if an allocation is not there, only an item that waits here can be released.
//!
//! The buffer keeps items and hands them out. It knows neither the books nor the RM: what an item
//! means is said in [`intake`](super::intake), which puts in only items that name an application or
//! a node that is not there.
//!
//! # Cost
//! Each item has a number, in the order in which they came, and stands in ordered sets by what it
//! waits for, by when its time is over, and by the [names](names) under which a release may find
//! it. So whatever comes costs a few look-ups and what it takes out, however many items wait.
//!
//! # Invariants
//! * What waits is bounded, by number and by memory: an item has a [weight].
//! * An item waits for one thing at a time and, whatever comes, no longer than the window in all.
//! * What waits for one thing is done in the order in which it came.
//! * An item that is taken out is in none of the sets any more.

mod names;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::specs::quotas::bytes_of_texts;
use monoceros_rules::values::resources::Resources;

use self::names::Name;
use super::input::NewNode;
use crate::step::{Existing, NodeChange, Op, WaitsFor};

/// How much may wait unless set otherwise, by [`weight`]; what is further is rejected at once.
const WEIGHT_MAX: usize = 10_000;
/// Bytes of an item that weigh as much as another item.
const BYTES_PER_WEIGHT: u64 = 8 << 10;
/// How many applications and nodes that are gone are remembered. If there are more, items for the
/// oldest of them wait in vain.
const GONE_MAX: usize = 10_000;

/// The items that wait.
pub(super) struct ReorderBuffer {
    window: Duration,
    weight_max: usize,
    /// Of all items.
    weight: usize,
    /// By their numbers, which only rise.
    items: BTreeMap<u64, Held>,
    next: u64,
    waiting: BTreeSet<(WaitsFor, u64)>,
    /// When the time of each is over.
    due: BTreeSet<(i64, u64)>,
    /// When somebody will ask what [expires](Self::expire), if anybody will.
    armed_ns: Option<i64>,
    /// What releases may find.
    named: BTreeSet<Name>,
    /// The nodes that wait, and after each its changes.
    nodes: BTreeSet<(Arc<str>, OfNode, u64)>,
    gone: BTreeSet<WaitsFor>,
    /// The same in the order in which they went; more than once if they came again.
    gone_order: VecDeque<WaitsFor>,
}

/// An item that waits, and until when it may.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) awaited: WaitsFor,
    pub(super) item: Item,
    /// ns since the epoch.
    pub(super) until_ns: i64,
}

#[derive(Clone, Debug)]
pub(super) enum Item {
    /// Something wanted of an application.
    Op(Arc<str>, Op),
    /// A node with allocations of applications that are not all there.
    Node(Box<NewNode>),
    /// Something that concerns a node that waits.
    NodeChange(Arc<str>, NodeChange),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OfNode {
    Itself,
    Change,
}

impl Item {
    fn weight(&self) -> usize {
        match self {
            Self::Op(_, op) => weight_of_op(op),
            Self::Node(node) => weight_of_node(node),
            Self::NodeChange(_, change) => weight_of_change(change),
        }
    }

    fn of_node(&self) -> Option<(&Arc<str>, OfNode)> {
        match self {
            Self::Node(new) => Some((&new.id, OfNode::Itself)),
            Self::NodeChange(node, _) => Some((node, OfNode::Change)),
            Self::Op(..) => None,
        }
    }
}

/// What an order to an application weighs.
pub(super) fn weight_of_op(op: &Op) -> usize {
    weight(op.spec().map_or(0, AskSpec::bytes))
}

/// What a node weighs, with all that is on it.
pub(super) fn weight_of_node(node: &NewNode) -> usize {
    let existing = node.existing.iter().map(|(_, existing)| existing.spec.bytes());
    weight(bytes_of_texts(&node.attributes) + existing.sum::<u64>())
}

/// What the change of a node weighs.
pub(super) fn weight_of_change(change: &NodeChange) -> usize {
    weight(match change {
        NodeChange::Update { attributes, .. } => bytes_of_texts(attributes),
        NodeChange::Foreign(report) => {
            report.tags.iter().map(|tags| bytes_of_texts(tags.iter())).sum()
        }
        _ => 0,
    })
}

/// The weight of an item: one, and one more for each 8 KiB that it takes.
fn weight(bytes: u64) -> usize {
    usize::try_from(1 + bytes / BYTES_PER_WEIGHT).unwrap_or(usize::MAX)
}

/// An item in the buffer.
struct Held {
    weight: usize,
    waiting: Waiting,
    /// Of a node: which of the allocations that it brings were released meanwhile.
    released: BTreeSet<usize>,
    /// Of a node: how many others it brings of the application that it waits for.
    named: usize,
}

/// What a release has found in the buffer.
#[derive(Debug, Default)]
pub(super) struct TakenBack {
    /// Whether there was anything.
    pub(super) any: bool,
    /// Allocations that were reported and have ended with it, each once.
    pub(super) existing: Vec<Existing>,
    /// Nodes that do not name any more what they waited for, each with its changes, in the order in
    /// which they came.
    pub(super) freed: Vec<Waiting>,
}

impl ReorderBuffer {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
            weight_max: WEIGHT_MAX,
            weight: 0,
            items: BTreeMap::new(),
            next: 0,
            waiting: BTreeSet::new(),
            due: BTreeSet::new(),
            armed_ns: None,
            named: BTreeSet::new(),
            nodes: BTreeSet::new(),
            gone: BTreeSet::new(),
            gone_order: VecDeque::new(),
        }
    }

    /// For what comes from now on.
    pub(super) fn set_window(&mut self, window: Duration) {
        self.window = window;
    }

    /// For what comes from now on.
    pub(super) fn set_weight_max(&mut self, weight_max: usize) {
        self.weight_max = weight_max;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Until when an item may wait that comes now; as good as never, for a window that no clock can
    /// hold.
    pub(super) fn until_ns(&self, now_ns: i64) -> i64 {
        now_ns.saturating_add(i64::try_from(self.window.as_nanos()).unwrap_or(i64::MAX))
    }

    /// Whether items of this weight may wait for it, beside all others. Without a window nobody
    /// waits.
    pub(super) fn may_wait(&self, awaited: &WaitsFor, weight: usize) -> bool {
        !self.window.is_zero() && self.has_room(weight) && !self.gone.contains(awaited)
    }

    /// Whether there is room for this weight.
    pub(super) fn has_room(&self, weight: usize) -> bool {
        self.weight.saturating_add(weight) <= self.weight_max
    }

    /// What this node waits for, if it does.
    pub(super) fn awaited_by_node(&self, id: &Arc<str>) -> Option<WaitsFor> {
        let (_, _, number) = self.nodes.range(of_node(id, OfNode::Itself)).next_back()?;
        Some(self.items[number].waiting.awaited.clone())
    }

    /// Puts an item in. Returns when the buffer is to be asked what [expires](Self::expire), if it
    /// is not asked earlier anyway.
    #[must_use = "nobody else sees to it that what waits does not wait for ever"]
    pub(super) fn put(&mut self, awaited: WaitsFor, item: Item, until_ns: i64) -> Option<i64> {
        let number = self.next;
        self.next += 1;
        self.named.extend(names::of(&item, number));
        if let Some((id, of)) = item.of_node() {
            self.nodes.insert((Arc::clone(id), of, number));
        }
        self.waiting.insert((awaited.clone(), number));
        self.due.insert((until_ns, number));
        let (named, weight) = (names::naming(&item, &awaited), item.weight());
        self.weight += weight;
        let waiting = Waiting { awaited, item, until_ns };
        self.items.insert(number, Held { weight, waiting, released: BTreeSet::new(), named });
        self.arm()
    }

    /// Takes out the items that have waited as long as they may, in order; says when to ask again.
    pub(super) fn expire(&mut self, now_ns: i64) -> (Vec<Waiting>, Option<i64>) {
        self.armed_ns = self.armed_ns.filter(|armed_ns| *armed_ns > now_ns);
        let mut expired = Vec::new();
        while let Some(&(until_ns, number)) = self.due.first() {
            if until_ns > now_ns {
                break;
            }
            expired.push(self.remove(number));
        }
        (expired, self.arm())
    }

    /// Takes out the nodes of this id, and what waits for them, in the order in which they came.
    pub(super) fn take_node(&mut self, id: &Arc<str>) -> Vec<Waiting> {
        let of_both = [OfNode::Itself, OfNode::Change].into_iter();
        let all = of_both.flat_map(|of| self.nodes.range(of_node(id, of)));
        let mut numbers: Vec<u64> = all.map(|(_, _, number)| *number).collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|number| self.remove(number)).collect()
    }

    /// Takes out what the release `op` takes back of an application: what was asked for, and what
    /// was reported to run, be it alone or with its node.
    pub(super) fn release(&mut self, application: &Arc<str>, op: &Op) -> TakenBack {
        let mut taken = TakenBack::default();
        if self.items.is_empty() {
            return taken;
        }
        let (mut reported, mut freed) = (BTreeSet::new(), Vec::new());
        for name in names::found(&self.named, application, op) {
            taken.any = true;
            let existing = if self.items[&name.number].waiting.item.of_node().is_some() {
                self.release_on_node(&name, &mut freed)
            } else {
                match self.remove(name.number).item {
                    Item::Op(_, Op::Existing(existing)) => Some(*existing),
                    _ => None,
                }
            };
            let is_new = |existing: &Existing| reported.insert(Arc::clone(&existing.uuid));
            taken.existing.extend(existing.filter(is_new));
        }
        taken.freed.extend(freed.iter().flat_map(|id| self.take_node(id)));
        taken
    }

    /// Takes one allocation off a node that waits. If it was the last that the node waited for, the
    /// node's id is noted.
    fn release_on_node(&mut self, name: &Name, freed: &mut Vec<Arc<str>>) -> Option<Existing> {
        let held = self.items.get_mut(&name.number)?;
        let Item::Node(node) = &held.waiting.item else { return None };
        let (application, existing) = node.existing.get(name.position)?.clone();
        held.released.insert(name.position);
        for name in names::of_existing(&application, &existing, name.number, name.position) {
            self.named.remove(&name);
        }
        if held.waiting.awaited == WaitsFor::Application(application) {
            held.named -= 1;
            if held.named == 0 {
                freed.push(Arc::clone(&node.id));
            }
        }
        Some(existing)
    }

    /// The application or node was rejected, has ended, or its RM wants it no more: from now on
    /// nothing waits for it, and what does is handed out.
    pub(super) fn gone(&mut self, id: WaitsFor) -> Vec<Waiting> {
        let waiting = self.take(&id);
        if !self.window.is_zero() && self.gone.insert(id.clone()) {
            self.gone_order.push_back(id);
            while self.gone_order.len() > GONE_MAX {
                if let Some(oldest) = self.gone_order.pop_front() {
                    self.gone.remove(&oldest);
                }
            }
        }
        waiting
    }

    /// Shows the amounts of all that waits.
    pub(super) fn amounts(&self, mut show: impl FnMut(&Resources)) {
        for held in self.items.values() {
            match &held.waiting.item {
                Item::Op(_, op) => op.spec().into_iter().for_each(|spec| show(&spec.resources)),
                Item::Node(node) => {
                    [&node.total, &node.occupied].into_iter().for_each(&mut show);
                    node.existing.iter().for_each(|(_, it)| show(&it.spec.resources));
                }
                Item::NodeChange(_, NodeChange::Update { total, occupied, .. }) => {
                    total.iter().chain(occupied).for_each(&mut show);
                }
                Item::NodeChange(..) => {}
            }
        }
    }

    /// Takes out everything, by what it waits for and in order.
    pub(super) fn take_all(&mut self) -> Vec<Waiting> {
        let numbers: Vec<u64> = self.waiting.iter().map(|(_, number)| *number).collect();
        numbers.into_iter().map(|number| self.remove(number)).collect()
    }

    /// The application or node has come, perhaps again. Hands out what waited for it, in order.
    pub(super) fn came(&mut self, awaited: &WaitsFor) -> Vec<Waiting> {
        self.gone.remove(awaited);
        self.take(awaited)
    }

    /// Takes out everything that waits for this application or node, in order.
    fn take(&mut self, awaited: &WaitsFor) -> Vec<Waiting> {
        if self.items.is_empty() {
            return Vec::new();
        }
        let all = (awaited.clone(), 0)..=(awaited.clone(), u64::MAX);
        let numbers: Vec<u64> = self.waiting.range(all).map(|(_, number)| *number).collect();
        numbers.into_iter().map(|number| self.remove(number)).collect()
    }

    /// When to ask what expires, unless somebody will ask by then anyway.
    fn arm(&mut self) -> Option<i64> {
        let (due_ns, _) = *self.due.first()?;
        if self.armed_ns.is_some_and(|armed_ns| armed_ns <= due_ns) {
            return None;
        }
        self.armed_ns = Some(due_ns);
        self.armed_ns
    }

    /// Takes an item out, without what was released of it.
    fn remove(&mut self, number: u64) -> Waiting {
        let Held { weight, mut waiting, released, .. } =
            self.items.remove(&number).expect("each set has the numbers of items alone");
        self.weight -= weight;
        for name in names::of(&waiting.item, number) {
            self.named.remove(&name);
        }
        if let Some((id, of)) = waiting.item.of_node() {
            self.nodes.remove(&(Arc::clone(id), of, number));
        }
        self.waiting.remove(&(waiting.awaited.clone(), number));
        self.due.remove(&(waiting.until_ns, number));
        if let Item::Node(node) = &mut waiting.item {
            let mut position = 0..;
            node.existing.retain(|_| position.next().is_some_and(|it| !released.contains(&it)));
        }
        waiting
    }
}

/// All entries of a node that are itself, or changes of it.
fn of_node(id: &Arc<str>, of: OfNode) -> std::ops::RangeInclusive<(Arc<str>, OfNode, u64)> {
    (Arc::clone(id), of, 0)..=(Arc::clone(id), of, u64::MAX)
}

#[cfg(test)]
mod tests;
