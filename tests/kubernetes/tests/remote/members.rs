//! The engine loses the member of a cluster that served it. The members are schedulers that know
//! nothing of each other, behind proxies that name all members to those who register.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use monoceros_actors::SchedulerHandle;
use monoceros_client::si;
use monoceros_kubernetes::engine::{Engine as _, Remote, Service};
use monoceros_kubernetes::shim::{EngineOrder, Notification, SharedScene};
use monoceros_kubernetes::translate::Queues;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::transport::Endpoint;

use crate::side::serve;
use crate::world::RM;

const QUEUES: &str = "partitions: [{name: default, queues: [{name: root}]}]";

/// A member and its proxy, which end when this is dropped.
struct Member {
    address: SocketAddr,
    scheduler: SchedulerHandle,
    _proxy: JoinSet<()>,
}

impl Member {
    /// Starts a member that names these addresses to those who register.
    async fn start(listener: TcpListener, members: String) -> Self {
        let own = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, upstream) = (listener.local_addr().unwrap(), own.local_addr().unwrap());
        let (scheduler, _, _) = serve(own);
        let members = HeaderValue::try_from(members).unwrap();
        let mut proxy = JoinSet::new();
        proxy.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                connections.spawn(relay(connection, upstream, members.clone()));
            }
        });
        Self { address, scheduler, _proxy: proxy }
    }
}

async fn relay(connection: TcpStream, upstream: SocketAddr, members: HeaderValue) {
    let upstream = TokioIo::new(TcpStream::connect(upstream).await.unwrap());
    let (sender, driver) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), upstream).await.unwrap();
    let passed = service_fn(move |request: Request<Incoming>| {
        let (mut sender, members) = (sender.clone(), members.clone());
        async move {
            let registers = request.uri().path().ends_with("/RegisterResourceManager");
            let mut response: Response<Incoming> = sender.send_request(request).await?;
            if registers {
                response.headers_mut().insert("x-si-members", members);
            }
            Ok::<_, hyper::Error>(response)
        }
    });
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(connection), passed);
    let _ = tokio::join!(server, driver);
}

/// Runs a test in real time: limits of connections would pass while sockets are waited for.
fn in_real_time(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    tokio::task::LocalSet::new().block_on(&runtime.unwrap(), test);
}

/// Starts two members.
async fn two() -> [Member; 2] {
    let listeners = [
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    ];
    let [first, second] = listeners.each_ref().map(|it| it.local_addr().unwrap());
    let [one, other] = listeners;
    [
        Member::start(one, format!("{first},{second}")).await,
        Member::start(other, format!("{second},{first}")).await,
    ]
}

async fn next(notifications: &mut UnboundedReceiver<Notification>) -> Notification {
    timeout(Duration::from_secs(60), notifications.recv()).await.expect("in time").unwrap()
}

/// Reports a node, and waits until it is accepted.
async fn report(engine: &Remote, notifications: &mut UnboundedReceiver<Notification>, node: &str) {
    let node = si::NodeInfo::new(node, si::Resource::default().cores(4).gibibytes(8));
    engine.send(EngineOrder::Nodes(vec![node])).await.unwrap();
    loop {
        if let Notification::Nodes(reply) = next(notifications).await {
            assert_eq!(reply.accepted.len(), 1, "{reply:?}");
            return;
        }
    }
}

#[test]
fn the_engine_goes_to_another_member_when_its_own_is_lost() {
    in_real_time(async {
        let [first, second] = two().await;
        let service = Service {
            endpoint: Endpoint::from_shared(format!("http://{}", first.address)).unwrap(),
            tls: None,
            authorization: None,
            rm_id: RM.to_owned(),
            instance: "test".to_owned(),
        };
        let (notify, mut notifications) = unbounded_channel();
        let engine = Remote::new(service, SharedScene::default(), notify);
        let queues = Queues { yaml: QUEUES.to_owned(), ..Queues::default() };
        assert_eq!(engine.register(&queues).await.unwrap(), None);
        report(&engine, &mut notifications, "n1").await;

        drop(first);
        while !matches!(next(&mut notifications).await, Notification::Lost(_)) {}
        assert_eq!(engine.register(&queues).await.unwrap(), None);
        report(&engine, &mut notifications, "n2").await;
        second.scheduler.settle().await;

        let queues = QUEUES.replace("root", "root, queues: [{name: later}]");
        engine.send(EngineOrder::Configure { queues, extra: BTreeMap::new() }).await.unwrap();
        loop {
            if let Notification::Configured(outcome) = next(&mut notifications).await {
                assert_eq!(outcome, Ok(()));
                return;
            }
        }
    });
}
