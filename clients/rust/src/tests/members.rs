//! Members of a cluster that answer as a test wants, on connections in memory.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::{FutureExt as _, Stream};
use monoceros_proto::si::legacy::v0;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{
    AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};
use tokio_stream::wrappers::{ReceiverStream, UnboundedReceiverStream};
use tonic::metadata::MetadataMap;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use super::admin::Admin;
use super::servers::scheduler_server::{Scheduler, SchedulerServer};
use super::servers::v1::callback_service_server::{CallbackService, CallbackServiceServer};
use crate::connect::{Dial, Io};

const BYTES: usize = 64 << 10;

/// The line to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Open,
    /// The member stands still: connections are made, nothing comes.
    Frozen,
    /// Connections are not even refused.
    Dark,
}

/// A registration as a member received it.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) at: Instant,
    pub(super) member: String,
    metadata: MetadataMap,
}

impl Call {
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(|value| value.to_str().unwrap())
    }
}

/// Several members, and the store of their claims.
#[derive(Clone, Default)]
pub(super) struct Members(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    /// The members that can be reached.
    live: BTreeMap<String, Process>,
    epoch: u64,
    owner: Option<String>,
    calls: Vec<Call>,
    /// The end of the streams of the present session.
    end: HashMap<u64, mpsc::UnboundedSender<Status>>,
    /// Answers in place of a claim, by member.
    refusals: HashMap<String, Vec<Status>>,
    /// Answers in place of a deregistration, by member.
    refused_to_leave: HashMap<String, Vec<Status>>,
    /// Deregistrations: the member that received it, and the session.
    left: Vec<(String, u64)>,
    /// Members whose beats have stopped although they live.
    mute: Vec<String>,
    /// Members that others take for alive although they stand still.
    seemingly_alive: Vec<String>,
}

struct Process {
    connections: mpsc::UnboundedSender<DuplexStream>,
    line: watch::Sender<Line>,
    /// Its server and the lines to it.
    tasks: JoinSet<()>,
}

/// A status with a reason, and the owner that it names.
pub(super) fn refusal(reason: &str, owner: Option<&str>) -> Status {
    let mut status = Status::unavailable(reason);
    status.metadata_mut().insert("x-si-reason", reason.parse().unwrap());
    if let Some(owner) = owner {
        status.metadata_mut().insert("x-si-owner", owner.parse().unwrap());
    }
    status
}

impl Members {
    pub(super) fn start(addresses: &[&str]) -> Self {
        let members = Self::default();
        for address in addresses {
            members.add(address);
        }
        members
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap()
    }

    /// Starts members with TLS, given as address and the name for which the certificate is valid.
    /// Returns also the certificate of their authority.
    pub(super) fn with_certificates(names: &[(&str, &str)]) -> (Self, String) {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = authority.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(authority, key);
        let members = Self::default();
        for (address, name) in names {
            let key = KeyPair::generate().unwrap();
            let certificate = CertificateParams::new(vec![(*name).to_owned()]).unwrap();
            let certificate = certificate.signed_by(&key, &issuer).unwrap();
            let identity = Identity::from_pem(certificate.pem(), key.serialize_pem());
            members.serve(address, Some(ServerTlsConfig::new().identity(identity)));
        }
        (members, ca)
    }

    /// Starts a member.
    pub(super) fn add(&self, address: &str) {
        self.serve(address, None);
    }

    fn serve(&self, address: &str, tls: Option<ServerTlsConfig>) {
        let (connections, accepted) = mpsc::unbounded_channel();
        let member = Arc::new(Member { address: address.to_owned(), members: self.clone() });
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let accepted =
                futures::StreamExt::map(UnboundedReceiverStream::new(accepted), io::Result::Ok);
            let callbacks = CallbackServiceServer::from_arc(Arc::clone(&member));
            let admin = Admin(Arc::clone(&member));
            let scheduler = SchedulerServer::from_arc(member);
            let mut server = Server::builder();
            if let Some(tls) = tls {
                server = server.tls_config(tls).unwrap();
            }
            let server = server.add_service(scheduler).add_service(callbacks).add_service(admin);
            server.serve_with_incoming(accepted).await.unwrap();
        });
        let process = Process { connections, line: watch::channel(Line::Open).0, tasks };
        self.shared().live.insert(address.to_owned(), process);
    }

    /// Ends a member and all its connections.
    pub(super) fn kill(&self, address: &str) {
        self.shared().live.remove(address);
    }

    pub(super) fn freeze(&self, address: &str) {
        self.set_line(address, Line::Frozen);
    }

    pub(super) fn thaw(&self, address: &str) {
        self.set_line(address, Line::Open);
    }

    pub(super) fn darken(&self, address: &str) {
        self.set_line(address, Line::Dark);
    }

    fn set_line(&self, address: &str, line: Line) {
        self.shared().live[address].line.send_replace(line);
    }

    pub(super) fn mute(&self, address: &str) {
        self.shared().mute.push(address.to_owned());
    }

    pub(super) fn seem_alive(&self, address: &str) {
        self.shared().seemingly_alive.push(address.to_owned());
    }

    /// Makes a member refuse its next registrations.
    pub(super) fn refuse(&self, address: &str, status: Status, times: usize) {
        self.shared().refusals.insert(address.to_owned(), vec![status; times]);
    }

    /// Makes a member refuse the next deregistrations.
    pub(super) fn refuse_to_deregister(&self, address: &str, status: Status, times: usize) {
        self.shared().refused_to_leave.insert(address.to_owned(), vec![status; times]);
    }

    /// The deregistrations that members received.
    pub(super) fn left(&self) -> Vec<(String, u64)> {
        self.shared().left.clone()
    }

    /// Ends the streams of a session.
    pub(super) fn end(&self, session: u64, status: &Status) {
        let _ = self.shared().end[&session].send(status.clone());
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.shared().calls.clone()
    }

    /// The members at which the client registered, in order.
    pub(super) fn registrations(&self) -> Vec<String> {
        self.calls().into_iter().map(|call| call.member).collect()
    }

    pub(super) fn dial(&self) -> Dial {
        let members = self.clone();
        Arc::new(move |address| members.clone().connect(address).boxed())
    }

    async fn connect(self, address: String) -> io::Result<Box<dyn Io>> {
        let (client, near) = duplex(BYTES);
        let (server, far) = duplex(BYTES);
        let is_dark = {
            let mut shared = self.shared();
            let process = shared.live.get_mut(&address);
            let process = process.ok_or(io::ErrorKind::ConnectionRefused)?;
            let ((from_client, to_client), (from_server, to_server)) = (split(near), split(far));
            let line = process.line.subscribe();
            process.tasks.spawn(relay(from_client, to_server, line.clone()));
            process.tasks.spawn(relay(from_server, to_client, line.clone()));
            let _ = process.connections.send(server);
            *line.borrow() == Line::Dark
        };
        if is_dark {
            std::future::pending::<()>().await;
        }
        Ok(Box::new(client))
    }
}

async fn relay(
    mut from: ReadHalf<DuplexStream>,
    mut to: WriteHalf<DuplexStream>,
    mut line: watch::Receiver<Line>,
) {
    let mut bytes = vec![0; BYTES];
    while let Ok(n) = from.read(&mut bytes).await
        && n > 0
        && line.wait_for(|line| *line == Line::Open).await.is_ok()
        && to.write_all(&bytes[..n]).await.is_ok()
    {}
}

/// The service of one member.
pub(super) struct Member {
    address: String,
    members: Members,
}

type Replies<R> = Pin<Box<dyn Stream<Item = Result<R, Status>> + Send>>;

impl Member {
    /// Opens a stream. Returns its replies and the end that a test gives it.
    fn open<R: Send + 'static>(
        &self,
        metadata: &MetadataMap,
        beats: bool,
    ) -> (mpsc::Sender<Result<R, Status>>, Response<Replies<R>>) {
        let (sender, replies) = mpsc::channel(1_000);
        let session: u64 = metadata.get("x-si-session").unwrap().to_str().unwrap().parse().unwrap();
        let mut response = Response::new(Box::pin(ReceiverStream::new(replies)) as Replies<R>);
        let headers = response.metadata_mut();
        headers.insert("x-si-taken-seq", 0.into());
        if beats {
            headers.insert("x-si-beat", 100.into());
            let (end, mut ended) = mpsc::unbounded_channel();
            self.members.shared().end.insert(session, end);
            let sender = sender.clone();
            tokio::spawn(async move {
                if let Some(status) = ended.recv().await {
                    let _ = sender.send(Err(status)).await;
                }
            });
        }
        (sender, response)
    }

    fn claim(&self, metadata: &MetadataMap) -> Result<u64, Status> {
        let mut shared = self.members.shared();
        let (at, member) = (Instant::now(), self.address.clone());
        shared.calls.push(Call { at, member, metadata: metadata.clone() });
        if let Some(refusal) = shared.refusals.get_mut(&self.address).and_then(Vec::pop) {
            return Err(refusal);
        }
        if let Some(suspect) = metadata.get("x-si-suspects") {
            let suspect = suspect.to_str().unwrap().trim_start_matches("of ").to_owned();
            let acts = |process: &Process| *process.line.borrow() == Line::Open;
            if shared.live.get(&suspect).is_some_and(acts)
                || shared.seemingly_alive.contains(&suspect)
            {
                return Err(refusal("NOT_OWNER", Some(&suspect)));
            }
        }
        shared.epoch += 1;
        shared.owner = Some(self.address.clone());
        Ok(shared.epoch)
    }

    pub(super) fn deregister(
        &self,
        request: &cb::DeregisterResourceManagerRequest,
    ) -> Result<(), Status> {
        let mut shared = self.members.shared();
        shared.left.push((self.address.clone(), request.session_id));
        shared.refused_to_leave.get_mut(&self.address).and_then(Vec::pop).map_or(Ok(()), Err)
    }

    fn list(&self) -> String {
        let shared = self.members.shared();
        let others = shared.live.keys().filter(|address| **address != self.address);
        let mut list = vec![self.address.clone()];
        list.extend(others.cloned());
        list.join(",")
    }
}

#[tonic::async_trait]
impl Scheduler for Member {
    async fn register_resource_manager(
        &self,
        request: Request<si::RegisterResourceManagerRequest>,
    ) -> Result<Response<si::RegisterResourceManagerResponse>, Status> {
        let epoch = self.claim(request.metadata())?;
        // Sent to the store and back.
        sleep(Duration::from_millis(5)).await;
        let mut response = Response::new(si::RegisterResourceManagerResponse::default());
        let headers = response.metadata_mut();
        headers.insert("x-si-session", epoch.into());
        headers.insert("x-si-scheduler", format!("of {}", self.address).parse().unwrap());
        headers.insert("x-si-members", self.list().parse().unwrap());
        Ok(response)
    }

    type UpdateAllocationStream = Replies<si::AllocationResponse>;

    /// Places each ask at once.
    async fn update_allocation(
        &self,
        request: Request<Streaming<si::AllocationRequest>>,
    ) -> Result<Response<Self::UpdateAllocationStream>, Status> {
        let (replies, response) = self.open(request.metadata(), true);
        let mut requests = request.into_inner();
        let (members, address) = (self.members.clone(), self.address.clone());
        tokio::spawn(async move {
            let mut beats = interval(Duration::from_millis(100));
            let mut taken_seq = 0;
            loop {
                let request = tokio::select! {
                    request = requests.message() => request,
                    _ = beats.tick() => {
                        let beat = si::AllocationResponse { taken_seq, ..Default::default() };
                        let is_mute = members.shared().mute.contains(&address);
                        if !is_mute && replies.send(Ok(beat)).await.is_err() {
                            return;
                        }
                        continue;
                    }
                };
                let Ok(Some(request)) = request else { return };
                taken_seq = taken_seq.max(request.client_seq);
                let asks = request.allocations.into_iter();
                let asks = asks.filter(|ask| ask.node_id.is_empty());
                let new: Vec<_> =
                    asks.map(|ask| si::Allocation { node_id: address.clone(), ..ask }).collect();
                if !new.is_empty() {
                    let reply = si::AllocationResponse { new, taken_seq, ..Default::default() };
                    let _ = replies.send(Ok(reply)).await;
                }
            }
        });
        Ok(response)
    }

    type UpdateApplicationStream = Replies<si::ApplicationResponse>;

    async fn update_application(
        &self,
        request: Request<Streaming<si::ApplicationRequest>>,
    ) -> Result<Response<Self::UpdateApplicationStream>, Status> {
        let (replies, response) = self.open(request.metadata(), false);
        hold(request.into_inner(), replies);
        Ok(response)
    }

    type UpdateNodeStream = Replies<si::NodeResponse>;

    async fn update_node(
        &self,
        request: Request<Streaming<si::NodeRequest>>,
    ) -> Result<Response<Self::UpdateNodeStream>, Status> {
        let (replies, response) = self.open(request.metadata(), false);
        hold(request.into_inner(), replies);
        Ok(response)
    }

    type UpdateStream = Replies<v0::UpdateResponse>;

    async fn update(
        &self,
        _: Request<Streaming<v0::UpdateRequest>>,
    ) -> Result<Response<Self::UpdateStream>, Status> {
        Err(Status::unimplemented("one stream"))
    }
}

#[tonic::async_trait]
impl CallbackService for Member {
    type AttachStream = Replies<cb::CoreMessage>;

    /// Announces an allocation at this member, again and again.
    async fn attach(
        &self,
        request: Request<Streaming<cb::ShimMessage>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let (messages, replies) = mpsc::channel(1_000);
        hold(request.into_inner(), ());
        let message = |body| Ok(cb::CoreMessage { body: Some(body) });
        let node_id = self.address.clone();
        tokio::spawn(async move {
            let _ = messages.send(message(Body::Welcome(cb::Welcome::default()))).await;
            for cache_seq in 1.. {
                let assumed =
                    cb::AssumedAllocation { node_id: node_id.clone(), ..Default::default() };
                let assumed_allocations = vec![assumed];
                let args = Some(cb::CacheSyncArgs { assumed_allocations, ..Default::default() });
                let sync = cb::CacheSync { cache_seq, args, ..Default::default() };
                if messages.send(message(Body::CacheSync(sync))).await.is_err() {
                    return;
                }
                sleep(Duration::from_millis(50)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(replies))))
    }
}

/// Reads a stream to its end.
fn hold<Q: Send + 'static, R: Send + 'static>(mut requests: Streaming<Q>, replies: R) {
    tokio::spawn(async move {
        while let Ok(Some(_)) = requests.message().await {}
        drop(replies);
    });
}
