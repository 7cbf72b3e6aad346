//! Why a call of the admin or the metrics service is refused, and the status that says so.
//!
//! One `match` makes the status of every refusal, so a new reason cannot be forgotten there, and
//! two calls that fail for one reason fail with one code.

use monoceros_actors::Refused;
use monoceros_actors::{ExplainError, ReadError, TooBusy, UpdateError};
use tonic::{Code, Status};

use crate::grpc::end::{StreamEnd, internal, with_reason};
use crate::identity::Denied;
use crate::reads::Busy;

/// A call that does nothing but say why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::grpc) enum CallRefusal {
    /// No resource manager is named, and there is more than one.
    #[error("name the resource manager in `rm_id`: {0} are registered")]
    RmIdMissing(usize),
    /// The resource manager is not there.
    #[error("resource manager `{0}` is not registered")]
    NotRegistered(String),
    /// No resource manager is named, and there is none.
    #[error("no resource manager is registered")]
    NobodyRegistered,
    /// The resource manager has no such partition.
    #[error("resource manager `{rm_id}` has no partition `{partition}`")]
    PartitionUnknown { rm_id: String, partition: String },
    /// The partition has no such queue.
    #[error("there is no queue `{0}`")]
    QueueUnknown(String),
    /// There is no such application or request, or the application is over.
    #[error(transparent)]
    NotExplained(ExplainError),
    /// No way leads from the present state of the partition to that one.
    #[error("partition `{partition}`: {refused}")]
    StateRefused { partition: String, refused: Refused },
    /// A field of the request cannot be used.
    #[error("`{field}`: {reason}")]
    BadField { field: &'static str, reason: String },
    /// The caller may not do this.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The caller is a resource manager that is not alone in its policy group. Who else is in it is
    /// none of its business.
    #[error(
        "policy group `{0}` is shared with another resource manager: only an administrator may \
         change a configuration of it"
    )]
    GroupShared(String),
    /// Too many configurations are being checked.
    #[error(transparent)]
    TooBusy(#[from] TooBusy),
    /// Too much is read, or was read and is not taken.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The answer could not be written.
    #[error("the answer could not be written: {0}")]
    Unwritten(String),
    /// The scheduler has stopped.
    #[error("the scheduler is shutting down")]
    Stopped,
}

impl CallRefusal {
    pub(in crate::grpc) fn field(field: &'static str, reason: impl Into<String>) -> Self {
        Self::BadField { field, reason: reason.into() }
    }
}

impl From<CallRefusal> for Status {
    fn from(refusal: CallRefusal) -> Self {
        let (code, reason) = match &refusal {
            CallRefusal::RmIdMissing(_) => (Code::InvalidArgument, "RM_ID_MISSING"),
            CallRefusal::NotRegistered(_) | CallRefusal::NobodyRegistered => {
                (Code::FailedPrecondition, "RM_NOT_REGISTERED")
            }
            CallRefusal::PartitionUnknown { .. } => (Code::NotFound, "PARTITION_UNKNOWN"),
            CallRefusal::QueueUnknown(_) => (Code::NotFound, "QUEUE_UNKNOWN"),
            CallRefusal::NotExplained(ExplainError::AskNotFound { .. }) => {
                (Code::NotFound, "REQUEST_UNKNOWN")
            }
            CallRefusal::NotExplained(ExplainError::ApplicationEnded { .. }) => {
                (Code::NotFound, "APPLICATION_ENDED")
            }
            CallRefusal::NotExplained(_) => (Code::NotFound, "APPLICATION_UNKNOWN"),
            CallRefusal::StateRefused { .. } => (Code::FailedPrecondition, "STATE_REFUSED"),
            CallRefusal::BadField { .. } => (Code::InvalidArgument, "FIELD_INVALID"),
            CallRefusal::Denied(denied) => return Status::from(denied.clone()),
            CallRefusal::GroupShared(_) => (Code::PermissionDenied, "ADMIN_DENIED"),
            CallRefusal::TooBusy(_) => (Code::Unavailable, "CHECKS_BUSY"),
            CallRefusal::Busy(_) => (Code::ResourceExhausted, "LIMIT_READS"),
            CallRefusal::Unwritten(_) => return internal(&refusal.to_string()),
            CallRefusal::Stopped => return Status::from(&StreamEnd::ShuttingDown),
        };
        with_reason(code, reason, &refusal.to_string())
    }
}

impl From<UpdateError> for CallRefusal {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::RmIdMissing => Self::NobodyRegistered,
            UpdateError::NotRegistered(rm_id) => Self::NotRegistered(rm_id),
            UpdateError::Stopped => Self::Stopped,
        }
    }
}

impl CallRefusal {
    /// What a read of `partition` (with its RM) did not find.
    pub(in crate::grpc) fn unread(error: ReadError, rm_id: &str) -> Self {
        match error {
            ReadError::PartitionNotFound(partition) => {
                let plain = monoceros_actors::config::plain_name(&partition).to_owned();
                Self::PartitionUnknown { rm_id: rm_id.to_owned(), partition: plain }
            }
            ReadError::QueueNotFound(queue) => Self::QueueUnknown(queue),
            ReadError::NotAPlace(_) => Self::field("page_token", error.to_string()),
            ReadError::Stopped => Self::Stopped,
        }
    }
}
