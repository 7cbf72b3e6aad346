//! Applications, asks and allocations, as clients read them. Some fields are always empty, because
//! existing clients expect the fields of gangs and preemption.

use std::collections::BTreeMap;

use monoceros_rules::values::resources::Resources;
use serde::{Serialize, Serializer};

use super::is_default;

/// An application, live or finished.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSnapshot {
    /// The id of the application.
    #[serde(rename = "applicationID")]
    pub application_id: String,
    /// Held by allocations that are not placeholders.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub used_resource: Resources,
    /// Peak by name, placeholders considered.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub max_used_resource: Resources,
    /// Sum of the asks that wait.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub pending_resource: Resources,
    /// Name of its partition, without brackets.
    pub partition: String,
    /// Where it was placed; for a rejected one, what was asked for.
    pub queue_name: String,
    /// Creation, or the earliest ask or allocation where that is older.
    #[serde(skip_serializing_if = "is_default")]
    pub submission_time: i64,
    /// When it ended or was rejected.
    #[serde(skip_serializing_if = "is_default")]
    pub finished_time: i64,
    /// Asks that wait, by allocation key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<AskSnapshot>,
    /// Its allocations by allocation key, placeholders included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<AllocationSnapshot>,
    /// How many there are: all that is said of them in a brief row.
    #[serde(skip)]
    pub allocation_count: usize,
    /// `New`, `Accepted`, `Running` and so on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub application_state: String,
    /// Who submitted it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The user's groups, in the order they were resolved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Why it was rejected.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rejected_message: String,
    /// Its states since `New`, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state_log: Vec<StateLogEntry>,
    /// The placeholders of each task group, by name of the group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placeholder_data: Vec<PlaceholderData>,
    /// Whether [`Self::reservations`] has an entry.
    #[serde(skip_serializing_if = "is_default")]
    pub has_reserved: bool,
    /// Allocation keys of its asks that reserve a node, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<String>,
    /// Highest priority that waits; `i32::MIN` when nothing does.
    #[serde(skip_serializing_if = "is_default")]
    pub max_request_priority: i32,
    /// Last entry into `Running`, in **milliseconds** of the Unix epoch; zero when never.
    #[serde(rename = "startTime", skip_serializing_if = "is_default")]
    pub start_time_millis: i64,
    /// What its released allocations used.
    pub resource_history: ResourceHistory,
    /// RFC 3339 time before which nothing of it is scheduled; empty when not backing off.
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

/// One task group of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaceholderData {
    /// The name of the task group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_group_name: String,
    /// Placeholders in all.
    #[serde(skip_serializing_if = "is_default")]
    pub count: i64,
    /// Size of each.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub min_resource: Resources,
    /// Placeholders whose place was taken.
    #[serde(skip_serializing_if = "is_default")]
    pub replaced: i64,
    /// Placeholders released because nobody came.
    #[serde(rename = "timedout", skip_serializing_if = "is_default")]
    pub timed_out: i64,
}

/// Quantity times whole seconds, by instance type, of released allocations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceHistory {
    /// The use of allocations that did their work.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_usage: BTreeMap<String, Resources>,
    /// The use of preempted allocations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub preempted_resource: BTreeMap<String, Resources>,
    /// The use of placeholders.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub placeholder_resource: BTreeMap<String, Resources>,
}

/// An ask that waits.
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
    /// Size of one allocation.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub resource: Resources,
    /// The priority; a text on the wire.
    #[serde(serialize_with = "quoted")]
    pub priority: i32,
    /// The only node that will do; empty for any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub required_node_id: String,
    /// The id of its application.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub application_id: String,
    /// Whether it keeps a place for a member of a task group.
    #[serde(skip_serializing_if = "is_default")]
    pub placeholder: bool,
    /// The name of its task group; empty when it is in none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_group_name: String,
    /// Why it waits, one entry per reason, ascending by last occurrence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocation_log: Vec<AllocationLogEntry>,
    /// Whether allocations were preempted for it.
    #[serde(skip_serializing_if = "is_default")]
    pub triggered_preemption: bool,
    /// Whether it is the one that started its application.
    #[serde(skip_serializing_if = "is_default")]
    pub originator: bool,
    /// Whether the scheduler has looked for a place.
    #[serde(skip_serializing_if = "is_default")]
    pub scheduling_attempted: bool,
    /// Whether the RM was asked for more nodes because of it.
    #[serde(skip_serializing_if = "is_default")]
    pub triggered_scale_up: bool,
    /// Whether no RM sent it: it is for members of a declared gang that have no ask. Its key is empty.
    #[serde(skip_serializing_if = "is_default")]
    pub internal: bool,
    /// How many more allocations are wanted, of an ask for several; left out up to one.
    #[serde(skip_serializing_if = "is_single")]
    pub pending_count: i32,
}

/// One reason why an ask waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocationLogEntry {
    /// The reason.
    pub message: String,
    /// When it was last found.
    pub last_occurrence: i64,
    /// How often it was found.
    pub count: i32,
}

/// An allocation of this scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "the document has as many")]
pub struct AllocationSnapshot {
    /// Key of its ask.
    pub allocation_key: String,
    /// Its own id where that is not the key (asks with a repeat); otherwise empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uuid: String,
    /// The tags as submitted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allocation_tags: BTreeMap<String, String>,
    /// Creation, or that of the placeholder it replaced.
    #[serde(skip_serializing_if = "is_default")]
    pub request_time: i64,
    /// When it was made.
    #[serde(skip_serializing_if = "is_default")]
    pub allocation_time: i64,
    /// The difference of both times.
    #[serde(skip_serializing_if = "is_default")]
    pub allocation_delay: i64,
    /// Its size.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub resource: Resources,
    /// The priority; a text on the wire.
    #[serde(serialize_with = "quoted")]
    pub priority: i32,
    /// The id of the node that it is on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_id: String,
    /// The id of its application.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub application_id: String,
    /// Whether it keeps a place for a member of a task group.
    #[serde(skip_serializing_if = "is_default")]
    pub placeholder: bool,
    /// Whether it took the place of a placeholder.
    #[serde(skip_serializing_if = "is_default")]
    pub placeholder_used: bool,
    /// The name of its task group; empty when it is in none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_group_name: String,
    /// Whether it holds a place for a member of a declared gang. Its RM does not know of it, and its
    /// key is only for people.
    #[serde(skip_serializing_if = "is_default")]
    pub internal: bool,
    /// Whether it is being preempted.
    #[serde(skip_serializing_if = "is_default")]
    pub preempted: bool,
    /// For whom, and by which rule, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preempted_for: String,
    /// Whether it is the one that started its application.
    #[serde(skip_serializing_if = "is_default")]
    pub originator: bool,
}

/// A foreign allocation: something on a node that no application of this scheduler has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignAllocationSnapshot {
    /// The allocation key.
    pub allocation_key: String,
    /// The tags as reported.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allocation_tags: BTreeMap<String, String>,
    /// When it was made.
    #[serde(skip_serializing_if = "is_default")]
    pub allocation_time: i64,
    /// Its size.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub resource: Resources,
    /// The priority; a text on the wire.
    #[serde(serialize_with = "quoted")]
    pub priority: i32,
    /// The id of the node that it is on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_id: String,
    /// False for one that belongs to the machine itself.
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
