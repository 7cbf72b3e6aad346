//! Waiting until a file, or one of a folder, has changed and whoever changes it is done.
//!
//! # What can happen to a file
//! It is written in place, in one go or in several; it is replaced by renaming another over it; the
//! link that it is leads elsewhere; or a link on the way to it does, as when Kubernetes swaps `..data`
//! in a mounted ConfigMap. So the directory of the file is watched, and that of the file which its
//! links lead to. The file may be gone for a while in each case. The same can happen to each file of
//! a folder, and to the folder: so what that is in is watched, too.
//!
//! # Invariant
//! [`Watch::settled`] returns only when nothing has happened for [`QUIET`] and no writer is known to
//! have a file open: what is then read is not half of something, as far as the system can tell.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Config, Event, EventKind, PollWatcher, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

/// How long nothing may happen to the file before it is read. Editors and deployments take a few
/// milliseconds between two steps.
const QUIET: Duration = Duration::from_millis(250);
/// How long a writer who keeps a file open is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often is looked where the system does not tell.
const POLL_EVERY: Duration = Duration::from_secs(5);

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    File(PathBuf),
    /// Every `*.yaml` right in it. An absolute path, as those of happenings are.
    Folder(PathBuf),
}

/// Something happened to a file, or may have.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Happening {
    /// They were written to, and the writer has not closed them yet.
    Written(Vec<PathBuf>),
    /// Anything else; to anything, if no file is named.
    Changed(Vec<PathBuf>),
}

/// Calls `look` at once and whenever something was changed, until `stop` is cancelled.
pub(super) async fn keep_watching(
    place: Place,
    look: impl Fn() + Clone + Send + 'static,
    stop: CancellationToken,
) {
    let shown = place.path().display().to_string();
    let watch = async {
        let mut watch = match Watch::begin(place) {
            Ok(watch) => watch,
            Err(reason) => {
                return warn!(file = %shown, %reason, "changes of the file are noticed at SIGHUP alone");
            }
        };
        info!(file = %shown, "changes of the queue configuration are noticed");
        loop {
            // Files may be far away, on a mount that does not answer.
            if spawn_blocking(look.clone()).await.is_err() {
                warn!(file = %shown, "reading the queue configuration again has failed");
            }
            if !watch.settled().await {
                let message = "changes of the file are noticed at SIGHUP alone from now on";
                return warn!(file = %shown, message);
            }
            if let Err(reason) = watch.follow() {
                warn!(file = %shown, %reason, "changes of the file may not be noticed");
            }
        }
    };
    stop.run_until_cancelled(watch).await;
}

/// See the module.
struct Watch {
    place: Place,
    watcher: Box<dyn Watcher + Send>,
    watched: BTreeSet<PathBuf>,
    happenings: UnboundedReceiver<Happening>,
}

impl Watch {
    /// Watches it from now on.
    fn begin(place: Place) -> notify::Result<Self> {
        let (tell, happenings) = unbounded_channel();
        let watcher = watcher(&place, &tell)?;
        let mut watch = Self { place, watcher, watched: BTreeSet::new(), happenings };
        watch.follow()?;
        Ok(watch)
    }

    /// Watches where the files are now: links may lead elsewhere than before, and a folder may be
    /// another one of the same name.
    fn follow(&mut self) -> notify::Result<()> {
        let wanted = self.place.directories();
        let again = self.place.folder();
        let is_kept = |directory: &PathBuf| wanted.contains(directory) && again != Some(directory);
        for gone in self.watched.iter().filter(|directory| !is_kept(directory)) {
            // It is often gone with all that was in it.
            let _ = self.watcher.unwatch(gone);
        }
        self.watched.retain(is_kept);
        for directory in wanted {
            if self.watched.contains(&directory) {
                continue;
            }
            match self.watcher.watch(&directory, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(directory);
                }
                Err(error) if self.watched.is_empty() => return Err(error),
                Err(error) => debug!(directory = %directory.display(), %error, "not watched"),
            }
        }
        Ok(())
    }

    /// Waits until something has happened and is over. False: nothing will be told any more.
    async fn settled(&mut self) -> bool {
        let Some(mut last) = self.happenings.recv().await else { return false };
        let mut open = BTreeSet::new();
        loop {
            match last {
                Happening::Written(files) => open.extend(files),
                Happening::Changed(files) if files.is_empty() => open.clear(),
                Happening::Changed(files) => open.retain(|file| !files.contains(file)),
            }
            let patience = if open.is_empty() { QUIET } else { PATIENCE };
            match timeout(patience, self.happenings.recv()).await {
                Ok(Some(next)) => last = next,
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }
}

impl Place {
    fn path(&self) -> &PathBuf {
        match self {
            Self::File(path) | Self::Folder(path) => path,
        }
    }

    fn folder(&self) -> Option<&PathBuf> {
        match self {
            Self::File(_) => None,
            Self::Folder(folder) => Some(folder),
        }
    }

    /// Where the files are that it consists of, without links.
    fn real_files(&self) -> Vec<PathBuf> {
        match self {
            Self::File(path) => path.canonicalize().into_iter().collect(),
            Self::Folder(folder) => {
                let files = folder.read_dir().into_iter().flatten().flatten();
                let files = files.map(|entry| entry.path()).filter(|path| is_yaml(path));
                files.filter_map(|path| path.canonicalize().ok()).collect()
            }
        }
    }

    /// The directories in which something happens when a file changes.
    fn directories(&self) -> BTreeSet<PathBuf> {
        let of = |path: &Path| match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let above = of(self.path());
        let folder = self.folder().filter(|folder| folder.is_dir()).cloned();
        let real = self.real_files().into_iter().map(|file| of(&file));
        std::iter::once(above).chain(folder).chain(real).collect()
    }

    /// Whether it is what is watched, a part of it, or a link on the way to either.
    fn concerns(&self, changed: &Path, real_files: &[PathBuf]) -> bool {
        let Some(name) = changed.file_name() else { return false };
        let is_link_on_the_way = name.as_encoded_bytes().starts_with(b"..");
        let is_named = match self {
            Self::File(path) => Some(name) == path.file_name() || is_link_on_the_way,
            Self::Folder(folder) if changed.parent() == Some(folder) => {
                is_yaml(changed) || is_link_on_the_way
            }
            Self::Folder(folder) => changed == folder,
        };
        is_named || real_files.iter().any(|real| real == changed)
    }
}

/// Whether the file of a folder is one of those that count.
pub(super) fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml")
}

/// By the system's notifications; where there are none to be had, by looking.
fn watcher(
    place: &Place,
    tell: &UnboundedSender<Happening>,
) -> notify::Result<Box<dyn Watcher + Send>> {
    match RecommendedWatcher::new(teller(place, tell), Config::default()) {
        Ok(watcher) => Ok(Box::new(watcher)),
        Err(reason) => {
            let seconds = POLL_EVERY.as_secs();
            warn!(%reason, seconds, "the system does not tell of changed files, they are looked at");
            let config =
                Config::default().with_poll_interval(POLL_EVERY).with_compare_contents(true);
            Ok(Box::new(PollWatcher::new(teller(place, tell), config)?))
        }
    }
}

fn teller(
    place: &Place,
    tell: &UnboundedSender<Happening>,
) -> impl Fn(notify::Result<Event>) + Send + 'static {
    let (place, tell) = (place.clone(), tell.clone());
    move |event| {
        if let Some(happening) = happening(&place, &event) {
            // Whoever waited has gone.
            let _ = tell.send(happening);
        }
    }
}

/// What an event means for the files; most mean nothing, such as those of their neighbours.
fn happening(place: &Place, event: &notify::Result<Event>) -> Option<Happening> {
    // An error, or a rescan, may have hidden anything.
    let Ok(event) = event else { return Some(Happening::Changed(Vec::new())) };
    if event.need_rescan() || event.paths.is_empty() {
        return Some(Happening::Changed(Vec::new()));
    }
    if let EventKind::Access(AccessKind::Open(_) | AccessKind::Read) = event.kind {
        // Most of them are our own: not worth another look at the folder.
        return None;
    }
    let real_files = place.real_files();
    let concerned = event.paths.iter().filter(|changed| place.concerns(changed, &real_files));
    let files: Vec<_> = concerned.cloned().collect();
    if files.is_empty() {
        return None;
    }
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => Some(Happening::Changed(files)),
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)) => None,
        EventKind::Modify(ModifyKind::Data(_)) if cfg!(target_os = "linux") => {
            Some(Happening::Written(files))
        }
        _ => Some(Happening::Changed(files)),
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, DataChange, MetadataKind};

    use super::*;

    #[test]
    fn neighbours_and_readers_mean_nothing() {
        let file = Place::File("/etc/monoceros/queues.yaml".into());
        let folder = Place::Folder("/etc/monoceros".into());
        let of = |place: &Place, kind: EventKind, changed: &str| {
            happening(place, &Ok(Event::new(kind).add_path(PathBuf::from(changed))))
        };
        let is_written = |paths| Some(Happening::Written(paths));
        let is_changed = |paths| Some(Happening::Changed(paths));
        let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let created = EventKind::Create(CreateKind::Any);
        let metadata = EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any));
        let read = EventKind::Access(AccessKind::Read);
        for (kind, changed, to_file, to_folder) in [
            (
                written,
                "/etc/monoceros/queues.yaml",
                is_written as fn(_) -> _,
                is_written as fn(_) -> _,
            ),
            (closed, "/etc/monoceros/queues.yaml", is_changed, is_changed),
            (created, "/etc/monoceros/queues.yaml", is_changed, is_changed),
            (created, "/etc/monoceros/..data", is_changed, is_changed),
            (written, "/etc/monoceros/other.yaml", |_| None, is_written),
            (created, "/etc/monoceros", |_| None, is_changed),
            (closed, "/etc/monoceros/.queues.yaml.swp", |_| None, |_| None),
            (written, "/etc/monoceros/other", |_| None, |_| None),
            (read, "/etc/monoceros/queues.yaml", |_| None, |_| None),
            (metadata, "/etc/monoceros/queues.yaml", |_| None, |_| None),
        ] {
            let paths = || vec![PathBuf::from(changed)];
            assert_eq!(of(&file, kind, changed), to_file(paths()), "{kind:?} of {changed}");
            assert_eq!(of(&folder, kind, changed), to_folder(paths()), "{kind:?} of {changed}");
        }
        assert_eq!(
            happening(&file, &Err(notify::Error::generic("lost"))),
            Some(Happening::Changed(Vec::new())),
            "what was lost may have been about the file"
        );
    }
}
