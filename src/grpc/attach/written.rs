//! Detection of cache syncs written to the connection: from then on no message on another stream of
//! the same connection can arrive before the sync.
//!
//! # Why it is not enough that the stream took the message
//! Allocations are sent on another stream, and HTTP/2 does not order streams. A message taken first
//! is encoded, waits for the windows of its stream and of the connection, and is then cut into
//! frames (16 KiB, unless the client accepts larger ones) that alternate with those of other
//! streams. In each step a small message that was taken later can overtake it.
//!
//! # What is enough
//! The bytes of a connection are in one order. The HTTP/2 layer keeps a chunk of a body until the
//! chunk's last byte is in the write buffer of the connection (or the stream is lost): it owns the
//! only copy, so it cannot release the chunk earlier. Hence the chunks here report when they are
//! dropped, and an allocation passed to its stream after that is written after its sync. The peer
//! of the connection receives them in that order. Which stream its program reads first is its own
//! concern. Over two connections, or through a proxy, the order is not kept.
//!
//! # Invariants
//! * A sync is noted as written after it was written, never before. If its stream is lost, it may
//!   be noted without having been written.
//! * A chunk is dropped under locks of the HTTP/2 layer, so the drop only stores a number and wakes
//!   a task.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{Body as HttpBody, Bytes};

use crate::grpc::wrapped::Wrapping;
use crate::locked::locked;

/// The number of the newest written cache sync of a session. Numbers rise over all streams of the
/// session, so a late note of an earlier stream changes nothing.
#[derive(Debug, Default)]
pub(super) struct WrittenSyncs {
    newest: AtomicU64,
    news: Notify,
}

/// When used, notes that all messages up to a cache sync were written.
#[derive(Clone, Debug)]
pub(super) struct Receipt {
    seq: u64,
    written: Arc<WrittenSyncs>,
}

/// The receipt for the next chunk of a stream, passed from the writer to the body.
#[derive(Clone, Debug, Default)]
pub(super) struct Receipts(Arc<Mutex<Option<Receipt>>>);

/// The wrapper of a service whose responses may bring [`Receipts`].
#[derive(Clone)]
pub(in crate::grpc) struct NotingWritten;

/// The body of the messages to a shim.
struct NotingBody {
    body: Body,
    receipts: Receipts,
}

/// A chunk of encoded messages, with the receipt of the last cache sync in it.
struct NotingChunk {
    data: Bytes,
    receipt: Receipt,
}

impl WrittenSyncs {
    /// The number of the newest written sync.
    pub(super) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Waits until there may be a newer one. Only one task may wait.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    pub(super) fn note(&self, seq: u64) {
        self.newest.fetch_max(seq, Ordering::Release);
        self.news.notify_one();
    }
}

impl Receipt {
    /// A receipt to be noted in `written` once the sync with this number was written.
    pub(super) fn new(seq: u64, written: &Arc<WrittenSyncs>) -> Self {
        Self { seq, written: Arc::clone(written) }
    }
}

impl Receipts {
    /// Sets the receipt of a sync that will be in the next chunk. It also covers earlier syncs.
    pub(super) fn expect(&self, receipt: Receipt) {
        *locked(&self.0) = Some(receipt);
    }

    fn take(&self) -> Option<Receipt> {
        locked(&self.0).take()
    }
}

impl Wrapping for NotingWritten {
    fn wrap(
        &self,
        request: Request<Body>,
    ) -> (Request<Body>, impl FnOnce(Response<Body>) -> Response<Body> + Send + 'static) {
        let noting = |mut response: Response<Body>| match response.extensions_mut().remove() {
            Some(receipts) => response.map(|body| Body::new(NotingBody { body, receipts })),
            None => response,
        };
        (request, noting)
    }
}

impl HttpBody for NotingBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        // A chunk holds every message taken before it: tonic takes messages and encodes them into a
        // buffer only while polled for a chunk, and returns the whole buffer.
        let receipts = &self.receipts;
        let noting = |frame: Frame<Bytes>| match (frame.is_data(), receipts.take()) {
            (true, Some(receipt)) => {
                frame.map_data(|data| Bytes::from_owner(NotingChunk { data, receipt }))
            }
            // The end of the stream needs no receipt.
            _ => frame,
        };
        Poll::Ready(frame.map(|frame| frame.map(noting)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl AsRef<[u8]> for NotingChunk {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for NotingChunk {
    fn drop(&mut self) {
        self.receipt.written.note(self.receipt.seq);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use futures::FutureExt as _;
    use futures::future::poll_fn;

    use super::*;

    /// Chunks; before each a sync with this number is taken, if given.
    struct Chunks(Receipts, Arc<WrittenSyncs>, VecDeque<(Option<u64>, &'static str)>);

    impl HttpBody for Chunks {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(self.2.pop_front().map(|(seq, data)| {
                if let Some(seq) = seq {
                    self.0.expect(Receipt::new(seq, &self.1));
                }
                Ok(Frame::data(Bytes::from_static(data.as_bytes())))
            }))
        }
    }

    fn next(body: &mut NotingBody) -> Option<Bytes> {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).now_or_never().unwrap();
        frame.map(|frame| frame.unwrap().into_data().unwrap())
    }

    #[test]
    fn sync_is_noted_when_its_chunk_is_dropped() {
        let (receipts, written) = (Receipts::default(), Arc::<WrittenSyncs>::default());
        let chunks = [(None, "welcome"), (Some(3), "sync"), (None, "batch"), (Some(4), "sync")];
        let chunks = Chunks(receipts.clone(), Arc::clone(&written), chunks.into());
        let mut body = NotingBody { body: Body::new(chunks), receipts };
        let chunks: Vec<_> = std::iter::from_fn(|| next(&mut body)).collect();
        let text: Vec<&[u8]> = chunks.iter().map(|chunk| &chunk[..]).collect();
        assert_eq!(text.concat(), b"welcomesyncbatchsync");
        let [welcome, first, batch, second] = chunks.try_into().unwrap();
        drop(welcome);
        assert_eq!(written.newest(), 0);
        let rest = first.slice(1..);
        drop(first);
        assert_eq!(written.newest(), 0, "there is more of it to write");
        drop(rest);
        assert_eq!(written.newest(), 3);
        assert!(written.news().now_or_never().is_some());
        drop(batch);
        assert!(written.news().now_or_never().is_none(), "nothing is new");
        drop(second);
        assert_eq!(written.newest(), 4);
        written.note(2);
        assert_eq!(written.newest(), 4, "of an earlier stream");
    }
}
