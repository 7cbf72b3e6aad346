//! Which group's limit applies to an application, and how much of it is left when other
//! applications count for the same group (`docs/limits.md`).

use expect_test::expect;

use crate::world::check;

#[test]
fn the_group_comes_from_the_closest_limit() {
    check(
        "
        queue root limit groups=test_root vcore=3
        queue root.parent limit groups=test_parent vcore=2
        queue root.parent.leaf
        queue root.other.leaf
        node n1 vcore=20
        app a1 in root.parent.leaf user ann groups test,test_root,test_parent
        app b1 in root.other.leaf user ann groups test,test_root,test_parent
        ask a1 k x9 vcore=1
        ask b1 k x9 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k#1 of k placed on n1
            a1/k#2 of k placed on n1
            b1 is Accepted
            b1 is Running
            b1/k#1 of k placed on n1
            b1/k#2 of k placed on n1
            b1/k#3 of k placed on n1
            root: used vcore=5, pending vcore=13, headroom vcore=15, running 2, priority 0
            root.other: used vcore=3, pending vcore=6, headroom vcore=15, running 1, priority 0
            root.other.leaf: used vcore=3, pending vcore=6, headroom vcore=15, running 1, priority 0
            root.parent: used vcore=2, pending vcore=7, headroom vcore=15, running 1, priority 0
            root.parent.leaf: used vcore=2, pending vcore=7, headroom vcore=15, running 1, priority 0
        "#]],
    );
}

#[test]
fn without_a_parent_limit_the_group_is_roots() {
    check(
        "
        queue root limit groups=test_root vcore=3
        queue root.parent limit groups=test_parent vcore=2
        queue root.parent.leaf
        node n1 vcore=20
        app a1 in root.parent.leaf user ann groups test,test_root
        ask a1 k x9 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k#1 of k placed on n1
            a1/k#2 of k placed on n1
            a1/k#3 of k placed on n1
            root: used vcore=3, pending vcore=6, headroom vcore=17, running 1, priority 0
            root.parent: used vcore=3, pending vcore=6, headroom vcore=17, running 1, priority 0
            root.parent.leaf: used vcore=3, pending vcore=6, headroom vcore=17, running 1, priority 0
        "#]],
    );
}

#[test]
fn a_wildcard_on_the_leaf_wins_over_named_groups_above() {
    check(
        "
        queue root limit groups=dev vcore=9
        queue root.a limit groups=other vcore=1 limit groups=* vcore=2
        node n1 vcore=20
        app a1 in root.a user ann groups dev
        ask a1 k x9 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k#1 of k placed on n1
            a1/k#2 of k placed on n1
            root: used vcore=2, pending vcore=7, headroom vcore=18, running 1, priority 0
            root.a: used vcore=2, pending vcore=7, headroom vcore=18, running 1, priority 0
        "#]],
    );
}

#[test]
fn applications_of_the_wildcard_group_share_its_limit() {
    check(
        "
        queue root.a limit groups=other vcore=1 limit groups=* vcore=3
        node n1 vcore=20
        app a1 in root.a user ann groups dev
        app b1 in root.a user bob groups ops
        ask a1 k x3 vcore=1
        ask b1 k vcore=1
        release a1 uuid=k#1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k#1 of k placed on n1
            a1/k#2 of k placed on n1
            a1/k#3 of k placed on n1
            b1 is Accepted
            a1/k#1 of k released: STOPPED_BY_RM
            b1 is Running
            b1/k placed on n1
            root: used vcore=3, pending nothing, headroom vcore=17, running 2, priority none
            root.a: used vcore=3, pending nothing, headroom vcore=17, running 2, priority none
        "#]],
    );
}

#[test]
fn a_users_applications_count_for_groups_by_queue() {
    check(
        "
        queue root.a limit groups=dev vcore=1
        queue root.b limit groups=ops vcore=2
        node n1 vcore=20
        app a1 in root.a user ann groups dev,ops
        app b1 in root.b user ann groups dev,ops
        ask a1 k x9 vcore=1
        ask b1 k x9 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k#1 of k placed on n1
            b1 is Accepted
            b1 is Running
            b1/k#1 of k placed on n1
            b1/k#2 of k placed on n1
            root: used vcore=3, pending vcore=15, headroom vcore=17, running 2, priority 0
            root.a: used vcore=1, pending vcore=8, headroom vcore=17, running 1, priority 0
            root.b: used vcore=2, pending vcore=7, headroom vcore=17, running 1, priority 0
        "#]],
    );
}

#[test]
fn a_later_group_limit_applies_to_later_applications() {
    check(
        "
        queue root limit groups=dev vcore=9
        queue root.a
        node n1 vcore=20
        app a1 in root.a user ann groups dev,ops
        ask a1 k1 vcore=1
        forget
        queue root limit groups=dev vcore=9
        queue root.a limit groups=ops vcore=1
        reload
        ask a1 k2 x3 vcore=1
        app a2 in root.a user ann groups dev,ops
        ask a2 k x3 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2#1 of k2 placed on n1
            a1/k2#2 of k2 placed on n1
            a1/k2#3 of k2 placed on n1
            a2 accepted
            a2 is Accepted
            a2 is Running
            a2/k#1 of k placed on n1
            root: used vcore=5, pending vcore=2, headroom vcore=15, running 2, priority 0
            root.a: used vcore=5, pending vcore=2, headroom vcore=15, running 2, priority 0
        "#]],
    );
}

/// The lane that the application moves into is older than the one it leaves, and the application is
/// the first in both.
#[test]
fn an_application_moving_to_an_older_group_keeps_its_turn() {
    check(
        "
        queue root limit groups=dev vcore=2
        queue root.a
        node n1 vcore=20
        app a1 in root.a user ann groups dev,ops
        ask a1 k vcore=1
        forget
        queue root limit groups=dev vcore=2
        queue root.a limit groups=ops vcore=1
        reload
        app a2 in root.a user ann groups dev,ops
        ask a2 k vcore=2
        forget
        queue root limit groups=dev vcore=2
        queue root.a
        reload
        release a1 key=k
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k placed on n1
            a2 accepted
            a2 is Accepted
            a1/k released: STOPPED_BY_RM
            a1 is Completing
            a2 is Running
            a2/k placed on n1
            root: used vcore=2, pending nothing, headroom vcore=18, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=18, running 1, priority none
        "#]],
    );
}

/// Running allocations count under a new limit, as after a restart.
#[test]
fn a_first_group_limit_counts_running_allocations() {
    check(
        "
        queue root.parent
        queue root.parent.leaf
        node n1 memory=300
        app a1 in root.parent.leaf user ann groups g0
        ask a1 k1 memory=60
        forget
        queue root.parent limit groups=g0 memory=50
        queue root.parent.leaf
        reload
        show users
        ask a1 k2 memory=100
        app a2 in root.parent.leaf user bob groups g0
        ask a2 k memory=50
        app a3 in root.parent.leaf user cid groups g1
        ask a3 k memory=7
        show users
        recover 0
        show users
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            user ann: used memory=60, running [a1]
            group g0: used memory=60, running [a1]
            a2 accepted
            a2 is Accepted
            a3 accepted
            a3 is Accepted
            a3 is Running
            a3/k placed on n1
            user ann: used memory=60, running [a1]
            user bob: used nothing, running []
            user cid: used memory=7, running [a3]
            group g0: used memory=60, running [a1]
            a1 accepted
            a2 accepted
            a3 accepted
            n1 accepted
            a1 is Accepted
            a1 is Running
            a3 is Accepted
            a3 is Running
            a2 is Accepted
            user ann: used memory=60, running [a1]
            user bob: used nothing, running []
            user cid: used memory=7, running [a3]
            group g0: used memory=60, running [a1]
        "#]],
    );
}

/// The group that lost its limit is not the only one that the application may count for later.
#[test]
fn a_group_is_chosen_again_when_limits_move() {
    check(
        "
        queue root.a limit groups=g1 vcore=9
        node n1 vcore=20
        app a1 in root.a user ann groups g0,g1
        ask a1 k1 x2 vcore=1
        forget
        queue root.a
        reload
        show users
        forget
        queue root.a limit groups=g0 vcore=3 apps=1
        reload
        ask a1 k2 x5 vcore=1
        app a2 in root.a user bob groups g0
        ask a2 k vcore=1
        show users
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            user ann: used vcore=2, running [a1]
            a1/k2#1 of k2 placed on n1
            a2 accepted
            a2 is Accepted
            user ann: used vcore=3, running [a1]
            user bob: used nothing, running []
            group g0: used vcore=3, running [a1]
        "#]],
    );
}
