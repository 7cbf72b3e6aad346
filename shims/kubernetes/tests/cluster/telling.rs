//! What pods are told while they wait, and whose they are.

use std::collections::BTreeSet;
use std::time::Duration;

use monoceros_kubernetes::shim::Change;
use serde_json::{Value, json};

use crate::side::IS_ELSEWHERE;
use crate::world::{World, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

fn namespace(world: &mut World, name: &str, annotations: Value) {
    let namespace = json!({"metadata": {"name": name, "annotations": annotations}});
    world.set(name, namespace, Change::Namespace);
}

#[test]
fn each_of_many_kinds_of_pods_is_told_its_own_reason() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let pods: Vec<_> = (0..30)
            .map(|i| {
                let port = json!([{"name": "c", "resources": {"requests": {"cpu": "1"}},
                    "ports": [{"containerPort": 80, "hostPort": 8_000 + i}]}]);
                let guest = json!({"spec": {"nodeName": "n0", "schedulerName": "other",
                    "containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8_000 + i}]}]}});
                world.add(&format!("guest{i}"), guest);
                world.add(&format!("p{i}"), json!({"spec": {"containers": port}}))
            })
            .collect();
        // What is asked about over a wire holds its quota meanwhile, so a reason may be that at first.
        world.pass(if IS_ELSEWHERE { 200 } else { 20 } * SECOND).await;
        let mut messages = BTreeSet::new();
        for (i, uid) in pods.iter().enumerate() {
            let (_, message) = &world.conditions[uid];
            assert!(message.contains(&(8_000 + i).to_string()), "{uid}: {message}");
            messages.insert(message.clone());
        }
        assert_eq!(messages.len(), 30);
    });
}

#[test]
fn no_more_conditions_are_written_than_the_rate_allows_and_each_pod_has_its_turn() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let pods: Vec<_> = (0..400)
            .map(|i| {
                world.add(&format!("p{i}"), json!({"spec": {"nodeSelector": {"no": "where"}}}))
            })
            .collect();
        world.pass(2 * SECOND).await;
        // The rate of a second may be saved up.
        assert!(world.writes.len() <= 150, "{}", world.writes.len());
        world.pass(18 * SECOND).await;
        let written: BTreeSet<_> = world.writes.iter().map(|(_, uid)| uid.clone()).collect();
        assert_eq!(written.len(), pods.len());
        // What is being asked elsewhere takes room meanwhile, and that may be what a pod is told first.
        assert!(IS_ELSEWHERE || world.writes.len() == pods.len(), "each once");
        for (at, _) in &world.writes {
            let in_a_second =
                world.writes.iter().filter(|(other, _)| *other >= *at && *other < *at + SECOND);
            assert!(in_a_second.count() <= 100);
        }
        // The same reason is not written again.
        world.pass(60 * SECOND).await;
        let so_far = world.writes.len();
        assert!(IS_ELSEWHERE || so_far == pods.len());
        world.pass(60 * SECOND).await;
        assert_eq!(world.writes.len(), so_far);
    });
}

#[test]
fn a_reason_that_changes_is_written_thirty_seconds_later_at_the_soonest() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let pod = world.add("p", json!({"spec": {"nodeSelector": {"no": "where"}}}));
        world.pass(10 * SECOND).await;
        assert_eq!(world.writes.len(), 1);
        let claim = json!({"spec": {"schedulingGates": [{"name": "g"}]}});
        world.change(&pod, claim);
        world.change(
            &pod,
            json!({"spec": {"schedulingGates": []}, "metadata": {"labels": {"a": "b"}}}),
        );
        world.pass(10 * SECOND).await;
        assert_eq!(world.writes.len(), 1);
        let (first, _) = world.writes[0];
        world.pass(60 * SECOND).await;
        assert!(world.writes[1..].iter().all(|(at, _)| *at >= first + 30 * SECOND));
    });
}

#[test]
fn a_reason_that_could_not_be_written_is_written_after_a_pause() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        world.status_fails = true;
        let pod = world.add("p", json!({"spec": {"nodeSelector": {"no": "where"}}}));
        world.pass(100 * SECOND).await;
        let times: Vec<_> = world.writes.iter().map(|(at, _)| at.as_secs()).collect();
        assert!(times.len() == 4 && times.windows(2).all(|two| two[1] - two[0] >= 30), "{times:?}");
        let events = world.events.iter().filter(|event| event.reason == "FailedScheduling");
        assert_eq!(events.count(), 1);
        world.status_fails = false;
        world.pass(40 * SECOND).await;
        assert_eq!(world.conditions[&pod].0, "Unschedulable");
        assert_eq!(world.writes.len(), 5);
        world.pass(200 * SECOND).await;
        assert_eq!(world.writes.len(), 5, "it stands there");
        // What is not true any more is not.
        let other = world.add("o", json!({"spec": {"nodeSelector": {"not": "yet"}}}));
        world.status_fails = true;
        world.pass(10 * SECOND).await;
        world.status_fails = false;
        world.set_node("n0", json!({"not": "yet"}));
        world.pass(100 * SECOND).await;
        assert_eq!(world.node_of(&other), Some("n0"));
        assert!(!world.conditions.contains_key(&other));
    });
}

#[test]
fn a_toleration_that_is_added_counts_at_once() {
    in_virtual_time(async {
        let mut world = World::new(0);
        let taints = json!([{"key": "k", "effect": "NoSchedule"}]);
        let node = json!({"metadata": {"name": "n0"}, "spec": {"taints": taints},
            "status": {"allocatable": {"cpu": "4", "pods": "9"}}});
        world.change_node("n0", node);
        world.begin().await;
        let pod = world.add("p", json!({}));
        world.pass(5 * SECOND).await;
        assert_eq!(world.node_of(&pod), None);
        let tolerates = json!([{"key": "k", "operator": "Exists"}]);
        world.change(&pod, json!({"spec": {"tolerations": tolerates}}));
        world.pass(SECOND).await;
        assert_eq!(world.node_of(&pod), Some("n0"));
        world.check().await;
    });
}

#[test]
fn applications_of_one_name_in_two_namespaces_are_two() {
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
        // Nobody takes another's PodGroup or default application by its name.
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
fn an_application_keeps_its_name_when_that_of_another_namespace_goes() {
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
        // What others call by that name is another one.
        let claims = json!({"metadata": {"labels": {"applicationId": "b/job"}}});
        world.add("thief", claims);
        world.settle().await;
        assert_eq!(pods_of(&world, "b/job").await, 2);
        assert_eq!(pods_of(&world, "ns/b/job").await, 1);
        // When it is gone the plain name comes into question.
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
fn at_a_start_the_application_with_the_oldest_pod_has_the_plain_name() {
    in_virtual_time(async {
        let mut world = World::new(2);
        namespace(&mut world, "b", json!({}));
        // In any order.
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
fn a_pod_waits_until_its_namespace_is_known_and_then_has_its_quota() {
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
        // Its only application lives on, and what the namespace says anew counts for it.
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
        // What changes otherwise of a namespace is nothing to the scheduler.
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
fn queues_without_the_partition_of_the_cluster_are_refused_and_nothing_is_lost() {
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
        // There is nothing from before where it begins so.
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
fn queues_that_cannot_be_read_are_not_what_a_new_leader_begins_with() {
    let good = "partitions: [{name: default, placementrules: [{name: fixed, value: root.good}],
        queues: [{name: root, submitacl: '*', queues: [{name: good}]}]}]";
    let low = good.replace("good", "low");
    in_virtual_time(async {
        // It has messages the good ones.
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
        // It has not, and there is a map behind.
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
        // Mended, it is in force.
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
fn a_full_cluster_is_a_case_for_more_machines() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let pods: Vec<_> = (0..5).map(|i| world.add(&format!("p{i}"), json!({}))).collect();
        world.pass(10 * SECOND).await;
        assert_eq!(world.count(&pods), 4);
        let waiting = pods.iter().find(|uid| world.node_of(uid).is_none()).unwrap();
        assert_eq!(world.conditions[waiting].0, "Unschedulable");
        let event = world.events.iter().find(|event| event.reason == "FailedScheduling").unwrap();
        assert!(event.message.starts_with("Unschedulable: "), "{}", event.message);
    });
}

#[test]
fn nothing_is_asked_for_of_an_application_that_is_refused() {
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
