//! Rows of applications that have ended.

use std::sync::Arc;

use monoceros_rules::applications::ended::Ended;

/// An application that has ended, with its number in the list.
pub(crate) struct EndedRow {
    pub(crate) number: u64,
    pub(crate) partition: Arc<str>,
    pub(crate) ended: Ended,
}

impl EndedRow {
    pub(crate) fn of(number: u64, ended: &Ended, partition: &Arc<str>) -> Self {
        Self { number, partition: Arc::clone(partition), ended: ended.clone() }
    }

    pub(crate) fn parts(&self) -> usize {
        4 + self.ended.log.len() + self.ended.groups.len() + self.ended.task_groups.len()
    }
}
