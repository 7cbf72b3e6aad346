//! Order of the applications of a leaf: by priority, then by age or usage, as the sort policy of
//! the leaf says.

use expect_test::expect;

use crate::world::check;

/// With `application.sort.priority=disabled`, priority is the last sort key.
#[test]
fn without_priority_a_fifo_leaf_sorts_by_age() {
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

/// The age of an application is that of its oldest ask.
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

/// At equal age and priority, the lower id goes first.
#[test]
fn applications_of_one_age_sort_by_priority_then_id() {
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

#[test]
fn applications_of_a_fair_leaf_sort_by_usage() {
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

/// Usage is a share of the guarantee of the leaf: 0.5 of memory against 0.1 of cores.
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

#[test]
fn a_higher_priority_wins_over_age_and_usage() {
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
