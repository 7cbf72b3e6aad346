//! Translation of the scheduler's messages to the legacy dialect.
//!
//! One present response becomes one legacy response: clients process the lists of both in the same
//! order, so cause and effect keep their order.

use monoceros_actors::snapshot::NodeRecommendation;
use monoceros_proto::si::legacy::v0 as legacy;
use monoceros_proto::si::legacy::v0::allocation_release::TerminationType;
use monoceros_proto::si::v1 as si;

use super::echo::Echoes;
use super::options::LegacyOptions;
use super::request::REQUIRED_NODE;
use crate::grpc::admin::views::amount;

/// Translates decisions about asks and allocations.
pub fn allocation(
    response: si::AllocationResponse,
    options: &LegacyOptions,
    echoes: &mut Echoes,
) -> legacy::UpdateResponse {
    let new = response.new.into_iter().map(|new| new_allocation(new, options, echoes)).collect();
    let of_allocations = response.rejected_allocations.into_iter();
    let of_allocations = of_allocations.map(|rejected| {
        let si::RejectedAllocation { allocation_key, application_id, reason } = rejected;
        si::RejectedAllocationAsk { allocation_key, application_id, reason }
    });
    let rejected: Vec<_> = response.rejected.into_iter().chain(of_allocations).collect();
    for refused in &rejected {
        echoes.refused(&refused.application_id, &refused.allocation_key);
    }
    for given_up in &response.released_asks {
        let si::AllocationAskRelease { partition_name, application_id, allocation_key, .. } =
            given_up;
        echoes.forget_ask(partition_name, application_id, allocation_key);
    }
    legacy::UpdateResponse {
        new_allocations: new,
        rejected_allocations: rejected,
        released_allocations: response.released.into_iter().map(release).collect(),
        released_allocation_asks: response.released_asks.into_iter().map(ask_release).collect(),
        ..legacy::UpdateResponse::default()
    }
}

/// Translates decisions about applications.
pub fn application(response: si::ApplicationResponse) -> legacy::UpdateResponse {
    legacy::UpdateResponse {
        accepted_applications: response.accepted,
        rejected_applications: response.rejected,
        updated_applications: response.updated,
        ..legacy::UpdateResponse::default()
    }
}

/// Translates answers to nodes.
pub fn node(response: si::NodeResponse) -> legacy::UpdateResponse {
    legacy::UpdateResponse {
        accepted_nodes: response.accepted,
        rejected_nodes: response.rejected,
        ..legacy::UpdateResponse::default()
    }
}

/// Translates recommended node sizes. The legacy message has no field for the node, so its text
/// starts with the node id.
pub fn recommendations(
    found: Vec<NodeRecommendation>,
    options: &LegacyOptions,
) -> legacy::UpdateResponse {
    let recommendation = |found: NodeRecommendation| {
        let mut size = amount(&found.recommended);
        options.memory.outward(&mut size);
        let (node, kind) = (found.node, found.kind.text());
        si::NodeRecommendation {
            recommended_schedulable_resource: size,
            message: format!("node={node} kind={kind}; another size would suit what it carries"),
        }
    };
    legacy::UpdateResponse {
        node_recommendations: found.into_iter().map(recommendation).collect(),
        ..legacy::UpdateResponse::default()
    }
}

fn new_allocation(
    new: si::Allocation,
    options: &LegacyOptions,
    echoes: &mut Echoes,
) -> legacy::Allocation {
    let si::Allocation {
        allocation_key,
        mut allocation_tags,
        uuid,
        mut resource_per_alloc,
        priority,
        node_id,
        application_id,
        partition_name,
        task_group_name,
        placeholder,
        ..
    } = new;
    options.memory.outward(&mut resource_per_alloc);
    let echo = echoes.allocated(&partition_name, &application_id, &allocation_key, priority);
    if echo.hides_required_node {
        allocation_tags.remove(REQUIRED_NODE);
    }
    legacy::Allocation {
        queue_name: echoes.queue(&partition_name, &application_id),
        allocation_key,
        allocation_tags,
        uuid,
        resource_per_alloc,
        priority: echo.priority,
        node_id,
        application_id,
        partition_name,
        task_group_name,
        placeholder,
    }
}

fn release(release: si::AllocationRelease) -> legacy::AllocationRelease {
    let termination_type = match si::TerminationType::try_from(release.termination_type) {
        Ok(si::TerminationType::Timeout) => TerminationType::Timeout,
        Ok(si::TerminationType::PreemptedByScheduler) => TerminationType::PreemptedByScheduler,
        Ok(si::TerminationType::PlaceholderReplaced) => TerminationType::PlaceholderReplaced,
        // The last one is sent by RMs only, never by the scheduler.
        Ok(
            si::TerminationType::UnknownTerminationType
            | si::TerminationType::StoppedByRm
            | si::TerminationType::SchedulingFailedOnRm,
        )
        | Err(_) => TerminationType::StoppedByRm,
    };
    legacy::AllocationRelease {
        partition_name: release.partition_name,
        application_id: release.application_id,
        uuid: release.uuid,
        termination_type: termination_type.into(),
        message: release.message,
    }
}

fn ask_release(release: si::AllocationAskRelease) -> legacy::AllocationAskRelease {
    legacy::AllocationAskRelease {
        partition_name: release.partition_name,
        application_id: release.application_id,
        allocationkey: release.allocation_key,
        message: release.message,
    }
}

#[cfg(test)]
mod tests {
    use super::super::echo::Echo;
    use super::*;

    #[test]
    fn termination_types_are_shifted_back() {
        let types: Vec<i32> = (0..=6)
            .map(|termination_type| {
                release(si::AllocationRelease { termination_type, ..Default::default() })
                    .termination_type
            })
            .collect();
        assert_eq!(types, [0, 0, 1, 2, 3, 0, 0]);
    }

    #[test]
    fn translated_lists_keep_their_order() {
        let response = si::AllocationResponse {
            rejected: vec![si::RejectedAllocationAsk::default()],
            rejected_allocations: vec![si::RejectedAllocation::default()],
            released: vec![si::AllocationRelease::default()],
            released_asks: vec![si::AllocationAskRelease {
                allocation_key: "k".to_owned(),
                message: "why".to_owned(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let mut echoes = Echoes::default();
        let echo = Echo { hides_required_node: true, ..Echo::default() };
        echoes.asked(("default", "", "k"), 1, 0, echo);
        let translated = allocation(response, &LegacyOptions::default(), &mut echoes);
        assert!(echoes.is_empty(), "nothing is repeated of an ask that was given up");
        assert_eq!(translated.rejected_allocations.len(), 2);
        assert_eq!(translated.released_allocations.len(), 1);
        let withdrawn = &translated.released_allocation_asks[0];
        assert_eq!((&*withdrawn.allocationkey, &*withdrawn.message), ("k", "why"));
    }
}
