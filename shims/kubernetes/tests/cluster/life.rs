//! Pods from their creation to their end.

use std::time::Duration;

use monoceros_kubernetes::shim::Change;
use serde_json::json;

use crate::world::{Binding, World, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn pods_are_bound_once_and_released_at_their_end() {
    in_virtual_time(async {
        let mut world = World::begun(4).await;
        let pods: Vec<_> = (0..20).map(|i| world.add(&format!("p{i}"), json!({}))).collect();
        world.settle().await;
        assert_eq!(world.count(&pods), 16, "there is room for no more");
        assert!(world.bound.values().all(|times| times.len() == 1));
        world.check().await;
        for uid in &pods[..8] {
            if world.node_of(uid).is_some() {
                world.change(uid, json!({"status": {"phase": "Succeeded"}}));
                world.pods.remove(uid);
            }
        }
        world.settle().await;
        assert_eq!(world.count(&pods[8..]), 12);
        world.check().await;
    });
}

#[test]
fn running_pods_are_reported_before_asks() {
    in_virtual_time(async {
        let mut world = World::new(2);
        world.add("new", json!({}));
        world.add("ours", json!({"spec": {"nodeName": "n0"}}));
        world.add("theirs", json!({"spec": {"nodeName": "n1", "schedulerName": "other"}}));
        world.add("stray", json!({"spec": {"nodeName": "n9"}}));
        world.begin().await;
        assert_eq!(
            world.sent[..4],
            [
                "nodes n0 CreateDrain, n1 CreateDrain",
                "submit ns-autogen",
                "uid-ours on n0, uid-theirs on n1",
                "nodes n0 DrainToSchedulable, n1 DrainToSchedulable",
            ]
        );
        assert!(world.sent[4..].iter().any(|line| line == "ask uid-new"), "{:?}", world.sent);
        world.check().await;
        // The missing node of one pod is added.
        world.set_node("n9", json!({}));
        world.settle().await;
        world.check().await;
    });
}

#[test]
fn restart_reproduces_the_state() {
    in_virtual_time(async {
        let mut world = World::begun(3).await;
        let pods: Vec<_> = (0..15).map(|i| world.add(&format!("p{i}"), json!({}))).collect();
        world.settle().await;
        world.check().await;
        world.begin().await;
        world.check().await;
        assert_eq!(world.count(&pods), 12);
        assert!(world.bound.values().all(|times| times.len() == 1));
    });
}

#[test]
fn failed_binding_is_released_and_retried() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        world.binding = Binding::Fails;
        let pod = world.add("p", json!({}));
        world.settle().await;
        assert_eq!(world.bound[&pod].len(), 1, "not at once");
        world.check().await;
        world.pass(2 * SECOND).await;
        assert_eq!(world.bound[&pod].len(), 2);
        world.binding = Binding::Works;
        world.pass(10 * SECOND).await;
        assert_eq!(world.node_of(&pod), Some("n0"));
        assert!(world.events.iter().any(|event| event.reason == "FailedBinding"));
        world.check().await;
    });
}

/// A webhook refuses every binding of the older pod.
#[test]
fn others_get_the_room_of_an_unbindable_pod() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let all = json!({"spec": {"containers": [{"name": "c",
            "resources": {"requests": {"cpu": "4"}}}]}});
        world.binding = Binding::Fails;
        let zombie = world.add("zombie", all.clone());
        world.settle().await;
        world.binding = Binding::Works;
        let good = world.add("good", all);
        world.settle().await;
        assert_eq!((world.node_of(&zombie), world.node_of(&good)), (None, Some("n0")));
        world.check().await;
        world.remove(&good);
        world.settle().await;
        assert_eq!(world.node_of(&zombie), None, "not before its second is over");
        world.pass(SECOND).await;
        assert_eq!(world.node_of(&zombie), Some("n0"));
        world.check().await;
    });
}

/// The engine counts the failures, and waits twice as long each time.
#[test]
fn unbindable_pod_is_tried_a_bounded_number_of_times() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        world.binding = Binding::Fails;
        let pod = world.add("p", json!({}));
        // Far from the next try, at 303 s: a clock that runs while answers are in flight may be
        // ahead.
        world.pass(255 * SECOND).await;
        assert_eq!(world.bound[&pod].len(), 10, "at 0, 1, 3, 7, 15, 31, 63, 123, 183 and 243 s");
        world.check().await;
    });
}

#[test]
fn pod_bound_elsewhere_is_accepted_there() {
    in_virtual_time(async {
        let mut world = World::begun(2).await;
        world.binding = Binding::Hangs;
        let pod = world.add("p", json!({}));
        world.settle().await;
        let ours = world.bound[&pod][0].clone();
        let other = if ours == "n0" { "n1" } else { "n0" };
        world.change(&pod, json!({"spec": {"nodeName": other}}));
        world.finish_bindings(Binding::Works).await;
        world.settle().await;
        world.check().await;
        assert_eq!(world.shim.placed()[&pod], other);
    });
}

#[test]
fn pod_deleted_during_its_binding_leaves_nothing() {
    in_virtual_time(async {
        for finish in [Binding::Works, Binding::Fails] {
            let mut world = World::begun(1).await;
            world.binding = Binding::Hangs;
            let pod = world.add("p", json!({}));
            world.settle().await;
            world.remove(&pod);
            world.settle().await;
            world.finish_bindings(finish).await;
            world.pass(5 * SECOND).await;
            world.check().await;
            assert!(world.shim.placed().is_empty());
        }
    });
}

#[test]
fn removed_node_takes_its_pods_off_the_books() {
    in_virtual_time(async {
        let mut world = World::begun(2).await;
        let pods: Vec<_> = (0..8).map(|i| world.add(&format!("p{i}"), json!({}))).collect();
        world.settle().await;
        assert_eq!(world.count(&pods), 8);
        world.remove_node("n0");
        world.settle().await;
        world.check().await;
        world.set_node("n0", json!({}));
        world.settle().await;
        world.check().await;
        assert_eq!(world.shim.placed().len(), 8);
    });
}

#[test]
fn gates_cordons_and_taints_keep_pods_waiting() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let gated = world.add("gated", json!({"spec": {"schedulingGates": [{"name": "g"}]}}));
        world.settle().await;
        assert_eq!(world.node_of(&gated), None);
        let mut node = world.nodes["n0"].clone();
        node["spec"]["unschedulable"] = json!(true);
        world.change_node("n0", node.clone());
        world.change(&gated, json!({"spec": {"schedulingGates": []}}));
        world.pass(8 * SECOND).await;
        assert_eq!(world.node_of(&gated), None);
        let (reason, message) = &world.conditions[&gated];
        assert_eq!(reason, "Unschedulable");
        assert!(message.contains("cordoned"), "{message}");
        node["spec"]["unschedulable"] = json!(false);
        world.change_node("n0", node);
        world.settle().await;
        assert_eq!(world.node_of(&gated), Some("n0"));
        world.check().await;
    });
}

#[test]
fn waiting_for_a_quota_does_not_trigger_autoscalers() {
    in_virtual_time(async {
        let mut world = World::new(2);
        let queues = "
partitions:
  - name: default
    placementrules: [{name: tag, value: namespace, create: true}]
    queues: [{name: root, submitacl: '*', queues: [{name: ns, resources: {max: {vcore: 2}}}]}]";
        world.set(
            "monoceros-configs",
            json!({"metadata": {"name": "monoceros-configs"},
            "data": {"queues.yaml": queues}}),
            Change::ConfigMap,
        );
        world.begin().await;
        let pods: Vec<_> = (0..3).map(|i| world.add(&format!("p{i}"), json!({}))).collect();
        world.pass(3 * SECOND).await;
        assert_eq!(world.count(&pods), 2);
        let waiting = pods.iter().find(|uid| world.node_of(uid).is_none()).unwrap();
        let (reason, message) = world.conditions[waiting].clone();
        assert_eq!(reason, "QueueQuota");
        let explained = world.scheduler.explain("default", "ns-autogen", 0).await.unwrap();
        assert_eq!(message, explained[0].message);

        // Valid queues take effect, invalid ones do not.
        world.set(
            "monoceros-configs",
            json!({"metadata": {"name": "monoceros-configs"},
            "data": {"queues.yaml": "partitions: [{name: default, queues: [{name: root, nonsense: 7}]}]"}}),
            Change::ConfigMap,
        );
        world.settle().await;
        let event = world.events.iter().find(|event| event.reason == "QueuesRefused").unwrap();
        assert_eq!(event.about.kind, "ConfigMap");
        assert_eq!(world.count(&pods), 2);
        world.set(
            "monoceros-configs",
            json!({"metadata": {"name": "monoceros-configs"},
            "data": {"queues.yaml": queues.replace("vcore: 2", "vcore: 3")}}),
            Change::ConfigMap,
        );
        world.settle().await;
        assert_eq!(world.count(&pods), 3);
        world.check().await;
    });
}

#[test]
fn running_pods_of_a_rejected_application_take_room() {
    in_virtual_time(async {
        let mut world = World::new(1);
        let queues = "
partitions:
  - name: default
    placementrules: [{name: provided, create: false}]
    queues: [{name: root, submitacl: '*', queues: [{name: a}]}]";
        world.set(
            "yunikorn-configs",
            json!({"metadata": {"name": "yunikorn-configs"},
            "data": {"queues.yaml": queues}}),
            Change::ConfigMap,
        );
        let runs = world.add("runs", json!({"spec": {"nodeName": "n0"}}));
        let waits = world.add("waits", json!({}));
        world.begin().await;
        world.pass(3 * SECOND).await;
        world.check().await;
        assert_eq!(world.conditions[&waits].0, "ApplicationRefused");
        world.set(
            "yunikorn-configs",
            json!({"metadata": {"name": "yunikorn-configs"},
            "data": {"queues.yaml": queues.replace("provided, create: false",
                "fixed, value: root.a")}}),
            Change::ConfigMap,
        );
        world.pass(SECOND).await;
        assert_eq!(world.node_of(&waits), Some("n0"));
        assert_eq!(world.shim.placed().len(), 2);
        assert!(world.shim.placed().contains_key(&runs));
        world.check().await;
    });
}

#[test]
fn retries_everything_at_most_twice_a_second() {
    in_virtual_time(async {
        let mut world = World::new(2);
        for name in ["n0", "n1"] {
            world.set_node(name, json!({"zone": "a"}));
        }
        let others = |app: &str| {
            json!({"metadata": {"labels": {"app": app}},
                "spec": {"schedulerName": "other", "nodeName": "n0"}})
        };
        let away_from = |app: &str| {
            json!({"spec": {"affinity": {"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone",
                    "labelSelector": {"matchLabels": {"app": app}}}]}}}})
        };
        let [db, web] = ["db", "web"].map(|app| world.add(app, others(app)));
        world.begin().await;
        let [first, second] =
            ["db", "web"].map(|app| world.add(&format!("no-{app}"), away_from(app)));
        world.pass(SECOND).await;
        let before = world.sent.len();
        let tries =
            |world: &World| world.sent[before..].iter().filter(|line| *line == "try again").count();
        let other = json!({"metadata": {"labels": {"app": "other"}}});
        world.change(&db, other.clone());
        world.settle().await;
        assert_eq!(tries(&world), 1);
        assert!(world.node_of(&first).is_some());
        world.change(&web, other);
        world.settle().await;
        assert_eq!((tries(&world), world.node_of(&second)), (1, None), "not at once");
        assert!(world.shim.next_tick().is_some_and(|at| at <= world.now + SECOND / 2));
        world.pass(SECOND / 2).await;
        assert_eq!(tries(&world), 2);
        assert!(world.node_of(&second).is_some());
        world.check().await;
    });
}

#[test]
fn affinity_is_retried_when_a_matching_pod_comes() {
    in_virtual_time(async {
        for is_ours in [false, true] {
            let mut world = World::new(0);
            for (name, zone) in [("n0", "a"), ("n1", "a"), ("n2", "b")] {
                world.set_node(name, json!({"zone": zone}));
            }
            world.begin().await;
            let near = world.add(
                "near",
                json!({"spec": {"nodeSelector": {"zone": "a"}, "affinity": {"podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone",
                        "labelSelector": {"matchLabels": {"app": "db"}}}]}}}}),
            );
            world.pass(3 * SECOND).await;
            assert_eq!(world.node_of(&near), None);
            let mut db = json!({"metadata": {"labels": {"app": "db"}},
                "spec": {"nodeSelector": {"zone": "a"}}});
            if !is_ours {
                db["spec"] = json!({"schedulerName": "other", "nodeName": "n0"});
            }
            world.add("db", db);
            world.settle().await;
            assert!(world.node_of(&near).is_some(), "{is_ours}");
            world.check().await;
        }
    });
}
