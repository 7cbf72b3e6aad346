//! The command line of `monoceros`.
//!
//! Flags are few: a flag is for what changes from one start to the next (where to listen, which
//! file), and everything else is a setting, which a file can keep and explain.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::admin_cli::AdminArgs;
use crate::explain_cli::ExplainArgs;
use crate::simulate::SimulateArgs;

/// A cluster resource scheduler.
#[derive(Debug, Parser)]
#[command(name = "monoceros", version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What `monoceros` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the scheduler: resource managers connect over gRPC, people over HTTP
    Serve(ServeArgs),
    /// Replay a cluster trace in virtual time and report how it went
    Simulate(SimulateArgs),
    /// Check a queue configuration, print every error in it, and what it would change
    Validate(ValidateArgs),
    /// Look into a running scheduler and steer it
    Admin(AdminArgs),
    /// Say why the requests of an application wait, and what would let them run
    Explain(ExplainArgs),
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

/// Arguments of `monoceros validate`.
#[derive(Clone, Debug, Args)]
pub struct ValidateArgs {
    /// The queue configuration (YAML)
    #[arg(value_name = "QUEUES.yaml")]
    pub file: PathBuf,
    /// Also print what is different from this one, which is or was in force; empty: the built-in one
    #[arg(long, value_name = "OLD.yaml")]
    pub against: Option<PathBuf>,
    /// A saved state dump (JSON), to say what is in use beyond what may be
    #[arg(long, value_name = "DUMP.json", requires = "against")]
    pub usage: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn nothing_to_do_shows_the_help() {
        let error = Cli::try_parse_from(["monoceros"]).unwrap_err();
        assert!(error.to_string().contains("Usage"), "{error}");
    }
}
