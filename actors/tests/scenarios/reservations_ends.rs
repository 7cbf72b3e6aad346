//! Ends of reservations: by changes of the node or the ask, or after a time in which they cannot be
//! used (`docs/scheduling.md#reservations`).

use expect_test::expect;

use crate::reservations::half_full;
use crate::world::check;

#[test]
fn a_draining_node_loses_its_reservation() {
    check(
        &half_full(
            "
            ask a2 large vcore=4 created=1
            drain n2
            release a1 uuid=e2
            show nodes
            undrain n2
            show nodes
            ",
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n8 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/e1 placed on n1
            a1/e2 placed on n2
            a2 is Accepted
            a1/e2 released: STOPPED_BY_RM
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1, reserved for [large]
            n2 closed: total vcore=4, used nothing, occupied nothing, left vcore=4
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            a2 is Running
            a2/large placed on n2
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=4, occupied nothing, left nothing
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn a_reservation_blocked_by_quota_ends_after_an_hour() {
    check(
        "
        queue root.a max vcore=4
        queue root.b
        node n1 vcore=4
        node n9 vcore=9 drained
        app a1 in root.a
        app b1 in root.b
        exists b1 e1 on n1 vcore=2
        ask a1 large vcore=4 created=1
        show nodes
        node n2 vcore=1
        request a1 other vcore=1 prio=9
        release b1 uuid=e1
        wait 3600s
        show nodes
        wait 1ms
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n9 accepted
            a1 accepted
            b1 accepted
            b1 is Accepted
            b1 is Running
            b1/e1 placed on n1
            a1 is Accepted
            n1: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [large]
            n9 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            n2 accepted
            a1 is Running
            a1/other placed on n2
            b1/e1 released: STOPPED_BY_RM
            b1 is Completing
            b1 is Completed
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4, reserved for [large]
            n2: total vcore=1, used vcore=1, occupied nothing, left nothing
            n9 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
            n2: total vcore=1, used vcore=1, occupied nothing, left nothing
            n9 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn a_reservation_blocked_by_a_user_limit_ends_after_an_hour() {
    check(
        "
        queue root.a limit users=ada vcore=4
        queue root.b
        node n1 vcore=4
        node n9 vcore=9 drained
        app a1 in root.a user ada
        app b1 in root.b
        exists b1 e1 on n1 vcore=2
        ask a1 large vcore=4 created=1
        node n2 vcore=1
        request a1 other vcore=1 prio=9
        release b1 uuid=e1
        wait 3601s
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n9 accepted
            a1 accepted
            b1 accepted
            b1 is Accepted
            b1 is Running
            b1/e1 placed on n1
            a1 is Accepted
            n2 accepted
            a1 is Running
            a1/other placed on n2
            b1/e1 released: STOPPED_BY_RM
            b1 is Completing
            b1 is Completed
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
            n2: total vcore=1, used vcore=1, occupied nothing, left nothing
            n9 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn an_ask_that_is_withdrawn_leaves_no_reservation() {
    check(
        &half_full(
            "
            ask a2 large vcore=4 created=1
            show nodes
            withdraw a2 large
            show nodes
            show apps
            ",
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n8 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/e1 placed on n1
            a1/e2 placed on n2
            a2 is Accepted
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [large]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            a2 is Completing
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            a1 in root.default is Running since 1000s: used vcore=5, pending nothing, holds [e1, e2], asks []
            a2 in root.default is Completing since 1s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn an_application_that_is_removed_leaves_no_reservation() {
    check(
        &half_full(
            "
            ask a2 large vcore=4 created=1
            ask a2 bound vcore=4 node=n1
            ask a2 other vcore=1
            exists a2 e3 on n3 vcore=1
            show nodes
            remove-app a2
            show nodes
            ",
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n8 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/e1 placed on n1
            a1/e2 placed on n2
            a2 is Accepted
            a2 is Running
            a2/other placed on n3
            a2/e3 placed on n3
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1, reserved for [bound]
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [large]
            n3: total vcore=2, used vcore=2, occupied nothing, left nothing
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            a2/e3 released: STOPPED_BY_RM
            a2/other released: STOPPED_BY_RM
            ask a2/large released: STOPPED_BY_RM
            ask a2/bound released: STOPPED_BY_RM
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

/// The asks of the ended reservations reserve other nodes.
#[test]
fn a_removed_node_ends_its_reservations() {
    check(
        &half_full(
            "
            ask a2 large vcore=4 created=1
            show nodes
            remove n2
            show nodes
            ",
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n8 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/e1 placed on n1
            a1/e2 placed on n2
            a2 is Accepted
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [large]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            a1/e2 released: STOPPED_BY_RM
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1, reserved for [large]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn a_node_that_became_too_small_is_not_reserved() {
    check(
        &half_full(
            "
            ask a2 large vcore=4 created=1
            resize n2 vcore=3
            show nodes
            ",
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n8 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/e1 placed on n1
            a1/e2 placed on n2
            a2 is Accepted
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1, reserved for [large]
            n2: total vcore=3, used vcore=2, occupied nothing, left vcore=1
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn a_changed_ask_keeps_its_node_while_it_fits() {
    check(
        &half_full(
            "
            ask a2 large vcore=3 created=1
            show nodes
            ask a2 large vcore=4
            show nodes
            ask a2 large vcore=5
            show nodes
            ask a2 large vcore=4
            show nodes
            ask a2 large vcore=4 node=n1
            show nodes
            ",
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n8 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/e1 placed on n1
            a1/e2 placed on n2
            a2 is Accepted
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [large]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [large]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [large]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1, reserved for [large]
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn a_placement_by_the_rm_ends_the_reservation() {
    check(
        &half_full(
            "
            request a2 large vcore=4 created=1
            show nodes
            exists a2 large on n3 vcore=4
            show nodes
            ",
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n8 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/e1 placed on n1
            a1/e2 placed on n2
            a2 is Accepted
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [large]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            a2 is Running
            a2/large placed on n3
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n3: total vcore=2, used vcore=4, occupied nothing, left vcore=-2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

/// From the arrival of the placeholder on, the member waits for a placeholder on any node, instead
/// of its reserved node.
#[test]
fn a_member_gives_up_its_node_for_placeholders() {
    check(
        "
        queue root.a
        node n1 vcore=4 ; node n2 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=3
        app a2 in root.a
        ask a2 k2 vcore=2 group=g
        wait 3s
        show nodes
        request a2 p1 vcore=2 placeholder=g
        show nodes
        release a1 key=k1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 accepted
            a2 is Accepted
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1, reserved for [k2]
            n2: total vcore=1, used nothing, occupied nothing, left vcore=1
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=1, used nothing, occupied nothing, left vcore=1
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            a2/p1 placed on n1
            a2/p1 released: PLACEHOLDER_REPLACED
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            a2 in root.a is Accepted since 1000s: used nothing, pending nothing, holds [p1 for g], asks []
        "#]],
    );
}
