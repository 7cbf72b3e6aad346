//! One registration of a resource manager, from the edge's side: where the scheduler's answers go,
//! and whether it may decide anything.
//!
//! # How it hangs together
//! `standing` says what follows from what happens, `sequence` in which order numbered requests are
//! taken; neither knows streams, locks or a clock. The session holds each under a lock and carries
//! out what they say. Streams know their session weakly, so nothing is kept by going in a circle.
//!
//! # Invariants
//! * Whatever changes who is bound, or how much waits, is followed by a look at what is so then
//!   (`Session::review`), and what follows is carried out under the lock of the standing: the scheduler
//!   hears of changes in their order.
//! * Under that lock those of outboxes and of the sequence may be taken, never the other way round.
//!
//! Reading order: here what a session is and what is known of it, then [`terms`], [`state`],
//! `standing`, [`attempt`], [`backlog`], `life` (streams come and go, the session ends), `sequence`, `intake`
//! (what the client says) and `delivery` (what the scheduler says).

pub mod attempt;
pub mod backlog;
mod delivery;
mod intake;
mod life;
mod sequence;
mod standing;
pub mod state;
pub mod terms;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use monoceros_actors::ResourceManagerControl;
use monoceros_proto::si::v1 as si;
use tokio::sync::watch;
use tokio::time::Instant;

use self::attempt::Attempt;
use self::backlog::Backlog;
use self::intake::Intake;
pub(in crate::grpc) use self::intake::{Arrived, HandingOn};
pub(in crate::grpc) use self::sequence::{Next, Numbering, TOLD_AFTER};
use self::standing::Standing;
use self::state::SessionState;
use self::terms::Terms;
use super::attach::{self, Attachment};
use super::end::StreamEnd;
use super::kind::{Allocations, Applications, Dialect, Nodes, StreamKind};
use super::legacy::options::LegacyOptions;
use super::legacy::{Legacy, Translator};
use super::outbox::{AnyOutbox, Outbox};
use super::said::AllocationsSaid;

/// The session that a registration opened. It is the callback that the scheduler calls.
pub struct Session {
    registrant: Registrant,
    /// How long a message is kept after it was sent.
    grace: Duration,
    live: Mutex<Live>,
    deadline: watch::Sender<Option<Instant>>,
    backlog: Arc<Backlog>,
    /// What the client has said by numbers.
    intake: Intake,
    /// The outbox of allocation streams.
    pub allocations: Outbox<AllocationsSaid>,
    /// The outbox of application streams.
    pub applications: Outbox<si::ApplicationResponse>,
    /// The outbox of node streams.
    pub nodes: Outbox<si::NodeResponse>,
    /// The outbox of the one stream of the oldest dialect, and what its messages repeat.
    pub legacy: Translator,
    /// The callback side.
    attachment: Arc<Attachment>,
}

/// What is so of it, and whom to tell.
struct Live {
    standing: Standing,
    /// The last attempt to connect of whoever counts them.
    attempt: Option<Attempt>,
    /// How long items wait for each other, and how many.
    reorder: (Duration, usize),
    /// There once the scheduler has accepted it.
    control: Option<ResourceManagerControl>,
}

impl Live {
    /// A stream of this attempt comes; one of an earlier attempt displaces none of a later one.
    fn attempt(&mut self, attempt: Option<&Attempt>) -> Result<(), StreamEnd> {
        let Some(attempt) = attempt else { return Ok(()) };
        if attempt.is_left_over(self.attempt.as_ref()) {
            return Err(StreamEnd::Displaced { by: None });
        }
        self.attempt = Some(attempt.clone());
        Ok(())
    }

    /// Tells the scheduler how long items wait for what other streams may bring.
    fn reorder(&self) {
        let Some(control) = &self.control else { return };
        let (window, items) = self.reorder;
        // Nothing of the oldest dialect comes by another stream, and what is numbered comes in order.
        let has_one_stream = self.standing.dialect() == Some(Dialect::Legacy);
        let is_in_order = has_one_stream || self.standing.is_numbered();
        let window = if is_in_order { Duration::ZERO } else { window };
        control.set_reorder_window(window);
        control.set_reorder_items(items);
    }
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
    /// What of the answers of its shim does not count, and why.
    pub remark: Option<&'static str>,
}

/// How a stream asks to be bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct Binding<'m> {
    /// The number of the last message that its client received.
    pub resume: Option<u64>,
    /// The instance whose stream it is.
    pub instance: Option<&'m str>,
    /// The client numbers its requests, and knows that all up to this number were taken.
    pub known: Option<u64>,
    /// The attempt to connect that it belongs to, if its client counts them.
    pub attempt: Option<&'m Attempt>,
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
        let backlog = Arc::new(Backlog::new(terms.marks()));
        let (config, now) = (registrant.config.clone(), Instant::now());
        let standing = Standing::new(terms.patience, config, instance, now);
        let deadline = watch::Sender::new(standing.life().deadline());
        let bounds = terms.bounds;
        Self {
            registrant,
            grace: bounds.grace,
            live: Mutex::new(Live {
                standing,
                attempt: None,
                reorder: terms.reorder(),
                control: None,
            }),
            deadline,
            intake: Intake::new(&terms),
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
        self.live().standing.was_given(config);
    }

    /// Whether it brought a queue configuration, or was given one since, that is not `config`.
    pub fn brought_other_than(&self, config: &str) -> bool {
        self.live().standing.brought_other_than(config)
    }

    /// The state of the session.
    pub fn state(&self) -> SessionState {
        self.live().standing.life().state()
    }

    /// Through which the scheduler's side of it is controlled; there once the scheduler has
    /// accepted it.
    pub fn control(&self) -> Option<ResourceManagerControl> {
        self.live().control.clone()
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
        let remark = self.attachment.remark();
        let live = self.live();
        let standing = &live.standing;
        let state = standing.life().state();
        let age = standing.life().since().saturating_duration_since(standing.registered());
        let paused_at_ns = (state == SessionState::Paused).then(|| {
            let age = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
            self.registrant.registered_at_ns.saturating_add(age)
        });
        SessionStatus {
            registrant: self.registrant.clone(),
            state,
            paused_at_ns,
            dialect: standing.dialect(),
            open_streams,
            outbox_items: self.backlog.load().items,
            instance: standing.instance().map(ToOwned::to_owned),
            lost: standing.lost().map(ToString::to_string),
            remark,
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
            let mut live = self.live();
            live.standing.set_patience(terms.patience);
            self.announce_deadline(&live);
            live.reorder = terms.reorder();
            live.reorder();
            if let Some(control) = &live.control {
                control.set_strict_enums(options.strict_enums);
            }
        }
        self.legacy.set_options(options);
        self.attachment.configure(callback);
    }

    /// Its callback side.
    pub fn attachment(&self) -> &Arc<Attachment> {
        &self.attachment
    }

    /// How long a message is kept after it was sent.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    fn speaks_legacy(&self) -> bool {
        self.live().standing.dialect() == Some(Dialect::Legacy)
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests;
