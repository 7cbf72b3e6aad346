//! A cluster in memory: members with hosts that keep their effects, one store, and one clock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use monoceros_cluster::{
    CallId, Details, Effect, EndReason, Epoch, Event, Forwarded, Holder, Incarnation, Key,
    MemberId, Owner, Record, Refusal, Registration, Reply, Request, RmId, Timing,
};
use monoceros_cluster_store::memory::{Memory, MemoryServer};
use monoceros_cluster_store::{Arbiter, Clock, ClusterName, Driver, Gate, Handle, Host, Outcome};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

pub const LEASE: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_millis(500);

/// A host that keeps all effects, and the sessions that they open and end.
#[derive(Clone)]
pub struct Recording {
    pub seen: Arc<Mutex<Vec<Effect>>>,
    pub incarnations: Arc<AtomicU64>,
    pub front_answers: Arc<AtomicBool>,
    pub gate: Arc<OnceLock<Gate>>,
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
pub struct Running {
    pub host: Recording,
    pub handle: Handle,
    pub store: Memory,
    pub task: JoinHandle<(Outcome, Recording)>,
    pub calls: u64,
    /// Number of effects that were looked through for forwarded registrations.
    pub swept: usize,
}

pub struct Cluster {
    pub server: MemoryServer,
    pub clock: Clock,
    /// Nanoseconds by which the clock is ahead of Tokio's: a machine that was suspended.
    pub suspended: Arc<AtomicU64>,
    pub incarnations: Arc<AtomicU64>,
}

impl Cluster {
    pub fn new() -> Self {
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

    pub fn store(&self) -> Memory {
        let store = self.server.store(&ClusterName::new("c").unwrap(), TIMEOUT);
        store.set_delay(Duration::from_millis(2));
        store
    }

    /// Starts a member, without waiting for anything.
    pub fn start(&self, id: &str) -> Running {
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
    pub async fn ready(&self, id: &str) -> Running {
        let running = self.start(id);
        running.saw("ready", |effect| *effect == Effect::Ready).await;
        running
    }

    pub async fn record(&self, key: Key) -> Record {
        let reply = Arbiter::new(Arc::new(self.store())).ask(Request::Read(key)).await.unwrap();
        let Reply::Read(Some(found), _) = reply else { panic!("{reply:?}") };
        found.value
    }
}

pub fn rm() -> RmId {
    RmId("rm".into())
}

pub fn registration(call: u64) -> Registration {
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
    pub async fn saw(&self, what: &str, is_it: impl Fn(&Effect) -> bool) -> Effect {
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
    pub async fn register(&mut self) -> Result<Epoch, Refusal> {
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
    pub fn knock(&mut self) {
        self.calls += 1;
        self.handle.register(registration(self.calls)).unwrap();
    }

    /// Reports that no forwarded registration was answered.
    pub async fn end_forwards(&mut self) {
        let new: Vec<_> = self.host.seen.lock().unwrap()[self.swept..].to_vec();
        self.swept += new.len();
        for effect in new {
            if let Effect::Forward(call, rm, _) = effect {
                self.handle.send(Event::ForwardEnded(call, rm, Forwarded::NoAnswer)).await;
            }
        }
    }

    /// Whether the member has a session of the RM and may decide.
    pub fn decides(&self) -> bool {
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

    pub fn count(&self, is_it: impl Fn(&Effect) -> bool) -> usize {
        self.host.seen.lock().unwrap().iter().filter(|seen| is_it(seen)).count()
    }
}
