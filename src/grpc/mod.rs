//! The gRPC edge in front of the embedding API: the service `monoceros.si.v1.Scheduler` (also
//! reachable as `si.v1.Scheduler`, the path of the published interface), and the services for
//! callbacks, operators, metrics, health probes and reflection.
//!
//! A resource manager registers, which opens a *session*, and opens one stream of each kind.
//! Responses of the scheduler wait in the session's [`outbox`] of that kind until the stream takes
//! them. Requests of the client are forwarded to the scheduler one by one: a scheduler that is
//! behind slows the client down through HTTP/2, so no queue of requests grows here.
//!
//! ```text
//! client ── requests ──▶ stream::RequestReader ─ handle.update_… ──▶ scheduler
//! client ◀── replies ─── stream::ReplyWriter ◀── Outbox ◀── Session (its callback)
//! ```
//!
//! # Why sessions outlive streams
//! A stream breaks with its connection, and connections break for reasons that have nothing to do
//! with the cluster. The session holds the state with which the next stream continues.
//!
//! # Invariants
//! * A message received on a stream of one session is never applied to another session.
//! * A callback of the scheduler never waits for a client.
//! * The end of a stream is an [`end::StreamEnd`]; one `match` there maps it to a status.
//!
//! Reading order: [`stubs`], `aliases` (the published path), `windows` (flow control), `incoming`
//! (from the socket to a message that may be decoded), [`outbox`], [`reply`],
//! [`allocation_responses`], [`encoded`], [`stream_handle`], [`session`], [`registry`], [`kind`],
//! [`legacy`], [`stream`], [`end`], [`attach`]; besides them `admin`, `metrics`, `health`, `ending`
//! (ends their streams at a shutdown), `members` (the same services for
//! other members of a cluster), `shared` (replies shared by several callers), `wrapped`
//! (wraps a service in such a layer) `rights` (the right that each method needs)
//! and [`routing`] (calls at other members of a cluster).

mod admin;
mod aliases;
pub mod allocation_responses;
pub mod attach;
pub mod encoded;
pub mod end;
mod ending;
mod health;
#[cfg(test)]
mod in_virtual_time;
mod incoming;
pub mod kind;
pub mod legacy;
mod members;
mod metrics;
pub mod outbox;
pub mod registry;
pub mod reply;
mod rights;
pub mod routing;
pub mod session;
mod shared;
pub mod stream;
pub mod stream_handle;
pub mod stubs;
mod windows;
mod wrapped;

/// Entry points of the fuzz targets. They carry no promise of stability.
#[doc(hidden)]
pub mod fuzzing {
    pub use super::attach::fuzzing::{Received, TestedConversation};
    pub use super::incoming::fuzzing::{Measured, Measuring};
}

use std::sync::Arc;

use futures::future::try_join;
use monoceros_actors::SchedulerHandle;
use monoceros_proto::si::legacy::v0 as legacy_v0;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataValue;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};
use tonic_reflection::server::{Builder as Reflection, v1alpha};

use self::aliases::{Alias, PublishedScheduler};
use self::end::RegistrationRefusal;
use self::ending::Ending;
pub(crate) use self::incoming::{missing_header, pace};

use self::incoming::IncomingLayer;
use self::kind::{Allocations, Applications, Nodes};
use self::legacy::Legacy;
pub use self::members::{ForwardedBy, MembersEdge};
#[cfg(feature = "cluster")]
pub(crate) use self::members::{PING_EVERY, PING_PATIENCE, is_other_incarnation, member_windows};
use self::registry::{Claims, Origin, Registered, Registry};
use self::rights::RightsLayer;
use self::routing::{PassableCall, Routing};
use self::shared::Sharing;
use self::stream::ReplyStream;
use self::stubs::scheduler_server;
use self::stubs::v1::callback_service_server::{CallbackService, CallbackServiceServer};
use self::windows::Windows;
use self::wrapped::Wrapped;
use crate::connections::Connections;
use crate::identity::layer::IdentityLayer;
use crate::identity::{Access, Identity};
use crate::queues_file::PolicyFiles;
use crate::reads::Source;
use crate::settings::Settings;
use crate::traces::Traces;
use crate::watchdog::Healthy;

/// Metadata: the number of the session.
pub const SESSION_HEADER: &str = "x-si-session";
/// Metadata: the id of this run of the scheduler. It changes with every restart.
pub const SCHEDULER_HEADER: &str = "x-si-scheduler";
/// Metadata of a registration's reply: `new`, `replaced` or `attached`.
pub const REGISTERED_HEADER: &str = "x-si-registered";
/// Metadata of a stream: binds it to a resource manager before its first message.
pub const RM_ID_HEADER: &str = "x-si-rm-id";
/// Metadata of a registration: `takeover` (the default) or `attach`.
pub const REGISTER_MODE_HEADER: &str = "x-si-register-mode";
/// Metadata: the client process that registers, or that opened the stream.
pub const INSTANCE_HEADER: &str = "x-si-instance";
/// Metadata of any call of a client that counts its connection attempts: `CLIENT.NUMBER`.
pub const ATTEMPT_HEADER: &str = "x-si-attempt";
/// Metadata of a stream: the number of the last message that the client received, 0 for none. The
/// messages of such a stream carry their numbers.
pub const RESUME_HEADER: &str = "x-si-resume";
/// Metadata of a stream whose client numbers its requests: the last number that the client knows to
/// be taken, 0 for none.
pub const CLIENT_SEQ_HEADER: &str = "x-si-client-seq";
/// Metadata of the reply to such a stream, and to a registration that continues a session: the
/// number of the last request that was taken.
pub const TAKEN_SEQ_HEADER: &str = "x-si-taken-seq";
/// Metadata of a registration in a cluster: a secret of the client process, 16 to 64 bytes.
pub const PROOF_HEADER: &str = "x-si-proof";
/// Metadata of a call that a member of a cluster passes on: `MEMBER/INCARNATION`. Refused from
/// anybody else.
pub const FORWARDED_HEADER: &str = "x-si-forwarded";
/// Metadata of such a call: the incarnation of the member that it is for. Absent: any.
pub(crate) const FORWARDED_TO_HEADER: &str = "x-si-forwarded-to";
/// Request metadata of a configuration that another member has tried, with any value: the named
/// resource manager alone tries it, since that member asks all others of the policy group.
pub(crate) const TRIAL_HEADER: &str = "x-si-trial";
/// Metadata of a registration in a cluster: the incarnation of the owner that fell silent for the
/// client process.
pub const SUSPECTS_HEADER: &str = "x-si-suspects";
/// Metadata of the reply to a registration in a cluster: the gRPC addresses of the members that
/// live, separated by commas, the owner's first.
pub const MEMBERS_HEADER: &str = "x-si-members";
/// Metadata of a stream: `yes` asks for beats. In the reply to it: the distance of beats in
/// milliseconds, if there are any.
pub const BEAT_HEADER: &str = "x-si-beat";
/// Metadata of a call that a member of a cluster passes on to the owner: the resource manager,
/// percent-encoded.
pub(crate) const FORWARDED_RM_HEADER: &str = "x-si-forwarded-rm";
/// Metadata of a registration or a stream in a cluster: `yes` asks for the address of the owner in
/// place of its answer.
pub const REDIRECT_HEADER: &str = "x-si-redirect";
/// Trailer: the gRPC address of the member of the cluster that serves the resource manager.
pub const OWNER_TRAILER: &str = "x-si-owner";
/// Trailer: the machine-readable reason of a status.
pub const REASON_TRAILER: &str = "x-si-reason";

/// Number of streams that the service may reset for breaking the rules of HTTP/2 before it closes
/// their connection. A client that opens such streams one after another never reaches the limit of
/// streams open at once. The server library sets no bound of its own; this is the default of the
/// HTTP/2 library below it.
const MAX_FAULTY_STREAMS: usize = 1_024;

/// Maximum size of a reflection request, which holds one name.
const REFLECTION_MESSAGE_BYTES: usize = 16 << 10;

/// Queue configurations and claims of registrations.
#[derive(Default)]
pub struct RegistrationSources {
    /// The queues of resource managers that bring none.
    pub policies: Option<Arc<PolicyFiles>>,
    /// Membership in a cluster.
    pub claims: Option<Arc<dyn Claims>>,
    /// The edge for the other members of the cluster.
    pub members: Option<MembersEdge>,
    /// The way to the other members of the cluster.
    pub routing: Option<Arc<dyn Routing>>,
}

/// State that all calls share.
pub struct GrpcEdge {
    handle: SchedulerHandle,
    registry: Arc<Registry>,
    /// Notified of allocations that are sent. `None` if no traces are exported.
    traces: Option<Arc<Traces>>,
    shutdown: CancellationToken,
}

/// Wraps a generated server so that it reads gzip messages and, if configured, compresses replies
/// to clients that accept it. A macro because generated servers have no trait in common.
macro_rules! negotiating_gzip {
    ($server:expr, $settings:expr) => {{
        let server = $server.accept_compressed(CompressionEncoding::Gzip);
        if $settings.send_gzip { server.send_compressed(CompressionEncoding::Gzip) } else { server }
    }};
}

/// Serves resource managers on `connections`, within the rights of `access`, until `shutdown` is
/// cancelled and every stream has been ended. Probes are answered from `healthy`.
pub async fn serve(
    connections: Connections,
    source: Source,
    access: Arc<Access>,
    settings: &Settings,
    sources: RegistrationSources,
    healthy: Healthy,
    shutdown: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let Source { handle, door, logbook, traces } = source;
    let reads = shared::Reads::new(door);
    let RegistrationSources { policies, claims, members, routing } = sources;
    let is_member = claims.is_some();
    let registry = Registry::new(handle.clone(), settings, policies).with_claims(claims);
    logbook.sessions.are_in(&registry);
    let grace = settings.shutdown.grace();
    let incoming = IncomingLayer::new(&settings.grpc, &settings.limits, routing.clone());
    let settings = &settings.grpc;
    let max_bytes = settings.max_recv_message_bytes.get();
    let edge = Arc::new(GrpcEdge { handle, registry, traces, shutdown: shutdown.clone() });
    let scheduler = scheduler_server::SchedulerServer::new(Service(Arc::clone(&edge)))
        .max_decoding_message_size(max_bytes);
    let scheduler = negotiating_gzip!(scheduler, settings);
    let callbacks = CallbackServiceServer::new(Callbacks(Arc::clone(&edge)))
        .max_decoding_message_size(max_bytes);
    let callbacks = negotiating_gzip!(callbacks, settings);
    let admin =
        admin::server(Arc::clone(&edge), reads.clone(), logbook.cluster.clone(), grace, max_bytes);
    let admin = Wrapped::new(negotiating_gzip!(admin, settings), Sharing);
    let metrics = metrics::server(edge, reads, logbook);
    let metrics = Wrapped::new(negotiating_gzip!(metrics, settings), Sharing);
    let callbacks = Wrapped::new(callbacks, attach::NotingWritten);
    let metrics = Wrapped::new(metrics, Ending(shutdown.clone()));
    let published = Alias::<PublishedScheduler, _>::of(&scheduler);
    let services = health::Services::default();
    let services = services.with(&scheduler).with(&callbacks).with(&admin).with(&metrics);
    let services = services.with(&published);
    let (reflection, reflection_alpha) = reflection();
    let routes = Routes::new(scheduler)
        .add_service(published)
        .add_service(callbacks)
        .add_service(admin)
        .add_service(metrics)
        .add_service(health::serve(services, healthy, shutdown.clone()).await)
        .add_service(Wrapped::new(reflection, Ending(shutdown.clone())))
        .add_service(Wrapped::new(reflection_alpha, Ending(shutdown.clone())));
    let for_members = {
        let (routes, incoming, shutdown) = (routes.clone(), incoming.clone(), shutdown.clone());
        async move {
            match members {
                Some(edge) => members::serve(edge, routes, incoming, routing, shutdown).await,
                None => Ok(()),
            }
        }
    };
    let connections = connections.speaking_http_2().into_stream();
    let windows = Windows::new(settings.max_streams_per_connection);
    let for_clients = Server::builder()
        .initial_stream_window_size(windows.stream)
        .initial_connection_window_size(windows.connection)
        .http2_keepalive_interval(Some(settings.keepalive_interval()))
        .http2_keepalive_timeout(Some(settings.keepalive_timeout()))
        .max_concurrent_streams(settings.max_streams_per_connection.get())
        .http2_max_local_error_reset_streams(Some(MAX_FAULTY_STREAMS))
        .layer(IdentityLayer::new(access))
        .layer(RightsLayer::of_clients(is_member))
        .layer(incoming)
        .add_routes(routes)
        .serve_with_incoming_shutdown(connections, shutdown.cancelled_owned());
    try_join(Box::pin(for_clients), Box::pin(for_members)).await.map(|((), ())| ())
}

/// The reflection service in the two versions that tools use.
fn reflection() -> (
    ServerReflectionServer<impl ServerReflection>,
    v1alpha::ServerReflectionServer<impl v1alpha::ServerReflection>,
) {
    let describe = || {
        Reflection::configure()
            .include_reflection_service(false)
            .register_encoded_file_descriptor_set(stubs::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(
                tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
            )
    };
    let readable = "the build wrote the descriptors";
    let v1 = describe().build_v1().expect(readable);
    let v1alpha = describe().build_v1alpha().expect(readable);
    let most = REFLECTION_MESSAGE_BYTES;
    (v1.max_decoding_message_size(most), v1alpha.max_decoding_message_size(most))
}

struct Service(Arc<GrpcEdge>);

#[tonic::async_trait]
impl scheduler_server::Scheduler for Service {
    async fn register_resource_manager(
        &self,
        request: Request<si::RegisterResourceManagerRequest>,
    ) -> Result<Response<si::RegisterResourceManagerResponse>, Status> {
        let caller = Identity::of(request.extensions());
        caller.check_rm(&request.get_ref().rm_id)?;
        let mut origin = Origin::read(request.metadata(), &caller)?;
        origin.call = request.extensions().get::<PassableCall>().cloned();
        origin.is_forwarded = request.extensions().get::<ForwardedBy>().is_some();
        let registry = Arc::clone(&self.0.registry);
        let deadline = registry.registration_deadline();
        let request = request.into_inner();
        // Cancels the token when this call ends, also because the client has given up.
        let _abandons = origin.abandoned.clone().drop_guard();
        // A separate task: a client that gives up must not leave a registration half done.
        let registration =
            tokio::spawn(async move { registry.register(request, origin, deadline).await });
        let Registered { reply, session, outcome, taken } = timeout_at(deadline, registration)
            .await
            .map_err(|_| self.0.registry.too_slow())?
            .map_err(|_| RegistrationRefusal::Internal)??;
        let mut response = Response::new(reply);
        let metadata = response.metadata_mut();
        metadata.insert(SESSION_HEADER, session.into());
        metadata.insert(SCHEDULER_HEADER, self.0.registry.scheduler_id());
        metadata.insert(REGISTERED_HEADER, MetadataValue::from_static(outcome.name()));
        let members = self.0.registry.members();
        if !members.is_empty()
            && let Ok(members) = members.join(",").parse()
        {
            metadata.insert(MEMBERS_HEADER, members);
        }
        if let Some(taken) = taken {
            metadata.insert(TAKEN_SEQ_HEADER, taken.into());
        }
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

    type UpdateStream = ReplyStream<Legacy>;

    async fn update(
        &self,
        request: Request<Streaming<legacy_v0::UpdateRequest>>,
    ) -> Result<Response<Self::UpdateStream>, Status> {
        stream::open::<Legacy>(Arc::clone(&self.0), request).await
    }
}

struct Callbacks(Arc<GrpcEdge>);

#[tonic::async_trait]
impl CallbackService for Callbacks {
    type AttachStream = attach::stream::Messages;

    async fn attach(
        &self,
        request: Request<Streaming<cb::ShimMessage>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        attach::stream::open(Arc::clone(&self.0), &request)
    }
}
