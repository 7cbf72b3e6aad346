//! Pods from their creation to their end.

use std::time::Duration;

use monoceros_kubernetes::shim::{Change, Evict, Key, Notification, Outcome};
use monoceros_proto::si::v1 as si;
use serde_json::{Value, json};

use crate::world::{Binding, World, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn pods_are_bound_once_and_released_when_they_are_gone() {
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
fn what_was_there_is_on_the_books_before_anything_is_asked_for() {
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
        // The node of the stray one comes.
        world.set_node("n9", json!({}));
        world.settle().await;
        world.check().await;
    });
}

#[test]
fn a_restart_is_the_same_again() {
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
fn a_failed_binding_is_given_back_and_tried_again_later() {
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

/// A webhook refuses every binding of the older pod, as it would for ever.
#[test]
fn others_have_the_room_of_a_pod_that_cannot_be_bound() {
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

/// The engine counts how often, and waits twice as long each time.
#[test]
fn a_pod_that_cannot_be_bound_is_tried_a_bounded_number_of_times() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        world.binding = Binding::Fails;
        let pod = world.add("p", json!({}));
        // Far from the next try, at 303 s: a clock that runs while answers are on their way may be ahead.
        world.pass(255 * SECOND).await;
        assert_eq!(world.bound[&pod].len(), 10, "at 0, 1, 3, 7, 15, 31, 63, 123, 183 and 243 s");
        world.check().await;
    });
}

#[test]
fn a_pod_that_goes_elsewhere_is_taken_where_it_is() {
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
fn a_pod_deleted_while_it_is_bound_leaves_nothing() {
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
fn a_node_that_goes_takes_its_pods_off_the_books_until_it_is_back() {
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
fn what_waits_for_a_quota_says_so_and_no_autoscaler_hears_of_it() {
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

        // Other queues take effect, and bad ones do not.
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
fn a_refused_application_waits_and_what_runs_of_it_takes_its_room() {
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

/// A node that queue `low` has with these four pods, of which `high` is guaranteed half.
async fn with_low_pods(binding: Binding) -> (World, Vec<String>) {
    let mut world = World::new(1);
    let queues = "
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues: [{name: low}, {name: high, resources: {guaranteed: {vcore: 2}}}]";
    world.set(
        "monoceros-configs",
        json!({"metadata": {"name": "monoceros-configs"},
        "data": {"queues.yaml": queues}}),
        Change::ConfigMap,
    );
    world.begin().await;
    world.binding = binding;
    let low: Vec<_> = (0..4)
        .map(|i| world.add(&format!("low{i}"), json!({"metadata": of_queue("low")})))
        .collect();
    world.settle().await;
    (world, low)
}

fn of_queue(queue: &str) -> Value {
    json!({"labels": {"applicationId": queue, "queue": format!("root.{queue}")}})
}

/// A pod of `high`, for which one of `low` has to go.
async fn with_a_victim() -> (World, String, String) {
    let (mut world, low) = with_low_pods(Binding::Works).await;
    assert_eq!(world.count(&low), 4);
    let high = world.add("high", json!({"metadata": of_queue("high")}));
    world.pass(60 * SECOND).await;
    assert_eq!(world.evicted.len(), 1, "{:?}", world.conditions);
    assert_eq!(world.node_of(&high), None);
    world.check().await;
    let victim = world.evicted[0].clone();
    (world, high, victim)
}

#[test]
fn a_victim_that_is_being_bound_makes_room_at_once() {
    in_virtual_time(async {
        let (mut world, low) = with_low_pods(Binding::Hangs).await;
        assert_eq!(world.bound.len(), 4);
        world.binding = Binding::Works;
        let high = world.add("high", json!({"metadata": of_queue("high")}));
        world.pass(60 * SECOND).await;
        assert_eq!(world.node_of(&high), Some("n0"), "{:?}", world.conditions);
        assert_eq!(world.evicted, <[&str; 0]>::default());
        let events: Vec<_> = world.events.iter().map(|event| event.reason).collect();
        assert_eq!(events.iter().filter(|reason| **reason == "Preempted").count(), 1);
        assert!(!events.contains(&"FailedBinding"), "{events:?}");
        world.finish_bindings(Binding::Works).await;
        assert_eq!(world.count(&low), 3);
        // The other one is asked for again.
        world.remove(&high);
        world.pass(SECOND).await;
        assert_eq!(world.count(&low), 4);
        world.check().await;
    });
}

#[test]
fn a_victim_that_was_bound_by_then_is_evicted() {
    in_virtual_time(async {
        let (mut world, _) = with_low_pods(Binding::Hangs).await;
        let high = world.add("high", json!({"metadata": of_queue("high")}));
        // Its binding was on its way to the server.
        world.calls_off = false;
        world.pass(60 * SECOND).await;
        world.finish_bindings(Binding::Works).await;
        assert_eq!(world.evicted.len(), 1);
        let victim = world.evicted[0].clone();
        assert_eq!(world.node_of(&high), None);
        world.check().await;
        world.remove(&victim);
        world.pass(SECOND).await;
        assert_eq!(world.node_of(&high), Some("n0"));
        world.check().await;
    });
}

#[test]
fn a_victim_makes_room_only_when_it_is_gone() {
    in_virtual_time(async {
        let (mut world, high, victim) = with_a_victim().await;
        world.remove(&victim);
        world.pass(SECOND).await;
        assert_eq!(world.node_of(&high), Some("n0"));
        world.check().await;
    });
}

#[test]
fn another_goes_for_a_victim_that_stays() {
    in_virtual_time(async {
        let (mut world, high, victim) = with_a_victim().await;
        let why = "the budget is spent".to_owned();
        world.shim.done(Outcome::EvictionFailed(Key::from(victim.as_str()), why), world.now);
        world.pass(20 * SECOND).await;
        assert_eq!(world.evicted.len(), 2);
        assert_ne!(world.evicted[1], victim);
        assert!(world.events.iter().any(|event| {
            event.reason == "NotEvicted" && event.message == "the budget is spent"
        }));
        let other = world.evicted[1].clone();
        world.remove(&other);
        world.pass(SECOND).await;
        assert_eq!(world.node_of(&high), Some("n0"));
        assert_eq!(world.node_of(&victim), Some("n0"));
        // What it says later is not that it stays.
        world.change(&victim, json!({"metadata": {"labels": {"new": "label"}}}));
        world.pass(SECOND).await;
        world.check().await;
    });
}

/// How many evictions go on.
fn going_on(world: &World) -> usize {
    let goes_on = |evict: &&Evict| !evict.called_off.is_cancelled();
    world.evictions.iter().filter(goes_on).count()
}

#[test]
fn an_eviction_ends_when_the_engine_does_not_want_it_any_more() {
    in_virtual_time(async {
        let (mut world, high, victim) = with_a_victim().await;
        assert_eq!(going_on(&world), 1);
        // In a new session the one that needed the room is not there.
        world.budgets_hold = true;
        world.pods.remove(&high);
        world.shim.change(Change::Pod(Key::from(high.as_str()), None), world.now);
        world.begin().await;
        assert_eq!(going_on(&world), 0);
        // And when it wants another one's end, that is seen to once.
        world.add("higher", json!({"metadata": of_queue("high")}));
        world.pass(60 * SECOND).await;
        assert_eq!((going_on(&world), world.evictions.len()), (1, 2));
        world.begin().await;
        world.pass(60 * SECOND).await;
        assert_eq!((going_on(&world), world.evictions.len()), (1, 3));
        // One that stays is not asked to go any more.
        let last = world.evictions[2].key.clone();
        world.shim.done(Outcome::EvictionFailed(last, "the budget is spent".to_owned()), world.now);
        assert_eq!(going_on(&world), 0);
        world.remove(&victim);
        world.settle().await;
        world.check().await;
    });
}

#[test]
fn a_budget_that_is_spent_keeps_its_pods_from_being_victims() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let pod = world.add("p", json!({"metadata": {"labels": {"app": "db"}}}));
        world.settle().await;
        let asked = world.sent.len();
        let budget = |allowed: i32| {
            json!({"metadata": {"name": "b", "namespace": "ns"},
                "spec": {"selector": {"matchLabels": {"app": "db"}}},
                "status": {"disruptionsAllowed": allowed}})
        };
        world.set("ns/b", budget(1), Change::Budget);
        world.settle().await;
        assert_eq!(world.sent.len(), asked, "nothing has changed for anybody");
        world.set("ns/b", budget(0), Change::Budget);
        world.settle().await;
        assert_eq!(world.sent[asked..], [format!("{pod} on n0")]);
        world.check().await;
    });
}

#[test]
fn all_is_tried_again_twice_a_second_at_most_and_no_wish_for_it_is_lost() {
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
fn what_was_to_run_on_a_node_that_goes_is_not_there_when_it_is_back() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        world.binding = Binding::Hangs;
        let listens = json!({"spec": {"containers": [{"name": "c",
            "resources": {"requests": {"cpu": "1"}}, "ports": [{"hostPort": 80}]}]}});
        let first = world.add("first", listens.clone());
        world.settle().await;
        assert_eq!(world.bound[&first], ["n0"]);
        world.remove_node("n0");
        world.settle().await;
        world.finish_bindings(Binding::Fails).await;
        world.binding = Binding::Works;
        let mut more_important = listens;
        more_important["spec"]["priority"] = json!(9);
        let second = world.add("second", more_important);
        world.set_node("n0", json!({}));
        world.settle().await;
        assert_eq!((world.node_of(&first), world.node_of(&second)), (None, Some("n0")));
        world.check().await;
    });
}

/// Bindings are under way when their node goes and comes back, or when the engine is told everything anew:
/// nobody knows yet what comes of them.
async fn with_bindings_under_way(forgets: bool) -> (World, Vec<String>, Vec<String>) {
    let mut world = World::begun(1).await;
    world.binding = Binding::Hangs;
    let first: Vec<_> = (0..3).map(|i| world.add(&format!("first{i}"), json!({}))).collect();
    world.settle().await;
    assert!(first.iter().all(|uid| world.bound[uid] == ["n0"]));
    if forgets {
        world.begin().await;
    } else {
        world.remove_node("n0");
        world.settle().await;
        world.set_node("n0", json!({}));
    }
    let second: Vec<_> = (0..3).map(|i| world.add(&format!("second{i}"), json!({}))).collect();
    world.pass(5 * SECOND).await;
    assert!(second.iter().all(|uid| !world.bound.contains_key(uid)), "the node is not open yet");
    (world, first, second)
}

#[test]
fn bindings_under_way_to_a_node_that_is_back_have_their_room_if_they_succeed() {
    in_virtual_time(async {
        for forgets in [false, true] {
            let (mut world, first, second) = with_bindings_under_way(forgets).await;
            world.finish_bindings(Binding::Works).await;
            world.pass(SECOND).await;
            assert_eq!((world.count(&first), world.count(&second)), (3, 1), "{forgets}");
            world.check().await;
        }
    });
}

#[test]
fn bindings_under_way_to_a_node_that_is_back_leave_their_room_if_they_fail() {
    in_virtual_time(async {
        for forgets in [false, true] {
            let (mut world, first, second) = with_bindings_under_way(forgets).await;
            world.finish_bindings(Binding::Fails).await;
            world.binding = Binding::Works;
            world.pass(5 * SECOND).await;
            assert_eq!(world.count(&first) + world.count(&second), 4, "{forgets}");
            world.check().await;
        }
    });
}

/// The engine places pods on a node, and is received only when that has gone and another of its name has come.
async fn placed_on_a_node_that_is_another(binding: Binding) -> (World, Vec<String>, Vec<String>) {
    let mut world = World::begun(1).await;
    world.add("before", json!({}));
    world.settle().await;
    world.binding = Binding::Hangs;
    let first: Vec<_> = (0..3).map(|i| world.add(&format!("first{i}"), json!({}))).collect();
    // Applications are taken, and requests placed.
    world.send_only().await;
    world.remove_node("n0");
    world.set_node("n0", json!({}));
    let second: Vec<_> = (0..3).map(|i| world.add(&format!("second{i}"), json!({}))).collect();
    world.pass(5 * SECOND).await;
    assert!(first.iter().all(|uid| world.bound[uid] == ["n0"]), "{:#?}", world.sent);
    assert!(second.iter().all(|uid| !world.bound.contains_key(uid)), "{:#?}", world.sent);
    world.finish_bindings(binding).await;
    world.binding = Binding::Works;
    world.pass(5 * SECOND).await;
    (world, first, second)
}

#[test]
fn what_was_placed_on_a_node_that_is_another_now_has_its_room_if_it_is_bound() {
    in_virtual_time(async {
        for binding in [Binding::Works, Binding::Lost] {
            let (world, first, second) = placed_on_a_node_that_is_another(binding).await;
            assert_eq!((world.count(&first), world.count(&second)), (3, 0), "{:#?}", world.sent);
            world.check().await;
        }
    });
}

#[test]
fn what_was_placed_on_a_node_that_is_another_now_leaves_its_room_if_it_is_not() {
    in_virtual_time(async {
        let (world, first, second) = placed_on_a_node_that_is_another(Binding::Fails).await;
        assert_eq!(world.count(&first) + world.count(&second), 3, "{:#?}", world.sent);
        world.check().await;
    });
}

#[test]
fn a_refusal_of_a_node_that_has_gone_says_nothing_of_the_next_one() {
    in_virtual_time(async {
        for reason in ["it is too much [R_OVERFLOW]", "failed to find node `n0` [R_NODE_UNKNOWN]"] {
            let mut world = World::begun(0).await;
            world.set_node("n0", json!({}));
            world.remove_node("n0");
            world.set_node("n0", json!({}));
            let refused = si::RejectedNode { node_id: "n0".to_owned(), reason: reason.to_owned() };
            let response = si::NodeResponse { rejected: vec![refused], ..Default::default() };
            world.shim.receive(Notification::Nodes(response), world.now);
            let pod = world.add("pod", json!({}));
            world.settle().await;
            assert_eq!(world.node_of(&pod), Some("n0"), "{reason}");
            world.check().await;
        }
    });
}

#[test]
fn bindings_of_pods_that_go_do_not_keep_a_node_closed() {
    in_virtual_time(async {
        for forgets in [false, true] {
            let (mut world, first, second) = with_bindings_under_way(forgets).await;
            world.binding = Binding::Works;
            for uid in &first {
                world.remove(uid);
            }
            world.pass(SECOND).await;
            assert_eq!(world.count(&second), 3, "{forgets}");
            world.finish_bindings(Binding::Works).await;
            world.check().await;
        }
    });
}

#[test]
fn who_is_to_be_near_a_pod_goes_where_one_comes() {
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
