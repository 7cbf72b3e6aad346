//! The totals after everything was removed.

use std::fmt::Write as _;

use super::speaker::{Ask, Speaker};
use crate::harness::{Dice, Service};
use crate::revisions::client::{page, vcore};

/// Quantities, most of them invalid.
const SIZES: [i64; 8] = [0, -1, 1, 500, 1_000, 4_000, i64::MAX, i64::MIN];
/// The first stays, the next are added and removed, the last never exists.
const APPLICATIONS: [&str; 4] = ["app", "app2", "app3", "nobody"];
/// These are added and removed; `n1`, which stays, takes the placements.
const NODES: [&str; 3] = ["n2", "n3", "n4"];
/// Keys of foreign allocations.
const FOREIGN: [&str; 4] = ["f0", "f1", "f2", "f3"];

/// After ten thousand items, valid and invalid, while nodes and applications are added and removed,
/// and a release of everything, all sums are zero.
#[tokio::test]
async fn ten_thousand_items_leave_nothing_behind() {
    // Early items are rejected at once: none is accepted after the last release.
    let service = Service::start_with(&[("SESSION__REORDER_WINDOW", "0s")]);
    for rm in Speaker::all(&service).await {
        let mut dice = Dice(7);
        for _ in 0..100 {
            rm.nodes(&(0..5).map(|_| node(&rm, &mut dice)).collect::<String>()).await;
            for _ in 0..3 {
                application(&rm, &mut dice).await;
            }
            let lists: String = (0..100).map(|_| item(&rm, &mut dice)).collect();
            // The releases of a text are one list: merge them, since a message is given once.
            rm.allocation(&merged(&lists)).await;
        }
        leave(&rm).await;
        // The whole node: it fits only if everything else was released.
        rm.ask(Ask { key: "whole", size: vec![("vcore", 8_000)], ..Ask::default() }).await;
        rm.allocated("whole").await;
        rm.release("app", "whole", "").await;
        rm.released("whole").await;
        let path = format!("/ws/v1/partition/%5B{}%5Ddefault", rm.client.rm_id);
        let queues = page(&service, &format!("{path}/queues")).await;
        check_empty(&serde_json::from_str(&queues).unwrap());
        let nodes = page(&service, &format!("{path}/nodes")).await;
        let nodes: Vec<serde_json::Value> = serde_json::from_str(&nodes).unwrap();
        let mut ids: Vec<_> = nodes.iter().map(|node| node["nodeID"].as_str().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["barrier", "n1"]);
        for node in &nodes {
            check_zero(node, &["allocated", "occupied"], &node["nodeID"]);
            for list in ["allocations", "foreignAllocations"] {
                assert_eq!(node[list].as_array().map_or(0, Vec::len), 0, "{node}");
            }
        }
    }
}

/// An ask, a foreign allocation, or a release.
fn item(rm: &Speaker, dice: &mut Dice) -> String {
    let key = format!("k{}", dice.below(50));
    let application = dice.one_of(&APPLICATIONS).unwrap();
    let today = rm.revision == "t";
    match dice.below(4) {
        0 => {
            let name = if today { "allocationKey" } else { "UUID" };
            format!(
                r#"releases {{ allocationsToRelease {{ applicationID: "{application}"
                    {name}: "{key}" terminationType: {} }} }}"#,
                dice.below(6)
            )
        }
        1 if today => {
            let (key, node) = (dice.one_of(&FOREIGN).unwrap(), dice.one_of(&NODES).unwrap());
            if dice.below(3) == 0 {
                return format!(
                    r#"releases {{ allocationsToRelease {{ allocationKey: "{key}" }} }}"#
                );
            }
            let size = vcore("resourcePerAlloc", dice.one_of(&SIZES).unwrap());
            format!(
                r#"allocations {{ allocationKey: "{key}" nodeID: "{node}" {size}
                    allocationTags {{ key: "foreign" value: "default" }} }}"#
            )
        }
        _ => {
            let size = vec![("vcore", dice.one_of(&SIZES).unwrap())];
            let n = i32::try_from(dice.below(4)).unwrap();
            let node = format!(r#"nodeID: "{}""#, dice.one_of(&NODES).unwrap());
            let more = if today && dice.below(4) == 0 { &*node } else { "" };
            rm.ask_text(&Ask { key: &key, application, size, n, more, ..Ask::default() })
        }
    }
}

/// A node is added, with its pods in the revisions that can express it, changed, or removed.
fn node(rm: &Speaker, dice: &mut Dice) -> String {
    let id = dice.one_of(&NODES).unwrap();
    let mut more = vcore("schedulableResource", dice.one_of(&SIZES).unwrap());
    if rm.revision != "t" && dice.below(2) == 0 {
        more += &vcore("occupiedResource", dice.one_of(&SIZES).unwrap());
    }
    match dice.below(5) {
        0 | 1 => {
            if rm.revision != "t" && dice.below(2) == 0 {
                let (key, application) = (dice.below(50), dice.one_of(&APPLICATIONS).unwrap());
                let size = vcore("resourcePerAlloc", dice.one_of(&SIZES[2..]).unwrap());
                write!(
                    more,
                    r#" existingAllocations {{ allocationKey: "k{key}" UUID: "u{key}"
                        nodeID: "{id}" applicationID: "{application}" {size} }}"#
                )
                .unwrap();
            }
            rm.new_node(id, &more)
        }
        2 => rm.changed_node(id, "UPDATE", &more),
        3 => rm.changed_node(id, dice.one_of(&["DRAIN_NODE", "DRAIN_TO_SCHEDULABLE"]).unwrap(), ""),
        _ => rm.changed_node(id, "DECOMISSION", ""),
    }
}

/// An application is added or removed, with all its allocations.
async fn application(rm: &Speaker, dice: &mut Dice) {
    let id = dice.one_of(&APPLICATIONS[1..3]).unwrap();
    if dice.below(3) == 0 {
        rm.remove_application(&format!(r#"applicationID: "{id}""#)).await;
    } else {
        rm.application(id, &rm.queue()).await;
    }
}

/// Releases everything, after all earlier messages were processed.
async fn leave(rm: &Speaker) {
    let gone: String = NODES.map(|id| rm.changed_node(id, "DECOMISSION", "")).concat();
    rm.nodes(&gone).await;
    rm.accepts_nodes("barrier").await;
    rm.application("barrier", &rm.queue()).await;
    rm.accepted_application("barrier").await;
    let mut asks = String::new();
    let mut allocations = String::new();
    for application in &APPLICATIONS[..3] {
        let all = format!(r#"{{ applicationID: "{application}" }}"#);
        write!(allocations, "allocationsToRelease {all}").unwrap();
        if rm.revision != "t" {
            write!(asks, "allocationAsksToRelease {all}").unwrap();
        }
    }
    if rm.revision == "t" {
        for key in FOREIGN {
            write!(allocations, r#"allocationsToRelease {{ allocationKey: "{key}" }}"#).unwrap();
        }
    }
    rm.allocation(&format!("releases {{ {asks} {allocations} }}")).await;
}

/// Checks that no queue has anything allocated or pending.
fn check_empty(queue: &serde_json::Value) {
    check_zero(queue, &["allocatedResource", "pendingResource"], &queue["queuename"]);
    for child in queue["children"].as_array().into_iter().flatten() {
        check_empty(child);
    }
}

fn check_zero(shown: &serde_json::Value, fields: &[&str], whose: &serde_json::Value) {
    for field in fields {
        let amounts = shown[field].as_object().into_iter().flatten();
        for (name, amount) in amounts {
            assert_eq!(amount, 0, "{whose} {field} {name}");
        }
    }
}

/// Merges all releases of a text into one message, in order.
fn merged(lists: &str) -> String {
    let opening = "releases { ";
    let mut releases = String::new();
    let mut rest = String::new();
    let mut text = lists;
    while let Some(at) = text.find(opening) {
        rest += &text[..at];
        let inner = &text[at + opening.len()..];
        let end = inner.find("} }").unwrap() + 1;
        releases += &inner[..end];
        text = &inner[end + 2..];
    }
    format!("{rest}{text} {opening}{releases} }}")
}
