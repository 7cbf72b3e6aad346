//! Allocations that the resource manager could not start: their requests wait, twice as long each
//! time, and others use the capacity (`docs/scheduling.md#starts-that-fail`).

use expect_test::expect;
use monoceros_actors::{DecisionFilter, Page};

use crate::explained;
use crate::world::{How, check, check_plain, counted};

/// One device, and two applications that need it; the older one can never be started.
const ZOMBIE: &str = "
    queue root.q
    node n1 gpu=1
    app zombie in root.q
    app good in root.q
    ask zombie z gpu=1 created=700
    ask good g gpu=1 created=990
";

#[test]
fn capacity_of_a_failed_start_goes_to_others() {
    check(
        &format!(
            "{ZOMBIE}
            release zombie key=z as SCHEDULING_FAILED_ON_RM
            show apps
            release good key=g
            wait 999ms
            show apps
            wait 1ms
            release zombie key=z as SCHEDULING_FAILED_ON_RM
            wait 1999ms
            show apps
            wait 1ms
            "
        ),
        &expect![[r#"
            n1 accepted
            zombie accepted
            good accepted
            zombie is Accepted
            zombie is Running
            zombie/z placed on n1
            good is Accepted
            good is Running
            good/g placed on n1
            good in root.q is Running since 990s: used gpu=1, pending nothing, holds [g], asks []
            zombie in root.q is Running since 700s: used nothing, pending gpu=1, holds [], asks [z x1]
            good/g released: STOPPED_BY_RM
            good is Completing
            good in root.q is Completing since 990s: used nothing, pending nothing, holds [], asks []
            zombie in root.q is Running since 700s: used nothing, pending gpu=1, holds [], asks [z x1]
            zombie/z placed on n1
            good in root.q is Completing since 990s: used nothing, pending nothing, holds [], asks []
            zombie in root.q is Running since 700s: used nothing, pending gpu=1, holds [], asks [z x1]
            zombie/z placed on n1
        "#]],
    );
}

#[test]
fn immediate_failures_are_retried_a_bounded_number_of_times() {
    let text = ZOMBIE.replace("ask good g gpu=1 created=990", "");
    let (tries, events, decisions, counted) = explained::after(How::Plain, &text, async |world| {
        let mut tries = Vec::new();
        let mut second = 0;
        while second <= 300 {
            let notified = world.take_played().text;
            if notified.contains("zombie/z placed on n1") {
                tries.push(second);
                world.play("release zombie key=z as SCHEDULING_FAILED_ON_RM").await;
            } else {
                world.play("wait 1s").await;
                second += 1;
            }
        }
        let events = world.scheduler.events().range(0, 0).highest + 1;
        let (all, page) = (DecisionFilter::default(), Page::default());
        let kept = world.scheduler.list_decisions("default", all, page).await.unwrap();
        let counted = counted(&world.scheduler, "monoceros_failed_starts_total", None);
        (tries, events, kept.rows.len(), counted)
    });
    assert_eq!(tries, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
    assert_eq!((decisions, counted), (10, 10));
    assert!(events < 120, "{events} events");
}

#[test]
fn nodes_of_failed_starts_come_last() {
    check(
        "
        queue root.q
        node n1 vcore=1 ; node n2 vcore=1 ; node n3 vcore=1
        app a1 in root.q
        ask a1 k1 vcore=1
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        wait 1s
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        wait 2s
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        drain n1
        wait 4s
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        undrain n1
        wait 8s
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 placed on n2
            a1/k1 placed on n3
            a1/k1 placed on n2
            a1/k1 placed on n1
        "#]],
    );
}

/// A ninth node replaces the first.
#[test]
fn eight_nodes_are_remembered() {
    let nodes: Vec<_> = (1..=9).map(|n| format!("node n{n} vcore=1")).collect();
    let nodes = nodes.join("\n");
    let mut script = format!("queue root.q\n{nodes}\napp a1 in root.q\nask a1 k1 vcore=1\n");
    for _ in 0..9 {
        script.push_str("release a1 key=k1 as SCHEDULING_FAILED_ON_RM\nwait 60s\n");
    }
    check(
        &script,
        &expect![[r#"
        n1 accepted
        n2 accepted
        n3 accepted
        n4 accepted
        n5 accepted
        n6 accepted
        n7 accepted
        n8 accepted
        n9 accepted
        a1 accepted
        a1 is Accepted
        a1 is Running
        a1/k1 placed on n1
        a1/k1 placed on n2
        a1/k1 placed on n3
        a1/k1 placed on n4
        a1/k1 placed on n5
        a1/k1 placed on n6
        a1/k1 placed on n7
        a1/k1 placed on n8
        a1/k1 placed on n9
        a1/k1 placed on n1
    "#]],
    );
}

/// Predicates are evaluated in the same order: the node of the last failure comes after all others
/// have refused.
#[test]
fn a_node_of_an_earlier_failure_is_asked_last() {
    check(
        "
        queue root.q
        node n1 vcore=1 ; node n2 vcore=1 ; node n3 vcore=1
        app a1 in root.q
        ask a1 k1 vcore=1
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        refuse k1 n2
        refuse k1 n3
        wait 1s
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 placed on n1
        "#]],
    );
}

/// Instances of one batch were made together: they share one back-off, and equal asks do not wait.
#[test]
fn failures_of_one_batch_share_one_back_off() {
    check(
        "
        queue root.q
        node n1 vcore=4
        app a1 in root.q
        ask a1 k1 x3 vcore=1
        ask a1 k2 vcore=1
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        release a1 key=k2
        ask a1 k3 vcore=1
        show apps
        wait 1s
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
            a1/k2 placed on n1
            a1/k2 released: STOPPED_BY_RM
            a1/k3 placed on n1
            a1 in root.q is Running since 1000s: used vcore=1, pending vcore=3, holds [k3], asks [k1 x3]
            a1/k1#4 of k1 placed on n1
            a1/k1#5 of k1 placed on n1
            a1/k1#6 of k1 placed on n1
            a1 in root.q is Running since 1000s: used vcore=4, pending nothing, holds [k1, k1, k1, k3], asks []
        "#]],
    );
}

/// A request with another size or priority, or a new request with the key, is tried at once. A
/// request that is repeated unchanged is not.
#[test]
fn a_changed_request_ends_its_back_off() {
    check(
        "
        queue root.q
        node n1 vcore=2
        app a1 in root.q
        request a1 k1 vcore=1 policy=none
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        request a1 k1 vcore=1 policy=none
        show apps
        request a1 k1 vcore=2 policy=none
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        request a1 k1 vcore=2 prio=3 policy=none
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        wait 1s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.q is Running since 1000s: used nothing, pending vcore=1, holds [], asks [k1 x1]
            a1/k1 placed on n1
            a1/k1 placed on n1
            a1/k1 placed on n1
        "#]],
    );
}

#[test]
fn a_replacing_request_starts_without_back_off() {
    check(
        "
        queue root.q
        node n1 vcore=2
        app a1 in root.q
        ask a1 k1 vcore=1
        release a1 uuid=k1 as SCHEDULING_FAILED_ON_RM
        ask a1 k1 vcore=1
        show apps
        ask a1 k1 vcore=2
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.q is Running since 1000s: used nothing, pending vcore=1, holds [], asks [k1 x1]
            a1/k1 placed on n1
            a1 in root.q is Running since 1000s: used vcore=2, pending nothing, holds [k1], asks []
        "#]],
    );
}

/// After a successful start the next failure counts as the first. A start counts as successful
/// after a minute without a failure report, or when the allocation is reported as running.
#[test]
fn a_successful_start_resets_the_count() {
    check(
        "
        queue root.q
        node n1 vcore=2
        app a1 in root.q
        request a1 k1 vcore=1
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        wait 1s
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        wait 2s
        wait 60s
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        wait 1s
        exists a1 k1 on n1 vcore=1
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        wait 1s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 placed on n1
            a1/k1 placed on n1
            a1/k1 placed on n1
            a1/k1 placed on n1
        "#]],
    );
}

/// After one allocation of a request has run for a minute, its other allocations are tried without
/// back-off, and may reserve a node.
#[test]
fn one_successful_instance_frees_the_whole_request() {
    check_plain(
        "
        queue root.q
        node n1 vcore=2 ; node n2 vcore=1 ; node n3 vcore=1
        app a1 in root.q
        ask a1 k1 x2 vcore=2 created=1
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        wait 1s
        show nodes
        wait 59s
        show nodes
        wait 1s
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=1, used nothing, occupied nothing, left vcore=1
            n3: total vcore=1, used nothing, occupied nothing, left vcore=1
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=1, used nothing, occupied nothing, left vcore=1
            n3: total vcore=1, used nothing, occupied nothing, left vcore=1
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing, reserved for [k1]
            n2: total vcore=1, used nothing, occupied nothing, left vcore=1
            n3: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

#[test]
fn a_failed_request_reserves_after_a_successful_start() {
    check(
        "
        queue root.q
        node n1 vcore=4 ; node n2 vcore=3
        app a1 in root.q
        app a2 in root.q
        ask a1 k1 vcore=4 created=1
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        ask a2 k1 vcore=2
        wait 20s
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
            a2/k1 placed on n1
            n1: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n2: total vcore=3, used nothing, occupied nothing, left vcore=3
        "#]],
    );
}

#[test]
fn a_failed_start_ends_the_requests_reservation() {
    check_plain(
        "
        queue root.q
        node n1 vcore=4 ; node n2 vcore=4 ; node n3 vcore=2
        app a1 in root.q
        app a2 in root.q
        ask a2 k1 vcore=2
        ask a1 k1 x2 vcore=4 created=1
        show nodes
        release a1 uuid=k1#1 as SCHEDULING_FAILED_ON_RM
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a2 accepted
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n2
            n1: total vcore=4, used vcore=2, occupied nothing, left vcore=2, reserved for [k1]
            n2: total vcore=4, used vcore=4, occupied nothing, left nothing
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
            n1: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n2: total vcore=4, used nothing, occupied nothing, left vcore=4
            n3: total vcore=2, used nothing, occupied nothing, left vcore=2
        "#]],
    );
}

#[test]
fn a_failed_request_preempts_after_a_successful_start() {
    check(
        "
        queue root.q1
        queue root.q2 guaranteed vcore=4
        node n1 vcore=4
        app a1 in root.q1
        app a2 in root.q2
        ask a2 k1 vcore=4 created=1 policy=both
        release a2 key=k1 as SCHEDULING_FAILED_ON_RM
        ask a1 k1 vcore=4
        wait 60s
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.q1 is Running since 1000s: used vcore=4, pending nothing, holds [k1], asks []
            a2 in root.q2 is Running since 1s: used nothing, pending vcore=4, holds [], asks [k1 x1]
        "#]],
    );
}

#[test]
fn a_required_node_is_retried_and_not_cleared() {
    check(
        "
        queue root.q
        node n1 vcore=4
        app a1 in root.q
        app a2 in root.q
        ask a1 k1 vcore=4 node=n1 prio=9
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        ask a2 k1 vcore=4 policy=itself
        wait 30s
        show nodes
        release a2 key=k1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            a2/k1 released: STOPPED_BY_RM
            a2 is Completing
            a1/k1 placed on n1
        "#]],
    );
}

#[test]
fn a_placeholder_that_could_not_be_started_waits() {
    check(
        "
        queue root.q
        node n1 vcore=2
        app a1 in root.q gang vcore=2
        ask a1 p1 vcore=1 placeholder=g
        ask a1 p2 vcore=1 placeholder=g
        ask a1 m1 vcore=1 group=g ; release a1 key=p2 as SCHEDULING_FAILED_ON_RM
        show apps
        show task-groups
        confirm *
        wait 1s
        show apps
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Running
            a1/p2 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1 in root.q is Running since 1000s: used nothing, pending vcore=1, holds [p1 for g], asks [p2 x1]
            a1/g: 2 placeholders of vcore=1, 0 replaced, 0 timed out
            a1/m1 placed on n1
            a1/p2 placed on n1
            a1 in root.q is Running since 1000s: used vcore=1, pending nothing, holds [m1, p2 for g], asks []
            a1/g: 2 placeholders of vcore=1, 1 replaced, 0 timed out
        "#]],
    );
}

/// The gang has one back-off for all of its members; another gang uses the capacity in the
/// meantime.
#[test]
fn a_gang_without_any_run_becomes_undecided() {
    check(
        "
        queue root.q
        node n1 vcore=2 ; node n2 vcore=2
        app a1 in root.q needs w x3 vcore=1
        app a2 in root.q needs w x3 vcore=1
        ask a1 w1 vcore=1 group=w ; ask a1 w2 vcore=1 group=w
        release a1 key=w1 as SCHEDULING_FAILED_ON_RM
        show apps
        release a1 key=w2 as SCHEDULING_FAILED_ON_RM
        show apps
        wait 1s
        remove-app a2
        release a1 key=w1 as SCHEDULING_FAILED_ON_RM ; release a1 key=w2 as SCHEDULING_FAILED_ON_RM
        wait 1999ms
        show apps
        wait 1ms
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a2 accepted
            a2 is Accepted
            a1/w1 placed on n2
            a1/w2 placed on n1
            a1 in root.q is Running since 1000s: used vcore=1, pending vcore=1, holds [w2, (w~3)], asks [w1 x1]
            a2 in root.q is Accepted since 1000s: used nothing, pending vcore=3, holds [], asks [(w) x3]
            a2 is Running
            a1 in root.q is Running since 1000s: used nothing, pending vcore=3, holds [], asks [(w) x1, w1 x1, w2 x1]
            a2 in root.q is Running since 1000s: used nothing, pending nothing, holds [(w~1), (w~2), (w~3)], asks []
            a1/w1 placed on n1
            a1/w2 placed on n2
            a1 in root.q is Running since 1000s: used nothing, pending vcore=3, holds [], asks [(w) x1, w1 x1, w2 x1]
            a1/w1 placed on n1
            a1/w2 placed on n2
            a1 in root.q is Running since 1000s: used vcore=2, pending nothing, holds [w1, w2, (w~5)], asks []
        "#]],
    );
}

/// A changed or added request makes it another gang, which is tried at once.
#[test]
fn a_changed_gang_is_tried_at_once() {
    check(
        "
        queue root.q
        node n1 vcore=4
        app a1 in root.q needs w x2 vcore=1
        ask a1 w1 vcore=1 group=w ; ask a1 w2 vcore=1 group=w
        release a1 key=w1 as SCHEDULING_FAILED_ON_RM ; release a1 key=w2 as SCHEDULING_FAILED_ON_RM
        show apps
        ask a1 w3 vcore=1 group=w
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/w1 placed on n1
            a1/w2 placed on n1
            a1 in root.q is Running since 1000s: used nothing, pending vcore=2, holds [], asks [w1 x1, w2 x1]
            a1/w1 placed on n1
            a1/w2 placed on n1
            a1/w3 placed on n1
            a1 in root.q is Running since 1000s: used vcore=3, pending nothing, holds [w1, w2, w3], asks []
        "#]],
    );
}

/// Requests of other groups, or without a group, do not change the gang.
#[test]
fn requests_outside_a_gang_keep_its_back_off() {
    check(
        "
        queue root.q
        node n1 vcore=4
        app a1 in root.q needs w x2 vcore=1
        ask a1 w1 vcore=1 group=w ; ask a1 w2 vcore=1 group=w
        release a1 key=w1 as SCHEDULING_FAILED_ON_RM ; release a1 key=w2 as SCHEDULING_FAILED_ON_RM
        ask a1 other vcore=1
        withdraw a1 other
        show apps
        wait 1s
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/w1 placed on n1
            a1/w2 placed on n1
            a1 in root.q is Running since 1000s: used nothing, pending vcore=2, holds [], asks [w1 x1, w2 x1]
            a1/w1 placed on n1
            a1/w2 placed on n1
            a1 in root.q is Running since 1000s: used vcore=2, pending nothing, holds [w1, w2], asks []
        "#]],
    );
}

/// If a member runs or ran, only the failed member waits.
#[test]
fn a_member_waits_alone_where_another_runs() {
    check(
        "
        queue root.q
        node n1 vcore=3
        app a1 in root.q needs w x2 vcore=1
        ask a1 w1 vcore=1 group=w ; ask a1 w2 vcore=1 group=w
        release a1 key=w1
        release a1 key=w2 as SCHEDULING_FAILED_ON_RM
        show apps
        wait 1s
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/w1 placed on n1
            a1/w2 placed on n1
            a1/w1 released: STOPPED_BY_RM
            a1 in root.q is Running since 1000s: used nothing, pending vcore=1, holds [], asks [w2 x1]
            a1/w2 placed on n1
            a1 in root.q is Running since 1000s: used vcore=1, pending nothing, holds [w2], asks []
        "#]],
    );
}

/// The members of the gang move to other nodes, if all of them can.
#[test]
fn a_gang_prefers_nodes_without_failed_starts() {
    check(
        "
        queue root.q
        node n1 vcore=2 ; node n2 vcore=2 ; node n3 vcore=2
        app a1 in root.q needs w x2 vcore=1
        ask a1 w1 vcore=2 group=w ; ask a1 w2 vcore=2 group=w
        release a1 key=w1 as SCHEDULING_FAILED_ON_RM ; release a1 key=w2 as SCHEDULING_FAILED_ON_RM
        wait 1s
        node n4 vcore=2
        release a1 key=w1 as SCHEDULING_FAILED_ON_RM ; release a1 key=w2 as SCHEDULING_FAILED_ON_RM
        node n5 vcore=2 ; node n6 vcore=2
        wait 2s
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/w1 placed on n1
            a1/w2 placed on n2
            a1/w1 placed on n2
            a1/w2 placed on n1
            n4 accepted
            n5 accepted
            n6 accepted
            a1/w1 placed on n3
            a1/w2 placed on n4
        "#]],
    );
}

#[test]
fn the_cause_has_count_time_and_message() {
    explained::check(
        "
        queue root.q
        node n1 vcore=1
        app a1 in root.q
        ask a1 k1 vcore=1
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        wait 1s
        wait 1s
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        ",
        &expect![[r#"
            k1 x1: startFailed  since 1000s
              the ask could not be started 2 times: `no image`
              - startFailed : -; - of -
              cure: wait until 1970-01-01T00:16:44.0Z
              + time  - 0 1004000
        "#]],
    );
}

#[test]
fn after_the_back_off_the_next_obstacle_is_shown() {
    explained::check(
        "
        queue root.q
        node n1 vcore=1
        app a1 in root.q
        app a2 in root.q
        ask a1 k1 vcore=1
        release a1 key=k1 as SCHEDULING_FAILED_ON_RM
        ask a2 k1 vcore=1
        wait 1s
        ",
        &expect![[r#"
            k1 x1: noNode n1 since 1001s
              no node has room (1 node: 1 lacks cores); 0.001 cores more on n1, which comes nearest, would let this ask run
              - noNode n1: vcore=1; vcore=0 of vcore=1
              cure: free 0.001 cores on node n1
              + nodeRoom n1 vcore=1 0 0
        "#]],
    );
}

#[test]
fn a_failed_gang_start_explains_the_whole_gang() {
    explained::check(
        "
        queue root.q
        node n1 vcore=4
        app a1 in root.q needs w x2 vcore=1
        ask a1 w1 vcore=1 group=w ; ask a1 w2 vcore=1 group=w
        release a1 key=w1 as SCHEDULING_FAILED_ON_RM ; release a1 key=w2 as SCHEDULING_FAILED_ON_RM
        ",
        &expect![[r#"
            the gang x2: startFailed  since 1000s
              no member of the gang runs: it could not be started: `no image`
              - startFailed : -; - of -
              cure: wait until 1970-01-01T00:16:41.0Z
              + time  - 0 1001000
            w1 x1: gang  since 0s
              nothing of the application is placed by itself before its gang is decided
              - gang : -; - of -
              cure: have the gang decided: its own entry says how
              + gangMembers  - 0 0
            w2 x1: gang  since 0s
              nothing of the application is placed by itself before its gang is decided
              - gang : -; - of -
              cure: have the gang decided: its own entry says how
              + gangMembers  - 0 0
        "#]],
    );
}
