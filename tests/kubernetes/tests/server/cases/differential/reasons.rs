//! Counts of refusing nodes by reason, from the message of each scheduler.
//!
//! kube-scheduler counts each node once, for the first filter that refuses it (amounts once for
//! each missing type): `0/7 nodes are available: 1 Insufficient cpu, 5 node(s) didn't match …`.
//! Ours counts each node for its own properties, then for missing amounts, and nodes with room for
//! predicates.

use std::collections::BTreeMap;

/// Number of nodes by reason. A reason about the pod, whatever the node, has no number.
pub type Counts = BTreeMap<String, u64>;

/// Two predicates refuse the same node, and ours checks the other one first.
pub const ANOTHER_FIRST: Option<&str> =
    Some("ours looks at pods before volumes, and at affinity before spread");

/// Our reason for nodes that are too small even when empty.
const TOO_SMALL: &str = "too small";

/// Reasons of kube-scheduler, with the common names.
const THEIRS: [(&str, &str); 21] = [
    ("were unschedulable", "cordon"),
    ("had untolerated taint", "taint"),
    ("didn't match Pod's node affinity/selector", "node affinity"),
    ("didn't satisfy plugin(s) [NodeAffinity]", "node affinity"),
    ("didn't have free ports", "port"),
    ("didn't match pod affinity rules", "pods to be near"),
    ("didn't match pod anti-affinity rules", "pods to be away from"),
    ("didn't satisfy existing pods anti-affinity rules", "pods that keep it away"),
    ("didn't match pod topology spread constraints (missing required label)", "label of a spread"),
    ("didn't match pod topology spread constraints", "spread"),
    ("exceed max volume count", "volume limit"),
    ("didn't find available persistent volumes to bind", "no volume"),
    ("didn't match PersistentVolume's node affinity", "volume out of reach"),
    ("had no available volume zone", "volume out of reach"),
    ("bound to non-existent pv", "volume is gone"),
    ("PersistentVolumeClaim with ReadWriteOncePod", "claim in use"),
    ("unbound immediate PersistentVolumeClaims", "claim without a volume"),
    ("persistentvolumeclaim", "claim"),
    ("storageclass", "class"),
    ("Too many pods", "pods"),
    ("declared features", "feature"),
];

/// Reasons of our scheduler about a node, with the common names.
const OURS: [(&str, &str); 21] = [
    ("the node is cordoned", "cordon"),
    ("the node has the taint", "taint"),
    ("node selector or affinity", "node affinity"),
    ("port ", "port"),
    ("together with", "pods to be near"),
    ("by which pods are to be together", "pods to be near"),
    ("keeps away from", "pods to be away from"),
    ("keeps this one away", "pods that keep it away"),
    ("by which pods are spread", "label of a spread"),
    ("the spread over", "spread"),
    ("takes no more volumes", "volume limit"),
    ("is left for the node", "no volume"),
    ("makes no volumes for the node", "no volume"),
    ("cannot be reached from the node", "volume out of reach"),
    ("by one at a time", "claim in use"),
    ("has no volume yet", "claim without a volume"),
    ("the feature ", "feature"),
    ("is not bound to its volume", "claim without a volume"),
    ("the storage class", "class"),
    ("the volume of the claim", "volume is gone"),
    ("the claim", "claim"),
];

fn called(reason: &str, names: &[(&str, &str)]) -> Option<String> {
    let found = names.iter().find(|(words, _)| reason.contains(words));
    found.map(|(_, name)| (*name).to_owned())
}

/// Splits a number from the text behind it.
fn numbered(text: &str) -> (u64, &str) {
    let text = text.trim();
    let counted = text.split_once(' ').and_then(|(count, rest)| Some((count.parse().ok()?, rest)));
    counted.unwrap_or((0, text))
}

/// Returns the counts of both with common names. If ours calls nodes too small even when empty,
/// missing amounts are added up.
pub fn both(theirs: &str, ours: &str) -> (Counts, Counts) {
    let (mut theirs, mut ours) = (by_kube_scheduler(theirs), by_ours(ours));
    if ours.contains_key(TOO_SMALL) {
        add_up_amounts(&mut theirs);
        add_up_amounts(&mut ours);
    }
    // A reason of kube-scheduler about the pod is the same for each node in ours.
    for (called, _) in theirs.iter().filter(|(_, count)| **count == 0) {
        ours.entry(called.clone()).and_modify(|count| *count = 0);
    }
    (theirs, ours)
}

fn add_up_amounts(counts: &mut Counts) {
    let is_amount =
        |called: &str| called == TOO_SMALL || !THEIRS.iter().any(|(_, name)| *name == called);
    let amounts: u64 =
        counts.iter().filter(|(called, _)| is_amount(called)).map(|(_, count)| count).sum();
    counts.retain(|called, _| !is_amount(called));
    if amounts > 0 {
        counts.insert(TOO_SMALL.to_owned(), amounts);
    }
}

/// Counts the reasons in a message of kube-scheduler:
/// `0/7 nodes are available: 1 Insufficient cpu, 5 node(s) …. preemption: …`
pub fn by_kube_scheduler(message: &str) -> Counts {
    let mut counts = Counts::new();
    let text = message.split_once("available: ").map_or("", |(_, text)| text);
    // Text behind the first sentence is about preemption.
    let text = text.split(". ").next().unwrap_or_default().trim_end_matches('.');
    for part in text.split(", ") {
        let (count, what) = numbered(part);
        let called = match what.strip_prefix("Insufficient ") {
            Some(amount) => amount.to_owned(),
            None => called(what, &THEIRS).unwrap_or_else(|| what.to_owned()),
        };
        *counts.entry(called).or_default() += count;
    }
    counts
}

/// Counts the reasons in a message of our scheduler, which has one of two forms:
/// `no node that it may use has room (7 nodes: 1 lacks cores, `⟨text⟩` on 5, `⟨text⟩` on 1); …`, or `all nodes
/// with room were refused by predicates: `⟨text⟩` on 2 nodes (7 nodes: 4 lack cores)`.
pub fn by_ours(message: &str) -> Counts {
    let mut counts = Counts::new();
    // Reasons may contain brackets, commas and backticks.
    let (mut rest, mut others) = (message, String::new());
    while let Some((before, text)) = rest.split_once('`')
        && let Some((text, behind)) = text.split_once("` on ")
    {
        let digits = behind.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(behind.len());
        let called = called(text, &OURS).unwrap_or_else(|| text.to_owned());
        *counts.entry(called).or_default() += behind[..digits].parse::<u64>().unwrap_or(0);
        others.push_str(before);
        rest = &behind[digits..];
    }
    others.push_str(rest);
    let lacking = others.split_once(" nodes: ").or_else(|| others.split_once(" node: "));
    let lacking = lacking.map_or("", |(_, lacking)| lacking).split(')').next().unwrap_or_default();
    for part in lacking.split(", ").map(str::trim).filter(|part| !part.is_empty()) {
        let (count, what) = numbered(part);
        let amount = what.strip_prefix("lacks ").or(what.strip_prefix("lack "));
        let called = match amount {
            Some("cores") => "cpu".to_owned(),
            Some(amount) => amount.to_owned(),
            None if what.ends_with("too small") => TOO_SMALL.to_owned(),
            None => what.to_owned(),
        };
        *counts.entry(called).or_default() += count;
    }
    counts
}
