//! Documents: what is sent, once or to many, with what says how old it is.
//!
//! # How old a document is
//! A partition counts its steps. The tag of a document (`ETag`) has the number of the step at which
//! it was begun, and of which partition and for which request. Where the partition has made no step
//! since, the document is the same, and a client that shows the tag is told so without any reading.
//! A list that was read while steps went on has the tag of its beginning, so it counts as old at
//! once, which is right: some of its rows are.

use std::io::{self, Write as _};

use axum::body::Bytes;
use axum::http::Uri;
use axum::http::header::IF_NONE_MATCH;
use axum::http::request::Parts;
use flate2::Compression;
use flate2::write::GzEncoder;
use monoceros_actors::Steps;
use serde::Serialize;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use super::endpoints::Failure;

/// From how many bytes on compressing is worth it.
const GZIP_FROM: usize = 1400;

/// A document, and what its headers say of it.
#[derive(Debug, Default)]
pub(super) struct Document {
    bytes: Bytes,
    /// Made for the first who wants it. Empty: it cannot be, or need not be, compressed.
    compressed: OnceCell<Option<Bytes>>,
    /// The tag, and when it was read.
    pub(super) read: Option<(Tag, Steps)>,
    /// Where the next page is.
    pub(super) next: Option<String>,
}

/// What says whether a document is still the same, as `ETag` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tag(String);

impl Document {
    /// The document of these bytes.
    pub(super) fn of(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), ..Self::default() }
    }

    /// A value as JSON, made on a thread for such work.
    pub(super) async fn json<T: Serialize + Send + 'static>(value: T) -> Result<Self, Failure> {
        let made = spawn_blocking(move || {
            let mut document = serde_json::to_vec(&value)?;
            document.push(b'\n');
            Ok::<_, serde_json::Error>(document)
        });
        let made = made.await.map_err(|panic| Failure::Document(panic.to_string()))?;
        Ok(Self::of(made.map_err(|error| Failure::Document(error.to_string()))?))
    }

    /// The document that was read then.
    pub(super) fn read_at(self, tag: Tag, steps: Steps) -> Self {
        Self { read: Some((tag, steps)), ..self }
    }

    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The document as gzip, where that is worth it.
    pub(super) async fn compressed(&self) -> Option<&Bytes> {
        if self.bytes.len() < GZIP_FROM {
            return None;
        }
        let compress = || async {
            let bytes = self.bytes.clone();
            // A document that cannot be compressed, for whatever reason, goes out as it is.
            let compressed = spawn_blocking(move || gzip(&bytes)).await;
            compressed.ok().and_then(Result::ok).map(Bytes::from)
        };
        self.compressed.get_or_init(compress).await.as_ref()
    }
}

impl Tag {
    /// The tag of what a request finds that is read from this step on.
    pub(super) fn of(steps: &Steps, request: &Uri) -> Self {
        let wanted = request.path_and_query().map_or("", |wanted| wanted.as_str());
        let wanted = fingerprint(wanted.as_bytes());
        Self(format!("W/\"{:x}-{}-{wanted:x}\"", steps.partition, steps.first))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Whether a request shows this tag: its client has the document.
    pub(super) fn is_shown(&self, request: &Parts) -> bool {
        let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        let own = opaque(&self.0);
        let shown = request.headers.get_all(IF_NONE_MATCH).into_iter();
        let mut shown = shown.filter_map(|value| value.to_str().ok());
        shown.any(|value| value.split(',').any(|tag| opaque(tag) == own))
    }
}

/// Whether a request shows any tag.
pub(super) fn shows_tags(request: &Parts) -> bool {
    request.headers.contains_key(IF_NONE_MATCH)
}

/// FNV-1a, which is the same in every build: clients keep tags for longer than a service runs.
fn fingerprint(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, step)
}

fn gzip(document: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(document.len() / 4), Compression::fast());
    encoder.write_all(document)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn parts(uri: &str, shown: &[&str]) -> Parts {
        let mut request = Request::get(uri);
        for tag in shown {
            request = request.header("if-none-match", *tag);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_tag_is_of_one_partition_one_step_and_one_request() {
        let at = |partition, first| Steps { partition, first, last: 99 };
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        let tag = Tag::of(&at(1, 7), &uri("/nodes?limit=3"));
        assert_eq!(tag, Tag::of(&Steps { last: 8, ..at(1, 7) }, &uri("/nodes?limit=3")));
        for (steps, other) in [
            (at(2, 7), "/nodes?limit=3"),
            (at(1, 8), "/nodes?limit=3"),
            (at(1, 7), "/nodes?limit=4"),
            (at(1, 7), "/nodes"),
            (at(1, 7), "/queues?limit=3"),
        ] {
            assert_ne!(tag, Tag::of(&steps, &uri(other)), "{steps:?} {other}");
        }
    }

    #[test]
    fn a_tag_is_found_among_others_whether_weak_or_not() {
        let tag = Tag("W/\"1-2-3\"".to_owned());
        for (shown, is_shown) in [
            (&["W/\"1-2-3\""][..], true),
            (&["\"1-2-3\""], true),
            (&["W/\"9\", W/\"1-2-3\""], true),
            (&["W/\"9\"", "W/\"1-2-3\""], true),
            (&["W/\"1-2-34\""], false),
            (&["*"], false),
            (&[], false),
        ] {
            assert_eq!(tag.is_shown(&parts("/", shown)), is_shown, "{shown:?}");
        }
    }
}
