//! Queue of events: sorted by importance, written at a limited rate.
//!
//! # Why
//! A burst of 5,000 pods makes 5,000 events `Scheduled`. Users look for the event that says why a
//! pod was preempted or waits.
//!
//! # Invariants
//! * At most [`AHEAD`] events wait. Beyond that the oldest of the least important ones is dropped
//!   and counted.
//! * Events of preemption and eviction are retried for some minutes.
//! * An event that a pod waits is dropped once its event `Scheduled` is queued.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use prometheus::IntCounter;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::shim::Event;

/// Most events in the queue.
const AHEAD: usize = 5_000;
/// Most tries of an event of preemption or eviction. Each try makes a few attempts.
const TRIES: u32 = 20;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_secs(5);
/// Reason of the event that says why a pod waits.
const WAITS: &str = "FailedScheduling";

/// An event in the queue.
#[derive(Debug)]
pub(super) struct QueuedEvent {
    pub(super) event: Event,
    /// Time of the event.
    pub(super) at: Timestamp,
    tries: u32,
}

/// The queue of events.
pub(super) struct Events {
    state: Mutex<State>,
    added: Notify,
    rate: f64,
    dropped: IntCounter,
}

struct State {
    /// Events by rank.
    waiting: [VecDeque<QueuedEvent>; 3],
    /// Failed events, with the time of their next try.
    later: VecDeque<(Instant, QueuedEvent)>,
    /// Number of events that might be written at the time `at`.
    allowed: f64,
    at: Instant,
}

/// Returns the rank of an event. Rank 0 is written first.
fn rank(event: &Event) -> usize {
    match event.reason {
        "Preempted" | "Evicted" => 0,
        _ if event.is_warning => 1,
        _ => 2,
    }
}

impl Events {
    /// Makes an empty queue that releases `rate` events in a second.
    pub(super) fn new(rate: u32, dropped: IntCounter) -> Self {
        let rate = f64::from(rate);
        let (waiting, later) = (Default::default(), VecDeque::new());
        let state = State { waiting, later, allowed: rate, at: Instant::now() };
        Self { state: Mutex::new(state), added: Notify::new(), rate, dropped }
    }

    fn open(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an event.
    pub(super) fn put(&self, event: Event) {
        let queued = QueuedEvent { event, at: Timestamp::now(), tries: 0 };
        let mut state = self.open();
        if queued.event.reason == "Scheduled" {
            let about = &queued.event.about;
            state.waiting[1].retain(|it| it.event.reason != WAITS || it.event.about != *about);
        }
        state.waiting[rank(&queued.event)].push_back(queued);
        let waiting = state.waiting.iter().map(VecDeque::len).sum::<usize>() + state.later.len();
        if waiting > AHEAD
            && let Some(least) = state.waiting.iter_mut().rev().find(|of_rank| !of_rank.is_empty())
        {
            least.pop_front();
            self.dropped.inc();
        }
        drop(state);
        self.added.notify_one();
    }

    /// Requeues an event that could not be written, if it is one of those that are retried. Drops
    /// others.
    pub(super) fn put_back(&self, mut queued: QueuedEvent) {
        queued.tries += 1;
        if rank(&queued.event) > 0 || queued.tries >= TRIES {
            self.dropped.inc();
            return;
        }
        self.open().later.push_back((Instant::now() + PAUSE, queued));
        self.added.notify_one();
    }

    /// Waits for the next event that may be written.
    pub(super) async fn next(&self) -> QueuedEvent {
        loop {
            match self.try_next() {
                Ok(queued) => return queued,
                Err(Some(pause)) => sleep(pause).await,
                Err(None) => self.added.notified().await,
            }
        }
    }

    /// Returns the next event, or the time until the next may be written. `Err(None)` if the queue
    /// is empty.
    fn try_next(&self) -> Result<QueuedEvent, Option<Duration>> {
        let mut state = self.open();
        let now = Instant::now();
        while state.later.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, queued)) = state.later.pop_front()
        {
            state.waiting[0].push_back(queued);
        }
        if state.waiting.iter().all(VecDeque::is_empty) {
            return Err(state.later.front().map(|(at, _)| at.saturating_duration_since(now)));
        }
        let passed = now.duration_since(state.at).as_secs_f64();
        state.allowed = (state.allowed + passed * self.rate).min(self.rate);
        state.at = now;
        if state.allowed < 1.0 {
            let missing = (1.0 - state.allowed) / self.rate;
            return Err(Some(Duration::from_secs_f64(missing.max(0.001))));
        }
        state.allowed -= 1.0;
        state.waiting.iter_mut().find_map(VecDeque::pop_front).ok_or(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::About;

    fn event(reason: &'static str, is_warning: bool, name: usize) -> Event {
        let (namespace, uid) = ("ns".to_owned(), String::new());
        let about = About { kind: "Pod", namespace, name: name.to_string(), uid };
        Event { about, is_warning, reason, action: "", message: String::new() }
    }

    fn events(rate: u32) -> Events {
        Events::new(rate, IntCounter::new("dropped", "dropped").expect("a counter"))
    }

    #[tokio::test(start_paused = true)]
    async fn writes_important_events_first_at_the_set_rate() {
        let events = events(10);
        let begun = Instant::now();
        for number in 0..100 {
            events.put(event("Scheduled", false, number));
        }
        for number in 0..5 {
            events.put(event("FailedScheduling", true, number));
        }
        events.put(event("Preempted", true, 0));
        let mut reasons = Vec::new();
        for _ in 0..106 {
            reasons.push(events.next().await.event.reason);
        }
        assert_eq!(reasons[0], "Preempted");
        assert_eq!(reasons[1..6], ["FailedScheduling"; 5]);
        assert!(reasons[6..].iter().all(|reason| *reason == "Scheduled"));
        // The budget starts with 10 events and gains 10 in a second.
        let seconds = begun.elapsed().as_secs_f64();
        assert!((9.5..9.8).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn drops_waiting_events_once_the_pod_is_scheduled() {
        let events = events(10);
        for (reason, name) in [(WAITS, 1), (WAITS, 2), ("GangIgnored", 1)] {
            events.put(event(reason, true, name));
        }
        events.put(event("Scheduled", false, 1));
        let mut written = Vec::new();
        while let Ok(queued) = events.try_next() {
            written.push((queued.event.reason, queued.event.about.name));
        }
        let expected = [(WAITS, "2"), ("GangIgnored", "1"), ("Scheduled", "1")];
        assert_eq!(written, expected.map(|(reason, name)| (reason, name.to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn drops_and_counts_the_oldest_least_important_events() {
        let events = events(1_000_000);
        for number in 0..AHEAD {
            events.put(event("Scheduled", false, number));
        }
        events.put(event("Evicted", true, 0));
        events.put(event("Scheduled", false, AHEAD));
        assert_eq!(events.dropped.get(), 2);
        assert_eq!(events.next().await.event.reason, "Evicted");
        assert_eq!(events.next().await.event.about.name, "2");
        for _ in 0..AHEAD - 2 {
            events.next().await;
        }
        assert_eq!(events.try_next().err(), Some(None), "all are written");
    }

    #[tokio::test(start_paused = true)]
    async fn retries_preemption_events_for_some_minutes() {
        let events = events(10);
        events.put(event("Preempted", true, 0));
        let begun = Instant::now();
        for _ in 1..TRIES {
            let queued = events.next().await;
            events.put_back(queued);
        }
        let queued = events.next().await;
        assert_eq!(begun.elapsed(), PAUSE * (TRIES - 1));
        events.put_back(queued);
        assert_eq!((events.try_next().err(), events.dropped.get()), (Some(None), 1));
        events.put(event("Scheduled", false, 0));
        let queued = events.next().await;
        events.put_back(queued);
        assert_eq!(events.dropped.get(), 2, "others are not");
    }
}
