//! The reasons for which the service ends a stream or refuses a call, and their statuses.
//!
//! # Why no item is ever answered with a status
//! A status ends the whole stream. One bad ask must not affect the others, so the scheduler answers
//! it with a rejection and the stream continues.
//!
//! # Invariant
//! Every status carries its reason twice: in the trailer `x-si-reason`, for clients that do not
//! decode error details, and in `google.rpc.ErrorInfo`, with the object that it concerns.
//! `RetryInfo` is present if a retry makes sense, with the time to wait.

use std::time::Duration;

use monoceros_actors::UpdateError;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

pub use self::change::ChangeRefusal;
pub use self::claim::ClaimRefusal;
pub use self::refusal::RegistrationRefusal;
use self::status::detailed_status;
pub use self::status::internal;
pub(super) use self::status::with_owner;
pub(super) use self::status::with_reason;
use super::ATTEMPT_HEADER;
use super::kind::Dialect;
use super::session::attempt::Attempt;
use crate::identity::Denied;

mod change;
mod claim;
mod refusal;
mod status;

/// Retry delay when another member of the cluster can serve the client already.
const AT_ONCE: Duration = Duration::from_millis(10);
/// Retry delay when the scheduler is shutting down or was too slow.
const SOON: Duration = Duration::from_secs(1);
/// Retry delay after another client has taken over.
const LATER: Duration = Duration::from_secs(30);

/// Why a stream ends.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StreamEnd {
    /// A message came before the stream was bound, and names no resource manager.
    #[error("the first message of a stream must name its resource manager in `rmID`")]
    RmIdMissing,
    /// No resource manager can have the id that the stream names.
    #[error("{0}")]
    RmIdInvalid(String),
    /// A message names another resource manager than the one the stream is bound to.
    #[error("the stream belongs to `{bound}`, the message names `{named}`")]
    RmIdMismatch {
        /// The resource manager that the stream is bound to.
        bound: String,
        /// The resource manager that the message names.
        named: String,
    },
    /// A metadata value of the call cannot be read.
    #[error("metadata `{0}` cannot be read")]
    BadMetadata(&'static str),
    /// The resource manager has no session.
    #[error("`{rm_id}` is not registered: register, then send everything again")]
    NotRegistered {
        /// The id of the resource manager.
        rm_id: String,
        /// The cause that stopped its last session, if it is remembered.
        stopped_by: Option<String>,
    },
    /// The stream names a session that is not the current one.
    #[error("session {named} is over: register again, then send everything again")]
    SessionStale {
        /// The session that the stream names.
        named: String,
        /// The current session, if there is one.
        current: Option<u64>,
        /// The cause that stopped the last session, if there is no current one and the cause is
        /// remembered.
        stopped_by: Option<String>,
    },
    /// Client and scheduler no longer have the same state.
    #[error("{0}: register again, then send everything again")]
    ResyncRequired(Cause),
    /// The resource manager registered again.
    #[error("the resource manager has registered again, elsewhere")]
    Superseded {
        /// The instance that registered, if it is named.
        by: Option<String>,
    },
    /// A newer stream of the same kind took over.
    #[error("a newer stream of the same kind has taken over")]
    Displaced {
        /// The instance that opened the newer stream, if it is named.
        by: Option<String>,
    },
    /// The session has streams of the other dialect.
    #[error(
        "the session speaks the {} dialect since its first stream: register again to change it",
        .has.name()
    )]
    DialectMixed {
        /// The dialect of the open streams.
        has: Dialect,
    },
    /// The stream did not name its resource manager in time.
    #[error("the stream did not name its resource manager within {0:?}")]
    BindTimeout(Duration),
    /// The session was ended on purpose. An error, because the loop of a stock client takes OK for
    /// the end of a stream that may be opened again.
    #[error("the resource manager has been deregistered: to register again would undo that")]
    Deregistered,
    /// The service is shutting down.
    #[error("the scheduler is shutting down")]
    ShuttingDown,
    /// A message could not be decoded, or is too large.
    #[error("{message}")]
    Unreadable {
        /// The transport's code: `ResourceExhausted` for a message that is too large once
        /// decompressed.
        code: Code,
        /// The transport's text.
        message: String,
    },
    /// A message has too many items; none of them was applied.
    #[error("a message of {items} items or more is refused whole: send at most {limit}")]
    TooManyItems {
        /// The number of items.
        items: usize,
        /// The maximum number of items.
        limit: usize,
    },
    /// The request body arrives too slowly or has stopped.
    #[error("the request came too slowly")]
    TooSlow,
    /// No memory was left in the decoding budget for this message.
    #[error("too many large messages are being read at this time: come back")]
    Overloaded,
    /// Too many calls without a session are open, in total or by this caller.
    #[error("too many calls without a session are open (`grpc.max_streams` is {0})")]
    TooManyStreams(usize),
    /// The limit of open connections is reached; only health is answered on this one.
    #[error("too many connections are open (`grpc.max_connections`): this one answers health only")]
    TooManyConnections,
    /// A request has a number where it must have none, or lacks a valid one.
    #[error("{0}")]
    Misnumbered(&'static str),
    /// The request with the next number is missing.
    #[error(
        "a request is missing: open the streams again, and send again what comes after {taken}"
    )]
    SequenceGap {
        /// The last number that was taken.
        taken: u64,
    },
    /// A callback stream did not begin with Hello.
    #[error("the first message of a callback stream must be a Hello")]
    HelloMissing,
    /// No Hello was received in time.
    #[error("no Hello came in time")]
    HelloTimeout,
    /// A shim broke the callback protocol.
    #[error("protocol error: {0}")]
    Violation(String),
    /// A shim kept sending results that answer no question.
    #[error("too many results that answer nothing")]
    ResultFlood,
    /// No heartbeat of the shim was received in time.
    #[error("the shim gave no sign of life")]
    Silent,
    /// The shim received no messages for too long.
    #[error("the shim took no messages for too long")]
    Stalled,
    /// The caller lacks the right.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// This member of the cluster may not decide, because its lease is over.
    #[error("this member of the cluster may not decide now: register again, at any member")]
    MemberFenced,
    /// Another member of the cluster serves the resource manager.
    #[error("another member of the cluster serves the resource manager: register again")]
    SessionMoved {
        /// The gRPC address of that member, if it is known.
        owner: Option<String>,
    },
    /// An internal error.
    #[error("{0}: register again")]
    Internal(&'static str),
    /// The client has disconnected; nobody reads this status.
    #[error("the client has gone")]
    ClientGone,
}

/// Why client and scheduler no longer have the same state.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Cause {
    /// The client's outbox ran over.
    #[error("too much was waiting to be read")]
    Overflow,
    /// A message of the client could not be read.
    #[error("a message could not be read")]
    ItemsLost,
    /// A stream was lost, and messages that it may not have delivered are no longer kept.
    #[error("messages of a lost stream may be missing")]
    Missed,
    /// An authorized caller requested the resync.
    #[error("{0}")]
    Asked(String),
    /// The scheduler lost the state of the resource manager.
    #[error("the scheduler lost its state: {0}")]
    StateLost(String),
}

impl StreamEnd {
    /// Whether the client has to register again and report everything.
    pub fn demands_registration(&self) -> bool {
        matches!(
            self,
            Self::NotRegistered { .. }
                | Self::SessionStale { .. }
                | Self::ResyncRequired(_)
                | Self::DialectMixed { .. }
                | Self::MemberFenced
                | Self::SessionMoved { .. }
                | Self::Internal(_)
        )
    }

    /// The status for a client whose stream is bound to this resource manager and session, if any.
    pub fn status(&self, bound: Option<(&str, u64)>) -> Status {
        let (code, reason) = match self {
            Self::RmIdMissing => (Code::InvalidArgument, "RM_ID_MISSING"),
            Self::RmIdMismatch { .. } => (Code::InvalidArgument, "RM_ID_MISMATCH"),
            Self::RmIdInvalid(_) | Self::BadMetadata(_) => (Code::InvalidArgument, "RM_ID_INVALID"),
            Self::NotRegistered { .. } => (Code::FailedPrecondition, "RM_NOT_REGISTERED"),
            Self::SessionStale { .. } => (Code::FailedPrecondition, "SESSION_STALE"),
            Self::ResyncRequired(_) => (Code::FailedPrecondition, "RESYNC_REQUIRED"),
            Self::Superseded { .. } => (Code::Aborted, "SESSION_SUPERSEDED"),
            Self::Displaced { .. } => (Code::Aborted, "STREAM_DISPLACED"),
            Self::DialectMixed { .. } => (Code::FailedPrecondition, "DIALECT_MIXED"),
            Self::BindTimeout(_) => (Code::DeadlineExceeded, "BIND_TIMEOUT"),
            Self::Deregistered => (Code::Aborted, "DEREGISTERED"),
            Self::ShuttingDown => (Code::Unavailable, "SHUTTING_DOWN"),
            Self::Unreadable { code: Code::ResourceExhausted, .. } => {
                (Code::ResourceExhausted, "LIMIT_BYTES")
            }
            Self::Unreadable { code, .. } => (*code, "MESSAGE_UNREADABLE"),
            Self::TooManyItems { .. } => (Code::ResourceExhausted, "LIMIT_ITEMS"),
            Self::TooSlow => (Code::DeadlineExceeded, "BODY_TIMEOUT"),
            Self::Overloaded => (Code::ResourceExhausted, "LIMIT_DECODING"),
            Self::TooManyStreams(_) => (Code::ResourceExhausted, "LIMIT_STREAMS"),
            Self::TooManyConnections => (Code::ResourceExhausted, "LIMIT_CONNECTIONS"),
            Self::Misnumbered(_) => (Code::InvalidArgument, "CLIENT_SEQ_INVALID"),
            Self::SequenceGap { .. } => (Code::Aborted, "SEQUENCE_GAP"),
            Self::HelloMissing => (Code::InvalidArgument, "HELLO_MISSING"),
            Self::HelloTimeout => (Code::DeadlineExceeded, "HELLO_TIMEOUT"),
            Self::Violation(_) => (Code::InvalidArgument, "PROTOCOL_VIOLATION"),
            Self::ResultFlood => (Code::ResourceExhausted, "RESULT_FLOOD"),
            Self::Silent => (Code::Unavailable, "HEARTBEAT_MISSED"),
            Self::Stalled => (Code::Unavailable, "STREAM_STALLED"),
            Self::Denied(Denied::Unknown) => (Code::Unauthenticated, "UNAUTHENTICATED"),
            Self::Denied(Denied::Rm { .. } | Denied::ReadRm { .. }) => {
                (Code::PermissionDenied, "RM_DENIED")
            }
            Self::Denied(Denied::ReadAll { .. }) => (Code::PermissionDenied, "READ_DENIED"),
            Self::Denied(Denied::Admin { .. }) => (Code::PermissionDenied, "ADMIN_DENIED"),
            Self::MemberFenced => (Code::Unavailable, "MEMBER_FENCED"),
            Self::SessionMoved { .. } => (Code::Unavailable, "SESSION_MOVED"),
            Self::Internal(_) => (Code::Internal, "INTERNAL_ERROR"),
            Self::ClientGone => (Code::Cancelled, "CLIENT_GONE"),
        };
        let about = bound
            .map(|(rm_id, session)| [("rmID", rm_id.to_owned()), ("session", session.to_string())]);
        let about = about.into_iter().flatten().chain(self.about());
        let status = detailed_status(code, reason, &self.to_string(), about, self.retry());
        match self {
            Self::SessionMoved { owner } => with_owner(status, owner.as_deref()),
            _ => status,
        }
    }

    /// The entries of `ErrorInfo.metadata`.
    fn about(&self) -> Vec<(&'static str, String)> {
        let given = |key, value: &Option<String>| value.iter().map(|v| (key, v.clone())).collect();
        match self {
            Self::NotRegistered { rm_id, stopped_by } => {
                let mut about: Vec<_> = given("stoppedBy", stopped_by);
                about.push(("rmID", rm_id.clone()));
                about
            }
            Self::SessionStale { current, stopped_by, .. } => {
                let mut about: Vec<_> = given("stoppedBy", stopped_by);
                about.extend(current.map(|current| ("session", current.to_string())));
                about
            }
            Self::ResyncRequired(cause) => vec![("cause", cause.to_string())],
            Self::Superseded { by } | Self::Displaced { by } => given("byInstance", by),
            Self::DialectMixed { has } => vec![("dialect", has.name().to_owned())],
            Self::SequenceGap { taken } => vec![("takenSeq", taken.to_string())],
            Self::SessionMoved { owner } => given("owner", owner),
            Self::TooManyItems { limit, .. } => vec![("limit", limit.to_string())],
            _ => Vec::new(),
        }
    }

    fn retry(&self) -> Option<Duration> {
        match self {
            Self::ShuttingDown
            | Self::BindTimeout(_)
            | Self::Overloaded
            | Self::TooManyStreams(_)
            | Self::TooManyConnections
            | Self::HelloTimeout
            | Self::Silent
            | Self::Stalled
            | Self::MemberFenced => Some(SOON),
            Self::SessionMoved { .. } => Some(AT_ONCE),
            Self::Superseded { .. } => Some(LATER),
            _ => None,
        }
    }
}

impl From<&StreamEnd> for Status {
    fn from(end: &StreamEnd) -> Self {
        end.status(None)
    }
}

impl From<StreamEnd> for Status {
    fn from(end: StreamEnd) -> Self {
        Self::from(&end)
    }
}

impl From<Denied> for Status {
    fn from(denied: Denied) -> Self {
        Self::from(&StreamEnd::from(denied))
    }
}

impl From<UpdateError> for StreamEnd {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::RmIdMissing => Self::RmIdMissing,
            UpdateError::NotRegistered(rm_id) => Self::NotRegistered { rm_id, stopped_by: None },
            UpdateError::Stopped => Self::ShuttingDown,
        }
    }
}

/// The value of a metadata key. `None` if it is absent or empty.
pub fn text<'m>(
    metadata: &'m MetadataMap,
    key: &'static str,
) -> Result<Option<&'m str>, StreamEnd> {
    let Some(value) = metadata.get(key) else { return Ok(None) };
    let text = value.to_str().map_err(|_| StreamEnd::BadMetadata(key))?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// The connection attempt to which a call belongs, if its client counts them.
pub fn attempt(metadata: &MetadataMap) -> Result<Option<Attempt>, StreamEnd> {
    let bad = || StreamEnd::BadMetadata(ATTEMPT_HEADER);
    text(metadata, ATTEMPT_HEADER)?.map(|text| Attempt::parse(text).ok_or_else(bad)).transpose()
}

#[cfg(test)]
mod tests {
    use tonic_types::StatusExt as _;

    use super::*;
    use crate::grpc::{OWNER_TRAILER, REASON_TRAILER};

    #[test]
    fn status_carries_reason_and_text() {
        let end = StreamEnd::NotRegistered {
            rm_id: "rm-1".to_owned(),
            stopped_by: Some("pauseTimeout".to_owned()),
        };
        let status = Status::from(&end);
        assert_eq!(status.code(), Code::FailedPrecondition);
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!((&*info.reason, &*info.domain), ("RM_NOT_REGISTERED", "scheduler-interface"));
        assert_eq!(info.metadata["rmID"], "rm-1");
        assert_eq!(info.metadata["stoppedBy"], "pauseTimeout");
        assert_eq!(status.metadata().get(REASON_TRAILER).unwrap(), "RM_NOT_REGISTERED");
        assert!(status.message().contains("`rm-1`"));
    }

    #[test]
    fn status_carries_retry_delay_and_subject() {
        let status = StreamEnd::ShuttingDown.status(Some(("rm-1", 7)));
        let details = status.get_error_details();
        assert_eq!(details.retry_info().unwrap().retry_delay, Some(SOON));
        assert_eq!(details.error_info().unwrap().metadata["session"], "7");
        assert!(Status::from(&StreamEnd::RmIdMissing).get_details_retry_info().is_none());
    }

    #[test]
    fn deregistration_is_an_error_without_a_retry() {
        let status = StreamEnd::Deregistered.status(Some(("rm-1", 7)));
        assert_eq!(status.code(), Code::Aborted);
        assert_eq!(status.metadata().get(REASON_TRAILER).unwrap(), "DEREGISTERED");
        assert!(status.message().contains("register again would undo that"));
        assert!(status.get_details_retry_info().is_none());
    }

    #[test]
    fn oversized_decompressed_message_is_limit_bytes() {
        let code = Code::ResourceExhausted;
        let status = Status::from(&StreamEnd::Unreadable { code, message: "large".to_owned() });
        assert_eq!(status.code(), code);
        assert_eq!(status.metadata().get(REASON_TRAILER).unwrap(), "LIMIT_BYTES");
    }

    #[test]
    fn foreign_text_is_cut_to_fit_headers() {
        for long in ["x".repeat(3 << 20), "ü".repeat(3 << 20)] {
            let asked = StreamEnd::ResyncRequired(Cause::Asked(long.clone()));
            let mismatch = StreamEnd::RmIdMismatch { bound: "rm".to_owned(), named: long };
            for end in [asked, mismatch] {
                let status = end.status(Some(("rm", 1)));
                let mut headers = tonic::codegen::http::HeaderMap::new();
                status.add_header(&mut headers).unwrap();
                let bytes: usize =
                    headers.iter().map(|(key, value)| key.as_str().len() + value.len()).sum();
                assert!(bytes < 8_192, "{bytes}");
                assert_eq!(status.get_error_details().error_info().unwrap().metadata["rmID"], "rm");
            }
        }
    }

    #[test]
    fn a_moved_session_names_its_owner() {
        let moved = |owner: Option<&str>| {
            let owner = owner.map(ToOwned::to_owned);
            Status::from(&StreamEnd::SessionMoved { owner })
        };
        let status = moved(Some("m-2:50051"));
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(status.metadata().get(REASON_TRAILER).unwrap(), "SESSION_MOVED");
        assert_eq!(status.metadata().get(OWNER_TRAILER).unwrap(), "m-2:50051");
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().metadata["owner"], "m-2:50051");
        assert_eq!(details.retry_info().unwrap().retry_delay, Some(AT_ONCE));
        assert!(moved(None).metadata().get(OWNER_TRAILER).is_none());
        assert!(moved(Some("no\nheader")).metadata().get(OWNER_TRAILER).is_none());
    }

    #[test]
    fn empty_metadata_values_count_as_absent() {
        let mut metadata = MetadataMap::new();
        assert_eq!(text(&metadata, "x-si-rm-id").unwrap(), None);
        metadata.insert("x-si-rm-id", "".parse().unwrap());
        assert_eq!(text(&metadata, "x-si-rm-id").unwrap(), None);
        metadata.insert("x-si-rm-id", "rm".parse().unwrap());
        assert_eq!(text(&metadata, "x-si-rm-id").unwrap(), Some("rm"));
    }
}
