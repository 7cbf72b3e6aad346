//! Asks and allocations, row by row (applications chapter, 2.10).

use expect_test::expect;

use crate::world::check;

// Row 1.
#[test]
fn an_ask_is_pending_as_often_as_it_repeats_and_is_not_answered() {
    check(
        "
        queue root.p.a
        app a1 in root.p.a
        app a2 in root.p.a
        ask a1 k1 x3 vcore=2
        ask a2 k1 vcore=1
        show apps
        show queues
        ",
        &expect![[r#"
            a1 accepted
            a2 accepted
            a1 is Accepted
            a2 is Accepted
            a1 in root.p.a is Accepted since 1000s: used nothing, pending vcore=6, holds [], asks [k1 x3]
            a2 in root.p.a is Accepted since 1000s: used nothing, pending vcore=1, holds [], asks [k1 x1]
            root: used nothing, pending vcore=7, headroom nothing, running 0, priority 0
            root.p: used nothing, pending vcore=7, headroom nothing, running 0, priority 0
            root.p.a: used nothing, pending vcore=7, headroom nothing, running 0, priority 0
        "#]],
    );
}

// Row 2.
#[test]
fn an_ask_sent_again_replaces_what_is_outstanding_of_it() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 x3 vcore=2
        ask a1 k1 x3 vcore=1
        show apps
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending vcore=3, holds [k1], asks [k1 x3]
            root: used vcore=2, pending vcore=3, headroom vcore=0, running 1, priority 0
            root.a: used vcore=2, pending vcore=3, headroom vcore=0, running 1, priority 0
        "#]],
    );
}

// 2.3: an ask all of which is allocated wants more when it is sent again.
#[test]
fn an_allocated_ask_sent_again_is_more_work() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 x2 vcore=1
        ask a1 k1 x2 vcore=1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending vcore=2, holds [k1, k1], asks [k1 x2]
        "#]],
    );
}

// Row 4.
#[test]
fn an_invalid_ask_does_not_harm_its_neighbours() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 vcore=1 ; ask a1 k2 x0 vcore=1 ; ask a1 k3 vcore=1
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            ask a1/k2 rejected: R_REPEAT
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=2, holds [], asks [k1 x1, k3 x1]
        "#]],
    );
}

// Row 5.
#[test]
fn an_ask_wants_something_and_nothing_negative() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1
        ask a1 k2 vcore=0
        ask a1 k3 vcore=-1
        show apps
        ask a1 k4 vcore=0 memory=5
        show apps
        ",
        &expect![[r#"
            a1 accepted
            ask a1/k1 rejected: R_NO_RESOURCE
            ask a1/k2 rejected: R_NO_RESOURCE
            ask a1/k3 rejected: R_NEGATIVE_RESOURCE
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending memory=5 vcore=0, holds [], asks [k4 x1]
        "#]],
    );
}

// Row 8.
#[test]
fn asks_are_served_by_priority_and_then_by_age() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 vcore=1 prio=1 created=902
        ask a1 k2 vcore=1 prio=5 created=903
        ask a1 k3 vcore=1 prio=5 created=901
        node n1 vcore=1
        node n2 vcore=1
        node n3 vcore=1
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            n1 accepted
            a1 is Running
            a1/k3 placed on n1
            n2 accepted
            a1/k2 placed on n2
            n3 accepted
            a1/k1 placed on n3
        "#]],
    );
}

// Row 9: asks in both forms, changed ones, and one that could not be bound.
#[test]
fn asks_of_equal_rank_are_served_as_they_arrived() {
    check(
        "
        queue root.a
        node n0 vcore=1
        app a1 in root.a
        ask a1 k5 vcore=1 created=900
        request a1 k4 vcore=1 created=900
        ask a1 k3 vcore=1 created=900
        request a1 k2 vcore=2 created=900
        ask a1 k1 vcore=1 created=900 ; ask a1 k0 vcore=1 created=900
        request a1 k2 vcore=1
        drain n0
        release a1 uuid=k5 as SCHEDULING_FAILED_ON_RM
        node n1 vcore=1
        node n2 vcore=1
        node n3 vcore=1
        node n4 vcore=1
        node n5 vcore=1
        node n6 vcore=1
        ",
        &expect![[r#"
            n0 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k5 placed on n0
            n1 accepted
            a1/k5 placed on n1
            n2 accepted
            a1/k4 placed on n2
            n3 accepted
            a1/k3 placed on n3
            n4 accepted
            a1/k2 placed on n4
            n5 accepted
            a1/k1 placed on n5
            n6 accepted
            a1/k0 placed on n6
        "#]],
    );
}

// Row 10.
#[test]
fn an_old_ask_makes_its_application_older() {
    check(
        "
        queue root.a prop application.sort.policy=fifo
        app a1 in root.a
        app a2 in root.a
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1 created=500
        show apps
        node n1 vcore=1
        node n2 vcore=1
        ",
        &expect![[r#"
            a1 accepted
            a2 accepted
            a1 is Accepted
            a2 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=1, holds [], asks [k1 x1]
            a2 in root.a is Accepted since 500s: used nothing, pending vcore=1, holds [], asks [k1 x1]
            n1 accepted
            a2 is Running
            a2/k1 placed on n1
            n2 accepted
            a1 is Running
            a1/k1 placed on n2
        "#]],
    );
}

// Row 12.
#[test]
fn an_allocation_that_exists_is_taken_on_a_full_node() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        app a2 in root.a
        ask a1 k1 vcore=1
        exists a2 k1 on n1 vcore=2
        exists a2 k2 on n1 vcore=1 uuid=u2
        show apps
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a2 in root.a is Running since 1000s: used vcore=3, pending nothing, holds [k1, k2], asks []
            n1: total vcore=1, used vcore=4, occupied nothing, left vcore=-3
        "#]],
    );
}

// Row 13.
#[test]
fn an_allocation_that_exists_is_taken_above_the_maximum() {
    check(
        "
        queue root.a max vcore=2
        node n1 vcore=9
        app a1 in root.a
        exists a1 k1 on n1 vcore=5
        show queues
        ask a1 k2 vcore=1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            root: used vcore=5, pending nothing, headroom vcore=4, running 1, priority none
            root.a: used vcore=5, pending nothing, headroom vcore=-3, running 1, priority none
            a1 in root.a is Running since 1000s: used vcore=5, pending vcore=1, holds [k1], asks [k2 x1]
        "#]],
    );
}

// Row 15.
#[test]
fn a_node_with_one_bad_allocation_leaves_no_trace() {
    check(
        "
        queue root.a
        app a1 in root.a
        node n1 vcore=9 holds a1/k1 vcore=1 holds a9/k2 vcore=1 holds a1/k3 vcore=1
        show apps
        show queues
        show nodes
        node n1 vcore=9 holds a1/k1 vcore=1 holds a1/k3 vcore=1 uuid=u3
        show apps
        show queues
        show nodes
        ",
        &expect![[r#"
            a1 accepted
            n1 rejected: R_APP_UNKNOWN
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            root: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.a: used nothing, pending nothing, headroom nothing, running 0, priority none
            n1 accepted
            a1 is Accepted
            a1 is Running
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k3], asks []
            root: used vcore=2, pending nothing, headroom vcore=7, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=7, running 1, priority none
            n1: total vcore=9, used vcore=2, occupied nothing, left vcore=7
        "#]],
    );
}

// Row 16.
#[test]
fn an_allocation_grows_above_the_maximum_and_nothing_is_evicted() {
    check(
        "
        queue root.a max memory=5
        node n1 memory=5
        app a1 in root.a
        request a1 k1 memory=4
        request a1 k1 memory=6
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
            a1 in root.a is Running since 1000s: used memory=6, pending nothing, holds [k1], asks []
            root: used memory=6, pending nothing, headroom memory=-1, running 1, priority none
            root.a: used memory=6, pending nothing, headroom memory=-1, running 1, priority none
            n1: total memory=5, used memory=6, occupied nothing, left memory=-1
        "#]],
    );
}

// Row 17, and 2.3: everything but the resources of a known key is ignored.
#[test]
fn an_allocation_sent_again_as_it_is_changes_nothing() {
    check(
        "
        queue root.a
        node n1 memory=5
        node n2 memory=5
        app a1 in root.a
        exists a1 k1 on n1 memory=4
        request a1 k1 memory=4 prio=3
        exists a1 k1 on n1 memory=4
        exists a1 k1 on n2 memory=4
        show apps
        show queues
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used memory=4, pending nothing, holds [k1], asks []
            root: used memory=4, pending nothing, headroom memory=6, running 1, priority none
            root.a: used memory=4, pending nothing, headroom memory=6, running 1, priority none
            n1: total memory=5, used memory=4, occupied nothing, left memory=1
            n2: total memory=5, used nothing, occupied nothing, left memory=5
        "#]],
    );
}

// 2.3: the node that it was on is not there any more.
#[test]
fn an_allocation_on_an_unknown_node_is_rejected_even_if_it_is_known_elsewhere() {
    check(
        "
        queue root.a
        node n1 memory=5
        app a1 in root.a
        exists a1 k1 on n1 memory=4
        exists a1 k1 on n9 memory=5
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            allocation a1/k1 rejected: R_NODE_UNKNOWN
            a1 in root.a is Running since 1000s: used memory=4, pending nothing, holds [k1], asks []
        "#]],
    );
}

// Row 18.
#[test]
fn a_pending_ask_that_runs_by_the_word_of_its_rm_is_booked_there_unchecked() {
    check(
        "
        queue root.a max vcore=1
        node n1 vcore=1
        node n2 vcore=1 drained
        app a1 in root.a
        request a1 k1 vcore=2
        exists a1 k1 on n2 vcore=3
        show apps
        show queues
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n2
            a1 in root.a is Running since 1000s: used vcore=3, pending nothing, holds [k1], asks []
            root: used vcore=3, pending nothing, headroom vcore=-1, running 1, priority none
            root.a: used vcore=3, pending nothing, headroom vcore=-2, running 1, priority none
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
            n2 closed: total vcore=1, used vcore=3, occupied nothing, left vcore=-2
        "#]],
    );
}

// Rows 19 to 21.
#[test]
fn what_others_placed_occupies_its_node_and_goes_with_it() {
    check(
        "
        queue root.a
        node n1 vcore=9
        foreign f1 on n1 vcore=1
        foreign f1 on n1 vcore=3
        show nodes
        show queues
        remove n1
        node n1 vcore=9
        show nodes
        foreign f1 on n1 vcore=3
        show nodes
        foreign f2 vcore=1
        foreign f3 on n9 vcore=1
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n1: total vcore=9, used nothing, occupied vcore=3, left vcore=6
            root: used nothing, pending nothing, headroom vcore=9, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=9, running 0, priority none
            n1 accepted
            n1: total vcore=9, used nothing, occupied nothing, left vcore=9
            n1: total vcore=9, used nothing, occupied vcore=3, left vcore=6
            allocation /f2 rejected: R_NODE_MISSING
            allocation /f3 rejected: R_NODE_UNKNOWN
            n1: total vcore=9, used nothing, occupied vcore=3, left vcore=6
        "#]],
    );
}

// 2.7 (D13): another node moves it.
#[test]
fn what_others_placed_moves_with_its_key() {
    check(
        "
        node n1 vcore=9
        node n2 vcore=9
        foreign f1 on n1 vcore=1
        foreign f1 on n2 vcore=2
        show nodes
        foreign-gone f1
        foreign-gone f1
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n1: total vcore=9, used nothing, occupied nothing, left vcore=9
            n2: total vcore=9, used nothing, occupied vcore=2, left vcore=7
            n1: total vcore=9, used nothing, occupied nothing, left vcore=9
            n2: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

// Row 22.
#[test]
fn an_allocation_that_ran_its_time_stays_charged_until_its_end_is_confirmed() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1 timeout=1000
        wait 999ms
        show apps
        wait 1ms
        show apps
        show nodes
        wait 60s
        release a1 uuid=k1 as TIMEOUT
        show apps
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a1/k1 released: TIMEOUT
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            n1: total vcore=1, used vcore=1, occupied nothing, left nothing
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

// Row 23.
#[test]
fn an_allocation_that_is_released_in_time_does_not_run_out() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1 timeout=1000
        wait 500ms
        release a1 uuid=k1
        wait 1s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
        "#]],
    );
}

// Row 25 (D36).
#[test]
fn two_applications_may_use_one_key_on_one_node() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        app a2 in root.a
        request a1 k1 vcore=1
        request a2 k1 vcore=1
        release a1 key=k1
        show apps
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            n1: total vcore=2, used vcore=1, occupied nothing, left vcore=1
        "#]],
    );
}

// 2.6: no confirmation; one key, or all of an application.
#[test]
fn withdrawn_asks_are_gone_without_a_word() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1
        ask a1 k2 x3 vcore=2
        request a1 k3 vcore=2
        ask a1 k4 vcore=2 prio=4
        show queues
        withdraw a1 k4
        show queues
        withdraw a1 *
        withdraw a1 k9
        withdraw a9 *
        show apps
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            root: used vcore=1, pending vcore=10, headroom vcore=0, running 1, priority 4
            root.a: used vcore=1, pending vcore=10, headroom vcore=0, running 1, priority 4
            root: used vcore=1, pending vcore=8, headroom vcore=0, running 1, priority 0
            root.a: used vcore=1, pending vcore=8, headroom vcore=0, running 1, priority 0
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            root: used vcore=1, pending nothing, headroom vcore=0, running 1, priority none
            root.a: used vcore=1, pending nothing, headroom vcore=0, running 1, priority none
        "#]],
    );
}
