//! The configuration as REST shows it, key by key: programs read it.

// The form in which expect-test writes snapshots.
#![allow(clippy::needless_raw_string_hashes)]

use expect_test::expect;

use super::*;

fn json(text: &str) -> serde_json::Value {
    serde_json::to_value(parsed(text).shown).unwrap()
}

#[test]
fn absent_settings_are_omitted() {
    let mut shown = json("partitions: [{queues: [{name: Etl}]}]");
    assert_eq!(shown["Checksum"].as_str().unwrap().len(), 64);
    shown["Checksum"].take();
    expect![[r#"{"Checksum":null,"Partitions":[{"Name":"default","NodeSortPolicy":{"Type":""},"Preemption":{},"Queues":[{"ChildTemplate":{"Resources":{}},"Name":"root","Parent":true,"Queues":[{"ChildTemplate":{"Resources":{}},"Name":"Etl","Resources":{}}],"Resources":{}}],"UserGroupResolver":{}}]}"#]]
    .assert_eq(&shown.to_string());
}

#[test]
fn written_settings_are_shown_unchanged() {
    let shown = json(
        "
partitions:
  - name: DEFAULT
    placementrules:
      - {name: Tag, value: namespace, create: true, parent: {name: user}}
      - {name: provided, filter: {type: deny, users: [a], groups: [b]}}
    limits: [{limit: all, users: ['*'], groups: [g], maxresources: {memory: 4Gi}, maxapplications: 9}]
    preemption: {enabled: false, quotapreemptionenabled: true}
    nodesortpolicy: {type: binpacking, resourceweights: {vcore: 4}}
    usergroupresolver: {type: os}
    queues:
      - name: Root
        submitacl: '*'
        adminacl: ann
        maxapplications: 20
        childtemplate: {maxapplications: 1, properties: {a: b}, resources: {max: {vcore: 500m}}}
        queues:
          - name: a
            maxapplications: 2
            properties: {Team: blue}
            resources: {guaranteed: {nvidia.com/GPU: 1}, max: {memory: 0}}
",
    );
    expect![[r#"{"Limits":[{"Groups":["g"],"Limit":"all","MaxApplications":9,"MaxResources":{"memory":"4Gi"},"Users":["*"]}],"Name":"default","NodeSortPolicy":{"ResourceWeights":{"vcore":4.0},"Type":"binpacking"},"PlacementRules":[{"Create":true,"Filter":{"Type":""},"Name":"Tag","Parent":{"Filter":{"Type":""},"Name":"user"},"Value":"namespace"},{"Filter":{"Groups":["b"],"Type":"deny","Users":["a"]},"Name":"provided"}],"Preemption":{"Enabled":false,"QuotaPreemptionEnabled":true},"Queues":[{"AdminACL":"ann","ChildTemplate":{"MaxApplications":1,"Properties":{"a":"b"},"Resources":{"Max":{"vcore":"500m"}}},"Limits":[{"Groups":["g"],"Limit":"all","MaxApplications":9,"MaxResources":{"memory":"4Gi"},"Users":["*"]}],"MaxApplications":20,"Name":"root","Parent":true,"Queues":[{"ChildTemplate":{"Resources":{}},"MaxApplications":2,"Name":"a","Properties":{"Team":"blue"},"Resources":{"Guaranteed":{"nvidia.com/GPU":"1"},"Max":{"memory":"0"}}}],"Resources":{},"SubmitACL":"*"}],"UserGroupResolver":{"type":"os"}}"#]].assert_eq(&shown["Partitions"][0].to_string());
}

/// Formats the configuration as text that can be read again: JSON is valid YAML.
pub(super) fn yaml_of(shown: &Shown) -> String {
    lower(serde_json::to_value(shown).unwrap(), false).to_string()
}

fn lower(value: serde_json::Value, keys_are_free: bool) -> serde_json::Value {
    match value {
        serde_json::Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| {
                let below = lower(value, FREE_KEYS.contains(&&*key));
                (if keys_are_free { key } else { key.to_lowercase() }, below)
            })
            .collect(),
        serde_json::Value::Array(items) => {
            items.into_iter().map(|item| lower(item, false)).collect()
        }
        plain => plain,
    }
}

#[test]
fn the_shown_form_reads_back_the_same() {
    let text = "
partitions:
  - placementrules: [{name: user, create: true, filter: {type: deny, groups: [g]}, parent: {name: tag, value: t}}]
    queues:
      - name: root
        limits: [{limit: L, users: [U], maxresources: {nvidia.com/GPU: 1}}]
        childtemplate: {properties: {Team: Red}}
        queues: [{name: A, properties: {Team: Blue}, resources: {max: {nvidia.com/GPU: 1}}}]
";
    let first = parsed(text);
    let second = parsed(&yaml_of(&first.shown));
    assert_eq!(second.partitions, first.partitions);
    assert_eq!(second.shown.partitions, first.shown.partitions);
}
