//! Gangs of placeholders: an application says what its placeholders want together, asks for them,
//! and real allocations take their places one by one. What counts is that the places stay charged
//! until the resource manager says that a placeholder is gone, and are charged once.

use expect_test::expect;

use crate::world::{check, check_plain};

#[test]
fn a_gang_is_accepted_with_its_first_placeholder_and_runs_with_its_last() {
    check(
        "
        queue root.a
        node n1 vcore=10
        app a1 in root.a gang vcore=4
        ask a1 p1 vcore=2 placeholder=tg
        show apps
        show task-groups
        ask a1 p2 vcore=2 placeholder=tg
        show apps
        show queues
        show users
        show nodes
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 in root.a is Accepted since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            a1/tg: 1 placeholders of vcore=2, 0 replaced, 0 timed out
            a1 is Running
            a1/p2 placed on n1
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [p1 for tg, p2 for tg], asks []
            root: used vcore=4, pending nothing, headroom vcore=6, running 1, priority none
            root.a: used vcore=4, pending nothing, headroom vcore=6, running 1, priority none
            user ada: used vcore=4, running [a1]
            n1: total vcore=10, used vcore=4, occupied nothing, left vcore=6
            a1/tg: 2 placeholders of vcore=2, 0 replaced, 0 timed out
        "#]],
    );
}

/// The place stays charged as it was until the placeholder is gone; what is left over is given back.
#[test]
fn a_smaller_member_takes_the_place_and_the_rest_is_given_back() {
    check(
        "
        queue root.a
        node n1 vcore=9 memory=9
        app a1 in root.a gang vcore=2 memory=2
        ask a1 p1 vcore=2 memory=2 placeholder=tg
        ask a1 r1 vcore=1 memory=1 group=tg
        show apps
        show queues
        show users
        show nodes
        release a1 uuid=p1 as PLACEHOLDER_REPLACED
        show apps
        show queues
        show users
        show nodes
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            root: used memory=2 vcore=2, pending nothing, headroom memory=7 vcore=7, running 1, priority none
            root.a: used memory=2 vcore=2, pending nothing, headroom memory=7 vcore=7, running 1, priority none
            user ada: used memory=2 vcore=2, running [a1]
            n1: total memory=9 vcore=9, used memory=2 vcore=2, occupied nothing, left memory=7 vcore=7
            a1/r1 placed on n1
            a1 in root.a is Running since 1000s: used memory=1 vcore=1, pending nothing, holds [r1], asks []
            root: used memory=1 vcore=1, pending nothing, headroom memory=8 vcore=8, running 1, priority none
            root.a: used memory=1 vcore=1, pending nothing, headroom memory=8 vcore=8, running 1, priority none
            user ada: used memory=1 vcore=1, running [a1]
            n1: total memory=9 vcore=9, used memory=1 vcore=1, occupied nothing, left memory=8 vcore=8
            a1/tg: 1 placeholders of memory=2 vcore=2, 1 replaced, 0 timed out
        "#]],
    );
}

/// Room elsewhere does not help before: the group still has placeholders that may be used.
#[test]
fn a_member_larger_than_its_placeholders_is_placed_when_all_of_them_are_gone() {
    check(
        "
        queue root.a
        node n1 vcore=15 memory=15
        app a1 in root.a gang vcore=10 memory=10
        ask a1 p x5 vcore=2 memory=2 placeholder=tg
        ask a1 r1 vcore=5 memory=5 group=tg
        show apps
        confirm 4
        confirm 1
        confirm 0
        confirm 1
        show task-groups
        confirm 0
        show apps
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p#1 of p placed on n1
            a1/p#2 of p placed on n1
            a1/p#3 of p placed on n1
            a1/p#4 of p placed on n1
            a1 is Running
            a1/p#5 of p placed on n1
            a1/p#1 of p released: TIMEOUT
            a1/p#2 of p released: TIMEOUT
            a1/p#3 of p released: TIMEOUT
            a1/p#4 of p released: TIMEOUT
            a1/p#5 of p released: TIMEOUT
            a1 in root.a is Running since 1000s: used nothing, pending memory=5 vcore=5, holds [p for tg, p for tg, p for tg, p for tg, p for tg], asks [r1 x1]
            a1/tg: 5 placeholders of memory=2 vcore=2, 0 replaced, 4 timed out
            a1/r1 placed on n1
            a1 in root.a is Running since 1000s: used memory=5 vcore=5, pending nothing, holds [r1], asks []
            a1/tg: 5 placeholders of memory=2 vcore=2, 0 replaced, 5 timed out
        "#]],
    );
}

#[test]
fn a_member_that_wants_a_type_its_placeholder_lacks_is_larger() {
    check(
        "
        queue root.a
        node n1 vcore=9 memory=9 gpu=1
        app a1 in root.a gang vcore=2 memory=2
        ask a1 p1 vcore=2 memory=2 placeholder=tg
        ask a1 r1 vcore=2 memory=2 gpu=1 group=tg
        confirm 0
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: TIMEOUT
            a1/r1 placed on n1
        "#]],
    );
}

#[test]
fn a_member_of_a_group_without_placeholders_is_placed_like_any_other() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a gang vcore=4
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        ask a1 r1 vcore=1 group=other
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Running
            a1/r1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending vcore=2, holds [p1 for tg, r1], asks [p2 x1]
        "#]],
    );
}

#[test]
fn a_second_member_waits_until_the_only_placeholder_is_replaced() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a gang vcore=2
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        ask a1 r2 vcore=2 group=tg
        show apps
        confirm 0
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1 in root.a is Running since 1000s: used nothing, pending vcore=2, holds [p1 for tg], asks [r2 x1]
            a1/r1 placed on n1
            a1/r2 placed on n1
            a1/tg: 1 placeholders of vcore=2, 1 replaced, 0 timed out
        "#]],
    );
}

/// It waits as long as a placeholder is only asked for, too.
#[test]
fn a_member_is_placed_when_the_pending_placeholder_it_waited_for_is_cancelled() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a gang vcore=9
        ask a1 p1 vcore=9 placeholder=tg
        ask a1 r1 vcore=1 group=tg
        show apps
        withdraw a1 p1
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=10, holds [], asks [p1 x1, r1 x1]
            a1 is Running
            a1/r1 placed on n1
            a1/tg: 1 placeholders of vcore=9, 0 replaced, 1 timed out
        "#]],
    );
}

/// A request of today's form that is pending is cancelled by a release of its key.
#[test]
fn a_pending_placeholder_of_todays_form_is_cancelled_by_a_release() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a gang vcore=9
        request a1 p1 vcore=9 placeholder=tg
        request a1 r1 vcore=1 group=tg
        release a1 key=p1
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/r1 placed on n1
            a1/tg: 1 placeholders of vcore=9, 0 replaced, 1 timed out
        "#]],
    );
}

#[test]
fn members_in_excess_of_their_group_are_placed_like_any_other() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a gang vcore=1
        ask a1 p1 vcore=1 placeholder=tg
        ask a1 r x3 vcore=1 group=tg
        show apps
        confirm *
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1 in root.a is Running since 1000s: used nothing, pending vcore=2, holds [p1 for tg], asks [r x2]
            a1/r#1 of r placed on n1
            a1/r#2 of r placed on n1
            a1/r#3 of r placed on n1
            a1 in root.a is Running since 1000s: used vcore=3, pending nothing, holds [r, r, r], asks []
        "#]],
    );
}

/// Two groups, each with placeholders of its own size: no member takes a place of the other.
#[test]
fn a_member_takes_a_place_of_its_own_group_only() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=4
        ask a1 d1 vcore=3 placeholder=driver
        ask a1 w1 vcore=1 placeholder=workers
        ask a1 r1 vcore=1 group=workers
        ask a1 r2 vcore=1 group=workers
        ask a1 r3 vcore=1 group=driver
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/d1 placed on n1
            a1 is Running
            a1/w1 placed on n1
            a1/w1 released: PLACEHOLDER_REPLACED
            a1/d1 released: PLACEHOLDER_REPLACED
            a1/driver: 1 placeholders of vcore=3, 0 replaced, 0 timed out
            a1/workers: 1 placeholders of vcore=1, 0 replaced, 0 timed out
        "#]],
    );
}

/// The oldest placeholder first, and of the same age the one whose UUID comes first.
#[test]
fn the_oldest_placeholder_of_the_group_is_replaced_first() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=4
        ask a1 p4 vcore=1 placeholder=tg created=903
        ask a1 p3 vcore=1 placeholder=tg created=901
        ask a1 p2 vcore=1 placeholder=tg created=902
        ask a1 p1 vcore=1 placeholder=tg created=902
        ask a1 r x4 vcore=1 group=tg
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p4 placed on n1
            a1/p3 placed on n1
            a1/p2 placed on n1
            a1 is Running
            a1/p1 placed on n1
            a1/p3 released: PLACEHOLDER_REPLACED
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/p2 released: PLACEHOLDER_REPLACED
            a1/p4 released: PLACEHOLDER_REPLACED
        "#]],
    );
}

/// What a place is charged with is there already: no node takes anything new, and no quota has room.
#[test]
fn a_swap_needs_neither_an_open_node_nor_room_in_the_queue() {
    check(
        "
        queue root.a max vcore=2
        node n1 vcore=2
        app a1 in root.a gang vcore=2
        ask a1 p1 vcore=2 placeholder=tg
        drain n1
        resize n1 vcore=1
        ask a1 r1 vcore=2 group=tg
        confirm *
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/r1 placed on n1
            n1 closed: total vcore=1, used vcore=2, occupied nothing, left vcore=-1
        "#]],
    );
}

/// An update of a placeholder that is asked for is no further placeholder.
#[test]
fn a_placeholder_that_is_asked_for_anew_is_counted_once() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a gang vcore=4
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p1 vcore=3 placeholder=tg
        request a1 p2 vcore=2 placeholder=tg
        request a1 p2 vcore=4
        show apps
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=7, holds [], asks [p1 x1, p2 x1]
            a1/tg: 2 placeholders of vcore=2, 0 replaced, 0 timed out
        "#]],
    );
}

/// What its placeholders want together was said wrongly: the first swap makes it run, and its
/// timeout ends placeholders alone.
#[test]
fn a_gang_with_a_wrong_sum_runs_with_its_first_swap_and_its_timeout_ends_no_member() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=9 timeout 5000
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        confirm *
        wait 5s
        confirm *
        show apps
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1/p2 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1 is Running
            a1/r1 placed on n1
            a1/p2 released: TIMEOUT
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [r1], asks []
            a1/tg: 2 placeholders of vcore=2, 1 replaced, 1 timed out
        "#]],
    );
}

/// Without a sum an application with placeholders starts with its first member.
#[test]
fn placeholders_without_a_sum_do_not_make_an_application_run() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a
        ask a1 p1 vcore=2 placeholder=tg
        show apps
        ask a1 r1 vcore=2 group=tg
        confirm *
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 in root.a is Accepted since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            a1/p1 released: PLACEHOLDER_REPLACED
            a1 is Running
            a1/r1 placed on n1
        "#]],
    );
}

#[test]
fn while_a_swap_is_in_flight_an_application_runs_though_its_last_member_is_released() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=2
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 other vcore=1
        ask a1 r1 vcore=2 group=tg
        release a1 uuid=other
        show apps
        confirm *
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/other placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/other released: STOPPED_BY_RM
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            a1/r1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [r1], asks []
        "#]],
    );
}

/// A gang that gathers its placeholders counts as running, so that the next one does not begin to.
#[test]
fn a_gang_that_gathers_its_placeholders_takes_the_place_of_a_running_application() {
    check(
        "
        queue root.p maxapps=1
        queue root.p.a maxapps=1
        queue root.p.b maxapps=1
        node n1 vcore=3
        app a1 in root.p.a gang vcore=4
        app b1 in root.p.b
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        ask b1 k1 vcore=1
        resize n1 vcore=9
        show queues
        forget
        queue root.p maxapps=2
        queue root.p.a maxapps=1
        queue root.p.b maxapps=1
        reload
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            b1 is Accepted
            a1 is Running
            a1/p2 placed on n1
            root: used vcore=4, pending vcore=1, headroom vcore=5, running 1, priority 0
            root.p: used vcore=4, pending vcore=1, headroom vcore=5, running 1, priority 0
            root.p.a: used vcore=4, pending nothing, headroom vcore=5, running 1, priority none
            root.p.b: used nothing, pending vcore=1, headroom vcore=5, running 0, priority 0
            b1 is Running
            b1/k1 placed on n1
        "#]],
    );
}

#[test]
fn a_gang_that_is_removed_while_it_gathers_lets_the_next_application_start() {
    check(
        "
        queue root.p maxapps=1
        queue root.p.a maxapps=1
        queue root.p.b maxapps=1
        node n1 vcore=3
        app a1 in root.p.a gang vcore=4
        app b1 in root.p.b
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        ask b1 k1 vcore=1
        remove-app a1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            b1 is Accepted
            a1/p1 released: STOPPED_BY_RM
            ask a1/p2 released: STOPPED_BY_RM
            b1 is Running
            b1/k1 placed on n1
        "#]],
    );
}

/// For its user it runs from its first placeholder on.
#[test]
fn a_placeholder_counts_against_the_limits_of_its_user() {
    check(
        "
        queue root.a limit users=ada vcore=3 apps=1
        node n1 vcore=9
        app a1 in root.a user ada gang vcore=4
        app a2 in root.a user ada
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        ask a2 k1 vcore=1
        show users
        ask a1 r1 vcore=1 group=tg
        confirm *
        show users
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a2 is Accepted
            user ada: used vcore=2, running [a1]
            a1/p1 released: PLACEHOLDER_REPLACED
            a1 is Running
            a1/r1 placed on n1
            a1/p2 placed on n1
            user ada: used vcore=3, running [a1]
        "#]],
    );
}

/// A change makes both possible: the swap, and a placement of higher priority.
#[test]
fn places_are_taken_before_anything_new_is_placed() {
    check_plain(
        "
        queue root.a
        queue root.b
        node n1 vcore=2
        app a1 in root.a gang vcore=2
        app b1 in root.b
        refuse r1 *
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 r1 vcore=1 group=tg prio=-9
        ask b1 k1 vcore=1 prio=9
        allow r1 *
        resize n1 vcore=3
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            b1 is Accepted
            a1/p1 released: PLACEHOLDER_REPLACED
            b1 is Running
            b1/k1 placed on n1
        "#]],
    );
}

#[test]
fn the_member_of_the_higher_priority_takes_the_first_place() {
    check(
        "
        queue root.a
        app a1 in root.a gang vcore=1
        ask a1 p1 vcore=1 placeholder=tg
        ask a1 low vcore=1 group=tg
        ask a1 high vcore=1 group=tg prio=5
        node n1 vcore=1
        confirm *
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            n1 accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/high placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending vcore=1, holds [high], asks [low x1]
        "#]],
    );
}

/// Left-over placeholders end when an application has had nothing else for half a minute.
#[test]
fn placeholders_left_over_end_with_the_grace_period_and_completion_waits_for_them() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=6
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        ask a1 p3 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        confirm *
        release a1 uuid=r1
        wait 29s
        wait 1s
        show apps
        confirm 1
        show apps
        confirm 0
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1/p2 placed on n1
            a1 is Running
            a1/p3 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/r1 placed on n1
            a1/r1 released: STOPPED_BY_RM
            a1 is Completing
            a1/p2 released: TIMEOUT
            a1/p3 released: TIMEOUT
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [p2 for tg, p3 for tg], asks []
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [p2 for tg], asks []
            a1 is Completed
            root: used nothing, pending nothing, headroom vcore=9, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=9, running 0, priority none
        "#]],
    );
}
