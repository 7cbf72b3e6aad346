//! Declared gangs that lost members come before others of their queue and priority, for as many
//! members as they lost and need (`docs/gangs.md#members-that-are-lost`).

use expect_test::expect;

use crate::explained;
use crate::world::check;

/// A gang of two is running, and an older application of its queue has a pending ask; then a node
/// with one of the two is removed.
const TWO: &str = "
    queue root.q
    node n0 gpu=1 ; node n1 gpu=1 ; node n2 gpu=1
    app gang in root.q needs w x2 gpu=1
    ask gang w0 gpu=1 group=w ; ask gang w1 gpu=1 group=w
    app fill in root.q
    ask fill f x3 gpu=1 created=1
    remove n0
";

#[test]
fn a_member_lost_with_its_node_comes_first() {
    check(
        &format!("{TWO} ask gang w2 gpu=1 group=w\n node n0 gpu=1\n show apps"),
        &expect![[r#"
        n0 accepted
        n1 accepted
        n2 accepted
        gang accepted
        gang is Accepted
        gang is Running
        gang/w0 placed on n0
        gang/w1 placed on n1
        fill accepted
        fill is Accepted
        fill is Running
        fill/f#1 of f placed on n2
        gang/w0 released: STOPPED_BY_RM
        n0 accepted
        gang/w2 placed on n0
        fill in root.q is Running since 1s: used gpu=1, pending gpu=2, holds [f], asks [f x2]
        gang in root.q is Running since 1000s: used gpu=2, pending nothing, holds [w1, w2], asks []
    "#]],
    );
}

#[test]
fn a_member_that_ended_itself_has_no_priority() {
    let text = TWO.replace("remove n0", "release gang key=w0 ; ask gang w2 gpu=1 group=w");
    check(
        &format!("{text}\n show apps"),
        &expect![[r#"
        n0 accepted
        n1 accepted
        n2 accepted
        gang accepted
        gang is Accepted
        gang is Running
        gang/w0 placed on n0
        gang/w1 placed on n1
        fill accepted
        fill is Accepted
        fill is Running
        fill/f#1 of f placed on n2
        gang/w0 released: STOPPED_BY_RM
        fill/f#2 of f placed on n0
        fill in root.q is Running since 1s: used gpu=2, pending gpu=1, holds [f, f], asks [f x1]
        gang in root.q is Running since 1000s: used gpu=1, pending gpu=1, holds [w1], asks [w2 x1]
    "#]],
    );
}

#[test]
fn a_higher_priority_still_comes_first() {
    let text = TWO.replace("ask fill f x3 gpu=1 created=1", "ask fill f x3 gpu=1 prio=1");
    check(
        &format!("{text} ask gang w2 gpu=1 group=w\n node n0 gpu=1\n show apps"),
        &expect![[r#"
        n0 accepted
        n1 accepted
        n2 accepted
        gang accepted
        gang is Accepted
        gang is Running
        gang/w0 placed on n0
        gang/w1 placed on n1
        fill accepted
        fill is Accepted
        fill is Running
        fill/f#1 of f placed on n2
        gang/w0 released: STOPPED_BY_RM
        n0 accepted
        fill/f#2 of f placed on n0
        fill in root.q is Running since 1000s: used gpu=2, pending gpu=1, holds [f, f], asks [f x1]
        gang in root.q is Running since 1000s: used gpu=1, pending gpu=1, holds [w1], asks [w2 x1]
    "#]],
    );
}

/// Lost members come first in leaves of every sort policy.
#[test]
fn lost_members_come_first_in_every_sort_policy() {
    let expected = expect![[r#"
        n0 accepted
        n1 accepted
        n2 accepted
        gang accepted
        gang is Accepted
        gang is Running
        gang/w0 placed on n0
        gang/w1 placed on n1
        fill accepted
        fill is Accepted
        fill is Running
        fill/f#1 of f placed on n2
        gang/w0 released: STOPPED_BY_RM
        n0 accepted
        gang/w2 placed on n0
        fill in root.q is Running since 1s: used gpu=1, pending gpu=2, holds [f], asks [f x2]
        gang in root.q is Running since 1000s: used gpu=2, pending nothing, holds [w1, w2], asks []
    "#]];
    for property in [
        "prop application.sort.policy=fair",
        "prop application.sort.priority=disabled",
        "prop application.sort.policy=fair prop application.sort.priority=disabled",
    ] {
        let text = TWO.replace("queue root.q", &format!("queue root.q {property}"));
        let text = format!("{text} ask gang w2 gpu=1 group=w\n node n0 gpu=1\n show apps");
        check(&text, &expected);
    }
}

#[test]
fn between_queues_their_order_decides() {
    let text = TWO
        .replace("app fill in root.q", "app fill in root.a")
        .replace("queue root.q", "queue root.q\nqueue root.a guaranteed gpu=3");
    check(
        &format!("{text} ask gang w2 gpu=1 group=w\n node n0 gpu=1\n show apps"),
        &expect![[r#"
        n0 accepted
        n1 accepted
        n2 accepted
        gang accepted
        gang is Accepted
        gang is Running
        gang/w0 placed on n0
        gang/w1 placed on n1
        fill accepted
        fill is Accepted
        fill is Running
        fill/f#1 of f placed on n2
        gang/w0 released: STOPPED_BY_RM
        n0 accepted
        fill/f#2 of f placed on n0
        fill in root.a is Running since 1s: used gpu=2, pending gpu=1, holds [f, f], asks [f x1]
        gang in root.q is Running since 1000s: used gpu=1, pending gpu=1, holds [w1], asks [w2 x1]
    "#]],
    );
}

/// Four run and two are needed: only a loss that leaves the gang short counts.
#[test]
fn only_missing_needed_members_come_first() {
    check(
        "
        queue root.q
        node n0 gpu=2 ; node n1 gpu=1 ; node n2 gpu=1 ; node n3 gpu=0
        app gang in root.q needs w x2 gpu=1
        ask gang w0 gpu=1 group=w ; ask gang w1 gpu=1 group=w
        ask gang w2 gpu=1 group=w ; ask gang w3 gpu=1 group=w
        app fill in root.q
        ask fill f x4 gpu=1 created=1
        remove n1
        remove n0
        ask gang x1 x3 gpu=1 group=w
        node n4 gpu=1
        node n5 gpu=1
        show apps
        ",
        &expect![[r#"
            n0 accepted
            n1 accepted
            n2 accepted
            n3 accepted
            gang accepted
            gang is Accepted
            gang is Running
            gang/w0 placed on n0
            gang/w1 placed on n0
            gang/w2 placed on n1
            gang/w3 placed on n2
            fill accepted
            fill is Accepted
            gang/w2 released: STOPPED_BY_RM
            gang/w1 released: STOPPED_BY_RM
            gang/w0 released: STOPPED_BY_RM
            n4 accepted
            gang/x1#1 of x1 placed on n4
            n5 accepted
            fill is Running
            fill/f#1 of f placed on n5
            fill in root.q is Running since 1s: used gpu=1, pending gpu=3, holds [f], asks [f x3]
            gang in root.q is Running since 1000s: used gpu=2, pending gpu=2, holds [w3, x1], asks [x1 x2]
        "#]],
    );
}

#[test]
fn a_preempted_member_counts_as_lost() {
    check(
        "
        queue root.q
        queue root.high guaranteed gpu=1
        node n1 gpu=2
        app gang in root.q needs w x2 gpu=1
        ask gang w0 gpu=1 group=w ; ask gang w1 gpu=1 group=w
        app fill in root.q
        ask fill f x2 gpu=1 created=1
        app high in root.high
        ask high h gpu=1 created=1 policy=both
        settle
        confirm *
        ask gang w2 gpu=1 group=w
        node n2 gpu=1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            gang accepted
            gang is Accepted
            gang is Running
            gang/w0 placed on n1
            gang/w1 placed on n1
            fill accepted
            fill is Accepted
            high accepted
            high is Accepted
            gang/w0 released: PREEMPTED_BY_SCHEDULER
            high is Running
            high/h placed on n1
            n2 accepted
            gang/w2 placed on n2
            high in root.high is Running since 1s: used gpu=1, pending nothing, holds [h], asks []
            fill in root.q is Accepted since 1s: used nothing, pending gpu=2, holds [], asks [f x2]
            gang in root.q is Running since 1000s: used gpu=2, pending nothing, holds [w1, w2], asks []
        "#]],
    );
}

/// Other asks use the capacity during the back-off of the member. After it, the member comes first.
#[test]
fn a_failed_member_comes_first_after_its_back_off() {
    check(
        "
        queue root.q
        node n1 gpu=2
        app gang in root.q needs w x2 gpu=1
        ask gang w0 gpu=1 group=w ; ask gang w1 gpu=1 group=w
        app fill in root.q
        ask fill f x3 gpu=1 created=1
        release gang key=w0 as SCHEDULING_FAILED_ON_RM
        node n2 gpu=1
        wait 1s
        node n3 gpu=1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            gang accepted
            gang is Accepted
            gang is Running
            gang/w0 placed on n1
            gang/w1 placed on n1
            fill accepted
            fill is Accepted
            fill is Running
            fill/f#1 of f placed on n1
            n2 accepted
            fill/f#2 of f placed on n2
            n3 accepted
            gang/w0 placed on n3
            fill in root.q is Running since 1s: used gpu=2, pending gpu=1, holds [f, f], asks [f x1]
            gang in root.q is Running since 1000s: used gpu=2, pending nothing, holds [w0, w1], asks []
        "#]],
    );
}

/// A lost member also comes before older asks of its own application, of other groups or of none.
#[test]
fn a_lost_member_comes_first_in_its_application() {
    check(
        "
        queue root.q
        node n1 gpu=1 ; node n2 gpu=1
        app gang in root.q needs d x1 gpu=1 needs w x1 gpu=1
        ask gang d0 gpu=1 group=d ; ask gang w0 gpu=1 group=w
        ask gang w1 gpu=1 group=w created=1 ; ask gang other gpu=1 created=1
        remove n1
        ask gang d1 gpu=1 group=d
        node n3 gpu=1
        node n4 gpu=1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            gang accepted
            gang is Accepted
            gang is Running
            gang/d0 placed on n1
            gang/w0 placed on n2
            gang/d0 released: STOPPED_BY_RM
            n3 accepted
            gang/d1 placed on n3
            n4 accepted
            gang/w1 placed on n4
            gang in root.q is Running since 1s: used gpu=3, pending gpu=1, holds [d1, w0, w1], asks [other x1]
        "#]],
    );
}

/// An expired held place is not a lost member.
#[test]
fn an_expired_held_place_is_not_lost() {
    check(
        "
        queue root.q
        node n1 gpu=2
        app gang in root.q needs w x2 gpu=1 timeout 5000
        ask gang w0 gpu=1 group=w
        app fill in root.q
        ask fill f x1 gpu=1 created=1
        wait 6s
        ask gang w1 gpu=1 group=w
        show apps
        ",
        &expect![[r#"
            n1 accepted
            gang accepted
            gang is Accepted
            gang is Running
            gang/w0 placed on n1
            fill accepted
            fill is Accepted
            fill is Running
            fill/f placed on n1
            fill in root.q is Running since 1s: used gpu=1, pending nothing, holds [f], asks []
            gang in root.q is Running since 1000s: used gpu=1, pending gpu=1, holds [w0], asks [w1 x1]
        "#]],
    );
}

/// A member that takes the place held for another one does not replace the lost member.
#[test]
fn a_taken_held_place_replaces_no_lost_member() {
    check(
        "
        queue root.q
        node n1 gpu=1 ; node n2 gpu=1 ; node n3 gpu=1
        app gang in root.q needs w x3 gpu=1
        ask gang w0 gpu=1 group=w ; ask gang w1 gpu=1 group=w
        app fill in root.q
        ask fill f x2 gpu=1 created=1
        show apps
        remove n1
        ask gang w2 gpu=1 group=w ; ask gang w3 gpu=1 group=w
        show apps
        node n4 gpu=1
        node n5 gpu=1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            gang accepted
            gang is Accepted
            gang is Running
            gang/w0 placed on n1
            gang/w1 placed on n2
            fill accepted
            fill is Accepted
            fill in root.q is Accepted since 1s: used nothing, pending gpu=2, holds [], asks [f x2]
            gang in root.q is Running since 1000s: used gpu=2, pending nothing, holds [w0, w1, (w~3)], asks []
            gang/w0 released: STOPPED_BY_RM
            gang/w2 placed on n3
            fill in root.q is Accepted since 1s: used nothing, pending gpu=2, holds [], asks [f x2]
            gang in root.q is Running since 1000s: used gpu=2, pending gpu=1, holds [w1, w2], asks [w3 x1]
            n4 accepted
            gang/w3 placed on n4
            n5 accepted
            fill is Running
            fill/f#1 of f placed on n5
            fill in root.q is Running since 1s: used gpu=1, pending gpu=1, holds [f], asks [f x1]
            gang in root.q is Running since 1000s: used gpu=3, pending nothing, holds [w1, w2, w3], asks []
        "#]],
    );
}

#[test]
fn a_held_place_lost_with_its_node_counts() {
    check(
        "
        queue root.q
        node n1 gpu=2 ; node n2 gpu=1
        app gang in root.q needs w x3 gpu=1
        ask gang w0 gpu=1 group=w ; ask gang w1 gpu=1 group=w
        app fill in root.q
        ask fill f x2 gpu=1 created=1
        show apps
        remove n2
        ask gang w2 gpu=1 group=w ; ask gang w3 gpu=1 group=w
        node n3 gpu=1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            gang accepted
            gang is Accepted
            gang is Running
            gang/w0 placed on n1
            gang/w1 placed on n1
            fill accepted
            fill is Accepted
            fill in root.q is Accepted since 1s: used nothing, pending gpu=2, holds [], asks [f x2]
            gang in root.q is Running since 1000s: used gpu=2, pending nothing, holds [w0, w1, (w~3)], asks []
            n3 accepted
            gang/w2 placed on n3
            fill in root.q is Accepted since 1s: used nothing, pending gpu=2, holds [], asks [f x2]
            gang in root.q is Running since 1000s: used gpu=3, pending gpu=1, holds [w0, w1, w2], asks [w3 x1]
        "#]],
    );
}

#[test]
fn an_entry_counts_running_members() {
    let text = TWO.replace("gang in", "a1 in").replace("ask gang", "ask a1");
    // The name of another type may be dropped with the scheduler, before the entry is written.
    let text = text.replace("gpu", "vcore");
    explained::check(
        &format!("{text} ask a1 w2 vcore=1 group=w"),
        &expect![[r#"
            w2 x1: noNode n1 since 1000s
              no node has room (2 nodes: 2 lack cores); 0.001 cores more on n1, which comes nearest, would let this ask run
              - noNode n1: vcore=1; vcore=0 of vcore=1
              cure: free 0.001 cores on node n1
              gang: 1 of 2 members of task group w runs; 1 was lost and goes before others of its queue and priority
              + nodeRoom n1 vcore=1 0 0
        "#]],
    );
}
