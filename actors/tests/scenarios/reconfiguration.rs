//! Reloads while applications run: limits, orders and access lists. A reload changes decisions from
//! the next step on and evicts nothing.

use expect_test::expect;

use crate::world::check;

#[test]
fn a_raised_maximum_is_used_at_once() {
    check(
        "
        queue root.a max vcore=2
        node n1 vcore=10
        app a1 in root.a
        ask a1 k1 x5 vcore=1
        forget
        queue root.a max vcore=4
        reload
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
            a1/k1#4 of k1 placed on n1
            root: used vcore=4, pending vcore=1, headroom vcore=6, running 1, priority 0
            root.a: used vcore=4, pending vcore=1, headroom vcore=0, running 1, priority 0
        "#]],
    );
}

/// The maximum of the queue above was the limit; the leaf has none.
#[test]
fn a_raised_maximum_above_a_leaf_applies_at_once() {
    check(
        "
        queue root.p max vcore=2
        queue root.p.a
        queue root.p.b max vcore=2
        node n1 vcore=10
        app a1 in root.p.a
        app b1 in root.p.b
        ask a1 k1 x2 vcore=1
        ask b1 k1 x2 vcore=1
        forget
        queue root.p max vcore=3
        queue root.p.a
        queue root.p.b max vcore=3
        reload
        forget
        queue root.p
        queue root.p.a
        queue root.p.b max vcore=1
        reload
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            b1 is Accepted
            b1 is Running
            b1/k1#1 of k1 placed on n1
        "#]],
    );
}

#[test]
fn a_removed_property_returns_to_its_default() {
    check(
        "
        queue root.a prop application.sort.policy=fair prop priority.offset=7
        queue root.b
        node n1 vcore=2
        app a1 in root.a
        app a2 in root.a
        app b1 in root.b
        ask a1 k1 x5 vcore=1
        ask a2 k2 x5 vcore=1
        ask b1 k3 x5 vcore=1
        node n2 vcore=4
        show queues
        forget
        queue root.a
        queue root.b
        reload
        show queues
        node n3 vcore=8
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a2 is Accepted
            b1 is Accepted
            n2 accepted
            a2 is Running
            a2/k2#1 of k2 placed on n2
            a2/k2#2 of k2 placed on n2
            a1/k1#3 of k1 placed on n2
            a2/k2#3 of k2 placed on n2
            root: used vcore=6, pending vcore=9, headroom vcore=0, running 2, priority 7
            root.a: used vcore=6, pending vcore=4, headroom vcore=0, running 2, priority 7
            root.b: used nothing, pending vcore=5, headroom vcore=0, running 0, priority 0
            root: used vcore=6, pending vcore=9, headroom vcore=0, running 2, priority 0
            root.a: used vcore=6, pending vcore=4, headroom vcore=0, running 2, priority 0
            root.b: used nothing, pending vcore=5, headroom vcore=0, running 0, priority 0
            n3 accepted
            b1 is Running
            b1/k3#1 of k3 placed on n3
            b1/k3#2 of k3 placed on n3
            b1/k3#3 of k3 placed on n3
            b1/k3#4 of k3 placed on n3
            b1/k3#5 of k3 placed on n3
            a1/k1#4 of k1 placed on n3
            a1/k1#5 of k1 placed on n3
            a2/k2#4 of k2 placed on n3
        "#]],
    );
}

#[test]
fn a_maximum_below_usage_evicts_and_admits_nothing() {
    check(
        "
        queue root.a max vcore=4
        node n1 vcore=10
        app a1 in root.a
        ask a1 k1 x3 vcore=1
        forget
        queue root.a max vcore=2
        reload
        ask a1 k2 vcore=1
        release a1 uuid=k1#1
        show queues
        release a1 uuid=k1#2
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
            a1/k1#1 of k1 released: STOPPED_BY_RM
            root: used vcore=2, pending vcore=1, headroom vcore=8, running 1, priority 0
            root.a: used vcore=2, pending vcore=1, headroom vcore=0, running 1, priority 0
            a1/k1#2 of k1 released: STOPPED_BY_RM
            a1/k2 placed on n1
        "#]],
    );
}

#[test]
fn a_raised_running_limit_starts_waiting_applications() {
    check(
        "
        queue root.a maxapps=1
        node n1 vcore=10
        app a1 in root.a
        app a2 in root.a
        app a3 in root.a
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1
        ask a3 k1 vcore=1
        forget
        queue root.a maxapps=2
        reload
        forget
        queue root.a maxapps=1
        reload
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
            a2 is Running
            a2/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a3 in root.a is Accepted since 1000s: used nothing, pending vcore=1, holds [], asks [k1 x1]
        "#]],
    );
}

#[test]
fn a_reload_applies_the_roots_running_limit() {
    check(
        "
        queue root maxapps=1
        queue root.a maxapps=1
        queue root.b maxapps=1
        node n1 vcore=10
        app a1 in root.a
        app b1 in root.b
        ask a1 k1 vcore=1
        ask b1 k1 vcore=1
        forget
        queue root maxapps=2
        queue root.a maxapps=1
        queue root.b maxapps=1
        reload
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
        "#]],
    );
}

#[test]
fn a_new_sort_policy_reorders_pending_asks() {
    check(
        "
        queue root.a prop application.sort.policy=fifo max vcore=2
        node n1 vcore=10
        app a1 in root.a
        wait 1s
        app a2 in root.a
        ask a1 k1 x4 vcore=1
        ask a2 k1 x4 vcore=1
        forget
        queue root.a prop application.sort.policy=fair max vcore=5
        reload
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
            a2/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
        "#]],
    );
}

#[test]
fn another_priority_offset_reaches_the_queue_above() {
    check(
        "
        queue root.p max vcore=1
        queue root.p.a
        queue root.p.b
        node n1 vcore=10
        app a1 in root.p.a
        app b1 in root.p.b
        ask a1 k1 x2 vcore=1
        ask b1 k1 vcore=1
        forget
        queue root.p max vcore=2
        queue root.p.a
        queue root.p.b prop priority.offset=5
        reload
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            b1 is Accepted
            b1 is Running
            b1/k1 placed on n1
            root: used vcore=2, pending vcore=1, headroom vcore=8, running 2, priority 0
            root.p: used vcore=2, pending vcore=1, headroom vcore=0, running 2, priority 0
            root.p.a: used vcore=1, pending vcore=1, headroom vcore=0, running 1, priority 0
            root.p.b: used vcore=1, pending nothing, headroom vcore=0, running 1, priority none
        "#]],
    );
}

/// The parent sorts by fairness before priority: the keys of all its children change.
#[test]
fn a_changed_parent_order_recomputes_its_childrens_keys() {
    check(
        "
        queue root.p max vcore=2
        queue root.p.a
        queue root.p.b
        node n1 vcore=10
        app a1 in root.p.a
        app b1 in root.p.b
        ask a1 k1 x4 vcore=1 prio=5
        ask b1 k1 x2 vcore=1
        forget
        queue root.p max vcore=4 prop application.sort.priority=disabled
        queue root.p.a
        queue root.p.b
        reload
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            b1 is Accepted
            b1 is Running
            b1/k1#1 of k1 placed on n1
            b1/k1#2 of k1 placed on n1
        "#]],
    );
}

#[test]
fn a_changed_node_order_applies_to_the_next_step() {
    check(
        "
        order fair vcore=1
        queue root.a
        node n1 vcore=10
        node n2 vcore=10
        app a1 in root.a
        ask a1 k1 x2 vcore=1
        ask a1 k2 vcore=1
        forget
        order binpacking vcore=1
        queue root.a
        reload
        ask a1 k3 x2 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n2
            a1/k2 placed on n1
            a1/k3#1 of k3 placed on n1
            a1/k3#2 of k3 placed on n1
        "#]],
    );
}

#[test]
fn submit_access_follows_the_new_configuration() {
    check(
        "
        queue root.a submit ada
        app a1 in root.a user bob
        forget
        queue root.a submit bob
        reload
        app a1 in root.a user bob
        app a2 in root.a user ada
        ",
        &expect![[r#"
            a1 rejected: R_PLACEMENT E_PLACEMENT_NONE
            a1 accepted
            a2 rejected: R_PLACEMENT E_PLACEMENT_NONE
        "#]],
    );
}
