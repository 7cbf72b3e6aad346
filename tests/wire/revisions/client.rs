//! A client that knows only one revision: requests are written in protobuf's text form, encoded by
//! the definitions of that revision, and sent as bytes; replies are decoded with the same
//! definitions.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of this")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::Message as _;
use prost::bytes::Bytes;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor, Value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::harness::{PATIENCE, QUEUES, Service};
use crate::raw::Raw;

/// The definitions of one revision.
#[derive(Clone)]
pub struct Revision(DescriptorPool);

impl Revision {
    /// Compiles `name.proto`: `l`, `m`, `n` or `t`, from the oldest to the present one.
    pub fn new(name: &str) -> Self {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wire/revisions");
        let files = protox::compile([format!("{name}.proto")], [directory]).unwrap();
        Self(DescriptorPool::from_file_descriptor_set(files).unwrap())
    }

    /// All messages except map entries and nested ones.
    pub fn messages(&self) -> Vec<MessageDescriptor> {
        let outer = |message: &MessageDescriptor| message.parent_message().is_none();
        self.0.all_messages().filter(outer).collect()
    }

    pub fn message(&self, name: &str) -> MessageDescriptor {
        self.0.get_message_by_name(&format!("si.v1.{name}")).unwrap()
    }

    /// Parses text such as `nodeID: "n1" action: CREATE`.
    pub fn parse(message: MessageDescriptor, text: &str) -> DynamicMessage {
        DynamicMessage::parse_text_format(message, text)
            .unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn method(&self, name: &str) -> MethodDescriptor {
        let service = self.0.get_service_by_name("si.v1.Scheduler").unwrap();
        service.methods().find(|method| method.name() == name).unwrap()
    }
}

/// Messages received on the streams of a client, in order, by method.
#[derive(Default)]
struct Seen {
    messages: BTreeMap<&'static str, Vec<DynamicMessage>>,
    ends: BTreeMap<&'static str, Option<Status>>,
}

/// A resource manager of one revision.
pub struct Client {
    pub rm_id: String,
    revision: Revision,
    grpc: Grpc<Channel>,
    streams: BTreeMap<&'static str, (MessageDescriptor, mpsc::Sender<Bytes>)>,
    seen: Arc<Mutex<Seen>>,
    news: Arc<Notify>,
}

impl Client {
    /// Registers, with queues if the revision has a field for them, and opens `methods`.
    pub async fn register(
        service: &Service,
        revision: &Revision,
        rm_id: &str,
        methods: &[&'static str],
    ) -> Self {
        let mut client = Self::connect(service, revision, rm_id).await;
        client.register_again().await;
        for method in methods {
            client.open(method).await;
        }
        client
    }

    /// A client that has not registered.
    pub async fn connect(service: &Service, revision: &Revision, rm_id: &str) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
        Self {
            rm_id: rm_id.to_owned(),
            revision: revision.clone(),
            grpc: Grpc::new(endpoint.connect().await.unwrap()),
            streams: BTreeMap::new(),
            seen: Arc::default(),
            news: Arc::default(),
        }
    }

    pub async fn register_again(&mut self) {
        let method = self.revision.method("RegisterResourceManager");
        let mut request = DynamicMessage::new(method.input());
        request.set_field_by_name("rmID", Value::String(self.rm_id.clone()));
        if method.input().get_field_by_name("config").is_some() {
            request.set_field_by_name("config", Value::String(QUEUES.to_owned()));
        }
        self.register_bytes(request.encode_to_vec()).await.unwrap();
    }

    /// Registers with these bytes.
    pub async fn register_bytes(&mut self, bytes: Vec<u8>) -> Result<DynamicMessage, Status> {
        let method = self.revision.method("RegisterResourceManager");
        self.grpc.ready().await.unwrap();
        let path = PathAndQuery::from_static("/si.v1.Scheduler/RegisterResourceManager");
        let reply = self.grpc.unary(Request::new(Bytes::from(bytes)), path, Raw).await?;
        Ok(DynamicMessage::decode(method.output(), reply.into_inner()).unwrap())
    }

    pub async fn open(&mut self, name: &'static str) {
        let method = self.revision.method(name);
        let (sender, requests) = mpsc::channel(64);
        self.streams.insert(name, (method.input(), sender));
        self.grpc.ready().await.unwrap();
        let path = format!("/si.v1.Scheduler/{name}").parse().unwrap();
        let requests = Request::new(ReceiverStream::new(requests));
        let response = self.grpc.streaming(requests, path, Raw).await;
        let (seen, news) = (Arc::clone(&self.seen), Arc::clone(&self.news));
        let replies = method.output();
        tokio::spawn(async move {
            let end = match response {
                Err(status) => Some(status),
                Ok(response) => {
                    let mut stream = response.into_inner();
                    loop {
                        match stream.message().await {
                            Ok(Some(bytes)) => {
                                let message =
                                    DynamicMessage::decode(replies.clone(), bytes).unwrap();
                                let mut seen = seen.lock().unwrap();
                                seen.messages.entry(name).or_default().push(message);
                            }
                            Ok(None) => break None,
                            Err(status) => break Some(status),
                        }
                        news.notify_waiters();
                    }
                }
            };
            seen.lock().unwrap().ends.insert(name, end);
            news.notify_waiters();
        });
    }

    /// Closes the client's side of a stream.
    pub fn close(&mut self, name: &'static str) {
        drop(self.streams.remove(name));
    }

    /// Sends a request in text form; `rmID` may be omitted.
    pub async fn send(&self, method: &'static str, text: &str) {
        let (input, _) = &self.streams[method];
        let mut request = Revision::parse(input.clone(), text);
        request.set_field_by_name("rmID", Value::String(self.rm_id.clone()));
        self.send_bytes(method, request.encode_to_vec()).await;
    }

    /// Sends these bytes.
    pub async fn send_bytes(&self, method: &'static str, bytes: Vec<u8>) {
        self.streams[method].1.send(bytes.into()).await.unwrap();
    }

    /// The items of a list over all responses so far, in order of arrival.
    pub fn items(&self, method: &'static str, list: &str) -> Vec<DynamicMessage> {
        let seen = self.seen.lock().unwrap();
        let messages = seen.messages.get(method).into_iter().flatten();
        let items = messages.flat_map(|message| {
            let value = message.get_field_by_name(list).unwrap().into_owned();
            value.as_list().unwrap().to_vec()
        });
        items.map(|item| item.as_message().unwrap().clone()).collect()
    }

    /// Waits until a list has `n` items, counted over all responses; fails if it has more. Returns
    /// the last item.
    pub async fn last(&self, method: &'static str, list: &str, n: usize) -> DynamicMessage {
        let reached = || (self.items(method, list).len() >= n).then_some(());
        self.wait(&format!("{n} items of {method}.{list}"), reached).await;
        let mut items = self.items(method, list);
        assert_eq!(items.len(), n, "{method}.{list}: {items:?}");
        items.pop().unwrap()
    }

    /// [`Self::last`] as text, fields in the order of their numbers.
    pub async fn last_text(&self, method: &'static str, list: &str, n: usize) -> String {
        self.last(method, list, n).await.to_text_format()
    }

    /// All messages received on a stream.
    pub fn messages(&self, method: &'static str) -> Vec<DynamicMessage> {
        self.seen.lock().unwrap().messages.get(method).cloned().unwrap_or_default()
    }

    /// The status that last ended a stream, if any.
    pub fn ended(&self, method: &'static str) -> Option<Status> {
        self.seen.lock().unwrap().ends.get(method).cloned().flatten()
    }

    /// Waits for the end of a stream. `None` if it ended OK.
    pub async fn end(&self, method: &'static str) -> Option<Status> {
        let ended = || self.seen.lock().unwrap().ends.get(method).cloned();
        self.wait(&format!("end of {method}"), ended).await
    }

    /// Waits for a condition on the received messages.
    pub async fn wait<T>(&self, what: &str, reached: impl Fn() -> Option<T>) -> T {
        let wait = async {
            loop {
                let news = self.news.notified();
                tokio::pin!(news);
                news.as_mut().enable();
                if let Some(value) = reached() {
                    return value;
                }
                news.await;
            }
        };
        let Ok(value) = timeout(PATIENCE, wait).await else {
            let seen = self.seen.lock().unwrap();
            let text = |message: &DynamicMessage| message.to_text_format();
            let messages: Vec<_> = seen
                .messages
                .iter()
                .map(|(method, list)| (method, list.iter().map(text).collect::<Vec<_>>()))
                .collect();
            panic!("{}: not reached: {what}; seen {messages:#?} {:?}", self.rm_id, seen.ends);
        };
        value
    }
}

/// A field as text, for comparison.
pub fn field(message: &DynamicMessage, name: &str) -> String {
    match message.get_field_by_name(name).unwrap().into_owned() {
        Value::String(text) => text,
        Value::EnumNumber(number) => number.to_string(),
        other => other.to_string(),
    }
}

/// The body of an HTTP page.
pub async fn page(service: &Service, path: &str) -> String {
    let mut connection = TcpStream::connect(service.http).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, connection.read_to_string(&mut answer)).await.unwrap().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
    body.to_owned()
}

/// Waits until a series on `/ws/v1/metrics` has reached `value`: events may be counted after their
/// answer.
pub async fn series_reaches(service: &Service, series: &str, value: u64) {
    let line = format!("{series} {value}");
    let wait = async {
        while !page(service, "/ws/v1/metrics").await.lines().any(|known| known == line) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if timeout(PATIENCE, wait).await.is_err() {
        let metrics = page(service, "/ws/v1/metrics").await;
        let si: Vec<_> = metrics.lines().filter(|line| line.contains("_si_")).collect();
        panic!("no `{line}` in {si:#?}");
    }
}

/// An application as shown by REST.
pub async fn application(
    service: &Service,
    rm_id: &str,
    queue: &str,
    id: &str,
) -> serde_json::Value {
    let path = format!("/ws/v1/partition/%5B{rm_id}%5Ddefault/queue/{queue}/applications");
    let body = page(service, &path).await;
    let applications: Vec<serde_json::Value> =
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
    let found = applications.iter().find(|application| application["applicationID"] == id);
    found.unwrap_or_else(|| panic!("no `{id}` in {body}")).clone()
}

/// A field with an amount of `vcore` in thousandths of a core.
pub fn vcore(field: &str, amount: i64) -> String {
    amount_of(field, "vcore", amount)
}

/// A field with an amount of one resource.
pub fn amount_of(field: &str, resource: &str, amount: i64) -> String {
    format!(r#"{field} {{ resources {{ key: "{resource}" value {{ value: {amount} }} }} }}"#)
}

/// The fields of a new application of user `alice`.
pub fn new_application(id: &str, queue: &str) -> String {
    format!(
        r#"applicationID: "{id}" queueName: "{queue}" partitionName: "default"
        ugi {{ user: "alice" groups: "dev" }}"#
    )
}

/// The fields of a new application for the oldest revision, whose clients bring no queues: the
/// built-in ones have a leaf per namespace, here `root.default`.
pub fn legacy_application(id: &str) -> String {
    let application = new_application(id, "root.default");
    format!(r#"{application} tags {{ key: "namespace" value: "default" }}"#)
}

/// The streams of every revision except the oldest.
pub const SPLIT: [&str; 3] = ["UpdateNode", "UpdateApplication", "UpdateAllocation"];

/// A client of a revision with three streams, with a node `n1` of this many thousandths of a core
/// and an application `app` in `root.a`.
pub async fn split(service: &Service, revision: &str, rm_id: &str, cores: i64) -> Client {
    let client = Client::register(service, &Revision::new(revision), rm_id, &SPLIT).await;
    let capacity = vcore("schedulableResource", cores);
    client
        .send("UpdateNode", &format!(r#"nodes {{ nodeID: "n1" action: CREATE {capacity} }}"#))
        .await;
    client.last("UpdateNode", "accepted", 1).await;
    let application = new_application("app", "root.a");
    client.send("UpdateApplication", &format!("new {{ {application} }}")).await;
    client.last("UpdateApplication", "accepted", 1).await;
    client
}

/// A client of the oldest revision, with a node `n1` and an application `app` in `root.default`.
pub async fn legacy(service: &Service, rm_id: &str, cores: i64) -> Client {
    let client = Client::register(service, &Revision::new("l"), rm_id, &["Update"]).await;
    let capacity = vcore("schedulableResource", cores);
    let application = legacy_application("app");
    let request = format!(
        r#"newApplications {{ {application} }} newSchedulableNodes {{ nodeID: "n1" {capacity} }}"#
    );
    client.send("Update", &request).await;
    client.last("Update", "acceptedNodes", 1).await;
    client.last("Update", "acceptedApplications", 1).await;
    client
}

/// An ask of revisions L, M and N for allocations of one core, with further fields.
pub fn ask(key: &str, n: i32, more: &str) -> String {
    let size = vcore("resourceAsk", 1_000);
    format!(
        r#"asks {{ allocationKey: "{key}" applicationID: "app" maxAllocations: {n} {size} {more} }}"#
    )
}
