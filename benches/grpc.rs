//! Allocations per second over gRPC: one shim, batched streams, loopback.
//!
//! `cargo bench --bench grpc`. The service is the `monoceros` binary in a process of its own; the
//! shim here sends 50,000 asks in messages of 1,000 and counts allocations until the last has
//! arrived. See docs/performance.md.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod allocator;
mod service;

use std::time::Duration;

use monoceros::grpc::stubs::scheduler_client::SchedulerClient;
use monoceros_proto::si::v1 as si;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use service::{Service, resource};

const ASKS: usize = 50_000;
const BATCH: usize = 1_000;
const RUNS: usize = 7;
const QUEUES: &str =
    "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]";

/// Registers, brings a thousand nodes and one application, and waits until both are accepted.
async fn prepare(client: &mut SchedulerClient<Channel>) {
    let rm_id = "bench".to_owned();
    let request = si::RegisterResourceManagerRequest {
        rm_id: rm_id.clone(),
        config: QUEUES.to_owned(),
        ..Default::default()
    };
    client.register_resource_manager(request).await.unwrap();
    let nodes = (0..1_000).map(|number| si::NodeInfo {
        node_id: format!("node-{number:04}"),
        action: si::node_info::ActionFromRm::Create as i32,
        schedulable_resource: Some(resource(&[("memory", 500), ("vcore", 50)])),
        ..Default::default()
    });
    let request =
        si::NodeRequest { nodes: nodes.collect(), rm_id: rm_id.clone(), ..Default::default() };
    let mut accepted =
        client.update_node(tokio_stream::iter([request])).await.unwrap().into_inner();
    let mut count = 0;
    while count < 1_000 {
        count += accepted.message().await.unwrap().unwrap().accepted.len();
    }
    let application = si::AddApplicationRequest {
        application_id: "app".to_owned(),
        queue_name: "root.a".to_owned(),
        ugi: Some(si::UserGroupInformation { user: "bench".to_owned(), groups: Vec::new() }),
        ..Default::default()
    };
    let request = si::ApplicationRequest { new: vec![application], rm_id, ..Default::default() };
    let mut answers =
        client.update_application(tokio_stream::iter([request])).await.unwrap().into_inner();
    assert_eq!(answers.message().await.unwrap().unwrap().accepted.len(), 1);
}

async fn run() -> f64 {
    let service = Service::start();
    let mut client = service.client().await;
    prepare(&mut client).await;
    let (requests, outgoing) = mpsc::channel(16);
    let start = Instant::now();
    tokio::spawn(async move {
        for from in (0..ASKS).step_by(BATCH) {
            let asks = (from..from + BATCH).map(|number| si::AllocationAsk {
                allocation_key: format!("ask-{number:06}"),
                application_id: "app".to_owned(),
                resource_ask: Some(resource(&[("memory", 10), ("vcore", 1)])),
                max_allocations: 1,
                ..Default::default()
            });
            let request = si::AllocationRequest {
                asks: asks.collect(),
                rm_id: "bench".to_owned(),
                ..Default::default()
            };
            requests.send(request).await.unwrap();
        }
        // The stream stays open until the answers are in.
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop(requests);
    });
    let stream = ReceiverStream::new(outgoing);
    let mut answers = client.update_allocation(stream).await.unwrap().into_inner();
    let mut count = 0;
    while count < ASKS {
        count += answers.message().await.unwrap().unwrap().new.len();
    }
    start.elapsed().as_secs_f64()
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut walls = Vec::new();
        for _ in 0..RUNS {
            walls.push(timeout(Duration::from_secs(60), run()).await.expect("everything fits"));
        }
        walls.sort_by(f64::total_cmp);
        let rate = |wall: f64| ASKS as f64 / wall;
        println!("| over gRPC, one shim, {ASKS} asks | allocations/s, median (best) |\n|---|---|");
        println!("| batches of {BATCH} | {:.0} ({:.0}) |", rate(walls[RUNS / 2]), rate(walls[0]));
    });
}
