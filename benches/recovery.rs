//! Time of a resource manager to restore the state of a restarted scheduler: from its registration
//! to the first new allocation.
//!
//! `cargo bench --bench recovery`. The service is the `monoceros` binary in its own process. The
//! shim here acts as a Kubernetes shim after a restart of the scheduler: it reports closed nodes,
//! applications, running allocations with their nodes, opens the nodes, and sends one pending ask.
//! See docs/performance.md.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod aims;
mod allocator;
mod service;

use std::time::Duration;

use monoceros_proto::si::v1 as si;
use si::node_info::ActionFromRm as Action;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;

use crate::aims::at_most;
use service::{Service, resource};

const NODES: usize = 5_000;
const APPLICATIONS: usize = 1_400;
const ALLOCATIONS: usize = 140_000;
const BATCH: usize = 1_000;
const RUNS: usize = 5;
const QUEUES: &str =
    "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]";

fn rm_id() -> String {
    "bench".to_owned()
}

fn node(number: usize, action: Action) -> si::NodeInfo {
    let capacity = resource(&[("memory", 64_000), ("vcore", 64_000), ("pods", 110)]);
    si::NodeInfo {
        node_id: format!("node-{number:04}"),
        action: action as i32,
        schedulable_resource: (action == Action::CreateDrain).then_some(capacity),
        ..Default::default()
    }
}

fn nodes(action: Action) -> si::NodeRequest {
    let nodes = (0..NODES).map(|number| node(number, action)).collect();
    si::NodeRequest { nodes, rm_id: rm_id(), ..Default::default() }
}

fn allocation(number: usize, node_id: String) -> si::Allocation {
    si::Allocation {
        allocation_key: format!("pod-{number:06}"),
        application_id: format!("app-{:04}", number % APPLICATIONS),
        node_id,
        resource_per_alloc: Some(resource(&[("memory", 1_000), ("vcore", 500), ("pods", 1)])),
        ..Default::default()
    }
}

fn applications() -> si::ApplicationRequest {
    let new = (0..APPLICATIONS).map(|number| si::AddApplicationRequest {
        application_id: format!("app-{number:04}"),
        queue_name: "root.a".to_owned(),
        ugi: Some(si::UserGroupInformation { user: "bench".to_owned(), groups: Vec::new() }),
        ..Default::default()
    });
    si::ApplicationRequest { new: new.collect(), rm_id: rm_id(), ..Default::default() }
}

fn reports() -> Vec<si::AllocationRequest> {
    let message = |from| si::AllocationRequest {
        allocations: (from..from + BATCH)
            .map(|at| allocation(at, format!("node-{:04}", at % NODES)))
            .collect(),
        rm_id: rm_id(),
        ..Default::default()
    };
    (0..ALLOCATIONS).step_by(BATCH).map(message).collect()
}

/// Returns the seconds until all running allocations are known again, and until the first new one.
async fn run() -> (f64, f64) {
    let service = Service::start();
    let mut client = service.client().await;
    // A shim has them before it registers.
    let reports = reports();
    let start = Instant::now();
    let request = si::RegisterResourceManagerRequest {
        rm_id: rm_id(),
        config: QUEUES.to_owned(),
        ..Default::default()
    };
    client.register_resource_manager(request).await.unwrap();

    let (to_nodes, node_requests) = mpsc::channel(4);
    let (to_applications, application_requests) = mpsc::channel(4);
    let (to_allocations, allocation_requests) = mpsc::channel(16);
    let mut node_answers =
        client.update_node(ReceiverStream::new(node_requests)).await.unwrap().into_inner();
    let mut application_answers = client
        .update_application(ReceiverStream::new(application_requests))
        .await
        .unwrap()
        .into_inner();
    let mut allocation_answers = client
        .update_allocation(ReceiverStream::new(allocation_requests))
        .await
        .unwrap()
        .into_inner();

    to_nodes.send(nodes(Action::CreateDrain)).await.unwrap();
    let mut accepted = 0;
    while accepted < NODES {
        accepted += node_answers.message().await.unwrap().unwrap().accepted.len();
    }
    to_applications.send(applications()).await.unwrap();
    let mut accepted = 0;
    while accepted < APPLICATIONS {
        accepted += application_answers.message().await.unwrap().unwrap().accepted.len();
    }
    tokio::spawn(async move {
        for request in reports {
            to_allocations.send(request).await.unwrap();
        }
        to_nodes.send(nodes(Action::DrainToSchedulable)).await.unwrap();
        let ask = si::AllocationRequest {
            allocations: vec![allocation(ALLOCATIONS, String::new())],
            rm_id: rm_id(),
            ..Default::default()
        };
        to_allocations.send(ask).await.unwrap();
        // The streams stay open until the answers have arrived.
        to_allocations.closed().await;
        drop((to_nodes, to_applications));
    });
    let new = format!("pod-{ALLOCATIONS:06}");
    let (mut known, mut caught_up) = (0, None);
    loop {
        let answer = allocation_answers.message().await.unwrap().unwrap();
        let is_new = answer.new.iter().any(|allocation| allocation.allocation_key == new);
        known += answer.new.len() - usize::from(is_new);
        if known == ALLOCATIONS {
            caught_up.get_or_insert_with(|| start.elapsed().as_secs_f64());
        }
        if is_new {
            let first_new = start.elapsed().as_secs_f64();
            return (caught_up.unwrap_or(first_new), first_new);
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut caught_up, mut first_new) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let (all, new) = timeout(Duration::from_secs(120), run()).await.expect("it recovers");
            caught_up.push(all);
            first_new.push(new);
        }
        println!("| from the registration to | seconds, median (best) | aim |\n|---|---|---|");
        for (what, values, most, aim) in [
            ("all 140,000 are known again", caught_up, f64::INFINITY, ""),
            ("the first allocation that is new", first_new, 0.5, "0.5"),
        ] {
            let best = values.iter().copied().fold(f64::INFINITY, f64::min);
            println!("| {what} | {} ({best:.2}) | {aim} |", at_most(median(values), most, 2));
        }
    });
}
