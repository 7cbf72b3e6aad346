//! What a resource manager implements to be told of decisions and asked for predicates.

use monoceros_proto::si::v1::{
    AllocationResponse, ApplicationResponse, NodeResponse, PredicatesArgs,
};

/// The RM's side of the embedding API.
///
/// Called from scheduler threads: the updates in the order in which they were decided, one batch
/// per turn, from one thread; [`predicates`](Self::predicates) from the partition's thread, in the
/// middle of a placement. An implementation **must not block** and must not wait for the scheduler:
/// nothing is decided for its partition meanwhile.
pub trait ResourceManagerCallback: Send + Sync + 'static {
    /// Allocations made, allocations released, asks and allocations rejected.
    fn update_allocation(&self, response: AllocationResponse);

    /// Applications accepted and rejected, and the states they enter.
    fn update_application(&self, response: ApplicationResponse);

    /// Nodes accepted and rejected.
    fn update_node(&self, response: NodeResponse);

    /// Whether the ask may be placed on the node, beyond what resources say; `Err` gives the
    /// reason. A panic counts as a refusal. Passes unless implemented.
    fn predicates(&self, args: &PredicatesArgs) -> Result<(), String> {
        let _ = args;
        Ok(())
    }

    /// The scheduler lost what it knew of this RM's partition (`cause` says how) and decides
    /// nothing for it any more: the RM must register again and report everything.
    fn resync_required(&self, cause: &str) {
        let _ = cause;
    }
}
