//! Target for a whole service in one process. It is fed over a socket, each input in a session of
//! its own. An execution takes milliseconds, since it waits until all actors have settled.
//!
//! # Properties for every input
//! * Nothing panics, and no call hangs.
//! * The books of the fed resource manager agree with the state of every actor.
//! * Another resource manager keeps its state.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use monoceros::connections::Connections;
use monoceros::grpc::{self, RegistrationSources};
use monoceros::identity::Access;
use monoceros::reads::Source;
use monoceros::settings::{Flags, Settings};
use monoceros::watchdog::{Health, Healthy};
use monoceros_actors::{ReadError, ResourceManagerCallback, Scheduler, SchedulerHandle, Threads};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as callback;
use prost::Message as _;
use prost::bytes::Bytes;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};

use super::Kind;
use super::raw::Raw;

/// Calls that [`Kind::Admin`] chooses among. The call that ends the service is not included.
const ADMIN_CALLS: [&str; 23] = [
    "/monoceros.v1.AdminService/UpdateConfig",
    "/monoceros.v1.AdminService/ValidateConfig",
    "/monoceros.v1.AdminService/GetConfig",
    "/monoceros.v1.AdminService/DeregisterResourceManager",
    "/monoceros.v1.AdminService/ListSessions",
    "/monoceros.v1.AdminService/TriggerResync",
    "/monoceros.v1.AdminService/SetPartitionState",
    "/monoceros.v1.AdminService/DrainNodes",
    "/monoceros.v1.AdminService/GetQueues",
    "/monoceros.v1.AdminService/ListApplications",
    "/monoceros.v1.AdminService/ListNodes",
    "/monoceros.v1.AdminService/ListDecisions",
    "/monoceros.v1.AdminService/ExplainApplication",
    "/monoceros.v1.AdminService/ListPartitions",
    "/monoceros.v1.AdminService/ListUsers",
    "/monoceros.v1.AdminService/ListGroups",
    "/monoceros.v1.MetricsService/GetAutoScalingMetrics",
    "/monoceros.v1.MetricsService/ListNodeRecommendations",
    "/monoceros.v1.MetricsService/GetStateDump",
    "/monoceros.v1.MetricsService/ReportUtilization",
    "/monoceros.v1.MetricsService/WatchAutoScalingMetrics",
    "/monoceros.v1.MetricsService/StreamEvents",
    "/monoceros.v1.MetricsService/WatchEvents",
];

/// Calls that go on until the client ends them.
const ENDLESS: [&str; 3] = [
    "/monoceros.v1.MetricsService/WatchAutoScalingMetrics",
    "/monoceros.v1.MetricsService/StreamEvents",
    "/monoceros.v1.MetricsService/WatchEvents",
];

/// The resource manager that is fed, and one that must not be affected.
const FED: &str = "rmID";
const WITNESS: &str = "witness";

/// Silence of an endless call after which the client ends it.
const QUIET: Duration = Duration::from_millis(20);

/// Time limit of a step, longer than any should take. Beyond it, the service hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The names are those of the golden messages, so that these find their objects.
const QUEUES: &str = "
partitions:
  - name: default
    queues: [{name: root, submitacl: '*', queues: [{name: a}]}]
  - name: partitionname
    queues: [{name: root, submitacl: '*', queues: [{name: a}]}]
";

/// The running service.
pub struct Edge {
    runtime: Runtime,
    handle: SchedulerHandle,
    channel: Channel,
}

/// Feeds one message to a service that is shared by all executions. The first byte chooses the kind
/// of message.
pub fn edge(data: &[u8]) {
    static EDGE: LazyLock<Edge> = LazyLock::new(Edge::start);
    if let Some((kind, data)) = Kind::first(data) {
        EDGE.feed(kind, data);
    }
}

/// Callbacks that ignore every message.
struct IgnoreAll;

impl ResourceManagerCallback for IgnoreAll {
    fn update_allocation(&self, _response: si::AllocationResponse) {}

    fn update_application(&self, _response: si::ApplicationResponse) {}

    fn update_node(&self, _response: si::NodeResponse) {}
}

impl Edge {
    /// Starts the service with default settings.
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let handle = Scheduler::builder()
            .reorder_window(Duration::from_millis(1))
            // A thread per partition costs more to start than most messages take.
            .threads(Threads::One)
            .start()
            .expect("a scheduler");
        let served = handle.clone();
        let channel = runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("a bound port");
            tokio::spawn(serve(listener, served.clone()));
            let witness = si::RegisterResourceManagerRequest {
                rm_id: WITNESS.to_owned(),
                ..si::RegisterResourceManagerRequest::default()
            };
            let registered = served.register_resource_manager(witness, Arc::new(IgnoreAll)).await;
            registered.expect("a witness");
            let nodes = si::NodeRequest { rm_id: WITNESS.to_owned(), ..nodes("default") };
            served.update_node(nodes).await.expect("a node of the witness");
            let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
            endpoint.connect().await.expect("a connection")
        });
        Self { runtime, handle, channel }
    }

    /// Feeds one message to a new session, and checks the state afterwards.
    pub fn feed(&self, kind: Kind, data: &[u8]) {
        let fed = async { timeout(PATIENCE, self.feed_now(kind, data)).await };
        self.runtime.block_on(fed).expect("nothing hangs");
    }

    async fn feed_now(&self, kind: Kind, data: &[u8]) {
        self.set_up().await;
        let data = Bytes::copy_from_slice(data);
        match kind {
            Kind::Allocation => self.stream("/si.v1.Scheduler/UpdateAllocation", vec![data]).await,
            Kind::Application => {
                self.stream("/si.v1.Scheduler/UpdateApplication", vec![data]).await;
            }
            Kind::Node => self.stream("/si.v1.Scheduler/UpdateNode", vec![data]).await,
            Kind::Update => self.stream("/si.v1.Scheduler/Update", vec![data]).await,
            Kind::Register => {
                self.call("/si.v1.Scheduler/RegisterResourceManager", data.clone()).await;
                self.forget(&data).await;
            }
            Kind::Callback => {
                let path = "/monoceros.v1.CallbackService/Attach";
                self.stream(path, vec![greeting(), data]).await;
            }
            Kind::Greeting => {
                self.stream("/monoceros.v1.CallbackService/Attach", vec![data]).await;
            }
            Kind::Admin => {
                if let Some((first, rest)) = data.split_first() {
                    let path = ADMIN_CALLS[usize::from(*first) % ADMIN_CALLS.len()];
                    // On the wire a unary call is a stream of one message.
                    self.stream(path, vec![data.slice_ref(rest)]).await;
                }
            }
        }
        // The fed message may have ended the session.
        let _ = self.handle.settle_resource_manager(FED).await;
        for partition in ["default", "partitionname"] {
            let books = self.handle.check_books(&format!("[{FED}]{partition}")).await;
            match books {
                Ok(errors) => assert_eq!(errors, [""; 0], "{kind:?}"),
                Err(ReadError::PartitionNotFound(_))
                    if matches!(kind, Kind::Register | Kind::Admin) => {}
                Err(error) => panic!("{kind:?}: {error}"),
            }
        }
        let nodes = self.handle.nodes(&format!("[{WITNESS}]default")).await;
        assert_eq!(nodes.map(|nodes| nodes.len()), Ok(1), "{kind:?}: the witness");
    }

    /// Creates a session with an application, nodes, a running allocation and a pending ask, in
    /// each of two partitions.
    async fn set_up(&self) {
        let register = si::RegisterResourceManagerRequest {
            rm_id: FED.to_owned(),
            config: QUEUES.to_owned(),
            ..si::RegisterResourceManagerRequest::default()
        };
        let path = "/si.v1.Scheduler/RegisterResourceManager";
        self.call(path, register.encode_to_vec().into()).await;
        for partition in ["default", "partitionName"] {
            let (applications, allocations) = (application(partition), asks(partition));
            let handle = &self.handle;
            handle.update_application(applications).await.expect("registered");
            handle.update_node(nodes(partition)).await.expect("registered");
            handle.update_allocation(allocations).await.expect("registered");
        }
    }

    /// Sends one message or two, closes the client's side, and reads until the server ends the
    /// call.
    async fn stream(&self, path: &'static str, messages: Vec<Bytes>) {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.expect("the service lives");
        let mut request = Request::new(tokio_messages(messages));
        request.metadata_mut().insert("x-si-rm-id", FED.parse().expect("ASCII"));
        let Ok(response) = grpc.streaming(request, path_of(path), Raw).await else { return };
        let mut replies = response.into_inner();
        let patience = if ENDLESS.contains(&path) { QUIET } else { PATIENCE };
        while let Ok(Ok(Some(_))) = timeout(patience, replies.message()).await {}
    }

    async fn call(&self, path: &'static str, message: Bytes) {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.expect("the service lives");
        let _ = grpc.unary(Request::new(message), path_of(path), Raw).await;
    }

    /// Ends a session that a fed registration opened.
    async fn forget(&self, registration: &[u8]) {
        let Ok(request) = si::RegisterResourceManagerRequest::decode(registration) else { return };
        if request.rm_id != FED && request.rm_id != WITNESS {
            let _ = self.handle.stop_resource_manager(&request.rm_id).await;
        }
    }
}

async fn serve(listener: TcpListener, handle: SchedulerHandle) {
    let settings = Settings::load(None, &Flags::default()).expect("the defaults");
    let shutdown = CancellationToken::new();
    let connections = Connections::new(listener, None, shutdown.clone());
    let access = Arc::new(Access::open());
    let healthy = Healthy::fixed(Health::Serving);
    let source = Source::new(handle, &settings);
    let none = RegistrationSources::default();
    let served = grpc::serve(connections, source, access, &settings, none, healthy, shutdown).await;
    served.expect("the edge goes on");
}

fn path_of(path: &'static str) -> tonic::codegen::http::uri::PathAndQuery {
    tonic::codegen::http::uri::PathAndQuery::from_static(path)
}

fn tokio_messages(messages: Vec<Bytes>) -> impl tonic::codegen::tokio_stream::Stream<Item = Bytes> {
    tonic::codegen::tokio_stream::iter(messages)
}

fn amount(vcore: i64) -> si::Resource {
    let quantity = |value| si::Quantity { value };
    let resources = [("key".to_owned(), quantity(vcore)), ("vcore".to_owned(), quantity(vcore))];
    si::Resource { resources: resources.into() }
}

/// The application that exists before a message is fed.
fn application(partition: &str) -> si::ApplicationRequest {
    let ugi = si::UserGroupInformation { user: "user".to_owned(), groups: vec!["g".to_owned()] };
    let new = si::AddApplicationRequest {
        application_id: "applicationID".to_owned(),
        queue_name: "root.a".to_owned(),
        partition_name: partition.to_owned(),
        ugi: Some(ugi),
        ..si::AddApplicationRequest::default()
    };
    si::ApplicationRequest { new: vec![new], rm_id: FED.to_owned(), ..Default::default() }
}

fn nodes(partition: &str) -> si::NodeRequest {
    let node = si::NodeInfo {
        node_id: "nodeID".to_owned(),
        action: si::node_info::ActionFromRm::Create.into(),
        attributes: [("si/node-partition".to_owned(), partition.to_owned())].into(),
        schedulable_resource: Some(amount(3_000)),
        ..si::NodeInfo::default()
    };
    si::NodeRequest { nodes: vec![node], rm_id: FED.to_owned(), ..Default::default() }
}

fn asks(partition: &str) -> si::AllocationRequest {
    let allocation = |key: &str, size| si::Allocation {
        allocation_key: key.to_owned(),
        application_id: "applicationID".to_owned(),
        partition_name: partition.to_owned(),
        resource_per_alloc: Some(amount(size)),
        ..si::Allocation::default()
    };
    let allocations = vec![allocation("allocationKey", 1_000), allocation("waits", 4_000)];
    si::AllocationRequest { allocations, rm_id: FED.to_owned(), ..Default::default() }
}

/// The greeting of a shim with every capability.
fn greeting() -> Bytes {
    let hello = callback::Hello {
        rm_id: FED.to_owned(),
        capabilities: (1..=7).collect(),
        ..callback::Hello::default()
    };
    let body = Some(callback::shim_message::Body::Hello(hello));
    callback::ShimMessage { body }.encode_to_vec().into()
}
