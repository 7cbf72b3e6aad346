//! Tests of a reload of limits while applications run:
//! `docs/limits.md#other-limits-while-applications-run`, case by case.

use std::sync::Arc;

use super::*;
use crate::values::epoch::Loosening;

#[test]
fn every_place_has_the_new_limit_and_every_named_one_a_tracker() {
    check(&[
        (
            "set, changed and removed are told in order",
            "root user=ann,* vcore=5; root.a user=bob vcore=3; root group=dev,* apps=4",
            "join a cid/sales root.a
             reload root.a user=bob vcore=2; root.a user=dan,* apps=1; root group=ops,* apps=4
             tracked
             usage user cid",
            "removed user ann root
             removed user bob root
             set user bob root.a
             removed user cid root
             set user cid root.a
             set user dan root.a
             set group * root
             removed group dev root
             set group ops root
             tracked: user bob, user cid, user dan, group *, group ops
             root: map[], runs []
             root.a: map[], runs [] of 1",
        ),
        (
            "the same limits are applied again, and told",
            "root user=ann vcore=5; root group=dev,* vcore=5",
            "join a ann/sales root.a
             reload root user=ann vcore=5; root group=dev,* vcore=5
             ask a",
            "set user ann root
             set group * root
             set group dev root
             a: *, map[vcore:5], may start",
        ),
        (
            "no limits any more: only who has an application is tracked",
            "root user=ann,bob vcore=5; root.a group=dev,* vcore=5",
            "join a ann root.a
             reload
             tracked
             ask a",
            "removed user ann root
             removed user bob root
             removed group * root.a
             removed group dev root.a
             tracked: user ann
             a: no group, map[], may start",
        ),
        (
            "places of dynamic queues get the limits of wildcards on their parents",
            "",
            "join a ann root.a.x
             use a vcore=2
             reload root.a user=* vcore=5
             ask a",
            "set user ann root.a
             a: no group, map[vcore:3], may start",
        ),
    ]);
}

const MOVES: &[Case] = &[
    (
        "to another group, to the wildcard, to none; others below other limits stay",
        "root group=dev vcore=90
             root.a group=dev,ops vcore=50
             root.b group=dev vcore=40",
        "join a1 ann/dev,ops root.a
             join a2 bob/dev root.a
             join b1 ann/dev root.b
             use a1 vcore=1
             use a2 vcore=2
             use b1 vcore=4
             reload root group=dev vcore=90; root.a group=ops vcore=50; root.b group=dev vcore=40
             ask a1
             ask a2
             ask b1
             usage group dev
             usage group ops
             usage user ann",
        "set group dev root
             removed group dev root.a
             set group dev root.b
             set group ops root.a
             a1: ops, map[vcore:49], may start
             a2: dev, map[vcore:84], may start
             b1: dev, map[vcore:36], may start
             root: map[vcore:6] of map[vcore:90], runs [a2 b1]
             root.a: map[vcore:2], runs [a2]
             root.b: map[vcore:4] of map[vcore:40], runs [b1]
             root: map[vcore:1], runs [a1]
             root.a: map[vcore:1] of map[vcore:50], runs [a1]
             root: map[vcore:5], runs [a1 b1]
             root.a: map[vcore:1], runs [a1]
             root.b: map[vcore:4], runs [b1]",
    ),
    (
        "what comes later balances: nothing stays behind, nothing is below zero",
        "root group=dev vcore=9",
        "join a ann/dev,ops root.a
             use a vcore=5
             reload root group=ops vcore=9
             usage group dev
             free a vcore=2
             usage group ops
             free a vcore=3
             leave a
             usage group ops
             tracked",
        "removed group dev root
             set group ops root
             dev is not tracked
             root: map[vcore:3] of map[vcore:9], runs [a]
             root.a: map[vcore:3], runs [a]
             root: map[] of map[vcore:9], runs []
             tracked: group ops",
    ),
    (
        "without another group it counts for its user alone",
        "root group=dev vcore=9 apps=1; root user=ann vcore=7",
        "join a ann/dev root.a
             use a vcore=5
             reload root user=ann vcore=7
             ask a
             free a vcore=5
             leave a
             tracked",
        "set user ann root
             removed group dev root
             a: no group, map[vcore:2], may start
             tracked: user ann",
    ),
    (
        "removed above, still limited below: it stays, and is counted as before",
        "root group=dev vcore=9; root.a group=dev vcore=8",
        "join a ann/dev root.a
             use a vcore=5
             reload root.a group=dev vcore=8
             ask a
             usage group dev",
        "removed group dev root
             set group dev root.a
             a: dev, map[vcore:3], may start
             root: map[vcore:5], runs [a]
             root.a: map[vcore:5] of map[vcore:8], runs [a]",
    ),
    (
        "two users of one lane of a group, of different other groups",
        "root group=dev vcore=9",
        "join a ann/dev root.a
             join b ann/dev,ops root.a
             use a vcore=1
             use b vcore=2
             reload root group=ops,* vcore=9
             ask a
             ask b",
        "set group * root
             removed group dev root
             set group ops root
             a: *, map[vcore:8], may start
             b: ops, map[vcore:7], may start",
    ),
];

#[test]
fn a_group_that_lost_its_limit_loses_exactly_what_moves() {
    check(MOVES);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn a_reload_changes_limits_at_once_and_leaves_groups_that_are_limited() {
    check(&[
        (
            "linked, then a matching named group is added: the link stays, the next counts for the new",
            "root group=dev vcore=9",
            "join a ann/dev,ops root.a
             use a vcore=1
             reload root group=dev vcore=9; root.a group=ops vcore=5
             join b ann/dev,ops root.a
             use a vcore=1
             ask a
             ask b",
            "set group dev root
             set group ops root.a
             a: dev, map[vcore:7], may start
             b: ops, map[vcore:5], may start",
        ),
        (
            "without a group, then one is limited: what runs counts, as if it came now",
            "",
            "join a ann/dev root.a
             join c cid/ops root.a
             join d dan root.a
             use a vcore=60
             use c vcore=1
             reload root group=dev vcore=50 apps=1
             join b ann/dev root.a
             ask a
             ask b
             ask c
             ask d
             usage group dev",
            "set group dev root
             a: dev, map[vcore:-10], may not start
             b: dev, map[vcore:-10], may not start
             c: no group, map[], may start
             d: no group, map[], may start
             root: map[vcore:60] of map[vcore:50], runs [a] of 1
             root.a: map[vcore:60], runs [a]",
        ),
        (
            "the wildcard takes all who have groups and count for none",
            "root.a group=ops vcore=9",
            "join a ann/dev root.a
             join b bob/ops root.a
             join c cid root.a
             use a vcore=2
             use b vcore=3
             reload root.a group=ops,* vcore=9
             ask a
             ask b
             ask c",
            "set group * root.a
             set group ops root.a
             a: *, map[vcore:7], may start
             b: ops, map[vcore:6], may start
             c: no group, map[], may start",
        ),
        (
            "a limit goes, and later another of their groups has one",
            "root group=g1 vcore=9",
            "join a ann/g0,g1 root.a
             use a vcore=4
             reload
             ask a
             reload root.a group=g0 vcore=5
             ask a
             reload root.a group=g0,g1 vcore=5
             ask a
             reload root.b group=g0 vcore=5
             ask a
             reload root group=g0 vcore=6; root.b group=g0 vcore=5
             ask a",
            "removed group g1 root
             a: no group, map[], may start
             set group g0 root.a
             a: g0, map[vcore:1], may start
             set group g0 root.a
             set group g1 root.a
             a: g0, map[vcore:1], may start
             removed group g0 root.a
             set group g0 root.b
             removed group g1 root.a
             a: no group, map[], may start
             set group g0 root
             set group g0 root.b
             a: g0, map[vcore:2], may start",
        ),
        (
            "usage 50, limit lowered to 40",
            "root user=ann memory=60",
            "join a ann root.a
             use a memory=50
             reload root user=ann memory=40
             ask a
             usage user ann",
            "set user ann root
             a: no group, map[memory:-10], may start
             root: map[memory:50] of map[memory:40], runs [a]
             root.a: map[memory:50], runs [a]",
        ),
        (
            "wildcard removed while a named limit stays",
            "root user=ann,* memory=10",
            "join a ann root.a
             join b bob root.a
             reload root user=ann memory=10
             ask a
             ask b
             join c cid root.a
             ask c",
            "set user ann root
             removed user bob root
             a: no group, map[memory:10], may start
             b: no group, map[], may start
             c: no group, map[], may start",
        ),
    ]);
}

#[test]
fn a_queue_may_become_limited_and_unlimited() {
    let mut world = World::new("");
    world.join("a", "ann/dev", "root.a");
    for (limits, is_limited) in [
        ("root.b user=* vcore=1", false),
        ("root.b user=* vcore=1; root group=qa vcore=1", false),
        ("root.b user=* vcore=1; root group=dev vcore=1", true),
        ("root.a user=bob vcore=1", false),
        ("root user=* apps=7", true),
        ("", false),
    ] {
        world.play(&format!("reload {limits}"));
        let lane = world.applications["a"].lane;
        assert_eq!(world.trackers.is_limited(lane), is_limited, "{limits}");
    }
}

#[test]
fn a_reload_is_a_loosening_for_every_lane_only_where_limits_change() {
    let mut world = World::new("root user=ann vcore=2");
    world.join("a", "ann", "root.a");
    let loosened = |world: &World| world.trackers.loosened(world.applications["a"].lane).number();
    let tables = |limits: &str| Arc::new(Tables::of(&tree(limits)));
    assert_eq!(
        world.trackers.reload(&tables("root user=ann vcore=2"), Loosening::numbered(7)),
        None
    );
    assert_eq!(loosened(&world), 0);
    assert!(
        world.trackers.reload(&tables("root user=ann vcore=3"), Loosening::numbered(8)).is_some()
    );
    assert_eq!(loosened(&world), 8);
}

#[test]
fn a_reload_concerns_only_leaves_under_other_limits() {
    let before = "root group=dev vcore=9; root.a user=ann vcore=5; root.b user=* vcore=5";
    let applications = [("a", "ann", "root.a"), ("b", "bob", "root.b"), ("c", "cid/dev", "root.c")];
    let cases = [
        ("the same", before, &[][..]),
        (
            "raised",
            "root group=dev vcore=9; root.a user=ann vcore=6; root.b user=* vcore=5",
            &["root.a"],
        ),
        ("gone", "root group=dev vcore=9; root.b user=* vcore=5", &["root.a"]),
        (
            "named",
            "root group=dev vcore=9; root.a user=ann vcore=5; root.b user=bob,* vcore=5",
            &[],
        ),
        (
            "of one above",
            "root user=bob,eve apps=1; root group=dev vcore=8; root.a user=ann vcore=5; root.b user=* vcore=5",
            &["root.b", "root.c"],
        ),
        ("its group", "root.a user=ann vcore=5; root.b user=* vcore=5", &["root.c"]),
        (
            // An application in this leaf that counts for no group may be a member of the added
            // group.
            "another group's",
            "root group=dev,ops vcore=9; root.a user=ann vcore=5; root.b user=* vcore=5",
            &["root.a", "root.b"],
        ),
    ];
    for (name, after, expected) in cases {
        let mut world = World::new(before);
        for (id, who, leaf) in applications {
            world.join(id, who, leaf);
        }
        let reloaded = world
            .trackers
            .reload(&Arc::new(Tables::of(&tree(after))), Loosening::numbered(1))
            .unwrap_or_default();
        let leaves: Vec<&str> = reloaded.leaves.iter().map(|leaf| &**leaf).collect();
        assert_eq!(leaves, expected, "{name}");
    }
}
