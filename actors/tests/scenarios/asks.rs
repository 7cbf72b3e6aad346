//! Asks: added, changed, ordered, rejected, withdrawn. An ask is answered when it is placed or
//! rejected.

use expect_test::expect;

use crate::world::{check, check_plain};

#[test]
fn a_pending_ask_shows_everywhere_and_is_unanswered() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 x3 vcore=2
        show queues
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            root: used nothing, pending vcore=6, headroom nothing, running 0, priority 0
            root.a: used nothing, pending vcore=6, headroom nothing, running 0, priority 0
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=6, holds [], asks [k1 x3]
        "#]],
    );
}

#[test]
fn a_repeated_key_replaces_the_outstanding_ask() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a
        ask a1 k1 x3 vcore=2
        show apps
        ask a1 k1 x3 vcore=1
        show apps
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending vcore=4, holds [k1], asks [k1 x2]
            a1/k1#2 of k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=3, pending vcore=2, holds [k1, k1], asks [k1 x2]
            n1: total vcore=3, used vcore=3, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn a_repeated_key_after_placement_asks_for_more() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a
        ask a1 k1 vcore=1
        ask a1 k1 x2 vcore=2
        show apps
        release a1 key=k1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=5, pending nothing, holds [k1, k1, k1], asks []
            a1/k1 released: STOPPED_BY_RM
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a1/k1#2 of k1 released: STOPPED_BY_RM
            a1 is Completing
        "#]],
    );
}

/// Exception: the replacing ask names a creation time.
#[test]
fn a_replaced_ask_keeps_its_creation_time() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k0 vcore=1
        ask a1 k1 vcore=1
        wait 1s
        ask a1 k2 vcore=1
        wait 1s
        ask a1 k1 vcore=1
        release a1 uuid=k0
        ask a1 k3 vcore=1
        ask a1 k3 vcore=1 created=999
        release a1 uuid=k1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k0 placed on n1
            a1/k0 released: STOPPED_BY_RM
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1/k3 placed on n1
        "#]],
    );
}

#[test]
fn an_invalid_ask_does_not_affect_its_message() {
    check_plain(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a
        ask a1 k1 vcore=1 ; ask a1 k2 vcore=-1 ; ask a1 k3 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k3 placed on n1
            ask a1/k2 rejected: R_NEGATIVE_RESOURCE
        "#]],
    );
}

#[test]
fn an_ask_needs_a_positive_amount() {
    check(
        "
        queue root.a
        node n1 vcore=9 memory=9
        app a1 in root.a
        ask a1 k1
        ask a1 k2 vcore=0
        ask a1 k3 vcore=-1
        ask a1 k4 vcore=-1 memory=5
        ask a1 k5 vcore=0 memory=5
        request a1 k6
        request a1 k7 vcore=-1
        exists a1 k8 on n1 vcore=0
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            ask a1/k1 rejected: R_NO_RESOURCE
            ask a1/k2 rejected: R_NO_RESOURCE
            ask a1/k3 rejected: R_NEGATIVE_RESOURCE
            ask a1/k4 rejected: R_NEGATIVE_RESOURCE
            a1 is Accepted
            a1 is Running
            a1/k5 placed on n1
            allocation a1/k6 rejected: R_NO_RESOURCE
            allocation a1/k7 rejected: R_NEGATIVE_RESOURCE
            allocation a1/k8 rejected: R_NO_RESOURCE
            root: used memory=5, pending nothing, headroom memory=4 vcore=9, running 1, priority none
            root.a: used memory=5, pending nothing, headroom memory=4 vcore=9, running 1, priority none
        "#]],
    );
}

#[test]
fn asks_of_unknown_applications_are_rejected() {
    check(
        "
        queue root.a
        node n1 vcore=1
        ask a1 k1 vcore=1
        request a1 k2 vcore=1
        exists a1 k3 on n1 vcore=1
        exists a1 k4 on n1 vcore=1 uuid=u4
        app a1 in root.a
        ask a1 k5 vcore=1 partition=other
        request a1 k6 vcore=1 partition=[rm2]default
        ask a1 k7 vcore=1 partition=[rm]default
        ",
        &expect![[r#"
            n1 accepted
            ask a1/k1 rejected: R_APP_UNKNOWN
            allocation a1/k2 rejected: R_APP_UNKNOWN
            allocation a1/k3 rejected: R_APP_UNKNOWN
            allocation a1/k4 rejected: R_APP_UNKNOWN
            a1 accepted
            ask a1/k5 rejected: R_PARTITION_UNKNOWN
            allocation a1/k6 rejected: R_PARTITION_UNKNOWN
            a1 is Accepted
            a1 is Running
            a1/k7 placed on n1
        "#]],
    );
}

#[test]
fn a_placeholder_needs_a_task_group() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 vcore=1 placeholder=
        request a1 k2 vcore=1 placeholder=
        ",
        &expect![[r#"
            a1 accepted
            ask a1/k1 rejected: R_PLACEHOLDER_NO_TG
            allocation a1/k2 rejected: R_PLACEHOLDER_NO_TG
        "#]],
    );
}

#[test]
fn asks_sort_by_priority_creation_and_arrival() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k0 vcore=1
        ask a1 low vcore=1 prio=1 created=800
        ask a1 late vcore=1 prio=5 created=903
        ask a1 early vcore=1 prio=5 created=901
        ask a1 first vcore=1 prio=5 created=902
        ask a1 second vcore=1 prio=5 created=902
        resize n1 vcore=9
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k0 placed on n1
            a1/early placed on n1
            a1/first placed on n1
            a1/second placed on n1
            a1/late placed on n1
            a1/low placed on n1
        "#]],
    );
}

#[test]
fn a_withdrawal_keeps_placed_allocations() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 x3 vcore=1
        ask a1 k2 vcore=1 prio=9
        request a1 k3 vcore=1
        withdraw a1 k2
        withdraw a1 k9
        withdraw a9 *
        show apps
        withdraw a1 *
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending vcore=3, holds [k1], asks [k1 x2, k3 x1]
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
        "#]],
    );
}

/// Asks of equal priority and time are placed in the order of arrival, in one message or several,
/// in either form. Exception: an ask whose start failed comes after all others.
#[test]
fn equal_asks_are_placed_in_order_of_arrival() {
    check_plain(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 bound vcore=1 created=900
        ask a1 k1 vcore=1 created=900
        request a1 k2 vcore=1 created=900
        request a1 k3 vcore=1 created=900 ; request a1 k4 vcore=1 created=900
        ask a1 k5 vcore=1 created=900 ; ask a1 k6 vcore=1 created=900
        request a1 k3 vcore=2
        request a1 k3 vcore=1
        release a1 key=bound as SCHEDULING_FAILED_ON_RM
        resize n1 vcore=9
        wait 1s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/bound placed on n1
            a1/k1 placed on n1
            a1/k2 placed on n1
            a1/k3 placed on n1
            a1/k4 placed on n1
            a1/k5 placed on n1
            a1/k6 placed on n1
            a1/bound placed on n1
        "#]],
    );
}

/// A confirmation of an ask that the scheduler has ended withdraws nothing.
#[test]
fn confirming_an_ended_ask_withdraws_nothing() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 vcore=1
        request a1 k2 vcore=1
        withdraw a1 k1 as TIMEOUT
        withdraw a1 * as TIMEOUT
        show apps
        withdraw a1 k1 as UNKNOWN_TERMINATION_TYPE
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=2, holds [], asks [k1 x1, k2 x1]
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=1, holds [], asks [k2 x1]
        "#]],
    );
}
