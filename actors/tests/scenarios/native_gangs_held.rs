//! Held places of declared gangs: how members take them, and how long they are held.

use expect_test::expect;

use crate::world::{check, check_plain};

#[test]
fn asks_take_their_held_places() {
    check(
        "
        queue root.a
        node n1 vcore=4
        node n2 vcore=4
        app a1 in root.a needs a x3 vcore=1 needs b x2 vcore=2
        show queues
        ask a1 k1 x3 vcore=1 group=a ; ask a1 k2 vcore=2 group=b
        show queues
        show users
        show nodes
        show apps
        show task-groups
        ask a1 k3 vcore=2 group=b
        show apps
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            root: used vcore=7, pending nothing, headroom vcore=1, running 1, priority none
            root.a: used vcore=7, pending nothing, headroom vcore=1, running 1, priority none
            a1/k1#1 of k1 placed on n2
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
            a1/k2 placed on n2
            root: used vcore=7, pending nothing, headroom vcore=1, running 1, priority none
            root.a: used vcore=7, pending nothing, headroom vcore=1, running 1, priority none
            user ada: used vcore=7, running [a1]
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            a1 in root.a is Running since 1000s: used vcore=5, pending nothing, holds [(b~1), k1, k1, k1, k2], asks []
            a1/a: 3 placeholders of vcore=1, 3 replaced, 0 timed out
            a1/b: 2 placeholders of vcore=2, 1 replaced, 0 timed out
            a1/k3 placed on n1
            a1 in root.a is Running since 1000s: used vcore=7, pending nothing, holds [k1, k1, k1, k2, k3], asks []
            a1/a: 3 placeholders of vcore=1, 3 replaced, 0 timed out
            a1/b: 2 placeholders of vcore=2, 2 replaced, 0 timed out
        "#]],
    );
}

#[test]
fn a_smaller_member_frees_the_rest_at_once() {
    check(
        "
        queue root.a max vcore=4
        queue root.b
        node n1 vcore=4
        app a1 in root.a needs a x2 vcore=2 
        app a2 in root.a
        ask a2 k1 vcore=1
        app b1 in root.b
        ask b1 k1 vcore=1
        show queues
        ask a1 k1 vcore=1 group=a
        show queues
        show users
        show nodes
        ask a1 k2 vcore=1 group=a
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a2 accepted
            a2 is Accepted
            b1 accepted
            b1 is Accepted
            root: used vcore=4, pending vcore=2, headroom vcore=0, running 1, priority 0
            root.a: used vcore=4, pending vcore=1, headroom vcore=0, running 1, priority 0
            root.b: used nothing, pending vcore=1, headroom vcore=0, running 0, priority 0
            a1/k1 placed on n1
            b1 is Running
            b1/k1 placed on n1
            root: used vcore=4, pending vcore=1, headroom vcore=0, running 2, priority 0
            root.a: used vcore=3, pending vcore=1, headroom vcore=0, running 1, priority 0
            root.b: used vcore=1, pending nothing, headroom vcore=0, running 1, priority none
            user ada: used vcore=4, running [a1, b1]
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            a1/k2 placed on n1
            a2 is Running
            a2/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2], asks []
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            b1 in root.b is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
        "#]],
    );
}

/// A member larger than its held place is placed like any other ask.
#[test]
fn a_larger_member_ends_its_held_place() {
    check(
        "
        queue root.a
        node n1 vcore=9 gpu=1
        app a1 in root.a needs a x2 vcore=2 needs b x1 vcore=1
        ask a1 k1 vcore=3 group=a
        show apps
        show task-groups
        ask a1 k2 vcore=1 gpu=1 group=b
        show apps
        show task-groups
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=3, pending nothing, holds [(b~1), k1], asks []
            a1/a: 2 placeholders of vcore=2, 0 replaced, 2 timed out
            a1/b: 1 placeholders of vcore=1, 0 replaced, 0 timed out
            a1/k2 placed on n1
            a1 in root.a is Running since 1000s: used gpu=1 vcore=4, pending nothing, holds [k1, k2], asks []
            a1/a: 2 placeholders of vcore=2, 0 replaced, 2 timed out
            a1/b: 1 placeholders of vcore=1, 0 replaced, 1 timed out
            root: used gpu=1 vcore=4, pending nothing, headroom gpu=0 vcore=5, running 1, priority none
            root.a: used gpu=1 vcore=4, pending nothing, headroom gpu=0 vcore=5, running 1, priority none
        "#]],
    );
}

#[test]
fn a_member_refused_on_its_place_moves() {
    check_plain(
        "
        queue root.a
        node n1 vcore=4
        node n2 vcore=4
        app a1 in root.a needs a x1 vcore=3
        show nodes
        refuse k1 n1
        ask a1 k1 vcore=2 group=a
        show nodes
        show queues
        show task-groups
        app a2 in root.a needs a x2 vcore=2
        show nodes
        refuse k2 *
        ask a2 k2 vcore=2 group=a
        show apps
        ask a2 k3 vcore=2 group=a
        allow k2 *
        wait 2s
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used nothing, occupied nothing, left vcore=4
            a1/k1 placed on n2
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            root: used vcore=2, pending nothing, headroom vcore=6, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=6, running 1, priority none
            a1/a: 1 placeholders of vcore=3, 1 replaced, 0 timed out
            a2 accepted
            a2 is Accepted
            a2 is Running
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1], asks []
            a2 in root.a is Running since 1000s: used nothing, pending vcore=2, holds [(a~1), (a~2)], asks [k2 x1]
            a2/k3 placed on n1
            a2/k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1], asks []
            a2 in root.a is Running since 1000s: used vcore=4, pending nothing, holds [k2, k3], asks []
        "#]],
    );
}

#[test]
fn a_drained_node_keeps_its_held_places() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a needs a x2 vcore=1
        drain n1
        node n2 vcore=4
        ask a1 k1 x2 vcore=1 group=a
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            n2 accepted
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k1], asks []
        "#]],
    );
}

#[test]
fn held_places_expire_and_the_gang_keeps_running() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a timeout 5000 tag yunikorn.apache.org/creationTime=1 needs a x3 vcore=1
        ask a1 k1 vcore=1 group=a
        wait 4s
        show apps
        wait 2s
        show apps
        show task-groups
        show queues
        ask a1 k2 vcore=1 group=a
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~2), (a~3), k1], asks []
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a1/a: 3 placeholders of vcore=1, 1 replaced, 2 timed out
            root: used vcore=1, pending nothing, headroom vcore=3, running 1, priority none
            root.a: used vcore=1, pending nothing, headroom vcore=3, running 1, priority none
            a1/k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2], asks []
        "#]],
    );
}

#[test]
fn an_unused_gang_completes_at_its_timeout() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a style Hard timeout 5000 needs a x3 vcore=1
        wait 6s
        show apps
        show queues
        wait 30s
        show apps
        app a2 in root.a needs a x3 vcore=1
        wait 899s
        show apps
        wait 2s
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            root: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            a1 is Completed
            a2 accepted
            a2 is Accepted
            a2 is Running
            a2 in root.a is Running since 1036s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3)], asks []
            a2 is Completing
            a2 in root.a is Completing since 1036s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn an_undecided_gang_has_no_timeout() {
    check(
        "
        queue root.a
        app a1 in root.a style Hard timeout 5000 needs a x3 vcore=1
        wait 60s
        show apps
        node n1 vcore=3
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=3, holds [], asks [(a) x3]
            n1 accepted
            a1 is Running
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3)], asks []
        "#]],
    );
}

#[test]
fn a_withdrawal_after_the_decision_keeps_the_held_place() {
    check_plain(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a needs a x3 vcore=1
        refuse * *
        ask a1 k1 x2 vcore=1 group=a
        withdraw a1 k1
        allow * *
        show apps
        ask a1 k2 vcore=1 group=a
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3)], asks []
            a1/k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~2), (a~3), k2], asks []
        "#]],
    );
}

#[test]
fn a_reported_member_takes_its_held_place() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a needs a x3 vcore=1
        show apps
        exists a1 k1 on n2 vcore=1 group=a
        show apps
        show queues
        show task-groups
        exists a1 k2 on n2 vcore=1 group=a ; exists a1 k3 on n2 vcore=1 group=a
        show nodes
        show queues
        show task-groups
        exists a1 k4 on n2 vcore=1 group=a ; exists a1 k5 on n2 vcore=1 group=b
        show queues
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3)], asks []
            a1/k1 placed on n2
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~1), (a~3), k1], asks []
            root: used vcore=3, pending nothing, headroom vcore=1, running 1, priority none
            root.a: used vcore=3, pending nothing, headroom vcore=1, running 1, priority none
            a1/a: 3 placeholders of vcore=1, 1 replaced, 0 timed out
            a1/k2 placed on n2
            a1/k3 placed on n2
            n1: total vcore=2, used nothing, occupied nothing, left vcore=2
            n2: total vcore=2, used vcore=3, occupied nothing, left vcore=-1
            root: used vcore=3, pending nothing, headroom vcore=2, running 1, priority none
            root.a: used vcore=3, pending nothing, headroom vcore=2, running 1, priority none
            a1/a: 3 placeholders of vcore=1, 3 replaced, 0 timed out
            a1/k4 placed on n2
            a1/k5 placed on n2
            root: used vcore=5, pending nothing, headroom vcore=2, running 1, priority none
            root.a: used vcore=5, pending nothing, headroom vcore=2, running 1, priority none
        "#]],
    );
}
