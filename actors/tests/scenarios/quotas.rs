//! Headroom, quotas and limits of running applications: what every queue from leaf to root still
//! allows, and which applications may start.

use expect_test::expect;

use crate::world::check;

#[test]
fn headroom_is_the_least_along_the_path() {
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

/// The allocation on a node without capacity was recovered.
#[test]
fn headroom_without_capacity_comes_from_quotas() {
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

/// Without usage the headroom is the effective maximum.
#[test]
fn the_effective_maximum_is_the_least_per_type() {
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

/// 420 of the queue's own 1200 is a smaller share than 400 of the root's 1000; 420 of 1000 would be
/// a larger one.
#[test]
fn a_maximum_above_roots_sets_the_share() {
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

/// A type without a maximum of the queue's own uses the maximum above: memory of root.tier is 0.50
/// of the root's maximum, so root.other with 0.40 goes first. By its own maximum root.tier would
/// have 0.10.
#[test]
fn a_type_without_maximum_uses_the_one_above() {
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

#[test]
fn an_ask_of_an_unknown_type_is_never_placed() {
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

#[test]
fn a_quota_limits_only_its_named_types() {
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

#[test]
fn a_queue_above_quota_takes_other_types() {
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

/// A release of an amount that is not held changes no queue, so none falls below zero: a second
/// release, or a release of an unplaced ask.
#[test]
fn releasing_too_much_changes_no_queue() {
    check(
        "
        queue root.p.a
        queue root.p.b
        node n1 vcore=4
        app a1 in root.p.a
        app b1 in root.p.b
        ask a1 k1 vcore=2
        ask a1 k2 vcore=1
        ask b1 k1 vcore=1
        release a1 uuid=k1 ; release a1 uuid=k1
        release a1 uuid=k1
        release b1 uuid=k2
        release a1 uuid=k9
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2 placed on n1
            b1 is Accepted
            b1 is Running
            b1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            root: used vcore=2, pending nothing, headroom vcore=2, running 2, priority none
            root.p: used vcore=2, pending nothing, headroom vcore=2, running 2, priority none
            root.p.a: used vcore=1, pending nothing, headroom vcore=2, running 1, priority none
            root.p.b: used vcore=1, pending nothing, headroom vcore=2, running 1, priority none
        "#]],
    );
}

/// A maximum with only zero amounts is no maximum.
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

#[test]
fn recovered_applications_may_exceed_the_running_limit() {
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

/// All levels must allow an application to start, and running applications are never stopped.
#[test]
fn a_parent_counts_applications_of_all_leaves() {
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
