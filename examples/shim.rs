//! A resource manager over gRPC: `monoceros serve` in one window, `cargo run --example shim` in
//! another. Type the name of a task to end it; Ctrl-C ends the shim.
//!
//! It owns two machines, one of them with a GPU, and wants to run five tasks. It registers, reports
//! its machines, submits an application, asks for one container per task, and answers the
//! scheduler's predicates: the task that trains runs only where the GPU is.
//!
//! # Who remembers
//! The scheduler keeps nothing on disk, so the shim is the memory of both: which machines there are,
//! what it wants, and what runs where. When a session is lost, for whatever reason, it registers
//! again after a pause and reports all of that in the order of [`Shim::session`]. What it hears may
//! come twice, so hearing something twice changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::{self, BufRead as _, Write as _};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use futures::stream::{self, BoxStream, SelectAll, StreamExt as _};
use monoceros::grpc::stubs::si::scheduler_client::SchedulerClient;
use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros::grpc::stubs::v1::callback_service_client::CallbackServiceClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use monoceros_proto::v1::core_message::Body as Asked;
use monoceros_proto::v1::shim_message::Body as Answer;
use si::TerminationType;
use si::node_info::ActionFromRm;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};

const RM_ID: &str = "example";
const QUEUES: &str = r#"
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: jobs
"#;
const APPLICATION: &str = "job";
/// Stands for the answer to the greeting of the stream for questions.
const CALLBACKS: &str = "callbacks";
/// Machines of four cores; the last one has a GPU.
const NODES: [&str; 2] = ["n1", "n2"];
const GPU_NODE: &str = "n2";
/// Tasks of two cores, so that one of them has to wait.
const TASKS: [&str; 5] = ["train", "web-1", "web-2", "web-3", "web-4"];
const GPU_TASK: &str = "train";

/// What the owner of the shim wants of it.
pub(crate) enum Order {
    /// End this task.
    End(String),
    /// Leave the scheduler, in order.
    Leave,
}

/// Where a task is.
#[derive(PartialEq)]
enum Task {
    Waits,
    RunsOn(String),
}

/// What came from the scheduler.
enum Heard {
    Nodes(si::NodeResponse),
    Applications(si::ApplicationResponse),
    Allocations(si::AllocationResponse),
    Asked(v1::CoreMessage),
}

/// The shim: what it remembers when everything else is lost.
pub(crate) struct Shim {
    address: String,
    tasks: BTreeMap<String, Task>,
    tell: Box<dyn FnMut(String) + Send>,
    /// What of this session was sent and not answered yet.
    unanswered: BTreeSet<String>,
    /// Whether the last session came as far as asking for tasks.
    stood: bool,
}

/// One session: a stream for each kind of request, and everything that comes back.
struct Session {
    channel: Channel,
    nodes: mpsc::Sender<si::NodeRequest>,
    applications: mpsc::Sender<si::ApplicationRequest>,
    allocations: mpsc::Sender<si::AllocationRequest>,
    answers: mpsc::Sender<v1::ShimMessage>,
    heard: SelectAll<BoxStream<'static, Result<Heard, Status>>>,
    /// Whether the scheduler has a stream for questions.
    is_asked: bool,
    /// The scheduler's numbers for nodes.
    dictionary: BTreeMap<u32, String>,
}

impl Shim {
    /// A shim of the scheduler at `address`, such as `http://127.0.0.1:50051`; what happens is told
    /// in sentences.
    pub(crate) fn new(address: String, tell: impl FnMut(String) + Send + 'static) -> Self {
        let tasks = TASKS.iter().map(|&task| (task.to_owned(), Task::Waits)).collect();
        let (tell, unanswered) = (Box::new(tell), BTreeSet::new());
        Self { address, tasks, tell, unanswered, stood: false }
    }

    /// Serves until it is told to leave, or until trying again cannot help. Between two sessions it
    /// pauses, each time longer, so that a thousand shims do not keep a scheduler from starting.
    pub(crate) async fn run(
        mut self,
        mut orders: mpsc::Receiver<Order>,
        pauses: ExponentialBuilder,
    ) -> Result<(), Status> {
        let mut upcoming = pauses.build();
        loop {
            self.unanswered.clear();
            let Err(lost) = self.session(&mut orders).await else { return Ok(()) };
            if is_final(&lost) {
                return Err(lost);
            }
            if std::mem::take(&mut self.stood) {
                upcoming = pauses.build();
            }
            let pause = sleep(upcoming.next().unwrap_or(Duration::from_secs(30)));
            self.say(format!("lost the scheduler ({}), trying again", reason(&lost)));
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    order = orders.recv() => match order {
                        Some(Order::End(task)) => drop(self.tasks.remove(&task)),
                        Some(Order::Leave) | None => return Ok(()),
                    },
                }
            }
        }
    }

    /// One session. Whatever the scheduler may have known before, this tells it all.
    async fn session(&mut self, orders: &mut mpsc::Receiver<Order>) -> Result<(), Status> {
        let mut session = Session::open(&self.address).await?;
        self.say("registered".to_owned());
        if session.is_asked {
            // Once the scheduler knows whom to ask, it asks before it decides.
            self.unanswered.insert(CALLBACKS.to_owned());
            self.hear_answers(&mut session).await?;
        }

        // Machines first, and closed: what already runs on them is to be on the books before
        // anything new comes. Every one is answered.
        session.send_nodes(ActionFromRm::CreateDrain).await?;
        self.unanswered.extend(NODES.map(str::to_owned));
        self.hear_answers(&mut session).await?;
        session.send_application().await?;
        self.unanswered.insert(APPLICATION.to_owned());
        self.hear_answers(&mut session).await?;

        let tasks = self.tasks.iter();
        let running = tasks.filter(|(_, task)| **task != Task::Waits).map(|(key, _)| key.clone());
        self.unanswered.extend(running);
        let (waiting, running): (Vec<_>, Vec<_>) =
            self.tasks.iter().map(allocation).partition(|task| task.node_id.is_empty());
        session.send_allocations(running, vec![]).await?;
        self.hear_answers(&mut session).await?;

        session.send_nodes(ActionFromRm::DrainToSchedulable).await?;
        session.send_allocations(waiting, vec![]).await?;
        self.stood = true;
        loop {
            tokio::select! {
                heard = session.next() => self.deal_with(heard?, &mut session).await?,
                order = orders.recv() => match order {
                    Some(Order::End(task)) => {
                        let release = release(&task, TerminationType::StoppedByRm);
                        session.send_allocations(vec![], vec![release]).await?;
                    }
                    Some(Order::Leave) | None => return session.leave().await,
                },
            }
        }
    }

    /// Goes on until everything that was sent is answered.
    async fn hear_answers(&mut self, session: &mut Session) -> Result<(), Status> {
        while !self.unanswered.is_empty() {
            let heard = session.next().await?;
            self.deal_with(heard, session).await?;
        }
        Ok(())
    }

    async fn deal_with(&mut self, heard: Heard, session: &mut Session) -> Result<(), Status> {
        match heard {
            Heard::Nodes(response) => {
                for node in response.accepted {
                    self.unanswered.remove(&node.node_id);
                }
                for node in response.rejected {
                    self.unanswered.remove(&node.node_id);
                    self.say(format!("{} is refused: {}", node.node_id, node.reason));
                }
            }
            Heard::Applications(response) => {
                for application in response.accepted {
                    self.unanswered.remove(&application.application_id);
                }
                for application in response.rejected {
                    self.unanswered.remove(&application.application_id);
                    let (id, reason) = (application.application_id, application.reason);
                    self.say(format!("{id} is refused: {reason}"));
                }
                for application in response.updated {
                    self.say(format!("{} is {}", application.application_id, application.state));
                }
            }
            Heard::Allocations(response) => {
                for new in response.new {
                    self.start(&new);
                }
                for refused in response.rejected_allocations {
                    self.unanswered.remove(&refused.allocation_key);
                    self.tasks.remove(&refused.allocation_key);
                    self.say(format!("{} is refused: {}", refused.allocation_key, refused.reason));
                }
                for gone in response.released {
                    self.end(gone, session).await?;
                }
            }
            Heard::Asked(message) => {
                if let Some(Asked::Welcome(_)) = message.body {
                    self.unanswered.remove(CALLBACKS);
                }
                if let Some(answer) = session.answer(message) {
                    send(&session.answers, answer).await?;
                }
            }
        }
        Ok(())
    }

    /// A task has a place; or one that runs is known to the scheduler again.
    fn start(&mut self, new: &si::Allocation) {
        let known = self.unanswered.remove(&new.allocation_key);
        let place = Task::RunsOn(new.node_id.clone());
        let Some(task) = self.tasks.get_mut(&new.allocation_key) else { return };
        if *task != place {
            // A real one starts the container here.
            *task = place;
            self.say(format!("{} runs on {}", new.allocation_key, new.node_id));
        } else if known {
            self.say(format!("{} is still on {}", new.allocation_key, new.node_id));
        }
    }

    /// A task is over, because we said so or because the scheduler wants it to be.
    async fn end(
        &mut self,
        gone: si::AllocationRelease,
        session: &mut Session,
    ) -> Result<(), Status> {
        if self.tasks.remove(&gone.allocation_key).is_none() {
            return Ok(());
        }
        let why = gone.termination_type();
        self.say(format!("{} is over", gone.allocation_key));
        match why {
            TerminationType::StoppedByRm | TerminationType::UnknownTerminationType => Ok(()),
            // It was the scheduler's wish. A real one stops the container first: the room is free
            // from this message on.
            _ => session.send_allocations(vec![], vec![release(&gone.allocation_key, why)]).await,
        }
    }

    fn say(&mut self, line: String) {
        (self.tell)(line);
    }
}

impl Session {
    async fn open(address: &str) -> Result<Self, Status> {
        let unusable = |error: tonic::transport::Error| Status::unavailable(error.to_string());
        let endpoint = Endpoint::from_shared(address.to_owned()).map_err(unusable)?;
        let endpoint = endpoint
            .connect_timeout(Duration::from_secs(5))
            // Finds out that a peer is gone while nothing happens.
            .http2_keep_alive_interval(Duration::from_secs(20))
            .keep_alive_while_idle(true);
        let channel = endpoint.connect().await.map_err(unusable)?;
        let mut client = SchedulerClient::new(channel.clone());
        let registration = si::RegisterResourceManagerRequest {
            rm_id: RM_ID.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            policy_group: "queues".to_owned(),
            config: QUEUES.to_owned(),
            ..Default::default()
        };
        let registered = client.register_resource_manager(registration).await?;
        // Streams that name the session are refused by a scheduler that has been restarted.
        let session = registered.metadata().get("x-si-session").cloned();

        let (nodes, requests) = mpsc::channel(16);
        let node_replies = client.update_node(bound(requests, session.as_ref())).await?;
        let (applications, requests) = mpsc::channel(16);
        let application_replies =
            client.update_application(bound(requests, session.as_ref())).await?;
        let (allocations, requests) = mpsc::channel(16);
        let allocation_replies =
            client.update_allocation(bound(requests, session.as_ref())).await?;
        let mut heard = SelectAll::new();
        heard.push(all_of(node_replies.into_inner(), Heard::Nodes));
        heard.push(all_of(application_replies.into_inner(), Heard::Applications));
        heard.push(all_of(allocation_replies.into_inner(), Heard::Allocations));

        let (answers, requests) = mpsc::channel(16);
        let number = session.as_ref().and_then(|session| session.to_str().ok()?.parse().ok());
        send(&answers, hello(number.unwrap_or_default())).await?;
        let mut callbacks = CallbackServiceClient::new(channel.clone());
        let is_asked = match callbacks.attach(ReceiverStream::new(requests)).await {
            Ok(questions) => {
                heard.push(all_of(questions.into_inner(), Heard::Asked));
                true
            }
            // A scheduler without callbacks asks nothing, and every node will do.
            Err(status) if status.code() == Code::Unimplemented => false,
            Err(status) => return Err(status),
        };
        let dictionary = BTreeMap::new();
        Ok(Self { channel, nodes, applications, allocations, answers, heard, is_asked, dictionary })
    }

    async fn next(&mut self) -> Result<Heard, Status> {
        self.heard.next().await.unwrap_or_else(|| Err(Status::unavailable("all streams ended")))
    }

    async fn send_nodes(&mut self, action: ActionFromRm) -> Result<(), Status> {
        let node = |id: &str| si::NodeInfo {
            node_id: id.to_owned(),
            action: action.into(),
            schedulable_resource: (action == ActionFromRm::CreateDrain).then(|| cores(4)),
            ..Default::default()
        };
        let nodes = NODES.map(node).into();
        send(&self.nodes, si::NodeRequest { nodes, ..Default::default() }).await
    }

    async fn send_application(&mut self) -> Result<(), Status> {
        let new = si::AddApplicationRequest {
            application_id: APPLICATION.to_owned(),
            queue_name: "root.jobs".to_owned(),
            partition_name: "default".to_owned(),
            ugi: Some(si::UserGroupInformation { user: "ada".to_owned(), groups: vec![] }),
            ..Default::default()
        };
        send(&self.applications, si::ApplicationRequest { new: vec![new], ..Default::default() })
            .await
    }

    async fn send_allocations(
        &mut self,
        allocations: Vec<si::Allocation>,
        releases: Vec<si::AllocationRelease>,
    ) -> Result<(), Status> {
        let releases = si::AllocationReleasesRequest {
            allocations_to_release: releases,
            ..Default::default()
        };
        let releases = Some(releases);
        let request = si::AllocationRequest { allocations, releases, ..Default::default() };
        send(&self.allocations, request).await
    }

    /// Does what a message of the other direction wants; nothing is due for most.
    fn answer(&mut self, message: v1::CoreMessage) -> Option<v1::ShimMessage> {
        let answer = match message.body? {
            Asked::NodeDictionary(change) => {
                if change.reset {
                    self.dictionary.clear();
                }
                self.dictionary
                    .extend(change.add.into_iter().map(|node| (node.index, node.node_id)));
                self.dictionary.retain(|index, _| !change.remove.contains(index));
                return None;
            }
            Asked::PredicateBatch(batch) => Answer::PredicateResults(v1::PredicateResults {
                batch_id: batch.batch_id,
                cache_seq: batch.cache_seq,
                last: true,
                results: batch.queries.iter().map(|query| self.evaluate(query)).collect(),
            }),
            Asked::Heartbeat(mut beat) if beat.reply => {
                beat.reply = false;
                Answer::Heartbeat(beat)
            }
            _ => return None,
        };
        Some(v1::ShimMessage { body: Some(answer) })
    }

    /// On which of these nodes may this task run?
    fn evaluate(&self, query: &v1::PredicateQuery) -> v1::PredicateResult {
        let by_index = query.node_index.iter().map(|index| self.dictionary.get(index));
        let nodes: Vec<_> = by_index.chain(query.node_ids.iter().map(Some)).collect();
        let first_fit = query.mode() == v1::EvalMode::FirstFit;
        let wanted = if first_fit { query.want.max(1) as usize } else { nodes.len() };
        let (mut passed, mut evaluated) = (0, 0);
        let mut bitmap = vec![0_u8; nodes.len().div_ceil(8)];
        for (position, node) in nodes.into_iter().enumerate() {
            if passed == wanted {
                break;
            }
            evaluated += 1;
            if node.is_some_and(|node| query.allocation_key != GPU_TASK || node == GPU_NODE) {
                bitmap[position / 8] |= 1 << (position % 8);
                passed += 1;
            }
        }
        v1::PredicateResult {
            query_id: query.query_id,
            outcome: v1::Outcome::Evaluated.into(),
            evaluated,
            pass_bitmap: bitmap,
            // Where the GPU is does not change.
            scope: v1::Scope::Static.into(),
            ..Default::default()
        }
    }

    /// Ends the session; the scheduler forgets what it knew of us.
    async fn leave(self) -> Result<(), Status> {
        let goodbye = v1::DeregisterResourceManagerRequest {
            rm_id: RM_ID.to_owned(),
            reason: "the example ends".to_owned(),
            ..Default::default()
        };
        match AdminServiceClient::new(self.channel).deregister_resource_manager(goodbye).await {
            // Then it forgets us a while after our streams have ended.
            Err(status) if status.code() == Code::Unimplemented => Ok(()),
            answer => answer.map(drop),
        }
    }
}

/// Whether trying again cannot help: we are wrong, not allowed or not wanted any more, or somebody
/// else is us by now.
fn is_final(status: &Status) -> bool {
    matches!(reason(status).as_str(), "SESSION_SUPERSEDED" | "STREAM_DISPLACED" | "DEREGISTERED")
        || matches!(
            status.code(),
            Code::InvalidArgument
                | Code::Unauthenticated
                | Code::PermissionDenied
                | Code::Unimplemented
        )
}

/// The reason for programs, or whatever there is.
fn reason(status: &Status) -> String {
    let reason = status.metadata().get("x-si-reason").and_then(|reason| reason.to_str().ok());
    reason.map_or_else(|| format!("{:?}", status.code()), str::to_owned)
}

/// Requests that say whose they are, and of which session.
fn bound<T>(
    requests: mpsc::Receiver<T>,
    session: Option<&AsciiMetadataValue>,
) -> Request<ReceiverStream<T>> {
    let mut request = Request::new(ReceiverStream::new(requests));
    request.metadata_mut().insert("x-si-rm-id", AsciiMetadataValue::from_static(RM_ID));
    if let Some(session) = session {
        request.metadata_mut().insert("x-si-session", session.clone());
    }
    request
}

/// Everything of a stream, and that it has ended.
fn all_of<T: Send + 'static>(
    replies: Streaming<T>,
    heard: fn(T) -> Heard,
) -> BoxStream<'static, Result<Heard, Status>> {
    stream::unfold(Some(replies), move |replies| async move {
        let mut replies = replies?;
        Some(match replies.message().await {
            Ok(Some(reply)) => (Ok(heard(reply)), Some(replies)),
            Ok(None) => (Err(ended(&mut replies).await), None),
            Err(lost) => (Err(lost), None),
        })
    })
    .boxed()
}

/// A stream that ended in order. Why, is in what comes after its last message.
async fn ended<T>(replies: &mut Streaming<T>) -> Status {
    let trailers = replies.trailers().await.ok().flatten().unwrap_or_default();
    Status::with_metadata(Code::Unavailable, "the stream ended", trailers)
}

async fn send<T>(requests: &mpsc::Sender<T>, request: T) -> Result<(), Status> {
    // What became of the stream comes from its other direction, with the reason.
    requests.send(request).await.map_err(|_| Status::unavailable("the stream is closed"))
}

fn hello(session_id: u64) -> v1::ShimMessage {
    let hello = v1::Hello {
        rm_id: RM_ID.to_owned(),
        session_id,
        capabilities: vec![v1::Capability::Predicates.into()],
        ..Default::default()
    };
    v1::ShimMessage { body: Some(Answer::Hello(hello)) }
}

/// A task as the scheduler is to know it: without a node it is a request, with one it runs there.
fn allocation((key, task): (&String, &Task)) -> si::Allocation {
    let node_id = match task {
        Task::Waits => String::new(),
        Task::RunsOn(node) => node.clone(),
    };
    si::Allocation {
        allocation_key: key.clone(),
        application_id: APPLICATION.to_owned(),
        partition_name: "default".to_owned(),
        node_id,
        resource_per_alloc: Some(cores(2)),
        ..Default::default()
    }
}

fn release(key: &str, why: TerminationType) -> si::AllocationRelease {
    si::AllocationRelease {
        allocation_key: key.to_owned(),
        application_id: APPLICATION.to_owned(),
        partition_name: "default".to_owned(),
        termination_type: why.into(),
        ..Default::default()
    }
}

fn cores(n: i64) -> si::Resource {
    let vcore = ("vcore".to_owned(), si::Quantity { value: n * 1_000 });
    si::Resource { resources: [vcore].into() }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or("http://127.0.0.1:50051".to_owned());
    let shim = Shim::new(address, |line| {
        // Nobody reads what we say: no reason to stop.
        let _ = writeln!(io::stdout(), "{line}");
    });
    let (orders, received) = mpsc::channel(16);
    let leave = orders.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            let _ = leave.send(Order::Leave).await;
        }
    });
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let _ = orders.blocking_send(Order::End(line.trim().to_owned()));
        }
    });
    let pauses = ExponentialBuilder::default()
        .with_min_delay(Duration::from_secs(1))
        .with_max_delay(Duration::from_secs(30))
        .with_factor(1.6)
        .with_jitter()
        .without_max_times();
    Ok(shim.run(received, pauses).await?)
}
