//! Bindings and every way in which they can fail.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use monoceros_kubernetes::shim::{Key, Outcome, open};
use serde_json::{Value, json};

use super::log::Log;
use super::server::{Answer, Bench, Call, in_virtual_time, ok, pass, pod, settings};

fn bound(name: &str) -> Outcome {
    Outcome::Bound(Key::from(name))
}

fn not_bound(outcome: &Outcome) -> &str {
    let Outcome::NotBound(_, why) = outcome else { panic!("{outcome:?}") };
    why
}

/// A server that answers no binding, and returns the pod with this node.
fn unanswered(node: Value) -> impl Fn(&Call) -> Answer + Send + Sync {
    move |call| {
        if call.method == "POST" {
            return Answer::Hangs;
        }
        let mut pod = pod("p");
        pod["spec"] = json!({"nodeName": node});
        Answer::Is(pod)
    }
}

#[test]
fn binding_names_the_uid_of_its_pod() {
    in_virtual_time(async {
        let mut bench = Bench::new(settings(), |_| ok());
        bench.bind(pod("p"));
        assert_eq!(bench.outcome().await, bound("p"));
        let calls = bench.calls();
        let [call] = calls.as_slice() else { panic!("{calls:?}") };
        assert_eq!(call.path, "/api/v1/namespaces/ns/pods/p/binding");
        assert_eq!(call.body["metadata"]["uid"], "p");
        assert_eq!(call.body["target"]["name"], "n1");
    });
}

#[test]
fn unanswered_binding_is_looked_up_in_the_pod() {
    for (node, is_bound, why) in [
        (json!("n1"), true, ""),
        (json!(null), false, "no answer within 10s"),
        (json!("n2"), false, "it was bound to n2 by somebody else"),
    ] {
        in_virtual_time(async {
            let mut bench = Bench::new(settings(), unanswered(node));
            bench.bind(pod("p"));
            let outcome = bench.outcome().await;
            if is_bound {
                assert_eq!(outcome, bound("p"));
            } else {
                assert_eq!(not_bound(&outcome), why);
            }
            let calls = bench.calls();
            assert_eq!(calls.len(), 2, "{calls:?}");
            assert_eq!(calls[1].at, Duration::from_secs(10));
        });
    }
}

#[test]
fn unknown_outcome_is_looked_up_until_known() {
    in_virtual_time(async {
        let reads = AtomicU32::new(0);
        let mut bench = Bench::new(settings(), move |call| match call.method.as_str() {
            "POST" => Answer::Refuses(500, "broken"),
            _ if reads.fetch_add(1, Ordering::Relaxed) < 3 => Answer::Refuses(503, "not yet"),
            _ => Answer::Is(pod("p")),
        });
        bench.bind(pod("p"));
        assert_eq!(not_bound(&bench.outcome().await), "broken (500)");
        assert_eq!((bench.sent("POST", "").len(), bench.sent("GET", "/p").len()), (1, 4));
    });
}

#[test]
fn forbidden_read_is_retried_while_the_server_starts() {
    in_virtual_time(async {
        let reads = AtomicU32::new(0);
        let mut bench = Bench::new(settings(), move |call| match call.method.as_str() {
            "POST" => Answer::Refuses(500, "stopped"),
            _ if reads.fetch_add(1, Ordering::Relaxed) < 5 => Answer::Refuses(403, "forbidden"),
            _ => {
                let mut pod = pod("p");
                pod["spec"] = json!({"nodeName": "n1"});
                Answer::Is(pod)
            }
        });
        bench.bind(pod("p"));
        assert_eq!(bench.outcome().await, bound("p"), "what it forbade says nothing of the pod");
    });
}

#[test]
fn outcome_stays_unknown_without_the_right_to_read_pods() {
    in_virtual_time(async {
        let mut bench = Bench::new(settings(), move |call| match call.method.as_str() {
            "POST" => Answer::Refuses(500, "broken"),
            _ => Answer::Refuses(403, "forbidden"),
        });
        bench.bind(pod("p"));
        assert_eq!(not_bound(&bench.outcome().await), "forbidden (403)");
        let last = bench.calls().last().unwrap().at;
        assert!(last >= Duration::from_secs(10) && last <= Duration::from_secs(20), "{last:?}");
    });
}

#[test]
fn busy_server_is_retried_a_few_times() {
    for (busy, outcome) in [(4, Ok(())), (100, Err("busy (429)"))] {
        in_virtual_time(async {
            let asked = AtomicU32::new(0);
            let mut bench =
                Bench::new(settings(), move |_| match asked.fetch_add(1, Ordering::Relaxed) {
                    times if times < busy => Answer::Refuses(429, "busy"),
                    _ => ok(),
                });
            bench.bind(pod("p"));
            match outcome {
                Ok(()) => assert_eq!(bench.outcome().await, bound("p")),
                Err(why) => assert_eq!(not_bound(&bench.outcome().await), why),
            }
            let calls = bench.calls();
            assert_eq!(calls.len(), 5, "no pod is read: it is certain");
            assert!(calls[4].at > Duration::from_secs(1), "{calls:?}");
        });
    }
}

#[test]
fn does_not_bind_to_a_removed_node() {
    in_virtual_time(async {
        let mut bench = Bench::new(settings(), |_| ok());
        open(&bench.scene).remove_node("n1");
        bench.bind(pod("p"));
        assert_eq!(not_bound(&bench.outcome().await), "the node n1 is gone");
        assert_eq!(bench.calls().len(), 0);
    });
}

#[test]
fn does_not_bind_to_another_node_of_the_same_name() {
    in_virtual_time(async {
        let mut bench = Bench::new(settings(), |_| ok());
        bench.bind(pod("p"));
        // The removed node took its placements along.
        open(&bench.scene).clear("p");
        assert_eq!(not_bound(&bench.outcome().await), "the pod is not to run on n1 any more");
        assert_eq!(bench.calls().len(), 0);
    });
}

#[test]
fn cancelled_binding_is_not_retried_and_reports_its_outcome() {
    for (answer, is_bound) in [(Answer::Refuses(429, "busy"), false), (Answer::Hangs, true)] {
        in_virtual_time(async {
            let mut bench = Bench::new(settings(), move |call| {
                if call.method == "POST" {
                    return answer.clone();
                }
                let mut pod = pod("p");
                pod["spec"] = json!({"nodeName": "n1"});
                Answer::Is(pod)
            });
            let called_off = bench.bind(pod("p"));
            assert_eq!(bench.outcome_within(Duration::from_millis(50)).await, None);
            called_off.cancel();
            let outcome = bench.outcome().await;
            if is_bound {
                assert_eq!(outcome, bound("p"));
            } else {
                assert_eq!(not_bound(&outcome), "the pod is to make room");
            }
            assert_eq!(bench.sent("POST", "/binding").len(), 1);
        });
    }
}

#[test]
fn sends_nothing_after_the_lease_may_have_expired() {
    for (node, is_bound) in [(json!("n1"), true), (json!(null), false)] {
        in_virtual_time(async {
            let mut bench = Bench::new(settings(), unanswered(node));
            bench.may_act_until(Duration::from_secs(3));
            bench.bind(pod("p"));
            assert_eq!(bench.outcome_within(Duration::from_secs(2)).await, None);
            // The lease is renewed once more, and then never.
            bench.may_act_until(Duration::from_secs(5));
            let outcome = bench.outcome().await;
            if is_bound {
                assert_eq!(outcome, bound("p"));
            } else {
                assert_eq!(not_bound(&outcome), "this replica does not lead any more");
            }
            let calls = bench.calls();
            let asked: Vec<_> = calls.iter().map(|call| (&*call.method, call.at)).collect();
            let second = Duration::from_secs(1);
            assert_eq!(asked, [("POST", Duration::ZERO), ("GET", 5 * second)]);
            bench.bind(pod("q"));
            bench.outcome().await;
            assert_eq!(bench.sent("POST", "").len(), 1);
        });
    }
}

#[test]
fn panic_of_a_worker_is_reported() {
    in_virtual_time(async {
        let log = Log::begin();
        let bench = Bench::new(settings(), |call| match call.path.as_str() {
            path if path.contains("/odd") => panic!("nobody has thought of that"),
            _ => ok(),
        });
        let broken = bench.workers.broken();
        bench.bind(pod("p"));
        pass(Duration::from_secs(1)).await;
        assert!(!broken.is_cancelled());
        bench.bind(pod("odd"));
        pass(Duration::from_secs(1)).await;
        assert!(broken.is_cancelled());
        let lines = log.lines("has panicked");
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("nobody has thought of that"), "{lines:?}");
    });
}
