//! Rules of the lease, one by one.

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

/// Makes a connection that the test can close.
fn closing() -> (Arc<AtomicBool>, impl Fn(&str) -> Trip + Send + Sync + 'static) {
    let is_closed = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_closed);
    (is_closed, move |_: &str| if seen.load(Ordering::Relaxed) { Trip::Lost } else { QUICK })
}

#[test]
fn one_of_two_creators_holds_the_lease() {
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
fn one_of_two_successors_takes_an_expired_lease() {
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
fn expiry_ignores_the_clocks_of_others() {
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
fn any_change_prolongs_the_lease() {
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
fn crashed_holder_is_replaced_within_two_seconds_of_expiry() {
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
fn paused_holder_does_not_act_after_waking() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let (first, second) = (replicas.add_quick(), replicas.add_quick());
        replicas.pass(SECOND).await;
        assert!(replicas.all[first].lease.may_act());
        replicas.all[first].is_paused = true;
        replicas.pass(60 * SECOND).await;
        // The replica has not run since then, and finds out by its clock alone.
        assert!(replicas.all[first].leads() && !replicas.all[first].lease.may_act());
        assert!(replicas.all[second].lease.may_act());
        replicas.all[first].is_paused = false;
        replicas.pass(SECOND).await;
        assert_eq!(replicas.all[first].lead(), Lead::Lost);
        assert!(replicas.all[first].is_over && replicas.all[second].leads());
    });
}

#[test]
fn holder_notices_a_stolen_lease() {
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
fn isolated_holder_stops_before_another_starts() {
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
fn short_outage_changes_nothing() {
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

/// A read that started before a renewal and was answered after it proves nothing about the time
/// between.
#[test]
fn slow_read_does_not_shorten_the_lease() {
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
fn late_answer_does_not_prolong_the_lease() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let first = replicas.add(|method| match method {
            "PUT" => Trip::Takes(MOMENT, 3 * SECOND),
            _ => QUICK,
        });
        let second = replicas.add_quick();
        replicas.pass(30 * SECOND).await;
        // The holder stops once its renewal was answered.
        let before = replicas.leases.spec();
        replicas.until(10 * SECOND, |all| all.leases.spec() != before).await;
        replicas.pass(3 * SECOND + 4 * MOMENT).await;
        assert!(replicas.all[first].lease.may_act());
        replicas.all[first].is_paused = true;
        replicas.until(LEASE, |all| all.all[second].leads()).await;
    });
}

#[test]
fn duration_is_the_written_seconds() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let first = replicas.replica("r0", Duration::from_millis(2_990), |_| QUICK);
        replicas.all.push(first);
        replicas.pass(20 * SECOND).await;
        assert_eq!(replicas.leases.spec()["leaseDurationSeconds"], 2);
        // Other replicas read the lease often, and take it after two seconds.
        let second = replicas.replica("r1", 2 * SECOND, |_| QUICK);
        replicas.all.push(second);
        replicas.pass(10 * SECOND).await;
        assert!(replicas.all[0].leads());
        replicas.all[0].is_paused = true;
        replicas.until(4 * SECOND, |all| all.all[1].leads()).await;
    });
}

#[test]
fn stopping_holder_hands_over_at_once() {
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
fn stopping_holder_does_not_await_a_slow_renewal() {
    // The renewal arrives after the release, or right before it.
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
fn replica_stopped_while_acquiring_releases_the_lease() {
    // The stop comes before the request has arrived, and after it has taken effect.
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
fn unaware_holder_releases_the_lease() {
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
fn stopping_standby_leaves_the_lease_alone() {
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
fn deleted_lease_stays_with_its_holder() {
    in_virtual_time(async {
        let mut replicas = Replicas::default();
        let (first, second) = (replicas.add_quick(), replicas.add_quick());
        replicas.pass(3 * SECOND).await;
        replicas.leases.remove();
        replicas.pass(LEASE).await;
        assert!(replicas.all[first].leads());
        assert_eq!(replicas.leases.holder().as_deref(), Some("r0"));
        // The last holder is gone too.
        replicas.all[first].is_paused = true;
        replicas.leases.remove();
        let took = replicas.until(60 * SECOND, |all| all.all[second].leads()).await;
        assert!(took >= LEASE && took <= LEASE + 2 * SECOND, "after {took:?}");
    });
}

#[test]
fn repeated_failures_are_logged_once_a_minute() {
    in_virtual_time(async {
        let log = Log::begin();
        let mut replicas = Replicas::default();
        replicas.add(|_| Trip::Refused(403));
        replicas.pass(290 * SECOND).await;
        assert_eq!(log.lines("the lease cannot be read or written").len(), 5);
        assert_eq!(log.lines("why=\"a refusal with 403\"").len(), 5, "as the server said it");
    });
}
