//! Tests of a queue's report to its parent: an order that held a stopped queue would offer to it.

use monoceros_rules::queues::QueueConfig;
use monoceros_rules::queues::object_state::ObjectState;
use monoceros_rules::values::resources::Resources;

use super::*;
use crate::step::QueueSlot;

fn queue(state: ObjectState) -> Queue {
    let facts = QueueFacts {
        slot: QueueSlot(1),
        parent: Some(QueueSlot(0)),
        config: Arc::new(QueueConfig::bare("root.a", true)),
        state,
        fair_max: None,
        priority_first: true,
        quota_delay_ns: 0,
    };
    Queue::new(Arc::new(facts), None, Metrics::new())
}

/// A draining queue is in the order, a stopped one would not be. No code stops a queue yet.
#[test]
fn a_stopped_queue_with_something_pending_has_no_place_among_its_siblings() {
    let pending =
        LedgerDelta { pending: Resources::of(&[("vcore", 1)]).into(), ..LedgerDelta::default() };
    for (state, has_place) in
        [(ObjectState::Active, true), (ObjectState::Draining, true), (ObjectState::Stopped, false)]
    {
        let mut queue = queue(state);
        assert!(queue.update(RowSlot(0)).key.is_none(), "{state}, nothing is pending");
        assert_eq!(queue.ledger.apply(&pending), None);
        assert_eq!(queue.update(RowSlot(0)).key.is_some(), has_place, "{state}");
    }
}
