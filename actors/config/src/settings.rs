//! Queue properties: free text, of which a few keys have a meaning.
//!
//! A bad value never rejects a configuration: the default applies, and a warning with the location
//! of the property says so. Properties are inherited from parent to child, except those that
//! concern one queue alone.

use std::collections::BTreeMap;
use std::time::Duration;

use super::document::Texts;
use super::error::Report;
use super::{ApplicationSortPolicy, PreemptionPolicy, PriorityPolicy, QueueSettings, closest};
use monoceros_rules::queues::EvictionBounds;
use monoceros_rules::values::duration;

const SORT_POLICY: &str = "application.sort.policy";
const SORT_PRIORITY: &str = "application.sort.priority";
const PRIORITY_POLICY: &str = "priority.policy";
const PRIORITY_OFFSET: &str = "priority.offset";
const PREEMPTION_POLICY: &str = "preemption.policy";
const PREEMPTION_DELAY: &str = "preemption.delay";
const QUOTA_PREEMPTION_DELAY: &str = "quota.preemption.delay";
const MAX_EVICTIONS: &str = "preemption.max.evictions";
const EVICTION_WINDOW: &str = "preemption.window";
const MIN_RUNTIME: &str = "preemption.min.runtime";
const BACKOFF_ASKS: &str = "application.unschedasks.backoff";
const BACKOFF_DELAY: &str = "application.unschedasks.backoff.delay";

const COMPLETING_TIMEOUT: &str = "application.completing.timeout";

const KNOWN: [&str; 13] = [
    SORT_POLICY,
    SORT_PRIORITY,
    PRIORITY_POLICY,
    PRIORITY_OFFSET,
    PREEMPTION_POLICY,
    PREEMPTION_DELAY,
    QUOTA_PREEMPTION_DELAY,
    MAX_EVICTIONS,
    EVICTION_WINDOW,
    MIN_RUNTIME,
    BACKOFF_ASKS,
    BACKOFF_DELAY,
    COMPLETING_TIMEOUT,
];

/// Merges the inheritable properties of the parent with those of the queue.
pub(super) fn effective(
    parent: Option<&BTreeMap<String, String>>,
    own: &Texts,
) -> BTreeMap<String, String> {
    let mut properties = parent.cloned().unwrap_or_default();
    for (key, own_default) in
        [(PRIORITY_POLICY, "default"), (PRIORITY_OFFSET, "0"), (PREEMPTION_POLICY, "default")]
    {
        if let Some(value) = properties.get_mut(key)
            && !(key == PREEMPTION_POLICY
                && preemption_policy(value) == Some(PreemptionPolicy::Disabled))
        {
            own_default.clone_into(value);
        }
    }
    for (key, text) in own {
        properties.insert(key.clone(), text.value.clone());
    }
    properties
}

/// Reads the settings of a configured queue from its effective properties.
pub(super) fn managed(properties: &BTreeMap<String, String>, is_leaf: bool) -> QueueSettings {
    let quota_delay = properties.get(QUOTA_PREEMPTION_DELAY).and_then(|text| delay(text));
    QueueSettings {
        quota_preemption_delay: quota_delay.unwrap_or_default(),
        ..dynamic(properties, is_leaf)
    }
}

/// Reads the settings of a dynamic queue from its effective properties. No configuration can have
/// lowered its maximum, so it has no quota preemption delay.
pub(super) fn dynamic(properties: &BTreeMap<String, String>, is_leaf: bool) -> QueueSettings {
    let value = |key: &str| properties.get(key).map(String::as_str);
    let default = QueueSettings::default();
    let everywhere = QueueSettings {
        priority_sort: value(SORT_PRIORITY).and_then(sort_priority).unwrap_or(true),
        priority_policy: value(PRIORITY_POLICY).and_then(priority_policy).unwrap_or_default(),
        priority_offset: value(PRIORITY_OFFSET).and_then(|text| text.parse().ok()).unwrap_or(0),
        preemption: value(PREEMPTION_POLICY).and_then(preemption_policy).unwrap_or_default(),
        ..default
    };
    if !is_leaf {
        return QueueSettings { sort_policy: ApplicationSortPolicy::Fair, ..everywhere };
    }
    QueueSettings {
        sort_policy: value(SORT_POLICY).and_then(sort_policy).unwrap_or_default(),
        preemption_delay: value(PREEMPTION_DELAY)
            .and_then(delay)
            .unwrap_or(default.preemption_delay),
        eviction: EvictionBounds {
            max_evictions: value(MAX_EVICTIONS).and_then(small_count).unwrap_or(0),
            window: value(EVICTION_WINDOW)
                .and_then(delay)
                .unwrap_or(EvictionBounds::default().window),
            min_runtime: value(MIN_RUNTIME).and_then(time).unwrap_or_default(),
        },
        backoff_asks: value(BACKOFF_ASKS).and_then(count).unwrap_or(default.backoff_asks),
        backoff_delay: value(BACKOFF_DELAY).and_then(delay).unwrap_or(default.backoff_delay),
        completing_timeout: value(COMPLETING_TIMEOUT)
            .and_then(delay)
            .unwrap_or(default.completing_timeout),
        ..everywhere
    }
}

/// Warns about properties that do not mean what their author may think.
pub(super) fn check(own: &Texts, report: &mut Report) {
    for (key, text) in own {
        let value = &*text.value;
        let (understood, instead) = match &**key {
            SORT_POLICY if value == "stateaware" => {
                report.warn(&text.place, "`stateaware` is an old name; `fifo` is used");
                continue;
            }
            SORT_POLICY => (sort_policy(value).is_some(), "`fifo` or `fair`; `fifo` is used"),
            SORT_PRIORITY => {
                (sort_priority(value).is_some(), "`enabled` or `disabled`; `enabled` is used")
            }
            PRIORITY_POLICY => {
                (priority_policy(value).is_some(), "`default` or `fence`; `default` is used")
            }
            PRIORITY_OFFSET => {
                (value.parse::<i32>().is_ok(), "a whole number of 32 bits; 0 is used")
            }
            PREEMPTION_POLICY => (
                preemption_policy(value).is_some(),
                "`default`, `fence` or `disabled`; `default` is used",
            ),
            PREEMPTION_DELAY | BACKOFF_DELAY | COMPLETING_TIMEOUT => {
                (delay(value).is_some(), "a time above zero such as `30s` or `1h30m`; 30s is used")
            }
            QUOTA_PREEMPTION_DELAY => (
                delay(value).is_some(),
                "a time above zero such as `30s` or `1h30m`; without one, there is no such \
                 preemption",
            ),
            MAX_EVICTIONS => {
                (small_count(value).is_some(), "a whole number of 32 bits; 0 is used: no bound")
            }
            EVICTION_WINDOW => {
                (delay(value).is_some(), "a time above zero such as `10m` or `1h30m`; 10m is used")
            }
            MIN_RUNTIME => (time(value).is_some(), "a time such as `0s` or `5m`; 0s is used: none"),
            BACKOFF_ASKS => (count(value).is_some(), "a whole number of 0 or more; 0 is used"),
            unknown => {
                if let Some(close) = closest(unknown, KNOWN.into_iter()) {
                    let message = format!(
                        "the property `{unknown}` has no meaning here; did you mean `{close}`?"
                    );
                    report.warn(&text.place, message);
                }
                continue;
            }
        };
        if !understood {
            report.warn(&text.place, format!("`{key}` is `{value}`, which is not {instead}"));
        }
    }
}

/// The facts about a queue or template that decide whether its properties have an effect.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Standing {
    pub(super) is_root: bool,
    /// Whether the properties are those of a child template.
    pub(super) is_template: bool,
    /// Whether the queue, or a configured queue below it, is a leaf.
    pub(super) has_leaf: bool,
    /// Whether the partition has preemption for guarantees.
    pub(super) preempts: bool,
    /// Whether the partition has quota preemption, for maxima that were lowered.
    pub(super) preempts_quotas: bool,
    /// Whether applications in the queue or below back off.
    pub(super) backs_off: bool,
}

/// Whether these properties enable back-off of applications.
pub(super) fn backs_off(own: &Texts) -> bool {
    let asks = own.iter().find(|(key, _)| key == BACKOFF_ASKS);
    asks.is_some_and(|(_, text)| count(&text.value).is_some_and(|asks| asks > 0))
}

/// Warns about known properties of `of` that have no effect there.
pub(super) fn warn_of_no_effect(own: &Texts, standing: &Standing, of: &str, report: &mut Report) {
    for (key, text) in own {
        if let Some(why) = why_no_effect(key, &text.value, standing) {
            report.warn(&text.place, format!("`{key}` of {of} has no effect: {why}"));
        }
    }
}

fn why_no_effect(key: &str, value: &str, standing: &Standing) -> Option<&'static str> {
    let policy = preemption_policy(value).unwrap_or_default();
    let is_set = match key {
        PRIORITY_OFFSET => value.parse().is_ok_and(|offset: i32| offset != 0),
        PRIORITY_POLICY => priority_policy(value) == Some(PriorityPolicy::Fence),
        PREEMPTION_POLICY => policy != PreemptionPolicy::Default,
        PREEMPTION_DELAY | QUOTA_PREEMPTION_DELAY | BACKOFF_DELAY => delay(value).is_some(),
        _ => KNOWN.contains(&key),
    };
    let is_for_leaves = matches!(
        key,
        SORT_POLICY
            | PREEMPTION_DELAY
            | MAX_EVICTIONS
            | EVICTION_WINDOW
            | MIN_RUNTIME
            | BACKOFF_ASKS
            | BACKOFF_DELAY
            | COMPLETING_TIMEOUT
    );
    match key {
        _ if !is_set => None,
        PRIORITY_OFFSET | PRIORITY_POLICY if standing.is_root => {
            Some("it is for those beside a queue, and nothing is beside root")
        }
        PREEMPTION_POLICY if standing.is_root && policy == PreemptionPolicy::Fence => {
            Some("nothing is outside of root")
        }
        _ if is_for_leaves && !standing.has_leaf => Some(
            "it is for leaves, and no leaf is configured there; queues that are made on demand have \
             the properties of a `childtemplate`",
        ),
        PREEMPTION_DELAY | PREEMPTION_POLICY if !standing.preempts => {
            Some("`preemption.enabled` of the partition is false")
        }
        QUOTA_PREEMPTION_DELAY if standing.is_template => {
            Some("queues that are made on demand give nothing back")
        }
        QUOTA_PREEMPTION_DELAY if !standing.preempts_quotas => {
            Some("`preemption.quotapreemptionenabled` of the partition is not true")
        }
        BACKOFF_DELAY if !standing.backs_off => {
            Some("`application.unschedasks.backoff` is not set with it")
        }
        _ => None,
    }
}

fn sort_policy(text: &str) -> Option<ApplicationSortPolicy> {
    match text {
        "" | "fifo" | "stateaware" => Some(ApplicationSortPolicy::Fifo),
        "fair" => Some(ApplicationSortPolicy::Fair),
        _ => None,
    }
}

fn sort_priority(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "enabled" => Some(true),
        "disabled" => Some(false),
        _ => None,
    }
}

fn priority_policy(text: &str) -> Option<PriorityPolicy> {
    match text.to_lowercase().as_str() {
        "" | "default" => Some(PriorityPolicy::Default),
        "fence" => Some(PriorityPolicy::Fence),
        _ => None,
    }
}

fn preemption_policy(text: &str) -> Option<PreemptionPolicy> {
    match text.to_lowercase().as_str() {
        "" | "default" => Some(PreemptionPolicy::Default),
        "fence" => Some(PreemptionPolicy::Fence),
        "disabled" => Some(PreemptionPolicy::Disabled),
        _ => None,
    }
}

/// Reads a duration above zero.
fn delay(text: &str) -> Option<Duration> {
    duration::parse(text).ok().filter(|delay| !delay.is_zero())
}

/// Reads a duration, which may be zero.
fn time(text: &str) -> Option<Duration> {
    duration::parse(text).ok()
}

/// Reads a count of at most 32 bits.
fn small_count(text: &str) -> Option<u32> {
    count(text).and_then(|count| count.try_into().ok())
}

/// Reads a whole number in decimal digits, without a sign.
fn count(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
