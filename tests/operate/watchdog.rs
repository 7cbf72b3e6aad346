//! Health of the scheduler in probes, events and metrics, which answer even if the scheduler does
//! not.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros::connections::Connections;
use monoceros::grpc::{self, RegistrationSources};
use monoceros::logbook::Logbook;
use monoceros::reads::Source;
use monoceros::rest;
use monoceros::security::Security;
use monoceros::settings::{Flags, Settings};
use monoceros::watchdog::Watchdog;
use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::{PATIENCE, QUEUES, Rm, Service, application, ask, node, registration};

/// A resource manager in this process whose calls block until they are released.
struct Hanging {
    /// Blocks a call on the front's thread.
    on_nodes: Mutex<Receiver<()>>,
    /// Blocks a call on the partition's thread.
    on_predicate: Mutex<Receiver<()>>,
}

impl ResourceManagerCallback for Hanging {
    fn update_allocation(&self, _: si::AllocationResponse) {}

    fn update_application(&self, _: si::ApplicationResponse) {}

    fn update_node(&self, _: si::NodeResponse) {
        let _ = self.on_nodes.lock().unwrap().recv();
    }

    fn predicates(&self, _: &si::PredicatesArgs) -> Result<(), String> {
        let _ = self.on_predicate.lock().unwrap().recv();
        Ok(())
    }
}

/// A scheduler in this process with a watchdog and both edges.
struct Watched {
    handle: SchedulerHandle,
    grpc: SocketAddr,
    http: SocketAddr,
    stop: CancellationToken,
    _watchdog: Watchdog,
}

impl Watched {
    async fn start() -> Self {
        let settings = Settings::load(None, &Flags::default()).unwrap();
        let security = Security::load(&settings).unwrap();
        let handle = Scheduler::builder().start().unwrap();
        let watchdog = Watchdog::start(&handle).unwrap();
        let stop = CancellationToken::new();
        let listen = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (rpc, http) = (listen().await, listen().await);
        let addresses = [rpc.local_addr().unwrap(), http.local_addr().unwrap()];
        let rpc = Connections::new(rpc, None, stop.clone());
        let http = Connections::new(http, None, stop.clone());
        let (access, health) = (Arc::clone(&security.access), watchdog.health());
        let logbook = Logbook::begin(&handle, &settings, &stop).await;
        let source = Source { logbook: logbook.clone(), ..Source::new(handle.clone(), &settings) };
        let beside = (source.door.clone(), logbook, rest::WhatIf::off());
        let (scheduler, stopping, of_rest) = (handle.clone(), stop.clone(), settings.clone());
        tokio::spawn(async move {
            rest::serve(http, scheduler, beside, access, &of_rest.rest, health, stopping).await
        });
        let (access, health) = (Arc::clone(&security.access), watchdog.health());
        let stopping = stop.clone();
        tokio::spawn(async move {
            let none = RegistrationSources::default();
            grpc::serve(rpc, source, access, &settings, none, health, stopping).await
        });
        let [grpc, http] = addresses;
        Self { handle, grpc, http, stop, _watchdog: watchdog }
    }

    async fn register(&self, callback: Hanging) {
        let callback = Arc::new(callback);
        self.handle.register_resource_manager(registration("rm", QUEUES), callback).await.unwrap();
        let nodes = si::NodeRequest {
            rm_id: "rm".to_owned(),
            nodes: vec![node("n1", 10_000, 10)],
            ..Default::default()
        };
        self.handle.update_node(nodes).await.unwrap();
    }

    async fn get(&self, path: &str) -> String {
        let mut connection = TcpStream::connect(self.http).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Returns the answers of the two probes.
    async fn probes(&self) -> (String, ServingStatus) {
        let answer = self.get("/healthz").await;
        let endpoint = Endpoint::from_shared(format!("http://{}", self.grpc)).unwrap();
        let mut client = HealthClient::new(endpoint.connect().await.unwrap());
        let status = client.check(HealthCheckRequest::default()).await.unwrap().into_inner();
        (answer.lines().next().unwrap().to_owned(), status.status())
    }

    /// Waits until both probes have these answers. Each answers quickly.
    async fn until_probes(&self, line: &str, status: ServingStatus) {
        let said = async {
            loop {
                let probes = timeout(Duration::from_secs(4), self.probes()).await;
                let (said, serving) = probes.expect("a probe waits for nobody");
                if said.contains(line) && serving == status {
                    return;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        assert!(timeout(2 * PATIENCE, said).await.is_ok(), "{line} {status:?}");
    }

    fn metric(&self, name: &str) -> f64 {
        let families = self.handle.metrics().gather();
        let family = families.iter().find(|family| family.name() == name).unwrap();
        let metric = &family.get_metric()[0];
        metric.get_counter().get_value() + metric.get_gauge().get_value()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_report_a_stuck_front_at_once() {
    let watched = Watched::start().await;
    let (release, on_nodes) = channel();
    let (_, on_predicate) = channel();
    watched.until_probes("200", ServingStatus::Serving).await;
    let callback =
        Hanging { on_nodes: Mutex::new(on_nodes), on_predicate: Mutex::new(on_predicate) };
    watched.register(callback).await;
    watched.until_probes("503", ServingStatus::NotServing).await;
    assert!(watched.metric("monoceros_front_stuck") > 0.0);
    // From here on no call blocks.
    drop(release);
    watched.until_probes("200", ServingStatus::Serving).await;
    assert!(watched.metric("monoceros_front_stuck") < 1.0);
    watched.stop.cancel();
    watched.handle.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_step_is_an_event_and_counted() {
    let watched = Watched::start().await;
    let (release, on_predicate) = channel();
    let (_, on_nodes) = channel();
    let callback =
        Hanging { on_nodes: Mutex::new(on_nodes), on_predicate: Mutex::new(on_predicate) };
    watched.register(callback).await;
    let rm_id = || "rm".to_owned();
    let new = vec![application("app", "root.a")];
    let applications = si::ApplicationRequest { rm_id: rm_id(), new, ..Default::default() };
    watched.handle.update_application(applications).await.unwrap();
    let allocations = vec![ask("app", "x")];
    let asks = si::AllocationRequest { rm_id: rm_id(), allocations, ..Default::default() };
    watched.handle.update_allocation(asks).await.unwrap();
    let late = async {
        while watched.metric("monoceros_late_steps_total") < 1.0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(PATIENCE, late).await.is_ok());
    let events = watched.handle.events().range(0, u64::MAX).records;
    let reported = events.iter().filter(|event| event.message.contains("longer than a second"));
    let reported: Vec<_> =
        reported.map(|event| (&*event.object_id, &*event.reference_id)).collect();
    assert_eq!(reported, [("root", "default")]);
    watched.until_probes("200", ServingStatus::Serving).await;
    let metrics = timeout(PATIENCE, watched.get("/ws/v1/metrics")).await.unwrap();
    assert!(metrics.contains("\nmonoceros_late_partitions 1\n"), "{metrics}");
    drop(release);
    let home = async {
        while watched.metric("monoceros_late_partitions") > 0.0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(PATIENCE, home).await.is_ok());
    assert!((watched.metric("monoceros_late_steps_total") - 1.0).abs() < 0.5, "reported once");
    watched.stop.cancel();
    watched.handle.shutdown().await;
}

#[tokio::test]
async fn a_suspended_process_finds_nothing_late() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    service.send_signal("-STOP");
    // Longer than the front's timeout.
    sleep(Duration::from_secs(7)).await;
    service.send_signal("-CONT");
    rm.send_allocations(vec![], vec![ask("app", "x")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(service.get("/healthz").await, "serving\n");
    assert_eq!(service.counted("monoceros_late_steps_total").await, 0);
    let log = service.log();
    assert!(!log.contains("does not answer") && !log.contains("longer than"), "{log}");
}
