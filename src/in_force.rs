//! The configuration in force as a document: the accepted queues with defaults and added queues,
//! and the settings that came with them, secrets masked.
//!
//! It is not the text that was sent. A reader wants to see the configuration that the scheduler
//! works with.
//!
//! # Invariants
//! * JSON and YAML have the same content in the same order. In YAML, keys are in lower case (except
//!   those that an author chose), and empty values are omitted.

use std::collections::BTreeMap;
use std::fmt;

use monoceros_actors::ConfigurationSnapshot;
use monoceros_actors::config;
use monoceros_actors::config::{FREE_KEYS, Shown};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

use crate::secrets;

/// The key of the settings outside the queue configuration.
const EXTRA: &str = "Extra";

/// The document: the queues in force, and the other settings.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct InForce {
    /// The queues. `None` before a registration.
    #[serde(flatten)]
    queues: Option<Shown>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, String>,
    /// There is no deadlock detector, but readers expect its two settings.
    deadlock_detection_enabled: bool,
    deadlock_timeout_seconds: i32,
}

impl InForce {
    /// Makes the document of a resource manager or, for `None`, of a scheduler without a
    /// registration. It parses the configuration, so a large one belongs on a thread for blocking
    /// work.
    pub fn of(present: Option<ConfigurationSnapshot>) -> Self {
        let (queues, extra) = present.map_or_else(Default::default, |present| {
            let configuration = config::parse(&present.config);
            let shown = configuration.map(|configuration| configuration.shown);
            (
                Some(shown.expect("what is in force was accepted")),
                secrets::masked(present.extra_config),
            )
        });
        Self { queues, extra, deadlock_detection_enabled: false, deadlock_timeout_seconds: 60 }
    }

    /// Returns the document in YAML.
    pub fn to_yaml(&self) -> Result<String, String> {
        let json = serde_json::to_string(self).map_err(|error| error.to_string())?;
        let document: Node = serde_json::from_str(&json).map_err(|error| error.to_string())?;
        // Each text is on one line: folded texts and blocks are easily damaged when they are
        // edited.
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        serde_saphyr::to_string_with_options(&document.lowered(), options)
            .map_err(|error| error.to_string())
    }
}

/// A JSON document that keeps the order of its keys.
enum Node {
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Puts keys in lower case and omits empty values.
    fn lowered(self) -> Self {
        match self {
            Self::Map(entries) => {
                let entries = entries.into_iter().map(|(key, value)| {
                    let is_free = key == EXTRA || FREE_KEYS.contains(&&*key);
                    (key.to_lowercase(), if is_free { value } else { value.lowered() })
                });
                Self::Map(entries.filter(|(_, value)| !value.is_nothing()).collect())
            }
            Self::List(items) => Self::List(items.into_iter().map(Self::lowered).collect()),
            scalar @ Self::Scalar(_) => scalar,
        }
    }

    /// Whether this is a mapping that holds only empty texts, at any depth.
    fn is_nothing(&self) -> bool {
        let is_empty = |value: &Self| match value {
            Self::Scalar(Value::String(text)) => text.is_empty(),
            value => value.is_nothing(),
        };
        matches!(self, Self::Map(entries) if entries.iter().all(|(_, value)| is_empty(value)))
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Scalar(scalar) => scalar.serialize(serializer),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(entries) => serializer.collect_map(entries.iter().map(|(k, v)| (k, v))),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Node::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const TEXT: &str = r#"
partitions:
  - name: default
    nodesortpolicy: {type: binpacking, resourceweights: {vcore: 2, memory: 0.5}}
    preemption: {enabled: false}
    placementrules:
      - name: tag
        value: Namespace
        create: true
        filter: {type: allow, users: [ann, bob]}
        parent: {name: fixed, value: root.Team}
      - name: provided
    limits:
      - limit: ""
        users: ["*"]
        maxresources: {memory: 10G}
    queues:
      - name: Team
        parent: true
        submitacl: "ann dev,ops"
        properties: {priority.offset: "5", "Own Key": "yes: no # '"}
        childtemplate: {resources: {max: {vcore: "1"}}}
        resources: {guaranteed: {vcore: 500m}, max: {vcore: 10}}
        maxapplications: 7
"#;

    fn shown() -> InForce {
        let extra = [("log.level", "WARN"), ("admission.token", "t0p"), ("Multi", "a\nb")];
        let extra = extra.map(|(key, value)| (key.to_owned(), value.to_owned()));
        InForce::of(Some(ConfigurationSnapshot {
            rm_id: "rm".into(),
            policy_group: "queues".into(),
            config: TEXT.into(),
            extra_config: extra.into(),
            checksum: String::new(),
        }))
    }

    #[test]
    fn json_has_its_keys_and_empty_objects() {
        expect![[r#"{"Partitions":[{"Name":"default","Queues":[{"Name":"root","Parent":true,"Resources":{},"ChildTemplate":{"Resources":{}},"Queues":[{"Name":"Team","Parent":true,"Resources":{"Guaranteed":{"vcore":"500m"},"Max":{"vcore":"10"}},"MaxApplications":7,"Properties":{"Own Key":"yes: no # '","priority.offset":"5"},"SubmitACL":"ann dev,ops","ChildTemplate":{"Resources":{"Max":{"vcore":"1"}}}}],"Limits":[{"Limit":"","Users":["*"],"MaxResources":{"memory":"10G"}}]}],"PlacementRules":[{"Name":"tag","Create":true,"Filter":{"Type":"allow","Users":["ann","bob"]},"Parent":{"Name":"fixed","Filter":{"Type":""},"Value":"root.Team"},"Value":"Namespace"},{"Name":"provided","Filter":{"Type":""}}],"Limits":[{"Limit":"","Users":["*"],"MaxResources":{"memory":"10G"}}],"Preemption":{"Enabled":false},"NodeSortPolicy":{"Type":"binpacking","ResourceWeights":{"memory":0.5,"vcore":2.0}},"UserGroupResolver":{}}],"Checksum":"D33D338822458E66E931414938F9F4EDD5E40BD83CBA09D22082C7B68BE92F94","Extra":{"Multi":"a\nb","admission.token":"********","log.level":"WARN"},"DeadlockDetectionEnabled":false,"DeadlockTimeoutSeconds":60}"#]].assert_eq(&serde_json::to_string(&shown()).unwrap());
    }

    #[test]
    fn yaml_has_lower_case_keys_and_no_empty_objects() {
        expect![[r#"
            partitions:
            - name: default
              queues:
              - name: root
                parent: true
                queues:
                - name: Team
                  parent: true
                  resources:
                    guaranteed:
                      vcore: 500m
                    max:
                      vcore: "10"
                  maxapplications: 7
                  properties:
                    Own Key: "yes: no # '"
                    priority.offset: "5"
                  submitacl: ann dev,ops
                  childtemplate:
                    resources:
                      max:
                        vcore: "1"
                limits:
                - limit: ""
                  users:
                  - "*"
                  maxresources:
                    memory: 10G
              placementrules:
              - name: tag
                create: true
                filter:
                  type: allow
                  users:
                  - ann
                  - bob
                parent:
                  name: fixed
                  value: root.Team
                value: Namespace
              - name: provided
              limits:
              - limit: ""
                users:
                - "*"
                maxresources:
                  memory: 10G
              preemption:
                enabled: false
              nodesortpolicy:
                type: binpacking
                resourceweights:
                  memory: 0.5
                  vcore: 2.0
            checksum: D33D338822458E66E931414938F9F4EDD5E40BD83CBA09D22082C7B68BE92F94
            extra:
              Multi: "a\nb"
              admission.token: "********"
              log.level: WARN
            deadlockdetectionenabled: false
            deadlocktimeoutseconds: 60
        "#]]
        .assert_eq(&shown().to_yaml().unwrap());
    }

    #[test]
    fn the_yaml_of_queues_is_a_valid_configuration() {
        let yaml = shown().to_yaml().unwrap();
        let (queues, _) = yaml.split_once("extra:").unwrap();
        let again = config::parse(queues).unwrap();
        let first = config::parse(TEXT).unwrap();
        assert_eq!(again.shown.partitions, first.shown.partitions);
        assert_eq!(again.partitions, first.partitions);
    }

    #[test]
    fn only_the_two_settings_exist_before_registration() {
        let nobody = InForce::of(None);
        let json = r#"{"DeadlockDetectionEnabled":false,"DeadlockTimeoutSeconds":60}"#;
        assert_eq!(serde_json::to_string(&nobody).unwrap(), json);
        let yaml = "deadlockdetectionenabled: false\ndeadlocktimeoutseconds: 60\n";
        assert_eq!(nobody.to_yaml().unwrap(), yaml);
    }
}
