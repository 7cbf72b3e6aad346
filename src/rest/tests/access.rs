//! Probes, access rights, and connections.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tower::Layer as _;

use super::*;
use crate::connections::Connections;
use crate::identity::layer::IdentityLayer;
use crate::identity::{Access, Rule};
use crate::settings::{Flags, Settings};

pub(super) fn serving() -> Healthy {
    Healthy::fixed(Health::Serving)
}

#[tokio::test]
async fn health_reports_stuck_lost_and_stopping() {
    check(
        "GET",
        "/healthz",
        &expect![[r"
        200 OK
        content-type: text/plain; charset=utf-8
        content-length: 8

        serving
    "]],
    )
    .await;
    let get = || Request::get("/healthz").body(Body::empty()).unwrap();
    for (health, why) in [(Health::Stuck, "does not answer"), (Health::Gone, "is lost")] {
        // A scheduler that does not answer. The probe does not ask it.
        let healthy = Healthy::fixed(health);
        let router = router_until(
            RUNNING,
            beside(WhatIf::off()),
            MAX_BODY,
            healthy,
            CancellationToken::new(),
            Guard::Open,
        );
        let sick = router.oneshot(get()).await.unwrap();
        assert_eq!(sick.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(shown(sick).await.contains(why));
    }
    let stopping = CancellationToken::new();
    stopping.cancel();
    let beside = beside(WhatIf::off());
    let leaving = router_until(RUNNING, beside, MAX_BODY, serving(), stopping, Guard::Open)
        .oneshot(get())
        .await
        .unwrap();
    expect![[r"
        503 Service Unavailable
        content-type: text/plain; charset=utf-8
        content-length: 9

        stopping
    "]]
    .assert_eq(&shown(leaving).await);
}

#[tokio::test]
async fn a_stopped_scheduler_is_unavailable() {
    let request = Request::get(format!("{P}/queues")).body(Body::empty()).unwrap();
    let response = send(Scripted { stopped: true, ..RUNNING }, request).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
}

/// Sends a request with a token: `y4rd` belongs to the shim of `yard`, `d4sh` to a dashboard, and
/// `0ps` to an administrator.
async fn as_whom(token: &str, method: &str, path: &str, open_metrics: bool) -> Response {
    let rules = vec![
        Rule::token("yard", &["yard"], false).unwrap(),
        Rule::reader("dash").unwrap(),
        Rule::token("ops", &[], true).unwrap(),
    ];
    let access = Access::with_tokens(rules, b"yard:y4rd\ndash:d4sh\nops:0ps").unwrap();
    let guard = Guard::Rules { open_metrics };
    let router = router_until(
        RUNNING,
        beside(WhatIf::off()),
        MAX_BODY,
        serving(),
        CancellationToken::new(),
        guard,
    );
    let request = Request::builder().method(method).uri(path);
    let request = request.header("authorization", format!("Bearer {token}"));
    let service = IdentityLayer::new(Arc::new(access)).layer(router);
    service.oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn status_as(token: &str, method: &str, path: &str) -> u16 {
    as_whom(token, method, path, false).await.status().as_u16()
}

#[tokio::test]
async fn with_rules_each_path_needs_its_right() {
    let (own, other) = ("/ws/v1/partition/%5Byard%5Ddefault", "/ws/v1/partition/%5Blab%5Ddefault");
    for (path, nobody, shim, reader) in [
        ("/".to_owned(), 200, 200, 200),
        ("/ui/nodes".to_owned(), 200, 200, 200),
        ("/assets/licenses.md".to_owned(), 200, 200, 200),
        ("/healthz".to_owned(), 200, 200, 200),
        ("/ws/v1/metrics".to_owned(), 401, 403, 200),
        ("/ws/v1/config".to_owned(), 401, 200, 200),
        ("/ws/v1/config?rm=yard".to_owned(), 401, 200, 200),
        ("/ws/v1/config?rm=lab".to_owned(), 401, 403, 200),
        ("/ws/v1/clusters".to_owned(), 401, 200, 200),
        ("/ws/v1/partitions".to_owned(), 401, 200, 200),
        ("/ws/v1/history/apps".to_owned(), 401, 403, 200),
        ("/ws/v1/history/containers".to_owned(), 401, 403, 200),
        ("/ws/v1/scheduler/healthcheck".to_owned(), 401, 403, 404),
        ("/ws/v1/scheduler/node-utilizations".to_owned(), 401, 200, 200),
        ("/ws/v1/events/batch".to_owned(), 401, 403, 200),
        ("/ws/v1/sessions".to_owned(), 401, 403, 200),
        ("/debug/stack".to_owned(), 401, 403, 200),
        ("/debug/pprof/cmdline".to_owned(), 401, 403, 200),
        (format!("{own}/queues"), 401, 200, 200),
        (format!("{own}/nodes"), 401, 200, 200),
        (format!("{other}/queues"), 401, 403, 200),
        (format!("{other}/nodes?limit=1"), 401, 403, 200),
        (format!("{other}/usage/user/svc$"), 401, 403, 200),
        // This router has no history.
        (format!("{own}/history/queue/root"), 401, 404, 404),
        (format!("{other}/history/queue/root"), 401, 403, 404),
        (format!("{other}/history/user/ann"), 401, 403, 404),
        (format!("{other}/history/node/n1"), 401, 403, 404),
        ("/ws/v1/partition/%5Bnobody%5Dp/nodes".to_owned(), 401, 403, 404),
        ("/debug/fullstatedump".to_owned(), 401, 403, 200),
    ] {
        assert_eq!(status_as("", "GET", &path).await, nobody, "{path}, by nobody");
        assert_eq!(status_as("y4rd", "GET", &path).await, shim, "{path}, by a shim");
        assert_eq!(status_as("d4sh", "GET", &path).await, reader, "{path}, by a reader");
        assert_eq!(status_as("0ps", "GET", &path).await, reader, "{path}, by an administrator");
        assert_eq!(status_as("", "OPTIONS", &path).await, 200, "{path}");
    }
    let check = "/ws/v1/validate-conf";
    for (token, status) in [("", 401), ("y4rd", 200), ("d4sh", 200), ("0ps", 200)] {
        assert_eq!(status_as(token, "POST", check).await, status);
    }
    assert_eq!(status_as("0ps", "PUT", &format!("{own}/queues")).await, 405);
    assert_eq!(status_as("", "PUT", &format!("{own}/queues")).await, 401);
    let metrics = as_whom("", "GET", "/ws/v1/metrics", true).await;
    assert_eq!(metrics.status(), StatusCode::OK, "as the settings say");
}

#[tokio::test]
async fn a_shim_sees_only_its_own_items() {
    let text = async |token, path: &str| body(as_whom(token, "GET", path, false).await).await;
    let rms = async |token| {
        let partitions: Vec<serde_json::Value> =
            serde_json::from_str(&text(token, "/ws/v1/partitions").await).unwrap();
        let rms = partitions.iter().map(|it| it["clusterId"].as_str().unwrap().to_owned());
        rms.collect::<Vec<_>>()
    };
    assert_eq!(rms("y4rd").await, ["yard"]);
    assert_eq!(rms("d4sh").await, ["lab", "yard"]);
    let used = text("y4rd", "/ws/v1/scheduler/node-utilizations").await;
    assert!(used.contains("yard") && !used.contains("lab"), "{used}");
    let clusters = text("y4rd", "/ws/v1/clusters").await;
    assert_eq!(clusters.matches("clusterName").count(), 1);
    // A plain name selects the first partition that the caller may read. Callers with different
    // rights do not share answers.
    let queues = format!("{P}/queues");
    assert!(text("y4rd", &queues).await.contains("root.q01"));
    assert!(text("d4sh", &queues).await.contains("root.ab"));
    assert!(text("y4rd", "/ws/v1/config").await.contains("yard"));
    assert!(text("d4sh", "/ws/v1/config").await.contains("lab"));
    assert_eq!(status_as("y4rd", "GET", "/ws/v1/partition/nope/queues").await, 404);
}

#[tokio::test]
async fn unknown_callers_get_a_challenge() {
    let guard = Guard::Rules { open_metrics: false };
    let router = router_until(
        RUNNING,
        beside(WhatIf::off()),
        MAX_BODY,
        serving(),
        CancellationToken::new(),
        guard,
    );
    let request = Request::get("/ws/v1/clusters").body(Body::empty()).unwrap();
    expect![[r#"
        401 Unauthorized
        content-type: application/json; charset=UTF-8
        access-control-allow-origin: *
        access-control-allow-methods: GET, OPTIONS
        access-control-allow-headers: X-Requested-With,Content-Type,Accept,Origin,Authorization
        www-authenticate: Bearer
        content-length: 179

        {"status_code":401,"message":"a client certificate or bearer token that is known here is needed","description":"a client certificate or bearer token that is known here is needed"}"#]]
    .assert_eq(&shown(router.oneshot(request).await.unwrap()).await);
}

/// Connects to a server that runs until the token is cancelled.
async fn connected() -> (TcpStream, CancellationToken, JoinHandle<std::io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let connections = Connections::new(listener, None, shutdown.clone());
    let settings = Settings::load(None, &Flags::default()).unwrap().rest;
    let stop = shutdown.clone();
    let (beside, access) = (beside(WhatIf::off()), Arc::new(Access::open()));
    let server = tokio::spawn(async move {
        serve(connections, RUNNING, beside, access, &settings, serving(), stop).await
    });
    (TcpStream::connect(address).await.unwrap(), shutdown, server)
}

#[tokio::test]
async fn a_connection_lives_until_the_server_stops() {
    let (mut client, shutdown, server) = connected().await;
    for _ in 0..2 {
        client.write_all(b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"serving\n") {
            assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0);
        }
    }
    shutdown.cancel();
    assert_eq!(client.read(&mut [0; 64]).await.unwrap(), 0);
    server.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_head_times_out_after_ten_seconds() {
    let began = Instant::now();
    let (mut client, _shutdown, _server) = connected().await;
    client.write_all(b"GET /healthz HTTP/1.1\r\nho").await.unwrap();
    assert_eq!(client.read(&mut [0; 64]).await.unwrap(), 0);
    assert_eq!(began.elapsed().as_secs(), 10);
}
