//! Tests of a queue's view, with the values that it inherits: a queue alone cannot know its
//! headroom.

use monoceros_config::dynamic_queue;
use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::queues::object_state::ObjectState;
use monoceros_rules::queues::{QueueConfig, QueueSettings};

use super::*;
use crate::step::QueueSlot;

/// A queue as its actor shows it, with this usage.
fn shown(config: QueueConfig, used: &[(&str, i64)], children: Vec<QueueSnapshot>) -> QueueSnapshot {
    let mut ledger = QueueLedger::default();
    ledger.max.clone_from(&config.max);
    let delta = LedgerDelta { allocated: Resources::of(used), ..LedgerDelta::default() };
    assert_eq!(ledger.apply(&delta), None);
    let facts = QueueFacts {
        slot: QueueSlot(0),
        parent: None,
        config: Arc::new(config),
        state: ObjectState::Active,
        fair_max: None,
        priority_first: true,
        quota_delay_ns: 0,
    };
    let headroom = ledger.headroom(&Limits::unlimited());
    queue(&facts, &ledger, i32::MIN, headroom, &QueueCounts::default(), children)
}

fn configured(path: &str, is_leaf: bool, max: &[(&str, i64)]) -> QueueConfig {
    let max = (!max.is_empty()).then(|| Limits::of(max));
    QueueConfig { max, is_dynamic: false, ..dynamic_queue(path, is_leaf, None) }
}

#[test]
fn headroom_is_shown_along_the_path() {
    let leaf = |name| shown(configured(name, true, &[]), &[("a", 5), ("b", 3)], vec![]);
    let leaves = vec![leaf("root.p.x"), leaf("root.p.y")];
    let used = [("a", 10), ("b", 6)];
    let parent = configured("root.p", false, &[("a", 20), ("b", 8)]);
    let parent = shown(parent, &used, leaves);
    let mut root = configured("root", false, &[("a", 20), ("b", 10)]);
    let mut tree = shown(root.clone(), &used, vec![parent]);
    inherit(&mut tree);
    let of = |tree: &QueueSnapshot, path| tree.clone().descendant(path).unwrap().headroom;
    assert_eq!(tree.headroom, Limits::of(&[("a", 10), ("b", 4)]));
    for path in ["root.p", "root.p.x", "root.p.y"] {
        assert_eq!(of(&tree, path), Limits::of(&[("a", 10), ("b", 2)]), "{path}");
    }

    let used = [("a", 5), ("b", 5), ("c", 10), ("d", 5)];
    let leaf = configured("root.p.x", true, &[("a", 10), ("c", 10)]);
    let leaf = shown(leaf, &[("a", 5), ("b", 5), ("c", 5)], vec![]);
    let parent = shown(configured("root.p", false, &[("a", 20), ("b", 10)]), &used, vec![leaf]);
    root.max = None;
    let mut tree = shown(root, &used, vec![parent]);
    inherit(&mut tree);
    assert!(tree.headroom.is_unlimited(), "without nodes root has none");
    assert_eq!(of(&tree, "root.p.x"), Limits::of(&[("a", 5), ("b", 5), ("c", 5)]));
}

#[test]
fn a_parent_shows_the_nearest_template_and_a_leaf_none() {
    let template = |most| {
        let settings = Template {
            max_applications: most,
            properties: [("priority.offset".to_owned(), "2".to_owned())].into(),
            max: Some(Limits::of(&[("vcore", 5)])),
            guaranteed: Some(Resources::of(&[("vcore", 1)])),
        };
        Some(Arc::new(settings))
    };
    let with = |path: &str, is_leaf, most| QueueConfig {
        template: template(most),
        ..configured(path, is_leaf, &[])
    };
    let dynamic = dynamic_queue("root.own.d", false, None);
    let leaf = dynamic_queue("root.own.d.l", true, template(2).as_deref());
    let dynamic = shown(dynamic, &[], vec![shown(leaf, &[], vec![])]);
    let own = shown(with("root.own", false, 2), &[], vec![dynamic]);
    let none = shown(configured("root.none", false, &[]), &[], vec![]);
    let leaf = shown(configured("root.leaf", true, &[]), &[], vec![]);
    let mut tree = shown(with("root", false, 1), &[], vec![own, none, leaf]);
    inherit(&mut tree);
    let of = |path| tree.clone().descendant(path).unwrap();
    let most = |path| of(path).template.map(|template| template.max_applications);
    for (path, expected) in [
        ("root", Some(1)),
        ("root.own", Some(2)),
        ("root.own.d", Some(2)),
        ("root.own.d.l", None),
        ("root.none", Some(1)),
        ("root.leaf", None),
    ] {
        assert_eq!(most(path), expected, "{path}");
    }
    let shown = serde_json::to_string(&of("root.none").template).unwrap();
    assert_eq!(
        shown,
        r#"{"maxApplications":1,"maxResource":{"vcore":5},"guaranteedResource":{"vcore":1},"properties":{"priority.offset":"2"}}"#
    );
    assert!(of("root.own").is_managed && !of("root.own.d").is_managed);
    assert!(!of("root.own.d.l").is_managed);
    assert_eq!(of("root.own.d.l").properties["priority.offset"], "2");
}

#[test]
fn settings_are_shown_with_delays_in_canonical_form() {
    let settings = QueueSettings {
        preemption: PreemptionPolicy::Fence,
        preemption_delay: Duration::from_secs(900),
        quota_preemption_delay: Duration::from_secs(3600),
        backoff_asks: 4,
        backoff_delay: Duration::from_millis(1500),
        ..QueueSettings::default()
    };
    let of = |settings| {
        let config = QueueConfig { settings, ..configured("root.a", true, &[]) };
        shown(config, &[], vec![])
    };
    let set = of(settings);
    assert_eq!((&*set.preemption_delay, &*set.quota_preemption_delay), ("15m0s", "1h0m0s"));
    assert_eq!((set.unscheduled_ask_backoff, &*set.ask_backoff_delay), (4, "1.5s"));
    assert!(set.preemption_enabled && set.is_preemption_fence);
    let default = of(QueueSettings::default());
    assert_eq!((&*default.preemption_delay, &*default.quota_preemption_delay), ("30s", "0s"));
    assert_eq!((default.unscheduled_ask_backoff, &*default.ask_backoff_delay), (0, "30s"));
    assert!(default.preemption_enabled && !default.is_preemption_fence);
    let disabled = PreemptionPolicy::Disabled;
    let disabled = of(QueueSettings { preemption: disabled, ..settings });
    assert!(!disabled.preemption_enabled && !disabled.is_preemption_fence);
}
