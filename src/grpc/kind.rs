//! The kinds of stream, and the differences between them.
//!
//! Opening, binding, reading, writing and ending are written once, in `stream`. A type per kind
//! supplies the rest, so the compiler keeps requests of one kind out of the outbox of another.

use futures::future::BoxFuture;
use monoceros_actors::{Handover, SchedulerHandle, UpdateError};
use monoceros_proto::si::legacy::v0::UpdateRequest;
use monoceros_proto::si::v1 as si;
use prost::Message;

use super::allocation_responses::QueuedAllocations;
use super::end::StreamEnd;
use super::legacy::Legacy;
use super::outbox::Outbox;
use super::reply::Reply;
use super::session::Session;

/// The set of streams that a session has. The first stream fixes it; a client changes it by
/// registering again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// One stream each for nodes, applications and allocations.
    Split,
    /// One stream, `Update`, for everything.
    Legacy,
}

impl Dialect {
    /// The name in logs and APIs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Legacy => "legacy",
        }
    }
}

/// One kind of stream. A session has at most one stream of each.
pub trait StreamKind: Send + Sync + 'static {
    /// Message of the client.
    type Request: Message + Default + 'static;
    /// Message of the scheduler.
    type Reply: Reply;
    /// The name of the kind in logs.
    const NAME: &'static str;
    /// The dialect of a session with streams of this kind.
    const DIALECT: Dialect;
    /// Whether the kind carries allocations. A session without an open stream of such a kind
    /// decides nothing, since it could not report it.
    const CARRIES_ALLOCATIONS: bool;

    /// The field of a request that names the resource manager.
    fn rm_id(request: &mut Self::Request) -> &mut String;

    /// The number of items of a request; a request without items only binds its stream.
    fn items(request: &Self::Request) -> usize;

    /// The number of the last message that the client has received; 0 if the request does not say.
    fn acknowledged(request: &Self::Request) -> u64 {
        let _ = request;
        0
    }

    /// The number of the request within the session; 0 if it has none.
    fn number(request: &Self::Request) -> u64;

    /// Converts the request to the type common to all kinds.
    fn into_any(request: Self::Request) -> AnyRequest;

    /// The outbox of this kind in a session.
    fn outbox(session: &Session) -> &Outbox<Self::Reply>;

    /// The last message before the status of `end`, if clients of this kind expect one.
    fn farewell(end: &StreamEnd) -> Option<Self::Reply> {
        let _ = end;
        None
    }

    /// Forwards a request to the scheduler at once, after all earlier requests. A caller that does
    /// not wait until the scheduler has taken the request must bound the requests in flight.
    fn forward<'s>(
        session: &'s Session,
        handle: &'s SchedulerHandle,
        request: Self::Request,
    ) -> Forwarded<'s>;
}

/// A request of any kind; the requests of one session are numbered together.
#[derive(Debug)]
pub enum AnyRequest {
    /// From an allocation stream.
    Allocations(si::AllocationRequest),
    /// From an application stream.
    Applications(si::ApplicationRequest),
    /// From a node stream.
    Nodes(si::NodeRequest),
    /// From the single stream of the legacy dialect.
    Legacy(UpdateRequest),
}

impl AnyRequest {
    /// The number of items, see [`StreamKind::items`].
    pub fn items(&self) -> usize {
        match self {
            Self::Allocations(request) => Allocations::items(request),
            Self::Applications(request) => Applications::items(request),
            Self::Nodes(request) => Nodes::items(request),
            Self::Legacy(request) => Legacy::items(request),
        }
    }

    /// Forwards the request to the scheduler, see [`StreamKind::forward`].
    pub fn forward<'s>(self, session: &'s Session, handle: &'s SchedulerHandle) -> Forwarded<'s> {
        match self {
            Self::Allocations(request) => Allocations::forward(session, handle, request),
            Self::Applications(request) => Applications::forward(session, handle, request),
            Self::Nodes(request) => Nodes::forward(session, handle, request),
            Self::Legacy(request) => Legacy::forward(session, handle, request),
        }
    }
}

/// A request that was forwarded to the scheduler.
pub enum Forwarded<'s> {
    /// Forwarded whole.
    Whole(Handover),
    /// Forwarded in parts.
    Parts(BoxFuture<'s, Result<(), UpdateError>>),
    /// Forwarded in part. The rest is forwarded only while this future is awaited; no other request
    /// may be forwarded before it completes.
    More(BoxFuture<'s, Result<(), UpdateError>>),
}

impl Forwarded<'_> {
    /// Whether a part still has to be forwarded before any other request.
    pub fn has_more(&self) -> bool {
        matches!(self, Self::More(_))
    }

    /// Waits until the scheduler has taken the request: longer while it is behind.
    pub async fn taken(self) -> Result<(), UpdateError> {
        match self {
            Self::Whole(handover) => handover.await,
            Self::Parts(parts) | Self::More(parts) => parts.await,
        }
    }
}

/// The kind for asks, allocations and releases.
pub enum Allocations {}

/// The kind for new and removed applications.
pub enum Applications {}

/// The kind for new, updated and removed nodes.
pub enum Nodes {}

impl StreamKind for Allocations {
    type Request = si::AllocationRequest;
    type Reply = QueuedAllocations;
    const NAME: &'static str = "allocation";
    const DIALECT: Dialect = Dialect::Split;
    const CARRIES_ALLOCATIONS: bool = true;

    fn rm_id(request: &mut Self::Request) -> &mut String {
        &mut request.rm_id
    }

    fn items(request: &Self::Request) -> usize {
        let releases = request.releases.as_ref().map_or(0, |releases| {
            releases.allocations_to_release.len() + releases.allocation_asks_to_release.len()
        });
        request.asks.len() + request.allocations.len() + releases
    }

    fn acknowledged(request: &Self::Request) -> u64 {
        request.ack_seq
    }

    fn number(request: &Self::Request) -> u64 {
        request.client_seq
    }

    fn into_any(request: Self::Request) -> AnyRequest {
        AnyRequest::Allocations(request)
    }

    fn outbox(session: &Session) -> &Outbox<Self::Reply> {
        &session.allocations
    }

    fn forward<'s>(
        session: &'s Session,
        handle: &'s SchedulerHandle,
        request: Self::Request,
    ) -> Forwarded<'s> {
        session.attachment().allocations_from_rm(&request);
        Forwarded::Whole(handle.update_allocation(request))
    }
}

impl StreamKind for Applications {
    type Request = si::ApplicationRequest;
    type Reply = si::ApplicationResponse;
    const NAME: &'static str = "application";
    const DIALECT: Dialect = Dialect::Split;
    const CARRIES_ALLOCATIONS: bool = false;

    fn rm_id(request: &mut Self::Request) -> &mut String {
        &mut request.rm_id
    }

    fn items(request: &Self::Request) -> usize {
        request.new.len() + request.remove.len()
    }

    fn acknowledged(request: &Self::Request) -> u64 {
        request.ack_seq
    }

    fn number(request: &Self::Request) -> u64 {
        request.client_seq
    }

    fn into_any(request: Self::Request) -> AnyRequest {
        AnyRequest::Applications(request)
    }

    fn outbox(session: &Session) -> &Outbox<Self::Reply> {
        &session.applications
    }

    fn forward<'s>(
        _session: &'s Session,
        handle: &'s SchedulerHandle,
        request: Self::Request,
    ) -> Forwarded<'s> {
        Forwarded::Whole(handle.update_application(request))
    }
}

impl StreamKind for Nodes {
    type Request = si::NodeRequest;
    type Reply = si::NodeResponse;
    const NAME: &'static str = "node";
    const DIALECT: Dialect = Dialect::Split;
    const CARRIES_ALLOCATIONS: bool = false;

    fn rm_id(request: &mut Self::Request) -> &mut String {
        &mut request.rm_id
    }

    fn items(request: &Self::Request) -> usize {
        request.nodes.iter().map(|node| 1 + node.existing_allocations.len()).sum()
    }

    fn acknowledged(request: &Self::Request) -> u64 {
        request.ack_seq
    }

    fn number(request: &Self::Request) -> u64 {
        request.client_seq
    }

    fn into_any(request: Self::Request) -> AnyRequest {
        AnyRequest::Nodes(request)
    }

    fn outbox(session: &Session) -> &Outbox<Self::Reply> {
        &session.nodes
    }

    fn forward<'s>(
        session: &'s Session,
        handle: &'s SchedulerHandle,
        request: Self::Request,
    ) -> Forwarded<'s> {
        session.attachment().nodes_from_rm(&request);
        Forwarded::Whole(handle.update_node(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_every_list_are_counted() {
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
        let existing_allocations = vec![si::Allocation::default(); 3];
        let node = si::NodeInfo { existing_allocations, ..Default::default() };
        let report = si::NodeRequest { nodes: vec![node; 2], ..Default::default() };
        assert_eq!(Nodes::items(&report), 8, "existing allocations are items, too");
    }
}
