//! Members that a client could go to, and owners that a client takes for lost.
//!
//! A client whose owner fell silent registers at another member, and names the owner. If the owner
//! acts, the silence was that of a line, or a pause: the client is sent back once, since to stay
//! costs less than to report everything to another owner.
//!
//! # Why not the last ping
//! The client suspects its owner sooner than pings show that it stands still. So the owner has to
//! send something now (`Peer::acts`).

use std::iter;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use monoceros_cluster::{Details, Life, Owner};

use super::membership::Membership;
use super::operations::MemberState;
use super::peers::Peer;
use crate::grpc::end::ClaimRefusal;
use crate::grpc::registry::id_of;

/// Finds out whether a member acts at this moment. `None`: there is no connection to it.
pub(super) type Acts = fn(Option<Peer>) -> BoxFuture<'static, bool>;

/// Facts by which suspicions are judged.
pub(super) struct Suspicion {
    /// The gRPC address of this member.
    pub(super) grpc: String,
    pub(super) acts: Acts,
}

impl Membership {
    /// Redirects a registration whose process suspects a live member that acts.
    pub(super) async fn refuse_false_suspicion(&self, suspects: &str) -> Result<(), ClaimRefusal> {
        let is_suspect = |owner: &Owner| id_of(owner.incarnation.0) == suspects;
        let suspect = self.others_alive().into_iter().find(|(owner, _)| is_suspect(owner));
        let Some((owner, details)) = suspect else { return Ok(()) };
        if !(self.suspicion.acts)(self.peer(&owner)).await {
            return Ok(());
        }
        let member = owner.member.0.to_string();
        Err(ClaimRefusal::NotOwner { member, owner: Some(details.grpc.clone()) })
    }

    /// The gRPC addresses of the members that live and are not silent, this one first.
    pub(super) fn addresses(&self) -> Vec<String> {
        let view = self.view().unwrap_or_default();
        let is_not_silent = |owner: &Owner| {
            let record = view.members.get(&owner.member).map(|record| &record.value);
            // By the time of the read: a member that cannot read knows nothing of others' silence.
            record.is_some_and(|it| self.state_of(it, &view, view.read_at) != MemberState::Silent)
        };
        let others = self.others_alive().into_iter().filter(|(owner, _)| is_not_silent(owner));
        let others = others.map(|(_, details)| details.grpc.clone());
        let all = iter::once(self.suspicion.grpc.clone()).chain(others);
        all.filter(|address| !address.is_empty()).collect()
    }

    /// The other members that lived at the last renewal.
    fn others_alive(&self) -> Vec<(Owner, Arc<Details>)> {
        let Some(handle) = self.handle() else { return Vec::new() };
        let me = self.me().member;
        let members = handle.members();
        let live = members
            .values()
            .map(|record| &record.value)
            .filter(|record| record.life == Life::Alive && record.owner.member != me);
        live.map(|record| (record.owner.clone(), Arc::clone(&record.details))).collect()
    }
}

/// Whether the member sends anything on the connection to it.
pub(super) fn acts_on_link(peer: Option<Peer>) -> BoxFuture<'static, bool> {
    async move {
        match peer {
            Some(peer) => peer.acts().await,
            None => false,
        }
    }
    .boxed()
}
