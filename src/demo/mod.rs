//! `monoceros serve --demo`: a simulated resource manager, which shows a newcomer a busy cluster.
//!
//! It is a client like any other: it uses gRPC over the loopback interface, and the server treats
//! it like any client. [`model`] decides which requests it makes, and this file sends them through
//! the client library. When its session is lost, it drops its state and starts a new cluster.

pub mod cluster;
mod contention;
mod gangs;
mod job;
pub mod model;
#[cfg(test)]
mod played;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use monoceros_client::{Client, Ended, Event, Options, Report, si};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;
use tracing::{info, warn};

use self::model::{Model, Orders};
use crate::cli::{BUILD, Build, build_date};

/// The id of the demo as a resource manager.
pub const RM_ID: &str = "demo";

const QUEUES: &str = include_str!("queues.yaml");

/// The seed of the demo. Equal seeds give equal requests; the outcome depends on the scheduler.
const SEED: u64 = 40;

/// Interval of the model's ticks.
const TICK: Duration = Duration::from_millis(250);

/// Interval of the summary in the log.
const SUMMARY: Duration = Duration::from_secs(15);

/// Pause after the client has given up.
const PAUSE: Duration = Duration::from_secs(2);

/// Keeps the scheduler at `address` busy until `shutdown` is cancelled.
pub async fn run(address: SocketAddr, shutdown: CancellationToken) {
    let endpoint = match Endpoint::from_shared(format!("http://{address}")) {
        Ok(endpoint) => endpoint,
        Err(error) => return warn!(%error, %address, "the demo cannot connect"),
    };
    let options = Options::new(endpoint, RM_ID).registration(registration());
    let busy = async {
        loop {
            // Another client may have used the demo's id. The demo then tries again.
            let Err(Ended) = live(options.clone()).await;
            sleep(PAUSE).await;
        }
    };
    shutdown.run_until_cancelled(busy).await;
}

/// Makes the registration. Dashboards show its build information.
fn registration() -> si::RegisterResourceManagerRequest {
    let Build { version, commit, target, .. } = BUILD;
    let date = build_date();
    let built = [
        ("buildVersion", version),
        ("buildDate", &date),
        ("arch", std::env::consts::ARCH),
        ("commit", commit),
        ("target", target),
    ];
    let built = built.map(|(key, value)| (key.to_owned(), value.to_owned()));
    si::RegisterResourceManagerRequest {
        policy_group: "demo".to_owned(),
        config: QUEUES.to_owned(),
        build_info: built.into(),
        ..Default::default()
    }
}

/// Runs until the client gives up.
async fn live(options: Options) -> Result<Infallible, Ended> {
    // A new cluster has nothing to report.
    let (client, mut events) = Client::start(options, Report::default);
    let mut model: Option<Model> = None;
    let mut start = Instant::now();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut summaries = interval(SUMMARY);
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            _ = ticks.tick(), if model.is_some() => {
                if let Some(model) = &mut model {
                    model.tick(start.elapsed());
                    send_orders(&client, model.take_orders()).await?;
                }
                continue;
            }
            _ = summaries.tick() => {
                if let Some(model) = &model {
                    model.report();
                }
                continue;
            }
        };
        match (event, &mut model) {
            (Some(Event::Registered { .. }), _) => {
                info!(rm = RM_ID, "registered");
                (model, start) = (Some(Model::new(SEED)), Instant::now());
            }
            (Some(Event::Nodes(reply)), Some(model)) => model.on_nodes(reply),
            (Some(Event::Applications(reply)), Some(model)) => model.on_applications(reply),
            (Some(Event::Allocations(reply)), Some(model)) => model.on_allocations(reply),
            (Some(Event::Disconnected(lost)), _) => warn!(%lost, "coming back"),
            (Some(Event::Ended(end)), _) => warn!(%end, "the demo ends"),
            (Some(_), None) => {}
            (None, _) => return Err(Ended),
        }
        if let Some(model) = &mut model {
            send_orders(&client, model.take_orders()).await?;
        }
    }
}

/// Sends the model's orders.
async fn send_orders(client: &Client, orders: Orders) -> Result<(), Ended> {
    let Orders { nodes, new, remove, asks, releases } = orders;
    client.report(nodes).await?;
    client.send(si::ApplicationRequest { new, remove, ..Default::default() }).await?;
    client.ask(asks).await?;
    client.release(releases).await
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_demo_queues_are_valid() {
        let configuration = monoceros_actors::config::parse(super::QUEUES).unwrap();
        assert_eq!(configuration.warnings, []);
        assert_eq!(configuration.partitions.len(), 1);
    }
}
