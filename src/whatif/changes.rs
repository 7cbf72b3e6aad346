//! The changes of a question, and what they are for a certain image.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use monoceros_actors::Resources;
use monoceros_actors::image::{ImagedNode, PartitionImage, ResourceManagerImage};
use monoceros_actors::tags::{RUN_TIME_LIMIT, run_time_limit};
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::node_info::ActionFromRm;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::grpc::stubs::DESCRIPTORS;

/// The attribute of a node with the name of its partition.
const NODE_PARTITION: &str = "si/node-partition";
/// The most nodes that a question may add.
const NODES_MAX: u32 = 100_000;
/// The fields of messages that are amounts.
const AMOUNTS: [&str; 4] = ["resourceAsk", "placeholderAsk", "member", "resourcePerAlloc"];

/// The changes of a question: what is different in the second replay.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Changes {
    /// The queue configuration (YAML).
    pub queues: Option<String>,
    /// Nodes that are added.
    pub add_nodes: Vec<AddedNodes>,
    /// Nodes that are removed, with everything that runs there.
    pub remove_nodes: Vec<String>,
    /// Nodes that are closed for new allocations.
    pub drain_nodes: Vec<String>,
    /// Applications that end.
    pub release_applications: Vec<String>,
    /// Applications and requests that are submitted.
    pub submit: Submission,
}

/// Nodes that are added.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AddedNodes {
    /// The number of nodes.
    pub count: u32,
    /// The id of the node that they are like.
    pub like: String,
}

/// Applications and requests that are submitted, as messages of the Scheduler Interface in JSON.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Submission {
    /// The applications.
    pub applications: Vec<si::AddApplicationRequest>,
    /// The requests, of these applications or of others that are there.
    pub asks: Vec<si::AllocationAsk>,
}

/// A change cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// There is no such node.
    #[error("node `{0}` is not in the snapshot")]
    NoSuchNode(String),
    /// There is no such application.
    #[error("application `{0}` is not in the snapshot")]
    NoSuchApplication(String),
    /// An application is submitted that is there already.
    #[error("application `{0}` is in the snapshot already")]
    ApplicationExists(String),
    /// There is no such partition.
    #[error("partition `{0}` is not in the snapshot")]
    NoSuchPartition(String),
    /// A request has a key that its application has used.
    #[error("key `{key}` of application `{application}` is used already")]
    KeyExists {
        /// The id of the application.
        application: String,
        /// The key.
        key: String,
    },
    /// A request asks for no allocation, or for nothing.
    #[error("request `{0}` asks for nothing: `resourceAsk` and `maxAllocations` are its size")]
    Empty(String),
    /// Too many nodes are added.
    #[error("at most {NODES_MAX} nodes can be added")]
    TooManyNodes,
    /// A submission cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

/// The changes of a question for an image.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) queues: Option<String>,
    /// The messages that add, drain and remove nodes.
    pub(super) nodes: Vec<si::NodeInfo>,
    /// The ids of removed nodes.
    pub(super) removed: Vec<String>,
    /// Each added node, and the one that it is like.
    added: Vec<(String, String)>,
    added_capacity: Vec<Resources>,
    /// Applications that end, with their partitions.
    pub(super) released: Vec<(Arc<str>, si::RemoveApplicationRequest)>,
    pub(super) applications: Vec<si::AddApplicationRequest>,
    pub(super) asks: Vec<SubmittedAsk>,
    /// The names of the partitions, as in messages.
    partitions: Vec<Arc<str>>,
}

/// A request that is submitted.
#[derive(Debug)]
pub(super) struct SubmittedAsk {
    pub(super) partition: Arc<str>,
    pub(super) message: Arc<si::AllocationAsk>,
    pub(super) resources: Resources,
    pub(super) limit: Option<Duration>,
    pub(super) count: u32,
}

impl Changes {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns a line for each change, for people.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.queues.as_ref().map(|_| "another queue configuration".to_owned()));
        for AddedNodes { count, like } in &self.add_nodes {
            lines.push(format!("{count} nodes more like `{like}`"));
        }
        let named = |what: &str, names: &[String]| {
            names.iter().map(|name| format!("{what} `{name}`")).collect::<Vec<_>>()
        };
        lines.extend(named("without node", &self.remove_nodes));
        lines.extend(named("drained node", &self.drain_nodes));
        lines.extend(named("released application", &self.release_applications));
        let Submission { applications, asks } = &self.submit;
        if !(applications.is_empty() && asks.is_empty()) {
            let (applications, asks) = (applications.len(), asks.len());
            lines.push(format!("{applications} applications and {asks} requests submitted"));
        }
        lines
    }

    /// Returns what the changes are for this image.
    pub(super) fn resolve(&self, image: &ResourceManagerImage) -> Result<Resolved, ChangeError> {
        let names = image.partitions.iter().map(|partition| Arc::from(partition.plain_name()));
        let mut resolved = Resolved {
            queues: self.queues.clone(),
            partitions: names.collect(),
            ..Resolved::default()
        };
        for id in &self.remove_nodes {
            resolved.nodes.push(change_of(find_node(image, id)?, ActionFromRm::Decomission));
            resolved.removed.push(id.clone());
        }
        for id in &self.drain_nodes {
            resolved.nodes.push(change_of(find_node(image, id)?, ActionFromRm::DrainNode));
        }
        for added in &self.add_nodes {
            resolved.add(image, added)?;
        }
        for id in &self.release_applications {
            let partition = find_application(image, id)
                .ok_or_else(|| ChangeError::NoSuchApplication(id.clone()))?;
            let partition: Arc<str> = Arc::from(partition.plain_name());
            let remove = si::RemoveApplicationRequest {
                application_id: id.clone(),
                partition_name: partition.to_string(),
            };
            resolved.released.push((partition, remove));
        }
        for application in &self.submit.applications {
            if find_application(image, &application.application_id).is_some() {
                return Err(ChangeError::ApplicationExists(application.application_id.clone()));
            }
            resolved.known(&application.partition_name)?;
            resolved.applications.push(application.clone());
        }
        for ask in &self.submit.asks {
            resolved.ask(image, ask)?;
        }
        Ok(resolved)
    }
}

impl Resolved {
    /// Whether a node is removed.
    pub(super) fn removes(&self, id: &str) -> bool {
        self.removed.iter().any(|removed| removed == id)
    }

    pub(super) fn added_capacity(&self) -> impl Iterator<Item = &Resources> {
        self.added_capacity.iter()
    }

    /// Returns each added node with the one that it is like.
    pub(super) fn added_nodes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.added.iter().map(|(id, like)| (&**id, &**like))
    }

    /// Returns the partition with this name in a message.
    pub(super) fn partition(&self, name: &str) -> Arc<str> {
        let plain = plain(name);
        let known = self.partitions.iter().find(|known| ***known == *plain);
        known.map_or_else(|| Arc::from(plain), Arc::clone)
    }

    fn known(&self, name: &str) -> Result<Arc<str>, ChangeError> {
        let partition = self.partition(name);
        if self.partitions.contains(&partition) {
            return Ok(partition);
        }
        Err(ChangeError::NoSuchPartition(name.to_owned()))
    }

    /// Adds nodes whose ids are not in use.
    fn add(&mut self, image: &ResourceManagerImage, added: &AddedNodes) -> Result<(), ChangeError> {
        let (_, like) = find_node(image, &added.like)?;
        if added.count > NODES_MAX {
            return Err(ChangeError::TooManyNodes);
        }
        let of_image = image.partitions.iter().flat_map(PartitionImage::nodes);
        let of_image = of_image.map(|node| node.id().to_string());
        let mut used: HashSet<String> = of_image.collect();
        used.extend(self.nodes.iter().map(|node| node.node_id.clone()));
        let mut number = 0;
        for _ in 0..added.count {
            let id = loop {
                number += 1;
                let id = format!("{}-new-{number}", added.like);
                if used.insert(id.clone()) {
                    break id;
                }
            };
            self.nodes.push(like.like_it(&id));
            self.added.push((id, added.like.clone()));
            self.added_capacity.push(like.capacity().clone());
        }
        Ok(())
    }

    fn ask(
        &mut self,
        image: &ResourceManagerImage,
        ask: &si::AllocationAsk,
    ) -> Result<(), ChangeError> {
        let partition = self.known(&ask.partition_name)?;
        let (id, key) = (&ask.application_id, &ask.allocation_key);
        let is_of = |application: &&si::AddApplicationRequest| application.application_id == *id;
        let submitted = self.applications.iter().find(is_of);
        let of_image = image
            .partitions
            .iter()
            .filter(|it| *it.plain_name() == *partition)
            .flat_map(monoceros_actors::image::PartitionImage::applications)
            .find(|application| **application.id() == **id);
        if submitted.is_none() && of_image.is_none() {
            return Err(ChangeError::NoSuchApplication(id.clone()));
        }
        let is_used = of_image.is_some_and(|it| it.has_key(key))
            || self
                .asks
                .iter()
                .any(|it| (&it.message.application_id, &it.message.allocation_key) == (id, key));
        if is_used {
            let (application, key) = (id.clone(), key.clone());
            return Err(ChangeError::KeyExists { application, key });
        }
        let count = u32::try_from(ask.max_allocations).unwrap_or(0);
        let amounts = ask.resource_ask.iter().flat_map(|amount| &amount.resources);
        let amounts: Vec<_> = amounts.map(|(name, it)| (name.as_str(), it.value)).collect();
        if count == 0 || amounts.is_empty() {
            return Err(ChangeError::Empty(key.clone()));
        }
        let of_application = submitted.map(|it| &it.tags);
        let tags = std::iter::once(&ask.tags).chain(of_application);
        let limit = tags.filter_map(|tags| tags.get(RUN_TIME_LIMIT)).find_map(|text| {
            let limit = run_time_limit(text).ok().flatten()?;
            Some(Duration::from_millis(limit.get()))
        });
        let timeout = u64::try_from(ask.execution_timeout_milli_seconds).unwrap_or(0);
        let timeout = (timeout > 0).then_some(Duration::from_millis(timeout));
        self.asks.push(SubmittedAsk {
            partition,
            message: Arc::new(ask.clone()),
            resources: Resources::of(&amounts),
            limit: limit.or(timeout),
            count,
        });
        Ok(())
    }
}

impl Submission {
    /// Reads a submission from JSON: an object with the lists `applications` (messages
    /// `AddApplicationRequest`) and `asks` (`AllocationAsk`), in the JSON form of protobuf. Amounts
    /// may also be `{"vcore": 1000}`.
    pub fn read(text: &str) -> Result<Self, ChangeError> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| ChangeError::Unreadable(format!("no JSON: {error}")))?;
        Self::try_from(value)
    }
}

impl TryFrom<Value> for Submission {
    type Error = ChangeError;

    fn try_from(value: Value) -> Result<Self, ChangeError> {
        let Value::Object(mut lists) = value else {
            let what = "a submission is an object with the lists `applications` and `asks`";
            return Err(ChangeError::Unreadable(what.to_owned()));
        };
        let submission = Self {
            applications: messages(&mut lists, "applications", "AddApplicationRequest")?,
            asks: messages(&mut lists, "asks", "AllocationAsk")?,
        };
        match lists.keys().next() {
            None => Ok(submission),
            Some(key) => {
                let what = format!("`{key}` is none of `applications` and `asks`");
                Err(ChangeError::Unreadable(what))
            }
        }
    }
}

/// Reads the messages of a list of a submission, which is removed from it.
fn messages<M: Message + Default>(
    lists: &mut Map<String, Value>,
    list: &str,
    name: &str,
) -> Result<Vec<M>, ChangeError> {
    static POOL: OnceLock<Option<DescriptorPool>> = OnceLock::new();
    let unreadable = |what: String| ChangeError::Unreadable(format!("`{list}`{what}"));
    let Some(items) = lists.remove(list) else { return Ok(Vec::new()) };
    let Value::Array(items) = items else { return Err(unreadable(" is no list".to_owned())) };
    let pool = POOL.get_or_init(|| DescriptorPool::decode(DESCRIPTORS).ok());
    let full = format!("monoceros.si.v1.{name}");
    let found = pool.as_ref().and_then(|pool| pool.get_message_by_name(&full));
    let described = found.ok_or_else(|| unreadable(format!(": no message `{full}`")))?;
    let message = |(at, mut item): (usize, Value)| {
        write_amounts(&mut item);
        let read = DynamicMessage::deserialize(described.clone(), item)
            .map_err(|error| error.to_string())
            .and_then(|message| message.transcode_to().map_err(|error| error.to_string()));
        read.map_err(|error| unreadable(format!(", number {}: {error}", at + 1)))
    };
    items.into_iter().enumerate().map(message).collect()
}

/// Rewrites amounts such as `{"vcore": 1000}` to their form in protobuf's JSON.
fn write_amounts(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                match field {
                    Value::Object(amount)
                        if AMOUNTS.contains(&key.as_str()) && !amount.contains_key("resources") =>
                    {
                        let quantity = |(name, value): (&String, &Value)| {
                            (name.clone(), serde_json::json!({ "value": value }))
                        };
                        let quantities: Map<_, _> = amount.iter().map(quantity).collect();
                        *field = serde_json::json!({ "resources": quantities });
                    }
                    other => write_amounts(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_amounts),
        _ => {}
    }
}

fn plain(name: &str) -> &str {
    use monoceros_actors::config::{DEFAULT_PARTITION, plain_name};
    if name.is_empty() { DEFAULT_PARTITION } else { plain_name(name) }
}

fn find_node<'a>(
    image: &'a ResourceManagerImage,
    id: &str,
) -> Result<(&'a PartitionImage, ImagedNode<'a>), ChangeError> {
    let nodes = image.partitions.iter().flat_map(|it| it.nodes().map(move |node| (it, node)));
    let found = nodes.into_iter().find(|(_, node)| node.id() == id);
    found.ok_or_else(|| ChangeError::NoSuchNode(id.to_owned()))
}

/// Returns the partition of an application.
fn find_application<'a>(image: &'a ResourceManagerImage, id: &str) -> Option<&'a PartitionImage> {
    let is_in = |it: &&PartitionImage| it.applications().any(|found| **found.id() == *id);
    image.partitions.iter().find(is_in)
}

/// Returns the message that changes the state of a node.
fn change_of(
    (partition, node): (&PartitionImage, ImagedNode<'_>),
    action: ActionFromRm,
) -> si::NodeInfo {
    let name = partition.plain_name().to_owned();
    si::NodeInfo {
        node_id: node.id().to_owned(),
        action: action.into(),
        attributes: [(NODE_PARTITION.to_owned(), name)].into(),
        ..si::NodeInfo::default()
    }
}
