//! A value read from files, and read again when they change.
//!
//! Certificates, keys and tokens are replaced while the service runs: by hand, by a renewal, or by
//! a mounted volume that swaps links. So the files are read every few seconds, and at once on
//! SIGHUP, and compared with the last contents. Reading small files is cheaper than handling the
//! change notifications of every kind of file system correctly.
//!
//! # Invariants
//! * The value in use is always valid: files that cannot be read or parsed change nothing.
//! * Each state of the files is logged once, however long it lasts.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::systemd::Systemd;

/// Interval between reads. A renewed certificate overlaps with the old one for days, but a token
/// that is withdrawn should stop working soon.
const REFRESH_EVERY: Duration = Duration::from_secs(5);

/// The files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError<E> {
    /// A file cannot be read.
    #[error("cannot read `{path}`: {reason}")]
    Unreadable {
        /// Path of the file.
        path: String,
        /// Error of the system.
        reason: std::io::Error,
    },
    /// The contents cannot be parsed.
    #[error(transparent)]
    Content(E),
}

/// A value that can be read from its files again.
pub trait Refresh: Send + Sync {
    /// Reads the files. Uses the new contents if they have changed, or logs why they cannot be
    /// used.
    fn refresh(&self);

    /// Refreshes the value after SIGHUP.
    fn hang_up(&self) {
        self.refresh();
    }
}

/// Refreshes `sources` every few seconds, and at each `hangup`, until `stop` is cancelled. At a
/// hangup, `systemd` is notified before and after the files are read.
pub async fn keep_fresh(
    sources: Vec<Arc<dyn Refresh>>,
    mut hangup: Signal,
    systemd: Systemd,
    stop: CancellationToken,
) {
    let keep = async {
        loop {
            let hung_up = tokio::select! {
                () = sleep(REFRESH_EVERY) => false,
                _ = hangup.recv() => true,
            };
            let refresh = if hung_up {
                info!("SIGHUP: reading settings, certificates, tokens and queues again");
                systemd.reloading();
                |source: Arc<dyn Refresh>| source.hang_up()
            } else {
                |source: Arc<dyn Refresh>| source.refresh()
            };
            for source in &sources {
                let source = Arc::clone(source);
                // Files may be on a remote mount that does not answer.
                if spawn_blocking(move || refresh(source)).await.is_err() {
                    warn!("reading files again has failed");
                }
            }
            if hung_up {
                systemd.reloaded();
            }
        }
    };
    stop.run_until_cancelled(keep).await;
}

/// Makes a value from the contents of the files, in the order of their paths.
type Parse<T, E> = dyn Fn(&[Vec<u8>]) -> Result<T, E> + Send + Sync;

/// A value of type `T` that is read from files.
pub struct FromFiles<T, E> {
    /// Name in the log.
    name: &'static str,
    paths: Vec<PathBuf>,
    parse: Box<Parse<T, E>>,
    /// Contents read last, valid or not. `None` if the files could not be read.
    seen: Mutex<Option<Vec<Vec<u8>>>>,
    current: RwLock<Arc<T>>,
}

impl<T, E: Display> FromFiles<T, E> {
    /// Reads the files for the first time. Fails if they give no value.
    pub fn load(
        name: &'static str,
        paths: Vec<PathBuf>,
        parse: impl Fn(&[Vec<u8>]) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, LoadError<E>> {
        let contents = read(&paths)?;
        let value = parse(&contents).map_err(LoadError::Content)?;
        Ok(Self {
            name,
            paths,
            parse: Box::new(parse),
            seen: Mutex::new(Some(contents)),
            current: RwLock::new(Arc::new(value)),
        })
    }

    /// Makes a value that never changes.
    #[cfg(test)]
    pub(crate) fn fixed(name: &'static str, value: T) -> Self
    where
        T: Send + Sync + 'static,
    {
        let current = RwLock::new(Arc::new(value));
        let parse = Box::new(|_: &[Vec<u8>]| unreachable!("it has no files that could change"));
        Self { name, paths: Vec::new(), parse, seen: Mutex::new(Some(Vec::new())), current }
    }

    /// Returns the current value.
    pub fn current(&self) -> Arc<T> {
        // The value is replaced in one step, so a poisoned lock is safe to use.
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Refreshes the value; see [`Refresh::refresh`].
    pub fn refresh(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let contents = match read(&self.paths) {
            Ok(contents) => contents,
            Err(error) => {
                if seen.take().is_some() {
                    self.keep(&error);
                }
                return;
            }
        };
        if seen.as_ref() == Some(&contents) {
            return;
        }
        match (self.parse)(&contents) {
            Ok(value) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
                info!(files = self.name, "read again, in use from now on");
            }
            Err(error) => self.keep(&LoadError::Content(error)),
        }
        *seen = Some(contents);
    }

    fn keep(&self, error: &LoadError<E>) {
        warn!(files = self.name, %error, "changed files cannot be used, what was read before stays");
    }
}

fn read<E>(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, LoadError<E>> {
    let read = |path: &PathBuf| std::fs::read(path).map_err(|reason| unreadable(path, reason));
    paths.iter().map(read).collect()
}

fn unreadable<E>(path: &Path, reason: std::io::Error) -> LoadError<E> {
    LoadError::Unreadable { path: path.display().to_string(), reason }
}

impl<T, E> fmt::Debug for FromFiles<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFiles").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::num::ParseIntError;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::signal::unix::{SignalKind, signal};

    use super::*;

    /// A number in a file, and how often it was parsed.
    fn number(path: &Path) -> (FromFiles<u32, ParseIntError>, Arc<AtomicUsize>) {
        let parsed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&parsed);
        let files = FromFiles::load("a number", vec![path.to_owned()], move |contents| {
            count.fetch_add(1, Ordering::Relaxed);
            String::from_utf8_lossy(&contents[0]).parse()
        });
        (files.unwrap(), parsed)
    }

    #[test]
    fn changed_files_replace_the_value_unless_invalid() {
        let path = std::env::temp_dir().join(format!("monoceros-files-{}", std::process::id()));
        fs::write(&path, "1").unwrap();
        let (files, parsed) = number(&path);
        let refreshed = |content: Option<&str>| {
            match content {
                Some(content) => fs::write(&path, content).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            files.refresh();
            (*files.current(), parsed.load(Ordering::Relaxed))
        };
        assert_eq!(refreshed(Some("1")), (1, 1), "the same is not parsed again");
        assert_eq!(refreshed(Some("2")), (2, 2));
        assert_eq!(refreshed(Some("two")), (2, 3));
        assert_eq!(refreshed(Some("two")), (2, 3), "nor is the same mistake");
        assert_eq!(refreshed(None), (2, 3));
        assert_eq!(refreshed(Some("3")), (3, 4));
        fs::remove_file(&path).unwrap();
    }

    struct Counted(AtomicUsize);

    impl Refresh for Counted {
        fn refresh(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_read_every_five_seconds_until_shutdown() {
        let counted = Arc::new(Counted(AtomicUsize::new(0)));
        let stop = CancellationToken::new();
        let hangup = signal(SignalKind::hangup()).unwrap();
        let sources: Vec<Arc<dyn Refresh>> = vec![counted.clone()];
        let keeping = tokio::spawn(keep_fresh(sources, hangup, Systemd::nobody(), stop.clone()));
        sleep(Duration::from_secs(16)).await;
        assert_eq!(counted.0.load(Ordering::Relaxed), 3);
        stop.cancel();
        keeping.await.unwrap();
    }

    #[test]
    fn there_has_to_be_a_value_at_first() {
        let missing = vec![PathBuf::from("/nowhere/at/all")];
        let files = FromFiles::load("a number", missing, |_| "1".parse::<u32>());
        assert!(files.unwrap_err().to_string().contains("`/nowhere/at/all`"));
    }
}
