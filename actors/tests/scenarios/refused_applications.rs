//! Applications that are rejected or ignored, item by item, with the notifications. A rejection
//! changes no state. The reasons are those of `docs/grpc.md#why-an-item-was-refused`.

use expect_test::expect;

use crate::world::{check, too_long};

#[test]
fn an_application_without_a_usable_id_is_rejected() {
    let id = too_long();
    let longest = &id[1..];
    check(
        &format!(
            "
            queue root.a
            app - in root.a
            app {id} in root.a
            show apps
            app {longest} in root.a
            remove-app {longest}
            "
        ),
        &expect![[r#"
             rejected: R_APP_ID
            (1025_bytes) rejected: R_APP_ID
            (1024_bytes) accepted
        "#]],
    );
}

#[test]
fn an_id_repeated_in_one_message_is_accepted_once() {
    check(
        "
        queue root.a
        queue root.b
        app a1 in root.a ; app a1 in root.b
        app a1 in root.a
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 rejected: R_APP_EXISTS
            a1 rejected: R_APP_EXISTS
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn an_application_in_an_unknown_partition_is_rejected() {
    check(
        "
        queue root.a
        app a1 in root.a partition gpu
        app a1 in root.a partition [other]default
        show apps
        app a1 in root.a partition default
        app a2 in root.a partition [rm]default
        show apps
        ",
        &expect![[r#"
            a1 rejected: R_PARTITION_UNKNOWN
            a1 rejected: R_PARTITION_UNKNOWN
            a1 accepted
            a2 accepted
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            a2 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn an_application_without_user_needs_force() {
    check(
        "
        queue root.a
        app a1 in root.a user -
        app a2 in root.a user - tag application.create.force=false
        show apps
        app a3 in root.a user - tag APPLICATION.create.force=true
        show apps
        ",
        &expect![[r#"
            a1 rejected: R_USER E_USER_EMPTY
            a2 rejected: R_USER E_USER_EMPTY
            a3 accepted
            a3 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn an_application_without_queue_is_rejected() {
    check(
        "
        queue root.p.a submit ada
        queue root.b submit bob
        app a1 in root.nowhere user ada
        app a2 in root.p user ada
        app a3 in root.b user ada
        app a4 in root.b..c user ada
        app a5 user ada
        show apps
        show queues
        app a6 in root.p.a user ada
        ",
        &expect![[r#"
            a1 rejected: R_PLACEMENT E_PLACEMENT_NONE
            a2 rejected: R_NOT_LEAF
            a3 rejected: R_PLACEMENT E_PLACEMENT_NONE
            a4 rejected: R_PLACEMENT E_PLACEMENT_RULE
            a5 rejected: R_PLACEMENT E_PLACEMENT_NONE
            root: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.b: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.p: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.p.a: used nothing, pending nothing, headroom nothing, running 0, priority none
            a6 accepted
        "#]],
    );
}

/// The queue is removed with the last of them.
#[test]
fn running_applications_without_a_queue_use_recovery() {
    check(
        "
        queue root.p.a submit ada
        queue root.b submit bob
        node n1 vcore=4
        app a0 in root.@recovery@ user ada
        app a1 in root.gone user ada tag application.create.force=true
        app a2 in root.p user ada tag application.create.force=true
        app a3 in root.b user ada tag application.create.force=true
        app a4 in root.b..c user ada tag application.create.force=true
        app a5 in root.p.a user ada tag application.create.force=true
        app a6 in root.@recovery@ user ada
        ask a1 k1 x2 vcore=1
        show queues
        queue root.c max vcore=4
        reload
        app a7 in root.gone user ada tag application.create.force=true
        show queues
        remove-app a1
        remove-app a2
        remove-app a3
        remove-app a4
        remove-app a7
        wait 9s
        show queues
        wait 2s
        show queues
        app a8 in root.gone user ada tag application.create.force=true
        ask a8 k1 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a0 rejected: R_PLACEMENT E_PLACEMENT_NONE
            a1 accepted
            a2 accepted
            a3 accepted
            a4 accepted
            a5 accepted
            a6 rejected: R_PLACEMENT E_PLACEMENT_NONE
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            root: used vcore=2, pending nothing, headroom vcore=2, running 1, priority none
            root.@recovery@: used vcore=2, pending nothing, headroom vcore=2, running 1, priority none
            root.b: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            root.p: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            root.p.a: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            a7 accepted
            root: used vcore=2, pending nothing, headroom vcore=2, running 1, priority none
            root.@recovery@: used vcore=2, pending nothing, headroom vcore=2, running 1, priority none
            root.b: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            root.c: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            root.p: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            root.p.a: used nothing, pending nothing, headroom vcore=2, running 0, priority none
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a1/k1#2 of k1 released: STOPPED_BY_RM
            root: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.@recovery@: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.b: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.c: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.p: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.p.a: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.b: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.c: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.p: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.p.a: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            a8 accepted
            a8 is Accepted
            a8 is Running
            a8/k1 placed on n1
            root: used vcore=1, pending nothing, headroom vcore=3, running 1, priority none
            root.@recovery@: used vcore=1, pending nothing, headroom vcore=3, running 1, priority none
            root.b: used nothing, pending nothing, headroom vcore=3, running 0, priority none
            root.c: used nothing, pending nothing, headroom vcore=3, running 0, priority none
            root.p: used nothing, pending nothing, headroom vcore=3, running 0, priority none
            root.p.a: used nothing, pending nothing, headroom vcore=3, running 0, priority none
        "#]],
    );
}

#[test]
fn the_removal_of_an_unknown_application_is_ignored() {
    check(
        "
        queue root.a
        app a1 in root.a
        remove-app a9
        remove-app -
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn a_removed_application_has_no_further_states() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 x2 vcore=1
        remove-app a1
        wait 60s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a1/k1#2 of k1 released: STOPPED_BY_RM
        "#]],
    );
}
