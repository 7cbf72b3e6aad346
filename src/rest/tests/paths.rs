//! Paths, methods, names and bodies.

use super::*;

#[tokio::test]
async fn only_get_head_and_options_are_answered() {
    for method in ["PUT", "POST", "DELETE"] {
        let response = call(method, "/ws/v1/clusters").await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(response.headers()["allow"], "GET, HEAD, OPTIONS");
    }
    check(
        "POST",
        "/ws/v1/metrics",
        &expect![[r"
        405 Method Not Allowed
        content-type: text/plain; charset=utf-8
        allow: GET, HEAD, OPTIONS
        content-length: 18

        Method Not Allowed"]],
    )
    .await;
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let paths = ["/", "/healthz", "/ws/v1/clusters", "/ws/v1/metrics", "/debug/fullstatedump"];
    let of_partition = ["nodes", "queues", "queue/root", "application/nobody"];
    let of_partition = of_partition.map(|path| format!("{P}/{path}"));
    let elsewhere = ["/ws/v1/nothing", "/ws/v1/CLUSTERS"];
    for path in paths.into_iter().chain(of_partition.iter().map(String::as_str)).chain(elsewhere) {
        let (get, head) = (call("GET", path).await, call("HEAD", path).await);
        assert_eq!((head.status(), head.headers()), (get.status(), get.headers()), "{path}");
        let length = body(get).await.len().to_string();
        assert_eq!(head.headers()["content-length"], *length, "{path}");
        assert_eq!(body(head).await, "", "{path}");
    }
}

#[tokio::test]
async fn options_lets_browsers_in() {
    check(
        "OPTIONS",
        &format!("{P}/queue/root"),
        &expect![[r"
        200 OK
        access-control-allow-origin: *
        access-control-allow-methods: GET, OPTIONS
        access-control-allow-headers: X-Requested-With,Content-Type,Accept,Origin,Authorization
        allow: GET, HEAD, OPTIONS
        content-length: 0

    "]],
    )
    .await;
}

async fn post(text: impl Into<Body>) -> Response {
    send(RUNNING, Request::post("/ws/v1/validate-conf").body(text.into()).unwrap()).await
}

#[tokio::test]
async fn a_configuration_is_posted() {
    for method in ["GET", "HEAD", "PUT"] {
        let response = call(method, "/ws/v1/validate-conf").await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(response.headers()["allow"], "OPTIONS, POST");
    }
    let response = call("OPTIONS", "/ws/v1/validate-conf").await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["allow"], "OPTIONS, POST");
    assert_eq!(response.headers()["access-control-allow-methods"], "OPTIONS, POST");
}

#[tokio::test]
async fn every_checked_configuration_gets_200() {
    expect![[r#"
        200 OK
        content-type: application/json; charset=UTF-8
        access-control-allow-origin: *
        access-control-allow-methods: OPTIONS, POST
        access-control-allow-headers: X-Requested-With,Content-Type,Accept,Origin,Authorization
        content-length: 117

        {"allowed":true,"checksum":"E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855","checksumMatch":false}
    "#]]
    .assert_eq(&shown(post("").await).await);
    let response = post(b"\x80\x00".to_vec()).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(
        body(response).await,
        "{\"allowed\":false,\"reason\":\"it is not UTF-8 from byte 0 on\"}\n"
    );
}

#[tokio::test]
async fn an_oversized_body_is_refused() {
    for (length, status) in [(MAX_BODY, 200), (MAX_BODY + 1, 413)] {
        let response = post("#".repeat(length)).await;
        assert_eq!(response.status().as_u16(), status);
        let is_told = body(response).await.contains("more than 1000 bytes");
        assert_eq!(is_told, status == 413);
    }
}

#[tokio::test]
async fn other_spellings_are_redirected_with_their_query() {
    check(
        "GET",
        "/ws/v1/CLUSTERS/?a=1&b=%3C",
        &expect![[r#"
        301 Moved Permanently
        content-type: text/html; charset=utf-8
        location: /ws/v1/clusters?a=1&b=%3C
        content-length: 63

        <a href="/ws/v1/clusters?a=1&amp;b=%3C">Moved Permanently</a>.
    "#]],
    )
    .await;
    check(
        "POST",
        "//ws/v1/clusters",
        &expect![[r#"
        307 Temporary Redirect
        content-type: text/html; charset=utf-8
        location: /ws/v1/clusters
        content-length: 50

        <a href="/ws/v1/clusters">Temporary Redirect</a>.
    "#]],
    )
    .await;
}

#[tokio::test]
async fn an_unknown_path_is_answered_in_plain_text() {
    check(
        "GET",
        "/ws/v1/nothing",
        &expect![[r"
        404 Not Found
        content-type: text/plain; charset=utf-8
        content-length: 18

        404 page not found"]],
    )
    .await;
}

#[tokio::test]
async fn missing_items_are_reported_by_kind() {
    for path in [
        "placementrules",
        "queues",
        "queue/root!",
        "nodes",
        "node/n2",
        "queue/root.ab/applications",
        "usage/users",
        "usage/user/1abc",
        "usage/groups",
        "usage/group/%25Zt",
    ] {
        let uri = format!("/ws/v1/partition/none/{path}");
        check_error(&uri, 404, "Partition not found").await;
    }
    check_error(&format!("{P}/queue/root.none"), 404, "Queue not found").await;
    check_error(&format!("{P}/queue/a"), 404, "Queue not found").await;
    check_error(&format!("{P}/queue/root.none/applications"), 404, "Queue not found").await;
    check_error(&format!("{P}/node/n1"), 404, "Node not found").await;
    check_error(&format!("{P}/usage/user/ann"), 404, "User not found").await;
    check_error(&format!("{P}/usage/group/ops"), 404, "Group not found").await;
}

#[tokio::test]
async fn an_invalid_queue_path_is_refused() {
    let rule = |path: &str| {
        format!(
            "queue path `{path}` is not valid: a queue name has at most 64 characters, which are \
             alphanumerics and -, _, #, @, /, :"
        )
    };
    check_error(&format!("{P}/queue/root.a!"), 400, &rule("root.a!")).await;
    let long = format!("root.{}", "x".repeat(65));
    check_error(&format!("{P}/queue/{long}"), 400, &rule(&long)).await;
    for escape in ["%Zt", "%25Zt"] {
        let message = r#"invalid URL escape "%Zt""#;
        check_error(&format!("{P}/queue/{escape}"), 400, message).await;
        check_error(&format!("/ws/v1/partition/none/queue/{escape}/applications"), 400, message)
            .await;
    }
}

#[tokio::test]
async fn queues_match_in_any_encoding_and_case() {
    for path in ["root.a.b%2Fc%23d", "root.a.b%252Fc%2523d", "ROOT.A.B%2Fc%23D"] {
        let response = call("GET", &format!("{P}/queue/{path}")).await;
        assert!(body(response).await.starts_with(r#"{"queuename":"root.a.b/c#d""#), "{path}");
    }
    check_error(&format!("{P}/queue/root.x@y:z"), 404, "Queue not found").await;
}

#[tokio::test]
async fn invalid_user_and_group_names_are_refused() {
    for user in ["1abc", "*", "a%20b", "a+b", "$"] {
        check_error(&format!("{P}/usage/user/{user}"), 400, "Invalid user name").await;
    }
    for group in ["a@b", "*", "svc$", "a%252Fb"] {
        check_error(&format!("{P}/usage/group/{group}"), 400, "Invalid group name").await;
    }
    check_error(&format!("{P}/usage/user/a%25Zt"), 400, r#"invalid URL escape "%Zt""#).await;
    for user in ["svc$", "svc%24", "svc%2524"] {
        let found = body(call("GET", &format!("{P}/usage/user/{user}")).await).await;
        assert_eq!(found, "{\"userName\":\"svc$\",\"queues\":{\"queuePath\":\"\"}}\n");
    }
}

#[tokio::test]
async fn a_partition_may_be_named_with_its_rm() {
    for (name, n_queues) in [("default", 4), ("%5Blab%5Ddefault", 4), ("%5byard%5ddefault", 51)] {
        let tree = body(call("GET", &format!("/ws/v1/partition/{name}/queues")).await).await;
        assert_eq!(tree.matches(r#""queuename""#).count(), n_queues, "{name}");
    }
}

#[tokio::test]
async fn threads_are_listed_and_profiles_refused() {
    let moved = call("GET", "/ws/v1/stack?x=1").await;
    assert_eq!(moved.status(), StatusCode::MOVED_PERMANENTLY);
    assert_eq!(moved.headers()["location"], "/debug/stack?x=1");
    let stack = call("GET", "/debug/stack").await;
    assert_eq!(stack.headers()["content-type"], "application/json; charset=UTF-8");
    let threads = body(stack).await;
    assert!(threads.contains(" tasks\n") && threads.contains("thread "), "{threads}");
    let index = call("GET", "/debug/pprof").await;
    assert_eq!(index.headers()["content-type"], "text/html; charset=utf-8");
    let cmdline = body(call("GET", "/debug/pprof/cmdline").await).await;
    assert!(cmdline.starts_with(&std::env::args().next().unwrap()));
    let message = "profiles are not taken here; take one of the process from outside";
    check_error("/debug/pprof/heap", 501, message).await;
}
