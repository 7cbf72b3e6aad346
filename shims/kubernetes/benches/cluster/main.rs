//! Benchmark of the shim and the scheduler in one process, over a simulated API server.
//!
//! `cargo bench -p monoceros-kubernetes --bench cluster`, or with the name of a shape behind `--`.
//! Each shape runs in a process of its own. CPU time is that of the whole process: it includes the
//! stub, which writes and reads JSON like a server, but no network. See docs/performance.md.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs, unreachable_pub)]
#![allow(clippy::needless_pass_by_value)] // JSON as it is written down.

mod mirror;
#[allow(dead_code)] // Some of it is for the tests alone.
mod stub;

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use mimalloc::MiMalloc;
use monoceros_actors::Scheduler;
use monoceros_kubernetes::act::{ApiSettings, Victims};
use monoceros_kubernetes::engine::Embedded;
use monoceros_kubernetes::meters::Meters;
use monoceros_kubernetes::run::{self, Options, ReplicaState};
use monoceros_kubernetes::translate::Mapping;
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::stub::Stub;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const NODES: usize = 5_000;
const PODS: usize = 50_000;
const APPLICATIONS: usize = 50;
/// Time limit of a shape.
const PATIENCE: Duration = Duration::from_secs(120);
const SHAPES: [&str; 8] =
    ["fill", "trickle", "gangs", "large-gang", "restart", "takeover", "takeover-pending", "mirror"];

fn main() -> ExitCode {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if let [shape] = &wanted[..] {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(run_shape(shape));
        return ExitCode::SUCCESS;
    }
    for shape in SHAPES {
        let program = std::env::current_exe().unwrap();
        let status = Command::new(program).arg(shape).status().unwrap();
        if !status.success() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

async fn run_shape(shape: &str) {
    match shape {
        "fill" => {
            let stub = Stub::new(NODES);
            for number in 0..PODS {
                stub.add(number, &application(number % APPLICATIONS), json!({}), None);
            }
            fill("fill: 50,000 pods of 50 applications on 5,000 nodes", stub, PODS).await;
        }
        "gangs" => {
            let stub = Stub::new(NODES);
            for number in 0..10_000 {
                let (gang, member) = (number / 20, number % 20);
                let more = member_of(20, member == 0);
                stub.add(number, &format!("gang-{gang}"), more, None);
            }
            fill("gangs: 500 of 20 pods on 5,000 nodes", stub, 10_000).await;
        }
        "large-gang" => {
            let stub = Stub::new(NODES);
            for number in 0..10_000 {
                stub.add(number, "gang", member_of(10_000, number == 0), None);
            }
            fill("large gang: 1 of 10,000 pods on 5,000 nodes", stub, 10_000).await;
        }
        "trickle" => trickle().await,
        "restart" => {
            let stub = Stub::new(NODES);
            for number in 0..PODS {
                let node = format!("n{}", number % NODES);
                stub.add(number, &application(number % APPLICATIONS), json!({}), Some(&node));
            }
            stub.add(PODS, "new", json!({}), None);
            fill("restart: the first of new pods beside 50,000 that run", stub, 1).await;
        }
        "takeover" => {
            let stub = Stub::new(NODES);
            for number in 0..PODS {
                let node = format!("n{}", number % NODES);
                stub.add(number, &application(number % APPLICATIONS), json!({}), Some(&node));
            }
            stub.add(PODS, "new", json!({}), None);
            takeover("takeover: 1 pod waits beside 50,000 that run", stub, 1).await;
        }
        "takeover-pending" => {
            let stub = Stub::new(NODES);
            for number in 0..PODS {
                stub.add(number, &application(number % APPLICATIONS), json!({}), None);
            }
            takeover("takeover: 50,000 pods wait", stub, PODS).await;
        }
        "mirror" => mirror::run(),
        other => panic!("there is no shape `{other}`: {}", SHAPES.join(", ")),
    }
}

fn application(number: usize) -> String {
    format!("app-{number}")
}

/// Annotations of a gang member, which may declare the gang.
fn member_of(members: usize, declares: bool) -> Value {
    let groups = json!([{"name": "w", "minMember": members,
        "minResource": {"cpu": "100m", "memory": "64Mi"}}]);
    let mut annotations = json!({"monoceros.io/task-group-name": "w"});
    if declares {
        annotations["monoceros.io/task-groups"] = json!(groups.to_string());
    }
    json!({"annotations": annotations})
}

/// Starts the shim and the scheduler.
fn start(stub: &Arc<Stub>) -> CancellationToken {
    start_with(stub, None).0
}

/// Same as [`start`], as one of several replicas if there is a lease.
fn start_with(
    stub: &Arc<Stub>,
    lease: Option<&str>,
) -> (CancellationToken, watch::Receiver<ReplicaState>) {
    let scheduler = Scheduler::builder().start().unwrap();
    let meters = Arc::new(Meters::new(&prometheus::Registry::new()).unwrap());
    let options = Options {
        namespace: "monoceros".to_owned(),
        lease: lease.map(str::to_owned),
        identity: "bench".to_owned(),
        pod: lease.map(|_| "own".to_owned()),
        lease_duration: Duration::from_secs(20),
        mapping: Mapping { scheduler_names: vec!["monoceros".to_owned()], ..Mapping::default() },
        api: ApiSettings {
            bindings: 64,
            victims: Victims::EvictThenDelete,
            eviction_timeout: Duration::from_secs(60),
            volume_timeout: Duration::from_secs(600),
            events_per_second: 50,
        },
        conditions_per_second: 50,
    };
    let stop = CancellationToken::new();
    let client = stub.client();
    let (state, states) = watch::channel(ReplicaState::default());
    let engine = move |scene, notify| Embedded::new(scheduler, "kubernetes", scene, notify, false);
    let work = run::run(client, options, meters, state, stop.clone(), engine);
    tokio::spawn(async move { work.await.unwrap() });
    (stop, states)
}

/// Measures from the lease, which another replica has given back, to the first binding.
async fn takeover(what: &str, stub: Arc<Stub>, wanted: usize) {
    /// How long the replica stands by.
    const STANDS_BY: Duration = Duration::from_secs(5);
    stub.set_lease("other");
    let (stop, mut states) = start_with(&stub, Some("lease"));
    let stands_by = |state: &ReplicaState| matches!(state, ReplicaState::Standby(Some(_)));
    timeout(PATIENCE, states.wait_for(stands_by)).await.unwrap().unwrap();
    sleep(STANDS_BY).await;
    let (cpu, memory) = (cpu_time(), peak_mib());
    stub.set_lease("");
    stub.wait_bound(1, PATIENCE).await;
    let cpu = cpu_time().saturating_sub(cpu);
    let first = stub.takeover();
    println!("{what}, on 5,000 nodes");
    println!("  {:.0} ms from the lease to the first binding", first.as_secs_f64() * 1e3);
    println!(
        "  {:.2} s of CPU since it was given back; {memory} MiB standing by",
        cpu.as_secs_f64()
    );
    let begun = Instant::now();
    stub.wait_bound(wanted, PATIENCE).await;
    if wanted > 1 {
        let last = first + begun.elapsed();
        println!("  {:.2} s from the lease to the last binding", last.as_secs_f64());
    }
    stop.cancel();
    // The lease is given back.
    sleep(Duration::from_millis(10)).await;
}

/// Measures from the start of the process to the last binding.
async fn fill(what: &str, stub: Arc<Stub>, wanted: usize) {
    let (begun, cpu) = (Instant::now(), cpu_time());
    let stop = start(&stub);
    stub.wait_bound(wanted, PATIENCE).await;
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_time().saturating_sub(cpu));
    println!("{what}");
    if wanted > 1 {
        println!("  {seconds:.2} s to the last binding, {:.0} pods/s", wanted as f64 / seconds);
        println!("  {:.0} us of CPU per pod", cpu.as_secs_f64() * 1e6 / wanted as f64);
    } else {
        println!("  {seconds:.2} s, of CPU {:.2} s", cpu.as_secs_f64());
    }
    println!("  {} MiB at the most; objects made besides: {}", peak_mib(), stub.made());
    stop.cancel();
}

/// Measures pods that arrive one by one at set times.
async fn trickle() {
    const RATE: usize = 2_000;
    const SECONDS: usize = 10;
    let stub = Stub::new(NODES);
    let stop = start(&stub);
    stub.add(0, "app-0", json!({}), None);
    stub.wait_bound(1, PATIENCE).await;
    let (begun, cpu) = (Instant::now(), cpu_time());
    let n = RATE * SECONDS;
    for number in 1..=n {
        let at = begun + Duration::from_secs_f64(number as f64 / RATE as f64);
        if at > Instant::now() {
            tokio::time::sleep_until(at).await;
        }
        stub.add(number, &application(number % APPLICATIONS), json!({}), None);
    }
    stub.wait_bound(n + 1, PATIENCE).await;
    let cpu = cpu_time().saturating_sub(cpu);
    let mut waited = stub.waited();
    waited.sort_by(f64::total_cmp);
    let at = |percent: usize| waited[(waited.len() - 1) * percent / 100] * 1e3;
    println!("trickle: {RATE} pods a second for {SECONDS} s, on 5,000 nodes");
    println!("  from seen to binding: p50 {:.2} ms, p99 {:.2} ms", at(50), at(99));
    println!("  {:.0} us of CPU per pod; {} MiB", cpu.as_secs_f64() * 1e6 / n as f64, peak_mib());
    stop.cancel();
    sleep(Duration::from_millis(10)).await;
}

fn cpu_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let of = |time: nix::sys::time::TimeVal| {
        Duration::from_micros(u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap())
    };
    of(usage.user_time()) + of(usage.system_time())
}

fn peak_mib() -> i64 {
    getrusage(UsageWho::RUSAGE_SELF).unwrap().max_rss() / 1_024
}
