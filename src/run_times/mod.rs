//! Run times in a file of `service.state_dir`, so that a service that starts again knows how long
//! allocations ran before.
//!
//! # When things go wrong
//! A file that cannot be read gets the ending `.broken`, and the log says why: the service begins
//! without run times, since no decision needs them. If the file cannot be written, the log says it
//! once, and it is tried again a minute later.

mod file;

use std::path::PathBuf;
use std::time::Duration;

use monoceros_actors::{RunTimesOf, SchedulerHandle};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::settings::Settings;
use crate::state_dir;

/// The file in `service.state_dir`.
const FILE: &str = "run-times.json.gz";
/// Pause between two times that the file is written.
const EVERY: Duration = Duration::from_secs(60);

/// The file of run times.
#[derive(Debug)]
pub struct RunTimeFile {
    path: PathBuf,
    /// Whether it could not be written the last time.
    is_failing: bool,
}

impl RunTimeFile {
    /// Returns the file. `None` if run times are not measured, or not kept.
    pub fn of(settings: &Settings) -> Option<Self> {
        let folder = settings.service.state_dir.as_ref()?;
        settings.run_times.of_scheduler()?;
        Some(Self { path: folder.join(FILE), is_failing: false })
    }

    /// Reads the file, and makes its folder if that does not exist.
    pub fn read(&self) -> anyhow::Result<Vec<RunTimesOf>> {
        let path = self.path.display();
        state_dir::make_folder_of(&self.path)?;
        let why = match file::read(&self.path) {
            Ok(Some(known)) => {
                info!(file = %path, partitions = known.len(), "run times read");
                return Ok(known);
            }
            Ok(None) => return Ok(Vec::new()),
            Err(why) => why,
        };
        match file::set_aside(&self.path) {
            Ok(broken) => {
                let broken = broken.display();
                warn!(file = %path, %why, kept_as = %broken, "run times not read, measured anew");
            }
            Err(error) => {
                warn!(file = %path, %why, %error, "run times not read, and the file not renamed");
            }
        }
        Ok(Vec::new())
    }

    /// Writes the file once a minute if a run was counted since, and a last time when `stop` is
    /// cancelled.
    pub async fn keep(mut self, handle: SchedulerHandle, stop: CancellationToken) {
        let mut kept = handle.runs_counted().await;
        loop {
            let goes_on = stop.run_until_cancelled(sleep(EVERY)).await.is_some();
            let counted = handle.runs_counted().await;
            if counted != kept && self.write(&handle).await {
                kept = counted;
            }
            if !goes_on {
                return;
            }
        }
    }

    /// Writes the file. Returns whether that succeeded.
    async fn write(&mut self, handle: &SchedulerHandle) -> bool {
        let (path, all) = (self.path.clone(), handle.all_run_times().await);
        let written = spawn_blocking(move || file::write(&path, &all)).await;
        let outcome = match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(panic) => Err(panic.to_string()),
        };
        let metrics = handle.run_time_metrics();
        let (was_failing, file) = (self.is_failing, self.path.display());
        self.is_failing = outcome.is_err();
        match &outcome {
            Ok(()) => {
                metrics.written.inc();
                if was_failing {
                    info!(%file, "run times kept again");
                }
            }
            Err(why) => {
                metrics.failed.inc();
                if !was_failing {
                    error!(%file, %why, "run times not kept, tried again once a minute");
                }
            }
        }
        outcome.is_ok()
    }
}
