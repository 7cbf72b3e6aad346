//! Bodies, field by field. `UPDATE_EXPECT=1` writes them again.

use expect_test::{ExpectFile, expect_file};
use serde_json::{Value, json};

use crate::harness::Service;
use crate::scene::{P, Scene};

#[tokio::test]
async fn each_body_is_as_it_was() {
    let scene = Scene::start().await;
    let check = async |path: &str, expected: ExpectFile| {
        expected.assert_eq(&scene.shown(path).await);
    };
    check("/ws/v1/clusters", expect_file!["golden/clusters.json"]).await;
    check("/ws/v1/partitions", expect_file!["golden/partitions.json"]).await;
    let utilizations = "/ws/v1/scheduler/node-utilizations";
    check(utilizations, expect_file!["golden/node-utilizations.json"]).await;
    check("/ws/v1/scheduler/healthcheck", expect_file!["golden/healthcheck.json"]).await;
    check("/ws/v1/events/batch", expect_file!["golden/events.json"]).await;
    for (path, expected) in [
        ("placementrules", expect_file!["golden/placementrules.json"]),
        ("queues", expect_file!["golden/queues.json"]),
        ("queue/root.b", expect_file!["golden/queue.json"]),
        ("nodes", expect_file!["golden/nodes.json"]),
        ("queue/root.a/applications", expect_file!["golden/applications-of-queue.json"]),
        ("applications/active", expect_file!["golden/applications-active.json"]),
        ("applications/rejected", expect_file!["golden/applications-rejected.json"]),
        ("usage/users", expect_file!["golden/users.json"]),
        ("usage/groups", expect_file!["golden/groups.json"]),
    ] {
        check(&format!("{P}/{path}"), expected).await;
    }
    // What is in a list is the same alone.
    let nodes = scene.get(&format!("{P}/nodes")).await;
    assert_eq!(scene.get(&format!("{P}/node/n1")).await, nodes[0]);
    let list = scene.get(&format!("{P}/queue/root.a/applications")).await;
    for path in ["application/runs", "queue/ROOT.a/application/runs"] {
        assert_eq!(scene.get(&format!("{P}/{path}")).await, list[0], "{path}");
    }
    for path in
        ["queue/root.a/applications/active", "queue/root.a/applications/Active?status=running"]
    {
        assert_eq!(scene.get(&format!("{P}/{path}")).await, list, "{path}");
    }
    let none = scene.get(&format!("{P}/queue/root.a/applications/active?status=new")).await;
    assert_eq!(none, json!([]));
    let elsewhere = format!("{P}/queue/root.b.c/application/runs");
    assert_eq!(scene.service.http("GET", &elsewhere, &[], "").await.status, 404);
    let users = scene.get(&format!("{P}/usage/users")).await;
    assert_eq!(scene.get(&format!("{P}/usage/user/alice")).await, users[0]);
}

#[tokio::test]
async fn one_state_gives_one_document_byte_by_byte() {
    let scene = Scene::start().await;
    for path in ["nodes", "queues", "applications/active", "usage/users"] {
        let path = format!("{P}/{path}");
        assert_eq!(scene.service.get(&path).await, scene.service.get(&path).await, "{path}");
    }
}

#[tokio::test]
async fn the_state_dump_has_what_the_other_paths_have() {
    let scene = Scene::start().await;
    let dump = scene.get("/debug/fullstatedump").await;
    let keys: Vec<&String> = dump.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "applications",
            "clusterInfo",
            "config",
            "logLevel",
            "nodes",
            "partitions",
            "placementRules",
            "queues",
            "rmDiagnostics",
            "timestamp",
            "users"
        ],
        "what is empty is left out: histories before the first minute, streams that nobody opened"
    );
    let get = async |path: &str| scene.get(path).await;
    assert_eq!(dump["partitions"], get("/ws/v1/partitions").await);
    assert_eq!(dump["clusterInfo"], get("/ws/v1/clusters").await);
    let nodes =
        json!([{"partitionName": "default", "nodesInfo": get(&format!("{P}/nodes")).await}]);
    assert_eq!(dump["nodes"], nodes);
    assert_eq!(dump["queues"], json!([get(&format!("{P}/queues")).await]));
    let rules = get(&format!("{P}/placementrules")).await;
    assert_eq!(dump["placementRules"], json!([{"partition": "default", "rules": rules}]));
    let list = async |state| get(&format!("{P}/applications/{state}")).await;
    let mut all = Vec::new();
    for state in ["active", "completed", "rejected"] {
        all.extend(list(state).await.as_array().unwrap().clone());
    }
    assert_eq!(dump["applications"], Value::Array(all));
}

#[tokio::test]
async fn without_a_resource_manager_the_pages_of_the_web_ui_have_something_to_show() {
    let service = Service::start();
    for path in [
        "/ws/v1/clusters",
        "/ws/v1/partitions",
        "/ws/v1/history/apps",
        "/ws/v1/history/containers",
        "/ws/v1/scheduler/node-utilizations",
    ] {
        let answer = service.http("GET", path, &[], "").await;
        assert_eq!((answer.status, answer.json()), (200, json!([])), "{path}");
    }
    let health = service.http("GET", "/ws/v1/scheduler/healthcheck", &[], "").await;
    assert_eq!((health.status, &health.json()["Healthy"]), (200, &json!(true)));
    let dump = service.http("GET", "/debug/fullstatedump", &[], "").await.json();
    assert!(dump["rmDiagnostics"]["empty"].is_string());
}

#[tokio::test]
async fn a_fault_shows_at_the_next_look_and_stays() {
    let service = Service::start_with(&[("HEALTH__CHECK_INTERVAL", "50ms")]);
    let rm = crate::harness::Rm::register(&service, "rm").await;
    let nowhere = crate::harness::ask("nobody", "k");
    rm.send_allocations(vec![], vec![nowhere], vec![]).await;
    rm.until("rejected", |seen| !seen.rejected_allocations.is_empty()).await;
    service.until_logged("a check of the scheduler has failed", 1).await;
    let health = service.http("GET", "/ws/v1/scheduler/healthcheck", &[], "").await;
    let health = health.json();
    assert_eq!(health["Healthy"], json!(false));
    assert_eq!(health["HealthChecks"][0]["Succeeded"], json!(false));
    let found = "There were 1 scheduling errors logged in the metrics";
    assert_eq!(health["HealthChecks"][0]["DiagnosisMessage"], json!(found));
}
