//! Translation of the task groups of an application, from a field or a tag. If both are there, they
//! must be equal.

use std::sync::Arc;

use monoceros_config::task_groups;
use monoceros_proto::si::v1 as si;
use monoceros_rules::specs::ask::Preemption;
use monoceros_rules::specs::declaration::{Declaration, DeclaredGroup, Fault, Topology};
use monoceros_rules::specs::tags::REQUIRED_NODE;
use monoceros_rules::values::resources::NameHolder;

use super::checks::{amounts, shared};
use super::constraints;

/// The declaration of an application; `None` if it declares no task groups.
pub(super) fn declared(
    new: &mut si::AddApplicationRequest,
    names: &NameHolder,
) -> Option<Box<Result<Declaration, Fault>>> {
    let groups = std::mem::take(&mut new.task_groups);
    let field = (!groups.is_empty()).then(|| of_field(groups, names)).transpose();
    let tag = task_groups::of_tags(&new.tags, names);
    let agreed = field.and_then(|field| Declaration::agreed(field, tag?));
    agreed.transpose().map(Box::new)
}

fn of_field(groups: Vec<si::TaskGroup>, names: &NameHolder) -> Result<Declaration, Fault> {
    let groups = groups.into_iter().enumerate().map(|(at, group)| {
        let shown = Fault::shown_group(&group.name, at);
        declared_group(group, names).map_err(|what| Fault::Group { group: shown, what })
    });
    Declaration::new(groups.collect::<Result<_, _>>()?)
}

fn declared_group(group: si::TaskGroup, names: &NameHolder) -> Result<DeclaredGroup, String> {
    let member = group.member.as_ref().map(|member| amounts(Some(member), names)).transpose();
    let policy = group.preemption_policy;
    let preemption =
        policy.map(|it| Preemption::new(it.allow_preempt_self, it.allow_preempt_other));
    let constraint = constraints::read(group.constraint)
        .map_err(|fault| format!("its placement constraint has {fault}"))?;
    let required = group.tags.get(REQUIRED_NODE).filter(|node| !node.is_empty());
    Ok(DeclaredGroup {
        topology: group.topology.and_then(|it| Topology::new(it.required, it.preferred)),
        constraint,
        required_node: required.map(|node| Arc::from(node.as_str())),
        tags: shared(group.tags),
        priority: group.priority,
        preemption: preemption.unwrap_or_default(),
        ..DeclaredGroup::new(
            &group.name,
            i64::from(group.min_members),
            member.map_err(|why| why.to_string())?,
        )
    })
}

#[cfg(test)]
mod tests {
    use monoceros_proto::si::v1::composite_placement_constraint::CompositeType;
    use monoceros_proto::si::v1::placement_constraint::Constraint as Kind;
    use monoceros_rules::specs::constraint::MAX_LEVELS;

    use super::*;

    fn resource(vcore: i64) -> si::Resource {
        let resources = [("vcore".to_owned(), si::Quantity { value: vcore })].into();
        si::Resource { resources }
    }

    fn group(name: &str) -> si::TaskGroup {
        si::TaskGroup {
            name: name.to_owned(),
            min_members: 2,
            member: Some(resource(1_000)),
            ..si::TaskGroup::default()
        }
    }

    fn read(groups: &[si::TaskGroup], tag: Option<&str>) -> Option<Result<Declaration, Fault>> {
        let tag = tag.map(|text| (task_groups::TAG.to_owned(), text.to_owned()));
        let mut new = si::AddApplicationRequest {
            task_groups: groups.to_vec(),
            tags: tag.into_iter().collect(),
            ..si::AddApplicationRequest::default()
        };
        declared(&mut new, &NameHolder::default()).map(|declared| *declared)
    }

    fn fault(groups: &[si::TaskGroup], tag: Option<&str>) -> String {
        read(groups, tag).unwrap().unwrap_err().to_string()
    }

    #[test]
    fn field_and_tag_of_task_groups_must_agree() {
        let tag = r#"[{"name": "w", "minMember": 2, "minResource": {"vcore": 1}}]"#;
        assert_eq!(read(&[], None), None);
        let field = read(&[group("w")], None);
        assert!(field.as_ref().unwrap().is_ok());
        assert_eq!(read(&[], Some(tag)), field);
        assert_eq!(read(&[group("w")], Some(tag)), field);
        assert_eq!(fault(&[group("v")], Some(tag)), Fault::Differ.to_string());
        assert_eq!(fault(&[group("w")], Some("[]")), Fault::Empty.to_string());
    }

    #[test]
    fn a_fault_of_the_field_names_the_group() {
        let negative = si::TaskGroup { member: Some(resource(-1)), ..group("w") };
        assert!(
            fault(&[negative], None).starts_with("task group `w`: a member takes {vcore: -1m}")
        );
        let zero = si::TaskGroup { min_members: 0, ..group("w") };
        assert!(fault(&[zero], None).starts_with("task group `w`: needs 0 members"));
        assert!(
            fault(&[group("w"), group("")], None).starts_with("task group number 2: has no name")
        );
        let much = si::TaskGroup { member: Some(resource(i64::MAX)), ..group("w") };
        assert!(fault(&[much], None).starts_with("task group `w`: "));
        let sizeless = si::TaskGroup { member: Some(si::Resource::default()), ..group("w") };
        let read = read(&[sizeless], None).unwrap().unwrap();
        assert_eq!(read.groups(), [DeclaredGroup::new("w", 2, None)]);
    }

    #[test]
    fn constraints_of_the_field_are_those_of_the_tag() {
        let constraint = |operator: i32| {
            let expression = si::AffinityTargetExpression {
                target_operator: operator,
                target_key: "zone".into(),
                target_values: vec!["a".into()],
            };
            let node = si::NodeAffinityConstraints { target_expressions: vec![expression] };
            let simple = si::SimplePlacementConstraint {
                node_affinity_constraint: Some(node),
                allocation_affinity_attribute: None,
            };
            let one = si::PlacementConstraint { constraint: Some(Kind::SimpleConstraint(simple)) };
            let any = si::CompositePlacementConstraint {
                composite_type: CompositeType::Or.into(),
                child_constraints: vec![one],
                ..si::CompositePlacementConstraint::default()
            };
            let constraint =
                si::PlacementConstraint { constraint: Some(Kind::CompositeConstraint(any)) };
            si::TaskGroup { constraint: Some(constraint), ..group("w") }
        };
        let tag = r#"[{"name": "w", "minMember": 2, "minResource": {"vcore": 1}, "constraint":
            {"compositeConstraint": {"compositeType": "OR", "childConstraints": [
                {"simpleConstraint": {"nodeAffinityConstraint": {"targetExpressions": [
                    {"targetOperator": "NOT_IN", "targetKey": "zone", "targetValues": ["a"]}]}}}
            ]}}}]"#;
        assert!(read(&[constraint(1)], Some(tag)).unwrap().is_ok());
        assert_eq!(fault(&[constraint(0)], Some(tag)), Fault::Differ.to_string());
        let unknown =
            "task group `w`: its placement constraint has no operator of number 7, in child 1";
        assert_eq!(fault(&[constraint(7)], None), unknown);
    }

    #[test]
    fn a_constraint_nested_too_deep_is_refused() {
        let mut kind = Kind::SimpleConstraint(si::SimplePlacementConstraint::default());
        for _ in 0..MAX_LEVELS {
            let inner = si::PlacementConstraint { constraint: Some(kind) };
            kind = Kind::CompositeConstraint(si::CompositePlacementConstraint {
                child_constraints: vec![inner],
                ..si::CompositePlacementConstraint::default()
            });
        }
        let constraint = Some(si::PlacementConstraint { constraint: Some(kind) });
        let deep = si::TaskGroup { constraint, ..group("w") };
        assert!(fault(&[deep], None).ends_with("has more than 8 levels"));
    }
}
