//! The scheduler behind gRPC, as `monoceros serve` has it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use monoceros::connections::Connections;
use monoceros::grpc;
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

/// How often both sides may have to hear each other until all is said.
const ROUNDS: usize = 12;

/// Whether it is asked over a wire.
pub const IS_ELSEWHERE: bool = true;

/// Random histories that are tried: each takes a second.
pub const CASES: u32 = 20;

/// A scheduler, and the engine that it is to the shim.
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
            authorization: None,
            rm_id: RM.to_owned(),
            instance: "test".to_owned(),
        };
        let engine = Remote::new(service, scene, notify);
        Self { scheduler, engine, address, stop, serves }
    }

    /// Nothing is served any more, and what was known is gone.
    pub async fn end(&mut self) {
        self.stop.cancel();
        (&mut self.serves).await.unwrap();
    }

    /// Another scheduler serves there, which knows nothing.
    pub async fn start(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        (self.scheduler, self.stop, self.serves) = serve(listener);
    }

    /// Waits until everything that was told is decided, and said.
    pub async fn settle(&self) {
        for _ in 0..ROUNDS {
            sleep(Duration::from_millis(1)).await;
            self.scheduler.settle().await;
        }
    }
}

fn serve(listener: TcpListener) -> (SchedulerHandle, CancellationToken, JoinHandle<()>) {
    // A node that is reserved for a large pod is room that a small one does not get.
    let scheduler = Scheduler::builder().reservation_delay(None).start_local().unwrap();
    let stop = CancellationToken::new();
    let connections = Connections::new(listener, None, stop.clone());
    let settings = Settings::load(None, &Flags::default()).unwrap();
    let source = Source::new(scheduler.clone(), &settings);
    let access = Arc::new(Access::load(&settings.identity).unwrap());
    let (healthy, until) = (Healthy::fixed(Health::Serving), stop.clone());
    let serves = tokio::spawn(async move {
        grpc::serve(connections, source, access, &settings, None, healthy, until).await.unwrap();
    });
    (scheduler, stop, serves)
}
