//! The scheduler, in this process or elsewhere.

mod embedded;

use futures::future::BoxFuture;

pub use self::embedded::Embedded;
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

    /// Tells it something. What is told one after the other takes effect in that order.
    fn tell(&self, order: EngineOrder) -> BoxFuture<'_, Result<(), EngineError>>;
}

/// The scheduler cannot be told anything any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scheduler: {0}")]
pub struct EngineError(pub String);
