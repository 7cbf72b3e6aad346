//! The state of the check for resource types that an RM does not use any more.

use tokio::task::JoinSet;

/// The least time between the beginnings of two checks, ns.
const PAUSE_NS: i64 = 1_000_000_000;

/// The check under way, if there is one, and the time of the last check.
#[derive(Default)]
pub(super) struct NameCheck {
    /// The check under way, which ends when this is dropped.
    task: Option<JoinSet<()>>,
    /// When the last one began, ns since the epoch.
    began_ns: Option<i64>,
}

impl NameCheck {
    /// Whether a check may begin now: none is under way, and the last one began long enough ago.
    pub(super) fn may_begin(&self, now_ns: i64) -> bool {
        let is_recent = |began_ns: i64| now_ns < began_ns.saturating_add(PAUSE_NS);
        self.task.is_none() && !self.began_ns.is_some_and(is_recent)
    }

    pub(super) fn begin(&mut self, task: JoinSet<()>, now_ns: i64) {
        *self = Self { task: Some(task), began_ns: Some(now_ns) };
    }

    pub(super) fn end(&mut self) {
        self.task = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_check_at_a_time_and_one_a_second() {
        let mut check = NameCheck::default();
        assert!(check.may_begin(0));
        check.begin(JoinSet::new(), 0);
        assert!(!check.may_begin(2 * PAUSE_NS), "one is under way");
        check.end();
        assert!(!check.may_begin(PAUSE_NS - 1));
        assert!(check.may_begin(PAUSE_NS));
    }
}
