//! Queues: headroom, quotas, running applications, and who comes first (queues chapter, 4.15 and
//! 5.5).

use expect_test::expect;

use crate::world::check;

// ------------------------------------------------------------------------------------------ 4.15

/// Section 4.15, row 6.
#[test]
fn headroom_is_the_least_that_a_queue_and_those_above_leave() {
    check(
        "
        queue root.p max vcore=20 memory=8
        queue root.p.a
        queue root.p.b
        node n1 vcore=20 memory=10
        app a1 in root.p.a
        app b1 in root.p.b
        ask a1 k1 vcore=5 memory=3
        ask b1 k1 vcore=5 memory=3
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            b1 is Accepted
            b1 is Running
            b1/k1 placed on n1
            root: used memory=6 vcore=10, pending nothing, headroom memory=4 vcore=10, running 2, priority none
            root.p: used memory=6 vcore=10, pending nothing, headroom memory=2 vcore=10, running 2, priority none
            root.p.a: used memory=3 vcore=5, pending nothing, headroom memory=2 vcore=10, running 1, priority none
            root.p.b: used memory=3 vcore=5, pending nothing, headroom memory=2 vcore=10, running 1, priority none
        "#]],
    );
}

/// Section 4.15, row 7: what a node without capacity holds was recovered.
#[test]
fn headroom_without_capacity_is_what_the_quotas_leave() {
    check(
        "
        queue root.p max vcore=20 memory=10
        queue root.p.a max vcore=10 gpu=10
        queue root.p.b
        node n1
        app a1 in root.p.a
        app b1 in root.p.b
        exists a1 k1 on n1 vcore=5 memory=5 gpu=5
        exists b1 k1 on n1 gpu=5 disk=5
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            b1 is Accepted
            b1 is Running
            b1/k1 placed on n1
            root: used disk=5 gpu=10 memory=5 vcore=5, pending nothing, headroom nothing, running 2, priority none
            root.p: used disk=5 gpu=10 memory=5 vcore=5, pending nothing, headroom memory=5 vcore=15, running 2, priority none
            root.p.a: used gpu=5 memory=5 vcore=5, pending nothing, headroom gpu=5 memory=5 vcore=5, running 1, priority none
            root.p.b: used disk=5 gpu=5, pending nothing, headroom memory=5 vcore=15, running 1, priority none
        "#]],
    );
}

/// Section 4.15, row 8: without usage the headroom is the effective maximum.
#[test]
fn the_effective_maximum_is_the_least_of_each_type_on_the_path() {
    check(
        "
        queue root.p max gpu=2
        queue root.p.a max vcore=5 memory=10
        node n1 vcore=10 memory=5
        show queues
        ",
        &expect![[r#"
            n1 accepted
            root: used nothing, pending nothing, headroom memory=5 vcore=10, running 0, priority none
            root.p: used nothing, pending nothing, headroom gpu=2 memory=5 vcore=10, running 0, priority none
            root.p.a: used nothing, pending nothing, headroom gpu=2 memory=5 vcore=5, running 0, priority none
        "#]],
    );
}

/// Section 4.15, row 9: 420 of 1200 is less than 400 of 1000, and 420 of 1000 would be more.
#[test]
fn a_maximum_above_that_of_the_root_counts_for_the_share() {
    check(
        "
        queue root.other
        queue root.tier max vcore=1200
        node n1 vcore=820
        app o1 in root.other
        app t1 in root.tier
        exists o1 k0 on n1 vcore=400
        exists t1 k0 on n1 vcore=420
        ask o1 k1 vcore=10
        ask t1 k1 vcore=10
        resize n1 vcore=1000 occupied vcore=160
        ",
        &expect![[r#"
            n1 accepted
            o1 accepted
            t1 accepted
            o1 is Accepted
            o1 is Running
            o1/k0 placed on n1
            t1 is Accepted
            t1 is Running
            t1/k0 placed on n1
            t1/k1 placed on n1
            o1/k1 placed on n1
        "#]],
    );
}

/// Section 4.15, row 10: memory counts by the root's maximum (0.50), so root.other with 0.40 is
/// first; of its own maximum root.tier has 0.10 only.
#[test]
fn a_type_without_a_maximum_of_its_own_is_shared_by_the_one_above() {
    check(
        "
        queue root.other
        queue root.tier max gpu=100
        node n1 memory=900 gpu=10
        app o1 in root.other
        app t1 in root.tier
        exists o1 k0 on n1 memory=400
        exists t1 k0 on n1 memory=500 gpu=10
        ask t1 k1 memory=10
        ask o1 k1 memory=10
        resize n1 memory=1000 gpu=10
        ",
        &expect![[r#"
            n1 accepted
            o1 accepted
            t1 accepted
            o1 is Accepted
            o1 is Running
            o1/k0 placed on n1
            t1 is Accepted
            t1 is Running
            t1/k0 placed on n1
            o1/k1 placed on n1
            t1/k1 placed on n1
        "#]],
    );
}

/// Section 4.15, row 11.
#[test]
fn a_type_that_no_node_offers_is_never_placed() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 memory=1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending memory=1, holds [], asks [k1 x1]
        "#]],
    );
}

/// Section 4.15, row 12.
#[test]
fn a_type_that_a_quota_does_not_name_is_not_limited_by_it() {
    check(
        "
        queue root.a max vcore=1
        node n1 vcore=4 memory=4
        app a1 in root.a
        ask a1 k1 vcore=1
        ask a1 k2 memory=1
        ask a1 k3 vcore=1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2 placed on n1
            a1 in root.a is Running since 1000s: used memory=1 vcore=1, pending vcore=1, holds [k1, k2], asks [k3 x1]
        "#]],
    );
}

/// Section 4.15, row 13.
#[test]
fn a_queue_above_its_quota_still_takes_what_asks_for_another_type() {
    check(
        "
        queue root.a max vcore=1 memory=0
        node n1 vcore=4 memory=4
        app a1 in root.a
        exists a1 k0 on n1 memory=1
        ask a1 k1 vcore=1
        ask a1 k2 memory=1
        show apps
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k0 placed on n1
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used memory=1 vcore=1, pending memory=1, holds [k0, k1], asks [k2 x1]
            root: used memory=1 vcore=1, pending memory=1, headroom memory=3 vcore=3, running 1, priority 0
            root.a: used memory=1 vcore=1, pending memory=1, headroom memory=-1 vcore=0, running 1, priority 0
        "#]],
    );
}

/// Section 3.4: a maximum of nothing only is no maximum.
#[test]
fn a_maximum_of_zeros_alone_limits_nothing() {
    check(
        "
        queue root.a max memory=0
        node n1 memory=4
        app a1 in root.a
        ask a1 k1 memory=1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
        "#]],
    );
}

/// Section 4.15, row 17 (D34).
#[test]
fn what_is_recovered_may_exceed_the_most_that_run_and_stops_others_only() {
    check(
        "
        queue root.a maxapps=2
        node n1 vcore=8
        app a1 in root.a
        app a2 in root.a
        app a3 in root.a
        app a4 in root.a
        exists a1 k1 on n1 vcore=1
        exists a2 k1 on n1 vcore=1
        exists a3 k1 on n1 vcore=1
        ask a4 k1 vcore=1
        show queues
        release a1 uuid=k1
        show queues
        release a2 uuid=k1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a3 accepted
            a4 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a3 is Accepted
            a3 is Running
            a3/k1 placed on n1
            a4 is Accepted
            root: used vcore=3, pending vcore=1, headroom vcore=5, running 3, priority 0
            root.a: used vcore=3, pending vcore=1, headroom vcore=5, running 3, priority 0
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            root: used vcore=2, pending vcore=1, headroom vcore=6, running 2, priority 0
            root.a: used vcore=2, pending vcore=1, headroom vcore=6, running 2, priority 0
            a2/k1 released: STOPPED_BY_RM
            a2 is Completing
            a4 is Running
            a4/k1 placed on n1
            root: used vcore=2, pending nothing, headroom vcore=6, running 2, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=6, running 2, priority none
        "#]],
    );
}

/// Section 4.7: all levels must agree, and those that run are never stopped.
#[test]
fn a_parent_counts_the_applications_of_all_its_leaves() {
    check(
        "
        queue root.p maxapps=2
        queue root.p.a maxapps=2
        queue root.p.b maxapps=1
        node n1 vcore=8
        app a1 in root.p.a
        app b1 in root.p.b
        app b2 in root.p.b
        app a2 in root.p.a
        ask b1 k1 vcore=1
        ask b2 k1 vcore=1
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1
        ask a1 k2 vcore=1
        remove-app b1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            b2 accepted
            a2 accepted
            b1 is Accepted
            b1 is Running
            b1/k1 placed on n1
            b2 is Accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a1/k2 placed on n1
            b1/k1 released: STOPPED_BY_RM
            b2 is Running
            b2/k1 placed on n1
            root: used vcore=3, pending vcore=1, headroom vcore=5, running 2, priority 0
            root.p: used vcore=3, pending vcore=1, headroom vcore=5, running 2, priority 0
            root.p.a: used vcore=2, pending vcore=1, headroom vcore=5, running 1, priority 0
            root.p.b: used vcore=1, pending nothing, headroom vcore=5, running 1, priority none
        "#]],
    );
}

// ------------------------------------------------------------------------------------------- 5.5

/// Four queues with their guarantees, what they use, and an ask in each of the priority given; the
/// node has room for the asks only at the end, so that they are placed in the order of the queues.
fn four(root: &str, queues: [&str; 4], used: [i64; 4], priorities: [i32; 4]) -> String {
    use std::fmt::Write as _;

    let mut text = root.to_owned();
    for (at, words) in queues.iter().enumerate() {
        writeln!(text, "queue root.q{at} {words}").unwrap();
    }
    writeln!(text, "node n1 vcore=700 memory=700").unwrap();
    for (at, used) in used.iter().enumerate() {
        writeln!(text, "app a{at} in root.q{at}").unwrap();
        writeln!(text, "exists a{at} k0 on n1 uuid=u{at} vcore={used} memory={used}").unwrap();
    }
    for (at, priority) in priorities.iter().enumerate() {
        writeln!(text, "ask a{at} k1 vcore=1 memory=1 prio={priority}").unwrap();
    }
    writeln!(text, "resize n1 vcore=704 memory=704").unwrap();
    text
}

const BY_SHARE: &str = "queue root prop application.sort.priority=disabled\n";
const GUARANTEED: [&str; 4] = [
    "guaranteed vcore=500 memory=500",
    "guaranteed vcore=300 memory=300",
    "guaranteed vcore=200 memory=200",
    "guaranteed vcore=200 memory=200",
];
const LIMITED: [&str; 4] = ["max vcore=1000 memory=1000"; 4];

/// Section 5.5, row 1: shares 0.6, 0.67, 0.5, 0.5.
#[test]
fn queues_go_by_priority_and_then_by_share_of_their_guarantee() {
    check(
        &four("", GUARANTEED, [300, 200, 100, 100], [1, 1, 1, 3]),
        &expect![[r#"
        n1 accepted
        a0 accepted
        a0 is Accepted
        a0 is Running
        a1 accepted
        a1 is Accepted
        a1 is Running
        a2 accepted
        a2 is Accepted
        a2 is Running
        a3 accepted
        a3 is Accepted
        a3 is Running
        a3/k1 placed on n1
        a2/k1 placed on n1
        a0/k1 placed on n1
        a1/k1 placed on n1
    "#]],
    );
}

/// Section 5.5, row 1.
#[test]
fn queues_go_by_share_and_then_by_priority_where_the_parent_says_so() {
    check(
        &four(BY_SHARE, GUARANTEED, [300, 200, 100, 100], [1, 1, 1, 3]),
        &expect![[r#"
        n1 accepted
        a0 accepted
        a0 is Accepted
        a0 is Running
        a1 accepted
        a1 is Accepted
        a1 is Running
        a2 accepted
        a2 is Accepted
        a2 is Running
        a3 accepted
        a3 is Accepted
        a3 is Running
        a3/k1 placed on n1
        a2/k1 placed on n1
        a0/k1 placed on n1
        a1/k1 placed on n1
    "#]],
    );
}

/// Section 5.5, row 2: shares 0.4, 1.0, 0.5, 0.5.
#[test]
fn a_higher_priority_comes_before_a_smaller_share() {
    check(
        &four("", GUARANTEED, [200, 300, 100, 100], [1, 1, 1, 3]),
        &expect![[r#"
        n1 accepted
        a0 accepted
        a0 is Accepted
        a0 is Running
        a1 accepted
        a1 is Accepted
        a1 is Running
        a2 accepted
        a2 is Accepted
        a2 is Running
        a3 accepted
        a3 is Accepted
        a3 is Running
        a3/k1 placed on n1
        a0/k1 placed on n1
        a2/k1 placed on n1
        a1/k1 placed on n1
    "#]],
    );
}

/// Section 5.5, row 2.
#[test]
fn a_smaller_share_comes_before_a_higher_priority_where_the_parent_says_so() {
    check(
        &four(BY_SHARE, GUARANTEED, [200, 300, 100, 100], [1, 1, 1, 3]),
        &expect![[r#"
        n1 accepted
        a0 accepted
        a0 is Accepted
        a0 is Running
        a1 accepted
        a1 is Accepted
        a1 is Running
        a2 accepted
        a2 is Accepted
        a2 is Running
        a3 accepted
        a3 is Accepted
        a3 is Running
        a0/k1 placed on n1
        a3/k1 placed on n1
        a2/k1 placed on n1
        a1/k1 placed on n1
    "#]],
    );
}

/// Section 5.5, row 3.
#[test]
fn queues_without_guarantee_share_their_maximum() {
    check(
        &four(BY_SHARE, LIMITED, [300, 200, 100, 100], [1, 0, 2, 3]),
        &expect![[r#"
        n1 accepted
        a0 accepted
        a0 is Accepted
        a0 is Running
        a1 accepted
        a1 is Accepted
        a1 is Running
        a2 accepted
        a2 is Accepted
        a2 is Running
        a3 accepted
        a3 is Accepted
        a3 is Running
        a3/k1 placed on n1
        a2/k1 placed on n1
        a1/k1 placed on n1
        a0/k1 placed on n1
    "#]],
    );
}

/// Section 5.5, row 3.
#[test]
fn queues_without_guarantee_go_by_priority_first() {
    check(
        &four("", LIMITED, [300, 200, 100, 100], [1, 0, 2, 3]),
        &expect![[r#"
        n1 accepted
        a0 accepted
        a0 is Accepted
        a0 is Running
        a1 accepted
        a1 is Accepted
        a1 is Running
        a2 accepted
        a2 is Accepted
        a2 is Running
        a3 accepted
        a3 is Accepted
        a3 is Running
        a3/k1 placed on n1
        a2/k1 placed on n1
        a0/k1 placed on n1
        a1/k1 placed on n1
    "#]],
    );
}

/// Section 5.5, row 4; among equals the path decides (5.2, key 4).
#[test]
fn of_equal_queues_the_one_with_more_pending_goes_first() {
    check(
        "
        queue root.a
        queue root.b
        queue root.c
        app a1 in root.a
        app b1 in root.b
        app c1 in root.c
        ask c1 k1 vcore=5
        ask a1 k1 vcore=5
        ask b1 k1 vcore=10
        node n1 vcore=20
        ",
        &expect![[r#"
            a1 accepted
            b1 accepted
            c1 accepted
            c1 is Accepted
            a1 is Accepted
            b1 is Accepted
            n1 accepted
            b1 is Running
            b1/k1 placed on n1
            a1 is Running
            a1/k1 placed on n1
            c1 is Running
            c1/k1 placed on n1
        "#]],
    );
}

/// Section 5.5, row 5: shares 0.3, 0.5, 0.1, 0.8, and then the same in other places.
#[test]
fn each_queue_is_compared_with_its_own_maximum() {
    let used = [300, 200, 100, 100];
    let limits = [
        "max vcore=1000 memory=1000",
        "max vcore=400 memory=400",
        "max vcore=1000 memory=1000",
        "max vcore=125 memory=125",
    ];
    check(
        &four("", limits, used, [0; 4]),
        &expect![[r#"
        n1 accepted
        a0 accepted
        a0 is Accepted
        a0 is Running
        a1 accepted
        a1 is Accepted
        a1 is Running
        a2 accepted
        a2 is Accepted
        a2 is Running
        a3 accepted
        a3 is Accepted
        a3 is Running
        a2/k1 placed on n1
        a0/k1 placed on n1
        a1/k1 placed on n1
        a3/k1 placed on n1
    "#]],
    );
    let used = [200, 300, 100, 100];
    let limits = [
        "max vcore=400 memory=400",
        "max vcore=1000 memory=1000",
        "max vcore=125 memory=125",
        "max vcore=1000 memory=1000",
    ];
    check(
        &four("", limits, used, [0; 4]),
        &expect![[r#"
        n1 accepted
        a0 accepted
        a0 is Accepted
        a0 is Running
        a1 accepted
        a1 is Accepted
        a1 is Running
        a2 accepted
        a2 is Accepted
        a2 is Running
        a3 accepted
        a3 is Accepted
        a3 is Running
        a3/k1 placed on n1
        a1/k1 placed on n1
        a0/k1 placed on n1
        a2/k1 placed on n1
    "#]],
    );
}

/// Section 5.5, row 6: root.a uses nothing, is guaranteed much, and wants nothing.
#[test]
fn a_queue_with_nothing_pending_holds_nothing_back() {
    check(
        "
        queue root.a guaranteed vcore=4
        queue root.b
        app b1 in root.b
        ask b1 k1 x4 vcore=1
        node n1 vcore=4
        ",
        &expect![[r#"
            b1 accepted
            b1 is Accepted
            n1 accepted
            b1 is Running
            b1/k1#1 of k1 placed on n1
            b1/k1#2 of k1 placed on n1
            b1/k1#3 of k1 placed on n1
            b1/k1#4 of k1 placed on n1
        "#]],
    );
}

/// Section 5.5, row 7: with the priority as the last key only.
#[test]
fn applications_of_a_fifo_leaf_go_by_age_where_priority_is_off() {
    check(
        "
        queue root.a prop application.sort.priority=disabled
        app a4 in root.a
        wait 1s
        app a3 in root.a
        wait 1s
        app a2 in root.a
        wait 1s
        app a1 in root.a
        ask a1 k1 vcore=1 prio=4
        ask a2 k1 vcore=1 prio=3
        ask a3 k1 vcore=1 prio=2
        ask a4 k1 vcore=1 prio=1
        node n1 vcore=4
        ",
        &expect![[r#"
            a4 accepted
            a3 accepted
            a2 accepted
            a1 accepted
            a1 is Accepted
            a2 is Accepted
            a3 is Accepted
            a4 is Accepted
            n1 accepted
            a4 is Running
            a4/k1 placed on n1
            a3 is Running
            a3/k1 placed on n1
            a2 is Running
            a2/k1 placed on n1
            a1 is Running
            a1/k1 placed on n1
        "#]],
    );
}

/// Section 5.3: the age of an application is that of its oldest ask.
#[test]
fn an_older_ask_makes_its_application_older() {
    check(
        "
        queue root.a
        app a1 in root.a
        wait 1s
        app a2 in root.a
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1
        ask a2 k2 vcore=1 created=10
        node n1 vcore=3
        ",
        &expect![[r#"
            a1 accepted
            a2 accepted
            a1 is Accepted
            a2 is Accepted
            n1 accepted
            a2 is Running
            a2/k2 placed on n1
            a2/k1 placed on n1
            a1 is Running
            a1/k1 placed on n1
        "#]],
    );
}

/// Section 5.5, row 8; equal ones go by id (D29).
#[test]
fn applications_of_one_age_go_by_priority_and_then_by_id() {
    check(
        "
        queue root.a
        app a4 in root.a
        app a1 in root.a
        app a2 in root.a
        app a3 in root.a
        ask a4 k1 vcore=1
        ask a1 k1 vcore=1 prio=3
        ask a2 k1 vcore=1
        ask a3 k1 vcore=1 prio=5
        node n1 vcore=4
        ",
        &expect![[r#"
            a4 accepted
            a1 accepted
            a2 accepted
            a3 accepted
            a4 is Accepted
            a1 is Accepted
            a2 is Accepted
            a3 is Accepted
            n1 accepted
            a3 is Running
            a3/k1 placed on n1
            a1 is Running
            a1/k1 placed on n1
            a2 is Running
            a2/k1 placed on n1
            a4 is Running
            a4/k1 placed on n1
        "#]],
    );
}

/// Section 5.5, row 9.
#[test]
fn applications_of_a_fair_leaf_go_by_usage() {
    check(
        "
        queue root.a prop application.sort.policy=fair
        node n1 vcore=1000
        app a1 in root.a
        app a2 in root.a
        app a3 in root.a
        app a4 in root.a
        exists a1 k0 on n1 vcore=400
        exists a2 k0 on n1 vcore=300
        exists a3 k0 on n1 vcore=200
        exists a4 k0 on n1 vcore=100
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1
        ask a3 k1 vcore=1
        ask a4 k1 vcore=1
        resize n1 vcore=1004
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a3 accepted
            a4 accepted
            a1 is Accepted
            a1 is Running
            a1/k0 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k0 placed on n1
            a3 is Accepted
            a3 is Running
            a3/k0 placed on n1
            a4 is Accepted
            a4 is Running
            a4/k0 placed on n1
            a4/k1 placed on n1
            a3/k1 placed on n1
            a2/k1 placed on n1
            a1/k1 placed on n1
        "#]],
    );
}

/// Section 5.3: usage counts by the guarantee of the leaf, 0.5 of memory against 0.1 of cores.
#[test]
fn applications_of_a_fair_leaf_share_its_guarantee() {
    check(
        "
        queue root.a guaranteed vcore=1000 memory=10 prop application.sort.policy=fair
        node n1 vcore=100 memory=5
        app a1 in root.a
        app a2 in root.a
        exists a1 k0 on n1 memory=5
        exists a2 k0 on n1 vcore=100
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1
        resize n1 vcore=102 memory=5
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k0 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k0 placed on n1
            a2/k1 placed on n1
            a1/k1 placed on n1
        "#]],
    );
}

/// Section 5.5, row 11.
#[test]
fn an_application_of_higher_priority_goes_first_whatever_its_age_and_usage() {
    check(
        "
        queue root.a prop application.sort.policy=fair
        node n1 vcore=100
        app a1 in root.a
        wait 1s
        app a2 in root.a
        exists a2 k0 on n1 vcore=100
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1 prio=5
        resize n1 vcore=102
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a2 is Accepted
            a2 is Running
            a2/k0 placed on n1
            a1 is Accepted
            a2/k1 placed on n1
            a1 is Running
            a1/k1 placed on n1
        "#]],
    );
}

/// Section 5.5, rows 12 and 13.
#[test]
fn a_queue_shows_nothing_without_pending_and_never_more_than_the_highest() {
    check(
        "
        queue root.a prop priority.policy=fence prop priority.offset=3
        queue root.b prop priority.offset=2147483647
        app a1 in root.a
        app b1 in root.b
        ask b1 k1 vcore=1 prio=10
        show queues
        ",
        &expect![[r#"
            a1 accepted
            b1 accepted
            b1 is Accepted
            root: used nothing, pending vcore=1, headroom nothing, running 0, priority 2147483647
            root.a: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.b: used nothing, pending vcore=1, headroom nothing, running 0, priority 2147483647
        "#]],
    );
}

/// Section 5.5, row 14.
#[test]
fn an_application_with_nothing_pending_holds_nothing_back() {
    check(
        "
        queue root.a
        app a1 in root.a
        app a2 in root.a
        ask a1 k1 vcore=1 prio=9
        ask a2 k1 vcore=1
        withdraw a1 k1
        node n1 vcore=1
        ",
        &expect![[r#"
            a1 accepted
            a2 accepted
            a1 is Accepted
            a2 is Accepted
            a1 is Completing
            n1 accepted
            a2 is Running
            a2/k1 placed on n1
        "#]],
    );
}

/// The example of section 5.1.
#[test]
fn offsets_of_leaf_and_parent_add_to_the_highest_application() {
    check(
        "
        queue root.p prop priority.offset=5
        queue root.p.a prop priority.offset=3
        app a1 in root.p.a
        ask a1 k1 vcore=1
        show queues
        app a2 in root.p.a
        ask a2 k1 vcore=1 prio=5
        show queues
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            root: used nothing, pending vcore=1, headroom nothing, running 0, priority 8
            root.p: used nothing, pending vcore=1, headroom nothing, running 0, priority 8
            root.p.a: used nothing, pending vcore=1, headroom nothing, running 0, priority 3
            a2 accepted
            a2 is Accepted
            root: used nothing, pending vcore=2, headroom nothing, running 0, priority 13
            root.p: used nothing, pending vcore=2, headroom nothing, running 0, priority 13
            root.p.a: used nothing, pending vcore=2, headroom nothing, running 0, priority 8
        "#]],
    );
}
