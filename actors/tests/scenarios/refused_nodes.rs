//! Nodes that are rejected or ignored, item by item, with the notifications. A rejection changes no
//! state. The reasons are those of `docs/grpc.md#why-an-item-was-refused`.

use expect_test::expect;

use crate::world::{check, too_long};

#[test]
fn nodes_with_bad_ids_or_amounts_are_rejected() {
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

#[test]
fn existing_nodes_and_unknown_partitions_are_rejected() {
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

#[test]
fn a_node_is_rejected_for_its_first_bad_allocation() {
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

#[test]
fn negative_capacities_are_ignored() {
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
            root: used vcore=4, pending vcore=1, headroom vcore=0, running 1, priority 0
            root.a: used vcore=4, pending vcore=1, headroom vcore=0, running 1, priority 0
        "#]],
    );
}

#[test]
fn an_unready_node_waits_until_ready() {
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

#[test]
fn removing_a_node_releases_without_an_answer() {
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

#[test]
fn changes_in_one_message_apply_in_order() {
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
