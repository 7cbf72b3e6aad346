//! The bound that every subtree carries, and the results of a walk between two keys.

/// The summary of an entry, or of all entries below a node, by which a search skips them.
///
/// Joining must be commutative, associative and idempotent under `==`: equal sets of entries have
/// equal bounds, in whatever order they were joined.
pub trait Bound: Clone + PartialEq {
    /// Widens this bound so that it also covers `other`.
    fn join(&mut self, other: &Self);

    /// Whether joining `other` would change nothing.
    fn covers(&self, other: &Self) -> bool {
        let mut joined = self.clone();
        joined.join(other);
        joined == *self
    }

    /// Returns the join of `parts`. This bound is the join of `parts` and of `gone`, which was
    /// removed. `None` if the result equals this bound: then no bound further up changes either.
    ///
    /// A specialized implementation pays if entries change often: it need only examine what `gone`
    /// alone contributed, which is usually nothing.
    fn without<'a>(
        &self,
        gone: &Self,
        mut parts: impl Iterator<Item = &'a Self> + Clone,
    ) -> Option<Self>
    where
        Self: 'a,
    {
        let _ = gone;
        let mut joined = parts.next()?.clone();
        for part in parts {
            if joined == *self {
                return None;
            }
            joined.join(part);
        }
        (joined != *self).then_some(joined)
    }
}

/// A result of a walk [between](super::OrderedTree::between) two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between<'a, V, B> {
    /// An entry.
    One(&'a V, &'a B),
    /// The number of entries of a subtree that was not examined.
    Many(usize),
}
