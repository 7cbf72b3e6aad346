//! Claims and volumes: tables of the documented semantics, and random volumes against a full
//! search.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::VolumeChoice;
use super::super::stock::{Stock, reaches};
use super::{Play, Scene, from, node, pod};
use crate::objects::{PersistentVolume, PersistentVolumeClaim};

fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

/// A class that waits for a consumer, unless `more` differs.
fn class(scene: &mut Scene, name: &str, provisioner: &str, more: &Value) {
    let mut class = json!({"metadata": {"name": name}, "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer"});
    merge(&mut class, more);
    scene.set_class(name, Some(from(class)));
}

fn in_zone(zone: &str) -> Value {
    json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]}}}})
}

/// A volume of 10 Gi of class `local` that all nodes reach, unless `more` differs.
fn volume(scene: &mut Scene, name: &str, more: &Value) {
    let mut volume = json!({"metadata": {"name": name}, "status": {"phase": "Available"},
        "spec": {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local"}});
    merge(&mut volume, more);
    scene.set_volume(name, Some(from(volume)));
}

/// A claim of 1 Gi of class `local` without a volume, unless `more` differs.
fn claim(scene: &mut Scene, name: &str, more: &Value) {
    let mut claim = json!({"metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"}});
    merge(&mut claim, more);
    scene.set_claim(&format!("ns/{name}"), Some(from(claim)));
}

fn bound_to(volume: &str) -> Value {
    json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": volume}, "status": {"phase": "Bound"}})
}

fn mounting(claims: &[&str]) -> Value {
    let volumes = claims.iter().enumerate().map(|(number, claim)| {
        json!({"name": format!("v{number}"), "persistentVolumeClaim": {"claimName": claim}})
    });
    json!({"volumes": volumes.collect::<Vec<_>>()})
}

fn existing(claim: &str, volume: &str) -> VolumeChoice {
    VolumeChoice::Existing { claim: claim.to_owned(), volume: volume.to_owned() }
}

fn made(claim: &str) -> VolumeChoice {
    VolumeChoice::Provisioned { claim: claim.to_owned() }
}

/// A scene with class `local`, which provisions nothing, and class `made`.
fn play() -> Play {
    let mut play = Play::new();
    class(&mut play.0, "local", "kubernetes.io/no-provisioner", &json!({}));
    class(&mut play.0, "made", "csi", &json!({}));
    play
}

impl Play {
    fn mounting(&mut self, claims: &[&str]) -> Vec<&'static str> {
        self.passing(&json!({}), &mounting(claims))
    }

    /// Places a pod that mounts these claims.
    fn place(&mut self, key: &str, node: &str, claims: &[&str]) -> Vec<VolumeChoice> {
        self.0.expect(key, pod(key, &json!({}), &mounting(claims)));
        assert_eq!(self.0.check(key, node), Ok(()));
        self.0.assume(key, node);
        self.0.volume_choices(key)
    }
}

#[test]
fn volumes_decide_where_their_pods_run() {
    let mut play = play();
    let scene = &mut play.0;
    let zone_b = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}]);
    class(scene, "zoned", "csi", &json!({"allowedTopologies": zone_b}));
    class(scene, "soon", "csi", &json!({"volumeBindingMode": "Immediate"}));
    volume(scene, "pv-a", &in_zone("a"));
    volume(scene, "pv-b", &in_zone("b"));
    let of_class = |class: &str| json!({"spec": {"storageClassName": class}});
    claim(scene, "bound", &bound_to("pv-b"));
    claim(scene, "astray", &bound_to("pv-z"));
    for class in ["made", "zoned", "soon", "nowhere"] {
        claim(scene, class, &of_class(class));
    }
    claim(scene, "local", &json!({"spec": {"selector": {"matchLabels": {"no": "such"}}}}));
    claim(scene, "large", &json!({"spec": {"resources": {"requests": {"storage": "50Gi"}}}}));
    claim(scene, "shared", &json!({"spec": {"accessModes": ["ReadWriteMany"]}}));
    claim(scene, "raw", &json!({"spec": {"volumeMode": "Block"}}));
    let none_left =
        |claim| format!("no volume that the claim `{claim}` could have is left for the node");
    for (name, nodes, reason) in [
        (
            "bound",
            vec!["b1"],
            "the volume of the claim `bound` cannot be reached from the node".to_owned(),
        ),
        ("astray", vec![], "the volume of the claim `astray` is not there".to_owned()),
        ("made", vec!["a1", "a2", "b1"], String::new()),
        ("zoned", vec!["b1"], "the storage class `zoned` makes no volumes for the node".to_owned()),
        ("local", vec![], none_left("local")),
        ("large", vec![], none_left("large")),
        ("shared", vec![], none_left("shared")),
        ("raw", vec![], none_left("raw")),
        ("soon", vec![], "the claim `soon` has no volume yet".to_owned()),
        (
            "nowhere",
            vec![],
            "the storage class `nowhere` of the claim `nowhere` is not there".to_owned(),
        ),
        ("none", vec![], "the claim `none` is not there".to_owned()),
    ] {
        assert_eq!(play.mounting(&[name]), nodes, "{name}");
        if !nodes.contains(&"a1") {
            assert_eq!(play.reason(&mounting(&[name]), "a1"), reason);
        }
    }
}

#[test]
fn volume_is_reserved_for_one_claim() {
    let mut play = play();
    volume(&mut play.0, "pv-a", &in_zone("a"));
    claim(&mut play.0, "one", &json!({}));
    claim(&mut play.0, "two", &json!({}));
    assert_eq!(play.place("p1", "a1", &["one"]), [existing("one", "pv-a")]);
    assert_eq!(play.mounting(&["two"]), [""; 0]);
    play.0.forget("p1", "a1");
    assert_eq!(play.mounting(&["two"]), ["a1", "a2"]);
    assert_eq!(play.0.check_books(), [""; 0]);
}

#[test]
fn reservation_ends_with_another_volume_or_the_last_pod() {
    let mut play = play();
    volume(&mut play.0, "pv-a", &json!({}));
    claim(&mut play.0, "one", &json!({}));
    claim(&mut play.0, "two", &json!({}));
    play.place("p1", "a1", &["one"]);
    play.0.settle("p1", "a1", &pod("p1", &json!({"new": "label"}), &mounting(&["one"])));
    assert_eq!(play.mounting(&["two"]), [""; 0], "the watch of pods is ahead of the others");
    claim(&mut play.0, "one", &bound_to("pv-b"));
    assert_eq!(play.mounting(&["two"]), ["a1", "a2", "b1"]);
    assert_eq!(play.0.check_books(), [""; 0]);
    play.0.clear("p1");
    assert_eq!(play.0.check_books(), [""; 0]);
}

#[test]
fn claims_of_one_pod_get_a_volume_each() {
    let size = |size: &str| json!({"spec": {"capacity": {"storage": size}}});
    let wants = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    let mut play = play();
    claim(&mut play.0, "large", &wants("5Gi"));
    claim(&mut play.0, "small", &wants("1Gi"));
    volume(&mut play.0, "pv-10", &size("10Gi"));
    assert_eq!(play.mounting(&["large", "small"]), [""; 0], "one volume for two claims");
    volume(&mut play.0, "pv-4", &size("4Gi"));
    volume(&mut play.0, "pv-2", &size("2Gi"));
    let chosen = [existing("small", "pv-2"), existing("large", "pv-10")];
    assert_eq!(play.place("p", "a1", &["large", "small"]), chosen);
    play.0.clear("p");
    // Smallest first; otherwise the small claim would get the one of 10 Gi.
    play.0.set_volume("pv-2", None);
    play.0.set_volume("pv-4", None);
    volume(&mut play.0, "pv-10b", &size("10Gi"));
    let chosen = [existing("small", "pv-10"), existing("large", "pv-10b")];
    assert_eq!(play.place("p", "a1", &["large", "small"]), chosen);
    // A pod placed although not all claims can have a volume gets none.
    play.0.expect("q", pod("q", &json!({}), &mounting(&["large", "none"])));
    play.0.assume("q", "a1");
    assert_eq!(play.0.volume_choices("q"), []);
    assert_eq!(play.0.check_books(), [""; 0]);
}

#[test]
fn pods_with_a_shared_claim_follow_its_volume() {
    let mut play = play();
    claim(&mut play.0, "made", &json!({"spec": {"storageClassName": "made"}}));
    assert_eq!(play.place("p1", "a1", &["made"]), [made("made")]);
    assert_eq!(play.mounting(&["made"]), ["a1"]);
    let why = "the volume of the claim `made` is being made for another node";
    assert_eq!(play.reason(&mounting(&["made"]), "a2"), why);
    assert_eq!(play.place("p2", "a1", &["made"]), [made("made")]);
    play.0.clear("p1");
    assert_eq!(play.mounting(&["made"]), ["a1"], "one of them is there still");
    play.0.clear("p2");
    assert_eq!(play.mounting(&["made"]), ["a1", "a2", "b1"]);

    // An existing volume is reached from more than one node.
    volume(&mut play.0, "pv-a", &in_zone("a"));
    volume(&mut play.0, "pv-b", &in_zone("b"));
    claim(&mut play.0, "local", &json!({}));
    assert_eq!(play.place("p1", "a1", &["local"]), [existing("local", "pv-a")]);
    assert_eq!(play.mounting(&["local"]), ["a1", "a2"]);
    assert_eq!(play.place("p2", "a2", &["local"]), [existing("local", "pv-a")]);
    assert_eq!(play.0.check_books(), [""; 0]);
}

#[test]
fn reserved_volume_goes_to_its_claim() {
    let kept = |name: &str, uid: Option<&str>| {
        let mut volume = in_zone("b");
        merge(
            &mut volume,
            &json!({"spec": {"capacity": {"storage": "100Gi"}, "claimRef":
                {"namespace": "ns", "name": name, "uid": uid}}, "status": {"phase": "Bound"}}),
        );
        volume
    };
    for (uid, nodes) in [
        (None, vec!["b1"]),
        (Some("one"), vec!["b1"]),
        (Some(""), vec!["b1"]),
        // Reserved for an earlier claim of the same name.
        (Some("old"), vec!["a1", "a2", "b1"]),
    ] {
        let mut play = play();
        volume(&mut play.0, "free", &json!({}));
        volume(&mut play.0, "kept", &kept("one", uid));
        claim(&mut play.0, "one", &json!({}));
        assert_eq!(play.mounting(&["one"]), nodes, "{uid:?}");
        let volume = if nodes.len() == 1 { "kept" } else { "free" };
        assert_eq!(play.place("p", "b1", &["one"]), [existing("one", volume)]);
    }
    let mut play = play();
    volume(&mut play.0, "free", &json!({}));
    claim(&mut play.0, "one", &json!({}));
    for (more, why) in [
        (json!({"spec": {"capacity": {"storage": "1Mi"}}}), "is too small"),
        (json!({"spec": {"volumeMode": "Block"}}), "is of another mode"),
        (json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), "is being deleted"),
        (in_zone("a"), "cannot be reached from the node"),
    ] {
        let mut volume_of = kept("one", None);
        merge(&mut volume_of, &more);
        volume(&mut play.0, "kept", &volume_of);
        let why = format!("the volume `kept` that is kept for the claim `one` {why}");
        assert_eq!(play.reason(&mounting(&["one"]), "b1"), why);
    }
    // A volume reserved for another claim is not used.
    volume(&mut play.0, "kept", &kept("two", None));
    play.0.set_volume("free", None);
    assert_eq!(play.mounting(&["one"]), [""; 0]);
}

#[test]
fn free_volume_is_available() {
    for (more, is_free) in [
        (json!({}), true),
        (json!({"status": {"phase": "Pending"}}), false),
        (json!({"status": {"phase": null}}), false),
        (json!({"status": {"phase": "Released"}}), false),
        (json!({"status": {"phase": "Failed"}}), false),
        (json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), false),
        (json!({"spec": {"storageClassName": "other"}}), false),
        (json!({"spec": {"volumeAttributesClassName": "fast"}}), false),
        (
            json!({"metadata": {"annotations": {
            "volume.beta.kubernetes.io/storage-class": "other"}}}),
            false,
        ),
        (
            json!({"spec": {"storageClassName": "other"}, "metadata": {"annotations": {
            "volume.beta.kubernetes.io/storage-class": "local"}}}),
            true,
        ),
    ] {
        let mut play = play();
        volume(&mut play.0, "pv", &more);
        claim(&mut play.0, "one", &json!({}));
        assert_eq!(!play.mounting(&["one"]).is_empty(), is_free, "{more}");
    }
    let mut play = play();
    volume(&mut play.0, "pv", &json!({"spec": {"volumeAttributesClassName": "fast"}}));
    claim(&mut play.0, "one", &json!({"spec": {"volumeAttributesClassName": "fast"}}));
    assert_eq!(play.mounting(&["one"]).len(), 3);
    claim(
        &mut play.0,
        "one",
        &json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "soon"}}}),
    );
    assert_eq!(play.mounting(&["one"]), [""; 0], "the class of old goes before the field");
}

#[test]
fn unusable_claims_are_named() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let mut lost = bound_to("pv");
    merge(&mut lost, &json!({"status": {"phase": "Lost"}}));
    let mut play = play();
    volume(&mut play.0, "pv", &json!({}));
    for (more, why) in [
        (going, "the claim `one` is being deleted"),
        (lost, "the claim `one` has lost its volume"),
        (
            json!({"spec": {"volumeName": "pv"}}),
            "the claim `one` is not bound to its volume `pv` yet",
        ),
        (
            json!({"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}),
            "the claim `one` is not bound to its volume `pv` yet",
        ),
    ] {
        claim(&mut play.0, "one", &more);
        assert_eq!(play.reason(&mounting(&["one"]), "a1"), why);
    }
}

#[test]
fn ephemeral_claim_must_belong_to_its_pod() {
    let own = json!({"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]});
    let made_for = |uid: &str, controller: bool| {
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod",
            "name": "asked", "uid": uid, "controller": controller}]},
            "spec": {"storageClassName": "made"}})
    };
    let mut play = play();
    let why = "the claim `asked-scratch` is not there";
    assert_eq!(play.reason(&own, "a1"), why);
    for (uid, controller, is_its) in
        [("asked", true, true), ("asked", false, false), ("another", true, false)]
    {
        claim(&mut play.0, "asked-scratch", &made_for(uid, controller));
        assert_eq!(play.passing(&json!({}), &own).len() == 3, is_its, "{uid} {controller}");
    }
    claim(&mut play.0, "asked-scratch", &json!({}));
    let why = "the claim `asked-scratch` was not made for the pod";
    assert_eq!(play.reason(&own, "a1"), why);
}

#[test]
fn inline_disks_are_refused_by_kind() {
    for kind in [
        "awsElasticBlockStore",
        "azureDisk",
        "cinder",
        "gcePersistentDisk",
        "iscsi",
        "portworxVolume",
        "rbd",
        "vsphereVolume",
    ] {
        let mut spec = json!({"volumes": [{"name": "cache", "emptyDir": {}}, {"name": "disk"}]});
        spec["volumes"][1][kind] = json!({"volumeID": "x"});
        let why = format!("volumes of the kind {kind} are supported by claims only (`disk`)");
        assert_eq!(Play::new().reason(&spec, "a1"), why);
    }
    let others = json!({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "nfs": {}},
        {"name": "c", "csi": {"driver": "x"}}, {"name": "d", "configMap": {"name": "x"}}]});
    assert_eq!(Play::new().passing(&json!({}), &others).len(), 3);
}

#[test]
fn old_and_new_zone_labels_are_compared() {
    const ZONE: &str = "topology.kubernetes.io/zone";
    const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
    const REGION: &str = "topology.kubernetes.io/region";
    for (of_volume, of_node, reached) in [
        (json!({ZONE: "z1"}), json!({ZONE: "z1"}), true),
        (json!({ZONE: "z1"}), json!({ZONE: "z2"}), false),
        (json!({OLD_ZONE: "z1"}), json!({ZONE: "z1"}), true),
        (json!({OLD_ZONE: "z1"}), json!({ZONE: "z2"}), false),
        (json!({ZONE: "z1"}), json!({OLD_ZONE: "z1"}), true),
        (json!({ZONE: "z1"}), json!({OLD_ZONE: "z2"}), false),
        (json!({OLD_ZONE: "z1__z2"}), json!({ZONE: "z2"}), true),
        (json!({ZONE: "z1__z2"}), json!({ZONE: "z3"}), false),
        (json!({ZONE: "z1"}), json!({REGION: "r"}), false),
        (json!({ZONE: "z1"}), json!({"other": "label"}), true),
        (json!({REGION: "r", ZONE: "z1"}), json!({REGION: "r", ZONE: "z1"}), true),
        (json!({REGION: "q", ZONE: "z1"}), json!({REGION: "r", ZONE: "z1"}), false),
        (json!({}), json!({ZONE: "z1"}), true),
    ] {
        let volume: Arc<PersistentVolume> = from(json!({"metadata": {"labels": of_volume}}));
        assert_eq!(reaches(&volume, &node("n", &of_node)), reached, "{of_volume} {of_node}");
    }
}

#[test]
fn claim_being_provisioned_gets_no_other_volume() {
    let mut play = play();
    volume(&mut play.0, "pv", &json!({"spec": {"storageClassName": "made"}}));
    let mut selected = json!({"spec": {"storageClassName": "made"}});
    claim(&mut play.0, "one", &selected);
    assert_eq!(play.place("p", "a1", &["one"]), [existing("one", "pv")]);
    play.0.clear("p");
    merge(
        &mut selected,
        &json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "a2"}}}),
    );
    claim(&mut play.0, "one", &selected);
    assert_eq!(play.mounting(&["one"]), ["a2"]);
    assert_eq!(play.place("p", "a2", &["one"]), [made("one")]);
}

#[test]
fn missing_volumes_are_listed_until_claims_are_bound() {
    let mut play = play();
    volume(&mut play.0, "pv-a", &in_zone("a"));
    claim(&mut play.0, "one", &json!({}));
    claim(&mut play.0, "two", &json!({"spec": {"storageClassName": "made"}}));
    play.place("p", "a1", &["one", "two"]);
    let missing = |play: &Play| play.0.missing_volumes("p", "a1");
    let named = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(missing(&play), named(&["one", "two"]));
    claim(&mut play.0, "one", &bound_to("pv-a"));
    claim(&mut play.0, "two", &bound_to("pv-new"));
    assert_eq!(missing(&play), named(&["two"]), "its volume has not been heard of");
    volume(&mut play.0, "pv-new", &in_zone("a"));
    assert_eq!(missing(&play), named(&[]));
    volume(&mut play.0, "pv-new", &in_zone("b"));
    let why = "the volume of the claim `two` cannot be reached from the node";
    assert_eq!(missing(&play), Err(why.to_owned()));
    play.0.set_claim("ns/two", None);
    assert_eq!(missing(&play), Err("the claim `two` is not there".to_owned()));
    play.0.clear("p");
    assert_eq!(missing(&play), Err("the pod is not to run on a1 any more".to_owned()));
    play.0.remove_node("a1");
    assert_eq!(missing(&play), Err("the node a1 is gone".to_owned()));
}

#[test]
fn attach_limits_and_single_pod_claims() {
    let mut play = play();
    let limit = |count: u32, plugins: &str| {
        Some(from(json!({"metadata": {"name": "a1", "annotations": {
            "storage.alpha.kubernetes.io/migrated-plugins": plugins}},
            "spec": {"drivers": [{"name": "csi", "allocatable": {"count": count}},
                {"name": "ebs.csi.aws.com", "allocatable": {"count": count}}, {"name": "any"}]}})))
    };
    play.0.set_csi_node("a1", limit(1, ""));
    for name in ["v1", "v2"] {
        volume(&mut play.0, name, &json!({"spec": {"csi": {"driver": "csi"}}}));
        claim(&mut play.0, name, &bound_to(name));
    }
    claim(&mut play.0, "made", &json!({"spec": {"storageClassName": "made"}}));
    claim(&mut play.0, "local", &json!({}));
    volume(&mut play.0, "pv", &json!({}));
    assert_eq!(play.mounting(&["v1", "v1"]).len(), 3, "mounted twice, attached once");
    assert_eq!(play.mounting(&["v1", "v2"]), ["a2", "b1"]);
    let mut play = play.running("r", "a1", &json!({}), &mounting(&["v1", "v1"]));
    assert_eq!(play.mounting(&["v1"]).len(), 3, "it is attached already");
    assert_eq!(play.mounting(&["v2"]), ["a2", "b1"]);
    assert_eq!(play.mounting(&["made"]), ["a2", "b1"]);
    assert_eq!(play.mounting(&["local"]).len(), 3, "of no driver");
    let why = "the node takes no more volumes of csi";
    assert_eq!(play.reason(&mounting(&["v2"]), "a1"), why);
    play.0.clear("r");
    assert_eq!(play.0.check_books(), [""; 0]);
    assert_eq!(play.mounting(&["v2"]).len(), 3);

    // A volume of an in-tree plugin counts if its driver has replaced the plugin.
    class(&mut play.0, "old", "kubernetes.io/aws-ebs", &json!({}));
    let source = json!({"spec": {"awsElasticBlockStore": {"volumeID": "x"}}});
    for name in ["e1", "e2"] {
        volume(&mut play.0, name, &source);
        claim(&mut play.0, name, &bound_to(name));
    }
    claim(&mut play.0, "e3", &json!({"spec": {"storageClassName": "old"}}));
    let mut play = play.running("r", "a1", &json!({}), &mounting(&["e1"]));
    assert_eq!(play.mounting(&["e2"]).len(), 3, "not by a driver there");
    play.0.set_csi_node("a1", limit(1, "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"));
    assert_eq!(play.mounting(&["e2"]), ["a2", "b1"]);
    assert_eq!(play.mounting(&["e3"]), ["a2", "b1"]);
    play.0.set_csi_node("a1", limit(2, "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"));
    assert_eq!(play.place("s", "a1", &["e3"]), [made("e3")]);
    assert_eq!(play.mounting(&["e2"]), ["a2", "b1"], "what is being made counts");

    let mut once = bound_to("v2");
    merge(&mut once, &json!({"spec": {"accessModes": ["ReadWriteOncePod"]}}));
    claim(&mut play.0, "v2", &once);
    let mut play = play.running("t", "b1", &json!({}), &mounting(&["v2"]));
    assert_eq!(play.mounting(&["v2"]), [""; 0]);
}

#[test]
fn check_without_victims_keeps_reservations() {
    let mut play = play();
    volume(&mut play.0, "pv", &json!({}));
    for name in ["static", "other"] {
        claim(&mut play.0, name, &json!({}));
    }
    claim(&mut play.0, "made", &json!({"spec": {"storageClassName": "made"}}));
    let before = play.place("victim", "a1", &["static", "made"]);
    assert_eq!(play.place("mate", "a1", &["made"]), [made("made")]);
    play.0.expect("asked", pod("asked", &json!({}), &mounting(&["other"])));
    let leaving = ["mate".to_owned(), "victim".to_owned()];
    // If the victim is removed, its volume is free.
    assert_eq!(play.0.check_without("asked", "a1", &leaving, 0), Some(2));
    assert_eq!(play.0.volume_choices("victim"), before);
    assert_eq!(play.0.volume_choices("mate"), [made("made")]);
    assert!(play.0.check("asked", "a1").is_err(), "the volume is promised still");
    assert_eq!(play.mounting(&["made"]), ["a1"], "and the other one made for that node");
    assert_eq!(play.0.check_books(), [""; 0]);
    play.0.clear("victim");
    assert_eq!(play.mounting(&["made"]), ["a1"]);
    play.0.clear("mate");
    assert_eq!(play.mounting(&["made"]), ["a1", "a2", "b1"]);
}

/// A random volume: size, nodes that reach it, another class, free, reserved.
type Shape = (u8, u8, bool, bool, bool);

fn shaped(number: usize, (size, place, is_other, is_free, is_kept): Shape) -> Value {
    let host = |hosts: &[&str]| json!({"key": "kubernetes.io/hostname", "operator": "In", "values": hosts});
    let zone = |zone: &str| json!({"key": "zone", "operator": "In", "values": [zone]});
    let terms = match place {
        0 => None,
        1 => Some(json!([{"matchExpressions": [host(&["a1"])]}])),
        2 => Some(json!([{"matchExpressions": [zone("a"), host(&["a1", "b1"])]}])),
        3 => Some(json!([{"matchExpressions": [zone("b")]}])),
        4 => {
            Some(json!([{"matchExpressions": [host(&["a2"])]}, {"matchExpressions": [zone("b")]}]))
        }
        _ => Some(
            json!([{"matchExpressions": [host(&["a2"])]}, {"matchExpressions": [host(&["b1"])]}]),
        ),
    };
    let affinity = terms.map(|terms| json!({"required": {"nodeSelectorTerms": terms}}));
    json!({"metadata": {"name": format!("pv{number}")},
        "status": {"phase": if is_free { "Available" } else { "Released" }},
        "spec": {"capacity": {"storage": size.to_string()}, "nodeAffinity": affinity,
            "storageClassName": if is_other { "other" } else { "local" },
            "claimRef": is_kept.then(|| json!({"namespace": "ns", "name": "x"}))}})
}

proptest! {
    #[test]
    fn smallest_volume_equals_a_full_search(
        shapes in prop::collection::vec((0..6_u8, 0..6_u8, any::<bool>(), any::<bool>(), any::<bool>()), 0..30),
        again in prop::collection::vec((0..30_usize, (0..6_u8, 0..6_u8, any::<bool>(), any::<bool>(), any::<bool>())), 0..10),
        wanted in 0..6_u8,
        taken in 0..30_usize,
    ) {
        let mut stock = Stock::default();
        let mut all = std::collections::BTreeMap::new();
        for (number, shape) in shapes.into_iter().enumerate().chain(again) {
            let volume: Arc<PersistentVolume> = from(shaped(number, shape));
            stock.set(&format!("pv{number}"), Some(Arc::clone(&volume)));
            all.insert(format!("pv{number}"), volume);
        }
        let gone = format!("pv{wanted}");
        stock.set(&gone, None);
        all.remove(&gone);
        let claim: Arc<PersistentVolumeClaim> = from(json!({
            "metadata": {"name": "c", "namespace": "ns"},
            "spec": {"storageClassName": "local",
                "resources": {"requests": {"storage": wanted.to_string()}}}}));
        let is_taken = |name: &str| name == format!("pv{taken}");
        for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
            let node = node(name, &json!({"zone": zone}));
            let size = |volume: &PersistentVolume| -> u8 {
                volume.spec.capacity["storage"].0.parse().unwrap()
            };
            let fits = all.iter().filter(|(name, volume)| {
                volume.spec.claim_ref.is_none()
                    && volume.status.phase.as_deref() == Some("Available")
                    && volume.class() == "local"
                    && size(volume) >= wanted
                    && !is_taken(name)
                    && reaches(volume, &node)
            });
            let expected = fits.min_by_key(|(name, volume)| (size(volume), (*name).clone()));
            let found = stock.smallest(&claim, &node, is_taken);
            prop_assert_eq!(
                found.map(|volume| volume.metadata.name.clone().unwrap()),
                expected.map(|(name, _)| name.clone())
            );
        }
    }
}
