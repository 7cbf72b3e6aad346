//! Explanations of pending requests, with one answer over HTTP, gRPC and the command line.

use std::time::Duration;

use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tonic::Code;

use crate::harness::{
    HttpAnswer, PATIENCE, Rm, Service, application, ask, reason_of, release, resource, run,
};

/// Starts an application with one running request, and a pending one of 100 cores.
async fn waiting(service: &Service) -> Rm {
    let rm = Rm::register(service, "rm").await.with_nodes(&["n1", "n2"]).await;
    let rm = rm.with_application("one", "root.a").await;
    let huge =
        si::Allocation { resource_per_alloc: Some(resource(100_000, 1)), ..ask("one", "big") };
    rm.send_allocations(vec![], vec![ask("one", "x"), huge], vec![]).await;
    rm.until("an allocation", |seen| seen.new.len() == 1).await;
    rm
}

const PATH: &str = "/ws/v1/partition/default/application";

async fn get(service: &Service, of: &str) -> HttpAnswer {
    service.http("GET", &format!("{PATH}/{of}"), &[], "").await
}

async fn document(service: &Service, of: &str) -> Value {
    get(service, of).await.json()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_request_that_waits_is_explained_over_http() {
    let service = Service::start();
    let _rm = waiting(&service).await;
    let all = document(&service, "one/explain").await;
    let one = &all[0];
    assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
    assert_eq!(one["allocationKeys"], json!(["big"]));
    assert_eq!((&one["count"], &one["cause"]), (&json!(1), &json!("noNode")));
    let causes: Vec<_> =
        one["obstacles"].as_array().unwrap().iter().map(|it| text(&it["cause"])).collect();
    assert_eq!(causes, ["noNode"]);
    assert_eq!(one["nodes"]["tooSmall"], 2);
    assert_eq!(one["changes"][0]["kind"], "node");
    assert_eq!(one["changes"][0]["resource"]["vcore"], 100_000);
    assert!(text(&one["cure"]).starts_with("add a node with at least 100 cores"), "{one}");
    let levels: Vec<_> =
        one["order"].as_array().unwrap().iter().map(|it| text(&it["level"])).collect();
    assert_eq!(levels, ["queue", "application", "ask"]);
    assert_eq!(document(&service, "one/explain?ask=big").await, all);
    assert_eq!(document(&service, "one/explain?ask=x").await, json!([]));
    assert_eq!(document(&service, "one/explain?offset=1").await, json!([]));
    for (of, message) in [
        ("two/explain", "application `two` not found"),
        ("one/explain?ask=none", "ask `none` of application `one` not found"),
    ] {
        let answer = get(&service, of).await;
        assert_eq!(answer.status, 404);
        assert_eq!(answer.json()["message"], message);
    }
}

#[tokio::test]
async fn grpc_gives_the_same_explanation() {
    let service = Service::start();
    let _rm = waiting(&service).await;
    let shown = document(&service, "one/explain").await;
    let mut admin = crate::admin::admin(&service).await;
    let request = |key: &str| v1::ExplainApplicationRequest {
        application_id: "one".into(),
        allocation_key: key.into(),
        ..Default::default()
    };
    let answer = admin.explain_application(request("")).await.unwrap().into_inner();
    let [one] = &answer.explanations[..] else { panic!("{answer:?}") };
    for (field, expected) in [("cause", &one.cause), ("message", &one.message), ("cure", &one.cure)]
    {
        assert_eq!(shown[0][field], **expected);
    }
    assert_eq!(one.nodes.as_ref().unwrap().too_small, 2);
    assert_eq!(one.changes[0].resource.as_ref().unwrap().resources["vcore"].value, 100_000);
    let named = admin.explain_application(request("big")).await.unwrap().into_inner();
    assert_eq!(named, answer);
    for (request, reason, message) in [
        (request("none"), "REQUEST_UNKNOWN", "ask `none` of application `one` not found"),
        (
            v1::ExplainApplicationRequest { application_id: "two".into(), ..request("") },
            "APPLICATION_UNKNOWN",
            "application `two` not found",
        ),
        (
            v1::ExplainApplicationRequest { partition_name: "[rm]gpu".into(), ..request("") },
            "PARTITION_UNKNOWN",
            "resource manager `rm` has no partition `gpu`",
        ),
    ] {
        let status = admin.explain_application(request).await.unwrap_err();
        let found = (status.code(), reason_of(&status));
        assert_eq!(found, (Code::NotFound, reason.to_owned()));
        assert_eq!(status.message(), message);
    }
    let request = v1::ListApplicationsRequest { details: true, ..Default::default() };
    let listed = admin.list_applications(request).await.unwrap().into_inner().applications;
    let reasons: Vec<_> =
        listed[0].waiting[0].reasons.iter().map(|reason| reason.message.clone()).collect();
    let obstacles: Vec<_> = one.obstacles.iter().map(|it| it.message.clone()).collect();
    assert_eq!(reasons, obstacles);
}

#[tokio::test]
async fn only_the_first_page_of_a_list_is_explained() {
    let service = Service::start();
    let rm = waiting(&service).await.with_application("two", "root.b").await;
    let huge =
        si::Allocation { resource_per_alloc: Some(resource(100_000, 1)), ..ask("two", "big") };
    rm.send_allocations(vec![], vec![huge], vec![]).await;
    let mut admin = crate::admin::admin(&service).await;
    let both_wait = async {
        loop {
            let all = admin.list_applications(v1::ListApplicationsRequest::default()).await;
            if all.unwrap().into_inner().applications.iter().all(|it| it.requests == 1) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, both_wait).await.expect("both applications wait");
    let first = v1::ListApplicationsRequest { why: true, page_size: 1, ..Default::default() };
    let page = admin.list_applications(first.clone()).await.unwrap().into_inner();
    assert!(page.applications[0].cure.starts_with("add a node"), "{page:?}");
    let second = v1::ListApplicationsRequest { page_token: page.next_page_token, ..first.clone() };
    let page = admin.list_applications(second.clone()).await.unwrap().into_inner();
    let [two] = &page.applications[..] else { panic!("{page:?}") };
    assert_eq!((&*two.application_id, &*two.cure), ("two", ""));
    let alone = v1::ListApplicationsRequest { application_ids: vec!["two".to_owned()], ..first };
    let detailed = v1::ListApplicationsRequest { details: true, ..second };
    for request in [alone, detailed] {
        let page = admin.list_applications(request).await.unwrap().into_inner();
        assert!(page.applications[0].cure.starts_with("add a node"), "{page:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_applications_that_a_sorted_list_shows_are_explained() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    // By id, the oldest application comes behind the fifty that the first page explains.
    let rm = rm.with_application("z", "root.b").await;
    let others: Vec<_> = (0..55).map(|n| format!("a-{n:02}")).collect();
    let new = others.iter().map(|id| application(id, "root.b")).collect();
    rm.send_applications(new, vec![]).await;
    rm.until("all applications", |seen| seen.accepted_applications.len() == 56).await;
    let huge = |id: &str| si::Allocation {
        resource_per_alloc: Some(resource(100_000, 1)),
        ..ask(id, &format!("{id}-big"))
    };
    let asks = others.iter().map(String::as_str).chain(["z"]).map(huge).collect();
    rm.send_allocations(vec![], asks, vec![]).await;
    let mut admin = crate::admin::admin(&service).await;
    let all_wait = async {
        loop {
            let all = admin.list_applications(v1::ListApplicationsRequest::default()).await;
            if all.unwrap().into_inner().applications.iter().all(|it| it.requests == 1) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, all_wait).await.expect("all applications wait");
    let grpc = service.grpc.to_string();
    for limit in ["1", "56"] {
        let get = ["get", "apps", "--grpc", &grpc, "--sort-by", "-age", "-n", limit, "-o", "json"];
        let (code, stdout, stderr) = run(&get);
        assert_eq!((code, &*stderr), (Some(0), ""));
        let shown: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(shown[0]["applicationId"], "z");
        assert!(text(&shown[0]["cure"]).starts_with("add a node"), "{}", shown[0]);
    }
}

#[tokio::test]
async fn an_ended_application_is_reported_with_its_end() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    // A gang that fails, because it gets only one of its places within its timeout.
    let gang = si::AddApplicationRequest {
        placeholder_ask: Some(resource(100_000, 1)),
        gang_scheduling_style: "Hard".into(),
        execution_timeout_milli_seconds: 1,
        ..application("one", "root.a")
    };
    rm.send_applications(vec![gang], vec![]).await;
    let place =
        si::Allocation { placeholder: true, task_group_name: "g".into(), ..ask("one", "p") };
    rm.send_allocations(vec![], vec![place], vec![]).await;
    rm.until("the end of its time", |seen| !seen.released.is_empty()).await;
    let timeout = si::TerminationType::Timeout as i32;
    let confirmed = si::AllocationRelease { termination_type: timeout, ..release("one", "p") };
    rm.send_allocations(vec![], vec![], vec![confirmed]).await;
    rm.until("its failure", |seen| seen.updated_applications.iter().any(|it| it.state == "Failed"))
        .await;
    let answer = get(&service, "one/explain").await;
    assert_eq!(answer.status, 404);
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("application `one` failed at 20"), "{message}");
    let mut admin = crate::admin::admin(&service).await;
    let request =
        v1::ExplainApplicationRequest { application_id: "one".into(), ..Default::default() };
    let status = admin.explain_application(request).await.unwrap_err();
    assert_eq!((status.message(), &*reason_of(&status)), (&*message, "APPLICATION_ENDED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_prints_text_and_the_rest_document() {
    let service = Service::start();
    let _rm = waiting(&service).await;
    let grpc = service.grpc.to_string();
    let explain = |args: &[&str]| {
        let all: Vec<_> = ["explain", "--grpc", &grpc].iter().chain(args).copied().collect();
        run(&all)
    };
    let (code, stdout, stderr) = explain(&["one"]);
    assert_eq!((code, &*stderr), (Some(0), ""));
    for part in [
        "big: 100 cores and 953.68 MiB of memory each",
        "Cause:  noNode",
        "Why:    no node has room (2 nodes: 2 are too small)",
        "Cure:   add a node with at least 100 cores",
        "Order:  ask 1 of 1 in one",
    ] {
        assert!(stdout.contains(part), "no `{part}` in\n{stdout}");
    }
    let (code, stdout, _) = explain(&["one", "-o", "json"]);
    let printed: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, printed), (Some(0), document(&service, "one/explain").await));
    let (_, stdout, _) = explain(&["one", "--ask", "x"]);
    assert_eq!(stdout, "nothing of request x of application one waits\n");
    let (code, _, stderr) = explain(&["two", "--partition", "default"]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("application `two` not found [APPLICATION_UNKNOWN]"), "{stderr}");
}

/// Every explanation shows the resource manager's message about a failed start.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_start_has_the_managers_message() {
    let seconds = [("SCHEDULER__START_RETRY", "60"), ("SCHEDULER__START_RETRY_MAX", "90")];
    let service = Service::start_with(&seconds);
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("one", "root.a").await;
    rm.send_allocations(vec![], vec![ask("one", "x")], vec![]).await;
    rm.until("an allocation", |seen| seen.new.len() == 1).await;
    let failed = si::AllocationRelease {
        termination_type: si::TerminationType::SchedulingFailedOnRm.into(),
        message: "admission webhook: no".to_owned(),
        ..release("one", "x")
    };
    rm.send_allocations(vec![], vec![], vec![failed]).await;
    service.until_counted("monoceros_failed_starts_total", 1).await;
    let all = document(&service, "one/explain").await;
    let one = &all[0];
    assert_eq!((&one["cause"], text(&one["changes"][0]["kind"])), (&json!("startFailed"), "time"));
    let message = text(&one["message"]);
    assert_eq!(message, "the ask could not be started: `admission webhook: no`");
    assert!(text(&one["cure"]).starts_with("wait until 20"), "{}", one["cure"]);
    let mut admin = crate::admin::admin(&service).await;
    let request =
        v1::ExplainApplicationRequest { application_id: "one".into(), ..Default::default() };
    let explained = admin.explain_application(request).await.unwrap().into_inner().explanations;
    assert_eq!((&*explained[0].cause, &*explained[0].message), ("startFailed", message));
    let (code, stdout, _) = run(&["explain", "--grpc", &service.grpc.to_string(), "one"]);
    assert_eq!(code, Some(0));
    assert!(stdout.contains("Cause:  startFailed") && stdout.contains(message), "{stdout}");
}
