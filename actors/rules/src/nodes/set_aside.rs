//! Whether a node is set aside for asks that reserved it, and for which.

/// Whether a node is set aside for asks, and how. Searches treat both ways alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetAside {
    /// The node is not set aside: searches find it.
    #[default]
    No,
    /// Set aside for an ask of this priority that reserved it and may use other nodes. The amount
    /// set aside in this way has a bound (`share.rs`), and the node may be lent (`lent.rs`).
    Bounded(i32),
    /// Set aside for asks that require it, or for an ask whose victims are leaving it: it counts
    /// for no bound.
    Kept,
}
