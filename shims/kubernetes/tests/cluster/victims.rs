//! Victims of preemption, and pods that are protected from it.

use std::time::Duration;

use monoceros_kubernetes::shim::{Change, Evict, Key, Outcome};
use serde_json::{Value, json};

use crate::world::{Binding, World, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

/// A node filled by these four pods of queue `low`. Queue `high` is guaranteed half of it.
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

/// A pod of `high`, for which a pod of `low` is evicted.
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
fn victim_during_its_binding_makes_room_at_once() {
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
        // The victim is asked for again.
        world.remove(&high);
        world.pass(SECOND).await;
        assert_eq!(world.count(&low), 4);
        world.check().await;
    });
}

#[test]
fn victim_bound_meanwhile_is_evicted() {
    in_virtual_time(async {
        let (mut world, _) = with_low_pods(Binding::Hangs).await;
        let high = world.add("high", json!({"metadata": of_queue("high")}));
        // The binding was in flight to the server.
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
fn victim_makes_room_only_when_gone() {
    in_virtual_time(async {
        let (mut world, high, victim) = with_a_victim().await;
        world.remove(&victim);
        world.pass(SECOND).await;
        assert_eq!(world.node_of(&high), Some("n0"));
        world.check().await;
    });
}

#[test]
fn another_victim_replaces_one_that_stays() {
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
        // A later outcome does not change that it stays.
        world.change(&victim, json!({"metadata": {"labels": {"new": "label"}}}));
        world.pass(SECOND).await;
        world.check().await;
    });
}

/// Returns the number of evictions in progress.
fn going_on(world: &World) -> usize {
    let goes_on = |evict: &&Evict| !evict.called_off.is_cancelled();
    world.evictions.iter().filter(goes_on).count()
}

#[test]
fn eviction_ends_when_the_engine_withdraws_it() {
    in_virtual_time(async {
        let (mut world, high, victim) = with_a_victim().await;
        assert_eq!(going_on(&world), 1);
        // The pod that needed the room does not exist in the new session.
        world.budgets_hold = true;
        world.pods.remove(&high);
        world.shim.change(Change::Pod(Key::from(high.as_str()), None), world.now);
        world.begin().await;
        assert_eq!(going_on(&world), 0);
        // The next victim is evicted once.
        world.add("higher", json!({"metadata": of_queue("high")}));
        world.pass(60 * SECOND).await;
        assert_eq!((going_on(&world), world.evictions.len()), (1, 2));
        world.begin().await;
        world.pass(60 * SECOND).await;
        assert_eq!((going_on(&world), world.evictions.len()), (1, 3));
        // A victim that stays is not evicted again.
        let last = world.evictions[2].key.clone();
        world.shim.done(Outcome::EvictionFailed(last, "the budget is spent".to_owned()), world.now);
        assert_eq!(going_on(&world), 0);
        world.remove(&victim);
        world.settle().await;
        world.check().await;
    });
}

#[test]
fn spent_budget_protects_its_pods() {
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
