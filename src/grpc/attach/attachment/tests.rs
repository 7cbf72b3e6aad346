//! An attachment with its timer task and a stream, in virtual time.

use monoceros_proto::v1::shim_message::Body as ShimBody;

use std::collections::BTreeMap;

use super::notifications::FOREIGN;
use super::*;

/// A started attachment and its stream.
fn attached(capability: cb::Capability) -> (Arc<Attachment>, Arc<StreamHandle>) {
    let attachment = Arc::new(Attachment::for_tests());
    tokio::spawn(watch(Arc::downgrade(&attachment), attachment.ended.clone()));
    let stream = Arc::new(StreamHandle::new());
    let hello = cb::Hello { capabilities: vec![capability.into()], ..Default::default() };
    attachment.attach(&stream, &hello, "me".to_owned(), 1).unwrap();
    (attachment, stream)
}

/// Waits for the next message that `wanted` accepts.
async fn next<T>(
    attachment: &Attachment,
    stream: &Arc<StreamHandle>,
    wanted: impl Fn(Body) -> Option<T>,
) -> T {
    loop {
        match attachment.take(stream) {
            Some(message) => {
                if let Some(found) = message.body.and_then(&wanted) {
                    return found;
                }
            }
            None => stream.news().await,
        }
    }
}

fn say(attachment: &Attachment, stream: &Arc<StreamHandle>, body: ShimBody) {
    attachment.receive(stream, cb::ShimMessage { body: Some(body) }).unwrap();
}

#[tokio::test(start_paused = true)]
async fn unanswered_requests_time_out() {
    let (attachment, stream) = attached(cb::Capability::StateDump);
    let reader = {
        let attachment = Arc::clone(&attachment);
        tokio::spawn(async move {
            loop {
                next(&attachment, &stream, |body| match body {
                    Body::Heartbeat(beat) => Some(beat),
                    _ => None,
                })
                .await;
                say(&attachment, &stream, ShimBody::Heartbeat(cb::Heartbeat::default()));
            }
        })
    };
    let (first, second) = tokio::join!(attachment.rm_state(), attachment.rm_state());
    for state in [first, second] {
        assert!(state.unwrap_err().contains("in time"));
    }
    reader.abort();
    attachment.save_config(String::new(), BTreeMap::new()).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn foreign_allocations_are_not_recorded_as_reported() {
    let (attachment, stream) = attached(cb::Capability::CacheSync);
    next(&attachment, &stream, |body| matches!(body, Body::CacheSync(_)).then_some(())).await;
    let on_n1 = |key: &str, tag: Option<&str>| si::Allocation {
        allocation_key: key.to_owned(),
        node_id: "n1".to_owned(),
        allocation_tags: tag.into_iter().map(|tag| (tag.to_owned(), String::new())).collect(),
        ..Default::default()
    };
    let allocations = vec![on_n1("theirs", Some(FOREIGN)), on_n1("ours", None)];
    attachment.allocations_from_rm(&si::AllocationRequest { allocations, ..Default::default() });
    let new = vec![on_n1("theirs", None), on_n1("ours", None)];
    attachment.allocations(si::AllocationResponse { new, ..Default::default() });
    let told = next(&attachment, &stream, |body| match body {
        Body::CacheSync(sync) => sync.args,
        _ => None,
    });
    let told: Vec<_> = told.await.assumed_allocations;
    let keys: Vec<_> = told.iter().map(|one| &*one.allocation_key).collect();
    assert_eq!(keys, ["theirs"], "the other one was reported");
}

/// Records the delivered responses.
#[derive(Default)]
struct Delivered(Mutex<Vec<String>>);

impl AllocationSink for Delivered {
    fn deliver(&self, response: si::AllocationResponse) {
        let keys = response.new.into_iter().map(|one| one.allocation_key);
        self.0.lock().unwrap().extend(keys);
    }
}

#[tokio::test(start_paused = true)]
async fn allocation_is_delivered_after_its_sync_or_timeout() {
    let (attachment, stream) = attached(cb::Capability::CacheSync);
    let sink = Arc::new(Delivered::default());
    let delivery: Weak<Delivered> = Arc::downgrade(&sink);
    attachment.delivery.get_or_init(|| delivery);
    let place = |key: &str| {
        let allocation_key = key.to_owned();
        let new = vec![si::Allocation { allocation_key, ..Default::default() }];
        attachment.allocations(si::AllocationResponse { new, ..Default::default() });
    };
    let delivered = || sink.0.lock().unwrap().concat();
    let seq = |body| match body {
        Body::CacheSync(sync) => Some(sync.cache_seq),
        _ => None,
    };
    let snapshot = next(&attachment, &stream, seq).await;
    attachment.all_delivered().await;
    place("a");
    let taken = next(&attachment, &stream, seq).await;
    attachment.written().note(snapshot);
    let patience = CallbackOptions::for_tests().callback.cache_sync_timeout;
    let early = tokio::time::timeout(patience / 2, attachment.all_delivered());
    assert!(early.await.is_err() && delivered().is_empty(), "it was taken, and not written");
    attachment.written().note(taken);
    attachment.all_delivered().await;
    assert_eq!(delivered(), "a");
    // The next sync is never written.
    place("b");
    let placed = Instant::now();
    attachment.all_delivered().await;
    assert_eq!((&*delivered(), placed.elapsed()), ("ab", patience));
    // Once the stream is lost there is nothing to wait for.
    place("c");
    assert_eq!(delivered(), "ab");
    attachment.release(&stream);
    place("d");
    assert_eq!(delivered(), "abcd");
}

#[tokio::test(start_paused = true)]
async fn heartbeat_carries_the_time() {
    let (attachment, stream) = attached(cb::Capability::StateDump);
    let asked = ShimBody::Heartbeat(cb::Heartbeat { nonce: 4, reply: true, ..Default::default() });
    say(&attachment, &stream, asked);
    let echo = next(&attachment, &stream, |body| match body {
        Body::Heartbeat(echo) => Some(echo),
        _ => None,
    });
    let echo = echo.await;
    assert!(echo.nonce == 4 && echo.timestamp_nano > 0);
}

#[tokio::test(start_paused = true)]
async fn end_of_session_ends_stream_and_requests() {
    let (attachment, stream) = attached(cb::Capability::StateDump);
    let waiting = {
        let attachment = Arc::clone(&attachment);
        tokio::spawn(async move { attachment.rm_state().await })
    };
    next(&attachment, &stream, |body| match body {
        Body::StateDump(request) => Some(request),
        _ => None,
    })
    .await;
    attachment.close(&StreamEnd::Superseded { by: None });
    waiting.await.unwrap().unwrap_err();
    stream.ended().await;
    assert!(matches!(stream.end(), Some(StreamEnd::Superseded { .. })));
    let hello = cb::Hello::default();
    let late = attachment.attach(&Arc::new(StreamHandle::new()), &hello, String::new(), 1);
    assert!(matches!(late, Err(StreamEnd::Superseded { .. })));
}
