//! Messages that consecutive streams take from an outbox.

use monoceros_proto::si::v1 as si;
use prost::Message as _;

use super::*;
use crate::grpc::allocation_responses::QueuedAllocations;
use crate::grpc::session::backlog::Marks;

const ROOMY: Bounds = Bounds {
    chunk_items: 1_000,
    chunk_bytes: 1 << 20,
    outbox: Load { items: 1_000, bytes: 1 << 20 },
    grace: Duration::from_secs(60),
    resyncs: false,
};

/// Queues a message and ignores the marks.
fn push<R: Reply>(outbox: &Outbox<R>, reply: R) -> Result<(), OutboxOverflow> {
    outbox.push(reply).map(|_| ())
}

/// Takes the next message and ignores the marks.
fn take<R: Reply>(outbox: &Outbox<R>, stream: &Arc<StreamHandle>) -> Option<R> {
    outbox.take(stream, |_| {}).map(|(reply, _)| reply.decoded())
}

fn empty<R: Reply>(bounds: Bounds) -> Outbox<R> {
    let marks = Marks { high: bounds.outbox, low: bounds.outbox };
    Outbox::new(bounds, &Arc::new(Backlog::new(marks)))
}

fn bind<R: Reply>(outbox: &Outbox<R>, stream: &Arc<StreamHandle>) {
    outbox.bind(stream, None, None).unwrap();
}

fn accepted(ids: &[&str]) -> si::NodeResponse {
    let accepted = ids
        .iter()
        .map(|id| si::AcceptedNode { node_id: (*id).to_owned(), ..Default::default() })
        .collect();
    si::NodeResponse { accepted, ..si::NodeResponse::default() }
}

fn ids(reply: &si::NodeResponse) -> Vec<&str> {
    reply.accepted.iter().map(|node| node.node_id.as_str()).collect()
}

fn bound(outbox: &Outbox<si::NodeResponse>) -> Arc<StreamHandle> {
    let stream = Arc::new(StreamHandle::new());
    bind(outbox, &stream);
    stream
}

#[test]
fn messages_wait_for_the_first_stream() {
    let outbox = empty(ROOMY);
    push(&outbox, accepted(&["n1"])).unwrap();
    push(&outbox, accepted(&["n2"])).unwrap();
    let stream = bound(&outbox);
    assert_eq!(ids(&take(&outbox, &stream).unwrap()), ["n1", "n2"]);
    assert!(take(&outbox, &stream).is_none());
}

#[test]
fn small_messages_are_joined_within_the_bounds() {
    let outbox = empty(Bounds { chunk_items: 3, ..ROOMY });
    let stream = bound(&outbox);
    for pair in [["n1", "n2"], ["n3", "n4"], ["n5", "n6"]] {
        push(&outbox, accepted(&pair)).unwrap();
    }
    push(&outbox, accepted(&["n7"])).unwrap();
    assert_eq!(ids(&take(&outbox, &stream).unwrap()), ["n1", "n2"]);
    assert_eq!(ids(&take(&outbox, &stream).unwrap()), ["n3", "n4"]);
    assert_eq!(ids(&take(&outbox, &stream).unwrap()), ["n5", "n6", "n7"]);
    assert_eq!(outbox.backlog.load(), Load::default());
}

#[test]
fn load_of_joined_messages_is_exact() {
    let bytes = accepted(&["n1", "n2", "n3"]).encoded_len();
    for (chunk_bytes, n_messages) in [(bytes, 1), (bytes - 1, 2)] {
        let outbox = empty(Bounds { chunk_bytes, ..ROOMY });
        let stream = bound(&outbox);
        for id in ["n1", "n2", "n3"] {
            push(&outbox, accepted(&[id])).unwrap();
        }
        let messages: Vec<_> = std::iter::from_fn(|| take(&outbox, &stream)).collect();
        assert_eq!(messages.len(), n_messages);
        assert!(messages.iter().all(|message| message.encoded_len() <= chunk_bytes));
    }
}

/// A message with one item in the list named by that letter.
fn one(list: char) -> si::AllocationResponse {
    let mut reply = si::AllocationResponse::default();
    match list {
        'n' => reply.new.push(si::Allocation::default()),
        'j' => reply.rejected.push(si::RejectedAllocationAsk::default()),
        'J' => reply.rejected_allocations.push(si::RejectedAllocation::default()),
        'r' => reply.released.push(si::AllocationRelease::default()),
        'a' => reply.released_asks.push(si::AllocationAskRelease::default()),
        other => panic!("no list `{other}`"),
    }
    reply
}

#[test]
fn joining_keeps_the_reading_order() {
    for (pushed, taken) in [
        ("nnjJra", "nnjJra"),
        ("rnrn", "r nr n"),
        ("nrrn", "nrr n"),
        ("arJjn", "a r J j n"),
        ("jnjr", "j njr"),
    ] {
        let outbox = empty(ROOMY);
        let stream = Arc::new(StreamHandle::new());
        bind(&outbox, &stream);
        for list in pushed.chars() {
            push(&outbox, QueuedAllocations::from(one(list))).unwrap();
        }
        let read = |reply: QueuedAllocations| -> String {
            let lists = "njJra".chars().zip(reply.lengths());
            lists.map(|(list, length)| list.to_string().repeat(length)).collect()
        };
        let messages: Vec<_> = std::iter::from_fn(|| take(&outbox, &stream)).map(read).collect();
        assert_eq!(messages.join(" "), taken, "of {pushed}");
    }
}

#[test]
fn newer_stream_displaces_the_older() {
    let outbox = empty(ROOMY);
    let older = bound(&outbox);
    push(&outbox, accepted(&["n1"])).unwrap();
    let newer = bound(&outbox);
    assert!(matches!(older.end(), Some(StreamEnd::Displaced { .. })));
    assert!(take(&outbox, &older).is_none());
    outbox.release(&older);
    assert_eq!(ids(&take(&outbox, &newer).unwrap()), ["n1"]);
}

#[test]
fn large_messages_are_cut_by_items_and_bytes() {
    let outbox = empty(Bounds { chunk_items: 2, ..ROOMY });
    let stream = bound(&outbox);
    push(&outbox, accepted(&["n1", "n2", "n3"])).unwrap();
    assert_eq!(ids(&take(&outbox, &stream).unwrap()), ["n1", "n2"]);
    assert_eq!(ids(&take(&outbox, &stream).unwrap()), ["n3"]);

    let outbox = empty(Bounds { chunk_bytes: 40, ..ROOMY });
    let stream = bound(&outbox);
    let long = "n".repeat(100);
    push(&outbox, accepted(&["n1", "n2", &long, "n3"])).unwrap();
    assert_eq!(ids(&take(&outbox, &stream).unwrap()), ["n1", "n2"]);
    assert_eq!(ids(&take(&outbox, &stream).unwrap()), [&long], "larger than a chunk, so alone");
    assert_eq!(ids(&take(&outbox, &stream).unwrap()), ["n3"]);
}

#[test]
fn cutting_keeps_the_reading_order() {
    let outbox = empty(Bounds { chunk_items: 1, ..ROOMY });
    let stream = Arc::new(StreamHandle::new());
    bind(&outbox, &stream);
    let mixed = si::AllocationResponse {
        released_asks: vec![si::AllocationAskRelease::default()],
        released: vec![si::AllocationRelease::default()],
        rejected: vec![si::RejectedAllocationAsk::default()],
        new: vec![si::Allocation::default()],
        ..si::AllocationResponse::default()
    };
    push(&outbox, QueuedAllocations::from(mixed)).unwrap();
    let take = || take(&outbox, &stream).unwrap().into_message();
    assert_eq!(take().new.len(), 1);
    assert_eq!(take().rejected.len(), 1);
    assert_eq!(take().released.len(), 1);
    assert_eq!(take().released_asks.len(), 1);
}

#[test]
fn push_beyond_the_bounds_is_refused() {
    let outbox = empty(Bounds { outbox: Load { items: 2, bytes: 999 }, ..ROOMY });
    let stream = bound(&outbox);
    push(&outbox, accepted(&["n1", "n2"])).unwrap();
    push(&outbox, accepted(&["n3"])).unwrap_err();
    take(&outbox, &stream).unwrap();
    push(&outbox, accepted(&["n3"])).unwrap();

    let outbox = empty(Bounds { outbox: Load { items: 9, bytes: 5 }, ..ROOMY });
    push(&outbox, accepted(&["n1", "n2"])).unwrap_err();
}

#[test]
fn closing_drops_messages_and_ends_the_stream() {
    let outbox = empty(ROOMY);
    let stream = bound(&outbox);
    push(&outbox, accepted(&["n1"])).unwrap();
    outbox.close(&StreamEnd::Superseded { by: None });
    push(&outbox, accepted(&["n2"])).unwrap();
    assert!(take(&outbox, &stream).is_none());
    assert!(matches!(stream.end(), Some(StreamEnd::Superseded { .. })));
    outbox.bind(&stream, None, None).unwrap_err();
}

/// Node ids of all messages that `stream` can take.
fn all(outbox: &Outbox<si::NodeResponse>, stream: &Arc<StreamHandle>) -> Vec<String> {
    let messages = std::iter::from_fn(|| take(outbox, stream));
    messages.flat_map(|reply| reply.accepted).map(|node| node.node_id).collect()
}

#[test]
fn undelivered_messages_precede_new_ones() {
    let outbox = empty(Bounds { chunk_items: 1, ..ROOMY });
    let stream = bound(&outbox);
    push(&outbox, accepted(&["n1", "n2"])).unwrap();
    assert_eq!(all(&outbox, &stream), ["n1", "n2"]);
    push(&outbox, accepted(&["n3"])).unwrap();
    outbox.release(&stream);
    push(&outbox, accepted(&["n4"])).unwrap();
    let next = bound(&outbox);
    assert_eq!(all(&outbox, &next), ["n1", "n2", "n3", "n4"]);
    assert!(all(&outbox, &next).is_empty());
}

#[tokio::test(start_paused = true)]
async fn stream_older_than_the_grace_has_delivered() {
    let outbox = empty(ROOMY);
    let stream = bound(&outbox);
    push(&outbox, accepted(&["n1"])).unwrap();
    assert_eq!(all(&outbox, &stream), ["n1"]);
    tokio::time::advance(ROOMY.grace).await;
    push(&outbox, accepted(&["n2"])).unwrap();
    assert_eq!(all(&outbox, &stream), ["n2"]);
    outbox.release(&stream);
    let next = bound(&outbox);
    assert_eq!(all(&outbox, &next), ["n2"]);
    tokio::time::advance(ROOMY.grace).await;
    outbox.forget_confirmed();
    assert_eq!(outbox.queue().kept, Load::default());
}

#[test]
fn resuming_client_sees_numbers() {
    let outbox = empty(Bounds { chunk_items: 1, ..ROOMY });
    let stream = Arc::new(StreamHandle::new());
    outbox.bind(&stream, Some(0), None).unwrap();
    push(&outbox, accepted(&["n1", "n2", "n3"])).unwrap();
    let numbers = std::iter::from_fn(|| take(&outbox, &stream)).map(|reply| reply.seq);
    assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 3]);
    outbox.acknowledge(&stream, 1);
    let next = Arc::new(StreamHandle::new());
    outbox.bind(&next, Some(2), None).unwrap();
    let next_repeat = take(&outbox, &next).unwrap();
    assert_eq!((next_repeat.seq, ids(&next_repeat)), (3, vec!["n3"]));
    // A mistake does not displace the open stream.
    let wrong = outbox.bind(&Arc::new(StreamHandle::new()), Some(9), None);
    assert!(matches!(wrong, Err(Unbindable::Unknown)));
    assert!(next.end().is_none());
    let plain = bound(&outbox);
    assert_eq!(take(&outbox, &plain).unwrap().seq, 0, "numbers are for those who ask");
}

#[test]
fn discarding_sent_messages_makes_room() {
    let outbox = empty(Bounds { outbox: Load { items: 10, bytes: 9_999 }, ..ROOMY });
    let stream = bound(&outbox);
    for _ in 0..50 {
        push(&outbox, accepted(&["n1", "n2", "n3"])).unwrap();
        take(&outbox, &stream).unwrap();
    }
    assert!(outbox.queue().kept.items <= 10);
    outbox.release(&stream);
    let late = outbox.bind(&Arc::new(StreamHandle::new()), None, None);
    assert!(matches!(late, Err(Unbindable::Gap)));
}

#[test]
fn resync_policy_spares_an_empty_outbox() {
    let outbox = empty(Bounds { resyncs: true, ..ROOMY });
    let idle = bound(&outbox);
    outbox.release(&idle);
    let stream = bound(&outbox);
    push(&outbox, accepted(&["n1"])).unwrap();
    outbox.release(&stream);
    let late = outbox.bind(&Arc::new(StreamHandle::new()), None, None);
    assert!(matches!(late, Err(Unbindable::Gap)));
}

#[test]
fn without_grace_nothing_is_kept() {
    let outbox = empty(Bounds { grace: Duration::ZERO, ..ROOMY });
    let stream = bound(&outbox);
    push(&outbox, accepted(&["n1"])).unwrap();
    take(&outbox, &stream).unwrap();
    assert_eq!(outbox.queue().kept, Load::default());
    outbox.release(&stream);
    assert!(all(&outbox, &bound(&outbox)).is_empty());
}
