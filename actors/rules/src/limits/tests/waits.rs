//! Tests which lanes are notified when a limit is loosened: all that may continue, since a lane
//! that is not notified would wait for ever, and no others.

use super::*;
use crate::values::epoch::Loosening;
use crate::values::resources::Resources;

const RELEASES: &[Case] = &[
    (
        "by user: only what fits now",
        "root user=ann vcore=10",
        "join a ann root.a
             join b ann root.b
             join c ann root.c
             join d bob root.d
             use a vcore=10
             hold b vcore=2
             hold c vcore=3
             hold d vcore=1
             reopened
             free a vcore=1
             reopened
             free a vcore=1
             reopened
             reopened
             free a vcore=1
             go b
             reopened",
        "reopened:
             reopened:
             reopened: root.b
             reopened:
             reopened: root.c",
    ),
    (
        "by group: also those of other users",
        "root group=dev vcore=10 apps=1; root.b user=bob vcore=1",
        "join a ann/dev root.a
             join b bob/dev root.b
             join c cid/dev root.c
             use a vcore=10
             hold b vcore=2
             hold c start
             free a vcore=5
             reopened
             free a vcore=5
             reopened",
        "reopened:
             reopened: root.c",
    ),
    (
        "room that is used again in the same step is none",
        "root user=ann vcore=10",
        "join a ann root.a
             join b ann root.b
             use a vcore=10
             hold b vcore=1
             free a vcore=4
             use a vcore=4
             reopened
             free a vcore=10
             reopened",
        "reopened:
             reopened: root.b",
    ),
    (
        "a limit below another: the one that is still full keeps it",
        "root user=ann vcore=10; root.p user=ann vcore=5",
        "join a ann root.p.a
             join b ann root.p.b
             join c ann root.c
             use a vcore=5
             use c vcore=5
             hold b vcore=1
             free c vcore=5
             reopened
             free a vcore=1
             reopened",
        "reopened:
             reopened: root.p.b",
    ),
    (
        "limits raised or removed by a reload",
        "root user=ann,bob vcore=1",
        "join a ann root.a
             join b bob root.b
             use a vcore=1
             use b vcore=1
             hold a vcore=1
             hold b vcore=1
             reload root user=ann vcore=1
             reopened
             reload root user=ann vcore=2
             go b
             reopened",
        "set user ann root
             removed user bob root
             reopened: root.b
             set user ann root
             reopened: root.a",
    ),
    (
        "what others of a group move away by a reload is room",
        "root.a group=dev,ops vcore=5; root.b group=dev vcore=5; root group=dev vcore=5",
        "join a ann/dev,ops root.a
             join b bob/dev root.b
             use a vcore=5
             hold b vcore=1
             reopened
             reload root.a group=ops vcore=5; root.b group=dev vcore=5; root group=dev vcore=5
             reopened",
        "reopened:
             set group dev root
             removed group dev root.a
             set group dev root.b
             set group ops root.a
             reopened: root.b",
    ),
];

#[test]
fn a_release_reopens_the_leaves_it_helps() {
    check(RELEASES);
}

#[test]
fn loosenings_are_numbered_where_a_limit_is() {
    let mut world = World::new("root.p user=ann vcore=9; root group=dev vcore=9");
    world.join("a", "ann/dev", "root.p.a");
    world.join("b", "ann", "root.p.b");
    world.join("c", "bob/dev", "root.c");
    world.join("d", "ann", "root.d");
    let charge = |world: &mut World, id: &str, vcores, loosening| {
        let lane = world.applications[id].lane;
        world.trackers.charge(
            lane,
            &Resources::of(&[("vcore", vcores)]),
            Loosening::numbered(loosening),
        );
    };
    let loosened = |world: &World| {
        ["a", "b", "c", "d"].map(|id| world.trackers.loosened(world.applications[id].lane).number())
    };
    charge(&mut world, "a", 5, 0);
    assert_eq!(loosened(&world), [0, 0, 0, 0]);
    charge(&mut world, "a", -1, 3);
    assert_eq!(loosened(&world), [3, 3, 3, 0]);
    charge(&mut world, "b", 1, 0);
    charge(&mut world, "b", -1, 4);
    assert_eq!(loosened(&world), [4, 4, 3, 0]);
}

#[test]
fn a_lane_that_is_gone_holds_nothing_back() {
    let mut world = World::new("root user=ann,bob vcore=1");
    world.join("a", "ann", "root.a");
    let gone = world.applications["a"].lane;
    world.play("leave a");
    // The new lane gets the slot of the closed one.
    world.join("b", "bob", "root.b");
    let held_back = HeldBack { short: Some(Resources::of(&[("vcore", 1)])), starting: true };
    world.trackers.hold_back(gone, held_back);
    world.play("use b vcore=1");
    world.play("free b vcore=1");
    assert!(world.trackers.take_reopened().is_empty());
}
