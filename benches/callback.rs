//! Cost of remote predicates: one shim on loopback that answers at once.
//!
//! `cargo bench --bench callback`, or with some of `trip`, `rate`, `scope`, `stalled` after `--`.
//! The service is the `monoceros` binary in its own process. RM and shim run here, on separate
//! connections. A round trip is from an ask to its allocation.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small positive numbers"
)]

mod aims;
mod allocator;
mod service;

use std::collections::HashMap;
use std::time::Duration;

use monoceros::grpc::stubs::v1::callback_service_client::CallbackServiceClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;
use monoceros_proto::v1::shim_message::Body as Said;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;

use crate::aims::at_least;
use service::{Service, resource};

const NODES: usize = 1_000;
/// Asks of a rate measurement, in messages of [`BATCH`].
const ASKS: usize = 30_000;
const BATCH: usize = 1_000;
/// Asks of a measurement of round trips.
const TRIPS: usize = 3_000;
const IN_FLIGHT: [usize; 4] = [1, 8, 64, 512];
const QUEUES: &str =
    "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]";

/// The topic of all containers, and the topic of containers whose rules concern others.
const ALL: u64 = 1;
const RULES: u64 = 2;

/// Runs of each line of the table of scopes, which shows the median.
const RUNS: usize = 5;
/// Asks of a run whose placements settle one after another.
const FEW_ASKS: usize = 6_000;

/// How predicates are called.
#[derive(Clone, Copy)]
enum Asked {
    /// Predicates are not called.
    Never,
    /// Predicates are called for at most this many placements at a time, by a shim of this kind.
    Remote { in_flight: usize, kind: Kind },
}

/// A shim's view of the cluster, and the scopes of its answers.
#[derive(Clone, Copy)]
enum Kind {
    /// The shim keeps no view, so its answers depend on everything.
    Blind,
    /// The shim assumes requests with its answers.
    Assumes,
    /// The shim assumes requests only when notified, and confirms them. Its answers have this scope.
    Confirms(cb::Scope),
    /// As `Confirms`, with answers that depend on the topology and state how: containers without
    /// rules affect only those with rules, except every n-th container, which must be alone in its
    /// domain.
    SaysElsewhere { one_in: usize },
    /// As `Confirms`, where each container keeps apart from the containers of its own group. There
    /// are this many groups.
    Groups { groups: u64 },
}

impl Kind {
    /// Whether it only assumes requests when notified, and confirms them.
    fn confirms(self) -> bool {
        !matches!(self, Kind::Blind | Kind::Assumes)
    }

    /// Returns the scopes of its answer about this request.
    fn scope(self, key: &str) -> (cb::Scope, Option<cb::Elsewhere>) {
        let number: u64 = key.parse().unwrap();
        let (depends_on, affects) = match self {
            Kind::Assumes => return (cb::Scope::Node, None),
            Kind::Blind => return (cb::Scope::Topology, None),
            Kind::Confirms(scope) => return (scope, None),
            Kind::SaysElsewhere { one_in }
                if one_in > 0 && number.is_multiple_of(one_in as u64) =>
            {
                (vec![ALL, RULES], vec![ALL, RULES])
            }
            Kind::SaysElsewhere { .. } => (vec![RULES], vec![ALL]),
            Kind::Groups { groups } => (vec![number % groups], vec![number % groups]),
        };
        (cb::Scope::Topology, Some(cb::Elsewhere { depends_on, affects }))
    }
}

/// A resource manager with nodes and one application.
struct Rm {
    id: &'static str,
    requests: mpsc::Sender<si::AllocationRequest>,
    answers: Streaming<si::AllocationResponse>,
    _shim: Option<mpsc::Sender<cb::ShimMessage>>,
}

impl Rm {
    /// Registers, attaches a shim that answers (or does not), and reports nodes and application.
    async fn start(service: &Service, id: &'static str, asked: Asked, answers: bool) -> Self {
        let mut client = service.client().await;
        let predicates = match asked {
            Asked::Never => "none",
            Asked::Remote { .. } => "required",
        };
        let in_flight = match asked {
            Asked::Never => 1,
            Asked::Remote { in_flight, .. } => in_flight,
        };
        let extra_config = [
            ("callback.predicates".to_owned(), predicates.to_owned()),
            ("scheduling.placementsInFlight".to_owned(), in_flight.to_string()),
        ];
        let request = si::RegisterResourceManagerRequest {
            rm_id: id.to_owned(),
            config: QUEUES.to_owned(),
            extra_config: extra_config.into(),
            ..Default::default()
        };
        client.register_resource_manager(request).await.unwrap();
        let shim = match asked {
            Asked::Never => None,
            Asked::Remote { kind, .. } => Some(attach(service, id, kind, answers).await),
        };
        let nodes = (0..NODES).map(|number| si::NodeInfo {
            node_id: format!("node-{number:04}"),
            action: si::node_info::ActionFromRm::Create as i32,
            schedulable_resource: Some(resource(&[("memory", 1_000_000), ("vcore", 100_000)])),
            ..Default::default()
        });
        let request =
            si::NodeRequest { nodes: nodes.collect(), rm_id: id.to_owned(), ..Default::default() };
        let mut accepted =
            client.update_node(tokio_stream::iter([request])).await.unwrap().into_inner();
        let mut count = 0;
        while count < NODES {
            count += accepted.message().await.unwrap().unwrap().accepted.len();
        }
        let application = si::AddApplicationRequest {
            application_id: "app".to_owned(),
            queue_name: "root.a".to_owned(),
            ugi: Some(si::UserGroupInformation { user: "bench".to_owned(), groups: Vec::new() }),
            ..Default::default()
        };
        let request = si::ApplicationRequest {
            new: vec![application],
            rm_id: id.to_owned(),
            ..Default::default()
        };
        let mut states =
            client.update_application(tokio_stream::iter([request])).await.unwrap().into_inner();
        assert_eq!(states.message().await.unwrap().unwrap().accepted.len(), 1);
        let (requests, outgoing) = mpsc::channel(1_024);
        let hello = si::AllocationRequest { rm_id: id.to_owned(), ..Default::default() };
        requests.send(hello).await.unwrap();
        let stream = ReceiverStream::new(outgoing);
        let answers = client.update_allocation(stream).await.unwrap().into_inner();
        Self { id, requests, answers, _shim: shim }
    }

    /// Sends these asks, in messages of at most [`BATCH`].
    async fn ask(&self, numbers: std::ops::Range<usize>) {
        ask(&self.requests, self.id, numbers).await;
    }

    /// Receives the next allocations, each by the number of its ask.
    async fn placed(&mut self) -> Vec<usize> {
        let response = self.answers.message().await.unwrap().unwrap();
        response.new.iter().map(|new| new.allocation_key.parse().unwrap()).collect()
    }

    /// Measures allocations per second with all asks sent at once.
    async fn rate(&mut self) -> f64 {
        self.rate_of(ASKS).await
    }

    /// Measures the rate with this many asks.
    async fn rate_of(&mut self, asks: usize) -> f64 {
        let start = Instant::now();
        let (requests, id) = (self.requests.clone(), self.id);
        tokio::spawn(async move { ask(&requests, id, 0..asks).await });
        let mut count = 0;
        while count < asks {
            count += self.placed().await.len();
        }
        asks as f64 / start.elapsed().as_secs_f64()
    }

    /// Measures round trips of asks sent one after another.
    async fn trips(&mut self, from: usize) -> Vec<Duration> {
        let mut trips = Vec::with_capacity(TRIPS);
        for number in from..from + TRIPS {
            let start = Instant::now();
            self.ask(number..number + 1).await;
            while !self.placed().await.contains(&number) {}
            trips.push(start.elapsed());
        }
        trips
    }

    /// Measures round trips of asks sent at this rate, whether or not earlier ones are placed.
    async fn trips_at(&mut self, rate: f64) -> Vec<Duration> {
        // One tick per millisecond, because timers are not finer.
        let per_tick = ((rate / 1_000.0).round() as usize).max(1);
        let (requests, id) = (self.requests.clone(), self.id);
        let (asked, mut begun) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut ticks = interval(Duration::from_millis(1));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            for from in (0..ASKS).step_by(per_tick) {
                // Measured from its due time, so that a late send counts as waiting.
                let due = ticks.tick().await;
                asked.send((from..from + per_tick, due)).unwrap();
                ask(&requests, id, from..from + per_tick).await;
            }
        });
        let mut due = HashMap::new();
        let mut trips = Vec::with_capacity(ASKS);
        while trips.len() < ASKS {
            for number in self.placed().await {
                let now = Instant::now();
                while let Ok((numbers, at)) = begun.try_recv() {
                    due.extend(numbers.map(|number| (number, at)));
                }
                trips.push(now.duration_since(due[&number]));
            }
        }
        trips
    }
}

async fn ask(
    requests: &mpsc::Sender<si::AllocationRequest>,
    id: &str,
    numbers: std::ops::Range<usize>,
) {
    let end = numbers.end;
    for from in numbers.step_by(BATCH) {
        let asks = (from..end.min(from + BATCH)).map(|number| si::AllocationAsk {
            allocation_key: number.to_string(),
            application_id: "app".to_owned(),
            resource_ask: Some(resource(&[("memory", 10), ("vcore", 1)])),
            max_allocations: 1,
            ..Default::default()
        });
        let request = si::AllocationRequest {
            asks: asks.collect(),
            rm_id: id.to_owned(),
            ..Default::default()
        };
        requests.send(request).await.unwrap();
    }
}

/// Attaches a shim that passes every node, or one that reads questions and answers none.
async fn attach(
    service: &Service,
    id: &str,
    kind: Kind,
    answers: bool,
) -> mpsc::Sender<cb::ShimMessage> {
    let channel = Endpoint::from_shared(service.address.clone()).unwrap().connect().await.unwrap();
    let (sender, outgoing) = mpsc::channel(64);
    let mut capabilities = vec![cb::Capability::Predicates.into()];
    if !matches!(kind, Kind::Blind) {
        capabilities.push(cb::Capability::CacheSync.into());
    }
    let confirm_assume = kind.confirms();
    let hello =
        cb::Hello { rm_id: id.to_owned(), capabilities, confirm_assume, ..Default::default() };
    sender.send(cb::ShimMessage { body: Some(Said::Hello(hello)) }).await.unwrap();
    let stream = ReceiverStream::new(outgoing);
    let mut messages =
        CallbackServiceClient::new(channel).attach(stream).await.unwrap().into_inner();
    let replies = sender.clone();
    tokio::spawn(async move {
        let mut cache_seq = 0;
        while let Ok(Some(message)) = messages.message().await {
            let reply = match message.body {
                Some(Body::CacheSync(sync)) => {
                    cache_seq = sync.cache_seq;
                    if !confirm_assume {
                        continue;
                    }
                    Said::CacheSyncAck(cb::CacheSyncAck { cache_seq, failures: Vec::new() })
                }
                Some(Body::Heartbeat(beat)) if beat.reply => {
                    Said::Heartbeat(cb::Heartbeat { nonce: beat.nonce, ..Default::default() })
                }
                Some(Body::PredicateBatch(batch)) if answers => {
                    Said::PredicateResults(all_pass(&batch, cache_seq, kind))
                }
                _ => continue,
            };
            if replies.send(cb::ShimMessage { body: Some(reply) }).await.is_err() {
                return;
            }
        }
    });
    sender
}

fn all_pass(batch: &cb::PredicateBatch, cache_seq: u64, kind: Kind) -> cb::PredicateResults {
    let results = batch.queries.iter().map(|query| {
        let (scope, elsewhere) = kind.scope(&query.allocation_key);
        cb::PredicateResult {
            query_id: query.query_id,
            outcome: cb::Outcome::Evaluated.into(),
            evaluated: 1,
            pass_bitmap: vec![1],
            scope: scope.into(),
            elsewhere,
            ..Default::default()
        }
    });
    cb::PredicateResults {
        batch_id: batch.batch_id,
        cache_seq,
        last: true,
        results: results.collect(),
    }
}

/// Returns a percentile in microseconds.
fn percentile(trips: &mut [Duration], share: f64) -> u128 {
    trips.sort_unstable();
    trips[((trips.len() - 1) as f64 * share).round() as usize].as_micros()
}

fn row(name: &str, mut trips: Vec<Duration>) {
    let (half, most) = (percentile(&mut trips, 0.5), percentile(&mut trips, 0.99));
    println!("| {name} | {half} | {most} |");
}

async fn rates() {
    println!(
        "| placements in flight | allocations/s, questions with `assume` | without, answers of scope \
         TOPOLOGY | aim, with `assume` |\n|---|---|---|---|"
    );
    let service = Service::start();
    let never = Rm::start(&service, "bench", Asked::Never, true).await.rate().await;
    println!("| nobody is asked | {never:.0} | | |");
    for in_flight in IN_FLIGHT {
        let mut rates = [0.0; 2];
        for (rate, kind) in rates.iter_mut().zip([Kind::Assumes, Kind::Blind]) {
            let service = Service::start();
            let asked = Asked::Remote { in_flight, kind };
            *rate = Rm::start(&service, "bench", asked, true).await.rate().await;
        }
        let (least, aim) = match in_flight {
            64 => (100_000.0, "100,000".to_owned()),
            512 => (never / 2.0, format!("half of the first row: {:.0}", never / 2.0)),
            _ => (0.0, String::new()),
        };
        let with = at_least(rates[0], least, 0);
        println!("| {in_flight} | {with} | {:.0} | {aim} |", rates[1]);
    }
}

/// Compares the scopes of answers, with 64 placements in flight.
async fn scopes() {
    println!("| shim | allocations/s, median (best) | aim |\n|---|---|---|");
    for (name, kind, asks) in [
        ("assumes", Kind::Assumes, ASKS),
        ("confirms, answers of scope NODE", Kind::Confirms(cb::Scope::Node), ASKS),
        ("confirms, scope TOPOLOGY", Kind::Confirms(cb::Scope::Topology), FEW_ASKS),
        ("keeps no view", Kind::Blind, FEW_ASKS),
        (
            "scope TOPOLOGY with `elsewhere`, no request has rules about others",
            Kind::SaysElsewhere { one_in: 0 },
            ASKS,
        ),
        (
            "one request in 1,000 has rules, for and against all others",
            Kind::SaysElsewhere { one_in: 1_000 },
            ASKS,
        ),
        ("one in 100", Kind::SaysElsewhere { one_in: 100 }, ASKS),
        ("one in 10", Kind::SaysElsewhere { one_in: 10 }, FEW_ASKS),
        (
            "each request has rules, about those of its group; 300 groups",
            Kind::Groups { groups: 300 },
            ASKS,
        ),
        ("10 groups", Kind::Groups { groups: 10 }, FEW_ASKS),
    ] {
        let mut rates = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            let service = Service::start();
            let asked = Asked::Remote { in_flight: 64, kind };
            rates.push(Rm::start(&service, "bench", asked, true).await.rate_of(asks).await);
        }
        rates.sort_unstable_by(f64::total_cmp);
        let (least, aim) = match kind {
            Kind::SaysElsewhere { .. } => (20_000.0, "20,000"),
            _ => (0.0, ""),
        };
        let median = at_least(rates[RUNS / 2], least, 0);
        println!("| {name} | {median} ({:.0}) | {aim} |", rates[RUNS - 1]);
    }
}

async fn round_trips() {
    println!(
        "| one ask to its allocation with a remote predicate | p50 µs | p99 µs |\n|---|---|---|"
    );
    let asked = Asked::Remote { in_flight: 64, kind: Kind::Assumes };
    let service = Service::start();
    row("idle", Rm::start(&service, "bench", asked, true).await.trips(0).await);
    let service = Service::start();
    let rate = Rm::start(&service, "bench", asked, true).await.rate().await;
    let service = Service::start();
    let trips = Rm::start(&service, "bench", asked, true).await.trips_at(rate / 2.0).await;
    row(&format!("at half of {rate:.0}/s, which 64 in flight reach"), trips);
}

async fn stalled() {
    println!("| one ask of a busy shim to its allocation | p50 µs | p99 µs |\n|---|---|---|");
    let asked = Asked::Remote { in_flight: 64, kind: Kind::Assumes };
    let service = Service::start();
    let mut busy = Rm::start(&service, "busy", asked, true).await;
    row("alone", busy.trips(0).await);
    let other = Rm::start(&service, "stalled", asked, false).await;
    other.ask(0..ASKS).await;
    row("beside one that does not answer", busy.trips(TRIPS).await);
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|name| name != "--bench").collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let patience = Duration::from_secs(300);
        if wants("trip") {
            timeout(patience, round_trips()).await.expect("every ask is placed");
        }
        if wants("rate") {
            timeout(patience, rates()).await.expect("every ask is placed");
        }
        if wants("scope") {
            timeout(patience, scopes()).await.expect("every ask is placed");
        }
        if wants("stalled") {
            timeout(patience, stalled()).await.expect("every ask is placed");
        }
    });
}
