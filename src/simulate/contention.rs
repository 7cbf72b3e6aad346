//! Tests of replays in which pods compete: priorities, preemption and comparisons.

use std::sync::Arc;

use super::figures::figures;
use super::files::comparison_files;
use super::replay::Assumptions;
use super::{Comparison, ReplayOptions, Report, Reservations, read, validate};

const MACHINES: &str = "sn,cpu_milli,memory_mib,gpu,model\nm1,4000,4096,0,\n";
const COLUMNS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,\
                       creation_time,deletion_time,scheduled_time,priority,preempts\n";

/// Half of the machine is guaranteed to `ls`. `be` may use the rest.
fn queues(of_partition: &str) -> String {
    format!(
        "partitions:\n  - name: default\n    {of_partition}\n    queues:\n      - name: root\n        \
         submitacl: \"*\"\n        queues:\n          - name: ls\n            resources:\n              \
         guaranteed: {{vcore: 2}}\n          - name: be\n"
    )
}

/// Two pods of `be` hold the whole machine when a pod of `ls` arrives, which preempts.
const TAKES_BACK: &str = "old,2000,1,0,0,,BE,Running,0,1000,0,,\n\
                          new,2000,1,0,0,,BE,Running,1,1001,1,,\n\
                          owner,2000,1,0,0,,LS,Running,10,60,10,,yes\n";

fn report(rows: &str, queues: String, assumptions: Assumptions) -> Report {
    let trace = Arc::new(read::parse(MACHINES, &format!("{COLUMNS}{rows}")).unwrap());
    let options = ReplayOptions { reservations: Reservations::AsByDefault, assumptions, seed: 0 };
    options.report(&trace, queues).unwrap()
}

fn json(report: &Report) -> serde_json::Value {
    serde_json::from_str(&report.to_json().unwrap()).unwrap()
}

/// Returns name, first start, end and outcome of each pod.
fn outcomes(report: &Report) -> Vec<String> {
    let rows = json(report);
    let rows = rows["pods"].as_array().unwrap().iter();
    let row = |row: &serde_json::Value| {
        let (name, outcome) = (row["name"].as_str().unwrap(), row["outcome"].as_str().unwrap());
        format!("{name} {} {} {outcome}", row["start"], row["end"])
    };
    rows.map(row).collect()
}

#[test]
fn the_highest_priority_starts_first() {
    let rows = |high: &str| {
        format!(
            "first,4000,1,0,0,,LS,Running,0,10,0,,\n\
             low,4000,1,0,0,,LS,Running,1,11,1,-3,\n\
             none,4000,1,0,0,,LS,Running,2,12,2,,\n\
             high,4000,1,0,0,,LS,Running,3,13,3,{high},\n"
        )
    };
    let starts = |rows: &str| outcomes(&report(rows, queues(""), Assumptions::default()));
    assert_eq!(
        starts(&rows("7")),
        [
            "first 0.0 10.0 completed",
            "low 30.0 40.0 completed",
            "none 20.0 30.0 completed",
            "high 10.0 20.0 completed",
        ],
    );
    assert_eq!(starts(&rows(""))[3], "high 20.0 30.0 completed");
}

#[test]
fn an_eviction_costs_what_its_victim_had_done() {
    let report = report(TAKES_BACK, queues(""), Assumptions::default());
    assert_eq!(
        outcomes(&report),
        ["old 0.0 1000.0 completed", "new 1.0 1090.0 completed", "owner 40.0 90.0 completed"],
    );
    let json = json(&report);
    let evictions = &json["evictions"];
    assert_eq!(evictions["count"], 1);
    assert_eq!(evictions["by_grounds"][0]["queue"], "root.be");
    assert_eq!(evictions["by_grounds"][0]["grounds"], "guarantee");
    assert_eq!(evictions["by_grounds"][0]["for_queue"], "root.ls");
    assert_eq!(evictions["pods"][0]["pod"], "new");
    assert_eq!(evictions["pods"][0]["time"], 40.0);
    // From second 1 to second 40, `new` held 2000 thousandths of a core and 1 MiB.
    assert_eq!(evictions["wasted"]["vcore"], 39.0 * 2000.0);
    assert_eq!(evictions["wasted"]["memory"], 39.0 * f64::from(1 << 20));
    // Both pods of `be` ran for 1000 s in the end, `owner` for 50 s.
    let share = evictions["wasted_share"]["vcore"].as_f64().unwrap();
    assert!((share - 39.0 / 2089.0).abs() < 1e-6, "{share}");
    assert_eq!(json["totals"]["preemptions"], 1);
    assert_eq!(json["series"]["evictions"].as_array().unwrap().last().unwrap(), 1);
}

#[test]
fn fairness_is_reported_as_means_over_time() {
    let json = json(&report(TAKES_BACK, queues(""), Assumptions::default()));
    let fairness = &json["fairness"];
    // For 30 s `ls` has nothing of its entitlement. Then every queue has its entitlement, although
    // a pod of `be` is pending.
    assert_eq!(fairness["jain"], (0.5 * 30.0 + 50.0) / 80.0);
    assert_eq!(fairness["least_jain"], 0.5);
    assert_eq!(fairness["waited"], 80.0);
    let queues = fairness["queues"].as_array().unwrap();
    let queue = |at: usize| (&queues[at]["queue"], &queues[at]["served"], &queues[at]["short"]);
    assert_eq!(queue(0), (&"root.be".into(), &1.0.into(), &0.0.into()));
    assert_eq!(queue(1), (&"root.ls".into(), &0.625.into(), &30.0.into()));
    assert_eq!(fairness["over_time"]["until"].as_array().unwrap().len(), 8);
    // The first eighth of 1090 s ends after 136.25 s.
    assert_eq!(fairness["over_time"]["served"]["root.ls"][0], 0.625);
    assert!(fairness["over_time"]["served"]["root.ls"][1].is_null());
}

#[test]
fn victims_may_exit_late_and_keep_progress() {
    let with = |confirm_after, keep_progress| {
        let assumptions = Assumptions { confirm_after, keep_progress, all_preempt: false };
        let report = report(TAKES_BACK, queues(""), assumptions);
        let wasted = json(&report)["evictions"]["wasted"]["vcore"].as_f64().unwrap();
        (outcomes(&report)[1..].to_vec(), wasted)
    };
    let (outcomes, wasted) = with(5000, false);
    assert_eq!(outcomes, ["new 1.0 1095.0 completed", "owner 45.0 95.0 completed"]);
    assert!((wasted - 44.0 * 2000.0).abs() < 1e-9);
    let (outcomes, wasted) = with(0, true);
    assert_eq!(outcomes, ["new 1.0 1051.0 completed", "owner 40.0 90.0 completed"]);
    assert!(wasted.abs() < 1e-9);
    // Work done between the eviction and the exit is not kept.
    let (outcomes, wasted) = with(5000, true);
    assert_eq!(outcomes, ["new 1.0 1056.0 completed", "owner 45.0 95.0 completed"]);
    assert!((wasted - 5.0 * 2000.0).abs() < 1e-9);
}

#[test]
fn a_victim_that_ends_first_loses_nothing() {
    let rows = TAKES_BACK.replace("1,1001,1", "1,43,1");
    let assumptions = Assumptions { confirm_after: 5000, ..Assumptions::default() };
    let report = report(&rows, queues(""), assumptions);
    assert_eq!(
        outcomes(&report)[1..],
        ["new 1.0 43.0 completed".to_owned(), "owner 43.0 93.0 completed".to_owned()],
    );
    assert_eq!(json(&report)["evictions"]["count"], 0);
}

#[test]
fn only_pods_with_the_policy_preempt_by_default() {
    let rows = TAKES_BACK.replace("yes", "");
    let with = |all_preempt| {
        let assumptions = Assumptions { all_preempt, ..Assumptions::default() };
        outcomes(&report(&rows, queues(""), assumptions))[2].clone()
    };
    assert_eq!(with(false), "owner 1000.0 1050.0 completed");
    assert_eq!(with(true), "owner 40.0 90.0 completed");
}

#[test]
fn equal_configurations_have_no_differences() {
    let comparison = |of_a: &str, of_b: &str| {
        let with = |of: &str| report(TAKES_BACK, queues(of), Assumptions::default());
        Comparison::of(figures(&with(of_a)), figures(&with(of_b)))
    };
    let same = comparison("", "");
    let figures: serde_json::Value = serde_json::from_str(&same.to_json().unwrap()).unwrap();
    let figures = figures["figures"].as_array().unwrap();
    assert!(figures.len() > 30 && figures.iter().all(|it| it["difference"] == 0.0));
    assert_eq!(
        comparison_files(&same).unwrap(),
        comparison_files(&comparison("", "")).unwrap(),
        "to the byte"
    );

    let off = "preemption: {enabled: false}";
    let summary = super::summary::comparison_summary(&comparison("", off));
    let row = |name: &str| {
        let line = summary.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("evictions"), "evictions 1 0 -1");
    assert_eq!(row("root.be: guarantee"), "root.be: guarantee of root.ls 1 - -");
    assert_eq!(row("CPU wasted "), "CPU wasted 0.02 core h 0.00 core h -0.02 core h");
    assert_eq!(row("root.ls, longest"), "root.ls, longest 30 s 16 min 30 s +16 min 0 s");
    assert_eq!(
        row("root.ls, short"),
        "root.ls, short while it waited 30 s 16 min 30 s +16 min 0 s"
    );
    assert!(validate::check("queues.yaml".as_ref(), &queues(off)).is_some());
}
