//! Capacity of reserved nodes that other asks may use: asks that come before the reserving one,
//! asks that are owed the capacity by a guarantee, and any ask if the reserving one could not run
//! (`docs/scheduling.md#reservations`).

use expect_test::{Expect, expect};

use crate::world::{check, check_plain};

/// Both nodes are reserved, and have 4 free each.
const BOTH_RESERVED: &str = "
    queue root.base
    queue root.big
    queue root.small
    node n0 memory=10
    node n1 memory=10
    app base in root.base
    exists base b0 on n0 memory=6
    exists base b1 on n1 memory=6
    app big in root.big
    ask big k0 memory=8 created=900
    ask big k1 memory=8 created=900
    app small in root.small
";

fn check_both(steps: &str, expected: &Expect) {
    check(&format!("{BOTH_RESERVED}{steps}\nshow nodes"), expected);
}

#[test]
fn later_asks_get_no_reserved_capacity() {
    check_both(
        "ask small s memory=2",
        &expect![[r#"
        n0 accepted
        n1 accepted
        base accepted
        base is Accepted
        base is Running
        base/b0 placed on n0
        base/b1 placed on n1
        big accepted
        big is Accepted
        small accepted
        small is Accepted
        n0: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k0]
        n1: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k1]
    "#]],
    );
}

/// The small ask uses the other node, and then waits for capacity that is not reserved.
#[test]
fn a_node_of_a_failed_start_is_not_lent_again() {
    check_both(
        "
        ask small s memory=2 prio=1
        release small key=s as SCHEDULING_FAILED_ON_RM
        wait 1s
        release small key=s as SCHEDULING_FAILED_ON_RM
        wait 2s
        node n2 memory=2
        ",
        &expect![[r#"
            n0 accepted
            n1 accepted
            base accepted
            base is Accepted
            base is Running
            base/b0 placed on n0
            base/b1 placed on n1
            big accepted
            big is Accepted
            small accepted
            small is Accepted
            small is Running
            small/s placed on n0
            small/s placed on n1
            n2 accepted
            small/s placed on n2
            n0: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k0]
            n1: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k1]
            n2: total memory=2, used memory=2, occupied nothing, left nothing
        "#]],
    );
}

/// The node stays reserved.
#[test]
fn a_higher_priority_uses_reserved_capacity() {
    check_both(
        "ask small s x3 memory=2 prio=1",
        &expect![[r#"
        n0 accepted
        n1 accepted
        base accepted
        base is Accepted
        base is Running
        base/b0 placed on n0
        base/b1 placed on n1
        big accepted
        big is Accepted
        small accepted
        small is Accepted
        small is Running
        small/s#1 of s placed on n0
        small/s#2 of s placed on n1
        small/s#3 of s placed on n0
        n0: total memory=10, used memory=10, occupied nothing, left nothing, reserved for [k0]
        n1: total memory=10, used memory=8, occupied nothing, left memory=2, reserved for [k1]
    "#]],
    );
}

#[test]
fn a_number_behind_a_fence_borrows_nothing() {
    let fenced =
        BOTH_RESERVED.replace("queue root.small", "queue root.small prop priority.policy=fence");
    check(
        &format!("{fenced} ask small s memory=2 prio=1000"),
        &expect![[r#"
        n0 accepted
        n1 accepted
        base accepted
        base is Accepted
        base is Running
        base/b0 placed on n0
        base/b1 placed on n1
        big accepted
        big is Accepted
        small accepted
        small is Accepted
    "#]],
    );
    let raised = fenced.replace("priority.policy=fence", "priority.offset=1");
    check(
        &format!("{raised} ask small s memory=2 prio=0"),
        &expect![[r#"
        n0 accepted
        n1 accepted
        base accepted
        base is Accepted
        base is Running
        base/b0 placed on n0
        base/b1 placed on n1
        big accepted
        big is Accepted
        small accepted
        small is Accepted
        small is Running
        small/s placed on n0
    "#]],
    );
}

#[test]
fn capacity_added_to_a_reserved_node_is_lent() {
    check_both(
        "
        ask small s memory=5 prio=1
        ask small t memory=5
        show nodes
        exists base b2 on n0 memory=3
        release base key=b0
        ",
        &expect![[r#"
            n0 accepted
            n1 accepted
            base accepted
            base is Accepted
            base is Running
            base/b0 placed on n0
            base/b1 placed on n1
            big accepted
            big is Accepted
            small accepted
            small is Accepted
            n0: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k0]
            n1: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k1]
            base/b2 placed on n0
            base/b0 released: STOPPED_BY_RM
            small is Running
            small/s placed on n0
            n0: total memory=10, used memory=8, occupied nothing, left memory=2, reserved for [k0]
            n1: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k1]
        "#]],
    );
}

/// A queue below its guarantee may use nodes that are reserved by a queue without a guarantee.
#[test]
fn a_guarantee_borrows_from_queues_without_one() {
    check(
        "
        queue root.base
        queue root.big
        queue root.small guaranteed memory=8
        node n0 memory=10
        node n1 memory=10
        node x0 memory=7
        node x1 memory=7
        foreign f0 on x0 memory=7
        foreign f1 on x1 memory=7
        app base in root.base
        exists base b0 on n0 memory=6
        exists base b1 on n1 memory=6
        app big in root.big
        ask big k0 memory=8 created=940
        ask big k1 memory=8 created=940
        app small in root.small
        ask small s memory=2 created=900 policy=both
        ask small t x4 memory=2
        show nodes
        ",
        &expect![[r#"
            n0 accepted
            n1 accepted
            x0 accepted
            x1 accepted
            base accepted
            base is Accepted
            base is Running
            base/b0 placed on n0
            base/b1 placed on n1
            big accepted
            big is Accepted
            small accepted
            small is Accepted
            small is Running
            small/s placed on n0
            small/t#1 of t placed on n1
            small/t#2 of t placed on n0
            small/t#3 of t placed on n1
            n0: total memory=10, used memory=10, occupied nothing, left nothing, reserved for [k0]
            n1: total memory=10, used memory=10, occupied nothing, left nothing, reserved for [k1]
            x0: total memory=7, used nothing, occupied memory=7, left nothing
            x1: total memory=7, used nothing, occupied memory=7, left nothing
        "#]],
    );
}

/// Running allocations leave 4 on each of two nodes, and none on a third, which is too small for
/// large asks.
fn queues(big: &str, small: &str, x0: u32) -> String {
    format!(
        "
        queue root.base
        queue root.big{big}
        queue root.small{small}
        node n0 memory=10
        node n1 memory=10
        node x0 memory={x0}
        app base in root.base
        exists base b0 on n0 memory=6
        exists base b1 on n1 memory=6
        app big in root.big
        app small in root.small
        exists small s0 on x0 memory=5
        "
    )
}

#[test]
fn a_queue_borrows_once_it_is_owed() {
    let small_first = queues("", " guaranteed memory=6", 9);
    check(
        &format!(
            "{small_first}
            exists base b2 on x0 memory=4
            ask big k0 memory=8 created=940
            ask big k1 memory=8 created=940
            ask small s memory=2
            show nodes
            resize x0 memory=4
            release small key=s0
            show nodes
            "
        ),
        &expect![[r#"
            n0 accepted
            n1 accepted
            x0 accepted
            base accepted
            base is Accepted
            base is Running
            base/b0 placed on n0
            base/b1 placed on n1
            big accepted
            small accepted
            small is Accepted
            small is Running
            small/s0 placed on x0
            base/b2 placed on x0
            big is Accepted
            n0: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k0]
            n1: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k1]
            x0: total memory=9, used memory=9, occupied nothing, left nothing
            small/s0 released: STOPPED_BY_RM
            small/s placed on n0
            n0: total memory=10, used memory=8, occupied nothing, left memory=2, reserved for [k0]
            n1: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k1]
            x0: total memory=4, used memory=4, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn a_queue_lends_once_its_guarantee_is_met() {
    let both = queues(" guaranteed memory=4", " guaranteed memory=9", 7);
    check(
        &format!(
            "{both}
            ask big k0 memory=8 created=940
            ask big k1 memory=8 created=940
            exists base b2 on x0 memory=2
            ask small s memory=3
            show nodes
            exists big b3 on x0 memory=2
            show nodes
            exists big b4 on x0 memory=2
            show nodes
            "
        ),
        &expect![[r#"
            n0 accepted
            n1 accepted
            x0 accepted
            base accepted
            base is Accepted
            base is Running
            base/b0 placed on n0
            base/b1 placed on n1
            big accepted
            small accepted
            small is Accepted
            small is Running
            small/s0 placed on x0
            big is Accepted
            base/b2 placed on x0
            n0: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k0]
            n1: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k1]
            x0: total memory=7, used memory=7, occupied nothing, left nothing
            big is Running
            big/b3 placed on x0
            n0: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k0]
            n1: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k1]
            x0: total memory=7, used memory=9, occupied nothing, left memory=-2
            big/b4 placed on x0
            small/s placed on n0
            n0: total memory=10, used memory=9, occupied nothing, left memory=1, reserved for [k0]
            n1: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k1]
            x0: total memory=7, used memory=11, occupied nothing, left memory=-4
        "#]],
    );
}

/// Victims are evicted from a node that is reserved by a queue without a guarantee.
#[test]
fn guarantee_victims_leave_a_reserved_node() {
    let with_priority = |priority: i32| {
        format!(
            "
            queue root.q1 guaranteed memory=5
            queue root.q2 guaranteed memory=5
            queue root.q3
            node n1 memory=10
            node x0 memory=7
            node x1 memory=7
            foreign f0 on x0 memory=7
            foreign f1 on x1 memory=7
            app a1 in root.q1
            app a2 in root.q2
            app a3 in root.q3
            exists a1 old on n1 memory=5
            exists a1 new on n1 memory=5
            ask a3 large memory=8 created=950 prio={priority}
            ask a2 k memory=5 created=900 policy=both
            show nodes
            confirm *
            show nodes
            "
        )
    };
    check(
        &with_priority(0),
        &expect![[r#"
        n1 accepted
        x0 accepted
        x1 accepted
        a1 accepted
        a2 accepted
        a3 accepted
        a1 is Accepted
        a1 is Running
        a1/old placed on n1
        a1/new placed on n1
        a3 is Accepted
        a2 is Accepted
        a1/new released: PREEMPTED_BY_SCHEDULER
        n1: total memory=10, used memory=10, occupied nothing, left nothing, reserved for [k]
        x0: total memory=7, used nothing, occupied memory=7, left nothing
        x1: total memory=7, used nothing, occupied memory=7, left nothing
        a2 is Running
        a2/k placed on n1
        n1: total memory=10, used memory=10, occupied nothing, left nothing
        x0: total memory=7, used nothing, occupied memory=7, left nothing
        x1: total memory=7, used nothing, occupied memory=7, left nothing
    "#]],
    );
    check(
        &with_priority(10),
        &expect![[r#"
        n1 accepted
        x0 accepted
        x1 accepted
        a1 accepted
        a2 accepted
        a3 accepted
        a1 is Accepted
        a1 is Running
        a1/old placed on n1
        a1/new placed on n1
        a3 is Accepted
        a2 is Accepted
        a1/new released: PREEMPTED_BY_SCHEDULER
        n1: total memory=10, used memory=10, occupied nothing, left nothing, reserved for [k]
        x0: total memory=7, used nothing, occupied memory=7, left nothing
        x1: total memory=7, used nothing, occupied memory=7, left nothing
        a2 is Running
        a2/k placed on n1
        n1: total memory=10, used memory=10, occupied nothing, left nothing
        x0: total memory=7, used nothing, occupied memory=7, left nothing
        x1: total memory=7, used nothing, occupied memory=7, left nothing
    "#]],
    );
}

/// A user limit prevents the reserving ask from running.
#[test]
fn a_reservation_that_could_not_run_protects_nothing() {
    let steps = "
        queue root.q limit users=ann memory=8
        queue root.z
        node n1 memory=10
        node n2 memory=4
        app z in root.z
        exists z z0 on n1 memory=6
        app ann in root.q user ann
        app ann2 in root.q user ann
        app bob in root.q user bob
        ask ann large memory=8 created=940
        show nodes
        ask ann2 k memory=4
        ask bob s memory=3
        show nodes
        show apps
    ";
    check(
        steps,
        &expect![[r#"
        n1 accepted
        n2 accepted
        z accepted
        z is Accepted
        z is Running
        z/z0 placed on n1
        ann accepted
        ann2 accepted
        bob accepted
        ann is Accepted
        n1: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [large]
        n2: total memory=4, used nothing, occupied nothing, left memory=4
        ann2 is Accepted
        ann2 is Running
        ann2/k placed on n2
        bob is Accepted
        bob is Running
        bob/s placed on n1
        n1: total memory=10, used memory=9, occupied nothing, left memory=1, reserved for [large]
        n2: total memory=4, used memory=4, occupied nothing, left nothing
        ann in root.q is Accepted since 940s: used nothing, pending memory=8, holds [], asks [large x1]
        ann2 in root.q is Running since 1000s: used memory=4, pending nothing, holds [k], asks []
        bob in root.q is Running since 1000s: used memory=3, pending nothing, holds [s], asks []
        z in root.z is Running since 1000s: used memory=6, pending nothing, holds [z0], asks []
    "#]],
    );
    // The limit leaves enough again, and later there is capacity.
    check(
        &format!(
            "{steps} release ann2 key=k\n show apps\n ask bob t memory=1\n release bob key=s\n release z key=z0"
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            z accepted
            z is Accepted
            z is Running
            z/z0 placed on n1
            ann accepted
            ann2 accepted
            bob accepted
            ann is Accepted
            n1: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [large]
            n2: total memory=4, used nothing, occupied nothing, left memory=4
            ann2 is Accepted
            ann2 is Running
            ann2/k placed on n2
            bob is Accepted
            bob is Running
            bob/s placed on n1
            n1: total memory=10, used memory=9, occupied nothing, left memory=1, reserved for [large]
            n2: total memory=4, used memory=4, occupied nothing, left nothing
            ann in root.q is Accepted since 940s: used nothing, pending memory=8, holds [], asks [large x1]
            ann2 in root.q is Running since 1000s: used memory=4, pending nothing, holds [k], asks []
            bob in root.q is Running since 1000s: used memory=3, pending nothing, holds [s], asks []
            z in root.z is Running since 1000s: used memory=6, pending nothing, holds [z0], asks []
            ann2/k released: STOPPED_BY_RM
            ann2 is Completing
            ann in root.q is Accepted since 940s: used nothing, pending memory=8, holds [], asks [large x1]
            ann2 in root.q is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            bob in root.q is Running since 1000s: used memory=3, pending nothing, holds [s], asks []
            z in root.z is Running since 1000s: used memory=6, pending nothing, holds [z0], asks []
            bob/t placed on n2
            bob/s released: STOPPED_BY_RM
            z/z0 released: STOPPED_BY_RM
            z is Completing
            ann is Running
            ann/large placed on n1
        "#]],
    );
}

#[test]
fn a_used_up_quota_suspends_reservations_below() {
    check_plain(
        "
        queue root.p max memory=12
        queue root.p.a
        queue root.p.b
        queue root.z
        node n1 memory=10
        node n2 memory=10
        app z in root.z
        exists z z1 on n1 memory=6
        exists z z2 on n2 memory=9
        app a in root.p.a
        app b in root.p.b
        ask a large memory=8 created=940
        ask z z3 memory=4
        ask b k memory=6
        ask z z4 memory=2
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            z accepted
            z is Accepted
            z is Running
            z/z1 placed on n1
            z/z2 placed on n2
            a accepted
            b accepted
            a is Accepted
            z/z3 placed on n1
            b is Accepted
            n1: total memory=10, used memory=10, occupied nothing, left nothing
            n2: total memory=10, used memory=9, occupied nothing, left memory=1
        "#]],
    );
}

/// A suspended reservation counts neither as running nor for the bound of reservations.
#[test]
fn a_suspended_reservation_is_not_counted() {
    check_plain(
        "
        queue root.q maxapps=1 limit users=ann memory=8
        queue root.z
        node n1 memory=10
        node n2 memory=5
        app z in root.z
        exists z z0 on n1 memory=6
        app ann in root.q user ann
        app bob in root.q user bob
        ask ann large memory=8 created=940
        ask bob s memory=1
        show queues
        exists ann k on n2 memory=4
        release ann key=k
        show queues
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            z accepted
            z is Accepted
            z is Running
            z/z0 placed on n1
            ann accepted
            bob accepted
            ann is Accepted
            bob is Accepted
            root: used memory=6, pending memory=9, headroom memory=9, running 1, priority 0
            root.q: used nothing, pending memory=9, headroom memory=9, running 0, priority 0
            root.z: used memory=6, pending nothing, headroom memory=9, running 1, priority none
            ann is Running
            ann/k placed on n2
            ann/k released: STOPPED_BY_RM
            root: used memory=6, pending memory=9, headroom memory=9, running 2, priority 0
            root.q: used nothing, pending memory=9, headroom memory=9, running 1, priority 0
            root.z: used memory=6, pending nothing, headroom memory=9, running 1, priority none
        "#]],
    );
}

/// The explanation of an ask that waits beside reserved capacity names the reserving ask.
#[test]
fn the_explanation_names_the_reserving_ask() {
    let steps = BOTH_RESERVED.replace("app small", "app a1");
    crate::explained::check(
        &format!("{steps}\n ask a1 s memory=2"),
        &expect![[r#"
            s x1: noNode  since 1000s
              no node has room (2 nodes: 2 are reserved for others); a node with 2 B of memory would let this ask run; n0 has room and is reserved for ask `k0` of big: to withdraw that would do, too
              - noNode : -; - of -
              cure: add a node with at least 2 B of memory, or withdraw ask `k0` of big, for which n0 is reserved since 1970-01-01T00:16:40.0Z
              + node  memory=2 0 0
        "#]],
    );
    crate::explained::check(
        &format!("{steps}\n ask a1 s memory=5"),
        &expect![[r#"
        s x1: noNode  since 1000s
          no node has room (2 nodes: 2 are reserved for others); a node with 5 B of memory would let this ask run
          - noNode : -; - of -
          cure: add a node with at least 5 B of memory
          + node  memory=5 0 0
    "#]],
    );
}
