//! The mirror of an RM: what its predicates read, as data, and a fork that answers from it.
//!
//! An RM in this process answers predicates from objects of its own. A scheduler that goes on from an
//! [image](crate::image) needs the same answers, and the image has the mirror for that. What a mirror
//! contains is known to its RM alone.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::callback::ResourceManagerCallback;

/// What the predicates of an RM read, at one step of its default partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mirror {
    /// Parts of bounded size, so that each fits in a line of a file. The RM defines their form.
    pub parts: Vec<Value>,
}

/// Makes the mirror from what the RM has copied. Called once, on a thread for blocking work.
pub type MirrorMaker = Box<dyn FnOnce() -> Mirror + Send>;

/// Predicates that answer as those of an RM would go on to answer after the step of its mirror.
///
/// The owner stands for the RM and its cluster: it reports what happens there. Calls of
/// [`assumed`](ResourceManagerCallback::assumed) and [`forgotten`](ResourceManagerCallback::forgotten)
/// are passed on like the questions.
pub trait ForkedPredicates: ResourceManagerCallback {
    /// The allocation runs on the node. Called when the RM is notified of it.
    fn started(&self, allocation_key: &str, node_id: &str);

    /// The ask or allocation exists no more. Called before its release is sent or confirmed.
    fn ended(&self, allocation_key: &str);

    /// There is another ask, a copy of a known one that may have ended. Called before it is sent.
    fn created(&self, allocation_key: &str, like: &str);

    /// There is another node, a copy of a known one. Called before it is reported.
    fn node_added(&self, node_id: &str, like: &str);

    /// The node exists no more. Its allocations exist until they have [ended](Self::ended).
    fn node_removed(&self, node_id: &str);

    /// Whether an ask that was refused may pass now, because of what was reported since the last call.
    /// The owner then [invalidates](crate::Invalidation) all refusals as the RM would: at once, or
    /// [so long](Self::retries_apart) after the last time.
    fn take_unblocked(&self) -> bool;

    /// The shortest pause between two invalidations.
    fn retries_apart(&self) -> Duration;

    /// The number of asks that the mirror does not know. Their predicates pass.
    fn unknown_asks(&self) -> usize;
}
