//! Conversion of decisions to snapshots.

use std::sync::Arc;

use monoceros_rules::decisions::{
    CopiedDecision, DecisionKind, ShownDecision, ShownLevel, ShownPassed,
};

use crate::snapshot::{DecisionLevel, DecisionNodes, DecisionSnapshot, PassedOverNodes};

pub(crate) fn decision(copied: &CopiedDecision) -> DecisionSnapshot {
    let ShownDecision {
        number,
        at_ns,
        decided_ns,
        kind,
        ruled,
        application,
        key,
        pod,
        queue,
        node,
        levels,
        tried,
        passed,
        preempted_for,
    } = copied.kept().shown();
    let nodes = (kind != DecisionKind::Eviction).then(|| DecisionNodes {
        tried,
        passed_over: passed.into_iter().map(passed_over).collect(),
    });
    DecisionSnapshot {
        id: number,
        time: at_ns,
        decided_time: decided_ns.unwrap_or(0),
        kind: kind.name().to_owned(),
        ruled,
        application_id: application.to_string(),
        allocation_key: key.to_string(),
        pod: pod.to_string(),
        queue_name: queue.to_string(),
        node_id: node.to_string(),
        levels: levels.into_iter().map(level).collect(),
        nodes,
        preempted_for,
    }
}

fn level(level: ShownLevel) -> DecisionLevel {
    let ShownLevel { queue, order, chosen, runner_up, runner_up_pod, rule } = level;
    DecisionLevel {
        queue: queue.to_string(),
        order: order.to_owned(),
        chosen: chosen.to_string(),
        runner_up: or_nothing(runner_up),
        runner_up_pod: runner_up_pod.to_string(),
        rule,
    }
}

fn passed_over(passed: ShownPassed) -> PassedOverNodes {
    let ShownPassed { reason, nodes, example } = passed;
    PassedOverNodes { reason: reason.to_owned(), count: nodes, example: or_nothing(example) }
}

fn or_nothing(name: Option<Arc<str>>) -> String {
    name.map(|name| name.to_string()).unwrap_or_default()
}
