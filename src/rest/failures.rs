//! Failures of handlers, with their status. Scripts compare the texts.

use std::time::Duration;

use axum::http::StatusCode;
use monoceros_actors::{ConfigurationError, DecisionKind, ExplainError, ReadError, names};

use super::applications::ACTIVE_STATUSES;
use super::decoding::BadEscape;
use crate::dump::DumpError;
use crate::identity::Denied;
use crate::logbook::history::POINTS_MAX;
use crate::reads::Busy;
use crate::snapshot::SnapshotError;

/// A handler has no document.
#[derive(Clone, Debug, thiserror::Error)]
#[cfg_attr(
    not(feature = "simulator"),
    expect(dead_code, reason = "some are of questions that are not answered without it")
)]
pub(super) enum Failure {
    #[error("Partition not found")]
    PartitionNotFound,
    #[error("Queue not found")]
    QueueNotFound,
    #[error("Node not found")]
    NodeNotFound,
    #[error("Application not found")]
    ApplicationNotFound,
    #[error("the page has no such part")]
    AssetNotFound,
    #[error(transparent)]
    NotExplained(ExplainError),
    #[error("offset `{0}` is no number")]
    Offset(String),
    #[error("label `{0}` has no name: write NAME=VALUE, or NAME for any value")]
    Label(String),
    #[error("label `{0}` is named twice: an application has one value for it")]
    RepeatedLabel(String),
    #[error("order `{0}` is neither oldest nor newest (nor waiting, of active applications)")]
    Order(String),
    #[error("limit `{0}` is no number of rows (1 or more)")]
    Limit(String),
    #[error("after `{0}` is no place in this list: follow the `Link` of a page")]
    After(String),
    #[error("Only following application states are allowed: active, rejected, completed")]
    ApplicationState,
    #[error("Only following application states are allowed: active")]
    QueueApplicationState,
    #[error("Only following active statuses are allowed: {}", ACTIVE_STATUSES.map(|(name, _)| name).join(","))]
    ActiveStatus,
    #[error("kind `{named}` is none of {}", DecisionKind::ALL.map(DecisionKind::name).join(", "))]
    DecisionKind { named: String },
    #[error("Health check is not available")]
    NotChecked,
    #[error("no history is kept here: `history.bytes` is 0")]
    NoHistory,
    #[error("what would happen is not answered here: `whatif.enabled` is false")]
    WhatIfDisabled,
    #[cfg(not(feature = "simulator"))]
    #[error("this program was built without answers to what would happen (feature `simulator`)")]
    WhatIfAbsent,
    #[error("another question of what would happen is being answered: come back later")]
    WhatIfBusy,
    #[error(
        "no answer within `whatif.deadline` ({0:?}): ask with a nearer `horizon`, with fewer `runs`, or \
         the command `monoceros whatif`"
    )]
    WhatIfLate(Duration),
    #[error(
        "`{rm}` has {objects} allocations, requests and nodes, more than `whatif.objects` ({most}): the \
         command `monoceros whatif` has no such bound"
    )]
    WhatIfTooLarge { rm: String, objects: usize, most: usize },
    #[error("`{field}`: {why}")]
    Question { field: String, why: String },
    #[error("{0}")]
    NoQuestion(String),
    #[error("{name} `{text}` is no time: seconds since the epoch, or negative: before now")]
    HistoryTime { name: &'static str, text: String },
    #[error("from ({from}) is after to ({to}), in seconds since the epoch")]
    HistoryRange { from: i64, to: i64 },
    #[error("points `{0}` is no number from 1 to {POINTS_MAX}")]
    HistoryPoints(String),
    #[error("age `{0}` is no duration: seconds, or a text such as 90s, 2m or 1h")]
    Age(String),
    #[error("Event tracking is disabled")]
    EventsDisabled,
    #[error("0 is not a valid value for \"count\"")]
    NoEvents,
    #[error("{name} `{text}` is no number from 0 to {}", u64::MAX)]
    EventNumber { name: &'static str, text: String },
    #[error("Too many streaming connections")]
    TooManyStreams,
    #[error("User not found")]
    UserNotFound,
    #[error("Group not found")]
    GroupNotFound,
    #[error("Invalid user name")]
    UserName,
    #[error("Invalid group name")]
    GroupName,
    #[error("resource manager `{0}` is not registered")]
    RmNotFound(String),
    #[error(transparent)]
    BadEscape(#[from] BadEscape),
    #[error(
        "queue path `{0}` is not valid: a queue name has at most 64 characters, which are \
         alphanumerics and -, _, #, @, /, :"
    )]
    QueueName(String),
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("the body has more than {0} bytes (`rest.max_body_bytes`)")]
    BodyTooLarge(usize),
    #[error("the body did not come to its end: {0}")]
    BodyBroken(String),
    #[error(transparent)]
    Busy(#[from] Busy),
    #[error(transparent)]
    NoSnapshot(#[from] SnapshotError),
    #[error("{name} `{text}` is neither true nor false")]
    Flag { name: &'static str, text: String },
    #[error("the scheduler is stopped")]
    Stopped,
    #[error("this replica stands by; {}", match .0 {
        Some(leader) => format!("{leader} schedules"),
        None => "which one schedules is not known yet".to_owned(),
    })]
    StandsBy(Option<String>),
    #[error("the scheduler is elsewhere: {0}")]
    RemoteScheduler(String),
    #[error("{0}")]
    Document(String),
}

impl Failure {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::PartitionNotFound
            | Self::QueueNotFound
            | Self::NodeNotFound
            | Self::ApplicationNotFound
            | Self::AssetNotFound
            | Self::NotExplained(_)
            | Self::UserNotFound
            | Self::GroupNotFound
            | Self::NotChecked
            | Self::NoHistory
            | Self::WhatIfDisabled
            | Self::RemoteScheduler(_)
            | Self::RmNotFound(_) => StatusCode::NOT_FOUND,
            #[cfg(not(feature = "simulator"))]
            Self::WhatIfAbsent => StatusCode::NOT_FOUND,
            Self::WhatIfBusy => StatusCode::TOO_MANY_REQUESTS,
            Self::WhatIfLate(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::WhatIfTooLarge { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::BadEscape(_)
            | Self::Question { .. }
            | Self::NoQuestion(_)
            | Self::HistoryTime { .. }
            | Self::HistoryRange { .. }
            | Self::HistoryPoints(_)
            | Self::Age(_)
            | Self::QueueName(_)
            | Self::ApplicationState
            | Self::QueueApplicationState
            | Self::NoEvents
            | Self::EventNumber { .. }
            | Self::Offset(_)
            | Self::Order(_)
            | Self::Label(_)
            | Self::RepeatedLabel(_)
            | Self::Limit(_)
            | Self::After(_)
            | Self::ActiveStatus
            | Self::DecisionKind { .. }
            | Self::UserName
            | Self::GroupName
            | Self::Flag { .. }
            | Self::BodyBroken(_) => StatusCode::BAD_REQUEST,
            Self::BodyTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Denied(Denied::Unknown) => StatusCode::UNAUTHORIZED,
            Self::Denied(_) => StatusCode::FORBIDDEN,
            Self::Busy(_) | Self::Stopped | Self::StandsBy(_) | Self::TooManyStreams => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::NoSnapshot(SnapshotError::Busy) => StatusCode::TOO_MANY_REQUESTS,
            Self::NoSnapshot(SnapshotError::TooLarge { .. }) => StatusCode::INSUFFICIENT_STORAGE,
            Self::NoSnapshot(SnapshotError::NotRead(_)) => StatusCode::NOT_FOUND,
            Self::NoSnapshot(_) | Self::Document(_) | Self::EventsDisabled => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::PartitionNotFound(_) => Self::PartitionNotFound,
            ReadError::QueueNotFound(_) => Self::QueueNotFound,
            ReadError::NotAPlace(text) => Self::After(names::shown(&text)),
            ReadError::Stopped => Self::Stopped,
        }
    }
}

impl From<ExplainError> for Failure {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Unread(error) => error.into(),
            error => Self::NotExplained(error),
        }
    }
}

impl From<ConfigurationError> for Failure {
    fn from(error: ConfigurationError) -> Self {
        match error {
            ConfigurationError::NotRegistered(rm) => Self::RmNotFound(rm),
            ConfigurationError::Stopped => Self::Stopped,
            error => Self::Document(error.to_string()),
        }
    }
}

impl From<DumpError> for Failure {
    fn from(error: DumpError) -> Self {
        match error {
            DumpError::Stopped => Self::Stopped,
            DumpError::Document(_) => Self::Document(error.to_string()),
        }
    }
}
