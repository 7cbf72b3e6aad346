//! Judgement of a registration, by the claim as it was read.

use crate::names::{Epoch, Owner, RmId};
use crate::records::{Claim, Holder};
use crate::rules::{Rule, Rules};

/// Number of the call that waits for an answer, given by the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A registration whose refusals by configuration and rights were checked before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Registration {
    /// The call that waits for the answer.
    pub call: CallId,
    /// The RM.
    pub rm: RmId,
    /// The process that registers.
    pub holder: Holder,
    /// The largest epoch that the process had a session with. `None` if it had none.
    pub shown_epoch: Option<Epoch>,
    /// Whether another member forwarded it. It is not forwarded again.
    pub is_forwarded: bool,
    /// Milliseconds since 1970, for [`Claim::since_ms`].
    pub since_ms: u64,
}

/// Result of judging a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// This member may claim the RM now. If the RM leaves a live owner, that one is notified.
    Claims { leaves: Option<Owner> },
    /// Another member owns the RM. Whether it is still alive has to be read.
    AsksAbout(Owner),
    /// Another process of the RM, or a later registration of this one, came after it.
    Superseded,
}

/// Judges a registration at member `me`.
pub(crate) fn judge(
    me: &Owner,
    claim: Option<&Claim>,
    registration: &Registration,
    rules: Rules,
) -> Verdict {
    let Some(claim) = claim else { return Verdict::Claims { leaves: None } };
    let holder = &registration.holder;
    let proves = holder.proves(&claim.holder);
    if proves && holder.attempt < claim.holder.attempt && rules.keep(Rule::RefusesOlderAttempts) {
        return Verdict::Superseded;
    }
    if registration.shown_epoch.is_some_and(|shown| shown < claim.epoch)
        && !holder.is_same_process(&claim.holder)
        && rules.keep(Rule::RefusesSuperseded)
    {
        return Verdict::Superseded;
    }
    match &claim.owner {
        None => Verdict::Claims { leaves: None },
        Some(owner) if owner == me => Verdict::Claims { leaves: None },
        Some(owner) if proves || !rules.keep(Rule::AsksForProof) => {
            Verdict::Claims { leaves: Some(owner.clone()) }
        }
        Some(owner) => Verdict::AsksAbout(owner.clone()),
    }
}

/// The claim that a registration writes: a larger epoch, owned by `me`.
pub(crate) fn claim_for(
    me: &Owner,
    claim: Option<&Claim>,
    registration: &Registration,
    floor: Epoch,
    rules: Rules,
) -> Claim {
    let shown = registration.shown_epoch.filter(|shown| *shown <= Epoch::MAX_SHOWN);
    let shown = shown.filter(|_| rules.keep(Rule::EpochAboveShown)).unwrap_or_default();
    let floor = if rules.keep(Rule::EpochAboveFloor) { floor } else { Epoch(0) };
    let last = claim.map_or(Epoch(0), |claim| claim.epoch);
    let above = last.max(shown).max(floor);
    Claim {
        epoch: if rules.keep(Rule::EpochAboveLast) { above.next() } else { above },
        owner: Some(me.clone()),
        holder: registration.holder.clone(),
        wanted_by: None,
        since_ms: registration.since_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Incarnation, MemberId, ProofHash};

    fn owner(member: &str) -> Owner {
        Owner { member: MemberId(member.into()), incarnation: Incarnation(1) }
    }

    fn holder(instance: &str, proof: Option<u8>, attempt: u64) -> Holder {
        Holder {
            caller: "rm".into(),
            instance: instance.into(),
            policy_group: "default".into(),
            proof: proof.map(|byte| ProofHash([byte; 32])),
            attempt,
        }
    }

    fn claim(owner: Option<Owner>, holder: Holder) -> Claim {
        Claim { epoch: Epoch(5), owner, holder, wanted_by: None, since_ms: 0 }
    }

    fn registration(holder: Holder, shown: Option<u64>) -> Registration {
        Registration {
            call: CallId(1),
            rm: RmId("rm-1".into()),
            holder,
            shown_epoch: shown.map(Epoch),
            is_forwarded: false,
            since_ms: 7,
        }
    }

    fn judged(claim: &Claim, registration: &Registration) -> Verdict {
        judge(&owner("m"), Some(claim), registration, Rules::default())
    }

    #[test]
    fn a_claim_without_owner_is_free() {
        let none = claim(None, holder("a", None, 0));
        let came = registration(holder("b", None, 0), None);
        assert_eq!(judged(&none, &came), Verdict::Claims { leaves: None });
        let verdict = judge(&owner("m"), None, &came, Rules::default());
        assert_eq!(verdict, Verdict::Claims { leaves: None });
    }

    #[test]
    fn only_the_proof_takes_an_rm_from_a_live_owner() {
        let held = claim(Some(owner("o")), holder("a", Some(1), 3));
        let takes = Verdict::Claims { leaves: Some(owner("o")) };
        let asks = Verdict::AsksAbout(owner("o"));
        assert_eq!(judged(&held, &registration(holder("a", Some(1), 3), None)), takes);
        assert_eq!(judged(&held, &registration(holder("a", Some(2), 9), None)), asks);
        assert_eq!(judged(&held, &registration(holder("a", None, 9), None)), asks);
        let mut other_caller = holder("a", Some(1), 9);
        other_caller.caller = "somebody else".into();
        assert_eq!(judged(&held, &registration(other_caller, None)), asks);
    }

    #[test]
    fn an_older_attempt_is_superseded() {
        let held = claim(Some(owner("m")), holder("a", Some(1), 3));
        let older = registration(holder("a", Some(1), 2), None);
        assert_eq!(judged(&held, &older), Verdict::Superseded);
    }

    #[test]
    fn a_process_does_not_take_back_what_another_process_took() {
        let held = claim(Some(owner("m")), holder("b", Some(2), 1));
        let displaced = registration(holder("a", Some(1), 9), Some(4));
        assert_eq!(judged(&held, &displaced), Verdict::Superseded);
        let new = registration(holder("a", Some(1), 9), None);
        assert_eq!(judged(&held, &new), Verdict::Claims { leaves: None });
        let same = registration(holder("b", Some(2), 2), Some(4));
        assert_eq!(judged(&held, &same), Verdict::Claims { leaves: None });
    }

    #[test]
    fn an_epoch_is_above_claim_shown_and_floor() {
        let held = claim(None, holder("a", None, 0));
        let epoch = |shown, floor| {
            let came = registration(holder("a", None, 0), shown);
            let me = owner("m");
            claim_for(&me, Some(&held), &came, Epoch(floor), Rules::default()).epoch.0
        };
        assert_eq!(epoch(None, 0), 6);
        assert_eq!(epoch(Some(9), 0), 10);
        assert_eq!(epoch(Some(9), 20), 21);
        assert_eq!(epoch(Some(u64::MAX), 0), 6, "an absurd epoch is ignored");
    }
}
