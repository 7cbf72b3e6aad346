//! Work at the API server: bindings, evictions, conditions, events.
//!
//! # Invariants
//! * A write begins only while this process may act, which is checked right before it is sent. An
//!   unanswered request is dropped when that right ends, so that nothing is sent later, for
//!   instance after a slow connect. Its outcome is then unknown.
//! * A binding names the UID of its pod and goes to an existing node. If its outcome is unknown,
//!   the pod is read until the server answers.
//! * An eviction continues only until its order is cancelled.
//! * Each kind of work has a limit of requests in flight. Events beyond theirs are dropped and
//!   counted, the least important first.
//! * A panic of a worker ends the process; otherwise orders would be accepted and never carried
//!   out.
//! * Work that waits for volumes or a budget, and not for a response, does not hold up other
//!   work.

mod bind;
mod conditions;
mod events;
mod evict;
mod failure_log;
mod volumes;

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use futures::StreamExt as _;
use kube::Client;
use kube::core::Status;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::events::Events;
use self::failure_log::{Call, FailureLog};
use crate::meters::Meters;
use crate::shim::{ApiOrder, Outcome, SharedScene};

/// Timeout of a request.
const REQUEST: Duration = Duration::from_secs(10);
/// Most eviction requests in flight.
const EVICTIONS: usize = 16;
/// Most writes of claims and volumes in flight.
const VOLUMES: usize = 16;
/// Most writes of conditions in flight, and of events.
const WRITES: usize = 8;

/// Outcome of a binding whose pod became a victim.
const CALLED_OFF: &str = "the pod is to make room";

/// Outcome of work after the lease was lost.
const NO_RIGHT: &str = "this replica does not lead any more";

/// Settings of the work at the API server.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// Most bindings in flight.
    pub bindings: usize,
    /// How victims are removed.
    pub victims: Victims,
    /// How long an eviction that a budget forbids is retried.
    pub eviction_timeout: Duration,
    /// How long a pod waits for its volumes.
    pub volume_timeout: Duration,
    /// Most events written in a second.
    pub events_per_second: u32,
}

/// The ways to remove victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victims {
    /// By eviction, and by deletion if that has not worked in time.
    EvictThenDelete,
    /// By eviction. A victim that could not be evicted in time stays, and the engine is
    /// notified.
    EvictThenGiveBack,
    /// By eviction, without a time limit.
    Evict,
    /// By deletion at once. Budgets are ignored.
    Delete,
}

/// Returns how long this process may act unless the lease is renewed. `None` if it may not.
pub type Right = Arc<dyn Fn() -> Option<Duration> + Send + Sync>;

/// The state that all workers share.
#[derive(Clone)]
struct ApiWorker {
    client: Client,
    settings: Arc<ApiSettings>,
    scene: SharedScene,
    meters: Arc<Meters>,
    right: Right,
    outcomes: UnboundedSender<Outcome>,
    begun: Instant,
    lanes: Arc<Lanes>,
    failure_log: Arc<FailureLog>,
}

/// Limits of requests in flight, for kinds of work that pause between their requests.
struct Lanes {
    evictions: Semaphore,
    volumes: Semaphore,
}

/// Accepts orders and carries them out.
pub struct ApiWorkers {
    bindings: UnboundedSender<ApiOrder>,
    /// Bindings of pods with claims, which need volumes first.
    volumes: UnboundedSender<ApiOrder>,
    evictions: UnboundedSender<ApiOrder>,
    conditions: UnboundedSender<ApiOrder>,
    events: Arc<Events>,
    broken: CancellationToken,
}

impl fmt::Debug for ApiWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiWorkers").finish_non_exhaustive()
    }
}

impl ApiWorkers {
    /// Starts workers that run until `stop` and report through `outcomes`. Times of orders are
    /// relative to `begun`.
    #[allow(clippy::too_many_arguments)] // Each is a thing of its own, and they meet nowhere else.
    pub fn start(
        client: Client,
        settings: ApiSettings,
        scene: SharedScene,
        meters: Arc<Meters>,
        right: Right,
        outcomes: UnboundedSender<Outcome>,
        begun: Instant,
        stop: &CancellationToken,
    ) -> Self {
        let (bindings, rate) = (settings.bindings, settings.events_per_second);
        let events = Arc::new(Events::new(rate, meters.dropped_events.clone()));
        let worker = ApiWorker {
            client,
            settings: Arc::new(settings),
            scene,
            meters,
            right,
            outcomes,
            begun,
            lanes: Arc::new(Lanes {
                evictions: Semaphore::new(EVICTIONS),
                volumes: Semaphore::new(VOLUMES),
            }),
            failure_log: Arc::default(),
        };
        let broken = CancellationToken::new();
        let work = |at_once: Option<usize>, to_bind: Option<UnboundedSender<ApiOrder>>| {
            let (give, mut take) = mpsc::unbounded_channel();
            let worker = worker.clone();
            let orders = futures::stream::poll_fn(move |context| take.poll_recv(context));
            let all = orders.for_each_concurrent(at_once, move |order| {
                worker.clone().carry_out(order, to_bind.clone())
            });
            spawn_worker(all, stop, &broken);
            give
        };
        for _ in 0..WRITES {
            let (worker, events) = (worker.clone(), Arc::clone(&events));
            let all = async move {
                loop {
                    let waiting = events.next().await;
                    if !worker.write_event(&waiting.event, waiting.at).await {
                        events.put_back(waiting);
                    }
                }
            };
            spawn_worker(all, stop, &broken);
        }
        let bindings = work(Some(bindings), None);
        Self {
            volumes: work(None, Some(bindings.clone())),
            bindings,
            evictions: work(None, None),
            conditions: work(Some(WRITES), None),
            events,
            broken,
        }
    }

    /// Returns a token that is cancelled when a worker has panicked. The orders of that worker are
    /// no longer carried out.
    pub fn broken(&self) -> CancellationToken {
        self.broken.clone()
    }

    /// Queues an order.
    pub fn queue(&self, order: ApiOrder) {
        let workers = match order {
            ApiOrder::Event(event) => return self.events.put(event),
            ApiOrder::Bind(ref bind) if bind.pod.claims().next().is_some() => &self.volumes,
            ApiOrder::Bind(_) => &self.bindings,
            ApiOrder::Evict(_) => &self.evictions,
            ApiOrder::Condition(_) | ApiOrder::GroupCondition(_) => &self.conditions,
        };
        // The receiver ends only with the process.
        drop(workers.send(order));
    }
}

/// Runs a worker until `stop`. If it panics, logs that and cancels `broken`.
fn spawn_worker(
    work: impl Future<Output = ()> + Send + 'static,
    stop: &CancellationToken,
    broken: &CancellationToken,
) {
    let task = tokio::spawn(stop.clone().run_until_cancelled_owned(work));
    let broken = broken.clone();
    tokio::spawn(async move {
        if let Err(why) = task.await
            && why.is_panic()
        {
            tracing::error!(%why, "work at the API server has panicked, so this process ends");
            broken.cancel();
        }
    });
}

impl ApiWorker {
    /// Carries out an order. A binding whose volumes are ready goes through `to_bind`, to count
    /// among the bindings in flight.
    async fn carry_out(self, order: ApiOrder, to_bind: Option<UnboundedSender<ApiOrder>>) {
        match order {
            ApiOrder::Bind(bind) => match to_bind {
                None => self.bind(&bind).await,
                Some(to_bind) => {
                    let provided = bind.called_off.run_until_cancelled(self.provide(&bind)).await;
                    match provided.unwrap_or_else(|| Err(CALLED_OFF.to_owned())) {
                        // The receiver ends only with the process.
                        Ok(()) => drop(to_bind.send(ApiOrder::Bind(bind))),
                        Err(why) => self.done(Outcome::NotBound(bind.key, why)),
                    }
                }
            },
            ApiOrder::Evict(evict) => {
                let called_off = evict.called_off.clone();
                called_off.run_until_cancelled(self.evict(evict)).await;
            }
            ApiOrder::Condition(condition) => self.write_condition(&condition).await,
            ApiOrder::GroupCondition(condition) => self.write_group_condition(&condition).await,
            // Events have their own queue.
            ApiOrder::Event(_) => {}
        }
    }

    fn done(&self, outcome: Outcome) {
        // The receiver is dropped only when the process ends.
        self.outcomes.send(outcome).ok();
    }

    /// Logs a failed request, unless the failure is usual or was logged within the last minute.
    fn log_failure(&self, call: Call, path: &str, failure: &Failure) {
        let is_usual =
            matches!(failure, Failure::Refused(404 | 409, _) | Failure::NamespaceGoing(_));
        if !is_usual && let Some(left_out) = self.failure_log.take(call, Instant::now()) {
            // The limit of the log keeps lines apart by this field, so others of this second are
            // written too.
            let kind = call;
            tracing::warn!(%kind, path, %failure, left_out, "the API server does not do something");
        }
    }

    fn may_act(&self) -> bool {
        (self.right)().is_some()
    }

    /// Runs some work while this process may act. Checks that before each poll, since the machine
    /// may have slept in between. `None` if the right ended first.
    async fn while_permitted<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            let left = (self.right)()?;
            let steps = poll_fn(|context| {
                if self.may_act() {
                    work.as_mut().poll(context).map(Some)
                } else {
                    Poll::Ready(None)
                }
            });
            if let Ok(done) = timeout(left, steps).await {
                return done;
            }
        }
    }

    /// Sends a request with a timeout. A request that changes something is sent only while this
    /// process may act.
    async fn send<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<T, Failure> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, content_type)
            .body(body)
            .map_err(|why| Failure::Refused(0, why.to_string()))?;
        let sent = timeout(REQUEST, self.client.request::<T>(request));
        let answered = if method == "GET" {
            sent.await
        } else {
            let answered = self.while_permitted(sent).await;
            answered.ok_or_else(|| Failure::Unknown(NO_RIGHT.to_owned()))?
        };
        match answered {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) => Err(Failure::of(*status)),
            Ok(Err(why)) => Err(Failure::Unknown(why.to_string())),
            Err(_) => Err(Failure::Unknown(format!("no answer within {REQUEST:?}"))),
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.send("GET", path, "application/json", Vec::new()).await
    }
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Failure {
    /// Refused by the server with this status code. 0 if the request changed nothing for another
    /// reason: it could not be built, or a later read found the pod unchanged.
    Refused(u16, String),
    /// Refused because the namespace is being deleted.
    NamespaceGoing(String),
    /// The outcome is unknown.
    Unknown(String),
}

impl Failure {
    fn of(status: Status) -> Self {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let is_going = causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating");
        if is_going {
            Self::NamespaceGoing(status.message)
        } else {
            Self::Refused(status.code, status.message)
        }
    }

    /// Returns whether another attempt may succeed.
    fn may_pass(&self) -> bool {
        match self {
            Self::Refused(code, _) => *code == 429 || *code >= 500,
            Self::NamespaceGoing(_) => false,
            Self::Unknown(_) => true,
        }
    }

    /// Returns whether nothing has changed and a repeat at once would fail too.
    fn is_certain(&self) -> bool {
        match self {
            Self::Refused(code, _) => *code != 409 && *code < 500,
            Self::NamespaceGoing(_) => true,
            Self::Unknown(_) => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(code, why) if *code > 0 => write!(f, "{why} ({code})"),
            Self::Refused(_, why) | Self::NamespaceGoing(why) | Self::Unknown(why) => {
                f.write_str(why)
            }
        }
    }
}

/// Endless growing pauses of up to 5 seconds.
struct Pauses(Box<dyn Iterator<Item = Duration> + Send>);

impl Pauses {
    fn new() -> Self {
        let all = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(Duration::from_secs(5))
            .with_jitter()
            .without_max_times();
        Self(Box::new(all.build()))
    }

    async fn wait(&mut self) {
        sleep(self.next()).await;
    }

    /// Waits for the next pause, at most until `until` if that is still ahead.
    async fn wait_until(&mut self, until: Instant) {
        let (pause, left) = (self.next(), until.saturating_duration_since(Instant::now()));
        sleep(if left.is_zero() { pause } else { pause.min(left) }).await;
    }

    fn next(&mut self) -> Duration {
        self.0.next().unwrap_or(Duration::from_secs(5))
    }
}

/// The path of a pod.
fn pod_path(pod: &crate::objects::Pod) -> String {
    use crate::objects::Meta as _;
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace(), pod.name())
}
