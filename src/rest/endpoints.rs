//! What each endpoint checks, reads and answers.
//!
//! The order of the checks is part of the interface: where several fail, clients see the first, and
//! scripts look for that one.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::StatusCode;
use axum::http::header::ACCEPT;
use axum::http::request::Parts;
use futures::StreamExt as _;
use monoceros_actors::names::{self, is_group, is_queue_path, is_user};
use monoceros_actors::partition_name::rm_id;
use monoceros_actors::snapshot::ClusterSnapshot;
use monoceros_actors::{
    ApplicationFilter, ApplicationList, ApplicationState, ConfigurationError,
    ConfigurationSnapshot, ExplainError, ReadError,
};
use prometheus::TextEncoder;
use serde::Serialize;
use tokio::task::spawn_blocking;

use super::decoding::{BadEscape, decoded_again};
use super::lists::{self, Subject};
use super::replies::{Class, EndpointReply};
use super::routes::Endpoint;
use super::{Reads, RestEdge, debug, events, validation};
use crate::dump::DumpError;
use crate::identity::{Denied, Identity};
use crate::in_force::InForce;
use crate::reads::{Busy, Document, Draft, Kind, Made};
use crate::watchdog::Health;

/// The states of live applications, as the parameter `status` names them.
const ACTIVE_STATUSES: [(&str, ApplicationState); 6] = [
    ("new", ApplicationState::New),
    ("accepted", ApplicationState::Accepted),
    ("running", ApplicationState::Running),
    ("completing", ApplicationState::Completing),
    ("failing", ApplicationState::Failing),
    ("resuming", ApplicationState::Resuming),
];

const PAGE: &str = include_str!("../../web/index.html");

/// Why a handler has no document. The texts are those that scripts compare.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("Partition not found")]
    PartitionNotFound,
    #[error("Queue not found")]
    QueueNotFound,
    #[error("Node not found")]
    NodeNotFound,
    #[error("Application not found")]
    ApplicationNotFound,
    #[error(transparent)]
    NotExplained(ExplainError),
    #[error("offset `{0}` is no number")]
    Offset(String),
    #[error("limit `{0}` is no number of rows (1 or more)")]
    Limit(String),
    #[error("after `{0}` is no place in this list: follow the `Link` of a page")]
    After(String),
    #[error("Only following application states are allowed: active, rejected, completed")]
    ApplicationState,
    #[error("Only following application states are allowed: active")]
    QueueApplicationState,
    #[error("Only following active statuses are allowed: {}", ACTIVE_STATUSES.map(|(name, _)| name).join(","))]
    ActiveStatus,
    #[error("Health check is not available")]
    NotLookedOver,
    #[error("Event tracking is disabled")]
    EventsDisabled,
    #[error("0 is not a valid value for \"count\"")]
    NoEvents,
    #[error("{name} `{text}` is no number from 0 to {}", u64::MAX)]
    EventNumber { name: &'static str, text: String },
    #[error("Too many streaming connections")]
    TooManyStreams,
    #[error("User not found")]
    UserNotFound,
    #[error("Group not found")]
    GroupNotFound,
    #[error("Invalid user name")]
    UserName,
    #[error("Invalid group name")]
    GroupName,
    #[error("resource manager `{0}` is not registered")]
    RmNotFound(String),
    #[error(transparent)]
    BadEscape(#[from] BadEscape),
    #[error(
        "queue path `{0}` is not valid: a queue name has at most 64 characters, which are \
         alphanumerics and -, _, #, @, /, :"
    )]
    QueueName(String),
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("the body has more than {0} bytes (`rest.max_body_bytes`)")]
    BodyTooLarge(usize),
    #[error("the body did not come to its end: {0}")]
    BodyBroken(String),
    #[error(transparent)]
    Busy(#[from] Busy),
    #[error("the scheduler is stopped")]
    Stopped,
    #[error("{0}")]
    Document(String),
}

impl Failure {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::PartitionNotFound
            | Self::QueueNotFound
            | Self::NodeNotFound
            | Self::ApplicationNotFound
            | Self::NotExplained(_)
            | Self::UserNotFound
            | Self::GroupNotFound
            | Self::NotLookedOver
            | Self::RmNotFound(_) => StatusCode::NOT_FOUND,
            Self::BadEscape(_)
            | Self::QueueName(_)
            | Self::ApplicationState
            | Self::QueueApplicationState
            | Self::NoEvents
            | Self::EventNumber { .. }
            | Self::Offset(_)
            | Self::Limit(_)
            | Self::After(_)
            | Self::ActiveStatus
            | Self::UserName
            | Self::GroupName
            | Self::BodyBroken(_) => StatusCode::BAD_REQUEST,
            Self::BodyTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Denied(Denied::Unknown) => StatusCode::UNAUTHORIZED,
            Self::Denied(_) => StatusCode::FORBIDDEN,
            Self::Busy(_) | Self::Stopped | Self::TooManyStreams => StatusCode::SERVICE_UNAVAILABLE,
            Self::Document(_) | Self::EventsDisabled => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::PartitionNotFound(_) => Self::PartitionNotFound,
            ReadError::QueueNotFound(_) => Self::QueueNotFound,
            ReadError::NotAPlace(text) => Self::After(names::shown(&text)),
            ReadError::Stopped => Self::Stopped,
        }
    }
}

impl From<ExplainError> for Failure {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Unread(error) => error.into(),
            error => Self::NotExplained(error),
        }
    }
}

impl From<ConfigurationError> for Failure {
    fn from(error: ConfigurationError) -> Self {
        match error {
            ConfigurationError::NotRegistered(rm) => Self::RmNotFound(rm),
            ConfigurationError::Stopped => Self::Stopped,
            error => Self::Document(error.to_string()),
        }
    }
}

impl From<DumpError> for Failure {
    fn from(error: DumpError) -> Self {
        match error {
            DumpError::Stopped => Self::Stopped,
            DumpError::Document(_) => Self::Document(error.to_string()),
        }
    }
}

/// Answers a request with the method of the endpoint, of a partition that the caller may read.
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
        Endpoint::Page => Ok(EndpointReply::ok(Class::Page, PAGE)),
        Endpoint::Health => Ok(health(edge)),
        Endpoint::Metrics => {
            let source = source.clone();
            let read = |_| metrics(source);
            let page = edge.joined.read(Kind::Metrics, "", "", read).await?;
            Ok(EndpointReply::shared(Class::Metrics, page))
        }
        Endpoint::Config => configuration(edge, request, caller).await,
        Endpoint::ValidateConf => {
            let body = whole(body, edge.max_body_bytes).await?;
            json(validation::outcome(source, body).await).await
        }
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
            let (source, of) = (source.clone(), partition.clone());
            let path = queue_path(&queue)?;
            let subject = Subject::which(Kind::Applications, &partition, &["queue", &path]);
            let read = move |page| async move {
                let list = ApplicationList::Live(ApplicationFilter::in_queue(&path));
                Ok(source.applications(&of, list, page).await?)
            };
            lists::list(edge, request, &subject, read).await
        }
        Endpoint::ApplicationsOfQueueIn { partition, queue, state } => {
            applications_of_queue_in(edge, request, partition, queue, state).await
        }
        Endpoint::ApplicationOfQueue { partition, queue, application } => {
            application_of_queue(edge, request, partition, queue, application).await
        }
        Endpoint::ApplicationsIn { partition, state } => {
            applications_in(edge, request, partition, &state).await
        }
        Endpoint::Application { partition, application: id } => {
            application(edge, request, partition, id).await
        }
        Endpoint::Explain { partition, application } => {
            explanation(edge, query, partition, application).await
        }
        Endpoint::Nodes { partition } => {
            let (source, of) = (source.clone(), partition.clone());
            let read = move |page| async move { Ok(source.nodes(&of, page).await?) };
            lists::list(edge, request, &Subject::all(Kind::Nodes, &partition), read).await
        }
        Endpoint::Node { partition, node: id } => node(edge, request, partition, id).await,
        Endpoint::Users { partition } => {
            let (source, of) = (source.clone(), partition.clone());
            let read = move |page| async move { Ok(source.users(&of, page).await?) };
            lists::list(edge, request, &Subject::all(Kind::Users, &partition), read).await
        }
        Endpoint::User { partition, user } => {
            let name = name(&user, is_user, Failure::UserName);
            let asked = name.clone().unwrap_or_default();
            let subject = Subject::which(Kind::User, &partition, &[&user]);
            let source = source.clone();
            let read = move || async move {
                // Of two faults the partition comes first.
                let found = source.user(&partition, &asked).await?;
                name?;
                found.ok_or(Failure::UserNotFound)
            };
            lists::plain(edge, &subject, read).await
        }
        Endpoint::Groups { partition } => {
            let (source, of) = (source.clone(), partition.clone());
            let read = move |page| async move { Ok(source.groups(&of, page).await?) };
            lists::list(edge, request, &Subject::all(Kind::Groups, &partition), read).await
        }
        Endpoint::Group { partition, group } => {
            let name = name(&group, is_group, Failure::GroupName);
            let asked = name.clone().unwrap_or_default();
            let subject = Subject::which(Kind::Group, &partition, &[&group]);
            let source = source.clone();
            let read = move || async move {
                // Of two faults the partition comes first.
                let found = source.group(&partition, &asked).await?;
                name?;
                found.ok_or(Failure::GroupNotFound)
            };
            lists::plain(edge, &subject, read).await
        }
        Endpoint::AppHistory => json(edge.logbook.minutes.applications()).await,
        Endpoint::ContainerHistory => json(edge.logbook.minutes.containers()).await,
        Endpoint::HealthCheck => {
            json(edge.logbook.lookout.outcome().ok_or(Failure::NotLookedOver)?).await
        }
        Endpoint::NodeUtilizations => node_utilizations(edge, caller).await,
        Endpoint::Stack => debug::stack().await,
        Endpoint::Profiles => Ok(debug::index()),
        Endpoint::Profile { name } => Ok(debug::profile(&name)),
        Endpoint::EventBatch | Endpoint::EventStream => events::batch(edge, query).await,
        Endpoint::StateDump => {
            let (source, logbook) = (source.clone(), edge.logbook.clone());
            let dump = |_| async move { Ok(Draft::of(source.state_dump(&logbook).await?).into()) };
            let dump = edge.joined.read(Kind::StateDump, "", "", dump).await?;
            Ok(EndpointReply::shared(Class::Json, dump))
        }
    }
}

/// The partitions that the caller may read, as clusters.
async fn all_clusters<S: Reads>(
    edge: &RestEdge<S>,
    caller: &Identity,
) -> Result<EndpointReply, Failure> {
    let (source, readable) = (edge.source.clone(), Readable::of(&edge.source, caller));
    let subject = Subject::which(Kind::Partitions, "", &["clusters", &readable.text()]);
    let read = || async move { Ok(clusters(&source, &readable).await) };
    lists::plain(edge, &subject, read).await
}

/// The partitions that the caller may read.
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

/// How the nodes of the partitions are used that the caller may read.
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

/// The whole tree of queues.
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

/// One queue, and those below it where that is wanted.
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
        // Of two faults the partition comes first.
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

/// One of the lists of applications.
async fn applications_in<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: String,
    state: &str,
) -> Result<EndpointReply, Failure> {
    let source = &edge.source;
    let (source, of) = (source.clone(), partition.clone());
    let list = applications_wanted(state, request.uri.query());
    let subject = Subject::which(Kind::Applications, &partition, &[&format!("{list:?}")]);
    let read = move |page| async move {
        // Of two faults the partition comes first.
        source.steps(&of).await?;
        Ok(source.applications(&of, list?, page).await?)
    };
    lists::list(edge, request, &subject, read).await
}

/// The live applications of a queue, perhaps narrowed to a state.
async fn applications_of_queue_in<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: String,
    queue: String,
    state: String,
) -> Result<EndpointReply, Failure> {
    let (source, of) = (edge.source.clone(), partition.clone());
    let list = active_of_queue(&state, request.uri.query());
    let wanted = format!("{list:?}");
    let subject = Subject::which(Kind::Applications, &partition, &["queue", &queue, &wanted]);
    let read = move |page| async move {
        // Of several faults the partition comes first, then the queue.
        source.steps(&of).await?;
        let path = queue_path(&queue)?;
        if list.is_err() {
            let (tree, _) = source.queues(&of, Some(&path)).await?;
            tree.and_then(|tree| tree.descendant(&path)).ok_or(Failure::QueueNotFound)?;
        }
        let filter = ApplicationFilter { queue: Some(path), ..list? };
        Ok(source.applications(&of, ApplicationList::Live(filter), page).await?)
    };
    lists::list(edge, request, &subject, read).await
}

/// A live application of a queue.
async fn application_of_queue<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: String,
    queue: String,
    application: String,
) -> Result<EndpointReply, Failure> {
    // What cannot be decoded is found before the partition is looked for.
    let decoded = decoded_again(&queue)?;
    let (source, of) = (edge.source.clone(), partition.clone());
    let subject = Subject::which(Kind::Application, &partition, &[&decoded, &application]);
    let read = move || async move {
        let steps = source.steps(&of).await?;
        let path = path_of(decoded)?;
        let (tree, _) = source.queues(&of, Some(&path)).await?;
        tree.and_then(|tree| tree.descendant(&path)).ok_or(Failure::QueueNotFound)?;
        let found = source.application(&of, &application).await?;
        let found = found.filter(|found| found.queue_name == path);
        Ok((found.ok_or(Failure::ApplicationNotFound)?, steps))
    };
    lists::document(edge, request, &subject, read).await
}

/// A live application.
async fn application<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: String,
    application: String,
) -> Result<EndpointReply, Failure> {
    let source = &edge.source;
    let (source, of) = (source.clone(), partition.clone());
    let subject = Subject::which(Kind::Application, &partition, &[&application]);
    let read = || async move {
        let steps = source.steps(&of).await?;
        let found = source.application(&of, &application).await?;
        Ok((found.ok_or(Failure::ApplicationNotFound)?, steps))
    };
    lists::document(edge, request, &subject, read).await
}

/// A node.
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

/// Why asks of an application wait.
async fn explanation<S: Reads>(
    edge: &RestEdge<S>,
    query: Option<&str>,
    partition: String,
    application: String,
) -> Result<EndpointReply, Failure> {
    let (ask, offset) = (value(query, "ask"), offset(query));
    let asked = offset.as_ref().copied().unwrap_or_default();
    let which = [&*application, &format!("{ask:?} {offset:?}")];
    let subject = Subject::which(Kind::Explanation, &partition, &which);
    let source = edge.source.clone();
    let read = move || async move {
        if let Some(ask) = ask {
            return Ok(source.explain_ask(&partition, &application, &ask).await?);
        }
        // Of two faults the partition comes first.
        let explained = source.explain(&partition, &application, asked).await;
        if !matches!(explained, Err(ExplainError::Unread(_))) {
            offset?;
        }
        Ok(explained?)
    };
    lists::plain(edge, &subject, read).await
}

/// The list that a parameter names; that of live ones may be narrowed to a state.
fn applications_wanted(state: &str, query: Option<&str>) -> Result<ApplicationList, Failure> {
    match state.to_ascii_lowercase().as_str() {
        "completed" => return Ok(ApplicationList::Completed),
        "rejected" => return Ok(ApplicationList::Rejected),
        "active" => {}
        _ => return Err(Failure::ApplicationState),
    }
    Ok(ApplicationList::Live(of_status(query)?))
}

/// The live applications that a queue is asked for: of a queue no others are listed.
fn active_of_queue(state: &str, query: Option<&str>) -> Result<ApplicationFilter, Failure> {
    if !state.eq_ignore_ascii_case("active") {
        return Err(Failure::QueueApplicationState);
    }
    of_status(query)
}

/// Live applications, narrowed to a state where that is asked for.
fn of_status(query: Option<&str>) -> Result<ApplicationFilter, Failure> {
    let mut filter = ApplicationFilter::default();
    if let Some(status) = value(query, "status") {
        let known = ACTIVE_STATUSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(&status));
        let (_, state) = known.ok_or(Failure::ActiveStatus)?;
        filter.states.push(*state);
    }
    Ok(filter)
}

/// How many entries are left out at the beginning.
fn offset(query: Option<&str>) -> Result<usize, Failure> {
    let Some(text) = value(query, "offset") else { return Ok(0) };
    text.parse().map_err(|_| Failure::Offset(names::shown(&text)))
}

/// Waits for nobody: a probe is answered although the scheduler is not.
fn health<S: Reads>(edge: &RestEdge<S>) -> EndpointReply {
    let why = match edge.healthy.now() {
        _ if edge.stopping.is_cancelled() => "stopping\n",
        Health::Serving => return EndpointReply::ok(Class::Text, "serving\n"),
        Health::Stuck => "not serving: the scheduler does not answer\n",
        Health::Gone => "not serving: the scheduler is lost\n",
    };
    EndpointReply::new(StatusCode::SERVICE_UNAVAILABLE, Class::Text, why)
}

async fn metrics<S: Reads>(source: S) -> Result<Made, Failure> {
    source.refresh_metrics().await;
    let registry = source.metrics();
    let page = spawn_blocking(move || TextEncoder::new().encode_to_string(&registry.gather()))
        .await
        .map_err(|panic| Failure::Document(panic.to_string()))?
        .map_err(|error| Failure::Document(error.to_string()))?;
    Ok(Draft::of(page.into_bytes()).into())
}

/// The resource managers of which a caller may read.
struct Readable(BTreeSet<String>);

impl Readable {
    fn of<S: Reads>(source: &S, caller: &Identity) -> Self {
        let rms = source.partition_names().into_iter().map(|name| rm_id(&name).to_owned());
        Self(rms.filter(|rm| caller.may_read(rm)).collect())
    }

    fn has(&self, rm: &str) -> bool {
        self.0.contains(rm)
    }

    /// What is the same for callers who may read the same.
    fn text(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// The entries of partitions that the caller may read, with the resource managers of these alone.
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

/// The configuration in force, in YAML for all who do not ask for JSON and nothing else: of the
/// resource manager that is named, or of the first that the caller may read.
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

/// What is the same for configurations that are shown as the same.
fn version(present: &ConfigurationSnapshot) -> String {
    let ConfigurationSnapshot { policy_group, extra_config, checksum, .. } = present;
    format!("{checksum} {policy_group:?} {extra_config:?}")
}

/// The body, when it has come as a whole.
async fn whole(body: Body, max_bytes: usize) -> Result<Vec<u8>, Failure> {
    // What a request says of its length.
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

async fn json<T: Serialize + Send + 'static>(value: T) -> Result<EndpointReply, Failure> {
    let document = Draft::json(value).await.map_err(Failure::Document)?;
    Ok(EndpointReply::ok(Class::Json, document.bytes))
}

/// The queue that a parameter means, in lower case.
fn queue_path(parameter: &str) -> Result<String, Failure> {
    path_of(decoded_again(parameter)?)
}

/// The queue of this path, in lower case.
fn path_of(path: String) -> Result<String, Failure> {
    if !is_queue_path(&path) {
        return Err(Failure::QueueName(path));
    }
    Ok(path.to_lowercase())
}

/// The user or group that a parameter means.
fn name(parameter: &str, can_be: fn(&str) -> bool, cannot: Failure) -> Result<String, Failure> {
    let name = decoded_again(parameter)?;
    if can_be(&name) { Ok(name) } else { Err(cannot) }
}

/// The first value of a parameter of the query, unless it is empty.
pub(super) fn value(query: Option<&str>, name: &str) -> Option<String> {
    let mut parameters = form_urlencoded::parse(query.unwrap_or("").as_bytes());
    let (_, value) = parameters.find(|(key, _)| key == name)?;
    (!value.is_empty()).then(|| value.into_owned())
}

fn is_present(query: Option<&str>, name: &str) -> bool {
    form_urlencoded::parse(query.unwrap_or("").as_bytes()).any(|(key, _)| key == name)
}
