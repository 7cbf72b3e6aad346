//! Settings of sessions and registrations.
//!
//! Most of them trade memory, or room in the cluster, for the absences that a resource manager may
//! have without losing anything; each says so with its default.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::seconds;
use crate::grpc::legacy::memory::MemoryUnit;

/// Section `session`. What a resource manager may set for itself, through `extraConfig` of its
/// registration, is marked *own*.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `session.KEY` or MONOCEROS__SESSION__KEY)"
)]
pub struct SessionSettings {
    /// How long a session may be without its first allocation stream before it is paused. Default 60 s.
    /// Own.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub attach_timeout: Duration,
    /// How long a session may be paused before it is stopped and all that it holds is gone. Default
    /// 120 s. Longer outlives longer absences, and keeps the room of a manager that is dead. Own.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub pause_timeout: Duration,
    /// What becomes of messages that a lost stream may have lost. Default `replay`. Own.
    pub on_stream_loss: OnStreamLoss,
    /// How long a sent message is kept in case its stream turns out to be lost: more than the
    /// keepalive takes to find that out. Default 60 s; zero keeps none.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub delivery_grace: Duration,
    /// Most items that are kept for a resource manager, per kind of stream. Default 1,000,000.
    /// Larger outlives longer absences and holds more memory. Own.
    pub outbox_items: NonZeroUsize,
    /// Most bytes (as encoded) that are kept for it, per kind of stream. Default 256 MiB. Own.
    pub outbox_bytes: NonZeroUsize,
    /// Percent of the outbox; when more waits to be sent, nothing new is decided. Default 50.
    pub outbox_high_water: u8,
    /// Percent of the outbox; when less waits, decisions go on. Default 25.
    pub outbox_low_water: u8,
    /// How many items of a resource manager may wait to be decided before nothing more is read from
    /// its streams. Default 65,536.
    pub ingress_items: NonZeroUsize,
    /// How many bytes of it may be held while an earlier number is missing, where it numbers its
    /// requests; [`Self::ingress_items`] bounds that, too. Default 256 MiB.
    pub ingress_bytes: NonZeroUsize,
    /// How long a number may be missing among the requests of a resource manager that numbers them
    /// before its streams end, for it to send again what was not taken. Default 10 s.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub gap_timeout: Duration,
    /// How long an item may wait for the application or node that it names and that comes by
    /// another stream. Default 1 s; zero rejects at once. Own.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub reorder_window: Duration,
    /// Most items that wait so in one partition. Default 10,000. Own.
    pub reorder_items: usize,
    /// Whether an item with an unknown number in an enumeration is ignored rather than taken for
    /// the mildest. Default false. Own.
    pub strict_enums: bool,
    /// In what resource managers of the oldest dialect count `memory`: `raw` (bytes, default) or
    /// `megabyte`. Own.
    pub legacy_memory_unit: MemoryUnit,
    /// Whether resource managers of the oldest dialect are told, with each measurement of a node,
    /// what size it should have. Default false.
    pub legacy_node_recommendations: bool,
    /// Priorities by the names that resource managers of the oldest dialect may use. None by
    /// default. Own.
    #[serde(default)]
    pub priority_classes: BTreeMap<String, i32>,
    /// How long it is remembered why a session was stopped. Default 1 h.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub tombstone_ttl: Duration,
}

/// What becomes of messages that a lost stream may have lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum OnStreamLoss {
    /// The next stream gets them again.
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
    /// How long a registration may take. Default 30 s.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub timeout: Duration,
    /// Folder with a queue configuration, `GROUP.yaml`, for each policy group whose resource
    /// managers bring none. Default: none.
    pub policy_dir: Option<PathBuf>,
    /// What becomes of a registration whose policy group another resource manager uses with another
    /// configuration. Default `warn`.
    pub policy_group_conflict: PolicyGroupConflict,
}

/// What becomes of a registration whose policy group is used with another configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum PolicyGroupConflict {
    /// It is accepted, with a line in the log.
    Warn,
    /// It is refused.
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

/// Section `limits`: of one message, whatever it says.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `limits.KEY` or MONOCEROS__LIMITS__KEY)"
)]
pub struct LimitSettings {
    /// Most items; a message with more is refused whole. Default 200,000.
    pub items_per_message: NonZeroUsize,
    /// Most bytes of each text by which a registration or an item names something. Default 1,024.
    pub id_bytes: NonZeroUsize,
    /// Most resource types that a resource manager has in use. Default 1,024.
    pub resource_names: NonZeroUsize,
    /// Most bytes of the tags of one item, or the attributes of one node. Default 2 MiB.
    pub tag_bytes: NonZeroUsize,
}
