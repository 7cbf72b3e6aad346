//! Explanations of pending asks: each cause with its object, its numbers and its cure, several
//! obstacles at once, and asks without an explanation. `docs/explain.md` has the same table.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use monoceros_actors::snapshot::ExplanationSnapshot;
use monoceros_actors::{ExplainError, Predicates, Resources};

use crate::world::{How, World, in_virtual_time};

/// Plays a script and passes the world to `look`.
pub(crate) fn after<T>(how: How, text: &str, look: impl AsyncFnOnce(&mut World) -> T) -> T {
    in_virtual_time(async {
        let mut world = World::new(how);
        world.play(text).await;
        let seen = look(&mut world).await;
        world.scheduler.shutdown().await;
        seen
    })
}

/// Compares the explanations of the asks of `a1` after a script.
#[track_caller]
pub(crate) fn check(text: &str, expect: &Expect) {
    check_as(How::Plain, text, expect);
}

#[track_caller]
pub(crate) fn check_as(how: How, text: &str, expect: &Expect) {
    let explained =
        after(how, text, async |world| world.scheduler.explain("default", "a1", 0).await.unwrap());
    expect.assert_eq(&lines(&explained));
}

pub(crate) fn lines(explained: &[ExplanationSnapshot]) -> String {
    let mut text = String::new();
    for class in explained {
        let count = class.count;
        let keys = match &class.allocation_keys[..] {
            [] if class.task_group.is_empty() => "the gang".to_owned(),
            [] => format!("group {}", class.task_group),
            keys => keys.join(" "),
        };
        let (object, since) = (&class.object, class.since / 1_000_000_000);
        writeln!(text, "{keys} x{count}: {} {object} since {since}s", class.cause).unwrap();
        writeln!(text, "  {}", class.message).unwrap();
        for it in &class.obstacles {
            let (short, have, want) = (words(&it.short), words(&it.have), words(&it.want));
            writeln!(text, "  - {} {}: {short}; {have} of {want}", it.cause, it.object).unwrap();
        }
        writeln!(text, "  cure: {}", class.cure).unwrap();
        if !class.gang.is_empty() {
            writeln!(text, "  gang: {}", class.gang).unwrap();
        }
        for change in &class.changes {
            let (kind, object, at) = (&change.kind, &change.object, change.at / 1_000_000);
            let amount = words(&change.resource);
            writeln!(text, "  + {kind} {object} {amount} {} {at}", change.count).unwrap();
        }
    }
    text
}

fn words(amounts: &Resources) -> String {
    let entries: Vec<_> =
        amounts.sorted().iter().map(|(name, quantity)| format!("{name}={quantity}")).collect();
    if entries.is_empty() { "-".to_owned() } else { entries.join(" ") }
}

#[test]
fn a_queue_at_its_maximum() {
    check(
        "
        queue root.prod.etl max memory=42949672960
        node n1 memory=107374182400 vcore=100000
        app a1 in root.prod.etl
        ask a1 k1 memory=42949672960
        wait 5s
        ask a1 k2 memory=2147483648 vcore=1000 ; ask a1 k3 memory=2147483648 vcore=1000
        wait 5s
        ",
        &expect![[r#"
            k2 k3 x2: queueQuota root.prod.etl since 1005s
              root.prod.etl is at its maximum of memory (40 of 40 GiB used); 2 GiB more would let this ask run
              - queueQuota root.prod.etl: memory=2147483648; memory=0 of memory=2147483648
              cure: raise the maximum of root.prod.etl by 2 GiB of memory, or free as much there
              + quota root.prod.etl memory=2147483648 0 0
        "#]],
    );
}

#[test]
fn the_whole_cluster_lacks_capacity() {
    check(
        "
        queue root.a
        node n1 vcore=3000
        node n2 vcore=2000
        app a1 in root.a
        ask a1 k1 x2 vcore=2000
        ask a1 k2 vcore=2000
        ",
        &expect![[r#"
            k2 x1: noNode n1 since 1000s
              no node has room (2 nodes: 2 lack cores); 1 core more on n1, which comes nearest, would let this ask run
              - noNode n1: vcore=1000; vcore=1000 of vcore=2000
              cure: free 1 core on node n1
              + nodeRoom n1 vcore=1000 0 0
        "#]],
    );
}

#[test]
fn a_user_limit_and_a_group_limit_block() {
    check(
        "
        queue root.a limit users=ann vcore=3000 limit groups=dev vcore=4000
        node n1 vcore=90000
        app a1 in root.a user ann groups dev
        ask a1 k1 vcore=2000
        ask a1 k2 vcore=3000
        ",
        &expect![[r#"
            k2 x1: userQuota ann since 1000s
              user ann has too little left of cores (2 of 3 used) in root.a; 2 cores more would remove this obstacle
              - userQuota ann: vcore=2000; vcore=1000 of vcore=3000
              - userQuota dev: vcore=1000; vcore=2000 of vcore=3000
              cure: raise the limit of user ann in root.a by 2 cores, or free as much; and raise the limit of group dev in root.a by 1 core, or free as much
              + userLimit user ann in root.a vcore=2000 0 0
              + userLimit group dev in root.a vcore=1000 0 0
        "#]],
    );
}

#[test]
fn running_limits_of_queue_and_user_block() {
    check(
        "
        queue root.a maxapps=1 limit users=ann apps=1
        node n1 vcore=9000
        app a2 in root.a user ann
        ask a2 k1 vcore=1000
        app a1 in root.a user ann
        ask a1 k1 vcore=1000
        ",
        &expect![[r#"
            k1 x1: notRunnable root.a since 0s
              root.a runs as many applications as it may (1 of 1); one more would remove this obstacle
              - notRunnable root.a: -; - of -
              - notRunnable ann: -; - of -
              cure: let one more application run: root.a; and let one more application run: user ann in root.a
              + runningApplications root.a - 1 0
              + runningApplications user ann in root.a - 1 0
        "#]],
    );
}

#[test]
fn no_node_has_room() {
    check(
        "
        queue root.a
        node n1 vcore=4000 memory=4096
        node n2 vcore=4000 memory=1024
        node n3 vcore=9000 memory=9216 drained
        node n4 vcore=1000 memory=1024
        app a1 in root.a
        ask a1 k1 vcore=3000 memory=1024 node=n1
        ask a1 k2 vcore=2000 memory=2048
        ",
        &expect![[r#"
            k2 x1: noNode n1 since 1000s
              no node has room (4 nodes: 1 takes nothing now, 2 are too small, 1 lacks cores); 1 core more on n1, which comes nearest, would let this ask run
              - noNode n1: vcore=1000; vcore=1000 of vcore=2000
              cure: free 1 core on node n1
              + nodeRoom n1 vcore=1000 0 0
        "#]],
    );
}

#[test]
fn no_node_is_large_enough_or_exists() {
    check(
        "
        queue root.a
        node n1 vcore=4000
        node n2 vcore=2000
        app a1 in root.a
        ask a1 k1 vcore=5000
        ",
        &expect![[r#"
            k1 x1: noNode  since 1000s
              no node has room (2 nodes: 2 are too small); a node with 5 cores would let this ask run
              - noNode : -; - of -
              cure: add a node with at least 5 cores
              + node  vcore=5000 0 0
        "#]],
    );
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 vcore=5000
        ",
        &expect![[r#"
            k1 x1: noNode  since 0s
              no node has room (0 nodes); a node with 5 cores would let this ask run
              - noNode : -; - of -
              cure: add a node with at least 5 cores
              + node  vcore=5000 0 0
        "#]],
    );
}

#[test]
fn every_node_is_refused_by_a_predicate() {
    let text = "
        queue root.a
        node n1 vcore=4000
        node n2 vcore=4000
        node n3 vcore=500
        app a1 in root.a
        refuse k1 *
        ask a1 k1 vcore=1000 ; ask a1 k2 vcore=1000
    ";
    check(
        text,
        &expect![[r#"
            k1 x1: predicates  since 1000s
              all nodes with room were refused by predicates: `the script refuses` on 2 nodes (3 nodes: 1 is too small)
              - predicates : -; - of -
              cure: wait until 1970-01-01T00:16:41.0Z
              + time  - 0 1001000
        "#]],
    );
    check_as(
        How::Later(1),
        text,
        &expect![[r#"
            k1 x1: predicates  since 1000s
              all nodes with room were refused by predicates (3 nodes: 1 is too small)
              - predicates : -; - of -
              cure: wait until 1970-01-01T00:16:41.0Z
              + time  - 0 1001000
        "#]],
    );
}

/// The required node is missing, full, too small or refuses.
#[test]
fn a_required_node_cannot_take_the_ask() {
    check(
        "
        queue root.a
        node n1 vcore=4000
        node n2 vcore=1000
        node n3 vcore=4000
        app a1 in root.a
        refuse k5 n3
        ask a1 k1 vcore=3000 node=n1
        ask a1 k2 vcore=2000 node=n1
        ask a1 k3 vcore=2000 node=n2
        ask a1 k4 vcore=2000 node=n9
        ask a1 k5 vcore=2000 node=n3
        ",
        &expect![[r#"
            k2 x1: requiredNode n1 since 1000s
              node n1, which is required, lacks 1 core
              - requiredNode n1: vcore=1000; vcore=1000 of vcore=2000
              cure: free 1 core on node n1
              + nodeRoom n1 vcore=1000 0 0
            k3 x1: requiredNode n2 since 1000s
              node n2, which is required, is too small for 2 cores
              - requiredNode n2: -; - of -
              cure: make node n2 as large as 2 cores
              + node n2 vcore=2000 0 0
            k4 x1: requiredNode n9 since 1000s
              node n9, which is required, is not there
              - requiredNode n9: -; - of -
              cure: add node n9 with at least 2 cores
              + node n9 vcore=2000 0 0
            k5 x1: predicates n3 since 1000s
              node n3, which is required, was refused by predicates: `the script refuses` on 1 node
              - predicates n3: -; - of -
              cure: wait until 1970-01-01T00:16:41.0Z
              + time  - 0 1001000
        "#]],
    );
}

#[test]
fn a_node_that_drains_and_has_room() {
    check(
        "
        queue root.a
        node n1 vcore=1000
        node n2 vcore=4000 drained
        node n3 vcore=4000 attr ready=false drained
        node n4 vcore=4000 occupied vcore=3000 drained
        app a1 in root.a
        ask a1 k1 vcore=2000
        ",
        &expect![[r#"
            k1 x1: noNode n2 since 1000s
              no node has room (4 nodes: 3 take nothing now, 1 is too small); node n2, if it were opened, would let this ask run
              - noNode n2: -; - of -
              cure: open node n2
              + openNode n2 - 0 0
        "#]],
    );
}

#[test]
fn an_application_that_backs_off() {
    check(
        "
        queue root.a prop application.unschedasks.backoff=1
        node n1 vcore=4000
        node n2 vcore=4000
        app a1 in root.a
        ask a1 k1 vcore=5000 ; ask a1 k2 vcore=1000
        wait 3s
        ",
        &expect![[r#"
            k1 x1: delay  since 1000s
              the application is left alone for a while, because too many of its asks found no node
              - delay : -; - of -
              - noNode : -; - of -
              cure: wait until 1970-01-01T00:17:10.0Z; and add a node with at least 5 cores
              + time  - 0 1030000
              + node  vcore=5000 0 0
            k2 x1: delay  since 1000s
              the application is left alone for a while, because too many of its asks found no node
              - delay : -; - of -
              cure: wait until 1970-01-01T00:17:10.0Z
              + time  - 0 1030000
        "#]],
    );
}

#[test]
fn a_partition_that_is_stopped() {
    check(
        "
        queue root.a
        node n1 vcore=1000
        app a1 in root.a
        ask a1 k1 vcore=1000
        ask a1 k2 vcore=1000
        wait 2s
        state Stopped
        ",
        &expect![[r#"
            k2 x1: stopped default since 1002s
              partition default is stopped: nothing is decided until it is started
              - stopped default: -; - of -
              - noNode n1: vcore=1000; vcore=0 of vcore=1000
              cure: let default go on; and free 1 core on node n1
              + state default - 0 0
              + nodeRoom n1 vcore=1000 0 0
        "#]],
    );
}

#[test]
fn decisions_that_are_held_back() {
    let text = "
        queue root.a
        node n1 vcore=1000
        app a1 in root.a
    ";
    let explained = after(How::Plain, text, async |world| {
        let control = world.scheduler.control("rm").await.unwrap();
        control.hold(true);
        world.play("ask a1 k1 vcore=1000").await;
        world.scheduler.explain("default", "a1", 0).await.unwrap()
    });
    expect![[r#"
        k1 x1: held default since 1000s
          resource manager rm is away, catching up, or holds decisions back: nothing is decided in partition default until it is there
          - held default: -; - of -
          cure: start resource manager rm, or have it lift its hold
          + state rm - 0 0
    "#]].assert_eq(&lines(&explained));
}

#[test]
fn predicates_that_cannot_be_asked() {
    let text = "
        queue root.a
        node n1 vcore=1000
        app a1 in root.a
    ";
    let explained = after(How::Plain, text, async |world| {
        let control = world.scheduler.control("rm").await.unwrap();
        control.set_predicates(Predicates::Hold);
        world.play("ask a1 k1 vcore=1000").await;
        world.scheduler.explain("default", "a1", 0).await.unwrap()
    });
    expect![[r#"
        k1 x1: held default since 1000s
          resource manager rm cannot be asked about predicates: nothing is decided in partition default until its callback stream is open
          - held default: -; - of -
          cure: have resource manager rm open its callback stream
          + state rm - 0 0
    "#]].assert_eq(&lines(&explained));
}

/// Quota, nodes and a limit of running applications at once: all are listed, the outermost first.
#[test]
fn all_obstacles_are_listed_with_one_cure() {
    check(
        "
        queue root.a max vcore=4000 maxapps=1
        queue root.a.b max vcore=3000 maxapps=1 limit users=ann vcore=1000 apps=1
        node n1 vcore=4000
        app a2 in root.a.b user bob
        ask a2 k1 vcore=3000
        app a1 in root.a.b user ann
        ask a1 k1 vcore=2000
        ",
        &expect![[r#"
            k1 x1: notRunnable root.a since 0s
              root.a runs as many applications as it may (1 of 1); one more would remove this obstacle
              - notRunnable root.a: -; - of -
              - queueQuota root.a: vcore=1000; vcore=1000 of vcore=2000
              - notRunnable root.a.b: -; - of -
              - queueQuota root.a.b: vcore=2000; vcore=0 of vcore=2000
              - userQuota ann: vcore=1000; vcore=1000 of vcore=2000
              - noNode n1: vcore=1000; vcore=1000 of vcore=2000
              cure: free 1 core on node n1; and raise the maximum of root.a by 1 core, or free as much there; and raise the maximum of root.a.b by 2 cores, or free as much there; and raise the limit of user ann in root.a.b by 1 core, or free as much; and let one more application run: root.a; and let one more application run: root.a.b
              + nodeRoom n1 vcore=1000 0 0
              + quota root.a vcore=1000 0 0
              + quota root.a.b vcore=2000 0 0
              + userLimit user ann in root.a.b vcore=1000 0 0
              + runningApplications root.a - 1 0
              + runningApplications root.a.b - 1 0
        "#]],
    );
}

/// An ask that was not tried yet, because the one before it is waiting for an answer.
#[test]
fn an_ask_just_added_has_no_obstacle() {
    let text = "
        queue root.a
        queue root.b
        node n1 vcore=9000
        app a2 in root.b
        app a3 in root.a
        app a1 in root.a
    ";
    let explained = after(How::Later(1), text, async |world| {
        let control = world.scheduler.control("rm").await.unwrap();
        control.hold(true);
        let asks = "
            ask a2 k1 x3 vcore=2000
            ask a3 k1 vcore=1000
            ask a1 k9 x3 vcore=1000
            ask a1 k1 x2 vcore=1001
            ask a1 k2 vcore=1000
        ";
        world.play(asks).await;
        control.hold(false);
        // This read keeps its position among the requests, so it is processed after the end of the
        // hold.
        world.scheduler.nodes("default").await.unwrap();
        world.scheduler.explain("default", "a1", 0).await.unwrap()
    });
    expect![[r#"
        k1 x2: next  since 1000s
          nothing is in the way: it is tried in its turn
          cure: nothing has to change: the ask is tried in its turn
          + none  - 0 0
        k2 x1: next  since 1000s
          nothing is in the way: it is tried in its turn
          cure: nothing has to change: the ask is tried in its turn
          + none  - 0 0
    "#]]
    .assert_eq(&lines(&explained));
    let order: Vec<String> = explained[0].order.iter().map(|rank| format!("{rank:?}")).collect();
    expect![[r#"
        RankSnapshot { level: "queue", within: "root", rank: 2, of: 2, first: "root.b" }
        RankSnapshot { level: "application", within: "root.a", rank: 1, of: 2, first: "a1" }
        RankSnapshot { level: "ask", within: "a1", rank: 1, of: 2, first: "k1" }"#]]
    .assert_eq(&order.join("\n"));
}

#[test]
fn nodes_are_counted_by_obstacle() {
    let text = "
        queue root.a
        node n1 vcore=4000 memory=1000
        node n2 vcore=1000 memory=1000
        node n3 vcore=4000 memory=1000 drained
        node n4 vcore=4000 memory=1000 occupied vcore=3000
        node n5 vcore=4000 memory=1000 occupied vcore=3000 memory=500
        app a1 in root.a
        refuse k1 n1
        ask a1 k1 vcore=2000 memory=800
    ";
    let explained = after(How::Plain, text, async |world| {
        world.scheduler.explain("default", "a1", 0).await.unwrap()
    });
    let json = serde_json::to_string_pretty(&explained[0].nodes).unwrap();
    expect![[r#"
        {
          "total": 5,
          "closed": 1,
          "tooSmall": 1,
          "noRoom": {
            "memory": 1,
            "vcore": 2
          },
          "reserved": 0,
          "constraints": 0,
          "topology": 0,
          "predicates": {
            "the script refuses": 1
          }
        }"#]]
    .assert_eq(&json);
}

/// A class lists at most 100 keys, a reply 20 classes.
#[test]
fn keys_and_classes_of_an_explanation_are_bounded() {
    let mut text = "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
    "
    .to_owned();
    for number in 0..130 {
        writeln!(text, "ask a1 same{number} x2 vcore=5000 prio=1 &").unwrap();
    }
    for number in 0..45 {
        writeln!(text, "ask a1 other{number} vcore={} &", 6_000 + number).unwrap();
    }
    text.push_str("settle");
    after(How::Plain, &text, async |world| {
        let at = async |offset| world.scheduler.explain("default", "a1", offset).await.unwrap();
        let first = at(0).await;
        assert_eq!((first.len(), first[0].allocation_keys.len(), first[0].count), (20, 100, 260));
        assert_eq!(first[0].allocation_keys[..2], ["same0", "same1"]);
        let rest = [at(20).await, at(40).await, at(60).await].map(|classes| classes.len());
        assert_eq!(rest, [20, 6, 0]);
        assert_eq!(at(40).await[0].allocation_keys, ["other39"]);
        let rank = &at(40).await[0].order[2];
        assert_eq!((rank.rank, rank.of, &*rank.first), (41, 46, "same0"));
        let one = world.scheduler.explain_ask("default", "a1", "same120").await.unwrap();
        assert_eq!((one.len(), &*one[0].allocation_keys[0], one[0].count), (1, "same120", 260));
        let all = world.scheduler.explain_with_keys("default", "a1").await.unwrap();
        assert_eq!((all.len(), all[0].allocation_keys.len()), (20, 130));
    });
}

#[test]
fn missing_objects_are_named() {
    let text = "
        queue root.a
        node n1 vcore=1000
        app a1 in root.a
        ask a1 k1 vcore=1000
    ";
    after(How::Plain, text, async |world| {
        let handle = &world.scheduler;
        let error = handle.explain("default", "a9", 0).await.unwrap_err();
        assert_eq!(error, ExplainError::ApplicationNotFound("a9".to_owned()));
        assert_eq!(error.to_string(), "application `a9` not found");
        let error = handle.explain_ask("default", "a1", "k9").await.unwrap_err();
        assert_eq!(error.to_string(), "ask `k9` of application `a1` not found");
        let error = handle.explain("gpu", "a1", 0).await.unwrap_err();
        assert_eq!(error.to_string(), "partition `gpu` not found");
        assert_eq!(handle.explain_ask("default", "a1", "k1").await, Ok(vec![]), "it was placed");
        assert_eq!(handle.explain("default", "a1", 0).await, Ok(vec![]));
    });
}

/// The class is tried again when one more ask joins it. The time stays that of the first try.
#[test]
fn the_time_is_the_first_try_with_that_cause() {
    check(
        "
        queue root.a max vcore=4000
        node n1 vcore=90000
        app a1 in root.a
        ask a1 k1 vcore=3000
        wait 10s
        ask a1 k2 vcore=2000
        wait 10s
        ask a1 k3 vcore=2000
        wait 10s
        ",
        &expect![[r#"
            k2 k3 x2: queueQuota root.a since 1010s
              root.a leaves too little of cores (3 of 4 used); 1 core more would let this ask run
              - queueQuota root.a: vcore=1000; vcore=1000 of vcore=2000
              cure: raise the maximum of root.a by 1 core, or free as much there
              + quota root.a vcore=1000 0 0
        "#]],
    );
}

/// A quota that was enough for one of two asks was never an obstacle of the other.
#[test]
fn the_time_is_omitted_once_one_was_placed() {
    check(
        "
        queue root.a max vcore=4000
        node n1 vcore=90000
        app a1 in root.a
        ask a1 k1 vcore=4000
        wait 10s
        ask a1 k2 x2 vcore=4000
        wait 10s
        release a1 uuid=k1
        wait 10s
        ",
        &expect![[r#"
            k2 x1: queueQuota root.a since 0s
              root.a is at its maximum of cores (4 of 4 used); 4 cores more would let this ask run
              - queueQuota root.a: vcore=4000; vcore=0 of vcore=4000
              cure: raise the maximum of root.a by 4 cores, or free as much there
              + quota root.a vcore=4000 0 0
        "#]],
    );
}

#[test]
fn an_ended_application_is_explained_by_its_end() {
    let text = "
        queue root.a
        node n1 vcore=1000
        app a1 in root.a
        ask a1 k1 vcore=1000
        app a2 in root.no
        wait 5s
        release a1 *
        wait 40s
    ";
    after(How::Plain, text, async |world| {
        let handle = &world.scheduler;
        let error = handle.explain("default", "a1", 0).await.unwrap_err();
        assert_eq!(error.to_string(), "application `a1` completed at 1970-01-01T00:17:15.0Z");
        let error = handle.explain_ask("default", "a2", "k1").await.unwrap_err().to_string();
        assert!(error.starts_with("application `a2` was rejected at 1970-01-01T00:16:40.0Z: "));
        assert!(error.contains("root.no"), "{error}");
    });
    let again = "app a1 in root.a ; ask a1 k1 vcore=5000";
    after(How::Plain, &(text.to_owned() + &again.replace(" ; ", "\n")), async |world| {
        let again = world.scheduler.explain("default", "a1", 0).await.unwrap();
        assert_eq!(again[0].cause, "noNode", "the new run is not over");
    });
}
