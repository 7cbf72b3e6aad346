//! One registration of a resource manager, from the edge's side: where the scheduler's answers go,
//! and whether it may decide anything.
//!
//! # Invariants
//! * The scheduler is on hold for the resource manager unless the session is [running](state) and
//!   not too much waits to be sent. Whoever changes either calls `Session::review`, which looks
//!   at what is so now and tells the scheduler in the order in which it looked.
//! * A session that ends does so in [`Session::over`], whatever ends it.
//! * Locks: that of the life before those of an outbox, never the other way round.
//!
//! Reading order: here what a session is and what is known of it, then [`terms`], [`state`],
//! [`backlog`], `life` (streams come and go, the session ends) and `delivery` (what the scheduler
//! says).

pub mod backlog;
mod delivery;
mod life;
pub mod state;
pub mod terms;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use monoceros_actors::ResourceManagerControl;
use monoceros_proto::si::v1 as si;
use tokio::sync::watch;
use tokio::time::Instant;

use self::backlog::Backlog;
use self::life::Standing;
use self::state::{Lifecycle, SessionState};
use self::terms::Terms;
use super::attach::{self, Attachment};
use super::end::{Cause, StreamEnd};
use super::kind::{Allocations, Applications, Dialect, Nodes, StreamKind};
use super::legacy::options::LegacyOptions;
use super::legacy::{Legacy, Translator};
use super::outbox::{AnyOutbox, Outbox};

/// The session that a registration opened. It is the callback that the scheduler calls.
pub struct Session {
    registrant: Registrant,
    terms: Terms,
    /// The queue configuration that it brought, or was given since; empty if none.
    config: Mutex<String>,
    /// The instance that registered or spoke last, if it says.
    instance: Mutex<Option<String>>,
    dialect: OnceLock<Dialect>,
    /// Why client and scheduler no longer know the same: no stream may bind any more.
    lost: OnceLock<Cause>,
    /// How it ended.
    end: OnceLock<StreamEnd>,
    control: OnceLock<ResourceManagerControl>,
    life: Mutex<Standing>,
    deadline: watch::Sender<Option<Instant>>,
    backlog: Arc<Backlog>,
    /// Too much waits to be sent.
    is_behind: AtomicBool,
    /// The outbox of allocation streams.
    pub allocations: Outbox<si::AllocationResponse>,
    /// The outbox of application streams.
    pub applications: Outbox<si::ApplicationResponse>,
    /// The outbox of node streams.
    pub nodes: Outbox<si::NodeResponse>,
    /// The outbox of the one stream of the oldest dialect, and what its messages repeat.
    pub legacy: Translator,
    /// The callback side.
    attachment: Arc<Attachment>,
}

/// What a registration said of itself.
#[derive(Clone, Debug, Default)]
pub struct Registrant {
    /// The id of the resource manager.
    pub rm_id: String,
    /// Larger than that of any earlier session, restarts included.
    pub number: u64,
    /// The version that the resource manager gives as its own.
    pub version: String,
    /// Never empty.
    pub policy_group: String,
    /// The queue configuration that it brought; empty if none.
    pub config: String,
    /// About the resource manager's program.
    pub build_info: BTreeMap<String, String>,
    /// Nanoseconds since the epoch.
    pub registered_at_ns: i64,
}

/// What can be told of a session.
#[derive(Clone, Debug)]
pub struct SessionStatus {
    /// What it said of itself.
    pub registrant: Registrant,
    /// The state of the session.
    pub state: SessionState,
    /// The time at which it was paused, if it is, in nanoseconds since the epoch.
    pub paused_at_ns: Option<i64>,
    /// The dialect of its streams; none before the first one.
    pub dialect: Option<Dialect>,
    /// Kinds of its open streams.
    pub open_streams: Vec<&'static str>,
    /// What waits to be sent.
    pub outbox_items: usize,
    /// The instance that registered or spoke last, if it says.
    pub instance: Option<String>,
    /// Why it takes no more streams, when that is so.
    pub lost: Option<String>,
}

/// How a stream asks to be bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct Binding<'m> {
    /// The number of the last message that its client received.
    pub resume: Option<u64>,
    /// The instance whose stream it is.
    pub instance: Option<&'m str>,
}

impl Session {
    /// A session without streams.
    pub fn new(
        registrant: Registrant,
        terms: Terms,
        options: LegacyOptions,
        instance: Option<String>,
        attachment: Attachment,
    ) -> Self {
        let now = Instant::now();
        let life = Lifecycle::new(terms.patience, now);
        let backlog = Arc::new(Backlog::new(terms.marks()));
        let bounds = terms.bounds;
        Self {
            config: Mutex::new(registrant.config.clone()),
            registrant,
            terms,
            instance: Mutex::new(instance),
            dialect: OnceLock::new(),
            lost: OnceLock::new(),
            end: OnceLock::new(),
            control: OnceLock::new(),
            deadline: watch::Sender::new(life.deadline()),
            life: Mutex::new(Standing { life, registered: now, held: false }),
            is_behind: AtomicBool::new(false),
            allocations: Outbox::new(bounds, &backlog),
            applications: Outbox::new(bounds, &backlog),
            nodes: Outbox::new(bounds, &backlog),
            legacy: Translator::new(bounds, &backlog, options),
            backlog,
            attachment: Arc::new(attachment),
        }
    }

    /// The id of the resource manager.
    pub fn rm_id(&self) -> &str {
        &self.registrant.rm_id
    }

    /// Its number: larger than that of any earlier session, restarts included.
    pub fn number(&self) -> u64 {
        self.registrant.number
    }

    /// What the registration said.
    pub fn registrant(&self) -> &Registrant {
        &self.registrant
    }

    /// The resource manager was given another queue configuration; none if that is empty.
    pub fn was_given(&self, config: String) {
        *self.config.lock().expect("no holder panics") = config;
    }

    /// Whether it brought a queue configuration, or was given one since, that is not `config`.
    pub fn brought_other_than(&self, config: &str) -> bool {
        let own = self.config.lock().expect("no holder panics");
        !own.is_empty() && *own != config
    }

    /// The state of the session.
    pub fn state(&self) -> SessionState {
        self.standing().life.state()
    }

    /// Through which the scheduler's side of it is controlled; there once the scheduler has
    /// accepted it.
    pub fn control(&self) -> Option<&ResourceManagerControl> {
        self.control.get()
    }

    /// The kinds of stream, each with its outbox and whether it carries allocations.
    fn outboxes(&self) -> [(&'static str, bool, &dyn AnyOutbox); 4] {
        [
            (Allocations::NAME, Allocations::CARRIES_ALLOCATIONS, &self.allocations),
            (Applications::NAME, Applications::CARRIES_ALLOCATIONS, &self.applications),
            (Nodes::NAME, Nodes::CARRIES_ALLOCATIONS, &self.nodes),
            (Legacy::NAME, Legacy::CARRIES_ALLOCATIONS, &self.legacy.outbox),
        ]
    }

    /// What operators are told of it.
    pub fn status(&self) -> SessionStatus {
        let bound = self.outboxes().into_iter().filter(|(_, _, outbox)| outbox.is_bound());
        let attach = self.attachment.is_attached().then_some("attach");
        let open_streams = bound.map(|(name, _, _)| name).chain(attach).collect();
        let standing = self.standing();
        let state = standing.life.state();
        let age = standing.life.since().saturating_duration_since(standing.registered);
        let paused_at_ns = (state == SessionState::Paused).then(|| {
            let age = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
            self.registrant.registered_at_ns.saturating_add(age)
        });
        SessionStatus {
            registrant: self.registrant.clone(),
            state,
            paused_at_ns,
            dialect: self.dialect.get().copied(),
            open_streams,
            outbox_items: self.backlog.load().items,
            instance: self.instance.lock().expect("no holder panics").clone(),
            lost: self.lost.get().map(ToString::to_string),
        }
    }

    /// Other terms hold from now on. Outboxes stay as they are.
    pub fn configure(
        &self,
        terms: &Terms,
        options: LegacyOptions,
        callback: attach::CallbackOptions,
    ) {
        {
            let mut standing = self.standing();
            standing.life.set_patience(terms.patience);
            self.deadline.send_replace(standing.life.deadline());
        }
        self.reorder(terms);
        if let Some(control) = self.control.get() {
            control.set_strict_enums(options.strict_enums);
        }
        self.legacy.set_options(options);
        self.attachment.configure(callback);
    }

    fn reorder(&self, terms: &Terms) {
        // Nothing of the oldest dialect comes by another stream.
        if let Some(control) = self.control.get()
            && !self.speaks_legacy()
        {
            control.set_reorder_window(terms.reorder_window);
            control.set_reorder_items(terms.reorder_items);
        }
    }

    /// An instance goes on with it.
    pub fn taken_up_by(&self, instance: Option<String>) {
        if instance.is_some() {
            *self.instance.lock().expect("no holder panics") = instance;
        }
    }

    /// Its callback side.
    pub fn attachment(&self) -> &Arc<Attachment> {
        &self.attachment
    }

    /// How long a message is kept after it was sent.
    pub fn grace(&self) -> Duration {
        self.terms.bounds.grace
    }

    fn speaks_legacy(&self) -> bool {
        self.dialect.get() == Some(&Dialect::Legacy)
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.life.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests;
