//! A replica that stands by: its engine has everything but the pending pods, and decides nothing.

use std::time::Duration;

use monoceros_kubernetes::shim::{Change, Notification};
use serde_json::{Value, json};

use crate::world::{World, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

/// Asserts that the engine has decided nothing and nothing was ordered at the API server.
fn is_idle(world: &World) {
    assert!(world.bound.is_empty(), "{:?}", world.bound);
    assert!(world.evicted.is_empty() && world.events.is_empty() && world.writes.is_empty());
    let asks = world.sent.iter().filter(|line| line.contains("ask ")).count();
    assert_eq!(asks, 0, "{:?}", world.sent);
}

/// Binds a pod, as the leader does.
fn bind(world: &mut World, uid: &str, node: &str) {
    world.change(uid, json!({"spec": {"nodeName": node}}));
}

#[test]
fn standby_engine_has_the_books_and_no_asks() {
    in_virtual_time(async {
        let mut world = World::new(2);
        let runs = world.add("runs", json!({"spec": {"nodeName": "n0"}}));
        let theirs = json!({"spec": {"nodeName": "n1", "schedulerName": "other"}});
        world.add("theirs", theirs);
        let pods: Vec<_> = (0..8).map(|i| world.add(&format!("p{i}"), json!({}))).collect();
        world.stand_by().await;
        world.check().await;
        // The leader goes on.
        bind(&mut world, &pods[0], "n0");
        bind(&mut world, &pods[1], "n1");
        let late = world.add("late", json!({"metadata": {"labels": {"applicationId": "late"}}}));
        world.pass(60 * SECOND).await;
        world.check().await;
        bind(&mut world, &late, "n0");
        world.remove(&pods[1]);
        world.remove(&pods[2]);
        world.change(&runs, json!({"status": {"phase": "Succeeded"}}));
        world.pods.remove(&runs);
        world.set_node("n2", json!({}));
        bind(&mut world, &pods[3], "n2");
        world.pass(60 * SECOND).await;
        world.check().await;
        world.remove_node("n2");
        world.remove(&pods[3]);
        world.pass(60 * SECOND).await;
        world.check().await;
        is_idle(&world);
        world.lead().await;
        world.check().await;
        assert_eq!(world.count(&pods[4..]), 4, "8 cores, of which 3 are taken");
        assert!(world.bound.values().all(|times| times.len() == 1));
        assert!(world.bound.keys().all(|uid| pods[4..].contains(uid)), "{:?}", world.bound);
    });
}

/// The pods of an application end, and others of it wait for the next leader.
#[test]
fn application_that_completes_meanwhile_goes_on() {
    in_virtual_time(async {
        let mut world = World::new(1);
        let of_job = json!({"metadata": {"labels": {"applicationId": "job"}}});
        let first = world.add("first", of_job.clone());
        bind(&mut world, &first, "n0");
        world.stand_by().await;
        let second = world.add("second", of_job);
        world.remove(&first);
        // It is Completed after 30 seconds.
        world.pass(100 * SECOND).await;
        is_idle(&world);
        world.lead().await;
        assert_eq!(world.node_of(&second), Some("n0"));
        world.check().await;
    });
}

#[test]
fn session_lost_during_standby_is_begun_again_without_asks() {
    in_virtual_time(async {
        let mut world = World::new(1);
        let runs = world.add("runs", json!({"spec": {"nodeName": "n0"}}));
        let waits = world.add("waits", json!({}));
        world.stand_by().await;
        world.stand_by().await;
        world.check().await;
        is_idle(&world);
        world.lead().await;
        assert_eq!(world.count(&[runs, waits]), 2);
        world.check().await;
    });
}

/// A pod of an application with two task groups of three cores together.
fn member(group: &str, declares: bool) -> Value {
    let groups = json!([
        {"name": "driver", "minMember": 1, "minResource": {"cpu": "1"}},
        {"name": "workers", "minMember": 2, "minResource": {"cpu": "1"}}]);
    let mut annotations = json!({
        "yunikorn.apache.org/app-id": "job", "yunikorn.apache.org/task-group-name": group});
    if declares {
        annotations["yunikorn.apache.org/task-groups"] = json!(groups.to_string());
    }
    json!({"metadata": {"annotations": annotations}})
}

/// Of a gang the driver runs. Two older pods of others would take the room of its workers.
#[test]
fn places_of_a_gang_are_held_once_the_replica_leads() {
    in_virtual_time(async {
        let mut world = World::new(1);
        let other = json!({"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z",
            "labels": {"applicationId": "other"}}});
        let others: Vec<_> = (0..2).map(|i| world.add(&format!("o{i}"), other.clone())).collect();
        let driver = world.add("driver", member("driver", true));
        world.stand_by().await;
        bind(&mut world, &driver, "n0");
        let bound = json!([{"type": "PodScheduled", "status": "True",
            "lastTransitionTime": k8s_openapi::jiff::Timestamp::now().to_string()}]);
        world.change(&driver, json!({"status": {"conditions": bound}}));
        world.pass(10 * SECOND).await;
        is_idle(&world);
        world.lead().await;
        assert_eq!(world.count(&others), 1, "of four cores one runs and two are held");
        let workers: Vec<_> =
            (0..2).map(|i| world.add(&format!("w{i}"), member("workers", false))).collect();
        world.settle().await;
        assert_eq!((world.count(&workers), world.count(&others)), (2, 1));
        world.check().await;
    });
}

/// The leader binds a gang while the replica stands by, and one member is to come again.
#[test]
fn gang_of_the_last_leader_is_not_decided_again() {
    in_virtual_time(async {
        let mut world = World::new(1);
        let driver = world.add("driver", member("driver", true));
        let workers: Vec<_> =
            (0..2).map(|i| world.add(&format!("w{i}"), member("workers", false))).collect();
        world.stand_by().await;
        for uid in [&driver, &workers[0], &workers[1]] {
            bind(&mut world, uid, "n0");
        }
        world.settle().await;
        world.remove(&workers[1]);
        let again = world.add("w2", member("workers", false));
        world.pass(5 * SECOND).await;
        is_idle(&world);
        world.lead().await;
        world.pass(SECOND).await;
        assert_eq!(world.node_of(&again), Some("n0"));
        world.check().await;
    });
}

/// The last leader may have ended before it wrote them.
#[test]
fn events_about_nodes_and_queues_are_written_by_the_next_leader() {
    in_virtual_time(async {
        let mut world = World::new(1);
        world.stand_by().await;
        let bad = |name: &str| {
            json!({"metadata": {"name": name},
            "status": {"allocatable": {"cpu": "much"}}})
        };
        for name in ["bad", "mended"] {
            world.change_node(name, bad(name));
            world.change_node(name, bad(name));
        }
        let map = json!({"metadata": {"name": "yunikorn-configs", "namespace": "ns"},
            "data": {"queues.yaml": "partitions: 7"}});
        world.set("ns/yunikorn-configs", map, Change::ConfigMap);
        world.settle().await;
        world.set_node("mended", json!({}));
        world.settle().await;
        is_idle(&world);
        world.lead().await;
        let mut events: Vec<_> =
            world.events.iter().map(|event| (event.reason, &*event.about.name)).collect();
        events.sort_unstable();
        assert_eq!(events, [("NotUsable", "bad"), ("QueuesRefused", "yunikorn-configs")]);
    });
}

/// No engine orders evictions without asks. If one did, the next leader would carry it out.
#[test]
fn eviction_waits_for_the_lease() {
    use monoceros_proto::si::v1::{AllocationRelease, AllocationResponse, TerminationType};
    in_virtual_time(async {
        let mut world = World::new(1);
        let runs = world.add("runs", json!({"spec": {"nodeName": "n0"}}));
        world.stand_by().await;
        let release = AllocationRelease {
            termination_type: TerminationType::Timeout.into(),
            ..AllocationRelease::new("ns-autogen", &*runs)
        };
        let released = AllocationResponse { released: vec![release], ..Default::default() };
        world.shim.receive(Notification::Allocations(released), world.now);
        world.settle().await;
        is_idle(&world);
        world.lead().await;
        assert_eq!(world.evicted, [runs]);
    });
}
