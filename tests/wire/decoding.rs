//! Messages that are small on the wire and large once decoded, or only announced: their cost to the
//! service and to clients served meanwhile. And a large valid message, which passes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use monoceros_proto::si::v1 as si;
use prost::Message as _;
use std::io::Write as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tonic::codegen::{Bytes, http};

use crate::harness::{Rm, Service, TempFile, ask, node};

/// The default limit of decoded bytes of callers without a session.
const UNBOUND_BYTES: usize = 64 << 20;

/// How long a reply may take behind many others, in an unoptimised service.
const ANSWERED: Duration = Duration::from_secs(60);

/// A gzip message of 65 kB that unpacks to 32 million empty items.
fn bomb(field: u8) -> Bytes {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    let empty = [field << 3 | 2, 0].repeat(1 << 15);
    for _ in 0..UNBOUND_BYTES / empty.len() {
        gzip.write_all(&empty).unwrap();
    }
    framed(1, &gzip.finish().unwrap())
}

fn framed(flag: u8, message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[flag], &length[..], message].concat().into()
}

/// One request, sent frame by frame as the service's window allows; it stays open unless `whole`.
struct Call {
    reply: h2::client::ResponseFuture,
    requests: h2::SendStream<Bytes>,
}

async fn connect(service: &Service) -> h2::client::SendRequest<Bytes> {
    let socket = TcpStream::connect(service.grpc).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

fn open(client: &mut h2::client::SendRequest<Bytes>, method: &str) -> Call {
    let request = http::Request::post(format!("http://localhost/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-encoding", "gzip")
        .body(())
        .unwrap();
    let (reply, requests) = client.send_request(request, false).unwrap();
    Call { reply, requests }
}

impl Call {
    /// Sends the bytes as the window allows. False if the service accepts no more.
    async fn send(&mut self, mut bytes: Bytes) -> bool {
        while !bytes.is_empty() {
            self.requests.reserve_capacity(bytes.len());
            let capacity = std::future::poll_fn(|cx| self.requests.poll_capacity(cx)).await;
            let Some(Ok(capacity)) = capacity else { return false };
            let piece = bytes.split_to(capacity.min(bytes.len()));
            if self.requests.send_data(piece, false).is_err() {
                return false;
            }
        }
        true
    }

    /// The reason of the status that ends the call.
    async fn reason(self) -> String {
        let reply = timeout(ANSWERED, self.reply).await.expect("it is answered").unwrap();
        let text = |headers: &http::HeaderMap| {
            headers.get("x-si-reason").map(|reason| reason.to_str().unwrap().to_owned())
        };
        if let Some(reason) = text(reply.headers()) {
            return reason;
        }
        let mut body = reply.into_body();
        while let Some(Ok(data)) = body.data().await {
            body.flow_control().release_capacity(data.len()).unwrap();
        }
        let trailers = body.trailers().await.unwrap().unwrap();
        text(&trailers).unwrap_or_default()
    }
}

/// Runs an attack. Returns the number of placements that an RM got during it, and the result.
async fn beside<T: Send + 'static>(
    rm: &Rm,
    attack: impl Future<Output = T> + Send + 'static,
) -> (T, usize) {
    let attack = tokio::spawn(attack);
    let mut n_placed = 0;
    while !attack.is_finished() {
        let key = format!("k{n_placed}");
        rm.send_allocations(vec![], vec![ask("app", &key)], vec![]).await;
        rm.until("placed", |seen| seen.new.len() == n_placed + 1).await;
        n_placed += 1;
        sleep(Duration::from_millis(2)).await;
    }
    (attack.await.unwrap(), n_placed)
}

async fn innocent(service: &Service) -> Rm {
    let rm = Rm::register(service, "innocent").await.with_application("app", "root.a").await;
    rm.send_nodes(vec![node("n1", 1_000_000_000, 1_000_000)]).await;
    rm.until("a node", |seen| seen.accepted_nodes.len() == 1).await;
    rm
}

/// Placements continue during an attack; in earlier versions the first one was made only after it.
fn assert_undisturbed(n_placed: usize) {
    assert!(n_placed >= 5, "{n_placed} placements beside the attack");
}

/// Methods with a bomb for each. Made once, in advance: it takes a while, in which the thread of a
/// test would be blocked.
static MADE: LazyLock<Vec<(&'static str, Bytes)>> = LazyLock::new(|| {
    let methods = [
        ("si.v1.Scheduler/UpdateNode", 1),
        ("si.v1.Scheduler/UpdateAllocation", 4),
        ("si.v1.Scheduler/Update", 1),
        ("si.v1.Scheduler/RegisterResourceManager", 6),
        ("monoceros.v1.AdminService/ListNodes", 3),
    ];
    methods.map(|(method, field)| (method, bomb(field))).into()
});

/// Sixteen bombs at a time, on streams and calls, from an unknown client.
async fn bombs(
    mut client: h2::client::SendRequest<Bytes>,
    made: Vec<(&'static str, Bytes)>,
) -> Vec<String> {
    let mut calls = JoinSet::new();
    for (method, bomb) in made.into_iter().cycle().take(16) {
        let mut call = open(&mut client, method);
        calls.spawn(async move {
            call.send(bomb).await;
            call.reason().await
        });
    }
    calls.join_all().await
}

#[tokio::test]
async fn bombs_before_registration_are_harmless() {
    let (made, service) = (MADE.clone(), Service::start());
    let rm = innocent(&service).await;
    let before = service.memory();
    let (reasons, n_placed) = beside(&rm, bombs(connect(&service).await, made)).await;
    let refusals = ["LIMIT_ITEMS", "LIMIT_BYTES", "LIMIT_DECODING"];
    assert!(reasons.iter().all(|reason| refusals.contains(&&**reason)), "{reasons:?}");
    let grown = service.peak_memory().saturating_sub(before);
    assert!(grown <= 4 * UNBOUND_BYTES, "{} MiB", grown >> 20);
    assert_undisturbed(n_placed);
}

#[tokio::test]
async fn unknown_callers_are_not_read() {
    let tokens = TempFile::new("tokens", "ops:0ps\n");
    let rules = format!(
        "[identity]\ntokens = \"{}\"\n[[identity.rules]]\ntoken = \"ops\"\nadmin = true\n",
        tokens.path()
    );
    let settings = TempFile::new("rules.toml", &rules);
    let service = Service::start_configured(settings.path());
    let before = service.memory();
    let reasons = bombs(connect(&service).await, MADE.clone()).await;
    assert!(reasons.iter().all(|reason| reason == "UNAUTHENTICATED"), "{reasons:?}");
    let grown = service.peak_memory().saturating_sub(before);
    assert!(grown <= 32 << 20, "{} MiB", grown >> 20);
}

#[tokio::test]
async fn announced_messages_cost_nothing() {
    let service = Service::start();
    let rm = innocent(&service).await;
    let before = service.memory();
    let mut client = connect(&service).await;
    let attack = async move {
        let head = |flag: u8| Bytes::from([&[flag], &(64_u32 << 20).to_be_bytes()[..]].concat());
        let mut calls = Vec::new();
        for number in 0..1_000 {
            let methods = ["si.v1.Scheduler/UpdateNode", "monoceros.v1.AdminService/ListNodes"];
            client = client.ready().await.unwrap();
            let mut call = open(&mut client, methods[number % 2]);
            assert!(call.send(head(u8::from(number % 3 == 0))).await);
            // A kilobyte of the announced message.
            assert!(call.send(vec![0; 1_000].into()).await);
            calls.push(call);
        }
        sleep(Duration::from_secs(1)).await;
        calls
    };
    let (_calls, n_placed) = beside(&rm, attack).await;
    let grown = service.peak_memory().saturating_sub(before);
    // A thousand streams with their buffers, a third of them with 64 KiB reserved for a message.
    assert!(grown <= 128 << 20, "{} MiB", grown >> 20);
    assert_undisturbed(n_placed);
}

/// A message of a stock shim that reports `n` nodes.
fn many_nodes(n: usize) -> Vec<u8> {
    let stock = |number: usize| {
        let mut node = node(&format!("ip-10-0-{number}.eu-central-1.compute.internal"), 64_000, 16);
        for (key, value) in [("si.io/hostname", "a-host"), ("si.io/rackname", "/rack-default")] {
            node.attributes.insert(key.to_owned(), format!("{value}-{number}"));
        }
        node.occupied_resource = node.schedulable_resource.clone();
        node
    };
    let nodes = (0..n).map(stock).collect();
    si::NodeRequest { nodes, rm_id: "innocent".to_owned(), ..Default::default() }.encode_to_vec()
}

#[tokio::test]
async fn first_message_may_have_thirty_thousand_nodes() {
    for is_gzip in [false, true] {
        let service = Service::start();
        let rm = innocent(&service).await;
        let mut message = many_nodes(30_000);
        if is_gzip {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
            gzip.write_all(&message).unwrap();
            message = gzip.finish().unwrap();
        }
        let mut client = connect(&service).await;
        let mut call = open(&mut client, "si.v1.Scheduler/UpdateNode");
        assert!(call.send(framed(u8::from(is_gzip), &message)).await);
        until_nodes(&service, 30_001).await;
        drop(rm);
    }
}

/// Waits until the partition has this many nodes.
async fn until_nodes(service: &Service, n: usize) {
    let there = async {
        loop {
            let partitions = service.get("/ws/v1/partitions").await;
            if partitions.contains(&format!("\"totalNodes\":{n},")) {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(60), there).await.expect("the nodes come");
}

/// Clients that stop within a large message make room for one that does not.
#[tokio::test]
async fn stopped_clients_make_room() {
    let service = Service::start();
    let _rm = innocent(&service).await;
    let mut client = connect(&service).await;
    let accepted = Arc::new(AtomicUsize::new(0));
    let mut stopped = JoinSet::new();
    for _ in 0..8 {
        let mut call = open(&mut client, "si.v1.Scheduler/UpdateNode");
        let accepted = Arc::clone(&accepted);
        stopped.spawn(async move {
            let head = [&[0], &(16_u32 << 20).to_be_bytes()[..]].concat();
            assert!(call.send(head.into()).await);
            let piece = Bytes::from(vec![10; 64 << 10]);
            for _ in 0..15 << 4 {
                if !call.send(piece.clone()).await {
                    break;
                }
                accepted.fetch_add(piece.len(), Ordering::Relaxed);
            }
            std::future::pending::<()>().await;
        });
    }
    let is_used_up = async {
        while accepted.load(Ordering::Relaxed) < UNBOUND_BYTES {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(ANSWERED, is_used_up).await.expect("the service accepts as much as its pool holds");
    let mut client = connect(&service).await;
    let mut call = open(&mut client, "si.v1.Scheduler/UpdateNode");
    assert!(call.send(framed(0, &many_nodes(10_000))).await);
    until_nodes(&service, 10_001).await;
}
