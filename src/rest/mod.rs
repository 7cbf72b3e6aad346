//! The REST edge, for dashboards, scripts and the web UI.
//!
//! # How a request goes
//! `routes` finds the endpoint of the raw path, or a redirect. `endpoints` checks the values, reads
//! from the scheduler and makes the answer. `replies` turns the answer into a response, with the
//! headers of its class and, if the client accepts it and the document is long, one layer of gzip.
//! Axum carries the requests, but its router is not used, because existing clients rely on
//! redirects, methods and decoding that it does not support.
//!
//! # Invariants
//! * In a cluster, `members` finds the members that a request concerns, before all else.
//! * Nothing here changes the scheduler: every endpoint reads.
//! * Documents are made and compressed on threads for blocking work, so that a large one delays
//!   neither other requests nor the scheduler.
//! * Everything that grows with the cluster is read within the memory bound that all edges share
//!   ([`crate::reads`]).
//! * An error of a handler is an error object. Only errors before a handler are plain text.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::Response;
use monoceros_actors::partition_name::{plain_name, rm_id};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug as log;

mod applications;
mod brief;
mod cluster;
mod debug;
mod decoding;
mod documents;
mod endpoints;
mod events;
mod failures;
mod gathered;
mod history;
mod lists;
mod member_lists;
mod members;
mod page;
mod probes;
mod replies;
mod routes;
mod run_times;
mod searches;
mod server;
mod sessions;
mod snapshots;
mod source;
#[cfg(test)]
mod tests;
mod validation;
#[cfg_attr(not(feature = "simulator"), path = "whatif_absent.rs")]
mod whatif;

pub use probes::serve_probes;
pub use server::{router_of_service, serve, serve_clients};
pub use source::Reads;
pub use whatif::WhatIf;

use events::Pump;
use failures::Failure;
use routes::{Endpoint, Route};

use crate::grpc::FORWARDED_HEADER;
use crate::grpc::routing::Routing;
use crate::identity::layer::Peer;
use crate::identity::{Identity, Right};
use crate::logbook::Logbook;
use crate::reads::{Door, Joined, qualified};
use crate::watchdog::{Health, Healthy, Readiness};

/// What an edge shares with others: the bounds of reads and of questions, and the logbook.
pub type Beside = (Door, Logbook, WhatIf);

/// Default bound on the bytes of documents.
const READS_BYTES: usize = 256 << 20;

/// Makes a router of all endpoints over `source`, for a program that embeds it. A request body may
/// have up to `max_body_bytes`.
pub fn router<S: Reads>(source: S, max_body_bytes: usize) -> Router {
    let healthy = Healthy::fixed(Health::Serving);
    let door = Door::new(READS_BYTES);
    let (logbook, never) = (Logbook::default(), CancellationToken::new());
    let whatif = WhatIf::off();
    router_until(source, (door, logbook, whatif), max_body_bytes, healthy, never, Guard::Open)
}

/// Builds the router with the sources of `/healthz` and the access rules.
fn router_until<S: Reads>(
    source: S,
    (door, logbook, whatif): Beside,
    max_body_bytes: usize,
    healthy: Healthy,
    stopping: CancellationToken,
    guard: Guard,
) -> Router {
    let (joined, pump) = (Joined::new(door), Pump::default());
    let routing = None;
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

/// Access to the endpoints.
#[derive(Clone, Copy, Debug)]
enum Guard {
    /// Everybody. The embedding program decides about access.
    Open,
    /// Callers that the rules of the settings allow, see [`crate::identity`].
    Rules {
        /// Whether metrics need no identity.
        open_metrics: bool,
    },
}

impl Guard {
    fn caller(self, parts: &Parts) -> Identity {
        match self {
            Self::Open => Identity::anybody(),
            Self::Rules { .. } => Identity::of(&parts.extensions),
        }
    }

    /// Returns the right that an endpoint needs. Browsers send OPTIONS before they authenticate.
    fn needs(self, parts: &Parts, endpoint: &Endpoint, right: Right) -> Right {
        let is_open = matches!(self, Self::Rules { open_metrics: true });
        match endpoint {
            _ if parts.method == Method::OPTIONS => Right::Nothing,
            Endpoint::Metrics if is_open => Right::Nothing,
            _ => right,
        }
    }
}

/// Resolves the name of a partition to the first one of that name that the caller may read. A
/// caller without access does not learn whether the partition exists.
fn readable(wanted: &str, names: &[String], caller: &Identity) -> Result<String, Failure> {
    if wanted.starts_with('[') {
        caller.check_read(rm_id(wanted))?;
        return Ok(wanted.to_owned());
    }
    if caller.check_read_all().is_ok() {
        // Answers are shared between callers, so the name is resolved before the read.
        return Ok(qualified(wanted, names).to_owned());
    }
    let mut names = names.iter().filter(|name| plain_name(name) == wanted);
    names.find(|name| caller.may_read(rm_id(name))).cloned().ok_or(Failure::PartitionNotFound)
}

/// State of the edge for every request.
#[derive(Clone)]
struct RestEdge<S> {
    source: S,
    logbook: Logbook,
    max_body_bytes: usize,
    healthy: Healthy,
    stopping: CancellationToken,
    guard: Guard,
    joined: Joined<Failure>,
    pump: Pump,
    whatif: WhatIf,
    /// The way to the other members of a cluster. `None` for requests of members.
    routing: Option<Arc<dyn Routing>>,
}

impl<S: Reads> RestEdge<S> {
    fn into_router(self) -> Router {
        Router::new().fallback(answer::<S>).with_state(self)
    }
}

/// Resolves the partition of the endpoint for the caller.
fn narrow<S: Reads>(source: &S, endpoint: &mut Endpoint, caller: &Identity) -> Result<(), Failure> {
    if let Some(partition) = endpoint.partition_mut() {
        *partition = readable(partition, &source.partition_names(), caller)?;
    }
    Ok(())
}

/// Refuses endpoints that only the active replica can answer.
fn led_here<S>(edge: &RestEdge<S>, endpoint: &Endpoint) -> Result<(), Failure> {
    match edge.healthy.readiness() {
        Readiness::StandsBy(leader) if !endpoint.is_about_this_process() => {
            Err(Failure::StandsBy(leader))
        }
        _ => Ok(()),
    }
}

/// Whether the request came on a connection beyond the limit.
fn is_spare(parts: &Parts) -> bool {
    parts.extensions.get::<Peer>().is_some_and(|peer| peer.is_spare)
}

async fn answer<S: Reads>(State(edge): State<RestEdge<S>>, request: Request) -> Response {
    let began = Instant::now();
    let (parts, body) = request.into_parts();
    let response = match admitted(edge.guard, &parts).await {
        Ok((endpoint, caller)) => match &edge.routing {
            Some(_) if parts.headers.contains_key(FORWARDED_HEADER) => members::refused(),
            Some(routing) => {
                members::answer(&edge, &**routing, endpoint, &parts, &caller, body).await
            }
            None => found(&edge, endpoint, &parts, &caller, body).await,
        },
        Err(response) => response,
    };
    log_answer(&parts, &response, began);
    response
}

/// Returns the endpoint and the caller, or a response that needs neither.
async fn admitted(guard: Guard, parts: &Parts) -> Result<(Endpoint, Identity), Response> {
    let route = routes::find(parts.uri.path());
    let caller = guard.caller(parts);
    match route {
        _ if is_spare(parts)
            && !matches!(route, Route::Found(Endpoint::Health | Endpoint::Ready, _)) =>
        {
            Err(replies::too_many())
        }
        Route::Unknown => Err(replies::unknown_path()),
        Route::Redirect(path) => Err(replies::redirect(&parts.method, &path, parts.uri.query())),
        Route::Found(endpoint, right) => {
            let answers = endpoint.answers();
            let needs = guard.needs(parts, &endpoint, right);
            if let Err(denied) = caller.check_at_the_door(needs) {
                Err(replies::denied(denied, answers, &parts.headers).await)
            } else if parts.method == Method::OPTIONS {
                Err(replies::options(answers))
            } else if !answers.is(&parts.method) {
                Err(replies::method_not_allowed(answers))
            } else {
                Ok((endpoint, caller))
            }
        }
    }
}

/// Answers a request for an endpoint.
async fn found<S: Reads>(
    edge: &RestEdge<S>,
    mut endpoint: Endpoint,
    parts: &Parts,
    caller: &Identity,
    body: Body,
) -> Response {
    let answers = endpoint.answers();
    let may_answer =
        led_here(edge, &endpoint).and_then(|()| narrow(&edge.source, &mut endpoint, caller));
    let reply = match may_answer {
        Ok(()) if endpoint == Endpoint::EventStream => match events::follow(edge, parts) {
            Ok(lines) => return replies::streamed(lines, answers),
            Err(failure) => Err(failure),
        },
        Ok(()) => endpoints::reply(edge, endpoint, parts, caller, body).await,
        Err(failure) => Err(failure),
    };
    replies::respond(reply, answers, &parts.headers).await
}

fn log_answer(parts: &Parts, response: &Response, began: Instant) {
    log!(
        target: "core.rest",
        method = %parts.method,
        uri = %parts.uri,
        status = response.status().as_u16(),
        duration = ?began.elapsed(),
        "answered"
    );
}
