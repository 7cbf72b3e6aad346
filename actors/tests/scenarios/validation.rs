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

/// V27, VT4.
#[test]
fn what_is_promised_in_all_fits_a_quantity() {
    check(
        "
        queue root.a
        queue root.b
        node n1 vcore=9223372036854775807
        node n2 vcore=1
        app a1 in root.a
        app a2 in root.b
        ask a1 k1 vcore=9223372036854775806
        ask a2 k1 x2 vcore=1
        ask a2 k2 vcore=1
        ask a2 k3 vcore=1
        exists a2 k4 on n1 vcore=1
        request a2 k2 vcore=2
        show queues
        release a1 key=k1
        ask a2 k3 x2 vcore=4611686018427387903
        ask a2 k5 vcore=2
        show queues
        ",
        &expect![[r#"
            n1 accepted
            n2 rejected: R_OVERFLOW
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            ask a2/k1 rejected: R_OVERFLOW
            a2 is Accepted
            a2 is Running
            a2/k2 placed on n1
            ask a2/k3 rejected: R_OVERFLOW
            allocation a2/k4 rejected: R_OVERFLOW
            ask a2/k2 rejected: R_OVERFLOW
            root: used vcore=9223372036854775807, pending nothing, headroom vcore=0, running 2, priority none
            root.a: used vcore=9223372036854775806, pending nothing, headroom vcore=0, running 1, priority none
            root.b: used vcore=1, pending nothing, headroom vcore=0, running 1, priority none
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            a2/k3#1 of k3 placed on n1
            a2/k3#2 of k3 placed on n1
            ask a2/k5 rejected: R_OVERFLOW
            root: used vcore=9223372036854775807, pending nothing, headroom vcore=0, running 1, priority none
            root.a: used nothing, pending nothing, headroom vcore=0, running 0, priority none
            root.b: used vcore=9223372036854775807, pending nothing, headroom vcore=0, running 1, priority none
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
        ask a1 k1 vcore=9223372036854775807 ; ask a1 k2 vcore=1 ; ask a1 k3 memory=1
        show apps
        ",
        &expect![[r#"
            a1 accepted
            ask a1/k2 rejected: R_OVERFLOW
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending memory=1 vcore=9223372036854775807, holds [], asks [k1 x1, k3 x1]
        "#]],
    );
}

#[test]
fn capacities_in_all_fit_a_quantity() {
    check(
        "
        queue root.a
        node n1 vcore=9223372036854775807
        node n2 vcore=1
        node n3 memory=1
        resize n3 vcore=1
        show nodes
        resize n1 vcore=9223372036854775806
        node n2 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            n2 rejected: R_OVERFLOW
            n3 accepted
            n1: total vcore=9223372036854775807, used nothing, occupied nothing, left vcore=9223372036854775807
            n3: total memory=1, used nothing, occupied nothing, left memory=1
            n2 accepted
            root: used nothing, pending nothing, headroom memory=1 vcore=9223372036854775807, running 0, priority none
            root.a: used nothing, pending nothing, headroom memory=1 vcore=9223372036854775807, running 0, priority none
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
