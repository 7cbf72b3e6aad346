//! A session: one registration of a resource manager as the edge sees it. It queues the scheduler's
//! messages for the streams, and determines whether decisions may be made for the resource manager.
//!
//! # Structure
//! `status` derives the status and its effects from events, and `sequence` orders numbered
//! requests; both are free of streams, locks and clocks. The session holds each of them under a
//! lock and carries out their results. Streams reference their session weakly, so there is no
//! reference cycle.
//!
//! # Invariants
//! * After every bind, unbind or change of the backlog, `Session::review` derives the new status
//!   and applies its effects while holding the status lock. So the scheduler sees the changes in
//!   order.
//! * The locks of outboxes and of the sequence may be taken under the status lock, never the other
//!   way round.
//!
//! Reading order: this file (the session and its description), then [`terms`], [`state`],
//! `status`, [`attempt`], [`backlog`], `life` (streams and the end), `sequence` and `intake`
//! (requests of the client), `delivery` (messages of the scheduler).

pub mod attempt;
pub mod backlog;
mod delivery;
mod intake;
mod life;
mod sequence;
pub mod state;
mod status;
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
pub(in crate::grpc) use self::intake::{Arrived, Forwarder};
pub(in crate::grpc) use self::sequence::{Next, Numbering, REPORT_AFTER};
use self::state::SessionState;
use self::status::LiveStatus;
use self::terms::Terms;
use super::allocation_responses::QueuedAllocations;
use super::attach::{self, Attachment};
use super::end::StreamEnd;
use super::kind::{Allocations, Applications, Dialect, Nodes, StreamKind};
use super::legacy::options::LegacyOptions;
use super::legacy::{Legacy, Translator};
use super::outbox::{AnyOutbox, Outbox};
use crate::locked::locked;

/// The session opened by a registration. It is the callback that the scheduler calls.
pub struct Session {
    registrant: Registrant,
    /// How long a sent message is kept.
    grace: Duration,
    live: Mutex<Live>,
    deadline: watch::Sender<Option<Instant>>,
    backlog: Arc<Backlog>,
    /// Numbered requests of the client.
    intake: Intake,
    /// The outbox of allocation streams.
    pub allocations: Outbox<QueuedAllocations>,
    /// The outbox of application streams.
    pub applications: Outbox<si::ApplicationResponse>,
    /// The outbox of node streams.
    pub nodes: Outbox<si::NodeResponse>,
    /// The outbox of the single stream of the legacy dialect, and the state its messages need.
    pub legacy: Translator,
    /// The callback stream's side.
    attachment: Arc<Attachment>,
}

/// Mutable state of the session, and the scheduler control to notify.
struct Live {
    status: LiveStatus,
    /// The latest connection attempt seen, if the client counts them.
    attempt: Option<Attempt>,
    /// How long items may wait for objects that they name, and how many items may wait.
    reorder: (Duration, usize),
    /// Set once the scheduler has accepted the session.
    control: Option<ResourceManagerControl>,
}

impl Live {
    /// Admits a stream of this attempt, unless a later attempt was seen; records it as the latest.
    fn attempt(&mut self, attempt: Option<&Attempt>) -> Result<(), StreamEnd> {
        let Some(attempt) = attempt else { return Ok(()) };
        if attempt.is_left_over(self.attempt.as_ref()) {
            return Err(StreamEnd::Displaced { by: None });
        }
        self.attempt = Some(attempt.clone());
        Ok(())
    }

    /// Sends the scheduler the reorder window that fits the streams of the session.
    fn reorder(&self) {
        let Some(control) = &self.control else { return };
        let (window, items) = self.reorder;
        // The legacy dialect has only one stream, and numbered requests arrive in order.
        let has_one_stream = self.status.dialect() == Some(Dialect::Legacy);
        let is_in_order = has_one_stream || self.status.is_numbered();
        let window = if is_in_order { Duration::ZERO } else { window };
        control.set_reorder_window(window);
        control.set_reorder_items(items);
    }
}

/// The registration's description of the resource manager.
#[derive(Clone, Debug, Default)]
pub struct Registrant {
    /// The id of the resource manager.
    pub rm_id: String,
    /// Larger than the number of any earlier session, across restarts too.
    pub number: u64,
    /// The version of the resource manager.
    pub version: String,
    /// The policy group. Never empty.
    pub policy_group: String,
    /// The queue configuration brought by the registration; empty if none.
    pub config: String,
    /// Build information of the resource manager's program.
    pub build_info: BTreeMap<String, String>,
    /// The time of the registration, in nanoseconds since the epoch.
    pub registered_at_ns: i64,
}

/// A session as shown to operators.
#[derive(Clone, Debug)]
pub struct SessionStatus {
    /// The registration.
    pub registrant: Registrant,
    /// The present state.
    pub state: SessionState,
    /// The time of the pause, if paused, in nanoseconds since the epoch.
    pub paused_at_ns: Option<i64>,
    /// The dialect of its streams. `None` before the first one.
    pub dialect: Option<Dialect>,
    /// Kinds of its open streams.
    pub open_streams: Vec<&'static str>,
    /// Items queued in all outboxes.
    pub outbox_items: usize,
    /// The instance that last registered or opened a stream, if it is named.
    pub instance: Option<String>,
    /// Why no stream may bind, if so.
    pub lost: Option<String>,
    /// The remark on shim answers of which a part is ignored, with the reason.
    pub remark: Option<&'static str>,
}

/// The parameters with which a stream binds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Binding<'m> {
    /// The number of the last message that the client received.
    pub resume: Option<u64>,
    /// The client process that opened the stream.
    pub instance: Option<&'m str>,
    /// Set if the client numbers its requests: the last number that it knows to be taken.
    pub known: Option<u64>,
    /// The connection attempt, if the client counts them.
    pub attempt: Option<&'m Attempt>,
}

impl Session {
    /// Creates a session without streams.
    pub fn new(
        registrant: Registrant,
        terms: Terms,
        options: LegacyOptions,
        instance: Option<String>,
        attachment: Attachment,
    ) -> Self {
        let backlog = Arc::new(Backlog::new(terms.marks()));
        let (config, now) = (registrant.config.clone(), Instant::now());
        let status = LiveStatus::new(terms.patience, config, instance, now);
        let deadline = watch::Sender::new(status.life().deadline());
        let bounds = terms.bounds;
        Self {
            registrant,
            grace: bounds.grace,
            live: Mutex::new(Live {
                status,
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

    /// The number of the session: larger than that of any earlier one, across restarts too.
    pub fn number(&self) -> u64 {
        self.registrant.number
    }

    /// The data of the registration.
    pub fn registrant(&self) -> &Registrant {
        &self.registrant
    }

    /// Records that an operator replaced the queue configuration; empty if there is none now.
    pub fn set_config(&self, config: String) {
        self.live().status.set_config(config);
    }

    /// Whether the session has a queue configuration and it differs from `config`.
    pub fn has_other_config(&self, config: &str) -> bool {
        self.live().status.has_other_config(config)
    }

    /// The present state.
    pub fn state(&self) -> SessionState {
        self.live().status.life().state()
    }

    /// The control of the scheduler's side. `None` until the scheduler has accepted the session.
    pub fn control(&self) -> Option<ResourceManagerControl> {
        self.live().control.clone()
    }

    /// For each kind of stream: name, whether it carries allocations, and outbox.
    fn outboxes(&self) -> [(&'static str, bool, &dyn AnyOutbox); 4] {
        [
            (Allocations::NAME, Allocations::CARRIES_ALLOCATIONS, &self.allocations),
            (Applications::NAME, Applications::CARRIES_ALLOCATIONS, &self.applications),
            (Nodes::NAME, Nodes::CARRIES_ALLOCATIONS, &self.nodes),
            (Legacy::NAME, Legacy::CARRIES_ALLOCATIONS, &self.legacy.outbox),
        ]
    }

    /// The session as shown to operators.
    pub fn status(&self) -> SessionStatus {
        let bound = self.outboxes().into_iter().filter(|(_, _, outbox)| outbox.is_bound());
        let attach = self.attachment.is_attached().then_some("attach");
        let open_streams = bound.map(|(name, _, _)| name).chain(attach).collect();
        let remark = self.attachment.remark();
        let live = self.live();
        let status = &live.status;
        let state = status.life().state();
        let age = status.life().since().saturating_duration_since(status.registered());
        let paused_at_ns = (state == SessionState::Paused).then(|| {
            let age = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
            self.registrant.registered_at_ns.saturating_add(age)
        });
        SessionStatus {
            registrant: self.registrant.clone(),
            state,
            paused_at_ns,
            dialect: status.dialect(),
            open_streams,
            outbox_items: self.backlog.load().items,
            instance: status.instance().map(ToOwned::to_owned),
            lost: status.lost().map(ToString::to_string),
            remark,
        }
    }

    /// Applies new terms. The bounds of outboxes stay as they are.
    pub fn configure(
        &self,
        terms: &Terms,
        options: LegacyOptions,
        callback: attach::CallbackOptions,
    ) {
        {
            let mut live = self.live();
            live.status.set_patience(terms.patience);
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

    /// The callback stream's side.
    pub fn attachment(&self) -> &Arc<Attachment> {
        &self.attachment
    }

    /// Returns the time for which a sent message is kept.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    fn speaks_legacy(&self) -> bool {
        self.live().status.dialect() == Some(Dialect::Legacy)
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        locked(&self.live)
    }
}

#[cfg(test)]
mod tests;
