//! Queue properties: free text that a few keys give a meaning (queues-and-config chapter, 3.6).
//!
//! A bad value never fails a configuration, it falls back to the default, and a warning says so
//! where it was written. Properties are inherited from the top down, except for the two priority
//! keys that speak of one queue alone.

use std::collections::BTreeMap;

use super::document::{Texts, closest};
use super::error::Report;
use super::{ApplicationSortPolicy, PriorityPolicy, QueueSettings};

const SORT_POLICY: &str = "application.sort.policy";
const SORT_PRIORITY: &str = "application.sort.priority";
const PRIORITY_POLICY: &str = "priority.policy";
const PRIORITY_OFFSET: &str = "priority.offset";

const KNOWN: [&str; 4] = [SORT_POLICY, SORT_PRIORITY, PRIORITY_POLICY, PRIORITY_OFFSET];

/// Whether the chapter gives this key a meaning that this version does not support.
pub(super) fn is_for_later(key: &str) -> bool {
    ["preemption.", "quota.preemption.", "application.unschedasks."]
        .iter()
        .any(|prefix| key.starts_with(prefix))
}

/// The properties in force: those of the parent as far as they are inherited, and its own.
pub(super) fn effective(
    parent: Option<&BTreeMap<String, String>>,
    own: &Texts,
) -> BTreeMap<String, String> {
    let mut properties = parent.cloned().unwrap_or_default();
    for (key, own_default) in [(PRIORITY_POLICY, "default"), (PRIORITY_OFFSET, "0")] {
        if let Some(value) = properties.get_mut(key) {
            own_default.clone_into(value);
        }
    }
    for (key, text) in own {
        properties.insert(key.clone(), text.value.clone());
    }
    properties
}

/// What the properties in force mean.
pub(super) fn settings(properties: &BTreeMap<String, String>, is_leaf: bool) -> QueueSettings {
    let value = |key: &str| properties.get(key).map(String::as_str);
    let sort_policy = if is_leaf {
        value(SORT_POLICY).and_then(sort_policy).unwrap_or_default()
    } else {
        ApplicationSortPolicy::Fair
    };
    QueueSettings {
        sort_policy,
        priority_sort: value(SORT_PRIORITY).and_then(sort_priority).unwrap_or(true),
        priority_policy: value(PRIORITY_POLICY).and_then(priority_policy).unwrap_or_default(),
        priority_offset: value(PRIORITY_OFFSET).and_then(|text| text.parse().ok()).unwrap_or(0),
        ..QueueSettings::default()
    }
}

/// Warns where a property was written that does not say what its author may think.
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
