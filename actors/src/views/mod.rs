//! Conversion of rows and the state of actors to [snapshots](crate::snapshot). Actors do not know
//! snapshots, so that a document can change without them.

mod decision;
pub(crate) mod explanation;
pub(crate) mod health;
mod placeholders;
pub(crate) mod rows;
pub(crate) mod usage;
pub(crate) mod utilization;

use std::collections::BTreeMap;

use monoceros_config as config;
use monoceros_config::PartitionConfig;
use monoceros_rules::allocations::{Leaving, Pairing};
use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::applications::ended::EndedApplications;
use monoceros_rules::applications::removal::Removal;
use monoceros_rules::applications::resource_seconds::{History, ResourceSeconds};
use monoceros_rules::asks::WaitEntry;
use monoceros_rules::asks::failures::{Failure, FailureLog};
use monoceros_rules::decide::explain;
use monoceros_rules::nodes::NodeSortPolicy;
use monoceros_rules::order::keys::MIN_PRIORITY;
use monoceros_rules::order::ledger::QueueLedger;
use monoceros_rules::order::shares::abs_used_capacity;
use monoceros_rules::queues::object_state::ObjectState;
use monoceros_rules::queues::{
    ApplicationSortPolicy, PreemptionPolicy, PriorityPolicy, QueueConfig, Template,
};
use monoceros_rules::specs::ask::Form;
use monoceros_rules::specs::tags::Tags;
use monoceros_rules::values::duration;
use monoceros_rules::values::instant;
use monoceros_rules::values::resources::{Limits, Resources};

use crate::node::Foreign;
use crate::queue::QueueFacts;
use crate::snapshot::{
    AllocationLogEntry, AllocationSnapshot, ApplicationSnapshot, AskSnapshot, ClusterSnapshot,
    ForeignAllocationSnapshot, NodeSnapshot, NodeSortingPolicy, PartitionCapacity,
    PartitionSnapshot, QueueSnapshot, ResourceHistory, StateLogEntry, TemplateSnapshot,
    WaitLogEntry,
};
use crate::step::{Baton, QueueCounts};
pub(crate) use decision::decision;
use rows::{AllocationRow, ApplicationRow, AskRow, EndedRow, NodeRow, QueueRow};

pub(crate) fn cluster(
    partition: &str,
    start_ns: i64,
    builds: &[BTreeMap<String, String>],
) -> ClusterSnapshot {
    ClusterSnapshot {
        start_time: start_ns,
        rm_build_information: builds.to_vec(),
        partition: config::plain_name(partition).to_owned(),
        ..ClusterSnapshot::default()
    }
}

/// The facts about a partition that are not in its books.
pub(crate) struct PartitionView<'a> {
    pub(crate) name: &'a str,
    pub(crate) config: &'a PartitionConfig,
    pub(crate) state: ObjectState,
    pub(crate) state_since_ns: i64,
    pub(crate) ended: &'a EndedApplications,
}

pub(crate) fn partition(
    view: &PartitionView<'_>,
    baton: &Baton,
    allocated: Resources,
) -> PartitionSnapshot {
    let capacity = baton.books.nodes.capacity().clone();
    let order = &view.config.node_order;
    let kind = match order.policy {
        NodeSortPolicy::Fair => "fair",
        NodeSortPolicy::BinPacking => "binpacking",
    };
    let resource_weights = if order.weights.is_empty() {
        [("memory".to_owned(), 1.0), ("vcore".to_owned(), 1.0)].into()
    } else {
        order.weights.iter().cloned().collect()
    };
    let count = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
    let mut applications: BTreeMap<String, i32> = BTreeMap::new();
    // Leaves count ended applications as long as the leaf exists, whether they are kept or not.
    let of_leaves = baton.directory.all_queues().flat_map(|entry| &entry.counts.states);
    let live = of_leaves.filter(|(state, _)| !state.is_terminated());
    let live = live.map(|(state, number)| (*state, u64::try_from(*number).unwrap_or(0)));
    for (state, number) in live.chain(view.ended.states()).filter(|(_, number)| *number > 0) {
        let counted = applications.entry(state.text().to_owned()).or_default();
        *counted = counted.saturating_add(count(number));
    }
    let total = applications.values().fold(0_i32, |sum, number| sum.saturating_add(*number));
    applications.insert("total".to_owned(), total);
    PartitionSnapshot {
        name: config::plain_name(view.name).to_owned(),
        capacity: PartitionCapacity {
            utilization: abs_used_capacity(&capacity, &allocated),
            capacity,
            used_capacity: allocated,
        },
        node_sorting_policy: NodeSortingPolicy { kind: kind.to_owned(), resource_weights },
        preemption_enabled: view.config.preemption.enabled,
        quota_preemption_enabled: view.config.preemption.quota,
        total_nodes: count(baton.books.nodes.len() as u64),
        applications,
        total_containers: count(baton.books.n_booked() as u64),
        state: view.state.text().to_owned(),
        last_state_transition_time: view.state_since_ns,
        decisions_kept: baton.decisions.most() as u64,
        decisions: baton.decisions.len() as u64,
        ..PartitionSnapshot::default()
    }
}

/// The snapshot of one queue. Its headroom, and the template of a parent, do not include ancestors yet:
/// see [`inherit`].
pub(crate) fn queue(
    facts: &QueueFacts,
    ledger: &QueueLedger,
    priority: i32,
    headroom: Limits,
    counts: &QueueCounts,
    children: Vec<QueueSnapshot>,
) -> QueueSnapshot {
    let max = ledger.shown_max().cloned().unwrap_or_default();
    QueueSnapshot {
        status: facts.state.text().to_owned(),
        pending_resource: ledger.pending().shown().clone(),
        abs_used_capacity: abs_used_capacity(&max.as_resources(), ledger.allocated()),
        max_resource: max,
        guaranteed_resource: ledger.guaranteed.clone().unwrap_or_default(),
        allocated_resource: ledger.allocated().clone(),
        preempting_resource: ledger.preempting().clone(),
        headroom,
        max_running_apps: ledger.max_running,
        running_apps: ledger.running(),
        current_priority: priority,
        applications: counts.states.clone(),
        allocated_containers: counts.allocated,
        released_containers: counts.released,
        ..configured(&facts.config, children)
    }
}

/// A configured queue and the queues below it, with nothing in them.
pub(crate) fn configured_tree(config: &QueueConfig) -> QueueSnapshot {
    fn below(config: &QueueConfig) -> QueueSnapshot {
        let max = config.max.clone().unwrap_or_default();
        QueueSnapshot {
            status: ObjectState::Active.text().to_owned(),
            headroom: max.clone(),
            max_resource: max,
            guaranteed_resource: config.guaranteed.clone().unwrap_or_default(),
            max_running_apps: config.max_applications,
            current_priority: MIN_PRIORITY,
            ..configured(config, config.children.iter().map(below).collect())
        }
    }
    let mut root = below(config);
    inherit(&mut root);
    root
}

/// The part of a queue's snapshot that its configuration alone decides.
fn configured(config: &QueueConfig, mut children: Vec<QueueSnapshot>) -> QueueSnapshot {
    children.sort_by(|a, b| a.queue_name.cmp(&b.queue_name));
    let settings = &config.settings;
    let sorting = match settings.sort_policy {
        ApplicationSortPolicy::Fifo if config.is_leaf => "fifo",
        _ => "fair",
    };
    let parent = config.path.rsplit_once('.').map_or("", |(parent, _)| parent);
    QueueSnapshot {
        queue_name: config.path.to_string(),
        is_leaf: config.is_leaf,
        is_managed: !config.is_dynamic,
        properties: config.properties.clone(),
        parent: parent.to_owned(),
        template: config.template.as_deref().filter(|_| !config.is_leaf).map(template),
        child_names: children.iter().map(|child| child.queue_name.clone()).collect(),
        children,
        sorting_policy: sorting.to_owned(),
        priority_sorting: settings.priority_sort,
        preemption_enabled: settings.preemption != PreemptionPolicy::Disabled,
        is_preemption_fence: settings.preemption == PreemptionPolicy::Fence,
        preemption_delay: duration::Shown(settings.preemption_delay).to_string(),
        quota_preemption_delay: duration::Shown(settings.quota_preemption_delay).to_string(),
        is_priority_fence: settings.priority_policy == PriorityPolicy::Fence,
        priority_offset: settings.priority_offset,
        unscheduled_ask_backoff: settings.backoff_asks,
        ask_backoff_delay: duration::Shown(settings.backoff_delay).to_string(),
        ..QueueSnapshot::default()
    }
}

fn template(template: &Template) -> TemplateSnapshot {
    TemplateSnapshot {
        max_applications: template.max_applications,
        max_resource: template.max.clone().unwrap_or_default(),
        guaranteed_resource: template.guaranteed.clone().unwrap_or_default(),
        properties: template.properties.clone(),
    }
}

/// The tree of queues, of rows in order of their paths; `None` without root. A queue without a parent among
/// them was created while they were read, and is left out with the queues below it.
pub(crate) fn tree(rows: Vec<QueueRow>, partition: &str) -> Option<QueueSnapshot> {
    let mut below: BTreeMap<String, Vec<QueueSnapshot>> = BTreeMap::new();
    // In reverse order, so that children come before their parents.
    for row in rows.into_iter().rev() {
        let path = row.path();
        let children = below.remove(&**path).unwrap_or_default();
        let of_children = children.iter().flat_map(|child| &child.allocating_accepted_apps);
        let mut allocating: Vec<String> = of_children.cloned().collect();
        allocating.extend(row.allocating.iter().map(ToString::to_string));
        allocating.sort_unstable();
        let headroom = row.headroom.clone();
        let mut snapshot =
            queue(&row.facts, &row.ledger, row.priority, headroom, &row.counts, children);
        snapshot.allocating_accepted_apps = allocating;
        snapshot.used_names.clone_from(&row.used_names);
        snapshot.is_quota_preemption_running = row.quota_timer.is_running();
        snapshot.quota_preemption_start_time = row.quota_timer.start_ns().unwrap_or(0);
        if let Some((parent, _)) = path.rsplit_once('.') {
            below.entry(parent.to_owned()).or_default().push(snapshot);
        } else {
            inherit(&mut snapshot);
            config::plain_name(partition).clone_into(&mut snapshot.partition);
            return Some(snapshot);
        }
    }
    None
}

/// Completes the queues below `queue` by inherited values: no queue has more headroom than its parent, and a
/// parent without a template of its own uses that of the nearest ancestor.
pub(crate) fn inherit(queue: &mut QueueSnapshot) {
    for child in &mut queue.children {
        child.headroom.narrow(&queue.headroom);
        if !child.is_leaf && child.template.is_none() {
            child.template.clone_from(&queue.template);
        }
        inherit(child);
    }
}

pub(crate) fn node(row: NodeRow) -> NodeSnapshot {
    let attribute = |names: [&str; 2]| {
        names.iter().find_map(|name| row.attributes.get(name)).unwrap_or_default().to_owned()
    };
    let (host_name, rack_name) = (
        attribute(["si/hostname", "si.io/hostname"]),
        attribute(["si/rackname", "si.io/rackname"]),
    );
    let mut allocations: Vec<_> = row.allocations.iter().map(allocation).collect();
    allocations.sort_by(|a, b| {
        (&a.allocation_key, &a.application_id).cmp(&(&b.allocation_key, &b.application_id))
    });
    let mut reservations: Vec<String> =
        row.reservations.iter().map(|spec| spec.key.to_string()).collect();
    reservations.sort_unstable();
    let pods = row.reservations.iter();
    let pods = pods.filter_map(|spec| Some((spec.key.to_string(), spec.pod()?.to_string())));
    NodeSnapshot {
        node_id: row.id.to_string(),
        host_name,
        rack_name,
        attributes: row.attributes.to_map(),
        utilized: abs_used_capacity(&row.total, &row.allocated),
        capacity: row.total,
        allocated: row.allocated,
        occupied: row.occupied.pruned(),
        available: row.available.pruned(),
        allocation_count: row.n_allocations.unwrap_or(allocations.len()),
        allocations,
        foreign_allocations: row
            .foreign
            .iter()
            .map(|(key, held)| foreign(key, held, &row.id))
            .collect(),
        schedulable: row.is_open,
        refusals: row.refusals,
        is_reserved: !reservations.is_empty(),
        reservations,
        reserving_pods: pods.collect(),
    }
}

fn foreign(key: &str, held: &Foreign, node: &str) -> ForeignAllocationSnapshot {
    ForeignAllocationSnapshot {
        allocation_key: key.to_owned(),
        allocation_tags: tags(held.tags.as_ref()),
        allocation_time: held.since_ns,
        resource: held.resources.clone(),
        node_id: node.to_owned(),
        preemptable: held.preemptable,
        priority: held.priority,
    }
}

pub(crate) fn application(row: &ApplicationRow) -> ApplicationSnapshot {
    let mut allocations: Vec<_> = row.allocations.iter().map(allocation).collect();
    allocations.sort_by(|a, b| (&a.allocation_key, &a.uuid).cmp(&(&b.allocation_key, &b.uuid)));
    let mut requests: Vec<_> = row.requests.iter().map(|asked| ask(asked, &row.id)).collect();
    requests.sort_by(|a, b| {
        (&a.allocation_key, &a.task_group_name).cmp(&(&b.allocation_key, &b.task_group_name))
    });
    let mut reservations: Vec<String> = row.reservations.iter().map(ToString::to_string).collect();
    reservations.sort_unstable();
    ApplicationSnapshot {
        application_id: row.id.to_string(),
        used_resource: row.used.clone(),
        max_used_resource: row.peak.clone(),
        pending_resource: row.pending.clone(),
        partition: config::plain_name(&row.partition).to_owned(),
        queue_name: row.queue.to_string(),
        submission_time: row.submitted_ns,
        finished_time: row.finished_ns.unwrap_or(0),
        requests,
        allocation_count: row.n_allocations.unwrap_or(allocations.len()),
        allocations,
        application_state: row.state.text().to_owned(),
        user: row.user.to_string(),
        groups: row.groups.clone(),
        application_tags: tags(row.tags.as_ref()),
        state_log: state_log(&row.log),
        wait_log: wait_log(&row.waits),
        placeholder_data: row.placeholders.clone(),
        has_reserved: !reservations.is_empty(),
        reservations,
        max_request_priority: row.priority,
        start_time_millis: row.started_ns.map_or(0, |ns| ns / 1_000_000),
        resource_history: history(&row.history),
        backoff_deadline: row.backs_off_until.map(instant::rfc3339).unwrap_or_default(),
        ..ApplicationSnapshot::default()
    }
}

/// An application that has ended.
pub(crate) fn ended(row: &EndedRow) -> ApplicationSnapshot {
    let ended = &row.ended;
    let removal = ended.removal.as_deref();
    let rm = config::rm_id(&row.partition);
    let removed =
        |removal: &Removal| format!("removed by its resource manager {rm}{}", removal.words());
    ApplicationSnapshot {
        application_id: ended.id.to_string(),
        max_used_resource: ended.peak.clone(),
        pending_resource: removal.map(|removal| removal.pending.clone()).unwrap_or_default(),
        partition: config::plain_name(&row.partition).to_owned(),
        queue_name: ended.queue.to_string(),
        submission_time: ended.submitted_ns,
        finished_time: ended.finished_ns,
        application_state: ended.state.text().to_owned(),
        user: ended.user.to_string(),
        groups: ended.groups.clone(),
        application_tags: tags(ended.tags.as_ref()),
        rejected_message: ended.rejected.as_deref().unwrap_or_default().to_owned(),
        rejected_cure: ended.cure.clone(),
        removed_message: removal.map(removed).unwrap_or_default(),
        state_log: state_log(&ended.log),
        wait_log: wait_log(&ended.waits),
        placeholder_data: ended
            .task_groups
            .iter()
            .map(|(name, group)| placeholders::of_group((name, group)))
            .collect(),
        max_request_priority: MIN_PRIORITY,
        start_time_millis: ended.started_ns.map_or(0, |ns| ns / 1_000_000),
        resource_history: history(&ended.history),
        ..ApplicationSnapshot::default()
    }
}

fn wait_log(log: &[WaitEntry]) -> Vec<WaitLogEntry> {
    let cause = |obstacle| explain::noted(obstacle).text().to_owned();
    let entry = |(time, obstacle): &WaitEntry| WaitLogEntry {
        time: *time,
        cause: obstacle.map(cause).unwrap_or_default(),
    };
    log.iter().map(entry).collect()
}

fn state_log(log: &[(i64, ApplicationState)]) -> Vec<StateLogEntry> {
    let entry = |(time, state): &(i64, ApplicationState)| StateLogEntry {
        time: *time,
        application_state: state.text().to_owned(),
    };
    log.iter().map(entry).collect()
}

fn history(history: &History) -> ResourceHistory {
    let shown = |counted: &ResourceSeconds| {
        counted.iter().map(|(name, amount)| (name.to_string(), amount.clone())).collect()
    };
    ResourceHistory {
        resource_usage: shown(&history.used),
        preempted_resource: shown(&history.preempted),
        placeholder_resource: shown(&history.placeholder),
    }
}

fn ask(row: &AskRow, application: &str) -> AskSnapshot {
    let spec = &row.spec;
    AskSnapshot {
        allocation_key: spec.key.to_string(),
        allocation_tags: tags(spec.tags.as_ref()),
        request_time: row.created_ns,
        resource: Resources::clone(&spec.resources),
        priority: spec.priority,
        required_node_id: spec.required_node.as_ref().map(ToString::to_string).unwrap_or_default(),
        application_id: application.to_owned(),
        originator: spec.originator,
        placeholder: spec.placeholder,
        task_group_name: spec.task_group.as_deref().cloned().unwrap_or_default(),
        internal: spec.form == Form::Internal,
        scheduling_attempted: row.attempted,
        triggered_preemption: row.has_preempted,
        // No RM is notified of an internal ask.
        triggered_scale_up: row.signalled && spec.form != Form::Internal,
        pending_count: i32::try_from(row.outstanding).unwrap_or(i32::MAX),
        allocation_log: allocation_log(row.failures.as_deref()),
    }
}

fn allocation_log(log: Option<&FailureLog>) -> Vec<AllocationLogEntry> {
    let entry = |failure: &Failure| AllocationLogEntry {
        message: failure.text.clone().into_owned(),
        last_occurrence: failure.last_ns,
        count: i32::try_from(failure.count).unwrap_or(i32::MAX),
    };
    log.into_iter().flat_map(FailureLog::iter).map(entry).collect()
}

fn allocation(row: &AllocationRow) -> AllocationSnapshot {
    let entry = &row.allocation;
    // For an allocation that replaced a placeholder, the creation of the placeholder.
    let requested_ns = match entry.pairing {
        Pairing::Took { created_ns } => created_ns,
        _ => entry.stated_creation_ns(),
    };
    // A held place, which no RM knows, has an id for people only.
    let key = if entry.is_hold() { &entry.uuid } else { entry.key() };
    AllocationSnapshot {
        allocation_key: key.to_string(),
        internal: entry.is_hold(),
        uuid: if entry.uuid == *key { String::new() } else { entry.uuid.to_string() },
        allocation_tags: tags(entry.spec.tags.as_ref()),
        request_time: requested_ns,
        allocation_time: entry.stated_creation_ns(),
        allocation_delay: entry.stated_creation_ns().saturating_sub(requested_ns),
        placeholder: entry.spec.placeholder,
        placeholder_used: matches!(entry.pairing, Pairing::Took { .. }),
        task_group_name: entry.spec.task_group.as_deref().cloned().unwrap_or_default(),
        preempted: entry.leaving == Some(Leaving::Preempted),
        preempted_for: entry.preempted_for.as_ref().map(ToString::to_string).unwrap_or_default(),
        resource: entry.resources().clone(),
        priority: entry.spec.priority,
        node_id: row.node.to_string(),
        application_id: row.application.to_string(),
        originator: entry.spec.originator,
    }
}

fn tags(tags: Option<&Tags>) -> BTreeMap<String, String> {
    tags.map(|tags| tags.to_map()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
