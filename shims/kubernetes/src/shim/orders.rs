//! Collects the orders for the engine and groups them into messages.
//!
//! # Invariants
//! * A batch has nodes first, then applications, then allocations and asks, then everything that
//!   ends. So an item follows everything it refers to.
//! * An order that must follow an end is in a later batch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use monoceros_proto::si::v1 as si;

use super::messages::{EngineOrder, Key};

/// Most items of one message: as many as the engine handles before other messages.
const MESSAGE_ITEMS: usize = 1_000;
/// Shortest pause between two retries of all asks that predicates refused.
pub(crate) const TRIES_APART: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
struct Batch {
    nodes: Vec<si::NodeInfo>,
    submitted: Vec<si::AddApplicationRequest>,
    allocations: Vec<si::Allocation>,
    released: Vec<si::AllocationRelease>,
    removed: BTreeSet<String>,
}

/// Collected orders.
#[derive(Debug, Default)]
pub(super) struct Orders {
    batch: Batch,
    done: VecDeque<EngineOrder>,
    /// Whether to retry all asks that predicates refused, as soon as `next_try` allows.
    tries_again: bool,
    /// Earliest time of the next such retry.
    next_try: Duration,
    explain: BTreeSet<(Arc<str>, Option<Key>)>,
}

impl Orders {
    pub(super) fn node(&mut self, node: si::NodeInfo) {
        self.batch.nodes.push(node);
    }

    pub(super) fn submit(&mut self, application: si::AddApplicationRequest) {
        if self.batch.removed.contains(&application.application_id) {
            self.cut();
        }
        self.batch.submitted.push(application);
    }

    pub(super) fn remove(&mut self, application: &str) {
        self.batch.removed.insert(application.to_owned());
    }

    pub(super) fn allocation(&mut self, allocation: si::Allocation) {
        self.batch.allocations.push(allocation);
    }

    pub(super) fn release(&mut self, release: si::AllocationRelease) {
        self.batch.released.push(release);
    }

    pub(super) fn try_again(&mut self) {
        self.tries_again = true;
    }

    pub(super) fn explain(&mut self, application: Arc<str>, about: Option<Key>) {
        self.explain.insert((application, about));
    }

    pub(super) fn configure(&mut self, queues: String, extra: BTreeMap<String, String>) {
        self.cut();
        self.done.push_back(EngineOrder::Configure { queues, extra });
    }

    /// Closes the batch: later orders follow all earlier ones.
    pub(super) fn cut(&mut self) {
        let Batch { nodes, submitted, allocations, released, removed } =
            std::mem::take(&mut self.batch);
        let removed: Vec<_> = removed.into_iter().map(si::RemoveApplicationRequest::new).collect();
        in_messages(nodes, &mut self.done, EngineOrder::Nodes);
        in_messages(submitted, &mut self.done, EngineOrder::Submit);
        in_messages(allocations, &mut self.done, EngineOrder::Allocations);
        in_messages(released, &mut self.done, EngineOrder::Release);
        in_messages(removed, &mut self.done, EngineOrder::Remove);
    }

    /// Returns when [`Self::take`] has more orders. `None` if none are delayed.
    pub(super) fn due(&self) -> Option<Duration> {
        self.tries_again.then_some(self.next_try)
    }

    /// Takes the orders that may be sent now.
    pub(super) fn take(&mut self, now: Duration) -> VecDeque<EngineOrder> {
        self.cut();
        if self.tries_again && self.next_try <= now {
            self.tries_again = false;
            self.next_try = now + TRIES_APART;
            self.done.push_back(EngineOrder::TryAgain);
        }
        let explain = std::mem::take(&mut self.explain).into_iter();
        self.done.extend(explain.map(|(id, about)| EngineOrder::Explain(id, about)));
        std::mem::take(&mut self.done)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

fn in_messages<T>(
    mut items: Vec<T>,
    done: &mut VecDeque<EngineOrder>,
    message: impl Fn(Vec<T>) -> EngineOrder,
) {
    while items.len() > MESSAGE_ITEMS {
        let rest = items.split_off(MESSAGE_ITEMS);
        done.push_back(message(std::mem::replace(&mut items, rest)));
    }
    if !items.is_empty() {
        done.push_back(message(items));
    }
}
