//! When a cache sync has left: from then on nothing that is said on another stream of the same
//! connection can come before it.
//!
//! # Why it is not enough that the stream has taken it
//! Allocations are told on a stream of their own, and HTTP/2 has no order between streams. A message
//! that was taken first is encoded, waits for the windows of its stream and of the connection, and
//! is then cut into frames (16 KiB, unless the client takes larger ones), which leave in turn with
//! those of other streams. Each of these steps can be overtaken by a small message that was taken
//! later.
//!
//! # What is enough
//! The bytes of a connection are in one order. The HTTP/2 layer keeps a body's chunk until its last
//! byte is in the connection's write buffer (or the stream is lost): it owns the only copy, so it
//! cannot let go of it before. Hence the chunks here say when they are dropped, and an allocation
//! that is handed to its stream after that is written behind its sync. So the other side of the
//! connection receives them in that order. Which of two streams its program looks at first is its
//! own affair, as is whatever lies between: two connections, or a proxy, keep no order.
//!
//! # Invariants
//! * A sync is noted as written after it was written, never before; if its stream is lost, perhaps
//!   without having been.
//! * A chunk is dropped under the locks of the HTTP/2 layer: nothing is done then but to note a
//!   number and to wake a task.

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

/// The number of the newest cache sync of a session that was written. Numbers rise over all streams
/// of the session, so that a late note of an earlier stream changes nothing.
#[derive(Debug, Default)]
pub(super) struct WrittenSyncs {
    newest: AtomicU64,
    news: Notify,
}

/// Notes that everything up to a cache sync was written.
#[derive(Clone, Debug)]
pub(super) struct Receipt {
    seq: u64,
    written: Arc<WrittenSyncs>,
}

/// What the next chunk of a stream is to note, from whoever takes messages to the body that has them
/// encoded.
#[derive(Clone, Debug, Default)]
pub(super) struct Receipts(Arc<Mutex<Option<Receipt>>>);

/// Around a service whose responses note what was written of them, if they bring [`Receipts`].
#[derive(Clone)]
pub(in crate::grpc) struct NotingWritten;

/// The messages to a shim.
struct NotingBody {
    body: Body,
    receipts: Receipts,
}

/// Encoded messages, of which the last cache sync has a receipt.
struct NotingChunk {
    data: Bytes,
    receipt: Receipt,
}

impl WrittenSyncs {
    /// The number of the newest one.
    pub(super) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Waits until there may be a newer one. One task may wait.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    pub(super) fn note(&self, seq: u64) {
        self.newest.fetch_max(seq, Ordering::Release);
        self.news.notify_one();
    }
}

impl Receipt {
    /// To be noted in `written` once the sync with this number is.
    pub(super) fn new(seq: u64, written: &Arc<WrittenSyncs>) -> Self {
        Self { seq, written: Arc::clone(written) }
    }
}

impl Receipts {
    /// A sync was taken that is going to be in the next chunk. Its receipt stands for those before.
    pub(super) fn expect(&self, receipt: Receipt) {
        *self.0.lock().expect("no holder panics") = Some(receipt);
    }

    fn take(&self) -> Option<Receipt> {
        self.0.lock().expect("no holder panics").take()
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
        // A chunk holds every message that was taken before it came: tonic takes messages and
        // encodes them into a buffer only while it is asked for a chunk, and gives all of that.
        let receipts = &self.receipts;
        let noting = |frame: Frame<Bytes>| match (frame.is_data(), receipts.take()) {
            (true, Some(receipt)) => {
                frame.map_data(|data| Bytes::from_owner(NotingChunk { data, receipt }))
            }
            // A stream that ends is no longer waited for.
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

    /// Chunks, before each of which a sync with this number is taken, if there is one.
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
    fn a_sync_is_noted_when_the_last_copy_of_its_chunk_is_dropped_and_not_before() {
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
