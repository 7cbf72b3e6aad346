//! Ids of applications, quotas of their namespaces, and queues.

use std::time::Duration;

use monoceros_kubernetes::shim::Change;
use serde_json::{Value, json};

use crate::world::{World, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

fn namespace(world: &mut World, name: &str, annotations: Value) {
    let namespace = json!({"metadata": {"name": name, "annotations": annotations}});
    world.set(name, namespace, Change::Namespace);
}

#[test]
fn equal_names_in_two_namespaces_are_two_applications() {
    in_virtual_time(async {
        let mut world = World::begun(2).await;
        namespace(&mut world, "other", json!({}));
        let label = json!({"labels": {"applicationId": "x"}});
        let ours = world.add("ours", json!({"metadata": label}));
        let theirs = world.add(
            "theirs",
            json!({"metadata": {"labels": {"applicationId": "x"}, "namespace": "other"}}),
        );
        world.settle().await;
        assert_eq!(world.count(&[ours, theirs]), 2);
        let submitted: Vec<_> =
            world.sent.iter().filter(|line| line.starts_with("submit")).collect();
        assert_eq!(submitted, ["submit x, other/x"]);
        // An application that takes the name of a PodGroup or default application stays separate.
        let annotations = json!({"monoceros.io/app-id": "other-autogen"});
        world.add("thief", json!({"metadata": {"annotations": annotations}}));
        let honest = world.add("honest", json!({"metadata": {"namespace": "other"}}));
        world.settle().await;
        assert!(world.node_of(&honest).is_some());
        let user = world.scheduler.application("default", "other/other-autogen").await.unwrap();
        assert_eq!(user.unwrap().user, "system:serviceaccount:other:default");
        world.check().await;
    });
}

fn of_job(namespace: &str, created: &str) -> Value {
    json!({"metadata": {"namespace": namespace, "labels": {"applicationId": "job"},
        "creationTimestamp": format!("2026-01-01T00:00:0{created}Z")}})
}

async fn pods_of(world: &World, application: &str) -> usize {
    let found = world.scheduler.application("default", application).await.unwrap();
    found.map_or(0, |found| found.allocations.len())
}

#[test]
fn application_keeps_its_id_when_its_namesake_ends() {
    in_virtual_time(async {
        let mut world = World::begun(2).await;
        namespace(&mut world, "b", json!({}));
        let of_a = world.add("a", of_job("ns", "0"));
        world.add("b0", of_job("b", "1"));
        world.settle().await;
        world.remove(&of_a);
        world.pass(60 * SECOND).await;
        assert_eq!(pods_of(&world, "job").await, 0);
        world.add("b1", of_job("b", "2"));
        world.settle().await;
        assert_eq!((pods_of(&world, "b/job").await, pods_of(&world, "job").await), (2, 0));
        // The same name in another namespace is another application.
        let claims = json!({"metadata": {"labels": {"applicationId": "b/job"}}});
        world.add("thief", claims);
        world.settle().await;
        assert_eq!(pods_of(&world, "b/job").await, 2);
        assert_eq!(pods_of(&world, "ns/b/job").await, 1);
        // The plain name is free again.
        for uid in ["uid-b0", "uid-b1"] {
            world.remove(uid);
        }
        world.pass(60 * SECOND).await;
        world.add("b2", of_job("b", "3"));
        world.settle().await;
        assert_eq!(pods_of(&world, "job").await, 1);
        world.check().await;
    });
}

#[test]
fn oldest_application_gets_the_plain_id_at_a_start() {
    in_virtual_time(async {
        let mut world = World::new(2);
        namespace(&mut world, "b", json!({}));
        // In any order of arrival.
        world.add("b1", of_job("b", "3"));
        world.add("a", of_job("ns", "2"));
        world.add("b0", of_job("b", "1"));
        world.begin().await;
        assert_eq!((pods_of(&world, "job").await, pods_of(&world, "ns/job").await), (2, 1));
        world.check().await;
        world.remove("uid-b0");
        world.settle().await;
        assert_eq!((pods_of(&world, "job").await, pods_of(&world, "ns/job").await), (1, 1));
        world.begin().await;
        assert_eq!((pods_of(&world, "job").await, pods_of(&world, "b/job").await), (1, 1));
        world.check().await;
    });
}

#[test]
fn pod_waits_for_its_namespace_and_gets_its_quota() {
    in_virtual_time(async {
        let mut world = World::begun(2).await;
        let in_late = json!({"metadata": {"namespace": "late"}});
        let pods: Vec<_> = (0..3).map(|i| world.add(&format!("p{i}"), in_late.clone())).collect();
        world.pass(2 * SECOND).await;
        assert_eq!(world.count(&pods), 0);
        assert_eq!(world.conditions[&pods[0]].0, "WaitingForNamespace");
        namespace(&mut world, "late", json!({"monoceros.io/namespace.quota": "{\"cpu\": \"2\"}"}));
        world.settle().await;
        assert_eq!(world.count(&pods), 2);
        world.check().await;
        // The only application continues, with the new quota of its namespace.
        namespace(&mut world, "late", json!({"monoceros.io/namespace.quota": "{\"cpu\": \"3\"}"}));
        world.settle().await;
        assert_eq!(world.count(&pods), 3);
        namespace(&mut world, "late", json!({"monoceros.io/namespace.quota": "{\"cpu\": \"1\"}"}));
        world.remove(&pods[0]);
        let more = world.add("more", in_late.clone());
        world.pass(2 * SECOND).await;
        assert_eq!(world.node_of(&more), None);
        let submitted = world.sent.iter().filter(|line| line.starts_with("submit")).count();
        assert_eq!(submitted, 3, "{:?}", world.sent);
        // Other changes of a namespace are not sent to the scheduler.
        let labels = json!({"metadata": {"name": "late", "labels": {"a": "b"},
            "annotations": {"monoceros.io/namespace.quota": "{\"cpu\": \"1\"}"}}});
        world.set("late", labels, Change::Namespace);
        world.settle().await;
        let submitted = world.sent.iter().filter(|line| line.starts_with("submit")).count();
        assert_eq!(submitted, 3);
        world.check().await;
    });
}

fn queues(world: &mut World, map: &str, yaml: &str) {
    let object = json!({"metadata": {"name": map}, "data": {"queues.yaml": yaml}});
    world.set(map, object, Change::ConfigMap);
}

#[test]
fn queues_without_the_cluster_partition_are_rejected() {
    let good = "partitions: [{name: default, placementrules: [{name: fixed, value: root.good}],
        queues: [{name: root, submitacl: '*', queues: [{name: good}]}]}]";
    in_virtual_time(async {
        let mut world = World::new(2);
        queues(&mut world, "monoceros-configs", good);
        world.begin().await;
        let pod = world.add("p", json!({}));
        world.settle().await;
        assert!(world.node_of(&pod).is_some());
        queues(&mut world, "monoceros-configs", &good.replace("default", "other"));
        world.settle().await;
        let event = world.events.iter().find(|event| event.reason == "QueuesRefused").unwrap();
        assert_eq!(
            event.message,
            "the cluster is the partition `default`, and there is `other` alone; those from before stay in force"
        );
        let next = world.add("q", json!({}));
        world.settle().await;
        assert!(world.node_of(&next).is_some(), "nodes and pods are where they were");
        world.check().await;
    });
    in_virtual_time(async {
        // At a start there are no earlier queues.
        let mut world = World::new(2);
        queues(&mut world, "monoceros-configs", &good.replace("default", "other"));
        world.begin().await;
        let event = world.events.iter().find(|event| event.reason == "QueuesRefused").unwrap();
        assert!(
            event
                .message
                .ends_with("the scheduler's own queues are in force, which have no limits")
        );
        let pod = world.add("p", json!({}));
        world.settle().await;
        assert!(world.node_of(&pod).is_some());
        world.check().await;
    });
}

#[test]
fn new_leader_starts_with_readable_queues() {
    let good = "partitions: [{name: default, placementrules: [{name: fixed, value: root.good}],
        queues: [{name: root, submitacl: '*', queues: [{name: good}]}]}]";
    let low = good.replace("good", "low");
    in_virtual_time(async {
        // The last readable queues are known.
        let mut world = World::new(2);
        queues(&mut world, "monoceros-configs", good);
        queues(&mut world, "monoceros-configs", "partitions: 7");
        world.begin().await;
        assert!(world.events.iter().any(|event| event.reason == "QueuesRefused"));
        let pod = world.add("p", json!({}));
        world.settle().await;
        assert!(world.node_of(&pod).is_some());
        let found = world.scheduler.application("default", "ns-autogen").await.unwrap().unwrap();
        assert_eq!(found.queue_name, "root.good");
        world.check().await;
    });
    in_virtual_time(async {
        // They are not known, and a ConfigMap of lower precedence exists.
        let mut world = World::new(2);
        queues(&mut world, "yunikorn-configs", &low);
        queues(&mut world, "monoceros-configs", "partitions: 7");
        let mut fresh = World::new(2);
        queues(&mut fresh, "monoceros-configs", "partitions: 7");
        queues(&mut fresh, "yunikorn-configs", &low);
        fresh.begin().await;
        let pod = fresh.add("p", json!({}));
        fresh.settle().await;
        assert!(fresh.node_of(&pod).is_some());
        let found = fresh.scheduler.application("default", "ns-autogen").await.unwrap().unwrap();
        assert_eq!(found.queue_name, "root.low");
        // Once corrected, the queues are in force.
        queues(&mut fresh, "monoceros-configs", good);
        fresh.settle().await;
        fresh.remove(&pod);
        fresh.pass(120 * SECOND).await;
        fresh.add("q", json!({"metadata": {"labels": {"applicationId": "next"}}}));
        fresh.settle().await;
        let found = fresh.scheduler.application("default", "next").await.unwrap().unwrap();
        assert_eq!(found.queue_name, "root.good");
    });
}

#[test]
fn no_asks_for_a_rejected_application() {
    in_virtual_time(async {
        let mut world = World::new(1);
        let queues_yaml =
            "partitions: [{name: default, placementrules: [{name: provided, create: false}],
            queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]";
        queues(&mut world, "monoceros-configs", queues_yaml);
        world.begin().await;
        let pod = world.add("p", json!({}));
        world.pass(30 * SECOND).await;
        assert_eq!(world.conditions[&pod].0, "ApplicationRefused");
        let asks: Vec<_> = world.sent.iter().filter(|line| line.starts_with("ask")).collect();
        assert_eq!(asks, <[&String; 0]>::default());
    });
}
