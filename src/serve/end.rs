//! Reasons for the end of the service, and their exit codes.

use std::io;
use std::process::ExitCode;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinError;
use tracing::{error, info};

use crate::cluster::MemberEnd;
use crate::settings::WrongSettings;

/// Exit code when the scheduler is lost: an internal error, after which the process should be
/// restarted.
const SCHEDULER_LOST: u8 = 70;

/// Exit code when another process has the id of this member of a cluster: a restart would not help.
const ID_IN_USE: u8 = 2;

/// Why the service ends.
pub(super) enum Ended {
    /// A signal or an administrator's call requested the end.
    Asked,
    /// An edge ended by itself, with this result.
    Edge(Result<anyhow::Result<()>, JoinError>),
    SchedulerLost,
    /// Another process has the id of this member of the cluster.
    MemberIdInUse,
}

impl From<MemberEnd> for Ended {
    fn from(end: MemberEnd) -> Self {
        match end {
            MemberEnd::IdInUse => Self::MemberIdInUse,
            // As without the scheduler: nothing is decided any more.
            MemberEnd::Lost => Self::SchedulerLost,
        }
    }
}

impl Ended {
    /// Returns the exit code, or the error that decides it.
    pub(super) fn code(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Asked => {
                info!("stopped");
                Ok(ExitCode::SUCCESS)
            }
            Self::Edge(ended) => {
                ended.context("an edge panicked")??;
                anyhow::bail!("an edge ended by itself");
            }
            // Nothing works without the scheduler: a supervisor restarts the process.
            Self::SchedulerLost => {
                error!("the scheduler is lost");
                Ok(ExitCode::from(SCHEDULER_LOST))
            }
            Self::MemberIdInUse => {
                error!("two processes have the same `cluster.id`: this one ends");
                Ok(ExitCode::from(ID_IN_USE))
            }
        }
    }
}

/// The error of a cluster's settings in a process that is no member.
pub(super) fn wrong_arbiter() -> anyhow::Error {
    let text = "`cluster.arbiter` is of no use here: replicas of `monoceros kubernetes` agree by \
                `kubernetes.lease`";
    anyhow::anyhow!(text).context(WrongSettings)
}

/// The signals that end the service.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt })
    }

    /// Waits for a signal, and returns its name.
    pub(super) async fn wait(mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
