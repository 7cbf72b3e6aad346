//! The task that runs a member: it feeds the state machine with time, events and replies of the
//! arbiter, and has its effects carried out.
//!
//! # Order
//! One task does all of it, so effects are carried out in their order, and a request to the arbiter
//! is sent after the effects that stand before it. Requests are awaited side by side.
//!
//! # The clock
//! The member may decide until the time that its [`Gate`] has. The gate closes by the clock, also
//! while this task does not run. Sessions end when it runs again, before anything else. The gate's
//! time is lowered before the effects of an event are carried out, and raised after all of them: a
//! session that has to end is not revived by a renewal that counts at the same moment.
//!
//! # When the arbiter does not answer
//! The result is unknown, and the member may send the request again at once. A result that is known
//! to be unknown early is held back for [`PAUSE`], so that a refused connection is not tried in a
//! loop.
//!
//! # The end
//! Events that are still queued when the member has ended are answered with refusals.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use monoceros_cluster::{
    Details, Effect, Event, Incarnation, Member, MemberId, MemberRecord, Nanos, Operation, Owner,
    Refusal, Registration, Reply, Request, RmId, Timing, Versioned,
};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::arbiter::Arbiter;
use crate::clock::{Clock, Gate};
use crate::store::Failure;
use crate::view::View;

/// Least time between a request and its result, if that is unknown.
const PAUSE: Duration = Duration::from_millis(100);
/// Pause before a request that may wait ([`Effect::AskLater`]). An RM that goes to another member
/// needs some 50 ms to be claimed there. Whoever ordered the hand-over waits for it.
const LATER: Duration = Duration::from_millis(200);
/// Events that wait for the task. More are refused or wait at the sender.
const EVENTS: usize = 1024;
/// Wake-ups in each interval of renewals.
const WAKES: u32 = 5;

/// The service around a member.
pub trait Host: Send {
    /// Carries out an effect, and returns when it is done. Never called with [`Effect::Ask`]
    /// and [`Effect::AskLater`]. [`Effect::Forward`] is only begun; its end is reported with
    /// [`Event::ForwardEnded`], or with [`Event::Abandoned`] if the client has given up. The gate
    /// opens after [`Effect::Ready`].
    fn carry_out(&mut self, effect: Effect);

    /// Whether the front answers its watchdog.
    fn front_answers(&mut self) -> bool;

    /// Addresses, version and load for the next renewal.
    fn details(&mut self) -> Details;

    /// A new random number for the next incarnation.
    fn incarnation(&mut self) -> Incarnation;

    /// Notes that a request about the claim of an RM has no result. Called before the effects that
    /// follow from that.
    fn failed(&mut self, rm: &RmId, failure: &Failure) {
        let _ = (rm, failure);
    }

    /// Counts a compare-and-set that had a result, by the time that it took.
    fn written(&mut self, took: Duration) {
        let _ = took;
    }
}

/// Reason why the task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The member has left in order.
    Left,
    /// Another process has the member's id. The process has to exit.
    IdInUse,
}

/// Requests that may take as long as the lease: after a restored backup, one could be carried out
/// when its result means something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("requests to the arbiter of up to {timeout:?} are too long: the lease is {lease:?}")]
pub struct TimeoutTooLong {
    /// Longest time of a request.
    pub timeout: Duration,
    /// The lease.
    pub lease: Duration,
}

/// Records of all members, by id.
pub type Members = Arc<BTreeMap<MemberId, Versioned<MemberRecord>>>;

/// Runs one member. See the head of the module.
#[derive(Debug)]
pub struct Driver<H> {
    member: Member,
    arbiter: Arbiter,
    host: H,
    wake: Duration,
    gate: Gate,
    events: mpsc::Receiver<Event>,
    problem: watch::Sender<Option<String>>,
    members: watch::Sender<Members>,
    view: watch::Sender<Arc<View>>,
}

/// Access to a running [`Driver`]. Clones are for the same member.
#[derive(Clone, Debug)]
pub struct Handle {
    events: mpsc::Sender<Event>,
    gate: Gate,
    problem: watch::Receiver<Option<String>>,
    members: watch::Receiver<Members>,
    view: watch::Receiver<Arc<View>>,
}

impl Handle {
    /// Passes an event to the member, and waits while the queue is full. `false`: the task has
    /// ended.
    pub async fn send(&self, event: Event) -> bool {
        self.events.send(event).await.is_ok()
    }

    /// Passes a registration to the member unless the queue is full. A registration that is refused
    /// here has to be answered by the caller. All other events go by [`Self::send`], since the
    /// member would wait for them.
    pub fn register(&self, registration: Registration) -> Result<(), Refusal> {
        self.events.try_send(Event::Register(registration)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Refusal::Busy,
            mpsc::error::TrySendError::Closed(_) => Refusal::Fenced,
        })
    }

    /// Present time of the member's clock, by which a [`View`] is dated.
    pub fn now(&self) -> Nanos {
        self.gate.now()
    }

    /// Whether decisions may be handed over now. To be asked before each hand-over.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Reason why the last request of a renewal had no result. `None` once one had.
    pub fn problem(&self) -> Option<String> {
        self.problem.borrow().clone()
    }

    /// The members as each renewal reads them.
    pub fn watch_members(&self) -> watch::Receiver<Members> {
        self.members.clone()
    }

    /// The members as the last renewal read them: a hint, never a reason to decide.
    pub fn members(&self) -> Members {
        self.members.borrow().clone()
    }

    /// The cluster as the last renewal read it, for people: never a reason to decide.
    pub fn view(&self) -> watch::Receiver<Arc<View>> {
        self.view.clone()
    }
}

/// A request to the arbiter with its result.
struct Asked {
    operation: Operation,
    result: Result<Reply, Failure>,
    /// Time that it took, if it was a compare-and-set.
    write_took: Option<Duration>,
}

/// Requests to the arbiter that are under way.
type Asking = FuturesUnordered<BoxFuture<'static, Asked>>;

impl<H: Host> Driver<H> {
    /// A member `me` that joins once [`Self::run`] runs. Fails if requests of the arbiter may take
    /// as long as the lease.
    pub fn new(
        me: Owner,
        timing: Timing,
        arbiter: Arbiter,
        clock: Clock,
        mut host: H,
    ) -> Result<(Self, Handle), TimeoutTooLong> {
        let (timeout, lease) = (arbiter.timeout(), Duration::from_nanos(timing.lease()));
        if timeout >= lease {
            return Err(TimeoutTooLong { timeout, lease });
        }
        let (sender, events) = mpsc::channel(EVENTS);
        let (problem, seen) = watch::channel(None);
        let gate = Gate::new(clock);
        let (members, read) = watch::channel(Members::default());
        let (view, viewed) = watch::channel(Arc::default());
        let handle = Handle {
            events: sender,
            gate: gate.clone(),
            problem: seen,
            members: read,
            view: viewed,
        };
        let member = Member::new(me, host.details(), timing);
        let wake = Duration::from_nanos(timing.renew()) / WAKES;
        let driver = Self { member, arbiter, host, wake, gate, events, problem, members, view };
        Ok((driver, handle))
    }

    /// Runs the member until it has left, or another process has its id. Returns the host, too.
    pub async fn run(mut self) -> (Outcome, H) {
        let mut asked = Asking::new();
        let mut wakes = interval(self.wake);
        wakes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let event = tokio::select! {
                // Time comes first: a lease that is over ends sessions before anything is answered.
                biased;
                _ = wakes.tick() => {
                    self.member.set_details(self.host.details());
                    Event::Wake { front_answers: self.host.front_answers() }
                }
                Some(asked) = asked.next() => {
                    if let (Some(took), Ok(_)) = (asked.write_took, &asked.result) {
                        self.host.written(took);
                    }
                    self.reply(asked.operation, asked.result)
                }
                Some(event) = self.events.recv() => event,
            };
            if let Some(outcome) = self.step(event, &mut asked) {
                self.gate.open_until(None);
                self.answer_queued_events().await;
                return (outcome, self.host);
            }
        }
    }

    /// Handles one event and carries out its effects. Returns how the member ended, if it did.
    fn step(&mut self, event: Event, asked: &mut Asking) -> Option<Outcome> {
        if let Event::Reply(_, Reply::All(snapshot)) = &event {
            let members = Arc::new(snapshot.members.clone());
            self.members.send_replace(Arc::clone(&members));
            let now = self.gate.now();
            self.view.send_modify(|view| {
                *view = Arc::new(View::of(members, snapshot.claims.clone(), view, now));
            });
        }
        let effects = self.member.handle(self.gate.now(), event);
        self.gate.lower_to(self.member.decides_until());
        let mut outcome = None;
        for effect in effects {
            match effect {
                Effect::Ask(operation, request) => {
                    asked.push(self.ask(operation, request, Duration::ZERO));
                }
                Effect::AskLater(operation, request) => {
                    asked.push(self.ask(operation, request, LATER));
                }
                Effect::BeginAgain => {
                    let member = self.member.me().member.clone();
                    let incarnation = self.host.incarnation();
                    self.member = self.member.again(Owner { member, incarnation });
                    // Replies to the last incarnation are of no use to this one.
                    asked.clear();
                    self.host.carry_out(Effect::BeginAgain);
                }
                ended @ (Effect::Left | Effect::Exit(_)) => {
                    let left = ended == Effect::Left;
                    outcome = Some(if left { Outcome::Left } else { Outcome::IdInUse });
                    self.host.carry_out(ended);
                }
                effect => self.host.carry_out(effect),
            }
        }
        self.gate.open_until(self.member.decides_until());
        outcome
    }

    /// Has the member, which is over, answer the events that nobody has received.
    async fn answer_queued_events(&mut self) {
        self.events.close();
        while let Some(event) = self.events.recv().await {
            for effect in self.member.handle(self.gate.now(), event) {
                self.host.carry_out(effect);
            }
        }
    }

    /// A request to the arbiter after this pause, with its result.
    fn ask(
        &self,
        operation: Operation,
        request: Request,
        pause: Duration,
    ) -> BoxFuture<'static, Asked> {
        let arbiter = self.arbiter.clone();
        let begun = Instant::now() + pause;
        let is_write = matches!(request, Request::CompareAndSet { .. });
        Box::pin(async move {
            if !pause.is_zero() {
                sleep_until(begun).await;
            }
            let result = arbiter.ask(request).await;
            let write_took = is_write.then(|| begun.elapsed());
            if result.is_err() {
                sleep_until(begun + PAUSE).await;
            }
            Asked { operation, result, write_took }
        })
    }

    /// The event of a result. Renewals are asked all the time, so they show whether the arbiter
    /// answers; failures of other requests are logged.
    fn reply(&mut self, operation: Operation, result: Result<Reply, Failure>) -> Event {
        if let (Operation::Rm(rm), Err(failure)) = (&operation, &result) {
            self.host.failed(rm, failure);
        }
        match (&operation, &result) {
            (Operation::Renewal, Ok(_)) => self.note(None),
            (Operation::Renewal, Err(failure)) => self.note(Some(failure)),
            (_, Ok(_)) => {}
            (_, Err(failure @ Failure::NoAnswer(_))) => {
                tracing::debug!(?operation, %failure, "a request to the arbiter has no result");
            }
            (_, Err(failure)) => {
                tracing::warn!(?operation, %failure, "a request to the arbiter has no result");
            }
        }
        Event::Reply(operation, result.unwrap_or(Reply::Unknown))
    }

    /// Notes why the arbiter has no results, and logs when that changes.
    fn note(&self, failure: Option<&Failure>) {
        let problem = failure.map(ToString::to_string);
        self.problem.send_if_modified(|noted| {
            match (&*noted, &problem) {
                (None, Some(why)) if matches!(failure, Some(Failure::NoAnswer(_))) => {
                    tracing::warn!(why, "the arbiter does not answer");
                }
                (None, Some(why)) => {
                    tracing::warn!(why, "the member cannot renew its record at the arbiter");
                }
                (Some(_), None) => tracing::info!("the arbiter answers again"),
                (None, None) | (Some(_), Some(_)) => {}
            }
            let is_new = *noted != problem;
            *noted = problem;
            is_new
        });
    }
}
