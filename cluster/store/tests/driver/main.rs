//! Members that run by their clock on one store in memory, in virtual time.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod cluster;
mod faults;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use monoceros_cluster::{
    Effect, EndReason, Epoch, Event, Incarnation, Key, Life, MemberId, Owner, Record, Refusal,
    Timing,
};
use monoceros_cluster_store::{Arbiter, ClusterName, Driver, Host as _, Outcome, TimeoutTooLong};
use tokio::time::{Instant, sleep};

use crate::cluster::{Cluster, LEASE, registration, rm};

#[tokio::test(start_paused = true)]
async fn a_registration_is_served_by_one_of_two() {
    let cluster = Cluster::new();
    let (mut a, mut b) = (cluster.ready("a").await, cluster.ready("b").await);
    assert_eq!(a.register().await, Ok(Epoch(1)));
    assert!(a.decides() && !b.decides());
    let Record::Claim(claim) = cluster.record(Key::Claim(rm())).await else { panic!() };
    assert_eq!(claim.owner.unwrap().member, MemberId("a".into()));
    let Record::Member(member) = cluster.record(Key::Member(MemberId("a".into()))).await else {
        panic!()
    };
    assert_eq!((member.details.load, member.life), (7, Life::Alive));
    let refused = b.register().await;
    assert!(matches!(refused, Err(Refusal::OwnerUnreachable(_))), "{refused:?}");
    // It is wanted by b now, and handed over when its session is one lease old.
    sleep(2 * LEASE).await;
    assert_eq!(a.handle.problem(), None);
    let members = a.handle.members();
    let ids: Vec<_> = members.keys().map(|id| &*id.0).collect();
    assert_eq!((ids, members[&MemberId("b".into())].value.life), (vec!["a", "b"], Life::Alive));
    assert!(matches!(b.register().await, Ok(Epoch(3))));
    assert!(b.decides() && !a.decides());
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_front_is_silent_is_fenced() {
    let cluster = Cluster::new();
    let mut a = cluster.ready("a").await;
    assert_eq!(a.register().await, Ok(Epoch(1)));
    a.host.front_answers.store(false, Ordering::SeqCst);
    a.saw("fenced", |effect| *effect == Effect::Fenced).await;
    assert!(!a.decides());
    assert_eq!(a.register().await, Err(Refusal::Fenced));
    a.host.front_answers.store(true, Ordering::SeqCst);
    sleep(LEASE).await;
    assert_eq!(a.register().await, Ok(Epoch(2)));
}

#[tokio::test(start_paused = true)]
async fn an_orderly_end_frees_the_id_and_hands_over() {
    let cluster = Cluster::new();
    let (mut a, mut b) = (cluster.ready("a").await, cluster.ready("b").await);
    assert_eq!(a.register().await, Ok(Epoch(1)));
    let Record::Member(to) = cluster.record(Key::Member(MemberId("b".into()))).await else {
        panic!()
    };
    a.handle.send(Event::Leave(BTreeMap::from([(rm(), to.owner)]))).await;
    let (outcome, _) = a.task.await.unwrap();
    assert_eq!(outcome, Outcome::Left);
    assert!(!a.handle.send(Event::Wake { front_answers: true }).await);
    assert_eq!(b.register().await, Ok(Epoch(3)));
    let begun = Instant::now();
    cluster.ready("a").await;
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_gate_opens_after_sessions_of_the_last_lease_ended() {
    let cluster = Cluster::new();
    let begun = Instant::now();
    let mut a = cluster.ready("a").await;
    assert_eq!(a.register().await, Ok(Epoch(1)));
    // The renewal that begins after 2 s is won after 50 ms, and all records are read after 100 ms.
    a.store.set_delay(Duration::from_millis(50));
    tokio::time::sleep_until(begun + Duration::from_millis(2_075)).await;
    // The last renewal is too old by now, and the one that is under way is not.
    cluster.suspended.fetch_add(3_500_000_000, Ordering::SeqCst);
    sleep(Duration::from_millis(50)).await;
    let seen = a.host.seen.lock().unwrap().clone();
    let fenced = Effect::EndSession(rm(), Epoch(1), EndReason::Fenced);
    assert_eq!(seen[seen.len() - 3..], [fenced, Effect::Fenced, Effect::Ready]);
    assert!(a.handle.gate().is_open() && !a.decides());
}

#[tokio::test(start_paused = true)]
async fn events_that_are_queued_at_the_end_are_answered() {
    let cluster = Cluster::new();
    let mut a = cluster.ready("a").await;
    assert_eq!(a.register().await, Ok(Epoch(1)));
    // While it leaves, nothing else runs before the reply to its last write.
    a.handle.send(Event::Leave(BTreeMap::new())).await;
    let to = Owner { member: MemberId("b".into()), incarnation: Incarnation(9) };
    let until = Instant::now() + LEASE;
    let mut sent = 0;
    while !a.task.is_finished() {
        assert!(Instant::now() < until, "it does not leave");
        for _ in 0..64 {
            sent += u64::from(a.handle.register(registration(100 + sent)).is_ok());
        }
        sleep(Duration::from_micros(500)).await;
    }
    let answered =
        |effect: &Effect| matches!(effect, Effect::Answer(call, Err(_)) if call.0 >= 100);
    assert_eq!(a.count(answered), usize::try_from(sent).unwrap());
    assert_eq!(a.handle.register(registration(1)), Err(Refusal::Fenced));
    assert!(!a.handle.send(Event::HandOver(rm(), to)).await);
}

#[tokio::test]
async fn a_request_as_long_as_the_lease_is_refused() {
    let cluster = Cluster::new();
    let store = cluster.server.store(&ClusterName::new("c").unwrap(), LEASE);
    let mut host = cluster.start("a").host;
    let me = Owner { member: MemberId("b".into()), incarnation: host.incarnation() };
    let timing = Timing::new(LEASE.as_nanos().try_into().unwrap()).unwrap();
    let arbiter = Arbiter::new(Arc::new(store));
    let refused = Driver::new(me, timing, arbiter, cluster.clock.clone(), host).err().unwrap();
    assert_eq!(refused, TimeoutTooLong { timeout: LEASE, lease: LEASE });
    let expected = "requests to the arbiter of up to 5s are too long: the lease is 5s";
    assert_eq!(refused.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn one_id_of_two_processes_is_used_by_one() {
    let cluster = Cluster::new();
    let first = cluster.ready("a").await;
    let second = cluster.start("a");
    sleep(3 * LEASE).await;
    assert!(first.handle.gate().is_open() && !second.handle.gate().is_open());
    // The first is cut off for longer than the lease, and finds the second in its record.
    first.store.set_away(true);
    second.saw("ready", |effect| *effect == Effect::Ready).await;
    assert!(!first.handle.gate().is_open());
    first.store.set_away(false);
    let (outcome, _) = first.task.await.unwrap();
    assert_eq!(outcome, Outcome::IdInUse);
    assert!(second.handle.gate().is_open());
}
