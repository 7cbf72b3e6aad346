//! The requests that report the whole state of a resource manager, in their order.

use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::node_info::ActionFromRm;

use crate::Report;
use crate::outgoing::BATCH_ITEMS;
use crate::request::AnyRequest;

/// Turns a report into requests. Nodes are reported closed and opened after their allocations, so
/// that no occupied capacity is given away.
pub(crate) fn in_order(report: Report) -> Vec<AnyRequest> {
    let Report { nodes, applications, allocations } = report;
    let (there, wanted): (Vec<_>, Vec<_>) =
        allocations.into_iter().partition(|allocation| !allocation.node_id.is_empty());
    let mut opened = Vec::new();
    let close = |mut node: si::NodeInfo| {
        if node.action() == ActionFromRm::Create && !there.is_empty() {
            node.action = ActionFromRm::CreateDrain.into();
            opened.push(si::NodeInfo {
                node_id: node.node_id.clone(),
                attributes: node.attributes.clone(),
                action: ActionFromRm::DrainToSchedulable.into(),
                ..Default::default()
            });
        }
        node
    };
    let nodes: Vec<_> = nodes.into_iter().map(close).collect();
    let weight = |node: &si::NodeInfo| 1 + node.existing_allocations.len();
    let nodes_request = |nodes| si::NodeRequest { nodes, ..Default::default() }.into();
    let allocations_request =
        |allocations| si::AllocationRequest { allocations, ..Default::default() }.into();
    let mut requests: Vec<AnyRequest> = Vec::new();
    requests.extend(in_chunks(nodes, weight).into_iter().map(nodes_request));
    let applications = in_chunks(applications, |_| 1).into_iter();
    requests.extend(
        applications.map(|new| si::ApplicationRequest { new, ..Default::default() }.into()),
    );
    requests.extend(in_chunks(there, |_| 1).into_iter().map(allocations_request));
    requests.extend(in_chunks(opened, |_| 1).into_iter().map(nodes_request));
    requests.extend(in_chunks(wanted, |_| 1).into_iter().map(allocations_request));
    requests
}

/// Splits a list into parts of at most the number of items that a message should have. An item
/// larger than that is a part of its own.
fn in_chunks<T>(items: Vec<T>, weight: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut chunks: Vec<Vec<T>> = Vec::new();
    let mut total = BATCH_ITEMS;
    for item in items {
        total += weight(&item);
        match chunks.last_mut() {
            Some(chunk) if total <= BATCH_ITEMS => chunk.push(item),
            _ => {
                total = weight(&item);
                chunks.push(vec![item]);
            }
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_stay_closed_until_their_allocations_are_reported() {
        let node = |id: &str| si::NodeInfo {
            node_id: id.to_owned(),
            action: ActionFromRm::Create.into(),
            ..Default::default()
        };
        let task = |key: &str, node: &str| si::Allocation {
            allocation_key: key.to_owned(),
            node_id: node.to_owned(),
            ..Default::default()
        };
        let report = Report {
            nodes: (0..=BATCH_ITEMS).map(|n| node(&n.to_string())).collect(),
            applications: vec![si::AddApplicationRequest::default()],
            allocations: vec![task("wanted", ""), task("runs", "0")],
        };
        let said = in_order(report.clone()).into_iter().map(|request| match request {
            AnyRequest::Nodes(request) => {
                format!("{} {:?}", request.nodes.len(), request.nodes[0].action())
            }
            AnyRequest::Applications(request) => format!("{} applications", request.new.len()),
            AnyRequest::Allocations(request) => request.allocations[0].allocation_key.clone(),
        });
        let said: Vec<String> = said.collect();
        assert_eq!(
            said,
            [
                "1000 CreateDrain",
                "1 CreateDrain",
                "1 applications",
                "runs",
                "1000 DrainToSchedulable",
                "1 DrainToSchedulable",
                "wanted",
            ]
        );
        let nothing_runs = Report { allocations: vec![task("wanted", "")], ..report };
        assert_eq!(in_order(nothing_runs).len(), 4, "open from the beginning");
    }
}
