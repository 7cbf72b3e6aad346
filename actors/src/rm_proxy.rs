//! The front door: one actor that routes each RM's messages to its [`Rm`].
//!
//! # Invariants
//! * At most one live `Rm` has an id; a registration with a configuration that is not valid changes
//!   nothing, and one that is valid silences the earlier session before the new one starts.
//! * Without this actor nothing can be reached: the process may as well exit.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::prelude::*;
use monoceros_proto::si::v1::RegisterResourceManagerRequest;
use monoceros_rules::config::{self, Configuration};
use tokio::sync::oneshot;

use crate::callback::ResourceManagerCallback;
use crate::clock::Clock;
use crate::metrics::{Kind, Metrics};
use crate::partition::Partition;
use crate::rm::{Rm, Silence, Supersede, Update};
use crate::tally::Tally;
use crate::{RegisterError, Settings, UpdateError};

/// An RM registers, for the first time or again. From the embedding API.
#[derive(Message)]
#[rtype(result = "Result<(), RegisterError>")]
pub(crate) struct Register {
    pub(crate) request: RegisterResourceManagerRequest,
    pub(crate) callback: Arc<dyn ResourceManagerCallback>,
}

/// An RM sends something. From the embedding API.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Route {
    pub(crate) rm_id: String,
    pub(crate) update: Update,
}

/// An RM leaves for good.
#[derive(Message)]
#[rtype(result = "Result<(), UpdateError>")]
pub(crate) struct Deregister(pub(crate) String);

/// Which partitions there are, for reads.
#[derive(Message)]
#[rtype(result = "Vec<PartitionEntry>")]
pub(crate) struct ListPartitions;

/// Which RMs there are.
#[derive(Message)]
#[rtype(result = "Vec<Addr<Rm>>")]
pub(crate) struct ListRms;

/// The session of an RM, to steer it.
#[derive(Message)]
#[rtype(result = "Result<Addr<Rm>, UpdateError>")]
pub(crate) struct FindRm(pub(crate) String);

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
    partitions: Vec<PartitionEntry>,
    silence: Silence,
}

impl Session {
    /// Not another word to the callback from here on; what the session holds goes in its own time.
    fn end(&self) {
        self.silence.begin();
        self.address.do_send(Supersede);
    }
}

/// See the module.
pub(crate) struct RmProxy {
    settings: Settings,
    clock: Clock,
    metrics: Arc<Metrics>,
    sessions: BTreeMap<String, Session>,
    tally: Tally,
}

impl RmProxy {
    pub(crate) fn new(settings: Settings, metrics: Arc<Metrics>) -> Self {
        let clock = Clock::new(settings.epoch_ns);
        let tally = Tally::new(&metrics);
        Self { settings, clock, metrics, sessions: BTreeMap::new(), tally }
    }

    fn configuration(&self, text: &str) -> Result<Configuration, RegisterError> {
        let given = if text.is_empty() { self.settings.default_queues.as_str() } else { text };
        let text = if given.is_empty() { config::DEFAULT } else { given };
        let configuration = config::parse(text)?;
        for warning in &configuration.warnings {
            tracing::warn!(%warning, "queue configuration");
        }
        Ok(configuration)
    }
}

impl Actor for RmProxy {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.metrics.actor_started(Kind::RmProxy);
        ctx.set_mailbox_capacity(0);
    }

    fn stopped(&mut self, _ctx: &mut Self::Context) {
        self.metrics.actor_stopped(Kind::RmProxy);
    }
}

impl Handler<Register> for RmProxy {
    type Result = Result<(), RegisterError>;

    fn handle(&mut self, register: Register, _ctx: &mut Self::Context) -> Self::Result {
        let _timer = self.tally.message(Kind::RmProxy);
        let Register { request, callback } = register;
        check_rm_id(&request.rm_id)?;
        let configuration = self.configuration(&request.config)?;
        if let Some(old) = self.sessions.remove(&request.rm_id) {
            tracing::info!(rm = request.rm_id, "registers again, its earlier session ends");
            old.end();
        }
        self.settings.events.apply_extra_config(&request.extra_config);
        let rm_id: Arc<str> = Arc::from(request.rm_id.as_str());
        let mut build_info = request.build_info;
        build_info.insert("rmId".to_owned(), request.rm_id.clone());
        let (address, partitions, silence) = Rm::start_with(
            &rm_id,
            &Arc::new(build_info),
            configuration,
            &callback,
            self.clock,
            &self.settings,
            &self.metrics,
        );
        tracing::info!(rm = %rm_id, partitions = partitions.len(), "registered");
        self.sessions.insert(request.rm_id, Session { address, partitions, silence });
        self.tally.flush();
        Ok(())
    }
}

/// 1 to 128 bytes without control characters and brackets (scheduler-interface chapter, 3.1).
fn check_rm_id(rm_id: &str) -> Result<(), RegisterError> {
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
        let _timer = self.tally.message(Kind::RmProxy);
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

    fn handle(&mut self, Deregister(rm_id): Deregister, _ctx: &mut Self::Context) -> Self::Result {
        let Some(session) = self.sessions.remove(&rm_id) else {
            return Err(UpdateError::NotRegistered(rm_id));
        };
        tracing::info!(rm = rm_id, "leaves");
        session.end();
        Ok(())
    }
}

impl Handler<ListPartitions> for RmProxy {
    type Result = MessageResult<ListPartitions>;

    fn handle(&mut self, _: ListPartitions, _ctx: &mut Self::Context) -> Self::Result {
        let sessions = self.sessions.values();
        MessageResult(sessions.flat_map(|session| session.partitions.iter().cloned()).collect())
    }
}

impl Handler<FindRm> for RmProxy {
    type Result = Result<Addr<Rm>, UpdateError>;

    fn handle(&mut self, FindRm(rm_id): FindRm, _ctx: &mut Self::Context) -> Self::Result {
        let session = self.sessions.get(&rm_id);
        session.map(|session| session.address.clone()).ok_or(UpdateError::NotRegistered(rm_id))
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
            session.end();
        }
    }
}

pub(crate) type Taken = oneshot::Sender<Result<(), UpdateError>>;
