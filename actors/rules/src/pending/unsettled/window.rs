//! The window: the number of placements that may wait for an answer at once.
//!
//! # Why it changes
//! A question whose answer comes back void, or never, was a lost round trip. Such answers become
//! more frequent with the number of placements that wait together, because each placement may void
//! the answers of others. So the window halves when one comes, once for all answers that come
//! together, and grows by one when none does.

/// The number of placements that may wait for an answer.
#[derive(Clone, Debug)]
pub struct Window {
    most: usize,
    now: usize,
    /// Whether one of the answers that came together was void or missing.
    any_void: bool,
    any_valid: bool,
}

impl Window {
    /// A window of this size, at least one.
    pub fn new(most: usize) -> Self {
        let most = most.max(1);
        Self { most, now: most, any_void: false, any_valid: false }
    }

    /// The size as configured, which the window never exceeds.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Returns the number of further placements that may wait while `waiting` do.
    pub fn room(&self, waiting: usize) -> usize {
        self.now.saturating_sub(waiting)
    }

    /// Notes an answer: `void` if it did not count or never came.
    pub fn answered(&mut self, void: bool) {
        if void && !self.any_void {
            self.now = (self.now / 2).max(1);
        }
        self.any_void |= void;
        self.any_valid |= !void;
    }

    /// Ends a group of answers that came together, and resizes the window by them.
    pub fn end_of_answers(&mut self) {
        if self.any_valid && !self.any_void {
            self.now = (self.now + 1).min(self.most);
        }
        (self.any_void, self.any_valid) = (false, false);
    }
}
