//! The scheduler, in this process or elsewhere.

mod embedded;
mod remote;

use futures::future::BoxFuture;
use monoceros_proto::si::v1 as si;

pub use self::embedded::Embedded;
pub use self::remote::{Remote, Service};
use crate::predicates::Scene;
use crate::shim::EngineOrder;
use crate::translate::Queues;

/// What the shim needs of a scheduler. What it says comes as [`Word`](crate::shim::Word)s, through the
/// channel that it was made with.
pub trait Engine: Send + Sync + 'static {
    /// Opens a session in which nothing is known yet, with these queues. The second is why they cannot be
    /// used, if so: then the engine has its own.
    fn register<'e>(
        &'e self,
        queues: &'e Queues,
    ) -> BoxFuture<'e, Result<Option<String>, EngineError>>;

    /// Whether its explanations look up what nodes say by themselves.
    fn looks_at_nodes(&self) -> bool {
        false
    }

    /// Tells it something. What is told one after the other takes effect in that order.
    fn tell(&self, order: EngineOrder) -> BoxFuture<'_, Result<(), EngineError>>;
}

/// How many pods have to leave a node, in the order of the question, before the pod may run there.
fn victims(
    scene: &mut Scene,
    args: &si::PreemptionPredicatesArgs,
) -> si::PreemptionPredicatesResponse {
    let first = usize::try_from(args.start_index + 1).unwrap_or(0);
    let leaving = &args.preempt_allocation_keys;
    match scene.check_without(&args.allocation_key, &args.node_id, leaving, first) {
        Some(count) => si::PreemptionPredicatesResponse {
            success: true,
            index: i32::try_from(count).map_or(i32::MAX, |count| count - 1),
        },
        None => si::PreemptionPredicatesResponse { success: false, index: -1 },
    }
}

/// The scheduler cannot be told anything any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scheduler: {0}")]
pub struct EngineError(pub String);
