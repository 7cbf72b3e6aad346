//! Target for well-formed requests with arbitrary content: several in a row to one session, in the
//! present form and in the oldest dialect. A fuzzer seldom finds such messages byte by byte.
//!
//! The properties are those of [`message`](super::message).

use monoceros_proto::si::legacy::v0 as legacy;
use monoceros_proto::si::v1 as si;
use si::placement_constraint::Constraint;

use super::draw::Draw;
use super::message::{Session, of_the_oldest_dialect, translated};

/// Keys of tags and attributes that have a meaning.
const TAGS: [&str; 9] = [
    "foreign",
    "si/node-partition",
    "creationTime",
    "yunikorn.apache.org/requiredNode",
    "yunikorn.apache.org/allowPreemption",
    "yunikorn.apache.org/task-groups",
    "application.create.force",
    "namespace",
    "monoceros.io/placement-constraint",
];

/// Values of these tags and attributes.
const VALUES: [&str; 9] = [
    "default",
    "static",
    "1700000000",
    "9223372036854775807",
    "nodeID",
    "false",
    "partitionName",
    r#"[{"name": "g", "minMember": 2, "minResource": {"cpu": "500m", "memory": "1Gi"}}]"#,
    r#"{"simpleConstraint": {"allocationAffinityAttribute": {"maxCardinality": 1}}}"#,
];

/// Feeds requests until the bytes are used up.
pub fn request(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let mut session = Session::new(draw.one_in(2));
    while !draw.is_over() {
        match draw.below(4) {
            0 => translated(&mut session, allocations(draw)),
            1 => translated(&mut session, applications(draw)),
            2 => {
                let nodes = draw.list(node);
                translated(&mut session, si::NodeRequest { nodes, ..Default::default() });
            }
            _ => of_the_oldest_dialect(&mut session, update(draw)),
        }
    }
}

fn allocations(draw: &mut Draw<'_>) -> si::AllocationRequest {
    let releases = draw.one_in(2).then(|| si::AllocationReleasesRequest {
        allocations_to_release: draw.list(release),
        allocation_asks_to_release: draw.list(ask_release),
    });
    si::AllocationRequest {
        asks: draw.list(ask),
        allocations: draw.list(allocation),
        releases,
        ..Default::default()
    }
}

fn applications(draw: &mut Draw<'_>) -> si::ApplicationRequest {
    si::ApplicationRequest {
        new: draw.list(new_application),
        remove: draw.list(removal),
        ..Default::default()
    }
}

fn amount(draw: &mut Draw<'_>) -> Option<si::Resource> {
    if draw.one_in(8) {
        return None;
    }
    let quantity = |draw: &mut Draw<'_>| (draw.text(), si::Quantity { value: draw.number() });
    let resources = if draw.one_in(16) { many_names(draw) } else { draw.list(quantity) };
    let usual = ("memory".to_owned(), si::Quantity { value: draw.number() });
    Some(si::Resource { resources: resources.into_iter().chain([usual]).collect() })
}

/// Draws more names than an RM may use, over a few messages.
fn many_names(draw: &mut Draw<'_>) -> Vec<(String, si::Quantity)> {
    let prefix = draw.byte();
    let names = (0..200).map(|n| format!("r{prefix}-{n}"));
    names.map(|name| (name, si::Quantity { value: 1 })).collect()
}

fn tags<M: FromIterator<(String, String)>>(draw: &mut Draw<'_>) -> M {
    let tag = |draw: &mut Draw<'_>| {
        let key =
            if draw.one_in(8) { draw.text() } else { TAGS[draw.below(TAGS.len())].to_owned() };
        let value =
            if draw.one_in(4) { draw.text() } else { VALUES[draw.below(VALUES.len())].to_owned() };
        (key, value)
    };
    draw.list(tag).into_iter().collect()
}

fn policy(draw: &mut Draw<'_>) -> Option<si::PreemptionPolicy> {
    let choice = draw.below(8);
    let (allow_preempt_self, allow_preempt_other) = (choice & 1 == 1, choice & 2 == 2);
    (choice >= 4).then_some(si::PreemptionPolicy { allow_preempt_self, allow_preempt_other })
}

fn ask(draw: &mut Draw<'_>) -> si::AllocationAsk {
    si::AllocationAsk {
        allocation_key: draw.text(),
        application_id: draw.text(),
        partition_name: draw.text(),
        resource_ask: amount(draw),
        max_allocations: draw.small_number(),
        priority: draw.small_number(),
        execution_timeout_milli_seconds: draw.number(),
        tags: tags(draw),
        task_group_name: draw.text(),
        placeholder: draw.one_in(2),
        originator: draw.one_in(2),
        preemption_policy: policy(draw),
        placement_constraint: draw.one_in(4).then(|| constraint(draw, 0)),
    }
}

fn allocation(draw: &mut Draw<'_>) -> si::Allocation {
    si::Allocation {
        allocation_key: draw.text(),
        allocation_tags: tags(draw),
        uuid: draw.name().to_owned(),
        resource_per_alloc: amount(draw),
        priority: draw.small_number(),
        node_id: draw.text(),
        application_id: draw.text(),
        partition_name: draw.text(),
        task_group_name: draw.name().to_owned(),
        placeholder: draw.one_in(4),
        allocation_id: draw.text(),
        originator: draw.one_in(2),
        preemption_policy: policy(draw),
        placement_constraint: draw.one_in(4).then(|| constraint(draw, 0)),
    }
}

fn release(draw: &mut Draw<'_>) -> si::AllocationRelease {
    si::AllocationRelease {
        partition_name: draw.name().to_owned(),
        application_id: draw.name().to_owned(),
        uuid: draw.name().to_owned(),
        termination_type: draw.small_number(),
        message: draw.text(),
        allocation_key: draw.text(),
        allocation_id: draw.name().to_owned(),
        exclude_node: draw.one_in(2),
        failed: draw.one_in(2),
    }
}

fn ask_release(draw: &mut Draw<'_>) -> si::AllocationAskRelease {
    si::AllocationAskRelease {
        partition_name: draw.name().to_owned(),
        application_id: draw.text(),
        allocation_key: draw.text(),
        termination_type: draw.small_number(),
        message: String::new(),
    }
}

fn new_application(draw: &mut Draw<'_>) -> si::AddApplicationRequest {
    let ugi = (!draw.one_in(8))
        .then(|| si::UserGroupInformation { user: draw.text(), groups: draw.list(Draw::text) });
    si::AddApplicationRequest {
        application_id: draw.text(),
        queue_name: draw.text(),
        partition_name: draw.name().to_owned(),
        ugi,
        tags: tags(draw),
        execution_timeout_milli_seconds: draw.number(),
        placeholder_ask: amount(draw),
        gang_scheduling_style: ["Soft", "Hard", "", "?"][draw.below(4)].to_owned(),
        task_groups: draw.list(task_group),
    }
}

fn removal(draw: &mut Draw<'_>) -> si::RemoveApplicationRequest {
    let (application_id, partition_name) = (draw.text(), draw.text());
    si::RemoveApplicationRequest { application_id, partition_name }
}

fn task_group(draw: &mut Draw<'_>) -> si::TaskGroup {
    let topology = draw.one_in(4).then(|| {
        let (required, preferred) = (draw.text(), draw.list(Draw::text));
        si::Topology { required, preferred }
    });
    si::TaskGroup {
        name: draw.text(),
        min_members: draw.small_number(),
        member: amount(draw),
        topology,
        constraint: draw.one_in(4).then(|| constraint(draw, 0)),
        tags: tags(draw),
        priority: draw.small_number(),
        preemption_policy: policy(draw),
    }
}

fn constraint(draw: &mut Draw<'_>, level: usize) -> si::PlacementConstraint {
    let child = |draw: &mut Draw<'_>| constraint(draw, level + 1);
    let kind = match draw.below(4) {
        0 => None,
        1 if level < 12 => {
            let timed = |draw: &mut Draw<'_>| si::TimedPlacementConstraint {
                placement_constraint: draw.one_in(2).then(|| child(draw)),
                scheduling_delay: draw.number(),
                delay_unit: draw.small_number(),
            };
            Some(Constraint::CompositeConstraint(si::CompositePlacementConstraint {
                composite_type: draw.small_number() % 4,
                child_constraints: draw.list(child),
                timed_child_constraints: draw.list(timed),
            }))
        }
        _ => {
            let expression = |draw: &mut Draw<'_>| si::AffinityTargetExpression {
                target_operator: draw.small_number() % 6,
                target_key: draw.text(),
                target_values: draw.list(Draw::text),
            };
            let node = si::NodeAffinityConstraints { target_expressions: draw.list(expression) };
            let near = draw.one_in(2).then(|| si::AllocationAffinityConstraints {
                scope: draw.text(),
                target_expressions: draw.list(expression),
                min_cardinality: draw.small_number(),
                max_cardinality: draw.small_number(),
                required: draw.one_in(2),
            });
            Some(Constraint::SimpleConstraint(si::SimplePlacementConstraint {
                node_affinity_constraint: Some(node),
                allocation_affinity_attribute: near,
            }))
        }
    };
    si::PlacementConstraint { constraint: kind }
}

fn node(draw: &mut Draw<'_>) -> si::NodeInfo {
    si::NodeInfo {
        node_id: draw.text(),
        action: draw.small_number() % 8,
        attributes: tags(draw),
        schedulable_resource: amount(draw),
        occupied_resource: amount(draw),
        existing_allocations: draw.list(allocation),
    }
}

fn update(draw: &mut Draw<'_>) -> legacy::UpdateRequest {
    let releases = draw.one_in(2).then(|| legacy::AllocationReleasesRequest {
        allocations_to_release: draw.list(|draw| legacy::AllocationRelease {
            partition_name: draw.name().to_owned(),
            application_id: draw.name().to_owned(),
            uuid: draw.text(),
            termination_type: draw.small_number(),
            message: String::new(),
        }),
        allocation_asks_to_release: draw.list(|draw| legacy::AllocationAskRelease {
            partition_name: draw.name().to_owned(),
            application_id: draw.name().to_owned(),
            allocationkey: draw.text(),
            message: String::new(),
        }),
    });
    legacy::UpdateRequest {
        asks: draw.list(old_ask),
        releases,
        new_schedulable_nodes: draw.list(|draw| legacy::NewNodeInfo {
            node_id: draw.text(),
            attributes: tags(draw),
            schedulable_resource: amount(draw),
            occupied_resource: amount(draw),
            existing_allocations: draw.list(old_allocation),
        }),
        updated_nodes: draw.list(|draw| legacy::UpdateNodeInfo {
            node_id: draw.text(),
            attributes: tags(draw),
            schedulable_resource: amount(draw),
            occupied_resource: amount(draw),
            action: draw.small_number(),
        }),
        utilization_reports: draw.list(|draw| si::UtilizationReport {
            id: draw.text(),
            actual_used_resource: amount(draw),
        }),
        new_applications: draw.list(new_application),
        remove_applications: draw.list(removal),
        ..Default::default()
    }
}

fn priority(draw: &mut Draw<'_>) -> Option<legacy::Priority> {
    use legacy::priority::Priority::{PriorityClassName, PriorityValue};
    let priority = match draw.below(4) {
        0 => return None,
        1 => None,
        2 => Some(PriorityValue(draw.small_number())),
        _ => Some(PriorityClassName(["high", "low"][draw.below(2)].to_owned())),
    };
    Some(legacy::Priority { priority })
}

fn old_ask(draw: &mut Draw<'_>) -> legacy::AllocationAsk {
    use legacy::placement_constraint::Constraint::SimpleConstraint;
    let expression = |draw: &mut Draw<'_>| legacy::AffinityTargetExpression {
        target_operator: None,
        target_key: draw.text(),
        target_values: draw.list(Draw::text),
    };
    let constraint = |draw: &mut Draw<'_>| {
        let node = legacy::NodeAffinityConstraints { target_expressions: draw.list(expression) };
        let near = draw.one_in(4).then(|| legacy::AllocationAffinityConstraints {
            scope: draw.text(),
            traget_expressions: draw.list(expression),
            min_cardinality: draw.small_number(),
            max_cardinality: draw.small_number(),
            required: draw.one_in(2),
        });
        let simple = legacy::SimplePlacementConstraint {
            node_affinity_constraint: Some(node),
            allocation_affinity_attribute: near,
        };
        legacy::PlacementConstraint { constraint: Some(SimpleConstraint(simple)) }
    };
    legacy::AllocationAsk {
        allocation_key: draw.text(),
        application_id: draw.text(),
        partition_name: draw.name().to_owned(),
        resource_ask: amount(draw),
        max_allocations: draw.small_number(),
        priority: priority(draw),
        execution_timeout_milli_seconds: draw.number(),
        tags: tags(draw),
        placement_constraint: draw.one_in(2).then(|| constraint(draw)),
        task_group_name: draw.text(),
        placeholder: draw.one_in(4),
    }
}

fn old_allocation(draw: &mut Draw<'_>) -> legacy::Allocation {
    legacy::Allocation {
        allocation_key: draw.text(),
        allocation_tags: tags(draw),
        uuid: draw.name().to_owned(),
        resource_per_alloc: amount(draw),
        priority: priority(draw),
        queue_name: draw.text(),
        node_id: draw.text(),
        application_id: draw.text(),
        partition_name: draw.name().to_owned(),
        task_group_name: draw.text(),
        placeholder: draw.one_in(4),
    }
}
