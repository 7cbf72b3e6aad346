//! Crowds of clients, clients that stop within a request, and clients that never read answers: each
//! is bounded, and probes and resource managers are served meanwhile.

use std::time::Duration;

use futures::FutureExt as _;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::{Bytes, http};
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::{PATIENCE, QUEUES, Rm, Service, TempFile, ask, node, reason_of, registration};

/// The start of an HTTP/2 connection, with its settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Longest wait of a probe.
const PROBE: Duration = Duration::from_secs(3);

async fn probe(service: &Service) {
    let rest = timeout(PROBE, service.http("GET", "/healthz", &[], "")).await;
    assert_eq!(rest.expect("an answer over REST").status, 200);
    let grpc = async {
        let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
        let mut client = HealthClient::new(endpoint.connect().await.unwrap());
        client.check(HealthCheckRequest::default()).await.unwrap().into_inner().status()
    };
    let grpc = timeout(PROBE, grpc).await.expect("an answer over gRPC");
    assert_eq!(grpc, ServingStatus::Serving);
}

/// Opens connections to both edges without end. Every second one sends something.
async fn crowd(service: &Service) -> tokio::task::JoinHandle<()> {
    let addresses =
        [(service.grpc, PREFACE), (service.http, &b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n"[..])];
    let opening = tokio::spawn(async move {
        let mut held = std::collections::VecDeque::new();
        for number in 0.. {
            let (address, words) = addresses[number % 2];
            if let Ok(Ok(mut stream)) = timeout(PROBE, TcpStream::connect(address)).await {
                if number % 4 < 2 {
                    let _ = stream.write_all(words).await;
                }
                held.push_back(stream);
            }
            // More connections would exceed the limit of the test's own process.
            if held.len() > 400 {
                held.pop_front();
                sleep(Duration::from_millis(1)).await;
            }
        }
    });
    sleep(Duration::from_secs(1)).await;
    opening
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_are_answered_with_few_descriptors() {
    let service = Service::start_with_descriptors(128);
    let rm = Rm::register(&service, "rm").await.with_application("app", "root.a").await;
    rm.send_nodes(vec![node("n1", 1_000_000_000, 1_000_000)]).await;
    let crowd = crowd(&service).await;
    for number in 1..=10 {
        probe(&service).await;
        rm.send_allocations(vec![], vec![ask("app", &format!("k{number}"))], vec![]).await;
        rm.until("placed", |seen| seen.new.len() == number).await;
    }
    crowd.abort();
}

/// Makes a configuration with the most partitions.
fn many_partitions() -> String {
    let partition = |n| {
        format!("{{name: p{n}, queues: [{{name: root, queues: [{{name: a}}], submitacl: '*'}}]}}")
    };
    let partitions: Vec<_> = (0..64).map(partition).collect();
    format!("partitions: [{}]", partitions.join(", "))
}

#[tokio::test]
async fn partitions_leave_descriptors_for_probes() {
    let service = Service::start_with_descriptors(128);
    let mut client = service.client().await;
    // Repeated, because threads of the earlier session may still exist.
    for _ in 0..4 {
        let registration = registration("greedy", &many_partitions());
        client.register_resource_manager(registration).await.unwrap();
        probe(&service).await;
    }
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![ask("app", "k")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    // Each partition is served, whichever thread it is on.
    let in_p63 = ("si/node-partition".to_owned(), "p63".to_owned());
    let new = si::NodeInfo { attributes: [in_p63].into(), ..node("n1", 1_000, 1) };
    let greedy = Rm::open(client, "greedy").await;
    greedy.send_nodes(vec![new]).await;
    greedy.until("a node", |seen| !seen.accepted_nodes.is_empty()).await;
    assert!(service.open_descriptors() < 100, "{}", service.open_descriptors());
    probe(&service).await;
}

/// If served connections use the whole limit, another connection only gets health answers.
#[tokio::test]
async fn surplus_connections_answer_only_health() {
    let limits = [("GRPC__MAX_CONNECTIONS", "1"), ("REST__MAX_CONNECTIONS", "1")];
    let service = Service::start_with(&limits);
    // A connection counts as served while it has a stream of a session.
    let _rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let mut busy = TcpStream::connect(service.http).await.unwrap();
    let head = "POST /ws/v1/validate-conf HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\n\r\n";
    busy.write_all(head.as_bytes()).await.unwrap();
    // Until its request is being answered, the connection would be closed for the next one.
    sleep(Duration::from_millis(300)).await;
    let refused = async {
        while service.http("GET", "/ws/v1/clusters", &[], "").await.status != 503 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, refused).await.expect("it is refused");
    probe(&service).await;
    let mut client = connect(&service, 65_535).await;
    let (reply, _requests) = open(&mut client, "/si.v1.Scheduler/UpdateNode");
    let reply = timeout(PATIENCE, reply).await.expect("it is refused").unwrap();
    assert_eq!(reply.headers()["x-si-reason"], "LIMIT_CONNECTIONS");
    // Served connections continue.
    busy.write_all(b"#").await.unwrap();
    let mut answer = [0; 12];
    busy.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

/// A connection that opens streams freely, with its flow control in the hands of the test.
async fn connect(service: &Service, window: u32) -> h2::client::SendRequest<Bytes> {
    let socket = TcpStream::connect(service.grpc).await.unwrap();
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(window);
    let (client, connection) = builder.handshake(socket).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

fn open(
    client: &mut h2::client::SendRequest<Bytes>,
    path: &str,
) -> (h2::client::ResponseFuture, h2::SendStream<Bytes>) {
    let request = http::Request::post(format!("http://localhost{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap();
    client.send_request(request, false).unwrap()
}

/// Opens silent streams on one connection.
async fn silent_streams(
    service: &Service,
    n: usize,
) -> Vec<(http::Response<h2::RecvStream>, h2::SendStream<Bytes>)> {
    let mut client = connect(service, 65_535).await;
    let mut streams = Vec::new();
    for _ in 0..n {
        client = client.ready().await.unwrap();
        let (reply, requests) = open(&mut client, "/si.v1.Scheduler/UpdateNode");
        let reply = timeout(PATIENCE, reply).await.expect("headers come").unwrap();
        streams.push((reply, requests));
    }
    drop(open_health(&mut client).await);
    streams
}

/// Waits until this many streams have ended for this reason.
async fn until_ended(
    streams: &mut Vec<(http::Response<h2::RecvStream>, h2::SendStream<Bytes>)>,
    reason: &str,
    n: usize,
) {
    let mut ended = 0;
    let all = async {
        while ended < n {
            streams.retain_mut(|(reply, _)| {
                let Some(trailers) = reply.body_mut().trailers().now_or_never() else {
                    return true;
                };
                ended += usize::from(trailers.unwrap().unwrap()["x-si-reason"] == reason);
                false
            });
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(PATIENCE, all).await.is_ok(), "{ended} of {n} have ended");
    assert_eq!(ended, n);
}

#[tokio::test]
async fn streams_that_say_nothing_make_room() {
    let service = Service::start_with(&[("GRPC__MAX_STREAMS", "1000")]);
    let before = service.memory();
    let mut held = Vec::new();
    for _ in 0..3 {
        held.append(&mut silent_streams(&service, 400).await);
    }
    // At most half of the calls may be silent streams.
    until_ended(&mut held, "LIMIT_STREAMS", 700).await;
    let grown = service.peak_memory().saturating_sub(before);
    assert!(grown < 100 << 20, "{} MiB", grown >> 20);

    // A manager that registers and identifies its streams is served meanwhile, also a stock shim
    // that identifies itself in its first message.
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![ask("app", "k")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
}

#[tokio::test]
async fn only_silent_streams_time_out() {
    let service = Service::start_with(&[("GRPC__BIND_TIMEOUT", "1")]);
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![ask("app", "k")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    let began = Instant::now();
    let mut held = silent_streams(&service, 400).await;
    until_ended(&mut held, "BIND_TIMEOUT", 400).await;
    // The default would be ten seconds.
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    rm.send_allocations(vec![], vec![ask("app", "k2")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 2).await;
}

/// A service with the tokens `shim` and `other`, each for the resource managers of its name.
fn with_tokens(name: &str, settings: &str) -> (Service, [TempFile; 2]) {
    let tokens = TempFile::new(&format!("{name}-tokens"), "shim:t-shim\nother:t-other\n");
    let settings = format!(
        "[grpc]\n{settings}\n[identity]\ntokens = '{}'\n\
         [[identity.rules]]\ntoken = 'shim'\nrm_ids = ['shim*']\n\
         [[identity.rules]]\ntoken = 'other'\nrm_ids = ['other*']\n",
        tokens.path()
    );
    let settings = TempFile::new(&format!("{name}.toml"), &settings);
    (Service::start_configured(settings.path()), [tokens, settings])
}

fn as_whom<T>(who: &str, message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer t-{who}").parse().unwrap());
    request
}

/// Registers a resource manager and a node on a connection of its own.
async fn serves(service: &Service, who: &str, rm_id: &str) -> Result<(), tonic::Status> {
    let mut client = service.client().await;
    client.register_resource_manager(as_whom(who, registration(rm_id, QUEUES))).await?;
    let (sender, requests) = mpsc::channel(1);
    let request = as_whom(who, ReceiverStream::new(requests));
    let mut replies = client.update_node(request).await?.into_inner();
    let (rm_id, nodes) = (rm_id.to_owned(), vec![node("n1", 1_000, 1)]);
    sender.send(si::NodeRequest { rm_id, nodes, ..Default::default() }).await.unwrap();
    let reply = timeout(PATIENCE, replies.message()).await.expect("an answer")?.unwrap();
    assert_eq!(reply.accepted.len(), 1);
    Ok(())
}

#[tokio::test]
async fn strangers_do_not_block_known_callers() {
    let (service, _files) = with_tokens("strangers", "max_connections = 8");
    let mut held = Vec::new();
    for round in 0..2 {
        // More connections than the limit, each with an open call that needs no rights.
        for n in 0..12 {
            let mut client = connect(&service, 65_535).await;
            let path = match n % 2 {
                0 => "/grpc.health.v1.Health/Watch",
                _ => "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            };
            let (reply, mut requests) = open(&mut client, path);
            requests.send_data(vec![0; 5].into(), n % 2 == 0).unwrap();
            // Some connections are closed before they are answered, to make room.
            drop(timeout(PROBE, reply).await.expect("an answer or an end"));
            held.push((client, requests));
        }
        serves(&service, "shim", &format!("shim-{round}")).await.unwrap();
        serves(&service, "other", &format!("other-{round}")).await.unwrap();
    }
    probe(&service).await;
}

#[tokio::test]
async fn a_known_caller_does_not_block_registrations() {
    let (service, _files) = with_tokens("callers", "max_streams = 64\nmax_sessions = 3");
    let client = service.client().await;
    let mut held = Vec::new();
    for _ in 0..200 {
        let (sender, requests) = mpsc::channel::<si::NodeRequest>(1);
        let request = as_whom("shim", ReceiverStream::new(requests));
        held.push((sender, client.clone().update_node(request).await.unwrap()));
    }
    for n in 0..3 {
        serves(&service, "shim", &format!("shim-{n}")).await.unwrap();
    }
    let refused = serves(&service, "shim", "shim-3").await.unwrap_err();
    assert_eq!(reason_of(&refused), "LIMIT_SESSIONS");
    for n in 0..3 {
        serves(&service, "other", &format!("other-{n}")).await.unwrap();
    }
    serves(&service, "shim", "shim-0").await.unwrap();
}

/// Opens health watches until all calls are taken.
async fn open_health(
    client: &mut h2::client::SendRequest<Bytes>,
) -> http::Response<h2::RecvStream> {
    let (reply, mut requests) = open(client, "/grpc.health.v1.Health/Check");
    requests.send_data(vec![0; 5].into(), true).unwrap();
    let reply = timeout(PATIENCE, reply).await.expect("health answers").unwrap();
    assert!(reply.headers().get("x-si-reason").is_none());
    reply
}

/// Sends only the head, and gets the answer at once.
#[tokio::test]
async fn an_announced_oversized_body_is_refused_early() {
    let service = Service::start();
    let head = "POST /ws/v1/validate-conf HTTP/1.1\r\nhost: h\r\ncontent-length: 900000000\r\n\r\n";
    let mut stream = TcpStream::connect(service.http).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    timeout(PATIENCE, stream.read_exact(&mut answer)).await.expect("it is refused").unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");

    let mut client = connect(&service, 65_535).await;
    let path = "http://localhost/si.v1.Scheduler/RegisterResourceManager";
    let request = http::Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("content-length", "900000000")
        .body(())
        .unwrap();
    let (reply, _body) = client.send_request(request, false).unwrap();
    let reply = timeout(PATIENCE, reply).await.expect("it is refused").unwrap();
    assert_eq!(reply.headers()["grpc-status"], "11");
    let why = reply.headers()["grpc-message"].to_str().unwrap();
    assert!(why.starts_with("a%20message%20of%20899999995%20bytes%20is%20refused"), "{why}");
}

#[tokio::test]
async fn only_a_stalling_body_is_cut_off() {
    let service = Service::start_with(&[("REST__BODY_TIMEOUT", "1"), ("GRPC__BODY_TIMEOUT", "1")]);
    let head = "POST /ws/v1/validate-conf HTTP/1.1\r\nhost: h\r\ncontent-length: 8000\r\n\r\n";
    let send = async |piece: usize| {
        let mut stream = TcpStream::connect(service.http).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let (mut from, mut to) = stream.into_split();
        let sending = tokio::spawn(async move {
            for _ in 0..8_000 / piece {
                if to.write_all(&vec![b'#'; piece]).await.is_err() {
                    break;
                }
                sleep(Duration::from_millis(250)).await;
            }
            to
        });
        let mut answer = [0; 12];
        timeout(PATIENCE, from.read_exact(&mut answer)).await.expect("it ends").unwrap();
        sending.abort();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let began = Instant::now();
    assert_eq!(send(1).await, "HTTP/1.1 400");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // Two kilobytes per second, for four seconds.
    assert_eq!(send(500).await, "HTTP/1.1 200");

    let mut client = connect(&service, 65_535).await;
    let (reply, mut requests) = open(&mut client, "/monoceros.v1.AdminService/ListNodes");
    requests.send_data(vec![0, 0, 0, 1, 0].into(), false).unwrap();
    let reply = timeout(PATIENCE, reply).await.expect("it ends").unwrap();
    assert_eq!(reply.headers()["x-si-reason"], "BODY_TIMEOUT");
}

/// A service with megabytes of data about its nodes.
async fn talkative() -> (Service, Rm) {
    let service = Service::start_with(&[("REST__BODY_TIMEOUT", "1"), ("GRPC__BODY_TIMEOUT", "1")]);
    let rm = Rm::register(&service, "rm").await;
    let nodes = |from: usize| (from..from + 5_000).map(|n| node(&format!("node-{n:0>200}"), 1, 1));
    for from in [0, 5_000, 10_000] {
        rm.send_nodes(nodes(from).collect()).await;
    }
    rm.until("nodes", |seen| seen.accepted_nodes.len() == 15_000).await;
    (service, rm)
}

#[tokio::test]
async fn only_stalled_rest_readers_are_cut_off() {
    let (service, _rm) = talkative().await;
    for is_moving in [true, false] {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 << 10).unwrap();
        let mut stream = socket.connect(service.http).await.unwrap();
        let request = "GET /ws/v1/partition/default/nodes HTTP/1.1\r\nhost: h\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        let mut piece = vec![0; 64 << 10];
        let began = Instant::now();
        while is_moving && began.elapsed() < Duration::from_secs(4) {
            sleep(Duration::from_millis(200)).await;
            let n = stream.read(&mut piece).await.unwrap();
            assert_ne!(n, 0, "cut off after {:?}", began.elapsed());
            read.extend_from_slice(&piece[..n]);
        }
        if !is_moving {
            sleep(Duration::from_secs(4)).await;
        }
        let rest = timeout(PATIENCE, stream.read_to_end(&mut read)).await;
        let text = String::from_utf8_lossy(&read);
        let whole =
            text.split_once("content-length: ").and_then(|(_, rest)| rest.split_once("\r\n"));
        let whole: usize = whole.expect("a head").0.parse().unwrap();
        assert!(whole > 4 << 20, "{whole}");
        let is_whole = read.len() > whole;
        assert_eq!(is_whole, is_moving, "{} of {whole}: {rest:?}", read.len());
    }
}

#[tokio::test]
async fn only_stalled_grpc_readers_are_cut_off() {
    let (service, _rm) = talkative().await;
    for is_moving in [true, false] {
        let mut client = connect(&service, 1_000).await;
        let (reply, mut requests) = open(&mut client, "/monoceros.v1.AdminService/ListNodes");
        let request = v1::ListNodesRequest { page_size: 1_000, ..Default::default() };
        let message = request.encode_to_vec();
        let head = [&[0], &u32::try_from(message.len()).unwrap().to_be_bytes()[..]].concat();
        requests.send_data([head, message].concat().into(), true).unwrap();
        let mut body = timeout(PATIENCE, reply).await.unwrap().unwrap().into_body();
        let began = Instant::now();
        while is_moving && began.elapsed() < Duration::from_secs(4) {
            let data = body.data().await.expect("it goes on").unwrap();
            sleep(Duration::from_millis(20)).await;
            body.flow_control().release_capacity(data.len()).unwrap();
        }
        if !is_moving {
            // The connection is closed, which the next stream finds.
            let closed = async {
                while let Ok(ready) = client.clone().ready().await {
                    drop(ready);
                    sleep(Duration::from_millis(50)).await;
                }
            };
            timeout(PATIENCE, closed).await.expect("it is cut off");
        }
    }
}
