//! Gangs that run in part when the scheduler starts: their missing places are held again.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use monoceros_kubernetes::shim::EngineOrder;
use serde_json::{Value, json};

use crate::world::{Binding, World, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

/// A pod of one core, of an application with a driver and three workers of one core each.
fn pod(application: &str, group: &str, declares: bool) -> Value {
    let groups = json!([
        {"name": "driver", "minMember": 1, "minResource": {"cpu": "1"}},
        {"name": "workers", "minMember": 3, "minResource": {"cpu": "1"}}]);
    let mut annotations = json!({
        "yunikorn.apache.org/app-id": application, "yunikorn.apache.org/task-group-name": group});
    if declares {
        annotations["yunikorn.apache.org/task-groups"] = json!(groups.to_string());
    }
    json!({"metadata": {"annotations": annotations}})
}

fn other() -> Value {
    json!({"metadata": {"annotations": {"yunikorn.apache.org/app-id": "other"}}})
}

/// Binds a pod to a node, `seconds` ago.
fn runs(world: &mut World, uid: &str, node: &str, seconds: u64) {
    let since = (Timestamp::now() - Duration::from_secs(seconds)).to_string();
    let bound = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": since}]);
    world.change(uid, json!({"spec": {"nodeName": node}, "status": {"conditions": bound}}));
}

/// The driver runs, three workers are to come, and another pod waits, also after a restart.
#[test]
fn places_of_a_gang_are_held_through_a_restart() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let driver = world.add("driver", pod("job", "driver", true));
        world.settle().await;
        assert_eq!(world.node_of(&driver), Some("n0"));
        runs(&mut world, &driver, "n0", 60);
        let waits = world.add("other", other());
        world.settle().await;
        assert_eq!(world.node_of(&waits), None);
        for _ in 0..2 {
            world.begin().await;
            world.pass(20 * SECOND).await;
            assert_eq!(world.node_of(&waits), None);
            world.check_each().await;
        }
        let workers: Vec<_> =
            (0..3).map(|i| world.add(&format!("w{i}"), pod("job", "workers", false))).collect();
        world.settle().await;
        assert_eq!(world.count(&workers), 3);
        assert_eq!(world.node_of(&waits), None);
        world.check().await;
    });
}

/// Waiting members get the room held for them, even if other pods are older.
#[test]
fn waiting_members_precede_older_pods_of_others() {
    in_virtual_time(async {
        let mut world = World::new(1);
        let waits = world.add("a-other", other());
        let driver = world.add("driver", pod("job", "driver", true));
        let workers: Vec<_> =
            (0..3).map(|i| world.add(&format!("w{i}"), pod("job", "workers", false))).collect();
        runs(&mut world, &driver, "n0", 60);
        runs(&mut world, &workers[0], "n0", 50);
        world.begin().await;
        world.pass(20 * SECOND).await;
        assert_eq!(world.count(&workers), 3);
        assert_eq!(world.node_of(&waits), None);
        world.check().await;
    });
}

#[test]
fn holds_nothing_for_succeeded_or_earlier_members() {
    in_virtual_time(async {
        let mut world = World::new(1);
        let driver = world.add("driver", pod("job", "driver", true));
        runs(&mut world, &driver, "n0", 60);
        let worker = |world: &mut World, name: &str, created: &str| {
            let mut worker = pod("job", "workers", false);
            worker["metadata"]["creationTimestamp"] = json!(created);
            worker["status"] = json!({"phase": "Succeeded"});
            world.add(name, worker)
        };
        worker(&mut world, "before", "2025-12-31T23:59:59Z");
        worker(&mut world, "w0", "2026-01-01T00:00:00Z");
        let gone = worker(&mut world, "w1", "2026-01-01T00:00:07Z");
        let others: Vec<_> = (0..3).map(|i| world.add(&format!("o{i}"), other())).collect();
        world.begin().await;
        world.pass(20 * SECOND).await;
        assert_eq!(world.count(&others), 2, "of four cores one runs and one is held");
        world.remove(&others[0]);
        world.remove(&gone);
        world.begin().await;
        world.pass(20 * SECOND).await;
        assert_eq!(world.count(&others[1..]), 1, "two are held");
        world.check_each().await;
    });
}

/// The timeout counts from the binding of the youngest member. It is 15 minutes by default.
#[test]
fn expired_places_are_not_held_again() {
    in_virtual_time(async {
        for (seconds, is_held) in [(14 * 60, true), (15 * 60 + 1, false)] {
            let mut world = World::new(1);
            let driver = world.add("driver", pod("job", "driver", true));
            runs(&mut world, &driver, "n0", seconds);
            let waits = world.add("other", other());
            world.begin().await;
            world.pass(10 * SECOND).await;
            assert_eq!(world.node_of(&waits).is_none(), is_held);
            world.pass(120 * SECOND).await;
            assert_eq!(world.node_of(&waits), Some("n0"));
            world.check().await;
        }
    });
}

#[test]
fn holds_as_many_places_as_fit() {
    in_virtual_time(async {
        let mut world = World::new(1);
        let driver = world.add("driver", pod("job", "driver", true));
        runs(&mut world, &driver, "n0", 60);
        let others: Vec<_> = (0..2).map(|i| world.add(&format!("o{i}"), other())).collect();
        runs(&mut world, &others[0], "n0", 60);
        let workers: Vec<_> =
            (0..3).map(|i| world.add(&format!("w{i}"), pod("job", "workers", false))).collect();
        world.begin().await;
        world.pass(20 * SECOND).await;
        assert_eq!((world.count(&workers), world.node_of(&others[1])), (2, None));
        world.check().await;
    });
}

/// A gang with a running driver, and a waiting pod of another application.
fn part_of_a_gang() -> World {
    let mut world = World::new(1);
    let driver = world.add("driver", pod("job", "driver", true));
    runs(&mut world, &driver, "n0", 60);
    world.add("other", other());
    world
}

/// Returns whether the other pod is asked for by that time, while the engine confirms nothing.
fn asks_for_other(world: &mut World, now: Duration) -> bool {
    world.shim.tick(now);
    let is_of_other = |order: &EngineOrder| match order {
        EngineOrder::Submit(all) => all.iter().any(|one| one.application_id == "other"),
        _ => false,
    };
    world.shim.engine_orders(now).iter().any(is_of_other)
}

/// An engine that does not confirm held places delays pods by five seconds, in each session.
#[test]
fn pods_wait_a_bounded_time_for_held_places() {
    in_virtual_time(async {
        let mut world = part_of_a_gang();
        world.shim.begin(Duration::ZERO);
        assert!(!asks_for_other(&mut world, 4 * SECOND));
        world.shim.begin(4 * SECOND);
        for (seconds, is_asked) in [(5, false), (8, false), (9, true)] {
            assert_eq!(asks_for_other(&mut world, seconds * SECOND), is_asked, "{seconds}");
        }
    });
}

/// The session is lost while members are being bound. They count as members, and their node is open
/// before places are held.
#[test]
fn bindings_in_flight_count_before_places_are_held() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        world.binding = Binding::Hangs;
        let new = |mut pod: Value| {
            pod["metadata"]["creationTimestamp"] = json!(Timestamp::now().to_string());
            pod
        };
        let driver = world.add("driver", new(pod("job", "driver", true)));
        let worker = world.add("w0", new(pod("job", "workers", false)));
        world.settle().await;
        let waits = world.add("other", other());
        world.begin().await;
        world.pass(SECOND).await;
        world.finish_bindings(Binding::Works).await;
        world.pass(10 * SECOND).await;
        assert_eq!(world.count(&[driver, worker]), 2);
        assert_eq!(world.node_of(&waits), None, "two of four cores are held: {:#?}", world.sent);
        world.check_each().await;
    });
}

/// Pods without a job that each declare the gang. The oldest has succeeded.
#[test]
fn members_with_equal_declarations_form_one_gang() {
    in_virtual_time(async {
        let mut world = World::new(1);
        let worker = |world: &mut World, name: &str, seconds: u32| {
            let mut worker = pod("job", "workers", true);
            let created = format!("2026-01-01T00:00:0{seconds}Z");
            worker["metadata"]["creationTimestamp"] = json!(created);
            world.add(name, worker)
        };
        let over = worker(&mut world, "w0", 0);
        world.change(&over, json!({"status": {"phase": "Succeeded"}}));
        let running = worker(&mut world, "w1", 1);
        runs(&mut world, &running, "n0", 60);
        let others: Vec<_> = (0..4).map(|i| world.add(&format!("o{i}"), other())).collect();
        world.begin().await;
        world.pass(10 * SECOND).await;
        assert_eq!(world.count(&others), 1, "one runs, and a worker and the driver are to come");
        world.check_each().await;
    });
}
