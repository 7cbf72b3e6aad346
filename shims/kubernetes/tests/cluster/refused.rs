//! Running pods, foreign and ours, that take more than the scheduler accepts.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{World, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

/// More than the scheduler can count.
const TOO_MUCH: &str = "16Pi";

fn theirs(memory: &str) -> Value {
    json!({"spec": {"nodeName": "n0", "schedulerName": "other",
        "containers": [{"name": "c", "resources": {"requests": {"memory": memory}}}]}})
}

/// Returns how often the engine was sent the pod's amounts.
fn times_sent(world: &World, uid: &str) -> usize {
    let names = |line: &&String| line.contains(&format!("{uid} on n0"));
    world.sent.iter().filter(names).count()
}

/// Returns the memory of the node that foreign pods take.
async fn taken(world: &World) -> i64 {
    let nodes = world.scheduler.nodes("default").await.unwrap();
    let node = serde_json::to_value(&nodes[0]).unwrap();
    node["occupied"]["memory"].as_i64().unwrap_or(0)
}

#[test]
fn refused_foreign_pod_is_resent_after_growing_pauses() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let pod = world.add("theirs", theirs(TOO_MUCH));
        world.settle().await;
        assert_eq!(times_sent(&world, &pod), 1);
        world.pass(29 * SECOND).await;
        assert_eq!(times_sent(&world, &pod), 1);
        world.pass(2 * SECOND).await;
        assert_eq!(times_sent(&world, &pod), 2);
        world.pass(600 * SECOND).await;
        assert_eq!(times_sent(&world, &pod), 5, "after 30, 60, 120, 240 seconds, then 300");
        // A changed label sends nothing, a changed amount does.
        world.change(&pod, json!({"metadata": {"labels": {"a": "b"}}}));
        world.settle().await;
        assert_eq!(times_sent(&world, &pod), 5);
        world.change(&pod, theirs("1Gi"));
        world.settle().await;
        assert_eq!(times_sent(&world, &pod), 6);
        assert_eq!(taken(&world).await, 1 << 30);
        world.check().await;
        world.pass(600 * SECOND).await;
        assert_eq!(times_sent(&world, &pod), 6, "it is taken");
    });
}

#[test]
fn earlier_foreign_amounts_count_while_more_is_refused() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let pod = world.add("theirs", theirs("1Gi"));
        world.settle().await;
        world.change(&pod, theirs(TOO_MUCH));
        world.settle().await;
        assert_eq!(taken(&world).await, 1 << 30);
        world.check().await;
        world.change(&pod, theirs("2Gi"));
        world.settle().await;
        assert_eq!(taken(&world).await, 2 << 30);
        world.change(&pod, theirs(TOO_MUCH));
        world.settle().await;
        world.remove(&pod);
        world.settle().await;
        assert_eq!(taken(&world).await, 0);
        world.check().await;
    });
}

#[test]
fn foreign_pod_is_resent_with_its_node() {
    in_virtual_time(async {
        let mut world = World::begun(0).await;
        // A node that the scheduler first rejects and then accepts.
        let node = |memory: &str| {
            json!({"metadata": {"name": "n0"},
            "status": {"allocatable": {"cpu": "4", "memory": memory, "pods": "110"}}})
        };
        let pod = world.add("theirs", theirs("1Gi"));
        world.change_node("n0", node(TOO_MUCH));
        world.settle().await;
        world.change_node("n0", node("16Gi"));
        world.settle().await;
        assert!(times_sent(&world, &pod) > 0);
        assert_eq!(taken(&world).await, 1 << 30);
        world.check().await;
    });
}

#[test]
fn earlier_amounts_of_our_pod_count_while_more_is_refused() {
    for is_told_anew in [false, true] {
        in_virtual_time(async {
            let mut world = World::begun(1).await;
            let ours = |memory: &str| {
                json!({"spec": {"containers": [{"name": "c",
                    "resources": {"requests": {"memory": memory}}}]}})
            };
            let pod = world.add("ours", ours("1Gi"));
            world.settle().await;
            if is_told_anew {
                world.begin().await;
            }
            let before = times_sent(&world, &pod);
            world.change(&pod, ours(TOO_MUCH));
            world.settle().await;
            assert_eq!(times_sent(&world, &pod), before + 1);
            world.check().await;
            world.pass(31 * SECOND).await;
            assert_eq!(times_sent(&world, &pod), before + 2);
            world.change(&pod, ours("2Gi"));
            world.settle().await;
            assert_eq!(times_sent(&world, &pod), before + 3);
            world.change(&pod, ours(TOO_MUCH));
            world.settle().await;
            let found = world.scheduler.application("default", "ns-autogen").await.unwrap();
            assert_eq!(found.unwrap().allocations.len(), 1);
            world.remove(&pod);
            world.settle().await;
            world.check().await;
        });
    }
}
