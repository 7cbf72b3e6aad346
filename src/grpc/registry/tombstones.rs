//! The reasons for which past sessions ended, kept for a while.
//!
//! A client that returns late would only learn that it is not registered, as if it had made a
//! mistake. With a tombstone it learns what ended its session: another instance, an operator, or a
//! pause that was too long.
//!
//! # Invariant
//! A tombstone is dropped after its time to live, and as soon as the id registers again.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// Most tombstones kept; the oldest is dropped first.
const TOMBSTONES_MAX: usize = 10_000;

/// Tombstones by id of the resource manager: at most [`TOMBSTONES_MAX`], each for `ttl`.
pub(super) struct Tombstones {
    ttl: Duration,
    stopped: HashMap<String, (String, Instant)>,
}

impl Tombstones {
    pub(super) fn new(ttl: Duration) -> Self {
        Self { ttl, stopped: HashMap::new() }
    }

    /// Records that `by` stopped the session of `rm_id`.
    pub(super) fn put(&mut self, rm_id: String, by: String) {
        let (now, ttl) = (Instant::now(), self.ttl);
        self.stopped.retain(|_, (_, at)| now.saturating_duration_since(*at) < ttl);
        if self.stopped.len() >= TOMBSTONES_MAX {
            let oldest = self.stopped.iter().min_by_key(|(_, (_, at))| *at);
            if let Some(oldest) = oldest.map(|(rm_id, _)| rm_id.clone()) {
                self.stopped.remove(&oldest);
            }
        }
        self.stopped.insert(rm_id, (by, now));
    }

    /// Drops the tombstone of `rm_id`, which has registered again.
    pub(super) fn remove(&mut self, rm_id: &str) {
        self.stopped.remove(rm_id);
    }

    /// Returns the cause that stopped the last session, if it is remembered.
    pub(super) fn stopped_by(&self, rm_id: &str) -> Option<String> {
        let (by, at) = self.stopped.get(rm_id)?;
        (at.elapsed() < self.ttl).then(|| by.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tombstones_expire() {
        let mut tombstones = Tombstones::new(Duration::from_secs(60));
        tombstones.put("rm".to_owned(), "pauseTimeout".to_owned());
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(tombstones.stopped_by("rm").as_deref(), Some("pauseTimeout"));
        assert_eq!(tombstones.stopped_by("other"), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(tombstones.stopped_by("rm"), None);
        tombstones.put("other".to_owned(), "x".to_owned());
        assert_eq!(tombstones.stopped.len(), 1, "the old one is gone");
        tombstones.remove("other");
        assert_eq!(tombstones.stopped_by("other"), None);
    }
}
