//! Declared gangs, with members declared at submission: all members get their places at once or
//! none does, and a held place is reserved for its member until the member's ask takes it.

use expect_test::expect;

use crate::world::{check, check_plain};

#[test]
fn a_gang_without_asks_holds_its_places_and_runs() {
    check(
        "
        queue root.a
        node n1 vcore=4
        node n2 vcore=4
        app a1 in root.a needs a x3 vcore=1 needs b x2 vcore=2
        show apps
        show queues
        show users
        show nodes
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3), (b~1), (b~2)], asks []
            root: used vcore=7, pending nothing, headroom vcore=1, running 1, priority none
            root.a: used vcore=7, pending nothing, headroom vcore=1, running 1, priority none
            user ada: used vcore=7, running [a1]
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            a1/a: 3 placeholders of vcore=1, 0 replaced, 0 timed out
            a1/b: 2 placeholders of vcore=2, 0 replaced, 0 timed out
        "#]],
    );
}

#[test]
fn a_gang_without_enough_places_takes_none() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a needs a x3 vcore=1 needs b x2 vcore=2
        show apps
        show queues
        node n2 vcore=4
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=7, holds [], asks [(a) x3, (b) x2]
            root: used nothing, pending vcore=7, headroom vcore=4, running 0, priority 0
            root.a: used nothing, pending vcore=7, headroom vcore=4, running 0, priority 0
            n2 accepted
            a1 is Running
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3), (b~1), (b~2)], asks []
        "#]],
    );
}

/// No member is placed before all have asked, and no place is held afterwards.
#[test]
fn existing_asks_get_their_places_with_the_decision() {
    check(
        "
        queue root.a
        app a1 in root.a needs a x3 vcore=1
        ask a1 k1 x2 vcore=1 group=a
        ask a1 k2 vcore=2 group=a
        show apps
        node n1 vcore=3
        show apps
        node n2 vcore=4
        show apps
        show task-groups
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=4, holds [], asks [k1 x2, k2 x1]
            n1 accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=4, holds [], asks [k1 x2, k2 x1]
            n2 accepted
            a1 is Running
            a1/k2 placed on n1
            a1/k1#1 of k1 placed on n2
            a1/k1#2 of k1 placed on n2
            a1 in root.a is Running since 1000s: used vcore=4, pending nothing, holds [k1, k1, k2], asks []
            a1/a: 0 placeholders of vcore=1, 0 replaced, 0 timed out
        "#]],
    );
}

#[test]
fn extra_and_groupless_asks_wait_for_the_decision() {
    check(
        "
        queue root.a
        app a1 in root.a needs a x3 vcore=1
        ask a1 k1 x4 vcore=1 group=a
        ask a1 free vcore=1
        ask a1 other vcore=1 group=unknown
        node n1 vcore=2
        show apps
        node n2 vcore=9
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            n1 accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=6, holds [], asks [free x1, k1 x4, other x1]
            n2 accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n2
            a1/k1#3 of k1 placed on n2
            a1/k1#4 of k1 placed on n2
            a1/free placed on n2
            a1/other placed on n2
            a1 in root.a is Running since 1000s: used vcore=6, pending nothing, holds [free, k1, k1, k1, k1, other], asks []
        "#]],
    );
}

#[test]
fn withdrawing_an_ask_leaves_a_member_without_one() {
    check(
        "
        queue root.a
        app a1 in root.a needs a x3 vcore=1
        ask a1 k1 vcore=2 group=a ; ask a1 k2 vcore=1 group=a
        show apps
        show task-groups
        withdraw a1 k1
        show apps
        show task-groups
        ask a1 k2 vcore=1 group=b
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=4, holds [], asks [(a) x1, k1 x1, k2 x1]
            a1/a: 1 placeholders of vcore=1, 0 replaced, 0 timed out
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=3, holds [], asks [(a) x2, k2 x1]
            a1/a: 2 placeholders of vcore=1, 0 replaced, 0 timed out
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=4, holds [], asks [(a) x3, k2 x1]
        "#]],
    );
}

#[test]
fn a_group_without_a_size_waits_for_asks() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a needs a x2 vcore=1 needs d x2
        show apps
        ask a1 d1 vcore=3 group=d
        show apps
        ask a1 d2 vcore=2 group=d
        show apps
        app a2 in root.a needs d
        show apps
        ask a2 d1 vcore=1 group=d
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=2, holds [], asks [(a) x2]
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=5, holds [], asks [(a) x2, d1 x1]
            a1 is Running
            a1/d1 placed on n1
            a1/d2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=5, pending nothing, holds [(a~1), (a~2), d1, d2], asks []
            a2 accepted
            a1 in root.a is Running since 1000s: used vcore=5, pending nothing, holds [(a~1), (a~2), d1, d2], asks []
            a2 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            a2 is Accepted
            a2 is Running
            a2/d1 placed on n1
        "#]],
    );
}

#[test]
fn a_lowered_maximum_keeps_the_whole_gang_waiting() {
    check(
        "
        queue root.a max vcore=6
        app a1 in root.a needs a x3 vcore=2
        forget
        queue root.a max vcore=5
        reload
        node n1 vcore=9
        show apps
        show queues
        forget
        queue root.a max vcore=6
        reload
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            n1 accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=6, holds [], asks [(a) x3]
            root: used nothing, pending vcore=6, headroom vcore=9, running 0, priority 0
            root.a: used nothing, pending vcore=6, headroom vcore=5, running 0, priority 0
            a1 is Running
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3)], asks []
        "#]],
    );
}

/// One gang runs, and the other one holds nothing.
#[test]
fn of_two_competing_gangs_one_runs() {
    check(
        "
        queue root.a
        node n1 vcore=10
        app a1 in root.a needs a x6 vcore=1
        app a2 in root.a needs a x3 vcore=2
        show apps
        remove-app a1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a2 accepted
            a2 is Accepted
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3), (a~4), (a~5), (a~6)], asks []
            a2 in root.a is Accepted since 1000s: used nothing, pending vcore=6, holds [], asks [(a) x3]
            a2 is Running
            a2 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3)], asks []
        "#]],
    );
}

#[test]
fn a_declared_gang_has_no_placeholders_of_the_rm() {
    check(
        "
        queue root.a
        app a1 in root.a needs a x2 vcore=1
        ask a1 p1 vcore=1 placeholder=a
        request a1 p2 vcore=1 placeholder=b
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            ask a1/p1 rejected: R_GANG_PLACEHOLDER
            allocation a1/p2 rejected: R_GANG_PLACEHOLDER
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=2, holds [], asks [(a) x2]
        "#]],
    );
}

#[test]
fn a_gang_with_a_reported_member_is_decided() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a needs a x3 vcore=1
        exists a1 k1 on n1 vcore=1 ; exists a1 k2 on n1 vcore=1
        show apps
        show task-groups
        ask a1 k3 vcore=1 group=a
        show apps
        node n2 vcore=1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2], asks []
            a1/a: 0 placeholders of vcore=1, 0 replaced, 0 timed out
            a1 in root.a is Running since 1000s: used vcore=2, pending vcore=1, holds [k1, k2], asks [k3 x1]
            n2 accepted
            a1/k3 placed on n2
            a1 in root.a is Running since 1000s: used vcore=3, pending nothing, holds [k1, k2, k3], asks []
        "#]],
    );
}

#[test]
fn a_gang_with_a_member_refused_everywhere_holds_nothing() {
    check_plain(
        "
        queue root.a
        app a1 in root.a needs a x2 vcore=1
        ask a1 k1 vcore=1 group=a
        refuse k1 *
        node n1 vcore=4
        node n2 vcore=4
        show apps
        show nodes
        wait 3s
        show apps
        allow k1 *
        refuse k1 n1
        wait 5s
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            n1 accepted
            n2 accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=2, holds [], asks [(a) x1, k1 x1]
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
            n2: total vcore=4, used nothing, occupied nothing, left vcore=4
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=2, holds [], asks [(a) x1, k1 x1]
            a1 is Running
            a1/k1 placed on n2
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~1), k1], asks []
        "#]],
    );
}

#[test]
fn a_member_with_a_required_node_goes_there() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a needs a x2 vcore=3
        ask a1 k1 vcore=3 node=n2 group=a
        node n2 vcore=2
        show apps
        resize n2 vcore=3
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            n2 accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=6, holds [], asks [(a) x1, k1 x1]
            a1 is Running
            a1/k1 placed on n2
            a1 in root.a is Running since 1000s: used vcore=3, pending nothing, holds [(a~1), k1], asks []
        "#]],
    );
}
