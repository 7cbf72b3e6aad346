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
//! # Invariants
//! * An item waits for one thing at a time and, whatever comes, no longer than the window in all.
//! * What waits for one thing is done in the order in which it came.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::input::NewNode;
use crate::step::{NodeChange, Op, WaitsFor};

/// How many items may wait unless set otherwise; further ones are rejected at once.
const ITEMS_MAX: usize = 10_000;
/// How many applications and nodes that are gone are remembered. If there are more, items for the
/// oldest of them wait in vain.
const GONE_MAX: usize = 10_000;

/// The items that wait, by the application or node that they name.
pub(super) struct ReorderBuffer {
    window: Duration,
    items_max: usize,
    waiting: BTreeMap<WaitsFor, Vec<Waiting>>,
    items: usize,
    /// The application that each waiting node waits for.
    nodes: BTreeMap<Arc<str>, Arc<str>>,
    gone: BTreeSet<WaitsFor>,
    /// The same in the order in which they went; more than once if they came again.
    gone_order: VecDeque<WaitsFor>,
}

/// An item that waits, and until when it may.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
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

impl Item {
    fn concerns_node(&self, id: &str) -> bool {
        match self {
            Self::Node(new) => *new.id == *id,
            Self::NodeChange(node, _) => **node == *id,
            Self::Op(..) => false,
        }
    }
}

impl ReorderBuffer {
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

    /// Until when an item may wait that comes now; as good as never, for a window that no clock can
    /// hold.
    pub(super) fn until_ns(&self, now_ns: i64) -> i64 {
        now_ns.saturating_add(i64::try_from(self.window.as_nanos()).unwrap_or(i64::MAX))
    }

    /// Whether this many more items may wait for it. Without a window nobody waits.
    pub(super) fn may_wait(&self, awaited: &WaitsFor, n_items: usize) -> bool {
        !self.window.is_zero()
            && self.items + n_items <= self.items_max
            && !self.gone.contains(awaited)
    }

    /// The application that this node waits for.
    pub(super) fn awaited_by_node(&self, id: &str) -> Option<WaitsFor> {
        self.nodes.get(id).cloned().map(WaitsFor::Application)
    }

    /// Puts an item in. Returns when the buffer is to be asked what [expires](Self::expire), if it
    /// is not asked earlier anyway.
    #[must_use = "nobody else sees to it that what waits does not wait for ever"]
    pub(super) fn put(&mut self, awaited: WaitsFor, item: Item, until_ns: i64) -> Option<i64> {
        if let (Item::Node(node), WaitsFor::Application(application)) = (&item, &awaited) {
            self.nodes.insert(Arc::clone(&node.id), Arc::clone(application));
        }
        self.items += 1;
        let waiting = self.waiting.entry(awaited).or_default();
        let is_first_due = waiting.iter().all(|other| until_ns < other.until_ns);
        waiting.push(Waiting { item, until_ns });
        is_first_due.then_some(until_ns)
    }

    /// Takes out everything that waits for this application or node, in order.
    pub(super) fn take(&mut self, awaited: &WaitsFor) -> Vec<Waiting> {
        let waiting = self.waiting.remove(awaited).unwrap_or_default();
        self.forget(&waiting);
        waiting
    }

    /// Takes out the items that have waited for it as long as they may, in order; says when to ask
    /// again.
    pub(super) fn expire(&mut self, awaited: &WaitsFor, now_ns: i64) -> (Vec<Item>, Option<i64>) {
        let expired = self.take_if(awaited, |waiting| waiting.until_ns <= now_ns);
        let left = self.waiting.get(awaited).into_iter().flatten();
        (expired, left.map(|waiting| waiting.until_ns).min())
    }

    /// Takes out the node of this id, which waits for `awaited`, and what waits for that node, in
    /// order.
    pub(super) fn take_node(&mut self, awaited: &WaitsFor, id: &str) -> Vec<Item> {
        self.take_if(awaited, |waiting| waiting.item.concerns_node(id))
    }

    /// Forgets the items of an application, or waiting for it, that the release `op` takes back.
    pub(super) fn release(&mut self, application: &Arc<str>, op: &Op) {
        let items = &mut self.items;
        self.waiting.retain(|_, waiting| {
            waiting.retain(|waiting| {
                let released = match &waiting.item {
                    Item::Op(of, earlier) => of == application && op.takes_back(earlier),
                    Item::Node(_) | Item::NodeChange(..) => false,
                };
                *items -= usize::from(released);
                !released
            });
            !waiting.is_empty()
        });
    }

    /// The application or node was rejected, has ended, or its RM wants it no more: from now on
    /// nothing waits for it, and what does is handed out.
    pub(super) fn gone(&mut self, id: WaitsFor) -> Vec<Item> {
        let waiting = self.take(&id).into_iter().map(|waiting| waiting.item).collect();
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

    /// Takes out everything, by what it waits for and in order.
    pub(super) fn take_all(&mut self) -> Vec<(WaitsFor, Item)> {
        self.items = 0;
        self.nodes.clear();
        let all = std::mem::take(&mut self.waiting).into_iter();
        all.flat_map(|(awaited, waiting)| {
            waiting.into_iter().map(move |waiting| (awaited.clone(), waiting.item))
        })
        .collect()
    }

    /// The application or node has come, perhaps again. Hands out what waited for it, in order.
    pub(super) fn came(&mut self, awaited: &WaitsFor) -> Vec<Waiting> {
        self.gone.remove(awaited);
        self.take(awaited)
    }

    fn take_if(&mut self, awaited: &WaitsFor, wanted: impl Fn(&Waiting) -> bool) -> Vec<Item> {
        let Some(waiting) = self.waiting.remove(awaited) else { return Vec::new() };
        let (taken, left): (Vec<_>, Vec<_>) = waiting.into_iter().partition(wanted);
        self.forget(&taken);
        if !left.is_empty() {
            self.waiting.insert(awaited.clone(), left);
        }
        taken.into_iter().map(|waiting| waiting.item).collect()
    }

    /// Forgets what was noted of items that were taken out.
    fn forget(&mut self, taken: &[Waiting]) {
        self.items -= taken.len();
        for waiting in taken {
            if let Item::Node(node) = &waiting.item {
                self.nodes.remove(&node.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use monoceros_rules::values::resources::Resources;
    use monoceros_rules::work::asks::AskSpec;

    use super::*;
    use crate::step::{Cause, Which};

    const SECOND: i64 = 1_000_000_000;

    fn buffer() -> ReorderBuffer {
        ReorderBuffer::new(Duration::from_secs(10))
    }

    fn app(id: &str) -> WaitsFor {
        WaitsFor::Application(Arc::from(id))
    }

    fn op(application: &str, key: &str) -> Item {
        Item::Op(Arc::from(application), Op::WithdrawAsks(Some(Arc::from(key))))
    }

    fn node(id: &str) -> Item {
        Item::Node(Box::new(NewNode {
            id: Arc::from(id),
            attributes: BTreeMap::new(),
            total: Resources::new(),
            occupied: Resources::new(),
            existing: Vec::new(),
            draining: false,
        }))
    }

    fn shown(items: &[Item]) -> Vec<String> {
        let show = |item: &Item| match item {
            Item::Op(of, Op::WithdrawAsks(Some(key))) => format!("{key} of {of}"),
            Item::Op(of, op) => format!("{} of {of}", op.spec().map_or("?", |spec| &spec.key)),
            Item::Node(node) => format!("node {}", node.id),
            Item::NodeChange(node, _) => format!("change of {node}"),
        };
        items.iter().map(show).collect()
    }

    #[test]
    fn what_waits_for_one_thing_comes_out_in_the_order_in_which_it_came() {
        let mut buffer = buffer();
        for key in ["b", "a", "c"] {
            let _ = buffer.put(app("x"), op("x", key), SECOND);
        }
        let _ = buffer.put(app("y"), op("y", "d"), SECOND);
        let out: Vec<Item> = buffer.came(&app("x")).into_iter().map(|it| it.item).collect();
        assert_eq!(shown(&out), ["b of x", "a of x", "c of x"]);
        assert!(!buffer.is_empty(), "another waits for something else");
    }

    #[test]
    fn nothing_waits_longer_than_the_window_whoever_waits_beside_it() {
        let mut buffer = buffer();
        let until = buffer.until_ns(5 * SECOND);
        assert_eq!(until, 15 * SECOND);
        assert_eq!(buffer.put(app("x"), op("x", "late"), until), Some(until));
        assert_eq!(buffer.put(app("x"), op("x", "later"), until + 1), None, "asked earlier anyway");
        // It waited for something else before.
        assert_eq!(buffer.put(app("x"), op("x", "early"), 7 * SECOND), Some(7 * SECOND));
        let (expired, next) = buffer.expire(&app("x"), 7 * SECOND);
        assert_eq!((shown(&expired), next), (vec!["early of x".to_owned()], Some(until)));
        let (expired, next) = buffer.expire(&app("x"), until + 1);
        assert_eq!((shown(&expired).len(), next), (2, None));
        assert!(buffer.is_empty());
    }

    #[test]
    fn no_more_wait_than_may_and_none_without_a_window() {
        let mut buffer = buffer();
        buffer.set_items_max(2);
        assert!(buffer.may_wait(&app("x"), 2) && !buffer.may_wait(&app("x"), 3));
        let _ = buffer.put(app("x"), op("x", "a"), SECOND);
        let _ = buffer.put(app("y"), op("y", "b"), SECOND);
        assert!(!buffer.may_wait(&app("x"), 1));
        buffer.take(&app("y"));
        assert!(buffer.may_wait(&app("x"), 1), "what is taken out makes room");
        buffer.set_window(Duration::ZERO);
        assert!(!buffer.may_wait(&app("x"), 1));
    }

    #[test]
    fn nothing_waits_for_what_is_gone_until_it_comes_again() {
        let mut buffer = buffer();
        let _ = buffer.put(app("x"), op("x", "a"), SECOND);
        assert_eq!(shown(&buffer.gone(app("x"))), ["a of x"]);
        let node = WaitsFor::Node(Arc::from("x"));
        assert!(!buffer.may_wait(&app("x"), 1) && buffer.may_wait(&app("y"), 1));
        assert!(buffer.may_wait(&node, 1), "a node may have the id of an application");
        assert!(buffer.gone(node.clone()).is_empty());
        assert!(!buffer.may_wait(&node, 1));
        assert!(buffer.came(&app("x")).is_empty());
        assert!(buffer.may_wait(&app("x"), 1) && !buffer.may_wait(&node, 1));
    }

    #[test]
    fn no_more_ids_are_remembered_than_a_bound_and_none_without_a_window() {
        let mut buffer = buffer();
        for n in 0..=GONE_MAX {
            buffer.gone(app(&n.to_string()));
        }
        assert_eq!((buffer.gone.len(), buffer.gone_order.len()), (GONE_MAX, GONE_MAX));
        assert!(buffer.may_wait(&app("0"), 1) && !buffer.may_wait(&app("1"), 1));
        let mut unused = ReorderBuffer::new(Duration::ZERO);
        unused.gone(app("x"));
        assert!(unused.gone.is_empty());
    }

    #[test]
    fn everything_comes_out_at_once_in_order_of_what_is_waited_for() {
        let mut buffer = buffer();
        let _ = buffer.put(app("x"), node("n1"), SECOND);
        let _ = buffer.put(app("x"), op("x", "a"), SECOND);
        let _ = buffer.put(WaitsFor::Node(Arc::from("n2")), op("y", "b"), SECOND);
        let (awaited, items): (Vec<_>, Vec<_>) = buffer.take_all().into_iter().unzip();
        assert_eq!(awaited, [app("x"), app("x"), WaitsFor::Node(Arc::from("n2"))]);
        assert_eq!(shown(&items), ["node n1", "a of x", "b of y"]);
        assert!(buffer.is_empty() && buffer.items == 0 && buffer.nodes.is_empty());
    }

    #[test]
    fn a_window_beyond_all_time_ends_at_the_end_of_time() {
        let buffer = ReorderBuffer::new(Duration::MAX);
        assert_eq!(buffer.until_ns(SECOND), i64::MAX);
    }

    #[test]
    fn a_node_that_leaves_takes_what_waits_for_it_along_and_nothing_else() {
        let mut buffer = buffer();
        let _ = buffer.put(app("x"), node("n1"), SECOND);
        let _ = buffer.put(app("x"), op("x", "a"), SECOND);
        let change = Item::NodeChange(Arc::from("n1"), NodeChange::Drain(true));
        let _ = buffer.put(app("x"), change, SECOND);
        let awaited = buffer.awaited_by_node("n1");
        assert_eq!(awaited, Some(app("x")));
        assert_eq!(shown(&buffer.take_node(&app("x"), "n1")), ["node n1", "change of n1"]);
        assert_eq!(buffer.awaited_by_node("n1"), None);
        assert_eq!(buffer.items, 1);
    }

    #[test]
    fn a_release_makes_what_it_takes_back_wait_no_more() {
        let mut buffer = buffer();
        let spec = AskSpec::new("key", Resources::of(&[("vcore", 1)]));
        let ask = Op::Ask(Arc::new(spec));
        let _ = buffer.put(app("x"), Item::Op(Arc::from("x"), ask), SECOND);
        let release =
            |key: &str| Op::Release { which: Which::Key(Arc::from(key)), cause: Cause::Stopped };
        buffer.release(&Arc::from("y"), &release("key"));
        buffer.release(&Arc::from("x"), &release("other"));
        assert_eq!(buffer.items, 1, "another application, another key");
        buffer.release(&Arc::from("x"), &release("key"));
        assert!(buffer.is_empty() && buffer.items == 0);
    }
}
