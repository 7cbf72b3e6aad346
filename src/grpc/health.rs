//! The standard health service (`grpc.health.v1`), for probes and load balancers.
//!
//! All services of this edge are `SERVING` while the scheduler can be reached and no shutdown has
//! begun, otherwise `NOT_SERVING`. The watchdog sets the status, so a probe never waits for the
//! scheduler. A watcher receives the final status before its stream ends, so that a load balancer
//! can redirect its clients while running calls finish.

use tokio_util::sync::CancellationToken;
use tonic::server::NamedService;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::server::{HealthReporter, HealthService};

use super::ending::Ending;
use super::wrapped::Wrapped;
use crate::watchdog::{self, Healthy};

/// Maximum size of a request, which holds one service name.
const MESSAGE_BYTES: usize = 16 << 10;

/// The services whose health can be queried; the empty name is the whole server.
#[derive(Clone, Debug, Default)]
pub(super) struct Services(Vec<&'static str>);

impl Services {
    /// Adds the name of a generated server.
    pub(super) fn with<S: NamedService>(mut self, _server: &S) -> Self {
        self.0.push(S::NAME);
        self
    }

    async fn set(&self, reporter: &HealthReporter, status: ServingStatus) {
        for service in self.0.iter().copied().chain([""]) {
            reporter.set_service_status(service, status).await;
        }
    }
}

/// Creates the health service of `services`. They report the state of `healthy` until `shutdown` is
/// cancelled, and `NOT_SERVING` from then on.
pub(super) async fn serve(
    services: Services,
    mut healthy: Healthy,
    shutdown: CancellationToken,
) -> Wrapped<HealthServer<impl Health>, Ending> {
    let reporter = HealthReporter::new();
    services.set(&reporter, ServingStatus::Serving).await;
    let server = HealthServer::new(HealthService::from_health_reporter(reporter.clone()))
        .max_decoding_message_size(MESSAGE_BYTES);
    let final_status_set = CancellationToken::new();
    let ending = Wrapped::new(server, Ending(final_status_set.clone()));
    tokio::spawn(async move {
        let follow = async {
            loop {
                let status = match healthy.changed().await {
                    watchdog::Health::Serving => ServingStatus::Serving,
                    watchdog::Health::Stuck | watchdog::Health::Gone => ServingStatus::NotServing,
                };
                services.set(&reporter, status).await;
            }
        };
        shutdown.run_until_cancelled(follow).await;
        services.set(&reporter, ServingStatus::NotServing).await;
        final_status_set.cancel();
    });
    ending
}
