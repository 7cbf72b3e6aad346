//! The front inbox: one actor that routes each RM's messages to its [`Rm`].
//!
//! # Invariants
//! * At most one live `Rm` has an id; a registration silences the earlier session before the new one
//!   starts. One with a configuration that is not valid does not come here and changes nothing.
//! * No text is read here, where all RMs would wait for it.
//! * Without this actor nothing can be reached: the process may as well exit.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;
use monoceros_proto::si::v1::RegisterResourceManagerRequest;
use tokio::sync::oneshot;

use crate::api::callback::ResourceManagerCallback;
use crate::api::users::Users;
use crate::clock::Clock;
use crate::front::rm::{
    ChangeState, DefaultsOf, Document, InForce, Reconfigure, Rm, Roster, SessionParams, Silence,
    Supersede, Update, policy_group, warn_of_unused,
};
use crate::metrics::{ActorKind, Metrics};
use crate::partition::Partition;
use crate::tally::Tally;
use crate::{RegisterError, Removed, Settings, UpdateError};

/// An RM registers, for the first time or again. From the embedding API.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Register {
    /// With an id that is one ([`check_rm_id`]).
    pub(crate) request: RegisterResourceManagerRequest,
    /// What its configuration means; `None` if it has none.
    pub(crate) document: Option<Arc<Document>>,
    pub(crate) callback: Arc<dyn ResourceManagerCallback>,
}

/// An RM sends something. From the embedding API.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Route {
    pub(crate) rm_id: String,
    pub(crate) update: Update,
}

/// An RM leaves for good; the reply says what went with it.
#[derive(Message)]
#[rtype(result = "Result<(), UpdateError>")]
pub(crate) struct Deregister {
    pub(crate) rm_id: String,
    pub(crate) reply: Option<oneshot::Sender<Removed>>,
}

/// RMs that register without a configuration get this one.
#[derive(Message)]
#[rtype(result = "Concerned")]
pub(crate) struct SetDefaultQueues {
    pub(crate) of: DefaultsOf,
    /// `None`: what stands behind it.
    pub(crate) document: Option<Arc<Document>>,
}

/// RMs for whom something else stands for no configuration than before.
pub(crate) struct Concerned {
    /// That, the same for all of them.
    pub(crate) document: Arc<Document>,
    pub(crate) rms: Vec<(String, Addr<Rm>)>,
}

/// As [`SetDefaultQueues`], for a policy group that has none, and only for RMs that register from
/// now on.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct OfferPolicyQueues {
    pub(crate) group: String,
    pub(crate) document: Arc<Document>,
}

/// Which partitions there are, for reads.
#[derive(Message)]
#[rtype(result = "Vec<PartitionEntry>")]
pub(crate) struct ListPartitions;

/// Which RMs there are.
#[derive(Message)]
#[rtype(result = "Vec<Addr<Rm>>")]
pub(crate) struct ListRms;

/// The session of an RM, to control it.
#[derive(Message)]
#[rtype(result = "Result<Addr<Rm>, UpdateError>")]
pub(crate) struct FindRm(pub(crate) String);

/// The session of an RM; an empty id means the only one there is.
#[derive(Message)]
#[rtype(result = "Result<Addr<Rm>, UpdateError>")]
pub(crate) struct FindOnlyRm(pub(crate) String);

/// Another configuration for an RM; an empty id means the only one there is. By the way of its
/// requests, so that it keeps its place among them.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Configure(pub(crate) Reconfigure);

/// Another state for a partition of an RM. By the way of its requests, too.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ChangePartition {
    pub(crate) rm_id: String,
    pub(crate) change: ChangeState,
}

/// Every RM leaves.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Shutdown;

/// A partition as reads find it.
#[derive(Clone)]
pub(crate) struct PartitionEntry {
    pub(crate) rm_id: Arc<str>,
    /// With the RM's prefix.
    pub(crate) name: Arc<str>,
    pub(crate) build_info: Arc<BTreeMap<String, String>>,
    pub(crate) address: Addr<Partition>,
}

struct Session {
    address: Addr<Rm>,
    policy_group: String,
    roster: Roster,
    silence: Silence,
}

impl Session {
    /// Not another word to the callback from here on; what the session holds goes in its own time.
    fn end(&self, reply: Option<oneshot::Sender<Removed>>) {
        self.silence.begin();
        self.address.do_send(Supersede { reply });
    }
}

/// See the module.
pub(crate) struct RmProxy {
    settings: Settings,
    clock: Clock,
    metrics: Arc<Metrics>,
    sessions: BTreeMap<String, Session>,
    tally: Tally,
    users: Rc<Users>,
}

impl RmProxy {
    pub(crate) fn new(settings: Settings, metrics: Arc<Metrics>) -> Self {
        let clock = Clock::new(settings.epoch_ns);
        let tally = Tally::new(&metrics);
        let users = Users::new(&settings.resolvers);
        Self { settings, clock, metrics, sessions: BTreeMap::new(), tally, users }
    }

    fn find(&self, rm_id: &str) -> Result<Addr<Rm>, UpdateError> {
        let session = self.sessions.get(rm_id).filter(|session| session.address.connected());
        let found = session.map(|session| session.address.clone());
        found.ok_or_else(|| UpdateError::NotRegistered(rm_id.to_owned()))
    }

    fn find_only(&self, rm_id: &str) -> Result<Addr<Rm>, UpdateError> {
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
        self.metrics.actor_started(ActorKind::RmProxy);
        ctx.set_mailbox_capacity(0);
    }

    fn stopped(&mut self, _ctx: &mut Self::Context) {
        self.metrics.actor_stopped(ActorKind::RmProxy);
    }
}

impl Handler<Register> for RmProxy {
    type Result = ();

    fn handle(&mut self, register: Register, _ctx: &mut Self::Context) {
        let _timer = self.tally.message(ActorKind::RmProxy);
        let Register { request, document, callback } = register;
        let policy_group = policy_group(&request).to_owned();
        let document = document.unwrap_or_else(|| self.settings.default_queues.of(&policy_group));
        for warning in &document.warnings {
            tracing::warn!(rm = request.rm_id, %warning, "queue configuration");
        }
        let in_force = InForce::of(&request, document);
        if let Some(old) = self.sessions.remove(&request.rm_id) {
            tracing::info!(rm = request.rm_id, "registers again, its earlier session ends");
            old.end(None);
        }
        self.settings.events.apply_extra_config(&request.extra_config);
        warn_of_unused(&request.rm_id, &request.extra_config);
        let rm_id: Arc<str> = Arc::from(request.rm_id.as_str());
        let mut build_info = request.build_info;
        build_info.insert("rmId".to_owned(), request.rm_id.clone());
        let (address, roster, silence) = Rm::start_with(SessionParams {
            id: &rm_id,
            build_info,
            in_force,
            callback,
            clock: self.clock,
            settings: &self.settings,
            metrics: &self.metrics,
            users: &self.users,
        });
        tracing::info!(rm = %rm_id, partitions = roster.entries().len(), "registered");
        let session = Session { address, policy_group, roster, silence };
        self.sessions.insert(request.rm_id, session);
        self.tally.flush();
    }
}

/// Whether a resource manager can have this id: 1 to 128 bytes without control characters and
/// brackets (scheduler-interface chapter, 3.1).
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

impl Handler<Route> for RmProxy {
    type Result = ();

    fn handle(&mut self, Route { rm_id, update }: Route, _ctx: &mut Self::Context) {
        let _timer = self.tally.message(ActorKind::RmProxy);
        if self.sessions.get(&rm_id).is_some_and(|session| !session.address.connected()) {
            // Its Rm panicked: it must register again.
            self.sessions.remove(&rm_id);
        }
        if let Some(session) = self.sessions.get(&rm_id) {
            session.address.do_send(update);
        } else if rm_id.is_empty() {
            let _ = update.taken.send(Err(UpdateError::RmIdMissing));
        } else {
            let _ = update.taken.send(Err(UpdateError::NotRegistered(rm_id)));
        }
        self.tally.flush();
    }
}

impl Handler<Deregister> for RmProxy {
    type Result = Result<(), UpdateError>;

    fn handle(&mut self, deregister: Deregister, _ctx: &mut Self::Context) -> Self::Result {
        let Deregister { rm_id, reply } = deregister;
        let Some(session) = self.sessions.remove(&rm_id) else {
            return Err(UpdateError::NotRegistered(rm_id));
        };
        tracing::info!(rm = rm_id, "leaves");
        session.end(reply);
        Ok(())
    }
}

impl Handler<SetDefaultQueues> for RmProxy {
    type Result = MessageResult<SetDefaultQueues>;

    fn handle(&mut self, set: SetDefaultQueues, _ctx: &mut Self::Context) -> Self::Result {
        let SetDefaultQueues { of, document } = set;
        let queues = &mut self.settings.default_queues;
        queues.set(&of, document);
        let sessions = self.sessions.iter();
        let concerned = sessions.filter(|(_, session)| queues.concerns(&of, &session.policy_group));
        let rms = concerned.map(|(id, session)| (id.clone(), session.address.clone())).collect();
        let document = match &of {
            DefaultsOf::Group(group) => queues.of(group),
            DefaultsOf::Others => queues.of_others(),
        };
        MessageResult(Concerned { document, rms })
    }
}

impl Handler<OfferPolicyQueues> for RmProxy {
    type Result = ();

    fn handle(&mut self, offer: OfferPolicyQueues, _ctx: &mut Self::Context) {
        self.settings.default_queues.offer(offer.group, offer.document);
    }
}

impl Handler<ListPartitions> for RmProxy {
    type Result = MessageResult<ListPartitions>;

    fn handle(&mut self, _: ListPartitions, _ctx: &mut Self::Context) -> Self::Result {
        let sessions = self.sessions.values();
        MessageResult(sessions.flat_map(|session| session.roster.entries()).collect())
    }
}

impl Handler<FindRm> for RmProxy {
    type Result = Result<Addr<Rm>, UpdateError>;

    fn handle(&mut self, FindRm(rm_id): FindRm, _ctx: &mut Self::Context) -> Self::Result {
        self.find(&rm_id)
    }
}

impl Handler<FindOnlyRm> for RmProxy {
    type Result = Result<Addr<Rm>, UpdateError>;

    fn handle(&mut self, FindOnlyRm(rm_id): FindOnlyRm, _ctx: &mut Self::Context) -> Self::Result {
        self.find_only(&rm_id)
    }
}

impl Handler<Configure> for RmProxy {
    type Result = ();

    fn handle(&mut self, Configure(reconfigure): Configure, _ctx: &mut Self::Context) {
        match self.find_only(&reconfigure.request.rm_id) {
            Ok(rm) => rm.do_send(reconfigure),
            Err(error) => {
                let _ = reconfigure.reply.send(Err(error.into()));
            }
        }
    }
}

impl Handler<ChangePartition> for RmProxy {
    type Result = ();

    fn handle(&mut self, change: ChangePartition, _ctx: &mut Self::Context) {
        let ChangePartition { rm_id, change } = change;
        match self.find(&rm_id) {
            Ok(rm) => rm.do_send(change),
            Err(error) => {
                let _ = change.reply.send(Err(error.into()));
            }
        }
    }
}

impl Handler<ListRms> for RmProxy {
    type Result = MessageResult<ListRms>;

    fn handle(&mut self, _: ListRms, _ctx: &mut Self::Context) -> Self::Result {
        MessageResult(self.sessions.values().map(|session| session.address.clone()).collect())
    }
}

impl Handler<Shutdown> for RmProxy {
    type Result = ();

    fn handle(&mut self, _: Shutdown, _ctx: &mut Self::Context) {
        for (_, session) in std::mem::take(&mut self.sessions) {
            session.end(None);
        }
    }
}

pub(crate) type Taken = oneshot::Sender<Result<(), UpdateError>>;
