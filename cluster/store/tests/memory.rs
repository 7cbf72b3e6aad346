//! The store in memory passes the cases that every store has to pass.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use monoceros_cluster::{
    Claim, Epoch, GroupId, Holder, Key, Occasion, Offer, Record, Reply, Request, Revision, RmId,
};
use monoceros_cluster_store::conformance::{Bed, Order, run};
use monoceros_cluster_store::memory::{Backup, Fault, Memory, MemoryServer};
use monoceros_cluster_store::{
    Arbiter, ClusterName, Failure, Kind, MAX_RECORDS, OfferFailure, OfferOutcome, RecordKey, Store,
    Written, pack, unpack,
};

const TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Default)]
struct InMemory {
    server: MemoryServer,
    stores: Mutex<Vec<Memory>>,
    backup: Option<Backup>,
}

impl Bed for InMemory {
    fn store(&self, cluster: &ClusterName) -> Arc<dyn Store> {
        let store = self.server.store(cluster, TIMEOUT);
        // Time passes with each request, so that one can be given up in the middle.
        store.set_delay(Duration::from_millis(2));
        self.stores.lock().unwrap().push(store.clone());
        Arc::new(store)
    }

    fn order(&mut self, order: Order) -> BoxFuture<'_, Result<bool>> {
        match order {
            Order::Stop | Order::Start => {
                let stores = self.stores.lock().unwrap();
                stores.iter().for_each(|store| store.set_away(order == Order::Stop));
            }
            Order::BackUp => self.backup = Some(self.server.back_up()),
            Order::Restore => self.server.restore(self.backup.as_ref().unwrap()),
            Order::Compact => return async { Ok(false) }.boxed(),
        }
        async { Ok(true) }.boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn every_case_passes() {
    let mut bed = InMemory::default();
    // A store that has never been written has no revision.
    let first = bed.store(&ClusterName::new("first").unwrap());
    let key = RecordKey::new(Kind::Era, &"era".into()).unwrap();
    first.compare_and_set(&key, None, "{}".into()).await.unwrap();
    run(&mut bed, &[]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn faults_are_of_one_request_each() {
    let server = MemoryServer::default();
    let store = server.store(&ClusterName::new("c").unwrap(), TIMEOUT);
    let key = RecordKey::new(Kind::Claims, &"rm".into()).unwrap();
    let no_answer = Failure::NoAnswer("memory: no answer within 1000 ms".to_owned());
    for (fault, is_there) in [(Fault::RequestLost, false), (Fault::AnswerLost, true)] {
        store.fail_next(fault);
        let before = store.read(&key).await;
        assert_eq!(before, Err(no_answer.clone()), "{fault:?}");
        store.fail_next(fault);
        let written = store.compare_and_set(&key, None, Bytes::from("first")).await;
        assert_eq!(written, Err(no_answer.clone()), "{fault:?}");
        assert_eq!(store.read(&key).await.unwrap().record.is_some(), is_there, "{fault:?}");
    }
    let version = store.read(&key).await.unwrap().record.unwrap().version;
    store.fail_next(Fault::Late(3 * TIMEOUT));
    store.compare_and_set(&key, Some(version), Bytes::from("late")).await.unwrap_err();
    assert_eq!(store.read(&key).await.unwrap().record.unwrap().value, "first");
    tokio::time::sleep(3 * TIMEOUT).await;
    assert_eq!(store.read(&key).await.unwrap().record.unwrap().value, "late");
    let written = store.compare_and_set(&key, Some(version), Bytes::from("x")).await.unwrap();
    assert!(matches!(written, Written::Lost(Some(_), _)), "{written:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_decided_by_a_record_that_cannot_be_read() {
    let store = MemoryServer::default().store(&ClusterName::new("c").unwrap(), TIMEOUT);
    let key = RecordKey::new(Kind::Claims, &"a b".into()).unwrap();
    store.compare_and_set(&key, None, Bytes::from("{}")).await.unwrap();
    let arbiter = Arbiter::new(Arc::new(store));
    let expected = "record `rms/a b` cannot be read: missing field `epoch` at line 1 column 2";
    for request in [Request::ReadAll, Request::Read(Key::Claim(RmId("a b".into())))] {
        let why = arbiter.ask(request).await.unwrap_err();
        assert_eq!(why.to_string(), expected);
    }
    // An id that no store takes is refused before anything is sent.
    let long = Request::Read(Key::Claim(RmId("x".repeat(300).into())));
    let why = arbiter.ask(long).await.unwrap_err();
    assert_eq!(why.to_string(), "an id of 300 bytes in `rms`: 1 to 256 are allowed");
}

/// A request that creates the claim of an RM.
fn creates(rm: &str) -> Request {
    let holder = Holder {
        caller: "caller".into(),
        instance: "instance".into(),
        policy_group: "default".into(),
        proof: None,
        attempt: 0,
    };
    let claim = Claim { epoch: Epoch(1), owner: None, holder, wanted_by: None, since_ms: 0 };
    let (key, record) = (Key::Claim(RmId(rm.into())), Record::Claim(claim));
    Request::CompareAndSet { key, expected: None, record }
}

#[tokio::test(start_paused = true)]
async fn no_claim_is_created_close_to_the_bound() {
    let store = MemoryServer::default().store(&ClusterName::new("c").unwrap(), TIMEOUT);
    let store: Arc<dyn Store> = Arc::new(store);
    let arbiter = Arbiter::new(store.clone());
    let most = MAX_RECORDS - 1_000;
    let won = arbiter.ask(creates("rm-0")).await.unwrap();
    let Reply::Won(version, _) = won else { panic!("{won:?}") };
    let claim = RecordKey::new(Kind::Claims, &"rm-0".into()).unwrap();
    let value = store.read(&claim).await.unwrap().record.unwrap().value;
    let add = async |number: usize| {
        let key = RecordKey::new(Kind::Claims, &format!("rm-{number}").into()).unwrap();
        store.compare_and_set(&key, None, value.clone()).await.unwrap();
    };
    for number in 1..most - 1 {
        add(number).await;
    }
    // Records of others count from the next read on, and those created here at once.
    arbiter.ask(Request::ReadAll).await.unwrap();
    arbiter.ask(creates("last")).await.unwrap();
    let full = arbiter.ask(creates("more")).await.unwrap_err();
    assert_eq!(full, Failure::Full { kind: Kind::Claims, records: most });
    assert_eq!(full.to_string(), "`rms` has 19000 records: no more are added");
    // A claim that is there may change.
    let Request::CompareAndSet { key, record, .. } = creates("rm-0") else { unreachable!() };
    let change = Request::CompareAndSet { key, expected: Some(version), record };
    let won = arbiter.clone().ask(change).await.unwrap();
    assert!(matches!(won, Reply::Won(..)), "{won:?}");

    for number in most..=MAX_RECORDS {
        add(number).await;
    }
    let too_many = arbiter.ask(Request::ReadAll).await.unwrap_err();
    assert_eq!(too_many, Failure::TooMany(Kind::Claims));
    assert_eq!(too_many.to_string(), "more than 20000 records in `rms`");
}

#[tokio::test(start_paused = true)]
async fn no_group_is_created_close_to_the_bound() {
    let store = MemoryServer::default().store(&ClusterName::new("c").unwrap(), TIMEOUT);
    let store: Arc<dyn Store> = Arc::new(store);
    let arbiter = Arbiter::new(store.clone());
    let most = MAX_RECORDS - 1_000;
    let group = |number: usize| GroupId::Named(format!("group-{number}").into());
    let text = |text: &str| offer(text, Occasion::FileChanged);
    arbiter.offer(&group(0), &text("first")).await.unwrap();
    let key = RecordKey::new(Kind::Groups, &"group-0".into()).unwrap();
    let value = store.read(&key).await.unwrap().record.unwrap().value;
    for number in 1..most {
        let key = RecordKey::new(Kind::Groups, &format!("group-{number}").into()).unwrap();
        store.compare_and_set(&key, None, value.clone()).await.unwrap();
    }
    let full = arbiter.offer(&group(most), &text("more")).await.unwrap_err();
    assert_eq!(full.to_string(), "`groups` has 19000 records: no more are added");
    // A group that is there may get another text.
    let changed = arbiter.offer(&group(0), &text("second")).await.unwrap();
    assert_eq!(changed.outcome, OfferOutcome::Written);
}

fn offer(text: &str, occasion: Occasion) -> Offer {
    Offer::new(text.into(), pack(text).unwrap(), "test", occasion).unwrap()
}

/// Reads the text of a group, with its version.
async fn text_of(arbiter: &Arbiter, group: &GroupId) -> (String, u64) {
    let record = arbiter.read_group(group).await.unwrap().0.unwrap().value;
    (unpack(&record).unwrap(), record.version)
}

#[tokio::test(start_paused = true)]
async fn a_configuration_is_written_once_whatever_is_lost() {
    let server = MemoryServer::default();
    let store = server.store(&ClusterName::new("c").unwrap(), TIMEOUT);
    let arbiter = Arbiter::new(Arc::new(store.clone()));
    let etl = GroupId::Named("etl".into());
    assert_eq!(arbiter.read_group(&etl).await.unwrap().0, None);
    let written = arbiter.offer(&etl, &offer("a", Occasion::FileAtStart)).await.unwrap();
    assert_eq!(written.outcome, OfferOutcome::Written);
    for (number, fault) in [Fault::AnswerLost, Fault::Late(TIMEOUT / 2)].into_iter().enumerate() {
        let text = format!("b{number}");
        let offer = offer(&text, Occasion::FileChanged);
        // The read is answered, the write is not.
        store.set_delay(Duration::from_millis(2));
        let offered = arbiter.offer(&etl, &offer);
        let faulty = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            store.fail_next(fault);
        };
        let (offered, ()) = tokio::join!(offered, faulty);
        let offered = offered.unwrap();
        assert!(
            matches!(offered.outcome, OfferOutcome::InForce | OfferOutcome::Written),
            "{offered:?}"
        );
        tokio::time::sleep(3 * TIMEOUT).await;
        assert_eq!(text_of(&arbiter, &etl).await, (text, 2 + number as u64));
        store.set_delay(Duration::ZERO);
    }
    store.set_away(true);
    let failure = arbiter.offer(&etl, &offer("c", Occasion::FileChanged)).await.unwrap_err();
    assert!(matches!(failure, OfferFailure::Store(Failure::NoAnswer(_))), "{failure:?}");
}

#[tokio::test(start_paused = true)]
async fn of_many_writers_of_a_configuration_the_last_one_counts() {
    let server = MemoryServer::default();
    let group = GroupId::Others;
    let members = (0..4).map(|number| {
        let store = server.store(&ClusterName::new("c").unwrap(), TIMEOUT);
        store.set_delay(Duration::from_millis(2 + number));
        (number, Arbiter::new(Arc::new(store)))
    });
    let writes = members.map(async |(number, arbiter): (u64, Arbiter)| {
        let offer = offer(&format!("text {number}"), Occasion::FileChanged);
        arbiter.offer(&GroupId::Others, &offer).await.unwrap().outcome
    });
    let outcomes = futures::future::join_all(writes).await;
    assert_eq!(outcomes, [OfferOutcome::Written; 4]);
    let arbiter = Arbiter::new(Arc::new(server.store(&ClusterName::new("c").unwrap(), TIMEOUT)));
    assert_eq!(text_of(&arbiter, &group).await.1, 4);
    let record = arbiter.read_group(&group).await.unwrap().0.unwrap().value;
    assert_eq!(record.earlier.len(), 3, "{record:?}");
}

#[tokio::test(start_paused = true)]
async fn groups_of_any_name_have_a_record_each() {
    let server = MemoryServer::default();
    let arbiter = Arbiter::new(Arc::new(server.store(&ClusterName::new("c").unwrap(), TIMEOUT)));
    let mut hints = arbiter.watch_groups(Revision(0));
    let named = ["*", "**", "etl", "a/b", "räm 1"].map(|name| GroupId::Named(name.into()));
    let groups: Vec<_> = std::iter::once(GroupId::Others).chain(named).collect();
    for (number, group) in groups.iter().enumerate() {
        let offer = offer(&number.to_string(), Occasion::FileAtStart);
        arbiter.offer(group, &offer).await.unwrap();
    }
    hints.next().await;
    for (number, group) in groups.iter().enumerate() {
        assert_eq!(text_of(&arbiter, group).await, (number.to_string(), 1), "{group:?}");
    }
}
