//! Asks that find no node reserve one, and asks that require a node reserve that one at once
//! (`docs/scheduling.md#reservations`).

use std::sync::Arc;

use expect_test::expect;
use monoceros_actors::Scheduler;

use crate::ear::Ear;
use crate::world::{check, check_plain, in_virtual_time, register, say};

/// n1 and n2 are half full, n3 is too small for the large ask, and n8 is closed: quotas leave enough.
/// What runs has a higher priority than the asks that require a node, so that none of it leaves for them.
const HALF_FULL: &str = "
    node n1 vcore=4
    node n2 vcore=4
    node n3 vcore=2
    node n8 vcore=9 drained
    app a1 in root.default
    app a2 in root.default
    exists a1 e1 on n1 vcore=3 prio=1
    exists a1 e2 on n2 vcore=2 prio=1
";

fn half_full(steps: &str) -> String {
    format!("{HALF_FULL}{steps}")
}

#[test]
fn an_ask_older_than_two_seconds_reserves_the_node_that_lacks_least() {
    check(
        &half_full(
            "
            ask a2 large vcore=4
            wait 2000ms
            show nodes
            wait 1ms
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
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [large]
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            a1 in root.default is Running since 1000s: used vcore=5, pending nothing, holds [e1, e2], asks []
            a2 in root.default is Accepted since 1000s: used nothing, pending vcore=4, holds [], asks [large x1]
        "#]],
    );
}

#[test]
fn an_ask_that_was_created_long_ago_reserves_at_once() {
    check(
        &half_full(
            "
            ask a2 large vcore=4 created=990
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
        "#]],
    );
}

#[test]
fn without_reservations_none_is_made_for_its_age_and_required_nodes_are_reserved_all_the_same() {
    check(
        &format!(
            "reservations never 60s{HALF_FULL}
            ask a2 large vcore=4 created=1
            ask a2 bound vcore=4 node=n1
            wait 60s
            show nodes
            "
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
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1, reserved for [bound]
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn a_node_whose_total_lacks_a_type_is_never_reserved() {
    check(
        &half_full(
            "
            ask a2 large vcore=1 gpu=1 created=1
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
        "#]],
    );
}

#[test]
fn nobody_else_is_placed_on_a_reserved_node_until_the_ask_runs() {
    check(
        &half_full(
            "
            ask a2 large vcore=4 created=1
            ask a1 small x3 vcore=1
            show nodes
            release a1 uuid=e2
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
            a1/small#1 of small placed on n3
            a1/small#2 of small placed on n3
            a1/small#3 of small placed on n1
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [large]
            n3: total vcore=2, used vcore=2, occupied nothing, left nothing
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
            a1/e2 released: STOPPED_BY_RM
            a2 is Running
            a2/large placed on n2
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2: total vcore=4, used vcore=4, occupied nothing, left nothing
            n3: total vcore=2, used vcore=2, occupied nothing, left nothing
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn an_ask_with_a_reserved_node_goes_to_another_that_has_room_first() {
    check(
        &half_full(
            "
            ask a2 large vcore=4 created=1
            show nodes
            node n4 vcore=5
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
            n4 accepted
            a2 is Running
            a2/large placed on n4
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n4: total vcore=5, used vcore=4, occupied nothing, left vcore=1
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn a_node_that_drains_is_reserved_no_longer_and_another_may_be() {
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
fn a_reservation_that_cannot_be_used_for_want_of_quota_is_given_up_after_an_hour() {
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
fn a_reservation_of_a_user_who_may_use_no_more_is_given_up_after_an_hour() {
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

#[test]
fn a_node_that_is_removed_takes_its_reservations_along_and_their_asks_reserve_others() {
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
fn a_node_that_has_become_too_small_is_not_reserved_any_more() {
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
fn an_ask_that_changes_keeps_its_node_while_it_fits_there() {
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
fn what_the_rm_places_itself_ends_the_reservation_of_its_ask() {
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

#[test]
fn an_ask_for_several_allocations_reserves_one_node_at_a_time() {
    check(
        &half_full(
            "
            ask a2 large x2 vcore=4 created=1
            show nodes
            release a1 uuid=e2
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
            a2 is Running
            a2/large#1 of large placed on n2
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1, reserved for [large]
            n2: total vcore=4, used vcore=4, occupied nothing, left nothing
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n8 closed: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

#[test]
fn an_ask_that_requires_a_full_node_reserves_it_at_once() {
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
fn an_ask_that_requires_a_node_takes_it_from_one_that_may_go_elsewhere() {
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
fn an_ask_that_requires_a_node_which_is_not_there_waits_for_it() {
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
fn an_ask_that_requires_a_drained_node_is_placed_there() {
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

#[test]
fn an_accepted_application_with_a_reserved_node_has_its_place_among_those_that_run() {
    check(
        "
        queue root.a maxapps=1
        queue root.b
        node n1 vcore=4
        node n2 vcore=1
        node n9 vcore=9 drained
        app a0 in root.b
        app a1 in root.a
        app a2 in root.a
        exists a0 e1 on n1 vcore=3
        ask a1 large vcore=4 created=1
        ask a2 small vcore=1 created=2
        show apps
        withdraw a1 large
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n9 accepted
            a0 accepted
            a1 accepted
            a2 accepted
            a0 is Accepted
            a0 is Running
            a0/e1 placed on n1
            a1 is Accepted
            a2 is Accepted
            a1 in root.a is Accepted since 1s: used nothing, pending vcore=4, holds [], asks [large x1]
            a2 in root.a is Accepted since 2s: used nothing, pending vcore=1, holds [], asks [small x1]
            a0 in root.b is Running since 1000s: used vcore=3, pending nothing, holds [e1], asks []
            a1 is Completing
            a2 is Running
            a2/small placed on n2
            a1 in root.a is Completing since 1s: used nothing, pending nothing, holds [], asks []
            a2 in root.a is Running since 2s: used vcore=1, pending nothing, holds [small], asks []
            a0 in root.b is Running since 1000s: used vcore=3, pending nothing, holds [e1], asks []
        "#]],
    );
}

#[test]
fn a_node_that_predicates_keep_from_being_reserved_is_asked_again_after_a_second() {
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
fn an_ask_that_the_rm_lets_reserve_no_node_is_placed_all_the_same() {
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
fn a_node_that_refuses_an_ask_for_now_may_be_reserved_for_it() {
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
fn of_asks_whose_reserved_nodes_refuse_them_the_others_come_first() {
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

#[test]
fn with_back_off_an_ask_that_has_a_node_reserved_counts_as_one_that_found_none() {
    check(
        "
        queue root.a prop application.unschedasks.backoff=2
        queue root.b
        node n1 vcore=4
        node n2 vcore=4
        node n3 vcore=1
        app a1 in root.a
        app b1 in root.b
        exists b1 e1 on n1 vcore=1
        exists b1 e2 on n2 vcore=1
        ask a1 k1 vcore=4 created=1 ; ask a1 k2 vcore=4 created=2 ; ask a1 k3 vcore=1
        show nodes
        release b1 uuid=e1
        wait 31s
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            b1 accepted
            b1 is Accepted
            b1 is Running
            b1/e1 placed on n1
            b1/e2 placed on n2
            a1 is Accepted
            n1: total vcore=4, used vcore=1, occupied nothing, left vcore=3, reserved for [k1]
            n2: total vcore=4, used vcore=1, occupied nothing, left vcore=3, reserved for [k2]
            n3: total vcore=1, used nothing, occupied nothing, left vcore=1
            b1/e1 released: STOPPED_BY_RM
            a1 is Running
            a1/k1 placed on n1
            a1/k3 placed on n3
        "#]],
    );
}

#[test]
fn a_reservation_is_shown_of_its_node_and_its_application_and_of_every_queue_above() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().epoch_ns(9_000_000_000).start_local().unwrap();
        let config = r#"{partitions: [{queues: [{name: root, submitacl: "*", queues: [
            {name: a, queues: [{name: x}]}, {name: b}]}]}]}"#;
        register(&scheduler, "rm", config, Arc::new(Ear::default())).await;
        say(
            &scheduler,
            "rm",
            "
            node n1 vcore=4 ; node n2 vcore=8 drained
            app a1 in root.a.x ; app a2 in root.b ; app a3 in root.b
            exists a3 e1 on n1 vcore=3
            ask a1 k2 vcore=4 node=n1
            ask a1 k1 vcore=2 node=n1
            ask a2 k3 vcore=4 created=1
            ",
        )
        .await;
        let node = scheduler.nodes("[rm]default").await.unwrap().remove(0);
        assert_eq!((node.is_reserved, node.reservations), (true, vec!["k1".into(), "k2".into()]));
        let node = scheduler.nodes("[rm]default").await.unwrap().remove(1);
        assert_eq!((node.is_reserved, node.reservations), (false, vec![]));
        let apps = scheduler.applications("[rm]default", "root.a.x").await.unwrap();
        assert_eq!((apps[0].has_reserved, &*apps[0].reservations.join(" ")), (true, "k1 k2"));
        let root = scheduler.queues("[rm]default").await.unwrap();
        let allocating = |path: &str| {
            let queue =
                if path == "root" { Some(root.clone()) } else { root.clone().descendant(path) };
            queue.unwrap().allocating_accepted_apps
        };
        for (path, listed) in [
            ("root", vec!["a1"]),
            ("root.a", vec!["a1"]),
            ("root.a.x", vec!["a1"]),
            ("root.b", vec![]),
        ] {
            assert_eq!(allocating(path), listed, "{path}");
        }
    });
}

/// What it waits for is one of them, wherever that is.
#[test]
fn a_member_gives_its_node_up_when_placeholders_of_its_group_come() {
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

/// What it is to be beside comes to a node that is full then.
#[test]
fn a_node_that_a_constraint_admits_meanwhile_is_reserved_however_full_it_is() {
    let beside = r#"where={"simpleConstraint":{"allocationAffinityAttribute":{"scope":"hostname","targetExpressions":[{"targetKey":"app","targetOperator":"IN","targetValues":["web"]}],"minCardinality":2,"maxCardinality":0,"required":true}}}"#;
    let in_zone = r#"where={"simpleConstraint":{"nodeAffinityConstraint":{"targetExpressions":[{"targetKey":"zone","targetOperator":"IN","targetValues":["x"]}]}}}"#;
    check(
        &format!(
            "
            queue root.q
            node n1 vcore=2
            node n2 vcore=2
            node n3 vcore=1
            app a in root.q
            app b in root.q
            app c in root.q
            ask a k1 vcore=2
            ask b near vcore=1 {beside}
            ask c there vcore=1 {in_zone}
            wait 3s
            ask a k2 vcore=2 tags=app:web
            show nodes
            resize n1 attr zone=x
            show nodes
            "
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a accepted
            b accepted
            c accepted
            a is Accepted
            a is Running
            a/k1 placed on n1
            b is Accepted
            c is Accepted
            a/k2 placed on n2
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing, reserved for [near]
            n3: total vcore=1, used nothing, occupied nothing, left vcore=1
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing, reserved for [there]
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing, reserved for [near]
            n3: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}
