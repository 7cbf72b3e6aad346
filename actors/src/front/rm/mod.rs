//! One registered resource manager: its requests in order, its partitions, its callback.
//!
//! # Why an actor
//! The order of an RM's requests is kept across all three request kinds, and everything its
//! partitions say leaves through one callback. Both are state of this session alone; a session that
//! is superseded falls silent at once, whatever its partitions still have to say and whatever is in
//! its mailbox: `RmProxy`, which lives on the same thread, sets its [`Silence`].
//!
//! # Invariants
//! * A partition has at most two chunks of at most 256 items in its inbox; further items wait here
//!   (`intake`), and beyond [`Intake::waiting_items`](crate::front::translate::Intake) the senders wait.
//! * The callback gets the notices of a partition in their order.
//! * Behind as many notices as a message of them may have, the other RMs have a turn, however much this
//!   one has to be told: they share the thread.
//! * What is sent to a lost partition is dropped: its RM will report everything anew, and must not
//!   take anything for rejected.

mod control;
mod default_queues;
mod document;
mod intake;
mod names;
mod partitions;
mod quotas;
mod reconfiguring;
mod resolving;
mod threads;
mod unused;

pub(crate) use control::Diagnose;
pub(crate) use default_queues::{DefaultQueues, DefaultsOf};
pub(crate) use document::Document;
pub(crate) use intake::{Body, Update};
pub(crate) use partitions::{Roster, Rosters};
pub(crate) use reconfiguring::{
    ChangeState, Comparison, Effect, InForce, Outcome, ReadConfiguration, Reconfigure, policy_group,
};
pub(crate) use threads::PartitionThreads;
pub(crate) use unused::warn_of_unused;

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;
use monoceros_rules::specs::quotas::{Held, Quotas};
use monoceros_rules::specs::rejection::Rejection;
use monoceros_rules::values::resources::NameHolder;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::answers::{self, Listener};
use crate::api::callback::ResourceManagerCallback;
use crate::api::outcomes::Removed;
use crate::api::users::Users;
use crate::clock::Clock;
use crate::events::{COLLECTED_FOR, EventStore, Happening, Telling, gather};
use crate::front::rm_proxy::Taken;
use crate::front::settings::Settings;
use crate::front::translate::Translator;
use crate::mailbox::{Mailbox, Measured, Receive, receives};
use crate::metrics::{ActorKind, Counted, Metrics};
use crate::outlet::BATCH;
use crate::partition::{Close, Control, Wanted};
use crate::step::{BarrierPassed, Notice, Said};
use names::Looking;
use partitions::PartitionLink;
use reconfiguring::{Deferred, Reconfiguration};
use resolving::Resolving;

/// Whether the callback of a session is to be told nothing more. Shared by the session and the
/// front inbox, on one thread: once it is set, no message to the callback is on its way any more.
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

/// Ends this session, which is silent already; the reply says what went with it.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Supersede {
    pub(crate) reply: Option<oneshot::Sender<Removed>>,
}

/// The parts that a session is made of.
pub(crate) struct SessionParams<'a> {
    pub(crate) id: &'a Arc<str>,
    pub(crate) build_info: BTreeMap<String, String>,
    pub(crate) in_force: InForce,
    pub(crate) callback: Arc<dyn ResourceManagerCallback>,
    pub(crate) clock: Clock,
    pub(crate) settings: &'a Settings,
    pub(crate) metrics: &'a Arc<Metrics>,
    pub(crate) users: &'a Rc<Users>,
    pub(crate) threads: &'a PartitionThreads,
    /// What the session had that it takes the place of.
    pub(crate) had: Held,
}

/// A session that has begun.
pub(crate) struct Started {
    pub(crate) mailbox: Mailbox<Rm>,
    pub(crate) roster: Roster,
    pub(crate) silence: Silence,
    pub(crate) held: Rc<Cell<Held>>,
}

/// The actor of one session of a resource manager.
pub(crate) struct Rm {
    id: Arc<str>,
    mailbox: Mailbox<Self>,
    callback: Arc<dyn ResourceManagerCallback>,
    users: Rc<Users>,
    threads: PartitionThreads,
    partitions: BTreeMap<Arc<str>, PartitionLink>,
    /// The number of its partitions so far, those included that are gone.
    partitions_so_far: u64,
    /// What its requests are translated by.
    translator: Translator,
    /// Notices since the other RMs had a turn.
    in_a_row: usize,
    /// Senders that wait until less is waiting.
    blocked: Vec<Taken>,
    silence: Silence,
    /// Its partitions have been told to close.
    is_ending: bool,
    /// The resource types that it has in use.
    names: Arc<NameHolder>,
    looking: Looking,
    /// How much it may have.
    quotas: Quotas,
    /// How much it has in all partitions, by what they told last. The front inbox reads it when
    /// another session takes the place of this one.
    held: Rc<Cell<Held>>,
    events: EventStore,
    /// Empty between two messages, and kept for its room.
    happened: Vec<Happening>,
    /// What has gone with it so far, and the reply that it is told by.
    removed: Removed,
    leave: Option<oneshot::Sender<Removed>>,
    in_force: InForce,
    /// The configuration of RMs in its policy group that bring none.
    default_queues: Arc<Document>,
    reconfiguration: Option<Reconfiguration>,
    /// A request that waits for the owners of its applications.
    resolving: Option<Resolving>,
    /// Messages that wait until that or the reconfiguration is done, in order.
    deferred: VecDeque<Deferred>,
    roster: Roster,
    build_info: Arc<BTreeMap<String, String>>,
    clock: Clock,
    settings: Settings,
    /// The last of each kind of control that lasts: new partitions are told of it, too.
    controls: Vec<Control>,
    metrics: Arc<Metrics>,
    _counted: Counted,
}

impl Rm {
    /// Starts the session with all its partitions.
    pub(crate) fn start_with(params: SessionParams<'_>) -> Started {
        let SessionParams { id, build_info, in_force, callback, .. } = params;
        params.metrics.actor_named(ActorKind::Rm, id);
        let document = in_force.document();
        let (roster, silence) = (Roster::default(), Silence::default());
        let held = Rc::new(Cell::new(params.had));
        let (clock, settings) = (params.clock, params.settings.clone());
        let events = EventStore::new(id, &settings.events, in_force.extra(), params.metrics);
        let names = Arc::new(NameHolder::new(settings.intake.resource_names));
        let (intake, tracking) = (settings.intake, events.tracking());
        let rm = |mailbox| Self {
            id: Arc::clone(id),
            mailbox,
            callback,
            users: Rc::clone(params.users),
            threads: params.threads.clone(),
            partitions: BTreeMap::new(),
            partitions_so_far: 0,
            translator: Translator::new(id, intake, Arc::clone(&names), clock, tracking),
            in_a_row: 0,
            blocked: Vec::new(),
            silence: silence.clone(),
            is_ending: false,
            names,
            looking: Looking::default(),
            quotas: settings.intake.quotas.raised_to(params.had),
            held: Rc::clone(&held),
            removed: Removed::default(),
            leave: None,
            default_queues: settings.default_queues.of(in_force.policy_group()),
            events,
            happened: Vec::new(),
            in_force,
            reconfiguration: None,
            resolving: None,
            deferred: VecDeque::new(),
            roster: roster.clone(),
            build_info: Arc::new(build_info),
            clock,
            settings,
            controls: Vec::new(),
            metrics: Arc::clone(params.metrics),
            _counted: params.metrics.counted(ActorKind::Rm),
        };
        let address = Self::create(|ctx| {
            ctx.set_mailbox_capacity(0);
            let mut rm = rm(Mailbox::new(ctx.address(), params.metrics));
            for Wanted { config, .. } in &document.partitions {
                let name: Arc<str> = Arc::from(format!("[{id}]{}", config.name));
                rm.start_partition(name, Arc::clone(config));
            }
            rm
        });
        Started { mailbox: Mailbox::new(address, params.metrics), roster, silence, held }
    }

    /// Counts the items that were refused or had no effect.
    fn count(&self, notices: &[Notice]) {
        let metrics = &self.metrics;
        for notice in notices {
            if let Notice::Ignored(reason) = notice {
                metrics.count_ignored(&self.id, self.callback.dialect(), *reason);
            } else if let Some(reason) = answers::refusal(notice) {
                metrics.count_rejected(&self.id, self.callback.dialect(), &reason);
            }
            let no_partition =
                |reason: &Rejection| matches!(reason, Rejection::PartitionOfNode { .. });
            if let Notice::NodeRejected { reason, .. } = notice
                && no_partition(reason)
            {
                // There is no partition that would count it.
                metrics.nodes.failed.inc();
            }
        }
    }

    /// Tells the callback the notices of a partition, whose name has the RM's prefix.
    fn deliver(&mut self, partition: &str, notices: Vec<Notice>) {
        self.count(&notices);
        if self.silence.reigns() || notices.is_empty() {
            return;
        }
        if let Some(following) = &self.settings.following {
            following.tell(&self.id, partition, &notices, self.clock);
        }
        let notices = gather(notices, self.events.tracking().is_on(), &mut self.happened);
        answers::deliver(Listener::new(&self.id, &*self.callback, partition), notices);
        self.events.add(&mut self.happened);
    }

    /// Events that were kept are told after a while. For the end of every handler that may deliver.
    fn arm_events(&mut self, ctx: &mut Context<Self>) {
        match self.events.telling(Instant::now()) {
            Telling::Nothing => {}
            Telling::Later => {
                ctx.run_later(COLLECTED_FOR, |rm, _| rm.tell_events());
            }
            Telling::Now => self.tell_events(),
        }
    }

    fn tell_events(&mut self) {
        let events = self.events.collect();
        if !self.silence.reigns() && !events.is_empty() {
            answers::guarded(&self.id, || self.callback.send_events(events));
        }
    }

    /// Ends the session after its last partition has gone.
    fn end(&mut self, ctx: &mut Context<Self>) {
        if let Some(reply) = self.leave.take() {
            let _ = reply.send(self.removed);
        }
        ctx.stop();
    }
}

impl Actor for Rm {
    type Context = Context<Self>;

    fn stopped(&mut self, _ctx: &mut Self::Context) {
        for held in self.partitions.values() {
            // Only after a panic: in order, the last partition ends first.
            held.mailbox.post(Close);
        }
    }
}

impl Drop for Rm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.metrics.actor_lost(ActorKind::Rm, &self.id);
        }
    }
}

impl Measured for Rm {
    const KIND: ActorKind = ActorKind::Rm;
}

receives!(Rm);

impl Receive<Said> for Rm {
    fn receive(&mut self, said: Said, ctx: &mut Context<Self>) {
        let Said { partition, notices, chunks_done } = said;
        let count = notices.len();
        self.deliver(&partition, notices);
        self.arm_events(ctx);
        self.in_a_row += count;
        if self.in_a_row >= BATCH {
            self.in_a_row = 0;
            ctx.wait(tokio::task::yield_now().into_actor(self));
        }
        if let Some(held) = self.partitions.get_mut(&partition) {
            held.took(count);
            held.ahead = held.ahead.saturating_sub(chunks_done);
        }
        if chunks_done > 0 {
            self.pump();
        }
    }
}

impl Receive<BarrierPassed> for Rm {
    fn receive(&mut self, _passed: BarrierPassed, _ctx: &mut Context<Self>) {}
}

impl Receive<Supersede> for Rm {
    fn receive(&mut self, Supersede { reply }: Supersede, ctx: &mut Context<Self>) {
        self.is_ending = true;
        self.leave = reply;
        self.removed = Removed::default();
        let not_here = || crate::api::outcomes::UpdateError::NotRegistered(self.id.to_string());
        for taken in self.blocked.drain(..) {
            let _ = taken.send(Err(not_here()));
        }
        // Callers that wait for another answer learn of the end by a reply that is dropped.
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
            held.mailbox.post(Close);
        }
        if self.partitions.is_empty() {
            self.end(ctx);
        }
    }
}
