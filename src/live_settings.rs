//! Settings that hold without a restart: what is logged, what is kept and told of events, and how
//! often the scheduler is looked over. They are what an operator changes while something is wrong,
//! when a restart would take the trace away.
//!
//! At SIGHUP all settings are read again, in the order in which the start reads them. Those of other
//! keys are what sockets, sessions and partitions were made with, and wait for the next start.
//!
//! # Invariants
//! * Settings that cannot be used change nothing, and the log says which and why.
//! * Whoever changes a key that needs a restart is told so.

use std::path::{Display, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use monoceros_actors::SchedulerHandle;
use tracing::{error, info, warn};

use crate::files::Refresh;
use crate::logbook::Logbook;
use crate::logging::Account;
use crate::settings::{Flags, Settings, Values};

/// The keys that hold at once: whole ones, and those of a section.
const LIVE: [&str; 3] = ["event.", "health.check_interval", "log.filter"];

/// Has them hold.
pub struct LiveSettings {
    /// What the start read, too.
    file: Option<PathBuf>,
    flags: Flags,
    handle: SchedulerHandle,
    logbook: Logbook,
    log: Account,
    /// What was in force last, or waits for the next start.
    seen: Mutex<Values>,
}

impl LiveSettings {
    /// For a service that was started with `values`, from this file and these flags.
    pub fn new(
        (file, flags, values): (Option<PathBuf>, Flags, Values),
        handle: SchedulerHandle,
        logbook: Logbook,
        log: Account,
    ) -> Self {
        Self { file, flags, handle, logbook, log, seen: Mutex::new(values) }
    }

    /// The file; lines of the log that name one are records, of which none is left out.
    fn file(&self) -> Display<'_> {
        self.file.as_deref().unwrap_or(Path::new("none")).display()
    }

    fn set(&self, settings: &Settings) -> anyhow::Result<()> {
        self.log.set_filter(&settings.log.filter)?;
        self.handle.set_events(settings.event.of_scheduler());
        self.logbook.set(settings);
        Ok(())
    }
}

impl Refresh for LiveSettings {
    /// A file of settings is read when somebody says so, and not when it was saved: what is half
    /// written may be valid.
    fn refresh(&self) {}

    fn hang_up(&self) {
        let (settings, values) = match Settings::load_with_values(self.file.as_deref(), &self.flags)
        {
            Ok(loaded) => loaded,
            Err(reason) => {
                return error!(file = %self.file(), %reason, "settings not read again");
            }
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (live, waits) = changed(&seen, &values);
        if !live.is_empty() {
            if let Err(reason) = self.set(&settings) {
                let reason = format!("{reason:#}");
                return error!(file = %self.file(), reason, "settings not in force");
            }
            info!(file = %self.file(), keys = live.join(" "), "settings in force");
        }
        if !waits.is_empty() {
            let keys = waits.join(" ");
            warn!(file = %self.file(), keys, "settings take effect at the next start");
        }
        *seen = values;
    }
}

/// The keys that have other values now: those that hold at once, and those that need a restart.
fn changed<'v>(before: &'v Values, now: &'v Values) -> (Vec<&'v str>, Vec<&'v str>) {
    let gone = before.keys().filter(|key| !now.contains_key(*key));
    let set = now.iter().filter(|(key, value)| before.get(*key) != Some(*value));
    let mut keys: Vec<&str> = gone.chain(set.map(|(key, _)| key)).map(String::as_str).collect();
    keys.sort_unstable();
    keys.into_iter().partition(|key| {
        LIVE.iter().any(|live| key == live || live.ends_with('.') && key.starts_with(live))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_at_once_is_told_from_what_needs_a_restart() {
        let values = |pairs: &[(&str, &str)]| -> Values {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let before = values(&[
            ("event.max_streams", "3"),
            ("grpc.address", "a"),
            ("log.filter", "info"),
            ("log.format", "text"),
            ("scheduler.queues", "q"),
        ]);
        let now = values(&[
            ("event.max_streams", "3"),
            ("event.tracking_enabled", "false"),
            ("grpc.address", "b"),
            ("health.check_interval", "1"),
            ("log.filter", "debug"),
            ("log.format", "json"),
        ]);
        let live = vec!["event.tracking_enabled", "health.check_interval", "log.filter"];
        let waits = vec!["grpc.address", "log.format", "scheduler.queues"];
        assert_eq!(changed(&before, &now), (live, waits));
        assert_eq!(changed(&now, &now), (vec![], vec![]));
    }
}
