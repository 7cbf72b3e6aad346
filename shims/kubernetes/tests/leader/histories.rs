//! Random histories of replicas and their requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use crate::replicas::{LEASE, Replica, Replicas, in_virtual_time};
use crate::stub::{QUICK, Trip};

/// Random numbers from a seed.
#[derive(Clone)]
struct Dice(Arc<AtomicU64>);

impl Dice {
    fn below(&self, bound: u64) -> u64 {
        let mut mixed = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn time(&self, longest: u64) -> Duration {
        Duration::from_millis(self.below(longest))
    }

    fn trip(&self) -> Trip {
        match self.below(20) {
            0 => Trip::Lost,
            1 => Trip::Unanswered(self.time(6_000)),
            2 => Trip::Refused(500),
            3..7 => Trip::Takes(self.time(5_000), self.time(5_000)),
            _ => Trip::Takes(self.time(50), self.time(50)),
        }
    }
}

const REPLICAS: u64 = 3;

async fn many_minutes(seed: u64) {
    let dice = Dice(Arc::new(AtomicU64::new(seed)));
    let is_calm = Arc::new(AtomicU64::new(0));
    let mut replicas = Replicas::default();
    let mut count = 0;
    let mut another = |replicas: &Replicas| -> Replica {
        count += 1;
        let (dice, is_calm) = (dice.clone(), Arc::clone(&is_calm));
        replicas.replica(&format!("r{count}"), LEASE, move |_| {
            if is_calm.load(Ordering::Relaxed) == 1 { QUICK } else { dice.trip() }
        })
    };
    for _ in 0..REPLICAS {
        let new = another(&replicas);
        replicas.all.push(new);
    }
    for _ in 0..300 {
        let at = usize::try_from(dice.below(REPLICAS)).unwrap();
        match dice.below(20) {
            0 => replicas.all[at].is_paused = true,
            1 => replicas.all[at].stop.cancel(),
            2 => replicas.all[at] = another(&replicas),
            3..7 => replicas.all[at].is_paused = false,
            _ => {}
        }
        replicas.pass(dice.time(2_000)).await;
        if replicas.all[at].is_over {
            replicas.all[at] = another(&replicas);
        }
    }
    // Once all failures are over, one replica leads.
    is_calm.store(1, Ordering::Relaxed);
    for at in 0..replicas.all.len() {
        replicas.all[at].is_paused = false;
        if replicas.all[at].is_over || replicas.all[at].stop.is_cancelled() {
            replicas.all[at] = another(&replicas);
        }
    }
    let leads = |all: &Replicas| all.all.iter().any(|one| one.leads() && one.lease.may_act());
    replicas.pass(6 * Duration::from_secs(1)).await;
    replicas.until(LEASE + 2 * Duration::from_secs(1), leads).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn never_two_leaders_and_finally_one(seed in any::<u64>()) {
        in_virtual_time(many_minutes(seed));
    }
}
