//! Keys in the extra map of an RM that change nothing.
//!
//! The map is kept and shown as it came. A shim for Kubernetes sends all that it is configured with,
//! and most of that is its own, so that no key is a fault. But whoever sets a key that would concern
//! others, or that nobody reads, expects an effect, and should read in the log that there is none.

use std::collections::BTreeMap;

use monoceros_rules::values::names::shown;

use crate::events::REQUEST_CAPACITY;

/// How many keys a line of the log names.
const NAMED: usize = 50;

/// The keys by which an RM says something of itself, here and at the edges of the service:
/// `docs/configuration.md#what-a-resource-manager-sets-for-itself`.
const OBEYED: [&str; 3] = [REQUEST_CAPACITY, "scheduling.placementsInFlight", "legacy.memoryUnit"];

/// The same of the session; an underscore and case make no difference to them.
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

/// Sections of which every key is the RM's.
const SECTIONS: [&str; 2] = ["callback.", "priorityClasses."];

/// One line in the log for all such keys.
pub(crate) fn warn_of_unused(rm: &str, extra: &BTreeMap<String, String>) {
    // Not the values: what an RM keeps there is its own, and may be a secret.
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
    extra.keys().map(String::as_str).filter(|key| !is_obeyed(key))
}

fn is_obeyed(key: &str) -> bool {
    let plain = |key: &str| key.replace('_', "").to_lowercase();
    OBEYED.contains(&key)
        || OF_SESSIONS.iter().any(|of_sessions| plain(of_sessions) == plain(key))
        || SECTIONS.iter().any(|section| key.starts_with(section))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_named_that_says_nothing_of_the_rm_alone() {
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
