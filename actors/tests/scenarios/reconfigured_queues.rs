//! Queues that a reload adds, removes or turns into parents. A queue with applications drains and
//! is removed with the last of them; it never changes between leaf and parent.

use expect_test::expect;

use crate::world::check;

#[test]
fn a_queue_without_applications_is_removed_at_once() {
    check(
        "
        queue root.a
        queue root.p.x
        queue root.p.y
        node n1 vcore=10
        forget
        queue root.a
        reload
        show queues
        app x1 in root.p.x
        ",
        &expect![[r#"
            n1 accepted
            root: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            x1 rejected: R_PLACEMENT E_PLACEMENT_NONE
        "#]],
    );
}

/// Configured queues are cleaned up only while they drain.
#[test]
fn an_empty_configured_queue_stays() {
    check(
        "
        queue root.p.x
        node n1 vcore=10
        app x1 in root.p.x
        remove-app x1
        wait 300s
        show queues
        ",
        &expect![[r#"
            n1 accepted
            x1 accepted
            root: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.p: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.p.x: used nothing, pending nothing, headroom vcore=10, running 0, priority none
        "#]],
    );
}

#[test]
fn a_removed_queue_drains_with_its_applications() {
    check(
        "
        queue root.a
        queue root.p.x max vcore=2
        node n1 vcore=10
        app x1 in root.p.x
        ask x1 k1 vcore=1
        forget
        queue root.a
        reload
        app x2 in root.p.x
        ask x1 k2 x2 vcore=1
        show queues
        withdraw x1 *
        release x1 *
        show queues
        wait 30s
        show queues
        ",
        &expect![[r#"
            n1 accepted
            x1 accepted
            x1 is Accepted
            x1 is Running
            x1/k1 placed on n1
            x2 rejected: R_PLACEMENT E_PLACEMENT_NONE
            x1/k2#1 of k2 placed on n1
            root: used vcore=2, pending vcore=1, headroom vcore=8, running 1, priority 0
            root.a: used nothing, pending nothing, headroom vcore=8, running 0, priority none
            root.p (Draining): used vcore=2, pending vcore=1, headroom vcore=8, running 1, priority 0
            root.p.x (Draining): used vcore=2, pending vcore=1, headroom vcore=0, running 1, priority 0
            x1/k1 released: STOPPED_BY_RM
            x1/k2#1 of k2 released: STOPPED_BY_RM
            x1 is Completing
            root: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.p (Draining): used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.p.x (Draining): used nothing, pending nothing, headroom vcore=2, running 0, priority none
            x1 is Completed
            root: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=10, running 0, priority none
        "#]],
    );
}

#[test]
fn a_draining_queue_configured_again_continues() {
    check(
        "
        queue root.a
        queue root.p.x max vcore=2
        queue root.p.y
        node n1 vcore=10
        app x1 in root.p.x
        app y1 in root.p.y
        ask x1 k1 x3 vcore=1
        ask y1 k1 vcore=1
        forget
        queue root.a
        reload
        forget
        queue root.a
        queue root.p.x max vcore=3
        reload
        show queues
        app x2 in root.p.x
        app y2 in root.p.y
        remove-app y1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            x1 accepted
            y1 accepted
            x1 is Accepted
            x1 is Running
            x1/k1#1 of k1 placed on n1
            x1/k1#2 of k1 placed on n1
            y1 is Accepted
            y1 is Running
            y1/k1 placed on n1
            x1/k1#3 of k1 placed on n1
            root: used vcore=4, pending nothing, headroom vcore=6, running 2, priority none
            root.a: used nothing, pending nothing, headroom vcore=6, running 0, priority none
            root.p: used vcore=4, pending nothing, headroom vcore=6, running 2, priority none
            root.p.x: used vcore=3, pending nothing, headroom vcore=0, running 1, priority none
            root.p.y (Draining): used vcore=1, pending nothing, headroom vcore=6, running 1, priority none
            x2 accepted
            y2 rejected: R_PLACEMENT E_PLACEMENT_NONE
            y1/k1 released: STOPPED_BY_RM
            root: used vcore=3, pending nothing, headroom vcore=7, running 1, priority none
            root.a: used nothing, pending nothing, headroom vcore=7, running 0, priority none
            root.p: used vcore=3, pending nothing, headroom vcore=7, running 1, priority none
            root.p.x: used vcore=3, pending nothing, headroom vcore=0, running 1, priority none
        "#]],
    );
}

#[test]
fn new_queues_accept_applications_and_share_fairly() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a
        ask a1 k1 x9 vcore=1
        forget
        queue root.a
        queue root.new.x.deep max vcore=3
        queue root.b
        reload
        app d1 in root.new.x.deep
        app b1 in root.b
        ask d1 k1 x9 vcore=1
        ask b1 k1 x9 vcore=1
        node n2 vcore=6
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
            a1/k1#4 of k1 placed on n1
            d1 accepted
            b1 accepted
            d1 is Accepted
            b1 is Accepted
            n2 accepted
            b1 is Running
            b1/k1#1 of k1 placed on n2
            d1 is Running
            d1/k1#1 of k1 placed on n2
            b1/k1#2 of k1 placed on n2
            d1/k1#2 of k1 placed on n2
            b1/k1#3 of k1 placed on n2
            d1/k1#3 of k1 placed on n2
            root: used vcore=10, pending vcore=17, headroom vcore=0, running 3, priority 0
            root.a: used vcore=4, pending vcore=5, headroom vcore=0, running 1, priority 0
            root.b: used vcore=3, pending vcore=6, headroom vcore=0, running 1, priority 0
            root.new: used vcore=3, pending vcore=6, headroom vcore=0, running 1, priority 0
            root.new.x: used vcore=3, pending vcore=6, headroom vcore=0, running 1, priority 0
            root.new.x.deep: used vcore=3, pending vcore=6, headroom vcore=0, running 1, priority 0
        "#]],
    );
}

/// The slots of removed queues are used again, and parents stay before children.
#[test]
fn queues_are_added_and_removed_repeatedly() {
    check(
        "
        queue root.a.x
        queue root.b.x
        node n1 vcore=9
        forget
        queue root.b.x
        queue root.c.x
        reload
        forget
        queue root.b.x
        queue root.b.y
        queue root.a.z.deep
        reload
        forget
        queue root.a.z.deep
        queue root.a.y
        queue root.a.z.b
        reload
        app a1 in root.a.z.deep
        app a2 in root.a.y
        app a3 in root.a.z.b
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1
        ask a3 k1 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a3 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a3 is Accepted
            a3 is Running
            a3/k1 placed on n1
            root: used vcore=3, pending nothing, headroom vcore=6, running 3, priority none
            root.a: used vcore=3, pending nothing, headroom vcore=6, running 3, priority none
            root.a.y: used vcore=1, pending nothing, headroom vcore=6, running 1, priority none
            root.a.z: used vcore=2, pending nothing, headroom vcore=6, running 2, priority none
            root.a.z.b: used vcore=1, pending nothing, headroom vcore=6, running 1, priority none
            root.a.z.deep: used vcore=1, pending nothing, headroom vcore=6, running 1, priority none
        "#]],
    );
}

#[test]
fn a_leaf_with_applications_stays_a_leaf() {
    check(
        "
        queue root.a max vcore=2
        node n1 vcore=10
        app a1 in root.a
        ask a1 k1 x3 vcore=1
        forget
        queue root.a max vcore=5
        queue root.a.x
        reload
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            reload refused: queue `root.a` is a leaf with applications and cannot become a parent before they are gone [E_QUEUE_TYPE_IN_USE]
            root: used vcore=2, pending vcore=1, headroom vcore=8, running 1, priority 0
            root.a: used vcore=2, pending vcore=1, headroom vcore=0, running 1, priority 0
        "#]],
    );
}

#[test]
fn empty_leaves_and_parents_change_their_type() {
    check(
        "
        queue root.a
        queue root.b.x
        node n1 vcore=10
        forget
        queue root.a.x
        queue root.b
        reload
        app a1 in root.a
        app a2 in root.a.x
        app b1 in root.b
        ask a2 k1 vcore=1
        ask b1 k1 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 rejected: R_NOT_LEAF
            a2 accepted
            b1 accepted
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            b1 is Accepted
            b1 is Running
            b1/k1 placed on n1
            root: used vcore=2, pending nothing, headroom vcore=8, running 2, priority none
            root.a: used vcore=1, pending nothing, headroom vcore=8, running 1, priority none
            root.a.x: used vcore=1, pending nothing, headroom vcore=8, running 1, priority none
            root.b: used vcore=1, pending nothing, headroom vcore=8, running 1, priority none
        "#]],
    );
}

#[test]
fn a_parent_of_applications_stays_a_parent() {
    check(
        "
        queue root.a.x
        queue root.a.y
        node n1 vcore=10
        app x1 in root.a.x
        forget
        queue root.a
        reload
        show queues
        ",
        &expect![[r#"
            n1 accepted
            x1 accepted
            reload refused: queue `root.a` is a parent with applications and cannot become a leaf before they are gone [E_QUEUE_TYPE_IN_USE]
            root: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.a.x: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.a.y: used nothing, pending nothing, headroom vcore=10, running 0, priority none
        "#]],
    );
}
