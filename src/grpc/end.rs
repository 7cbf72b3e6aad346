//! How a stream or a call ends when it is not the client that ends it, and the status that says so
//! (scheduler-interface chapter, 3.7). Nothing about a single item is ever a status: the scheduler
//! answers that item.

use monoceros_actors::{RegisterError, UpdateError};
use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::{Code, Status};

use super::REASON_TRAILER;
use crate::identity::Denied;

/// Why a stream ends.
#[derive(Clone, Debug, thiserror::Error)]
pub enum End {
    /// A message came before the stream was bound, and names no resource manager.
    #[error("the first message of a stream must name its resource manager in `rmID`")]
    RmIdMissing,
    /// A message names another resource manager than the one the stream is bound to.
    #[error("the stream belongs to `{bound}`, the message names `{named}`")]
    RmIdMismatch {
        /// To whom the stream is bound.
        bound: String,
        /// Whom the message names.
        named: String,
    },
    /// Metadata of the call cannot be read.
    #[error("metadata `{0}` cannot be read")]
    BadMetadata(&'static str),
    /// The resource manager has no session.
    #[error("`{0}` is not registered: register, then send everything again")]
    NotRegistered(String),
    /// The stream names a session that is not the current one.
    #[error("session {named} is over, the current one is {current}: register again")]
    SessionStale {
        /// The session that the stream names.
        named: String,
        /// The current one.
        current: u64,
    },
    /// Client and scheduler no longer know the same.
    #[error("{0}: register again, then send everything again")]
    ResyncRequired(Cause),
    /// The resource manager registered again.
    #[error("the resource manager has registered again, elsewhere")]
    Superseded,
    /// A newer stream of the same kind took over.
    #[error("a newer stream of the same kind has taken over")]
    Displaced,
    /// The session began with streams of the other dialect.
    #[error(
        "a session has either the stream `Update` or the three others: register again to change"
    )]
    DialectMixed,
    /// The service ends.
    #[error("the scheduler is shutting down")]
    ShuttingDown,
    /// A message could not be decoded, or is too large.
    #[error("{message}")]
    Unreadable {
        /// The transport's code.
        code: Code,
        /// The transport's text.
        message: String,
    },
    /// A message has more items than one may have; nothing of it was applied.
    #[error("a message of {0} items is refused whole: send at most 200000")]
    TooManyItems(usize),
    /// The caller may not do this.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The client is gone; nobody reads this.
    #[error("the client has gone")]
    ClientGone,
}

/// Why client and scheduler no longer know the same.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Cause {
    /// More waited for the client than is kept for it.
    #[error("too much was waiting to be read")]
    Overflow,
    /// A message of the client could not be read.
    #[error("a message could not be read")]
    ItemsLost,
    /// The scheduler lost what it knew of the resource manager.
    #[error("the scheduler lost its state: {0}")]
    StateLost(String),
}

impl End {
    /// Whether the client has to register, and send everything again.
    pub fn demands_registration(&self) -> bool {
        matches!(self, Self::NotRegistered(_) | Self::SessionStale { .. } | Self::ResyncRequired(_))
    }
}

impl From<&End> for Status {
    fn from(end: &End) -> Self {
        let (code, reason) = match end {
            End::RmIdMissing => (Code::InvalidArgument, "RM_ID_MISSING"),
            End::RmIdMismatch { .. } => (Code::InvalidArgument, "RM_ID_MISMATCH"),
            End::BadMetadata(_) => (Code::InvalidArgument, "RM_ID_INVALID"),
            End::NotRegistered(_) => (Code::FailedPrecondition, "RM_NOT_REGISTERED"),
            End::SessionStale { .. } => (Code::FailedPrecondition, "SESSION_STALE"),
            End::ResyncRequired(_) => (Code::FailedPrecondition, "RESYNC_REQUIRED"),
            End::Superseded => (Code::Aborted, "SESSION_SUPERSEDED"),
            End::Displaced => (Code::Aborted, "STREAM_DISPLACED"),
            End::DialectMixed => (Code::FailedPrecondition, "DIALECT_MIXED"),
            End::ShuttingDown => (Code::Unavailable, "SHUTTING_DOWN"),
            End::Unreadable { code, .. } => (*code, "MESSAGE_UNREADABLE"),
            End::TooManyItems(_) => (Code::ResourceExhausted, "LIMIT_ITEMS"),
            End::Denied(Denied::Unknown) => (Code::Unauthenticated, "UNAUTHENTICATED"),
            End::Denied(Denied::Rm { .. }) => (Code::PermissionDenied, "RM_DENIED"),
            End::Denied(Denied::Admin { .. }) => (Code::PermissionDenied, "ADMIN_DENIED"),
            End::ClientGone => (Code::Cancelled, "CLIENT_GONE"),
        };
        with_reason(code, reason, end.to_string())
    }
}

impl From<Denied> for Status {
    fn from(denied: Denied) -> Self {
        Self::from(&End::from(denied))
    }
}

impl From<UpdateError> for End {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::RmIdMissing => Self::RmIdMissing,
            UpdateError::NotRegistered(rm_id) => Self::NotRegistered(rm_id),
            UpdateError::Stopped => Self::ShuttingDown,
        }
    }
}

/// The status of a registration that failed.
#[expect(clippy::needless_pass_by_value, reason = "used as the function of `map_err`")]
pub fn registration_status(error: RegisterError) -> Status {
    let (code, reason) = match &error {
        RegisterError::RmIdMissing => (Code::InvalidArgument, "RM_ID_MISSING"),
        RegisterError::RmIdInvalid(_) => (Code::InvalidArgument, "RM_ID_INVALID"),
        RegisterError::Config(_) => (Code::InvalidArgument, "CONFIG_INVALID"),
        RegisterError::Stopped => (Code::Unavailable, "SHUTTING_DOWN"),
    };
    let text = match &error {
        RegisterError::Config(errors) => errors.to_string(),
        RegisterError::RmIdMissing | RegisterError::RmIdInvalid(_) | RegisterError::Stopped => {
            error.to_string()
        }
    };
    with_reason(code, reason, shortened(text))
}

/// The status of a call that failed through a bug of ours.
pub fn internal(message: &str) -> Status {
    with_reason(Code::Internal, "INTERNAL_ERROR", message.to_owned())
}

/// A message of a client that could not be read, as opposed to a connection that broke.
pub fn unreadable(status: &Status) -> Option<End> {
    let from_transport = std::error::Error::source(status).is_some();
    match status.code() {
        code @ (Code::Internal | Code::OutOfRange | Code::ResourceExhausted) if !from_transport => {
            Some(End::Unreadable { code, message: status.message().to_owned() })
        }
        _ => None,
    }
}

/// A status with its machine-readable reason.
pub(super) fn with_reason(code: Code, reason: &'static str, message: String) -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert(REASON_TRAILER, AsciiMetadataValue::from_static(reason));
    Status::with_metadata(code, message, metadata)
}

/// A status travels in HTTP headers, for which many clients allow 8 KiB in all (and a byte that is
/// not plain ASCII takes three there).
const STATUS_TEXT_BYTES: usize = 4_096;

fn shortened(text: String) -> String {
    if text.len() <= STATUS_TEXT_BYTES {
        return text;
    }
    let mut bytes = 0;
    let fits = |line: &&str| {
        bytes += line.len() + 1;
        bytes <= STATUS_TEXT_BYTES
    };
    let kept: Vec<&str> = text.lines().take_while(fits).collect();
    let cut = text.lines().count() - kept.len();
    format!("{}\n… and {cut} more lines; `monoceros validate` prints all", kept.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_carries_its_reason_for_programs_and_a_sentence_for_people() {
        let status = Status::from(&End::NotRegistered("rm-1".to_owned()));
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert_eq!(status.metadata().get(REASON_TRAILER).unwrap(), "RM_NOT_REGISTERED");
        assert!(status.message().contains("`rm-1`"));
    }

    #[test]
    fn what_a_client_sent_wrongly_is_told_from_a_broken_connection() {
        assert!(unreadable(&Status::internal("bad field")).is_some());
        assert!(unreadable(&Status::out_of_range("too large")).is_some());
        assert!(unreadable(&Status::cancelled("gone")).is_none());
        assert!(unreadable(&Status::unknown("h2 protocol error")).is_none());
    }

    #[test]
    fn a_long_list_of_errors_is_cut_at_a_line() {
        let line = "queue `root.a`: something is wrong with it\n";
        let text = shortened(line.repeat(1_000));
        assert!(text.len() < STATUS_TEXT_BYTES + 100);
        let (kept, rest) = text.rsplit_once('\n').unwrap();
        assert!(kept.ends_with("with it"));
        let cut = 1_000 - kept.lines().count();
        assert!(rest.contains(&format!("{cut} more lines")), "{rest}");
        assert_eq!(shortened(line.to_owned()), line);
    }
}
