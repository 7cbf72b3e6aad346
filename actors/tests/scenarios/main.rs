//! Scenarios as text, played against live actors in virtual time. A script lists what a resource
//! manager sends and what it is to receive (see `script`), so that scenarios do not depend on how
//! actors are built.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod decided;
mod ending;
mod given;
mod held_again;
mod held_predicates;
mod histories;
mod judge;
mod picture;
mod recording_callback;
mod reported;
mod script;
mod wire;
mod world;

mod allocations;
mod application_order;
mod applications;
mod asks;
mod assuming;
mod backoff;
mod clocks_ahead;
mod constraint_histories;
mod constraints;
mod crowded;
mod decisions;
mod declared_gangs;
mod ended;
mod event_batches;
mod events;
mod events_of_ends;
mod explained;
mod explained_cures;
mod explained_gangs;
mod failed_starts;
mod failure_log;
mod failures;
mod gang_histories;
mod gang_recovery;
mod gang_releases;
mod gang_swaps;
mod gang_timeouts;
mod gangs;
mod group_limits;
mod lent;
mod limits;
mod limits_cost;
mod lists;
mod long_rows;
mod long_steps;
mod lost_members;
mod messages;
mod native_gangs;
mod native_gangs_declarations;
mod native_gangs_ends;
mod native_gangs_held;
mod native_gangs_waiting;
mod native_histories;
mod nodes;
mod partition_states;
mod partitions;
mod placed_histories;
mod placement;
mod placement_traces;
mod pods;
mod preempted_for_nothing;
mod preempted_histories;
mod preempting_gangs;
mod preemption;
mod preemption_again;
mod preemption_asks;
mod preemption_bounds;
mod preemption_nodes;
mod preemption_priorities;
mod preemption_rules;
mod preemption_stays;
mod preemption_tries;
mod priorities;
mod queue_order;
mod quota_delays;
mod quota_preemption;
mod quotas;
mod reconfiguration;
mod reconfiguration_calls;
mod reconfigured_queues;
mod refused_applications;
mod refused_asks;
mod refused_nodes;
mod refused_reservations;
mod regrouping;
mod releases;
mod repeated;
mod reports_in_a_row;
mod required_nodes;
mod reservations;
mod reservations_ends;
mod reserved_histories;
mod run_limit;
mod scale_up;
mod scheduling;
mod sessions;
mod shown;
mod together;
mod topology;
mod topology_histories;
mod users;
mod utilization;
mod waiting;

#[test]
fn no_file_is_forgotten() {
    common::assert_all_named("tests/scenarios", include_str!("main.rs"));
}
