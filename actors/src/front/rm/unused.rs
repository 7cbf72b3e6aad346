//! Unused keys in the extra map of an RM.
//!
//! The map is kept and shown as it was sent. A shim for Kubernetes sends its whole configuration, most
//! of which is its own, so no key is an error. But a key that would affect other RMs, or that nothing
//! reads, was set in expectation of an effect: the log says that there is none.

use std::collections::BTreeMap;

use monoceros_rules::values::names::shown;

use crate::events::REQUEST_CAPACITY;

/// The most keys in a line of the log.
const NAMED: usize = 50;

/// The keys that an RM sets for itself and the engine or the edges of the service read:
/// `docs/configuration.md#what-a-resource-manager-sets-for-itself`.
const USED: [&str; 3] = [REQUEST_CAPACITY, "scheduling.placementsInFlight", "legacy.memoryUnit"];

/// Keys of the session; underscores and letter case do not matter in them.
const OF_SESSIONS: [&str; 8] = [
    "session.attachTimeout",
    "session.onStreamLoss",
    "session.outboxBytes",
    "session.outboxItems",
    "session.pauseTimeout",
    "session.reorderItems",
    "session.reorderWindow",
    "session.strictEnums",
];

/// Sections in which the RM sets every key for itself.
const SECTIONS: [&str; 2] = ["callback.", "priorityClasses."];

/// Logs one line for all unused keys.
pub(crate) fn warn_of_unused(rm: &str, extra: &BTreeMap<String, String>) {
    // Without values, which may be secrets.
    let mut keys: Vec<String> = unused(extra).take(NAMED).map(shown).collect();
    if keys.is_empty() {
        return;
    }
    let n_more = unused(extra).skip(NAMED).count();
    if n_more > 0 {
        keys.push(format!("and {n_more} more"));
    }
    let keys = keys.join(", ");
    tracing::warn!(
        rm,
        keys,
        "these keys of the extra configuration change nothing and are ignored"
    );
}

fn unused(extra: &BTreeMap<String, String>) -> impl Iterator<Item = &str> {
    extra.keys().map(String::as_str).filter(|key| !is_used(key))
}

fn is_used(key: &str) -> bool {
    let plain = |key: &str| key.replace('_', "").to_lowercase();
    USED.contains(&key)
        || OF_SESSIONS.iter().any(|of_sessions| plain(of_sessions) == plain(key))
        || SECTIONS.iter().any(|section| key.starts_with(section))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_of_the_rm_itself_are_used() {
        let mut extra = BTreeMap::new();
        for key in [
            "admissionController.filtering.bypassNamespaces",
            "callback.predicateTimeout",
            "event.maxStreams",
            "event.requestCapacity",
            "event.ringBufferCapacity",
            "event.trackingEnabled",
            "health.checkInterval",
            "legacy.memoryUnit",
            "log.level",
            "priorityClasses.high",
            "scheduling.placementsInFlight",
            "service.schedulingInterval",
            "session.attachTimeout",
            "session.ingressBytes",
            "session.outbox_items",
        ] {
            extra.insert(key.to_owned(), "1".to_owned());
        }
        let expected = [
            "admissionController.filtering.bypassNamespaces",
            "event.maxStreams",
            "event.ringBufferCapacity",
            "event.trackingEnabled",
            "health.checkInterval",
            "log.level",
            "service.schedulingInterval",
            "session.ingressBytes",
        ];
        assert_eq!(unused(&extra).collect::<Vec<_>>(), expected);
        assert_eq!(unused(&BTreeMap::new()).count(), 0);
    }
}
