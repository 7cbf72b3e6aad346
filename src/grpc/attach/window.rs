//! The number of batches that may be in flight: as agreed, fewer while the shim is overloaded or
//! its view is behind.
//!
//! A batch returned unread is asked again. Without a smaller window and pauses this would repeat as
//! fast as the shim answers, and the shim would spend its time refusing.

use std::time::Duration;

use tokio::time::Instant;

/// How long a window that was halved does not grow.
const HELD: Duration = Duration::from_secs(1);

/// The pause for a shim that is overloaded even with a single batch in flight; the pause for stale
/// views begins with it, too.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest pause for a shim that stays behind.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Halved when the shim sheds load or is behind; grows by one with each answered batch.
#[derive(Debug)]
pub(super) struct Window {
    most: usize,
    size: usize,
    held_until: Option<Instant>,
    paused_until: Option<Instant>,
    /// The next pause for a shim that is behind.
    stale_pause: Duration,
}

impl Window {
    /// Creates a window for `most` batches.
    pub(super) fn new(most: usize) -> Self {
        Self { most, size: most, held_until: None, paused_until: None, stale_pause: PAUSE }
    }

    /// Whether one more batch may be sent besides `out` others.
    pub(super) fn has_room(&self, out: usize, now: Instant) -> bool {
        out < self.size && self.paused_until.is_none_or(|until| until <= now)
    }

    /// The end of the present pause, if there is one.
    pub(super) fn opens_at(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| *until > now)
    }

    /// Records an answered batch.
    pub(super) fn answered(&mut self, now: Instant) {
        if self.held_until.is_none_or(|until| until <= now) {
            self.size = self.most.min(self.size + 1);
        }
    }

    /// Records an answer from a view that is recent enough.
    pub(super) fn caught_up(&mut self) {
        self.stale_pause = PAUSE;
    }

    /// Records a batch returned unread.
    pub(super) fn shed(&mut self, now: Instant) {
        self.shrink(now, PAUSE);
    }

    /// Records a batch answered from an old view.
    pub(super) fn stale(&mut self, now: Instant) {
        if self.shrink(now, self.stale_pause) {
            self.stale_pause = LONGEST_PAUSE.min(self.stale_pause * 2);
        }
    }

    /// Halves the window, or pauses if it is 1 already. Returns whether it pauses.
    fn shrink(&mut self, now: Instant, pause: Duration) -> bool {
        let pauses = self.size == 1;
        if pauses {
            self.paused_until = Some(now + pause);
        }
        self.size = (self.size / 2).max(1);
        self.held_until = Some(now + HELD);
        pauses
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_shrinks_to_one_and_recovers() {
        let mut window = Window::new(16);
        let start = Instant::now();
        for size in [8, 4, 2, 1, 1] {
            window.shed(start);
            assert_eq!(window.size(), size);
        }
        assert!(!window.has_room(0, start), "one at a time is too much, too");
        assert!(window.has_room(0, start + PAUSE));
        window.answered(start + HELD / 2);
        assert_eq!(window.size(), 1, "held");
        for answers in 1..20 {
            window.answered(start + HELD);
            assert_eq!(window.size(), 16.min(1 + answers));
        }
    }

    #[test]
    fn pauses_grow_while_the_shim_is_behind() {
        let mut window = Window::new(2);
        let mut now = Instant::now();
        window.stale(now);
        assert!(window.has_room(0, now), "one at a time");
        for millis in [100, 200, 400, 800, 1_600, 2_000, 2_000] {
            window.stale(now);
            let opens = window.opens_at(now).unwrap();
            assert_eq!(opens - now, Duration::from_millis(millis));
            now = opens;
        }
        window.caught_up();
        window.stale(now);
        assert_eq!(window.opens_at(now), Some(now + PAUSE));
    }
}
