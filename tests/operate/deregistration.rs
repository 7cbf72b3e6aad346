//! Listing and ending sessions over the admin service.

use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_proto::v1;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use crate::harness::{self, Rm, Service, ask, reason_of};

async fn admin(service: &Service) -> AdminServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    AdminServiceClient::new(endpoint.connect().await.unwrap())
}

/// Starts two nodes, an application with one allocation, and all three streams.
async fn busy(service: &Service) -> Rm {
    let rm = Rm::register(service, "rm").await.with_nodes(&["n1", "n2"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![ask("app", "x")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    rm
}

async fn sessions(admin: &mut AdminServiceClient<Channel>) -> Vec<v1::SessionInfo> {
    admin.list_sessions(v1::ListSessionsRequest {}).await.unwrap().into_inner().sessions
}

fn leave(session_id: u64) -> v1::DeregisterResourceManagerRequest {
    let (rm_id, reason) = ("rm".into(), "moved away".into());
    v1::DeregisterResourceManagerRequest { rm_id, session_id, reason }
}

#[tokio::test]
async fn a_deregistered_manager_is_removed_and_notified() {
    let service = Service::start();
    let rm = busy(&service).await;
    let mut admin = admin(&service).await;
    let gone = admin.deregister_resource_manager(leave(0)).await.unwrap().into_inner();
    let counts = (gone.released_allocations, gone.removed_nodes, gone.removed_applications);
    assert_eq!(counts, (1, 2, 1));
    rm.until("streams ended", |seen| seen.ends.len() == 3).await;
    for stream in ["node", "application", "allocation"] {
        let end = rm.read(|seen| seen.end(stream));
        assert_eq!(end, Some((Code::Aborted, "DEREGISTERED".to_owned())), "{stream}");
    }
    rm.read(|seen| assert!(seen.released.is_empty(), "not another word"));
    assert!(sessions(&mut admin).await.is_empty());

    let late = Rm::open(service.client().await, "rm").await;
    late.send_nodes(vec![]).await;
    late.until("refused", |seen| seen.end("node").is_some()).await;
    let end = late.read(|seen| seen.end("node").unwrap());
    assert_eq!(end, (Code::FailedPrecondition, "RM_NOT_REGISTERED".to_owned()));
    let again = admin.deregister_resource_manager(leave(0)).await.unwrap().into_inner();
    assert_eq!(again, v1::DeregisterResourceManagerResponse::default());
}

#[tokio::test]
async fn a_deregistration_needs_the_matching_session() {
    let service = Service::start();
    let rm = busy(&service).await;
    let mut admin = admin(&service).await;
    let other = admin.deregister_resource_manager(leave(7)).await.unwrap().into_inner();
    assert_eq!(other, v1::DeregisterResourceManagerResponse::default());
    rm.send_allocations(vec![], vec![ask("app", "y")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 2).await;
    let number = sessions(&mut admin).await[0].session_id;
    let gone = admin.deregister_resource_manager(leave(number)).await.unwrap().into_inner();
    assert_eq!(gone.released_allocations, 2);

    let nameless = v1::DeregisterResourceManagerRequest { rm_id: String::new(), ..leave(0) };
    let status = admin.deregister_resource_manager(nameless).await.unwrap_err();
    assert_eq!((status.code(), &*reason_of(&status)), (Code::InvalidArgument, "FIELD_INVALID"));
}

#[tokio::test]
async fn sessions_are_listed_with_their_state() {
    let service = Service::start();
    let _rm = busy(&service).await;
    let _idle = Rm::register(&service, "idle").await;
    let mut admin = admin(&service).await;
    let answer = admin.list_sessions(v1::ListSessionsRequest {}).await.unwrap().into_inner();
    assert!(!answer.scheduler_id.is_empty());
    let [idle, rm] = &answer.sessions[..] else { panic!("{answer:?}") };
    assert_eq!((&*idle.rm_id, &*idle.state, &*idle.dialect), ("idle", "Running(unattached)", ""));
    assert_eq!((&*rm.rm_id, &*rm.state, &*rm.dialect), ("rm", "Running", "split"));
    assert_eq!((&*rm.version, &*rm.policy_group), ("test", "queues"));
    let mut open = rm.open_streams.clone();
    open.sort();
    assert_eq!(open, ["allocation", "application", "node"]);
    assert!(rm.session_id > 0 && rm.registered_at_nano > 0 && rm.paused_at_nano == 0);
    assert_eq!(rm.lost, "");
}

#[tokio::test]
async fn a_resync_requires_registration() {
    let service = Service::start();
    let rm = busy(&service).await;
    let mut admin = admin(&service).await;
    let request = |rm_id: &str| v1::TriggerResyncRequest {
        rm_id: rm_id.into(),
        reason: "the books look odd".into(),
    };
    let answer = admin.trigger_resync(request("rm")).await.unwrap().into_inner();
    assert_eq!(answer.closed_streams, 3);
    rm.until("streams ended", |seen| seen.ends.len() == 3).await;
    rm.read(|seen| {
        let status = seen.ends["node"].as_ref().unwrap();
        assert_eq!(reason_of(status), "RESYNC_REQUIRED");
        assert!(status.message().contains("the books look odd"), "{}", status.message());
    });
    let session = &sessions(&mut admin).await[0];
    assert_eq!((&*session.state, &*session.lost), ("Paused", "the books look odd"));
    let again = Rm::register(&service, "rm").await;
    again.with_nodes(&["n1"]).await;

    for (rm_id, code, reason) in [
        ("", Code::InvalidArgument, "FIELD_INVALID"),
        ("six", Code::FailedPrecondition, "RM_NOT_REGISTERED"),
    ] {
        let status = admin.trigger_resync(request(rm_id)).await.unwrap_err();
        assert_eq!((status.code(), &*reason_of(&status)), (code, reason));
    }
}

#[tokio::test]
async fn sessions_are_listed_and_ended_from_a_shell() {
    let service = Service::start();
    let _rm = busy(&service).await;
    let address = service.grpc.to_string();
    let shell = |arguments: &[&str]| {
        harness::run(&[&["--grpc", &*address, "--rm", "rm"], arguments].concat())
    };
    let (code, stdout, _) = shell(&["get", "rms"]);
    assert_eq!(code, Some(0));
    let row: Vec<_> = stdout.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[1], row[2]), ("rm", "Running", "split"));
    assert_eq!(shell(&["resync"]).1, "3 streams closed\n");
    let expected = "1 applications, 1 allocations, 2 nodes forgotten\n";
    assert_eq!(shell(&["deregister", "--yes"]).1, expected);
}
