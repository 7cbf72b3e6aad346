//! Tests of queries, syncs and allocations in each order in which two streams may deliver them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

fn from<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).expect("an object"))
}

/// Anti-affinity: one pod per host.
fn apart() -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "db"}}}]}}})
}

/// Spread: evenly over hosts.
fn even() -> Value {
    json!({"topologySpreadConstraints": [{"topologyKey": "host", "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "db"}}}]})
}

struct Play(View);

impl Play {
    /// Makes a view of three hosts which expects these pods.
    fn new(pods: &[(&str, Value)]) -> Self {
        let scene = SharedScene::default();
        {
            let mut scene = open(&scene);
            for name in ["h0", "h1", "h2"] {
                scene.set_node(from(json!({"metadata": {"name": name, "labels": {"host": name}}})));
            }
            for (key, spec) in pods {
                scene.expect(key, pod(key, spec));
            }
        }
        Self(View::new(scene))
    }

    /// Asks whether the pod may run on the node, as a member of the gang. A positive answer counts.
    fn asks(&mut self, key: &str, bundle_id: u64, node: &str) -> bool {
        let query = query(key, bundle_id);
        let fits = self.0.fits(&query, node).is_ok();
        if fits {
            self.0.assumed(&query, node);
        }
        fits
    }

    /// Returns where the pod may run. Nothing counts.
    fn passing(&mut self, key: &str, bundle_id: u64) -> Vec<&'static str> {
        let query = query(key, bundle_id);
        ["h0", "h1", "h2"].into_iter().filter(|node| self.0.fits(&query, node).is_ok()).collect()
    }

    fn syncs(&mut self, placed: &[(&str, &str)], gone: &[&str]) {
        self.0.sync(&sync(placed, gone));
    }

    fn receives(&mut self, key: &str, node: &str) {
        let new = si::Allocation {
            allocation_key: key.to_owned(),
            node_id: node.to_owned(),
            ..Default::default()
        };
        self.0.received(&[new]);
    }

    fn places(&mut self, bundle_id: u64, over: u64, places: &[(u32, &str, &str)]) {
        let nodes: Vec<_> = places.iter().map(|(_, _, node)| Some(*node)).collect();
        let place = |(member, key, _): &(u32, &str, &str)| {
            let group = key.strip_prefix("group ").unwrap_or_default();
            cb::BundlePlace {
                member: *member,
                allocation_key: if group.is_empty() { (*key).to_owned() } else { String::new() },
                task_group_name: group.to_owned(),
                ..Default::default()
            }
        };
        let places = places.iter().map(place).collect();
        let application_id = "a".to_owned();
        let update = cb::BundlePlaces { bundle_id, application_id, over, places };
        self.0.set_places(&update, &nodes);
    }

    /// Returns how often the pod counts on the node.
    fn times(&self, key: &str, node: &str) -> usize {
        let mut scene = open(&self.0.scene);
        let times = (0..9).take_while(|_| scene.forget(key, node)).count();
        for _ in 0..times {
            scene.assume(key, node);
        }
        times
    }
}

fn pod(key: &str, spec: &Value) -> Arc<crate::objects::Pod> {
    from(json!({"metadata": {"name": key, "namespace": "ns", "uid": key, "labels": {"app": "db"}},
        "spec": spec}))
}

fn query(key: &str, bundle_id: u64) -> cb::PredicateQuery {
    let group = key.strip_prefix("group ").unwrap_or_default();
    cb::PredicateQuery {
        allocation_key: if group.is_empty() { key.to_owned() } else { String::new() },
        task_group_name: group.to_owned(),
        application_id: "a".to_owned(),
        bundle_id,
        ..Default::default()
    }
}

fn sync(placed: &[(&str, &str)], gone: &[&str]) -> cb::CacheSync {
    let placed = placed.iter().map(|(key, node)| cb::AssumedAllocation {
        allocation_key: (*key).to_owned(),
        node_id: (*node).to_owned(),
        ..Default::default()
    });
    let gone = gone.iter().map(|key| cb::ForgotAllocation {
        allocation_key: (*key).to_owned(),
        ..Default::default()
    });
    let args = cb::CacheSyncArgs {
        assumed_allocations: placed.collect(),
        forget_allocations: gone.collect(),
    };
    cb::CacheSync { args: Some(args), ..Default::default() }
}

#[test]
fn answer_counts_for_later_questions_until_forgotten() {
    let mut play = Play::new(&[("x", apart()), ("y", apart())]);
    assert!(play.asks("x", 0, "h0"));
    assert_eq!(play.passing("y", 0), ["h1", "h2"]);
    assert_eq!(play.passing("x", 0), ["h0", "h1", "h2"], "it does not stand in its own way");
    assert!(play.asks("x", 0, "h1"), "elsewhere, after all");
    assert_eq!(play.passing("y", 0), ["h0", "h2"]);
    play.syncs(&[], &["x"]);
    assert_eq!(play.passing("y", 0), ["h0", "h1", "h2"]);
    play.syncs(&[("x", "h2")], &[]);
    assert_eq!(play.passing("y", 0), ["h0", "h1"]);
}

#[test]
fn allocation_counts_once_until_the_shim_removes_it() {
    // The sync comes before the allocation, after it, or not at all because the answer assumed it.
    for (before, after, assumed) in
        [(true, false, false), (false, true, false), (false, false, true), (true, true, false)]
    {
        let mut play = Play::new(&[("x", apart())]);
        if assumed {
            assert!(play.asks("x", 0, "h0"));
        }
        if before {
            play.syncs(&[("x", "h0")], &[]);
        }
        play.receives("x", "h0");
        if after {
            play.syncs(&[("x", "h0")], &[]);
        }
        assert_eq!(play.times("x", "h0"), 1, "{before} {after} {assumed}");
        play.syncs(&[], &["x"]);
        assert_eq!(play.times("x", "h0"), 1, "a victim runs until it is gone");
    }
}

#[test]
fn allocation_on_another_node_replaces_the_assumption() {
    let mut play = Play::new(&[("x", apart())]);
    assert!(play.asks("x", 0, "h0"));
    play.receives("x", "h1");
    assert_eq!((play.times("x", "h0"), play.times("x", "h1")), (0, 1));
}

#[test]
fn snapshot_removes_assumptions_it_does_not_list() {
    let mut play = Play::new(&[("received", apart()), ("kept", apart()), ("lost", apart())]);
    for (key, node) in [("received", "h0"), ("kept", "h1"), ("lost", "h2")] {
        assert!(play.asks(key, 0, node));
    }
    play.receives("received", "h0");
    play.0.begin_stream();
    let first = cb::CacheSync { snapshot: true, ..sync(&[("received", "h0")], &[]) };
    let last = cb::CacheSync { snapshot: true, snapshot_end: true, ..sync(&[("kept", "h1")], &[]) };
    play.0.sync(&first);
    play.0.sync(&last);
    let times = [("received", "h0"), ("kept", "h1"), ("lost", "h2")];
    assert_eq!(times.map(|(key, node)| play.times(key, node)), [1, 1, 0]);
    play.syncs(&[], &["received", "kept"]);
    assert_eq!(times.map(|(key, node)| play.times(key, node)), [1, 0, 0]);
}

#[test]
fn running_pod_is_not_forgotten() {
    let mut play = Play::new(&[("x", apart())]);
    assert!(play.asks("x", 0, "h0"));
    open(&play.0.scene).settle("x", "h0", &pod("x", &apart()));
    play.syncs(&[], &["x"]);
    assert!(open(&play.0.scene).counts("x", "h0"));
}

#[test]
fn only_members_of_a_gang_see_its_places() {
    let mut play = Play::new(&[("x", apart()), ("y", apart()), ("z", apart())]);
    play.places(7, 0, &[(0, "x", "h0"), (1, "y", "h1")]);
    assert_eq!(play.passing("x", 7), ["h0", "h2"]);
    assert_eq!(play.passing("y", 7), ["h1", "h2"]);
    assert_eq!(play.passing("z", 0), ["h0", "h1", "h2"]);
    // One member moves.
    play.places(7, 0, &[(1, "y", "h2")]);
    assert_eq!(play.passing("x", 7), ["h0", "h1"]);
    // Another gang is in flight now.
    play.places(8, 7, &[(0, "z", "h0")]);
    assert_eq!(play.passing("x", 7), ["h0", "h1", "h2"], "its places are over");
    play.0.begin_stream();
    assert_eq!(play.passing("x", 8), ["h0", "h1", "h2"]);
    assert_eq!(open(&play.0.scene).check_books(), <[String; 0]>::default());
}

#[test]
fn assumed_member_counts_once_besides_the_other_places() {
    let pods = ["x", "y", "z", "w"].map(|key| (key, even()));
    let mut play = Play::new(&pods);
    play.places(7, 0, &[(0, "x", "h0"), (1, "y", "h1"), (2, "z", "h2"), (3, "w", "h0")]);
    assert!(play.asks("x", 7, "h0"));
    // If `x` counted twice, the spread would be too uneven.
    assert!(play.asks("w", 7, "h0"));
    assert!(play.asks("y", 7, "h1"));
    assert!(play.asks("z", 7, "h2"));
    play.syncs(&[], &["x"]);
    // If `x` did not count, too few pods would be on its host.
    assert!(!play.asks("y", 7, "h2"));
    assert!(play.asks("x", 7, "h0"), "it has its place, and is asked about again");
    for (key, node) in [("x", "h0"), ("y", "h1"), ("z", "h2"), ("w", "h0")] {
        play.receives(key, node);
        assert_eq!(play.times(key, node), 1);
    }
    play.0.end();
    assert_eq!(
        ["h0", "h1", "h2"].map(|node| open(&play.0.scene).counts(&name(7, 0), node)),
        [false; 3]
    );
}

#[test]
fn held_places_count_for_the_gang_but_not_for_themselves() {
    let hold = hold_key("a", "workers");
    let mut play = Play::new(&[("x", apart()), (&hold, apart())]);
    play.places(7, 0, &[(0, "x", "h0"), (1, "group workers", "h1"), (2, "group workers", "h2")]);
    assert_eq!(play.passing("x", 7), ["h0"]);
    assert_eq!(play.passing("group workers", 7), ["h1", "h2"]);
    // Two places on one host.
    play.places(7, 0, &[(2, "group workers", "h1")]);
    assert_eq!(play.passing("group workers", 7), ["h2"]);
    assert_eq!(play.passing("group others", 7), ["h0", "h1", "h2"], "nothing is known of it");
}

#[test]
fn ended_session_changes_nothing() {
    let mut play = Play::new(&[("x", apart()), ("y", apart())]);
    play.0.end();
    assert!(!play.asks("x", 0, "h0"));
    play.0.assumed(&query("x", 0), "h0");
    play.syncs(&[("x", "h0")], &[]);
    play.receives("x", "h0");
    play.places(7, 0, &[(0, "x", "h0")]);
    assert_eq!(play.times("x", "h0"), 0);
}

#[test]
fn removed_victim_makes_room_for_anti_affinity() {
    let mut play = Play::new(&[("x", apart()), ("y", apart())]);
    open(&play.0.scene).settle("victim", "h0", &pod("victim", &json!({})));
    play.places(7, 0, &[(0, "y", "h0")]);
    assert_eq!(play.passing("y", 7), ["h1", "h2"]);
    let args = si::PreemptionPredicatesArgs {
        allocation_key: "x".to_owned(),
        node_id: "h0".to_owned(),
        preempt_allocation_keys: vec!["victim".to_owned()],
        start_index: -1,
    };
    let answer = play.0.victims(&args);
    assert_eq!((answer.success, answer.index), (true, 0));
    let held = si::PreemptionPredicatesArgs { preempt_allocation_keys: Vec::new(), ..args };
    assert!(!play.0.victims(&held).success);
    assert!(open(&play.0.scene).counts("victim", "h0"));
}

#[test]
fn answer_names_the_topics_that_affect_it() {
    let claims = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]});
    let near = json!({"affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "db"}}}]}}});
    let ports = json!({"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]});
    for (spec, depends_on, affects) in [
        (json!({}), vec![KEEPERS], vec![PODS]),
        (ports, vec![KEEPERS], vec![PODS]),
        (near, vec![PODS, KEEPERS], vec![PODS]),
        (even(), vec![PODS, KEEPERS], vec![PODS]),
        (apart(), vec![PODS, KEEPERS], vec![PODS, KEEPERS]),
        (claims, vec![KEEPERS, CLAIMS], vec![PODS, CLAIMS]),
    ] {
        let play = Play::new(&[("x", spec.clone())]);
        let answer = play.0.elsewhere(&query("x", 0));
        assert_eq!(answer, cb::Elsewhere { depends_on, affects }, "{spec}");
    }
}
