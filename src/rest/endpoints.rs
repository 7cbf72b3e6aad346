//! Endpoints: their checks, reads and answers.
//!
//! The order of the checks is part of the interface: if several fail, clients see the first, and
//! scripts compare its text.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::StatusCode;
use axum::http::header::ACCEPT;
use axum::http::request::Parts;
use futures::StreamExt as _;
use monoceros_actors::names::{is_group, is_queue_path, is_user};
use monoceros_actors::partition_name::rm_id;
use monoceros_actors::snapshot::ClusterSnapshot;
use monoceros_actors::{ConfigurationSnapshot, DecisionFilter, DecisionKind, names};
use prometheus::proto::{MetricFamily, MetricType};
use prometheus::{Registry, TextEncoder};
use serde::Serialize;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::decoding::decoded_again;
use super::failures::Failure;
use super::lists::{self, Subject};
use super::replies::{Class, EndpointReply};
use super::routes::Endpoint;
use super::{
    Reads, RestEdge, applications, cluster, debug, events, history, page, run_times, searches,
    sessions, snapshots, validation, whatif,
};
use crate::identity::Identity;
use crate::in_force::InForce;
use crate::reads::{Document, Draft, Kind, Made};
use crate::watchdog::{Health, Healthy, Readiness};

/// Answers a request. The partition is one that the caller may read.
pub(super) async fn reply<S: Reads>(
    edge: &RestEdge<S>,
    endpoint: Endpoint,
    request: &Parts,
    caller: &Identity,
    body: Body,
) -> Result<EndpointReply, Failure> {
    let source = &edge.source;
    let query = request.uri.query();
    match endpoint {
        Endpoint::Page | Endpoint::View => Ok(page::index()),
        Endpoint::Asset { name } => page::asset(&name),
        Endpoint::Health => Ok(health(&edge.healthy, &edge.stopping)),
        Endpoint::Ready => Ok(ready(&edge.healthy, &edge.stopping)),
        Endpoint::Metrics => {
            let source = source.clone();
            let stands_by = matches!(edge.healthy.readiness(), Readiness::StandsBy(_));
            let read = move |_| metrics(source, stands_by);
            let page = edge.joined.read(Kind::Metrics, "", "", read).await?;
            Ok(EndpointReply::shared(Class::Metrics, page))
        }
        Endpoint::Config => configuration(edge, request, caller).await,
        Endpoint::ValidateConf => {
            let body = whole(body, edge.max_body_bytes).await?;
            json(validation::outcome(source, body).await).await
        }
        Endpoint::WhatIf => whatif::answer(edge, body).await,
        Endpoint::Clusters => all_clusters(edge, caller).await,
        Endpoint::Partitions => all_partitions(edge, caller).await,
        Endpoint::PlacementRules { partition } => {
            let (source, of) = (source.clone(), partition.clone());
            let read = || async move { Ok(source.placement_rules(&of).await?) };
            lists::plain(edge, &Subject::all(Kind::PlacementRules, &partition), read).await
        }
        Endpoint::Queues { partition } => queues(edge, request, partition).await,
        Endpoint::Queue { partition, queue: path } => queue(edge, request, partition, path).await,
        Endpoint::Applications { partition, queue } => {
            applications::of_queue(edge, request, partition, &queue).await
        }
        Endpoint::ApplicationsOfQueueIn { partition, queue, state } => {
            applications::of_queue_in(edge, request, partition, queue, state).await
        }
        Endpoint::ApplicationOfQueue { partition, queue, application } => {
            applications::one_of_queue(edge, request, partition, queue, application).await
        }
        Endpoint::ApplicationsIn { partition, state } => {
            applications::in_list(edge, request, partition, &state).await
        }
        Endpoint::Application { partition, application: id } => {
            applications::one(edge, request, partition, id).await
        }
        Endpoint::Explain { partition, application } => {
            applications::explanation(edge, query, partition, application).await
        }
        Endpoint::Nodes { partition } => searches::nodes(edge, request, partition).await,
        Endpoint::Node { partition, node: id } => node(edge, request, partition, id).await,
        Endpoint::Decisions { partition } => decisions(edge, request, partition).await,
        Endpoint::RunTimes { partition } => run_times::list(edge, query, partition).await,
        Endpoint::Users { partition } => searches::users(edge, request, partition).await,
        Endpoint::User { partition, user: name } => user(edge, partition, name).await,
        Endpoint::Groups { partition } => searches::groups(edge, request, partition).await,
        Endpoint::Group { partition, group: name } => group(edge, partition, name).await,
        Endpoint::History { partition, kind, name } => {
            history::of_subject(edge, query, partition, kind, name).await
        }
        Endpoint::AppHistory => json(edge.logbook.minutes.applications()).await,
        Endpoint::ContainerHistory => json(edge.logbook.minutes.containers()).await,
        Endpoint::HealthCheck => {
            json(edge.logbook.health.outcome().ok_or(Failure::NotChecked)?).await
        }
        Endpoint::NodeUtilizations => node_utilizations(edge, caller).await,
        Endpoint::Sessions => sessions::list(edge).await,
        Endpoint::Cluster => cluster::document(edge).await,
        Endpoint::Stack => debug::stack().await,
        Endpoint::Profiles => Ok(debug::index()),
        Endpoint::Profile { name } => Ok(debug::profile(&name)),
        Endpoint::EventBatch | Endpoint::EventStream => events::batch(edge, query).await,
        Endpoint::Snapshot => snapshots::file(edge, query).await,
        Endpoint::StateDump => {
            let (source, logbook) = (source.clone(), edge.logbook.clone());
            let dump = |_| async move { Ok(Draft::of(source.state_dump(&logbook).await?).into()) };
            let dump = edge.joined.read(Kind::StateDump, "", "", dump).await?;
            Ok(EndpointReply::shared(Class::Json, dump))
        }
    }
}

/// Answers with the partitions that the caller may read, as clusters.
async fn all_clusters<S: Reads>(
    edge: &RestEdge<S>,
    caller: &Identity,
) -> Result<EndpointReply, Failure> {
    let (source, readable) = (edge.source.clone(), Readable::of(&edge.source, caller));
    let subject = Subject::which(Kind::Partitions, "", &["clusters", &readable.text()]);
    let read = || async move { Ok(clusters(&source, &readable).await) };
    lists::plain(edge, &subject, read).await
}

/// Answers with the partitions that the caller may read.
async fn all_partitions<S: Reads>(
    edge: &RestEdge<S>,
    caller: &Identity,
) -> Result<EndpointReply, Failure> {
    let (source, readable) = (edge.source.clone(), Readable::of(&edge.source, caller));
    let subject = Subject::which(Kind::Partitions, "", &["partitions", &readable.text()]);
    let read = || async move {
        let mut partitions = source.partitions().await;
        partitions.retain(|partition| readable.has(&partition.cluster_id));
        Ok(partitions)
    };
    lists::plain(edge, &subject, read).await
}

/// Answers with the utilization of nodes in the partitions that the caller may read.
async fn node_utilizations<S: Reads>(
    edge: &RestEdge<S>,
    caller: &Identity,
) -> Result<EndpointReply, Failure> {
    let (source, readable) = (edge.source.clone(), Readable::of(&edge.source, caller));
    let subject = Subject::which(Kind::NodeUtilizations, "", &[&readable.text()]);
    let read = || async move {
        let mut partitions = source.node_utilizations().await;
        partitions.retain(|partition| readable.has(&partition.cluster_id));
        Ok(partitions)
    };
    lists::plain(edge, &subject, read).await
}

/// Answers with the whole tree of queues.
async fn queues<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: String,
) -> Result<EndpointReply, Failure> {
    let source = &edge.source;
    let (source, of) = (source.clone(), partition.clone());
    let read = || async move {
        let (tree, steps) = source.queues(&of, None).await?;
        Ok((tree.ok_or(Failure::PartitionNotFound)?, steps))
    };
    lists::document(edge, request, &Subject::all(Kind::Queues, &partition), read).await
}

/// Answers with one queue, optionally with its subtree.
async fn queue<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: String,
    queue: String,
) -> Result<EndpointReply, Failure> {
    let source = &edge.source;
    let (source, of) = (source.clone(), partition.clone());
    let with_subtree = is_present(request.uri.query(), "subtree");
    let below = if with_subtree { "subtree" } else { "" };
    let subject = Subject::which(Kind::Queues, &partition, &[below, &queue]);
    let read = move || async move {
        // If the path is malformed too, the partition is reported first.
        source.steps(&of).await?;
        let path = queue_path(&queue)?;
        let (tree, steps) = source.queues(&of, Some(&path)).await?;
        let found = tree.and_then(|tree| tree.descendant(&path));
        let mut found = found.ok_or(Failure::QueueNotFound)?;
        found.partition.clear();
        if !with_subtree {
            found.children.clear();
        }
        Ok((found, steps))
    };
    lists::document(edge, request, &subject, read).await
}

async fn node<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: String,
    node: String,
) -> Result<EndpointReply, Failure> {
    let source = &edge.source;
    let (source, of) = (source.clone(), partition.clone());
    let subject = Subject::which(Kind::Node, &partition, &[&node]);
    let read = || async move {
        let steps = source.steps(&of).await?;
        let found = source.node(&of, &node).await?;
        Ok((found.ok_or(Failure::NodeNotFound)?, steps))
    };
    lists::document(edge, request, &subject, read).await
}

/// Answers with recent decisions that match the query, newest first.
async fn decisions<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: String,
) -> Result<EndpointReply, Failure> {
    let query = request.uri.query();
    let kind = value(query, "kind").map(|name| {
        DecisionKind::named(&name).ok_or(Failure::DecisionKind { named: names::shown(&name) })
    });
    let queue = value(query, "queue").map(path_of);
    let (application, key, node) =
        (value(query, "application"), value(query, "key"), value(query, "node"));
    let which = format!("{kind:?} {queue:?} {application:?} {key:?} {node:?}");
    let subject = Subject::which(Kind::Decisions, &partition, &[&which]);
    let (source, of) = (edge.source.clone(), partition);
    let read = move |page| async move {
        // If the query is malformed too, the partition is reported first.
        source.steps(&of).await?;
        let (kind, queue) = (kind.transpose()?, queue.transpose()?);
        let filter = DecisionFilter { kind, application, key, queue, node };
        Ok(source.decisions(&of, filter, page).await?)
    };
    lists::list(edge, request, &subject, read).await
}

/// Answers with the usage of a user.
async fn user<S: Reads>(
    edge: &RestEdge<S>,
    partition: String,
    user: String,
) -> Result<EndpointReply, Failure> {
    let name = name(&user, is_user, Failure::UserName);
    let asked = name.clone().unwrap_or_default();
    let subject = Subject::which(Kind::User, &partition, &[&user]);
    let source = edge.source.clone();
    let read = move || async move {
        // If the name is malformed too, the partition is reported first.
        let found = source.user(&partition, &asked).await?;
        name?;
        found.ok_or(Failure::UserNotFound)
    };
    lists::plain(edge, &subject, read).await
}

/// Answers with the usage of a group.
async fn group<S: Reads>(
    edge: &RestEdge<S>,
    partition: String,
    group: String,
) -> Result<EndpointReply, Failure> {
    let name = name(&group, is_group, Failure::GroupName);
    let asked = name.clone().unwrap_or_default();
    let subject = Subject::which(Kind::Group, &partition, &[&group]);
    let source = edge.source.clone();
    let read = move || async move {
        // If the name is malformed too, the partition is reported first.
        let found = source.group(&partition, &asked).await?;
        name?;
        found.ok_or(Failure::GroupNotFound)
    };
    lists::plain(edge, &subject, read).await
}

/// Answers a liveness probe without waiting for the scheduler.
pub(super) fn health(healthy: &Healthy, stopping: &CancellationToken) -> EndpointReply {
    let why = match healthy.now() {
        _ if stopping.is_cancelled() => "stopping\n",
        Health::Serving => return EndpointReply::ok(Class::Text, "serving\n"),
        Health::Stuck => "not serving: the scheduler does not answer\n",
        Health::Gone => "not serving: the scheduler is lost\n",
    };
    EndpointReply::new(StatusCode::SERVICE_UNAVAILABLE, Class::Text, why)
}

/// Answers a readiness probe: as [`health`], and whether this process has work. A standby replica
/// is ready to take over.
pub(super) fn ready(healthy: &Healthy, stopping: &CancellationToken) -> EndpointReply {
    let is_healthy = healthy.now() == Health::Serving && !stopping.is_cancelled();
    match healthy.readiness() {
        Readiness::NotYet(why) if is_healthy => {
            let why = format!("not ready: {why}\n");
            EndpointReply::new(StatusCode::SERVICE_UNAVAILABLE, Class::Text, why)
        }
        Readiness::StandsBy(_) if is_healthy => EndpointReply::ok(Class::Text, "standing by\n"),
        _ => health(healthy, stopping),
    }
}

async fn metrics<S: Reads>(source: S, stands_by: bool) -> Result<Made, Failure> {
    source.refresh_metrics().await;
    Ok(Draft::of(metrics_page(source.metrics(), stands_by).await?).into())
}

/// Formats the metrics of a registry for Prometheus. Those of a standby replica lack the gauges of
/// the cluster that it mirrors: dashboards sum them over the replicas.
pub(super) async fn metrics_page(registry: Registry, stands_by: bool) -> Result<Vec<u8>, Failure> {
    let is_mirrored = |family: &MetricFamily| {
        family.get_field_type() == MetricType::GAUGE && family.name().starts_with("yunikorn_")
    };
    let shown = move || {
        let mut families = registry.gather();
        families.retain(|family| !(stands_by && is_mirrored(family)));
        TextEncoder::new().encode_to_string(&families)
    };
    let page = spawn_blocking(shown)
        .await
        .map_err(|panic| Failure::Document(panic.to_string()))?
        .map_err(|error| Failure::Document(error.to_string()))?;
    Ok(page.into_bytes())
}

/// The resource managers that a caller may read.
struct Readable(BTreeSet<String>);

impl Readable {
    fn of<S: Reads>(source: &S, caller: &Identity) -> Self {
        let rms = source.partition_names().into_iter().map(|name| rm_id(&name).to_owned());
        Self(rms.filter(|rm| caller.may_read(rm)).collect())
    }

    fn has(&self, rm: &str) -> bool {
        self.0.contains(rm)
    }

    /// Returns a text that is equal for callers with equal rights.
    fn text(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Returns the entries of partitions that the caller may read, with only their resource managers.
async fn clusters<S: Reads>(source: &S, readable: &Readable) -> Vec<ClusterSnapshot> {
    let names = source.partition_names();
    let clusters = source.clusters().await.into_iter().zip(names);
    let mut clusters: Vec<ClusterSnapshot> = clusters
        .filter(|(_, name)| readable.has(rm_id(name)))
        .map(|(cluster, _)| cluster)
        .collect();
    for cluster in &mut clusters {
        let builds = &mut cluster.rm_build_information;
        builds.retain(|build| build.get("rmId").is_some_and(|rm| readable.has(rm)));
    }
    clusters
}

/// Answers with the configuration in force: of the named resource manager, or of the first that the
/// caller may read. In JSON for clients that accept only JSON, otherwise in YAML.
async fn configuration<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    caller: &Identity,
) -> Result<EndpointReply, Failure> {
    let source = edge.source.clone();
    let named = value(request.uri.query(), "rm");
    if let Some(rm) = &named {
        caller.check_read(rm)?;
    }
    let mut rms = source.partition_names().into_iter().map(|name| rm_id(&name).to_owned());
    let rm = named.or_else(|| rms.find(|rm| caller.may_read(rm)));
    let mut accepted = request.headers.get_all(ACCEPT).iter();
    let wants_json =
        accepted.next().is_some_and(|kind| kind == "application/json") && accepted.next().is_none();
    let class = if wants_json { Class::Json } else { Class::Yaml };
    let of = rm.clone().unwrap_or_default();
    let read = move |in_hand: Option<Arc<Document>>| async move {
        let present = match rm {
            Some(rm) => Some(source.configuration(&rm).await?),
            None => None,
        };
        let version = present.as_ref().map(version);
        if let Some(same) = in_hand.filter(|it| it.version.is_some() && it.version == version) {
            return Ok(Made::InHand(same));
        }
        let text = spawn_blocking(move || {
            let in_force = InForce::of(present);
            if wants_json {
                serde_json::to_vec(&in_force).map_err(|error| error.to_string())
            } else {
                in_force.to_yaml().map(String::into_bytes)
            }
        });
        let text = text.await.unwrap_or_else(|panic| Err(panic.to_string()));
        Ok(Draft { version, ..Draft::of(text.map_err(Failure::Document)?) }.into())
    };
    let wanted = format!("{class:?}");
    let document = edge.joined.read(Kind::Configuration, &of, wanted, read).await?;
    Ok(EndpointReply::shared(class, document))
}

/// Returns a text that is equal for configurations with equal documents.
fn version(present: &ConfigurationSnapshot) -> String {
    let ConfigurationSnapshot { policy_group, extra_config, checksum, .. } = present;
    format!("{checksum} {policy_group:?} {extra_config:?}")
}

/// Reads the whole body, up to `max_bytes`.
pub(super) async fn whole(body: Body, max_bytes: usize) -> Result<Vec<u8>, Failure> {
    // The length that the request declares.
    if usize::try_from(body.size_hint().lower()).map_or(true, |length| length > max_bytes) {
        return Err(Failure::BodyTooLarge(max_bytes));
    }
    let mut whole = Vec::new();
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece: Bytes = piece.map_err(|error| Failure::BodyBroken(error.to_string()))?;
        if whole.len().saturating_add(piece.len()) > max_bytes {
            return Err(Failure::BodyTooLarge(max_bytes));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole)
}

pub(super) async fn json<T: Serialize + Send + 'static>(
    value: T,
) -> Result<EndpointReply, Failure> {
    let document = Draft::json(value).await.map_err(Failure::Document)?;
    Ok(EndpointReply::ok(Class::Json, document.bytes))
}

/// Parses a parameter as a queue path, in lower case.
pub(super) fn queue_path(parameter: &str) -> Result<String, Failure> {
    path_of(decoded_again(parameter)?)
}

/// Checks a queue path, and puts it in lower case.
pub(super) fn path_of(path: String) -> Result<String, Failure> {
    if !is_queue_path(&path) {
        return Err(Failure::QueueName(path));
    }
    Ok(path.to_lowercase())
}

/// Parses a parameter as the name of a user or group.
pub(super) fn name(
    parameter: &str,
    can_be: fn(&str) -> bool,
    cannot: Failure,
) -> Result<String, Failure> {
    let name = decoded_again(parameter)?;
    if can_be(&name) { Ok(name) } else { Err(cannot) }
}

/// Returns the first value of a query parameter, unless it is empty.
pub(super) fn value(query: Option<&str>, name: &str) -> Option<String> {
    parameter(query, name).filter(|value| !value.is_empty())
}

pub(super) fn is_present(query: Option<&str>, name: &str) -> bool {
    parameter(query, name).is_some()
}

/// Returns the first value of a query parameter, which may be empty. `None` if it is absent.
pub(super) fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let mut parameters = form_urlencoded::parse(query.unwrap_or("").as_bytes());
    parameters.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}
