//! How many placements may wait for an answer at once.
//!
//! What comes back void or not at all was asked in vain: each is a lost round trip. So the window halves
//! when that happens, once for all answers that come together, and grows by one when it does not.

/// How many placements may wait for an answer.
#[derive(Clone, Debug)]
pub struct Window {
    most: usize,
    now: usize,
    /// Of the answers that came together.
    any_void: bool,
    any_valid: bool,
}

impl Window {
    /// A window of this size, at least one.
    pub fn new(most: usize) -> Self {
        let most = most.max(1);
        Self { most, now: most, any_void: false, any_valid: false }
    }

    /// What was configured.
    pub fn most(&self) -> usize {
        self.most
    }

    /// How many more may wait when so many do.
    pub fn room(&self, waiting: usize) -> usize {
        self.now.saturating_sub(waiting)
    }

    /// An answer was void or there was none, or it counted.
    pub fn answered(&mut self, void: bool) {
        if void && !self.any_void {
            self.now = (self.now / 2).max(1);
        }
        self.any_void |= void;
        self.any_valid |= !void;
    }

    /// No more answers came together with the last.
    pub fn end_of_answers(&mut self) {
        if self.any_valid && !self.any_void {
            self.now = (self.now + 1).min(self.most);
        }
        (self.any_void, self.any_valid) = (false, false);
    }
}
