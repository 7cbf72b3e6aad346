//! Propagation of a changed entry to the bounds above it, level by level.
//!
//! Joining the bounds of all siblings again on every level would cost more than the change itself.
//! Most changes leave the bound of a node as it is; then nothing above it can change, and the work
//! ends there.
//! ends there.

use super::bound::Bound;

/// The effect of a change on the total of a node.
pub(super) enum Change<B> {
    None,
    /// The new total covers the old one, and more.
    Wider,
    /// The new total may no longer cover all of this bound, which covers the old total.
    Narrower(B),
}

impl<B: Bound> Change<B> {
    /// The effect of this change of a child on the `total` of its parent, where `new` is now the
    /// child's own among `bounds`.
    pub(super) fn lift<'a>(
        self,
        total: &mut B,
        bounds: impl Iterator<Item = &'a B> + Clone,
        new: &B,
    ) -> Self
    where
        B: 'a,
    {
        match self {
            Self::None => Self::None,
            Self::Wider => replaced(total, bounds, None, Some(new)),
            Self::Narrower(was) => replaced(total, bounds, Some(&was), Some(new)),
        }
    }

    /// This change followed by a second of the same total.
    pub(super) fn then(self, second: Self) -> Self {
        match (self, second) {
            (first, Self::None) | (first @ Self::Narrower(_), _) => first,
            (_, second) => second,
        }
    }
}

/// Brings `total` up to date after one of `bounds` changed from `old` to `new`. `old` is none for a
/// bound that was added, and `new` for one that was removed.
pub(super) fn replaced<'a, B: Bound + 'a>(
    total: &mut B,
    bounds: impl Iterator<Item = &'a B> + Clone,
    old: Option<&B>,
    new: Option<&B>,
) -> Change<B> {
    let wider = new.filter(|new| !total.covers(new));
    if let Some(wider) = wider {
        total.join(wider);
    }
    let gone = old.filter(|old| !new.is_some_and(|new| new.covers(old)));
    match gone.and_then(|gone| total.without(gone, bounds)) {
        // If the total became wider, too, the bound that is returned covers more than the old
        // total, but nothing that the levels above do not cover once they are wider as well.
        Some(exact) => Change::Narrower(std::mem::replace(total, exact)),
        None if wider.is_some() => Change::Wider,
        None => Change::None,
    }
}

pub(super) fn join_all<'a, B: Bound + 'a>(mut bounds: impl Iterator<Item = &'a B>) -> Option<B> {
    let mut joined = bounds.next()?.clone();
    bounds.for_each(|bound| joined.join(bound));
    Some(joined)
}
