//! Calls to etcd that failed: which of them had no effect for certain.
//!
//! Only a refusal by the server itself shows that a write was not carried out, and will not be. A
//! connection that broke, a server that is not well, and an endpoint that was tried before leave it
//! open.

use std::fmt::Display;

use tonic::{Code, Status};

use crate::causes::{one_line, with_causes};
use crate::store::{Failure, Interrupted};

/// End of the message with which the server refuses a revision that it has forgotten.
const COMPACTED: &str = "required revision has been compacted";

/// A call that failed.
#[derive(Clone, Debug)]
pub(super) struct Denied {
    /// Endpoint and reason.
    pub(super) reason: String,
    /// Whether nothing was carried out, here or at any other endpoint.
    pub(super) is_final: bool,
    /// Whether the server has forgotten the revision that was to be read.
    pub(super) is_forgotten: bool,
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        if denied.is_final { Self::Refused(denied.reason) } else { Self::NoAnswer(denied.reason) }
    }
}

impl From<Denied> for Interrupted {
    fn from(denied: Denied) -> Self {
        if denied.is_forgotten {
            Self::Forgotten(denied.into())
        } else {
            Self::Failed(denied.into())
        }
    }
}

impl Denied {
    pub(super) fn no_answer(endpoint: &str, reason: impl Display) -> Self {
        let reason = format!("{endpoint}: {}", one_line(reason));
        Self { reason, is_final: false, is_forgotten: false }
    }

    pub(super) fn new(endpoint: &str, status: &Status) -> Self {
        let message = if status.message().is_empty() {
            with_causes(status)
        } else {
            with_text(status.message(), status)
        };
        let reason = format!("{endpoint}: {}", one_line(message));
        // This side reports a reply that is too large with the same code.
        let is_forgotten =
            status.code() == Code::OutOfRange && status.message().ends_with(COMPACTED);
        // All others may come from a server that is not well.
        let is_refusal = is_forgotten
            || matches!(
                status.code(),
                Code::Unauthenticated
                    | Code::PermissionDenied
                    | Code::InvalidArgument
                    | Code::ResourceExhausted
                    | Code::Unimplemented
            );
        // A status with a cause was made on this side, when a connection broke: the request may
        // have been carried out.
        let is_final = is_refusal && std::error::Error::source(status).is_none();
        Self { reason, is_final, is_forgotten }
    }
}

/// The message of a status, with the causes that it has besides.
fn with_text(message: &str, status: &Status) -> String {
    match std::error::Error::source(status).map(with_causes) {
        Some(cause) if cause.starts_with(message) => cause,
        Some(cause) if !message.contains(&cause) => format!("{message}: {cause}"),
        _ => message.to_owned(),
    }
}

/// Whether the server no longer accepts a token that it gave.
pub(super) fn is_stale(status: &Status) -> bool {
    status.code() == Code::Unauthenticated
        || status.message().ends_with("revision of auth store is old")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_status_of_the_server_is_a_refusal() {
        let is_final = |status: &Status| Denied::new("e", status).is_final;
        let full = "etcdserver: mvcc: database space exceeded";
        let mut broken = Status::resource_exhausted(full);
        assert!(is_final(&broken));
        broken.set_source(std::sync::Arc::new(std::io::Error::other("h2 protocol error")));
        assert!(!is_final(&broken));
        assert!(!is_final(&Status::unavailable("etcdserver: no leader")));
        // A reply that is too large for this side: the request was carried out.
        let large = Status::out_of_range("Error, decoded message length too large");
        assert!(!is_final(&large) && !Denied::new("e", &large).is_forgotten);
        let compacted = "etcdserver: mvcc: required revision has been compacted";
        let compacted = Status::out_of_range(compacted);
        assert!(is_final(&compacted) && Denied::new("e", &compacted).is_forgotten);
    }
}
