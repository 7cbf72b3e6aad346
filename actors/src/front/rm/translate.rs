//! The interface's messages as requests: everything that can be said of an item without looking at
//! the partition is said here (scheduler-interface chapter, 1.10 and 4).
//!
//! Items of one message that concern one application are one visit, up to a chunk's size, in the
//! order `allocations`, `asks`, ask releases, allocation releases (F11).

use std::sync::Arc;

use monoceros_config as config;
use monoceros_config::placement;
use monoceros_proto::si::v1 as si;
use monoceros_rules::work::allocations::Form;
use monoceros_rules::work::application::NewApplication;
use monoceros_rules::work::asks::AskSpec;
use monoceros_rules::work::identity::{Identity, UserError};
use monoceros_rules::work::rejection::{Ignored, Rejection};
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;

use super::checks::{
    Intake, amount, check_placeholder, counted, first_of, preemption, shared, task_group, wanted,
};
use super::{CHUNK, Rm};
use crate::api::users::Answers;
use crate::application::{Cause, Existing, Op, Which};
use crate::events::Event;
use crate::node::NodeChange;
use crate::partition::{ForeignRequest, NewNode, Request};
use crate::step::Notice;

const FOREIGN: &str = "foreign";
const NODE_PARTITION: &str = "si/node-partition";

/// A message in parts.
pub(super) struct Translated {
    /// For each partition, in order.
    pub(super) chunks: Vec<(Arc<str>, Vec<Request>)>,
    /// What names no partition of this RM: answered at once.
    pub(super) refused: Vec<Notice>,
}

/// Gathers the requests of one message, grouped by application.
struct Gathering {
    chunks: Vec<(Arc<str>, Vec<Request>)>,
    /// The chunk under construction of each partition, and where its applications are in it.
    open: Vec<(Arc<str>, Open)>,
    refused: Vec<Notice>,
    /// The partition that the last item named: the next one mostly names it, too.
    last: Option<(String, Arc<str>)>,
}

#[derive(Default)]
struct Open {
    requests: Vec<Request>,
    items: usize,
    applications: FxHashMap<Arc<str>, usize>,
}

impl Gathering {
    fn new() -> Self {
        Self { chunks: Vec::new(), open: Vec::new(), refused: Vec::new(), last: None }
    }

    fn op(&mut self, partition: &Arc<str>, id: Arc<str>, op: Op) {
        let open = self.open(partition);
        open.items += 1;
        if let Some(at) = open.applications.get(&id)
            && let Request::Application { ops, .. } = &mut open.requests[*at]
        {
            ops.push(op);
            return;
        }
        open.applications.insert(Arc::clone(&id), open.requests.len());
        open.requests.push(Request::Application { id, ops: vec![op] });
    }

    fn request(&mut self, partition: &Arc<str>, request: Request) {
        let open = self.open(partition);
        open.items += 1;
        open.requests.push(request);
    }

    fn ignore(&mut self, reason: Ignored) {
        self.refused.push(Notice::Ignored(reason));
    }

    fn open(&mut self, partition: &Arc<str>) -> &mut Open {
        let known = self.open.iter().position(|(name, _)| name == partition);
        let at = known.unwrap_or_else(|| {
            self.open.push((Arc::clone(partition), Open::default()));
            self.open.len() - 1
        });
        let open = &mut self.open[at].1;
        if open.items >= CHUNK {
            let full = std::mem::take(open);
            self.chunks.push((Arc::clone(partition), full.requests));
        }
        open
    }

    fn done(mut self) -> Translated {
        for (partition, open) in self.open {
            if !open.requests.is_empty() {
                self.chunks.push((partition, open.requests));
            }
        }
        Translated { chunks: self.chunks, refused: self.refused }
    }
}

impl Rm {
    /// The full name of the partition that a request names; `None`: this RM has none of that name.
    fn partition(&self, name: &str, gathering: &mut Gathering) -> Option<Arc<str>> {
        if let Some((last, partition)) = &gathering.last
            && last == name
        {
            return Some(Arc::clone(partition));
        }
        let partition: Arc<str> = Arc::from(self.partition_named(name)?);
        gathering.last = Some((name.to_owned(), Arc::clone(&partition)));
        Some(partition)
    }

    /// As [`Self::partition`], without remembering it.
    pub(super) fn partition_named(&self, name: &str) -> Option<String> {
        config::qualified_name(name, &self.id).ok().filter(|full| self.is_partition(full))
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
        let reject = |reason| Notice::AskRejected {
            form: Form::Ask,
            key: Arc::clone(&key),
            application: Arc::clone(&application),
            reason,
        };
        let Some(partition) = self.partition(&ask.partition_name, gathering) else {
            let (key, partition) = (Arc::clone(&key), ask.partition_name);
            let reason = Rejection::PartitionOfAllocation { key, partition };
            return gathering.refused.push(reject(reason));
        };
        let intake = &self.settings.intake;
        let checked = intake
            .check_key(&key)
            .and_then(|()| check_placeholder(&key, ask.placeholder, &ask.task_group_name))
            .and_then(|()| intake.check_repeat(&key, ask.max_allocations))
            .and_then(|repeat| Ok((repeat, wanted(&key, ask.resource_ask.as_ref())?)));
        let (repeat, resources) = match checked {
            Ok(checked) => checked,
            Err(reason) => return gathering.request(&partition, Request::Notice(reject(reason))),
        };
        let attributes = intake.attributes(&ask.tags);
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
            execution_timeout_ms: intake.execution_timeout(ask.execution_timeout_milli_seconds),
            task_group: task_group(ask.task_group_name),
            form: Form::Ask,
            tags: shared(ask.tags),
        };
        gathering.op(&partition, application, Op::Ask(Arc::new(spec)));
    }

    fn allocation(&self, allocation: si::Allocation, gathering: &mut Gathering) {
        let uuid = first_of(&allocation.uuid, &allocation.allocation_id).to_owned();
        let form = if uuid.is_empty() { Form::Unified } else { Form::Recovered };
        let key: Arc<str> = Arc::from(allocation.allocation_key.as_str());
        let application: Arc<str> = Arc::from(allocation.application_id.as_str());
        let reject = |reason| Notice::AskRejected {
            form,
            key: Arc::clone(&key),
            application: Arc::clone(&application),
            reason,
        };
        let Some(partition) = self.partition(&allocation.partition_name, gathering) else {
            let (key, partition) = (Arc::clone(&key), allocation.partition_name);
            let reason = Rejection::PartitionOfAllocation { key, partition };
            return gathering.refused.push(reject(reason));
        };
        if allocation.allocation_tags.contains_key(FOREIGN) {
            match foreign(&key, &allocation, &self.settings.intake) {
                Ok(foreign) => {
                    gathering.request(&partition, Request::Foreign(Box::new(foreign)));
                }
                Err(reason) => gathering.request(&partition, Request::Notice(reject(reason))),
            }
            return;
        }
        let node = allocation.node_id.clone();
        match spec_of(allocation, form, &self.settings.intake) {
            Err(reason) => gathering.request(&partition, Request::Notice(reject(reason))),
            Ok(spec) if node.is_empty() && form == Form::Recovered => {
                let text = format!("recovered allocation without node: `{}`", spec.key);
                let reason = Rejection::NodeMissing(text);
                gathering.request(&partition, Request::Notice(reject(reason)));
            }
            Ok(spec) if node.is_empty() => {
                gathering.op(&partition, application, Op::Unified(Arc::new(spec)));
            }
            Ok(spec) => {
                let uuid = if uuid.is_empty() { Arc::clone(&spec.key) } else { Arc::from(uuid) };
                let existing = Existing { spec: Arc::new(spec), uuid, node: Arc::from(node) };
                gathering.op(&partition, application, Op::Existing(Box::new(existing)));
            }
        }
    }

    fn ask_release(&self, release: &si::AllocationAskRelease, gathering: &mut Gathering) {
        let Some(partition) = self.partition(&release.partition_name, gathering) else {
            return gathering.ignore(Ignored::ReleaseOfUnknown);
        };
        match self.cause(release.termination_type, gathering) {
            // It confirms that a placeholder timed out: what is pending stays.
            None | Some(Cause::ConfirmedTimeout) => return,
            Some(_) => {}
        }
        if release.application_id.is_empty() {
            return gathering.ignore(Ignored::ReleaseOfNothing);
        }
        let key = Some(release.allocation_key.as_str()).filter(|key| !key.is_empty());
        let op = Op::WithdrawAsks(key.map(Arc::from));
        gathering.op(&partition, Arc::from(release.application_id.as_str()), op);
    }

    fn release(&self, release: &si::AllocationRelease, gathering: &mut Gathering) {
        let Some(partition) = self.partition(&release.partition_name, gathering) else {
            return gathering.ignore(Ignored::ReleaseOfUnknown);
        };
        let uuid = first_of(&release.uuid, &release.allocation_id);
        if release.application_id.is_empty() {
            let key = first_of(&release.allocation_key, uuid);
            if key.is_empty() {
                gathering.ignore(Ignored::ReleaseOfNothing);
            } else if self.cause(release.termination_type, gathering).is_some() {
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
        let Some(cause) = self.cause(release.termination_type, gathering) else { return };
        let is_for_good = cause == Cause::SchedulingFailed && release.exclude_node;
        let cause = if is_for_good { Cause::RefusedForGood } else { cause };
        let op = Op::Release { which, cause };
        gathering.op(&partition, Arc::from(release.application_id.as_str()), op);
    }

    /// Why the RM sends a release. A type that is not defined means that the RM stopped it, unless
    /// such releases are to be ignored (V42).
    fn cause(&self, termination_type: i32, gathering: &mut Gathering) -> Option<Cause> {
        match si::TerminationType::try_from(termination_type) {
            Ok(si::TerminationType::Timeout) => Some(Cause::ConfirmedTimeout),
            Ok(si::TerminationType::PreemptedByScheduler) => Some(Cause::ConfirmedPreemption),
            Ok(si::TerminationType::PlaceholderReplaced) => Some(Cause::ConfirmedReplacement),
            Ok(si::TerminationType::SchedulingFailedOnRm) => Some(Cause::SchedulingFailed),
            Ok(si::TerminationType::StoppedByRm | si::TerminationType::UnknownTerminationType) => {
                Some(Cause::Stopped)
            }
            Err(_) => {
                gathering.ignore(Ignored::TerminationType);
                (!self.strict_enums).then_some(Cause::Stopped)
            }
        }
    }

    /// `answers`: of the lookups that the request waited for.
    pub(super) fn translate_application(
        &mut self,
        request: si::ApplicationRequest,
        answers: &Answers,
    ) -> Translated {
        let mut gathering = Gathering::new();
        for new in request.new {
            let id: Arc<str> = Arc::from(new.application_id.as_str());
            let reject = |reason| Notice::ApplicationRejected { id: Arc::clone(&id), reason };
            let Some(partition) = self.partition(&new.partition_name, &mut gathering) else {
                let (id, partition) = (Arc::clone(&id), new.partition_name);
                let reason = Rejection::PartitionOfApplication { id, partition };
                gathering.refused.push(reject(reason));
                continue;
            };
            // A partition that is lost takes nothing.
            let Some(held) = self.partitions.get_mut(&partition) else { continue };
            let owner = |ugi, forced| held.users.owner(ugi, forced, answers);
            let request = match new_application(new, &self.settings.intake, owner) {
                Ok(new) => Request::AddApplication(Box::new(new)),
                Err(reason) => Request::Notice(reject(reason)),
            };
            gathering.request(&partition, request);
        }
        for remove in request.remove {
            if let Some(partition) = self.partition(&remove.partition_name, &mut gathering) {
                let request = Request::RemoveApplication(Arc::from(remove.application_id));
                gathering.request(&partition, request);
            } else {
                gathering.ignore(Ignored::RemovalOfUnknown);
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
        let reject = |reason| Notice::NodeRejected { id: Arc::clone(&id), reason };
        let named = node.attributes.get(NODE_PARTITION).map_or("", String::as_str);
        let action = Action::try_from(node.action).unwrap_or(Action::UnknownActionFromRm);
        let Some(partition) = self.partition(named, gathering) else {
            let reason =
                Rejection::PartitionOfNode { id: Arc::clone(&id), partition: named.to_owned() };
            if matches!(action, Action::Create | Action::CreateDrain) {
                gathering.refused.extend(self.schedulable(&id, action == Action::Create));
                return gathering.refused.push(reject(reason));
            }
            if self.settings.intake.rejects_node_updates {
                return gathering.refused.push(reject(reason));
            }
            tracing::warn!(rm = %self.id, node = %id, %reason, "node update ignored");
            return gathering.ignore(Ignored::NodeUnknown);
        };
        let request = match action {
            Action::UnknownActionFromRm => {
                let action = node.action;
                Request::Notice(reject(Rejection::NodeAction { id: Arc::clone(&id), action }))
            }
            Action::Create | Action::CreateDrain => {
                let draining = action == Action::CreateDrain;
                match new_node(Arc::clone(&id), node, draining, &partition, &self.settings.intake) {
                    Ok(new) => Request::CreateNode(Box::new(new)),
                    Err(reason) => Request::Notice(reject(reason)),
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
                            change: NodeChange::Update { total, occupied, attributes },
                        }
                    }
                    Err(reason) => {
                        tracing::warn!(rm = %self.id, node = %id, %reason, "node update ignored");
                        return gathering.ignore(Ignored::NodeUpdate);
                    }
                }
            }
            Action::DrainNode => {
                Request::ChangeNode { id: Arc::clone(&id), change: NodeChange::Drain(true) }
            }
            Action::DrainToSchedulable => {
                Request::ChangeNode { id: Arc::clone(&id), change: NodeChange::Drain(false) }
            }
            Action::Decomission => Request::RemoveNode(Arc::clone(&id)),
        };
        gathering.request(&partition, request);
    }

    /// The event of a node that comes, though to no partition (N3).
    fn schedulable(&self, id: &Arc<str>, open: bool) -> Option<Notice> {
        let event = || Event::schedulable(id, open, self.clock.now_ns());
        self.events.tracking().is_on().then(|| Notice::Happened(Box::new(event())))
    }

    /// A mark for every partition; the reply comes when the last has been passed on.
    pub(super) fn translate_barrier(&self, reply: oneshot::Sender<()>) -> Translated {
        let reply = Arc::new(Barrier { reply: Some(reply) });
        let chunk =
            |name: &Arc<str>| (Arc::clone(name), vec![Request::Barrier(Arc::clone(&reply))]);
        Translated { chunks: self.partitions.keys().map(chunk).collect(), refused: Vec::new() }
    }
}

/// Answers when the last copy is gone.
#[derive(Debug)]
pub(crate) struct Barrier {
    reply: Option<oneshot::Sender<()>>,
}

impl Drop for Barrier {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(());
        }
    }
}

fn new_application(
    new: si::AddApplicationRequest,
    intake: &Intake,
    owner: impl FnOnce(si::UserGroupInformation, bool) -> Result<Identity, UserError>,
) -> Result<NewApplication, Rejection> {
    intake.check_id(&new.application_id).map_err(Rejection::ApplicationId)?;
    let id: Arc<str> = Arc::from(new.application_id);
    let placeholders = amount(&id, new.placeholder_ask.as_ref())?;
    if placeholders.has_negative() {
        return Err(Rejection::NegativePlaceholders(id));
    }
    let forced = placement::is_forced(&new.tags);
    let owner = owner(new.ugi.unwrap_or_default(), forced);
    let Identity { user, groups } =
        owner.map_err(|why| Rejection::User { id: Arc::clone(&id), why })?;
    let user = Arc::from(user);
    let (queue, tags) = (new.queue_name, shared(new.tags));
    Ok(NewApplication { id, queue, user, groups, tags, placeholder_ask: placeholders })
}

fn new_node(
    id: Arc<str>,
    node: si::NodeInfo,
    draining: bool,
    partition: &Arc<str>,
    intake: &Intake,
) -> Result<NewNode, Rejection> {
    let invalid = |why: &str| Rejection::NodeInvalid { id: Arc::clone(&id), why: why.to_owned() };
    if id.is_empty() {
        return Err(invalid("nodeID missing"));
    }
    if intake.check_id(&id).is_err() {
        return Err(Rejection::NodeInvalid { id: Arc::from(""), why: "nodeID too long".into() });
    }
    let total = counted(&id, node.schedulable_resource.as_ref())?.unwrap_or_default();
    let occupied = counted(&id, node.occupied_resource.as_ref())?.unwrap_or_default();
    let mut existing = Vec::new();
    for allocation in node.existing_allocations {
        let uuid = first_of(&allocation.uuid, &allocation.allocation_id).to_owned();
        let application: Arc<str> = Arc::from(allocation.application_id.as_str());
        let spec = spec_of(allocation, Form::Recovered, intake)?;
        let uuid = if uuid.is_empty() { Arc::clone(&spec.key) } else { Arc::from(uuid) };
        existing
            .push((application, Existing { spec: Arc::new(spec), uuid, node: Arc::clone(&id) }));
    }
    let mut attributes = node.attributes;
    attributes.insert(NODE_PARTITION.to_owned(), partition.to_string());
    Ok(NewNode { id, attributes, total, occupied, existing, draining })
}

/// What an `Allocation` message asks for.
fn spec_of(allocation: si::Allocation, form: Form, intake: &Intake) -> Result<AskSpec, Rejection> {
    let key: Arc<str> = Arc::from(allocation.allocation_key);
    intake.check_key(&key)?;
    check_placeholder(&key, allocation.placeholder, &allocation.task_group_name)?;
    let resources = wanted(&key, allocation.resource_per_alloc.as_ref())?;
    let attributes = intake.attributes(&allocation.allocation_tags);
    Ok(AskSpec {
        key,
        resources,
        repeat: 1,
        priority: allocation.priority,
        created_ns: attributes.created_ns,
        required_node: attributes.required_node,
        originator: allocation.originator,
        preemption: preemption(allocation.preemption_policy.as_ref(), &allocation.allocation_tags),
        task_group: task_group(allocation.task_group_name),
        execution_timeout_ms: None,
        form,
        tags: shared(allocation.allocation_tags),
    })
}

fn foreign(
    key: &Arc<str>,
    allocation: &si::Allocation,
    intake: &Intake,
) -> Result<ForeignRequest, Rejection> {
    intake.check_key(key)?;
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
