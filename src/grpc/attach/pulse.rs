//! Heartbeats: whether the shim still responds.
//!
//! A live connection does not prove a live shim: its process may hang, or a proxy may keep the
//! connection. So a shim that was silent for a while is sent a heartbeat, and after three without
//! any response its stream ends.

use std::time::Duration;

use tokio::time::Instant;

/// Heartbeats that may remain unanswered.
const MISSED: u32 = 3;

/// Sends a heartbeat after an interval of silence.
#[derive(Debug)]
pub(super) struct Pulse {
    every: Duration,
    next: Instant,
    unanswered: u32,
    nonce: u64,
}

/// The result of a timeout.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Beat {
    /// Nothing to do.
    Quiet,
    /// Send a heartbeat with this nonce.
    Ask(u64),
    /// Too many heartbeats were unanswered.
    Dead,
}

impl Pulse {
    /// The state of a shim that has just responded.
    pub(super) fn new(every: Duration, now: Instant) -> Self {
        Self { every, next: now + every, unanswered: 0, nonce: 0 }
    }

    /// Records a message of the shim.
    pub(super) fn received(&mut self, now: Instant) {
        self.unanswered = 0;
        self.next = now + self.every;
    }

    /// Applies the timeout.
    pub(super) fn beat(&mut self, now: Instant) -> Beat {
        if now < self.next {
            return Beat::Quiet;
        }
        if self.unanswered == MISSED {
            return Beat::Dead;
        }
        self.unanswered += 1;
        self.nonce += 1;
        self.next = now + self.every;
        Beat::Ask(self.nonce)
    }

    /// The time of the next [`beat`](Self::beat).
    pub(super) fn due(&self) -> Instant {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_unanswered_heartbeats_end_the_stream() {
        let every = Duration::from_secs(10);
        let start = Instant::now();
        let mut pulse = Pulse::new(every, start);
        assert_eq!(pulse.beat(start + every / 2), Beat::Quiet);
        assert_eq!(pulse.beat(start + every), Beat::Ask(1));
        assert_eq!(pulse.beat(start + every), Beat::Quiet);
        pulse.received(start + every * 3 / 2);
        let start = start + every * 3 / 2;
        for n in 1..=3 {
            assert_eq!(pulse.beat(start + every * n), Beat::Ask(u64::from(n) + 1));
        }
        assert_eq!(pulse.beat(start + every * 4), Beat::Dead);
    }
}
