//! States of a partition: a draining one serves its applications, a stopped one decides nothing,
//! and both still release.

use expect_test::expect;

use crate::world::check;

#[test]
fn a_draining_partition_serves_its_applications() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        state Draining
        node n2 vcore=2
        app a2 in root.a
        ask a1 k1 x3 vcore=1
        resize n1 vcore=4
        state Stopped
        state Draining
        state Active
        node n2 vcore=2
        app a2 in root.a
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            partition was Active
            n2 rejected: R_PARTITION_STOPPED
            a2 rejected: R_PARTITION_STOPPED
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
            error: `stop` is refused in state `Draining`
            partition was Draining
            partition was Draining
            n2 accepted
            a2 accepted
        "#]],
    );
}

#[test]
fn a_stopped_partition_only_releases() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a
        request a1 k5 vcore=1
        ask a1 k1 x3 vcore=1
        state Stopped
        node n2 vcore=2
        app a2 in root.a
        ask a1 k2 vcore=1
        request a1 k3 vcore=1
        exists a1 k4 on n1 vcore=1
        exists a1 k5 on n1 vcore=5
        request a1 k5 vcore=5
        release a1 uuid=k1#1
        resize n1 vcore=9
        state Draining
        state Active
        remove-app a1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k5 placed on n1
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            partition was Active
            n2 rejected: R_PARTITION_STOPPED
            a2 rejected: R_PARTITION_STOPPED
            ask a1/k2 rejected: R_PARTITION_STOPPED
            allocation a1/k3 rejected: R_PARTITION_STOPPED
            allocation a1/k4 rejected: R_PARTITION_STOPPED
            a1/k1#1 of k1 released: STOPPED_BY_RM
            error: `remove` is refused in state `Stopped`
            partition was Stopped
            a1/k1#3 of k1 placed on n1
            a1/k1#2 of k1 released: STOPPED_BY_RM
            a1/k1#3 of k1 released: STOPPED_BY_RM
            a1/k5 released: STOPPED_BY_RM
        "#]],
    );
}
