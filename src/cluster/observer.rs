//! Changes of the cluster from one read to the next: events for people, and metrics.
//!
//! Each member reports what it reads, in its own events and metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::metrics::TakeoverCause;
use monoceros_actors::{ClusterEvent, SchedulerHandle};
use monoceros_cluster::{Life, MemberId, MemberRecord, Nanos, Owner};
use monoceros_cluster_store::View;
use tokio::sync::watch;
use tracing::warn;

use super::membership::Membership;
use super::operations::MemberState;
use super::operator::Takeover;

/// Reports changes until the driver has ended.
pub(super) async fn observe(
    handle: SchedulerHandle,
    membership: Arc<Membership>,
    mut views: watch::Receiver<Arc<View>>,
) {
    let mut last = Arc::<View>::default();
    let mut other_leases = OtherLeases::default();
    while views.changed().await.is_ok() {
        let view = views.borrow_and_update().clone();
        for event in changes(&last, &view, &membership.me()) {
            handle.report_cluster_event(event);
        }
        membership.count_members(&view);
        other_leases.report(&view, &membership.me(), membership.operator.facts.lease);
        membership.free_unserved(&view).await;
        for takeover in membership.operator.takeovers() {
            let cause = cause(&takeover, &view);
            membership.operator.metrics.took_over(cause, takeover.took);
        }
        last = view;
    }
}

/// Members whose lease is another one than this member's.
#[derive(Debug, Default)]
struct OtherLeases(BTreeMap<MemberId, Nanos>);

impl OtherLeases {
    /// Notes the leases of live members. Returns those that differ from `own`, and were not
    /// returned before.
    fn follow(&mut self, view: &View, me: &Owner, own: Nanos) -> Vec<(MemberId, Nanos)> {
        let live = view.members.values().map(|record| &record.value);
        let others = live.filter(|it| it.life == Life::Alive && it.owner.member != me.member);
        let leases = others.filter_map(|it| Some((it.owner.member.clone(), it.lease?)));
        let differ: BTreeMap<_, _> = leases.filter(|(_, lease)| *lease != own).collect();
        let is_new = |(member, lease): &(&MemberId, &Nanos)| self.0.get(*member) != Some(*lease);
        let new = differ.iter().filter(is_new);
        let new = new.map(|(member, lease)| (member.clone(), *lease)).collect();
        self.0 = differ;
        new
    }

    fn report(&mut self, view: &View, me: &Owner, own: Duration) {
        let nanos = Nanos::try_from(own.as_nanos()).unwrap_or(Nanos::MAX);
        for (other, lease) in self.follow(view, me, nanos) {
            let (member, other) = (&*me.member.0, &*other.0);
            let (lease, other_lease) = (own, Duration::from_nanos(lease));
            let message = "`cluster.lease` differs between members: the longer one is waited for";
            warn!(member, ?lease, other, ?other_lease, message);
        }
    }
}

/// Returns why an RM that another member served could be claimed.
fn cause(takeover: &Takeover, view: &View) -> TakeoverCause {
    let record = view.members.get(&takeover.from.member).map(|record| &record.value);
    match record {
        Some(record) if record.owner != takeover.from || record.life == Life::Deposed => {
            TakeoverCause::Lost
        }
        Some(record) if record.life == Life::Left => TakeoverCause::Left,
        Some(_) if takeover.is_given => TakeoverCause::HandedOver,
        Some(_) => TakeoverCause::Proof,
        None => TakeoverCause::Lost,
    }
}

/// Returns the events between two reads. Of the first read, only this member's own joining is one.
fn changes(last: &View, view: &View, me: &Owner) -> Vec<ClusterEvent> {
    let is_first = last.read_at == 0;
    let mut events = Vec::new();
    for (id, record) in &*view.members {
        let before = last.members.get(id).map(|record| &record.value);
        if !is_first || record.value.owner == *me {
            events.extend(change_of(before, &record.value));
        }
    }
    for (rm, claim) in &view.claims {
        let before = last.claims.get(rm).and_then(|claim| claim.value.owner.as_ref());
        if let (Some(from), Some(to)) = (before, &claim.value.owner)
            && from.member != to.member
        {
            let [from, to] = [from, to].map(|owner| owner.member.0.to_string());
            events.push(ClusterEvent::RmMoved { rm_id: rm.0.to_string(), from, to });
        }
    }
    events
}

fn change_of(before: Option<&MemberRecord>, now: &MemberRecord) -> Option<ClusterEvent> {
    let is_same = before.is_some_and(|before| before.owner == now.owner);
    if is_same && before.is_some_and(|before| before.life == now.life) {
        return None;
    }
    let member = now.owner.member.0.to_string();
    match now.life {
        Life::Alive => {
            let version = now.details.version.clone();
            Some(ClusterEvent::MemberJoined { member, version })
        }
        Life::Left => Some(ClusterEvent::MemberLeft { member }),
        Life::Deposed => Some(ClusterEvent::MemberDeposed { member }),
    }
}

impl Membership {
    /// Sets the numbers of members that renew their records and of those that do not.
    fn count_members(&self, view: &View) {
        let mut counts = BTreeMap::new();
        for record in view.members.values() {
            let state = self.state_of(&record.value, view, view.read_at);
            *counts.entry(state == MemberState::Silent).or_insert(0) +=
                usize::from(record.value.life == Life::Alive);
        }
        let count = |is_silent| counts.get(&is_silent).copied().unwrap_or_default();
        self.operator.metrics.set_members(count(false), count(true));
    }
}

#[cfg(test)]
mod tests {
    use monoceros_cluster::{Claim, Details, Epoch, Holder, Incarnation, RmId, Version, Versioned};

    use super::*;

    fn owner(member: &str, incarnation: u128) -> Owner {
        Owner { member: MemberId(member.into()), incarnation: Incarnation(incarnation) }
    }

    fn view(members: &[(&str, u128, Life)], of_rm: &str) -> View {
        let members = members.iter().map(|&(id, incarnation, life)| {
            let details = Details { version: "1.0".to_owned(), ..Details::default() };
            let owner = owner(id, incarnation);
            let details = Arc::new(details);
            let value = MemberRecord { owner, beat: 0, life, lease: None, details };
            (MemberId(id.into()), Versioned { version: Version(1), value })
        });
        let holder = Holder {
            caller: "".into(),
            instance: "".into(),
            policy_group: "".into(),
            proof: None,
            attempt: 0,
        };
        let owner = Some(owner(of_rm, 1));
        let value = Claim { epoch: Epoch(1), owner, holder, wanted_by: None, since_ms: 0 };
        let claim = Versioned { version: Version(1), value };
        let mut view = View::default();
        view.members = Arc::new(members.collect());
        view.claims = BTreeMap::from([(RmId("rm".into()), claim)]);
        view.read_at = 1;
        view
    }

    #[test]
    fn each_change_is_one_event() {
        let me = owner("a", 1);
        let first = view(&[("a", 1, Life::Alive), ("b", 1, Life::Alive)], "b");
        let joined = |member: &str| ClusterEvent::MemberJoined {
            member: member.to_owned(),
            version: "1.0".to_owned(),
        };
        assert_eq!(changes(&View::default(), &first, &me), [joined("a")]);
        assert_eq!(changes(&first, &first, &me), []);
        let second = view(&[("a", 1, Life::Alive), ("b", 1, Life::Deposed)], "a");
        let [rm_id, from, to] = ["rm", "b", "a"].map(str::to_owned);
        let moved = ClusterEvent::RmMoved { rm_id, from: from.clone(), to };
        let deposed = ClusterEvent::MemberDeposed { member: from };
        assert_eq!(changes(&first, &second, &me), [deposed, moved]);
        let third = view(&[("a", 1, Life::Alive), ("b", 2, Life::Alive)], "a");
        assert_eq!(changes(&second, &third, &me), [joined("b")]);
        let fourth = view(&[("a", 1, Life::Alive), ("b", 2, Life::Left)], "a");
        let left = ClusterEvent::MemberLeft { member: "b".to_owned() };
        assert_eq!(changes(&third, &fourth, &me), [left]);
    }

    #[test]
    fn another_lease_is_reported_once() {
        let me = owner("a", 1);
        let with_lease = |lease| {
            let mut view = view(&[("a", 1, Life::Alive), ("b", 1, Life::Alive)], "b");
            let members = Arc::make_mut(&mut view.members);
            members.get_mut(&MemberId("b".into())).unwrap().value.lease = lease;
            view
        };
        let mut leases = OtherLeases::default();
        assert_eq!(leases.follow(&with_lease(None), &me, 5), []);
        assert_eq!(leases.follow(&with_lease(Some(5)), &me, 5), []);
        let other = (MemberId("b".into()), 6);
        assert_eq!(leases.follow(&with_lease(Some(6)), &me, 5), [other]);
        assert_eq!(leases.follow(&with_lease(Some(6)), &me, 5), []);
    }

    #[test]
    fn the_cause_of_a_takeover_is_in_the_records() {
        let takeover =
            |is_given| Takeover { from: owner("b", 1), is_given, took: std::time::Duration::ZERO };
        let cause = |life, incarnation, is_given| {
            cause(&takeover(is_given), &view(&[("b", incarnation, life)], "a"))
        };
        assert_eq!(cause(Life::Alive, 1, false), TakeoverCause::Proof);
        assert_eq!(cause(Life::Alive, 1, true), TakeoverCause::HandedOver);
        assert_eq!(cause(Life::Left, 1, true), TakeoverCause::Left);
        assert_eq!(cause(Life::Deposed, 1, false), TakeoverCause::Lost);
        assert_eq!(cause(Life::Alive, 2, false), TakeoverCause::Lost);
    }
}
