//! Order of queues: by priority and by share of guarantee or maximum, as the parent's policy says.

use expect_test::expect;

use crate::world::check;

/// Four queues with guarantees, usage, and an ask of the given priority each. The node has capacity
/// for the asks only at the end, so that they are placed in the order of the queues.
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

/// The shares are 0.6, 0.67, 0.5 and 0.5.
#[test]
fn queues_sort_by_priority_then_guarantee_share() {
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

/// As above, with shares of 0.6, 0.67, 0.5 and 0.5.
#[test]
fn queues_sort_by_share_then_priority_on_request() {
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

/// The shares are 0.4, 1.0, 0.5 and 0.5.
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

/// As above, with shares of 0.4, 1.0, 0.5 and 0.5.
#[test]
fn a_smaller_share_may_win_over_priority() {
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

#[test]
fn queues_without_guarantee_sort_by_priority_first() {
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

/// At equal pending amounts, the path decides.
#[test]
fn of_equal_queues_more_pending_comes_first() {
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

/// The shares are 0.3, 0.5, 0.1 and 0.8. Then the queues have these shares in another order.
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

/// `root.a` uses nothing, has a large guarantee, and no pending ask.
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

#[test]
fn an_idle_queue_shows_no_priority() {
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

#[test]
fn offsets_add_to_the_highest_application_priority() {
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
