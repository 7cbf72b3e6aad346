//! Gangs.

use std::time::Duration;

use monoceros_kubernetes::shim::Change;
use serde_json::{Value, json};

use crate::world::{World, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

fn member(gang: &str, groups: Option<Value>) -> Value {
    let mut annotations = json!({
        "yunikorn.apache.org/app-id": gang, "yunikorn.apache.org/task-group-name": "workers"});
    if let Some(groups) = groups {
        annotations["yunikorn.apache.org/task-groups"] = json!(groups.to_string());
    }
    json!({"metadata": {"annotations": annotations}})
}

fn workers(count: usize, more: Value) -> Value {
    let mut group = json!({"name": "workers", "minMember": count, "minResource": {"cpu": "1"}});
    for (key, value) in more.as_object().unwrap() {
        group[key] = value.clone();
    }
    json!([group])
}

#[test]
fn gang_of_eight_waits_for_eight_places() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let groups = workers(8, json!({}));
        let pods: Vec<_> = (0..8)
            .map(|i| {
                let declares = (i == 0).then(|| groups.clone());
                world.add(&format!("m{i}"), member("gang", declares))
            })
            .collect();
        world.pass(3 * SECOND).await;
        assert_eq!(world.count(&pods), 0);
        world.check().await;
        let (reason, message) = &world.conditions[&pods[3]];
        assert!(reason == "Unschedulable" || reason == "WaitingForGang", "{reason}");
        assert!(message.contains("workers"), "{message}");
        world.set_node("n1", json!({}));
        world.settle().await;
        assert_eq!(world.count(&pods), 8);
        world.check().await;
    });
}

#[test]
fn places_are_held_where_members_may_run() {
    in_virtual_time(async {
        let mut world = World::begun(2).await;
        world.set_node("ssd", json!({"disk": "ssd"}));
        let groups = workers(2, json!({"nodeSelector": {"disk": "ssd"}}));
        let mut first = member("gang", Some(groups));
        first["spec"]["nodeSelector"] = json!({"disk": "ssd"});
        let one = world.add("m0", first.clone());
        world.settle().await;
        assert_eq!(world.node_of(&one), Some("ssd"));
        first["metadata"]["annotations"]["yunikorn.apache.org/task-groups"] = Value::Null;
        let mut second = member("gang", None);
        second["spec"]["nodeSelector"] = json!({"disk": "ssd"});
        let two = world.add("m1", second);
        world.settle().await;
        assert_eq!(world.node_of(&two), Some("ssd"));
        world.check().await;
    });
}

#[test]
fn members_with_anti_affinity_need_a_host_each() {
    in_virtual_time(async {
        let mut world = World::new(0);
        for i in 0..7 {
            let name = format!("h{i}");
            world.set_node(&name, json!({"kubernetes.io/hostname": name}));
        }
        world.begin().await;
        let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}]}});
        let groups = workers(8, json!({"affinity": apart, "labels": {"a": "b"}}));
        let pods: Vec<_> = (0..8)
            .map(|i| {
                let mut pod = member("gang", (i == 0).then(|| groups.clone()));
                pod["metadata"]["labels"] = json!({"a": "b"});
                pod["spec"]["affinity"] = apart.clone();
                world.add(&format!("m{i}"), pod)
            })
            .collect();
        world.pass(3 * SECOND).await;
        assert_eq!(world.count(&pods), 0);
        let before = world.sent.len();
        world.pass(60 * SECOND).await;
        let tries = world.sent[before..].iter().filter(|line| *line == "try again").count();
        assert_eq!(tries, 0, "what it tries and takes back is no reason to try it");
        world.check().await;
        world.set_node("h7", json!({"kubernetes.io/hostname": "h7"}));
        world.pass(SECOND).await;
        assert_eq!(world.count(&pods), 8);
        let mut nodes: Vec<_> = pods.iter().map(|uid| world.node_of(uid)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!(nodes.len(), 8);
        world.check().await;
    });
}

/// Older pods take the room of a failed member before its replacement exists. The next free room
/// goes to that replacement. After a member that succeeded or was deleted it does not.
#[test]
fn replacement_of_a_failed_member_goes_first() {
    in_virtual_time(async {
        let disrupted = json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]});
        for (end, goes_first) in [
            (json!({"phase": "Failed"}), true),
            (disrupted, true),
            (json!({"phase": "Succeeded"}), false),
            (json!({}), false),
        ] {
            let mut world = World::begun(1).await;
            let earlier =
                json!({"metadata": {"annotations": {"yunikorn.apache.org/app-id": "earlier"}}});
            let add = |world: &mut World, name: &str| world.add(name, earlier.clone());
            let first: Vec<_> = (0..2).map(|i| add(&mut world, &format!("f{i}"))).collect();
            world.settle().await;
            let gang = |world: &mut World, name: &str, declares: bool| {
                let groups = declares.then(|| workers(2, json!({})));
                world.add(name, member("gang", groups))
            };
            let members = [gang(&mut world, "g0", true), gang(&mut world, "g1", false)];
            world.settle().await;
            let waiting: Vec<_> = (2..4).map(|i| add(&mut world, &format!("f{i}"))).collect();
            world.settle().await;
            assert_eq!(world.count(&first) + world.count(&members), 4);
            world.change(&members[1], json!({"status": end}));
            world.settle().await;
            world.remove(&members[1]);
            world.settle().await;
            assert_eq!(world.count(&waiting), 1, "{end}: nobody else was there");
            let other = gang(&mut world, "g2", false);
            world.settle().await;
            world.remove(&first[0]);
            world.settle().await;
            assert_eq!(world.node_of(&other).is_some(), goes_first, "{end}");
            world.check().await;
        }
    });
}

#[test]
fn undeclared_task_group_is_scheduled_after_a_wait() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let pod = world.add("m0", member("gang", None));
        world.pass(20 * SECOND).await;
        assert_eq!(world.node_of(&pod), None);
        assert_eq!(world.conditions[&pod].0, "WaitingForGang");
        world.pass(15 * SECOND).await;
        assert_eq!(world.node_of(&pod), Some("n0"));
        world.check().await;
    });
}

fn in_group(world: &mut World, name: &str) -> String {
    world.add(name, json!({"spec": {"schedulingGroup": {"podGroupName": "g"}}}))
}

fn group(spec: Value) -> Value {
    json!({"metadata": {"name": "g", "namespace": "ns", "uid": "group"}, "spec": spec})
}

#[test]
fn pod_group_starts_with_its_minimum() {
    in_virtual_time(async {
        let mut world = World::begun(0).await;
        world.set_node("n0", json!({}));
        let blocker = world.add("b", json!({}));
        world.settle().await;
        let spec = json!({"schedulingPolicy": {"gang": {"minCount": 4}}});
        let mut pods: Vec<_> = (0..3).map(|i| in_group(&mut world, &format!("g{i}"))).collect();
        world.pass(2 * SECOND).await;
        assert!(world.conditions[&pods[0]].1.contains("PodGroup g is not there"));
        world.set("ns/g", group(spec), Change::Group);
        world.settle().await;
        assert_eq!(world.count(&pods), 0);
        pods.extend((3..6).map(|i| in_group(&mut world, &format!("g{i}"))));
        world.pass(40 * SECOND).await;
        assert_eq!(world.count(&pods), 0, "there are three places");
        let last = world.group_conditions.last().unwrap();
        assert_eq!((last.type_, last.status), ("PodGroupInitiallyScheduled", false));
        world.remove(&blocker);
        world.pass(SECOND).await;
        assert_eq!(world.count(&pods), 4);
        assert!(world.group_conditions.last().unwrap().status);
        world.set_node("n1", json!({}));
        world.pass(SECOND).await;
        assert_eq!(world.count(&pods), 6);
        world.check().await;
        // The application ends with its last pod, and may come again.
        for pod in pods {
            world.remove(&pod);
        }
        world.settle().await;
        assert!(world.sent.iter().any(|line| line == "remove ns/podgroup/g"), "{:?}", world.sent);
        let again: Vec<_> = (0..4).map(|i| in_group(&mut world, &format!("again{i}"))).collect();
        world.settle().await;
        assert_eq!(world.count(&again), 4);
        world.check().await;
    });
}

#[test]
fn part_of_a_composite_is_not_scheduled() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let spec = json!({"schedulingPolicy": {"gang": {"minCount": 1}},
            "parentCompositePodGroupName": "c"});
        world.set("ns/g", group(spec), Change::Group);
        let pod = in_group(&mut world, "g0");
        world.pass(2 * SECOND).await;
        assert_eq!(world.node_of(&pod), None);
        let (reason, message) = &world.conditions[&pod];
        assert_eq!(reason, "GroupNotSupported");
        assert!(message.contains("CompositePodGroup c"), "{message}");
    });
}
