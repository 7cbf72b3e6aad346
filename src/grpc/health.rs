//! The standard health service (`grpc.health.v1`), for probes and load balancers.
//!
//! Every service of this edge serves while the scheduler can be reached and until the shutdown
//! begins, and none otherwise: the status is set by what the watchdog finds, so that an answer waits
//! for nobody. Whoever watches reads the end before the stream ends, so that a balancer sends its clients elsewhere while
//! those that are here finish.

use tokio_util::sync::CancellationToken;
use tonic::server::NamedService;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::server::{HealthReporter, HealthService};

use super::ending::Ending;
use super::wrapped::Wrapped;
use crate::watchdog::{self, Healthy};

/// A name in a request; nothing else is in one.
const MESSAGE_BYTES: usize = 16 << 10;

/// The services that can be asked for; the empty name is the whole server.
#[derive(Clone, Debug, Default)]
pub(super) struct Services(Vec<&'static str>);

impl Services {
    /// Adds the service that a generated server serves.
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

/// The service that tells the health of `services`, which is `healthy` until `shutdown` is
/// cancelled; they are not serving from then on.
pub(super) async fn serve(
    services: Services,
    mut healthy: Healthy,
    shutdown: CancellationToken,
) -> Wrapped<HealthServer<impl Health>, Ending> {
    let reporter = HealthReporter::new();
    services.set(&reporter, ServingStatus::Serving).await;
    let server = HealthServer::new(HealthService::from_health_reporter(reporter.clone()))
        .max_decoding_message_size(MESSAGE_BYTES);
    let told = CancellationToken::new();
    let ending = Wrapped::new(server, Ending(told.clone()));
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
        told.cancel();
    });
    ending
}
