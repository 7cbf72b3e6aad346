//! What is refused item by item, and what is ignored: the rows of the scheduler-interface chapter,
//! section 4, that can be told in process. What is refused changes nothing.

use expect_test::expect;

use crate::world::check;

/// One byte longer than an id or key may be.
fn too_long() -> String {
    "i".repeat(1025)
}

// V9.
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

// V10 and V11.
#[test]
fn an_id_twice_in_one_message_is_accepted_once() {
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

// V12.
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

// V13 and V14.
#[test]
fn an_application_of_nobody_needs_force() {
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
            a1 rejected: R_USER
            a2 rejected: R_USER
            a3 accepted
            a3 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

// V15.
#[test]
fn an_application_that_no_queue_takes_is_rejected() {
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

// V19.
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

// V20 (applications chapter, 1.5).
#[test]
fn a_removed_application_says_no_more_of_its_states() {
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

// V21.
#[test]
fn an_ask_without_a_usable_key_is_rejected() {
    let key = too_long();
    let longest = &key[1..];
    check(
        &format!(
            "
            queue root.a
            node n1 vcore=1
            app a1 in root.a
            ask a1 - vcore=1
            request a1 - vcore=1
            exists a1 - on n1 vcore=1
            foreign - on n1 vcore=1
            ask a1 {key} vcore=1
            request a1 {key} vcore=1
            exists a1 {key} on n1 vcore=1
            show apps
            show nodes
            ask a1 {longest} vcore=2
            withdraw a1 {longest}
            "
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            ask a1/ rejected: R_KEY
            allocation a1/ rejected: R_KEY
            allocation a1/ rejected: R_KEY
            allocation / rejected: R_KEY
            ask (1028_bytes) rejected: R_KEY
            allocation (1028_bytes) rejected: R_KEY
            allocation (1028_bytes) rejected: R_KEY
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
            a1 is Accepted
            a1 is Completing
        "#]],
    );
}

// V22 and V23; row 3 of the applications chapter, 2.10.
#[test]
fn an_ask_of_an_unknown_application_is_rejected() {
    check(
        "
        queue root.a
        node n1 vcore=1
        ask - k1 vcore=1
        request - k2 vcore=1
        exists - k3 on n1 vcore=1
        ask a9 k1 vcore=1
        request a9 k2 vcore=1
        exists a9 k3 on n1 vcore=1
        exists a9 k4 on n1 vcore=1 uuid=u4
        show queues
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            ask /k1 rejected: R_APP_UNKNOWN
            allocation /k2 rejected: R_APP_UNKNOWN
            allocation /k3 rejected: R_APP_UNKNOWN
            ask a9/k1 rejected: R_APP_UNKNOWN
            allocation a9/k2 rejected: R_APP_UNKNOWN
            allocation a9/k3 rejected: R_APP_UNKNOWN
            allocation a9/k4 rejected: R_APP_UNKNOWN
            root: used nothing, pending nothing, headroom vcore=1, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=1, running 0, priority none
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

// V24.
#[test]
fn an_ask_for_an_unknown_partition_is_rejected() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1 partition=gpu
        ask a1 k1 vcore=1 partition=[other]default
        request a1 k1 vcore=1 partition=gpu
        exists a1 k1 on n1 vcore=1 partition=gpu
        show apps
        ask a1 k1 vcore=1 partition=default
        ask a1 k2 vcore=1 partition=[rm]default
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            ask a1/k1 rejected: R_PARTITION_UNKNOWN
            ask a1/k1 rejected: R_PARTITION_UNKNOWN
            allocation a1/k1 rejected: R_PARTITION_UNKNOWN
            allocation a1/k1 rejected: R_PARTITION_UNKNOWN
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending vcore=1, holds [k1], asks [k2 x1]
        "#]],
    );
}

// V25 and V26.
#[test]
fn an_allocation_of_nothing_or_less_is_rejected_in_every_form() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        request a1 k1
        request a1 k1 vcore=0
        request a1 k1 vcore=1 memory=-1
        exists a1 k2 on n1
        exists a1 k2 on n1 vcore=0
        exists a1 k2 on n1 vcore=-1
        foreign f1 on n1 vcore=-1
        show apps
        show nodes
        request a1 k3 vcore=1
        request a1 k3 vcore=0
        request a1 k3 vcore=-1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            allocation a1/k1 rejected: R_NO_RESOURCE
            allocation a1/k1 rejected: R_NO_RESOURCE
            allocation a1/k1 rejected: R_NEGATIVE_RESOURCE
            allocation a1/k2 rejected: R_NO_RESOURCE
            allocation a1/k2 rejected: R_NO_RESOURCE
            allocation a1/k2 rejected: R_NEGATIVE_RESOURCE
            allocation /f1 rejected: R_NEGATIVE_RESOURCE
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
            a1 is Accepted
            a1 is Running
            a1/k3 placed on n1
            allocation a1/k3 rejected: R_NO_RESOURCE
            allocation a1/k3 rejected: R_NEGATIVE_RESOURCE
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k3], asks []
        "#]],
    );
}

// V27.
#[test]
fn an_amount_that_cannot_be_counted_is_rejected() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=9223372036854775807
        ask a1 k2 x10000 vcore=9223372036854775807
        ask a1 k3 vcore=9223372036854775807
        request a1 k4 vcore=9223372036854775807
        exists a1 k5 on n1 vcore=9223372036854775807
        exists a1 k6 on n1 vcore=9223372036854775807 uuid=u6
        node n2 vcore=9223372036854775807
        show apps
        show queues
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            ask a1/k1 rejected: R_OVERFLOW
            ask a1/k2 rejected: R_OVERFLOW
            ask a1/k3 rejected: R_OVERFLOW
            allocation a1/k4 rejected: R_OVERFLOW
            allocation a1/k5 rejected: R_OVERFLOW
            allocation a1/k6 rejected: R_OVERFLOW
            n2 rejected: R_OVERFLOW
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            root: used nothing, pending nothing, headroom vcore=1, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=1, running 0, priority none
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

// V27, for what others placed.
#[test]
fn what_others_placed_is_rejected_when_it_cannot_be_counted() {
    check(
        "
        queue root.a
        node n1 vcore=1
        foreign f1 on n1 vcore=9223372036854775807
        foreign f2 on n1 vcore=9223372036854775807
        show nodes
        foreign f1 on n1 vcore=9223372036854775806
        foreign f2 on n1 vcore=1
        foreign f2 on n1 vcore=2
        app a1 in root.a
        exists a1 k1 on n1 vcore=1
        show nodes
        foreign-gone f1
        exists a1 k1 on n1 vcore=1
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            allocation /f1 rejected: R_OVERFLOW
            allocation /f2 rejected: R_OVERFLOW
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
            allocation /f1 rejected: R_OVERFLOW
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            n1: total vcore=1, used vcore=1, occupied vcore=2, left vcore=-2
            n1: total vcore=1, used vcore=1, occupied vcore=2, left vcore=-2
        "#]],
    );
}

// V28 (D6).
#[test]
fn a_placeholder_without_a_task_group_is_rejected() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1 placeholder=
        request a1 k2 vcore=1 placeholder=
        exists a1 k3 on n1 vcore=1 placeholder=
        show apps
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            ask a1/k1 rejected: R_PLACEHOLDER_NO_TG
            allocation a1/k2 rejected: R_PLACEHOLDER_NO_TG
            allocation a1/k3 rejected: R_PLACEHOLDER_NO_TG
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

// V29.
#[test]
fn an_ask_repeats_from_once_to_ten_thousand_times() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 x0 vcore=1
        ask a1 k2 x-1 vcore=1
        ask a1 k3 x10001 vcore=1
        show apps
        ask a1 k4 x10000 vcore=1
        show apps
        ",
        &expect![[r#"
            a1 accepted
            ask a1/k1 rejected: R_REPEAT
            ask a1/k2 rejected: R_REPEAT
            ask a1/k3 rejected: R_REPEAT
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=10000, holds [], asks [k4 x10000]
        "#]],
    );
}

// V30.
#[test]
fn an_allocation_on_an_unknown_node_is_rejected() {
    check(
        "
        queue root.a
        app a1 in root.a
        exists a1 k1 on n9 vcore=1
        exists a1 k2 on n9 vcore=1 uuid=u2
        request a1 k3 vcore=1
        exists a1 k3 on n9 vcore=1
        show apps
        show queues
        ",
        &expect![[r#"
            a1 accepted
            allocation a1/k1 rejected: R_NODE_UNKNOWN
            allocation a1/k2 rejected: R_NODE_UNKNOWN
            a1 is Accepted
            allocation a1/k3 rejected: R_NODE_UNKNOWN
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=1, holds [], asks [k3 x1]
            root: used nothing, pending vcore=1, headroom nothing, running 0, priority 0
            root.a: used nothing, pending vcore=1, headroom nothing, running 0, priority 0
        "#]],
    );
}

// V31.
#[test]
fn an_allocation_that_exists_is_taken_on_a_node_that_takes_nothing_new() {
    check(
        "
        queue root.a
        node n1 vcore=1 drained
        node n2 vcore=1 attr ready=false
        app a1 in root.a
        exists a1 k1 on n1 vcore=2
        exists a1 k2 on n2 vcore=2
        ask a1 k3 vcore=1
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
            a1/k2 placed on n2
            a1 in root.a is Running since 1000s: used vcore=4, pending vcore=1, holds [k1, k2], asks [k3 x1]
            n1 closed: total vcore=1, used vcore=2, occupied nothing, left vcore=-1
            n2 closed: total vcore=1, used vcore=2, occupied nothing, left vcore=-1
        "#]],
    );
}

// V32.
#[test]
fn of_a_known_request_only_the_resources_change() {
    check(
        "
        queue root.a
        app a1 in root.a
        request a1 k1 vcore=2 prio=1
        request a1 k1 vcore=3 prio=9 node=n9
        show apps
        show queues
        node n1 vcore=3
        request a1 k1 vcore=1 prio=9
        show queues
        show nodes
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=3, holds [], asks [k1 x1]
            root: used nothing, pending vcore=3, headroom nothing, running 0, priority 1
            root.a: used nothing, pending vcore=3, headroom nothing, running 0, priority 1
            n1 accepted
            a1 is Running
            a1/k1 placed on n1
            root: used vcore=1, pending nothing, headroom vcore=2, running 1, priority none
            root.a: used vcore=1, pending nothing, headroom vcore=2, running 1, priority none
            n1: total vcore=3, used vcore=1, occupied nothing, left vcore=2
        "#]],
    );
}

// V34.
#[test]
fn an_allocation_with_a_uuid_needs_a_node() {
    check(
        "
        queue root.a
        app a1 in root.a
        request a1 k1 vcore=1 uuid=u1
        show apps
        ",
        &expect![[r#"
            a1 accepted
            allocation a1/k1 rejected: R_NODE_MISSING
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

// V35 to V37.
#[test]
fn what_others_placed_needs_a_node_and_may_be_nothing() {
    check(
        "
        node n1 vcore=4
        foreign f1 vcore=1
        foreign f1 on n9 vcore=1
        foreign f2 on n1 vcore=1 kind=other
        foreign f3 on n1 vcore=1 kind=static
        foreign f4 on n1 vcore=0
        foreign f4 on n1
        show nodes
        foreign f2 on n9 vcore=2
        foreign f2 vcore=2
        show nodes
        foreign f2 on n1 vcore=0
        foreign f3 on n1
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            allocation /f1 rejected: R_NODE_MISSING
            allocation /f1 rejected: R_NODE_UNKNOWN
            allocation /f4 rejected: R_NO_RESOURCE
            allocation /f4 rejected: R_NO_RESOURCE
            n1: total vcore=4, used nothing, occupied vcore=2, left vcore=2
            allocation /f2 rejected: R_NODE_UNKNOWN
            allocation /f2 rejected: R_NODE_MISSING
            n1: total vcore=4, used nothing, occupied vcore=2, left vcore=2
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
        "#]],
    );
}

// V38.
#[test]
fn a_release_of_what_is_unknown_is_ignored() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1
        request a1 k2 vcore=1
        release a1 key=k9
        release a1 uuid=u9
        release a9 key=k1
        release a9 *
        release a1 key=k9 as SCHEDULING_FAILED_ON_RM
        release a1 key=k2 as SCHEDULING_FAILED_ON_RM
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending vcore=1, holds [k1], asks [k2 x1]
        "#]],
    );
}

// V39.
#[test]
fn a_release_of_a_pending_request_drops_it_without_a_reply() {
    check(
        "
        queue root.a
        app a1 in root.a
        request a1 k1 vcore=1
        ask a1 k2 x3 vcore=1
        release a1 key=k1
        show apps
        release a1 key=k2
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=3, holds [], asks [k2 x3]
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

// V43.
#[test]
fn a_release_without_an_application_means_what_others_placed() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a
        ask a1 k1 vcore=1
        foreign f1 on n1 vcore=1
        release - key=f1
        release - key=f1
        release - key=k1
        release - *
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            n1: total vcore=4, used vcore=1, occupied nothing, left vcore=3
        "#]],
    );
}

// V44.
#[test]
fn a_node_without_a_usable_id_or_with_negative_amounts_is_rejected() {
    let id = too_long();
    let longest = &id[1..];
    check(
        &format!(
            "
            node - vcore=1
            node {id} vcore=1
            node n1 vcore=-1
            node n2 vcore=1 occupied vcore=-1
            show nodes
            show queues
            node {longest} vcore=1
            remove {longest}
            "
        ),
        &expect![[r#"
             rejected: R_NODE_INVALID
            (1025_bytes) rejected: R_NODE_INVALID
            n1 rejected: R_NODE_INVALID
            n2 rejected: R_NODE_INVALID
            root: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.default: used nothing, pending nothing, headroom nothing, running 0, priority none
            (1024_bytes) accepted
        "#]],
    );
}

// V45.
#[test]
fn a_node_that_exists_or_names_an_unknown_partition_is_rejected() {
    check(
        "
        node n1 vcore=1
        node n1 vcore=5
        node n1 vcore=5 drained
        node n2 vcore=1 attr si/node-partition=gpu
        node n3 vcore=1 attr si/node-partition=[other]default
        show nodes
        show queues
        ",
        &expect![[r#"
            n1 accepted
            n1 rejected: R_NODE_EXISTS
            n1 rejected: R_NODE_EXISTS
            n2 rejected: R_PARTITION_UNKNOWN
            n3 rejected: R_PARTITION_UNKNOWN
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
            root: used nothing, pending nothing, headroom vcore=1, running 0, priority none
            root.default: used nothing, pending nothing, headroom vcore=1, running 0, priority none
        "#]],
    );
}

// V46.
#[test]
fn a_node_without_capacity_hosts_nothing() {
    check(
        "
        queue root.a
        node n1
        app a1 in root.a
        ask a1 k1 vcore=1
        show nodes
        resize n1 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            n1: total nothing, used nothing, occupied nothing, left nothing
            a1 is Running
            a1/k1 placed on n1
        "#]],
    );
}

// V47.
#[test]
fn a_node_is_rejected_for_the_first_bad_allocation_that_it_holds() {
    check(
        "
        queue root.a
        app a1 in root.a
        node n1 vcore=4 holds a1/k1 vcore=1 holds a1/k2 vcore=0
        node n1 vcore=4 holds a1/k1 vcore=1 holds a1/k2 vcore=-1
        node n1 vcore=4 holds a1/k1 vcore=1 holds a1/k2 vcore=1 placeholder=
        node n1 vcore=4 holds a1/k1 vcore=1 holds a9/k2 vcore=1
        show apps
        show queues
        show nodes
        ",
        &expect![[r#"
            a1 accepted
            n1 rejected: R_NO_RESOURCE
            n1 rejected: R_NEGATIVE_RESOURCE
            n1 rejected: R_PLACEHOLDER_NO_TG
            n1 rejected: R_APP_UNKNOWN
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            root: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.a: used nothing, pending nothing, headroom nothing, running 0, priority none
        "#]],
    );
}

// V48.
#[test]
fn a_change_of_an_unknown_node_is_ignored() {
    check(
        "
        node n1 vcore=1
        resize n9 vcore=5
        drain n9
        undrain n9
        remove n9
        resize n1 vcore=5 attr si/node-partition=gpu
        show nodes
        show queues
        ",
        &expect![[r#"
            n1 accepted
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
            root: used nothing, pending nothing, headroom vcore=1, running 0, priority none
            root.default: used nothing, pending nothing, headroom vcore=1, running 0, priority none
        "#]],
    );
}

// V49.
#[test]
fn a_negative_capacity_is_ignored_and_a_small_one_is_taken() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a
        ask a1 k1 vcore=4
        resize n1 vcore=-1
        resize n1 occupied vcore=-1
        show nodes
        resize n1 vcore=1
        ask a1 k2 vcore=1
        show nodes
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n1: total vcore=1, used vcore=4, occupied nothing, left vcore=-3
            root: used vcore=4, pending vcore=1, headroom vcore=-3, running 1, priority 0
            root.a: used vcore=4, pending vcore=1, headroom vcore=-3, running 1, priority 0
        "#]],
    );
}

// V50.
#[test]
fn a_node_that_is_not_ready_takes_nothing_until_it_is() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a
        resize n1 attr ready=false
        ask a1 k1 vcore=1
        undrain n1
        show nodes
        resize n1 attr ready=true
        resize n1 attr ready=false
        ask a1 k2 vcore=1
        show apps
        resize n1 attr other=x // which says nothing of `ready`: it is
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            n1 closed: total vcore=4, used nothing, occupied nothing, left vcore=4
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending vcore=1, holds [k1], asks [k2 x1]
            a1/k2 placed on n1
        "#]],
    );
}

// V52.
#[test]
fn a_node_that_leaves_releases_what_it_holds_and_is_not_answered() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a
        ask a1 k1 x2 vcore=1
        remove n1
        show apps
        show queues
        show nodes
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
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            root: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.a: used nothing, pending nothing, headroom nothing, running 0, priority none
        "#]],
    );
}

// V53.
#[test]
fn an_unknown_action_on_a_node_is_rejected() {
    check(
        "
        node n1 vcore=1
        act n1 0
        act n1 99
        act n2 99
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n1 rejected: R_NODE_ACTION
            n1 rejected: R_NODE_ACTION
            n2 rejected: R_NODE_ACTION
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

// V54.
#[test]
fn what_one_message_says_of_a_node_is_done_in_order() {
    check(
        "
        node n1 vcore=1 ; resize n1 vcore=3 ; drain n1
        show nodes
        remove n1 ; node n1 vcore=5
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n1 closed: total vcore=3, used nothing, occupied nothing, left vcore=3
            n1 accepted
            n1: total vcore=5, used nothing, occupied nothing, left vcore=5
        "#]],
    );
}

// The last case of the section (VT5).
#[test]
fn a_good_item_after_a_bad_one_is_processed() {
    check(
        "
        queue root.a
        node - vcore=1 ; node n1 vcore=2
        app - in root.a ; app a1 in root.a
        ask a9 k1 vcore=1 ; ask a1 k1 x0 vcore=1 ; ask a1 k1 vcore=1
        exists a1 k2 on n9 vcore=1 ; exists a1 k3 on n1 vcore=1
        release a1 uuid=u9 ; release a1 uuid=k1
        show apps
        ",
        &expect![[r#"
            n1 accepted
             rejected: R_NODE_INVALID
             rejected: R_APP_ID
            a1 accepted
            ask a9/k1 rejected: R_APP_UNKNOWN
            ask a1/k1 rejected: R_REPEAT
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            allocation a1/k2 rejected: R_NODE_UNKNOWN
            a1/k3 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k3], asks []
        "#]],
    );
}
