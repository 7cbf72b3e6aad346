//! One registered resource manager: its requests in order, its partitions, its callback.
//!
//! # Why an actor
//! The order of an RM's requests is kept across all three request kinds, and everything its
//! partitions say leaves through one callback. Both are state of this session alone; a session that
//! is superseded falls silent at once, whatever its partitions still have to say and whatever is in
//! its mailbox: the front inbox, which lives on the same thread, sets its [`Silence`].
//!
//! # Invariants
//! * A partition has at most [`CHUNKS_AHEAD`] chunks of at most [`CHUNK`] items in its inbox; what is
//!   beyond waits here, and beyond [`Intake::waiting_items`] the senders wait.
//! * The callback gets what a partition said in the order it was said.
//! * What is sent to a lost partition is dropped: its RM will report everything anew, and must not
//!   take anything for rejected.

mod checks;
mod default_queues;
mod document;
mod reconfiguring;
mod resolving;
mod translate;
mod unused;

pub(crate) use checks::{Intake, measured};
pub(crate) use default_queues::{DefaultQueues, DefaultsOf};
pub(crate) use document::Document;
pub(crate) use reconfiguring::{
    ChangeState, Comparison, Effect, InForce, Outcome, Prepared, ReadConfiguration, Reconfigure,
    policy_group,
};
pub(crate) use translate::Barrier;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use actix_rt::Arbiter;
use monoceros_config as config;
use monoceros_config::PartitionConfig;
use monoceros_proto::si::v1 as si;
use tokio::sync::oneshot;

use super::answers;
use crate::api::callback::{ResourceManagerCallback, RmState, StateDump};
use crate::api::predicates::{Invalidation, Predicates};
use crate::api::users::{Answers, PartitionUsers, Users};
use crate::clock::Clock;
use crate::events::{COLLECTED_FOR, EventStore, gather};
use crate::front::rm_proxy::{PartitionEntry, Taken};
use crate::metrics::{ActorKind, Metrics};
use crate::partition::{
    Abandon, Ack, Close, Partition, PartitionParams, Request, Requests, Wanted,
};
use crate::step::Notice;
use crate::tally::Tally;
use crate::{ConfigurationError, Removed, Settings, Threads};
use reconfiguring::{Deferred, Reconfiguration};
use resolving::Resolving;
pub(crate) use unused::warn_of_unused;

/// Items of one chunk, and chunks in the inbox of a partition.
pub(crate) const CHUNK: usize = 256;
const CHUNKS_AHEAD: usize = 2;

/// One request message.
pub(crate) enum Body {
    Allocation(si::AllocationRequest),
    Application(si::ApplicationRequest),
    Node(si::NodeRequest),
    /// Tell when everything before this has been decided and said.
    Barrier(oneshot::Sender<()>),
}

/// A request of this RM; `taken` is answered once there is room for more.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Update {
    pub(crate) body: Body,
    pub(crate) taken: Taken,
}

/// A partition said something. From its outlet.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Notices {
    pub(crate) partition: Arc<str>,
    pub(crate) notices: Vec<Notice>,
}

/// A partition is done with a chunk.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Credit {
    pub(crate) partition: Arc<str>,
}

/// A partition's books are gone: a handler panicked, or an actor died.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PartitionLost {
    pub(crate) partition: Arc<str>,
}

/// A partition has ended in order.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PartitionClosed {
    pub(crate) partition: Arc<str>,
    /// What was in it.
    pub(crate) removed: Removed,
}

/// What an RM's session is to do from now on. From its [`ResourceManagerControl`].
///
/// [`ResourceManagerControl`]: crate::ResourceManagerControl
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ApplyControl(pub(crate) Control);

/// What has the RM to tell of itself? Asked by those who dump the whole state.
#[derive(Message)]
#[rtype(result = "Option<RmState>")]
pub(crate) struct Diagnose;

/// See [`ApplyControl`].
#[derive(Clone, Debug)]
pub(crate) enum Control {
    Hold(bool),
    Predicates(Predicates),
    Invalidate(Invalidation),
    ReorderWindow(Duration),
    ReorderItems(usize),
    StrictEnums(bool),
}

/// Whether the callback of a session is to hear nothing more. Shared by the session and the front
/// inbox, on one thread: once it is set, no word is on its way any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silence(Rc<Cell<bool>>);

impl Silence {
    pub(crate) fn begin(&self) {
        self.0.set(true);
    }

    fn reigns(&self) -> bool {
        self.0.get()
    }
}

/// The partitions of a session as reads find them. Written by the session and read by the front
/// inbox, on one thread.
#[derive(Clone, Default)]
pub(crate) struct Roster(Rc<RefCell<Vec<PartitionEntry>>>);

impl Roster {
    pub(crate) fn entries(&self) -> Vec<PartitionEntry> {
        self.0.borrow().clone()
    }

    fn add(&self, entry: PartitionEntry) {
        self.0.borrow_mut().push(entry);
    }

    fn forget(&self, names: &BTreeSet<Arc<str>>) {
        self.0.borrow_mut().retain(|entry| !names.contains(&entry.name));
    }
}

/// This session, silent already, ends; the reply says what went with it.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Supersede {
    pub(crate) reply: Option<oneshot::Sender<Removed>>,
}

/// What a session begins with.
pub(crate) struct SessionParams<'a> {
    pub(crate) id: &'a Arc<str>,
    pub(crate) build_info: BTreeMap<String, String>,
    pub(crate) in_force: InForce,
    pub(crate) callback: Arc<dyn ResourceManagerCallback>,
    pub(crate) clock: Clock,
    pub(crate) settings: &'a Settings,
    pub(crate) metrics: &'a Arc<Metrics>,
    pub(crate) users: &'a Rc<Users>,
}

struct PartitionLink {
    address: Addr<Partition>,
    arbiter: Option<Arbiter>,
    waiting: VecDeque<Vec<Request>>,
    waiting_items: usize,
    ahead: usize,
    users: PartitionUsers,
}

/// See the module.
pub(crate) struct Rm {
    id: Arc<str>,
    address: Addr<Self>,
    callback: Arc<dyn ResourceManagerCallback>,
    users: Rc<Users>,
    partitions: BTreeMap<Arc<str>, PartitionLink>,
    /// Also those that are gone.
    partitions_so_far: u64,
    /// Partitions whose books are gone, until the RM registers again.
    lost: BTreeSet<Arc<str>>,
    /// Senders that wait until less is waiting.
    blocked: Vec<Taken>,
    silence: Silence,
    /// Its partitions have been told to close.
    is_ending: bool,
    events: EventStore,
    /// What has gone with it so far, and who wants to know.
    removed: Removed,
    leave: Option<oneshot::Sender<Removed>>,
    in_force: InForce,
    /// What stands for no configuration, in its policy group.
    default_queues: Arc<Document>,
    reconfiguration: Option<Reconfiguration>,
    /// A request that waits for the owners of its applications.
    resolving: Option<Resolving>,
    /// What waits until that or the reconfiguration is done, in order.
    deferred: VecDeque<Deferred>,
    roster: Roster,
    build_info: Arc<BTreeMap<String, String>>,
    clock: Clock,
    settings: Settings,
    /// The last of each kind of control that lasts: new partitions are told of it, too.
    controls: Vec<Control>,
    /// Items with unknown numbers in enumerations are ignored rather than taken for the mildest.
    strict_enums: bool,
    tally: Tally,
}

impl Rm {
    /// Starts the session with all its partitions.
    pub(crate) fn start_with(params: SessionParams<'_>) -> (Addr<Self>, Roster, Silence) {
        let SessionParams { id, build_info, in_force, callback, .. } = params;
        let document = in_force.document();
        let (roster, silence) = (Roster::default(), Silence::default());
        let (clock, settings) = (params.clock, params.settings.clone());
        let rm = |address| Self {
            id: Arc::clone(id),
            address,
            callback,
            users: Rc::clone(params.users),
            partitions: BTreeMap::new(),
            partitions_so_far: 0,
            lost: BTreeSet::new(),
            blocked: Vec::new(),
            silence: silence.clone(),
            is_ending: false,
            removed: Removed::default(),
            leave: None,
            default_queues: settings.default_queues.of(in_force.policy_group()),
            in_force,
            events: EventStore::new(id, &settings.events, params.metrics),
            reconfiguration: None,
            resolving: None,
            deferred: VecDeque::new(),
            roster: roster.clone(),
            build_info: Arc::new(build_info),
            clock,
            settings,
            controls: Vec::new(),
            strict_enums: false,
            tally: Tally::new(params.metrics),
        };
        let address = Self::create(|ctx| {
            ctx.set_mailbox_capacity(0);
            let mut rm = rm(ctx.address());
            for Wanted { config, .. } in &document.partitions {
                let name: Arc<str> = Arc::from(format!("[{id}]{}", config.name));
                rm.start_partition(name, Arc::clone(config), ctx.address());
            }
            rm
        });
        (address, roster, silence)
    }

    fn start_partition(
        &mut self,
        name: Arc<str>,
        config: Arc<PartitionConfig>,
        address: Addr<Self>,
    ) {
        let users = self.users.of(&name, &config.resolver);
        let nth = self.partitions_so_far;
        self.partitions_so_far += 1;
        let params = PartitionParams {
            name: Arc::clone(&name),
            nth,
            config,
            rm: address,
            callback: Arc::clone(&self.callback),
            clock: self.clock,
            reorder_window: self.settings.reorder_window,
            intake: self.settings.intake,
            metrics: Arc::clone(self.tally.shared()),
            watch: self.settings.watch.clone(),
            tracking: self.settings.events.tracking().clone(),
        };
        let arbiter = match self.settings.threads {
            Threads::PerPartition => own_arbiter(&name),
            Threads::One => None,
        };
        let address = match &arbiter {
            Some(arbiter) => {
                Partition::start_in_arbiter(&arbiter.handle(), |ctx| Partition::new(params, ctx))
            }
            None => Partition::create(|ctx| Partition::new(params, ctx)),
        };
        for control in &self.controls {
            address.do_send(ApplyControl(control.clone()));
        }
        self.roster.add(PartitionEntry {
            rm_id: Arc::clone(&self.id),
            name: Arc::clone(&name),
            build_info: Arc::clone(&self.build_info),
            address: address.clone(),
        });
        let waiting = VecDeque::new();
        let held = PartitionLink { address, arbiter, waiting, waiting_items: 0, ahead: 0, users };
        self.partitions.insert(name, held);
    }

    /// Counts what was refused and what had no effect.
    fn count(&self, notices: &[Notice]) {
        let metrics = self.tally.shared();
        for notice in notices {
            if let Notice::Ignored(reason) = notice {
                metrics.count_ignored(&self.id, self.callback.dialect(), *reason);
            } else if let Some(reason) = answers::refusal(notice) {
                metrics.count_rejected(&self.id, self.callback.dialect(), &reason);
            }
        }
    }

    /// Tells the callback; `partition` is the one that speaks, with the RM's prefix.
    fn deliver(&mut self, partition: &str, notices: Vec<Notice>) {
        self.count(&notices);
        if self.silence.reigns() || notices.is_empty() {
            return;
        }
        let (notices, events) = gather(notices, self.events.tracking().is_on());
        answers::deliver(&*self.callback, config::plain_name(partition), notices);
        self.events.add(events);
    }

    /// Events that were kept are told after a while. For the end of every handler that may deliver.
    fn arm_events(&mut self, ctx: &mut Context<Self>) {
        if self.events.arm() {
            ctx.run_later(COLLECTED_FOR, |rm, _| rm.tell_events());
        }
    }

    fn tell_events(&mut self) {
        let events = self.events.collect();
        if !self.silence.reigns() && !events.is_empty() {
            answers::guarded(|| self.callback.send_events(events));
        }
    }

    fn update(&mut self, Update { body, taken }: Update, answers: &Answers) {
        let translated = match body {
            Body::Allocation(request) => self.translate_allocation(request),
            Body::Application(request) => self.translate_application(request, answers),
            Body::Node(request) => self.translate_node(request),
            Body::Barrier(reply) => self.translate_barrier(reply),
        };
        self.deliver("", translated.refused);
        self.hand_in(translated.chunks);
        if self.waiting_items() > self.settings.intake.waiting_items {
            self.blocked.push(taken);
        } else {
            let _ = taken.send(Ok(()));
        }
        self.pump();
    }

    /// The last partition has gone.
    fn end(&mut self, ctx: &mut Context<Self>) {
        if let Some(reply) = self.leave.take() {
            let _ = reply.send(self.removed);
        }
        ctx.stop();
    }

    /// Hands each partition what it may have ahead.
    fn pump(&mut self) {
        for held in self.partitions.values_mut() {
            while held.ahead < CHUNKS_AHEAD {
                let Some(chunk) = held.waiting.pop_front() else { break };
                held.waiting_items -= chunk.iter().map(Request::items).sum::<usize>();
                held.ahead += 1;
                held.address.do_send(Requests(chunk));
            }
        }
        if self.waiting_items() <= self.settings.intake.waiting_items / 2 {
            for taken in self.blocked.drain(..) {
                let _ = taken.send(Ok(()));
            }
        }
    }

    fn waiting_items(&self) -> usize {
        self.partitions.values().map(|held| held.waiting_items).sum()
    }

    fn hand_in(&mut self, chunks: Vec<(Arc<str>, Vec<Request>)>) {
        for (partition, chunk) in chunks {
            let Some(held) = self.partitions.get_mut(&partition) else {
                debug_assert!(self.lost.contains(&partition), "translated for a known partition");
                continue;
            };
            held.waiting_items += chunk.iter().map(Request::items).sum::<usize>();
            held.waiting.push_back(chunk);
        }
    }

    fn is_partition(&self, name: &str) -> bool {
        self.partitions.contains_key(name) || self.lost.contains(name)
    }

    fn stop_arbiter(held: &PartitionLink) {
        if let Some(arbiter) = &held.arbiter {
            arbiter.stop();
        }
    }
}

/// A thread for a partition. Where the system has none left to give, or no file descriptors for it,
/// the partition shares the front's: slower, and all goes on.
fn own_arbiter(partition: &str) -> Option<Arbiter> {
    // It has no other way to say that it cannot.
    let arbiter = catch_unwind(Arbiter::new);
    if arbiter.is_err() {
        tracing::error!(partition, "no thread of its own: the partition shares the front's");
    }
    arbiter.ok()
}

impl Actor for Rm {
    type Context = Context<Self>;

    fn started(&mut self, _ctx: &mut Self::Context) {
        self.tally.shared().actor_started(ActorKind::Rm);
    }

    fn stopped(&mut self, _ctx: &mut Self::Context) {
        self.tally.shared().actor_stopped(ActorKind::Rm);
        for held in self.partitions.values() {
            // Only after a panic: in order, the last partition ends first.
            held.address.do_send(Close);
            Self::stop_arbiter(held);
        }
    }
}

impl Handler<Update> for Rm {
    type Result = ();

    fn handle(&mut self, update: Update, ctx: &mut Self::Context) {
        let _timer = self.tally.message(ActorKind::Rm);
        if self.holds_back() {
            self.deferred.push_back(Deferred::Update(update));
        } else {
            self.take_up(update);
            self.arm_events(ctx);
        }
        self.tally.flush();
    }
}

impl Handler<Credit> for Rm {
    type Result = ();

    fn handle(&mut self, Credit { partition }: Credit, _ctx: &mut Self::Context) {
        let _timer = self.tally.message(ActorKind::Rm);
        if let Some(held) = self.partitions.get_mut(&partition) {
            held.ahead = held.ahead.saturating_sub(1);
        }
        self.pump();
    }
}

impl Handler<Notices> for Rm {
    type Result = ();

    fn handle(&mut self, Notices { partition, notices }: Notices, ctx: &mut Self::Context) {
        let _timer = self.tally.message(ActorKind::Rm);
        let count = notices.len();
        self.deliver(&partition, notices);
        self.arm_events(ctx);
        if let Some(held) = self.partitions.get(&partition) {
            held.address.do_send(Ack(count));
        }
        self.tally.flush();
    }
}

impl Handler<ApplyControl> for Rm {
    type Result = ();

    fn handle(&mut self, ApplyControl(control): ApplyControl, _ctx: &mut Self::Context) {
        let _timer = self.tally.message(ActorKind::Rm);
        match &control {
            Control::StrictEnums(strict) => {
                self.strict_enums = *strict;
                return;
            }
            Control::Invalidate(_) => {}
            lasting => {
                let kind = std::mem::discriminant(lasting);
                self.controls.retain(|earlier| std::mem::discriminant(earlier) != kind);
                self.controls.push(lasting.clone());
            }
        }
        for held in self.partitions.values() {
            held.address.do_send(ApplyControl(control.clone()));
        }
    }
}

impl Handler<Diagnose> for Rm {
    type Result = MessageResult<Diagnose>;

    fn handle(&mut self, _: Diagnose, _ctx: &mut Self::Context) -> Self::Result {
        let _timer = self.tally.message(ActorKind::Rm);
        let begin = || self.callback.state_dump().map(StateDump::rm_state);
        let state = catch_unwind(AssertUnwindSafe(begin)).unwrap_or_else(|_| {
            tracing::error!(rm = %self.id, "state dump panicked");
            Some(Box::pin(async { Err("the state dump panicked".to_owned()) }))
        });
        MessageResult(state)
    }
}

impl Handler<PartitionLost> for Rm {
    type Result = ();

    fn handle(&mut self, PartitionLost { partition }: PartitionLost, ctx: &mut Self::Context) {
        let Some(held) = self.partitions.remove(&partition) else { return };
        held.address.do_send(Abandon);
        Self::stop_arbiter(&held);
        if self.is_ending {
            if self.partitions.is_empty() {
                self.end(ctx);
            }
            return;
        }
        if self.left_as_wanted(&partition) {
            return;
        }
        tracing::error!(rm = %self.id, %partition, "partition lost, its RM must register again");
        if !self.silence.reigns() {
            self.callback.resync_required(&format!("partition `{partition}` was lost"));
        }
        self.lost.insert(Arc::clone(&partition));
        let lost = ConfigurationError::PartitionLost(self.id.to_string());
        self.answered(&partition, Err(lost), ctx);
        self.pump();
    }
}

impl Handler<PartitionClosed> for Rm {
    type Result = ();

    fn handle(&mut self, closed: PartitionClosed, ctx: &mut Self::Context) {
        let PartitionClosed { partition, removed } = closed;
        if let Some(held) = self.partitions.remove(&partition) {
            Self::stop_arbiter(&held);
        }
        self.removed.add(removed);
        if self.is_ending {
            if self.partitions.is_empty() {
                self.end(ctx);
            }
        } else {
            self.left_as_wanted(&partition);
        }
    }
}

impl Handler<Supersede> for Rm {
    type Result = ();

    fn handle(&mut self, Supersede { reply }: Supersede, ctx: &mut Self::Context) {
        self.is_ending = true;
        self.leave = reply;
        self.removed = Removed::default();
        let not_here = || crate::UpdateError::NotRegistered(self.id.to_string());
        for taken in self.blocked.drain(..) {
            let _ = taken.send(Err(not_here()));
        }
        // Whoever waits for another answer learns it by a reply that is dropped.
        self.reconfiguration = None;
        if let Some(resolving) = self.resolving.take() {
            let _ = resolving.taken.send(Err(not_here()));
        }
        for deferred in self.deferred.drain(..) {
            if let Deferred::Update(update) = deferred {
                let _ = update.taken.send(Err(not_here()));
            }
        }
        for held in self.partitions.values_mut() {
            held.waiting.clear();
            held.waiting_items = 0;
            held.address.do_send(Close);
        }
        if self.partitions.is_empty() {
            self.end(ctx);
        }
    }
}
