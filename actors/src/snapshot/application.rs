//! Snapshots of applications, asks and allocations.

use std::borrow::Cow;
use std::collections::BTreeMap;

use monoceros_rules::values::resources::Resources;
use serde::{Serialize, Serializer};

use super::is_default;

/// An application, live or ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSnapshot {
    /// The id of the application.
    #[serde(rename = "applicationID")]
    pub application_id: String,
    /// Usage of allocations that are not placeholders.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub used_resource: Resources,
    /// Peak usage of each resource, including placeholders.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub max_used_resource: Resources,
    /// Sum of its pending asks; of a removed application, the sum at its removal.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub pending_resource: Resources,
    /// Name of its partition, without brackets.
    pub partition: String,
    /// The path of its queue; of a rejected application, of the queue that it named.
    pub queue_name: String,
    /// Creation of the application, or of its earliest ask or allocation if that is earlier.
    #[serde(skip_serializing_if = "is_default")]
    pub submission_time: i64,
    /// When it ended, was removed or was rejected.
    #[serde(skip_serializing_if = "is_default")]
    pub finished_time: i64,
    /// Its pending asks, by allocation key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<AskSnapshot>,
    /// Its allocations by allocation key, including placeholders; empty in a brief row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<AllocationSnapshot>,
    /// The number of its allocations, in a brief row, too.
    #[serde(skip)]
    pub allocation_count: usize,
    /// `New`, `Accepted`, `Running` and so on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub application_state: String,
    /// The user who submitted it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The user's groups, in the order of the resolver.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Its tags as submitted; left out of a brief row, and of an ended one if they are long.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub application_tags: BTreeMap<String, String>,
    /// Why it was rejected.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rejected_message: String,
    /// The change by which it would be admitted; empty unless it was rejected.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub rejected_cure: Cow<'static, str>,
    /// The resource manager that removed it, and the work that it had then, in words; empty unless
    /// it was removed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub removed_message: String,
    /// Its states since `New`, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state_log: Vec<StateLogEntry>,
    /// The causes for which the first of its requests in order waited, oldest first. A brief row
    /// has the last one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wait_log: Vec<WaitLogEntry>,
    /// The placeholders of each task group, by name of the group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placeholder_data: Vec<PlaceholderData>,
    /// Whether [`Self::reservations`] has an entry.
    #[serde(skip_serializing_if = "is_default")]
    pub has_reserved: bool,
    /// Allocation keys of its asks that reserve a node, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<String>,
    /// The highest priority of its pending asks; `i32::MIN` if there are none.
    #[serde(skip_serializing_if = "is_default")]
    pub max_request_priority: i32,
    /// Last entry into `Running`, in **milliseconds** of the Unix epoch; zero if there was none.
    #[serde(rename = "startTime", skip_serializing_if = "is_default")]
    pub start_time_millis: i64,
    /// Usage of its released allocations.
    pub resource_history: ResourceHistory,
    /// End of its back-off, as RFC 3339 time; empty if it does not back off.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub backoff_deadline: String,
}

/// One change of state of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateLogEntry {
    /// When it was entered.
    #[serde(skip_serializing_if = "is_default")]
    pub time: i64,
    /// The state that was entered.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub application_state: String,
}

/// The cause for which the first pending request of an application waited, until the next entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitLogEntry {
    /// The time at which the cause was first found.
    pub time: i64,
    /// The cause, as in explanations. Empty: no request was pending any more.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cause: String,
}

/// One task group of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaceholderData {
    /// The name of the task group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_group_name: String,
    /// Number of its placeholders.
    #[serde(skip_serializing_if = "is_default")]
    pub count: i64,
    /// Amount of each placeholder.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub min_resource: Resources,
    /// Placeholders that were replaced.
    #[serde(skip_serializing_if = "is_default")]
    pub replaced: i64,
    /// Placeholders that have timed out.
    #[serde(rename = "timedout", skip_serializing_if = "is_default")]
    pub timed_out: i64,
}

/// Usage of released allocations in resource-seconds (quantity times whole seconds), by instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceHistory {
    /// Usage of allocations that were neither preempted nor placeholders.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_usage: BTreeMap<String, Resources>,
    /// Usage of preempted allocations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub preempted_resource: BTreeMap<String, Resources>,
    /// Usage of placeholders.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub placeholder_resource: BTreeMap<String, Resources>,
}

/// A pending ask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "the document has as many")]
pub struct AskSnapshot {
    /// The allocation key.
    pub allocation_key: String,
    /// The tags as submitted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allocation_tags: BTreeMap<String, String>,
    /// When it was created.
    #[serde(skip_serializing_if = "is_default")]
    pub request_time: i64,
    /// Amount of one allocation.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub resource: Resources,
    /// The priority; a text on the wire.
    #[serde(serialize_with = "quoted")]
    pub priority: i32,
    /// The required node; empty if it may use any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub required_node_id: String,
    /// The id of its application.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub application_id: String,
    /// Whether it is a placeholder.
    #[serde(skip_serializing_if = "is_default")]
    pub placeholder: bool,
    /// The name of its task group; empty when it is in none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_group_name: String,
    /// The reasons why it is pending, in ascending order of their last occurrence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocation_log: Vec<AllocationLogEntry>,
    /// Whether allocations were preempted for it.
    #[serde(skip_serializing_if = "is_default")]
    pub triggered_preemption: bool,
    /// Whether it is the originator of its application.
    #[serde(skip_serializing_if = "is_default")]
    pub originator: bool,
    /// Whether the scheduler has tried to place it.
    #[serde(skip_serializing_if = "is_default")]
    pub scheduling_attempted: bool,
    /// Whether the RM was sent a scale-up request for it.
    #[serde(skip_serializing_if = "is_default")]
    pub triggered_scale_up: bool,
    /// Whether it stands for members of a declared gang whose asks have not arrived. Its key is empty.
    #[serde(skip_serializing_if = "is_default")]
    pub internal: bool,
    /// The number of its pending allocations; left out up to one.
    #[serde(skip_serializing_if = "is_single")]
    pub pending_count: i32,
}

/// A reason why an ask is pending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocationLogEntry {
    /// The reason.
    pub message: String,
    /// When it last occurred.
    pub last_occurrence: i64,
    /// How often it occurred.
    pub count: i32,
}

/// An allocation of this scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "the document has as many")]
pub struct AllocationSnapshot {
    /// The key of its ask.
    pub allocation_key: String,
    /// Its id, if that is not the key (asks for several allocations); otherwise empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uuid: String,
    /// The tags as submitted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allocation_tags: BTreeMap<String, String>,
    /// Its creation, or that of the placeholder that it replaced.
    #[serde(skip_serializing_if = "is_default")]
    pub request_time: i64,
    /// When it was created.
    #[serde(skip_serializing_if = "is_default")]
    pub allocation_time: i64,
    /// The difference of these times.
    #[serde(skip_serializing_if = "is_default")]
    pub allocation_delay: i64,
    /// Its amount.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub resource: Resources,
    /// The priority; a text on the wire.
    #[serde(serialize_with = "quoted")]
    pub priority: i32,
    /// The id of its node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_id: String,
    /// The id of its application.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub application_id: String,
    /// Whether it is a placeholder.
    #[serde(skip_serializing_if = "is_default")]
    pub placeholder: bool,
    /// Whether it replaced a placeholder.
    #[serde(skip_serializing_if = "is_default")]
    pub placeholder_used: bool,
    /// The name of its task group; empty when it is in none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_group_name: String,
    /// Whether it is a place held for a member of a declared gang. Its RM does not know it, and its key is
    /// only for people.
    #[serde(skip_serializing_if = "is_default")]
    pub internal: bool,
    /// Whether it is being preempted.
    #[serde(skip_serializing_if = "is_default")]
    pub preempted: bool,
    /// The grounds of the preemption, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preempted_for: String,
    /// Whether it is the originator of its application.
    #[serde(skip_serializing_if = "is_default")]
    pub originator: bool,
}

/// A foreign allocation: it is on a node and belongs to no application of this scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignAllocationSnapshot {
    /// The allocation key.
    pub allocation_key: String,
    /// The tags as reported.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allocation_tags: BTreeMap<String, String>,
    /// When it was created.
    #[serde(skip_serializing_if = "is_default")]
    pub allocation_time: i64,
    /// Its amount.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub resource: Resources,
    /// The priority; a text on the wire.
    #[serde(serialize_with = "quoted")]
    pub priority: i32,
    /// The id of its node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_id: String,
    /// False if it belongs to the machine itself.
    #[serde(skip_serializing_if = "is_default")]
    pub preemptable: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_single(count: &i32) -> bool {
    *count <= 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn quoted<S: Serializer>(number: &i32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}
