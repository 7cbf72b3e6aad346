//! Cost of readers to a large cluster that places at full rate.
//!
//! `cargo bench --bench readers`: the service in its own process, with 10,000 nodes, 100,000
//! applications and 1,000,000 allocations (the first argument divides all three: `-- 10`). A
//! resource manager keeps 2,000 requests outstanding and releases each allocation on receipt, while
//! 32 readers get a page of 1,000 rows each second, half of them of nodes and half of applications:
//! first brief rows, as the web UI and the command line read them, and then whole rows, in which a
//! page of nodes has 100,000 allocations and one of applications 10,000. It prints the rate, the
//! CPU of the front's and of the partition's thread per allocation, and the latency of placements
//! and of pages; then the same while whole dumps are made one after another. `BENCH_SERVICE` names
//! another build. See docs/performance.md for the figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_precision_loss, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

mod service;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use monoceros_client::{Client, Event, Events, Options, Report, si};
use service::Service;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tonic::transport::Endpoint;

const READERS: usize = 32;
const BRIEF: &str = "32, brief rows";
const WHOLE: &str = "32, whole rows";
const DUMPS: &str = "whole dumps, one after another";
const OUTSTANDING: usize = 2_000;
const MEASURED: Duration = Duration::from_secs(10);
const QUEUES: &str = "partitions: [{name: default, queues: [{name: root, submitacl: '*', \
                      queues: [{name: a}]}]}]";

#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    applications: usize,
    allocations: usize,
}

fn node(number: usize) -> String {
    format!("node-{number:06}")
}

fn application(number: usize) -> String {
    format!("app-{number:06}")
}

/// Reports everything that runs at the beginning.
fn report(size: Size) -> Report {
    // Capacity for half as much again.
    let room = (size.allocations / size.nodes * 3 / 2) as i64;
    let nodes = (0..size.nodes).map(|number| si::NodeInfo::new(node(number), [("vcore", room)]));
    let applications = (0..size.applications).map(|number| {
        si::AddApplicationRequest::new(application(number), "ada").in_queue("root.a")
    });
    let allocations = (0..size.allocations).map(|number| {
        let id = application(number % size.applications);
        si::Allocation::ask(id, format!("first-{number}"), [("vcore", 1)])
            .running_on(node(number % size.nodes))
    });
    Report {
        nodes: nodes.collect(),
        applications: applications.collect(),
        allocations: allocations.collect(),
    }
}

/// A resource manager with some outstanding requests.
struct Manager {
    client: Client,
    events: Events,
    size: Size,
    asked: usize,
    since: HashMap<String, Instant>,
}

impl Manager {
    async fn start(service: &Service, size: Size) -> Self {
        let endpoint = Endpoint::from_shared(service.address.clone()).unwrap();
        let options = Options::new(endpoint, "bench").queues(QUEUES);
        let (client, events) = Client::start(options, move || report(size));
        let mut manager = Self { client, events, size, asked: 0, since: HashMap::new() };
        let mut told = 0;
        while told < size.allocations {
            told += manager.placed().await.len();
        }
        manager
    }

    /// Receives the next allocations, by key and application.
    async fn placed(&mut self) -> Vec<(String, String)> {
        loop {
            match self.events.next().await.unwrap() {
                Event::Allocations(told) if !told.new.is_empty() => {
                    let new = told.new.into_iter();
                    return new.map(|new| (new.allocation_key, new.application_id)).collect();
                }
                Event::Disconnected(why) | Event::Ended(why) => panic!("{why}"),
                _ => {}
            }
        }
    }

    async fn ask(&mut self, count: usize) {
        let (first, now) = (self.asked, Instant::now());
        self.asked += count;
        let asks = (first..self.asked).map(|number| {
            // Each request is of another application than the previous one.
            let id = application(number * 7_919 % self.size.applications);
            si::Allocation::ask(id, format!("next-{number}"), [("vcore", 1)])
        });
        let asks: Vec<_> = asks.collect();
        self.since.extend(asks.iter().map(|ask| (ask.allocation_key.clone(), now)));
        self.client.ask(asks).await.unwrap();
    }

    /// Places for a while. Returns the sorted latencies in ms, and the total time.
    async fn measure(&mut self) -> (Vec<f64>, Duration) {
        let mut waits = Vec::new();
        self.ask(OUTSTANDING).await;
        let began = Instant::now();
        while began.elapsed() < MEASURED {
            let placed = self.placed().await;
            for (key, _) in &placed {
                let since = self.since.remove(key).unwrap();
                waits.push(since.elapsed().as_secs_f64() * 1e3);
            }
            let count = placed.len();
            self.release(placed).await;
            self.ask(count).await;
        }
        let took = began.elapsed();
        while !self.since.is_empty() {
            let placed = self.placed().await;
            self.since.retain(|key, _| !placed.iter().any(|(other, _)| other == key));
            self.release(placed).await;
        }
        waits.sort_by(f64::total_cmp);
        (waits, took)
    }

    async fn release(&mut self, placed: Vec<(String, String)>) {
        let over = placed.into_iter().map(|(key, id)| si::AllocationRelease::new(id, key));
        self.client.release(over.collect()).await.unwrap();
    }
}

/// Readers on their own thread, with the latencies of answers in ms.
struct Readers {
    stops: Arc<AtomicBool>,
    took: Arc<Mutex<Vec<f64>>>,
    thread: JoinHandle<()>,
}

impl Readers {
    fn pages(address: &str, size: Size, form: &'static str) -> Self {
        Self::start(address.to_owned(), READERS, move |reader, turn| {
            let (list, id) = if reader % 2 == 0 {
                ("nodes", node((reader * 1_000 + turn * 1_000) % size.nodes))
            } else {
                (
                    "applications/active",
                    application((reader * 3_001 + turn * 1_000) % size.applications),
                )
            };
            format!("/ws/v1/partition/default/{list}?limit=1000&after={id}{form}")
        })
    }

    fn dumps(address: &str) -> Self {
        Self::start(address.to_owned(), 1, |_, _| "/debug/fullstatedump".to_owned())
    }

    fn start(
        address: String,
        count: usize,
        path: impl Fn(usize, usize) -> String + Send + Sync + 'static,
    ) -> Self {
        let stops = Arc::new(AtomicBool::new(false));
        let took = Arc::<Mutex<Vec<f64>>>::default();
        let (told, kept, path) = (Arc::clone(&stops), Arc::clone(&took), Arc::new(path));
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut readers = tokio::task::JoinSet::new();
                for reader in 0..count {
                    let (told, kept) = (Arc::clone(&told), Arc::clone(&kept));
                    let (path, address) = (Arc::clone(&path), address.clone());
                    readers.spawn(async move {
                        // Staggered starts.
                        let part = 1_000 * reader as u64 / count as u64;
                        tokio::time::sleep(Duration::from_millis(part)).await;
                        for turn in 0.. {
                            let began = Instant::now();
                            get(&address, &path(reader, turn)).await;
                            kept.lock().unwrap().push(began.elapsed().as_secs_f64() * 1e3);
                            if told.load(Ordering::Acquire) {
                                return;
                            }
                            let rest = Duration::from_secs(1).saturating_sub(began.elapsed());
                            tokio::time::sleep(rest).await;
                        }
                    });
                }
                readers.join_all().await;
            });
        });
        Self { stops, took, thread }
    }

    /// Returns the sorted latencies of answers.
    fn stop(self) -> Vec<f64> {
        self.stops.store(true, Ordering::Release);
        self.thread.join().unwrap();
        let mut took = std::mem::take(&mut *self.took.lock().unwrap());
        took.sort_by(f64::total_cmp);
        took
    }
}

/// Reads a whole answer on a new connection, as a first visitor does.
async fn get(address: &str, path: &str) {
    let mut connection = BufReader::new(TcpStream::connect(address).await.unwrap());
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    connection.get_mut().write_all(request.as_bytes()).await.unwrap();
    let mut status = String::new();
    connection.read_line(&mut status).await.unwrap();
    assert!(status.contains(" 200 "), "{path}: {status}");
    let mut rest = Vec::new();
    connection.read_to_end(&mut rest).await.unwrap();
}

fn at(sorted: &[f64], share: f64) -> f64 {
    sorted.get((sorted.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN)
}

fn main() {
    let divisor: Option<usize> = std::env::args().find_map(|text| text.parse().ok());
    let divisor = divisor.unwrap_or(1);
    let size = Size {
        nodes: 10_000 / divisor,
        applications: 100_000 / divisor,
        allocations: 1_000_000 / divisor,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let service = Service::start();
    runtime.block_on(async {
        let began = Instant::now();
        let mut manager = Manager::start(&service, size).await;
        println!("| {} allocations | |\n|---|---|", size.allocations);
        println!("| told in | {:.1} s |", began.elapsed().as_secs_f64());
        println!("| resident then | {} MiB |\n", service.resident_kib() / 1024);
        println!(
            "| readers | allocations/s | front, CPU µs each | partition, CPU µs each | placements p50 \
             ms | p99 ms | answers in {} s | an answer p50 ms | p99 ms |",
            MEASURED.as_secs()
        );
        println!("|---|---|---|---|---|---|---|---|---|");
        let turns = [BRIEF, WHOLE, BRIEF, WHOLE, DUMPS];
        for name in turns.iter().flat_map(|name| ["nobody", name]).chain(["nobody"]) {
            let readers = match name {
                BRIEF => Some(Readers::pages(&service.rest, size, "&brief")),
                WHOLE => Some(Readers::pages(&service.rest, size, "")),
                DUMPS => Some(Readers::dumps(&service.rest)),
                _ => None,
            };
            let before = service.cpu_by_thread();
            let (waits, took) = manager.measure().await;
            let after = service.cpu_by_thread();
            let answers = readers.map(Readers::stop).unwrap_or_default();
            let of = |thread: &str| {
                let spent = |cpu: &HashMap<String, Duration>| {
                    let of_it = cpu.iter().filter(|(name, _)| name.starts_with(thread));
                    of_it.map(|(_, cpu)| cpu.as_secs_f64()).sum::<f64>()
                };
                1e6 * (spent(&after) - spent(&before)) / waits.len() as f64
            };
            let of_answers = |share| match &answers[..] {
                [] => String::new(),
                answers => format!("{:.0}", at(answers, share)),
            };
            println!(
                "| {name} | {:.0} | {:.1} | {:.1} | {:.0} | {:.0} | {} | {} | {} |",
                waits.len() as f64 / took.as_secs_f64(),
                of("monoceros-front"),
                of("actix-rt"),
                at(&waits, 0.5),
                at(&waits, 0.99),
                answers.len(),
                of_answers(0.5),
                of_answers(0.99),
            );
        }
    });
}
