//! What a lease is for, one rule after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use monoceros_kubernetes::leader::Lead;
use serde_json::json;
use tokio::time::Instant;

use crate::log::Log;
use crate::replicas::{LEASE, Replicas, in_virtual_time};
use crate::stub::{QUICK, Trip};

const SECOND: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_millis(5);

/// Ways that a test can close: nothing comes to the server any more.
fn closing() -> (Arc<AtomicBool>, impl Fn(&str) -> Trip + Send + Sync + 'static) {
    let is_closed = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_closed);
    (is_closed, move |_: &str| if seen.load(Ordering::Relaxed) { Trip::Lost } else { QUICK })
}

#[test]
fn of_two_who_create_it_one_has_it() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let (first, second) = (replicas.add_quick(), replicas.add_quick());
        replicas.pass(3 * SECOND).await;
        assert_eq!(replicas.leases.holder().as_deref(), Some("r0"));
        assert!(replicas.all[first].leads());
        assert_eq!(replicas.all[second].lead(), Lead::Other(Some("r0".to_owned())));
    });
}

#[test]
fn of_two_who_take_it_from_one_that_is_gone_one_has_it() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        replicas.leases.write(json!({"holderIdentity": "gone", "leaseDurationSeconds": 20}));
        let (first, second) = (replicas.add_quick(), replicas.add_quick());
        replicas.pass(30 * SECOND).await;
        assert_eq!(replicas.leases.holder().as_deref(), Some("r0"));
        assert!(replicas.all[first].leads());
        assert_eq!(replicas.all[second].lead(), Lead::Other(Some("r0".to_owned())));
        assert_eq!(replicas.leases.spec()["leaseTransitions"], 1);
    });
}

#[test]
fn it_expires_by_the_time_since_it_was_seen_to_change_whatever_others_clocks_say() {
    for time in ["1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"] {
        in_virtual_time(async {
            let mut replicas = Replicas::default();
            replicas.leases.write(json!({
                "holderIdentity": "gone", "leaseDurationSeconds": 7, "renewTime": time}));
            let it = replicas.add_quick();
            let took = replicas.until(60 * SECOND, |all| all.all[it].leads()).await;
            assert!(took >= 7 * SECOND && took <= 9 * SECOND, "after {took:?}");
        });
    }
}

#[test]
fn a_change_of_any_kind_lets_it_last_longer() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let spec = json!({"holderIdentity": "there", "leaseDurationSeconds": 7});
        replicas.leases.write(spec.clone());
        let it = replicas.add_quick();
        for _ in 0..5 {
            replicas.pass(6 * SECOND).await;
            assert!(!replicas.all[it].leads());
            replicas.leases.write(spec.clone());
        }
        let took = replicas.until(60 * SECOND, |all| all.all[it].leads()).await;
        assert!(took >= 7 * SECOND && took <= 9 * SECOND, "after {took:?}");
    });
}

#[test]
fn one_that_ends_without_a_word_is_followed_within_two_seconds_of_its_lease() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let (first, second) = (replicas.add_quick(), replicas.add_quick());
        replicas.pass(33 * SECOND).await;
        assert!(replicas.all[first].leads());
        replicas.all[first].is_paused = true;
        let took = replicas.until(60 * SECOND, |all| all.all[second].leads()).await;
        assert!(took <= LEASE + 2 * SECOND, "after {took:?}");
    });
}

#[test]
fn one_that_is_paused_does_not_act_when_it_wakes() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let (first, second) = (replicas.add_quick(), replicas.add_quick());
        replicas.pass(SECOND).await;
        assert!(replicas.all[first].lease.may_act());
        replicas.all[first].is_paused = true;
        replicas.pass(60 * SECOND).await;
        // It has not run since, and knows it by its clock alone.
        assert!(replicas.all[first].leads() && !replicas.all[first].lease.may_act());
        assert!(replicas.all[second].lease.may_act());
        replicas.all[first].is_paused = false;
        replicas.pass(SECOND).await;
        assert_eq!(replicas.all[first].lead(), Lead::Lost);
        assert!(replicas.all[first].is_over && replicas.all[second].leads());
    });
}

#[test]
fn one_whose_lease_somebody_takes_has_lost_it() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let it = replicas.add_quick();
        replicas.pass(SECOND).await;
        replicas.leases.write(json!({"holderIdentity": "bold", "leaseDurationSeconds": 20}));
        replicas.pass(LEASE / 4).await;
        assert_eq!(replicas.all[it].lead(), Lead::Lost);
        assert!(replicas.all[it].is_over && !replicas.all[it].lease.may_act());
        assert_eq!(replicas.leases.holder().as_deref(), Some("bold"));
    });
}

#[test]
fn one_that_does_not_reach_the_server_ends_before_another_begins() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let (is_closed, way) = closing();
        let (first, second) = (replicas.add(way), replicas.add_quick());
        replicas.pass(7 * SECOND).await;
        is_closed.store(true, Ordering::Relaxed);
        let took = replicas.until(60 * SECOND, |all| all.all[second].leads()).await;
        assert!(took <= LEASE + 2 * SECOND, "after {took:?}");
        replicas.pass(10 * SECOND).await;
        assert_eq!(replicas.all[first].lead(), Lead::Lost);
        assert!(replicas.all[first].is_over);
    });
}

#[test]
fn an_outage_shorter_than_the_lease_changes_nothing() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let (is_closed, way) = closing();
        let first = replicas.add(way);
        replicas.pass(7 * SECOND).await;
        is_closed.store(true, Ordering::Relaxed);
        replicas.pass(9 * SECOND).await;
        is_closed.store(false, Ordering::Relaxed);
        for _ in 0..60 {
            replicas.pass(SECOND).await;
            assert!(replicas.all[first].lease.may_act());
        }
    });
}

/// A look that began before a renewal and was answered after it says nothing of the time between.
#[test]
fn a_slow_look_does_not_let_the_lease_expire_sooner() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let begun = Instant::now();
        let first = replicas.add_quick();
        let is_slow = Arc::new(AtomicBool::new(true));
        let slow = Arc::clone(&is_slow);
        replicas.add(move |method| {
            // The holder renews every 5.02 s.
            let next = 5.02 - begun.elapsed().as_secs_f64() % 5.02 + 0.2;
            if method == "GET" && next < 3.9 && slow.load(Ordering::Relaxed) {
                Trip::Takes(Duration::from_secs_f64(next), MOMENT)
            } else {
                QUICK
            }
        });
        replicas.pass(28 * SECOND).await;
        assert!(replicas.all[first].leads());
        replicas.all[first].is_paused = true;
        is_slow.store(false, Ordering::Relaxed);
        replicas.until(LEASE, |all| all.all[1].leads()).await;
    });
}

#[test]
fn a_renewal_that_is_answered_late_does_not_let_it_last_longer() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let first = replicas.add(|method| match method {
            "PUT" => Trip::Takes(MOMENT, 3 * SECOND),
            _ => QUICK,
        });
        let second = replicas.add_quick();
        replicas.pass(30 * SECOND).await;
        // It stops when it has heard of a renewal.
        let before = replicas.leases.spec();
        replicas.until(10 * SECOND, |all| all.leases.spec() != before).await;
        replicas.pass(3 * SECOND + 4 * MOMENT).await;
        assert!(replicas.all[first].lease.may_act());
        replicas.all[first].is_paused = true;
        replicas.until(LEASE, |all| all.all[second].leads()).await;
    });
}

#[test]
fn it_lasts_as_many_seconds_as_are_written_down() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let first = replicas.replica("r0", Duration::from_millis(2_990), |_| QUICK);
        replicas.all.push(first);
        replicas.pass(20 * SECOND).await;
        assert_eq!(replicas.leases.spec()["leaseDurationSeconds"], 2);
        // Others look at it often, and take it when two seconds are over.
        let second = replicas.replica("r1", 2 * SECOND, |_| QUICK);
        replicas.all.push(second);
        replicas.pass(10 * SECOND).await;
        assert!(replicas.all[0].leads());
        replicas.all[0].is_paused = true;
        replicas.until(4 * SECOND, |all| all.all[1].leads()).await;
    });
}

#[test]
fn one_that_leaves_gives_it_back_and_another_takes_it_at_once() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let (first, second) = (replicas.add_quick(), replicas.add_quick());
        replicas.pass(3 * SECOND).await;
        replicas.all[first].stop.cancel();
        let took = replicas.until(LEASE, |all| all.all[second].leads()).await;
        assert!(took <= 2 * SECOND, "after {took:?}");
        assert!(replicas.all[first].is_over);
    });
}

#[test]
fn one_that_leaves_does_not_wait_for_a_renewal_that_takes_long() {
    // It comes to the server afterwards, or right before what gives the lease back.
    for (renewal, stopped) in [(4 * SECOND, SECOND), (SECOND, 198 * MOMENT)] {
        in_virtual_time(async {
            let mut replicas = Replicas::default();
            let renewals = Arc::new(AtomicU32::new(0));
            let seen = Arc::clone(&renewals);
            let first = replicas.add(move |method| match method {
                "PUT" if seen.fetch_add(1, Ordering::Relaxed) == 0 => Trip::Unanswered(renewal),
                _ => Trip::Takes(MOMENT, 10 * MOMENT),
            });
            replicas.pass(SECOND).await;
            let second = replicas.add_quick();
            replicas.until(LEASE, |_| renewals.load(Ordering::Relaxed) == 1).await;
            replicas.pass(stopped).await;
            replicas.all[first].stop.cancel();
            let took = replicas.until(LEASE, |all| all.all[second].leads()).await;
            assert!(took <= 2 * SECOND, "after {took:?}");
            assert!(replicas.all[first].is_over);
            replicas.pass(10 * SECOND).await;
            assert_eq!(replicas.leases.holder().as_deref(), Some("r1"));
        });
    }
}

#[test]
fn one_that_leaves_while_it_takes_it_gives_it_back() {
    // Before the request has come to the server, and after it is done there.
    for stopped in [500, 1_500] {
        in_virtual_time(async {
            let mut replicas = Replicas::default();
            let it = replicas.add(|method| match method {
                "POST" => Trip::Takes(SECOND, SECOND),
                _ => QUICK,
            });
            replicas.pass(Duration::from_millis(stopped)).await;
            assert!(!replicas.all[it].leads());
            replicas.all[it].stop.cancel();
            replicas.until(5 * SECOND, |all| all.all[it].is_over).await;
            assert_eq!(replicas.leases.spec()["holderIdentity"], "", "it was taken");
        });
    }
}

#[test]
fn one_that_has_it_without_knowing_gives_it_back() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let it = replicas.add(|method| match method {
            "POST" => Trip::Unanswered(MOMENT),
            _ => QUICK,
        });
        replicas.pass(SECOND).await;
        assert_eq!(replicas.leases.holder().as_deref(), Some("r0"));
        replicas.all[it].stop.cancel();
        replicas.until(10 * SECOND, |all| all.all[it].is_over).await;
        assert!(!replicas.all[it].leads());
        assert_eq!(replicas.leases.holder(), None);
    });
}

#[test]
fn one_that_stands_by_leaves_the_lease_alone_when_it_leaves() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let (first, second) = (replicas.add_quick(), replicas.add_quick());
        replicas.pass(3 * SECOND).await;
        replicas.all[second].stop.cancel();
        replicas.pass(3 * SECOND).await;
        assert!(replicas.all[second].is_over && replicas.all[first].leads());
        assert_eq!(replicas.leases.holder().as_deref(), Some("r0"));
    });
}

#[test]
fn one_that_is_removed_stays_with_whoever_had_it() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let (first, second) = (replicas.add_quick(), replicas.add_quick());
        replicas.pass(3 * SECOND).await;
        replicas.leases.remove();
        replicas.pass(LEASE).await;
        assert!(replicas.all[first].leads());
        assert_eq!(replicas.leases.holder().as_deref(), Some("r0"));
        // Whoever had it is gone as well.
        replicas.all[first].is_paused = true;
        replicas.leases.remove();
        let took = replicas.until(60 * SECOND, |all| all.all[second].leads()).await;
        assert!(took >= LEASE && took <= LEASE + 2 * SECOND, "after {took:?}");
    });
}

#[test]
fn what_goes_wrong_again_and_again_is_told_once_a_minute() {
    in_virtual_time(async {
        let log = Log::begin();
        let mut replicas = Replicas::default();
        replicas.add(|_| Trip::Refused(403));
        replicas.pass(290 * SECOND).await;
        assert_eq!(log.lines("the lease cannot be read or written").len(), 5);
        assert_eq!(log.lines("why=\"a refusal with 403\"").len(), 5, "as the server said it");
    });
}
