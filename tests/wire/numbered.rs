//! Numbered requests, sent by the client library: whatever breaks, each takes effect once and in
//! order.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use backon::ExponentialBuilder;
use monoceros_client::callback::PredicateQuery;
use monoceros_client::{Callbacks, Client, Event, Events, Fit, Options, Report, State, si};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;

use crate::harness::{PATIENCE, QUEUES, Service, address, application, ask, node, release};

/// A client and the events it has received.
struct Manager {
    client: Client,
    events: Events,
    heard: Heard,
}

#[derive(Debug, Default)]
struct Heard {
    /// Number of times that each item was received.
    accepted: BTreeMap<String, usize>,
    new: BTreeMap<String, usize>,
    released: BTreeMap<String, usize>,
    rejected: Vec<String>,
    sessions: Vec<u64>,
    disconnected: usize,
    ended: Option<tonic::Status>,
}

fn options(address: SocketAddr, rm: &str) -> Options {
    let pauses = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(1))
        .with_max_delay(Duration::from_millis(50))
        .without_max_times();
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    Options::new(endpoint, rm).queues(QUEUES).pauses(pauses).batch_delay(Duration::ZERO)
}

fn nothing() -> Report {
    Report::default()
}

impl Manager {
    fn start(options: Options, state: impl State) -> Self {
        let (client, events) = Client::start(options, state);
        Self { client, events, heard: Heard::default() }
    }

    /// The same, waiting for its session: earlier changes have to be in the state.
    async fn registered(options: Options, state: impl State) -> Self {
        let mut manager = Self::start(options, state);
        manager.until("registered", |heard| !heard.sessions.is_empty()).await;
        manager
    }

    async fn until(&mut self, what: &str, reached: impl Fn(&Heard) -> bool) {
        let hear = async {
            while !reached(&self.heard) {
                let Some(event) = self.events.next().await else { return };
                self.heard.note(event);
            }
        };
        let heard = timeout(PATIENCE, hear).await;
        assert!(heard.is_ok() && reached(&self.heard), "not reached: {what}: {:#?}", self.heard);
    }
}

impl Heard {
    fn note(&mut self, event: Event) {
        let count =
            |map: &mut BTreeMap<String, usize>, key: String| *map.entry(key).or_default() += 1;
        match event {
            Event::Nodes(reply) => {
                for accepted in reply.accepted {
                    count(&mut self.accepted, accepted.node_id);
                }
                self.rejected.extend(reply.rejected.into_iter().map(|node| node.reason));
            }
            Event::Applications(reply) => {
                for accepted in reply.accepted {
                    count(&mut self.accepted, accepted.application_id);
                }
                self.rejected.extend(reply.rejected.into_iter().map(|rejected| rejected.reason));
            }
            Event::Allocations(reply) => {
                for new in reply.new {
                    count(&mut self.new, new.allocation_key);
                }
                for released in reply.released {
                    count(&mut self.released, released.allocation_key);
                }
                let rejected = reply.rejected_allocations.into_iter();
                self.rejected.extend(rejected.map(|rejected| rejected.reason));
            }
            Event::Registered { session, .. } => self.sessions.push(session),
            Event::Disconnected(_) => self.disconnected += 1,
            Event::Ended(status) => self.ended = Some(status),
        }
    }
}

/// A proxy between a client and the service. It cuts the first connection in both directions at
/// once, after this many frames of the client or of the service.
struct Cut {
    address: SocketAddr,
    _task: tokio::task::JoinHandle<()>,
}

#[derive(Clone, Copy, Debug)]
enum After {
    FramesOfClient(usize),
    FramesOfService(usize),
}

impl Cut {
    async fn open(service: SocketAddr, after: After) -> Self {
        Self::cutting(service, std::iter::once(after)).await
    }

    /// Cuts every connection.
    async fn always(service: SocketAddr, after: After) -> Self {
        Self::cutting(service, std::iter::repeat(after)).await
    }

    async fn cutting(
        service: SocketAddr,
        mut cuts: impl Iterator<Item = After> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(between(client, service, cuts.next()));
            }
        });
        Self { address, _task: task }
    }
}

async fn between(client: TcpStream, service: SocketAddr, after: Option<After>) {
    /// Bytes of the client before its first frame.
    const PREFACE: usize = 24;
    let Ok(service) = TcpStream::connect(service).await else { return };
    for socket in [&client, &service] {
        socket.set_nodelay(true).unwrap();
    }
    let (from_client, to_client) = client.into_split();
    let (from_service, to_service) = service.into_split();
    let (of_client, of_service) = match after {
        Some(After::FramesOfClient(frames)) => (frames, usize::MAX),
        Some(After::FramesOfService(frames)) => (usize::MAX, frames),
        None => (usize::MAX, usize::MAX),
    };
    let cut = CancellationToken::new();
    let up = pass(from_client, to_service, PREFACE, of_client, cut.clone());
    let down = pass(from_service, to_client, 0, of_service, cut);
    tokio::join!(up, down);
}

/// Passes whole frames until this many have passed or the other direction ends.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    preface: usize,
    frames: usize,
    cut: CancellationToken,
) {
    let pass = async {
        let mut bytes = vec![0; preface];
        from.read_exact(&mut bytes).await?;
        to.write_all(&bytes).await?;
        for _ in 0..frames {
            let mut frame = vec![0; 9];
            from.read_exact(&mut frame).await?;
            let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]) as usize;
            frame.resize(9 + length, 0);
            from.read_exact(&mut frame[9..]).await?;
            to.write_all(&frame).await?;
        }
        std::io::Result::Ok(())
    };
    let _ = cut.run_until_cancelled(pass).await;
    cut.cancel();
}

fn removal(id: &str) -> si::RemoveApplicationRequest {
    si::RemoveApplicationRequest {
        application_id: id.to_owned(),
        partition_name: "default".to_owned(),
    }
}

/// Dependent requests of all kinds, without waiting in between.
async fn script(client: &Client) {
    client.report(vec![node("n1", 100_000, 100)]).await.unwrap();
    client.submit(vec![application("a", "root.a"), application("b", "root.a")]).await.unwrap();
    for number in 0..6 {
        client.ask(vec![ask("a", &format!("k{number}"))]).await.unwrap();
        client.report(vec![node(&format!("m{number}"), 1_000, 1)]).await.unwrap();
    }
    client.remove(vec![removal("b")]).await.unwrap();
    client.submit(vec![application("b", "root.a")]).await.unwrap();
    client.ask(vec![ask("b", "again")]).await.unwrap();
    client.report(vec![node("n2", 1_000, 1)]).await.unwrap();
}

/// More frames than a connection has in most runs.
const MOST_FRAMES: usize = 36;

const SAID: [&str; 7] = ["again", "k0", "k1", "k2", "k3", "k4", "k5"];

const RELEASED: [&str; 6] = ["k0", "k1", "k2", "k3", "k4", "k5"];

/// Cuts the connection after every frame in turn, in either direction, starting with the first.
async fn cut_everywhere(after: fn(usize) -> After) {
    let service = Service::start();
    let mut resumed = 0;
    for frames in 1..=MOST_FRAMES {
        let cut = Cut::open(service.grpc, after(frames)).await;
        let rm = format!("rm-{frames}");
        let mut manager = Manager::registered(options(cut.address, &rm), nothing).await;
        script(&manager.client).await;
        let all = |heard: &Heard| {
            let all_new = SAID.iter().all(|key| heard.new.contains_key(*key));
            all_new && heard.accepted.values().sum::<usize>() == 11
        };
        manager.until("everything answered", all).await;
        // Each release waits for the answer to the previous one, so each is a frame in both
        // directions.
        for key in RELEASED {
            manager.client.release(vec![release("a", key)]).await.unwrap();
            manager.until("released", |heard| heard.released.contains_key(key)).await;
        }
        let heard = &manager.heard;
        assert!(heard.rejected.is_empty(), "{after:?}: {heard:#?}", after = after(frames));
        assert!(heard.new.values().chain(heard.released.values()).all(|&times| times == 1));
        assert_eq!(heard.accepted.values().sum::<usize>(), 11, "{heard:#?}");
        assert_eq!(heard.sessions.len(), 1, "none was lost");
        resumed += usize::from(heard.disconnected > 0);
        manager.client.leave("done").await.unwrap();
    }
    // Frames of the script hold more messages on a busy machine. A cut behind the last frame of the
    // service may go unnoticed.
    assert!(resumed >= RELEASED.len(), "{resumed} connections were cut");
}

#[tokio::test]
async fn cut_after_any_client_frame_is_harmless() {
    cut_everywhere(After::FramesOfClient).await;
}

#[tokio::test]
async fn cut_after_any_service_frame_is_harmless() {
    cut_everywhere(After::FramesOfService).await;
}

#[tokio::test]
async fn readded_application_gets_its_asks() {
    let service = Service::start();
    let mut manager = Manager::registered(options(service.grpc, "rm"), nothing).await;
    manager.client.report(vec![node("n1", 100_000, 100)]).await.unwrap();
    for number in 0..20 {
        manager.client.submit(vec![application("a", "root.a")]).await.unwrap();
        manager.client.ask(vec![ask("a", &format!("k{number}"))]).await.unwrap();
        manager.client.remove(vec![removal("a")]).await.unwrap();
    }
    manager.client.submit(vec![application("a", "root.a")]).await.unwrap();
    manager.client.ask(vec![ask("a", "last")]).await.unwrap();
    manager.until("the last one placed", |heard| heard.new.contains_key("last")).await;
    manager.until("each accepted", |heard| heard.accepted.get("a") == Some(&21)).await;
    assert_eq!(manager.heard.rejected, <Vec<String>>::new(), "none came to the one before");
}

/// Foreign usage is sent on one stream and the node is opened on another; the used room must not be
/// given away.
#[tokio::test]
async fn foreign_usage_is_counted_before_the_node_opens() {
    const OTHERS: usize = 1_000;
    let service = Service::start();
    let mut manager = Manager::registered(options(service.grpc, "rm"), nothing).await;
    manager.client.submit(vec![application("a", "root.a")]).await.unwrap();
    for round in 0..3 {
        let id = format!("n{round}");
        let drained = si::NodeInfo {
            action: si::node_info::ActionFromRm::CreateDrain.into(),
            ..node(&id, 1_000, 100)
        };
        manager.client.report(vec![drained]).await.unwrap();
        for number in 0..OTHERS {
            let foreign = si::Allocation {
                allocation_key: format!("{id}-{number}"),
                application_id: String::new(),
                node_id: id.clone(),
                resource_per_alloc: Some(crate::harness::amount(&[("vcore", 1)])),
                allocation_tags: [("foreign".to_owned(), "default".to_owned())].into(),
                ..ask("", "")
            };
            manager.client.ask(vec![foreign]).await.unwrap();
        }
        let opened = si::NodeInfo {
            node_id: id,
            action: si::node_info::ActionFromRm::DrainToSchedulable.into(),
            ..Default::default()
        };
        manager.client.report(vec![opened]).await.unwrap();
        manager.client.ask(vec![ask("a", &format!("k{round}"))]).await.unwrap();
    }
    manager.client.report(vec![node("open", 100_000, 100)]).await.unwrap();
    manager.until("all placed", |heard| heard.new.len() == 3).await;
    let nodes = service.get("/ws/v1/partition/default/nodes").await;
    let nodes: serde_json::Value = serde_json::from_str(&nodes).unwrap();
    for node in nodes.as_array().unwrap() {
        let placed = node["allocations"].as_array().map_or(0, Vec::len);
        assert_eq!(placed, if node["nodeID"] == "open" { 3 } else { 0 }, "{node:#}");
    }
}

#[tokio::test]
async fn restarted_scheduler_gets_a_full_report() {
    let (grpc, http) = (address(), address());
    let service = Service::start_at(&grpc, &http);
    let state = || Report {
        nodes: vec![node("n1", 4_000, 16)],
        applications: vec![application("a", "root.a")],
        allocations: vec![ask("a", "k1")],
    };
    let mut manager = Manager::start(options(service.grpc, "rm"), state);
    manager.until("placed", |heard| heard.new.len() == 1).await;
    drop(service);
    let _service = Service::start_at(&grpc, &http);
    manager.until("placed again", |heard| heard.new["k1"] == 2).await;
    assert_eq!(manager.heard.sessions.len(), 2);
    manager.client.ask(vec![ask("a", "k2")]).await.unwrap();
    manager.until("and more", |heard| heard.new.contains_key("k2")).await;
}

/// A callback's effects are in the reported state, however long the callback takes.
#[tokio::test]
async fn state_waits_for_running_callbacks() {
    let (grpc, http) = (address(), address());
    let service = Service::start_at(&grpc, &http);
    let reports = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reports);
    let state = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Report { nodes: vec![node("n1", 4_000, 16)], ..Report::default() }
    };
    let mut manager = Manager::start(options(service.grpc, "rm"), state);
    manager.until("accepted", |heard| heard.accepted.contains_key("n1")).await;
    drop(service);
    let service = Service::start_at(&grpc, &http);
    // The last callback is not finished before the next event is requested.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(reports.load(Ordering::SeqCst), 1);
    assert_eq!(service.get("/ws/v1/partitions").await.trim(), "[]");
    manager.until("a session again", |heard| heard.sessions.len() == 2).await;
    assert_eq!(reports.load(Ordering::SeqCst), 2);
}

/// Without a replacement session no request is sent again.
#[tokio::test]
async fn single_session_client_ends_with_its_session() {
    let (grpc, http) = (address(), address());
    let service = Service::start_at(&grpc, &http);
    let mut manager = Manager::registered(options(service.grpc, "rm").once(), nothing).await;
    manager.client.report(vec![node("n1", 4_000, 16)]).await.unwrap();
    manager.until("accepted", |heard| heard.accepted.contains_key("n1")).await;
    drop(service);
    manager.until("gone", |heard| heard.disconnected > 0).await;
    manager.client.report(vec![node("n2", 4_000, 16)]).await.unwrap();
    let service = Service::start_at(&grpc, &http);
    manager.until("ended", |heard| heard.ended.is_some()).await;
    assert!(monoceros_client::is_lost(manager.heard.ended.as_ref().unwrap()));
    assert_eq!(manager.heard.sessions.len(), 1);
    assert_eq!(service.get("/ws/v1/partitions").await.trim(), "[]");
}

/// A shim that refuses every node until it is switched.
struct Late(Arc<AtomicBool>);

impl Callbacks for Late {
    fn fits(&self, _: &PredicateQuery, _: &str) -> Fit {
        let passes = self.0.load(Ordering::SeqCst);
        if passes { Fit::Yes } else { Fit::No("not yet".to_owned()) }
    }
}

#[tokio::test]
async fn invalidation_retries_refused_requests() {
    let service = Service::start();
    let passes = Arc::default();
    let callbacks = Late(Arc::clone(&passes));
    let options = options(service.grpc, "rm").callbacks(callbacks);
    let mut manager = Manager::registered(options, nothing).await;
    manager.client.report(vec![node("n1", 4_000, 16)]).await.unwrap();
    manager.client.submit(vec![application("a", "root.a")]).await.unwrap();
    manager.client.ask(vec![ask("a", "k1")]).await.unwrap();
    let refused = "monoceros_callback_queries_total{outcome=\"failed\"}";
    service.until_counted(refused, 1).await;
    passes.store(true, Ordering::SeqCst);
    // Nothing else happens to the node or to the request.
    manager.client.invalidate();
    manager.until("placed", |heard| heard.new.contains_key("k1")).await;
}

#[tokio::test]
async fn takeover_stops_the_earlier_instance() {
    let service = Service::start();
    let pod = |name: &'static str| options(service.grpc, "rm").instance(name.parse().unwrap());
    let mut older = Manager::registered(pod("pod-1"), nothing).await;
    older.client.report(vec![node("n1", 4_000, 16)]).await.unwrap();
    older.client.submit(vec![application("a", "root.a")]).await.unwrap();
    older.client.ask(vec![ask("a", "k1")]).await.unwrap();
    older.until("placed", |heard| heard.new.len() == 1).await;
    let mut newer = Manager::start(pod("pod-2").take_over(), nothing);
    newer.client.ask(vec![ask("a", "k2")]).await.unwrap();
    newer.until("placed", |heard| heard.new.contains_key("k2")).await;
    assert_eq!(newer.heard.sessions, older.heard.sessions);
    older.until("given up", |heard| heard.ended.is_some()).await;
    let end = older.heard.ended.as_ref().unwrap();
    assert_eq!(monoceros_client::reason(end), Some("STREAM_DISPLACED"));
}

/// A disconnected leader does not take the session back when it reconnects.
#[tokio::test]
async fn disconnected_leader_learns_of_its_successor() {
    let service = Service::start();
    let pod = |address, name: &'static str| options(address, "rm").instance(name.parse().unwrap());
    let cut = Cut::open(service.grpc, After::FramesOfClient(40)).await;
    let mut older = Manager::registered(pod(cut.address, "pod-1"), nothing).await;
    let mut newer = Manager::registered(pod(service.grpc, "pod-2").take_over(), nothing).await;
    newer.client.report(vec![node("n1", 4_000, 16)]).await.unwrap();
    newer.client.submit(vec![application("a", "root.a")]).await.unwrap();
    older.until("given up", |heard| heard.ended.is_some()).await;
    newer.client.ask(vec![ask("a", "k1")]).await.unwrap();
    newer.until("placed", |heard| heard.new.contains_key("k1")).await;
    assert_eq!((newer.heard.disconnected, newer.heard.sessions.len()), (0, 1));
}

/// Joined asks on connections that break repeatedly.
#[tokio::test]
async fn batches_survive_repeated_disconnects() {
    const ASKS: usize = 10_000;
    let service = Service::start();
    let cut = Cut::always(service.grpc, After::FramesOfClient(20)).await;
    let options = options(cut.address, "rm").batch_delay(Duration::from_millis(1)).batch_items(7);
    let mut manager = Manager::registered(options, nothing).await;
    manager.client.report(vec![node("n1", 10_000_000, 100_000)]).await.unwrap();
    manager.client.submit(vec![application("a", "root.a")]).await.unwrap();
    let client = manager.client.clone();
    tokio::spawn(async move {
        for number in 0..ASKS {
            client.ask(vec![ask("a", &format!("k{number}"))]).await.unwrap();
        }
    });
    manager.until("all placed", |heard| heard.new.len() == ASKS).await;
    assert!(manager.heard.new.values().all(|&times| times == 1));
    assert!(manager.heard.rejected.is_empty(), "{:?}", manager.heard.rejected);
    assert!(manager.heard.disconnected > 2, "{}", manager.heard.disconnected);
    assert_eq!(manager.heard.sessions.len(), 1);
}
