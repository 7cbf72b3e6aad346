//! What an RM may want changed of a node, as a value: the partition makes it of a request, the
//! reorder buffer may keep it for a while, and the node that is visited applies it. Like
//! [`Op`](super::Op) it must not know an actor, because it is part of what enters a partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::specs::tags::Tags;
use monoceros_rules::values::resources::Resources;
use serde::{Deserialize, Serialize};

/// What an RM may change of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum NodeChange {
    /// Capacity, use by others and attributes; what is `None` stays.
    Update {
        total: Option<Resources>,
        occupied: Option<Resources>,
        attributes: BTreeMap<String, String>,
    },
    /// Begins to drain (`true`), so that nothing new comes, or ends it.
    Drain(bool),
    /// The node leaves the partition, and reports what is on it.
    Leave,
    /// A foreign allocation is here, or has another size now.
    Foreign(Box<ForeignReport>),
    /// The foreign allocation with this key is no longer here.
    ForeignGone(Arc<str>),
}

/// What is reported of a foreign allocation, apart from where it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ForeignReport {
    pub(crate) key: Arc<str>,
    pub(crate) resources: Resources,
    pub(crate) tags: Option<Tags>,
    pub(crate) priority: i32,
    pub(crate) preemptable: bool,
    /// When it was created, ns since the epoch, if that is said.
    pub(crate) created_ns: Option<i64>,
}
