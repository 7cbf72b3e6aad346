//! The messages of one request, from the frames of its body to measured bytes.
//!
//! # Why not by the library
//! The library reserves memory when a length is announced, decompresses a message as soon as it is
//! complete, and decodes it before its content can be checked. So a client that sends little costs
//! much memory and time, in three ways. Here memory is taken on credit as bytes arrive, large
//! messages are decompressed and measured on a separate thread, and decoding waits until the sender
//! is known.
//!
//! # Invariants
//! * Waiting for a message can be cancelled at any time: the received bytes are kept.
//! * No more of a message is kept than there is credit for, and no worker thread is blocked for
//!   longer than a message of [`AT_ONCE_BYTES`] takes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use futures::FutureExt as _;
use futures::future::{BoxFuture, pending, poll_fn};
use hyper::body::Frame;
use tokio::time::{Instant, timeout_at};
use tonic::body::Body;
use tonic::codegen::Body as HttpBody;
use tonic::codegen::http::HeaderMap;
use tonic::codegen::http::header::CONTENT_LENGTH;
use tonic::{Code, Status};

use self::decompression::{decompressed, decompressed_length};
use self::raw::run_large;
use super::budget::{Credit, Exhausted, FREE_BYTES, Pool};
use super::calls::Call;
use super::measure::{Measure, Most, measure};
use super::pace::Pace;
use super::shapes::{Method, ShapeId};
use super::{Common, head};
use crate::grpc::end::StreamEnd;
use crate::grpc::shared::HEAD_BYTES;

mod decompression;
mod raw;

pub(super) use self::raw::AT_ONCE_BYTES;
pub(in crate::grpc) use self::raw::{Charge, Decoded, RawMessage};

/// Why no more messages follow.
#[derive(Debug)]
pub(in crate::grpc) enum Broken {
    /// The service refuses them.
    Refused(StreamEnd),
    /// The client has disconnected.
    Gone,
}

/// The messages of one request.
pub(in crate::grpc) struct Messages {
    /// `None` while a large message is being received.
    frames: Option<Frames>,
    large: Option<BoxFuture<'static, (Frames, Result<RawMessage, Broken>)>>,
    is_over: bool,
    /// The first message, if it was looked at before it is taken.
    ahead: Option<Result<Option<RawMessage>, Broken>>,
    /// The call. `None` unless the request is a stream.
    call: Option<Arc<Call>>,
}

/// The body, and the bytes read from it.
struct Frames {
    body: Body,
    unread: BytesMut,
    is_gzip: bool,
    shape: ShapeId,
    most: Most,
    pool: Arc<Pool>,
    patience: Duration,
    common: Arc<Common>,
}

/// The next step, given the bytes that were read.
enum Step {
    /// Read more bytes.
    More,
    Message(RawMessage),
    /// A message begins that is received by a future of its own.
    Large(Head),
}

/// The frame head of a message.
#[derive(Clone, Copy)]
struct Head {
    is_compressed: bool,
    length: usize,
}

impl Messages {
    /// The messages of a request; `is_gzip` if its header says so.
    pub(super) fn new(
        common: &Arc<Common>,
        body: Body,
        method: Method,
        is_gzip: bool,
        call: Option<Arc<Call>>,
    ) -> Self {
        let frames = Frames {
            body,
            unread: BytesMut::new(),
            is_gzip,
            shape: method.request,
            most: common.most(method),
            pool: Arc::clone(&common.budget.unbound),
            patience: common.patience,
            common: Arc::clone(common),
        };
        Self { frames: Some(frames), large: None, is_over: false, ahead: None, call }
    }

    /// Whether a large message is being received.
    pub(in crate::grpc) fn is_large(&self) -> bool {
        self.large.is_some()
    }

    /// The stream is bound to a session: later messages use that pool.
    pub(in crate::grpc) fn bound(&mut self) {
        if let Some(frames) = &mut self.frames {
            frames.pool = Arc::clone(&frames.common.budget.bound);
        }
        if let Some(call) = &self.call {
            call.bind_to_session();
        }
    }

    /// Waits until the stream is turned away; a stream of a session never is.
    pub(in crate::grpc) fn turned_away(&self) -> impl Future<Output = StreamEnd> + Send + use<> {
        let turned_away = self.call.as_ref().map(|call| call.turned_away());
        async move {
            match turned_away {
                Some(turned_away) => turned_away.await,
                None => pending().await,
            }
        }
    }

    /// Looks at the first message, which stays the next one. `None` if there is none, or it is
    /// refused.
    pub(super) async fn peek(&mut self) -> Option<&RawMessage> {
        if self.ahead.is_none() {
            self.ahead = Some(self.message().await);
        }
        self.ahead.as_ref()?.as_ref().ok()?.as_ref()
    }

    /// The body again, from the next message on. A message that was looked at is uncompressed.
    /// Fails if that message was refused, so that nothing after it is taken for the whole.
    pub(super) fn into_body(self) -> Result<Body, StreamEnd> {
        let Some(frames) = self.frames else {
            return Err(StreamEnd::Internal(
                "a stream was sent on within a message, through a bug",
            ));
        };
        let (first, credit) = match self.ahead {
            None => (None, None),
            Some(Ok(Some(message))) => {
                let (bytes, credit) = message.into_bytes_as_received();
                (Some(bytes), Some(credit))
            }
            Some(Ok(None)) => return Ok(Body::empty()),
            Some(Err(broken)) => return Err(broken.into()),
        };
        let first = first.into_iter().flat_map(|bytes| [head(bytes.len()), bytes]);
        let read = first.chain([frames.unread.freeze()]).filter(|bytes| !bytes.is_empty());
        let rest = Rest { read: read.collect(), credit, body: frames.body };
        Ok(Body::new(rest))
    }

    /// The next message. `None` once the client has closed its side.
    pub(in crate::grpc) async fn message(&mut self) -> Result<Option<RawMessage>, Broken> {
        poll_fn(|cx| self.poll_message(cx)).await
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<RawMessage>, Broken>> {
        if let Some(ahead) = self.ahead.take() {
            return Poll::Ready(ahead);
        }
        loop {
            if self.is_over {
                return Poll::Ready(Ok(None));
            }
            if let Some(large) = &mut self.large {
                let (frames, message) = ready!(large.poll_unpin(cx));
                (self.frames, self.large) = (Some(frames), None);
                self.is_over = message.is_err();
                return Poll::Ready(message.map(Some));
            }
            let Some(frames) = &mut self.frames else { return Poll::Ready(Ok(None)) };
            let step = match frames.step() {
                Ok(Step::More) => match ready!(frames.poll_more(cx)) {
                    Ok(true) => continue,
                    Ok(false) => Ok(None),
                    Err(broken) => Err(broken),
                },
                Ok(Step::Message(message)) => return Poll::Ready(Ok(Some(message))),
                Ok(Step::Large(head)) => {
                    self.large = self.frames.take().map(|frames| frames.large(head).boxed());
                    continue;
                }
                Err(end) => Err(Broken::Refused(end)),
            };
            self.is_over = true;
            return Poll::Ready(step);
        }
    }
}

impl Frames {
    fn step(&mut self) -> Result<Step, StreamEnd> {
        let Some((head, _)) = self.unread.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(Step::More);
        };
        let head = self.head(*head)?;
        if head.is_compressed || head.length > FREE_BYTES {
            self.unread.advance(HEAD_BYTES);
            return Ok(Step::Large(head));
        }
        if self.unread.len() < HEAD_BYTES + head.length {
            return Ok(Step::More);
        }
        self.unread.advance(HEAD_BYTES);
        let bytes = self.unread.split_to(head.length).freeze();
        let measure = measure(&self.common.shapes, self.shape, &bytes, self.most);
        self.raw(bytes, measure, Credit::none(&self.pool)).map(Step::Message)
    }

    fn head(&self, [flag, length @ ..]: [u8; HEAD_BYTES]) -> Result<Head, StreamEnd> {
        let is_compressed = match flag {
            0 => false,
            1 if self.is_gzip => true,
            1 => {
                return Err(unreadable(
                    "protocol error: received message with compressed-flag but no grpc-encoding was \
                     specified",
                ));
            }
            flag => {
                return Err(unreadable(format!(
                    "protocol error: received message with invalid compression flag: {flag} (valid \
                     flags are 0 and 1)"
                )));
            }
        };
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        check_length(length, self.common.max_bytes)?;
        Ok(Head { is_compressed, length })
    }

    /// Reads more bytes. False at the end of the body.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Broken>> {
        loop {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                // Trailers are ignored.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.unread.extend_from_slice(&data);
                        return Poll::Ready(Ok(true));
                    }
                }
                Some(Err(_)) => return Poll::Ready(Err(Broken::Gone)),
                None if self.unread.is_empty() => return Poll::Ready(Ok(false)),
                None => {
                    let end = unreadable("the stream ended within a message");
                    return Poll::Ready(Err(Broken::Refused(end)));
                }
            }
        }
    }

    async fn large(mut self, head: Head) -> (Self, Result<RawMessage, Broken>) {
        let message = self.collect(head).await;
        (self, message)
    }

    /// Receives a large or compressed message.
    async fn collect(&mut self, head: Head) -> Result<RawMessage, Broken> {
        let mut credit = Credit::none(&self.pool);
        let data = self.bytes(head.length, &mut credit).await?;
        let (common, shape) = (Arc::clone(&self.common), self.shape);
        let (bytes, measure) = if head.is_compressed {
            let length = decompressed_length(&data, common.max_bytes)?;
            credit.cover(length.max(data.len())).await.map_err(refused)?;
            let most = self.most;
            let measured = move |bytes: &[u8]| measure(&common.shapes, shape, bytes, most);
            let decompressed = move || decompressed(&data, length, most, measured);
            run_large(&self.pool, length, decompressed).await??
        } else {
            let (bytes, most) = (Bytes::from(data), self.most);
            let measured = move || {
                let measure = measure(&common.shapes, shape, &bytes, most);
                (bytes, measure)
            };
            run_large(&self.pool, head.length, measured).await?
        };
        self.raw(bytes, measure, credit).map_err(Broken::Refused)
    }

    /// Receives `length` bytes, on credit.
    async fn bytes(&mut self, length: usize, credit: &mut Credit) -> Result<Vec<u8>, Broken> {
        let mut data: Vec<u8> = Vec::new();
        let mut pace = Pace::new(self.patience, Instant::now());
        loop {
            let received = self.unread.len().min(length - data.len());
            let wanted = data.len() + received;
            if wanted > data.capacity() {
                let room = (2 * data.capacity()).max(FREE_BYTES).max(wanted).min(length);
                let began = Instant::now();
                credit.cover(room).await.map_err(refused)?;
                pace.extend(began.elapsed());
                data.reserve_exact(room - data.len());
            }
            data.extend_from_slice(&self.unread[..received]);
            self.unread.advance(received);
            pace.received(received);
            if data.len() == length {
                return Ok(data);
            }
            let more = poll_fn(|cx| self.poll_more(cx));
            let more = timeout_at(pace.next_check(), more).await;
            let now = Instant::now();
            if now >= pace.next_check() && pace.is_too_slow(now, credit.pool().is_short()) {
                return Err(Broken::Refused(StreamEnd::TooSlow));
            }
            if let Ok(more) = more
                && !more?
            {
                let end = unreadable("the stream ended within a message");
                return Err(Broken::Refused(end));
            }
        }
    }

    fn raw(&self, bytes: Bytes, measure: Measure, credit: Credit) -> Result<RawMessage, StreamEnd> {
        let common = &self.common;
        let Most { items: max_items, decoded_bytes: limit } = self.most;
        if measure.items > max_items {
            return Err(StreamEnd::TooManyItems { items: measure.items, limit: max_items });
        }
        if measure.decoded_bytes > limit {
            let is_bound = limit == common.budget.bound.bytes();
            let share = if is_bound { "" } else { "a quarter of " };
            let message = format!(
                "a message that takes {} bytes or more once decoded is refused: send at most {limit} \
                 ({share}`grpc.decoding_bytes`)",
                measure.decoded_bytes
            );
            return Err(StreamEnd::Unreadable { code: Code::ResourceExhausted, message });
        }
        if measure.is_broken {
            return Err(unreadable(
                "a message could not be decoded: it is cut off, or has bytes that are no field",
            ));
        }
        let (shape, common) = (self.shape, Arc::clone(common));
        Ok(RawMessage { bytes, measure, shape, credit, common })
    }
}

/// The rest of a body of which a part was read.
struct Rest {
    read: VecDeque<Bytes>,
    /// Of the bytes that were read, held until they are taken.
    credit: Option<Charge>,
    body: Body,
}

impl HttpBody for Rest {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(bytes) = self.read.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        self.credit = None;
        Pin::new(&mut self.body).poll_frame(cx)
    }
}

/// Refuses a message that is too long.
fn check_length(length: usize, limit: usize) -> Result<(), StreamEnd> {
    if length <= limit {
        return Ok(());
    }
    let message = format!(
        "a message of {length} bytes is refused: send at most {limit} \
         (`grpc.max_recv_message_bytes`)"
    );
    Err(StreamEnd::Unreadable { code: Code::OutOfRange, message })
}

/// Refuses a unary request if its headers announce a message that is too long.
pub(super) fn check_announced(headers: &HeaderMap, limit: usize) -> Result<(), StreamEnd> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    match announced.and_then(|length| length.parse::<usize>().ok()) {
        Some(length) => check_length(length.saturating_sub(HEAD_BYTES), limit),
        None => Ok(()),
    }
}

fn unreadable(message: impl Into<String>) -> StreamEnd {
    StreamEnd::Unreadable { code: Code::Internal, message: message.into() }
}

fn refused(exhausted: Exhausted) -> Broken {
    Broken::Refused(no_credit(exhausted))
}

fn no_credit(Exhausted: Exhausted) -> StreamEnd {
    StreamEnd::Overloaded
}

impl From<Broken> for StreamEnd {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Refused(end) => end,
            Broken::Gone => Self::ClientGone,
        }
    }
}

#[cfg(test)]
mod tests;
