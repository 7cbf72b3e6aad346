//! Events by number.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Rm, Service, node};

async fn batch(service: &Service, query: &str) -> Value {
    let answer = service.http("GET", &format!("/ws/v1/events/batch{query}"), &[], "").await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    answer.json()
}

/// Returns the lowest and the highest number, and how many events were returned. `None` stands for
/// `null`.
async fn range(service: &Service, query: &str) -> (u64, u64, Option<usize>) {
    let batch = batch(service, query).await;
    let number = |key: &str| batch[key].as_u64().unwrap();
    let records = batch["EventRecords"].as_array().map(Vec::len);
    assert!(records.is_some() || batch["EventRecords"] == Value::Null);
    (number("LowestID"), number("HighestID"), records)
}

/// A service with a ring of this many events, which is full, and the resource manager.
async fn service_with_ring(capacity: usize, settings: &[(&str, &str)]) -> (Service, Rm) {
    let capacity = capacity.to_string();
    let ring = [("EVENT__RING_BUFFER_CAPACITY", &*capacity)];
    let service = Service::start_with(&[&ring[..], settings].concat());
    let rm = Rm::register(&service, "rm").await;
    (service, rm)
}

/// Waits until there are at least this many events and no more arrive. Returns their number.
pub(crate) async fn made(service: &Service, at_least: u64) -> u64 {
    let name = "yunikorn_event_total_processed";
    service.until_counted(name, at_least).await;
    let mut before = 0;
    loop {
        let now = service.counted(name).await;
        if now == before {
            return now;
        }
        before = now;
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn no_tracking_is_an_error_no_events_is_not() {
    let service = Service::start();
    let empty = batch(&service, "").await;
    let uuid = empty["InstanceUUID"].as_str().unwrap();
    assert_eq!(uuid.len(), 36);
    assert_eq!(
        empty,
        json!({"InstanceUUID": uuid, "LowestID": 0, "HighestID": 0, "EventRecords": null})
    );
    let silent = Service::start_with(&[("EVENT__TRACKING_ENABLED", "false")]);
    for path in ["batch?count=0", "stream?count=x"] {
        let answer = silent.http("GET", &format!("/ws/v1/events/{path}"), &[], "").await;
        assert_eq!(
            (answer.status, &answer.json()["message"]),
            (500, &json!("Event tracking is disabled"))
        );
    }
    let other = batch(&Service::start(), "").await;
    assert_ne!(other["InstanceUUID"], empty["InstanceUUID"], "each run has its own");
}

#[tokio::test]
async fn ranges_have_no_gaps_and_losses_are_detectable() {
    let (service, rm) = service_with_ring(20, &[]).await;
    let ids: Vec<String> = (0..10).map(|number| format!("n{number}")).collect();
    let rm = rm.with_nodes(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let end = made(&service, 20).await;
    let (low, high) = (end - 20, end - 1);
    for (start, count, expected) in [
        (low - 1, 5, None),
        (low, 5, Some(5)),
        (low, 100, Some(20)),
        (low + 6, 3, Some(3)),
        (high, 5, Some(1)),
        (high + 1, 5, None),
    ] {
        let query = format!("?start={start}&count={count}");
        assert_eq!(range(&service, &query).await, (low, high, expected), "{query}");
    }
    assert_eq!(range(&service, "").await, (low, high, None), "the first are gone");
    // The loop of a client that misses only lost events.
    let (mut next, mut read) = (0, 0);
    while next <= high {
        let (lowest, _, records) = range(&service, &format!("?start={next}&count=7")).await;
        match records {
            Some(records) => {
                read += records;
                next += records as u64;
            }
            None => next = lowest,
        }
    }
    assert_eq!(read, 20);
    rm.send_nodes(vec![node("later", 1, 1)]).await;
    service.until_counted("yunikorn_event_total_processed", end + 1).await;
    let newer = batch(&service, &format!("?start={next}&count=1")).await;
    assert_eq!(newer["EventRecords"][0]["objectID"], "later");
}

#[tokio::test]
async fn answers_respect_the_configured_maximum() {
    let (service, rm) = service_with_ring(100, &[("EVENT__REST_RESPONSE_SIZE", "3")]).await;
    let _rm = rm.with_nodes(&["n1", "n2", "n3"]).await;
    made(&service, 6).await;
    for query in ["", "?count=99", "?count=18446744073709551615"] {
        assert_eq!(range(&service, query).await.2, Some(3), "{query}");
    }
    assert_eq!(range(&service, "?count=2").await.2, Some(2));
}
