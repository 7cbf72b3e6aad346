//! Kept decisions: the order at each level and its reason, skipped nodes, reservations, and
//! evictions with their preemptor. See `docs/decisions.md`.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use monoceros_actors::snapshot::DecisionSnapshot;
use monoceros_actors::{DecisionFilter, DecisionKind, Page, Scheduler};

use crate::explained::after;
use crate::quota_preemption::{then, three_of_six};
use crate::world::{How, in_virtual_time, register, send_lines};

/// Plays a script and compares its decisions, the oldest first.
#[track_caller]
fn check(text: &str, expect: &Expect) {
    let kept = kept(How::Plain, text);
    expect.assert_eq(&kept);
    assert_eq!(self::kept(How::OneAtATime, text), kept, "one decision after the other is the same");
}

#[track_caller]
fn check_as(how: How, text: &str, expect: &Expect) {
    expect.assert_eq(&kept(how, text));
}

fn kept(how: How, text: &str) -> String {
    let kept = after(how, text, async |world| {
        let (all, page) = (DecisionFilter::default(), Page::default());
        let kept = world.scheduler.list_decisions("default", all, page).await.unwrap().rows;
        let wrong = world.take_played().wrong;
        assert!(wrong.is_empty(), "{wrong:?}");
        kept
    });
    lines(&kept)
}

fn lines(kept: &[DecisionSnapshot]) -> String {
    let mut text = String::new();
    for it in kept.iter().rev() {
        let (id, kind, node) = (it.id, &it.kind, &it.node_id);
        let (app, key, queue) = (&it.application_id, &it.allocation_key, &it.queue_name);
        write!(text, "{id} {kind} {app}/{key} of {queue} on {node}: {}", it.ruled).unwrap();
        if it.decided_time > 0 {
            let waited = (it.time - it.decided_time) / 1_000_000;
            write!(text, " ({waited} ms before)").unwrap();
        }
        text.push('\n');
        for level in &it.levels {
            let (queue, order, chosen) = (&level.queue, &level.order, &level.chosen);
            let second = match level.runner_up.as_str() {
                "" => String::new(),
                second => format!(" before {second}"),
            };
            writeln!(text, "  {queue} by {order}: {chosen}{second}: {}", level.rule).unwrap();
        }
        if let Some(nodes) = &it.nodes {
            let passed = nodes.passed_over.iter();
            let passed = passed.map(|it| format!(", {} {} ({})", it.count, it.reason, it.example));
            writeln!(text, "  nodes: {} tried{}", nodes.tried, passed.collect::<String>()).unwrap();
        }
        if !it.preempted_for.is_empty() {
            writeln!(text, "  {}", it.preempted_for).unwrap();
        }
    }
    text
}

#[test]
fn fair_queues_take_turns_by_their_shares() {
    check(
        "
        queue root.a guaranteed vcore=10000
        queue root.b max vcore=10000
        app a1 in root.a
        app b1 in root.b
        ask a1 k x2 vcore=2000
        ask b1 k x2 vcore=1000
        node n1 vcore=20000
        ",
        &expect![[r#"
            1 allocation a1/k of root.a on n1: placed on the first node that fits
              root by priority, fair: root.a before root.b: its share is the same, and more is pending: 4 cores, not 2 cores
              root.a by priority, fifo: a1: no rival
              nodes: 1 tried
            2 allocation b1/k of root.b on n1: placed on the first node that fits
              root by priority, fair: root.b before root.a: its fair share 0 is smaller than 0.2
              root.b by priority, fifo: b1: no rival
              nodes: 1 tried
            3 allocation b1/k of root.b on n1: placed on the first node that fits
              root by priority, fair: root.b before root.a: its fair share 0.1 is smaller than 0.2
              root.b by priority, fifo: b1: no rival
              nodes: 1 tried
            4 allocation a1/k of root.a on n1: placed on the first node that fits
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a1: no rival
              nodes: 1 tried
        "#]],
    );
}

#[test]
fn decisions_name_the_order_of_applications() {
    check(
        "
        queue root.a prop application.sort.policy=fair
        queue root.b
        app a1 in root.a
        app a2 in root.a
        app b1 in root.b
        wait 1s
        app b2 in root.b
        ask a1 k x2 vcore=1000
        ask a2 k vcore=1000
        ask b1 k vcore=1000
        ask b2 k vcore=1000
        node n1 vcore=20000
        ",
        &expect![[r#"
            1 allocation a1/k of root.a on n1: placed on the first node that fits
              root by priority, fair: root.a before root.b: its share is the same, and more is pending: 3 cores, not 2 cores
              root.a by priority, fair: a1 before a2: nothing tells them apart but the name, which comes first in the alphabet
              nodes: 1 tried
            2 allocation b1/k of root.b on n1: placed on the first node that fits
              root by priority, fair: root.b before root.a: its fair share 0 is smaller than 0.05
              root.b by priority, fifo: b1 before b2: it was submitted at 1970-01-01T00:16:40.0Z, before 1970-01-01T00:16:41.0Z
              nodes: 1 tried
            3 allocation a2/k of root.a on n1: placed on the first node that fits
              root by priority, fair: root.a before root.b: its share is the same, and more is pending: 2 cores, not 1 core
              root.a by priority, fair: a2 before a1: its usage of 0 cores is smaller than 1 core
              nodes: 1 tried
            4 allocation b2/k of root.b on n1: placed on the first node that fits
              root by priority, fair: root.b before root.a: its fair share 0.05 is smaller than 0.1
              root.b by priority, fifo: b2: no rival
              nodes: 1 tried
            5 allocation a1/k of root.a on n1: placed on the first node that fits
              root by priority, fair: root.a: no rival
              root.a by priority, fair: a1: no rival
              nodes: 1 tried
        "#]],
    );
}

#[test]
fn priorities_decide_and_a_fence_shows_its_own() {
    check(
        "
        queue root.a prop priority.policy=fence prop priority.offset=7
        queue root.b
        app a1 in root.a
        app b1 in root.b
        ask a1 k vcore=1000 prio=1
        ask b1 k vcore=1000 prio=5
        node n1 vcore=20000
        ",
        &expect![[r#"
            1 allocation a1/k of root.a on n1: placed on the first node that fits
              root by priority, fair: root.a before root.b: its priority 7 is higher than 5 (that of its fence)
              root.a by priority, fifo: a1: no rival
              nodes: 1 tried
            2 allocation b1/k of root.b on n1: placed on the first node that fits
              root by priority, fair: root.b: no rival
              root.b by priority, fifo: b1: no rival
              nodes: 1 tried
        "#]],
    );
}

#[test]
fn a_full_queue_is_not_the_second_candidate() {
    check(
        "
        queue root.a max vcore=1000
        queue root.b
        queue root.c
        app a1 in root.a
        app b1 in root.b
        app c1 in root.c
        ask a1 k x2 vcore=1000
        ask b1 k vcore=1000
        ask c1 k vcore=1000
        node n1 vcore=20000
        wait 1s
        ask c1 j vcore=1000
        ask b1 j vcore=1000
        ",
        &expect![[r#"
            1 allocation a1/k of root.a on n1: placed on the first node that fits
              root by priority, fair: root.a before root.b: its share is the same, and more is pending: 2 cores, not 1 core
              root.a by priority, fifo: a1: no rival
              nodes: 1 tried
            2 allocation b1/k of root.b on n1: placed on the first node that fits
              root by priority, fair: root.b before root.c: nothing tells them apart but the name, which comes first in the alphabet
              root.b by priority, fifo: b1: no rival
              nodes: 1 tried
            3 allocation c1/k of root.c on n1: placed on the first node that fits
              root by priority, fair: root.c before root.a: its fair share 0 is smaller than 1
              root.c by priority, fifo: c1: no rival
              nodes: 1 tried
            4 allocation c1/j of root.c on n1: placed on the first node that fits
              root by priority, fair: root.c: no rival
              root.c by priority, fifo: c1: no rival
              nodes: 1 tried
            5 allocation b1/j of root.b on n1: placed on the first node that fits
              root by priority, fair: root.b: no rival
              root.b by priority, fifo: b1: no rival
              nodes: 1 tried
        "#]],
    );
}

#[test]
fn an_application_at_its_user_limit_is_no_second_candidate() {
    check(
        "
        queue root.a limit users=ann vcore=1000
        app a1 in root.a user ann
        app a2 in root.a user bob
        app a3 in root.a user bob
        ask a1 k x2 vcore=1000
        ask a2 k vcore=1000
        ask a3 k vcore=1000
        node n1 vcore=20000
        wait 1s
        ask a3 j vcore=1000
        ",
        &expect![[r#"
            1 allocation a1/k of root.a on n1: placed on the first node that fits
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a1 before a2: nothing tells them apart but the name, which comes first in the alphabet
              nodes: 1 tried
            2 allocation a2/k of root.a on n1: placed on the first node that fits
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a2 before a3: nothing tells them apart but the name, which comes first in the alphabet
              nodes: 1 tried
            3 allocation a3/k of root.a on n1: placed on the first node that fits
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a3: no rival
              nodes: 1 tried
            4 allocation a3/j of root.a on n1: placed on the first node that fits
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a3: no rival
              nodes: 1 tried
        "#]],
    );
}

#[test]
fn skipped_nodes_have_reasons() {
    check(
        "
        order binpacking vcore=1
        queue root.a
        node full vcore=4000
        node drains vcore=3000 drained
        node a-small vcore=1000
        node b-web vcore=5000 attr zone=b
        node n1 vcore=9000 attr zone=a
        app a1 in root.a
        ask a1 fill vcore=4000 node=full
        ask a1 k vcore=2000 where={\"simpleConstraint\":{\"nodeAffinityConstraint\":{\"targetExpressions\":[{\"targetKey\":\"zone\",\"targetOperator\":\"IN\",\"targetValues\":[\"a\"]}]}}}
        ",
        &expect![[r#"
            1 allocation a1/fill of root.a on full: placed on the only node that it may use
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a1: no rival
              nodes: 1 tried
            2 allocation a1/k of root.a on n1: placed on the first node that fits
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a1: no rival
              nodes: 1 tried, 1 takes nothing now (drains), 2 not enough room (full), 1 excluded by its constraint (b-web)
        "#]],
    );
}

#[test]
fn nodes_that_refuse_are_counted() {
    check_as(
        How::Plain,
        "
        queue root.a
        node n1 vcore=9000
        node n2 vcore=8000
        node n3 vcore=7000
        app a1 in root.a
        refuse k n1
        refuse k n2
        ask a1 k vcore=1000
        ",
        &expect![[r#"
            1 allocation a1/k of root.a on n3: placed on the first node that fits
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a1: no rival
              nodes: 3 tried, 2 refused by the predicate (n1)
        "#]],
    );
}

#[test]
fn a_late_answer_keeps_its_decision_notes() {
    check_as(
        How::Later(1),
        "
        queue root.a
        queue root.b
        node n1 vcore=9000
        node n2 vcore=8000
        app a1 in root.a
        app b1 in root.b
        refuse k n1
        ask a1 k vcore=1000
        ask b1 j x2 vcore=1000
        ",
        &expect![[r#"
            1 allocation a1/k of root.a on n2: placed on the first node that fits
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a1: no rival
              nodes: 2 tried, 1 refused by the predicate (n1)
            2 allocation b1/j of root.b on n1: placed on the first node that fits
              root by priority, fair: root.b: no rival
              root.b by priority, fifo: b1: no rival
              nodes: 1 tried
            3 allocation b1/j of root.b on n1: placed on the first node that fits
              root by priority, fair: root.b: no rival
              root.b by priority, fifo: b1: no rival
              nodes: 1 tried
        "#]],
    );
}

#[test]
fn a_node_is_reserved_and_then_used() {
    check(
        "
        queue root.a
        node n1 vcore=3000
        node n2 vcore=2000
        node n3 vcore=2000
        app a1 in root.a
        ask a1 small vcore=2000 node=n1
        ask a1 large vcore=3000
        wait 3s
        release a1 key=small
        ",
        &expect![[r#"
            1 allocation a1/small of root.a on n1: placed on the only node that it may use
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a1: no rival
              nodes: 1 tried
            2 reservation a1/large of root.a on n1: no node could be used, and this one lacks least
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a1: no rival
              nodes: 0 tried, 3 skipped by the index: not enough room ()
            3 allocation a1/large of root.a on n1: placed on the node that it had reserved
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a1: no rival
              nodes: 1 tried
        "#]],
    );
}

#[test]
fn a_daemon_decision_lists_its_victims() {
    check(
        "
        queue root.a
        node n1 vcore=3000
        app a1 in root.a
        app d in root.a
        ask a1 old vcore=2000 prio=1
        ask a1 new vcore=1000
        ask d daemon vcore=1000 prio=2 node=n1
        wait 1s
        confirm *
        ",
        &expect![[r#"
            1 allocation a1/old of root.a on n1: placed on the first node that fits
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a1: no rival
              nodes: 1 tried
            2 allocation a1/new of root.a on n1: placed on the first node that fits
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a1: no rival
              nodes: 1 tried
            3 reservation d/daemon of root.a on n1: the only node that it may use has no room yet
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: d: no rival
              nodes: 0 tried, 1 not enough room (n1)
            4 eviction a1/new of root.a on n1: leaves so that an ask gets the only node that it may use
              root.a by preemption: new before old: its priority 0 is lower than 1
              preempted for ask `daemon` of application `d`, which runs on node `n1` only
            5 allocation d/daemon of root.a on n1: placed on the only node that it may use
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: d: no rival
              nodes: 1 tried
        "#]],
    );
}

#[test]
fn a_queue_takes_back_its_guarantee() {
    check(
        "
        queue root.a guaranteed vcore=2000 prop preemption.delay=1s
        queue root.b
        node n1 vcore=3000
        app b1 in root.b
        ask b1 old vcore=1000
        wait 1s
        ask b1 mid vcore=1000
        wait 1s
        ask b1 new vcore=1000
        app a1 in root.a
        ask a1 k vcore=1000 policy=others
        wait 5s
        confirm *
        ",
        &expect![[r#"
            1 allocation b1/old of root.b on n1: placed on the first node that fits
              root by priority, fair: root.b: no rival
              root.b by priority, fifo: b1: no rival
              nodes: 1 tried
            2 allocation b1/mid of root.b on n1: placed on the first node that fits
              root by priority, fair: root.b: no rival
              root.b by priority, fifo: b1: no rival
              nodes: 1 tried
            3 allocation b1/new of root.b on n1: placed on the first node that fits
              root by priority, fair: root.b: no rival
              root.b by priority, fifo: b1: no rival
              nodes: 1 tried
            4 eviction b1/new of root.b on n1: leaves so that another queue gets back what it is guaranteed
              root.b by preemption: new before mid: it was asked for at 1970-01-01T00:16:42.0Z, after 1970-01-01T00:16:41.0Z
              preempted for ask `k` of application `a1`: queue `root.a` takes back what it is guaranteed
            5 reservation a1/k of root.a on n1: others leave the node for it
              nodes: 0 tried
            6 allocation a1/k of root.a on n1: placed on the node that it had reserved
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a1: no rival
              nodes: 1 tried
        "#]],
    );
}

#[test]
fn quota_preemption_decisions_name_the_queue() {
    let steps = format!("{}wait 61s\n", then(10));
    check(
        &three_of_six(&steps),
        &expect![[r#"
        1 allocation a/k of root.q on n1: placed on the first node that fits
          root by priority, fair: root.q: no rival
          root.q by priority, fifo: a: no rival
          nodes: 1 tried
        2 allocation a/k of root.q on n1: placed on the first node that fits
          root by priority, fair: root.q: no rival
          root.q by priority, fifo: a: no rival
          nodes: 1 tried
        3 allocation a/k of root.q on n1: placed on the first node that fits
          root by priority, fair: root.q: no rival
          root.q by priority, fifo: a: no rival
          nodes: 1 tried
        4 eviction a/k of root.q on n1: leaves because a queue is above its maximum
          root.q by preemption: k before k: they differ in size or name alone
          preempted because queue `root.q` is above its maximum
    "#]],
    );
}

#[test]
fn members_take_the_places_of_placeholders() {
    check_as(
        How::Plain,
        "
        queue root.a
        node n1 vcore=3000
        app a1 in root.a gang vcore=1000
        ask a1 p vcore=1000 placeholder=workers
        ask a1 r vcore=1000 group=workers
        wait 1s
        confirm *
        ",
        &expect![[r#"
            1 allocation a1/p of root.a on n1: placed on the first node that fits
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a1: no rival
              nodes: 1 tried
            2 allocation a1/r of root.a on n1: takes the place of a placeholder, on the same node (1000 ms before)
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a1: no rival
              nodes: 1 tried
        "#]],
    );
}

#[test]
fn gang_members_are_decided_together_and_take_held_places() {
    check_as(
        How::Plain,
        "
        queue root.a
        node n1 vcore=3000
        app a1 in root.a needs w x2 vcore=1000
        ask a1 k1 vcore=1000 group=w
        wait 1s
        ask a1 k2 vcore=1000 group=w
        ",
        &expect![[r#"
            1 allocation a1/k1 of root.a on n1: takes a place that was held for its gang
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a1: no rival
              nodes: 1 tried
            2 allocation a1/k2 of root.a on n1: takes a place that was held for its gang
              root by priority, fair: root.a: no rival
              root.a by priority, fifo: a1: no rival
              nodes: 1 tried
        "#]],
    );
}

#[test]
fn reported_allocations_are_no_decisions() {
    check(
        "
        queue root.a
        node n1 vcore=3000 holds a1/held vcore=1000
        app a1 in root.a
        exists a1 there on n1 vcore=1000
        ask a1 k vcore=1000
        ",
        &expect![""],
    );
}

#[test]
fn decisions_are_filtered_and_paged_newest_first() {
    let script = "
        queue root.a
        queue root.ab
        node n1 vcore=9000
        node n2 vcore=8000
        app a1 in root.a
        app b1 in root.ab
        ask a1 k x3 vcore=1000
        ask b1 j x2 vcore=1000
        ";
    after(How::Plain, script, async |world| {
        let listed = async |filter: DecisionFilter, page: Page| {
            world.scheduler.list_decisions("default", filter, page).await.unwrap()
        };
        let ids = async |filter: DecisionFilter| {
            let rows = listed(filter, Page::default()).await.rows;
            rows.iter().map(|it| it.id).collect::<Vec<_>>()
        };
        let all = DecisionFilter::default;
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(ids(all()).await, [5, 4, 3, 2, 1]);
        assert_eq!(ids(DecisionFilter { application: some("b1"), ..all() }).await, [5, 4]);
        assert_eq!(ids(DecisionFilter { queue: some("root.a"), ..all() }).await, [3, 2, 1]);
        assert_eq!(ids(DecisionFilter { queue: some("root"), ..all() }).await.len(), 5);
        assert_eq!(ids(DecisionFilter { key: some("j"), ..all() }).await, [5, 4]);
        assert_eq!(ids(DecisionFilter { node: some("n3"), ..all() }).await, [0_u64; 0]);
        let evictions = DecisionFilter { kind: Some(DecisionKind::Eviction), ..all() };
        assert_eq!(ids(evictions).await, [0_u64; 0]);
        let page = |after: Option<&str>| Page {
            after: after.map(ToOwned::to_owned),
            limit: Some(2),
            ..Page::default()
        };
        let first = listed(all(), page(None)).await;
        let second = listed(all(), page(first.next.as_deref())).await;
        let third = listed(all(), page(second.next.as_deref())).await;
        let of = |listed: &[DecisionSnapshot]| listed.iter().map(|it| it.id).collect::<Vec<_>>();
        assert_eq!(
            [of(&first.rows), of(&second.rows), of(&third.rows)],
            [vec![5, 4], vec![3, 2], vec![1]]
        );
        assert_eq!(third.next, None);
        let one = world.scheduler.decision("default", 4).await.unwrap();
        assert_eq!(one.map(|it| it.id), Some(4));
        assert_eq!(world.scheduler.decision("default", 6).await.unwrap(), None);
        let not_a_place = Page { after: some("x"), ..Page::default() };
        let refused = world.scheduler.list_decisions("default", all(), not_a_place).await;
        assert_eq!(refused.unwrap_err().to_string(), "`x` is no place in this list");
    });
}

#[test]
fn the_number_of_kept_decisions_is_a_setting() {
    for (most, kept) in [(3, vec![5, 4, 3]), (0, Vec::new())] {
        in_virtual_time(async {
            let scheduler = Scheduler::builder().decisions(most).start_local().unwrap();
            let recorder =
                std::sync::Arc::new(crate::recording_callback::RecordingCallback::default());
            register(&scheduler, "rm", crate::world::ONE_LEAF, recorder).await;
            let script = "
                node n1 vcore=9000
                app a1 in root.default
                ask a1 k x5 vcore=1000
                ";
            send_lines(&scheduler, "rm", script).await;
            let (all, page) = (DecisionFilter::default(), Page::default());
            let listed = scheduler.list_decisions("default", all, page).await.unwrap();
            assert_eq!(listed.rows.iter().map(|it| it.id).collect::<Vec<_>>(), kept);
            let partition = scheduler.partitions().await.remove(0);
            let count = kept.len() as u64;
            assert_eq!((partition.decisions_kept, partition.decisions), (most as u64, count));
            scheduler.shutdown().await;
        });
    }
}
