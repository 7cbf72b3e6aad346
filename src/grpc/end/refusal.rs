//! The reasons for which a registration is refused, and their statuses.
//!
//! Separate from [`StreamEnd`](super::StreamEnd) because a refusal ends nothing: an earlier session
//! of the resource manager continues.

use std::time::Duration;

use monoceros_actors::RegisterError;
use tonic::{Code, Status};

use super::claim::ClaimRefusal;
use super::status::{detailed_status, shortened};
use super::{LATER, SOON};

/// Why a registration was refused. An earlier session of the resource manager continues.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationRefusal {
    /// The scheduler refused it.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// A metadata value of the call cannot be read.
    #[error("metadata `{0}` cannot be read")]
    BadMetadata(&'static str),
    /// The limit of registered resource managers is reached. With access rules it counts per
    /// caller.
    #[error("{0} resource managers are registered, which is the limit (`grpc.max_sessions`)")]
    TooManySessions(usize),
    /// A field of the registration is too long.
    #[error("`{field}` has more than {limit} bytes")]
    IdTooLong {
        /// The field of the request.
        field: &'static str,
        /// The maximum length in bytes.
        limit: usize,
    },
    /// The maps of the registration have too many entries.
    #[error("a registration of {items} entries is refused: send at most {limit}")]
    TooManyItems {
        /// The number of entries.
        items: usize,
        /// The maximum number of entries.
        limit: usize,
    },
    /// The queue configuration of the policy group cannot be read.
    #[error("the queue configuration of policy group `{group}` cannot be read: {why}")]
    PolicyUnreadable {
        /// The policy group.
        group: String,
        /// The error of the system, or of the validation of the file.
        why: String,
    },
    /// Another resource manager uses the policy group with a different configuration.
    #[error("policy group `{group}` is used by `{other}` with another queue configuration")]
    PolicyGroupConflict {
        /// The policy group.
        group: String,
        /// The resource manager that uses it.
        other: String,
    },
    /// The queue configuration is larger than the store of the cluster keeps.
    #[error("{0}")]
    ConfigTooLarge(String),
    /// The store of the cluster answers, and does not keep the queue configuration.
    #[error("the queue configuration of policy group `{group}` was not kept: {why}")]
    ConfigNotKept {
        /// The policy group.
        group: String,
        /// The failure of the store.
        why: String,
    },
    /// A later attempt of the same client has registered already.
    #[error("a later attempt of this client has registered")]
    LeftOver,
    /// The registration won no claim in the cluster. The earlier session may have ended.
    #[error(transparent)]
    Claim(#[from] ClaimRefusal),
    /// The registration took longer than this.
    #[error("the registration took longer than {0:?}")]
    TooSlow(Duration),
    /// An internal error.
    #[error("the registration ended unexpectedly")]
    Internal,
}

impl From<RegistrationRefusal> for Status {
    fn from(refusal: RegistrationRefusal) -> Self {
        let (code, reason, retry) = match &refusal {
            RegistrationRefusal::Register(RegisterError::RmIdMissing) => {
                (Code::InvalidArgument, "RM_ID_MISSING", None)
            }
            RegistrationRefusal::Register(RegisterError::RmIdInvalid(_))
            | RegistrationRefusal::BadMetadata(_) => (Code::InvalidArgument, "RM_ID_INVALID", None),
            RegistrationRefusal::Register(RegisterError::Config(_))
            | RegistrationRefusal::PolicyUnreadable { .. }
            | RegistrationRefusal::ConfigTooLarge(_) => {
                (Code::InvalidArgument, "CONFIG_INVALID", None)
            }
            RegistrationRefusal::Register(RegisterError::Stopped) => {
                (Code::Unavailable, "SHUTTING_DOWN", Some(SOON))
            }
            RegistrationRefusal::ConfigNotKept { .. } => {
                (Code::Unavailable, "ARBITER_UNAVAILABLE", Some(LATER))
            }
            RegistrationRefusal::TooManySessions(_) => {
                (Code::ResourceExhausted, "LIMIT_SESSIONS", Some(LATER))
            }
            RegistrationRefusal::IdTooLong { .. } => (Code::ResourceExhausted, "LIMIT_ID", None),
            RegistrationRefusal::TooManyItems { .. } => {
                (Code::ResourceExhausted, "LIMIT_ITEMS", None)
            }
            RegistrationRefusal::PolicyGroupConflict { .. } => {
                (Code::FailedPrecondition, "POLICY_GROUP_CONFLICT", None)
            }
            RegistrationRefusal::LeftOver => (Code::Aborted, "SESSION_SUPERSEDED", None),
            RegistrationRefusal::Claim(refusal) => return Self::from(refusal),
            RegistrationRefusal::TooSlow(_) => {
                (Code::DeadlineExceeded, "REGISTRATION_TIMEOUT", Some(SOON))
            }
            RegistrationRefusal::Internal => (Code::Internal, "INTERNAL_ERROR", None),
        };
        let text = match &refusal {
            RegistrationRefusal::Register(RegisterError::Config(errors)) => errors.to_string(),
            other => other.to_string(),
        };
        detailed_status(code, reason, &shortened(text), [], retry)
    }
}
