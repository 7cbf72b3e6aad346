//! Reports of running allocations that follow each other: nodes and queues take them together,
//! before anything else is done.

use expect_test::expect;

use crate::world::check;

const CLUSTER: &str = "
    queue root.a
    queue root.b
    node n1 vcore=9 drained
    node n2 vcore=9
    app a1 in root.a
    app a2 in root.b
    ";

fn check_reports(text: &str, expect: &expect_test::Expect) {
    check(&format!("{CLUSTER}{text}"), expect);
}

#[test]
fn reports_of_many_messages_are_all_held() {
    check_reports(
        "
        exists a1 k1 on n1 vcore=1 ; exists a2 k2 on n1 vcore=1 ; exists a1 k3 on n2 vcore=2 &
        exists a2 k4 on n1 vcore=3 ; exists a1 k5 on n2 vcore=1 ; exists a2 k6 on n2 vcore=1 &
        exists a1 k7 on n1 vcore=9
        show queues
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k3 placed on n2
            a2 is Accepted
            a2 is Running
            a2/k2 placed on n1
            a2/k4 placed on n1
            a2/k6 placed on n2
            a1/k5 placed on n2
            a1/k7 placed on n1
            root: used vcore=18, pending nothing, headroom vcore=5, running 2, priority none
            root.a: used vcore=13, pending nothing, headroom vcore=5, running 1, priority none
            root.b: used vcore=5, pending nothing, headroom vcore=5, running 1, priority none
            n1 closed: total vcore=9, used vcore=14, occupied nothing, left vcore=-5
            n2: total vcore=9, used vcore=4, occupied nothing, left vcore=5
        "#]],
    );
}

#[test]
fn reports_are_held_before_a_size_changes_and_before_a_release() {
    check_reports(
        "
        exists a1 k1 on n1 vcore=1 ; exists a2 k2 on n1 vcore=1 ; exists a2 k2 on n1 vcore=4 &
        exists a1 k3 on n2 vcore=2 ; exists a2 k4 on n2 vcore=3 &
        release a1 key=k3 &
        exists a1 k5 on n1 vcore=1 ; exists a1 k6 on n2 vcore=1
        show queues
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k2 placed on n1
            a1/k3 placed on n2
            a2/k4 placed on n2
            a1/k3 released: STOPPED_BY_RM
            a1/k5 placed on n1
            a1/k6 placed on n2
            root: used vcore=10, pending nothing, headroom vcore=8, running 2, priority none
            root.a: used vcore=3, pending nothing, headroom vcore=8, running 1, priority none
            root.b: used vcore=7, pending nothing, headroom vcore=8, running 1, priority none
            n1 closed: total vcore=9, used vcore=6, occupied nothing, left vcore=3
            n2: total vcore=9, used vcore=4, occupied nothing, left vcore=5
        "#]],
    );
}

#[test]
fn reports_are_held_before_a_node_is_searched_or_leaves() {
    check_reports(
        "
        exists a1 k1 on n2 vcore=4 ; exists a2 k2 on n2 vcore=4 &
        request a1 k3 vcore=2 &
        exists a2 k4 on n1 vcore=2 ; exists a1 k5 on n1 vcore=2 &
        undrain n1 &
        request a2 k6 vcore=1
        exists a1 k7 on n1 vcore=1 ; exists a2 k8 on n2 vcore=1 &
        remove n2
        show queues
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n2
            a2 is Accepted
            a2 is Running
            a2/k2 placed on n2
            a2/k4 placed on n1
            a1/k5 placed on n1
            a1/k3 placed on n1
            a2/k6 placed on n1
            a1/k7 placed on n1
            a2/k8 placed on n2
            a1/k1 released: STOPPED_BY_RM
            a2/k2 released: STOPPED_BY_RM
            a2/k8 released: STOPPED_BY_RM
            root: used vcore=8, pending nothing, headroom vcore=1, running 2, priority none
            root.a: used vcore=5, pending nothing, headroom vcore=1, running 1, priority none
            root.b: used vcore=3, pending nothing, headroom vcore=1, running 1, priority none
            n1: total vcore=9, used vcore=8, occupied nothing, left vcore=1
        "#]],
    );
}

#[test]
fn reports_among_others_are_answered_in_order() {
    check_reports(
        "
        exists a1 k1 on n1 vcore=1 ; exists a2 k2 on n9 vcore=1 ; exists a1 k3 on n2 vcore=2 &
        exists a1 k3 on n1 vcore=2 ; exists a9 k4 on n1 vcore=1 ; exists a2 k5 on n1 vcore=1 &
        exists a2 k6 on n1 vcore=1 uuid=u6 ; exists a2 k6 on n1 vcore=1 uuid=u7
        wait 60s
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k3 placed on n2
            allocation a2/k2 rejected: R_NODE_UNKNOWN
            allocation a9/k4 rejected: R_APP_UNKNOWN
            a2 is Accepted
            a2 is Running
            a2/k5 placed on n1
            n1 closed: total vcore=9, used vcore=4, occupied nothing, left vcore=5
            n2: total vcore=9, used vcore=2, occupied nothing, left vcore=7
        "#]],
    );
}
