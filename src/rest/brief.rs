//! Brief rows of lists: without nested lists, as a table of many rows needs them.
//!
//! A full row of an application or node contains all its requests and allocations, which are most
//! of the document. A client that needs only their counts passes `?brief`.

use monoceros_actors::snapshot::{ApplicationSnapshot, AskSnapshot, NodeSnapshot};
use serde::Serialize;

use super::endpoints::parameter;

/// A row. If it is brief, it has a summary in place of the omitted lists.
#[derive(Serialize)]
pub(super) struct Row<T, B> {
    #[serde(flatten)]
    row: T,
    #[serde(flatten)]
    instead: Option<B>,
}

/// Summary of an application's requests and allocations.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfApplication {
    allocation_count: usize,
    /// Allocations that its requests are waiting for.
    pending_count: i64,
    /// Last message in the logs of its pending requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
    /// Cause for which the first of its pending requests waits, as in explanations; none if it was
    /// not tried yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
}

/// Summary of a node's allocations.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfNode {
    allocation_count: usize,
}

/// Whether a request asks for brief rows.
pub(super) fn is_wanted(query: Option<&str>) -> bool {
    parameter(query, "brief").is_some_and(|value| value != "false" && value != "0")
}

/// Adds to the values of a [`Subject`](super::lists::Subject) whether rows are brief.
pub(super) fn values<'v>(values: &[&'v str], is_brief: bool) -> Vec<&'v str> {
    values.iter().copied().chain(is_brief.then_some("brief")).collect()
}

/// Makes the row of an application.
pub(super) fn application(
    mut row: ApplicationSnapshot,
    is_brief: bool,
) -> Row<ApplicationSnapshot, OfApplication> {
    let instead = is_brief.then(|| {
        row.allocations.clear();
        let last = std::mem::take(&mut row.wait_log).pop();
        let asks = std::mem::take(&mut row.requests);
        let cause = last.map(|entry| entry.cause).filter(|cause| !cause.is_empty());
        OfApplication {
            cause: cause.filter(|_| !asks.is_empty()),
            allocation_count: row.allocation_count,
            pending_count: asks.iter().map(|ask| i64::from(ask.pending_count.max(1))).sum(),
            waits_for: latest(&asks),
        }
    });
    Row { row, instead }
}

pub(super) fn node(mut row: NodeSnapshot, is_brief: bool) -> Row<NodeSnapshot, OfNode> {
    let instead = is_brief.then(|| {
        row.allocations.clear();
        row.foreign_allocations.clear();
        OfNode { allocation_count: row.allocation_count }
    });
    Row { row, instead }
}

/// Returns the latest message in the logs of the asks.
fn latest(asks: &[AskSnapshot]) -> Option<String> {
    let entries = asks.iter().flat_map(|ask| &ask.allocation_log);
    entries.max_by_key(|entry| entry.last_occurrence).map(|entry| entry.message.clone())
}

#[cfg(test)]
mod tests {
    use monoceros_actors::snapshot::{AllocationLogEntry, AllocationSnapshot, WaitLogEntry};
    use serde_json::{Value, json};

    use super::*;

    fn ask(pending_count: i32, log: &[(&str, i64)]) -> AskSnapshot {
        let entry = |(message, last_occurrence): &(&str, i64)| AllocationLogEntry {
            message: (*message).to_owned(),
            last_occurrence: *last_occurrence,
            count: 1,
        };
        AskSnapshot {
            pending_count,
            allocation_log: log.iter().map(entry).collect(),
            ..AskSnapshot::default()
        }
    }

    fn waited(time: i64, cause: &str) -> WaitLogEntry {
        WaitLogEntry { time, cause: cause.to_owned() }
    }

    #[test]
    fn only_pending_requests_have_a_cause() {
        for (asks, log, expected) in [
            (vec![ask(1, &[])], vec![waited(1, "noNode"), waited(2, "")], Value::Null),
            (vec![], vec![waited(1, "noNode")], Value::Null),
            (vec![ask(1, &[])], vec![], Value::Null),
            (vec![ask(1, &[])], vec![waited(2, ""), waited(3, "delay")], json!("delay")),
        ] {
            let row = ApplicationSnapshot {
                requests: asks,
                wait_log: log,
                ..ApplicationSnapshot::default()
            };
            let brief = serde_json::to_value(application(row, true)).unwrap();
            assert_eq!(brief["cause"], expected);
        }
    }

    #[test]
    fn a_brief_row_has_counts_for_lists() {
        let row = || ApplicationSnapshot {
            application_id: "app".to_owned(),
            requests: vec![
                ask(3, &[("old", 1), ("latest", 9)]),
                ask(0, &[("newer", 5)]),
                ask(1, &[]),
            ],
            allocations: vec![AllocationSnapshot::default(); 2],
            allocation_count: 2,
            wait_log: vec![waited(1, "queueQuota"), waited(4, "noNode")],
            ..ApplicationSnapshot::default()
        };
        let whole = serde_json::to_value(row()).unwrap();
        assert_eq!(serde_json::to_value(application(row(), false)).unwrap(), whole);
        let brief = serde_json::to_value(application(row(), true)).unwrap();
        for field in ["requests", "allocations", "waitLog"] {
            assert_eq!(brief[field], Value::Null, "{field}");
        }
        let fields = ["allocationCount", "pendingCount", "waitsFor", "cause"];
        let found = fields.map(|field| brief[field].clone());
        assert_eq!(found, [json!(2), json!(5), json!("latest"), json!("noNode")]);
        assert_eq!(brief["applicationID"], whole["applicationID"]);
    }

    #[test]
    fn a_whole_row_serializes_like_its_snapshot() {
        let row = NodeSnapshot {
            node_id: "n1".to_owned(),
            allocations: vec![AllocationSnapshot::default()],
            schedulable: true,
            ..NodeSnapshot::default()
        };
        let itself = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::to_string(&node(row, false)).unwrap(), itself);
    }
}
