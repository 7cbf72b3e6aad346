//! A status with its reason for programs and its text for people, cut to what headers take.
//!
//! A status travels in HTTP headers, and what it says may have been written by a client or an
//! operator. A status that is too long for its headers would not arrive at all, and with it the
//! reason.

use std::time::Duration;

use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::grpc::REASON_TRAILER;

/// `ErrorInfo.domain` of every status.
const DOMAIN: &str = "scheduler-interface";

/// How much of its text the details of a status repeat.
const DETAILED_TEXT_BYTES: usize = 256;

/// How much the details of a status say under one key: any id of a resource manager fits.
const DETAIL_VALUE_BYTES: usize = 512;

/// A status travels in HTTP headers, for which many clients allow 8 KiB in all (and a byte that is
/// not plain ASCII takes three there).
const STATUS_TEXT_BYTES: usize = 4_096;

/// Left free for the line that says how many lines are missing.
const REST_BYTES: usize = 100;

/// The status of a call that failed through a bug of ours.
pub fn internal(message: &str) -> Status {
    with_reason(Code::Internal, "INTERNAL_ERROR", message)
}

/// A status with its machine-readable reason.
pub(in crate::grpc) fn with_reason(code: Code, reason: &'static str, message: &str) -> Status {
    told(code, reason, message, [], None)
}

pub(super) fn told(
    code: Code,
    reason: &'static str,
    message: &str,
    about: impl IntoIterator<Item = (&'static str, String)>,
    retry: Option<Duration>,
) -> Status {
    // Both may hold what a client or an operator wrote, however long that is.
    let message = cut(message, STATUS_TEXT_BYTES);
    let about =
        about.into_iter().map(|(key, value)| (key.to_owned(), cut(&value, DETAIL_VALUE_BYTES)));
    let about = about.collect::<std::collections::HashMap<_, _>>();
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, about);
    if retry.is_some() {
        details.set_retry_info(retry);
    }
    let mut metadata = MetadataMap::new();
    metadata.insert(REASON_TRAILER, AsciiMetadataValue::from_static(reason));
    // The details repeat the text; the whole of it only once.
    let detailed = Status::with_error_details(code, cut(&message, DETAILED_TEXT_BYTES), details);
    let details = tonic::codegen::Bytes::copy_from_slice(detailed.details());
    Status::with_details_and_metadata(code, message, details, metadata)
}

/// The beginning of a text, such that it takes no more than `most` bytes in a header.
fn cut(text: &str, most: usize) -> String {
    let mut bytes = 0;
    let beyond = text.char_indices().find(|(_, c)| {
        bytes += if c.is_ascii() { 1 } else { 3 * c.len_utf8() };
        bytes > most
    });
    beyond.map_or_else(|| text.to_owned(), |(at, _)| format!("{}…", &text[..at]))
}

/// The first lines of a long list of errors, and how many more there are.
pub(super) fn shortened(text: String) -> String {
    if text.len() <= STATUS_TEXT_BYTES {
        return text;
    }
    let mut bytes = REST_BYTES;
    let fits = |stream: &&str| {
        bytes += stream.len() + 1;
        bytes <= STATUS_TEXT_BYTES
    };
    let kept: Vec<&str> = text.lines().take_while(fits).collect();
    if kept.is_empty() {
        return cut(&text, STATUS_TEXT_BYTES);
    }
    let rest = text.lines().count() - kept.len();
    format!("{}\n… and {rest} more lines; `monoceros validate` prints all", kept.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_errors_is_cut_at_a_line() {
        let stream = "queue `root.a`: something is wrong with it\n";
        let text = shortened(stream.repeat(1_000));
        assert!(text.len() <= STATUS_TEXT_BYTES);
        assert_eq!(cut(&text, STATUS_TEXT_BYTES), text);
        let (kept, rest) = text.rsplit_once('\n').unwrap();
        assert!(kept.ends_with("with it"));
        let cut = 1_000 - kept.lines().count();
        assert!(rest.contains(&format!("{cut} more lines")), "{rest}");
        assert_eq!(shortened(stream.to_owned()), stream);
    }
}
