//! The queue configuration of resource managers that bring none. It is a file, read at the start,
//! at each SIGHUP and, unless `scheduler.watch_queues` is off, whenever it changes. Policy groups
//! have files of their own (`policies`).
//!
//! Unlike [`files`](crate::files), the file is not read every few seconds: a half-written file may
//! be valid, and would remove queues. The file is watched (`watch`), and read once no more changes
//! follow.
//!
//! # Invariants
//! * The configuration in force is always valid: a file that cannot be read or has errors changes
//!   nothing, and each of its errors is logged with the name of the file.
//! * Texts reach the scheduler one after another, the newest last.

mod policies;
mod watch;
mod way;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use monoceros_actors::config::{self, config_map};
use monoceros_actors::{OutcomeOfDefaults, SchedulerHandle};
use tokio::sync::{Notify, watch as value};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

pub use self::policies::{Changes, PolicyFiles};
use self::watch::keep_watching;
use self::way::WatchTarget;
use crate::files::Refresh;
use crate::{input, validate};

/// Keeper of the texts of files that all members of a cluster share.
pub trait SharedTexts: Send + Sync {
    /// Takes the text of a file for a policy group, or for all groups without one of their own. An
    /// empty text withdraws it. Returns when the text is shared, or does not count.
    fn offer<'a>(
        &'a self,
        group: Option<&'a str>,
        file: &'a Path,
        text: &'a Arc<str>,
    ) -> BoxFuture<'a, ()>;
}

/// What the texts of files are applied to.
#[derive(Clone)]
pub enum TextTarget {
    /// The scheduler of this process.
    Scheduler(SchedulerHandle),
    /// All members of the cluster.
    Cluster(Arc<dyn SharedTexts>),
}

/// The file of queues, with its last usable text.
#[derive(Debug)]
pub struct QueuesFile {
    path: PathBuf,
    text: value::Sender<Arc<str>>,
    /// Result of the last read: the text, valid or not, or the reason why it could not be read.
    seen: Mutex<Result<String, String>>,
    /// Makes the watching task start again.
    hung_up: Notify,
}

impl QueuesFile {
    /// Reads the file for the first time. `None` if it has errors, which are printed.
    pub fn load(path: &Path) -> anyhow::Result<Option<Arc<Self>>> {
        let text = input::read_text(path)?;
        if validate::check(path, &text).is_none() {
            return Ok(None);
        }
        let text = queues_in(text);
        let (path, seen) = (path.to_owned(), Mutex::new(Ok(text.clone())));
        let (text, hung_up) = (value::Sender::new(text.into()), Notify::new());
        Ok(Some(Arc::new(Self { path, text, seen, hung_up })))
    }

    /// Returns the last usable text.
    pub fn text(&self) -> Arc<str> {
        Arc::clone(&self.text.borrow())
    }

    /// Applies each new text, until `stop` is cancelled. The scheduler has the first text from its
    /// start; a cluster gets it here.
    pub fn keep_in_force(
        self: Arc<Self>,
        target: TextTarget,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> {
        // Subscribes now, so that a text read before the first poll is not missed.
        let mut texts = self.text.subscribe();
        if let TextTarget::Cluster(_) = target {
            texts.mark_changed();
        }
        async move {
            let keep = async {
                while texts.changed().await.is_ok() {
                    let text = Arc::clone(&texts.borrow_and_update());
                    match &target {
                        TextTarget::Scheduler(handle) => self.put_in_force(handle, &text).await,
                        TextTarget::Cluster(shared) => shared.offer(None, &self.path, &text).await,
                    }
                }
            };
            stop.run_until_cancelled(keep).await;
        }
    }

    async fn put_in_force(&self, handle: &SchedulerHandle, text: &str) {
        let file = self.path.display();
        match handle.set_default_queues(text).await {
            Ok(outcomes) => log_outcomes(&self.path, outcomes),
            Err(reason) => return error!(%file, %reason, "queue configuration not in force"),
        }
        info!(%file, "queue configuration read again");
    }

    /// Reads the file again whenever it changes, until `stop` is cancelled.
    pub async fn watch(self: Arc<Self>, stop: CancellationToken) {
        let file = self.path.display();
        if self.is_special() {
            return warn!(%file, "a queue configuration that is no file cannot be watched");
        }
        let place = WatchTarget::File(self.path.clone());
        let queues = Arc::clone(&self);
        keep_watching(place, move || queues.read_changed(), &self.hung_up, stop).await;
    }

    /// Applies the text if it has changed since the last read.
    ///
    /// A missing or empty file is taken for a write in progress. Only SIGHUP reads an empty file as
    /// it is.
    fn read_changed(&self) {
        let file = self.path.display();
        let found = if self.is_special() {
            Err("it is no file".to_owned())
        } else {
            match input::read_text(&self.path).map(queues_in) {
                Ok(text) if text.trim().is_empty() => Err("it is empty".to_owned()),
                Ok(text) => Ok(text),
                Err(reason) => Err(reason.to_string()),
            }
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == found {
            return;
        }
        seen.clone_from(&found);
        match found {
            Ok(text) if *text == **self.text.borrow() => {}
            Ok(text) => self.apply(text),
            Err(reason) => {
                warn!(%file, reason, "queue configuration not used, what was read before stays");
            }
        }
    }

    /// Whether the path leads to an object that is no file, such as a pipe, which may have no end
    /// or no writer.
    fn is_special(&self) -> bool {
        self.path.metadata().is_ok_and(|metadata| !metadata.is_file())
    }

    fn reread(&self) {
        let file = self.path.display();
        if self.is_special() {
            return warn!(%file, "a queue configuration that is no file cannot be read again");
        }
        match input::read_text(&self.path).map(queues_in) {
            Ok(text) => {
                // Remembers the text, so that the next `look` does not log its errors again.
                *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Ok(text.clone());
                self.apply(text);
            }
            Err(reason) => error!(%reason, "queue configuration not read again"),
        }
    }

    /// Applies the text if it is usable.
    fn apply(&self, text: String) {
        if is_usable(&self.path, &text) {
            self.text.send_replace(text.into());
        }
    }
}

/// Returns the queues of a text: the text itself, or the content of the ConfigMap that it is. A
/// ConfigMap without queues is returned unchanged, and parsing it gives the error.
fn queues_in(text: String) -> String {
    match config_map::find(&text) {
        Ok(Some(found)) => found.text,
        Ok(None) | Err(_) => text,
    }
}

/// Whether the text can be parsed. Logs its warnings and errors.
fn is_usable(path: &Path, text: &str) -> bool {
    let file = path.display();
    match config::parse(text) {
        Ok(configuration) => {
            for warning in &configuration.warnings {
                warn!(%file, %warning, "queue configuration");
            }
            true
        }
        Err(errors) => {
            for reason in errors.to_string().lines() {
                error!(%file, reason, "queue configuration");
            }
            warn!(%file, "queue configuration cannot be used, what was read before stays");
            false
        }
    }
}

/// Logs the outcome for each resource manager.
fn log_outcomes(path: &Path, outcomes: Vec<OutcomeOfDefaults>) {
    let file = path.display();
    for (rm, outcome) in outcomes {
        match outcome {
            Ok(update) if update.changed => info!(%file, rm, "queue configuration in force"),
            Ok(_) => {}
            Err(reason) => warn!(%file, rm, %reason, "queue configuration not in force"),
        }
    }
}

impl Refresh for QueuesFile {
    fn refresh(&self) {}

    fn hang_up(&self) {
        self.reread();
        self.hung_up.notify_one();
    }
}
