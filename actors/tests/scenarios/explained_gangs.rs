//! Explanations of pending gangs: placeholders of their group, held places, other members.

use expect_test::expect;

use crate::explained::{after, check, check_as};
use crate::world::How;

#[test]
fn a_member_waits_for_placeholders_of_its_group() {
    let text = "
        queue root.a max vcore=4000
        node n1 vcore=9000
        app a2 in root.a
        ask a2 k1 vcore=1000
        app a1 in root.a gang vcore=4000
        ask a1 p1 x2 vcore=2000 placeholder=g
        ask a1 k1 x2 vcore=2000 group=g
    ";
    check(
        text,
        &expect![[r#"
        p1 x1: queueQuota root.a since 1000s
          root.a leaves too little of cores (3 of 4 used); 1 core more would let this ask run
          - queueQuota root.a: vcore=1000; vcore=1000 of vcore=2000
          cure: raise the maximum of root.a by 1 core, or free as much there
          + quota root.a vcore=1000 0 0
        k1 x1: placeholders  since 1000s
          the ask takes the place of a placeholder of task group g: 1 still to be placed and 1 still to be ended by the resource manager
          - placeholders : -; - of -
          cure: have 1 placeholder of task group g placed
          + gangMembers g - 1 0
    "#]],
    );
}

#[test]
fn a_declared_gang_and_its_short_group_are_two_entries() {
    check(
        "
        queue root.a
        node n1 vcore=4000
        app a1 in root.a needs a x3 vcore=1000 needs b x2 vcore=2000
        wait 5s
        ",
        &expect![[r#"
            the gang x5: gang a since 1000s
              3 members of task group a found no place for 1 core beside the others (1 node)
              - gang a: vcore=3000; - of -
              cure: add 3 nodes with at least 1 core each, or as much room for as many
              + node  vcore=1000 3 0
            group a x3: gang a since 1000s
              3 members of task group a found no place for 1 core beside the others (1 node)
              - gang a: vcore=3000; - of -
              cure: add 3 nodes with at least 1 core each, or as much room for as many
              + node  vcore=1000 3 0
        "#]],
    );
}

#[test]
fn members_of_an_undecided_gang_are_not_tried_alone() {
    check(
        "
        queue root.a
        node n1 vcore=4000
        app a1 in root.a needs w x3 vcore=2000 needs d x1
        ask a1 w1 vcore=2000 group=w
        ask a1 other vcore=1000
        ",
        &expect![[r#"
            the gang x4: gang d since 1000s
              the gang waits for 1 more request of task group d
              - gang d: -; - of -
              cure: ask for 1 more member of task group d
              + gangMembers d - 1 0
            group d x1: gang d since 1000s
              the gang waits for 1 more request of task group d
              - gang d: -; - of -
              cure: ask for 1 more member of task group d
              + gangMembers d - 1 0
            w1 x1: gang  since 0s
              nothing of the application is placed by itself before its gang is decided
              - gang : -; - of -
              cure: have the gang decided: its own entry says how
              + gangMembers  - 0 0
            other x1: gang  since 0s
              nothing of the application is placed by itself before its gang is decided
              - gang : -; - of -
              cure: have the gang decided: its own entry says how
              + gangMembers  - 0 0
        "#]],
    );
}

#[test]
fn a_gang_over_quota_is_explained_as_a_whole() {
    check(
        "
        queue root.a max vcore=6000
        node n1 vcore=9000
        app a2 in root.a
        ask a2 k1 vcore=1000
        app a1 in root.a needs w x3 vcore=2000
        ",
        &expect![[r#"
            the gang x3: queueQuota root.a since 1000s
              root.a leaves too little of cores (1 of 6 used); 1 core more would let the gang run
              - queueQuota root.a: vcore=1000; vcore=5000 of vcore=6000
              cure: raise the maximum of root.a by 1 core, or free as much there
              + quota root.a vcore=1000 0 0
        "#]],
    );
}

#[test]
fn a_gang_with_a_member_that_predicates_refuse() {
    let text = "
        queue root.a
        node n1 vcore=9000
        app a1 in root.a needs w x2 vcore=2000 needs d x1
        refuse d1 *
        ask a1 d1 vcore=2000 group=d
    ";
    check(
        text,
        &expect![[r#"
            the gang x3: predicates d since 1000s
              all nodes with room were refused by predicates for a member of d: `the script refuses` on 1 node (1 node)
              - predicates d: -; - of -
              cure: wait until 1970-01-01T00:16:41.0Z
              + time  - 0 1001000
            d1 x1: gang  since 0s
              nothing of the application is placed by itself before its gang is decided
              - gang : -; - of -
              cure: have the gang decided: its own entry says how
              + gangMembers  - 0 0
        "#]],
    );
    check_as(
        How::Later(4),
        text,
        &expect![[r#"
            the gang x3: predicates d since 1000s
              all nodes with room were refused by predicates for a member of d (1 node)
              - predicates d: -; - of -
              cure: wait until 1970-01-01T00:16:41.0Z
              + time  - 0 1001000
            d1 x1: gang  since 0s
              nothing of the application is placed by itself before its gang is decided
              - gang : -; - of -
              cure: have the gang decided: its own entry says how
              + gangMembers  - 0 0
        "#]],
    );
}

#[test]
fn members_of_a_gang_find_too_few_places() {
    check(
        "
        queue root.a
        node n1 vcore=3000
        node n2 vcore=3000
        node n3 vcore=3000
        app a1 in root.a needs w x4 vcore=2000
        wait 5s
        node n4 vcore=1000
        ",
        &expect![[r#"
            the gang x4: gang w since 1000s
              1 member of task group w found no place for 2 cores beside the others (4 nodes: 1 is too small)
              - gang w: vcore=2000; - of -
              cure: add a node with at least 2 cores
              + node  vcore=2000 0 0
            group w x1: gang w since 1000s
              1 member of task group w found no place for 2 cores beside the others (4 nodes: 1 is too small)
              - gang w: vcore=2000; - of -
              cure: add a node with at least 2 cores
              + node  vcore=2000 0 0
        "#]],
    );
}

#[test]
fn nodes_that_others_have_reserved_are_counted() {
    let text = "
        reservations 2s 60s
        queue root.a
        node n1 vcore=4000
        node n2 vcore=2000
        app a2 in root.a
        ask a2 k1 vcore=2000 node=n1
        ask a2 k2 vcore=4000
        wait 5s
        app a1 in root.a
        ask a1 k0 x1 vcore=2000
        ask a1 k1 vcore=1000
        wait 1s
    ";
    check(
        text,
        &expect![[r#"
            k1 x1: noNode n2 since 1005s
              no node has room (2 nodes: 1 is reserved for another, 1 lacks cores); 1 core more on n2, which comes nearest, would let this ask run; n1 has room and is reserved for ask `k2` of a2: to withdraw that would do, too
              - noNode n2: vcore=1000; vcore=0 of vcore=1000
              cure: free 1 core on node n2, or withdraw ask `k2` of a2, for which n1 is reserved since 1970-01-01T00:16:42.001Z
              + nodeRoom n2 vcore=1000 0 0
        "#]],
    );
    let nodes = after(How::Plain, text, async |world| {
        world.scheduler.explain("default", "a1", 0).await.unwrap().remove(0).nodes
    });
    assert_eq!((nodes.total, nodes.reserved), (2, 1), "{nodes:?}");
}

/// Members count together only if they have one size, whether they have asked or not.
#[test]
fn members_of_one_size_are_counted_together() {
    check(
        "
        queue root.a
        node n1 vcore=1000
        app a1 in root.a needs w x4 vcore=3000
        ask a1 k1 vcore=3000 group=w
        ",
        &expect![[r#"
            the gang x4: gang w since 1000s
              4 members of task group w found no place for 3 cores beside the others (1 node: 1 is too small)
              - gang w: vcore=12000; - of -
              cure: add 4 nodes with at least 3 cores each, or as much room for as many
              + node  vcore=3000 4 0
            group w x4: gang w since 1000s
              4 members of task group w found no place for 3 cores beside the others (1 node: 1 is too small)
              - gang w: vcore=12000; - of -
              cure: add 4 nodes with at least 3 cores each, or as much room for as many
              + node  vcore=3000 4 0
            k1 x1: gang  since 0s
              nothing of the application is placed by itself before its gang is decided
              - gang : -; - of -
              cure: have the gang decided: its own entry says how
              + gangMembers  - 0 0
        "#]],
    );
}

#[test]
fn members_of_an_undecided_gang_require_a_node() {
    check(
        "
        queue root.a
        node n1 vcore=9000
        node n2 vcore=4000
        app a2 in root.a
        ask a2 k1 vcore=1000 node=n2
        app a1 in root.a needs w x5 vcore=3000
        ask a1 k1 vcore=1500 group=w node=n2 ; ask a1 k2 vcore=2000 group=w node=n2 ; ask a1 k3 vcore=3000 group=w node=n9
        ",
        &expect![[r#"
            the gang x5: requiredNode n2 since 0s
              node n2, which is required, lacks 0.5 cores
              - requiredNode n2: vcore=500; vcore=3000 of vcore=3500
              - requiredNode n9: -; - of -
              cure: free 0.5 cores on node n2; and add node n9 with at least 3 cores
              + nodeRoom n2 vcore=500 0 0
              + node n9 vcore=3000 0 0
            k1 x1: gang  since 0s
              nothing of the application is placed by itself before its gang is decided
              - gang : -; - of -
              cure: have the gang decided: its own entry says how
              + gangMembers  - 0 0
            k2 x1: gang  since 0s
              nothing of the application is placed by itself before its gang is decided
              - gang : -; - of -
              cure: have the gang decided: its own entry says how
              + gangMembers  - 0 0
            k3 x1: gang  since 0s
              nothing of the application is placed by itself before its gang is decided
              - gang : -; - of -
              cure: have the gang decided: its own entry says how
              + gangMembers  - 0 0
        "#]],
    );
}

/// The explanation names the required node, without a predicate.
#[test]
fn a_member_of_a_decided_gang_requires_a_node() {
    check(
        "
        queue root.a
        node n1 vcore=9000
        app a1 in root.a needs w x2 vcore=1000
        ask a1 k1 vcore=1000 group=w node=n9
        ",
        &expect![[r#"
            k1 x1: requiredNode n9 since 0s
              node n9, which is required, is not there
              - requiredNode n9: -; - of -
              cure: add node n9 with at least 1 core
              + node n9 vcore=1000 0 0
        "#]],
    );
    check(
        "
        queue root.a
        node n1 vcore=9000
        node n2 vcore=500
        app a1 in root.a gang vcore=2000
        ask a1 p1 x2 vcore=1000 placeholder=g
        ask a1 k1 vcore=1000 group=g node=n2
        ",
        &expect![[r#"
            k1 x1: requiredNode n2 since 0s
              node n2, which is required, is too small for 1 core
              - requiredNode n2: -; - of -
              cure: make node n2 as large as 1 core
              + node n2 vcore=1000 0 0
        "#]],
    );
}

/// A node with held places left the rack of the group: members need capacity in the rack in
/// addition to these.
#[test]
fn held_places_outside_the_domain_do_not_block() {
    let text = "
        queue root.a
        node n1 vcore=2000 attr rack=r1
        node n2 vcore=2000 attr rack=r1
        node n3 vcore=9000 attr rack=r2
        app a1 in root.a needs w x4 vcore=1000 within=rack
        resize n2 vcore=2000 attr rack=r2
        ask a1 k1 x4 vcore=1000 group=w
        ";
    check(
        text,
        &expect![[r#"
        k1 x2: topology n1 since 0s
          its task group stays in rack r1, where no node has room (3 nodes: 2 are outside of its domain, 1 lacks cores)
          - topology n1: vcore=1000; vcore=0 of vcore=1000
          cure: free 1 core on node n1
          + nodeRoom n1 vcore=1000 0 0
    "#]],
    );
}

/// One held place refuses the members, and another one has left their rack.
#[test]
fn free_places_are_counted_by_obstacle() {
    let text = "
        queue root.a
        node n1 vcore=1000 attr rack=r1
        node n2 vcore=1000 attr rack=r1
        node n3 vcore=1000 attr rack=r1
        app a1 in root.a needs w x3 vcore=1000 within=rack
        resize n2 vcore=1000 attr rack=r2
        refuse k1 n1
        ask a1 k1 x3 vcore=1000 group=w
        ";
    check(
        text,
        &expect![[r#"
            k1 x2: placeholders  since 1000s
              the ask takes a place that is held for task group w, of which there are 1 where the ask may not go and 1 refused by predicates (such as that on n1): `the script refuses` on 1 node
              - placeholders : -; - of -
              cure: wait
              + time  - 0 0
        "#]],
    );
}

/// The node that the member requires has moved to another rack. It still has a place held, but the
/// member may not take it there.
#[test]
fn a_forbidden_place_is_not_a_lack_of_capacity() {
    let text = "
        queue root.a
        node n1 vcore=1000 attr rack=r1
        node n2 vcore=1000 attr rack=r1
        app a1 in root.a needs w x2 vcore=1000 within=rack
        resize n2 vcore=1000 attr rack=r2
        ask a1 k1 vcore=1000 group=w node=n2
        ";
    check(
        text,
        &expect![[r#"
            k1 x1: placeholders  since 1000s
              the ask takes a place that is held for task group w, of which there are 2 where the ask may not go
              - placeholders : -; - of -
              cure: wait
              + time  - 0 0
        "#]],
    );
}

/// The only place has left the rack, and the node of the rack with free capacity refuses the
/// member. The places of its group are elsewhere, and the required node has capacity: the obstacle
/// is the refusal of that node, not the position of the places.
#[test]
fn a_required_node_that_refuses_is_the_obstacle() {
    for group in ["needs w x2 vcore=1000", "gang vcore=2000"] {
        let text = format!(
            "
            queue root.a
            node n1 vcore=2000
            app a1 in root.a {group}
            {}
            node n2 vcore=2000
            refuse k1 n2
            ask a1 k1 vcore=1000 group=w node=n2
            ",
            if group.starts_with("gang") { "ask a1 p x2 vcore=1000 placeholder=w" } else { "" }
        );
        for how in [How::Plain, How::OneAtATime] {
            check_as(
                how,
                &text,
                &expect![[r#"
                k1 x1: predicates n2 since 0s
                  node n2, which is required, was refused by predicates: `the script refuses` on 1 node
                  - predicates n2: -; - of -
                  cure: wait
                  + time  - 0 0
            "#]],
            );
        }
    }
}

#[test]
fn a_refusing_node_blocks_a_member_outside_its_rack() {
    let text = "
        queue root.a
        node n1 vcore=1000 attr rack=r1
        node n2 vcore=1000 attr rack=r1
        app a1 in root.a needs w x1 vcore=1000 within=rack
        resize n1 vcore=1000 attr rack=r2
        resize n2 vcore=1000 attr rack=r2
        node n3 vcore=1000 attr rack=r1
        refuse k1 n3
        ask a1 k1 vcore=1000 group=w
        ";
    check(
        text,
        &expect![[r#"
            k1 x1: predicates  since 0s
              all nodes with room were refused by predicates: `the script refuses` on 1 node (3 nodes: 2 are outside of its domain)
              - predicates : -; - of -
              cure: wait
              + time  - 0 0
        "#]],
    );
}

/// No node has capacity, in the rack or outside. Capacity outside would not help.
#[test]
fn a_rack_group_is_not_cured_by_other_nodes() {
    let text = "
        queue root.a
        node n1 vcore=2000 attr rack=r1
        app a1 in root.a needs w x2 vcore=1000 within=rack
        ask a1 k1 x2 vcore=1000 group=w
        resize n1 vcore=2000 attr rack=r2
        ask a1 k2 vcore=1000 group=w
        ";
    check(
        text,
        &expect![[r#"
            k2 x1: topology  since 0s
              its task group stays in rack r1, where no node has room (1 node: 1 is outside of its domain)
              - topology : -; - of -
              cure: add a node to rack r1 with room for 1 core
              + node r1 vcore=1000 0 0
        "#]],
    );
}

/// Two groups of one size share the free places: each lists how many of its own members have none.
#[test]
fn two_equal_groups_count_their_own_missing_places() {
    let text = "
        queue root.q
        node n1 vcore=2000 ; node n2 vcore=1500
        app a1 in root.q needs driver x1 vcore=1000 needs workers x4 vcore=1000
    ";
    check(
        text,
        &expect![[r#"
            the gang x5: gang workers since 1000s
              1 member of task group workers found no place for 1 core beside the others (2 nodes)
              - gang workers: vcore=1000; - of -
              - gang driver: vcore=1000; - of -
              cure: add 2 nodes with at least 1 core each, or as much room for as many
              + node  vcore=1000 2 0
            group workers x1: gang workers since 1000s
              1 member of task group workers found no place for 1 core beside the others (2 nodes)
              - gang workers: vcore=1000; - of -
              cure: add a node with at least 1 core
              + node  vcore=1000 0 0
            group driver x1: gang driver since 1000s
              1 member of task group driver found no place for 1 core beside the others (2 nodes)
              - gang driver: vcore=1000; - of -
              cure: add a node with at least 1 core
              + node  vcore=1000 0 0
        "#]],
    );
    let all = "wait 5s\n exists a2 k on n1 vcore=1000 uuid=u";
    check(
        &format!("{text} app a2 in root.q\n {all}"),
        &expect![[r#"
            the gang x5: gang workers since 1000s
              2 members of task group workers found no place for 1 core beside the others (2 nodes)
              - gang workers: vcore=2000; - of -
              - gang driver: vcore=1000; - of -
              cure: add 3 nodes with at least 1 core each, or as much room for as many
              + node  vcore=1000 3 0
            group workers x2: gang workers since 1000s
              2 members of task group workers found no place for 1 core beside the others (2 nodes)
              - gang workers: vcore=2000; - of -
              cure: add 2 nodes with at least 1 core each, or as much room for as many
              + node  vcore=1000 2 0
            group driver x1: gang driver since 1000s
              1 member of task group driver found no place for 1 core beside the others (2 nodes)
              - gang driver: vcore=1000; - of -
              cure: add a node with at least 1 core
              + node  vcore=1000 0 0
        "#]],
    );
}

/// One of two groups fits no node: the other one is neither blamed nor counted with it.
#[test]
fn a_group_excluded_by_its_constraint_is_the_short_one() {
    let nowhere = r#"where={"simpleConstraint":{"nodeAffinityConstraint":{"targetExpressions":[{"targetOperator":"IN","targetKey":"zone","targetValues":["b"]}]}}}"#;
    let gang = |free: &str, bound: &str| {
        format!(
            "
            queue root.q
            node n1 vcore=9000 attr zone=a ; node n2 vcore=9000 attr zone=a
            app a1 in root.q needs free {free} vcore=1000 needs bound {bound}
            ask a1 b {bound} vcore=1000 group=bound {nowhere}
            "
        )
    };
    check(
        &gang("x2", "x1"),
        &expect![[r#"
        the gang x3: gang bound since 1000s
          1 member of task group bound found no place for 1 core beside the others (2 nodes: 2 are excluded by its constraint)
          - gang bound: vcore=1000; - of -
          cure: add a node with at least 1 core that its placement constraint admits: zone IN [b]
          + node  vcore=1000 0 0
        group bound x1: gang bound since 1000s
          1 member of task group bound found no place for 1 core beside the others (2 nodes: 2 are excluded by its constraint)
          - gang bound: vcore=1000; - of -
          cure: add a node with at least 1 core that its placement constraint admits: zone IN [b]
          + node  vcore=1000 0 0
        b x1: gang  since 0s
          nothing of the application is placed by itself before its gang is decided
          - gang : -; - of -
          cure: have the gang decided: its own entry says how
          + gangMembers  - 0 0
    "#]],
    );
    check(
        &gang("x1", "x2"),
        &expect![[r#"
        the gang x3: gang bound since 1000s
          2 members of task group bound found no place for 1 core beside the others (2 nodes: 2 are excluded by its constraint)
          - gang bound: vcore=2000; - of -
          cure: add 2 nodes with at least 1 core each, or as much room for as many, that its placement constraint admits: zone IN [b]
          + node  vcore=1000 2 0
        group bound x2: gang bound since 1000s
          2 members of task group bound found no place for 1 core beside the others (2 nodes: 2 are excluded by its constraint)
          - gang bound: vcore=2000; - of -
          cure: add 2 nodes with at least 1 core each, or as much room for as many, that its placement constraint admits: zone IN [b]
          + node  vcore=1000 2 0
        b x2: gang  since 0s
          nothing of the application is placed by itself before its gang is decided
          - gang : -; - of -
          cure: have the gang decided: its own entry says how
          + gangMembers  - 0 0
    "#]],
    );
}

/// The entry counts the nodes for every obstacle.
#[test]
fn the_entry_of_the_whole_gang_counts_nodes() {
    for (text, counts) in [
        ("queue root.q\n", (2, 1)),
        ("queue root.q max vcore=7000\n app a0 in root.q\n ask a0 k vcore=1000 node=n2\n", (2, 1)),
        ("queue root.q\n app a0 in root.q\n ask a0 k vcore=2000 node=n1\n", (2, 2)),
    ] {
        let gang = "app a1 in root.q needs w x3 vcore=2000";
        let text = format!("{text} node n1 vcore=3000 ; node n2 vcore=1000\n {gang}");
        let explained = after(How::Plain, &text, async |world| {
            world.scheduler.explain("default", "a1", 0).await.unwrap()
        });
        let nodes = &explained[0].nodes;
        let lack: u32 = nodes.too_small + nodes.no_room.values().sum::<u32>();
        assert_eq!((nodes.total, lack), counts, "{text}");
    }
    let waits = "queue root.q\n node n1 vcore=3000\n app a1 in root.q needs d x1";
    let explained = after(How::Plain, waits, async |world| {
        world.scheduler.explain("default", "a1", 0).await.unwrap()
    });
    assert!(explained.iter().all(|entry| entry.nodes.total == 1), "{explained:?}");
}
