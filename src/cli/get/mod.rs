//! `monoceros get`: lists of one kind of things, as columns, documents or names, once or again and
//! again.
//!
//! A kind is a [`Thing`]: what it is called, its state, its cells and its document. Everything else
//! is the same for all kinds.
//!
//! # Invariants
//! * A name that is asked for and not there is said, and the exit code is 1.
//! * While it is watched, a thing is printed when it comes, when anything but its age changes, and
//!   when it goes.

mod applications;
mod decisions;
mod nodes;
mod queues;
mod rms;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;
use tokio::time::sleep;

use super::amounts::{age, now_ns};
use super::cluster::Cluster;
use super::document::{json, json_line, yaml};
use super::events::{self, EventsArgs};
use super::output::{self, Form, WrongLine};
use super::table::Table;
use crate::logging::clean;

pub(super) use self::nodes::usage as node_usage;
pub(super) use self::queues::usage as queue_usage;

/// What is shown as the state of a thing that is there no more.
const GONE: &str = "Gone";

/// Arguments of `monoceros get`.
#[derive(Clone, Debug, Args)]
pub(super) struct GetArgs {
    /// What to list
    #[arg(value_name = "KIND")]
    pub(super) kind: Kind,
    /// Only these: paths of queues, numbers of decisions, ids of others
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// Only what is in this queue or below it
    #[arg(long, value_name = "PATH")]
    pub(super) queue: Option<String>,
    /// Only what is in one of these states
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub(super) state: Vec<String>,
    /// Only what is of one of these users
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    pub(super) user: Vec<String>,
    /// Applications that have ended and are still kept, the last one first
    #[arg(long, conflicts_with = "watch")]
    pub(super) ended: bool,
    /// Applications that were rejected and are still kept, the last one first
    #[arg(long, conflicts_with_all = ["ended", "watch"])]
    pub(super) rejected: bool,
    /// Only decisions about this application
    #[arg(long, value_name = "ID")]
    pub(super) app: Option<String>,
    /// Only decisions about this node
    #[arg(long, value_name = "ID")]
    pub(super) node: Option<String>,
    /// Only decisions about the request, or the allocation, of this key
    #[arg(long, value_name = "KEY")]
    pub(super) request: Option<String>,
    /// Only decisions of this kind
    #[arg(long = "kind", value_name = "KIND")]
    pub(super) decided: Option<Decided>,
    /// How to print it
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    pub(super) output: Form,
    /// Go on, and print what changes
    #[arg(short, long)]
    pub(super) watch: bool,
    /// How many seconds pass between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 2, requires = "watch",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) interval: u32,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Queues, in the order of the tree
    #[value(aliases = ["queue", "q"])]
    Queues,
    /// Applications: those that are live, unless `--ended` or `--rejected` says otherwise
    #[value(aliases = ["app", "applications", "application"])]
    Apps,
    /// Nodes
    #[value(aliases = ["node", "no"])]
    Nodes,
    /// The last decisions: what was placed, reserved or told to leave
    #[value(alias = "decision")]
    Decisions,
    /// What happened of late
    #[value(aliases = ["event", "ev"])]
    Events,
    /// Sessions of resource managers
    #[value(aliases = ["rm", "sessions", "session"])]
    Rms,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Decided {
    /// A request has a node
    Allocation,
    /// A request has a node set aside
    Reservation,
    /// An allocation leaves for others
    Eviction,
}

impl Kind {
    /// What it is called in sentences.
    fn plural(self) -> &'static str {
        match self {
            Self::Queues => "queues",
            Self::Apps => "applications",
            Self::Nodes => "nodes",
            Self::Decisions => "decisions",
            Self::Events => "events",
            Self::Rms => "resource managers",
        }
    }
}

impl GetArgs {
    /// All of a kind, as columns.
    #[cfg(test)]
    pub(super) fn all(kind: Kind) -> Self {
        Self {
            kind,
            names: Vec::new(),
            queue: None,
            ended: false,
            rejected: false,
            state: Vec::new(),
            user: Vec::new(),
            app: None,
            node: None,
            request: None,
            decided: None,
            output: Form::Table,
            watch: false,
            interval: 2,
        }
    }

    /// Refuses filters that mean nothing for this kind.
    fn check(&self) -> anyhow::Result<()> {
        let (is_queued, has_state) = match self.kind {
            Kind::Apps | Kind::Queues => (true, true),
            Kind::Nodes | Kind::Rms => (false, true),
            Kind::Decisions => (true, false),
            Kind::Events => (false, false),
        };
        let has_user = self.kind == Kind::Apps;
        let is_decided = self.kind == Kind::Decisions;
        for (flag, is_given, is_known) in [
            ("--queue", self.queue.is_some(), is_queued),
            ("--state", !self.state.is_empty(), has_state),
            ("--ended", self.ended, has_user),
            ("--rejected", self.rejected, has_user),
            ("--user", !self.user.is_empty(), has_user),
            ("--app", self.app.is_some(), is_decided),
            ("--node", self.node.is_some(), is_decided),
            ("--request", self.request.is_some(), is_decided),
            ("--kind", self.decided.is_some(), is_decided),
        ] {
            if is_given && !is_known {
                let text = format!("{flag} does not choose among {}", self.kind.plural());
                return Err(WrongLine(text).into());
            }
        }
        Ok(())
    }
}

/// What a list has columns for, beside those it always has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    /// Those of the wide form.
    wide: bool,
    /// One for the types beside cores and memory.
    others: bool,
}

/// One entry of a list. The first two cells are its name and its state.
pub(super) trait Thing: Sized {
    /// What tells it apart from others of its kind.
    fn name(&self) -> &str;
    fn state(&self) -> &str;
    /// When it came, in nanoseconds since the epoch; none where its kind has no age.
    fn since_ns(&self) -> Option<i64>;
    /// Whether it has types beside cores and memory.
    fn has_others(&self) -> bool;
    /// The titles of the columns behind the first two, without that of the age.
    fn titles(columns: Columns) -> Vec<&'static str>;
    fn cells(&self, columns: Columns) -> Vec<String>;
    fn document(&self) -> anyhow::Result<Value>;
    /// The title of the first column.
    const TITLE: &'static str;
    /// Whether there is a column for the age.
    const HAS_AGE: bool;
    /// The states that there are; empty where the scheduler looks at them.
    const STATES: &'static [&'static str];
}

/// Prints a list, once or until it is interrupted.
pub(super) async fn run(cluster: &mut Cluster, args: GetArgs) -> anyhow::Result<ExitCode> {
    args.check()?;
    match args.kind {
        Kind::Queues => {
            list(cluster, &args, async |cluster, args| queues::read(cluster, args).await).await
        }
        Kind::Apps => {
            list(cluster, &args, async |cluster, args| applications::read(cluster, args).await)
                .await
        }
        Kind::Nodes => {
            list(cluster, &args, async |cluster, args| nodes::read(cluster, args).await).await
        }
        Kind::Rms => {
            list(cluster, &args, async |cluster, args| rms::read(cluster, args).await).await
        }
        Kind::Decisions => decisions::run(cluster, &args).await,
        Kind::Events => {
            let args = EventsArgs::listed(args.names, args.watch, args.output);
            events::run(cluster, &args).await
        }
    }
}

async fn list<T: Thing>(
    cluster: &mut Cluster,
    args: &GetArgs,
    read: impl AsyncFn(&mut Cluster, &GetArgs) -> anyhow::Result<Vec<T>>,
) -> anyhow::Result<ExitCode> {
    check_states::<T>(args)?;
    let things = chosen(read(cluster, args).await?, args);
    let n_missing = say_missing(&things, args)?;
    if things.is_empty() && n_missing == 0 && !args.watch {
        writeln!(io::stderr(), "no {} found", args.kind.plural())?;
    }
    let mut printer = Printer::new(args.output, &things);
    output::write(&printer.whole(&things, args.watch)?)?;
    if !args.watch {
        return Ok(if n_missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    loop {
        sleep(Duration::from_secs(args.interval.into())).await;
        let things = chosen(read(cluster, args).await?, args);
        output::write(&printer.changes(&things)?)?;
    }
}

/// Refuses a state that no thing of this kind has.
fn check_states<T: Thing>(args: &GetArgs) -> anyhow::Result<()> {
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

/// What the names and states of the line leave.
fn chosen<T: Thing>(mut things: Vec<T>, args: &GetArgs) -> Vec<T> {
    things.retain(|thing| {
        let is_named = args.names.is_empty() || args.names.iter().any(|name| name == thing.name());
        let has_state = T::STATES.is_empty()
            || args.state.is_empty()
            || args.state.iter().any(|state| state.eq_ignore_ascii_case(thing.state()));
        is_named && has_state
    });
    things
}

/// Says which of the names are not there; returns how many.
fn say_missing<T: Thing>(things: &[T], args: &GetArgs) -> anyhow::Result<usize> {
    let is_there = |name: &String| things.iter().any(|thing| thing.name() == name);
    let is_filtered = !args.state.is_empty() || !args.user.is_empty() || args.queue.is_some();
    let missing: Vec<_> = args.names.iter().filter(|name| !is_there(name)).collect();
    for name in &missing {
        let title = T::TITLE.to_lowercase();
        let among = if is_filtered { " among those that the filters leave" } else { "" };
        writeln!(io::stderr(), "there is no {title} `{}`{among}", clean(name))?;
    }
    Ok(missing.len())
}

/// Prints a list and what changes in it.
struct Printer {
    form: Form,
    columns: Columns,
    table: Table,
    /// What was printed of each thing: its cells without its age, or its document.
    printed: BTreeMap<String, Printed>,
}

#[derive(Clone, PartialEq)]
enum Printed {
    Cells(Vec<String>),
    Document(Value),
}

impl Printer {
    fn new<T: Thing>(form: Form, things: &[T]) -> Self {
        let columns =
            Columns { wide: form == Form::Wide, others: things.iter().any(Thing::has_others) };
        let mut titles = vec![T::TITLE, "STATE"];
        titles.extend(T::titles(columns));
        titles.extend(T::HAS_AGE.then_some("AGE"));
        Self { form, columns, table: Table::new(titles), printed: BTreeMap::new() }
    }

    /// The whole list; a list that is watched is lines that can be read one by one.
    fn whole<T: Thing>(&mut self, things: &[T], watch: bool) -> anyhow::Result<String> {
        if watch {
            return self.changes(things);
        }
        let documents = || things.iter().map(Thing::document).collect::<anyhow::Result<Vec<_>>>();
        Ok(match self.form {
            Form::Table | Form::Wide if things.is_empty() => String::new(),
            Form::Table | Form::Wide => {
                let rows: Vec<_> = things.iter().map(|thing| self.row(thing)).collect();
                self.table.part(rows)
            }
            Form::Json => json(&Value::Array(documents()?))?,
            Form::Yaml => yaml(&Value::Array(documents()?))?,
            Form::Name => things.iter().map(|thing| clean(thing.name()) + "\n").collect(),
        })
    }

    /// What is new, different or gone since the last time.
    fn changes<T: Thing>(&mut self, things: &[T]) -> anyhow::Result<String> {
        let (mut rows, mut text) = (Vec::new(), String::new());
        let mut before = std::mem::take(&mut self.printed);
        for thing in things {
            let printed = self.printed(thing)?;
            if before.remove(thing.name()).as_ref() != Some(&printed) {
                match &printed {
                    Printed::Cells(_) if self.form == Form::Name => {
                        text += &(clean(thing.name()) + "\n");
                    }
                    Printed::Cells(_) => rows.push(self.row(thing)),
                    Printed::Document(document) => text += &self.one(document)?,
                }
            }
            self.printed.insert(thing.name().to_owned(), printed);
        }
        for (name, gone) in before {
            match gone {
                Printed::Cells(_) if self.form == Form::Name => {}
                Printed::Cells(mut cells) => {
                    cells.splice(..2, [name, GONE.to_owned()]);
                    cells.extend(T::HAS_AGE.then(String::new));
                    rows.push(cells);
                }
                Printed::Document(mut document) => {
                    document["state"] = GONE.into();
                    text += &self.one(&document)?;
                }
            }
        }
        if !rows.is_empty() {
            text += &self.table.part(rows);
        }
        Ok(text)
    }

    /// One document of many.
    fn one(&self, document: &Value) -> anyhow::Result<String> {
        if self.form == Form::Json {
            json_line(document)
        } else {
            Ok("---\n".to_owned() + &yaml(document)?)
        }
    }

    fn printed<T: Thing>(&self, thing: &T) -> anyhow::Result<Printed> {
        Ok(match self.form {
            Form::Json | Form::Yaml => Printed::Document(thing.document()?),
            // A name does not change.
            Form::Name => Printed::Cells(Vec::new()),
            Form::Table | Form::Wide => Printed::Cells(self.lasting(thing)),
        })
    }

    /// The cells that change only with the thing.
    fn lasting<T: Thing>(&self, thing: &T) -> Vec<String> {
        let mut cells = vec![thing.name().to_owned(), thing.state().to_owned()];
        cells.extend(thing.cells(self.columns));
        cells
    }

    fn row<T: Thing>(&self, thing: &T) -> Vec<String> {
        let mut cells = self.lasting(thing);
        if T::HAS_AGE {
            cells.push(age(thing.since_ns().unwrap_or_default(), now_ns()));
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    struct Job(&'static str, &'static str);

    impl Thing for Job {
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

    /// What is printed of three looks.
    fn watched(form: Form) -> String {
        let looks: [&[Job]; 4] = [
            &[Job("a", "On"), Job("b", "On")],
            &[Job("a", "On"), Job("b", "Off")],
            &[Job("a", "On"), Job("b", "Off")],
            &[Job("b", "Off"), Job("long-name", "On")],
        ];
        let mut printer = Printer::new(form, looks[0]);
        looks.iter().map(|things| printer.changes(things).unwrap()).collect()
    }

    #[test]
    fn what_comes_changes_and_goes_is_printed() {
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
    }

    #[test]
    fn names_and_states_choose() {
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

    #[test]
    fn a_filter_that_means_nothing_is_refused() {
        let users = GetArgs { user: vec!["u".to_owned()], ..GetArgs::all(Kind::Nodes) };
        let error = users.check().unwrap_err().to_string();
        assert_eq!(error, "--user does not choose among nodes");
        let nodes = GetArgs { app: Some("a".to_owned()), ..GetArgs::all(Kind::Nodes) };
        let error = nodes.check().unwrap_err().to_string();
        assert_eq!(error, "--app does not choose among nodes");
        let queue = GetArgs { queue: Some("root".to_owned()), ..GetArgs::all(Kind::Events) };
        assert!(queue.check().is_err());
    }
}
