//! The endpoints of a process whose scheduler is in another process: probes and metrics.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use prometheus::Registry;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::endpoints::{health, metrics_page, ready};
use super::failures::Failure;
use super::replies::{self, Class, EndpointReply};
use super::routes::Endpoint;
use super::server::serve_router;
use super::{Guard, admitted, log_answer};
use crate::connections::Connections;
use crate::identity::Access;
use crate::settings::RestSettings;
use crate::watchdog::Healthy;

/// State of the edge for every request.
#[derive(Clone)]
struct Probed {
    numbers: Registry,
    /// The address of the scheduler, which answers everything else.
    scheduler: String,
    healthy: Healthy,
    stopping: CancellationToken,
    guard: Guard,
}

/// Serves probes of a process whose scheduler is at the address `scheduler`.
pub async fn serve_probes(
    connections: Connections,
    numbers: Registry,
    scheduler: String,
    access: Arc<Access>,
    settings: &RestSettings,
    healthy: Healthy,
    shutdown: CancellationToken,
) -> io::Result<()> {
    info!(address = %connections.address()?, "serving probes");
    let guard = Guard::Rules { open_metrics: settings.open_metrics };
    let probed = Probed { numbers, scheduler, healthy, stopping: shutdown, guard };
    let router = Router::new().fallback(answer).with_state(probed);
    serve_router(connections, router, access, settings.body_timeout).await
}

async fn answer(State(probed): State<Probed>, request: Request) -> Response {
    let began = Instant::now();
    let (parts, _) = request.into_parts();
    let response = match admitted(probed.guard, &parts).await {
        Ok((endpoint, _)) => {
            let answers = endpoint.answers();
            let reply = match endpoint {
                Endpoint::Health => Ok(health(&probed.healthy, &probed.stopping)),
                Endpoint::Ready => Ok(ready(&probed.healthy, &probed.stopping)),
                Endpoint::Metrics => metrics_page(probed.numbers, false)
                    .await
                    .map(|page| EndpointReply::ok(Class::Metrics, page)),
                _ => Err(Failure::RemoteScheduler(probed.scheduler)),
            };
            replies::respond(reply, answers, &parts.headers).await
        }
        Err(response) => response,
    };
    log_answer(&parts, &response, began);
    response
}
