//! Propagation of a changed entry to the bounds above it, level by level.
//!
//! Joining the bounds of all siblings again on every level would cost more than the change itself.
//! Most changes leave the bound of a node as it is. Then nothing above it can change, and the work
//! ends there.

use super::bound::Bound;

/// The effect of a change on the total of a node.
pub(super) enum Change<B> {
    None,
    /// The new total covers the old one, and more.
    Wider,
    /// The new total may no longer cover the whole of this bound, which covers the old total.
    Narrower(B),
}

impl<B: Bound> Change<B> {
    /// Returns the effect on the `total` of the parent, if this is the change of a child. `new` is
    /// now the child's bound among `bounds`.
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

    /// Returns the effect of this change and of a second one on the same total.
    pub(super) fn then(self, second: Self) -> Self {
        match (self, second) {
            (first, Self::None) | (first @ Self::Narrower(_), _) => first,
            (_, second) => second,
        }
    }
}

/// Updates `total` after one of `bounds` changed from `old` to `new`. `old` is `None` if a bound
/// was added, `new` if one was removed.
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
        // If the total became wider as well, the returned bound covers more than the old total. The
        // levels above cover it, too, once they have become wider.
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
