//! Cases that must hold on a real API server.

mod admission;
mod arbiter;
mod chaos;
mod differential;
mod failing;
mod faults;
mod gangs;
mod neighbours;
mod placing;
mod podgroups;
mod predicates;
mod preemption;
mod remote;
mod replicas;
mod rights;
mod ruling;

pub use differential::Theirs;
use futures::future::LocalBoxFuture;

use crate::cluster::Cluster;

/// A case, which may change everything on its control plane.
pub type Case = for<'c> fn(&'c mut Cluster) -> LocalBoxFuture<'c, anyhow::Result<()>>;

macro_rules! cases {
    ($($module:ident::$case:ident,)*) => {
        vec![$((concat!(stringify!($module), "::", stringify!($case)), |cluster| {
            Box::pin($module::$case(cluster))
        })),*]
    };
}

/// All cases by name, in lanes. Cases of a lane share a control plane and run one after the other;
/// the lanes run side by side. Most cases wait rather than compute, for leases, back-offs and
/// servers that are down, so each lane has some of those.
pub fn lanes() -> [Vec<(&'static str, Case)>; 3] {
    [scheduling(), failures(), replicas()]
}

/// Placement and its reasons, also compared with kube-scheduler.
fn scheduling() -> Vec<(&'static str, Case)> {
    cases![
        placing::two_thousand_pods_on_a_hundred_nodes,
        placing::nodes_that_change_and_go,
        placing::another_scheduler_on_the_same_node,
        placing::a_namespace_with_a_quota,
        placing::a_node_that_an_operator_drains,
        placing::deleted_node_releases_the_usage_of_its_pods,
        placing::a_pod_that_is_resized_in_place,
        predicates::each_pod_goes_where_it_may,
        neighbours::taints_and_ports,
        neighbours::pods_near_and_far,
        gangs::a_gang_of_eight_with_six_places_and_with_eight,
        gangs::a_gang_of_eight_that_keeps_apart_on_seven_hosts,
        admission::nobody_states_another_user,
        admission::namespaces_with_a_label,
        admission::start_from_the_manifests,
        differential::selectors_and_affinity,
        differential::cordons_taints_and_tolerations,
        differential::numbers_of_taints,
        differential::features_that_nodes_declare,
        differential::ports_of_nodes,
        differential::affinity_and_anti_affinity,
        differential::spread_constraints,
        differential::claims_and_volumes,
        differential::requests_and_capacities,
        differential::random_rows,
        differential::victims_of_preemption,
        differential::pod_groups_as_a_whole,
        differential::reasons_of_conditions,
    ]
}

/// Groups, victims and queues; rights that are missing and requests that fail.
fn failures() -> Vec<(&'static str, Case)> {
    cases![
        podgroups::four_out_of_six,
        podgroups::group_created_after_its_pods,
        podgroups::group_with_a_lowered_minimum,
        podgroups::group_in_one_rack,
        podgroups::group_with_a_priority,
        podgroups::members_preempted_together,
        podgroups::scheduled_group_stays_scheduled,
        preemption::victim_ends_gracefully_before_its_room_is_used,
        preemption::priority_decides_the_victim,
        preemption::spent_budget_protects_its_pods,
        preemption::refused_eviction_is_retried_then_the_pod_deleted,
        ruling::a_queue_at_its_maximum_and_a_user_at_a_limit,
        ruling::queues_that_cannot_be_used,
        ruling::pods_are_shown_by_their_names,
        rights::none_at_all,
        rights::to_read_the_cluster,
        rights::to_hold_the_lease,
        rights::to_bind,
        rights::to_look_up_bindings,
        rights::to_write_conditions_and_events,
        rights::to_evict_victims,
        arbiter::every_case_of_a_store,
        arbiter::refusals_in_one_line,
        failing::bindings_that_fail_in_every_way,
        failing::bindings_that_are_not_answered,
        failing::a_scheduler_killed_in_the_middle,
        failing::an_api_server_killed_for_ten_seconds,
    ]
}

/// Replicas, a remote scheduler, and random changes.
fn replicas() -> Vec<(&'static str, Case)> {
    cases![
        chaos::a_minute_of_everything,
        replicas::a_leader_that_is_killed,
        replicas::a_leader_that_is_paused,
        replicas::a_leader_that_leaves,
        remote::two_hundred_pods_and_nothing_but_probes_beside,
        remote::a_gang_that_keeps_apart_on_too_few_hosts,
        remote::a_service_killed_in_the_middle,
        remote::a_shim_killed_in_the_middle,
        remote::a_service_that_is_not_there_yet,
        remote::queues_of_config_maps,
        remote::a_service_with_tls_and_tokens,
        remote::a_leader_that_is_killed,
        remote::a_leader_that_is_paused,
    ]
}
