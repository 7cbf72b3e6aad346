//! Messages of the replay to the scheduler.
//!
//! Everything that is due at one time is sent together: releases first, then removed and new
//! applications, then asks.

use monoceros_proto::si::v1 as si;

use super::super::decisions::ask_key;
use super::{PARTITION, RM, Replay, ReplayError};

/// The messages of one time.
#[derive(Default)]
pub(super) struct InstantRequests {
    pub(super) releases: Vec<si::AllocationRelease>,
    pub(super) withdrawn: Vec<si::AllocationAskRelease>,
    pub(super) remove: Vec<si::RemoveApplicationRequest>,
    pub(super) new: Vec<si::AddApplicationRequest>,
    pub(super) asks: Vec<si::AllocationAsk>,
}

impl Replay {
    pub(super) async fn add_machines(&mut self) -> Result<(), ReplayError> {
        let nodes = self.trace.machines.iter().map(|machine| si::NodeInfo {
            node_id: machine.name.clone(),
            action: si::node_info::ActionFromRm::Create.into(),
            schedulable_resource: Some(machine.capacity.to_wire()),
            attributes: machine.attributes.clone(),
            ..si::NodeInfo::default()
        });
        let nodes = nodes.collect();
        let request = si::NodeRequest { nodes, rm_id: RM.to_owned(), ..si::NodeRequest::default() };
        self.scheduler.update_node(request).await?;
        self.settle().await
    }

    pub(super) async fn send(&self, batch: InstantRequests) -> Result<(), ReplayError> {
        let InstantRequests { releases, withdrawn, remove, new, asks } = batch;
        if !(releases.is_empty() && withdrawn.is_empty()) {
            let releases = si::AllocationReleasesRequest {
                allocations_to_release: releases,
                allocation_asks_to_release: withdrawn,
            };
            let request =
                si::AllocationRequest { releases: Some(releases), ..allocation_request() };
            self.scheduler.update_allocation(request).await?;
        }
        if !(remove.is_empty() && new.is_empty()) {
            let rm_id = RM.to_owned();
            let request = si::ApplicationRequest { new, remove, rm_id, ..Default::default() };
            self.scheduler.update_application(request).await?;
        }
        if !asks.is_empty() {
            let request = si::AllocationRequest { asks, ..allocation_request() };
            self.scheduler.update_allocation(request).await?;
        }
        Ok(())
    }

    pub(super) fn application(&self, pod: usize) -> si::AddApplicationRequest {
        let all_preempt = self.assumptions.all_preempt;
        si::AddApplicationRequest {
            application_id: self.trace.pods[pod].application().to_owned(),
            queue_name: self.pods[pod].queue.clone(),
            partition_name: PARTITION.to_owned(),
            ugi: Some(si::UserGroupInformation { user: RM.to_owned(), groups: Vec::new() }),
            task_groups: self.jobs.of_pod(pod).task_groups(&self.trace, all_preempt),
            ..si::AddApplicationRequest::default()
        }
    }

    pub(super) fn removal(&self, pod: usize) -> si::RemoveApplicationRequest {
        si::RemoveApplicationRequest {
            application_id: self.trace.pods[pod].application().to_owned(),
            partition_name: PARTITION.to_owned(),
        }
    }

    pub(super) fn withdrawal(&self, pod: usize, attempt: u32) -> si::AllocationAskRelease {
        let row = &self.trace.pods[pod];
        si::AllocationAskRelease {
            application_id: row.application().to_owned(),
            allocation_key: ask_key(&row.name, attempt),
            partition_name: PARTITION.to_owned(),
            ..si::AllocationAskRelease::default()
        }
    }

    pub(super) fn ask(&self, pod: usize, attempt: u32) -> si::AllocationAsk {
        let row = &self.trace.pods[pod];
        si::AllocationAsk {
            allocation_key: ask_key(&row.name, attempt),
            application_id: row.application().to_owned(),
            partition_name: PARTITION.to_owned(),
            resource_ask: Some(row.ask.to_wire()),
            max_allocations: 1,
            priority: row.wishes.priority.unwrap_or(0),
            tags: row.wishes.all_tags(),
            preemption_policy: row.wishes.policy(self.assumptions.all_preempt),
            task_group_name: self.jobs.of_pod(pod).group_of(pod, &self.trace).unwrap_or_default(),
            ..si::AllocationAsk::default()
        }
    }

    pub(super) fn release(
        &self,
        pod: usize,
        uuid: String,
        termination: si::TerminationType,
    ) -> si::AllocationRelease {
        si::AllocationRelease {
            partition_name: PARTITION.to_owned(),
            application_id: self.trace.pods[pod].application().to_owned(),
            uuid,
            termination_type: termination.into(),
            ..si::AllocationRelease::default()
        }
    }
}

fn allocation_request() -> si::AllocationRequest {
    si::AllocationRequest { rm_id: RM.to_owned(), ..si::AllocationRequest::default() }
}
