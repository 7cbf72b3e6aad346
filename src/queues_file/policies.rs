//! The queue configurations of policy groups: `GROUP.yaml` of a folder stands for the configuration
//! that a resource manager of the group does not bring.
//!
//! They are read and watched as the file of all others is, with two differences: a file that cannot
//! be used from the start keeps the service not from starting but its group from registering, and a
//! registration of a group that has nothing yet looks for itself: the file may have come just now.
//!
//! # Invariants
//! * A file that has been usable once stands for its group until another text can be used, or
//!   SIGHUP finds it gone or empty.
//! * Texts reach the scheduler one after another, the newest of a group last.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use monoceros_actors::SchedulerHandle;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::watch::keep_watching;
use super::way::{WatchTarget, is_yaml};
use super::{is_usable, tell};
use crate::files::Refresh;
use crate::input;

/// The folder of policy groups, with the text of each group that was last found usable.
#[derive(Debug)]
pub struct PolicyFiles {
    folder: PathBuf,
    /// The lock of whoever looks at the folder, which may take long on a mount that does not
    /// answer.
    turn: Mutex<()>,
    table: Mutex<GroupTexts>,
    /// Tells the task that watches to look anew.
    hung_up: Notify,
}

#[derive(Debug)]
struct GroupTexts {
    /// What was there at the last look, usable or not; or why there was nothing.
    seen: BTreeMap<String, Result<String, String>>,
    /// What stands for the group.
    usable: BTreeMap<String, Arc<str>>,
    /// What stands from now on; empty: nothing.
    changes: UnboundedSender<(String, Arc<str>)>,
}

/// What stands for the groups from now on, in order.
#[derive(Debug)]
pub struct Changes(UnboundedReceiver<(String, Arc<str>)>);

/// Why somebody looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// Something may have changed.
    Change,
    /// Somebody sent SIGHUP, or started the service: the files are as they are meant to be.
    Meant,
}

impl PolicyFiles {
    /// Reads the folder for the first time. What its files say stands in the [`Changes`].
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn load(folder: &Path) -> anyhow::Result<(Arc<Self>, Changes)> {
        let unreadable = || format!("cannot read `{}`", folder.display());
        let folder = std::path::absolute(folder).with_context(unreadable)?;
        folder.read_dir().with_context(unreadable)?;
        let (changes, receiver) = unbounded_channel();
        let table = GroupTexts { seen: BTreeMap::new(), usable: BTreeMap::new(), changes };
        let (turn, table) = (Mutex::default(), Mutex::new(table));
        let files = Self { folder, turn, table, hung_up: Notify::new() };
        files.look(Occasion::Meant);
        Ok((Arc::new(files), Changes(receiver)))
    }

    /// What stands for a group that somebody registers for; if there is nothing yet, what its file
    /// says, whether that can be used or not. Blocks.
    ///
    /// # Errors
    /// The file cannot be read; says why.
    pub fn at_registration(&self, group: &str) -> Result<Option<Arc<str>>, String> {
        if !is_name(group) {
            // Never a path to somewhere else.
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
        // The next look takes it, once it has come to rest.
        let seen = Err("it was read at a registration".to_owned());
        self.table().seen.insert(group.to_owned(), seen);
        Ok(Some(text.into()))
    }

    /// Reads the files again whenever they were changed, until `stop` is cancelled.
    pub async fn watch(self: Arc<Self>, stop: CancellationToken) {
        let place = WatchTarget::Folder(self.folder.clone());
        let files = Arc::clone(&self);
        keep_watching(place, move || files.look(Occasion::Change), &self.hung_up, stop).await;
    }

    /// Looks which files say something else than at the last look, and takes that.
    fn look(&self, occasion: Occasion) {
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
            self.is_nothing(group, occasion, "it is gone");
        }
        for group in there {
            match input::read_text(&self.path(&group)) {
                Ok(text) if text.trim().is_empty() => {
                    self.is_nothing(group, occasion, "it is empty");
                }
                Ok(text) => self.take(group, Ok(text), occasion),
                Err(reason) => self.take(group, Err(reason.to_string()), occasion),
            }
        }
    }

    /// Who says that the files are as they are meant to be is told again what is wrong with them.
    fn take(&self, group: String, found: Result<String, String>, occasion: Occasion) {
        let (path, mut table) = (self.path(&group), self.table());
        if occasion == Occasion::Meant {
            table.seen.remove(&group);
        }
        table.take(&path, group, found);
    }

    /// A file that is not there or empty is on its way to be something else, unless it is meant.
    fn is_nothing(&self, group: String, occasion: Occasion, why: &str) {
        match occasion {
            Occasion::Change => self.take(group, Err(why.to_owned()), occasion),
            Occasion::Meant => self.table().withdraw(group),
        }
    }

    fn table(&self) -> MutexGuard<'_, GroupTexts> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The groups that have a file. Other things than files, such as pipes, may have no end.
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
    /// Puts what was found in force, if it can be used and is something else.
    fn take(&mut self, path: &Path, group: String, found: Result<String, String>) {
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
                // Fails only while the service stops, as below.
                let _ = self.changes.send((group, text));
            }
            Ok(_) => {}
            Err(reason) => {
                warn!(%file, reason, "queue configuration not used, what was read before stays");
            }
        }
    }

    /// Has nothing stand for the group, not even what was read at a registration.
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
        self.look(Occasion::Meant);
        self.hung_up.notify_one();
    }
}

impl Changes {
    /// Hands each text to the scheduler, until `stop` is cancelled.
    pub async fn keep_in_force(
        mut self,
        files: Arc<PolicyFiles>,
        handle: SchedulerHandle,
        stop: CancellationToken,
    ) {
        let keep = async {
            while let Some((group, text)) = self.0.recv().await {
                let path = files.path(&group);
                let file = path.display();
                match handle.set_policy_queues(&group, &text).await {
                    Ok(outcomes) => tell(&path, outcomes),
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

/// Whether the group can have a file: its name is one of the folder, and never a path.
fn is_name(group: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    !group.is_empty() && !group.starts_with('.') && group.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_group_names_a_file_of_the_folder_and_never_one_elsewhere() {
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
