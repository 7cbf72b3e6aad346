//! A resource manager that asks and releases all the time, whatever happens to its owner, and
//! writes down its history. The transports (`stock`, `one_stream`, `library`) speak for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::bed::Books;
use super::history::{Checker, Entry, Happened, Session, Verdict};

/// Queues of every RM of the test.
pub const QUEUES: &str = "
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues: [{name: a}]
";
/// The only application of an RM.
pub const APPLICATION: &str = "app";
/// Its nodes: somewhat more than its allocations and asks need.
pub const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// Thousandths of a core: of a node, and of an allocation.
pub const CAPACITY: i64 = 24_000;
pub const SIZE: i64 = 1_000;

/// Time between two asks.
const TICK: Duration = Duration::from_millis(15);
/// Most asks without an allocation, and allocations that an RM keeps.
const MOST_PENDING: usize = 20;
const MOST_RUNNING: usize = 40;
/// An RM withdraws its oldest pending ask with one ask in so many.
const WITHDRAWN_OF: u64 = 7;
/// Entries of a history that are kept, of those about sessions and of others.
const KEPT: usize = 200;

/// The client by which an RM speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The client library of this repository.
    Library,
    /// A stock gRPC client that sends a proof, over three streams.
    Proof,
    /// A stock gRPC client without a proof.
    Plain,
    /// A stock gRPC client of the oldest dialect, with a proof.
    OneStream,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Library, Self::Proof, Self::Plain, Self::OneStream];

    /// Its name, also as the id of the RM.
    pub fn name(self) -> &'static str {
        match self {
            Self::Library => "library",
            Self::Proof => "proof",
            Self::Plain => "plain",
            Self::OneStream => "one-stream",
        }
    }

    /// Whether it sends a proof with each registration.
    pub fn proves(self) -> bool {
        self != Self::Plain
    }

    /// Whether it withdraws asks. The oldest dialect cannot withdraw an ask that may be placed.
    fn withdraws(self) -> bool {
        self != Self::OneStream
    }
}

/// Requests of an RM.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    pub asks: Vec<String>,
    /// Keys and UUIDs, also of asks that are withdrawn. The latter are empty except in the oldest
    /// dialect.
    pub releases: Vec<(String, String)>,
}

/// Sends requests in the present session.
pub type Outgoing = Box<dyn FnMut(Orders) + Send>;

/// Allocations that an RM reports: the node and the UUID of each key.
pub type Running = BTreeMap<String, (String, String)>;

/// A resource manager. Clones are the same one.
#[derive(Clone)]
pub struct TestRm {
    pub kind: Kind,
    state: Arc<Mutex<State>>,
    news: Arc<Notify>,
}

struct State {
    kind: Kind,
    begun: Instant,
    checker: Checker,
    /// The last entries of the history, and those about sessions.
    last_entries: VecDeque<Entry>,
    about_sessions: VecDeque<Entry>,
    n_allocations: usize,
    /// Epoch of the last registration.
    epoch: u64,
    session: Session,
    /// Time of the first allocation of each session that answers an ask.
    served: BTreeMap<Session, Instant>,
    last_served: Instant,
    /// Longest time between two answered asks, and when the present one began.
    longest_gap: Duration,
    gap_begun: Instant,
    pending: BTreeSet<String>,
    running: Running,
    releasing: BTreeSet<String>,
    /// Reported allocations without an answer.
    unanswered: BTreeSet<String>,
    /// Keys by their UUIDs.
    keys: BTreeMap<String, String>,
    n_asked: u64,
    is_paused: bool,
    outgoing: Option<Outgoing>,
}

impl TestRm {
    /// Makes the RM of a kind, and begins its load.
    pub fn start(kind: Kind) -> Self {
        let begun = Instant::now();
        let state = State {
            kind,
            begun,
            epoch: 0,
            checker: Checker::default(),
            last_entries: VecDeque::new(),
            about_sessions: VecDeque::new(),
            n_allocations: 0,
            session: 0,
            served: BTreeMap::new(),
            last_served: begun,
            longest_gap: Duration::ZERO,
            gap_begun: begun,
            pending: BTreeSet::new(),
            running: BTreeMap::new(),
            releasing: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            keys: BTreeMap::new(),
            n_asked: 0,
            is_paused: false,
            outgoing: None,
        };
        let rm = Self { kind, state: Arc::new(Mutex::new(state)), news: Arc::default() };
        let loaded = rm.clone();
        tokio::spawn(async move {
            let mut ticks = interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                loaded.state().step();
            }
        });
        rm
    }

    pub fn id(&self) -> &'static str {
        self.kind.name()
    }

    /// Notes a registration.
    pub fn registered(&self, epoch: u64) {
        let mut state = self.state();
        state.note(Happened::Registered { epoch });
        state.epoch = epoch;
    }

    /// Begins a session. Returns its number, and the allocations to report. `is_alone`: earlier
    /// sessions must have ended.
    pub fn begin_session(&self, is_alone: bool) -> (Session, Running) {
        let mut state = self.state();
        let session = state.begin_session(is_alone);
        (session, state.running.clone())
    }

    /// Begins a session that can take requests at once. Returns the pending asks, too, which are
    /// part of the report.
    pub fn begin_session_with(
        &self,
        is_alone: bool,
        outgoing: Outgoing,
    ) -> (Session, Running, BTreeSet<String>) {
        let mut state = self.state();
        let session = state.begin_session(is_alone);
        state.outgoing = Some(outgoing);
        (session, state.running.clone(), state.pending.clone())
    }

    /// Sends all pending asks in a session whose report is complete, and those to come.
    pub fn begin_asks(&self, session: Session, mut outgoing: Outgoing) {
        let mut state = self.state();
        if state.session == session {
            outgoing(Orders { asks: state.pending.iter().cloned().collect(), ..Orders::default() });
            state.outgoing = Some(outgoing);
            state.step();
        }
    }

    /// Whether every reported allocation has its answer.
    pub fn is_answered(&self) -> bool {
        self.state().unanswered.is_empty()
    }

    /// Whether the RM expects an answer.
    pub fn waits(&self) -> bool {
        let state = self.state();
        state.outgoing.is_some() && !(state.pending.is_empty() && state.releasing.is_empty())
    }

    pub fn placed(&self, session: Session, key: String, node: String, uuid: String) {
        let mut state = self.state();
        let (of_entry, at) = ((key.clone(), node.clone()), Instant::now());
        state.note(Happened::Placed { session, key: of_entry.0, node: of_entry.1 });
        if session == state.session && !state.unanswered.remove(&key) && state.pending.remove(&key)
        {
            if !uuid.is_empty() {
                state.keys.insert(uuid.clone(), key.clone());
            }
            state.running.insert(key, (node, uuid));
            state.served.entry(session).or_insert(at);
            state.last_served = at;
            let gap = at.saturating_duration_since(state.gap_begun);
            (state.longest_gap, state.gap_begun) = (state.longest_gap.max(gap), at);
        }
        drop(state);
        self.news.notify_waiters();
    }

    pub fn released(&self, session: Session, key: &str, why: String) {
        let mut state = self.state();
        state.note(Happened::Released { session, key: key.to_owned(), why });
        if session == state.session {
            state.releasing.remove(key);
            state.running.remove(key);
        }
        drop(state);
        self.news.notify_waiters();
    }

    /// The same by the UUID of the allocation.
    pub fn released_uuid(&self, session: Session, uuid: &str, why: String) {
        let key = self.state().keys.remove(uuid);
        self.released(session, key.as_deref().unwrap_or(uuid), why);
    }

    pub fn rejected(&self, session: Session, key: String, why: String) {
        self.state().note(Happened::Rejected { session, key, why });
    }

    pub fn ended(&self, session: Session, why: String) {
        self.state().note(Happened::Ended { session, why });
        self.news.notify_waiters();
    }

    /// Notes that answers of the present session may be late from now on.
    pub fn delay(&self) {
        let mut state = self.state();
        let session = state.session;
        state.note(Happened::Delayed { session });
    }

    pub fn note(&self, what: String) {
        self.state().note(Happened::Noted(what));
    }

    /// Wakes those who wait for progress of this RM.
    pub fn notify(&self) {
        self.news.notify_waiters();
    }

    /// Waits until something has satisfied `reached`. Returns whether it did in time.
    pub async fn until(&self, patience: Duration, reached: impl Fn() -> bool) -> bool {
        let wait = async {
            loop {
                let news = self.news.notified();
                if reached() {
                    return;
                }
                news.await;
            }
        };
        timeout(patience, wait).await.is_ok()
    }

    /// Number of the present session.
    pub fn session(&self) -> Session {
        self.state().session
    }

    /// Time of the first answered ask in a session after this one.
    pub fn served_after(&self, session: Session) -> Option<Instant> {
        self.state().served.range(session + 1..).next().map(|(_, at)| *at)
    }

    /// Time of the last answered ask.
    pub fn last_served(&self) -> Instant {
        self.state().last_served
    }

    /// Returns the longest time between two answered asks since the last call. Counts anew from now
    /// on.
    pub fn take_longest_gap(&self) -> Duration {
        let mut state = self.state();
        state.gap_begun = Instant::now();
        std::mem::take(&mut state.longest_gap)
    }

    /// Stops the load, or lets it go on.
    pub fn pause(&self, is_paused: bool) {
        self.state().is_paused = is_paused;
    }

    /// Whether nothing is pending or being released.
    pub fn is_at_rest(&self) -> bool {
        let state = self.state();
        state.pending.is_empty() && state.releasing.is_empty()
    }

    /// The books of the RM.
    pub fn books(&self) -> Books {
        let state = self.state();
        let nodes = state.running.iter().map(|(key, (node, _))| (key.clone(), node.clone()));
        Books { running: nodes.collect(), pending: state.pending.clone(), epoch: state.epoch }
    }

    /// The violations until now.
    pub fn verdict(&self) -> Verdict {
        self.state().checker.verdict().clone()
    }

    /// Compares the history with the books of the owner. Both sides must be at rest.
    pub fn compare(&self, books: &Books) {
        self.state().checker.compare(books);
    }

    /// Number of allocations that were received.
    pub fn n_allocations(&self) -> usize {
        self.state().n_allocations
    }

    /// The last entries of the history about sessions, one in a line.
    pub fn sessions(&self) -> String {
        lines(&self.state().about_sessions)
    }

    /// The last entries of the history, one in a line.
    pub fn account(&self) -> String {
        let state = self.state();
        let (sessions, others) = (lines(&state.about_sessions), lines(&state.last_entries));
        format!("`{}`\n{sessions}{others}", self.id())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    fn note(&mut self, what: Happened) {
        let entry = Entry { at: self.begun.elapsed(), what };
        self.checker.take(&entry);
        let kept = match &entry.what {
            Happened::Registered { .. } | Happened::Ended { .. } | Happened::Noted(_) => {
                &mut self.about_sessions
            }
            Happened::Placed { .. } => {
                self.n_allocations += 1;
                &mut self.last_entries
            }
            _ => &mut self.last_entries,
        };
        kept.push_back(entry);
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }

    fn begin_session(&mut self, is_alone: bool) -> Session {
        self.session += 1;
        self.outgoing = None;
        self.releasing.clear();
        self.unanswered = self.running.keys().cloned().collect();
        let session = self.session;
        let nodes = self.running.iter().map(|(key, (node, _))| (key.clone(), node.clone()));
        let running = nodes.collect();
        self.note(Happened::Reported { session, running, is_alone });
        session
    }

    /// Asks for one allocation, and releases the oldest one if there are many. Now and then it
    /// withdraws an ask at once, while the owner places it.
    fn step(&mut self) {
        if self.is_paused {
            return;
        }
        let Some(mut outgoing) = self.outgoing.take() else { return };
        let mut orders = Orders::default();
        if self.pending.len() < MOST_PENDING {
            self.n_asked += 1;
            let key = format!("k{:07}", self.n_asked);
            self.note(Happened::Asked { key: key.clone() });
            self.pending.insert(key.clone());
            orders.asks.push(key);
        }
        if self.running.len() > MOST_RUNNING
            && let Some((key, (_, uuid))) = self.running.pop_first()
        {
            self.note(Happened::Releases { key: key.clone() });
            self.releasing.insert(key.clone());
            orders.releases.push((key, uuid));
        }
        outgoing(orders);
        if self.kind.withdraws()
            && self.n_asked.is_multiple_of(WITHDRAWN_OF)
            && let Some(key) = self.pending.pop_first()
        {
            self.note(Happened::Withdraws { key: key.clone() });
            outgoing(Orders { releases: vec![(key, String::new())], ..Orders::default() });
        }
        self.outgoing = Some(outgoing);
    }
}

fn lines(entries: &VecDeque<Entry>) -> String {
    let mut text = String::new();
    for Entry { at, what } in entries {
        let _ = writeln!(text, "{:9.3} {what:?}", at.as_secs_f64());
    }
    text
}
