//! Rejections: the sentences and codes by which the interface reports why an item was not accepted.
//!
//! A reason on the wire is `<sentence> [<code>]`: people read the sentence, programs the bracket.
//! Every sentence names the object it is about. Clients match some of the words and the codes, so
//! both are part of the interface and must not be reworded; the table for people is in
//! `docs/grpc.md#why-an-item-was-refused`.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::queues::object_state::ObjectState;
use crate::specs::declaration::Fault;
use crate::specs::identity::UserError;
use crate::specs::quotas::OverQuota;
use crate::values::resources::{QUANTITY_MAX, Resources, Sum};

/// A text that is a constant of this program; owned only if the rejection was read from a file.
pub type Fixed = Cow<'static, str>;

/// A reason with its code. `Display` writes the text for the wire.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Rejection {
    /// The application's id is empty or too long.
    #[error("applicationID {0} [R_APP_ID]")]
    ApplicationId(Fixed),
    /// An active application has this id already.
    #[error("application `{0}` already existed [R_APP_EXISTS]")]
    ApplicationExists(Arc<str>),
    /// An application names no partition of this RM.
    #[error("application `{id}`: partition doesn't exist: `{partition}` [R_PARTITION_UNKNOWN]")]
    PartitionOfApplication {
        /// The id of the application.
        id: Arc<str>,
        /// The name of the partition, as sent.
        partition: String,
    },
    /// An ask or an allocation names no partition of this RM.
    #[error("allocation `{key}`: Failed to find partition `{partition}` [R_PARTITION_UNKNOWN]")]
    PartitionOfAllocation {
        /// The key of the ask or allocation.
        key: Arc<str>,
        /// The name of the partition, as sent.
        partition: String,
    },
    /// A node names no partition of this RM.
    #[error("node `{id}`: failed to find partition `{partition}` [R_PARTITION_UNKNOWN]")]
    PartitionOfNode {
        /// The id of the node.
        id: Arc<str>,
        /// The name of the partition, as sent.
        partition: String,
    },
    /// The user cannot be resolved.
    #[error("application `{id}`: {why} [R_USER {}]", .why.cause())]
    User {
        /// The id of the application.
        id: Arc<str>,
        /// The fault of the user.
        why: UserError,
    },
    /// No placement rule returns a queue for the application.
    #[error("application `{id}`: {why} [R_PLACEMENT {cause}]")]
    Placement {
        /// The id of the application.
        id: Arc<str>,
        /// The cause in words.
        why: String,
        /// The code of the cause.
        cause: Fixed,
    },
    /// The queue runs no applications.
    #[error(
        "application `{id}`: queue `{queue}` cannot run applications, it is not a leaf [R_NOT_LEAF]"
    )]
    NotLeaf {
        /// The id of the application.
        id: Arc<str>,
        /// The queue that it named.
        queue: String,
    },
    /// The queue that a placement rule returned does not exist and cannot be created.
    #[error("application `{id}`: {why} [R_QUEUE_CREATE {cause}]")]
    QueueCreate {
        /// The id of the application.
        id: Arc<str>,
        /// The cause in words.
        why: String,
        /// The code of the cause.
        cause: Fixed,
    },
    /// The queue does not order its applications by age, so that two gangs could wait for each
    /// other for ever.
    #[error(
        "application `{id}`: task groups need a fifo queue, queue `{queue}` has an unsupported sort \
         type [R_GANG_SORT]"
    )]
    GangSort {
        /// The id of the application.
        id: Arc<str>,
        /// The path of its queue.
        queue: Arc<str>,
    },
    /// Its placeholders or members together exceed the maximum that its queue can ever have.
    #[error(
        "application `{id}`: its task groups ask for {ask}, more than the maximum of queue `{queue}`, \
         {max} [R_GANG_TOO_LARGE]"
    )]
    GangTooLarge {
        /// The id of the application.
        id: Arc<str>,
        /// The path of its queue.
        queue: Arc<str>,
        /// The sum of all placeholders or members.
        ask: String,
        /// The least of the maxima of the queue and of those above it, except root.
        max: String,
    },
    /// Its members together exceed the limit of its user or group.
    #[error(
        "application `{id}`: its task groups ask for {ask}, more than the limit of {whose} in queue \
         `{queue}`, {max} [R_GANG_TOO_LARGE]"
    )]
    GangOverLimit {
        /// The id of the application.
        id: Arc<str>,
        /// The user or group, in words.
        whose: String,
        /// The path of the queue that the limit is set on.
        queue: Arc<str>,
        /// The sum of all members.
        ask: String,
        /// The limit.
        max: String,
    },
    /// The declaration of its members has a fault.
    #[error("application `{id}`: {fault} [R_GANG_DECLARATION]")]
    GangDeclaration {
        /// The id of the application.
        id: Arc<str>,
        /// The fault of the declaration.
        fault: Fault,
    },
    /// A placeholder of an application with declared task groups, for whose members places are held
    /// without placeholders.
    #[error(
        "placeholder `{key}`: application `{id}` has task groups, its members are held without \
         placeholders [R_GANG_PLACEHOLDER]"
    )]
    GangPlaceholder {
        /// The key of the placeholder.
        key: Arc<str>,
        /// The id of the application.
        id: Arc<str>,
    },
    /// The partition is being removed or is stopped, and accepts no new items of this kind.
    #[error(
        "{what} `{id}`: partition `{partition}` is stopped{} [R_PARTITION_STOPPED]",
        unless_stopped(*.state)
    )]
    PartitionStopped {
        /// The kind of the item: application, node or allocation.
        what: Fixed,
        /// The id or key of the item.
        id: Arc<str>,
        /// The name of the partition.
        partition: Arc<str>,
        /// The state that the partition is in.
        state: ObjectState,
    },
    /// The key is empty or too long.
    #[error("allocationKey {0} [R_KEY]")]
    Key(Fixed),
    /// No active application has this id.
    #[error("failed to find application `{0}` [R_APP_UNKNOWN]")]
    ApplicationUnknown(Arc<str>),
    /// The application accepts no more asks.
    #[error("application `{id}` is {state} and takes no more asks [R_APP_STATE]")]
    ApplicationState {
        /// The id of the application.
        id: Arc<str>,
        /// The state of the application.
        state: Fixed,
    },
    /// The ask or allocation has no resources, or only zeros.
    #[error("allocation contains no resources: `{0}` [R_NO_RESOURCE]")]
    NoResource(Arc<str>),
    /// The amount announced for placeholders is negative.
    #[error("negative placeholderAsk: `{0}` [R_NEGATIVE_RESOURCE]")]
    NegativePlaceholders(Arc<str>),
    /// A quantity of the ask or allocation is negative.
    #[error("allocation contains negative resources: `{0}` [R_NEGATIVE_RESOURCE]")]
    NegativeResource(Arc<str>),
    /// An amount of the item, or a sum with that amount, is beyond the range of a quantity.
    #[error("resource overflow: `{id}`: {why} [R_OVERFLOW]")]
    Overflow {
        /// The key of the ask or allocation, or the id of the node or application.
        id: Arc<str>,
        /// The amount that is too large.
        why: Overflow,
    },
    /// The number of allocations is out of range.
    #[error(
        "invalid ask `{key}`: maxAllocations is {repeat}, it must be from 1 to {limit} [R_REPEAT]"
    )]
    Repeat {
        /// The key of the ask.
        key: Arc<str>,
        /// The number of allocations, as sent.
        repeat: i32,
        /// The largest number of allocations of one ask.
        limit: u32,
    },
    /// A placeholder without a task group.
    #[error("placeholder without task group: `{0}` [R_PLACEHOLDER_NO_TG]")]
    PlaceholderWithoutGroup(Arc<str>),
    /// The name of the task group is longer than an id may be.
    #[error("name of the task group too long: `{0}` [R_TASK_GROUP]")]
    GroupName(Arc<str>),
    /// An allocation on a node that does not exist.
    #[error("failed to find node `{0}` [R_NODE_UNKNOWN]")]
    NodeUnknown(Arc<str>),
    /// A report of an existing allocation that names no node.
    #[error("{0} [R_NODE_MISSING]")]
    NodeMissing(String),
    /// The node has no usable id, or negative amounts.
    #[error("node `{id}`: {why} [R_NODE_INVALID]")]
    NodeInvalid {
        /// The id of the node, as sent.
        id: Arc<str>,
        /// The fault of the node.
        why: String,
    },
    /// A node has this id already.
    #[error("node `{id}` already exists in partition `{partition}` [R_NODE_EXISTS]")]
    NodeExists {
        /// The id of the node.
        id: Arc<str>,
        /// The name of the partition.
        partition: Arc<str>,
    },
    /// An action on a node that is not defined.
    #[error(
        "node `{id}`: unknown action {action}: set `action`, to CREATE or CREATE_DRAIN for a new \
         node [R_NODE_ACTION]"
    )]
    NodeAction {
        /// The id of the node.
        id: Arc<str>,
        /// The number of the action, as sent.
        action: i32,
    },
    /// An ask whose placement constraint has a fault.
    #[error("`{key}`: its placement constraint cannot be taken: {what} [R_CONSTRAINT]")]
    Constraint {
        /// The key of the ask.
        key: Arc<str>,
        /// The fault of the constraint, with its position.
        what: String,
    },
    /// Its RM has reached one of its quotas.
    #[error("`{id}`: {over} [{}]", over.quota.code())]
    OverQuota {
        /// The id of the application or node, or the key of the ask.
        id: Arc<str>,
        /// The quota that would be exceeded.
        over: OverQuota,
    },
    /// A text of the item is too long.
    #[error("`{id}`: {what} is longer than {limit} bytes [R_TEXT]")]
    TextTooLong {
        /// The id of the application or node, or the key of the ask.
        id: Arc<str>,
        /// The name of the text.
        what: Fixed,
        /// The most bytes of the text.
        limit: usize,
    },
    /// The item would need more resource names than its RM may use at a time.
    #[error("`{id}`: {why} [R_OVERFLOW]")]
    Names {
        /// The id of the application or node, or the key of the ask.
        id: Arc<str>,
        /// The reason, as the table of names words it.
        why: String,
    },
}

/// An amount that cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Overflow {
    /// A quantity is above the largest one of one item.
    #[error("{amount} of `{resource}`, at most {QUANTITY_MAX} are taken")]
    Amount {
        /// The resource type.
        resource: Arc<str>,
        /// The quantity that the RM sent.
        amount: i64,
    },
    /// A number of megabytes that cannot be counted in bytes, from an RM that counts memory in
    /// megabytes.
    #[error("{0} megabytes of memory do not fit a 64-bit number of bytes")]
    Megabytes(i64),
    /// The sum of all members of a gang is beyond the range of a quantity.
    #[error("its members take more than {max} of `{0}` together", max = i64::MAX)]
    Members(Arc<str>),
    /// The sum with the amount that is counted already is beyond the range of a quantity.
    #[error("{amount} of `{resource}`, and {held} {of}: together more than {}", i64::MAX)]
    Sum {
        /// The resource type.
        resource: Arc<str>,
        /// The amount to be added.
        amount: i64,
        /// The sum without it.
        held: i64,
        /// The subject of the sum, in words that follow the number.
        of: Fixed,
    },
}

impl Overflow {
    /// Returns the first resource type, in order of the texts, of which the sum of `held` and
    /// `more` is beyond the range of a quantity. `of` names the subject of `held`.
    pub fn of_sum(held: &Resources, more: &Sum, of: &'static str) -> Option<Self> {
        let mut sum = more.clone();
        sum.add(held);
        let name = sum.first_too_large()?;
        let (amount, held) = (more.shown().get(name), held.get(name));
        Some(Self::Sum { resource: name.text(), amount, held, of: of.into() })
    }
}

/// Returns the code of a reason as it is on the wire: the first word of the last bracket, without
/// the cause after it. Empty for a text without a bracket.
pub fn code_of(reason: &str) -> &str {
    let Some((_, code)) = reason.rsplit_once('[') else { return "" };
    code.trim_end_matches(']').split(' ').next().unwrap_or_default()
}

/// The reason why an item of an RM had no effect, if the interface has no answer for it. It is only
/// counted and logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// A value of `extraConfig` that cannot be read.
    ExtraConfig,
    /// The removal of an application that does not exist.
    RemovalOfUnknown,
    /// The report of an allocation on another node than the one where it was placed, or in a size
    /// that cannot be counted.
    AllocationChange,
    /// A release of an application or allocation that does not exist.
    ReleaseOfUnknown,
    /// A release that names neither an application nor an allocation.
    ReleaseOfNothing,
    /// A termination type that is not defined.
    TerminationType,
    /// A change of a node that does not exist.
    NodeUnknown,
    /// A change of a node to amounts that are not valid.
    NodeUpdate,
    /// An action on a node that is not defined, in the oldest dialect of the interface.
    NodeAction,
    /// A class of priority that is not configured.
    PriorityClass,
    /// A report of utilization that cannot be counted, or names an unknown object.
    UtilizationReport,
}

impl Ignored {
    /// Returns the value of the metric's label.
    pub fn code(self) -> &'static str {
        match self {
            Self::ExtraConfig => "G_EXTRA_CONFIG",
            Self::RemovalOfUnknown => "G_REMOVAL_UNKNOWN",
            Self::AllocationChange => "G_ALLOCATION_CHANGE",
            Self::ReleaseOfUnknown => "G_RELEASE_UNKNOWN",
            Self::ReleaseOfNothing => "G_RELEASE_OF_NOTHING",
            Self::TerminationType => "G_TERMINATION_TYPE",
            Self::NodeUnknown => "G_NODE_UNKNOWN",
            Self::NodeUpdate => "G_NODE_UPDATE",
            Self::NodeAction => "G_NODE_ACTION",
            Self::PriorityClass => "G_PRIORITY_CLASS",
            Self::UtilizationReport => "G_UTILIZATION",
        }
    }
}

/// Words the state as the reason of the refusal, unless "stopped" is in the sentence already.
fn unless_stopped(state: ObjectState) -> String {
    if state == ObjectState::Stopped { String::new() } else { format!(": {state}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_reason_is_the_first_word_of_its_bracket() {
        let id: Arc<str> = Arc::from("a[b]");
        let action = Rejection::NodeAction { id: Arc::clone(&id), action: 0 }.to_string();
        assert!(action.contains("set `action`, to CREATE or CREATE_DRAIN"), "{action}");
        let unknown = Rejection::ApplicationUnknown(Arc::clone(&id)).to_string();
        assert_eq!(code_of(&unknown), "R_APP_UNKNOWN");
        let placement = Rejection::Placement { id, why: "no".to_owned(), cause: "E_X".into() };
        assert_eq!(code_of(&placement.to_string()), "R_PLACEMENT");
        assert_eq!(code_of("no bracket"), "");
    }

    #[test]
    fn a_partition_that_takes_nothing_names_its_state_unless_it_is_stopped() {
        let refusal = |state| {
            let (id, partition) = (Arc::from("n1"), Arc::from("default"));
            Rejection::PartitionStopped { what: "node".into(), id, partition, state }.to_string()
        };
        let stopped = "node `n1`: partition `default` is stopped [R_PARTITION_STOPPED]";
        assert_eq!(refusal(ObjectState::Stopped), stopped);
        let draining = "node `n1`: partition `default` is stopped: Draining [R_PARTITION_STOPPED]";
        assert_eq!(refusal(ObjectState::Draining), draining);
    }
}
