//! Declared gangs that lose held places with a node, or are removed or released as a whole.

use expect_test::expect;

use crate::world::check;

#[test]
fn a_completing_application_releases_its_held_places() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a needs a x3 vcore=1
        ask a1 k1 vcore=1 group=a
        release a1 key=k1
        show apps
        wait 29s
        show queues
        wait 2s
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
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [(a~2), (a~3)], asks []
            root: used vcore=2, pending nothing, headroom vcore=2, running 0, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=2, running 0, priority none
            a1 is Completed
            root: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=4, running 0, priority none
        "#]],
    );
}

#[test]
fn held_places_end_with_their_node() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a needs a x4 vcore=1
        ask a1 k1 vcore=1 group=a
        show apps
        remove n2
        show apps
        show task-groups
        show queues
        ask a1 k2 x3 vcore=1 group=a
        show apps
        node n3 vcore=9
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~2), (a~3), (a~4), k1], asks []
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~3), k1], asks []
            a1/a: 4 placeholders of vcore=1, 1 replaced, 2 timed out
            root: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            a1/k2#1 of k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending vcore=2, holds [k1, k2], asks [k2 x2]
            n3 accepted
            a1/k2#2 of k2 placed on n3
            a1/k2#3 of k2 placed on n3
            a1 in root.a is Running since 1000s: used vcore=4, pending nothing, holds [k1, k2, k2, k2], asks []
        "#]],
    );
}

/// The gang loses its other places, too. Otherwise two such gangs could block each other.
#[test]
fn a_gang_losing_places_before_its_first_member_is_undecided() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a needs a x4 vcore=1
        app a2 in root.a needs a x2 vcore=1
        remove n2
        show apps
        show task-groups
        show queues
        remove-app a2
        node n3 vcore=2
        show apps
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a2 accepted
            a2 is Accepted
            a2 is Running
            a1 in root.a is Running since 1000s: used nothing, pending vcore=4, holds [], asks [(a) x4]
            a2 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2)], asks []
            a1/a: 8 placeholders of vcore=1, 0 replaced, 4 timed out
            a2/a: 2 placeholders of vcore=1, 0 replaced, 0 timed out
            root: used vcore=2, pending vcore=4, headroom vcore=0, running 2, priority 0
            root.a: used vcore=2, pending vcore=4, headroom vcore=0, running 2, priority 0
            n3 accepted
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~5), (a~6), (a~7), (a~8)], asks []
            a1/a: 8 placeholders of vcore=1, 0 replaced, 4 timed out
        "#]],
    );
}

#[test]
fn a_shrinking_node_loses_its_newest_held_places() {
    check(
        "
        queue root.a
        node n1 vcore=6
        app a1 in root.a needs a x4 vcore=1
        ask a1 k1 vcore=1 group=a
        show apps
        resize n1 vcore=2
        show apps
        show task-groups
        show nodes
        resize n1 vcore=0
        show apps
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~2), (a~3), (a~4), k1], asks []
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~2), k1], asks []
            a1/a: 4 placeholders of vcore=1, 1 replaced, 2 timed out
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            n1: total nothing, used vcore=1, occupied nothing, left vcore=-1
        "#]],
    );
}

/// The RM of a removed gang is notified of the gang's allocations only.
#[test]
fn a_removed_gang_leaves_nothing() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a needs a x3 vcore=1
        ask a1 k1 vcore=1 group=a
        remove-app a1
        show queues
        show nodes
        app a2 in root.a needs a x9 vcore=1
        remove-app a2
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            root: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
            a2 accepted
            a2 is Accepted
            root: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=4, running 0, priority none
        "#]],
    );
}

#[test]
fn a_release_of_everything_silently_ends_held_places() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a needs a x3 vcore=1
        ask a1 k1 vcore=1 group=a
        release a1 uuid=a~1
        release a1 key=a~1
        show apps
        release a1 *
        show apps
        wait 31s
        show queues
        app a2 in root.a needs a x9 vcore=1
        ask a2 k1 vcore=1 group=a
        withdraw a2 *
        release a2 *
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~2), (a~3), k1], asks []
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            a1 is Completed
            root: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            a2 accepted
            a2 is Accepted
            a2 in root.a is Accepted since 1031s: used nothing, pending vcore=9, holds [], asks [(a) x9]
        "#]],
    );
}
