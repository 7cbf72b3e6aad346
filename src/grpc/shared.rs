//! Replies shared by several callers: encoded documents of [`crate::reads`] in place of messages
//! that each call encodes for itself.
//!
//! # How
//! A handler returns an empty message and attaches the encoded document as an extension. The
//! wrapper around the service sends that document. A list that a thousand slow callers read is in
//! memory once and is freed with the last of them.
//!
//! # Invariants
//! * The bytes and headers are those that the generated service would have sent. The generated
//!   service negotiates compression; a document is compressed once for all callers.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::{BufMut as _, Bytes};
use futures::stream::{self, BoxStream};
use futures::{Stream as _, StreamExt as _};
use hyper::body::Frame;
use prost::Message;
use tokio::task::spawn_blocking;
use tonic::body::Body;
use tonic::codegen::Body as HttpBody;
use tonic::codegen::http::{HeaderMap, Request, Response as HttpResponse};
use tonic::{Response, Status};

use super::admin::refusal::CallRefusal;
use super::wrapped::Wrapping;
use crate::locked::locked;
use crate::reads::{Document, Draft, Joined, Kind, Made, gzip};

/// The header that says how messages are compressed.
pub(super) const ENCODING: &str = "grpc-encoding";

/// The reads of this edge, with their error type.
pub(super) type Reads = Joined<CallRefusal>;

/// A stream of documents that hold encoded messages with their frame heads.
pub(super) type DocumentStream = BoxStream<'static, Result<Arc<Document>, Status>>;

/// The documents that answer a call, attached to its response as an extension.
#[derive(Clone)]
struct Answer(Arc<Mutex<Option<DocumentStream>>>);

/// The wrapper of a service whose handlers may attach an [`Answer`].
#[derive(Clone)]
pub(super) struct Sharing;

struct SharedBody {
    messages: Option<BoxStream<'static, Result<Bytes, Status>>>,
}

/// Answers a call with a document read from a partition (from all, if `of` is empty). Concurrent
/// calls with an equal `wanted`, which holds everything that the reply depends on, share one read.
pub(super) async fn read<M, T, F>(
    reads: &Reads,
    kind: Kind,
    of: &str,
    wanted: &M,
    read: impl FnOnce() -> F + Send + 'static,
) -> Result<Response<T>, Status>
where
    M: Message,
    T: Message + Default + 'static,
    F: Future<Output = Result<T, CallRefusal>> + Send + 'static,
{
    let document = document(reads, kind, of, wanted, read).await?;
    Ok(whole(T::default(), &document))
}

/// Reads the document of [`read`], for a caller that builds its own response.
pub(super) async fn document<M, T, F>(
    reads: &Reads,
    kind: Kind,
    of: &str,
    wanted: &M,
    read: impl FnOnce() -> F + Send + 'static,
) -> Result<Arc<Document>, CallRefusal>
where
    M: Message,
    T: Message + 'static,
    F: Future<Output = Result<T, CallRefusal>> + Send + 'static,
{
    let read = move |_| async move {
        let message = read().await?;
        let draft = spawn_blocking(move || {
            let mut bytes = Vec::with_capacity(message.encoded_len() + HEAD_BYTES);
            append(&message, &mut bytes).then(|| Draft::of(bytes))
        });
        let draft = draft.await.map_err(|panic| CallRefusal::Unwritten(panic.to_string()))?;
        let too_long = || CallRefusal::Unwritten("it is too long for a message".to_owned());
        Ok(Made::New(draft.ok_or_else(too_long)?))
    };
    let name = std::any::type_name::<M>().as_bytes();
    let wanted = [name, b" ", &wanted.encode_to_vec()].concat();
    reads.read(kind, of, wanted, read).await
}

/// Size of a frame head: compression flag and message length.
pub(super) const HEAD_BYTES: usize = 5;

/// Appends a message with its frame head. Returns false if the message is too long for a frame.
pub(super) fn append(message: &impl Message, bytes: &mut Vec<u8>) -> bool {
    let Ok(length) = u32::try_from(message.encoded_len()) else { return false };
    bytes.put_u8(0);
    bytes.put_u32(length);
    // Cannot fail: a vector grows as needed.
    message.encode(bytes).is_ok()
}

/// Compresses each message separately.
fn gzip_each(mut messages: &[u8]) -> io::Result<Vec<u8>> {
    let mut each = Vec::new();
    while let Some((head, rest)) = messages.split_first_chunk::<HEAD_BYTES>() {
        let [_, length @ ..] = *head;
        let (message, rest) = rest.split_at(u32::from_be_bytes(length) as usize);
        let message = gzip(message)?;
        each.put_u8(1);
        each.put_u32(u32::try_from(message.len()).map_err(io::Error::other)?);
        each.extend_from_slice(&message);
        messages = rest;
    }
    Ok(each)
}

/// A response that sends one document in place of `instead`.
pub(super) fn whole<T>(instead: T, document: &Arc<Document>) -> Response<T> {
    let document = Arc::clone(document);
    streamed(instead, stream::once(async { Ok(document) }).boxed())
}

/// A response that sends a stream of documents in place of `instead`.
pub(super) fn streamed<T>(instead: T, messages: DocumentStream) -> Response<T> {
    let mut response = Response::new(instead);
    response.extensions_mut().insert(Answer(Arc::new(Mutex::new(Some(messages)))));
    response
}

impl Wrapping for Sharing {
    fn wrap(
        &self,
        request: Request<Body>,
    ) -> (Request<Body>, impl FnOnce(HttpResponse<Body>) -> HttpResponse<Body> + Send + 'static)
    {
        (request, with_answer)
    }
}

fn with_answer(mut response: HttpResponse<Body>) -> HttpResponse<Body> {
    let Some(Answer(answer)) = response.extensions_mut().remove() else { return response };
    let is_gzip = response.headers().contains_key(ENCODING);
    let documents = locked(&answer).take();
    let bytes = move |document: Result<Arc<Document>, Status>| async move {
        let document = document?;
        let compressed = if is_gzip { document.compressed(gzip_each).await } else { None };
        Ok(compressed.unwrap_or_else(|| document.bytes()))
    };
    let messages = documents.map(|documents| documents.then(bytes).boxed());
    response.map(|_| Body::new(SharedBody { messages }))
}

impl HttpBody for SharedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(messages) = &mut self.messages else { return Poll::Ready(None) };
        let status = match ready!(Pin::new(messages).poll_next(cx)) {
            Some(Ok(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Some(Err(status)) => status,
            None => Status::ok(""),
        };
        self.messages = None;
        let mut trailers = HeaderMap::new();
        let added = status.add_header(&mut trailers);
        Poll::Ready(Some(added.map(|()| Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.messages.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use monoceros_proto::v1::StateDumpPart;

    use super::*;

    #[test]
    fn messages_are_compressed_separately() {
        let parts = ["first", "", "last"];
        let message = |data: &str| StateDumpPart { data: data.into(), ..StateDumpPart::default() };
        let mut plain = Vec::new();
        for data in parts {
            assert!(append(&message(data), &mut plain));
        }
        let each = gzip_each(&plain).unwrap();
        let mut rest = &each[..];
        for data in parts {
            let (head, after) = rest.split_first_chunk::<HEAD_BYTES>().unwrap();
            assert_eq!(head[0], 1);
            let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
            let mut unpacked = Vec::new();
            GzDecoder::new(&after[..length]).read_to_end(&mut unpacked).unwrap();
            assert_eq!(StateDumpPart::decode(&unpacked[..]).unwrap(), message(data));
            rest = &after[length..];
        }
        assert!(rest.is_empty());
    }
}
