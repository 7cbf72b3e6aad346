//! Which session is the current one of each resource manager.
//!
//! # Why a lock for each
//! A registration waits for the scheduler, which takes a whole configuration in. With one lock for
//! all, every stream of every resource manager would wait with it.
//!
//! # Invariants
//! * A request is handed to the scheduler only while its session is the current one: whoever
//!   forwards holds the slot's lock for reading; a registration, and whoever stops a session, holds
//!   it for writing from before the scheduler hears of it until the new session stands, or none.
//!   Hence a request from before a re-registration can never reach what comes after it.
//! * Registrations of one id are served in the order in which they came (tokio's lock is fair);
//!   those of different ids do not wait for each other.
//! * A registration that fails leaves the current session as it was.
//! * Each session has a keeper until it stops: nobody else lets time pass for it.

mod request;
#[cfg(test)]
mod tests;
mod tombstones;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use monoceros_actors::Ignored;
use monoceros_actors::{
    RegisterError, Removed, ResourceManagerCallback, SchedulerHandle, check_rm_id,
};
use monoceros_proto::si::v1 as si;
use tokio::sync::{RwLock, RwLockWriteGuard};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout, timeout_at};
use tonic::metadata::AsciiMetadataValue;
use tracing::{info, warn};

pub use self::request::{Origin, RegistrationMode};
use self::tombstones::Tombstones;
use super::attach::{self, Attachment};
use super::end::{Cause, RegistrationRefusal, StreamEnd};
use super::legacy::options::LegacyOptions;
use super::session::state::SessionState;
use super::session::terms::Terms;
use super::session::{Registrant, Session, SessionStatus};
use crate::clock::now_ns;
use crate::extra_config::ExtraConfig;
use crate::queues_file::PolicyFiles;
use crate::settings::{
    LimitSettings, PolicyGroupConflict, RegistrationSettings, SessionSettings, Settings,
};

/// As good as never.
const FAR_FUTURE: Duration = Duration::from_secs(365 * 86_400);

/// The slot of one resource manager: its current session, and the lock that orders who uses it.
pub type Slot = RwLock<Option<Arc<Session>>>;

/// The sessions of this run of the scheduler.
pub struct Registry {
    handle: SchedulerHandle,
    scheduler_id: AsciiMetadataValue,
    next_session: AtomicU64,
    terms: Terms,
    max_sessions: usize,
    bind_timeout: Duration,
    session: SessionSettings,
    registration: RegistrationSettings,
    limits: LimitSettings,
    callback: attach::CallbackOptions,
    /// What stands for the queue configuration of resource managers that bring none.
    policies: Option<Arc<PolicyFiles>>,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    /// The current sessions once more, for those who only look. A registration that is not done yet
    /// has an entry without a session, which counts towards the most that may be.
    current: Mutex<BTreeMap<String, Current>>,
    tombstones: Mutex<Tombstones>,
}

/// The current session of a resource manager, or a registration that is not done yet.
struct Current {
    /// Who registered it.
    caller: String,
    session: Option<Arc<Session>>,
}

/// A registration that went well.
pub struct Registered {
    /// The scheduler's answer.
    pub reply: si::RegisterResourceManagerResponse,
    /// Number of the session.
    pub session: u64,
    /// What became of an earlier session.
    pub outcome: RegisterOutcome,
    /// The number of the last request that was taken, where an earlier session goes on.
    pub taken: Option<u64>,
}

/// The room of a session that is about to be; given back unless it came.
struct Room<'r> {
    registry: &'r Registry,
    rm_id: &'r str,
}

/// What a resource manager wants for itself, over the settings.
struct Overrides {
    terms: Terms,
    options: LegacyOptions,
    callback: attach::CallbackOptions,
    /// Values that cannot be used: there the settings hold.
    n_unusable: usize,
}

/// How a registration went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterOutcome {
    /// There was no earlier session.
    New,
    /// An earlier session ended.
    Replaced,
    /// An earlier session goes on.
    Attached,
}

impl RegisterOutcome {
    /// As metadata say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Replaced => "replaced",
            Self::Attached => "attached",
        }
    }
}

impl Registry {
    /// No sessions.
    pub fn new(
        handle: SchedulerHandle,
        settings: &Settings,
        policies: Option<Arc<PolicyFiles>>,
    ) -> Self {
        let tombstones = Tombstones::new(settings.session.tombstone_ttl);
        Self {
            handle,
            scheduler_id: random_id(),
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

    /// Names this run of the scheduler.
    pub fn scheduler_id(&self) -> AsciiMetadataValue {
        self.scheduler_id.clone()
    }

    /// What holds for the callback streams of resource managers that bring nothing of their own.
    pub fn callback_options(&self) -> &attach::CallbackOptions {
        &self.callback
    }

    /// How long a stream may be open before it says whose it is.
    pub fn bind_timeout(&self) -> Duration {
        self.bind_timeout
    }

    /// The time by which a registration that comes now has to be done.
    pub fn registration_deadline(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.registration.timeout).unwrap_or(now + FAR_FUTURE)
    }

    /// Most items of a message.
    pub fn items_per_message(&self) -> usize {
        self.limits.items_per_message.get()
    }

    /// The slot of a resource manager that has registered at some time.
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

    /// How a stream learns that `rm_id` has no session.
    pub fn not_registered(&self, rm_id: &str) -> StreamEnd {
        let stopped_by = self.tombstones().stopped_by(rm_id);
        StreamEnd::NotRegistered { rm_id: rm_id.to_owned(), stopped_by }
    }

    /// The current session of `rm_id`, and its slot, through which requests must be forwarded. If a
    /// session is `named`, it must be that one.
    pub async fn find(
        &self,
        rm_id: &str,
        named: Option<&str>,
    ) -> Result<(Arc<Slot>, Arc<Session>), StreamEnd> {
        check_rm_id(rm_id).map_err(|error| StreamEnd::RmIdInvalid(error.to_string()))?;
        let stopped_by = || self.tombstones().stopped_by(rm_id);
        let missing = || match named {
            // From before it was stopped, or from before a restart.
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

    /// Opens a session, and ends the earlier one of the same resource manager or goes on with it.
    /// Nothing has changed if that could not be begun before `deadline`.
    pub async fn register(
        self: &Arc<Self>,
        request: si::RegisterResourceManagerRequest,
        origin: Origin,
        deadline: Instant,
    ) -> Result<Registered, RegistrationRefusal> {
        request::check(&request, &self.limits)?;
        let rm_id = request.rm_id.clone();
        let slot = self.place(&rm_id);
        let registered = async {
            let locked = timeout_at(deadline, slot.write()).await;
            let mut current = locked.map_err(|_| self.too_slow())?;
            let attempt = origin.attempt.as_ref();
            if current.as_ref().is_some_and(|session| session.has_seen_later_than(attempt)) {
                return Err(RegistrationRefusal::LeftOver);
            }
            let attaches = match &*current {
                Some(session) if origin.mode == RegistrationMode::Attach => {
                    let instance = origin.instance.as_deref();
                    session.can_be_attached_by(instance) && self.goes_on(session, &request).await
                }
                _ => false,
            };
            match &*current {
                Some(session) if attaches => {
                    self.check_time(deadline)?;
                    info!(rm = %rm_id, session = session.number(), "registration attached");
                    let taken = Some(session.taken_up_by(origin.instance.as_deref()));
                    session.saw(origin.attempt);
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
            self.forget(&rm_id, &slot);
        }
        registered
    }

    /// Puts a new session in the place of the current one, if there is one.
    async fn replace(
        self: &Arc<Self>,
        current: &mut RwLockWriteGuard<'_, Option<Arc<Session>>>,
        request: si::RegisterResourceManagerRequest,
        origin: Origin,
        deadline: Instant,
    ) -> Result<Registered, RegistrationRefusal> {
        let Origin { instance, caller, attempt, .. } = origin;
        let registrant = Registrant {
            rm_id: request.rm_id.clone(),
            number: self.next_session.fetch_add(1, Ordering::Relaxed),
            version: request.version.clone(),
            policy_group: request::policy_group(&request).to_owned(),
            config: request.config.clone(),
            build_info: request.build_info.clone(),
            registered_at_ns: now_ns(),
        };
        let (rm_id, number) = (registrant.rm_id.clone(), registrant.number);
        let _room = if current.is_none() { Some(self.room(&rm_id, &caller)?) } else { None };
        self.check_policy_group(&registrant)?;
        if request.config.is_empty() {
            let offer = self.offer_policy(&registrant.policy_group);
            timeout_at(deadline, offer).await.map_err(|_| self.too_slow())??;
        }
        let Overrides { terms, options, callback, n_unusable } =
            self.overrides(&rm_id, &request.extra_config);
        let strict_enums = options.strict_enums;
        let by = instance.clone();
        let attachment = Attachment::new(callback, self.handle.callback_metrics());
        let session = Arc::new(Session::new(registrant, terms, options, instance, attachment));
        let callback: Arc<dyn ResourceManagerCallback> = Arc::clone(&session) as _;
        // From here on it happens, whatever the caller is told.
        self.check_time(deadline)?;
        let reply = self.handle.register_resource_manager(request, callback).await?;
        self.count_unusable(&session, n_unusable);
        // Nothing can come for it before the place is given free.
        let control =
            self.handle.control(&rm_id).await.map_err(|_| RegistrationRefusal::Internal)?;
        control.set_strict_enums(strict_enums);
        session.begin(control);
        session.saw(attempt);
        let earlier = current.replace(Arc::clone(&session));
        let entry = Current { caller, session: Some(Arc::clone(&session)) };
        self.current().insert(rm_id.clone(), entry);
        self.tombstones().remove(&rm_id);
        if let Some(earlier) = &earlier {
            earlier.stop(&StreamEnd::Superseded { by });
        }
        tokio::spawn(Arc::clone(self).keep(session));
        let outcome =
            if earlier.is_some() { RegisterOutcome::Replaced } else { RegisterOutcome::New };
        info!(rm = %rm_id, session = number, outcome = outcome.name(), "resource manager registered");
        Ok(Registered { reply, session: number, outcome, taken: None })
    }

    /// Stops the current session of `rm_id`, or only if it has that number: everything that it
    /// holds is gone, and its streams end well. `by` is told to clients that come late. Returns the
    /// session, if there was one, and what went with it.
    pub async fn stop(
        &self,
        rm_id: &str,
        number: Option<u64>,
        by: &str,
    ) -> Option<(Arc<Session>, Removed)> {
        let slot = self.slot(rm_id)?;
        let mut current = slot.write().await;
        let is_it = |session: &&Arc<Session>| number.is_none_or(|it| it == session.number());
        let session = Arc::clone(current.as_ref().filter(is_it)?);
        // One whose callback hangs is gone all the same; nobody can say how much it was.
        let removed = timeout(self.registration.timeout, self.handle.deregister(rm_id)).await;
        self.end(&mut current, &session, by, &StreamEnd::Deregistered).await;
        drop(current);
        self.forget(rm_id, &slot);
        Some((session, removed.ok().and_then(Result::ok).unwrap_or_default()))
    }

    /// Makes a resource manager register and report everything again. Returns how many of its
    /// streams were open.
    pub fn resync(&self, rm_id: &str, cause: &str) -> usize {
        let session = self.session(rm_id);
        session.map_or(0, |session| session.lose(Cause::Asked(cause.to_owned())))
    }

    /// A resource manager was given the queue configuration `config`, none if that is empty, and
    /// `extra` has replaced what it sets for itself. Two things stay as they were at its
    /// registration: how much its outboxes hold, and what becomes of lost messages.
    pub fn reconfigured(&self, rm_id: &str, config: String, extra: &BTreeMap<String, String>) {
        if let Some(session) = self.session(rm_id) {
            session.was_given(config);
            let Overrides { terms, options, callback, n_unusable } = self.overrides(rm_id, extra);
            session.configure(&terms, options, callback);
            self.count_unusable(&session, n_unusable);
        }
    }

    /// What holds for a resource manager with this extra configuration.
    fn overrides(&self, rm_id: &str, extra: &BTreeMap<String, String>) -> Overrides {
        let mut extra = ExtraConfig::new(rm_id, extra);
        let terms = self.terms.with(&mut extra);
        let options = LegacyOptions::new(&self.session, &mut extra);
        let callback = self.callback.with(&mut extra);
        Overrides { terms, options, callback, n_unusable: extra.n_unusable() }
    }

    /// Counts values that could not be used: the message of a registration has no place to say it.
    fn count_unusable(&self, session: &Session, n: usize) {
        for _ in 0..n {
            let reason = Ignored::ExtraConfig;
            self.handle.count_ignored(session.rm_id(), session.dialect(), reason);
        }
    }

    /// The scheduler does not know the session any more though nobody ended it.
    pub async fn scheduler_lost(&self, session: &Arc<Session>) {
        let end = StreamEnd::Internal("the scheduler lost the session through a bug");
        self.stop_if(session, "internalError", &end, |_| true).await;
    }

    /// Lets time pass for a session until it stops.
    async fn keep(self: Arc<Self>, session: Arc<Session>) {
        let mut deadlines = session.deadlines();
        // Often enough that an idle session soon keeps nothing, and never without a pause.
        let mut forgetting = interval(session.grace().max(Duration::from_secs(1)));
        forgetting.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while session.state() != SessionState::Stopped {
            let deadline = *deadlines.borrow_and_update();
            let overdue = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = deadlines.changed() => {}
                _ = forgetting.tick() => session.forget_confirmed(),
                () = overdue => {
                    if session.expire() {
                        let (rm_id, by) = (session.rm_id().to_owned(), "pauseTimeout");
                        let end = StreamEnd::NotRegistered { rm_id, stopped_by: Some(by.to_owned()) };
                        // A stream may have come in the meantime.
                        self.stop_if(&session, by, &end, Session::expire).await;
                    }
                }
            }
        }
    }

    async fn stop_if(
        &self,
        session: &Arc<Session>,
        by: &str,
        end: &StreamEnd,
        is_due: impl Fn(&Session) -> bool + Send,
    ) {
        let Some(slot) = self.slot(session.rm_id()) else { return };
        let mut current = slot.write().await;
        let is_it = current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session));
        if is_it && is_due(session) {
            warn!(rm = session.rm_id(), session = session.number(), by, "session stopped");
            self.end(&mut current, session, by, end).await;
        }
        drop(current);
        self.forget(session.rm_id(), &slot);
    }

    async fn end(
        &self,
        current: &mut RwLockWriteGuard<'_, Option<Arc<Session>>>,
        session: &Arc<Session>,
        by: &str,
        end: &StreamEnd,
    ) {
        // Fails only if the scheduler does not know it any more.
        let _ = self.handle.stop_resource_manager(session.rm_id()).await;
        current.take();
        self.current().remove(session.rm_id());
        self.tombstones().put(session.rm_id().to_owned(), by.to_owned());
        session.stop(end);
    }

    /// Keeps room for a session of `rm_id`, which has none. What others registered does not count.
    fn room<'r>(&'r self, rm_id: &'r str, caller: &str) -> Result<Room<'r>, RegistrationRefusal> {
        let mut current = self.current();
        let of_caller = current.values().filter(|current| current.caller == caller).count();
        if of_caller >= self.max_sessions {
            return Err(RegistrationRefusal::TooManySessions(self.max_sessions));
        }
        let entry = Current { caller: caller.to_owned(), session: None };
        current.insert(rm_id.to_owned(), entry);
        Ok(Room { registry: self, rm_id })
    }

    fn check_time(&self, deadline: Instant) -> Result<(), RegistrationRefusal> {
        if Instant::now() < deadline { Ok(()) } else { Err(self.too_slow()) }
    }

    /// The refusal of a registration that took too long.
    pub fn too_slow(&self) -> RegistrationRefusal {
        RegistrationRefusal::TooSlow(self.registration.timeout)
    }

    fn check_policy_group(&self, registrant: &Registrant) -> Result<(), RegistrationRefusal> {
        if registrant.config.is_empty() {
            return Ok(());
        }
        let other =
            self.current().values().filter_map(|it| it.session.as_ref()).find_map(|session| {
                let other = session.registrant();
                let conflicts = other.rm_id != registrant.rm_id
                    && other.policy_group == registrant.policy_group
                    && session.brought_other_than(&registrant.config);
                conflicts.then(|| other.rm_id.clone())
            });
        let Some(other) = other else { return Ok(()) };
        let refusal = RegistrationRefusal::PolicyGroupConflict {
            group: registrant.policy_group.clone(),
            other,
        };
        match self.registration.policy_group_conflict {
            PolicyGroupConflict::Reject => Err(refusal),
            PolicyGroupConflict::Warn => {
                warn!(rm = %registrant.rm_id, conflict = %refusal, "policy group conflict");
                Ok(())
            }
        }
    }

    /// Whether a registration may go on with `session`, of which nothing was lost: the registration
    /// brings the configuration that is in force, or none.
    async fn goes_on(
        &self,
        session: &Session,
        request: &si::RegisterResourceManagerRequest,
    ) -> bool {
        let known = session.registrant();
        if known.policy_group != request::policy_group(request) {
            return false;
        }
        if request.config.is_empty() {
            return true;
        }
        let in_force = self.handle.configuration(session.rm_id()).await;
        in_force.is_ok_and(|in_force| in_force.config == request.config)
    }

    /// Sees to it that the scheduler knows what the service has for the policy group.
    async fn offer_policy(&self, group: &str) -> Result<(), RegistrationRefusal> {
        let Some(policies) = self.policies.clone() else { return Ok(()) };
        let name = group.to_owned();
        let read = tokio::task::spawn_blocking(move || policies.at_registration(&name));
        let read = read.await.map_err(|_| RegistrationRefusal::Internal)?;
        let unreadable =
            |why| RegistrationRefusal::PolicyUnreadable { group: group.to_owned(), why };
        if let Some(text) = read.map_err(unreadable)? {
            let offered = self.handle.offer_policy_queues(group, &text).await;
            offered.map_err(RegisterError::from)?;
        }
        Ok(())
    }

    /// The slot of `rm_id`, made if it is not there.
    fn place(&self, rm_id: &str) -> Arc<Slot> {
        let mut slots = self.slots();
        if slots.len() >= 2 * self.max_sessions {
            // Some were still held by a stream when their session ended.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || !is_empty(slot));
        }
        Arc::clone(slots.entry(rm_id.to_owned()).or_default())
    }

    /// Removes the slot of an id that has no session, unless someone else holds it.
    fn forget(&self, rm_id: &str, slot: &Arc<Slot>) {
        let mut slots = self.slots();
        // Two: the table's and ours. Others get theirs under the lock that we hold.
        let is_unused = Arc::strong_count(slot) == 2 && is_empty(slot);
        if is_unused && slots.get(rm_id).is_some_and(|known| Arc::ptr_eq(known, slot)) {
            slots.remove(rm_id);
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<String, Arc<Slot>>> {
        self.slots.lock().expect("no holder panics")
    }

    fn current(&self) -> MutexGuard<'_, BTreeMap<String, Current>> {
        self.current.lock().expect("no holder panics")
    }

    fn tombstones(&self) -> MutexGuard<'_, Tombstones> {
        self.tombstones.lock().expect("no holder panics")
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let mut current = self.registry.current();
        if current.get(self.rm_id).is_some_and(|current| current.session.is_none()) {
            current.remove(self.rm_id);
        }
    }
}

fn is_empty(slot: &Slot) -> bool {
    slot.try_read().is_ok_and(|current| current.is_none())
}

/// 128 random bits as text; the standard library seeds its hash maps from the operating system.
fn random_id() -> AsciiMetadataValue {
    let bits = || RandomState::new().hash_one(0);
    let text = format!("{:016x}{:016x}", bits(), bits());
    text.parse().expect("hexadecimal digits are ASCII")
}

/// Numbers of sessions rise over restarts, too: seconds since the epoch, then 24 bits to count. The
/// count begins with the fraction of the second, so that a service which starts twice within one
/// second gives other numbers the second time: a client of the first run must not be taken for one
/// of the second.
fn first_session_number(now_ns: i64) -> u64 {
    const SECOND_NS: u64 = 1_000_000_000;
    let now_ns = u64::try_from(now_ns).unwrap_or_default();
    let fraction = ((now_ns % SECOND_NS) << 24) / SECOND_NS;
    ((now_ns / SECOND_NS) << 24) + fraction + 1
}
