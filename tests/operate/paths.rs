//! Alternative paths of the services, for clients of the published interface and of our older
//! package names.

use futures::stream::{self, Stream, StreamExt as _};
use monoceros::grpc::stubs::DESCRIPTORS;
use monoceros::grpc::stubs::scheduler_client::SchedulerClient;
use monoceros_proto::si::v1 as si;
use prost_reflect::DescriptorPool;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::http;
use tonic::{Code, Request};
use tower::ServiceExt as _;

use crate::harness::{PATIENCE, QUEUES, Service, node, reason_of, registration};

/// A connection on which the service `name` is called `other`.
async fn calling(
    service: &Service,
    name: &'static str,
    other: &'static str,
) -> impl GrpcService<Body, ResponseBody = Body, Error: Send + Sync, Future: Send> + Clone {
    service.channel().await.map_request(move |mut request: http::Request<Body>| {
        let uri = request.uri().to_string();
        assert!(uri.contains(&format!("/{name}/")), "{uri} is none of `{name}`");
        *request.uri_mut() = uri.replace(name, other).parse().unwrap();
        request
    })
}

/// The requests of a stream with one message, which is not closed.
fn staying_open<T: Send + 'static>(message: T) -> impl Stream<Item = T> + Send + 'static {
    stream::iter([message]).chain(stream::pending())
}

#[tokio::test]
async fn streams_on_any_path_belong_to_one_session() {
    let service = Service::start();
    let published = ("monoceros.si.v1.Scheduler", "si.v1.Scheduler");
    let mut theirs = SchedulerClient::new(calling(&service, published.0, published.1).await);
    let answer = theirs.register_resource_manager(registration("rm", QUEUES)).await.unwrap();
    let session = answer.metadata().get("x-si-session").unwrap().clone();
    let nodes = |name: &str| {
        let node = si::NodeRequest { nodes: vec![node(name, 4, 4)], ..Default::default() };
        let mut request = Request::new(staying_open(node));
        request.metadata_mut().insert("x-si-rm-id", "rm".parse().unwrap());
        request.metadata_mut().insert("x-si-session", session.clone());
        request
    };
    let mut old = theirs.update_node(nodes("n1")).await.unwrap().into_inner();
    let response = timeout(PATIENCE, old.message()).await.unwrap().unwrap().unwrap();
    assert_eq!(response.accepted[0].node_id, "n1");

    // Both paths are one service: the stream on our own path displaces the other.
    let mut ours = service.client().await;
    let mut new = ours.update_node(nodes("n2")).await.unwrap().into_inner();
    // Messages that the other stream may not have delivered are sent again.
    let mut accepted = Vec::new();
    while accepted != ["n1", "n2"] {
        let response = timeout(PATIENCE, new.message()).await.unwrap().unwrap().unwrap();
        accepted.extend(response.accepted.into_iter().map(|node| node.node_id));
    }
    let end = timeout(PATIENCE, old.message()).await.unwrap().unwrap_err();
    assert_eq!(reason_of(&end), "STREAM_DISPLACED");
}

#[tokio::test]
async fn unknown_service_paths_are_refused() {
    let service = Service::start();
    for other in ["si.v1.SchedulerToo", "si.v2.Scheduler", "si.v1.AdminService"] {
        let nobody = calling(&service, "monoceros.si.v1.Scheduler", other).await;
        let mut nobody = SchedulerClient::new(nobody);
        let refused = nobody.register_resource_manager(registration("rm", ""));
        assert_eq!(refused.await.unwrap_err().code(), Code::Unimplemented, "{other}");
    }
}

#[test]
fn both_scheduler_names_have_the_same_methods() {
    let all = DescriptorPool::decode(DESCRIPTORS).unwrap();
    for message in all.all_messages() {
        let name = message.full_name();
        let own = name.starts_with("monoceros.") || name.starts_with("google.protobuf.");
        assert!(own, "`{name}` is not in a package of ours");
    }
    let methods = |name: &str| -> Vec<_> {
        let service = all.get_service_by_name(name).unwrap_or_else(|| panic!("no {name}"));
        let methods = service.methods();
        methods.map(|method| (method.name().to_owned(), method.input(), method.output())).collect()
    };
    let real = methods("monoceros.si.v1.Scheduler");
    assert!(!real.is_empty());
    assert_eq!(real, methods("si.v1.Scheduler"));
}
