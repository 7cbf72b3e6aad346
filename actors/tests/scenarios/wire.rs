//! Builds messages of the interface from the items of a script, and a configuration from its
//! queues: the only place that changes with the interface.

use std::collections::BTreeMap;

use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::node_info::ActionFromRm;
use serde_json::{Map, Value, json};

use crate::script::{Amounts, FAILED, Item, LimitWords, NodeWords, QueueWords, Which, Wish};

/// A message of one of the three kinds.
pub(crate) enum Message {
    Allocation(si::AllocationRequest),
    Application(si::ApplicationRequest),
    Node(si::NodeRequest),
}

/// The message of these items. Panics if they are not of one kind.
pub(crate) fn message(rm: &str, items: &[Item]) -> Message {
    let mut allocation = si::AllocationRequest { rm_id: rm.to_owned(), ..Default::default() };
    let mut application = si::ApplicationRequest { rm_id: rm.to_owned(), ..Default::default() };
    let mut node = si::NodeRequest { rm_id: rm.to_owned(), ..Default::default() };
    for item in items {
        match item {
            Item::Node(words) => {
                let create =
                    if words.drained { ActionFromRm::CreateDrain } else { ActionFromRm::Create };
                node.nodes.push(node_info(words, create));
            }
            Item::Resize(words) => node.nodes.push(node_info(words, ActionFromRm::Update)),
            Item::Drain(id) => node.nodes.push(act(id, ActionFromRm::DrainNode as i32)),
            Item::Undrain(id) => node.nodes.push(act(id, ActionFromRm::DrainToSchedulable as i32)),
            Item::RemoveNode(id) => node.nodes.push(act(id, ActionFromRm::Decomission as i32)),
            Item::Act { node: id, action } => node.nodes.push(act(id, *action)),
            Item::App { .. } => application.new.push(new_application(item)),
            Item::RemoveApp(id) => application.remove.push(si::RemoveApplicationRequest {
                application_id: id.clone(),
                ..Default::default()
            }),
            Item::Ask(wish) => allocation.asks.push(ask(wish)),
            Item::Request(wish) => allocation.allocations.push(existing(wish, "")),
            Item::Exists(wish, node) => allocation.allocations.push(existing(wish, node)),
            Item::Foreign { key, node, amounts, kind } => {
                allocation.allocations.push(si::Allocation {
                    allocation_key: key.clone(),
                    node_id: node.clone(),
                    resource_per_alloc: Some(resource(amounts)),
                    allocation_tags: [("foreign".to_owned(), kind.clone())].into(),
                    ..Default::default()
                });
            }
            Item::ForeignGone(key) => {
                releases(&mut allocation).allocations_to_release.push(si::AllocationRelease {
                    allocation_key: key.clone(),
                    ..Default::default()
                });
            }
            Item::Withdraw { app, key, kind } => {
                releases(&mut allocation).allocation_asks_to_release.push(
                    si::AllocationAskRelease {
                        application_id: app.clone(),
                        allocation_key: key.clone(),
                        termination_type: *kind,
                        ..Default::default()
                    },
                );
            }
            Item::Release { app, which, kind } => {
                let (mut allocation_key, mut uuid) = (String::new(), String::new());
                match which {
                    Which::Key(key) => allocation_key.clone_from(key),
                    Which::Uuid(given) => uuid.clone_from(given),
                    Which::All => {}
                }
                releases(&mut allocation).allocations_to_release.push(si::AllocationRelease {
                    application_id: app.clone(),
                    allocation_key,
                    uuid,
                    termination_type: if *kind == FAILED { STOPPED } else { *kind },
                    failed: *kind == FAILED,
                    message: words_of(*kind).to_owned(),
                    ..Default::default()
                });
            }
        }
    }
    let is_application = !application.new.is_empty() || !application.remove.is_empty();
    let is_node = !node.nodes.is_empty();
    let is_allocation = allocation.releases.is_some()
        || !allocation.asks.is_empty()
        || !allocation.allocations.is_empty();
    match (is_allocation, is_application, is_node) {
        (true, false, false) => Message::Allocation(allocation),
        (false, true, false) => Message::Application(application),
        (false, false, true) => Message::Node(node),
        _ => panic!("one line is one message, and all of its items are of one kind"),
    }
}

fn resource(amounts: &Amounts) -> si::Resource {
    let quantity = |value| si::Quantity { value };
    let entries = amounts.0.iter();
    si::Resource { resources: entries.map(|(name, q)| (name.clone(), quantity(*q))).collect() }
}

fn act(id: &str, action: i32) -> si::NodeInfo {
    si::NodeInfo { node_id: id.to_owned(), action, ..Default::default() }
}

fn node_info(words: &NodeWords, action: ActionFromRm) -> si::NodeInfo {
    si::NodeInfo {
        node_id: words.id.clone(),
        action: action as i32,
        attributes: words.attributes.iter().cloned().collect(),
        schedulable_resource: words.total.as_ref().map(resource),
        occupied_resource: words.occupied.as_ref().map(resource),
        existing_allocations: words.holds.iter().map(|wish| existing(wish, &words.id)).collect(),
    }
}

fn new_application(item: &Item) -> si::AddApplicationRequest {
    let Item::App { id, queue, user, groups, tags, partition, gang, style, timeout_ms, needs } =
        item
    else {
        unreachable!()
    };
    let groups = groups.split(',').filter(|group| !group.is_empty()).map(str::to_owned);
    // An application without a user; `-` is the empty name.
    let user = match user.as_str() {
        "" => "ada",
        "-" => "",
        user => user,
    };
    si::AddApplicationRequest {
        application_id: id.clone(),
        queue_name: queue.clone(),
        partition_name: partition.clone(),
        ugi: Some(si::UserGroupInformation { user: user.to_owned(), groups: groups.collect() }),
        tags: tags.iter().cloned().collect(),
        placeholder_ask: (!gang.0.is_empty()).then(|| resource(gang)),
        gang_scheduling_style: style.clone(),
        execution_timeout_milli_seconds: *timeout_ms,
        task_groups: needs.iter().map(needed_group).collect(),
    }
}

fn needed_group(group: &Wish) -> si::TaskGroup {
    si::TaskGroup {
        name: group.key.clone(),
        min_members: group.repeat,
        member: (!group.amounts.0.is_empty()).then(|| resource(&group.amounts)),
        priority: group.priority,
        tags: tags(group),
        topology: Some(si::Topology {
            required: group.within.clone(),
            preferred: group.near.clone(),
        }),
        preemption_policy: policy(group),
        ..Default::default()
    }
}

fn tags(wish: &Wish) -> BTreeMap<String, String> {
    let mut tags = BTreeMap::new();
    if let Some(node) = &wish.required {
        tags.insert("yunikorn.apache.org/requiredNode".to_owned(), node.clone());
    }
    if let Some(created) = &wish.created {
        tags.insert("creationTime".to_owned(), created.clone());
    }
    tags.extend(wish.tags.iter().cloned());
    if !wish.constraint.is_empty() {
        let name = "monoceros.io/placement-constraint".to_owned();
        tags.insert(name, wish.constraint.clone());
    }
    tags
}

fn task_group(wish: &Wish) -> String {
    wish.placeholder.as_ref().unwrap_or(&wish.group).clone()
}

fn ask(wish: &Wish) -> si::AllocationAsk {
    si::AllocationAsk {
        allocation_key: wish.key.clone(),
        application_id: wish.app.clone(),
        partition_name: wish.partition.clone(),
        resource_ask: Some(resource(&wish.amounts)),
        max_allocations: wish.repeat,
        priority: wish.priority,
        execution_timeout_milli_seconds: wish.timeout_ms,
        tags: tags(wish),
        placeholder: wish.placeholder.is_some(),
        task_group_name: task_group(wish),
        originator: wish.originator,
        preemption_policy: policy(wish),
        ..Default::default()
    }
}

/// The preemption policy, if there is one.
fn policy(wish: &Wish) -> Option<si::PreemptionPolicy> {
    let (allow_preempt_self, allow_preempt_other) = match &*wish.policy {
        "none" => (false, false),
        "itself" => (true, false),
        "others" => (false, true),
        "both" => (true, true),
        "" => return None,
        other => panic!("`{other}` is no policy"),
    };
    Some(si::PreemptionPolicy { allow_preempt_self, allow_preempt_other })
}

fn existing(wish: &Wish, node: &str) -> si::Allocation {
    si::Allocation {
        allocation_key: wish.key.clone(),
        application_id: wish.app.clone(),
        partition_name: wish.partition.clone(),
        resource_per_alloc: Some(resource(&wish.amounts)),
        uuid: wish.uuid.clone(),
        node_id: node.to_owned(),
        priority: wish.priority,
        allocation_tags: tags(wish),
        placeholder: wish.placeholder.is_some(),
        task_group_name: task_group(wish),
        originator: wish.originator,
        preemption_policy: policy(wish),
        ..Default::default()
    }
}

const STOPPED: i32 = si::TerminationType::StoppedByRm as i32;

/// The message of the RM with a release.
fn words_of(kind: i32) -> &'static str {
    if kind == si::TerminationType::SchedulingFailedOnRm as i32 { "no image" } else { "" }
}

fn releases(request: &mut si::AllocationRequest) -> &mut si::AllocationReleasesRequest {
    request.releases.get_or_insert_default()
}

/// The configuration of one partition with these queues; missing parents are added.
pub(crate) fn configuration(order: Option<&(String, Amounts)>, queues: &[QueueWords]) -> String {
    let mut partition = Map::new();
    partition.insert("name".to_owned(), json!("default"));
    if let Some((policy, weights)) = order {
        let weights: Map<_, _> =
            weights.0.iter().map(|(name, weight)| (name.clone(), json!(weight))).collect();
        let order = json!({ "type": policy, "resourceweights": weights });
        partition.insert("nodesortpolicy".to_owned(), order);
    }
    let open = queues.iter().all(|queue| queue.submit.is_none());
    let mut root = below("root", queues);
    if open {
        root.insert("submitacl".to_owned(), json!("*"));
    }
    partition.insert("queues".to_owned(), json!([root]));
    // JSON is valid YAML.
    json!({ "partitions": [partition] }).to_string()
}

fn below(path: &str, queues: &[QueueWords]) -> Map<String, Value> {
    let name = path.rsplit('.').next().unwrap_or(path);
    let mut map = Map::new();
    map.insert("name".to_owned(), json!(name));
    if let Some(words) = queues.iter().find(|queue| queue.path == path) {
        describe(words, &mut map);
    }
    let mut children: Vec<String> = Vec::new();
    for queue in queues {
        let Some(rest) = queue.path.strip_prefix(path).and_then(|rest| rest.strip_prefix('.'))
        else {
            continue;
        };
        let child = format!("{path}.{}", rest.split('.').next().unwrap_or(rest));
        if !children.contains(&child) {
            children.push(child);
        }
    }
    if !children.is_empty() {
        let children: Vec<_> = children.iter().map(|child| below(child, queues)).collect();
        map.insert("queues".to_owned(), json!(children));
    }
    map
}

fn quantities(amounts: &Amounts) -> Value {
    // Cores in thousandths, so that 1 is one core.
    let text = |name: &str, quantity: i64| {
        let unit = if name == "vcore" { "m" } else { "" };
        format!("{quantity}{unit}")
    };
    let entries = amounts.0.iter().map(|(name, q)| (name.clone(), json!(text(name, *q))));
    Value::Object(entries.collect())
}

fn limit(words: &LimitWords) -> Value {
    let mut map = Map::new();
    for (word, names) in [("users", &words.users), ("groups", &words.groups)] {
        if !names.is_empty() {
            map.insert(word.to_owned(), json!(names));
        }
    }
    if !words.max.0.is_empty() {
        map.insert("maxresources".to_owned(), quantities(&words.max));
    }
    if words.max_apps > 0 {
        map.insert("maxapplications".to_owned(), json!(words.max_apps));
    }
    Value::Object(map)
}

fn describe(words: &QueueWords, map: &mut Map<String, Value>) {
    let mut resources = Map::new();
    for (name, limits) in [("max", &words.max), ("guaranteed", &words.guaranteed)] {
        if let Some(limits) = limits {
            resources.insert(name.to_owned(), quantities(limits));
        }
    }
    if !resources.is_empty() {
        map.insert("resources".to_owned(), Value::Object(resources));
    }
    if words.max_apps > 0 {
        map.insert("maxapplications".to_owned(), json!(words.max_apps));
    }
    if !words.limits.is_empty() {
        let limits: Vec<_> = words.limits.iter().map(limit).collect();
        map.insert("limits".to_owned(), json!(limits));
    }
    if !words.properties.is_empty() {
        let entries = words.properties.iter().map(|(name, value)| (name.clone(), json!(value)));
        map.insert("properties".to_owned(), Value::Object(entries.collect()));
    }
    if let Some(submit) = &words.submit {
        map.insert("submitacl".to_owned(), json!(submit));
    }
}
