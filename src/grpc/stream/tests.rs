//! Streams that end while messages are still being processed.

use std::time::Duration;

use monoceros_proto::si::v1 as si;
use prost::Message as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataMap;

use super::super::end::StreamEnd;
use super::super::in_virtual_time::with_registry;
use super::super::kind::{Allocations, Nodes};
use super::super::registry::Origin;
use super::super::session::Session;
use super::super::session::state::SessionState;
use super::super::{
    ATTEMPT_HEADER, CLIENT_SEQ_HEADER, INSTANCE_HEADER, RM_ID_HEADER, SESSION_HEADER,
};
use super::*;
use crate::settings::Settings;

mod beats;
mod numbered;

/// Runs a test with a scheduler where `rm` is registered.
fn play<F: Future<Output = ()>>(story: impl FnOnce(Arc<GrpcEdge>) -> F) {
    play_with(|_| {}, story);
}

/// Runs a test with other settings.
fn play_with<F: Future<Output = ()>>(
    set: impl FnOnce(&mut Settings),
    story: impl FnOnce(Arc<GrpcEdge>) -> F,
) {
    with_registry(set, async |handle, registry| {
        let shutdown = CancellationToken::new();
        let edge = Arc::new(GrpcEdge { handle, registry, traces: None, shutdown });
        register(&edge).await;
        story(edge).await;
    });
}

async fn register(edge: &Arc<GrpcEdge>) {
    let request =
        si::RegisterResourceManagerRequest { rm_id: "rm".to_owned(), ..Default::default() };
    let deadline = edge.registry.registration_deadline();
    edge.registry.register(request, Origin::default(), deadline).await.unwrap();
}

fn reader<K: StreamKind>(edge: &Arc<GrpcEdge>) -> RequestReader<K> {
    RequestReader::new(Arc::clone(edge), Identity::anybody())
}

fn session(edge: &Arc<GrpcEdge>) -> Arc<Session> {
    edge.registry.session("rm").unwrap()
}

fn metadata(pairs: &[(&'static str, &str)]) -> MetadataMap {
    let mut metadata = MetadataMap::new();
    for (key, value) in pairs {
        metadata.insert(*key, value.parse().unwrap());
    }
    metadata
}

fn node_request(id: &str) -> si::NodeRequest {
    let node = si::NodeInfo {
        node_id: id.to_owned(),
        action: si::node_info::ActionFromRm::Create.into(),
        ..Default::default()
    };
    si::NodeRequest { nodes: vec![node], rm_id: "rm".to_owned(), ..Default::default() }
}

/// Returns a stream of encoded requests that have arrived.
fn come(requests: &[si::NodeRequest]) -> Messages {
    let mut body = Vec::new();
    for request in requests {
        body.push(0);
        body.extend(u32::try_from(request.encoded_len()).unwrap().to_be_bytes());
        request.encode(&mut body).unwrap();
    }
    Messages::from_body("/si.v1.Scheduler/UpdateNode", body)
}

#[test]
fn session_in_metadata_must_match() {
    play(async |edge| {
        let old = session(&edge).number().to_string();
        register(&edge).await;
        let mut stale = reader::<Nodes>(&edge);
        stale.bind_by_metadata(&metadata(&[(SESSION_HEADER, &old)])).await.unwrap();
        let refused = stale.accept(node_request("n1"), || None).await;
        assert!(matches!(refused, Err(StreamEnd::SessionStale { .. })), "{refused:?}");

        let current = session(&edge).number().to_string();
        let mut reader = reader::<Nodes>(&edge);
        let named = metadata(&[(SESSION_HEADER, &current), (INSTANCE_HEADER, "pod-1")]);
        reader.bind_by_metadata(&named).await.unwrap();
        reader.accept(node_request("n1"), || None).await.unwrap();
        assert_eq!(session(&edge).status().instance.as_deref(), Some("pod-1"));
    });
}

/// Calls on a broken connection may be processed late.
#[test]
fn stream_of_an_earlier_attempt_is_refused() {
    play(async |edge| {
        let of = async |attempt: &str| {
            let mut reader = reader::<Nodes>(&edge);
            let said = [(RM_ID_HEADER, "rm"), (ATTEMPT_HEADER, attempt)];
            reader.bind_by_metadata(&metadata(&said)).await.map(|()| reader)
        };
        let second = of("client.2").await.unwrap();
        let late = of("client.1").await;
        assert!(matches!(late, Err(StreamEnd::Displaced { .. })));
        assert!(second.stream.end().is_none(), "it goes on");
        let third = of("client.3").await.unwrap();
        assert!(matches!(second.stream.end(), Some(StreamEnd::Displaced { .. })));
        // A client with another name may be newer, and so may a client that does not count
        // attempts.
        let other = of("other.1").await.unwrap();
        assert!(matches!(third.stream.end(), Some(StreamEnd::Displaced { .. })));
        reader::<Nodes>(&edge).bind("rm").await.unwrap();
        assert!(matches!(other.stream.end(), Some(StreamEnd::Displaced { .. })));
        let bad = of("client").await;
        assert!(matches!(bad, Err(StreamEnd::BadMetadata(ATTEMPT_HEADER))));
    });
}

#[test]
fn invalid_id_differs_from_unregistered() {
    play(async |edge| {
        let refused = reader::<Nodes>(&edge).bind("[rm]").await;
        assert!(matches!(refused, Err(StreamEnd::RmIdInvalid(_))), "{refused:?}");
        let refused = reader::<Nodes>(&edge).bind("other").await;
        assert!(matches!(refused, Err(StreamEnd::NotRegistered { .. })), "{refused:?}");
    });
}

#[test]
fn stream_dropped_while_binding_is_released() {
    play(async |edge| {
        let slot = edge.registry.slot("rm").unwrap();
        let mut reader = reader::<Allocations>(&edge);
        let writer = reader.writer();
        let busy = slot.write().await;
        {
            let mut binding = std::pin::pin!(reader.bind("rm"));
            assert!(futures::poll!(&mut binding).is_pending());
            drop(writer);
            drop(busy);
            binding.await.unwrap_err();
        }
        assert_ne!(session(&edge).state(), SessionState::Running);
        assert!(session(&edge).status().open_streams.is_empty());
    });
}

#[test]
fn requests_of_a_displaced_stream_are_processed() {
    play(async |edge| {
        let mut older = reader::<Nodes>(&edge);
        older.bind("rm").await.unwrap();
        let stream = Arc::clone(&older.stream);
        let mut newer = reader::<Nodes>(&edge);
        newer.bind("rm").await.unwrap();
        assert!(matches!(stream.end(), Some(StreamEnd::Displaced { .. })));
        older.run(come(&[node_request("n1"), node_request("n2")])).await;
        edge.handle.settle().await;
        assert_eq!(edge.handle.nodes("default").await.unwrap().len(), 2);
        let reply = session(&edge).take::<Nodes>(&newer.stream, |_| {}).unwrap().decoded();
        assert_eq!(reply.accepted.len(), 2, "the newer stream says so");
    });
}
