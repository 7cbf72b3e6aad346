//! Questions of what would happen: their turn, their deadline, and refusals.

use std::time::Duration;

use axum::http::header::RETRY_AFTER;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use monoceros_actors::SchedulerBuilder;

use super::access::serving;
use super::*;
use crate::settings::WhatIfSettings;

const MINUTE: Duration = Duration::from_secs(60);

fn router_with(source: Scripted, settings: WhatIfSettings) -> Router {
    let whatif = WhatIf::new(settings, SchedulerBuilder::default());
    let never = CancellationToken::new();
    router_until(source, beside(whatif), MAX_BODY, serving(), never, Guard::Open)
}

fn on(objects: usize) -> WhatIfSettings {
    WhatIfSettings { enabled: true, deadline: MINUTE, objects }
}

async fn ask(router: &Router, body: &'static str) -> Response {
    let request = Request::post("/ws/v1/whatif").body(Body::from(body)).unwrap();
    router.clone().oneshot(request).await.unwrap()
}

/// Returns the status and the message of an error.
async fn refused(router: &Router, body: &'static str) -> (u16, String) {
    let response = ask(router, body).await;
    let status = response.status().as_u16();
    let text = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let error: serde_json::Value = serde_json::from_slice(&text).unwrap();
    (status, error["message"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn by_default_no_question_is_answered() {
    let off = router_with(RUNNING, WhatIfSettings { enabled: false, ..on(10) });
    let why = "what would happen is not answered here: `whatif.enabled` is false";
    assert_eq!(refused(&off, r#"{"rm": "lab"}"#).await, (404, why.to_owned()));
    let response = ask(&router(RUNNING, MAX_BODY), "{}").await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn of_ten_questions_at_once_one_is_answered() {
    static IMAGES: Semaphore = Semaphore::const_new(0);
    let router = router_with(Scripted { images: Some(&IMAGES), ..RUNNING }, on(10));
    let mut asked: FuturesUnordered<_> =
        (0..10).map(|_| ask(&router, r#"{"rm": "lab"}"#)).collect();
    for _ in 0..9 {
        let response = asked.next().await.unwrap();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[RETRY_AFTER], "5");
    }
    IMAGES.add_permits(2);
    assert_eq!(asked.next().await.unwrap().status(), StatusCode::OK);
    assert_eq!(ask(&router, r#"{"rm": "lab"}"#).await.status(), StatusCode::OK, "it has its turn");
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_at_its_deadline_and_keeps_its_turn_until_it_has_stopped() {
    static IMAGES: Semaphore = Semaphore::const_new(0);
    let router = router_with(Scripted { images: Some(&IMAGES), ..RUNNING }, on(10));
    let began = Instant::now();
    let (status, why) = refused(&router, r#"{"rm": "lab"}"#).await;
    assert_eq!((status, began.elapsed().as_secs()), (504, 60));
    assert!(why.starts_with("no answer within `whatif.deadline` (60s)"), "{why}");
    assert_eq!(refused(&router, r#"{"rm": "lab"}"#).await.0, 429, "its image is being taken");
    IMAGES.add_permits(1);
    tokio::time::sleep(MINUTE).await;
    assert_eq!(refused(&router, r#"{"rm": "lab"}"#).await.0, 504, "it has its turn");
}

#[tokio::test]
async fn wrong_questions_name_their_field() {
    let router = router_with(RUNNING, on(10));
    let gone = "resource manager `none` is not registered".to_owned();
    assert_eq!(refused(&router, r#"{"rm": "none"}"#).await, (404, gone));
    for (body, field) in [
        (r#"{"rm": "lab", "queues": "partitions: 1"}"#, "queues"),
        (r#"{"rm": "lab", "drain": ["n1"]}"#, "drain"),
        (r#"{"rm": "lab", "runs": "many"}"#, "runs"),
        (r#"{"rm": "lab", "horizont": "1h"}"#, "horizont"),
    ] {
        let (status, why) = refused(&router, body).await;
        assert_eq!(status, 400, "{body}: {why}");
        assert!(why.starts_with(&format!("`{field}`: ")), "{body}: {why}");
    }
    assert_eq!(ask(&router, "no JSON").await.status(), StatusCode::BAD_REQUEST);
    let long: &'static str = Box::leak("x".repeat(MAX_BODY + 1).into_boxed_str());
    assert_eq!(ask(&router, long).await.status(), StatusCode::PAYLOAD_TOO_LARGE);
}
