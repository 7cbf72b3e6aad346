//! Allocations per second over gRPC: one shim, batched streams, loopback.
//!
//! `cargo bench --bench grpc`, or with parts of row names after `--`. The service is the
//! `monoceros` binary in its own process. The shim here sends 50,000 asks in messages of 1,000 or
//! of one, with sequence numbers (`client_seq`) or without, or one by one through the client
//! library, or one by one to 5,000 nodes with a predicate for each placement, and counts
//! allocations until the last has arrived. See docs/performance.md.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "tells how old events are, by the clock of the machine"
)]

mod aims;
mod allocator;
mod service;

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use monoceros::grpc::stubs::scheduler_client::SchedulerClient;
use monoceros_client::{Callbacks, Client, Event, Fit, Options, Report, callback};
use monoceros_proto::si::v1 as si;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};

use crate::aims::{at_least, at_most};
use service::{Service, resource};

const ASKS: usize = 50_000;
const RUNS: usize = 7;
const QUEUES: &str =
    "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]";

fn registration() -> si::RegisterResourceManagerRequest {
    si::RegisterResourceManagerRequest {
        rm_id: "bench".to_owned(),
        config: QUEUES.to_owned(),
        ..Default::default()
    }
}

/// Registers, adds nodes and one application, and waits until both are accepted. Returns the
/// session.
async fn prepare(client: &mut SchedulerClient<Channel>, n_nodes: usize) -> MetadataValue<Ascii> {
    let rm_id = "bench".to_owned();
    let registered = client.register_resource_manager(registration()).await.unwrap();
    let nodes = (0..n_nodes).map(|number| si::NodeInfo {
        node_id: format!("node-{number:04}"),
        action: si::node_info::ActionFromRm::Create as i32,
        schedulable_resource: Some(resource(&[("memory", 500), ("vcore", 50)])),
        ..Default::default()
    });
    let request =
        si::NodeRequest { nodes: nodes.collect(), rm_id: rm_id.clone(), ..Default::default() };
    let mut accepted =
        client.update_node(tokio_stream::iter([request])).await.unwrap().into_inner();
    let mut count = 0;
    while count < n_nodes {
        count += accepted.message().await.unwrap().unwrap().accepted.len();
    }
    let application = si::AddApplicationRequest {
        application_id: "app".to_owned(),
        queue_name: "root.a".to_owned(),
        ugi: Some(si::UserGroupInformation { user: "bench".to_owned(), groups: Vec::new() }),
        ..Default::default()
    };
    let request = si::ApplicationRequest { new: vec![application], rm_id, ..Default::default() };
    let mut answers =
        client.update_application(tokio_stream::iter([request])).await.unwrap().into_inner();
    assert_eq!(answers.message().await.unwrap().unwrap().accepted.len(), 1);
    registered.metadata().get("x-si-session").unwrap().clone()
}

fn ask(number: usize) -> si::Allocation {
    si::Allocation {
        allocation_key: format!("ask-{number:06}"),
        application_id: "app".to_owned(),
        resource_per_alloc: Some(resource(&[("memory", 10), ("vcore", 1)])),
        ..Default::default()
    }
}

/// How the asks are sent.
#[derive(Clone, Copy)]
enum Way {
    /// In messages of this many, with sequence numbers or without.
    Messages { batch: usize, numbered: bool },
    /// One call for each through the client library.
    Library,
    /// One message for each, on 5,000 nodes, with a predicate for each placement: a shim with a
    /// view of the cluster (scope NODE) that accepts.
    Pods,
}

/// Accepts every node, and measures the delay of events.
#[derive(Clone, Default)]
struct Yes(Arc<Mutex<Delays>>);

/// Age of events at their arrival.
#[derive(Default)]
struct Delays {
    ages_ms: Vec<i64>,
    dropped: u64,
}

impl Callbacks for Yes {
    fn capabilities(&self) -> Vec<callback::Capability> {
        use callback::Capability::{CacheSync, Events, Predicates};
        vec![Predicates, CacheSync, Events]
    }

    fn events(&self, batch: callback::EventBatch) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        let mut delays = self.0.lock().unwrap();
        delays.dropped += batch.dropped;
        let ages = batch.events.iter().map(|event| (now - event.timestamp_nano) / 1_000_000);
        delays.ages_ms.extend(ages);
    }

    fn fits(&self, _: &callback::PredicateQuery, _: &str) -> Fit {
        Fit::Yes
    }

    fn scope(&self, _: &callback::PredicateQuery) -> callback::Scope {
        callback::Scope::Node
    }
}

/// Duration of a run in seconds: wall time, and the service's CPU time.
struct Measured {
    wall: f64,
    cpu: f64,
    /// Delays of events, for shims that receive them.
    delays: Delays,
}

async fn run(way: Way) -> Measured {
    let service = Service::start();
    let mut client = service.client().await;
    let nodes = if matches!(way, Way::Pods) { 5_000 } else { 1_000 };
    let session = prepare(&mut client, nodes).await;
    let cpu_before = service.cpu_time();
    let mut delays = Delays::default();
    let wall = match way {
        Way::Messages { batch, numbered } => {
            if numbered {
                // Another manager, because the one that prepared had no numbers.
                let mut again = Request::new(registration());
                again.metadata_mut().insert("x-si-register-mode", "attach".parse().unwrap());
                client.register_resource_manager(again).await.unwrap();
            }
            messages(client, session, batch, numbered).await
        }
        Way::Library => library(&service, |options| options).await,
        Way::Pods => {
            let (wall, of_events) = pods(&service).await;
            delays = of_events;
            wall
        }
    };
    Measured { wall, cpu: service.cpu_time().saturating_sub(cpu_before).as_secs_f64(), delays }
}

async fn messages(
    mut client: SchedulerClient<Channel>,
    session: MetadataValue<Ascii>,
    batch: usize,
    numbered: bool,
) -> f64 {
    let (requests, outgoing) = mpsc::channel(64);
    let start = Instant::now();
    tokio::spawn(async move {
        let mut client_seq = 0;
        for from in (0..ASKS).step_by(batch) {
            client_seq += u64::from(numbered);
            let allocations = (from..from + batch).map(ask).collect();
            let request = si::AllocationRequest { allocations, client_seq, ..Default::default() };
            requests.send(request).await.unwrap();
        }
        // The stream stays open until the answers have arrived.
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop(requests);
    });
    let mut stream = Request::new(ReceiverStream::new(outgoing));
    let metadata = stream.metadata_mut();
    metadata.insert("x-si-rm-id", MetadataValue::from_static("bench"));
    metadata.insert("x-si-session", session);
    if numbered {
        metadata.insert("x-si-client-seq", MetadataValue::from_static("0"));
    }
    let mut answers = client.update_allocation(stream).await.unwrap().into_inner();
    let mut count = 0;
    while count < ASKS {
        count += answers.message().await.unwrap().unwrap().new.len();
    }
    start.elapsed().as_secs_f64()
}

async fn pods(service: &Service) -> (f64, Delays) {
    let shim = Yes::default();
    let wall = library(service, |options| options.batch_items(1).callbacks(shim.clone())).await;
    // The last ones are in transit.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let delays = std::mem::take(&mut *shim.0.lock().unwrap());
    (wall, delays)
}

/// Prints a row on events for each run that received some.
fn print_events(runs: &mut [Delays]) {
    if runs.iter().all(|delays| delays.ages_ms.is_empty()) {
        return;
    }
    println!("\n| events of the last row, in each run | came | did not | p50 ms old | at most |");
    println!("|---|---|---|---|---|");
    for (number, Delays { ages_ms, dropped }) in runs.iter_mut().enumerate() {
        ages_ms.sort_unstable();
        let at = |part: usize| {
            ages_ms.get((ages_ms.len() * part / 100).min(ages_ms.len().saturating_sub(1)))
        };
        let [p50, last] = [50, 100].map(|part| at(part).copied().unwrap_or_default());
        println!("| {} | {} | {dropped} | {p50} | {last} |", number + 1, ages_ms.len());
    }
}

async fn library(service: &Service, set: impl FnOnce(Options) -> Options) -> f64 {
    let endpoint = Endpoint::from_shared(service.address.clone()).unwrap();
    let options = set(Options::new(endpoint, "bench").take_over());
    let (client, mut events) = Client::start(options, Report::default);
    assert!(matches!(events.next().await, Some(Event::Registered { resumed: true, .. })));
    let start = Instant::now();
    tokio::spawn(async move {
        for number in 0..ASKS {
            client.ask(vec![ask(number)]).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
    let mut count = 0;
    while count < ASKS {
        if let Event::Allocations(decided) = events.next().await.unwrap() {
            count += decided.new.len();
        }
    }
    start.elapsed().as_secs_f64()
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ways = [
        (
            "in messages of 1,000",
            Way::Messages { batch: 1_000, numbered: false },
            Some((200_000.0, 6.0)),
        ),
        (
            "in messages of 1,000 with numbers",
            Way::Messages { batch: 1_000, numbered: true },
            Some((200_000.0, 6.0)),
        ),
        ("in messages of one", Way::Messages { batch: 1, numbered: false }, Some((60_000.0, 12.0))),
        (
            "in messages of one with numbers",
            Way::Messages { batch: 1, numbered: true },
            Some((60_000.0, 12.0)),
        ),
        ("one call for each to the client library", Way::Library, None),
        ("as pods", Way::Pods, None),
    ];
    let wanted: Vec<String> = std::env::args().skip(1).filter(|name| name != "--bench").collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part));
    println!("| asks come | CPU µs each | allocations/s, median (best) | aim |");
    println!("|---|---|---|---|");
    runtime.block_on(async {
        let mut events = Vec::new();
        for (name, way, aim) in ways.into_iter().filter(|(name, ..)| is_wanted(name)) {
            let (mut walls, mut cpus) = (Vec::new(), Vec::new());
            for _ in 0..RUNS {
                let took = timeout(Duration::from_secs(60), run(way)).await;
                let took = took.expect("everything fits");
                walls.push(took.wall);
                cpus.push(took.cpu);
                if matches!(way, Way::Pods) {
                    events.push(took.delays);
                }
            }
            walls.sort_by(f64::total_cmp);
            cpus.sort_by(f64::total_cmp);
            let rate = |wall: f64| ASKS as f64 / wall;
            let (median, best) = (rate(walls[RUNS / 2]), rate(walls[0]));
            let cpu = cpus[RUNS / 2] / ASKS as f64 * 1e6;
            let (least, most_us) = aim.unwrap_or((0.0, f64::INFINITY));
            let (median, cpu) = (at_least(median, least, 0), at_most(cpu, most_us, 1));
            let aim = aim.map_or(String::new(), |_| format!("{most_us:.0} µs; {least:.0}"));
            println!("| {name} | {cpu} | {median} ({best:.0}) | {aim} |");
        }
        print_events(&mut events);
    });
}
