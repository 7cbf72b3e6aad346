//! Live and rejected applications over HTTP. Completion takes half a minute, and is tested in the
//! engine.

use std::time::Duration;

use monoceros_proto::si::v1 as si;
use serde_json::Value;
use tokio::time::timeout;

use crate::harness::{PATIENCE, Service, application, ask, node, registration, release, run};

const QUEUES: &str = r#"{partitions: [{queues: [{name: root, submitacl: "*", queues: [{name: a,
    resources: {max: {vcore: 1}}}]}]}]}"#;

#[tokio::test]
async fn live_and_rejected_applications_are_distinguished() {
    let service = Service::start();
    let mut client = service.client().await;
    client.register_resource_manager(registration("rm", QUEUES)).await.unwrap();
    let rm = crate::harness::Rm::open(client, "rm").await;
    rm.send_nodes(vec![node("n1", 2_000, 16)]).await;
    let new = vec![application("good", "root.a"), application("bad", "root.nowhere")];
    rm.send_applications(new, vec![]).await;
    rm.until("answers", |seen| seen.accepted_applications.len() == 1).await;
    rm.send_allocations(vec![], vec![ask("good", "x"), ask("good", "y")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;

    let read = async |path: &str| -> Value {
        let path = format!("/ws/v1/partition/default/{path}");
        service.http("GET", &path, &[], "").await.json()
    };
    let active = read("applications/active?status=RUNNING").await;
    assert_eq!(active[0]["applicationID"], "good");
    assert_eq!(active[0]["stateLog"][1]["applicationState"], "Running");
    let log = &active[0]["requests"][0]["allocationLog"][0];
    assert_eq!(log["message"], "Not enough queue quota");
    assert!(log["lastOccurrence"].as_i64() > Some(0) && log["count"] == 1, "{log}");
    assert_eq!(read("applications/active?status=new").await, Value::Array(vec![]));
    assert_eq!(read("applications/completed").await, Value::Array(vec![]));
    let rejected = read("applications/rejected").await;
    assert_eq!(rejected[0]["applicationID"], "bad");
    assert_eq!(rejected[0]["applicationState"], "Rejected");
    assert_eq!(rejected[0]["queueName"], "root.nowhere");
    assert!(rejected[0]["rejectedMessage"].as_str().unwrap().contains("R_PLACEMENT"));
    assert!(rejected[0]["finishedTime"].as_i64() > Some(0));

    assert_eq!(read("application/good").await["applicationState"], "Running");
    assert_eq!(read("application/bad").await["message"], "Application not found");
    let states = service.http("GET", "/ws/v1/partitions", &[], "").await.json();
    let states = &states[0]["applications"];
    assert_eq!(
        (&states["Rejected"], &states["Running"], &states["total"]),
        (&1.into(), &1.into(), &2.into())
    );
    let dump = service.http("GET", "/debug/fullstatedump", &[], "").await.json();
    assert_eq!(dump["applications"].as_array().unwrap().len(), 2);
}

/// The usage of the application is logged. HTTP does not list it any more.
#[tokio::test]
async fn a_removed_application_is_only_logged() {
    let service = Service::start();
    let rm = crate::harness::Rm::register(&service, "rm").await;
    rm.send_nodes(vec![node("n1", 1_000, 16)]).await;
    rm.send_applications(vec![application("gone", "root.a")], vec![]).await;
    rm.send_allocations(vec![], vec![ask("gone", "x")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    let removal = si::RemoveApplicationRequest {
        application_id: "gone".to_owned(),
        partition_name: "default".to_owned(),
    };
    rm.send_applications(vec![], vec![removal]).await;
    rm.until("released", |seen| seen.released.len() == 1).await;
    service.until_logged("application summary", 1).await;
    let log = service.log();
    let line = log.lines().find(|line| line.contains("application summary")).unwrap();
    for part in ["application=gone", "state=Running", "queue=root.a", "used="] {
        assert!(line.contains(part), "`{part}` is not in `{line}`");
    }
    for list in ["completed", "rejected", "active"] {
        let path = format!("/ws/v1/partition/default/applications/{list}");
        let shown = service.http("GET", &path, &[], "").await.json();
        assert_eq!(shown, Value::Array(vec![]), "{list}");
    }
}

#[tokio::test]
async fn the_command_shows_ended_applications() {
    let service = Service::start();
    let rm = crate::harness::Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("over", "root.a").await;
    rm.send_allocations(vec![], vec![ask("over", "k")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    rm.send_allocations(vec![], vec![], vec![release("over", "k")]).await;
    rm.send_allocations(vec![], vec![], vec![release("over", "")]).await;
    rm.send_applications(vec![application("bad", "root.nowhere")], vec![]).await;
    rm.until("bad", |seen| seen.rejected_applications.len() == 1).await;
    let address = service.grpc.to_string();
    let monoceros = |line: &str| {
        let words: Vec<_> = line.split(' ').chain(["--grpc", &address]).collect();
        run(&words)
    };
    let listed = async {
        while monoceros("get apps --ended -o name").1 != "over\n" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, listed).await.expect("it is listed");
    assert_eq!(monoceros("get apps --rejected -o name").1, "bad\n");
    assert_eq!(monoceros("get apps -o name").1, "");
    assert_eq!(monoceros("get apps --ended --state failed -o name").1, "");
    let (code, _, stderr) = monoceros("get apps --ended --state running");
    assert!(code == Some(1) && stderr.contains("none of Completed, Failed"), "{stderr}");
    for (id, state) in [("over", "Completed"), ("bad", "Rejected")] {
        let (code, sheet, stderr) = monoceros(&format!("describe app {id}"));
        assert_eq!(code, Some(0), "{stderr}");
        assert!(sheet.contains(state), "{sheet}");
    }
    assert_eq!(monoceros("describe app nobody").0, Some(1));
}
