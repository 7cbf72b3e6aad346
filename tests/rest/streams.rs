//! The stream of new events, line by line.

use monoceros::grpc::stubs::v1::metrics_service_client::MetricsServiceClient;
use monoceros_proto::v1;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::harness::{PATIENCE, Rm, Service, node};

/// A stream of lines in HTTP chunks.
pub(crate) struct Lines {
    connection: BufReader<TcpStream>,
    pub(crate) status: u16,
    head: String,
    /// Received bytes that were not read.
    text: String,
}

impl Lines {
    pub(crate) async fn open(service: &Service, query: &str, host: &str) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        Self::open_with(socket, service, query, host).await
    }

    async fn open_with(socket: TcpSocket, service: &Service, query: &str, host: &str) -> Self {
        let mut connection = socket.connect(service.http).await.unwrap();
        let path = format!("/ws/v1/events/stream{query}");
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: {host}\r\naccept-encoding: gzip\r\n\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut connection = BufReader::new(connection);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(connection.read_line(&mut head).await.unwrap(), 0);
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { connection, status, head: head.to_lowercase(), text: String::new() }
    }

    /// Reads the next line. `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        timeout(PATIENCE, self.line()).await.expect("a line comes")
    }

    async fn line(&mut self) -> Option<Value> {
        while !self.text.contains('\n') {
            let mut size = String::new();
            self.connection.read_line(&mut size).await.unwrap();
            let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
            if size == 0 {
                return None;
            }
            let mut chunk = vec![0; size + 2];
            self.connection.read_exact(&mut chunk).await.unwrap();
            self.text.push_str(std::str::from_utf8(&chunk[..size]).unwrap());
        }
        let end = self.text.find('\n').unwrap();
        let line: String = self.text.drain(..=end).collect();
        Some(serde_json::from_str(&line).unwrap())
    }

    /// Reads the next lines about new nodes, and returns their names.
    pub(crate) async fn nodes(&mut self, count: usize) -> Vec<String> {
        let mut nodes = Vec::new();
        while nodes.len() < count {
            let line = self.next().await.expect("the stream goes on");
            if line["type"] == 3 && line["eventChangeType"] == 2 {
                nodes.push(line["objectID"].as_str().unwrap().to_owned());
            }
        }
        nodes
    }
}

async fn rm_of(service: &Service) -> Rm {
    Rm::register(service, "rm").await
}

#[tokio::test]
async fn past_events_precede_new_ones_in_order() {
    let service = Service::start();
    let rm = rm_of(&service).await.with_nodes(&["n1", "n2"]).await;
    service.until_counted("yunikorn_event_total_processed", 6).await;
    let batch = service.http("GET", "/ws/v1/events/batch", &[], "").await.json();
    let all = batch["EventRecords"].as_array().unwrap();

    let mut new = Lines::open(&service, "", "one").await;
    let mut last = Lines::open(&service, "?count=2", "two").await;
    let mut past = Lines::open(&service, "?count=99999999", "three").await;
    for lines in [&mut new, &mut last, &mut past] {
        assert_eq!(lines.status, 200);
        assert!(lines.head.contains("content-type: application/json; charset=utf-8\r\n"));
        assert!(!lines.head.contains("content-encoding"), "{}", lines.head);
        let greeting = lines.next().await.unwrap();
        assert_eq!(greeting, json!({"InstanceUUID": batch["InstanceUUID"]}));
    }
    for record in &all[all.len() - 2..] {
        assert_eq!(last.next().await.as_ref(), Some(record));
    }
    for record in all {
        assert_eq!(past.next().await.as_ref(), Some(record));
    }
    rm.send_nodes(vec![node("n3", 1, 1)]).await;
    rm.send_nodes(vec![node("n4", 1, 1)]).await;
    for lines in [&mut new, &mut last, &mut past] {
        assert_eq!(lines.nodes(2).await, ["n3", "n4"]);
    }
}

#[tokio::test]
async fn events_during_the_start_come_once() {
    let service = Service::start();
    let rm = rm_of(&service).await;
    let ids: Vec<String> = (0..600).map(|number| format!("n{number:03}")).collect();
    let (first, rest) = ids.split_at(300);
    for id in first {
        rm.send_nodes(vec![node(id, 1, 1)]).await;
    }
    let mut lines = Lines::open(&service, "?count=100000", "h").await;
    for id in rest {
        rm.send_nodes(vec![node(id, 1, 1)]).await;
    }
    assert!(lines.next().await.unwrap()["InstanceUUID"].is_string());
    let mut received = Vec::new();
    while received.len() < ids.len() {
        match lines.next().await {
            Some(line) if line["type"] == 3 && line["eventChangeType"] == 2 => {
                received.push(line["objectID"].as_str().unwrap().to_owned());
            }
            Some(line) => {
                assert_ne!(line["status_code"], 200, "it was closed after {}", received.len());
            }
            None => panic!("it ended after {}", received.len()),
        }
    }
    assert_eq!(received, ids);
}

#[tokio::test]
async fn streams_are_limited_and_freed() {
    let settings = [("EVENT__MAX_STREAMS", "3"), ("EVENT__MAX_STREAMS_PER_HOST", "2")];
    let service = Service::start_with(&settings);
    let _rm = rm_of(&service).await;
    let refused = async |host: &str| {
        let lines = Lines::open(&service, "?count=x", host).await;
        assert!(lines.status == 503 || lines.status == 400, "{}", lines.status);
        lines.status == 503
    };
    let one = Lines::open(&service, "", "a:1").await;
    let two = Lines::open(&service, "", "a:1").await;
    assert!(refused("a:1").await, "two from one host, which is checked before the parameter");
    assert!(!refused("a:2").await, "another port is another host");
    let names = async || -> Vec<Value> {
        let dump = service.http("GET", "/debug/fullstatedump", &[], "").await.json();
        let streams = dump["eventStreams"].as_array().cloned().unwrap_or_default();
        assert!(streams.iter().all(|it| it["CreatedAt"].as_str().unwrap().ends_with('Z')));
        streams.into_iter().map(|it| it["Name"].clone()).collect()
    };
    assert_eq!(names().await, ["a:1", "a:1"]);
    // Streams over gRPC count, too.
    let mut client = MetricsServiceClient::new(service.channel().await);
    let events = client.stream_events(v1::EventParameters::default()).await.unwrap();
    assert_eq!(names().await, ["a:1", "a:1", "127.0.0.1"]);
    assert!(refused("b").await, "three in all");
    drop((one, two, events));
    timeout(PATIENCE, async { while !names().await.is_empty() {} }).await.expect("they have left");
    assert_eq!(Lines::open(&service, "", "a:1").await.status, 200);
}

#[tokio::test]
async fn a_slow_reader_is_closed_with_a_message() {
    let service = Service::start_with(&[("EVENT__MAX_STREAMS_PER_HOST", "5")]);
    let rm = rm_of(&service).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut slow = Lines::open_with(socket, &service, "", "slow").await;
    let mut quick = Lines::open(&service, "", "quick").await;
    // More than sockets and the queue of a stream hold together.
    let ids: Vec<String> = (0..30_000).map(|number| format!("n{number}")).collect();
    let (read, mut is_read) = watch::channel(0);
    let reads = tokio::spawn(async move {
        quick.next().await.unwrap();
        let mut nodes = Vec::new();
        while nodes.len() < 30_000 {
            nodes.append(&mut quick.nodes(20).await);
            read.send_replace(nodes.len());
        }
        nodes
    });
    for (some, n_before) in ids.chunks(20).zip((0..).step_by(20)) {
        rm.send_nodes(some.iter().map(|id| node(id, 1, 1)).collect()).await;
        // No more than the queue of a stream holds: on a busy machine the quick reader is slow,
        // too.
        let is_near = is_read.wait_for(|n_read| n_before <= n_read + 200);
        timeout(PATIENCE, is_near).await.expect("it is read").unwrap();
    }
    assert_eq!(reads.await.unwrap(), ids);
    let mut before = Value::Null;
    let last = loop {
        match slow.next().await {
            Some(line) => before = line,
            None => break before,
        }
    };
    let closed = "Event stream was closed by the producer";
    assert_eq!(last, json!({"status_code": 200, "message": closed, "description": closed}));
    let dump = service.http("GET", "/debug/fullstatedump", &[], "").await.json();
    let open = dump["eventStreams"].as_array().cloned().unwrap_or_default();
    assert!(open.iter().all(|stream| stream["Name"] != "slow"), "{open:?}");
}

#[tokio::test]
async fn a_stream_ends_with_the_service() {
    let service = Service::start();
    let mut lines = Lines::open(&service, "", "h").await;
    assert!(lines.next().await.is_some());
    service.terminate();
    assert_eq!(lines.next().await, None);
}
