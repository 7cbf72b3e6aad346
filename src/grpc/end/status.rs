//! A status with a machine-readable reason and a text, cut to the size that headers allow.
//!
//! A status travels in HTTP headers, and parts of its text may come from a client or an operator. A
//! status too long for the headers would not arrive at all, and its reason would be lost with it.

use std::time::Duration;

use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::grpc::{OWNER_TRAILER, REASON_TRAILER};

/// `ErrorInfo.domain` of every status.
const DOMAIN: &str = "scheduler-interface";

/// Maximum length of the text as repeated in the details.
const DETAILED_TEXT_BYTES: usize = 256;

/// Maximum length of one metadata value in the details; any id of a resource manager fits.
const DETAIL_VALUE_BYTES: usize = 512;

/// Maximum length of the text. Many clients allow 8 KiB of headers in all, and a non-ASCII byte
/// takes three bytes there.
const STATUS_TEXT_BYTES: usize = 4_096;

/// Reserved for the line that counts the lines left out.
const REST_BYTES: usize = 100;

/// The status of a call that failed through an internal error.
pub fn internal(message: &str) -> Status {
    with_reason(Code::Internal, "INTERNAL_ERROR", message)
}

/// A status with a machine-readable reason and no further details.
pub(in crate::grpc) fn with_reason(code: Code, reason: &'static str, message: &str) -> Status {
    detailed_status(code, reason, message, [], None)
}

/// A status with a machine-readable reason, metadata and a retry delay, if any.
pub(super) fn detailed_status(
    code: Code,
    reason: &'static str,
    message: &str,
    about: impl IntoIterator<Item = (&'static str, String)>,
    retry: Option<Duration>,
) -> Status {
    // Both may contain text of any length from a client or an operator.
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
    // The details repeat only the beginning of the text.
    let detailed = Status::with_error_details(code, cut(&message, DETAILED_TEXT_BYTES), details);
    let details = tonic::codegen::Bytes::copy_from_slice(detailed.details());
    Status::with_details_and_metadata(code, message, details, metadata)
}

/// Adds the gRPC address of the member that serves the resource manager, if it fits a header.
pub(in crate::grpc) fn with_owner(mut status: Status, owner: Option<&str>) -> Status {
    if let Some(owner) = owner.and_then(|owner| owner.parse().ok()) {
        status.metadata_mut().insert(OWNER_TRAILER, owner);
    }
    status
}

/// The longest beginning of a text that takes at most `most` bytes in a header.
fn cut(text: &str, most: usize) -> String {
    let mut bytes = 0;
    let beyond = text.char_indices().find(|(_, c)| {
        bytes += if c.is_ascii() { 1 } else { 3 * c.len_utf8() };
        bytes > most
    });
    beyond.map_or_else(|| text.to_owned(), |(at, _)| format!("{}…", &text[..at]))
}

/// The first lines of a long list of errors, and the number of lines left out.
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
    fn long_error_list_is_cut_at_a_line() {
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
