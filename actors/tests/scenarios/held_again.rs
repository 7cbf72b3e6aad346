//! Declared gangs that ran in part before the scheduler began: what it held before is held again, as much of it as
//! fits and for as long as it would have been (`docs/gangs.md#held-places`).

use expect_test::{Expect, expect};

use crate::world::{How, check_also};

/// However predicates are asked, it comes to the same.
#[track_caller]
fn check(text: &str, expect: &Expect) {
    check_also(text, expect, &[How::OneAtATime, How::Later(1), How::Later(8)]);
}

#[test]
fn places_of_members_that_do_not_run_yet_are_held_before_others_are_asked_for() {
    check(
        "
        queue root.a
        node n1 vcore=4 drained
        app a1 in root.a timeout 60000 needs w x4 vcore=1
        exists a1 k1 on n1 vcore=1 group=w ; exists a1 k2 on n1 vcore=1 group=w
        show apps
        undrain n1
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2
        show apps
        app a2 in root.a
        ask a2 other vcore=1
        ask a1 k3 vcore=1 group=w
        ask a1 k4 vcore=1 group=w
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
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2, (w~1), (w~2)], asks []
            a2 accepted
            a2 is Accepted
            a1/k3 placed on n1
            a1/k4 placed on n1
            a1 in root.a is Running since 1000s: used vcore=4, pending nothing, holds [k1, k2, k3, k4], asks []
            a2 in root.a is Accepted since 1000s: used nothing, pending vcore=1, holds [], asks [other x1]
        "#]],
    );
}

/// The room of the second place is taken by somebody else who runs, too.
#[test]
fn as_many_are_held_as_there_are_places() {
    check(
        "
        queue root.a
        node n1 vcore=4 drained
        app a1 in root.a needs w x3 vcore=1 needs d vcore=2
        app a2 in root.a
        exists a1 k1 on n1 vcore=1 group=w ; exists a2 k1 on n1 vcore=1
        undrain n1
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2 tag monoceros.io/hold-again.d=1
        show apps
        ask a1 k2 vcore=1 group=w
        ask a1 k3 vcore=1 group=w
        ask a1 d vcore=2 group=d
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a2 accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~1), (w~2)], asks []
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a1/k2 placed on n1
            a1/k3 placed on n1
            a1 in root.a is Running since 1000s: used vcore=3, pending vcore=2, holds [k1, k2, k3], asks [d x1]
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
        "#]],
    );
}

#[test]
fn a_quota_that_was_lowered_meanwhile_is_kept() {
    check(
        "
        queue root.a max vcore=9
        node n1 vcore=20 drained
        app a1 in root.a needs w x6 vcore=1
        app a2 in root.a
        exists a1 k1 on n1 vcore=1 group=w ; exists a2 k1 on n1 vcore=6
        undrain n1
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=5
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a2 accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~1), (w~2)], asks []
            a2 in root.a is Running since 1000s: used vcore=6, pending nothing, holds [k1], asks []
        "#]],
    );
}

#[test]
fn where_a_node_refuses_a_place_it_is_not_held() {
    check(
        "
        queue root.a
        node n1 vcore=2 drained ; node n2 vcore=1 drained
        refuse hold:a1/w n2
        app a1 in root.a needs w x3 vcore=1
        exists a1 k1 on n1 vcore=1 group=w
        undrain n1 ; undrain n2
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2
        show apps
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~1)], asks []
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

#[test]
fn nothing_is_held_where_nothing_fits_and_what_is_asked_for_waits_by_itself() {
    check(
        "
        queue root.a
        node n1 vcore=2 drained
        app a1 in root.a needs w x3 vcore=1
        app a2 in root.a
        exists a1 k1 on n1 vcore=1 group=w ; exists a2 k1 on n1 vcore=1
        undrain n1
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2
        show apps
        ask a1 k2 vcore=1 group=w
        release a2 key=k1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a2 accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a2/k1 released: STOPPED_BY_RM
            a2 is Completing
            a1/k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2], asks []
            a2 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

/// The time counts from the youngest member, also through a restart.
#[test]
fn they_are_held_no_longer_than_without_a_restart() {
    check(
        "
        queue root.a
        node n1 vcore=4 drained
        app a1 in root.a timeout 10000 needs w x3 vcore=1
        exists a1 k1 on n1 vcore=1 group=w
        undrain n1
        app a1 in root.a tag monoceros.io/hold-again-since=995 tag monoceros.io/hold-again.w=2
        wait 4s
        show apps
        wait 1s
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~1), (w~2)], asks []
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
        "#]],
    );
    check(
        "
        queue root.a
        node n1 vcore=4 drained
        app a1 in root.a timeout 10000 needs w x3 vcore=1
        exists a1 k1 on n1 vcore=1 group=w
        undrain n1
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
        "#]],
    );
}

/// Who has no gang, or one that waits as a whole, has nothing to be held; and is told so all the same.
#[test]
fn only_a_gang_that_runs_has_places_held_again() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        app a2 in root.a needs w x3 vcore=1
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2
        app a2 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2
        app a3 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a2 is Accepted
            a1: places are held again
            a2: places are held again
            a3 rejected: R_APP_UNKNOWN
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            a2 in root.a is Accepted since 1000s: used nothing, pending vcore=3, holds [], asks [(w) x3]
        "#]],
    );
}

/// Said twice, it is what was said last that is held; what runs meanwhile counts.
#[test]
fn what_is_said_again_is_what_is_held() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a needs w x4 vcore=1
        exists a1 k1 on n1 vcore=1 group=w
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=3
        show apps
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=1
        show apps
        exists a1 k2 on n1 vcore=1 group=w
        show apps
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=3
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~5), (w~6), (w~7)], asks []
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~8)], asks []
            a1/k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2], asks []
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2, (w~10), (w~9)], asks []
        "#]],
    );
}

#[test]
fn they_are_where_the_members_are_that_run() {
    check(
        "
        queue root.a
        node n1 vcore=2 attr rack=r1 drained ; node n2 vcore=9 attr rack=r2 drained
        app a1 in root.a needs w x3 vcore=1 within=rack
        exists a1 k1 on n1 vcore=1 group=w
        undrain n1 ; undrain n2
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2
        show apps
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~1)], asks []
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

/// What cannot be read says nothing, and a group cannot have more held than it needs.
#[test]
fn what_the_tags_say_is_bounded() {
    check(
        "
        queue root.a
        node n1 vcore=9 drained
        app a1 in root.a needs w x3 vcore=1
        app a2 in root.a needs w x3 vcore=1
        app a3 in root.a needs w x3 vcore=1
        exists a1 k1 on n1 vcore=1 group=w ; exists a2 k2 on n1 vcore=1 group=w ; exists a3 k3 on n1 vcore=1 group=w
        undrain n1
        app a1 in root.a tag monoceros.io/hold-again-since=soon tag monoceros.io/hold-again.w=2
        app a2 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=900000000
        app a3 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=-1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a2 accepted
            a2 is Accepted
            a3 accepted
            a3 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Running
            a2/k2 placed on n1
            a3 is Running
            a3/k3 placed on n1
            a1: places are held again
            a2: places are held again
            a3: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~1), (w~2)], asks []
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k2, (w~1), (w~2)], asks []
            a3 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k3], asks []
        "#]],
    );
}
