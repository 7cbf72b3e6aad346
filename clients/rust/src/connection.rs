//! One connection: a registration where one is due, the streams, and everything that comes by them.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;

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
use crate::options::Options;
use crate::request::{AnyRequest, Kind};
use crate::stubs::si::scheduler_client::SchedulerClient;
use crate::stubs::v1::admin_service_client::AdminServiceClient;
use crate::stubs::v1::callback_service_client::CallbackServiceClient;

/// The largest message that is read: more than the scheduler joins, in case one item is larger.
const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// Messages that wait for the transport, per stream.
const AHEAD: usize = 16;

/// What came by one of the streams.
#[derive(Debug)]
pub(crate) enum Heard {
    Nodes(si::NodeResponse),
    Applications(si::ApplicationResponse),
    Allocations(si::AllocationResponse),
    /// A stream has ended.
    Ended(Status),
}

/// How a registration went.
pub(crate) struct Registered {
    /// The number of the session.
    pub(crate) session: u64,
    /// The number of the last request that was taken, if an earlier session goes on.
    pub(crate) taken: Option<u64>,
}

/// The streams of a session, open.
pub(crate) struct Streams {
    nodes: mpsc::Sender<si::NodeRequest>,
    applications: mpsc::Sender<si::ApplicationRequest>,
    allocations: mpsc::Sender<si::AllocationRequest>,
    /// The number of the last request that was taken.
    pub(crate) taken: u64,
}

/// What comes by the streams of a session.
pub(crate) struct Incoming {
    heard: mpsc::UnboundedReceiver<Heard>,
    /// Who reads them; ends with this.
    _readers: JoinSet<()>,
}

/// A connection to the scheduler.
#[derive(Clone)]
pub(crate) struct Connection<'o> {
    channel: Channel,
    options: &'o Options,
    attempt: Attempt,
}

/// Which client tries to connect, and for which time: what is left of an earlier connection, and comes
/// late, does not displace what a later one has opened.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    client: u64,
    number: u64,
}

impl Attempt {
    /// Of a client that has made none, which has a name that no other has.
    pub(crate) fn none() -> Self {
        Self { client: RandomState::new().build_hasher().finish(), number: 0 }
    }

    /// The next one of the same client.
    pub(crate) fn next(&mut self) -> Self {
        self.number += 1;
        self.clone()
    }
}

impl<'o> Connection<'o> {
    pub(crate) async fn open(options: &'o Options, attempt: Attempt) -> Result<Self, Status> {
        let channel = options.endpoint.connect().await;
        let channel = channel.map_err(|error| Status::from_error(Box::new(error)))?;
        Ok(Self { channel, options, attempt })
    }

    pub(crate) async fn register(&self) -> Result<Registered, Status> {
        let mut request = self.request(self.options.registration.clone());
        if self.options.goes_on {
            let mode = MetadataValue::from_static("attach");
            request.metadata_mut().insert("x-si-register-mode", mode);
        }
        let response = self.scheduler().register_resource_manager(request).await?;
        let metadata = response.metadata();
        let session = number(metadata, "x-si-session").ok_or_else(|| {
            Status::unimplemented("the scheduler did not say which session it has opened")
        })?;
        let goes_on = metadata.get("x-si-registered").is_some_and(|how| how == "attached");
        let taken = number(metadata, "x-si-taken-seq").filter(|_| goes_on);
        Ok(Registered { session, taken })
    }

    /// Opens all streams of a session. The client knows that everything up to `known` was taken, and
    /// has seen the messages up to `seen` of each kind.
    pub(crate) async fn streams(
        &self,
        session: u64,
        known: u64,
        seen: [u64; 3],
        invalid: &Arc<Invalid>,
    ) -> Result<(Streams, Incoming), Status> {
        let (hear, heard) = mpsc::unbounded_channel();
        let mut readers = JoinSet::new();
        if let Some(callbacks) = self.options.callbacks.clone() {
            let mut listener = Listener::default();
            let rm_id = &self.options.registration.rm_id;
            let (say, said) = mpsc::channel(AHEAD);
            let _ = say.try_send(listener.hello(&*callbacks, rm_id, session));
            let mut service = CallbackServiceClient::new(self.channel.clone())
                .max_decoding_message_size(MAX_MESSAGE_BYTES);
            let messages = service.attach(self.request(ReceiverStream::new(said))).await?;
            let mut messages = messages.into_inner();
            // Once the scheduler knows whom to ask, it asks before it decides.
            let welcome = messages.message().await?;
            if !matches!(welcome, Some(CoreMessage { body: Some(Body::Welcome(_)) })) {
                return Err(ended(&mut messages).await);
            }
            let (hear, invalid) = (hear.clone(), Arc::clone(invalid));
            invalid.begin_stream();
            readers.spawn(async move {
                let end = loop {
                    // In turn with the answers: what is wrong by now was given before.
                    let message = tokio::select! {
                        message = messages.message() => message,
                        invalidate = invalid.news() => {
                            let _ = say.send(invalidate).await;
                            continue;
                        }
                    };
                    match message {
                        Ok(Some(message)) => {
                            let Some(answer) = listener.hear(&*callbacks, message) else {
                                continue;
                            };
                            // When nobody takes it, the end of the stream says why.
                            let _ = say.send(answer).await;
                        }
                        Ok(None) => break ended(&mut messages).await,
                        Err(status) => break status,
                    }
                };
                let _ = hear.send(Heard::Ended(end));
            });
        }
        let (nodes, node_requests) = mpsc::channel(AHEAD);
        let (applications, application_requests) = mpsc::channel(AHEAD);
        let (allocations, allocation_requests) = mpsc::channel(AHEAD);
        let bound = |kind: Kind| (session, known, seen[kind.index()]);
        let (mut of_nodes, mut of_applications, mut of_allocations) =
            (self.scheduler(), self.scheduler(), self.scheduler());
        let (node_replies, application_replies, allocation_replies) = try_join3(
            of_nodes.update_node(self.bound(node_requests, bound(Kind::Nodes))),
            of_applications
                .update_application(self.bound(application_requests, bound(Kind::Applications))),
            of_allocations
                .update_allocation(self.bound(allocation_requests, bound(Kind::Allocations))),
        )
        .await?;
        let taken = |metadata: &MetadataMap| number(metadata, "x-si-taken-seq");
        let taken = taken(node_replies.metadata())
            .max(taken(application_replies.metadata()))
            .max(taken(allocation_replies.metadata()))
            .ok_or_else(|| Status::unimplemented("the scheduler does not number requests"))?;
        readers.spawn(read(node_replies, hear.clone(), Heard::Nodes));
        readers.spawn(read(application_replies, hear.clone(), Heard::Applications));
        readers.spawn(read(allocation_replies, hear, Heard::Allocations));
        let streams = Streams { nodes, applications, allocations, taken };
        Ok((streams, Incoming { heard, _readers: readers }))
    }

    /// Ends the session; the scheduler forgets what it knew of the resource manager.
    pub(crate) async fn deregister(&self, reason: String) -> Result<(), Status> {
        let request = monoceros_proto::v1::DeregisterResourceManagerRequest {
            rm_id: self.options.registration.rm_id.clone(),
            reason,
            ..Default::default()
        };
        let mut admin = AdminServiceClient::new(self.channel.clone());
        admin.deregister_resource_manager(self.request(request)).await.map(drop)
    }

    fn scheduler(&self) -> SchedulerClient<Channel> {
        SchedulerClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let Attempt { client, number } = self.attempt;
        if let Ok(attempt) = format!("{client:016x}.{number}").parse::<MetadataValue<Ascii>>() {
            request.metadata_mut().insert("x-si-attempt", attempt);
        }
        let given = [
            ("authorization", &self.options.authorization),
            ("x-si-instance", &self.options.instance),
        ];
        for (key, value) in given {
            if let Some(value) = value {
                request.metadata_mut().insert(key, value.clone());
            }
        }
        request
    }

    /// Requests of a stream that says whose it is, and from where on to go on in both directions.
    fn bound<T>(
        &self,
        requests: mpsc::Receiver<T>,
        (session, known, seen): (u64, u64, u64),
    ) -> Request<ReceiverStream<T>> {
        let mut request = self.request(ReceiverStream::new(requests));
        let metadata = request.metadata_mut();
        // An id that no header can have is no id; the registration has failed before.
        if let Ok(rm_id) = self.options.registration.rm_id.parse::<MetadataValue<Ascii>>() {
            metadata.insert("x-si-rm-id", rm_id);
        }
        metadata.insert("x-si-session", session.into());
        metadata.insert("x-si-client-seq", known.into());
        metadata.insert("x-si-resume", seen.into());
        request
    }
}

impl Incoming {
    /// The next thing that comes by any of them.
    pub(crate) async fn next(&mut self) -> Heard {
        let none = || Heard::Ended(Status::unavailable("the streams have ended"));
        self.heard.recv().await.unwrap_or_else(none)
    }
}

impl Streams {
    /// Waits until a request of that kind can be given to the transport. `Err`: the stream has
    /// ended, and why will be heard.
    pub(crate) async fn room(&self, kind: Kind) -> Result<Room<'_>, ()> {
        let room = match kind {
            Kind::Nodes => self.nodes.reserve().await.map(Room::Nodes),
            Kind::Applications => self.applications.reserve().await.map(Room::Applications),
            Kind::Allocations => self.allocations.reserve().await.map(Room::Allocations),
        };
        room.map_err(drop)
    }

    /// Acknowledges what was seen, if there is room to say that.
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

/// Room for one request.
pub(crate) enum Room<'s> {
    Nodes(mpsc::Permit<'s, si::NodeRequest>),
    Applications(mpsc::Permit<'s, si::ApplicationRequest>),
    Allocations(mpsc::Permit<'s, si::AllocationRequest>),
}

impl Room<'_> {
    /// Sends a request, which is of the kind that the room is for.
    pub(crate) fn send(self, request: AnyRequest) {
        match (self, request) {
            (Self::Nodes(room), AnyRequest::Nodes(request)) => room.send(request),
            (Self::Applications(room), AnyRequest::Applications(request)) => room.send(request),
            (Self::Allocations(room), AnyRequest::Allocations(request)) => room.send(request),
            _ => unreachable!("room was asked for the kind of this very request"),
        }
    }
}

async fn read<R>(
    replies: Response<Streaming<R>>,
    hear: mpsc::UnboundedSender<Heard>,
    heard: fn(R) -> Heard,
) {
    let mut replies = replies.into_inner();
    let end = loop {
        match replies.message().await {
            Ok(Some(reply)) => {
                if hear.send(heard(reply)).is_err() {
                    return;
                }
            }
            Ok(None) => break ended(&mut replies).await,
            Err(status) => break status,
        }
    };
    let _ = hear.send(Heard::Ended(end));
}

/// A stream that ended in order. Why, is in what comes after its last message.
async fn ended<R>(replies: &mut Streaming<R>) -> Status {
    let trailers = replies.trailers().await.ok().flatten().unwrap_or_default();
    Status::with_metadata(Code::Unavailable, "the stream ended", trailers)
}

fn number(metadata: &MetadataMap, key: &str) -> Option<u64> {
    metadata.get(key)?.to_str().ok()?.parse().ok()
}
