//! Placement of asks: their order, the nodes that are tried, and asks that are not delayed by one
//! without a node.

use expect_test::expect;

use crate::world::{check, check_plain};

#[test]
fn fair_nodes_are_spread_and_ids_break_ties() {
    check(
        "
        queue root.a
        node n2 vcore=4
        node n1 vcore=4
        app a1 in root.a
        ask a1 k1 x4 vcore=1
        ",
        &expect![[r#"
            n2 accepted
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n2
            a1/k1#3 of k1 placed on n1
            a1/k1#4 of k1 placed on n2
        "#]],
    );
}

#[test]
fn bin_packing_fills_one_node_first() {
    check(
        "
        order binpacking vcore=1
        queue root.a
        node n2 vcore=4
        node n1 vcore=4
        app a1 in root.a
        ask a1 k1 x6 vcore=1
        ",
        &expect![[r#"
            n2 accepted
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
            a1/k1#4 of k1 placed on n1
            a1/k1#5 of k1 placed on n2
            a1/k1#6 of k1 placed on n2
        "#]],
    );
}

/// n1 is 90 % full in cores and 50 % in memory, which is 0.82; n2 is at 0.8.
#[test]
fn weights_decide_which_node_is_emptier() {
    check(
        "
        order fair vcore=4 memory=1
        queue root.a
        node n1 vcore=1000 memory=100 occupied vcore=900 memory=50
        node n2 vcore=1000 memory=100 occupied vcore=800 memory=80
        app a1 in root.a
        ask a1 k1 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n2
        "#]],
    );
}

#[test]
fn a_node_without_the_resource_is_skipped() {
    check(
        "
        queue root.a
        node n1 vcore=4
        node n2 vcore=1 gpu=1 occupied vcore=1
        app a1 in root.a
        ask a1 k1 gpu=1
        ask a1 k2 gpu=1
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n2
        "#]],
    );
}

#[test]
fn no_more_applications_run_than_may() {
    check(
        "
        queue root.a maxapps=1
        node n1 vcore=9
        app a1 in root.a
        app a2 in root.a
        app a3 in root.a
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1
        ask a3 k1 vcore=1
        ask a1 k2 vcore=1
        release a1 *
        wait 30s
        release a2 *
        ask a2 k2 vcore=1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a3 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a3 is Accepted
            a1/k2 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1/k2 released: STOPPED_BY_RM
            a1 is Completing
            a2 is Running
            a2/k1 placed on n1
            a1 is Completed
            a2/k1 released: STOPPED_BY_RM
            a2 is Completing
            a3 is Running
            a3/k1 placed on n1
            a2 is Running
            a2/k2 placed on n1
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k2], asks []
            a3 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
        "#]],
    );
}

#[test]
fn running_applications_count_at_every_level() {
    check(
        "
        queue root.a maxapps=2
        queue root.a.x maxapps=1
        queue root.a.y maxapps=2
        node n1 vcore=9
        app a1 in root.a.x
        app a2 in root.a.x
        app a3 in root.a.y
        app a4 in root.a.y
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1
        ask a3 k1 vcore=1
        ask a4 k1 vcore=1
        release a3 *
        release a1 *
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
            a3 is Accepted
            a3 is Running
            a3/k1 placed on n1
            a4 is Accepted
            a3/k1 released: STOPPED_BY_RM
            a3 is Completing
            a4 is Running
            a4/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            a2 is Running
            a2/k1 placed on n1
            root: used vcore=2, pending nothing, headroom vcore=7, running 2, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=7, running 2, priority none
            root.a.x: used vcore=1, pending nothing, headroom vcore=7, running 1, priority none
            root.a.y: used vcore=1, pending nothing, headroom vcore=7, running 1, priority none
        "#]],
    );
}

/// Recovered applications count although they exceed the limit of running ones; only others wait
/// for it.
#[test]
fn recovered_applications_may_be_more_than_may_run() {
    check(
        "
        queue root.a maxapps=2
        node n1 vcore=9
        app a1 in root.a
        app a2 in root.a
        app a3 in root.a
        app a4 in root.a
        exists a1 k1 on n1 vcore=1
        exists a2 k1 on n1 vcore=1
        exists a3 k1 on n1 vcore=1
        ask a4 k1 vcore=1
        show queues
        release a1 *
        show queues
        release a2 *
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
            root: used vcore=3, pending vcore=1, headroom vcore=6, running 3, priority 0
            root.a: used vcore=3, pending vcore=1, headroom vcore=6, running 3, priority 0
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            root: used vcore=2, pending vcore=1, headroom vcore=7, running 2, priority 0
            root.a: used vcore=2, pending vcore=1, headroom vcore=7, running 2, priority 0
            a2/k1 released: STOPPED_BY_RM
            a2 is Completing
            a4 is Running
            a4/k1 placed on n1
            root: used vcore=2, pending nothing, headroom vcore=7, running 2, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=7, running 2, priority none
        "#]],
    );
}

#[test]
fn a_required_node_is_used_even_if_drained() {
    check(
        "
        queue root.a
        node n1 vcore=1
        node n2 vcore=1 drained
        node n3 vcore=1 attr ready=false
        app a1 in root.a
        ask a1 k2 vcore=1 node=n2
        ask a1 k3 vcore=1 node=n3
        ask a1 k4 vcore=1 node=n4
        node n4 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k2 placed on n2
            a1/k3 placed on n3
            n4 accepted
            a1/k4 placed on n4
        "#]],
    );
}

#[test]
fn unfit_asks_do_not_block_fitting_ones() {
    check(
        "
        queue root.a max vcore=4
        queue root.b
        node n1 vcore=8
        app a1 in root.a
        app a2 in root.a
        app a3 in root.b
        ask a1 k1 vcore=5 prio=9
        ask a1 k2 vcore=1
        ask a2 k1 vcore=1
        ask a3 k1 vcore=9
        ask a3 k2 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a3 accepted
            a1 is Accepted
            a1 is Running
            a1/k2 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a3 is Accepted
            a3 is Running
            a3/k2 placed on n1
        "#]],
    );
}

#[test]
fn predicates_follow_the_node_order() {
    check_plain(
        "
        queue root.a
        node n1 vcore=4
        node n2 vcore=4
        node n3 vcore=4
        app a1 in root.a
        refuse k1 n1
        refuse k1 n2
        ask a1 k1 vcore=1
        ask a1 k2 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n3
            a1/k2 placed on n1
        "#]],
    );
}

#[test]
fn a_refused_ask_is_retried_after_a_change() {
    check_plain(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a
        refuse k1 *
        ask a1 k1 vcore=1
        ask a1 k2 vcore=1
        allow k1 *
        wait 999ms
        wait 1ms
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k2 placed on n1
            a1/k1 placed on n1
        "#]],
    );
}

#[test]
fn a_refusal_affects_one_ask_only() {
    check_plain(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a
        refuse k2 *
        ask a1 k1 vcore=1 ; ask a1 k2 vcore=1 ; ask a1 k3 vcore=1
        show apps
        withdraw a1 k2
        ask a1 k2 vcore=1
        allow k2 *
        node n2 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k3 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending vcore=1, holds [k1, k3], asks [k2 x1]
            n2 accepted
            a1/k2 placed on n2
        "#]],
    );
}

#[test]
fn a_new_node_is_asked_after_refusals_elsewhere() {
    check_plain(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a
        refuse k1 n1
        ask a1 k1 vcore=1
        node n2 vcore=9
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            n2 accepted
            a1 is Running
            a1/k1 placed on n2
        "#]],
    );
}

#[test]
fn a_release_is_offered_in_order() {
    check(
        "
        queue root.a
        queue root.b max vcore=1
        node n1 vcore=4
        app a1 in root.a
        app a2 in root.b
        app a3 in root.a
        ask a1 k1 x4 vcore=1
        ask a2 k1 vcore=2
        ask a2 k2 vcore=1
        ask a3 k1 vcore=3
        ask a3 k2 vcore=1 prio=-1
        release a1 uuid=k1#1
        release a1 uuid=k1#2
        release a1 uuid=k1#3
        release a1 uuid=k1#4
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a3 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
            a1/k1#4 of k1 placed on n1
            a2 is Accepted
            a3 is Accepted
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a2 is Running
            a2/k2 placed on n1
            a1/k1#2 of k1 released: STOPPED_BY_RM
            a3 is Running
            a3/k2 placed on n1
            a1/k1#3 of k1 released: STOPPED_BY_RM
            a1/k1#4 of k1 released: STOPPED_BY_RM
            a1 is Completing
        "#]],
    );
}

#[test]
fn an_unoffered_resource_is_not_placed() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a
        ask a1 k1 vcore=1 gpu=1
        ask a1 k2 vcore=1 gpu=0
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k2 placed on n1
        "#]],
    );
}

#[test]
fn without_nodes_nothing_is_decided() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 vcore=1
        node n1
        node n2 vcore=1
        remove n2
        remove n1
        show queues
        ask a1 k2 vcore=1
        show queues
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            n1 accepted
            n2 accepted
            a1 is Running
            a1/k1 placed on n2
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            root: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.a: used nothing, pending nothing, headroom nothing, running 0, priority none
            a1 is Running
            root: used nothing, pending vcore=1, headroom nothing, running 1, priority 0
            root.a: used nothing, pending vcore=1, headroom nothing, running 1, priority 0
        "#]],
    );
}

/// The second start would exceed the limit of the parent, which the leaf alone does not know.
#[test]
fn of_two_possible_starts_one_happens() {
    check(
        "
        queue root.p maxapps=2
        queue root.p.x maxapps=2
        queue root.p.y maxapps=2
        node n1 vcore=1
        app y1 in root.p.y
        app x1 in root.p.x
        app x2 in root.p.x
        ask y1 k1 vcore=1
        ask x1 k1 x2 vcore=1
        ask x2 k1 x2 vcore=1
        resize n1 vcore=9
        release y1 *
        ",
        &expect![[r#"
            n1 accepted
            y1 accepted
            x1 accepted
            x2 accepted
            y1 is Accepted
            y1 is Running
            y1/k1 placed on n1
            x1 is Accepted
            x2 is Accepted
            x1 is Running
            x1/k1#1 of k1 placed on n1
            x1/k1#2 of k1 placed on n1
            y1/k1 released: STOPPED_BY_RM
            y1 is Completing
            x2 is Running
            x2/k1#1 of k1 placed on n1
            x2/k1#2 of k1 placed on n1
        "#]],
    );
}

/// The asks of lower priority of the first application are placed after those of the other queue.
#[test]
fn an_application_with_a_lower_priority_waits() {
    check(
        "
        queue root.a
        queue root.b
        node n1 vcore=9 drained
        app a1 in root.a
        app b1 in root.b
        ask a1 low x2 vcore=1 prio=1
        ask a1 high x2 vcore=1 prio=5
        ask b1 k1 x2 vcore=1 prio=3
        undrain n1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            b1 is Accepted
            a1 is Running
            a1/high#1 of high placed on n1
            a1/high#2 of high placed on n1
            b1 is Running
            b1/k1#1 of k1 placed on n1
            b1/k1#2 of k1 placed on n1
            a1/low#1 of low placed on n1
            a1/low#2 of low placed on n1
        "#]],
    );
}

#[test]
fn of_equal_nodes_the_preferred_is_taken() {
    check_plain(
        "
        queue root.a
        node n1 vcore=4 ; node n2 vcore=4 ; node n3 vcore=4 ; node n4 vcore=8
        app a1 in root.a
        prefer k1 n2 1
        prefer k1 n3 2
        ask a1 k1 vcore=4
        prefer k2 n3 1
        prefer k2 n2 -1
        ask a1 k2 vcore=2
        prefer k3 n1 1
        ask a1 k3 vcore=2
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n4 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n3
            a1/k2 placed on n1
            a1/k3 placed on n2
        "#]],
    );
}

#[test]
fn the_preferred_of_all_nodes_is_taken_if_possible() {
    check_plain(
        "
        queue root.a
        node n1 vcore=4 ; node n2 vcore=4 ; node n3 vcore=4
        app a1 in root.a
        ask a1 k0 vcore=1
        prefer k1 n1 1 among-all
        ask a1 k1 vcore=2
        prefer k2 n1 1 among-all
        ask a1 k2 vcore=2
        prefer k3 n2 2 among-all
        prefer k3 n1 1 among-all
        refuse k3 n2
        ask a1 k3 vcore=1
        refuse k4 *
        prefer k4 n2 1 among-all
        ask a1 k4 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k0 placed on n1
            a1/k1 placed on n1
            a1/k2 placed on n2
            a1/k3 placed on n1
        "#]],
    );
}
