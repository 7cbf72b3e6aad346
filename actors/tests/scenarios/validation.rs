//! Bad input is answered with the reason, by id, and changes nothing (scheduler-interface chapter,
//! section 4; the rows are in the comments where the test does not name them).

use expect_test::expect;

use crate::world::{check, check_plain};

/// V9.
#[test]
fn an_application_has_an_id_of_up_to_1024_bytes() {
    let (longest, longer) = ("x".repeat(1024), "x".repeat(1025));
    check(
        &format!(
            "
            queue root.a
            app {longest} in root.a
            app {longer} in root.a
            remove-app {longest}
            "
        ),
        &expect![[r#"
            xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx accepted
            xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx rejected: R_APP_ID
        "#]],
    );
}

/// V21, V22.
#[test]
fn an_ask_has_a_key_of_up_to_1024_bytes() {
    let (longest, longer) = ("x".repeat(1024), "x".repeat(1025));
    check(
        &format!(
            "
            queue root.a
            node n1 vcore=9
            app a1 in root.a
            ask a1 {longest} vcore=1
            ask a1 {longer} vcore=1
            request a1 {longer} vcore=1
            exists a1 {longer} on n1 vcore=1
            "
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx placed on n1
            ask a1/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx rejected: R_KEY
            allocation a1/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx rejected: R_KEY
            allocation a1/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx rejected: R_KEY
        "#]],
    );
}

/// V44.
#[test]
fn a_node_has_an_id_of_up_to_1024_bytes() {
    let (longest, longer) = ("x".repeat(1024), "x".repeat(1025));
    check(
        &format!(
            "
            queue root.a
            node {longest} vcore=9
            node {longer} vcore=9
            remove {longest}
            "
        ),
        &expect![[r#"
            xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx accepted
            xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx rejected: R_NODE_INVALID
        "#]],
    );
}

/// V29.
#[test]
fn an_ask_repeats_from_1_to_10000_times() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 x0 vcore=1
        ask a1 k2 x-1 vcore=1
        ask a1 k3 x10001 vcore=1
        ask a1 k4 x10000 vcore=1
        show apps
        ",
        &expect![[r#"
            a1 accepted
            ask a1/k1 rejected: R_REPEAT
            ask a1/k2 rejected: R_REPEAT
            ask a1/k3 rejected: R_REPEAT
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=10000, holds [], asks [k4 x10000]
        "#]],
    );
}

/// VT4: a quantity is at most 2^53.
#[test]
fn no_quantity_is_beyond_all_measure() {
    check(
        "
        queue root.a
        node n1 vcore=9007199254740993
        node n1 vcore=9007199254740992
        resize n1 vcore=9223372036854775807
        foreign f1 on n1 vcore=9007199254740993
        app a1 in root.a
        ask a1 k1 vcore=9007199254740993
        request a1 k1 vcore=9223372036854775807
        exists a1 k1 on n1 vcore=9223372036854775807
        ask a1 k1 vcore=-9223372036854775808
        ask a1 k1 vcore=9007199254740992
        show nodes
        ",
        &expect![[r#"
            n1 rejected: R_OVERFLOW
            n1 accepted
            allocation /f1 rejected: R_OVERFLOW
            a1 accepted
            ask a1/k1 rejected: R_OVERFLOW
            allocation a1/k1 rejected: R_OVERFLOW
            allocation a1/k1 rejected: R_OVERFLOW
            ask a1/k1 rejected: R_NEGATIVE_RESOURCE
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            n1: total vcore=9007199254740992, used vcore=9007199254740992, occupied nothing, left nothing
        "#]],
    );
}

/// V27.
#[test]
fn what_is_promised_in_all_fits_a_quantity() {
    check(
        "
        queue root.a
        queue root.b
        node n1 vcore=9
        app a1 in root.a
        app a2 in root.b
        ask a2 k1 vcore=1
        ask a1 k1 x1023 vcore=9007199254740992
        ask a1 k2 vcore=9007199254740991
        request a2 k2 vcore=9007199254740991
        ask a1 k2 vcore=9007199254740990
        ask a1 k3 vcore=1
        exists a1 k3 on n1 vcore=1
        exists a1 k2 on n1 vcore=9007199254740992
        request a1 k2 vcore=9007199254740992
        show queues
        withdraw a1 k2
        ask a1 k3 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a1 is Accepted
            ask a1/k2 rejected: R_OVERFLOW
            allocation a2/k2 rejected: R_OVERFLOW
            ask a1/k3 rejected: R_OVERFLOW
            allocation a1/k3 rejected: R_OVERFLOW
            allocation a1/k2 rejected: R_OVERFLOW
            allocation a1/k2 rejected: R_OVERFLOW
            root: used vcore=1, pending vcore=9223372036854775806, headroom vcore=8, running 1, priority 0
            root.a: used nothing, pending vcore=9223372036854775806, headroom vcore=8, running 0, priority 0
            root.b: used vcore=1, pending nothing, headroom vcore=8, running 1, priority none
            a1 is Running
            a1/k3 placed on n1
            root: used vcore=2, pending vcore=9214364837600034816, headroom vcore=7, running 2, priority 0
            root.a: used vcore=1, pending vcore=9214364837600034816, headroom vcore=7, running 1, priority 0
            root.b: used vcore=1, pending nothing, headroom vcore=7, running 1, priority none
        "#]],
    );
}

/// What is allocated is not rejected for a change that does not fit: it stays as it is.
#[test]
fn a_change_of_what_is_allocated_is_never_rejected() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a
        app a2 in root.a
        ask a1 k1 x1023 vcore=9007199254740992
        request a2 k1 vcore=1
        exists a2 k2 on n1 vcore=1 uuid=u2
        request a2 k1 vcore=9007199254740992
        exists a2 k1 on n1 vcore=9007199254740992
        exists a2 k2 on n1 vcore=9007199254740992 uuid=u2
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            n1: total vcore=9, used vcore=2, occupied nothing, left vcore=7
        "#]],
    );
}

/// One message is one visit: what its earlier items promise counts for the later ones.
#[test]
fn what_one_message_promises_in_all_fits_a_quantity() {
    check_plain(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 x1023 vcore=9007199254740992 ; ask a1 k2 vcore=9007199254740992 ; ask a1 k3 memory=1
        show apps
        ",
        &expect![[r#"
            a1 accepted
            ask a1/k2 rejected: R_OVERFLOW
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending memory=1 vcore=9214364837600034816, holds [], asks [k1 x1023, k3 x1]
        "#]],
    );
}

/// V34, V35, V30.
#[test]
fn what_exists_is_somewhere() {
    check(
        "
        queue root.a
        app a1 in root.a
        exists a1 k1 vcore=1 uuid=u1
        exists a1 k1 on n9 vcore=1 uuid=u1
        exists a1 k1 on n9 vcore=1
        show apps
        ",
        &expect![[r#"
            a1 accepted
            allocation a1/k1 rejected: R_NODE_MISSING
            allocation a1/k1 rejected: R_NODE_UNKNOWN
            allocation a1/k1 rejected: R_NODE_UNKNOWN
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

/// V38, V39, V43.
#[test]
fn releases_of_what_is_not_there_are_ignored() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        release a1 uuid=k1
        release a1 key=k1
        release a1 *
        release a9 *
        release a1 uuid=k1 as SCHEDULING_FAILED_ON_RM
        ask a1 k1 vcore=2
        release a1 uuid=k1 as SCHEDULING_FAILED_ON_RM
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        foreign-gone f1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=2, holds [], asks [k1 x1]
        "#]],
    );
}

/// V54.
#[test]
fn items_of_one_node_are_handled_in_order() {
    check_plain(
        "
        queue root.a
        node n1 vcore=1 ; resize n1 vcore=2 ; drain n1 ; undrain n1 ; remove n1 ; node n1 vcore=3
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n1 accepted
            n1: total vcore=3, used nothing, occupied nothing, left vcore=3
        "#]],
    );
}

/// V32, V33.
#[test]
fn a_duplicate_key_changes_only_resources() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        app a2 in root.a
        request a1 k1 vcore=2 prio=3
        request a1 k1 vcore=3 prio=9 node=n2
        request a2 k1 vcore=2
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a2 is Accepted
            root: used nothing, pending vcore=5, headroom vcore=1, running 0, priority 3
            root.a: used nothing, pending vcore=5, headroom vcore=1, running 0, priority 3
        "#]],
    );
}

/// VT3.
#[test]
fn a_good_item_behind_a_bad_one_is_processed() {
    check_plain(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a
        app a2 in root.nowhere ; app a2 in root.a
        ask a9 k1 vcore=1 ; ask a1 k1 vcore=1 ; request a1 k2 ; request a1 k3 vcore=1 ; release a9 *
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 rejected: R_PLACEMENT E_PLACEMENT_NONE
            a2 accepted
            allocation a1/k2 rejected: R_NO_RESOURCE
            a1 is Accepted
            a1 is Running
            a1/k3 placed on n1
            a1/k1 placed on n1
            ask a9/k1 rejected: R_APP_UNKNOWN
        "#]],
    );
}
