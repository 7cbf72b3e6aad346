//! Removals of nodes, applications and whole gangs while members are about to replace placeholders.

use expect_test::expect;

use crate::world::check;

/// The member keeps its capacity on the other node: the placeholder that it waited for has ended.
#[test]
fn removing_the_placeholders_node_completes_the_swap() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a gang vcore=2
        refuse r1 n1
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        remove n1
        confirm 0
        show apps
        show queues
        show nodes
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/p1 released: STOPPED_BY_RM
            a1/r1 placed on n2
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [r1], asks []
            root: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            a1/tg: 1 placeholders of vcore=2, 1 replaced, 0 timed out
        "#]],
    );
}

/// The RM was not notified of the member, so nothing is released; the member is pending again, and
/// the placeholder ends without a message.
#[test]
fn removing_the_members_node_leaves_the_member_pending() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a gang vcore=2
        refuse r1 n1
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        remove n2
        show apps
        show queues
        show nodes
        node n3 vcore=2
        show apps
        confirm 0
        show nodes
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1 in root.a is Running since 1000s: used nothing, pending vcore=2, holds [p1 for tg], asks [r1 x1]
            root: used vcore=2, pending vcore=2, headroom vcore=0, running 1, priority 0
            root.a: used vcore=2, pending vcore=2, headroom vcore=0, running 1, priority 0
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3 accepted
            a1 in root.a is Running since 1000s: used nothing, pending vcore=2, holds [p1 for tg], asks [r1 x1]
            a1/r1 placed on n3
            n1: total vcore=2, used nothing, occupied nothing, left vcore=2
            n3: total vcore=2, used vcore=2, occupied nothing, left nothing
            a1/tg: 1 placeholders of vcore=2, 1 replaced, 0 timed out
        "#]],
    );
}

#[test]
fn removing_the_node_of_a_swap_leaves_the_member_pending() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a gang vcore=2
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        remove n1
        show apps
        show queues
        show task-groups
        confirm 0
        node n2 vcore=2
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/p1 released: STOPPED_BY_RM
            a1 in root.a is Running since 1000s: used nothing, pending vcore=2, holds [], asks [r1 x1]
            root: used nothing, pending vcore=2, headroom nothing, running 1, priority 0
            root.a: used nothing, pending vcore=2, headroom nothing, running 1, priority 0
            a1/tg: 1 placeholders of vcore=2, 0 replaced, 1 timed out
            n2 accepted
            a1/r1 placed on n2
        "#]],
    );
}

/// Members on other nodes keep their places, and the removal of the last node completes the gang.
#[test]
fn removing_a_node_ends_its_placeholders() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a gang vcore=4
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        remove n1
        show apps
        show task-groups
        remove n2
        show task-groups
        show queues
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Running
            a1/p2 placed on n2
            a1/p1 released: STOPPED_BY_RM
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [p2 for tg], asks []
            a1/tg: 2 placeholders of vcore=2, 0 replaced, 1 timed out
            a1/p2 released: STOPPED_BY_RM
            a1 is Completing
            a1/tg: 2 placeholders of vcore=2, 0 replaced, 2 timed out
            root: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.a: used nothing, pending nothing, headroom nothing, running 0, priority none
        "#]],
    );
}

/// One node may have swaps in all of these states at once, and each is handled.
#[test]
fn removing_a_node_handles_all_its_swaps_at_once() {
    check(
        "
        queue root.a
        node n1 vcore=3
        node n2 vcore=3
        app a1 in root.a gang vcore=3
        refuse there n1
        ask a1 p1 vcore=1 placeholder=here
        ask a1 p2 vcore=1 placeholder=idle node=n1
        ask a1 p3 vcore=1 placeholder=there node=n1
        ask a1 r1 vcore=1 group=here
        ask a1 there vcore=1 group=there
        show nodes
        remove n1
        show apps
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1/p2 placed on n1
            a1 is Running
            a1/p3 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/p3 released: PLACEHOLDER_REPLACED
            n1: total vcore=3, used vcore=3, occupied nothing, left nothing
            n2: total vcore=3, used vcore=1, occupied nothing, left vcore=2
            a1/p1 released: STOPPED_BY_RM
            a1/p2 released: STOPPED_BY_RM
            a1/p3 released: STOPPED_BY_RM
            a1/there placed on n2
            a1/r1 placed on n2
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [r1, there], asks []
            a1/here: 1 placeholders of vcore=1, 0 replaced, 1 timed out
            a1/idle: 1 placeholders of vcore=1, 0 replaced, 1 timed out
            a1/there: 1 placeholders of vcore=1, 1 replaced, 0 timed out
        "#]],
    );
}

/// The RM was not notified of the member on the other node, so it gets no release either.
#[test]
fn removing_an_application_with_a_swap_empties_both_nodes() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a gang vcore=2
        refuse r1 n1
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        show nodes
        remove-app a1
        confirm 0
        show nodes
        show queues
        show users
        app a1 in root.a
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            a1/p1 released: STOPPED_BY_RM
            ask a1/r1 released: STOPPED_BY_RM
            n1: total vcore=2, used nothing, occupied nothing, left vcore=2
            n2: total vcore=2, used nothing, occupied nothing, left vcore=2
            root: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            a1 accepted
        "#]],
    );
}

/// Asks of the older form stay: the member is pending again, without a placeholder to wait for.
#[test]
fn a_release_of_everything_cancels_swaps_and_keeps_asks() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a gang vcore=2
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        release a1 *
        show apps
        show task-groups
        confirm 0
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/p1 released: STOPPED_BY_RM
            a1/r1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [r1], asks []
            a1/tg: 1 placeholders of vcore=2, 0 replaced, 1 timed out
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [r1], asks []
        "#]],
    );
}

#[test]
fn a_release_of_everything_ends_members_in_flight() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a gang vcore=2
        request a1 p1 vcore=2 placeholder=tg
        request a1 r1 vcore=2 group=tg
        release a1 *
        show apps
        show queues
        wait 30s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/p1 released: STOPPED_BY_RM
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            root: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            a1 is Completed
        "#]],
    );
}

/// A drained node keeps its placeholders, and a member may still replace one.
#[test]
fn a_drained_node_keeps_swaps_in_flight() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a gang vcore=4
        refuse r1 n1
        ask a1 p1 vcore=2 placeholder=one
        ask a1 r1 vcore=2 group=one
        drain n2
        confirm 0
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1 is Running
            a1/r1 placed on n2
            n1: total vcore=2, used nothing, occupied nothing, left vcore=2
            n2 closed: total vcore=2, used vcore=2, occupied nothing, left nothing
        "#]],
    );
}

/// A resuming gang continues when the node with its last placeholder is removed; a failing gang
/// fails.
#[test]
fn removing_the_last_placeholders_node_ends_the_wait() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=9 style Soft timeout 5000
        app a2 in root.a gang vcore=9 style Hard timeout 5000
        ask a1 p1 vcore=2 placeholder=tg
        ask a2 p1 vcore=2 placeholder=tg
        wait 5s
        remove n1
        confirm *
        show apps
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a2 is Accepted
            a2/p1 placed on n1
            a1 is Resuming
            a1/p1 released: TIMEOUT
            a2 is Failing
            a2/p1 released: TIMEOUT
            a1/p1 released: STOPPED_BY_RM
            a2/p1 released: STOPPED_BY_RM
            a1 is Accepted
            a2 is Failed
            a1 in root.a is Accepted since 1000s: used nothing, pending nothing, holds [], asks []
            a1/tg: 1 placeholders of vcore=2, 0 replaced, 1 timed out
        "#]],
    );
}

/// The RM may stop an allocation that the scheduler wants to end: the stop is answered, since the
/// RM began it.
#[test]
fn stopping_a_placeholder_being_released_is_answered() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=9 timeout 5000
        ask a1 p1 vcore=2 placeholder=tg
        wait 5s
        release a1 uuid=p1
        confirm 0
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Resuming
            a1/p1 released: TIMEOUT
            a1/p1 released: STOPPED_BY_RM
            a1 is Accepted
        "#]],
    );
}
