//! The interface's messages as requests: everything that can be said of an item without looking at
//! the partition is said here (scheduler-interface chapter, 1.10 and 4).
//!
//! Items of one message that concern one application are one visit, up to a chunk's size, in the
//! order `allocations`, `asks`, ask releases, allocation releases (F11).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use monoceros_proto::si::v1 as si;
use monoceros_rules::allocations::{Form, Tags};
use monoceros_rules::application::NewApplication;
use monoceros_rules::asks::AskSpec;
use monoceros_rules::config;
use monoceros_rules::rejection::Rejection;
use monoceros_rules::resources::{Name, Resources};
use tokio::sync::oneshot;

use super::{CHUNK, Rm};
use crate::application::{Cause, Existing, Op, Which};
use crate::baton::Saying;
use crate::node::Change;
use crate::partition::{ForeignRequest, NewNode, Request};

/// Longest id or key, bytes.
const ID_BYTES: usize = 1024;
/// Most allocations one ask may want.
const MAX_REPEAT: u32 = 10_000;
/// Domain of the tags that this scheduler reads.
const REQUIRED_NODE: &str = "yunikorn.apache.org/requiredNode";
const ALLOW_PREEMPTION: &str = "yunikorn.apache.org/allowPreemption";
const CREATION_TIME: &str = "creationTime";
const FOREIGN: &str = "foreign";
const NODE_PARTITION: &str = "si/node-partition";

/// A message in parts.
pub(super) struct Translated {
    /// For each partition, in order.
    pub(super) chunks: Vec<(Arc<str>, Vec<Request>)>,
    /// What names no partition of this RM: answered at once.
    pub(super) refused: Vec<Saying>,
}

/// Gathers the requests of one message, grouped by application.
struct Gathering {
    chunks: Vec<(Arc<str>, Vec<Request>)>,
    /// The chunk under construction of each partition, and where its applications are in it.
    open: HashMap<Arc<str>, Open>,
    refused: Vec<Saying>,
}

#[derive(Default)]
struct Open {
    requests: Vec<Request>,
    items: usize,
    applications: HashMap<Arc<str>, usize>,
}

impl Gathering {
    fn new() -> Self {
        Self { chunks: Vec::new(), open: HashMap::new(), refused: Vec::new() }
    }

    fn op(&mut self, partition: &Arc<str>, id: Arc<str>, op: Op) {
        let open = self.open(partition);
        open.items += 1;
        if let Some(at) = open.applications.get(&id) {
            if let Request::Application { ops, .. } = &mut open.requests[*at] {
                ops.push(op);
                return;
            }
        }
        open.applications.insert(Arc::clone(&id), open.requests.len());
        open.requests.push(Request::Application { id, ops: vec![op] });
    }

    fn request(&mut self, partition: &Arc<str>, request: Request) {
        let open = self.open(partition);
        open.items += 1;
        open.requests.push(request);
    }

    fn open(&mut self, partition: &Arc<str>) -> &mut Open {
        let open = self.open.entry(Arc::clone(partition)).or_default();
        if open.items >= CHUNK {
            let full = std::mem::take(open);
            self.chunks.push((Arc::clone(partition), full.requests));
        }
        open
    }

    fn done(mut self) -> Translated {
        let mut rest: Vec<_> = self.open.drain().collect();
        rest.sort_by(|a, b| a.0.cmp(&b.0));
        for (partition, open) in rest {
            if !open.requests.is_empty() {
                self.chunks.push((partition, open.requests));
            }
        }
        Translated { chunks: self.chunks, refused: self.refused }
    }
}

impl Rm {
    /// The full name of the partition that a request names.
    fn partition(&self, name: &str) -> Result<Arc<str>, Rejection> {
        let unknown = || Rejection::PartitionUnknown(name.to_owned());
        let full = config::qualified_name(name, &self.id).map_err(|_| unknown())?;
        if self.is_partition(&full) { Ok(Arc::from(full)) } else { Err(unknown()) }
    }

    pub(super) fn translate_allocation(&self, request: si::AllocationRequest) -> Translated {
        let mut gathering = Gathering::new();
        for allocation in request.allocations {
            self.allocation(allocation, &mut gathering);
        }
        for ask in request.asks {
            self.ask(ask, &mut gathering);
        }
        let releases = request.releases.unwrap_or_default();
        for release in releases.allocation_asks_to_release {
            self.ask_release(&release, &mut gathering);
        }
        for release in releases.allocations_to_release {
            self.release(&release, &mut gathering);
        }
        gathering.done()
    }

    fn ask(&self, ask: si::AllocationAsk, gathering: &mut Gathering) {
        let (key, application) = (Arc::from(ask.allocation_key), Arc::from(ask.application_id));
        let reject = |reason| Saying::AskRejected {
            form: Form::Ask,
            key: Arc::clone(&key),
            application: Arc::clone(&application),
            reason,
        };
        let partition = match self.partition(&ask.partition_name) {
            Ok(partition) => partition,
            Err(reason) => return gathering.refused.push(reject(reason)),
        };
        let checked = check_key(&key)
            .and_then(|()| check_placeholder(&key, ask.placeholder, &ask.task_group_name))
            .and_then(|()| check_repeat(&key, ask.max_allocations))
            .and_then(|repeat| Ok((repeat, wanted(&key, ask.resource_ask.as_ref())?)));
        let (repeat, resources) = match checked {
            Ok(checked) => checked,
            Err(reason) => return gathering.request(&partition, Request::Say(reject(reason))),
        };
        let attributes = Attributes::of(&ask.tags);
        let policy = ask.preemption_policy.as_ref();
        let spec = AskSpec {
            key: Arc::clone(&key),
            resources,
            repeat,
            priority: ask.priority,
            created_ns: attributes.created_ns,
            required_node: attributes.required_node,
            originator: ask.originator,
            preemption: preemption(policy, &ask.tags),
            execution_timeout_ms: u64::try_from(ask.execution_timeout_milli_seconds)
                .ok()
                .filter(|timeout| *timeout > 0),
            form: Form::Ask,
            tags: shared(ask.tags),
        };
        gathering.op(&partition, application, Op::Ask(Box::new(spec)));
    }

    fn allocation(&self, allocation: si::Allocation, gathering: &mut Gathering) {
        let uuid = first_of(&allocation.uuid, &allocation.allocation_id).to_owned();
        let form = if uuid.is_empty() { Form::Unified } else { Form::Recovered };
        let key: Arc<str> = Arc::from(allocation.allocation_key.as_str());
        let application: Arc<str> = Arc::from(allocation.application_id.as_str());
        let reject = |reason| Saying::AskRejected {
            form,
            key: Arc::clone(&key),
            application: Arc::clone(&application),
            reason,
        };
        let partition = match self.partition(&allocation.partition_name) {
            Ok(partition) => partition,
            Err(reason) => return gathering.refused.push(reject(reason)),
        };
        if allocation.allocation_tags.contains_key(FOREIGN) {
            match foreign(&key, &allocation) {
                Ok(foreign) => {
                    gathering.request(&partition, Request::Foreign(Box::new(foreign)));
                }
                Err(reason) => gathering.request(&partition, Request::Say(reject(reason))),
            }
            return;
        }
        let node = allocation.node_id.clone();
        match spec_of(allocation, form) {
            Err(reason) => gathering.request(&partition, Request::Say(reject(reason))),
            Ok(spec) if node.is_empty() && form == Form::Recovered => {
                let text = format!("recovered allocation `{}` without node", spec.key);
                let reason = Rejection::NodeMissing(text);
                gathering.request(&partition, Request::Say(reject(reason)));
            }
            Ok(spec) if node.is_empty() => {
                gathering.op(&partition, application, Op::Unified(Box::new(spec)));
            }
            Ok(spec) => {
                let uuid = if uuid.is_empty() { Arc::clone(&spec.key) } else { Arc::from(uuid) };
                let existing = Existing { spec, uuid, node: Arc::from(node) };
                gathering.op(&partition, application, Op::Existing(Box::new(existing)));
            }
        }
    }

    fn ask_release(&self, release: &si::AllocationAskRelease, gathering: &mut Gathering) {
        let confirms = release.termination_type == si::TerminationType::Timeout as i32;
        let Ok(partition) = self.partition(&release.partition_name) else { return };
        if release.application_id.is_empty() || confirms {
            tracing::debug!(rm = %self.id, "ask release without effect ignored");
            return;
        }
        let key = Some(release.allocation_key.as_str()).filter(|key| !key.is_empty());
        let op = Op::WithdrawAsks(key.map(Arc::from));
        gathering.op(&partition, Arc::from(release.application_id.as_str()), op);
    }

    fn release(&self, release: &si::AllocationRelease, gathering: &mut Gathering) {
        let Ok(partition) = self.partition(&release.partition_name) else { return };
        let uuid = first_of(&release.uuid, &release.allocation_id);
        if release.application_id.is_empty() {
            let key = first_of(&release.allocation_key, uuid);
            if !key.is_empty() {
                gathering.request(&partition, Request::ForeignGone(Arc::from(key)));
            }
            return;
        }
        let which = if !uuid.is_empty() {
            Which::Uuid(Arc::from(uuid))
        } else if !release.allocation_key.is_empty() {
            Which::Key(Arc::from(release.allocation_key.as_str()))
        } else {
            Which::All
        };
        let cause = match si::TerminationType::try_from(release.termination_type) {
            Ok(si::TerminationType::Timeout) => Cause::ConfirmedTimeout,
            Ok(
                si::TerminationType::PreemptedByScheduler
                | si::TerminationType::PlaceholderReplaced,
            ) => Cause::Confirmed,
            Ok(si::TerminationType::SchedulingFailedOnRm) => Cause::SchedulingFailed,
            Ok(si::TerminationType::StoppedByRm | si::TerminationType::UnknownTerminationType)
            | Err(_) => Cause::Stopped,
        };
        let op = Op::Release { which, cause };
        gathering.op(&partition, Arc::from(release.application_id.as_str()), op);
    }

    pub(super) fn translate_application(&self, request: si::ApplicationRequest) -> Translated {
        let mut gathering = Gathering::new();
        for new in request.new {
            let id: Arc<str> = Arc::from(new.application_id.as_str());
            let reject = |reason| Saying::ApplicationRejected { id: Arc::clone(&id), reason };
            let partition = match self.partition(&new.partition_name) {
                Ok(partition) => partition,
                Err(reason) => {
                    gathering.refused.push(reject(reason));
                    continue;
                }
            };
            let request = match new_application(new) {
                Ok(new) => Request::AddApplication(Box::new(new)),
                Err(reason) => Request::Say(reject(reason)),
            };
            gathering.request(&partition, request);
        }
        for remove in request.remove {
            if let Ok(partition) = self.partition(&remove.partition_name) {
                let request = Request::RemoveApplication(Arc::from(remove.application_id));
                gathering.request(&partition, request);
            }
        }
        gathering.done()
    }

    pub(super) fn translate_node(&self, request: si::NodeRequest) -> Translated {
        let mut gathering = Gathering::new();
        for node in request.nodes {
            self.node(node, &mut gathering);
        }
        gathering.done()
    }

    fn node(&self, mut node: si::NodeInfo, gathering: &mut Gathering) {
        use si::node_info::ActionFromRm as Action;
        let id: Arc<str> = Arc::from(std::mem::take(&mut node.node_id));
        let reject = |reason| Saying::NodeRejected { id: Arc::clone(&id), reason };
        let named = node.attributes.get(NODE_PARTITION).map_or("", String::as_str);
        let action = Action::try_from(node.action).unwrap_or(Action::UnknownActionFromRm);
        let partition = match self.partition(named) {
            Ok(partition) => partition,
            Err(reason) if matches!(action, Action::Create | Action::CreateDrain) => {
                return gathering.refused.push(reject(reason));
            }
            Err(reason) => {
                tracing::warn!(rm = %self.id, node = %id, %reason, "node update ignored");
                return;
            }
        };
        let request = match action {
            Action::UnknownActionFromRm => {
                let action = node.action;
                Request::Say(reject(Rejection::NodeAction { id: Arc::clone(&id), action }))
            }
            Action::Create | Action::CreateDrain => {
                let draining = action == Action::CreateDrain;
                match new_node(Arc::clone(&id), node, draining, &partition) {
                    Ok(new) => Request::CreateNode(Box::new(new)),
                    Err(reason) => Request::Say(reject(reason)),
                }
            }
            Action::Update => {
                let amounts = counted(&id, node.schedulable_resource.as_ref())
                    .and_then(|total| Ok((total, counted(&id, node.occupied_resource.as_ref())?)));
                match amounts {
                    Ok((total, occupied)) => {
                        let attributes = node.attributes;
                        Request::ChangeNode {
                            id: Arc::clone(&id),
                            change: Change::Update { total, occupied, attributes },
                        }
                    }
                    Err(reason) => {
                        tracing::warn!(rm = %self.id, node = %id, %reason, "node update ignored");
                        return;
                    }
                }
            }
            Action::DrainNode => {
                Request::ChangeNode { id: Arc::clone(&id), change: Change::Drain(true) }
            }
            Action::DrainToSchedulable => {
                Request::ChangeNode { id: Arc::clone(&id), change: Change::Drain(false) }
            }
            Action::Decomission => Request::RemoveNode(Arc::clone(&id)),
        };
        gathering.request(&partition, request);
    }

    /// A mark for every partition; the reply comes when the last has been passed on.
    pub(super) fn translate_settle(&self, reply: oneshot::Sender<()>) -> Translated {
        let reply = Arc::new(Settling { reply: Some(reply) });
        let chunk = |name: &Arc<str>| (Arc::clone(name), vec![Request::Settle(Arc::clone(&reply))]);
        Translated { chunks: self.partitions.keys().map(chunk).collect(), refused: Vec::new() }
    }
}

/// Answers when the last copy is gone.
#[derive(Debug)]
pub(crate) struct Settling {
    reply: Option<oneshot::Sender<()>>,
}

impl Drop for Settling {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(());
        }
    }
}

fn new_application(new: si::AddApplicationRequest) -> Result<NewApplication, Rejection> {
    if new.application_id.is_empty() {
        return Err(Rejection::ApplicationId("missing"));
    }
    if new.application_id.len() > ID_BYTES {
        return Err(Rejection::ApplicationId("too long"));
    }
    let id: Arc<str> = Arc::from(new.application_id);
    let placeholders = amount(&id, new.placeholder_ask.as_ref())?;
    if placeholders.has_negative() {
        return Err(Rejection::NegativeResource(id));
    }
    if !placeholders.is_zero() {
        return Err(Rejection::Unsupported { id, what: "gang scheduling (placeholderAsk)" });
    }
    let forced = tag_ignoring_case(&new.tags, "application.create.force").is_some_and(is_true);
    let ugi = new.ugi.unwrap_or_default();
    let (user, groups) = resolve(&id, ugi, forced)?;
    Ok(NewApplication { id, queue: new.queue_name, user, groups, tags: shared(new.tags) })
}

/// The submitted identity (queues-and-config chapter, 8.3) with the default resolver: a user's only
/// group is named like the user.
fn resolve(
    id: &Arc<str>,
    ugi: si::UserGroupInformation,
    forced: bool,
) -> Result<(Arc<str>, Vec<String>), Rejection> {
    if ugi.user.is_empty() {
        if forced {
            return Ok((Arc::from("nobody"), vec!["nogroup".to_owned()]));
        }
        let why = "empty user cannot resolve".to_owned();
        return Err(Rejection::User { id: Arc::clone(id), why });
    }
    if ugi.groups.is_empty() {
        let groups = vec![ugi.user.clone()];
        return Ok((Arc::from(ugi.user), groups));
    }
    if !is_user_name(&ugi.user) {
        let why = format!("invalid username `{}`", ugi.user);
        return Err(Rejection::User { id: Arc::clone(id), why });
    }
    Ok((Arc::from(ugi.user), ugi.groups))
}

/// `^[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?$`
fn is_user_name(name: &str) -> bool {
    let name = name.strip_suffix('$').unwrap_or(name);
    let mut characters = name.chars();
    let starts = characters.next().is_some_and(|c| c == '_' || c.is_ascii_alphabetic());
    starts && characters.all(|c| c.is_ascii_alphanumeric() || ":#/_.@-".contains(c))
}

fn new_node(
    id: Arc<str>,
    node: si::NodeInfo,
    draining: bool,
    partition: &Arc<str>,
) -> Result<NewNode, Rejection> {
    let invalid = |why: &str| Rejection::NodeInvalid { id: Arc::clone(&id), why: why.to_owned() };
    if id.is_empty() {
        return Err(invalid("nodeID missing"));
    }
    if id.len() > ID_BYTES {
        return Err(Rejection::NodeInvalid { id: Arc::from(""), why: "nodeID too long".into() });
    }
    let total = counted(&id, node.schedulable_resource.as_ref())?.unwrap_or_default();
    let occupied = counted(&id, node.occupied_resource.as_ref())?.unwrap_or_default();
    let mut existing = Vec::new();
    for allocation in node.existing_allocations {
        let uuid = first_of(&allocation.uuid, &allocation.allocation_id).to_owned();
        let application: Arc<str> = Arc::from(allocation.application_id.as_str());
        let spec = spec_of(allocation, Form::Recovered)?;
        let uuid = if uuid.is_empty() { Arc::clone(&spec.key) } else { Arc::from(uuid) };
        existing.push((application, Existing { spec, uuid, node: Arc::clone(&id) }));
    }
    let mut attributes = node.attributes;
    attributes.insert(NODE_PARTITION.to_owned(), partition.to_string());
    Ok(NewNode { id, attributes, total, occupied, existing, draining })
}

/// What an `Allocation` message asks for.
fn spec_of(allocation: si::Allocation, form: Form) -> Result<AskSpec, Rejection> {
    let key: Arc<str> = Arc::from(allocation.allocation_key);
    check_key(&key)?;
    check_placeholder(&key, allocation.placeholder, &allocation.task_group_name)?;
    let resources = wanted(&key, allocation.resource_per_alloc.as_ref())?;
    let attributes = Attributes::of(&allocation.allocation_tags);
    Ok(AskSpec {
        key,
        resources,
        repeat: 1,
        priority: allocation.priority,
        created_ns: attributes.created_ns,
        required_node: attributes.required_node,
        originator: allocation.originator,
        preemption: preemption(allocation.preemption_policy.as_ref(), &allocation.allocation_tags),
        execution_timeout_ms: None,
        form,
        tags: shared(allocation.allocation_tags),
    })
}

fn foreign(key: &Arc<str>, allocation: &si::Allocation) -> Result<ForeignRequest, Rejection> {
    check_key(key)?;
    let resources = amount(key, allocation.resource_per_alloc.as_ref())?;
    if resources.has_negative() {
        return Err(Rejection::NegativeResource(Arc::clone(key)));
    }
    if allocation.node_id.is_empty() {
        let text = format!("trying to add a foreign request `{key}` without node");
        return Err(Rejection::NodeMissing(text));
    }
    let kind = allocation.allocation_tags.get(FOREIGN).map_or("", String::as_str);
    if kind != "static" && kind != "default" {
        tracing::warn!(%key, kind, "foreign allocation of an unknown kind taken as `default`");
    }
    Ok(ForeignRequest {
        key: Arc::clone(key),
        node: Arc::from(allocation.node_id.as_str()),
        resources,
        tags: shared(allocation.allocation_tags.clone()),
        preemptable: kind != "static",
    })
}

/// The tags of an ask that decide something (scheduler-interface chapter, 5.2).
struct Attributes {
    created_ns: Option<i64>,
    required_node: Option<Arc<str>>,
}

impl Attributes {
    fn of(tags: &BTreeMap<String, String>) -> Self {
        let seconds = tags.get(CREATION_TIME).and_then(|text| text.parse::<i64>().ok());
        let required = tags.get(REQUIRED_NODE).filter(|node| !node.is_empty());
        Self {
            created_ns: seconds.and_then(|seconds| seconds.checked_mul(1_000_000_000)),
            required_node: required.map(|node| Arc::from(node.as_str())),
        }
    }
}

/// May be preempted, may preempt others (D38).
fn preemption(
    policy: Option<&si::PreemptionPolicy>,
    tags: &BTreeMap<String, String>,
) -> (bool, bool) {
    match policy {
        Some(policy) => (policy.allow_preempt_self, policy.allow_preempt_other),
        None => (tags.get(ALLOW_PREEMPTION).is_none_or(|text| !is_false(text)), false),
    }
}

fn check_key(key: &Arc<str>) -> Result<(), Rejection> {
    match key.len() {
        0 => Err(Rejection::Key("missing")),
        1..=ID_BYTES => Ok(()),
        _ => Err(Rejection::Key("too long")),
    }
}

fn check_placeholder(key: &Arc<str>, placeholder: bool, group: &str) -> Result<(), Rejection> {
    match (placeholder, group.is_empty()) {
        (true, true) => Err(Rejection::PlaceholderWithoutGroup(Arc::clone(key))),
        (true, false) => {
            let id = Arc::clone(key);
            Err(Rejection::Unsupported { id, what: "gang scheduling (placeholder)" })
        }
        (false, _) => Ok(()),
    }
}

fn check_repeat(key: &Arc<str>, repeat: i32) -> Result<u32, Rejection> {
    match u32::try_from(repeat) {
        Ok(count @ 1..=MAX_REPEAT) => Ok(count),
        _ => Err(Rejection::Repeat { key: Arc::clone(key), repeat, limit: MAX_REPEAT }),
    }
}

/// An amount to be allocated: something, and nothing negative.
fn wanted(key: &Arc<str>, resource: Option<&si::Resource>) -> Result<Resources, Rejection> {
    let resources = amount(key, resource)?;
    if resources.has_negative() {
        return Err(Rejection::NegativeResource(Arc::clone(key)));
    }
    if resources.is_zero() {
        return Err(Rejection::NoResource(Arc::clone(key)));
    }
    Ok(resources)
}

/// An amount that a node reports, if it does.
fn counted(id: &Arc<str>, resource: Option<&si::Resource>) -> Result<Option<Resources>, Rejection> {
    let Some(resource) = resource else { return Ok(None) };
    let resources = amount(id, Some(resource))?;
    if resources.has_negative() {
        let why = format!("negative quantity in {resources}");
        return Err(Rejection::NodeInvalid { id: Arc::clone(id), why });
    }
    Ok(Some(resources.pruned()))
}

fn amount(id: &Arc<str>, resource: Option<&si::Resource>) -> Result<Resources, Rejection> {
    let mut resources = Resources::new();
    for (name, quantity) in resource.iter().flat_map(|resource| &resource.resources) {
        let name = Name::intern(name)
            .map_err(|error| Rejection::Names { id: Arc::clone(id), why: error.to_string() })?;
        resources.set(name, quantity.value);
    }
    Ok(resources)
}

fn shared(tags: BTreeMap<String, String>) -> Option<Tags> {
    (!tags.is_empty()).then(|| Arc::new(tags))
}

fn tag_ignoring_case<'a>(tags: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    tags.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True")
}

fn is_false(text: &str) -> bool {
    matches!(text, "0" | "f" | "F" | "FALSE" | "false" | "False")
}

fn first_of<'a>(one: &'a str, other: &'a str) -> &'a str {
    if one.is_empty() { other } else { one }
}
