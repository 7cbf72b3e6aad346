//! Placement constraints of the legacy dialect, translated to the present form.
//!
//! Every legacy expression means "one of these values is found under the key": it has an operator
//! field, but the dialect defines no other operator. An expression that lists no values means that
//! the key exists. A constraint to a single host is translated to a required node.

use monoceros_proto::si::legacy::v0 as legacy;
use monoceros_proto::si::legacy::v0::placement_constraint::Constraint as Kind;
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::affinity_target_expression::AffinityTargetOperator;

/// Node attributes that hold the host name.
const HOST_NAMES: [&str; 2] = ["si/hostname", "si.io/hostname"];

/// A translated constraint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Constraint {
    /// The only node that may be used, if the constraint names a single host.
    pub required_node: Option<String>,
    /// The rest of the constraint.
    pub placement: Option<si::PlacementConstraint>,
}

impl Constraint {
    /// Translates the constraint of an ask. A constraint without a kind, or with empty lists, has
    /// no effect.
    pub fn of(constraint: Option<legacy::PlacementConstraint>) -> Self {
        let Some(Kind::SimpleConstraint(simple)) = constraint.and_then(|kind| kind.constraint)
        else {
            return Self::default();
        };
        let near = simple.allocation_affinity_attribute;
        let near = near.filter(|near| !near.traget_expressions.is_empty());
        let mut node = simple.node_affinity_constraint.unwrap_or_default().target_expressions;
        let required_node = match &mut *node {
            [one] if HOST_NAMES.contains(&one.target_key.as_str()) => match &*one.target_values {
                [node] if !node.is_empty() => Some(node.clone()),
                _ => None,
            },
            _ => None,
        };
        if required_node.is_some() {
            node.clear();
        }
        if node.is_empty() && near.is_none() {
            return Self { required_node, placement: None };
        }
        let node = si::NodeAffinityConstraints { target_expressions: expressions(node) };
        let near = near.map(|near| si::AllocationAffinityConstraints {
            scope: near.scope,
            target_expressions: expressions(near.traget_expressions),
            min_cardinality: near.min_cardinality,
            max_cardinality: near.max_cardinality,
            required: near.required,
        });
        let simple = si::SimplePlacementConstraint {
            node_affinity_constraint: Some(node),
            allocation_affinity_attribute: near,
        };
        let kind = si::placement_constraint::Constraint::SimpleConstraint(simple);
        Self { required_node, placement: Some(si::PlacementConstraint { constraint: Some(kind) }) }
    }
}

fn expressions(list: Vec<legacy::AffinityTargetExpression>) -> Vec<si::AffinityTargetExpression> {
    let expression = |it: legacy::AffinityTargetExpression| {
        let operator = if it.target_values.is_empty() {
            AffinityTargetOperator::Exist
        } else {
            AffinityTargetOperator::In
        };
        si::AffinityTargetExpression {
            target_operator: operator.into(),
            target_key: it.target_key,
            target_values: it.target_values,
        }
    };
    list.into_iter().map(expression).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(key: &str, values: &[&str]) -> legacy::AffinityTargetExpression {
        legacy::AffinityTargetExpression {
            target_key: key.to_owned(),
            target_values: values.iter().map(|value| (*value).to_owned()).collect(),
            ..legacy::AffinityTargetExpression::default()
        }
    }

    fn constraint(
        expressions: &[legacy::AffinityTargetExpression],
        near: Option<legacy::AllocationAffinityConstraints>,
    ) -> legacy::PlacementConstraint {
        let simple = legacy::SimplePlacementConstraint {
            node_affinity_constraint: Some(legacy::NodeAffinityConstraints {
                target_expressions: expressions.to_vec(),
            }),
            allocation_affinity_attribute: near,
        };
        legacy::PlacementConstraint { constraint: Some(Kind::SimpleConstraint(simple)) }
    }

    fn near(
        expressions: &[legacy::AffinityTargetExpression],
    ) -> legacy::AllocationAffinityConstraints {
        legacy::AllocationAffinityConstraints {
            scope: "hostname".to_owned(),
            traget_expressions: expressions.to_vec(),
            max_cardinality: 1,
            required: true,
            ..legacy::AllocationAffinityConstraints::default()
        }
    }

    fn simple(read: Constraint) -> si::SimplePlacementConstraint {
        match read.placement.and_then(|it| it.constraint) {
            Some(si::placement_constraint::Constraint::SimpleConstraint(simple)) => simple,
            other => panic!("a simple one, not {other:?}"),
        }
    }

    #[test]
    fn empty_constraint_has_no_effect() {
        let none = Constraint::default();
        assert_eq!(Constraint::of(None), none);
        let unset = Some(legacy::PlacementConstraint { constraint: None });
        assert_eq!(Constraint::of(unset), none);
        assert_eq!(Constraint::of(Some(constraint(&[], None))), none);
        assert_eq!(Constraint::of(Some(constraint(&[], Some(near(&[]))))), none);
    }

    #[test]
    fn single_host_becomes_required_node() {
        for key in HOST_NAMES {
            let read = Constraint::of(Some(constraint(&[expression(key, &["n1"])], None)));
            assert_eq!(read.required_node.as_deref(), Some("n1"));
            assert_eq!(read.placement, None);
        }
        let apart = near(&[expression("role", &["db"])]);
        let read =
            Constraint::of(Some(constraint(&[expression(HOST_NAMES[0], &["n1"])], Some(apart))));
        assert_eq!(read.required_node.as_deref(), Some("n1"));
        let simple = simple(read);
        assert_eq!(simple.node_affinity_constraint.unwrap().target_expressions, []);
        assert_eq!(simple.allocation_affinity_attribute.unwrap().max_cardinality, 1);
    }

    #[test]
    fn expressions_become_in_or_exists() {
        let expressions = [expression("si/hostname", &["n1", "n2"]), expression("si/zone", &[])];
        let read = Constraint::of(Some(constraint(&expressions, None)));
        assert_eq!(read.required_node, None);
        let targets = simple(read).node_affinity_constraint.unwrap().target_expressions;
        let operators: Vec<_> =
            targets.iter().map(si::AffinityTargetExpression::target_operator).collect();
        assert_eq!(operators, [AffinityTargetOperator::In, AffinityTargetOperator::Exist]);
        assert_eq!(targets[0].target_values, ["n1", "n2"]);
    }
}
