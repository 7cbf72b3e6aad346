//! Scheduler behind gRPC, as `monoceros serve` runs it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use monoceros::connections::Connections;
use monoceros::grpc::{self, RegistrationSources};
use monoceros::identity::Access;
use monoceros::reads::Source;
use monoceros::settings::{Flags, Settings};
use monoceros::watchdog::{Health, Healthy};
use monoceros_actors::{Scheduler, SchedulerHandle};
use monoceros_kubernetes::engine::{Remote, Service};
use monoceros_kubernetes::shim::{Notification, SharedScene};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;

use crate::world::RM;

/// Number of message rounds after which both sides must be idle.
const ROUNDS: usize = 12;

/// Whether the scheduler is reached over the network.
pub const IS_ELSEWHERE: bool = true;

/// Number of random histories. Each takes a second.
pub const CASES: u32 = 20;

/// A scheduler, and its engine for the shim.
pub struct Side {
    pub scheduler: SchedulerHandle,
    pub engine: Remote,
    pub address: SocketAddr,
    stop: CancellationToken,
    serves: JoinHandle<()>,
}

impl Side {
    pub fn new(scene: SharedScene, notify: UnboundedSender<Notification>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (scheduler, stop, serves) = serve(TcpListener::from_std(listener).unwrap());
        let service = Service {
            endpoint: Endpoint::from_shared(format!("http://{address}")).unwrap(),
            tls: None,
            authorization: None,
            rm_id: RM.to_owned(),
            instance: "test".to_owned(),
        };
        let engine = Remote::new(service, scene, notify);
        Self { scheduler, engine, address, stop, serves }
    }

    /// Stops the server. Its state is lost.
    pub async fn end(&mut self) {
        self.stop.cancel();
        (&mut self.serves).await.unwrap();
    }

    /// Starts another scheduler without state at the same address.
    pub async fn start(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        (self.scheduler, self.stop, self.serves) = serve(listener);
    }

    /// Waits until everything sent is decided and its notifications have arrived.
    pub async fn settle(&self) {
        for _ in 0..ROUNDS {
            sleep(Duration::from_millis(1)).await;
            self.scheduler.settle().await;
        }
    }
}

pub fn serve(listener: TcpListener) -> (SchedulerHandle, CancellationToken, JoinHandle<()>) {
    // Without this setting a node reserved for a large pod would be closed to small ones.
    let scheduler = Scheduler::builder().reservation_delay(None).start_local().unwrap();
    let stop = CancellationToken::new();
    let connections = Connections::new(listener, None, stop.clone());
    let settings = Settings::load(None, &Flags::default()).unwrap();
    let source = Source::new(scheduler.clone(), &settings);
    let access = Arc::new(Access::load(&settings.identity).unwrap());
    let (healthy, until) = (Healthy::fixed(Health::Serving), stop.clone());
    let serves = tokio::spawn(async move {
        let none = RegistrationSources::default();
        grpc::serve(connections, source, access, &settings, none, healthy, until).await.unwrap();
    });
    (scheduler, stop, serves)
}
