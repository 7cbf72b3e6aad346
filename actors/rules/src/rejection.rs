//! Why something an RM sent was not accepted: the sentences and codes of the interface
//! (scheduler-interface chapter, section 4).
//!
//! A reason on the wire is `<sentence> [<code>]`: people read the sentence, programs the bracket.
//! Every sentence names the object it is about.

use std::sync::Arc;

use crate::object_state::ObjectState;

/// A reason with its code. `Display` gives the text for the wire.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// V9: the application's id is empty or too long.
    #[error("applicationID {0} [R_APP_ID]")]
    ApplicationId(&'static str),
    /// V10: the id is that of an active application.
    #[error("application `{0}` already existed [R_APP_EXISTS]")]
    ApplicationExists(Arc<str>),
    /// V12, V24: no such partition of this RM.
    #[error(
        "application or node names partition `{0}`: partition doesn't exist, failed to find partition [R_PARTITION_UNKNOWN]"
    )]
    PartitionUnknown(String),
    /// V13: the user cannot be resolved.
    #[error("application `{id}`: {why} [R_USER]")]
    User {
        /// Of the application.
        id: Arc<str>,
        /// What is wrong with the user.
        why: String,
    },
    /// V15: no queue for the application.
    #[error("application `{id}`: {why} [R_PLACEMENT {cause}]")]
    Placement {
        /// Of the application.
        id: Arc<str>,
        /// In words.
        why: String,
        /// The cause's code.
        cause: &'static str,
    },
    /// V15: the queue runs no applications.
    #[error(
        "application `{id}`: queue `{queue}` cannot run applications, it is not a leaf [R_NOT_LEAF]"
    )]
    NotLeaf {
        /// Of the application.
        id: Arc<str>,
        /// The queue it named.
        queue: String,
    },
    /// V18, V45, V57: the partition takes none for now.
    #[error("{what} `{id}`: partition `{partition}` is stopped: {state} [R_PARTITION_STOPPED]")]
    PartitionStopped {
        /// Application, node or allocation.
        what: &'static str,
        /// Of the one that came.
        id: Arc<str>,
        /// Where.
        partition: Arc<str>,
        /// The state that the partition is in.
        state: ObjectState,
    },
    /// V21: the key is empty or too long.
    #[error("allocationKey {0} [R_KEY]")]
    Key(&'static str),
    /// V22, V23: no such active application.
    #[error("failed to find application `{0}` [R_APP_UNKNOWN]")]
    ApplicationUnknown(Arc<str>),
    /// V56: the application takes no more asks.
    #[error("application `{id}` is {state} and takes no more asks [R_APP_STATE]")]
    ApplicationState {
        /// Of the application.
        id: Arc<str>,
        /// Its state.
        state: &'static str,
    },
    /// V25: nothing is asked for.
    #[error("allocation contains no resources: `{0}` [R_NO_RESOURCE]")]
    NoResource(Arc<str>),
    /// V17, V26: less than nothing is asked for.
    #[error("allocation contains negative resources: `{0}` [R_NEGATIVE_RESOURCE]")]
    NegativeResource(Arc<str>),
    /// V27: the sum of everything promised does not fit a 64-bit quantity.
    #[error("resource overflow: `{0}` [R_OVERFLOW]")]
    Overflow(Arc<str>),
    /// V29: the number of allocations is out of range.
    #[error(
        "invalid ask `{key}`: maxAllocations is {repeat}, it must be from 1 to {limit} [R_REPEAT]"
    )]
    Repeat {
        /// Of the ask.
        key: Arc<str>,
        /// As sent.
        repeat: i32,
        /// The most one ask may repeat.
        limit: u32,
    },
    /// V28: a placeholder of no task group.
    #[error("placeholder without task group: `{0}` [R_PLACEHOLDER_NO_TG]")]
    PlaceholderWithoutGroup(Arc<str>),
    /// V30, V35: no such node.
    #[error("failed to find node `{0}` [R_NODE_UNKNOWN]")]
    NodeUnknown(Arc<str>),
    /// V34, V35: the node is missing.
    #[error("{0} [R_NODE_MISSING]")]
    NodeMissing(String),
    /// V44: the node itself is not valid.
    #[error("node `{id}`: {why} [R_NODE_INVALID]")]
    NodeInvalid {
        /// As sent.
        id: Arc<str>,
        /// What is wrong.
        why: String,
    },
    /// V45: the id is in use.
    #[error("node `{id}` already exists in partition `{partition}` [R_NODE_EXISTS]")]
    NodeExists {
        /// Of the node.
        id: Arc<str>,
        /// Where.
        partition: Arc<str>,
    },
    /// V53: an action that is not defined.
    #[error("node `{id}`: unknown action {action} [R_NODE_ACTION]")]
    NodeAction {
        /// Of the node.
        id: Arc<str>,
        /// As sent.
        action: i32,
    },
    /// A part of the interface that this version does not schedule.
    #[error("`{id}`: {what} is not supported yet [R_UNSUPPORTED]")]
    Unsupported {
        /// The application or ask.
        id: Arc<str>,
        /// The feature.
        what: &'static str,
    },
    /// More resource names than the process can hold.
    #[error("`{id}`: {why} [R_OVERFLOW]")]
    Names {
        /// The application, ask or node.
        id: Arc<str>,
        /// The text of the table.
        why: String,
    },
}
