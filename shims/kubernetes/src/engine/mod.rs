//! Interface of the shim to a scheduler in this process or elsewhere.

mod answers;
mod embedded;
mod remote;

use futures::future::BoxFuture;
use monoceros_proto::si::v1 as si;

pub(crate) use self::answers::{Answers, fits};
pub use self::embedded::Embedded;
pub use self::remote::{Remote, Service};
use crate::predicates::Scene;
use crate::shim::EngineOrder;
use crate::translate::Queues;

/// A scheduler, as the shim uses it. Its notifications arrive as [`Notification`](crate::shim::Notification)s
/// through the channel it was made with.
pub trait Engine: Send + Sync + 'static {
    /// Opens an empty session with these queues. Returns why the queues were rejected, if so; the
    /// engine then uses its own.
    fn register<'e>(
        &'e self,
        queues: &'e Queues,
    ) -> BoxFuture<'e, Result<Option<String>, EngineError>>;

    /// Whether the scheduler serves this replica alone. It is then fed while another replica
    /// schedules. To register with a shared one would end the session of the leader.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Whether its explanations read from the scene which nodes pods may use.
    fn reads_node_results(&self) -> bool {
        false
    }

    /// Sends an order. Orders take effect in the order of the calls.
    fn send(&self, order: EngineOrder) -> BoxFuture<'_, Result<(), EngineError>>;
}

/// Finds how many of the given victims must leave the node, in their order, before the pod may run
/// there.
pub(crate) fn victims(
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

/// The engine accepts no more orders.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scheduler: {0}")]
pub struct EngineError(pub String);
