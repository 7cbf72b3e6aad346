//! Members that run by their clock on one store in memory, in virtual time.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use monoceros_cluster::{
    CallId, Details, Effect, EndReason, Epoch, Event, Forwarded, Holder, Incarnation, Key, Life,
    MemberId, Owner, Record, Refusal, Registration, Reply, Request, RmId, Timing,
};
use monoceros_cluster_store::memory::{Fault, Memory, MemoryServer};
use monoceros_cluster_store::{
    Arbiter, Clock, ClusterName, Driver, Gate, Handle, Host, Outcome, TimeoutTooLong,
};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const LEASE: Duration = Duration::from_secs(5);
/// Time for which a member decides after a renewal: the lease less a tenth and 0.2 s.
const DECIDES: Duration = Duration::from_millis(4_300);
const TIMEOUT: Duration = Duration::from_millis(500);

/// A host that keeps all effects, and the sessions that they open and end.
#[derive(Clone)]
struct Recording {
    seen: Arc<Mutex<Vec<Effect>>>,
    incarnations: Arc<AtomicU64>,
    front_answers: Arc<AtomicBool>,
    gate: Arc<OnceLock<Gate>>,
}

impl Host for Recording {
    fn carry_out(&mut self, effect: Effect) {
        let is_over = match &effect {
            Effect::EndSession(_, _, reason) => *reason == EndReason::Fenced,
            Effect::Fenced | Effect::Restored | Effect::BeginAgain | Effect::Exit(_) => true,
            _ => false,
        };
        if is_over && let Some(gate) = self.gate.get() {
            assert!(!gate.is_open(), "{effect:?} while the gate is open");
        }
        self.seen.lock().unwrap().push(effect);
    }

    fn front_answers(&mut self) -> bool {
        self.front_answers.load(Ordering::SeqCst)
    }

    fn details(&mut self) -> Details {
        Details { grpc: "127.0.0.1:1".to_owned(), load: 7, ..Details::default() }
    }

    fn incarnation(&mut self) -> Incarnation {
        Incarnation(self.incarnations.fetch_add(1, Ordering::SeqCst).into())
    }
}

/// A running member.
struct Running {
    host: Recording,
    handle: Handle,
    store: Memory,
    task: JoinHandle<(Outcome, Recording)>,
    calls: u64,
    /// Number of effects that were looked through for forwarded registrations.
    swept: usize,
}

struct Cluster {
    server: MemoryServer,
    clock: Clock,
    /// Nanoseconds by which the clock is ahead of Tokio's: a machine that was suspended.
    suspended: Arc<AtomicU64>,
    incarnations: Arc<AtomicU64>,
}

impl Cluster {
    fn new() -> Self {
        let begun = Instant::now();
        let suspended = Arc::new(AtomicU64::new(0));
        let more = suspended.clone();
        let clock: Clock = Arc::new(move || {
            let elapsed: u64 = begun.elapsed().as_nanos().try_into().unwrap();
            elapsed + more.load(Ordering::SeqCst)
        });
        let incarnations = Arc::new(AtomicU64::new(1));
        Self { server: MemoryServer::default(), clock, suspended, incarnations }
    }

    fn store(&self) -> Memory {
        let store = self.server.store(&ClusterName::new("c").unwrap(), TIMEOUT);
        store.set_delay(Duration::from_millis(2));
        store
    }

    /// Starts a member, without waiting for anything.
    fn start(&self, id: &str) -> Running {
        let store = self.store();
        let mut host = Recording {
            seen: Arc::default(),
            incarnations: self.incarnations.clone(),
            front_answers: Arc::new(AtomicBool::new(true)),
            gate: Arc::default(),
        };
        let me = Owner { member: MemberId(id.into()), incarnation: host.incarnation() };
        let timing = Timing::new(LEASE.as_nanos().try_into().unwrap()).unwrap();
        let arbiter = Arbiter::new(Arc::new(store.clone()));
        let driver = Driver::new(me, timing, arbiter, self.clock.clone(), host.clone());
        let (driver, handle) = driver.unwrap();
        host.gate.set(handle.gate().clone()).unwrap();
        Running { host, handle, store, task: tokio::spawn(driver.run()), calls: 0, swept: 0 }
    }

    /// Starts a member, and waits until it may decide.
    async fn ready(&self, id: &str) -> Running {
        let running = self.start(id);
        running.saw("ready", |effect| *effect == Effect::Ready).await;
        running
    }

    async fn record(&self, key: Key) -> Record {
        let reply = Arbiter::new(Arc::new(self.store())).ask(Request::Read(key)).await.unwrap();
        let Reply::Read(Some(found), _) = reply else { panic!("{reply:?}") };
        found.value
    }
}

fn rm() -> RmId {
    RmId("rm".into())
}

fn registration(call: u64) -> Registration {
    Registration {
        call: CallId(call),
        rm: rm(),
        holder: Holder {
            caller: "caller".into(),
            instance: "instance".into(),
            policy_group: "default".into(),
            proof: None,
            attempt: 0,
        },
        shown_epoch: None,
        is_forwarded: false,
        since_ms: 1,
    }
}

impl Running {
    /// Waits for an effect, within a minute of virtual time.
    async fn saw(&self, what: &str, is_it: impl Fn(&Effect) -> bool) -> Effect {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(effect) = self.host.seen.lock().unwrap().iter().find(|seen| is_it(seen)) {
                return effect.clone();
            }
            assert!(Instant::now() < until, "{what}: {:?}", self.host.seen.lock().unwrap());
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Registers the RM, and returns the answer. A forwarded call has no answer of the owner.
    async fn register(&mut self) -> Result<Epoch, Refusal> {
        self.calls += 1;
        let call = CallId(self.calls);
        self.handle.register(registration(self.calls)).unwrap();
        let is_it = |effect: &Effect| match effect {
            Effect::Answer(answered, _) | Effect::Forward(answered, ..) => *answered == call,
            _ => false,
        };
        if let Effect::Answer(_, answer) = self.saw("an answer", is_it).await {
            return answer;
        }
        // The end of an earlier call's forward, which came late, is ignored.
        self.handle.send(Event::ForwardEnded(CallId(0), rm(), Forwarded::Answered)).await;
        self.handle.send(Event::ForwardEnded(call, rm(), Forwarded::NoAnswer)).await;
        let is_it = |effect: &Effect| matches!(effect, Effect::Answer(to, _) if *to == call);
        let Effect::Answer(_, answer) = self.saw("an answer", is_it).await else { unreachable!() };
        answer
    }

    /// Sends a registration without waiting for its answer.
    fn knock(&mut self) {
        self.calls += 1;
        self.handle.register(registration(self.calls)).unwrap();
    }

    /// Reports that no forwarded registration was answered.
    async fn end_forwards(&mut self) {
        let new: Vec<_> = self.host.seen.lock().unwrap()[self.swept..].to_vec();
        self.swept += new.len();
        for effect in new {
            if let Effect::Forward(call, rm, _) = effect {
                self.handle.send(Event::ForwardEnded(call, rm, Forwarded::NoAnswer)).await;
            }
        }
    }

    /// Whether the member has a session of the RM and may decide.
    fn decides(&self) -> bool {
        let mut opened = false;
        for effect in &*self.host.seen.lock().unwrap() {
            match effect {
                Effect::Answer(_, Ok(_)) => opened = true,
                Effect::EndSession(..) => opened = false,
                _ => {}
            }
        }
        opened && self.handle.gate().is_open()
    }

    fn count(&self, is_it: impl Fn(&Effect) -> bool) -> usize {
        self.host.seen.lock().unwrap().iter().filter(|seen| is_it(seen)).count()
    }
}

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
