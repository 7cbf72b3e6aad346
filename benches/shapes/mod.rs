//! The shapes of load in docs/performance.md, for several benchmarks.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    dead_code,
    reason = "every benchmark uses a part of this"
)]

use std::fmt::Write as _;

/// An ask of these shapes.
pub const SMALL: [(&str, i64); 2] = [("memory", 10), ("vcore", 1)];

/// A cluster with its asks.
#[derive(Clone)]
pub struct Shape {
    pub name: String,
    pub config: String,
    pub nodes: usize,
    pub capacity: Vec<(&'static str, i64)>,
    pub applications: usize,
    pub asks: usize,
    pub parked: usize,
    pub queue: fn(usize) -> String,
    /// Most predicates that are answered asynchronously at a time. `None`: predicates are answered
    /// during a placement.
    pub in_flight: Option<usize>,
    /// Number of recent decisions that are recorded.
    pub kept: usize,
    /// Whether events are recorded.
    pub events: bool,
    /// The reference scheduler's rate per second. Empty if it was not measured.
    pub reference: &'static str,
}

/// Default number of recorded decisions.
pub const KEPT: usize = 4_096;

/// Makes one partition with this order of nodes and these queues below root.
pub fn queues(policy: &str, names: &str) -> String {
    format!(
        "partitions: [{{name: default, nodesortpolicy: {{type: {policy}}}, \
         queues: [{{name: root, submitacl: '*', queues: [{names}]}}]}}]"
    )
}

/// Two queues of one application each. The nodes exactly fit all asks.
pub fn shape_u(nodes: usize) -> Shape {
    let per_node = 10_000 / i64::try_from(nodes).unwrap();
    Shape {
        reference: if nodes == 5_000 { "3,200–3,400" } else { "" },
        name: format!("U {nodes} nodes"),
        config: queues("fair", "{name: a}, {name: b}"),
        nodes,
        capacity: vec![("memory", 10 * per_node), ("vcore", per_node)],
        applications: 2,
        asks: 10_000,
        parked: 0,
        queue: |number| ["root.a", "root.b"][number % 2].to_owned(),
        in_flight: None,
        kept: KEPT,
        events: true,
    }
}

/// One FIFO leaf, many nodes.
pub fn shape_a(applications: usize, policy: &str) -> Shape {
    Shape {
        reference: match (applications, policy) {
            (2, "fair") => "530",
            (100, "fair") => "8,900",
            (1_000, "fair") => "2,900",
            _ => "",
        },
        name: format!("A {applications} apps {policy}"),
        config: queues(policy, "{name: a}"),
        nodes: 10_000,
        capacity: vec![("memory", 50), ("vcore", 5)],
        applications,
        asks: 50_000,
        parked: 0,
        queue: |_| "root.a".to_owned(),
        in_flight: None,
        kept: KEPT,
        events: true,
    }
}

/// A hundred fair leaves under ten parents.
pub fn shape_b() -> Shape {
    let mut config = "partitions:\n- name: default\n  queues:\n  - name: root\n    submitacl: '*'\n    queues:\n"
        .to_owned();
    for parent in 0..10 {
        let _ = writeln!(config, "    - name: p{parent}\n      parent: true\n      queues:");
        for leaf in 0..10 {
            let _ = writeln!(
                config,
                "      - name: l{leaf}\n        properties: {{application.sort.policy: fair}}"
            );
        }
    }
    Shape {
        reference: "4,350",
        name: "B 100 fair leaves".into(),
        config,
        nodes: 1_000,
        capacity: vec![("memory", 500), ("vcore", 50)],
        applications: 1_000,
        asks: 50_000,
        parked: 0,
        queue: |number| format!("root.p{}.l{}", number % 10, number / 10 % 10),
        in_flight: None,
        kept: KEPT,
        events: true,
    }
}

/// Many applications of a few asks in one leaf.
pub fn shape_small() -> Shape {
    Shape {
        name: "500 apps of 20 asks".into(),
        nodes: 1_000,
        capacity: vec![("memory", 100), ("vcore", 10)],
        asks: 10_000,
        reference: "6,335",
        ..shape_a(500, "fair")
    }
}

/// The shapes of a quota-fair engine for batch jobs (in Go, in process, on one core of an AMD EPYC,
/// by its own benchmark): fair queues with equal guarantees.
pub fn shape_quota_fair(queues: usize, nodes: usize, asks: usize) -> Shape {
    let per_node = i64::try_from(asks.div_ceil(nodes)).unwrap();
    let part = i64::try_from(asks / queues).unwrap();
    let mut config =
        "partitions:\n- name: default\n  queues:\n  - name: root\n    submitacl: '*'\n    queues:\n".to_owned();
    for queue in 0..queues {
        let _ = writeln!(
            config,
            "    - {{name: q{queue:03}, resources: {{guaranteed: {{memory: {}, vcore: {part}m}}}}}}",
            10 * part
        );
    }
    Shape {
        name: format!("Q {asks} asks, {nodes} nodes, {queues} queues"),
        config,
        nodes,
        capacity: vec![("memory", 10 * per_node), ("vcore", per_node)],
        applications: queues,
        asks,
        parked: 0,
        queue: |number| format!("root.q{number:03}"),
        in_flight: None,
        kept: KEPT,
        events: true,
        reference: "",
    }
}
