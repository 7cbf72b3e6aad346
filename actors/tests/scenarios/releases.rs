//! Releases and their effects: which are answered, which asks stay pending, and which asks get the
//! capacity.

use expect_test::expect;

use crate::world::{check, check_plain};

#[test]
fn a_release_is_answered_once_and_frees_all() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1
        release a1 uuid=k1
        show queues
        show nodes
        release a1 uuid=k1
        release a1 key=k1
        release a9 uuid=k1
        release a1 uuid=k9
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            root: used nothing, pending nothing, headroom vcore=1, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=1, running 0, priority none
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

#[test]
fn a_release_of_unknown_type_is_a_stop() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 x2 vcore=1
        release a1 uuid=k1#1 as UNKNOWN_TERMINATION_TYPE
        release a1 uuid=k1#2 as 77
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a1/k1#2 of k1 released: STOPPED_BY_RM
            a1 is Completing
        "#]],
    );
}

/// A release marked as a confirmation removes the allocation without an answer, whether the
/// scheduler had asked for it or not.
#[test]
fn an_unrequested_confirmation_removes_silently() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a
        ask a1 k1 vcore=1
        ask a1 k2 vcore=1
        ask a1 k3 vcore=1
        release a1 uuid=k1 as TIMEOUT
        release a1 uuid=k2 as PREEMPTED_BY_SCHEDULER
        release a1 uuid=k3 as PLACEHOLDER_REPLACED
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2 placed on n1
            a1/k3 placed on n1
            a1 is Completing
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
        "#]],
    );
}

#[test]
fn a_release_of_everything_keeps_older_form_asks() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 x2 vcore=1
        ask a1 k2 vcore=3
        release a1 *
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a1/k1#2 of k1 released: STOPPED_BY_RM
            a1 in root.a is Running since 1000s: used nothing, pending vcore=3, holds [], asks [k2 x1]
        "#]],
    );
}

#[test]
fn a_release_of_everything_ends_present_form_requests() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        request a1 k1 vcore=1
        request a1 k2 vcore=1
        request a1 k3 vcore=1
        release a1 *
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1/k2 released: STOPPED_BY_RM
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn a_release_by_key_ends_allocations_and_request() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 x3 vcore=1
        ask a1 k2 vcore=1
        release a1 key=k1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a1/k1#2 of k1 released: STOPPED_BY_RM
            a1/k2 placed on n1
        "#]],
    );
}

#[test]
fn releasing_a_pending_request_has_no_answer() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        request a1 k1 vcore=2
        request a1 k2 vcore=2
        request a1 k3 vcore=2
        release a1 uuid=k1
        release a1 key=k2
        release a1 key=k3 as TIMEOUT
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=2, holds [], asks [k3 x1]
        "#]],
    );
}

#[test]
fn an_unbound_allocation_is_placed_again() {
    check(
        "
        queue root.a
        node n1 vcore=1
        node n2 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1
        ask a1 k2 vcore=1 prio=-1
        ask a1 k3 vcore=1 prio=9
        release a1 uuid=k1 as SCHEDULING_FAILED_ON_RM
        show apps
        release a1 uuid=k9 as SCHEDULING_FAILED_ON_RM
        release a1 uuid=k1 as SCHEDULING_FAILED_ON_RM
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2 placed on n2
            a1/k3 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending vcore=1, holds [k2, k3], asks [k1 x1]
        "#]],
    );
}

#[test]
fn an_ending_unbound_allocation_is_removed() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1 timeout=1000
        wait 1s
        release a1 uuid=k1 as SCHEDULING_FAILED_ON_RM
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: TIMEOUT
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn an_unbound_recovered_allocation_is_pending() {
    check(
        "
        queue root.a
        node n1 vcore=1
        node n2 vcore=5
        app a1 in root.a
        exists a1 k1 on n1 vcore=3 uuid=u1
        release a1 uuid=u1 as SCHEDULING_FAILED_ON_RM
        wait 1s
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n2
        "#]],
    );
}

/// The allocation reported at the end is running there already, under another UUID, so there is no
/// second notification.
#[test]
fn a_removed_node_releases_its_allocations() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=1
        app a1 in root.a
        app a2 in root.a
        ask a1 k1 x2 vcore=1
        ask a2 k1 vcore=1
        ask a2 k2 vcore=1
        show nodes
        remove n1
        show queues
        show apps
        exists a1 k1 on n2 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n2
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=1, used vcore=1, occupied nothing, left nothing
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a2/k1 released: STOPPED_BY_RM
            root: used vcore=1, pending vcore=1, headroom vcore=0, running 2, priority 0
            root.a: used vcore=1, pending vcore=1, headroom vcore=0, running 2, priority 0
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a2 in root.a is Running since 1000s: used nothing, pending vcore=1, holds [], asks [k2 x1]
        "#]],
    );
}

#[test]
fn a_drained_node_keeps_its_allocations() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 vcore=1
        drain n1
        drain n1
        ask a1 k2 vcore=1
        release a1 uuid=k1
        show nodes
        undrain n1
        undrain n1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            n1 closed: total vcore=2, used nothing, occupied nothing, left vcore=2
            a1/k2 placed on n1
        "#]],
    );
}

#[test]
fn a_shrunk_node_keeps_its_allocations() {
    check(
        "
        queue root.a
        node n1 vcore=10
        app a1 in root.a
        ask a1 k1 vcore=8
        resize n1 vcore=5
        show nodes
        show queues
        ask a1 k2 vcore=1
        resize n1 vcore=9
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            n1: total vcore=5, used vcore=8, occupied nothing, left vcore=-3
            root: used vcore=8, pending nothing, headroom vcore=0, running 1, priority none
            root.a: used vcore=8, pending nothing, headroom vcore=0, running 1, priority none
            a1/k2 placed on n1
        "#]],
    );
}

#[test]
fn use_by_others_is_no_capacity_lost() {
    check(
        "
        queue root.a
        node n1 vcore=10 occupied vcore=4
        show nodes
        show queues
        resize n1 occupied vcore=9
        app a1 in root.a
        ask a1 k1 x2 vcore=1
        resize n1 occupied vcore=0
        ",
        &expect![[r#"
            n1 accepted
            n1: total vcore=10, used nothing, occupied vcore=4, left vcore=6
            root: used nothing, pending nothing, headroom vcore=6, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=6, running 0, priority none
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
        "#]],
    );
}

#[test]
fn removing_an_empty_node_has_no_effect() {
    check(
        "
        queue root.a
        node n1 vcore=1
        node n2 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1
        remove n2
        show queues
        remove n2
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            root: used vcore=1, pending nothing, headroom vcore=0, running 1, priority none
            root.a: used vcore=1, pending nothing, headroom vcore=0, running 1, priority none
        "#]],
    );
}

/// The report and the release are one visit, in which the node must charge before it releases.
#[test]
fn reported_and_released_in_one_message_is_removed() {
    check_plain(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a
        exists a1 k1 on n1 vcore=1 ; release a1 key=k1
        exists a1 k2 on n1 vcore=1 uuid=u2 ; release a1 *
        show nodes
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            a1 is Running
            a1/u2 of k2 released: STOPPED_BY_RM
            a1 is Completing
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

/// No entry is left under the keys of the lost allocations.
#[test]
fn allocations_lost_with_a_node_may_be_reported_elsewhere() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a
        request a1 k1 vcore=1
        exists a1 k2 on n1 vcore=1 uuid=u2
        remove n1
        exists a1 k1 on n2 vcore=1
        exists a1 k2 on n2 vcore=1 uuid=u2
        show apps
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1/u2 of k2 released: STOPPED_BY_RM
            a1 is Completing
            a1 is Running
            a1/k1 placed on n2
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2], asks []
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
        "#]],
    );
}

/// The pending ask keeps the application from completing.
#[test]
fn an_application_with_an_unbound_allocation_continues() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 vcore=1
        drain n1
        release a1 uuid=k1 as SCHEDULING_FAILED_ON_RM
        show apps
        show queues
        show nodes
        show users
        undrain n1
        wait 1s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used nothing, pending vcore=1, holds [], asks [k1 x1]
            root: used nothing, pending vcore=1, headroom vcore=2, running 1, priority 0
            root.a: used nothing, pending vcore=1, headroom vcore=2, running 1, priority 0
            n1 closed: total vcore=2, used nothing, occupied nothing, left vcore=2
            user ada: used nothing, running [a1]
            a1/k1 placed on n1
        "#]],
    );
}
