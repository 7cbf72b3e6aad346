//! Asks whose starts failed: each waits before it is tried again.
//!
//! # Invariants
//! * An ask whose start failed is alone in its class until a start succeeds. Other asks like it are
//!   tried as if no start had failed.
//! * While it backs off, no event makes its class be tried again. When the back-off ends, the class
//!   is due.

use std::sync::Arc;

use super::ask::Ask;
use super::failed_starts::{FailedStart, FailedStarts, StartRetry};
use super::table::Asks;
use crate::nodes::{NodeIndex, NodeRequest};
use crate::specs::ask::AskSpec;
use crate::values::ids::{AskSlot, ClassId, NodeSlot};
use crate::waiting::WaitSet;

impl Ask {
    /// Returns the starts that failed since the last successful one, if any did.
    pub fn starts(&self) -> Option<&FailedStarts> {
        self.search.starts.as_deref()
    }

    /// Whether it waits because a start of it failed.
    pub fn backs_off(&self) -> bool {
        self.starts().is_some_and(|starts| starts.until_ns().is_some())
    }

    /// Returns the nodes of its last starts that failed.
    pub fn failed_nodes(&self) -> &[Arc<str>] {
        self.starts().map_or(&[], FailedStarts::nodes)
    }

    /// Returns the request for nodes on which no start of it has failed, which are tried first;
    /// `None` if no start has failed, or if it may use no other node.
    pub fn request_elsewhere(&self) -> Option<NodeRequest<'_>> {
        let failed = self.failed_nodes();
        let request = self.request();
        let has_choice = !failed.is_empty() && request.required.is_none();
        has_choice.then_some(NodeRequest { failed, ..request })
    }

    /// Returns the request for nodes that others have reserved and lend, without those on which a
    /// start of it failed.
    pub fn request_to_borrow(&self) -> NodeRequest<'_> {
        self.request_elsewhere().unwrap_or_else(|| self.request())
    }

    /// Whether a start of it failed on the node.
    pub fn has_failed_on(&self, node: &str) -> bool {
        self.failed_nodes().iter().any(|failed| **failed == *node)
    }

    /// Returns the first node that it may use. Nodes on which a start of it failed come last.
    pub fn first_node(&self, nodes: &NodeIndex) -> Option<NodeSlot> {
        let elsewhere = self.request_elsewhere().and_then(|request| nodes.first(&request));
        elsewhere.or_else(|| nodes.first(&self.request()))
    }

    /// Returns the node to try after this one, on which it was not placed.
    pub fn node_after(&self, node: NodeSlot, nodes: &NodeIndex) -> Option<NodeSlot> {
        let request = self.request();
        let Some(elsewhere) = self.request_elsewhere() else { return nodes.next(node, &request) };
        let has_failed_on = |node: NodeSlot| elsewhere.has_failed_on(nodes.id(node));
        let mut next = if has_failed_on(node) {
            nodes.next(node, &request)
        } else {
            let other = nodes.next(node, &elsewhere);
            if other.is_some() {
                return other;
            }
            nodes.first(&request)
        };
        // All other nodes have been tried.
        while let Some(other) = next.filter(|node| !has_failed_on(*node)) {
            next = nodes.next(other, &request);
        }
        next
    }

    /// Drops failed starts, after a successful start or a change of the request.
    pub(super) fn forget_starts(&mut self) {
        if let Some(search) = self.search.find_mut() {
            search.starts = None;
        }
    }
}

impl Asks {
    /// Records a failed start of the ask. If the ask is pending it waits, alone in its class.
    /// Returns the end of the back-off that begins now, ns since the epoch; `None` if the ask backs
    /// off already.
    pub fn start_failed(
        &mut self,
        slot: AskSlot,
        failed: FailedStart,
        retry: &StartRetry,
    ) -> Option<i64> {
        let search = self.ask_mut(slot).search.make();
        let until_ns = search.starts.get_or_insert_default().note(failed, retry);
        let ask = self.ask_mut(slot);
        // The ask had a node, so it does not lack machines.
        ask.attempted = false;
        ask.forget_refusals();
        self.set_apart(slot, WaitSet::Nothing);
        until_ns
    }

    /// Ends the back-off of the ask that lasts until `until_ns`, so that the ask is tried again.
    /// Returns whether that is the current back-off.
    pub fn end_start_backoff(&mut self, slot: AskSlot, until_ns: i64) -> bool {
        let starts = self.starts_mut(slot);
        if !starts.is_some_and(|starts| starts.end_backoff(until_ns)) {
            return false;
        }
        if let Some(class) = self.class_of(slot) {
            self.set_waits(class, WaitSet::Due);
        }
        true
    }

    /// Records a successful start of the ask: the ask is tried like any other again. Returns
    /// whether a start had failed before.
    pub fn started(&mut self, slot: AskSlot) -> bool {
        if self.ask(slot).starts().is_none() {
            return false;
        }
        self.leave_class(slot);
        let ask = self.ask_mut(slot);
        ask.forget_starts();
        ask.join_others();
        self.join_class(slot);
        true
    }

    /// Whether a request with the key of the ask asks for the same, so that earlier failed starts
    /// still count.
    pub fn is_repeated(&self, slot: AskSlot, said: &Arc<AskSpec>) -> bool {
        self.ask(slot).spec.is_repeated_by(said)
    }

    /// Ends the back-offs of single asks, because their gang is undecided and backs off as a whole.
    pub fn leave_starts_to_gang(&mut self) {
        let backing_off = self.table.iter().filter(|(_, ask)| ask.starts().is_some());
        for slot in backing_off.map(|(slot, _)| slot).collect::<Vec<_>>() {
            if let Some(starts) = self.starts_mut(slot) {
                starts.leave_to_gang();
            }
            if let Some(class) = self.class_of(slot) {
                self.set_waits(class, WaitSet::Due);
            }
        }
    }

    /// Returns `waits`; while the ask backs off, returns [`WaitSet::Nothing`].
    pub(super) fn unless_backing_off(&self, first: AskSlot, waits: WaitSet) -> WaitSet {
        if self.ask(first).backs_off() { WaitSet::Nothing } else { waits }
    }

    /// Whether the only ask of a class backs off.
    pub(super) fn class_backs_off(&self, class: ClassId) -> bool {
        self.ask(self.first_member(class)).backs_off()
    }

    fn starts_mut(&mut self, slot: AskSlot) -> Option<&mut FailedStarts> {
        self.table.find_mut(slot)?.search.find_mut()?.starts.as_deref_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::NodeOrder;
    use crate::values::epoch::Loosening;
    use crate::values::resources::{Limits, Resources};
    use crate::waiting::View;

    fn one() -> Resources {
        Resources::of(&[("vcore", 1)])
    }

    fn failed(node: &str) -> FailedStart {
        FailedStart::new(Some(Arc::from(node)), "no", 0)
    }

    /// Returns the ask that would be tried if there were capacity for all.
    fn tried(asks: &Asks) -> Option<String> {
        let (headroom, loosening) = (Limits::unlimited(), Loosening::NONE);
        let view = View {
            headroom: &headroom,
            loosening,
            may_start: true,
            nodes: None,
            limits: None,
            queues: None,
        };
        asks.first(&view).map(|(_, slot)| asks.ask(slot).key.to_string())
    }

    #[test]
    fn an_ask_that_backs_off_is_not_tried_and_others_like_it_are() {
        let mut asks = Asks::new();
        let (first, _) = asks.put(AskSpec::new("first", one()), 1, 1);
        let nodes = NodeIndex::new(NodeOrder::default());
        let until_ns = asks.start_failed(first, failed("n"), &StartRetry::default()).unwrap();
        asks.put(AskSpec::new("second", one()), 2, 2);
        assert_eq!(tried(&asks).as_deref(), Some("second"));
        asks.wake_all(&nodes);
        asks.take_one(asks.slot_of("second").unwrap());
        assert_eq!((tried(&asks), asks.waits()), (None, WaitSet::Nothing));
        // None of these ends the back-off: a node grows, a refusal singles the ask out.
        asks.set_waits(asks.class_of(first).unwrap(), WaitSet::Due);
        asks.single_out(first, WaitSet::Due);
        assert!(!asks.end_start_backoff(first, until_ns - 1));
        assert_eq!(tried(&asks), None);
        assert!(asks.end_start_backoff(first, until_ns));
        assert_eq!(tried(&asks).as_deref(), Some("first"));
    }

    #[test]
    fn a_start_that_succeeds_lets_it_join_its_like_again() {
        let mut asks = Asks::new();
        let (first, _) = asks.put(AskSpec { instances: 2, ..AskSpec::new("a", one()) }, 1, 1);
        asks.put(AskSpec::new("b", one()), 2, 2);
        asks.start_failed(first, failed("n"), &StartRetry::default());
        assert_eq!(asks.n_classes(), 2);
        assert!(asks.started(first) && !asks.started(first));
        assert_eq!((asks.n_classes(), tried(&asks).as_deref()), (1, Some("a")));
    }

    #[test]
    fn only_another_request_is_tried_at_once() {
        let mut asks = Asks::new();
        let spec = || AskSpec::new("a", one()).with(|it| it.required_node = Some(Arc::from("n")));
        let (slot, _) = asks.put(spec(), 1, 1);
        for (again, is_tried) in [
            (spec(), false),
            (AskSpec { priority: 1, ..spec() }, true),
            (AskSpec { resources: Arc::new(one().times(2)), ..spec() }, true),
            (AskSpec { tags: Some(Arc::new([("a".into(), "b".into())].into())), ..spec() }, true),
            (AskSpec { instances: 3, ..spec() }, false),
            (AskSpec::new("a", one()), true),
        ] {
            asks.put(spec(), 1, 1);
            asks.started(slot);
            asks.start_failed(slot, failed("n"), &StartRetry::default());
            asks.put(again, 2, 2);
            assert_eq!(tried(&asks).is_some(), is_tried);
        }
    }

    #[test]
    fn nodes_where_it_failed_come_after_all_others() {
        let mut nodes = NodeIndex::new(NodeOrder::default());
        let slots = ["n1", "n2", "n3", "n4"]
            .map(|id| nodes.insert(Arc::from(id), one(), one(), true).unwrap());
        let mut asks = Asks::new();
        let (ask, _) = asks.put(AskSpec::new("a", one()), 1, 1);
        for node in ["n3", "n1"] {
            asks.start_failed(ask, failed(node), &StartRetry::default());
        }
        let ask = asks.ask(ask);
        let all =
            std::iter::successors(ask.first_node(&nodes), |node| ask.node_after(*node, &nodes));
        let [n1, n2, n3, n4] = slots;
        assert_eq!(all.collect::<Vec<_>>(), [n2, n4, n1, n3]);
        nodes.update(n2, None, &Resources::new());
        nodes.update(n4, None, &Resources::new());
        assert_eq!(ask.first_node(&nodes), Some(n1));
    }
}
