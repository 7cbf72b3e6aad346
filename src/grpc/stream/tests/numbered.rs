//! Streams with numbered requests: order, repeats, gaps, and takeover.

use super::super::super::kind::Applications;
use super::super::super::registry::{RegisterOutcome, RegistrationMode};
use super::*;

/// Opens a numbered stream of the instance `pod`.
async fn numbered<K: StreamKind>(edge: &Arc<GrpcEdge>, pod: &str) -> RequestReader<K> {
    try_numbered(edge, pod, "0").await.unwrap()
}

async fn try_numbered<K: StreamKind>(
    edge: &Arc<GrpcEdge>,
    pod: &str,
    known: &str,
) -> Result<RequestReader<K>, StreamEnd> {
    let session = session(edge).number().to_string();
    let mut reader = reader::<K>(edge);
    let metadata = metadata(&[
        (RM_ID_HEADER, "rm"),
        (SESSION_HEADER, &session),
        (CLIENT_SEQ_HEADER, known),
        (INSTANCE_HEADER, pod),
    ]);
    reader.bind_by_metadata(&metadata).await.map(|()| reader)
}

fn node(client_seq: u64, id: &str) -> si::NodeRequest {
    let mut request = node_request(id);
    let vcore = [("vcore".to_owned(), si::Quantity { value: 100_000 })].into();
    request.nodes[0].schedulable_resource = Some(si::Resource { resources: vcore });
    si::NodeRequest { client_seq, ..request }
}

fn applications(client_seq: u64, new: &[&str], remove: &[&str]) -> si::ApplicationRequest {
    let new = new.iter().map(|id| si::AddApplicationRequest {
        application_id: (*id).to_owned(),
        ugi: Some(si::UserGroupInformation { user: "ada".to_owned(), groups: Vec::new() }),
        tags: [("namespace".to_owned(), "lab".to_owned())].into(),
        ..Default::default()
    });
    let remove = remove.iter().map(|id| si::RemoveApplicationRequest {
        application_id: (*id).to_owned(),
        ..Default::default()
    });
    si::ApplicationRequest {
        new: new.collect(),
        remove: remove.collect(),
        client_seq,
        ..Default::default()
    }
}

fn ask(client_seq: u64, key: &str) -> si::AllocationRequest {
    let vcore = [("vcore".to_owned(), si::Quantity { value: 1 })].into();
    let ask = si::Allocation {
        allocation_key: key.to_owned(),
        application_id: "app".to_owned(),
        resource_per_alloc: Some(si::Resource { resources: vcore }),
        ..Default::default()
    };
    si::AllocationRequest { allocations: vec![ask], client_seq, ..Default::default() }
}

/// Allocation keys of the new allocations queued for the stream.
fn placed(edge: &Arc<GrpcEdge>, reader: &RequestReader<Allocations>) -> Vec<String> {
    let session = session(edge);
    let replies = std::iter::from_fn(|| session.take::<Allocations>(&reader.stream, |_| {}));
    let new = replies.flat_map(|reply| {
        let reply = reply.decoded().into_message();
        assert!(reply.rejected_allocations.is_empty(), "{reply:?}");
        reply.new
    });
    new.map(|allocation| allocation.allocation_key).collect()
}

#[test]
fn numbers_order_requests_over_all_streams() {
    play(async |edge| {
        let nodes = numbered::<Nodes>(&edge, "pod").await;
        let apps = numbered::<Applications>(&edge, "pod").await;
        let asks = numbered::<Allocations>(&edge, "pod").await;
        // The last request arrives first.
        let (mut nodes, mut apps, mut asks) = (nodes, apps, asks);
        asks.accept(ask(6, "new"), || None).await.unwrap();
        apps.accept(applications(5, &["app"], &[]), || None).await.unwrap();
        apps.accept(applications(4, &[], &["app"]), || None).await.unwrap();
        apps.accept(applications(2, &["app"], &[]), || None).await.unwrap();
        asks.accept(ask(3, "old"), || None).await.unwrap();
        assert_eq!(session(&edge).taken(0), 0);
        nodes.accept(node(1, "n1"), || None).await.unwrap();
        edge.handle.settle().await;
        assert_eq!(session(&edge).taken(0), 6);
        assert_eq!(placed(&edge, &asks), ["old", "new"], "each when its application was there");
        // All are sent again, as by a client that does not know which were taken.
        nodes.accept(node(1, "n1"), || None).await.unwrap();
        apps.accept(applications(4, &[], &["app"]), || None).await.unwrap();
        edge.handle.settle().await;
        assert!(
            session(&edge)
                .take::<Nodes>(&nodes.stream, |_| {})
                .unwrap()
                .decoded()
                .rejected
                .is_empty()
        );
        let allocations = &edge.handle.nodes("default").await.unwrap()[0].allocations;
        assert_eq!(allocations.len(), 1, "the application was not removed again");
    });
}

#[test]
fn missing_number_ends_the_streams() {
    play(async |edge| {
        let mut nodes = numbered::<Nodes>(&edge, "pod").await;
        let asks = numbered::<Allocations>(&edge, "pod").await;
        nodes.accept(node(1, "n1"), || None).await.unwrap();
        nodes.accept(node(3, "n3"), || None).await.unwrap();
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert!(nodes.stream.end().is_none());
        tokio::time::sleep(Duration::from_secs(2)).await;
        for stream in [&nodes.stream, &asks.stream] {
            let end = stream.end().unwrap();
            assert!(matches!(end, StreamEnd::SequenceGap { taken: 1 }), "{end}");
        }
        let mut nodes = numbered::<Nodes>(&edge, "pod").await;
        assert_eq!(nodes.stream.numbering().unwrap().taken, 1);
        nodes.accept(node(2, "n2"), || None).await.unwrap();
        nodes.accept(node(3, "n3"), || None).await.unwrap();
        edge.handle.settle().await;
        assert_eq!(edge.handle.nodes("default").await.unwrap().len(), 3);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(nodes.stream.end().is_none());
    });
}

#[test]
fn held_requests_respect_the_limits() {
    let few = |settings: &mut Settings| {
        settings.session.ingress_bytes = std::num::NonZeroUsize::new(2 * 4_096).unwrap();
    };
    play_with(few, async |edge| {
        let mut nodes = numbered::<Nodes>(&edge, "pod").await;
        for number in 2..4 {
            nodes.accept(node(number, &number.to_string()), || None).await.unwrap();
        }
        let end = nodes.accept(node(4, "n4"), || None).await.unwrap_err();
        assert!(matches!(end, StreamEnd::SequenceGap { taken: 0 }), "{end}");
        let mut nodes = numbered::<Nodes>(&edge, "pod").await;
        for number in 1..5 {
            nodes.accept(node(number, &number.to_string()), || None).await.unwrap();
        }
        edge.handle.settle().await;
        assert_eq!(edge.handle.nodes("default").await.unwrap().len(), 4);
    });
}

#[test]
fn takeover_drops_requests_of_the_earlier_instance() {
    play(async |edge| {
        let mut older = numbered::<Nodes>(&edge, "pod-1").await;
        older.accept(node(1, "n1"), || None).await.unwrap();
        older.accept(node(3, "n3"), || None).await.unwrap();
        let request =
            si::RegisterResourceManagerRequest { rm_id: "rm".to_owned(), ..Default::default() };
        let origin = Origin {
            mode: RegistrationMode::Attach,
            instance: Some("pod-2".to_owned()),
            ..Origin::default()
        };
        let deadline = edge.registry.registration_deadline();
        let registered = edge.registry.register(request, origin, deadline).await.unwrap();
        assert_eq!(registered.outcome, RegisterOutcome::Attached);
        assert_eq!(registered.taken, Some(1));
        assert!(matches!(older.stream.end(), Some(StreamEnd::Displaced { .. })));
        let end = older.accept(node(2, "old"), || None).await.unwrap_err();
        assert!(matches!(end, StreamEnd::Displaced { .. }), "{end}");
        let mut newer = numbered::<Nodes>(&edge, "pod-2").await;
        newer.accept(node(2, "new"), || None).await.unwrap();
        edge.handle.settle().await;
        let nodes = edge.handle.nodes("default").await.unwrap();
        let ids: Vec<&str> = nodes.iter().map(|node| &*node.node_id).collect();
        assert_eq!(ids, ["n1", "new"], "neither the second nor the third of the earlier one");
    });
}

#[test]
fn only_the_last_registered_instance_may_number() {
    play(async |edge| {
        let mut older = numbered::<Nodes>(&edge, "pod-1").await;
        older.accept(node(1, "n1"), || None).await.unwrap();
        let end = try_numbered::<Allocations>(&edge, "pod-2", "0").await.err().unwrap();
        assert!(matches!(end, StreamEnd::Superseded { .. }), "{end}");
        older.accept(node(2, "n2"), || None).await.unwrap();
        let mut plain = reader::<Applications>(&edge);
        let end = plain.bind("rm").await.unwrap_err();
        assert!(matches!(end, StreamEnd::Misnumbered(_)), "{end}");
    });
}

#[test]
fn misnumbered_requests_give_a_reason() {
    play(async |edge| {
        let mut nodes = numbered::<Nodes>(&edge, "pod").await;
        nodes.accept(si::NodeRequest::default(), || None).await.unwrap();
        let end = nodes.accept(node(0, "n1"), || None).await.unwrap_err();
        assert!(end.to_string().contains("has no `clientSeq`"), "{end}");
        let mut unnamed = reader::<Nodes>(&edge);
        let asked = metadata(&[(CLIENT_SEQ_HEADER, "0"), (RM_ID_HEADER, "rm")]);
        let end = unnamed.bind_by_metadata(&asked).await.unwrap_err();
        assert!(end.to_string().contains("its session"), "{end}");
        let end = try_numbered::<Nodes>(&edge, "pod", "7").await.err().unwrap();
        assert!(matches!(end, StreamEnd::SequenceGap { taken: 0 }), "more than was ever taken");
        assert!(nodes.stream.end().is_none(), "no reason to displace anyone");
        let end = try_numbered::<Nodes>(&edge, "pod", "many").await.err().unwrap();
        assert!(matches!(end, StreamEnd::Misnumbered(_)), "{end}");
    });
}

#[test]
fn unrequested_number_is_an_error() {
    play(async |edge| {
        let mut plain = reader::<Applications>(&edge);
        plain.bind("rm").await.unwrap();
        let end = plain.accept(applications(1, &["app"], &[]), || None).await.unwrap_err();
        assert!(end.to_string().contains("did not ask for numbers"), "{end}");
    });
}

#[test]
fn half_closed_stream_reports_taken() {
    play(async |edge| {
        let mut nodes = numbered::<Nodes>(&edge, "pod").await;
        let mut writer = nodes.writer().begun();
        nodes
            .accept(si::NodeRequest { client_seq: 1, ..Default::default() }, || None)
            .await
            .unwrap();
        nodes.stream.half_close();
        assert_eq!(writer.next().await.unwrap().unwrap().decoded().taken_seq, 1);
        assert!(writer.next().await.is_none());
    });
}

#[test]
fn taken_is_reported_without_replies() {
    play(async |edge| {
        let mut asks = numbered::<Allocations>(&edge, "pod").await;
        let mut writer = asks.writer().begun();
        let start = Instant::now();
        asks.accept(si::AllocationRequest { client_seq: 1, ..Default::default() }, || None)
            .await
            .unwrap();
        asks.accept(si::AllocationRequest { client_seq: 2, ..Default::default() }, || None)
            .await
            .unwrap();
        let reply = writer.next().await.unwrap().unwrap();
        let reply = reply.decoded().into_message();
        assert_eq!(reply, si::AllocationResponse { taken_seq: 2, ..Default::default() });
        assert_eq!(start.elapsed(), Duration::from_millis(100));
        let quiet = tokio::time::timeout(Duration::from_secs(3_600), writer.next()).await;
        assert!(quiet.is_err(), "nothing more was taken");

        let begun = Instant::now();
        for client_seq in 3..1_003 {
            let request = si::AllocationRequest { client_seq, ..Default::default() };
            asks.accept(request, || None).await.unwrap();
        }
        let reply = writer.next().await.unwrap().unwrap();
        assert_eq!(reply.decoded().into_message().taken_seq, 1_002);
        assert_eq!(begun.elapsed(), Duration::ZERO, "after so many at once");
    });
}

#[test]
fn stale_session_number_is_refused() {
    play(async |edge| {
        let old = session(&edge).number().to_string();
        register(&edge).await;
        let asked = [(RM_ID_HEADER, "rm"), (SESSION_HEADER, &*old), (CLIENT_SEQ_HEADER, "12")];
        let end = reader::<Nodes>(&edge).bind_by_metadata(&metadata(&asked)).await.unwrap_err();
        assert!(matches!(end, StreamEnd::SessionStale { .. }), "{end}");
    });
}
