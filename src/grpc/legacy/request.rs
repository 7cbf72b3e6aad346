//! Translation of a legacy request to requests of the present streams, in the order in which
//! schedulers of that revision processed its lists: new applications, removed applications, asks,
//! ask releases, allocation releases, new nodes, updated nodes, reports. So an allocation that
//! comes with a node finds the application of the same message.
//!
//! # Invariant
//! * An item that cannot be translated is refused or ignored alone; the others continue.

use monoceros_actors::{Ignored, Overflow, Rejection};
use monoceros_proto::si::legacy::v0 as legacy;
use monoceros_proto::si::legacy::v0::allocation_release::TerminationType;
use monoceros_proto::si::legacy::v0::priority::Priority;
use monoceros_proto::si::legacy::v0::update_node_info::ActionFromRm;
use monoceros_proto::si::v1 as si;

use super::constraint::Constraint;
use super::echo::{Echo, Echoes};
use super::memory::AmountOverflow;
use super::options::LegacyOptions;

/// The tag that names the node an ask must run on.
pub(super) const REQUIRED_NODE: &str = "yunikorn.apache.org/requiredNode";

/// A translated request: operations in order, and immediate answers.
#[derive(Debug, Default)]
pub struct Operations {
    /// First: new and removed applications.
    pub application: si::ApplicationRequest,
    /// Second: asks and releases.
    pub allocation: si::AllocationRequest,
    /// Third: nodes.
    pub nodes: si::NodeRequest,
    /// Last: utilization reports.
    pub reports: Vec<si::UtilizationReport>,
    /// Rejections of items that could not be translated.
    pub refused: legacy::UpdateResponse,
    /// The reason for each ignored item.
    pub ignored: Vec<Ignored>,
}

/// The translation of one request.
struct Taking<'a> {
    options: &'a LegacyOptions,
    echoes: &'a mut Echoes,
    operations: Operations,
}

/// Translates a request.
pub fn operations(
    request: legacy::UpdateRequest,
    options: &LegacyOptions,
    echoes: &mut Echoes,
) -> Operations {
    let mut taking = Taking { options, echoes, operations: Operations::default() };
    for application in request.new_applications {
        taking.new_application(application);
    }
    taking.operations.application.remove = request.remove_applications;
    for ask in request.asks {
        taking.ask(ask);
    }
    if let Some(releases) = request.releases {
        taking.releases(releases);
    }
    for node in request.new_schedulable_nodes {
        taking.new_node(node);
    }
    for node in request.updated_nodes {
        taking.updated_node(node);
    }
    for report in request.utilization_reports {
        taking.report(report);
    }
    taking.operations
}

impl Taking<'_> {
    fn ignore(&mut self, reason: Ignored) {
        self.operations.ignored.push(reason);
    }

    fn new_application(&mut self, mut new: si::AddApplicationRequest) {
        if let Err(why) = self.options.memory.inward(&mut new.placeholder_ask) {
            let reason = overflow(&new.application_id, why);
            let application_id = new.application_id;
            let refused = si::RejectedApplication { application_id, reason };
            self.operations.refused.rejected_applications.push(refused);
            return;
        }
        self.operations.application.new.push(new);
    }

    fn ask(&mut self, ask: legacy::AllocationAsk) {
        let legacy::AllocationAsk {
            allocation_key,
            application_id,
            partition_name,
            mut resource_ask,
            max_allocations,
            priority,
            execution_timeout_milli_seconds,
            mut tags,
            placement_constraint,
            task_group_name,
            placeholder,
        } = ask;
        let mut refuse = |reason| {
            let (allocation_key, application_id) = (allocation_key.clone(), application_id.clone());
            let refused = si::RejectedAllocationAsk { allocation_key, application_id, reason };
            self.operations.refused.rejected_allocations.push(refused);
        };
        if let Err(why) = self.options.memory.inward(&mut resource_ask) {
            return refuse(overflow(&allocation_key, why));
        }
        let mut echo = Echo { priority: priority.clone(), ..Echo::default() };
        let constraint = Constraint::of(placement_constraint);
        match (constraint.required_node, tags.get(REQUIRED_NODE)) {
            (Some(node), Some(sent)) if *sent != node => {
                let what = format!("it names another node than the tag `{REQUIRED_NODE}`");
                let key = allocation_key.as_str().into();
                return refuse(Rejection::Constraint { key, what }.to_string());
            }
            (Some(node), None) => {
                tags.insert(REQUIRED_NODE.to_owned(), node);
                echo.hides_required_node = true;
            }
            _ => {}
        }
        let priority = self.priority(priority);
        let n = u32::try_from(max_allocations).unwrap_or(0);
        let named = (&*partition_name, &*application_id, &*allocation_key);
        self.echoes.asked(named, n, priority, echo);
        self.operations.allocation.asks.push(si::AllocationAsk {
            allocation_key,
            application_id,
            partition_name,
            resource_ask,
            max_allocations,
            priority,
            execution_timeout_milli_seconds,
            tags,
            task_group_name,
            placeholder,
            originator: false,
            preemption_policy: None,
            placement_constraint: constraint.placement,
        });
    }

    fn priority(&mut self, priority: Option<legacy::Priority>) -> i32 {
        match priority.and_then(|priority| priority.priority) {
            None => 0,
            Some(Priority::PriorityValue(value)) => value,
            Some(Priority::PriorityClassName(name)) => {
                if let Some(value) = self.options.priority_classes.get(&name) {
                    return *value;
                }
                tracing::warn!(name, "unknown class of priority taken as 0");
                self.ignore(Ignored::PriorityClass);
                0
            }
        }
    }

    fn releases(&mut self, releases: legacy::AllocationReleasesRequest) {
        let mut translated = si::AllocationReleasesRequest::default();
        for release in releases.allocation_asks_to_release {
            let legacy::AllocationAskRelease {
                partition_name,
                application_id,
                allocationkey: allocation_key,
                message,
            } = release;
            if allocation_key.is_empty() {
                self.echoes.forget_asks(&partition_name, &application_id);
            } else {
                self.echoes.forget_ask(&partition_name, &application_id, &allocation_key);
            }
            translated.allocation_asks_to_release.push(si::AllocationAskRelease {
                partition_name,
                application_id,
                allocation_key,
                termination_type: si::TerminationType::StoppedByRm.into(),
                message,
            });
        }
        for release in releases.allocations_to_release {
            let Some(termination_type) = self.termination(release.termination_type) else {
                continue;
            };
            let legacy::AllocationRelease { partition_name, application_id, uuid, message, .. } =
                release;
            if application_id.is_empty() {
                // In this dialect every allocation belongs to an application.
                self.ignore(Ignored::ReleaseOfNothing);
                continue;
            }
            translated.allocations_to_release.push(si::AllocationRelease {
                partition_name,
                application_id,
                uuid,
                termination_type: termination_type.into(),
                message,
                ..si::AllocationRelease::default()
            });
        }
        self.operations.allocation.releases = Some(translated);
    }

    /// Translates the termination type. An unknown one counts as stopped by the RM, or its item is
    /// ignored if enums are strict.
    fn termination(&mut self, sent: i32) -> Option<si::TerminationType> {
        match TerminationType::try_from(sent) {
            Ok(TerminationType::StoppedByRm) => Some(si::TerminationType::StoppedByRm),
            Ok(TerminationType::Timeout) => Some(si::TerminationType::Timeout),
            Ok(TerminationType::PreemptedByScheduler) => {
                Some(si::TerminationType::PreemptedByScheduler)
            }
            Ok(TerminationType::PlaceholderReplaced) => {
                Some(si::TerminationType::PlaceholderReplaced)
            }
            Err(_) => {
                self.ignore(Ignored::TerminationType);
                (!self.options.strict_enums).then_some(si::TerminationType::StoppedByRm)
            }
        }
    }

    fn new_node(&mut self, node: legacy::NewNodeInfo) {
        let legacy::NewNodeInfo {
            node_id,
            attributes,
            mut schedulable_resource,
            mut occupied_resource,
            existing_allocations,
        } = node;
        let memory = self.options.memory;
        let amounts = memory
            .inward(&mut schedulable_resource)
            .and_then(|()| memory.inward(&mut occupied_resource))
            .and_then(|()| {
                let existing = existing_allocations.into_iter();
                existing.map(|allocation| self.existing(allocation)).collect()
            });
        let existing_allocations = match amounts {
            Ok(existing) => existing,
            Err(why) => {
                let reason = overflow(&node_id, why);
                self.operations.refused.rejected_nodes.push(si::RejectedNode { node_id, reason });
                return;
            }
        };
        self.operations.nodes.nodes.push(si::NodeInfo {
            node_id,
            action: si::node_info::ActionFromRm::Create.into(),
            attributes,
            schedulable_resource,
            occupied_resource,
            existing_allocations,
        });
    }

    fn existing(
        &mut self,
        allocation: legacy::Allocation,
    ) -> Result<si::Allocation, AmountOverflow> {
        let legacy::Allocation {
            allocation_key,
            allocation_tags,
            uuid,
            mut resource_per_alloc,
            priority,
            node_id,
            application_id,
            partition_name,
            task_group_name,
            placeholder,
            queue_name: _,
        } = allocation;
        self.options.memory.inward(&mut resource_per_alloc)?;
        Ok(si::Allocation {
            // Schedulers of that revision refused an allocation without uuid; here the key replaces
            // it.
            uuid: if uuid.is_empty() { allocation_key.clone() } else { uuid },
            allocation_key,
            allocation_tags,
            resource_per_alloc,
            priority: self.priority(priority),
            node_id,
            application_id,
            partition_name,
            task_group_name,
            placeholder,
            ..si::Allocation::default()
        })
    }

    fn updated_node(&mut self, node: legacy::UpdateNodeInfo) {
        use si::node_info::ActionFromRm as Action;
        let legacy::UpdateNodeInfo {
            node_id,
            attributes,
            mut schedulable_resource,
            mut occupied_resource,
            action,
        } = node;
        let action = match ActionFromRm::try_from(action) {
            Ok(ActionFromRm::Update) => Action::Update,
            Ok(ActionFromRm::DrainNode) => Action::DrainNode,
            Ok(ActionFromRm::Decomission) => Action::Decomission,
            Ok(ActionFromRm::DrainToSchedulable) => Action::DrainToSchedulable,
            Err(_) => return self.ignore(Ignored::NodeAction),
        };
        let memory = self.options.memory;
        let amounts = memory
            .inward(&mut schedulable_resource)
            .and_then(|()| memory.inward(&mut occupied_resource));
        if amounts.is_err() {
            tracing::warn!(node = node_id, "node update ignored: resource overflow");
            return self.ignore(Ignored::NodeUpdate);
        }
        self.operations.nodes.nodes.push(si::NodeInfo {
            node_id,
            action: action.into(),
            attributes,
            schedulable_resource,
            occupied_resource,
            existing_allocations: vec![],
        });
    }

    fn report(&mut self, mut report: si::UtilizationReport) {
        match self.options.memory.inward(&mut report.actual_used_resource) {
            Ok(()) => self.operations.reports.push(report),
            Err(_) => self.ignore(Ignored::UtilizationReport),
        }
    }
}

fn overflow(id: &str, AmountOverflow(megabytes): AmountOverflow) -> String {
    let why = Overflow::Megabytes(megabytes);
    Rejection::Overflow { id: id.into(), why }.to_string()
}

#[cfg(test)]
mod tests;
