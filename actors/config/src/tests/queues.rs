//! Queues: names, resources, properties and access.

use monoceros_rules::values::resources::{Limits, Resources};

use super::*;

/// Returns a chain of queues below root, each with `maxapplications`, the first for root itself.
fn chain(counts: [u64; 4]) -> String {
    let [root, a, b, c] = counts;
    format!(
        "
partitions:
  - queues:
      - name: root
        maxapplications: {root}
        queues:
          - name: a
            maxapplications: {a}
            queues:
              - name: b
                maxapplications: {b}
                queues: [{{name: c, maxapplications: {c}}}]
"
    )
}

fn resources(guaranteed: &str, max: &str) -> String {
    format!("resources: {{guaranteed: {guaranteed}, max: {max}}}")
}

#[test]
fn queue_names_are_short_without_dots_or_spaces() {
    let named = |name: &str| below_root(&format!("{{name: \"{name}\"}}"));
    for name in ["a".repeat(64).as_str(), "a-b_c:d#e/f@g", "0"] {
        assert_eq!(codes(&named(name)), [""; 0], "{name}");
    }
    for name in ["a".repeat(65).as_str(), "a.b", "a$", "", " a", "ä", "a\\n"] {
        assert_eq!(codes(&named(name)), ["E_QUEUE_NAME"], "{name}");
    }
    assert_eq!(codes(&below_root("{parent: true}")), ["E_QUEUE_NAME"], "no name at all");
    assert!(only_error(&named("a.b")).contains("_dot_"));
}

#[test]
fn the_recovery_queue_is_not_for_configuring() {
    assert_eq!(codes(&below_root("{name: \"@Recovery@\"}")), ["E_QUEUE_NAME"]);
    assert_eq!(codes("partitions: [{queues: [{name: \"@recovery@\"}]}]"), ["E_QUEUE_NAME"]);
    let deeper = below_root("{name: a, queues: [{name: \"@recovery@\"}]}");
    assert_eq!(codes(&deeper), [""; 0], "only the path below root is taken");
}

#[test]
fn siblings_differ_by_more_than_case() {
    let text = below_root("{name: Dev}, {name: dev}");
    assert_eq!(codes(&text), ["E_QUEUE_DUP"]);
    let shown = only_error(&text);
    assert!(shown.contains("`dev`") && shown.contains("level 1"), "{shown}");
    assert_eq!(codes(&below_root("{name: a, queues: [{name: a}]}, {name: b}")), [""; 0]);
}

#[test]
fn paths_are_lower_case() {
    let configuration = parsed(&below_root("{name: Prod, queues: [{name: ETL}]}"));
    let leaf = queue(&configuration, "root.prod.etl");
    assert_eq!((&*leaf.name, &*leaf.path), ("etl", "root.prod.etl"));
}

#[test]
fn children_make_a_queue_a_parent() {
    let text = below_root("{name: a, parent: false, queues: [{name: b}]}, {name: c, parent: true}");
    let configuration = parsed(&text);
    assert!(!queue(&configuration, "root.a").is_leaf);
    assert!(queue(&configuration, "root.a.b").is_leaf);
    assert!(!queue(&configuration, "root.c").is_leaf);
}

#[test]
fn a_max_reaches_down_through_queues_that_set_none() {
    let text = below_root(
        "{name: a, resources: {max: {memory: 100}}, queues: [{name: b, queues: [{name: c, \
         resources: {max: {memory: 150}}}]}]}",
    );
    let errors = parse(&text).unwrap_err();
    assert_eq!(errors.reported[0].code, "E_MAX_GT_PARENT");
    let shown = errors.to_string();
    for part in ["`root.a.b.c`", "{memory: 150}", "{memory: 100}"] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn children_are_guaranteed_no_more_than_their_parent() {
    let guaranteed = |amount: &str| format!("resources: {{guaranteed: {amount}}}");
    let two = |parent: &str, child: &str| {
        below_root(&format!(
            "{{name: p, {parent}, queues: [{{name: a, {child}}}, {{name: b, {child}}}]}}"
        ))
    };
    for (parent, child, expected) in [
        (guaranteed("{memory: 10}"), guaranteed("{memory: 10}"), "E_CHILD_GUAR_GT_PARENT_GUAR"),
        (
            resources("{memory: 100}", "{memory: 100, vcores: 100}"),
            guaranteed("{memory: 50, vcores: 50}"),
            "",
        ),
        (
            resources("{memory: 20}", "{memory: 50, vcores: 33}"),
            guaranteed("{vcores: 30}"),
            "E_CHILD_GUAR_GT_MAX",
        ),
        (guaranteed("{memory: 0}"), guaranteed("{memory: 1}"), "E_CHILD_GUAR_GT_PARENT_GUAR"),
        (resources("{}", "{memory: 0}"), guaranteed("{memory: 1}"), "E_CHILD_GUAR_GT_MAX"),
    ] {
        let expected: Vec<&str> = [expected].into_iter().filter(|code| !code.is_empty()).collect();
        let mut codes = codes(&two(&parent, &child));
        // A child may also fail against its own effective maximum, which is another rule.
        codes.dedup();
        assert_eq!(codes, expected, "{parent} with {child}");
    }
}

#[test]
fn a_queue_counts_with_its_own_guarantee_only() {
    // `p` guarantees memory alone, so that the vcores of its child are not counted at `g`.
    let text = below_root(
        "{name: g, resources: {guaranteed: {memory: 10, vcores: 1}}, queues: [{name: p, resources: \
         {guaranteed: {memory: 10}}, queues: [{name: c, resources: {guaranteed: {vcores: 5}}}]}]}",
    );
    assert_eq!(codes(&text), [""; 0]);
    // Without its own guarantee, `p` counts with that of its children.
    let text = text.replace("{guaranteed: {memory: 10}}", "{}");
    assert_eq!(codes(&text), ["E_CHILD_GUAR_GT_PARENT_GUAR"]);
}

#[test]
fn the_sum_of_child_maxima_may_exceed_the_parent() {
    let child = "resources: {max: {memory: 10}}";
    let text = below_root(&format!(
        "{{name: p, {child}, queues: [{{name: a, {child}}}, {{name: b, {child}}}]}}"
    ));
    assert_eq!(codes(&text), [""; 0]);
}

#[test]
fn more_guaranteed_than_the_max_is_refused() {
    let text =
        below_root(&format!("{{name: a, {}}}", resources("{memory: 2, gpu: 1}", "{memory: 1}")));
    let shown = only_error(&text);
    for part in ["`root.a`", "{gpu: 1, memory: 2}", "{memory: 1}", "[E_GUAR_GT_MAX]"] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn a_max_of_zeros_alone_sets_no_quota_and_warns() {
    let configuration = parsed(&below_root("{name: a, resources: {max: {memory: 0}}}"));
    assert_eq!(queue(&configuration, "root.a").max, None);
    assert_eq!(configuration.warnings.len(), 1);
    assert_eq!(configuration.warnings[0].path, "partitions[0].queues[0].queues[0].resources.max");

    let configuration = parsed(&below_root("{name: a, resources: {max: {memory: 0, vcore: 10}}}"));
    let max = Limits::of(&[("memory", 0), ("vcore", 10_000)]);
    assert_eq!(queue(&configuration, "root.a").max, Some(max));
}

#[test]
fn a_guarantee_of_zeros_alone_is_none_and_warns() {
    let text = below_root(&format!(
        "{{name: a, {}}}, {{name: b, {}}}",
        resources("{memory: 0}", "{}"),
        resources("{gpu: 1, memory: 0}", "{}")
    ));
    let configuration = parsed(&text);
    assert_eq!(queue(&configuration, "root.a").guaranteed, None);
    let guaranteed = Resources::of(&[("gpu", 1), ("memory", 0)]);
    assert_eq!(queue(&configuration, "root.b").guaranteed, Some(guaranteed));
    let [warning] = &*configuration.warnings else { panic!("one warning") };
    assert_eq!(warning.path, "partitions[0].queues[0].queues[0].resources.guaranteed");
    assert!(warning.message.starts_with("guaranteed of queue `root.a` lists only zeros"));
}

#[test]
fn every_bad_quantity_names_queue_type_and_text() {
    let text = below_root(&format!(
        "{{name: a, {}}}",
        resources("{memory: 4K, vcore: 0.5}", "{memory: 99E}")
    ));
    let errors = parse(&text).unwrap_err();
    let codes: Vec<&str> = errors.reported.iter().map(|error| error.code).collect();
    assert_eq!(codes, ["E_QTY_SUFFIX", "E_QTY_INVALID", "E_QTY_OVERFLOW"]);
    for (error, text) in errors.reported.iter().zip(["`4K`", "`0.5`", "`99E`"]) {
        assert!(error.message.contains("`root.a`") && error.message.contains(text), "{error}");
    }
    assert!(errors.reported[2].path.ends_with(".resources.max.memory"));
}

#[test]
fn a_resource_without_a_name_is_refused() {
    let queue = format!("{{name: a, {}}}", resources("{'': 4}", "{memory: 4, '': 4}"));
    let errors = parse(&below_root(&queue)).unwrap_err();
    let told: Vec<_> = errors.reported.iter().map(|error| (error.code, &*error.message)).collect();
    let [guaranteed, max] =
        ["guaranteed", "max"].map(|of| format!("{of} of queue `root.a`: a resource has no name"));
    assert_eq!(told, [("E_CONF_PARSE", &*guaranteed), ("E_CONF_PARSE", &*max)]);
}

#[test]
fn application_limits_narrow_on_the_way_down() {
    assert_eq!(codes(&chain([4, 3, 2, 1])), [""; 0]);
    assert_eq!(codes(&chain([1, 2, 3, 4])), ["E_MAXAPPS_CHILD_LARGER"; 3]);
    assert_eq!(codes(&chain([4, 3, 2, 0])), ["E_MAXAPPS_CHILD_UNSET"]);
    assert_eq!(codes(&chain([0, 3, 2, 1])), [""; 0]);
    let shown = parse(&chain([4, 3, 5, 1])).unwrap_err().to_string();
    for part in ["`root.a.b`", "5", "`root.a`", "3"] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn a_parent_hands_its_sort_policy_to_leaves() {
    let configuration = parsed(&below_root(
        "{name: p, properties: {application.sort.policy: fair}, queues: [{name: a}, {name: b, \
         properties: {application.sort.policy: fifo}}]}, {name: q, properties: \
         {application.sort.policy: fifo}, queues: [{name: c}]}",
    ));
    for (path, policy) in [
        ("root", ApplicationSortPolicy::Fair),
        ("root.p", ApplicationSortPolicy::Fair),
        ("root.p.a", ApplicationSortPolicy::Fair),
        ("root.p.b", ApplicationSortPolicy::Fifo),
        ("root.q", ApplicationSortPolicy::Fair),
        ("root.q.c", ApplicationSortPolicy::Fifo),
    ] {
        assert_eq!(queue(&configuration, path).settings.sort_policy, policy, "{path}");
    }
}

#[test]
fn priority_offset_and_policy_are_not_inherited() {
    let configuration = parsed(&below_root(
        "{name: p, properties: {priority.offset: 100, priority.policy: fence, \
         application.sort.priority: Disabled, owner: ops}, queues: [{name: a}]}",
    ));
    let parent = queue(&configuration, "root.p").settings;
    assert_eq!((parent.priority_offset, parent.priority_policy), (100, PriorityPolicy::Fence));
    let child = queue(&configuration, "root.p.a");
    assert_eq!(child.settings.priority_offset, 0);
    assert_eq!(child.settings.priority_policy, PriorityPolicy::Default);
    assert!(!parent.priority_sort && !child.settings.priority_sort, "this one is inherited");
    let shown: Vec<String> = child.properties.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let expected = [
        "application.sort.priority=Disabled",
        "owner=ops",
        "priority.offset=0",
        "priority.policy=default",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_queue_overrides_inherited_settings() {
    let configuration = parsed(&below_root(
        "{name: p, properties: {priority.offset: 1, a: x, b: x}, queues: [{name: c, properties: \
         {priority.offset: -7, b: y}}]}",
    ));
    let child = queue(&configuration, "root.p.c");
    assert_eq!(child.settings.priority_offset, -7);
    assert_eq!(child.properties["a"], "x");
    assert_eq!(child.properties["b"], "y");
}

#[test]
fn bad_property_values_warn_and_use_the_default() {
    let settings = |key: &str, value: &str| {
        let text = below_root(&format!("{{name: a, properties: {{{key}: {value}}}}}"));
        let configuration = parsed(&text);
        (queue(&configuration, "root.a").settings, configuration.warnings.len())
    };
    for (value, expected, n_warnings) in [
        ("fifo", ApplicationSortPolicy::Fifo, 0),
        ("fair", ApplicationSortPolicy::Fair, 0),
        ("stateaware", ApplicationSortPolicy::Fifo, 1),
        ("", ApplicationSortPolicy::Fifo, 0),
        ("Fair", ApplicationSortPolicy::Fifo, 1),
    ] {
        let (settings, warnings) = settings("application.sort.policy", value);
        assert_eq!((settings.sort_policy, warnings), (expected, n_warnings), "`{value}`");
    }
    for (value, expected, n_warnings) in
        [("enabled", true, 0), ("DISABLED", false, 0), ("off", true, 1), ("", true, 1)]
    {
        let (settings, warnings) = settings("application.sort.priority", value);
        assert_eq!((settings.priority_sort, warnings), (expected, n_warnings), "`{value}`");
    }
    for (value, expected, n_warnings) in [
        ("default", PriorityPolicy::Default, 0),
        ("FENCE", PriorityPolicy::Fence, 0),
        ("", PriorityPolicy::Default, 0),
        ("wall", PriorityPolicy::Default, 1),
    ] {
        let (settings, warnings) = settings("priority.policy", value);
        assert_eq!((settings.priority_policy, warnings), (expected, n_warnings), "`{value}`");
    }
    for (value, expected, n_warnings) in [
        ("5", 5, 0),
        ("+5", 5, 0),
        ("-2147483648", i32::MIN, 0),
        ("2147483648", 0, 1),
        ("high", 0, 1),
        ("1.5", 0, 1),
    ] {
        let (settings, warnings) = settings("priority.offset", value);
        assert_eq!((settings.priority_offset, warnings), (expected, n_warnings), "`{value}`");
    }
}

#[test]
fn unknown_properties_are_kept_and_a_near_miss_warns() {
    let text = below_root("{name: a, properties: {team: blue, application.sort.polcy: fair}}");
    let configuration = parsed(&text);
    assert_eq!(queue(&configuration, "root.a").properties["team"], "blue");
    assert_eq!(configuration.warnings.len(), 1);
    assert!(configuration.warnings[0].message.contains("`application.sort.policy`?"));
}

#[test]
fn access_lists_are_checked_in_place() {
    let text = below_root("{name: a, submitacl: \"u g x\", adminacl: \"u  g\"}");
    let errors = parse(&text).unwrap_err();
    let found: Vec<(&str, &str)> =
        errors.reported.iter().map(|e| (e.code, e.path.rsplit('.').next().unwrap())).collect();
    assert_eq!(found, [("E_ACL_SPACES", "adminacl"), ("E_ACL_SPACES", "submitacl")]);
    assert!(errors.reported[1].message.contains("`u g x`"));

    let configuration = parsed(&below_root("{name: a, submitacl: \"#u1,u2\", adminacl: \" g\"}"));
    let leaf = queue(&configuration, "root.a");
    assert!(leaf.submit_acl.allows("u2", &[""; 0]) && leaf.admin_acl.allows("x", &["g"]));
    assert!(configuration.warnings[0].message.contains("`#u1`"));
}
