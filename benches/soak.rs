//! The service under a steady load for a long time: stability of memory and latency.
//!
//! `cargo bench --bench soak -- [SECONDS]` starts 10,000 containers per second over gRPC, and ends
//! as many, for some seconds (default 60; a long run is 600): 100 applications per second, of 100
//! requests each. Allocations are released after half a second, and the application is removed.
//! Another resource manager asks for one container at a time and releases it.
//!
//! For each tenth of the time it prints the latency of the other manager's requests, the number of
//! started containers, the CPU time of the service, and its resident memory. At the end it prints
//! the change of memory over the last half. After a long run the exit code is 1 if that exceeds 1
//! %. See docs/performance.md for the figures.

#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    missing_docs
)]

mod service;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_client::{Client, Event, Events, Options, Report, si};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic::transport::Endpoint;

use crate::service::Service;

/// Time after which the memory should not grow any more.
const FLAT_AFTER_SECONDS: u64 = 600;
/// Largest change of the memory after that time, in per cent.
const FLAT_WITHIN: f64 = 1.0;
const TICK: Duration = Duration::from_millis(10);
const REQUESTS: usize = 100;
const LIFE: Duration = Duration::from_millis(500);
const PARTS: u64 = 10;
const NODES: usize = 1_000;
const CONFIG: &str = "partitions:\n- name: default\n  queues:\n  - name: root\n    submitacl: '*'\n    \
                      queues: [{name: jobs}]\n";
/// Amount of a container.
const SIZE: [(&str, i64); 1] = [("vcore", 100)];

fn node(number: usize) -> si::NodeInfo {
    si::NodeInfo::new(format!("n{number}"), [("vcore", 4_000)])
}

fn application(id: &str, user: &str) -> si::AddApplicationRequest {
    si::AddApplicationRequest::new(id, user).in_queue("root.jobs")
}

/// A resource manager that reports only its nodes. Returns once it has a session, because earlier
/// messages are not part of it.
async fn start(service: &Service, rm: &str, nodes: usize) -> (Client, Events) {
    let endpoint = Endpoint::from_shared(service.address.clone()).unwrap();
    let state = move || Report { nodes: (0..nodes).map(node).collect(), ..Report::default() };
    let (client, mut events) = Client::start(Options::new(endpoint, rm).queues(CONFIG), state);
    while !matches!(events.next().await, Some(Event::Nodes(_))) {}
    (client, events)
}

fn release(application: &str, key: &str) -> si::AllocationRelease {
    si::AllocationRelease {
        application_id: application.to_owned(),
        allocation_key: key.to_owned(),
        termination_type: si::TerminationType::StoppedByRm.into(),
        ..Default::default()
    }
}

/// Placed containers of an application.
type Placed = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

async fn hear(mut events: Events, placed: Placed, n_started: Arc<AtomicU64>) {
    while let Some(event) = events.next().await {
        match event {
            Event::Allocations(decided) => {
                assert!(decided.rejected_allocations.is_empty(), "{decided:?}");
                n_started.fetch_add(decided.new.len() as u64, Ordering::Relaxed);
                let mut placed = placed.lock().unwrap();
                for new in decided.new {
                    placed.entry(new.application_id).or_default().push(new.allocation_key);
                }
            }
            Event::Disconnected(status) | Event::Ended(status) => panic!("{status}"),
            _ => {}
        }
    }
}

async fn load(client: Client, placed: Placed) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut running: VecDeque<(Instant, String)> = VecDeque::new();
    for number in 0_u64.. {
        ticks.tick().await;
        let id = format!("job-{number}");
        client.submit(vec![application(&id, "ada")]).await.unwrap();
        let asks = (0..REQUESTS).map(|n| si::Allocation::ask(&id, format!("{id}-{n}"), SIZE));
        client.ask(asks.collect()).await.unwrap();
        running.push_back((Instant::now(), id));
        while let Some((since, id)) = running.front() {
            let all = placed.lock().unwrap().get(id).is_some_and(|keys| keys.len() == REQUESTS);
            if !all || since.elapsed() < LIFE {
                break;
            }
            let keys = placed.lock().unwrap().remove(id).unwrap();
            client.release(keys.iter().map(|key| release(id, key)).collect()).await.unwrap();
            let gone =
                si::RemoveApplicationRequest { application_id: id.clone(), ..Default::default() };
            client.remove(vec![gone]).await.unwrap();
            running.pop_front();
        }
    }
}

/// Requests one container at a time, and records the latency of each.
async fn innocent(client: Client, mut events: Events, waits: Arc<Mutex<Vec<Duration>>>) {
    client.submit(vec![application("calm", "bob")]).await.unwrap();
    for number in 0_u64.. {
        let key = format!("k{number}");
        let asked = Instant::now();
        client.ask(vec![si::Allocation::ask("calm", &key, SIZE)]).await.unwrap();
        loop {
            let event = events.next().await.expect("it goes on");
            if matches!(&event, Event::Allocations(it) if !it.new.is_empty()) {
                break;
            }
        }
        waits.lock().unwrap().push(asked.elapsed());
        client.release(vec![release("calm", &key)]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn quantile(sorted: &[Duration], share: f64) -> String {
    let at = (sorted.len().saturating_sub(1)) as f64 * share;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below its length")]
    let wait = sorted.get(at as usize).copied().unwrap_or_default();
    format!("{:.1}", wait.as_secs_f64() * 1e3)
}

fn main() {
    let seconds = std::env::args().find_map(|it| it.parse().ok()).unwrap_or(60_u64);
    tokio::runtime::Runtime::new().unwrap().block_on(run(seconds));
}

async fn run(seconds: u64) {
    let service = Service::start();
    let (placed, n_started) = (Placed::default(), Arc::new(AtomicU64::new(0)));
    let (client, events) = start(&service, "busy", NODES).await;
    let mut tasks = JoinSet::new();
    tasks.spawn(hear(events, Arc::clone(&placed), Arc::clone(&n_started)));
    tasks.spawn(load(client, placed));
    let waits: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let (client, events) = start(&service, "innocent", 10).await;
    tasks.spawn(innocent(client, events, Arc::clone(&waits)));

    println!(
        "| tenth of {seconds} s | started/s | cores in use | resident, MiB | innocent, p50 ms | p99 ms \
         | worst ms |\n|---|---|---|---|---|---|---|"
    );
    let (mut memory, mut cpu, mut started) = (Vec::new(), service.cpu_time(), 0);
    for part in 1..=PARTS {
        tokio::time::sleep(Duration::from_secs(seconds) / u32::try_from(PARTS).unwrap()).await;
        let mut sorted = std::mem::take(&mut *waits.lock().unwrap());
        sorted.sort();
        let (cpu_now, started_now) = (service.cpu_time(), n_started.load(Ordering::Relaxed));
        let length = seconds as f64 / PARTS as f64;
        memory.push(service.resident_kib());
        println!(
            "| {part} | {:.0} | {:.2} | {:.1} | {} | {} | {} |",
            (started_now - started) as f64 / length,
            cpu_now.saturating_sub(cpu).as_secs_f64() / length,
            memory[memory.len() - 1] as f64 / 1024.0,
            quantile(&sorted, 0.5),
            quantile(&sorted, 0.99),
            quantile(&sorted, 1.0),
        );
        (cpu, started) = (cpu_now, started_now);
    }
    let half = &memory[memory.len() / 2 - 1..];
    let (low, high) = (half.iter().min().unwrap(), half.iter().max().unwrap());
    let change = 100.0 * (*high as f64 / *low as f64 - 1.0);
    println!("| the last half, apart by at most | | | {change:.1} %, aim {FLAT_WITHIN} % | | | |");
    // They would report the end of the service as a fault.
    tasks.shutdown().await;
    if seconds >= FLAT_AFTER_SECONDS && change > FLAT_WITHIN {
        eprintln!("memory of the last half is not flat within {FLAT_WITHIN} %");
        std::process::exit(1);
    }
}
