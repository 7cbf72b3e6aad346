//! Overcommitted nodes, and clusters with less free capacity in all than a request needs. The
//! deficit of a node reduces no other node's capacity, and an imminent release needs no reservation
//! (`docs/scheduling.md#reservations`).

use expect_test::{Expect, expect};

use crate::world::{check, check_plain};

/// Two nodes of size four are full, and one of them has lost a device.
const LOST_A_DEVICE: &str = "
    queue root.q max gpu=32
    node na gpu=8
    node nb gpu=8
    node nc gpu=8
    node nd gpu=8
    app old in root.q
    exists old o1 on na gpu=8
    exists old o2 on nb gpu=8
    resize na gpu=7
";

/// Asserts which asks are placed at the end.
fn places(steps: &str, expected: &Expect) {
    check(&format!("{steps}\nshow nodes"), expected);
}

#[test]
fn a_lost_device_affects_no_other_node() {
    places(
        &format!("{LOST_A_DEVICE} app a in root.q\n ask a k1 gpu=8 ; ask a k2 gpu=8"),
        &expect![[r#"
            na accepted
            nb accepted
            nc accepted
            nd accepted
            old accepted
            old is Accepted
            old is Running
            old/o1 placed on na
            old/o2 placed on nb
            a accepted
            a is Accepted
            a is Running
            a/k1 placed on nc
            a/k2 placed on nd
            na: total gpu=7, used gpu=8, occupied nothing, left gpu=-1
            nb: total gpu=8, used gpu=8, occupied nothing, left nothing
            nc: total gpu=8, used gpu=8, occupied nothing, left nothing
            nd: total gpu=8, used gpu=8, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn a_gang_fits_beside_an_overcommitted_node() {
    places(
        &format!(
            "{LOST_A_DEVICE} app a in root.q needs w x2 gpu=8\n ask a k1 gpu=8 group=w ; ask a k2 gpu=8 group=w"
        ),
        &expect![[r#"
            na accepted
            nb accepted
            nc accepted
            nd accepted
            old accepted
            old is Accepted
            old is Running
            old/o1 placed on na
            old/o2 placed on nb
            a accepted
            a is Accepted
            a is Running
            a/k1 placed on nc
            a/k2 placed on nd
            na: total gpu=7, used gpu=8, occupied nothing, left gpu=-1
            nb: total gpu=8, used gpu=8, occupied nothing, left nothing
            nc: total gpu=8, used gpu=8, occupied nothing, left nothing
            nd: total gpu=8, used gpu=8, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn overcommitted_reports_leave_other_nodes_unchanged() {
    places(
        "
        queue root.q
        node n1 memory=10
        node n2 memory=10
        app old in root.q
        exists old o1 on n1 memory=8
        exists old o2 on n1 memory=8
        app a in root.q
        ask a k memory=10
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            old accepted
            old is Accepted
            old is Running
            old/o1 placed on n1
            old/o2 placed on n1
            a accepted
            a is Accepted
            a is Running
            a/k placed on n2
            n1: total memory=10, used memory=16, occupied nothing, left memory=-6
            n2: total memory=10, used memory=10, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn growth_in_place_leaves_other_nodes_unchanged() {
    places(
        "
        queue root.q
        node n1 memory=10
        node n2 memory=10
        app a in root.q
        request a k1 memory=10
        request a k1 memory=12
        ask a k2 memory=10
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a accepted
            a is Accepted
            a is Running
            a/k1 placed on n1
            a/k2 placed on n2
            n1: total memory=10, used memory=12, occupied nothing, left memory=-2
            n2: total memory=10, used memory=10, occupied nothing, left nothing
        "#]],
    );
}

/// One node is empty, and another one is overcommitted.
#[test]
fn no_eviction_for_a_guarantee_beside_an_empty_node() {
    places(
        "
        queue root.q1
        queue root.q2 guaranteed gpu=16
        node na gpu=8
        node nb gpu=8
        node nc gpu=8
        node nd gpu=8
        app j in root.q1
        exists j j0 on na gpu=8
        exists j j1 on nb gpu=4
        exists j j2 on nb gpu=4
        resize na gpu=7
        app k in root.q2
        ask k k0 gpu=8 policy=both created=900
        ask k k1 gpu=8 policy=both created=900
        wait 60s
        ",
        &expect![[r#"
            na accepted
            nb accepted
            nc accepted
            nd accepted
            j accepted
            j is Accepted
            j is Running
            j/j0 placed on na
            j/j1 placed on nb
            j/j2 placed on nb
            k accepted
            k is Accepted
            k is Running
            k/k0 placed on nc
            k/k1 placed on nd
            na: total gpu=7, used gpu=8, occupied nothing, left gpu=-1
            nb: total gpu=8, used gpu=8, occupied nothing, left nothing
            nc: total gpu=8, used gpu=8, occupied nothing, left nothing
            nd: total gpu=8, used gpu=8, occupied nothing, left nothing
        "#]],
    );
}

/// A full cluster with one kind of allocation.
const FULL: &str = "
    queue root.q
    node n1 memory=10
    node n2 memory=10
    app run in root.q
    exists run r1 on n1 memory=5
    exists run r2 on n1 memory=5
    exists run r3 on n2 memory=5
    exists run r4 on n2 memory=5
    app a in root.q
";

#[test]
fn a_full_uniform_cluster_makes_no_reservations() {
    check_plain(
        &format!(
            "{FULL}
            ask a k x8 memory=5 created=900
            wait 10s
            show nodes
            release run key=r1
            release run key=r3
            release run key=r2
            release run key=r4
            show nodes
            "
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            run accepted
            run is Accepted
            run is Running
            run/r1 placed on n1
            run/r2 placed on n1
            run/r3 placed on n2
            run/r4 placed on n2
            a accepted
            a is Accepted
            n1: total memory=10, used memory=10, occupied nothing, left nothing
            n2: total memory=10, used memory=10, occupied nothing, left nothing
            run/r1 released: STOPPED_BY_RM
            a is Running
            a/k#1 of k placed on n1
            run/r3 released: STOPPED_BY_RM
            a/k#2 of k placed on n2
            run/r2 released: STOPPED_BY_RM
            a/k#3 of k placed on n1
            run/r4 released: STOPPED_BY_RM
            run is Completing
            a/k#4 of k placed on n2
            n1: total memory=10, used memory=10, occupied nothing, left nothing
            n2: total memory=10, used memory=10, occupied nothing, left nothing
        "#]],
    );
}

/// A large ask waits while small asks keep arriving.
#[test]
fn three_unusable_releases_cause_a_reservation() {
    check_plain(
        &format!(
            "{FULL}
            ask a small x9 memory=5 prio=1 created=990
            ask a large memory=10 created=900
            wait 10s
            release run key=r1
            release run key=r2
            show nodes
            release run key=r3
            show nodes
            release run key=r4
            show nodes
            "
        ),
        &expect![[r#"
            n1 accepted
            n2 accepted
            run accepted
            run is Accepted
            run is Running
            run/r1 placed on n1
            run/r2 placed on n1
            run/r3 placed on n2
            run/r4 placed on n2
            a accepted
            a is Accepted
            run/r1 released: STOPPED_BY_RM
            a is Running
            a/small#1 of small placed on n1
            run/r2 released: STOPPED_BY_RM
            a/small#2 of small placed on n1
            n1: total memory=10, used memory=10, occupied nothing, left nothing
            n2: total memory=10, used memory=10, occupied nothing, left nothing
            run/r3 released: STOPPED_BY_RM
            a/small#3 of small placed on n2
            n1: total memory=10, used memory=10, occupied nothing, left nothing, reserved for [large]
            n2: total memory=10, used memory=10, occupied nothing, left nothing
            run/r4 released: STOPPED_BY_RM
            run is Completing
            a/small#4 of small placed on n2
            n1: total memory=10, used memory=10, occupied nothing, left nothing, reserved for [large]
            n2: total memory=10, used memory=10, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn releases_on_forbidden_nodes_do_not_count() {
    check_plain(
        "
        queue root.q
        node n1 memory=10
        node n2 memory=4
        app run in root.q
        exists run r1 on n1 memory=10
        exists run s1 on n2 memory=1
        exists run s2 on n2 memory=1
        exists run s3 on n2 memory=1
        exists run s4 on n2 memory=1
        app a in root.q
        ask a large memory=8 created=900
        wait 10s
        release run key=s1
        release run key=s2
        release run key=s3
        release run key=s4
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            run accepted
            run is Accepted
            run is Running
            run/r1 placed on n1
            run/s1 placed on n2
            run/s2 placed on n2
            run/s3 placed on n2
            run/s4 placed on n2
            a accepted
            a is Accepted
            run/s1 released: STOPPED_BY_RM
            run/s2 released: STOPPED_BY_RM
            run/s3 released: STOPPED_BY_RM
            run/s4 released: STOPPED_BY_RM
            n1: total memory=10, used memory=10, occupied nothing, left nothing
            n2: total memory=4, used nothing, occupied nothing, left memory=4
        "#]],
    );
}

#[test]
fn enough_total_capacity_allows_an_immediate_reservation() {
    check_plain(
        "
        queue root.q
        node n1 memory=10
        node n2 memory=10
        app run in root.q
        exists run r1 on n1 memory=6
        exists run r2 on n2 memory=6
        app a in root.q
        ask a k memory=8 created=990
        show nodes
        ask a k2 memory=9 created=990
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            run accepted
            run is Accepted
            run is Running
            run/r1 placed on n1
            run/r2 placed on n2
            a accepted
            a is Accepted
            n1: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k]
            n2: total memory=10, used memory=6, occupied nothing, left memory=4
            n1: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k]
            n2: total memory=10, used memory=6, occupied nothing, left memory=4
        "#]],
    );
}

/// Large asks could reserve node after node: the bound is two nodes, or a fifth of the cluster.
#[test]
fn large_asks_reserve_a_small_part_of_the_cluster() {
    check_plain(
        "
        queue root.base
        queue root.big
        queue root.small
        node n0 memory=10
        node n1 memory=10
        node n2 memory=10
        node n3 memory=10
        app base in root.base
        exists base b0 on n0 memory=6
        exists base b1 on n1 memory=6
        exists base b2 on n2 memory=6
        exists base b3 on n3 memory=6
        app big in root.big
        ask big k x4 memory=8 created=900
        ask big k1 memory=8 created=900
        ask big k2 memory=8 created=900
        ask big k3 memory=8 created=900
        wait 2s
        app small in root.small
        ask small s x4 memory=2
        show nodes
        ",
        &expect![[r#"
            n0 accepted
            n1 accepted
            n2 accepted
            n3 accepted
            base accepted
            base is Accepted
            base is Running
            base/b0 placed on n0
            base/b1 placed on n1
            base/b2 placed on n2
            base/b3 placed on n3
            big accepted
            big is Accepted
            small accepted
            small is Accepted
            small is Running
            small/s#1 of s placed on n2
            small/s#2 of s placed on n3
            small/s#3 of s placed on n2
            small/s#4 of s placed on n3
            n0: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k]
            n1: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [k1]
            n2: total memory=10, used memory=10, occupied nothing, left nothing
            n3: total memory=10, used memory=10, occupied nothing, left nothing
        "#]],
    );
}

/// The least important reservation is replaced first, then the youngest.
#[test]
fn important_and_older_asks_replace_reservations() {
    check_plain(
        "
        queue root.base
        queue root.big
        node n0 memory=10
        node n1 memory=10
        node n2 memory=10
        app base in root.base
        exists base b0 on n0 memory=6
        exists base b1 on n1 memory=6
        exists base b2 on n2 memory=6
        app big in root.big
        ask big young memory=8 created=995
        ask big old memory=8 created=900
        wait 2s
        show nodes
        ask big oldest memory=8 created=800
        show nodes
        ask big important memory=8 prio=1 created=990
        show nodes
        ",
        &expect![[r#"
            n0 accepted
            n1 accepted
            n2 accepted
            base accepted
            base is Accepted
            base is Running
            base/b0 placed on n0
            base/b1 placed on n1
            base/b2 placed on n2
            big accepted
            big is Accepted
            n0: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [young]
            n1: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [old]
            n2: total memory=10, used memory=6, occupied nothing, left memory=4
            n0: total memory=10, used memory=6, occupied nothing, left memory=4
            n1: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [old]
            n2: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [oldest]
            n0: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [important]
            n1: total memory=10, used memory=6, occupied nothing, left memory=4
            n2: total memory=10, used memory=6, occupied nothing, left memory=4, reserved for [oldest]
        "#]],
    );
}
