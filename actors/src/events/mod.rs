//! Events of nodes, applications, requests and queues, for RMs and observers: `docs/events.md`.
//!
//! # The way of an event
//! A step reports an event by a notice, like all its results, so that events of one object keep
//! their order. The notice of a placement or of a state also stands for its events (`happening`),
//! which cost the partition nothing more. On the front's thread events get their ids, and are
//! passed to the `EventStore` of the RM and to followers. The events of a placement, texts and
//! protobuf are made when they are read.
//!
//! # Invariants
//! * While tracking is off no event is made.
//! * Settings of events in the extra configuration of an RM affect only what this RM is sent.
//! * An RM's callback gets at most `event.requestCapacity` events per second, oldest first; further ones
//!   are counted. The ring has all events.

mod cluster;
mod event;
mod happening;
mod kind;
mod log;
mod message;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use monoceros_proto::si::v1::EventRecord;
use tokio::time::Instant;

use crate::metrics::Metrics;
pub use cluster::ClusterEvent;
pub(crate) use event::Event;
pub use event::NamedEvent;
pub(crate) use happening::{AskAdded, Happening};
pub(crate) use kind::EventKind;
use log::{Entry, Log};
pub use log::{EventFilter, EventRange, EventSubscription, History, Streamed};
pub(crate) use message::{GivenBack, Message, Preempted, Summary, TooSmall};

/// The time for which events are collected before they are sent to an RM.
pub(crate) const COLLECTED_FOR: Duration = Duration::from_secs(1);

/// Settings of events. They are given at the [start](crate::SchedulerBuilder::events) and may be
/// [changed](crate::SchedulerHandle::set_events) at any time. An RM may override one of them for itself:
/// [`request_capacity`](Self::request_capacity).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSettings {
    /// Whether events are made. Default true.
    pub tracking: bool,
    /// The most events that an RM is sent in a second, unless its `extraConfig` has another number
    /// (`event.requestCapacity`). Default 1,000.
    pub request_capacity: NonZeroUsize,
    /// The number of events that are kept. Default 100,000.
    pub ring_capacity: NonZeroUsize,
    /// The most followers.
    pub streams: StreamLimits,
}

/// The most readers that follow events over the network. The edges of the service enforce these limits;
/// the scheduler only keeps the setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// All readers together (`event.maxStreams`). Default 100.
    pub in_all: usize,
    /// Readers from one host (`event.maxStreamsPerHost`). Default 15.
    pub per_host: usize,
}

impl Default for EventSettings {
    fn default() -> Self {
        const REQUEST_CAPACITY: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();
        const RING_CAPACITY: NonZeroUsize = NonZeroUsize::new(100_000).unwrap();
        Self {
            tracking: true,
            request_capacity: REQUEST_CAPACITY,
            ring_capacity: RING_CAPACITY,
            streams: StreamLimits { in_all: 100, per_host: 15 },
        }
    }
}

/// The key in the extra configuration of an RM for the number of events that it is sent.
pub(crate) const REQUEST_CAPACITY: &str = "event.requestCapacity";

/// Whether events are made. Shared by all clones.
#[derive(Clone, Debug)]
pub(crate) struct Tracking(Arc<AtomicBool>);

impl Tracking {
    pub(crate) fn is_on(&self) -> bool {
        // No other memory depends on it, so no ordering is needed.
        self.0.load(Ordering::Relaxed)
    }
}

/// The events of all RMs: the ring, and the settings.
#[derive(Debug)]
pub(crate) struct EventLog {
    log: Log,
    tracking: Tracking,
    settings: Mutex<EventSettings>,
}

impl EventLog {
    pub(crate) fn new(settings: EventSettings) -> Arc<Self> {
        let tracking = Tracking(Arc::new(AtomicBool::new(settings.tracking)));
        let log = Log::new(settings.ring_capacity.get());
        Arc::new(Self { log, tracking, settings: Mutex::new(settings) })
    }

    /// Adds the event that a step of a partition takes too long. From any thread, since the partition's
    /// own thread is busy with the step.
    pub(crate) fn late_step(&self, rm_id: &Arc<str>, partition: &str, at_ns: i64) {
        if self.tracking.is_on() {
            let late = Message::Says("a step of the partition takes longer than a second");
            let event = Event::of(EventKind::StepLate, &Arc::from("root"), at_ns);
            let event = event.referring(&Arc::from(partition)).with_message(late);
            self.log.append(rm_id, &mut vec![event.into()], 0);
        }
    }

    pub(crate) fn tracking(&self) -> Tracking {
        self.tracking.clone()
    }

    /// Changes the settings. Ids of events continue, and followers are kept; a smaller ring loses
    /// its oldest events.
    pub(crate) fn set(&self, settings: EventSettings) {
        // Locked until all is done, so that of two concurrent calls one is in force as a whole.
        let mut held = self.held();
        *held = settings;
        self.tracking.0.store(settings.tracking, Ordering::Relaxed);
        self.log.resize(settings.ring_capacity.get());
    }

    fn settings(&self) -> EventSettings {
        *self.held()
    }

    fn held(&self) -> MutexGuard<'_, EventSettings> {
        // No code panics while it holds the lock.
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of events for an RM with this extra configuration. `None` if the number is missing, zero,
/// or cannot be read.
fn requested_capacity(extra: &BTreeMap<String, String>) -> Option<NonZeroUsize> {
    extra.get(REQUEST_CAPACITY)?.parse().ok()
}

/// When the collected events of an RM are to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendDue {
    /// There are no events, or a timer is running.
    Nothing,
    /// After [`COLLECTED_FOR`]: a timer is to be started.
    Later,
    /// At once: the time of the running timer is over.
    Now,
}

/// The events that are collected for an RM.
#[derive(Debug)]
pub(crate) struct EventStore {
    rm: Arc<str>,
    log: Arc<EventLog>,
    entries: Vec<Entry>,
    capacity: usize,
    /// The capacity in the RM's extra configuration, which applies after the next sending.
    requested_capacity: Option<NonZeroUsize>,
    /// When the timer was started; `None` while no timer is running.
    armed: Option<Instant>,
    metrics: Arc<Metrics>,
}

impl EventStore {
    /// An empty store, for an RM with this extra configuration.
    pub(crate) fn new(
        rm: &Arc<str>,
        log: &Arc<EventLog>,
        extra: &BTreeMap<String, String>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let requested_capacity = requested_capacity(extra);
        let capacity = requested_capacity.unwrap_or(log.settings().request_capacity).get();
        let (rm, log, metrics) = (Arc::clone(rm), Arc::clone(log), Arc::clone(metrics));
        let entries = Vec::new();
        Self { rm, log, entries, capacity, requested_capacity, armed: None, metrics }
    }

    /// The RM has another extra configuration, which applies after the next sending.
    pub(crate) fn apply_extra_config(&mut self, extra: &BTreeMap<String, String>) {
        self.requested_capacity = requested_capacity(extra);
    }

    pub(crate) fn tracking(&self) -> Tracking {
        self.log.tracking()
    }

    /// Moves events to the ring, and keeps those for the RM. `happened` is empty afterwards.
    pub(crate) fn add(&mut self, happened: &mut Vec<Happening>) {
        if happened.is_empty() {
            return;
        }
        let counts = &self.metrics.events;
        let room = self.capacity.saturating_sub(self.entries.len());
        let (first, all) = self.log.log.append(&self.rm, happened, room);
        self.entries.extend(first);
        counts.passed(all);
        counts.stored(all.min(room), all.saturating_sub(room));
    }

    /// When the collected events are to be sent. Called whenever events may have been added, because
    /// timers do not fire on a thread that is always busy.
    pub(crate) fn send_due(&mut self, now: Instant) -> SendDue {
        match self.armed {
            _ if self.entries.is_empty() => SendDue::Nothing,
            None => {
                self.armed = Some(now);
                SendDue::Later
            }
            Some(since) if now.duration_since(since) > COLLECTED_FOR => SendDue::Now,
            Some(_) => SendDue::Nothing,
        }
    }

    /// Takes the collected events out.
    pub(crate) fn collect(&mut self) -> Vec<EventRecord> {
        self.armed = None;
        let capacity = self.requested_capacity.unwrap_or(self.log.settings().request_capacity);
        self.capacity = capacity.get();
        let entries = std::mem::take(&mut self.entries);
        self.metrics.events.collected(entries.len());
        entries.iter().map(Entry::record).collect()
    }
}

/// Reads the events of all RMs, from any thread.
#[derive(Clone, Debug)]
pub struct EventReader(pub(crate) Arc<EventLog>);

impl EventReader {
    /// Whether events are made.
    pub fn is_tracking(&self) -> bool {
        self.0.tracking().is_on()
    }

    /// The most followers.
    pub fn stream_limits(&self) -> StreamLimits {
        self.0.settings().streams
    }

    /// At most `count` of the kept events, from the id `start` on.
    pub fn range(&self, start: u64, count: u64) -> EventRange {
        self.0.log.range(start, count)
    }

    /// Follows the events: past ones first, then new ones. At most 1,000 events wait for the reader; if
    /// there are more, the subscription ends with [`Streamed::Lagged`].
    pub fn subscribe(&self, history: History, filter: EventFilter) -> EventSubscription {
        self.subscribe_with_room(history, filter, log::WAITING_MAX)
    }

    /// As [`Self::subscribe`], with `room` for waiting events: for a reader on behalf of many others.
    pub fn subscribe_with_room(
        &self,
        history: History,
        filter: EventFilter,
        room: usize,
    ) -> EventSubscription {
        self.0.log.follow(history, filter, room.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extra(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn unreadable_or_zero_capacity_is_ignored() {
        for value in ["0", "-1", "x", ""] {
            assert_eq!(requested_capacity(&extra(&[(REQUEST_CAPACITY, value)])), None, "{value}");
        }
        let seven = requested_capacity(&extra(&[(REQUEST_CAPACITY, "7")]));
        assert_eq!(seven.map(NonZeroUsize::get), Some(7));
        assert_eq!(requested_capacity(&extra(&[])), None);
    }

    #[test]
    fn settings_may_change_at_any_time() {
        let (log, metrics) = (EventLog::new(EventSettings::default()), Metrics::new());
        let rm: Arc<str> = Arc::from("rm");
        let mut store = EventStore::new(&rm, &log, &extra(&[]), &metrics);
        let events = |count: usize| vec![Event::of(EventKind::AppNew, &rm, 0).into(); count];
        let capacity = |events| NonZeroUsize::new(events).unwrap();
        let with = |ring: usize| EventSettings {
            ring_capacity: capacity(ring),
            request_capacity: capacity(3),
            streams: StreamLimits { in_all: 1, per_host: 1 },
            ..EventSettings::default()
        };
        let kept = || {
            let range = log.log.range(0, 0);
            (range.lowest, range.highest)
        };
        log.set(with(10));
        store.add(&mut events(15));
        assert_eq!(kept(), (5, 14));
        log.set(with(6));
        assert_eq!(kept(), (9, 14), "the oldest go at once");
        log.set(with(20));
        assert_eq!(kept(), (9, 14), "and do not come back");
        assert_eq!(store.collect().len(), 15, "what was collected under the old capacity is told");
        store.add(&mut events(5));
        assert_eq!(kept(), (9, 19));
        assert_eq!(store.collect().len(), 3);
        assert_eq!(EventReader(Arc::clone(&log)).stream_limits().in_all, 1);
        let tracking = store.tracking();
        log.set(EventSettings { tracking: false, ..with(20) });
        assert!(!tracking.is_on());
        log.set(with(20));
        assert!(tracking.is_on());
    }

    #[test]
    fn events_are_sent_late_without_a_timer() {
        let (log, metrics) = (EventLog::new(EventSettings::default()), Metrics::new());
        let rm: Arc<str> = Arc::from("rm");
        let mut store = EventStore::new(&rm, &log, &extra(&[]), &metrics);
        let event = || vec![Event::of(EventKind::AppNew, &rm, 0).into()];
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        store.add(&mut event());
        assert_eq!(store.send_due(at(0)), SendDue::Later);
        store.add(&mut event());
        assert_eq!(store.send_due(at(1_000)), SendDue::Nothing, "the alarm may go off yet");
        assert_eq!(store.send_due(at(1_001)), SendDue::Now);
        assert_eq!(store.collect().len(), 2);
        assert_eq!(store.send_due(at(1_002)), SendDue::Nothing, "it was told");
        store.add(&mut event());
        assert_eq!(store.send_due(at(1_003)), SendDue::Later);
    }

    #[test]
    fn store_counts_events_beyond_its_capacity() {
        let (log, metrics) = (EventLog::new(EventSettings::default()), Metrics::new());
        let rm: Arc<str> = Arc::from("rm");
        let five = extra(&[(REQUEST_CAPACITY, "5")]);
        let mut store = EventStore::new(&rm, &log, &five, &metrics);
        let event = Happening::from(Event::of(EventKind::AppNew, &rm, 0));
        let now = Instant::now();
        assert_eq!(store.send_due(now), SendDue::Nothing, "there is nothing to tell");
        store.add(&mut vec![event.clone(); 4]);
        assert_eq!(store.send_due(now), SendDue::Later);
        store.add(&mut vec![event.clone(); 4]);
        assert_eq!(store.send_due(now), SendDue::Nothing, "the time is set");
        store.apply_extra_config(&extra(&[]));
        assert_eq!(store.collect().len(), 5);
        store.add(&mut vec![event; 6]);
        assert_eq!(store.send_due(now), SendDue::Later, "the store was empty");
        assert_eq!(store.collect().len(), 6, "the new capacity holds from the next emptying on");
        assert_eq!(EventReader(log).range(0, 100).records.len(), 14);
        let counted = |name: &str| {
            let families = metrics.registry().gather();
            let family = families.iter().find(|family| family.name() == name).unwrap();
            family.get_metric()[0].get_gauge().get_value().to_string()
        };
        assert_eq!(counted("yunikorn_event_total_processed"), "14");
        assert_eq!(counted("yunikorn_event_total_stored"), "11");
        assert_eq!(counted("yunikorn_event_total_not_stored"), "3");
        assert_eq!(counted("yunikorn_event_total_collected"), "11");
    }
}
