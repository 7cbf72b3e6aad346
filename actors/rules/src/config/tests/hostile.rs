//! What no text may bring about: a panic, or work out of proportion to its length.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

const VALID: &str = "
partitions:
  - name: default
    nodesortpolicy: {type: binpacking, resourceweights: {vcore: 4.0, memory: 1.0}}
    queues:
      - name: root
        submitacl: '*'
        properties: &shared {application.sort.policy: fair}
        queues:
          - name: prod
            maxapplications: 10
            adminacl: alice,bob ops
            resources:
              guaranteed: {vcore: 2, memory: 1Gi}
              max: {vcore: 10, memory: 4Gi}
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
}

#[test]
fn aliases_neither_grow_without_bound_nor_nest_too_deep_nor_hold_themselves() {
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

/// Pieces that mean something in a configuration, to get past the first check.
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
        "submitacl",
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
        "!t ",
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
                prop_assert!(!errors.0.is_empty());
                let n_lines = text.lines().count() + 1;
                for error in &errors.0 {
                    prop_assert!((1..=n_lines).contains(&error.line) && error.column > 0, "{}", error);
                }
            }
        }
    }
}
