//! Victims that their resource manager does not release (`docs/preemption.md`, *A victim that
//! stays*).

use expect_test::expect;

use crate::preemption_rules::check;
use crate::quota_preemption::{then, three_of_six};

/// One queue uses all of the node, with two allocations; the other has a guarantee of half of it.
const ONE_NODE: &str = "
    queue root.q1
    queue root.q2 guaranteed vcore=5
    node n1 vcore=10
    app a in root.q1
    app b in root.q2
    ask a old vcore=5
    ask a new vcore=5
";

/// One queue uses all of the node, with one allocation.
const ONE_VICTIM: &str = "
    queue root.q1
    queue root.q2 guaranteed vcore=5
    node n1 vcore=5
    app a in root.q1
    app b in root.q2
    ask a v vcore=5
";

#[test]
fn another_victim_replaces_a_staying_one() {
    check(
        ONE_NODE,
        "
        ask b k vcore=5 policy=both
        wait 30s
        exists a new on n1 vcore=5 tags=monoceros.io/stays:true
        show queues
        show nodes
        wait 15s
        confirm 1
        show queues
        show nodes
        ",
        &expect![[r#"
            b is Accepted
            a/new released: PREEMPTED_BY_SCHEDULER
            root: used vcore=10, pending vcore=5, headroom vcore=0, running 1, priority 0
            root.q1: used vcore=10, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used nothing, pending vcore=5, headroom vcore=0, running 0, priority 0
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
            a/old released: PREEMPTED_BY_SCHEDULER
            b is Running
            b/k placed on n1
            root: used vcore=10, pending nothing, headroom vcore=0, running 2, priority none
            root.q1: used vcore=5, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used vcore=5, pending nothing, headroom vcore=0, running 1, priority none
            n1: total vcore=10, used vcore=10, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn a_plain_report_does_not_make_a_victim_stay() {
    check(
        ONE_VICTIM,
        "
        ask b k vcore=5 policy=both
        wait 30s
        exists a v on n1 vcore=5
        exists a v on n1 vcore=5 tags=monoceros.io/stays:no
        show queues
        ",
        &expect![[r#"
            b is Accepted
            a/v released: PREEMPTED_BY_SCHEDULER
            root: used vcore=5, of which vcore=5 is preempted, pending vcore=5, headroom vcore=0, running 1, priority 0
            root.q1: used vcore=5, of which vcore=5 is preempted, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used nothing, pending vcore=5, headroom vcore=0, running 0, priority 0
            why b/k: others leave for it, and 1 of them have still to go
        "#]],
    );
}

#[test]
fn a_staying_victim_is_asked_again_later() {
    check(
        ONE_VICTIM,
        "
        ask b k vcore=5 policy=both
        wait 30s
        exists a v on n1 vcore=5 tags=monoceros.io/stays:true
        exists a v on n1 vcore=5 tags=monoceros.io/stays:true
        show queues
        show nodes
        wait 299s
        ",
        &expect![[r#"
            b is Accepted
            a/v released: PREEMPTED_BY_SCHEDULER
            root: used vcore=5, pending vcore=5, headroom vcore=0, running 1, priority 0
            root.q1: used vcore=5, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used nothing, pending vcore=5, headroom vcore=0, running 0, priority 0
            n1: total vcore=5, used vcore=5, occupied nothing, left nothing
            why b/k: no allocation may be taken: others are within their guarantees, more important, protected, or stayed a moment ago
        "#]],
    );
    check(
        ONE_VICTIM,
        "
        ask b k vcore=5 policy=both
        wait 30s
        exists a v on n1 vcore=5 tags=monoceros.io/stays:true
        wait 300s
        exists a v on n1 vcore=5 tags=monoceros.io/stays:true
        show queues
        wait 300s
        confirm 2
        show nodes
        ",
        &expect![[r#"
            b is Accepted
            a/v released: PREEMPTED_BY_SCHEDULER
            a/v released: PREEMPTED_BY_SCHEDULER
            root: used vcore=5, pending vcore=5, headroom vcore=0, running 1, priority 0
            root.q1: used vcore=5, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used nothing, pending vcore=5, headroom vcore=0, running 0, priority 0
            a/v released: PREEMPTED_BY_SCHEDULER
            a is Completing
            b is Running
            b/k placed on n1
            n1: total vcore=5, used vcore=5, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn a_staying_victim_ends_gang_nominations() {
    check(
        "
        queue root.q1
        queue root.q2 guaranteed vcore=2
        node n1 vcore=1
        app a in root.q1
        ask a v1 vcore=1
        node n2 vcore=1
        ask a v2 vcore=1
        ",
        "
        app b in root.q2 needs w x2 vcore=1 policy=both
        wait 30s
        exists a v1 on n1 vcore=1 tags=monoceros.io/stays:true
        confirm 1
        show queues
        show nodes
        ask a small vcore=1
        show nodes
        ",
        &expect![[r#"
            b accepted
            b is Accepted
            a/v1 released: PREEMPTED_BY_SCHEDULER
            a/v2 released: PREEMPTED_BY_SCHEDULER
            root: used vcore=1, pending vcore=2, headroom vcore=1, running 1, priority 0
            root.q1: used vcore=1, pending nothing, headroom vcore=1, running 1, priority none
            root.q2: used nothing, pending vcore=2, headroom vcore=1, running 0, priority 0
            n1: total vcore=1, used vcore=1, occupied nothing, left nothing
            n2: total vcore=1, used nothing, occupied nothing, left vcore=1
            a/small placed on n2
            n1: total vcore=1, used vcore=1, occupied nothing, left nothing
            n2: total vcore=1, used vcore=1, occupied nothing, left nothing
            why b/: it has looked for victims a moment ago, and does so once in 15 seconds
            why b/: it has looked for victims a moment ago, and does so once in 15 seconds
        "#]],
    );
}

#[test]
fn a_daemon_waits_beside_a_staying_victim() {
    check(
        "
        queue root.q1
        queue root.q2
        node n1 vcore=5
        app a in root.q1
        app b in root.q2
        ask a v vcore=5
        ",
        "
        ask b k vcore=5 node=n1
        exists a v on n1 vcore=5 tags=monoceros.io/stays:true
        show nodes
        wait 200s
        ",
        &expect![[r#"
            b is Accepted
            a/v released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=5, used vcore=5, occupied nothing, left nothing, reserved for [k]
            why b/k: whatever may leave the node that it requires, it would not fit there: others are more important, require that node, too, hold too little, or stayed a moment ago
        "#]],
    );
}

#[test]
fn quota_preemption_leaves_a_staying_victim() {
    crate::world::check(
        &three_of_six(&format!(
            "
            {}
            wait 61s
            show queues
            exists a k on n1 vcore=6 uuid=k#1 tags=monoceros.io/stays:true
            show queues
            wait 600s
            ",
            then(10)
        )),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k#1 of k placed on n1
            a/k#2 of k placed on n1
            a/k#3 of k placed on n1
            a/k#1 of k released: PREEMPTED_BY_SCHEDULER
            root: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=-8, running 1, priority none
            root: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, pending nothing, headroom vcore=-8, running 1, priority none
        "#]],
    );
}
