//! Log of a pending request: the reasons why it is not placed yet.

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::{EventSettings, Scheduler, SchedulerHandle};

use crate::recording_callback::{Answer, RecordingCallback};
use crate::world::{in_virtual_time, register, send_lines};

const QUEUES: &str = r#"{partitions: [{queues: [{name: root, submitacl: "*", queues: [
    {name: small, resources: {max: {gpu: 2}}},
    {name: shared, limits: [{limit: each, users: ["*"], maxresources: {gpu: 2}}]},
    {name: open}]}]}]}"#;

/// A scheduler whose clock begins at 0, with one node.
async fn begin(tracking: bool) -> (SchedulerHandle, Arc<RecordingCallback>) {
    let builder = Scheduler::builder()
        .epoch_ns(0)
        .events(EventSettings { tracking, ..EventSettings::default() });
    let scheduler = builder.start_local().unwrap();
    let recorder = Arc::new(RecordingCallback::default());
    register(&scheduler, "rm", QUEUES, recorder.clone()).await;
    send_lines(&scheduler, "rm", "node n1 gpu=9").await;
    (scheduler, recorder)
}

/// The log of each pending request: its reasons with count and second.
async fn logs(scheduler: &SchedulerHandle) -> Vec<String> {
    let mut logs = Vec::new();
    for app in scheduler.all_applications("default").await.unwrap() {
        for request in app.requests {
            let reasons = request.allocation_log.iter().map(|it| {
                format!("{} x{} @{}", it.message, it.count, it.last_occurrence / 1_000_000_000)
            });
            let reasons: Vec<_> = reasons.collect();
            logs.push(format!("{}: {}", request.allocation_key, reasons.join(", ")));
        }
    }
    logs
}

async fn wait(scheduler: &SchedulerHandle, seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    scheduler.settle().await;
}

#[test]
fn a_request_over_quota_logs_count_and_time() {
    in_virtual_time(async {
        let (scheduler, _) = begin(true).await;
        send_lines(&scheduler, "rm", "app a1 in root.small").await;
        send_lines(&scheduler, "rm", "ask a1 held x2 gpu=1").await;
        send_lines(&scheduler, "rm", "ask a1 k1 gpu=2").await;
        assert_eq!(logs(&scheduler).await, ["k1: Not enough queue quota x1 @0"]);
        wait(&scheduler, 5).await;
        // Requests of one shape are tried as one, and again when another one is added.
        send_lines(&scheduler, "rm", "ask a1 k2 gpu=2").await;
        let log = ["k1", "k2"].map(|key| format!("{key}: Not enough queue quota x2 @5"));
        assert_eq!(logs(&scheduler).await, log);
    });
}

#[test]
fn a_request_over_its_user_limit_logs_that() {
    in_virtual_time(async {
        let (scheduler, _) = begin(true).await;
        send_lines(&scheduler, "rm", "app a1 in root.shared").await;
        send_lines(&scheduler, "rm", "ask a1 held gpu=2").await;
        wait(&scheduler, 3).await;
        send_lines(&scheduler, "rm", "ask a1 k1 gpu=1").await;
        assert_eq!(logs(&scheduler).await, ["k1: Not enough user quota x1 @3"]);
    });
}

#[test]
fn requests_without_a_node_have_no_log() {
    in_virtual_time(async {
        let (scheduler, _) = begin(true).await;
        send_lines(&scheduler, "rm", "node n2 gpu=9").await;
        send_lines(&scheduler, "rm", "app a1 in root.open").await;
        send_lines(&scheduler, "rm", "ask a1 k1 gpu=10").await;
        assert_eq!(logs(&scheduler).await, ["k1: "]);
    });
}

/// Reasons of predicates that refused a request on every node, each with the number of nodes,
/// whether or not they become events.
#[test]
fn predicate_reasons_are_counted_by_nodes() {
    for tracking in [true, false] {
        in_virtual_time(async {
            let (scheduler, recorder) = begin(tracking).await;
            send_lines(&scheduler, "rm", "node n2 gpu=9").await;
            let refused = ("k1".to_owned(), "*".to_owned());
            recorder.predicates().answers.insert(refused.clone(), Answer::Refuses);
            send_lines(&scheduler, "rm", "app a1 in root.open").await;
            send_lines(&scheduler, "rm", "ask a1 k1 gpu=1").await;
            let reason = "the script refuses";
            assert_eq!(logs(&scheduler).await, [format!("k1: {reason} x2 @0")]);
            wait(&scheduler, 1).await;
            assert_eq!(logs(&scheduler).await, [format!("k1: {reason} x4 @1")]);
            recorder.predicates().answers.remove(&refused);
            wait(&scheduler, 30).await;
            assert_eq!(logs(&scheduler).await, [""; 0]);
        });
    }
}

#[test]
fn a_replaced_request_starts_a_new_log() {
    in_virtual_time(async {
        let (scheduler, recorder) = begin(true).await;
        recorder.predicates().answers.insert(("k1".to_owned(), "*".to_owned()), Answer::Refuses);
        send_lines(&scheduler, "rm", "node n2 gpu=9").await;
        send_lines(&scheduler, "rm", "app a1 in root.open").await;
        send_lines(&scheduler, "rm", "ask a1 k1 gpu=1").await;
        assert_ne!(logs(&scheduler).await, ["k1: "]);
        send_lines(&scheduler, "rm", "ask a1 k1 gpu=10").await;
        assert_eq!(logs(&scheduler).await, ["k1: "]);
    });
}
