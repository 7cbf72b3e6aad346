//! Selects the leaf queue of a pod.
//!
//! Every pod is an application, and its QoS class selects the queue. Without a queue configuration
//! of the user there is one leaf below root per class of the trace, without guarantee and maximum.
//! If the user gives a configuration, its leaves are used.

use std::collections::BTreeSet;
use std::fmt::Write;

use monoceros_actors::snapshot::QueueSnapshot;

use super::trace::Trace;

/// Longest queue name in characters.
const LONGEST_NAME: usize = 64;

/// Makes a configuration with one leaf per QoS class of the trace.
pub(crate) fn default_queues(trace: &Trace) -> String {
    let names: BTreeSet<String> = trace.pods.iter().map(|pod| leaf_name(&pod.qos)).collect();
    let mut yaml = String::from(
        "partitions:\n  - name: default\n    queues:\n      - name: root\n        \
         submitacl: \"*\"\n        queues:\n",
    );
    for name in names {
        let _ = writeln!(yaml, "          - name: \"{name}\"");
    }
    yaml
}

/// Returns the queues without children, in the order of their paths.
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

/// Returns the leaf for a class: the first by path with its name, else `root.default`, else the
/// first leaf. `None` if there are no leaves.
pub(crate) fn leaf_for<'a>(qos: &str, leaves: &'a [String]) -> Option<&'a str> {
    let name = leaf_name(qos);
    let named = leaves.iter().find(|path| path.rsplit('.').next() == Some(name.as_str()));
    let fallback = || leaves.iter().find(|path| *path == "root.default");
    named.or_else(fallback).or(leaves.first()).map(String::as_str)
}

/// Converts a class to a queue name: in lower case, with `-` for forbidden characters. `default`
/// for a pod without a class.
fn leaf_name(qos: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = qos.trim().to_lowercase().chars().map(allowed).take(LONGEST_NAME).collect();
    if name.is_empty() { "default".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_maps_to_named_default_or_first_leaf() {
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
    fn leaves_are_childless_queues_in_path_order() {
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
