//! Whether the shim is still there.
//!
//! A connection that is alive does not prove a shim that is: its process may hang, or a proxy may
//! hold the connection for it. So a shim that was silent for a while is asked for a sign of life,
//! and after three that did not come its stream ends.

use std::time::Duration;

use tokio::time::Instant;

/// Signs of life that may be missed.
const MISSED: u32 = 3;

/// Asks for a sign of life when nothing was heard for a while.
#[derive(Debug)]
pub(super) struct Pulse {
    every: Duration,
    next: Instant,
    unanswered: u32,
    nonce: u64,
}

/// What a look at the time comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Beat {
    /// All is well.
    Quiet,
    /// A sign of life is to be asked for, with this nonce.
    Ask(u64),
    /// Too many were missed.
    Dead,
}

impl Pulse {
    /// The pulse of a shim that was heard just now.
    pub(super) fn new(every: Duration, now: Instant) -> Self {
        Self { every, next: now + every, unanswered: 0, nonce: 0 }
    }

    /// The shim said something.
    pub(super) fn heard(&mut self, now: Instant) {
        self.unanswered = 0;
        self.next = now + self.every;
    }

    /// Looks at the time.
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

    /// The time at which to look again.
    pub(super) fn due(&self) -> Instant {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_missed_signs_of_life_are_the_end_and_any_word_is_a_sign() {
        let every = Duration::from_secs(10);
        let start = Instant::now();
        let mut pulse = Pulse::new(every, start);
        assert_eq!(pulse.beat(start + every / 2), Beat::Quiet);
        assert_eq!(pulse.beat(start + every), Beat::Ask(1));
        assert_eq!(pulse.beat(start + every), Beat::Quiet);
        pulse.heard(start + every * 3 / 2);
        let start = start + every * 3 / 2;
        for n in 1..=3 {
            assert_eq!(pulse.beat(start + every * n), Beat::Ask(u64::from(n) + 1));
        }
        assert_eq!(pulse.beat(start + every * 4), Beat::Dead);
    }
}
