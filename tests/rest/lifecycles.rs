//! Metrics of applications and queues from state to state, in both families: the one with the queue
//! path as a label, and the one with it in the name.

use std::collections::BTreeMap;

use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_proto::si::v1 as si;
use serde_json::json;
use tokio::time::timeout;

use crate::harness::{
    PATIENCE, QUEUES, Rm, Seen, Service, amount, application, ask, node, registration, release,
};

/// Number of applications by state, without zeros.
type States = BTreeMap<String, u64>;

/// Returns the numbers of the queue in its two families, and the totals of the scheduler. A page is
/// written while applications change, so they agree only at rest.
async fn states(service: &Service) -> [States; 3] {
    let page = service.get("/ws/v1/metrics").await;
    let of = |prefix: &str| -> States {
        let series = page.lines().filter_map(|line| line.strip_prefix(prefix));
        let counted = series.map(|line| {
            let (state, count) = line.split_once("\"} ").unwrap();
            (state.to_owned(), count.parse().unwrap())
        });
        counted.filter(|(_, count)| *count > 0).collect()
    };
    [
        of("yunikorn_queue_app{queue=\"root.a\",state=\""),
        of("yunikorn_root_a_queue_app{state=\""),
        of("yunikorn_scheduler_application_total{state=\""),
    ]
}

/// Waits until the application is counted in this state and in no other.
async fn until_in(service: &Service, state: &str) {
    let of_queue: States = [(state.to_owned(), 1)].into();
    // The scheduler has no count of applications that have not started.
    let mut of_all = of_queue.clone();
    of_all.retain(|state, _| !["new", "accepted"].contains(&state.as_str()));
    let expected = [of_queue.clone(), of_queue, of_all];
    let reached = async { while states(service).await != expected {} };
    if timeout(PATIENCE, reached).await.is_err() {
        assert_eq!(states(service).await, expected);
    }
}

#[tokio::test]
async fn applications_are_counted_in_exactly_one_state() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_application("app", "root.a").await;
    until_in(&service, "new").await;
    rm.send_allocations(vec![], vec![ask("app", "k1")], vec![]).await;
    until_in(&service, "accepted").await;
    let rm = rm.with_nodes(&["n1"]).await;
    until_in(&service, "running").await;
    rm.send_allocations(vec![], vec![], vec![release("app", "k1")]).await;
    until_in(&service, "completing").await;
    // The application has a pending ask again.
    rm.send_allocations(vec![], vec![ask("app", "k2")], vec![]).await;
    until_in(&service, "running").await;
    rm.send_allocations(vec![], vec![], vec![release("app", "k2")]).await;
    until_in(&service, "completing").await;
    rm.send_allocations(vec![], vec![], vec![release("app", "")]).await;
    until_in(&service, "completed").await;
    let ended = "yunikorn_queue_app_total{queue=\"root.a\",state=\"completed\"}";
    assert_eq!(service.counted(ended).await, 1);
    let taken = "yunikorn_scheduler_application_submission_total{result=\"accepted\"}";
    assert_eq!(service.counted(taken).await, 1);
    let containers = |state| format!("yunikorn_root_a_queue_container{{state=\"{state}\"}}");
    for state in ["allocated", "released"] {
        assert_eq!(service.counted(&containers(state)).await, 2, "{state}");
    }
}

const CONTENTION: &str = "
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - {name: poor, properties: {preemption.delay: 1s}, resources: {guaranteed: {vcore: 2}}}
          - {name: rich}
";

#[tokio::test]
async fn victims_are_counted_until_released() {
    let service = Service::start();
    let mut client = service.client().await;
    client.register_resource_manager(registration("rm", CONTENTION)).await.unwrap();
    let rm = Rm::open(client, "rm").await;
    rm.send_nodes(vec![node("n1", 2_000, 16)]).await;
    let two = |it: si::Allocation| si::Allocation {
        resource_per_alloc: Some(amount(&[("vcore", 2_000)])),
        preemption_policy: Some(si::PreemptionPolicy {
            allow_preempt_self: true,
            allow_preempt_other: true,
        }),
        ..it
    };
    let rm = rm.with_application("rich", "root.rich").await;
    rm.send_allocations(vec![], vec![two(ask("rich", "k"))], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    rm.send_applications(vec![application("poor", "root.poor")], vec![]).await;
    rm.until("poor", |seen| seen.accepted_applications.len() == 2).await;
    rm.send_allocations(vec![], vec![two(ask("poor", "k"))], vec![]).await;
    let series = |queue: &str, state: &str| {
        format!(
            "yunikorn_queue_resource{{queue=\"root.{queue}\",resource=\"vcore\",state=\"{state}\"}}"
        )
    };
    rm.until("one is to leave", |seen| seen.released.len() == 1).await;
    assert_eq!(service.counted(&series("rich", "preempting")).await, 2_000);
    assert_eq!(service.counted(&series("poor", "pending")).await, 2_000);
    let gone = si::AllocationRelease {
        termination_type: si::TerminationType::PreemptedByScheduler.into(),
        ..release("rich", "k")
    };
    rm.send_allocations(vec![], vec![], vec![gone]).await;
    rm.until("in its place", |seen| seen.new.len() == 2).await;
    rm.send_allocations(vec![], vec![], vec![release("poor", "k")]).await;
    let is_completing = |seen: &Seen| {
        let mut updated = seen.updated_applications.iter();
        updated.any(|it| it.application_id == "poor" && it.state == "Completing")
    };
    rm.until("it has nothing", is_completing).await;
    for (queue, state) in
        [("rich", "preempting"), ("rich", "allocated"), ("poor", "pending"), ("poor", "allocated")]
    {
        assert_eq!(service.counted(&series(queue, state)).await, 0, "{queue} {state}");
    }
}

#[tokio::test]
async fn usage_may_exceed_a_lowered_quota() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![ask("app", "k1"), ask("app", "k2")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 2).await;
    let path = "/ws/v1/partition/default/queue/root.a";
    let queue = service.http("GET", path, &[], "").await.json();
    let used = queue["allocatedResource"]["vcore"].as_i64().unwrap();
    let half =
        format!("        queues: [{{name: a, resources: {{max: {{vcore: {}m}}}}}}]", used / 2);
    let config = format!(
        "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n{half}\n"
    );
    let mut admin = AdminServiceClient::new(service.channel().await);
    let update =
        si::UpdateConfigurationRequest { rm_id: "rm".to_owned(), config, ..Default::default() };
    admin.update_config(update).await.unwrap();
    let queue = service.http("GET", path, &[], "").await.json();
    assert_eq!(queue["absUsedCapacity"], json!({"vcore": 200}), "{queue}");
}

#[tokio::test]
async fn each_partition_has_its_place_in_the_dump() {
    let service = Service::start();
    let mut client = service.client().await;
    let two = format!("{QUEUES}  - name: gpu\n    queues:\n      - name: root\n");
    client.register_resource_manager(registration("rm", &two)).await.unwrap();
    let rm = Rm::open(client, "rm").await;
    let of_gpu = si::NodeInfo {
        attributes: [("si/node-partition".to_owned(), "gpu".to_owned())].into(),
        ..node("g1", 1_000, 1)
    };
    rm.send_nodes(vec![node("n1", 1_000, 1), of_gpu]).await;
    rm.until("both nodes", |seen| seen.accepted_nodes.len() == 2).await;
    let dump = service.http("GET", "/debug/fullstatedump", &[], "").await.json();
    for part in ["partitions", "queues", "nodes", "placementRules", "clusterInfo"] {
        assert_eq!(dump[part].as_array().unwrap().len(), 2, "{part}: {}", dump[part]);
    }
    let nodes: Vec<_> = (0..2)
        .map(|at| {
            let part = &dump["nodes"][at];
            (part["partitionName"].as_str().unwrap(), part["nodesInfo"][0]["nodeID"].as_str())
        })
        .collect();
    assert_eq!(nodes, [("default", Some("n1")), ("gpu", Some("g1"))]);
}
