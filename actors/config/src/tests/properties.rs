//! Queue properties. Those of sorting and priority are tested in `queues`.

use std::time::Duration;

use super::*;
use crate::reload::{self, QueueChange, StandingQueue};
use monoceros_rules::queues::EvictionBounds;
use monoceros_rules::queues::object_state::ObjectState;

/// Returns the settings of a leaf with one property, and the number of warnings about its value.
fn leaf_with(key: &str, value: &str) -> (QueueSettings, usize) {
    let text = below_root(&format!("{{name: a, properties: {{{key}: \"{value}\"}}}}"));
    let configuration = parsed(&text);
    let n_warnings = configuration.warnings.len();
    (queue(&configuration, "root.a").settings, n_warnings)
}

/// Returns `of` the settings of a leaf, given the properties of the leaf and of its parent.
fn inherited<T>(parent: &str, leaf: &str, of: fn(&QueueSettings) -> T) -> (T, T) {
    let configuration = parsed(&below_root(&format!(
        "{{name: p, properties: {{{parent}}}, queues: [{{name: a, properties: {{{leaf}}}}}]}}"
    )));
    let at = |path: &str| of(&queue(&configuration, path).settings);
    (at("root.p"), at("root.p.a"))
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn preemption_delay_falls_back_to_30_seconds() {
    for (value, seconds, n_warnings) in [
        ("-1s", 30, 1),
        ("xxxx", 30, 1),
        ("10", 30, 1),
        ("0", 30, 1),
        ("0s", 30, 1),
        ("", 30, 1),
        ("1m30s", 90, 0),
        ("1.5h", 5400, 0),
        ("+2s", 2, 0),
    ] {
        let (settings, warnings) = leaf_with("preemption.delay", value);
        assert_eq!(settings.preemption_delay, seconds * SECOND, "`{value}`");
        assert_eq!(warnings, n_warnings, "`{value}`");
    }
}

#[test]
fn quota_preemption_delay_is_inherited_and_overridden() {
    let delay = |s: &QueueSettings| s.quota_preemption_delay;
    let parent = "quota.preemption.delay: 15s";
    assert_eq!(inherited(parent, "", delay), (15 * SECOND, 15 * SECOND));
    assert_eq!(inherited(parent, "quota.preemption.delay: 10s", delay), (15 * SECOND, 10 * SECOND));
    for (value, n_warnings) in [("0s", 1), ("-5s", 1), ("soon", 1)] {
        let (settings, warnings) = leaf_with("quota.preemption.delay", value);
        assert_eq!((settings.quota_preemption_delay, warnings), (Duration::ZERO, n_warnings));
    }
}

#[test]
fn preemption_policy_is_passed_on_only_where_it_is_disabled() {
    use PreemptionPolicy::{Default, Disabled, Fence};
    let policy = |s: &QueueSettings| s.preemption;
    for (parent, leaf, expected) in [
        ("preemption.policy: fence", "", (Fence, Default)),
        ("preemption.policy: disabled", "", (Disabled, Disabled)),
        ("preemption.policy: DISABLED", "", (Disabled, Disabled)),
        ("preemption.policy: default", "", (Default, Default)),
        ("preemption.policy: wall", "", (Default, Default)),
        ("preemption.policy: \"\"", "", (Default, Default)),
        ("preemption.policy: disabled", "preemption.policy: fence", (Disabled, Fence)),
        ("preemption.policy: disabled", "preemption.policy: default", (Disabled, Default)),
        ("", "preemption.policy: Fence", (Default, Fence)),
    ] {
        assert_eq!(inherited(parent, leaf, policy), expected, "`{parent}` above `{leaf}`");
    }
    assert_eq!(leaf_with("preemption.policy", "wall").1, 1, "a bad value is warned of");
    let configuration = parsed(&below_root(
        "{name: p, properties: {preemption.policy: fence}, queues: [{name: a}]}",
    ));
    let shown = &queue(&configuration, "root.p.a").properties["preemption.policy"];
    assert_eq!(shown, "default");
}

#[test]
fn leaves_inherit_delays_through_parents() {
    let delay = |s: &QueueSettings| s.preemption_delay;
    assert_eq!(inherited("preemption.delay: 5s", "", delay), (30 * SECOND, 5 * SECOND));
    assert_eq!(
        inherited("preemption.delay: 5s", "preemption.delay: never", delay),
        (30 * SECOND, 30 * SECOND),
        "a bad value is the default, not what is inherited"
    );
    let backoff = |s: &QueueSettings| (s.backoff_asks, s.backoff_delay);
    assert_eq!(
        inherited(
            "application.unschedasks.backoff: 7, application.unschedasks.backoff.delay: 1m",
            "",
            backoff
        ),
        ((0, 30 * SECOND), (7, 60 * SECOND))
    );
}

#[test]
fn a_bad_back_off_is_none_and_warns() {
    for (value, expected, n_warnings) in [
        ("0", 0, 0),
        ("5", 5, 0),
        ("18446744073709551615", u64::MAX, 0),
        ("-1", 0, 1),
        ("+1", 0, 1),
        ("1.5", 0, 1),
        ("many", 0, 1),
        ("", 0, 1),
    ] {
        let (settings, warnings) = leaf_with("application.unschedasks.backoff", value);
        assert_eq!((settings.backoff_asks, warnings), (expected, n_warnings), "`{value}`");
    }
    for (value, seconds, n_warnings) in [("1m", 60, 0), ("0s", 30, 1), ("x", 30, 1)] {
        let asks = "application.unschedasks.backoff: 1";
        let key = "application.unschedasks.backoff.delay";
        let queue = format!("{{name: a, properties: {{{asks}, {key}: {value}}}}}");
        let configuration = parsed(&below_root(&queue));
        let warnings = configuration.warnings.len();
        let settings = super::queue(&configuration, "root.a").settings;
        assert_eq!((settings.backoff_delay, warnings), (seconds * SECOND, n_warnings), "`{value}`");
    }
}

#[test]
fn a_bad_completing_timeout_is_the_default() {
    let key = "application.completing.timeout";
    let timeout = |s: &QueueSettings| s.completing_timeout;
    let parent = format!("{key}: 5m");
    assert_eq!(inherited(&parent, "", timeout), (30 * SECOND, 300 * SECOND));
    assert_eq!(inherited(&parent, &format!("{key}: 1s"), timeout), (30 * SECOND, SECOND));
    for (value, milliseconds, n_warnings) in [
        ("250ms", 250, 0),
        ("0s", 30_000, 1),
        ("30", 30_000, 1),
        ("-1s", 30_000, 1),
        ("", 30_000, 1),
    ] {
        let (settings, warnings) = leaf_with(key, value);
        let timeout = Duration::from_millis(milliseconds);
        assert_eq!((settings.completing_timeout, warnings), (timeout, n_warnings), "`{value}`");
    }
}

#[test]
fn bounds_of_evictions_reach_leaves_through_parents() {
    let bounds = |s: &QueueSettings| s.eviction;
    let none = EvictionBounds::default();
    let parent = "preemption.max.evictions: 3, preemption.window: 1h, preemption.min.runtime: 5m";
    let set = EvictionBounds { max_evictions: 3, window: 3600 * SECOND, min_runtime: 300 * SECOND };
    assert_eq!(inherited(parent, "", bounds), (none, set));
    let own = "preemption.max.evictions: 0, preemption.min.runtime: 0s";
    let reset = EvictionBounds { window: set.window, ..none };
    assert_eq!(inherited(parent, own, bounds), (none, reset));
}

#[test]
fn a_bad_eviction_bound_warns() {
    let none = EvictionBounds::default();
    assert_eq!((none.max_evictions, none.window), (0, 600 * SECOND));
    for (key, value) in [
        ("preemption.max.evictions", "-1"),
        ("preemption.max.evictions", "4294967296"),
        ("preemption.max.evictions", "few"),
        ("preemption.window", "0s"),
        ("preemption.window", "600"),
        ("preemption.min.runtime", "-1s"),
        ("preemption.min.runtime", "long"),
    ] {
        let (settings, warnings) = leaf_with(key, value);
        assert_eq!((settings.eviction, warnings), (none, 1), "{key} `{value}`");
    }
    for (key, value) in [
        ("preemption.max.evictions", "4294967295"),
        ("preemption.window", "90s"),
        ("preemption.min.runtime", "1s"),
    ] {
        assert_ne!(leaf_with(key, value).0.eviction, none, "{key} `{value}`");
    }
}

/// The scenario `a_removed_property_returns_to_its_default` tests the change in a live partition.
#[test]
fn a_reload_without_a_property_sets_its_default() {
    let flat = |queue: &str| reload::flat(&parsed(&below_root(queue)).partitions[0].root);
    let standing = |config| StandingQueue { config, state: ObjectState::Active };
    for (key, value) in [
        ("application.sort.policy", "fair"),
        ("application.sort.priority", "disabled"),
        ("priority.policy", "fence"),
        ("priority.offset", "7"),
        ("preemption.policy", "fence"),
        ("preemption.delay", "1s"),
        ("quota.preemption.delay", "1s"),
        ("preemption.max.evictions", "1"),
        ("preemption.window", "1s"),
        ("preemption.min.runtime", "1s"),
        ("application.unschedasks.backoff", "1"),
        ("application.unschedasks.backoff.delay", "1s"),
        ("application.completing.timeout", "1s"),
    ] {
        let before = flat(&format!("{{name: a, properties: {{{key}: {value}}}}}"));
        assert_ne!(before["root.a"].settings, QueueSettings::default(), "{key}");
        let tree = before.into_iter().map(|(path, config)| (path, standing(config))).collect();
        let changes = reload::changes(&tree, &flat("{name: a}"));
        let [QueueChange::Set(after)] = &*changes else { panic!("{key}: {changes:?}") };
        assert_eq!(after.settings, QueueSettings::default(), "{key}");
        assert!(after.properties.is_empty(), "{key}");
    }
}

#[test]
fn root_has_its_own_properties_and_passes_them_on() {
    let text = "partitions: [{queues: [{name: root, properties: {preemption.delay: 5s, \
                priority.offset: 3}, queues: [{name: a}]}]}]";
    let configuration = parsed(text);
    assert_eq!(queue(&configuration, "root").settings.priority_offset, 3);
    assert_eq!(queue(&configuration, "root.a").settings.priority_offset, 0);
    assert_eq!(queue(&configuration, "root.a").settings.preemption_delay, 5 * SECOND);
}
