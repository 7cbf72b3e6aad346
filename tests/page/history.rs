//! Charts of usage over time, and the timeline of an application, compared with REST.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::browser::{Chromium, Tab};
use crate::numbers::number;
use crate::scene::{P, Scene};

/// Returns the last values of a chart: used, waiting, guaranteed, maximum; zero where it has none.
async fn shown(tab: &Tab, resource: &str) -> Value {
    let figure = format!("#history figure[data-resource='{resource}']");
    tab.until(&format!("document.querySelector(\"{figure} canvas\") !== null")).await;
    let values =
        "['used', 'waiting', 'guaranteed', 'maximum'].map(name => Number(it.dataset[name] ?? 0))";
    tab.value(&format!("(it => {values})(document.querySelector(\"{figure}\"))")).await
}

/// Waits until the history has a sample of the scene at rest.
async fn until_sampled(scene: &Scene, path: &str, amount: &str, value: i64) {
    let is_reached = |history: &Value| {
        let amounts = history["amounts"].as_array().unwrap();
        let of_cores =
            amounts.iter().find(|one| one["amount"] == amount && one["resource"] == "vcore");
        of_cores.is_some_and(|one| one["mean"].as_array().unwrap().last() == Some(&json!(value)))
    };
    let reached = async {
        while !is_reached(&scene.get(&format!("{P}/history/{path}?points=1000")).await) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let in_time = timeout(crate::harness::PATIENCE, reached).await;
    in_time.expect("a sample is taken every second");
}

#[tokio::test]
async fn charts_end_with_the_live_amounts() {
    let Some(chromium) = Chromium::start().await else { return };
    let scene = Scene::start_with(&[("HISTORY__INTERVAL", "1")]).await;
    let tab = chromium.tab().await;
    let address = format!("http://{}", scene.service.http);
    let queue = scene.get(&format!("{P}/queue/root.a")).await;
    let cores = ["allocatedResource", "pendingResource", "guaranteedResource", "maxResource"];
    let cores = cores.map(|amounts| number(&queue[amounts]["vcore"]));
    until_sampled(&scene, "queue/root.a", "waiting", cores[1]).await;
    tab.open(&format!("{address}/ui/queue?path=root.a")).await;
    assert_eq!(shown(&tab, "vcore").await, json!(cores));
    // The range is part of the address.
    tab.choose("[name=range]", "6h").await;
    tab.until("location.search.includes('range=6h')").await;
    assert_eq!(shown(&tab, "vcore").await, json!(cores));
    let of_user = scene.get(&format!("{P}/usage/user/alice")).await;
    let taken = number(&of_user["queues"]["resourceUsage"]["vcore"]);
    let limit = number(&of_user["queues"]["maxResources"]["vcore"]);
    until_sampled(&scene, "user/alice", "used", taken).await;
    tab.open(&format!("{address}/ui/user?name=alice&range=1d")).await;
    assert_eq!(shown(&tab, "vcore").await, json!([taken, 0, 0, limit]));
    let node = scene.get(&format!("{P}/node/n1")).await;
    let (used, capacity) =
        (number(&node["allocated"]["vcore"]), number(&node["capacity"]["vcore"]));
    until_sampled(&scene, "node/n1", "used", used).await;
    tab.open(&format!("{address}/ui/node?id=n1")).await;
    assert_eq!(shown(&tab, "vcore").await, json!([used, 0, 0, capacity]));
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn a_timeline_has_the_states_waits_and_decisions() {
    let Some(chromium) = Chromium::start().await else { return };
    let scene = Scene::start().await;
    let tab = chromium.tab().await;
    let application = scene.get(&format!("{P}/application/runs")).await;
    tab.open(&format!("http://{}/ui/application?id=runs", scene.service.http)).await;
    tab.until("document.querySelector('.timeline .marks i') !== null").await;
    let kinds = async |lane: &str| -> Value {
        let spans = format!("document.querySelectorAll('[data-lane={lane}] .span')");
        tab.value(&format!("[...{spans}].map(it => it.dataset.kind)")).await
    };
    let names = |log: &str, name: &str| -> Vec<Value> {
        let entries = application[log].as_array().unwrap().iter();
        entries.map(|entry| entry[name].clone()).collect()
    };
    let states = kinds("State").await;
    let states: Vec<_> =
        states.as_array().unwrap().iter().filter(|state| *state != "New").collect();
    assert_eq!(states, names("stateLog", "applicationState").iter().collect::<Vec<_>>());
    let waits = kinds("Waiting").await;
    assert_eq!(names("waitLog", "cause"), ["queueQuota"], "{application}");
    assert_eq!(waits.as_array().unwrap().last(), Some(&json!("queueQuota")));
    let marks = "[...document.querySelectorAll('.timeline .marks i')]";
    let count: usize =
        tab.value(&format!("{marks}.reduce((sum, it) => sum + Number(it.dataset.count), 0)")).await;
    let decisions = scene.get(&format!("{P}/decisions?application=runs")).await;
    assert_eq!(count, decisions.as_array().unwrap().len());
    tab.value::<bool>("(document.querySelector('#timeline details').open = true)").await;
    tab.until_text("#timeline .spans", "queue at its maximum").await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}
