//! Several partitions of one resource manager: each has its own nodes, queues and users, and a
//! request to one never reaches another.

use std::sync::Arc;

use expect_test::expect;
use monoceros_actors::{ObjectState, ReadError, Scheduler};

use crate::recording_callback::RecordingCallback;
use crate::world::{in_virtual_time, register, send_lines};

const TWO: &str = "
partitions:
  - name: default
    queues:
      - { name: root, submitacl: '*', queues: [ { name: a } ] }
  - name: gpu
    queues:
      - { name: root, submitacl: '*', queues: [ { name: a, resources: { max: { vcore: 1m } } } ] }
";

fn received(recorder: &RecordingCallback) -> String {
    let words: Vec<_> = recorder.take().iter().map(ToString::to_string).collect();
    words.join("\n") + "\n"
}

#[test]
fn partitions_have_separate_nodes_applications_and_queues() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let recorder = Arc::new(RecordingCallback::default());
        register(&scheduler, "rm", TWO, recorder.clone()).await;
        send_lines(
            &scheduler,
            "rm",
            "
            node n1 vcore=4
            node n1 vcore=4 attr si/node-partition=gpu
            app a1 in root.a
            app a1 in root.a partition gpu
            ask a1 k1 x2 vcore=1 ; ask a1 k1 x2 vcore=1 partition=gpu
            ask a1 k2 vcore=1 partition=[rm]gpu
            ask a1 k3 vcore=1 partition=[rm]default
            ",
        )
        .await;
        expect![[r#"
            n1 accepted
            n1 accepted
            a1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k3 placed on n1
        "#]]
        .assert_eq(&received(&recorder));
        for (partition, used) in [("default", 3), ("gpu", 1)] {
            assert_eq!(scheduler.check_books(partition).await, Ok(Vec::new()));
            let facts = scheduler.facts(partition).await.unwrap();
            assert_eq!(facts.allocations.len(), used, "{partition}");
        }
        let none = ReadError::PartitionNotFound("cpu".to_owned());
        assert_eq!(scheduler.check_books("cpu").await, Err(none));
    });
}

#[test]
fn a_stopped_partition_affects_no_other() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let recorder = Arc::new(RecordingCallback::default());
        register(&scheduler, "rm", TWO, recorder.clone()).await;
        send_lines(
            &scheduler,
            "rm",
            "
            node n1 vcore=4
            node n2 vcore=4 attr si/node-partition=gpu
            app a1 in root.a
            app a2 in root.a partition gpu
            ",
        )
        .await;
        scheduler.set_partition_state("rm", "default", ObjectState::Stopped).await.unwrap();
        recorder.take();
        send_lines(
            &scheduler,
            "rm",
            "
            ask a1 k1 vcore=1
            ask a2 k2 vcore=1 partition=gpu
            ",
        )
        .await;
        expect![[r#"
            ask a1/k1 rejected: R_PARTITION_STOPPED
            a2 is Accepted
            a2 is Running
            a2/k2 placed on n2
        "#]]
        .assert_eq(&received(&recorder));
        scheduler.shutdown().await;
    });
}
