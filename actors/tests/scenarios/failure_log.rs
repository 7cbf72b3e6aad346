//! What is shown of a request that waits: why it was not placed so far.

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::{EventSettings, Scheduler, SchedulerHandle};

use crate::ear::{Answer, Ear};
use crate::world::{in_virtual_time, register, say};

const QUEUES: &str = r#"{partitions: [{queues: [{name: root, submitacl: "*", queues: [
    {name: small, resources: {max: {gpu: 2}}},
    {name: shared, limits: [{limit: each, users: ["*"], maxresources: {gpu: 2}}]},
    {name: open}]}]}]}"#;

/// A scheduler whose clock begins at 0, with one node.
async fn begin(tracking: bool) -> (SchedulerHandle, Arc<Ear>) {
    let builder = Scheduler::builder()
        .epoch_ns(0)
        .events(EventSettings { tracking, ..EventSettings::default() });
    let scheduler = builder.start_local().unwrap();
    let ear = Arc::new(Ear::default());
    register(&scheduler, "rm", QUEUES, ear.clone()).await;
    say(&scheduler, "rm", "node n1 gpu=9").await;
    (scheduler, ear)
}

/// The log of each request that waits: its reasons with their number and second.
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
fn a_request_over_its_queues_says_so_with_the_last_time_and_how_often() {
    in_virtual_time(async {
        let (scheduler, _) = begin(true).await;
        say(&scheduler, "rm", "app a1 in root.small").await;
        say(&scheduler, "rm", "ask a1 held x2 gpu=1").await;
        say(&scheduler, "rm", "ask a1 k1 gpu=2").await;
        assert_eq!(logs(&scheduler).await, ["k1: Not enough queue quota x1 @0"]);
        wait(&scheduler, 5).await;
        // Requests of one shape are tried as one, and again when another one comes.
        say(&scheduler, "rm", "ask a1 k2 gpu=2").await;
        let log = ["k1", "k2"].map(|key| format!("{key}: Not enough queue quota x2 @5"));
        assert_eq!(logs(&scheduler).await, log);
    });
}

#[test]
fn a_request_over_what_its_user_has_left_says_so() {
    in_virtual_time(async {
        let (scheduler, _) = begin(true).await;
        say(&scheduler, "rm", "app a1 in root.shared").await;
        say(&scheduler, "rm", "ask a1 held gpu=2").await;
        wait(&scheduler, 3).await;
        say(&scheduler, "rm", "ask a1 k1 gpu=1").await;
        assert_eq!(logs(&scheduler).await, ["k1: Not enough user quota x1 @3"]);
    });
}

#[test]
fn what_no_node_has_room_for_and_what_was_not_tried_says_nothing() {
    in_virtual_time(async {
        let (scheduler, _) = begin(true).await;
        say(&scheduler, "rm", "node n2 gpu=9").await;
        say(&scheduler, "rm", "app a1 in root.open").await;
        say(&scheduler, "rm", "ask a1 k1 gpu=10").await;
        assert_eq!(logs(&scheduler).await, ["k1: "]);
    });
}

/// The reasons of predicates that refused a request on every node, each with the number of nodes,
/// whether or not events are made of them.
#[test]
fn what_predicates_said_of_a_request_is_counted_by_nodes() {
    for tracking in [true, false] {
        in_virtual_time(async {
            let (scheduler, ear) = begin(tracking).await;
            say(&scheduler, "rm", "node n2 gpu=9").await;
            let refused = ("k1".to_owned(), "*".to_owned());
            ear.predicates().said.insert(refused.clone(), Answer::Refuses);
            say(&scheduler, "rm", "app a1 in root.open").await;
            say(&scheduler, "rm", "ask a1 k1 gpu=1").await;
            let reason = "the script refuses";
            assert_eq!(logs(&scheduler).await, [format!("k1: {reason} x2 @0")]);
            wait(&scheduler, 1).await;
            assert_eq!(logs(&scheduler).await, [format!("k1: {reason} x4 @1")]);
            ear.predicates().said.remove(&refused);
            wait(&scheduler, 30).await;
            assert_eq!(logs(&scheduler).await, [""; 0]);
        });
    }
}

#[test]
fn a_request_that_is_replaced_begins_anew() {
    in_virtual_time(async {
        let (scheduler, ear) = begin(true).await;
        ear.predicates().said.insert(("k1".to_owned(), "*".to_owned()), Answer::Refuses);
        say(&scheduler, "rm", "node n2 gpu=9").await;
        say(&scheduler, "rm", "app a1 in root.open").await;
        say(&scheduler, "rm", "ask a1 k1 gpu=1").await;
        assert_ne!(logs(&scheduler).await, ["k1: "]);
        say(&scheduler, "rm", "ask a1 k1 gpu=10").await;
        assert_eq!(logs(&scheduler).await, ["k1: "]);
    });
}
