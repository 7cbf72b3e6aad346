//! The window: the number of placements that may wait for an answer at once.
//!
//! # Why it changes
//! A question whose answer is void, or missing, was a lost round trip. Such answers become more
//! frequent with the number of placements that wait together, because each placement may void the
//! answers of others. So the window halves when there is such an answer, once for all answers that
//! arrive together; it grows by one when there is none among them.

use serde::{Deserialize, Serialize};

/// The number of placements that may wait for an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Window {
    most: usize,
    now: usize,
    /// Whether one of the answers that arrived together was void or missing.
    any_void: bool,
    any_valid: bool,
}

impl Window {
    /// A window of this size, at least one.
    pub fn new(most: usize) -> Self {
        let most = most.max(1);
        Self { most, now: most, any_void: false, any_valid: false }
    }

    /// Returns the configured size, which the window never exceeds.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Returns the number of further placements that may wait while `waiting` do.
    pub fn room(&self, waiting: usize) -> usize {
        self.now.saturating_sub(waiting)
    }

    /// Records an answer. `void`: it did not count, or is missing.
    pub fn answered(&mut self, void: bool) {
        if void && !self.any_void {
            self.now = (self.now / 2).max(1);
        }
        self.any_void |= void;
        self.any_valid |= !void;
    }

    /// Ends a group of answers that arrived together, and resizes the window by them.
    pub fn end_of_answers(&mut self) {
        if self.any_valid && !self.any_void {
            self.now = (self.now + 1).min(self.most);
        }
        (self.any_void, self.any_valid) = (false, false);
    }
}
