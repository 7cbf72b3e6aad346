//! Waiting until a file has changed and whoever changes it is done.
//!
//! # What can happen to a file
//! It is written in place, in one go or in several; it is replaced by renaming another over it; the
//! link that it is leads elsewhere; or a link on the way to it does, as when Kubernetes swaps `..data`
//! in a mounted ConfigMap. So the directory of the file is watched, and that of the file which its
//! links lead to. The file may be gone for a while in each case.
//!
//! # Invariant
//! [`Watch::settled`] returns only when nothing has happened for [`QUIET`] and no writer is known to
//! have the file open: what is then read is not half of something, as far as the system can tell.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Config, Event, EventKind, PollWatcher, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use tracing::{debug, warn};

/// How long nothing may happen to the file before it is read. Editors and deployments take a few
/// milliseconds between two steps.
const QUIET: Duration = Duration::from_millis(250);
/// How long a writer who keeps the file open is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the file is looked at where the system does not tell.
const POLL_EVERY: Duration = Duration::from_secs(5);

/// Something happened to the file, or may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happening {
    /// It was written to, and the writer has not closed it yet.
    Written,
    /// Anything else.
    Changed,
}

/// See the module.
pub(super) struct Watch {
    path: PathBuf,
    watcher: Box<dyn Watcher + Send>,
    watched: BTreeSet<PathBuf>,
    happenings: UnboundedReceiver<Happening>,
}

impl Watch {
    /// Watches a file from now on.
    pub(super) fn begin(path: &Path) -> notify::Result<Self> {
        let (tell, happenings) = unbounded_channel();
        let (watcher, path) = (watcher(path, &tell)?, path.to_owned());
        let mut watch = Self { path, watcher, watched: BTreeSet::new(), happenings };
        watch.follow()?;
        Ok(watch)
    }

    /// Watches where the file is now: its links may lead elsewhere than before.
    pub(super) fn follow(&mut self) -> notify::Result<()> {
        let wanted = directories(&self.path);
        for gone in self.watched.difference(&wanted) {
            // It is often gone with all that was in it.
            let _ = self.watcher.unwatch(gone);
        }
        self.watched.retain(|directory| wanted.contains(directory));
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
    pub(super) async fn settled(&mut self) -> bool {
        let Some(mut last) = self.happenings.recv().await else { return false };
        loop {
            let patience = if last == Happening::Written { PATIENCE } else { QUIET };
            match timeout(patience, self.happenings.recv()).await {
                Ok(Some(next)) => last = next,
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }
}

/// The directories in which something happens when the file changes.
fn directories(path: &Path) -> BTreeSet<PathBuf> {
    let of = |path: &Path| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let real = path.canonicalize().ok();
    std::iter::once(of(path)).chain(real.map(|real| of(&real))).collect()
}

/// By the system's notifications; where there are none to be had, by looking.
fn watcher(
    path: &Path,
    tell: &UnboundedSender<Happening>,
) -> notify::Result<Box<dyn Watcher + Send>> {
    match RecommendedWatcher::new(teller(path, tell), Config::default()) {
        Ok(watcher) => Ok(Box::new(watcher)),
        Err(reason) => {
            let seconds = POLL_EVERY.as_secs();
            warn!(%reason, seconds, "the system does not tell of changed files, they are looked at");
            let config =
                Config::default().with_poll_interval(POLL_EVERY).with_compare_contents(true);
            Ok(Box::new(PollWatcher::new(teller(path, tell), config)?))
        }
    }
}

fn teller(
    path: &Path,
    tell: &UnboundedSender<Happening>,
) -> impl Fn(notify::Result<Event>) + Send + 'static {
    let (path, tell) = (path.to_owned(), tell.clone());
    move |event| {
        if let Some(happening) = happening(&path, &event) {
            // Whoever waited has gone.
            let _ = tell.send(happening);
        }
    }
}

/// What an event means for the file; most mean nothing, such as those of its neighbours.
fn happening(path: &Path, event: &notify::Result<Event>) -> Option<Happening> {
    // An error, or a rescan, may have hidden anything.
    let Ok(event) = event else { return Some(Happening::Changed) };
    if event.need_rescan() {
        return Some(Happening::Changed);
    }
    let real = path.canonicalize().ok();
    let concerns = |changed: &PathBuf| {
        let name = changed.file_name();
        let is_link_on_the_way =
            name.is_some_and(|name| name.as_encoded_bytes().starts_with(b".."));
        name == path.file_name() || is_link_on_the_way || Some(changed) == real.as_ref()
    };
    if !event.paths.is_empty() && !event.paths.iter().any(concerns) {
        return None;
    }
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => Some(Happening::Changed),
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)) => None,
        EventKind::Modify(ModifyKind::Data(_)) if cfg!(target_os = "linux") => {
            Some(Happening::Written)
        }
        _ => Some(Happening::Changed),
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, DataChange, MetadataKind};

    use super::*;

    #[test]
    fn neighbours_and_readers_mean_nothing() {
        let path = Path::new("/etc/monoceros/queues.yaml");
        let of = |kind: EventKind, changed: &str| {
            happening(path, &Ok(Event::new(kind).add_path(PathBuf::from(changed))))
        };
        let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let created = EventKind::Create(CreateKind::Any);
        for (kind, changed, expected) in [
            (written, "/etc/monoceros/queues.yaml", Some(Happening::Written)),
            (closed, "/etc/monoceros/queues.yaml", Some(Happening::Changed)),
            (created, "/etc/monoceros/queues.yaml", Some(Happening::Changed)),
            (created, "/etc/monoceros/..data", Some(Happening::Changed)),
            (written, "/etc/monoceros/other.yaml", None),
            (closed, "/etc/monoceros/.queues.yaml.swp", None),
            (EventKind::Access(AccessKind::Read), "/etc/monoceros/queues.yaml", None),
            (
                EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)),
                "/etc/monoceros/queues.yaml",
                None,
            ),
        ] {
            assert_eq!(of(kind, changed), expected, "{kind:?} of {changed}");
        }
        assert_eq!(
            happening(path, &Err(notify::Error::generic("lost"))),
            Some(Happening::Changed),
            "what was lost may have been about the file"
        );
    }
}
