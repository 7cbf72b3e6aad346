//! The bound that every subtree carries, and the parts that a walk between two keys meets.

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

    /// Returns the join of `parts` alone, where this bound is the join of `parts` and of `gone`,
    /// which was taken out. `None` if it is the same: then no bound further up changes either.
    ///
    /// An implementation of its own pays where entries often change: it need only examine what
    /// `gone` alone contributed, which most often is nothing.
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

/// The results of a walk [between](super::OrderedTree::between) two keys meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between<'a, V, B> {
    /// An entry.
    One(&'a V, &'a B),
    /// The number of entries that were not examined.
    Many(usize),
}
