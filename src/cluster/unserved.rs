//! Claims that name this member although their resource managers (RMs) have no session here.
//!
//! A hand-over gives an RM to a member at which the RM has not registered yet, and a member that was
//! fenced has lost its sessions. Such an RM comes soon, or it has ended. After the time for which
//! the session of an absent RM is kept, the claim is freed. Until then the member's record names it,
//! so that no member takes the RM for one that is served.

use std::collections::BTreeMap;
use std::time::Duration;

use monoceros_cluster::{Epoch, Event, Nanos, RmId};
use monoceros_cluster_store::View;
use tokio::time::timeout;
use tracing::info;

use super::membership::Membership;
use crate::grpc::end::ClaimRefusal;

/// Most RMs that the record of a member names as unserved.
const MAX_NAMED: usize = 256;

/// Time within which a claim has to be freed for an operator.
const PATIENCE: Duration = Duration::from_secs(3);

/// Claims without a session, with the time since which they were seen.
#[derive(Debug, Default)]
pub(super) struct Unserved(BTreeMap<RmId, (Epoch, Nanos)>);

impl Unserved {
    /// Notes all claims without a session, as read at `now`.
    fn follow(&mut self, claims: BTreeMap<RmId, Epoch>, now: Nanos) {
        let noted = std::mem::take(&mut self.0);
        let since = |rm: &RmId, epoch: Epoch| match noted.get(rm) {
            Some(&(before, since)) if before == epoch => since,
            Some(_) | None => now,
        };
        let claims = claims.into_iter();
        self.0 = claims
            .map(|(rm, epoch)| {
                let since = since(&rm, epoch);
                (rm, (epoch, since))
            })
            .collect();
    }

    /// The claims that have been without a session for `bound` at `now`.
    fn for_long(&self, bound: Nanos, now: Nanos) -> impl Iterator<Item = (&RmId, Epoch)> {
        let all = self.0.iter();
        all.filter(move |(_, (_, since))| now.saturating_sub(*since) >= bound)
            .map(|(rm, (epoch, _))| (rm, *epoch))
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}

impl Membership {
    /// The RMs whose claims have named this member for a lease without a session.
    pub(super) fn unserved_rms(&self) -> Vec<RmId> {
        let Some(handle) = self.handle() else { return Vec::new() };
        let (now, lease) = (handle.now(), nanos(self.operator.facts.lease));
        let unserved = self.unserved();
        let rms = unserved.for_long(lease, now).map(|(rm, _)| rm.clone());
        rms.filter(|rm| !self.serves(rm)).take(MAX_NAMED).collect()
    }

    /// Frees the claim of an RM at once, if it names this member without a session.
    pub(super) async fn free_one(&self, rm: RmId) -> Result<(), ClaimRefusal> {
        let (Some(handle), Some(view)) = (self.handle(), self.view()) else {
            return Err(ClaimRefusal::Fenced);
        };
        let me = self.me();
        let claim = view.claims.get(&rm).map(|claim| &claim.value);
        let own = claim.filter(|claim| claim.owner.as_ref() == Some(&me) && !self.serves(&rm));
        let Some(epoch) = own.map(|claim| claim.epoch) else { return Ok(()) };
        let freed = self.frees.wait((rm.clone(), epoch));
        if !handle.send(Event::Free(rm, epoch)).await {
            return Err(ClaimRefusal::Fenced);
        }
        // No end comes while a registration of the RM is under way.
        match timeout(PATIENCE, freed.ended()).await {
            Ok(Some(())) => Ok(()),
            Ok(None) => Err(ClaimRefusal::Fenced),
            Err(_) => Err(ClaimRefusal::Contended),
        }
    }

    /// Frees the claims whose RMs have not come to this member for too long.
    pub(super) async fn free_unserved(&self, view: &View) {
        let Some(handle) = self.handle() else { return };
        let me = self.me();
        let claims = view.claims.iter().map(|(rm, claim)| (rm, &claim.value));
        let own = claims.filter(|(_, claim)| claim.owner.as_ref() == Some(&me));
        let without_session = own.filter(|(rm, _)| !self.serves(rm));
        let claims = without_session.map(|(rm, claim)| (rm.clone(), claim.epoch)).collect();
        let facts = &self.operator.facts;
        let bound = nanos(facts.given_up_after.max(facts.lease));
        let due: Vec<_> = {
            let mut unserved = self.unserved();
            unserved.follow(claims, view.read_at);
            let due = unserved.for_long(bound, view.read_at);
            due.map(|(rm, epoch)| (rm.clone(), epoch)).collect()
        };
        for (rm, epoch) in due {
            let why = "it has no session here, and has not come back";
            info!(rm = &*rm.0, epoch = epoch.0, why, "claim of a resource manager freed");
            handle.send(Event::Free(rm, epoch)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_due_after_its_time_without_a_session() {
        let rm = RmId("rm".into());
        let claims = |epoch| BTreeMap::from([(rm.clone(), Epoch(epoch))]);
        let mut unserved = Unserved::default();
        unserved.follow(claims(1), 10);
        unserved.follow(claims(1), 15);
        assert_eq!(unserved.for_long(10, 19).count(), 0);
        assert_eq!(unserved.for_long(10, 20).collect::<Vec<_>>(), [(&rm, Epoch(1))]);
        unserved.follow(claims(2), 20);
        assert_eq!(unserved.for_long(10, 20).count(), 0, "another claim");
        unserved.follow(BTreeMap::new(), 25);
        unserved.follow(claims(2), 30);
        assert_eq!(unserved.for_long(10, 35).count(), 0, "it had a session meanwhile");
    }
}
