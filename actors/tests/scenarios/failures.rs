//! Failures: the loss of a partition or callback does not affect the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;

use crate::recording_callback::{Answer, Notification, RecordingCallback};
use crate::world::{ONE_LEAF, check_plain, check_watched, in_virtual_time, register, send_lines};

#[test]
fn a_predicate_that_panics_refuses() {
    check_plain(
        "
        queue root.a
        node n1 vcore=4
        node n2 vcore=4
        app a1 in root.a
        explode k1 n1
        explode k2 *
        ask a1 k1 vcore=1
        ask a1 k2 vcore=1
        ask a1 k3 vcore=1
        allow k2 *
        wait 1s
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n2
            a1/k3 placed on n1
            a1/k2 placed on n1
        "#]],
    );
}

/// The full search evaluates the predicate, too. A different answer makes the partition detect an
/// inconsistency and stop. The partition of the other RM continues, and the first RM may register
/// again.
#[test]
fn a_lost_partition_asks_for_a_resync_alone() {
    check_watched(
        "
        queue root.a
        as rm1
        node n1 vcore=4
        app a1 in root.a
        ask a1 k1 vcore=1
        as rm2
        node n1 vcore=4
        app a1 in root.a
        as rm1
        waver k2 n1
        ask a1 k2 vcore=1
        ask a1 k3 vcore=1
        node n2 vcore=1
        app a2 in root.a
        show nodes
        as rm2
        ask a1 k2 vcore=1
        as rm1
        register
        node n1 vcore=4
        app a1 in root.a
        exists a1 k1 on n1 vcore=1
        ask a1 k2 vcore=1
        show nodes
        as rm2
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            rm2: n1 accepted
            rm2: a1 accepted
            rm1: resync required: partition `[rm1]default` was lost
            there is no partition `[rm1]default`
            rm2: a1 is Accepted
            rm2: a1 is Running
            rm2: a1/k2 placed on n1
            rm1: n1 accepted
            rm1: a1 accepted
            rm1: a1 is Accepted
            rm1: a1 is Running
            rm1: a1/k1 placed on n1
            rm1: a1/k2 placed on n1
            n1: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            n1: total vcore=4, used vcore=1, occupied nothing, left vcore=3
        "#]],
    );
}

/// Panics when it is notified of an allocation, like a faulty shim.
struct Broken;

impl ResourceManagerCallback for Broken {
    fn update_allocation(&self, _response: si::AllocationResponse) {
        panic!("this shim has a bug");
    }
    fn update_application(&self, _response: si::ApplicationResponse) {}
    fn update_node(&self, _response: si::NodeResponse) {}
}

const WORK: &str = "
    node n1 vcore=4
    app a1 in root.default
    ask a1 k1 vcore=1
";

/// Number of living actors of each kind.
fn alive(scheduler: &SchedulerHandle) -> BTreeMap<String, i64> {
    let mut alive: BTreeMap<String, i64> = BTreeMap::new();
    for family in scheduler.metrics().gather() {
        let sign = match family.name() {
            "monoceros_actor_starts_total" => 1,
            "monoceros_actor_stops_total" => -1,
            _ => continue,
        };
        for metric in family.get_metric() {
            #[expect(clippy::cast_possible_truncation, reason = "a handful of actors")]
            let count = metric.get_counter().get_value() as i64;
            *alive.entry(metric.get_label()[0].value().to_owned()).or_default() += sign * count;
        }
    }
    alive.retain(|_, count| *count != 0);
    alive
}

/// Number of partitions that were started to replace a lost one.
fn restarts(scheduler: &SchedulerHandle) -> u64 {
    let families = scheduler.metrics().gather();
    let text = prometheus::TextEncoder::new().encode_to_string(&families).unwrap();
    let name = "monoceros_actor_restarts_total{kind=\"partition\"} ";
    text.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

/// Lets actors stop that were asked to stop.
async fn turns() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn no_actor_outlives_its_session() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let only_rm_proxy = BTreeMap::from([("rm_proxy".to_owned(), 1)]);
        turns().await;
        assert_eq!(alive(&scheduler), only_rm_proxy);
        for _ in 0..3 {
            register(&scheduler, "rm", ONE_LEAF, Arc::new(RecordingCallback::default())).await;
            send_lines(&scheduler, "rm", WORK).await;
            send_lines(&scheduler, "rm", "remove-app a1\nremove n1").await;
            turns().await;
            let at_work = alive(&scheduler);
            assert_eq!((at_work.get("application"), at_work.get("node")), (None, None));
            assert_eq!((at_work["rm"], at_work["partition"]), (1, 1));
            send_lines(&scheduler, "rm", WORK).await;
        }
        scheduler.stop_resource_manager("rm").await.unwrap();
        turns().await;
        assert_eq!(alive(&scheduler), only_rm_proxy);
    });
}

/// On a thread of its own, a partition has often ended, with its thread, before its nodes and
/// applications have received the message that ends them.
#[tokio::test]
async fn actors_of_an_ended_partition_are_not_counted() {
    let scheduler = Scheduler::builder().start().unwrap();
    for _ in 0..10 {
        register(&scheduler, "rm", ONE_LEAF, Arc::new(RecordingCallback::default())).await;
        let nodes = (0..300).map(|n| format!("node n{n} vcore=4"));
        let applications = (0..100).map(|n| format!("app a{n} in root.default"));
        let words: Vec<_> = nodes.chain(applications).collect();
        send_lines(
            &scheduler,
            "rm",
            &words.join(
                "
",
            ),
        )
        .await;
        let elsewhere = ONE_LEAF.replace("{queues", "{name: elsewhere, queues");
        let request = si::UpdateConfigurationRequest {
            rm_id: "rm".to_owned(),
            config: elsewhere,
            ..Default::default()
        };
        scheduler.update_configuration(request).await.unwrap();
    }
    scheduler.stop_resource_manager("rm").await.unwrap();
    let only_rm_proxy = BTreeMap::from([("rm_proxy".to_owned(), 1)]);
    // Threads take a while to end; a leak would stay.
    let all_gone = async {
        while alive(&scheduler) != only_rm_proxy {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let gone_in_time = tokio::time::timeout(Duration::from_secs(60), all_gone).await;
    assert!(gone_in_time.is_ok(), "left behind: {:?}", alive(&scheduler));
    let text =
        prometheus::TextEncoder::new().encode_to_string(&scheduler.metrics().gather()).unwrap();
    assert!(text.contains("yunikorn_scheduler_node{state=\"active\"} 0\n"), "{text}");
}

#[test]
fn all_actors_of_a_lost_partition_end() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().compare_with_full_search().start_local().unwrap();
        let recorder = Arc::new(RecordingCallback::default());
        register(&scheduler, "rm", ONE_LEAF, recorder.clone()).await;
        send_lines(&scheduler, "rm", WORK).await;
        let pair = ("k2".to_owned(), "n1".to_owned());
        recorder.predicates().answers.insert(pair, Answer::Wavers);
        send_lines(&scheduler, "rm", "ask a1 k2 vcore=1").await;
        turns().await;
        let (proxy, session) = (("rm_proxy".to_owned(), 1), ("rm".to_owned(), 1));
        assert_eq!(alive(&scheduler), BTreeMap::from([proxy.clone(), session]));
        assert_eq!(restarts(&scheduler), 0);
        let (again, other) =
            (Arc::new(RecordingCallback::default()), Arc::new(RecordingCallback::default()));
        register(&scheduler, "other", ONE_LEAF, other).await;
        assert_eq!(restarts(&scheduler), 0, "nothing of this one was lost");
        register(&scheduler, "rm", ONE_LEAF, again.clone()).await;
        assert_eq!(restarts(&scheduler), 1);
        register(&scheduler, "rm", ONE_LEAF, again).await;
        assert_eq!(restarts(&scheduler), 1, "it was replaced in order");
        scheduler.stop_resource_manager("other").await.unwrap();
        scheduler.stop_resource_manager("rm").await.unwrap();
        turns().await;
        assert_eq!(alive(&scheduler), BTreeMap::from([proxy]));
    });
}

#[test]
fn a_panicking_callback_stops_its_own_rm_only() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let recorder = Arc::new(RecordingCallback::default());
        register(&scheduler, "broken", ONE_LEAF, Arc::new(Broken)).await;
        register(&scheduler, "sound", ONE_LEAF, recorder.clone()).await;
        send_lines(&scheduler, "broken", WORK).await;
        send_lines(&scheduler, "sound", WORK).await;
        let placed = |words: Vec<Notification>| {
            words.into_iter().filter(|word| matches!(word, Notification::Allocated(_))).count()
        };
        assert_eq!(placed(recorder.take()), 1);
        let mended = Arc::new(RecordingCallback::default());
        register(&scheduler, "broken", ONE_LEAF, mended.clone()).await;
        send_lines(&scheduler, "broken", WORK).await;
        assert_eq!(placed(mended.take()), 1);
        scheduler.stop_resource_manager("broken").await.unwrap();
        scheduler.stop_resource_manager("sound").await.unwrap();
        turns().await;
        assert_eq!(alive(&scheduler), BTreeMap::from([("rm_proxy".to_owned(), 1)]));
    });
}
