//! Sessions and streams over gRPC: registration, binding, order, limits, and ends.

use std::time::Duration;

use monoceros_proto::si::v1 as si;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request};

use crate::harness::{
    self, PATIENCE, QUEUES, Rm, Service, application, node, reason_of, registration,
};

#[tokio::test]
async fn invalid_registration_is_refused() {
    let service = Service::start();
    let mut client = service.client().await;
    let status = client.register_resource_manager(registration("", QUEUES)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(reason_of(&status), "RM_ID_MISSING");

    let bad = "partitions:\n  - name: default\n    bogus: true\n";
    let status = client.register_resource_manager(registration("rm", bad)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(reason_of(&status), "CONFIG_INVALID");
    assert!(status.message().contains("bogus"), "{}", status.message());
}

#[tokio::test]
async fn invalid_queues_keep_the_session() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let bad = registration("rm", "partitions:\n  - bogus: true\n");
    rm.client.clone().register_resource_manager(bad).await.unwrap_err();
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![harness::ask("app", "x")], vec![]).await;
    rm.until("still scheduled", |seen| seen.new.len() == 1).await;
}

#[tokio::test]
async fn registration_reports_the_session_and_outcome() {
    let service = Service::start();
    let mut client = service.client().await;
    let mut sessions = Vec::new();
    for expected in ["new", "replaced"] {
        let response = client.register_resource_manager(registration("rm", QUEUES)).await.unwrap();
        let metadata = response.metadata();
        assert_eq!(metadata.get("x-si-registered").unwrap(), expected);
        assert!(!metadata.get("x-si-scheduler").unwrap().is_empty());
        let session: u64 = metadata.get("x-si-session").unwrap().to_str().unwrap().parse().unwrap();
        sessions.push(session);
    }
    assert!(sessions[0] < sessions[1]);
}

#[tokio::test]
async fn stream_is_bound_to_one_resource_manager() {
    let service = Service::start();
    let nameless = Rm::open(service.client().await, "").await;
    nameless.send_nodes(vec![node("n1", 1_000, 1)]).await;
    nameless.until("ended", |seen| seen.end("node").is_some()).await;
    let end = nameless.read(|seen| seen.end("node").unwrap());
    assert_eq!(end, (Code::InvalidArgument, "RM_ID_MISSING".to_owned()));

    let stranger = Rm::open(service.client().await, "stranger").await;
    stranger.hello().await;
    stranger.until("ended", |seen| seen.ends.len() == 3).await;
    for kind in ["node", "application", "allocation"] {
        let end = stranger.read(|seen| seen.end(kind).unwrap());
        assert_eq!(end, (Code::FailedPrecondition, "RM_NOT_REGISTERED".to_owned()));
    }

    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let _other = Rm::register(&service, "other").await;
    let request = |rm_id: &str, id: &str| si::NodeRequest {
        nodes: vec![node(id, 1_000, 1)],
        rm_id: rm_id.to_owned(),
        ..Default::default()
    };
    rm.nodes.send(request("", "n2")).await.unwrap();
    rm.until("nameless goes to the bound one", |seen| seen.accepted_nodes.len() == 2).await;
    rm.nodes.send(request("other", "n3")).await.unwrap();
    rm.until("ended", |seen| seen.end("node").is_some()).await;
    let end = rm.read(|seen| seen.end("node").unwrap());
    assert_eq!(end, (Code::InvalidArgument, "RM_ID_MISMATCH".to_owned()));
}

#[tokio::test]
async fn metadata_bind_a_stream_before_its_first_message() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await;
    let open = async |rm_id: &'static str, session: Option<&'static str>| {
        let (sender, requests) = mpsc::channel(1);
        let mut request = Request::new(ReceiverStream::new(requests));
        request.metadata_mut().insert("x-si-rm-id", rm_id.parse().unwrap());
        if let Some(session) = session {
            request.metadata_mut().insert("x-si-session", session.parse().unwrap());
        }
        let response = rm.client.clone().update_node(request).await;
        (sender, response)
    };
    let (sender, response) = open("rm", None).await;
    let response = response.unwrap();
    assert!(response.metadata().get("x-si-session").is_some());
    let request = si::NodeRequest { nodes: vec![node("n1", 1_000, 1)], ..Default::default() };
    sender.send(request).await.unwrap();
    let reply = timeout(PATIENCE, response.into_inner().message()).await.unwrap().unwrap().unwrap();
    assert_eq!(reply.accepted[0].node_id, "n1");

    let (_sender, response) = open("stranger", None).await;
    assert_eq!(reason_of(&response.unwrap_err()), "RM_NOT_REGISTERED");
    let (_sender, response) = open("rm", Some("1")).await;
    assert_eq!(reason_of(&response.unwrap_err()), "SESSION_STALE");
}

#[tokio::test]
async fn newer_stream_displaces_the_older() {
    let service = Service::start();
    let older = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let newer = Rm::open(service.client().await, "rm").await.with_nodes(&["n2"]).await;
    older.until("displaced", |seen| seen.end("node").is_some()).await;
    let end = older.read(|seen| seen.end("node").unwrap());
    assert_eq!(end, (Code::Aborted, "STREAM_DISPLACED".to_owned()));
    // The other kinds are not affected.
    let older = older.with_application("app", "root.a").await;
    newer.read(|seen| assert!(seen.accepted_applications.is_empty()));
    older.read(|seen| assert_eq!(seen.ends.len(), 1));
}

#[tokio::test]
async fn messages_without_a_stream_wait() {
    let service = Service::start();
    let mut client = service.client().await;
    client.register_resource_manager(registration("rm", QUEUES)).await.unwrap();
    let rm_id = || "rm".to_owned();
    let (applications, requests) = mpsc::channel(4);
    let replies = client.update_application(ReceiverStream::new(requests)).await.unwrap();
    let mut application_replies = replies.into_inner();
    let request = si::ApplicationRequest {
        new: vec![application("app", "root.a")],
        rm_id: rm_id(),
        ..Default::default()
    };
    applications.send(request).await.unwrap();
    timeout(PATIENCE, application_replies.message()).await.unwrap().unwrap().unwrap();

    let (nodes, requests) = mpsc::channel(4);
    let replies = client.update_node(ReceiverStream::new(requests)).await.unwrap();
    let mut node_replies = replies.into_inner();
    let running = si::Allocation {
        uuid: "x".to_owned(),
        node_id: "n1".to_owned(),
        ..harness::ask("app", "x")
    };
    let n1 = si::NodeInfo { existing_allocations: vec![running], ..node("n1", 4_000, 16) };
    let request = si::NodeRequest { nodes: vec![n1], rm_id: rm_id(), ..Default::default() };
    nodes.send(request).await.unwrap();
    let reply = timeout(PATIENCE, node_replies.message()).await.unwrap().unwrap().unwrap();
    assert_eq!(reply.accepted.len(), 1, "{reply:?}");

    // The following release has no stream to be sent on.
    let remove = si::RemoveApplicationRequest {
        application_id: "app".to_owned(),
        partition_name: "default".to_owned(),
    };
    let request = si::ApplicationRequest {
        remove: vec![remove],
        new: vec![application("next", "root.a")],
        rm_id: rm_id(),
        ..Default::default()
    };
    applications.send(request).await.unwrap();
    let late = Rm::open(client, "rm").await;
    late.send_allocations(vec![], vec![], vec![]).await;
    late.until("release", |seen| seen.released.len() == 1).await;
    late.read(|seen| assert_eq!(seen.released[0].allocation_key, "x"));
}

#[tokio::test]
async fn half_closed_client_gets_its_answers() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await;
    let (sender, requests) = mpsc::channel(4);
    let nodes = (0..10).map(|n| node(&format!("n{n}"), 1_000, 1)).collect();
    let request = si::NodeRequest { nodes, rm_id: "rm".to_owned(), ..Default::default() };
    sender.send(request).await.unwrap();
    drop(sender);
    let response = rm.client.clone().update_node(ReceiverStream::new(requests)).await.unwrap();
    let mut replies = response.into_inner();
    let mut n_accepted = 0;
    while let Some(reply) = timeout(PATIENCE, replies.message()).await.unwrap().unwrap() {
        n_accepted += reply.accepted.len();
    }
    assert_eq!(n_accepted, 10);
}

#[tokio::test]
async fn large_reply_is_split() {
    let service = Service::start_with(&[("GRPC__SEND_CHUNK_ITEMS", "7")]);
    let rm = Rm::register(&service, "rm").await;
    rm.send_nodes((0..50).map(|n| node(&format!("n{n}"), 1_000, 1)).collect()).await;
    rm.until("50 nodes", |seen| seen.accepted_nodes.len() == 50).await;
    rm.read(|seen| {
        assert!(seen.message_sizes.iter().all(|size| *size <= 7), "{:?}", seen.message_sizes);
    });
}

#[tokio::test]
async fn unread_outbox_demands_registration() {
    let service = Service::start_with(&[("SESSION__OUTBOX_BYTES", "270000")]);
    let other = Rm::register(&service, "other").await;
    let mut client = service.client().await;
    client.register_resource_manager(registration("slow", QUEUES)).await.unwrap();
    let (sender, requests) = mpsc::channel(4);
    let response = client.update_node(ReceiverStream::new(requests)).await.unwrap();
    let mut replies = response.into_inner();
    // Long names soon fill the buffers of the transport. From then on the service reads no more of
    // this stream either.
    let name = "n".repeat(1_000);
    for batch in 0..60 {
        let nodes = (0..500).map(|n| node(&format!("{name}{batch}-{n}"), 1, 1)).collect();
        let request = si::NodeRequest { nodes, rm_id: "slow".to_owned(), ..Default::default() };
        if timeout(Duration::from_secs(3), sender.send(request)).await.is_err() {
            break;
        }
    }
    let other = other.with_nodes(&["n1"]).await;
    let status = timeout(PATIENCE, async {
        loop {
            match replies.message().await {
                Ok(reply) => assert!(reply.is_some(), "must not end well"),
                Err(status) => return status,
            }
        }
    });
    let status = status.await.unwrap();
    assert_eq!(
        (status.code(), &*reason_of(&status)),
        (Code::FailedPrecondition, "RESYNC_REQUIRED")
    );
    let late = Rm::open(service.client().await, "slow").await;
    late.hello().await;
    late.until("refused", |seen| seen.end("node").is_some()).await;
    assert_eq!(late.read(|seen| seen.end("node").unwrap().1), "RESYNC_REQUIRED");
    let again = Rm::register(&service, "slow").await;
    again.with_nodes(&["n1"]).await;
    other.with_application("app", "root.a").await;
}

#[tokio::test]
async fn oversized_message_demands_registration() {
    let service = Service::start_with(&[("GRPC__MAX_RECV_MESSAGE_BYTES", "10000")]);
    let rm = Rm::register(&service, "rm").await.with_application("app", "root.a").await;
    rm.hello().await;
    rm.send_nodes((0..1_000).map(|n| node(&format!("n{n}"), 1_000, 1)).collect()).await;
    rm.until("ended", |seen| seen.end("node").is_some()).await;
    assert_eq!(rm.read(|seen| seen.end("node").unwrap().0), Code::OutOfRange);
    // Open streams continue; a new one is refused, because nodes are missing.
    let rm = rm.with_application("later", "root.a").await;
    let late = Rm::open(service.client().await, "rm").await;
    late.send_applications(vec![application("last", "root.a")], vec![]).await;
    late.until("refused", |seen| seen.end("application").is_some()).await;
    assert_eq!(late.read(|seen| seen.end("application").unwrap().1), "RESYNC_REQUIRED");
    drop(rm);
}

#[tokio::test]
async fn too_many_items_are_refused_whole() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await;
    let many = vec![si::RemoveApplicationRequest::default(); 200_001];
    rm.send_applications(vec![application("app", "root.a")], many).await;
    rm.until("ended", |seen| seen.end("application").is_some()).await;
    let end = rm.read(|seen| seen.end("application").unwrap());
    assert_eq!(end, (Code::ResourceExhausted, "LIMIT_ITEMS".to_owned()));
    // No item of it was applied, and the session is unchanged.
    Rm::open(service.client().await, "rm").await.with_application("app", "root.a").await;
}

#[tokio::test]
async fn concurrent_registrations_of_one_id_leave_one_session() {
    let service = Service::start();
    let client = service.client().await;
    let registrations = (0..10).map(|_| {
        let mut client = client.clone();
        tokio::spawn(async move {
            client.register_resource_manager(registration("rm", QUEUES)).await.unwrap();
        })
    });
    for registration in registrations.collect::<Vec<_>>() {
        registration.await.unwrap();
    }
    let rm = Rm::open(client, "rm").await;
    rm.with_nodes(&["n1"]).await.with_application("app", "root.a").await;
}

#[tokio::test]
async fn sigterm_ends_streams_with_a_status_and_the_process_with_zero() {
    let mut service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    rm.hello().await;
    service.terminate();
    let status = service.wait(Duration::from_secs(5)).await;
    assert_eq!(status.code(), Some(0));
    rm.until("streams ended", |seen| seen.ends.len() == 3).await;
    let end = rm.read(|seen| seen.end("node").unwrap());
    assert_eq!(end, (Code::Unavailable, "SHUTTING_DOWN".to_owned()));
}

#[tokio::test]
async fn demo_registers_again_when_replaced() {
    let service = Service::start_demo();
    // A client that displaces the demo is displaced by it: the first time the demo may have just
    // started.
    for _ in 0..2 {
        let stand_in = Rm::register(&service, "demo").await;
        stand_in.hello().await;
        stand_in.until("replaced by the demo", |seen| seen.ends.len() == 3).await;
    }
}
