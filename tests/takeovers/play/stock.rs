//! RMs that use stock gRPC clients: over three streams, with or without a proof, and in the oldest
//! dialect over one.
//!
//! They know nothing of clusters. When a call fails or the streams end, they go to the next of
//! their addresses, register, and report. They do the same when an ask has had no answer for
//! [`SILENCE`]. They go on to read the streams of earlier sessions, so that the history shows what
//! a former owner delivers.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros::grpc::stubs::scheduler_client::SchedulerClient;
use monoceros_proto::si::v1 as si;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};

use super::history::Session;
use super::rm::{Kind, QUEUES, TestRm};
use super::{one_stream, three_streams};
use crate::harness::{reason_of, registration};

/// Time without an answer after which a client goes elsewhere.
const SILENCE: Duration = Duration::from_secs(1);
/// Time limit of a connection, of a registration with its report, and of each part of a report.
const CONNECTS: Duration = Duration::from_secs(1);
const OPENS: Duration = Duration::from_secs(5);
const REPORTS: Duration = Duration::from_secs(2);
/// Pause before the next address.
const PAUSE: Duration = Duration::from_millis(20);

/// A process of an RM.
pub struct Process(Arc<AtomicBool>);

impl Process {
    /// Starts a process that knows these addresses, the first one first.
    pub fn start(rm: &TestRm, addresses: Vec<SocketAddr>, proof: Option<String>) -> Self {
        let retired = Arc::new(AtomicBool::new(false));
        tokio::spawn(run(rm.clone(), addresses, proof, Arc::clone(&retired)));
        Self(retired)
    }

    /// Lets the process register no more. It stays with the session that it has.
    pub fn retire(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn run(
    rm: TestRm,
    addresses: Vec<SocketAddr>,
    proof: Option<String>,
    retired: Arc<AtomicBool>,
) {
    // Whether a claim has the proof, so that the registration may go before the end of a session.
    let mut is_known = false;
    for address in addresses.iter().cycle() {
        let opened =
            timeout(OPENS, open(&rm, *address, proof.as_deref(), is_known, &retired)).await;
        match opened {
            Ok(Ok(conversation)) => {
                is_known = proof.is_some();
                conversation.until_lost(&rm).await;
            }
            Ok(Err(status)) => {
                rm.note(format!("{address}: {:?} {}", status.code(), reason_of(&status)));
            }
            Err(_) => rm.note(format!("{address}: no answer")),
        }
        if retired.load(Ordering::Relaxed) {
            return;
        }
        sleep(PAUSE).await;
    }
}

/// Registers, opens the streams, reports, and begins to ask.
async fn open(
    rm: &TestRm,
    address: SocketAddr,
    proof: Option<&str>,
    is_known: bool,
    retired: &AtomicBool,
) -> Result<Conversation, Status> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = endpoint.connect_timeout(CONNECTS).connect().await;
    let channel = channel.map_err(|error| Status::from_error(error.into()))?;
    let mut request = Request::new(registration(rm.id(), QUEUES));
    if let Some(proof) = proof {
        request.metadata_mut().insert("x-si-proof", proof.parse().unwrap());
    }
    let mut client = SchedulerClient::new(channel);
    let answer = client.register_resource_manager(request).await?;
    if retired.load(Ordering::Relaxed) {
        return Err(Status::cancelled("another process is the RM"));
    }
    let epoch = answer.metadata().get("x-si-session").unwrap().to_str().unwrap().parse().unwrap();
    rm.registered(epoch);
    let (session, running) = rm.begin_session(!is_known);
    rm.note(format!("session {session} at {address}"));
    let conversation = Conversation::new(session);
    match rm.kind {
        Kind::OneStream => one_stream::open(rm, client, &conversation, running).await?,
        Kind::Library | Kind::Proof | Kind::Plain => {
            three_streams::open(rm, client, &conversation, running).await?;
        }
    }
    Ok(conversation)
}

/// The streams of a session. Clones are the same one.
#[derive(Clone)]
pub(super) struct Conversation {
    pub(super) session: Session,
    state: Arc<Mutex<Progress>>,
}

struct Progress {
    has_ended: bool,
    last_received: Instant,
    n_nodes: usize,
    n_applications: usize,
}

impl Conversation {
    fn new(session: Session) -> Self {
        let last_received = Instant::now();
        let state = Progress { has_ended: false, last_received, n_nodes: 0, n_applications: 0 };
        Self { session, state: Arc::new(Mutex::new(state)) }
    }

    /// Counts nodes and applications that were accepted.
    pub(super) fn accepted(&self, n_nodes: usize, n_applications: usize) {
        let mut state = self.state.lock().unwrap();
        state.n_nodes += n_nodes;
        state.n_applications += n_applications;
    }

    pub(super) fn n_nodes(&self) -> usize {
        self.state.lock().unwrap().n_nodes
    }

    pub(super) fn n_applications(&self) -> usize {
        self.state.lock().unwrap().n_applications
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().unwrap().has_ended
    }

    /// Waits until the answers to a report are there. Fails if a stream ends before.
    pub(super) async fn until(
        &self,
        rm: &TestRm,
        reached: impl Fn() -> bool,
    ) -> Result<(), Status> {
        let in_time = rm.until(REPORTS, || reached() || self.has_ended()).await;
        if in_time && reached() { Ok(()) } else { Err(Status::aborted("the report has no answer")) }
    }

    /// Reads a stream to its end, in a task of its own. `more` is kept until then.
    pub(super) fn follow<R: Send + 'static>(
        &self,
        rm: &TestRm,
        replies: Response<Streaming<R>>,
        more: impl Send + 'static,
        receive: fn(&TestRm, &Self, R),
    ) {
        let (rm, conversation) = (rm.clone(), self.clone());
        let mut replies = replies.into_inner();
        tokio::spawn(async move {
            let why = loop {
                match replies.message().await {
                    Ok(Some(reply)) => {
                        conversation.state.lock().unwrap().last_received = Instant::now();
                        receive(&rm, &conversation, reply);
                        rm.notify();
                    }
                    Ok(None) => break "OK".to_owned(),
                    Err(status) => break format!("{:?} {}", status.code(), reason_of(&status)),
                }
            };
            conversation.state.lock().unwrap().has_ended = true;
            rm.ended(conversation.session, why);
            drop(more);
        });
    }

    /// Waits until a stream has ended, or an ask has no answer.
    async fn until_lost(&self, rm: &TestRm) {
        let mut waits_since = Instant::now();
        loop {
            if self.has_ended() || rm.session() != self.session {
                return;
            }
            let last_received = self.state.lock().unwrap().last_received;
            if !rm.waits() {
                waits_since = Instant::now();
            } else if last_received.max(waits_since).elapsed() > SILENCE {
                rm.note(format!("session {} is silent", self.session));
                return;
            }
            let has_ended = || self.has_ended();
            rm.until(Duration::from_millis(50), has_ended).await;
        }
    }
}

/// A queue of messages without a bound, as a stream for a call.
pub(super) fn queue<T>()
-> (mpsc::UnboundedSender<T>, tokio_stream::wrappers::UnboundedReceiverStream<T>) {
    let (sender, received) = mpsc::unbounded_channel();
    (sender, tokio_stream::wrappers::UnboundedReceiverStream::new(received))
}

pub(super) type Client = SchedulerClient<Channel>;

/// Records the refusals of an answer.
pub(super) fn reject(
    rm: &TestRm,
    session: Session,
    rejected: impl IntoIterator<Item = (String, String)>,
) {
    for (key, why) in rejected {
        rm.rejected(session, key, why);
    }
}

/// The refusals of nodes.
pub(super) fn of_nodes(rejected: Vec<si::RejectedNode>) -> impl Iterator<Item = (String, String)> {
    rejected.into_iter().map(|it| (it.node_id, it.reason))
}

/// The refusals of applications.
pub(super) fn of_applications(
    rejected: Vec<si::RejectedApplication>,
) -> impl Iterator<Item = (String, String)> {
    rejected.into_iter().map(|it| (it.application_id, it.reason))
}
