//! Random histories, after which all books agree.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use crate::side::CASES;
use crate::world::{Binding, Role, World, in_virtual_time};

#[derive(Clone, Debug)]
enum Doing {
    Add { application: usize, cores: usize },
    Remove(usize),
    Finish(usize),
    Going(usize),
    Elsewhere { pod: usize, node: usize },
    Foreign(usize),
    Cordon(usize),
    RemoveNode(usize),
    AddNode(usize),
    Binding(usize),
    Pass(u64),
    Restart,
    StandBy,
    Lead,
    Repeat(usize),
}

fn doings() -> impl Strategy<Value = Vec<Doing>> {
    let one = prop_oneof![
        8 => (0..4_usize, 1..3_usize).prop_map(|(application, cores)| Doing::Add { application, cores }),
        3 => any::<usize>().prop_map(Doing::Remove),
        1 => any::<usize>().prop_map(Doing::Finish),
        1 => any::<usize>().prop_map(Doing::Going),
        1 => (any::<usize>(), 0..4_usize).prop_map(|(pod, node)| Doing::Elsewhere { pod, node }),
        1 => (0..4_usize).prop_map(Doing::Foreign),
        1 => (0..4_usize).prop_map(Doing::Cordon),
        1 => (0..4_usize).prop_map(Doing::RemoveNode),
        2 => (0..4_usize).prop_map(Doing::AddNode),
        3 => (0..4_usize).prop_map(Doing::Binding),
        3 => (1..40_u64).prop_map(Doing::Pass),
        1 => Just(Doing::Restart),
        1 => Just(Doing::StandBy),
        2 => Just(Doing::Lead),
        1 => any::<usize>().prop_map(Doing::Repeat),
    ];
    prop::collection::vec(one, 1..60)
}

async fn act(world: &mut World, doing: &Doing, number: usize) {
    let pick = |world: &World, at: usize| {
        let count = world.pods.len().max(1);
        world.pods.keys().nth(at % count).cloned()
    };
    match doing {
        Doing::Add { application, cores } => {
            let labels = json!({"applicationId": format!("app-{application}")});
            let containers = json!([{"name": "c",
                "resources": {"requests": {"cpu": cores.to_string()}}}]);
            world.add(
                &format!("p{number:03}"),
                json!({"metadata": {"labels": labels}, "spec": {"containers": containers}}),
            );
        }
        Doing::Remove(at) => {
            if let Some(uid) = pick(world, *at) {
                world.remove(&uid);
            }
        }
        Doing::Finish(at) => {
            if let Some(uid) = pick(world, *at) {
                world.change(&uid, json!({"status": {"phase": "Succeeded"}}));
                world.pods.remove(&uid);
            }
        }
        Doing::Going(at) => {
            if let Some(uid) = pick(world, *at) {
                world.change(
                    &uid,
                    json!({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}}),
                );
            }
        }
        Doing::Elsewhere { pod, node } => {
            if let Some(uid) = pick(world, *pod)
                && world.node_of(&uid).is_none()
            {
                world.change(&uid, json!({"spec": {"nodeName": format!("n{node}")}}));
            }
        }
        Doing::Foreign(node) => {
            let spec = json!({"schedulerName": "other", "nodeName": format!("n{node}")});
            world.add(&format!("f{number:03}"), json!({"spec": spec}));
        }
        Doing::Cordon(node) => {
            let name = format!("n{node}");
            if let Some(mut node) = world.nodes.get(&name).cloned() {
                let is_closed = node["spec"]["unschedulable"] == json!(true);
                node["spec"]["unschedulable"] = json!(!is_closed);
                world.change_node(&name, node);
            }
        }
        Doing::RemoveNode(node) => world.remove_node(&format!("n{node}")),
        Doing::AddNode(node) => {
            let name = format!("n{node}");
            if !world.nodes.contains_key(&name) {
                world.set_node(&name, json!({}));
            }
        }
        Doing::Binding(way) => {
            let ways = [Binding::Works, Binding::Fails, Binding::Lost, Binding::Hangs];
            if ways[*way] == Binding::Hangs {
                world.binding = Binding::Hangs;
            } else {
                world.finish_bindings(ways[*way]).await;
            }
        }
        Doing::Pass(seconds) => world.pass(Duration::from_secs(*seconds)).await,
        Doing::Restart => world.begin().await,
        Doing::StandBy => {
            world.settle().await;
            world.stand_by().await;
        }
        Doing::Lead if world.role == Role::Leads => {}
        Doing::Lead => world.lead().await,
        Doing::Repeat(at) => {
            if let Some(uid) = pick(world, *at) {
                world.deliver(&uid);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    #[test]
    fn books_agree_and_fitting_pods_are_bound(doings in doings()) {
        in_virtual_time(async {
            let mut world = World::begun(3).await;
            for (number, doing) in doings.iter().enumerate() {
                act(&mut world, doing, number).await;
                if number % 3 == 0 {
                    world.settle().await;
                }
            }
            world.finish_bindings(Binding::Works).await;
            if world.role == Role::StandsBy {
                world.lead().await;
            }
            for number in 0..4 {
                let name = format!("n{number}");
                if let Some(mut node) = world.nodes.get(&name).cloned() {
                    node["spec"]["unschedulable"] = json!(false);
                    world.change_node(&name, node);
                }
            }
            world.pass(Duration::from_secs(150)).await;
            world.check().await;
            // No pod waits that would fit.
            let used = |name: &str| -> u64 {
                let on = world.pods.values().filter(|pod| pod["spec"]["nodeName"] == *name);
                on.map(cores).sum()
            };
            let free: Vec<_> = world.nodes.keys().map(|name| 4_u64.saturating_sub(used(name))).collect();
            for (uid, pod) in &world.pods {
                let waits = pod["spec"].get("nodeName").is_none()
                    && pod["metadata"].get("deletionTimestamp").is_none();
                if waits {
                    let why = world.explain(uid).await;
                    let fits = free.iter().any(|free| *free >= cores(pod));
                    assert!(!fits, "{uid} fits: {free:?}: {why}");
                }
            }
        });
    }
}

fn cores(pod: &serde_json::Value) -> u64 {
    let cpu = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].as_str();
    cpu.unwrap().parse().unwrap()
}
