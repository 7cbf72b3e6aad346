//! Child templates: the settings of dynamic leaves.

use monoceros_rules::values::resources::{Limits, Resources};

use std::time::Duration;

use super::*;

/// Returns a parent below root with a template, in flow style.
fn with_template(template: &str) -> String {
    let below = below_root(&format!("{{name: p, parent: true, childtemplate: {template}}}"));
    let rules = "placementrules: [{name: user, create: true}]";
    below.replace("partitions: [{", &format!("partitions: [{{{rules}, "))
}

fn template(text: &str) -> Option<Template> {
    queue(&parsed(&with_template(text)), "root.p").template.as_deref().cloned()
}

#[test]
fn a_template_is_read_as_a_queue_is() {
    let read = template(
        "{maxapplications: 10, properties: {application.sort.policy: fair}, resources: \
         {guaranteed: {vcore: 1}, max: {vcore: 20, memory: 600G}}}",
    )
    .unwrap();
    assert_eq!(read.max_applications, 10);
    assert_eq!(read.properties["application.sort.policy"], "fair");
    assert_eq!(read.guaranteed, Some(Resources::of(&[("vcore", 1000)])));
    assert_eq!(read.max, Some(Limits::of(&[("vcore", 20_000), ("memory", 600_000_000_000)])));
}

#[test]
fn a_template_in_which_nothing_counts_is_absent() {
    for nothing in [
        "null",
        "{}",
        "{maxapplications: 0}",
        "{properties: {}, resources: {max: {}, guaranteed: null}}",
        "{properties: {\"\": x, y: \"\"}}",
        "{resources: {max: {memory: \"\"}, guaranteed: {\"\": 5}}}",
    ] {
        assert_eq!(template(nothing), None, "{nothing}");
    }
    for something in [
        "{maxapplications: 1}",
        "{properties: {a: b}}",
        "{resources: {max: {memory: 0}}}",
        "{resources: {guaranteed: {memory: 1}}}",
    ] {
        assert!(template(something).is_some(), "{something}");
    }
}

#[test]
fn zero_amounts_and_empty_entries_are_dropped() {
    let read = template(
        "{maxapplications: 1, properties: {\"\": x, y: \"\", z: null, kept: v}, resources: {max: \
         {memory: 0}, guaranteed: {memory: 0, vcore: 1}}}",
    )
    .unwrap();
    assert_eq!(read.max, None);
    assert_eq!(read.guaranteed, Some(Resources::of(&[("memory", 0), ("vcore", 1000)])));
    assert_eq!(read.properties.into_keys().collect::<Vec<_>>(), ["kept"]);
}

#[test]
fn zeros_alone_warn() {
    let text = "{resources: {max: {memory: 0, vcore: 0}, guaranteed: {memory: 0}}}";
    let warnings = parsed(&with_template(text)).warnings;
    let told: Vec<(&str, bool)> = warnings
        .iter()
        .map(|w| {
            (w.path.rsplit('.').next().unwrap(), w.message.contains("`root.p` lists only zeros"))
        })
        .collect();
    assert_eq!(told, [("max", true), ("guaranteed", true)]);
    let text = "{resources: {max: {gpu: 0, vcore: 1}, guaranteed: {}}}";
    assert_eq!(parsed(&with_template(text)).warnings, []);
}

#[test]
fn a_bad_quantity_names_queue_type_and_text() {
    for (quantity, key) in [("1.5", "max"), ("4K", "guaranteed"), ("99E", "max")] {
        let text = with_template(&format!("{{resources: {{{key}: {{memory: {quantity}}}}}}}"));
        let shown = only_error(&text);
        let quoted = format!("`{quantity}`");
        for part in ["[E_TEMPLATE_QTY]", &quoted, "`memory`", "`root.p`", key] {
            assert!(shown.contains(part), "{shown}");
        }
    }
    let empty = with_template("{maxapplications: 1, resources: {max: {memory: \"\"}}}");
    assert_eq!(codes(&empty), ["E_TEMPLATE_QTY"]);
}

#[test]
fn nothing_in_a_template_is_compared() {
    let text = below_root(
        "{name: p, parent: true, maxapplications: 1, resources: {max: {memory: 1}}, childtemplate: \
         {maxapplications: 9, resources: {guaranteed: {memory: 9}, max: {memory: 5}}}}",
    );
    assert_eq!(codes(&text), [""; 0]);
}

#[test]
fn on_a_leaf_a_template_is_ignored_and_warned_of() {
    let text = below_root("{name: a, childtemplate: {resources: {max: {memory: 1.5}}}}");
    let configuration = parsed(&text);
    assert_eq!(queue(&configuration, "root.a").template, None);
    let [warning] = &*configuration.warnings else { panic!("one warning") };
    assert!(warning.message.contains("`root.a`") && warning.message.contains("parent: true"));
}

#[test]
fn templates_have_no_acl_limits_or_templates() {
    for key in ["submitacl: x", "limits: []", "childtemplate: {}", "queues: []"] {
        assert_eq!(codes(&with_template(&format!("{{{key}}}"))), ["E_CONF_PARSE"], "{key}");
    }
}

#[test]
fn each_queue_keeps_its_own_template_only() {
    let text = below_root(
        "{name: p, childtemplate: {maxapplications: 1}, queues: [{name: q, parent: true}, {name: r, \
         parent: true, childtemplate: {maxapplications: 2}}]}",
    );
    let configuration = parsed(&text);
    let most =
        |path: &str| queue(&configuration, path).template.as_ref().map(|t| t.max_applications);
    assert_eq!([most("root.p"), most("root.p.q"), most("root.p.r")], [Some(1), None, Some(2)]);
    let root = "partitions: [{queues: [{name: root, childtemplate: {maxapplications: 3}}]}]";
    let of_root = parsed(root).partitions.remove(0).root.template.unwrap();
    assert_eq!(of_root.max_applications, 3);
}

#[test]
fn a_dynamic_leaf_has_only_template_properties() {
    let template = template(
        "{properties: {application.sort.policy: fair, preemption.policy: fence, preemption.delay: \
         10s, quota.preemption.delay: 15s, application.unschedasks.backoff: 3, priority.offset: 5}}",
    )
    .unwrap();
    let leaf = dynamic_queue("root.p.user", true, Some(&template));
    assert_eq!(leaf.properties, template.properties);
    let expected = QueueSettings {
        sort_policy: ApplicationSortPolicy::Fair,
        priority_offset: 5,
        preemption: PreemptionPolicy::Fence,
        preemption_delay: Duration::from_secs(10),
        backoff_asks: 3,
        // Applies to configured queues only.
        quota_preemption_delay: Duration::ZERO,
        ..QueueSettings::default()
    };
    assert_eq!(leaf.settings, expected);
    let parent = dynamic_queue("root.p.user", false, Some(&template));
    assert!(parent.properties.is_empty());
    let fair = ApplicationSortPolicy::Fair;
    assert_eq!(parent.settings, QueueSettings { sort_policy: fair, ..QueueSettings::default() });
    assert_eq!(recovery_queue().settings, QueueSettings::default());
}
