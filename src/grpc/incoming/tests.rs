//! Calls at a member of a cluster that serves nothing, with fakes of its service and of the owner.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::{self, FutureExt as _};
use futures::stream::{self, StreamExt as _};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use prost::Message as _;
use tokio::time::sleep;
use tower::service_fn;

use super::*;
use crate::grpc::REASON_TRAILER;
use crate::grpc::members::ForwardedBy;
use crate::grpc::routing::{GATHER_PATIENCE, OwnerSource, Remote, Route, name_rm};
use crate::settings::{Flags, Settings};

const REPORTS: &str = "/monoceros.v1.MetricsService/ReportUtilization";

/// Calls that the fakes have got.
#[derive(Default)]
struct Log {
    served: AtomicUsize,
    forwarded: AtomicUsize,
    /// Bytes of the request bodies at the owner.
    bytes: Mutex<Vec<usize>>,
}

impl Log {
    fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }

    fn forwarded(&self) -> usize {
        self.forwarded.load(Ordering::Relaxed)
    }
}

/// The owner of everything.
struct Owner(Arc<Log>);

impl Remote for Owner {
    fn id(&self) -> &'static str {
        "owner"
    }

    fn grpc(&self) -> &'static str {
        "owner:50051"
    }

    fn send(
        &self,
        request: Request<Body>,
        _: &Identity,
    ) -> future::BoxFuture<'static, Result<Response<Body>, Status>> {
        self.0.forwarded.fetch_add(1, Ordering::Relaxed);
        let log = Arc::clone(&self.0);
        tokio::spawn(async move {
            let body = axum::body::Body::new(request.into_body());
            if let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await {
                locked(&log.bytes).push(bytes.len());
            }
        });
        async { Ok(Response::new(Body::empty())) }.boxed()
    }
}

/// A cluster whose only resource manager is served by the owner.
struct Cluster(Arc<Log>);

impl Routing for Cluster {
    fn others(&self) -> Vec<Arc<dyn Remote>> {
        vec![Arc::new(Owner(Arc::clone(&self.0)))]
    }

    fn resource_managers(&self) -> Vec<String> {
        vec!["rm".to_owned()]
    }

    fn serves(&self, _: &str) -> bool {
        false
    }

    fn route<'a>(&'a self, _: &'a str, _: OwnerSource) -> future::BoxFuture<'a, Route> {
        let owner = Owner(Arc::clone(&self.0));
        async { Route::To(Arc::new(owner)) }.boxed()
    }

    fn claim_owner<'a>(&'a self, _: &'a str) -> future::BoxFuture<'a, Option<String>> {
        async { Some("owner".to_owned()) }.boxed()
    }
}

/// The service of this member: it makes registrations at the owner, and reads streams to their end.
async fn serve(log: Arc<Log>, request: Request<Body>) -> Response<Body> {
    log.served.fetch_add(1, Ordering::Relaxed);
    let passable = request.extensions().get::<PassableCall>().cloned();
    let messages = Messages::taken_from(request.extensions());
    let is_registration = request.uri().path().ends_with(REGISTRATION);
    if let Some(call) = passable.filter(|_| is_registration) {
        let _ = call.make_at(&Owner(log), GATHER_PATIENCE).await;
    }
    let Some(mut messages) = messages else { return Response::new(Body::empty()) };
    loop {
        match messages.message().await {
            Ok(Some(_)) => {}
            Ok(None) => return Response::new(Body::empty()),
            Err(broken) => return Status::from(StreamEnd::from(broken)).into_http(),
        }
    }
}

/// This member, with room for so many calls.
fn member(
    log: &Arc<Log>,
    most_calls: usize,
) -> impl Service<
    Request<Body>,
    Response = Response<Body>,
    Error = Infallible,
    Future = BoxFuture<Response<Body>, Infallible>,
> + use<> {
    let settings = Settings::load(None, &Flags::default()).unwrap();
    let mut common = Common::new(&settings.grpc, &settings.limits);
    common.calls = Arc::new(OpenCalls::new(most_calls));
    let routing: Arc<dyn Routing> = Arc::new(Cluster(Arc::clone(log)));
    let log = Arc::clone(log);
    let inner = service_fn(move |request: Request<Body>| {
        let log = Arc::clone(&log);
        async move { Ok::<_, Infallible>(serve(log, request).await) }
    });
    IncomingLayer { common: Arc::new(common), routing: Some(routing) }.layer(inner)
}

fn request(path: &'static str, body: impl Into<axum::body::Body>) -> Request<Body> {
    let mut request = Request::new(Body::new(body.into()));
    *request.uri_mut() = path.parse().unwrap();
    request.extensions_mut().insert(Identity::anybody());
    request
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&head(message.len())[..], message].concat()
}

/// A report of so many bytes and some more.
fn report(rm: &str, bytes: usize) -> Vec<u8> {
    let report = si::UtilizationReport { id: "x".repeat(bytes), ..Default::default() };
    let rm_id = rm.to_owned();
    let reports = v1::UtilizationReports { rm_id, reports: vec![report], timestamp_nano: 1 };
    framed(&reports.encode_to_vec())
}

fn code(response: &Response<Body>) -> Option<&str> {
    response.headers().get("grpc-status").and_then(|code| code.to_str().ok())
}

#[tokio::test(start_paused = true)]
async fn a_forwarded_call_is_never_forwarded_again() {
    let of_rm = si::NodeRequest { rm_id: "rm".to_owned(), ..Default::default() };
    let nodes = v1::ListNodesRequest { rm_id: "rm".to_owned(), ..Default::default() };
    for (path, message, is_named) in [
        ("/si.v1.Scheduler/UpdateNode", framed(&of_rm.encode_to_vec()), true),
        (REPORTS, report("rm", 1), true),
        ("/monoceros.v1.AdminService/ListNodes", framed(&nodes.encode_to_vec()), true),
        ("/monoceros.v1.AdminService/ListSessions", framed(&[]), false),
        ("/si.v1.Scheduler/RegisterResourceManager", framed(&[]), false),
    ] {
        let log = Arc::default();
        member(&log, 64).call(request(path, message.clone())).await.unwrap();
        assert_eq!(log.forwarded(), 1, "{path} of a client");

        let log = Arc::default();
        let mut request = request(path, message);
        request.extensions_mut().insert(ForwardedBy("m-1/0f".to_owned()));
        if is_named {
            name_rm(request.headers_mut(), "rm");
        }
        let response = member(&log, 64).call(request).await.unwrap();
        assert_eq!(log.forwarded(), 0, "{path} of a member");
        let reason = response.headers().get(REASON_TRAILER);
        assert_eq!(reason.is_some_and(|reason| reason == "NOT_OWNER"), is_named, "{path}");
        assert_eq!(log.served(), usize::from(!is_named), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn reports_are_forwarded_only_by_a_first_message_that_was_read() {
    for (sent, expected, is_forwarded) in [
        (vec![7, 0, 0, 0, 0], Some("13"), false),
        (vec![1, 0, 0, 0, 0], Some("13"), false),
        (vec![0, 0xff, 0xff, 0xff, 0xff], Some("11"), false),
        (vec![0, 0, 0, 0, 9, 1], Some("13"), false),
        (vec![], None, false),
        (report("rm", 1), None, true),
        (report("", 1), None, true),
        ([report("", 1), report("rm", 100 << 10)].concat(), None, true),
    ] {
        let (log, length) = (Arc::default(), sent.len());
        let response = member(&log, 64).call(request(REPORTS, sent)).await.unwrap();
        assert_eq!(code(&response), expected, "{length} bytes");
        let counts = (log.forwarded(), log.served());
        assert_eq!(counts, (usize::from(is_forwarded), usize::from(!is_forwarded)));
        sleep(Duration::from_secs(1)).await;
        let bytes = if is_forwarded { vec![length] } else { Vec::new() };
        assert_eq!(*locked(&log.bytes), bytes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_report_that_comes_late_is_not_lost() {
    // A large one, longer than a stream may take to name its resource manager; and a small one.
    for (sent, piece, pause) in [(report("rm", 100 << 10), 20 << 10, 4), (report("", 9), 64, 15)] {
        let (log, length) = (Arc::default(), sent.len());
        let pieces: Vec<_> = sent.chunks(piece).map(Bytes::copy_from_slice).collect();
        let pieces = stream::iter(pieces).then(move |piece| async move {
            sleep(Duration::from_secs(pause)).await;
            Ok::<_, Infallible>(piece)
        });
        let body = axum::body::Body::from_stream(pieces);
        let response = member(&log, 64).call(request(REPORTS, body)).await.unwrap();
        assert_eq!((code(&response), log.forwarded(), log.served()), (None, 1, 0));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(*locked(&log.bytes), [length]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_reports_that_is_turned_away_ends_so() {
    let log = Arc::default();
    // One of them may wait.
    let mut member = member(&log, 2);
    let mut waiting = || {
        let body = axum::body::Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        tokio::spawn(member.call(request(REPORTS, body)))
    };
    let first = waiting();
    sleep(Duration::from_secs(1)).await;
    let second = waiting();
    let response = first.await.unwrap().unwrap();
    assert_eq!(code(&response), Some("8"));
    assert_eq!(response.headers().get(REASON_TRAILER).unwrap(), "LIMIT_STREAMS");
    assert_eq!((log.forwarded(), log.served()), (0, 0));
    second.abort();
}
