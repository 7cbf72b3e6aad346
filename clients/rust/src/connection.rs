//! One connection: the registration if one is needed, the streams, and the messages received on
//! them.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join3;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1::CoreMessage;
use monoceros_proto::v1::core_message::Body;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::callbacks::{Invalid, Listener};
use crate::connect;
use crate::options::Options;
use crate::request::{AnyRequest, Kind};
use crate::route::Target;
use crate::stubs::si::scheduler_client::SchedulerClient;
use crate::stubs::v1::admin_service_client::AdminServiceClient;
use crate::stubs::v1::callback_service_client::CallbackServiceClient;

/// Largest message that is accepted. The scheduler joins less into one message, but a single item
/// may be larger.
const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// Queued messages per stream that wait for the transport.
const AHEAD: usize = 16;

/// A message received on one of the streams.
#[derive(Debug)]
pub(crate) enum Received {
    Nodes(si::NodeResponse),
    Applications(si::ApplicationResponse),
    Allocations(si::AllocationResponse),
    /// The end of a stream.
    Ended(Status),
}

/// The result of a registration.
pub(crate) struct Registered {
    /// Number of the session.
    pub(crate) session: u64,
    /// Number of the last acknowledged request. `None` unless an earlier session continues.
    pub(crate) taken: Option<u64>,
    /// The incarnation of the owner.
    pub(crate) scheduler: Option<String>,
    /// The addresses of all members, if the scheduler is a cluster.
    pub(crate) members: Option<String>,
}

/// The open streams of a session.
pub(crate) struct Streams {
    nodes: mpsc::Sender<si::NodeRequest>,
    applications: mpsc::Sender<si::ApplicationRequest>,
    allocations: mpsc::Sender<si::AllocationRequest>,
    /// Number of the session.
    pub(crate) session: u64,
    /// Number of the last acknowledged request.
    pub(crate) taken: u64,
    /// Longest distance of messages that the scheduler promises, if it promises any.
    pub(crate) beat: Option<Duration>,
}

/// Receiver of the messages of a session's streams.
pub(crate) struct Incoming {
    received: mpsc::UnboundedReceiver<Received>,
    /// Tasks that read the streams; they end when this is dropped.
    readers: JoinSet<()>,
}

/// A connection to the scheduler.
#[derive(Clone)]
pub(crate) struct Connection<'o> {
    channel: Channel,
    options: &'o Options,
    /// Name of the client and number of the attempt.
    attempt: Option<MetadataValue<Ascii>>,
    /// Whether members may answer with the owner's address in place of forwarding.
    takes_redirects: bool,
}

/// Metadata of a registration by which a cluster knows a client again.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    /// The secret of the client.
    pub(crate) proof: Option<MetadataValue<Ascii>>,
    /// Number of the last session.
    pub(crate) session: Option<u64>,
    /// The incarnation of the owner that fell silent.
    pub(crate) suspects: Option<String>,
}

impl<'o> Connection<'o> {
    pub(crate) async fn open(
        options: &'o Options,
        target: &Target,
        attempt: Option<MetadataValue<Ascii>>,
        takes_redirects: bool,
    ) -> Result<Self, Status> {
        let channel = connect::open(options, target).await?;
        Ok(Self { channel, options, attempt, takes_redirects })
    }

    pub(crate) async fn register(&self, shown: Credentials) -> Result<Registered, Status> {
        let mut request = self.request(self.options.registration.clone());
        let metadata = request.metadata_mut();
        let Credentials { proof, session, suspects } = shown;
        if let Some(proof) = proof {
            metadata.insert("x-si-proof", proof);
        }
        if let Some(session) = session {
            metadata.insert("x-si-session", session.into());
        }
        if let Some(Ok(suspects)) = suspects.map(|suspects| suspects.parse()) {
            metadata.insert("x-si-suspects", suspects);
        }
        if self.options.takes_over {
            let mode = MetadataValue::from_static("attach");
            request.metadata_mut().insert("x-si-register-mode", mode);
        }
        let response = self.scheduler().register_resource_manager(request).await?;
        let metadata = response.metadata();
        let session = number(metadata, "x-si-session").ok_or_else(|| {
            Status::unimplemented("the scheduler did not say which session it has opened")
        })?;
        let resumed = metadata.get("x-si-registered").is_some_and(|how| how == "attached");
        let taken = number(metadata, "x-si-taken-seq").filter(|_| resumed);
        let text = |key| metadata.get(key)?.to_str().ok().map(ToOwned::to_owned);
        let (scheduler, members) = (text("x-si-scheduler"), text("x-si-members"));
        Ok(Registered { session, taken, scheduler, members })
    }

    /// Opens all streams of a session. `acknowledged` is the number of the last acknowledged
    /// request, `seen` that of the last received message of each kind.
    pub(crate) async fn streams(
        &self,
        session: u64,
        acknowledged: u64,
        seen: [u64; 3],
        invalid: &Arc<Invalid>,
    ) -> Result<(Streams, Incoming), Status> {
        let (sender, received) = mpsc::unbounded_channel();
        let mut readers = JoinSet::new();
        if let Some(callbacks) = self.options.callbacks.clone() {
            let mut listener = Listener::default();
            let rm_id = &self.options.registration.rm_id;
            let (answers, queued) = mpsc::channel(AHEAD);
            let _ = answers.try_send(listener.hello(&*callbacks, rm_id, session));
            let mut service = CallbackServiceClient::new(self.channel.clone())
                .max_decoding_message_size(MAX_MESSAGE_BYTES);
            let messages = service.attach(self.request(ReceiverStream::new(queued))).await?;
            let mut messages = messages.into_inner();
            // The callback stream is ready before the scheduler decides anything.
            let welcome = messages.message().await?;
            if !matches!(welcome, Some(CoreMessage { body: Some(Body::Welcome(_)) })) {
                return Err(ended(&mut messages).await);
            }
            let (sender, invalid) = (sender.clone(), Arc::clone(invalid));
            invalid.begin_stream();
            readers.spawn(async move {
                let end = loop {
                    // An invalidation is sent behind the answers given before it.
                    let message = tokio::select! {
                        message = messages.message() => message,
                        invalidate = invalid.requested() => {
                            let _ = answers.send(invalidate).await;
                            continue;
                        }
                    };
                    match message {
                        Ok(Some(message)) => {
                            let Some(answer) = listener.answer(&*callbacks, message) else {
                                continue;
                            };
                            // If the receiver is closed, the status that ends the stream has the
                            // reason.
                            let _ = answers.send(answer).await;
                        }
                        Ok(None) => break ended(&mut messages).await,
                        Err(status) => break status,
                    }
                };
                let _ = sender.send(Received::Ended(end));
            });
        }
        let (nodes, node_requests) = mpsc::channel(AHEAD);
        let (applications, application_requests) = mpsc::channel(AHEAD);
        let (allocations, allocation_requests) = mpsc::channel(AHEAD);
        let bound = |kind: Kind| (session, acknowledged, seen[kind.index()]);
        let (mut of_nodes, mut of_applications, mut of_allocations) =
            (self.scheduler(), self.scheduler(), self.scheduler());
        let mut allocation_requests = self.bound(allocation_requests, bound(Kind::Allocations));
        allocation_requests.metadata_mut().insert("x-si-beat", MetadataValue::from_static("yes"));
        let (node_replies, application_replies, allocation_replies) = try_join3(
            of_nodes.update_node(self.bound(node_requests, bound(Kind::Nodes))),
            of_applications
                .update_application(self.bound(application_requests, bound(Kind::Applications))),
            of_allocations.update_allocation(allocation_requests),
        )
        .await?;
        let taken = |metadata: &MetadataMap| number(metadata, "x-si-taken-seq");
        let taken = taken(node_replies.metadata())
            .max(taken(application_replies.metadata()))
            .max(taken(allocation_replies.metadata()))
            .ok_or_else(|| Status::unimplemented("the scheduler does not number requests"))?;
        let beat = number(allocation_replies.metadata(), "x-si-beat").map(Duration::from_millis);
        readers.spawn(read(node_replies, sender.clone(), Received::Nodes));
        readers.spawn(read(application_replies, sender.clone(), Received::Applications));
        readers.spawn(read(allocation_replies, sender, Received::Allocations));
        let streams = Streams { nodes, applications, allocations, session, taken, beat };
        Ok((streams, Incoming { received, readers }))
    }

    /// Ends the session with this number; the scheduler forgets the resource manager.
    pub(crate) async fn deregister(&self, session_id: u64, reason: String) -> Result<(), Status> {
        let request = monoceros_proto::v1::DeregisterResourceManagerRequest {
            rm_id: self.options.registration.rm_id.clone(),
            session_id,
            reason,
        };
        let mut admin = AdminServiceClient::new(self.channel.clone());
        admin.deregister_resource_manager(self.request(request)).await.map(drop)
    }

    /// The connection, for other calls.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    fn scheduler(&self) -> SchedulerClient<Channel> {
        SchedulerClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if self.takes_redirects {
            request.metadata_mut().insert("x-si-redirect", MetadataValue::from_static("yes"));
        }
        let given = [
            ("authorization", &self.options.authorization),
            ("x-si-instance", &self.options.instance),
            ("x-si-attempt", &self.attempt),
        ];
        for (key, value) in given {
            if let Some(value) = value {
                request.metadata_mut().insert(key, value.clone());
            }
        }
        request
    }

    /// Builds the requests of a stream, with the session and the numbers at which both directions
    /// continue.
    fn bound<T>(
        &self,
        requests: mpsc::Receiver<T>,
        (session, acknowledged, seen): (u64, u64, u64),
    ) -> Request<ReceiverStream<T>> {
        let mut request = self.request(ReceiverStream::new(requests));
        let metadata = request.metadata_mut();
        // An id that no header can carry is invalid, so the registration failed before.
        if let Ok(rm_id) = self.options.registration.rm_id.parse::<MetadataValue<Ascii>>() {
            metadata.insert("x-si-rm-id", rm_id);
        }
        metadata.insert("x-si-session", session.into());
        metadata.insert("x-si-client-seq", acknowledged.into());
        metadata.insert("x-si-resume", seen.into());
        request
    }
}

impl Incoming {
    /// Returns the next message of any stream.
    pub(crate) async fn next(&mut self) -> Received {
        let none = || Received::Ended(Status::unavailable("the streams have ended"));
        self.received.recv().await.unwrap_or_else(none)
    }

    /// Whether messages have arrived that were not looked at yet.
    pub(crate) fn has_unread(&self) -> bool {
        !self.received.is_empty()
    }

    /// Ends all streams. Afterwards no callback is running.
    pub(crate) async fn close(mut self) {
        self.readers.shutdown().await;
    }
}

impl Streams {
    /// Waits until the transport accepts a request of that kind. `Err` if the stream has ended; the
    /// reason is received as a message.
    pub(crate) async fn reserve(&self, kind: Kind) -> Result<Permit<'_>, ()> {
        let permit = match kind {
            Kind::Nodes => self.nodes.reserve().await.map(Permit::Nodes),
            Kind::Applications => self.applications.reserve().await.map(Permit::Applications),
            Kind::Allocations => self.allocations.reserve().await.map(Permit::Allocations),
        };
        permit.map_err(drop)
    }

    /// Acknowledges received messages, if the transport has room. Returns whether it had.
    pub(crate) fn acknowledge(&self, kind: Kind, ack_seq: u64) -> bool {
        match kind {
            Kind::Nodes => {
                self.nodes.try_send(si::NodeRequest { ack_seq, ..Default::default() }).is_ok()
            }
            Kind::Applications => {
                let request = si::ApplicationRequest { ack_seq, ..Default::default() };
                self.applications.try_send(request).is_ok()
            }
            Kind::Allocations => {
                let request = si::AllocationRequest { ack_seq, ..Default::default() };
                self.allocations.try_send(request).is_ok()
            }
        }
    }
}

/// Reserved space for one request in the transport.
pub(crate) enum Permit<'s> {
    Nodes(mpsc::Permit<'s, si::NodeRequest>),
    Applications(mpsc::Permit<'s, si::ApplicationRequest>),
    Allocations(mpsc::Permit<'s, si::AllocationRequest>),
}

impl Permit<'_> {
    /// Sends a request, which must be of the kind that the space was reserved for.
    pub(crate) fn send(self, request: AnyRequest) {
        match (self, request) {
            (Self::Nodes(permit), AnyRequest::Nodes(request)) => permit.send(request),
            (Self::Applications(permit), AnyRequest::Applications(request)) => permit.send(request),
            (Self::Allocations(permit), AnyRequest::Allocations(request)) => permit.send(request),
            _ => unreachable!("the permit was reserved for the kind of this request"),
        }
    }
}

async fn read<R>(
    replies: Response<Streaming<R>>,
    sender: mpsc::UnboundedSender<Received>,
    wrap: fn(R) -> Received,
) {
    let mut replies = replies.into_inner();
    let end = loop {
        match replies.message().await {
            Ok(Some(reply)) => {
                if sender.send(wrap(reply)).is_err() {
                    return;
                }
            }
            Ok(None) => break ended(&mut replies).await,
            Err(status) => break status,
        }
    };
    let _ = sender.send(Received::Ended(end));
}

/// Returns the status of a stream that ended with OK. The reason is in the trailers, after the last
/// message.
async fn ended<R>(replies: &mut Streaming<R>) -> Status {
    let trailers = replies.trailers().await.ok().flatten().unwrap_or_default();
    Status::with_metadata(Code::Unavailable, "the stream ended", trailers)
}

fn number(metadata: &MetadataMap, key: &str) -> Option<u64> {
    metadata.get(key)?.to_str().ok()?.parse().ok()
}
