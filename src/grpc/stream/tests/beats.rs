//! Beats of a stream in a cluster.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tonic::metadata::AsciiMetadataValue;

use super::super::writer::ReplyWriter;
use super::*;
use crate::grpc::end::ClaimRefusal;
use crate::grpc::registry::{Claimant, Claims, Registry};

/// A member of a cluster in which no other one lives.
struct Member {
    may_decide: AtomicBool,
}

impl Claims for Member {
    fn claim(&self, _: Claimant) -> BoxFuture<'_, Result<u64, ClaimRefusal>> {
        async { Ok(1) }.boxed()
    }

    fn free<'a>(&'a self, _: &'a str, _: u64) -> BoxFuture<'a, ()> {
        async {}.boxed()
    }

    fn holds(&self, _: &str, _: u64) -> bool {
        true
    }

    fn may_decide(&self) -> bool {
        self.may_decide.load(Ordering::Relaxed)
    }

    fn incarnation(&self) -> AsciiMetadataValue {
        AsciiMetadataValue::from_static("first")
    }

    fn members(&self) -> Vec<String> {
        vec!["a:1".to_owned()]
    }

    fn serve(&self, _: &Arc<Registry>) {}
}

/// Runs a test at a member of a cluster, where `rm` is registered.
fn play_in_cluster<F: Future<Output = ()>>(story: impl FnOnce(Arc<GrpcEdge>, Arc<Member>) -> F) {
    with_registry(
        |_| {},
        async |handle, registry| {
            let member = Arc::new(Member { may_decide: AtomicBool::new(true) });
            let registry = Arc::into_inner(registry).unwrap();
            let registry = registry.with_claims(Some(Arc::clone(&member) as _));
            let shutdown = CancellationToken::new();
            let edge = Arc::new(GrpcEdge { handle, registry, traces: None, shutdown });
            register(&edge).await;
            story(edge, member).await;
        },
    );
}

/// Opens a stream that asks for beats.
async fn beating<K: StreamKind>(edge: &Arc<GrpcEdge>) -> (RequestReader<K>, ReplyWriter<K>) {
    let mut reader = reader::<K>(edge);
    let writer = reader.writer();
    reader.bind("rm").await.unwrap();
    (reader, writer.beating())
}

#[test]
fn idle_stream_beats_until_the_lease_is_over() {
    play_in_cluster(async |edge, member| {
        let (_reader, mut writer) = beating::<Allocations>(&edge).await;
        assert_eq!(writer.headers().get(BEAT_HEADER).unwrap(), "100");
        let begun = Instant::now();
        for n in 1..=3 {
            let beat = writer.next().await.unwrap().unwrap().decoded();
            assert_eq!(beat.encoded_len(), 0);
            assert_eq!(begun.elapsed(), Duration::from_millis(100 * n));
        }
        member.may_decide.store(false, Ordering::Relaxed);
        let end = writer.next().await.unwrap().err().unwrap();
        assert_eq!(begun.elapsed(), Duration::from_millis(300));
        assert_eq!(end.metadata().get("x-si-reason").unwrap(), "MEMBER_FENCED");
    });
}

#[test]
fn only_streams_with_allocations_in_a_cluster_beat() {
    play_in_cluster(async |edge, _| {
        let (_reader, writer) = beating::<Nodes>(&edge).await;
        assert!(writer.headers().get(BEAT_HEADER).is_none());
    });
    play(async |edge| {
        let (_reader, writer) = beating::<Allocations>(&edge).await;
        assert!(writer.headers().get(BEAT_HEADER).is_none());
    });
}
