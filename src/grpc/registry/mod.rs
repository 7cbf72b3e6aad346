//! The current session of each resource manager.
//!
//! # Why a lock for each resource manager
//! A registration waits until the scheduler has loaded a whole configuration. With a single lock
//! the streams of all resource managers would wait too.
//!
//! # Invariants
//! * A request is forwarded to the scheduler only while its session is the current one. Forwarding
//!   holds the slot's lock for reading; registering or stopping a session holds it for writing,
//!   from before the scheduler is notified until the slot has the new session or is empty. Hence a
//!   request from before a re-registration never reaches the new session.
//! * Registrations of one id are served in order of arrival (tokio's lock is fair). Registrations
//!   of different ids do not wait for each other.
//! * A registration that fails leaves the current session as it was. In a cluster the session may
//!   have ended, if the claim was lost on the way.
//! * Each session has one keeper task until it stops; only this task applies timeouts.

mod claims;
mod configurations;
mod ending;
mod opening;
mod policy;
mod request;
#[cfg(test)]
mod tests;
mod tombstones;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use monoceros_actors::{SchedulerHandle, check_rm_id};
use monoceros_proto::si::v1 as si;
use tokio::sync::RwLock;
use tokio::time::{Instant, timeout_at};
use tonic::metadata::AsciiMetadataValue;
use tracing::info;

use self::opening::{Overrides, check_attempt};
use self::tombstones::Tombstones;
use super::attach;
use super::end::{RegistrationRefusal, StreamEnd};
use super::session::terms::Terms;
use super::session::{Session, SessionStatus};
use crate::chance::random_bits;
use crate::clock::now_ns;
use crate::locked::locked;
use crate::queues_file::PolicyFiles;
use crate::settings::{LimitSettings, RegistrationSettings, SessionSettings, Settings};

pub use self::claims::{Claimant, Claims, Proof};
pub use self::configurations::{Brought, Configurations, GroupChange, Tried};
pub use self::request::{Origin, RegistrationMode};

/// Stands in for a deadline that cannot be represented.
const FAR_FUTURE: Duration = Duration::from_secs(365 * 86_400);

/// The slot of one resource manager: its current session, under the lock that orders its users.
pub type Slot = RwLock<Option<Arc<Session>>>;

/// The sessions of this run of the scheduler.
pub struct Registry {
    handle: SchedulerHandle,
    scheduler_id: AsciiMetadataValue,
    /// Membership in a cluster. `None`: this process is the whole scheduler.
    claims: Option<Arc<dyn Claims>>,
    next_session: AtomicU64,
    terms: Terms,
    max_sessions: usize,
    bind_timeout: Duration,
    session: SessionSettings,
    registration: RegistrationSettings,
    limits: LimitSettings,
    callback: attach::CallbackOptions,
    /// Queue configurations for resource managers that bring none.
    policies: Option<Arc<PolicyFiles>>,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    /// A second copy of the current sessions, for readers that need no slot lock. A registration in
    /// progress has an entry without a session, which counts towards the limit.
    current: Mutex<BTreeMap<String, CurrentSession>>,
    tombstones: Mutex<Tombstones>,
}

/// The current session of a resource manager, or registrations in progress.
#[derive(Default)]
struct CurrentSession {
    /// The caller that registered it.
    caller: String,
    session: Option<Arc<Session>>,
    /// Registrations in progress that began without a session. The entry stays until they end.
    n_reserved: usize,
}

/// A successful registration.
pub struct Registered {
    /// The scheduler's answer.
    pub reply: si::RegisterResourceManagerResponse,
    /// The number of the session.
    pub session: u64,
    /// The fate of an earlier session.
    pub outcome: RegisterOutcome,
    /// The number of the last request taken, if an earlier session continues.
    pub taken: Option<u64>,
}

/// The fate of an earlier session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterOutcome {
    /// There was no earlier session.
    New,
    /// An earlier session ended.
    Replaced,
    /// The earlier session continues.
    Attached,
}

impl RegisterOutcome {
    /// The metadata value.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Replaced => "replaced",
            Self::Attached => "attached",
        }
    }
}

impl Registry {
    /// Creates a registry without sessions.
    pub fn new(
        handle: SchedulerHandle,
        settings: &Settings,
        policies: Option<Arc<PolicyFiles>>,
    ) -> Self {
        let tombstones = Tombstones::new(settings.session.tombstone_ttl);
        Self {
            handle,
            scheduler_id: id_of(random_bits()),
            claims: None,
            next_session: AtomicU64::new(first_session_number(now_ns())),
            terms: Terms::new(&settings.grpc, &settings.session),
            max_sessions: settings.grpc.max_sessions.get(),
            bind_timeout: settings.grpc.bind_timeout,
            session: settings.session.clone(),
            registration: settings.registration.clone(),
            limits: settings.limits,
            callback: attach::CallbackOptions::new(settings),
            policies,
            slots: Mutex::default(),
            current: Mutex::default(),
            tombstones: Mutex::new(tombstones),
        }
    }

    /// Claims each registration as a member of a cluster, if there is one.
    #[must_use]
    pub fn with_claims(self, claims: Option<Arc<dyn Claims>>) -> Arc<Self> {
        let registry = Arc::new(Self { claims, ..self });
        if let Some(claims) = &registry.claims {
            claims.serve(&registry);
        }
        registry
    }

    /// The id of this run of the scheduler: in a cluster, the incarnation of the member.
    pub fn scheduler_id(&self) -> AsciiMetadataValue {
        let incarnation = self.claims.as_ref().map(|claims| claims.incarnation());
        incarnation.unwrap_or_else(|| self.scheduler_id.clone())
    }

    /// Whether answers may be handed over to resource managers now: always without a cluster.
    pub fn may_decide(&self) -> bool {
        self.claims.as_ref().is_none_or(|claims| claims.may_decide())
    }

    /// Whether this is a member of a cluster.
    pub fn is_of_cluster(&self) -> bool {
        self.claims.is_some()
    }

    /// The gRPC addresses of the members of the cluster that live, this one first. Empty without a
    /// cluster.
    pub fn members(&self) -> Vec<String> {
        self.claims.as_ref().map(|claims| claims.members()).unwrap_or_default()
    }

    /// The default options of callback streams.
    pub fn callback_options(&self) -> &attach::CallbackOptions {
        &self.callback
    }

    /// How long a stream may be open before it names its resource manager.
    pub fn bind_timeout(&self) -> Duration {
        self.bind_timeout
    }

    /// The deadline of a registration that arrives now.
    pub fn registration_deadline(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.registration.timeout).unwrap_or(now + FAR_FUTURE)
    }

    /// Most items of a message.
    pub fn items_per_message(&self) -> usize {
        self.limits.items_per_message.get()
    }

    /// The slot of a resource manager, if it has one.
    pub fn slot(&self, rm_id: &str) -> Option<Arc<Slot>> {
        self.slots().get(rm_id).cloned()
    }

    /// The current session of a resource manager.
    pub fn session(&self, rm_id: &str) -> Option<Arc<Session>> {
        self.current().get(rm_id)?.session.clone()
    }

    /// All current sessions, by id.
    pub fn list(&self) -> Vec<SessionStatus> {
        let current = self.current();
        let sessions: Vec<_> =
            current.values().filter_map(|current| current.session.clone()).collect();
        drop(current);
        sessions.iter().map(|session| session.status()).collect()
    }

    /// The end of a stream whose resource manager has no session.
    pub fn not_registered(&self, rm_id: &str) -> StreamEnd {
        let stopped_by = self.tombstones().stopped_by(rm_id);
        StreamEnd::NotRegistered { rm_id: rm_id.to_owned(), stopped_by }
    }

    /// The current session of `rm_id` and its slot, through which requests must be forwarded. Fails
    /// if `named` is another session.
    pub async fn find(
        &self,
        rm_id: &str,
        named: Option<&str>,
    ) -> Result<(Arc<Slot>, Arc<Session>), StreamEnd> {
        check_rm_id(rm_id).map_err(|error| StreamEnd::RmIdInvalid(error.to_string()))?;
        let stopped_by = || self.tombstones().stopped_by(rm_id);
        let missing = || match named {
            // The named session was stopped, or the service restarted.
            Some(named) => {
                let (named, stopped_by) = (named.to_owned(), stopped_by());
                StreamEnd::SessionStale { named, current: None, stopped_by }
            }
            None => StreamEnd::NotRegistered { rm_id: rm_id.to_owned(), stopped_by: stopped_by() },
        };
        let slot = self.slot(rm_id).ok_or_else(missing)?;
        let session = slot.read().await.clone().ok_or_else(missing)?;
        if let Some(named) = named
            && named.parse() != Ok(session.number())
        {
            let (named, current) = (named.to_owned(), Some(session.number()));
            return Err(StreamEnd::SessionStale { named, current, stopped_by: None });
        }
        Ok((slot, session))
    }

    /// Opens a session and ends the earlier one of the same resource manager, or continues the
    /// earlier one. Changes nothing if the registration cannot begin before `deadline`. In a cluster
    /// each registration is claimed first, and none continues a session.
    pub async fn register(
        self: &Arc<Self>,
        request: si::RegisterResourceManagerRequest,
        origin: Origin,
        deadline: Instant,
    ) -> Result<Registered, RegistrationRefusal> {
        request::check(&request, &self.limits)?;
        let rm_id = request.rm_id.clone();
        let slot = self.slot_or_new(&rm_id);
        let registered = async {
            if self.claims.is_some() {
                return self.replace_by_claim(&slot, request, origin, deadline).await;
            }
            let locked = timeout_at(deadline, slot.write()).await;
            let mut current = locked.map_err(|_| self.too_slow())?;
            check_attempt(current.as_ref(), &origin)?;
            let attaches = match &*current {
                Some(session) if origin.mode == RegistrationMode::Attach => {
                    let instance = origin.instance.as_deref();
                    session.can_be_continued_by(instance)
                        && self.can_continue(session, &request).await
                }
                _ => false,
            };
            match &*current {
                Some(session) if attaches => {
                    self.check_time(deadline)?;
                    info!(rm = %rm_id, session = session.number(), "registration attached");
                    let taken = Some(session.continue_as(origin.instance.as_deref()));
                    session.note_attempt(origin.attempt);
                    let reply = si::RegisterResourceManagerResponse::default();
                    Ok(Registered {
                        reply,
                        session: session.number(),
                        outcome: RegisterOutcome::Attached,
                        taken,
                    })
                }
                _ => self.replace(&mut current, request, origin, deadline).await,
            }
        };
        let registered = registered.await;
        if registered.is_err() {
            self.remove_unused_slot(&rm_id, &slot);
        }
        registered
    }

    /// Applies a new queue configuration (empty for none) and new overrides of a resource manager.
    /// The bounds of its outboxes and the policy for lost messages stay as they were registered.
    pub fn reconfigured(&self, rm_id: &str, config: String, extra: &BTreeMap<String, String>) {
        if let Some(session) = self.session(rm_id) {
            session.set_config(config);
            let Overrides { terms, options, callback, n_unusable } = self.overrides(rm_id, extra);
            session.configure(&terms, options, callback);
            self.count_unusable(&session, n_unusable);
        }
    }

    fn check_time(&self, deadline: Instant) -> Result<(), RegistrationRefusal> {
        if Instant::now() < deadline { Ok(()) } else { Err(self.too_slow()) }
    }

    /// The refusal of a registration that took too long.
    pub fn too_slow(&self) -> RegistrationRefusal {
        RegistrationRefusal::TooSlow(self.registration.timeout)
    }

    /// The slot of `rm_id`, created if needed.
    fn slot_or_new(&self, rm_id: &str) -> Arc<Slot> {
        let mut slots = self.slots();
        if slots.len() >= 2 * self.max_sessions {
            // A stream may still have held a slot when its session ended.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || !is_empty(slot));
        }
        Arc::clone(slots.entry(rm_id.to_owned()).or_default())
    }

    /// Removes the slot of an id that has no session, unless another task holds it.
    fn remove_unused_slot(&self, rm_id: &str, slot: &Arc<Slot>) {
        let mut slots = self.slots();
        // Two references: the table's and ours. Others are made only under the lock held here.
        let is_unused = Arc::strong_count(slot) == 2 && is_empty(slot);
        if is_unused && slots.get(rm_id).is_some_and(|known| Arc::ptr_eq(known, slot)) {
            slots.remove(rm_id);
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<String, Arc<Slot>>> {
        locked(&self.slots)
    }

    fn current(&self) -> MutexGuard<'_, BTreeMap<String, CurrentSession>> {
        locked(&self.current)
    }

    fn tombstones(&self) -> MutexGuard<'_, Tombstones> {
        locked(&self.tombstones)
    }
}

fn is_empty(slot: &Slot) -> bool {
    slot.try_read().is_ok_and(|current| current.is_none())
}

/// 128 bits as text.
pub(crate) fn id_of(bits: u128) -> AsciiMetadataValue {
    format!("{bits:032x}").parse().expect("hexadecimal digits are ASCII")
}

/// Returns the first session number of a run: seconds since the epoch, followed by 24 bits for
/// counting, so that numbers rise over restarts. The count starts with the fraction of the second,
/// so that a service started twice within one second uses different numbers: a client of the first
/// run must not be taken for a client of the second.
fn first_session_number(now_ns: i64) -> u64 {
    const SECOND_NS: u64 = 1_000_000_000;
    let now_ns = u64::try_from(now_ns).unwrap_or_default();
    let fraction = ((now_ns % SECOND_NS) << 24) / SECOND_NS;
    ((now_ns / SECOND_NS) << 24) + fraction + 1
}
