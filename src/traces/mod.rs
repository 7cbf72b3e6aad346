//! Traces of placements for OpenTelemetry: off unless `traces.endpoint` is set.
//!
//! ```text
//! request ─▶ scheduler: decided ─▶ pending ─▶ reply sent ─▶ spans ─▶ queue ─▶ thread ─▶ collector
//!                                    └ too many: the oldest is given up  └ full: lost
//! ```
//!
//! The scheduler delivers the times of a traced placement as one value ([`PlacementTrace`]), before
//! it notifies the resource manager. At that time only the time of the reply is missing: the stream
//! that sends the reply reports it here, and all spans are emitted at once.
//!
//! # Invariants
//! * No code waits for the collector, which may never be reachable: at most `MOST_PENDING`
//!   placements and `traces.queue` spans are kept, and any beyond are dropped.
//! * A failure to export is logged once, and so is the recovery.
//! * Without an endpoint nothing is recorded and no connection is made.

mod export;
mod spans;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use monoceros_actors::metrics::TraceMetrics;
use monoceros_actors::{PlacementTrace, SchedulerHandle, TraceSink};
use tokio::task::spawn_blocking;

use self::export::Export;
use crate::locked::locked;
use crate::settings::TraceSettings;

/// Most decided placements whose reply was not sent yet. Their resource managers may be absent.
const MOST_PENDING: usize = 4_096;

/// The counters, set once there is a scheduler.
type Counts = Arc<OnceLock<TraceMetrics>>;

/// The traced placements and the export of their spans.
#[derive(Debug)]
pub struct Traces {
    pending: Mutex<PendingJourneys>,
    export: Export,
    counts: Counts,
}

/// Placements whose reply was not sent yet.
#[derive(Debug, Default)]
struct PendingJourneys {
    /// Pending traces by number, oldest first.
    traces: BTreeMap<u64, PlacementTrace>,
    next: u64,
    /// The numbers by hash of resource manager, application and key, oldest first.
    by_name: HashMap<u64, VecDeque<u64>>,
}

impl Traces {
    /// Starts tracing if the settings ask for it. Needs a tokio runtime.
    ///
    /// # Errors
    /// The settings cannot be used.
    pub fn start(settings: &TraceSettings) -> anyhow::Result<Option<Arc<Self>>> {
        let Some(endpoint) = &settings.endpoint else { return Ok(None) };
        let counts = Counts::default();
        let export = Export::start(endpoint, settings, &counts)?;
        Ok(Some(Arc::new(Self { pending: Mutex::default(), export, counts })))
    }

    /// Counts exported and lost traces in the metrics of this scheduler.
    pub fn count_in(&self, scheduler: &SchedulerHandle) {
        // Only one scheduler calls this.
        let _ = self.counts.set(scheduler.trace_metrics());
    }

    /// Whether no placement waits for its reply.
    pub fn is_idle(&self) -> bool {
        self.pending().traces.is_empty()
    }

    /// Records that a reply with these allocations (application, key) was taken by a stream of the
    /// resource manager.
    pub fn sent(&self, rm_id: &str, allocations: &[(String, String)]) {
        let mut sent = Vec::new();
        if !allocations.is_empty() {
            let mut pending = self.pending();
            let named = allocations.iter();
            sent.extend(
                named.filter_map(|(application, key)| pending.take(rm_id, application, key)),
            );
        }
        for trace in sent {
            let sent_ns = trace.now_ns();
            self.export.emit(&trace, Some(sent_ns));
            self.count(TraceMetrics::told);
        }
    }

    /// Gives up the placements without a reply, and exports the remaining spans within `patience`.
    pub async fn end(self: Arc<Self>, patience: Duration) {
        let pending = std::mem::take(&mut *self.pending()).traces;
        for trace in pending.values() {
            self.give_up(trace);
        }
        // Blocks until the exporting thread is done.
        let _ = spawn_blocking(move || self.export.end(patience)).await;
    }

    fn give_up(&self, trace: &PlacementTrace) {
        self.export.emit(trace, None);
        self.count(TraceMetrics::untold);
    }

    fn count(&self, count: impl FnOnce(&TraceMetrics)) {
        if let Some(counts) = self.counts.get() {
            count(counts);
        }
    }

    fn pending(&self) -> MutexGuard<'_, PendingJourneys> {
        locked(&self.pending)
    }
}

impl TraceSink for Traces {
    fn decided(&self, trace: PlacementTrace) {
        let oldest = self.pending().keep(trace);
        if let Some(oldest) = oldest {
            self.give_up(&oldest);
        }
    }
}

impl PendingJourneys {
    /// Adds a placement. Returns the oldest one if there are too many.
    fn keep(&mut self, trace: PlacementTrace) -> Option<PlacementTrace> {
        let name = name(&trace.rm_id, &trace.application, &trace.allocation_key);
        self.by_name.entry(name).or_default().push_back(self.next);
        self.traces.insert(self.next, trace);
        self.next += 1;
        if self.traces.len() <= MOST_PENDING {
            return None;
        }
        let (number, oldest) = self.traces.pop_first()?;
        self.forget(number, &oldest);
        Some(oldest)
    }

    /// Removes the oldest placement of this name.
    fn take(&mut self, rm_id: &str, application: &str, key: &str) -> Option<PlacementTrace> {
        let numbers = self.by_name.get(&name(rm_id, application, key))?;
        let is_it = |number: &&u64| {
            self.traces.get(number).is_some_and(|trace| {
                (&*trace.rm_id, &*trace.application, &*trace.allocation_key)
                    == (rm_id, application, key)
            })
        };
        let number = *numbers.iter().find(is_it)?;
        let trace = self.traces.remove(&number)?;
        self.forget(number, &trace);
        Some(trace)
    }

    fn forget(&mut self, number: u64, trace: &PlacementTrace) {
        let name = name(&trace.rm_id, &trace.application, &trace.allocation_key);
        if let Some(numbers) = self.by_name.get_mut(&name) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.by_name.remove(&name);
            }
        }
    }
}

/// Hash of the names by which a reply identifies an allocation; not unique.
fn name(rm_id: &str, application: &str, key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (rm_id, application, key).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_pending_placement_is_given_up() {
        let mut pending = PendingJourneys::default();
        let trace = |n: usize| PlacementTrace::fixture("rm", "app", &format!("key-{n}"));
        for n in 0..MOST_PENDING {
            assert!(pending.keep(trace(n)).is_none());
        }
        let given_up = pending.keep(trace(MOST_PENDING)).unwrap();
        assert_eq!(&*given_up.allocation_key, "key-0");
        assert!(pending.take("rm", "app", "key-0").is_none());
        assert!(pending.take("other", "app", "key-1").is_none());
        assert!(pending.take("rm", "app", "key-1").is_some());
        assert!(pending.take("rm", "app", "key-1").is_none(), "it was told");
        assert_eq!(
            (pending.traces.len(), pending.by_name.len()),
            (MOST_PENDING - 1, MOST_PENDING - 1)
        );
    }

    #[test]
    fn placements_of_one_request_end_in_order() {
        let mut pending = PendingJourneys::default();
        for node in ["n1", "n2"] {
            let node = Arc::from(node);
            let mut trace = PlacementTrace::fixture("rm", "app", "key");
            trace.node = node;
            pending.keep(trace);
        }
        let ended = || pending.take("rm", "app", "key").map(|trace| trace.node.to_string());
        let ended: Vec<_> = std::iter::from_fn(ended).collect();
        assert_eq!(ended, ["n1", "n2"]);
    }
}
