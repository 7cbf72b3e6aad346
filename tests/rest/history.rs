//! Usage over time: its bodies, its agreement with live documents, and refused ranges.

use std::time::Duration;

use expect_test::{ExpectFile, expect_file};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::harness::PATIENCE;
use crate::scene::{P, Scene};

/// Returns the last point of a history, of a sample that was taken after this call.
async fn last_point(scene: &Scene, path: &str) -> Value {
    let read = async || scene.get(&format!("{P}/history/{path}?points=1000")).await;
    let last = |history: &Value| history["times"].as_array().and_then(|all| all.last()?.as_i64());
    let before = last(&read().await);
    let later = async {
        loop {
            let history = read().await;
            if last(&history) > before {
                return history;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let history = timeout(PATIENCE, later).await.expect("a sample is taken every second");
    last_of(history)
}

/// Keeps the last point, whose time differs from run to run.
fn last_of(mut history: Value) -> Value {
    let n = history["times"].as_array().unwrap().len();
    history["times"] = json!(["<ns>"]);
    for amount in history["amounts"].as_array_mut().unwrap() {
        for key in ["mean", "max"] {
            assert_eq!(amount[key].as_array().unwrap().len(), n, "{amount}");
            amount[key] = json!([amount[key][n - 1]]);
        }
    }
    history
}

#[tokio::test]
async fn histories_end_with_the_live_amounts() {
    let scene = Scene::start_with(&[("HISTORY__INTERVAL", "1")]).await;
    let check = async |path: &str, live: Value, expected: ExpectFile| {
        let last = last_point(&scene, path).await;
        let amounts = last["amounts"].as_array().unwrap().iter();
        let used = amounts.filter(|one| one["amount"] == "used");
        let used: Value = used
            .map(|one| (one["resource"].as_str().unwrap().to_owned(), one["mean"][0].clone()))
            .collect::<serde_json::Map<_, _>>()
            .into();
        assert_eq!(used, live, "{path}");
        expected.assert_eq(&(serde_json::to_string_pretty(&last).unwrap() + "\n"));
    };
    let queue = scene.get(&format!("{P}/queue/root.a")).await["allocatedResource"].clone();
    check("queue/root.A", queue, expect_file!["golden/history-queue.json"]).await;
    let user = scene.get(&format!("{P}/usage/user/alice")).await;
    let user = user["queues"]["resourceUsage"].clone();
    check("user/alice", user, expect_file!["golden/history-user.json"]).await;
    let node = scene.get(&format!("{P}/node/n1")).await["allocated"].clone();
    check("node/n1", node, expect_file!["golden/history-node.json"]).await;
    for (path, status, message) in [
        ("queue/root.nope", 404, "Queue not found"),
        ("user/nobody", 404, "User not found"),
        ("node/nope", 404, "Node not found"),
        ("queue/root.a?points=0", 400, "points `0` is no number from 1 to 1000"),
        (
            "queue/root.a?from=1h",
            400,
            "from `1h` is no time: seconds since the epoch, or negative: before now",
        ),
    ] {
        let answer = scene.service.http("GET", &format!("{P}/history/{path}"), &[], "").await;
        assert_eq!((answer.status, &answer.json()["message"]), (status, &json!(message)), "{path}");
    }
    let nowhere = "/ws/v1/partition/nope/history/queue/root";
    let answer = scene.service.http("GET", nowhere, &[], "").await;
    assert_eq!(answer.json()["message"], "Partition not found");
}

#[tokio::test]
async fn histories_begin_empty_and_can_be_switched_off() {
    let scene = Scene::start_with(&[("HISTORY__INTERVAL", "3600")]).await;
    let empty = json!({"sampleSeconds": 3_600, "pointSeconds": 3_600, "times": [], "amounts": []});
    assert_eq!(scene.get(&format!("{P}/history/queue/root")).await, empty);
    let scene = Scene::start_with(&[("HISTORY__BYTES", "0")]).await;
    let answer = scene.service.http("GET", &format!("{P}/history/queue/root"), &[], "").await;
    let message = json!("no history is kept here: `history.bytes` is 0");
    assert_eq!((answer.status, &answer.json()["message"]), (404, &message));
}
