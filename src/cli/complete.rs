//! Completions: the scripts for shells, and the candidates that they ask this program for.
//!
//! A script calls the program with a variable set and the words of the line, and the program prints
//! the candidates: commands, flags and values as the command line defines them, and names of
//! queues, applications, nodes, partitions and resource managers as the scheduler knows them.
//!
//! # Invariants
//! * A completion takes [`PATIENCE`] at most, and offers at most [`MOST`] names.
//! * Without an answer of a scheduler there are no names, and nothing is printed.
//! * Names come from outside, and the shell inserts them into a command: only names without a
//!   character that a shell interprets are offered.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, CommandFactory as _, FromArgMatches as _, ValueEnum as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};
use monoceros_proto::v1;
use tokio::time::timeout;

use super::cluster::{ApplicationFilter, Cluster, Entries, Page, each_page, listed};
use super::connect::ConnectArgs;
use super::get::Kind;
use super::{Cli, finished, output};

/// The variable by which a script asks for candidates.
const VARIABLE: &str = "_MONOCEROS_COMPLETE";

/// Time limit of the names, so that a scheduler far away does not block the shell.
const PATIENCE: Duration = Duration::from_secs(1);

/// Most names that are offered.
const MOST: usize = 200;

/// Entries in a page.
const PAGE: u32 = 10_000;

/// Arguments of `monoceros completions`.
#[derive(Clone, Debug, Args)]
pub(super) struct CompletionArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints the completion script of a shell.
pub(super) fn script(args: &CompletionArgs) -> anyhow::Result<ExitCode> {
    let shells = Shells::builtins();
    let shell = args.shell.to_string();
    let shell = shells.completer(&shell).with_context(|| format!("no script for {shell}"))?;
    let (name, mut script) = ("monoceros", Vec::new());
    shell.write_registration(VARIABLE, name, name, name, &mut script)?;
    output::write(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Answers a script that asks for candidates. `None` if this process is no completion.
pub(super) fn answer() -> Option<ExitCode> {
    let folder = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(command).var(VARIABLE);
    match asked.try_complete(std::env::args_os(), folder.as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        // The shell has nothing to show; a message would stand in the line that is typed.
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// The names that complete an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    Queues,
    Applications,
    Nodes,
    Managers,
    Partitions,
    Users,
    Groups,
    Members,
    /// Names of the kind that stands before them on the line.
    OfKind,
}

/// Arguments that names complete, by command.
const NAMED: [(&str, &str, Names); 12] = [
    ("get", "names", Names::OfKind),
    ("get", "queue", Names::Queues),
    ("get", "user", Names::Users),
    ("get", "app", Names::Applications),
    ("get", "node", Names::Nodes),
    ("describe", "names", Names::OfKind),
    ("explain", "application", Names::Applications),
    ("explain", "queue", Names::Queues),
    ("events", "objects", Names::Applications),
    ("drain", "nodes", Names::Nodes),
    ("cordon", "nodes", Names::Nodes),
    ("uncordon", "nodes", Names::Nodes),
];

/// Arguments of `monoceros cluster` that names complete, by its command.
const OF_CLUSTER: [(&str, &str, Names); 4] = [
    ("move", "manager", Names::Managers),
    ("move", "to", Names::Members),
    ("drain", "member", Names::Members),
    ("undrain", "member", Names::Members),
];

/// Returns the command line with the arguments that names complete.
fn command() -> clap::Command {
    let completer = |names| ArgValueCompleter::new(move |typed: &OsStr| candidates(names, typed));
    let mut command = Cli::command()
        .mut_arg("rm", |arg| arg.add(completer(Names::Managers)))
        .mut_arg("partition", |arg| arg.add(completer(Names::Partitions)));
    for (name, argument, names) in NAMED {
        command = command
            .mut_subcommand(name, |it| it.mut_arg(argument, |arg| arg.add(completer(names))));
    }
    for (name, argument, names) in OF_CLUSTER {
        command = command.mut_subcommand("cluster", |it| {
            it.mut_subcommand(name, |it| it.mut_arg(argument, |arg| arg.add(completer(names))))
        });
    }
    let mut command = finished(command);
    // A flag is offered for a word that begins with a dash, and not among names.
    let hidden = |arg: clap::Arg| if arg.is_positional() { arg } else { arg.hide(true) };
    for (name, ..) in NAMED {
        command = command.mut_subcommand(name, |it| it.mut_args(hidden));
    }
    for (name, ..) in OF_CLUSTER {
        command = command
            .mut_subcommand("cluster", |it| it.mut_subcommand(name, |it| it.mut_args(hidden)));
    }
    command
}

/// Returns the names that begin with the typed text. Empty if the scheduler does not answer.
fn candidates(names: Names, typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let Some((connect, names)) = line(words, names) else { return Vec::new() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let mut found = Found { typed, names: BTreeSet::new() };
    if let Ok(runtime) = runtime {
        // Names that were read before an error or the end of the time are offered.
        let _ =
            runtime.block_on(async { timeout(PATIENCE, read(&connect, names, &mut found)).await });
        // A name server may keep a thread for longer.
        runtime.shutdown_background();
    }
    found.names.into_iter().map(CompletionCandidate::new).collect()
}

/// Returns which scheduler the line selects, and the kind of names. `None` if there are no names.
fn line(words: impl Iterator<Item = OsString>, names: Names) -> Option<(ConnectArgs, Names)> {
    let matches = finished(Cli::command()).ignore_errors(true).try_get_matches_from(words).ok()?;
    let connect = ConnectArgs::from_arg_matches(&matches).ok()?;
    if names != Names::OfKind {
        return Some((connect, names));
    }
    let (_, of_command) = matches.subcommand()?;
    let kind = of_command.try_get_raw("kind").ok()??.next()?.to_str()?;
    Some((connect, of_kind(Kind::from_str(kind, false).ok()?)?))
}

/// Returns the names of a kind. `None` if the kind has none that a scheduler completes.
fn of_kind(kind: Kind) -> Option<Names> {
    Some(match kind {
        Kind::Queues => Names::Queues,
        Kind::Apps => Names::Applications,
        Kind::Nodes => Names::Nodes,
        Kind::Rms => Names::Managers,
        Kind::Partitions => Names::Partitions,
        Kind::Users => Names::Users,
        Kind::Groups => Names::Groups,
        Kind::Members => Names::Members,
        Kind::Decisions | Kind::Events => return None,
    })
}

/// The names found so far.
struct Found<'t> {
    /// The beginning of each name.
    typed: &'t str,
    names: BTreeSet<String>,
}

impl Found<'_> {
    /// Adds the names that begin with the typed text and are harmless in a shell.
    fn add(&mut self, names: impl IntoIterator<Item = String>) {
        let is_plain = |c: char| c.is_alphanumeric() || "-_.,:/@+=%".contains(c);
        let is_wanted = |name: &String| name.starts_with(self.typed) && name.chars().all(is_plain);
        let room = MOST - self.names.len();
        self.names.extend(names.into_iter().filter(is_wanted).take(room));
    }

    fn is_full(&self) -> bool {
        self.names.len() == MOST
    }

    /// Adds the names of a list page by page, until there are enough.
    async fn add_pages<T>(
        &mut self,
        name: impl Fn(T) -> String,
        read: impl AsyncFnMut(Page) -> anyhow::Result<Entries<T>>,
    ) -> anyhow::Result<()> {
        let take = |entries: Vec<T>| {
            self.add(entries.into_iter().map(&name));
            Ok(!self.is_full())
        };
        each_page(PAGE, read, take).await
    }
}

async fn read(args: &ConnectArgs, names: Names, found: &mut Found<'_>) -> anyhow::Result<()> {
    let mut cluster = Cluster::connect(args).await?;
    match names {
        Names::Queues => {
            let root = cluster.read_queue("").await?.root;
            found.add(listed(root).into_iter().map(|it| it.path));
        }
        Names::Applications => {
            let filter = ApplicationFilter::default();
            let read = async |page| cluster.applications_page(&filter, page).await;
            found.add_pages(|it: v1::ApplicationInfo| it.application_id, read).await?;
        }
        Names::Nodes => {
            let read = async |page| cluster.nodes_page(&[], false, page).await;
            found.add_pages(|it: v1::NodeState| it.node_id, read).await?;
        }
        // Lists without remarks on standard error, which would be amid the line that is typed.
        Names::Managers => {
            let request = v1::ListSessionsRequest {};
            let sessions = cluster.admin.list_sessions(request).await?.into_inner().sessions;
            found.add(sessions.into_iter().map(|it| it.rm_id));
        }
        Names::Partitions => {
            let request = v1::ListPartitionsRequest { rm_id: cluster.rm.clone() };
            let partitions = cluster.admin.list_partitions(request).await?.into_inner().partitions;
            found.add(partitions.into_iter().map(|it| it.name));
        }
        Names::Users => {
            let read = async |page| cluster.users_page("", &[], page).await;
            found.add_pages(|it: v1::UserInfo| it.name, read).await?;
        }
        Names::Groups => {
            let read = async |page| cluster.groups_page("", &[], page).await;
            found.add_pages(|it: v1::GroupInfo| it.name, read).await?;
        }
        Names::Members => {
            let request = v1::ListMembersRequest {};
            let members = cluster.admin.list_members(request).await?.into_inner().members;
            found.add(members.into_iter().map(|it| it.member_id));
        }
        Names::OfKind => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_completed_argument_exists() {
        command().debug_assert();
    }

    #[test]
    fn the_line_selects_scheduler_and_kind() {
        let of = |text: &str, names| line(text.split(' ').map(OsString::from), names);
        for (text, expected) in [
            ("monoceros --grpc h:1 get nodes n", Names::Nodes),
            ("monoceros get --grpc h:1 q root.", Names::Queues),
            ("monoceros describe app --grpc h:1 a", Names::Applications),
        ] {
            let (connect, names) = of(text, Names::OfKind).unwrap();
            assert_eq!((connect.grpc.as_deref(), names), (Some("h:1"), expected), "{text}");
        }
        assert!(of("monoceros get decisions 1", Names::OfKind).is_none());
        let (_, names) = of("monoceros drain", Names::Nodes).unwrap();
        assert_eq!(names, Names::Nodes);
    }

    #[test]
    fn only_harmless_names_are_offered_and_not_too_many() {
        let mut found = Found { typed: "a", names: BTreeSet::new() };
        let names = ["a-1", "a$(reboot)", "a b", "a`", "a;b", "a\n", "b", "a/b.c:d"];
        found.add(names.map(str::to_owned));
        assert_eq!(found.names, BTreeSet::from(["a-1", "a/b.c:d"].map(str::to_owned)));
        found.add((0..1_000).map(|n| format!("a{n}")));
        assert!(found.names.len() == MOST && found.is_full());
    }
}
