//! Assumed pods, held places, and checks without victims.

use super::*;

const HOST: &str = "kubernetes.io/hostname";
const NODES: [&str; 3] = ["a1", "a2", "b1"];

fn passing(scene: &Scene, key: &str) -> Vec<&'static str> {
    assert_eq!(scene.check_books(), [""; 0]);
    NODES.into_iter().filter(|node| scene.check(key, node).is_ok()).collect()
}

#[test]
fn assumed_pod_counts_for_the_next_one() {
    let (none, db) = (json!({}), json!({"app": "db"}));
    let port = json!({"containers": [{"ports": [{"hostPort": 80}]}]});
    for (spec, before, after) in [
        (near("podAntiAffinity", "zone", &none), NODES.to_vec(), vec!["b1"]),
        (near("podAffinity", "zone", &none), NODES.to_vec(), vec!["a1", "a2"]),
        (spread(&none), NODES.to_vec(), vec!["b1"]),
        (spread(&json!({"topologyKey": HOST})), NODES.to_vec(), vec!["a2", "b1"]),
        (port, NODES.to_vec(), vec!["a2", "b1"]),
    ] {
        let mut scene = Play::new().0;
        scene.expect("first", pod("first", &db, &spec));
        scene.expect("second", pod("second", &db, &spec));
        assert_eq!(passing(&scene, "second"), before, "{spec}");
        scene.assume("first", "a1");
        assert_eq!(passing(&scene, "second"), after, "{spec}");
        scene.forget("first", "a1");
        assert_eq!(passing(&scene, "second"), before, "{spec}");
        // The first pod runs, and is no longer expected.
        scene.assume("first", "a1");
        scene.dismiss("first");
        scene.settle("first", "a1", &pod("first", &db, &spec));
        assert_eq!(passing(&scene, "second"), after, "{spec}");
        scene.clear("first");
        assert_eq!(passing(&scene, "second"), before, "{spec}");
    }
}

#[test]
fn running_pod_replaces_its_assumptions() {
    let (none, db) = (json!({}), json!({"app": "db"}));
    let apart = near("podAntiAffinity", HOST, &none);
    let mut scene = Play::new().0;
    scene.expect("first", pod("first", &db, &apart));
    scene.expect("second", pod("second", &db, &none));
    scene.assume("first", "a1");
    scene.assume("first", "a2");
    assert_eq!(passing(&scene, "second"), ["b1"]);
    scene.settle("first", "b1", &pod("first", &db, &apart));
    assert_eq!(passing(&scene, "second"), ["a1", "a2"]);
    scene.settle("first", "gone", &pod("first", &db, &apart));
    assert_eq!(passing(&scene, "second"), NODES);
    scene.settle("first", "a1", &pod("first", &db, &apart));
    scene.settle("first", "a1", &pod("first", &json!({"app": "other"}), &none));
    assert_eq!(passing(&scene, "second"), NODES, "it has other labels, and no terms any more");
}

#[test]
fn held_place_counts_as_often_as_held() {
    let (none, db) = (json!({}), json!({"app": "db"}));
    let mut scene = Play::new().0;
    scene.expect("held", pod("held", &db, &spread(&json!({"maxSkew": 2}))));
    scene.assume("held", "a1");
    scene.assume("held", "a1");
    assert_eq!(passing(&scene, "held"), ["b1"]);
    scene.assume("held", "b1");
    assert_eq!(passing(&scene, "held"), NODES);
    scene.forget("held", "a1");
    scene.forget("held", "b1");
    assert_eq!(passing(&scene, "held"), NODES);
    scene.assume("held", "a2");
    assert_eq!(passing(&scene, "held"), ["b1"]);
    scene.expect("near", pod("near", &none, &near("podAffinity", HOST, &none)));
    assert_eq!(passing(&scene, "near"), ["a1", "a2"]);
    scene.clear("held");
    assert_eq!(passing(&scene, "near"), [""; 0]);
    assert_eq!(passing(&scene, "held"), NODES);
}

#[test]
fn restart_drops_all_assumptions() {
    let (none, db) = (json!({}), json!({"app": "db"}));
    let spec = with(
        &near("podAntiAffinity", HOST, &none),
        &json!({"containers": [{"ports": [{"hostPort": 80}]}]}),
    );
    let mut scene = Play::new().namespace("ns", &json!({"team": "x"})).0;
    for key in ["held", "other"] {
        scene.expect(key, pod(key, &db, &spec));
        for node in NODES.into_iter().chain(["nowhere"]) {
            scene.assume(key, node);
        }
    }
    scene.settle("r", "a1", &pod("r", &db, &spec));
    scene.restart();
    assert!(!scene.expects("held") && !scene.has_node("nowhere") && scene.has_node("a1"));
    assert!(!scene.take_unblocked());
    scene.expect("asked", pod("asked", &db, &spec));
    assert_eq!(passing(&scene, "asked"), NODES);
    // All state except assumed pods is as before.
    let of_x = json!({"namespaceSelector": {"matchLabels": {"team": "x"}}});
    scene.settle("r", "a1", &pod("r", &db, &none));
    scene.expect("asked", pod("asked", &none, &near("podAffinity", HOST, &of_x)));
    assert_eq!(passing(&scene, "asked"), ["a1"]);
}

#[test]
fn preemption_needs_the_fewest_victims() {
    let port = json!({"containers": [{"ports": [{"hostPort": 80}]}]});
    let mut play = Play::new().running("r", "a1", &json!({}), &json!({})).running(
        "s",
        "a1",
        &json!({}),
        &port,
    );
    play.0.expect("asked", pod("asked", &json!({}), &port));
    let leaving = ["r".to_owned(), "s".to_owned()];
    assert_eq!(play.0.check_without("asked", "a1", &leaving, 0), Some(2));
    assert_eq!(play.0.check_without("asked", "a1", &leaving[..1], 1), None);
    assert_eq!(play.0.check_without("asked", "a2", &[], 0), Some(0));
    assert!(play.0.check("asked", "a1").is_err(), "all are back");
}

#[test]
fn removed_victims_take_their_terms_and_counts_along() {
    let (none, db) = (json!({}), json!({"app": "db"}));
    let away = near("podAntiAffinity", "zone", &none);
    let web = json!({"app": "web"});
    let against_web = json!({"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone",
            "labelSelector": {"matchLabels": {"app": "web"}}}]}}});
    let leaving = ["r", "s", "t"].map(str::to_owned);
    for (asked, labels, first, second, enough) in [
        // In order: the pod keeps away from all three pods; the second one keeps it away; the
        // spread is even enough without two or three of them.
        (&away, &none, &none, &none, Some(3)),
        (&none, &web, &none, &against_web, Some(2)),
        (&none, &web, &against_web, &against_web, Some(2)),
        (&spread(&none), &db, &none, &none, Some(3)),
        (&spread(&json!({"maxSkew": 2})), &db, &none, &none, Some(2)),
        (&near("podAffinity", "zone", &none), &none, &none, &none, Some(0)),
        (&json!({"nodeSelector": {"no": "where"}}), &none, &none, &none, None),
    ] {
        let play = Play::new().running("r", "a1", &db, first).running("s", "a1", &db, second);
        let mut scene = play.running("t", "a1", &db, &none).0;
        scene.expect("asked", pod("asked", labels, asked));
        scene.take_unblocked();
        let before = passing(&scene, "asked");
        assert_eq!(scene.check_without("asked", "a1", &leaving, 0), enough, "{asked}");
        assert_eq!(scene.check_without("asked", "a1", &leaving[..1], 2), None, "{asked}");
        assert_eq!(passing(&scene, "asked"), before, "all are back: {asked}");
        assert!(!scene.take_unblocked(), "nobody is helped by what is only tried");
    }
    // Pods of other nodes and unknown pods do not matter.
    let play = Play::new().running("r", "a2", &db, &none);
    let mut scene = play.0;
    scene.expect("asked", pod("asked", &none, &away));
    assert_eq!(scene.check_without("asked", "a1", &leaving, 0), None);
    assert_eq!(scene.check_without("asked", "a2", &leaving, 0), Some(1));
}
