//! Paths, methods, headers and errors over a socket.

use crate::harness::{HttpAnswer, Rm, Service};

/// Every path that is read as JSON, and has content.
const JSON: [&str; 23] = [
    "/ws/v1/clusters",
    "/ws/v1/partitions",
    "/ws/v1/history/apps",
    "/ws/v1/history/containers",
    "/ws/v1/scheduler/healthcheck",
    "/ws/v1/scheduler/node-utilizations",
    "/ws/v1/events/batch",
    "/ws/v1/sessions",
    "/debug/stack",
    "/debug/fullstatedump",
    "/ws/v1/partition/default/placementrules",
    "/ws/v1/partition/default/queues",
    "/ws/v1/partition/default/queue/root.a",
    "/ws/v1/partition/default/queue/root.a/applications",
    "/ws/v1/partition/default/queue/root.a/applications/active",
    "/ws/v1/partition/default/queue/root.a/application/app",
    "/ws/v1/partition/default/applications/active",
    "/ws/v1/partition/default/application/app",
    "/ws/v1/partition/default/application/app/explain",
    "/ws/v1/partition/default/nodes",
    "/ws/v1/partition/default/node/n1",
    "/ws/v1/partition/default/usage/users",
    "/ws/v1/partition/default/usage/user/alice",
];

async fn service_with_an_application() -> (Service, Rm) {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    // The user of the application is known after the first attempt to place it.
    rm.send_allocations(vec![], vec![crate::harness::ask("app", "k")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    (service, rm)
}

fn header<'a>(answer: &'a HttpAnswer, name: &str) -> Option<&'a str> {
    let mut lines = answer.head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(key, _)| *key == name).map(|(_, value)| value)
}

#[tokio::test]
async fn every_path_answers_only_get_head_options() {
    let (service, _rm) = service_with_an_application().await;
    for path in JSON {
        let call = async |method: &str| service.http(method, path, &[], "").await;
        let (get, head) = (call("GET").await, call("HEAD").await);
        assert_eq!((get.status, head.status), (200, 200), "{path}: {}", get.body);
        assert_eq!(head.body, "", "{path}");
        for answer in [&get, &head] {
            let kind = header(answer, "content-type");
            assert_eq!(kind, Some("application/json; charset=utf-8"), "{path}");
            assert_eq!(header(answer, "access-control-allow-origin"), Some("*"), "{path}");
            assert_eq!(header(answer, "access-control-allow-methods"), Some("get, options"));
            assert!(header(answer, "access-control-allow-headers").is_some(), "{path}");
        }
        let options = call("OPTIONS").await;
        assert_eq!((options.status, &*options.body), (200, ""), "{path}");
        assert_eq!(header(&options, "allow"), Some("get, head, options"), "{path}");
        let delete = call("DELETE").await;
        assert_eq!((delete.status, &*delete.body), (405, "Method Not Allowed"), "{path}");
        assert_eq!(header(&delete, "content-type"), Some("text/plain; charset=utf-8"));
    }
    let metrics = service.http("GET", "/ws/v1/metrics", &[], "").await;
    assert_eq!(header(&metrics, "content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let yaml = service.http("GET", "/ws/v1/config", &[], "").await;
    assert_eq!(header(&yaml, "content-type"), Some("application/x-yaml; charset=utf-8"));
}

#[tokio::test]
async fn missing_items_give_error_objects() {
    let (service, _rm) = service_with_an_application().await;
    for (path, status, message) in [
        ("/ws/v1/partition/nope/queues", 404, "Partition not found"),
        ("/ws/v1/partition/nope/queue/root/application/app", 404, "Partition not found"),
        ("/ws/v1/partition/default/queue/root.zz", 404, "Queue not found"),
        ("/ws/v1/partition/default/queue/root.zz/applications/active", 404, "Queue not found"),
        ("/ws/v1/partition/default/queue/root.zz/application/app", 404, "Queue not found"),
        ("/ws/v1/partition/default/queue/root.b/application/app", 404, "Application not found"),
        ("/ws/v1/partition/default/application/zz", 404, "Application not found"),
        ("/ws/v1/partition/default/node/zz", 404, "Node not found"),
        ("/ws/v1/partition/default/usage/user/zz", 404, "User not found"),
        ("/ws/v1/partition/default/usage/group/zz", 404, "Group not found"),
        ("/ws/v1/partition/default/usage/user/1abc", 400, "Invalid user name"),
        ("/ws/v1/partition/default/usage/group/a@b", 400, "Invalid group name"),
        (
            "/ws/v1/partition/default/queue/root.a/applications/completed",
            400,
            "Only following application states are allowed: active",
        ),
        (
            "/ws/v1/partition/default/applications/done",
            400,
            "Only following application states are allowed: active, rejected, completed",
        ),
        ("/ws/v1/events/batch?count=0", 400, "0 is not a valid value for \"count\""),
    ] {
        let answer = service.http("GET", path, &[], "").await;
        let object = serde_json::json!({
            "status_code": status, "message": message, "description": message,
        });
        assert_eq!((answer.status, answer.json()), (status, object), "{path}");
    }
    let unknown = service.http("GET", "/ws/v1/loglevel", &[], "").await;
    assert_eq!((unknown.status, &*unknown.body), (404, "404 page not found"));
}

#[tokio::test]
async fn other_spellings_redirect_to_canonical_paths() {
    let service = Service::start();
    for (path, location) in [
        ("/ws/v1/History/Apps", "/ws/v1/history/apps"),
        ("/ws/v1/scheduler//healthcheck/", "/ws/v1/scheduler/healthcheck"),
        ("/ws/v1/stack?x=1", "/debug/stack?x=1"),
        ("/ws/v1/fullstatedump", "/debug/fullstatedump"),
    ] {
        let moved = service.http("GET", path, &[], "").await;
        assert_eq!((moved.status, header(&moved, "location")), (301, Some(location)), "{path}");
        let there = service.http("GET", location, &[], "").await;
        assert_eq!(there.status, 200, "{location}");
    }
}

#[tokio::test]
async fn two_managers_may_share_a_partition_name() {
    let service = Service::start();
    let one = Rm::register(&service, "a").await.with_nodes(&["n1"]).await;
    let other = Rm::register(&service, "b").await.with_nodes(&["n1", "n2"]).await;
    let count = async |name: &str| {
        let nodes = service.http("GET", &format!("/ws/v1/partition/{name}/nodes"), &[], "").await;
        nodes.json().as_array().unwrap().len()
    };
    assert_eq!(count("default").await, 1, "the first, by its resource manager");
    assert_eq!((count("%5Ba%5Ddefault").await, count("%5Bb%5Ddefault").await), (1, 2));
    let used = service.http("GET", "/ws/v1/scheduler/node-utilizations", &[], "").await.json();
    let of = |at: usize| (used[at]["clusterId"].clone(), used[at]["partition"].clone());
    assert_eq!([of(0), of(1)], [("a".into(), "default".into()), ("b".into(), "default".into())]);
    assert_eq!(used[1]["utilizations"][0]["utilization"][0]["numOfNodes"], 2);
    drop((one, other));
}
