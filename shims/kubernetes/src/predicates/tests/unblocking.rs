//! Changes that let refused pods pass.

use super::*;

const HOST: &str = "kubernetes.io/hostname";

/// Makes a scene of two nodes in zone a and one in zone b. `db` runs on `a1`.
fn play(asked: &[(&Value, &Value)]) -> Scene {
    let mut scene = Play::new().running("db", "a1", &json!({"app": "db"}), &json!({})).0;
    for (number, (labels, spec)) in asked.iter().enumerate() {
        let key = format!("asked-{number}");
        scene.expect(&key, pod(&key, labels, spec));
    }
    scene.take_unblocked();
    scene
}

/// A change, and whether it unblocks a pod.
type Step<'s> = (&'s dyn Fn(&mut Scene), bool);

/// Checks for each step whether it unblocks a pod.
fn check_steps(scene: &mut Scene, steps: &[Step<'_>]) {
    for (number, (step, unblocks)) in steps.iter().enumerate() {
        step(scene);
        assert_eq!(scene.take_unblocked(), *unblocks, "step {number}");
        assert!(!scene.take_unblocked(), "it is said once");
        assert_eq!(scene.check_books(), [""; 0]);
    }
}

fn runs(key: &'static str, node: &'static str, app: &'static str) -> impl Fn(&mut Scene) {
    move |scene| scene.settle(key, node, &pod(key, &json!({"app": app}), &json!({})))
}

fn ends(key: &'static str) -> impl Fn(&mut Scene) {
    move |scene| scene.clear(key)
}

#[test]
fn without_expected_pods_nothing_is_unblocked() {
    let mut scene = play(&[]);
    check_steps(
        &mut scene,
        &[
            (&ends("db"), false),
            (&runs("db", "b1", "db"), false),
            (&|scene| scene.set_node(node("a1", &json!({"zone": "c"}))), false),
            (&|scene| scene.remove_node("a1"), false),
            (&|scene| scene.set_claim("ns/c", None), false),
            (&|scene| scene.set_volume("v", None), false),
            (&|scene| scene.set_class("c", None), false),
            (&|scene| scene.set_csi_node("a1", None), false),
        ],
    );
}

#[test]
fn anti_affinity_is_unblocked_by_the_last_removal() {
    let (none, away) = (json!({}), near("podAntiAffinity", "zone", &json!({})));
    let mut scene = play(&[(&none, &away)]);
    check_steps(
        &mut scene,
        &[
            (&runs("other", "a1", "web"), false),
            (&ends("other"), false),
            (&runs("second", "a2", "db"), false),
            (&ends("db"), false),
            (&runs("second", "a1", "db"), false),
            (&runs("second", "a1", "db"), false),
            (&runs("second", "a1", "web"), true),
            (&runs("second", "b1", "db"), false),
            (&runs("second", "a1", "db"), true),
            (&ends("second"), true),
        ],
    );
}

#[test]
fn affinity_is_unblocked_by_the_first_arrival() {
    let (none, near) = (json!({}), near("podAffinity", "zone", &json!({})));
    let mut scene = play(&[(&none, &near)]);
    check_steps(
        &mut scene,
        &[
            (&runs("other", "b1", "web"), false),
            (&runs("second", "a2", "db"), false),
            (&runs("third", "b1", "db"), true),
            (&ends("third"), false),
            (&ends("second"), false),
            // A pod that must be near its own kind may run anywhere once there is none.
            (&ends("db"), true),
            (
                &|scene| scene.expect("placed", pod("placed", &json!({"app": "db"}), &json!({}))),
                false,
            ),
            (&|scene| scene.assume("placed", "a1"), true),
        ],
    );
}

#[test]
fn spread_is_unblocked_when_more_even() {
    let db = json!({"app": "db"});
    let mut scene = play(&[(&db, &spread(&json!({})))]);
    check_steps(
        &mut scene,
        &[
            // One pod in zone a. The emptiest zone has none, and then one.
            (&runs("second", "a2", "db"), false),
            (&runs("third", "b1", "db"), true),
            (&runs("web", "b1", "web"), false),
            // Two pods in a and one in b: fewer in a, then fewer in b.
            (&ends("second"), true),
            (&ends("third"), false),
            // An added zone without pods unblocks no pod. Its removal raises the least number.
            (&runs("third", "b1", "db"), true),
            (&|scene| scene.set_node(node("c1", &json!({"zone": "c"}))), false),
            (&|scene| scene.set_node(node("c2", &json!({"zone": "c"}))), false),
            (&|scene| scene.remove_node("c1"), false),
            (&|scene| scene.remove_node("c2"), true),
            // A pod that is being deleted is not counted.
            (
                &|scene| {
                    scene.settle(
                        "db",
                        "a1",
                        &from(json!({"metadata": {"name": "db", "namespace": "ns", "uid": "db",
                            "labels": {"app": "db"},
                            "deletionTimestamp": "2026-01-01T00:00:00Z"}})),
                    );
                },
                false,
            ),
        ],
    );
    let mut scene = play(&[(&db, &spread(&json!({"minDomains": 3})))]);
    check_steps(
        &mut scene,
        &[
            // With too few zones the least number is 0.
            (&runs("second", "b1", "db"), false),
            (&ends("second"), true),
            (&runs("second", "b1", "db"), false),
            (&runs("third", "c1", "db"), false),
            (&|scene| scene.set_node(node("c1", &json!({"zone": "c"}))), true),
        ],
    );
}

#[test]
fn kept_away_pod_is_unblocked_by_the_last_removal() {
    let against = |scene: &mut Scene, key: &str, node: &str| {
        let spec = near("podAntiAffinity", "zone", &json!({}));
        scene.settle(key, node, &pod(key, &json!({"app": "web"}), &spec));
    };
    let (none, db) = (json!({}), json!({"app": "db"}));
    for (labels, unblocks) in [(&db, true), (&none, false)] {
        let mut scene = play(&[(labels, &none)]);
        check_steps(
            &mut scene,
            &[
                (&|scene| against(scene, "r", "a1"), false),
                (&|scene| against(scene, "s", "a2"), false),
                (&ends("r"), false),
                (&ends("s"), unblocks),
                (&|scene| against(scene, "r", "a1"), false),
                (&|scene| against(scene, "r", "b1"), unblocks),
                (&|scene| scene.remove_node("b1"), unblocks),
            ],
        );
    }
}

#[test]
fn changed_pod_is_unblocked() {
    let (none, db) = (json!({}), json!({"app": "db"}));
    let away = near("podAntiAffinity", "zone", &none);
    let tolerant = with(&away, &json!({"tolerations": [{"operator": "Exists"}]}));
    let expect = |labels: &Value, spec: &Value| {
        let pod = pod("asked-0", labels, spec);
        move |scene: &mut Scene| scene.expect("asked-0", Arc::clone(&pod))
    };
    let mut scene = play(&[(&none, &away)]);
    check_steps(
        &mut scene,
        &[
            (&expect(&none, &away), false),
            (&expect(&none, &tolerant), true),
            (&expect(&none, &tolerant), false),
            (&expect(&db, &tolerant), true),
            (&|scene| scene.dismiss("asked-0"), false),
            (&expect(&none, &away), false),
        ],
    );
}

#[test]
fn forgotten_assumption_unblocks_nobody() {
    let (none, db) = (json!({}), json!({"app": "db"}));
    let port = json!({"containers": [{"ports": [{"hostPort": 80}]}]});
    let apart = with(&near("podAntiAffinity", HOST, &none), &port);
    let mut scene =
        play(&[(&db, &apart), (&db, &spread(&none)), (&none, &near("podAffinity", "zone", &none))]);
    check_steps(
        &mut scene,
        &[
            (
                &|scene| {
                    scene.assume("asked-0", "b1");
                    scene.assume("asked-1", "a2");
                    scene.forget("asked-1", "a2");
                    scene.forget("asked-0", "b1");
                },
                false,
            ),
            (&|scene| scene.assume("asked-0", "b1"), true),
            (&|scene| assert!(scene.forget("asked-0", "b1")), true),
            // A change in between makes the assumption count.
            (
                &|scene| {
                    scene.assume("asked-0", "b1");
                    scene.clear("asked-0");
                },
                true,
            ),
            (
                &|scene| {
                    scene.assume("asked-0", "a2");
                    scene.settle("web", "b1", &pod("web", &none, &none));
                    scene.forget("asked-0", "a2");
                },
                true,
            ),
        ],
    );
}

#[test]
fn host_port_is_unblocked_when_free() {
    let none = json!({});
    let port = |number: u16| json!({"containers": [{"ports": [{"hostPort": number}]}]});
    for (wanted, unblocks) in [(port(80), true), (port(81), false), (none.clone(), false)] {
        let mut scene = play(&[(&none, &wanted)]);
        let listens = |scene: &mut Scene| scene.settle("r", "b1", &pod("r", &none, &port(80)));
        check_steps(&mut scene, &[(&listens, false), (&ends("r"), unblocks)]);
    }
}

#[test]
fn opened_node_unblocks_and_closed_one_does_not() {
    let change = |more: Value| {
        move |scene: &mut Scene| {
            let node = json!({"metadata": {"name": "b1", "labels": {"zone": "b"}}});
            scene.set_node(from(with(&node, &more)));
        }
    };
    let tainted = json!({"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}});
    let two = json!({"spec": {"taints": [
        {"key": "y", "effect": "NoSchedule"}, {"key": "x", "effect": "NoSchedule"}]}});
    let mut scene = play(&[(&json!({}), &json!({}))]);
    check_steps(
        &mut scene,
        &[
            (&change(json!({})), true),
            (&change(json!({"status": {"allocatable": {"cpu": "4"}}})), false),
            (&change(tainted.clone()), false),
            (&change(two), false),
            (&change(tainted), true),
            (&change(json!({})), true),
            (&change(json!({"spec": {"unschedulable": true}})), false),
            (&change(json!({})), true),
            (&change(json!({"status": {"declaredFeatures": ["X"]}})), true),
            (&change(json!({"metadata": {"labels": {"zone": "c"}}})), true),
            // The engine tries new nodes by itself.
            (&|scene| scene.set_node(node("d1", &json!({"zone": "d"}))), false),
            (&|scene| scene.remove_node("d1"), false),
        ],
    );
}

#[test]
fn namespace_labels_unblock_matching_pods() {
    let (none, db) = (json!({}), json!({"app": "db"}));
    let of_x = json!({"namespaceSelector": {"matchLabels": {"team": "x"}}});
    let named = |name: &'static str, labels: Value| {
        move |scene: &mut Scene| {
            let namespace: Arc<Namespace> =
                from(json!({"metadata": {"name": name, "labels": labels}}));
            scene.set_namespace(name, Some(&namespace));
        }
    };
    let mut scene = play(&[(&none, &near("podAffinity", "zone", &of_x))]);
    check_steps(
        &mut scene,
        &[
            (&named("other", json!({"team": "x"})), false),
            (&named("ns", json!({"team": "y"})), false),
            (&named("ns", json!({"team": "x"})), true),
            (&named("ns", json!({"team": "x"})), false),
            (&named("ns", json!({"team": "x", "more": ""})), false),
        ],
    );
    // A running pod keeps pods of such namespaces away.
    let spec = near("podAntiAffinity", "zone", &of_x);
    let mut scene = play(&[(&db, &none)]);
    scene.settle("r", "a1", &pod("r", &none, &spec));
    check_steps(
        &mut scene,
        &[(&named("ns", json!({"team": "x"})), false), (&named("ns", json!({"team": "y"})), true)],
    );
}

#[test]
fn volume_changes_unblock_pods_with_claims() {
    let none = json!({});
    let mounts =
        json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]});
    let set_claim = |name: &'static str| {
        move |scene: &mut Scene| {
            let claim = json!({"metadata": {"name": name, "namespace": "ns"}});
            scene.set_claim(&format!("ns/{name}"), Some(from(claim)));
        }
    };
    let set_volume = |spec: Value| {
        move |scene: &mut Scene| {
            scene.set_volume("v", Some(from(json!({"metadata": {"name": "v"}, "spec": spec}))));
        }
    };
    let mut scene = play(&[(&none, &mounts)]);
    check_steps(
        &mut scene,
        &[
            (&set_claim("other"), false),
            (&set_claim("c"), true),
            (&set_volume(json!({"claimRef": {"namespace": "ns", "name": "other"}})), false),
            (&set_volume(json!({"claimRef": {"namespace": "ns", "name": "c"}})), true),
            (&set_volume(json!({"claimRef": {"namespace": "ns", "name": "other"}})), true),
            (&set_volume(json!({})), true),
            (&|scene| scene.set_claim("ns/other", None), true),
            (&|scene| scene.set_class("class", None), true),
            (&|scene| scene.set_csi_node("a1", None), true),
            // Another pod mounts the claim, and is then removed.
            (&|scene| scene.settle("r", "a1", &pod("r", &json!({}), &mounts)), false),
            (&ends("r"), true),
        ],
    );
    scene.dismiss("asked-0");
    check_steps(
        &mut scene,
        &[
            (&set_claim("c"), false),
            (&set_volume(json!({})), false),
            (&|scene| scene.set_class("class", None), false),
        ],
    );
}
