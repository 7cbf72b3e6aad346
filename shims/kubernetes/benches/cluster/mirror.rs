//! Cost of a mirror: the copy in the partition's thread, its text, and a fork of it.

use std::sync::{Arc, Mutex};

use monoceros_kubernetes::fork::{Fork, mirror};
use monoceros_kubernetes::objects::{Node, Pod};
use monoceros_kubernetes::predicates::Scene;
use serde_json::json;
use tokio::time::Instant;

const NODES: usize = 10_000;
const RUNNING: usize = 100_000;
const PENDING: usize = 50_000;
/// Pods of a controller are equal but for their names.
const CONTROLLERS: usize = 500;

/// A pod that keeps to its zone, and away from others of its controller where it can.
fn pod(number: usize) -> Arc<Pod> {
    let app = format!("app-{}", number % CONTROLLERS);
    let spread = json!([{"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}}}]);
    let pod = json!({
        "metadata": {"name": format!("{app}-{number}"), "namespace": "bench",
            "uid": format!("00000000-0000-0000-0000-{number:012}"),
            "labels": {"app": app, "apps.kubernetes.io/pod-index": number.to_string()}},
        "spec": {"topologySpreadConstraints": spread,
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                "effect": "NoExecute", "tolerationSeconds": 300}],
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "100m"}}}]},
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn scene() -> Scene {
    let mut scene = Scene::default();
    for number in 0..NODES {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": format!("n{number}"),
            "labels": {"kubernetes.io/hostname": format!("n{number}"),
                "topology.kubernetes.io/zone": format!("z{}", number % 3)}}}))
        .unwrap();
        scene.set_node(Arc::new(node));
    }
    for number in 0..RUNNING {
        let pod = pod(number);
        let key = pod.metadata.uid.clone().unwrap();
        scene.settle(&key, &format!("n{}", number % NODES), &pod);
    }
    for number in RUNNING..RUNNING + PENDING {
        let pod = pod(number);
        let key = pod.metadata.uid.clone().unwrap();
        scene.expect(&key, pod);
    }
    scene
}

/// Measures each part.
pub fn run() {
    let scene = Arc::new(Mutex::new(scene()));
    let begun = Instant::now();
    let make = mirror(&scene, false);
    let copied = begun.elapsed();
    let begun = Instant::now();
    let mirror = make();
    let built = begun.elapsed();
    let begun = Instant::now();
    let fork = Fork::from_mirror(&mirror).unwrap();
    let forked = begun.elapsed();
    let bytes = serde_json::to_string(&mirror).unwrap().len();
    println!("mirror: {RUNNING} running and {PENDING} pending pods on {NODES} nodes");
    println!("  {:.1} ms to copy, which the partition waits for", copied.as_secs_f64() * 1e3);
    println!(
        "  {:.0} ms to write, {:.0} ms to fork",
        built.as_secs_f64() * 1e3,
        forked.as_secs_f64() * 1e3
    );
    println!("  {} bytes per pod, {} KiB in all", bytes / (RUNNING + PENDING), bytes >> 10);
    drop(fork);
}
