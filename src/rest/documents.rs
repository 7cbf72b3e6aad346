//! Tags of documents (`ETag`), by which a client learns that its copy is current.
//!
//! A partition counts its steps. A tag contains the partition, the step at which the document was
//! begun, and the request. If the partition has made no step since, the document is unchanged, and
//! a client that sends the tag gets an answer without a read. A list that was read while steps went
//! on has the tag of its beginning, so it counts as outdated at once. That is correct, since some
//! of its rows are.

use axum::http::header::IF_NONE_MATCH;
use axum::http::request::Parts;
use monoceros_actors::Steps;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tag(String);

impl Tag {
    /// Makes the tag of a document begun at `steps` for the request `wanted`.
    pub(super) fn of(steps: &Steps, wanted: &str) -> Self {
        let wanted = fingerprint(wanted.as_bytes());
        Self(format!("W/\"{:x}-{}-{wanted:x}\"", steps.partition, steps.first))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Whether the request has this tag, so that its client has the document.
    pub(super) fn is_shown(&self, request: &Parts) -> bool {
        let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        let own = opaque(&self.0);
        let shown = request.headers.get_all(IF_NONE_MATCH).into_iter();
        let mut shown = shown.filter_map(|value| value.to_str().ok());
        shown.any(|value| value.split(',').any(|tag| opaque(tag) == own))
    }
}

/// Whether the request has any tag.
pub(super) fn shows_tags(request: &Parts) -> bool {
    request.headers.contains_key(IF_NONE_MATCH)
}

/// Computes FNV-1a, which is the same in every build: clients keep tags for longer than a service
/// runs.
fn fingerprint(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, step)
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
    fn a_tag_depends_on_partition_step_and_request() {
        let at = |partition, first| Steps { partition, first, last: 99 };
        let tag = Tag::of(&at(1, 7), "nodes limit=3");
        assert_eq!(tag, Tag::of(&Steps { last: 8, ..at(1, 7) }, "nodes limit=3"));
        for (steps, other) in [
            (at(2, 7), "nodes limit=3"),
            (at(1, 8), "nodes limit=3"),
            (at(1, 7), "nodes limit=4"),
            (at(1, 7), "nodes"),
            (at(1, 7), "queues limit=3"),
        ] {
            assert_ne!(tag, Tag::of(&steps, other), "{steps:?} {other}");
        }
    }

    #[test]
    fn a_tag_matches_among_others_weak_or_strong() {
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
