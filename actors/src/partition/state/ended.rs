//! Terminated applications of a partition, and the deadline of their expiry.

use monoceros_rules::applications::ended::{Ended, EndedApplications, Expired};
use serde::{Deserialize, Serialize};

/// Terminated applications. One deadline at most is armed for all of them.
#[derive(Clone, Serialize, Deserialize)]
pub(in crate::partition) struct Kept {
    applications: EndedApplications,
    is_armed: bool,
}

impl Kept {
    /// Keeps at most `most` in each of its three lists.
    pub(in crate::partition) fn new(most: usize) -> Self {
        Self { applications: EndedApplications::new(most), is_armed: false }
    }

    pub(in crate::partition) fn applications(&self) -> &EndedApplications {
        &self.applications
    }

    /// Keeps an ended application.
    pub(in crate::partition) fn keep(&mut self, ended: Ended) {
        self.applications.keep(ended);
    }

    /// Returns the applications that expire, when the deadline is over.
    pub(in crate::partition) fn expire(&mut self, now_ns: i64) -> Vec<Expired> {
        self.is_armed = false;
        self.applications.pass(now_ns)
    }

    /// Returns the time of the deadline that the caller has to arm, ns since the epoch. `None`
    /// while one is armed, since later applications are due later, and while none is kept.
    pub(in crate::partition) fn due_to_arm(&mut self) -> Option<i64> {
        let due_ns = self.applications.due_ns().filter(|_| !self.is_armed)?;
        self.is_armed = true;
        Some(due_ns)
    }
}
