//! The queue configuration of resource managers that bring none: a file that is read at the start,
//! and again at each SIGHUP.
//!
//! Unlike [`files`](crate::files) it is not read every few seconds: a file that is half written may be
//! valid, and would take queues away.
//!
//! # Invariants
//! * What is in force can always be used: a file that cannot be read or has errors changes nothing,
//!   and each of its errors is a record of the log that names the file.
//! * Texts reach the scheduler one after another, the newest last.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use monoceros_actors::SchedulerHandle;
use monoceros_rules::config;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::files::Refresh;
use crate::{input, validate};

/// See the module.
#[derive(Debug)]
pub struct QueuesFile {
    path: PathBuf,
    text: watch::Sender<Arc<str>>,
}

impl QueuesFile {
    /// Reads the file for the first time. There is nothing when it has errors, which are printed.
    pub fn load(path: &Path) -> anyhow::Result<Option<Arc<Self>>> {
        let text = input::read_text(path)?;
        if validate::check(path, &text)?.is_none() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Self { path: path.to_owned(), text: watch::Sender::new(text.into()) })))
    }

    /// What it says, as far as that can be used.
    pub fn text(&self) -> Arc<str> {
        Arc::clone(&self.text.borrow())
    }

    /// Hands each later text to the scheduler, until `stop` is cancelled.
    pub async fn keep_in_force(self: Arc<Self>, handle: SchedulerHandle, stop: CancellationToken) {
        let mut texts = self.text.subscribe();
        let keep = async {
            while texts.changed().await.is_ok() {
                let text = Arc::clone(&texts.borrow_and_update());
                self.put_in_force(&handle, &text).await;
            }
        };
        stop.run_until_cancelled(keep).await;
    }

    async fn put_in_force(&self, handle: &SchedulerHandle, text: &str) {
        let file = self.path.display();
        let outcomes = match handle.set_default_queues(text).await {
            Ok(outcomes) => outcomes,
            Err(reason) => return error!(%file, %reason, "queue configuration not in force"),
        };
        for (rm, outcome) in outcomes {
            match outcome {
                Ok(update) if update.changed => info!(%file, rm, "queue configuration in force"),
                Ok(_) => {}
                Err(reason) => warn!(%file, rm, %reason, "queue configuration not in force"),
            }
        }
        info!(%file, "queue configuration read again");
    }

    fn reread(&self) {
        let file = self.path.display();
        if self.path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return warn!(%file, "a queue configuration that is no file cannot be read again");
        }
        let text = match input::read_text(&self.path) {
            Ok(text) => text,
            Err(reason) => return error!(%reason, "queue configuration not read again"),
        };
        match config::parse(&text) {
            Ok(configuration) => {
                for warning in &configuration.warnings {
                    warn!(%file, %warning, "queue configuration");
                }
                self.text.send_replace(text.into());
            }
            Err(errors) => {
                for reason in errors.to_string().lines() {
                    error!(%file, reason, "queue configuration");
                }
                warn!(%file, "queue configuration cannot be used, what was read before stays");
            }
        }
    }
}

impl Refresh for QueuesFile {
    fn refresh(&self) {}

    fn hang_up(&self) {
        self.reread();
    }
}
