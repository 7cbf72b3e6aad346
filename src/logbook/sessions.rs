//! Where the sessions of resource managers are read, for who does not speak gRPC.
//!
//! Sessions are kept by the gRPC edge, which may begin after others can read. Until it has there are
//! none.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::grpc::registry::Registry;
use crate::grpc::session::SessionStatus;

/// The sessions that there are. Clones are the same.
#[derive(Clone, Default)]
pub struct Sessions(Arc<OnceLock<Arc<Registry>>>);

impl Sessions {
    /// From now on these are read. Only the first ones count: a process has one gRPC edge.
    pub(crate) fn are_in(&self, registry: &Arc<Registry>) {
        let _ = self.0.set(Arc::clone(registry));
    }

    /// The name that this run has for resource managers, and the sessions by RM.
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
