//! Registrations of this member on their way to a claim, and the claims that it holds.
//!
//! # Order
//! The driver's task answers registrations and ends sessions, in the order of its effects. It
//! changes the claims that are held here first and looks for the session in the registry then; the
//! registry inserts a session first and looks here then. So one of both finds a claim that is lost
//! while its session is opened.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use monoceros_cluster::{
    CallId, Epoch, Event, Holder, Incarnation, Owner, ProofHash, Refusal, Registration, RmId,
};
use monoceros_cluster_store::Handle;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::metadata::AsciiMetadataValue;

use super::lookup::Lookups;
use super::operator::{Before, OperatorState};
use super::peers::Links;
use super::routing::{RecentOwners, Sources};
use super::sharing::SharedConfigurations;
use super::spreading::Assigned;
use super::suspicion::Suspicion;
use super::unserved::Unserved;
use super::waiters::Waiters;
use crate::clock::now_ns;
use crate::grpc::end::ClaimRefusal;
use crate::grpc::registry::{Claimant, Claims, Configurations, Registry, id_of};
use crate::grpc::routing::PassableCall;
use crate::locked::locked;

/// Time within which an owner has to accept a connection.
pub(super) const OWNER_PATIENCE: Duration = Duration::from_secs(1);
/// Most bytes of an instance's name in a claim, whose record is bounded.
const INSTANCE_BYTES: usize = 256;
/// Load of a session besides its nodes and applications.
pub(super) const SESSION_LOAD: u64 = 1_000;

/// Finds out whether the member at an address can be reached.
pub(super) type Probe = fn(String) -> BoxFuture<'static, bool>;

/// The member's side that registrations and the driver share.
pub(super) struct Membership {
    /// Set before anything is claimed.
    handle: OnceLock<Handle>,
    registry: OnceLock<Weak<Registry>>,
    /// Set before anything is claimed. It refers to this, so this does not own it.
    configurations: OnceLock<Weak<SharedConfigurations>>,
    links: Links,
    /// Set before anything is claimed.
    sources: OnceLock<Arc<Sources>>,
    recent_owners: Mutex<RecentOwners>,
    lookups: Mutex<Lookups>,
    assigned: Mutex<Assigned>,
    unserved: Mutex<Unserved>,
    /// Nodes and applications, counted by a task.
    counted: Arc<AtomicU64>,
    probe: Probe,
    pub(super) suspicion: Suspicion,
    next_call: AtomicU64,
    /// Facts and counts for operators.
    pub(super) operator: OperatorState,
    /// Deregistrations without an answer, by the epoch of the session.
    pub(super) frees: Waiters<(RmId, Epoch), ()>,
    state: Mutex<State>,
}

/// Mutable state, never locked for long.
struct State {
    me: Owner,
    /// Registrations without an answer.
    calls: BTreeMap<CallId, Call>,
    /// The claims that this member holds.
    held: BTreeMap<RmId, Epoch>,
}

/// A registration without an answer.
struct Call {
    rm: RmId,
    instance: Option<String>,
    before: Before,
    passable: Option<PassableCall>,
    /// Why the last request of the registration to the arbiter failed, if the reason is another
    /// one than that no answer came.
    failure: Option<String>,
    /// Cancelled when the client has given up.
    abandoned: CancellationToken,
    answer: oneshot::Sender<Result<u64, ClaimRefusal>>,
}

impl Membership {
    pub(super) fn new(
        me: Owner,
        links: Links,
        probe: Probe,
        suspicion: Suspicion,
        operator: OperatorState,
    ) -> Self {
        let (calls, held) = (BTreeMap::new(), BTreeMap::new());
        Self {
            handle: OnceLock::new(),
            registry: OnceLock::new(),
            configurations: OnceLock::new(),
            links,
            sources: OnceLock::new(),
            recent_owners: Mutex::default(),
            lookups: Mutex::default(),
            assigned: Mutex::default(),
            unserved: Mutex::default(),
            counted: Arc::default(),
            probe,
            suspicion,
            next_call: AtomicU64::new(1),
            operator,
            frees: Waiters::default(),
            state: Mutex::new(State { me, calls, held }),
        }
    }

    /// Sets the access to the driver, the arbiter and the metrics. Only the first call counts.
    pub(super) fn run_by(&self, handle: Handle, sources: Sources) {
        let _ = self.sources.set(Arc::new(sources));
        let _ = self.handle.set(handle);
    }

    pub(super) fn sources(&self) -> Option<&Arc<Sources>> {
        self.sources.get()
    }

    pub(super) fn recent_owners(&self) -> MutexGuard<'_, RecentOwners> {
        locked(&self.recent_owners)
    }

    pub(super) fn lookups(&self) -> MutexGuard<'_, Lookups> {
        locked(&self.lookups)
    }

    pub(super) fn assigned(&self) -> MutexGuard<'_, Assigned> {
        locked(&self.assigned)
    }

    pub(super) fn unserved(&self) -> MutexGuard<'_, Unserved> {
        locked(&self.unserved)
    }

    /// The number of nodes and applications.
    pub(super) fn counted(&self) -> &Arc<AtomicU64> {
        &self.counted
    }

    /// Sets the configurations that all members share. Only the first call counts.
    pub(super) fn share(&self, configurations: &Arc<SharedConfigurations>) {
        let _ = self.configurations.set(Arc::downgrade(configurations));
    }

    /// The configurations that all members share. `None` at the start and end of the process.
    pub(super) fn shared(&self) -> Option<Arc<SharedConfigurations>> {
        self.configurations.get()?.upgrade()
    }

    pub(super) fn handle(&self) -> Option<&Handle> {
        self.handle.get()
    }

    pub(super) fn registry(&self) -> Option<Arc<Registry>> {
        self.registry.get()?.upgrade()
    }

    /// The connections to other members.
    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    /// This member in its present incarnation.
    pub(super) fn me(&self) -> Owner {
        self.state().me.clone()
    }

    /// Replaces the incarnation.
    pub(super) fn begin_again(&self, incarnation: Incarnation) {
        self.state().me.incarnation = incarnation;
    }

    /// Whether a resource manager is served here.
    pub(super) fn serves(&self, rm: &RmId) -> bool {
        self.state().held.contains_key(rm)
    }

    /// Epoch of the session of a resource manager that is served here.
    pub(super) fn epoch_of(&self, rm: &RmId) -> Option<Epoch> {
        self.state().held.get(rm).copied()
    }

    /// The resource managers that are served here.
    pub(super) fn held(&self) -> Vec<RmId> {
        self.state().held.keys().cloned().collect()
    }

    /// Number of resource managers that are served here, and of registrations without an answer.
    pub(super) fn sessions_and_calls(&self) -> usize {
        let state = self.state();
        let is_new = |call: &&Call| !state.held.contains_key(&call.rm);
        state.held.len() + state.calls.values().filter(is_new).count()
    }

    /// Number of resource managers that are served here.
    pub(super) fn served(&self) -> usize {
        self.state().held.len()
    }

    /// The gRPC address of a member, if its record was read with the last renewal.
    pub(super) fn address_of(&self, owner: &Owner) -> Option<String> {
        let members = self.handle()?.members();
        let record = &members.get(&owner.member)?.value;
        let is_it = record.owner == *owner && !record.details.grpc.is_empty();
        is_it.then(|| record.details.grpc.clone())
    }

    /// Answers a registration. A claim that nobody waits for any more is freed.
    pub(super) fn answer(&self, call: CallId, answer: Result<Epoch, Refusal>) {
        let mut state = self.state();
        let Some(call) = state.calls.remove(&call) else { return };
        let Call { rm, answer: sender, before, failure, .. } = call;
        if let Ok(epoch) = &answer {
            state.held.insert(rm.clone(), *epoch);
            self.operator.note_won(&before, &state.me, *epoch);
        }
        drop(state);
        let answer = answer.map(|epoch| epoch.0).map_err(|refusal| match (refusal, failure) {
            (Refusal::ArbiterUnavailable, Some(why)) => ClaimRefusal::ArbiterFailed { why },
            (refusal, _) => self.refusal(refusal),
        });
        if let Err(Ok(epoch)) = sender.send(answer)
            && let Some(handle) = self.handle().cloned()
        {
            // The driver's task calls this, so it cannot wait for room in its own queue.
            tokio::spawn(async move { handle.send(Event::Deregister(rm, Epoch(epoch))).await });
        }
    }

    /// Notes why a request about the claim of a resource manager has no result. `None`: no answer
    /// came.
    pub(super) fn note_failure(&self, rm: &RmId, why: Option<&str>) {
        let mut state = self.state();
        for call in state.calls.values_mut().filter(|call| call.rm == *rm) {
            call.failure = why.map(str::to_owned);
        }
    }

    /// The call of a registration, if it can be made at another member.
    pub(super) fn call_of(&self, call: CallId) -> Option<PassableCall> {
        self.state().calls.get(&call)?.passable.clone()
    }

    /// The token that is cancelled when the client of a registration gives up.
    pub(super) fn abandonment_of(&self, call: CallId) -> CancellationToken {
        let state = self.state();
        state.calls.get(&call).map(|call| call.abandoned.clone()).unwrap_or_default()
    }

    /// Whether the gRPC edge of another member can be reached.
    pub(super) fn probe(&self, address: String) -> BoxFuture<'static, bool> {
        (self.probe)(address)
    }

    /// Refuses a registration that has no answer yet.
    pub(super) fn refuse_call(&self, call: CallId, refusal: ClaimRefusal) {
        if let Some(Call { answer, .. }) = self.state().calls.remove(&call) {
            // The caller may have gone.
            let _ = answer.send(Err(refusal));
        }
    }

    /// Notes that a claim is no longer held. Returns the instance whose registration ended it, if
    /// that is known.
    pub(super) fn lost(&self, rm: &RmId, epoch: Epoch) -> Option<String> {
        let mut state = self.state();
        if state.held.get(rm) == Some(&epoch) {
            state.held.remove(rm);
        }
        state.calls.values().find(|call| call.rm == *rm)?.instance.clone()
    }

    /// Ends a deregistration of the session with this epoch.
    pub(super) fn freed(&self, rm: RmId, epoch: Epoch) {
        self.frees.end(&(rm, epoch), &());
    }

    /// Refuses all that waits: the driver has ended.
    pub(super) fn close(&self) {
        let mut state = self.state();
        // Dropped senders refuse.
        state.calls.clear();
        state.held.clear();
        drop(state);
        self.frees.close();
        self.operator.close();
    }

    fn refusal(&self, refusal: Refusal) -> ClaimRefusal {
        let id = |owner: &Owner| owner.member.0.to_string();
        match refusal {
            Refusal::Fenced => ClaimRefusal::Fenced,
            Refusal::Leaving => ClaimRefusal::Leaving,
            Refusal::Busy | Refusal::Contended => ClaimRefusal::Contended,
            Refusal::ArbiterUnavailable => ClaimRefusal::ArbiterUnavailable,
            Refusal::OwnerUnreachable(owner) => {
                ClaimRefusal::OwnerUnreachable { member: id(&owner) }
            }
            // A process with a proof may claim it there at once.
            Refusal::NotOwner(owner) | Refusal::HandingOver(owner) => {
                ClaimRefusal::NotOwner { member: id(&owner), owner: self.address_of(&owner) }
            }
            Refusal::Abandoned => ClaimRefusal::Abandoned,
            Refusal::Superseded => ClaimRefusal::Superseded,
        }
    }

    /// Claims a resource manager for this member, unless the client has given up.
    async fn claim_here(&self, claimant: Claimant) -> Result<u64, ClaimRefusal> {
        let handle = self.handle().ok_or(ClaimRefusal::Fenced)?;
        let call = CallId(self.next_call.fetch_add(1, Ordering::Relaxed));
        let (answer, mut answered) = oneshot::channel();
        let (instance, passable) = (claimant.instance.clone(), claimant.call.clone());
        if self.operator.is_draining() {
            self.refuse_drained(&claimant).await?;
        }
        // Other members may have been asked for seconds.
        let abandoned = claimant.abandoned.clone();
        if abandoned.is_cancelled() {
            return Err(ClaimRefusal::Abandoned);
        }
        let registration = registration(call, claimant);
        let rm = registration.rm.clone();
        let before = Before::of(&handle.view().borrow(), &rm);
        let waiting = Call {
            rm: rm.clone(),
            instance,
            before,
            passable,
            failure: None,
            abandoned: abandoned.clone(),
            answer,
        };
        self.state().calls.insert(call, waiting);
        if let Err(refusal) = handle.register(registration) {
            self.state().calls.remove(&call);
            return Err(self.refusal(refusal));
        }
        let answer = if let Some(answer) = abandoned.run_until_cancelled(&mut answered).await {
            answer
        } else {
            handle.send(Event::Abandoned(call, rm)).await;
            // A claim that is being written may still be won.
            answered.await
        };
        answer.unwrap_or(Err(ClaimRefusal::Fenced))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

impl Claims for Membership {
    fn claim(&self, claimant: Claimant) -> BoxFuture<'_, Result<u64, ClaimRefusal>> {
        async move {
            if let Some(suspects) = &claimant.suspects {
                self.refuse_false_suspicion(suspects).await?;
            }
            self.assign(&claimant).await?;
            let claimed = self.claim_here(claimant).await;
            self.operator.count(claimed.as_ref().map(|_| ()));
            claimed
        }
        .boxed()
    }

    fn free<'a>(&'a self, rm_id: &'a str, session: u64) -> BoxFuture<'a, ()> {
        async move {
            let Some(handle) = self.handle() else { return };
            let (rm, epoch) = (RmId(rm_id.into()), Epoch(session));
            if self.epoch_of(&rm) != Some(epoch) {
                return;
            }
            let freed = self.frees.wait((rm.clone(), epoch));
            if handle.send(Event::Deregister(rm, epoch)).await {
                // Without an end the driver has ended: the claim is free with the incarnation.
                freed.ended().await;
            }
        }
        .boxed()
    }

    fn give_up<'a>(&'a self, rm_id: &'a str) -> BoxFuture<'a, Result<(), ClaimRefusal>> {
        self.free_one(RmId(rm_id.into())).boxed()
    }

    fn holds(&self, rm_id: &str, session: u64) -> bool {
        self.state().held.get(&RmId(rm_id.into())) == Some(&Epoch(session))
    }

    fn may_decide(&self) -> bool {
        self.handle().is_some_and(|handle| handle.gate().is_open())
    }

    fn incarnation(&self) -> AsciiMetadataValue {
        id_of(self.state().me.incarnation.0)
    }

    fn members(&self) -> Vec<String> {
        self.addresses()
    }

    fn serve(&self, registry: &Arc<Registry>) {
        let _ = self.registry.set(Arc::downgrade(registry));
    }

    fn configurations(&self) -> Option<Arc<dyn Configurations>> {
        Some(self.shared()? as _)
    }
}

/// Returns the beginning of the name of an instance, at most `INSTANCE_BYTES` of it.
fn beginning(instance: &str) -> &str {
    let fits = |&bytes: &usize| instance.is_char_boundary(bytes);
    let end = (0..=INSTANCE_BYTES.min(instance.len())).rev().find(fits);
    &instance[..end.unwrap_or_default()]
}

/// The registration as the rules of the cluster see it.
fn registration(call: CallId, claimant: Claimant) -> Registration {
    let proof = claimant.proof.map(|proof| ProofHash(Sha256::digest(proof.as_bytes()).into()));
    let instance = claimant.instance.unwrap_or_default();
    let holder = Holder {
        caller: claimant.caller.into(),
        instance: beginning(&instance).into(),
        policy_group: claimant.policy_group.into(),
        proof,
        attempt: claimant.attempt.unwrap_or_default(),
    };
    Registration {
        call,
        rm: RmId(claimant.rm_id.into()),
        holder,
        shown_epoch: claimant.shown.map(Epoch),
        is_forwarded: claimant.is_forwarded,
        since_ms: u64::try_from(now_ns() / 1_000_000).unwrap_or_default(),
    }
}

/// Whether a TCP connection to the address can be made.
pub(super) fn accepts_connections(address: String) -> BoxFuture<'static, bool> {
    async move { matches!(timeout(OWNER_PATIENCE, TcpStream::connect(address)).await, Ok(Ok(_))) }
        .boxed()
}
