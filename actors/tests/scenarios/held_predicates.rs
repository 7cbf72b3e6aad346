//! Predicates for places to be held for members of a declared gang, by application and task group
//! (`docs/gangs.md#until-it-is-decided`).

use expect_test::{Expect, expect};

use crate::world::{How, check_also};

/// The result does not depend on how predicates are evaluated.
#[track_caller]
fn check(text: &str, expect: &Expect) {
    check_also(text, expect, &[How::OneAtATime, How::Later(1), How::Later(8)]);
}

#[test]
fn a_place_is_held_where_its_predicate_passes() {
    check(
        "
        queue root.a
        node n1 vcore=9 ; node n2 vcore=9
        refuse hold:a1/x n1
        app a1 in root.a needs x x2 vcore=1 needs y x1 vcore=3
        show nodes
        ask a1 k1 vcore=1 group=x
        ask a1 k2 vcore=1 group=x
        ask a1 k3 vcore=3 group=y
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            n1: total vcore=9, used vcore=3, occupied nothing, left vcore=6
            n2: total vcore=9, used vcore=2, occupied nothing, left vcore=7
            a1/k1 placed on n2
            a1/k2 placed on n2
            a1/k3 placed on n1
        "#]],
    );
}

#[test]
fn a_place_refused_everywhere_keeps_the_gang_waiting() {
    check(
        "
        queue root.a
        node n1 vcore=1 ; node n2 vcore=1
        refuse hold:a1/x *
        app a1 in root.a needs x x2 vcore=1
        ask a1 k1 vcore=1 group=x
        show nodes
        allow hold:a1/x *
        wait 60s
        show nodes
        ask a1 k2 vcore=1 group=x
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
            n2: total vcore=1, used nothing, occupied nothing, left vcore=1
            a1 is Running
            a1/k1 placed on n1
            n1: total vcore=1, used vcore=1, occupied nothing, left nothing
            n2: total vcore=1, used vcore=1, occupied nothing, left nothing
            a1/k2 placed on n2
        "#]],
    );
}

#[test]
fn equal_groups_are_asked_about_by_gang() {
    check(
        "
        queue root.a
        node n1 vcore=1
        refuse hold:a1/x *
        app a1 in root.a needs x x1 vcore=1
        app a2 in root.a needs x x1 vcore=1
        show nodes
        ask a2 k1 vcore=1 group=x
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a2 accepted
            a2 is Accepted
            a2 is Running
            n1: total vcore=1, used vcore=1, occupied nothing, left nothing
            a2/k1 placed on n1
        "#]],
    );
}
