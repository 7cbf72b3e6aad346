//! Names and numbers of a cluster, each a type of its own so that none is taken for another.

use std::fmt;
use std::sync::Arc;

/// Time in nanoseconds on the caller's own clock. It has to go on while the machine is suspended
/// (`CLOCK_BOOTTIME`), and is never compared with another member's.
pub type Nanos = u64;

/// Id of a member: chosen by the operator, or kept between two starts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub Arc<str>);

/// Id of a resource manager.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RmId(pub Arc<str>);

/// Random number of one start of a process. A restarted process is another incarnation of the same
/// member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u128);

/// A member in one incarnation, which a claim names as its owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The member.
    pub member: MemberId,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

/// Number of a session of one RM. It grows by at least one with each registration and each change
/// of owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The largest epoch that an RM may show. A larger one is ignored: it would leave none to give.
    pub const MAX_SHOWN: Self = Self(1 << 53);

    /// The epoch after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Version of one record, given by the arbiter with each write of it (etcd: `mod_revision`,
/// Kubernetes: `resourceVersion`). Only compared for equality.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// Revision of the whole store. It never goes back, unless a backup is restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// SHA-256 of the secret that a process of an RM makes once and sends with each registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProofHash(pub [u8; 32]);
