use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::config;

fn root(queues: &str) -> QueueConfig {
    let text = format!("partitions: [{{queues: [{{name: root, queues: [{queues}]}}]}}]");
    let mut parsed = config::parse(&text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    parsed.partitions.remove(0).root
}

/// What changes between two configurations, line by line.
fn between(old: &str, new: &str) -> String {
    let changes = changes(&tree(&root(old)), &root(new));
    let lines: Vec<_> = changes.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// What is empty goes, as the partition does it.
fn prune(tree: &mut Tree, applications: impl Fn(&str) -> usize) {
    let paths: Vec<_> = tree.keys().rev().cloned().collect();
    for path in paths {
        let below = format!("{path}.");
        let has_children = tree.keys().any(|other| other.starts_with(&below));
        let drains = tree[&path].state == ObjectState::Draining;
        if drains && !has_children && applications(&path) == 0 {
            tree.remove(&path);
        }
    }
}

#[test]
fn queues_drain_from_the_deepest_and_are_planted_from_the_top() {
    let old = "{name: a, queues: [{name: x}, {name: y}]}, {name: b}";
    let new = "{name: b}, {name: c, queues: [{name: x, queues: [{name: deep}]}]}";
    expect![[r"
        drain root.a.y
        drain root.a.x
        drain root.a
        plant root.c
        plant root.c.x
        plant root.c.x.deep"]]
    .assert_eq(&between(old, new));
}

#[test]
fn a_queue_is_set_when_anything_of_it_changes_and_inherited_properties_are_of_it() {
    let old = "{name: a, queues: [{name: x}, {name: y, properties: {mine: 1}}]}, {name: b}";
    let new = "{name: b, submitacl: '*'}, \
               {name: a, properties: {mine: 1}, queues: [{name: x}, {name: y}]}";
    expect![[r"
        set root.a
        set root.a.x
        set root.b"]]
    .assert_eq(&between(old, new));
}

#[test]
fn a_name_that_begins_as_another_is_another_queue() {
    expect!["drain root.a"].assert_eq(&between("{name: a}, {name: ab}", "{name: ab}"));
}

#[test]
fn a_draining_queue_that_is_configured_again_is_set() {
    let mut standing = tree(&root("{name: a}, {name: b}"));
    let gone = changes(&standing, &root("{name: b}"));
    apply(&mut standing, &gone);
    assert_eq!(standing["root.a"].state, ObjectState::Draining);
    assert_eq!(changes(&standing, &root("{name: b}")), [], "it drains already");
    let back = changes(&standing, &root("{name: a}, {name: b}"));
    assert_eq!(back.iter().map(ToString::to_string).collect::<Vec<_>>(), ["set root.a"]);
    apply(&mut standing, &back);
    assert_eq!(standing, tree(&root("{name: a}, {name: b}")));
}

#[test]
fn only_a_queue_in_use_keeps_its_type() {
    let standing = tree(&root("{name: leaf}, {name: parent, queues: [{name: x}]}"));
    let wanted = changes(&standing, &root("{name: leaf, parent: true}, {name: parent}"));
    let in_use = |busy: &'static str| {
        let checked = check(&standing, &wanted, |path| usize::from(path == busy));
        checked.map_err(|error| error.to_string())
    };
    assert_eq!(in_use("root.elsewhere"), Ok(()));
    let error = in_use("root.leaf").unwrap_err();
    assert!(error.contains("`root.leaf` is a leaf with applications"), "{error}");
    let error = in_use("root.parent.x").unwrap_err();
    assert!(error.contains("`root.parent` is a parent with applications"), "{error}");
    assert!(error.ends_with("[E_QUEUE_TYPE_IN_USE]"), "{error}");
}

#[test]
fn a_queue_with_applications_may_drain_and_change_otherwise() {
    let standing = tree(&root("{name: leaf}, {name: other}"));
    let wanted = changes(&standing, &root("{name: other, maxapplications: 1}"));
    assert_eq!(check(&standing, &wanted, |_| 1), Ok(()));
}

/// Queues in flow style, up to three levels, with what tells them apart.
fn queues(depth: u32) -> BoxedStrategy<String> {
    let name = prop::sample::subsequence(vec!["a", "b", "ab", "b-"], 0..=3);
    (name, prop::collection::vec((0..3_u8, any::<bool>()), 4))
        .prop_flat_map(move |(names, marks)| {
            let below = if depth == 0 { Just(String::new()).boxed() } else { queues(depth - 1) };
            (Just(names), Just(marks), prop::collection::vec(below, 4))
        })
        .prop_map(|(names, marks, below)| {
            let queue = |((name, (mark, parent)), below): ((&str, (u8, bool)), String)| {
                let mark =
                    if mark == 0 { String::new() } else { format!(", properties: {{m: {mark}}}") };
                format!("{{name: {name}, parent: {parent}{mark}, queues: [{below}]}}")
            };
            let all = names.into_iter().zip(marks).zip(below);
            all.map(queue).collect::<Vec<_>>().join(", ")
        })
        .boxed()
}

proptest! {
    #[test]
    fn applying_the_changes_gives_the_new_tree(
        old in queues(2),
        between in queues(2),
        new in queues(2),
        busy in prop::collection::vec(any::<bool>(), 3),
    ) {
        let applications = |path: &str| usize::from(busy[path.len() % busy.len()]);
        let mut standing = tree(&root(&old));
        for wanted in [&between, &new] {
            let wanted = root(wanted);
            let made = changes(&standing, &wanted);
            apply(&mut standing, &made);
            prune(&mut standing, applications);
            let (active, draining): (Tree, Tree) = standing
                .clone()
                .into_iter()
                .partition(|(_, queue)| queue.state == ObjectState::Active);
            prop_assert_eq!(&active, &tree(&wanted));
            prop_assert!(draining.values().all(|queue| queue.state == ObjectState::Draining));
            prop_assert_eq!(changes(&standing, &wanted), [], "a second time changes nothing");
        }
        prune(&mut standing, |_| 0);
        prop_assert_eq!(standing, tree(&root(&new)), "once all applications are gone");
    }

    #[test]
    fn equal_trees_give_no_change(queues in queues(2)) {
        prop_assert_eq!(changes(&tree(&root(&queues)), &root(&queues)), []);
    }
}
