//! Tests which limit applies, what is counted, and the headroom: `docs/limits.md`, case by case.

use super::*;
use crate::values::resources::Resources;

#[test]
fn a_named_limit_replaces_the_wildcard_and_each_level_counts_by_itself() {
    check(&[
        (
            "a named limit counts even where it is larger, or leaves a name open that the wildcard limits",
            "root user=ann vcore=100
             root user=* vcore=50 memory=5",
            "join a ann root.x
             join b bob root.x
             ask a
             ask b",
            "a: no group, map[vcore:100], may start
             b: no group, map[memory:5 vcore:50], may start",
        ),
        (
            "each of several users has the full amount, and so has everybody under the wildcard",
            "root user=ann,bob,* vcore=10 apps=1",
            "join a ann root.x
             join b bob root.x
             join c cid root.x
             join d dan root.x
             use a vcore=10
             use c vcore=4
             ask a
             ask b
             ask c
             ask d",
            "a: no group, map[vcore:0], may not start
             b: no group, map[vcore:10], may start
             c: no group, map[vcore:6], may not start
             d: no group, map[vcore:10], may start",
        ),
        (
            "each of several groups has the full amount for all its users, and so has the wildcard",
            "root group=dev,ops,* vcore=10 apps=2",
            "join a ann/dev root.x
             join b bob/dev root.x
             join c cid/ops root.x
             join d dan/sales root.x
             join e eve/legal root.x
             use a vcore=4
             use d vcore=7
             ask b
             ask c
             ask e",
            "b: dev, map[vcore:6], may start
             c: ops, map[vcore:10], may start
             e: *, map[vcore:3], may start",
        ),
        (
            "a named group never falls back to a wildcard elsewhere",
            "root group=ops,* vcore=1
             root.x group=dev vcore=10",
            "join a ann/dev root.x
             join b bob/dev root.y
             ask a
             ask b",
            "a: dev, map[vcore:10], may start
             b: *, map[vcore:1], may start",
        ),
        (
            "a limit above is one for all below; every level has its own",
            "root user=ann vcore=10 apps=3
             root.x user=ann vcore=6 apps=1",
            "join a ann root.x
             join b ann root.y
             use a vcore=3
             use b vcore=6
             ask a
             ask b",
            "a: no group, map[vcore:1], may not start
             b: no group, map[vcore:1], may start",
        ),
        (
            "a user's wildcard below counts beside the user's own limit above",
            "root user=ann vcore=10
             root.x user=* vcore=4",
            "join a ann root.x
             join b ann root.y
             use a vcore=1
             ask a
             ask b",
            "a: no group, map[vcore:3], may start
             b: no group, map[vcore:9], may start",
        ),
    ]);
}

#[test]
fn the_deepest_queue_with_a_limit_for_a_group_of_the_user_decides_which_group_counts() {
    let levels = "root.parent group=test_parent apps=9
                  root group=test_root apps=9";
    let cases = [
        ("no groups", "root group=dev,* apps=1", "ann", "root.x", None),
        ("no limit for any group", "root user=* apps=1", "ann/dev", "root.x", None),
        ("no limit for these groups", "root group=ops apps=1", "ann/dev", "root.x", None),
        ("the order of the limits counts", "root group=b,a apps=1", "ann/a,b", "root.x", Some("b")),
        (
            "over several limits, too",
            "root group=c apps=1; root group=b apps=1; root group=a apps=1",
            "ann/a,b",
            "root.x",
            Some("b"),
        ),
        ("named before wildcard", "root group=a,* apps=1", "ann/a", "root.x", Some("a")),
        ("wildcard for the others", "root group=a,* apps=1", "ann/z", "root.x", Some("*")),
        (
            "a deeper wildcard beats a named group above",
            "root.x group=z,* apps=1; root group=a apps=1",
            "ann/a",
            "root.x",
            Some("*"),
        ),
        (
            "three levels, named in the middle",
            levels,
            "ann/test,test_root,test_parent",
            "root.parent.leaf",
            Some("test_parent"),
        ),
        (
            "three levels, named at root only",
            levels,
            "ann/test,test_root,test_parent",
            "root.other.leaf",
            Some("test_root"),
        ),
        (
            "three levels, not in the middle group",
            levels,
            "ann/test,test_root",
            "root.parent.leaf",
            Some("test_root"),
        ),
        (
            "dynamic queues are looked up by those above",
            "root.users group=dev apps=1",
            "ann/dev",
            "root.users.ann.today",
            Some("dev"),
        ),
        ("the longer name is another queue", "root.ab group=dev apps=1", "ann/dev", "root.a", None),
    ];
    for (name, limits, who, leaf, expected) in cases {
        let mut world = World::new(limits);
        world.join("a", who, leaf);
        assert_eq!(world.applications["a"].group.as_deref(), expected, "{name}");
    }
}

#[test]
fn use_is_counted_on_every_level_and_never_refused() {
    check(&[
        (
            "more, resized both ways, less, and the last is gone",
            "root.x user=ann vcore=10",
            "join a ann/dev root.x.y
             usage user ann
             use a vcore=3
             use a vcore=2 memory=1
             usage user ann
             use a vcore=-4 memory=1
             usage user ann
             free a vcore=1 memory=2
             usage user ann
             leave a
             usage user ann",
            "root: map[], runs []
             root.x: map[] of map[vcore:10], runs []
             root.x.y: map[], runs []
             root: map[memory:1 vcore:5], runs [a]
             root.x: map[memory:1 vcore:5] of map[vcore:10], runs [a]
             root.x.y: map[memory:1 vcore:5], runs [a]
             root: map[memory:2 vcore:1], runs [a]
             root.x: map[memory:2 vcore:1] of map[vcore:10], runs [a]
             root.x.y: map[memory:2 vcore:1], runs [a]
             root: map[], runs []
             root.x: map[] of map[vcore:10], runs []
             root.x.y: map[], runs []
             root: map[], runs []
             root.x: map[] of map[vcore:10], runs []",
        ),
        (
            "counting is never refused, and what is above the limit shows as less than nothing",
            "root user=ann vcore=2 apps=1; root group=dev,* vcore=3",
            "join a ann/dev root.x
             join b ann/dev root.y
             use a vcore=4
             use b vcore=4
             ask a
             usage group dev",
            "a: dev, map[vcore:-6], may not start
             root: map[vcore:8] of map[vcore:3], runs [a b]
             root.x: map[vcore:4], runs [a]
             root.y: map[vcore:4], runs [b]",
        ),
        (
            "two applications of one lane, each by itself",
            "root group=dev vcore=9",
            "join a ann/dev root.x
             join b ann/dev root.x
             join c bob/dev root.x
             use a vcore=1
             use b vcore=2
             use c vcore=3
             usage user ann
             usage group dev
             free b vcore=2
             leave b
             usage group dev",
            "root: map[vcore:3], runs [a b]
             root.x: map[vcore:3], runs [a b]
             root: map[vcore:6] of map[vcore:9], runs [a b c]
             root.x: map[vcore:6], runs [a b c]
             root: map[vcore:4] of map[vcore:9], runs [a c]
             root.x: map[vcore:4], runs [a c]",
        ),
        (
            "what ends as it began leaves nothing",
            "",
            "join a ann/dev root.x
             join b ann root.x
             tracked
             leave a
             tracked
             leave b
             tracked",
            "tracked: user ann
             tracked: user ann
             tracked: ",
        ),
    ]);
}

#[test]
fn headroom_is_the_least_that_user_and_group_leave_on_every_level() {
    check(&[
        (
            "no limit",
            "",
            "join a ann/dev root.x
             ask a",
            "a: no group, map[], may start",
        ),
        (
            "applications only",
            "root user=ann apps=1",
            "join a ann root.x
             ask a",
            "a: no group, map[], may start",
        ),
        (
            "only names that are limited count, and zeros alone limit nothing",
            "root user=ann vcore=5; root.x user=ann vcore=0 memory=0 apps=7",
            "join a ann root.x
             use a vcore=1 memory=3 gpu=2
             ask a",
            "a: no group, map[vcore:4], may start",
        ),
        (
            "the least of user and group on every level, name by name",
            "root user=ann vcore=9 memory=9; root.x user=ann vcore=8
             root group=dev memory=7; root.x group=dev gpu=1",
            "join a ann/dev root.x
             join b bob/dev root.y
             use b memory=2 gpu=5 vcore=9
             use a vcore=1
             ask a",
            "a: dev, map[gpu:1 memory:5 vcore:7], may start",
        ),
    ]);
}

#[test]
fn running_applications_are_limited_by_user_and_by_group() {
    check(&[
        (
            "by user and by group, on every level",
            "root user=* apps=2; root.x user=ann apps=1; root group=dev,* apps=3",
            "join a ann/dev root.x
             join b ann/dev root.x
             join c ann/dev root.y
             join d bob/dev root.y
             join e cid/dev root.y
             join f dan/ops root.y
             ask a
             use a vcore=1
             ask b
             ask c
             use c vcore=1
             ask c
             use d vcore=1
             ask e
             ask f",
            "a: dev, map[], may start
             b: dev, map[], may not start
             c: dev, map[], may start
             c: dev, map[], may not start
             e: dev, map[], may not start
             f: *, map[], may start",
        ),
        (
            "the last use gone, another may",
            "root user=ann apps=1",
            "join a ann root.x
             join b ann root.y
             use a vcore=2
             ask b
             free a vcore=1
             ask b
             free a vcore=1
             ask b",
            "b: no group, map[], may not start
             b: no group, map[], may not start
             b: no group, map[], may start",
        ),
    ]);
}

const ROWS: &[Case] = &[
    (
        "user1 named 100, wildcard 50 on the same queue",
        "root.a user=user1 memory=100; root.a user=* memory=50",
        "join a user1 root.a
             join b user2 root.a
             ask a
             ask b",
        "a: no group, map[memory:100], may start
             b: no group, map[memory:50], may start",
    ),
    (
        "user limit 100, group limit 50",
        "root user=ann memory=100; root group=dev memory=50",
        "join a ann/dev root.a
             ask a",
        "a: dev, map[memory:50], may start",
    ),
    (
        "user maxapps 1, group maxapps 100, one application with an allocation",
        "root user=ann apps=1; root group=dev apps=100",
        "join a ann/dev root.a
             join b ann/dev root.a
             use a vcore=1
             ask b",
        "b: dev, map[], may not start",
    ),
    (
        "leaf wildcard group, root named group of the user",
        "root.a group=ops,* vcore=5; root group=dev vcore=7",
        "join a ann/dev root.a
             ask a",
        "a: *, map[vcore:5], may start",
    ),
    (
        "two users mapped to the wildcard, limit 10, the first uses 10",
        "root group=ops,* vcore=10",
        "join a ann/dev root.a
             join b bob/sales root.b
             use a vcore=10
             ask b",
        "b: *, map[vcore:0], may start",
    ),
    (
        "two applications of one user in queues with different group limits",
        "root.a group=dev vcore=1; root.b group=ops vcore=2",
        "join a ann/dev,ops root.a
             join b ann/dev,ops root.b
             ask a
             ask b",
        "a: dev, map[vcore:1], may start
             b: ops, map[vcore:2], may start",
    ),
    (
        "limit on the parent, usage in a dynamic child",
        "root.a user=ann vcore=5",
        "join a ann root.a.ann
             use a vcore=2
             ask a
             usage user ann",
        "a: no group, map[vcore:3], may start
             root: map[vcore:2], runs [a]
             root.a: map[vcore:2] of map[vcore:5], runs [a]
             root.a.ann: map[vcore:2], runs [a]",
    ),
    (
        "leaf limit 20, parent limit gpu 1",
        "root.p.leaf user=ann memory=20; root.p user=ann gpu=1",
        "join a ann root.p.leaf
             ask a",
        "a: no group, map[gpu:1 memory:20], may start",
    ),
    (
        "maxresources memory 5, gpu 0",
        "root user=ann memory=5 gpu=0",
        "join a ann root.a
             ask a",
        "a: no group, map[gpu:0 memory:5], may start",
    ),
    (
        "the last use gone, no limits configured",
        "",
        "join a ann/dev root.a
             use a vcore=1
             free a vcore=1
             leave a
             tracked",
        "tracked: ",
    ),
    (
        "the same, named limits configured",
        "root.a user=ann vcore=5; root.a group=dev vcore=6",
        "join a ann/dev root.a
             use a vcore=1
             free a vcore=1
             leave a
             tracked
             usage user ann
             usage group dev",
        "tracked: user ann, group dev
             root: map[], runs []
             root.a: map[] of map[vcore:5], runs []
             root: map[], runs []
             root.a: map[] of map[vcore:6], runs []",
    ),
    (
        "the arithmetic of a placeholder swapped by a smaller real allocation; nothing swaps yet",
        "root user=ann vcore=5",
        "join a ann root.a
             use a vcore=2 memory=2
             use a vcore=-1 memory=-1
             ask a
             usage user ann",
        "a: no group, map[vcore:4], may start
             root: map[memory:1 vcore:1] of map[vcore:5], runs [a]
             root.a: map[memory:1 vcore:1], runs [a]",
    ),
    (
        "user tracked only by checks, application removed without allocation",
        "root user=* vcore=5; root group=ops,* vcore=5",
        "join a ann/dev root.a
             ask a
             tracked
             leave a
             tracked",
        "a: *, map[vcore:5], may start
             tracked: user ann, group *, group ops
             tracked: group *, group ops",
    ),
];

#[test]
fn both_limits_hold_and_none_lifts_the_other() {
    check(ROWS);
}

#[test]
fn a_zero_among_limits_blocks_that_resource() {
    let mut world = World::new("root user=ann memory=5 gpu=0");
    world.join("a", "ann", "root.a");
    let headroom = world.trackers.headroom(world.applications["a"].lane);
    assert!(!headroom.allows(&Resources::of(&[("gpu", 1)])));
    assert!(headroom.allows(&Resources::of(&[("memory", 5), ("gpu", 0), ("vcore", 99)])));
}
