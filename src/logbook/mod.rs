//! Records of the service that are not the scheduler's: usage in each minute of the last day, usage
//! of queues, users and nodes over time, the outcome of the last health check, the open event
//! streams, and access to the sessions of resource managers.
//!
//! # Invariants
//! * All records are bounded: a day of samples, the bytes of the history, one outcome, and as many
//!   streams as the settings allow on both edges together.
//! * A read of the logbook does not query the scheduler.

pub mod health;
pub mod history;
pub mod minutes;
pub mod sessions;
pub mod streams;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use monoceros_actors::SchedulerHandle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::health::HealthRecord;
pub use self::history::History;
pub use self::minutes::Minutes;
pub use self::sessions::Sessions;
pub use self::streams::OpenStreams;
use crate::cluster::operations::ClusterAccess;
use crate::settings::Settings;
use crate::snapshot::Snapshots;

/// Default for the most events in one answer.
const EVENTS_PER_ANSWER: usize = 10_000;

/// The records. Clones share them.
#[derive(Clone, Debug)]
pub struct Logbook {
    /// Usage by minute.
    pub minutes: Minutes,
    /// Usage of queues, users and nodes over time.
    pub history: History,
    /// Outcome of the last health check.
    pub health: HealthRecord,
    /// Open event streams.
    pub streams: OpenStreams,
    /// Sessions of resource managers.
    pub sessions: Sessions,
    /// The cluster, if this process is a member of one.
    pub cluster: ClusterAccess,
    /// Distinguishes the event numbers of this run of the process from those of any other run.
    pub run: Arc<str>,
    /// Snapshots of the state, of which one is made at a time.
    pub snapshots: Snapshots,
    events_per_answer: Arc<AtomicUsize>,
    /// Pause between health checks. `None` switches them off.
    pause: watch::Sender<Option<Duration>>,
}

impl Default for Logbook {
    fn default() -> Self {
        Self {
            minutes: Minutes::default(),
            history: History::default(),
            health: HealthRecord::default(),
            streams: OpenStreams::default(),
            sessions: Sessions::default(),
            cluster: ClusterAccess::default(),
            run: random_uuid().into(),
            snapshots: Snapshots::default(),
            events_per_answer: Arc::new(AtomicUsize::new(EVENTS_PER_ANSWER)),
            pause: watch::Sender::new(None),
        }
    }
}

impl Logbook {
    /// Starts the records with a first health check, so that readers have an outcome from the
    /// start, and continues them until `shutdown`.
    pub async fn begin(
        handle: &SchedulerHandle,
        settings: &Settings,
        shutdown: &CancellationToken,
    ) -> Self {
        let cluster = if settings.cluster.is_on() { &*settings.cluster.name } else { "" };
        let snapshots = Snapshots::new(settings.snapshot.bytes.get(), cluster);
        let history = History::new(&settings.history);
        let book = Self { history, snapshots, ..Self::default() };
        book.set(settings);
        book.health.check(handle).await;
        let checks = book.health.clone().check_regularly(handle.clone(), book.pause.subscribe());
        tokio::spawn(shutdown.clone().run_until_cancelled_owned(checks));
        let sample = book.minutes.clone().keep_sampling(handle.clone());
        tokio::spawn(shutdown.clone().run_until_cancelled_owned(sample));
        let history = book.history.clone().keep_sampling(handle.clone());
        tokio::spawn(shutdown.clone().run_until_cancelled_owned(history));
        book
    }

    /// Applies these settings from now on. A changed pause between checks begins now.
    pub fn set(&self, settings: &Settings) {
        let Settings { event, health, .. } = settings;
        self.events_per_answer.store(event.rest_response_size.get(), Ordering::Relaxed);
        let pause = health.interval();
        self.pause.send_if_modified(|old| std::mem::replace(old, pause) != pause);
    }

    /// Most events in one answer.
    pub fn events_per_answer(&self) -> usize {
        self.events_per_answer.load(Ordering::Relaxed)
    }
}

/// Returns a random UUID. The standard library seeds its hash maps from the operating system.
fn random_uuid() -> String {
    let bits = || RandomState::new().hash_one(0);
    // Sets the version (random) and the variant.
    let (high, low) = (bits() & !0xf000 | 0x4000, bits() & !(0b11 << 62) | (0b10 << 62));
    let (first, second, third) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
    format!(
        "{first:08x}-{second:04x}-{third:04x}-{:04x}-{:012x}",
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_a_uuid_of_its_own() {
        let (one, other) = (random_uuid(), random_uuid());
        assert_ne!(one, other);
        let parts: Vec<&str> = one.split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(parts[2].starts_with('4') && "89ab".contains(&parts[3][..1]), "{one}");
        assert!(one.chars().all(|c| c == '-' || c.is_ascii_hexdigit()));
    }
}
