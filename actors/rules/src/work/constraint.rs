//! What an RM says of where an allocation may be: a placement constraint in a form that is checked.
//!
//! Two forms of the interface say the same, a message and JSON; both become this type, so that they
//! can be compared and are bounded alike. Nothing is placed by a constraint yet.
//!
//! # Bounds
//! At most [`MAX_LEVELS`] levels, the simple constraint at the end counted as one, and at most
//! [`MAX_SIMPLE`] simple constraints in all.
//!
//! ```
//! use monoceros_rules::work::constraint::{Constraint, Expression, Operator, Simple};
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
//! assert_eq!(unnamed.check().unwrap_err().to_string(), "an expression without a key");
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

/// How many levels a constraint may have.
pub const MAX_LEVELS: usize = 8;
/// How many simple constraints may be in one.
pub const MAX_SIMPLE: usize = 64;

/// Where an allocation may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Constraint {
    /// What its node is like, and what else is near.
    Simple(Simple),
    /// All of them hold.
    All(Vec<Constraint>),
    /// One of them holds.
    Any(Vec<Constraint>),
    /// One of them holds, each only when the delays before it are over.
    InTurn(Vec<Timed>),
}

/// What a node is like, and what else is near. Both hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Simple {
    /// Of the node's attributes all of these hold.
    pub node: Vec<Expression>,
    /// How many allocations of some kind are near.
    pub near: Option<Near>,
}

/// How many allocations of some kind there may be near each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Near {
    /// The node attribute whose equal values are near each other; empty: each node by itself.
    pub scope: String,
    /// Of an allocation's tags all of these hold, or it does not count.
    pub expressions: Vec<Expression>,
    /// At least so many, the new one included.
    pub min: i32,
    /// At most so many, the new one included; 0 or less: any number.
    pub max: i32,
    /// Whether other nodes are never used, or only after these.
    pub required: bool,
}

/// What is found under a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expression {
    /// How the values are meant.
    pub operator: Operator,
    /// The key.
    pub key: String,
    /// The values.
    pub values: Vec<String>,
}

/// What an expression says of the value under its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    /// One of the values is there.
    #[default]
    In,
    /// None of the values is there.
    NotIn,
    /// Any value is there.
    Exist,
    /// No value is there.
    NotExist,
}

/// A constraint, and how long it is tried before the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timed {
    /// The constraint.
    pub constraint: Constraint,
    /// How long, in the unit.
    pub delay: i64,
    /// What the delay counts.
    pub unit: DelayUnit,
}

/// What the delay of a constraint counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DelayUnit {
    /// Milliseconds.
    #[default]
    Milliseconds,
    /// Attempts in vain.
    Opportunities,
}

/// What is wrong with a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintFault {
    /// It is nested deeper than [`MAX_LEVELS`].
    Levels,
    /// It has more than [`MAX_SIMPLE`] simple ones.
    Simple,
    /// An expression has an empty key.
    Key,
    /// A constraint with delays is below another.
    Delays,
    /// A delay is negative.
    Delay,
}

impl fmt::Display for ConstraintFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Levels => write!(f, "more than {MAX_LEVELS} levels"),
            Self::Simple => write!(f, "more than {MAX_SIMPLE} simple constraints"),
            Self::Key => f.write_str("an expression without a key"),
            Self::Delays => f.write_str("DELAYED_OR below another constraint"),
            Self::Delay => f.write_str("a negative delay"),
        }
    }
}

impl Constraint {
    /// Finds what is wrong with it, the first fault from the top.
    pub fn check(&self) -> Result<(), ConstraintFault> {
        self.check_below(1, &mut 0)
    }

    fn check_below(&self, level: usize, n_simple: &mut usize) -> Result<(), ConstraintFault> {
        if level > MAX_LEVELS {
            return Err(ConstraintFault::Levels);
        }
        match self {
            Self::Simple(simple) => {
                *n_simple += 1;
                if *n_simple > MAX_SIMPLE {
                    return Err(ConstraintFault::Simple);
                }
                simple.check()
            }
            Self::All(children) | Self::Any(children) => {
                children.iter().try_for_each(|child| child.check_below(level + 1, n_simple))
            }
            Self::InTurn(_) if level > 1 => Err(ConstraintFault::Delays),
            Self::InTurn(children) => children.iter().try_for_each(|child| {
                if child.delay < 0 {
                    return Err(ConstraintFault::Delay);
                }
                child.constraint.check_below(level + 1, n_simple)
            }),
        }
    }
}

impl Simple {
    fn check(&self) -> Result<(), ConstraintFault> {
        let near = self.near.iter().flat_map(|near| &near.expressions);
        let mut keys = self.node.iter().chain(near).map(|expression| &expression.key);
        if keys.any(String::is_empty) { Err(ConstraintFault::Key) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simple() -> Constraint {
        Constraint::Simple(Simple::default())
    }

    fn nested(levels: usize) -> Constraint {
        (1..levels).fold(simple(), |inner, _| Constraint::Any(vec![inner]))
    }

    #[test]
    fn eight_levels_are_taken_and_nine_are_not() {
        assert_eq!(nested(8).check(), Ok(()));
        assert_eq!(nested(9).check(), Err(ConstraintFault::Levels));
    }

    #[test]
    fn sixty_four_simple_constraints_are_taken_and_one_more_is_not() {
        let wide =
            |n: usize| Constraint::All(vec![Constraint::Any(vec![simple(); n - 1]), simple()]);
        assert_eq!(wide(64).check(), Ok(()));
        assert_eq!(wide(65).check(), Err(ConstraintFault::Simple));
    }

    #[test]
    fn delays_stand_at_the_top_and_none_is_negative() {
        let after = |delay| {
            let unit = DelayUnit::Milliseconds;
            Constraint::InTurn(vec![Timed { constraint: simple(), delay, unit }])
        };
        assert_eq!(after(0).check(), Ok(()));
        assert_eq!(after(-1).check(), Err(ConstraintFault::Delay));
        assert_eq!(Constraint::All(vec![after(0)]).check(), Err(ConstraintFault::Delays));
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
        assert_eq!(of(expression(""), near("b")).check(), Err(ConstraintFault::Key));
        assert_eq!(of(expression("a"), near("")).check(), Err(ConstraintFault::Key));
    }
}
