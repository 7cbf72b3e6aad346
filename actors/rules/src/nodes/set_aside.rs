//! Whether a node is set aside for asks that reserved it, and for which.

/// Whether a node is set aside for asks, which it is all the same to searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetAside {
    /// It is not set aside: searches find it.
    #[default]
    No,
    /// For an ask of this priority that reserved it and may go elsewhere. How much is set aside so
    /// has a bound (`share.rs`), and it may be lent (`lent.rs`).
    Bounded(i32),
    /// For asks that require it, or for one for which others leave it: it counts for no bound.
    Kept,
}
