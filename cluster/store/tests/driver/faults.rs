//! Faults of the store, alone and at random: nobody decides for too long, and two never do.

use std::time::Duration;

use monoceros_cluster::{Effect, EndReason, Epoch, Event, Refusal};
use monoceros_cluster_store::memory::Fault;
use tokio::time::{Instant, sleep};

use crate::cluster::{Cluster, LEASE, Running};

/// Time for which a member decides after a renewal: the lease less a tenth and 0.2 s.
const DECIDES: Duration = Duration::from_millis(4_300);

#[tokio::test(start_paused = true)]
async fn a_member_cut_from_the_arbiter_stops_before_another_takes_over() {
    let cluster = Cluster::new();
    let (mut a, mut b) = (cluster.ready("a").await, cluster.ready("b").await);
    assert_eq!(a.register().await, Ok(Epoch(1)));
    a.store.set_away(true);
    let cut = Instant::now();
    let mut stopped = None;
    let claimed = loop {
        let answer = b.register().await;
        assert!(!(a.decides() && b.decides()), "both decide after {:?}", cut.elapsed());
        if !a.decides() && stopped.is_none() {
            stopped = Some(cut.elapsed());
        }
        match answer {
            Ok(epoch) => break (epoch, cut.elapsed()),
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
        assert!(cut.elapsed() < 3 * LEASE, "{answer:?}");
    };
    let stopped = stopped.unwrap();
    assert!(stopped <= DECIDES + Duration::from_millis(100), "{stopped:?}");
    assert!(claimed.0 == Epoch(2) && claimed.1 >= LEASE * 4 / 5, "{claimed:?}");
    assert!(claimed.1 < LEASE + LEASE / 4, "{claimed:?}");
    assert!(a.count(|effect| matches!(effect, Effect::EndSession(_, _, EndReason::Fenced))) == 1);
    assert_eq!(a.handle.problem().unwrap(), "memory: no answer within 500 ms");
    // It was deposed, and begins again when the arbiter is back.
    a.store.set_away(false);
    a.saw("a new beginning", |effect| *effect == Effect::BeginAgain).await;
    let until = Instant::now() + LEASE;
    while !a.handle.gate().is_open() {
        assert!(Instant::now() < until, "not ready again");
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(a.handle.problem(), None);
    assert!(b.decides() && !a.decides());
}

#[tokio::test(start_paused = true)]
async fn renewals_go_on_with_every_kind_of_fault() {
    let cluster = Cluster::new();
    let mut a = cluster.ready("a").await;
    assert_eq!(a.register().await, Ok(Epoch(1)));
    for round in 0..60_u64 {
        a.store.fail_next(match round % 3 {
            0 => Fault::RequestLost,
            1 => Fault::AnswerLost,
            _ => Fault::Late(Duration::from_millis(round * 10)),
        });
        sleep(Duration::from_millis(1_500 + round)).await;
        assert!(a.decides(), "fenced in round {round}");
    }
    assert_eq!(a.count(|effect| matches!(effect, Effect::EndSession(..))), 0);
}

#[tokio::test(start_paused = true)]
async fn a_restored_backup_fences_until_it_is_accepted() {
    let cluster = Cluster::new();
    let mut a = cluster.ready("a").await;
    let backup = cluster.server.back_up();
    sleep(LEASE).await;
    assert_eq!(a.register().await, Ok(Epoch(1)));
    cluster.server.restore(&backup);
    a.saw("restored", |effect| *effect == Effect::Restored).await;
    assert!(!a.decides());
    sleep(2 * LEASE).await;
    assert_eq!(a.register().await, Err(Refusal::Fenced));
    a.handle.send(Event::AcceptRestore { floor: Epoch(1_000) }).await;
    a.saw("a new beginning", |effect| *effect == Effect::BeginAgain).await;
    let until = Instant::now() + 2 * LEASE;
    let epoch = loop {
        assert!(Instant::now() < until, "not ready again");
        match a.register().await {
            Ok(epoch) => break epoch,
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    };
    assert_eq!(epoch, Epoch(1_001));
}

/// Random numbers of a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Gives the member one random fault, ends one, or registers the RM there.
fn disturb(member: &mut Running, dice: &mut Dice) {
    match dice.below(8) {
        0 => member.store.set_away(true),
        1 | 2 => member.store.set_away(false),
        3 => member.store.set_delay(Duration::from_millis(dice.below(700))),
        4 => member.store.set_delay(Duration::from_millis(2)),
        5 => member.store.fail_next(match dice.below(3) {
            0 => Fault::RequestLost,
            1 => Fault::AnswerLost,
            _ => Fault::Late(Duration::from_millis(dice.below(4_000))),
        }),
        _ => member.knock(),
    }
}

#[tokio::test(start_paused = true)]
async fn with_random_faults_never_two_decide() {
    let mut changes = 0;
    for seed in 1..=12 {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
        let cluster = Cluster::new();
        let mut members = Vec::new();
        for id in ["a", "b", "c"] {
            members.push(cluster.ready(id).await);
        }
        let mut last = None;
        for step in 0..3_000 {
            if step % 5 == 0 {
                let at = usize::try_from(dice.below(3)).unwrap();
                disturb(&mut members[at], &mut dice);
            }
            for member in &mut members {
                member.end_forwards().await;
            }
            let deciding: Vec<_> = (0..3).filter(|at| members[*at].decides()).collect();
            assert!(deciding.len() <= 1, "seed {seed}, step {step}: {deciding:?}");
            if let Some(at) = deciding.first().filter(|at| last != Some(**at)) {
                changes += usize::from(last.replace(*at).is_some());
            }
            sleep(Duration::from_millis(20)).await;
        }
        // Once faults have ended, the RM is served.
        for member in &members {
            member.store.set_away(false);
            member.store.set_delay(Duration::from_millis(2));
        }
        for _ in 0..100 {
            for member in &mut members {
                member.end_forwards().await;
            }
            sleep(Duration::from_millis(20)).await;
        }
        let until = Instant::now() + 4 * LEASE;
        while members[0].register().await.is_err() {
            assert!(Instant::now() < until, "seed {seed}: not served");
            sleep(Duration::from_millis(100)).await;
        }
        for member in members {
            member.task.abort();
        }
    }
    assert!(changes >= 12, "only {changes} changes of the owner");
}
