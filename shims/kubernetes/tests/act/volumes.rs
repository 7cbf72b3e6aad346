//! Volumes that are provided before a binding.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use monoceros_kubernetes::shim::{Key, Outcome, SharedScene, open};
use serde_json::{Value, json};

use super::server::{Answer, Bench, in_virtual_time, ok, pass, pod, read, settings};

const SELECTED: &str = "volume.kubernetes.io/selected-node";

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

fn set_claim(scene: &SharedScene, name: &str, more: Value) {
    let mut claim = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"},
        "spec": {"storageClassName": "disks", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}});
    merge(&mut claim, more);
    open(scene).set_claim(&format!("ns/{name}"), Some(read(claim)));
}

fn set_volume(scene: &SharedScene, name: &str, more: Value) {
    let mut volume = json!({"metadata": {"name": name, "resourceVersion": "5"},
        "spec": {"storageClassName": "disks", "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"}},
        "status": {"phase": "Available"}});
    merge(&mut volume, more);
    open(scene).set_volume(name, Some(read(volume)));
}

/// Binds a claim, as the volume controller does.
fn bind_claim(scene: &SharedScene, name: &str, volume: &str) {
    let kept = json!({"namespace": "ns", "name": name, "uid": name});
    set_volume(
        scene,
        volume,
        json!({"metadata": {"resourceVersion": "9"}, "spec": {"claimRef": kept},
            "status": {"phase": "Bound"}}),
    );
    set_claim(
        scene,
        name,
        json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            "resourceVersion": "9"}, "spec": {"volumeName": volume}}),
    );
}

fn mounting(name: &str, claims: &[&str]) -> Value {
    let mut pod = pod(name);
    let volumes = claims
        .iter()
        .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}));
    pod["spec"] = json!({"volumes": volumes.collect::<Vec<_>>()});
    pod
}

/// Starts workers in a cluster with a class that provisions volumes for consumers.
fn bench(answers: impl Fn(&super::server::Call) -> Answer + Send + Sync + 'static) -> Bench {
    let bench = Bench::new(settings(), answers);
    let class = json!({"metadata": {"name": "disks"}, "provisioner": "example.com/disks",
        "volumeBindingMode": "WaitForFirstConsumer"});
    open(&bench.scene).set_class("disks", Some(read(class)));
    bench
}

async fn not_bound(bench: &mut Bench, within: Duration) -> String {
    match bench.outcome_within(within).await {
        Some(Outcome::NotBound(_, why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn reserves_the_volume_and_binds_once_the_claim_is_bound() {
    in_virtual_time(async {
        let mut bench = bench(|_| ok());
        set_claim(&bench.scene, "c", json!({}));
        set_volume(&bench.scene, "pv", json!({}));
        bench.bind(mounting("p", &["c"]));
        assert_eq!(bench.outcome_within(Duration::from_secs(60)).await, None);
        let calls = bench.calls();
        let [call] = calls.as_slice() else { panic!("{calls:?}") };
        assert_eq!((&*call.method, &*call.path), ("PATCH", "/api/v1/persistentvolumes/pv"));
        let expected = json!({
            "metadata": {"resourceVersion": "5",
                "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
            "spec": {"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": "ns", "name": "c", "uid": "c"}}});
        assert_eq!(call.body, expected);
        bind_claim(&bench.scene, "c", "pv");
        assert_eq!(bench.outcome().await, Outcome::Bound(Key::from("p")));
        assert_eq!(bench.sent("POST", "/p/binding").len(), 1);
    });
}

#[test]
fn completes_the_reservation_of_a_user() {
    in_virtual_time(async {
        let bench = bench(|_| ok());
        set_claim(&bench.scene, "c", json!({}));
        let kept = json!({"namespace": "ns", "name": "c"});
        set_volume(&bench.scene, "pv", json!({"spec": {"claimRef": kept}}));
        bench.bind(mounting("p", &["c"]));
        pass(Duration::from_secs(5)).await;
        let calls = bench.calls();
        let [call] = calls.as_slice() else { panic!("{calls:?}") };
        assert_eq!(call.body["spec"]["claimRef"]["uid"], "c");
        assert_eq!(call.body["metadata"], json!({"resourceVersion": "5"}));
    });
}

#[test]
fn does_not_repeat_an_earlier_write() {
    in_virtual_time(async {
        let mut bench = bench(|_| ok());
        let selected = json!({"metadata": {"annotations": {SELECTED: "n1"}}});
        set_claim(&bench.scene, "made", selected);
        set_claim(&bench.scene, "kept", json!({}));
        let kept = json!({"namespace": "ns", "name": "kept", "uid": "kept"});
        set_volume(&bench.scene, "pv", json!({"spec": {"claimRef": kept}}));
        bench.bind(mounting("p", &["made", "kept"]));
        assert_eq!(bench.outcome_within(Duration::from_secs(60)).await, None, "it waits");
        assert_eq!(bench.calls().len(), 0);
    });
}

#[test]
fn does_not_take_a_volume_given_to_another_claim() {
    in_virtual_time(async {
        let asked = AtomicU32::new(0);
        let mut bench = bench(move |call| {
            let times = asked.fetch_add(1, Ordering::Relaxed);
            assert_eq!((&*call.method, times), ("PATCH", times.min(1)));
            Answer::Refuses(409, "the object has been modified")
        });
        set_claim(&bench.scene, "c", json!({}));
        set_volume(&bench.scene, "pv", json!({}));
        bench.bind(mounting("p", &["c"]));
        pass(Duration::from_millis(1)).await;
        let other = json!({"namespace": "ns", "name": "another", "uid": "x"});
        let changed = json!({"metadata": {"resourceVersion": "6"}, "spec": {"claimRef": other}});
        set_volume(&bench.scene, "pv", changed);
        let why = not_bound(&mut bench, Duration::from_secs(5)).await;
        assert_eq!(why, "the volume `pv` is kept for another claim meanwhile");
    });
}

#[test]
fn pods_with_a_shared_claim_wait_for_one_volume() {
    in_virtual_time(async {
        let patched = AtomicU32::new(0);
        let mut bench = bench(move |call| match call.method.as_str() {
            "PATCH" if patched.fetch_add(1, Ordering::Relaxed) > 0 => {
                Answer::Refuses(409, "the object has been modified")
            }
            _ => ok(),
        });
        set_claim(&bench.scene, "c", json!({}));
        bench.bind(mounting("p", &["c"]));
        bench.bind(mounting("q", &["c"]));
        pass(Duration::from_millis(50)).await;
        assert_eq!(bench.sent("PATCH", "/c").len(), 2);
        let selected = json!({"metadata": {"annotations": {SELECTED: "n1"},
            "resourceVersion": "2"}});
        set_claim(&bench.scene, "c", selected);
        assert_eq!(bench.outcome_within(Duration::from_secs(10)).await, None);
        assert_eq!(bench.sent("PATCH", "/c").len(), 2, "it stands there");
        bind_claim(&bench.scene, "c", "new");
        let bound = [bench.outcome().await, bench.outcome().await];
        assert!(bound.iter().all(|one| matches!(one, Outcome::Bound(_))), "{bound:?}");
    });
}

#[test]
fn wait_ends_when_the_provisioner_gives_up() {
    in_virtual_time(async {
        let mut bench = bench(|_| ok());
        set_claim(&bench.scene, "c", json!({}));
        bench.bind(mounting("p", &["c"]));
        // The watch is late: it still has the claim of before the write.
        assert_eq!(bench.outcome_within(Duration::from_secs(20)).await, None);
        let patch = &bench.sent("PATCH", "/namespaces/ns/persistentvolumeclaims/c")[0];
        let expected =
            json!({"metadata": {"resourceVersion": "1", "annotations": {SELECTED: "n1"}}});
        assert_eq!(patch.body, expected);
        let version = |version: &str, selected: Option<&str>| json!({"metadata": {"resourceVersion": version, "annotations": {SELECTED: selected}}});
        set_claim(&bench.scene, "c", version("2", Some("n1")));
        assert_eq!(bench.outcome_within(Duration::from_secs(20)).await, None);
        set_claim(&bench.scene, "c", json!({"metadata": {"resourceVersion": "3"}}));
        let why = not_bound(&mut bench, Duration::from_secs(1)).await;
        assert_eq!(why, "no volume can be made for the claim `c` on the node");
        assert_eq!(bench.sent("POST", "/binding").len(), 0);
    });
}

#[test]
fn reserved_volume_needs_no_node_on_its_claim() {
    in_virtual_time(async {
        let mut bench = bench(|_| ok());
        set_claim(&bench.scene, "c", json!({}));
        set_volume(&bench.scene, "pv", json!({}));
        bench.bind(mounting("p", &["c"]));
        pass(Duration::from_secs(1)).await;
        let kept = json!({"namespace": "ns", "name": "c", "uid": "c"});
        let written = json!({"metadata": {"resourceVersion": "6"}, "spec": {"claimRef": kept}});
        set_volume(&bench.scene, "pv", written);
        set_claim(&bench.scene, "c", json!({"metadata": {"resourceVersion": "2"}}));
        assert_eq!(bench.outcome_within(Duration::from_secs(60)).await, None);
        // A user removes the reservation.
        set_volume(&bench.scene, "pv", json!({"metadata": {"resourceVersion": "7"}}));
        let why = not_bound(&mut bench, Duration::from_secs(1)).await;
        assert_eq!(why, "the volume `pv` is not kept for the claim `c` any more");
    });
}

#[test]
fn does_not_bind_if_the_node_does_not_reach_the_volume() {
    in_virtual_time(async {
        let mut bench = bench(|_| ok());
        set_claim(&bench.scene, "c", json!({}));
        bench.bind(mounting("p", &["c"]));
        pass(Duration::from_secs(1)).await;
        bind_claim(&bench.scene, "c", "new");
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "host", "operator": "In", "values": ["n2"]}]}]}});
        set_volume(&bench.scene, "new", json!({"spec": {"nodeAffinity": affinity}}));
        let why = not_bound(&mut bench, Duration::from_secs(1)).await;
        assert_eq!(why, "the volume of the claim `c` cannot be reached from the node");
        assert_eq!(bench.sent("POST", "/binding").len(), 0);
    });
}

#[test]
fn does_not_bind_without_a_chosen_volume() {
    in_virtual_time(async {
        let mut bench = bench(|_| ok());
        let none = json!({"metadata": {"name": "disks"}, "volumeBindingMode": "WaitForFirstConsumer",
            "provisioner": "kubernetes.io/no-provisioner"});
        open(&bench.scene).set_class("disks", Some(read(none)));
        set_claim(&bench.scene, "one", json!({}));
        set_claim(&bench.scene, "two", json!({}));
        set_volume(&bench.scene, "pv", json!({}));
        bench.bind(mounting("p", &["one", "two"]));
        let why = not_bound(&mut bench, Duration::from_secs(1)).await;
        assert_eq!(why, "the claim `one` has no volume, and none was chosen for it");
        assert_eq!(bench.calls().len(), 0);
    });
}

#[test]
fn waiting_for_volumes_does_not_block_bindings() {
    in_virtual_time(async {
        let mut bench = bench(|_| ok());
        for number in 0..200 {
            let claim = format!("c{number}");
            set_claim(&bench.scene, &claim, json!({}));
            bench.bind(mounting(&format!("w{number}"), &[&claim]));
        }
        pass(Duration::from_secs(1)).await;
        bench.bind(pod("plain"));
        let outcome = bench.outcome_within(Duration::from_secs(1)).await;
        assert_eq!(outcome, Some(Outcome::Bound(Key::from("plain"))));
        set_claim(&bench.scene, "bound", json!({}));
        bind_claim(&bench.scene, "bound", "pv");
        bench.bind(mounting("has", &["bound"]));
        let outcome = bench.outcome_within(Duration::from_secs(1)).await;
        assert_eq!(outcome, Some(Outcome::Bound(Key::from("has"))));
        // In the end all of them are given up.
        let why = not_bound(&mut bench, Duration::from_secs(601)).await;
        assert!(why.ends_with("was not bound within 600s"), "{why}");
        for _ in 1..200 {
            not_bound(&mut bench, Duration::from_secs(1)).await;
        }
    });
}

#[test]
fn wait_ends_when_pod_claim_or_node_is_gone() {
    for (end, expected) in [
        ("pod", "the pod is not to run on n1 any more"),
        ("node", "the node n1 is gone"),
        ("claim", "the claim `c` is not there"),
    ] {
        in_virtual_time(async {
            let mut bench = bench(|_| ok());
            set_claim(&bench.scene, "c", json!({}));
            bench.bind(mounting("p", &["c"]));
            pass(Duration::from_secs(60)).await;
            {
                let mut scene = open(&bench.scene);
                match end {
                    "pod" => scene.clear("p"),
                    "node" => scene.remove_node("n1"),
                    _ => scene.set_claim("ns/c", None),
                }
            }
            assert_eq!(not_bound(&mut bench, Duration::from_secs(1)).await, expected);
        });
    }
}

#[test]
fn cancelled_binding_stops_waiting_for_volumes() {
    in_virtual_time(async {
        let mut bench = bench(|_| ok());
        set_claim(&bench.scene, "c", json!({}));
        set_volume(&bench.scene, "pv", json!({}));
        let called_off = bench.bind(mounting("p", &["c"]));
        assert_eq!(bench.outcome_within(Duration::from_secs(60)).await, None);
        called_off.cancel();
        let why = not_bound(&mut bench, Duration::from_secs(1)).await;
        assert_eq!(why, "the pod is to make room");
        bind_claim(&bench.scene, "c", "pv");
        pass(Duration::from_secs(10)).await;
        assert_eq!(bench.sent("POST", "/p/binding").len(), 0);
    });
}
