//! Nodes that are removed, replaced or rejected while pods are being placed on them.

use std::time::Duration;

use monoceros_kubernetes::shim::Notification;
use monoceros_proto::si::v1 as si;
use serde_json::json;

use crate::world::{Binding, World, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn placements_on_a_removed_node_are_void() {
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

/// Bindings in flight while their node is removed and added again, or while a new session begins.
/// Their outcome is unknown.
async fn with_bindings_in_flight(forgets: bool) -> (World, Vec<String>, Vec<String>) {
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
fn bindings_in_flight_keep_room_if_they_succeed() {
    in_virtual_time(async {
        for forgets in [false, true] {
            let (mut world, first, second) = with_bindings_in_flight(forgets).await;
            world.finish_bindings(Binding::Works).await;
            world.pass(SECOND).await;
            assert_eq!((world.count(&first), world.count(&second)), (3, 1), "{forgets}");
            world.check().await;
        }
    });
}

#[test]
fn bindings_in_flight_free_room_if_they_fail() {
    in_virtual_time(async {
        for forgets in [false, true] {
            let (mut world, first, second) = with_bindings_in_flight(forgets).await;
            world.finish_bindings(Binding::Fails).await;
            world.binding = Binding::Works;
            world.pass(5 * SECOND).await;
            assert_eq!(world.count(&first) + world.count(&second), 4, "{forgets}");
            world.check().await;
        }
    });
}

/// The engine places pods on a node, and its notification arrives after the node was replaced by
/// another of its name.
async fn placed_on_a_replaced_node(binding: Binding) -> (World, Vec<String>, Vec<String>) {
    let mut world = World::begun(1).await;
    world.add("before", json!({}));
    world.settle().await;
    world.binding = Binding::Hangs;
    let first: Vec<_> = (0..3).map(|i| world.add(&format!("first{i}"), json!({}))).collect();
    // Applications are accepted and asks are placed.
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
fn placement_on_a_replaced_node_keeps_room_if_bound() {
    in_virtual_time(async {
        for binding in [Binding::Works, Binding::Lost] {
            let (world, first, second) = placed_on_a_replaced_node(binding).await;
            assert_eq!((world.count(&first), world.count(&second)), (3, 0), "{:#?}", world.sent);
            world.check().await;
        }
    });
}

#[test]
fn placement_on_a_replaced_node_frees_room_if_unbound() {
    in_virtual_time(async {
        let (world, first, second) = placed_on_a_replaced_node(Binding::Fails).await;
        assert_eq!(world.count(&first) + world.count(&second), 3, "{:#?}", world.sent);
        world.check().await;
    });
}

#[test]
fn rejection_of_a_removed_node_spares_its_successor() {
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
fn bindings_of_deleted_pods_do_not_keep_a_node_closed() {
    in_virtual_time(async {
        for forgets in [false, true] {
            let (mut world, first, second) = with_bindings_in_flight(forgets).await;
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
