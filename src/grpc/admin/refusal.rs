//! The reasons for which an admin or metrics call is refused, and their statuses.
//!
//! One `match` maps every refusal to a status: no new reason can be forgotten, and two calls that
//! fail for the same reason return the same code.

use monoceros_actors::Refused;
use monoceros_actors::{ExplainError, ReadError, TooBusy, UpdateError};
use tonic::{Code, Status};

use crate::cluster::operations::OperationRefusal;
use crate::grpc::end::{StreamEnd, internal, with_owner, with_reason};
use crate::identity::{Denied, Identity};
use crate::reads::Busy;
use crate::snapshot::SnapshotError;

/// Most resource managers that a refusal names.
const NAMED: usize = 10;

/// Why a call is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::grpc) enum CallRefusal {
    /// No resource manager is named, and several are registered. `named` has those that the caller
    /// may read.
    #[error("name the resource manager in `rm_id`: {registered} are registered{named}")]
    RmIdMissing { registered: usize, named: String },
    /// A stream of reports names two resource managers, which may have different owners.
    #[error(
        "the stream belongs to `{bound}`, the message names `{named}`: in a cluster send the \
         reports of each resource manager on a stream of its own (those before this message were \
         taken)"
    )]
    OtherRm { bound: String, named: String },
    #[error("resource manager `{0}` is not registered")]
    NotRegistered(String),
    /// No resource manager is named, and none is registered.
    #[error("no resource manager is registered")]
    NobodyRegistered,
    #[error("resource manager `{rm_id}` has no partition `{partition}`")]
    PartitionUnknown { rm_id: String, partition: String },
    /// No resource manager is registered, and the default configuration lacks the partition.
    #[error("no resource manager is registered, and without one there is no partition `{0}`")]
    DefaultPartitionUnknown(String),
    #[error("there is no queue `{0}`")]
    QueueUnknown(String),
    /// The application or request does not exist, or the application has ended.
    #[error(transparent)]
    NotExplained(ExplainError),
    /// The partition cannot change from its present state to that one.
    #[error("partition `{partition}`: {refused}")]
    StateRefused { partition: String, refused: Refused },
    /// A field of the request is invalid.
    #[error("`{field}`: {reason}")]
    BadField { field: &'static str, reason: String },
    /// The caller lacks the right.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The caller is a resource manager that shares its policy group. The refusal does not name the
    /// others, which the caller must not learn.
    #[error(
        "policy group `{0}` is shared with another resource manager: only an administrator may \
         change a configuration of it"
    )]
    GroupShared(String),
    /// Too many configurations are being validated.
    #[error(transparent)]
    TooBusy(#[from] TooBusy),
    /// The limit of reads in progress, or of results not yet received, is reached.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The lists of all members of a cluster are too large together.
    #[error(
        "the list of {whose} is too large: those of all members may have {mebibytes} MiB together"
    )]
    ListTooLarge { whose: String, mebibytes: usize },
    /// The reply could not be encoded.
    #[error("the answer could not be written: {0}")]
    Unwritten(String),
    /// There is no snapshot.
    #[error(transparent)]
    NoSnapshot(#[from] SnapshotError),
    /// The process is no member of a cluster.
    #[error("this scheduler is no member of a cluster (`cluster.arbiter` is `none`)")]
    NoCluster,
    /// The cluster refuses the operation.
    #[error(transparent)]
    Cluster(#[from] OperationRefusal),
    /// The scheduler has stopped.
    #[error("the scheduler is shutting down")]
    Stopped,
}

impl CallRefusal {
    pub(in crate::grpc) fn field(field: &'static str, reason: impl Into<String>) -> Self {
        Self::BadField { field, reason: reason.into() }
    }

    /// The refusal of a call that names none of several resource managers. Ids that the caller may
    /// not read are left out.
    pub(in crate::grpc) fn rm_id_missing(registered: &[String], caller: &Identity) -> Self {
        let readable = registered.iter().filter(|rm_id| caller.check_read(rm_id).is_ok());
        let mut names: Vec<_> =
            readable.take(NAMED + 1).map(|rm_id| format!("`{}`", rm_id.escape_debug())).collect();
        let more = if names.len() > NAMED { ", …" } else { "" };
        names.truncate(NAMED);
        let (colon, names) = (if names.is_empty() { "" } else { ": " }, names.join(", "));
        Self::RmIdMissing { registered: registered.len(), named: format!("{colon}{names}{more}") }
    }
}

impl From<CallRefusal> for Status {
    fn from(refusal: CallRefusal) -> Self {
        let (code, reason) = match &refusal {
            CallRefusal::RmIdMissing { .. } => (Code::InvalidArgument, "RM_ID_MISSING"),
            CallRefusal::OtherRm { .. } => (Code::InvalidArgument, "RM_ID_MISMATCH"),
            CallRefusal::NotRegistered(_)
            | CallRefusal::NobodyRegistered
            | CallRefusal::NoSnapshot(SnapshotError::NotRead(_)) => {
                (Code::FailedPrecondition, "RM_NOT_REGISTERED")
            }
            CallRefusal::PartitionUnknown { .. } | CallRefusal::DefaultPartitionUnknown(_) => {
                (Code::NotFound, "PARTITION_UNKNOWN")
            }
            CallRefusal::QueueUnknown(_) => (Code::NotFound, "QUEUE_UNKNOWN"),
            CallRefusal::NotExplained(ExplainError::AskNotFound { .. }) => {
                (Code::NotFound, "REQUEST_UNKNOWN")
            }
            CallRefusal::NotExplained(
                ExplainError::ApplicationEnded { .. } | ExplainError::ApplicationRemoved { .. },
            ) => (Code::NotFound, "APPLICATION_ENDED"),
            CallRefusal::NotExplained(_) => (Code::NotFound, "APPLICATION_UNKNOWN"),
            CallRefusal::StateRefused { .. } => (Code::FailedPrecondition, "STATE_REFUSED"),
            CallRefusal::BadField { .. } => (Code::InvalidArgument, "FIELD_INVALID"),
            CallRefusal::Denied(denied) => return Status::from(denied.clone()),
            CallRefusal::GroupShared(_) => (Code::PermissionDenied, "ADMIN_DENIED"),
            CallRefusal::TooBusy(_) => (Code::Unavailable, "CHECKS_BUSY"),
            CallRefusal::Busy(_) | CallRefusal::NoSnapshot(SnapshotError::Busy) => {
                (Code::ResourceExhausted, "LIMIT_READS")
            }
            CallRefusal::ListTooLarge { .. }
            | CallRefusal::NoSnapshot(SnapshotError::TooLarge { .. }) => {
                (Code::ResourceExhausted, "LIMIT_BYTES")
            }
            CallRefusal::NoSnapshot(_) | CallRefusal::Unwritten(_) => {
                return internal(&refusal.to_string());
            }
            CallRefusal::NoCluster => (Code::FailedPrecondition, "NO_CLUSTER"),
            CallRefusal::Cluster(refusal) => return cluster_status(refusal),
            CallRefusal::Stopped => return Status::from(&StreamEnd::ShuttingDown),
        };
        with_reason(code, reason, &refusal.to_string())
    }
}

/// The status of an operation that the cluster refuses.
fn cluster_status(refusal: &OperationRefusal) -> Status {
    let (code, reason) = match refusal {
        OperationRefusal::MemberUnknown(_) => (Code::NotFound, "MEMBER_UNKNOWN"),
        OperationRefusal::RmUnknown(_) => (Code::NotFound, "RM_UNKNOWN"),
        OperationRefusal::MemberUnfit { .. } => (Code::FailedPrecondition, "MEMBER_UNFIT"),
        OperationRefusal::AlreadyThere { .. } => (Code::FailedPrecondition, "ALREADY_THERE"),
        OperationRefusal::NoOtherMember => (Code::FailedPrecondition, "NO_OTHER_MEMBER"),
        OperationRefusal::AtMember { .. } => (Code::Unavailable, "NOT_OWNER"),
        OperationRefusal::Unreachable { .. } | OperationRefusal::Silent { .. } => {
            (Code::Unavailable, "MEMBER_UNREACHABLE")
        }
        OperationRefusal::MayNotDecide(_) => (Code::Unavailable, "MEMBER_FENCED"),
        OperationRefusal::NotMoved(_) => (Code::Unavailable, "CLAIM_CONTENDED"),
        OperationRefusal::NotWritten(_) => (Code::Unavailable, "ARBITER_UNAVAILABLE"),
        OperationRefusal::NothingToAccept => (Code::FailedPrecondition, "NOTHING_TO_ACCEPT"),
        OperationRefusal::Claim(refusal) => return Status::from(refusal),
    };
    let status = with_reason(code, reason, &refusal.to_string());
    match refusal {
        OperationRefusal::AtMember { address: grpc, .. }
        | OperationRefusal::Unreachable { grpc, .. } => with_owner(status, grpc.as_deref()),
        _ => status,
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
    /// Maps the error of a read from a partition of `rm_id`.
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
