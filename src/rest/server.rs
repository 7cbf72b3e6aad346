//! Connections: plain HTTP/1.1 with keep-alive, a bound on how long a request head may take, and
//! an orderly end (section 1.1).
//!
//! # Why not the server of axum
//! It has no bound on the head of a request, so a client that sends a byte a minute would hold a
//! connection for ever.

use std::io;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{Reads, router_until};

/// How long a request head may take. Hyper applies it to the wait for the next request of a
/// connection too, so an idle connection ends after as long.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long requests that are being answered may go on once the server is to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Pause before the next connection is taken when taking one failed: commonly the process has no
/// file descriptor left, and one must be given back first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers on `listener` until `shutdown` is cancelled; then takes no more connections, lets
/// requests that are under way end for up to five seconds, and cuts what is left.
pub async fn serve<S: Reads>(
    listener: TcpListener,
    source: S,
    shutdown: CancellationToken,
) -> io::Result<()> {
    info!(address = %listener.local_addr()?, "serving REST");
    let service = TowerToHyperService::new(router_until(source, shutdown.clone()));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let graceful = GracefulShutdown::new();
    let cut = CancellationToken::new();
    // Connections end with this future, also when it is dropped half-way.
    let _cut_on_drop = cut.clone().drop_guard();
    while let Some(stream) = next_connection(&listener, &shutdown).await {
        let connection = http.serve_connection(TokioIo::new(stream), service.clone());
        let connection = graceful.watch(connection);
        tokio::spawn(cut.clone().run_until_cancelled_owned(async move {
            if let Err(error) = connection.await {
                debug!(%error, "connection ended early");
            }
        }));
    }
    drop(listener);
    if timeout(GRACE, graceful.shutdown()).await.is_err() {
        warn!("requests were cut off");
    }
    Ok(())
}

/// The next connection; none once `shutdown` is cancelled.
async fn next_connection(
    listener: &TcpListener,
    shutdown: &CancellationToken,
) -> Option<TcpStream> {
    loop {
        match shutdown.run_until_cancelled(listener.accept()).await? {
            Ok((stream, _)) => return Some(stream),
            Err(error) => {
                warn!(%error, "connection not accepted");
                shutdown.run_until_cancelled(sleep(ACCEPT_PAUSE)).await?;
            }
        }
    }
}
