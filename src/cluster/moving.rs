//! Moves of resource managers (RMs) to other members, in the order of an operator.
//!
//! # Why records are read before
//! Claims and records of the last renewal are up to a fifth of the lease old. An operator may move an
//! RM twice within that time, or name a member that was drained just now. So the claim and the record
//! of the other member are read from the arbiter before anything ends. If it does not answer, nothing
//! is done.

use std::time::Duration;

use monoceros_actors::check_rm_id;
use monoceros_cluster::{
    Event, Key, MemberId, Owner, Record, Refusal, Reply, Request, RmId, Versioned, less_loaded,
};
use monoceros_cluster_store::Failure;

use super::membership::Membership;
use super::operating::draws;
use super::operations::{MemberState, OperationRefusal};
use super::operator::HandedOver;
use crate::grpc::end::ClaimRefusal;

impl Membership {
    /// Moves an RM that this member serves. Returns the member that its claim names then.
    pub(super) async fn move_by_owner(
        &self,
        rm_id: String,
        to: Option<String>,
    ) -> Result<String, OperationRefusal> {
        self.check_may_decide()?;
        if check_rm_id(&rm_id).is_err() {
            return Err(OperationRefusal::RmUnknown(rm_id));
        }
        let rm = RmId(rm_id.as_str().into());
        let (owner, to) = tokio::join!(self.read_owner(&rm), self.taker(&rm, to.as_deref()));
        match owner? {
            Some(owner) if owner == self.me() => {}
            Some(owner) => return Err(self.owned_by(&owner, rm_id)),
            None => return Err(OperationRefusal::RmUnknown(rm_id)),
        }
        match self.hand_over(rm, to?).await {
            Ok(Some(owner)) => Ok(owner.member.0.to_string()),
            Ok(None) => Err(OperationRefusal::RmUnknown(rm_id)),
            Err(Refusal::ArbiterUnavailable) => Err(OperationRefusal::NotWritten(rm_id)),
            Err(Refusal::Fenced) => {
                self.check_may_decide()?;
                Err(ClaimRefusal::Fenced.into())
            }
            Err(_) => Err(OperationRefusal::NotMoved(rm_id)),
        }
    }

    /// Hands an RM over. Returns the member that the claim names then: another one than `to`, if a
    /// hand-over was under way, or the RM has registered elsewhere.
    pub(super) async fn hand_over(&self, rm: RmId, to: Owner) -> HandedOver {
        let handle = self.handle().ok_or(Refusal::Fenced)?;
        let moved = self.operator.moves.wait(rm.clone());
        if !handle.send(Event::HandOver(rm, to)).await {
            return Err(Refusal::Fenced);
        }
        moved.ended().await.unwrap_or(Err(Refusal::Fenced))
    }

    /// Refuses to move an RM whose claim names another owner, or another incarnation of this member.
    fn owned_by(&self, owner: &Owner, rm_id: String) -> OperationRefusal {
        match self.at_member(&owner.member) {
            Err(refusal @ OperationRefusal::AtMember { .. }) => refusal,
            // The incarnation is over: nobody serves the RM.
            Ok(()) | Err(_) => OperationRefusal::RmUnknown(rm_id),
        }
    }

    /// The member that should get an RM of this one.
    async fn taker(&self, rm: &RmId, named: Option<&str>) -> Result<Owner, OperationRefusal> {
        if let Some(named) = named {
            let member = MemberId(named.into());
            if member == self.me().member {
                let (rm_id, member) = (rm.0.to_string(), named.to_owned());
                return Err(OperationRefusal::AlreadyThere { rm_id, member });
            }
            return self.check_taker(&member).await;
        }
        let mut takers = self.takers();
        while let Some(taker) = less_loaded(&takers, draws()).cloned() {
            match self.check_taker(&taker.member).await {
                Err(OperationRefusal::MemberUnfit { .. } | OperationRefusal::MemberUnknown(_)) => {
                    takers.retain(|(other, _)| *other != taker);
                }
                checked => return checked,
            }
        }
        Err(OperationRefusal::NoOtherMember)
    }

    /// Reads the record of a member from the arbiter, and refuses a member that takes no RMs.
    async fn check_taker(&self, member: &MemberId) -> Result<Owner, OperationRefusal> {
        let (Some(handle), Some(sources), Some(view)) =
            (self.handle(), self.sources(), self.view())
        else {
            return Err(ClaimRefusal::Fenced.into());
        };
        let id = || member.0.to_string();
        let found = match sources.arbiter.ask(Request::Read(Key::Member(member.clone()))).await {
            Ok(Reply::Read(found, _)) => found,
            Ok(_) | Err(Failure::NoAnswer(_)) => {
                return Err(ClaimRefusal::ArbiterUnavailable.into());
            }
            Err(failure) => {
                return Err(ClaimRefusal::ArbiterFailed { why: failure.to_string() }.into());
            }
        };
        let Some(Versioned { version, value: Record::Member(record) }) = found else {
            return Err(OperationRefusal::MemberUnknown(id()));
        };
        let has_changed = view.members.get(member).is_none_or(|seen| seen.version != version);
        match self.state_of(&record, &view, handle.now()) {
            MemberState::Alive => Ok(record.owner),
            // Silent until now.
            MemberState::Silent if has_changed && !record.details.draining => Ok(record.owner),
            state => Err(OperationRefusal::MemberUnfit { member: id(), state: state.name() }),
        }
    }

    /// Why no call can be passed on to a member.
    pub(super) fn why_unreachable(&self, member: String, grpc: Option<String>) -> OperationRefusal {
        let id = MemberId(member.as_str().into());
        let (Some(handle), Some(view)) = (self.handle(), self.view()) else {
            return ClaimRefusal::Fenced.into();
        };
        let Some(record) = view.members.get(&id).map(|record| &record.value) else {
            return OperationRefusal::MemberUnknown(member);
        };
        let now = handle.now();
        if self.state_of(record, &view, now) == MemberState::Silent {
            let silence = view.silence(&id, now).unwrap_or_default();
            return OperationRefusal::Silent { member, silence: Duration::from_nanos(silence) };
        }
        let link = self.links().of(&record.owner);
        let why = link.map_or_else(|| "there is no connection".to_owned(), |link| link.problem());
        let address = record.details.internal.clone();
        OperationRefusal::Unreachable { member, address, why, grpc }
    }
}
