//! Bodies, field by field. `UPDATE_EXPECT=1` writes them again.

use expect_test::{ExpectFile, expect_file};
use monoceros_proto::si::v1 as si;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::harness::{PATIENCE, Rm, Service, amount, ask, node, release};
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
    check("/ws/v1/sessions", expect_file!["golden/sessions.json"]).await;
    for (path, expected) in [
        ("placementrules", expect_file!["golden/placementrules.json"]),
        ("queues", expect_file!["golden/queues.json"]),
        ("queue/root.b", expect_file!["golden/queue.json"]),
        ("nodes", expect_file!["golden/nodes.json"]),
        ("queue/root.a/applications", expect_file!["golden/applications-of-queue.json"]),
        ("applications/active", expect_file!["golden/applications-active.json"]),
        ("applications/rejected", expect_file!["golden/applications-rejected.json"]),
        ("application/runs/explain", expect_file!["golden/explain.json"]),
        ("decisions", expect_file!["golden/decisions.json"]),
        ("usage/users", expect_file!["golden/users.json"]),
        ("usage/groups", expect_file!["golden/groups.json"]),
    ] {
        check(&format!("{P}/{path}"), expected).await;
    }
    // An entry of a list is the same when it is read alone.
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
async fn ended_applications_match_their_golden_files() {
    let scene = Scene::start().await;
    scene.end_one().await;
    let check = async |path: &str, expected: ExpectFile| {
        expected.assert_eq(&scene.shown(path).await);
    };
    let completed = format!("{P}/applications/completed");
    check(&completed, expect_file!["golden/applications-completed.json"]).await;
    check("/debug/fullstatedump", expect_file!["golden/state-dump.json"]).await;
}

#[tokio::test]
async fn the_configuration_matches_its_golden_files() {
    let scene = Scene::start().await;
    let path = "/ws/v1/config";
    expect_file!["golden/config.yaml"].assert_eq(&scene.service.get(path).await);
    let accept = [("Accept", "application/json")];
    let json = scene.service.http("GET", path, &accept, "").await.json();
    let shown = serde_json::to_string_pretty(&json).unwrap() + "\n";
    expect_file!["golden/config.json"].assert_eq(&shown);
}

#[tokio::test]
async fn brief_rows_have_counts_for_lists() {
    let scene = Scene::start().await;
    for (list, lists) in [
        ("applications/active", vec!["requests", "allocations", "waitLog"]),
        ("nodes", vec!["allocations", "foreignAllocations"]),
    ] {
        let whole = scene.get(&format!("{P}/{list}")).await;
        let brief = scene.get(&format!("{P}/{list}?brief")).await;
        for (whole, brief) in whole.as_array().unwrap().iter().zip(brief.as_array().unwrap()) {
            let (mut expected, mut rest) = (whole.clone(), brief.clone());
            for key in &lists {
                expected.as_object_mut().unwrap().remove(*key);
            }
            let count = whole["allocations"].as_array().map_or(0, Vec::len);
            let rest = rest.as_object_mut().unwrap();
            assert_eq!(rest.remove("allocationCount"), Some(json!(count)), "{brief}");
            if list.starts_with("applications") {
                let asks = whole["requests"].as_array().map_or(0, Vec::len);
                assert_eq!(rest.remove("pendingCount"), Some(json!(asks)), "{brief}");
                let waits = asks.gt(&0).then(|| json!("Not enough queue quota"));
                assert_eq!(rest.remove("waitsFor"), waits, "{brief}");
                let cause = asks.gt(&0).then(|| json!("queueQuota"));
                assert_eq!(rest.remove("cause"), cause, "{brief}");
            }
            assert_eq!(&*rest, expected.as_object().unwrap());
        }
    }
    for query in ["brief=false", "brief=0"] {
        let whole = scene.get(&format!("{P}/nodes?{query}")).await;
        assert!(whole[0]["allocations"].is_array(), "{query}");
    }
    let ids = async |query: &str| {
        let list = scene.get(&format!("{P}/applications/active?{query}")).await;
        let ids = list.as_array().unwrap().iter();
        ids.map(|it| it["applicationID"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids("search=UN").await, ["runs"]);
    assert_eq!(ids("search=x").await, [""; 0]);
    assert_eq!(ids("order=waiting").await, ["runs"], "the other one has no pending request");
    assert_eq!(ids("order=waiting&user=bob").await, [""; 0]);
    assert_eq!(ids("queue=root.B").await, ["keeps"], "with those below");
    assert_eq!(ids("user=alice&queue=root").await, ["keeps", "runs"]);
    assert_eq!(ids("user=bob").await, [""; 0]);
    let nowhere = format!("{P}/applications/active?queue=root.nope");
    assert_eq!(scene.service.http("GET", &nowhere, &[], "").await.status, 404);
}

#[tokio::test]
async fn sessions_are_told_as_operators_see_them() {
    let scene = Scene::start().await;
    let mut answer = scene.get("/ws/v1/sessions").await;
    assert!(!answer["schedulerId"].as_str().unwrap().is_empty());
    let session = &mut answer["sessions"][0];
    let session = session.as_object_mut().unwrap();
    assert!(session.remove("registeredAt").unwrap().as_i64().unwrap() > 0);
    let id = session.remove("sessionId").unwrap();
    assert!(id.as_str().unwrap().parse::<u64>().unwrap() > 0, "{id}");
    let expected = json!({
        "rmId": "lab", "state": "Running", "version": "test", "policyGroup": "queues", "dialect": "split",
        "openStreams": ["allocation", "application", "node"], "outboxItems": 0,
        "buildInfo": {"buildDate": "2026-05-04T10:11:12+0000", "buildVersion": "r7"},
    });
    assert_eq!(answer["sessions"], json!([expected]));
    drop(scene.rm);
    let paused = async {
        while scene.service.http("GET", "/ws/v1/sessions", &[], "").await.json()["sessions"][0]["state"]
            != "Paused"
        {}
    };
    timeout(PATIENCE, paused).await.expect("a session whose streams are gone is paused");
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
async fn the_state_dump_matches_the_other_paths() {
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
async fn two_dumps_at_a_time_are_both_made() {
    let scene = Scene::start().await;
    let (one, other) =
        tokio::join!(scene.get("/debug/fullstatedump"), scene.get("/debug/fullstatedump"));
    assert_eq!(one["applications"], other["applications"]);
    let moved = scene.service.http("GET", "/ws/v1/fullstatedump", &[], "").await;
    assert_eq!(moved.status, 301);
}

#[tokio::test]
async fn placeholders_count_only_in_queues() {
    let scene = Scene::start().await;
    let application = async || scene.get(&format!("{P}/application/keeps")).await;
    let kept = application().await;
    assert_eq!(kept["usedResource"], Value::Null);
    let queue = scene.get(&format!("{P}/queue/root.b.c")).await;
    assert_eq!(queue["allocatedResource"], json!({"vcore": 500}));
    let member = si::Allocation {
        task_group_name: "members".to_owned(),
        resource_per_alloc: Some(amount(&[("vcore", 500)])),
        ..ask("keeps", "m1")
    };
    let rm = &scene.rm;
    rm.send_allocations(vec![], vec![member], vec![]).await;
    rm.until("the placeholder is to go", |seen| seen.released.len() == 1).await;
    let replaced = si::AllocationRelease {
        termination_type: si::TerminationType::PlaceholderReplaced.into(),
        ..release("keeps", "p1")
    };
    rm.send_allocations(vec![], vec![], vec![replaced]).await;
    rm.until("the member is there", |seen| seen.new.len() == 3).await;
    let taken = application().await;
    assert_eq!(taken["usedResource"], json!({"vcore": 500}));
    assert_eq!(taken["placeholderData"][0]["replaced"], 1);
    let allocation = &taken["allocations"][0];
    assert_eq!(
        (&allocation["placeholderUsed"], &allocation["placeholder"]),
        (&json!(true), &Value::Null)
    );
    let time = |key: &str| allocation[key].as_i64().unwrap();
    assert_eq!(time("requestTime"), kept["allocations"][0]["requestTime"].as_i64().unwrap());
    assert!(time("requestTime") < time("allocationTime"));
    assert_eq!(time("allocationDelay"), time("allocationTime") - time("requestTime"));
}

#[tokio::test]
async fn documents_exist_without_a_resource_manager() {
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

/// Returns the failed checks by index.
async fn health(service: &Service) -> Value {
    service.http("GET", "/ws/v1/scheduler/healthcheck", &[], "").await.json()
}

async fn until_failed(service: &Service, checks: &[usize]) {
    let found = async { while failed(service).await != checks {} };
    timeout(PATIENCE, found).await.expect("these checks fail");
}

async fn failed(service: &Service) -> Vec<usize> {
    let health = health(service).await;
    let checks = health["HealthChecks"].as_array().unwrap();
    assert_eq!(checks.len(), 9);
    let failed: Vec<usize> =
        (1..=9).filter(|number| checks[number - 1]["Succeeded"] == json!(false)).collect();
    assert_eq!(health["Healthy"], json!(failed.is_empty()));
    failed
}

#[tokio::test]
async fn a_fault_shows_at_the_next_check_until_fixed() {
    let service = Service::start_with(&[("HEALTH__CHECK_INTERVAL", "50ms")]);
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1", "n2"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![ask("app", "k1"), ask("app", "k2")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 2).await;
    let n1 = rm.read(|seen| seen.new[0].node_id.clone());
    // A foreign allocation, which no application has, is no fault.
    let foreign = si::Allocation {
        allocation_tags: [("foreign".to_owned(), "default".to_owned())].into(),
        node_id: n1.clone(),
        ..ask("", "daemon")
    };
    rm.send_allocations(vec![], vec![foreign], vec![]).await;
    let resize = |vcore| si::NodeInfo {
        action: si::node_info::ActionFromRm::Update.into(),
        ..node(&n1, vcore, 16)
    };
    rm.send_nodes(vec![resize(500)]).await;
    until_failed(&service, &[4]).await;
    // A node whose capacity shrank below its allocations is no fault of the scheduler.
    let found = health(&service).await;
    assert_eq!((&found["Healthy"], &found["Sound"]), (&json!(false), &json!(true)));
    assert_eq!(found["HealthChecks"][3]["FromOutside"], json!(true));
    rm.send_nodes(vec![resize(4_000)]).await;
    until_failed(&service, &[]).await;
    assert!(!service.log().contains("does not look sound"), "{}", service.log());
}

#[tokio::test]
async fn malformed_input_stays_a_fault() {
    let service = Service::start_with(&[("HEALTH__CHECK_INTERVAL", "50ms")]);
    let rm = Rm::register(&service, "rm").await;
    assert_eq!(failed(&service).await, [0_usize; 0]);
    rm.send_allocations(vec![], vec![ask("nobody", "k")], vec![]).await;
    rm.until("rejected", |seen| !seen.rejected_allocations.is_empty()).await;
    let attributes = [("si/node-partition".to_owned(), "nowhere".to_owned())];
    rm.send_nodes(vec![si::NodeInfo { attributes: attributes.into(), ..node("n", 1, 1) }]).await;
    rm.until("refused", |seen| !seen.rejected_nodes.is_empty()).await;
    until_failed(&service, &[1, 2]).await;
    let health = health(&service).await;
    assert_eq!(
        health["Sound"],
        json!(true),
        "what others send wrong is no fault of the scheduler's"
    );
    let diagnosis = |at: usize| health["HealthChecks"][at]["DiagnosisMessage"].clone();
    assert_eq!(diagnosis(0), "There were 1 scheduling errors logged in the metrics");
    assert_eq!(diagnosis(1), "There were 1 failed nodes logged in the metrics");
}
