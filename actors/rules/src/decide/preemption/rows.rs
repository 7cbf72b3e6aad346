//! Amounts as rows of plain numbers, one column for each resource that can matter to one survey.
//!
//! # Why
//! A plan compares and adds the same few resources many thousand times. The resources that are
//! wanted, guaranteed or limited are known before the first comparison, so each of them gets a
//! column. Other resources of an allocation are left out, since they make no difference.

use smallvec::SmallVec;

use crate::values::resources::{Limits, Name, Resources};

/// Stands for a missing limit or guarantee.
pub(super) const UNSET: i64 = i64::MAX;

/// One amount: a number for each column.
pub(super) type Row = SmallVec<[i64; 4]>;

/// The resources that matter.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns(Vec<Name>);

/// Many amounts of the same columns.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    width: usize,
    values: Vec<i64>,
}

impl Columns {
    /// Gives a name a column, if it has none.
    pub(super) fn add(&mut self, name: Name) {
        if !self.0.contains(&name) {
            self.0.push(name);
        }
    }

    /// The number of columns.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns an amount as a row; a missing resource is zero.
    pub(super) fn amount(&self, resources: &Resources) -> Row {
        self.0.iter().map(|name| resources.get(*name)).collect()
    }

    /// Returns a guarantee as a row; a missing resource is [`UNSET`].
    pub(super) fn guarantee(&self, guaranteed: Option<&Resources>) -> Row {
        let of = |name: &Name| guaranteed.and_then(|it| it.find(*name)).unwrap_or(UNSET);
        self.0.iter().map(of).collect()
    }

    /// Returns a limit as a row; a missing resource is [`UNSET`].
    pub(super) fn limit(&self, max: Option<&Limits>) -> Row {
        let of = |name: &Name| max.and_then(|it| it.find(*name)).unwrap_or(UNSET);
        self.0.iter().map(of).collect()
    }
}

impl Rows {
    /// An empty table of rows.
    pub(super) fn new(width: usize) -> Self {
        Self { width, values: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn push(&mut self, row: &[i64]) {
        debug_assert_eq!(row.len(), self.width, "all rows have the same columns");
        self.values.extend_from_slice(row);
    }

    /// Returns an existing row.
    pub(super) fn row(&self, at: usize) -> &[i64] {
        &self.values[at * self.width..(at + 1) * self.width]
    }

    /// Returns an existing row for a change.
    pub(super) fn row_mut(&mut self, at: usize) -> &mut [i64] {
        &mut self.values[at * self.width..(at + 1) * self.width]
    }
}

/// Adds each number of `more`.
pub(super) fn add(to: &mut [i64], more: &[i64]) {
    for (to, more) in to.iter_mut().zip(more) {
        *to = to.saturating_add(*more);
    }
}

/// Subtracts each number of `less`.
pub(super) fn subtract(from: &mut [i64], less: &[i64]) {
    for (from, less) in from.iter_mut().zip(less) {
        *from = from.saturating_sub(*less);
    }
}

/// Returns the amount by which `there` is less than `wanted`. Negative numbers of `there` count as
/// zero.
pub(super) fn shortfall(wanted: &[i64], there: &[i64]) -> Row {
    let of = |(wanted, there): (&i64, &i64)| wanted.saturating_sub((*there).max(0)).max(0);
    wanted.iter().zip(there).map(of).collect()
}

/// Whether `there` has at least `wanted` of every resource.
pub(super) fn covers(there: &[i64], wanted: &[i64]) -> bool {
    there.iter().zip(wanted).all(|(there, wanted)| there >= wanted)
}

/// Whether no number is above zero.
pub(super) fn is_nothing(row: &[i64]) -> bool {
    row.iter().all(|number| *number <= 0)
}

/// Whether both have a number above zero for the same resource.
pub(super) fn have_in_common(left: &[i64], right: &[i64]) -> bool {
    left.iter().zip(right).any(|(left, right)| *left > 0 && *right > 0)
}
