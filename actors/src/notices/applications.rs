//! States that applications entered.

use std::sync::Arc;

use monoceros_rules::applications::application_state::ApplicationState;

/// A state that an application has entered.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) application: Arc<str>,
    /// Path of its leaf.
    pub(crate) queue: Arc<str>,
    pub(crate) state: ApplicationState,
    /// ns since the epoch.
    pub(crate) at_ns: i64,
    /// The reason for its RM.
    pub(crate) message: &'static str,
}
