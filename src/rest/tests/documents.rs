//! Documents: content, headers, tags, pages and compression.

use std::io::Read as _;

use flate2::read::GzDecoder;

use super::super::routes::Answers;
use super::*;

async fn get_with_encoding(uri: &str, encoding: &str) -> Response {
    let request = Request::get(uri).header("accept-encoding", encoding);
    send(RUNNING, request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn json_documents_have_cors_headers() {
    check("GET", "/ws/v1/clusters", &expect![[r#"
        200 OK
        content-type: application/json; charset=UTF-8
        access-control-allow-origin: *
        access-control-allow-methods: GET, OPTIONS
        access-control-allow-headers: X-Requested-With,Content-Type,Accept,Origin,Authorization
        content-length: 104

        [{"partition":"default","clusterName":"kubernetes"},{"partition":"default","clusterName":"kubernetes"}]
    "#]]).await;
    check("GET", "/ws/v1/partitions", &expect![[r#"
        200 OK
        content-type: application/json; charset=UTF-8
        access-control-allow-origin: *
        access-control-allow-methods: GET, OPTIONS
        access-control-allow-headers: X-Requested-With,Content-Type,Accept,Origin,Authorization
        content-length: 403

        [{"clusterId":"lab","name":"default","capacity":{},"nodeSortingPolicy":{"type":""},"preemptionEnabled":false,"quotaPreemptionEnabled":false,"totalNodes":0,"applications":{"total":0},"decisionsKept":0},{"clusterId":"yard","name":"default","capacity":{},"nodeSortingPolicy":{"type":""},"preemptionEnabled":false,"quotaPreemptionEnabled":false,"totalNodes":0,"applications":{"total":0},"decisionsKept":0}]
    "#]]).await;
    check(
        "GET",
        &format!("{P}/node/n%201"),
        &expect![[r#"
            200 OK
            content-type: application/json; charset=UTF-8
            access-control-allow-origin: *
            access-control-allow-methods: GET, OPTIONS
            access-control-allow-headers: X-Requested-With,Content-Type,Accept,Origin,Authorization
            etag: W/"a-7-4fecfa96"
            x-step-first: 7
            x-step-last: 7
            access-control-expose-headers: ETag,Link,X-Step-First,X-Step-Last
            content-length: 72

            {"nodeID":"n 1","attributes":{},"schedulable":false,"isReserved":false}
        "#]],
    )
    .await;
    for path in [
        "placementrules",
        "queues",
        "queue/root",
        "nodes",
        "queue/root.ab/applications",
        "applications/active",
        "application/app%201",
        "usage/users",
        "usage/user/svc$",
        "usage/groups",
        "usage/group/dev.ops",
    ] {
        let response = call("GET", &format!("{P}/{path}")).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(response.headers()["content-type"], "application/json; charset=UTF-8");
        assert_eq!(response.headers()["access-control-allow-origin"], "*", "{path}");
    }
}

/// Sends a request at a step of the partition, with these headers.
async fn get_at(step: u64, uri: &str, headers: &[(&str, &str)]) -> Response {
    let mut request = Request::get(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let source = Scripted { step, ..RUNNING };
    send(source, request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn a_partition_document_has_its_steps() {
    check(
        "GET",
        &format!("{P}/nodes?limit=2&after=a"),
        &expect![[r#"
            200 OK
            content-type: application/json; charset=UTF-8
            access-control-allow-origin: *
            access-control-allow-methods: GET, OPTIONS
            access-control-allow-headers: X-Requested-With,Content-Type,Accept,Origin,Authorization
            etag: W/"a-7-6682556b"
            x-step-first: 7
            x-step-last: 9
            link: </ws/v1/partition/default/nodes?limit=2&after=n2>; rel="next"
            access-control-expose-headers: ETag,Link,X-Step-First,X-Step-Last
            content-length: 145

            [{"nodeID":"n 1","attributes":{},"schedulable":false,"isReserved":false},{"nodeID":"n2","attributes":{},"schedulable":false,"isReserved":false}]
        "#]],
    )
    .await;
}

#[tokio::test]
async fn pages_are_consecutive_and_optional() {
    let mut path = format!("{P}/nodes?limit=2");
    let mut pages = Vec::new();
    loop {
        let response = call("GET", &path).await;
        let next = response.headers().get("link").map(|link| link.to_str().unwrap().to_owned());
        let nodes: Vec<serde_json::Value> = serde_json::from_str(&body(response).await).unwrap();
        let ids = nodes.iter().map(|node| node["nodeID"].as_str().unwrap().to_owned());
        pages.push(ids.collect::<Vec<_>>());
        let Some(next) = next else { break };
        path = next.strip_prefix('<').unwrap().split_once(">; rel=\"next\"").unwrap().0.to_owned();
    }
    assert_eq!(pages, [vec!["n 1", "n2"], vec!["ü"]]);
    let whole = call("GET", &format!("{P}/nodes")).await;
    assert!(!whole.headers().contains_key("link"));
    let whole: Vec<serde_json::Value> = serde_json::from_str(&body(whole).await).unwrap();
    assert_eq!(whole.len(), 3);
}

#[tokio::test]
async fn a_malformed_page_is_reported_after_the_partition() {
    let limit = "limit `none` is no number of rows (1 or more)";
    check_error(&format!("{P}/nodes?limit=none"), 400, limit).await;
    check_error("/ws/v1/partition/nope/nodes?limit=none", 404, "Partition not found").await;
    let after = "after `app-0` is no place in this list: follow the `Link` of a page";
    check_error(&format!("{P}/applications/completed?after=app-0"), 400, after).await;
}

#[tokio::test]
async fn a_current_document_is_not_sent_again() {
    for path in [
        "nodes",
        "nodes?limit=1",
        "queues",
        "queue/root.a",
        "node/n2",
        "applications/active",
        "application/app-2",
        "usage/users",
        "usage/groups",
    ] {
        let uri = format!("{P}/{path}");
        let first = get_at(7, &uri, &[]).await;
        let tag = first.headers()["etag"].to_str().unwrap().to_owned();
        assert!(tag.starts_with("W/\"a-7-"), "{tag}");
        let again = get_at(7, &uri, &[("if-none-match", &tag)]).await;
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{path}");
        assert_eq!(again.headers()["etag"], *tag);
        assert_eq!(again.headers()["access-control-allow-origin"], "*");
        assert_eq!(body(again).await, "");
        let later = get_at(8, &uri, &[("if-none-match", &tag)]).await;
        assert_eq!(later.status(), StatusCode::OK, "{path}");
        assert_ne!(later.headers()["etag"], *tag);
        let elsewhere = uri.replace("/default/", "/%5Byard%5Ddefault/");
        let elsewhere = get_at(7, &elsewhere, &[("if-none-match", &tag)]).await;
        assert_ne!(elsewhere.status(), StatusCode::NOT_MODIFIED, "{path}");
    }
    check_error("/ws/v1/partition/nope/nodes", 404, "Partition not found").await;
}

#[tokio::test]
async fn usage_is_per_partition() {
    let users = async |partition: &str| {
        body(call("GET", &format!("/ws/v1/partition/{partition}/usage/users")).await).await
    };
    assert!(users("default").await.contains("svc$"));
    assert!(users("%5Byard%5Ddefault").await.contains("ann"));
    let groups = body(call("GET", &format!("{P}/usage/groups")).await).await;
    assert!(groups.starts_with(r#"[{"groupName":"*","#), "in the list `*` is: {groups}");
}

#[tokio::test]
async fn placement_rules_are_listed_with_the_internal_one() {
    let rules = body(call("GET", &format!("{P}/placementrules")).await).await;
    expect![[r#"
        [{"name":"provided","parameters":{"create":"false"}},{"name":"recovery","parameters":{"queue":"root.@recovery@"}}]
    "#]]
    .assert_eq(&rules);
}

async fn configuration(query: &str, accept: Option<&str>) -> Response {
    let mut request = Request::get(format!("/ws/v1/config{query}"));
    if let Some(accept) = accept {
        request = request.header("accept", accept);
    }
    send(RUNNING, request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn json_needs_an_exact_accept_header() {
    for (accept, is_json) in [
        (Some("application/json"), true),
        (Some("application/json, */*"), false),
        (Some("Application/JSON"), false),
        (Some("*/*"), false),
        (None, false),
    ] {
        let response = configuration("", accept).await;
        let kind = if is_json { "application/json" } else { "application/x-yaml" };
        let kind = format!("{kind}; charset=UTF-8");
        assert_eq!(response.headers()["content-type"], kind, "{accept:?}");
        assert_eq!(response.headers()["access-control-allow-methods"], "GET, OPTIONS");
        assert_eq!(body(response).await.starts_with('{'), is_json, "{accept:?}");
    }
}

#[tokio::test]
async fn the_configuration_is_of_the_first_or_named_rm() {
    for (query, queue) in [("", "lab"), ("?rm=", "lab"), ("?rm=yard&rm=lab", "yard")] {
        let yaml = body(configuration(query, None).await).await;
        assert!(yaml.contains(&format!("name: {queue}\n")), "{yaml}");
        assert!(yaml.contains("name: root\n") && yaml.contains("  Log.level: WARN\n"), "{yaml}");
    }
    check_error("/ws/v1/config?rm=who", 404, "resource manager `who` is not registered").await;
}

#[tokio::test]
async fn only_the_root_names_the_partition() {
    let tree = body(call("GET", &format!("{P}/queues")).await).await;
    assert_eq!(tree.matches(r#""queuename""#).count(), 4);
    assert_eq!(tree.matches(r#""partition":"default""#).count(), 1);
    assert!(tree.ends_with("}\n"));
}

#[tokio::test]
async fn a_queue_has_its_subtree_only_on_request() {
    for (query, n_queues) in [("", 1), ("?subtree", 4), ("?subtree=false", 4), ("?a=subtree", 1)] {
        let tree = body(call("GET", &format!("{P}/queue/root{query}")).await).await;
        assert_eq!(tree.matches(r#""queuename""#).count(), n_queues, "{query}");
        assert_eq!(tree.matches(r#""partition":"""#).count(), n_queues, "{query}");
        assert!(tree.contains(r#""childNames":["root.a","root.ab"]"#), "{query}");
    }
}

#[tokio::test]
async fn long_documents_are_compressed_on_request() {
    let long = "/ws/v1/partition/%5Byard%5Ddefault/queues";
    let plain = body(call("GET", long).await).await;
    for encoding in ["gzip", "deflate, GZIP"] {
        let response = get_with_encoding(long, encoding).await;
        assert_eq!(response.headers()["content-encoding"], "gzip");
        assert_eq!(response.headers().get_all("vary").iter().count(), 1);
        assert_eq!(response.headers()["vary"], "Accept-Encoding");
        let compressed = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let mut decoded = String::new();
        GzDecoder::new(&compressed[..]).read_to_string(&mut decoded).unwrap();
        assert_eq!(decoded, plain);
    }
    for (uri, encoding) in [(long, "gzip;q=0"), (long, "br"), ("/ws/v1/clusters", "gzip")] {
        let response = get_with_encoding(uri, encoding).await;
        assert!(!response.headers().contains_key("content-encoding"), "{uri} {encoding}");
        assert!(!response.headers().contains_key("vary"), "{uri} {encoding}");
    }
}

#[tokio::test]
async fn compression_begins_at_1400_bytes() {
    let mut request = axum::http::HeaderMap::new();
    request.insert("accept-encoding", "gzip".parse().unwrap());
    for (length, compressed) in [(1399, false), (1400, true)] {
        let reply = replies::EndpointReply::ok(replies::Class::Text, "x".repeat(length));
        let response = replies::respond(Ok(reply), Answers::Get, &request).await;
        assert_eq!(response.headers().contains_key("content-encoding"), compressed, "{length}");
    }
}

#[tokio::test]
async fn metrics_are_text_under_one_layer_of_gzip() {
    let response = get_with_encoding("/ws/v1/metrics", "gzip").await;
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert!(!response.headers().contains_key("access-control-allow-origin"));
    let compressed = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let mut page = String::new();
    GzDecoder::new(&compressed[..]).read_to_string(&mut page).unwrap();
    assert!(page.starts_with("# HELP monoceros_"), "{page}");
}

#[tokio::test]
async fn unrecorded_history_is_empty_or_missing() {
    for path in ["apps", "containers"] {
        assert_eq!(body(call("GET", &format!("/ws/v1/history/{path}")).await).await, "[]\n");
    }
    let path = "/ws/v1/scheduler/healthcheck";
    check_error(path, 404, "Health check is not available").await;
}

#[tokio::test]
async fn event_ranges_are_requested_by_number() {
    let batch = "/ws/v1/events/batch";
    check_error(&format!("{batch}?count=0&start=x"), 400, "0 is not a valid value for \"count\"")
        .await;
    let wrong = |name, text| format!("{name} `{text}` is no number from 0 to {}", u64::MAX);
    check_error(&format!("{batch}?count=1.5&start=x"), 400, &wrong("count", "1.5")).await;
    check_error(&format!("{batch}?start=-1"), 400, &wrong("start", "-1")).await;
    let stream = "/ws/v1/events/stream?count=x";
    check_error(stream, 400, &wrong("count", "x")).await;
    let empty = body(call("GET", &format!("{batch}?count=99999999999")).await).await;
    let (_, rest) = empty.split_once(r#"","LowestID":"#).unwrap();
    assert_eq!(rest, "0,\"HighestID\":0,\"EventRecords\":null}\n");
}

#[tokio::test]
async fn the_old_state_dump_path_redirects() {
    let moved = call("GET", "/ws/v1/fullstatedump?x=1").await;
    assert_eq!(moved.status(), StatusCode::MOVED_PERMANENTLY);
    assert_eq!(moved.headers()["location"], "/debug/fullstatedump?x=1");
    let dump = call("GET", "/debug/fullstatedump").await;
    assert_eq!(dump.headers()["content-type"], "application/json; charset=UTF-8");
    assert_eq!(body(dump).await, "{}\n");
}

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere() {
    let response = call("GET", "/").await;
    assert_eq!(response.headers()["content-type"], "text/html; charset=utf-8");
    assert_eq!(response.headers()["cache-control"], "no-cache");
    let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; connect-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let page = body(response).await;
    for elsewhere in ["http://", "https://", "src=\"//", "@import", "href=\"//"] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
    assert_eq!(body(call("GET", "/ui/applications").await).await, page, "each view is the page");
    // Browsers cache its files, which are compressed.
    let script = page.split("src=\"").nth(1).unwrap().split('"').next().unwrap();
    let request = Request::get(script).header("accept-encoding", "gzip").body(Body::empty());
    let response = send(RUNNING, request.unwrap()).await;
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/javascript; charset=utf-8");
    assert_eq!(header("cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(header("content-encoding"), "gzip");
    let licences = call("GET", "/assets/licenses.md").await;
    assert_eq!(licences.headers()["cache-control"], "no-cache");
    assert!(body(licences).await.contains("Permission is hereby granted"));
    assert_eq!(call("GET", "/assets/nothing.js").await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_standby_replica_shows_no_gauges_of_the_cluster() {
    let registry = prometheus::Registry::new();
    for name in ["yunikorn_scheduler_node", "monoceros_kubernetes_leads"] {
        let gauge = prometheus::IntGauge::new(name, "text").unwrap();
        registry.register(Box::new(gauge)).unwrap();
    }
    let counter = prometheus::IntCounter::new("yunikorn_queue_app_total", "text").unwrap();
    registry.register(Box::new(counter)).unwrap();
    for (stands_by, has_nodes) in [(false, true), (true, false)] {
        let page = super::super::endpoints::metrics_page(registry.clone(), stands_by).await;
        let page = String::from_utf8(page.unwrap()).unwrap();
        assert_eq!(page.contains("yunikorn_scheduler_node 0"), has_nodes, "{page}");
        for name in ["monoceros_kubernetes_leads 0", "yunikorn_queue_app_total 0"] {
            assert!(page.contains(name), "{page}");
        }
    }
}
