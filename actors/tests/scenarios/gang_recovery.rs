//! Gangs after a restart: the resource manager reports the application, its placeholders and its
//! members, in any order, and the gang continues where it was.

use expect_test::expect;

use crate::world::check;

/// State and timer do not depend on the order in which placeholder and member are reported.
#[test]
fn a_member_reported_before_a_placeholder_starts_the_timer() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=4 timeout 5000
        exists a1 r1 on n1 vcore=2 group=tg uuid=r1
        exists a1 p1 on n1 vcore=2 placeholder=tg uuid=p1
        show apps
        show task-groups
        wait 5s
        confirm *
        show apps
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [p1 for tg, r1], asks []
            a1/tg: 1 placeholders of vcore=2, 0 replaced, 0 timed out
            a1/p1 released: TIMEOUT
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [r1], asks []
            a1/tg: 1 placeholders of vcore=2, 0 replaced, 1 timed out
        "#]],
    );
}

#[test]
fn a_placeholder_reported_before_a_member_starts_the_timer() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=4 timeout 5000
        exists a1 p1 on n1 vcore=2 placeholder=tg
        show apps
        exists a1 r1 on n1 vcore=2 group=tg
        show apps
        show task-groups
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
            a1 in root.a is Accepted since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            a1 is Running
            a1/r1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [p1 for tg, r1], asks []
            a1/tg: 1 placeholders of vcore=2, 0 replaced, 0 timed out
            a1/p1 released: TIMEOUT
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [r1], asks []
            a1/tg: 1 placeholders of vcore=2, 0 replaced, 1 timed out
        "#]],
    );
}

/// If all placeholders are reported, the application runs at once. If some are missing, it
/// continues gathering.
#[test]
fn a_gang_with_reported_placeholders_continues_gathering() {
    check(
        "
        queue root.a max vcore=4
        node n1 vcore=1
        app a1 in root.a gang vcore=4
        app a2 in root.a gang vcore=4
        exists a1 p1 on n1 vcore=2 placeholder=tg
        exists a1 p2 on n1 vcore=2 placeholder=tg
        exists a2 p1 on n1 vcore=2 placeholder=tg
        show apps
        show queues
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Running
            a1/p2 placed on n1
            a2 is Accepted
            a2/p1 placed on n1
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [p1 for tg, p2 for tg], asks []
            a2 in root.a is Accepted since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            root: used vcore=6, pending nothing, headroom vcore=0, running 1, priority none
            root.a: used vcore=6, pending nothing, headroom vcore=-2, running 1, priority none
            n1: total vcore=1, used vcore=6, occupied nothing, left vcore=-5
        "#]],
    );
}

/// A node may report placeholders like any other allocation.
#[test]
fn a_node_reports_its_placeholders() {
    check(
        "
        queue root.a
        app a1 in root.a gang vcore=4 timeout 5000
        node n1 vcore=9 holds a1/p1 vcore=2 placeholder=tg holds a1/p2 vcore=2 placeholder=tg uuid=u2
        show apps
        show task-groups
        ask a1 r1 vcore=1 group=tg
        confirm *
        wait 5s
        show apps
        node n2 vcore=9 holds a1/p3 vcore=2 placeholder=
        ",
        &expect![[r#"
            a1 accepted
            n1 accepted
            a1 is Accepted
            a1 is Running
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [p1 for tg, p2 for tg], asks []
            a1/tg: 2 placeholders of vcore=2, 0 replaced, 0 timed out
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/r1 placed on n1
            a1/u2 of p2 released: TIMEOUT
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [p2 for tg, r1], asks []
            n2 rejected: R_PLACEHOLDER_NO_TG
        "#]],
    );
}

/// A swap in flight is lost: the placeholder is reported as one, the member as a request, and they
/// are matched again.
#[test]
fn a_restart_begins_a_swap_in_flight_again() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=6 timeout 60000
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        ask a1 p3 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        confirm *
        ask a1 r2 vcore=2 group=tg
        show apps
        show queues
        register
        node n1 vcore=9
        app a1 in root.a gang vcore=6 timeout 60000
        exists a1 p2 on n1 vcore=2 placeholder=tg
        exists a1 p3 on n1 vcore=2 placeholder=tg
        exists a1 r1 on n1 vcore=2 group=tg
        ask a1 r2 vcore=2 group=tg
        show apps
        show queues
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
            a1 is Running
            a1/p3 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/r1 placed on n1
            a1/p2 released: PLACEHOLDER_REPLACED
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [p2 for tg, p3 for tg, r1], asks []
            root: used vcore=6, pending nothing, headroom vcore=3, running 1, priority none
            root.a: used vcore=6, pending nothing, headroom vcore=3, running 1, priority none
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p2 placed on n1
            a1/p3 placed on n1
            a1 is Running
            a1/r1 placed on n1
            a1/p2 released: PLACEHOLDER_REPLACED
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [p2 for tg, p3 for tg, r1], asks []
            root: used vcore=6, pending nothing, headroom vcore=3, running 1, priority none
            root.a: used vcore=6, pending nothing, headroom vcore=3, running 1, priority none
            a1/r2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=4, pending nothing, holds [p3 for tg, r1, r2], asks []
            a1/tg: 2 placeholders of vcore=2, 1 replaced, 0 timed out
        "#]],
    );
}

/// The timeout does not restart if the application has a creation time.
#[test]
fn a_restart_keeps_the_rest_of_a_gangs_timeout() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a gang vcore=4 timeout 5000 tag yunikorn.apache.org/creationTime=1000
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        wait 3s
        register
        node n1 vcore=3
        app a1 in root.a gang vcore=4 timeout 5000 tag yunikorn.apache.org/creationTime=1000
        exists a1 p1 on n1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        wait 1999ms
        wait 1ms
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Resuming
            a1/p1 released: TIMEOUT
            ask a1/p2 released: TIMEOUT
        "#]],
    );
}

/// A placeholder placed by the RM itself is like any other.
#[test]
fn a_pending_placeholder_placed_by_the_rm_is_booked() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a gang vcore=2 timeout 5000
        request a1 p1 vcore=2 placeholder=tg
        exists a1 p1 on n1 vcore=2 placeholder=tg
        show apps
        show nodes
        show task-groups
        wait 5s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            n1: total vcore=1, used vcore=2, occupied nothing, left vcore=-1
            a1/tg: 1 placeholders of vcore=2, 0 replaced, 0 timed out
            a1/p1 released: TIMEOUT
        "#]],
    );
}
