//! The shapes of load in docs/performance.md, for the benchmarks that share them.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    dead_code,
    reason = "every benchmark uses a part of this"
)]

use std::fmt::Write as _;

/// An ask of these shapes.
pub const SMALL: [(&str, i64); 2] = [("memory", 10), ("vcore", 1)];

/// What is asked of which cluster.
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
    /// Predicates are answered later, so many at once; `None`: in the middle of a placement.
    pub in_flight: Option<usize>,
    /// How many of the last decisions are kept.
    pub kept: usize,
}

/// How many of the last decisions are kept by default.
pub const KEPT: usize = 4_096;

/// One partition with this order of nodes and these queues below root.
pub fn queues(policy: &str, names: &str) -> String {
    format!(
        "partitions: [{{name: default, nodesortpolicy: {{type: {policy}}}, \
         queues: [{{name: root, submitacl: '*', queues: [{names}]}}]}}]"
    )
}

/// Two queues of one application each; nodes that just hold all asks.
pub fn shape_u(nodes: usize) -> Shape {
    let per_node = 10_000 / i64::try_from(nodes).unwrap();
    Shape {
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
    }
}

/// One fifo leaf, many nodes.
pub fn shape_a(applications: usize, policy: &str) -> Shape {
    Shape {
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
    }
}
