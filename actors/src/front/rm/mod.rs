//! The session of a registered resource manager: its requests in order, its partitions, its callback.
//!
//! # Why an actor
//! The order of an RM's requests is kept across all three kinds of requests, and all notices of its
//! partitions are delivered through one callback. Both are state of this session alone. A session that
//! is superseded delivers nothing from then on, whatever is in its mailbox: `RmProxy`, which runs on
//! the same thread, sets its [`Silence`].
//!
//! # Invariants
//! * A partition has at most two chunks of at most 256 items in its inbox; further items wait here
//!   (`link`), and beyond [`Intake::waiting_items`](crate::front::translate::Intake) the senders wait.
//! * The callback gets the notices of a partition in their order.
//! * After [`BATCH`] notices the other RMs have a turn, however many notices this one has: they share
//!   the thread.
//! * Requests for a lost partition are dropped: its RM will report everything again, and must not take
//!   them for rejected.

mod control;
mod held_back;
mod in_force;
mod intake;
mod link;
mod name_check;
mod names;
mod partitions;
mod quotas;
mod reconfiguration;
mod reconfiguring;
mod requests;
mod resolving;
mod threads;
mod unused;

pub(crate) use control::Diagnose;
pub(crate) use in_force::{InForce, policy_group};
pub(crate) use requests::{
    Body, ChangeState, Comparison, Effect, Outcome, ReadConfiguration, Reconfigure, Taken, Update,
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
use crate::events::{COLLECTED_FOR, EventStore, Happening, SendDue};
use crate::front::document::Document;
use crate::front::rosters::Roster;
use crate::front::settings::Settings;
use crate::front::translate::Translator;
use crate::mailbox::{Mailbox, Measured, Receive, receives};
use crate::metrics::{ActorKind, Counted, Metrics};
use crate::partition::{Close, Control, PartitionDocument, PartitionImage};
use crate::session::{BATCH, BarrierPassed, Delivery, Notice, gather};
use held_back::{Deferred, Resolving};
use link::PartitionLink;
use name_check::NameCheck;
use reconfiguration::Reconfiguration;

/// Whether the callback of a session must not be called any more. Shared by the session and `RmProxy`
/// on one thread: once it is set, no call of the callback is under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silence(Rc<Cell<bool>>);

impl Silence {
    pub(crate) fn begin(&self) {
        self.0.set(true);
    }

    fn has_begun(&self) -> bool {
        self.0.get()
    }
}

/// Ends this session, which is silent already. The reply has the numbers of removed objects.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Supersede {
    pub(crate) reply: Option<oneshot::Sender<Removed>>,
}

/// The parts of a new session.
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
    /// The usage of the session that this one replaces.
    pub(crate) had: Held,
    /// The states from which partitions go on, by their names with the RM's prefix.
    pub(crate) images: BTreeMap<Arc<str>, Box<PartitionImage>>,
}

/// A session that was started.
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
    /// The number of partitions that were ever started.
    partitions_so_far: u64,
    /// Translates its requests.
    translator: Translator,
    /// Notices since the other RMs had a turn.
    in_a_row: usize,
    /// Senders that are answered when fewer items wait.
    blocked: Vec<Taken>,
    silence: Silence,
    /// Whether the RM's partitions are closing.
    is_ending: bool,
    /// The resource types that the RM uses.
    names: Arc<NameHolder>,
    name_check: NameCheck,
    quotas: Quotas,
    /// The usage of all partitions together, as they reported it last. `RmProxy` reads it when another
    /// session replaces this one.
    held: Rc<Cell<Held>>,
    events: EventStore,
    /// Empty between two messages; kept for its memory.
    happened: Vec<Happening>,
    /// The numbers of objects that have been removed with the session.
    removed: Removed,
    /// The reply with these numbers, once the session is ending.
    leave: Option<oneshot::Sender<Removed>>,
    in_force: InForce,
    /// The default configuration of its policy group.
    default_queues: Arc<Document>,
    reconfiguration: Option<Reconfiguration>,
    /// An application request whose users are being looked up.
    resolving: Option<Resolving>,
    /// Messages that wait for the lookups or the reconfiguration, in order.
    deferred: VecDeque<Deferred>,
    roster: Roster,
    build_info: Arc<BTreeMap<String, String>>,
    clock: Clock,
    settings: Settings,
    /// The last control of each lasting kind, for new partitions.
    controls: Vec<Control>,
    metrics: Arc<Metrics>,
    _counted: Counted,
}

impl Rm {
    /// Starts the session and its partitions.
    pub(crate) fn start_with(params: SessionParams<'_>) -> Started {
        let SessionParams { id, build_info, in_force, callback, mut images, .. } = params;
        params.metrics.actor_named(ActorKind::Rm, id);
        let document = Arc::clone(&in_force.document);
        let (roster, silence) = (Roster::default(), Silence::default());
        let held = Rc::new(Cell::new(params.had));
        let (clock, settings) = (params.clock, params.settings.clone());
        let events = EventStore::new(id, &settings.events, &in_force.extra, params.metrics);
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
            name_check: NameCheck::default(),
            quotas: settings.intake.quotas.raised_to(params.had),
            held: Rc::clone(&held),
            removed: Removed::default(),
            leave: None,
            default_queues: settings.default_queues.of(&in_force.policy_group),
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
            for PartitionDocument { config, .. } in &document.partitions {
                let name: Arc<str> = Arc::from(format!("[{id}]{}", config.name));
                let image = images.remove(&name);
                rm.start_partition(name, Arc::clone(config), image);
            }
            rm
        });
        Started { mailbox: Mailbox::new(address, params.metrics), roster, silence, held }
    }

    /// Counts items that were refused or had no effect.
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
                // No partition counts it.
                metrics.nodes.failed.inc();
            }
        }
    }

    /// Delivers notices of a partition to the callback. `partition` is its name with the RM's prefix,
    /// empty for items that name no partition.
    fn deliver(&mut self, partition: &str, notices: Vec<Notice>) {
        self.count(&notices);
        if self.silence.has_begun() || notices.is_empty() {
            return;
        }
        if let Some(traces) = &self.settings.traces {
            for notice in &notices {
                if let Notice::Allocated(allocated) = notice {
                    traces.report(&self.id, partition, allocated, self.clock);
                }
            }
        }
        let notices = gather(notices, self.events.tracking().is_on(), &mut self.happened);
        answers::deliver(Listener::new(&self.id, &*self.callback, partition), notices);
        self.events.add(&mut self.happened);
    }

    /// Sends collected events, now or after a delay. Called at the end of every handler that may
    /// deliver notices.
    fn arm_events(&mut self, ctx: &mut Context<Self>) {
        match self.events.send_due(Instant::now()) {
            SendDue::Nothing => {}
            SendDue::Later => {
                ctx.run_later(COLLECTED_FOR, |rm, _| rm.send_events());
            }
            SendDue::Now => self.send_events(),
        }
    }

    fn send_events(&mut self) {
        let events = self.events.collect();
        if !self.silence.has_begun() && !events.is_empty() {
            answers::guarded(&self.id, || self.callback.send_events(events));
        }
    }

    /// Ends the session after its last partition has ended.
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
            // Only after a panic: otherwise the session ends after its last partition.
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

impl Receive<Delivery> for Rm {
    fn receive(&mut self, delivery: Delivery, ctx: &mut Context<Self>) {
        let Delivery { partition, notices, chunks_done } = delivery;
        let count = notices.len();
        self.deliver(&partition, notices);
        self.arm_events(ctx);
        self.in_a_row += count;
        if self.in_a_row >= BATCH {
            self.in_a_row = 0;
            ctx.wait(tokio::task::yield_now().into_actor(self));
        }
        if let Some(held) = self.partitions.get_mut(&partition) {
            held.delivered(count);
            held.processed(chunks_done);
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
        // Callers that wait for another answer see that their reply was dropped.
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
            held.drop_waiting();
            held.mailbox.post(Close);
        }
        if self.partitions.is_empty() {
            self.end(ctx);
        }
    }
}
