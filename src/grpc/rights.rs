//! The right that each method needs, checked before its service sees the call.
//!
//! The resource manager that a call concerns is known only once its message is read, so this layer
//! checks the minimum: the caller is known and may call such a method at all. The method checks the
//! rest. A method missing from the table is for administrators only, so none is open by oversight;
//! a test compares the table with the services.

use std::task::{Context, Poll};

use futures::future::{Either, Ready, ready};

use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService as _;
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::{debug, warn};

use super::FORWARDED_HEADER;
use super::aliases::PublishedScheduler;
use super::end::with_reason;
use crate::identity::{Identity, Right};

/// A service, its method, and the right it needs.
type Row = (&'static str, &'static str, Right);

const SCHEDULER: &str = "monoceros.si.v1.Scheduler";
const CALLBACKS: &str = "monoceros.v1.CallbackService";
const ADMIN: &str = "monoceros.v1.AdminService";
const METRICS: &str = "monoceros.v1.MetricsService";
const HEALTH: &str = "grpc.health.v1.Health";
const REFLECTION: &str = "grpc.reflection.v1.ServerReflection";
const REFLECTION_ALPHA: &str = "grpc.reflection.v1alpha.ServerReflection";

/// All methods of all services, by their real paths.
const TABLE: [Row; 40] = [
    (SCHEDULER, "RegisterResourceManager", Right::Speak),
    (SCHEDULER, "UpdateAllocation", Right::Speak),
    (SCHEDULER, "UpdateApplication", Right::Speak),
    (SCHEDULER, "UpdateNode", Right::Speak),
    (SCHEDULER, "Update", Right::Speak),
    (CALLBACKS, "Attach", Right::Speak),
    (ADMIN, "UpdateConfig", Right::Act),
    (ADMIN, "ValidateConfig", Right::Read),
    (ADMIN, "GetConfig", Right::Read),
    (ADMIN, "DeregisterResourceManager", Right::Act),
    (ADMIN, "ListSessions", Right::ReadAll),
    (ADMIN, "TriggerResync", Right::Act),
    (ADMIN, "SetPartitionState", Right::Administer),
    (ADMIN, "DrainNodes", Right::Act),
    (ADMIN, "Shutdown", Right::Administer),
    (ADMIN, "ListMembers", Right::ReadAll),
    (ADMIN, "ListClaims", Right::ReadAll),
    (ADMIN, "MoveResourceManager", Right::Administer),
    (ADMIN, "DrainMember", Right::Administer),
    (ADMIN, "AcceptRestore", Right::Administer),
    (ADMIN, "GetQueues", Right::Read),
    (ADMIN, "ListApplications", Right::Read),
    (ADMIN, "ListNodes", Right::Read),
    (ADMIN, "ListDecisions", Right::Read),
    (ADMIN, "ExplainApplication", Right::Read),
    (ADMIN, "ListPartitions", Right::Read),
    (ADMIN, "ListUsers", Right::Read),
    (ADMIN, "ListGroups", Right::Read),
    (METRICS, "GetStateDump", Right::Read),
    (METRICS, "GetSnapshot", Right::Read),
    (METRICS, "GetAutoScalingMetrics", Right::Read),
    (METRICS, "WatchAutoScalingMetrics", Right::Read),
    (METRICS, "ReportUtilization", Right::Act),
    (METRICS, "ListNodeRecommendations", Right::Read),
    (METRICS, "StreamEvents", Right::Read),
    (METRICS, "WatchEvents", Right::Read),
    (HEALTH, "Check", Right::Nothing),
    (HEALTH, "Watch", Right::Nothing),
    (REFLECTION, "ServerReflectionInfo", Right::Nothing),
    (REFLECTION_ALPHA, "ServerReflectionInfo", Right::Nothing),
];

/// The scheduler service under its published name.
const PUBLISHED_SCHEDULER: &str = PublishedScheduler::NAME;

/// The right that a call of this path needs.
fn right_of(path: &str) -> Right {
    let called = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    let Some((service, method)) = called else { return Right::Administer };
    let service = if service == PUBLISHED_SCHEDULER { SCHEDULER } else { service };
    let row = TABLE.iter().find(|row| row.0 == service && row.1 == method);
    row.map_or(Right::Administer, |(_, _, right)| *right)
}

/// Adds the check in front of every service.
#[derive(Clone, Copy, Debug)]
pub(super) struct RightsLayer {
    /// Whether a client that claims to be a member of the cluster is refused.
    refuses_members: bool,
}

impl RightsLayer {
    /// For clients of a service that is a member of a cluster, or of one that is none.
    pub(super) fn of_clients(is_member: bool) -> Self {
        Self { refuses_members: is_member }
    }

    /// For other members of the cluster.
    pub(super) fn of_members() -> Self {
        Self { refuses_members: false }
    }
}

/// A service behind the check.
#[derive(Clone, Debug)]
pub(super) struct Guarded<S> {
    refuses_members: bool,
    inner: S,
}

impl<S> Layer<S> for RightsLayer {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { refuses_members: self.refuses_members, inner }
    }
}

/// The status of a client that claims to be a member of the cluster.
fn no_member() -> Status {
    let text = format!("`{FORWARDED_HEADER}` is for members of the cluster, on their own listener");
    with_reason(Code::PermissionDenied, "FORWARDED_DENIED", &text)
}

impl<S, B> Service<Request<B>> for Guarded<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let caller = Identity::of(request.extensions());
        let call = request.uri().path();
        if self.refuses_members && request.headers().contains_key(FORWARDED_HEADER) {
            warn!(
                by = caller.name(),
                from = caller.from(),
                call,
                "call refused: it is no member's"
            );
            return Either::Right(ready(Ok(no_member().into_http())));
        }
        match caller.check_at_the_door(right_of(call)) {
            Ok(()) => {
                debug!(by = caller.name(), from = caller.from(), call, "called");
                Either::Left(self.inner.call(request))
            }
            Err(denied) => {
                let by = caller.name();
                warn!(by, from = caller.from(), call, why = %denied, "call refused");
                Either::Right(ready(Ok(Status::from(denied).into_http())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    use futures::FutureExt as _;
    use prost::Message as _;
    use prost_reflect::DescriptorPool;
    use tower::service_fn;

    use super::*;
    use crate::grpc::stubs;

    /// All services and methods in the descriptors of this build and of the libraries.
    fn methods() -> BTreeSet<(String, String)> {
        let sets = [
            stubs::DESCRIPTORS,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ];
        let mut methods = BTreeSet::new();
        for set in sets {
            let files = prost_reflect::prost_types::FileDescriptorSet::decode(set).unwrap();
            let pool = DescriptorPool::from_file_descriptor_set(files).unwrap();
            for service in pool.services() {
                for method in service.methods() {
                    methods.insert((service.full_name().to_owned(), method.name().to_owned()));
                }
            }
        }
        methods
    }

    #[test]
    fn table_matches_the_served_methods() {
        let mut rows: BTreeSet<(String, String)> = BTreeSet::new();
        for (service, method, _) in TABLE {
            assert!(
                rows.insert((service.to_owned(), method.to_owned())),
                "{method} is there twice"
            );
        }
        let served = methods();
        let real = served.iter().filter(|(service, _)| service != PUBLISHED_SCHEDULER);
        assert_eq!(rows, real.cloned().collect());
        for (service, method) in &served {
            let named = |row: &&Row| row.1 == method;
            assert!(TABLE.iter().any(|row| named(&row)), "{service}/{method}");
        }
    }

    #[test]
    fn published_name_needs_the_same_rights() {
        assert_eq!(right_of("/si.v1.Scheduler/UpdateNode"), Right::Speak);
        for unknown in ["", "/", "/x", "/si.v1.Scheduler/Nope", "/a/b/c"] {
            assert_eq!(right_of(unknown), Right::Administer, "{unknown}");
        }
    }

    #[test]
    fn manual_lists_every_right() {
        let manual = include_str!("../../docs/security.md");
        for (service, method, right) in TABLE {
            let short = service.rsplit('.').next().unwrap();
            let row = format!("| `{short}/{method}` | {} |", right.text());
            assert!(manual.contains(&row), "{row}");
        }
    }

    #[test]
    fn unknown_callers_are_refused() {
        let inner =
            service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Body::default())));
        let mut service = RightsLayer::of_clients(false).layer(inner);
        for (name, method, right) in TABLE {
            let mut request = Request::new(());
            *request.uri_mut() = format!("http://h/{name}/{method}").parse().unwrap();
            request.extensions_mut().insert(Identity::nobody());
            let answer = service.call(request).now_or_never().unwrap().unwrap();
            let status = answer.headers().get("grpc-status").map(|code| code.to_str().unwrap());
            let expected = if right == Right::Nothing { None } else { Some("16") };
            assert_eq!(status, expected, "{name}/{method}");
        }
    }

    #[test]
    fn a_client_is_no_member() {
        let inner =
            service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Body::default())));
        let status = |layer: RightsLayer| {
            let mut request = Request::new(());
            request.extensions_mut().insert(Identity::anybody());
            request.headers_mut().insert(FORWARDED_HEADER, "m-1/0f".parse().unwrap());
            let answer = layer.layer(inner).call(request).now_or_never().unwrap().unwrap();
            answer.headers().get("x-si-reason").map(|reason| reason.to_str().unwrap().to_owned())
        };
        assert_eq!(status(RightsLayer::of_clients(true)).as_deref(), Some("FORWARDED_DENIED"));
        assert_eq!(status(RightsLayer::of_clients(false)), None);
        assert_eq!(status(RightsLayer::of_members()), None);
    }
}
