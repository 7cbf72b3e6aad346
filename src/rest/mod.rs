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
//! * Of each list one reading is under way at a time, and who comes meanwhile shares the next one
//!   with all others who do (`joined`).
//! * An error of a handler is an error object; only what no handler saw is plain text.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::Response;
use monoceros_actors::config;
use monoceros_actors::snapshot::{
    ApplicationSnapshot, ClusterSnapshot, ExplanationSnapshot, GroupSnapshot, NodeSnapshot,
    PartitionSnapshot, QueueSnapshot, ShownRule, UserSnapshot,
};
use monoceros_actors::{
    ApplicationList, ConfigurationError, ConfigurationSnapshot, ExplainError, Listed, Page,
    ReadError, SchedulerHandle, Steps,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug;

mod decoding;
mod documents;
mod endpoints;
mod joined;
mod lists;
mod replies;
mod routes;
mod server;
#[cfg(test)]
mod tests;
mod validation;

pub use server::serve;

use documents::Document;
use endpoints::Failure;
use joined::Joined;
use routes::{Answers, Endpoint, Route};

use crate::dump::{self, DumpError, Wanted};
use crate::identity::{Denied, Identity};
use crate::watchdog::{Health, Healthy};

/// What this edge reads. Each answer is of one moment, but lists and long trees of queues: of these
/// each row is. A partition is named plainly, which means the first of that name, or with its RM as
/// `[rm]name`.
pub trait Reads: Clone + Send + Sync + 'static {
    /// One entry per partition, in the order of [`Self::partitions`].
    fn clusters(&self) -> impl Future<Output = Vec<ClusterSnapshot>> + Send;
    /// All partitions: `default` first, then by name, then by RM.
    fn partitions(&self) -> impl Future<Output = Vec<PartitionSnapshot>> + Send;
    /// What is in force for a resource manager; none named, for that of the first partition.
    /// Without any there is nothing.
    fn configuration(
        &self,
        rm_id: Option<&str>,
    ) -> impl Future<Output = Result<Option<ConfigurationSnapshot>, ConfigurationError>> + Send;
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
    /// Everything, as one JSON document.
    fn state_dump(&self) -> impl Future<Output = Result<Vec<u8>, DumpError>> + Send;
    /// Brings those metrics up to date that are read off the state of the cluster.
    fn refresh_metrics(&self) -> impl Future<Output = ()> + Send;
    /// The registry that metrics are gathered from.
    fn metrics(&self) -> prometheus::Registry;
}

impl Reads for SchedulerHandle {
    async fn clusters(&self) -> Vec<ClusterSnapshot> {
        self.clusters()
    }

    async fn partitions(&self) -> Vec<PartitionSnapshot> {
        self.partitions().await
    }

    async fn configuration(
        &self,
        rm_id: Option<&str>,
    ) -> Result<Option<ConfigurationSnapshot>, ConfigurationError> {
        let first = self.partition_names().into_iter().next();
        let Some(rm_id) = rm_id.or(first.as_deref().map(config::rm_id)) else { return Ok(None) };
        self.configuration(rm_id).await.map(Some)
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

    async fn state_dump(&self) -> Result<Vec<u8>, DumpError> {
        dump::make(self, &Wanted::all()).await
    }

    async fn refresh_metrics(&self) {
        self.refresh_metrics().await;
    }

    fn metrics(&self) -> prometheus::Registry {
        self.metrics()
    }
}

/// All endpoints over `source`, for a caller who has a server of their own, or needs none. A
/// request may have a body of so many bytes.
pub fn router<S: Reads>(source: S, max_body_bytes: usize) -> Router {
    let healthy = Healthy::fixed(Health::Serving);
    router_until(source, max_body_bytes, healthy, CancellationToken::new(), Guard::Open)
}

/// [`router`] that says on `/healthz` what is `healthy` and when `stopping` is cancelled, and lets in whom `guard` does.
fn router_until<S: Reads>(
    source: S,
    max_body_bytes: usize,
    healthy: Healthy,
    stopping: CancellationToken,
    guard: Guard,
) -> Router {
    let joined = Joined::default();
    let edge = RestEdge { source, max_body_bytes, healthy, stopping, guard, joined };
    Router::new().fallback(answer::<S>).with_state(edge)
}

/// Who may ask.
#[derive(Clone, Copy, Debug)]
enum Guard {
    /// Everybody; it is up to whoever embeds the router.
    Open,
    /// Whom the rules of the settings allow, see [`crate::identity`].
    Rules { require_identity: bool },
}

impl Guard {
    /// Whether a request for `route` may be answered. A probe of health needs no identity, and
    /// browsers ask with OPTIONS before they show any. Whoever may read may have a configuration
    /// checked, which changes nothing.
    fn check(self, parts: &Parts, route: &Route) -> Result<(), Denied> {
        let Self::Rules { require_identity } = self else { return Ok(()) };
        let caller = Identity::of(&parts.extensions);
        let is_check =
            *route == Route::Here(Endpoint::ValidateConf) && Answers::Post.is(&parts.method);
        match parts.method {
            Method::OPTIONS => Ok(()),
            Method::GET if *route == Route::Here(Endpoint::Health) => Ok(()),
            _ if parts.method != Method::GET && !is_check => caller.check_admin(),
            _ if require_identity => caller.check_known(),
            _ => Ok(()),
        }
    }
}

/// What every request needs.
#[derive(Clone)]
struct RestEdge<S> {
    source: S,
    max_body_bytes: usize,
    healthy: Healthy,
    stopping: CancellationToken,
    guard: Guard,
    joined: Joined<Result<Arc<Document>, Failure>>,
}

async fn answer<S: Reads>(State(edge): State<RestEdge<S>>, request: Request) -> Response {
    let began = Instant::now();
    let (parts, body) = request.into_parts();
    let route = routes::find(parts.uri.path());
    let allowed = edge.guard.check(&parts, &route);
    let answers =
        if let Route::Here(endpoint) = &route { endpoint.answers() } else { Answers::Get };
    let response = match route {
        _ if let Err(denied) = allowed => replies::denied(denied, answers, &parts.headers).await,
        Route::Unknown => replies::unknown_path(),
        Route::Elsewhere(path) => replies::redirect(&parts.method, &path, parts.uri.query()),
        Route::Here(_) if parts.method == Method::OPTIONS => replies::options(answers),
        Route::Here(_) if !answers.is(&parts.method) => replies::method_not_allowed(answers),
        Route::Here(endpoint) => {
            let reply = endpoints::reply(&edge, endpoint, &parts, body).await;
            replies::respond(reply, answers, &parts.headers).await
        }
    };
    debug!(
        target: "core.rest",
        method = %parts.method,
        uri = %parts.uri,
        status = response.status().as_u16(),
        duration = ?began.elapsed(),
        "answered"
    );
    response
}
