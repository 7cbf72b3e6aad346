//! Reservations that predicates refuse, and reserved nodes that refuse their ask
//! (`docs/scheduling.md#reservations`).

use expect_test::expect;

use crate::reservations::half_full;
use crate::world::{check, check_plain};

#[test]
fn a_refused_reservation_is_retried_after_a_second() {
    check_plain(
        &half_full(
            "
            refuse reserve:large n2
            ask a2 large vcore=4 created=1
            show nodes
            allow reserve:large n2
            wait 999ms
            show nodes
            wait 2ms
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
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
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
        "#]],
    );
}

#[test]
fn an_ask_refused_every_reservation_is_still_placed() {
    check(
        &half_full(
            "
            refuse reserve:large n2
            ask a2 large vcore=4 created=1
            node n4 vcore=4
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
            n4 accepted
            a2 is Running
            a2/large placed on n4
        "#]],
    );
}

#[test]
fn a_node_refusing_for_now_may_be_reserved() {
    check(
        "
        node n1 vcore=4
        app a1 in root.default
        app a2 in root.default
        refuse allocate:k1 n1
        ask a1 k1 vcore=1 created=1
        ask a2 k2 vcore=1
        show nodes
        allow allocate:k1 n1
        wait 999ms
        wait 2ms
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a2 is Accepted
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4, reserved for [k1]
            a1 is Running
            a1/k1 placed on n1
            a2 is Running
            a2/k2 placed on n1
        "#]],
    );
}

#[test]
fn asks_refused_by_their_nodes_come_last() {
    check(
        &half_full(
            "
            ask a2 first vcore=4 created=1
            ask a2 second vcore=4 created=2
            refuse allocate:first n2
            foreign f1 on n1 vcore=1
            release a1 uuid=e2 ; release a1 uuid=e1
            show nodes
            foreign-gone f1
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
            a1/e1 released: STOPPED_BY_RM
            a1 is Completing
            n1: total vcore=4, used nothing, occupied vcore=1, left vcore=3, reserved for [second]
            n2: total vcore=4, used nothing, occupied nothing, left vcore=4, reserved for [first]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            a2 is Running
            a2/second placed on n1
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2: total vcore=4, used nothing, occupied nothing, left vcore=4, reserved for [first]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}
