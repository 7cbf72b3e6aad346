//! Declarations of gangs: totals that are too large, and nodes named in tags.

use expect_test::expect;

use crate::world::check;

#[test]
fn a_gang_with_an_overflowing_total_is_rejected() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app gang in root.a needs w x1024 vcore=9007199254740992
        app gang in root.a needs w x1023 vcore=9007199254740991 needs d x2 vcore=9007199254740991
        app a1 in root.a
        ask a1 k1 vcore=4
        show queues
        ",
        &expect![[r#"
            n1 accepted
            gang rejected: R_OVERFLOW
            gang rejected: R_OVERFLOW
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            root: used vcore=4, pending nothing, headroom vcore=0, running 1, priority none
            root.a: used vcore=4, pending nothing, headroom vcore=0, running 1, priority none
        "#]],
    );
}

#[test]
fn a_node_tag_of_a_group_places_its_members() {
    check(
        "
        queue root.a
        node n1 vcore=9 ; node n2 vcore=2
        app a1 in root.a needs w x2 vcore=1 node=n2 needs d x1 vcore=3
        show apps
        show nodes
        app a2 in root.a needs w x1 vcore=1 node=n3
        show apps
        node n3 vcore=1
        show nodes
        ask a1 k1 vcore=1 group=w ; ask a1 k2 vcore=1 group=w
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(d~1), (w~1), (w~2)], asks []
            n1: total vcore=9, used vcore=3, occupied nothing, left vcore=6
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            a2 accepted
            a2 is Accepted
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(d~1), (w~1), (w~2)], asks []
            a2 in root.a is Accepted since 1000s: used nothing, pending vcore=1, holds [], asks [(w) x1]
            n3 accepted
            a2 is Running
            n1: total vcore=9, used vcore=3, occupied nothing, left vcore=6
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=1, used vcore=1, occupied nothing, left nothing
            a1/k1 placed on n2
            a1/k2 placed on n2
            n1: total vcore=9, used vcore=3, occupied nothing, left vcore=6
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=1, used vcore=1, occupied nothing, left nothing
        "#]],
    );
}
