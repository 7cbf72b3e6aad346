//! Decisions over HTTP: pages, filters, refused requests, and a service that records none.

use serde_json::{Value, json};

use crate::scene::{P, Scene};

fn ids(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|it| it["id"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn decisions_are_newest_first_paged_and_filtered() {
    let scene = Scene::start().await;
    let all = scene.get(&format!("{P}/decisions")).await;
    let newest_first: Vec<u64> = (1..=ids(&all).len() as u64).rev().collect();
    assert!(newest_first.len() >= 2, "{all}");
    assert_eq!(ids(&all), newest_first);
    let partitions = scene.get("/ws/v1/partitions").await;
    assert_eq!(partitions[0]["decisionsKept"], 4_096);
    assert_eq!(partitions[0]["decisions"], newest_first.len());

    let mut path = format!("{P}/decisions?limit=1");
    let mut read = Vec::new();
    loop {
        let page = scene.service.http("GET", &path, &[], "").await;
        assert_eq!(page.status, 200);
        read.extend(ids(&page.json()));
        let mut head = page.head.lines();
        let Some(next) = head.find_map(|line| line.strip_prefix("link: <")) else { break };
        path = next.split_once('>').unwrap().0.to_owned();
    }
    assert_eq!(read, newest_first);

    for row in all.as_array().unwrap() {
        for (parameter, field) in [
            ("application", "applicationId"),
            ("node", "nodeId"),
            ("key", "allocationKey"),
            ("queue", "queueName"),
            ("kind", "kind"),
        ] {
            let wanted = row[field].as_str().unwrap();
            let found = scene.get(&format!("{P}/decisions?{parameter}={wanted}")).await;
            let expected = all.as_array().unwrap().iter().filter(|it| it[field] == wanted);
            assert_eq!(found, Value::Array(expected.cloned().collect()), "{parameter}={wanted}");
        }
    }
    let none = scene.get(&format!("{P}/decisions?kind=Eviction")).await;
    assert_eq!(none, json!([]));
    let head = scene.service.http("HEAD", &format!("{P}/decisions"), &[], "").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

#[tokio::test]
async fn invalid_filters_and_places_are_refused() {
    let scene = Scene::start().await;
    for (path, status, text) in [
        ("default/decisions?kind=x", 400, "kind `x` is none of allocation, reservation, eviction"),
        ("default/decisions?after=x", 400, "after `x` is no place in this list"),
        ("default/decisions?limit=0", 400, "limit `0` is no number of rows"),
        ("default/decisions?queue=a..b", 400, "a..b"),
        ("other/decisions?kind=x", 404, "Partition not found"),
    ] {
        let answer = scene.service.http("GET", &format!("/ws/v1/partition/{path}"), &[], "").await;
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.body.contains(text), "{path}: {}", answer.body);
    }
}
