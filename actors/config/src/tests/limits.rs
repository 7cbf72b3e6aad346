//! Limits of users and groups.

use monoceros_rules::values::resources::Limits;

use proptest::prelude::*;

use super::*;

/// Returns a partition whose root has these limits and these queues below it, both in flow style.
fn tree(limits: &str, below: &str) -> String {
    format!("partitions: [{{queues: [{{name: root, limits: [{limits}], queues: [{below}]}}]}}]")
}

/// Returns a leaf with these limits and nothing else.
fn on_a_leaf(limits: &str) -> String {
    tree("", &format!("{{name: a, limits: [{limits}]}}"))
}

fn limits_of(text: &str, path: &str) -> Vec<LimitConfig> {
    queue(&parsed(text), path).limits.clone()
}

#[test]
fn limits_of_the_partition_are_those_of_its_root() {
    let limits = "[{limit: all, users: [bob, '*'], maxapplications: 3}]";
    for queues in ["[{name: root}]", "[]", "[{name: a}]", "[{name: root, limits: []}]"] {
        let text = format!("partitions: [{{limits: {limits}, queues: {queues}}}]");
        let [limit] = &*limits_of(&text, "root") else { panic!("one limit") };
        assert_eq!(limit.description, "all");
        assert_eq!((&*limit.users, limit.max_applications), (&["bob".into(), "*".into()][..], 3));
    }
    let text = format!("partitions: [{{queues: [{{name: root, limits: {limits}}}]}}]");
    assert_eq!(limits_of(&text, "root").len(), 1);
    assert_eq!(parsed(&text).shown.partitions[0].limits, [], "that list stays empty");
}

#[test]
fn limits_of_partition_and_root_are_the_same_or_refused() {
    let text = |partition: &str, root: &str| {
        format!(
            "partitions: [{{limits: [{partition}], queues: [{{name: root, limits: [{root}]}}]}}]"
        )
    };
    let a = "{limit: a, users: [bob], maxresources: {memory: 5, vcore: 1}}";
    let b = "{limit: b, groups: [dev], maxapplications: 3}";
    let both = format!("{a}, {b}");
    assert_eq!(codes(&text(&both, &both)), [""; 0]);
    assert_eq!(limits_of(&text(&both, &both), "root").len(), 2, "once");
    for (other, what) in [
        (format!("{b}, {a}"), "order"),
        (a.to_owned(), "number"),
        (both.replace("limit: a", "limit: c"), "description"),
        (both.replace("bob", "ann"), "user"),
        (both.replace("vcore: 1", "vcore: 1000m"), "spelling"),
        (both.replace("maxapplications: 3", "maxapplications: 4"), "applications"),
    ] {
        assert_eq!(codes(&text(&both, &other)), ["E_LIMITS_DIFFER"], "{what}");
    }
    let reordered = "{limit: a, users: [bob], maxresources: {vcore: 1, memory: 5}}";
    assert_eq!(codes(&text(a, reordered)), [""; 0], "the order of types means nothing");
}

#[test]
fn a_limit_needs_unique_subjects_and_amounts() {
    let max = "maxapplications: 1";
    for (limits, expected) in [
        // At least one user or group is named.
        (format!("{{limit: x, {max}}}"), "E_LIMIT_NO_SUBJECT"),
        (format!("{{users: [], groups: [], {max}}}"), "E_LIMIT_NO_SUBJECT"),
        // Names of users.
        (format!("{{users: [\"1a\"], {max}}}"), "E_LIMIT_USER_NAME"),
        (format!("{{users: [\"\"], {max}}}"), "E_LIMIT_USER_NAME"),
        (format!("{{users: [null], {max}}}"), "E_LIMIT_USER_NAME"),
        (format!("{{users: [\"a$b\"], {max}}}"), "E_LIMIT_USER_NAME"),
        (format!("{{users: [\"**\"], {max}}}"), "E_LIMIT_USER_NAME"),
        (format!("{{users: [\"a:b#c/d_e.f@g-h$\"], {max}}}"), ""),
        // A user is named once on a queue.
        (format!("{{users: [bob, bob], {max}}}"), "E_LIMIT_USER_DUP"),
        (format!("{{users: [bob], {max}}}, {{users: [bob], {max}}}"), "E_LIMIT_USER_DUP"),
        (format!("{{users: [\"*\"], {max}}}, {{users: [\"*\"], {max}}}"), "E_LIMIT_USER_DUP"),
        (format!("{{users: [bob, Bob], {max}}}"), ""),
        // Nobody is named after the wildcard.
        (format!("{{users: [\"*\", bob], {max}}}"), "E_LIMIT_USER_AFTER_WILDCARD"),
        (
            format!("{{users: [\"*\"], {max}}}, {{users: [bob], {max}}}"),
            "E_LIMIT_USER_AFTER_WILDCARD",
        ),
        // Names of groups.
        (format!("{{groups: [\"a@b\"], {max}}}"), "E_LIMIT_GROUP_NAME"),
        (format!("{{groups: [\"a$\"], {max}}}"), "E_LIMIT_GROUP_NAME"),
        (format!("{{groups: [\"a:b_c.d-e\"], {max}}}"), ""),
        // A group is named once on a queue, and not after the wildcard.
        (format!("{{groups: [dev, dev], {max}}}"), "E_LIMIT_GROUP_DUP"),
        (format!("{{groups: [dev, \"*\", \"*\"], {max}}}"), "E_LIMIT_GROUP_DUP"),
        (format!("{{groups: [dev, \"*\", ops], {max}}}"), "E_LIMIT_GROUP_AFTER_WILDCARD"),
        // The wildcard must not be the only group.
        (format!("{{groups: [\"*\"], {max}}}"), "E_LIMIT_GROUP_ONLY_WILDCARD"),
        (format!("{{users: [bob], groups: [\"*\"], {max}}}"), "E_LIMIT_GROUP_ONLY_WILDCARD"),
        (format!("{{groups: [dev], {max}}}, {{groups: [\"*\"], {max}}}"), ""),
        // Quantities can be read, and are not all zero.
        ("{users: [a], maxresources: {memory: 1.5}}".to_owned(), "E_QTY_INVALID"),
        ("{users: [a], maxresources: {memory: 4K}}".to_owned(), "E_QTY_SUFFIX"),
        ("{users: [a], maxresources: {memory: 99E}}".to_owned(), "E_QTY_OVERFLOW"),
        ("{users: [a], maxresources: {memory: 0, vcore: 0}}".to_owned(), "E_LIMIT_RES_ZERO"),
        (
            "{users: [a], maxresources: {memory: 0}, maxapplications: 1}".to_owned(),
            "E_LIMIT_RES_ZERO",
        ),
        // At least one limit is set.
        ("{users: [a]}".to_owned(), "E_LIMIT_EMPTY"),
        ("{users: [a], maxresources: {}, maxapplications: 0}".to_owned(), "E_LIMIT_EMPTY"),
        // A user and a group may have the same name.
        (format!("{{users: [a], groups: [a], {max}}}"), ""),
    ] {
        let expected: Vec<&str> = [expected].into_iter().filter(|code| !code.is_empty()).collect();
        assert_eq!(codes(&on_a_leaf(&limits)), expected, "{limits}");
        assert_eq!(codes(&tree(&limits, "")), expected, "{limits}, on root");
    }
}

#[test]
fn limits_are_bounded_by_the_queue() {
    let leaf = |queue: &str, limit: &str| {
        tree("", &format!("{{name: a, {queue}, limits: [{{users: [u], {limit}}}]}}"))
    };
    for (queue, limit, expected) in [
        ("maxapplications: 5", "maxapplications: 6", "E_LIMIT_APPS_GT_QUEUE"),
        ("maxapplications: 5", "maxapplications: 5", ""),
        ("maxapplications: 0", "maxapplications: 6", ""),
        ("maxapplications: 5", "maxresources: {memory: 1}", ""),
        ("resources: {max: {memory: 5}}", "maxresources: {memory: 6}", "E_LIMIT_RES_GT_QUEUE"),
        ("resources: {max: {memory: 5}}", "maxresources: {memory: 5, vcore: 9}", ""),
        ("resources: {max: {memory: 0}}", "maxresources: {memory: 5}", "E_LIMIT_RES_GT_QUEUE"),
    ] {
        let expected: Vec<&str> = [expected].into_iter().filter(|code| !code.is_empty()).collect();
        assert_eq!(codes(&leaf(queue, limit)), expected, "{queue} {limit}");
    }
    let own_max = tree(
        "",
        "{name: a, resources: {max: {memory: 5}}, queues: [{name: b, limits: [{users: [u], \
         maxresources: {memory: 6}}]}]}",
    );
    assert_eq!(codes(&own_max), [""; 0], "only its own max counts, not one above");
}

/// The report points at the first limit that needs the maximum.
#[test]
fn an_unreadable_max_is_reported_once() {
    let text = tree(
        "",
        "{name: a, resources: {guaranteed: {vcore: x}, max: {memory: 5X}}, limits: [{users: [u], \
         maxresources: {memory: 6}}, {users: [v], maxresources: {memory: 6}}]}, {name: a.b}",
    );
    let errors = parse(&text).unwrap_err();
    let found: Vec<_> = errors.reported.iter().map(|e| (e.code, &*e.path)).collect();
    let at = |rest: &str| format!("partitions[0].queues[0].queues{rest}");
    let (max, name, guaranteed) =
        (at("[0].resources.max.memory"), at("[1].name"), at("[0].resources.guaranteed.vcore"));
    // The names of root's children are checked before the limits of a child.
    let expected =
        [("E_QUEUE_NAME", &*name), ("E_QTY_INVALID", &*max), ("E_QTY_INVALID", &*guaranteed)];
    assert_eq!(found, expected);
    assert!(errors.reported[1].message.contains("`root.a`"));
}

#[test]
fn a_wildcard_comes_last_and_zeros_alone_are_no_limit() {
    let max = "maxapplications: 1";
    for (limit, expected) in [
        ("users: [\"*\", bob], maxapplications: 1", "E_LIMIT_USER_AFTER_WILDCARD"),
        ("users: [bob, \"*\"], maxapplications: 1", ""),
        ("groups: [\"*\"], maxapplications: 1", "E_LIMIT_GROUP_ONLY_WILDCARD"),
        ("groups: [dev, \"*\"], maxapplications: 1", ""),
        ("users: [u], maxresources: {memory: 0}", "E_LIMIT_RES_ZERO"),
        ("users: [u], maxresources: {memory: 5, gpu: 0}", ""),
        ("users: [u], maxapplications: 0", "E_LIMIT_EMPTY"),
    ] {
        let expected: Vec<&str> = [expected].into_iter().filter(|code| !code.is_empty()).collect();
        assert_eq!(codes(&on_a_leaf(&format!("{{{limit}}}"))), expected, "{limit}");
    }
    let [limit] =
        &*limits_of(&on_a_leaf("{users: [u], maxresources: {memory: 5, gpu: 0}}"), "root.a")
    else {
        panic!("one limit")
    };
    assert_eq!(limit.max_resources, Some(Limits::of(&[("memory", 5), ("gpu", 0)])));
    let siblings = tree(
        "",
        &format!(
            "{{name: a, limits: [{{users: [u], {max}}}]}}, {{name: b, limits: [{{users: [u], {max}}}]}}"
        ),
    );
    assert_eq!(codes(&siblings), [""; 0], "the same user on two siblings");
}

#[test]
fn limits_are_bounded_by_queues_above() {
    let two = |root: &str, leaf: &str| {
        tree(&format!("{{{root}}}"), &format!("{{name: a, limits: [{{{leaf}}}]}}"))
    };
    let user = |rest: &str| format!("users: [user1], {rest}");
    let all = |rest: &str| format!("users: [\"*\"], {rest}");
    for (root, leaf, expected) in [
        (user("maxapplications: 500"), user("maxapplications: 900"), "E_LIMIT_APPS_GT_ANCESTOR"),
        (
            all("maxresources: {memory: 10000}"),
            user("maxresources: {memory: 90000}"),
            "E_LIMIT_RES_GT_WILDCARD",
        ),
        (user("maxapplications: 5"), user("maxresources: {memory: 1}"), "E_LIMIT_APPS_GT_ANCESTOR"),
        (
            user("maxresources: {memory: 5}"),
            user("maxresources: {memory: 6}"),
            "E_LIMIT_RES_GT_ANCESTOR",
        ),
        (all("maxapplications: 5"), user("maxapplications: 6"), "E_LIMIT_APPS_GT_WILDCARD"),
        (all("maxapplications: 5"), all("maxapplications: 6"), "E_LIMIT_APPS_GT_ANCESTOR"),
        // `*` is compared with `*` alone. A type without a limit above is not compared.
        (user("maxapplications: 5"), all("maxapplications: 6"), ""),
        (user("maxresources: {memory: 5}"), user("maxresources: {vcore: 6}"), ""),
        (user("maxapplications: 5"), user("maxapplications: 5"), ""),
        (user("maxresources: {memory: 1}"), user("maxapplications: 6"), ""),
    ] {
        let expected: Vec<&str> = [expected].into_iter().filter(|code| !code.is_empty()).collect();
        assert_eq!(codes(&two(&root, &leaf)), expected, "{root} above {leaf}");
        let groups = |limit: &str| {
            limit.replace("users: [\"*\"]", "groups: [g, \"*\"]").replace("users:", "groups:")
        };
        // A wildcard of groups needs a named group, which is compared as well.
        let mut found = codes(&two(&groups(&root), &groups(&leaf)));
        found.dedup();
        assert_eq!(found, expected, "{root} above {leaf}, for groups");
    }
}

#[test]
fn limits_reach_through_queues_without_limits() {
    let three = |root: &str, middle: &str, leaf: &str| {
        tree(
            root,
            &format!(
                "{{name: a, limits: [{middle}], queues: [{{name: b, limits: [{leaf}]}}]}}, {{name: \
                 c, limits: [{{users: [v], maxresources: {{memory: 70, vcore: 70}}}}]}}"
            ),
        )
    };
    let user = |resources: &str| format!("{{users: [u], maxresources: {resources}}}");
    for (root, middle, leaf, expected) in [
        (user("{memory: 5}"), String::new(), user("{memory: 6}"), "E_LIMIT_RES_GT_ANCESTOR"),
        // The queues below get the lesser of both limits.
        (
            user("{memory: 5}"),
            user("{memory: 4, vcore: 2}"),
            user("{memory: 4, vcore: 3}"),
            "E_LIMIT_RES_GT_ANCESTOR",
        ),
        (user("{memory: 5}"), user("{vcore: 2}"), user("{memory: 6}"), "E_LIMIT_RES_GT_ANCESTOR"),
        // A user compared with `*` hands down its own limit, not that of `*`.
        (
            "{users: [\"*\"], maxresources: {memory: 5}}".to_owned(),
            user("{vcore: 2}"),
            user("{memory: 6, vcore: 2}"),
            "",
        ),
    ] {
        let text = three(&root, &middle, &leaf);
        let mut codes = codes(&text);
        codes.retain(|code| *code != "E_LIMIT_RES_GT_WILDCARD"); // of queue `c`
        let expected: Vec<&str> = [expected].into_iter().filter(|code| !code.is_empty()).collect();
        assert_eq!(codes, expected, "{root} {middle} {leaf}");
    }
    // Limits handed down to one child do not apply to its siblings.
    let text = tree(
        "",
        "{name: a, limits: [{users: [v], maxresources: {memory: 1}}], queues: [{name: b}]}, {name: \
         c, limits: [{users: [v], maxresources: {memory: 2}}]}",
    );
    assert_eq!(codes(&text), [""; 0]);
}

#[test]
fn limits_of_one_queue_are_not_compared_with_each_other() {
    let text = on_a_leaf(
        "{users: [u], maxapplications: 9}, {groups: [g], maxapplications: 7}, {users: [\"*\"], \
         maxapplications: 1}",
    );
    assert_eq!(codes(&text), [""; 0]);
}

#[test]
fn all_resources_are_compared_before_any_number_of_applications() {
    let limit = |n: u32, who: &str| {
        format!("{{{who}, maxresources: {{memory: {n}}}, maxapplications: {n}}}")
    };
    let text = tree(
        &format!("{}, {}", limit(1, "users: [u]"), limit(1, "groups: [g]")),
        &format!(
            "{{name: a, limits: [{}], queues: [{{name: b, limits: [{}]}}]}}",
            limit(2, "users: [u]"),
            limit(3, "groups: [g]")
        ),
    );
    let errors = parse(&text).unwrap_err();
    let found: Vec<_> =
        errors.reported.iter().map(|e| (e.code, e.path.matches("queues").count())).collect();
    let expected = [
        ("E_LIMIT_RES_GT_ANCESTOR", 2),
        ("E_LIMIT_RES_GT_ANCESTOR", 3),
        ("E_LIMIT_APPS_GT_ANCESTOR", 2),
        ("E_LIMIT_APPS_GT_ANCESTOR", 3),
    ];
    assert_eq!(found, expected);
}

#[test]
fn many_limits_in_many_queues_are_linear() {
    let users: Vec<String> = (0..10_000).map(|n| format!("u{n}")).collect();
    let queues: Vec<String> = (0..5_000).map(|n| format!("{{name: q{n}}}")).collect();
    let text =
        tree(&format!("{{users: [{}], maxapplications: 1}}", users.join(", ")), &queues.join(", "));
    // Fifty million copies would take too long for this test to pass.
    assert_eq!(limits_of(&text, "root")[0].users.len(), 10_000);
}

/// A queue of the model: its parent (`None` for root), and its limits by name: memory and number of
/// applications, 0 if unlimited.
#[derive(Clone, Debug)]
struct Location {
    above: Option<usize>,
    allows: Vec<(&'static str, u32, u32)>,
}

/// Generates queues, each below an earlier one, that limit some of three names, `*` last.
fn places() -> impl Strategy<Value = Vec<Location>> {
    let allowed = prop::option::weighted(0.5, (0..4_u32, 0..4_u32));
    let one = (any::<prop::sample::Index>(), prop::array::uniform3(allowed));
    prop::collection::vec(one, 1..9).prop_map(|raw| {
        let place = |(number, (above, allowed)): (usize, (prop::sample::Index, [_; 3]))| Location {
            above: (number > 0).then(|| above.index(number)),
            allows: ["u", "v", "*"]
                .into_iter()
                .zip(allowed)
                .filter_map(|(name, allowed): (_, Option<(u32, u32)>)| {
                    allowed.filter(|both| *both != (0, 0)).map(|(m, n)| (name, m, n))
                })
                .collect(),
        };
        raw.into_iter().enumerate().map(place).collect()
    })
}

fn write(places: &[Location], at: usize) -> String {
    let limits: Vec<String> = (places[at].allows.iter())
        .map(|(name, memory, n)| {
            let resources = if *memory == 0 {
                String::new()
            } else {
                format!("maxresources: {{memory: {memory}}}, ")
            };
            format!("{{users: [\"{name}\"], {resources}maxapplications: {n}}}")
        })
        .collect();
    let below: Vec<String> = (0..places.len())
        .filter(|child| places[*child].above == Some(at))
        .map(|child| write(places, child))
        .collect();
    let name = if at == 0 { "root".to_owned() } else { format!("q{at}") };
    format!("{{name: {name}, limits: [{}], queues: [{}]}}", limits.join(", "), below.join(", "))
}

/// Compares each entry with the nearest queue above that limits the same name, else `*`.
fn faults(places: &[Location]) -> Vec<&'static str> {
    fn find(places: &[Location], at: usize, name: &str) -> Option<(usize, u32, u32)> {
        let entry = places[at].allows.iter().find(|entry| entry.0 == name);
        entry
            .map(|(_, memory, n)| (at, *memory, *n))
            .or_else(|| find(places, places[at].above?, name))
    }
    /// The memory limit that applies below `at`; 0 is unlimited.
    fn memory(places: &[Location], at: usize, name: &str) -> u32 {
        let (_, own, _) = find(places, at, name).unwrap();
        let inherited = places[at]
            .above
            .and_then(|above| find(places, above, name))
            .map_or(0, |(above, ..)| memory(places, above, name));
        if own == 0 || inherited == 0 { own.max(inherited) } else { own.min(inherited) }
    }
    let mut faults = Vec::new();
    for place in places {
        let Some(above) = place.above else { continue };
        for (name, own_memory, own_n) in &place.allows {
            let (compared, is_own) = match find(places, above, name) {
                Some(found) => (found, true),
                None => match find(places, above, "*") {
                    Some(found) => (found, false),
                    None => continue,
                },
            };
            let (at, _, n) = compared;
            let most = memory(places, at, if is_own { name } else { "*" });
            if *own_memory != 0 && most != 0 && *own_memory > most {
                faults.push(if is_own {
                    "E_LIMIT_RES_GT_ANCESTOR"
                } else {
                    "E_LIMIT_RES_GT_WILDCARD"
                });
            }
            if n != 0 && (*own_n == 0 || *own_n > n) {
                faults.push(if is_own {
                    "E_LIMIT_APPS_GT_ANCESTOR"
                } else {
                    "E_LIMIT_APPS_GT_WILDCARD"
                });
            }
        }
    }
    faults.sort_unstable();
    faults
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_walk_agrees_with_looking_upward(places in places()) {
        let text = format!("partitions: [{{queues: [{}]}}]", write(&places, 0));
        let mut found = codes(&text);
        found.sort_unstable();
        prop_assert_eq!(found, faults(&places), "{}", text);
    }
}
