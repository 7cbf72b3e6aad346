//! A document: encoded bytes that are produced once, sent to one or many clients, and counted
//! against the memory limit until the last client has received them.

use std::io::{self, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::{Body, Frame, SizeHint};
use monoceros_actors::Steps;
use serde::Serialize;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use super::door::{Door, Room};

/// The smallest size for which compression pays.
const GZIP_FROM: usize = 1400;

/// Size of the slices in which a document is passed on: a layer that copies its input copies no
/// more than one slice.
const SLICE_BYTES: usize = 64 << 10;

/// The result of a read, before it has memory reserved.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) bytes: Vec<u8>,
    /// The steps of the partition between which the rows were read.
    pub(crate) steps: Option<Steps>,
    /// The start of the next page, if there is one.
    pub(crate) next: Option<String>,
    /// Version of the content, if the scheduler can give it without a read. If the version is
    /// unchanged, the document is served from the cache.
    pub(crate) version: Option<String>,
}

/// The outcome of a read.
pub(crate) enum Made {
    New(Draft),
    /// The previous document is still held and unchanged.
    InHand(Arc<Document>),
}

/// A document with its reserved memory.
#[derive(Default)]
pub(crate) struct Document {
    bytes: Bytes,
    compressed: OnceCell<Option<Arc<Compressed>>>,
    pub(crate) steps: Option<Steps>,
    pub(crate) next: Option<String>,
    pub(crate) version: Option<String>,
    door: Option<Door>,
    _room: Option<Room>,
}

/// A document as gzip, with memory reserved of its own.
struct Compressed {
    bytes: Vec<u8>,
    _room: Option<Room>,
}

/// Keeps a document alive as long as any of its bytes are referenced.
struct Owner<T>(Arc<T>);

/// A body of bytes in memory.
pub(crate) struct Sliced(Bytes);

impl Draft {
    /// Encodes a value as JSON on a blocking thread.
    pub(crate) async fn json<T: Serialize + Send + 'static>(value: T) -> Result<Self, String> {
        let made = spawn_blocking(move || {
            let mut document = serde_json::to_vec(&value)?;
            document.push(b'\n');
            Ok::<_, serde_json::Error>(document)
        });
        let made = made.await.map_err(|panic| panic.to_string())?;
        Ok(Self::of(made.map_err(|error| error.to_string())?))
    }

    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }
}

impl From<Draft> for Made {
    fn from(draft: Draft) -> Self {
        Self::New(draft)
    }
}

impl Document {
    pub(super) fn new(draft: Draft, room: Room, door: Door) -> Self {
        let Draft { mut bytes, steps, next, version } = draft;
        // Only the bytes reserved may be held.
        bytes.shrink_to_fit();
        let (door, room, bytes) = (Some(door), Some(room), bytes.into());
        Self { bytes, compressed: OnceCell::new(), steps, next, version, door, _room: room }
    }

    /// A short or static document, which needs no reservation.
    pub(crate) fn own(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), ..Self::default() }
    }

    /// Bytes that keep the document and its reservation alive.
    pub(crate) fn bytes(self: &Arc<Self>) -> Bytes {
        Bytes::from_owner(Owner(Arc::clone(self)))
    }

    /// The document compressed by `compress`, if that pays and there is room. Each edge always
    /// passes the same function.
    pub(crate) async fn compressed(
        self: &Arc<Self>,
        compress: fn(&[u8]) -> io::Result<Vec<u8>>,
    ) -> Option<Bytes> {
        if self.bytes.len() < GZIP_FROM {
            return None;
        }
        let compress = || async {
            let document = Arc::clone(self);
            // If compression fails, the document is sent uncompressed.
            let bytes = spawn_blocking(move || compress(&document.bytes)).await.ok()?.ok()?;
            let room = match &self.door {
                Some(door) => Some(door.room_now(bytes.len())?),
                None => None,
            };
            Some(Arc::new(Compressed { bytes, _room: room }))
        };
        let compressed = self.compressed.get_or_init(compress).await.as_ref()?;
        Some(Bytes::from_owner(Owner(Arc::clone(compressed))))
    }
}

impl AsRef<[u8]> for Document {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Compressed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Owner<T> {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Document").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl Sliced {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl Body for Sliced {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.0.is_empty() {
            return Poll::Ready(None);
        }
        let most = self.0.len().min(SLICE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.0.split_to(most)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

/// Compresses a document with gzip.
pub(crate) fn gzip(document: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(document.len() / 4), Compression::fast());
    encoder.write_all(document)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn document_keeps_its_reservation_to_the_last_byte() {
        let door = Door::new(1 << 20);
        let draft = Draft::of(vec![b'a'; 1 << 20]);
        let room = door.room(draft.bytes.len()).await.unwrap();
        let document = Arc::new(Document::new(draft, room, door.clone()));
        let mut body = Sliced::new(document.bytes());
        assert_eq!(body.size_hint().exact(), Some(1 << 20));
        drop(document);
        let last = body.0.split_off(1_000_000);
        drop(body);
        assert!(door.room_now(1 << 20).is_none());
        drop(last);
        assert!(door.room_now(1 << 20).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn document_without_room_for_gzip_is_sent_plain() {
        let door = Door::new(1 << 20);
        let mut random = 1_u32;
        let mut bytes = Vec::new();
        while bytes.len() < 800 << 10 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            bytes.push(random.to_be_bytes()[0]);
        }
        let room = door.room(bytes.len()).await.unwrap();
        let document = Arc::new(Document::new(Draft::of(bytes), room, door.clone()));
        assert!(document.compressed(gzip).await.is_none());
        let room = door.room(2_000).await.unwrap();
        let document = Arc::new(Document::new(Draft::of(vec![b'a'; 2_000]), room, door));
        assert!(document.compressed(gzip).await.unwrap().len() < 100);
    }
}
