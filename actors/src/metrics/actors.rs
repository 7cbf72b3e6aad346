//! What is measured of actors: how many there are, what they handle, and for how long it waits.
//!
//! A message to an actor that others send to from their own threads has a [`Posted`] with it. The
//! messages of a step have one sender at a time and are counted without atomics
//! ([`LocalCounts`](super::LocalCounts)).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use prometheus::{Histogram, HistogramTimer, IntCounter, IntGauge};

use super::inventory::Maker;
use super::{ActorKind, Metrics, SAMPLE_EVERY};

pub(super) type PerKind<T> = [T; ActorKind::ALL.len()];

/// Bounds from a usual handler to one that holds everything up, each four times the one before.
const ACTOR_BUCKETS: [f64; 11] = [
    1e-7, 4e-7, 1.6e-6, 6.4e-6, 2.56e-5, 1.024e-4, 4.096e-4, 1.6384e-3, 6.5536e-3, 2.62e-2, 1.05e-1,
];

/// What is counted of actors, by their kind.
#[derive(Debug)]
pub(super) struct Actors {
    pub(super) messages: PerKind<IntCounter>,
    pub(super) handler_seconds: PerKind<Histogram>,
    pub(super) mailbox_wait_seconds: PerKind<Histogram>,
    mailbox_depth: PerKind<IntGauge>,
    posted: PerKind<Sampler>,
    pub(super) starts: PerKind<IntCounter>,
    pub(super) stops: PerKind<IntCounter>,
    pub(super) panics: PerKind<IntCounter>,
    restarts: [IntCounter; RESTARTED.len()],
    lost: Mutex<BTreeSet<(usize, Arc<str>)>>,
}

/// The kinds that are started again under the same name. What is below a partition comes again with it.
const RESTARTED: [ActorKind; 2] = [ActorKind::Rm, ActorKind::Partition];

/// How many lost actors are remembered: their resource managers may never come back.
const LOST: usize = 1024;

impl Actors {
    pub(super) fn with(make: &mut Maker) -> Self {
        let kinds = ActorKind::ALL.map(ActorKind::text);
        Self {
            messages: make.counters(
                "monoceros_actor_messages_total",
                "Messages handled.",
                ("kind", kinds),
            ),
            handler_seconds: make.histograms(
                "monoceros_actor_handler_seconds",
                "Time that handling a message takes (sampled).",
                ("kind", kinds),
                &ACTOR_BUCKETS,
            ),
            mailbox_wait_seconds: make.histograms(
                "monoceros_actor_mailbox_wait_seconds",
                "Time between sending and handling a message (sampled).",
                ("kind", kinds),
                &ACTOR_BUCKETS,
            ),
            mailbox_depth: make.gauges(
                "monoceros_actor_mailbox_depth",
                "Messages that were sent and are not handled yet. The messages of a step are not \
                 among them: there is one at a time in a partition.",
                ("kind", kinds),
            ),
            posted: PerKind::default(),
            starts: make.counters(
                "monoceros_actor_starts_total",
                "Actors started.",
                ("kind", kinds),
            ),
            stops: make.counters(
                "monoceros_actor_stops_total",
                "Actors stopped, in order or by a panic.",
                ("kind", kinds),
            ),
            panics: make.counters(
                "monoceros_actor_panics_total",
                "Actors stopped by a panic.",
                ("kind", kinds),
            ),
            restarts: make.counters(
                "monoceros_actor_restarts_total",
                "Actors started in the place of one that was lost: partitions, and sessions of resource \
                 managers. What is below a partition comes again with it.",
                ("kind", RESTARTED.map(ActorKind::text)),
            ),
            lost: Mutex::default(),
        }
    }
}

/// Decides which messages are timed: one in [`SAMPLE_EVERY`], over all threads.
#[derive(Debug, Default)]
pub(super) struct Sampler(AtomicU32);

impl Sampler {
    fn is_due(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(SAMPLE_EVERY)
    }
}

/// Travels with a message. One that is never handled leaves the mailbox, too, and is not timed.
#[derive(Debug)]
pub struct Posted {
    metrics: Arc<Metrics>,
    kind: ActorKind,
    wait: Option<HistogramTimer>,
}

impl Posted {
    /// The actor begins to handle the message. What is returned is kept until it has.
    #[must_use = "the timer ends when it is dropped"]
    pub fn received(mut self) -> Option<HistogramTimer> {
        let kind = self.kind as usize;
        self.metrics.actors.messages[kind].inc();
        let wait = self.wait.take()?;
        wait.observe_duration();
        Some(self.metrics.actors.handler_seconds[kind].start_timer())
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        self.metrics.actors.mailbox_depth[self.kind as usize].dec();
        if let Some(wait) = self.wait.take() {
            wait.stop_and_discard();
        }
    }
}

/// Held by an actor for as long as it is there, and counts it. Not `stopped` but the drop counts its
/// end: an actor that nobody has the address of any more is dropped with its thread, and is not told.
#[derive(Debug)]
pub(crate) struct Counted {
    metrics: Arc<Metrics>,
    kind: ActorKind,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let kind = self.kind as usize;
        self.metrics.actors.stops[kind].inc();
        // After a panic of the actor the thread is unwinding.
        if std::thread::panicking() {
            self.metrics.actors.panics[kind].inc();
        }
    }
}

impl Metrics {
    /// An actor was lost that may be started again by the same name.
    pub(crate) fn actor_lost(&self, kind: ActorKind, name: &Arc<str>) {
        let mut lost = self.actors.lost.lock().expect("no holder panics");
        if lost.len() < LOST {
            lost.insert((kind as usize, Arc::clone(name)));
        }
    }

    /// An actor is started by this name; if one of this name was lost, it is started again.
    pub(crate) fn actor_named(&self, kind: ActorKind, name: &Arc<str>) {
        let mut lost = self.actors.lost.lock().expect("no holder panics");
        if lost.remove(&(kind as usize, Arc::clone(name)))
            && let Some(at) = RESTARTED.iter().position(|restarted| *restarted == kind)
        {
            self.actors.restarts[at].inc();
        }
    }

    /// One more actor, until what is returned is dropped.
    #[must_use = "the actor holds it"]
    pub(crate) fn counted(self: &Arc<Self>, kind: ActorKind) -> Counted {
        self.actors.starts[kind as usize].inc();
        Counted { metrics: Arc::clone(self), kind }
    }

    /// A message is sent to an actor of `kind`.
    pub fn posted(self: &Arc<Self>, kind: ActorKind) -> Posted {
        self.actors.mailbox_depth[kind as usize].inc();
        let timer = || self.actors.mailbox_wait_seconds[kind as usize].start_timer();
        let wait = self.actors.posted[kind as usize].is_due().then(timer);
        Posted { metrics: Arc::clone(self), kind, wait }
    }

    /// An actor of `kind` begins to handle a message that came by an address. What is returned is
    /// kept until it has.
    #[must_use = "the timer ends when it is dropped"]
    pub fn handles(&self, kind: ActorKind) -> Option<HistogramTimer> {
        self.actors.messages[kind as usize].inc();
        let is_due = self.actors.posted[kind as usize].is_due();
        is_due.then(|| self.actors.handler_seconds[kind as usize].start_timer())
    }
}
