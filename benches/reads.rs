//! Cost of REST readers of lists to the placements of a resource manager.
//!
//! `cargo bench --bench reads`: the service in its own process, with 2,000 nodes and 20,000
//! allocations. A resource manager asks for one allocation, waits for it, releases it and asks
//! again, while readers get the list of nodes: whole without a pause or each second, or a page of
//! 100 each second. `BENCH_SERVICE` names another build of the service (one without pages sends the
//! whole list). See docs/performance.md for the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_possible_truncation)]
#![allow(clippy::cast_sign_loss, missing_docs)]

mod aims;
mod service;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use monoceros_proto::si::v1 as si;
use service::{Service, resource};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Streaming};

use crate::aims::at_most;

const NODES: usize = 2_000;
const ALLOCATIONS: usize = 20_000;
const APPLICATIONS: usize = 40;
const MEASURED: Duration = Duration::from_secs(8);

/// What the readers request.
#[derive(Clone, Copy)]
enum Reading {
    /// The whole list, without a pause.
    Whole,
    /// The whole list, each second.
    WholeEachSecond,
    /// A page of 100 nodes each second, each after the previous one.
    Pages,
}

struct Readers {
    stops: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Readers {
    fn start(address: &str, count: usize, reading: Reading) -> Self {
        let (stops, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (told, counted, address) =
            (Arc::clone(&stops), Arc::clone(&answers), address.to_owned());
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut readers = tokio::task::JoinSet::new();
                for number in 0..count {
                    let (told, counted) = (Arc::clone(&told), Arc::clone(&counted));
                    readers.spawn(read(address.clone(), number, reading, told, counted));
                }
                readers.join_all().await;
            });
        });
        Self { stops, answers, thread }
    }

    fn stop(self) -> u64 {
        self.stops.store(true, Ordering::Release);
        self.thread.join().unwrap();
        self.answers.load(Ordering::Acquire)
    }
}

async fn read(
    address: String,
    number: usize,
    reading: Reading,
    told: Arc<AtomicBool>,
    counted: Arc<AtomicU64>,
) {
    let mut connection = BufReader::new(TcpStream::connect(&address).await.unwrap());
    let mut after = number * NODES / 32;
    if !matches!(reading, Reading::Whole) {
        tokio::time::sleep(Duration::from_millis(1_000 * number as u64 / 32)).await;
    }
    while !told.load(Ordering::Acquire) {
        let began = Instant::now();
        let query = match reading {
            Reading::Whole | Reading::WholeEachSecond => String::new(),
            Reading::Pages => format!("?limit=100&after=node-{after:06}"),
        };
        let request = format!(
            "GET /ws/v1/partition/default/nodes{query} HTTP/1.1\r\nhost: {address}\r\n\r\n"
        );
        connection.get_mut().write_all(request.as_bytes()).await.unwrap();
        let mut length = 0;
        loop {
            let mut line = String::new();
            connection.read_line(&mut line).await.unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        connection.read_exact(&mut body).await.unwrap();
        assert!(body.starts_with(b"["), "{}", String::from_utf8_lossy(&body[..length.min(200)]));
        counted.fetch_add(1, Ordering::AcqRel);
        if matches!(reading, Reading::Pages) {
            after = (after + 100) % NODES;
        }
        if !matches!(reading, Reading::Whole) {
            tokio::time::sleep(Duration::from_secs(1).saturating_sub(began.elapsed())).await;
        }
    }
}

/// The resource manager, with its allocation stream.
struct Manager {
    requests: mpsc::Sender<si::AllocationRequest>,
    answers: Streaming<si::AllocationResponse>,
    asked: usize,
}

fn ask(number: usize) -> si::AllocationRequest {
    let tags = [("kubernetes.io/label/app", "web"), ("kubernetes.io/meta/namespace", "lab")];
    let ask = si::AllocationAsk {
        allocation_key: format!("ask-{number:06}"),
        application_id: format!("app-{:03}", number % APPLICATIONS),
        resource_ask: Some(resource(&[("memory", 10), ("vcore", 1)])),
        max_allocations: 1,
        tags: tags.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..Default::default()
    };
    si::AllocationRequest { rm_id: "bench".into(), asks: vec![ask], ..Default::default() }
}

impl Manager {
    async fn start(service: &Service) -> Self {
        let mut client = service.client().await;
        let registration = si::RegisterResourceManagerRequest {
            rm_id: "bench".into(),
            version: "1".into(),
            policy_group: "queues".into(),
            config: "partitions: [{name: default, queues: [{name: root, submitacl: '*', \
                     queues: [{name: a}]}]}]"
                .into(),
            ..Default::default()
        };
        let answer = client.register_resource_manager(registration).await.unwrap();
        let session = answer.metadata().get("x-si-session").unwrap().clone();
        let attributes: BTreeMap<String, String> = (0..12)
            .map(|n| (format!("topology.example.org/label-{n}"), format!("value-{n}")))
            .collect();
        let nodes = (0..NODES).map(|number| si::NodeInfo {
            node_id: format!("node-{number:06}"),
            action: si::node_info::ActionFromRm::Create.into(),
            schedulable_resource: Some(resource(&[("memory", 1_000), ("vcore", 100)])),
            attributes: attributes.clone(),
            ..Default::default()
        });
        let request =
            si::NodeRequest { rm_id: "bench".into(), nodes: nodes.collect(), ..Default::default() };
        let mut stream = Request::new(tokio_stream::iter([request]));
        stream.metadata_mut().insert("x-si-session", session.clone());
        let mut accepted = client.update_node(stream).await.unwrap().into_inner();
        let mut count = 0;
        while count < NODES {
            count += accepted.message().await.unwrap().unwrap().accepted.len();
        }
        let new = (0..APPLICATIONS).map(|number| si::AddApplicationRequest {
            application_id: format!("app-{number:03}"),
            queue_name: "root.a".into(),
            ugi: Some(si::UserGroupInformation { user: "bench".into(), groups: vec![] }),
            ..Default::default()
        });
        let request = si::ApplicationRequest {
            rm_id: "bench".into(),
            new: new.collect(),
            ..Default::default()
        };
        let mut stream = Request::new(tokio_stream::iter([request]));
        stream.metadata_mut().insert("x-si-session", session.clone());
        let mut accepted = client.update_application(stream).await.unwrap().into_inner();
        let mut count = 0;
        while count < APPLICATIONS {
            count += accepted.message().await.unwrap().unwrap().accepted.len();
        }
        let (requests, outgoing) = mpsc::channel(64);
        let mut stream = Request::new(ReceiverStream::new(outgoing));
        stream.metadata_mut().insert("x-si-rm-id", "bench".parse().unwrap());
        stream.metadata_mut().insert("x-si-session", session);
        let answers = client.update_allocation(stream).await.unwrap().into_inner();
        let mut manager = Self { requests, answers, asked: 0 };
        for _ in 0..ALLOCATIONS / 100 {
            for _ in 0..100 {
                manager.requests.send(ask(manager.asked)).await.unwrap();
                manager.asked += 1;
            }
            manager.allocated(100).await;
        }
        manager
    }

    async fn allocated(&mut self, count: usize) -> Option<si::Allocation> {
        let (mut received, mut last) = (0, None);
        while received < count {
            let answer = self.answers.message().await.unwrap().unwrap();
            received += answer.new.len();
            last = answer.new.into_iter().last().or(last);
        }
        last
    }

    /// Asks, waits and releases for a while. Returns the sorted waits in ms.
    async fn measure(&mut self) -> Vec<f64> {
        let mut waits = Vec::new();
        let began = Instant::now();
        while began.elapsed() < MEASURED {
            let start = Instant::now();
            self.requests.send(ask(self.asked)).await.unwrap();
            self.asked += 1;
            let allocation = self.allocated(1).await.unwrap();
            waits.push(start.elapsed().as_secs_f64() * 1e3);
            let release = si::AllocationRelease {
                partition_name: allocation.partition_name,
                application_id: allocation.application_id,
                allocation_key: allocation.allocation_key,
                termination_type: si::TerminationType::StoppedByRm.into(),
                ..Default::default()
            };
            let releases = si::AllocationReleasesRequest {
                allocations_to_release: vec![release],
                ..Default::default()
            };
            let request = si::AllocationRequest {
                rm_id: "bench".into(),
                releases: Some(releases),
                ..Default::default()
            };
            self.requests.send(request).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        waits.sort_by(f64::total_cmp);
        waits
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let service = Service::start();
    let rest = service.rest.clone();
    runtime.block_on(async {
        let mut manager = Manager::start(&service).await;
        println!(
            "| readers | answers/s | placements in {} s | p50 ms | p99 ms | max ms | aim, p99 ms |",
            MEASURED.as_secs()
        );
        println!("|---|---|---|---|---|---|---|");
        let (mut of_nobody, mut of_pages) = (None, f64::INFINITY);
        let mut rows = vec![("nobody", 0, Reading::Whole)];
        rows.extend(
            [("1, whole", 1), ("4, whole", 4), ("32, whole", 32)]
                .map(|(name, count)| (name, count, Reading::Whole)),
        );
        rows.push(("32, a page a second", 32, Reading::Pages));
        rows.push(("32, the whole list a second", 32, Reading::WholeEachSecond));
        rows.push(("nobody", 0, Reading::Whole));
        for (name, count, reading) in rows {
            let readers = Readers::start(&rest, count, reading);
            let waits = manager.measure().await;
            let answers = readers.stop() as f64 / MEASURED.as_secs_f64();
            let at = |share: f64| waits[(waits.len() as f64 * share) as usize];
            let p99 = at(0.99);
            let of_nobody = *of_nobody.get_or_insert(p99);
            let (most, aim) = match reading {
                Reading::Pages => {
                    of_pages = p99;
                    (2.0 * of_nobody, format!("twice that of nobody: {:.1}", 2.0 * of_nobody))
                }
                Reading::WholeEachSecond => {
                    (2.0 * of_pages, format!("twice that with pages: {:.1}", 2.0 * of_pages))
                }
                Reading::Whole => (f64::INFINITY, String::new()),
            };
            println!(
                "| {name} | {answers:.1} | {} | {:.2} | {} | {:.1} | {aim} |",
                waits.len(),
                at(0.5),
                at_most(p99, most, 2),
                waits.last().unwrap()
            );
        }
    });
}
