//! The metrics service (scheduler-interface chapter, 3.10 and 3.11).
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Rm, Service, ask, node, reason_of};
use monoceros::grpc::stubs::si::metrics_service_client::MetricsServiceClient;
use monoceros_proto::si::v1 as si;
use serde_json::Value;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

async fn figures(service: &Service) -> MetricsServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    MetricsServiceClient::new(endpoint.connect().await.unwrap())
}

/// The parts of a dump.
async fn parts(
    client: &mut MetricsServiceClient<Channel>,
    request: si::StateDumpParameters,
) -> Vec<si::StateDumpPart> {
    let mut stream = client.get_state_dump(request).await.unwrap().into_inner();
    let mut parts = Vec::new();
    while let Some(part) = stream.message().await.unwrap() {
        parts.push(part);
    }
    parts
}

fn document(parts: Vec<si::StateDumpPart>) -> Value {
    let text: Vec<u8> = parts.into_iter().flat_map(|part| part.data).collect();
    serde_json::from_slice(&text).unwrap()
}

#[tokio::test]
async fn d1_the_state_dump_is_the_one_of_rest() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![ask("app", "x")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    let mut client = figures(&service).await;
    let request = si::StateDumpParameters { include_rm: true, ..Default::default() };
    let mut dump = document(parts(&mut client, request).await);
    assert_eq!(dump["applications"][0]["allocations"][0]["nodeId"], "n1");
    assert_eq!(dump["nodes"][0]["partitionName"], "default");
    assert_eq!(dump["nodes"][0]["nodesInfo"][0]["nodeID"], "n1");
    assert_eq!(dump["queues"][0]["queuename"], "root");
    assert_eq!(dump["partitions"][0]["clusterId"], "rm");
    assert_eq!(dump["clusterInfo"][0]["clusterName"], "kubernetes");
    assert_eq!(dump["logLevel"], "info");
    assert_eq!(dump["config"]["Text"], harness::QUEUES);
    assert!(dump["rmDiagnostics"]["empty"].is_string(), "{}", dump["rmDiagnostics"]);

    let text = service.get("/debug/fullstatedump").await;
    assert!(text.starts_with("{\n  \"timestamp\": "), "indented by two");
    let mut shown: Value = serde_json::from_str(&text).unwrap();
    for document in [&mut dump, &mut shown] {
        assert!(document["timestamp"].take().is_number());
    }
    assert_eq!(dump, shown);
}

#[tokio::test]
async fn d3_a_dump_is_of_everybody_or_of_one() {
    let service = Service::start();
    let _one = Rm::register(&service, "one").await;
    let _two = Rm::register(&service, "two").await;
    let mut client = figures(&service).await;
    let wanted = |rm_id: &str, sections: &[&str]| si::StateDumpParameters {
        rm_id: rm_id.into(),
        sections: sections.iter().map(|&section| section.into()).collect(),
        include_rm: true,
    };
    let all = document(parts(&mut client, wanted("", &[])).await);
    for key in ["partitions", "queues", "nodes", "clusterInfo"] {
        assert_eq!(all[key].as_array().unwrap().len(), 2, "{key}");
    }
    let diagnostics = all["rmDiagnostics"].as_object().unwrap();
    assert_eq!(diagnostics.keys().collect::<Vec<_>>(), ["one", "two"]);
    let part = document(parts(&mut client, wanted("two", &["partitions", "queues"])).await);
    assert_eq!(part.as_object().unwrap().keys().collect::<Vec<_>>(), ["partitions", "queues"]);
    assert_eq!(part["partitions"].as_array().unwrap().len(), 1);
    assert_eq!(part["partitions"][0]["clusterId"], "two");

    for (request, code, named) in [
        (wanted("six", &[]), Code::FailedPrecondition, "`six`"),
        (wanted("", &["queus"]), Code::InvalidArgument, "`queus`"),
    ] {
        let status = client.get_state_dump(request).await.unwrap_err();
        assert_eq!(status.code(), code);
        assert!(status.message().contains(named), "{}", status.message());
        assert!(!reason_of(&status).is_empty());
    }
}

#[tokio::test]
async fn d6_large_dumps_come_in_parts_of_a_mebibyte_also_to_two_at_a_time() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await;
    rm.send_nodes((0..4_000).map(|n| node(&format!("node-{n}"), 4_000, 16)).collect()).await;
    rm.until("nodes", |seen| seen.accepted_nodes.len() == 4_000).await;
    let (mut one, mut two) = (figures(&service).await, figures(&service).await);
    let request = si::StateDumpParameters::default;
    let (one, two) = tokio::join!(parts(&mut one, request()), parts(&mut two, request()));
    for parts in [one, two] {
        assert!(parts.len() > 1);
        assert!(parts.iter().all(|part| part.data.len() <= 1 << 20));
        assert!(parts.iter().enumerate().all(|(index, part)| part.index as usize == index));
        assert_eq!(parts.iter().filter(|part| part.last).count(), 1);
        assert_eq!(document(parts)["nodes"][0]["nodesInfo"].as_array().unwrap().len(), 4_000);
    }
}
