//! PodGroups that change, are deleted, and come again.

use std::time::Duration;

use monoceros_kubernetes::shim::Change;
use serde_json::{Value, json};

use crate::world::{World, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

fn in_group(world: &mut World, name: &str) -> String {
    world.add(name, json!({"spec": {"schedulingGroup": {"podGroupName": "g"}}}))
}

fn of(min_count: usize) -> Value {
    json!({"schedulingPolicy": {"gang": {"minCount": min_count}}})
}

fn set_group(world: &mut World, uid: &str, spec: Value) {
    let group = json!({"metadata": {"name": "g", "namespace": "ns", "uid": uid}, "spec": spec});
    world.set("ns/g", group, Change::Group);
}

/// Returns each written condition of the group: status and reason.
fn statuses(world: &World) -> Vec<(bool, &str)> {
    let all = world.group_conditions.iter();
    let all = all.filter(|condition| condition.type_ == "PodGroupInitiallyScheduled");
    all.map(|condition| (condition.status, condition.reason.as_str())).collect()
}

#[test]
fn group_starts_once_its_minimum_is_lowered() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        set_group(&mut world, "u1", of(6));
        let pods: Vec<_> = (0..6).map(|i| in_group(&mut world, &format!("g{i}"))).collect();
        world.pass(3 * SECOND).await;
        assert_eq!(world.count(&pods), 0, "there are four places");
        set_group(&mut world, "u1", of(4));
        world.pass(SECOND).await;
        assert_eq!(world.count(&pods), 4);
        // A group that has started stays started.
        set_group(&mut world, "u1", of(6));
        world.pass(SECOND).await;
        assert_eq!(world.count(&pods), 4);
        world.check().await;
    });
}

#[test]
fn group_waits_once_its_minimum_is_raised() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let blocker = world.add("b", json!({}));
        world.settle().await;
        set_group(&mut world, "u1", of(4));
        let mut pods: Vec<_> = (0..4).map(|i| in_group(&mut world, &format!("g{i}"))).collect();
        world.pass(SECOND).await;
        set_group(&mut world, "u1", of(5));
        world.remove(&blocker);
        world.pass(SECOND).await;
        assert_eq!(world.count(&pods), 0, "four of five are there");
        world.set_node("n1", json!({}));
        pods.push(in_group(&mut world, "g4"));
        world.pass(SECOND).await;
        assert_eq!(world.count(&pods), 5);
        world.check().await;
    });
}

#[test]
fn pods_of_a_deleted_group_wait_for_its_return() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let blocker = world.add("b", json!({}));
        world.settle().await;
        set_group(&mut world, "u1", of(4));
        let pods: Vec<_> = (0..4).map(|i| in_group(&mut world, &format!("g{i}"))).collect();
        world.pass(5 * SECOND).await;
        assert_eq!(statuses(&world), [(false, "Unschedulable")]);
        world.shim.change(Change::Group("ns/g".to_owned(), None), world.now);
        world.remove(&blocker);
        world.pass(SECOND).await;
        assert_eq!(world.count(&pods), 0);
        set_group(&mut world, "u2", of(4));
        world.pass(SECOND).await;
        assert_eq!(world.count(&pods), 4);
        assert_eq!(statuses(&world), [(false, "Unschedulable"), (true, "Scheduled")]);
        world.check().await;
    });
}

#[test]
fn removed_gate_may_complete_a_group() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        set_group(&mut world, "u1", of(3));
        let mut pods: Vec<_> = (0..2).map(|i| in_group(&mut world, &format!("g{i}"))).collect();
        let gated = json!({"spec": {"schedulingGates": [{"name": "later"}],
            "schedulingGroup": {"podGroupName": "g"}}});
        pods.push(world.add("g2", gated));
        world.pass(3 * SECOND).await;
        assert_eq!(world.count(&pods), 0);
        let (reason, message) = &world.conditions[&pods[0]];
        assert_eq!(reason, "WaitingForGang");
        assert!(message.starts_with("2 pods of the PodGroup g are there"), "{message}");
        assert_eq!(statuses(&world), [(false, "Unschedulable")]);
        world.change(&pods[2], json!({"spec": {"schedulingGates": []}}));
        world.settle().await;
        assert_eq!(world.count(&pods), 3);
    });
}

#[test]
fn scheduled_group_is_never_reported_as_waiting() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        set_group(&mut world, "u1", of(4));
        let pods: Vec<_> = (0..6).map(|i| in_group(&mut world, &format!("g{i}"))).collect();
        world.pass(SECOND).await;
        assert_eq!(world.count(&pods), 4);
        assert_eq!(statuses(&world), [(true, "Scheduled")]);
        // Another process does not know what was reported.
        world.begin().await;
        world.pass(100 * SECOND).await;
        assert!(statuses(&world).iter().all(|(status, _)| *status), "{:?}", statuses(&world));
        world.check().await;
    });
}

#[test]
fn scheduled_group_keeps_a_condition_of_another_replica() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let group = json!({"metadata": {"name": "g", "namespace": "ns", "uid": "u1"}, "spec": of(8),
            "status": {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]}});
        world.set("ns/g", group, Change::Group);
        let pods: Vec<_> = (0..8).map(|i| in_group(&mut world, &format!("g{i}"))).collect();
        world.pass(100 * SECOND).await;
        assert_eq!(world.count(&pods), 0, "four places are not eight");
        assert!(world.conditions.contains_key(&pods[0]), "the pods say that they wait");
        assert_eq!(statuses(&world), []);
        world.check().await;
    });
}

#[test]
fn failed_group_condition_is_retried_with_the_latest_status() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        world.status_fails = true;
        set_group(&mut world, "u1", of(6));
        let pods: Vec<_> = (0..6).map(|i| in_group(&mut world, &format!("g{i}"))).collect();
        world.pass(10 * SECOND).await;
        world.set_node("n1", json!({}));
        world.pass(10 * SECOND).await;
        assert_eq!(world.count(&pods), 6);
        assert_eq!(statuses(&world), []);
        world.status_fails = false;
        world.pass(60 * SECOND).await;
        assert_eq!(statuses(&world), [(true, "Scheduled")]);
        world.pass(200 * SECOND).await;
        assert_eq!(statuses(&world).len(), 1);
    });
}

#[test]
fn conditions_of_groups_and_pods_share_a_rate() {
    in_virtual_time(async {
        let mut world = World::begun(0).await;
        for node in 0..30 {
            world.set_node(&format!("n{node}"), json!({}));
        }
        for i in 0..120 {
            let group = json!({"metadata": {"name": format!("g{i}"), "namespace": "ns",
                "uid": format!("u{i}")}, "spec": of(1)});
            world.set(&format!("ns/g{i}"), group, Change::Group);
            let of_group = json!({"podGroupName": format!("g{i}")});
            world.add(&format!("p{i}"), json!({"spec": {"schedulingGroup": of_group}}));
            world.add(&format!("w{i}"), json!({"spec": {"nodeSelector": {"no": "where"}}}));
        }
        world.settle().await;
        assert_eq!(world.writes.len(), 50, "what may be written in a second");
        world.pass(20 * SECOND).await;
        assert_eq!(statuses(&world).len(), 120, "each has its turn");
        assert!(statuses(&world).iter().all(|(status, _)| *status));
        assert_eq!(world.writes.len(), 240);
        for (at, _) in &world.writes {
            let in_a_second =
                world.writes.iter().filter(|(other, _)| *other >= *at && *other < *at + SECOND);
            assert!(in_a_second.count() <= 100, "{:?}", world.writes);
        }
    });
}

#[test]
fn topology_without_gang_policy_is_rejected() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let spec = json!({"schedulingPolicy": {"basic": {}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]}});
        set_group(&mut world, "u1", spec);
        let pod = in_group(&mut world, "g0");
        world.pass(2 * SECOND).await;
        assert_eq!(world.node_of(&pod), None);
        let (reason, message) = &world.conditions[&pod];
        assert_eq!(reason, "GroupNotSupported");
        assert!(message.contains("topology"), "{message}");
    });
}

#[test]
fn late_declaration_of_task_groups_is_reported() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let label = json!({"labels": {"applicationId": "late"}});
        let first = world.add("first", json!({"metadata": label}));
        world.settle().await;
        assert!(world.node_of(&first).is_some());
        let groups = json!([{"name": "w", "minMember": 2, "minResource": {"cpu": "1"}}]);
        let annotations = json!({"monoceros.io/task-groups": groups.to_string()});
        let second = world.add(
            "second",
            json!({"metadata": {"labels": {"applicationId": "late"}, "annotations": annotations}}),
        );
        world.settle().await;
        assert!(world.node_of(&second).is_some());
        let event = world.events.iter().find(|event| event.reason == "GangIgnored").unwrap();
        assert_eq!(event.about.name, "second");
    });
}

#[test]
fn thousand_pods_of_a_group_arrive_one_by_one() {
    in_virtual_time(async {
        let mut world = World::begun(0).await;
        for node in 0..250 {
            world.set_node(&format!("n{node}"), json!({}));
        }
        set_group(&mut world, "u1", of(1_000));
        let pods: Vec<_> = (0..1_000).map(|i| in_group(&mut world, &format!("g{i}"))).collect();
        world.pass(SECOND).await;
        assert_eq!(world.count(&pods), 1_000);
        world.check().await;
    });
}
