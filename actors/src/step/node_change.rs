//! Changes of a node that an RM may request, as values: the partition builds one from a request,
//! the reorder buffer may keep it for a while, and the node that is visited applies it. Like
//! [`Op`](super::Op), a change knows no actor, because it is part of an input of a partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::specs::tags::Tags;
use monoceros_rules::values::resources::Resources;
use serde::{Deserialize, Serialize};

/// A change of a node that an RM may request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum NodeChange {
    /// Capacity, use by others and attributes; a value that is `None` stays as it is.
    Update {
        total: Option<Resources>,
        occupied: Option<Resources>,
        attributes: BTreeMap<String, String>,
    },
    /// The node begins to drain (`true`), so that nothing new is placed on it, or stops draining.
    Drain(bool),
    /// The node is removed from the partition, and reports the allocations on it.
    Leave,
    /// A foreign allocation (by another scheduler) is on the node: it is new or has changed.
    Foreign(Box<ForeignReport>),
    /// The foreign allocation with this key is no longer here.
    ForeignGone(Arc<str>),
}

/// The RM's report of a foreign allocation, apart from its node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ForeignReport {
    pub(crate) key: Arc<str>,
    pub(crate) resources: Resources,
    pub(crate) tags: Option<Tags>,
    pub(crate) priority: i32,
    pub(crate) preemptable: bool,
    /// The time of creation, ns since the epoch; `None` if the RM did not report it.
    pub(crate) created_ns: Option<i64>,
}
