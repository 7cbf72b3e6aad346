//! The texts of a report, each by its kind.

use std::collections::BTreeMap;

use monoceros_actors::image::Report;
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::placement_constraint::Constraint;

use super::names::Names;

/// Shows all texts of a report to `names`, which may replace them.
pub(super) fn visit(report: &mut Report, names: &mut Names) {
    if names.is_idle() {
        return;
    }
    let Report { nodes, applications, allocations, foreign, held, asks, repeated_asks } = report;
    for it in nodes {
        node(it, names);
    }
    for it in applications.iter_mut().chain(held) {
        application(it, names);
    }
    for it in allocations.iter_mut().chain(foreign).chain(asks) {
        allocation(it, names);
    }
    for it in repeated_asks {
        ask(it, names);
    }
}

fn node(node: &mut si::NodeInfo, names: &mut Names) {
    names.name(&mut node.node_id);
    tags(&mut node.attributes, names);
    resource(&mut node.schedulable_resource, names);
    resource(&mut node.occupied_resource, names);
}

fn application(application: &mut si::AddApplicationRequest, names: &mut Names) {
    names.name(&mut application.application_id);
    names.path(&mut application.queue_name);
    names.name(&mut application.partition_name);
    if let Some(ugi) = &mut application.ugi {
        names.user(&mut ugi.user);
        ugi.groups.iter_mut().for_each(|group| names.user(group));
    }
    tags(&mut application.tags, names);
    resource(&mut application.placeholder_ask, names);
    for group in &mut application.task_groups {
        names.name(&mut group.name);
        resource(&mut group.member, names);
        tags(&mut group.tags, names);
        constraint(&mut group.constraint, names);
        if let Some(topology) = &mut group.topology {
            names.key(&mut topology.required);
            topology.preferred.iter_mut().for_each(|key| names.key(key));
        }
    }
}

fn allocation(allocation: &mut si::Allocation, names: &mut Names) {
    names.name(&mut allocation.allocation_key);
    names.composed(&mut allocation.uuid);
    names.name(&mut allocation.node_id);
    names.name(&mut allocation.application_id);
    names.name(&mut allocation.partition_name);
    names.name(&mut allocation.task_group_name);
    tags(&mut allocation.allocation_tags, names);
    resource(&mut allocation.resource_per_alloc, names);
    constraint(&mut allocation.placement_constraint, names);
}

fn ask(ask: &mut si::AllocationAsk, names: &mut Names) {
    names.name(&mut ask.allocation_key);
    names.name(&mut ask.application_id);
    names.name(&mut ask.partition_name);
    names.name(&mut ask.task_group_name);
    tags(&mut ask.tags, names);
    resource(&mut ask.resource_ask, names);
    constraint(&mut ask.placement_constraint, names);
}

fn tags(tags: &mut BTreeMap<String, String>, names: &mut Names) {
    let before = std::mem::take(tags).into_iter();
    tags.extend(before.map(|(mut key, mut value)| {
        names.tag(&mut key, &mut value);
        (key, value)
    }));
}

fn resource(resource: &mut Option<si::Resource>, names: &mut Names) {
    let Some(resource) = resource else { return };
    let before = std::mem::take(&mut resource.resources).into_iter();
    resource.resources.extend(before.map(|(mut name, quantity)| {
        names.resource(&mut name);
        (name, quantity)
    }));
}

fn constraint(constraint: &mut Option<si::PlacementConstraint>, names: &mut Names) {
    if let Some(constraint) = constraint {
        kind(&mut constraint.constraint, names);
    }
}

fn kind(kind_of: &mut Option<Constraint>, names: &mut Names) {
    match kind_of {
        None => {}
        Some(Constraint::SimpleConstraint(simple)) => {
            let node = simple.node_affinity_constraint.iter_mut();
            node.for_each(|it| expressions(&mut it.target_expressions, names));
            if let Some(near) = &mut simple.allocation_affinity_attribute {
                names.key(&mut near.scope);
                expressions(&mut near.target_expressions, names);
            }
        }
        Some(Constraint::CompositeConstraint(composite)) => {
            let children = composite.child_constraints.iter_mut();
            children.for_each(|it| kind(&mut it.constraint, names));
            let timed = composite.timed_child_constraints.iter_mut();
            timed.for_each(|it| constraint(&mut it.placement_constraint, names));
        }
    }
}

fn expressions(expressions: &mut [si::AffinityTargetExpression], names: &mut Names) {
    for expression in expressions {
        for value in &mut expression.target_values {
            names.tag(&mut expression.target_key.clone(), value);
        }
        names.key(&mut expression.target_key);
    }
}
