//! The records that stand in the arbiter: members, claims, configurations of policy groups, and the
//! era of the store.
//!
//! # Contents tell who wrote them
//! A compare-and-set whose result is unknown is sent again. If the second one is lost to a record
//! with the same contents, the first one was won. No nonce is needed for that: a renewal has a beat
//! that its member uses once, a change of owner an epoch that grows with each, and records that two
//! members could write alike (deposed, wanted by) mean the same whoever wrote them.

use std::sync::Arc;

use crate::groups::{Configuration, GroupId};
use crate::names::{Epoch, MemberId, Nanos, Owner, ProofHash, RmId, Version};

/// Place of a record in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Record of a member.
    Member(MemberId),
    /// Claim of an RM.
    Claim(RmId),
    /// Configuration of a policy group.
    Group(GroupId),
    /// The one record of the era.
    Era,
}

/// Contents of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// At [`Key::Member`].
    Member(MemberRecord),
    /// At [`Key::Claim`].
    Claim(Claim),
    /// At [`Key::Group`].
    Group(Configuration),
    /// At [`Key::Era`].
    Era(Era),
}

/// Contents with the version at which they were read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Versioned<T> {
    /// Version of the record.
    pub version: Version,
    /// Its contents.
    pub value: T,
}

/// Record of a member, written by itself with each renewal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemberRecord {
    /// The member and its incarnation.
    pub owner: Owner,
    /// Number of the renewal: 0 at the first, then one more each time.
    pub beat: u64,
    /// Whether the incarnation is over.
    pub life: Life,
    /// The member's own lease, which it may decide within. `None`: a version wrote the record that
    /// tells none.
    pub lease: Option<Nanos>,
    /// Addresses, version and load.
    pub details: Arc<Details>,
}

impl MemberRecord {
    /// Silence after which a member whose lease is `own` may depose this one: the longer of both
    /// leases, since each member decides within its own.
    pub fn waited_for(&self, own: Nanos) -> Nanos {
        self.lease.map_or(own, |lease| lease.max(own))
    }
}

/// Whether an incarnation is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Life {
    /// It renews its record.
    Alive,
    /// It has ended in order. Its claims are free.
    Left,
    /// Another process has ended it, after a whole lease without a renewal. Its claims are free.
    Deposed,
}

/// Facts of a member that no rule of this crate reads, except its load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Details {
    /// Address of its gRPC listener.
    pub grpc: String,
    /// Address of its REST listener.
    pub rest: String,
    /// Address of the listener for other members.
    pub internal: String,
    /// Version of the program.
    pub version: String,
    /// Load: nodes + applications + 1,000 for each session.
    pub load: u64,
    /// Whether an operator drains the member: others hand no RMs over to it.
    pub draining: bool,
    /// Number of policy groups whose configuration the member cannot apply. It keeps the old ones in
    /// force.
    pub not_in_force: u32,
    /// RMs whose claims have named the member for a lease, and which have no session there. Not all
    /// of them if there are many.
    pub unserved: Vec<RmId>,
}

/// Claim of an RM: the member that serves it. One record for each RM, never deleted, so that its
/// epoch never goes back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Number of the session.
    pub epoch: Epoch,
    /// The member that serves the RM. `None` after a deregistration.
    pub owner: Option<Owner>,
    /// The process of the RM that registered last.
    pub holder: Holder,
    /// A member that asks the owner to hand over, because it could not reach the owner. Cleared
    /// with each change of the epoch.
    pub wanted_by: Option<Owner>,
    /// Milliseconds since 1970 at the registration, for people. Never compared.
    pub since_ms: u64,
}

/// The process of an RM that a claim was won for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// Identity that the process has proved.
    pub caller: Arc<str>,
    /// Name that the process gives itself.
    pub instance: Arc<str>,
    /// Policy group of the RM.
    pub policy_group: Arc<str>,
    /// Hash of the secret of the process. `None` if it sends none.
    pub proof: Option<ProofHash>,
    /// Number of the registration, counted by the process. 0 if it sends none.
    pub attempt: u64,
}

impl Holder {
    /// Whether both are the same process of the RM: by proof, or by instance if neither has one.
    pub fn is_same_process(&self, other: &Self) -> bool {
        self.caller == other.caller
            && self.proof == other.proof
            && (self.proof.is_some() || self.instance == other.instance)
    }

    /// Whether this process has shown the proof of `claimed`, and is its caller.
    pub fn proves(&self, claimed: &Self) -> bool {
        self.proof.is_some() && self.proof == claimed.proof && self.caller == claimed.caller
    }
}

/// Facts of the whole store since a restored backup was accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Era {
    /// All epochs that are given from now on are larger. 0 as long as no restore was accepted.
    pub floor: Epoch,
}
