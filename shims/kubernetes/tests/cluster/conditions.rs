//! Conditions of waiting pods.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::side::IS_ELSEWHERE;
use crate::world::{World, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn each_kind_of_pod_gets_its_own_reason() {
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
        // A remote ask holds its quota while predicates are evaluated, so the first reason may be
        // the quota.
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
fn conditions_keep_to_the_rate_and_reach_every_pod() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let pods: Vec<_> = (0..400)
            .map(|i| {
                world.add(&format!("p{i}"), json!({"spec": {"nodeSelector": {"no": "where"}}}))
            })
            .collect();
        world.pass(2 * SECOND).await;
        // The budget of one second may be saved up.
        assert!(world.writes.len() <= 150, "{}", world.writes.len());
        world.pass(18 * SECOND).await;
        let written: BTreeSet<_> = world.writes.iter().map(|(_, uid)| uid.clone()).collect();
        assert_eq!(written.len(), pods.len());
        // A remote ask takes room while predicates are evaluated, so the first reason may be that.
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
fn changed_reason_is_written_after_thirty_seconds() {
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
fn failed_condition_is_retried_after_a_pause() {
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
        // An outdated reason is not written.
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
fn added_toleration_counts_at_once() {
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
fn full_cluster_reports_unschedulable() {
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
