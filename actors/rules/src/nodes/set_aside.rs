//! Whether a node is set aside for asks that reserved it, and for which.

use serde::{Deserialize, Serialize};

/// Whether a node is set aside for asks, and how. Searches treat both ways alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetAside {
    /// The node is not set aside: searches find it.
    #[default]
    No,
    /// Set aside for an ask of this priority that reserved it and may use other nodes. There is a
    /// bound on the capacity set aside in this way (`share.rs`), and the capacity may be lent
    /// (`lent.rs`).
    Bounded(i32),
    /// Set aside for asks that require it, or for an ask for which victims are evicted on it. The
    /// bound does not apply.
    Kept,
}
