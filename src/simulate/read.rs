//! Reads the CSV files of a trace in the OpenB format, and the file of wishes.
//!
//! The mistakes in all files are reported together, so that a trace written by hand can be
//! corrected in one go.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::amount::Amount;
use super::table::{CsvRow, Problems, for_each_row};
use super::trace::{Lifetime, Machine, Pod, Trace, models_of};
use super::wishes::{self, WISH_COLUMNS};

const BYTES_PER_MIB: i64 = 1 << 20;

const MACHINE_COLUMNS: [&str; 5] = ["sn", "cpu_milli", "memory_mib", "gpu", "model"];
const POD_COLUMNS: [&str; 11] = [
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
];
/// Optional columns of the files of machines and pods.
const ATTRIBUTES: &str = "attributes";
const GANG: &str = "gang";

/// A trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TraceError {
    #[error("cannot read `{}`", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the trace has mistakes\n{0}")]
    Mistakes(Problems),
}

/// Reads both files of a trace, and the optional file of wishes.
pub(crate) fn read_trace(
    machines: &Path,
    pods: &Path,
    wishes: Option<&Path>,
) -> Result<Trace, TraceError> {
    let (machines, pods) = ((machines, &*read(machines)?), (pods, &*read(pods)?));
    let Some(path) = wishes else { return parse_trace(machines, pods, None) };
    parse_trace(machines, pods, Some((path, &*read(path)?)))
}

/// Adds wishes from a file to the pods of a trace.
pub(crate) fn read_wishes(path: &Path, trace: &mut Trace) -> Result<(), TraceError> {
    let text = read(path)?;
    let mut problems = Problems::default();
    wishes::parse(path, &text, &mut trace.pods, &mut problems);
    if problems.is_empty() { Ok(()) } else { Err(TraceError::Mistakes(problems)) }
}

fn read(path: &Path) -> Result<Vec<u8>, TraceError> {
    std::fs::read(path).map_err(|source| TraceError::Unreadable { path: path.to_owned(), source })
}

/// Parses the contents of the files. The paths are for messages.
fn parse_trace(
    machines: (&Path, &[u8]),
    pods: (&Path, &[u8]),
    wishes: Option<(&Path, &[u8])>,
) -> Result<Trace, TraceError> {
    let mut problems = Problems::default();
    let machines = parse_machines(machines.0, machines.1, &mut problems);
    let before = problems.count();
    let (mut pods, last) = parse_pods(pods.0, pods.1, &mut problems);
    // Pods with mistakes are missing here, so their wishes would give follow-up errors.
    if let (Some((path, text)), true) = (wishes, problems.count() == before) {
        wishes::parse(path, text, &mut pods, &mut problems);
    }
    if !problems.is_empty() {
        return Err(TraceError::Mistakes(problems));
    }
    Ok(Trace::new(machines, pods, last))
}

fn parse_machines(file: &Path, text: &[u8], problems: &mut Problems) -> Vec<Machine> {
    let mut machines = Vec::new();
    for_each_row(file, text, (&MACHINE_COLUMNS, &[ATTRIBUTES]), problems, |row| {
        let name = row.name("sn");
        let vcore = row.whole("cpu_milli");
        let memory = row.whole("memory_mib");
        let gpus = row.whole("gpu");
        let attributes = row.texts(ATTRIBUTES);
        let (Some(name), Some(vcore), Some(memory), Some(gpus)) = (name, vcore, memory, gpus)
        else {
            return;
        };
        let Some(attributes) = attributes else { return };
        let capacity = Amount::new(memory * BYTES_PER_MIB, gpus * 1000, vcore);
        let model = row.text("model").to_owned();
        machines.push(Machine { name, capacity, model, attributes });
    });
    machines
}

/// Returns the pods, and the latest time in any of their rows.
fn parse_pods(file: &Path, text: &[u8], problems: &mut Problems) -> (Vec<Pod>, i64) {
    let mut pods = Vec::new();
    let mut last = 0;
    let mut gangs = Vec::new();
    let further: Vec<&'static str> = [GANG].into_iter().chain(WISH_COLUMNS).collect();
    for_each_row(file, text, (&POD_COLUMNS, &further), problems, |row| {
        let name = row.name("name");
        let vcore = row.whole("cpu_milli");
        let memory = row.whole("memory_mib");
        let gpu_milli = row.gpu_milli();
        let creation = row.whole("creation_time");
        let deletion = row.optional("deletion_time");
        let scheduled = row.optional("scheduled_time");
        let wishes = wishes::of_row(row);
        let (Some(name), Some(vcore), Some(memory), Some(gpu_milli)) =
            (name, vcore, memory, gpu_milli)
        else {
            return;
        };
        let (Some(creation), Some(deletion), Some(scheduled)) = (creation, deletion, scheduled)
        else {
            return;
        };
        let Some(wishes) = wishes else { return };
        let gang = Some(row.text(GANG).to_owned()).filter(|gang| !gang.is_empty());
        gangs.extend(gang.clone().map(|gang| (gang, row.line)));
        last = [Some(last), Some(creation), deletion, scheduled]
            .into_iter()
            .flatten()
            .fold(0, i64::max);
        pods.push(Pod {
            name,
            ask: Amount::new(memory * BYTES_PER_MIB, gpu_milli, vcore),
            models: models_of(row.text("gpu_spec")),
            qos: row.text("qos").to_owned(),
            phase: row.text("pod_phase").to_owned(),
            creation,
            lifetime: Lifetime::of(creation, scheduled, deletion),
            gang,
            wishes,
        });
    });
    let names: HashSet<&str> = pods.iter().map(|pod: &Pod| pod.name.as_str()).collect();
    for (gang, line) in gangs {
        if names.contains(gang.as_str()) {
            problems.add(file, line, Some(GANG), format_args!("`{gang}` is the name of a pod"));
        }
    }
    (pods, last)
}

/// Fields that only pods have.
impl CsvRow<'_> {
    /// Parses the GPUs of an ask in thousandths: a share if it is one GPU, otherwise whole GPUs.
    fn gpu_milli(&mut self) -> Option<i64> {
        let (count, share) = (self.whole("num_gpu"), self.optional("gpu_milli"));
        match (count?, share?) {
            (0, _) => Some(0),
            (1, Some(share @ 1..=1000)) => Some(share),
            (1, Some(share)) => {
                let reason = format!("`{share}` is not a share of one GPU, from 1 to 1000");
                self.complain("gpu_milli", reason);
                None
            }
            (1, None) => Some(1000),
            (count, _) => Some(count * 1000),
        }
    }
}

/// Parses the texts of both files.
#[cfg(test)]
pub(crate) fn parse(machines: &str, pods: &str) -> Result<Trace, TraceError> {
    let machines = (Path::new("nodes.csv"), machines.as_bytes());
    parse_trace(machines, (Path::new("pods.csv"), pods.as_bytes()), None)
}

/// Parses a trace with the text of a file of wishes.
#[cfg(test)]
pub(crate) fn parse_with(machines: &str, pods: &str, wishes: &str) -> Result<Trace, TraceError> {
    let machines = (Path::new("nodes.csv"), machines.as_bytes());
    let wishes = (Path::new("wishes.csv"), wishes.as_bytes());
    parse_trace(machines, (Path::new("pods.csv"), pods.as_bytes()), Some(wishes))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::amount::ResourceKind;
    use super::*;

    const MACHINES: &str = "sn,cpu_milli,memory_mib,gpu,model\nm1,4000,1024,2,T4\n";
    const POD_HEADER: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,\
                              creation_time,deletion_time,scheduled_time\n";

    fn pods_of(rows: &str) -> Vec<Pod> {
        parse(MACHINES, &format!("{POD_HEADER}{rows}")).unwrap().pods
    }

    fn check_mistakes(machines: &str, pods: &str, expected: &Expect) {
        let error = parse(machines, pods).unwrap_err();
        expected.assert_eq(&format!("{error}\n"));
    }

    #[test]
    fn rows_become_machines_and_pods_in_base_units() {
        let pods = format!("{POD_HEADER}p1,500,2,1,460,V100M16|V100M32,LS,Running,5,30,10\n");
        let trace = parse(MACHINES, &pods).unwrap();
        assert_eq!(trace.machines[0].capacity, Amount::new(1 << 30, 2000, 4000));
        assert_eq!(trace.machines[0].model, "T4");
        let pod = &trace.pods[0];
        assert_eq!(pod.ask, Amount::new(2 << 20, 460, 500));
        assert_eq!(pod.models, ["V100M16", "V100M32"]);
        assert_eq!((pod.creation, pod.lifetime), (5, Lifetime::Runs(20)));
        assert_eq!((trace.start(), trace.end), (5, 30));
    }

    #[test]
    fn gpus_are_one_share_or_whole_numbers() {
        let pods = pods_of(
            "none,1,1,0,700,,LS,Running,0,1,0\n\
             share,1,1,1,50,,LS,Running,0,1,0\n\
             one,1,1,1,,,LS,Running,0,1,0\n\
             four,1,1,4,1000,,LS,Running,0,1,0\n",
        );
        let asked: Vec<_> = pods.iter().map(|pod| pod.ask[ResourceKind::Gpu]).collect();
        assert_eq!(asked, [0, 50, 1000, 4000]);
    }

    #[test]
    fn times_may_be_missing_or_decimal() {
        let pods = pods_of(
            "a,1,1,0,0,nan,LS,Pending,7.0,9.0,\n\
             b,1,1,0,0,,LS,Pending,7,,nan\n\
             c,1,1,0,0,,LS,Failed,7,9,8\n",
        );
        let lifetimes: Vec<_> = pods.iter().map(|pod| pod.lifetime).collect();
        let expected = [Lifetime::WantedUntil(9), Lifetime::RunsToEnd, Lifetime::Runs(1)];
        assert_eq!(lifetimes, expected);
        assert!(pods[0].models.is_empty());
    }

    #[test]
    fn columns_are_found_by_name_in_any_order() {
        let machines = "\u{feff}model, extra ,gpu,memory_mib,cpu_milli,sn\nT4,x,2,1024,4000,m1\n";
        let pods = format!("{POD_HEADER}p,1,1,0,0,,LS,Running,0,1,0\n");
        assert_eq!(parse(machines, &pods).unwrap(), parse(MACHINES, &pods).unwrap());
    }

    #[test]
    fn pods_are_ordered_by_creation_then_row() {
        let pods = pods_of(
            "late,1,1,0,0,,LS,Running,9,10,9\n\
             b,1,1,0,0,,LS,Running,3,4,3\n\
             a,1,1,0,0,,LS,Running,3,4,3\n",
        );
        let names: Vec<_> = pods.iter().map(|pod| pod.name.as_str()).collect();
        assert_eq!(names, ["b", "a", "late"]);
    }

    #[test]
    fn the_optional_gang_column_names_no_pod() {
        let header = POD_HEADER.trim_end();
        let gangs = |rows: &str| parse(MACHINES, &format!("{header},gang\n{rows}"));
        let rows = "a,1,1,0,0,,LS,Running,0,1,0,job\nb,1,1,0,0,,LS,Running,0,1,0,\n";
        let gangs_of: Vec<_> = gangs(rows).unwrap().pods.into_iter().map(|pod| pod.gang).collect();
        assert_eq!(gangs_of, [Some("job".to_owned()), None]);
        assert!(pods_of("a,1,1,0,0,,LS,Running,0,1,0\n")[0].gang.is_none());
        let error = gangs(&rows.replace("job", "b")).unwrap_err().to_string();
        assert!(error.contains("pods.csv:2: column `gang`: `b` is the name of a pod"), "{error}");
        let twice = parse(MACHINES, &format!("{header},gang,gang\n")).unwrap_err().to_string();
        assert!(twice.contains("column `gang`: is in the header more than once"), "{twice}");
    }

    #[test]
    fn mistakes_of_both_files_are_reported_together() {
        check_mistakes(
            "sn,cpu_milli,memory_mib,gpu,model\nm1,4000,x,2,T4\nm1,1,1,0,\n,1,1,0,\n",
            &format!(
                "{POD_HEADER}\
                 p1,-1,1,1,1001,,LS,Running,,5,0\n\
                 p2,1,1,1,0,,LS,Running,0,5,1.5\n\
                 p3,1,1\n\
                 p1,99999999999,,x,0,,LS,Running,0,5,1\n"
            ),
            &expect![[r"
                the trace has mistakes
                nodes.csv:2: column `memory_mib`: `x` is not a whole number from 0 to 4294967295
                nodes.csv:3: column `sn`: `m1` is already in line 2
                nodes.csv:4: column `sn`: is empty
                pods.csv:2: column `cpu_milli`: `-1` is not a whole number from 0 to 4294967295
                pods.csv:2: column `gpu_milli`: `1001` is not a share of one GPU, from 1 to 1000
                pods.csv:2: column `creation_time`: is empty
                pods.csv:3: column `gpu_milli`: `0` is not a share of one GPU, from 1 to 1000
                pods.csv:3: column `scheduled_time`: `1.5` is not a whole number from 0 to 4294967295
                pods.csv:4: has 3 fields, the header has 11
                pods.csv:5: column `name`: `p1` is already in line 2
                pods.csv:5: column `cpu_milli`: `99999999999` is not a whole number from 0 to 4294967295
                pods.csv:5: column `memory_mib`: is empty
                pods.csv:5: column `num_gpu`: `x` is not a whole number from 0 to 4294967295
            "]],
        );
    }

    #[test]
    fn files_without_rows_or_columns_say_so() {
        check_mistakes(
            "",
            POD_HEADER,
            &expect![[r"
                the trace has mistakes
                nodes.csv:1: the file is empty
                pods.csv:1: there is no row below the header
            "]],
        );
        check_mistakes(
            "sn,cpu_milli,gpu,gpu\nm,1,1,1\n",
            "name\np\n",
            &expect![[r"
                the trace has mistakes
                nodes.csv:1: column `memory_mib`: is missing in the header
                nodes.csv:1: column `gpu`: is in the header more than once
                nodes.csv:1: column `model`: is missing in the header
                pods.csv:1: column `cpu_milli`: is missing in the header
                pods.csv:1: column `memory_mib`: is missing in the header
                pods.csv:1: column `num_gpu`: is missing in the header
                pods.csv:1: column `gpu_milli`: is missing in the header
                pods.csv:1: column `gpu_spec`: is missing in the header
                pods.csv:1: column `qos`: is missing in the header
                pods.csv:1: column `pod_phase`: is missing in the header
                pods.csv:1: column `creation_time`: is missing in the header
                pods.csv:1: column `deletion_time`: is missing in the header
                pods.csv:1: column `scheduled_time`: is missing in the header
            "]],
        );
    }

    #[test]
    fn mistakes_beyond_the_twentieth_are_counted() {
        let rows: Vec<_> = (0..30).map(|at| format!("m{at},x,1,0,")).collect();
        let machines = format!("sn,cpu_milli,memory_mib,gpu,model\n{}", rows.join("\n"));
        let pods = format!("{POD_HEADER}p,1,1,0,0,,LS,Running,0,1,0\n");
        let text = parse(&machines, &pods).unwrap_err().to_string();
        assert_eq!(text.lines().count(), 22, "{text}");
        assert!(text.ends_with("\nand 10 more"), "{text}");
    }

    /// Returns the mistakes in a file of pods. They are equal for every kind of line end, with and
    /// without a byte order mark.
    fn mistakes_in_lines(lines: &[&str]) -> String {
        let ends = ["\n", "\r\n", "\r"];
        let kinds = ends.iter().flat_map(|end| ["", "\u{feff}"].map(|mark| (mark, end)));
        let mistakes = kinds.map(|(mark, end)| {
            let pods = format!("{mark}{}", lines.join(end));
            parse(MACHINES, &pods).unwrap_err().to_string()
        });
        let mut mistakes: Vec<_> = mistakes.collect();
        mistakes.dedup();
        mistakes.join("\n\n")
    }

    #[test]
    fn mistakes_name_the_lines_that_an_editor_shows() {
        let header = POD_HEADER.trim_end();
        let mistakes = mistakes_in_lines(&[
            "",
            "",
            header,
            "",
            "a,x,1,0,0,,LS,Running,0,1,0",
            "b,1,1,0,0,\"T4",
            "",
            "\",LS,Running,0,1,y",
            "",
            "",
            "b,1,1,0,0,,LS,Running,0,1,0",
            "c,1",
            "d,z,1,0,0,,LS,Running,0,1,0",
        ]);
        expect![[r#"
            the trace has mistakes
            pods.csv:5: column `cpu_milli`: `x` is not a whole number from 0 to 4294967295
            pods.csv:6: column `scheduled_time`: `y` is not a whole number from 0 to 4294967295
            pods.csv:11: column `name`: `b` is already in line 6
            pods.csv:12: has 2 fields, the header has 11
            pods.csv:13: column `cpu_milli`: `z` is not a whole number from 0 to 4294967295"#]]
        .assert_eq(&mistakes);
        let mistakes = mistakes_in_lines(&["", "", "name,cpu_milli,name", "p,1,q"]);
        expect![[r#"
            the trace has mistakes
            pods.csv:3: column `name`: is in the header more than once
            pods.csv:3: column `memory_mib`: is missing in the header"#]]
        .assert_eq(mistakes.lines().take(3).collect::<Vec<_>>().join("\n").as_str());
        let mistakes = mistakes_in_lines(&["", header, "", ""]);
        expect![[r#"
            the trace has mistakes
            pods.csv:2: there is no row below the header"#]]
        .assert_eq(&mistakes);
    }

    #[test]
    fn invalid_utf8_is_reported_with_its_line() {
        let machines = b"sn,cpu_milli,memory_mib,gpu,model\nm\xff,1,1,0,\n";
        let pods = format!("{POD_HEADER}p,1,1,0,0,,LS,Running,0,1,0\n");
        let files = (Path::new("nodes.csv"), &machines[..]);
        let error = parse_trace(files, (Path::new("pods.csv"), pods.as_bytes()), None).unwrap_err();
        assert!(error.to_string().contains("nodes.csv:2: is not UTF-8"), "{error}");
    }
}
