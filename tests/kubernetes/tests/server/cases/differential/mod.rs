//! Compares this scheduler with kube-scheduler in equal situations: the nodes that each pod may go
//! to, the pods that stay pending, and how many nodes each scheduler counts for which reason.
//!
//! # Two control planes
//! Each scheduler has an API server of its own, and every situation is built in both at the same time. On
//! one API server the two would see each other's pods, or need labels, taints or selectors that keep them
//! apart, and those are what is compared. One after the other would take twice as long.
//!
//! # Rows and pins
//! A [`Scene`] has nodes, and rows that do not affect each other: each row has a namespace of its own, and
//! `$` in its objects becomes a text of its own. kube-scheduler chooses at random among equal nodes. So a
//! row that [goes](Outcome::Goes) to a set of nodes is built once per node, and the pod is *pinned*: it
//! requests a resource that this node alone has. That restricts the pod without a selector or a toleration,
//! which rules of spread would read. The whole set of nodes is compared, not the choice. Where no node
//! will do, the row is also built without a pin, and the counts in the two messages are compared.
//!
//! # Before pods are asked
//! Watches of nodes and of pods are not ordered relative to each other. So a pod that tolerates all taints
//! is pinned and bound to every node first; then both schedulers have all nodes. Changes of pods arrive in
//! order.
//!
//! # Expected results
//! Each row states the right result, so that two schedulers that do nothing do not pass. Where ours differs,
//! on purpose or by a known fault, the row states what ours does and [why](Row::ours). Such a row fails
//! when the difference is gone. The same holds for [counts](reasons).

mod amounts;
mod build;
mod conditions;
mod gangs;
mod nodes;
mod observed;
mod pods;
mod preemption;
mod random;
mod reasons;
mod run;
mod spreads;
mod volumes;

pub use amounts::requests_and_capacities;
pub use conditions::reasons_of_conditions;
pub use gangs::pod_groups_as_a_whole;
pub use nodes::{
    cordons_taints_and_tolerations, features_that_nodes_declare, numbers_of_taints, ports_of_nodes,
    selectors_and_affinity,
};
pub use pods::affinity_and_anti_affinity;
pub use preemption::victims_of_preemption;
pub use random::random_rows;
pub use run::Theirs;
pub use spreads::spread_constraints;
pub use volumes::claims_and_volumes;

use serde_json::{Value, json};

use crate::cluster::merge;

/// A call to the API server, with `$` for the instance of the row.
#[derive(Clone, Debug)]
pub struct Call {
    method: &'static str,
    path: String,
    body: Value,
}

/// Outcome for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It may go to exactly these nodes. Each node is tried by itself.
    Goes(Vec<&'static str>),
    /// It is bound to one of these nodes.
    Among(Vec<&'static str>),
    /// It fits on no node.
    Waits,
    /// It is not tried.
    Untried,
    /// Equal in both schedulers on each node, tried by itself.
    Alike,
}

/// A pod that both schedulers are asked about.
#[derive(Clone, Debug)]
pub struct Asked {
    name: &'static str,
    pod: Value,
    /// Outcome at first, and after each change.
    outcomes: Vec<Outcome>,
}

/// Content of a namespace, and its pods.
#[derive(Clone, Debug)]
pub struct Row {
    what: String,
    /// Labels of the namespace.
    labels: Value,
    /// Objects created before the pods.
    objects: Vec<Call>,
    /// Running pods, with their nodes.
    runs: Vec<(&'static str, Value)>,
    /// Changes to the running pods before the other pods are created.
    happened: Vec<Call>,
    asked: Vec<Asked>,
    /// Later changes. The pods are compared after each of them.
    changes: Vec<Vec<Call>>,
    /// Different outcomes of our scheduler, at first and after each change, with the reason.
    ours: Option<(Vec<Outcome>, &'static str)>,
    /// Reason why the counts of both differ.
    counts: Option<&'static str>,
    /// Whether the pods of the row are only created pinned to a node each, and its running pods
    /// only once, since they take something of the nodes that other instances would need.
    is_pinned: bool,
    /// Suffix of its node names, if several scenes are one.
    suffix: String,
}

/// Nodes, and rows on them.
#[derive(Clone, Debug)]
pub struct Scene {
    name: &'static str,
    nodes: Vec<Value>,
    objects: Vec<Call>,
    rows: Vec<Row>,
}

pub fn create(path: &str, body: Value) -> Call {
    Call { method: "POST", path: path.to_owned(), body }
}

pub fn patch(path: &str, body: Value) -> Call {
    Call { method: "PATCH", path: path.to_owned(), body }
}

/// Deletes a pod with a grace period of some seconds, which only a kubelet would end.
pub fn delete(path: &str, grace: u32) -> Call {
    let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": grace});
    Call { method: "DELETE", path: path.to_owned(), body }
}

/// Returns the path of an object in the namespace of the row.
pub fn own(kind: &str) -> String {
    format!("/api/v1/namespaces/ns$/{kind}")
}

/// A node of 32 cores with these labels and room for many pods; `more` is merged into it.
pub fn node(name: &str, labels: Value, more: Value) -> Value {
    let amounts = json!({"cpu": "32", "memory": "64Gi", "pods": "10000"});
    let mut node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": amounts}});
    merge(&mut node["metadata"]["labels"], labels);
    merge(&mut node, more);
    node["status"]["allocatable"][build::pin(name)] = json!("10000");
    node["status"]["capacity"] = node["status"]["allocatable"].clone();
    node
}

/// Nodes of the predicate tables: `a1` and `a2` in zone a, `b1` in zone b with a disk.
pub fn three() -> Vec<Value> {
    vec![
        node("a1", json!({"zone": "a", "cores": "8"}), json!({})),
        node("a2", json!({"zone": "a", "cores": "16"}), json!({})),
        node("b1", json!({"zone": "b", "disk": "ssd"}), json!({})),
    ]
}

pub fn pod(labels: Value, spec: Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": spec})
}

/// Merges `more` into an object.
pub fn with(object: &Value, more: &Value) -> Value {
    let mut merged = object.clone();
    merge(&mut merged, more.clone());
    merged
}

pub fn scene(name: &'static str, nodes: Vec<Value>, rows: Vec<Row>) -> Scene {
    Scene { name, nodes, objects: Vec::new(), rows }
}

impl Scene {
    fn with(mut self, object: Call) -> Self {
        self.objects.push(object);
        self
    }
}

/// Makes one of many scenes: pinned rows see only their own nodes. In objects `@` becomes the
/// suffix of the node names.
pub fn beside(name: &'static str, scenes: Vec<Scene>) -> Scene {
    let mut all = scene(name, Vec::new(), Vec::new());
    for (number, scene) in scenes.into_iter().enumerate() {
        let suffix = format!(".{number}");
        for mut node in scene.nodes {
            let name = format!("{}{suffix}", node["metadata"]["name"].as_str().unwrap_or_default());
            node["metadata"]["name"] = json!(name);
            node["status"]["allocatable"][build::pin(&name)] = json!("10000");
            node["status"]["capacity"] = node["status"]["allocatable"].clone();
            all.nodes.push(node);
        }
        for Call { method, path, body } in scene.objects {
            let body = serde_json::from_str(&body.to_string().replace('@', &suffix)).unwrap();
            all.objects.push(Call { method, path, body });
        }
        for mut row in scene.rows {
            assert!(row.is_pinned, "{} sees the nodes of others", row.what);
            row.suffix.clone_from(&suffix);
            all.rows.push(row);
        }
    }
    all
}

/// Makes a row without pods.
pub fn given(what: impl Into<String>) -> Row {
    Row {
        what: what.into(),
        labels: json!({}),
        objects: Vec::new(),
        runs: Vec::new(),
        happened: Vec::new(),
        asked: Vec::new(),
        changes: Vec::new(),
        ours: None,
        counts: None,
        is_pinned: false,
        suffix: String::new(),
    }
}

/// Makes a row with a pod that may go to these nodes.
pub fn goes(what: impl Into<String>, pod: Value, nodes: &[&'static str]) -> Row {
    given(what).asks("asked", pod, Outcome::Goes(nodes.to_vec()))
}

impl Row {
    /// Returns the name of a node as in the table.
    fn plain<'n>(&self, node: &'n str) -> &'n str {
        node.strip_suffix(&*self.suffix).unwrap_or(node)
    }

    fn labelled(mut self, labels: Value) -> Self {
        self.labels = labels;
        self
    }

    fn has(mut self, object: Call) -> Self {
        self.objects.push(object);
        self
    }

    /// Adds a running pod of another scheduler.
    fn runs(mut self, node: &'static str, pod: Value) -> Self {
        self.runs.push((node, pod));
        self
    }

    fn happened(mut self, call: Call) -> Self {
        self.happened.push(call);
        self
    }

    fn asks(mut self, name: &'static str, pod: Value, outcome: Outcome) -> Self {
        self.asked.push(Asked { name, pod, outcomes: vec![outcome] });
        self
    }

    /// Adds a change, with the later outcome for each pod in order.
    fn then<const N: usize>(mut self, change: Vec<Call>, outcomes: [Outcome; N]) -> Self {
        assert_eq!(N, self.asked.len(), "{}", self.what);
        for (asked, outcome) in self.asked.iter_mut().zip(outcomes) {
            asked.outcomes.push(outcome);
        }
        self.changes.push(change);
        self
    }

    /// Sets the outcomes of our scheduler for the only pod, at first and after each change.
    fn ours(mut self, outcomes: Vec<Outcome>, why: &'static str) -> Self {
        assert_eq!(
            (self.asked.len(), outcomes.len()),
            (1, self.changes.len() + 1),
            "{}",
            self.what
        );
        self.ours = Some((outcomes, why));
        self
    }

    fn pinned(mut self) -> Self {
        self.is_pinned = true;
        self
    }

    /// Sets the reason why our scheduler counts other nodes or uses other words.
    fn counts(mut self, why: Option<&'static str>) -> Self {
        self.counts = why;
        self
    }
}
