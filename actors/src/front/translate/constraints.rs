//! Translation of the placement constraints of requests and task groups:
//! `docs/placement-constraints.md#forms`.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_config::task_groups;
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::affinity_target_expression::AffinityTargetOperator;
use monoceros_proto::si::v1::composite_placement_constraint::CompositeType;
use monoceros_proto::si::v1::placement_constraint::Constraint as Kind;
use monoceros_proto::si::v1::timed_placement_constraint::DelayUnit as WireUnit;
use monoceros_rules::specs::constraint::{
    AskConstraint, Constraint, DelayUnit, Expression, FaultKind, MAX_LEVELS, Near, Operator,
    Simple, Timed,
};
use monoceros_rules::specs::rejection::Rejection;
use monoceros_rules::values::texts::Texts;

/// The tag of a request with a constraint in JSON, for clients without the field.
const TAG: &str = "monoceros.io/placement-constraint";

/// The constraint of a request, from a field or a tag. If both are there, they must be equal.
pub(super) fn of_ask(
    key: &Arc<str>,
    field: Option<si::PlacementConstraint>,
    tags: &BTreeMap<String, String>,
) -> Result<Option<Arc<AskConstraint>>, Rejection> {
    let tag = tags.get(TAG);
    if field.is_none() && tag.is_none() {
        return Ok(None);
    }
    let refuse = |what: String| Rejection::Constraint { key: Arc::clone(key), what };
    let field = read(field).map_err(refuse)?;
    let tag = tag.map(|text| task_groups::constraint(text)).transpose();
    let tag = tag.map_err(refuse)?.flatten();
    let constraint = match (field, tag) {
        (Some(field), Some(tag)) if field != tag => {
            return Err(refuse(format!("the field and the tag `{TAG}` differ")));
        }
        (field, tag) => field.or(tag),
    };
    let Some(constraint) = constraint else { return Ok(None) };
    let checked = AskConstraint::new(constraint, Some(&Texts::from(tags.clone())));
    Ok(checked.map_err(|fault| refuse(fault.to_string()))?.map(Arc::new))
}

/// The constraint in a message; `None` if it has no kind. The error says what is wrong, and gives
/// the path of the child in question.
pub(super) fn read(
    constraint: Option<si::PlacementConstraint>,
) -> Result<Option<Constraint>, String> {
    let kind = constraint.and_then(|it| it.constraint);
    kind.map(|kind| Reader { place: Vec::new() }.constraint(kind)).transpose()
}

/// Reads a constraint from the top down. The bound on its levels limits the recursion.
struct Reader {
    /// The path of the present child: its position at each level, counted from 1.
    place: Vec<usize>,
}

impl Reader {
    fn fault<T>(&self, what: &str) -> Result<T, String> {
        let place: Vec<String> = self.place.iter().map(ToString::to_string).collect();
        if place.is_empty() {
            return Err(what.to_owned());
        }
        Err(format!("{what}, in child {}", place.join(".")))
    }

    fn constraint(&mut self, kind: Kind) -> Result<Constraint, String> {
        if self.place.len() == MAX_LEVELS {
            return Err(FaultKind::Levels.to_string());
        }
        let composite = match kind {
            Kind::SimpleConstraint(simple) => return self.simple(simple).map(Constraint::Simple),
            Kind::CompositeConstraint(composite) => composite,
        };
        let Ok(kind) = CompositeType::try_from(composite.composite_type) else {
            return self.fault(&format!("no type of number {}", composite.composite_type));
        };
        let (children, timed) = (composite.child_constraints, composite.timed_child_constraints);
        let is_right =
            if kind == CompositeType::DelayedOr { children.is_empty() } else { timed.is_empty() };
        if !is_right {
            return self.fault("children of the wrong kind for its type");
        }
        let mut at = 0;
        let mut child = |reader: &mut Self, child: si::PlacementConstraint| {
            at += 1;
            reader.place.push(at);
            // A child without a kind holds on all nodes, like an empty simple constraint.
            let read = match child.constraint {
                Some(kind) => reader.constraint(kind)?,
                None => Constraint::Simple(Simple::default()),
            };
            reader.place.pop();
            Ok::<_, String>(read)
        };
        Ok(match kind {
            CompositeType::And | CompositeType::Or => {
                let children = children.into_iter().map(|it| child(self, it));
                let children = children.collect::<Result<Vec<_>, _>>()?;
                if kind == CompositeType::And {
                    Constraint::All(children)
                } else {
                    Constraint::Any(children)
                }
            }
            CompositeType::DelayedOr => {
                let mut children = Vec::with_capacity(timed.len());
                for timed in timed {
                    let unit = match WireUnit::try_from(timed.delay_unit) {
                        Ok(WireUnit::Milliseconds) => DelayUnit::Milliseconds,
                        Ok(WireUnit::Opportunities) => DelayUnit::Opportunities,
                        Err(_) => {
                            let what = format!("no unit of number {}", timed.delay_unit);
                            return self.fault(&what);
                        }
                    };
                    let delay = timed.scheduling_delay;
                    let constraint = child(self, timed.placement_constraint.unwrap_or_default())?;
                    children.push(Timed { constraint, delay, unit });
                }
                Constraint::InTurn(children)
            }
        })
    }

    fn simple(&self, simple: si::SimplePlacementConstraint) -> Result<Simple, String> {
        let node = simple.node_affinity_constraint.unwrap_or_default().target_expressions;
        let near = simple.allocation_affinity_attribute.map(|near| {
            Ok::<_, String>(Near {
                scope: near.scope,
                expressions: self.expressions(near.target_expressions)?,
                min: near.min_cardinality,
                max: near.max_cardinality,
                required: near.required,
            })
        });
        Ok(Simple { node: self.expressions(node)?, near: near.transpose()? })
    }

    fn expressions(
        &self,
        list: Vec<si::AffinityTargetExpression>,
    ) -> Result<Vec<Expression>, String> {
        let expression = |it: si::AffinityTargetExpression| {
            let operator = match AffinityTargetOperator::try_from(it.target_operator) {
                Ok(AffinityTargetOperator::In) => Operator::In,
                Ok(AffinityTargetOperator::NotIn) => Operator::NotIn,
                Ok(AffinityTargetOperator::Exist) => Operator::Exist,
                Ok(AffinityTargetOperator::NotExist) => Operator::NotExist,
                Err(_) => {
                    return self.fault(&format!("no operator of number {}", it.target_operator));
                }
            };
            Ok(Expression { operator, key: it.target_key, values: it.target_values })
        };
        list.into_iter().map(expression).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(operator: i32, key: &str, values: &[&str]) -> si::AffinityTargetExpression {
        si::AffinityTargetExpression {
            target_operator: operator,
            target_key: key.to_owned(),
            target_values: values.iter().map(|value| (*value).to_owned()).collect(),
        }
    }

    fn simple(
        node: Vec<si::AffinityTargetExpression>,
        near: Option<si::AllocationAffinityConstraints>,
    ) -> si::PlacementConstraint {
        let node = si::NodeAffinityConstraints { target_expressions: node };
        let simple = si::SimplePlacementConstraint {
            node_affinity_constraint: Some(node),
            allocation_affinity_attribute: near,
        };
        si::PlacementConstraint { constraint: Some(Kind::SimpleConstraint(simple)) }
    }

    fn composite(
        kind: i32,
        children: Vec<si::PlacementConstraint>,
        timed: Vec<si::TimedPlacementConstraint>,
    ) -> si::PlacementConstraint {
        let composite = si::CompositePlacementConstraint {
            composite_type: kind,
            child_constraints: children,
            timed_child_constraints: timed,
        };
        si::PlacementConstraint { constraint: Some(Kind::CompositeConstraint(composite)) }
    }

    fn timed(
        constraint: si::PlacementConstraint,
        delay: i64,
        unit: i32,
    ) -> si::TimedPlacementConstraint {
        si::TimedPlacementConstraint {
            placement_constraint: Some(constraint),
            scheduling_delay: delay,
            delay_unit: unit,
        }
    }

    fn apart() -> si::AllocationAffinityConstraints {
        si::AllocationAffinityConstraints {
            scope: "rack".to_owned(),
            target_expressions: vec![expression(2, "app", &[])],
            min_cardinality: 2,
            max_cardinality: 3,
            required: true,
        }
    }

    fn given(
        field: Option<si::PlacementConstraint>,
        tag: Option<&str>,
    ) -> Result<Option<Arc<AskConstraint>>, String> {
        let tags = tag.map(|tag| (TAG.to_owned(), tag.to_owned())).into_iter().collect();
        of_ask(&Arc::from("k"), field, &tags).map_err(|reason| reason.to_string())
    }

    /// A constraint with every feature, as a message and as JSON.
    fn everything() -> (si::PlacementConstraint, &'static str) {
        let operators = (0..4).map(|operator| {
            let values: &[&str] = if operator < 2 { &["x", "y"] } else { &[] };
            expression(operator, "zone", values)
        });
        let or =
            composite(1, vec![simple(vec![], Some(apart())), composite(0, vec![], vec![])], vec![]);
        let and = composite(0, vec![simple(operators.collect(), None), or], vec![]);
        let field = composite(
            2,
            vec![],
            vec![timed(and, 5, 0), timed(si::PlacementConstraint::default(), 7, 1)],
        );
        let tag = r#"{"compositeConstraint": {"compositeType": "DELAYED_OR", "timedChildConstraints": [
            {"schedulingDelay": 5, "delayUnit": "MILLISECONDS", "placementConstraint":
                {"compositeConstraint": {"compositeType": "AND", "childConstraints": [
                    {"simpleConstraint": {"nodeAffinityConstraint": {"targetExpressions": [
                        {"targetKey": "zone", "targetValues": ["x", "y"]},
                        {"targetOperator": "NOT_IN", "targetKey": "zone", "targetValues": ["x", "y"]},
                        {"targetOperator": "EXIST", "targetKey": "zone"},
                        {"targetOperator": "NOT_EXIST", "targetKey": "zone"}]}}},
                    {"compositeConstraint": {"compositeType": "OR", "childConstraints": [
                        {"simpleConstraint": {"allocationAffinityAttribute": {"scope": "rack",
                            "targetExpressions": [{"targetOperator": "EXIST", "targetKey": "app"}],
                            "minCardinality": 2, "maxCardinality": 3, "required": true}}},
                        {"compositeConstraint": {"compositeType": "AND"}}]}}]}}},
            {"schedulingDelay": 7, "delayUnit": "OPPORTUNITIES", "placementConstraint": {}}]}}"#;
        (field, tag)
    }

    #[test]
    fn field_and_tag_of_a_constraint_must_agree() {
        let (field, tag) = everything();
        let read = given(Some(field.clone()), None).unwrap().unwrap();
        let by_tag = given(None, Some(tag)).unwrap().unwrap();
        assert_eq!(read.constraint(), by_tag.constraint());
        assert!(given(Some(field), Some(tag)).unwrap().is_some());
        let other = simple(vec![expression(0, "zone", &["x"])], None);
        assert_eq!(
            given(Some(other), Some(tag)).unwrap_err(),
            "`k`: its placement constraint cannot be taken: the field and the tag \
             `monoceros.io/placement-constraint` differ [R_CONSTRAINT]"
        );
    }

    #[test]
    fn empty_constraint_is_none() {
        assert!(given(None, None).unwrap().is_none());
        assert!(given(Some(si::PlacementConstraint::default()), None).unwrap().is_none());
        assert!(given(Some(simple(vec![], None)), Some("{}")).unwrap().is_none());
    }

    #[test]
    fn invalid_constraint_is_refused_with_its_path() {
        let named = || simple(vec![expression(2, "zone", &[])], None);
        let below = |child| composite(0, vec![named(), child], vec![]);
        let levels = |n| (1..n).fold(named(), |inner, _| composite(0, vec![inner], vec![]));
        assert!(given(Some(levels(8)), None).is_ok());
        for (constraint, expected) in [
            (
                below(simple(vec![expression(9, "zone", &[])], None)),
                "no operator of number 9, in child 2",
            ),
            (
                below(simple(vec![expression(0, "", &["x"])], None)),
                "an expression without a key, in child 2",
            ),
            (below(composite(7, vec![], vec![])), "no type of number 7, in child 2"),
            (levels(9), "more than 8 levels"),
            (composite(2, vec![], vec![timed(named(), 1, 5)]), "no unit of number 5"),
            (composite(2, vec![], vec![timed(named(), -1, 0)]), "a negative delay, in child 1"),
            (composite(2, vec![named()], vec![]), "children of the wrong kind for its type"),
            (
                composite(0, vec![named(); 65], vec![]),
                "more than 64 simple constraints, in child 65",
            ),
        ] {
            let fault = given(Some(constraint), None).unwrap_err();
            assert!(fault.contains(expected), "{fault}");
        }
    }
}
