//! Decides how the client continues after a call or stream has ended.

use std::time::Duration;

use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// Reason that the client itself gives to the loss of its owner in a cluster.
const OWNER_LOST: &str = "C_OWNER_LOST";
/// Reason that the client itself gives to the silence of its owner.
const SILENT: &str = "C_SILENT";

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

/// The loss of the owner in a cluster, because of this status: another member can serve.
pub(crate) fn owner_lost(status: &Status) -> Status {
    let text = format!("the owner was lost: {}", status.message());
    with_reason(text, status.metadata().clone(), OWNER_LOST)
}

/// The silence of the owner in a cluster.
pub(crate) fn owner_silent(silent: Duration) -> Status {
    let text = format!("the scheduler is silent: nothing came for {} ms", silent.as_millis());
    with_reason(text, MetadataMap::new(), SILENT)
}

fn with_reason(text: String, mut metadata: MetadataMap, reason: &'static str) -> Status {
    metadata.insert("x-si-reason", MetadataValue::from_static(reason));
    Status::with_metadata(Code::Unavailable, text, metadata)
}

/// Whether the scheduler itself gave a reason.
pub(crate) fn is_answered(status: &Status) -> bool {
    reason(status).is_some_and(|reason| ![OWNER_LOST, SILENT].contains(&reason))
}

/// Whether a deregistration was refused by a member that may not decide, and is to be tried again.
pub(crate) fn may_leave_later(status: &Status) -> bool {
    next(status) == Next::Resume
        || is_passing(status)
        || matches!(reason(status), Some("NOT_OWNER" | "SESSION_MOVED"))
}

/// Whether the end of a stream or a call is that of its connection or its member, not of a session
/// that could go on there.
pub(crate) fn is_loss_of_owner(status: &Status) -> bool {
    next(status) == Next::Resume && matches!(reason(status), None | Some("SHUTTING_DOWN"))
}

/// Whether a session ended although its owner serves: another one is best opened there.
pub(crate) fn keeps_owner(status: &Status) -> bool {
    matches!(
        reason(status),
        Some("RESYNC_REQUIRED" | "DIALECT_MIXED" | "MESSAGE_UNREADABLE" | "LIMIT_BYTES")
    )
}

/// Whether a member answered that it may serve soon, so that long pauses make no sense.
pub(crate) fn is_passing(status: &Status) -> bool {
    matches!(
        reason(status),
        Some("MEMBER_FENCED" | "OWNER_UNREACHABLE" | "ARBITER_UNAVAILABLE" | "CLAIM_CONTENDED")
    )
}

/// The address of the owner, if a member of a cluster named it.
pub(crate) fn owner(status: &Status) -> Option<&str> {
    status.metadata().get("x-si-owner").and_then(|owner| owner.to_str().ok())
}

/// Decides how to continue after `status`.
pub(crate) fn next(status: &Status) -> Next {
    match reason(status) {
        Some(
            "RM_NOT_REGISTERED"
            | "SESSION_STALE"
            | "RESYNC_REQUIRED"
            | "DIALECT_MIXED"
            | "INTERNAL_ERROR"
            | "MESSAGE_UNREADABLE"
            | "LIMIT_BYTES"
            | "NOT_OWNER"
            | "SESSION_MOVED"
            | "MEMBER_FENCED"
            | "OWNER_UNREACHABLE"
            | "ARBITER_UNAVAILABLE"
            | "CLAIM_CONTENDED"
            | OWNER_LOST
            | SILENT,
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

    #[test]
    fn a_lost_owner_is_replaced() {
        assert!(is_lost(&owner_lost(&Status::unavailable("broken"))));
        let silent = owner_silent(Duration::from_millis(305));
        assert!(is_lost(&silent) && !is_answered(&silent) && !may_leave_later(&silent));
        assert_eq!(silent.message(), "the scheduler is silent: nothing came for 305 ms");
        assert!(is_loss_of_owner(&Status::unknown("connection reset")));
        let because = |reason: &str| {
            let mut status = Status::unavailable("so");
            status.metadata_mut().insert("x-si-reason", reason.parse().unwrap());
            status
        };
        assert!(is_loss_of_owner(&because("SHUTTING_DOWN")));
        assert!(!is_loss_of_owner(&because("STREAM_STALLED")), "the session goes on");
        for reason in ["NOT_OWNER", "SESSION_MOVED", "MEMBER_FENCED", "CLAIM_CONTENDED"] {
            assert_eq!(next(&because(reason)), Next::Register, "{reason}");
        }
        assert!(is_passing(&because("ARBITER_UNAVAILABLE")) && !is_passing(&because("NOT_OWNER")));
    }
}
