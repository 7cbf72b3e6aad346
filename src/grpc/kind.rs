//! The kinds of stream: what differs between allocation, application and node streams.
//!
//! Opening, binding, reading, writing and ending are the same for all of them and written once, in
//! `stream`; a type per kind says the rest, so the compiler keeps requests of one kind from the
//! outbox of another.

use futures::future::BoxFuture;
use monoceros_actors::{Handover, SchedulerHandle, UpdateError};
use monoceros_proto::si::legacy::v0::UpdateRequest;
use monoceros_proto::si::v1 as si;
use prost::Message;

use super::end::StreamEnd;
use super::legacy::Legacy;
use super::outbox::Outbox;
use super::reply::Reply;
use super::said::AllocationsSaid;
use super::session::Session;

/// Which streams a session has: fixed by its first one. To change it, a client registers again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// A stream each for nodes, applications and allocations.
    Split,
    /// One stream, `Update`, for everything.
    Legacy,
}

impl Dialect {
    /// The name for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Legacy => "legacy",
        }
    }
}

/// One kind of stream. A session has at most one stream of each.
pub trait StreamKind: Send + Sync + 'static {
    /// What the client sends.
    type Request: Message + Default + 'static;
    /// What the scheduler answers.
    type Reply: Reply;
    /// The name of the kind in the log.
    const NAME: &'static str;
    /// Sessions with streams of this kind have none of another dialect.
    const DIALECT: Dialect;
    /// A session without an open stream of such a kind decides nothing: it could not say it.
    const CARRIES_ALLOCATIONS: bool;

    /// The field of a request that names the resource manager.
    fn rm_id(request: &mut Self::Request) -> &mut String;

    /// How many items a request has; one without any only binds its stream.
    fn items(request: &Self::Request) -> usize;

    /// The number up to which the client has got everything; zero says nothing.
    fn acknowledged(request: &Self::Request) -> u64 {
        let _ = request;
        0
    }

    /// Its number among the requests of the session; zero for one that has none.
    fn number(request: &Self::Request) -> u64;

    /// The request among those of all kinds.
    fn into_any(request: Self::Request) -> AnyRequest;

    /// The outbox in which the replies of a session wait.
    fn outbox(session: &Session) -> &Outbox<Self::Reply>;

    /// What a client of this kind expects as the last message before the status of `end`.
    fn farewell(end: &StreamEnd) -> Option<Self::Reply> {
        let _ = end;
        None
    }

    /// Hands a request of a session to the scheduler, at once and behind all before it. Whoever does
    /// not wait until it is taken has to bound what is on its way.
    fn forward<'s>(
        session: &'s Session,
        handle: &'s SchedulerHandle,
        request: Self::Request,
    ) -> Forwarded<'s>;
}

/// A request of any kind: those of one session are numbered together.
#[derive(Debug)]
pub enum AnyRequest {
    /// Of an allocation stream.
    Allocations(si::AllocationRequest),
    /// Of an application stream.
    Applications(si::ApplicationRequest),
    /// Of a node stream.
    Nodes(si::NodeRequest),
    /// Of the one stream of the oldest dialect.
    Legacy(UpdateRequest),
}

impl AnyRequest {
    /// How many items it has.
    pub fn items(&self) -> usize {
        match self {
            Self::Allocations(request) => Allocations::items(request),
            Self::Applications(request) => Applications::items(request),
            Self::Nodes(request) => Nodes::items(request),
            Self::Legacy(request) => Legacy::items(request),
        }
    }

    /// Hands it to the scheduler, as its kind does.
    pub fn forward<'s>(self, session: &'s Session, handle: &'s SchedulerHandle) -> Forwarded<'s> {
        match self {
            Self::Allocations(request) => Allocations::forward(session, handle, request),
            Self::Applications(request) => Applications::forward(session, handle, request),
            Self::Nodes(request) => Nodes::forward(session, handle, request),
            Self::Legacy(request) => Legacy::forward(session, handle, request),
        }
    }
}

/// A request that was handed to the scheduler.
pub enum Forwarded<'s> {
    /// Whole.
    Whole(Handover),
    /// In parts.
    Parts(BoxFuture<'s, Result<(), UpdateError>>),
    /// With something left that is only done while it is waited for: nothing may be handed over before.
    More(BoxFuture<'s, Result<(), UpdateError>>),
}

impl Forwarded<'_> {
    /// Whether something is left to do before anything else is handed over.
    pub fn has_more(&self) -> bool {
        matches!(self, Self::More(_))
    }

    /// Waits until it is taken: longer while the scheduler is behind.
    pub async fn taken(self) -> Result<(), UpdateError> {
        match self {
            Self::Whole(handover) => handover.await,
            Self::Parts(parts) | Self::More(parts) => parts.await,
        }
    }
}

/// Asks, allocations and releases.
pub enum Allocations {}

/// Applications that come and go.
pub enum Applications {}

/// Nodes that come, change and go.
pub enum Nodes {}

impl StreamKind for Allocations {
    type Request = si::AllocationRequest;
    type Reply = AllocationsSaid;
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
    fn every_list_counts_and_a_request_that_only_names_its_rm_has_no_items() {
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
