//! Measuring messages and actors: a message on its way, and an actor while it exists.
//!
//! A message to an actor that gets messages from other threads travels with a [`Posted`]. The
//! messages of a step have one sender at a time and are counted without atomics
//! ([`LocalCounts`](super::LocalCounts)).

use std::sync::Arc;

use prometheus::HistogramTimer;

use super::Metrics;
use super::kind::ActorKind;

/// The measurement of a message, which travels with it. A message that is dropped unhandled also
/// ceases to count in the mailbox depth, and is not timed.
#[derive(Debug)]
pub struct Posted {
    metrics: Arc<Metrics>,
    kind: ActorKind,
    wait: Option<HistogramTimer>,
}

impl Posted {
    /// The actor begins to handle the message. The timer is to be kept until the end of the handler.
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

/// Counts the actor that holds this. The end of the actor is counted when this is dropped, since
/// `stopped` is not called for an actor without addresses, which is dropped with its thread.
#[derive(Debug)]
pub(crate) struct Counted {
    metrics: Arc<Metrics>,
    kind: ActorKind,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let kind = self.kind as usize;
        self.metrics.actors.stops[kind].inc();
        // The thread unwinds if the actor has panicked.
        if std::thread::panicking() {
            self.metrics.actors.panics[kind].inc();
        }
    }
}

impl Metrics {
    /// An actor was lost that may be started again under the same name.
    pub(crate) fn actor_lost(&self, kind: ActorKind, name: &Arc<str>) {
        self.actors.lost(kind, name);
    }

    /// An actor of this name is started. Counts a restart if the last actor of this name was lost.
    pub(crate) fn actor_named(&self, kind: ActorKind, name: &Arc<str>) {
        self.actors.named(kind, name);
    }

    /// Counts one more actor, until the returned value is dropped.
    #[must_use = "the actor holds it"]
    pub(crate) fn counted(self: &Arc<Self>, kind: ActorKind) -> Counted {
        self.actors.starts[kind as usize].inc();
        Counted { metrics: Arc::clone(self), kind }
    }

    /// Measures a message that is sent to an actor of `kind`.
    pub fn posted(self: &Arc<Self>, kind: ActorKind) -> Posted {
        self.actors.mailbox_depth[kind as usize].inc();
        let timer = || self.actors.mailbox_wait_seconds[kind as usize].start_timer();
        let wait = self.actors.posted[kind as usize].is_due().then(timer);
        Posted { metrics: Arc::clone(self), kind, wait }
    }

    /// Counts a message that was sent by a plain address to an actor of `kind`. The timer is to be
    /// kept until the end of the handler.
    #[must_use = "the timer ends when it is dropped"]
    pub fn handles(&self, kind: ActorKind) -> Option<HistogramTimer> {
        self.actors.messages[kind as usize].inc();
        let is_due = self.actors.posted[kind as usize].is_due();
        is_due.then(|| self.actors.handler_seconds[kind as usize].start_timer())
    }
}
