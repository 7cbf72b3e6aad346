//! Conversion of the scheduler's snapshots to messages of the admin service.
//!
//! REST shows the same snapshots, so a dashboard and a program of an operator never disagree about
//! the state of the scheduler.

use std::sync::Arc;

use monoceros_actors::snapshot::{
    AllocationSnapshot, ApplicationSnapshot, AskSnapshot, NodeSnapshot, QueueSnapshot,
};
use monoceros_actors::{Limits, Resources};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;

use super::explain::Reasons;

/// Converts a queue with `depth` levels, itself included; zero means all levels.
pub(super) fn queue(snapshot: QueueSnapshot, depth: u32) -> v1::QueueInfo {
    let below = |child| queue(child, depth.saturating_sub(1));
    let children = if depth == 1 { Vec::new() } else { snapshot.children };
    v1::QueueInfo {
        path: snapshot.queue_name,
        state: snapshot.status,
        leaf: snapshot.is_leaf,
        managed: snapshot.is_managed,
        guaranteed: amount(&snapshot.guaranteed_resource),
        max: limits(&snapshot.max_resource),
        allocated: amount(&snapshot.allocated_resource),
        pending: amount(&snapshot.pending_resource),
        headroom: limits(&snapshot.headroom),
        max_running_applications: snapshot.max_running_apps,
        running_applications: snapshot.running_apps,
        priority: snapshot.current_priority,
        children: children.into_iter().map(below).collect(),
        preempting: amount(&snapshot.preempting_resource),
        sorting_policy: snapshot.sorting_policy,
        priority_sorting: snapshot.priority_sorting,
        priority_offset: snapshot.priority_offset,
        priority_fence: snapshot.is_priority_fence,
        preemption_enabled: snapshot.preemption_enabled,
        preemption_fence: snapshot.is_preemption_fence,
        properties: snapshot.properties,
        child_paths: snapshot.child_names,
    }
}

/// The parts of an application that a caller may leave out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extras {
    /// The allocations and requests.
    pub(super) details: bool,
    /// Reason of the wait. Ended and rejected applications wait for nothing.
    pub(super) why: bool,
}

/// Converts an application.
pub(super) fn application(
    snapshot: ApplicationSnapshot,
    wanted: Extras,
    reasons: &Reasons,
) -> v1::ApplicationInfo {
    let mut placeholders = Resources::new();
    for allocation in snapshot.allocations.iter().filter(|allocation| allocation.placeholder) {
        placeholders.add(&allocation.resource);
    }
    let allocated = snapshot.used_resource.plus(&placeholders);
    let state = |entry: monoceros_actors::snapshot::StateLogEntry| v1::StateChange {
        state: entry.application_state,
        entered_at_nano: entry.time,
    };
    let mut message = v1::ApplicationInfo {
        application_id: snapshot.application_id,
        queue: snapshot.queue_name,
        user: snapshot.user,
        state: snapshot.application_state,
        submitted_at_nano: snapshot.submission_time,
        allocated: amount(&allocated),
        pending: amount(&snapshot.pending_resource),
        allocations: count(snapshot.allocations.len()),
        requests: snapshot.requests.iter().map(outstanding).fold(0, u32::saturating_add),
        groups: snapshot.groups,
        placeholders: amount(&placeholders),
        started_at_nano: snapshot.start_time_millis.saturating_mul(1_000_000),
        priority: snapshot.max_request_priority,
        state_log: snapshot.state_log.into_iter().map(state).collect(),
        held: Vec::new(),
        waiting: Vec::new(),
        why: String::new(),
        cure: snapshot.rejected_cure.into_owned(),
        rejected: snapshot.rejected_message,
        tags: snapshot.application_tags.into_iter().collect(),
        removed: snapshot.removed_message,
    };
    if wanted.why {
        (message.why, message.cure) =
            reasons.of_application(&message.application_id, &snapshot.requests);
    }
    if wanted.details {
        message.held = snapshot.allocations.into_iter().map(allocation).collect();
        message.waiting =
            snapshot.requests.into_iter().map(|waiting| request(waiting, reasons)).collect();
    }
    message
}

/// Converts a node, with its allocations if `details`.
pub(super) fn node(snapshot: NodeSnapshot, details: bool) -> v1::NodeState {
    let allocations = count(snapshot.allocations.len());
    let held = if details { snapshot.allocations } else { Vec::new() };
    v1::NodeState {
        node_id: snapshot.node_id,
        capacity: amount(&snapshot.capacity),
        allocated: amount(&snapshot.allocated),
        occupied: amount(&snapshot.occupied),
        available: amount(&snapshot.available),
        schedulable: snapshot.schedulable,
        allocations,
        attributes: snapshot.attributes,
        host_name: snapshot.host_name,
        rack_name: snapshot.rack_name,
        reserved_by: snapshot.reservations,
        foreign_allocations: count(snapshot.foreign_allocations.len()),
        held: held.into_iter().map(allocation).collect(),
        reserving_pods: snapshot.reserving_pods,
    }
}

/// Converts an amount. `None` if it has no entries.
pub(in crate::grpc) fn amount(resources: &Resources) -> Option<si::Resource> {
    message(resources.sorted())
}

pub(super) fn limits(limits: &Limits) -> Option<si::Resource> {
    message(limits.sorted())
}

fn message(entries: Vec<(Arc<str>, i64)>) -> Option<si::Resource> {
    if entries.is_empty() {
        return None;
    }
    let quantity = |(name, value): (Arc<str>, i64)| (name.to_string(), si::Quantity { value });
    Some(si::Resource { resources: entries.into_iter().map(quantity).collect() })
}

fn allocation(snapshot: AllocationSnapshot) -> v1::AllocationInfo {
    let uuid = match snapshot.uuid {
        same if same.is_empty() => snapshot.allocation_key.clone(),
        own => own,
    };
    v1::AllocationInfo {
        allocation_key: snapshot.allocation_key,
        uuid,
        application_id: snapshot.application_id,
        node_id: snapshot.node_id,
        resource: amount(&snapshot.resource),
        priority: snapshot.priority,
        placeholder: snapshot.placeholder,
        task_group_name: snapshot.task_group_name,
        preempted: snapshot.preempted,
        allocated_at_nano: snapshot.allocation_time,
        tags: snapshot.allocation_tags,
        internal: snapshot.internal,
    }
}

fn request(snapshot: AskSnapshot, reasons: &Reasons) -> v1::RequestInfo {
    let count = outstanding(&snapshot);
    let reasons = reasons.of(&snapshot);
    v1::RequestInfo {
        allocation_key: snapshot.allocation_key,
        application_id: snapshot.application_id,
        resource: amount(&snapshot.resource),
        count,
        priority: snapshot.priority,
        required_node_id: snapshot.required_node_id,
        placeholder: snapshot.placeholder,
        task_group_name: snapshot.task_group_name,
        requested_at_nano: snapshot.request_time,
        reasons,
        tags: snapshot.allocation_tags,
        internal: snapshot.internal,
    }
}

/// The number of allocations that an ask still wants.
fn outstanding(ask: &AskSnapshot) -> u32 {
    ask.pending_count.max(1).unsigned_abs()
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use monoceros_actors::snapshot::AllocationLogEntry;

    use super::*;

    fn tree() -> QueueSnapshot {
        let queue = |path: &str, children: Vec<QueueSnapshot>| QueueSnapshot {
            queue_name: path.to_owned(),
            child_names: children.iter().map(|child| child.queue_name.clone()).collect(),
            children,
            ..QueueSnapshot::default()
        };
        queue("root", vec![queue("root.a", vec![queue("root.a.b", vec![])])])
    }

    fn height(queue: &v1::QueueInfo) -> usize {
        1 + queue.children.iter().map(height).max().unwrap_or(0)
    }

    #[test]
    fn queue_depth_limits_the_tree() {
        for (depth, levels) in [(0, 3), (1, 1), (2, 2), (3, 3), (9, 3)] {
            let root = queue(tree(), depth);
            assert_eq!(height(&root), levels, "depth {depth}");
            assert_eq!(root.child_paths, ["root.a"]);
        }
    }

    #[test]
    fn placeholders_count_as_allocated() {
        let held = |key: &str, placeholder| AllocationSnapshot {
            allocation_key: key.to_owned(),
            resource: Resources::of(&[("vcore", 2)]),
            placeholder,
            ..AllocationSnapshot::default()
        };
        let snapshot = ApplicationSnapshot {
            used_resource: Resources::of(&[("vcore", 2)]),
            allocations: vec![held("a", false), held("b", true)],
            requests: vec![AskSnapshot { pending_count: 3, ..AskSnapshot::default() }; 2],
            ..ApplicationSnapshot::default()
        };
        let nothing = Reasons::default();
        let short = application(snapshot.clone(), Extras::default(), &nothing);
        let vcore = |amount: &Option<si::Resource>| {
            amount.as_ref().map_or(0, |amount| amount.resources["vcore"].value)
        };
        assert_eq!((vcore(&short.allocated), vcore(&short.placeholders)), (4, 2));
        assert_eq!((short.allocations, short.requests), (2, 6));
        assert!(short.held.is_empty() && short.waiting.is_empty());
        let detailed = Extras { details: true, why: false };
        let long = application(snapshot, detailed, &nothing);
        assert_eq!((long.held.len(), long.waiting.len()), (2, 2));
        assert_eq!(long.held[0].uuid, "a");
    }

    #[test]
    fn a_rejected_application_has_a_reason_and_a_cure() {
        let snapshot = ApplicationSnapshot {
            rejected_message: "application `a`: queue `root.b` is none [R_NOT_LEAF]".to_owned(),
            rejected_cure: "name one of the leaves below that queue".into(),
            ..ApplicationSnapshot::default()
        };
        let shown = application(snapshot, Extras::default(), &Reasons::default());
        assert!(shown.rejected.ends_with("[R_NOT_LEAF]"));
        assert_eq!(shown.cure, "name one of the leaves below that queue");
    }

    #[test]
    fn an_unexplained_application_shows_its_last_try() {
        let found = |message: &str| AllocationLogEntry {
            message: message.to_owned(),
            ..AllocationLogEntry::default()
        };
        let ask = AskSnapshot {
            allocation_log: vec![found("old"), found("new")],
            ..AskSnapshot::default()
        };
        let snapshot =
            ApplicationSnapshot { requests: vec![ask], ..ApplicationSnapshot::default() };
        let why = Extras { details: false, why: true };
        let shown = application(snapshot.clone(), why, &Reasons::default());
        assert_eq!((&*shown.why, &*shown.cure), ("new", ""));
        let shown = application(snapshot, Extras::default(), &Reasons::default());
        assert_eq!(shown.why, "");
    }

    #[test]
    fn internal_asks_and_allocations_are_marked() {
        let held = |key: &str, internal| AllocationSnapshot {
            allocation_key: key.to_owned(),
            placeholder: true,
            task_group_name: "a".to_owned(),
            internal,
            ..AllocationSnapshot::default()
        };
        let asked = |key: &str, internal| AskSnapshot {
            allocation_key: key.to_owned(),
            placeholder: true,
            task_group_name: "a".to_owned(),
            internal,
            ..AskSnapshot::default()
        };
        let snapshot = ApplicationSnapshot {
            allocations: vec![held("a~1", false), held("a~1", true)],
            requests: vec![asked("", true), asked("a~2", false)],
            ..ApplicationSnapshot::default()
        };
        let detailed = Extras { details: true, why: false };
        let shown = application(snapshot, detailed, &Reasons::default());
        let held = shown.held.iter().map(|held| (&*held.allocation_key, held.internal));
        assert_eq!(held.collect::<Vec<_>>(), [("a~1", false), ("a~1", true)]);
        let waiting = shown.waiting.iter().map(|asked| (&*asked.allocation_key, asked.internal));
        assert_eq!(waiting.collect::<Vec<_>>(), [("", true), ("a~2", false)]);
        assert!(shown.held.iter().all(|held| held.placeholder && held.task_group_name == "a"));
        assert!(
            shown.waiting.iter().all(|asked| asked.placeholder && asked.task_group_name == "a")
        );
    }

    #[test]
    fn empty_amount_is_absent_and_zero_is_not() {
        assert_eq!(amount(&Resources::new()), None);
        assert!(amount(&Resources::of(&[("vcore", 0)])).is_some());
    }
}
