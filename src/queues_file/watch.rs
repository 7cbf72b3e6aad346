//! Waits until a file, or a file of a folder, has changed and its writer is done.
//!
//! # What can happen to a file
//! A file is written in place, at once or in several steps. Or another file is renamed over it. Or
//! it is a link and the link is changed, or a link on the path to it is changed, as when Kubernetes
//! swaps `..data` in a mounted `ConfigMap`, or a release swaps `current`. Or a directory on the
//! path is replaced. So every directory on the [way](super::way) is watched. In each case the file
//! may be missing for a while. The same can happen to each file of a folder, and to the folder.
//!
//! # Invariants
//! * [`FileWatch::at_rest`] returns only after [`QUIET`] without an event and without a known open
//!   writer, so the file that is then read is complete as far as the system can know.
//! * A file is watched before it is read, so no change is missed in between.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{
    Config, ErrorKind, Event, EventKind, PollWatcher, RecommendedWatcher, RecursiveMode, Watcher,
    WatcherKind,
};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::way::{WatchTarget, Way};

/// How long a file must be unchanged before it is read. Editors and deployments pause for a few
/// milliseconds between two steps.
const QUIET: Duration = Duration::from_millis(250);
/// Longest wait for a writer that keeps a file open.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between checks if the system sends no notifications.
const POLL_EVERY: Duration = Duration::from_secs(5);
/// Most attempts to follow a way that keeps changing, before waiting for the next event. Each
/// change causes an event of its own.
const MOST_TRIES: usize = 8;

/// A change, or a possible change, of files.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FileEvent {
    /// These files were written to, and the writer has not closed them yet.
    Written(Vec<PathBuf>),
    /// These files changed in another way. An empty list means that any may have changed.
    Changed(Vec<PathBuf>),
    /// SIGHUP: the files are to be read.
    Asked,
}

/// Calls `look` at once, after each change, and when `asked` is notified, until `stop` is
/// cancelled.
pub(super) async fn keep_watching(
    place: WatchTarget,
    look: impl Fn() + Clone + Send + 'static,
    asked: &Notify,
    stop: CancellationToken,
) {
    let shown = place.path().display().to_string();
    let watch = async {
        loop {
            match FileWatch::begin(place.clone(), asked) {
                Ok(watch) => {
                    info!(file = %shown, "changes of the queue configuration are noticed");
                    watch.call_on_changes(&shown, &look).await;
                    warn!(file = %shown, "changes of the file are noticed at SIGHUP alone from now on");
                }
                Err(reason) => {
                    warn!(file = %shown, %reason, "changes of the file are noticed at SIGHUP alone");
                }
            }
            asked.notified().await;
        }
    };
    stop.run_until_cancelled(watch).await;
}

/// A watched file or folder, with every directory on the way to it.
struct FileWatch<'a> {
    place: WatchTarget,
    /// The way when it was last followed. Shared with the thread that receives notifications.
    way: Arc<Mutex<Way>>,
    watcher: Box<dyn Watcher + Send>,
    /// Whether the watcher compares contents at intervals, which covers all files of a directory.
    polls: bool,
    watched: BTreeSet<PathBuf>,
    events: UnboundedReceiver<FileEvent>,
    asked: &'a Notify,
}

impl<'a> FileWatch<'a> {
    fn begin(place: WatchTarget, asked: &'a Notify) -> notify::Result<Self> {
        let (sender, events) = unbounded_channel();
        let way = Arc::new(Mutex::new(Way::default()));
        let (watcher, kind) = watcher(&way, &sender)?;
        let polls = kind == WatcherKind::PollWatcher;
        let mut watch =
            Self { place, way, watcher, polls, watched: BTreeSet::new(), events, asked };
        watch.follow()?;
        Ok(watch)
    }

    /// Calls `look` at once and after each change, until no more notifications come.
    async fn call_on_changes(mut self, shown: &str, look: &(impl Fn() + Clone + Send + 'static)) {
        loop {
            // Files may be on a remote mount that does not answer.
            if spawn_blocking(look.clone()).await.is_err() {
                warn!(file = %shown, "reading the queue configuration again has failed");
            }
            if !self.at_rest().await {
                return;
            }
            if let Err(reason) = self.follow() {
                warn!(file = %shown, %reason, "changes of the file may not be noticed");
            }
        }
    }

    /// Watches the present way to the files.
    ///
    /// All directories are watched again: one may have been replaced by another of the same name.
    fn follow(&mut self) -> notify::Result<()> {
        for directory in std::mem::take(&mut self.watched) {
            // Fails if the directory was removed, which is common.
            let _ = self.watcher.unwatch(&directory);
        }
        // A part of the way that is not watched yet may change during this, so the way is followed
        // again.
        for _ in 0..MOST_TRIES {
            let way = self.place.way();
            self.way.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&way);
            self.watch(&way)?;
            if self.place.way() == way {
                break;
            }
        }
        Ok(())
    }

    /// Watches the directories of the way, parents first.
    fn watch(&mut self, way: &Way) -> notify::Result<()> {
        // A polling watcher notices by its contents that a directory was replaced.
        let wanted = if self.polls { way.near().clone() } else { way.directories() };
        let mut refused = None;
        for directory in wanted {
            if self.watched.contains(&directory) {
                continue;
            }
            match self.watcher.watch(&directory, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(directory);
                }
                Err(error) => {
                    debug!(directory = %directory.display(), %error, "not watched");
                    // A missing directory is noticed when it is created.
                    if way.near().contains(&directory) && !is_missing(&error) {
                        refused = Some(error);
                    }
                }
            }
        }
        match refused {
            Some(error) if way.near().is_disjoint(&self.watched) => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits until a change is complete. Returns `false` if no more notifications will come.
    async fn at_rest(&mut self) -> bool {
        let Some(mut last) = self.next().await else { return false };
        let mut open = BTreeSet::new();
        loop {
            match last {
                FileEvent::Written(files) => open.extend(files),
                FileEvent::Changed(changed) if changed.is_empty() => open.clear(),
                FileEvent::Changed(changed) => {
                    open.retain(|file: &PathBuf| {
                        !changed.iter().any(|path| file.starts_with(path))
                    });
                    if self.change_way(&changed) {
                        // Followed at once, so that writes to the new file are noticed. An error is
                        // logged when the change is complete.
                        let _ = self.follow();
                    }
                }
                FileEvent::Asked => {}
            }
            let patience = if open.is_empty() { QUIET } else { PATIENCE };
            match timeout(patience, self.next()).await {
                Ok(Some(next)) => last = next,
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }

    /// Whether one of these paths is a link or a directory on the way.
    fn change_way(&self, changed: &[PathBuf]) -> bool {
        let way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        changed.iter().any(|changed| !way.ends_at(changed))
    }

    async fn next(&mut self) -> Option<FileEvent> {
        tokio::select! {
            event = self.events.recv() => event,
            () = self.asked.notified() => Some(FileEvent::Asked),
        }
    }
}

fn is_missing(error: &notify::Error) -> bool {
    match &error.kind {
        ErrorKind::PathNotFound => true,
        ErrorKind::Io(error) => error.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Makes a watcher that uses the system's notifications or, if there are none, one that polls.
fn watcher(
    way: &Arc<Mutex<Way>>,
    sender: &UnboundedSender<FileEvent>,
) -> notify::Result<(Box<dyn Watcher + Send>, WatcherKind)> {
    match RecommendedWatcher::new(event_handler(way, sender), Config::default()) {
        Ok(watcher) => Ok((Box::new(watcher), RecommendedWatcher::kind())),
        Err(reason) => {
            let seconds = POLL_EVERY.as_secs();
            warn!(%reason, seconds, "the system does not tell of changed files, they are looked at");
            let config =
                Config::default().with_poll_interval(POLL_EVERY).with_compare_contents(true);
            let watcher = PollWatcher::new(event_handler(way, sender), config)?;
            Ok((Box::new(watcher), WatcherKind::PollWatcher))
        }
    }
}

fn event_handler(
    way: &Arc<Mutex<Way>>,
    sender: &UnboundedSender<FileEvent>,
) -> impl Fn(notify::Result<Event>) + Send + 'static {
    let (way, sender) = (Arc::clone(way), sender.clone());
    move |event| {
        let event = file_event(&way.lock().unwrap_or_else(PoisonError::into_inner), event);
        if let Some(event) = event {
            // Fails if the watch has ended.
            let _ = sender.send(event);
        }
    }
}

/// Translates an event. Most concern other files in the same directories and give `None`.
fn file_event(way: &Way, event: notify::Result<Event>) -> Option<FileEvent> {
    // After an error or a rescan, any file may have changed.
    let Ok(event) = event else { return Some(FileEvent::Changed(Vec::new())) };
    if event.need_rescan() || event.paths.is_empty() {
        return Some(FileEvent::Changed(Vec::new()));
    }
    let mut files = event.paths;
    files.retain(|changed| way.leads_through(changed));
    if files.is_empty() {
        return None;
    }
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => Some(FileEvent::Changed(files)),
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)) => None,
        EventKind::Modify(ModifyKind::Data(_)) if cfg!(target_os = "linux") => {
            Some(FileEvent::Written(files))
        }
        _ => Some(FileEvent::Changed(files)),
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, DataChange, MetadataKind};

    use super::*;

    #[test]
    fn events_of_other_files_are_ignored() {
        let file = WatchTarget::File("/nowhere/monoceros/queues.yaml".into()).way();
        let folder = WatchTarget::Folder("/nowhere/monoceros".into()).way();
        let of = |way: &Way, kind: EventKind, changed: &str| {
            file_event(way, Ok(Event::new(kind).add_path(PathBuf::from(changed))))
        };
        let is_written = |paths| Some(FileEvent::Written(paths));
        let is_changed = |paths| Some(FileEvent::Changed(paths));
        let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let created = EventKind::Create(CreateKind::Any);
        let metadata = EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any));
        let read = EventKind::Access(AccessKind::Read);
        for (kind, changed, to_file, to_folder) in [
            (
                written,
                "/nowhere/monoceros/queues.yaml",
                is_written as fn(_) -> _,
                is_written as fn(_) -> _,
            ),
            (closed, "/nowhere/monoceros/queues.yaml", is_changed, is_changed),
            (created, "/nowhere/monoceros/queues.yaml", is_changed, is_changed),
            (created, "/nowhere/monoceros/..data", |_| None, |_| None),
            (written, "/nowhere/monoceros/other.yaml", |_| None, is_written),
            (created, "/nowhere/monoceros", is_changed, is_changed),
            (created, "/nowhere", is_changed, is_changed),
            (closed, "/nowhere/monoceros/.queues.yaml.swp", |_| None, |_| None),
            (written, "/nowhere/monoceros/other", |_| None, |_| None),
            (read, "/nowhere/monoceros/queues.yaml", |_| None, |_| None),
            (metadata, "/nowhere/monoceros/queues.yaml", |_| None, |_| None),
        ] {
            let paths = || vec![PathBuf::from(changed)];
            assert_eq!(of(&file, kind, changed), to_file(paths()), "{kind:?} of {changed}");
            assert_eq!(of(&folder, kind, changed), to_folder(paths()), "{kind:?} of {changed}");
        }
        assert_eq!(
            file_event(&file, Err(notify::Error::generic("lost"))),
            Some(FileEvent::Changed(Vec::new())),
            "what was lost may have been about the file"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_notification_triggers_a_read() {
        let (sender, mut looked) = unbounded_channel();
        let look = move || sender.send(()).unwrap();
        let (asked, stop) = (Arc::new(Notify::new()), CancellationToken::new());
        let place = WatchTarget::File(std::env::temp_dir().join("monoceros-not-there/queues.yaml"));
        let (notify, stopped) = (Arc::clone(&asked), stop.clone());
        let watching =
            tokio::spawn(async move { keep_watching(place, look, &notify, stopped).await });
        for _ in 0..3 {
            looked.recv().await.unwrap();
            asked.notify_one();
        }
        looked.recv().await.unwrap();
        stop.cancel();
        watching.await.unwrap();
    }
}
