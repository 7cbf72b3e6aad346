//! Translates nodes.

use std::collections::BTreeMap;

use monoceros_proto::si::v1::node_info::ActionFromRm;
use monoceros_proto::si::v1::{NodeInfo, Quantity, Resource};

use super::amounts::{Amounts, node_amounts};
use crate::objects::{Meta as _, Node};

/// Attributes of the interface, each with the labels that set it, the current one first.
const WELL_KNOWN: [(&str, [&str; 2]); 3] = [
    ("si/zone", ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"]),
    ("si/region", ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"]),
    ("si/instance-type", ["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"]),
];
/// Attribute that lists removed attributes. Others that an update does not name are kept.
const REMOVED: &str = "monoceros.io/removed-attributes";

/// Returns whether labels must not set this attribute.
fn is_reserved(key: &str) -> bool {
    key == "ready" || key == REMOVED || key.starts_with("si/")
}

/// Returns the attributes of a node: each label, and the well-known labels under the names of the
/// interface. Cordons and taints are left to predicates, since some pods tolerate them.
pub fn attributes(node: &Node) -> BTreeMap<String, String> {
    let labels = node.labels().iter().filter(|(key, _)| !is_reserved(key));
    let mut all: BTreeMap<_, _> = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
    let host = node.label("kubernetes.io/hostname").unwrap_or_else(|| node.name());
    all.insert("si/hostname".to_owned(), host.to_owned());
    for (name, labels) in WELL_KNOWN {
        if let Some(value) = labels.iter().find_map(|label| node.label(label)) {
            all.insert(name.to_owned(), value.to_owned());
        }
    }
    all
}

/// Converts amounts into a message.
pub(super) fn resource(amounts: Amounts) -> Resource {
    let resources = amounts.into_iter().map(|(name, value)| (name, Quantity { value }));
    Resource { resources: resources.collect() }
}

fn node_info(node: &Node, action: ActionFromRm) -> Result<NodeInfo, String> {
    Ok(NodeInfo {
        attributes: attributes(node),
        schedulable_resource: Some(resource(node_amounts(node)?)),
        ..NodeInfo::change(node.name(), action)
    })
}

/// Builds the message for a new node. The node is closed until its running pods have been reported.
pub fn created(node: &Node) -> Result<NodeInfo, String> {
    node_info(node, ActionFromRm::CreateDrain)
}

/// Builds the message for a changed node, with the names of the attributes it has lost.
pub fn updated(node: &Node, before: &BTreeMap<String, String>) -> Result<NodeInfo, String> {
    let mut info = node_info(node, ActionFromRm::Update)?;
    let gone: Vec<_> =
        before.keys().filter(|key| !info.attributes.contains_key(*key)).cloned().collect();
    if !gone.is_empty() {
        info.attributes.insert(REMOVED.to_owned(), gone.join(","));
    }
    Ok(info)
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value)] // JSON as it is written down.
mod tests {
    use serde_json::json;

    use super::*;

    fn node(labels: serde_json::Value) -> Node {
        let node = json!({"metadata": {"name": "n1", "labels": labels},
            "status": {"allocatable": {"cpu": "2"}}});
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn labels_become_attributes() {
        let node = node(json!({
            "disk": "ssd", "ready": "false", "si/node-partition": "other",
            "topology.kubernetes.io/zone": "a", "failure-domain.beta.kubernetes.io/region": "r",
        }));
        let shown: Vec<_> =
            attributes(&node).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            shown,
            [
                "disk=ssd",
                "failure-domain.beta.kubernetes.io/region=r",
                "si/hostname=n1",
                "si/region=r",
                "si/zone=a",
                "topology.kubernetes.io/zone=a",
            ]
        );
    }

    #[test]
    fn removed_label_is_listed() {
        let before = attributes(&node(json!({"disk": "ssd", "topology.kubernetes.io/zone": "a"})));
        let info = updated(&node(json!({"disk": "hdd"})), &before).unwrap();
        assert_eq!(info.attributes["disk"], "hdd");
        assert_eq!(info.attributes[REMOVED], "si/zone,topology.kubernetes.io/zone");
        assert_eq!(created(&node(json!({}))).unwrap().action(), ActionFromRm::CreateDrain);
    }
}
