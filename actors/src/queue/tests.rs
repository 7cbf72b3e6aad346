//! What a queue says of itself to the one above.

use super::*;

fn queue(state: ObjectState) -> Queue {
    let facts = QueueFacts {
        slot: QueueSlot(1),
        parent: Some(QueueSlot(0)),
        config: Arc::new(QueueConfig::bare("root.a", true)),
        state,
        fair_max: None,
        priority_first: true,
    };
    Queue::new(Arc::new(facts), None, Metrics::new())
}

/// Row 5, and sections 4.3 and 5.2. Nothing stops a queue yet.
#[test]
fn s4_15_a_stopped_queue_with_something_pending_has_no_place_among_its_siblings() {
    let pending = LedgerDelta { pending: Resources::of(&[("vcore", 1)]), ..LedgerDelta::default() };
    for (state, has_place) in
        [(ObjectState::Active, true), (ObjectState::Draining, true), (ObjectState::Stopped, false)]
    {
        let mut queue = queue(state);
        assert!(queue.update(RowSlot(0)).key.is_none(), "{state}, nothing is pending");
        assert_eq!(queue.ledger.apply(&pending), None);
        assert_eq!(queue.update(RowSlot(0)).key.is_some(), has_place, "{state}");
    }
}
