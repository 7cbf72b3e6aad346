//! `monoceros admin`: what several commands were called before 0.2, which removes these names.
//!
//! They are hidden and do what the commands of today do.

use clap::Subcommand;

use super::Command;
use super::config::ConfigCommand;
use super::dump::DumpArgs;
use super::get::{GetArgs, Kind};
use super::steer::{ConfirmArgs, DrainArgs};

/// What could be asked for.
#[derive(Debug, Subcommand)]
pub(super) enum AdminCommand {
    /// Now `monoceros get rms`
    Sessions,
    /// Now `monoceros config`
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Now `monoceros get queues`
    Queues,
    /// Now `monoceros get nodes`
    Nodes,
    /// Now `monoceros get apps`
    Applications,
    /// Now `monoceros drain`, and `monoceros uncordon`
    Drain(DrainArgs),
    /// Now `monoceros dump`
    Dump(DumpArgs),
    /// Now `monoceros resync`
    Resync,
    /// Now `monoceros deregister`
    Deregister(ConfirmArgs),
    /// Now `monoceros shutdown`
    Shutdown(ConfirmArgs),
}

impl AdminCommand {
    /// The command of today.
    pub(super) fn today(self) -> Command {
        match self {
            Self::Sessions => Command::Get(GetArgs::all(Kind::Rms)),
            Self::Config(command) => Command::Config(command),
            Self::Queues => Command::Get(GetArgs::all(Kind::Queues)),
            Self::Nodes => Command::Get(GetArgs::all(Kind::Nodes)),
            Self::Applications => Command::Get(GetArgs::all(Kind::Apps)),
            Self::Drain(args) => Command::Drain(args),
            Self::Dump(args) => Command::Dump(args),
            Self::Resync => Command::Resync,
            Self::Deregister(args) => Command::Deregister(args),
            Self::Shutdown(args) => Command::Shutdown(args),
        }
    }
}
