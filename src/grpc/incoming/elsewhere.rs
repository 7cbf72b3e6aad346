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
//! # When the answer is one message
//! A service reads all messages before it sends the head of such an answer, and the request body is
//! let go only after a head. So the owner sends a head of its own at once. The first member keeps
//! that until the answer is there, so that the client and its deadline see what the service sends.
//! Such a stream (`ReportUtilization`) need not name its resource manager while there is only one,
//! and may begin at any time. It has one owner, so all its messages belong to one resource manager
//! ([`OneRm`]).
//!
//! # Invariants
//! * A stream goes elsewhere only by a first message that was read, or by its metadata. Any other
//!   one is served here, where its service ends it.
//! * A call that was turned away goes nowhere.
//! * Nothing of a message is decoded except the id of the resource manager.
//! * A stream of another member is served here, or refused as `NOT_OWNER`.
//! * A stream whose owner falls silent ends with `UNAVAILABLE`.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{BoxFuture, poll_fn};
use hyper::body::Frame;
use monoceros_proto::v1 as cb;
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

use super::{Common, OneRm, PendingMessages, is_gzip};
use crate::grpc::RM_ID_HEADER;
use crate::grpc::end::ClaimRefusal;
use crate::grpc::incoming::anywhere::only_rm;
use crate::grpc::incoming::calls::Call;
use crate::grpc::incoming::messages::Messages;
use crate::grpc::incoming::shapes::Method;
use crate::grpc::members::ForwardedBy;
use crate::grpc::routing::{
    ACCEPT_ENCODING, OwnerSource, Remote, Route, Routing, TRIES, is_not_owner, misdirected,
    name_rm, named_rm, request_to, wants_redirect,
};
use crate::grpc::shared::ENCODING;
use crate::identity::{Identity, Right};
use crate::locked::locked;

/// Time for the first message, after which the head of the answer is sent without the owner's
/// metadata.
const HEAD_AFTER: Duration = Duration::from_millis(50);
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

/// What the first message of a stream says.
enum First {
    /// The resource manager has this id.
    Names(String),
    /// It names no resource manager.
    NamesNone,
    /// There is none that can be read in time.
    Missing,
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
            return self.go(First::Names(rm_id), parts, messages).await;
        }
        if let Ok(first) = timeout(HEAD_AFTER, first_of(&mut messages, self.method)).await {
            return self.go(first, parts, messages).await;
        }
        if self.method.is_answered_once {
            return self.go_later(parts, messages).await;
        }
        // The head of the answer says nothing of compression.
        parts.headers.remove(ACCEPT_ENCODING);
        late(Box::pin(self.go_later(parts, messages)))
    }

    /// Waits for the first message, and serves the stream.
    async fn go_later(self, parts: Parts, mut messages: Messages) -> Response<Body> {
        let is_report = self.method.is_answered_once;
        let mut turned_away = pin!(messages.turned_away());
        let mut too_late = pin!(sleep(self.common.bind_timeout));
        // The service of reports waits for the first one, too.
        let mut is_bounded = !is_report;
        let first = loop {
            tokio::select! {
                biased;
                first = first_of(&mut messages, self.method) => break first,
                end = &mut turned_away => {
                    if is_report {
                        return Status::from(&end).into_http();
                    }
                    // The service finds out the same, and ends the stream.
                    break First::Missing;
                }
                () = &mut too_late, if is_bounded => {
                    if !messages.is_large() {
                        break First::Missing;
                    }
                    // A large message has a pace of its own.
                    is_bounded = false;
                }
            }
        };
        self.go(first, parts, messages).await
    }

    /// Serves a stream that another member passes on.
    pub(super) async fn of_member(self, mut request: Request<Body>) -> Response<Body> {
        if let Some(refusal) = misdirected(&*self.routing, request.headers()).await {
            return Status::from(&refusal).into_http();
        }
        if !self.method.is_answered_once {
            return self.serve_here(request).await;
        }
        let rm_id = named_rm(request.headers()).map(Cow::into_owned);
        request.extensions_mut().insert(OneRm(rm_id.unwrap_or_default()));
        // The head of the answer says nothing of compression.
        request.headers_mut().remove(ACCEPT_ENCODING);
        late(Box::pin(self.serve_here(request)))
    }

    /// Serves the stream at the member that serves the resource manager. This member serves one
    /// that has none.
    async fn go(self, first: First, parts: Parts, messages: Messages) -> Response<Body> {
        let caller = Identity::of(&parts.extensions);
        let is_report = self.method.is_answered_once;
        let named = match first {
            First::Names(rm_id) => Ok(Some(rm_id)),
            First::NamesNone if is_report => only_rm(&*self.routing, &caller),
            First::NamesNone | First::Missing => Ok(None),
        };
        let right = if is_report { Right::Act } else { Right::Speak };
        // The service refuses a caller without the right.
        let is_allowed = |rm_id: &String| caller.check(right, rm_id).is_ok();
        let rm_id = match named {
            Ok(rm_id) => rm_id.filter(is_allowed),
            Err(refusal) => return Status::from(refusal).into_http(),
        };
        let Some(rm_id) = rm_id else { return self.here("", parts, messages).await };
        let mut outgoing: Option<Arc<Mutex<Option<Body>>>> = None;
        let mut silent = None;
        let mut messages = Some(messages);
        for attempt in 0..=TRIES {
            let remote = match self.routing.route(&rm_id, OwnerSource::of_try(attempt)).await {
                Route::To(remote) => remote,
                Route::Refused(refusal) => return Status::from(&refusal).into_http(),
                Route::Here => match messages.take() {
                    Some(messages) => return self.here(&rm_id, parts, messages).await,
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
            let body = match messages.take().map(Messages::into_body) {
                Some(Ok(body)) => outgoing.insert(Arc::new(Mutex::new(Some(body)))),
                Some(Err(end)) => return Status::from(&end).into_http(),
                None => outgoing.get_or_insert_default(),
            };
            let copied = tokio::select! {
                biased;
                end = self.call.turned_away() => return Status::from(&end).into_http(),
                copied = copy(&*remote, &rm_id, &parts, body, &self.call) => copied,
            };
            match copied {
                Ok(Some(response)) if self.method.is_answered_once => {
                    return with_beginning(response).await;
                }
                Ok(Some(response)) => return response,
                Ok(None) => {}
                // Another member may have claimed the resource manager since.
                Err(_) => silent = Some(member),
            }
        }
        Status::from(&ClaimRefusal::Contended).into_http()
    }

    /// Serves the stream here, with the messages that were read of it. `rm_id` is empty if nothing
    /// names the resource manager.
    async fn here(self, rm_id: &str, mut parts: Parts, messages: Messages) -> Response<Body> {
        if self.method.is_answered_once {
            parts.extensions.insert(OneRm(rm_id.to_owned()));
        }
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
    name_rm(&mut headers, rm_id);
    let (accept, accepted) = oneshot::channel();
    let gated = Gated { gate: Some(accepted), held: Arc::clone(body), body: None };
    let request = request_to(&parts.uri, headers, Body::new(gated));
    let response = remote.send(request, &Identity::of(&parts.extensions)).await?;
    if is_not_owner(&response) {
        return Ok(None);
    }
    if let Err(end) = call.leave_to_member() {
        return Ok(Some(Status::from(&end).into_http()));
    }
    // Fails if the stream has ended already.
    let _ = accept.send(());
    let member = remote.id().to_owned();
    Ok(Some(response.map(|body| Body::new(Copied { body, member: Some(member) }))))
}

/// Waits for the first part of the body of an answer. If that is a status, the answer has nothing
/// else.
async fn with_beginning(response: Response<Body>) -> Response<Body> {
    let (mut parts, mut body) = response.into_parts();
    match poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        Some(Ok(frame)) => match frame.into_trailers() {
            Ok(trailers) => {
                parts.headers.extend(trailers);
                Response::from_parts(parts, Body::empty())
            }
            Err(frame) => {
                Response::from_parts(parts, Body::new(Begun { frame: Some(frame), body }))
            }
        },
        Some(Err(status)) => status.into_http(),
        None => Response::from_parts(parts, body),
    }
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

/// Waits for the first message, and reads the resource manager that it names.
async fn first_of(messages: &mut Messages, method: Method) -> First {
    let Some(first) = messages.peek().await else { return First::Missing };
    let named = first.rm_id();
    if !named.is_empty() {
        return First::Names(named.to_owned());
    }
    if method.is_answered_once || first.len() > HELLO_BYTES || !first.is_small() {
        return First::NamesNone;
    }
    let message = cb::ShimMessage::decode(first.bytes()).ok().and_then(|message| message.body);
    match message {
        Some(cb::shim_message::Body::Hello(hello)) if !hello.rm_id.is_empty() => {
            First::Names(hello.rm_id)
        }
        _ => First::NamesNone,
    }
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

/// A body of which the first frame was read.
struct Begun {
    frame: Option<Frame<Bytes>>,
    body: Body,
}

impl HttpBody for Begun {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.frame.take() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => Pin::new(&mut self.body).poll_frame(cx),
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
