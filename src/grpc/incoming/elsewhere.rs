//! Streams of resource managers in a cluster: served here, or copied to and from the owner.
//!
//! # How a stream finds its member
//! Its metadata or its first message name the resource manager. If another member serves that one,
//! all messages go there: the first one as it was read, the rest byte by byte. The request body is
//! let go only once the owner has accepted the stream, so that a stream that came to the wrong
//! member can still go elsewhere.
//!
//! # When the first message is late
//! Some clients send nothing before they have received the head of the answer. They get one without
//! metadata after [`HEAD_AFTER`], and the stream is still open to go anywhere.
//!
//! # Invariants
//! * Nothing of a message is decoded except the id of the resource manager.
//! * A stream of another member is served here, or refused as `NOT_OWNER`.
//! * A stream whose owner falls silent ends with `UNAVAILABLE`.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper::body::Frame;
use monoceros_proto::v1 as cb;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};
use prost::Message as _;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Body as HttpBody;
use tonic::codegen::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use tonic::codegen::http::request::Parts;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request, Response};
use tower::Service;

use super::{Common, PendingMessages, is_gzip};
use crate::grpc::end::ClaimRefusal;
use crate::grpc::incoming::calls::Call;
use crate::grpc::incoming::messages::Messages;
use crate::grpc::incoming::shapes::Method;
use crate::grpc::members::ForwardedBy;
use crate::grpc::routing::{
    ACCEPT_ENCODING, Remote, Route, Routing, is_not_owner, request_to, wants_redirect,
};
use crate::grpc::shared::ENCODING;
use crate::grpc::{FORWARDED_RM_HEADER, RM_ID_HEADER};
use crate::identity::Identity;
use crate::locked::locked;

/// Time for the first message, after which the head of the answer is sent without the owner's
/// metadata.
const HEAD_AFTER: Duration = Duration::from_millis(50);
/// Number of times that the claim is read again because the member that it named does not serve the
/// resource manager.
const TRIES: usize = 3;
/// Largest first message of a callback stream.
const HELLO_BYTES: usize = 64 << 10;

/// Streams of these paths belong to one resource manager.
const PATHS: [&str; 4] = [
    "/monoceros.si.v1.Scheduler/",
    "/si.v1.Scheduler/",
    "/monoceros.v1.CallbackService/",
    "/monoceros.v1.MetricsService/ReportUtilization",
];

/// Whether streams of this path belong to one resource manager.
pub(super) fn is_of_one_rm(path: &str) -> bool {
    PATHS.iter().any(|beginning| path.starts_with(beginning))
}

/// A stream on its way to a member.
pub(super) struct Arriving<S> {
    pub(super) common: Arc<Common>,
    pub(super) routing: Arc<dyn Routing>,
    pub(super) inner: S,
    pub(super) method: Method,
    pub(super) call: Arc<Call>,
}

/// The answer, or the rest of the way to it.
type Answering = BoxFuture<'static, Response<Body>>;

impl<S, B> Arriving<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Send + 'static,
    S::Future: Send,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Serves a stream of a client.
    pub(super) async fn of_client(self, request: Request<Body>) -> Response<Body> {
        let Some(is_gzip) = is_gzip(request.headers()) else {
            // The service refuses it without reading it.
            return self.serve_here(request).await;
        };
        let (mut parts, body) = request.into_parts();
        let call = Some(Arc::clone(&self.call));
        let mut messages = Messages::new(&self.common, body, self.method, is_gzip, call);
        let named = parts.headers.get(RM_ID_HEADER).and_then(|id| id.to_str().ok());
        if let Some(rm_id) = named.filter(|id| !id.is_empty()).map(ToOwned::to_owned) {
            return self.go(Some(rm_id), parts, messages).await;
        }
        if let Ok(rm_id) = timeout(HEAD_AFTER, rm_of(&mut messages)).await {
            return self.go(rm_id, parts, messages).await;
        }
        // The head of the answer says nothing of compression.
        parts.headers.remove(ACCEPT_ENCODING);
        late(Box::pin(async move {
            let (patience, turned_away) = (self.common.bind_timeout, messages.turned_away());
            let rm_id = tokio::select! {
                biased;
                rm_id = rm_of(&mut messages) => rm_id,
                // The service finds out the same, and ends the stream.
                _ = turned_away => None,
                () = sleep(patience) => None,
            };
            self.go(rm_id, parts, messages).await
        }))
    }

    /// Serves a stream that another member passes on.
    pub(super) async fn of_member(self, request: Request<Body>) -> Response<Body> {
        let named = request.headers().get(FORWARDED_RM_HEADER).cloned();
        let rm_id = named.as_ref().and_then(|id| percent_decode(id.as_bytes()).decode_utf8().ok());
        let Some(rm_id) = rm_id.filter(|rm_id| !self.routing.serves(rm_id)) else {
            return self.serve_here(request).await;
        };
        let owner = match self.routing.route(&rm_id, false).await {
            Route::To(remote) => Some(remote.id().to_owned()),
            Route::Here | Route::Refused(_) => None,
        };
        let member = owner.unwrap_or_else(|| "another".to_owned());
        Status::from(&ClaimRefusal::NotOwner { member, owner: None }).into_http()
    }

    /// Serves the stream at the member that serves the resource manager. `None`: its first message
    /// names none, or there is none.
    async fn go(self, rm_id: Option<String>, parts: Parts, messages: Messages) -> Response<Body> {
        let caller = Identity::of(&parts.extensions);
        // The service refuses a caller without the right.
        let Some(rm_id) = rm_id.filter(|rm_id| caller.check_rm(rm_id).is_ok()) else {
            return self.here(parts, messages).await;
        };
        let (mut outgoing, mut silent) = (None, None);
        let mut messages = Some(messages);
        for attempt in 0..=TRIES {
            let remote = match self.routing.route(&rm_id, attempt > 0).await {
                Route::To(remote) => remote,
                Route::Refused(refusal) => return Status::from(&refusal).into_http(),
                Route::Here => match messages.take() {
                    Some(messages) => return self.here(parts, messages).await,
                    // Its first message has been read for another member.
                    None => return Status::from(&ClaimRefusal::Contended).into_http(),
                },
            };
            let (member, owner) = (remote.id().to_owned(), Some(remote.grpc().to_owned()));
            if silent.as_ref() == Some(&member) {
                return Status::from(&ClaimRefusal::OwnerUnreachable { member }).into_http();
            }
            if wants_redirect(&parts.headers) {
                return Status::from(&ClaimRefusal::NotOwner { member, owner }).into_http();
            }
            let body = outgoing.get_or_insert_with(|| {
                let body = messages.take().map(Messages::into_body).unwrap_or_default();
                Arc::new(Mutex::new(Some(body)))
            });
            match copy(&*remote, &rm_id, &parts, body, &self.call).await {
                Ok(Some(response)) => return response,
                Ok(None) => {}
                // Another member may have claimed the resource manager since.
                Err(_) => silent = Some(member),
            }
        }
        Status::from(&ClaimRefusal::Contended).into_http()
    }

    /// Serves the stream here, with the messages that were read of it.
    async fn here(self, mut parts: Parts, messages: Messages) -> Response<Body> {
        parts.headers.remove(ENCODING);
        parts.extensions.insert(PendingMessages(Arc::new(Mutex::new(Some(messages)))));
        let mut inner = self.inner;
        answered(&mut inner, Request::from_parts(parts, Body::empty())).await
    }

    /// Serves a stream here of which nothing was read.
    async fn serve_here(self, request: Request<Body>) -> Response<Body> {
        let Self { common, mut inner, method, call, .. } = self;
        let turned_away = call.turned_away();
        let prepared = tokio::select! {
            biased;
            prepared = common.prepare(method, request, &call, false) => prepared,
            end = turned_away => Err(end),
        };
        match prepared {
            Ok((request, _, _)) => answered(&mut inner, request).await,
            Err(end) => Status::from(&end).into_http(),
        }
    }
}

/// Copies the stream to another member. `None`: that one does not serve the resource manager.
async fn copy(
    remote: &dyn Remote,
    rm_id: &str,
    parts: &Parts,
    body: &Arc<Mutex<Option<Body>>>,
    call: &Call,
) -> Result<Option<Response<Body>>, Status> {
    let mut headers = parts.headers.clone();
    headers.remove(CONTENT_LENGTH);
    let rm_id = utf8_percent_encode(rm_id, NON_ALPHANUMERIC).to_string();
    if let Ok(rm_id) = HeaderValue::try_from(rm_id) {
        headers.insert(FORWARDED_RM_HEADER, rm_id);
    }
    let (accept, accepted) = oneshot::channel();
    let gated = Gated { gate: Some(accepted), held: Arc::clone(body), body: None };
    let request = request_to(&parts.uri, headers, Body::new(gated));
    let response = remote.send(request, &Identity::of(&parts.extensions)).await?;
    if is_not_owner(&response) {
        return Ok(None);
    }
    call.bind_to_session();
    // Fails if the stream has ended already.
    let _ = accept.send(());
    let member = remote.id().to_owned();
    Ok(Some(response.map(|body| Body::new(Copied { body, member: Some(member) }))))
}

/// Has the service answer.
async fn answered<S, B>(inner: &mut S, request: Request<Body>) -> Response<Body>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Ok(response) = inner.call(request).await;
    response.map(Body::new)
}

/// The resource manager that the first message names. `None` without one.
async fn rm_of(messages: &mut Messages) -> Option<String> {
    let first = messages.peek().await?;
    let named = first.rm_id();
    if !named.is_empty() {
        return Some(named.to_owned());
    }
    if first.len() > HELLO_BYTES || !first.is_small() {
        return None;
    }
    match cb::ShimMessage::decode(first.bytes()).ok()?.body {
        Some(cb::shim_message::Body::Hello(hello)) => Some(hello.rm_id),
        _ => None,
    }
    .filter(|rm_id| !rm_id.is_empty())
}

/// An answer whose head is sent before the stream has found its member.
fn late(answering: Answering) -> Response<Body> {
    let mut response = Response::new(Body::new(Late::Answering(answering)));
    let kind = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// The body of a late answer.
enum Late {
    Answering(Answering),
    Answered(Body),
    /// The answer was a status alone: it follows as trailers.
    Ended(Option<HeaderMap>),
}

impl HttpBody for Late {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            match &mut *self {
                Self::Answering(answering) => {
                    let (parts, body) = ready!(answering.poll_unpin(cx)).into_parts();
                    let is_status = parts.headers.contains_key(Status::GRPC_STATUS);
                    *self = if is_status {
                        let mut trailers = parts.headers;
                        trailers.remove(CONTENT_TYPE);
                        trailers.remove(CONTENT_LENGTH);
                        Self::Ended(Some(trailers))
                    } else {
                        Self::Answered(body)
                    };
                }
                Self::Answered(body) => return Pin::new(body).poll_frame(cx),
                Self::Ended(trailers) => {
                    return Poll::Ready(trailers.take().map(|it| Ok(Frame::trailers(it))));
                }
            }
        }
    }
}

/// A request body that is let go once the other member has accepted the stream.
struct Gated {
    gate: Option<oneshot::Receiver<()>>,
    held: Arc<Mutex<Option<Body>>>,
    body: Option<Body>,
}

impl HttpBody for Gated {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(gate) = &mut self.gate {
            // The stream has gone elsewhere if nobody opens the gate.
            if ready!(gate.poll_unpin(cx)).is_err() {
                return Poll::Ready(None);
            }
            self.gate = None;
            let body = locked(&self.held).take();
            self.body = body;
        }
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }
}

/// The answer of another member. It ends with a status if the connection breaks.
struct Copied {
    body: Body,
    /// The id of the member. `None` after the end.
    member: Option<String>,
}

impl HttpBody for Copied {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.member.is_none() {
            return Poll::Ready(None);
        }
        match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Err(_)) => {
                let member = self.member.take().unwrap_or_default();
                let end = Status::from(&ClaimRefusal::OwnerUnreachable { member });
                let mut trailers = HeaderMap::new();
                let added = end.add_header(&mut trailers);
                Poll::Ready(added.is_ok().then(|| Ok(Frame::trailers(trailers))))
            }
            frame => Poll::Ready(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.member.is_none() || self.body.is_end_stream()
    }
}

/// Whether a request comes from another member.
pub(super) fn is_of_member<B>(request: &Request<B>) -> bool {
    request.extensions().get::<ForwardedBy>().is_some()
}
