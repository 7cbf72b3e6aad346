//! Tests of starts and ends for each kind of row, alone and in gangs.

use std::sync::Arc;

use super::replay::Assumptions;
use super::start::replay_in_virtual_time;
use super::{ReplayOptions, Reservations, history, queues, read};

const MACHINES: &str = "sn,cpu_milli,memory_mib,gpu,model\nm1,4000,4096,2,T4\n";
const POD_COLUMNS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,\
                           creation_time,deletion_time,scheduled_time\n";

/// Replays the rows on one machine, and compares name, start, end and outcome of each pod.
fn check(rows: &[&str], expected: &[&str]) {
    assert_eq!(outcomes(MACHINES, rows, Reservations::AsByDefault), expected);
}

fn outcomes(machines: &str, rows: &[&str], reservations: Reservations) -> Vec<String> {
    outcomes_of(machines, &format!("{POD_COLUMNS}{}\n", rows.join("\n")), reservations)
}

/// Checks pods with a gang column, on two such machines.
fn check_gangs(rows: &[&str], expected: &[&str]) {
    let machines = format!("{MACHINES}m2,4000,4096,2,T4\n");
    let pods = format!("{},gang\n{}\n", POD_COLUMNS.trim_end(), rows.join("\n"));
    assert_eq!(outcomes_of(&machines, &pods, Reservations::AsByDefault), expected);
}

fn with(reservations: Reservations) -> ReplayOptions {
    ReplayOptions { reservations, assumptions: Assumptions::default(), seed: 0 }
}

fn outcomes_of(machines: &str, pods: &str, reservations: Reservations) -> Vec<String> {
    let trace = Arc::new(read::parse(machines, pods).unwrap());
    let queues = queues::default_queues(&trace);
    let history = replay_in_virtual_time(Arc::clone(&trace), queues, with(reservations)).unwrap();
    let second = |at: Option<i64>| at.map_or("-".to_owned(), |at| (at / 1000).to_string());
    let outcomes = trace.pods.iter().zip(&history.pods).map(|(pod, history)| {
        let (start, end) = (second(history.start), second(history.end));
        let outcome = match &history.outcome {
            history::PodOutcome::Rejected { .. } => "Rejected".to_owned(),
            outcome => format!("{outcome:?}"),
        };
        format!("{} {start} {end} {outcome}", pod.name)
    });
    outcomes.collect()
}

#[test]
fn a_delayed_pod_runs_its_whole_time() {
    check(
        &["a,3000,1,0,0,,LS,Running,100,150,100", "b,3000,1,0,0,,LS,Running,110,115,110"],
        &["a 100 150 Completed", "b 150 155 Completed"],
    );
}

#[test]
fn released_capacity_is_reused_in_the_same_second() {
    check(
        &["a,4000,1,0,0,,LS,Failed,0,10,0", "b,4000,1,0,0,,BE,Succeeded,10,20,10"],
        &["a 0 10 Completed", "b 10 20 Completed"],
    );
}

#[test]
fn unstarted_pods_are_wanted_until_their_deletion() {
    check(
        &[
            "a,4000,1,0,0,,LS,Running,0,50,0",
            "gives-up,4000,1,0,0,,BE,Pending,10,40,",
            "gets-some,4000,1,0,0,,BE,Pending,20,70,",
            "at-once,4000,1,0,0,,BE,Pending,30,30,",
        ],
        &[
            "a 0 50 Completed",
            "gives-up - - Withdrawn",
            "gets-some 50 70 Completed",
            "at-once - - Withdrawn",
        ],
    );
}

#[test]
fn pods_without_an_end_run_to_the_trace_end() {
    check(
        &[
            "open,1000,1,0,0,,LS,Running,0,,0",
            "backwards,1000,1,0,0,,LS,Failed,5,3,7",
            "zero,1000,1,0,0,,LS,Failed,6,6,6",
            "last,1000,1,0,0,,LS,Running,7,90,10",
        ],
        &[
            "open 0 90 Completed",
            "backwards 5 90 Completed",
            "zero 6 6 Completed",
            "last 7 87 Completed",
        ],
    );
}

#[test]
fn oversized_pods_stay_unplaced_and_empty_ones_rejected() {
    check(
        &[
            "other-model,1000,1,1,500,V100M16|V100M32,LS,Running,0,9,0",
            "this-model,1000,1,1,500,P100|T4,LS,Running,0,9,0",
            "too-many,1000,1,4,1000,,LS,Running,0,9,0",
            "nothing,0,0,0,0,,LS,Running,0,9,0",
        ],
        &[
            "other-model - - Unplaced",
            "this-model 0 9 Completed",
            "too-many - - Unplaced",
            "nothing - - Rejected",
        ],
    );
}

#[test]
fn shares_of_gpus_add_up_to_whole_ones() {
    check(
        &[
            "a,100,1,1,700,,LS,Running,0,9,0",
            "b,100,1,1,700,,LS,Running,1,9,1",
            "c,100,1,1,700,,LS,Running,2,9,2",
        ],
        &["a 0 9 Completed", "b 1 9 Completed", "c 9 16 Completed"],
    );
}

#[test]
fn a_large_pod_reserves_a_node_if_enabled() {
    // No pod fits on the second machine, whose capacity keeps quotas from limiting the pods.
    let machines = format!("{MACHINES}m2,4000,3000,0,\n");
    let rows = [
        "first,100,3200,0,0,,LS,Running,0,50,0",
        "large,100,3600,0,0,,LS,Running,5,60,50",
        "small,100,800,1,100,,LS,Running,10,100,10",
    ];
    let outcomes = |reservations| outcomes(&machines, &rows, reservations);
    assert_eq!(
        outcomes(Reservations::AsByDefault),
        ["first 0 50 Completed", "large 50 60 Completed", "small 60 150 Completed"],
    );
    assert_eq!(
        outcomes(Reservations::Never),
        ["first 0 50 Completed", "large 100 110 Completed", "small 10 100 Completed"],
    );
}

#[test]
fn a_gang_starts_at_once_or_waits() {
    check_gangs(
        &[
            "first,3000,1,0,0,,LS,Running,0,20,0,",
            "g1,3000,1,0,0,,LS,Running,5,15,5,g",
            "g2,3000,1,0,0,,LS,Running,5,25,5,g",
            "small,3000,1,0,0,,LS,Running,6,16,6,",
        ],
        &[
            "first 0 20 Completed",
            "g1 20 30 Completed",
            "g2 20 40 Completed",
            "small 6 16 Completed",
        ],
    );
}

#[test]
fn capacity_is_held_for_later_gang_pods() {
    check_gangs(
        &[
            "g1,3000,1,0,0,,LS,Running,0,100,0,g",
            "other,3000,1,0,0,,BE,Running,10,30,10,",
            "g2,3000,1,0,0,,LS,Running,50,90,50,g",
        ],
        &["g1 0 100 Completed", "other 90 110 Completed", "g2 50 90 Completed"],
    );
    // Places are held for at most a quarter of an hour. A pod that arrives later asks like any
    // other.
    check_gangs(
        &[
            "g1,3000,1,0,0,,LS,Running,0,2000,0,g",
            "other,3000,1,0,0,,BE,Running,10,1910,10,",
            "g2,3000,1,0,0,,LS,Running,1800,1900,1800,g",
        ],
        &["g1 0 2000 Completed", "other 900 2800 Completed", "g2 2000 2100 Completed"],
    );
}

#[test]
fn an_unplaceable_gang_pod_waits_while_others_run() {
    check_gangs(
        &[
            "g1,1000,1,0,0,,LS,Running,0,1000,0,g",
            "g2,1000,1,1,500,V100M16,LS,Running,0,50,0,g",
            "other,3000,1,0,0,,LS,Running,0,9,0,",
        ],
        &["g1 0 1000 Completed", "g2 - - Unplaced", "other 0 9 Completed"],
    );
}

/// Places are held for 15 minutes. 30 seconds later the scheduler ends the application.
#[test]
fn a_late_gang_pod_runs() {
    for later in [929, 930, 931, 5_000] {
        let late = format!("late,1000,1,0,0,,LS,Running,{later},{},{later},g", later + 10);
        let more =
            format!("more,1000,1,0,0,,LS,Running,{},{},{},g", later + 5, later + 7, later + 5);
        let last = format!(
            "last,1000,1,0,0,,LS,Running,{},{},{},g",
            later + 500,
            later + 510,
            later + 500
        );
        check_gangs(
            &["first,1000,1,0,0,,LS,Running,0,10,0,g", &late, &more, &last],
            &[
                "first 0 10 Completed",
                &format!("late {later} {} Completed", later + 10),
                &format!("more {} {} Completed", later + 5, later + 7),
                &format!("last {} {} Completed", later + 500, later + 510),
            ],
        );
    }
}
