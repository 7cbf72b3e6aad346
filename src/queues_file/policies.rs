//! Queue configurations of policy groups: the file `GROUP.yaml` of a folder applies to resource
//! managers of the group that bring no configuration.
//!
//! The files are read and watched like the service's own queue file (`queues_file`), with two
//! differences. If a file is unusable when the service starts, the service starts all the same, but
//! resource managers of that group cannot register without a configuration of their own. And if a
//! resource manager registers while its group has no usable text yet, the file is read at once,
//! since it may just have been written.
//!
//! # Invariants
//! A *text* is the content of a group's file.
//! * A text that was usable applies to its group until another text is usable, or until SIGHUP
//!   finds the file missing or empty.
//! * Texts reach the scheduler one after another, the newest of a group last.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::watch::keep_watching;
use super::way::{WatchTarget, is_yaml};
use super::{TextTarget, is_usable, log_outcomes};
use crate::files::Refresh;
use crate::input;

/// The folder of policy groups, with the last usable text of each group.
#[derive(Debug)]
pub struct PolicyFiles {
    folder: PathBuf,
    /// Held while the folder is read, which may take long on a mount that does not answer.
    turn: Mutex<()>,
    table: Mutex<GroupTexts>,
    /// Makes the watching task start again.
    hung_up: Notify,
}

#[derive(Debug)]
struct GroupTexts {
    /// Results of the last read by group: the text, usable or not, or the reason why there was
    /// none.
    seen: BTreeMap<String, Result<String, String>>,
    /// The text that applies to the group.
    usable: BTreeMap<String, Arc<str>>,
    /// Reports each change of a group's text. An empty text withdraws it.
    changes: UnboundedSender<(String, Arc<str>)>,
}

/// The changes of the groups' texts, in order.
#[derive(Debug)]
pub struct Changes(UnboundedReceiver<(String, Arc<str>)>);

/// Why the folder is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadCause {
    /// A file may have changed.
    Change,
    /// SIGHUP or the start of the service: the files are complete.
    Requested,
}

impl PolicyFiles {
    /// Reads the folder for the first time. The texts are in the [`Changes`].
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn load(folder: &Path) -> anyhow::Result<(Arc<Self>, Changes)> {
        let unreadable = || format!("cannot read `{}`", folder.display());
        let folder = std::path::absolute(folder).with_context(unreadable)?;
        folder.read_dir().with_context(unreadable)?;
        let (changes, receiver) = unbounded_channel();
        let table = GroupTexts { seen: BTreeMap::new(), usable: BTreeMap::new(), changes };
        let (turn, table) = (Mutex::default(), Mutex::new(table));
        let files = Self { folder, turn, table, hung_up: Notify::new() };
        files.read_changed(ReadCause::Requested);
        Ok((Arc::new(files), Changes(receiver)))
    }

    /// Returns the text that applies to a group at its registration. If there is none yet, reads
    /// the file and returns its text unchecked. Blocks.
    ///
    /// # Errors
    /// The reason why the file cannot be read.
    pub fn at_registration(&self, group: &str) -> Result<Option<Arc<str>>, String> {
        if !is_name(group) {
            // A name that is part of a path could lead out of the folder.
            return Ok(None);
        }
        if let Some(text) = self.table().usable.get(group) {
            return Ok(Some(Arc::clone(text)));
        }
        let path = self.path(group);
        if let Ok(false) = path.try_exists() {
            return Ok(None);
        }
        if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return Err("it is no file".to_owned());
        }
        let text = input::read_text(&path).map_err(|reason| reason.to_string())?;
        // When the file is at rest, the next `look` checks the text.
        let seen = Err("it was read at a registration".to_owned());
        self.table().seen.insert(group.to_owned(), seen);
        Ok(Some(text.into()))
    }

    /// Reads the files again whenever they change, until `stop` is cancelled.
    pub async fn watch(self: Arc<Self>, stop: CancellationToken) {
        let place = WatchTarget::Folder(self.folder.clone());
        let files = Arc::clone(&self);
        keep_watching(place, move || files.read_changed(ReadCause::Change), &self.hung_up, stop)
            .await;
    }

    /// Applies the texts that have changed since the last read.
    fn read_changed(&self, cause: ReadCause) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let there = match self.groups() {
            Ok(groups) => groups,
            Err(reason) => {
                let folder = self.folder.display();
                let message = "queue configurations of policy groups not read again";
                return error!(%folder, %reason, message);
            }
        };
        let known: Vec<_> = self.table().seen.keys().cloned().collect();
        for group in known.into_iter().filter(|group| !there.contains(group)) {
            self.handle_missing(group, cause, "it is gone");
        }
        for group in there {
            match input::read_text(&self.path(&group)) {
                Ok(text) if text.trim().is_empty() => {
                    self.handle_missing(group, cause, "it is empty");
                }
                Ok(text) => self.apply(group, Ok(text), cause),
                Err(reason) => self.apply(group, Err(reason.to_string()), cause),
            }
        }
    }

    /// Applies the text of a group. After SIGHUP, errors that were logged before are logged again.
    fn apply(&self, group: String, found: Result<String, String>, cause: ReadCause) {
        let (path, mut table) = (self.path(&group), self.table());
        if cause == ReadCause::Requested {
            table.seen.remove(&group);
        }
        table.apply(&path, group, found);
    }

    /// Handles a missing or empty file: at a change it is taken for a write in progress, at SIGHUP
    /// the group loses its text.
    fn handle_missing(&self, group: String, cause: ReadCause, why: &str) {
        match cause {
            ReadCause::Change => self.apply(group, Err(why.to_owned()), cause),
            ReadCause::Requested => self.table().withdraw(group),
        }
    }

    fn table(&self) -> MutexGuard<'_, GroupTexts> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the groups that have a file. Pipes and the like are skipped, since they may have no
    /// end.
    fn groups(&self) -> std::io::Result<BTreeSet<String>> {
        let mut groups = BTreeSet::new();
        for entry in self.folder.read_dir()? {
            let path = entry?.path();
            if is_yaml(&path)
                && path.is_file()
                && let Some(group) = path.file_stem().and_then(|stem| stem.to_str())
                && is_name(group)
            {
                groups.insert(group.to_owned());
            }
        }
        Ok(groups)
    }

    fn path(&self, group: &str) -> PathBuf {
        self.folder.join(format!("{group}.yaml"))
    }
}

impl GroupTexts {
    /// Applies the text if it is usable and has changed.
    fn apply(&mut self, path: &Path, group: String, found: Result<String, String>) {
        let file = path.display();
        if self.seen.get(&group) == Some(&found) {
            return;
        }
        self.seen.insert(group.clone(), found.clone());
        match found {
            Ok(text) if self.usable.get(&group).is_some_and(|usable| **usable == *text) => {}
            Ok(text) if is_usable(path, &text) => {
                let text: Arc<str> = text.into();
                self.usable.insert(group.clone(), Arc::clone(&text));
                // Sending fails only while the service stops, as below.
                let _ = self.changes.send((group, text));
            }
            Ok(_) => {}
            Err(reason) => {
                warn!(%file, reason, "queue configuration not used, what was read before stays");
            }
        }
    }

    /// Removes the text of a group, even if it was only read at a registration.
    fn withdraw(&mut self, group: String) {
        self.usable.remove(&group);
        if self.seen.remove(&group).is_some() {
            let _ = self.changes.send((group, Arc::default()));
        }
    }
}

impl Refresh for PolicyFiles {
    fn refresh(&self) {}

    fn hang_up(&self) {
        self.read_changed(ReadCause::Requested);
        self.hung_up.notify_one();
    }
}

impl Changes {
    /// Applies each change, until `stop` is cancelled.
    pub async fn keep_in_force(
        mut self,
        files: Arc<PolicyFiles>,
        target: TextTarget,
        stop: CancellationToken,
    ) {
        let keep = async {
            while let Some((group, text)) = self.0.recv().await {
                let path = files.path(&group);
                let handle = match &target {
                    TextTarget::Scheduler(handle) => handle,
                    TextTarget::Cluster(shared) => {
                        shared.offer(Some(&group), &path, &text).await;
                        continue;
                    }
                };
                let file = path.display();
                match handle.set_policy_queues(&group, &text).await {
                    Ok(outcomes) => log_outcomes(&path, outcomes),
                    Err(reason) => {
                        error!(%file, %reason, "queue configuration not in force");
                        continue;
                    }
                }
                if text.is_empty() {
                    info!(%file, group, "the policy group has no queue configuration any more");
                } else {
                    info!(%file, group, "queue configuration of the policy group read");
                }
            }
        };
        stop.run_until_cancelled(keep).await;
    }
}

/// Whether the group can have a file: its name is a plain file name.
fn is_name(group: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    !group.is_empty() && !group.starts_with('.') && group.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_group_never_names_a_file_outside_the_folder() {
        let folder =
            std::env::temp_dir().join(format!("monoceros-policies-{}", std::process::id()));
        let inner = folder.join("inner");
        fs::create_dir_all(&inner).unwrap();
        fs::write(folder.join("etl.yaml"), "partitions: []").unwrap();
        let text = |folder: &Path, group: &str| {
            let (files, _) = PolicyFiles::load(folder).unwrap();
            files.at_registration(group).unwrap().map(|text| text.to_string())
        };
        assert_eq!(text(&folder, "etl").as_deref(), Some("partitions: []"));
        assert_eq!(text(&folder, "other"), None);
        for group in ["../etl", "..", "/etc/passwd", ""] {
            assert_eq!(text(&inner, group), None, "{group}");
        }
        fs::remove_dir_all(&folder).unwrap();
        PolicyFiles::load(&folder).unwrap_err();
    }
}
