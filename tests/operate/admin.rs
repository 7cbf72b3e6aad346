//! The admin service, and the common features of gRPC servers: health, reflection and compression.

use std::time::Duration;

use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use serde_json::Value;
use tokio::time::timeout;
use tonic::codec::CompressionEncoding;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1 as reflection, v1alpha};

use crate::harness::{self, PATIENCE, QUEUES, Rm, Service, TempFile, ask, reason_of, registration};

async fn channel(service: &Service) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    endpoint.connect().await.unwrap()
}

pub(crate) async fn admin(service: &Service) -> AdminServiceClient<Channel> {
    AdminServiceClient::new(channel(service).await)
}

/// Starts two nodes, an application in `root.a` with two allocations and a pending ask, and an
/// application in `root.b` without asks.
async fn busy(service: &Service) -> Rm {
    let rm = Rm::register(service, "rm").await.with_nodes(&["n1", "n2"]).await;
    let rm = rm.with_application("one", "root.a").await.with_application("two", "root.b").await;
    let huge = si::Allocation {
        resource_per_alloc: Some(harness::resource(100_000, 1)),
        ..ask("one", "z")
    };
    rm.send_allocations(vec![], vec![ask("one", "x"), ask("one", "y"), huge], vec![]).await;
    rm.until("two allocations", |seen| seen.new.len() == 2).await;
    rm
}

fn refused(status: &Status) -> (Code, String) {
    (status.code(), reason_of(status))
}

fn quantity(amount: Option<&si::Resource>, name: &str) -> Option<i64> {
    Some(amount?.resources.get(name)?.value)
}

#[tokio::test]
async fn queues_are_those_that_rest_shows() {
    let service = Service::start();
    let _rm = busy(&service).await;
    let mut admin = admin(&service).await;
    let answer = admin.get_queues(v1::GetQueuesRequest::default()).await.unwrap();
    let root = answer.into_inner().root.unwrap();
    let document = service.get("/ws/v1/partition/default/queues").await;
    let shown: Value = serde_json::from_str(&document).unwrap();
    compare(&root, &shown);
    assert_eq!(root.child_paths, ["root.a", "root.b"]);
    assert_eq!(quantity(root.allocated.as_ref(), "vcore"), Some(2_000));
    assert_eq!(quantity(root.pending.as_ref(), "vcore"), Some(100_000));
}

/// Compares two queues field by field, with their subtrees.
fn compare(queue: &v1::QueueInfo, shown: &Value) {
    assert_eq!(shown["queuename"], *queue.path);
    assert_eq!(shown["status"], *queue.state);
    assert_eq!(shown["isLeaf"], queue.leaf);
    assert_eq!(shown["isManaged"], queue.managed);
    assert_eq!(shown["currentPriority"], queue.priority);
    assert_eq!(shown["sortingPolicy"], *queue.sorting_policy);
    assert_eq!(shown["runningApps"].as_u64().unwrap_or(0), queue.running_applications);
    for (key, amount) in [
        ("maxResource", &queue.max),
        ("guaranteedResource", &queue.guaranteed),
        ("allocatedResource", &queue.allocated),
        ("pendingResource", &queue.pending),
        ("headroom", &queue.headroom),
    ] {
        let amount = amount.clone().unwrap_or_default().resources;
        let object = shown[key].as_object().cloned().unwrap_or_default();
        let of_message = amount.into_iter().map(|(name, quantity)| (name, quantity.value));
        let of_document = object.into_iter().map(|(name, value)| (name, value.as_i64().unwrap()));
        assert!(of_message.eq(of_document), "{key} of {}", queue.path);
    }
    let children = shown["children"].as_array().cloned().unwrap_or_default();
    assert_eq!(children.len(), queue.children.len());
    for (child, shown) in queue.children.iter().zip(&children) {
        compare(child, shown);
    }
}

#[tokio::test]
async fn a_subtree_is_requested_by_path_and_depth() {
    let service = Service::start();
    let _rm = busy(&service).await;
    let mut admin = admin(&service).await;
    for (queue, depth, path, n_children) in
        [("root", 1, "root", 0), ("ROOT.A", 0, "root.a", 0), ("", 2, "root", 2)]
    {
        let request = v1::GetQueuesRequest { queue: queue.into(), depth, ..Default::default() };
        let found = admin.get_queues(request).await.unwrap().into_inner().root.unwrap();
        assert_eq!((&*found.path, found.children.len()), (path, n_children));
    }
}

#[tokio::test]
async fn missing_items_are_named() {
    let service = Service::start();
    let mut admin = admin(&service).await;
    let nobody = admin.list_nodes(v1::ListNodesRequest::default()).await.unwrap_err();
    assert_eq!(refused(&nobody), (Code::FailedPrecondition, "RM_NOT_REGISTERED".into()));

    let _one = Rm::register(&service, "one").await;
    let _two = Rm::register(&service, "two").await;
    let request = |rm_id: &str, partition: &str, queue: &str| v1::GetQueuesRequest {
        rm_id: rm_id.into(),
        partition_name: partition.into(),
        queue: queue.into(),
        ..Default::default()
    };
    for (request, code, reason, named) in [
        (request("", "", ""), Code::InvalidArgument, "RM_ID_MISSING", "2 are registered"),
        (request("three", "", ""), Code::FailedPrecondition, "RM_NOT_REGISTERED", "`three`"),
        (request("one", "gpu", ""), Code::NotFound, "PARTITION_UNKNOWN", "`gpu`"),
        (request("one", "[two]default", ""), Code::NotFound, "PARTITION_UNKNOWN", "`[two]default`"),
        (request("one", "", "root.c"), Code::NotFound, "QUEUE_UNKNOWN", "`root.c`"),
    ] {
        let status = admin.get_queues(request).await.unwrap_err();
        assert_eq!(refused(&status), (code, reason.to_owned()));
        assert!(status.message().contains(named), "{}", status.message());
    }
    admin.get_queues(request("one", "[one]default", "root.a")).await.unwrap();
}

#[tokio::test]
async fn applications_are_filtered_by_queue_user_state_id() {
    let service = Service::start();
    let _rm = busy(&service).await;
    let mut admin = admin(&service).await;
    let all = v1::ListApplicationsRequest::default;
    for (request, ids) in [
        (all(), vec!["one", "two"]),
        (v1::ListApplicationsRequest { queue: "root.B".into(), ..all() }, vec!["two"]),
        (v1::ListApplicationsRequest { states: vec!["running".into()], ..all() }, vec!["one"]),
        (v1::ListApplicationsRequest { users: vec!["alice".into()], ..all() }, vec!["one", "two"]),
        (v1::ListApplicationsRequest { users: vec!["bob".into()], ..all() }, vec![]),
        (
            v1::ListApplicationsRequest {
                application_ids: vec!["two".into(), "six".into()],
                ..all()
            },
            vec!["two"],
        ),
    ] {
        let found = admin.list_applications(request).await.unwrap().into_inner().applications;
        let found: Vec<_> = found.iter().map(|found| &*found.application_id).collect();
        assert_eq!(found, ids);
    }
    let request = v1::ListApplicationsRequest { states: vec!["done".into()], ..all() };
    let status = admin.list_applications(request).await.unwrap_err();
    assert_eq!(refused(&status), (Code::InvalidArgument, "FIELD_INVALID".into()));
    assert!(status.message().contains("`done`"));
}

#[tokio::test]
async fn an_application_shows_allocations_and_pending_asks() {
    let service = Service::start();
    let _rm = busy(&service).await;
    let mut admin = admin(&service).await;
    let request = v1::ListApplicationsRequest { details: true, page_size: 1, ..Default::default() };
    let answer = admin.list_applications(request.clone()).await.unwrap().into_inner();
    let one = &answer.applications[0];
    assert_eq!((one.allocations, one.requests), (2, 1));
    assert_eq!(quantity(one.allocated.as_ref(), "vcore"), Some(2_000));
    let held: Vec<_> = one.held.iter().map(|held| (&*held.allocation_key, &*held.uuid)).collect();
    assert_eq!(held, [("x", "x"), ("y", "y")]);
    assert_eq!(one.waiting[0].allocation_key, "z");
    assert_eq!(quantity(one.waiting[0].resource.as_ref(), "vcore"), Some(100_000));
    let page_token = answer.next_page_token;
    let request = v1::ListApplicationsRequest { page_token, ..request };
    let answer = admin.list_applications(request).await.unwrap().into_inner();
    assert_eq!((&*answer.applications[0].application_id, &*answer.next_page_token), ("two", ""));
}

#[tokio::test]
async fn nodes_are_drained_and_opened() {
    let service = Service::start();
    let rm = busy(&service).await;
    let mut admin = admin(&service).await;
    let named = |ids: &[&str], drain| v1::DrainNodesRequest {
        node_ids: ids.iter().map(|&id| id.into()).collect(),
        drain,
        ..Default::default()
    };
    let answer = admin.drain_nodes(named(&["n1", "n2", "n9"], true)).await.unwrap().into_inner();
    assert_eq!((answer.changed, answer.remaining_allocations), (2, 2));
    assert_eq!(answer.unknown_node_ids, ["n9"]);
    let again = admin.drain_nodes(named(&["n1"], true)).await.unwrap().into_inner();
    assert_eq!(again.changed, 0);

    rm.send_allocations(vec![], vec![ask("two", "w")], vec![]).await;
    rm.send_allocations(vec![], vec![], vec![harness::release("one", "x")]).await;
    rm.until("released", |seen| seen.released.len() == 1).await;
    assert_eq!(rm.read(|seen| seen.new.len()), 2, "nothing is placed on nodes that are closed");

    let opened = admin.drain_nodes(named(&["n2"], false)).await.unwrap().into_inner();
    assert_eq!(opened.changed, 1);
    rm.until("placed on the open node", |seen| seen.new.len() == 3).await;
    rm.read(|seen| assert_eq!(seen.new[2].node_id, "n2"));
    let nodes = admin.list_nodes(v1::ListNodesRequest::default()).await.unwrap().into_inner().nodes;
    let shown: Vec<_> = nodes.iter().map(|node| (&*node.node_id, node.schedulable)).collect();
    assert_eq!(shown, [("n1", false), ("n2", true)]);

    let status = admin.drain_nodes(named(&[], true)).await.unwrap_err();
    assert_eq!(refused(&status), (Code::InvalidArgument, "FIELD_INVALID".into()));
    assert!(status.message().contains("`node_ids`"));
}

#[tokio::test]
async fn shutdown_ends_streams_and_exits_with_zero() {
    let mut service = Service::start_with(&[("SHUTDOWN__GRACE", "3")]);
    let rm = busy(&service).await;
    let mut admin = admin(&service).await;
    let request = v1::ShutdownRequest { reason: "test".into() };
    let answer = admin.shutdown(request).await.unwrap().into_inner();
    assert_eq!(answer.grace_ms, 3_000);
    rm.until("streams ended", |seen| seen.ends.len() == 3).await;
    let end = rm.read(|seen| seen.end("node").unwrap());
    assert_eq!(end, (Code::Unavailable, "SHUTTING_DOWN".to_owned()));
    assert_eq!(service.wait(PATIENCE).await.code(), Some(0));
}

#[tokio::test]
async fn unauthorized_callers_are_refused_first() {
    let tokens = TempFile::new("admin-tokens", "ops:of-an-operator\nshim:of-a-shim\n");
    let settings = format!(
        "identity.tokens = '{}'\n\
         [[identity.rules]]\ntoken = 'ops'\nadmin = true\n\
         [[identity.rules]]\ntoken = 'shim'\nrm_ids = ['rm']\n",
        tokens.path()
    );
    let settings = TempFile::new("admin-settings.toml", &settings);
    let service = Service::start_configured(settings.path());
    let mut client = service.client().await;
    let shown = |token: &str| Some(format!("Bearer {token}").parse().unwrap());
    let (ops, shim) = (shown("of-an-operator"), shown("of-a-shim"));
    let registration = as_caller(registration("rm", QUEUES), shim.as_ref());
    client.register_resource_manager(registration).await.unwrap();

    let mut admin = admin(&service).await;
    let queues = |rm_id: &str, caller| {
        let request = v1::GetQueuesRequest { rm_id: rm_id.into(), ..Default::default() };
        as_caller(request, caller)
    };
    let unknown = (Code::Unauthenticated, "UNAUTHENTICATED".to_owned());
    let status = admin.get_queues(queues("", None)).await.unwrap_err();
    assert_eq!(refused(&status), unknown);
    for caller in [&ops, &shim] {
        admin.get_queues(queues("", caller.as_ref())).await.unwrap();
    }
    let status = admin.get_queues(queues("other", shim.as_ref())).await.unwrap_err();
    assert_eq!(refused(&status), (Code::PermissionDenied, "RM_DENIED".into()));
    let status = admin.get_queues(queues("other", ops.as_ref())).await.unwrap_err();
    assert_eq!(refused(&status), (Code::FailedPrecondition, "RM_NOT_REGISTERED".into()));
    for (caller, expected) in
        [(None, unknown), (shim.as_ref(), (Code::PermissionDenied, "ADMIN_DENIED".into()))]
    {
        let request = as_caller(v1::ShutdownRequest::default(), caller);
        assert_eq!(refused(&admin.shutdown(request).await.unwrap_err()), expected);
    }
    service.until_logged("call refused", 1).await;
    let log = service.log();
    let refusal = log.lines().find(|line| line.contains("call refused")).unwrap();
    assert!(refusal.contains(" from=127.0.0.1:") && refusal.contains(" why="), "{refusal}");
    let token = TempFile::new("admin-token", "of-an-operator\n");
    let address = service.grpc.to_string();
    let get = ["get", "queues", "--grpc", &address, "--token", token.path()];
    let (code, _, _) = harness::run(&get);
    assert_eq!(code, Some(0));
}

/// A manager may change its own configuration unless another one is registered with the same policy
/// group. A registration without a group is in the group `queues`.
#[tokio::test]
async fn a_shared_policy_group_blocks_own_updates() {
    let tokens = TempFile::new("group-tokens", "ops:of-an-operator\na:of-a\nb:of-b\n");
    let settings = format!(
        "identity.tokens = '{}'\n\
         [[identity.rules]]\ntoken = 'ops'\nadmin = true\n\
         [[identity.rules]]\ntoken = 'a'\nrm_ids = ['a']\n\
         [[identity.rules]]\ntoken = 'b'\nrm_ids = ['b']\n",
        tokens.path()
    );
    let settings = TempFile::new("group-settings.toml", &settings);
    let service = Service::start_configured(settings.path());
    let mut client = service.client().await;
    let shown = |token: &str| Some(format!("Bearer {token}").parse().unwrap());
    let [ops, a, b] = ["of-an-operator", "of-a", "of-b"].map(shown);
    let register = |rm_id: &str, group: &str| si::RegisterResourceManagerRequest {
        policy_group: group.to_owned(),
        ..registration(rm_id, QUEUES)
    };
    client.register_resource_manager(as_caller(register("a", ""), a.as_ref())).await.unwrap();
    let elsewhere = register("b", "elsewhere");
    client.register_resource_manager(as_caller(elsewhere, b.as_ref())).await.unwrap();

    let mut admin = admin(&service).await;
    let update = |caller: &Option<AsciiMetadataValue>| {
        let config = QUEUES.replace("name: b", "name: c");
        let request =
            si::UpdateConfigurationRequest { rm_id: "a".into(), config, ..Default::default() };
        as_caller(request, caller.as_ref())
    };
    let alone = admin.update_config(update(&a)).await.unwrap().into_inner();
    assert!(alone.success, "{}", alone.reason);

    let shared = register("b", "queues");
    client.register_resource_manager(as_caller(shared, b.as_ref())).await.unwrap();
    let status = admin.update_config(update(&a)).await.unwrap_err();
    assert_eq!(refused(&status), (Code::PermissionDenied, "ADMIN_DENIED".into()));
    let text = status.message();
    assert!(text.starts_with("policy group `queues` is shared with another"), "{text}");
    let tried = admin.validate_config(update(&a)).await.unwrap().into_inner();
    assert!(tried.success, "what would happen it may ask: {}", tried.reason);
    let by_ops = admin.update_config(update(&ops)).await.unwrap().into_inner();
    assert!(by_ops.success, "{}", by_ops.reason);
    let gone = v1::DeregisterResourceManagerRequest { rm_id: "b".into(), ..Default::default() };
    admin.deregister_resource_manager(as_caller(gone, b.as_ref())).await.unwrap();
    let again = admin.update_config(update(&a)).await.unwrap().into_inner();
    assert!(again.success, "{}", again.reason);
}

fn as_caller<T>(message: T, token: Option<&AsciiMetadataValue>) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", token.clone());
    }
    request
}

const SERVICES: [&str; 6] = [
    "",
    "monoceros.si.v1.Scheduler",
    "monoceros.v1.AdminService",
    "monoceros.v1.MetricsService",
    "monoceros.v1.CallbackService",
    // The name of the service in the published interface.
    "si.v1.Scheduler",
];

#[tokio::test]
async fn services_are_healthy_until_shutdown() {
    let mut service = Service::start();
    let mut health = HealthClient::new(channel(&service).await);
    let check = |service: &str| HealthCheckRequest { service: service.into() };
    let mut watched = Vec::new();
    for name in SERVICES {
        let answer = health.check(check(name)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{name}");
        watched.push(health.watch(check(name)).await.unwrap().into_inner());
    }
    let unknown = health.check(check("si.v1.Nothing")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    for watched in &mut watched {
        let first = watched.message().await.unwrap().unwrap();
        assert_eq!(first.status(), ServingStatus::Serving);
    }
    service.terminate();
    for mut watched in watched {
        let next = timeout(PATIENCE, watched.message()).await.unwrap().unwrap().unwrap();
        assert_eq!(next.status(), ServingStatus::NotServing);
        let end = timeout(PATIENCE, watched.message()).await.unwrap().unwrap_err();
        assert_eq!(refused(&end), (Code::Unavailable, "SHUTTING_DOWN".into()));
    }
    // Watchers do not delay the end of the service. A delay would take the grace period and log a
    // warning.
    assert_eq!(service.wait(Duration::from_secs(3)).await.code(), Some(0));
}

#[tokio::test]
async fn reflection_lists_the_services_and_knows_their_messages() {
    use reflection::server_reflection_request::MessageRequest;
    use reflection::server_reflection_response::MessageResponse;

    let service = Service::start();
    let mut client =
        reflection::server_reflection_client::ServerReflectionClient::new(channel(&service).await);
    let request = |message_request| reflection::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(message_request),
    };
    let requests = tokio_stream::iter([
        request(MessageRequest::ListServices(String::new())),
        request(MessageRequest::FileContainingSymbol("monoceros.v1.QueueInfo".into())),
    ]);
    let mut answers = client.server_reflection_info(requests).await.unwrap().into_inner();
    let first = answers.message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(list) = first else { panic!("{first:?}") };
    let names: Vec<_> = list.service.iter().map(|service| &*service.name).collect();
    for name in SERVICES.into_iter().skip(1).chain([
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ]) {
        assert!(names.contains(&name), "no {name} in {names:?}");
    }
    let second = answers.message().await.unwrap().unwrap().message_response.unwrap();
    assert!(matches!(second, MessageResponse::FileDescriptorResponse(_)), "{second:?}");
}

#[tokio::test]
async fn older_reflection_clients_work_and_do_not_delay_shutdown() {
    use v1alpha::server_reflection_request::MessageRequest;

    let mut service = Service::start();
    let mut client =
        v1alpha::server_reflection_client::ServerReflectionClient::new(channel(&service).await);
    let list = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let (sender, requests) = tokio::sync::mpsc::channel(1);
    sender.send(list).await.unwrap();
    let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
    let mut answers = client.server_reflection_info(requests).await.unwrap().into_inner();
    assert!(answers.message().await.unwrap().is_some());
    service.terminate();
    let end = timeout(PATIENCE, answers.message()).await.unwrap().unwrap_err();
    assert_eq!(refused(&end), (Code::Unavailable, "SHUTTING_DOWN".into()));
    assert_eq!(service.wait(Duration::from_secs(3)).await.code(), Some(0));
}

#[tokio::test]
async fn compression_works_in_both_directions() {
    let service = Service::start();
    let plain = service.client().await;
    let gzip = CompressionEncoding::Gzip;
    let mut compressing = plain.clone().send_compressed(gzip).accept_compressed(gzip);
    let big = QUEUES.to_owned() + &"# a comment\n".repeat(10_000);
    let answer = compressing.register_resource_manager(registration("rm", &big)).await.unwrap();
    assert_eq!(answer.metadata().get("grpc-encoding").unwrap(), "gzip");
    let answer = plain.clone().register_resource_manager(registration("rm", &big)).await.unwrap();
    assert!(answer.metadata().get("grpc-encoding").is_none());

    let rm = Rm::open(compressing, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![ask("app", "x")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    let mut admin = AdminServiceClient::new(channel(&service).await).accept_compressed(gzip);
    let answer = admin.list_nodes(v1::ListNodesRequest::default()).await.unwrap();
    assert_eq!(answer.metadata().get("grpc-encoding").unwrap(), "gzip");
    assert_eq!(answer.into_inner().nodes[0].node_id, "n1");
}

#[tokio::test]
async fn compression_is_optional_and_bombs_refused() {
    let service = Service::start_with(&[
        ("GRPC__SEND_GZIP", "false"),
        ("GRPC__MAX_RECV_MESSAGE_BYTES", "100000"),
    ]);
    let gzip = CompressionEncoding::Gzip;
    let mut client = service.client().await.send_compressed(gzip).accept_compressed(gzip);
    let answer = client.register_resource_manager(registration("rm", QUEUES)).await.unwrap();
    assert!(answer.metadata().get("grpc-encoding").is_none());
    let bomb = registration("rm", &" ".repeat(10_000_000));
    let status = client.register_resource_manager(bomb).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
}
