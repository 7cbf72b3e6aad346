//! The REST edge: what dashboards, scripts and the web UI read.
//!
//! # How a request goes
//! `routes` finds the endpoint by the raw path, or where the client should have asked;
//! `endpoints` checks the values, reads from the scheduler and says what the answer is;
//! `replies` turns that into a response, with the headers of its class and, where asked for and
//! worth it, one layer of gzip. Axum carries the requests; its own router is not used, because
//! existing clients rely on redirects, methods and decoding that it does not do.
//!
//! # Invariants
//! * Nothing here changes the scheduler: every endpoint reads.
//! * Documents are made and compressed on threads for blocking work, so that a large one delays
//!   neither other requests nor the scheduler.
//! * Whatever grows with the cluster is read through the door that all edges share
//!   ([`crate::reads`]).
//! * An error of a handler is an error object; only what no handler saw is plain text.

use std::collections::BTreeSet;
use std::future::Future;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::Response;
use monoceros_actors::config::ConfigErrors;
use monoceros_actors::partition_name::{plain_name, rm_id};
use monoceros_actors::snapshot::{
    ApplicationSnapshot, ClusterSnapshot, DecisionSnapshot, ExplanationSnapshot, GroupSnapshot,
    NodeSnapshot, NodeUtilizationSnapshot, PartitionSnapshot, QueueSnapshot, ShownRule,
    UserSnapshot,
};
use monoceros_actors::{
    ApplicationList, ConfigurationError, ConfigurationSnapshot, DecisionFilter, EventReader,
    ExplainError, Listed, Page, ReadError, SchedulerHandle, Steps, TooBusy,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug as log;

mod applications;
mod brief;
mod debug;
mod decoding;
mod documents;
mod endpoints;
mod events;
mod failures;
mod lists;
mod page;
mod probes;
mod replies;
mod routes;
mod server;
mod sessions;
#[cfg(test)]
mod tests;
mod validation;

pub use probes::serve_probes;
pub use server::serve;

use events::Pump;
use failures::Failure;
use routes::{Endpoint, Route};

use crate::dump::{self, DumpError, Wanted};
use crate::identity::layer::Peer;
use crate::identity::{Identity, Right};
use crate::logbook::Logbook;
use crate::reads::{Door, Joined, qualified};
use crate::watchdog::{Health, Healthy, Readiness};

/// What this edge reads. Each answer is of one moment, but lists and long trees of queues: of these
/// each row is. A partition is named plainly, which means the first of that name, or with its RM as
/// `[rm]name`.
pub trait Reads: Clone + Send + Sync + 'static {
    /// The names of all partitions with their RMs, in the order of [`Self::partitions`].
    fn partition_names(&self) -> Vec<String>;
    /// One entry per partition, in the order of [`Self::partitions`].
    fn clusters(&self) -> impl Future<Output = Vec<ClusterSnapshot>> + Send;
    /// All partitions: `default` first, then by name, then by RM.
    fn partitions(&self) -> impl Future<Output = Vec<PartitionSnapshot>> + Send;
    /// What is in force for a resource manager.
    fn configuration(
        &self,
        rm_id: &str,
    ) -> impl Future<Output = Result<ConfigurationSnapshot, ConfigurationError>> + Send;
    /// What is wrong with a configuration text, or its checksum.
    fn check_configuration(
        &self,
        text: String,
    ) -> impl Future<Output = Result<Result<String, ConfigErrors>, TooBusy>> + Send;
    /// The rules of placement, in the order they are asked.
    fn placement_rules(
        &self,
        partition: &str,
    ) -> impl Future<Output = Result<Vec<ShownRule>, ReadError>> + Send;
    /// The number of the last step of a partition, after everything that it has got so far.
    fn steps(&self, partition: &str) -> impl Future<Output = Result<Steps, ReadError>> + Send;
    /// The tree of queues: all of them, or one with those above it and those below it.
    fn queues(
        &self,
        partition: &str,
        around: Option<&str>,
    ) -> impl Future<Output = Result<(Option<QueueSnapshot>, Steps), ReadError>> + Send;
    /// Nodes, by id.
    fn nodes(
        &self,
        partition: &str,
        page: Page,
    ) -> impl Future<Output = Result<Listed<NodeSnapshot>, ReadError>> + Send;
    /// The node of this id.
    fn node(
        &self,
        partition: &str,
        id: &str,
    ) -> impl Future<Output = Result<Option<NodeSnapshot>, ReadError>> + Send;
    /// The live application of this id.
    fn application(
        &self,
        partition: &str,
        id: &str,
    ) -> impl Future<Output = Result<Option<ApplicationSnapshot>, ReadError>> + Send;
    /// Applications of a partition: live ones by id, or those that are over, oldest first.
    fn applications(
        &self,
        partition: &str,
        list: ApplicationList,
        page: Page,
    ) -> impl Future<Output = Result<Listed<ApplicationSnapshot>, ReadError>> + Send;
    /// Why the asks of an application wait: some classes of them, behind the first so many.
    fn explain(
        &self,
        partition: &str,
        application: &str,
        offset: usize,
    ) -> impl Future<Output = Result<Vec<ExplanationSnapshot>, ExplainError>> + Send;
    /// Why one ask of an application waits.
    fn explain_ask(
        &self,
        partition: &str,
        application: &str,
        key: &str,
    ) -> impl Future<Output = Result<Vec<ExplanationSnapshot>, ExplainError>> + Send;
    /// The last decisions, newest first.
    fn decisions(
        &self,
        partition: &str,
        filter: DecisionFilter,
        page: Page,
    ) -> impl Future<Output = Result<Listed<DecisionSnapshot>, ReadError>> + Send;
    /// Users who are tracked, by name.
    fn users(
        &self,
        partition: &str,
        page: Page,
    ) -> impl Future<Output = Result<Listed<UserSnapshot>, ReadError>> + Send;
    /// One of them.
    fn user(
        &self,
        partition: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<UserSnapshot>, ReadError>> + Send;
    /// Groups that are tracked, by name.
    fn groups(
        &self,
        partition: &str,
        page: Page,
    ) -> impl Future<Output = Result<Listed<GroupSnapshot>, ReadError>> + Send;
    /// One of them.
    fn group(
        &self,
        partition: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<GroupSnapshot>, ReadError>> + Send;
    /// The nodes of each partition by how much of them is allocated, in the order of
    /// [`Self::partitions`].
    fn node_utilizations(&self) -> impl Future<Output = Vec<NodeUtilizationSnapshot>> + Send;
    /// What happened, and what happens.
    fn events(&self) -> EventReader;
    /// Everything, and what the service wrote down, as one JSON document.
    fn state_dump(
        &self,
        logbook: &Logbook,
    ) -> impl Future<Output = Result<Vec<u8>, DumpError>> + Send;
    /// Brings those metrics up to date that are read off the state of the cluster.
    fn refresh_metrics(&self) -> impl Future<Output = ()> + Send;
    /// The registry that metrics are gathered from.
    fn metrics(&self) -> prometheus::Registry;
}

impl Reads for SchedulerHandle {
    fn partition_names(&self) -> Vec<String> {
        self.partition_names()
    }

    async fn clusters(&self) -> Vec<ClusterSnapshot> {
        self.clusters()
    }

    async fn partitions(&self) -> Vec<PartitionSnapshot> {
        self.partitions().await
    }

    async fn configuration(
        &self,
        rm_id: &str,
    ) -> Result<ConfigurationSnapshot, ConfigurationError> {
        self.configuration(rm_id).await
    }

    async fn check_configuration(
        &self,
        text: String,
    ) -> Result<Result<String, ConfigErrors>, TooBusy> {
        self.check_configuration(text).await
    }

    async fn placement_rules(&self, partition: &str) -> Result<Vec<ShownRule>, ReadError> {
        self.placement_rules(partition).await
    }

    async fn steps(&self, partition: &str) -> Result<Steps, ReadError> {
        self.steps(partition).await
    }

    async fn queues(
        &self,
        partition: &str,
        around: Option<&str>,
    ) -> Result<(Option<QueueSnapshot>, Steps), ReadError> {
        self.queue_tree(partition, around).await
    }

    async fn nodes(&self, partition: &str, page: Page) -> Result<Listed<NodeSnapshot>, ReadError> {
        self.list_nodes(partition, &BTreeSet::new(), page).await
    }

    async fn node(&self, partition: &str, id: &str) -> Result<Option<NodeSnapshot>, ReadError> {
        self.node(partition, id).await
    }

    async fn application(
        &self,
        partition: &str,
        id: &str,
    ) -> Result<Option<ApplicationSnapshot>, ReadError> {
        self.application(partition, id).await
    }

    async fn applications(
        &self,
        partition: &str,
        list: ApplicationList,
        page: Page,
    ) -> Result<Listed<ApplicationSnapshot>, ReadError> {
        self.list_applications(partition, list, page).await
    }

    async fn explain(
        &self,
        partition: &str,
        application: &str,
        offset: usize,
    ) -> Result<Vec<ExplanationSnapshot>, ExplainError> {
        self.explain(partition, application, offset).await
    }

    async fn explain_ask(
        &self,
        partition: &str,
        application: &str,
        key: &str,
    ) -> Result<Vec<ExplanationSnapshot>, ExplainError> {
        self.explain_ask(partition, application, key).await
    }

    async fn decisions(
        &self,
        partition: &str,
        filter: DecisionFilter,
        page: Page,
    ) -> Result<Listed<DecisionSnapshot>, ReadError> {
        self.list_decisions(partition, filter, page).await
    }

    async fn users(&self, partition: &str, page: Page) -> Result<Listed<UserSnapshot>, ReadError> {
        self.list_users(partition, page).await
    }

    async fn user(&self, partition: &str, name: &str) -> Result<Option<UserSnapshot>, ReadError> {
        self.user(partition, name).await
    }

    async fn groups(
        &self,
        partition: &str,
        page: Page,
    ) -> Result<Listed<GroupSnapshot>, ReadError> {
        self.list_groups(partition, page).await
    }

    async fn group(&self, partition: &str, name: &str) -> Result<Option<GroupSnapshot>, ReadError> {
        self.group(partition, name).await
    }

    async fn node_utilizations(&self) -> Vec<NodeUtilizationSnapshot> {
        self.node_utilizations().await
    }

    fn events(&self) -> EventReader {
        self.events()
    }

    async fn state_dump(&self, logbook: &Logbook) -> Result<Vec<u8>, DumpError> {
        dump::make(self, logbook, &Wanted::all()).await
    }

    async fn refresh_metrics(&self) {
        self.refresh_metrics().await;
    }

    fn metrics(&self) -> prometheus::Registry {
        self.metrics()
    }
}

/// Room for documents where no settings say how much, in bytes.
const READS_BYTES: usize = 256 << 20;

/// All endpoints over `source`, for a caller who has a server of their own, or needs none. A
/// request may have a body of so many bytes.
pub fn router<S: Reads>(source: S, max_body_bytes: usize) -> Router {
    let healthy = Healthy::fixed(Health::Serving);
    let door = Door::new(READS_BYTES);
    let (logbook, never) = (Logbook::default(), CancellationToken::new());
    router_until(source, door, logbook, max_body_bytes, healthy, never, Guard::Open)
}

/// [`router`] that says on `/healthz` what is `healthy` and when `stopping` is cancelled, and lets in whom `guard` does.
fn router_until<S: Reads>(
    source: S,
    door: Door,
    logbook: Logbook,
    max_body_bytes: usize,
    healthy: Healthy,
    stopping: CancellationToken,
    guard: Guard,
) -> Router {
    let (joined, pump) = (Joined::new(door), Pump::default());
    let edge = RestEdge { source, logbook, max_body_bytes, healthy, stopping, guard, joined, pump };
    Router::new().fallback(answer::<S>).with_state(edge)
}

/// Who may ask.
#[derive(Clone, Copy, Debug)]
enum Guard {
    /// Everybody; it is up to whoever embeds the router.
    Open,
    /// Whom the rules of the settings allow, see [`crate::identity`].
    Rules {
        /// Whether metrics need no identity.
        open_metrics: bool,
    },
}

impl Guard {
    /// Who asks.
    fn caller(self, parts: &Parts) -> Identity {
        match self {
            Self::Open => Identity::anybody(),
            Self::Rules { .. } => Identity::of(&parts.extensions),
        }
    }

    /// What is needed for an endpoint. Browsers ask with OPTIONS before they show who they are.
    fn needs(self, parts: &Parts, endpoint: &Endpoint, right: Right) -> Right {
        let is_open = matches!(self, Self::Rules { open_metrics: true });
        match endpoint {
            _ if parts.method == Method::OPTIONS => Right::Nothing,
            Endpoint::Metrics if is_open => Right::Nothing,
            _ => right,
        }
    }
}

/// The partition that a caller means by a name: of those that are called so, the first that the
/// caller may read. Who may not read it is not told whether there is one.
fn readable(wanted: &str, names: &[String], caller: &Identity) -> Result<String, Failure> {
    if wanted.starts_with('[') {
        caller.check_read(rm_id(wanted))?;
        return Ok(wanted.to_owned());
    }
    if caller.check_read_all().is_ok() {
        // What one caller is shown, another may share: so it is settled here what the name means.
        return Ok(qualified(wanted, names).to_owned());
    }
    let mut names = names.iter().filter(|name| plain_name(name) == wanted);
    names.find(|name| caller.may_read(rm_id(name))).cloned().ok_or(Failure::PartitionNotFound)
}

/// What every request needs.
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
}

/// Has the endpoint mean a partition that the caller may read.
fn narrow<S: Reads>(source: &S, endpoint: &mut Endpoint, caller: &Identity) -> Result<(), Failure> {
    if let Some(partition) = endpoint.partition_mut() {
        *partition = readable(partition, &source.partition_names(), caller)?;
    }
    Ok(())
}

/// Refuses what only the replica that schedules can tell.
fn led_here<S>(edge: &RestEdge<S>, endpoint: &Endpoint) -> Result<(), Failure> {
    match edge.healthy.readiness() {
        Readiness::StandsBy(leader) if !endpoint.is_about_this_process() => {
            Err(Failure::StandsBy(leader))
        }
        _ => Ok(()),
    }
}

/// Whether it came by a connection beyond those that are served.
fn is_spare(parts: &Parts) -> bool {
    parts.extensions.get::<Peer>().is_some_and(|peer| peer.is_spare)
}

async fn answer<S: Reads>(State(edge): State<RestEdge<S>>, request: Request) -> Response {
    let began = Instant::now();
    let (parts, body) = request.into_parts();
    let response = match admitted(edge.guard, &parts).await {
        Ok((endpoint, caller)) => found(&edge, endpoint, &parts, &caller, body).await,
        Err(response) => response,
    };
    log_answer(&parts, &response, began);
    response
}

/// Which endpoint is asked for, and by whom; or the answer where that is not needed for it.
async fn admitted(guard: Guard, parts: &Parts) -> Result<(Endpoint, Identity), Response> {
    let route = routes::find(parts.uri.path());
    let caller = guard.caller(parts);
    match route {
        _ if is_spare(parts)
            && !matches!(route, Route::Here(Endpoint::Health | Endpoint::Ready, _)) =>
        {
            Err(replies::too_many())
        }
        Route::Unknown => Err(replies::unknown_path()),
        Route::Elsewhere(path) => Err(replies::redirect(&parts.method, &path, parts.uri.query())),
        Route::Here(endpoint, right) => {
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

/// What an endpoint answers.
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
