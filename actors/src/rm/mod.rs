//! One registered resource manager: its requests in order, its partitions, its callback.
//!
//! # Why an actor
//! The order of an RM's requests is kept across all three request kinds, and everything its
//! partitions say leaves through one callback. Both are state of this session alone; a session that
//! is superseded falls silent at once, whatever its partitions still have to say and whatever is in
//! its mailbox: the front door, which lives on the same thread, sets its [`Silence`].
//!
//! # Invariants
//! * A partition has at most [`CHUNKS_AHEAD`] chunks of at most [`CHUNK`] items in its door; what is
//!   beyond waits here, and beyond [`WAITING_MAX`] items the senders wait.
//! * The callback gets what a partition said in the order it was said.
//! * What is sent to a lost partition is dropped: its RM will report everything anew, and must not
//!   take anything for rejected.

mod answers;
mod checks;
mod translate;

pub(crate) use translate::Settling;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use actix_rt::Arbiter;
use monoceros_proto::si::v1 as si;
use monoceros_rules::config::{self, Configuration};
use tokio::sync::oneshot;

use crate::baton::Saying;
use crate::callback::{ResourceManagerCallback, RmState, StateDump};
use crate::clock::Clock;
use crate::events::{COLLECTED_FOR, EventStore, gather};
use crate::metrics::{Kind, Metrics};
use crate::partition::{Abandon, Close, Heard, Making, Partition, Request, Requests};
use crate::predicates::{Invalidation, Predicates};
use crate::rm_proxy::{PartitionEntry, Taken};
use crate::tally::Tally;
use crate::{Settings, Threads};

/// Items of one chunk, and chunks in the door of a partition.
pub(crate) const CHUNK: usize = 256;
const CHUNKS_AHEAD: usize = 2;
/// Items waiting here above which senders wait, too.
const WAITING_MAX: usize = 65_536;

/// One request message.
pub(crate) enum Body {
    Allocation(si::AllocationRequest),
    Application(si::ApplicationRequest),
    Node(si::NodeRequest),
    /// Tell when everything before this has been decided and said.
    Settle(oneshot::Sender<()>),
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
pub(crate) struct Said {
    pub(crate) partition: Arc<str>,
    pub(crate) sayings: Vec<Saying>,
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
}

/// What an RM's session is to do from now on. From its [`ResourceManagerControl`].
///
/// [`ResourceManagerControl`]: crate::ResourceManagerControl
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Steer(pub(crate) Steering);

/// What has the RM to tell of itself? Asked by those who dump the whole state.
#[derive(Message)]
#[rtype(result = "Option<RmState>")]
pub(crate) struct Diagnose;

/// See [`Steer`].
#[derive(Clone, Debug)]
pub(crate) enum Steering {
    Hold(bool),
    Predicates(Predicates),
    Invalidate(Invalidation),
    ReorderWindow(Duration),
    StrictEnums(bool),
}

/// Whether the callback of a session is to hear nothing more. Shared by the session and the front
/// door, on one thread: once it is set, no word is on its way any more.
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

/// This session, silent already, ends.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Supersede;

struct Held {
    address: Addr<Partition>,
    arbiter: Option<Arbiter>,
    waiting: VecDeque<Vec<Request>>,
    waiting_items: usize,
    ahead: usize,
}

/// See the module.
pub(crate) struct Rm {
    id: Arc<str>,
    callback: Arc<dyn ResourceManagerCallback>,
    partitions: BTreeMap<Arc<str>, Held>,
    /// Partitions whose books are gone, until the RM registers again.
    lost: BTreeSet<Arc<str>>,
    /// Senders that wait until less is waiting.
    blocked: Vec<Taken>,
    silence: Silence,
    /// Its partitions have been told to close.
    is_ending: bool,
    events: EventStore,
    clock: Clock,
    /// Items with unknown numbers in enumerations are ignored rather than taken for the mildest.
    strict_enums: bool,
    tally: Tally,
}

impl Rm {
    /// Starts the session with all its partitions.
    pub(crate) fn start_with(
        id: &Arc<str>,
        build_info: &Arc<BTreeMap<String, String>>,
        configuration: Configuration,
        callback: &Arc<dyn ResourceManagerCallback>,
        clock: Clock,
        settings: &Settings,
        metrics: &Arc<Metrics>,
    ) -> (Addr<Self>, Vec<PartitionEntry>, Silence) {
        let mut entries = Vec::new();
        let silence = Silence::default();
        let address = Self::create(|ctx| {
            ctx.set_mailbox_capacity(0);
            let mut partitions = BTreeMap::new();
            for config in configuration.partitions {
                let name: Arc<str> = Arc::from(format!("[{id}]{}", config.name));
                let making = Making {
                    name: Arc::clone(&name),
                    config: Arc::new(config),
                    rm: ctx.address(),
                    callback: Arc::clone(callback),
                    clock,
                    reorder_window: settings.reorder_window,
                    metrics: Arc::clone(metrics),
                    watch: settings.watch.clone(),
                    tracking: settings.events.tracking().clone(),
                };
                let arbiter = (settings.threads == Threads::PerPartition).then(Arbiter::new);
                let address = match &arbiter {
                    Some(arbiter) => Partition::start_in_arbiter(&arbiter.handle(), |ctx| {
                        Partition::new(making, ctx)
                    }),
                    None => Partition::create(|ctx| Partition::new(making, ctx)),
                };
                entries.push(PartitionEntry {
                    rm_id: Arc::clone(id),
                    name: Arc::clone(&name),
                    build_info: Arc::clone(build_info),
                    address: address.clone(),
                });
                let held =
                    Held { address, arbiter, waiting: VecDeque::new(), waiting_items: 0, ahead: 0 };
                partitions.insert(name, held);
            }
            Self {
                id: Arc::clone(id),
                callback: Arc::clone(callback),
                partitions,
                lost: BTreeSet::new(),
                blocked: Vec::new(),
                silence: silence.clone(),
                is_ending: false,
                events: EventStore::new(id, &settings.events, metrics),
                clock,
                strict_enums: false,
                tally: Tally::new(metrics),
            }
        });
        (address, entries, silence)
    }

    /// Counts what was refused and what had no effect.
    fn count(&self, sayings: &[Saying]) {
        let metrics = self.tally.shared();
        for saying in sayings {
            if let Saying::Ignored(reason) = saying {
                metrics.count_ignored(&self.id, self.callback.dialect(), *reason);
            } else if let Some(reason) = answers::refusal(saying) {
                metrics.count_rejected(&self.id, self.callback.dialect(), &reason);
            }
        }
    }

    /// Tells the callback; `partition` is the one that speaks, with the RM's prefix.
    fn deliver(&mut self, partition: &str, sayings: Vec<Saying>, ctx: &mut Context<Self>) {
        self.count(&sayings);
        if self.silence.reigns() || sayings.is_empty() {
            return;
        }
        let (sayings, events) = gather(sayings, self.events.tracking().is_on());
        answers::deliver(&*self.callback, config::plain_name(partition), sayings);
        if self.events.add(events) {
            ctx.run_later(COLLECTED_FOR, |rm, _| rm.tell_events());
        }
    }

    fn tell_events(&mut self) {
        let events = self.events.collect();
        if !self.silence.reigns() && !events.is_empty() {
            answers::guarded(|| self.callback.send_events(events));
        }
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
        if self.waiting_items() <= WAITING_MAX / 2 {
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

    fn stop_arbiter(held: &Held) {
        if let Some(arbiter) = &held.arbiter {
            arbiter.stop();
        }
    }
}

impl Actor for Rm {
    type Context = Context<Self>;

    fn started(&mut self, _ctx: &mut Self::Context) {
        self.tally.shared().actor_started(Kind::Rm);
    }

    fn stopped(&mut self, _ctx: &mut Self::Context) {
        self.tally.shared().actor_stopped(Kind::Rm);
        for held in self.partitions.values() {
            // Only after a panic: in order, the last partition ends first.
            held.address.do_send(Close);
            Self::stop_arbiter(held);
        }
    }
}

impl Handler<Update> for Rm {
    type Result = ();

    fn handle(&mut self, Update { body, taken }: Update, ctx: &mut Self::Context) {
        let _timer = self.tally.message(Kind::Rm);
        let translated = match body {
            Body::Allocation(request) => self.translate_allocation(request),
            Body::Application(request) => self.translate_application(request),
            Body::Node(request) => self.translate_node(request),
            Body::Settle(reply) => self.translate_settle(reply),
        };
        self.deliver("", translated.refused, ctx);
        self.hand_in(translated.chunks);
        if self.waiting_items() > WAITING_MAX {
            self.blocked.push(taken);
        } else {
            let _ = taken.send(Ok(()));
        }
        self.pump();
        self.tally.flush();
    }
}

impl Handler<Credit> for Rm {
    type Result = ();

    fn handle(&mut self, Credit { partition }: Credit, _ctx: &mut Self::Context) {
        let _timer = self.tally.message(Kind::Rm);
        if let Some(held) = self.partitions.get_mut(&partition) {
            held.ahead = held.ahead.saturating_sub(1);
        }
        self.pump();
    }
}

impl Handler<Said> for Rm {
    type Result = ();

    fn handle(&mut self, Said { partition, sayings }: Said, ctx: &mut Self::Context) {
        let _timer = self.tally.message(Kind::Rm);
        let count = sayings.len();
        self.deliver(&partition, sayings, ctx);
        if let Some(held) = self.partitions.get(&partition) {
            held.address.do_send(Heard(count));
        }
        self.tally.flush();
    }
}

impl Handler<Steer> for Rm {
    type Result = ();

    fn handle(&mut self, Steer(steering): Steer, _ctx: &mut Self::Context) {
        let _timer = self.tally.message(Kind::Rm);
        if let Steering::StrictEnums(strict) = steering {
            self.strict_enums = strict;
            return;
        }
        for held in self.partitions.values() {
            held.address.do_send(Steer(steering.clone()));
        }
    }
}

impl Handler<Diagnose> for Rm {
    type Result = MessageResult<Diagnose>;

    fn handle(&mut self, _: Diagnose, _ctx: &mut Self::Context) -> Self::Result {
        let _timer = self.tally.message(Kind::Rm);
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
                ctx.stop();
            }
            return;
        }
        tracing::error!(rm = %self.id, %partition, "partition lost, its RM must register again");
        if !self.silence.reigns() {
            self.callback.resync_required(&format!("partition `{partition}` was lost"));
        }
        self.lost.insert(partition);
        self.pump();
    }
}

impl Handler<PartitionClosed> for Rm {
    type Result = ();

    fn handle(&mut self, PartitionClosed { partition }: PartitionClosed, ctx: &mut Self::Context) {
        if let Some(held) = self.partitions.remove(&partition) {
            Self::stop_arbiter(&held);
        }
        if self.is_ending && self.partitions.is_empty() {
            ctx.stop();
        }
    }
}

impl Handler<Supersede> for Rm {
    type Result = ();

    fn handle(&mut self, _: Supersede, ctx: &mut Self::Context) {
        self.is_ending = true;
        for taken in self.blocked.drain(..) {
            let _ = taken.send(Err(crate::UpdateError::NotRegistered(self.id.to_string())));
        }
        for held in self.partitions.values_mut() {
            held.waiting.clear();
            held.waiting_items = 0;
            held.address.do_send(Close);
        }
        if self.partitions.is_empty() {
            ctx.stop();
        }
    }
}
