//! Clients that know nothing of clusters, at a member that does not serve their resource manager:
//! what they get is what they would get from the owner.

use std::pin::Pin;

use futures::future::poll_fn;
use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros::grpc::stubs::v1::metrics_service_client::MetricsServiceClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::Body as HttpBody;
use tonic::codegen::http::{self, HeaderMap};
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};
use tower::ServiceExt as _;

use super::{Bed, LEASE, PROOF, is_allocated, register, served, until_ready};
use crate::harness::{PATIENCE, Rm, Service, node, reason_of};

/// Time that a call takes at most when nothing is amiss.
const SOON: Duration = Duration::from_secs(2);
/// Status of the library for a deadline that has passed, at the server and at the client.
const EXPIRED: Code = Code::Cancelled;

fn reports(rm: &str) -> v1::UtilizationReports {
    let report = si::UtilizationReport { id: "n1".to_owned(), ..Default::default() };
    v1::UtilizationReports { rm_id: rm.to_owned(), reports: vec![report], timestamp_nano: 1 }
}

/// Reports measured amounts in messages with a pause between them.
async fn report(member: &Service, rm: &str, pause: Duration) -> Result<(u64, u64), Status> {
    let mut client = MetricsServiceClient::new(member.channel().await);
    let (sender, messages) = mpsc::channel(1);
    let rm = rm.to_owned();
    tokio::spawn(async move {
        for _ in 0..3 {
            sleep(pause).await;
            sender.send(reports(&rm)).await.unwrap();
        }
    });
    let summary = client.report_utilization(ReceiverStream::new(messages));
    let summary = timeout(SOON, summary).await.expect("an answer")?.into_inner();
    Ok((summary.accepted, summary.unknown))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn measured_amounts_are_taken_at_any_member() {
    let Some(bed) = Bed::new().await else { return };
    let [m1, m2, _m3] = bed.three().await;
    assert_eq!(register(&m1, "rm", PROOF).await.unwrap(), 1);
    let _rm = served(&m1, "rm").await;
    for pause in [Duration::ZERO, Duration::from_millis(100)] {
        let direct = report(&m1, "rm", pause).await.unwrap();
        assert_eq!(direct.0 + direct.1, 3);
        assert_eq!(report(&m2, "rm", pause).await.unwrap(), direct);
    }
    for member in [&m1, &m2] {
        let status = report(member, "nobody", Duration::ZERO).await.unwrap_err();
        assert_eq!(reason_of(&status), "RM_NOT_REGISTERED");
    }
    // A deadline while the client still sends.
    for member in [&m1, &m2] {
        let mut client = MetricsServiceClient::new(member.channel().await);
        let (sender, messages) = mpsc::channel(1);
        sender.send(reports("rm")).await.unwrap();
        let mut request = Request::new(ReceiverStream::new(messages));
        request.set_timeout(Duration::from_millis(300));
        let begun = Instant::now();
        let status = client.report_utilization(request).await.unwrap_err();
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        assert_eq!(status.code(), EXPIRED, "{status:?}");
    }
}

/// Reports these messages, and returns the refusal.
async fn refusal(
    member: &Service,
    messages: Vec<v1::UtilizationReports>,
) -> (Code, String, String) {
    let mut client = MetricsServiceClient::new(member.channel().await);
    let summary = client.report_utilization(tokio_stream::iter(messages));
    let status = timeout(PATIENCE, summary).await.expect("an answer").unwrap_err();
    (status.code(), reason_of(&status), status.message().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_reports_are_refused_at_any_member() {
    const MIB: usize = 1 << 20;
    let Some(bed) = Bed::new().await else { return };
    let [m1, m2, m3] = bed.three().await;
    assert_eq!(register(&m1, "rm", PROOF).await.unwrap(), 1);
    let _rm = served(&m1, "rm").await;
    // More than a message of the service, and more than any message may have.
    for bytes in [9 * MIB, 65 * MIB] {
        let report = si::UtilizationReport { id: "x".repeat(bytes), ..Default::default() };
        let messages = || {
            let (rm_id, reports) = ("rm".to_owned(), vec![report.clone()]);
            vec![v1::UtilizationReports { rm_id, reports, timestamp_nano: 1 }]
        };
        let direct = refusal(&m1, messages()).await;
        assert_eq!(direct.0, Code::OutOfRange, "{direct:?}");
        assert_eq!(refusal(&m2, messages()).await, direct);
    }

    // A stream belongs to one resource manager, wherever it comes in.
    assert_eq!(register(&m2, "other", PROOF).await.unwrap(), 1);
    let _other = served(&m2, "other").await;
    for member in [&m1, &m2, &m3] {
        let (code, reason, text) =
            refusal(member, vec![reports("rm"), reports(""), reports("other")]).await;
        assert_eq!((code, &*reason), (Code::InvalidArgument, "RM_ID_MISMATCH"), "{text}");
        assert!(text.contains("`rm`") && text.contains("`other`"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_follow_an_rm_that_has_just_moved() {
    let Some(bed) = Bed::new().await else { return };
    // Renewals every two seconds, which read the claims.
    let members = ["m1", "m2", "m3"].map(|id| bed.start_with(id, &[("CLUSTER__LEASE", "10s")]));
    for member in &members {
        until_ready(member).await;
    }
    let [m1, m2, m3] = members;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(register(&m1, "rm", PROOF).await.unwrap(), 1);
    let former = served(&m1, "rm").await;
    let list = async |member: &Service| {
        let mut admin = AdminServiceClient::new(member.channel().await);
        let of_rm = v1::ListNodesRequest { rm_id: "rm".to_owned(), ..Default::default() };
        admin.list_nodes(of_rm).await.map(|nodes| nodes.into_inner().nodes.len())
    };
    let path = "/ws/v1/partition/%5Brm%5Ddefault/nodes";
    // All of them know the owner now.
    sleep(Duration::from_millis(2_500)).await;
    assert_eq!(list(&m3).await.unwrap(), 1);
    assert_eq!(register(&m2, "rm", PROOF).await.unwrap(), 2);
    let _rm = Rm::open(m2.client().await, "rm").await;
    former.until("the end of the stream", |seen| seen.end("allocation").is_some()).await;
    // It has reported nothing yet, and nobody has read the claims again.
    for member in [&m3, &m1] {
        let known = list(member).await.map_err(|status| reason_of(&status));
        assert_eq!(known, Ok(0), "{}", member.grpc);
        let nodes = member.http("GET", path, &[], "").await;
        assert_eq!(nodes.status, 200, "{}: {nodes:?}", member.grpc);
    }
    assert_eq!(report(&m3, "rm", Duration::ZERO).await.unwrap(), (0, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_has_just_begun_gets_its_calls() {
    let Some(bed) = Bed::new().await else { return };
    // Renewals every four seconds, which read the members.
    let start = |id| bed.start_with(id, &[("CLUSTER__LEASE", "20s")]);
    // The first one knows no other in most runs, and the second only the first.
    let members = [start("m1"), start("m2")];
    for member in &members {
        until_ready(member).await;
    }
    let m3 = start("m3");
    until_ready(&m3).await;
    assert_eq!(register(&m3, "rm", None).await.unwrap(), 1);
    assert_eq!(register(&members[0], "rm", None).await.unwrap(), 2);
    for member in &members {
        assert_eq!(report(member, "rm", Duration::ZERO).await.unwrap(), (0, 3), "{}", member.grpc);
    }
}

/// The answer to a call, as it arrives.
async fn answer_to(
    member: &Service,
    path: &str,
    message: &impl prost::Message,
) -> http::Response<Body> {
    let endpoint = Endpoint::from_shared(format!("http://{}", member.grpc)).unwrap();
    // The largest part of an answer that is not read.
    let endpoint = endpoint.initial_stream_window_size(64 << 10);
    let channel = endpoint.connect().await.unwrap();
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let framed = [&[0][..], &length, &message].concat();
    let body = Body::new(axum::body::Body::from(framed));
    let request = http::Request::post(path).header("content-type", "application/grpc");
    let request = request.header("te", "trailers").body(body).unwrap();
    channel.oneshot(request).await.unwrap()
}

/// The bytes and the trailers of a body.
async fn read(mut body: Body) -> (Vec<u8>, HeaderMap) {
    let (mut bytes, mut trailers) = (Vec::new(), HeaderMap::new());
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match frame.unwrap().into_data() {
            Ok(data) => bytes.extend_from_slice(&data),
            Err(frame) => trailers = frame.into_trailers().unwrap(),
        }
    }
    (bytes, trailers)
}

fn without_date(mut headers: HeaderMap) -> HeaderMap {
    headers.remove("date");
    headers
}

/// A node with so many bytes of attributes.
fn heavy(id: &str, bytes: usize) -> si::NodeInfo {
    let mut node = node(id, 1_000, 1);
    node.attributes.insert("filler".to_owned(), "x".repeat(bytes));
    node
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_the_same_bytes_and_slow_readers_hold_nobody_up() {
    const MIB: usize = 1 << 20;
    let Some(bed) = Bed::new().await else { return };
    let [m1, m2, _m3] = bed.three().await;
    assert_eq!(register(&m1, "rm", PROOF).await.unwrap(), 1);
    let ids: Vec<_> = (0..5_000).map(|number| format!("{number:01000}")).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let rm = served(&m1, "rm").await;
    let _rm = rm.with_nodes(&ids).await;
    let path = "/monoceros.v1.AdminService/ListNodes";
    let rm_id = "rm".to_owned();
    let of_rm = v1::ListNodesRequest { rm_id, page_size: 10_000, ..Default::default() };
    let nobody = v1::ListNodesRequest { rm_id: "nobody".to_owned(), ..Default::default() };
    for request in [&of_rm, &nobody] {
        let (direct, through) =
            (answer_to(&m1, path, request).await, answer_to(&m2, path, request).await);
        let heads = [&direct, &through].map(|it| without_date(it.headers().clone()));
        assert_eq!(heads[0], heads[1]);
        let (direct, through) = (read(direct.into_body()).await, read(through.into_body()).await);
        assert!(direct.0 == through.0, "{} and {} bytes", direct.0.len(), through.0.len());
        assert_eq!(direct.1, through.1);
    }

    // Thirty clients that do not read some 5 MiB each.
    let before = m2.memory();
    let mut unread = Vec::new();
    for _ in 0..30 {
        unread.push(answer_to(&m2, path, &of_rm).await);
    }
    sleep(Duration::from_secs(1)).await;
    let grown = m2.memory().saturating_sub(before);
    assert!(grown < 32 * MIB, "{} MiB", grown / MIB);
    // Others use the same connection between the members.
    let other = Rm::open(m2.client().await, "rm").await;
    other.hello().await;
    timeout(SOON, is_allocated(&other, "beside")).await.expect("an allocation");
    let (bytes, _) = read(unread.remove(0).into_body()).await;
    assert!(bytes.len() > 5 * MIB, "{}", bytes.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_have_the_same_bound_at_any_member() {
    const MIB: usize = 1 << 20;
    let Some(bed) = Bed::new().await else { return };
    let [m1, m2, _m3] = bed.three().await;
    assert_eq!(register(&m1, "rm", PROOF).await.unwrap(), 1);
    let send = async |member: &Service, bytes: usize| {
        let nodes = vec![heavy("big", bytes)];
        let message = si::NodeRequest { nodes, rm_id: "rm".to_owned(), ..Default::default() };
        let mut client = member.client().await;
        let sent = async {
            let mut answers = client.update_node(tokio_stream::once(message)).await?.into_inner();
            let mut n_answered = 0;
            while let Some(answer) = answers.message().await? {
                n_answered += answer.accepted.len() + answer.rejected.len();
            }
            Ok(n_answered)
        };
        timeout(PATIENCE, sent).await.expect("an answer").map_err(|status: Status| {
            (status.code(), reason_of(&status), status.message().to_owned())
        })
    };
    assert_eq!(send(&m2, 63 * MIB).await, Ok(1));
    let refused = send(&m1, 65 * MIB).await.unwrap_err();
    assert_eq!(send(&m2, 65 * MIB).await.unwrap_err(), refused);
}

/// The open streams of the RM at its owner.
async fn open_streams(owner: &Service) -> Vec<String> {
    let sessions = owner.http("GET", "/ws/v1/sessions", &[], "").await.json();
    let open = sessions["sessions"][0]["openStreams"].as_array().cloned().unwrap_or_default();
    open.iter().map(|kind| kind.as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_ends_its_stream_at_the_owner() {
    let Some(bed) = Bed::new().await else { return };
    let [m1, m2, _m3] = bed.three().await;
    assert_eq!(register(&m1, "rm", PROOF).await.unwrap(), 1);
    // The connection stays open.
    let socket = TcpStream::connect(m2.grpc).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    let path = format!("http://{}/monoceros.si.v1.Scheduler/UpdateNode", m2.grpc);
    let request = http::Request::post(path).header("content-type", "application/grpc");
    let request = request.header("te", "trailers").header("x-si-rm-id", "rm").body(()).unwrap();
    let (answer, mut messages) =
        client.ready().await.unwrap().send_request(request, false).unwrap();
    let answer = answer.await.unwrap();
    assert_eq!(answer.headers().get("x-si-session").unwrap(), "1");
    assert_eq!(open_streams(&m1).await.len(), 1);
    messages.send_reset(h2::Reason::CANCEL);
    let ended = async {
        while !open_streams(&m1).await.is_empty() {
            sleep(LEASE / 100).await;
        }
    };
    timeout(SOON, ended).await.expect("the end of the stream");
    // Nor does a stream outlive a deadline that passes before the owner has the first message.
    let (_sender, messages) = mpsc::channel::<si::NodeRequest>(1);
    let mut request = Request::new(ReceiverStream::new(messages));
    request.set_timeout(Duration::from_millis(20));
    let status = m2.client().await.update_node(request).await.unwrap_err();
    assert_eq!(status.code(), EXPIRED, "{status:?}");
}
