//! The gRPC edge: the service `si.v1.Scheduler` in front of the embedding API.
//!
//! A resource manager registers, which opens a *session*, and opens one stream of each kind. What
//! the scheduler says waits in the session's [`outbox`] of that kind until the stream takes
//! it; what the client says is handed to the scheduler message by message, so that a scheduler that
//! is behind slows the client down through HTTP/2 and nothing piles up here.
//!
//! ```text
//! client ── requests ──▶ stream::Reader ─ handle.update_… ──▶ scheduler
//! client ◀── replies ─── stream::Writer ◀── Outbox ◀── Session (its callback)
//! ```
//!
//! # Invariants
//! * A message that came through a stream of one session is never applied to another.
//! * A callback of the scheduler never waits for a client.
//! * How a stream ends is an [`end::End`], and one `match` there gives its status.
//!
//! Reading order: [`stubs`], [`outbox`], [`reply`], [`mod@line`], [`session`], [`registry`],
//! [`kind`], [`stream`], [`end`], [`attach`].

pub mod attach;
pub mod end;
pub mod kind;
pub mod line;
pub mod outbox;
pub mod registry;
pub mod reply;
pub mod session;
pub mod stream;
pub mod stubs;

use std::sync::Arc;

use monoceros_actors::SchedulerHandle;
use monoceros_proto::callback::v1 as cb;
use monoceros_proto::si::legacy::v0 as legacy;
use monoceros_proto::si::v1 as si;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use self::end::registration_status;
use self::kind::{Allocations, Applications, Nodes};
use self::outbox::Bounds;
use self::registry::{Registered, Registry};
use self::stream::ReplyStream;
use self::stubs::callback::callback_service_server::{CallbackService, CallbackServiceServer};
use self::stubs::scheduler_server;
use crate::settings::{GrpcSettings, SessionSettings};

/// Metadata that names the session.
pub const SESSION_HEADER: &str = "x-si-session";
/// Metadata that names this run of the scheduler; another value means that it was restarted.
pub const SCHEDULER_HEADER: &str = "x-si-scheduler";
/// Metadata of a registration: `new` or `replaced`.
pub const REGISTERED_HEADER: &str = "x-si-registered";
/// Metadata of a stream that binds it to a resource manager before its first message.
pub const RM_ID_HEADER: &str = "x-si-rm-id";
/// Trailer with the machine-readable reason of a status.
pub const REASON_TRAILER: &str = "x-si-reason";

/// What all calls share.
pub struct Edge {
    handle: SchedulerHandle,
    registry: Registry,
    shutdown: CancellationToken,
}

/// Serves resource managers on `listener` until `shutdown` is cancelled and the last stream is
/// told so.
pub async fn serve(
    listener: TcpListener,
    handle: SchedulerHandle,
    settings: &GrpcSettings,
    session: &SessionSettings,
    options: attach::Options,
    shutdown: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let bounds = Bounds::new(settings, session);
    let registry = Registry::new(bounds, options, handle.callback_metrics());
    let edge = Arc::new(Edge { handle, registry, shutdown: shutdown.clone() });
    let max_bytes = settings.max_recv_message_bytes.get();
    let callbacks = CallbackServiceServer::new(Callbacks(Arc::clone(&edge)))
        .max_decoding_message_size(max_bytes);
    let service =
        scheduler_server::SchedulerServer::new(Service(edge)).max_decoding_message_size(max_bytes);
    Server::builder()
        .http2_keepalive_interval(Some(settings.keepalive_interval()))
        .http2_keepalive_timeout(Some(settings.keepalive_timeout()))
        .max_concurrent_streams(settings.max_streams_per_connection.get())
        .add_service(service)
        .add_service(callbacks)
        .serve_with_incoming_shutdown(
            // Small messages should not wait for an acknowledgement of earlier ones.
            TcpIncoming::from(listener).with_nodelay(Some(true)),
            shutdown.cancelled_owned(),
        )
        .await
}

struct Service(Arc<Edge>);

#[tonic::async_trait]
impl scheduler_server::Scheduler for Service {
    async fn register_resource_manager(
        &self,
        request: Request<si::RegisterResourceManagerRequest>,
    ) -> Result<Response<si::RegisterResourceManagerResponse>, Status> {
        let edge = Arc::clone(&self.0);
        let request = request.into_inner();
        // A task of its own: a client that gives up must not leave a registration half done.
        let registration =
            tokio::spawn(async move { edge.registry.register(&edge.handle, request).await });
        let Registered { reply, session, replaced } = registration
            .await
            .map_err(|_| end::internal("the registration ended unexpectedly"))?
            .map_err(registration_status)?;
        let mut response = Response::new(reply);
        let metadata = response.metadata_mut();
        metadata.insert(SESSION_HEADER, session.into());
        metadata.insert(SCHEDULER_HEADER, self.0.registry.scheduler_id());
        let registered = if replaced { "replaced" } else { "new" };
        metadata.insert(REGISTERED_HEADER, tonic::metadata::MetadataValue::from_static(registered));
        Ok(response)
    }

    type UpdateAllocationStream = ReplyStream<Allocations>;

    async fn update_allocation(
        &self,
        request: Request<Streaming<si::AllocationRequest>>,
    ) -> Result<Response<Self::UpdateAllocationStream>, Status> {
        stream::open::<Allocations>(Arc::clone(&self.0), request).await
    }

    type UpdateApplicationStream = ReplyStream<Applications>;

    async fn update_application(
        &self,
        request: Request<Streaming<si::ApplicationRequest>>,
    ) -> Result<Response<Self::UpdateApplicationStream>, Status> {
        stream::open::<Applications>(Arc::clone(&self.0), request).await
    }

    type UpdateNodeStream = ReplyStream<Nodes>;

    async fn update_node(
        &self,
        request: Request<Streaming<si::NodeRequest>>,
    ) -> Result<Response<Self::UpdateNodeStream>, Status> {
        stream::open::<Nodes>(Arc::clone(&self.0), request).await
    }

    type UpdateStream = UpdateStream;

    async fn update(
        &self,
        _request: Request<Streaming<legacy::UpdateRequest>>,
    ) -> Result<Response<Self::UpdateStream>, Status> {
        Err(Status::unimplemented("not there yet"))
    }
}

struct Callbacks(Arc<Edge>);

#[tonic::async_trait]
impl CallbackService for Callbacks {
    type AttachStream = attach::stream::Messages;

    async fn attach(
        &self,
        request: Request<Streaming<cb::ShimMessage>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        Ok(attach::stream::open(Arc::clone(&self.0), request))
    }
}

type UpdateStream = futures::stream::Empty<Result<legacy::UpdateResponse, Status>>;
