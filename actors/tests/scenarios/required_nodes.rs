//! Asks that require a node, and reserve it at once if it is full
//! (`docs/scheduling.md#reservations`).

use expect_test::expect;

use crate::reservations::half_full;
use crate::world::check;

#[test]
fn a_full_required_node_is_reserved_at_once() {
    check(
        &half_full(
            "
            ask a2 bound vcore=2 node=n1
            ask a1 small x2 vcore=1
            show nodes
            release a1 uuid=e1
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
            a1/small#1 of small placed on n3
            a1/small#2 of small placed on n2
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1, reserved for [bound]
            n2: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n3: total vcore=2, used vcore=1, occupied nothing, left vcore=1
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            a1/e1 released: STOPPED_BY_RM
            a2 is Running
            a2/bound placed on n1
        "#]],
    );
}

#[test]
fn a_required_node_is_taken_from_a_flexible_reservation() {
    check(
        &half_full(
            "
            ask a2 large vcore=4 created=1
            show nodes
            ask a1 bound vcore=3 node=n2
            show nodes
            ask a1 fits vcore=1 node=n1
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
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1, reserved for [large]
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [bound]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            a1/fits placed on n1
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing, reserved for [large]
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [bound]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn asks_that_require_a_full_node_share_it() {
    check(
        &half_full(
            "
            ask a1 bound vcore=2 node=n1
            ask a2 bound vcore=2 node=n1
            ask a2 fits vcore=1 node=n1
            show nodes
            release a1 uuid=e1
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
            a2/fits placed on n1
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing, reserved for [bound, bound]
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            a1/e1 released: STOPPED_BY_RM
            a1/bound placed on n1
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1, reserved for [bound]
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn an_ask_waits_for_a_missing_required_node() {
    check(
        &half_full(
            "
            ask a2 bound vcore=2 node=n9
            ask a2 huge vcore=9 node=n1
            wait 60s
            show nodes
            node n9 vcore=2
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
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            n9 accepted
            a2 is Running
            a2/bound placed on n9
        "#]],
    );
}

#[test]
fn an_ask_is_placed_on_its_drained_required_node() {
    check(
        &half_full(
            "
            drain n1
            ask a2 bound vcore=1 node=n1
            ask a2 waits vcore=3 node=n1
            show nodes
            release a1 uuid=e1
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
            a2/bound placed on n1
            n1 closed: total vcore=4, used vcore=4, occupied nothing, left nothing, reserved for [waits]
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            a1/e1 released: STOPPED_BY_RM
            a2/waits placed on n1
        "#]],
    );
}
