//! Documents, partitions and roots.

use super::*;

#[test]
fn the_default_configuration_creates_a_queue_per_namespace() {
    let configuration = parsed(DEFAULT);
    assert_eq!(configuration.warnings, []);
    let [partition] = &*configuration.partitions else { panic!("one partition") };
    assert_eq!(&*partition.name, "default");
    let [rule, last] = &*partition.placement else { panic!("two rules") };
    let by_namespace = RuleConfig {
        name: "tag".to_owned(),
        value: "namespace".to_owned(),
        create: true,
        ..RuleConfig::default()
    };
    assert_eq!(*rule, by_namespace);
    let for_others = RuleConfig {
        name: "fixed".to_owned(),
        value: "default".to_owned(),
        create: true,
        ..RuleConfig::default()
    };
    assert_eq!(*last, for_others);
    assert!(partition.root.children.is_empty() && !partition.root.is_leaf);
    assert!(partition.root.submit_acl.allows("anyone", &[""; 0]));
}

/// The scenario `an_empty_text_means_the_default_configuration` tests an update with an empty text.
#[test]
fn empty_text_has_no_partitions() {
    assert_eq!(parsed("").partitions, []);
}

#[test]
fn text_without_a_partition_is_refused() {
    for text in [
        "# only a comment\n",
        "---\n...\n",
        "{}",
        "checksum: AB",
        "partitions:",
        "partitions: []",
        "\n",
    ] {
        assert_eq!(codes(text), ["E_NO_PARTITIONS"], "{text:?}");
    }
}

#[test]
fn a_partition_needs_a_possibly_empty_queue_list() {
    assert_eq!(codes("partitions: [{name: default}]"), ["E_NO_QUEUES"]);
    assert_eq!(codes("partitions: [{queues: null}]"), ["E_NO_QUEUES"]);
    assert_eq!(codes("partitions: [null]"), ["E_NO_QUEUES"]);
    let root = &parsed("partitions: [{queues: []}]").partitions[0].root;
    assert_eq!((&*root.path, root.is_leaf, root.children.len()), ("root", false, 0));
}

#[test]
fn partition_names_differ_by_more_than_case() {
    for (first, second) in
        [("default", "DEFAULT"), ("\"\"", "default"), ("part1", "PART1"), ("null", "Default")]
    {
        let text =
            format!("partitions: [{{name: {first}, queues: []}}, {{name: {second}, queues: []}}]");
        assert_eq!(codes(&text), ["E_PARTITION_DUP"], "{first} {second}");
    }
    let unnamed = "partitions: [{queues: []}, {name: default, queues: []}]";
    assert!(only_error(unnamed).contains("`default`"));
}

#[test]
fn default_is_lower_case_and_other_names_keep_their_case() {
    let configuration =
        parsed("partitions: [{name: DeFault, queues: []}, {name: GPU, queues: []}]");
    let names: Vec<&str> = configuration.partitions.iter().map(|p| &*p.name).collect();
    assert_eq!(names, ["default", "GPU"]);
}

#[test]
fn a_partition_name_has_no_brackets() {
    for name in ["[rm]p", "p]", "a[b"] {
        let text = format!("partitions: [{{name: \"{name}\", queues: []}}]");
        assert_eq!(codes(&text), ["E_PARTITION_IDENT"], "{name}");
    }
}

#[test]
fn an_unknown_key_is_refused_wherever_it_stands() {
    for text in [
        "partition: []\npartitions: [{queues: []}]",
        "partitions: [{queues: [], statedumpfilepath: /tmp}]",
        "partitions: [{queues: [], Name: x}]",
        "partitions: [{queues: [], nodesortpolicy: {kind: fair}}]",
        "partitions: [{queues: [], preemption: {quota: true}}]",
        "partitions: [{queues: [], usergroupresolver: {name: os}}]",
        "partitions: [{queues: [], limits: [{users: [a], user: [b], maxapplications: 1}]}]",
        &below_root("{name: a, childtemplate: {maxapps: 5}}"),
        &below_root("{name: a, maxapps: 5}"),
        &below_root("{name: a, resources: {maximum: {}}}"),
    ] {
        assert_eq!(codes(text), ["E_CONF_PARSE"], "{text}");
    }
    let shown = only_error(&below_root("{name: a, maxApplication: 5}"));
    assert!(shown.contains("`maxApplication`") && shown.contains("`maxapplications`?"), "{shown}");
}

#[test]
fn preemption_flags_and_the_resolver_are_mappings() {
    let flags = |text: &str| {
        parsed(&format!("partitions: [{{queues: [], preemption: {text}}}]"))
            .partitions
            .remove(0)
            .preemption
    };
    for (text, enabled, quota) in [
        ("null", true, false),
        ("{}", true, false),
        ("{enabled: null}", true, false),
        ("{enabled: true, quotapreemptionenabled: null}", true, false),
        ("{enabled: false}", false, false),
        ("{enabled: off, quotapreemptionenabled: on}", false, true),
    ] {
        assert_eq!(flags(text), PreemptionFlags { enabled, quota }, "{text}");
    }
    for wrong in [
        "preemption: {enabled: maybe}",
        "preemption: {quotapreemptionenabled: 1}",
        "preemption: true",
        "preemption: [enabled]",
        "usergroupresolver: os",
        "usergroupresolver: {type: [os]}",
    ] {
        let text = format!("partitions: [{{queues: [], {wrong}}}]");
        assert_eq!(codes(&text), ["E_CONF_PARSE"], "{wrong}");
    }
}

#[test]
fn an_unknown_resolver_warns() {
    let read = |resolver: &str| {
        let mut read = parsed(&format!("partitions: [{{{OPEN}, usergroupresolver: {resolver}}}]"));
        let warnings: Vec<String> = read.warnings.iter().map(|w| w.message.clone()).collect();
        (read.partitions.remove(0).resolver, warnings)
    };
    for (text, name) in [
        ("null", ""),
        ("{}", ""),
        ("{type: null}", ""),
        ("{type: os}", "os"),
        ("{type: ldap}", "ldap"),
        ("{type: test}", "test"),
    ] {
        assert_eq!(read(text), (name.to_owned(), vec![]), "{text}");
    }
    let (name, warnings) = read("{type: LDAP}");
    assert_eq!(name, "LDAP");
    assert!(warnings[0].contains("`LDAP`") && warnings[0].contains("did you mean `ldap`?"));
}

#[test]
fn node_order_needs_a_known_type_and_valid_weights() {
    let order = |policy: &str| format!("partitions: [{{queues: [], nodesortpolicy: {policy}}}]");
    assert_eq!(codes(&order("fair")), ["E_CONF_PARSE"], "a plain text is no mapping");
    for policy in ["Fair", "BINPACKING", "random"] {
        let text = order(&format!("{{type: {policy}}}"));
        assert_eq!(codes(&text), ["E_NODESORT_POLICY"]);
        assert!(only_error(&text).contains(policy));
    }
    let negative = order("{type: fair, resourceweights: {memory: -1}}");
    assert_eq!(codes(&negative), ["E_NODESORT_WEIGHT"]);
    assert!(only_error(&negative).contains("`memory`"));
    for weight in ["heavy", ".nan", "inf", "[1]", "null"] {
        let text = order(&format!("{{resourceweights: {{memory: {weight}}}}}"));
        assert_eq!(codes(&text), ["E_CONF_PARSE"], "{weight}");
    }

    let read = |policy: &str| parsed(&order(policy)).partitions.remove(0).node_order;
    let even = vec![("memory".to_owned(), 1.0), ("vcore".to_owned(), 1.0)];
    let fair = NodeOrder { policy: NodeSortPolicy::Fair, weights: even.clone() };
    for policy in ["null", "{}", "{type: \"\"}", "{type: fair, resourceweights: {}}"] {
        assert_eq!(read(policy), fair, "{policy}");
    }
    let vcore_only =
        NodeOrder { policy: NodeSortPolicy::BinPacking, weights: vec![("vcore".to_owned(), 4.0)] };
    assert_eq!(read("{type: binpacking, resourceweights: {vcore: 4}}"), vcore_only);
}

#[test]
fn the_root_has_no_resources_of_its_own() {
    for resources in ["{max: {}}", "{guaranteed: {}}", "{max: {memory: 1}}"] {
        for name in ["root", "ROOT"] {
            let text =
                format!("partitions: [{{queues: [{{name: {name}, resources: {resources}}}]}}]");
            assert_eq!(codes(&text), ["E_ROOT_RESOURCES"], "{resources}");
        }
    }
    let neither = "partitions: [{queues: [{name: root, resources: {max: null}}]}]";
    assert_eq!(codes(neither), [""; 0]);
}

#[test]
fn a_single_top_queue_is_put_below_root() {
    let configuration = parsed("partitions: [{queues: [{name: prod, submitacl: \"*\"}]}]");
    let root = &configuration.partitions[0].root;
    assert!(!root.is_leaf);
    assert!(!root.submit_acl.allows("anyone", &[""; 0]), "an inserted root grants nothing");
    assert!(queue(&configuration, "root.prod").is_leaf);
}

#[test]
fn root_beside_another_queue_becomes_its_sibling_and_warns() {
    let configuration = parsed("partitions: [{queues: [{name: root}, {name: a}]}]");
    assert_eq!(&*queue(&configuration, "root.root").path, "root.root");
    assert_eq!(&*queue(&configuration, "root.a").path, "root.a");
    assert!(configuration.warnings.iter().any(|it| it.message.contains("`root.root`")));
}

#[test]
fn root_in_any_case_is_a_parent() {
    let configuration =
        parsed("partitions: [{queues: [{name: Root, parent: no, maxapplications: 7}]}]");
    let root = &configuration.partitions[0].root;
    assert_eq!((&*root.name, &*root.path, root.is_leaf), ("root", "root", false));
    assert_eq!(root.max_applications, 7);
}

#[test]
fn duplicate_keys_are_refused() {
    let text = below_root("{name: a, name: b}");
    assert_eq!(codes(&text), ["E_CONF_PARSE"]);
    assert!(only_error(&text).contains("`name` is here twice"));
    assert_eq!(codes(&below_root("{name: a, properties: {x: 1, x: 1}}")), ["E_CONF_PARSE"]);
}

#[test]
fn booleans_have_the_spellings_of_both_yaml_versions() {
    let is_leaf = |word: &str| {
        let configuration = parsed(&below_root(&format!("{{name: a, parent: {word}}}")));
        queue(&configuration, "root.a").is_leaf
    };
    for word in ["true", "True", "yes", "YES", "on", "On", "y", "Y"] {
        assert!(!is_leaf(word), "{word}");
    }
    for word in ["false", "FALSE", "no", "No", "off", "OFF", "n", "N", "null", ""] {
        assert!(is_leaf(word), "{word}");
    }
    for word in ["maybe", "1", "0", "t", "yES", "[true]", "{}"] {
        let text = below_root(&format!("{{name: a, parent: {word}}}"));
        assert_eq!(codes(&text), ["E_CONF_PARSE"], "{word}");
    }
}

#[test]
fn counts_are_whole_and_not_negative() {
    let count = |text: &str| below_root(&format!("{{name: a, maxapplications: {text}}}"));
    for (text, expected, n_warnings) in [
        ("5", 5, 0),
        // Valid, but probably not intended.
        ("0", 0, 1),
        ("null", 0, 0),
        ("18446744073709551615", u64::MAX, 0),
        ("1_000", 1000, 0),
        ("0x10", 16, 0),
        ("0o10", 8, 0),
        ("007", 7, 0),
        // YAML 1.1 reads this as octal, which is probably not intended.
        ("010", 8, 1),
    ] {
        let configuration = parsed(&count(text));
        assert_eq!(queue(&configuration, "root.a").max_applications, expected, "{text}");
        assert_eq!(configuration.warnings.len(), n_warnings, "{text}");
    }
    for text in ["-1", "1.5", "1e3", "08", "many", "18446744073709551616", "[1]", "\"\""] {
        assert_eq!(codes(&count(text)), ["E_CONF_PARSE"], "{text}");
    }
}

#[test]
fn scalars_keep_their_text() {
    let text = below_root(
        "{name: 2024, properties: {a: 1e3, b: null, c: 0x1F, d: \"null\", e: yes, f: ~}}",
    );
    let configuration = parsed(&text);
    let properties = &queue(&configuration, "root.2024").properties;
    let values: Vec<&str> = properties.values().map(String::as_str).collect();
    assert_eq!(values, ["1e3", "", "0x1F", "null", "yes", ""]);
    assert_eq!(codes(&below_root("{name: a, resources: {max: {memory: 1e3}}}")), ["E_QTY_INVALID"]);
    assert_eq!(codes(&below_root("{name: a, resources: {max: {memory: }}}")), ["E_QTY_INVALID"]);
}

#[test]
fn a_value_of_the_wrong_kind_is_reported_once() {
    for text in [
        "- partitions",
        "just text",
        "partitions: {}",
        "partitions: [text]",
        "partitions: [{name: [a], queues: []}]",
        "partitions: [{queues: {}}]",
        "partitions: [{queues: root}]",
        &below_root("{name: {}}"),
        &below_root("[a]"),
        &below_root("{name: a, resources: 5}"),
        &below_root("{name: a, resources: {max: [memory]}}"),
        &below_root("{name: a, resources: {max: {memory: [5]}}}"),
        &below_root("{name: a, properties: text}"),
        &below_root("{name: a, submitacl: [a, b]}"),
    ] {
        assert_eq!(codes(text), ["E_CONF_PARSE"], "{text}");
    }
}

#[test]
fn further_documents_are_reported_and_not_read() {
    let configuration = parsed(&format!("partitions: [{{{OPEN}}}]\n---\nnonsense: [\n"));
    assert_eq!(configuration.warnings.len(), 1);
    assert_eq!(configuration.warnings[0].line, 2);
}
