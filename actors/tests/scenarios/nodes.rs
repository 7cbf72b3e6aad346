//! Nodes are added, changed and removed. Their capacity is the maximum of the root queue, so each
//! change of a node is a change of quotas, too.

use expect_test::expect;

use crate::world::{check, check_plain};

#[test]
fn a_known_node_is_rejected_and_counted_once() {
    check(
        "
        queue root.a
        node n1 vcore=4
        node n1 vcore=9
        show nodes
        show queues
        ",
        &expect![[r#"
            n1 accepted
            n1 rejected: R_NODE_EXISTS
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
            root: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=4, running 0, priority none
        "#]],
    );
}

#[test]
fn a_node_of_an_unknown_partition_is_refused() {
    check(
        "
        queue root.a
        node n1 vcore=4 attr si/node-partition=other
        node n2 vcore=4 attr si/node-partition=[rm]default
        resize n2 vcore=5 attr si/node-partition=other
        show nodes
        ",
        &expect![[r#"
            n1 rejected: R_PARTITION_UNKNOWN
            n2 accepted
            n2: total vcore=4, used nothing, occupied nothing, left vcore=4
        "#]],
    );
}

#[test]
fn a_node_created_drained_waits_for_its_opening() {
    check(
        "
        queue root.a
        node n1 vcore=4 drained
        app a1 in root.a
        ask a1 k1 vcore=1
        show queues
        undrain n1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            root: used nothing, pending vcore=1, headroom vcore=4, running 0, priority 0
            root.a: used nothing, pending vcore=1, headroom vcore=4, running 0, priority 0
            a1 is Running
            a1/k1 placed on n1
        "#]],
    );
}

#[test]
fn a_removed_node_may_return_empty() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a
        ask a1 k1 vcore=1
        remove n1
        node n1 vcore=4
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            n1 accepted
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
        "#]],
    );
}

#[test]
fn changes_of_an_unknown_node_are_ignored() {
    check(
        "
        queue root.a
        resize n1 vcore=4
        drain n1
        undrain n1
        remove n1
        node n1 vcore=1
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

#[test]
fn an_unknown_action_is_refused() {
    check(
        "
        queue root.a
        node n1 vcore=4
        act n1 0
        act n1 99
        act n2 -1
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n1 rejected: R_NODE_ACTION
            n1 rejected: R_NODE_ACTION
            n2 rejected: R_NODE_ACTION
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
        "#]],
    );
}

#[test]
fn nodes_of_one_message_are_answered_singly() {
    check_plain(
        "
        queue root.a
        node n1 vcore=4 ; node n1 vcore=4 ; node n2 vcore=-1 ; resize n1 vcore=5 ; node n3
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n3 accepted
            n1 rejected: R_NODE_EXISTS
            n2 rejected: R_NODE_INVALID
            n1: total vcore=5, used nothing, occupied nothing, left vcore=5
            n3: total nothing, used nothing, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn zero_amounts_of_a_node_are_omitted() {
    check(
        "
        queue root.a
        node n1 vcore=10 gpu=0
        node n2
        show nodes
        show queues
        resize n1 vcore=0
        show queues
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n1: total vcore=10, used nothing, occupied nothing, left vcore=10
            n2: total nothing, used nothing, occupied nothing, left nothing
            root: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.a: used nothing, pending nothing, headroom nothing, running 0, priority none
        "#]],
    );
}

/// The node takes no new allocations, as if it drained, by a flag that draining and its end do not
/// change.
#[test]
fn an_unready_node_takes_only_required_asks() {
    check(
        "
        queue root.a
        node n1 vcore=4 attr ready=false
        app a1 in root.a
        ask a1 k1 vcore=1
        ask a1 k2 vcore=1 node=n1
        undrain n1
        resize n1 vcore=4
        drain n1
        resize n1 attr ready=true
        ask a1 k3 vcore=1
        undrain n1
        resize n1 attr ready=f
        ask a1 k4 vcore=1
        resize n1 attr ready=maybe
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k2 placed on n1
            a1/k1 placed on n1
            a1/k3 placed on n1
            a1/k4 placed on n1
        "#]],
    );
}

#[test]
fn an_overcommitted_node_offers_other_resources() {
    check(
        "
        queue root.a
        node n1 vcore=2 memory=5
        app a1 in root.a
        exists a1 k1 on n1 vcore=4
        ask a1 k2 vcore=1
        ask a1 k3 memory=3
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k3 placed on n1
            n1: total memory=5 vcore=2, used memory=3 vcore=4, occupied nothing, left memory=2 vcore=-2
        "#]],
    );
}

/// Usage by other schedulers counts in the order of nodes.
#[test]
fn a_node_with_foreign_usage_is_tried_later() {
    check(
        "
        queue root.a
        node n1 vcore=4
        node n2 vcore=4
        foreign f1 on n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1
        foreign-gone f1
        ask a1 k2 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n2
            a1/k2 placed on n1
        "#]],
    );
}

#[test]
fn a_node_is_added_with_its_allocations() {
    check(
        "
        queue root.a
        app a1 in root.a
        app a2 in root.a
        ask a2 k2 x2 vcore=1
        node n1 vcore=4 holds a1/k1 vcore=1 holds a2/k2 vcore=1 uuid=u2
        show nodes
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a2 accepted
            a2 is Accepted
            n1 accepted
            a1 is Accepted
            a1 is Running
            a2 is Running
            a2/k2#1 of k2 placed on n1
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a2 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k2, k2], asks []
        "#]],
    );
}

/// A node is added with all its allocations or not at all.
#[test]
fn a_node_with_one_bad_allocation_is_rejected() {
    check(
        "
        queue root.a
        app a1 in root.a
        node n1 vcore=4 holds a1/k1 vcore=1 holds a9/k2 vcore=1
        node n2 vcore=4 holds a1/k1 vcore=1 holds a1/k2 vcore=-1
        node n3 vcore=4 holds a1/k1
        node n4 vcore=4 holds a1/ vcore=1
        show nodes
        show apps
        show queues
        ",
        &expect![[r#"
            a1 accepted
            n1 rejected: R_APP_UNKNOWN
            n2 rejected: R_NEGATIVE_RESOURCE
            n3 rejected: R_NO_RESOURCE
            n4 rejected: R_KEY
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            root: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.a: used nothing, pending nothing, headroom nothing, running 0, priority none
        "#]],
    );
}

/// Named attributes are replaced, others stay; the location of the node is fixed.
#[test]
fn a_drained_node_that_grows_stays_drained() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=3
        drain n1
        resize n1 vcore=4
        show nodes
        undrain n1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            n1 closed: total vcore=4, used nothing, occupied nothing, left vcore=4
            a1 is Running
            a1/k1 placed on n1
        "#]],
    );
}

#[test]
fn negative_amounts_of_a_node_change_nothing() {
    check(
        "
        queue root.a
        node n1 vcore=4 occupied vcore=-1
        node n1 vcore=4
        resize n1 vcore=-1
        resize n1 vcore=5 occupied vcore=-1
        show nodes
        ",
        &expect![[r#"
            n1 rejected: R_NODE_INVALID
            n1 accepted
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
        "#]],
    );
}
