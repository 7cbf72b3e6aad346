//! The life of sessions across streams: resumed, taken over, or lost.

use std::time::Duration;

use monoceros::grpc::stubs::scheduler_client::SchedulerClient;
use monoceros_proto::si::legacy::v0 as legacy;
use monoceros_proto::si::v1 as si;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_types::StatusExt as _;

use crate::harness::{
    PATIENCE, QUEUES, Rm, Service, TempFile, application, ask, node, reason_of, registration,
};

mod registrations;

type Client = SchedulerClient<Channel>;

fn with_metadata<T>(message: T, metadata: &[(&'static str, &str)]) -> Request<T> {
    let mut request = Request::new(message);
    for (key, value) in metadata {
        request.metadata_mut().insert(*key, value.parse().unwrap());
    }
    request
}

fn value(metadata: &MetadataMap, key: &str) -> String {
    metadata.get(key).unwrap().to_str().unwrap().to_owned()
}

/// A node stream bound by its metadata.
struct Nodes {
    requests: mpsc::Sender<si::NodeRequest>,
    replies: Streaming<si::NodeResponse>,
}

impl Nodes {
    async fn open(client: &Client, metadata: &[(&'static str, &str)]) -> Result<Self, Status> {
        let (requests, receiver) = mpsc::channel(16);
        let request = with_metadata(ReceiverStream::new(receiver), metadata);
        let replies = client.clone().update_node(request).await?.into_inner();
        Ok(Self { requests, replies })
    }

    async fn create(&self, ids: impl IntoIterator<Item = String>) {
        let nodes = ids.into_iter().map(|id| node(&id, 4_000, 16)).collect();
        self.send(si::NodeRequest { nodes, ..Default::default() }).await;
    }

    async fn send(&self, request: si::NodeRequest) {
        self.requests.send(request).await.unwrap();
    }

    async fn next(&mut self) -> Result<Option<si::NodeResponse>, Status> {
        timeout(PATIENCE, self.replies.message()).await.expect("an answer in time")
    }

    /// Number and node ids of the next message.
    async fn accepted(&mut self) -> (u64, Vec<String>) {
        let reply = self.next().await.unwrap().unwrap();
        (reply.seq, reply.accepted.into_iter().map(|node| node.node_id).collect())
    }
}

async fn registered(client: &Client, id: &str, metadata: &[(&'static str, &str)]) -> MetadataMap {
    let request = with_metadata(registration(id, QUEUES), metadata);
    client.clone().register_resource_manager(request).await.unwrap().metadata().clone()
}

/// A status: code, reason, and the value of a key in `ErrorInfo`.
fn told(status: &Status, key: &str) -> (Code, String, Option<String>) {
    let info = status.get_details_error_info().unwrap();
    assert_eq!(info.domain, "scheduler-interface");
    assert_eq!(info.reason, reason_of(status));
    (status.code(), info.reason, info.metadata.get(key).cloned())
}

#[tokio::test]
async fn resuming_client_gets_exactly_what_it_missed() {
    let service = Service::start_with(&[("GRPC__SEND_CHUNK_ITEMS", "1")]);
    let client = service.client().await;
    registered(&client, "rm", &[]).await;
    let mut first =
        Nodes::open(&client, &[("x-si-rm-id", "rm"), ("x-si-resume", "0")]).await.unwrap();
    first.create((1..=7).map(|n| format!("n{n}"))).await;
    for n in 1..=7 {
        assert_eq!(first.accepted().await, (n, vec![format!("n{n}")]));
    }
    first.send(si::NodeRequest { ack_seq: 3, ..Default::default() }).await;
    drop(first);
    let mut next =
        Nodes::open(&client, &[("x-si-rm-id", "rm"), ("x-si-resume", "4")]).await.unwrap();
    for n in 5..=7 {
        assert_eq!(next.accepted().await, (n, vec![format!("n{n}")]));
    }
    next.create(["n8".to_owned()]).await;
    assert_eq!(next.accepted().await, (8, vec!["n8".to_owned()]));
    // A number that was never sent cannot be resumed from, and the open stream is not disturbed.
    let wrong = Nodes::open(&client, &[("x-si-rm-id", "rm"), ("x-si-resume", "99")]).await;
    assert_eq!(reason_of(&wrong.err().unwrap()), "RESYNC_REQUIRED");
    next.create(["n9".to_owned()]).await;
    assert_eq!(next.accepted().await, (9, vec!["n9".to_owned()]));
}

#[tokio::test]
async fn undelivered_messages_are_repeated_in_order() {
    let service = Service::start();
    let client = service.client().await;
    registered(&client, "rm", &[]).await;
    let first = Nodes::open(&client, &[("x-si-rm-id", "rm")]).await.unwrap();
    first.create((0..50).map(|n| format!("n{n:02}"))).await;
    let taken = async {
        while !service.get("/ws/v1/partition/default/nodes").await.contains("n49") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, taken).await.expect("all nodes in time");
    // The stream is lost before anything was read from it.
    drop(first);
    let mut next = Nodes::open(&client, &[("x-si-rm-id", "rm")]).await.unwrap();
    next.create((50..60).map(|n| format!("n{n:02}"))).await;
    let mut ids = Vec::new();
    while ids.len() < 60 {
        let (seq, more) = next.accepted().await;
        assert_eq!(seq, 0, "nobody asked for numbers");
        ids.extend(more);
    }
    let expected: Vec<_> = (0..60).map(|n| format!("n{n:02}")).collect();
    assert_eq!(ids, expected);
}

#[tokio::test]
async fn resync_policy_demands_registration_after_a_loss() {
    let service = Service::start();
    let client = service.client().await;
    let mut request = registration("rm", QUEUES);
    request.extra_config.insert("session.onStreamLoss".to_owned(), "resync".to_owned());
    client.clone().register_resource_manager(request).await.unwrap();
    let mut first = Nodes::open(&client, &[("x-si-rm-id", "rm")]).await.unwrap();
    first.create(["n1".to_owned()]).await;
    first.accepted().await;
    drop(first);
    let status = Nodes::open(&client, &[("x-si-rm-id", "rm")]).await.err().unwrap();
    let (code, reason, cause) = told(&status, "cause");
    assert_eq!((code, &*reason), (Code::FailedPrecondition, "RESYNC_REQUIRED"));
    assert_eq!(cause.as_deref(), Some("messages of a lost stream may be missing"));
    registered(&client, "rm", &[]).await;
    Nodes::open(&client, &[("x-si-rm-id", "rm")]).await.unwrap();
}

/// A connection to the service that can fall silent without closing.
struct Wire {
    address: std::net::SocketAddr,
    silent: CancellationToken,
}

impl Wire {
    async fn to(service: &Service) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, target) = (listener.local_addr().unwrap(), service.grpc);
        let silent = CancellationToken::new();
        let is_silent = silent.clone();
        tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let far = TcpStream::connect(target).await.unwrap();
                let (near_in, near_out) = near.into_split();
                let (far_in, far_out) = far.into_split();
                tokio::spawn(carry(near_in, far_out, is_silent.clone()));
                tokio::spawn(carry(far_in, near_out, is_silent.clone()));
            }
        });
        Self { address, silent }
    }

    async fn client(&self) -> Client {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        SchedulerClient::new(endpoint.connect().await.unwrap())
    }

    fn fall_silent(&self) {
        self.silent.cancel();
    }
}

async fn carry(
    from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    silent: CancellationToken,
) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        tokio::select! {
            biased;
            () = silent.cancelled() => {
                // Both ends stay open, and no bytes pass any more.
                std::future::pending::<()>().await;
            }
            ready = from.readable() => ready.unwrap(),
        }
        match from.try_read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => to.write_all(&buffer[..n]).await.unwrap(),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

#[tokio::test]
async fn silent_connection_pauses_the_session() {
    let service =
        Service::start_with(&[("GRPC__KEEPALIVE_INTERVAL", "1"), ("GRPC__KEEPALIVE_TIMEOUT", "1")]);
    let wire = Wire::to(&service).await;
    let mut client = wire.client().await;
    client.register_resource_manager(registration("rm", QUEUES)).await.unwrap();
    let cut = Rm::open(client, "rm").await.with_nodes(&["n1"]).await;
    let cut = cut.with_application("app", "root.a").await;
    cut.send_allocations(vec![], vec![ask("app", "a"), ask("app", "b")], vec![]).await;
    cut.until("placed", |seen| seen.new.len() == 2).await;
    wire.fall_silent();
    service.until_logged("state=Paused", 1).await;
    // On another connection all unacknowledged messages are sent again.
    let next = Rm::open(service.client().await, "rm").await;
    next.hello().await;
    next.until("replayed", |seen| seen.new.len() == 2 && seen.accepted_nodes.len() == 1).await;
    next.send_allocations(vec![], vec![ask("app", "c")], vec![]).await;
    next.until("goes on", |seen| seen.new.len() == 3).await;
    let keys: Vec<_> =
        next.read(|seen| seen.new.iter().map(|new| new.allocation_key.clone()).collect());
    assert_eq!(keys, ["a", "b", "c"]);
}

#[tokio::test]
async fn long_absence_ends_the_session() {
    let service = Service::start_with(&[("SESSION__PAUSE_TIMEOUT", "0.2")]);
    let client = service.client().await;
    let session = value(&registered(&client, "rm", &[]).await, "x-si-session");
    let mut nodes = Nodes::open(&client, &[("x-si-rm-id", "rm")]).await.unwrap();
    let (requests, receiver) = mpsc::channel(1);
    let request = with_metadata(ReceiverStream::new(receiver), &[("x-si-rm-id", "rm")]);
    let allocations = client.clone().update_allocation(request).await.unwrap();
    drop((requests, allocations));
    // A node stream does not keep the session alive.
    let status = nodes.next().await.unwrap_err();
    let stopped = |reason: &str| {
        (Code::FailedPrecondition, reason.to_owned(), Some("pauseTimeout".to_owned()))
    };
    assert_eq!(told(&status, "stoppedBy"), stopped("RM_NOT_REGISTERED"));
    let late = Nodes::open(&client, &[("x-si-rm-id", "rm")]).await.err().unwrap();
    assert_eq!(told(&late, "stoppedBy"), stopped("RM_NOT_REGISTERED"));
    let named = [("x-si-rm-id", "rm"), ("x-si-session", &*session)];
    let late = Nodes::open(&client, &named).await.err().unwrap();
    assert_eq!(told(&late, "stoppedBy"), stopped("SESSION_STALE"));
    let again = registered(&client, "rm", &[]).await;
    assert_eq!(value(&again, "x-si-registered"), "new");
    let stale = Nodes::open(&client, &named).await.err().unwrap();
    let current = Some(value(&again, "x-si-session"));
    assert_eq!(
        told(&stale, "session"),
        (Code::FailedPrecondition, "SESSION_STALE".to_owned(), current)
    );
}

#[tokio::test]
async fn asks_may_precede_their_application_within_the_window() {
    // Longer than the test may take: how far one stream lags depends on the machine.
    let service = Service::start_with(&[("SESSION__REORDER_WINDOW", "30")]);
    let rm = Rm::register(&service, "rm").await;
    rm.send_nodes(vec![node("n1", 1_000_000, 10_000)]).await;
    rm.until("node", |seen| seen.accepted_nodes.len() == 1).await;
    for n in 0..1_000 {
        let id = format!("app-{n}");
        let application = application(&id, "root.a");
        let key = format!("key-{n}");
        if n % 2 == 0 {
            rm.send_applications(vec![application], vec![]).await;
            rm.send_allocations(vec![], vec![ask(&id, &key)], vec![]).await;
        } else {
            rm.send_allocations(vec![], vec![ask(&id, &key)], vec![]).await;
            rm.send_applications(vec![application], vec![]).await;
        }
    }
    rm.until("all placed", |seen| {
        assert!(seen.rejected_allocations.is_empty(), "{:?}", seen.rejected_allocations);
        seen.new.len() == 1_000
    })
    .await;
}

#[tokio::test]
async fn early_asks_are_rejected_without_a_window() {
    let service = Service::start_with(&[("SESSION__REORDER_WINDOW", "0")]);
    let rm = Rm::register(&service, "rm").await;
    rm.send_allocations(vec![], vec![ask("app", "early")], vec![]).await;
    rm.expect_rejection("early", "R_APP_UNKNOWN").await;
    rm.with_application("app", "root.a").await;
}

#[tokio::test]
async fn half_closed_stream_gets_its_answers() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    let (requests, receiver) = mpsc::channel(1);
    let allocations = vec![ask("app", "a")];
    let request = si::AllocationRequest { allocations, ..Default::default() };
    requests.send(request).await.unwrap();
    drop(requests);
    let request = with_metadata(ReceiverStream::new(receiver), &[("x-si-rm-id", "rm")]);
    let mut replies = rm.client.clone().update_allocation(request).await.unwrap().into_inner();
    let mut placed = 0;
    while let Some(reply) = timeout(PATIENCE, replies.message()).await.unwrap().unwrap() {
        placed += reply.new.len();
    }
    assert_eq!(placed, 1);
    service.until_logged("state=Paused", 1).await;
}

#[tokio::test]
async fn two_rms_may_use_the_same_names() {
    let service = Service::start();
    let a = Rm::register(&service, "rm-a").await.with_nodes(&["n1"]).await;
    let b = Rm::register(&service, "rm-b").await.with_nodes(&["n1"]).await;
    let a = a.with_application("app", "root.a").await;
    let b = b.with_application("app", "root.a").await;
    for rm in [&a, &b] {
        rm.send_allocations(vec![], vec![ask("app", "k")], vec![]).await;
        rm.until("placed", |seen| seen.new.len() == 1).await;
    }
    let foreign = si::Allocation { partition_name: "[rm-b]default".to_owned(), ..ask("app", "x") };
    a.send_allocations(vec![], vec![foreign], vec![]).await;
    a.expect_rejection("x", "R_PARTITION_UNKNOWN").await;
    a.send_applications(vec![], vec![removal("app")]).await;
    a.until("released", |seen| seen.released.len() == 1).await;
    b.read(|seen| assert!(seen.released.is_empty() && seen.ends.is_empty()));
}

fn removal(id: &str) -> si::RemoveApplicationRequest {
    si::RemoveApplicationRequest {
        application_id: id.to_owned(),
        partition_name: "default".to_owned(),
    }
}

#[tokio::test]
async fn large_acceptance_is_split_for_clients() {
    let service = Service::start();
    let client = service.client().await;
    registered(&client, "rm", &[]).await;
    let mut nodes = Nodes::open(&client, &[("x-si-rm-id", "rm")]).await.unwrap();
    let filler = "x".repeat(200);
    nodes.create((0..30_000).map(|n| format!("{filler}{n}"))).await;
    let mut accepted = 0;
    while accepted < 30_000 {
        // The client refuses messages above 4 MiB.
        accepted += nodes.accepted().await.1.len();
    }
    assert_eq!(accepted, 30_000);
}

#[tokio::test]
async fn shutdown_gives_a_retry_delay() {
    let mut service = Service::start();
    let client = service.client().await;
    registered(&client, "rm", &[]).await;
    let mut nodes = Nodes::open(&client, &[("x-si-rm-id", "rm")]).await.unwrap();
    service.terminate();
    let status = nodes.next().await.unwrap_err();
    let (code, reason, rm) = told(&status, "rmID");
    assert_eq!((code, &*reason, rm.as_deref()), (Code::Unavailable, "SHUTTING_DOWN", Some("rm")));
    assert!(status.get_details_retry_info().unwrap().retry_delay.is_some());
    assert!(service.wait(PATIENCE).await.success());
}

#[tokio::test]
async fn unbound_stream_times_out() {
    let service = Service::start_with(&[("GRPC__BIND_TIMEOUT", "200ms")]);
    let client = service.client().await;
    let mut nobodys = Nodes::open(&client, &[]).await.unwrap();
    let status = nobodys.next().await.unwrap_err();
    assert_eq!((status.code(), &*reason_of(&status)), (Code::DeadlineExceeded, "BIND_TIMEOUT"));
}

#[tokio::test]
async fn a_session_speaks_one_dialect() {
    let service = Service::start();
    let client = service.client().await;
    registered(&client, "rm", &[]).await;
    let _nodes = Nodes::open(&client, &[("x-si-rm-id", "rm")]).await.unwrap();
    let (_requests, receiver) = mpsc::channel::<legacy::UpdateRequest>(1);
    let request = with_metadata(ReceiverStream::new(receiver), &[("x-si-rm-id", "rm")]);
    let mut update = client.clone().update(request).await.unwrap().into_inner();
    let farewell = timeout(PATIENCE, update.message()).await.unwrap().unwrap().unwrap();
    assert_eq!(farewell.action(), legacy::update_response::ActionFromScheduler::Resync);
    let status = timeout(PATIENCE, update.message()).await.unwrap().unwrap_err();
    assert_eq!(reason_of(&status), "DIALECT_MIXED");
}

#[tokio::test]
async fn slow_reader_does_not_affect_others() {
    const ASKS: usize = 16_000;
    // All responses (15 MB) fit into the outbox. The transport holds about 4 MB of them, so the rest
    // is more than half of the outbox.
    let service = Service::start_with(&[("SESSION__OUTBOX_BYTES", "17000000")]);
    let other = Rm::register(&service, "other").await.with_nodes(&["n1"]).await;
    let other = other.with_application("app", "root.a").await;
    let client = service.client().await;
    registered(&client, "slow", &[]).await;
    let rm = Rm::open(client.clone(), "slow").await;
    rm.send_nodes(vec![node("n1", 100_000_000, 100_000)]).await;
    rm.until("node", |seen| seen.accepted_nodes.len() == 1).await;
    let rm = rm.with_application("app", "root.a").await;
    let asks = (0..ASKS).map(|n| ask("app", &format!("{n}-{}", "k".repeat(900)))).collect();
    let (requests, receiver) = mpsc::channel(1);
    let stream = with_metadata(ReceiverStream::new(receiver), &[("x-si-rm-id", "slow")]);
    let mut replies = client.clone().update_allocation(stream).await.unwrap().into_inner();
    requests.send(si::AllocationRequest { allocations: asks, ..Default::default() }).await.unwrap();
    service.until_logged("too much waits", 1).await;
    other.send_allocations(vec![], vec![ask("app", "x")], vec![]).await;
    other.until("placed", |seen| seen.new.len() == 1).await;
    let mut placed = 0;
    while placed < ASKS {
        let reply = timeout(PATIENCE, replies.message()).await.unwrap();
        placed += reply.unwrap().unwrap().new.len();
    }
    assert_eq!(placed, ASKS);
    rm.read(|seen| assert!(seen.ends.is_empty()));
}
