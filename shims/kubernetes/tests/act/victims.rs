//! Evictions.

use std::time::Duration;

use monoceros_kubernetes::act::{ApiSettings, Victims};
use monoceros_kubernetes::shim::{Key, Outcome};
use serde_json::json;

use super::server::{Answer, Bench, Call, in_virtual_time, ok, pod, settings};

fn going(name: &str) -> Outcome {
    Outcome::Evicting(Key::from(name))
}

fn bench(victims: Victims, answers: impl Fn(&Call) -> Answer + Send + Sync + 'static) -> Bench {
    Bench::new(ApiSettings { victims, ..settings() }, answers)
}

/// A server whose budgets forbid every eviction.
fn budgets(call: &Call) -> Answer {
    if call.path.ends_with("/eviction") {
        Answer::Refuses(429, "the budget is spent")
    } else {
        ok()
    }
}

#[test]
fn blocked_victim_does_not_block_others() {
    in_virtual_time(async {
        let mut bench =
            bench(
                Victims::Evict,
                |call| {
                    if call.path.contains("/free") { ok() } else { budgets(call) }
                },
            );
        for number in 0..50 {
            bench.evict(pod(&format!("kept{number}")));
        }
        for _ in 0..50 {
            let held = bench.outcome_within(Duration::from_secs(1)).await;
            assert!(matches!(held, Some(Outcome::EvictionDelayed(..))), "{held:?}");
        }
        bench.evict(pod("free"));
        assert_eq!(bench.outcome_within(Duration::from_secs(1)).await, Some(going("free")));
        // The others are retried, and reported once.
        assert_eq!(bench.outcome_within(Duration::from_secs(600)).await, None);
        let asked = bench.sent("POST", "/kept0/eviction");
        assert!(asked.len() > 50, "{}", asked.len());
        assert_eq!(bench.sent("DELETE", "").len(), 0);
    });
}

#[test]
fn victim_blocked_too_long_is_deleted() {
    in_virtual_time(async {
        let mut bench = bench(Victims::EvictThenDelete, budgets);
        bench.evict(pod("p"));
        let why = "the pod is to make room, and may not go yet: the budget is spent (429)";
        assert_eq!(bench.outcome().await, Outcome::EvictionDelayed(Key::from("p"), why.to_owned()));
        assert_eq!(bench.outcome().await, going("p"));
        let deleted = bench.sent("DELETE", "/p");
        assert_eq!(deleted.len(), 1);
        assert_eq!(deleted[0].body["preconditions"]["uid"], "p");
        assert_eq!(deleted[0].at, Duration::from_secs(60));
    });
}

#[test]
fn victim_blocked_too_long_stays_if_so_configured() {
    in_virtual_time(async {
        let mut bench = bench(Victims::EvictThenGiveBack, budgets);
        bench.evict(pod("p"));
        assert!(matches!(bench.outcome().await, Outcome::EvictionDelayed(..)));
        let why = "the pod was to make room, and stays: the budget is spent (429)";
        assert_eq!(bench.outcome().await, Outcome::EvictionFailed(Key::from("p"), why.to_owned()));
        let asked = bench.sent("POST", "/eviction");
        assert_eq!(asked.last().unwrap().at, Duration::from_secs(60));
        assert_eq!(bench.outcome_within(Duration::from_secs(600)).await, None);
        assert_eq!(bench.calls().len(), asked.len(), "it is not tried any more");
    });
    // While the outcome is unknown the eviction is retried.
    in_virtual_time(async {
        let mut bench = bench(Victims::EvictThenGiveBack, |_| Answer::Hangs);
        bench.evict(pod("p"));
        assert!(matches!(bench.outcome().await, Outcome::EvictionDelayed(..)));
        assert_eq!(bench.outcome_within(Duration::from_secs(600)).await, None);
    });
}

#[test]
fn deletes_victims_at_once_if_so_configured() {
    in_virtual_time(async {
        let mut bench = bench(Victims::Delete, budgets);
        bench.evict(pod("p"));
        assert_eq!(bench.outcome().await, going("p"));
        assert_eq!(bench.calls().len(), 1);
    });
}

#[test]
fn failed_deletion_is_retried() {
    in_virtual_time(async {
        let mut bench = bench(Victims::EvictThenDelete, |_| Answer::Refuses(403, "may not"));
        bench.evict(pod("p"));
        assert!(matches!(bench.outcome().await, Outcome::EvictionDelayed(..)));
        assert_eq!(bench.outcome_within(Duration::from_secs(600)).await, None);
        let deleted = bench.sent("DELETE", "/p").len();
        assert!((50..150).contains(&deleted), "{deleted}");
    });
}

#[test]
fn conflict_is_not_an_eviction() {
    for (found, is_going) in [
        (Answer::Is(pod("p")), false),
        (Answer::Is(pod("another")), true),
        (
            Answer::Is(json!({"metadata": {"name": "p", "uid": "p",
                "deletionTimestamp": "2026-01-01T00:00:00Z"}})),
            true,
        ),
        (Answer::Refuses(404, "not found"), true),
    ] {
        in_virtual_time(async {
            let mut bench = bench(Victims::Evict, move |call| match call.method.as_str() {
                "GET" => found.clone(),
                _ => Answer::Refuses(409, "the object has been modified"),
            });
            bench.evict(pod("p"));
            let outcome = bench.outcome().await;
            assert_eq!(outcome == going("p"), is_going, "{outcome:?}");
            assert_eq!(bench.sent("POST", "/eviction").len(), 1);
        });
    }
}

#[test]
fn cancelled_eviction_is_not_retried() {
    in_virtual_time(async {
        let mut bench = bench(Victims::EvictThenDelete, |call| match call.path.as_str() {
            path if path.contains("/hangs") => Answer::Hangs,
            _ => budgets(call),
        });
        let refused = bench.evict(pod("p"));
        let unanswered = bench.evict(pod("hangs"));
        assert!(matches!(bench.outcome().await, Outcome::EvictionDelayed(..)));
        refused.cancel();
        unanswered.cancel();
        let asked = bench.calls().len();
        assert_eq!(bench.outcome_within(Duration::from_secs(600)).await, None);
        assert_eq!(bench.calls().len(), asked);
    });
}
