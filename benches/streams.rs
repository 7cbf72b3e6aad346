//! Cost of event streams over HTTP to the service, and their throughput.
//!
//! `cargo bench --bench streams`: the service in its own process, 100 streams that are read as fast
//! as possible, and a resource manager that adds and removes foreign allocations, each of which is
//! an event. `BENCH_SERVICE` names another build of the service. See docs/performance.md for the
//! figures.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod service;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use monoceros_proto::si::v1 as si;
use service::{Service, resource};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;

const STREAMS: usize = 100;
const MEASURED: Duration = Duration::from_secs(8);
/// Interval of the resource manager's messages.
const TICK: Duration = Duration::from_millis(10);

/// Totals of all streams.
#[derive(Default)]
struct Counts {
    lines: AtomicU64,
    bytes: AtomicU64,
    ended: AtomicU64,
}

/// Reads a stream to its end.
async fn follow(address: String, counts: Arc<Counts>) {
    let mut connection = TcpStream::connect(&address).await.unwrap();
    let request = format!("GET /ws/v1/events/stream HTTP/1.1\r\nhost: {address}\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut buffer = vec![0; 256 << 10];
    loop {
        let read = connection.read(&mut buffer).await.unwrap_or(0);
        let text = &buffer[..read];
        // A closed stream has an empty last chunk.
        if read == 0 || text.ends_with(b"\n0\r\n\r\n") {
            counts.ended.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let lines = text.windows(2).filter(|end| *end == b"}\n").count();
        counts.lines.fetch_add(lines as u64, Ordering::Relaxed);
        counts.bytes.fetch_add(read as u64, Ordering::Relaxed);
    }
}

/// A resource manager with a node, and its allocation stream.
async fn manager(service: &Service) -> mpsc::Sender<si::AllocationRequest> {
    let mut client = service.client().await;
    let registration = si::RegisterResourceManagerRequest {
        rm_id: "bench".into(),
        version: "1".into(),
        policy_group: "queues".into(),
        ..Default::default()
    };
    client.register_resource_manager(registration).await.unwrap();
    let node = si::NodeInfo {
        node_id: "node".into(),
        action: si::node_info::ActionFromRm::Create.into(),
        schedulable_resource: Some(resource(&[("vcore", 1 << 40)])),
        ..Default::default()
    };
    let request =
        si::NodeRequest { rm_id: "bench".into(), nodes: vec![node], ..Default::default() };
    let stream = Request::new(tokio_stream::iter([request]));
    let mut accepted = client.update_node(stream).await.unwrap().into_inner();
    assert_eq!(accepted.message().await.unwrap().unwrap().accepted.len(), 1);
    let (requests, outgoing) = mpsc::channel(64);
    let answers = client.update_allocation(Request::new(ReceiverStream::new(outgoing))).await;
    let mut answers = answers.unwrap().into_inner();
    tokio::spawn(async move { while let Ok(Some(_)) = answers.message().await {} });
    requests
}

/// Makes this many events: half of them add foreign allocations, half remove them.
fn request(events: usize) -> si::AllocationRequest {
    let key = |number: usize| format!("pod-{number:06}");
    let come = (0..events / 2).map(|number| si::Allocation {
        allocation_key: key(number),
        node_id: "node".into(),
        allocation_tags: [("foreign".to_owned(), "default".to_owned())].into(),
        resource_per_alloc: Some(resource(&[("memory", 10), ("vcore", 1)])),
        ..Default::default()
    });
    let go = (0..events / 2)
        .map(|number| si::AllocationRelease { allocation_key: key(number), ..Default::default() });
    let releases = si::AllocationReleasesRequest {
        allocations_to_release: go.collect(),
        ..Default::default()
    };
    si::AllocationRequest {
        rm_id: "bench".into(),
        allocations: come.collect(),
        releases: Some(releases),
        ..Default::default()
    }
}

async fn measure(service: &Service, streams: usize, per_second: usize) {
    let requests = manager(service).await;
    let counts = Arc::new(Counts::default());
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..streams {
        readers.spawn(follow(service.rest.clone(), Arc::clone(&counts)));
    }
    sleep(Duration::from_millis(500)).await;
    let (began, cpu) = (Instant::now(), service.cpu_time());
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut said = 0;
    while began.elapsed() < MEASURED {
        ticks.tick().await;
        let events = per_second / 100;
        requests.send(request(events)).await.unwrap();
        said += events;
    }
    sleep(Duration::from_millis(500)).await;
    let cpu = service.cpu_time().saturating_sub(cpu);
    let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "| {streams} | {:.0} | {:.0} | {:.1} | {:.2} | {} |",
        said as f64 / MEASURED.as_secs_f64(),
        load(&counts.lines) as f64 / MEASURED.as_secs_f64(),
        load(&counts.bytes) as f64 / MEASURED.as_secs_f64() / 1e6,
        cpu.as_secs_f64() / MEASURED.as_secs_f64(),
        load(&counts.ended),
    );
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    println!("| streams | events/s | lines sent/s | MB/s | cores in use | streams closed |");
    println!("|---|---|---|---|---|---|");
    runtime.block_on(async {
        for (streams, per_second) in [(0, 10_000), (1, 10_000), (STREAMS, 2_000), (STREAMS, 10_000)]
        {
            let settings =
                [("EVENT__MAX_STREAMS", "1000"), ("EVENT__MAX_STREAMS_PER_HOST", "1000")];
            measure(&Service::start_with(&settings), streams, per_second).await;
        }
    });
}
