//! `RmProxy`: the actor that routes messages of all RMs to their sessions ([`Rm`]).
//!
//! # Why one actor for all
//! Callers identify RMs by their ids, and sessions start and end. One mailbox keeps the order between
//! the last message to an earlier session and the first to its successor; a table with a lock would not.
//!
//! # Invariants
//! * Each id belongs to at most one live `Rm`. A registration silences the earlier session before
//!   the new one starts. A registration with an invalid configuration is not sent here and changes
//!   nothing.
//! * No configuration is read here, since all RMs would have to wait.
//! * The scheduler ends with this actor, because nothing could be reached without it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;
use monoceros_proto::si::v1::{self as si, RegisterResourceManagerRequest};
use monoceros_rules::specs::quotas::Held;
use tokio::sync::oneshot;

use crate::api::callback::{ResourceManagerCallback, RmState};
use crate::api::outcomes::{
    ConfigurationError, ConfigurationSnapshot, RegisterError, Removed, UpdateError,
};
use crate::api::users::Users;
use crate::clock::Clock;
use crate::front::default_queues::DefaultsOf;
use crate::front::document::Document;
use crate::front::rm::{
    Body, ChangeState, Diagnose, Effect, InForce, Outcome, PartitionThreads, ReadConfiguration,
    Reconfigure, Rm, SessionParams, Silence, Started, Supersede, Update, policy_group,
    warn_of_unused,
};
use crate::front::rosters::Rosters;
use crate::front::settings::{Settings, Threads};
use crate::mailbox::{Mailbox, Measured, Receive, receives};
use crate::metrics::{ActorKind, Counted, Metrics};
use crate::partition::{ApplyControl, Control, PartitionImage};
use crate::pulse::Beat;

/// An RM registers, for the first time or again. From the embedding API.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Register {
    /// Its id has passed [`check_rm_id`].
    pub(crate) request: RegisterResourceManagerRequest,
    /// Its configuration, as read; `None` if it has none.
    pub(crate) document: Option<Arc<Document>>,
    pub(crate) callback: Arc<dyn ResourceManagerCallback>,
    /// The states from which its partitions go on, by their names with the RM's prefix.
    pub(crate) images: BTreeMap<Arc<str>, Box<PartitionImage>>,
}

/// A request of an RM. From the embedding API.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Route {
    pub(crate) rm_id: String,
    pub(crate) update: Update,
}

/// An RM deregisters. The reply has the numbers of removed objects.
#[derive(Message)]
#[rtype(result = "Result<(), UpdateError>")]
pub(crate) struct Deregister {
    pub(crate) rm_id: String,
    pub(crate) reply: Option<oneshot::Sender<Removed>>,
}

/// Sets a default configuration, for RMs that register without one.
#[derive(Message)]
#[rtype(result = "Affected")]
pub(crate) struct SetDefaultQueues {
    pub(crate) of: DefaultsOf,
    /// The configuration; `None` removes the present one, so that the next more general one applies.
    pub(crate) document: Option<Arc<Document>>,
}

/// Returns the configuration of RMs that register without one, in a policy group without a default
/// of its own.
#[derive(Message)]
#[rtype(result = "Arc<Document>")]
pub(crate) struct FindDefaultQueues;

/// The RMs to which the changed default applies, and the outcome for each.
pub(crate) struct Affected {
    pub(crate) rms: Vec<(String, oneshot::Receiver<Outcome>)>,
}

/// As [`SetDefaultQueues`], for a policy group without a default of its own, and only for RMs that
/// register from now on.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct OfferPolicyQueues {
    pub(crate) group: String,
    pub(crate) document: Arc<Document>,
}

/// A barrier for all RMs: one reply for each, when everything that the RM sent before has been decided
/// and reported.
#[derive(Message)]
#[rtype(result = "Vec<oneshot::Receiver<()>>")]
pub(crate) struct SettleAll;

/// Returns the key of the present session of an RM.
#[derive(Message)]
#[rtype(result = "Result<SessionKey, UpdateError>")]
pub(crate) struct FindSession(pub(crate) String);

/// Identifies a session; a later session of the same RM has another number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionKey {
    rm_id: Arc<str>,
    number: u64,
}

/// A control for a session; dropped if the session is over. From its
/// [`ResourceManagerControl`](crate::ResourceManagerControl).
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ControlSession {
    pub(crate) session: SessionKey,
    pub(crate) control: Control,
}

/// Asks the RM of a session for a dump of its state. The reply is dropped if the session is over. From
/// its [`ResourceManagerControl`](crate::ResourceManagerControl).
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct DiagnoseSession {
    pub(crate) session: SessionKey,
    pub(crate) reply: oneshot::Sender<Option<RmState>>,
}

/// Returns the configuration in force for an RM; an empty id means the only RM.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct FindConfiguration {
    pub(crate) rm_id: String,
    pub(crate) reply: oneshot::Sender<Result<ConfigurationSnapshot, ConfigurationError>>,
}

/// Changes the configuration of an RM; an empty id means the only RM. It is sent by the way of the RM's
/// requests, so that it keeps its order among them.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Configure(pub(crate) Reconfigure);

/// Changes the state of a partition of an RM, also in the order of the RM's requests.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ChangePartition {
    pub(crate) rm_id: String,
    pub(crate) change: ChangeState,
}

/// Ends the sessions of all RMs.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Shutdown;

struct Session {
    mailbox: Mailbox<Rm>,
    number: u64,
    policy_group: String,
    silence: Silence,
    /// Its usage, as its partitions reported it last. Written by the session.
    held: Rc<Cell<Held>>,
}

impl Session {
    /// Ends the session: its callback is not called any more, and its partitions close.
    fn end(&self, reply: Option<oneshot::Sender<Removed>>) {
        self.silence.begin();
        self.mailbox.post(Supersede { reply });
    }
}

/// The sessions of all RMs, by id.
pub(crate) struct RmProxy {
    settings: Settings,
    clock: Clock,
    metrics: Arc<Metrics>,
    sessions: BTreeMap<String, Session>,
    /// The partitions of these sessions, for reads.
    rosters: Rosters,
    /// The number of sessions that were ever started.
    sessions_so_far: u64,
    users: Rc<Users>,
    threads: PartitionThreads,
    _counted: Counted,
}

impl RmProxy {
    /// Starts the actor on this thread.
    pub(crate) fn begin(
        settings: Settings,
        rosters: Rosters,
        metrics: &Arc<Metrics>,
    ) -> Mailbox<Self> {
        Mailbox::new(Self::new(settings, rosters, Arc::clone(metrics)).start(), metrics)
    }

    fn new(settings: Settings, rosters: Rosters, metrics: Arc<Metrics>) -> Self {
        let clock = Clock::new(settings.epoch_ns);
        let users = Users::new(&settings.resolvers);
        let threads = PartitionThreads::new(settings.partition_threads, settings.spin.clone());
        if settings.threads == Threads::PerPartition {
            threads.begin();
        }
        Self {
            settings,
            clock,
            sessions: BTreeMap::new(),
            rosters,
            sessions_so_far: 0,
            users,
            threads,
            _counted: metrics.counted(ActorKind::RmProxy),
            metrics,
        }
    }

    /// Removes the session of an RM. Reads do not find its partitions any more.
    fn take_session(&mut self, rm_id: &str) -> Option<Session> {
        self.rosters.leave(rm_id);
        self.sessions.remove(rm_id)
    }

    fn find(&self, rm_id: &str) -> Result<Mailbox<Rm>, UpdateError> {
        let session = self.sessions.get(rm_id).filter(|session| session.mailbox.is_open());
        let found = session.map(|session| session.mailbox.clone());
        found.ok_or_else(|| UpdateError::NotRegistered(rm_id.to_owned()))
    }

    /// The session with this key, unless it is over.
    fn current(&self, key: &SessionKey) -> Option<&Mailbox<Rm>> {
        let session = self.sessions.get(&*key.rm_id)?;
        (session.number == key.number).then_some(&session.mailbox)
    }

    fn find_only(&self, rm_id: &str) -> Result<Mailbox<Rm>, UpdateError> {
        if !rm_id.is_empty() {
            return self.find(rm_id);
        }
        let mut ids = self.sessions.keys();
        match (ids.next(), ids.next()) {
            (Some(only), None) => self.find(only),
            _ => Err(UpdateError::RmIdMissing),
        }
    }
}

impl Actor for RmProxy {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(0);
    }
}

impl Measured for RmProxy {
    const KIND: ActorKind = ActorKind::RmProxy;
}

receives!(RmProxy);

impl Receive<Beat> for RmProxy {
    const MAY_BE_FOLLOWED: bool = false;

    fn receive(&mut self, beat: Beat, _ctx: &mut Context<Self>) {
        beat.answer(None);
    }
}

impl Receive<Register> for RmProxy {
    fn receive(&mut self, register: Register, _ctx: &mut Context<Self>) {
        let Register { request, document, callback, images } = register;
        let policy_group = policy_group(&request).to_owned();
        let document = document.unwrap_or_else(|| self.settings.default_queues.of(&policy_group));
        for warning in &document.warnings {
            tracing::warn!(rm = request.rm_id, %warning, "queue configuration");
        }
        let in_force = InForce::of(&request, document);
        let mut had = Held::default();
        if let Some(old) = self.take_session(&request.rm_id) {
            tracing::info!(rm = request.rm_id, "registers again, its earlier session ends");
            had = old.held.get();
            old.end(None);
        }
        warn_of_unused(&request.rm_id, &request.extra_config);
        let rm_id: Arc<str> = Arc::from(request.rm_id.as_str());
        let mut build_info = request.build_info;
        build_info.insert("rmId".to_owned(), request.rm_id.clone());
        let Started { mailbox, roster, silence, held } = Rm::start_with(SessionParams {
            id: &rm_id,
            build_info,
            in_force,
            callback,
            clock: self.clock,
            settings: &self.settings,
            metrics: &self.metrics,
            users: &self.users,
            threads: &self.threads,
            had,
            images,
        });
        tracing::info!(rm = %rm_id, partitions = roster.entries().len(), "registered");
        self.sessions_so_far += 1;
        let number = self.sessions_so_far;
        let session = Session { mailbox, number, policy_group, silence, held };
        self.rosters.enter(&request.rm_id, roster);
        self.sessions.insert(request.rm_id, session);
    }
}

/// Checks the id of a resource manager: 1 to 128 bytes without control characters and brackets.
///
/// # Errors
/// [`RegisterError::RmIdMissing`] and [`RegisterError::RmIdInvalid`].
pub fn check_rm_id(rm_id: &str) -> Result<(), RegisterError> {
    if rm_id.is_empty() {
        return Err(RegisterError::RmIdMissing);
    }
    let is_bad = |c: char| c.is_control() || c == '[' || c == ']';
    if rm_id.len() > 128 || rm_id.chars().any(is_bad) {
        return Err(RegisterError::RmIdInvalid(rm_id.chars().take(128).collect()));
    }
    Ok(())
}

impl Receive<Route> for RmProxy {
    fn receive(&mut self, Route { rm_id, update }: Route, _ctx: &mut Context<Self>) {
        if self.sessions.get(&rm_id).is_some_and(|session| !session.mailbox.is_open()) {
            // Its `Rm` panicked: the RM must register again.
            self.take_session(&rm_id);
        }
        if let Some(session) = self.sessions.get(&rm_id) {
            session.mailbox.post(update);
        } else if rm_id.is_empty() {
            let _ = update.taken.send(Err(UpdateError::RmIdMissing));
        } else {
            let _ = update.taken.send(Err(UpdateError::NotRegistered(rm_id)));
        }
    }
}

impl Receive<Deregister> for RmProxy {
    fn receive(
        &mut self,
        deregister: Deregister,
        _ctx: &mut Context<Self>,
    ) -> Result<(), UpdateError> {
        let Deregister { rm_id, reply } = deregister;
        let Some(session) = self.take_session(&rm_id) else {
            return Err(UpdateError::NotRegistered(rm_id));
        };
        tracing::info!(rm = rm_id, "leaves");
        session.end(reply);
        Ok(())
    }
}

impl Receive<FindDefaultQueues> for RmProxy {
    fn receive(&mut self, _: FindDefaultQueues, _ctx: &mut Context<Self>) -> Arc<Document> {
        self.settings.default_queues.of_others()
    }
}

impl Receive<SetDefaultQueues> for RmProxy {
    fn receive(&mut self, set: SetDefaultQueues, _ctx: &mut Context<Self>) -> Affected {
        let SetDefaultQueues { of, document } = set;
        let queues = &mut self.settings.default_queues;
        queues.set(&of, document);
        let sessions = self.sessions.iter();
        let concerned = sessions.filter(|(_, session)| queues.concerns(&of, &session.policy_group));
        let document = match &of {
            DefaultsOf::Group(group) => queues.of(group),
            DefaultsOf::Others => queues.of_others(),
        };
        // To all sessions at once: a slow one does not delay the others.
        let reconfigure = |(id, session): (&String, &Session)| {
            let request = si::UpdateConfigurationRequest::default();
            let (reply, outcome) = oneshot::channel();
            let effect = Effect::Defaults(Arc::clone(&document));
            session.mailbox.post(Reconfigure { request, read: None, effect, reply });
            (id.clone(), outcome)
        };
        Affected { rms: concerned.map(reconfigure).collect() }
    }
}

impl Receive<OfferPolicyQueues> for RmProxy {
    fn receive(&mut self, offer: OfferPolicyQueues, _ctx: &mut Context<Self>) {
        self.settings.default_queues.offer(offer.group, offer.document);
    }
}

impl Receive<FindSession> for RmProxy {
    fn receive(
        &mut self,
        FindSession(rm_id): FindSession,
        _ctx: &mut Context<Self>,
    ) -> Result<SessionKey, UpdateError> {
        let session = self.sessions.get(&rm_id).filter(|session| session.mailbox.is_open());
        let key = |session: &Session| SessionKey {
            rm_id: Arc::from(rm_id.as_str()),
            number: session.number,
        };
        session.map(key).ok_or_else(|| UpdateError::NotRegistered(rm_id.clone()))
    }
}

impl Receive<ControlSession> for RmProxy {
    fn receive(&mut self, steer: ControlSession, _ctx: &mut Context<Self>) {
        let ControlSession { session, control } = steer;
        if let Some(rm) = self.current(&session) {
            rm.post(ApplyControl(control));
        }
    }
}

impl Receive<DiagnoseSession> for RmProxy {
    fn receive(&mut self, diagnose: DiagnoseSession, _ctx: &mut Context<Self>) {
        let DiagnoseSession { session, reply } = diagnose;
        if let Some(rm) = self.current(&session) {
            rm.post(Diagnose { reply });
        }
    }
}

impl Receive<FindConfiguration> for RmProxy {
    fn receive(&mut self, find: FindConfiguration, _ctx: &mut Context<Self>) {
        let FindConfiguration { rm_id, reply } = find;
        match self.find_only(&rm_id) {
            Ok(rm) => rm.post(ReadConfiguration { reply }),
            Err(error) => {
                let _ = reply.send(Err(error.into()));
            }
        }
    }
}

impl Receive<Configure> for RmProxy {
    fn receive(&mut self, Configure(reconfigure): Configure, _ctx: &mut Context<Self>) {
        match self.find_only(&reconfigure.request.rm_id) {
            Ok(rm) => rm.post(reconfigure),
            Err(error) => {
                let _ = reconfigure.reply.send(Err(error.into()));
            }
        }
    }
}

impl Receive<ChangePartition> for RmProxy {
    fn receive(&mut self, change: ChangePartition, _ctx: &mut Context<Self>) {
        let ChangePartition { rm_id, change } = change;
        match self.find(&rm_id) {
            Ok(rm) => rm.post(change),
            Err(error) => {
                let _ = change.reply.send(Err(error.into()));
            }
        }
    }
}

impl Receive<SettleAll> for RmProxy {
    fn receive(&mut self, _: SettleAll, _ctx: &mut Context<Self>) -> Vec<oneshot::Receiver<()>> {
        let settle = |session: &Session| {
            let (taken, _) = oneshot::channel();
            let (reply, settled) = oneshot::channel();
            session.mailbox.post(Update { body: Body::Barrier(reply), taken });
            settled
        };
        self.sessions.values().map(settle).collect()
    }
}

impl Receive<Shutdown> for RmProxy {
    fn receive(&mut self, _: Shutdown, _ctx: &mut Context<Self>) {
        for (rm_id, session) in std::mem::take(&mut self.sessions) {
            self.rosters.leave(&rm_id);
            session.end(None);
        }
    }
}
