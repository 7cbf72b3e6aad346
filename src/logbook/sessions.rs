//! Access to the sessions of resource managers for edges other than gRPC.
//!
//! The gRPC edge owns the sessions, and may start after other edges. Until then there are none.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::grpc::registry::Registry;
use crate::grpc::session::SessionStatus;

/// The sessions. Clones share them.
#[derive(Clone, Default)]
pub struct Sessions(Arc<OnceLock<Arc<Registry>>>);

impl Sessions {
    /// Sets the registry to read. Only the first call counts: a process has one gRPC edge.
    pub(crate) fn are_in(&self, registry: &Arc<Registry>) {
        let _ = self.0.set(Arc::clone(registry));
    }

    /// Returns the id of this run for resource managers, and the sessions sorted by RM.
    pub(crate) fn now(&self) -> (String, Vec<SessionStatus>) {
        let Some(registry) = self.0.get() else { return (String::new(), Vec::new()) };
        let mut sessions = registry.list();
        sessions.sort_by(|a, b| a.registrant.rm_id.cmp(&b.registrant.rm_id));
        (registry.scheduler_id().to_str().unwrap_or_default().to_owned(), sessions)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("is_begun", &self.0.get().is_some()).finish()
    }
}
