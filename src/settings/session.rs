//! Settings of sessions and registrations.
//!
//! Most of them trade memory or cluster capacity for longer absences that a resource manager
//! survives without losing anything.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::seconds;
use crate::grpc::legacy::memory::MemoryUnit;

/// Section `session`. Keys marked *own* may be set by a resource manager for itself, through the
/// `extraConfig` of its registration.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `session.KEY` or MONOCEROS__SESSION__KEY)"
)]
pub struct SessionSettings {
    /// How long a session may lack its first allocation stream before it is paused. Default 60 s.
    /// Own.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub attach_timeout: Duration,
    /// How long a session may be paused before it is stopped and loses all its allocations. Default
    /// 120 s. With a longer time the session survives longer absences, but the capacity of a
    /// resource manager that never returns stays in use for longer. Own.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub pause_timeout: Duration,
    /// Handling of messages that a lost stream may have lost. Default `replay`. Own.
    pub on_stream_loss: OnStreamLoss,
    /// How long a sent message is kept in case its stream is lost. Must be longer than the
    /// keepalive takes to detect the loss. Default 60 s; zero keeps none.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub delivery_grace: Duration,
    /// Outbox of a resource manager: most bytes (as encoded) that are kept for it, per kind of
    /// stream. The other bounds follow from it ([`Self::outbox`]). A larger outbox survives longer
    /// absences and takes more memory. Default 256 MiB.
    pub outbox_bytes: NonZeroUsize,
    /// Ingress of a resource manager: most bytes of numbered requests that are held while an
    /// earlier number is missing. The bound on items follows from it ([`Self::ingress`]). Default
    /// 256 MiB.
    pub ingress_bytes: NonZeroUsize,
    /// How long a request number may be missing before the streams of the resource manager end, so
    /// that it sends the missing requests again. Default 10 s.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub gap_timeout: Duration,
    /// How long an item may wait for its application or node, which arrives on another stream.
    /// Default 1 s; zero rejects at once. Own.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub reorder_window: Duration,
    /// Most items per partition that wait for their application or node. Default 10,000. Own.
    pub reorder_items: usize,
    /// Whether an item with an unknown enumeration value is ignored. Otherwise the mildest value is
    /// assumed. Default false. Own.
    pub strict_enums: bool,
    /// Unit of `memory` for resource managers of the oldest dialect: `raw` (bytes, default) or
    /// `megabyte`. Own.
    pub legacy_memory_unit: MemoryUnit,
    /// Whether resource managers of the oldest dialect receive a recommended node size with each
    /// measurement of a node. Default false.
    pub legacy_node_recommendations: bool,
    /// Priorities by class name, for resource managers of the oldest dialect. Default: none. Own.
    #[serde(default)]
    pub priority_classes: BTreeMap<String, i32>,
    /// How long the reason of a stopped session is remembered. Default 1 h.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub tombstone_ttl: Duration,
}

/// A bound in items and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemsAndBytes {
    /// Most items.
    pub items: NonZeroUsize,
    /// Most bytes.
    pub bytes: NonZeroUsize,
}

/// Items of an outbox of 256 MiB.
const OUTBOX_ITEMS_PER_256_MIB: u128 = 1_000_000;

/// Bytes of ingress per item.
const INGRESS_BYTES_PER_ITEM: usize = 4_096;

impl SessionSettings {
    /// Returns the bounds of an outbox, per kind of stream: a million items per 256 MiB.
    pub fn outbox(&self) -> ItemsAndBytes {
        let bytes = self.outbox_bytes;
        let items = (bytes.get() as u128 * OUTBOX_ITEMS_PER_256_MIB) >> 28;
        let items = usize::try_from(items).unwrap_or(usize::MAX);
        ItemsAndBytes { items: NonZeroUsize::new(items).unwrap_or(NonZeroUsize::MIN), bytes }
    }

    /// Returns the bounds of requests that are held while an earlier number is missing:
    /// `ingress_bytes`, and one item per 4 KiB of them. The scheduler gets the same bound of items:
    /// while as many of a resource manager are undecided, nothing more is read from its streams.
    pub fn ingress(&self) -> ItemsAndBytes {
        let bytes = self.ingress_bytes;
        let items = NonZeroUsize::new(bytes.get() / INGRESS_BYTES_PER_ITEM);
        ItemsAndBytes { items: items.unwrap_or(NonZeroUsize::MIN), bytes }
    }
}

/// Handling of messages that a lost stream may have lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum OnStreamLoss {
    /// The next stream receives them again.
    Replay,
    /// The resource manager has to register and report everything again.
    Resync,
}

impl TryFrom<String> for OnStreamLoss {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "replay" => Ok(Self::Replay),
            "resync" => Ok(Self::Resync),
            _ => Err(format!("`{text}` is not what can be done (`replay` or `resync`)")),
        }
    }
}

/// Section `registration`.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `registration.KEY` or MONOCEROS__REGISTRATION__KEY)"
)]
pub struct RegistrationSettings {
    /// Time limit of a registration. Default 30 s.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub timeout: Duration,
    /// Folder of the queue configurations of policy groups, `GROUP.yaml`, for resource managers
    /// that bring none. Default: none.
    pub policy_dir: Option<PathBuf>,
    /// Handling of a registration whose policy group is in use with another configuration. Default
    /// `warn`.
    pub policy_group_conflict: PolicyGroupConflict,
}

/// Handling of a registration whose policy group is in use with another configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum PolicyGroupConflict {
    /// Accepted, with a warning in the log.
    Warn,
    /// Refused.
    Reject,
}

impl TryFrom<String> for PolicyGroupConflict {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "warn" => Ok(Self::Warn),
            "reject" => Ok(Self::Reject),
            _ => Err(format!("`{text}` is not what can be done (`warn` or `reject`)")),
        }
    }
}

/// Section `limits`: bounds of one message.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `limits.KEY` or MONOCEROS__LIMITS__KEY)"
)]
pub struct LimitSettings {
    /// Most items. A message with more is refused whole. Default 200,000.
    pub items_per_message: NonZeroUsize,
    /// Longest text that names something, in bytes. Default 1,024.
    pub id_bytes: NonZeroUsize,
    /// Most resource types in use by a resource manager. Default 1,024.
    pub resource_names: NonZeroUsize,
    /// Most bytes of the tags of one item, or of the attributes of one node. Default 2 MiB.
    pub tag_bytes: NonZeroUsize,
}
