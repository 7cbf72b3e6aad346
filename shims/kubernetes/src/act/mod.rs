//! What is done at the API server: bindings, evictions, conditions, events.
//!
//! # Invariants
//! * A binding begins only while this process may act: asked right before it is sent.
//! * A binding names the UID of its pod, and goes to a node that is there. What came of it, where that is
//!   not certain, the pod itself says: it is read until it can be.
//! * So many requests are under way at once as are set; of events, what is too much is dropped and counted.

mod bind;
mod evict;
mod tell;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use futures::StreamExt as _;
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::meters::Meters;
use crate::shim::{HandOrder, Outcome, SharedScene};

/// After this long a request counts as lost.
const REQUEST: Duration = Duration::from_secs(10);
/// Evictions under way at once.
const EVICTIONS: usize = 16;
/// Conditions and events under way at once.
const WRITES: usize = 8;
/// Events that wait to be written.
const EVENTS_AHEAD: usize = 1_000;

/// How the hands work.
#[derive(Clone, Debug)]
pub struct HandSettings {
    /// Bindings under way at once.
    pub bindings: usize,
    /// How long an eviction that a budget forbids is tried.
    pub eviction_timeout: Duration,
    /// Then the pod is deleted; else it is tried on.
    pub delete_after_timeout: bool,
    /// Pods are deleted at once, without asking budgets.
    pub delete_at_once: bool,
    /// How long volumes are waited for.
    pub volume_timeout: Duration,
    /// Events in a second, at most.
    pub events_per_second: u32,
}

/// Whether this process may act now.
pub type Right = Arc<dyn Fn() -> bool + Send + Sync>;

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
}

/// Takes orders and sees to it that they are done.
pub struct Hands {
    bindings: UnboundedSender<HandOrder>,
    evictions: UnboundedSender<HandOrder>,
    conditions: UnboundedSender<HandOrder>,
    events: mpsc::Sender<HandOrder>,
    allowance: Mutex<Allowance>,
    meters: Arc<Meters>,
}

/// How many events may still be written now.
struct Allowance {
    rate: u32,
    left: f64,
    at: Instant,
}

impl Allowance {
    fn take(&mut self) -> bool {
        let rate = f64::from(self.rate);
        let now = Instant::now();
        self.left = (self.left + now.duration_since(self.at).as_secs_f64() * rate).min(rate);
        self.at = now;
        let is_there = self.left >= 1.0;
        self.left -= if is_there { 1.0 } else { 0.0 };
        is_there
    }
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
        let (bindings, evictions) = (settings.bindings, EVICTIONS);
        let rate = settings.events_per_second;
        let settings = Arc::new(settings);
        let hand =
            Hand { client, settings, scene, meters: Arc::clone(&meters), right, outcomes, begun };
        let work = |at_once: usize| {
            let (give, mut take) = mpsc::unbounded_channel();
            let hand = hand.clone();
            let orders = futures::stream::poll_fn(move |context| take.poll_recv(context));
            let all = orders.for_each_concurrent(at_once, move |order| hand.clone().obey(order));
            tokio::spawn(stop.clone().run_until_cancelled_owned(all));
            give
        };
        let (give, mut take) = mpsc::channel::<HandOrder>(EVENTS_AHEAD);
        let told = hand.clone();
        let events = futures::stream::poll_fn(move |context| take.poll_recv(context));
        let all = events.for_each_concurrent(WRITES, move |order| told.clone().obey(order));
        tokio::spawn(stop.clone().run_until_cancelled_owned(all));
        Self {
            bindings: work(bindings),
            evictions: work(evictions),
            conditions: work(WRITES),
            events: give,
            allowance: Mutex::new(Allowance { rate, left: f64::from(rate), at: begun }),
            meters,
        }
    }

    /// Begins to do something.
    pub fn take(&self, order: HandOrder) {
        // The other side ends only with the process.
        match &order {
            HandOrder::Bind(_) => drop(self.bindings.send(order)),
            HandOrder::Evict(_) => drop(self.evictions.send(order)),
            HandOrder::Condition(_) | HandOrder::GroupCondition(_) => {
                drop(self.conditions.send(order));
            }
            HandOrder::Event(_) => {
                let may = self.allowance.lock().unwrap_or_else(PoisonError::into_inner).take();
                if !may || self.events.try_send(order).is_err() {
                    self.meters.dropped_events.inc();
                }
            }
        }
    }
}

impl Hand {
    async fn obey(self, order: HandOrder) {
        match order {
            HandOrder::Bind(bind) => self.bind(bind).await,
            HandOrder::Evict(evict) => self.evict(evict).await,
            HandOrder::Condition(condition) => self.tell(&condition).await,
            HandOrder::GroupCondition(condition) => self.tell_group(&condition).await,
            HandOrder::Event(event) => self.say(&event).await,
        }
    }

    fn done(&self, outcome: Outcome) {
        // Nobody listens only when the process ends.
        self.outcomes.send(outcome).ok();
    }

    /// Sends a request, which is answered in time or counts as lost.
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
        match timeout(REQUEST, self.client.request::<T>(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) => Err(Failure::Refused(status.code, status.message)),
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
    /// The server says no, with this status code.
    Refused(u16, String),
    /// Nobody knows what came of it.
    Unknown(String),
}

impl Failure {
    /// Another attempt may do it.
    fn may_pass(&self) -> bool {
        match self {
            Self::Refused(code, _) => *code == 429 || *code >= 500,
            Self::Unknown(_) => true,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(code, why) => write!(f, "{why} ({code})"),
            Self::Unknown(why) => f.write_str(why),
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
        sleep(self.0.next().unwrap_or(Duration::from_secs(5))).await;
    }
}

/// The path of a pod.
fn pod_path(pod: &crate::objects::Pod) -> String {
    use crate::objects::Meta as _;
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace(), pod.name())
}
