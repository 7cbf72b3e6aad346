//! Hostile texts: none may cause a panic, or work out of proportion to its length.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

const VALID: &str = "
partitions:
  - name: default
    nodesortpolicy: {type: binpacking, resourceweights: {vcore: 4.0, memory: 1.0}}
    preemption: {enabled: false, quotapreemptionenabled: no}
    usergroupresolver: {type: os}
    placementrules:
      - name: tag
        value: namespace
        create: true
        filter: {type: deny, users: [\"sys.*\"], groups: [ops, dev]}
        parent: {name: fixed, value: root.prod, parent: }
      - name: provided
    limits:
      - {limit: all, users: [bob, \"*\"], maxresources: {memory: 4Gi}, maxapplications: 9}
    queues:
      - name: root
        submitacl: '*'
        properties: &shared {application.sort.policy: fair}
        queues:
          - name: prod
            parent: true
            maxapplications: 10
            adminacl: alice,bob ops
            childtemplate: {maxapplications: 3, resources: {max: {vcore: 500m}}, properties: *shared}
            resources:
              guaranteed: {vcore: 2, memory: 1Gi}
              max: {vcore: 10, memory: 4Gi}
            limits: [{limit: few, groups: [dev, \"*\"], maxresources: {memory: 1Gi, gpu: 0}}]
            queues:
              - name: etl
                maxapplications: 5
                properties: *shared
";

#[test]
fn the_text_that_is_mutated_below_is_valid() {
    assert_eq!(parsed(VALID).warnings, []);
    assert_eq!(queue(&parsed(VALID), "root.prod.etl").properties.len(), 1, "by its alias");
}

#[test]
fn deep_nesting_is_refused() {
    for opening in ["[", "{a: ", "- ", "? "] {
        assert_eq!(codes(&opening.repeat(100_000)), ["E_CONF_PARSE"], "{opening}");
    }
    let nested = |levels: usize| {
        let open = "{name: a, queues: [".repeat(levels);
        below_root(&format!("{open}{}", "]}".repeat(levels)))
    };
    assert_eq!(codes(&nested(50)), [""; 0]);
    assert_eq!(codes(&nested(100)), ["E_CONF_PARSE"]);
    let rules = |levels: usize| {
        let open = "{name: user, create: true, parent: ".repeat(levels);
        let rule = format!("{open}{{name: user, create: true}}{}", "}".repeat(levels));
        format!("partitions: [{{queues: [], placementrules: [{rule}]}}]")
    };
    assert_eq!(codes(&rules(100)), [""; 0]);
    assert_eq!(codes(&rules(200)), ["E_CONF_PARSE"]);
}

#[test]
fn aliases_have_bounds_and_no_cycles() {
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    let mut towers = format!("a0: &a0 {}x{}\n", "[".repeat(50), "]".repeat(50));
    for level in 1..30 {
        let below = level - 1;
        let many = format!("*a{below}, ").repeat(10);
        writeln!(laughs, "a{level}: &a{level} [{many}]").unwrap();
        writeln!(towers, "a{level}: &a{level} [[[[[*a{below}]]]]]").unwrap();
    }
    for text in [&*laughs, &*towers, "a: &a [*a]", "a: *nobody"] {
        assert_eq!(codes(text).last(), Some(&"E_CONF_PARSE"));
    }
    assert!(parse(&laughs).unwrap_err().to_string().contains("aliases repeat more than"));
    assert!(parse(&towers).unwrap_err().to_string().contains("deep by this alias"));
}

#[test]
fn neither_merge_keys_nor_long_texts_grow_without_bound() {
    let keys: Vec<String> = (0..500).map(|key| format!("k{key}: 1")).collect();
    let mut merges = format!("a: &a {{{}}}\nb:\n", keys.join(", "));
    merges.push_str(&"- <<: *a\n".repeat(200));
    let mut onion = "x".to_owned();
    let mut spiral = "x: &a0 {k: 1}\n".to_owned();
    for level in 1..60 {
        onion = format!("&o{level} {{<<: {{k{level}: {onion}}}}}");
        let below = level - 1;
        writeln!(spiral, "y{level}: &a{level} {{<<: [*a{below}, *a{below}], k{level}: 1}}")
            .unwrap();
    }
    let long = "x".repeat(100_000);
    let texts = format!("a: &a {long}\nb: [{}]", "*a, ".repeat(200));
    let long_keys = format!("a: &a {{{long}: 1}}\nb:\n{}", "- <<: *a\n".repeat(200));
    for text in [merges, texts, long_keys] {
        assert!(parse(&text).unwrap_err().to_string().contains(" repeat more than "));
    }
    for text in [onion, spiral] {
        let shown = parse(&text).unwrap_err().to_string();
        assert!(!shown.contains("repeat") && !shown.contains("deep"), "{shown}");
    }
    let deep = format!("{}x{}", "{<<: ".repeat(200), "}".repeat(200));
    assert!(parse(&deep).unwrap_err().to_string().contains("levels deep"));
}

#[test]
fn messages_are_one_bounded_line() {
    let long = "x".repeat(100_000);
    for text in [
        below_root("{name: \"a\\nb\\u0007\"}"),
        below_root("{name: a, submitacl: \"u  \\n\"}"),
        below_root("{name: a, resources: {max: {\"mem\\nory\": 5}}, maxapplications: \"\\r\"}"),
        format!("partitions: [{{queues: [], \"{long}\": 5}}]"),
        below_root(&format!("{{name: {long}}}")),
    ] {
        for error in parse(&text).unwrap_err().reported {
            let message = &error.message;
            assert!(!message.contains(char::is_control), "{message:?}");
            assert!(message.chars().count() <= 2_001, "{} characters", message.len());
            assert!(error.path.chars().count() <= 300, "{}", error.path);
        }
    }
}

/// Generates pieces that mean something in a configuration, to get past the first check.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "partitions",
        "queues",
        "name",
        "root",
        "resources",
        "max",
        "guaranteed",
        "memory",
        "vcore",
        "properties",
        "priority.offset",
        "preemption.delay",
        "submitacl",
        "placementrules",
        "parent",
        "filter",
        "value",
        "fixed",
        "create",
        "limits",
        "limit",
        "users",
        "groups",
        "maxresources",
        "maxapplications",
        "childtemplate",
        "preemption",
        "enabled",
        "usergroupresolver",
        "type",
        "bob",
        "\"*\"",
        "[(",
        ": ",
        ":",
        "- ",
        "\n",
        "\n  ",
        "\n      ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "&a ",
        "*a",
        "<<",
        "<<: ",
        "<<: *a",
        "!t ",
        "!!str ",
        "!!int ",
        "!!map ",
        "!!seq ",
        "!!null ",
        "null",
        "~",
        "'",
        "\"",
        "|\n",
        ">\n",
        "# ",
        "---\n",
        "...\n",
        "? ",
        "%",
        "\t",
        "5",
        "4Gi",
        "-1",
        "é",
        "\u{feff}",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_text_is_read_or_refused(text in "\\PC{0,80}") {
        let _ = parse(&text);
    }

    #[test]
    fn arbitrary_pieces_are_read_or_refused(pieces in prop::collection::vec(piece(), 0..40)) {
        let _ = parse(&pieces.concat());
    }

    #[test]
    fn a_mutated_configuration_is_read_or_refused(
        cut in any::<prop::sample::Index>(),
        length in 0..12_usize,
        pieces in prop::collection::vec(piece(), 0..4),
    ) {
        let start = cut.index(VALID.len());
        let end = (start + length).min(VALID.len());
        let text = format!("{}{}{}", &VALID[..start], pieces.concat(), &VALID[end..]);
        match parse(&text) {
            Ok(configuration) => prop_assert!(!configuration.partitions.is_empty()),
            Err(errors) => {
                prop_assert!(!errors.reported.is_empty());
                let n_lines = text.lines().count() + 1;
                for error in &errors.reported {
                    prop_assert!((1..=n_lines).contains(&error.line) && error.column > 0, "{}", error);
                }
            }
        }
    }
}

/// Generates a valid tree of queues and its text. Each queue has the maxima of its parent less one,
/// so that everything below fits.
fn tree(depth: u32) -> impl Strategy<Value = Generated> {
    let leaf = (any::<bool>(), 0..4_u32, any::<bool>(), any::<bool>())
        .prop_map(|parts| Generated { parts, children: Vec::new() });
    leaf.prop_recursive(depth, 24, 3, |below| {
        let parts = (any::<bool>(), 0..4_u32, any::<bool>(), any::<bool>());
        (parts, prop::collection::vec(below, 0..4))
            .prop_map(|(parts, children)| Generated { parts, children })
    })
}

#[derive(Clone, Debug)]
struct Generated {
    /// Which settings the queue has: a max, the number of limited users, a limit for all others, a
    /// template.
    parts: (bool, u32, bool, bool),
    children: Vec<Generated>,
}

impl Generated {
    /// Writes the queue in flow style, with at most `most` of everything.
    fn write(&self, name: &str, most: u32, text: &mut String) {
        let (has_max, n_users, has_wildcard, has_template) = self.parts;
        write!(text, "{{name: {name}, maxapplications: {most}").unwrap();
        if has_max && name != "root" {
            // Three children below have at most this guarantee together.
            let guaranteed = 3_u32.pow(most / 10);
            write!(
                text,
                ", resources: {{guaranteed: {{memory: {guaranteed}}}, max: {{memory: {most}Gi}}}}"
            )
            .unwrap();
        }
        if n_users > 0 || has_wildcard {
            let mut users: Vec<String> = (0..n_users).map(|n| format!("u{n}")).collect();
            users.extend(has_wildcard.then(|| "\"*\"".to_owned()));
            let users = users.join(", ");
            write!(text, ", limits: [{{limit: {name}, users: [{users}], groups: [g, \"*\"], maxapplications: {most}, maxresources: {{memory: {most}Gi}}}}]").unwrap();
        }
        if has_template {
            write!(text, ", childtemplate: {{maxapplications: {most}}}").unwrap();
        }
        text.push_str(", queues: [");
        for (number, child) in self.children.iter().enumerate() {
            text.push_str(if number == 0 { "" } else { ", " });
            child.write(&format!("Q{number}"), most - 10, text);
        }
        text.push_str("]}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn valid_texts_survive_a_round_trip_through_the_shown_form(
        tree in tree(5)
    ) {
        let mut root = String::new();
        tree.write("root", 90, &mut root);
        let text = format!("partitions: [{{queues: [{root}]}}]");
        let first = parse(&text).map_err(|errors| TestCaseError::fail(format!("{errors}\n{text}")))?;
        let again = super::shown::yaml_of(&first.shown);
        let second = parse(&again).map_err(|errors| TestCaseError::fail(format!("{errors}\n{again}")))?;
        prop_assert_eq!(&second.partitions, &first.partitions);
        prop_assert_eq!(&second.shown.partitions, &first.shown.partitions);
    }

    #[test]
    fn one_fault_in_a_valid_text_is_one_error(tree in tree(4), fault in 0..4_usize) {
        let (code, queue) = [
            ("E_QUEUE_NAME", "{name: a$, maxapplications: 1}"),
            ("E_QTY_INVALID", "{name: x, maxapplications: 1, resources: {max: {memory: 1.5}}}"),
            ("E_MAXAPPS_CHILD_LARGER", "{name: x, maxapplications: 91}"),
            ("E_LIMIT_EMPTY", "{name: x, maxapplications: 1, limits: [{groups: [other-than-all]}]}"),
        ][fault];
        let mut root = String::new();
        let open = Generated { parts: (false, 0, false, false), children: tree.children };
        open.write("root", 90, &mut root);
        let root = root.strip_suffix("]}").unwrap();
        let comma = if root.ends_with('[') { "" } else { ", " };
        let text = format!("partitions: [{{queues: [{root}{comma}{queue}]}}]}}]");
        prop_assert_eq!(codes(&text), [code], "{}", text);
    }
}

/// Each queue has a copy of what it inherits, so that a text of 130 KB could need gigabytes.
#[test]
fn properties_that_many_queues_inherit_have_bounds() {
    let config = |n_properties: usize, n_leaves: usize| {
        let properties: Vec<_> = (0..n_properties).map(|n| format!("p{n:05}: value")).collect();
        let leaves: Vec<_> = (0..n_leaves).map(|n| format!("{{name: q{n}}}")).collect();
        format!(
            "partitions: [{{name: default, queues: [{{name: root, properties: {{{}}}, queues: [{}]}}]}}]",
            properties.join(", "),
            leaves.join(", ")
        )
    };
    let reason = |text: &str| parse(text).unwrap_err().to_string();
    parse(&config(5_000, 100)).unwrap();
    let many = reason(&config(5_000, 2_000));
    assert!(many.contains("E_PROPERTIES_BYTES"), "{many}");
    assert!(many.contains("root.q304` and those before it have 16830000 bytes"), "{many}");
    let large = reason(&config(6_000, 1));
    assert!(large.contains("queue `root` has 66000 bytes of properties"), "{large}");
    assert_eq!(large.lines().count(), 1, "{large}");
}

#[test]
fn texts_are_bounded_and_the_first_faults_listed() {
    let reason = |text: &str| parse(text).unwrap_err().to_string();
    let long = format!("partitions: [] # {}", "x".repeat(8 << 20));
    assert!(reason(&long).contains("at most 8388608 bytes; this one has 8388625"));
    let many = format!("partitions: [{}]", "x,".repeat(500_000));
    assert!(reason(&many).contains("at most 500000 values"));

    // The first errors are listed in order, the rest are counted.
    let faults = format!("partitions: [{}]", "x,".repeat(300));
    let errors = parse(&faults).unwrap_err();
    assert_eq!((errors.reported.len(), errors.n_more), (200, 100));
    assert_eq!(errors.reported[199].path, "partitions[199]");
    assert!(errors.to_string().ends_with("\nand 100 more errors, which are left out"));

    let listed = "{name: user, filter: {type: allow, users: ['a!', b]}}, ".repeat(300);
    let warned = format!("partitions: [{{queues: [], placementrules: [{listed}]}}]");
    let warnings = parse(&warned).unwrap().warnings;
    assert_eq!(warnings.len(), 201);
    assert!(warnings[200].message.contains("102 more warnings"), "{}", warnings[200].message);
}

#[test]
fn expressions_of_all_partitions_share_one_bound() {
    let rules = r"{name: user, filter: {users: ['\w{5}']}}, ".repeat(10);
    let partition = |n| format!("{{name: p{n}, queues: [], placementrules: [{rules}]}}, ");
    let text: String = (0..5).map(partition).collect();
    let errors = parse(&format!("partitions: [{text}]")).unwrap_err();
    assert!(errors.reported.iter().all(|error| error.code == "E_FILTER_USER"));
    assert!(errors.reported[0].path.starts_with("partitions[2]"), "{}", errors.reported[0].path);
    assert!(errors.to_string().contains("8388608 bytes together"));
}
