//! The member of the cluster to which calls of a resource manager (RM) go.
//!
//! # What is known of owners
//! The last renewal read all claims. A registration that went to another member since is noted
//! until the next renewal. If both name nobody, the claim is read from the arbiter: a stream may
//! follow its registration at once. So is the record of a member that began after the last renewal;
//! its addresses are enough to connect to it. Calls share these reads. Nothing is decided by this:
//! the member that is asked says whether it serves the RM.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use monoceros_actors::metrics::{ClusterMetrics, ForwardKind};
use monoceros_cluster::{
    Key, Life, MemberId, MemberRecord, Nanos, Owner, Record, Reply, Request, RmId,
};
use monoceros_cluster_store::{Arbiter, Handle, View};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http;
use tower::Service as _;

use super::lookup::{Found, NoAnswer};
use super::membership::Membership;
use super::peers::Peer;
use crate::grpc::end::ClaimRefusal;
use crate::grpc::registry::id_of;
use crate::grpc::routing::{OwnerSource, Remote, Route, Routing};
use crate::identity::Identity;

/// Owners that are younger than the last renewal.
#[derive(Debug, Default)]
pub(super) struct RecentOwners(BTreeMap<RmId, (Owner, Nanos)>);

impl RecentOwners {
    /// Notes the owner of an RM, as known at `now`. Forgets those that are older than the read at
    /// `read_at`.
    fn note(&mut self, rm: &RmId, owner: &Owner, now: Nanos, read_at: Nanos) {
        self.0.retain(|_, (_, noted_at)| *noted_at >= read_at);
        self.0.insert(rm.clone(), (owner.clone(), now));
    }

    /// The RMs whose owners were noted after the read at `read_at`.
    fn ids(&self, read_at: Nanos) -> Vec<RmId> {
        let young = self.0.iter().filter(|(_, (_, noted_at))| *noted_at >= read_at);
        young.map(|(rm, _)| rm.clone()).collect()
    }

    /// The owner of an RM, if it was noted after the read at `read_at`.
    fn of(&self, rm: &RmId, read_at: Nanos) -> Option<&Owner> {
        self.0.get(rm).filter(|(_, noted_at)| *noted_at >= read_at).map(|(owner, _)| owner)
    }
}

/// Access to the arbiter and the metrics.
pub(super) struct Sources {
    pub(super) arbiter: Arbiter,
    pub(super) metrics: ClusterMetrics,
}

impl Membership {
    /// The cluster as the last renewal read it.
    pub(super) fn view(&self) -> Option<Arc<View>> {
        Some(Arc::clone(&*self.handle()?.view().borrow()))
    }

    /// Counts a call that another member gets.
    pub(super) fn count_forward(&self, kind: ForwardKind) {
        if let Some(sources) = self.sources() {
            sources.metrics.forwarded(kind);
        }
    }

    /// Notes which member serves an RM.
    pub(super) fn note_owner(&self, rm: &RmId, owner: &Owner) {
        let (Some(handle), Some(view)) = (self.handle(), self.view()) else { return };
        self.recent_owners().note(rm, owner, handle.now(), view.read_at);
    }

    /// The owner of an RM by what is known here. `None`: nobody, as far as is known.
    pub(super) fn known_owner(&self, rm: &RmId) -> Option<Owner> {
        let view = self.view()?;
        if let Some(owner) = self.recent_owners().of(rm, view.read_at) {
            return Some(owner.clone());
        }
        let owner = view.claims.get(rm)?.value.owner.clone()?;
        is_alive(&view, &owner).then_some(owner)
    }

    /// Whether the claim of an RM names this member, as far as is known here. The RM may have no
    /// session.
    pub(super) fn is_claimed_here(&self, rm: &RmId) -> bool {
        self.serves(rm) || self.known_owner(rm) == Some(self.me())
    }

    /// The RMs whose claims name this member, as far as is known here. Some may have no session.
    pub(super) fn claimed_here(&self) -> BTreeSet<RmId> {
        let Some(view) = self.view() else { return BTreeSet::new() };
        let claimed = view.claims.keys().filter(|rm| self.is_claimed_here(rm)).cloned();
        claimed.chain(self.held()).collect()
    }

    /// Reads the owner of an RM from the arbiter. `None`: the claim names nobody.
    pub(super) async fn read_owner(&self, rm: &RmId) -> Result<Option<Owner>, ClaimRefusal> {
        let (Some(handle), Some(sources)) = (self.handle(), self.sources()) else {
            return Err(ClaimRefusal::Fenced);
        };
        let reads = self.lookups().of(rm);
        let found = reads.get(|| self.found(handle, owner_by(sources, rm))).await.result;
        let owner = found.map_err(|NoAnswer| ClaimRefusal::ArbiterUnavailable)?;
        if let Some(owner) = &owner {
            self.note_owner(rm, owner);
        }
        Ok(owner)
    }

    /// Reads the record of a member from the arbiter. `None`: it has none.
    async fn read_member(&self, member: &MemberId) -> Result<Option<MemberRecord>, ClaimRefusal> {
        let (Some(handle), Some(sources)) = (self.handle(), self.sources()) else {
            return Err(ClaimRefusal::Fenced);
        };
        let reads = self.lookups().of_member(member);
        let found = reads.get(|| self.found(handle, record_of(sources, member))).await.result;
        found.map_err(|NoAnswer| ClaimRefusal::ArbiterUnavailable)
    }

    /// The result of a read, which is not made if the arbiter seems to be away.
    async fn found<T>(&self, handle: &Handle, read: impl Future<Output = Found<T>>) -> Found<T> {
        let read_at = self.view().map(|view| view.read_at).unwrap_or_default();
        if self.lookups().is_away(handle.now(), read_at) {
            return Err(NoAnswer);
        }
        let found = read.await;
        self.lookups().note(&found, handle.now());
        found
    }

    /// The record of an owner in its incarnation: as the last renewal read it, or as it is now.
    pub(super) async fn record_of_owner(&self, owner: &Owner) -> Option<MemberRecord> {
        let is_it = |record: &MemberRecord| record.owner == *owner;
        let view = self.view()?;
        let known = view.members.get(&owner.member).map(|record| &record.value);
        if let Some(record) = known.filter(|record| is_it(record)) {
            return Some(record.clone());
        }
        self.read_member(&owner.member).await.ok().flatten().filter(is_it)
    }

    /// The way to the owner of an RM that is not served here.
    async fn way_to(&self, owner: &Owner) -> Route {
        if *owner == self.me() {
            return Route::Here;
        }
        let Some(view) = self.view() else { return Route::Here };
        match view.members.get(&owner.member).map(|record| &record.value) {
            Some(record) if record.owner == *owner => self.way_by(record),
            // It has begun again, or its record is younger than the last renewal.
            Some(_) | None => self.way_to_stranger(owner).await,
        }
    }

    /// The way to an owner whose incarnation is not the one that the last renewal read.
    async fn way_to_stranger(&self, owner: &Owner) -> Route {
        match self.read_member(&owner.member).await {
            Ok(Some(record)) if record.owner == *owner => self.way_by(&record),
            // That incarnation is over, and its claims are free.
            Ok(Some(_)) => Route::Here,
            Ok(None) => {
                let member = owner.member.0.to_string();
                Route::Refused(ClaimRefusal::OwnerUnreachable { member })
            }
            Err(refusal) => Route::Refused(refusal),
        }
    }

    /// The way to the member with this record, which a renewal need not have read.
    fn way_by(&self, record: &MemberRecord) -> Route {
        if record.life != Life::Alive {
            return Route::Here;
        }
        let Some(peer) = self.peer_by(record) else {
            // It has no address for members: the client is sent to it.
            let member = record.owner.member.0.to_string();
            return Route::Refused(ClaimRefusal::NotOwner { member, owner: grpc_of(record) });
        };
        Route::To(Arc::new(Counted { peer, sources: self.sources().cloned(), is_lost: false }))
    }
}

/// The owner that the claim of an RM names now.
async fn owner_by(sources: &Sources, rm: &RmId) -> Found<Owner> {
    match sources.arbiter.ask(Request::Read(Key::Claim(rm.clone()))).await {
        Ok(Reply::Read(found, _)) => Ok(found.and_then(|found| match found.value {
            Record::Claim(claim) => claim.owner,
            _ => None,
        })),
        Ok(_) | Err(_) => Err(NoAnswer),
    }
}

/// The record that a member has now.
async fn record_of(sources: &Sources, member: &MemberId) -> Found<MemberRecord> {
    match sources.arbiter.ask(Request::Read(Key::Member(member.clone()))).await {
        Ok(Reply::Read(found, _)) => Ok(found.and_then(|found| match found.value {
            Record::Member(record) => Some(record),
            _ => None,
        })),
        Ok(_) | Err(_) => Err(NoAnswer),
    }
}

fn is_alive(view: &View, owner: &Owner) -> bool {
    let record = view.members.get(&owner.member).map(|record| &record.value);
    record.is_some_and(|record| record.owner == *owner && record.life == Life::Alive)
}

/// Whether the owner of an RM lives, and does not say that the RM has no session there.
fn is_served(view: &View, rm: &RmId, owner: &Owner) -> bool {
    let record = view.members.get(&owner.member).map(|record| &record.value);
    record.is_some_and(|it| !it.details.unserved.contains(rm)) && is_alive(view, owner)
}

/// The gRPC address of a member.
pub(super) fn grpc_of(record: &MemberRecord) -> Option<String> {
    Some(record.details.grpc.clone()).filter(|address| !address.is_empty())
}

impl Routing for Membership {
    fn others(&self) -> Vec<Arc<dyn Remote>> {
        let Some(view) = self.view() else { return Vec::new() };
        let counted = |peer: Peer| {
            // By the time of the read: a member that cannot read knows nothing of others' silence.
            let record = view.members.get(&peer.owner().member).map(|record| &record.value);
            let is_lost = record.is_some_and(|it| self.is_lost(it, &view, view.read_at));
            Counted { peer, sources: self.sources().cloned(), is_lost }
        };
        self.peers().into_iter().map(|peer| Arc::new(counted(peer)) as Arc<dyn Remote>).collect()
    }

    fn is_incarnation(&self, incarnation: &str) -> bool {
        id_of(self.me().incarnation.0) == incarnation
    }

    fn resource_managers(&self) -> Vec<String> {
        let Some(view) = self.view() else { return Vec::new() };
        let recent = self.recent_owners().ids(view.read_at);
        let me = self.me();
        let owned = view.claims.iter().filter(|(rm, claim)| {
            let owner = claim.value.owner.as_ref();
            // The own sessions follow.
            owner.is_some_and(|owner| *owner != me && is_served(&view, rm, owner))
        });
        let ids: BTreeSet<_> =
            owned.map(|(rm, _)| rm.clone()).chain(recent).chain(self.held()).collect();
        ids.into_iter().map(|rm| rm.0.to_string()).collect()
    }

    fn serves(&self, rm_id: &str) -> bool {
        self.serves(&RmId(rm_id.into()))
    }

    fn route<'a>(&'a self, rm_id: &'a str, source: OwnerSource) -> BoxFuture<'a, Route> {
        async move {
            let rm = RmId(rm_id.into());
            if self.serves(&rm) {
                return Route::Here;
            }
            let known = match source {
                OwnerSource::LastRenewal => self.known_owner(&rm),
                OwnerSource::ReadNow => None,
            };
            // An owner that answers no ping may have been replaced since the last renewal.
            let answers = |owner: &Owner| self.peer(owner).is_some_and(|peer| peer.answers_pings());
            match known.filter(answers) {
                Some(owner) => self.way_to(&owner).await,
                None => match self.read_owner(&rm).await {
                    Ok(Some(owner)) => self.way_to(&owner).await,
                    Ok(None) => Route::Here,
                    Err(refusal) => Route::Refused(refusal),
                },
            }
        }
        .boxed()
    }

    fn claim_owner<'a>(&'a self, rm_id: &'a str) -> BoxFuture<'a, Option<String>> {
        async move {
            let owner = self.read_owner(&RmId(rm_id.into())).await.ok()??;
            Some(owner.member.0.to_string())
        }
        .boxed()
    }
}

/// Another member, whose calls are counted.
struct Counted {
    peer: Peer,
    sources: Option<Arc<Sources>>,
    /// Whether the member has been silent for its lease.
    is_lost: bool,
}

impl Remote for Counted {
    fn id(&self) -> &str {
        self.peer.id()
    }

    fn grpc(&self) -> &str {
        self.peer.grpc()
    }

    fn is_missing(&self) -> bool {
        self.is_lost || self.peer.refuses()
    }

    fn send(
        &self,
        request: http::Request<Body>,
        caller: &Identity,
    ) -> BoxFuture<'static, Result<http::Response<Body>, Status>> {
        if let Some(sources) = &self.sources {
            let is_call = request.headers().contains_key(http::header::CONTENT_TYPE);
            let kind = if is_call { ForwardKind::Call } else { ForwardKind::Rest };
            sources.metrics.forwarded(kind);
        }
        self.peer.send(request, caller)
    }
}

impl Remote for Peer {
    fn id(&self) -> &str {
        Peer::id(self)
    }

    fn grpc(&self) -> &str {
        Peer::grpc(self)
    }

    fn send(
        &self,
        mut request: http::Request<Body>,
        caller: &Identity,
    ) -> BoxFuture<'static, Result<http::Response<Body>, Status>> {
        self.mark(request.headers_mut(), caller);
        self.channel().call(request)
    }
}

#[cfg(test)]
mod tests {
    use monoceros_cluster::Incarnation;

    use super::*;

    #[test]
    fn a_recent_owner_counts_until_the_next_read() {
        let owner = Owner { member: MemberId("a".into()), incarnation: Incarnation(1) };
        let (rm, other) = (RmId("rm".into()), RmId("other".into()));
        let mut recent = RecentOwners::default();
        recent.note(&rm, &owner, 15, 10);
        assert_eq!(recent.of(&rm, 10), Some(&owner));
        assert_eq!(recent.of(&rm, 16), None);
        assert_eq!(recent.of(&other, 10), None);
        recent.note(&other, &owner, 17, 16);
        assert_eq!(recent.0.len(), 1);
    }
}
