//! Predicate check of one pod on one node.

use super::expected::ExpectedPod;
use super::node;
use super::question::Question;
use super::scene::{CountedPod, NodeEntry, Scene};
use crate::objects::{Meta as _, Node};

impl Scene {
    /// Checks whether the pod expected under this key may run on the node. The error says why not,
    /// without naming the node. Unknown pods and nodes are refused.
    pub fn check(&self, key: &str, node: &str) -> Result<(), String> {
        let Some(ExpectedPod { pod, kind, question, .. }) = self.questions.get(key) else {
            return Err("the pod is not known any more".to_owned());
        };
        let entry = self.entries.get(node);
        let Some((entry, node)) = entry.and_then(|entry| Some((entry, entry.node.as_ref()?)))
        else {
            return Err("the node is not known any more".to_owned());
        };
        if let Some(reason) = &question.unsupported {
            return Err(reason.clone());
        }
        node::check(&question.node, node)?;
        check_ports(question, entry)?;
        self.check_near(question, *kind, node)?;
        self.check_guards(*kind, node)?;
        self.check_spread(question, node)?;
        self.volumes.check(pod, &question.mounts, node)
    }

    /// Returns whether the pod expected under this key prefers some nodes.
    pub fn has_preferences(&self, key: &str) -> bool {
        self.questions.get(key).is_some_and(|asked| !asked.question.preferences.is_empty())
    }

    /// Returns the weight of the node for the pod; 0 if either is unknown.
    pub fn preference(&self, key: &str, node: &str) -> i64 {
        let node = self.entries.get(node).and_then(|entry| entry.node.as_ref());
        let asked = self.questions.get(key).zip(node);
        asked
            .map_or(0, |(asked, node)| asked.question.preferences.weigh(node, &self.counts.tallies))
    }

    fn check_near(&self, question: &Question, kind: usize, node: &Node) -> Result<(), String> {
        let tallies = || question.near.iter().map(|id| &self.counts.tallies[*id]);
        let mut all_near = true;
        for tally in tallies() {
            let Some(domain) = tally.spec.domain(node) else {
                let key = &tally.spec.key;
                return Err(format!(
                    "the node lacks the label {key}, by which pods are to be together"
                ));
            };
            all_near &= tally.pods(domain) > 0;
        }
        if !all_near {
            // A pod that must be near its own kind may run anywhere while there is no pod of this
            // kind.
            let counts_itself = |id| self.counts.kinds[kind].tallies.contains(id);
            let is_first = tallies().all(|tally| tally.total() == 0)
                && question.near.iter().all(counts_itself);
            if !is_first {
                return Err("no pod is there that the pod has to be together with".to_owned());
            }
        }
        for tally in question.away.iter().map(|id| &self.counts.tallies[*id]) {
            if tally.spec.domain(node).is_some_and(|domain| tally.pods(domain) > 0) {
                let key = &tally.spec.key;
                return Err(format!("a pod is there that the pod keeps away from (by {key})"));
            }
        }
        Ok(())
    }

    fn check_guards(&self, kind: usize, node: &Node) -> Result<(), String> {
        for guard_counts in self.counts.kinds[kind].guards.iter().map(|id| &self.counts.guards[*id])
        {
            let key = &guard_counts.guard.key;
            if node.label(key).is_some_and(|domain| guard_counts.domains.contains_key(domain)) {
                return Err(format!("a pod is there that keeps this one away (by {key})"));
            }
        }
        Ok(())
    }

    fn check_spread(&self, question: &Question, node: &Node) -> Result<(), String> {
        for rule in &question.spread {
            let tally = &self.counts.tallies[rule.tally];
            let key = &tally.spec.key;
            let Some(domain) = node.label(key) else {
                return Err(format!("the node lacks the label {key}, by which pods are spread"));
            };
            let there = tally.pods(domain) + u32::from(rule.counts_itself);
            let domains = self.counts.domains(tally);
            if there.saturating_sub(tally.least(domains)) > rule.max_skew {
                return Err(format!("the spread over {key} would be more uneven than is allowed"));
            }
        }
        Ok(())
    }
}

fn check_ports(question: &Question, entry: &NodeEntry) -> Result<(), String> {
    for port in &question.ports {
        let is_taken = |counted: &CountedPod| counted.ports.iter().any(|one| one.collides(port));
        if entry.pods.values().any(is_taken) {
            return Err(format!("port {} of the node is taken", port.shown()));
        }
    }
    Ok(())
}
