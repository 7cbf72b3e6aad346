//! Settings that take effect without a restart: the log filter, the events that are kept and sent,
//! and the interval of health checks. An operator changes them during a problem, when a restart
//! would destroy the evidence.
//!
//! At SIGHUP all settings are read again, in the same order of sources as at the start. Other keys
//! configure sockets, sessions and partitions, and take effect at the next start.
//!
//! # Invariants
//! * Unusable settings change nothing, and the log names the key and the reason.
//! * A key that needs a restart is logged at each SIGHUP at which its value is not the one in force.

use std::path::{Display, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use monoceros_actors::SchedulerHandle;
use tracing::{error, info, warn};

use crate::files::Refresh;
use crate::logbook::Logbook;
use crate::logging::LogControl;
use crate::settings::{Flags, Settings, Values};

/// The keys that take effect at once: single keys, and sections ending in a dot.
const LIVE: [&str; 3] = ["event.", "health.check_interval", "log.filter"];

/// Applies changed settings at SIGHUP.
pub struct LiveSettings {
    /// The file and the flags that the start read.
    file: Option<PathBuf>,
    flags: Flags,
    handle: SchedulerHandle,
    logbook: Logbook,
    log: LogControl,
    /// Values in force. Keys that need a restart keep their values of the start.
    in_force: Mutex<Values>,
}

impl LiveSettings {
    /// Creates the value for a service that was started with `values`, read from `file` and
    /// `flags`.
    pub fn new(
        (file, flags, values): (Option<PathBuf>, Flags, Values),
        handle: SchedulerHandle,
        logbook: Logbook,
        log: LogControl,
    ) -> Self {
        Self { file, flags, handle, logbook, log, in_force: Mutex::new(values) }
    }

    /// Names the file in the log. The rate limit of the log does not apply to lines with this
    /// field.
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
    /// Does nothing: settings are read only at SIGHUP, since a half-written file may be valid.
    fn refresh(&self) {}

    fn hang_up(&self) {
        let (settings, values) = match Settings::load_with_values(self.file.as_deref(), &self.flags)
        {
            Ok(loaded) => loaded,
            Err(reason) => {
                let reason = reason.to_string().replace('\n', "; ");
                return error!(file = %self.file(), reason, "settings not read again");
            }
        };
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        let (live, waits) = changed(&in_force, &values);
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
        adopt(&mut in_force, &values);
    }
}

/// Returns the keys whose values differ: those that take effect at once, and those that need a
/// restart.
fn changed<'v>(before: &'v Values, now: &'v Values) -> (Vec<&'v str>, Vec<&'v str>) {
    let gone = before.keys().filter(|key| !now.contains_key(*key));
    let set = now.iter().filter(|(key, value)| before.get(*key) != Some(*value));
    let mut keys: Vec<&str> = gone.chain(set.map(|(key, _)| key)).map(String::as_str).collect();
    keys.sort_unstable();
    keys.into_iter().partition(|key| is_live(key))
}

/// Copies the values of the keys that take effect at once.
fn adopt(in_force: &mut Values, now: &Values) {
    in_force.retain(|key, _| !is_live(key));
    let live = now.iter().filter(|(key, _)| is_live(key));
    in_force.extend(live.map(|(key, value)| (key.clone(), value.clone())));
}

fn is_live(key: &str) -> bool {
    LIVE.iter().any(|live| key == *live || live.ends_with('.') && key.starts_with(live))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_value_back_to_the_one_in_force_needs_no_restart() {
        let start = values(&[("rest.address", "a"), ("log.filter", "info"), ("event.x", "1")]);
        let other = values(&[("rest.address", "b"), ("log.filter", "warn")]);
        let mut in_force = start.clone();
        assert_eq!(changed(&in_force, &other).1, ["rest.address"]);
        adopt(&mut in_force, &other);
        assert_eq!(in_force, values(&[("rest.address", "a"), ("log.filter", "warn")]));
        assert_eq!(changed(&in_force, &other).1, ["rest.address"], "it still needs one");
        assert_eq!(changed(&in_force, &start), (vec!["event.x", "log.filter"], vec![]));
    }

    #[test]
    fn live_keys_are_separated_from_restart_keys() {
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
