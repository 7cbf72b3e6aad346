//! Ended applications: which of their data is kept, for how long, and which messages are sent.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use monoceros_actors::snapshot::ApplicationSnapshot;
use monoceros_actors::{
    ApplicationFilter, ApplicationList, Page, Scheduler, SchedulerBuilder, SchedulerHandle,
};

use crate::events::named;
use crate::recording_callback::RecordingCallback;
use crate::world::{in_virtual_time, register, send_lines};

/// Queues without one for applications that name no existing queue.
const QUEUES: &str =
    r#"{partitions: [{queues: [{name: root, submitacl: "*", queues: [{name: q}]}]}]}"#;
const DAY_S: u64 = 24 * 60 * 60;

/// A scheduler whose clock begins at 0, and the notifications to its RM.
pub(crate) struct Stage {
    pub(crate) scheduler: SchedulerHandle,
    recorder: Arc<RecordingCallback>,
}

impl Stage {
    pub(crate) async fn begin(builder: SchedulerBuilder, text: &str) -> Self {
        let scheduler = builder.epoch_ns(0).start_local().unwrap();
        let recorder = Arc::new(RecordingCallback::default());
        register(&scheduler, "rm", QUEUES, recorder.clone()).await;
        let stage = Self { scheduler, recorder };
        stage.send_lines(text).await;
        stage
    }

    pub(crate) async fn send_lines(&self, text: &str) {
        send_lines(&self.scheduler, "rm", text).await;
    }

    async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.scheduler.settle().await;
    }

    /// Returns the notifications since the last call.
    pub(crate) fn received(&self) -> Vec<String> {
        self.recorder.take().iter().map(ToString::to_string).collect()
    }

    pub(crate) async fn completed(&self) -> Vec<String> {
        let completed = self.scheduler.completed_applications("default").await.unwrap();
        completed.iter().map(shown).collect()
    }

    async fn rejected(&self) -> Vec<String> {
        let rejected = self.scheduler.rejected_applications("default").await.unwrap();
        rejected.iter().map(shown).collect()
    }

    pub(crate) async fn live(&self) -> Vec<String> {
        let live = self.scheduler.all_applications("default").await.unwrap();
        live.iter().map(shown).collect()
    }

    /// Returns the events of an application after this number.
    pub(crate) fn events(&self, past: u64, application: &str) -> Vec<String> {
        let range = self.scheduler.events().range(past, u64::MAX);
        let of_it = range.records.iter().filter(|record| record.object_id == application);
        of_it.map(named).collect()
    }

    pub(crate) fn next_event(&self) -> u64 {
        self.scheduler.events().range(0, 0).highest + 1
    }

    /// Number of applications in each state.
    async fn states(&self) -> Vec<(String, i32)> {
        self.scheduler.partitions().await[0].applications.clone().into_iter().collect()
    }
}

/// Times in seconds.
fn shown(app: &ApplicationSnapshot) -> String {
    let seconds = |ns: i64| ns / 1_000_000_000;
    let log = app.state_log.iter();
    let log: Vec<_> =
        log.map(|entry| format!("{}@{}", entry.application_state, seconds(entry.time))).collect();
    let mut line = format!(
        "{} is {} in {} of {} from {}s to {}s: {}",
        app.application_id,
        app.application_state,
        app.queue_name,
        app.user,
        seconds(app.submission_time),
        seconds(app.finished_time),
        log.join(" "),
    );
    if app.start_time_millis > 0 {
        write!(line, ", started at {}ms", app.start_time_millis).unwrap();
    }
    if !app.rejected_message.is_empty() {
        write!(line, ", because {}", app.rejected_message).unwrap();
    }
    line
}

/// Ten seconds on one instance; completed thirty seconds later.
const ONE_RUN: &str = "
    node n1 vcore=4 memory=10 attr si/instance-type=large
    app a1 in root.q user bob
    ask a1 k1 vcore=2 memory=3
";

#[test]
fn a_completed_application_moves_to_the_history() {
    in_virtual_time(async {
        let stage = Stage::begin(Scheduler::builder(), "").await;
        stage.wait(5).await;
        stage.send_lines(ONE_RUN).await;
        stage.wait(10).await;
        stage.send_lines("release a1 *").await;
        assert_eq!(stage.completed().await, [""; 0]);
        stage.wait(30).await;
        expect![[r#"
            [
                "a1 is Completed in root.q of bob from 5s to 45s: Accepted@5 Running@5 Completing@15 Completed@45, started at 5000ms",
            ]
        "#]]
        .assert_debug_eq(&stage.completed().await);
        assert_eq!(stage.live().await, [""; 0]);
        assert_eq!(stage.rejected().await, [""; 0]);
        let kept = stage.scheduler.completed_applications("default").await.unwrap().remove(0);
        assert_eq!(kept.partition, "default");
        assert_eq!(kept.groups, ["bob"]);
        assert_eq!(format!("{:?}", kept.max_used_resource), "map[memory:3 vcore:2]");
        expect![[r#"
            ResourceHistory {
                resource_usage: {
                    "large": map[memory:30 vcore:20],
                },
                preempted_resource: {},
                placeholder_resource: {},
            }
        "#]]
        .assert_debug_eq(&kept.resource_history);
    });
}

#[test]
fn usage_is_shown_while_an_application_lives() {
    in_virtual_time(async {
        let stage = Stage::begin(Scheduler::builder(), ONE_RUN).await;
        stage.send_lines("node n2 vcore=1").await;
        stage.send_lines("ask a1 k2 vcore=1 node=n2").await;
        stage.wait(7).await;
        stage.send_lines("release a1 uuid=k2").await;
        let live = stage.scheduler.all_applications("default").await.unwrap().remove(0);
        let used = format!("{:?}", live.resource_history.resource_usage);
        assert_eq!(used, r#"{"UNKNOWN": map[vcore:7]}"#);
    });
}

/// An allocation that ends with its node counts under the present instance type of the node, which
/// may change.
#[test]
fn usage_counts_under_the_nodes_present_instance_type() {
    in_virtual_time(async {
        let stage = Stage::begin(
            Scheduler::builder(),
            "
            node n1 vcore=4 attr si/instance-type=small
            app a1 in root.q
            ask a1 k1 x3 vcore=1
            ",
        )
        .await;
        stage.wait(2).await;
        stage.send_lines("release a1 uuid=k1#1").await;
        stage.send_lines("resize n1 vcore=4 attr si/instance-type=large").await;
        stage.wait(3).await;
        stage.send_lines("release a1 uuid=k1#2").await;
        stage.wait(4).await;
        stage.send_lines("remove n1").await;
        let live = stage.scheduler.all_applications("default").await.unwrap().remove(0);
        let used = format!("{:?}", live.resource_history.resource_usage);
        assert_eq!(used, r#"{"large": map[vcore:14], "small": map[vcore:2]}"#);
    });
}

#[test]
fn the_state_log_lists_each_entered_state() {
    in_virtual_time(async {
        let stage = Stage::begin(Scheduler::builder(), "app a1 in root.q").await;
        let log = async || stage.live().await[0].split(": ").last().unwrap().to_owned();
        assert_eq!(log().await, "");
        stage.send_lines("ask a1 k1 vcore=1").await;
        assert_eq!(log().await, "Accepted@0");
        stage.wait(5).await;
        stage.send_lines("node n1 vcore=2").await;
        let running = "Accepted@0 Running@5, started at 5000ms";
        assert_eq!(log().await, running);
        stage.wait(1).await;
        stage.send_lines("ask a1 k2 vcore=1").await;
        assert_eq!(log().await, running, "a second allocation changes nothing");
        stage.send_lines("release a1 *").await;
        assert_eq!(log().await, "Accepted@0 Running@5 Completing@6, started at 5000ms");
        stage.wait(1).await;
        stage.send_lines("ask a1 k3 vcore=1").await;
        let again = "Accepted@0 Running@5 Completing@6 Running@7, started at 7000ms";
        assert_eq!(log().await, again);
    });
}

#[test]
fn a_users_usage_ends_with_the_last_release() {
    in_virtual_time(async {
        let stage = Stage::begin(Scheduler::builder(), ONE_RUN).await;
        let used = async || {
            let bob = stage.scheduler.user("default", "bob").await.unwrap();
            bob.map_or_else(Default::default, |bob| bob.queues.resource_usage)
        };
        assert_eq!(format!("{:?}", used().await), "map[memory:3 vcore:2]");
        stage.send_lines("release a1 uuid=k1").await;
        assert!(used().await.is_empty());
        assert!(stage.live().await[0].starts_with("a1 is Completing"));
    });
}

/// A placeholder counts until it is replaced, its successor from then on.
#[test]
fn placeholder_and_preempted_usage_count_separately() {
    in_virtual_time(async {
        let stage = Stage::begin(
            Scheduler::builder(),
            "
            node n1 vcore=4
            app a1 in root.q gang vcore=2
            ask a1 p1 vcore=1 placeholder=tg
            ask a1 p2 vcore=1 placeholder=tg
            ask a1 r1 vcore=1 group=tg
            ask a1 k1 vcore=2
            ",
        )
        .await;
        stage.wait(12).await;
        stage.send_lines("release a1 uuid=p1 as PLACEHOLDER_REPLACED").await;
        stage.wait(8).await;
        stage.send_lines("release a1 uuid=k1 as PREEMPTED_BY_SCHEDULER").await;
        stage.wait(10).await;
        stage.send_lines("release a1 *").await;
        stage.wait(30).await;
        let kept = stage.scheduler.completed_applications("default").await.unwrap().remove(0);
        expect![[r#"
            ResourceHistory {
                resource_usage: {
                    "UNKNOWN": map[vcore:18],
                },
                preempted_resource: {
                    "UNKNOWN": map[vcore:40],
                },
                placeholder_resource: {
                    "UNKNOWN": map[vcore:42],
                },
            }
        "#]]
        .assert_debug_eq(&kept.resource_history);
        expect![[r#"
            [
                PlaceholderData {
                    task_group_name: "tg",
                    count: 2,
                    min_resource: map[vcore:1],
                    replaced: 1,
                    timed_out: 1,
                },
            ]
        "#]]
        .assert_debug_eq(&kept.placeholder_data);
    });
}

/// The binding time of a recovered allocation is unknown, so it counts from its report.
#[test]
fn a_reported_allocation_counts_from_its_report_on() {
    in_virtual_time(async {
        let stage = Stage::begin(Scheduler::builder(), "").await;
        stage.wait(100).await;
        stage.send_lines("node n1 vcore=4").await;
        stage.send_lines("app a1 in root.q").await;
        stage.send_lines("exists a1 k1 on n1 vcore=2 uuid=u1 created=10").await;
        stage.wait(3).await;
        stage.send_lines("release a1 uuid=u1").await;
        let live = stage.scheduler.all_applications("default").await.unwrap().remove(0);
        let used = format!("{:?}", live.resource_history.resource_usage);
        assert_eq!(used, r#"{"UNKNOWN": map[vcore:6]}"#);
    });
}

#[test]
fn a_rejected_application_keeps_reason_and_queue() {
    in_virtual_time(async {
        let stage = Stage::begin(
            Scheduler::builder(),
            "
            app a1 in root.nowhere.there user bob
            app a2 in root.q user -
            app a3 in root.q
            app a3 in root.q
            app a4 in root.q partition other
            app - in root.q
            ",
        )
        .await;
        expect![[r#"
            [
                "a1 is Rejected in root.nowhere.there of bob from 0s to 0s: Rejected@0, because application `a1`: no placement rule produced a usable queue: `provided`: queue `root.nowhere.there` does not exist; the user may submit to `root.q` [R_PLACEMENT E_PLACEMENT_NONE]",
                "a2 is Rejected in root.q of  from 0s to 0s: Rejected@0, because application `a2`: empty user cannot resolve: give the application a user (`ugi.user`) [R_USER E_USER_EMPTY]",
                "a3 is Rejected in root.q of ada from 0s to 0s: Rejected@0, because application `a3` already existed [R_APP_EXISTS]",
            ]
        "#]]
        .assert_debug_eq(&stage.rejected().await);
        assert_eq!(stage.completed().await, [""; 0]);
    });
}

#[test]
fn a_later_rejection_of_an_id_replaces_the_earlier() {
    in_virtual_time(async {
        let stage = Stage::begin(Scheduler::builder(), "app a1 in root.x").await;
        stage.wait(1).await;
        stage.send_lines("app a1 in root.y user bob").await;
        let rejected = stage.rejected().await;
        assert_eq!(rejected.len(), 1);
        assert!(rejected[0].starts_with("a1 is Rejected in root.y of bob from 1s"), "{rejected:?}");
    });
}

/// A row of the manual: three days and a sweep after a rejection the application is deleted. The RM
/// was notified of the rejection and receives nothing more.
#[test]
fn rejected_applications_are_deleted_after_three_days() {
    in_virtual_time(async {
        let stage = Stage::begin(Scheduler::builder(), "app a1 in root.x").await;
        stage.received();
        let past = stage.next_event();
        stage.wait(3 * DAY_S - 1).await;
        assert!(stage.rejected().await[0].starts_with("a1 is Rejected"));
        stage.wait(1).await;
        assert!(stage.rejected().await[0].starts_with("a1 is Expired"));
        assert_eq!(stage.events(past, "a1"), ["APP a1 SET APP_EXPIRED"]);
        stage.wait(DAY_S - 1).await;
        assert_eq!(stage.rejected().await.len(), 1);
        stage.wait(1).await;
        assert_eq!(stage.rejected().await, [""; 0]);
        assert_eq!(stage.received(), [""; 0]);
        assert_eq!(stage.states().await, [("total".to_owned(), 0)]);
    });
}

#[test]
fn completed_applications_expire_after_three_days() {
    in_virtual_time(async {
        let stage = Stage::begin(Scheduler::builder(), ONE_RUN).await;
        stage.send_lines("release a1 *").await;
        stage.wait(30).await;
        stage.received();
        stage.wait(3 * DAY_S - 1).await;
        assert_eq!(stage.received(), [""; 0]);
        stage.wait(1).await;
        assert_eq!(stage.received(), ["a1 is Expired"]);
        let kept = stage.completed().await;
        assert!(kept[0].contains(" Completing@0 Completed@30 Expired@259230"), "{kept:?}");
        assert_eq!(stage.states().await, [("Expired".to_owned(), 1), ("total".to_owned(), 1)]);
        stage.wait(DAY_S).await;
        assert_eq!(stage.completed().await, [""; 0]);
        assert_eq!(stage.received(), [""; 0]);
    });
}

/// The RM would take the message of the expiry as one about the new run.
#[test]
fn expiry_is_silent_while_the_id_is_active_again() {
    in_virtual_time(async {
        let stage = Stage::begin(Scheduler::builder(), ONE_RUN).await;
        stage.send_lines("release a1 *").await;
        stage.wait(30).await;
        stage.send_lines("app a1 in root.q").await;
        stage.received();
        let past = stage.next_event();
        stage.wait(3 * DAY_S).await;
        assert_eq!(stage.received(), [""; 0]);
        assert_eq!(stage.events(past, "a1"), ["APP a1 SET APP_EXPIRED"]);
        assert!(stage.live().await[0].starts_with("a1 is New"));
    });
}

#[test]
fn each_run_of_an_id_is_a_separate_entry() {
    in_virtual_time(async {
        let stage = Stage::begin(Scheduler::builder(), "node n1 vcore=4").await;
        for run in 0..3 {
            stage.send_lines("app a1 in root.q").await;
            stage.send_lines("ask a1 k1 vcore=1").await;
            if run < 2 {
                stage.send_lines("release a1 *").await;
                stage.wait(30).await;
            }
        }
        let completed = stage.completed().await;
        assert_eq!(completed.len(), 2);
        assert!(completed[0].starts_with("a1 is Completed in root.q of ada from 0s to 30s"));
        assert!(completed[1].starts_with("a1 is Completed in root.q of ada from 30s to 60s"));
        assert!(stage.live().await[0].starts_with("a1 is Running"));
        let states = [("Completed", 2), ("Running", 1), ("total", 3)];
        assert_eq!(stage.states().await, states.map(|(state, n)| (state.to_owned(), n)));
    });
}

/// A removed application is kept beside the completed ones, whatever its state, and no state is
/// sent.
#[test]
fn an_application_removed_by_its_rm_is_kept_with_its_work() {
    in_virtual_time(async {
        let stage = Stage::begin(
            Scheduler::builder(),
            "
            node n1 vcore=1
            app new in root.q
            app accepted in root.q
            app running in root.q
            app completing in root.q
            ask running k1 vcore=1
            ask accepted k1 vcore=1
            ask completing k1 vcore=1
            withdraw completing k1
            ",
        )
        .await;
        stage.received();
        stage.wait(7).await;
        for app in ["new", "accepted", "running", "completing"] {
            stage.send_lines(&format!("remove-app {app}")).await;
        }
        assert_eq!(
            stage.received(),
            ["ask accepted/k1 released: STOPPED_BY_RM", "running/k1 released: STOPPED_BY_RM"]
        );
        assert_eq!(stage.completed().await, [""; 0]);
        let explained = stage.scheduler.explain("default", "accepted", 0).await.unwrap_err();
        assert_eq!(
            explained.to_string(),
            "application `accepted` was removed by its resource manager rm at \
             1970-01-01T00:00:07.0Z, waited for 7 s for 0.001 cores"
        );
        let read = async || {
            let list = ApplicationList::Ended(ApplicationFilter::default());
            let read = stage.scheduler.list_applications("default", list, Page::default()).await;
            let rows = read.unwrap().rows.into_iter();
            rows.map(|row| format!("{}; {}", shown(&row), row.removed_message)).collect::<Vec<_>>()
        };
        let kept = read().await;
        let ends = |at: usize, end: &str| assert!(kept[at].ends_with(end), "{kept:?}");
        ends(0, "Removed@7; removed by its resource manager rm");
        ends(1, "Removed@7; removed by its resource manager rm, waited for 7 s for 0.001 cores");
        ends(2, "removed by its resource manager rm, had 1 allocation");
        assert!(kept[3].starts_with("completing is Removed in root.q of ada from 0s to 7s: "));
        assert_eq!(stage.states().await, [("total".to_owned(), 0)]);
        stage.wait(3 * DAY_S).await;
        assert_eq!(read().await, kept);
        stage.wait(DAY_S).await;
        assert_eq!(read().await, [""; 0]);
        assert_eq!(stage.received(), [""; 0]);
        stage.send_lines("app running in root.q").await;
        assert_eq!(stage.received(), ["running accepted"]);
    });
}

#[test]
fn beyond_the_bound_the_oldest_entry_is_dropped() {
    in_virtual_time(async {
        let stage = Stage::begin(Scheduler::builder().ended_applications(2), "").await;
        for app in ["a1", "a2", "a3"] {
            stage.send_lines(&format!("app {app} in root.q")).await;
            stage.send_lines(&format!("ask {app} k1 vcore=1")).await;
            stage.send_lines(&format!("withdraw {app} k1")).await;
            stage.send_lines(&format!("app no-{app} in root.nowhere")).await;
        }
        stage.wait(30).await;
        let ids = |lines: Vec<String>| -> Vec<String> {
            lines.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
        };
        assert_eq!(ids(stage.completed().await), ["a2", "a3"]);
        assert_eq!(ids(stage.rejected().await), ["no-a2", "no-a3"]);
        stage.wait(4 * DAY_S).await;
        assert_eq!(stage.completed().await.len() + stage.rejected().await.len(), 0);
    });
}

#[test]
fn a_finished_run_has_summary_events() {
    in_virtual_time(async {
        let stage = Stage::begin(Scheduler::builder(), ONE_RUN).await;
        stage.send_lines("node n2 vcore=1").await;
        stage.send_lines("ask a1 k2 vcore=1 node=n2").await;
        stage.wait(10).await;
        stage.send_lines("release a1 *").await;
        let past = stage.next_event();
        stage.wait(30).await;
        expect![[r#"
            [
                "APP a1 SET APP_COMPLETED",
                "APP a1 REMOVE DETAILS_NONE",
                "APP a1 NONE DETAILS_NONE: state=Completed submitted=1970-01-01T00:00:00.0Z started=1970-01-01T00:00:00.0Z finished=1970-01-01T00:00:40.0Z rm=rm user=bob queue=root.q",
                "APP a1 NONE DETAILS_NONE of UNKNOWN vcore=10: used resource-seconds",
                "APP a1 NONE DETAILS_NONE of large memory=30 vcore=20: used resource-seconds",
            ]
        "#]]
        .assert_debug_eq(&stage.events(past, "a1"));
    });
}

#[test]
fn an_application_that_never_ran_has_no_summary() {
    in_virtual_time(async {
        let stage = Stage::begin(
            Scheduler::builder(),
            "
            app a1 in root.q
            ask a1 k1 vcore=1
            withdraw a1 k1
            ",
        )
        .await;
        let past = stage.next_event();
        stage.wait(30).await;
        let notified = ["APP a1 SET APP_COMPLETED", "APP a1 REMOVE DETAILS_NONE"];
        assert_eq!(stage.events(past, "a1"), notified);
        assert!(stage.completed().await[0].ends_with("Accepted@0 Completing@0 Completed@30"));
    });
}

/// Usage counts up to the removal, by instance type and by purpose; a member that was moving to
/// another node had used nothing yet.
#[test]
fn a_removal_summarises_running_allocations_too() {
    in_virtual_time(async {
        let stage = Stage::begin(
            Scheduler::builder(),
            "
            node n1 vcore=4 attr si/instance-type=large
            app a1 in root.q user bob gang vcore=2
            ask a1 p1 vcore=2 placeholder=tg
            ask a1 k1 vcore=1 node=n1
            ask a1 waits vcore=9
            ",
        )
        .await;
        stage.wait(4).await;
        stage.send_lines("node n2 vcore=8").await;
        stage.send_lines("ask a1 k2 vcore=3 node=n2").await;
        stage.wait(1).await;
        stage.send_lines("release a1 uuid=k1").await;
        stage.send_lines("ask a1 r1 vcore=2 group=tg node=n2").await;
        stage.wait(5).await;
        stage.received();
        let past = stage.next_event();
        stage.send_lines("remove-app a1").await;
        let notified = stage.events(past, "a1");
        let summed_up = notified.iter().skip_while(|line| !line.contains("state="));
        expect![[r#"
            [
                "APP a1 NONE DETAILS_NONE: state=Running submitted=1970-01-01T00:00:00.0Z started=1970-01-01T00:00:00.0Z finished=1970-01-01T00:00:10.0Z rm=rm user=bob queue=root.q",
                "APP a1 NONE DETAILS_NONE of UNKNOWN vcore=18: used resource-seconds",
                "APP a1 NONE DETAILS_NONE of large vcore=5: used resource-seconds",
                "APP a1 NONE DETAILS_NONE of large vcore=20: placeholder resource-seconds",
            ]
        "#]]
        .assert_debug_eq(&summed_up.collect::<Vec<_>>());
        assert_eq!(
            stage.received(),
            [
                "a1/k2 released: STOPPED_BY_RM",
                "a1/p1 released: STOPPED_BY_RM",
                "ask a1/waits released: STOPPED_BY_RM",
                "ask a1/r1 released: STOPPED_BY_RM"
            ],
            "and no state"
        );
        assert_eq!(stage.completed().await, [""; 0]);
        stage.wait(10 * DAY_S).await;
        assert_eq!(
            stage.events(past, "a1"),
            notified,
            "it was summed up once, and does not expire"
        );
    });
}

#[test]
fn held_places_count_as_placeholders_in_the_summary() {
    in_virtual_time(async {
        let stage = Stage::begin(
            Scheduler::builder(),
            "
            node n1 vcore=4
            app a1 in root.q needs tg x3 vcore=1
            ask a1 k1 vcore=1 group=tg
            ",
        )
        .await;
        stage.wait(10).await;
        let past = stage.next_event();
        stage.send_lines("remove-app a1").await;
        let notified = stage.events(past, "a1");
        let used = notified.iter().filter(|line| line.contains("resource-seconds"));
        let expected = [
            "APP a1 NONE DETAILS_NONE of UNKNOWN vcore=10: used resource-seconds",
            "APP a1 NONE DETAILS_NONE of UNKNOWN vcore=20: placeholder resource-seconds",
        ];
        assert_eq!(used.collect::<Vec<_>>(), expected);
    });
}

/// RMs often remove an application during the thirty seconds in which it is completing.
#[test]
fn a_removal_while_completing_or_failing_keeps_that_state() {
    in_virtual_time(async {
        let builder = Scheduler::builder().enforce_application_timeout(true);
        let stage = Stage::begin(
            builder,
            "
            node n1 vcore=4
            app done in root.q
            ask done k1 vcore=1
            app late in root.q timeout 5000
            ask late k1 vcore=1
            ",
        )
        .await;
        stage.wait(7).await;
        stage.send_lines("release done uuid=k1").await;
        stage.wait(3).await;
        let past = stage.next_event();
        for (app, state, used) in [("done", "Completing", 7), ("late", "Failing", 10)] {
            stage.send_lines(&format!("remove-app {app}")).await;
            let notified = stage.events(past, app);
            let summary = notified.iter().find(|line| line.contains("state=")).unwrap();
            assert!(summary.contains(&format!("state={state} ")), "{summary}");
            assert!(summary.contains("finished=1970-01-01T00:00:10.0Z"), "{summary}");
            let amount = format!(" of UNKNOWN vcore={used}: used resource-seconds");
            assert!(notified.last().unwrap().ends_with(&amount), "{notified:?}");
        }
    });
}

#[test]
fn a_removal_without_a_run_has_no_summary() {
    in_virtual_time(async {
        let stage = Stage::begin(Scheduler::builder(), "app new in root.q").await;
        stage.send_lines("app accepted in root.q").await;
        stage.send_lines("ask accepted k1 vcore=1").await;
        for app in ["new", "accepted"] {
            let past = stage.next_event();
            stage.send_lines(&format!("remove-app {app}")).await;
            let notified = stage.events(past, app);
            assert!(notified.contains(&format!("APP {app} REMOVE DETAILS_NONE")), "{notified:?}");
            assert!(!notified.iter().any(|line| line.contains("state=")), "{notified:?}");
        }
    });
}

#[test]
fn ended_applications_are_sorted_paged_and_filtered() {
    in_virtual_time(async {
        // More applications than one slice processes. Each completes half a minute after it
        // arrived.
        const COUNT: usize = 1_300;
        let stage = Stage::begin(Scheduler::builder(), "node n1 vcore=4000").await;
        let each =
            |line: &dyn Fn(usize) -> String| (0..COUNT).map(line).collect::<Vec<_>>().join("\n");
        let user = |n| if n % 2 == 0 { "ada" } else { "bob" };
        let came =
            each(&|n| format!("app a{n:04} in root.q user {}\nask a{n:04} k vcore=1", user(n)));
        stage.send_lines(&came).await;
        stage.send_lines(&each(&|n| format!("release a{n:04} *"))).await;
        stage.wait(31).await;
        let read = async |filter: ApplicationFilter, newest_first: bool, limit| {
            let (mut ids, mut after) = (Vec::new(), None);
            loop {
                let page = Page { after, limit, newest_first, ..Page::default() };
                let list = ApplicationList::Completed(filter.clone());
                let listed = stage.scheduler.list_applications("default", list, page).await;
                let listed = listed.unwrap();
                ids.extend(listed.rows.into_iter().map(|row| row.application_id));
                after = listed.next;
                if after.is_none() {
                    return ids;
                }
            }
        };
        let all = read(ApplicationFilter::default(), false, None).await;
        assert_eq!(all.len(), COUNT);
        let of_bob = ApplicationFilter { users: ["bob".to_owned()].into(), ..Default::default() };
        let last = ApplicationFilter { id_part: Some("a1299".to_owned()), ..Default::default() };
        for limit in [None, Some(7), Some(COUNT)] {
            for newest_first in [false, true] {
                let turned = |mut ids: Vec<String>| {
                    if newest_first {
                        ids.reverse();
                    }
                    ids
                };
                let found = read(ApplicationFilter::default(), newest_first, limit).await;
                assert_eq!(found, turned(all.clone()));
                let bobs = all.iter().filter(|id| id.ends_with(['1', '3', '5', '7', '9']));
                let found = read(of_bob.clone(), newest_first, limit).await;
                assert_eq!(found, turned(bobs.cloned().collect()));
                assert_eq!(read(last.clone(), newest_first, limit).await, ["a1299"]);
            }
        }
    });
}
