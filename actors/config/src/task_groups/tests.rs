use monoceros_rules::specs::constraint::{
    Constraint, DelayUnit, Expression, Near, Operator, Simple, Timed,
};

use std::sync::LazyLock;

use super::*;

/// Like [`super::parse`], with names that stay until the tests are over.
fn parse(text: &str) -> Result<Declaration, Fault> {
    static NAMES: LazyLock<NameHolder> = LazyLock::new(NameHolder::default);
    super::parse(text, &NAMES)
}

/// Like [`super::of_tags`], with names that are not shared.
fn of_tags(tags: &BTreeMap<String, String>) -> Result<Option<Declaration>, Fault> {
    super::of_tags(tags, &NameHolder::default())
}

fn fault(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn every_field_of_a_task_group_is_read() {
    let gang = parse(
        r#"[{"name": "w", "minMember": 3, "minResource": {"vcore": "500m", "memory": "1Gi", "gpu": 2},
            "topology": {"required": "rack", "preferred": ["host", "switch"]},
            "constraint": {"simpleConstraint": {}},
            "tags": {"role": "worker"}, "priority": -2,
            "preemptionPolicy": {"allowPreemptOther": true}},
           {"name": "d", "minMember": 1}]"#,
    )
    .unwrap();
    let size = Resources::of(&[("vcore", 500), ("memory", 1 << 30), ("gpu", 2)]);
    let worker = DeclaredGroup {
        topology: Topology::new("rack".into(), vec!["host".into(), "switch".into()]),
        constraint: Some(Constraint::Simple(Simple::default())),
        tags: Some(Arc::new([("role".to_owned(), "worker".to_owned())].into())),
        priority: -2,
        preemption: Preemption::Others,
        ..DeclaredGroup::new("w", 3, Some(size))
    };
    assert_eq!(gang.groups(), [worker, DeclaredGroup::new("d", 1, None)]);
}

#[test]
fn numbers_are_quantities_of_the_configuration() {
    let read = |amount: &str| {
        parse(&format!(r#"[{{"name": "a", "minMember": 1, "minResource": {{{amount}}}}}]"#))
    };
    assert_eq!(read(r#""vcore": 2"#), read(r#""vcore": "2000m""#));
    assert_eq!(read(r#""memory": 4000"#), read(r#""memory": "4k""#));
    for (amount, expected) in [
        (r#""vcore": 0.5"#, "`0.5` is not a quantity of `vcore`: write digits"),
        (r#""vcore": -1"#, "`-1` is not a quantity of `vcore`: write digits"),
        (r#""memory": "1GB""#, "`1GB` is not a quantity of `memory`: write `1G`, without the `B`"),
        (r#""memory": "9999999999G""#, "is more than 9223372036854775807"),
        (r#""memory": true"#, "`memory` is neither a text nor a number"),
        (r#""memory": 99999999999999999999"#, "is not a quantity of `memory`"),
        (r#""memory": 0"#, "a member takes {memory: 0}, it must be above zero"),
    ] {
        let fault = read(amount).unwrap_err().to_string();
        assert!(fault.starts_with("task group `a`: ") && fault.contains(expected), "{fault}");
    }
}

#[test]
fn null_and_empty_count_as_not_given() {
    let text = r#"[{"name": "a", "minMember": 1, "minResource": {}, "topology": {"required": ""},
        "constraint": {}, "tags": null, "priority": null, "preemptionPolicy": null}]"#;
    assert_eq!(parse(text).unwrap().groups(), [DeclaredGroup::new("a", 1, None)]);
    let none = BTreeMap::from([(TAG.to_owned(), String::new())]);
    assert_eq!(of_tags(&none), Ok(None));
    assert_eq!(of_tags(&BTreeMap::new()), Ok(None));
}

#[test]
fn the_name_of_the_tag_has_no_case() {
    let text = r#"[{"name": "a", "minMember": 1}]"#;
    let tags = BTreeMap::from([("Monoceros.io/Task-Groups".to_owned(), text.to_owned())]);
    assert!(of_tags(&tags).unwrap().is_some());
}

#[test]
fn a_fault_names_the_group_and_the_key() {
    for (text, expected) in [
        ("", "task groups cannot be read: EOF while parsing"),
        ("{}", "task groups cannot be read: invalid type: map, expected a sequence"),
        ("[]", "there is no task group in the list"),
        ("[7]", "task group number 1: is not an object"),
        (
            r#"[{"name": "a", "minMember": 1}, {"minMember": 1}]"#,
            "task group number 2: has no name",
        ),
        (r#"[{"name": 7}]"#, "task group number 1: `name` is not a text"),
        (r#"[{"name": "a"}]"#, "task group `a`: `minMember` is missing"),
        (
            r#"[{"name": "a", "minMember": "3 "}]"#,
            "task group `a`: `minMember` is no whole number: ",
        ),
        (
            r#"[{"name": "a", "minMember": 3.5}]"#,
            "task group `a`: `minMember` is no whole number: ",
        ),
        (r#"[{"name": "a", "minMember": 0}]"#, "task group `a`: needs 0 members"),
        (
            r#"[{"name": "a", "minMembers": 3, "minMember": 1}]"#,
            "task group `a`: key `minMembers` is",
        ),
        (
            r#"[{"name": "a", "minMember": 1, "minMember": 2}]"#,
            "task groups cannot be read: key `minMember` is there twice",
        ),
        (
            r#"[{"name": "a", "minMember": 1, "minResource": {"vcore": 1, "vcore": 2}}]"#,
            "task groups cannot be read: key `vcore` is there twice",
        ),
        (
            r#"[{"name": "a", "minMember": 1, "priority": 2147483648}]"#,
            "`priority` is out of range: 2147483648, it must be from -2147483648 to 2147483647",
        ),
        (r#"[{"name": "a", "minMember": 1, "tags": {"k": 1}}]"#, "`tags` is not a text"),
        (
            r#"[{"name": "a", "minMember": 1, "preemptionPolicy": {"self": true}}]"#,
            "task group `a`: key `preemptionPolicy.self` is not known",
        ),
        (
            r#"[{"name": "a", "minMember": 1, "topology": {"preferred": ["rack", ""]}}]"#,
            "task group `a`: an empty attribute among the preferred ones",
        ),
        (
            r#"[{"name": "a", "minMember": 1, "topology": {"preferred": ["rack", 3]}}]"#,
            "task group `a`: `topology.preferred[1]` is not a text",
        ),
    ] {
        assert!(fault(text).contains(expected), "{text}: {}", fault(text));
    }
}

#[test]
fn long_and_deeply_nested_texts_are_rejected() {
    let long = format!("[{}]", " ".repeat(MAX_BYTES));
    assert!(fault(&long).ends_with("1048578 bytes, at most 1048576 are read"), "{}", fault(&long));
    let deep = "[".repeat(100_000);
    assert!(fault(&deep).contains("recursion limit exceeded"), "{}", fault(&deep));
}

fn constraint(text: &str) -> Result<Option<Constraint>, Fault> {
    let text = format!(r#"[{{"name": "a", "minMember": 1, "constraint": {text}}}]"#);
    parse(&text).map(|gang| gang.groups()[0].constraint.clone())
}

#[test]
fn constraint_fields_have_interface_names() {
    let read = constraint(
        r#"{"compositeConstraint": {"compositeType": "DELAYED_OR", "timedChildConstraints": [
            {"placementConstraint": {"simpleConstraint": {
                "nodeAffinityConstraint": {"targetExpressions": [
                    {"targetOperator": "NOT_IN", "targetKey": "zone", "targetValues": ["b"]},
                    {"targetKey": "rack", "targetValues": ["r1", "r2"]}]},
                "allocationAffinityAttribute": {"scope": "rack", "tragetExpressions": [
                    {"targetOperator": "EXIST", "targetKey": "app"}],
                    "minCardinality": 1, "maxCardinality": 2, "required": true}}},
             "schedulingDelay": 3, "delayUnit": "OPPORTUNITIES"},
            {"placementConstraint": {"compositeConstraint": {
                "compositeType": "OR", "childConstraints": [{}]}}}]}}"#,
    );
    let expression = |operator, key: &str, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Expression { operator, key: key.to_owned(), values }
    };
    let node = vec![
        expression(Operator::NotIn, "zone", &["b"]),
        expression(Operator::In, "rack", &["r1", "r2"]),
    ];
    let expressions = vec![expression(Operator::Exist, "app", &[])];
    let near = Near { scope: "rack".into(), expressions, min: 1, max: 2, required: true };
    let first = Constraint::Simple(Simple { node, near: Some(near) });
    let second = Constraint::Any(vec![Constraint::Simple(Simple::default())]);
    let expected = Constraint::InTurn(vec![
        Timed { constraint: first, delay: 3, unit: DelayUnit::Opportunities },
        Timed { constraint: second, delay: 0, unit: DelayUnit::Milliseconds },
    ]);
    assert_eq!(read, Ok(Some(expected)));
}

#[test]
fn numbers_are_read_as_the_json_of_protobuf_writes_them() {
    let delay = |written: &str| {
        let text = format!(
            r#"{{"compositeConstraint": {{"compositeType": 2, "timedChildConstraints": [
                {{"schedulingDelay": {written}, "delayUnit": 1}}]}}}}"#
        );
        super::constraint(&text).map(|read| match read {
            Some(Constraint::InTurn(timed)) => (timed[0].delay, timed[0].unit),
            other => panic!("{other:?}"),
        })
    };
    for (written, expected) in [
        ("2000", 2000),
        (r#""2000""#, 2000),
        (r#""-7""#, -7),
        ("2e3", 2000),
        ("2000.0", 2000),
        (r#""9223372036854775807""#, i64::MAX),
        ("9223372036854775807", i64::MAX),
        (r#""-9223372036854775808""#, i64::MIN),
    ] {
        assert_eq!(delay(written), Ok((expected, DelayUnit::Opportunities)), "{written}");
    }
    let key = "constraint.compositeConstraint.timedChildConstraints[0].schedulingDelay";
    for written in
        [r#""9223372036854775808""#, "9223372036854775808", "1e19", r#""-99999999999999999999""#]
    {
        let fault = delay(written).unwrap_err();
        let range = "it must be from -9223372036854775808 to 9223372036854775807";
        assert!(fault.starts_with(&format!("`{key}` is out of range: ")), "{fault}");
        assert!(fault.ends_with(range), "{fault}");
    }
    for written in [r#""""#, r#""-""#, r#""+5""#, r#"" 5""#, r#""2e3""#, "2.5", "true", "[1]"] {
        let fault = delay(written).unwrap_err();
        assert!(fault.starts_with(&format!("`{key}` is no whole number: ")), "{fault}");
    }
    let near = r#"{"simpleConstraint": {"allocationAffinityAttribute": {
        "minCardinality": "2", "maxCardinality": "3"}}}"#;
    let Ok(Some(Constraint::Simple(Simple { near: Some(near), .. }))) = super::constraint(near)
    else {
        panic!("a constraint with cardinalities");
    };
    assert_eq!((near.min, near.max), (2, 3));
    let group = r#"[{"name": "a", "minMember": "3", "priority": "-2"}]"#;
    let expected = DeclaredGroup { priority: -2, ..DeclaredGroup::new("a", 3, None) };
    assert_eq!(parse(group).unwrap().groups(), [expected]);
    let unknown = r#"{"compositeConstraint": {"compositeType": 3}}"#;
    let fault = super::constraint(unknown).unwrap_err();
    assert!(
        fault.ends_with("compositeType` is 3, it must be one of AND, OR, DELAYED_OR"),
        "{fault}"
    );
}

#[test]
fn wrong_constraints_are_rejected_with_their_place() {
    let nested = |levels: usize| {
        let inner = r#"{"simpleConstraint": {}}"#.to_owned();
        (1..levels).fold(inner, |inner, _| {
            format!(r#"{{"compositeConstraint": {{"childConstraints": [{inner}]}}}}"#)
        })
    };
    assert!(constraint(&nested(8)).is_ok());
    let expressions =
        r#"{"simpleConstraint": {"nodeAffinityConstraint": {"targetExpressions": [X]}}}"#;
    for (text, expected) in [
        (nested(9), "is more than 8 levels deep"),
        (
            expressions.replace('X', r#"{"targetKey": "a", "targetOperator": "LIKE"}"#),
            "targetExpressions[0].targetOperator` is `LIKE`, it must be one of IN, NOT_IN, EXIST",
        ),
        (
            expressions.replace('X', "{}"),
            "its placement constraint has an expression without a key",
        ),
        (
            expressions.replace("Affinity", "Affection").replace('X', ""),
            "simpleConstraint.nodeAffectionConstraint",
        ),
        (
            r#"{"simpleConstraint": {}, "compositeConstraint": {}}"#.to_owned(),
            "`constraint` is both simple and composite",
        ),
        (
            r#"{"compositeConstraint": {"compositeType": "OR", "timedChildConstraints": [{}]}}"#
                .into(),
            "has children of the wrong kind for its type",
        ),
    ] {
        let fault = constraint(&text).unwrap_err().to_string();
        assert!(fault.starts_with("task group `a`: ") && fault.contains(expected), "{fault}");
    }
}
