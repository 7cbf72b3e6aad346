//! How the bound over many follows a change of one of them, level by level.

use super::Bound;

/// What a change did to the total of a node.
pub(super) enum Change<B> {
    None,
    /// It covers what it was, and more.
    Wider,
    /// It may no longer cover all of this, which covers what it was.
    Narrower(B),
}

impl<B: Bound> Change<B> {
    /// The change of the parent's `total` where this is the change of a child of it: one of its
    /// `bounds` is `new` now.
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

/// Brings `total` up to date after one of `bounds` changed from `old` to `new`; none where it was
/// not, or is no longer, among them.
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
        // Where it got wider too, this covers more than it was, but nothing that the levels above
        // will not cover once they are wider as well.
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
