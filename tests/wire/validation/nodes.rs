//! New, changed and removed nodes, and their defects.

use super::speaker::{Ask, Speaker};
use crate::harness::Service;
use crate::revisions::client::{field, page, series_reaches, vcore};

#[tokio::test]
async fn node_needs_an_id_and_valid_amounts() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        rm.node("", "").await;
        rm.rejected_node("", "R_NODE_INVALID").await;
        rm.node(&"n".repeat(1_025), "").await;
        rm.client
            .wait("both", || {
                let list = if rm.is_legacy() { "rejectedNodes" } else { "rejected" };
                let method = if rm.is_legacy() { "Update" } else { "UpdateNode" };
                (rm.client.items(method, list).len() == 2).then_some(())
            })
            .await;
        rm.node("less", &vcore("schedulableResource", -1)).await;
        rm.rejected_node("less", "R_NODE_INVALID").await;
        if rm.revision != "t" {
            rm.node("used", &vcore("occupiedResource", -1)).await;
            rm.rejected_node("used", "R_NODE_INVALID").await;
        }
        for (id, value) in [("max", i64::MAX), ("min", i64::MIN)] {
            rm.node(id, &vcore("schedulableResource", value)).await;
            let code = if value > 0 { "R_OVERFLOW" } else { "R_NODE_INVALID" };
            rm.rejected_node(id, code).await;
        }
    }
}

#[tokio::test]
async fn node_is_added_once_to_a_known_partition() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        rm.node("n1", "").await;
        let reason = rm.rejected_node("n1", "R_NODE_EXISTS").await;
        assert!(reason.contains("n1") && reason.contains("default"), "{reason}");
        let partition = r#"attributes { key: "si/node-partition" value: "other" }"#;
        rm.node("lost", partition).await;
        let reason = rm.rejected_node("lost", "R_PARTITION_UNKNOWN").await;
        assert!(reason.contains("failed to find partition"), "{reason}");
        rm.node("empty", "").await;
        rm.accepted_node("empty").await;
    }
}

/// With one invalid allocation, no part of the node is kept.
#[tokio::test]
async fn node_is_accepted_with_all_allocations_or_not() {
    let service = Service::start();
    for revision in ["l", "m"] {
        let rm = Speaker::start(&service, revision).await;
        let existing = |key: &str, application: &str, size: i64| {
            format!(
                r#"existingAllocations {{ allocationKey: "{key}" UUID: "{key}"
                    applicationID: "{application}" {} }}"#,
                vcore("resourcePerAlloc", size)
            )
        };
        let capacity = vcore("schedulableResource", 4_000);
        let good = existing("good", "app", 1_000);
        for (n, (bad, code)) in [
            (existing("bad", "nobody", 1), "R_APP_UNKNOWN"),
            (existing("bad", "app", 0), "R_NO_RESOURCE"),
            (existing("bad", "app", -1), "R_NEGATIVE_RESOURCE"),
            (existing("", "app", 1), "R_KEY"),
            (existing("good", "app", 1), "R_NODE_INVALID"),
        ]
        .into_iter()
        .enumerate()
        {
            let id = format!("bad-{n}");
            rm.node(&id, &[&*capacity, &good, &bad].concat()).await;
            rm.rejected_node(&id, code).await;
        }
        let shown =
            crate::revisions::client::application(&service, &rm.client.rm_id, rm.leaf(), "app")
                .await;
        assert_eq!(shown["allocations"].as_array().map_or(0, Vec::len), 0, "{shown}");
        rm.node("n2", &[capacity, good].concat()).await;
        rm.accepted_node("n2").await;
    }
}

#[tokio::test]
async fn change_of_an_unknown_node_is_counted() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        let actions = ["UPDATE", "DRAIN_NODE", "DRAIN_TO_SCHEDULABLE", "DECOMISSION"];
        for action in actions {
            rm.nodes(&rm.changed_node("n9", action, "")).await;
        }
        series_reaches(&service, &rm.series("ignored", "G_NODE_UNKNOWN"), 4).await;
        for action in ["DRAIN_NODE", "DRAIN_NODE", "DRAIN_TO_SCHEDULABLE", "DRAIN_TO_SCHEDULABLE"] {
            rm.nodes(&rm.changed_node("n1", action, "")).await;
        }
        rm.settled("k").await;
    }
}

#[tokio::test]
async fn node_may_shrink_below_its_usage() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        rm.settled("k1").await;
        rm.nodes(&rm.changed_node("n1", "UPDATE", &vcore("schedulableResource", 500))).await;
        rm.nodes(&rm.changed_node("n1", "UPDATE", &vcore("schedulableResource", -1))).await;
        series_reaches(&service, &rm.series("ignored", "G_NODE_UPDATE"), 1).await;
        rm.ask(Ask { key: "k2", ..Ask::default() }).await;
        rm.accepts_nodes("barrier").await;
        assert_eq!((rm.n_allocated(), rm.n_released()), (1, 0));
        rm.nodes(&rm.changed_node("n1", "UPDATE", &vcore("schedulableResource", 2_000))).await;
        rm.allocated("k2").await;
    }
}

#[tokio::test]
async fn attributes_are_merged_and_some_never_change() {
    let service = Service::start();
    let rm = Speaker::start(&service, "t").await;
    let attribute =
        |key: &str, value: &str| format!(r#"attributes {{ key: "{key}" value: "{value}" }}"#);
    let first = [attribute("si/hostname", "host"), attribute("a", "1"), attribute("b", "1")];
    rm.node("n2", &first.concat()).await;
    rm.accepted_node("n2").await;
    let change = [
        attribute("si/hostname", "other"),
        attribute("si/node-partition", "default"),
        attribute("a", "2"),
    ];
    rm.nodes(&rm.changed_node("n2", "UPDATE", &change.concat())).await;
    rm.accepts_nodes("barrier").await;
    let shown = page(&service, "/ws/v1/partition/default/node/n2").await;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["attributes"]["a"], &shown["attributes"]["b"]), (&"2".into(), &"1".into()));
    assert_eq!(shown["hostName"], "host");
}

#[tokio::test]
async fn removed_node_releases_its_allocations() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        rm.settled("k1").await;
        rm.settled("k2").await;
        rm.nodes(&rm.changed_node("n1", "DECOMISSION", "")).await;
        for key in ["k1", "k2"] {
            let released = rm.released(key).await;
            let stopped = if rm.is_legacy() { "0" } else { "1" };
            assert_eq!(field(&released, "terminationType"), stopped);
        }
        // The name of the removed node is free, and the usage of its allocations was subtracted.
        rm.node("n1", &vcore("schedulableResource", 1_000)).await;
        rm.settled("k1").await;
    }
}

#[tokio::test]
async fn unknown_action_is_rejected_if_expressible() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        rm.nodes(&rm.changed_node("n1", "9", "")).await;
        if rm.is_legacy() {
            series_reaches(&service, &rm.series("ignored", "G_NODE_ACTION"), 1).await;
        } else {
            let reason = rm.rejected_node("n1", "R_NODE_ACTION").await;
            assert!(reason.contains("unknown action"), "{reason}");
            rm.nodes(&rm.changed_node("n2", "UNKNOWN_ACTION_FROM_RM", "")).await;
            rm.rejected_node("n2", "R_NODE_ACTION").await;
        }
    }
}

#[tokio::test]
async fn node_may_be_added_and_changed_in_one_message() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        let both = [
            rm.new_node("n2", &vcore("schedulableResource", 1_000)),
            rm.changed_node("n2", "UPDATE", &vcore("schedulableResource", 20_000)),
        ];
        rm.nodes(&both.concat()).await;
        rm.accepted_node("n2").await;
        rm.ask(Ask { key: "big", size: vec![("vcore", 20_000)], ..Ask::default() }).await;
        let placed = rm.allocated("big").await;
        assert_eq!(field(&placed, "nodeID"), "n2");
    }
}
