//! Access rights, which are the same over both edges.

use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros::grpc::stubs::v1::metrics_service_client::MetricsServiceClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tonic::{Code, Request, Status};

use crate::harness::{QUEUES, Service, TempFile, reason_of, registration};

/// A service with the resource managers `a` and `b`. The shim of each has a token of its name,
/// `dash` may read everything, and `ops` administers.
async fn service(more: &str) -> (Service, [TempFile; 2]) {
    let (service, files) = unregistered(more);
    let mut client = service.client().await;
    for rm in ["a", "b"] {
        client.register_resource_manager(as_whom(rm, registration(rm, QUEUES))).await.unwrap();
    }
    (service, files)
}

/// The same before any resource manager has registered.
fn unregistered(more: &str) -> (Service, [TempFile; 2]) {
    let tokens = "a:t-a\nb:t-b\ndash:t-dash\nops:t-ops\n";
    let tokens = TempFile::new(&format!("rights-tokens-{}", more.len()), tokens);
    let settings = format!(
        "{more}\n[identity]\ntokens = '{}'\n\
         [[identity.rules]]\ntoken = 'a'\nrm_ids = ['a']\n\
         [[identity.rules]]\ntoken = 'b'\nrm_ids = ['b']\n\
         [[identity.rules]]\ntoken = 'dash'\nread = true\n\
         [[identity.rules]]\ntoken = 'ops'\nadmin = true\n",
        tokens.path()
    );
    let settings = TempFile::new(&format!("rights-{}.toml", more.len()), &settings);
    (Service::start_configured(settings.path()), [tokens, settings])
}

fn as_whom<T>(who: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if !who.is_empty() {
        let token = format!("Bearer t-{who}").parse().unwrap();
        request.metadata_mut().insert("authorization", token);
    }
    request
}

async fn rest(service: &Service, who: &str, path: &str) -> (u16, String) {
    let token = format!("Bearer t-{who}");
    let headers = [("authorization", token.as_str())];
    let headers = if who.is_empty() { &headers[..0] } else { &headers };
    let answer = service.http("GET", path, headers, "").await;
    (answer.status, answer.body)
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Status>) -> String {
    let status = answer.unwrap_err();
    let code = status.code();
    assert!(matches!(code, Code::Unauthenticated | Code::PermissionDenied), "{status:?}");
    reason_of(&status)
}

#[tokio::test]
async fn a_managers_items_need_its_shim_or_a_reader() {
    let (service, _files) = service("").await;
    let mut admin = AdminServiceClient::new(service.channel().await);
    for (who, status, reason) in [
        ("", 401, Some("UNAUTHENTICATED")),
        ("b", 403, Some("RM_DENIED")),
        ("a", 200, None),
        ("dash", 200, None),
        ("ops", 200, None),
    ] {
        for path in ["queues", "nodes", "applications/active", "placementrules", "usage/users"] {
            let path = format!("/ws/v1/partition/%5Ba%5Ddefault/{path}");
            assert_eq!(rest(&service, who, &path).await.0, status, "{path} by `{who}`");
        }
        assert_eq!(rest(&service, who, "/ws/v1/config?rm=a").await.0, status, "by `{who}`");
        let queues = v1::GetQueuesRequest { rm_id: "a".into(), ..Default::default() };
        let nodes = v1::ListNodesRequest { rm_id: "a".into(), ..Default::default() };
        let config = v1::GetConfigRequest { rm_id: "a".into(), ..Default::default() };
        let answers = [
            admin.get_queues(as_whom(who, queues)).await.map(drop),
            admin.list_nodes(as_whom(who, nodes)).await.map(drop),
            admin.get_config(as_whom(who, config)).await.map(drop),
        ];
        for answer in answers {
            match reason {
                Some(reason) => assert_eq!(refusal(answer), reason, "by `{who}`"),
                None => answer.unwrap(),
            }
        }
    }
}

#[tokio::test]
async fn loaded_queues_need_a_reader_of_all() {
    let (service, _files) = unregistered("# loaded");
    let mut admin = AdminServiceClient::new(service.channel().await);
    let queues = v1::GetQueuesRequest::default;
    assert_eq!(refusal(admin.get_queues(as_whom("a", queues())).await), "READ_DENIED");
    let config = v1::GetConfigRequest::default;
    assert_eq!(refusal(admin.get_config(as_whom("a", config())).await), "READ_DENIED");
    let found = admin.get_queues(as_whom("dash", queues())).await.unwrap().into_inner();
    assert!(found.is_default && found.root.is_some());
    let found = admin.get_config(as_whom("dash", config())).await.unwrap().into_inner();
    assert!(found.is_default && !found.config.is_empty());
}

#[tokio::test]
async fn partitions_are_those_of_managers_that_the_caller_may_read() {
    let (service, _files) = service("# partitions").await;
    let mut admin = AdminServiceClient::new(service.channel().await);
    for (who, rm, n) in [("dash", "", 2), ("dash", "b", 1), ("ops", "", 2), ("a", "a", 1)] {
        let request = v1::ListPartitionsRequest { rm_id: rm.to_owned() };
        let found = admin.list_partitions(as_whom(who, request)).await.unwrap().into_inner();
        assert_eq!(found.partitions.len(), n, "{who} {rm}");
    }
    let of_b = v1::ListPartitionsRequest { rm_id: "b".to_owned() };
    assert_eq!(refusal(admin.list_partitions(as_whom("a", of_b)).await), "RM_DENIED");
}

#[tokio::test]
async fn shared_items_need_a_reader() {
    let (service, _files) = service("").await;
    let mut metrics = MetricsServiceClient::new(service.channel().await);
    let mut admin = AdminServiceClient::new(service.channel().await);
    for (who, status, reason) in [
        ("", 401, Some("UNAUTHENTICATED")),
        ("a", 403, Some("READ_DENIED")),
        ("dash", 200, None),
        ("ops", 200, None),
    ] {
        assert_eq!(rest(&service, who, "/debug/fullstatedump").await.0, status, "by `{who}`");
        assert_eq!(rest(&service, who, "/ws/v1/metrics").await.0, status, "by `{who}`");
        let everything = v1::StateDumpParameters::default();
        let answers = [
            metrics.get_state_dump(as_whom(who, everything)).await.map(drop),
            metrics.stream_events(as_whom(who, v1::EventParameters::default())).await.map(drop),
            admin.list_sessions(as_whom(who, v1::ListSessionsRequest {})).await.map(drop),
        ];
        for answer in answers {
            match reason {
                Some(reason) => assert_eq!(refusal(answer), reason, "by `{who}`"),
                None => answer.unwrap(),
            }
        }
    }
    let own = v1::StateDumpParameters { rm_id: "a".into(), ..Default::default() };
    metrics.get_state_dump(as_whom("a", own.clone())).await.unwrap();
    assert_eq!(refusal(metrics.get_state_dump(as_whom("b", own)).await), "RM_DENIED");
}

#[tokio::test]
async fn readers_cannot_change_anything() {
    let (service, _files) = service("").await;
    let mut admin = AdminServiceClient::new(service.channel().await);
    let mut metrics = MetricsServiceClient::new(service.channel().await);
    let update = si::UpdateConfigurationRequest {
        rm_id: "a".into(),
        config: QUEUES.to_owned(),
        ..Default::default()
    };
    let deregister =
        v1::DeregisterResourceManagerRequest { rm_id: "a".into(), ..Default::default() };
    let resync = v1::TriggerResyncRequest { rm_id: "a".into(), ..Default::default() };
    let drain = v1::DrainNodesRequest {
        rm_id: "a".into(),
        node_ids: vec!["n".into()],
        ..Default::default()
    };
    let reports = v1::UtilizationReports { rm_id: "a".into(), ..Default::default() };
    for answer in [
        admin.update_config(as_whom("dash", update.clone())).await.map(drop),
        admin.deregister_resource_manager(as_whom("dash", deregister)).await.map(drop),
        admin.trigger_resync(as_whom("dash", resync)).await.map(drop),
        admin.drain_nodes(as_whom("dash", drain)).await.map(drop),
        metrics.report_utilization(as_whom("dash", tokio_stream::iter([reports]))).await.map(drop),
    ] {
        assert_eq!(refusal(answer), "RM_DENIED");
    }
    for answer in [
        admin.shutdown(as_whom("dash", v1::ShutdownRequest::default())).await.map(drop),
        admin
            .set_partition_state(as_whom("dash", v1::SetPartitionStateRequest::default()))
            .await
            .map(drop),
    ] {
        assert_eq!(refusal(answer), "ADMIN_DENIED");
    }
    let tried = admin.validate_config(as_whom("dash", update)).await.unwrap().into_inner();
    assert!(tried.success, "to try a configuration is to read");
    let mut client = service.client().await;
    let registered = client.register_resource_manager(as_whom("dash", registration("c", QUEUES)));
    assert_eq!(refusal(registered.await), "RM_DENIED");
}

#[tokio::test]
async fn probes_page_and_preflights_are_open() {
    let (service, _files) = service("[rest]\nopen_metrics = true\n").await;
    for path in ["/", "/healthz", "/ws/v1/metrics"] {
        assert_eq!(rest(&service, "", path).await.0, 200, "{path}");
    }
    let nodes = "/ws/v1/partition/default/nodes";
    assert_eq!(rest(&service, "", nodes).await.0, 401);
    let first = service.http("OPTIONS", nodes, &[("origin", "http://elsewhere")], "").await;
    assert_eq!(first.status, 200);
    let allowed = "access-control-allow-headers: x-requested-with,content-type,accept,origin,\
                   authorization";
    assert!(first.head.contains(allowed), "{}", first.head);
    let mut health = tonic_health::pb::health_client::HealthClient::new(service.channel().await);
    health.check(tonic_health::pb::HealthCheckRequest::default()).await.unwrap();
}

#[tokio::test]
async fn a_shim_does_not_see_other_managers() {
    let (service, _files) = service("").await;
    let (_, partitions) = rest(&service, "b", "/ws/v1/partitions").await;
    assert!(
        partitions.contains(r#""clusterId":"b""#) && !partitions.contains(r#""clusterId":"a""#)
    );
    let (_, clusters) = rest(&service, "b", "/ws/v1/clusters").await;
    assert!(clusters.contains(r#""rmId":"b""#) && !clusters.contains(r#""rmId":"a""#));
    let refused = rest(&service, "b", "/ws/v1/partition/%5Ba%5Ddefault/queues").await;
    let unheard_of = rest(&service, "b", "/ws/v1/partition/%5Bzz%5Ddefault/queues").await;
    assert_eq!((refused.0, unheard_of.0), (403, 403));
    assert_eq!(refused.1.replace('a', ""), unheard_of.1.replace("zz", "").replace('a', ""));
}
