//! Registrations that are made at another member: at the owner of the resource manager (RM), or,
//! for an RM that nobody owns any more, at a member with less load.
//!
//! # Why not at the member where the RM came
//! Clients know few addresses, and all RMs of a member that is lost come to the same ones. So an RM
//! without an owner goes to the less loaded of two members that are drawn by chance, if that one has
//! less load than this. So does an RM that shows a proof while its owner is silent, which any member
//! may claim at once. RMs that were just assigned count at once, since no record shows them yet.
//!
//! # Members that cannot take an RM
//! A member shows that it is drained with its next renewal, and one that lost its way to the arbiter
//! shows nothing. One that was chosen before refuses the RM, which is then served here, or by the
//! next member if this one is drained, too.
//!
//! # Invariant
//! A registration that another member has passed on is not passed on again.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use monoceros_actors::metrics::ForwardKind;
use monoceros_cluster::{CallId, Event, Forwarded, MemberId, Owner, RmId, less_loaded};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::membership::{Membership, OWNER_PATIENCE, SESSION_LOAD};
use super::operating::draws;
use super::peers::Peer;
use super::routing::grpc_of;
use crate::grpc::end::ClaimRefusal;
use crate::grpc::registry::Claimant;
use crate::grpc::routing::{Made, PassableCall};

/// Pause between two looks whether an owner shows one.
const PAUSE: Duration = Duration::from_millis(20);
/// Time within which another member has to answer a registration. An owner that does not counts as
/// not reached, and its claim notes that it is wanted here, although it answers pings: these find a
/// member that is lost within a second. A registration takes longer than a ping, since its
/// configuration is checked and each request to the arbiter may take a second. Clients wait for 5 s:
/// with a longer time here they would give up first, and nobody would ask for the RM.
const ANSWER_PATIENCE: Duration = Duration::from_secs(4);
/// Most members that a drained one asks to take an RM.
const MAX_ASKED: usize = 3;

/// RMs that were assigned to each member: for each the beat of the member's record at that time.
#[derive(Debug, Default)]
pub(super) struct Assigned(BTreeMap<MemberId, Vec<u64>>);

impl Assigned {
    /// Notes an RM that a member gets while its record has this beat.
    fn note(&mut self, member: &MemberId, beat: u64) {
        self.0.entry(member.clone()).or_default().push(beat);
    }

    /// Undoes a note: the member did not take the RM.
    fn withdraw(&mut self, member: &MemberId, beat: u64) {
        let Some(beats) = self.0.get_mut(member) else { return };
        if let Some(at) = beats.iter().position(|noted| *noted == beat) {
            beats.swap_remove(at);
        }
    }

    /// Forgets the members that are not among these.
    fn keep(&mut self, members: &BTreeMap<MemberId, Owner>) {
        self.0.retain(|member, _| members.contains_key(member));
    }

    /// Number of RMs that the record of a member with this beat cannot show yet.
    fn unseen(&mut self, member: &MemberId, beat: u64) -> u64 {
        let Some(beats) = self.0.get_mut(member) else { return 0 };
        // The renewal that followed may have begun before.
        beats.retain(|noted| *noted <= beat && beat <= noted.saturating_add(1));
        u64::try_from(beats.len()).unwrap_or(u64::MAX)
    }
}

impl Membership {
    /// Assigns an RM that nobody owns to another member with less load, and makes the registration
    /// there. `Ok(())`: it has to be made here. `Err`: the answer of the other member follows, or
    /// the client is sent there.
    pub(super) async fn assign(&self, claimant: &Claimant) -> Result<(), ClaimRefusal> {
        let rm = RmId(claimant.rm_id.as_str().into());
        let Some(call) = claimant.call.as_ref().filter(|_| !claimant.is_forwarded) else {
            return Ok(());
        };
        let mut refused = BTreeSet::new();
        for _ in 0..MAX_ASKED {
            let peer = self.less_loaded_peer(&rm, claimant.proof.is_some(), &refused);
            let Some((peer, beat)) = peer else { return Ok(()) };
            let (member, owner) = (peer.id().to_owned(), Some(peer.grpc().to_owned()));
            debug!(rm = &*rm.0, member, "new resource manager handed on to another member");
            if call.wants_redirect() {
                return Err(ClaimRefusal::NotOwner { member, owner });
            }
            let made = self.pass_to(&rm, call, &peer, &claimant.abandoned).await;
            if made != Some(Made::Accepted) {
                self.assigned().withdraw(&peer.owner().member, beat);
            }
            match made {
                Some(Made::Accepted | Made::Refused) => {
                    return Err(ClaimRefusal::NotOwner { member, owner });
                }
                // Something has changed since its record was read, or the claim names another member.
                Some(Made::Leaving | Made::NotNow | Made::AtNoOwner) | None => {
                    call.forget_answer();
                    if !self.operator.is_draining() {
                        return Ok(());
                    }
                    refused.insert(peer.owner().member.clone());
                }
            }
        }
        Ok(())
    }

    /// Makes a registration at another member, and notes it as the owner if it accepts. `None`: no
    /// answer came, or the client has given up. The answer goes to the client unless it is forgotten.
    async fn pass_to(
        &self,
        rm: &RmId,
        call: &PassableCall,
        peer: &Peer,
        abandoned: &CancellationToken,
    ) -> Option<Made> {
        self.count_forward(ForwardKind::Registration);
        let made = abandoned.run_until_cancelled(call.make_at(peer, ANSWER_PATIENCE)).await?;
        match &made {
            Ok(Made::Accepted) => self.note_owner(rm, peer.owner()),
            Ok(_) => {}
            Err(status) => {
                debug!(member = peer.id(), why = status.message(), "no answer to a registration");
            }
        }
        made.ok()
    }

    /// Makes a registration at the owner of its RM, or sends the client there: this member is
    /// drained. `Ok(())`: the owner cannot be reached, or does not take it.
    pub(super) async fn leave_to_owner(
        &self,
        claimant: &Claimant,
        owner: &Owner,
    ) -> Result<(), ClaimRefusal> {
        let member = owner.member.0.to_string();
        let (peer, address) = self.found_owner(owner).await;
        let redirect = ClaimRefusal::NotOwner { member, owner: address.clone() };
        if claimant.is_forwarded {
            return Err(redirect);
        }
        if !self.reaches(peer.as_ref(), address.as_deref()).await {
            return Ok(());
        }
        let (Some(peer), Some(call)) = (peer, &claimant.call) else {
            return Err(redirect);
        };
        if call.wants_redirect() {
            return Err(redirect);
        }
        let rm = RmId(claimant.rm_id.as_str().into());
        match self.pass_to(&rm, call, &peer, &claimant.abandoned).await {
            Some(Made::Accepted | Made::Refused | Made::NotNow) => Err(redirect),
            Some(Made::Leaving | Made::AtNoOwner) | None => {
                call.forget_answer();
                Ok(())
            }
        }
    }

    /// The way to an owner and its gRPC address, as far as its record has them. The record may be
    /// younger than the last renewal.
    async fn found_owner(&self, owner: &Owner) -> (Option<Peer>, Option<String>) {
        let record = self.record_of_owner(owner).await;
        let peer = record.as_ref().and_then(|record| self.peer_by(record));
        (peer, record.as_ref().and_then(grpc_of))
    }

    /// Whether an owner answers pings, now or within a second.
    async fn reaches(&self, peer: Option<&Peer>, address: Option<&str>) -> bool {
        match (peer, address) {
            (Some(peer), _) => answers_in_time(peer).await,
            // It has no listener for members.
            (None, Some(address)) => self.probe(address.to_owned()).await,
            // Its record was not read, or that incarnation is over.
            (None, None) => true,
        }
    }

    /// Whether any member may claim an RM at once, as far as is known here.
    fn is_for_any(&self, rm: &RmId, has_proof: bool) -> bool {
        let owner = self.known_owner(rm);
        let is_silent = |owner: &Owner| self.peer(owner).is_some_and(|peer| !peer.answers_pings());
        owner.is_none_or(|owner| has_proof && is_silent(&owner))
    }

    /// The member for an RM that any may claim, with the beat of its record, and none of those
    /// that have refused the RM. Counted as assigned. `None`: this one.
    fn less_loaded_peer(
        &self,
        rm: &RmId,
        has_proof: bool,
        refused: &BTreeSet<MemberId>,
    ) -> Option<(Peer, u64)> {
        let (handle, view) = (self.handle()?, self.view()?);
        if !handle.gate().is_open() || self.serves(rm) || !self.is_for_any(rm, has_proof) {
            return None;
        }
        // A member that is drained gets nothing new, and neither does this one then.
        let own = if self.operator.is_draining() {
            u64::MAX
        } else {
            self.load_with(self.sessions_and_calls())
        };
        let takers = self.takers().into_iter();
        let takers: BTreeMap<_, _> =
            takers.map(|(owner, _)| (owner.member.clone(), owner)).collect();
        let mut assigned = self.assigned();
        assigned.keep(&takers);
        let mut loads = vec![(None, own)];
        for record in view.members.values().map(|record| &record.value) {
            let is_taker = takers.get(&record.owner.member) == Some(&record.owner)
                && !refused.contains(&record.owner.member);
            let Some(peer) = is_taker.then(|| self.peer(&record.owner)).flatten() else { continue };
            if peer.answers_pings() {
                let unseen = assigned.unseen(&record.owner.member, record.beat);
                let load = record.details.load.saturating_add(unseen.saturating_mul(SESSION_LOAD));
                loads.push((Some((peer, record.beat)), load));
            }
        }
        let (peer, beat) = less_loaded(&loads, draws())?.clone()?;
        let is_it = |(other, _): &&(Option<(Peer, u64)>, u64)| {
            other.as_ref().is_some_and(|(other, _)| other.owner() == peer.owner())
        };
        let (_, load) = loads.iter().find(is_it)?;
        if *load >= own {
            return None;
        }
        assigned.note(&peer.owner().member, beat);
        Some((peer, beat))
    }

    /// Load of this member with so many sessions.
    pub(super) fn load_with(&self, n_sessions: usize) -> u64 {
        let sessions = u64::try_from(n_sessions).unwrap_or(u64::MAX);
        let counted = self.counted().load(Ordering::Relaxed);
        sessions.saturating_mul(SESSION_LOAD).saturating_add(counted)
    }

    /// Makes a registration at the owner, or sends the client there, and reports to the driver how
    /// that ended, also after a panic: without a report the RM stays busy. Ends at once if the client
    /// gives up.
    pub(super) async fn forward(self: Arc<Self>, call: CallId, rm: RmId, owner: Owner) {
        let abandoned = self.abandonment_of(call);
        let ended = AssertUnwindSafe(self.made_at_owner(call, &rm, &owner)).catch_unwind();
        let ended = abandoned.run_until_cancelled(ended).await;
        // The client may give up at the moment in which no answer has come.
        let ended = ended.filter(|_| !abandoned.is_cancelled());
        let Some(handle) = self.handle() else { return };
        let Some(ended) = ended else {
            handle.send(Event::Abandoned(call, rm)).await;
            return;
        };
        let (ended, address) = ended.unwrap_or((Forwarded::NoAnswer, None));
        // The driver comes first: it refuses another registration while this one is open.
        handle.send(Event::ForwardEnded(call, rm, ended)).await;
        if ended == Forwarded::Answered {
            let member = owner.member.0.to_string();
            self.refuse_call(call, ClaimRefusal::NotOwner { member, owner: address });
        }
    }

    /// Makes a registration at the owner, if that can be reached. Returns how that ended, and the
    /// owner's gRPC address.
    async fn made_at_owner(
        &self,
        call: CallId,
        rm: &RmId,
        owner: &Owner,
    ) -> (Forwarded, Option<String>) {
        self.note_owner(rm, owner);
        let passable = self.call_of(call);
        let (peer, address) = self.found_owner(owner).await;
        let ended = match (&peer, passable) {
            (Some(peer), Some(passable)) if !passable.wants_redirect() => {
                self.count_forward(ForwardKind::Registration);
                made_at(peer, &passable).await
            }
            _ if self.reaches(peer.as_ref(), address.as_deref()).await => Forwarded::Answered,
            _ => Forwarded::NoAnswer,
        };
        (ended, address)
    }
}

async fn made_at(peer: &Peer, call: &PassableCall) -> Forwarded {
    match call.make_at(peer, ANSWER_PATIENCE).await {
        Ok(Made::Accepted | Made::Refused | Made::Leaving | Made::NotNow) => Forwarded::Answered,
        Ok(Made::AtNoOwner) => Forwarded::NotOwner,
        Err(status) => {
            debug!(member = peer.id(), why = status.message(), "no answer to a registration");
            Forwarded::NoAnswer
        }
    }
}

/// Whether a member answers pings, now or within a second.
async fn answers_in_time(peer: &Peer) -> bool {
    let begun = Instant::now();
    while !peer.answers_pings() {
        if begun.elapsed() >= OWNER_PATIENCE {
            return false;
        }
        sleep(PAUSE).await;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assigned_rm_counts_until_the_second_record_after_it() {
        let member = MemberId("a".into());
        let mut assigned = Assigned::default();
        assigned.note(&member, 5);
        assigned.note(&member, 6);
        assert_eq!(assigned.unseen(&member, 6), 2);
        assert_eq!(assigned.unseen(&member, 7), 1);
        assert_eq!(assigned.unseen(&member, 8), 0);
        assigned.note(&member, 8);
        assert_eq!(assigned.unseen(&member, 0), 0, "another incarnation");
        assert_eq!(assigned.unseen(&MemberId("b".into()), 1), 0);
        assigned.keep(&BTreeMap::new());
        assert!(assigned.0.is_empty(), "members that went are forgotten");
    }
    #[test]
    fn an_rm_that_was_refused_does_not_count() {
        let member = MemberId("a".into());
        let mut assigned = Assigned::default();
        assigned.note(&member, 5);
        assigned.note(&member, 5);
        assigned.withdraw(&member, 5);
        assert_eq!(assigned.unseen(&member, 5), 1);
        assigned.withdraw(&member, 4);
        assert_eq!(assigned.unseen(&member, 5), 1);
    }
}
