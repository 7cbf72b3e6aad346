//! `monoceros serve --demo`: a simulated resource manager, so that a newcomer sees a busy cluster.
//!
//! It is a client like any other: it speaks gRPC over the loopback interface to the server that was
//! just started, and nothing in the server knows it. What it wants is up to [`model`]; here is how
//! it talks. When anything goes wrong it forgets everything and registers again, as a resource
//! manager would.

pub mod cluster;
mod gangs;
mod job;
pub mod model;
#[cfg(test)]
mod played;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use monoceros_proto::si::v1 as si;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;
use tonic::{Status, Streaming};
use tracing::{info, warn};

use self::model::{Model, Orders};
use crate::grpc::stubs::scheduler_client::SchedulerClient;

/// The id under which the demo registers.
pub const RM_ID: &str = "demo";

const QUEUES: &str = include_str!("queues.yaml");

/// Equal seeds make equal wishes; what comes of them is up to the scheduler.
const SEED: u64 = 40;

/// How often the model looks at the clock.
const TICK: Duration = Duration::from_millis(250);

/// How often a line says how busy the cluster is.
const SUMMARY: Duration = Duration::from_secs(15);

/// How long to wait before registering again.
const PAUSE: Duration = Duration::from_secs(2);

/// Requests that wait for the transport.
const REQUESTS_AHEAD: usize = 16;

/// Why the demo has to start over.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("cannot connect")]
    Connect(#[from] tonic::transport::Error),
    #[error("the scheduler answered: {0}")]
    Refused(#[from] Status),
    #[error("the scheduler ended a stream")]
    StreamEnded,
}

/// Keeps the scheduler at `address` busy until `shutdown` is cancelled.
pub async fn run(address: SocketAddr, shutdown: CancellationToken) {
    let busy = async {
        loop {
            let Err(lost) = live(address).await;
            warn!(%lost, "starting over");
            sleep(PAUSE).await;
        }
    };
    shutdown.run_until_cancelled(busy).await;
}

/// One session, from registration until something goes wrong.
async fn live(address: SocketAddr) -> Result<Infallible, Lost> {
    let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    let mut client = SchedulerClient::new(channel);
    let registration = si::RegisterResourceManagerRequest {
        rm_id: RM_ID.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        policy_group: "demo".to_owned(),
        config: QUEUES.to_owned(),
        ..Default::default()
    };
    client.register_resource_manager(registration).await?;
    let (nodes, requests) = mpsc::channel(REQUESTS_AHEAD);
    let mut node_replies = client.update_node(ReceiverStream::new(requests)).await?.into_inner();
    let (applications, requests) = mpsc::channel(REQUESTS_AHEAD);
    let replies = client.update_application(ReceiverStream::new(requests)).await?;
    let mut application_replies = replies.into_inner();
    let (allocations, requests) = mpsc::channel(REQUESTS_AHEAD);
    let replies = client.update_allocation(ReceiverStream::new(requests)).await?;
    let mut allocation_replies = replies.into_inner();
    let requests = Requests { nodes, applications, allocations };
    requests.hello().await?;
    info!(rm = RM_ID, "registered");

    let start = Instant::now();
    let mut model = Model::new(SEED);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut summaries = interval(SUMMARY);
    loop {
        tokio::select! {
            _ = ticks.tick() => model.tick(start.elapsed()),
            _ = summaries.tick() => model.report(),
            reply = next(&mut node_replies) => model.on_nodes(reply?),
            reply = next(&mut application_replies) => model.on_applications(reply?),
            reply = next(&mut allocation_replies) => model.on_allocations(reply?),
        }
        requests.send(model.take_orders()).await?;
    }
}

async fn next<R>(replies: &mut Streaming<R>) -> Result<R, Lost> {
    replies.message().await?.ok_or(Lost::StreamEnded)
}

/// The way to the scheduler, one stream of each kind.
struct Requests {
    nodes: mpsc::Sender<si::NodeRequest>,
    applications: mpsc::Sender<si::ApplicationRequest>,
    allocations: mpsc::Sender<si::AllocationRequest>,
}

impl Requests {
    /// Binds the streams, so that the scheduler can use them before we ask for anything.
    async fn hello(&self) -> Result<(), Lost> {
        send(&self.nodes, si::NodeRequest { rm_id: rm_id(), ..Default::default() }).await?;
        let hello = si::ApplicationRequest { rm_id: rm_id(), ..Default::default() };
        send(&self.applications, hello).await?;
        let hello = si::AllocationRequest { rm_id: rm_id(), ..Default::default() };
        send(&self.allocations, hello).await
    }

    async fn send(&self, orders: Orders) -> Result<(), Lost> {
        let Orders { nodes, new, remove, asks, releases } = orders;
        if !nodes.is_empty() {
            let request = si::NodeRequest { nodes, rm_id: rm_id(), ..Default::default() };
            send(&self.nodes, request).await?;
        }
        if !(new.is_empty() && remove.is_empty()) {
            let request =
                si::ApplicationRequest { new, remove, rm_id: rm_id(), ..Default::default() };
            send(&self.applications, request).await?;
        }
        if !(asks.is_empty() && releases.is_empty()) {
            let releases = si::AllocationReleasesRequest {
                allocations_to_release: releases,
                ..Default::default()
            };
            let request = si::AllocationRequest {
                allocations: asks,
                releases: Some(releases),
                rm_id: rm_id(),
                ..Default::default()
            };
            send(&self.allocations, request).await?;
        }
        Ok(())
    }
}

fn rm_id() -> String {
    RM_ID.to_owned()
}

async fn send<R>(requests: &mpsc::Sender<R>, request: R) -> Result<(), Lost> {
    requests.send(request).await.map_err(|_| Lost::StreamEnded)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_queues_of_the_demo_are_valid() {
        let configuration = monoceros_actors::config::parse(super::QUEUES).unwrap();
        assert_eq!(configuration.warnings, []);
        assert_eq!(configuration.partitions.len(), 1);
    }
}
