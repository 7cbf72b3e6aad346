//! An RM that uses the client library of this repository, with the addresses of all members.
//!
//! The library reports, counts silence, and goes to another member by itself. A process that the
//! library gives up, since another one was served, is started again, as by its supervisor.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use backon::ExponentialBuilder;
use monoceros_client::{Client, Event, Events, Options, Report, reason, si};
use tokio::sync::mpsc;
use tonic::transport::Endpoint;

use super::history::Session;
use super::rm::{APPLICATION, CAPACITY, NODES, Orders, QUEUES, SIZE, TestRm};

/// Pauses after a round over all addresses.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(200)];

/// A process of an RM.
pub struct Process(Arc<AtomicBool>);

impl Process {
    /// Starts a process that knows these addresses, the first one first.
    pub fn start(rm: &TestRm, addresses: Vec<SocketAddr>) -> Self {
        let retired = Arc::new(AtomicBool::new(false));
        tokio::spawn(run(rm.clone(), addresses, Arc::clone(&retired)));
        Self(retired)
    }

    /// Ends the process.
    pub fn retire(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn run(rm: TestRm, addresses: Vec<SocketAddr>, retired: Arc<AtomicBool>) {
    while !retired.load(Ordering::Relaxed) {
        let session = Arc::new(AtomicU32::new(0));
        let (to_client, orders) = mpsc::unbounded_channel();
        let (reporting, of_report, is_over) = (rm.clone(), Arc::clone(&session), retired.clone());
        let state = move || {
            let is_first = of_report.load(Ordering::Relaxed) == 0;
            // A retired process speaks no more.
            if is_over.load(Ordering::Relaxed) {
                return Report::default();
            }
            let to_client = to_client.clone();
            let outgoing = Box::new(move |orders| {
                // The process may have ended.
                let _ = to_client.send(orders);
            });
            let (session, report) = report(&reporting, is_first, outgoing);
            of_report.store(session, Ordering::Relaxed);
            report
        };
        let (client, events) = Client::start(options(&rm, &addresses), state);
        let sending = tokio::spawn(send(client, orders));
        receive(&rm, events, &session, &retired).await;
        sending.abort();
    }
}

fn options(rm: &TestRm, addresses: &[SocketAddr]) -> Options {
    let endpoint = |address| Endpoint::from_shared(format!("http://{address}")).unwrap();
    let [shortest, longest] = PAUSES;
    let pauses = ExponentialBuilder::default()
        .with_min_delay(shortest)
        .with_max_delay(longest)
        .without_max_times();
    let options = Options::new(endpoint(addresses[0]), rm.id()).queues(QUEUES).pauses(pauses);
    addresses[1..].iter().fold(options, |options, address| options.endpoint(endpoint(*address)))
}

/// Begins a session with all nodes, allocations and pending asks.
fn report(
    rm: &TestRm,
    is_first: bool,
    outgoing: Box<dyn FnMut(Orders) + Send>,
) -> (Session, Report) {
    let (session, running, pending) = rm.begin_session_with(is_first, outgoing);
    let nodes = NODES.iter().map(|id| si::NodeInfo::new(*id, [("vcore", CAPACITY)])).collect();
    let running = running.iter().map(|(key, (node, _))| ask(key).running_on(node));
    let allocations = running.chain(pending.iter().map(|key| ask(key))).collect();
    let applications = vec![si::AddApplicationRequest::new(APPLICATION, "ada").in_queue("root.a")];
    (session, Report { nodes, applications, allocations })
}

fn ask(key: &str) -> si::Allocation {
    si::Allocation::ask(APPLICATION, key, [("vcore", SIZE)])
}

async fn send(client: Client, mut orders: mpsc::UnboundedReceiver<Orders>) {
    while let Some(orders) = orders.recv().await {
        let asks = orders.asks.iter().map(|key| ask(key)).collect();
        let release = |(key, _): &(String, String)| si::AllocationRelease::new(APPLICATION, key);
        let releases: Vec<_> = orders.releases.iter().map(release).collect();
        if client.ask(asks).await.is_err() {
            return;
        }
        if !releases.is_empty() && client.release(releases).await.is_err() {
            return;
        }
    }
}

/// Receives until the client gives up, or the process is retired.
async fn receive(rm: &TestRm, mut events: Events, session: &AtomicU32, retired: &AtomicBool) {
    while let Some(event) = events.next().await {
        if retired.load(Ordering::Relaxed) {
            return;
        }
        let session = session.load(Ordering::Relaxed);
        match event {
            Event::Registered { session, .. } => rm.registered(session),
            Event::Disconnected(status) => {
                let why = reason(&status).unwrap_or_default();
                rm.ended(session, format!("{:?} {why} {}", status.code(), status.message()));
            }
            Event::Ended(status) => rm.ended(session, format!("given up: {status}")),
            Event::Nodes(reply) => {
                for rejected in reply.rejected {
                    rm.rejected(session, rejected.node_id, rejected.reason);
                }
            }
            Event::Applications(reply) => {
                for rejected in reply.rejected {
                    rm.rejected(session, rejected.application_id, rejected.reason);
                }
            }
            Event::Allocations(reply) => {
                for new in reply.new {
                    rm.placed(session, new.allocation_key, new.node_id, String::new());
                }
                for released in reply.released {
                    rm.released(session, &released.allocation_key, released.message);
                }
                for rejected in reply.rejected_allocations {
                    rm.rejected(session, rejected.allocation_key, rejected.reason);
                }
            }
        }
    }
}
