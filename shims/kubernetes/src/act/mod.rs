//! What is done at the API server: bindings, evictions, conditions, events.
//!
//! # Invariants
//! * A write begins only while this process may act: asked right before it is sent. What has not been
//!   answered when that is over is dropped, so that nothing leaves later, as after a connection that took
//!   long; nobody knows what came of it.
//! * A binding names the UID of its pod, and goes to a node that is there. What came of it, where that is
//!   not certain, the pod itself says: it is read until it can be.
//! * An eviction goes on only while whoever has ordered it wants it.
//! * So many requests are under way at once as are set; of events, those that matter least are dropped where there are
//!   too many, and counted.
//! * A panic is not silent: orders would be taken and nothing done.
//! * Who waits for something else than an answer (for volumes, for a budget) keeps nobody from working.

mod bind;
mod complaints;
mod events;
mod evict;
mod tell;
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

use self::complaints::{Call, Complaints};
use self::events::Events;
use crate::meters::Meters;
use crate::shim::{HandOrder, Outcome, SharedScene};

/// After this long a request counts as lost.
const REQUEST: Duration = Duration::from_secs(10);
/// Requests of evictions under way at once.
const EVICTIONS: usize = 16;
/// Writes of claims and volumes under way at once.
const VOLUMES: usize = 16;
/// Conditions and events under way at once.
const WRITES: usize = 8;

/// Why a pod is not bound that the scheduler has called back.
const CALLED_OFF: &str = "the pod is to make room";

/// Why nothing is done any more.
const NO_RIGHT: &str = "this replica does not lead any more";

/// How the hands work.
#[derive(Clone, Debug)]
pub struct HandSettings {
    /// Bindings under way at once.
    pub bindings: usize,
    /// How pods are made to go.
    pub victims: Victims,
    /// How long an eviction that a budget forbids is tried.
    pub eviction_timeout: Duration,
    /// How long volumes are waited for.
    pub volume_timeout: Duration,
    /// Events in a second, at most.
    pub events_per_second: u32,
}

/// How pods are made to go that have to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victims {
    /// By eviction, and by deletion when that has not worked in time.
    EvictThenDelete,
    /// By eviction; whom that has not worked for in time stays.
    EvictThenGiveBack,
    /// By eviction, however long that takes.
    Evict,
    /// By deletion at once: budgets are not asked.
    Delete,
}

/// For how long this process may act from now on, unless that is prolonged; none where it may not.
pub type Right = Arc<dyn Fn() -> Option<Duration> + Send + Sync>;

/// What all work needs.
#[derive(Clone)]
struct Hand {
    client: Client,
    settings: Arc<HandSettings>,
    scene: SharedScene,
    meters: Arc<Meters>,
    right: Right,
    outcomes: UnboundedSender<Outcome>,
    begun: Instant,
    lanes: Arc<Lanes>,
    complaints: Arc<Complaints>,
}

/// How many requests of work that waits in between are under way.
struct Lanes {
    evictions: Semaphore,
    volumes: Semaphore,
}

/// Takes orders and sees to it that they are done.
pub struct Hands {
    bindings: UnboundedSender<HandOrder>,
    /// Bindings of pods that need volumes first.
    volumes: UnboundedSender<HandOrder>,
    evictions: UnboundedSender<HandOrder>,
    conditions: UnboundedSender<HandOrder>,
    events: Arc<Events>,
    broken: CancellationToken,
}

impl fmt::Debug for Hands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hands").finish_non_exhaustive()
    }
}

impl Hands {
    /// Hands that work until `stop`; what becomes of an order is told through `outcomes`. Times are those
    /// since `begun`.
    #[allow(clippy::too_many_arguments)] // Each is a thing of its own, and they meet nowhere else.
    pub fn start(
        client: Client,
        settings: HandSettings,
        scene: SharedScene,
        meters: Arc<Meters>,
        right: Right,
        outcomes: UnboundedSender<Outcome>,
        begun: Instant,
        stop: &CancellationToken,
    ) -> Self {
        let (bindings, rate) = (settings.bindings, settings.events_per_second);
        let events = Arc::new(Events::new(rate, meters.dropped_events.clone()));
        let hand = Hand {
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
            complaints: Arc::default(),
        };
        let broken = CancellationToken::new();
        let work = |at_once: Option<usize>, to_bind: Option<UnboundedSender<HandOrder>>| {
            let (give, mut take) = mpsc::unbounded_channel();
            let hand = hand.clone();
            let orders = futures::stream::poll_fn(move |context| take.poll_recv(context));
            let all = orders.for_each_concurrent(at_once, move |order| {
                hand.clone().obey(order, to_bind.clone())
            });
            keep_working(all, stop, &broken);
            give
        };
        for _ in 0..WRITES {
            let (hand, events) = (hand.clone(), Arc::clone(&events));
            let all = async move {
                loop {
                    let waiting = events.next().await;
                    if !hand.say(&waiting.event, waiting.at).await {
                        events.put_back(waiting);
                    }
                }
            };
            keep_working(all, stop, &broken);
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

    /// Cancelled when some hands have panicked: what is ordered of them is not done any more.
    pub fn broken(&self) -> CancellationToken {
        self.broken.clone()
    }

    /// Begins to do something.
    pub fn take(&self, order: HandOrder) {
        let hands = match &order {
            HandOrder::Bind(bind) if bind.pod.claims().next().is_some() => &self.volumes,
            HandOrder::Bind(_) => &self.bindings,
            HandOrder::Evict(_) => &self.evictions,
            HandOrder::Condition(_) | HandOrder::GroupCondition(_) => &self.conditions,
            HandOrder::Event(event) => return self.events.put(event.clone()),
        };
        // The other side ends only with the process.
        drop(hands.send(order));
    }
}

/// Has some work go on until `stop`. Where it panics the log says so, and `broken` is cancelled.
fn keep_working(
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

impl Hand {
    /// Does what is ordered. Where a binding waits for volumes it is handed on afterwards, to be one of those
    /// that are under way.
    async fn obey(self, order: HandOrder, to_bind: Option<UnboundedSender<HandOrder>>) {
        match order {
            HandOrder::Bind(bind) => match to_bind {
                None => self.bind(&bind).await,
                Some(to_bind) => {
                    let provided = bind.called_off.run_until_cancelled(self.provide(&bind)).await;
                    match provided.unwrap_or_else(|| Err(CALLED_OFF.to_owned())) {
                        // The other side ends only with the process.
                        Ok(()) => drop(to_bind.send(HandOrder::Bind(bind))),
                        Err(why) => self.done(Outcome::NotBound(bind.key, why)),
                    }
                }
            },
            HandOrder::Evict(evict) => {
                let called_off = evict.called_off.clone();
                called_off.run_until_cancelled(self.evict(evict)).await;
            }
            HandOrder::Condition(condition) => self.tell(&condition).await,
            HandOrder::GroupCondition(condition) => self.tell_group(&condition).await,
            // These have their own queue.
            HandOrder::Event(_) => {}
        }
    }

    fn done(&self, outcome: Outcome) {
        // Nobody listens only when the process ends.
        self.outcomes.send(outcome).ok();
    }

    /// Tells the log what the API server refuses, unless that is nothing to be told, or was told lately.
    fn complain(&self, call: Call, path: &str, failure: &Failure) {
        let is_usual =
            matches!(failure, Failure::Refused(404 | 409, _) | Failure::NamespaceGoing(_));
        if !is_usual && let Some(left_out) = self.complaints.take(call, Instant::now()) {
            // The log tells lines of one place apart by this field: others of this second are written, too.
            let kind = call;
            tracing::warn!(%kind, path, %failure, left_out, "the API server does not do something");
        }
    }

    fn may_act(&self) -> bool {
        (self.right)().is_some()
    }

    /// Goes on with some work as long as this process may act, which is looked at before each step of it:
    /// a machine may have slept in between. None where that was over first.
    async fn while_it_may<T>(&self, work: impl Future<Output = T>) -> Option<T> {
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

    /// Sends a request, which is answered in time or counts as lost. What it would change is changed only
    /// while this process may act.
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
            let answered = self.while_it_may(sent).await;
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

/// Why a request did not do what it was for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Failure {
    /// The server says no, with this status code; 0 for what is no answer of it and as certain.
    Refused(u16, String),
    /// The server says no, because the namespace is being deleted.
    NamespaceGoing(String),
    /// Nobody knows what came of it.
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

    /// Another attempt may do it.
    fn may_pass(&self) -> bool {
        match self {
            Self::Refused(code, _) => *code == 429 || *code >= 500,
            Self::NamespaceGoing(_) => false,
            Self::Unknown(_) => true,
        }
    }

    /// Nothing came of it, and trying at once would be the same.
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

/// Waits for ever longer times, up to a few seconds, without end.
struct Patience(Box<dyn Iterator<Item = Duration> + Send>);

impl Patience {
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

    /// Waits, and not beyond `until` unless that is over.
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
