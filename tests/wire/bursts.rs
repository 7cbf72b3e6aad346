//! Clients that send one message per item at full speed: each message is a small frame of its own
//! on the wire, as stock clients send it. No message and no connection is lost.

use std::time::Duration;

use monoceros_proto::si::legacy::v0 as legacy;
use monoceros_proto::si::v1 as si;
use prost::Message;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::codegen::{Bytes, http};

use crate::harness::{QUEUES, Rm, Service, application, ask, node, registration, resource};

/// Time limit of bursts: an unoptimised service takes a while to read them.
const PATIENCE: Duration = Duration::from_secs(120);

/// One stream, frame by frame.
struct Frames {
    requests: h2::SendStream<Bytes>,
    replies: h2::client::ResponseFuture,
}

/// A connection on whose streams each message is sent in a frame of its own.
struct Client(h2::client::SendRequest<Bytes>);

impl Client {
    async fn connect(service: &Service) -> Self {
        let socket = TcpStream::connect(&service.grpc).await.unwrap();
        socket.set_nodelay(true).unwrap();
        // Small replies that it does not read must not make the client fail either.
        let mut windows = h2::client::Builder::new();
        windows.initial_connection_window_size(8 << 20);
        let (client, connection) = windows.handshake(socket).await.unwrap();
        tokio::spawn(connection);
        Self(client.ready().await.unwrap())
    }

    fn open(&mut self, rm: &str, method: &str) -> Frames {
        let request = http::Request::post(format!("http://localhost/si.v1.Scheduler/{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("x-si-rm-id", rm)
            .body(())
            .unwrap();
        let (replies, requests) = self.0.send_request(request, false).unwrap();
        Frames { requests, replies }
    }
}

impl Frames {
    /// Sends each message in a frame of its own, as the service's window allows.
    async fn burst(
        mut requests: h2::SendStream<Bytes>,
        messages: impl Iterator<Item = impl Message>,
    ) -> h2::SendStream<Bytes> {
        for message in messages {
            let mut frame = vec![0; 5];
            message.encode(&mut frame).unwrap();
            let length = u32::try_from(frame.len() - 5).unwrap();
            frame[1..5].copy_from_slice(&length.to_be_bytes());
            requests.reserve_capacity(frame.len());
            while requests.capacity() < frame.len() {
                std::future::poll_fn(|cx| requests.poll_capacity(cx)).await.unwrap().unwrap();
            }
            requests.send_data(frame.into(), false).unwrap();
        }
        requests
    }

    /// Reads messages until they hold this many items.
    async fn until<M: Message + Default>(
        replies: h2::client::ResponseFuture,
        items: usize,
        count: impl Fn(&M) -> usize,
    ) {
        let mut body = replies.await.unwrap().into_body();
        let (mut bytes, mut seen) = (Vec::new(), 0);
        while seen < items {
            let data = body.data().await.expect("the stream goes on").unwrap();
            body.flow_control().release_capacity(data.len()).unwrap();
            bytes.extend_from_slice(&data);
            while let Some((head, rest)) = bytes.split_at_checked(5) {
                let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
                let Some(message) = rest.get(..length) else { break };
                assert_eq!(head[0], 0, "not compressed");
                seen += count(&M::decode(message).unwrap());
                bytes.drain(..5 + length);
            }
        }
        assert_eq!(seen, items);
    }
}

async fn register(service: &Service) {
    let mut client = service.client().await;
    client.register_resource_manager(registration("rm", QUEUES)).await.unwrap();
}

/// This many messages of one ask each, for an unknown application.
fn asks(messages: usize) -> impl Iterator<Item = si::AllocationRequest> {
    (0..messages).map(|number| si::AllocationRequest {
        allocations: vec![ask("nobody", &format!("k{number}"))],
        ..Default::default()
    })
}

/// The number of asks that a reply rejects.
fn rejected(reply: &si::AllocationResponse) -> usize {
    reply.rejected_allocations.len()
}

/// Thirty thousand messages of one ask each, all of which are answered.
#[tokio::test]
async fn burst_of_small_messages_is_not_lost() {
    const MESSAGES: usize = 30_000;
    let service = Service::start_with(&[("session.reorder_window", "0")]);
    register(&service).await;
    let mut client = Client::connect(&service).await;
    let Frames { requests, replies } = client.open("rm", "UpdateAllocation");
    let answered = Frames::until(replies, MESSAGES, rejected);
    let both = async { tokio::join!(Frames::burst(requests, asks(MESSAGES)), answered) };
    timeout(PATIENCE, both).await.expect("every ask is answered");
}

/// A burst of small messages on the single stream of the legacy dialect.
#[tokio::test]
async fn burst_on_the_legacy_stream_is_not_lost() {
    const MESSAGES: usize = 30_000;
    let service = Service::start();
    register(&service).await;
    let mut client = Client::connect(&service).await;
    let Frames { requests, replies } = client.open("rm", "Update");
    let asks = (0..MESSAGES).map(|number| legacy::UpdateRequest {
        asks: vec![legacy::AllocationAsk {
            allocation_key: format!("k{number}"),
            application_id: "a".to_owned(),
            resource_ask: Some(resource(1, 1)),
            max_allocations: 1,
            ..Default::default()
        }],
        ..Default::default()
    });
    let answered = Frames::until(replies, MESSAGES, |reply: &legacy::UpdateResponse| {
        reply.rejected_allocations.len()
    });
    let both = async { tokio::join!(Frames::burst(requests, asks), answered) };
    timeout(PATIENCE, both).await.expect("every ask is answered");
}

/// Bursts on all streams of a connection, while no reply is read.
#[tokio::test]
async fn bursts_wait_for_a_client_that_does_not_read() {
    const MESSAGES: usize = 10_000;
    let service = Service::start_with(&[("session.reorder_window", "0")]);
    register(&service).await;
    let mut client = Client::connect(&service).await;
    let nodes = client.open("rm", "UpdateNode");
    let applications = client.open("rm", "UpdateApplication");
    let allocations = client.open("rm", "UpdateAllocation");
    let send = async {
        let new_nodes = (0..MESSAGES).map(|number| si::NodeRequest {
            nodes: vec![node(&format!("n{number}"), 1, 1)],
            ..Default::default()
        });
        let submitted = (0..MESSAGES).map(|number| si::ApplicationRequest {
            new: vec![application(&format!("a{number}"), "root.nowhere")],
            ..Default::default()
        });
        tokio::join!(
            Frames::burst(nodes.requests, new_nodes),
            Frames::burst(applications.requests, submitted),
            Frames::burst(allocations.requests, asks(MESSAGES)),
        )
    };
    // The streams stay open until the answers were read.
    let _open = timeout(PATIENCE, send).await.expect("everything is taken in");
    let read = async {
        tokio::join!(
            Frames::until(nodes.replies, MESSAGES, |reply: &si::NodeResponse| {
                reply.accepted.len() + reply.rejected.len()
            }),
            Frames::until(applications.replies, MESSAGES, |reply: &si::ApplicationResponse| {
                reply.accepted.len() + reply.rejected.len()
            }),
            Frames::until(allocations.replies, MESSAGES, rejected),
        )
    };
    timeout(PATIENCE, read).await.expect("everything is answered");
}

/// A burst is sent on one connection, while another connection is served.
#[tokio::test]
async fn other_rm_is_served_during_a_burst() {
    let service = Service::start();
    register(&service).await;
    let mut client = Client::connect(&service).await;
    let Frames { requests, replies } = client.open("rm", "UpdateAllocation");
    let burst = tokio::spawn(Frames::burst(requests, asks(20_000)));
    let other = Rm::register(&service, "other").await.with_nodes(&["n1"]).await;
    let other = other.with_application("app", "root.a").await;
    other.send_allocations(vec![], vec![ask("app", "x")], vec![]).await;
    other.until("placed", |seen| seen.new.len() == 1).await;
    let answered = Frames::until(replies, 20_000, rejected);
    timeout(PATIENCE, answered).await.expect("every ask is answered");
    drop(burst.await.unwrap());
}

/// The client library that this service is built with; its messages come one by one from a channel.
#[tokio::test]
async fn stock_client_may_send_one_message_per_ask() {
    const MESSAGES: usize = 30_000;
    let service = Service::start_with(&[("session.reorder_window", "0")]);
    let mut client = service.client().await;
    client.register_resource_manager(registration("rm", QUEUES)).await.unwrap();
    let (outgoing, requests) = mpsc::channel(1);
    let mut requests = Request::new(ReceiverStream::new(requests));
    requests.metadata_mut().insert("x-si-rm-id", "rm".parse().unwrap());
    let mut replies = client.update_allocation(requests).await.unwrap().into_inner();
    let sent = tokio::spawn(async move {
        for ask in asks(MESSAGES) {
            outgoing.send(ask).await.unwrap();
        }
        outgoing
    });
    let answered = async {
        let mut answered = 0;
        while answered < MESSAGES {
            answered += rejected(&replies.message().await.unwrap().expect("the stream goes on"));
        }
        answered
    };
    assert_eq!(timeout(PATIENCE, answered).await.expect("every ask is answered"), MESSAGES);
    sent.await.unwrap();
}

/// Bursts on all streams at once, with a short queue of the scheduler: the service stops reading
/// again and again, and accepts all valid requests nevertheless.
#[tokio::test]
async fn bursts_wait_for_the_scheduler_queue() {
    const MESSAGES: usize = 4_000;
    let service = Service::start_with(&[("SESSION__INGRESS_BYTES", "262144")]);
    let rm = Rm::register(&service, "rm").await.with_application("app", "root.a").await;
    rm.send_nodes(vec![node("large", 1_000_000_000, 1_000_000)]).await;
    rm.until("a node", |seen| seen.accepted_nodes.len() == 1).await;
    // These streams displace the streams above, and may receive their messages again.
    let mut client = Client::connect(&service).await;
    let nodes = client.open("rm", "UpdateNode");
    let applications = client.open("rm", "UpdateApplication");
    let allocations = client.open("rm", "UpdateAllocation");
    let new_nodes = (0..MESSAGES).map(|number| si::NodeRequest {
        nodes: vec![node(&format!("n{number}"), 1, 1)],
        ..Default::default()
    });
    let submitted = (0..MESSAGES).map(|number| si::ApplicationRequest {
        new: vec![application(&format!("job-{number}"), "root.a")],
        ..Default::default()
    });
    let wanted = (0..MESSAGES).map(|number| si::AllocationRequest {
        allocations: vec![ask("app", &format!("k{number}"))],
        ..Default::default()
    });
    let all = async {
        tokio::join!(
            Frames::burst(nodes.requests, new_nodes),
            Frames::burst(applications.requests, submitted),
            Frames::burst(allocations.requests, wanted),
            Frames::until(nodes.replies, MESSAGES, |reply: &si::NodeResponse| {
                assert_eq!(reply.rejected, []);
                reply.accepted.iter().filter(|node| node.node_id != "large").count()
            }),
            Frames::until(applications.replies, MESSAGES, |reply: &si::ApplicationResponse| {
                assert_eq!(reply.rejected, []);
                reply.accepted.iter().filter(|known| known.application_id != "app").count()
            }),
            Frames::until(allocations.replies, MESSAGES, |reply: &si::AllocationResponse| {
                assert_eq!(reply.rejected_allocations, []);
                reply.new.len()
            }),
        )
    };
    timeout(PATIENCE, all).await.expect("everything is taken");
}
