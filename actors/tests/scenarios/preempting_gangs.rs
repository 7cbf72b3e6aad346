//! Declared gangs of a queue below its guarantee preempt for all of their members at once, or for
//! none (`docs/preemption.md#gangs`).

use expect_test::expect;

use crate::events;
use crate::world::check;

/// Two queues with guarantees of four each, of seven: the first uses n1 and n2, and n3 is free.
fn two_of_three(steps: &str) -> String {
    format!(
        "
        queue root.q1 guaranteed vcore=2
        queue root.q2 guaranteed vcore=4
        node n1 vcore=2
        app a1 in root.q1
        ask a1 v1 vcore=2
        node n2 vcore=2
        ask a1 v2 vcore=2
        settle
        node n3 vcore=3
        {steps}
        "
    )
}

/// Two of the four members fit in free capacity, and two need victims.
#[test]
fn a_gang_evicts_what_it_lacks_and_runs() {
    check(
        "
        queue root.q1
        queue root.q2 guaranteed vcore=4
        node n1 vcore=1
        app a1 in root.q1
        ask a1 v1 vcore=1
        node n2 vcore=1
        ask a1 v2 vcore=1
        settle
        node n3 vcore=2
        app g in root.q2 needs w x4 vcore=1 policy=both
        wait 29999ms
        show nodes
        wait 1ms
        show queues
        app o in root.q1
        ask o k1 vcore=1
        ask o k2 vcore=1
        settle
        show nodes
        confirm 0
        show apps
        confirm *
        show queues
        show nodes
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/v1 placed on n1
            n2 accepted
            a1/v2 placed on n2
            n3 accepted
            g accepted
            g is Accepted
            n1: total vcore=1, used vcore=1, occupied nothing, left nothing
            n2: total vcore=1, used vcore=1, occupied nothing, left nothing
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            a1/v1 released: PREEMPTED_BY_SCHEDULER
            a1/v2 released: PREEMPTED_BY_SCHEDULER
            root: used vcore=2, of which vcore=2 is preempted, pending vcore=4, headroom vcore=0, running 1, priority 0
            root.q1: used vcore=2, of which vcore=2 is preempted, pending nothing, headroom vcore=0, running 1, priority none
            root.q2: used nothing, pending vcore=4, headroom vcore=0, running 0, priority 0
            o accepted
            o is Accepted
            n1: total vcore=1, used vcore=1, occupied nothing, left nothing
            n2: total vcore=1, used vcore=1, occupied nothing, left nothing
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            a1 in root.q1 is Running since 1000s: used vcore=1, pending nothing, holds [v2], asks []
            o in root.q1 is Accepted since 1030s: used nothing, pending vcore=2, holds [], asks [k1 x1, k2 x1]
            g in root.q2 is Accepted since 1000s: used nothing, pending vcore=4, holds [], asks [(w) x4]
            a1 is Completing
            g is Running
            root: used vcore=4, pending vcore=2, headroom vcore=0, running 1, priority 0
            root.q1: used nothing, pending vcore=2, headroom vcore=0, running 0, priority 0
            root.q2: used vcore=4, pending nothing, headroom vcore=0, running 1, priority none
            n1: total vcore=1, used vcore=1, occupied nothing, left nothing
            n2: total vcore=1, used vcore=1, occupied nothing, left nothing
            n3: total vcore=2, used vcore=2, occupied nothing, left nothing
            a1 in root.q1 is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            o in root.q1 is Accepted since 1030s: used nothing, pending vcore=2, holds [], asks [k1 x1, k2 x1]
            g in root.q2 is Running since 1000s: used nothing, pending nothing, holds [(w~1), (w~2), (w~3), (w~4)], asks []
        "#]],
    );
}

#[test]
fn capacity_beyond_a_gangs_nomination_is_free() {
    check(
        &two_of_three(
            "
            app g in root.q2 needs w x4 vcore=1 policy=both
            wait 30s
            show nodes
            app o in root.q2
            ask o k1 vcore=1
            ask o k2 vcore=1
            show nodes
            confirm *
            show nodes
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/v1 placed on n1
            n2 accepted
            a1/v2 placed on n2
            n3 accepted
            g accepted
            g is Accepted
            a1/v1 released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=3, used nothing, occupied nothing, left vcore=3
            o accepted
            o is Accepted
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=3, used nothing, occupied nothing, left vcore=3
            g is Running
            o is Running
            o/k1 placed on n1
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=3, used vcore=3, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn a_staying_victim_ends_the_gangs_nominations() {
    check(
        &two_of_three(
            "
            app g in root.q2 needs w x4 vcore=1 policy=both
            wait 30s
            app o in root.q1
            ask o k1 vcore=2
            show nodes
            wait 3599999ms
            show nodes
            wait 1ms
            show nodes
            show apps
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/v1 placed on n1
            n2 accepted
            a1/v2 placed on n2
            n3 accepted
            g accepted
            g is Accepted
            a1/v1 released: PREEMPTED_BY_SCHEDULER
            o accepted
            o is Accepted
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=3, used nothing, occupied nothing, left vcore=3
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=3, used nothing, occupied nothing, left vcore=3
            o is Running
            o/k1 placed on n3
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=3, used vcore=2, occupied nothing, left vcore=1
            a1 in root.q1 is Running since 1000s: used vcore=4, pending nothing, holds [v1, v2], asks []
            o in root.q1 is Running since 1030s: used vcore=2, pending nothing, holds [k1], asks []
            g in root.q2 is Accepted since 1000s: used nothing, pending vcore=4, holds [], asks [(w) x4]
        "#]],
    );
}

/// The nominations of the whole gang end, and it may preempt again.
#[test]
fn a_drained_node_ends_the_gangs_nominations() {
    check(
        &two_of_three(
            "
            app g in root.q2 needs w x4 vcore=1 policy=both
            wait 30s
            drain n3
            show nodes
            undrain n3
            confirm *
            wait 15s
            show nodes
            show apps
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/v1 placed on n1
            n2 accepted
            a1/v2 placed on n2
            n3 accepted
            g accepted
            g is Accepted
            a1/v1 released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3 closed: total vcore=3, used nothing, occupied nothing, left vcore=3
            g is Running
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=3, used vcore=2, occupied nothing, left vcore=1
            a1 in root.q1 is Running since 1000s: used vcore=2, pending nothing, holds [v2], asks []
            g in root.q2 is Running since 1000s: used nothing, pending nothing, holds [(w~1), (w~2), (w~3), (w~4)], asks []
        "#]],
    );
}

#[test]
fn a_daemon_comes_before_a_gangs_nominations() {
    check(
        &two_of_three(
            "
            app g in root.q2 needs w x4 vcore=1 policy=both
            wait 30s
            app d in root.q2
            ask d k vcore=2 node=n3
            settle
            show nodes
            confirm *
            show nodes
            show apps
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/v1 placed on n1
            n2 accepted
            a1/v2 placed on n2
            n3 accepted
            g accepted
            g is Accepted
            a1/v1 released: PREEMPTED_BY_SCHEDULER
            d accepted
            d is Accepted
            d is Running
            d/k placed on n3
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=3, used vcore=2, occupied nothing, left vcore=1
            n1: total vcore=2, used nothing, occupied nothing, left vcore=2
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=3, used vcore=2, occupied nothing, left vcore=1
            a1 in root.q1 is Running since 1000s: used vcore=2, pending nothing, holds [v2], asks []
            d in root.q2 is Running since 1030s: used vcore=2, pending nothing, holds [k], asks []
            g in root.q2 is Accepted since 1000s: used nothing, pending vcore=4, holds [], asks [(w) x4]
        "#]],
    );
}

#[test]
fn a_group_without_preemption_blocks_the_gang() {
    check(
        &two_of_three(
            "
            app g in root.q2 needs w x3 vcore=1 policy=both needs v x1 vcore=1 policy=itself
            wait 3600s
            show queues
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/v1 placed on n1
            n2 accepted
            a1/v2 placed on n2
            n3 accepted
            g accepted
            g is Accepted
            root: used vcore=4, pending vcore=4, headroom vcore=3, running 1, priority 0
            root.q1: used vcore=4, pending nothing, headroom vcore=3, running 1, priority none
            root.q2: used nothing, pending vcore=4, headroom vcore=3, running 0, priority 0
        "#]],
    );
}

#[test]
fn a_gang_above_the_unused_guarantee_evicts_nothing() {
    check(
        &two_of_three(
            "
            app g in root.q2 needs w x5 vcore=1 policy=both
            wait 3600s
            show queues
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/v1 placed on n1
            n2 accepted
            a1/v2 placed on n2
            n3 accepted
            g accepted
            g is Accepted
            root: used vcore=4, pending vcore=5, headroom vcore=3, running 1, priority 0
            root.q1: used vcore=4, pending nothing, headroom vcore=3, running 1, priority none
            root.q2: used nothing, pending vcore=5, headroom vcore=3, running 0, priority 0
        "#]],
    );
}

#[test]
fn a_removed_gang_releases_its_nominations() {
    check(
        &two_of_three(
            "
            app g in root.q2 needs w x4 vcore=1 policy=both
            wait 30s
            remove-app g
            show nodes
            confirm *
            app o in root.q1
            ask o k x5 vcore=1
            show nodes
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/v1 placed on n1
            n2 accepted
            a1/v2 placed on n2
            n3 accepted
            g accepted
            g is Accepted
            a1/v1 released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=3, used nothing, occupied nothing, left vcore=3
            o accepted
            o is Accepted
            o is Running
            o/k#1 of k placed on n1
            o/k#2 of k placed on n3
            o/k#3 of k placed on n3
            o/k#4 of k placed on n1
            o/k#5 of k placed on n3
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=3, used vcore=3, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn a_member_larger_than_its_nomination_ends_all() {
    check(
        &two_of_three(
            "
            app g in root.q2 needs w x2 vcore=2 policy=both
            wait 30s
            show nodes
            ask g large vcore=3 group=w policy=both
            confirm *
            show nodes
            show apps
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/v1 placed on n1
            n2 accepted
            a1/v2 placed on n2
            n3 accepted
            g accepted
            g is Accepted
            a1/v1 released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=3, used nothing, occupied nothing, left vcore=3
            g is Running
            g/large placed on n3
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=3, used vcore=3, occupied nothing, left nothing
            a1 in root.q1 is Running since 1000s: used vcore=2, pending nothing, holds [v2], asks []
            g in root.q2 is Running since 1000s: used vcore=3, pending nothing, holds [large, (w~1)], asks []
        "#]],
    );
}

#[test]
fn a_refused_nominated_member_ends_all_nominations() {
    check(
        &two_of_three(
            "
            app g in root.q2 needs w x2 vcore=2 policy=both
            ask g k1 vcore=2 group=w policy=both
            wait 30s
            show nodes
            refuse k1 n1
            refuse k1 n2
            confirm *
            show nodes
            show apps
            ",
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/v1 placed on n1
            n2 accepted
            a1/v2 placed on n2
            n3 accepted
            g accepted
            g is Accepted
            a1/v1 released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=3, used nothing, occupied nothing, left vcore=3
            g is Running
            g/k1 placed on n3
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=3, used vcore=2, occupied nothing, left vcore=1
            a1 in root.q1 is Running since 1000s: used vcore=2, pending nothing, holds [v2], asks []
            g in root.q2 is Running since 1000s: used vcore=2, pending nothing, holds [k1, (w~1)], asks []
        "#]],
    );
}

#[test]
fn a_single_domain_group_preempts_in_one_domain() {
    check(
        "
        queue root.q1 guaranteed vcore=4
        queue root.q2 guaranteed vcore=4
        node n1 vcore=2 attr rack=a
        node n2 vcore=2 attr rack=b
        node n3 vcore=2 attr rack=b
        node n4 vcore=2 attr rack=a
        app a1 in root.q1
        ask a1 v x4 vcore=2 policy=both
        settle
        app g in root.q2 needs w x4 vcore=1 within=rack policy=both
        wait 30s
        show nodes
        confirm *
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n4 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/v#1 of v placed on n1
            a1/v#2 of v placed on n2
            a1/v#3 of v placed on n3
            a1/v#4 of v placed on n4
            g accepted
            g is Accepted
            a1/v#1 of v released: PREEMPTED_BY_SCHEDULER
            a1/v#4 of v released: PREEMPTED_BY_SCHEDULER
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=2, used vcore=2, occupied nothing, left nothing
            n4: total vcore=2, used vcore=2, occupied nothing, left nothing
            g is Running
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n3: total vcore=2, used vcore=2, occupied nothing, left nothing
            n4: total vcore=2, used vcore=2, occupied nothing, left nothing
        "#]],
    );
}

/// The gang has one member more than it needs: the first victim leaves enough, the second does not.
#[test]
fn a_victim_that_leaves_its_gang_short_is_marked() {
    events::check(
        "
        queue root.q1 guaranteed vcore=1
        queue root.q2 guaranteed vcore=2
        node n1 vcore=4
        app g in root.q1 needs w x3 vcore=1
        ask g m x4 vcore=1 group=w
        settle
        app a2 in root.q2
        ",
        "
        ask a2 k1 vcore=1 policy=both
        wait 30s
        confirm *
        ask a2 k2 vcore=1 policy=both
        wait 30s
        confirm *
        ",
        &expect![[r#"
            APP a2 SET APP_ACCEPTED
            APP a2 ADD APP_REQUEST of k1 vcore=1
            REQUEST m NONE DETAILS_NONE of g vcore=1: preempted for ask `k1` of application `a2`: queue `root.q2` takes back what it is guaranteed
            NODE n1 ADD NODE_RESERVATION of k1 vcore=1
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.q1 vcore=1
            APP g REMOVE ALLOC_PREEMPT of m#1 vcore=1
            NODE n1 REMOVE NODE_ALLOC of m#1 vcore=1
            NODE n1 REMOVE NODE_RESERVATION of k1 vcore=1
            APP a2 SET APP_RUNNING
            NODE n1 ADD NODE_ALLOC of k1 vcore=1
            USERGROUP ada ADD UG_USER_RESOURCE of root.q2 vcore=1
            APP a2 ADD APP_ALLOC of k1 vcore=1
            APP a2 ADD APP_REQUEST of k2 vcore=1
            REQUEST m NONE DETAILS_NONE of g vcore=1: preempted for ask `k2` of application `a2`: queue `root.q2` takes back what it is guaranteed; its task group has fewer members now than it needs
            NODE n1 ADD NODE_RESERVATION of k2 vcore=1
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.q1 vcore=1
            APP g REMOVE ALLOC_PREEMPT of m#2 vcore=1
            NODE n1 REMOVE NODE_ALLOC of m#2 vcore=1
            APP g NONE DETAILS_NONE of w: 2 of 3 members of task group w run; 1 was lost and goes before others of its queue and priority
            NODE n1 REMOVE NODE_RESERVATION of k2 vcore=1
            NODE n1 ADD NODE_ALLOC of k2 vcore=1
            USERGROUP ada ADD UG_USER_RESOURCE of root.q2 vcore=1
            APP a2 ADD APP_ALLOC of k2 vcore=1
        "#]],
    );
}

/// A gang that lost its places to another asks for them again, and comes after it.
#[test]
fn a_losing_gang_waits_for_its_preemptor() {
    check(
        "
        queue root.q1 guaranteed vcore=2
        queue root.q2 guaranteed vcore=4
        node n1 vcore=4
        node n2 vcore=2
        app a1 in root.q1
        ask a1 v vcore=2
        settle
        app h in root.q1 needs w x2 vcore=2
        settle
        show nodes
        app g in root.q2 needs w x2 vcore=2 policy=both
        wait 30s
        show nodes
        confirm *
        show nodes
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/v placed on n1
            h accepted
            h is Accepted
            h is Running
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            g accepted
            g is Accepted
            g is Running
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            a1 in root.q1 is Running since 1000s: used vcore=2, pending nothing, holds [v], asks []
            h in root.q1 is Running since 1000s: used nothing, pending vcore=4, holds [], asks [(w) x2]
            g in root.q2 is Running since 1000s: used nothing, pending nothing, holds [(w~1), (w~2)], asks []
        "#]],
    );
}
