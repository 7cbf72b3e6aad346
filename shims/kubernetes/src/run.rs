//! Runs the shim: routes watch events, engine notifications and API outcomes into the [`Shim`], and
//! its orders out.
//!
//! # Invariants
//! * The engine receives nothing before the cluster has been read in full. While another replica
//!   schedules, an engine of this replica's own receives everything except pending pods, and any
//!   other receives nothing.
//! * A replica that has taken the lease asks for no pod before it knows of every binding of the
//!   last leader (`catch_up`).
//! * A lost lease ends the process: another replica may be scheduling, so the state here may be
//!   wrong.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::act::{ApiSettings, ApiWorkers};
use crate::catch_up::newest_version;
use crate::connect::mark_leader;
use crate::engine::{Engine, EngineError};
use crate::leader::{Lead, Leadership};
use crate::meters::Meters;
use crate::mirror::{self, CHANGES_AHEAD, WatchEvent};
use crate::shim::{Notification, SharedScene, Shim};
use crate::translate::{Mapping, Queues};

/// Most items taken from one channel before the others have their turn.
const AT_ONCE: usize = 1_000;
/// Shortest pause between two ticks of the shim.
const TICK: Duration = Duration::from_millis(100);
/// Pause between two updates of the gauges.
const COUNT: Duration = Duration::from_secs(5);

/// Settings of the shim.
#[derive(Clone, Debug)]
pub struct Options {
    /// Namespace of the lease and of the ConfigMaps.
    pub namespace: String,
    /// Name of the lease that elects one of several replicas. `None` if there is only one.
    pub lease: Option<String>,
    /// Name of this replica in the lease.
    pub identity: String,
    /// The pod that this process runs in, which is labelled while it leads. `None` outside of the
    /// cluster.
    pub pod: Option<String>,
    /// Time until an unrenewed lease expires.
    pub lease_duration: Duration,
    /// Rules by which labels and annotations are read.
    pub mapping: Mapping,
    /// Settings of the work at the API server.
    pub api: ApiSettings,
    /// Most conditions written in a second.
    pub conditions_per_second: u32,
}

/// Role of this replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReplicaState {
    /// The cluster has not been read in full.
    #[default]
    Reading,
    /// Another replica schedules. Holds its name if it is known.
    Standby(Option<String>),
    /// This replica schedules.
    Leads,
}

/// Why the shim ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// This replica no longer holds the lease.
    #[error(
        "the lease is not held any more: another replica has it, or it could not be renewed in time"
    )]
    LeaseLost,
    /// The engine has failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A task has panicked.
    #[error("a part of the shim has ended by itself")]
    Broken,
}

/// Schedules the pods of a cluster until `stop`. `engine` makes the engine, from the scene that its
/// predicates read and the channel for its notifications.
pub async fn run<E: Engine>(
    client: Client,
    options: Options,
    meters: Arc<Meters>,
    state: watch::Sender<ReplicaState>,
    stop: CancellationToken,
    engine: impl FnOnce(SharedScene, UnboundedSender<Notification>) -> E,
) -> Result<(), RunError> {
    let scene = SharedScene::default();
    let (notify, notifications) = mpsc::unbounded_channel();
    let engine = engine(Arc::clone(&scene), notify);
    let lease = options.lease.as_deref().map(|name| {
        let Options { namespace, identity, lease_duration, .. } = &options;
        Leadership::new(client.clone(), namespace, name, identity, *lease_duration)
    });
    let lease_right = lease.clone();
    let right = Arc::new(move || {
        let lease = lease_right.as_ref();
        lease.map_or(Some(Duration::MAX), |lease| lease.may_act_for())
    });
    let begun = Instant::now();
    // Ends all tasks started here, also when this function returns by itself.
    let own_stop = stop.child_token();
    let _guard = own_stop.clone().drop_guard();
    let (report, outcomes) = mpsc::unbounded_channel();
    let workers = ApiWorkers::start(
        client.clone(),
        options.api,
        Arc::clone(&scene),
        Arc::clone(&meters),
        right,
        report,
        begun,
        &own_stop,
    );
    if let Some(pod) = options.pod {
        let (client, namespace) = (client.clone(), options.namespace.clone());
        tokio::spawn(mark_leader(client, namespace, pod, state.subscribe()));
    }
    let (watch, watch_events) = mpsc::channel(CHANGES_AHEAD);
    let (awaits, awaited) = watch::channel(None);
    let kinds = mirror::follow(&client, &options.namespace, &watch, awaited, &own_stop);
    let mut shim =
        Shim::new(options.mapping, scene, Arc::clone(&meters), options.conditions_per_second);
    let own_meters = Arc::clone(&meters);
    let (counted, ticked) = (begun, begun);
    let (lead, holding) = (lease.as_ref().map(|lease| lease.lead()), None);
    let lost = lost(lead.clone());
    let broken = workers.broken();
    shim.count_nodes(engine.reads_node_results());
    let mut run = Run {
        shim,
        engine,
        workers,
        meters: own_meters,
        begun,
        notifications,
        counted,
        ticked,
        has_session: false,
        leads: false,
        lease,
        holding,
        client,
        awaits,
        own_stop,
    };
    let ended = tokio::select! {
        // Ends even while the scheduler cannot be reached.
        () = stop.cancelled() => Ok(()),
        () = lost => Err(RunError::LeaseLost),
        () = broken.cancelled() => Err(RunError::Broken),
        ended = run.until_end(watch_events, outcomes, kinds, lead, &state, &stop) => ended,
    };
    meters.leads.set(0);
    match run.holding.take() {
        // Waits until the lease is released.
        Some(holding) if ended.is_ok() => holding.await.map_err(|_| RunError::Broken),
        _ => ended,
    }
}

struct Run<E> {
    shim: Shim,
    engine: E,
    workers: ApiWorkers,
    meters: Arc<Meters>,
    begun: Instant,
    notifications: UnboundedReceiver<Notification>,
    counted: Instant,
    ticked: Instant,
    /// Whether the engine has been sent the cluster.
    has_session: bool,
    leads: bool,
    lease: Option<Arc<Leadership>>,
    /// The task that renews the lease.
    holding: Option<JoinHandle<()>>,
    client: Client,
    /// The version of pods that has to be reached before this replica leads.
    awaits: watch::Sender<Option<u64>>,
    /// Ends the tasks of the run.
    own_stop: CancellationToken,
}

impl<E: Engine> Run<E> {
    #[allow(clippy::too_many_arguments)] // Channels, each read here and nowhere else.
    async fn until_end(
        &mut self,
        mut watch_events: mpsc::Receiver<WatchEvent>,
        mut outcomes: UnboundedReceiver<crate::shim::Outcome>,
        kinds: usize,
        mut lead: Option<watch::Receiver<Lead>>,
        state: &watch::Sender<ReplicaState>,
        stop: &CancellationToken,
    ) -> Result<(), RunError> {
        let mut missing = kinds;
        let (mut changes, mut notifications, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let next = self.next_tick();
            tokio::select! {
                n = watch_events.recv_many(&mut changes, AT_ONCE) => if n == 0 { return ended(stop) },
                n = outcomes.recv_many(&mut ends, AT_ONCE) => if n == 0 { return ended(stop) },
                n = self.notifications.recv_many(&mut notifications, AT_ONCE) => if n == 0 { return ended(stop) },
                now = next_lead(lead.as_mut()) => {
                    match now {
                        Lead::Own => self.catch_up(state),
                        // `lost`, awaited beside this loop, ends the run.
                        Lead::Lost => {}
                        Lead::Other(leader) => {
                            state.send_replace(ReplicaState::Standby(leader));
                        }
                    }
                }
                // Placements of earlier turns go first.
                () = std::future::ready(()), if self.shim.has_more() && self.notifications.is_empty() => {}
                () = sleep_until(next.unwrap_or(self.begun)), if next.is_some() => {
                    self.ticked = Instant::now();
                    let now = self.now();
                    self.shim.tick(now);
                }
            }
            let now = self.now();
            let mut has_caught_up = false;
            for event in changes.drain(..) {
                match event {
                    WatchEvent::Change(change) => self.shim.change(change, now),
                    WatchEvent::Synced(_) => missing = missing.saturating_sub(1),
                    WatchEvent::CaughtUp => has_caught_up = true,
                }
            }
            if has_caught_up {
                self.lead(state).await?;
            }
            if missing == 0 && *state.borrow() == ReplicaState::Reading {
                info!("the cluster has been read");
                if let Some(lease) = &self.lease {
                    state.send_replace(ReplicaState::Standby(None));
                    let lease = Arc::clone(lease);
                    if self.engine.is_exclusive() {
                        self.begin().await?;
                    }
                    self.holding = Some(tokio::spawn(lease.hold(stop.clone())));
                } else {
                    self.lead(state).await?;
                }
            }
            if let Some(cause) = notifications.iter().find_map(loss) {
                warn!(cause, "the scheduler has lost what it knew, and is told everything again");
                // Anything else from the lost session is void.
                notifications.clear();
                self.begin().await?;
            }
            for notification in notifications.drain(..) {
                if let Notification::Ended(why) = notification {
                    return Err(RunError::Engine(EngineError(why)));
                }
                self.shim.receive(notification, now);
            }
            for outcome in ends.drain(..) {
                self.shim.done(outcome, now);
            }
            self.pass_on().await?;
        }
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn next_tick(&self) -> Option<Instant> {
        let due = self.shim.next_tick().filter(|_| self.has_session)?;
        Some((self.begun + due).max(self.ticked + TICK))
    }

    /// Waits for every binding of the last leader, with the lease in hand.
    fn catch_up(&self, state: &watch::Sender<ReplicaState>) {
        let (client, awaits, state) = (self.client.clone(), self.awaits.clone(), state.clone());
        let ask = async move {
            awaits.send_replace(Some(newest_version(&client).await));
            // The label of the own pod is a change of a pod, after which all earlier ones are known.
            state.send_replace(ReplicaState::Leads);
        };
        tokio::spawn(self.own_stop.clone().run_until_cancelled_owned(ask));
    }

    /// Starts to schedule.
    async fn lead(&mut self, state: &watch::Sender<ReplicaState>) -> Result<(), RunError> {
        self.leads = true;
        if self.has_session {
            let now = self.now();
            self.shim.lead(now);
            self.pass_on().await?;
        } else {
            self.begin().await?;
        }
        self.meters.leads.set(1);
        state.send_replace(ReplicaState::Leads);
        Ok(())
    }

    /// Sends the whole cluster to a new session of the engine, without what is pending while
    /// another replica leads.
    async fn begin(&mut self) -> Result<(), RunError> {
        let (queues, unreadable) = self.shim.queues();
        let refused = loop {
            let refused = self.register(&queues).await?;
            // The notifications received until now are dropped, since they may be of an earlier
            // session. If one reports a loss, it may be that of this session, so a new one is
            // opened.
            let later = std::iter::from_fn(|| self.notifications.try_recv().ok());
            if !later.fold(false, |is_lost, notification| is_lost | loss(&notification).is_some()) {
                break refused;
            }
        };
        let now = self.now();
        if self.leads {
            self.shim.begin(now);
        } else {
            self.shim.stand_by(now);
        }
        self.has_session = true;
        if let Some(why) = unreadable.or(refused) {
            self.shim.receive(Notification::Configured(Err(why)), now);
        }
        self.pass_on().await
    }

    /// Opens a session while this replica may act, since it may replace that of another replica. A
    /// standby replica has an engine of its own.
    async fn register(&self, queues: &Queues) -> Result<Option<String>, EngineError> {
        if !self.leads {
            return self.engine.register(queues).await;
        }
        loop {
            self.until_it_may_act(true).await;
            tokio::select! {
                refused = self.engine.register(queues) => return refused,
                () = self.until_it_may_act(false) => {}
            }
        }
    }

    /// Waits until [`Leadership::may_act`] of this replica equals `whether`.
    async fn until_it_may_act(&self, whether: bool) {
        while self.lease.as_ref().is_none_or(|lease| lease.may_act()) != whether {
            sleep(TICK).await;
        }
    }

    async fn pass_on(&mut self) -> Result<(), RunError> {
        for order in self.shim.engine_orders(self.now()) {
            self.engine.send(order).await?;
        }
        for order in self.shim.api_orders() {
            self.workers.queue(order);
        }
        if self.counted.elapsed() >= COUNT {
            self.counted = Instant::now();
            self.shim.count();
        }
        Ok(())
    }
}

/// Returns the result when a channel has closed: an error unless `stop` was requested.
fn ended(stop: &CancellationToken) -> Result<(), RunError> {
    if stop.is_cancelled() { Ok(()) } else { Err(RunError::Broken) }
}

/// Returns why the engine has lost its state, if the notification says so.
fn loss(notification: &Notification) -> Option<&str> {
    match notification {
        Notification::Lost(cause) => Some(cause),
        _ => None,
    }
}

/// Waits until the lease is lost. Never returns without a lease.
async fn lost(mut lead: Option<watch::Receiver<Lead>>) {
    while next_lead(lead.as_mut()).await != Lead::Lost {}
}

/// Waits for the next change of the leader. Never returns without a lease.
async fn next_lead(lead: Option<&mut watch::Receiver<Lead>>) -> Lead {
    let Some(lead) = lead else { return std::future::pending().await };
    match lead.changed().await {
        Ok(()) => lead.borrow_and_update().clone(),
        // The lease task has ended and reports no more changes.
        Err(_) => std::future::pending().await,
    }
}
