//! Operations as the member carries them out.
//!
//! # Invariants
//! * Nothing here decides about a claim: an operation is an event of the member's rules, or a
//!   registration that is refused before it reaches them.
//! * A drained member goes on handing over: a registration that was under way when the drain began
//!   may still win its claim.
//! * A drained member gives away all claims that name it, also those without a session: other
//!   members send registrations of such RMs here.
//! * A drained member refuses no RM that another member serves: a client may know no other address.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use monoceros_cluster::{
    Epoch, Event, Life, MemberId, MemberRecord, Nanos, Owner, RmId, less_loaded,
};
use monoceros_cluster_store::{Handle, View};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tracing::info;

use super::membership::{Membership, SESSION_LOAD};
use super::operations::{
    ClaimReport, ClusterReport, Drained, GroupReport, MAX_GROUPS, MemberReport, MemberState,
    OperationRefusal, Operations, OwnState,
};
use super::operator::Drain;
use super::peers::Peer;
use crate::chance::random_bits;
use crate::clock::now_ns;
use crate::grpc::end::ClaimRefusal;
use crate::grpc::registry::Claimant;

/// Pause between two rounds of a drain.
const DRAIN_PAUSE: Duration = Duration::from_millis(200);
/// Time for which a call waits until its member is drained.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);

impl Membership {
    /// State of a member's record at `now`.
    pub(super) fn state_of(&self, record: &MemberRecord, view: &View, now: Nanos) -> MemberState {
        let me = self.me();
        // Three intervals of renewals, by the longer of both leases.
        let bound = self.lease_with(record) / 5 * 3;
        let is_silent =
            view.silence(&record.owner.member, now).is_some_and(|silence| silence > bound);
        match record.life {
            Life::Left => MemberState::Left,
            Life::Deposed => MemberState::Deposed,
            Life::Alive if record.owner == me && self.operator.state() != OwnState::Serving => {
                MemberState::Fenced
            }
            Life::Alive if is_silent => MemberState::Silent,
            Life::Alive if record.details.draining => MemberState::Draining,
            Life::Alive => MemberState::Alive,
        }
    }

    /// The lease for which this member waits for another one.
    fn lease_with(&self, record: &MemberRecord) -> Nanos {
        let own = self.operator.facts.lease.as_nanos();
        record.waited_for(u64::try_from(own).unwrap_or(Nanos::MAX))
    }

    /// Whether a member's record has not changed for a whole lease.
    pub(super) fn is_lost(&self, record: &MemberRecord, view: &View, now: Nanos) -> bool {
        let lease = self.lease_with(record);
        view.silence(&record.owner.member, now).is_some_and(|silence| silence >= lease)
    }

    /// Members that take resource managers, except this one, with their loads.
    pub(super) fn takers(&self) -> Vec<(Owner, u64)> {
        let Some(handle) = self.handle() else { return Vec::new() };
        let (view, now) = (handle.view().borrow().clone(), handle.now());
        let me = self.me().member;
        let records = view.members.values().map(|record| &record.value);
        records
            .filter(|record| record.owner.member != me)
            .filter(|record| self.state_of(record, &view, now) == MemberState::Alive)
            .map(|record| (record.owner.clone(), record.details.load))
            .collect()
    }

    /// Refuses what another member has to do.
    pub(super) fn at_member(&self, member: &MemberId) -> Result<(), OperationRefusal> {
        if *member == self.me().member {
            return Ok(());
        }
        let members = self.handle().ok_or(ClaimRefusal::Fenced)?.members();
        let id = member.0.to_string();
        let record = members.get(member).map(|record| &record.value);
        let record = record.ok_or_else(|| OperationRefusal::MemberUnknown(id.clone()))?;
        let address = Some(record.details.grpc.clone()).filter(|address| !address.is_empty());
        match record.life {
            Life::Alive => Err(OperationRefusal::AtMember { member: id, address }),
            Life::Left => Err(OperationRefusal::MemberUnfit { member: id, state: "left" }),
            Life::Deposed => Err(OperationRefusal::MemberUnfit { member: id, state: "deposed" }),
        }
    }

    /// Hands over all resource managers whose claims name this member now. Returns how many were
    /// handed over.
    async fn hand_all_over(&self) -> usize {
        let successors = self.successors_for(self.claimed_here());
        let moves = successors.into_iter().map(|(rm, to)| self.hand_over(rm, to));
        let moves = join_all(moves).await.into_iter();
        moves.filter(|ended| matches!(ended, Ok(Some(_)))).count()
    }

    /// Refuses a registration at this member, which is drained. A resource manager that is claimed
    /// here is handed over first; one of another owner goes to that owner. `Ok(())`: only this
    /// member can serve it now, or the rules of the cluster send it to its owner.
    pub(super) async fn refuse_drained(&self, claimant: &Claimant) -> Result<(), ClaimRefusal> {
        let rm = RmId(claimant.rm_id.as_str().into());
        let taker = self.takers().into_iter().min_by_key(|(_, load)| *load);
        let Some((taker, _)) = taker else { return Ok(()) };
        let to = if self.is_claimed_here(&rm) {
            let Ok(Some(owner)) = self.hand_over(rm, taker).await else { return Ok(()) };
            owner
        } else if let Some(owner) = self.known_owner(&rm) {
            if claimant.proof.is_none() {
                // Without a proof they forward it, and depose an owner that is silent.
                return Ok(());
            }
            self.leave_to_owner(claimant, &owner).await?;
            taker
        } else {
            taker
        };
        let owner = self.address_of(&to);
        if claimant.is_forwarded {
            // The member that passed it on reads the claim again, or serves the resource manager.
            let member = to.member.0.to_string();
            return Err(ClaimRefusal::NotOwner { member, owner });
        }
        Err(ClaimRefusal::Draining { owner })
    }

    /// Hands over the resource managers of the member for as long as this drain lasts. Sends their
    /// number once the member is empty.
    async fn keep_empty(self: Arc<Self>, drain: Drain, first: oneshot::Sender<usize>) {
        let mut first = Some(first);
        let mut handed_over = 0;
        while self.operator.is_drained_by(drain) {
            handed_over += self.hand_all_over().await;
            if self.served() == 0
                && let Some(first) = first.take()
            {
                // The caller may have gone.
                let _ = first.send(handed_over);
            }
            sleep(DRAIN_PAUSE).await;
        }
    }

    async fn drain_itself(
        self: Arc<Self>,
        member: String,
        begins: bool,
    ) -> Result<Drained, OperationRefusal> {
        self.at_member(&MemberId(member.into()))?;
        if !begins {
            self.operator.end_drain();
            return Ok(Drained { remaining: self.served(), ..Drained::default() });
        }
        self.check_may_decide()?;
        if self.takers().is_empty() {
            return Err(OperationRefusal::NoOtherMember);
        }
        let Some(drain) = self.operator.begin_drain() else {
            return Ok(Drained { remaining: self.served(), ..Drained::default() });
        };
        info!("this member is drained");
        let (empty, emptied) = oneshot::channel();
        let begun_with = self.served();
        tokio::spawn(Arc::clone(&self).keep_empty(drain, empty));
        let emptied = timeout(DRAIN_PATIENCE, emptied);
        // A task of its own: the caller may give up.
        let confirmed = tokio::spawn(Arc::clone(&self).confirm(drain));
        let (handed_over, confirmed) = tokio::join!(emptied, confirmed);
        if let Ok(confirmed) = confirmed {
            confirmed?;
        }
        let remaining = self.served();
        let handed_over = match handed_over {
            Ok(Ok(handed_over)) => handed_over,
            Ok(Err(_)) | Err(_) => begun_with.saturating_sub(remaining),
        };
        Ok(Drained { handed_over, remaining })
    }

    /// Gives a drain up if no member is left that takes resource managers. Members that are drained
    /// at once have each found another one at first. Each shows its drain before it looks again, so
    /// that the last one at least finds none.
    async fn confirm(self: Arc<Self>, drain: Drain) -> Result<(), OperationRefusal> {
        if self.is_drain_shown().await && self.takers().is_empty() {
            self.operator.give_up(drain);
            return Err(OperationRefusal::NoOtherMember);
        }
        Ok(())
    }

    /// Waits until the record of this member shows that it is drained: whoever reads it from then on
    /// gives it nothing. Returns whether it does within two renewals.
    async fn is_drain_shown(&self) -> bool {
        let Some(handle) = self.handle() else { return false };
        let me = self.me().member;
        let mut view = handle.view();
        let shown = view.wait_for(|view| {
            view.members.get(&me).is_some_and(|record| record.value.details.draining)
        });
        matches!(timeout(self.operator.facts.lease / 5 * 2, shown).await, Ok(Ok(_)))
    }

    /// Refuses an operation while this member may not decide.
    pub(super) fn check_may_decide(&self) -> Result<(), OperationRefusal> {
        let problem = self.handle().and_then(Handle::problem);
        let why = self.operator.state().why_not(problem.as_deref());
        why.map_or(Ok(()), |why| Err(OperationRefusal::MayNotDecide(why)))
    }

    async fn accept(&self) -> Result<u64, OperationRefusal> {
        if self.operator.state() != OwnState::Restored {
            return Err(OperationRefusal::NothingToAccept);
        }
        let handle = self.handle().ok_or(ClaimRefusal::Fenced)?;
        let accepted = self.operator.acceptances.wait(());
        // Above any epoch that was ever given.
        let floor = Epoch(u64::try_from(now_ns() / 1_000_000).unwrap_or_default());
        handle.send(Event::AcceptRestore { floor }).await;
        match timeout(self.operator.facts.lease, accepted.ended()).await {
            Ok(Some(floor)) => Ok(floor),
            Ok(None) | Err(_) => Err(ClaimRefusal::ArbiterUnavailable.into()),
        }
    }
}

/// The operations of a membership.
pub(super) struct OfMember(pub(super) Arc<Membership>);

impl OfMember {
    /// The first configurations that this member cannot apply.
    fn not_in_force(&self) -> Vec<GroupReport> {
        let groups = self.0.shared().map(|shared| shared.groups.reports()).unwrap_or_default();
        groups.into_iter().filter(|group| group.why_not.is_some()).take(MAX_GROUPS).collect()
    }
}

impl Operations for OfMember {
    fn member_id(&self) -> String {
        self.0.me().member.0.to_string()
    }

    fn report(&self) -> ClusterReport {
        let (facts, handle) = (&self.0.operator.facts, self.0.handle());
        let view = handle.map(|handle| handle.view().borrow().clone()).unwrap_or_default();
        let now = handle.map(Handle::now).unwrap_or_default();
        let rms = view.owned();
        let member = |record: &MemberRecord| {
            let (owner, details) = (&record.owner, &record.details);
            MemberReport {
                id: owner.member.0.to_string(),
                incarnation: format!("{:032x}", owner.incarnation.0),
                version: details.version.clone(),
                addresses: [&details.grpc, &details.rest, &details.internal].map(Clone::clone),
                state: self.0.state_of(record, &view, now),
                rms: rms.get(&owner.member).copied().unwrap_or_default(),
                load: details.load,
                lease: record.lease.map(Duration::from_nanos),
                not_in_force: details.not_in_force,
                beat_ago: view
                    .silence(&owner.member, now)
                    .filter(|_| record.life == Life::Alive)
                    .map(Duration::from_nanos),
            }
        };
        let id = |owner: &Option<Owner>| owner.as_ref().map(|owner| owner.member.0.to_string());
        let claims = view.claims.iter().map(|(rm, claim)| ClaimReport {
            rm_id: rm.0.to_string(),
            epoch: claim.value.epoch.0,
            owner: id(&claim.value.owner),
            wanted_by: id(&claim.value.wanted_by),
            since_ms: claim.value.since_ms,
        });
        ClusterReport {
            name: facts.cluster.clone(),
            arbiter: facts.arbiter,
            lease: facts.lease,
            member: self.member_id(),
            state: self.0.operator.state(),
            problem: handle.and_then(Handle::problem),
            read_ago: (view.read_at > 0)
                .then(|| Duration::from_nanos(now.saturating_sub(view.read_at))),
            not_in_force: self.not_in_force(),
            members: view.members.values().map(|record| member(&record.value)).collect(),
            claims: claims.collect(),
        }
    }

    fn peer(&self, member: &str) -> Option<Peer> {
        self.0.peers().into_iter().find(|peer| peer.id() == member)
    }

    fn unreachable(&self, member: String, grpc: Option<String>) -> OperationRefusal {
        self.0.why_unreachable(member, grpc)
    }

    fn move_rm(
        &self,
        rm_id: String,
        to: Option<String>,
    ) -> BoxFuture<'_, Result<String, OperationRefusal>> {
        self.0.move_by_owner(rm_id, to).boxed()
    }

    fn drain(
        &self,
        member: String,
        drain: bool,
    ) -> BoxFuture<'_, Result<Drained, OperationRefusal>> {
        Arc::clone(&self.0).drain_itself(member, drain).boxed()
    }

    fn accept_restore(&self) -> BoxFuture<'_, Result<u64, OperationRefusal>> {
        self.0.accept().boxed()
    }
}

/// Two random numbers for the choice of a member.
#[expect(clippy::cast_possible_truncation, reason = "any 64 of the random bits")]
pub(super) fn draws() -> [u64; 2] {
    [(); 2].map(|()| random_bits() as u64)
}

impl Membership {
    /// Members for the resource managers that are served here: for each the less loaded of two
    /// others that take some.
    pub(super) fn successors(&self) -> BTreeMap<RmId, Owner> {
        self.successors_for(self.held())
    }

    fn successors_for(&self, rms: impl IntoIterator<Item = RmId>) -> BTreeMap<RmId, Owner> {
        let mut loads = self.takers();
        let mut successors = BTreeMap::new();
        for rm in rms {
            let Some(owner) = less_loaded(&loads, draws()).cloned() else { break };
            if let Some((_, load)) = loads.iter_mut().find(|(other, _)| *other == owner) {
                *load += SESSION_LOAD;
            }
            successors.insert(rm, owner);
        }
        successors
    }
}
