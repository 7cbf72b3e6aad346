//! Random rows, for which kube-scheduler is always right.
//!
//! The seed is the same as of random histories (`PROPTEST_RNG_SEED`), so a run plays the same rows
//! each time, and a failure prints its row. A known difference is left out: a spread constraint
//! with an empty selector.

use serde_json::{Value, json};

use super::run::alike;
use super::{
    Outcome, Row, Scene, beside, create, delete, given, node, own, patch, pod, scene, with,
};
use crate::cluster::Cluster;

/// Number of scenes, each with nodes of its own, and of rows in each.
const SCENES: usize = 1;
const ROWS: usize = 16;
/// Number of rows about amounts.
const SIZES: usize = 10;
const NODES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];
const KEYS: [&str; 4] = ["zone", "rack", "disk", "kubernetes.io/hostname"];

/// Random numbers from a seed.
struct Dice(u64);

impl Dice {
    fn of_run() -> Self {
        let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok());
        Self(seed.unwrap_or(7))
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap_or_default()
    }

    /// Returns true once in `n` times on average.
    fn once_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    fn node(&mut self, name: &str) -> Value {
        let mut labels = json!({});
        for (key, values) in [("zone", ["a", "b", "c"]), ("rack", ["1", "2", "3"])] {
            if !self.once_in(6) {
                labels[key] = json!(self.of(&values));
            }
        }
        if self.once_in(2) {
            labels["disk"] = json!(self.of(&["ssd", "hdd"]));
        }
        let mut spec = json!({"unschedulable": self.once_in(10)});
        if self.once_in(3) {
            let effect = self.of(&["NoSchedule", "NoExecute", "PreferNoSchedule"]);
            spec["taints"] = json!([{"key": self.of(&["k", "l"]), "value": "v", "effect": effect}]);
        }
        node(name, labels, json!({"spec": spec}))
    }

    fn labels(&mut self) -> Value {
        let mut labels = json!({});
        for (key, values) in
            [("app", ["db", "web"]), ("tier", ["front", "back"]), ("version", ["1", "2"])]
        {
            if !self.once_in(3) {
                labels[key] = json!(self.of(&values));
            }
        }
        labels
    }

    /// A selector of labels that is not empty.
    fn selector(&mut self) -> Value {
        let (key, values) =
            if self.once_in(2) { ("app", ["db", "web"]) } else { ("tier", ["front", "back"]) };
        let value = self.of(&values);
        match self.below(5) {
            0 => {
                json!({"matchExpressions": [{"key": key, "operator": "NotIn", "values": [value]}]})
            }
            1 => json!({"matchExpressions": [{"key": key, "operator": "Exists"}]}),
            2 => json!({"matchExpressions": [{"key": key, "operator": "DoesNotExist"}]}),
            _ => json!({"matchLabels": {key: value}}),
        }
    }

    /// A required term about pods.
    fn term(&mut self) -> Value {
        let mut term = json!({"topologyKey": self.of(&KEYS), "labelSelector": self.selector()});
        match self.below(8) {
            0 => term["labelSelector"] = json!({}),
            1 => term["matchLabelKeys"] = json!(["version"]),
            2 => term["mismatchLabelKeys"] = json!(["version"]),
            3 => term["namespaces"] = json!(["ns$"]),
            _ => {}
        }
        term
    }

    fn terms(&mut self, kind: &str) -> Value {
        let terms: Vec<_> = (0..=self.below(2)).map(|_| self.term()).collect();
        json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
    }

    fn spread(&mut self) -> Value {
        let mut rules = Vec::new();
        for key in KEYS {
            if !self.once_in(3) {
                continue;
            }
            let mut rule = json!({"topologyKey": key, "maxSkew": 1 + self.below(2),
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": self.selector()});
            match self.below(4) {
                0 => rule["minDomains"] = json!(1 + self.below(4)),
                1 => rule["matchLabelKeys"] = json!(["version"]),
                2 => rule["whenUnsatisfiable"] = json!("ScheduleAnyway"),
                _ => {}
            }
            for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
                if self.once_in(2) {
                    rule[policy] = json!(self.of(&["Honor", "Ignore"]));
                }
            }
            rules.push(rule);
        }
        json!({"topologySpreadConstraints": rules})
    }

    fn of_nodes(&mut self) -> Value {
        let key = self.of(&["zone", "rack", "disk"]);
        let value = self.of(&["a", "b", "1", "2", "ssd"]);
        let expression = match self.below(6) {
            0 => return json!({"nodeSelector": {key: value}}),
            1 => json!({"key": key, "operator": "Exists"}),
            2 => json!({"key": key, "operator": "DoesNotExist"}),
            3 => json!({"key": key, "operator": "NotIn", "values": [value]}),
            4 => json!({"key": "rack", "operator": self.of(&["Gt", "Lt"]), "values": ["2"]}),
            _ => json!({"key": key, "operator": "In", "values": [value, "b"]}),
        };
        let mut terms = vec![json!({"matchExpressions": [expression]})];
        if self.once_in(3) {
            let operator = self.of(&["In", "NotIn"]);
            terms.push(json!({"matchFields": [
                {"key": "metadata.name", "operator": operator, "values": [self.of(&NODES)]}]}));
        }
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": terms}}}})
    }

    fn tolerations(&mut self) -> Value {
        let key = self.of(&["k", "l", "node.kubernetes.io/unschedulable"]);
        json!({"tolerations": [match self.below(4) {
            0 => json!({"operator": "Exists"}),
            1 => json!({"key": key, "operator": "Exists", "effect": "NoSchedule"}),
            2 => json!({"key": key, "value": "v"}),
            _ => json!({"key": key, "operator": "Exists"}),
        }]})
    }

    fn spec(&mut self) -> Value {
        let mut spec = json!({});
        for (once_in, more) in [
            (3, Self::of_nodes as fn(&mut Self) -> Value),
            (2, Self::tolerations),
            (2, Self::spread),
            (3, |dice| dice.terms("podAffinity")),
            (3, |dice| dice.terms("podAntiAffinity")),
        ] {
            if self.once_in(once_in) {
                spec = with(&spec, &more(self));
            }
        }
        spec
    }

    fn row(&mut self) -> Row {
        let asked = pod(self.labels(), self.spec());
        let mut runs = Vec::new();
        let mut gone = Vec::new();
        for number in 0..self.below(7) {
            let spec = if self.once_in(5) { self.terms("podAntiAffinity") } else { json!({}) };
            runs.push((self.of(&NODES), pod(self.labels(), spec)));
            if self.once_in(8) {
                gone.push(delete(&own(&format!("pods/r{number}")), 30));
            }
        }
        let mut row = given(format!("{asked} beside {runs:?}, gone {}", gone.len()));
        row = row.asks("asked", asked, Outcome::Alike);
        for (node, pod) in runs {
            row = row.runs(node, pod);
        }
        gone.into_iter().fold(row, Row::happened)
    }
}

/// Rows about amounts.
impl Dice {
    fn container(&mut self) -> Value {
        let cpu = self.of(&["0", "1m", "250m", "0.5", "999m", "1", "1500m"]);
        let resources = match self.below(5) {
            0 => json!({"limits": {"cpu": cpu}}),
            1 => json!({"requests": {"cpu": cpu, "memory": "1Gi"}}),
            2 => json!({}),
            _ => json!({"requests": {"cpu": cpu}}),
        };
        json!({"resources": resources})
    }

    /// Up to four cores, with everything that adds to them.
    fn size(&mut self) -> Value {
        let containers: Vec<_> = (0..=self.below(2)).map(|_| self.container()).collect();
        let init = (0..self.below(4)).map(|_| {
            let one = self.container();
            let sidecar = json!({"restartPolicy": "Always"});
            if self.once_in(2) { with(&one, &sidecar) } else { one }
        });
        let init: Vec<_> = init.collect();
        let mut spec = json!({"containers": containers, "initContainers": init});
        if self.once_in(4) {
            spec["resources"] = json!({"requests": {"cpu": self.of(&["7", "7500m", "8"])}});
        }
        if self.once_in(4) {
            spec["runtimeClassName"] = json!("random");
        }
        pod(json!({}), spec)
    }

    /// Nodes of one core and more, with running pods.
    fn sizes(&mut self) -> Scene {
        let nodes = ["c1", "c2", "c3", "c5", "c8"];
        let asked = self.size();
        let runs: Vec<_> = (0..self.below(4)).map(|_| (self.of(&nodes), self.size())).collect();
        let mut row = given(format!("{asked} beside {runs:?}")).pinned();
        row = row.asks("asked", asked, Outcome::Alike);
        let phase = self.of(&["Succeeded", "Failed", "Running"]);
        if !runs.is_empty() && self.once_in(3) {
            let status = json!({"status": {"phase": phase}});
            row = row.happened(patch(&own("pods/r0/status"), status));
        }
        let row = runs.into_iter().fold(row, |row, (node, pod)| row.runs(node, pod));
        let nodes = nodes.map(|name| {
            let amounts = json!({"cpu": &name[1..], "memory": "3Gi"});
            node(name, json!({}), json!({"status": {"allocatable": amounts}}))
        });
        scene("sizes", nodes.to_vec(), vec![row])
    }
}

pub async fn random_rows(cluster: &mut Cluster) -> anyhow::Result<()> {
    let mut dice = Dice::of_run();
    let scenes = (0..SCENES).map(|_| {
        let nodes = NODES.map(|name| dice.node(name)).to_vec();
        let rows = (0..ROWS).map(|_| dice.row()).collect();
        scene("random", nodes, rows)
    });
    let mut scenes: Vec<_> = scenes.collect();
    let class = json!({"metadata": {"name": "random"}, "handler": "random",
        "overhead": {"podFixed": {"cpu": "300m"}}});
    let class = create("/apis/node.k8s.io/v1/runtimeclasses", class);
    let sizes = (0..SIZES).map(|_| dice.sizes());
    scenes.push(beside("random sizes", sizes.collect()).with(class));
    alike(cluster, &[], scenes).await
}
