//! The full state dump: the state of the whole scheduler as one JSON object.
//!
//! An operator attaches it to a bug report: one document of one run, taken without stopping the
//! scheduler.
//!
//! # Invariants
//! * One dump is made at a time, because it holds the whole state twice. A second caller waits.
//! * Each row (an application, a node, a user) is consistent. Lists and different keys are read at
//!   different times, so an application that ends in between may be listed as running and as ended.
//! * The part of a resource manager that has no state to report, or takes too long, is empty. The
//!   rest of the dump is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use monoceros_actors::partition_name::{plain_name, rm_id};
use monoceros_actors::snapshot::{
    ApplicationSnapshot, ClusterSnapshot, GroupSnapshot, NodeSnapshot, PartitionSnapshot,
    QueueSnapshot, ShownRule, UserSnapshot,
};
use monoceros_actors::{ReadError, SchedulerHandle};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::level_filters::LevelFilter;

use crate::clock::now_ns;
use crate::in_force::InForce;
use crate::logbook::Logbook;
use crate::logbook::minutes::{ApplicationsThen, ContainersThen};
use crate::logbook::streams::StreamSnapshot;

/// Time limit for the state of one resource manager.
const RM_TIMEOUT: Duration = Duration::from_secs(35);

/// Held while a dump is made.
static DUMPING: Mutex<()> = Mutex::const_new(());

/// The keys of the document.
pub const SECTIONS: [&str; 15] = [
    "timestamp",
    "partitions",
    "applications",
    "appHistory",
    "nodes",
    "clusterInfo",
    "containerHistory",
    "queues",
    "rmDiagnostics",
    "logLevel",
    "config",
    "placementRules",
    "eventStreams",
    "users",
    "groups",
];

/// Selects the resource manager and the sections of a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DumpRequest {
    /// The resource manager to include. `None` includes all.
    pub rm_id: Option<String>,
    /// The [`SECTIONS`] to include. Empty means all.
    pub sections: BTreeSet<String>,
    /// Whether resource managers are asked for their own state.
    pub include_rm: bool,
}

impl DumpRequest {
    /// A dump of all sections of all resource managers.
    pub fn all() -> Self {
        Self { include_rm: true, ..Self::default() }
    }

    fn has(&self, section: &str) -> bool {
        self.sections.is_empty() || self.sections.contains(section)
    }
}

/// The document. A key that was not requested, or has no content, is omitted.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    partitions: Vec<PartitionSnapshot>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    applications: Vec<ApplicationSnapshot>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    app_history: Vec<ApplicationsThen>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<NodesOfPartition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cluster_info: Vec<ClusterSnapshot>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    container_history: Vec<ContainersThen>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queues: Vec<QueueSnapshot>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rm_diagnostics: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    placement_rules: Vec<RulesOfPartition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    event_streams: Vec<StreamSnapshot>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    users: Vec<OfPartition<UserSnapshot>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<OfPartition<GroupSnapshot>>,
}

/// A user or group, with its usage in one partition.
#[derive(Debug, Serialize)]
struct OfPartition<T> {
    partition: String,
    #[serde(flatten)]
    tracked: T,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RulesOfPartition {
    partition: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<ShownRule>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodesOfPartition {
    partition_name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes_info: Vec<NodeSnapshot>,
}

/// Why there is no dump.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The scheduler has stopped.
    #[error("the scheduler is stopped")]
    Stopped,
    /// The document could not be written.
    #[error("the state dump could not be written: {0}")]
    Document(String),
}

/// Makes the dump: JSON, indented by two spaces.
pub async fn make(
    handle: &SchedulerHandle,
    logbook: &Logbook,
    wanted: &DumpRequest,
) -> Result<Vec<u8>, DumpError> {
    let _turn = DUMPING.lock().await;
    let mut document = gather(handle, wanted).await?;
    // The service's own records do not distinguish resource managers.
    if wanted.rm_id.is_none() {
        copy(logbook, wanted, &mut document);
    }
    spawn_blocking(move || {
        let mut text = serde_json::to_vec_pretty(&document)?;
        text.push(b'\n');
        Ok::<_, serde_json::Error>(text)
    })
    .await
    .map_err(|panic| DumpError::Document(panic.to_string()))?
    .map_err(|error| DumpError::Document(error.to_string()))
}

async fn gather(handle: &SchedulerHandle, wanted: &DumpRequest) -> Result<Document, DumpError> {
    let is_wanted = |rm: &str| wanted.rm_id.as_deref().is_none_or(|only| only == rm);
    let mut document = Document::default();
    if wanted.has("timestamp") {
        document.timestamp = Some(now_ns());
    }
    if wanted.has("partitions") {
        let partitions = handle.partitions().await.into_iter();
        document.partitions = partitions.filter(|it| is_wanted(&it.cluster_id)).collect();
    }
    let names = handle.partition_names();
    for name in names.iter().filter(|name| is_wanted(rm_id(name))) {
        gather_partition(handle, wanted, name, &mut document).await?;
    }
    if wanted.has("clusterInfo") {
        let clusters = handle.clusters().into_iter().zip(&names);
        let clusters = clusters.filter(|(_, name)| is_wanted(rm_id(name)));
        document.cluster_info = clusters.map(|(cluster, _)| cluster).collect();
        for cluster in &mut document.cluster_info {
            let builds = &mut cluster.rm_build_information;
            builds.retain(|build| build.get("rmId").is_none_or(|rm| is_wanted(rm)));
        }
    }
    let rms = handle.resource_managers().into_iter().filter(|rm| is_wanted(rm));
    let rms: Vec<_> = rms.collect();
    if wanted.has("config") {
        document.config = Some(configurations(handle, &rms).await?);
    }
    if wanted.has("rmDiagnostics") {
        document.rm_diagnostics = Some(diagnostics(handle, rms, wanted.include_rm).await);
    }
    if wanted.has("logLevel") {
        document.log_level = log_level(LevelFilter::current());
    }
    Ok(document)
}

/// Adds the sections that have rows per partition.
async fn gather_partition(
    handle: &SchedulerHandle,
    wanted: &DumpRequest,
    name: &str,
    document: &mut Document,
) -> Result<(), DumpError> {
    if wanted.has("applications") {
        let applications = unless_removed(handle.all_applications(name).await)?;
        document.applications.extend(applications.into_iter().flatten());
        let completed = unless_removed(handle.completed_applications(name).await)?;
        document.applications.extend(completed.into_iter().flatten());
        let rejected = unless_removed(handle.rejected_applications(name).await)?;
        document.applications.extend(rejected.into_iter().flatten());
    }
    if wanted.has("nodes")
        && let Some(nodes_info) = unless_removed(handle.nodes(name).await)?
    {
        let partition_name = plain_name(name).to_owned();
        document.nodes.push(NodesOfPartition { partition_name, nodes_info });
    }
    if wanted.has("placementRules")
        && let Some(rules) = unless_removed(handle.placement_rules(name).await)?
    {
        let partition = plain_name(name).to_owned();
        document.placement_rules.push(RulesOfPartition { partition, rules });
    }
    if wanted.has("queues") {
        document.queues.extend(unless_removed(handle.queues(name).await)?);
    }
    if wanted.has("users") {
        let users = unless_removed(handle.users(name).await)?;
        document.users.extend(of_partition(name, users));
    }
    if wanted.has("groups") {
        let groups = unless_removed(handle.groups(name).await)?;
        document.groups.extend(of_partition(name, groups));
    }
    Ok(())
}

fn copy(logbook: &Logbook, wanted: &DumpRequest, document: &mut Document) {
    if wanted.has("appHistory") {
        document.app_history = logbook.minutes.applications();
    }
    if wanted.has("containerHistory") {
        document.container_history = logbook.minutes.containers();
    }
    if wanted.has("eventStreams") {
        document.event_streams = logbook.streams.open();
    }
}

fn of_partition<T>(name: &str, tracked: Option<Vec<T>>) -> impl Iterator<Item = OfPartition<T>> {
    let partition = plain_name(name).to_owned();
    let tracked = tracked.into_iter().flatten();
    tracked.map(move |tracked| OfPartition { partition: partition.clone(), tracked })
}

/// Maps a partition that was removed since it was listed to `None`: it is no part of the dump.
fn unless_removed<T>(read: Result<T, ReadError>) -> Result<Option<T>, DumpError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(
            ReadError::PartitionNotFound(_) | ReadError::QueueNotFound(_) | ReadError::NotAPlace(_),
        ) => Ok(None),
        Err(ReadError::Stopped) => Err(DumpError::Stopped),
    }
}

/// Returns the configuration of the resource managers: the object itself if there is one manager,
/// an empty configuration if there is none, and otherwise one object per id.
async fn configurations(handle: &SchedulerHandle, rms: &[String]) -> Result<Value, DumpError> {
    let mut present = Vec::new();
    for rm in rms {
        // A manager that was removed since it was listed is no part of the dump.
        present.extend(handle.configuration(rm).await);
    }
    let objects = spawn_blocking(move || {
        let mut objects = Map::new();
        for present in present {
            let rm = present.rm_id.clone();
            objects.insert(rm, serde_json::to_value(InForce::of(Some(present)))?);
        }
        match objects.len() {
            0 => serde_json::to_value(InForce::of(None)),
            1 => Ok(objects.into_iter().next().map(|(_, object)| object).unwrap_or_default()),
            _ => Ok(Value::Object(objects)),
        }
    });
    let objects = objects.await.map_err(|panic| DumpError::Document(panic.to_string()))?;
    objects.map_err(|error| DumpError::Document(error.to_string()))
}

/// Returns the state that resource managers report: the object itself if there is one manager,
/// otherwise one object per id.
async fn diagnostics(
    handle: &SchedulerHandle,
    rms: Vec<String>,
    include: bool,
) -> Map<String, Value> {
    if !include {
        return empty("resource managers were not asked");
    }
    let states = rms.iter().map(|rm| async move {
        let control = handle.control(rm).await.ok()?;
        let state = control.state().await?;
        let late = || Err(format!("no answer within {} s", RM_TIMEOUT.as_secs()));
        Some(timeout(RM_TIMEOUT, state).await.unwrap_or_else(|_| late()))
    });
    let states: Vec<_> = join_all(states).await;
    let mut objects: BTreeMap<_, _> = rms.into_iter().zip(states.into_iter().map(object)).collect();
    if objects.len() > 1 {
        return objects.into_iter().map(|(rm, object)| (rm, Value::Object(object))).collect();
    }
    let only = objects.pop_first().map(|(_, object)| object);
    only.unwrap_or_else(|| empty("no resource manager is registered"))
}

fn object(states: Option<Result<String, String>>) -> Map<String, Value> {
    let failed = |reason: String| [("Error".to_owned(), json!(reason))].into_iter().collect();
    match states {
        None => empty("the resource manager has no state dump to give"),
        Some(Err(reason)) => failed(reason),
        Some(Ok(text)) => match serde_json::from_str(&text) {
            Ok(Value::Object(object)) => object,
            Ok(_) => failed("the state of the resource manager is not a JSON object".to_owned()),
            Err(error) => failed(format!("the state of the resource manager is not JSON: {error}")),
        },
    }
}

fn empty(explanation: &str) -> Map<String, Value> {
    [("empty".to_owned(), json!(explanation))].into_iter().collect()
}

/// Returns the most detailed level that is logged, under the name that readers of dumps know. They
/// know none below `debug`.
fn log_level(level: LevelFilter) -> Option<&'static str> {
    if level == LevelFilter::OFF {
        None
    } else if level >= LevelFilter::DEBUG {
        Some("debug")
    } else if level == LevelFilter::INFO {
        Some("info")
    } else if level == LevelFilter::WARN {
        Some("warn")
    } else {
        Some("error")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_state_or_its_failure_is_merged() {
        let shown = |states| serde_json::to_string(&object(states)).unwrap();
        assert_eq!(shown(Some(Ok(r#"{"cache":{"pods":3}}"#.into()))), r#"{"cache":{"pods":3}}"#);
        assert_eq!(shown(Some(Err("no time".into()))), r#"{"Error":"no time"}"#);
        for text in ["pods: 3", "[3]"] {
            assert!(shown(Some(Ok(text.into()))).starts_with(r#"{"Error":"the state of the"#));
        }
        assert!(shown(None).starts_with(r#"{"empty":"#));
    }

    #[test]
    fn the_log_level_has_the_name_readers_know() {
        for (level, name) in [
            (LevelFilter::TRACE, Some("debug")),
            (LevelFilter::DEBUG, Some("debug")),
            (LevelFilter::INFO, Some("info")),
            (LevelFilter::WARN, Some("warn")),
            (LevelFilter::ERROR, Some("error")),
            (LevelFilter::OFF, None),
        ] {
            assert_eq!(log_level(level), name);
        }
    }
}
