//! Incoming requests, from the socket to a message that may be decoded: admission, reading and
//! memory limits.
//!
//! ```text
//! identity ─▶ IncomingLayer ─ a stream ──────▶ stream::open takes its Messages: bind, then decode
//!                           │                └▶ in a cluster also copied to another member
//!                           └ unary request ─▶ read whole, measured, forwarded unchanged
//! ```
//!
//! # Why in front of the generated services
//! These decode a message before it can be checked. Here its length, its list elements and its
//! resource manager are read off the bytes, and memory is bounded for the whole process. So neither
//! a message that is small on the wire nor a thousand announced ones take memory or time from
//! clients with a session.
//!
//! # Invariants
//! * With access rules, no part of a request is read unless its caller is known.
//! * No message is decoded before it was measured, and no message of a stream before it is bound.
//! * The memory of messages in flight is bounded by the settings, whatever clients do.
//! * Health and reflection pass untouched: their own limits are small, and they must answer even
//!   under overload. They do not keep a connection from counting as idle, since anyone may call
//!   them.
//! * A call keeps its connection in use once its message has arrived, a stream once it is bound.
//!
//! Reading order: [`calls`], [`shapes`], [`measure`], [`budget`], [`pace`], [`messages`],
//! [`outgoing`], [`elsewhere`],
//! [`anywhere`].

mod anywhere;
mod budget;
mod calls;
mod elsewhere;
pub(super) mod fuzzing;
mod measure;
mod messages;
mod outgoing;
pub(crate) mod pace;
mod shapes;

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::future::poll_fn;
use hyper::body::Frame;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Extensions, HeaderMap, HeaderValue, Request, Response};
use tonic::codegen::{Body as HttpBody, BoxFuture};
use tower::{Layer, Service};

pub(crate) use self::anywhere::missing_header;
pub(super) use self::messages::{Broken, Charge, Decoded, Messages, RawMessage};

use self::anywhere::{may_go_elsewhere, refuse_misdirected};
use self::budget::Budget;
use self::calls::{Call, CallKind, Caller, OpenCalls};
use self::elsewhere::{Arriving, is_of_member, is_of_one_rm};
use self::measure::Most;
use self::messages::{AT_ONCE_BYTES, check_announced};
use self::outgoing::Outgoing;
use self::shapes::{Method, Shapes};
use super::end::StreamEnd;
use super::routing::{ACCEPT_ENCODING, PassableCall, Routing};
use super::shared::{ENCODING, HEAD_BYTES};
use crate::identity::Identity;
use crate::identity::layer::Peer;
use crate::locked::locked;
use crate::settings::{GrpcSettings, LimitSettings};

/// The end of the path of a registration.
const REGISTRATION: &str = ".Scheduler/RegisterResourceManager";

/// Address used when a call has no peer address.
const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// State that all requests share.
#[derive(Debug)]
pub(super) struct Common {
    shapes: Shapes,
    budget: Budget,
    max_bytes: usize,
    max_items: usize,
    /// How long a body may arrive, or a reply be received, without progress.
    patience: Duration,
    /// How long a stream may be open before it names its resource manager.
    bind_timeout: Duration,
    calls: Arc<OpenCalls>,
}

/// Reads requests in front of the services.
#[derive(Clone)]
pub(super) struct IncomingLayer {
    common: Arc<Common>,
    /// The other members of the cluster.
    routing: Option<Arc<dyn Routing>>,
}

/// A service behind the [`IncomingLayer`].
#[derive(Clone)]
pub(super) struct Incoming<S> {
    common: Arc<Common>,
    routing: Option<Arc<dyn Routing>>,
    inner: S,
}

/// The messages of a stream, as an extension of its request until they are taken.
#[derive(Clone)]
struct PendingMessages(Arc<Mutex<Option<Messages>>>);

/// The only resource manager that the messages of a stream may name, in a cluster with several
/// members. An extension of the request; empty if the first message that names one says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OneRm(pub(super) String);

/// A body of one message: frame head, then bytes.
struct OneMessage {
    head: Option<Bytes>,
    message: Option<Bytes>,
}

impl Common {
    fn new(grpc: &GrpcSettings, limits: &LimitSettings) -> Self {
        Self {
            shapes: Shapes::new(),
            budget: Budget::new(grpc.decoding_bytes.get(), grpc.decoding_bytes_unbound()),
            max_bytes: grpc.max_recv_message_bytes.get(),
            max_items: limits.items_per_message.get(),
            patience: grpc.body_timeout,
            bind_timeout: grpc.bind_timeout,
            calls: Arc::new(OpenCalls::new(grpc.max_streams.get())),
        }
    }
}

impl IncomingLayer {
    pub(super) fn new(
        grpc: &GrpcSettings,
        limits: &LimitSettings,
        routing: Option<Arc<dyn Routing>>,
    ) -> Self {
        Self { common: Arc::new(Common::new(grpc, limits)), routing }
    }
}

impl<S> Layer<S> for IncomingLayer {
    type Service = Incoming<S>;

    fn layer(&self, inner: S) -> Incoming<S> {
        let Self { common, routing } = self.clone();
        Incoming { common, routing, inner }
    }
}

impl<S, B> Service<Request<Body>> for Incoming<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let method = self.common.shapes.method(path);
        let kind =
            if path.ends_with(REGISTRATION) { CallKind::Registration } else { CallKind::Other };
        let next = self.inner.clone();
        // The clone that was polled for readiness must take the call.
        let mut inner = std::mem::replace(&mut self.inner, next);
        let peer = request.extensions().get::<Peer>().cloned();
        let Some(method) = method else {
            let answered = inner.call(request);
            return Box::pin(async move { Ok(answered.await?.map(Body::new)) });
        };
        let common = Arc::clone(&self.common);
        let of_member = is_of_member(&request);
        let routing = self.routing.clone().filter(|_| {
            if method.is_stream {
                is_of_one_rm(path)
            } else {
                !of_member && (kind == CallKind::Registration || may_go_elsewhere(path))
            }
        });
        let of_others = self.routing.clone().filter(|_| of_member && !method.is_stream);
        Box::pin(async move {
            let patience = (!method.is_stream).then_some(common.patience);
            let call = match common.admit(request.extensions()) {
                Ok(call) => call,
                Err(end) => return Ok(Status::from(&end).into_http()),
            };
            if let Some(routing) = routing.clone().filter(|_| method.is_stream) {
                let arriving = Arriving { common, routing, inner, method, call: Arc::clone(&call) };
                let answered = if of_member {
                    arriving.of_member(request).await
                } else {
                    arriving.of_client(request).await
                };
                return Ok(answered.map(|body| Body::new(Outgoing::new(body, call, peer, None))));
            }
            if let Some(refused) = refuse_misdirected(of_others.as_deref(), request.headers()).await
            {
                return Ok(refused);
            }
            let is_passable = routing.is_some();
            let prepared = tokio::select! {
                biased;
                prepared = common.prepare(method, request, &call, is_passable) => prepared,
                end = call.turned_away() => Err(end),
            };
            // The kind of a stream is known only after its first message.
            let prepared = match prepared {
                Ok(prepared) if !method.is_stream => call.answer(kind).map(|()| prepared),
                prepared => prepared,
            };
            let answered = match prepared {
                Ok((request, charge, length)) => {
                    let passable = request.extensions().get::<PassableCall>().cloned();
                    let answered = match (&routing, passable) {
                        (Some(routing), Some(passable)) => {
                            common.somewhere(&**routing, method, inner, request, passable).await
                        }
                        _ => answer(&mut inner, request, length).await?.map(Body::new),
                    };
                    drop(charge);
                    answered
                }
                Err(end) => return Ok(Status::from(&end).into_http()),
            };
            Ok(answered.map(|body| Body::new(Outgoing::new(body, call, peer, patience))))
        })
    }
}

impl Common {
    /// The limits of a message. A stream is bound before anything of it is decoded; a unary request
    /// has no session.
    fn most(&self, method: Method) -> Most {
        let pool = if method.is_stream { &self.budget.bound } else { &self.budget.unbound };
        Most { items: self.max_items, decoded_bytes: pool.bytes() }
    }

    /// Admits a call, unless its caller is unknown or its connection answers health only.
    fn admit(&self, extensions: &Extensions) -> Result<Arc<Call>, StreamEnd> {
        let identity = Identity::of(extensions);
        identity.check_known()?;
        let peer = extensions.get::<Peer>();
        if peer.is_some_and(|peer| peer.is_spare) {
            return Err(StreamEnd::TooManyConnections);
        }
        let address = peer.map_or(NO_ADDRESS, |peer| peer.address);
        let caller = match identity.holder() {
            Some(holder) => Caller::Known(holder.to_owned()),
            None => Caller::Connection(address),
        };
        let of_connection = peer.map(|peer| peer.calls.clone());
        if let Some(calls) = &of_connection {
            calls.mark_authorized();
        }
        Ok(self.calls.begin(caller, of_connection))
    }

    /// Prepares the request for the service. Returns it with its credit and its length. A passable
    /// one can also be sent to another member.
    async fn prepare(
        self: &Arc<Self>,
        method: Method,
        mut request: Request<Body>,
        call: &Arc<Call>,
        is_passable: bool,
    ) -> Result<(Request<Body>, Option<Charge>, usize), StreamEnd> {
        let Some(is_gzip) = is_gzip(request.headers()) else {
            // The service refuses it without reading it.
            return Ok((request, None, 0));
        };
        if !method.is_stream {
            check_announced(request.headers(), self.max_bytes)?;
        }
        request.headers_mut().remove(ENCODING);
        let body = std::mem::take(request.body_mut());
        let call = method.is_stream.then(|| Arc::clone(call));
        let mut messages = Messages::new(self, body, method, is_gzip, call);
        if method.is_stream {
            request.extensions_mut().insert(PendingMessages(Arc::new(Mutex::new(Some(messages)))));
            return Ok((request, None, 0));
        }
        let message = tokio::time::timeout(self.patience * 2, messages.message()).await;
        let message = match message {
            // A large message has a pace of its own; a small one had enough time.
            Err(_) if messages.is_large() => messages.message().await,
            Err(_) => return Err(StreamEnd::TooSlow),
            Ok(message) => message,
        };
        let Some(message) = message.map_err(StreamEnd::from)? else {
            return Ok((request, None, 0));
        };
        let (message, charge) = message.into_bytes().await?;
        let length = message.len();
        if is_passable {
            let passable = PassableCall::new(&request, message.clone());
            request.extensions_mut().insert(passable);
        }
        *request.body_mut() = Body::new(one_message(message));
        Ok((request, Some(charge), length))
    }
}

impl Common {
    /// Has a unary call answered by this member, by another one, or by all.
    async fn somewhere<S, B>(
        &self,
        routing: &dyn Routing,
        method: Method,
        mut inner: S,
        mut request: Request<Body>,
        call: PassableCall,
    ) -> Response<Body>
    where
        S: Service<Request<Body>, Response = Response<B>, Error = Infallible>,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let length = call.message().len();
        if !may_go_elsewhere(request.uri().path()) {
            let Ok(answered) = answer(&mut inner, request, length).await;
            return call.take_answer().unwrap_or_else(|| answered.map(Body::new));
        }
        let here = async |is_list: bool| {
            if is_list {
                request.headers_mut().remove(ACCEPT_ENCODING);
            }
            let Ok(answered) = answer(&mut inner, request, length).await;
            answered.map(Body::new)
        };
        anywhere::answer(self, routing, method, &call, here).await
    }
}

/// A body of one uncompressed message.
pub(super) fn one_message(message: Bytes) -> impl HttpBody<Data = Bytes, Error = Status> {
    OneMessage { head: Some(head(message.len())), message: Some(message) }
}

/// Lets the service answer a request. If decoding takes long, notifies the runtime that the thread
/// blocks.
async fn answer<S: Service<Request<Body>>>(
    inner: &mut S,
    request: Request<Body>,
    length: usize,
) -> Result<S::Response, S::Error> {
    let answered = inner.call(request);
    let has_workers = || Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if length <= AT_ONCE_BYTES || !has_workers() {
        return answered.await;
    }
    let mut answered = std::pin::pin!(answered);
    poll_fn(|cx| block_in_place(|| answered.as_mut().poll(cx))).await
}

/// Whether messages may be gzip. `None` for an encoding that is not supported.
fn is_gzip(headers: &HeaderMap) -> Option<bool> {
    match headers.get(ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Some(false),
        Some(b"gzip") => Some(true),
        Some(_) => None,
    }
}

/// The frame head of an uncompressed message.
fn head(length: usize) -> Bytes {
    let mut head = BytesMut::with_capacity(HEAD_BYTES);
    head.put_u8(0);
    head.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    head.freeze()
}

impl Messages {
    /// The messages of a body that has arrived whole.
    #[cfg(test)]
    pub(super) fn from_body(path: &str, body: Vec<u8>) -> Self {
        let settings = crate::settings::Settings::load(None, &crate::settings::Flags::default());
        let settings = settings.expect("the defaults");
        let common = Arc::new(Common::new(&settings.grpc, &settings.limits));
        let method = common.shapes.method(path).expect("a method");
        let body = Body::new(OneMessage { head: None, message: Some(Bytes::from(body)) });
        Self::new(&common, body, method, false, None)
    }

    /// Takes the messages of a stream out of its request.
    pub(super) fn taken_from(extensions: &Extensions) -> Option<Self> {
        let PendingMessages(messages) = extensions.get()?;
        locked(messages).take()
    }
}

impl HttpBody for OneMessage {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let next = self.head.take().or_else(|| self.message.take());
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[cfg(test)]
mod tests;
