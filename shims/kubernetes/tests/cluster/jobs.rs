//! Gangs of jobs: applied again, larger than declared, or declared with mistakes.

use std::time::Duration;

use monoceros_kubernetes::shim::Change;
use serde_json::{Value, json};

use crate::world::{Binding, World, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

/// A pod of a job `training`, of which four pods of two cores start together. `more` is merged into
/// the group.
fn pod_of(job: &str, more: Value) -> Value {
    let mut group = json!({"name": "w", "minMember": 4, "minResource": {"cpu": "2"}});
    for (key, value) in more.as_object().unwrap() {
        group[key] = value.clone();
    }
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "training", "uid": job,
        "controller": true}]);
    json!({"metadata": {"ownerReferences": owner, "annotations": {
            "monoceros.io/app-id": "training", "monoceros.io/task-group-name": "w",
            "monoceros.io/task-groups": json!([group]).to_string()}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}})
}

fn job(world: &mut World, job: &str) -> Vec<String> {
    (0..4).map(|i| world.add(&format!("{job}{i}"), pod_of(job, json!({})))).collect()
}

fn delete(world: &mut World, pods: &[String]) {
    for pod in pods {
        let at = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:01:00Z"}});
        world.change(pod, at);
    }
}

fn events<'w>(world: &'w World, reason: &str) -> Vec<&'w str> {
    let events = world.events.iter().filter(|event| event.reason == reason);
    events.map(|event| event.message.as_str()).collect()
}

#[test]
fn reapplied_job_starts_as_a_whole() {
    in_virtual_time(async {
        let mut world = World::begun(2).await;
        let old = job(&mut world, "old");
        world.settle().await;
        assert_eq!(world.count(&old), 4);
        delete(&mut world, &old);
        let new = job(&mut world, "new");
        world.pass(5 * SECOND).await;
        for pod in &old[..2] {
            world.remove(pod);
        }
        world.pass(5 * SECOND).await;
        assert_eq!(world.count(&new), 0, "two places are no gang");
        assert!(world.conditions.contains_key(&new[3]));
        world.check().await;
        // The gang is decided beside the room that the old pods still hold.
        world.set_node("n2", json!({}));
        world.settle().await;
        assert_eq!(world.count(&new), 4);
        for pod in &old[2..] {
            world.remove(pod);
        }
        world.pass(60 * SECOND).await;
        world.check().await;
        let found = world.scheduler.application("default", "training.2").await.unwrap();
        assert_eq!(found.unwrap().allocations.len(), 4);
        assert!(world.scheduler.application("default", "training").await.unwrap().is_none());
    });
}

#[test]
fn order_of_old_and_new_pods_does_not_matter() {
    in_virtual_time(async {
        let mut world = World::begun(2).await;
        let old = job(&mut world, "old");
        world.settle().await;
        // A job controller creates pods before it deletes those of the deleted job.
        let new = job(&mut world, "new");
        world.pass(2 * SECOND).await;
        delete(&mut world, &old);
        world.settle().await;
        world.remove(&old[0]);
        world.remove(&old[1]);
        world.pass(5 * SECOND).await;
        assert_eq!(world.count(&new), 0);
        world.remove(&old[2]);
        world.remove(&old[3]);
        world.pass(5 * SECOND).await;
        assert_eq!(world.count(&new), 4);
        world.check().await;
        // The same once more: the numbers continue.
        delete(&mut world, &new);
        let third = job(&mut world, "third");
        world.remove(&new[0]);
        world.pass(5 * SECOND).await;
        assert_eq!(world.count(&third), 0);
        world.check().await;
    });
}

#[test]
fn restart_separates_the_new_gang_from_old_pods() {
    in_virtual_time(async {
        let mut world = World::new(2);
        let new = job(&mut world, "new");
        let old = job(&mut world, "old");
        for (at, pod) in old.iter().enumerate() {
            world.change(pod, json!({"spec": {"nodeName": format!("n{}", at % 2)}}));
        }
        delete(&mut world, &old);
        world.remove(&old[0]);
        world.remove(&old[1]);
        world.begin().await;
        world.pass(5 * SECOND).await;
        assert_eq!(world.count(&new), 0);
        world.check().await;
        world.remove(&old[2]);
        world.remove(&old[3]);
        world.pass(5 * SECOND).await;
        assert_eq!(world.count(&new), 4);
        // A scheduler that has lost its state keeps both apart, and has one gang.
        world.begin().await;
        assert_eq!(world.count(&new), 4);
        world.check().await;
    });
}

#[test]
fn new_members_beside_running_ones_get_a_warning() {
    in_virtual_time(async {
        let mut world = World::begun(3).await;
        let old = job(&mut world, "old");
        world.settle().await;
        delete(&mut world, &old[..3]);
        let second = world.add("second", pod_of("second", json!({"minMember": 9})));
        world.settle().await;
        assert!(world.node_of(&second).is_some());
        let warnings = events(&world, "GangIgnored");
        assert!(warnings[0].contains("(w: 4)") && warnings[0].contains("(w: 9)"), "{warnings:?}");
        world.add("third", pod_of("second", json!({"minMember": 9})));
        world.settle().await;
        assert_eq!(events(&world, "GangIgnored").len(), 1, "it is told once");
        // A pod that its own job creates again causes no warning.
        world.set_node("n3", json!({}));
        let own = world.add("own", pod_of("old", json!({})));
        world.settle().await;
        assert_eq!(events(&world, "GangIgnored").len(), 1);
        assert!(world.node_of(&own).is_some());
        world.check().await;
    });
}

#[test]
fn members_complete_the_declaration_of_their_group() {
    in_virtual_time(async {
        // The members' pool has room for two of them; other nodes have room for all.
        let mut world = World::begun(4).await;
        world.set_node("a0", json!({"pool": "a"}));
        let mut pod = pod_of("job", json!({}));
        pod["spec"]["nodeSelector"] = json!({"pool": "a"});
        let first = world.add("p0", pod.clone());
        world.pass(2 * SECOND).await;
        let second = world.add("p1", pod.clone());
        world.pass(20 * SECOND).await;
        assert_eq!(world.count(&[first.clone(), second.clone()]), 0);
        world.set_node("a1", json!({"pool": "a"}));
        world.settle().await;
        assert_eq!(world.count(&[first, second]), 2);
        let rest = ["p2", "p3"].map(|name| world.add(name, pod.clone()));
        world.settle().await;
        assert_eq!(world.count(&rest), 2, "their places are held in their pool");
        world.check().await;
    });
}

#[test]
fn size_of_members_overrides_the_declared_size() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let small = json!({"minResource": {"cpu": "1"}});
        let pods: Vec<_> =
            (0..4).map(|i| world.add(&format!("p{i}"), pod_of("job", small.clone()))).collect();
        world.pass(5 * SECOND).await;
        assert_eq!(world.count(&pods), 0, "four of one core would have room");
        assert_eq!(
            events(&world, "GangResized"),
            [
                "a member of task group w takes 2 cores, and the group declares 1 core: so much counts for \
              each member"
            ]
        );
        world.set_node("n1", json!({}));
        world.settle().await;
        assert_eq!(world.count(&pods), 4);
        world.check().await;
    });
}

#[test]
fn larger_member_counts_while_the_gang_is_undecided() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let small = json!({"minResource": {"cpu": "1"}, "minMember": 5});
        let mut one = pod_of("job", small.clone());
        one["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1");
        let first = world.add("first", one.clone());
        world.pass(2 * SECOND).await;
        let large = world.add("large", pod_of("job", small.clone()));
        world.pass(2 * SECOND).await;
        for number in 1..3 {
            world.set_node(&format!("n{number}"), json!({}));
        }
        world.settle().await;
        assert_eq!(world.count(&[first, large]), 2);
        assert_eq!(events(&world, "GangResized").len(), 1);
        // The gang is decided now: a member larger than its group declares is scheduled outside the
        // gang, with a warning.
        let mut three = pod_of("job", small);
        three["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3");
        world.add("three", three);
        world.settle().await;
        let warnings = events(&world, "GangIgnored");
        assert!(
            warnings[0].contains("takes 3 cores, and the group declares 1 core"),
            "{warnings:?}"
        );
        world.check().await;
    });
}

#[test]
fn undeclared_group_is_reported() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        world.add("m", pod_of("job", json!({"minMember": 1})));
        let mut other = pod_of("job", json!({"minMember": 1}));
        other["metadata"]["annotations"]["monoceros.io/task-group-name"] = json!("worker");
        world.add("o", other.clone());
        world.add("o2", other);
        world.settle().await;
        let warnings = events(&world, "GangIgnored");
        assert_eq!(warnings.len(), 1, "once for each name: {warnings:?}");
        assert!(warnings[0].contains("`worker` is not declared (declared: `w`)"), "{warnings:?}");
    });
}

#[test]
fn unreadable_declaration_is_reported() {
    in_virtual_time(async {
        for (groups, why) in [
            ("[]", "it declares no group"),
            ("{]", "expected"),
            (r#"[{"name": "w", "minMember": "four"}]"#, "invalid type"),
            (r#"[{"name": "w", "minMember": 0}]"#, "group w: minMember is 0, and is 1 at least"),
            (r#"[{"name": "w", "minMember": -1}]"#, "group w: minMember is -1, and is 1 at least"),
            (r#"[{"name": "", "minMember": 1}]"#, "a group has no name"),
            (
                r#"[{"name": "w", "minMember": 1}, {"name": "w", "minMember": 1}]"#,
                "there are two groups w",
            ),
        ] {
            let mut world = World::begun(1).await;
            let mut pod = pod_of("job", json!({}));
            pod["metadata"]["annotations"]["monoceros.io/task-groups"] = json!(groups);
            let first = world.add("p", pod.clone());
            let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.remove("monoceros.io/task-groups");
            let other = world.add("q", pod);
            world.pass(40 * SECOND).await;
            assert_eq!(world.count(&[first.clone(), other.clone()]), 0, "{groups}");
            for pod in [&first, &other] {
                let (reason, message) = &world.conditions[pod];
                assert_eq!(reason, "Unreadable");
                assert!(message.contains(why), "{groups}: {message}");
            }
            assert!(events(&world, "FailedScheduling")[0].contains(why));
            // The changed declaration is read again.
            let right =
                json!([{"name": "w", "minMember": 2, "minResource": {"cpu": "2"}}]).to_string();
            let right = json!({"metadata": {"annotations": {"monoceros.io/task-groups": right}}});
            world.change(&first, right);
            world.settle().await;
            assert_eq!(world.count(&[first, other]), 2, "{groups}");
            world.check().await;
        }
    });
}

#[test]
fn replacement_of_one_ended_pod_makes_no_new_gang() {
    in_virtual_time(async {
        let mut world = World::begun(2).await;
        let pods = job(&mut world, "job");
        world.settle().await;
        for pod in &pods[..3] {
            world.change(pod, json!({"status": {"phase": "Succeeded"}}));
        }
        delete(&mut world, &pods[3..]);
        let next = world.add("next", pod_of("job", json!({})));
        world.settle().await;
        assert!(world.node_of(&next).is_some(), "it is one more member, as any");
        for pod in &pods[..3] {
            world.remove(pod);
        }
        world.check().await;
    });
}

#[test]
fn gang_with_bindings_in_flight_is_not_ending() {
    in_virtual_time(async {
        let mut world = World::begun(3).await;
        world.binding = Binding::Hangs;
        let pods = job(&mut world, "job");
        world.settle().await;
        let node = world.bound[&pods[0]][0].clone();
        world.change(&pods[0], json!({"spec": {"nodeName": node}}));
        delete(&mut world, &pods[..1]);
        let next = world.add("next", pod_of("other", json!({})));
        world.settle().await;
        assert_eq!(world.bound.get(&next).map(Vec::len), Some(1), "it is one more member, as any");
        assert!(world.scheduler.application("default", "training.2").await.unwrap().is_none());
    });
}

#[test]
fn last_old_pod_makes_way_for_the_new_gang() {
    in_virtual_time(async {
        for ends in [json!(null), json!({"status": {"phase": "Succeeded"}})] {
            let mut world = World::begun(2).await;
            let old = job(&mut world, "old");
            world.settle().await;
            let new = job(&mut world, "new");
            delete(&mut world, &old[..3]);
            world.settle().await;
            match &ends {
                Value::Null => world.remove(&old[3]),
                status => world.change(&old[3], status.clone()),
            }
            world.remove(&old[0]);
            world.pass(5 * SECOND).await;
            assert_eq!(world.count(&new), 0, "two places are no gang: {:#?}", world.sent);
            world.remove(&old[1]);
            world.remove(&old[2]);
            world.pass(5 * SECOND).await;
            assert_eq!(world.count(&new), 4);
            world.remove(&old[3]);
            world.check().await;
        }
    });
}

#[test]
fn equal_declarations_cause_no_warning() {
    in_virtual_time(async {
        let mut world = World::begun(2).await;
        let mut bare = pod_of("none", json!({}));
        bare["metadata"].as_object_mut().unwrap().remove("ownerReferences");
        for name in ["a", "b"] {
            world.add(name, bare.clone());
        }
        // Two jobs of one set declare the same gang.
        world.add("c", pod_of("first", json!({})));
        world.add("d", pod_of("second", json!({})));
        world.settle().await;
        assert_eq!(events(&world, "GangIgnored"), [""; 0]);
        world.check().await;
    });
}

#[test]
fn id_numbers_continue_while_an_earlier_gang_exists() {
    in_virtual_time(async {
        let mut world = World::begun(2).await;
        let old = job(&mut world, "old");
        world.settle().await;
        delete(&mut world, &old);
        let second = job(&mut world, "second");
        world.settle().await;
        for pod in &second {
            world.remove(pod);
        }
        world.pass(2 * SECOND).await;
        let third = job(&mut world, "third");
        world.set_node("n2", json!({}));
        world.set_node("n3", json!({}));
        world.settle().await;
        assert_eq!(world.count(&third), 4);
        let found = world.scheduler.application("default", "training.2").await.unwrap();
        assert_eq!(found.unwrap().allocations.len(), 4);
        world.check().await;
    });
}

#[test]
fn unreadable_declaration_holds_back_a_running_application() {
    in_virtual_time(async {
        let mut world = World::new(1);
        let mut pod = pod_of("job", json!({}));
        pod["metadata"]["annotations"]["monoceros.io/task-groups"] = json!("{]");
        let runs = world.add("runs", pod.clone());
        world.change(&runs, json!({"spec": {"nodeName": "n0"}}));
        let waits = world.add("waits", pod);
        world.begin().await;
        world.pass(5 * SECOND).await;
        assert_eq!(world.node_of(&waits), None);
        assert_eq!(world.conditions[&waits].0, "Unreadable");
        world.check().await;
    });
}

#[test]
fn pod_that_ends_by_itself_is_not_reported_as_preempted() {
    in_virtual_time(async {
        for (ends, n_events) in [(json!({"status": {"phase": "Succeeded"}}), 0), (json!(null), 1)] {
            let mut world = World::new(1);
            world.budgets_hold = true;
            let queues = "partitions: [{name: default, placementrules: [{name: provided}], queues: [{name: root,
                submitacl: '*', queues: [{name: low}, {name: high, resources: {guaranteed: {vcore: 4}},
                properties: {preemption.delay: 1s}}]}]}]";
            let map =
                json!({"metadata": {"name": "monoceros-configs"}, "data": {"queues.yaml": queues}});
            world.set("monoceros-configs", map, Change::ConfigMap);
            world.begin().await;
            let wants = |queue: &str, priority: i32| {
                json!({"metadata": {"labels": {"queue": format!("root.{queue}"), "applicationId": queue}},
                    "spec": {"priority": priority, "containers":
                        [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]}})
            };
            let low = world.add("low", wants("low", 0));
            world.pass(2 * SECOND).await;
            world.add("high", wants("high", 10));
            world.pass(60 * SECOND).await;
            assert!(world.evicted.contains(&low));
            match &ends {
                Value::Null => world.remove(&low),
                status => world.change(&low, status.clone()),
            }
            world.settle().await;
            assert_eq!(events(&world, "Preempted").len(), n_events);
        }
    });
}
