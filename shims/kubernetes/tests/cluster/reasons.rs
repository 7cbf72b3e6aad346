//! Reasons reported for pods that fit on no node, in clusters with several pools.

use std::time::Duration;

use serde_json::{Value, json};

use crate::side::IS_ELSEWHERE;
use crate::world::{World, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

/// A cluster with three nodes: one of pool A with one free core, an empty one of pool B, and a
/// tainted one.
async fn pools() -> World {
    let mut world = World::new(0);
    world.set_node("a0", json!({"case": "a"}));
    world.set_node("b0", json!({"case": "b"}));
    let taints = json!([{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]);
    let node = json!({"metadata": {"name": "control"}, "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}});
    world.change_node("control", node);
    world.begin().await;
    let takes = json!([{"name": "c", "resources": {"requests": {"cpu": "3"}}}]);
    world.add("runs", json!({"spec": {"nodeName": "a0", "containers": takes}}));
    world.settle().await;
    world
}

fn two_cores(more: Value) -> Value {
    let mut pod = json!({"spec": {"nodeSelector": {"case": "a"},
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}});
    for (key, value) in more.as_object().into_iter().flatten() {
        pod[key] = value.clone();
    }
    pod
}

#[test]
fn names_the_usable_node_and_its_shortage() {
    in_virtual_time(async {
        let mut world = pools().await;
        let pod = world.add("p", two_cores(json!({})));
        world.pass(20 * SECOND).await;
        let (reason, message) = &world.conditions[&pod];
        assert_eq!(reason, "Unschedulable");
        assert!(!message.contains("20"), "it has no times: {message}");
        if IS_ELSEWHERE {
            // A remote scheduler only knows refusals.
            return;
        }
        assert_eq!(
            message,
            "no node that it may use has room (3 nodes: 1 lacks cores, `the node does not match the \
             pod's node selector or affinity` on 1, `the node has the taint \
             node-role.kubernetes.io/control-plane:NoSchedule, which is not tolerated` on 1); 1 core \
             more on a0, which comes nearest, would let this ask run"
        );
        let explained = world.explain(&pod).await;
        assert!(explained.contains("cure: \"free 1 core on node a0\""), "{explained}");
    });
}

#[test]
fn pod_without_usable_nodes_is_not_told_to_wait() {
    in_virtual_time(async {
        let mut world = pools().await;
        let pod = world.add("p", json!({"spec": {"nodeSelector": {"no": "where"}}}));
        world.pass(20 * SECOND).await;
        if IS_ELSEWHERE {
            return;
        }
        let message = &world.conditions[&pod].1;
        assert!(message.starts_with("it may use none of the nodes (3 nodes: "), "{message}");
        let explained = world.explain(&pod).await;
        let cure = "cure: \"add a node with at least 1 core and 1 pod that it may use: others say";
        assert!(explained.contains(cure), "{explained}");
        // The pod runs once its node exists. The results about other nodes do not prevent that.
        world.set_node("new", json!({"no": "where"}));
        world.pass(2 * SECOND).await;
        assert_eq!(world.node_of(&pod), Some("new"));
    });
}

#[test]
fn gang_reports_missing_places_on_usable_nodes() {
    in_virtual_time(async {
        let mut world = pools().await;
        let groups = json!([{"name": "w", "minMember": 2, "minResource": {"cpu": "2"},
            "nodeSelector": {"case": "a"}}]);
        let annotations = json!({"monoceros.io/app-id": "gang", "monoceros.io/task-group-name": "w",
            "monoceros.io/task-groups": groups.to_string()});
        let meta = json!({"metadata": {"annotations": annotations}});
        let pods = ["m0", "m1"].map(|name| world.add(name, two_cores(meta.clone())));
        world.pass(20 * SECOND).await;
        assert_eq!(world.count(&pods), 0);
        let (reason, message) = &world.conditions[&pods[0]];
        assert_eq!(reason, "Unschedulable");
        if IS_ELSEWHERE {
            return;
        }
        assert_eq!(
            message,
            "2 members of task group w found no place for 2 cores and 1 pod on nodes that they may use \
             beside the others (3 nodes: 1 lacks cores, `the node does not match the pod's node selector \
             or affinity` on 1, `the node has the taint node-role.kubernetes.io/control-plane:NoSchedule, \
             which is not tolerated` on 1)"
        );
    });
}

#[test]
fn empty_cluster_reports_unschedulable_after_ten_seconds() {
    in_virtual_time(async {
        let mut world = World::begun(0).await;
        let pod = world.add("p", json!({}));
        world.pass(9 * SECOND).await;
        assert!(world.conditions.is_empty(), "its nodes may be about to come");
        world.pass(6 * SECOND).await;
        let (reason, message) = &world.conditions[&pod];
        assert_eq!(reason, "Unschedulable");
        assert!(message.contains("no node has room (0 nodes)"), "{message}");
        // The same after the last node was removed.
        world.set_node("n0", json!({}));
        world.pass(SECOND).await;
        assert_eq!(world.node_of(&pod), Some("n0"));
        let wide = json!([{"name": "c", "resources": {"requests": {"cpu": "4"}}}]);
        let second = world.add("second", json!({"spec": {"containers": wide}}));
        world.pass(2 * SECOND).await;
        world.remove(&pod);
        world.remove_node("n0");
        world.pass(120 * SECOND).await;
        assert_eq!(world.conditions[&second].0, "Unschedulable");
    });
}

#[test]
fn groups_with_the_same_nodes_share_their_places() {
    in_virtual_time(async {
        let mut world = pools().await;
        let takes = json!([{"name": "c", "resources": {"requests": {"cpu": "1"}}}]);
        let group = |name: &str| {
            json!({"name": name, "minMember": 1, "minResource": {"cpu": "1"},
            "nodeSelector": {"case": "a"}})
        };
        let groups = json!([group("driver"), group("worker")]).to_string();
        let pods = ["driver", "worker"].map(|name| {
            let annotations = json!({"monoceros.io/app-id": "gang",
                "monoceros.io/task-group-name": name, "monoceros.io/task-groups": groups});
            let pod = json!({"metadata": {"annotations": annotations},
                "spec": {"nodeSelector": {"case": "a"}, "containers": takes}});
            world.add(name, pod)
        });
        world.pass(20 * SECOND).await;
        assert_eq!(world.count(&pods), 0, "one core is left there");
        if IS_ELSEWHERE {
            return;
        }
        let message = &world.conditions[&pods[0]].1;
        assert!(message.starts_with("1 member of task group worker found no place"), "{message}");
    });
}
