//! Scheduler in another process, through the client library.
//!
//! # How
//! Each registration is a client of its own with one session. When the session is lost, the shim
//! registers again and sends everything again. So no message of one session reaches another. All
//! clients have one identity: after the loss of an owner in a cluster the next one begins at another
//! member, with the addresses that the last one knew.
//! Predicates come through the callback stream and are answered from the scene.
//!
//! # Invariants
//! * A replaced session delivers no more notifications and no longer changes the scene.
//! * A broken connection costs only time: the client reconnects and continues where it stopped.
//! * Orders sent while the session is lost are dropped, since everything is sent again.

mod admin;
mod callbacks;
mod outage;
mod view;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backon::ExponentialBuilder;
use futures::future::BoxFuture;
use monoceros_client::{
    Client, Ended, Event, Events, Identity, Options, Report, is_lost, reason, si,
};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{ClientTlsConfig, Endpoint};
use tonic::{Code, Status};

use self::admin::Admin;
use self::callbacks::Answers;
use self::outage::Outage;
use super::{Engine, EngineError};
use crate::mirror::with_causes;
use crate::shim::{EngineOrder, Notification, SharedScene};
use crate::translate::Queues;

/// How long later orders wait for the outcome of a configuration. After that they are sent, while
/// the configuration is still being tried.
const CONFIGURES_WITHIN: Duration = Duration::from_secs(5);
/// Shortest and longest pause between two connection attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// Default of a setting of the engine: predicates have to be answered before a pod is placed.
const PREDICATES: (&str, &str) = ("callback.predicates", "required");

/// A scheduler in another process.
#[derive(Clone, Debug)]
pub struct Service {
    /// Address of the service.
    pub endpoint: Endpoint,
    /// TLS of the service and of the other members of its cluster. Each has to prove the host of its
    /// own address.
    pub tls: Option<ClientTlsConfig>,
    /// Value of the `authorization` header, if the service needs one.
    pub authorization: Option<MetadataValue<Ascii>>,
    /// Name of the cluster at the service.
    pub rm_id: String,
    /// Name of this replica.
    pub instance: String,
}

/// An engine in another process.
#[derive(Debug)]
pub struct Remote {
    service: Service,
    /// Identity of all clients, one after the other.
    identity: Identity,
    scene: SharedScene,
    notifications: UnboundedSender<Notification>,
    admin: Admin,
    outage: Arc<Outage>,
    session: Mutex<Option<Session>>,
}

/// A session and its tasks.
#[derive(Debug)]
struct Session {
    client: Client,
    answers: Answers,
    forwarder: JoinHandle<()>,
    /// The task that puts new queues in force.
    configuring: Option<AbortHandle>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.answers.end();
        self.forwarder.abort();
        if let Some(configuring) = &self.configuring {
            configuring.abort();
        }
    }
}

impl Remote {
    /// Makes an engine for the service. Must be called within a tokio runtime.
    pub fn new(
        service: Service,
        scene: SharedScene,
        notifications: UnboundedSender<Notification>,
    ) -> Self {
        let admin = Admin::new(&service);
        let (outage, session) = (Arc::default(), Mutex::new(None));
        let identity = Identity::new();
        Self { service, identity, scene, notifications, admin, outage, session }
    }

    /// Opens a session with these queues, as soon as the service is reached.
    async fn open(&self, queues: &Queues) -> Result<(), Status> {
        // Ends the old session before the next one can act.
        drop(self.session().take());
        let Service { endpoint, tls, authorization, rm_id, instance } = &self.service;
        let outage = &self.outage;
        let answers =
            Answers::new(Arc::clone(&self.scene), self.notifications.clone(), Arc::clone(outage));
        let mut registration = si::RegisterResourceManagerRequest {
            // The queues of other policy groups are not changed.
            policy_group: rm_id.clone(),
            config: queues.yaml.clone(),
            extra_config: extra(queues.extra.clone()),
            ..Default::default()
        };
        env!("CARGO_PKG_VERSION").clone_into(&mut registration.version);
        let (least, most) = PAUSES;
        let pauses = ExponentialBuilder::default()
            .with_min_delay(least)
            .with_max_delay(most)
            .with_factor(1.6)
            .with_jitter()
            .without_max_times();
        let mut options = Options::new(endpoint.clone(), rm_id)
            .registration(registration)
            .identity(self.identity.clone())
            .callbacks(answers.clone())
            .pauses(pauses)
            .once();
        if let Some(tls) = tls {
            let unusable = |error| Status::failed_precondition(format!("TLS: {error}"));
            options = options.tls(tls.clone()).map_err(unusable)?;
        }
        if let Ok(instance) = instance.parse() {
            options = options.instance(instance);
        }
        if let Some(authorization) = authorization {
            options = options.authorization(authorization.clone());
        }
        let (client, mut events) = Client::start(options, Report::default);
        loop {
            match events.next().await {
                Some(Event::Registered { .. }) => break,
                Some(Event::Disconnected(why)) => outage.note(&why),
                Some(Event::Ended(why)) => return Err(why),
                Some(_) => {}
                None => return Err(Status::unavailable(Ended.to_string())),
            }
        }
        outage.is_over();
        let forwarder =
            forward(events, answers.clone(), self.notifications.clone(), Arc::clone(outage));
        let session =
            Session { client, answers, forwarder: tokio::spawn(forwarder), configuring: None };
        *self.session() = Some(session);
        Ok(())
    }

    fn session(&self) -> MutexGuard<'_, Option<Session>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn order(&self, order: EngineOrder) -> Result<(), EngineError> {
        let client = self.session().as_ref().map(|session| session.client.clone());
        let Some(client) = client else {
            return Err(EngineError("it was not registered with".to_owned()));
        };
        let sent = match order {
            EngineOrder::Nodes(nodes) => client.report(nodes).await,
            EngineOrder::Submit(new) => client.submit(new).await,
            EngineOrder::Remove(gone) => client.remove(gone).await,
            EngineOrder::Allocations(all) => client.ask(all).await,
            EngineOrder::Release(all) => client.release(all).await,
            EngineOrder::TryAgain => {
                client.invalidate();
                Ok(())
            }
            EngineOrder::Configure { queues, extra } => {
                self.configure(client, queues, extra).await;
                Ok(())
            }
            EngineOrder::Explain(application, about) => {
                let (admin, notifications) = (self.admin.clone(), self.notifications.clone());
                // Without the client, so that its session can end meanwhile.
                let channel = client.channel();
                tokio::spawn(async move {
                    let entries = admin.explain(channel, &application, about.as_deref()).await;
                    notifications
                        .send(Notification::Explained { application, about, entries })
                        .ok();
                });
                Ok(())
            }
        };
        // The end of the session is reported as a notification.
        sent.or(Ok(()))
    }

    /// Puts new queues in force, and aborts an earlier attempt.
    async fn configure(&self, client: Client, queues: String, all: BTreeMap<String, String>) {
        let (admin, notifications) = (self.admin.clone(), self.notifications.clone());
        let configuring = tokio::spawn(async move {
            let outcome = admin.configure(&client, queues, extra(all)).await;
            notifications.send(Notification::Configured(outcome)).ok();
        });
        if let Some(session) = &mut *self.session() {
            let before = session.configuring.replace(configuring.abort_handle());
            if let Some(before) = before {
                before.abort();
            }
        }
        timeout(CONFIGURES_WITHIN, configuring).await.ok();
    }
}

/// Adds the default of [`PREDICATES`] to the other settings of a configuration.
fn extra(mut extra: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let (key, value) = PREDICATES;
    extra.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    extra
}

/// Passes on the events of a session until it ends.
async fn forward(
    mut events: Events,
    answers: Answers,
    notifications: UnboundedSender<Notification>,
    outage: Arc<Outage>,
) {
    while let Some(event) = events.next().await {
        let notification = match event {
            Event::Disconnected(why) => {
                outage.note(&why);
                continue;
            }
            // A client has one session.
            Event::Registered { .. } => continue,
            Event::Nodes(response) => Notification::Nodes(response),
            Event::Applications(response) => Notification::Applications(response),
            Event::Allocations(response) => {
                answers.received(&response.new);
                Notification::Allocations(response)
            }
            Event::Ended(why) if is_lost(&why) => Notification::Lost(describe_status(&why)),
            Event::Ended(why) => Notification::Ended(describe_status(&why)),
        };
        notifications.send(notification).ok();
    }
}

/// Formats a status with its causes and its reason.
fn describe_status(status: &Status) -> String {
    let message = status.message();
    let text = match std::error::Error::source(status).map(with_causes) {
        // The message was made of the causes.
        Some(causes) if causes.contains(message) => causes,
        Some(causes) => format!("{message}: {causes}"),
        None => message.to_owned(),
    };
    let reason = reason(status).map_or_else(|| format!("{:?}", status.code()), str::to_owned);
    format!("{text} [{reason}]")
}

impl Engine for Remote {
    fn register<'e>(
        &'e self,
        queues: &'e Queues,
    ) -> BoxFuture<'e, Result<Option<String>, EngineError>> {
        Box::pin(async move {
            let failed = |why: Status| EngineError(describe_status(&why));
            let Err(why) = self.open(queues).await else { return Ok(None) };
            let is_refused = why.code() == Code::InvalidArgument && !queues.yaml.is_empty();
            if !is_refused {
                return Err(failed(why));
            }
            let builtin = Queues { yaml: String::new(), ..queues.clone() };
            self.open(&builtin).await.map_err(failed)?;
            Ok(Some(why.message().to_owned()))
        })
    }

    fn send(&self, order: EngineOrder) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(self.order(order))
    }
}
