//! CPU time that membership in a cluster adds to a decision: a service that is a member on etcd,
//! alone or beside two others, against one without an arbiter.
//!
//! `cargo bench --bench arbiters`, or `-- 15` for another number of pairs than nine, or `-- one` for
//! the rows with this word. Each pair starts its services anew. A stock client over loopback has
//! asks placed and releases them, in rounds that go to the services in turns. CPU counts from the
//! first ask of a round sent to its last allocation received. Needs etcd:
//! `MONOCEROS_ETCD_PACKAGED=PROGRAM` names it, and `MONOCEROS_ETCD=install` unpacks Debian's. See
//! docs/performance.md.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod aims;
mod allocator;
mod members;
#[allow(dead_code, unreachable_pub, reason = "the tests of the store use all of it")]
#[path = "../cluster/store/tests/etcd/servers.rs"]
mod servers;
mod service;

use std::process::ExitCode;
use std::time::Duration;

use monoceros_proto::si::v1 as si;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Streaming};

use crate::aims::at_most;
use crate::members::Members;
use crate::service::Service;

const RM: &str = "bench";
const NODES: usize = 1_000;
const ASKS: usize = 50_000;
/// Measured rounds of each service, after one that is not.
const ROUNDS: usize = 6;
const PAIRS: usize = 9;
const QUEUES: &str =
    "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]";

/// A service with its resource manager.
struct Case {
    /// The member that serves the resource manager, and those beside it.
    members: Option<Members>,
    alone: Option<Service>,
    rm: Rm,
    cpu: Duration,
}

impl Case {
    async fn without_arbiter() -> Self {
        let service = Service::start();
        let rm = Rm::register(&service).await;
        Self { members: None, alone: Some(service), rm, cpu: Duration::ZERO }
    }

    /// Starts members on an etcd of their own. The first is alone when the resource manager comes,
    /// which it therefore keeps. `None` without a program of etcd.
    async fn on_etcd(n: usize) -> Option<Self> {
        let mut members = Members::on_etcd().await?;
        members.start_one().await;
        let rm = Rm::register(&members.all[0].service).await;
        for _ in 1..n {
            members.start_one().await;
        }
        members.until_known().await;
        Some(Self { members: Some(members), alone: None, rm, cpu: Duration::ZERO })
    }

    fn service(&self) -> &Service {
        match &self.members {
            Some(members) => &members.all[0].service,
            None => self.alone.as_ref().unwrap(),
        }
    }

    /// Has all asks placed, and counts the CPU time of that.
    async fn round(&mut self, batch: usize) {
        let before = cpu(self.service());
        self.rm.ask(batch).await;
        self.cpu += cpu(self.service()).saturating_sub(before);
        self.rm.release().await;
    }
}

/// CPU time of all threads of a service.
fn cpu(service: &Service) -> Duration {
    service.cpu_by_thread().values().sum()
}

/// The streams of a resource manager, whose allocations are numbered.
struct Rm {
    requests: mpsc::Sender<si::AllocationRequest>,
    answers: Streaming<si::AllocationResponse>,
    round: usize,
}

impl Rm {
    /// Registers with nodes and one application.
    async fn register(service: &Service) -> Self {
        let mut client = service.client().await;
        let request = si::RegisterResourceManagerRequest::new(RM).with_queues(QUEUES);
        let mut request = Request::new(request);
        request.metadata_mut().insert("x-si-proof", "the secret of the benchmark".parse().unwrap());
        let registered = client.register_resource_manager(request).await.unwrap();
        let session = registered.metadata().get("x-si-session").unwrap().clone();
        let capacity = [("memory", 500), ("vcore", 50)];
        let node = |number| si::NodeInfo::new(format!("node-{number:04}"), capacity);
        let nodes: Vec<_> = (0..NODES).map(node).collect();
        let request = si::NodeRequest::report(RM, nodes);
        let stream = of(&session, tokio_stream::iter([request]));
        let mut accepted = client.update_node(stream).await.unwrap().into_inner();
        let mut n_accepted = 0;
        while n_accepted < NODES {
            n_accepted += accepted.message().await.unwrap().unwrap().accepted.len();
        }
        let new = si::AddApplicationRequest::new("app", "ada").with_group("dev").in_queue("root.a");
        let request = si::ApplicationRequest::submit(RM, [new]);
        let stream = of(&session, tokio_stream::iter([request]));
        let mut answers = client.update_application(stream).await.unwrap().into_inner();
        assert_eq!(answers.message().await.unwrap().unwrap().accepted.len(), 1);
        let (requests, outgoing) = mpsc::channel(64);
        let stream = of(&session, ReceiverStream::new(outgoing));
        let answers = client.update_allocation(stream).await.unwrap().into_inner();
        Self { requests, answers, round: 0 }
    }

    fn key(&self, number: usize) -> String {
        format!("ask-{}-{number:05}", self.round)
    }

    /// Asks in messages of this many, and waits for all allocations.
    async fn ask(&mut self, batch: usize) {
        self.round += 1;
        let size = [("memory", 10), ("vcore", 1)];
        let ask = |number| si::Allocation::ask("app", self.key(number), size);
        let message = |from| (from..from + batch).map(ask).collect::<Vec<_>>();
        let messages = (0..ASKS)
            .step_by(batch)
            .map(|from| si::AllocationRequest { allocations: message(from), ..Default::default() });
        let messages: Vec<_> = messages.collect();
        let requests = self.requests.clone();
        let sending = tokio::spawn(async move {
            for message in messages {
                requests.send(message).await.unwrap();
            }
        });
        let mut n_placed = 0;
        while n_placed < ASKS {
            let answer = self.answers.message().await.unwrap().unwrap();
            assert!(answer.rejected_allocations.is_empty(), "{answer:?}");
            n_placed += answer.new.len();
        }
        sending.await.unwrap();
    }

    async fn release(&mut self) {
        let release = |number| si::AllocationRelease::new("app", self.key(number));
        let releases: Vec<_> = (0..ASKS).map(release).collect();
        self.requests.send(si::AllocationRequest::release(RM, releases)).await.unwrap();
        let mut n_released = 0;
        while n_released < ASKS {
            n_released += self.answers.message().await.unwrap().unwrap().released.len();
        }
    }
}

/// A stream of a session.
fn of<T>(session: &MetadataValue<Ascii>, requests: T) -> Request<T> {
    let mut request = Request::new(requests);
    request.metadata_mut().insert("x-si-rm-id", MetadataValue::from_static(RM));
    request.metadata_mut().insert("x-si-session", session.clone());
    request
}

/// CPU in µs for each decision: without an arbiter, on etcd alone, and beside two others. `None`
/// without a program of etcd.
async fn measure(batch: usize) -> Option<[f64; 3]> {
    let mut cases =
        [Case::without_arbiter().await, Case::on_etcd(1).await?, Case::on_etcd(3).await?];
    for case in &mut cases {
        case.round(batch).await;
        case.cpu = Duration::ZERO;
    }
    for round in 0..ROUNDS {
        for place in 0..cases.len() {
            // Each is the first as often as the others.
            cases[(place + round) % 3].round(batch).await;
        }
    }
    let decisions = (ROUNDS * ASKS) as f64;
    Some(cases.map(|case| case.cpu.as_secs_f64() * 1e6 / decisions))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let pairs = words.iter().find_map(|word| word.parse().ok()).unwrap_or(PAIRS);
    let words: Vec<_> = words.iter().filter(|word| word.parse::<usize>().is_err()).collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    println!("| asks come | arbiter | CPU µs each | of that without an arbiter | aim |");
    println!("|---|---|---|---|---|");
    for (name, batch) in [("in messages of 1,000", 1_000), ("in messages of one", 1)] {
        if !words.iter().all(|word| name.contains(word.as_str())) {
            continue;
        }
        let mut runs = Vec::new();
        for _ in 0..pairs {
            let Some(run) = runtime.block_on(measure(batch)) else { return ExitCode::FAILURE };
            eprintln!("{name}: {run:.2?}");
            runs.push(run);
        }
        let cases = ["none", "etcd, one member", "etcd, three members"];
        for (case, arbiter) in cases.into_iter().enumerate() {
            let cpu = median(runs.iter().map(|run| run[case]).collect());
            let ratio = median(runs.iter().map(|run| run[case] / run[0]).collect());
            if case == 0 {
                println!("| {name} | {arbiter} | {cpu:.2} | | |");
            } else {
                let ratio = at_most(ratio, 1.02, 3);
                println!("| {name} | {arbiter} | {cpu:.2} | {ratio} | ≤ 1.02 |");
            }
        }
    }
    ExitCode::SUCCESS
}
