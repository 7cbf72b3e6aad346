//! Cost of a member in between: a client at the owner of its resource manager, and one at another
//! member, which forwards.
//!
//! `cargo bench --bench forwarding`: two members, each a process, on one etcd. The first serves two
//! resource managers, of which one is connected to the second member. They ask in turns, so that
//! other work of the machine affects both. Needs etcd: `MONOCEROS_ETCD_PACKAGED=PROGRAM` names it,
//! and `MONOCEROS_ETCD=install` unpacks Debian's. See docs/performance.md.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

#[cfg(feature = "cluster")]
mod aims;
#[cfg(feature = "cluster")]
#[allow(dead_code, unreachable_pub, reason = "the tests of the store use all of it")]
#[path = "../cluster/store/tests/etcd/servers.rs"]
mod servers;
#[cfg(feature = "cluster")]
mod service;

#[cfg(not(feature = "cluster"))]
fn main() {
    eprintln!("built without the feature `cluster`");
}

#[cfg(feature = "cluster")]
fn main() -> std::process::ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(measured::all())
}

#[cfg(feature = "cluster")]
mod measured {
    use std::process::ExitCode;
    use std::time::Duration;

    use monoceros_cluster_store::ClusterName;
    use monoceros_cluster_store::etcd::Etcd;
    use monoceros_proto::si::v1 as si;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::mpsc;
    use tokio::time::{Instant, sleep, timeout};
    use tokio_stream::wrappers::ReceiverStream;
    use tonic::{Request, Streaming};

    use crate::aims::{at_least, at_most};
    use crate::servers::{Program, Server, options, ready};
    use crate::service::{Service, resource};

    const QUEUES: &str = "partitions: [{name: default, queues: [{name: root, submitacl: '*', \
                          queues: [{name: a}]}]}]";
    const NODES: usize = 1_000;
    /// Pairs of asks, of which one is direct.
    const PAIRS: usize = 3_000;
    /// Pairs before those that are measured.
    const WARM_UP: usize = 300;
    /// Asks of a run in which all are pending at once.
    const ASKS: usize = 50_000;
    const BATCH: usize = 1_000;
    /// Runs with new members.
    const RUNS: usize = 5;
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A resource manager with its stream of allocations.
    struct Rm {
        requests: mpsc::Sender<si::AllocationRequest>,
        answers: Streaming<si::AllocationResponse>,
        /// Asks so far.
        asked: usize,
    }

    /// Two members, of which the first serves both resource managers.
    struct Members {
        owner: Service,
        other: Service,
        direct: Rm,
        through: Rm,
    }

    /// Rates of a run, per second.
    #[derive(Clone, Copy)]
    struct Rates {
        direct: f64,
        through: f64,
        /// CPU time of the second member per allocation, in µs.
        cpu_us: f64,
    }

    pub(crate) async fn all() -> ExitCode {
        let Some(program) = Program::packaged().or_else(Program::built) else {
            return ExitCode::FAILURE;
        };
        let etcd = Server::new(&program, &[]).unwrap();
        let name = ClusterName::new("forwarding").unwrap();
        ready(&Etcd::new(&name, options(&etcd)).unwrap()).await.unwrap();
        let mut added = Vec::new();
        let mut rates = Vec::new();
        for number in 0..RUNS {
            let mut members = timeout(PATIENCE, Members::start(&etcd, number)).await.unwrap();
            if number == 0 {
                added = members.pairs().await;
            }
            rates.push(members.rates(number % 2 == 1).await);
        }
        print_pairs(&added);
        println!();
        print_rates(&rates);
        ExitCode::SUCCESS
    }

    impl Members {
        async fn start(etcd: &Server, number: usize) -> Self {
            let (endpoint, cluster) = (etcd.endpoint(), format!("run-{number}"));
            let start = |id| {
                Service::start_with(&[
                    ("CLUSTER__ARBITER", "etcd"),
                    ("CLUSTER__ENDPOINTS", &*endpoint),
                    ("CLUSTER__NAME", &*cluster),
                    ("CLUSTER__ID", id),
                ])
            };
            let owner = start("owner");
            until_ready(&owner).await;
            for rm_id in ["direct", "through"] {
                let registration = si::RegisterResourceManagerRequest {
                    rm_id: rm_id.to_owned(),
                    config: QUEUES.to_owned(),
                    ..Default::default()
                };
                owner.client().await.register_resource_manager(registration).await.unwrap();
            }
            // Later, so that the first one was alone and serves both.
            let other = start("other");
            until_ready(&other).await;
            let direct = Rm::open(&owner, "direct").await;
            let through = Rm::open(&other, "through").await;
            Self { owner, other, direct, through }
        }

        /// Measures single asks: the duration of a direct one and of one through the other member,
        /// in µs.
        async fn pairs(&mut self) -> Vec<(f64, f64)> {
            for _ in 0..WARM_UP {
                self.direct.one().await;
                self.through.one().await;
            }
            let mut pairs = Vec::new();
            for number in 0..PAIRS {
                let pair = if number % 2 == 0 {
                    let direct = self.direct.one().await;
                    (direct, self.through.one().await)
                } else {
                    let through = self.through.one().await;
                    (self.direct.one().await, through)
                };
                pairs.push(pair);
            }
            pairs
        }

        async fn rates(&mut self, is_through_first: bool) -> Rates {
            let rate = |seconds: f64| ASKS as f64 / seconds;
            let mut direct = 0.0;
            if !is_through_first {
                direct = self.direct.many().await;
            }
            let cpu = self.other.cpu_time();
            let through = self.through.many().await;
            let cpu = self.other.cpu_time().saturating_sub(cpu);
            if is_through_first {
                direct = self.direct.many().await;
            }
            let cpu_us = cpu.as_secs_f64() * 1e6 / ASKS as f64;
            assert!(self.owner.cpu_time() > Duration::ZERO, "the owner has decided");
            Rates { direct: rate(direct), through: rate(through), cpu_us }
        }
    }

    impl Rm {
        /// Opens the streams at a member, with nodes and an application.
        async fn open(member: &Service, rm_id: &str) -> Self {
            let mut client = member.client().await;
            let nodes = (0..NODES).map(|number| si::NodeInfo {
                node_id: format!("node-{number:04}"),
                action: si::node_info::ActionFromRm::Create as i32,
                schedulable_resource: Some(resource(&[("memory", 1 << 30), ("vcore", 1 << 30)])),
                ..Default::default()
            });
            let nodes = nodes.collect();
            let request = si::NodeRequest { nodes, rm_id: rm_id.to_owned(), ..Default::default() };
            let mut accepted =
                client.update_node(tokio_stream::iter([request])).await.unwrap().into_inner();
            let mut count = 0;
            while count < NODES {
                count += accepted.message().await.unwrap().unwrap().accepted.len();
            }
            let application = si::AddApplicationRequest {
                application_id: "app".to_owned(),
                queue_name: "root.a".to_owned(),
                ugi: Some(si::UserGroupInformation {
                    user: "bench".to_owned(),
                    groups: Vec::new(),
                }),
                ..Default::default()
            };
            let new = vec![application];
            let request =
                si::ApplicationRequest { new, rm_id: rm_id.to_owned(), ..Default::default() };
            let stream = tokio_stream::iter([request]);
            let mut answers = client.update_application(stream).await.unwrap().into_inner();
            assert_eq!(answers.message().await.unwrap().unwrap().accepted.len(), 1);
            let (requests, outgoing) = mpsc::channel(64);
            let mut stream = Request::new(ReceiverStream::new(outgoing));
            stream.metadata_mut().insert("x-si-rm-id", rm_id.parse().unwrap());
            let answers = client.update_allocation(stream).await.unwrap().into_inner();
            Self { requests, answers, asked: 0 }
        }

        fn message(&mut self, asks: usize) -> si::AllocationRequest {
            let ask = |number: usize| si::Allocation {
                allocation_key: format!("ask-{number:06}"),
                application_id: "app".to_owned(),
                resource_per_alloc: Some(resource(&[("memory", 10), ("vcore", 1)])),
                ..Default::default()
            };
            let from = self.asked;
            self.asked += asks;
            let allocations = (from..self.asked).map(ask).collect();
            si::AllocationRequest { allocations, ..Default::default() }
        }

        async fn until_allocated(&mut self, asks: usize) {
            let mut count = 0;
            while count < asks {
                let answer = timeout(PATIENCE, self.answers.message()).await;
                count += answer.expect("an allocation").unwrap().unwrap().new.len();
            }
        }

        /// Makes an ask. Returns the time until its allocation, in µs.
        async fn one(&mut self) -> f64 {
            let message = self.message(1);
            let begun = Instant::now();
            self.requests.send(message).await.unwrap();
            self.until_allocated(1).await;
            begun.elapsed().as_secs_f64() * 1e6
        }

        /// Makes many asks. Returns the time until the last allocation, in seconds.
        async fn many(&mut self) -> f64 {
            // To make the messages is no work of the members.
            let messages: Vec<_> = (0..ASKS / BATCH).map(|_| self.message(BATCH)).collect();
            let requests = self.requests.clone();
            let begun = Instant::now();
            tokio::spawn(async move {
                for message in messages {
                    requests.send(message).await.unwrap();
                }
            });
            self.until_allocated(ASKS).await;
            begun.elapsed().as_secs_f64()
        }
    }

    /// Waits until a member may decide.
    async fn until_ready(member: &Service) {
        loop {
            let mut connection = TcpStream::connect(&member.rest).await.unwrap();
            let request = "GET /readyz HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
            connection.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            connection.read_to_string(&mut answer).await.unwrap();
            if answer.starts_with("HTTP/1.1 200") {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// The value below which this part of the values lies.
    fn quantile(values: &mut [f64], part: f64) -> f64 {
        values.sort_by(f64::total_cmp);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
        let at = (values.len() as f64 * part) as usize;
        values[at.min(values.len() - 1)]
    }

    fn print_pairs(pairs: &[(f64, f64)]) {
        let mut direct: Vec<_> = pairs.iter().map(|pair| pair.0).collect();
        let mut through: Vec<_> = pairs.iter().map(|pair| pair.1).collect();
        let added = quantile(&mut through, 0.5) - quantile(&mut direct, 0.5);
        println!("| one ask at a time, µs until its allocation | p50 | p99 | aim |");
        println!("|---|---|---|---|");
        for (what, values) in [("at the owner", &mut direct), ("at another member", &mut through)] {
            let (p50, p99) = (quantile(values, 0.5), quantile(values, 0.99));
            println!("| {what} | {p50:.0} | {p99:.0} | |");
        }
        println!("| added | {} | | ≤ 300 |", at_most(added, 300.0, 0));
    }

    fn print_rates(rates: &[Rates]) {
        let median = |of: fn(&Rates) -> f64| {
            let mut values: Vec<_> = rates.iter().map(of).collect();
            quantile(&mut values, 0.5)
        };
        let (direct, through) = (median(|it| it.direct), median(|it| it.through));
        println!("| {ASKS} asks in messages of {BATCH} | allocations/s | aim |");
        println!("|---|---|---|");
        println!("| at the owner | {direct:.0} | |");
        println!("| at another member | {} | ≥ 100000 |", at_least(through, 100_000.0, 0));
        println!("| of that at the owner | {:.2} | |", median(|it| it.through / it.direct));
        println!("| CPU of the other member, µs each | {:.1} | |", median(|it| it.cpu_us));
    }
}
