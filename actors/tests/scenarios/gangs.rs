//! Gangs of placeholders: an application declares the total of its placeholders, asks for them, and
//! its members replace them one by one. A place stays charged until the resource manager confirms
//! the end of the placeholder, and is charged once.

use expect_test::expect;

use crate::world::{check, check_plain};

/// The application is accepted with its first placeholder.
#[test]
fn a_gang_runs_with_its_last_placeholder() {
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

/// The place stays charged as before until the placeholder has ended; then the difference is
/// released.
#[test]
fn a_smaller_member_releases_the_rest_of_its_place() {
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

/// Free capacity elsewhere is not used earlier: the group still has usable placeholders.
#[test]
fn a_too_large_member_waits_for_the_last_placeholder() {
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
fn a_member_with_another_resource_type_is_larger() {
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
fn a_member_of_an_empty_group_is_placed_normally() {
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
fn a_second_member_waits_until_the_placeholder_is_replaced() {
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

/// The member waits while a placeholder is pending, too.
#[test]
fn cancelling_a_pending_placeholder_places_its_member() {
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

/// A pending request of the present form is cancelled by a release of its key.
#[test]
fn a_release_by_key_cancels_a_pending_placeholder() {
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
fn members_in_excess_are_placed_normally() {
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

/// Two groups, each with placeholders of its own size: no member replaces one of the other group.
#[test]
fn a_member_takes_a_place_of_its_group() {
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

/// The oldest placeholder first; at equal age the one with the lower UUID.
#[test]
fn the_oldest_placeholder_of_a_group_is_replaced_first() {
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

/// The place is charged already, while no node accepts new allocations and the quota is used up.
#[test]
fn a_swap_needs_no_open_node_or_quota() {
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

/// An update of a pending placeholder is not another placeholder.
#[test]
fn a_repeated_placeholder_is_counted_once() {
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

/// The declared total is wrong: the first swap makes the application run, and the timeout ends
/// placeholders only.
#[test]
fn a_gang_with_a_wrong_total_runs_with_its_first_swap() {
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

/// Without a total, an application with placeholders starts with its first member.
#[test]
fn placeholders_without_a_total_do_not_start_an_application() {
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
fn a_swap_in_flight_keeps_an_application_running() {
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

/// A gathering gang counts as running, so that the next one does not start to gather.
#[test]
fn a_gathering_gang_counts_as_a_running_application() {
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
fn removing_a_gathering_gang_starts_the_next_application() {
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

/// For the limits of its user an application runs from its first placeholder on.
#[test]
fn a_placeholder_counts_against_user_limits() {
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

/// A change allows both the swap and a placement of higher priority.
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
fn the_higher_priority_member_takes_the_first_place() {
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

/// Left-over placeholders end half a minute after the last other allocation of the application.
#[test]
fn left_over_placeholders_end_with_the_grace_period() {
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
