//! Compares the service's state with the resource manager's belief.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::belief::Belief;
use crate::harness::Service;

const PARTITION: &str = "/ws/v1/partition/default";

/// The view of one side.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// Capacity, foreign usage, and whether it is open.
    nodes: BTreeMap<String, (i64, i64, bool)>,
    /// Allocations: by key, the application and the node.
    placed: BTreeMap<String, (String, String)>,
    /// Pending requests: by key, the application.
    pub(crate) waiting: BTreeMap<String, String>,
    /// Applications with pending requests or allocations.
    applications: BTreeSet<String>,
    /// The sum of all queues.
    allocated: i64,
    pending: i64,
}

impl View {
    /// Returns the resource manager's view.
    pub(crate) fn believed(belief: &Belief) -> Self {
        let mut view = Self::default();
        for (id, node) in &belief.nodes {
            let others = node.foreign.values().sum();
            view.nodes.insert(id.clone(), (node.capacity, others, node.is_open));
        }
        for (id, application) in &belief.applications {
            for (key, request) in
                application.requests.iter().filter(|(_, request)| !request.is_ending)
            {
                view.applications.insert(id.clone());
                if let Some(place) = &request.placed {
                    view.placed.insert(key.clone(), (id.clone(), place.node.clone()));
                    view.allocated += request.size;
                } else {
                    view.waiting.insert(key.clone(), id.clone());
                    view.pending += request.size;
                }
            }
        }
        view
    }

    /// Returns the service's view. `None` while it does not run, or its pages contradict each
    /// other, which is possible during changes.
    pub(crate) async fn reported(service: &Service) -> Result<Self, String> {
        let page = async |path: &str| {
            let answer = service.http("GET", path, &[], "").await;
            match answer.status {
                200 => Ok(answer.json()),
                status => Err(format!("{path}: {status}")),
            }
        };
        let mut view = Self::default();
        let nodes = page(&format!("{PARTITION}/nodes")).await?;
        let mut on_nodes = BTreeMap::new();
        for node in list(&nodes) {
            let id = text(node, "nodeID");
            let facts =
                (vcore(&node["capacity"]), vcore(&node["occupied"]), node["schedulable"] == true);
            view.nodes.insert(id.clone(), facts);
            let mut sum = 0;
            for allocation in list(&node["allocations"]) {
                sum += vcore(&allocation["resource"]);
                on_nodes.insert(text(allocation, "allocationKey"), id.clone());
            }
            same("what a node has and the sum of it", &vcore(&node["allocated"]), &sum)?;
        }
        let applications = page(&format!("{PARTITION}/applications/active")).await?;
        for application in list(&applications) {
            let id = text(application, "applicationID");
            for allocation in list(&application["allocations"]) {
                view.applications.insert(id.clone());
                let place = (id.clone(), text(allocation, "nodeId"));
                let twice = view.placed.insert(text(allocation, "allocationKey"), place);
                same("how often it is there", &twice, &None)?;
            }
            for request in list(&application["requests"]) {
                view.applications.insert(id.clone());
                view.waiting.insert(text(request, "allocationKey"), id.clone());
            }
        }
        let by_application: BTreeMap<_, _> =
            view.placed.iter().map(|(key, (_, node))| (key.clone(), node.clone())).collect();
        same("allocations of nodes and of applications", &on_nodes, &by_application)?;

        let root = page(&format!("{PARTITION}/queues")).await?;
        view.allocated = vcore(&root["allocatedResource"]);
        view.pending = vcore(&root["pendingResource"]);
        sums_up(&root)?;
        let users = page(&format!("{PARTITION}/usage/users")).await?;
        let used = list(&users).iter().map(|user| vcore(&user["queues"]["resourceUsage"]));
        same("what users and queues use", &used.sum(), &view.allocated)?;

        let dump = page("/debug/fullstatedump").await?;
        same("the dump and its parts: nodes", &on_nodes.len(), &count(&dump, "nodes"))?;
        Ok(view)
    }
}

/// Counts the allocations in the nodes of a dump.
fn count(dump: &Value, part: &str) -> usize {
    let partitions = list(&dump[part]).iter();
    let nodes = partitions.flat_map(|partition| list(&partition["nodesInfo"]));
    nodes.map(|node| list(&node["allocations"]).len()).sum()
}

fn sums_up(queue: &Value) -> Result<(), String> {
    let children = list(&queue["children"]);
    for kind in ["allocatedResource", "pendingResource"] {
        if !children.is_empty() {
            let below: i64 = children.iter().map(|child| vcore(&child[kind])).sum();
            same(&text(queue, "queuename"), &below, &vcore(&queue[kind]))?;
        }
    }
    children.iter().try_for_each(sums_up)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, one: &T, other: &T) -> Result<(), String> {
    if one == other { Ok(()) } else { Err(format!("{what}: {one:?} is not {other:?}")) }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn vcore(amount: &Value) -> i64 {
    amount["vcore"].as_i64().unwrap_or(0)
}
