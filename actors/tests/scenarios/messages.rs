//! Fields of messages that a script shows only as a line.

use std::sync::{Arc, Mutex};

use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;

use crate::recording_callback::{Notification, RecordingCallback};
use crate::world::{ONE_LEAF, counted, in_virtual_time, register, send_lines};

async fn received(epoch_ns: i64, text: &str) -> Vec<Notification> {
    let scheduler = Scheduler::builder().epoch_ns(epoch_ns).start_local().unwrap();
    let recorder = Arc::new(RecordingCallback::default());
    register(&scheduler, "rm", ONE_LEAF, recorder.clone()).await;
    send_lines(&scheduler, "rm", text).await;
    recorder.take()
}

fn vcore(value: i64) -> si::Resource {
    si::Resource { resources: [("vcore".to_owned(), si::Quantity { value })].into() }
}

/// The older form repeats the ask, and an ask without a policy may be preempted. In the present
/// form the key is the only name, and known fields are not repeated.
#[test]
fn an_allocation_message_repeats_its_ask_and_place() {
    let words = in_virtual_time(received(
        0,
        "
        node n1 vcore=9
        app a1 in root.default
        ask a1 k1 vcore=2 prio=7 created=5
        request a1 k2 vcore=1 prio=-7 created=5
        ",
    ));
    let new: Vec<_> =
        words
            .into_iter()
            .filter_map(|notification| {
                if let Notification::Allocated(new) = notification { Some(new) } else { None }
            })
            .collect();
    let common =
        si::Allocation { node_id: "n1".into(), application_id: "a1".into(), ..Default::default() };
    assert_eq!(
        new,
        [
            si::Allocation {
                allocation_key: "k1".into(),
                uuid: "k1".into(),
                allocation_id: "k1".into(),
                resource_per_alloc: Some(vcore(2)),
                priority: 7,
                allocation_tags: [("creationTime".to_owned(), "5".to_owned())].into(),
                partition_name: "default".into(),
                preemption_policy: Some(policy(true, false)),
                ..common.clone()
            },
            si::Allocation {
                allocation_key: "k2".into(),
                resource_per_alloc: Some(vcore(1)),
                ..common
            },
        ]
    );
}

fn policy(allow_preempt_self: bool, allow_preempt_other: bool) -> si::PreemptionPolicy {
    si::PreemptionPolicy { allow_preempt_self, allow_preempt_other }
}

/// Both spellings of a partition are accepted. If `new` did not name the partition, an RM that
/// reports it back would report to the partition `default`.
#[test]
fn the_present_form_repeats_policies_and_names_partitions() {
    const TWO: &str = r#"{partitions: [
        {name: default, queues: [{name: root, submitacl: "*", queues: [{name: a}]}]},
        {name: gpu, queues: [{name: root, submitacl: "*", queues: [{name: a}]}]}]}"#;
    let words = in_virtual_time(async {
        let recorder = Arc::new(RecordingCallback::default());
        let scheduler = Scheduler::builder().start_local().unwrap();
        register(&scheduler, "rm", TWO, recorder.clone()).await;
        let nodes_and_apps = "
            node n1 vcore=9
            node g1 vcore=9 attr si/node-partition=[rm]gpu
            app a1 in root.a partition [rm]default
            app a1 in root.a partition gpu
        ";
        send_lines(&scheduler, "rm", nodes_and_apps).await;
        let ask = |key: &str, partition: &str, preemption_policy| si::Allocation {
            allocation_key: key.into(),
            application_id: "a1".into(),
            partition_name: partition.into(),
            resource_per_alloc: Some(vcore(1)),
            preemption_policy,
            ..Default::default()
        };
        let tagged = |value: &str| {
            [("yunikorn.apache.org/allowPreemption".to_owned(), value.to_owned())].into()
        };
        let allocations = vec![
            ask("kept", "", Some(policy(false, false))),
            ask("pushes", "default", Some(policy(true, true))),
            si::Allocation {
                allocation_tags: tagged("false"),
                ..ask("tagged", "[rm]default", None)
            },
            ask("far", "gpu", None),
            ask("away", "[rm]gpu", None),
        ];
        let request =
            si::AllocationRequest { rm_id: "rm".into(), allocations, ..Default::default() };
        scheduler.update_allocation(request).await.unwrap();
        scheduler.settle().await;
        send_lines(&scheduler, "rm", "release a1 key=kept\nremove n1").await;
        recorder.take()
    });
    let new = words.iter().filter_map(|notification| match notification {
        Notification::Allocated(new) => Some((&*new.allocation_key, &*new.partition_name, new)),
        _ => None,
    });
    let mut new: Vec<_> = new.map(|(key, of, new)| (key, of, new.preemption_policy)).collect();
    new.sort_by_key(|(key, ..)| *key);
    assert_eq!(
        new,
        [
            ("away", "[rm]gpu", None),
            ("far", "[rm]gpu", None),
            ("kept", "", Some(policy(false, false))),
            ("pushes", "", Some(policy(true, true))),
            ("tagged", "", None),
        ]
    );
    let gone: Vec<_> =
        words
            .into_iter()
            .filter_map(|notification| {
                if let Notification::Released(gone) = notification { Some(gone) } else { None }
            })
            .collect();
    let release = |key: &str, message: &str| si::AllocationRelease {
        partition_name: "[rm]default".into(),
        application_id: "a1".into(),
        allocation_key: key.into(),
        termination_type: si::TerminationType::StoppedByRm as i32,
        message: message.into(),
        ..si::AllocationRelease::default()
    };
    let expected = [
        release("kept", "released by the resource manager"),
        release("pushes", "node removed"),
        release("tagged", "node removed"),
    ];
    assert_eq!(gone, expected);
}

#[test]
fn a_release_message_has_allocation_and_cause() {
    let words = in_virtual_time(received(
        0,
        "
        node n1 vcore=9
        app a1 in root.default
        ask a1 k1 x2 vcore=2
        release a1 uuid=k1#2
        remove n1
        ",
    ));
    let gone: Vec<_> =
        words
            .into_iter()
            .filter_map(|notification| {
                if let Notification::Released(gone) = notification { Some(gone) } else { None }
            })
            .collect();
    let release = |uuid: &str, message: &str| si::AllocationRelease {
        partition_name: "default".into(),
        application_id: "a1".into(),
        uuid: uuid.into(),
        allocation_id: uuid.into(),
        allocation_key: "k1".into(),
        termination_type: si::TerminationType::StoppedByRm as i32,
        message: message.into(),
        ..si::AllocationRelease::default()
    };
    let expected =
        [release("k1#2", "released by the resource manager"), release("k1#1", "node removed")];
    assert_eq!(gone, expected);
}

#[test]
fn a_state_message_has_time_and_cause() {
    let words = in_virtual_time(async {
        let recorder = Arc::new(RecordingCallback::default());
        let scheduler = Scheduler::builder().epoch_ns(5_000_000_000).start_local().unwrap();
        register(&scheduler, "rm", ONE_LEAF, recorder.clone()).await;
        send_lines(&scheduler, "rm", "node n1 vcore=9\napp a1 in root.default\nask a1 k1 vcore=1")
            .await;
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        send_lines(&scheduler, "rm", "release a1 uuid=k1").await;
        tokio::time::sleep(std::time::Duration::from_secs(31)).await;
        scheduler.settle().await;
        recorder.take()
    });
    let states: Vec<_> =
        words
            .into_iter()
            .filter_map(|notification| {
                if let Notification::AppUpdated(app) = notification { Some(app) } else { None }
            })
            .map(|app| (app.state, app.message, app.state_transition_timestamp / 1_000_000_000))
            .collect();
    let state = |state: &str, message: &str, at| (state.to_owned(), message.to_owned(), at);
    assert_eq!(
        states,
        [
            state("Accepted", "runApplication", 5),
            state("Running", "runApplication", 5),
            state("Completing", "completeApplication", 7),
            state("Completed", "completeApplication", 37),
        ]
    );
}

/// Counts the answers about nodes.
#[derive(Default)]
struct Answers(Mutex<Vec<(usize, usize)>>);

impl ResourceManagerCallback for Answers {
    fn update_allocation(&self, _: si::AllocationResponse) {}
    fn update_application(&self, _: si::ApplicationResponse) {}

    fn update_node(&self, response: si::NodeResponse) {
        self.0.lock().unwrap().push((response.accepted.len(), response.rejected.len()));
    }
}

#[test]
fn nodes_of_one_message_share_one_answer() {
    in_virtual_time(async {
        let answers = Arc::new(Answers::default());
        let scheduler = Scheduler::builder().epoch_ns(0).start_local().unwrap();
        register(&scheduler, "rm", ONE_LEAF, answers.clone()).await;
        send_lines(&scheduler, "rm", "node n1 vcore=1 ; node n1 vcore=2 ; resize n1 vcore=3").await;
        assert_eq!(*answers.0.lock().unwrap(), [(1, 1)]);
    });
}

/// Number of offers so far.
async fn offers(scheduler: &SchedulerHandle) -> u64 {
    scheduler.settle().await;
    scheduler.refresh_metrics().await;
    counted(scheduler, "monoceros_offers_total", None)
}

/// Reports, releases and new items lead to offers only if an ask may be placed.
#[test]
fn no_offer_is_sent_without_pending_asks() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let recorder = Arc::new(RecordingCallback::default());
        register(&scheduler, "rm", ONE_LEAF, recorder.clone()).await;
        send_lines(&scheduler, "rm", "node n1 vcore=2\napp a1 in root.default").await;
        assert_eq!(offers(&scheduler).await, 0);
        send_lines(&scheduler, "rm", "ask a1 k x3 vcore=1").await;
        let two_of_three = offers(&scheduler).await;
        assert!(two_of_three > 0);
        send_lines(&scheduler, "rm", "release a1 uuid=k#1").await;
        let all = offers(&scheduler).await;
        assert!(all > two_of_three, "the third waited for that");
        send_lines(
            &scheduler,
            "rm",
            "release a1 uuid=k#2\nnode n2 vcore=1\napp a2 in root.default",
        )
        .await;
        assert_eq!(offers(&scheduler).await, all, "nobody waits for any of these");
        recorder.take();
        send_lines(&scheduler, "rm", "ask a2 last vcore=1").await;
        assert!(offers(&scheduler).await > all);
        let is_placed =
            |notification: &Notification| matches!(notification, Notification::Allocated(_));
        assert!(recorder.take().iter().any(is_placed));
    });
}
