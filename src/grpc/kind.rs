//! The kinds of stream: what differs between allocation, application and node streams.

use std::future::Future;

use monoceros_actors::{SchedulerHandle, UpdateError};
use monoceros_proto::si::v1 as si;
use prost::Message;

use super::outbox::Outbox;
use super::reply::Reply;
use super::session::Session;

/// One kind of stream. A session has at most one stream of each.
pub trait Kind: Send + Sync + 'static {
    /// What the client sends.
    type Request: Message + Default + 'static;
    /// What the scheduler answers.
    type Reply: Reply;
    /// For the log.
    const NAME: &'static str;

    /// The field of a request that names the resource manager.
    fn rm_id(request: &mut Self::Request) -> &mut String;

    /// How many items a request has; one without any only binds its stream.
    fn items(request: &Self::Request) -> usize;

    /// Where the replies of a session wait.
    fn outbox(session: &Session) -> &Outbox<Self::Reply>;

    /// Lets the callback side of the session see a request before the scheduler does.
    fn observe(session: &Session, request: &Self::Request) {
        let _ = (session, request);
    }

    /// Hands a request to the scheduler; waits while that is behind.
    fn forward(
        handle: &SchedulerHandle,
        request: Self::Request,
    ) -> impl Future<Output = Result<(), UpdateError>> + Send;
}

/// Asks, allocations and releases.
pub enum Allocations {}

/// Applications that come and go.
pub enum Applications {}

/// Nodes that come, change and go.
pub enum Nodes {}

impl Kind for Allocations {
    type Request = si::AllocationRequest;
    type Reply = si::AllocationResponse;
    const NAME: &'static str = "allocation";

    fn rm_id(request: &mut Self::Request) -> &mut String {
        &mut request.rm_id
    }

    fn items(request: &Self::Request) -> usize {
        let releases = request.releases.as_ref().map_or(0, |releases| {
            releases.allocations_to_release.len() + releases.allocation_asks_to_release.len()
        });
        request.asks.len() + request.allocations.len() + releases
    }

    fn outbox(session: &Session) -> &Outbox<Self::Reply> {
        &session.allocations
    }

    fn observe(session: &Session, request: &Self::Request) {
        session.attachment().allocations_from_rm(request);
    }

    async fn forward(handle: &SchedulerHandle, request: Self::Request) -> Result<(), UpdateError> {
        handle.update_allocation(request).await
    }
}

impl Kind for Applications {
    type Request = si::ApplicationRequest;
    type Reply = si::ApplicationResponse;
    const NAME: &'static str = "application";

    fn rm_id(request: &mut Self::Request) -> &mut String {
        &mut request.rm_id
    }

    fn items(request: &Self::Request) -> usize {
        request.new.len() + request.remove.len()
    }

    fn outbox(session: &Session) -> &Outbox<Self::Reply> {
        &session.applications
    }

    async fn forward(handle: &SchedulerHandle, request: Self::Request) -> Result<(), UpdateError> {
        handle.update_application(request).await
    }
}

impl Kind for Nodes {
    type Request = si::NodeRequest;
    type Reply = si::NodeResponse;
    const NAME: &'static str = "node";

    fn rm_id(request: &mut Self::Request) -> &mut String {
        &mut request.rm_id
    }

    fn items(request: &Self::Request) -> usize {
        request.nodes.len()
    }

    fn outbox(session: &Session) -> &Outbox<Self::Reply> {
        &session.nodes
    }

    fn observe(session: &Session, request: &Self::Request) {
        session.attachment().nodes_from_rm(request);
    }

    async fn forward(handle: &SchedulerHandle, request: Self::Request) -> Result<(), UpdateError> {
        handle.update_node(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_only_names_its_rm_has_no_items() {
        let releases = Some(si::AllocationReleasesRequest::default());
        let hello =
            si::AllocationRequest { rm_id: "rm".to_owned(), releases, ..Default::default() };
        assert_eq!(Allocations::items(&hello), 0);
        let releases = si::AllocationReleasesRequest {
            allocations_to_release: vec![si::AllocationRelease::default()],
            ..Default::default()
        };
        let release = si::AllocationRequest { releases: Some(releases), ..Default::default() };
        assert_eq!(Allocations::items(&release), 1);
        let remove = vec![si::RemoveApplicationRequest::default()];
        let removal = si::ApplicationRequest { remove, ..Default::default() };
        assert_eq!(Applications::items(&removal), 1);
    }
}
