//! The metrics service over gRPC: state dumps, scale-up signals, and events.

use std::time::Duration;

use monoceros::grpc::stubs::v1::metrics_service_client::MetricsServiceClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use serde_json::Value;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Streaming};

use crate::harness::{PATIENCE, Rm, Service, ask, node, reason_of, registration, resource};

async fn metrics(service: &Service) -> MetricsServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    MetricsServiceClient::new(endpoint.connect().await.unwrap())
}

async fn parts(
    client: &mut MetricsServiceClient<Channel>,
    request: v1::StateDumpParameters,
) -> Vec<v1::StateDumpPart> {
    let mut stream = client.get_state_dump(request).await.unwrap().into_inner();
    let mut parts = Vec::new();
    while let Some(part) = stream.message().await.unwrap() {
        parts.push(part);
    }
    parts
}

fn document(parts: Vec<v1::StateDumpPart>) -> Value {
    let text: Vec<u8> = parts.into_iter().flat_map(|part| part.data).collect();
    serde_json::from_slice(&text).unwrap()
}

#[tokio::test]
async fn the_state_dump_is_the_one_of_rest() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![ask("app", "x")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    let mut client = metrics(&service).await;
    let request = v1::StateDumpParameters { include_rm: true, ..Default::default() };
    let mut dump = document(parts(&mut client, request).await);
    assert_eq!(dump["applications"][0]["allocations"][0]["nodeId"], "n1");
    assert_eq!(dump["nodes"][0]["partitionName"], "default");
    assert_eq!(dump["nodes"][0]["nodesInfo"][0]["nodeID"], "n1");
    assert_eq!(dump["queues"][0]["queuename"], "root");
    assert_eq!(dump["partitions"][0]["clusterId"], "rm");
    assert_eq!(dump["clusterInfo"][0]["clusterName"], "kubernetes");
    assert_eq!(dump["logLevel"], "info");
    assert_eq!(dump["config"]["Partitions"][0]["Queues"][0]["Queues"][1]["Name"], "b");
    assert_eq!(dump["config"]["DeadlockTimeoutSeconds"], 60);
    assert_eq!(dump["placementRules"][0]["partition"], "default");
    assert_eq!(dump["placementRules"][0]["rules"][0]["name"], "provided");
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
async fn a_dump_is_of_everybody_or_of_one() {
    let service = Service::start();
    let _one = Rm::register(&service, "one").await;
    let _two = Rm::register(&service, "two").await;
    let mut client = metrics(&service).await;
    let wanted = |rm_id: &str, sections: &[&str]| v1::StateDumpParameters {
        rm_id: rm_id.into(),
        sections: sections.iter().map(|&section| section.into()).collect(),
        include_rm: true,
    };
    let all = document(parts(&mut client, wanted("", &[])).await);
    for key in ["partitions", "queues", "nodes", "clusterInfo", "placementRules"] {
        assert_eq!(all[key].as_array().unwrap().len(), 2, "{key}");
    }
    let diagnostics = all["rmDiagnostics"].as_object().unwrap();
    assert_eq!(diagnostics.keys().collect::<Vec<_>>(), ["one", "two"]);
    let part = document(parts(&mut client, wanted("two", &["partitions", "queues"])).await);
    assert_eq!(part.as_object().unwrap().keys().collect::<Vec<_>>(), ["partitions", "queues"]);
    assert_eq!(part["partitions"].as_array().unwrap().len(), 1);
    assert_eq!(part["partitions"][0]["clusterId"], "two");
    let part = document(parts(&mut client, wanted("two", &["clusterInfo"])).await);
    let builds = part["clusterInfo"][0]["rmBuildInformation"].as_array().unwrap();
    assert_eq!(builds.iter().map(|build| &build["rmId"]).collect::<Vec<_>>(), ["two"]);

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
async fn large_dumps_come_in_parts_of_a_mebibyte() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await;
    rm.send_nodes((0..4_000).map(|n| node(&format!("node-{n}"), 4_000, 16)).collect()).await;
    rm.until("nodes", |seen| seen.accepted_nodes.len() == 4_000).await;
    let (mut one, mut two) = (metrics(&service).await, metrics(&service).await);
    let request = v1::StateDumpParameters::default;
    let (one, two) = tokio::join!(parts(&mut one, request()), parts(&mut two, request()));
    for parts in [one, two] {
        assert!(parts.len() > 1);
        assert!(parts.iter().all(|part| part.data.len() <= 1 << 20));
        assert!(parts.iter().enumerate().all(|(index, part)| part.index as usize == index));
        assert_eq!(parts.iter().filter(|part| part.last).count(), 1);
        assert_eq!(document(parts)["nodes"][0]["nodesInfo"].as_array().unwrap().len(), 4_000);
    }
}

/// `root.a` may use two cores. There are two nodes of four.
const SMALL_A: &str = r#"
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
            resources:
              max: {vcore: 2}
          - name: b
"#;

/// Asks for more than one node has, for more than the queue's quota, and for a full node.
async fn short_of_machines(service: &Service) -> Rm {
    let mut client = service.client().await;
    client.register_resource_manager(registration("rm", SMALL_A)).await.unwrap();
    let rm = Rm::open(client, "rm").await.with_nodes(&["n1", "n2"]).await;
    let rm = rm.with_application("small", "root.a").await.with_application("large", "root.b").await;
    let of = |application: &str, key: &str, vcore| si::Allocation {
        resource_per_alloc: Some(resource(vcore, 1)),
        ..ask(application, key)
    };
    let bound = si::Allocation {
        allocation_tags: [("yunikorn.apache.org/requiredNode".into(), "n1".into())].into(),
        ..of("large", "bound", 5_000)
    };
    let fitting = si::Allocation {
        allocation_tags: [("team".into(), "x".into())].into(),
        ..of("large", "fitting", 6_000)
    };
    rm.send_allocations(vec![], vec![of("small", "quota", 3_000), bound, fitting], vec![]).await;
    rm.send_allocations(vec![], vec![of("small", "last", 1_000)], vec![]).await;
    rm.until("the last is placed", |seen| seen.new.len() == 1).await;
    rm
}

fn keys(set: &si::AutoScalingMetrics) -> Vec<&str> {
    set.outstanding_requests.iter().map(|request| &*request.request_id).collect()
}

async fn next<T>(stream: &mut Streaming<T>) -> T {
    timeout(PATIENCE, stream.message()).await.unwrap().unwrap().unwrap()
}

#[tokio::test]
async fn only_requests_short_of_nodes_are_reported() {
    let service = Service::start();
    let _rm = short_of_machines(&service).await;
    let mut client = metrics(&service).await;
    let request = v1::AutoScalingParameters::default;
    let set = client.get_auto_scaling_metrics(request()).await.unwrap().into_inner();
    assert_eq!(keys(&set), ["fitting"]);
    let pending = &set.outstanding_requests[0];
    assert_eq!(pending.resource.as_ref().unwrap().resources["vcore"].value, 6_000);
    for (tag, value) in [
        ("team", "x"),
        ("si/application-id", "large"),
        ("si/node-partition", "default"),
        ("yunikorn.apache.org/queue", "root.b"),
    ] {
        assert_eq!(pending.tags[tag], value, "{tag}");
    }
    assert!(pending.tags["yunikorn.apache.org/pendingSince"].parse::<u64>().unwrap() > 0);
    let named = v1::AutoScalingParameters { partition_name: "default".into(), ..request() };
    let named = client.get_auto_scaling_metrics(named).await.unwrap().into_inner();
    assert_eq!(named, set);

    let unknown = v1::AutoScalingParameters { partition_name: "gpu".into(), ..request() };
    for status in [
        client.get_auto_scaling_metrics(unknown.clone()).await.unwrap_err(),
        client.watch_auto_scaling_metrics(unknown).await.unwrap_err(),
    ] {
        assert_eq!((status.code(), &*reason_of(&status)), (Code::NotFound, "PARTITION_UNKNOWN"));
    }
}

#[tokio::test]
async fn a_watch_reports_the_set_and_its_changes() {
    let mut service = Service::start();
    let rm = short_of_machines(&service).await;
    let mut client = metrics(&service).await;
    let request = v1::AutoScalingParameters::default();
    let mut sets = client.watch_auto_scaling_metrics(request).await.unwrap().into_inner();
    assert_eq!(keys(&next(&mut sets).await), ["fitting"]);
    rm.send_nodes(vec![node("n3", 8_000, 16)]).await;
    rm.until("placed on the new node", |seen| seen.new.len() == 2).await;
    assert_eq!(keys(&next(&mut sets).await), Vec::<&str>::new());
    service.terminate();
    let end = timeout(PATIENCE, sets.message()).await.unwrap().unwrap_err();
    assert_eq!((end.code(), &*reason_of(&end)), (Code::Unavailable, "SHUTTING_DOWN"));
    assert_eq!(service.wait(Duration::from_secs(3)).await.code(), Some(0));
}

#[tokio::test]
async fn reported_usage_recommends_another_size() {
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await.with_nodes(&["n1", "n2"]).await;
    let mut client = metrics(&service).await;
    let report = |id: &str, vcore| si::UtilizationReport {
        id: id.into(),
        actual_used_resource: Some(resource(vcore, 1)),
    };
    let messages = (1..=3).map(|n| v1::UtilizationReports {
        rm_id: if n == 1 { "rm".into() } else { String::new() },
        reports: vec![report("n1", 5_000), report("n2", 1_000), report("n9", 1), report("n1", -1)],
        timestamp_nano: n,
    });
    let messages: Vec<_> = messages.collect();
    let summary = client.report_utilization(tokio_stream::iter(messages)).await.unwrap();
    let summary = summary.into_inner();
    assert_eq!((summary.accepted, summary.unknown), (6, 6));
    let request = v1::NodeRecommendationParameters::default();
    let items = client.list_node_recommendations(request).await.unwrap().into_inner().items;
    let [item] = &items[..] else { panic!("{items:?}") };
    assert_eq!((&*item.node_id, &*item.kind), ("n1", "OBSERVED_OVERLOAD"));
    let recommendation = item.recommendation.as_ref().unwrap();
    assert!(recommendation.message.starts_with("node=n1 kind=OBSERVED_OVERLOAD; "));
    assert!(recommendation.recommended_schedulable_resource.is_some());

    let nobody = v1::UtilizationReports { rm_id: "six".into(), ..Default::default() };
    let status = client.report_utilization(tokio_stream::iter([nobody])).await.unwrap_err();
    assert_eq!(
        (status.code(), &*reason_of(&status)),
        (Code::FailedPrecondition, "RM_NOT_REGISTERED")
    );
}

#[tokio::test]
async fn a_reporting_client_does_not_delay_shutdown() {
    let mut service = Service::start();
    let _rm = Rm::register(&service, "rm").await;
    let mut client = metrics(&service).await;
    let (sender, messages) = tokio::sync::mpsc::channel(1);
    let messages = tokio_stream::wrappers::ReceiverStream::new(messages);
    let reporting = tokio::spawn(async move { client.report_utilization(messages).await });
    // The transport accepts the report at the latest when it has room for another one.
    for _ in 0..3 {
        sender.send(v1::UtilizationReports::default()).await.unwrap();
    }
    service.terminate();
    let status = timeout(PATIENCE, reporting).await.unwrap().unwrap().unwrap_err();
    assert_eq!((status.code(), &*reason_of(&status)), (Code::Unavailable, "SHUTTING_DOWN"));
    assert_eq!(service.wait(Duration::from_secs(3)).await.code(), Some(0));
}

#[tokio::test]
async fn events_are_streamed_and_resumed_by_number() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await;
    let mut client = metrics(&service).await;
    let nodes = v1::EventParameters {
        rm_id: "rm".into(),
        types: vec![si::event_record::Type::Node.into()],
        ..Default::default()
    };
    let mut live = client.stream_events(nodes.clone()).await.unwrap().into_inner();
    let rm = rm.with_nodes(&["n1"]).await.with_application("app", "root.a").await;
    let first = next(&mut live).await;
    assert_eq!((first.r#type(), &*first.object_id), (si::event_record::Type::Node, "n1"));
    let _rm = rm.with_nodes(&["n2"]).await;
    let second = loop {
        let event = next(&mut live).await;
        assert_eq!(event.r#type(), si::event_record::Type::Node);
        if event.object_id == "n2" {
            break event;
        }
    };
    let later = v1::EventParameters { from_seq: second.seq, ..nodes.clone() };
    let mut later = client.stream_events(later).await.unwrap().into_inner();
    assert_eq!(next(&mut later).await, second);
    let past = v1::EventParameters { history: 1_000, ..nodes };
    let mut past = client.stream_events(past).await.unwrap().into_inner();
    assert_eq!(next(&mut past).await, first);

    for (wrong, code) in [
        (v1::EventParameters { types: vec![77], ..Default::default() }, Code::InvalidArgument),
        (
            v1::EventParameters { rm_id: "six".into(), ..Default::default() },
            Code::FailedPrecondition,
        ),
    ] {
        assert_eq!(client.stream_events(wrong).await.unwrap_err().code(), code);
    }
}

#[tokio::test]
async fn watched_events_have_pod_names() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    let tags = [("namespace", "lab"), ("podName", "p")];
    let tags = tags.map(|(tag, value)| (format!("kubernetes.io/meta/{tag}"), value.to_owned()));
    let pod = si::Allocation { allocation_tags: tags.into(), ..ask("app", "uid") };
    rm.send_allocations(vec![], vec![pod], vec![]).await;
    rm.until("the pod", |seen| seen.new.len() == 1).await;
    let mut client = metrics(&service).await;
    let all = v1::EventParameters { history: 1_000, ..Default::default() };
    let mut watched = client.watch_events(all.clone()).await.unwrap().into_inner();
    let mut streamed = client.stream_events(all).await.unwrap().into_inner();
    let mut n_named = 0;
    while n_named < 3 {
        let v1::EventInfo { record, pod } =
            timeout(PATIENCE, watched.message()).await.unwrap().unwrap().unwrap();
        let record = record.unwrap();
        let is_of_pod = record.reference_id == "uid";
        assert_eq!(pod, if is_of_pod { "lab/p" } else { "" }, "{record:?}");
        assert_eq!(next(&mut streamed).await, record);
        n_named += usize::from(is_of_pod);
    }
    let unknown = v1::EventParameters { types: vec![77], ..Default::default() };
    assert_eq!(client.watch_events(unknown).await.unwrap_err().code(), Code::InvalidArgument);
}

/// A registration does not affect the events of others: whether they are recorded, how many are
/// kept, and how many streams may be open.
#[tokio::test]
async fn an_extra_configuration_does_not_stop_events() {
    let service = Service::start();
    let mut client = service.client().await;
    let extra = [
        ("event.trackingEnabled", "false"),
        ("event.ringBufferCapacity", "1"),
        ("event.maxStreams", "1"),
        ("event.maxStreamsPerHost", "1"),
        ("kubernetes.qps", "1000"),
    ];
    let extra = extra.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let greedy =
        si::RegisterResourceManagerRequest { extra_config: extra, ..registration("rm", SMALL_A) };
    client.register_resource_manager(greedy).await.unwrap();
    let _rm = Rm::register(&service, "other").await.with_nodes(&["n1", "n2"]).await;
    let mut client = metrics(&service).await;
    let past = v1::EventParameters { history: 1_000, ..Default::default() };
    let mut first = client.stream_events(past.clone()).await.unwrap().into_inner();
    let _second = client.stream_events(past).await.unwrap();
    for _ in 0..3 {
        next(&mut first).await;
    }
}

#[tokio::test]
async fn settings_limit_event_streams_and_tracking() {
    let limits = [("EVENT__MAX_STREAMS", "3"), ("EVENT__MAX_STREAMS_PER_HOST", "1")];
    let service = Service::start_with(&limits);
    let _rm = Rm::register(&service, "rm").await;
    let mut client = metrics(&service).await;
    let all = v1::EventParameters::default;
    let _first = client.stream_events(all()).await.unwrap();
    let status = client.stream_events(all()).await.unwrap_err();
    assert_eq!(reason_of(&status), "LIMIT_EVENT_STREAMS");
    let service = Service::start_with(&[("EVENT__TRACKING_ENABLED", "false")]);
    let _rm = Rm::register(&service, "rm").await;
    let status = metrics(&service).await.stream_events(all()).await.unwrap_err();
    assert_eq!(reason_of(&status), "EVENTS_DISABLED");
}
