//! Usage read from a saved state dump (`monoceros dump`, or `GET /ws/v1/fullstatedump`).
//!
//! It serves to check a new configuration against a remote cluster before anything reaches that
//! cluster.
//!
//! Only the needed fields are read, and missing ones count as empty, so dumps of other versions
//! work.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail};
use monoceros_actors::config::difference::{PartitionUsage, Usage, Used};
use monoceros_actors::partition_name::plain_name;
use monoceros_actors::{Name, Resources};
use serde::Deserialize;
use serde_json::Value;

/// Largest dump in bytes: 1 GiB.
const LARGEST_BYTES: u64 = 1 << 30;
/// The partition of entries that name none.
const DEFAULT: &str = "default";
/// States of applications that have left their queue.
const ENDED: [&str; 4] = ["Completed", "Failed", "Expired", "Rejected"];
/// Most fields that an error message names.
const MOST_FIELDS: usize = 5;
const EXPECTED: &str = "expected is a state dump, which has `queues`, or the answer of \
                        /ws/v1/partition/NAME/queues, which has `queuename`";

#[derive(Default, Deserialize)]
struct SavedDump {
    queues: Vec<SavedQueue>,
    #[serde(default)]
    users: Vec<SavedUser>,
    #[serde(default)]
    groups: Vec<SavedGroup>,
    #[serde(default)]
    applications: Vec<SavedApplication>,
}

/// An application. Ended ones are listed, too.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SavedApplication {
    #[serde(default)]
    partition: String,
    queue_name: String,
    #[serde(default, rename = "applicationState")]
    state: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SavedQueue {
    #[serde(rename = "queuename")]
    path: String,
    /// The partition, present only at the root of a tree.
    #[serde(default)]
    partition: String,
    #[serde(default)]
    allocated_resource: BTreeMap<String, i64>,
    #[serde(default)]
    pending_resource: BTreeMap<String, i64>,
    /// Capacity of the nodes, present only at the root.
    #[serde(default)]
    max_resource: BTreeMap<String, i64>,
    #[serde(default)]
    running_apps: u64,
    #[serde(default)]
    children: Vec<SavedQueue>,
}

#[derive(Deserialize)]
struct SavedUser {
    #[serde(rename = "userName")]
    name: String,
    #[serde(default)]
    partition: String,
    queues: QueueUse,
}

#[derive(Deserialize)]
struct SavedGroup {
    #[serde(rename = "groupName")]
    name: String,
    #[serde(default)]
    partition: String,
    queues: QueueUse,
}

/// Usage of a queue by a user or group.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueueUse {
    queue_path: String,
    #[serde(default)]
    resource_usage: BTreeMap<String, i64>,
    #[serde(default)]
    running_applications: Vec<String>,
    #[serde(default)]
    children: Vec<QueueUse>,
}

/// Reads the usage from a file.
pub fn load(path: &Path) -> anyhow::Result<Usage> {
    let shown = path.display();
    let size = path.metadata().with_context(|| format!("cannot read `{shown}`"))?.len();
    anyhow::ensure!(size <= LARGEST_BYTES, "cannot read `{shown}`: it is larger than 1 GiB");
    let bytes = std::fs::read(path).with_context(|| format!("cannot read `{shown}`"))?;
    read(&bytes).with_context(|| format!("`{shown}` does not tell what is in use"))
}

fn read(bytes: &[u8]) -> anyhow::Result<Usage> {
    let saved: Value = serde_json::from_slice(bytes)?;
    let dump = if saved.get("queuename").is_some() {
        let context = "as the queues of a partition it makes no sense";
        let queue = serde_json::from_value(saved).context(context)?;
        SavedDump { queues: vec![queue], ..SavedDump::default() }
    } else if saved.get("queues").is_some() {
        serde_json::from_value(saved).context("as a state dump it makes no sense")?
    } else {
        bail!("{EXPECTED}; found {}", describe(&saved));
    };
    let mut usage = Usage::default();
    for root in dump.queues {
        let partition = partition_of(&mut usage, &root.partition);
        let named = [&root.max_resource, &root.allocated_resource, &root.pending_resource];
        partition.types.extend(named.into_iter().flat_map(BTreeMap::keys).cloned());
        add_queue(root, partition);
    }
    for SavedUser { name, partition, queues } in dump.users {
        add_tracked_use(queues, &name, &mut partition_of(&mut usage, &partition).users);
    }
    for SavedGroup { name, partition, queues } in dump.groups {
        add_tracked_use(queues, &name, &mut partition_of(&mut usage, &partition).groups);
    }
    for SavedApplication { partition, queue_name, state } in dump.applications {
        if ENDED.contains(&state.as_str()) {
            continue;
        }
        let queues = &mut partition_of(&mut usage, &partition).queues;
        let path = queue_name.as_str();
        let upward = std::iter::successors(Some(path), |path| Some(path.rsplit_once('.')?.0));
        for path in upward {
            if let Some(used) = queues.get_mut(path) {
                used.applications += 1;
            }
        }
    }
    for used in usage.partitions.values_mut().flat_map(|partition| partition.queues.values_mut()) {
        // Without a list of applications, the number of running ones is a lower bound.
        used.applications = used.applications.max(used.running);
    }
    Ok(usage)
}

/// Describes a file that is not a dump.
fn describe(saved: &Value) -> String {
    match saved {
        Value::Object(fields) if fields.is_empty() => "an object without fields".to_owned(),
        Value::Object(fields) => {
            let names = fields.keys().take(MOST_FIELDS);
            let names: Vec<_> = names.map(|name| format!("`{}`", name.escape_debug())).collect();
            let more = if fields.len() > MOST_FIELDS { " and more" } else { "" };
            format!("an object with {}{more}", names.join(", "))
        }
        Value::Array(_) => "a list".to_owned(),
        Value::String(_) => "a text".to_owned(),
        Value::Number(_) => "a number".to_owned(),
        Value::Bool(_) => "a truth value".to_owned(),
        Value::Null => "null".to_owned(),
    }
}

fn partition_of<'u>(usage: &'u mut Usage, name: &str) -> &'u mut PartitionUsage {
    let name = if name.is_empty() { DEFAULT } else { plain_name(name) };
    usage.partitions.entry(name.to_owned()).or_default()
}

fn add_queue(queue: SavedQueue, usage: &mut PartitionUsage) {
    let allocated = resources(&queue.allocated_resource);
    let used = Used { allocated, running: queue.running_apps, applications: 0 };
    usage.queues.insert(queue.path, used);
    queue.children.into_iter().for_each(|child| add_queue(child, usage));
}

fn add_tracked_use(
    place: QueueUse,
    whose: &str,
    usage: &mut BTreeMap<String, BTreeMap<String, Used>>,
) {
    let allocated = resources(&place.resource_usage);
    let running = place.running_applications.len() as u64;
    let used = Used { allocated, running, applications: running };
    usage.entry(place.queue_path).or_default().insert(whose.to_owned(), used);
    place.children.into_iter().for_each(|child| add_tracked_use(child, whose, usage));
}

fn resources(quantities: &BTreeMap<String, i64>) -> Resources {
    let mut resources = Resources::new();
    for (name, quantity) in quantities {
        resources.set(Name::keep(name), *quantity);
    }
    resources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_has_usage_of_queues_users_and_groups() {
        let dump = r#"{"timestamp": 1, "queues": [{"queuename": "root", "partition": "default",
            "runningApps": 2, "maxResource": {"nvidia.com/gpu": 8}, "pendingResource": {"cpu": 1},
            "children": [{"queuename": "root.a", "status": "Active",
            "allocatedResource": {"vcore": 120}, "runningApps": 2}]}],
            "users": [{"userName": "ada", "queues": {"queuePath": "root", "children": [
            {"queuePath": "root.a", "resourceUsage": {"vcore": 7}, "runningApplications": ["x"]}]}}],
            "groups": [{"groupName": "ops", "partition": "gpu", "queues": {"queuePath": "root"}}],
            "applications": [{"applicationID": "x", "partition": "default", "queueName": "root.a",
            "applicationState": "Running"}, {"queueName": "root.a"}, {"queueName": "root.a"},
            {"queueName": "root.a", "applicationState": "Completed"}]}"#;
        let usage = read(dump.as_bytes()).unwrap();
        let default = &usage.partitions["default"];
        let used = |vcore, running, applications| {
            let allocated = Resources::of(&[("vcore", vcore)]);
            Used { allocated, running, applications }
        };
        assert_eq!(default.queues["root.a"], used(120, 2, 3));
        assert_eq!(default.queues["root"].applications, 3);
        assert_eq!(default.types, ["cpu", "nvidia.com/gpu"].map(str::to_owned).into());
        assert_eq!(default.users["root.a"]["ada"], used(7, 1, 1));
        assert_eq!(usage.partitions["gpu"].groups["root"]["ops"], Used::default());
    }

    #[test]
    fn a_queue_document_works_and_others_are_refused() {
        let tree = r#"{"queuename": "root", "partition": "[rm]gpu", "runningApps": 3}"#;
        assert_eq!(read(tree.as_bytes()).unwrap().partitions["gpu"].queues["root"].running, 3);
        for (text, reason) in [
            ("", "EOF while parsing"),
            ("[]", "found a list"),
            ("{}", "found an object without fields"),
            (r#"{"a": 1, "b": 2}"#, "found an object with `a`, `b`"),
            ("3", "/ws/v1/partition/NAME/queues"),
            (r#"{"queues": 3}"#, "as a state dump it makes no sense: invalid type: integer `3`"),
            (r#"{"queuename": []}"#, "as the queues of a partition it makes no sense"),
            (r#"{"queues": [{"queuename": "root", "runningApps": "x"}]}"#, "invalid type: string"),
        ] {
            let error = format!("{:#}", read(text.as_bytes()).unwrap_err());
            assert!(error.contains(reason), "{error}");
        }
    }
}
