//! Mirrors and forks by themselves.

use serde_json::{Value, json};

use super::*;
use crate::objects::{PersistentVolume, StorageClass};

fn from<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).expect("an object"))
}

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": "1",
            "labels": {"kubernetes.io/hostname": name, "zone": "a", "unread": "label"},
            "annotations": {"unread": "annotation"}},
        "status": {"allocatable": {"cpu": "4"}}})
}

fn pod(name: &str, spec: &Value) -> Arc<Pod> {
    let mut pod = json!({"metadata": {"name": name, "namespace": "ns", "uid": name,
            "labels": {"app": "web", "unread": name}, "annotations": {"unread": name},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Job", "name": "unread", "uid": "u",
                "controller": true}]},
        "spec": {"schedulerName": "unread", "priority": 7,
            "containers": [{"name": "unread", "image": "unread", "env": [{"name": "unread"}],
                "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    from(pod)
}

fn apart() -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}})
}

fn scene() -> Scene {
    let mut scene = Scene::default();
    for name in ["n1", "n2"] {
        scene.set_node(from(node(name)));
    }
    scene
}

fn mirror_of(scene: Scene) -> Mirror {
    mirror(&Arc::new(Mutex::new(scene)), false)()
}

fn fork(scene: Scene) -> Fork {
    Fork::from_mirror(&mirror_of(scene)).unwrap()
}

fn args(key: &str, node: &str) -> si::PredicatesArgs {
    let (allocation_key, node_id) = (key.to_owned(), node.to_owned());
    si::PredicatesArgs { allocation_key, node_id, ..si::PredicatesArgs::default() }
}

fn passes(fork: &Fork, key: &str) -> [bool; 2] {
    ["n1", "n2"].map(|node| fork.predicates(&args(key, node)).is_ok())
}

/// A claim of a class that waits for a consumer.
fn claim(name: &str, class: &str, owner: Option<&str>) -> Arc<PersistentVolumeClaim> {
    let owners = owner.map(|uid| {
        json!([{"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid, "controller": true}])
    });
    from(
        json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "ownerReferences": owners},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}),
    )
}

fn with_classes(mut scene: Scene) -> Scene {
    for (name, provisioner) in [("local", "kubernetes.io/no-provisioner"), ("made", "csi")] {
        let class: Arc<StorageClass> = from(json!({"metadata": {"name": name},
            "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}));
        scene.set_class(name, Some(class));
    }
    let volume: Arc<PersistentVolume> = from(json!({"metadata": {"name": "pv"},
        "spec": {"storageClassName": "local", "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Available"}}));
    scene.set_volume("pv", Some(volume));
    scene
}

#[test]
fn mirror_has_only_what_predicates_read() {
    let mut scene = scene();
    scene.expect("asked", pod("asked", &apart()));
    scene.settle("runs", "n1", &pod("runs", &json!({})));
    let text = serde_json::to_string(&mirror_of(scene)).unwrap();
    assert!(!text.contains("unread"), "{text}");
    assert!(text.contains(r#""labels":{"app":"web"}"#), "{text}");
}

/// Pods of a template are rows. The bound leaves room for UIDs and long names of nodes.
#[test]
fn running_pod_takes_a_hundred_bytes() {
    const PODS: usize = 1_000;
    let mut scene = scene();
    for number in 0..PODS {
        let key = format!("00000000-0000-0000-0000-{number:012}");
        scene.settle(&key, "ip-10-0-123-123.eu-central-1.compute.internal", &pod(&key, &json!({})));
    }
    let bytes = serde_json::to_string(&mirror_of(scene)).unwrap().len();
    assert!((60 * PODS..100 * PODS).contains(&bytes), "{} bytes", bytes / PODS);
}

#[test]
fn equal_scenes_have_equal_mirrors() {
    let names = ["p1", "p2", "p3", "p4", "p5"];
    let of = |names: &mut dyn Iterator<Item = &str>| {
        let mut scene = scene();
        for name in names {
            scene.settle(name, "n1", &pod(name, &apart()));
            scene.expect(&format!("{name}-asked"), pod(name, &json!({"hostNetwork": true})));
        }
        mirror_of(scene)
    };
    let mirror = of(&mut names.into_iter());
    assert_eq!(mirror, of(&mut names.into_iter().rev()));
    // What is read from it is written alike.
    let image = form::read(&mirror).unwrap().image;
    assert_eq!(form::write(image, false), mirror);
}

#[test]
fn copies_keep_away_from_pods_that_run() {
    let mut scene = scene();
    scene.settle("runs", "n1", &pod("runs", &apart()));
    let fork = fork(scene);
    fork.created("copy", "runs");
    assert_eq!(passes(&fork, "copy"), [false, true]);
    fork.node_added("n3", "n1");
    assert_eq!(fork.predicates(&args("copy", "n3")), Ok(()));
    // The engine tries nodes that are new by itself.
    assert!(!fork.take_unblocked());
    fork.ended("runs");
    assert!(fork.take_unblocked());
    assert_eq!(passes(&fork, "copy"), [true, true]);
    fork.started("copy", "n1");
    fork.created("third", "runs");
    assert_eq!(passes(&fork, "third"), [false, true]);
    fork.node_removed("n2");
    assert_eq!(passes(&fork, "third"), [false, false]);
    assert_eq!(fork.unknown_asks(), 0);
}

#[test]
fn ask_without_a_pod_passes_and_is_counted() {
    let fork = fork(scene());
    assert_eq!(passes(&fork, "unknown"), [true, true]);
    let preemption = si::PreemptionPredicatesArgs {
        allocation_key: "unknown".to_owned(),
        node_id: "n1".to_owned(),
        preempt_allocation_keys: vec!["victim".to_owned()],
        start_index: 0,
    };
    assert!(fork.preemption_predicates(&preemption).success);
    assert_eq!(fork.unknown_asks(), 1);
}

#[test]
fn volume_stays_bound_to_the_claim_of_a_started_pod() {
    let mut scene = with_classes(scene());
    for name in ["c1", "c2"] {
        scene.set_claim(&format!("ns/{name}"), Some(claim(name, "local", None)));
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}]);
        scene.expect(name, pod(name, &json!({"volumes": volumes})));
    }
    scene.assume("c1", "n1");
    let fork = fork(scene);
    assert_eq!(passes(&fork, "c2"), [false, false]);
    fork.started("c1", "n1");
    let bound = open(fork.scene()).claim("ns/c1").unwrap();
    assert!(bound.is_bound() && bound.volume() == Some("pv"), "{bound:?}");
    fork.ended("c1");
    assert_eq!(passes(&fork, "c2"), [false, false]);
    fork.created("again", "c1");
    assert_eq!(passes(&fork, "again"), [true, true]);
}

#[test]
fn copy_of_a_pod_gets_claims_of_its_own() {
    let mut scene = with_classes(scene());
    scene.set_claim("ns/p-scratch", Some(claim("p-scratch", "made", Some("p"))));
    let scratch = json!({"volumes": [{"name": "scratch", "ephemeral": {}}]});
    scene.expect("p", pod("p", &scratch));
    scene.assume("p", "n1");
    let fork = fork(scene);
    fork.started("p", "n1");
    // Its volume is made for that node.
    assert_eq!(
        open(fork.scene()).claim("ns/p-scratch").unwrap().annotation(SELECTED_NODE),
        Some("n1")
    );
    fork.ended("p");
    fork.created("q", "p");
    assert_eq!(passes(&fork, "q"), [true, true]);
    assert!(open(fork.scene()).claim("ns/q-scratch").is_some());
}

#[test]
fn mirror_of_another_form_is_refused() {
    let unknown = Mirror { parts: vec![json!({"planets": []})] };
    assert!(Fork::from_mirror(&unknown).unwrap_err().to_string().contains("planets"));
    let lacking = Mirror { parts: vec![json!({"running": [["p", 3, "n1"]]})] };
    let why = Fork::from_mirror(&lacking).unwrap_err().to_string();
    assert_eq!(why, "the mirror of the cluster cannot be read: it has no template 3");
}
