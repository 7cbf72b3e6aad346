//! Placement constraints in the interface's form: the way back of `front::translate::constraints`.

use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::affinity_target_expression::AffinityTargetOperator;
use monoceros_proto::si::v1::composite_placement_constraint::CompositeType;
use monoceros_proto::si::v1::placement_constraint::Constraint as Kind;
use monoceros_proto::si::v1::timed_placement_constraint::DelayUnit as WireUnit;
use monoceros_rules::specs::constraint::{
    AskConstraint, Constraint, DelayUnit, Expression, Operator, Simple,
};

/// The constraint of an ask in the interface's form.
pub(super) fn written(constraint: &AskConstraint) -> si::PlacementConstraint {
    of(constraint.constraint())
}

fn of(constraint: &Constraint) -> si::PlacementConstraint {
    let composite = |kind: CompositeType, children: &[Constraint]| {
        Kind::CompositeConstraint(si::CompositePlacementConstraint {
            composite_type: kind.into(),
            child_constraints: children.iter().map(of).collect(),
            timed_child_constraints: Vec::new(),
        })
    };
    let kind = match constraint {
        Constraint::Simple(simple) => Kind::SimpleConstraint(of_simple(simple)),
        Constraint::All(children) => composite(CompositeType::And, children),
        Constraint::Any(children) => composite(CompositeType::Or, children),
        Constraint::InTurn(children) => {
            let timed = children.iter().map(|child| si::TimedPlacementConstraint {
                placement_constraint: Some(of(&child.constraint)),
                scheduling_delay: child.delay,
                delay_unit: match child.unit {
                    DelayUnit::Milliseconds => WireUnit::Milliseconds,
                    DelayUnit::Opportunities => WireUnit::Opportunities,
                }
                .into(),
            });
            Kind::CompositeConstraint(si::CompositePlacementConstraint {
                composite_type: CompositeType::DelayedOr.into(),
                child_constraints: Vec::new(),
                timed_child_constraints: timed.collect(),
            })
        }
    };
    si::PlacementConstraint { constraint: Some(kind) }
}

fn of_simple(simple: &Simple) -> si::SimplePlacementConstraint {
    let near = simple.near.as_ref().map(|near| si::AllocationAffinityConstraints {
        scope: near.scope.clone(),
        target_expressions: near.expressions.iter().map(of_expression).collect(),
        min_cardinality: near.min,
        max_cardinality: near.max,
        required: near.required,
    });
    let node = (!simple.node.is_empty()).then(|| si::NodeAffinityConstraints {
        target_expressions: simple.node.iter().map(of_expression).collect(),
    });
    si::SimplePlacementConstraint {
        node_affinity_constraint: node,
        allocation_affinity_attribute: near,
    }
}

fn of_expression(expression: &Expression) -> si::AffinityTargetExpression {
    let operator = match expression.operator {
        Operator::In => AffinityTargetOperator::In,
        Operator::NotIn => AffinityTargetOperator::NotIn,
        Operator::Exist => AffinityTargetOperator::Exist,
        Operator::NotExist => AffinityTargetOperator::NotExist,
    };
    si::AffinityTargetExpression {
        target_operator: operator.into(),
        target_key: expression.key.clone(),
        target_values: expression.values.clone(),
    }
}
