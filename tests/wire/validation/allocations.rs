//! Existing and foreign allocations.

use super::speaker::{Ask, Speaker};
use crate::harness::Service;
use crate::revisions::client::{field, page, series_reaches};

fn on_n1(key: &'static str, size: i64) -> Ask<'static> {
    Ask { key, size: vec![("vcore", size)], more: r#"nodeID: "n1""#, ..Ask::default() }
}

#[tokio::test]
async fn allocation_needs_a_known_node() {
    let service = Service::start();
    let rm = Speaker::start(&service, "t").await;
    rm.ask(Ask { key: "lost", more: r#"nodeID: "n9""#, ..Ask::default() }).await;
    let reason = rm.rejected_ask("lost", "R_NODE_UNKNOWN").await;
    assert!(reason.contains("failed to find node `n9`"), "{reason}");
    // Only the revisions before the present one have a UUID.
    let rm = Speaker::start(&service, "n").await;
    let bare = r#"allocations { allocationKey: "bare" applicationID: "app" UUID: "u"
        resourcePerAlloc { resources { key: "vcore" value { value: 1 } } } }"#;
    rm.allocation(bare).await;
    let reason = rm.rejected_ask("bare", "R_NODE_MISSING").await;
    assert!(reason.contains("recovered allocation without node"), "{reason}");
}

#[tokio::test]
async fn existing_allocations_are_accepted_on_any_node() {
    let service = Service::start();
    let rm = Speaker::start(&service, "t").await;
    rm.ask(on_n1("full", 8_000)).await;
    rm.ask(on_n1("over", 8_000)).await;
    rm.allocated("over").await;
    rm.nodes(&rm.changed_node("n1", "DRAIN_NODE", "")).await;
    rm.accepts_nodes("barrier").await;
    rm.ask(on_n1("drained", 1_000)).await;
    rm.allocated("drained").await;
    // Not ready is another state than drained; it does not exclude existing allocations either.
    let ready = r#"attributes { key: "ready" value: "false" }"#;
    rm.nodes(&rm.changed_node("n1", "DRAIN_TO_SCHEDULABLE", "")).await;
    rm.nodes(&rm.changed_node("n1", "UPDATE", ready)).await;
    rm.accepts_nodes("barrier-2").await;
    rm.ask(on_n1("not-ready", 1_000)).await;
    rm.allocated("not-ready").await;
    // No room is left, and no new allocation is made there.
    rm.ask(Ask { key: "new", ..Ask::default() }).await;
    rm.release("app", "over", "").await;
    rm.released("over").await;
    rm.release("app", "full", "").await;
    rm.released("full").await;
    assert_eq!(rm.n_allocated(), 4);
}

#[tokio::test]
async fn repeated_report_changes_only_the_size() {
    let service = Service::start();
    let rm = Speaker::start(&service, "t").await;
    rm.ask(on_n1("k", 1_000)).await;
    rm.allocated("k").await;
    let larger = Ask { more: r#"nodeID: "n1" priority: 9"#, ..on_n1("k", 8_000) };
    rm.ask(larger).await;
    rm.ask(Ask { key: "waits", ..Ask::default() }).await;
    let elsewhere = Ask { more: r#"nodeID: "n2""#, ..on_n1("k", 7_000) };
    rm.accepts_nodes("n2").await;
    rm.ask(elsewhere).await;
    rm.allocated("waits").await;
    let shown = crate::revisions::client::application(&service, "rm-t", "root.a", "app").await;
    let allocations = shown["allocations"].as_array().unwrap();
    let allocation = allocations.iter().find(|entry| entry["allocationKey"] == "k").unwrap();
    assert_eq!(allocation["nodeId"], "n1");
    assert_eq!(allocation["resource"]["vcore"], 7_000);
    assert_eq!(allocation["priority"], "0");
    series_reaches(&service, &rm.series("ignored", "G_ALLOCATION_CHANGE"), 1).await;
    // A pending request that is reported as running is announced.
    rm.ask(Ask { key: "big", size: vec![("vcore", 9_000)], ..Ask::default() }).await;
    rm.ask(on_n1("big", 9_000)).await;
    let placed = rm.allocated("big").await;
    assert_eq!(field(&placed, "nodeID"), "n1");
}

/// The allocation is recovered in the form with a UUID, or with a node.
#[tokio::test]
async fn second_uuid_of_a_key_is_not_counted() {
    let service = Service::start();
    let rm = Speaker::start(&service, "n").await;
    let size = |vcore: i64| crate::revisions::client::vcore("resourcePerAlloc", vcore);
    let of_app = r#"applicationID: "app" nodeID: "n2""#;
    let existing = format!(
        r#"existingAllocations {{ allocationKey: "k" UUID: "u" {of_app} {} }}"#,
        size(1_000)
    );
    let capacity = crate::revisions::client::vcore("schedulableResource", 4_000);
    rm.node("n2", &format!("{capacity} {existing}")).await;
    rm.accepted_node("n2").await;
    let recovered = format!(r#"allocationKey: "k2" UUID: "u2" {of_app} {}"#, size(1_000));
    rm.allocation(&format!("allocations {{ {recovered} }}")).await;
    for key in ["k", "k2"] {
        let unified = format!(r#"allocationKey: "{key}" {of_app} {}"#, size(2_000));
        rm.allocation(&format!("allocations {{ {unified} }}")).await;
    }
    rm.settled("after").await;
    assert_eq!(rm.n_allocated(), 1, "what runs already is not told again");
    let shown = crate::revisions::client::application(&service, "rm-n", "root.a", "app").await;
    let allocations = shown["allocations"].as_array().unwrap();
    let mut sizes: Vec<_> = allocations
        .iter()
        .map(|entry| (entry["allocationKey"].as_str().unwrap(), &entry["resource"]["vcore"]))
        .collect();
    sizes.sort_by_key(|(key, _)| *key);
    let expected = [("after", 1_000), ("k", 2_000), ("k2", 2_000)];
    assert_eq!(sizes.len(), expected.len(), "{sizes:?}");
    for (found, expected) in sizes.into_iter().zip(expected) {
        assert_eq!((found.0, found.1.as_i64().unwrap()), expected);
    }
}

#[tokio::test]
async fn foreign_allocations_only_use_room() {
    let service = Service::start();
    let rm = Speaker::start(&service, "t").await;
    let foreign = |key: &str, node: &str, kind: &str, size: i64| {
        format!(
            r#"allocations {{ allocationKey: "{key}" {node}
                allocationTags {{ key: "foreign" value: "{kind}" }}
                resourcePerAlloc {{ resources {{ key: "vcore" value {{ value: {size} }} }} }} }}"#
        )
    };
    rm.allocation(&foreign("bare", "", "static", 1)).await;
    let reason = rm.rejected_ask("bare", "R_NODE_MISSING").await;
    assert!(reason.contains("trying to add a foreign request"), "{reason}");
    rm.allocation(&foreign("lost", r#"nodeID: "n9""#, "static", 1)).await;
    let reason = rm.rejected_ask("lost", "R_NODE_UNKNOWN").await;
    assert!(reason.contains("failed to find node"), "{reason}");
    rm.allocation(&foreign("less", r#"nodeID: "n1""#, "default", -1)).await;
    rm.rejected_ask("less", "R_NEGATIVE_RESOURCE").await;

    // All of n1, by an unknown kind: counts as `default`.
    rm.allocation(&foreign("f", r#"nodeID: "n1""#, "whatever", 8_000)).await;
    rm.ask(Ask { key: "k1", ..Ask::default() }).await;
    rm.accepts_nodes("n2").await;
    assert_eq!(rm.n_allocated(), 0, "no room");
    let nodes = page(&service, "/ws/v1/partition/default/nodes").await;
    assert!(nodes.contains(r#""preemptable":true"#), "{nodes}");
    // The foreign allocation shrinks, and then has no size at all.
    rm.allocation(&foreign("f", r#"nodeID: "n1""#, "static", 7_000)).await;
    rm.allocated("k1").await;
    rm.ask(Ask { key: "k2", ..Ask::default() }).await;
    rm.allocation(&foreign("f", r#"nodeID: "n2""#, "static", 0)).await;
    rm.allocated("k2").await;
    for _ in 0..2 {
        let gone = r#"releases { allocationsToRelease { allocationKey: "f" } }"#;
        rm.allocation(gone).await;
    }
    rm.settled("k3").await;
    assert_eq!(rm.n_released(), 0);
    let nodes = page(&service, "/ws/v1/partition/default/nodes").await;
    assert!(!nodes.contains("preemptable"), "{nodes}");
}
