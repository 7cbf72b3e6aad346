//! Decides how the client continues after a call or stream has ended.

use tonic::{Code, Status};

/// How the client continues after the end of a call or stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Open the streams of the session again.
    Resume,
    /// Register again and report everything.
    Register,
    /// Stop: a retry cannot help. The client is invalid, not permitted or no longer wanted, or
    /// another client has taken over the resource manager.
    GiveUp,
}

/// Returns the machine-readable reason, if the scheduler gave one.
pub fn reason(status: &Status) -> Option<&str> {
    status.metadata().get("x-si-reason").and_then(|reason| reason.to_str().ok())
}

/// Whether the session is lost and a new one would help. Such a status ends a client that is
/// limited to [one session](crate::Options::once).
pub fn is_lost(status: &Status) -> bool {
    next(status) == Next::Register || reason(status) == Some("SEQUENCE_GAP")
}

/// Decides how to continue after `status`.
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
        let mut status = Status::aborted("deregistered");
        status.metadata_mut().insert("x-si-reason", "DEREGISTERED".parse().unwrap());
        assert_eq!(next(&status), Next::GiveUp);
        assert!(!is_lost(&status));
        let mut status = Status::aborted("a request is missing");
        status.metadata_mut().insert("x-si-reason", "SEQUENCE_GAP".parse().unwrap());
        assert_eq!(next(&status), Next::Resume);
    }
}
