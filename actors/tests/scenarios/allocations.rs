//! Existing allocations that the resource manager reports, changes or gives a run time, and foreign
//! allocations. An existing allocation is booked whatever capacity is free, because the scheduler
//! cannot undo it.

use expect_test::expect;

use crate::world::check;

#[test]
fn an_existing_allocation_is_booked_without_free_capacity() {
    check(
        "
        queue root.a max vcore=2
        node n1 vcore=1
        app a1 in root.a
        exists a1 k1 on n1 vcore=3
        show queues
        show nodes
        show apps
        release a1 key=k1
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            root: used vcore=3, pending nothing, headroom vcore=0, running 1, priority none
            root.a: used vcore=3, pending nothing, headroom vcore=-1, running 1, priority none
            n1: total vcore=1, used vcore=3, occupied nothing, left vcore=-2
            a1 in root.a is Running since 1000s: used vcore=3, pending nothing, holds [k1], asks []
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

#[test]
fn only_the_form_without_uuid_is_echoed_once() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a
        app a2 in root.a
        exists a1 k1 on n1 vcore=1
        exists a1 k1 on n1 vcore=1
        exists a2 k1 on n1 vcore=1 uuid=u1
        exists a2 k1 on n1 vcore=1 uuid=u2
        show nodes
        show apps
        release a2 key=k1
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
            n1: total vcore=9, used vcore=3, occupied nothing, left vcore=6
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a2 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k1], asks []
            a2/u1 of k1 released: STOPPED_BY_RM
            a2/u2 of k1 released: STOPPED_BY_RM
            a2 is Completing
        "#]],
    );
}

#[test]
fn a_report_does_not_move_a_known_allocation() {
    check(
        "
        queue root.a
        node n1 vcore=9
        node n2 vcore=9
        app a1 in root.a
        exists a1 k1 on n1 vcore=1
        exists a1 k1 on n2 vcore=3
        exists a1 k1 on n3 vcore=3
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            allocation a1/k1 rejected: R_NODE_UNKNOWN
            n1: total vcore=9, used vcore=3, occupied nothing, left vcore=6
            n2: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn an_allocation_changes_in_place_despite_limits() {
    check(
        "
        queue root.a max memory=5
        node n1 memory=5
        app a1 in root.a
        request a1 k1 memory=4
        request a1 k1 memory=6
        show queues
        show nodes
        show users
        request a1 k1 memory=6
        request a1 k1 memory=1
        show queues
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            root: used memory=6, pending nothing, headroom memory=0, running 1, priority none
            root.a: used memory=6, pending nothing, headroom memory=-1, running 1, priority none
            n1: total memory=5, used memory=6, occupied nothing, left memory=-1
            user ada: used memory=6, running [a1]
            root: used memory=1, pending nothing, headroom memory=4, running 1, priority none
            root.a: used memory=1, pending nothing, headroom memory=4, running 1, priority none
            n1: total memory=5, used memory=1, occupied nothing, left memory=4
        "#]],
    );
}

#[test]
fn resizing_a_repeated_ask_resizes_all_its_allocations() {
    check(
        "
        queue root.a
        node n1 memory=5
        app a1 in root.a
        ask a1 k1 x3 memory=2
        request a1 k1 memory=1
        show queues
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
            root: used memory=3, pending nothing, headroom memory=2, running 1, priority none
            root.a: used memory=3, pending nothing, headroom memory=2, running 1, priority none
            n1: total memory=5, used memory=3, occupied nothing, left memory=2
        "#]],
    );
}

#[test]
fn a_shrinking_allocation_frees_capacity() {
    check(
        "
        queue root.a max vcore=4
        queue root.b
        node n1 vcore=4
        app a1 in root.a
        app a2 in root.b
        request a1 k1 vcore=4
        ask a2 k1 vcore=2
        request a1 k2 vcore=1
        request a1 k1 vcore=1
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
            a1/k2 placed on n1
        "#]],
    );
}

#[test]
fn a_pending_ask_placed_by_the_rm_is_booked() {
    check(
        "
        queue root.a max vcore=1
        node n1 vcore=1
        node n2 vcore=1
        app a1 in root.a
        request a1 k1 vcore=5
        exists a1 k1 on n2 vcore=3
        show apps
        show nodes
        show queues
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n2
            a1 in root.a is Running since 1000s: used vcore=3, pending nothing, holds [k1], asks []
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
            n2: total vcore=1, used vcore=3, occupied nothing, left vcore=-2
            root: used vcore=3, pending nothing, headroom vcore=1, running 1, priority none
            root.a: used vcore=3, pending nothing, headroom vcore=-2, running 1, priority none
        "#]],
    );
}

#[test]
fn one_of_several_outstanding_is_placed_by_the_rm() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 x3 vcore=5
        exists a1 k1 on n1 vcore=5 uuid=u1
        show apps
        release a1 uuid=u1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1 in root.a is Running since 1000s: used vcore=5, pending vcore=10, holds [k1], asks [k1 x2]
            a1/u1 of k1 released: STOPPED_BY_RM
            a1 in root.a is Running since 1000s: used nothing, pending vcore=10, holds [], asks [k1 x2]
        "#]],
    );
}

#[test]
fn foreign_allocations_count_on_the_node_only() {
    check(
        "
        queue root.a
        node n1 vcore=4
        node n2 vcore=4
        foreign f1 on n1 vcore=1
        foreign f1 on n1 vcore=3
        show nodes
        show queues
        foreign f1 on n2 vcore=2
        show nodes
        foreign-gone f1
        foreign-gone f1
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n1: total vcore=4, used nothing, occupied vcore=3, left vcore=1
            n2: total vcore=4, used nothing, occupied nothing, left vcore=4
            root: used nothing, pending nothing, headroom vcore=5, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=5, running 0, priority none
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
            n2: total vcore=4, used nothing, occupied vcore=2, left vcore=2
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
            n2: total vcore=4, used nothing, occupied nothing, left vcore=4
        "#]],
    );
}

#[test]
fn foreign_allocations_end_with_their_node() {
    check(
        "
        queue root.a
        node n1 vcore=4
        foreign f1 on n1 vcore=1
        remove n1
        node n1 vcore=4
        show nodes
        foreign f1 on n1 vcore=3
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n1 accepted
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
            n1: total vcore=4, used nothing, occupied vcore=3, left vcore=1
        "#]],
    );
}

#[test]
fn foreign_allocations_need_a_known_node() {
    check(
        "
        queue root.a
        foreign f1 vcore=1
        foreign f2 on n1 vcore=1
        node n1 vcore=1
        foreign f3 on n1 vcore=-1
        foreign f4 on n1 vcore=0 kind=whatever
        ",
        &expect![[r#"
            allocation /f1 rejected: R_NODE_MISSING
            allocation /f2 rejected: R_NODE_UNKNOWN
            n1 accepted
            allocation /f3 rejected: R_NEGATIVE_RESOURCE
            allocation /f4 rejected: R_NO_RESOURCE
        "#]],
    );
}

#[test]
fn an_expired_allocation_waits_for_its_confirmation() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1 timeout=1000
        ask a1 k2 vcore=1
        wait 999ms
        wait 1ms
        show nodes
        release a1 uuid=k1 as TIMEOUT
        release a1 uuid=k1 as TIMEOUT
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: TIMEOUT
            n1: total vcore=1, used vcore=1, occupied nothing, left nothing
            a1/k2 placed on n1
        "#]],
    );
}

#[test]
fn an_allocation_released_in_time_does_not_expire() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1 timeout=1000
        wait 500ms
        release a1 uuid=k1
        ask a1 k1 vcore=1
        wait 5s
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
            a1/k1 placed on n1
        "#]],
    );
}

#[test]
fn a_timeout_changed_later_counts_for_later_allocations() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 vcore=1 timeout=1000
        ask a1 k1 vcore=1 timeout=5000
        wait 1s
        wait 4s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1#1 of k1 placed on n1
            a1/k1 released: TIMEOUT
            a1/k1#1 of k1 released: TIMEOUT
        "#]],
    );
}

/// A key names an allocation within its application only.
#[test]
fn equal_keys_of_two_applications_are_two_allocations() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        app a2 in root.a
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1
        release a1 uuid=k1
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
            n1: total vcore=2, used vcore=1, occupied nothing, left vcore=1
        "#]],
    );
}

/// The ask was resized in the meantime: the withdrawn allocation is pending with the new size.
#[test]
fn an_unbound_allocation_is_pending_with_its_asks_size() {
    check(
        "
        queue root.a
        node n1 gpu=3
        app a1 in root.a
        ask a1 k1 gpu=1
        ask a1 k1 vcore=1
        release a1 uuid=k1 as SCHEDULING_FAILED_ON_RM
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used nothing, pending vcore=2, holds [], asks [k1 x2]
        "#]],
    );
}

/// A report with a UUID updates one allocation, a report without it all allocations of the key.
#[test]
fn an_allocation_reported_again_has_the_size_reported() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a
        ask a1 k1 x2 vcore=1
        ask a1 k1 vcore=4
        exists a1 k1 on n1 vcore=3 uuid=k1#2
        show nodes
        request a1 k1 vcore=2
        show nodes
        exists a1 k1 on n1 vcore=4 uuid=k1#1
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
            n1: total vcore=9, used vcore=8, occupied nothing, left vcore=1
            n1: total vcore=9, used vcore=6, occupied nothing, left vcore=3
            n1: total vcore=9, used vcore=8, occupied nothing, left vcore=1
        "#]],
    );
}

/// Regression: the allocation was rejected after its node had been accepted, because the rest of
/// the ask was enlarged, too.
#[test]
fn allocations_of_a_node_leave_the_rest_of_their_ask() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 x1019 gpu=9007199254740992
        ask a1 k2 x6 memory=9007199254740992
        node n1 memory=4 holds a1/k1 memory=9007199254740992
        show apps
        exists a1 k1 on n1 memory=1 uuid=u1
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            n1 accepted
            a1 is Running
            a1 in root.a is Running since 1000s: used memory=9007199254740992, pending gpu=9169328841326329856 memory=54043195528445952, holds [k1], asks [k1 x1018, k2 x6]
            a1 in root.a is Running since 1000s: used memory=9007199254740993, pending gpu=9160321642071588864 memory=54043195528445952, holds [k1, k1], asks [k1 x1017, k2 x6]
        "#]],
    );
}
