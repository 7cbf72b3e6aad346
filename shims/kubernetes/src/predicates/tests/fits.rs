//! Results counted in advance equal the predicate's answers.

use monoceros_actors::Fits;
use proptest::prelude::*;

use super::*;

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// Sets a node: number, zone, whether it is tainted, whether it is cordoned.
    Node(u8, u8, bool, bool),
    Gone(u8),
    /// Expects a pod: its zone, whether it tolerates the taint.
    Asked(u8, bool),
    /// Counts this many rounds.
    Count(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..8_u8, 0..3_u8, any::<bool>(), any::<bool>())
            .prop_map(|(node, zone, tainted, cordoned)| Step::Node(node, zone, tainted, cordoned)),
        1 => (0..8_u8).prop_map(Step::Gone),
        2 => (0..4_u8, any::<bool>()).prop_map(|(zone, tolerates)| Step::Asked(zone, tolerates)),
        3 => (0..3_u8).prop_map(Step::Count),
    ]
}

fn with_taint(number: u8, zone: u8, tainted: bool, cordoned: bool) -> Arc<Node> {
    let taints = if tainted { json!([{"key": "t", "effect": "NoSchedule"}]) } else { json!([]) };
    from(json!({"metadata": {"name": format!("n{number}"), "labels": {"zone": zone.to_string()}},
        "spec": {"taints": taints, "unschedulable": cordoned}}))
}

fn wanting(zone: u8, tolerates: bool) -> Arc<Pod> {
    let tolerations = if tolerates { json!([{"operator": "Exists"}]) } else { json!([]) };
    let selector = if zone < 3 { json!({"zone": zone.to_string()}) } else { json!({}) };
    let spec = json!({"nodeSelector": selector, "tolerations": tolerations});
    pod("asked", &json!({}), &spec)
}

/// Checks a complete result against the predicate for each node. Returns whether it is complete.
fn check_told(scene: &mut Scene, key: &str) -> bool {
    let Fits::Known(fits) = scene.fits(key) else { return false };
    let fits = Fits::Known(fits);
    for number in 0..8 {
        let node = format!("n{number}");
        if scene.has_node(&node) {
            let is_refused = fits.refusal(&node).is_some();
            assert_eq!(is_refused, scene.check(key, &node).is_err(), "{node}: {fits:?}");
        }
    }
    true
}

proptest! {
    #[test]
    fn results_equal_the_predicate(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut scene = Scene::default();
        scene.expect("k", wanting(3, false));
        for step in steps {
            match step {
                Step::Node(number, zone, tainted, cordoned) => {
                    scene.set_node(with_taint(number, zone, tainted, cordoned));
                }
                Step::Gone(number) => scene.remove_node(&format!("n{number}")),
                Step::Asked(zone, tolerates) => scene.expect("k", wanting(zone, tolerates)),
                Step::Count(rounds) => {
                    for _ in 0..rounds {
                        scene.count_fits();
                    }
                }
            }
            check_told(&mut scene, "k");
        }
        while scene.has_to_count() {
            scene.count_fits();
        }
        prop_assert!(check_told(&mut scene, "k"), "all is counted, and is told");
    }
}

#[test]
fn rounds_are_bounded_and_changes_are_checked_alone() {
    let mut scene = Scene::default();
    let zone = |number: u32, zone: u32| -> Arc<Node> {
        from(
            json!({"metadata": {"name": format!("n{number}"), "labels": {"zone": zone.to_string()}}}),
        )
    };
    for number in 0..2_500 {
        scene.set_node(zone(number, number % 3));
    }
    scene.expect("k", wanting(1, false));
    assert!(matches!(scene.fits("k"), Fits::Counting));
    assert_eq!([scene.count_fits(), scene.count_fits(), scene.count_fits()], [1_000, 1_000, 500]);
    assert!(!scene.has_to_count() && scene.fits("k").is_known());
    scene.set_node(zone(7, 2));
    assert!(scene.fits("k").refusal("n7").is_some(), "one node is looked at where it is asked");
    assert!(!scene.has_to_count());
    for number in 0..100 {
        scene.set_node(zone(number, 2));
    }
    assert!(!scene.fits("k").is_known());
    // Nodes that were in that zone have not changed.
    assert_eq!(scene.count_fits(), 66);
    assert!(scene.fits("k").refusal("n1").is_some());
    // Another pod with the same requirements is counted already.
    scene.expect("other", wanting(1, false));
    assert!(scene.fits("other").is_known());
    assert!(matches!(scene.fits("nobody"), Fits::Unknown));
    // A pod for a named node has no template.
    let field = json!([{"key": "metadata.name", "operator": "In", "values": ["n1"]}]);
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchFields": field}]}}});
    scene.expect("daemon", pod("daemon", &json!({}), &json!({"affinity": affinity})));
    assert!(matches!(scene.fits("daemon"), Fits::Unknown));
}

#[test]
fn removed_nodes_are_forgotten() {
    let mut scene = Scene::default();
    scene.set_node(node("stays", &json!({"zone": "1"})));
    scene.expect("k", wanting(1, false));
    assert!(matches!(scene.fits("k"), Fits::Counting));
    for number in 0..30_000 {
        let name = format!("n{number}");
        scene.set_node(node(&name, &json!({})));
        scene.remove_node(&name);
    }
    assert!(!scene.fits("k").is_known());
    let mut looks = 0;
    while scene.has_to_count() {
        looks += scene.count_fits();
    }
    assert!(looks < 20_000, "{looks}");
    assert!(check_told(&mut scene, "k"));
}
