use super::*;

fn options() -> LegacyOptions {
    LegacyOptions {
        priority_classes: [("high".to_owned(), 100)].into(),
        ..LegacyOptions::default()
    }
}

fn memory(value: i64) -> si::Resource {
    si::Resource { resources: [("memory".to_owned(), si::Quantity { value })].into() }
}

fn ask(key: &str) -> legacy::AllocationAsk {
    legacy::AllocationAsk {
        allocation_key: key.to_owned(),
        application_id: "app".to_owned(),
        resource_ask: Some(memory(512)),
        max_allocations: 1,
        ..legacy::AllocationAsk::default()
    }
}

fn translated(request: legacy::UpdateRequest, options: &LegacyOptions) -> Operations {
    operations(request, options, &mut Echoes::default())
}

#[test]
fn unknown_priority_class_is_counted() {
    let with = |priority| legacy::AllocationAsk {
        priority: Some(legacy::Priority { priority: Some(priority) }),
        ..ask("k")
    };
    let class = |name: &str| with(Priority::PriorityClassName(name.to_owned()));
    let asks = vec![with(Priority::PriorityValue(-7)), class("high"), class("low"), ask("k")];
    let request = legacy::UpdateRequest { asks, ..legacy::UpdateRequest::default() };
    let operations = translated(request, &options());
    let priorities: Vec<i32> = operations.allocation.asks.iter().map(|ask| ask.priority).collect();
    assert_eq!(priorities, [-7, 100, 0, 0]);
    assert_eq!(operations.ignored, [Ignored::PriorityClass]);
}

#[test]
fn moved_fields_are_translated() {
    let sent = legacy::AllocationAsk {
        task_group_name: "workers".to_owned(),
        placeholder: true,
        execution_timeout_milli_seconds: 5,
        ..ask("k")
    };
    let request = legacy::UpdateRequest { asks: vec![sent], ..legacy::UpdateRequest::default() };
    let operations = translated(request, &options());
    let ask = &operations.allocation.asks[0];
    assert_eq!((&*ask.task_group_name, ask.placeholder), ("workers", true));
    assert!(!ask.originator);
    assert_eq!(ask.execution_timeout_milli_seconds, 5);
    assert_eq!(ask.preemption_policy, None);
}

#[test]
fn termination_types_are_shifted_by_one() {
    let release = |termination_type| legacy::AllocationRelease {
        application_id: "app".to_owned(),
        uuid: "u".to_owned(),
        termination_type,
        ..legacy::AllocationRelease::default()
    };
    let request = || {
        let releases = legacy::AllocationReleasesRequest {
            allocations_to_release: [0, 1, 2, 3, 77].map(release).to_vec(),
            ..legacy::AllocationReleasesRequest::default()
        };
        legacy::UpdateRequest { releases: Some(releases), ..legacy::UpdateRequest::default() }
    };
    let types = |operations: &Operations| -> Vec<i32> {
        let releases = operations.allocation.releases.as_ref().unwrap();
        releases.allocations_to_release.iter().map(|release| release.termination_type).collect()
    };
    let lenient = translated(request(), &options());
    assert_eq!(types(&lenient), [1, 2, 3, 4, 1]);
    assert_eq!(lenient.ignored, [Ignored::TerminationType]);
    let strict = translated(request(), &LegacyOptions { strict_enums: true, ..options() });
    assert_eq!(types(&strict), [1, 2, 3, 4]);
    assert_eq!(strict.ignored, [Ignored::TerminationType]);
}

#[test]
fn release_without_application_is_counted() {
    let releases = legacy::AllocationReleasesRequest {
        allocations_to_release: vec![
            legacy::AllocationRelease::default(),
            legacy::AllocationRelease {
                application_id: "app".to_owned(),
                ..legacy::AllocationRelease::default()
            },
        ],
        allocation_asks_to_release: vec![legacy::AllocationAskRelease {
            application_id: "app".to_owned(),
            allocationkey: "k".to_owned(),
            ..legacy::AllocationAskRelease::default()
        }],
    };
    let request =
        legacy::UpdateRequest { releases: Some(releases), ..legacy::UpdateRequest::default() };
    let operations = translated(request, &options());
    assert_eq!(operations.ignored, [Ignored::ReleaseOfNothing]);
    let releases = operations.allocation.releases.unwrap();
    assert_eq!(releases.allocations_to_release.len(), 1);
    assert_eq!(releases.allocations_to_release[0].uuid, "");
    let withdrawn = &releases.allocation_asks_to_release[0];
    assert_eq!(withdrawn.allocation_key, "k");
    assert_eq!(withdrawn.termination_type(), si::TerminationType::StoppedByRm);
}

#[test]
fn node_actions_are_shifted_by_two() {
    let node = |action| legacy::UpdateNodeInfo {
        node_id: "n".to_owned(),
        action,
        ..legacy::UpdateNodeInfo::default()
    };
    let request = legacy::UpdateRequest {
        new_schedulable_nodes: vec![legacy::NewNodeInfo::default()],
        updated_nodes: [0, 1, 2, 3, 9].map(node).to_vec(),
        ..legacy::UpdateRequest::default()
    };
    let operations = translated(request, &options());
    let actions: Vec<i32> = operations.nodes.nodes.iter().map(|node| node.action).collect();
    assert_eq!(actions, [1, 2, 3, 4, 5]);
    assert_eq!(operations.ignored, [Ignored::NodeAction]);
}

#[test]
fn overflowing_megabytes_are_refused_item_by_item() {
    let huge = || Some(memory(i64::MAX));
    let request = legacy::UpdateRequest {
        asks: vec![ask("good"), legacy::AllocationAsk { resource_ask: huge(), ..ask("bad") }],
        new_schedulable_nodes: vec![
            legacy::NewNodeInfo {
                node_id: "good".to_owned(),
                schedulable_resource: Some(memory(1_024)),
                ..legacy::NewNodeInfo::default()
            },
            legacy::NewNodeInfo {
                node_id: "bad".to_owned(),
                existing_allocations: vec![legacy::Allocation {
                    resource_per_alloc: huge(),
                    ..legacy::Allocation::default()
                }],
                ..legacy::NewNodeInfo::default()
            },
        ],
        updated_nodes: vec![legacy::UpdateNodeInfo {
            occupied_resource: huge(),
            ..legacy::UpdateNodeInfo::default()
        }],
        new_applications: vec![si::AddApplicationRequest {
            application_id: "bad".to_owned(),
            placeholder_ask: huge(),
            ..si::AddApplicationRequest::default()
        }],
        utilization_reports: vec![si::UtilizationReport {
            actual_used_resource: huge(),
            ..si::UtilizationReport::default()
        }],
        ..legacy::UpdateRequest::default()
    };
    let megabytes = LegacyOptions {
        memory: super::super::memory::MemoryUnit::Megabyte,
        ..LegacyOptions::default()
    };
    let operations = translated(request, &megabytes);
    assert_eq!(operations.allocation.asks.len(), 1);
    assert_eq!(operations.allocation.asks[0].resource_ask, Some(memory(512_000_000)));
    assert_eq!(operations.nodes.nodes.len(), 1);
    assert_eq!(operations.nodes.nodes[0].schedulable_resource, Some(memory(1_024_000_000)));
    assert_eq!(operations.ignored, [Ignored::NodeUpdate, Ignored::UtilizationReport]);
    let refused = operations.refused;
    assert!(refused.rejected_allocations[0].reason.ends_with("[R_OVERFLOW]"));
    assert!(refused.rejected_nodes[0].reason.ends_with("[R_OVERFLOW]"));
    assert!(refused.rejected_applications[0].reason.ends_with("[R_OVERFLOW]"));
}

#[test]
fn contradicting_required_node_is_refused() {
    use legacy::placement_constraint::Constraint as Kind;
    let on = |key: &str| {
        let expression = legacy::AffinityTargetExpression {
            target_key: key.to_owned(),
            target_values: vec!["n1".to_owned()],
            ..legacy::AffinityTargetExpression::default()
        };
        let simple = legacy::SimplePlacementConstraint {
            node_affinity_constraint: Some(legacy::NodeAffinityConstraints {
                target_expressions: vec![expression],
            }),
            allocation_affinity_attribute: None,
        };
        let constraint =
            legacy::PlacementConstraint { constraint: Some(Kind::SimpleConstraint(simple)) };
        legacy::AllocationAsk { placement_constraint: Some(constraint), ..ask(key) }
    };
    let tagged = |key: &str, node: &str| legacy::AllocationAsk {
        allocation_key: format!("{key} and {node}"),
        tags: [(REQUIRED_NODE.to_owned(), node.to_owned())].into(),
        ..on(key)
    };
    let request = legacy::UpdateRequest {
        asks: vec![
            on("si/zone"),
            on("si/hostname"),
            tagged("si/hostname", "n1"),
            tagged("si/hostname", "n2"),
        ],
        ..legacy::UpdateRequest::default()
    };
    let mut echoes = Echoes::default();
    let operations = operations(request, &options(), &mut echoes);
    let refused = &operations.refused.rejected_allocations;
    let keys: Vec<_> = refused.iter().map(|refused| refused.allocation_key.as_str()).collect();
    assert_eq!(keys, ["si/hostname and n2"]);
    for refused in refused {
        assert!(refused.reason.ends_with("[R_CONSTRAINT]"), "{}", refused.reason);
    }
    let taken = &operations.allocation.asks;
    assert_eq!(taken.len(), 3);
    assert!(taken[0].placement_constraint.is_some() && !taken[0].tags.contains_key(REQUIRED_NODE));
    assert!(taken[1..].iter().all(|ask| ask.tags[REQUIRED_NODE] == "n1"));
    assert!(taken[1..].iter().all(|ask| ask.placement_constraint.is_none()));
    assert!(echoes.allocated("", "app", "si/hostname", 0).hides_required_node);
    assert!(!echoes.allocated("", "app", "si/hostname and n1", 0).hides_required_node);
}
