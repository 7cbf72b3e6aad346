//! Priorities of asks, applications and queues, with offsets and fences on the way up to root.

use expect_test::expect;

use crate::world::check;

#[test]
fn placed_asks_raise_no_priority() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=9 prio=10
        ask a1 k2 vcore=9 prio=20
        show queues
        resize n1 vcore=9
        show queues
        withdraw a1 k1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            root: used nothing, pending vcore=18, headroom vcore=1, running 0, priority 20
            root.a: used nothing, pending vcore=18, headroom vcore=1, running 0, priority 20
            a1 is Running
            a1/k2 placed on n1
            root: used vcore=9, pending vcore=9, headroom vcore=0, running 1, priority 10
            root.a: used vcore=9, pending vcore=9, headroom vcore=0, running 1, priority 10
            root: used vcore=9, pending nothing, headroom vcore=0, running 1, priority none
            root.a: used vcore=9, pending nothing, headroom vcore=0, running 1, priority none
        "#]],
    );
}

#[test]
fn offsets_add_up_and_fences_hide() {
    check(
        "
        queue root prop priority.offset=3
        queue root.a prop priority.offset=2
        queue root.a.x prop priority.offset=1
        queue root.b prop priority.policy=fence
        queue root.c prop priority.policy=fence prop priority.offset=7
        queue root.d prop priority.offset=100
        app a1 in root.a.x
        app b1 in root.b
        app d1 in root.d
        ask a1 k1 vcore=1
        ask b1 k1 vcore=1 prio=1000
        ask d1 k1 vcore=1 prio=2147483638
        show queues
        ",
        &expect![[r#"
            a1 accepted
            b1 accepted
            d1 accepted
            a1 is Accepted
            b1 is Accepted
            d1 is Accepted
            root: used nothing, pending vcore=3, headroom nothing, running 0, priority 2147483647
            root.a: used nothing, pending vcore=1, headroom nothing, running 0, priority 3
            root.a.x: used nothing, pending vcore=1, headroom nothing, running 0, priority 1
            root.b: used nothing, pending vcore=1, headroom nothing, running 0, priority 0
            root.c: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.d: used nothing, pending vcore=1, headroom nothing, running 0, priority 2147483647
        "#]],
    );
}

#[test]
fn removing_an_application_recomputes_priorities_to_root() {
    check(
        "
        queue root.a.x prop priority.offset=5
        app a1 in root.a.x
        app a2 in root.a.x
        ask a1 k1 vcore=1 prio=20
        ask a2 k1 vcore=1 prio=-3
        show queues
        remove-app a1
        show queues
        withdraw a2 k1
        show queues
        ",
        &expect![[r#"
            a1 accepted
            a2 accepted
            a1 is Accepted
            a2 is Accepted
            root: used nothing, pending vcore=2, headroom nothing, running 0, priority 25
            root.a: used nothing, pending vcore=2, headroom nothing, running 0, priority 25
            root.a.x: used nothing, pending vcore=2, headroom nothing, running 0, priority 25
            ask a1/k1 released: STOPPED_BY_RM
            root: used nothing, pending vcore=1, headroom nothing, running 0, priority 2
            root.a: used nothing, pending vcore=1, headroom nothing, running 0, priority 2
            root.a.x: used nothing, pending vcore=1, headroom nothing, running 0, priority 2
            a2 is Completing
            root: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.a: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.a.x: used nothing, pending nothing, headroom nothing, running 0, priority none
        "#]],
    );
}

/// A fenced queue without pending asks has no priority, so it does not come before one with -5.
#[test]
fn the_queue_of_the_higher_priority_goes_first() {
    check(
        "
        queue root.a prop priority.policy=fence
        queue root.b
        queue root.c prop priority.policy=fence prop priority.offset=-6
        node n1 vcore=1
        app a1 in root.a
        app b1 in root.b
        app c1 in root.c
        ask b1 k0 vcore=1
        ask b1 k1 vcore=1 prio=-5
        ask c1 k1 vcore=1 prio=99
        ask a1 k1 vcore=1 prio=-9
        resize n1 vcore=2
        resize n1 vcore=3
        resize n1 vcore=4
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            c1 accepted
            b1 is Accepted
            b1 is Running
            b1/k0 placed on n1
            c1 is Accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            b1/k1 placed on n1
            c1 is Running
            c1/k1 placed on n1
        "#]],
    );
}

#[test]
fn inside_a_fence_the_priorities_of_asks_count() {
    check(
        "
        queue root.a prop priority.policy=fence
        node n1 vcore=1
        app a1 in root.a
        app a2 in root.a
        ask a1 k0 vcore=1
        ask a1 k1 vcore=1 prio=1
        ask a2 k1 vcore=1 prio=1000
        resize n1 vcore=2
        resize n1 vcore=3
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
            a2/k1 placed on n1
            a1/k1 placed on n1
        "#]],
    );
}

#[test]
fn without_priority_the_older_application_comes_first() {
    check(
        "
        queue root.a prop application.sort.priority=disabled
        node n1 vcore=1
        app a1 in root.a
        ask a1 k0 vcore=1
        wait 1s
        app a2 in root.a
        ask a1 k1 vcore=1 prio=1
        ask a2 k1 vcore=1 prio=9
        resize n1 vcore=2
        resize n1 vcore=3
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k0 placed on n1
            a2 accepted
            a2 is Accepted
            a1/k1 placed on n1
            a2 is Running
            a2/k1 placed on n1
        "#]],
    );
}

#[test]
fn a_too_large_high_priority_ask_blocks_nobody() {
    check(
        "
        queue root.a
        queue root.b
        node n1 vcore=2
        app a1 in root.a
        app a2 in root.a
        app b1 in root.b
        ask a1 k1 vcore=5 prio=9
        ask a1 k2 vcore=1 prio=8
        ask a2 k1 vcore=5 prio=7
        ask b1 k1 vcore=1 prio=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k2 placed on n1
            a2 is Accepted
            b1 is Accepted
            b1 is Running
            b1/k1 placed on n1
            root: used vcore=2, pending vcore=10, headroom vcore=0, running 2, priority 9
            root.a: used vcore=1, pending vcore=10, headroom vcore=0, running 1, priority 9
            root.b: used vcore=1, pending nothing, headroom vcore=0, running 1, priority none
        "#]],
    );
}

#[test]
fn a_fair_leaf_takes_turns() {
    check(
        "
        queue root.a prop application.sort.policy=fair
        node n1 vcore=1
        app a1 in root.a
        app a2 in root.a
        ask a1 k0 vcore=1
        ask a1 k1 x4 vcore=1
        ask a2 k1 x4 vcore=1
        resize n1 vcore=7
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
            a2/k1#1 of k1 placed on n1
            a1/k1#1 of k1 placed on n1
            a2/k1#2 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a2/k1#3 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
        "#]],
    );
}

#[test]
fn a_fair_leaf_compares_shares_of_its_guarantee() {
    check(
        "
        queue root.a guaranteed vcore=10 memory=100 prop application.sort.policy=fair
        node n1 vcore=2 memory=8
        app a1 in root.a
        app a2 in root.a
        ask a1 k0 vcore=2
        ask a2 k0 memory=8
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1
        resize n1 vcore=3 memory=8
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
        "#]],
    );
}

#[test]
fn a_fifo_leaf_serves_the_oldest_first() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a0 in root.a
        ask a0 k0 vcore=1
        app a3 in root.a
        ask a3 k1 x2 vcore=1 created=903
        app a1 in root.a
        ask a1 k1 x2 vcore=1 created=901
        app a2 in root.a
        ask a2 k1 x2 vcore=1 created=902
        resize n1 vcore=6
        ",
        &expect![[r#"
            n1 accepted
            a0 accepted
            a0 is Accepted
            a0 is Running
            a0/k0 placed on n1
            a3 accepted
            a3 is Accepted
            a1 accepted
            a1 is Accepted
            a2 accepted
            a2 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a2 is Running
            a2/k1#1 of k1 placed on n1
            a2/k1#2 of k1 placed on n1
            a3 is Running
            a3/k1#1 of k1 placed on n1
        "#]],
    );
}

/// The shares of the guarantees are 0.6, 0.67, 0.5 and 0.5, and q3 has the higher priority.
#[test]
fn queues_sort_by_priority_then_guarantee_share() {
    check(
        "
        queue root.q0 guaranteed vcore=500
        queue root.q1 guaranteed vcore=300
        queue root.q2 guaranteed vcore=200
        queue root.q3 guaranteed vcore=200
        node n1 vcore=700
        app p0 in root.q0
        app p1 in root.q1
        app p2 in root.q2
        app p3 in root.q3
        ask p0 used vcore=300
        ask p1 used vcore=200
        ask p2 used vcore=100
        ask p3 used vcore=100
        ask p0 more x9 vcore=1 prio=1
        ask p1 more x9 vcore=1 prio=1
        ask p2 more x9 vcore=1 prio=1
        ask p3 more x9 vcore=1 prio=3
        resize n1 vcore=701
        withdraw p3 more
        resize n1 vcore=702
        withdraw p2 more
        resize n1 vcore=703
        withdraw p0 more
        resize n1 vcore=704
        ",
        &expect![[r#"
            n1 accepted
            p0 accepted
            p1 accepted
            p2 accepted
            p3 accepted
            p0 is Accepted
            p0 is Running
            p0/used placed on n1
            p1 is Accepted
            p1 is Running
            p1/used placed on n1
            p2 is Accepted
            p2 is Running
            p2/used placed on n1
            p3 is Accepted
            p3 is Running
            p3/used placed on n1
            p3/more#1 of more placed on n1
            p2/more#1 of more placed on n1
            p0/more#1 of more placed on n1
            p1/more#1 of more placed on n1
        "#]],
    );
}

#[test]
fn without_priority_sorting_it_breaks_ties() {
    check(
        "
        queue root prop application.sort.priority=disabled
        queue root.q0 guaranteed vcore=500
        queue root.q1 guaranteed vcore=300
        queue root.q2 guaranteed vcore=200
        queue root.q3 guaranteed vcore=200
        node n1 vcore=700
        app p0 in root.q0
        app p1 in root.q1
        app p2 in root.q2
        app p3 in root.q3
        ask p0 used vcore=200
        ask p1 used vcore=300
        ask p2 used vcore=100
        ask p3 used vcore=100
        ask p0 more x9 vcore=1 prio=1
        ask p1 more x9 vcore=1 prio=1
        ask p2 more x9 vcore=1 prio=1
        ask p3 more x9 vcore=1 prio=3
        resize n1 vcore=701
        withdraw p0 more
        resize n1 vcore=702
        withdraw p3 more
        resize n1 vcore=703
        withdraw p2 more
        resize n1 vcore=704
        ",
        &expect![[r#"
            n1 accepted
            p0 accepted
            p1 accepted
            p2 accepted
            p3 accepted
            p0 is Accepted
            p0 is Running
            p0/used placed on n1
            p1 is Accepted
            p1 is Running
            p1/used placed on n1
            p2 is Accepted
            p2 is Running
            p2/used placed on n1
            p3 is Accepted
            p3 is Running
            p3/used placed on n1
            p0/more#1 of more placed on n1
            p3/more#1 of more placed on n1
            p2/more#1 of more placed on n1
            p1/more#1 of more placed on n1
        "#]],
    );
}

#[test]
fn equal_queues_sort_by_pending_then_path() {
    check(
        "
        queue root.a
        queue root.b
        queue root.c
        node n1 vcore=1
        app a1 in root.a
        app b1 in root.b
        app c1 in root.c
        ask a1 k0 vcore=1
        release a1 uuid=k0
        drain n1
        ask a1 k1 vcore=5
        ask b1 k1 vcore=10
        ask c1 k1 vcore=5
        undrain n1
        resize n1 vcore=10
        resize n1 vcore=15
        resize n1 vcore=20
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            c1 accepted
            a1 is Accepted
            a1 is Running
            a1/k0 placed on n1
            a1/k0 released: STOPPED_BY_RM
            a1 is Completing
            a1 is Running
            b1 is Accepted
            c1 is Accepted
            b1 is Running
            b1/k1 placed on n1
            a1/k1 placed on n1
            c1 is Running
            c1/k1 placed on n1
        "#]],
    );
}

/// The share of `a` is one of four, its maximum. The share of `b` is three of eight, the capacity
/// of the nodes.
#[test]
fn without_a_guarantee_shares_use_the_fair_maximum() {
    check(
        "
        queue root.a max vcore=4
        queue root.b
        node n1 vcore=8 occupied vcore=4
        app a1 in root.a
        app b1 in root.b
        ask a1 k0 vcore=1
        ask b1 k0 vcore=3
        ask a1 k1 x3 vcore=1
        ask b1 k1 x3 vcore=1
        resize n1 occupied vcore=3
        resize n1 occupied vcore=2
        resize n1 occupied vcore=1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k0 placed on n1
            b1 is Accepted
            b1 is Running
            b1/k0 placed on n1
            a1/k1#1 of k1 placed on n1
            b1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
        "#]],
    );
}

#[test]
fn offsets_of_three_levels_add_up_at_root() {
    check(
        "
        queue root.a prop priority.offset=3
        queue root.a.b prop priority.offset=2
        queue root.a.b.c prop priority.offset=1
        app a1 in root.a.b.c
        ask a1 k1 vcore=1
        show queues
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            root: used nothing, pending vcore=1, headroom nothing, running 0, priority 6
            root.a: used nothing, pending vcore=1, headroom nothing, running 0, priority 6
            root.a.b: used nothing, pending vcore=1, headroom nothing, running 0, priority 3
            root.a.b.c: used nothing, pending vcore=1, headroom nothing, running 0, priority 1
        "#]],
    );
}
