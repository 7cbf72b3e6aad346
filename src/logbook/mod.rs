//! What the service itself writes down beside the scheduler, for whoever reads: how much ran in each
//! minute of the last day, whether the last look over the scheduler found something wrong, and who
//! follows the events; and where the sessions of resource managers are to be read.
//!
//! # Invariants
//! * Everything here has a bound: a day of samples, one outcome, and as many followers as the
//!   settings allow on both edges together.
//! * Reading it asks the scheduler nothing.

pub mod followers;
pub mod lookout;
pub mod minutes;
pub mod sessions;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use monoceros_actors::SchedulerHandle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::followers::Followers;
pub use self::lookout::Lookout;
pub use self::minutes::Minutes;
pub use self::sessions::Sessions;
use crate::settings::Settings;

/// Most events of one answer, unless it is set.
const EVENTS_PER_ANSWER: usize = 10_000;

/// What is written down. Clones are the same book.
#[derive(Clone, Debug)]
pub struct Logbook {
    /// How much ran, minute by minute.
    pub minutes: Minutes,
    /// What was found wrong.
    pub lookout: Lookout,
    /// Who follows the events.
    pub followers: Followers,
    /// Which resource managers have a session.
    pub sessions: Sessions,
    /// Tells the numbers of events of this run of the process from those of any other.
    pub run: Arc<str>,
    events_per_answer: Arc<AtomicUsize>,
    /// How long after one look over the scheduler the next one is made; `None`: there is none.
    pause: watch::Sender<Option<Duration>>,
}

impl Default for Logbook {
    fn default() -> Self {
        Self {
            minutes: Minutes::default(),
            lookout: Lookout::default(),
            followers: Followers::default(),
            sessions: Sessions::default(),
            run: random_uuid().into(),
            events_per_answer: Arc::new(AtomicUsize::new(EVENTS_PER_ANSWER)),
            pause: watch::Sender::new(None),
        }
    }
}

impl Logbook {
    /// Begins a book with a first look over the scheduler, and goes on with it until `shutdown`:
    /// whoever reads it has something to read from the start.
    pub async fn begin(
        handle: &SchedulerHandle,
        settings: &Settings,
        shutdown: &CancellationToken,
    ) -> Self {
        let book = Self::default();
        book.set(settings);
        book.lookout.look(handle).await;
        let look = book.lookout.clone().keep_looking(handle.clone(), book.pause.subscribe());
        tokio::spawn(shutdown.clone().run_until_cancelled_owned(look));
        let sample = book.minutes.clone().keep_sampling(handle.clone());
        tokio::spawn(shutdown.clone().run_until_cancelled_owned(sample));
        book
    }

    /// Goes by these settings from now on. Another pause between looks begins now.
    pub fn set(&self, settings: &Settings) {
        let Settings { event, health, .. } = settings;
        self.events_per_answer.store(event.rest_response_size.get(), Ordering::Relaxed);
        let pause = health.interval();
        self.pause.send_if_modified(|old| std::mem::replace(old, pause) != pause);
    }

    /// Most events of one answer.
    pub fn events_per_answer(&self) -> usize {
        self.events_per_answer.load(Ordering::Relaxed)
    }
}

/// A random UUID; the standard library seeds its hash maps from the operating system.
fn random_uuid() -> String {
    let bits = || RandomState::new().hash_one(0);
    // The version (random) and the variant have places of their own.
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
