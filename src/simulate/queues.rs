//! Which leaf queue a pod is submitted to.
//!
//! Every pod is one application of one ask, and its QoS class says where it goes. Without a
//! configuration of the user's own there is one leaf below root for each class of the trace, with
//! neither guarantee nor maximum. With one, the leaves are whatever it configures.

use std::collections::BTreeSet;
use std::fmt::Write;

use monoceros_actors::snapshot::QueueSnapshot;

use super::trace::Trace;

/// The longest name a queue may have.
const LONGEST_NAME: usize = 64;

/// A configuration with one leaf for each QoS class of the trace.
pub(crate) fn default_queues(trace: &Trace) -> String {
    let names: BTreeSet<String> = trace.pods.iter().map(|pod| leaf_name(&pod.qos)).collect();
    let mut yaml = String::from(
        "partitions:\n  - name: default\n    queues:\n      - name: root\n        \
         submitacl: \"*\"\n        queues:\n",
    );
    for name in names {
        writeln!(yaml, "          - name: \"{name}\"").expect("a String takes all that is written");
    }
    yaml
}

/// The paths of the queues without children, in order.
pub(crate) fn leaves(root: &QueueSnapshot) -> Vec<&QueueSnapshot> {
    let mut leaves = Vec::new();
    let mut unseen = vec![root];
    while let Some(queue) = unseen.pop() {
        if queue.children.is_empty() {
            leaves.push(queue);
        }
        unseen.extend(&queue.children);
    }
    leaves.sort_by(|a, b| a.queue_name.cmp(&b.queue_name));
    leaves
}

/// The leaf for a class: the first one, by path, that bears its name; else `root.default`; else
/// the first of all. `None` where there are no leaves.
pub(crate) fn leaf_for<'a>(qos: &str, leaves: &'a [String]) -> Option<&'a str> {
    let name = leaf_name(qos);
    let named = leaves.iter().find(|path| path.rsplit('.').next() == Some(name.as_str()));
    let fallback = || leaves.iter().find(|path| *path == "root.default");
    named.or_else(fallback).or(leaves.first()).map(String::as_str)
}

/// The class in lower case, with `-` for what a queue name may not contain; `default` for a pod
/// without a class.
fn leaf_name(qos: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = qos.trim().to_lowercase().chars().map(allowed).take(LONGEST_NAME).collect();
    if name.is_empty() { "default".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_goes_to_the_leaf_of_its_name_else_to_default_else_to_the_first() {
        let paths = |paths: &[&str]| paths.iter().map(|&path| path.to_owned()).collect::<Vec<_>>();
        let cases: [(&str, &[&str], Option<&str>); 6] = [
            ("LS", &["root.a.ls", "root.b.ls"], Some("root.a.ls")),
            ("Burstable", &["root.be", "root.default"], Some("root.default")),
            ("Burstable", &["root.be", "root.ls"], Some("root.be")),
            ("", &["root.be", "root.default"], Some("root.default")),
            ("Best effort", &["root.a", "root.best-effort"], Some("root.best-effort")),
            ("LS", &[], None),
        ];
        for (qos, leaves, expected) in cases {
            assert_eq!(leaf_for(qos, &paths(leaves)), expected, "{qos} of {leaves:?}");
        }
    }

    #[test]
    fn the_default_configuration_has_a_leaf_per_class() {
        let yaml = default_queues(&super::super::sample::sample_trace(0));
        let leaves: Vec<_> =
            yaml.lines().filter(|line| line.contains('"')).map(str::trim).collect();
        let expected = [
            "submitacl: \"*\"",
            "- name: \"be\"",
            "- name: \"burstable\"",
            "- name: \"guaranteed\"",
            "- name: \"ls\"",
        ];
        assert_eq!(leaves, expected);
    }

    #[test]
    fn leaves_are_queues_without_children_in_order_of_their_paths() {
        let queue = |queue_name: &str, children| QueueSnapshot {
            queue_name: queue_name.to_owned(),
            children,
            ..QueueSnapshot::default()
        };
        let inner = queue("root.a", vec![queue("root.a.z", vec![]), queue("root.a.b", vec![])]);
        let root = queue("root", vec![queue("root.c", vec![]), inner]);
        let paths: Vec<_> = leaves(&root).iter().map(|leaf| leaf.queue_name.as_str()).collect();
        assert_eq!(paths, ["root.a.b", "root.a.z", "root.c"]);
    }
}
