//! How many batches may be out: as many as agreed, fewer while the shim says that it is overloaded.

use std::time::Duration;

use tokio::time::Instant;

/// How long a window that was halved does not grow.
const HELD: Duration = Duration::from_secs(1);

/// How long nothing is sent to a shim that is overloaded by one batch at a time.
const PAUSE: Duration = Duration::from_millis(100);

/// Halves when the shim sheds load, and grows by one with each batch that it answers.
#[derive(Debug)]
pub(super) struct Window {
    most: usize,
    size: usize,
    held_until: Option<Instant>,
    paused_until: Option<Instant>,
}

impl Window {
    /// Open, for so many batches.
    pub(super) fn new(most: usize) -> Self {
        Self { most, size: most, held_until: None, paused_until: None }
    }

    /// Whether one more may go out beside `out` others.
    pub(super) fn has_room(&self, out: usize, now: Instant) -> bool {
        out < self.size && self.paused_until.is_none_or(|until| until <= now)
    }

    /// When it opens again, while it is shut whatever is out.
    pub(super) fn opens_at(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| *until > now)
    }

    /// A batch was answered.
    pub(super) fn answered(&mut self, now: Instant) {
        if self.held_until.is_none_or(|until| until <= now) {
            self.size = self.most.min(self.size + 1);
        }
    }

    /// A batch came back unread.
    pub(super) fn shed(&mut self, now: Instant) {
        if self.size == 1 {
            self.paused_until = Some(now + PAUSE);
        }
        self.size = (self.size / 2).max(1);
        self.held_until = Some(now + HELD);
    }

    /// How many batches may be out.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_shrinks_it_to_one_and_success_opens_it_again() {
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
}
