//! Facts and counts of the member for operators: its state, its drain, calls that wait for the
//! driver, and takeovers.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use monoceros_actors::metrics::{ClaimOutcome, ClusterMetrics, MemberStatus};
use monoceros_cluster::{Epoch, Owner, Refusal, RmId};
use monoceros_cluster_store::View;
use tokio::time::Instant;

use super::operations::OwnState;
use super::waiters::Waiters;
use crate::grpc::end::ClaimRefusal;
use crate::locked::locked;

/// The end of a hand-over: the other member that the claim names then, or `None` if it names nobody.
/// `Err`: the claim was not changed, as far as is known.
pub(super) type HandedOver = Result<Option<Owner>, Refusal>;

/// Facts of the settings.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Name of the cluster.
    pub(super) cluster: String,
    /// Name of the arbiter.
    pub(super) arbiter: &'static str,
    pub(super) lease: Duration,
    /// Time after which an RM that does not come back is given up.
    pub(super) given_up_after: Duration,
}

/// State of the member for operators. Never locked for long.
pub(super) struct OperatorState {
    pub(super) facts: Facts,
    pub(super) metrics: ClusterMetrics,
    /// Hand-overs that somebody waits for.
    pub(super) moves: Waiters<RmId, HandedOver>,
    /// Acceptances of a restored arbiter: the bound above which sessions are numbered.
    pub(super) acceptances: Waiters<(), u64>,
    state: Mutex<State>,
}

/// A drain of this member, by its number: one that was undone and began again is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drain(u64);

struct State {
    own: OwnState,
    /// The drain that is under way. `None`: the member takes resource managers.
    drain: Option<Drain>,
    /// Number of drains so far.
    drains: u64,
    /// Takeovers whose cause is known with the next read of all records.
    takeovers: Vec<Takeover>,
    /// When the member was last seen unable to decide, after it had joined once.
    fenced_at: Option<Instant>,
    has_joined: bool,
}

/// A registration of an RM whose claim named another member when it arrived.
#[derive(Clone, Debug)]
pub(super) struct Takeover {
    pub(super) from: Owner,
    /// Whether the owner gave it away: the epoch has grown by more than this registration.
    pub(super) is_given: bool,
    pub(super) took: Duration,
}

/// The claim of an RM when its registration arrived.
#[derive(Clone, Debug)]
pub(super) struct Before {
    begun: Instant,
    /// Owner and epoch. `None`: nobody, or not known.
    claim: Option<(Owner, Epoch)>,
}

impl Before {
    /// The claim as the last read showed it.
    pub(super) fn of(view: &View, rm: &RmId) -> Self {
        let claim = view.claims.get(rm).map(|claim| &claim.value);
        let claim = claim.and_then(|claim| Some((claim.owner.clone()?, claim.epoch)));
        Self { begun: Instant::now(), claim }
    }
}

impl OperatorState {
    pub(super) fn new(facts: Facts, metrics: ClusterMetrics) -> Self {
        metrics.set_status(MemberStatus::Joining);
        let state = State {
            own: OwnState::Joining,
            drain: None,
            drains: 0,
            takeovers: Vec::new(),
            fenced_at: None,
            has_joined: false,
        };
        let (moves, acceptances) = (Waiters::default(), Waiters::default());
        Self { facts, metrics, moves, acceptances, state: Mutex::new(state) }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    pub(super) fn state(&self) -> OwnState {
        self.locked().own
    }

    /// Notes whether the member may decide.
    pub(super) fn enter(&self, own: OwnState) {
        self.count_fenced();
        let mut state = self.locked();
        state.own = own;
        state.has_joined |= own == OwnState::Serving;
        let is_fenced = state.has_joined && own != OwnState::Serving;
        state.fenced_at = is_fenced.then(Instant::now);
        drop(state);
        self.metrics.set_status(match own {
            OwnState::Joining => MemberStatus::Joining,
            OwnState::Serving => MemberStatus::Serving,
            OwnState::Fenced => MemberStatus::Fenced,
            OwnState::Restored => MemberStatus::Restored,
        });
    }

    /// Counts the time since the last call, if the member could not decide.
    pub(super) fn count_fenced(&self) {
        let now = Instant::now();
        let mut state = self.locked();
        if let Some(since) = &mut state.fenced_at {
            self.metrics.fenced_for(now.duration_since(*since));
            *since = now;
        }
    }

    pub(super) fn is_draining(&self) -> bool {
        self.locked().drain.is_some()
    }

    /// Begins a drain. `None`: one is under way already.
    pub(super) fn begin_drain(&self) -> Option<Drain> {
        let mut state = self.locked();
        if state.drain.is_some() {
            return None;
        }
        state.drains += 1;
        state.drain = Some(Drain(state.drains));
        state.drain
    }

    /// Ends the drain, if there is one.
    pub(super) fn end_drain(&self) {
        self.locked().drain = None;
    }

    /// Ends this drain, unless it was undone or followed by another.
    pub(super) fn give_up(&self, drain: Drain) {
        self.locked().drain.take_if(|now| *now == drain);
    }

    /// Whether this drain is under way, and neither undone nor followed by another.
    pub(super) fn is_drained_by(&self, drain: Drain) -> bool {
        self.locked().drain == Some(drain)
    }

    /// Ends all waits and the drain: the driver has ended.
    pub(super) fn close(&self) {
        self.moves.close();
        self.acceptances.close();
        self.end_drain();
    }

    /// Counts the outcome of a registration, unless its client has given up.
    pub(super) fn count(&self, outcome: Result<(), &ClaimRefusal>) {
        let outcome = match outcome {
            Ok(()) => ClaimOutcome::Won,
            Err(ClaimRefusal::Fenced) => ClaimOutcome::Fenced,
            Err(ClaimRefusal::Leaving | ClaimRefusal::Draining { .. }) => ClaimOutcome::Leaving,
            Err(ClaimRefusal::Contended) => ClaimOutcome::Contended,
            Err(ClaimRefusal::ArbiterUnavailable | ClaimRefusal::ArbiterFailed { .. }) => {
                ClaimOutcome::ArbiterUnavailable
            }
            Err(ClaimRefusal::OwnerUnreachable { .. }) => ClaimOutcome::OwnerUnreachable,
            Err(ClaimRefusal::NotOwner { .. }) => ClaimOutcome::NotOwner,
            Err(ClaimRefusal::Superseded) => ClaimOutcome::Superseded,
            Err(ClaimRefusal::Abandoned) => return,
        };
        self.metrics.claimed(outcome);
    }

    /// Notes a claim that was won, if another member had it.
    pub(super) fn note_won(&self, before: &Before, me: &Owner, epoch: Epoch) {
        let Some((from, last)) = &before.claim else { return };
        if from.member == me.member {
            return;
        }
        let (from, took) = (from.clone(), before.begun.elapsed());
        let is_given = epoch.0 > last.0 + 1;
        self.locked().takeovers.push(Takeover { from, is_given, took });
    }

    /// Returns the takeovers since the last call.
    pub(super) fn takeovers(&self) -> Vec<Takeover> {
        std::mem::take(&mut self.locked().takeovers)
    }
}
