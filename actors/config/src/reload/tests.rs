use crate::dynamic_queue;
use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate as config;

fn root(queues: &str) -> QueueConfig {
    let text = format!("partitions: [{{queues: [{{name: root, queues: [{queues}]}}]}}]");
    let mut parsed = config::parse(&text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    parsed.partitions.remove(0).root
}

/// Returns the queues of a new partition with this configuration.
fn tree(root: &QueueConfig) -> Tree {
    let standing = |config| StandingQueue { config, state: ObjectState::Active };
    flat(root).into_iter().map(|(path, config)| (path, standing(config))).collect()
}

/// Returns the changes that lead from the existing queues to `wanted`.
fn changes(tree: &Tree, wanted: &QueueConfig) -> Vec<QueueChange> {
    super::changes(tree, &flat(wanted))
}

/// Applies the changes as a partition does. Empty draining queues stay.
fn apply(tree: &mut Tree, changes: &[QueueChange]) {
    for change in changes {
        match change {
            QueueChange::Drain(path) => {
                if let Some(standing) = tree.get_mut(path) {
                    standing.state = ObjectState::Draining;
                }
            }
            QueueChange::Set(config) | QueueChange::Add(config) => {
                let standing =
                    StandingQueue { config: Arc::clone(config), state: ObjectState::Active };
                tree.insert(Arc::clone(&config.path), standing);
            }
        }
    }
}

/// Lists the changes between two configurations, line by line.
fn between(old: &str, new: &str) -> String {
    let changes = changes(&tree(&root(old)), &root(new));
    let lines: Vec<_> = changes.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// Adds dynamic queues, with the missing ones above them.
fn add_dynamic(tree: &mut Tree, paths: &[&str]) {
    for path in paths {
        let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            let above = &path[..end];
            if tree.contains_key(above) {
                continue;
            }
            let parent = above.rsplit_once('.').map_or("root", |(parent, _)| parent);
            if tree[parent].config.is_leaf || tree[parent].state == ObjectState::Draining {
                break;
            }
            let config = Arc::new(dynamic_queue(above, end == path.len(), None));
            let state = ObjectState::Active;
            tree.insert(Arc::clone(&config.path), StandingQueue { config, state });
        }
    }
}

/// Removes empty queues as the partition does; dynamic ones only after a while.
fn prune(tree: &mut Tree, applications: impl Fn(&str) -> usize, after_a_while: bool) {
    let paths: Vec<_> = tree.keys().rev().cloned().collect();
    for path in paths {
        let below = format!("{path}.");
        let has_children = tree.keys().any(|other| other.starts_with(&below));
        let is_dynamic = tree[&path].config.is_dynamic;
        let may_go = tree[&path].state == ObjectState::Draining || (is_dynamic && after_a_while);
        if may_go && !has_children && applications(&path) == 0 {
            tree.remove(&path);
        }
    }
}

#[test]
fn queues_drain_bottom_up_and_are_added_top_down() {
    let old = "{name: a, queues: [{name: x}, {name: y}]}, {name: b}";
    let new = "{name: b}, {name: c, queues: [{name: x, queues: [{name: deep}]}]}";
    expect![[r"
        drain root.a.y
        drain root.a.x
        drain root.a
        add root.c
        add root.c.x
        add root.c.x.deep"]]
    .assert_eq(&between(old, new));
}

#[test]
fn a_changed_or_inherited_setting_sets_the_queue() {
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
fn a_common_prefix_is_not_the_same_queue() {
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
fn marking_leaves_dynamic_queues_alone() {
    let mut standing = tree(&root("{name: p, queues: [{name: a}]}, {name: b}"));
    add_dynamic(&mut standing, &["root.p.new", "root.p.more.deep"]);
    let gone = changes(&standing, &root("{name: b}"));
    let shown: Vec<_> = gone.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["drain root.p.a", "drain root.p"]);
    apply(&mut standing, &gone);
    prune(&mut standing, |_| 0, false);
    let states: Vec<_> = standing.iter().map(|(path, queue)| (&**path, queue.state)).collect();
    let (active, draining) = (ObjectState::Active, ObjectState::Draining);
    assert_eq!(
        states,
        [
            ("root", active),
            ("root.b", active),
            ("root.p", draining),
            ("root.p.more", active),
            ("root.p.more.deep", active),
            ("root.p.new", active),
        ]
    );
    prune(&mut standing, |_| 0, true);
    assert_eq!(standing, tree(&root("{name: b}")));
}

#[test]
fn a_configured_dynamic_queue_never_becomes_dynamic_again() {
    let mut standing = tree(&root("{name: p, parent: true}"));
    add_dynamic(&mut standing, &["root.p.x"]);
    let wanted = root("{name: p, queues: [{name: x, resources: {max: {vcore: 1}}}]}");
    let set = changes(&standing, &wanted);
    assert_eq!(set.iter().map(ToString::to_string).collect::<Vec<_>>(), ["set root.p.x"]);
    assert_eq!(check(&standing, &set, |_| 1), Ok(()));
    apply(&mut standing, &set);
    assert_eq!(standing, tree(&wanted));
    let gone = changes(&standing, &root("{name: p, parent: true}"));
    assert_eq!(gone.iter().map(ToString::to_string).collect::<Vec<_>>(), ["drain root.p.x"]);
}

#[test]
fn dynamic_children_prevent_a_change_of_type() {
    let mut standing = tree(&root("{name: p, parent: true}"));
    add_dynamic(&mut standing, &["root.p.x.y"]);
    let refused = |queues: &str| {
        let wanted = changes(&standing, &root(queues));
        check(&standing, &wanted, |_| 0).map_err(|error| error.to_string())
    };
    let error = refused("{name: p}").unwrap_err();
    assert!(error.contains("`root.p` is a parent with dynamic queues"), "{error}");
    assert!(refused("{name: p, queues: [{name: x}]}").is_err(), "a dynamic parent is one as well");
    assert_eq!(refused("{name: p, queues: [{name: x, parent: true}]}"), Ok(()));
    assert_eq!(
        refused("{name: p, queues: [{name: x, queues: [{name: y, parent: true}]}]}"),
        Ok(())
    );
    let wanted = root("{name: p, queues: [{name: x, queues: [{name: y, parent: true}]}]}");
    let busy = check(&standing, &changes(&standing, &wanted), |_| 1);
    assert!(busy.is_err(), "its applications would be in a parent");
}

#[test]
fn a_change_of_type_depends_only_on_the_content_below() {
    let mut standing = tree(&root(
        "{name: a, queues: [{name: x}]}, {name: a-b, queues: [{name: x}]}, {name: ab}, {name: z}",
    ));
    add_dynamic(&mut standing, &["root.a_c"]);
    let wanted = changes(&standing, &root("{name: a}, {name: a-b, parent: true}, {name: ab}"));
    let asked = std::cell::RefCell::new(Vec::new());
    let none = |path: &str| {
        asked.borrow_mut().push(path.to_owned());
        0
    };
    assert_eq!(check(&standing, &wanted, none), Ok(()));
    assert_eq!(asked.into_inner(), ["root.a", "root.a.x"]);
    for others in ["root.a-b", "root.a-b.x", "root.ab", "root.a_c", "root.z", "root"] {
        assert_eq!(check(&standing, &wanted, |path| usize::from(path == others)), Ok(()));
    }
}

#[test]
fn a_queue_with_applications_may_drain_and_change_otherwise() {
    let standing = tree(&root("{name: leaf}, {name: other}"));
    let wanted = changes(&standing, &root("{name: other, maxapplications: 1}"));
    assert_eq!(check(&standing, &wanted, |_| 1), Ok(()));
}

/// Generates queues in flow style, up to three levels, with settings that distinguish them.
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
        dynamic in prop::collection::vec("root(\\.(a|b|ab|d)){1,4}", 0..5),
    ) {
        let applications = |path: &str| usize::from(busy[path.len() % busy.len()]);
        let mut standing = tree(&root(&old));
        let dynamic: Vec<&str> = dynamic.iter().map(String::as_str).collect();
        for wanted in [&between, &new] {
            add_dynamic(&mut standing, &dynamic);
            let wanted = root(wanted);
            let before = standing.clone();
            let made = changes(&standing, &wanted);
            apply(&mut standing, &made);
            prune(&mut standing, applications, false);
            let configured = tree(&wanted);
            for (path, queue) in &configured {
                prop_assert_eq!(&standing[path], queue);
            }
            for (path, queue) in standing.iter().filter(|(path, _)| !configured.contains_key(*path)) {
                if queue.config.is_dynamic {
                    prop_assert_eq!(queue, &before[path], "not touched");
                } else {
                    prop_assert_eq!(queue.state, ObjectState::Draining);
                    prop_assert!(!before[path].config.is_dynamic, "never dynamic again");
                }
            }
            let kept = before.iter().filter(|(path, queue)| {
                queue.config.is_dynamic && !configured.contains_key(*path)
            });
            prop_assert!(kept.map(|(path, _)| path).all(|path| standing.contains_key(path)));
            prop_assert_eq!(changes(&standing, &wanted), [], "a second time changes nothing");
        }
        prune(&mut standing, |_| 0, true);
        prop_assert_eq!(standing, tree(&root(&new)), "once all applications are gone");
    }

    #[test]
    fn checked_changes_keep_applications_in_leaves(
        old in queues(1),
        new in queues(1),
        dynamic in prop::collection::vec("root(\\.(a|b|ab|d)){1,3}", 0..5),
        busy in any::<[bool; 4]>(),
    ) {
        let mut standing = tree(&root(&old));
        let dynamic: Vec<&str> = dynamic.iter().map(String::as_str).collect();
        add_dynamic(&mut standing, &dynamic);
        let before = standing.clone();
        let applications = |path: &str| {
            let is_leaf = before.get(path).is_some_and(|queue| queue.config.is_leaf);
            usize::from(is_leaf && busy[path.len() % busy.len()])
        };
        let made = changes(&standing, &root(&new));
        prop_assume!(check(&standing, &made, applications).is_ok());
        apply(&mut standing, &made);
        prune(&mut standing, applications, false);
        for (path, queue) in &standing {
            prop_assert!(applications(path) == 0 || queue.config.is_leaf, "{}", path);
            if let Some((above, _)) = path.rsplit_once('.') {
                prop_assert!(!standing[above].config.is_leaf, "{} below a leaf", path);
            }
        }
    }

    #[test]
    fn equal_trees_give_no_change(queues in queues(2)) {
        prop_assert_eq!(changes(&tree(&root(&queues)), &root(&queues)), []);
    }
}
