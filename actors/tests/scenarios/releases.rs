//! Releases, whoever starts them, and nodes that leave, drain or change (applications chapter,
//! 5.6).

use expect_test::expect;

use crate::world::{check, check_plain};

// Rows 1 and 2.
#[test]
fn a_release_is_answered_once_and_returns_everything() {
    check(
        "
        queue root.p.a
        node n1 vcore=3
        app a1 in root.p.a
        ask a1 k1 x2 vcore=1
        release a1 uuid=k1#1
        show apps
        show queues
        show nodes
        release a1 uuid=k1#1
        release a1 uuid=k9
        release a9 uuid=k1
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
            a1 in root.p.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            root: used vcore=1, pending nothing, headroom vcore=2, running 1, priority none
            root.p: used vcore=1, pending nothing, headroom vcore=2, running 1, priority none
            root.p.a: used vcore=1, pending nothing, headroom vcore=2, running 1, priority none
            n1: total vcore=3, used vcore=1, occupied nothing, left vcore=2
            a1 in root.p.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
        "#]],
    );
}

// Scheduler-interface chapter, 1.10 F4: the request and all allocations of the key.
#[test]
fn a_release_by_key_ends_everything_of_that_key() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a
        ask a1 k2 vcore=1
        ask a1 k1 x4 vcore=1
        release a1 uuid=k1#2
        release a1 key=k1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k2 placed on n1
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#2 of k1 released: STOPPED_BY_RM
            a1/k1#3 of k1 placed on n1
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a1/k1#3 of k1 released: STOPPED_BY_RM
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k2], asks []
        "#]],
    );
}

// Row 3.
#[test]
fn a_release_of_no_or_an_unknown_type_is_answered_as_stopped() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a
        ask a1 k1 vcore=1
        ask a1 k2 vcore=1
        release a1 uuid=k1 as UNKNOWN_TERMINATION_TYPE
        release a1 uuid=k2 as 99
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
        "#]],
    );
}

// 5.1: the confirmation of what was never asked for removes it, too.
#[test]
fn a_confirmation_removes_without_an_answer() {
    check(
        "
        queue root.a
        node n1 vcore=3
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
            n1: total vcore=3, used nothing, occupied nothing, left vcore=3
        "#]],
    );
}

// Row 5 in kind: a release that the core started is ended by whatever the RM answers.
#[test]
fn what_was_told_to_end_may_be_stopped_instead_and_that_is_answered() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a
        ask a1 k1 vcore=1 timeout=1000
        wait 1s
        release a1 uuid=k1
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: TIMEOUT
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            n1: total vcore=3, used nothing, occupied nothing, left vcore=3
        "#]],
    );
}

// Row 6.
#[test]
fn a_release_of_everything_leaves_asks_of_the_seed_form() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 x2 vcore=1
        ask a1 k2 vcore=3
        release a1 *
        show apps
        wait 60s
        withdraw a1 *
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
            a1 is Completing
        "#]],
    );
}

// Row 7.
#[test]
fn a_release_of_everything_drops_requests_of_the_present_form() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        request a1 k1 vcore=1
        request a1 k2 vcore=1
        request a1 k3 vcore=3
        release a1 *
        show apps
        show queues
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
            root: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=2, running 0, priority none
        "#]],
    );
}

// Row 8.
#[test]
fn what_could_not_be_bound_is_pending_again_and_placed_later() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        request a1 k1 vcore=1
        drain n1
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        show apps
        show queues
        show nodes
        node n2 vcore=1
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used nothing, pending vcore=1, holds [], asks [k1 x1]
            root: used nothing, pending vcore=1, headroom vcore=1, running 1, priority 0
            root.a: used nothing, pending vcore=1, headroom vcore=1, running 1, priority 0
            n1 closed: total vcore=1, used nothing, occupied nothing, left vcore=1
            n2 accepted
            a1/k1 placed on n2
            a1/k1 placed on n2
        "#]],
    );
}

// Row 8: any node may be tried, and later again (0.1, `predicateRetry`).
#[test]
fn what_could_not_be_bound_goes_elsewhere_or_waits_for_its_turn() {
    check_plain(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1
        node n2 vcore=1
        refuse k1 n1
        release a1 uuid=k1 as SCHEDULING_FAILED_ON_RM
        refuse k1 n2
        release a1 uuid=k1 as SCHEDULING_FAILED_ON_RM
        show apps
        allow k1 n1
        wait 999ms
        show apps
        wait 1ms
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            n2 accepted
            a1/k1 placed on n2
            a1 in root.a is Running since 1000s: used nothing, pending vcore=1, holds [], asks [k1 x1]
            a1 in root.a is Running since 1000s: used nothing, pending vcore=1, holds [], asks [k1 x1]
            a1/k1 placed on n1
        "#]],
    );
}

// Row 9 in kind: told to end already.
#[test]
fn what_was_told_to_end_and_could_not_be_bound_is_just_gone() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1 timeout=1000
        wait 1s
        release a1 uuid=k1 as SCHEDULING_FAILED_ON_RM
        show apps
        show nodes
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
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

// Row 10.
#[test]
fn a_node_leaves_with_its_allocations() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=3
        app a1 in root.a
        app a2 in root.a
        ask a1 k1 vcore=1 node=n1
        ask a2 k1 vcore=1 node=n1
        ask a2 k2 vcore=1 node=n2
        show queues
        remove n1
        show apps
        show queues
        show nodes
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
            a2 is Running
            a2/k1 placed on n1
            a2/k2 placed on n2
            root: used vcore=3, pending nothing, headroom vcore=2, running 2, priority none
            root.a: used vcore=3, pending nothing, headroom vcore=2, running 2, priority none
            a1/k1 released: STOPPED_BY_RM
            a2/k1 released: STOPPED_BY_RM
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k2], asks []
            root: used vcore=1, pending nothing, headroom vcore=2, running 1, priority none
            root.a: used vcore=1, pending nothing, headroom vcore=2, running 1, priority none
            n2: total vcore=3, used vcore=1, occupied nothing, left vcore=2
        "#]],
    );
}

// Row 15 (D13).
#[test]
fn what_left_with_its_node_may_exist_on_another() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a
        exists a1 k1 on n1 vcore=1
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

// Row 16.
#[test]
fn a_drained_node_lets_go_and_takes_nothing() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 x2 vcore=1
        drain n1
        ask a1 k2 vcore=1
        release a1 uuid=k1#1
        show apps
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a1 in root.a is Running since 1000s: used vcore=1, pending vcore=1, holds [k1], asks [k2 x1]
            n1 closed: total vcore=2, used vcore=1, occupied nothing, left vcore=1
        "#]],
    );
}

// Row 17.
#[test]
fn a_node_is_drained_and_undrained_as_often_as_one_likes() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        undrain n1
        drain n1
        drain n1
        show nodes
        ask a1 k1 vcore=1
        undrain n1
        undrain n1
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            n1 closed: total vcore=2, used nothing, occupied nothing, left vcore=2
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            n1: total vcore=2, used vcore=1, occupied nothing, left vcore=1
        "#]],
    );
}

// Row 18.
#[test]
fn a_shrunken_node_keeps_what_it_holds_and_takes_nothing() {
    check(
        "
        queue root.a
        node n1 vcore=10
        node n2 vcore=1
        app a1 in root.a
        ask a1 k1 x8 vcore=1 node=n1
        show queues
        resize n1 vcore=5
        show nodes
        show queues
        ask a1 k2 vcore=1 node=n1
        release a1 uuid=k1#1 ; release a1 uuid=k1#2 ; release a1 uuid=k1#3
        release a1 uuid=k1#4
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
            a1/k1#4 of k1 placed on n1
            a1/k1#5 of k1 placed on n1
            a1/k1#6 of k1 placed on n1
            a1/k1#7 of k1 placed on n1
            a1/k1#8 of k1 placed on n1
            root: used vcore=8, pending nothing, headroom vcore=3, running 1, priority none
            root.a: used vcore=8, pending nothing, headroom vcore=3, running 1, priority none
            n1: total vcore=5, used vcore=8, occupied nothing, left vcore=-3
            n2: total vcore=1, used nothing, occupied nothing, left vcore=1
            root: used vcore=8, pending nothing, headroom vcore=-2, running 1, priority none
            root.a: used vcore=8, pending nothing, headroom vcore=-2, running 1, priority none
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a1/k1#2 of k1 released: STOPPED_BY_RM
            a1/k1#3 of k1 released: STOPPED_BY_RM
            a1/k1#4 of k1 released: STOPPED_BY_RM
            a1/k2 placed on n1
            n1: total vcore=5, used vcore=5, occupied nothing, left nothing
            n2: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

// Row 19.
#[test]
fn a_node_resized_to_what_it_is_stays_as_it_is() {
    check(
        "
        node n1 vcore=5 memory=3
        resize n1 vcore=5 memory=3
        resize n1
        show nodes
        show queues
        ",
        &expect![[r#"
            n1 accepted
            n1: total memory=3 vcore=5, used nothing, occupied nothing, left memory=3 vcore=5
            root: used nothing, pending nothing, headroom memory=3 vcore=5, running 0, priority none
            root.default: used nothing, pending nothing, headroom memory=3 vcore=5, running 0, priority none
        "#]],
    );
}

// Row 20.
#[test]
fn what_is_occupied_is_not_available_and_still_counts_for_the_cluster() {
    check(
        "
        queue root.a
        node n1 vcore=10
        app a1 in root.a
        ask a1 k1 vcore=2
        resize n1 occupied vcore=4
        show nodes
        show queues
        resize n1 occupied vcore=1
        resize n1 vcore=8
        show nodes
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            n1: total vcore=10, used vcore=2, occupied vcore=4, left vcore=4
            root: used vcore=2, pending nothing, headroom vcore=8, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=8, running 1, priority none
            n1: total vcore=8, used vcore=2, occupied vcore=1, left vcore=5
            root: used vcore=2, pending nothing, headroom vcore=6, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=6, running 1, priority none
        "#]],
    );
}

// Row 21.
#[test]
fn an_empty_node_that_leaves_takes_headroom_only() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a
        ask a1 k1 x2 vcore=1 node=n1
        show queues
        remove n2
        show queues
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            root: used vcore=2, pending nothing, headroom vcore=2, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=2, running 1, priority none
            root: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k1], asks []
        "#]],
    );
}
