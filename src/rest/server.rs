//! HTTP/1.1 with keep-alive, time limits for requests, and an orderly end.
//!
//! # Why not the server of axum
//! It has no time limit for the head of a request, so a client that sends a byte a minute would
//! hold a connection for ever. The body is limited by [`Pace`], the answer by the connections
//! themselves.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tower::{Layer as _, ServiceExt as _};
use tracing::{debug, info, warn};

use super::events::Pump;
use super::{Beside, Guard, Reads, RestEdge};
use crate::connections::{Connections, OpenCall};
use crate::grpc::pace::Pace;
use crate::grpc::routing::Routing;
use crate::identity::Access;
use crate::identity::layer::IdentityLayer;
use crate::reads::Joined;
use crate::settings::RestSettings;
use crate::watchdog::Healthy;

/// Time limit for a request head. Hyper also applies it to the wait for the next request, so an
/// idle connection ends after the same time.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for running requests to finish after the shutdown begins.
const GRACE: Duration = Duration::from_secs(5);

/// Serves `connections` until `shutdown` is cancelled. Then waits up to five seconds for running
/// requests, and cuts the rest.
pub async fn serve<S: Reads>(
    connections: Connections,
    source: S,
    beside: Beside,
    access: Arc<Access>,
    settings: &RestSettings,
    healthy: Healthy,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let router = router_of_service(source, beside, settings, healthy, shutdown, None);
    serve_clients(connections, router, access, settings).await
}

/// Serves clients with a router of [`router_of_service`].
pub async fn serve_clients(
    connections: Connections,
    router: Router,
    access: Arc<Access>,
    settings: &RestSettings,
) -> io::Result<()> {
    info!(address = %connections.address()?, "serving REST");
    serve_router(connections, router, access, settings.body_timeout).await
}

/// Makes the router of a service. With `routing` it answers for all members of a cluster, and
/// without for this process.
pub fn router_of_service<S: Reads>(
    source: S,
    (door, logbook, whatif): Beside,
    settings: &RestSettings,
    healthy: Healthy,
    stopping: CancellationToken,
    routing: Option<Arc<dyn Routing>>,
) -> Router {
    let guard = Guard::Rules { open_metrics: settings.open_metrics };
    let max_body_bytes = settings.max_body_bytes.get();
    let (joined, pump) = (Joined::new(door), Pump::default());
    let edge = RestEdge {
        source,
        logbook,
        max_body_bytes,
        healthy,
        stopping,
        guard,
        joined,
        pump,
        whatif,
        routing,
    };
    edge.into_router()
}

/// Serves any router. A request body may pause for at most `patience`.
pub(super) async fn serve_router(
    mut connections: Connections,
    router: Router,
    access: Arc<Access>,
    patience: Duration,
) -> io::Result<()> {
    let service = IdentityLayer::new(access).layer(router);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let graceful = GracefulShutdown::new();
    let cut = CancellationToken::new();
    // Dropping this future cuts the connections, too.
    let _cut_on_drop = cut.clone().drop_guard();
    while let Some(connection) = connections.next().await {
        let peer = connection.peer().clone();
        let of_peer = peer.clone();
        let service = service.clone().map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            request.map(|body| PacedBody::new(body, patience))
        });
        let service = service_fn(move |request| {
            let call = of_peer.calls.begin();
            let answered = service.clone().oneshot(request);
            async move {
                Ok::<_, Infallible>(answered.await?.map(|body| CalledBody { body, _call: call }))
            }
        });
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

/// The body of an answer, which keeps the call open until it is sent.
struct CalledBody {
    body: axum::body::Body,
    _call: OpenCall,
}

impl Body for CalledBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A request body with a time limit on pauses.
struct PacedBody {
    body: Incoming,
    pace: Pace,
    looks: Pin<Box<Sleep>>,
}

/// A request body arrived too slowly.
#[derive(Debug, thiserror::Error)]
#[error("it came too slowly")]
struct TooSlow;

impl PacedBody {
    fn new(body: Incoming, patience: Duration) -> Self {
        let pace = Pace::new(patience, Instant::now());
        let looks = Box::pin(sleep_until(pace.next_check()));
        Self { body, pace, looks }
    }
}

impl Body for PacedBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            self.pace.received(frame.data_ref().map_or(0, Bytes::len));
        }
        while self.looks.as_mut().poll(cx).is_ready() {
            if self.pace.is_too_slow(Instant::now(), false) {
                return Poll::Ready(Some(Err(TooSlow.into())));
            }
            let next = self.pace.next_check();
            self.looks.as_mut().reset(next);
        }
        frame.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
