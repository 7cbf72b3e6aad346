//! Families about actors: how many there are, the messages that they handle, and how long messages
//! wait.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use prometheus::{Histogram, IntCounter, IntGauge};

use super::inventory::Maker;
use super::kind::ActorKind;

/// One in this number of messages is timed. It is a prime: if the number of messages of a step divided it,
/// the same hop of each step would be timed, and the others never.
pub const SAMPLE_EVERY: u32 = 61;

pub(super) type PerKind<T> = [T; ActorKind::ALL.len()];

/// Bounds in seconds, from a usual handler to one that blocks the thread, each four times the last.
const ACTOR_BUCKETS: [f64; 11] = [
    1e-7, 4e-7, 1.6e-6, 6.4e-6, 2.56e-5, 1.024e-4, 4.096e-4, 1.6384e-3, 6.5536e-3, 2.62e-2, 1.05e-1,
];

/// Metrics of actors, by kind.
#[derive(Debug)]
pub(super) struct Actors {
    pub(super) messages: PerKind<IntCounter>,
    pub(super) handler_seconds: PerKind<Histogram>,
    pub(super) mailbox_wait_seconds: PerKind<Histogram>,
    pub(super) mailbox_depth: PerKind<IntGauge>,
    pub(super) posted: PerKind<Sampler>,
    pub(super) starts: PerKind<IntCounter>,
    pub(super) stops: PerKind<IntCounter>,
    pub(super) panics: PerKind<IntCounter>,
    restarts: [IntCounter; RESTARTED.len()],
    lost: Mutex<BTreeSet<(usize, Arc<str>)>>,
}

/// The kinds that are started again under the same name. Actors inside a partition start again with it.
const RESTARTED: [ActorKind; 2] = [ActorKind::Rm, ActorKind::Partition];

/// The most lost actors that are remembered: their resource managers may never return.
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

    /// An actor was lost that may be started again under the same name.
    pub(super) fn lost(&self, kind: ActorKind, name: &Arc<str>) {
        let mut lost = self.lost.lock().expect("no holder panics");
        if lost.len() < LOST {
            lost.insert((kind as usize, Arc::clone(name)));
        }
    }

    /// An actor of this name is started. Counts a restart if the last actor of this name was lost.
    pub(super) fn named(&self, kind: ActorKind, name: &Arc<str>) {
        let mut lost = self.lost.lock().expect("no holder panics");
        if lost.remove(&(kind as usize, Arc::clone(name)))
            && let Some(at) = RESTARTED.iter().position(|restarted| *restarted == kind)
        {
            self.restarts[at].inc();
        }
    }
}

/// Chooses the messages that are timed: one in [`SAMPLE_EVERY`], over all threads.
#[derive(Debug, Default)]
pub(super) struct Sampler(AtomicU32);

impl Sampler {
    pub(super) fn is_due(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(SAMPLE_EVERY)
    }
}
