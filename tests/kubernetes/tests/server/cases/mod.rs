//! What has to hold on a real API server.

mod admission;
mod chaos;
mod failing;
mod faults;
mod gangs;
mod placing;
mod predicates;
mod replicas;
mod ruling;

use futures::future::LocalBoxFuture;

use crate::cluster::Cluster;

type Case = for<'c> fn(&'c mut Cluster) -> LocalBoxFuture<'c, anyhow::Result<()>>;

macro_rules! cases {
    ($($module:ident::$case:ident,)*) => {
        vec![$((concat!(stringify!($module), "::", stringify!($case)), |cluster| {
            Box::pin($module::$case(cluster))
        })),*]
    };
}

/// All cases, by name.
pub fn all() -> Vec<(&'static str, Case)> {
    cases![
        placing::two_thousand_pods_on_a_hundred_nodes,
        placing::nodes_that_change_and_go,
        placing::another_scheduler_on_the_same_node,
        placing::a_namespace_with_a_quota,
        predicates::each_pod_goes_where_it_may,
        gangs::a_gang_of_eight_with_six_places_and_with_eight,
        gangs::a_gang_of_eight_that_keeps_apart_on_seven_hosts,
        gangs::a_pod_group_of_four_out_of_six,
        ruling::a_victim_goes_in_peace_and_its_room_is_used_when_it_is_gone,
        ruling::a_queue_at_its_maximum_and_a_user_at_a_limit,
        ruling::queues_that_cannot_be_used,
        ruling::rights_that_are_missing,
        ruling::pods_are_shown_by_their_names,
        failing::bindings_that_fail_in_every_way,
        failing::a_scheduler_killed_in_the_middle,
        failing::an_api_server_killed_for_ten_seconds,
        admission::nobody_states_another_user,
        admission::namespaces_with_a_label,
        admission::what_the_manifests_start,
        replicas::a_leader_that_is_killed,
        replicas::a_leader_that_is_paused,
        replicas::a_leader_that_leaves,
        chaos::a_minute_of_everything,
    ]
}
