//! Files: an index that finds by its tags the families in which an allocation may be.
//!
//! Each family is filed under one expression that all its members satisfy. So an allocation costs
//! one look-up per tag, or per key in use if these are fewer, and not one test per family.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ids::FamilyId;
use crate::specs::constraint::{Expression, Operator};
use crate::values::hashing::SeededMap;
use crate::values::texts::Texts;

/// Families by the tags of their members: one look-up per tag finds them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Files {
    by_key: BTreeMap<String, File>,
    /// Families that require no value under any key.
    always: Vec<FamilyId>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct File {
    #[serde(with = "crate::values::pairs")]
    by_value: SeededMap<String, Vec<FamilyId>>,
    /// Families that accept any value under this key.
    any: Vec<FamilyId>,
}

impl Files {
    /// Returns the expression under which a family is filed: one that lists values, else one that
    /// requires some value.
    fn expression(expressions: &[Expression]) -> Option<&Expression> {
        let of = |operator| expressions.iter().find(move |it| it.operator == operator);
        of(Operator::In).or_else(|| of(Operator::Exist))
    }

    pub(super) fn file(&mut self, expressions: &[Expression], family: FamilyId) {
        let Some(expression) = Self::expression(expressions) else {
            return self.always.push(family);
        };
        let file = self.by_key.entry(expression.key.clone()).or_default();
        if expression.operator == Operator::Exist {
            return file.any.push(family);
        }
        for value in &expression.values {
            file.by_value.entry(value.clone()).or_default().push(family);
        }
    }

    pub(super) fn take_out(&mut self, expressions: &[Expression], family: FamilyId) {
        let Some(expression) = Self::expression(expressions) else {
            return self.always.retain(|other| *other != family);
        };
        let file = self.by_key.get_mut(&expression.key);
        debug_assert!(file.is_some(), "a family that is taken out was filed");
        let Some(file) = file else { return };
        file.any.retain(|other| *other != family);
        for value in &expression.values {
            if let Some(families) = file.by_value.get_mut(value) {
                families.retain(|other| *other != family);
                if families.is_empty() {
                    file.by_value.remove(value);
                }
            }
        }
        if file.any.is_empty() && file.by_value.is_empty() {
            self.by_key.remove(&expression.key);
        }
    }

    /// Calls `found` for every family in which an allocation with these tags may be.
    pub(super) fn look_up(&self, tags: Option<&Texts>, mut found: impl FnMut(FamilyId)) {
        self.always.iter().copied().for_each(&mut found);
        let Some(tags) = tags else { return };
        let mut look = |file: &File, value: &str| {
            let named = file.by_value.get(value).into_iter().flatten();
            named.chain(&file.any).copied().for_each(&mut found);
        };
        if self.by_key.len() <= tags.len() {
            for (key, file) in &self.by_key {
                if let Some(value) = tags.get(key) {
                    look(file, value);
                }
            }
        } else {
            for (key, value) in tags.iter() {
                if let Some(file) = self.by_key.get(key) {
                    look(file, value);
                }
            }
        }
    }
}
