//! Lists of items, and the changes of a watched list.
//!
//! # Invariants
//! * A requested name that is missing gives a message and the exit code 1.
//! * A watch prints an item when it appears, when anything but its age changes, and when it
//!   disappears.

use std::collections::BTreeMap;
use std::future::ready;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::GetArgs;
use crate::cli::amounts::{age, moment};
use crate::cli::cluster::Cluster;
use crate::cli::document::{json, json_line, yaml, yaml_part};
use crate::cli::output::{self, Form, WrongLine};
use crate::cli::table::Table;
use crate::clock::now_ns;
use crate::logging::clean;

/// The state shown for an item that has disappeared. If its kind has no state, it stands behind the
/// name.
const GONE: &str = "Gone";

/// The optional columns of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    /// Whether the columns of the wide form are shown.
    pub(super) wide: bool,
    /// Whether there is a column for types other than cores and memory.
    pub(super) others: bool,
    /// Whether there is a last column for reasons.
    pub(super) why: bool,
}

impl Columns {
    fn of<T: Item>(form: Form, items: &[T]) -> Self {
        Self {
            wide: matches!(form, Form::Wide),
            others: items.iter().any(Item::has_others),
            why: T::HAS_WHY && items.iter().any(|item| item.why().is_some()),
        }
    }
}

/// An entry of a list. Its first cells are the name and, if the kind has one, the state.
pub(super) trait Item: Sized {
    /// Returns the name, which is unique within the kind.
    fn name(&self) -> &str;
    fn state(&self) -> &str;
    /// Returns the time of creation in nanoseconds since the epoch. `None` if the kind has no age.
    fn since_ns(&self) -> Option<i64>;
    /// Whether it has types other than cores and memory.
    fn has_others(&self) -> bool;
    /// Returns why it waits or was rejected. `None` if neither is so or known.
    fn why(&self) -> Option<&str> {
        None
    }
    /// Returns the value of a tag or attribute, by which a selector chooses. `None` if it has no
    /// such tag.
    fn tag(&self, _: &str) -> Option<&str> {
        None
    }
    /// Returns the titles of the columns after name and state, without the age.
    fn titles(columns: Columns) -> Vec<&'static str>;
    fn cells(&self, columns: Columns) -> Vec<String>;
    fn document(&self) -> anyhow::Result<Value>;
    /// Reads what costs too much for entries that are not shown. Most kinds have nothing of that.
    fn complete(
        _: &mut Cluster,
        _: &GetArgs,
        _: &mut [Self],
    ) -> impl Future<Output = anyhow::Result<()>> {
        ready(Ok(()))
    }
    /// Title of the first column.
    const TITLE: &'static str;
    /// Whether there is a column for the state.
    const HAS_STATE: bool = true;
    /// Whether there is a column for the age.
    const HAS_AGE: bool;
    /// Title of the column for the age.
    const AGE: &'static str = "AGE";
    /// Whether entries may have a reason why they wait.
    const HAS_WHY: bool = false;
    /// All states of the kind. Empty if the scheduler filters by state.
    const STATES: &'static [&'static str];
}

/// Prints the list, once or until interrupted.
pub(super) async fn run<T: Item>(
    cluster: &mut Cluster,
    args: &GetArgs,
    read: impl AsyncFn(&mut Cluster, &GetArgs) -> anyhow::Result<Vec<T>>,
) -> anyhow::Result<ExitCode> {
    check_states::<T>(args)?;
    let mut items = chosen(read(cluster, args).await?, args);
    let n_missing = say_missing(&items, args)?;
    args.pick.arrange(&mut items)?;
    T::complete(cluster, args, &mut items).await?;
    if items.is_empty() && n_missing == 0 && !args.watch {
        writeln!(io::stderr(), "no {} found", args.kind.plural())?;
    }
    let mut printer = Printer::new(args.output, args.stamps.timestamps, &items);
    output::write(&printer.whole(&items, args.watch)?)?;
    if !args.watch {
        return Ok(if n_missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    loop {
        sleep(Duration::from_secs(args.interval.into())).await;
        let items = chosen(read(cluster, args).await?, args);
        output::write(&printer.changes(&items)?)?;
    }
}

/// Fails if a requested state does not exist for this kind.
fn check_states<T: Item>(args: &GetArgs) -> anyhow::Result<()> {
    for state in &args.state {
        let is_known = T::STATES.iter().any(|known| known.eq_ignore_ascii_case(state));
        if !is_known && !T::STATES.is_empty() {
            let states = T::STATES.join(", ");
            let text =
                format!("`{}` is no state of {}: {states}", clean(state), args.kind.plural());
            return Err(WrongLine(text).into());
        }
    }
    Ok(())
}

/// Returns the titles of all columns.
pub(super) fn titles<T: Item>(columns: Columns) -> Vec<&'static str> {
    let mut titles = vec![T::TITLE];
    titles.extend(T::HAS_STATE.then_some("STATE"));
    titles.extend(T::titles(columns));
    titles.extend(T::HAS_AGE.then_some(T::AGE));
    titles.extend(columns.why.then_some("WHY"));
    titles
}

/// Returns the cells without the age and the reason.
pub(super) fn lasting<T: Item>(item: &T, columns: Columns) -> Vec<String> {
    let mut cells = vec![item.name().to_owned()];
    cells.extend(T::HAS_STATE.then(|| item.state().to_owned()));
    cells.extend(item.cells(columns));
    cells
}

/// Filters entries by the requested names, states and tags.
fn chosen<T: Item>(mut items: Vec<T>, args: &GetArgs) -> Vec<T> {
    items.retain(|item| {
        let is_named = args.names.is_empty() || args.names.iter().any(|name| name == item.name());
        let has_state = T::STATES.is_empty()
            || args.state.is_empty()
            || args.state.iter().any(|state| state.eq_ignore_ascii_case(item.state()));
        is_named && has_state && args.pick.selector.matches(|key| item.tag(key))
    });
    items
}

/// Prints which of the requested names are missing, and returns their number.
fn say_missing<T: Item>(items: &[T], args: &GetArgs) -> anyhow::Result<usize> {
    let is_there = |name: &String| items.iter().any(|item| item.name() == name);
    let is_filtered = !args.state.is_empty()
        || !args.user.is_empty()
        || args.queue.is_some()
        || !args.pick.selector.is_empty();
    let missing: Vec<_> = args.names.iter().filter(|name| !is_there(name)).collect();
    for name in &missing {
        let title = T::TITLE.to_lowercase();
        let among = if is_filtered { " among those that the filters leave" } else { "" };
        writeln!(io::stderr(), "there is no {title} `{}`{among}", clean(name))?;
    }
    Ok(missing.len())
}

/// Prints a list and its changes.
struct Printer {
    form: Form,
    columns: Columns,
    /// Whether each change is printed with its time.
    has_times: bool,
    table: Table,
    /// The last printed form of each entry, by name: cells without the age, or the document.
    printed: BTreeMap<String, Printed>,
}

#[derive(Clone, PartialEq)]
enum Printed {
    Cells(Vec<String>),
    Document(Value),
}

impl Printer {
    fn new<T: Item>(form: Form, has_times: bool, items: &[T]) -> Self {
        let columns = Columns::of(form, items);
        let titles: Vec<String> = match form {
            Form::Columns(columns) => columns.titles().to_vec(),
            _ => titles::<T>(columns).into_iter().map(str::to_owned).collect(),
        };
        let time = has_times.then(|| "TIME".to_owned());
        let table = Table::new(time.into_iter().chain(titles));
        Self { form, columns, has_times, table, printed: BTreeMap::new() }
    }

    /// Formats the whole list. The output of a watch is lines that can be read one by one.
    fn whole<T: Item>(&mut self, items: &[T], watch: bool) -> anyhow::Result<String> {
        if watch {
            return self.changes(items);
        }
        let documents = || items.iter().map(Item::document).collect::<anyhow::Result<Vec<_>>>();
        Ok(match self.form {
            Form::Table | Form::Wide | Form::Columns(_) if items.is_empty() => String::new(),
            Form::Table | Form::Wide => {
                let rows: Vec<_> = items.iter().map(|item| self.row(item)).collect();
                self.table.part(rows)
            }
            Form::Json => json(&documents()?)?,
            Form::Yaml => yaml(&documents()?)?,
            Form::Columns(columns) => {
                self.table.part(documents()?.iter().map(|document| columns.row(document)))
            }
            Form::Path(template) => template.text(documents()?),
            Form::Name => items.iter().map(|item| clean(item.name()) + "\n").collect(),
        })
    }

    /// Formats the entries that are new, have changed or have disappeared since the last call.
    fn changes<T: Item>(&mut self, items: &[T]) -> anyhow::Result<String> {
        let (mut rows, mut text) = (Vec::new(), String::new());
        let mut before = std::mem::take(&mut self.printed);
        for item in items {
            let printed = self.printed(item)?;
            if before.remove(item.name()).as_ref() != Some(&printed) {
                match &printed {
                    Printed::Cells(_) if matches!(self.form, Form::Name) => {
                        text += &(clean(item.name()) + "\n");
                    }
                    Printed::Cells(_) => rows.push(self.timed(self.row(item))),
                    Printed::Document(document) => self.one(document, &mut rows, &mut text)?,
                }
            }
            self.printed.insert(item.name().to_owned(), printed);
        }
        for (name, gone) in before {
            match gone {
                Printed::Cells(_) if matches!(self.form, Form::Name) => {}
                Printed::Cells(mut cells) => {
                    // Without a column for the state, the name says it.
                    if T::HAS_STATE {
                        GONE.clone_into(&mut cells[1]);
                    } else {
                        cells[0] = format!("{name} ({GONE})");
                    }
                    cells.extend(T::HAS_AGE.then(String::new));
                    cells.extend(self.columns.why.then(String::new));
                    rows.push(self.timed(cells));
                }
                Printed::Document(mut document) => {
                    document["state"] = GONE.into();
                    self.one(&document, &mut rows, &mut text)?;
                }
            }
        }
        if !rows.is_empty() {
            text += &self.table.part(rows);
        }
        Ok(text)
    }

    /// Puts the present time before the cells of a change, if the changes have times.
    fn timed(&self, cells: Vec<String>) -> Vec<String> {
        let time = self.has_times.then(|| moment(now_ns()));
        time.into_iter().chain(cells).collect()
    }

    /// Appends one document of several to the rows of the table, or to the text, with the present
    /// time if the changes have times.
    fn one(
        &self,
        document: &Value,
        rows: &mut Vec<Vec<String>>,
        text: &mut String,
    ) -> anyhow::Result<()> {
        let mut document = document.clone();
        if self.has_times {
            document["time"] = moment(now_ns()).into();
        }
        match self.form {
            Form::Columns(columns) => rows.push(self.timed(columns.row(&document))),
            Form::Path(template) => text.push_str(&template.text(vec![document])),
            Form::Yaml => text.push_str(&yaml_part(&document)?),
            _ => text.push_str(&json_line(&document)?),
        }
        Ok(())
    }

    fn printed<T: Item>(&self, item: &T) -> anyhow::Result<Printed> {
        Ok(match self.form {
            Form::Json | Form::Yaml | Form::Path(_) | Form::Columns(_) => {
                Printed::Document(item.document()?)
            }
            // A name does not change.
            Form::Name => Printed::Cells(Vec::new()),
            Form::Table | Form::Wide => Printed::Cells(lasting(item, self.columns)),
        })
    }

    fn row<T: Item>(&self, item: &T) -> Vec<String> {
        let mut cells = lasting(item, self.columns);
        if T::HAS_AGE {
            cells.push(age(item.since_ns().unwrap_or_default(), now_ns()));
        }
        cells.extend(self.columns.why.then(|| item.why().unwrap_or_default().to_owned()));
        cells
    }
}

#[cfg(test)]
mod tests {
    use clap::builder::TypedValueParser as _;
    use expect_test::expect;
    use monoceros_proto::v1;
    use serde_json::json;

    use super::super::Kind;
    use super::*;
    use crate::cli::output::FormParser;

    struct Job(&'static str, &'static str);

    impl Item for Job {
        const TITLE: &'static str = "JOB";
        const HAS_AGE: bool = false;
        const STATES: &'static [&'static str] = &["On", "Off"];

        fn name(&self) -> &str {
            self.0
        }
        fn state(&self) -> &str {
            self.1
        }
        fn since_ns(&self) -> Option<i64> {
            None
        }
        fn has_others(&self) -> bool {
            false
        }
        fn titles(_: Columns) -> Vec<&'static str> {
            vec!["SIZE"]
        }
        fn cells(&self, _: Columns) -> Vec<String> {
            vec!["1".to_owned()]
        }
        fn document(&self) -> anyhow::Result<Value> {
            Ok(json!({ "name": self.0, "state": self.1 }))
        }
    }

    /// Returns the output of four reads.
    fn watched(form: Form) -> String {
        let looks: [&[Job]; 4] = [
            &[Job("a", "On"), Job("b", "On")],
            &[Job("a", "On"), Job("b", "Off")],
            &[Job("a", "On"), Job("b", "Off")],
            &[Job("b", "Off"), Job("long-name", "On")],
        ];
        let mut printer = Printer::new(form, false, looks[0]);
        looks.iter().map(|items| printer.changes(items).unwrap()).collect()
    }

    #[test]
    fn a_watch_prints_every_change() {
        expect![[r#"
            JOB   STATE   SIZE
            a     On      1
            b     On      1
            b     Off     1
            long-name   On      1
            a           Gone    1
        "#]]
        .assert_eq(&watched(Form::Table));
        expect![[r#"
            {"name":"a","state":"On"}
            {"name":"b","state":"On"}
            {"name":"b","state":"Off"}
            {"name":"long-name","state":"On"}
            {"name":"a","state":"Gone"}
        "#]]
        .assert_eq(&watched(Form::Json));
        assert_eq!(watched(Form::Name), "a\nb\nlong-name\n");
        let form = |text: &str| {
            let arg = std::ffi::OsStr::new(text);
            FormParser.parse_ref(&clap::Command::new("get"), None, arg).unwrap()
        };
        assert_eq!(
            watched(form("jsonpath={.name}{.state}")),
            "aOn\nbOn\nbOff\nlong-nameOn\naGone\n"
        );
        expect![[r#"
            IS   OF
            On   a
            On   b
            Off   b
            On     long-name
            Gone   a
        "#]]
        .assert_eq(&watched(form("custom-columns=IS:.state,OF:.name")));
    }

    #[test]
    fn a_removed_entry_without_a_state_keeps_its_cells() {
        let users = [v1::UserInfo { name: "alice".to_owned(), ..Default::default() }];
        let mut printer = Printer::new(Form::Table, false, &users);
        let shown = printer.changes(&users).unwrap();
        let shown: Vec<_> = shown.lines().nth(1).unwrap().split_whitespace().collect();
        let gone = printer.changes::<v1::UserInfo>(&[]).unwrap();
        let gone: Vec<_> = gone.split_whitespace().collect();
        assert_eq!((&shown[..1], &gone[..2]), (&["alice"][..], &["alice", "(Gone)"][..]));
        assert_eq!(shown[1..], gone[2..]);
    }

    #[test]
    fn changes_of_a_watch_may_have_times() {
        let jobs = [Job("a", "On")];
        let text = Printer::new(Form::Table, true, &jobs).changes(&jobs).unwrap();
        let lines: Vec<_> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let [titles, row]: [Vec<_>; 2] = lines.try_into().unwrap();
        assert_eq!(titles, ["TIME", "JOB", "STATE", "SIZE"]);
        assert!(row[0].ends_with('Z') && row[1..] == ["a", "On", "1"], "{row:?}");
        let text = Printer::new(Form::Json, true, &jobs).changes(&jobs).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        assert!(document["time"].as_str().unwrap().ends_with('Z'), "{text}");
    }

    #[test]
    fn names_and_states_filter() {
        let jobs = || vec![Job("a", "On"), Job("b", "Off"), Job("c", "Off")];
        let args = GetArgs {
            names: vec!["a".to_owned(), "b".to_owned()],
            state: vec!["off".to_owned()],
            ..GetArgs::all(Kind::Nodes)
        };
        let left: Vec<_> = chosen(jobs(), &args).iter().map(|job| job.0).collect();
        assert_eq!(left, ["b"]);
        check_states::<Job>(&args).unwrap();
        let args = GetArgs { state: vec!["Half".to_owned()], ..args };
        let error = check_states::<Job>(&args).unwrap_err().to_string();
        assert_eq!(error, "`Half` is no state of nodes: On, Off");
    }
}
