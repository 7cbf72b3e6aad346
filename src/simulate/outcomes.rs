//! Tests: when each kind of row of a trace starts and ends, alone and in gangs.

use std::sync::Arc;

use super::replay::Assumptions;
use super::virtual_time::replay_in_virtual_time;
use super::{Replaying, Reservations, history, queues, read};

const MACHINES: &str = "sn,cpu_milli,memory_mib,gpu,model\nm1,4000,4096,2,T4\n";
const POD_COLUMNS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,\
                           creation_time,deletion_time,scheduled_time\n";

/// Replays the rows on one machine and tells for each pod: name, start, end and outcome.
fn check(rows: &[&str], expected: &[&str]) {
    assert_eq!(told(MACHINES, rows, Reservations::AsByDefault), expected);
}

fn told(machines: &str, rows: &[&str], reservations: Reservations) -> Vec<String> {
    told_of(machines, &format!("{POD_COLUMNS}{}\n", rows.join("\n")), reservations)
}

/// As [`check`], with a column for the gang of each pod, and with room for two such machines.
fn check_gangs(rows: &[&str], expected: &[&str]) {
    let machines = format!("{MACHINES}m2,4000,4096,2,T4\n");
    let pods = format!("{},gang\n{}\n", POD_COLUMNS.trim_end(), rows.join("\n"));
    assert_eq!(told_of(&machines, &pods, Reservations::AsByDefault), expected);
}

fn with(reservations: Reservations) -> Replaying {
    Replaying { reservations, assumptions: Assumptions::default(), seed: 0 }
}

fn told_of(machines: &str, pods: &str, reservations: Reservations) -> Vec<String> {
    let trace = Arc::new(read::parse(machines, pods).unwrap());
    let queues = queues::default_queues(&trace);
    let history = replay_in_virtual_time(Arc::clone(&trace), queues, with(reservations)).unwrap();
    let second = |at: Option<i64>| at.map_or("-".to_owned(), |at| (at / 1000).to_string());
    let told = trace.pods.iter().zip(&history.pods).map(|(pod, history)| {
        let (start, end) = (second(history.start), second(history.end));
        let outcome = match &history.outcome {
            history::PodOutcome::Rejected { .. } => "Rejected".to_owned(),
            outcome => format!("{outcome:?}"),
        };
        format!("{} {start} {end} {outcome}", pod.name)
    });
    told.collect()
}

#[test]
fn a_pod_waits_for_room_and_then_runs_its_whole_time() {
    check(
        &["a,3000,1,0,0,,LS,Running,100,150,100", "b,3000,1,0,0,,LS,Running,110,115,110"],
        &["a 100 150 Completed", "b 150 155 Completed"],
    );
}

#[test]
fn room_given_back_in_a_second_is_taken_in_that_second() {
    check(
        &["a,4000,1,0,0,,LS,Failed,0,10,0", "b,4000,1,0,0,,BE,Succeeded,10,20,10"],
        &["a 0 10 Completed", "b 10 20 Completed"],
    );
}

#[test]
fn pods_that_never_ran_are_wanted_until_they_were_deleted() {
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
fn pods_without_a_usable_end_run_to_the_end_of_the_trace() {
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
fn pods_that_fit_nowhere_stay_unplaced_and_those_that_ask_nothing_are_rejected() {
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
fn a_pod_that_waits_for_most_of_a_node_reserves_it_unless_nobody_does() {
    // The second machine has room for none of them, and keeps quotas out of it.
    let machines = format!("{MACHINES}m2,4000,3000,0,\n");
    let rows = [
        "first,100,3200,0,0,,LS,Running,0,50,0",
        "large,100,3600,0,0,,LS,Running,5,60,50",
        "small,100,800,1,100,,LS,Running,10,100,10",
    ];
    let told = |reservations| told(&machines, &rows, reservations);
    assert_eq!(
        told(Reservations::AsByDefault),
        ["first 0 50 Completed", "large 50 60 Completed", "small 60 150 Completed"],
    );
    assert_eq!(
        told(Reservations::Never),
        ["first 0 50 Completed", "large 100 110 Completed", "small 10 100 Completed"],
    );
}

#[test]
fn a_gang_starts_in_one_instant_or_waits_whole() {
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
fn room_is_held_for_the_pods_of_a_gang_that_have_still_to_come() {
    check_gangs(
        &[
            "g1,3000,1,0,0,,LS,Running,0,100,0,g",
            "other,3000,1,0,0,,BE,Running,10,30,10,",
            "g2,3000,1,0,0,,LS,Running,50,90,50,g",
        ],
        &["g1 0 100 Completed", "other 90 110 Completed", "g2 50 90 Completed"],
    );
    // For a quarter of an hour at most: then whoever comes later asks like any other.
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
fn a_pod_of_a_gang_that_no_machine_admits_waits_while_its_mates_run() {
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
fn a_pod_that_comes_long_after_the_others_of_its_gang_runs() {
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
