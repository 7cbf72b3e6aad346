//! The edge for other members of the cluster: the services of the gRPC edge and the paths of REST,
//! for callers that another member has identified.
//!
//! # Trust
//! Whoever reaches these services may name any caller. So a connection needs a certificate that
//! proves a pinned name, or the listener is on a loopback address (`cluster.tls.names`).
//!
//! # Invariants
//! * A request without the name of the member that sent it, and without a caller, is refused.
//! * A request is answered here, and never passed on.
//! * A request for another incarnation of this member is refused. A process that was started again
//!   may have the address of its former self, whose resource managers it does not serve.
//! * A connection to a member that has sent nothing for a second is closed.

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::http::header::CONTENT_TYPE;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpConnectInfo;
use tonic::{Code, Status};
use tower::{Layer, Service, ServiceExt as _};
use tracing::warn;

use super::end::with_reason;
use super::incoming::IncomingLayer;
use super::rights::RightsLayer;
use super::routing::{NOT_OWNER, Routing, misdirected};
use super::windows::Windows;
use super::{
    FORWARDED_HEADER, FORWARDED_RM_HEADER, FORWARDED_TO_HEADER, MAX_FAULTY_STREAMS, REASON_TRAILER,
};
use crate::connections::{Calls, Connections};
use crate::identity::Identity;
use crate::identity::certificate::Name;
use crate::identity::layer::Peer;
use crate::identity::passed::CALLER_HEADER;

/// Time between two pings of connections between members.
pub(crate) const PING_EVERY: Duration = Duration::from_millis(200);
/// Time within which a ping has to be answered: a member is silent for a second at most.
pub(crate) const PING_PATIENCE: Duration = Duration::from_millis(800);

/// Reason of a member that has another incarnation than the one that a request is for.
const OTHER_INCARNATION: &str = "OTHER_INCARNATION";
/// Streams on a connection between members for which the windows are made. More are possible.
const STREAMS: NonZeroU32 = NonZeroU32::new(4_096).expect("not zero");
/// Largest headers of a request, in bytes: those of a client, and its rights.
const HEADER_BYTES: u32 = 256 << 10;

/// Returns the windows of a stream and of a connection between members, in bytes.
pub(crate) fn member_windows() -> (u32, u32) {
    let windows = Windows::new(STREAMS);
    (windows.stream, windows.connection)
}

/// The edge for other members.
#[derive(Debug)]
pub struct MembersEdge {
    /// Their connections.
    pub connections: Connections,
    /// Names of which a member's certificate has to prove one. `None` without TLS.
    pub names: Option<Arc<[Name]>>,
    /// The paths of REST.
    pub rest: Router,
}

/// The member that sent a request, as an extension of the request: `MEMBER/INCARNATION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedBy(pub String);

/// Serves other members until `shutdown` is cancelled.
pub(super) async fn serve(
    edge: MembersEdge,
    routes: Routes,
    incoming: IncomingLayer,
    routing: Option<Arc<dyn Routing>>,
    shutdown: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let MembersEdge { connections, names, rest } = edge;
    let connections = connections.speaking_http_2().into_stream();
    let (stream_window, connection_window) = member_windows();
    Server::builder()
        .initial_stream_window_size(stream_window)
        .initial_connection_window_size(connection_window)
        .http2_keepalive_interval(Some(PING_EVERY))
        .http2_keepalive_timeout(Some(PING_PATIENCE))
        .http2_max_header_list_size(HEADER_BYTES)
        .max_concurrent_streams(None)
        .http2_max_local_error_reset_streams(Some(MAX_FAULTY_STREAMS))
        .layer(PassedCallerLayer(names))
        .layer(RestLayer { rest, routing })
        .layer(RightsLayer::of_members())
        .layer(incoming)
        .add_routes(routes)
        .serve_with_incoming_shutdown(connections, shutdown.cancelled_owned())
        .await
}

/// Attaches the caller that another member has identified, in place of
/// [`IdentityLayer`](crate::identity::layer::IdentityLayer).
#[derive(Clone, Debug)]
struct PassedCallerLayer(Option<Arc<[Name]>>);

/// A service behind the [`PassedCallerLayer`].
#[derive(Clone, Debug)]
struct ForPassedCaller<S> {
    names: Option<Arc<[Name]>>,
    inner: S,
}

impl<S> Layer<S> for PassedCallerLayer {
    type Service = ForPassedCaller<S>;

    fn layer(&self, inner: S) -> ForPassedCaller<S> {
        ForPassedCaller { names: self.0.clone(), inner }
    }
}

impl<S> Service<Request<Body>> for ForPassedCaller<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match accept(&mut request, self.names.as_deref()) {
            Ok(()) => Box::pin(self.inner.call(request)),
            Err(why) => {
                let from = request.extensions().get::<Peer>().map(|peer| peer.address);
                warn!(?from, why, "call of another member refused");
                let refused = refused(request.headers(), why);
                Box::pin(async { Ok(refused) })
            }
        }
    }
}

/// The answer to a request that is refused: clients of gRPC show only the text of a status.
fn refused(headers: &HeaderMap, why: &str) -> Response<Body> {
    if is_grpc(headers) {
        let text =
            format!("this listener is for members of the cluster, and refuses the call: {why}");
        return Status::new(Code::PermissionDenied, text).into_http();
    }
    let mut refused = Response::new(Body::empty());
    *refused.status_mut() = StatusCode::FORBIDDEN;
    refused
}

/// Attaches the caller to a request of another member. `Err` says why the request is refused.
fn accept(request: &mut Request<Body>, names: Option<&[Name]>) -> Result<(), &'static str> {
    let peer = request.extensions().get::<Peer>();
    if let Some(names) = names {
        let certificate = peer.and_then(|peer| peer.certificate.as_deref());
        if !certificate.is_some_and(|certificate| certificate.prove_one_of(names)) {
            return Err("its certificate proves none of `cluster.tls.names`");
        }
    }
    let address = peer.map(|peer| peer.address);
    let sender = request.headers_mut().remove(FORWARDED_HEADER);
    let sender = sender.as_ref().and_then(|sender| sender.to_str().ok());
    let sender = sender.ok_or("it does not say which member sent it")?.to_owned();
    let caller = request.headers_mut().remove(CALLER_HEADER);
    let caller = caller.as_ref().and_then(Identity::from_header);
    let caller = caller.ok_or("it does not say for whom it was sent")?;
    if let Some(address) = caller.address().or(address) {
        // The connection carries the calls of many clients: none of them may close it, or count
        // its calls with those of others.
        let (calls, cut) = (Calls::default(), CancellationToken::new());
        let peer = Peer { address, certificate: None, is_spare: false, calls, cut };
        request.extensions_mut().insert(peer);
        let connection = TcpConnectInfo { local_addr: None, remote_addr: Some(address) };
        request.extensions_mut().insert(connection);
    }
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(ForwardedBy(sender));
    Ok(())
}

/// Passes requests that are no calls of gRPC to REST, unless they are about a resource manager that
/// a third member serves. Refuses all requests for another incarnation of this member.
#[derive(Clone)]
struct RestLayer {
    rest: Router,
    routing: Option<Arc<dyn Routing>>,
}

/// A service behind the [`RestLayer`].
#[derive(Clone)]
struct OrRest<S> {
    layer: RestLayer,
    inner: S,
}

impl<S> Layer<S> for RestLayer {
    type Service = OrRest<S>;

    fn layer(&self, inner: S) -> OrRest<S> {
        OrRest { layer: self.clone(), inner }
    }
}

impl<S> Service<Request<Body>> for OrRest<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let routing = self.layer.routing.as_deref();
        if let Some(refused) = routing.and_then(|it| misaddressed(it, request.headers())) {
            return Box::pin(async { Ok(refused) });
        }
        if is_grpc(request.headers()) {
            return Box::pin(self.inner.call(request));
        }
        let RestLayer { rest, routing } = self.layer.clone();
        Box::pin(async move {
            if let Some(routing) = &routing
                && misdirected(&**routing, request.headers()).await.is_some()
            {
                return Ok(misdirected_request(NOT_OWNER));
            }
            let answered = rest.oneshot(request.map(axum::body::Body::new)).await?;
            Ok(answered.map(Body::new))
        })
    }
}

/// The answer to a request for another incarnation of this member, which does not serve the resource
/// manager that it names, if any. `None`: the request is for this incarnation, or for any.
fn misaddressed(routing: &dyn Routing, headers: &HeaderMap) -> Option<Response<Body>> {
    let named = headers.get(FORWARDED_TO_HEADER)?.to_str().unwrap_or_default();
    if routing.is_incarnation(named) {
        return None;
    }
    let names_rm = headers.contains_key(FORWARDED_RM_HEADER);
    let reason = if names_rm { NOT_OWNER } else { OTHER_INCARNATION };
    if !is_grpc(headers) {
        return Some(misdirected_request(reason));
    }
    let text = "the call is for another incarnation of this member of the cluster";
    Some(with_reason(Code::Unavailable, reason, text).into_http())
}

/// Whether a member answered that it has another incarnation than the one that the request is for.
#[cfg(feature = "cluster")]
pub(crate) fn is_other_incarnation<B>(response: &Response<B>) -> bool {
    response.headers().get(REASON_TRAILER).is_some_and(|value| value == OTHER_INCARNATION)
}

/// The answer to a request of REST that another member, or another incarnation, has to answer.
fn misdirected_request(reason: &'static str) -> Response<Body> {
    let mut refused = Response::new(Body::empty());
    *refused.status_mut() = StatusCode::MISDIRECTED_REQUEST;
    refused.headers_mut().insert(REASON_TRAILER, HeaderValue::from_static(reason));
    refused
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tower::service_fn;

    use super::*;
    use crate::grpc::routing::{OwnerSource, Remote, Route};

    /// A member of the incarnation `0f`, which serves nothing.
    struct Alone;

    impl Routing for Alone {
        fn others(&self) -> Vec<Arc<dyn Remote>> {
            Vec::new()
        }

        fn is_incarnation(&self, incarnation: &str) -> bool {
            incarnation == "0f"
        }

        fn resource_managers(&self) -> Vec<String> {
            Vec::new()
        }

        fn serves(&self, _: &str) -> bool {
            false
        }

        fn route<'a>(&'a self, _: &'a str, _: OwnerSource) -> BoxFuture<'a, Route> {
            async { Route::Here }.boxed()
        }

        fn claim_owner<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<String>> {
            async { None }.boxed()
        }
    }

    #[tokio::test]
    async fn a_request_for_another_incarnation_is_refused() {
        let inner =
            service_fn(async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::empty())));
        let rest = Router::new().fallback(|| async { "here" });
        let routing: Arc<dyn Routing> = Arc::new(Alone);
        let mut service = RestLayer { rest, routing: Some(routing) }.layer(inner);
        let (to, rm) = (FORWARDED_TO_HEADER, (FORWARDED_RM_HEADER, "rm"));
        let cases = [
            (vec![], None),
            (vec![(to, "0f")], None),
            (vec![(to, "0f"), rm], None),
            (vec![(to, "0e")], Some(OTHER_INCARNATION)),
            (vec![(to, "0e"), rm], Some(NOT_OWNER)),
        ];
        for (headers, reason) in cases {
            for kind in [None, Some("application/grpc")] {
                let mut request = Request::new(Body::empty());
                for (name, value) in &headers {
                    request.headers_mut().insert(*name, value.parse().unwrap());
                }
                if let Some(kind) = kind {
                    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
                }
                let answer = service.call(request).await.unwrap();
                let shown = answer.headers().get(REASON_TRAILER);
                assert_eq!(shown.map(|it| it.to_str().unwrap()), reason, "{headers:?} {kind:?}");
                let is_refused = Status::from_header_map(answer.headers()).is_some();
                assert_eq!(is_refused, reason.is_some() && kind.is_some());
            }
        }
    }

    #[test]
    fn only_a_request_of_a_member_for_a_caller_is_accepted() {
        let inner = service_fn(async |request: Request<Body>| {
            let caller = Identity::of(request.extensions());
            let is_left = request.headers().contains_key(CALLER_HEADER);
            assert!(!is_left && request.extensions().get::<ForwardedBy>().is_some());
            Ok::<_, Infallible>(Response::new(Body::new(caller.name().to_owned())))
        });
        let answered = |names: Option<&[&str]>, headers: &[(&'static str, &str)]| {
            let names = names.map(|names| names.iter().map(|name| name.parse().unwrap()).collect());
            let mut request = Request::new(Body::empty());
            for (name, value) in headers {
                request.headers_mut().insert(*name, value.parse().unwrap());
            }
            let answer = PassedCallerLayer(names).layer(inner).call(request);
            answer.now_or_never().unwrap().unwrap().status()
        };
        let caller = Identity::anybody().to_header();
        let caller = (CALLER_HEADER, caller.to_str().unwrap());
        let sender = (FORWARDED_HEADER, "m-1/0f");
        assert_eq!(answered(None, &[sender, caller]), StatusCode::OK);
        for headers in [&[sender][..], &[caller], &[sender, (CALLER_HEADER, "root")], &[]] {
            assert_eq!(answered(None, headers), StatusCode::FORBIDDEN);
        }
        let pinned: &[&str] = &["dns=member"];
        assert_eq!(answered(Some(pinned), &[sender, caller]), StatusCode::FORBIDDEN);
    }

    #[test]
    fn a_refused_call_of_grpc_gets_a_status() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc+proto"));
        let answer = refused(&headers, "it does not say which member sent it");
        let status = Status::from_header_map(answer.headers()).unwrap();
        assert_eq!((answer.status(), status.code()), (StatusCode::OK, Code::PermissionDenied));
        let text = "this listener is for members of the cluster, and refuses the call: it does not \
                    say which member sent it";
        assert_eq!(status.message(), text);
    }
}
