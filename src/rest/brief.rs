//! Rows of lists without the lists within them: what a table of many rows shows.
//!
//! A row of an application or a node has all of its requests and allocations, and these are most of the
//! document. Who wants only to know how many there are says `?brief`.

use monoceros_actors::snapshot::{ApplicationSnapshot, AskSnapshot, NodeSnapshot};
use serde::Serialize;

use super::endpoints::parameter;

/// A row, and where it is a brief one, what is said instead of what was left out.
#[derive(Serialize)]
pub(super) struct Row<T, B> {
    #[serde(flatten)]
    row: T,
    #[serde(flatten)]
    instead: Option<B>,
}

/// What a brief row of an application has instead of its requests and allocations.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfApplication {
    /// How many allocations it has.
    allocation_count: usize,
    /// How many more its requests want.
    pending_count: i64,
    /// What the last of its requests that was found wanting ran into.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
}

/// What a brief row of a node has instead of its allocations.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfNode {
    /// How many allocations it has.
    allocation_count: usize,
}

/// Whether a request wants brief rows.
pub(super) fn is_wanted(query: Option<&str>) -> bool {
    parameter(query, "brief").is_some_and(|said| said != "false" && said != "0")
}

/// What a request wants, with what tells a list of brief rows from one of whole ones.
pub(super) fn values<'v>(values: &[&'v str], is_brief: bool) -> Vec<&'v str> {
    values.iter().copied().chain(is_brief.then_some("brief")).collect()
}

/// The row of an application.
pub(super) fn application(
    mut row: ApplicationSnapshot,
    is_brief: bool,
) -> Row<ApplicationSnapshot, OfApplication> {
    let instead = is_brief.then(|| {
        row.allocations.clear();
        let asks = std::mem::take(&mut row.requests);
        OfApplication {
            allocation_count: row.allocation_count,
            pending_count: asks.iter().map(|ask| i64::from(ask.pending_count.max(1))).sum(),
            waits_for: latest(&asks),
        }
    });
    Row { row, instead }
}

/// The row of a node.
pub(super) fn node(mut row: NodeSnapshot, is_brief: bool) -> Row<NodeSnapshot, OfNode> {
    let instead = is_brief.then(|| {
        row.allocations.clear();
        row.foreign_allocations.clear();
        OfNode { allocation_count: row.allocation_count }
    });
    Row { row, instead }
}

/// The latest message of all.
fn latest(asks: &[AskSnapshot]) -> Option<String> {
    let entries = asks.iter().flat_map(|ask| &ask.allocation_log);
    entries.max_by_key(|entry| entry.last_occurrence).map(|entry| entry.message.clone())
}

#[cfg(test)]
mod tests {
    use monoceros_actors::snapshot::{AllocationLogEntry, AllocationSnapshot};
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

    #[test]
    fn a_brief_row_counts_what_a_whole_one_lists() {
        let row = || ApplicationSnapshot {
            application_id: "app".to_owned(),
            requests: vec![
                ask(3, &[("old", 1), ("latest", 9)]),
                ask(0, &[("newer", 5)]),
                ask(1, &[]),
            ],
            allocations: vec![AllocationSnapshot::default(); 2],
            allocation_count: 2,
            ..ApplicationSnapshot::default()
        };
        let whole = serde_json::to_value(row()).unwrap();
        assert_eq!(serde_json::to_value(application(row(), false)).unwrap(), whole);
        let brief = serde_json::to_value(application(row(), true)).unwrap();
        let fields = ["requests", "allocations", "allocationCount", "pendingCount", "waitsFor"];
        let found = fields.map(|field| brief[field].clone());
        assert_eq!(found, [Value::Null, Value::Null, json!(2), json!(5), json!("latest")]);
        assert_eq!(brief["applicationID"], whole["applicationID"]);
    }

    #[test]
    fn the_text_of_a_whole_row_is_that_of_the_row_itself() {
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
