//! Keys in the extra map of an RM that the scheduler knows and does not obey yet.
//!
//! The map is kept and shown as it came. Most keys in it are the RM's own, so that an unknown one
//! is no fault. An operator who sets a key that the interface gives to the scheduler expects an
//! effect, and should read in the log that there is none.

use std::collections::BTreeMap;

/// The keys without an effect, apart from those of the log.
const UNUSED: [&str; 3] =
    ["event.RESTResponseSize", "health.checkInterval", "session.ingressBytes"];

/// One line in the log for each such key.
pub(crate) fn warn_of_unused(rm: &str, extra: &BTreeMap<String, String>) {
    for key in unused(extra) {
        // Not the value: what an RM keeps there is its own, and may be a secret.
        tracing::warn!(rm, key, "this key of the extra configuration has no effect yet");
    }
}

fn unused(extra: &BTreeMap<String, String>) -> impl Iterator<Item = &str> {
    let is_unused = |key: &&str| UNUSED.contains(key) || sets_a_log_level(key);
    extra.keys().map(String::as_str).filter(is_unused)
}

/// `log.level`, or of a part `log.core.scheduler.level`; of the core, since other parts, such as
/// `log.shim.level`, are the RM's.
fn sets_a_log_level(key: &str) -> bool {
    let part = key.strip_prefix("log.").and_then(|rest| rest.strip_suffix("level"));
    part.is_some_and(|part| part.is_empty() || part.starts_with("core."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_scheduler_without_an_effect_are_named_and_no_others() {
        let mut extra = BTreeMap::new();
        for key in [
            "admissionController.filtering.bypassNamespaces",
            "event.RESTResponseSize",
            "event.maxStreams",
            "event.restResponseSize",
            "health.checkInterval",
            "kubernetes.qps",
            "log.core.level",
            "log.core.scheduler.queue.level",
            "log.level",
            "log.levels",
            "log.shim.level",
            "logx.level",
            "service.schedulingInterval",
            "session.attachTimeout",
            "session.ingressBytes",
        ] {
            extra.insert(key.to_owned(), "1".to_owned());
        }
        let expected = [
            "event.RESTResponseSize",
            "health.checkInterval",
            "log.core.level",
            "log.core.scheduler.queue.level",
            "log.level",
            "session.ingressBytes",
        ];
        assert_eq!(unused(&extra).collect::<Vec<_>>(), expected);
        assert_eq!(unused(&BTreeMap::new()).count(), 0);
    }
}
