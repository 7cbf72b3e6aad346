//! Placement constraints of an ask, which only the oldest revision can say.
//!
//! Every expression of one means "one of the values is found under the key": there is a field for
//! other operators, but nothing that could be sent in it. One kind is scheduled today: a single
//! host, which is what a required node is. Any other that has an effect gets its ask rejected, so
//! that nothing runs where it must not.

use monoceros_proto::si::legacy::v0 as legacy;
use monoceros_proto::si::legacy::v0::placement_constraint::Constraint as Kind;

/// Node attributes that hold the name of the host.
const HOST_NAMES: [&str; 2] = ["si/hostname", "si.io/hostname"];

/// What a constraint comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// Any node will do.
    None,
    /// This node alone.
    RequiredNode(String),
    /// Something that is not scheduled yet: in words.
    NotApplied(&'static str),
}

impl Constraint {
    /// Reads the constraint of an ask. One without a kind, or with empty lists, has no effect.
    pub fn of(constraint: Option<legacy::PlacementConstraint>) -> Self {
        let Some(Kind::SimpleConstraint(simple)) = constraint.and_then(|kind| kind.constraint)
        else {
            return Self::None;
        };
        let near = simple.allocation_affinity_attribute.unwrap_or_default();
        if near.required && !near.traget_expressions.is_empty() {
            return Self::NotApplied("affinity to allocations");
        }
        let expressions = simple.node_affinity_constraint.unwrap_or_default().target_expressions;
        match &*expressions {
            [] => Self::None,
            [one] if HOST_NAMES.contains(&one.target_key.as_str()) => match &*one.target_values {
                [node] if !node.is_empty() => Self::RequiredNode(node.clone()),
                _ => Self::NotApplied("one of several hosts"),
            },
            _ => Self::NotApplied("node attributes"),
        }
    }
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

    fn near(required: bool) -> legacy::AllocationAffinityConstraints {
        legacy::AllocationAffinityConstraints {
            scope: "hostname".to_owned(),
            traget_expressions: vec![expression("role", &["db"])],
            max_cardinality: 1,
            required,
            ..legacy::AllocationAffinityConstraints::default()
        }
    }

    #[test]
    fn a_constraint_that_says_nothing_is_none() {
        assert_eq!(Constraint::of(None), Constraint::None);
        let unset = Some(legacy::PlacementConstraint { constraint: None });
        assert_eq!(Constraint::of(unset), Constraint::None);
        assert_eq!(Constraint::of(Some(constraint(&[], None))), Constraint::None);
        assert_eq!(Constraint::of(Some(constraint(&[], Some(near(false))))), Constraint::None);
    }

    #[test]
    fn one_host_is_a_required_node_in_either_spelling() {
        for key in HOST_NAMES {
            let read = Constraint::of(Some(constraint(&[expression(key, &["n1"])], None)));
            assert_eq!(read, Constraint::RequiredNode("n1".to_owned()));
        }
    }

    #[test]
    fn anything_else_with_an_effect_is_not_applied() {
        let host = expression("si/hostname", &["n1"]);
        for (expressions, near) in [
            (vec![expression("si/hostname", &["n1", "n2"])], None),
            (vec![expression("si/zone", &["z1"])], None),
            (vec![host.clone(), expression("si/zone", &["z1"])], None),
            (vec![host], Some(near(true))),
            (vec![], Some(near(true))),
        ] {
            let read = Constraint::of(Some(constraint(&expressions, near)));
            assert!(matches!(read, Constraint::NotApplied(_)), "{read:?}");
        }
    }
}
