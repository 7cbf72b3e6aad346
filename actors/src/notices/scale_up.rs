//! Requests that more machines would help: `docs/scheduling.md#the-scale-up-signal`.

use std::sync::Arc;

use monoceros_rules::specs::ask::AskSpec;

/// Requests of one application that more machines would help. One notice holds some of them, since
/// there may be as many as pending asks.
#[derive(Debug)]
pub(crate) struct ScaleUpRequests {
    pub(crate) application: Arc<str>,
    pub(crate) requests: Vec<UnplacedRequest>,
}

/// A request that more machines would help.
#[derive(Debug)]
pub(crate) struct UnplacedRequest {
    pub(crate) spec: Arc<AskSpec>,
    /// Nodes had room for it, and predicates refused all of them.
    pub(crate) by_predicates: bool,
}
