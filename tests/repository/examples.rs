//! The examples, run as a reader would run them.

use std::time::Duration;

use backon::ExponentialBuilder;
use expect_test::expect;
use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_proto::v1;
use shim::{Order, Shim};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::Status;
use tonic::transport::Endpoint;

use crate::harness::{self, PATIENCE, Service, reason_of};

#[path = "../../examples/embed.rs"]
#[allow(dead_code, reason = "its `main` only opens standard output")]
mod embed;

#[path = "../../examples/shim.rs"]
#[allow(dead_code, reason = "its `main` only listens to the keyboard")]
mod shim;

#[tokio::test]
async fn an_embedded_scheduler_calls_predicates() {
    let mut out = Vec::new();
    embed::run(&mut out).await.unwrap();
    expect![[r"
        training is Accepted
        training is Running
        load runs on n1
        fit-1 runs on n3
        fit-1 is done, which makes room for fit-2:
        fit-1 ends: released by the resource manager
        fit-2 runs on n3
    "]]
    .assert_eq(&String::from_utf8(out).unwrap());
}

/// A running shim with its output.
struct Running {
    orders: mpsc::Sender<Order>,
    printed: mpsc::UnboundedReceiver<String>,
    end: JoinHandle<Result<(), Status>>,
    all: Vec<String>,
}

impl Running {
    fn start(service: &Service) -> Self {
        let (orders, received) = mpsc::channel(1);
        let (print, printed) = mpsc::unbounded_channel();
        let pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(10))
            .with_max_delay(Duration::from_millis(100))
            .without_max_times();
        let options = Shim::options(format!("http://{}", service.grpc)).unwrap().pauses(pauses);
        let shim = Shim::new(options, move |line| {
            let _ = print.send(line);
        });
        let end = tokio::spawn(shim.run(received));
        Self { orders, printed, end, all: Vec::new() }
    }

    /// Waits for a line, and returns the output since the last call.
    async fn until(&mut self, awaited: impl Fn(&[String]) -> bool) -> Vec<String> {
        let mut since = Vec::new();
        while !awaited(&since) {
            let line = timeout(PATIENCE, self.printed.recv()).await;
            let Ok(Some(line)) = line else { panic!("so far: {:#?}, then {since:#?}", self.all) };
            since.push(line);
        }
        self.all.extend_from_slice(&since);
        since
    }

    async fn order(&self, order: Order) {
        self.orders.send(order).await.unwrap();
    }
}

/// Returns the lines with this text about tasks, as `task node`.
fn places(lines: &[String], verb: &str) -> Vec<String> {
    let mut places: Vec<_> = lines.iter().filter_map(|line| line.split_once(verb)).collect();
    places.sort_unstable();
    places.into_iter().map(|(task, node)| format!("{task} {node}")).collect()
}

#[tokio::test]
async fn the_grpc_shim_restores_a_restarted_scheduler() {
    let address = harness::address();
    let service = Service::start_at(&address, "127.0.0.1:0");
    let mut shim = Running::start(&service);
    let ran = shim.until(|lines| places(lines, " runs on ").len() == 4).await;
    let running = places(&ran, " runs on ");
    // Any four of them run, since tasks are placed in parallel.
    let trains = |places: &[String]| places.iter().find(|it| it.starts_with("train ")).cloned();
    assert!(trains(&running).is_none_or(|it| it == "train n2"), "the GPU is there: {running:?}");

    drop(service);
    shim.until(|lines| lines.iter().any(|line| line.contains("trying again"))).await;
    let service = Service::start_at(&address, "127.0.0.1:0");
    let still = shim.until(|lines| places(lines, " is still on ").len() == 4).await;
    assert_eq!(places(&still, " is still on "), running);
    assert!(places(&still, " runs on ").is_empty(), "nothing runs twice: {still:?}");

    // The cluster is full. The end of a task makes room for the fifth.
    let on_gpu = running.iter().find(|it| it.starts_with("web-") && it.ends_with(" n2"));
    let (task, node) = on_gpu.unwrap().split_once(' ').unwrap();
    shim.order(Order::End(task.to_owned())).await;
    let last = shim.until(|lines| !places(lines, " runs on ").is_empty()).await;
    assert!(last.contains(&format!("{task} is over")), "{last:?}");
    assert!(places(&last, " runs on ")[0].ends_with(node), "{last:?}");
    let runs = trains(&running).or_else(|| trains(&places(&last, " runs on ")));
    assert_eq!(runs.as_deref(), Some("train n2"));

    shim.order(Order::Leave).await;
    timeout(PATIENCE, shim.end).await.unwrap().unwrap().unwrap();
    drop(service);
}

#[tokio::test]
async fn a_deregistered_shim_ends() {
    let service = Service::start();
    let mut shim = Running::start(&service);
    shim.until(|lines| places(lines, " runs on ").len() == 4).await;
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    let mut admin = AdminServiceClient::new(endpoint.connect().await.unwrap());
    let gone =
        v1::DeregisterResourceManagerRequest { rm_id: "example".into(), ..Default::default() };
    admin.deregister_resource_manager(gone).await.unwrap();
    let lost = timeout(PATIENCE, shim.end).await.unwrap().unwrap().unwrap_err();
    assert_eq!(reason_of(&lost), "DEREGISTERED");
}
