//! Quotas and headroom of queues at work (queues-and-config chapter, 4.15).

use expect_test::expect;

use crate::world::check;

#[test]
fn headroom_is_the_least_on_the_path() {
    check(
        "
        queue root.p max vcore=20 memory=8
        queue root.p.x
        queue root.p.y
        node n1 vcore=20 memory=10
        app a1 in root.p.x
        app a2 in root.p.y
        ask a1 k1 vcore=5 memory=3
        ask a2 k1 vcore=5 memory=3
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            root: used memory=6 vcore=10, pending nothing, headroom memory=4 vcore=10, running 2, priority none
            root.p: used memory=6 vcore=10, pending nothing, headroom memory=2 vcore=10, running 2, priority none
            root.p.x: used memory=3 vcore=5, pending nothing, headroom memory=2 vcore=10, running 1, priority none
            root.p.y: used memory=3 vcore=5, pending nothing, headroom memory=2 vcore=10, running 1, priority none
        "#]],
    );
}

#[test]
fn without_nodes_headroom_is_that_of_the_quotas() {
    check(
        "
        queue root.p max vcore=20 memory=10
        queue root.p.x max vcore=10 gpu=10
        show queues
        ",
        &expect![[r#"
            root: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.p: used nothing, pending nothing, headroom memory=10 vcore=20, running 0, priority none
            root.p.x: used nothing, pending nothing, headroom gpu=10 memory=10 vcore=10, running 0, priority none
        "#]],
    );
}

#[test]
fn what_no_node_offers_is_refused_by_root() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 memory=1
        exists a1 k2 on n1 memory=1
        ask a1 k3 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k2 placed on n1
            a1/k3 placed on n1
            root: used memory=1 vcore=1, pending memory=1, headroom vcore=0, running 1, priority 0
            root.a: used memory=1 vcore=1, pending memory=1, headroom vcore=0, running 1, priority 0
        "#]],
    );
}

#[test]
fn a_queue_at_its_quota_takes_what_wants_none_of_it() {
    check(
        "
        queue root.a max vcore=1
        node n1 vcore=9 memory=9
        app a1 in root.a
        ask a1 k1 vcore=1
        ask a1 k2 memory=1
        ask a1 k3 vcore=1
        ask a1 k4 vcore=0 memory=1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2 placed on n1
            a1/k4 placed on n1
        "#]],
    );
}

#[test]
fn a_queue_over_its_quota_takes_what_wants_none_of_it() {
    check(
        "
        queue root.a max vcore=1 memory=0
        node n1 vcore=9 memory=9
        app a1 in root.a
        exists a1 k1 on n1 memory=1
        ask a1 k2 vcore=1
        ask a1 k3 vcore=0 memory=1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2 placed on n1
        "#]],
    );
}

/// A maximum of nothing but zeros is no maximum (3.4).
#[test]
fn a_quota_of_zeros_limits_nothing() {
    check(
        "
        queue root.a max vcore=0
        node n1 vcore=9
        app a1 in root.a
        ask a1 k1 vcore=1
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

#[test]
fn the_quota_of_a_parent_holds_for_all_below() {
    check(
        "
        queue root.p max vcore=3
        queue root.p.x max vcore=2
        queue root.p.y max vcore=2
        node n1 vcore=9
        app a1 in root.p.x
        app a2 in root.p.y
        ask a1 k1 x3 vcore=1
        ask a2 k1 x3 vcore=1
        release a2 uuid=k1#1
        release a1 uuid=k1#1
        release a1 uuid=k1#2
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1#1 of k1 placed on n1
            a2/k1#1 of k1 released: STOPPED_BY_RM
            a2/k1#2 of k1 placed on n1
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a1/k1#3 of k1 placed on n1
            a1/k1#2 of k1 released: STOPPED_BY_RM
            a2/k1#3 of k1 placed on n1
        "#]],
    );
}

#[test]
fn a_release_in_one_queue_lets_its_sibling_go_on() {
    check(
        "
        queue root.p max vcore=2
        queue root.p.x
        queue root.p.y
        queue root.q
        node n1 vcore=9
        app a1 in root.p.x
        app a2 in root.p.y
        app a3 in root.q
        ask a1 k1 x2 vcore=1
        ask a2 k1 vcore=2
        ask a2 k2 vcore=1
        release a1 uuid=k1#1
        release a1 uuid=k1#2
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
            a2 is Accepted
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a2 is Running
            a2/k2 placed on n1
            a1/k1#2 of k1 released: STOPPED_BY_RM
            a1 is Completing
        "#]],
    );
}

#[test]
fn a_node_that_leaves_takes_headroom_and_brings_it_back() {
    check(
        "
        queue root.p
        queue root.p.x
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.p.x
        ask a1 k1 x3 vcore=1
        remove n2
        ask a1 k2 vcore=1
        show queues
        node n2 vcore=3
        show queues
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n2
            a1/k1#3 of k1 placed on n1
            a1/k1#2 of k1 released: STOPPED_BY_RM
            root: used vcore=2, pending vcore=1, headroom vcore=0, running 1, priority 0
            root.p: used vcore=2, pending vcore=1, headroom vcore=0, running 1, priority 0
            root.p.x: used vcore=2, pending vcore=1, headroom vcore=0, running 1, priority 0
            n2 accepted
            a1/k2 placed on n2
            root: used vcore=3, pending nothing, headroom vcore=2, running 1, priority none
            root.p: used vcore=3, pending nothing, headroom vcore=2, running 1, priority none
            root.p.x: used vcore=3, pending nothing, headroom vcore=2, running 1, priority none
        "#]],
    );
}

#[test]
fn applications_that_wait_to_run_do_not_count_as_running() {
    check(
        "
        queue root.p maxapps=2
        queue root.p.x maxapps=1
        queue root.p.y maxapps=2
        node n1 vcore=9
        app a1 in root.p.x
        app a2 in root.p.x
        app a3 in root.p.y
        app a4 in root.p.y
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1 prio=9
        ask a3 k1 vcore=1
        ask a4 k1 vcore=1
        show queues
        release a3 *
        release a1 *
        ask a1 k2 vcore=1
        release a4 *
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
            root: used vcore=2, pending vcore=2, headroom vcore=7, running 2, priority 9
            root.p: used vcore=2, pending vcore=2, headroom vcore=7, running 2, priority 9
            root.p.x: used vcore=1, pending vcore=1, headroom vcore=7, running 1, priority 9
            root.p.y: used vcore=1, pending vcore=1, headroom vcore=7, running 1, priority 0
            a3/k1 released: STOPPED_BY_RM
            a3 is Completing
            a4 is Running
            a4/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            a2 is Running
            a2/k1 placed on n1
            a1 is Running
            a1/k2 placed on n1
            a4/k1 released: STOPPED_BY_RM
            a4 is Completing
        "#]],
    );
}

/// An application that may not run yet does not keep back one that runs, whatever its rank.
#[test]
fn who_may_not_run_is_passed_over() {
    check(
        "
        queue root.a maxapps=1
        node n1 vcore=9
        app a1 in root.a
        app a2 in root.a
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1 prio=9
        ask a1 k2 vcore=1
        withdraw a2 k1
        release a1 *
        ask a2 k2 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a1/k2 placed on n1
            a2 is Completing
            a1/k1 released: STOPPED_BY_RM
            a1/k2 released: STOPPED_BY_RM
            a1 is Completing
            a2 is Running
            a2/k2 placed on n1
        "#]],
    );
}
