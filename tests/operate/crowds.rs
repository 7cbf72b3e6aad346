//! Clients that come in crowds, that stop within a request, or that never take their answers: each is
//! bounded, and probes and resource managers are served meanwhile.

use std::time::Duration;

use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use tonic::codegen::{Bytes, http};
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::{PATIENCE, Rm, Service, ask, node, registration};

/// What a client of HTTP/2 begins with, and its settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// How soon a probe has to have its answer.
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

/// A crowd that opens connections to both edges without end, of which each second one speaks.
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
            // What the process of the test may have, too.
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
async fn with_128_descriptors_probes_are_answered_while_a_crowd_opens_connections() {
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

/// A configuration of as many partitions as one may have.
fn many_partitions() -> String {
    let partition = |n| {
        format!("{{name: p{n}, queues: [{{name: root, queues: [{{name: a}}], submitacl: '*'}}]}}")
    };
    let partitions: Vec<_> = (0..64).map(partition).collect();
    format!("partitions: [{}]", partitions.join(", "))
}

#[tokio::test]
async fn with_128_descriptors_64_partitions_leave_room_for_probes_and_another() {
    let service = Service::start_with_descriptors(128);
    let mut client = service.client().await;
    // Again and again: those of the earlier session may still be there.
    for _ in 0..4 {
        let registration = registration("greedy", &many_partitions());
        client.register_resource_manager(registration).await.unwrap();
        probe(&service).await;
    }
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![ask("app", "k")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    // Each of the partitions is served, whichever thread it is on.
    let in_p63 = ("si/node-partition".to_owned(), "p63".to_owned());
    let new = si::NodeInfo { attributes: [in_p63].into(), ..node("n1", 1_000, 1) };
    let greedy = Rm::open(client, "greedy").await;
    greedy.send_nodes(vec![new]).await;
    greedy.until("a node", |seen| !seen.accepted_nodes.is_empty()).await;
    assert!(service.open_descriptors() < 100, "{}", service.open_descriptors());
    probe(&service).await;
}

/// Where all places are taken by whoever is served, a connection more is answered health only.
#[tokio::test]
async fn beyond_the_limit_a_connection_answers_health_and_refuses_the_rest() {
    let limits = [("GRPC__MAX_CONNECTIONS", "1"), ("REST__MAX_CONNECTIONS", "1")];
    let service = Service::start_with(&limits);
    let _rm = Rm::register(&service, "rm").await;
    let mut busy = TcpStream::connect(service.http).await.unwrap();
    let head = "POST /ws/v1/validate-conf HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\n\r\n";
    busy.write_all(head.as_bytes()).await.unwrap();
    // Until its request is being answered, it would make room for the next.
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
    // Whoever is served goes on.
    busy.write_all(b"#").await.unwrap();
    let mut answer = [0; 12];
    busy.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

/// A connection that opens streams as it likes, whose flow control is in the hands of the test.
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

#[tokio::test]
async fn no_more_streams_are_open_than_the_settings_say_and_a_place_is_given_back() {
    let service = Service::start_with(&[("GRPC__MAX_STREAMS", "1000")]);
    let before = service.memory();
    let mut held = Vec::new();
    let mut refused = 0;
    for _ in 0..3 {
        let mut client = connect(&service, 65_535).await;
        for _ in 0..400 {
            client = client.ready().await.unwrap();
            let (reply, requests) = open(&mut client, "/si.v1.Scheduler/UpdateNode");
            let reply = timeout(PATIENCE, reply).await.expect("headers come").unwrap();
            let reason = reply.headers().get("x-si-reason").cloned();
            refused += usize::from(reason.is_some_and(|reason| reason == "LIMIT_STREAMS"));
            held.push((reply, requests));
        }
        held.push((open_health(&mut client).await, open(&mut client, "/none").1));
    }
    assert_eq!(refused, 200);
    let grown = service.peak_memory().saturating_sub(before);
    assert!(grown < 100 << 20, "{} MiB", grown >> 20);
    drop(held);
    let served = async {
        loop {
            let mut client = connect(&service, 65_535).await;
            let (reply, _requests) = open(&mut client, "/si.v1.Scheduler/UpdateNode");
            if reply.await.unwrap().headers().get("x-si-reason").is_none() {
                return;
            }
        }
    };
    timeout(PATIENCE, served).await.expect("there is a place again");
}

/// Health is answered when all calls are taken.
async fn open_health(
    client: &mut h2::client::SendRequest<Bytes>,
) -> http::Response<h2::RecvStream> {
    let (reply, mut requests) = open(client, "/grpc.health.v1.Health/Check");
    requests.send_data(vec![0; 5].into(), true).unwrap();
    let reply = timeout(PATIENCE, reply).await.expect("health answers").unwrap();
    assert!(reply.headers().get("x-si-reason").is_none());
    reply
}

#[tokio::test]
async fn a_body_that_comes_by_the_byte_is_given_up_and_one_that_comes_slowly_is_not() {
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
    let (reply, mut requests) = open(&mut client, "/si.v1.AdminService/ListNodes");
    requests.send_data(vec![0, 0, 0, 1, 0].into(), false).unwrap();
    let reply = timeout(PATIENCE, reply).await.expect("it ends").unwrap();
    assert_eq!(reply.headers()["x-si-reason"], "BODY_TIMEOUT");
}

/// A service that has megabytes to say of its nodes.
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
async fn whoever_takes_nothing_of_an_answer_over_rest_is_cut_off_and_a_slow_one_is_not() {
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
async fn whoever_takes_nothing_of_an_answer_to_a_call_is_cut_off_and_a_slow_one_is_not() {
    let (service, _rm) = talkative().await;
    for is_moving in [true, false] {
        let mut client = connect(&service, 1_000).await;
        let (reply, mut requests) = open(&mut client, "/si.v1.AdminService/ListNodes");
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
            // The connection is closed, which whoever opens the next stream finds.
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
