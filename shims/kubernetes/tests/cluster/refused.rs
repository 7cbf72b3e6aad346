//! What runs on nodes and is more than the scheduler takes: somebody else's, and ours.

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

/// How often the engine was before what the pod takes.
fn times_sent(world: &World, uid: &str) -> usize {
    let names = |line: &&String| line.contains(&format!("{uid} on n0"));
    world.sent.iter().filter(names).count()
}

/// The memory of the node that is somebody else's.
async fn taken(world: &World) -> i64 {
    let nodes = world.scheduler.nodes("default").await.unwrap();
    let node = serde_json::to_value(&nodes[0]).unwrap();
    node["occupied"]["memory"].as_i64().unwrap_or(0)
}

#[test]
fn what_is_refused_of_somebody_elses_pod_is_said_again_after_ever_longer_pauses() {
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
        // Labels make no difference, amounts do.
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
fn what_somebody_elses_pod_took_before_counts_while_more_is_refused() {
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
fn what_was_refused_without_its_node_is_said_when_the_node_is_there() {
    in_virtual_time(async {
        let mut world = World::begun(0).await;
        // A node that the scheduler does not take, and then does.
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
fn what_a_pod_of_ours_had_before_counts_while_more_is_refused_and_until_it_is_gone() {
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
