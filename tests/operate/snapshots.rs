//! Snapshots over gRPC and HTTP and on the command line; and a client that feeds one to another
//! service.

use std::fs;
use std::io::Read as _;

use flate2::read::MultiGzDecoder;
use monoceros::grpc::stubs::v1::metrics_service_client::MetricsServiceClient;
use monoceros::snapshot::{READ_BYTES, SnapshotError, read};
use monoceros_actors::image::Report;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;
use tonic::transport::Endpoint;

use crate::harness::{Rm, Service, TempFile, ask, node, old_ask, reason_of, run};

/// A resource manager whose node is full, with pending requests of two applications.
async fn full(service: &Service) -> Rm {
    let rm = Rm::register(service, "orbit").await.with_nodes(&["mars"]).await;
    let rm = rm.with_application("survey", "root.a").await;
    let rm = rm.with_application("analysis", "root.a").await;
    let fill = (0..4).map(|n| ask("survey", &format!("fill-{n}"))).collect();
    rm.send_allocations(vec![], fill, vec![]).await;
    rm.until("full", |seen| seen.new.len() == 4).await;
    let urgent = si::Allocation { priority: 7, ..ask("analysis", "urgent") };
    let pending = vec![ask("survey", "late"), ask("analysis", "first"), urgent];
    rm.send_allocations(vec![old_ask("survey", "many", 2)], pending, vec![]).await;
    rm
}

async fn snapshot(service: &Service, request: v1::SnapshotParameters) -> Vec<u8> {
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    let mut client = MetricsServiceClient::new(endpoint.connect().await.unwrap());
    let mut stream = client.get_snapshot(request).await.unwrap().into_inner();
    let (mut file, mut figures) = (Vec::new(), None);
    while let Some(part) = stream.message().await.unwrap() {
        file.extend(part.data);
        figures = part.figures;
    }
    assert_eq!(figures.unwrap().bytes, file.len() as u64);
    file
}

/// The snapshot once all pending requests are in it.
async fn of_all(service: &Service) -> (Vec<u8>, Report) {
    loop {
        let file = snapshot(service, v1::SnapshotParameters::default()).await;
        let report = read(&file, READ_BYTES).unwrap().managers[0].partitions[0].report.clone();
        if report.asks.len() + report.repeated_asks.len() == 4 {
            return (file, report);
        }
    }
}

/// What starts while the node grows by a core at a time.
async fn starts(rm: &Rm) -> Vec<String> {
    let n_before = rm.read(|seen| seen.new.len());
    for n in 1..=5 {
        let mut grown = node("mars", 4_000 + i64::try_from(n).unwrap() * 1_000, 16);
        grown.action = si::node_info::ActionFromRm::Update.into();
        rm.send_nodes(vec![grown]).await;
        rm.until("one more", |seen| seen.new.len() == n_before + n).await;
    }
    rm.read(|seen| seen.new[n_before..].iter().map(|it| it.allocation_key.clone()).collect())
}

#[tokio::test]
async fn a_client_feeds_a_snapshot_to_a_fresh_service() {
    let (live, fresh) = (Service::start(), Service::start());
    let rm = full(&live).await;
    let (_, report) = of_all(&live).await;
    let other = Rm::register(&fresh, "orbit").await;
    other.send_nodes(report.nodes).await;
    other.until("node", |seen| seen.accepted_nodes.len() == 1).await;
    other.send_applications(report.applications, vec![]).await;
    other.until("applications", |seen| seen.accepted_applications.len() == 2).await;
    other.send_allocations(vec![], report.allocations, vec![]).await;
    other.until("allocations", |seen| seen.new.len() == 4).await;
    other.send_allocations(report.repeated_asks, report.asks, vec![]).await;
    let expected = starts(&rm).await;
    assert_eq!(expected[0], "urgent");
    assert_eq!(starts(&other).await, expected);
}

#[tokio::test]
async fn a_snapshot_is_a_file_over_http() {
    let service = Service::start();
    let _rm = full(&service).await;
    let mut connection = TcpStream::connect(service.http).await.unwrap();
    let request = "GET /ws/v1/snapshot?redact=true HTTP/1.1\r\nhost: h\r\naccept-encoding: gzip\r\n\
                   connection: close\r\n\r\n";
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.unwrap();
    let body = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&answer[..body]).to_lowercase();
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(head.contains("content-type: application/gzip"), "{head}");
    assert!(head.contains("content-disposition: attachment"), "{head}");
    assert!(!head.contains("content-encoding"), "{head}");
    let contents = read(&answer[body..], READ_BYTES).unwrap();
    let report = &contents.managers[0].partitions[0].report;
    assert_eq!(report.applications[0].ugi.as_ref().unwrap().user, "u1");
    assert_eq!(report.nodes[0].node_id, "mars");
    let refused = service.http("GET", "/ws/v1/snapshot?redact=perhaps", &[], "").await;
    assert_eq!(refused.status, 400);
    let unknown = service.http("GET", "/ws/v1/snapshot?rm=nobody", &[], "").await;
    assert_eq!(unknown.status, 404, "{}", unknown.body);
}

#[tokio::test]
async fn a_snapshot_of_too_many_bytes_is_refused_with_the_size() {
    let service = Service::start_with(&[("SNAPSHOT__BYTES", "100")]);
    let _rm = full(&service).await;
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    let mut client = MetricsServiceClient::new(endpoint.connect().await.unwrap());
    let refused = client.get_snapshot(v1::SnapshotParameters::default()).await.unwrap_err();
    assert_eq!((refused.code(), &*reason_of(&refused)), (Code::ResourceExhausted, "LIMIT_BYTES"));
    let text = refused.message();
    assert!(text.contains("at most 100 are written (snapshot.bytes)"), "{text}");
    let answer = service.http("GET", "/ws/v1/snapshot", &[], "").await;
    assert_eq!(answer.status, 507, "{}", answer.body);
}

#[tokio::test]
async fn the_command_writes_an_anonymized_file() {
    let service = Service::start();
    let _rm = full(&service).await;
    of_all(&service).await;
    let file = TempFile::new("snapshot.jsonl.gz", "before");
    let grpc = service.grpc.to_string();
    let (code, line, stderr) = run(&["snapshot", file.path(), "--anonymize", "--grpc", &grpc]);
    assert_eq!((code, &*stderr), (Some(0), ""));
    let figures = "1 nodes, 2 applications, 4 allocations, 4 requests, step ";
    assert!(line.starts_with(file.path()) && line.contains(figures), "{line}");
    let bytes = fs::read(file.path()).unwrap();
    assert!(read(&bytes, READ_BYTES).unwrap().managers[0].image.is_some());
    let mut text = String::new();
    MultiGzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
    for name in ["orbit", "mars", "survey", "analysis", "urgent", "fill", "alice", "\"dev\""] {
        assert!(!text.contains(name), "{name}: {text}");
    }
    let cut = read(&bytes[..bytes.len() / 2], READ_BYTES);
    assert!(matches!(cut, Err(SnapshotError::Refused(why)) if why.contains("cut off")));
    let (code, _, stderr) = run(&["snapshot", "/nowhere/at/all", "--grpc", &grpc]);
    assert_eq!(code, Some(1), "{stderr}");
}
