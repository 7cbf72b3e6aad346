//! What a client does when a call or a stream ends.

use tonic::{Code, Status};

/// What follows from the end of a call or stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Open the streams again, and go on.
    Resume,
    /// Register again, and report everything.
    Register,
    /// Trying again cannot help: the client is wrong, not allowed or not wanted any more, or somebody
    /// else speaks for the resource manager by now.
    GiveUp,
}

/// The reason for programs, if the scheduler gave one.
pub fn reason(status: &Status) -> Option<&str> {
    status.metadata().get("x-si-reason").and_then(|reason| reason.to_str().ok())
}

/// Whether the session is lost, and another one would help: such a status ends a client that was to have
/// [one only](crate::Options::once).
pub fn is_lost(status: &Status) -> bool {
    next(status) == Next::Register || reason(status) == Some("SEQUENCE_GAP")
}

/// What follows from `status`.
pub(crate) fn next(status: &Status) -> Next {
    match reason(status) {
        Some(
            "RM_NOT_REGISTERED" | "SESSION_STALE" | "RESYNC_REQUIRED" | "DIALECT_MIXED"
            | "INTERNAL_ERROR" | "MESSAGE_UNREADABLE" | "LIMIT_BYTES",
        ) => Next::Register,
        Some("SESSION_SUPERSEDED" | "STREAM_DISPLACED" | "DEREGISTERED") => Next::GiveUp,
        Some(
            "LIMIT_SESSIONS" | "LIMIT_STREAMS" | "LIMIT_CONNECTIONS" | "LIMIT_DECODING"
            | "SEQUENCE_GAP",
        ) => Next::Resume,
        _ => match status.code() {
            Code::InvalidArgument
            | Code::Unauthenticated
            | Code::PermissionDenied
            | Code::Unimplemented
            | Code::FailedPrecondition
            | Code::ResourceExhausted => Next::GiveUp,
            _ => Next::Resume,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_decides_before_a_code() {
        let mut status = Status::failed_precondition("gone");
        assert_eq!(next(&status), Next::GiveUp);
        status.metadata_mut().insert("x-si-reason", "SESSION_STALE".parse().unwrap());
        assert_eq!(next(&status), Next::Register);
        assert!(is_lost(&status));
        assert_eq!(next(&Status::unavailable("no route")), Next::Resume);
        assert_eq!(next(&Status::unknown("connection reset")), Next::Resume);
        assert!(!is_lost(&Status::unknown("connection reset")));
        let mut status = Status::aborted("a request is missing");
        status.metadata_mut().insert("x-si-reason", "SEQUENCE_GAP".parse().unwrap());
        assert_eq!(next(&status), Next::Resume);
    }
}
