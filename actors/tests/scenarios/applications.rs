//! Applications: states, admission, removal. The interface defines each state message and also
//! where there is none.

use expect_test::expect;

use crate::world::{check, check_plain};

#[test]
fn the_first_ask_makes_an_application_accepted() {
    check(
        "
        queue root.a
        app a1 in root.a
        show apps
        ask a1 k1 vcore=1
        ask a1 k2 vcore=1
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=2, holds [], asks [k1 x1, k2 x1]
        "#]],
    );
}

/// Only the first allocation changes the state.
#[test]
fn the_first_allocation_makes_it_running_up_to_root() {
    check(
        "
        queue root.a.x
        node n1 vcore=3
        app a1 in root.a.x
        ask a1 k1 vcore=1
        show queues
        ask a1 k2 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            root: used vcore=1, pending nothing, headroom vcore=2, running 1, priority none
            root.a: used vcore=1, pending nothing, headroom vcore=2, running 1, priority none
            root.a.x: used vcore=1, pending nothing, headroom vcore=2, running 1, priority none
            a1/k2 placed on n1
            root: used vcore=2, pending nothing, headroom vcore=1, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=1, running 1, priority none
            root.a.x: used vcore=2, pending nothing, headroom vcore=1, running 1, priority none
        "#]],
    );
}

#[test]
fn withdrawing_the_only_ask_completes_the_application() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 vcore=1
        withdraw a1 k1
        wait 29s
        show apps
        wait 1s
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            a1 is Completed
        "#]],
    );
}

#[test]
fn releasing_the_last_allocation_completes_the_application() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a
        ask a1 k1 x2 vcore=1
        release a1 uuid=k1#1
        release a1 uuid=k1#2
        show queues
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
            root: used nothing, pending nothing, headroom vcore=3, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=3, running 0, priority none
        "#]],
    );
}

#[test]
fn an_ask_ends_completing_and_its_timer() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a
        ask a1 k1 vcore=1
        release a1 uuid=k1
        wait 29s
        ask a1 k2 vcore=1
        wait 100s
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
            a1/k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k2], asks []
        "#]],
    );
}

/// A reload applies to applications that become Completing afterwards. Applications that are
/// Completing already keep the earlier timeout.
#[test]
fn the_completing_timeout_is_a_queue_property() {
    check(
        "
        queue root.a prop application.completing.timeout=1m
        queue root.b prop application.completing.timeout=500ms
        node n1 vcore=3
        app a1 in root.a
        app a2 in root.a
        app b1 in root.b
        ask a1 k1 vcore=1
        ask a2 k2 vcore=1
        ask b1 k3 vcore=1
        release a1 uuid=k1
        release b1 uuid=k3
        wait 499ms
        show apps
        wait 1ms
        wait 20s
        forget
        queue root.a prop application.completing.timeout=2s
        queue root.b
        reload
        release a2 uuid=k2
        wait 2s
        show apps
        wait 37499ms
        show apps
        wait 1ms
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k2 placed on n1
            b1 is Accepted
            b1 is Running
            b1/k3 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            b1/k3 released: STOPPED_BY_RM
            b1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k2], asks []
            b1 in root.b is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            b1 is Completed
            a2/k2 released: STOPPED_BY_RM
            a2 is Completing
            a2 is Completed
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            a1 is Completed
        "#]],
    );
}

/// The second time in Completing has a timer of its own: the first one does not end it early.
#[test]
fn an_old_timer_does_not_end_a_later_completing() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a
        ask a1 k1 vcore=1
        release a1 uuid=k1
        wait 20s
        ask a1 k2 vcore=1
        release a1 uuid=k2
        wait 20s
        show apps
        wait 10s
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
            a1/k2 placed on n1
            a1/k2 released: STOPPED_BY_RM
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            a1 is Completed
        "#]],
    );
}

#[test]
fn an_ask_without_capacity_makes_it_running_again() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1
        release a1 uuid=k1
        ask a1 k2 vcore=5
        show apps
        show queues
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
            a1 in root.a is Running since 1000s: used nothing, pending vcore=5, holds [], asks [k2 x1]
            root: used nothing, pending vcore=5, headroom vcore=1, running 1, priority 0
            root.a: used nothing, pending vcore=5, headroom vcore=1, running 1, priority 0
        "#]],
    );
}

#[test]
fn a_new_application_does_not_complete() {
    check(
        "
        queue root.a
        app a1 in root.a
        withdraw a1 *
        release a1 *
        wait 100s
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn an_id_in_use_is_rejected_without_effect() {
    check(
        "
        queue root.a
        queue root.b
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1
        app a1 in root.b
        show apps
        release a1 *
        app a1 in root.b
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 rejected: R_APP_EXISTS
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            a1 rejected: R_APP_EXISTS
        "#]],
    );
}

#[test]
fn an_id_is_free_after_its_application_completed() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1
        release a1 uuid=k1
        wait 30s
        app a1 in root.a
        show apps
        ask a1 k1 vcore=1
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
            a1 accepted
            a1 in root.a is New since 1030s: used nothing, pending nothing, holds [], asks []
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
        "#]],
    );
}

#[test]
fn an_id_repeated_in_one_message_is_accepted_once() {
    check(
        "
        queue root.a
        app a1 in root.a ; app a1 in root.a ; app a2 in root.a
        ",
        &expect![[r#"
            a1 accepted
            a1 rejected: R_APP_EXISTS
            a2 accepted
        "#]],
    );
}

/// The timer of `Completing` also runs if one release ended everything.
#[test]
fn after_a_release_of_everything_it_completes_in_time() {
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

/// The second release means that no further ask arrives. The id can be used again.
#[test]
fn a_second_release_of_everything_completes_at_once() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 vcore=1
        release a1 key=k1
        release a1 *
        app a1 in root.a
        app a2 in root.a
        release a2 *
        ask a2 k1 vcore=1
        release a2 *
        release a2 * as TIMEOUT
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
            a1 is Completed
            a1 accepted
            a2 accepted
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a2/k1 released: STOPPED_BY_RM
            a2 is Completing
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            a2 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn a_removed_application_releases_all_its_allocations() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 x2 vcore=1 prio=4
        ask a1 k2 x3 vcore=1 prio=7
        show queues
        remove-app a1
        show queues
        show nodes
        show apps
        app a1 in root.a
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            root: used vcore=2, pending vcore=3, headroom vcore=0, running 1, priority 7
            root.a: used vcore=2, pending vcore=3, headroom vcore=0, running 1, priority 7
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a1/k1#2 of k1 released: STOPPED_BY_RM
            ask a1/k2 released: STOPPED_BY_RM
            root: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            n1: total vcore=2, used nothing, occupied nothing, left vcore=2
            a1 accepted
        "#]],
    );
}

#[test]
fn removing_a_missing_application_has_no_answer() {
    check(
        "
        queue root.a
        remove-app a1
        app a1 in root.a
        remove-app a1
        remove-app a1
        ",
        &expect![[r#"
            a1 accepted
        "#]],
    );
}

#[test]
fn a_removed_application_lets_the_next_one_start() {
    check(
        "
        queue root.a maxapps=1
        node n1 vcore=4
        app a1 in root.a
        app a2 in root.a
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1
        remove-app a1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a1/k1 released: STOPPED_BY_RM
            a2 is Running
            a2/k1 placed on n1
        "#]],
    );
}

#[test]
fn each_reason_not_to_admit_has_its_code() {
    check(
        "
        queue root.a submit ada
        queue root.b.x submit *
        app a1 in root.nowhere
        app a2 in root.b
        app a3 in root.a user bob
        app a4 in root.a user ada partition other
        app a5 in root.a user -
        app a6 in root.b.x user - tag Application.Create.Force=true
        app a7 in root.a..x
        app a8 in ROOT.B.X
        app a9 in root.B.x
        show apps
        ",
        &expect![[r#"
            a1 rejected: R_PLACEMENT E_PLACEMENT_NONE
            a2 rejected: R_NOT_LEAF
            a3 rejected: R_PLACEMENT E_PLACEMENT_NONE
            a4 rejected: R_PARTITION_UNKNOWN
            a5 rejected: R_USER E_USER_EMPTY
            a6 accepted
            a7 rejected: R_PLACEMENT E_PLACEMENT_RULE
            a8 accepted
            a9 accepted
            a6 in root.b.x is New since 1000s: used nothing, pending nothing, holds [], asks []
            a8 in root.b.x is New since 1000s: used nothing, pending nothing, holds [], asks []
            a9 in root.b.x is New since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn root_default_accepts_applications_without_usable_queue() {
    check(
        "
        queue root.default
        queue root.a
        app a1
        app a2 in root.nowhere
        app a3 in a
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a2 accepted
            a3 accepted
            a3 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            a1 in root.default is New since 1000s: used nothing, pending nothing, holds [], asks []
            a2 in root.default is New since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn an_older_ask_makes_its_application_older() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k0 vcore=1
        wait 1s
        app a2 in root.a
        wait 1s
        app a3 in root.a
        ask a2 k1 vcore=1
        ask a3 k1 vcore=1 created=900
        show apps
        release a1 uuid=k0
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k0 placed on n1
            a2 accepted
            a3 accepted
            a2 is Accepted
            a3 is Accepted
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k0], asks []
            a2 in root.a is Accepted since 1001s: used nothing, pending vcore=1, holds [], asks [k1 x1]
            a3 in root.a is Accepted since 900s: used nothing, pending vcore=1, holds [], asks [k1 x1]
            a1/k0 released: STOPPED_BY_RM
            a1 is Completing
            a3 is Running
            a3/k1 placed on n1
        "#]],
    );
}

/// An ask may reach the application that is being removed although it was meant for its successor.
/// Only the RM knows, so each ask is rejected with a message.
#[test]
fn an_ask_removed_with_its_application_is_rejected() {
    check(
        "
        node n1 vcore=2
        app a1 in root.default
        ask a1 k1 x4 vcore=1
        ask a1 k2 x2 vcore=1
        request a1 r1 vcore=1
        remove-app a1
        app a1 in root.default
        ask a1 k1 vcore=1
        request a1 r1 vcore=1
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
            ask a1/k1 released: STOPPED_BY_RM
            ask a1/k2 released: STOPPED_BY_RM
            a1/r1 released: STOPPED_BY_RM
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/r1 placed on n1
        "#]],
    );
}

#[test]
fn asks_behind_an_unawaited_removal_are_answered() {
    check_plain(
        "
        node n1 vcore=1
        app a1 in root.default
        ask a1 k1 x3 vcore=1 &
        request a1 r1 vcore=1 &
        remove-app a1 &
        ask a1 k2 vcore=1 &
        request a1 r2 vcore=1 &
        app a1 in root.default &
        request a1 r3 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#1 of k1 released: STOPPED_BY_RM
            ask a1/k1 released: STOPPED_BY_RM
            a1/r1 released: STOPPED_BY_RM
            ask a1/k2 rejected: R_APP_UNKNOWN
            allocation a1/r2 rejected: R_APP_UNKNOWN
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/r3 placed on n1
        "#]],
    );
}
