//! Whole messages: unreadable, too large, with too many items, of another RM, or empty.

use tonic::Code;

use super::speaker::{Ask, Speaker};
use crate::harness::{Service, reason_of};
use crate::revisions::client::{Client, Revision};

/// A stream of each dialect.
const STREAMS: [(&str, &str); 4] =
    [("l", "Update"), ("m", "UpdateAllocation"), ("n", "UpdateApplication"), ("t", "UpdateNode")];

/// A client without streams.
async fn registered(service: &Service, revision: &str) -> Client {
    Client::register(service, &Revision::new(revision), &format!("rm-{revision}"), &[]).await
}

/// Returns groups within groups, well-formed but `depth` deep. No revision has a field 999.
fn nested(depth: usize) -> Vec<u8> {
    let (begin, end) = ([0xbb, 0x3e], [0xbc, 0x3e]);
    [begin.repeat(depth), end.repeat(depth)].concat()
}

/// Checks that the next stream of the session ends with the demand to register again. In the legacy
/// dialect a message with this demand precedes the end.
async fn demands_registration(
    service: &Service,
    revision: &str,
    rm: &Client,
    method: &'static str,
) {
    let mut late = Client::connect(service, &Revision::new(revision), &rm.rm_id).await;
    late.open(method).await;
    late.send(method, "").await;
    let status = late.end(method).await.unwrap();
    assert_eq!(reason_of(&status), "RESYNC_REQUIRED", "{method}");
    let told = late.messages(method);
    assert_eq!(told.len(), usize::from(method == "Update"), "RESYNC first, in the oldest");
}

#[tokio::test]
async fn unreadable_message_demands_registration() {
    let service = Service::start();
    for (revision, method) in STREAMS {
        let rm_id_field = match method {
            "Update" => 6,
            "UpdateNode" => 2,
            _ => 3,
        };
        let bad_text = vec![rm_id_field << 3 | 2, 2, 0xff, 0xfe];
        for bytes in [vec![0xff; 20], vec![rm_id_field << 3, 1], bad_text, nested(120)] {
            let mut rm = registered(&service, revision).await;
            rm.open(method).await;
            rm.send(method, "").await;
            rm.send_bytes(method, bytes.clone()).await;
            let status = rm.end(method).await.unwrap();
            assert_eq!(status.code(), Code::Internal, "{method} {bytes:?}: {status:?}");
            demands_registration(&service, revision, &rm, method).await;
        }
        // A shallower one is skipped as unknown.
        let mut rm = registered(&service, revision).await;
        rm.open(method).await;
        rm.send(method, "").await;
        rm.send_bytes(method, nested(50)).await;
        rm.rm_id = "other".to_owned();
        rm.send(method, "").await;
        assert_eq!(reason_of(&rm.end(method).await.unwrap()), "RM_ID_MISMATCH", "{method}");
    }
}

#[tokio::test]
async fn oversized_message_ends_its_stream() {
    let service = Service::start_with(&[("GRPC__MAX_RECV_MESSAGE_BYTES", "1000")]);
    for (revision, method) in STREAMS {
        let mut rm = registered(&service, revision).await;
        rm.open(method).await;
        rm.send(method, "").await;
        rm.send_bytes(method, vec![0; 1_001]).await;
        assert_eq!(rm.end(method).await.unwrap().code(), Code::OutOfRange, "{method}");
        demands_registration(&service, revision, &rm, method).await;
    }
}

#[tokio::test]
async fn too_many_items_are_refused_whole() {
    let service = Service::start();
    for (revision, method, field) in
        [("l", "Update", 9), ("m", "UpdateAllocation", 1), ("t", "UpdateNode", 1)]
    {
        let mut rm = registered(&service, revision).await;
        rm.open(method).await;
        rm.send(method, "").await;
        // A message with too many empty items.
        rm.send_bytes(method, [field << 3 | 2, 0].repeat(200_001)).await;
        let status = rm.end(method).await.unwrap();
        let end = (status.code(), reason_of(&status));
        assert_eq!(end, (Code::ResourceExhausted, "LIMIT_ITEMS".to_owned()), "{method}");
    }
}

#[tokio::test]
async fn rm_id_is_fixed_per_stream() {
    let service = Service::start();
    for (revision, method) in STREAMS {
        let mut rm = registered(&service, revision).await;
        rm.open(method).await;
        rm.send_bytes(method, vec![]).await;
        let status = rm.end(method).await.unwrap();
        assert_eq!(reason_of(&status), "RM_ID_MISSING", "{method}");

        let mut rm = registered(&service, revision).await;
        rm.open(method).await;
        rm.send(method, "").await;
        rm.rm_id = "other".to_owned();
        rm.send(method, "").await;
        let status = rm.end(method).await.unwrap();
        let end = (status.code(), reason_of(&status));
        assert_eq!(end, (Code::InvalidArgument, "RM_ID_MISMATCH".to_owned()), "{method}");
    }
}

#[tokio::test]
async fn unknown_fields_are_skipped() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        let method = if rm.is_legacy() { "Update" } else { "UpdateAllocation" };
        rm.allocation("").await;
        // The stream is bound now: an empty message is legal. Then fields 500 and 501 of two types.
        rm.client.send_bytes(method, vec![]).await;
        rm.client.send_bytes(method, vec![0xa0, 0x1f, 7, 0xaa, 0x1f, 1, b'x']).await;
        rm.ask(Ask::default()).await;
        rm.allocated("k").await;
    }
}
