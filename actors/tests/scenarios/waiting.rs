//! Wake-ups of pending asks: an ask that fits is placed without a further message of the resource
//! manager, and one that does not fit is not retried for ever.

use expect_test::expect;

use crate::world::check;

/// The pending asks have no resource in common, so their minimum fits anywhere. Regression: the
/// join of the two bounds caused visit after visit.
#[test]
fn unlike_asks_are_not_retried_forever() {
    check(
        "
        queue root.a
        queue root.b
        node n5 memory=5 gpu=7 occupied vcore=1
        app a2 in root.a
        app a3 in root.b
        ask a3 k5 memory=3 gpu=3
        ask a2 k6 x3 vcore=4 gpu=1
        ask a2 k2 x2 memory=2
        resize n5 vcore=3 gpu=4 occupied vcore=3 memory=2
        show apps
        ",
        &expect![[r#"
            n5 accepted
            a2 accepted
            a3 accepted
            a3 is Accepted
            a3 is Running
            a3/k5 placed on n5
            a2 is Accepted
            a2 is Running
            a2/k2#1 of k2 placed on n5
            a2 in root.a is Running since 1000s: used memory=2, pending gpu=3 memory=2 vcore=12, holds [k2], asks [k2 x1, k6 x3]
            a3 in root.b is Running since 1000s: used gpu=3 memory=3, pending nothing, holds [k5], asks []
        "#]],
    );
}

#[test]
fn a_full_required_node_is_used_when_free() {
    check(
        "
        queue root.a
        node n1 memory=2
        node n2 memory=2
        app a1 in root.a
        app a2 in root.a
        ask a1 k1 memory=2 node=n1
        ask a2 k1 memory=2 node=n1
        ask a2 k2 memory=2 node=n3
        release a1 uuid=k1
        foreign f1 on n1 memory=2
        release a2 uuid=k1
        ask a2 k3 memory=1 node=n1
        foreign-gone f1
        ask a2 k4 memory=3 node=n1
        resize n1 memory=5
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            a2 is Running
            a2/k1 placed on n1
            a2/k1 released: STOPPED_BY_RM
            a2/k3 placed on n1
            a2/k4 placed on n1
        "#]],
    );
}

/// Regression: the application was visited although it had been removed in the same step, and the
/// partition was lost.
#[test]
fn a_removed_application_wakes_no_removed_one() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1 node=n1
        ask a1 k2 vcore=1 node=n1
        ask a1 k3 vcore=1 node=n2
        remove-app a1
        node n2 vcore=1
        app a2 in root.a
        ask a2 k1 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            ask a1/k2 released: STOPPED_BY_RM
            ask a1/k3 released: STOPPED_BY_RM
            n2 accepted
            a2 accepted
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
        "#]],
    );
}
