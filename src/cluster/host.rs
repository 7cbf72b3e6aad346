//! What the driver asks of the service: ends of sessions, answers, and facts for the member's
//! record.

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::{ClusterEvent, SchedulerHandle};
use monoceros_cluster::{
    Details, Effect, EndReason, Epoch, Incarnation, MemberRecord, Owner, RmId,
};
use monoceros_cluster_store::{Failure, Host};
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::membership::Membership;
use super::operations::OwnState;
use crate::chance::random_bits;
use crate::grpc::end::StreamEnd;
use crate::watchdog::{Healthy, Readiness};

/// The service around the member.
pub(super) struct Service {
    pub(super) membership: Arc<Membership>,
    /// Health of the front: a member whose front hangs loses its lease.
    pub(super) healthy: Healthy,
    /// Addresses and version. The load is added.
    pub(super) details: Details,
    pub(super) lease: OwnState,
    /// Gets the events of this member.
    pub(super) scheduler: SchedulerHandle,
    pub(super) readiness: watch::Sender<Readiness>,
}

impl Service {
    /// Reports to probes what has changed since the last call.
    fn report(&self) {
        let handle = self.membership.handle();
        let problem = handle.and_then(monoceros_cluster_store::Handle::problem);
        let readiness = readiness(self.lease, problem.as_deref());
        self.readiness.send_if_modified(|last| {
            let is_new = *last != readiness;
            *last = readiness;
            is_new
        });
    }

    fn enter(&mut self, lease: OwnState) {
        self.lease = lease;
        self.membership.operator.enter(lease);
        self.report();
    }

    /// Reports that the member may not decide.
    fn report_fenced(&self, why: &str) {
        let member = self.membership.me().member.0.to_string();
        let why = why.to_owned();
        self.scheduler.report_cluster_event(ClusterEvent::MemberFenced { member, why });
    }

    fn end_session(&self, rm: &RmId, epoch: Epoch, reason: EndReason) {
        let by = self.membership.lost(rm, epoch);
        let Some(registry) = self.membership.registry() else { return };
        let end = match reason {
            EndReason::Fenced => StreamEnd::MemberFenced,
            EndReason::Superseded => StreamEnd::Superseded { by },
            EndReason::Moved(owner) => {
                let owner = owner.and_then(|owner| self.membership.address_of(&owner));
                StreamEnd::SessionMoved { owner }
            }
            EndReason::Deregistered => StreamEnd::Deregistered,
            EndReason::Leaving => StreamEnd::ShuttingDown,
        };
        registry.end_unclaimed(&rm.0, epoch.0, end);
    }
}

impl Host for Service {
    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Answer(call, answer) => self.membership.answer(call, answer),
            Effect::Forward(call, rm, owner) => {
                tokio::spawn(Arc::clone(&self.membership).forward(call, rm, owner));
            }
            Effect::EndSession(rm, epoch, reason) => self.end_session(&rm, epoch, reason),
            Effect::DeregistrationEnded(rm, epoch, _) => self.membership.freed(rm, epoch),
            Effect::HandOverEnded(rm, ended) => {
                let moved = matches!(ended, Ok(Some(_)));
                let why = ended.as_ref().err().map(ToString::to_string);
                info!(rm = &*rm.0, moved, why, "hand-over of a resource manager ended");
                if let Ok(Some(owner)) = &ended {
                    self.membership.note_owner(&rm, owner);
                }
                self.membership.operator.moves.end(&rm, &ended);
            }
            Effect::AcceptanceEnded(floor) => {
                warn!(floor = floor.0, "an earlier state of the arbiter was accepted");
                self.membership.operator.acceptances.end(&(), &floor.0);
            }
            Effect::Ready => {
                info!("this member may decide");
                self.enter(OwnState::Serving);
            }
            Effect::Fenced => {
                warn!("this member may not decide: its lease is over");
                self.enter(OwnState::Fenced);
                self.report_fenced("its lease is over: it may decide nothing");
            }
            Effect::Restored => {
                error!("this member may not decide: the arbiter went back to an earlier state");
                self.enter(OwnState::Restored);
                self.report_fenced("the arbiter went back to an earlier state");
            }
            Effect::BeginAgain => {
                warn!("this member was deposed and joins again");
                self.enter(OwnState::Joining);
            }
            Effect::Exit(other) => id_in_use(&other),
            Effect::Left => info!("this member has left the cluster"),
            Effect::Notify(owner, rm, epoch) => {
                tokio::spawn(Arc::clone(&self.membership).notify(owner, rm, epoch));
            }
            // Never comes here.
            Effect::Ask(..) | Effect::AskLater(..) => {}
        }
    }

    fn front_answers(&mut self) -> bool {
        self.report();
        self.membership.operator.count_fenced();
        self.healthy.is_watched_and_serving()
    }

    fn details(&mut self) -> Details {
        let load = self.membership.load_with(self.membership.served());
        let draining = self.membership.operator.is_draining();
        let not_in_force = self.membership.shared().map(|it| it.groups.n_not_in_force());
        let not_in_force = u32::try_from(not_in_force.unwrap_or_default()).unwrap_or(u32::MAX);
        let unserved = self.membership.unserved_rms();
        Details { load, draining, not_in_force, unserved, ..self.details.clone() }
    }

    fn failed(&mut self, rm: &RmId, failure: &Failure) {
        let is_answer = !matches!(failure, Failure::NoAnswer(_));
        let text = failure.to_string();
        self.membership.note_failure(rm, is_answer.then_some(&text));
    }

    fn written(&mut self, took: Duration) {
        self.membership.operator.metrics.written(took);
    }

    fn incarnation(&mut self) -> Incarnation {
        let incarnation = Incarnation(random_bits());
        self.membership.begin_again(incarnation);
        incarnation
    }
}

/// Logs that another process has the id of this member, with where that one is.
fn id_in_use(other: &MemberRecord) {
    let Owner { member, incarnation } = &other.owner;
    let incarnation = format!("{:032x}", incarnation.0);
    let (id, grpc, internal) = (&*member.0, &*other.details.grpc, &*other.details.internal);
    error!(id, incarnation, grpc, internal, "another process has the id of this member");
}

/// The answer to probes, with the arbiter's problem, if there is one.
fn readiness(lease: OwnState, problem: Option<&str>) -> Readiness {
    match lease.why_not(problem) {
        None => Readiness::Ready,
        Some(why) => Readiness::NotYet(format!("this member may not decide: {why}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_get_the_reason_and_the_problem_of_the_arbiter() {
        assert_eq!(readiness(OwnState::Serving, Some("late")), Readiness::Ready);
        let why = "this member may not decide: its lease is over; the arbiter does not answer: \
                   http://e:2379: connection refused";
        let shown = readiness(OwnState::Fenced, Some("http://e:2379: connection refused"));
        assert_eq!(shown, Readiness::NotYet(why.into()));
        let Readiness::NotYet(shown) = readiness(OwnState::Restored, None) else { panic!("ready") };
        assert!(shown.ends_with("which `monoceros cluster accept-restore` accepts"), "{shown}");
    }
}
