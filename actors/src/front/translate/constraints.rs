//! Placement constraints of requests and of task groups: `docs/placement-constraints.md#forms`.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_config::task_groups;
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::affinity_target_expression::AffinityTargetOperator;
use monoceros_proto::si::v1::composite_placement_constraint::CompositeType;
use monoceros_proto::si::v1::placement_constraint::Constraint as Kind;
use monoceros_proto::si::v1::timed_placement_constraint::DelayUnit as WireUnit;
use monoceros_rules::work::constraint::{
    AskConstraint, Constraint, DelayUnit, Expression, FaultKind, MAX_LEVELS, Near, Operator,
    Simple, Timed,
};
use monoceros_rules::work::rejection::Rejection;

/// The tag of a request that says in JSON what the field says.
const TAG: &str = "monoceros.io/placement-constraint";

/// The constraint of a request, which comes in a field or in a tag; both say the same if both are
/// there.
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
    let checked = AskConstraint::new(constraint, Some(tags));
    Ok(checked.map_err(|fault| refuse(fault.to_string()))?.map(Arc::new))
}

/// A constraint as a message has it; one without a kind says nothing. The error says what is wrong
/// and in which child of which child.
pub(super) fn read(
    constraint: Option<si::PlacementConstraint>,
) -> Result<Option<Constraint>, String> {
    let kind = constraint.and_then(|it| it.constraint);
    kind.map(|kind| Reader { place: Vec::new() }.constraint(kind)).transpose()
}

/// Reads a constraint from the top; the bound on its levels keeps the recursion short.
struct Reader {
    /// Which child of which child, counted from 1.
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
            // One without a kind holds everywhere, as one that expects nothing of its node.
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
