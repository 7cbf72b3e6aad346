//! The reorder buffer: items that arrived before the application or node that they name.
//!
//! Over gRPC, allocations, applications and nodes arrive by separate streams, and an item may
//! overtake the application or node that it names. It waits here until that joins, at most for the
//! reorder window. After the window it is rejected as if it had just arrived. An RM in this process
//! sends everything in one order, and has no window.
//!
//! Only an id that is new to the session can be on its way: no item waits for an application that
//! was rejected, removed or has ended, nor for a node that was rejected or removed. Releases never
//! wait: if an allocation is not in the books, only an item in the buffer can be released.
//!
//! The buffer keeps items and hands them out. It knows neither the books nor the RM:
//! [`intake`](super::intake) interprets items, and puts in only those that name an application or a
//! node that is not there.
//!
//! # Cost
//! Each item has a number, in order of arrival, and is in ordered sets by what it waits for, by the
//! end of its time, and by the [names](names) under which a release may find it. So each arrival
//! costs a few look-ups and the items that it takes out, however many items wait.
//!
//! # Invariants
//! * The buffer is bounded, by number and by memory: an item has a [weight].
//! * An item waits for one application or node at a time, and no longer than the window in all.
//! * Items that wait for the same application or node are carried out in order of arrival.
//! * An item that is taken out is in none of the sets any more.

mod item;
mod names;

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::values::resources::Resources;

use self::item::OfNode;
pub(super) use self::item::{Item, weight_of_change, weight_of_node, weight_of_op};
use self::names::Name;
use crate::step::{Existing, NodeChange, Op, WaitsFor};

/// Most [`weight`] of the buffer unless set otherwise; further items are rejected at once.
const WEIGHT_MAX: usize = 10_000;
/// Most removed applications and nodes that are remembered. If there are more, items for the oldest
/// of them wait without result.
const GONE_MAX: usize = 10_000;

/// The items that wait.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ReorderBuffer {
    window: Duration,
    weight_max: usize,
    /// The weight of all items.
    weight: usize,
    /// Items by their numbers, which only rise.
    items: BTreeMap<u64, Held>,
    next: u64,
    waiting: BTreeSet<(WaitsFor, u64)>,
    /// Items by the end of their time, ns since the epoch.
    due: BTreeSet<(i64, u64)>,
    /// The time of the next armed check of what [expires](Self::expire); `None` if no check is
    /// armed.
    armed_ns: Option<i64>,
    /// Names under which releases find items.
    named: BTreeSet<Name>,
    /// The waiting nodes, and after each its changes.
    nodes: BTreeSet<(Arc<str>, OfNode, u64)>,
    gone: BTreeSet<WaitsFor>,
    /// The ids of `gone` in order of removal. An id that joined again and was removed again is
    /// repeated.
    gone_order: VecDeque<WaitsFor>,
}

/// An item that waits, and the end of its time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Waiting {
    pub(super) awaited: WaitsFor,
    pub(super) item: Item,
    /// ns since the epoch.
    pub(super) until_ns: i64,
}

/// An item in the buffer.
#[derive(Clone, Serialize, Deserialize)]
struct Held {
    weight: usize,
    waiting: Waiting,
    /// For a node: the positions of its allocations that were released while it waited.
    released: BTreeSet<usize>,
    /// For a node: the number of its remaining allocations of the application that it waits for.
    named: usize,
}

/// The result of a release in the buffer.
#[derive(Debug, Default)]
pub(super) struct ReleasedItems {
    /// Whether the release found an item.
    pub(super) any: bool,
    /// Reported allocations that ended by the release, each once.
    pub(super) existing: Vec<Existing>,
    /// Nodes that no longer name what they waited for, each with its changes, in order of arrival.
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

    /// Sets the window for items that arrive from now on.
    pub(super) fn set_window(&mut self, window: Duration) {
        self.window = window;
    }

    /// Sets the bound on the weight for items that arrive from now on.
    pub(super) fn set_weight_max(&mut self, weight_max: usize) {
        self.weight_max = weight_max;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the end of the time that a new item may wait; the largest time if no clock can hold
    /// the window.
    pub(super) fn until_ns(&self, now_ns: i64) -> i64 {
        now_ns.saturating_add(i64::try_from(self.window.as_nanos()).unwrap_or(i64::MAX))
    }

    /// Whether items of this weight may wait for an application or node, besides all others.
    /// Without a window no item may wait.
    pub(super) fn may_wait(&self, awaited: &WaitsFor, weight: usize) -> bool {
        !self.window.is_zero() && self.has_room(weight) && !self.gone.contains(awaited)
    }

    /// Whether there is room for this weight.
    pub(super) fn has_room(&self, weight: usize) -> bool {
        self.weight.saturating_add(weight) <= self.weight_max
    }

    /// Returns what this node waits for; `None` if it does not wait.
    pub(super) fn awaited_by_node(&self, id: &Arc<str>) -> Option<WaitsFor> {
        let (_, _, number) = self.nodes.range(of_node(id, OfNode::Itself)).next_back()?;
        Some(self.items[number].waiting.awaited.clone())
    }

    /// Puts an item in. Returns the time of the next check of what [expires](Self::expire), unless
    /// an earlier check is armed.
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

    /// Takes out the items whose time is over, in order. Returns them with the time of the next
    /// check.
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

    /// Takes out the nodes of this id, and the items that wait for them, in order of arrival.
    pub(super) fn take_node(&mut self, id: &Arc<str>) -> Vec<Waiting> {
        let of_both = [OfNode::Itself, OfNode::Change].into_iter();
        let all = of_both.flat_map(|of| self.nodes.range(of_node(id, of)));
        let mut numbers: Vec<u64> = all.map(|(_, _, number)| *number).collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|number| self.remove(number)).collect()
    }

    /// Takes out the items that the release `op` names: requests, and reported allocations, alone
    /// or with their node.
    pub(super) fn release(&mut self, application: &Arc<str>, op: &Op) -> ReleasedItems {
        let mut taken = ReleasedItems::default();
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

    /// Takes one allocation off a waiting node. If it was the last that the node waited for, adds
    /// the node's id to `freed`.
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

    /// Notes that the application or node was rejected, has ended or was removed by its RM. Returns
    /// the items that wait for it; from now on no item may wait for it.
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

    /// Calls `show` with each amount of all items.
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

    /// Takes out all items, ordered by the application or node that they wait for, then by arrival.
    pub(super) fn take_all(&mut self) -> Vec<Waiting> {
        let numbers: Vec<u64> = self.waiting.iter().map(|(_, number)| *number).collect();
        numbers.into_iter().map(|number| self.remove(number)).collect()
    }

    /// Notes that the application or node has joined, perhaps again. Returns the items that waited
    /// for it, in order.
    pub(super) fn came(&mut self, awaited: &WaitsFor) -> Vec<Waiting> {
        self.gone.remove(awaited);
        self.take(awaited)
    }

    /// Takes out all items that wait for this application or node, in order.
    fn take(&mut self, awaited: &WaitsFor) -> Vec<Waiting> {
        if self.items.is_empty() {
            return Vec::new();
        }
        let all = (awaited.clone(), 0)..=(awaited.clone(), u64::MAX);
        let numbers: Vec<u64> = self.waiting.range(all).map(|(_, number)| *number).collect();
        numbers.into_iter().map(|number| self.remove(number)).collect()
    }

    /// Returns the time of the next check, unless an earlier check is armed.
    fn arm(&mut self) -> Option<i64> {
        let (due_ns, _) = *self.due.first()?;
        if self.armed_ns.is_some_and(|armed_ns| armed_ns <= due_ns) {
            return None;
        }
        self.armed_ns = Some(due_ns);
        self.armed_ns
    }

    /// Takes an item out, without those of its allocations that were released while it waited.
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

/// Returns the range of entries that are the node itself, or changes of it.
fn of_node(id: &Arc<str>, of: OfNode) -> std::ops::RangeInclusive<(Arc<str>, OfNode, u64)> {
    (Arc::clone(id), of, 0)..=(Arc::clone(id), of, u64::MAX)
}

#[cfg(test)]
mod tests;
