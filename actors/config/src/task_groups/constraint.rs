//! Reads placement constraints from JSON, with the field names of the interface.

use monoceros_rules::specs::constraint::{
    Constraint, DelayUnit, Expression, MAX_LEVELS, Near, Operator, Simple, Timed,
};
use monoceros_rules::values::names::shown;
use serde_json::Value;

use super::object::{Object, list, text};
use super::{priority as small, truth, whole};

/// Reads a constraint; one without a kind is `None`.
pub(super) fn read(value: Value, path: &str) -> Result<Option<Constraint>, String> {
    read_at(value, path, 1)
}

fn read_at(value: Value, path: &str, level: usize) -> Result<Option<Constraint>, String> {
    if level > MAX_LEVELS {
        return Err(format!("`{path}` is more than {MAX_LEVELS} levels deep"));
    }
    let mut keys = Object::of(value, path)?;
    let simple = keys.read("simpleConstraint", simple)?;
    let composite =
        keys.read("compositeConstraint", |value, path| composite(value, path, level))?;
    keys.done()?;
    match (simple, composite) {
        (Some(_), Some(_)) => Err(format!("`{path}` is both simple and composite")),
        (simple, composite) => Ok(simple.map(Constraint::Simple).or(composite)),
    }
}

fn simple(value: Value, path: &str) -> Result<Simple, String> {
    let mut keys = Object::of(value, path)?;
    let node = keys.read("nodeAffinityConstraint", |value, path| {
        let mut keys = Object::of(value, path)?;
        let node = keys.read("targetExpressions", expressions)?.unwrap_or_default();
        keys.done().map(|()| node)
    })?;
    let near = keys.read("allocationAffinityAttribute", near)?;
    keys.done()?;
    Ok(Simple { node: node.unwrap_or_default(), near })
}

fn near(value: Value, path: &str) -> Result<Near, String> {
    let mut keys = Object::of(value, path)?;
    let scope = keys.read("scope", text)?.unwrap_or_default();
    let spelled = keys.read("targetExpressions", expressions)?;
    // An earlier spelling of the interface.
    let misspelled = keys.read("tragetExpressions", expressions)?;
    if spelled.is_some() && misspelled.is_some() {
        return Err(format!("`{path}` has its expressions twice"));
    }
    let near = Near {
        scope,
        expressions: spelled.or(misspelled).unwrap_or_default(),
        min: keys.read("minCardinality", small)?.unwrap_or_default(),
        max: keys.read("maxCardinality", small)?.unwrap_or_default(),
        required: keys.read("required", truth)?.unwrap_or_default(),
    };
    keys.done().map(|()| near)
}

fn expressions(value: Value, path: &str) -> Result<Vec<Expression>, String> {
    list(value, path, |value, path| {
        let mut keys = Object::of(value, path)?;
        let operator = keys.read("targetOperator", |value, path| {
            let names = [Operator::In, Operator::NotIn, Operator::Exist, Operator::NotExist];
            named(value, path, &["IN", "NOT_IN", "EXIST", "NOT_EXIST"], &names)
        })?;
        let expression = Expression {
            operator: operator.unwrap_or_default(),
            key: keys.read("targetKey", text)?.unwrap_or_default(),
            values: keys
                .read("targetValues", |value, path| list(value, path, text))?
                .unwrap_or_default(),
        };
        keys.done().map(|()| expression)
    })
}

fn composite(value: Value, path: &str, level: usize) -> Result<Constraint, String> {
    let mut keys = Object::of(value, path)?;
    let kind = keys.read("compositeType", |value, path| {
        named(value, path, &["AND", "OR", "DELAYED_OR"], &[Kind::All, Kind::Any, Kind::InTurn])
    })?;
    // A child without a kind is always satisfied, like a simple constraint without expressions.
    let child = |value, path: &str| {
        let child = read_at(value, path, level + 1)?;
        Ok(child.unwrap_or_else(|| Constraint::Simple(Simple::default())))
    };
    let children = keys.read("childConstraints", |value, path| list(value, path, child))?;
    let timed = keys.read("timedChildConstraints", |value, path| {
        list(value, path, |value, path| {
            let mut keys = Object::of(value, path)?;
            let constraint = keys.read("placementConstraint", child)?;
            let timed = Timed {
                constraint: constraint.unwrap_or_else(|| Constraint::Simple(Simple::default())),
                delay: keys.read("schedulingDelay", whole)?.unwrap_or_default(),
                unit: keys.read("delayUnit", delay_unit)?.unwrap_or_default(),
            };
            keys.done().map(|()| timed)
        })
    })?;
    keys.done()?;
    match (kind.unwrap_or_default(), children.unwrap_or_default(), timed.unwrap_or_default()) {
        (Kind::InTurn, children, timed) if children.is_empty() => Ok(Constraint::InTurn(timed)),
        (Kind::All, children, timed) if timed.is_empty() => Ok(Constraint::All(children)),
        (Kind::Any, children, timed) if timed.is_empty() => Ok(Constraint::Any(children)),
        _ => Err(format!("`{path}` has children of the wrong kind for its type")),
    }
}

#[derive(Clone, Copy, Default)]
enum Kind {
    #[default]
    All,
    Any,
    InTurn,
}

fn delay_unit(value: Value, path: &str) -> Result<DelayUnit, String> {
    let units = [DelayUnit::Milliseconds, DelayUnit::Opportunities];
    named(value, path, &["MILLISECONDS", "OPPORTUNITIES"], &units)
}

/// Looks up a name, or its number in the interface, and returns its meaning.
fn named<T: Copy>(value: Value, path: &str, names: &[&str], meanings: &[T]) -> Result<T, String> {
    if value.is_number() {
        let number = whole(value, path)?;
        let found = usize::try_from(number).ok().and_then(|at| meanings.get(at));
        return found.copied().ok_or_else(|| {
            format!("`{path}` is {number}, it must be one of {}", names.join(", "))
        });
    }
    let written = text(value, path)?;
    let found = names.iter().zip(meanings).find(|(name, _)| **name == written);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        format!("`{path}` is `{}`, it must be one of {}", shown(&written), names.join(", "))
    })
}
