//! Many pods with rules about each other: a decision of one turn counts for the next pod.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{World, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

/// A cluster with this many nodes in three zones.
async fn zones(nodes: usize) -> World {
    let mut world = World::new(0);
    for number in 0..nodes {
        let name = format!("n{number:02}");
        let zone = format!("z{}", number % 3);
        world.set_node(&name, json!({"kubernetes.io/hostname": name, "zone": zone}));
    }
    world.begin().await;
    world
}

fn add(world: &mut World, count: usize, name: &str, spec: &Value) -> Vec<String> {
    let one = |number| {
        let pod = json!({"metadata": {"labels": {"app": name}}, "spec": spec});
        world.add(&format!("{name}{number:02}"), pod)
    };
    (0..count).map(one).collect()
}

/// Counts the pods on each node.
fn on_nodes(world: &World, pods: &[String]) -> BTreeMap<String, usize> {
    let mut nodes = BTreeMap::new();
    for node in pods.iter().filter_map(|uid| world.node_of(uid)) {
        *nodes.entry(node.to_owned()).or_default() += 1;
    }
    nodes
}

#[test]
fn anti_affinity_places_one_pod_per_node() {
    in_virtual_time(async {
        let mut world = zones(10).await;
        let apart = json!({"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": "apart"}}}]}}});
        let mut pods = add(&mut world, 6, "apart", &apart);
        let others = add(&mut world, 20, "other", &json!({}));
        pods.extend((6..12).map(|i| {
            let pod = json!({"metadata": {"labels": {"app": "apart"}}, "spec": apart});
            world.add(&format!("apart{i:02}"), pod)
        }));
        world.pass(8 * SECOND).await;
        assert_eq!(world.count(&others), 20);
        let nodes = on_nodes(&world, &pods);
        assert_eq!((nodes.len(), world.count(&pods)), (10, 10), "{nodes:?}");
        world.check().await;
        let waiting = pods.iter().find(|uid| world.node_of(uid).is_none()).unwrap();
        let (_, message) = &world.conditions[waiting];
        assert!(message.contains("keeps away from"), "{message}");
        let gone = pods.iter().find(|uid| world.node_of(uid).is_some()).unwrap().clone();
        world.remove(&gone);
        world.pass(3 * SECOND).await;
        assert_eq!(world.count(&pods), 10, "another has its place");
        world.check().await;
    });
}

#[test]
fn spread_is_even_over_zones() {
    in_virtual_time(async {
        let mut world = zones(9).await;
        let spread = json!({"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "even"}}}]});
        let pods = add(&mut world, 30, "even", &spread);
        world.pass(40 * SECOND).await;
        let mut zones = BTreeMap::<String, usize>::new();
        for (node, count) in on_nodes(&world, &pods) {
            let zone = world.nodes[&node]["metadata"]["labels"]["zone"].as_str().unwrap();
            *zones.entry(zone.to_owned()).or_default() += count;
        }
        assert_eq!(zones.into_values().collect::<Vec<_>>(), [10, 10, 10]);
        world.check().await;
    });
}

#[test]
fn host_port_is_used_by_one_pod() {
    in_virtual_time(async {
        let mut world = zones(3).await;
        let port = json!({"containers": [{"name": "c", "ports": [{"hostPort": 80}],
            "resources": {"requests": {"cpu": "1"}}}]});
        let pods = add(&mut world, 5, "web", &port);
        world.pass(3 * SECOND).await;
        assert_eq!(on_nodes(&world, &pods).into_values().collect::<Vec<_>>(), [1, 1, 1]);
        world.check().await;
    });
}

#[test]
fn affinity_follows_the_zone_of_the_first_pod() {
    in_virtual_time(async {
        let mut world = zones(6).await;
        let near = json!({"affinity": {"podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "near"}}}]}}});
        let pods = add(&mut world, 10, "near", &near);
        world.pass(40 * SECOND).await;
        let nodes = on_nodes(&world, &pods);
        assert_eq!(nodes.values().copied().collect::<Vec<_>>(), [4, 4], "two nodes of a zone");
        world.check().await;
    });
}

#[test]
fn pods_of_one_second_are_ordered_by_arrival() {
    in_virtual_time(async {
        let mut world = World::begun(1).await;
        let whole = json!({"spec": {"containers":
            [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]}});
        // Their UIDs are in the opposite order.
        let [first, second] = ["z", "a"].map(|name| world.add(name, whole.clone()));
        world.settle().await;
        assert_eq!(world.node_of(&first), Some("n0"));
        assert_eq!(world.node_of(&second), None);
    });
}
