//! Conditions, and log lines about failures.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use monoceros_kubernetes::shim::{About, ApiOrder, Event, GroupCondition, Key, Outcome};
use serde_json::json;

use super::log::Log;
use super::server::{Answer, Bench, in_virtual_time, ok, pass, pod, settings};

#[test]
fn does_not_overwrite_the_condition_of_a_bound_pod() {
    for (found, is_written_again) in [
        (json!({"metadata": {"uid": "p", "resourceVersion": "9"}}), true),
        (
            json!({"metadata": {"uid": "p", "resourceVersion": "9"}, "spec": {"nodeName": "n1"}}),
            false,
        ),
        (json!({"metadata": {"uid": "another", "resourceVersion": "9"}}), false),
    ] {
        in_virtual_time(async {
            let written = AtomicU32::new(0);
            let bench = Bench::new(settings(), move |call| match call.method.as_str() {
                "GET" => Answer::Is(found.clone()),
                _ if written.fetch_add(1, Ordering::Relaxed) == 0 => {
                    Answer::Refuses(409, "the object has been modified")
                }
                _ => ok(),
            });
            bench.condition(pod("p"));
            pass(Duration::from_secs(10)).await;
            let patches = bench.sent("PATCH", "/p/status");
            let versions: Vec<_> =
                patches.iter().map(|patch| &patch.body["metadata"]["resourceVersion"]).collect();
            if is_written_again {
                assert_eq!(versions, ["7", "9"]);
            } else {
                assert_eq!(versions, ["7"]);
            }
        });
    }
}

#[test]
fn logs_a_missing_right_once_a_minute_per_call() {
    in_virtual_time(async {
        let log = Log::begin();
        let mut bench = Bench::new(settings(), |_| Answer::Refuses(403, "may not"));
        for number in 0..100 {
            let name = format!("p{number}");
            bench.bind(pod(&name));
            bench.condition(pod(&name));
            bench.evict(pod(&format!("v{number}")));
        }
        for _ in 0..300 {
            bench.outcome().await;
        }
        pass(Duration::from_secs(30)).await;
        for call in ["create pods/binding", "patch pods/status", "create pods/eviction"] {
            let lines = log.lines(call);
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert!(lines[0].contains("may not (403)"), "{lines:?}");
        }
        bench.bind(pod("again"));
        pass(Duration::from_secs(60)).await;
        bench.bind(pod("and again"));
        pass(Duration::from_secs(1)).await;
        let lines = log.lines("create pods/binding");
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[1].contains("left_out=100"), "{lines:?}");
    });
}

#[test]
fn does_not_log_failures_in_a_terminating_namespace() {
    in_virtual_time(async {
        let log = Log::begin();
        let mut bench = Bench::new(settings(), |_| Answer::NamespaceGoing);
        bench.bind(pod("p"));
        bench.condition(pod("p"));
        bench.workers.queue(ApiOrder::Event(Event {
            about: About { kind: "Pod", namespace: "ns".into(), name: "p".into(), uid: "p".into() },
            is_warning: true,
            reason: "Odd",
            action: "Test",
            message: "something".to_owned(),
        }));
        bench.outcome().await;
        pass(Duration::from_secs(10)).await;
        assert_eq!(bench.calls().len(), 3, "nothing is tried again");
        assert_eq!(log.lines(""), [""; 0]);
    });
}

#[test]
fn reports_conditions_that_cannot_be_written() {
    let failed = Some(Outcome::ConditionFailed(Key::from("p")));
    for (answer, outcome) in [
        (Answer::Refuses(503, "later"), failed.clone()),
        (Answer::Refuses(403, "may not"), failed.clone()),
        (Answer::Hangs, failed),
        (Answer::Refuses(404, "gone"), None),
        (Answer::NamespaceGoing, None),
        (ok(), None),
    ] {
        in_virtual_time(async {
            let mut bench = Bench::new(settings(), move |_| answer.clone());
            bench.condition(pod("p"));
            assert_eq!(bench.outcome_within(Duration::from_secs(60)).await, outcome);
        });
    }
    in_virtual_time(async {
        let mut bench = Bench::new(settings(), |_| Answer::Refuses(500, "broken"));
        let condition = GroupCondition {
            namespace: "ns".to_owned(),
            name: "g".to_owned(),
            type_: "PodGroupInitiallyScheduled",
            status: true,
            reason: "Scheduled".to_owned(),
            message: "all are there".to_owned(),
        };
        bench.workers.queue(ApiOrder::GroupCondition(condition.clone()));
        assert_eq!(bench.outcome().await, Outcome::GroupConditionFailed(condition));
    });
}
