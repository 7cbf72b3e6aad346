//! `monoceros simulate` with priorities, preemption and constraints, and with two configurations.
//! The expected numbers were computed by hand. Mistakes in files are reported with file and line.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::harness::{TempFile, run};

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nm1,4000,4096,0,\n";
const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,\
                    deletion_time,scheduled_time";

/// Four pods of `be` fill the machine, a core each for 100 s. At 10 s a pod of `ls` arrives, which
/// wants two cores for 50 s and is marked as not preempting.
const FULL: &str = "batch-1,1000,1,0,0,,BE,Running,0,100,0,\n\
                    batch-2,1000,1,0,0,,BE,Running,1,101,1,\n\
                    batch-3,1000,1,0,0,,BE,Running,2,102,2,\n\
                    batch-4,1000,1,0,0,,BE,Running,3,103,3,\n\
                    web,2000,1,0,0,,LS,Running,10,60,10,no\n";

/// Half of the machine is guaranteed to `ls`.
fn queues(of_partition: &str) -> String {
    format!(
        "partitions:\n  - name: default\n    {of_partition}\n    queues:\n      - name: root\n        \
         submitacl: \"*\"\n        queues:\n          - name: ls\n            resources:\n              \
         guaranteed: {{vcore: 2}}\n          - name: be\n"
    )
}

/// A folder for a report, which does not exist yet and is removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static N_FOLDERS: AtomicUsize = AtomicUsize::new(0);
        let (process, number) = (std::process::id(), N_FOLDERS.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(format!("monoceros-report-{process}-{number}")))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn json(&self, name: &str) -> Value {
        let text = std::fs::read_to_string(self.0.join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The files of a trace, and the folder of its report.
struct Trace {
    nodes: TempFile,
    pods: TempFile,
    report: Folder,
}

impl Trace {
    /// Pods with the usual columns and these.
    fn new(nodes: &str, columns: &str, rows: &str) -> Self {
        Self {
            nodes: TempFile::new("nodes.csv", nodes),
            pods: TempFile::new("pods.csv", &format!("{PODS}{columns}\n{rows}")),
            report: Folder::new(),
        }
    }

    fn simulate(&self, more: &[&str]) -> (Option<i32>, String, String) {
        let files = ["simulate", "--nodes", self.nodes.path(), "--pods", self.pods.path()];
        let report = ["--report", self.report.path()];
        run(&[&files[..], &report, more].concat())
    }

    /// Runs the replay, and returns its output.
    fn replayed(&self, more: &[&str]) -> String {
        let (code, stdout, stderr) = self.simulate(more);
        assert_eq!((code, &*stderr), (Some(0), ""), "{stdout}");
        stdout
    }

    /// Expects an error, and returns its text.
    fn refused(&self, more: &[&str]) -> String {
        let (code, stdout, stderr) = self.simulate(more);
        assert_eq!((code, &*stdout), (Some(1), ""), "{stderr}");
        assert!(!Path::new(self.report.path()).exists(), "a report of nothing");
        stderr
    }
}

/// Returns a line of a printed table, with single spaces.
fn line(text: &str, begins: &str) -> String {
    let line = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut lines = line.filter(|line| line.starts_with(begins));
    lines.next().unwrap_or_else(|| panic!("no line begins with {begins:?} in\n{text}"))
}

/// Returns name, first start, end and node of each pod.
fn table_rows(report: &Value) -> Vec<String> {
    let pods = report["pods"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |pod: &Value| ["name", "start", "end", "node"].map(|field| text(&pod[field]));
    pods.map(|pod| row(pod).join(" ")).collect()
}

fn close(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap();
    assert!((value - expected).abs() < 1e-6, "{value} instead of {expected}");
}

#[test]
fn the_report_has_eviction_costs_and_fairness() {
    let trace = Trace::new(NODES, ",preempts", FULL);
    // This file overrides the columns of the pods' file.
    let wishes = TempFile::new("wishes.csv", "name,preempts,priority\nweb,yes,5\n");
    let queues = TempFile::new("queues.yaml", &queues(""));
    let stdout = trace.replayed(&[
        "--wishes",
        wishes.path(),
        "--queues",
        queues.path(),
        "--confirm-after",
        "5",
    ]);
    let report = trace.report.json("report.json");

    // After 30 s `web` preempts the two newest pods, which are gone 5 s later. They start again
    // when `web` ends at 95 s.
    assert_eq!(
        table_rows(&report),
        [
            "batch-1 0.0 100.0 m1",
            "batch-2 1.0 101.0 m1",
            "batch-3 2.0 195.0 m1",
            "batch-4 3.0 195.0 m1",
            "web 45.0 95.0 m1",
        ]
    );
    let evictions = &report["evictions"];
    assert_eq!(evictions["count"], 2);
    let rows = evictions["pods"].as_array().unwrap().iter();
    let row =
        |row: &Value| format!("{} {} {} {}", row["pod"], row["time"], row["ran"], row["lost"]);
    let mut rows: Vec<_> = rows.map(row).collect();
    rows.sort();
    assert_eq!(rows, [r#""batch-3" 45.0 43.0 43.0"#, r#""batch-4" 45.0 42.0 42.0"#]);
    let [grounds] = &evictions["by_grounds"].as_array().unwrap()[..] else {
        panic!("{evictions}");
    };
    assert_eq!(
        [&grounds["queue"], &grounds["grounds"], &grounds["for_queue"], &grounds["count"]],
        [&"root.be".into(), &"guarantee".into(), &"root.ls".into(), &Value::from(2)],
    );
    // A core for 43 s and one for 42 s, of the amounts held by `batch-1` to `batch-4` and `web`:
    // 100, 100, 143, 142 and twice 50 s of a core.
    close(&evictions["wasted"]["vcore"], 85_000.0);
    close(&evictions["wasted_share"]["vcore"], 85.0 / 585.0);
    close(&evictions["wasted"]["memory"], 85.0 * f64::from(1 << 20));

    // From 10 to 45 s `ls` has nothing of its two cores, then both until 95 s. A pod is pending all
    // the time.
    let fairness = &report["fairness"];
    close(&fairness["waited"], 85.0);
    close(&fairness["jain"], (0.5 * 35.0 + 50.0) / 85.0);
    close(&fairness["least_jain"], 0.5);
    let [be, ls] = &fairness["queues"].as_array().unwrap()[..] else { panic!("{fairness}") };
    assert_eq!((&be["queue"], &ls["queue"]), (&"root.be".into(), &"root.ls".into()));
    close(&ls["served"], 50.0 / 85.0);
    close(&ls["short"], 35.0);
    close(&ls["of_owed"], 50.0 / 195.0);
    // `be` is entitled to the other two cores, and held one core for 1 + 1 + 94 s more or less than
    // that.
    close(&be["served"], 1.0);
    close(&be["short"], 0.0);
    let held = 1.0 + 2.0 + 3.0 + 4.0 * 42.0 + 2.0 * 50.0 + 4.0 * 5.0 + 3.0 + 2.0 * 94.0;
    close(&be["of_owed"], held / 2.0 / 195.0);

    assert_eq!(line(&stdout, "preemptions"), "preemptions 2");
    assert_eq!(line(&stdout, "makespan"), "makespan 3 min 15 s");
    let page = std::fs::read_to_string(trace.report.0.join("index.html")).unwrap();
    let row = "<td>root.be</td><td>guarantee</td><td>root.ls</td><td class=\"n\">2</td>";
    assert!(page.contains(row), "{page}");
}

/// Two victims end by themselves long before their exit would be confirmed.
#[test]
fn the_last_pod_ends_the_makespan() {
    let trace = Trace::new(NODES, ",preempts", &FULL.replace(",no\n", ",yes\n"));
    let queues = TempFile::new("queues.yaml", &queues(""));
    let stdout = trace.replayed(&["--queues", queues.path(), "--confirm-after", "1000"]);
    let report = trace.report.json("report.json");
    assert_eq!(report["evictions"]["count"], 0);
    assert_eq!(table_rows(&report)[4], "web 101.0 151.0 m1");
    close(&report["totals"]["makespan"], 151.0);
    assert_eq!(line(&stdout, "makespan"), "makespan 2 min 31 s");
}

#[test]
fn two_policies_give_one_comparison_of_both() {
    let trace = Trace::new(NODES, ",preempts", &FULL.replace(",no\n", ",\n"));
    let a = TempFile::new("a.yaml", &queues(""));
    let b = TempFile::new("b.yaml", &queues("preemption: {enabled: false}"));
    let stdout = trace.replayed(&["--compare", a.path(), b.path(), "--all-preempt"]);

    // Under `a` it starts at 40 s. Under `b` it is pending until two pods of `be` end, at 101 s.
    let figures = trace.report.json("compare.json");
    let figures = figures["figures"].as_array().unwrap();
    let check = |name: &str, expected: [Option<f64>; 3]| {
        let same: Vec<_> = figures.iter().filter(|it| it["figure"] == name).collect();
        let [row] = same[..] else { panic!("{name}: {same:?}") };
        assert_eq!(["a", "b", "difference"].map(|it| row[it].as_f64()), expected, "{name}");
    };
    check("evictions", [Some(2.0), Some(0.0), Some(-2.0)]);
    check("  root.be: guarantee of root.ls", [Some(2.0), None, None]);
    // 38 s and 37 s of a core.
    check("CPU wasted", [Some(75_000.0), Some(0.0), Some(-75_000.0)]);
    check("root.ls, longest", [Some(30.0), Some(91.0), Some(61.0)]);
    check("root.ls, short while it waited", [Some(30.0), Some(91.0), Some(61.0)]);
    check("root.be, longest", [Some(0.0), Some(0.0), Some(0.0)]);
    // Two pods of `be` start again at 90 s. `web` under `b` is the last to end.
    check("makespan", [Some(190.0), Some(151.0), Some(-39.0)]);
    check("completed", [Some(5.0), Some(5.0), Some(0.0)]);

    assert_eq!(line(&stdout, "evictions"), "evictions 2 0 -2");
    assert_eq!(line(&stdout, "root.ls, longest"), "root.ls, longest 30 s 1 min 31 s +1 min 1 s");
    assert_eq!(stdout.matches("makespan").count(), 1, "one summary, not two\n{stdout}");
    assert!(stdout.ends_with(&format!("{}/index.html\n", trace.report.path())), "{stdout}");
    let page = std::fs::read_to_string(trace.report.0.join("index.html")).unwrap();
    for (name, begins) in [("a", "web 40.0 90.0 m1"), ("b", "web 101.0 151.0 m1")] {
        assert!(page.contains(&format!("href=\"{name}/index.html\"")), "{page}");
        assert!(trace.report.0.join(name).join("index.html").exists());
        let report = trace.report.json(&format!("{name}/report.json"));
        assert_eq!(table_rows(&report)[4], begins);
        assert_eq!(report["assumptions"]["all_preempt"], true);
    }
    assert!(!trace.report.0.join("report.json").exists(), "it has no report of its own");
}

#[test]
fn priorities_and_constraints_decide_start_and_node() {
    let nodes = "sn,cpu_milli,memory_mib,gpu,model,attributes\n\
                 east,1000,4096,0,,\"{\"\"zone\"\": \"\"e\"\"}\"\n\
                 west,1000,4096,0,,\"{\"\"zone\"\": \"\"w\"\"}\"\n";
    let constraint = "{\"simpleConstraint\": {\"nodeAffinityConstraint\": {\"targetExpressions\": \
                      [{\"targetKey\": \"zone\", \"targetValues\": [\"w\"]}]}}}";
    let constraint = constraint.replace('"', "\"\"");
    let rows = "first,1000,1,0,0,,LS,Running,0,50,0,\n\
                second,1000,1,0,0,,LS,Running,1,61,1,\n\
                low,1000,1,0,0,,LS,Running,2,12,2,-1\n\
                high,1000,1,0,0,,LS,Running,3,13,3,9\n\
                bound,1000,1,0,0,,LS,Running,4,14,4,100\n";
    let trace = Trace::new(nodes, ",priority", rows);
    // `second` runs in the west, so `first` runs in the east.
    let wishes = format!("name,constraint\nsecond,\"{constraint}\"\nbound,\"{constraint}\"\n");
    let wishes = TempFile::new("wishes.csv", &wishes);
    trace.replayed(&["--wishes", wishes.path()]);
    assert_eq!(
        table_rows(&trace.report.json("report.json")),
        [
            "first 0.0 50.0 east",
            "second 1.0 61.0 west",
            "low 60.0 70.0 east",
            "high 50.0 60.0 east",
            "bound 61.0 71.0 west",
        ]
    );
}

/// A pod that runs for 50 seconds.
const POD: &str = "a,1000,1,0,0,,LS,Running,0,50,0";

#[test]
fn mistakes_in_the_pod_file_have_line_and_column() {
    for (column, field, expected) in [
        (",priority", ",urgent", ":2: column `priority`: `urgent` is not a whole number"),
        (",preempts", ",maybe", ":2: column `preempts`: `maybe` is neither `true` nor `false`"),
        (",constraint", ",zone=w", ":2: column `constraint`: is not a JSON object"),
        (",priority", "", ":2: has 11 fields, the header has 12"),
    ] {
        let trace = Trace::new(NODES, column, &format!("{POD}{field}\n"));
        let (stderr, expected) = (trace.refused(&[]), format!("{}{expected}", trace.pods.path()));
        assert!(stderr.contains(&expected), "{expected}:\n{stderr}");
    }
}

#[test]
fn mistakes_in_the_wish_file_have_line_and_column() {
    let trace = Trace::new(NODES, "", &format!("{POD}\n"));
    for (wishes, expected) in [
        ("name,priority\na,urgent", ":2: column `priority`: `urgent` is not a whole number"),
        ("name,priority\na,1\nz,1", ":3: column `name`: there is no pod `z`"),
        ("name,priority\na,1,2", ":2: has 3 fields, the header has 2"),
        ("pod,priority\na,1", ":1: column `name`: is missing in the header"),
        ("name,importance\na,1", ":1: has none of the columns `priority`"),
        ("name,constraint\na,zone=w", ":2: column `constraint`: is not a JSON object"),
        (
            "name,constraint\na,\"{\"\"simpleConstraint\"\": 7}\"",
            ":2: column `constraint`: is not a placement constraint: ",
        ),
    ] {
        let wishes = TempFile::new("wishes.csv", &format!("{wishes}\n"));
        let stderr = trace.refused(&["--wishes", wishes.path()]);
        let expected = format!("{}{expected}", wishes.path());
        assert!(stderr.contains(&expected), "{expected}:\n{stderr}");
    }
}

#[test]
fn mistakes_of_all_files_are_told_together() {
    let nodes = "sn,cpu_milli,gpu,model\nm1,4000,0,\n";
    let trace = Trace::new(nodes, "", "a,many,1,0,0,,LS,Running,0,50,0\n");
    let stderr = trace.refused(&[]);
    let (nodes, pods) = (trace.nodes.path(), trace.pods.path());
    for expected in [
        format!("{nodes}:1: column `memory_mib`: is missing in the header"),
        format!("{pods}:2: column `cpu_milli`: `many` is not a whole number"),
    ] {
        assert!(stderr.contains(&expected), "{expected}:\n{stderr}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let trace = Trace::new(NODES, "", &format!("{POD}\n"));
    let good = TempFile::new("good.yaml", &queues(""));
    let nowhere = "/does/not/exist";
    for more in [
        &["--wishes", nowhere][..],
        &["--queues", nowhere],
        &["--compare", good.path(), nowhere],
        &["--compare", nowhere, good.path()],
    ] {
        let stderr = trace.refused(more);
        assert!(stderr.contains("/does/not/exist"), "{more:?}: {stderr}");
        assert!(stderr.contains("No such file"), "{more:?}: {stderr}");
    }
    let pods = trace.pods.path();
    let (code, _, stderr) = run(&["simulate", "--nodes", nowhere, "--pods", pods]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("cannot read `/does/not/exist`"), "{stderr}");
}

#[test]
fn the_invalid_one_of_two_configurations_is_named() {
    let trace = Trace::new(NODES, "", &format!("{POD}\n"));
    let good = TempFile::new("good.yaml", &queues(""));
    let bad = TempFile::new("bad.yaml", "partitions:\n  - bogus: true\n");
    let stderr = trace.refused(&["--compare", good.path(), bad.path()]);
    assert!(stderr.contains("bogus"), "{stderr}");
    assert!(stderr.lines().all(|line| line.starts_with(bad.path())), "{stderr}");
}

#[test]
fn options_that_make_no_sense_are_wrong_usage() {
    for arguments in [
        &["--compare", "a.yaml"][..],
        &["--compare", "a.yaml", "b.yaml", "--queues", "c.yaml"],
        &["--pods", "pods.csv"],
        &["--confirm-after", "86401"],
        &["--confirm-after", "-1"],
    ] {
        let (code, _, stderr) = run(&[&["simulate"], arguments].concat());
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
    }
}

/// Four pods of six cores run for a day on nodes of ten. Four of eight cores arrive, which fit no
/// node, and then two hundred of two cores, which fit every node.
#[test]
fn reservations_delay_small_pods_at_most_threefold() {
    let each = |n: usize, row: &dyn Fn(usize) -> String| (0..n).map(row).collect::<String>();
    let header = "sn,cpu_milli,memory_mib,gpu,model\n";
    let nodes = header.to_owned() + &each(4, &|at| format!("n{at},10000,409600,0,\n"));
    let rows = each(4, &|at| format!("base-{at},6000,1,0,0,,LS,Running,0,86400,0\n"))
        + &each(4, &|at| format!("large-{at},8000,1,0,0,,LS,Running,60,3660,60\n"))
        + &each(200, &|at| format!("small-{at},2000,1,0,0,,LS,Running,120,180,120\n"));
    let played = |more: &[&str]| {
        let trace = Trace::new(&nodes, "", &rows);
        trace.replayed(more);
        let report = trace.report.json("report.json");
        let pods = report["pods"].as_array().unwrap();
        let of = |name: &str, field: &str| -> Vec<f64> {
            let those = pods.iter().filter(|pod| pod["name"].as_str().unwrap().starts_with(name));
            those.map(|pod| pod[field].as_f64().unwrap_or(f64::INFINITY)).collect()
        };
        let waits = of("small", "wait");
        (waits.iter().sum::<f64>() / waits.len() as f64, of("large", "start"))
    };
    let (mean, starts) = played(&[]);
    let (mean_without, starts_without) = played(&["--no-reservations"]);
    assert!(mean_without > 0.0 && mean <= 3.0 * mean_without, "{mean} and {mean_without}");
    for (start, without) in starts.iter().zip(&starts_without) {
        assert!(start <= without && *start <= 86_400.0, "{starts:?} and {starts_without:?}");
    }
}
