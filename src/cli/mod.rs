//! The command line of `monoceros`: one file for each command.
//!
//! A command that talks to a running scheduler only uses its gRPC services, so an operator's
//! program can do the same. A refusal is printed with the scheduler's reason.
//!
//! There are few flags: a flag is for values that change from one start to the next (addresses,
//! files). Everything else is a setting, which a file can keep and explain. Flags that select the
//! scheduler may stand anywhere on the line.
//!
//! # Invariants
//! * Text from outside cannot control the terminal (`logging::clean`).
//! * A closed standard output ends the command without an error (`output`).
//! * A command that cannot be undone asks for confirmation (`steer`).
//!
//! Reading order: `connect`, `cluster`, `gathered` (the scheduler), `output`, `table`, `document`, `path`,
//! `template`, `amounts`, `records` (output), then the commands.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::logging::{Log, clean_lines};
use crate::serve::LocalManager;
use crate::settings::{LogSettings, Settings, SettingsError, WrongSettings};
#[cfg(feature = "simulator")]
use crate::simulate::{self, SimulateArgs};
use crate::{serve, settings};

mod amounts;
mod cluster;
mod complete;
mod config;
mod connect;
mod describe;
mod document;
mod dump;
mod events;
mod explain;
mod gathered;
mod get;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod manual;
mod members;
mod names;
pub(crate) mod output;
mod path;
mod records;
mod snapshot;
mod steer;
mod table;
mod template;
mod top;
mod validate;
pub(crate) mod version;
#[cfg(feature = "simulator")]
mod whatif;

use self::complete::CompletionArgs;
use self::connect::ConnectArgs;
use self::describe::DescribeArgs;
use self::dump::DumpArgs;
use self::events::EventsArgs;
use self::explain::ExplainArgs;
use self::get::GetArgs;
#[cfg(feature = "kubernetes")]
use self::kubernetes::KubernetesArgs;
use self::manual::ManArgs;
use self::members::ClusterCommand;
use self::output::{ReaderGone, WrongLine};
use self::snapshot::SnapshotArgs;
use self::steer::{ConfirmArgs, DrainArgs, NodesArgs};
use self::top::TopArgs;
use self::validate::ValidateArgs;
#[cfg(feature = "simulator")]
use self::whatif::WhatIfArgs;

pub(crate) use self::connect::GRPC_VARIABLE;
pub use self::version::{BUILD, Build, build_date};

/// A cluster resource scheduler.
#[derive(Debug, Parser)]
#[command(
    name = "monoceros",
    version = version::TEXT,
    arg_required_else_help = true,
    subcommand_required = true,
    max_term_width = 100
)]
pub struct Cli {
    /// Where the scheduler is, and what is meant there.
    #[command(flatten)]
    connect: ConnectArgs,
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

/// What `monoceros` can do.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run the scheduler: resource managers connect over gRPC, people over HTTP
    Serve(ServeArgs),
    /// Run the scheduler for a Kubernetes cluster: pods that name it are scheduled
    #[cfg(feature = "kubernetes")]
    Kubernetes(KubernetesArgs),
    /// List queues, apps, nodes, partitions, users, groups, decisions, events, rms (resource
    /// managers) or members of a cluster
    Get(GetArgs),
    /// Tell all about a queue, app, node, partition, user, group, decision, rm or member
    Describe(DescribeArgs),
    /// Say why the requests of an application, or all those in a queue, wait, and what would let
    /// them run
    Explain(ExplainArgs),
    /// Show who uses most
    Top(TopArgs),
    /// Print what happened, and follow what happens
    Events(EventsArgs),
    /// Close nodes for new allocations, and wait until nothing runs there any more if wanted
    Drain(DrainArgs),
    /// Close nodes for new allocations
    Cordon(NodesArgs),
    /// Open nodes for new allocations
    Uncordon(NodesArgs),
    /// Read or change the queue configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Move resource managers between the members of a cluster, or drain members
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Write the full state as JSON
    Dump(DumpArgs),
    /// Write the state into a file from which another scheduler goes on
    Snapshot(SnapshotArgs),
    /// Make the resource manager register again and report everything
    Resync,
    /// End the session of the resource manager, with all that is known of it; until it registers
    /// again, it is not served
    Deregister(ConfirmArgs),
    /// End the scheduler in order
    Shutdown(ConfirmArgs),
    /// Check a queue configuration or a settings file, print every error in it, and what it would
    /// change
    Validate(ValidateArgs),
    /// Replay a cluster trace in virtual time and report how it went
    #[cfg(feature = "simulator")]
    Simulate(SimulateArgs),
    /// Say what would happen if something were changed: who would be evicted, who would start
    /// earlier or later, and who never
    #[cfg(feature = "simulator")]
    #[command(name = "whatif")]
    WhatIf(Box<WhatIfArgs>),
    /// Print a script that completes commands in a shell
    Completions(CompletionArgs),
    /// Print the manual page, or write the pages of all commands
    Man(ManArgs),
}

/// Arguments of `monoceros serve`.
#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    /// Settings file (TOML); the defaults apply to what it does not mention
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Queue configuration (YAML) of resource managers that bring none
    #[arg(long, value_name = "FILE")]
    pub queues: Option<PathBuf>,
    /// Where to listen for resource managers; port 0 takes a free one
    #[arg(long, value_name = "IP:PORT")]
    pub grpc: Option<String>,
    /// Where to listen for HTTP; port 0 takes a free one
    #[arg(long, value_name = "IP:PORT")]
    pub http: Option<String>,
    /// Also run a simulated resource manager that keeps the scheduler busy
    #[arg(long)]
    pub demo: bool,
}

/// Returns the connection flags that a command without a scheduler still uses: its own address and,
/// for `kubernetes`, the connection to a scheduler in another process.
fn own_flags(name: &str) -> &'static [&'static str] {
    match name {
        "serve" => &["grpc"],
        "kubernetes" => &["grpc", "rm", "token", "ca", "cert", "key"],
        _ => &[],
    }
}

/// Commands that do not connect to a scheduler.
const OFFLINE: &[&str] = &[
    "serve",
    #[cfg(feature = "kubernetes")]
    "kubernetes",
    "validate",
    #[cfg(feature = "simulator")]
    "simulate",
    "completions",
    "man",
];

/// Exit code for a wrong command line, as in clap, and for wrong settings.
const WRONG_INPUT: u8 = 2;

fn command() -> clap::Command {
    finished(Cli::command())
}

/// Returns the command line without the `help` command, which needs no page.
fn documented() -> clap::Command {
    let command = Cli::command().disable_help_subcommand(true);
    let with_commands = ["config", "cluster"].into_iter();
    finished(with_commands.fold(command, |command, name| {
        command.mut_subcommand(name, |it| it.disable_help_subcommand(true))
    }))
}

fn finished(mut command: clap::Command) -> clap::Command {
    // Adds the global flags to each command, so that they can be hidden.
    command.build();
    for &name in OFFLINE {
        command = command.mut_subcommand(name, |command| {
            let own = own_flags(name);
            command.mut_args(|arg| {
                let id = arg.get_id().as_str();
                let is_foreign = connect::IDS.contains(&id) && !own.contains(&id);
                if is_foreign { arg.hide(true) } else { arg }
            })
        });
    }
    command
}

/// Runs the command line of this process, and returns its exit code. Errors are printed to standard
/// error.
pub fn run() -> ExitCode {
    if let Some(completed) = complete::answer() {
        return completed;
    }
    let matches = command().try_get_matches();
    let matches = matches.unwrap_or_else(|error| get::name_kinds(error).exit());
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    refuse_unused_flags(&matches, &cli.connect);
    let outcome = match cli.command {
        Command::Serve(args) => run_service(&args, async |_| Ok(None)),
        #[cfg(feature = "kubernetes")]
        Command::Kubernetes(args) => kubernetes::run(&args, &cli.connect),
        #[cfg(feature = "simulator")]
        Command::Simulate(args) => simulate::run(args),
        #[cfg(feature = "simulator")]
        Command::WhatIf(args) => whatif::run(&args, &cli.connect),
        Command::Validate(args) => validate::run(&args),
        Command::Completions(args) => complete::script(&args),
        Command::Man(args) => manual::pages(&args),
        command => ask(command, &cli.connect),
    };
    outcome.unwrap_or_else(|error| {
        if error.is::<ReaderGone>() {
            return ExitCode::SUCCESS;
        }
        let text = format!("monoceros: {error:#}");
        let text = clean_lines(&text);
        if writeln!(io::stderr(), "{text}").is_err() {
            // If this fails too, nobody is left to notify.
            let _ = writeln!(io::stdout(), "{text}");
        }
        if is_wrong_input(&error) { ExitCode::from(WRONG_INPUT) } else { ExitCode::FAILURE }
    })
}

/// Whether the command line or a setting is wrong: another try would fail, too.
fn is_wrong_input(error: &anyhow::Error) -> bool {
    error.is::<WrongLine>() || error.is::<SettingsError>() || error.is::<WrongSettings>()
}

/// Runs a command that talks to a running scheduler.
fn ask(command: Command, connect: &ConnectArgs) -> anyhow::Result<ExitCode> {
    connect::run(connect, async {
        let mut cluster = cluster::Cluster::connect(connect).await?;
        match answer(command, &mut cluster).await {
            Err(error) => Err(cluster.name_managers(error).await),
            done => done,
        }
    })
}

async fn answer(command: Command, cluster: &mut cluster::Cluster) -> anyhow::Result<ExitCode> {
    match command {
        Command::Get(args) => get::run(cluster, args).await,
        Command::Describe(args) => describe::run(cluster, &args).await,
        Command::Explain(args) => explain::run(cluster, &args).await,
        Command::Top(args) => top::run(cluster, &args).await,
        Command::Events(args) => events::run(cluster, &args).await,
        Command::Drain(args) => steer::drain(cluster, &args).await,
        Command::Cordon(args) => steer::cordon(cluster, &args).await,
        Command::Uncordon(args) => steer::uncordon(cluster, &args).await,
        Command::Config(command) => config::run(cluster, &command).await,
        Command::Cluster(command) => members::run(cluster, command).await,
        Command::Dump(args) => dump::run(cluster, &args).await,
        Command::Snapshot(args) => snapshot::run(cluster, &args).await,
        Command::Resync => steer::resync(cluster).await,
        Command::Deregister(args) => steer::deregister(cluster, args).await,
        Command::Shutdown(args) => steer::shutdown(cluster, args).await,
        #[cfg(feature = "simulator")]
        Command::Simulate(_) | Command::WhatIf(_) => unreachable!("it has a runtime of its own"),
        #[cfg(feature = "kubernetes")]
        Command::Kubernetes(_) => unreachable!("it is a scheduler"),
        Command::Serve(_) | Command::Validate(_) | Command::Completions(_) | Command::Man(_) => {
            unreachable!("these ask no scheduler")
        }
    }
}

/// Ends the process if a flag selects a scheduler for a command that uses none.
fn refuse_unused_flags(matches: &ArgMatches, connect: &ConnectArgs) {
    let Some((name, _)) = matches.subcommand() else { return };
    if !OFFLINE.contains(&name) {
        return;
    }
    // `serve` uses `--grpc` for its own address.
    let useless = connect.given().into_iter().find(|id| !own_flags(name).contains(id));
    if let Some(flag) = useless {
        let text = format!("`--{flag}` says which scheduler is meant, and `{name}` asks none");
        command().error(ErrorKind::ArgumentConflict, text).exit();
    }
}

/// Runs the service, optionally with a resource manager in this process.
fn run_service(
    args: &ServeArgs,
    local_manager: impl AsyncFnOnce(&Settings) -> anyhow::Result<Option<LocalManager>>,
) -> anyhow::Result<ExitCode> {
    let (settings, values) = serve::settings(args)?;
    let log = settings.log.clone();
    in_runtime(&log, async |log| {
        let local_manager = local_manager(&settings).await?;
        serve::run((settings, values), args, local_manager, log.account()).await
    })
}

/// Runs a service with its log.
fn in_runtime(
    settings: &LogSettings,
    service: impl AsyncFnOnce(&Log) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let log = Log::start(settings)?;
        for (key, meant) in settings::ignored_variables() {
            tracing::warn!(
                key,
                meant,
                "not a setting, ignored; a setting has two underscores twice"
            );
        }
        service(&log).await
    });
    // Cuts off tasks that have not ended within the grace period.
    runtime.shutdown_background();
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Cli {
        let line = ["monoceros"].iter().chain(arguments);
        let matches = command().try_get_matches_from(line).unwrap_or_else(|it| panic!("{it}"));
        Cli::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn flags_that_stand_anywhere_mean_the_same_everywhere() {
        fn clashes(command: &clap::Command) -> Vec<String> {
            let own = command.get_arguments().map(|arg| arg.get_id().as_str());
            let own = own.filter(|id| connect::IDS.contains(id));
            let own = own.map(|id| format!("{} --{id}", command.get_name()));
            own.chain(command.get_subcommands().flat_map(clashes)).collect()
        }
        let found: Vec<_> = Cli::command().get_subcommands().flat_map(clashes).collect();
        let services = OFFLINE.iter().filter(|name| own_flags(name).contains(&"grpc"));
        let expected: Vec<_> = services.map(|name| format!("{name} --grpc")).collect();
        assert_eq!(found, expected, "where the service listens, which is where it is found");
    }

    #[test]
    fn nothing_to_do_shows_the_help() {
        let error = Cli::try_parse_from(["monoceros"]).unwrap_err();
        assert!(error.to_string().contains("Usage"), "{error}");
    }

    #[test]
    fn connection_flags_may_stand_anywhere() {
        for line in [
            &["--rm", "a", "--grpc", "h:1", "get", "nodes", "n1"][..],
            &["get", "--rm", "a", "nodes", "--grpc", "h:1", "n1"],
            &["get", "nodes", "n1", "--rm", "a", "--grpc", "h:1"],
            &["--rm", "a", "get", "nodes", "--grpc", "h:1"],
        ] {
            let connect = parsed(line).connect;
            assert_eq!((connect.rm.as_deref(), connect.grpc.as_deref()), (Some("a"), Some("h:1")));
        }
    }

    #[test]
    fn the_service_has_an_address_of_its_own() {
        for line in [&["serve", "--grpc", "127.0.0.1:0"][..], &["--grpc", "127.0.0.1:0", "serve"]] {
            let Command::Serve(args) = parsed(line).command else { panic!("{line:?}") };
            assert_eq!(args.grpc.as_deref(), Some("127.0.0.1:0"));
        }
    }

    #[test]
    fn offline_commands_hide_connection_flags() {
        for name in OFFLINE.iter().copied().filter(|name| own_flags(name).len() < 2) {
            let help = command().find_subcommand_mut(name).unwrap().render_help().to_string();
            assert!(!help.contains("--token"), "{help}");
        }
        let help = command().find_subcommand_mut("get").unwrap().render_help().to_string();
        assert!(help.contains("--token"), "{help}");
    }
}
