//! The documents as clients read them, byte by byte, since a field that is renamed or left out
//! breaks a client without any error here.

use expect_test::{Expect, expect};
use serde::Serialize;

use super::*;

fn check(snapshot: impl Serialize, expected: &Expect) {
    expected.assert_eq(&serde_json::to_string(&snapshot).unwrap());
}

fn text_map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn empty_objects_keep_only_required_fields() {
    check(ClusterSnapshot::default(), &expect![[r#"{"partition":"","clusterName":"kubernetes"}"#]]);
    check(
        PartitionSnapshot::default(),
        &expect![[
            r#"{"clusterId":"","name":"","capacity":{},"nodeSortingPolicy":{"type":""},"preemptionEnabled":false,"quotaPreemptionEnabled":false,"totalNodes":0,"applications":{},"decisionsKept":0}"#
        ]],
    );
    check(
        QueueSnapshot::default(),
        &expect![[
            r#"{"queuename":"","partition":"","isLeaf":false,"isManaged":false,"currentPriority":0,"prioritySorting":false,"preemptionEnabled":false,"isPreemptionFence":false,"preemptionDelay":"","quotaPreemptionDelay":"","isPriorityFence":false,"isQuotaPreemptionRunning":false}"#
        ]],
    );
    check(TemplateSnapshot::default(), &expect!["{}"]);
    check(
        NodeSnapshot::default(),
        &expect![[r#"{"nodeID":"","attributes":{},"schedulable":false,"isReserved":false}"#]],
    );
    check(
        ApplicationSnapshot::default(),
        &expect![[r#"{"applicationID":"","partition":"","queueName":"","resourceHistory":{}}"#]],
    );
    check(UserSnapshot::default(), &expect![[r#"{"userName":"","queues":{"queuePath":""}}"#]]);
    check(GroupSnapshot::default(), &expect![[r#"{"groupName":"","queues":{"queuePath":""}}"#]]);
    check(AskSnapshot::default(), &expect![[r#"{"allocationKey":"","priority":"0"}"#]]);
    check(AllocationSnapshot::default(), &expect![[r#"{"allocationKey":"","priority":"0"}"#]]);
    check(
        ForeignAllocationSnapshot::default(),
        &expect![[r#"{"allocationKey":"","priority":"0"}"#]],
    );
}

#[test]
fn a_cluster_has_its_names_in_order() {
    check(
        vec![ClusterSnapshot {
            start_time: 1_790_000_000_123_456_789,
            rm_build_information: vec![text_map(&[
                ("rmId", "lab"),
                ("buildVersion", "r7"),
                ("buildDate", "2026-05-04T10:11:12+0000"),
            ])],
            partition: "default".into(),
            ..ClusterSnapshot::default()
        }],
        &expect![[
            r#"[{"startTime":1790000000123456789,"rmBuildInformation":[{"buildDate":"2026-05-04T10:11:12+0000","buildVersion":"r7","rmId":"lab"}],"partition":"default","clusterName":"kubernetes"}]"#
        ]],
    );
}

#[test]
fn a_partition_names_its_resources_in_order() {
    check(
        PartitionSnapshot {
            cluster_id: "lab".into(),
            name: "default".into(),
            capacity: PartitionCapacity {
                capacity: Resources::of(&[("vcore", 4000), ("pods", 110), ("memory", 1 << 54)]),
                used_capacity: Resources::of(&[("vcore", 1000), ("memory", 0)]),
                utilization: Resources::of(&[("vcore", 25), ("memory", 0)]),
            },
            node_sorting_policy: NodeSortingPolicy {
                kind: "fair".into(),
                resource_weights: [("vcore".into(), 1.0), ("memory".into(), 0.5)].into(),
            },
            preemption_enabled: true,
            total_nodes: 1,
            applications: [(TOTAL.into(), 3), ("Running".into(), 2), ("Failed".into(), 1)].into(),
            total_containers: 2,
            state: "Active".into(),
            last_state_transition_time: 5,
            ..PartitionSnapshot::default()
        },
        &expect![[
            r#"{"clusterId":"lab","name":"default","capacity":{"capacity":{"memory":18014398509481984,"pods":110,"vcore":4000},"usedCapacity":{"memory":0,"vcore":1000},"utilization":{"memory":0,"vcore":25}},"nodeSortingPolicy":{"type":"fair","resourceWeights":{"memory":0.5,"vcore":1.0}},"preemptionEnabled":true,"quotaPreemptionEnabled":false,"totalNodes":1,"applications":{"Failed":1,"Running":2,"total":3},"totalContainers":2,"state":"Active","lastStateTransitionTime":5,"decisionsKept":0}"#
        ]],
    );
}

#[test]
fn queue_tree_distinguishes_no_limit_from_zero() {
    check(
        QueueSnapshot {
            queue_name: "root".into(),
            status: "Active".into(),
            partition: "default".into(),
            max_resource: Limits::of(&[("vcore", 0)]),
            headroom: Limits::of(&[("vcore", -5)]),
            is_managed: true,
            template: Some(TemplateSnapshot { max_applications: 7, ..TemplateSnapshot::default() }),
            child_names: vec!["root.a".into()],
            current_priority: i32::MIN,
            sorting_policy: "fair".into(),
            preemption_enabled: true,
            preemption_delay: "30s".into(),
            quota_preemption_delay: "0s".into(),
            children: vec![QueueSnapshot {
                queue_name: "root.a".into(),
                parent: "root".into(),
                is_leaf: true,
                properties: text_map(&[("application.sort.policy", "fifo")]),
                max_running_apps: 3,
                running_apps: 1,
                allocating_accepted_apps: vec!["app-1".into()],
                is_quota_preemption_running: true,
                quota_preemption_start_time: 9,
                unscheduled_ask_backoff: 4,
                ask_backoff_delay: "30s".into(),
                priority_offset: -2,
                ..QueueSnapshot::default()
            }],
            ..QueueSnapshot::default()
        },
        &expect![[
            r#"{"queuename":"root","status":"Active","partition":"default","maxResource":{"vcore":0},"headroom":{"vcore":-5},"isLeaf":false,"isManaged":true,"template":{"maxApplications":7},"children":[{"queuename":"root.a","partition":"","isLeaf":true,"isManaged":false,"properties":{"application.sort.policy":"fifo"},"parent":"root","maxRunningApps":3,"runningApps":1,"currentPriority":0,"allocatingAcceptedApps":["app-1"],"prioritySorting":false,"preemptionEnabled":false,"isPreemptionFence":false,"preemptionDelay":"","quotaPreemptionDelay":"","isPriorityFence":false,"priorityOffset":-2,"isQuotaPreemptionRunning":true,"quotaPreemptionStartTime":9,"unschedAskBackoff":4,"askBackoffDelay":"30s"}],"childNames":["root.a"],"currentPriority":-2147483648,"sortingPolicy":"fair","prioritySorting":false,"preemptionEnabled":true,"isPreemptionFence":false,"preemptionDelay":"30s","quotaPreemptionDelay":"0s","isPriorityFence":false,"isQuotaPreemptionRunning":false}"#
        ]],
    );
}

#[test]
fn a_node_lists_its_own_and_foreign_allocations() {
    check(
        NodeSnapshot {
            node_id: "n1".into(),
            host_name: "h1".into(),
            rack_name: "r1".into(),
            attributes: text_map(&[("ready", "true")]),
            available: Resources::of(&[("vcore", -1)]),
            allocations: vec![AllocationSnapshot {
                allocation_key: "a".into(),
                allocation_tags: text_map(&[("kubernetes.io/meta/namespace", "default")]),
                request_time: 1,
                allocation_time: 3,
                allocation_delay: 2,
                resource: Resources::of(&[("vcore", 10)]),
                priority: 5,
                node_id: "n1".into(),
                application_id: "app".into(),
                placeholder: true,
                placeholder_used: true,
                task_group_name: "tg".into(),
                preempted: true,
                originator: true,
                ..AllocationSnapshot::default()
            }],
            foreign_allocations: vec![ForeignAllocationSnapshot {
                allocation_key: "f".into(),
                preemptable: true,
                ..ForeignAllocationSnapshot::default()
            }],
            schedulable: true,
            is_reserved: true,
            reservations: vec!["a".into()],
            ..NodeSnapshot::default()
        },
        &expect![[
            r#"{"nodeID":"n1","hostName":"h1","rackName":"r1","attributes":{"ready":"true"},"available":{"vcore":-1},"allocations":[{"allocationKey":"a","allocationTags":{"kubernetes.io/meta/namespace":"default"},"requestTime":1,"allocationTime":3,"allocationDelay":2,"resource":{"vcore":10},"priority":"5","nodeId":"n1","applicationId":"app","placeholder":true,"placeholderUsed":true,"taskGroupName":"tg","preempted":true,"originator":true}],"foreignAllocations":[{"allocationKey":"f","priority":"0","preemptable":true}],"schedulable":true,"isReserved":true,"reservations":["a"]}"#
        ]],
    );
}

#[test]
fn application_fields_have_their_units_and_types() {
    check(
        ApplicationSnapshot {
            application_id: "app".into(),
            partition: "default".into(),
            queue_name: "root.a".into(),
            submission_time: 1_790_000_000_123_456_789,
            requests: vec![AskSnapshot {
                allocation_key: "a".into(),
                priority: -1,
                required_node_id: "n1".into(),
                pending_count: 2,
                allocation_log: vec![AllocationLogEntry {
                    message: "not enough queue quota".into(),
                    last_occurrence: 8,
                    count: 1,
                }],
                scheduling_attempted: true,
                triggered_preemption: true,
                triggered_scale_up: true,
                ..AskSnapshot::default()
            }],
            application_state: "Running".into(),
            groups: vec!["z".into(), "a".into()],
            state_log: vec![StateLogEntry { time: 1, application_state: "Accepted".into() }],
            placeholder_data: vec![PlaceholderData {
                task_group_name: "tg".into(),
                count: 3,
                timed_out: 1,
                ..PlaceholderData::default()
            }],
            has_reserved: true,
            max_request_priority: i32::MIN,
            start_time_millis: 1_790_000_000_123,
            resource_history: ResourceHistory {
                resource_usage: [("UNKNOWN".into(), Resources::of(&[("vcore", 100)]))].into(),
                ..ResourceHistory::default()
            },
            backoff_deadline: "2026-05-04T10:11:12.5Z".into(),
            ..ApplicationSnapshot::default()
        },
        &expect![[
            r#"{"applicationID":"app","partition":"default","queueName":"root.a","submissionTime":1790000000123456789,"requests":[{"allocationKey":"a","priority":"-1","requiredNodeId":"n1","allocationLog":[{"message":"not enough queue quota","lastOccurrence":8,"count":1}],"triggeredPreemption":true,"schedulingAttempted":true,"triggeredScaleUp":true,"pendingCount":2}],"applicationState":"Running","groups":["z","a"],"stateLog":[{"time":1,"applicationState":"Accepted"}],"placeholderData":[{"taskGroupName":"tg","count":3,"timedout":1}],"hasReserved":true,"maxRequestPriority":-2147483648,"startTime":1790000000123,"resourceHistory":{"resourceUsage":{"UNKNOWN":{"vcore":100}}},"backoffDeadline":"2026-05-04T10:11:12.5Z"}"#
        ]],
    );
}

#[test]
fn usage_is_shown_from_the_root_on() {
    let leaf = UsageSnapshot {
        queue_path: "root.a".into(),
        resource_usage: Resources::of(&[("vcore", 500)]),
        running_applications: vec!["app".into()],
        max_resources: Limits::of(&[("memory", 0), ("vcore", 1000)]),
        max_applications: 3,
        children: vec![],
    };
    let queues = UsageSnapshot {
        queue_path: "root".into(),
        resource_usage: Resources::of(&[("vcore", 500)]),
        running_applications: vec!["app".into()],
        children: vec![leaf],
        ..UsageSnapshot::default()
    };
    check(
        UserSnapshot {
            user_name: "ann".into(),
            groups: [("app".into(), "dev".into())].into(),
            queues: queues.clone(),
        },
        &expect![[
            r#"{"userName":"ann","groups":{"app":"dev"},"queues":{"queuePath":"root","resourceUsage":{"vcore":500},"runningApplications":["app"],"children":[{"queuePath":"root.a","resourceUsage":{"vcore":500},"runningApplications":["app"],"maxResources":{"memory":0,"vcore":1000},"maxApplications":3}]}}"#
        ]],
    );
    check(
        GroupSnapshot { group_name: "*".into(), applications: vec!["app".into()], queues },
        &expect![[
            r#"{"groupName":"*","applications":["app"],"queues":{"queuePath":"root","resourceUsage":{"vcore":500},"runningApplications":["app"],"children":[{"queuePath":"root.a","resourceUsage":{"vcore":500},"runningApplications":["app"],"maxResources":{"memory":0,"vcore":1000},"maxApplications":3}]}}"#
        ]],
    );
}
