//! A client that reconnects repeatedly and never acknowledges: how often messages are sent again,
//! and when that ends.

use std::time::Duration;

use monoceros_proto::si::v1 as si;
use tokio::time::{Instant, sleep};
use tonic::{Code, Request};

use crate::harness::{Rm, Service, node, reason_of};

const NODES: usize = 240;

/// Opens a node stream and reads for this long. Returns the number of acceptances received, or the
/// reason for which the stream ended.
async fn heard(service: &Service, time: Duration) -> Result<usize, (Code, String)> {
    let (sender, requests) = tokio::sync::mpsc::channel::<si::NodeRequest>(1);
    let mut request = Request::new(tokio_stream::wrappers::ReceiverStream::new(requests));
    request.metadata_mut().insert("x-si-rm-id", "rm".parse().unwrap());
    let ended = |status: tonic::Status| (status.code(), reason_of(&status));
    let replies = service.client().await.update_node(request).await.map_err(ended)?;
    let mut replies = replies.into_inner();
    let (mut n, until) = (0, Instant::now() + time);
    while let Ok(reply) = tokio::time::timeout_at(until, replies.message()).await {
        n += reply.map_err(ended)?.expect("it stays open").accepted.len();
    }
    drop(sender);
    Ok(n)
}

async fn with_nodes(service: &Service) -> Rm {
    let rm = Rm::register(service, "rm").await.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![], vec![]).await;
    rm.send_nodes((0..NODES).map(|n| node(&format!("a-node-{n}"), 1_000, 1)).collect()).await;
    rm.until("nodes", |seen| seen.accepted_nodes.len() == NODES).await;
    rm
}

#[tokio::test]
async fn messages_are_repeated_within_the_grace() {
    let settings = [
        ("GRPC__KEEPALIVE_INTERVAL", "1"),
        ("GRPC__KEEPALIVE_TIMEOUT", "1"),
        ("SESSION__DELIVERY_GRACE", "3"),
    ];
    let service = Service::start_with(&settings);
    let _rm = with_nodes(&service).await;
    let began = Instant::now();
    let mut told = Vec::new();
    while began.elapsed() < Duration::from_secs(8) {
        told.push(heard(&service, Duration::from_millis(800)).await.unwrap());
    }
    assert_eq!(told[0], NODES, "{told:?}");
    assert_eq!(told[told.len() - 3..], [0; 3], "{told:?}");
    assert!(told.iter().sum::<usize>() <= 5 * NODES, "{told:?}");
}

#[tokio::test]
async fn too_many_reconnects_demand_registration() {
    let service = Service::start();
    let _rm = with_nodes(&service).await;
    let mut told = 0;
    let end = loop {
        match heard(&service, Duration::from_millis(20)).await {
            Ok(n) => told += n,
            Err(end) => break end,
        }
        assert!(told < 1_000 * NODES, "it never ends");
        sleep(Duration::from_millis(1)).await;
    };
    assert_eq!(end, (Code::FailedPrecondition, "RESYNC_REQUIRED".to_owned()));
    assert!(told > 10 * NODES && told < 60 * NODES, "{told}");
}
