//! Beats: messages of a stream that has nothing else to send.
//!
//! A client in a cluster may go to another member, so it has to notice soon that its owner stands
//! still. On a stream whose client asks for it, the owner sends an empty message whenever it has
//! sent nothing for a while.

use std::time::Duration;

use tokio::time::Instant;

/// Longest time without a message, in milliseconds.
pub(super) const DISTANCE_MS: u64 = 100;

/// The time of the next beat.
#[derive(Debug)]
pub(super) struct Beat(Instant);

impl Beat {
    /// The beat after a message at this time.
    pub(super) fn since(sent: Instant) -> Self {
        Self(sent + Duration::from_millis(DISTANCE_MS))
    }

    /// When the beat is due.
    pub(super) fn due(&self) -> Instant {
        self.0
    }
}
