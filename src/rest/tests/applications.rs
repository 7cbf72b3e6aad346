//! Lists of applications, and single ones.

use super::*;

/// Returns the ids in a list of applications.
async fn ids(path: &str) -> Vec<String> {
    let response = call("GET", &format!("{P}/applications/{path}")).await;
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    let list: Vec<serde_json::Value> = serde_json::from_str(&body(response).await).unwrap();
    list.iter().map(|app| app["applicationID"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn applications_are_listed_as_live_ended_or_rejected() {
    assert_eq!(ids("active").await, ["app 1", "app-2"]);
    assert_eq!(ids("ACTIVE").await, ["app 1", "app-2"]);
    assert_eq!(ids("completed").await, ["app-0", "app-0"]);
    assert_eq!(ids("ended").await, ["app-0", "app-8"]);
    assert_eq!(ids("Rejected").await, ["app-9"]);
}

#[tokio::test]
async fn only_live_applications_are_ordered_by_their_wait() {
    assert_eq!(ids("active?order=waiting").await, [""; 0], "they have no pending requests");
    let why = "order `waiting` is neither oldest nor newest (nor waiting, of active applications)";
    check_error(&format!("{P}/applications/completed?order=waiting"), 400, why).await;
    let after = "after `app-2` is no place in this list: follow the `Link` of a page";
    let path = format!("{P}/applications/active?order=waiting&after=app-2");
    check_error(&path, 400, after).await;
}

#[tokio::test]
async fn nodes_users_and_groups_are_searched_by_name() {
    for (path, found) in [
        ("nodes?search=N", vec!["n 1", "n2"]),
        ("nodes?search=n&limit=1&brief", vec!["n 1"]),
        ("nodes?search=n&after=n+1", vec!["n2"]),
        ("nodes?search=x", vec![]),
        ("nodes?search=", vec!["n 1", "n2", "ü"]),
        ("usage/users?search=VC", vec!["svc$"]),
        ("usage/users?search=w", vec![]),
        ("usage/groups?search=OPS", vec!["dev.ops"]),
    ] {
        let response = call("GET", &format!("{P}/{path}")).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let list: Vec<serde_json::Value> = serde_json::from_str(&body(response).await).unwrap();
        let name = |row: &serde_json::Value| {
            let mut names = ["nodeID", "userName", "groupName"].into_iter();
            names.find_map(|field| row[field].as_str().map(str::to_owned)).unwrap()
        };
        assert_eq!(list.iter().map(name).collect::<Vec<_>>(), found, "{path}");
    }
    let next = call("GET", &format!("{P}/nodes?search=n&limit=1")).await;
    let link = "</ws/v1/partition/default/nodes?search=n&limit=1&after=n+1>; rel=\"next\"";
    assert_eq!(next.headers()["link"], link);
}

#[tokio::test]
async fn a_removed_application_has_a_document() {
    let response = call("GET", &format!("{P}/application/app-8")).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert!(body(response).await.contains(r#""applicationState":"Removed""#));
    let of_queue = format!("{P}/queue/root.a/application/app-8");
    check_error(&of_queue, 404, "Application not found").await;
}

#[tokio::test]
async fn a_label_without_a_name_is_refused() {
    let why = "label `=x` has no name: write NAME=VALUE, or NAME for any value";
    check_error(&format!("{P}/applications/active?label=a,%3Dx"), 400, why).await;
}

#[tokio::test]
async fn a_label_that_is_named_twice_is_refused() {
    let why = "label `a` is named twice: an application has one value for it";
    for labels in ["a=1,b,a=2", "a,a", "a=1,a=1"] {
        let path = format!("{P}/applications/active?label={labels}");
        check_error(&path, 400, why).await;
    }
}

#[tokio::test]
async fn only_live_applications_are_filtered_by_state() {
    assert_eq!(ids("active?status=Running").await, ["app 1"]);
    assert_eq!(ids("active?status=failing").await, [""; 0]);
    assert_eq!(ids("active?status=").await, ["app 1", "app-2"]);
    assert_eq!(ids("completed?status=done").await, ["app-0", "app-0"]);
}

#[tokio::test]
async fn an_unknown_list_is_reported_after_the_partition() {
    let states = "Only following application states are allowed: active, rejected, completed";
    check_error(&format!("{P}/applications/done"), 400, states).await;
    let statuses = "Only following active statuses are allowed: \
                    new,accepted,running,completing,failing,resuming";
    check_error(&format!("{P}/applications/active?status=failed"), 400, statuses).await;
    let nowhere = "/ws/v1/partition/nope/applications";
    check_error(&format!("{nowhere}/done"), 404, "Partition not found").await;
    check_error(&format!("{nowhere}/active?status=failed"), 404, "Partition not found").await;
}

#[tokio::test]
async fn one_application_is_found_while_it_lives() {
    let response = call("GET", &format!("{P}/application/app-2")).await;
    assert!(body(response).await.contains(r#""applicationID":"app-2""#));
    check_error(&format!("{P}/application/app-0"), 404, "Application not found").await;
    check_error("/ws/v1/partition/nope/application/x", 404, "Partition not found").await;
    let explain = format!("{P}/application/app/explain");
    check_error(&format!("{explain}?offset=x"), 400, "offset `x` is no number").await;
    check_error("/ws/v1/partition/nope/application/x/explain?offset=x", 404, "Partition not found")
        .await;
    check_error(&format!("{P}/application/a1/explain"), 404, "application `a1` not found").await;
    let ask = "ask `k 9` of application `app` not found";
    check_error(&format!("{explain}?ask=k+9"), 404, ask).await;
}

#[tokio::test]
async fn a_parent_queue_lists_no_applications() {
    for (queue, document) in [
        ("root.a", "[]\n"),
        (
            "root.AB",
            "[{\"applicationID\":\"app-1\",\"partition\":\"\",\"queueName\":\"root.ab\",\
             \"resourceHistory\":{}}]\n",
        ),
    ] {
        let response = call("GET", &format!("{P}/queue/{queue}/applications")).await;
        assert_eq!(body(response).await, document);
    }
}

#[tokio::test]
async fn a_queue_lists_its_live_applications_alone() {
    let only = "Only following application states are allowed: active";
    let of = |queue: &str, state: &str| format!("{P}/queue/{queue}/applications/{state}");
    check_error(&of("root.ab", "completed"), 400, only).await;
    // Of several faults, the first in this order is reported.
    check_error(&of("root.none", "completed"), 404, "Queue not found").await;
    check_error(&of("%25Zt", "completed"), 400, r#"invalid URL escape "%Zt""#).await;
    let nowhere = "/ws/v1/partition/nope/queue/%25Zt/applications/completed";
    check_error(nowhere, 404, "Partition not found").await;
    let response = call("GET", &of("ROOT.ab", "Active?status=Running")).await;
    assert!(body(response).await.contains("app-1"));
    let status = of("root.ab", "active?status=failed");
    let statuses = "Only following active statuses are allowed: \
                    new,accepted,running,completing,failing,resuming";
    check_error(&status, 400, statuses).await;
}

#[tokio::test]
async fn an_application_is_found_only_in_its_queue() {
    let of = |queue: &str, id: &str| format!("{P}/queue/{queue}/application/{id}");
    check_error(&of("root.ab", "app-2"), 404, "Application not found").await;
    check_error(&of("root.none", "app-2"), 404, "Queue not found").await;
    check_error(
        &of("root!", "app-2"),
        400,
        "queue path `root!` is not valid: a queue name has at \
        most 64 characters, which are alphanumerics and -, _, #, @, /, :",
    )
    .await;
    let nowhere = "/ws/v1/partition/nope/queue";
    check_error(&format!("{nowhere}/root!/application/x"), 404, "Partition not found").await;
    let escape = r#"invalid URL escape "%Zt""#;
    check_error(&format!("{nowhere}/%25Zt/application/x"), 400, escape).await;
    let found = call("GET", &of("root.a", "app%201")).await;
    assert!(body(found).await.contains(r#""applicationID":"app 1""#));
}
