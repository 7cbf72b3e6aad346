//! Features of YAML itself: merge keys and tags.

use super::*;

/// Asserts that both texts mean the same configuration.
fn means(text: &str, plain: &str) {
    assert_eq!(parsed(text).shown.partitions, parsed(plain).shown.partitions, "{text}");
}

#[test]
fn own_keys_win_over_merged_keys() {
    let plain = below_root(
        "{name: a, maxapplications: 3, submitacl: x}, {name: b, submitacl: x, maxapplications: 4}",
    );
    for queues in [
        "&a {name: a, maxapplications: 3, submitacl: x}, {<<: *a, name: b, maxapplications: 4}",
        // The merge key may come anywhere in the mapping.
        "&a {name: a, maxapplications: 3, submitacl: x}, {name: b, maxapplications: 4, <<: *a}",
        "{name: a, maxapplications: 3, <<: {submitacl: x, name: z}}, {name: b, <<: {<<: {submitacl: \
         x, maxapplications: 5}, maxapplications: 4}}",
    ] {
        means(&below_root(queues), &plain);
    }
}

#[test]
fn of_a_list_of_merged_mappings_the_first_wins() {
    means(
        &below_root(
            "&a {name: a, maxapplications: 1}, &b {name: b, maxapplications: 2, submitacl: x}, \
             {name: c, <<: [*a, {adminacl: y}, *b]}, {name: d, <<: []}",
        ),
        &below_root(
            "{name: a, maxapplications: 1}, {name: b, maxapplications: 2, submitacl: x}, {name: c, \
             maxapplications: 1, adminacl: y, submitacl: x}, {name: d}",
        ),
    );
}

#[test]
fn merged_values_are_taken_whole() {
    means(
        &below_root(
            "&a {name: a, resources: {max: {memory: 5}}, properties: {x: y}}, {<<: *a, name: b, \
             resources: {guaranteed: {memory: 1}}}, {name: c, properties: {<<: {x: z}, w: w}}",
        ),
        &below_root(
            "{name: a, resources: {max: {memory: 5}}, properties: {x: y}}, {name: b, resources: \
             {guaranteed: {memory: 1}}, properties: {x: y}}, {name: c, properties: {x: z, w: w}}",
        ),
    );
}

#[test]
fn merge_keys_are_unique_and_take_mappings() {
    for merge in ["<<: text", "<<: null", "<<: [[{parent: true}]]", "<<: [{parent: true}, x]"] {
        let shown = only_error(&below_root(&format!("{{name: a, {merge}}}")));
        assert!(shown.contains("`<<` takes a mapping"), "{merge}: {shown}");
    }
    let twice = below_root("{name: a, <<: {parent: true}, <<: {maxapplications: 1}}");
    assert!(only_error(&twice).contains("`<<` is here twice"));
    for key in ["\"<<\"", "'<<'", "!!str <<"] {
        let quoted = below_root(&format!("{{name: a, {key}: {{parent: true}}}}"));
        assert!(only_error(&quoted).contains("unknown key"), "{key} is a key as any other");
    }
    let unknown = below_root("{name: a, <<: {parents: true}}");
    assert!(only_error(&unknown).contains("did you mean `parent`?"), "merged keys are known ones");
}

#[test]
fn a_tag_may_state_the_type() {
    means(
        "!!map {partitions: !!seq [!!map {queues: [{name: !!str 7, parent: !!bool yes, properties: \
         {a: !!int -5, b: !!float 1e3, c: !!null ~, d: !!str null, e: !!int 010, f: !!str}, \
         maxapplications: !!int 5, limits: !!null , submitacl: !<tag:yaml.org,2002:str> x}]}]}",
        "partitions: [{queues: [{name: 7, parent: true, properties: {a: -5, b: 1e3, c: '', d: \
         'null', e: 010, f: ''}, maxapplications: 5, submitacl: x}]}]",
    );
    let tagged = "%TAG !y! tag:yaml.org,2002:\n---\npartitions: [{queues: !y!seq []}]";
    means(tagged, "partitions: [{queues: []}]");
}

#[test]
fn a_tag_that_its_value_contradicts_is_an_error() {
    for value in [
        "!!int x",
        "!!int 1.5",
        "!!int ''",
        "!!float x",
        "!!bool 2",
        "!!null x",
        "!!map x",
        "!!seq x",
    ] {
        let shown = only_error(&below_root(&format!("{{name: a, properties: {{x: {value}}}}}")));
        let tag = value.split(' ').next().unwrap();
        assert!(shown.contains(&format!("is not what the tag `{tag}` says")), "{shown}");
    }
    for value in ["!!str {}", "!!seq {}", "!!null {}"] {
        let shown = only_error(&below_root(&format!("{{name: a, properties: {value}}}")));
        assert!(shown.contains("a mapping is not what the tag"), "{shown}");
    }
    assert!(only_error(&below_root("{name: a, queues: !!map []}")).contains("a list is not what"));
}

#[test]
fn every_other_tag_is_refused_by_name() {
    for (tag, shown) in [
        ("!secret", "`!secret`"),
        ("!!binary", "`!!binary`"),
        ("!!timestamp", "`!!timestamp`"),
        ("!<tag:example.org,2000:x>", "`!<tag:example.org,2000:x>`"),
        ("!", "`!`"),
    ] {
        let message = only_error(&below_root(&format!("{{name: {tag} a}}")));
        assert!(message.contains(&format!("the tag {shown} has no meaning here")), "{message}");
    }
}
