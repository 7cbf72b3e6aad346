//! The claims of a cluster, as the registry needs them.
//!
//! # Why a trait
//! A process without a cluster runs nothing of it, and a build may leave it out. The registry then
//! numbers its sessions itself.
//!
//! # Invariants
//! * A session in a cluster is opened only for a number that [`Claims::claim`] gave, and only while
//!   the claim is held ([`Claims::holds`]).
//! * A session that ends for a reason of its own frees its claim, under the slot's lock.
//! * A registration whose client has given up changes no claim, unless it is writing one already.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tonic::metadata::AsciiMetadataValue;

use super::super::end::ClaimRefusal;
use super::super::routing::PassableCall;
use super::Registry;
use super::configurations::Configurations;

/// Membership of this process in a cluster.
pub trait Claims: Send + Sync {
    /// Claims a resource manager. Returns the number of its session. The earlier session at this
    /// member has ended by then, and may have ended after a refusal, too.
    fn claim(&self, claimant: Claimant) -> BoxFuture<'_, Result<u64, ClaimRefusal>>;

    /// Frees the claim of a session that has ended here, unless it was lost before.
    fn free<'a>(&'a self, rm_id: &'a str, session: u64) -> BoxFuture<'a, ()>;

    /// Frees a claim that names this member, and whose resource manager has no session here. `Ok`
    /// also if there is no such claim.
    fn give_up<'a>(&'a self, _rm_id: &'a str) -> BoxFuture<'a, Result<(), ClaimRefusal>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Whether this member still serves the resource manager with this session.
    fn holds(&self, rm_id: &str, session: u64) -> bool;

    /// Whether answers may be handed over to resource managers now.
    fn may_decide(&self) -> bool;

    /// The present incarnation of this member, in place of the id of a run.
    fn incarnation(&self) -> AsciiMetadataValue;

    /// The gRPC addresses of the members that live and are not silent, this one first.
    fn members(&self) -> Vec<String>;

    /// Sets the registry whose sessions end when claims are lost. Called once, before any claim.
    fn serve(&self, registry: &Arc<Registry>);

    /// The queue configurations that all members share.
    fn configurations(&self) -> Option<Arc<dyn Configurations>> {
        None
    }
}

/// A process that registers a resource manager.
#[derive(Clone, Debug, Default)]
pub struct Claimant {
    /// The id of the resource manager.
    pub rm_id: String,
    /// The name of the caller by the access rules.
    pub caller: String,
    /// The name that the process gives itself.
    pub instance: Option<String>,
    /// The policy group of the resource manager.
    pub policy_group: String,
    /// The secret of the process.
    pub proof: Option<Proof>,
    /// The number of its connection attempt, if it counts them.
    pub attempt: Option<u64>,
    /// The number of the last session that the process had.
    pub shown: Option<u64>,
    /// The incarnation of the owner that fell silent for the process.
    pub suspects: Option<String>,
    /// The call, if it can be made at another member.
    pub call: Option<PassableCall>,
    /// Whether another member has passed the call on.
    pub is_forwarded: bool,
    /// Cancelled when the client has given up the call, and once the call is answered.
    pub abandoned: CancellationToken,
}

/// Secret of a client process, by which any member knows it again.
#[derive(Clone, PartialEq, Eq)]
pub struct Proof(String);

impl Proof {
    /// Bounds of its length in bytes. A shorter one could be guessed.
    const BYTES: std::ops::RangeInclusive<usize> = 16..=64;

    /// Reads the metadata value. `None` if it is too short or too long.
    pub fn parse(text: &str) -> Option<Self> {
        Self::BYTES.contains(&text.len()).then(|| Self(text.to_owned()))
    }

    /// The bytes to hash.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proof")
    }
}
