//! Terms: a constraint in the form that searches use: choices in order, each a list of conditions.
//!
//! * A preference makes two choices of one: with it, and without.
//! * An OR or a DELAYED_OR at the top becomes a choice for each child. An OR below an AND is one
//!   condition.
//! * A choice that may be used only later has its delay.
//!
//! # Serialized form
//! The index writes the terms with all conditions. Their holders share them with the index, which
//! drops terms that only it holds. So a holder writes only the constraint, or nothing if it knows
//! the constraint otherwise, and looks its terms up in the index once both are read.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ids::{RangeId, SelectorId};
use crate::specs::constraint::AskConstraint;
use crate::values::ids::{AllocationId, ApplicationSlot};

/// A constraint that is ready for searches. It is kept as long as it has a holder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Terms {
    pub(super) choices: Vec<Choice>,
    pub(super) constraint: Arc<AskConstraint>,
}

/// Conditions that have to hold together, and the delay before they may be used.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Choice {
    pub(super) opens: Opening,
    pub(super) conditions: Vec<Condition>,
}

/// The delay before a choice may be used; both parts have to pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Opening {
    pub(super) milliseconds: u64,
    pub(super) opportunities: u64,
}

/// A condition on a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Condition {
    /// A condition on the attributes of the node.
    Selector(SelectorId),
    /// A condition on the number of allocations in the group of the node.
    Near(Near),
    /// At least one of these lists, all of whose conditions hold.
    Any(Vec<Vec<Condition>>),
}

/// A condition on the number of allocations in the group of a node.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Near {
    pub(super) range: RangeId,
    /// Whether the ask itself is in the family that is counted, so that it may be the first.
    pub(super) may_be_first: bool,
}

/// The terms that a request has to meet now.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// The terms.
    pub terms: &'a Terms,
    /// The number of choices that may be used now.
    pub open: usize,
    /// Allocations that are supposed to be gone.
    pub gone: &'a [AllocationId],
    /// The application whose held places count as if they were taken.
    pub mates: Option<ApplicationSlot>,
}

impl<'a> Wish<'a> {
    /// Returns the wish for these terms, as if every delay had passed.
    pub fn of(terms: &'a Terms) -> Self {
        Self { terms, open: terms.choices.len(), gone: &[], mates: None }
    }

    /// Returns the choices that may be used.
    pub(super) fn choices(&self) -> &'a [Choice] {
        &self.terms.choices[..self.open.min(self.terms.choices.len())]
    }
}

impl Terms {
    /// Returns terms without choices, for a holder that is being read: it still has to look its
    /// terms up in the index.
    pub(crate) fn not_looked_up() -> Arc<Self> {
        Arc::new(Self { choices: Vec::new(), constraint: Arc::new(AskConstraint::none()) })
    }

    /// Returns the constraint from which they were built.
    pub fn constraint(&self) -> &Arc<AskConstraint> {
        &self.constraint
    }

    /// Whether the terms depend on allocations, and not only on attributes of nodes.
    pub fn counts(&self) -> bool {
        self.conditions().any(|condition| matches!(condition, Condition::Near(_)))
    }

    /// The number of choices, including those that may be used only later.
    pub fn len(&self) -> usize {
        self.choices.len()
    }

    /// Whether there is no choice; there always is one.
    pub fn is_empty(&self) -> bool {
        self.choices.is_empty()
    }

    /// Returns the number of choices that may be used after this many milliseconds and tries
    /// without result. Each second counts as a try, too.
    pub fn open_after(&self, milliseconds: u64, attempts: u64) -> usize {
        let opportunities = attempts.saturating_add(milliseconds / 1_000);
        let is_open = |choice: &&Choice| {
            choice.opens.milliseconds <= milliseconds && choice.opens.opportunities <= opportunities
        };
        self.choices.iter().take_while(is_open).count()
    }

    /// Returns the milliseconds after which the next choice may be used, if there is no further try
    /// before; `open` choices may be used already.
    pub fn opens_next(&self, open: usize, attempts: u64) -> Option<u64> {
        let opens = self.choices.get(open)?.opens;
        let seconds = opens.opportunities.saturating_sub(attempts);
        Some(opens.milliseconds.max(seconds.saturating_mul(1_000)))
    }

    /// Returns every condition, including nested ones.
    pub(super) fn conditions(&self) -> impl Iterator<Item = &Condition> {
        let mut left: Vec<&Condition> =
            self.choices.iter().flat_map(|choice| &choice.conditions).collect();
        std::iter::from_fn(move || {
            let next = left.pop()?;
            if let Condition::Any(lists) = next {
                left.extend(lists.iter().flatten());
            }
            Some(next)
        })
    }
}

/// The serialized form of terms in a holder: their constraint.
pub(crate) mod by_constraint {
    use serde::{Deserializer, Serializer};

    use super::{Arc, AskConstraint, Deserialize, Serialize, Terms};

    #[expect(clippy::ref_option, reason = "a field is passed as it is")]
    pub(crate) fn serialize<S: Serializer>(
        terms: &Option<Arc<Terms>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        terms.as_ref().map(|terms| &terms.constraint).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<Terms>>, D::Error> {
        let constraint = Option::<Arc<AskConstraint>>::deserialize(deserializer)?;
        let terms = |constraint| Arc::new(Terms { choices: Vec::new(), constraint });
        Ok(constraint.map(terms))
    }
}

/// The serialized form of the terms in the index, in order of their constraints.
pub(super) mod in_index {
    use serde::{Deserializer, Serializer};

    use super::{Arc, AskConstraint, Deserialize, Terms};
    use crate::values::hashing::SeededMap;

    type Map = SeededMap<Arc<AskConstraint>, Arc<Terms>>;

    pub(in super::super) fn serialize<S: Serializer>(
        terms: &Map,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut terms: Vec<&Arc<Terms>> = terms.values().collect();
        terms.sort_by(|one, other| one.constraint.cmp(&other.constraint));
        serializer.collect_seq(terms)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Map, D::Error> {
        let terms = Vec::<Arc<Terms>>::deserialize(deserializer)?;
        Ok(terms.into_iter().map(|terms| (Arc::clone(&terms.constraint), terms)).collect())
    }
}
