//! Results and errors of calls of the embedding API. The engine uses them, too, so they are below the
//! handle of the scheduler, which uses the engine.

use std::collections::BTreeMap;
use std::pin::Pin;

use monoceros_config::difference::Difference;
use monoceros_config::reload::TypeInUse;
use monoceros_config::{ConfigErrors, ConfigWarning};
use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::queues::object_state::Refused;
use monoceros_rules::values::instant::rfc3339;

/// The scheduler did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The default queue configuration is not valid.
    #[error("the default queue configuration is not valid:\n{0}")]
    Queues(#[from] ConfigErrors),
    /// The operating system gave no thread.
    #[error("no thread for the scheduler: {0}")]
    Thread(#[from] std::io::Error),
    /// The thread ended before it had started the scheduler.
    #[error("the scheduler's thread ended while it started")]
    Ended,
}

/// A registration was refused; an earlier session of the same RM continues.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The request names no RM.
    #[error("rmID missing")]
    RmIdMissing,
    /// The id is too long or has characters that are not allowed.
    #[error("rmID `{0}` is not valid: 1 to 128 bytes without control characters and brackets")]
    RmIdInvalid(String),
    /// The queue configuration is not valid.
    #[error("queue configuration is not valid:\n{0}")]
    Config(#[from] ConfigErrors),
    /// The scheduler has been shut down.
    #[error("the scheduler is stopped")]
    Stopped,
}

/// A request was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The request names no RM.
    #[error("rmID missing")]
    RmIdMissing,
    /// No such RM is registered.
    #[error("resource manager `{0}` is not registered: register it first")]
    NotRegistered(String),
    /// The scheduler has been shut down.
    #[error("the scheduler is stopped")]
    Stopped,
}

/// A read failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No such partition.
    #[error("partition `{0}` not found")]
    PartitionNotFound(String),
    /// No such queue.
    #[error("queue `{0}` not found")]
    QueueNotFound(String),
    /// A page of a numbered list is to begin after a text that is no number.
    #[error("`{0}` is no place in this list")]
    NotAPlace(String),
    /// The scheduler has been shut down.
    #[error("the scheduler is stopped")]
    Stopped,
}

/// There is no pending ask to explain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// No such application is in the partition, or among those that are kept after their end.
    #[error("application `{0}` not found")]
    ApplicationNotFound(String),
    /// The application is over.
    #[error("application `{application}` {} at {}{}", ended(*.state), rfc3339(*.at_ns), because(.rejected.as_deref()))]
    ApplicationEnded {
        /// The id of the application.
        application: String,
        /// `Completed`, `Failed` or `Rejected`.
        state: ApplicationState,
        /// When it ended, ns since the epoch.
        at_ns: i64,
        /// Why it was rejected.
        rejected: Option<Box<str>>,
    },
    /// Its RM has removed the application.
    #[error("application `{application}` was removed by its resource manager {rm} at {}{work}", rfc3339(*.at_ns))]
    ApplicationRemoved {
        /// The id of the application.
        application: String,
        /// The id of the RM.
        rm: String,
        /// When it was removed, ns since the epoch.
        at_ns: i64,
        /// The work that it had then, as the rest of the sentence.
        work: Box<str>,
    },
    /// The application has no such ask.
    #[error("ask `{ask}` of application `{application}` not found")]
    AskNotFound {
        /// The id of the application.
        application: String,
        /// The key of the ask.
        ask: String,
    },
    /// The partition could not be read.
    #[error(transparent)]
    Unread(#[from] ReadError),
}

fn ended(state: ApplicationState) -> &'static str {
    match state {
        ApplicationState::Completed => "completed",
        ApplicationState::Rejected => "was rejected",
        _ => "failed",
    }
}

fn because(rejected: Option<&str>) -> String {
    rejected.map(|why| format!(": {why}")).unwrap_or_default()
}

/// A configuration was accepted, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationUpdate {
    /// The id of the RM.
    pub rm_id: String,
    /// The text that was in force before.
    pub old_config: String,
    /// The checksum of [`Self::old_config`].
    pub old_checksum: String,
    /// The checksum of the text that is in force now.
    pub new_checksum: String,
    /// Whether the two differ. If not, the queues are unchanged.
    pub changed: bool,
    /// The differences, with the usage just before the change.
    pub difference: Difference,
    /// Parts of the new configuration that probably do not mean what its author intends.
    pub warnings: Vec<ConfigWarning>,
}

/// The id of an RM that uses a default configuration, and the result of changing it.
pub type OutcomeOfDefaults = (String, Result<ConfigurationUpdate, ConfigurationError>);

/// The result of a change that the RM has not answered yet.
pub type PendingUpdate =
    Pin<Box<dyn Future<Output = Result<ConfigurationUpdate, ConfigurationError>> + Send>>;

/// The id of an RM that uses a default configuration, and the pending result of changing it.
pub type PendingOutcome = (String, PendingUpdate);

/// A configuration was not checked in time, because others are being checked or it took too long.
/// Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it was not checked within 5 s, because other configurations are; try again later")]
pub struct TooBusy;

/// A configuration was refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// The request names no RM, and there is not exactly one.
    #[error("rmID missing: it may be left out while exactly one resource manager is registered")]
    RmIdMissing,
    /// No such RM is registered.
    #[error("resource manager `{0}` is not registered")]
    NotRegistered(String),
    /// The policy group of an RM cannot change while it is registered.
    #[error("policy group `{given}` is not `{registered}`, that of the registration")]
    PolicyGroup {
        /// The policy group in the request.
        given: String,
        /// The policy group of the registration.
        registered: String,
    },
    /// The text is not valid.
    #[error("queue configuration is not valid:\n{0}")]
    Invalid(ConfigErrors),
    /// Too many other configurations are being checked.
    #[error(transparent)]
    TooBusy(#[from] TooBusy),
    /// A queue with applications would change between leaf and parent.
    #[error(transparent)]
    TypeInUse(#[from] TypeInUse),
    /// A partition of the RM was lost to an internal failure: it must register again.
    #[error("a partition of `{0}` was lost; it must register again")]
    PartitionLost(String),
    /// The scheduler has been shut down.
    #[error("the scheduler is stopped")]
    Stopped,
}

impl From<UpdateError> for ConfigurationError {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::RmIdMissing => Self::RmIdMissing,
            UpdateError::NotRegistered(rm) => Self::NotRegistered(rm),
            UpdateError::Stopped => Self::Stopped,
        }
    }
}

/// The configuration in force for an RM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationSnapshot {
    /// The id of the RM.
    pub rm_id: String,
    /// The policy group: `queues` unless the registration named another.
    pub policy_group: String,
    /// The text of the queue configuration (YAML).
    pub config: String,
    /// The extra part as the RM sent it last, with whatever secrets are in it.
    pub extra_config: BTreeMap<String, String>,
    /// The checksum of [`Self::config`]: 64 upper-case hex digits.
    pub checksum: String,
}

/// A change of the state of a partition was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartitionStateError {
    /// The RM cannot be reached.
    #[error(transparent)]
    Rm(#[from] UpdateError),
    /// The RM has no such partition.
    #[error("partition `{0}` not found")]
    PartitionNotFound(String),
    /// There is no transition from its present state to the requested one.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// The numbers of objects that were removed with an RM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Allocations that were released.
    pub allocations: u64,
    /// Nodes of its partitions.
    pub nodes: u64,
    /// Applications that had not ended.
    pub applications: u64,
}

impl Removed {
    pub(crate) fn add(&mut self, other: Self) {
        self.allocations += other.allocations;
        self.nodes += other.nodes;
        self.applications += other.applications;
    }
}
