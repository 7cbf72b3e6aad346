//! Many readers over gRPC and REST: memory bound of answers that nobody reads, equal reads that
//! share one document, reads that are refused for want of memory, applications with very many
//! entries, and pages and ETags.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_proto::v1;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

use crate::harness::{HttpAnswer, PATIENCE, Rm, Service, ask, node, reason_of, registration};

const MIB: usize = 1 << 20;
const P: &str = "/ws/v1/partition/default";

/// Makes a configuration with this many leaves, for a long document.
fn queues(count: usize) -> String {
    let mut text = "partitions: [{name: default, queues: [{name: root, queues: [\n".to_owned();
    for number in 0..count {
        writeln!(text, "{{name: leaf-{number}, properties: {{note: {}}}}},", "x".repeat(500))
            .unwrap();
    }
    text + "]}]}]\n"
}

async fn service_with_queues(count: usize, settings: &[(&str, &str)]) -> Service {
    let service = Service::start_with(settings);
    let mut client = service.client().await;
    client.register_resource_manager(registration("rm", &queues(count))).await.unwrap();
    service
}

/// A connection that sends a request and never reads the answer.
async fn unread(service: &Service, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stream = socket.connect(service.http).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_documents_stay_within_their_bound() {
    let room = 16 * MIB;
    let bytes = room.to_string();
    let service = service_with_queues(3_000, &[("READS__BYTES", &bytes)]).await;
    let length = service.get(&format!("{P}/queues")).await.len();
    assert!(length > 2 * MIB, "{length}");
    let before = service.peak_memory();
    let mut held = Vec::new();
    for number in 0..100 {
        held.push(unread(&service, &format!("{P}/queues?x={number}")).await);
        held.push(unread(&service, &format!("{P}/queue/root?subtree&x={number}")).await);
        held.push(unread(&service, "/ws/v1/config").await);
    }
    // Small documents are still read, and a request without room is refused.
    let began = Instant::now();
    let small = service.http("GET", &format!("{P}/queue/root.leaf-1"), &[], "").await;
    assert_eq!(small.status, 200);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    sleep(Duration::from_secs(2)).await;
    // A tree needs about its length in memory while it is read, once for all readers.
    let grown = service.peak_memory().saturating_sub(before);
    assert!(grown < room + 12 * length + 64 * MIB, "{} MiB", grown / MIB);
    drop(held);
    timeout(PATIENCE, async {
        while service.http("GET", &format!("{P}/queues"), &[], "").await.status != 200 {}
    })
    .await
    .expect("the room is given back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_reads_share_one_document() {
    let service = service_with_queues(3_000, &[]).await;
    let mut client =
        AdminServiceClient::new(service.channel().await).max_decoding_message_size(64 * MIB);
    let request = || v1::GetQueuesRequest::default();
    let one = client.get_queues(request()).await.unwrap().into_inner().root.unwrap();
    assert_eq!(one.children.len(), 3_000);
    let before = service.peak_memory();
    let calls = (0..100).map(|_| {
        let mut client = client.clone();
        async move { client.get_queues(request()).await.unwrap().into_inner().root }
    });
    let answers = timeout(PATIENCE, futures::future::join_all(calls)).await.unwrap();
    assert!(answers.iter().all(|root| root.as_ref() == Some(&one)));
    let grown = service.peak_memory().saturating_sub(before);
    assert!(grown < 66 * MIB, "{} MiB", grown / MIB);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_without_room_is_refused() {
    let room = (2 * MIB).to_string();
    let service = service_with_queues(3_000, &[("READS__BYTES", &room)]).await;
    let _held = unread(&service, &format!("{P}/queues")).await;
    let mut client =
        AdminServiceClient::new(service.channel().await).max_decoding_message_size(64 * MIB);
    let refused = timeout(PATIENCE, async {
        loop {
            if let Err(refused) = client.get_queues(v1::GetQueuesRequest::default()).await {
                break refused;
            }
        }
    });
    let refused = refused.await.unwrap();
    assert_eq!((refused.code(), &*reason_of(&refused)), (Code::ResourceExhausted, "LIMIT_READS"));
    assert!(refused.message().contains("`reads.bytes`"), "{refused}");
    let refused = service.http("GET", &format!("{P}/queue/root?subtree"), &[], "").await;
    assert_eq!(refused.status, 503);
    assert_eq!(header(&refused, "retry-after"), Some("5"));
    let small = client.get_queues(v1::GetQueuesRequest { depth: 1, ..Default::default() }).await;
    assert!(small.is_ok() || reason_of(&small.unwrap_err()) == "LIMIT_READS");
}

async fn rm_with_nodes(service: &Service, ids: &[&str]) -> Rm {
    Rm::register(service, "rm").await.with_nodes(ids).await
}

/// Returns the value of a header. Headers are in lower case.
fn header<'a>(answer: &'a HttpAnswer, name: &str) -> Option<&'a str> {
    let mut lines = answer.head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn ids(answer: &HttpAnswer, key: &str) -> Vec<String> {
    let rows = answer.json();
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row[key].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn pages_are_consecutive_and_tags_stable() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, &["n1", "n2", "n3", "n4", "n5"]).await;
    let (mut path, mut pages) = (format!("{P}/nodes?limit=2&x=1"), Vec::new());
    loop {
        let page = service.http("GET", &path, &[], "").await;
        pages.push(ids(&page, "nodeID"));
        let Some(link) = header(&page, "link") else { break };
        path = link.strip_prefix('<').unwrap().split_once('>').unwrap().0.to_owned();
        assert!(path.contains("x=1"), "{path}");
    }
    assert_eq!(pages, [vec!["n1", "n2"], vec!["n3", "n4"], vec!["n5"]]);
    let behind = service.http("GET", &format!("{P}/nodes?after=n3"), &[], "").await;
    assert_eq!(ids(&behind, "nodeID"), ["n4", "n5"]);

    let tag_of = async |path: &str| {
        let answer = service.http("GET", &format!("{P}/{path}"), &[], "").await;
        header(&answer, "etag").unwrap().replace("w/", "W/")
    };
    let tag = tag_of("nodes?limit=2&x=1").await;
    assert_eq!(tag, tag_of("nodes?x=2&limit=2").await, "what is not obeyed makes no difference");
    assert_ne!(tag, tag_of("nodes?limit=3").await);
    assert_ne!(tag, tag_of("nodes?limit=2&after=n2").await);
    let again = async || {
        let shown = [("if-none-match", &*tag)];
        service.http("GET", &format!("{P}/nodes?limit=2&y=3"), &shown, "").await.status
    };
    assert_eq!(again().await, 304);
    rm.send_nodes(vec![node("n6", 4, 8)]).await;
    timeout(PATIENCE, async { while again().await == 304 {} }).await.unwrap();
}

#[tokio::test]
async fn long_applications_are_complete_on_both_edges() {
    const ASKS: usize = 3_000;
    let service = Service::start();
    let rm = rm_with_nodes(&service, &["n1"]).await;
    let rm = rm.with_application("fat", "root.a").await;
    let keys: BTreeSet<String> = (0..ASKS).map(|number| format!("ask-{number}")).collect();
    let asks = keys.iter().map(|key| ask("fat", key)).collect();
    rm.send_allocations(vec![], asks, vec![]).await;
    let path = format!("{P}/application/fat");
    let read = async || {
        let shown = service.http("GET", &path, &[], "").await.json();
        let keys = |list: &str| -> Vec<String> {
            let rows = shown[list].as_array().into_iter().flatten();
            rows.map(|row| row["allocationKey"].as_str().unwrap().to_owned()).collect()
        };
        [keys("requests"), keys("allocations")].concat()
    };
    let whole = timeout(PATIENCE, async {
        loop {
            let read = read().await;
            if read.len() >= ASKS {
                break read;
            }
        }
    });
    let whole = whole.await.expect("all asks come");
    assert_eq!(whole.len(), ASKS, "none is there twice");
    assert_eq!(whole.into_iter().collect::<BTreeSet<_>>(), keys);
    let mut client =
        AdminServiceClient::new(service.channel().await).max_decoding_message_size(64 * MIB);
    let request = v1::ListApplicationsRequest { details: true, ..Default::default() };
    let listed = client.list_applications(request).await.unwrap().into_inner().applications;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].held.len() + listed[0].waiting.len(), ASKS);
}
