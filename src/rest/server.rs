//! HTTP/1.1 with keep-alive, a bound on how long a request head may take, and an orderly end.
//!
//! # Why not the server of axum
//! It has no bound on the head of a request, so a client that sends a byte a minute would hold a
//! connection for ever.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::{Layer as _, ServiceExt as _};
use tracing::{debug, info, warn};

use super::{Guard, Reads, router_until};
use crate::connections::Connections;
use crate::identity::Access;
use crate::identity::layer::IdentityLayer;
use crate::settings::RestSettings;
use crate::watchdog::Healthy;

/// How long a request head may take. Hyper applies it to the wait for the next request of a
/// connection too, so an idle connection ends after as long.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long requests that are being answered may go on once the server is to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Answers on `connections` until they end, which is when `shutdown` is cancelled; then lets
/// requests that are under way end for up to five seconds, and cuts what is left.
pub async fn serve<S: Reads>(
    mut connections: Connections,
    source: S,
    access: Arc<Access>,
    settings: &RestSettings,
    healthy: Healthy,
    shutdown: CancellationToken,
) -> io::Result<()> {
    info!(address = %connections.address()?, "serving REST");
    let guard = Guard::Rules { open_metrics: settings.open_metrics };
    let router = router_until(source, settings.max_body_bytes.get(), healthy, shutdown, guard);
    let service = IdentityLayer::new(access).layer(router);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let graceful = GracefulShutdown::new();
    let cut = CancellationToken::new();
    // Connections end with this future, also when it is dropped half-way.
    let _cut_on_drop = cut.clone().drop_guard();
    while let Some(connection) = connections.next().await {
        let peer = connection.peer().clone();
        let service = service.clone().map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            request
        });
        let service = TowerToHyperService::new(service);
        let connection = http.serve_connection(TokioIo::new(connection), service);
        let connection = graceful.watch(connection);
        tokio::spawn(cut.clone().run_until_cancelled_owned(async move {
            if let Err(error) = connection.await {
                debug!(%error, "connection ended early");
            }
        }));
    }
    drop(connections);
    if timeout(GRACE, graceful.shutdown()).await.is_err() {
        warn!("requests were cut off");
    }
    Ok(())
}
