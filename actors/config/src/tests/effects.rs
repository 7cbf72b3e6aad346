//! Warnings about settings without effect, limits that nothing can satisfy, and settings that other
//! schedulers reject.

use super::*;

/// Returns the messages of all warnings of a partition with these keys.
fn warned(partition: &str) -> Vec<String> {
    let text = format!("partitions: [{{{partition}}}]");
    parsed(&text).warnings.into_iter().map(|warning| warning.message).collect()
}

/// Returns the warnings of queues below a root that everybody may submit to.
fn warned_below(queues: &str, of_partition: &str) -> Vec<String> {
    warned(&format!("queues: [{{name: root, submitacl: '*', queues: [{queues}]}}], {of_partition}"))
}

#[track_caller]
fn check_one(warnings: &[String], expected: &str) {
    let [warning] = warnings else { panic!("one warning of {expected:?}: {warnings:#?}") };
    assert!(warning.contains(expected), "{warning}");
}

const NONE: [String; 0] = [];

#[test]
fn habitual_names_of_other_schedulers_are_doubted() {
    let quotas = "{name: a, resources: {max: {cpu: 4, mem: 4Gi}, guaranteed: {cpu: 2}}}";
    let warnings = warned_below(quotas, "");
    assert_eq!(
        warnings,
        [
            "`cpu` in max of queue `root.a` is hardly a type that requests name; did you mean \
             `vcore`? It is written once more.",
            "`mem` in max of queue `root.a` is hardly a type that requests name; did you mean \
             `memory`?",
        ]
        .map(str::to_owned)
    );
    let limits = "{name: a, limits: [{limit: l, users: ['*'], maxresources: {cpus: 4}}]}";
    check_one(&warned_below(limits, ""), "`cpus` in maxresources of limit `l` of queue `root.a`");
    let template = "{name: p, parent: true, childtemplate: {resources: {max: {gpus: 1}}}}";
    let rules = "placementrules: [{name: user, create: true}]";
    check_one(
        &warned_below(template, rules),
        "`gpus` in max of the child template of queue `root.p`",
    );
    let weights = "nodesortpolicy: {type: fair, resourceweights: {ram: 1}}";
    check_one(&warned_below("{name: a}", weights), "`ram` in `resourceweights`");
    let right =
        "{name: a, resources: {max: {vcore: 4, memory: 4Gi, nvidia.com/gpu: 1, licences: 7}}}";
    assert_eq!(warned_below(right, ""), NONE);
}

#[test]
fn properties_without_effect_warn() {
    let of = |queue: &str, partition: &str| warned_below(queue, partition);
    let leaf = |property: &str| format!("{{name: a, properties: {{{property}}}}}");
    let parent = |property: &str| {
        format!("{{name: p, parent: true, properties: {{{property}}}}}, {{name: a}}")
    };
    let above =
        |property: &str| format!("{{name: p, properties: {{{property}}}, queues: [{{name: a}}]}}");
    let backoff = "application.unschedasks.backoff";
    for property in [
        "application.sort.policy: fair",
        "preemption.delay: 5s",
        "preemption.max.evictions: 1",
        "preemption.window: 1m",
        "preemption.min.runtime: 1m",
        "application.completing.timeout: 1m",
        &format!("{backoff}: 3"),
    ] {
        check_one(&of(&parent(property), ""), "no leaf is configured there");
        assert_eq!(of(&above(property), ""), NONE, "{property}");
        assert_eq!(of(&leaf(property), ""), NONE, "{property}");
    }
    for property in ["priority.offset: 5", "priority.policy: fence", "preemption.policy: fence"] {
        assert_eq!(of(&parent(property), ""), NONE, "{property}");
        let root = |property: &str| {
            warned(&format!(
                "queues: [{{name: root, submitacl: '*', properties: {{{property}}}, queues: [{{name: a}}]}}]"
            ))
        };
        check_one(&root(property), "` of queue `root` has no effect");
        assert_eq!(root("priority.offset: 0, priority.policy: default"), NONE);
        assert_eq!(root("preemption.policy: disabled, preemption.delay: 1m"), NONE);
    }
    let off = "preemption: {enabled: false}";
    for property in
        ["preemption.delay: 5s", "preemption.policy: fence", "preemption.policy: disabled"]
    {
        check_one(&of(&leaf(property), off), "`preemption.enabled` of the partition is false");
        assert_eq!(of(&leaf(property), ""), NONE, "{property}");
    }
    let delay = "quota.preemption.delay: 5m";
    let on = "preemption: {quotapreemptionenabled: true}";
    check_one(&of(&leaf(delay), ""), "`preemption.quotapreemptionenabled`");
    assert_eq!(of(&leaf(delay), on), NONE);
    let template = format!("{{name: p, parent: true, childtemplate: {{properties: {{{delay}}}}}}}");
    let rules = "placementrules: [{name: user, create: true}]";
    check_one(&of(&template, &format!("{on}, {rules}")), "give nothing back");
    let alone = format!("{backoff}.delay: 1m");
    check_one(&of(&leaf(&alone), ""), "`application.unschedasks.backoff` is not set with it");
    let below = format!(
        "{{name: p, properties: {{{alone}}}, queues: [{{name: a, properties: {{{backoff}: 2}}}}]}}"
    );
    assert_eq!(of(&below, ""), NONE);
    let inherited = format!(
        "{{name: p, properties: {{{backoff}: 2}}, queues: [{{name: a, properties: {{{alone}}}}}]}}"
    );
    assert_eq!(of(&inherited, ""), NONE);
}

#[test]
fn templates_and_numbers_without_effect_are_warned_of() {
    let template = "{name: p, parent: true, childtemplate: {maxapplications: 5}}, {name: a}";
    check_one(&warned_below(template, ""), "no placement rule makes queues");
    let rules = "placementrules: [{name: user}, {name: tag, value: ns, create: true}]";
    assert_eq!(warned_below(template, rules), NONE);
    check_one(
        &warned_below("{name: a, maxapplications: 0}", ""),
        "maxapplications 0 of queue `root.a`",
    );
    let limit = "{name: a, limits: [{users: [ada], maxapplications: 0, maxresources: {vcore: 1}}]}";
    check_one(&warned_below(limit, ""), "maxapplications 0 of limit 1 of queue `root.a`");
    let template =
        "{name: p, parent: true, childtemplate: {maxapplications: 0, properties: {a: b}}}";
    check_one(&warned_below(template, rules), "maxapplications 0 of the child template");
}

#[test]
fn maxima_that_exclude_everything_warn() {
    for name in ["vcore", "memory", "pods"] {
        let max = format!("{{gpu: 1, {name}: 0}}");
        let queue = format!("{{name: a, resources: {{max: {max}}}}}");
        check_one(&warned_below(&queue, ""), &format!("max of queue `root.a` has {name} 0"));
        let limit = format!("{{name: a, limits: [{{users: [ada], maxresources: {max}}}]}}");
        check_one(&warned_below(&limit, ""), &format!("limit 1 of queue `root.a` has {name} 0"));
    }
    let others = "{name: a, resources: {max: {vcore: 1, nvidia.com/gpu: 0}}}";
    assert_eq!(warned_below(others, ""), NONE);
}

#[test]
fn redundant_or_empty_access_lists_warn() {
    let lists = "{name: a, submitacl: ada}, {name: b, submitacl: '*'}, {name: c, adminacl: ada}";
    check_one(
        &warned_below(lists, ""),
        "the `submitacl` of queue `root.a` has no effect: that of `root` is `*`",
    );
    let administered = "queues: [{name: root, adminacl: '*', queues: [{name: a, adminacl: ada}]}]";
    check_one(&warned(administered), "the `adminacl` of queue `root.a` has no effect");
    let closed = "queues: [{name: a, submitacl: ada}, {name: b}, {name: p, parent: true}, \
                  {name: q, adminacl: ada, queues: [{name: c}]}]";
    check_one(&warned(closed), "nobody may submit to queue `root.b`");
    check_one(
        &warned("queues: [{name: a}, {name: b}]"),
        "partition `default`: no queue has a `submitacl`",
    );
    let empty = warned("name: gpu, queues: []");
    assert!(empty[0].starts_with("partition `gpu`: no queue is a leaf"), "{empty:?}");
    assert_eq!(empty.len(), 2);
}

#[test]
fn rules_rejected_by_other_schedulers_warn() {
    let rule = "placementrules: [{name: user, create: true, parent: {name: fixed, value: P}}]";
    let queues = |flag: &str| format!("{{name: p, {flag}queues: [{{name: a}}]}}");
    check_one(
        &warned_below(&queues(""), rule),
        "rule 1 (`fixed->user`) goes on below `root.p`, which is a parent by the queues in it alone",
    );
    assert_eq!(warned_below(&queues("parent: true, "), rule), NONE);
    let root = "placementrules: [{name: user, create: true, parent: {name: fixed, value: root}}]";
    assert_eq!(warned_below(&queues(""), root), NONE);
    let tag = "{name: tag, value: ns, parent: {name: fixed, value: root.p.q}, create: true}";
    let deep = "{name: p, queues: [{name: q, queues: [{name: a}]}]}";
    check_one(&warned_below(deep, &format!("placementrules: [{tag}]")), "below `root.p.q`");
}

#[test]
fn unreachable_rules_warn() {
    let rules =
        |first: &str| format!("placementrules: [{{name: fixed, value: a{first}}}, {{name: user}}]");
    check_one(
        &warned_below("{name: a}", &rules("")),
        "rule 2 is never asked: rule 1 takes every application",
    );
    assert_eq!(warned_below("{name: a}", &rules(", filter: {users: [ada]}")), NONE);
    assert_eq!(warned_below("{name: b}", &rules(", create: true")), NONE, "it may not be there");
    let closed = format!("queues: [{{name: a, submitacl: ada}}], {}", rules(""));
    assert_eq!(warned(&closed), NONE);
}
