//! Placement constraints, in a form that can be checked.
//!
//! The interface has two forms with the same content, a message and JSON. Both become this type, so
//! that they can be compared and have the same bounds. The rules for people are in
//! `docs/placement-constraints.md`; searches with constraints are in `nodes/affinity/`. This module
//! has the *meaning* of a constraint: whether an expression holds for some attributes or tags, and
//! the faults because of which a constraint is rejected.
//!
//! # Bounds
//! At most [`MAX_LEVELS`] levels, of which a simple constraint is the last, and at most
//! [`MAX_SIMPLE`] simple constraints in all. A constraint without children counts as one.
//!
//! ```
//! use monoceros_rules::specs::constraint::{Constraint, Expression, Operator, Simple};
//!
//! let rack = |key: &str| Simple {
//!     node: vec![Expression {
//!         operator: Operator::Exist,
//!         key: key.to_owned(),
//!         values: Vec::new(),
//!     }],
//!     near: None,
//! };
//! let named = Constraint::All(vec![Constraint::Simple(rack("rack"))]);
//! assert!(named.check().is_ok());
//! let unnamed = Constraint::All(vec![Constraint::Simple(rack(""))]);
//! let fault = unnamed.check().unwrap_err();
//! assert_eq!(fault.to_string(), "an expression without a key, in child 1");
//! ```

use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::values::hashing::Seeded;
use crate::values::texts::Texts;
use smallvec::SmallVec;

/// The most levels of a constraint.
pub const MAX_LEVELS: usize = 8;
/// The most simple constraints in one.
pub const MAX_SIMPLE: usize = 64;

/// A constraint on the node of an allocation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Constraint {
    /// A condition on the node and on allocations near it.
    Simple(Simple),
    /// All children hold.
    All(Vec<Constraint>),
    /// At least one of the children holds.
    Any(Vec<Constraint>),
    /// At least one of the children holds; each is tried only after the delays of those before it.
    InTurn(Vec<Timed>),
}

/// A condition on the node and on allocations near it; both hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Simple {
    /// Expressions on the attributes of the node, all of which hold.
    pub node: Vec<Expression>,
    /// The condition on the number of allocations near the node.
    pub near: Option<Near>,
}

/// The range of the number of allocations that are near each other and have certain tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Near {
    /// The node attribute: nodes with the same value of it are near each other. Empty: each node by
    /// itself.
    pub scope: String,
    /// Expressions on the tags of an allocation, which is counted only if all hold.
    pub expressions: Vec<Expression>,
    /// The least number, the new allocation included.
    pub min: i32,
    /// The largest number, the new allocation included; 0 or less: unlimited.
    pub max: i32,
    /// Whether other nodes are never used. If not, they are used after the nodes that satisfy this.
    pub required: bool,
}

/// An expression on the value under a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Expression {
    /// The operator.
    pub operator: Operator,
    /// The key.
    pub key: String,
    /// The values.
    pub values: Vec<String>,
}

/// The operator of an expression.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Operator {
    /// The value is one of those listed.
    #[default]
    In,
    /// The value is none of those listed, or there is no value.
    NotIn,
    /// There is a value.
    Exist,
    /// There is no value.
    NotExist,
}

/// A constraint, and the delay after which the next one is tried, too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timed {
    /// The constraint.
    pub constraint: Constraint,
    /// The delay, in the unit.
    pub delay: i64,
    /// The unit.
    pub unit: DelayUnit,
}

/// The unit of a delay.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum DelayUnit {
    /// The delay is in milliseconds.
    #[default]
    Milliseconds,
    /// The delay is a number of tries without result.
    Opportunities,
}

/// A fault of a constraint, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstraintFault {
    /// The fault.
    pub kind: FaultKind,
    /// The indices of the children that lead to the fault, counted from 1; empty: the constraint
    /// itself.
    pub place: SmallVec<[usize; 4]>,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The constraint is nested deeper than [`MAX_LEVELS`].
    Levels,
    /// The constraint has more than [`MAX_SIMPLE`] simple constraints.
    Simple,
    /// An expression has an empty key.
    Key,
    /// A constraint with delays is below another constraint.
    Delays,
    /// A delay is negative.
    Delay,
    /// A constraint that is only preferred is a child of an OR below an AND.
    Preferred,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Levels => write!(f, "more than {MAX_LEVELS} levels"),
            Self::Simple => write!(f, "more than {MAX_SIMPLE} simple constraints"),
            Self::Key => f.write_str("an expression without a key"),
            Self::Delays => f.write_str("DELAYED_OR below another constraint"),
            Self::Delay => f.write_str("a negative delay"),
            Self::Preferred => f.write_str("`required: false` in an OR below an AND"),
        }
    }
}

impl fmt::Display for ConstraintFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)?;
        for (at, child) in self.place.iter().enumerate() {
            write!(f, "{}{child}", if at == 0 { ", in child " } else { "." })?;
        }
        Ok(())
    }
}

impl Constraint {
    /// Checks for faults from the top down; the error is the first one.
    pub fn check(&self) -> Result<(), ConstraintFault> {
        Check { place: SmallVec::new(), n_simple: 0 }.check(self, false)
    }

    /// Returns the approximate memory in bytes.
    pub fn bytes(&self) -> u64 {
        let texts = |expressions: &[Expression]| -> usize {
            let of = |it: &Expression| 64 + it.key.len() + texts_of(&it.values);
            expressions.iter().map(of).sum()
        };
        match self {
            Self::Simple(simple) => {
                let near = simple.near.as_ref();
                let near = near.map_or(0, |near| near.scope.len() + texts(&near.expressions));
                (128 + texts(&simple.node) + near) as u64
            }
            Self::All(children) | Self::Any(children) => {
                128 + children.iter().map(Self::bytes).sum::<u64>()
            }
            Self::InTurn(children) => {
                128 + children.iter().map(|child| child.constraint.bytes()).sum::<u64>()
            }
        }
    }

    /// Returns the simple constraints, from left to right.
    pub fn simple(&self) -> Vec<&Simple> {
        match self {
            Self::Simple(simple) => vec![simple],
            Self::All(children) | Self::Any(children) => {
                children.iter().flat_map(Self::simple).collect()
            }
            Self::InTurn(children) => {
                children.iter().flat_map(|child| child.constraint.simple()).collect()
            }
        }
    }
}

fn texts_of(values: &[String]) -> usize {
    values.iter().map(|value| 24 + value.len()).sum()
}

/// A walk through a constraint from the top.
struct Check {
    place: SmallVec<[usize; 4]>,
    n_simple: usize,
}

impl Check {
    fn check(&mut self, constraint: &Constraint, below_all: bool) -> Result<(), ConstraintFault> {
        if self.place.len() == MAX_LEVELS {
            return self.fault(FaultKind::Levels);
        }
        match constraint {
            Constraint::Simple(simple) => {
                self.count()?;
                let near = simple.near.iter().flat_map(|near| &near.expressions);
                if simple.node.iter().chain(near).any(|expression| expression.key.is_empty()) {
                    return self.fault(FaultKind::Key);
                }
                Ok(())
            }
            Constraint::All(children) => self.children(children.iter(), true),
            Constraint::Any(children) => {
                if below_all && children.iter().any(Constraint::is_preferred) {
                    return self.fault(FaultKind::Preferred);
                }
                self.children(children.iter(), below_all)
            }
            Constraint::InTurn(_) if !self.place.is_empty() => self.fault(FaultKind::Delays),
            Constraint::InTurn(children) => {
                if let Some(at) = children.iter().position(|child| child.delay < 0) {
                    self.place.push(at + 1);
                    return self.fault(FaultKind::Delay);
                }
                self.children(children.iter().map(|child| &child.constraint), false)
            }
        }
    }

    fn children<'a>(
        &mut self,
        children: impl ExactSizeIterator<Item = &'a Constraint>,
        below_all: bool,
    ) -> Result<(), ConstraintFault> {
        if children.len() == 0 {
            self.count()?;
        }
        for (at, child) in children.enumerate() {
            self.place.push(at + 1);
            self.check(child, below_all)?;
            self.place.pop();
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), ConstraintFault> {
        self.n_simple += 1;
        if self.n_simple > MAX_SIMPLE { self.fault(FaultKind::Simple) } else { Ok(()) }
    }

    fn fault(&self, kind: FaultKind) -> Result<(), ConstraintFault> {
        Err(ConstraintFault { kind, place: self.place.clone() })
    }
}

impl Constraint {
    /// Whether any simple constraint in it is only preferred.
    fn is_preferred(&self) -> bool {
        let is_preferred = |simple: &Simple| {
            simple.near.as_ref().is_some_and(|near| !near.required && near.counts())
        };
        self.simple().into_iter().any(is_preferred)
    }
}

impl Near {
    /// Whether it limits the number at all.
    pub fn counts(&self) -> bool {
        self.min > 1 || self.max > 0
    }

    /// Whether it counts an allocation with these tags.
    pub fn matches(&self, tags: Option<&Texts>) -> bool {
        self.expressions.iter().all(|expression| expression.holds(tags))
    }
}

impl Simple {
    /// Whether it allows a node with these attributes; allocations near it are not considered.
    pub fn allows(&self, attributes: Option<&Texts>) -> bool {
        self.node.iter().all(|expression| expression.holds(attributes))
    }
}

impl Expression {
    /// Whether the expression holds for these attributes or tags.
    pub fn holds(&self, of: Option<&Texts>) -> bool {
        let value = of.and_then(|of| of.get(&self.key));
        let names = |value: &str| self.values.iter().any(|known| known == value);
        match self.operator {
            Operator::In => value.is_some_and(names),
            Operator::NotIn => !value.is_some_and(names),
            Operator::Exist => value.is_some(),
            Operator::NotExist => value.is_none(),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = || self.values.join(", ");
        match self.operator {
            Operator::In => write!(f, "{} IN [{}]", self.key, values()),
            Operator::NotIn => write!(f, "{} NOT_IN [{}]", self.key, values()),
            Operator::Exist => write!(f, "{} EXIST", self.key),
            Operator::NotExist => write!(f, "{} NOT_EXIST", self.key),
        }
    }
}

/// The constraint of an ask, and for each of its simple constraints whether that counts the ask
/// itself. Together they decide which nodes the ask may use. Asks for which they are equal are
/// tried as one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "WrittenConstraint", into = "WrittenConstraint")]
pub struct AskConstraint {
    constraint: Constraint,
    counts_itself: u64,
    /// The hash of both fields, so that the constraints of a thousand asks can be compared without
    /// reading them.
    hash: u64,
}

/// The serialized form of an [`AskConstraint`].
#[derive(Clone, Serialize, Deserialize)]
struct WrittenConstraint {
    constraint: Constraint,
    counts_itself: u64,
}

impl AskConstraint {
    /// Builds the constraint of an ask with these tags; `None` if it constrains nothing.
    ///
    /// # Errors
    /// The fault of the constraint.
    pub fn new(
        constraint: Constraint,
        tags: Option<&Texts>,
    ) -> Result<Option<Self>, ConstraintFault> {
        constraint.check()?;
        let simple = constraint.simple();
        if simple.iter().all(|it| it.node.is_empty() && !it.near.as_ref().is_some_and(Near::counts))
        {
            return Ok(None);
        }
        let mut counts_itself = 0;
        for (at, simple) in simple.into_iter().enumerate() {
            let counts = simple.near.as_ref().is_some_and(|near| near.matches(tags));
            counts_itself |= u64::from(counts) << at;
        }
        Ok(Some(WrittenConstraint { constraint, counts_itself }.into()))
    }

    /// Returns a constraint that admits every node.
    pub(crate) fn none() -> Self {
        WrittenConstraint { constraint: Constraint::All(Vec::new()), counts_itself: 0 }.into()
    }

    /// Returns the constraint itself.
    pub fn constraint(&self) -> &Constraint {
        &self.constraint
    }

    /// Whether one of its [simple constraints](Constraint::simple), by its index among them,
    /// counts the ask itself, because of the ask's tags.
    pub fn counts_itself(&self, simple: usize) -> bool {
        self.counts_itself >> simple & 1 == 1
    }
}

impl From<WrittenConstraint> for AskConstraint {
    fn from(written: WrittenConstraint) -> Self {
        let WrittenConstraint { constraint, counts_itself } = written;
        let hash = Seeded.hash_one((&constraint, counts_itself));
        Self { constraint, counts_itself, hash }
    }
}

impl From<AskConstraint> for WrittenConstraint {
    fn from(it: AskConstraint) -> Self {
        Self { constraint: it.constraint, counts_itself: it.counts_itself }
    }
}

impl PartialEq for AskConstraint {
    fn eq(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.hash, it.counts_itself);
        of(self) == of(other) && self.constraint == other.constraint
    }
}

impl Eq for AskConstraint {}

impl PartialOrd for AskConstraint {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The order does not depend on hashes.
impl Ord for AskConstraint {
    fn cmp(&self, other: &Self) -> Ordering {
        let of = |it: &Self| it.counts_itself;
        self.constraint.cmp(&other.constraint).then_with(|| of(self).cmp(&of(other)))
    }
}

impl Hash for AskConstraint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simple() -> Constraint {
        Constraint::Simple(Simple::default())
    }

    fn kind(constraint: &Constraint) -> Option<FaultKind> {
        constraint.check().err().map(|fault| fault.kind)
    }

    fn nested(levels: usize) -> Constraint {
        (1..levels).fold(simple(), |inner, _| Constraint::Any(vec![inner]))
    }

    #[test]
    fn eight_levels_are_taken_and_nine_are_not() {
        assert_eq!(nested(8).check(), Ok(()));
        assert_eq!(kind(&nested(9)), Some(FaultKind::Levels));
    }

    #[test]
    fn sixty_four_simple_constraints_are_taken_and_one_more_is_not() {
        let wide =
            |n: usize| Constraint::All(vec![Constraint::Any(vec![simple(); n - 1]), simple()]);
        assert_eq!(wide(64).check(), Ok(()));
        assert_eq!(kind(&wide(65)), Some(FaultKind::Simple));
        let empty = Constraint::All(vec![Constraint::Any(Vec::new()); 65]);
        assert_eq!(kind(&empty), Some(FaultKind::Simple));
    }

    #[test]
    fn delays_stand_at_the_top_and_none_is_negative() {
        let after = |delay| {
            let unit = DelayUnit::Milliseconds;
            Constraint::InTurn(vec![Timed { constraint: simple(), delay, unit }])
        };
        assert_eq!(after(0).check(), Ok(()));
        assert_eq!(kind(&after(-1)), Some(FaultKind::Delay));
        assert_eq!(kind(&Constraint::All(vec![after(0)])), Some(FaultKind::Delays));
    }

    #[test]
    fn every_expression_has_a_key_those_of_allocations_too() {
        let expression = |key: &str| {
            let (operator, values) = (Operator::In, vec!["a".to_owned()]);
            Expression { operator, key: key.to_owned(), values }
        };
        let near = |key| Near { expressions: vec![expression(key)], ..Near::default() };
        let of = |node, near| Constraint::Simple(Simple { node: vec![node], near: Some(near) });
        assert_eq!(of(expression("a"), near("b")).check(), Ok(()));
        assert_eq!(kind(&of(expression(""), near("b"))), Some(FaultKind::Key));
        assert_eq!(kind(&of(expression("a"), near(""))), Some(FaultKind::Key));
        let deep =
            Constraint::All(vec![simple(), Constraint::Any(vec![of(expression(""), near("b"))])]);
        let fault = deep.check().unwrap_err().to_string();
        assert_eq!(fault, "an expression without a key, in child 2.1");
    }

    #[test]
    fn what_is_only_preferred_is_no_alternative_below_an_and() {
        let near = Near { max: 1, ..Near::default() };
        let preferred = Constraint::Simple(Simple { node: Vec::new(), near: Some(near) });
        let any = Constraint::Any(vec![simple(), preferred.clone()]);
        assert_eq!(any.check(), Ok(()));
        assert_eq!(Constraint::All(vec![preferred]).check(), Ok(()));
        assert_eq!(kind(&Constraint::All(vec![any])), Some(FaultKind::Preferred));
    }

    #[test]
    fn each_operator_says_what_is_under_the_key() {
        let attributes = Texts::from_iter([("zone", "a")]);
        let table = [
            (Operator::In, "zone", true),
            (Operator::In, "rack", false),
            (Operator::NotIn, "zone", false),
            (Operator::NotIn, "rack", true),
            (Operator::Exist, "zone", true),
            (Operator::Exist, "rack", false),
            (Operator::NotExist, "zone", false),
            (Operator::NotExist, "rack", true),
        ];
        for (operator, key, holds) in table {
            let values = vec!["b".to_owned(), "a".to_owned()];
            let expression = Expression { operator, key: key.to_owned(), values };
            assert_eq!(expression.holds(Some(&attributes)), holds, "{expression}");
            let absent = matches!(operator, Operator::NotIn | Operator::NotExist);
            assert_eq!(expression.holds(None), absent, "{expression}");
        }
    }

    #[test]
    fn a_constraint_that_expects_nothing_is_none_and_equal_ones_are_equal_when_read_again() {
        assert!(AskConstraint::new(nested(3), None).unwrap().is_none());
        let counted =
            Expression { key: "app".into(), values: vec!["web".into()], operator: Operator::In };
        let near = Near { max: 1, expressions: vec![counted], required: true, ..Near::default() };
        let near = Constraint::Simple(Simple { node: Vec::new(), near: Some(near) });
        let of = |app: &str| {
            let tags = Texts::from_iter([("app", app)]);
            AskConstraint::new(near.clone(), Some(&tags)).unwrap().unwrap()
        };
        let (web, db) = (of("web"), of("db"));
        assert!(web.counts_itself(0) && !db.counts_itself(0) && web != db);
        let written = serde_json::to_string(&web).unwrap();
        assert_eq!(serde_json::from_str::<AskConstraint>(&written).unwrap(), web);
    }
}
