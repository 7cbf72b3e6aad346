//! Maxima of running applications that keep an application from starting.

use serde::{Deserialize, Serialize};

/// The kinds of maxima of running applications that keep an application from starting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// The maximum of a queue above it.
    pub by_queue: bool,
    /// The maximum of its user or group.
    pub by_quota: bool,
}

impl Blocked {
    /// Returns the maxima that block an application. Only one that has still to start can be
    /// blocked.
    pub fn of(is_starting: bool, queues_allow: bool, limits_allow: bool) -> Self {
        Self { by_queue: is_starting && !queues_allow, by_quota: is_starting && !limits_allow }
    }

    /// Whether any maximum blocks it.
    pub fn is_any(self) -> bool {
        self.by_queue || self.by_quota
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn started_application_is_never_blocked() {
        assert!(!Blocked::of(false, false, false).is_any());
        let blocked = Blocked::of(true, true, false);
        assert!(blocked.is_any() && blocked.by_quota && !blocked.by_queue);
    }
}
