//! What happens to an application from its first ask to its end (applications chapter, 1.7).

use expect_test::expect;

use crate::world::check;

// Rows 1 to 3.
#[test]
fn an_application_runs_from_its_first_allocation_and_tells_it_once() {
    check(
        "
        queue root.p.a
        app a1 in root.p.a
        ask a1 k1 vcore=1
        show queues
        wait 5s
        node n1 vcore=2
        show queues
        ask a1 k2 vcore=1
        show queues
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            root: used nothing, pending vcore=1, headroom nothing, running 0, priority 0
            root.p: used nothing, pending vcore=1, headroom nothing, running 0, priority 0
            root.p.a: used nothing, pending vcore=1, headroom nothing, running 0, priority 0
            n1 accepted
            a1 is Running
            a1/k1 placed on n1
            root: used vcore=1, pending nothing, headroom vcore=1, running 1, priority none
            root.p: used vcore=1, pending nothing, headroom vcore=1, running 1, priority none
            root.p.a: used vcore=1, pending nothing, headroom vcore=1, running 1, priority none
            a1/k2 placed on n1
            root: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            root.p: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            root.p.a: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
        "#]],
    );
}

// Row 4: Accepted, its only ask is removed.
#[test]
fn an_accepted_application_whose_only_ask_goes_completes_after_thirty_seconds() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 vcore=1
        withdraw a1 k1
        show queues
        wait 29999ms
        show apps
        wait 1ms
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 is Completing
            root: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.a: used nothing, pending nothing, headroom nothing, running 0, priority none
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            a1 is Completed
        "#]],
    );
}

// Row 5: Running, one allocation, its ask entry is gone.
#[test]
fn a_running_application_completes_with_its_last_allocation() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 vcore=1
        release a1 uuid=k1
        show apps
        show queues
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            root: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            n1: total vcore=2, used nothing, occupied nothing, left vcore=2
        "#]],
    );
}

// Row 6.
#[test]
fn an_ask_calls_a_completing_application_back_for_good() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 vcore=1
        withdraw a1 k1
        wait 29s
        ask a1 k2 vcore=1
        show queues
        wait 60s
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 is Completing
            a1 is Running
            root: used nothing, pending vcore=1, headroom nothing, running 1, priority 0
            root.a: used nothing, pending vcore=1, headroom nothing, running 1, priority 0
            a1 in root.a is Running since 1000s: used nothing, pending vcore=1, holds [], asks [k2 x1]
        "#]],
    );
}

// Row 6: the timer of the second time is not that of the first.
#[test]
fn an_application_that_completes_again_waits_the_whole_time_again() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 vcore=1
        withdraw a1 k1
        wait 20s
        ask a1 k2 vcore=1
        withdraw a1 k2
        wait 29s
        show apps
        wait 1s
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 is Completing
            a1 is Running
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            a1 is Completed
        "#]],
    );
}

// Rows 7 and 11: whatever would move it is refused.
#[test]
fn a_completed_application_is_unknown_and_takes_nothing_more() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 vcore=1
        release a1 uuid=k1
        wait 30s
        show apps
        show queues
        ask a1 k2 vcore=1
        exists a1 k3 on n1 vcore=1
        release a1 *
        withdraw a1 *
        remove-app a1
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            a1 is Completed
            root: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            ask a1/k2 rejected: R_APP_UNKNOWN
            allocation a1/k3 rejected: R_APP_UNKNOWN
            n1: total vcore=2, used nothing, occupied nothing, left vcore=2
        "#]],
    );
}

// Row 15: `completeApplication` in New is refused.
#[test]
fn a_new_application_does_not_complete() {
    check(
        "
        queue root.a
        app a1 in root.a
        withdraw a1 *
        release a1 *
        wait 60s
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

// Row 17.
#[test]
fn an_active_id_is_rejected_and_the_application_keeps_what_it_has() {
    check(
        "
        queue root.a
        queue root.b
        node n1 vcore=2
        app a1 in root.a
        app a1 in root.a
        ask a1 k1 x3 vcore=1
        app a1 in root.b
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 rejected: R_APP_EXISTS
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1 rejected: R_APP_EXISTS
            a1 in root.a is Running since 1000s: used vcore=2, pending vcore=1, holds [k1, k1], asks [k1 x1]
        "#]],
    );
}

// Row 17 and 1.6: Completing is not terminal.
#[test]
fn the_id_of_a_completing_application_is_still_taken() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 vcore=1
        withdraw a1 k1
        app a1 in root.a
        wait 30s
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 is Completing
            a1 rejected: R_APP_EXISTS
            a1 is Completed
        "#]],
    );
}

// Row 18.
#[test]
fn the_id_of_a_completed_application_may_be_used_at_once() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 vcore=1
        withdraw a1 k1
        wait 30s
        app a1 in root.a
        show apps
        wait 30s
        ask a1 k1 vcore=1
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 is Completing
            a1 is Completed
            a1 accepted
            a1 in root.a is New since 1030s: used nothing, pending nothing, holds [], asks []
            a1 is Accepted
            a1 in root.a is Accepted since 1030s: used nothing, pending vcore=1, holds [], asks [k1 x1]
        "#]],
    );
}

// 1.6: as after Completed.
#[test]
fn the_id_of_a_rejected_application_may_be_used_at_once() {
    check(
        "
        queue root.a
        app a1 in root.nowhere
        app a1 in root.a
        show apps
        ",
        &expect![[r#"
            a1 rejected: R_PLACEMENT E_PLACEMENT_NONE
            a1 accepted
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

// Row 25, and 1.5: the id can be used again at once.
#[test]
fn a_removed_application_leaves_nothing_behind() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 x2 vcore=1
        ask a1 k2 x2 vcore=1 ; ask a1 k3 vcore=1 prio=7 ; request a1 k4 vcore=1
        remove-app a1
        show apps
        show queues
        show nodes
        wait 60s
        app a1 in root.a
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
            root: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            n1: total vcore=2, used nothing, occupied nothing, left vcore=2
            a1 accepted
            a1 in root.a is New since 1060s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

// 1.5: nothing is sent when there was no allocation, and for an unknown id.
#[test]
fn an_application_without_allocations_is_removed_in_silence() {
    check(
        "
        queue root.a
        app a1 in root.a
        app a2 in root.a
        ask a2 k1 vcore=1
        remove-app a1
        remove-app a2
        remove-app a3
        show apps
        show queues
        ",
        &expect![[r#"
            a1 accepted
            a2 accepted
            a2 is Accepted
            root: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.a: used nothing, pending nothing, headroom nothing, running 0, priority none
        "#]],
    );
}

// Row 28 (D3).
#[test]
fn an_application_all_of_whose_allocations_are_released_at_once_completes() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 x2 vcore=1
        release a1 *
        wait 30s
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
            a1 is Completing
            a1 is Completed
        "#]],
    );
}
