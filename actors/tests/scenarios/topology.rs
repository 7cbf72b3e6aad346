//! Groups of a declared gang with a topology: in one domain, if required, or as close together as
//! capacity allows. `docs/gangs.md#topology` has the rules.

use expect_test::expect;

use crate::explained;
use crate::world::{check, check_plain};

/// Racks r1, r2 and r3 with 2, 4 and 8 vcore, and a larger node without a rack.
const RACKS: &str = "
    queue root.a
    node n1 vcore=2 attr rack=r1
    node n2 vcore=4 attr rack=r2
    node n3 vcore=4 attr rack=r3
    node n4 vcore=4 attr rack=r3
    node n5 vcore=9
";

fn with_racks(steps: &str) -> String {
    format!("{RACKS}{steps}")
}

#[test]
fn a_group_uses_the_fullest_possible_rack() {
    check(
        &with_racks(
            "
            app a1 in root.a needs w x4 vcore=1 within=rack
            ask a1 k1 x4 vcore=1 group=w
            app a2 in root.a needs w x5 vcore=1 within=rack
            ask a2 k1 x5 vcore=1 group=w
            ",
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n4 accepted
            n5 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n2
            a1/k1#2 of k1 placed on n2
            a1/k1#3 of k1 placed on n2
            a1/k1#4 of k1 placed on n2
            a2 accepted
            a2 is Accepted
            a2 is Running
            a2/k1#1 of k1 placed on n4
            a2/k1#2 of k1 placed on n4
            a2/k1#3 of k1 placed on n3
            a2/k1#4 of k1 placed on n3
            a2/k1#5 of k1 placed on n3
        "#]],
    );
}

/// A node in another rack does not help.
#[test]
fn a_group_too_large_for_any_rack_waits() {
    check(
        "
        queue root.a
        node n1 vcore=3 attr rack=r1
        node n2 vcore=3 attr rack=r2
        app a1 in root.a needs w x4 vcore=1 within=rack
        node n3 vcore=9
        node n4 vcore=3 attr rack=r3
        show apps
        node n5 vcore=1 attr rack=r2
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            n3 accepted
            n4 accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=4, holds [], asks [(w) x4]
            n5 accepted
            a1 is Running
            n1: total vcore=3, used nothing, occupied nothing, left vcore=3
            n2: total vcore=3, used vcore=3, occupied nothing, left nothing
            n3: total vcore=9, used nothing, occupied nothing, left vcore=9
            n4: total vcore=3, used nothing, occupied nothing, left vcore=3
            n5: total vcore=1, used vcore=1, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn preferences_do_not_delay_placement() {
    check(
        "
        queue root.a
        node n1 vcore=3 attr rack=r1
        node n2 vcore=3 attr rack=r2
        app a1 in root.a needs w x4 vcore=1 near=rack
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            n1: total vcore=3, used vcore=2, occupied nothing, left vcore=1
            n2: total vcore=3, used vcore=2, occupied nothing, left vcore=1
        "#]],
    );
}

#[test]
fn the_narrowest_sufficient_preference_decides() {
    check(
        "
        queue root.a
        node n1 vcore=2 attr host=h1 attr rack=r1
        node n2 vcore=2 attr host=h2 attr rack=r2
        node n3 vcore=2 attr host=h3 attr rack=r2
        app a1 in root.a needs w x3 vcore=1 near=host,rack
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            n1: total vcore=2, used nothing, occupied nothing, left vcore=2
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=2, used vcore=1, occupied nothing, left vcore=1
        "#]],
    );
}

#[test]
fn later_asks_take_held_places_then_the_same_rack() {
    check(
        &with_racks(
            "
            app a1 in root.a needs w x3 vcore=1 within=rack
            ask a1 k1 x3 vcore=1 group=w
            ask a1 k2 x2 vcore=1 group=w
            ask a1 other vcore=1
            show apps
            ",
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n4 accepted
            n5 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n2
            a1/k1#2 of k1 placed on n2
            a1/k1#3 of k1 placed on n2
            a1/k2#1 of k2 placed on n2
            a1/other placed on n1
            a1 in root.a is Running since 1000s: used vcore=5, pending vcore=1, holds [k1, k1, k1, k2, other], asks [k2 x1]
        "#]],
    );
}

#[test]
fn a_member_losing_its_node_stays_in_its_rack() {
    check(
        "
        queue root.a
        node n1 vcore=2 attr rack=r1
        node n2 vcore=2 attr rack=r1
        node n3 vcore=9 attr rack=r2
        app a1 in root.a needs w x4 vcore=1 within=rack
        ask a1 k1 x4 vcore=1 group=w
        remove n2
        ask a1 k2 vcore=1 group=w
        show apps
        node n4 vcore=2 attr rack=r1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n2
            a1/k1#4 of k1 placed on n2
            a1/k1#4 of k1 released: STOPPED_BY_RM
            a1/k1#3 of k1 released: STOPPED_BY_RM
            a1 in root.a is Running since 1000s: used vcore=2, pending vcore=1, holds [k1, k1], asks [k2 x1]
            n4 accepted
            a1/k2 placed on n4
            a1 in root.a is Running since 1000s: used vcore=3, pending nothing, holds [k1, k1, k2], asks []
        "#]],
    );
}

#[test]
fn a_renamed_rack_takes_no_more_members() {
    check(
        "
        queue root.a
        node n1 vcore=4 attr rack=r1
        app a1 in root.a needs w x2 vcore=1 within=rack
        ask a1 k1 x2 vcore=1 group=w
        resize n1 vcore=4 attr rack=r2
        ask a1 k2 vcore=1 group=w
        show apps
        resize n1 vcore=4 attr rack=r1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending vcore=1, holds [k1, k1], asks [k2 x1]
            a1/k2 placed on n1
        "#]],
    );
}

#[test]
fn reported_members_fix_the_rack_of_others() {
    check(
        "
        queue root.a
        node n1 vcore=3 attr rack=r1
        node n2 vcore=3 attr rack=r2
        app a1 in root.a needs w x4 vcore=1 within=rack
        exists a1 k1 on n1 vcore=1 group=w uuid=u1
        exists a1 k2 on n2 vcore=1 group=w uuid=u2
        exists a1 k3 on n2 vcore=1 group=w uuid=u3
        ask a1 k4 x2 vcore=1 group=w
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k4#1 of k4 placed on n2
            a1 in root.a is Running since 1000s: used vcore=4, pending vcore=1, holds [k1, k2, k3, k4], asks [k4 x1]
        "#]],
    );
}

#[test]
fn a_refused_rack_sends_the_group_to_the_next() {
    check_plain(
        "
        queue root.a
        refuse k1 n1
        node n1 vcore=2 attr rack=r1
        node n2 vcore=4 attr rack=r2
        app a1 in root.a needs w x2 within=rack
        ask a1 k1 x2 vcore=1 group=w
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n2
            a1/k1#2 of k1 placed on n2
        "#]],
    );
}

#[test]
fn a_waiting_groups_explanation_names_the_nearest_rack() {
    explained::check(
        "
        queue root.a
        node n1 vcore=3000 attr rack=r1
        node n2 vcore=3000 attr rack=r2
        node n3 vcore=1000
        app a1 in root.a needs w x4 vcore=1000 within=rack
        ",
        &expect![[r#"
            the gang x4: topology w since 1000s
              no rack has room for all 4 members of task group w: in rack r1, which comes nearest, 1 of them found no place for 1 core (3 nodes: 2 are outside of its domain)
              - topology w: vcore=1000; - of -
              cure: add a node to rack r1 with room for 1 core
              + node r1 vcore=1000 0 0
            group w x1: topology w since 1000s
              no rack has room for all 4 members of task group w: in rack r1, which comes nearest, 1 of them found no place for 1 core (3 nodes: 2 are outside of its domain)
              - topology w: vcore=1000; - of -
              cure: add a node to rack r1 with room for 1 core
              + node r1 vcore=1000 0 0
        "#]],
    );
    explained::check(
        "
        queue root.a
        node n1 vcore=9000
        app a1 in root.a needs w x4 vcore=1000 within=rack
        ",
        &expect![[r#"
            the gang x4: topology w since 1000s
              no rack has room for all 4 members of task group w: no node has the attribute `rack`
              - topology w: vcore=4000; - of -
              cure: add nodes of one rack with room for 4 times 1 core
              + node  vcore=1000 4 0
            group w x4: topology w since 1000s
              no rack has room for all 4 members of task group w: no node has the attribute `rack`
              - topology w: vcore=4000; - of -
              cure: add nodes of one rack with room for 4 times 1 core
              + node  vcore=1000 4 0
        "#]],
    );
}

#[test]
fn a_later_asks_explanation_names_its_rack() {
    explained::check(
        "
        queue root.a
        node n1 vcore=3000 attr rack=r1
        node n2 vcore=9000 attr rack=r2
        app a1 in root.a needs w x3 vcore=1000 within=rack
        ask a1 k1 x4 vcore=1000 group=w
        ",
        &expect![[r#"
            k1 x1: topology n1 since 0s
              its task group stays in rack r1, where no node has room (2 nodes: 1 is outside of its domain, 1 lacks cores)
              - topology n1: vcore=1000; vcore=0 of vcore=1000
              cure: free 1 core on node n1
              + nodeRoom n1 vcore=1000 0 0
        "#]],
    );
}
