//! The messages of one request, from the frames of its body to measured bytes.
//!
//! # Why not by the library
//! The library reserves memory when a length is announced, decompresses a message as soon as it is
//! complete, and decodes it before its content can be checked: a client that sends little costs
//! three times memory and time. Here memory is taken on credit as bytes arrive, large messages are
//! decompressed and measured on a separate thread, and decoding waits until the sender is known.
//!
//! # Invariants
//! * Waiting for a message can be cancelled at any time: the bytes received so far are kept.
//! * No more of a message is kept than there is credit for, and no worker thread is blocked for
//!   longer than a message of [`AT_ONCE_BYTES`] takes.

use std::io::Read as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use flate2::read::GzDecoder;
use futures::FutureExt as _;
use futures::future::{BoxFuture, pending, poll_fn};
use prost::Message;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};
use tonic::Code;
use tonic::body::Body;
use tonic::codegen::Body as _;
use tonic::codegen::http::HeaderMap;
use tonic::codegen::http::header::CONTENT_LENGTH;

use super::Common;
use super::budget::{Credit, Exhausted, FREE_BYTES, Pool};
use super::calls::Call;
use super::measure::{Measure, Most, measure, text};
use super::pace::Pace;
use super::shapes::{Method, ShapeId};
use crate::grpc::end::StreamEnd;

/// Size of a frame head: compression flag and message length.
const HEAD_BYTES: usize = 5;

/// Messages up to this size are processed in place, which takes about a millisecond.
pub(super) const AT_ONCE_BYTES: usize = 256 << 10;

/// This much of a compressed message is measured before the rest is decompressed.
const BEGINNING_BYTES: usize = 1 << 20;

/// Why no more messages follow.
#[derive(Debug)]
pub(in crate::grpc) enum Broken {
    /// The service refuses them.
    Refused(StreamEnd),
    /// The client has gone.
    Gone,
}

/// A message that was measured but not decoded.
pub(in crate::grpc) struct RawMessage {
    bytes: Bytes,
    measure: Measure,
    shape: ShapeId,
    credit: Credit,
    common: Arc<Common>,
}

/// A decoded message with its credit.
pub(in crate::grpc) struct Decoded<T> {
    /// The message.
    pub(in crate::grpc) message: T,
    /// Held until the scheduler has the message. `None` for small messages.
    pub(in crate::grpc) credit: Option<Charge>,
}

/// The credit of a message; returned on drop.
pub(in crate::grpc) struct Charge {
    _credit: Credit,
}

/// The messages of one request.
pub(in crate::grpc) struct Messages {
    /// `None` while a large message is being received.
    frames: Option<Frames>,
    large: Option<BoxFuture<'static, (Frames, Result<RawMessage, Broken>)>>,
    is_over: bool,
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

/// The next step with the bytes read so far.
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
        Self { frames: Some(frames), large: None, is_over: false, call }
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

    /// The next message. `None` once the client has closed its side.
    pub(in crate::grpc) async fn message(&mut self) -> Result<Option<RawMessage>, Broken> {
        poll_fn(|cx| self.poll_message(cx)).await
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<RawMessage>, Broken>> {
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

impl RawMessage {
    /// The resource manager that the message names; empty if none.
    pub(in crate::grpc) fn rm_id(&self) -> &str {
        let shape = self.common.shapes.shape(self.shape);
        shape.rm_id.and_then(|field| text(shape, &self.bytes, field)).unwrap_or_default()
    }

    /// The length before decoding.
    pub(in crate::grpc) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the message can be decoded in place.
    pub(in crate::grpc) fn is_small(&self) -> bool {
        self.bytes.len() <= AT_ONCE_BYTES && self.measure.decoded_bytes <= AT_ONCE_BYTES
    }

    /// Decodes a [small](Self::is_small) message.
    pub(in crate::grpc) fn decode_at_once<T: Message + Default>(self) -> Result<T, StreamEnd> {
        T::decode(self.bytes).map_err(|error| unreadable(error.to_string()))
    }

    /// Decodes a message of a session.
    pub(in crate::grpc) async fn decode<T>(self) -> Result<Decoded<T>, StreamEnd>
    where
        T: Message + Default + 'static,
    {
        let pool = Arc::clone(&self.common.budget.bound);
        self.decode_on(pool).await
    }

    /// Decodes a message of a caller without session.
    pub(in crate::grpc) async fn decode_unbound<T>(self) -> Result<Decoded<T>, StreamEnd>
    where
        T: Message + Default + 'static,
    {
        let pool = Arc::clone(self.credit.pool());
        self.decode_on(pool).await
    }

    async fn decode_on<T>(self, pool: Arc<Pool>) -> Result<Decoded<T>, StreamEnd>
    where
        T: Message + Default + 'static,
    {
        if self.is_small() {
            return Ok(Decoded { message: self.decode_at_once()?, credit: None });
        }
        let (weight, bytes) = (self.weight(), self.bytes);
        // Credit of another pool is returned together with the bytes.
        let (mut credit, received) = if Arc::ptr_eq(self.credit.pool(), &pool) {
            (self.credit, None)
        } else {
            (Credit::none(&pool), Some(self.credit))
        };
        credit.cover(weight).await.map_err(no_credit)?;
        let decoded = move || {
            let decoded = T::decode(bytes);
            drop(received);
            decoded
        };
        let decoded = run_large(&pool, AT_ONCE_BYTES + 1, decoded).await;
        let Ok(decoded) = decoded else {
            return Err(StreamEnd::Internal("a message could not be decoded, through a bug"));
        };
        let message = decoded.map_err(|error| unreadable(error.to_string()))?;
        Ok(Decoded { message, credit: Some(Charge { _credit: credit }) })
    }

    /// The bytes of a message of a caller without session, to be decoded elsewhere, and their
    /// credit.
    pub(super) async fn into_bytes(mut self) -> Result<(Bytes, Charge), StreamEnd> {
        let weight = self.weight();
        self.credit.cover(weight).await.map_err(no_credit)?;
        Ok((self.bytes, Charge { _credit: self.credit }))
    }

    fn weight(&self) -> usize {
        self.measure.decoded_bytes.max(self.bytes.len())
    }
}

/// Processes a message: in place, or on a blocking thread if it is large. The pool bounds the
/// number of such threads, which leaves processor time to others.
async fn run_large<T: Send + 'static>(
    pool: &Pool,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Broken> {
    if bytes <= AT_ONCE_BYTES {
        return Ok(work());
    }
    // The semaphore is never closed.
    let worker = Arc::clone(&pool.workers).acquire_owned().await.map_err(|_| Broken::Gone)?;
    let work = move || {
        let _worker = worker;
        work()
    };
    spawn_blocking(work).await.map_err(|_| {
        Broken::Refused(StreamEnd::Internal("a message could not be dealt with, through a bug"))
    })
}

/// The decompressed length, as given at the end of a gzip member.
fn decompressed_length(data: &[u8], limit: usize) -> Result<usize, Broken> {
    let length = data.last_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > limit {
        let message = format!(
            "a compressed message holds {length} bytes and is refused: send at most {limit} \
             (`grpc.max_recv_message_bytes`)"
        );
        let end = StreamEnd::Unreadable { code: Code::ResourceExhausted, message };
        return Err(Broken::Refused(end));
    }
    Ok(length)
}

/// Decompresses data whose declared length is `length`; more data than that is malformed. Stops
/// after the beginning if that alone exceeds the limits.
fn decompressed(
    data: &[u8],
    length: usize,
    most: Most,
    measured: impl Fn(&[u8]) -> Measure,
) -> Result<(Bytes, Measure), Broken> {
    let mut reader = GzDecoder::new(data);
    let mut bytes = vec![0; length.min(BEGINNING_BYTES)];
    let mut whole = reader.read_exact(&mut bytes);
    if whole.is_ok() && bytes.len() < length {
        let measure = measured(&bytes);
        if measure.exceeds(most) {
            return Ok((Bytes::from(bytes), measure));
        }
        let beginning = bytes;
        bytes = vec![0; length];
        bytes[..beginning.len()].copy_from_slice(&beginning);
        whole = reader.read_exact(&mut bytes[beginning.len()..]);
    }
    match whole.and_then(|()| reader.read(&mut [0])) {
        Ok(0) => {
            let measure = measured(&bytes);
            // Freed here: on another thread the allocator would keep the memory for this one.
            bytes.truncate(if measure.exceeds(most) { 0 } else { length });
            bytes.shrink_to_fit();
            Ok((Bytes::from(bytes), measure))
        }
        Ok(_) => Err(Broken::Refused(unreadable(
            "a compressed message holds more than it says at its end",
        ))),
        Err(error) => Err(Broken::Refused(unreadable(format!(
            "a compressed message could not be read: {error}"
        )))),
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
mod tests {
    use std::collections::VecDeque;
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use hyper::body::Frame;
    use monoceros_proto::si::v1 as si;
    use tokio::time::sleep;
    use tonic::Status;

    use super::*;
    use crate::settings::{Flags, Settings};

    /// A body that delivers these pieces at intervals; the last one may never be delivered.
    struct Pieces {
        left: VecDeque<Bytes>,
        every: Duration,
        next: Pin<Box<tokio::time::Sleep>>,
        ends: bool,
    }

    impl tonic::codegen::Body for Pieces {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            ready!(self.next.poll_unpin(cx));
            let every = self.every;
            match self.left.pop_front() {
                None if !self.ends => Poll::Pending,
                piece => {
                    self.next.as_mut().reset(Instant::now() + every);
                    Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
                }
            }
        }
    }

    fn messages(body: &[u8], piece: usize, every: Duration, ends: bool) -> Messages {
        let settings = Settings::load(None, &Flags::default()).unwrap();
        let common = Arc::new(Common::new(&settings.grpc, &settings.limits));
        let method = common.shapes.method("/si.v1.Scheduler/UpdateNode").unwrap();
        let left = body.chunks(piece).map(Bytes::copy_from_slice).collect();
        let next = Box::pin(sleep(Duration::ZERO));
        let body = Body::new(Pieces { left, every, next, ends });
        Messages::new(&common, body, method, true, None)
    }

    fn request(n: usize) -> si::NodeRequest {
        let nodes = (0..n).map(|n| si::NodeInfo { node_id: format!("n{n}"), ..Default::default() });
        si::NodeRequest { nodes: nodes.collect(), rm_id: "rm".to_owned(), ..Default::default() }
    }

    fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[flag], &length[..], message].concat()
    }

    fn gzip(message: &[u8]) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(message).unwrap();
        gzip.finish().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn messages_survive_any_framing() {
        let sent = [request(0), request(3), request(40_000), request(1)];
        let bytes: Vec<u8> = (sent.iter().flat_map(|request| {
            let plain = request.encode_to_vec();
            [framed(0, &plain), framed(1, &gzip(&plain))].concat()
        }))
        .collect();
        for piece in [7_919, 64 << 10, bytes.len()] {
            let mut messages = messages(&bytes, piece, Duration::ZERO, true);
            messages.bound();
            for request in sent.iter().flat_map(|request| [request, request]) {
                let message = messages.message().await.unwrap().unwrap();
                assert_eq!(message.rm_id(), "rm");
                let decoded = message.decode::<si::NodeRequest>().await.unwrap();
                assert!(decoded.message == *request);
                assert_eq!(decoded.credit.is_some(), request.nodes.len() > 1_000);
            }
            assert!(messages.message().await.unwrap().is_none());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_can_be_cancelled() {
        let plain = request(20_000).encode_to_vec();
        let bytes = [framed(0, &plain), framed(1, &gzip(&plain))].concat();
        let mut messages = messages(&bytes, 10_000, Duration::from_millis(1), true);
        let mut n_messages = 0;
        loop {
            match messages.message().now_or_never() {
                Some(Ok(Some(message))) => {
                    assert!(message.decode::<si::NodeRequest>().await.is_ok());
                    n_messages += 1;
                }
                Some(Ok(None)) => break,
                Some(Err(broken)) => panic!("{broken:?}"),
                None => sleep(Duration::from_millis(1)).await,
            }
        }
        assert_eq!(n_messages, 2);
    }

    /// The reason of the refusal.
    async fn refusal(body: &[u8]) -> StreamEnd {
        match messages(body, 1 << 20, Duration::ZERO, true).message().await.map(|_| ()) {
            Err(Broken::Refused(end)) => end,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn unreadable_messages_give_a_reason() {
        let code = |end| match end {
            StreamEnd::Unreadable { code, .. } => code,
            other => panic!("{other:?}"),
        };
        let announced = [&[0][..], &u32::MAX.to_be_bytes()].concat();
        assert_eq!(code(refusal(&announced).await), Code::OutOfRange);
        assert_eq!(code(refusal(&framed(2, b"")).await), Code::Internal);
        assert_eq!(code(refusal(&framed(0, b"abc")[..6]).await), Code::Internal);
        assert_eq!(code(refusal(&framed(1, b"no gzip at all, and long enough")).await), {
            // The length given in the last bytes.
            Code::ResourceExhausted
        });
        let mut lies = gzip(&request(1_000).encode_to_vec());
        let length = lies.len();
        lies[length - 4..].copy_from_slice(&10_u32.to_le_bytes());
        assert_eq!(code(refusal(&framed(1, &lies)).await), Code::Internal);
        let items = b"\x0a\x00".repeat(200_001);
        let end = refusal(&framed(1, &gzip(&items))).await;
        assert!(matches!(end, StreamEnd::TooManyItems { items: 200_001, .. }), "{end:?}");
    }

    /// A node of three bytes contains an allocation that is much longer: the decoder would read the
    /// whole allocation, with any lists in it, before it notices.
    #[tokio::test(start_paused = true)]
    async fn inner_message_longer_than_outer_is_not_decoded() {
        let mut bytes = vec![0x0a, 3, 0x32];
        prost::encoding::encode_varint(100_000, &mut bytes);
        bytes.resize(bytes.len() + 100_000, 0);
        for length in [bytes.len(), 1_000, 5] {
            let end = refusal(&framed(0, &bytes[..length])).await;
            let is_broken = matches!(&end, StreamEnd::Unreadable { code: Code::Internal, message }
                if message.starts_with("a message could not be decoded"));
            assert!(is_broken, "{end:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stopped_client_is_cut_off_and_slow_one_is_not() {
        let message = framed(0, &request(10_000).encode_to_vec());
        let began = Instant::now();
        let mut stops = messages(&message[..70_000], 70_000, Duration::ZERO, false);
        let end = stops.message().await.map(|_| ());
        assert!(matches!(end, Err(Broken::Refused(StreamEnd::TooSlow))), "{end:?}");
        assert!(began.elapsed() <= Duration::from_secs(60), "{:?}", began.elapsed());
        let began = Instant::now();
        let mut slow = messages(&message, 2_000, Duration::from_secs(1), true);
        assert!(slow.message().await.unwrap().is_some());
        assert!(began.elapsed() > Duration::from_secs(40));
    }
}
