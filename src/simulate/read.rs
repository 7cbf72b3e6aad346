//! Reads the two CSV files of a trace in the OpenB format.
//!
//! Columns are found by name in the header line: their order is free and further columns are
//! passed over. Everything that is wrong in both files is told at once, each with file, line,
//! column and reason, so that a hand-made trace is mended in one go.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use csv::StringRecord;

use super::amount::Amount;
use super::trace::{Lifetime, Machine, Pod, Trace, models_of};

/// More problems than these are counted, not listed.
const LISTED_PROBLEMS: usize = 20;
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
/// A column that a file of pods may lack.
const GANG: &str = "gang";

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TraceError {
    #[error("cannot read `{}`", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the trace has mistakes\n{0}")]
    Mistakes(Problems),
}

/// Everything that is wrong in the files of a trace.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    listed: Vec<String>,
    unlisted: usize,
}

impl Problems {
    fn add(&mut self, file: &Path, line: u64, column: Option<&str>, reason: impl fmt::Display) {
        if self.listed.len() == LISTED_PROBLEMS {
            self.unlisted += 1;
            return;
        }
        let column = column.map(|name| format!("column `{name}`: ")).unwrap_or_default();
        self.listed.push(format!("{}:{line}: {column}{reason}", file.display()));
    }

    fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.listed.join("\n"))?;
        if self.unlisted > 0 {
            write!(f, "\nand {} more", self.unlisted)?;
        }
        Ok(())
    }
}

/// Reads both files of a trace.
pub(crate) fn read_trace(machines: &Path, pods: &Path) -> Result<Trace, TraceError> {
    let open = |path: &Path| {
        std::fs::read(path)
            .map_err(|source| TraceError::Unreadable { path: path.to_owned(), source })
    };
    parse_trace((machines, &open(machines)?), (pods, &open(pods)?))
}

/// Parses the contents of both files; the paths are for the messages.
fn parse_trace(machines: (&Path, &[u8]), pods: (&Path, &[u8])) -> Result<Trace, TraceError> {
    let mut problems = Problems::default();
    let machines = parse_machines(machines.0, machines.1, &mut problems);
    let (pods, last) = parse_pods(pods.0, pods.1, &mut problems);
    if !problems.is_empty() {
        return Err(TraceError::Mistakes(problems));
    }
    Ok(Trace::new(machines, pods, last))
}

fn parse_machines(file: &Path, text: &[u8], problems: &mut Problems) -> Vec<Machine> {
    let mut machines = Vec::new();
    for_each_row(file, text, (&MACHINE_COLUMNS, &[]), problems, |row| {
        let name = row.name("sn");
        let vcore = row.whole("cpu_milli");
        let memory = row.whole("memory_mib");
        let gpus = row.whole("gpu");
        let (Some(name), Some(vcore), Some(memory), Some(gpus)) = (name, vcore, memory, gpus)
        else {
            return;
        };
        let capacity = Amount::new(memory * BYTES_PER_MIB, gpus * 1000, vcore);
        machines.push(Machine { name, capacity, model: row.text("model").to_owned() });
    });
    machines
}

/// The pods, and the latest time that any of their rows mentions.
fn parse_pods(file: &Path, text: &[u8], problems: &mut Problems) -> (Vec<Pod>, i64) {
    let mut pods = Vec::new();
    let mut last = 0;
    let mut gangs = Vec::new();
    for_each_row(file, text, (&POD_COLUMNS, &[GANG]), problems, |row| {
        let name = row.name("name");
        let vcore = row.whole("cpu_milli");
        let memory = row.whole("memory_mib");
        let gpu_milli = row.gpu_milli();
        let creation = row.whole("creation_time");
        let deletion = row.optional("deletion_time");
        let scheduled = row.optional("scheduled_time");
        let (Some(name), Some(vcore), Some(memory), Some(gpu_milli)) =
            (name, vcore, memory, gpu_milli)
        else {
            return;
        };
        let (Some(creation), Some(deletion), Some(scheduled)) = (creation, deletion, scheduled)
        else {
            return;
        };
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

/// One row with what is needed to complain about it.
struct CsvRow<'a> {
    file: &'a Path,
    line: u64,
    columns: &'a HashMap<&'static str, usize>,
    fields: &'a StringRecord,
    problems: &'a mut Problems,
    /// Names that were used before, with their lines.
    names: &'a mut HashMap<String, u64>,
}

impl CsvRow<'_> {
    /// The field without white space around it. Tables that passed through data-frame tools write
    /// a missing field as `nan`.
    fn text(&self, column: &'static str) -> &str {
        let at = self.columns.get(column);
        let text = at.and_then(|at| self.fields.get(*at)).unwrap_or_default().trim();
        if text.eq_ignore_ascii_case("nan") { "" } else { text }
    }

    fn complain(&mut self, column: &'static str, reason: impl fmt::Display) {
        self.problems.add(self.file, self.line, Some(column), reason);
    }

    /// A name that no earlier row has.
    fn name(&mut self, column: &'static str) -> Option<String> {
        let name = self.text(column).to_owned();
        if name.is_empty() {
            self.complain(column, "is empty");
            return None;
        }
        if let Some(first) = self.names.insert(name.clone(), self.line) {
            self.complain(column, format_args!("`{name}` is already in line {first}"));
            self.names.insert(name, first);
            return None;
        }
        Some(name)
    }

    /// A whole number that must be there.
    fn whole(&mut self, column: &'static str) -> Option<i64> {
        let number = self.optional(column)?;
        if number.is_none() {
            self.complain(column, "is empty");
        }
        number
    }

    /// A whole number, `Some(None)` where the field is empty, `None` after a complaint. The bound
    /// keeps every product below in range; data-frame tools write `12` as `12.0`.
    #[allow(clippy::option_option, reason = "wrong and missing are different answers")]
    fn optional(&mut self, column: &'static str) -> Option<Option<i64>> {
        let text = self.text(column);
        if text.is_empty() {
            return Some(None);
        }
        let digits = text.split_once('.').map_or(text, |(whole, fraction)| {
            if fraction.bytes().all(|digit| digit == b'0') { whole } else { text }
        });
        if let Ok(number) = digits.parse::<u32>() {
            return Some(Some(i64::from(number)));
        }
        let reason = format!("`{text}` is not a whole number from 0 to {}", u32::MAX);
        self.complain(column, reason);
        None
    }

    /// GPUs asked, in thousandths: a share where it is one GPU, whole GPUs where it is several.
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

/// Calls `each` for the rows of a file whose header has all columns of the first kind, and perhaps
/// those of the second.
fn for_each_row(
    file: &Path,
    text: &[u8],
    columns: (&[&'static str], &[&'static str]),
    problems: &mut Problems,
    mut each: impl FnMut(&mut CsvRow<'_>),
) {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text);
    let header = match reader.headers() {
        Ok(header) if header.iter().any(|name| !name.trim().is_empty()) => header.clone(),
        Ok(_) => return problems.add(file, 1, None, "the file is empty"),
        Err(error) => return problems.add(file, 1, None, error),
    };
    let Some(columns) = find_columns(file, &header, columns, problems) else { return };
    let mut names = HashMap::new();
    let mut n_rows = 0;
    for record in reader.records() {
        n_rows += 1;
        let fields = match record {
            Ok(fields) => fields,
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                problems.add(file, line, None, "is not UTF-8 text or not CSV");
                continue;
            }
        };
        let line = fields.position().map_or(0, csv::Position::line);
        if fields.len() != header.len() {
            let reason = format!("has {} fields, the header has {}", fields.len(), header.len());
            problems.add(file, line, None, reason);
            continue;
        }
        let names = &mut names;
        each(&mut CsvRow { file, line, columns: &columns, fields: &fields, problems, names });
    }
    if n_rows == 0 {
        problems.add(file, 1, None, "there is no row below the header");
    }
}

/// The position of each column, of the second kind only of those that are there; `None` after a
/// complaint.
fn find_columns(
    file: &Path,
    header: &StringRecord,
    (needed, further): (&[&'static str], &[&'static str]),
    problems: &mut Problems,
) -> Option<HashMap<&'static str, usize>> {
    let mut places = HashMap::new();
    let n_problems = problems.listed.len() + problems.unlisted;
    for &column in needed.iter().chain(further) {
        // A byte order mark is not white space to `trim`.
        let names = header.iter().map(|name| name.trim_start_matches('\u{feff}').trim());
        let found: Vec<usize> =
            names.enumerate().filter(|(_, name)| *name == column).map(|(at, _)| at).collect();
        match found[..] {
            [at] => {
                places.insert(column, at);
            }
            [] if further.contains(&column) => {}
            [] => problems.add(file, 1, Some(column), "is missing in the header"),
            _ => problems.add(file, 1, Some(column), "is in the header more than once"),
        }
    }
    (problems.listed.len() + problems.unlisted == n_problems).then_some(places)
}

/// Parses the texts of both files.
#[cfg(test)]
pub(crate) fn parse(machines: &str, pods: &str) -> Result<Trace, TraceError> {
    let machines = (Path::new("nodes.csv"), machines.as_bytes());
    parse_trace(machines, (Path::new("pods.csv"), pods.as_bytes()))
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
    fn gpus_are_shares_of_one_or_several_whole_ones() {
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
    fn missing_times_may_be_empty_or_nan_and_whole_seconds_may_be_written_as_decimals() {
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
    fn pods_are_ordered_by_creation_and_then_by_row() {
        let pods = pods_of(
            "late,1,1,0,0,,LS,Running,9,10,9\n\
             b,1,1,0,0,,LS,Running,3,4,3\n\
             a,1,1,0,0,,LS,Running,3,4,3\n",
        );
        let names: Vec<_> = pods.iter().map(|pod| pod.name.as_str()).collect();
        assert_eq!(names, ["b", "a", "late"]);
    }

    #[test]
    fn a_column_of_gangs_may_be_there_and_names_no_pod() {
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
    fn all_mistakes_of_both_files_are_told_at_once() {
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

    #[test]
    fn text_that_is_not_utf8_is_a_mistake_with_its_line() {
        let machines = b"sn,cpu_milli,memory_mib,gpu,model\nm\xff,1,1,0,\n";
        let pods = format!("{POD_HEADER}p,1,1,0,0,,LS,Running,0,1,0\n");
        let files = (Path::new("nodes.csv"), &machines[..]);
        let error = parse_trace(files, (Path::new("pods.csv"), pods.as_bytes())).unwrap_err();
        assert!(error.to_string().contains("nodes.csv:2: is not UTF-8"), "{error}");
    }
}
