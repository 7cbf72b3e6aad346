//! A running service, and a resource manager that speaks to it.
//!
//! [`Service`] starts the built binary on free ports and kills it at the end of the test. [`Rm`]
//! registers, opens the three streams, and notes everything that comes back in [`Seen`]; a test
//! waits for a state of that, never for a time.
#![allow(dead_code, unreachable_pub, reason = "every test binary uses a part of this")]

pub mod shim;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros::grpc::stubs::scheduler_client::SchedulerClient;
use monoceros_proto::si::v1 as si;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status, Streaming};

/// How long anything may take before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Two leaves under root; applications must name one of them.
pub const QUEUES: &str = r#"
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
          - name: b
"#;

/// An answer over HTTP.
#[derive(Debug)]
pub struct HttpAnswer {
    pub status: u16,
    /// Status line and headers, in lower case.
    pub head: String,
    pub body: String,
}

impl HttpAnswer {
    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// The service, running.
pub struct Service {
    child: Child,
    log: Arc<Mutex<String>>,
    /// Where resource managers connect.
    pub grpc: SocketAddr,
    /// Where HTTP is spoken.
    pub http: SocketAddr,
}

impl Service {
    /// Starts it with default settings.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts it with some settings: `("GRPC__SEND_CHUNK_ITEMS", "2")`.
    pub fn start_with(settings: &[(&str, &str)]) -> Self {
        let mut command = Self::command();
        for (key, value) in settings {
            command.env(format!("MONOCEROS__{key}"), value);
        }
        Self::spawn(command)
    }

    /// Starts it with a settings file.
    pub fn start_configured(settings: &str) -> Self {
        let mut command = Self::command();
        command.args(["--config", settings]);
        Self::spawn(command)
    }

    /// Starts it on given addresses.
    pub fn start_at(grpc: &str, http: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monoceros"));
        command.args(["serve", "--grpc", grpc, "--http", http]);
        Self::spawn(command)
    }

    /// Starts it with its own simulated resource manager.
    pub fn start_demo() -> Self {
        let mut command = Self::command();
        command.arg("--demo");
        Self::spawn(command)
    }

    fn command() -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monoceros"));
        command.args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        command
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, seen) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                eprintln!("{line}");
                seen.lock().unwrap().extend([line.as_str(), "\n"]);
            }
        });
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = |key: &str| {
            let (_, rest) =
                line.split_once(key).unwrap_or_else(|| panic!("no `{key}` in `{line}`"));
            rest.split_whitespace().next().unwrap().parse().unwrap()
        };
        let (grpc, http) = (address("grpc="), address("http="));
        // Someone has to read on, or the service would wait for room in the pipe.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        Self { child, log, grpc, http }
    }

    /// A connection of its own.
    pub async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.grpc)).unwrap();
        endpoint.connect().await.unwrap()
    }

    /// A resource manager's client with a connection of its own.
    pub async fn client(&self) -> SchedulerClient<Channel> {
        SchedulerClient::new(self.channel().await)
    }

    /// The value of a counter, such as `name{label="x"}`; zero if it is not shown.
    pub async fn counted(&self, series: &str) -> u64 {
        let metrics = self.get("/ws/v1/metrics").await;
        let mut values = metrics.lines().filter_map(|line| line.strip_prefix(series));
        values.next().map_or(0, |value| value.trim().parse().unwrap())
    }

    /// Waits until a counter has reached a value: what is counted may be counted after what was
    /// answered.
    pub async fn until_counted(&self, series: &str, value: u64) {
        let counted = async {
            while self.counted(series).await < value {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let in_time = timeout(PATIENCE, counted).await.is_ok();
        assert!(in_time, "`{series}` is not {value}: {}", self.counted(series).await);
    }

    /// The body of a GET.
    pub async fn get(&self, path: &str) -> String {
        self.http("GET", path, &[], "").await.body
    }

    /// The answer to an HTTP request.
    pub async fn http(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> HttpAnswer {
        let mut connection = TcpStream::connect(self.http).await.unwrap();
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let headers = [vec![String::new()], headers].concat().join("\r\n");
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\
             content-length: {length}{headers}\r\n\r\n{body}"
        );
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        connection.read_to_string(&mut response).await.unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        HttpAnswer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Sends SIGHUP.
    pub fn hang_up(&self) {
        self.signal("-HUP");
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until it has logged `text` so many times.
    pub async fn until_logged(&self, text: &str, times: usize) {
        let logged = async {
            while self.log().matches(text).count() < times {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let in_time = timeout(PATIENCE, logged).await.is_ok();
        assert!(in_time, "`{text}` is not logged {times} times:\n{}", self.log());
    }

    /// Waits until the process has ended.
    pub async fn wait(&mut self, patience: Duration) -> ExitStatus {
        let end = async {
            loop {
                if let Some(status) = self.child.try_wait().unwrap() {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(patience, end).await.expect("the service ends in time")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A free address for a service that is to be started twice at one place. Its port is not one that
/// the system gives to clients: one of them could get it while the service is down. Nor is it that
/// of another call: tests of one binary run side by side.
pub fn address() -> String {
    static N_TRIED: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    let next =
        || SocketAddr::from(([127, 0, 0, 1], first + N_TRIED.fetch_add(1, Ordering::Relaxed)));
    let mut addresses = std::iter::repeat_with(next);
    let free = |address: &SocketAddr| TcpListener::bind(address).is_ok();
    addresses.find(free).unwrap().to_string()
}

/// A command that runs to its end: exit code, standard output, standard error.
pub fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_monoceros")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A file that lives as long as this value.
pub struct TempFile(pub PathBuf);

impl TempFile {
    /// Writes `text` to a file of its own whose name ends in `name`.
    pub fn new(name: &str, text: &str) -> Self {
        static N_FILES: AtomicUsize = AtomicUsize::new(0);
        let (process, number) = (std::process::id(), N_FILES.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("monoceros-{process}-{number}-{name}"));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    /// Its path as text.
    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Everything that came back, in the order in which it came.
#[derive(Debug, Default)]
pub struct Seen {
    pub accepted_nodes: Vec<String>,
    pub rejected_nodes: Vec<(String, String)>,
    pub accepted_applications: Vec<String>,
    pub rejected_applications: Vec<(String, String)>,
    pub updated_applications: Vec<si::UpdatedApplication>,
    pub new: Vec<si::Allocation>,
    pub released: Vec<si::AllocationRelease>,
    /// Of requests in `asks`.
    pub rejected_asks: Vec<(String, String)>,
    /// Of items in `allocations`.
    pub rejected_allocations: Vec<(String, String)>,
    /// Items of each response message.
    pub message_sizes: Vec<usize>,
    /// How each stream ended: no status is OK.
    pub ends: BTreeMap<&'static str, Option<Status>>,
}

impl Seen {
    /// The reason given for `id`, wherever it was rejected.
    pub fn reason(&self, id: &str) -> Option<&str> {
        let lists = [
            &self.rejected_nodes,
            &self.rejected_applications,
            &self.rejected_asks,
            &self.rejected_allocations,
        ];
        let mut rejected = lists.into_iter().flatten();
        rejected.find(|(rejected, _)| rejected == id).map(|(_, reason)| reason.as_str())
    }

    /// The status that ended a stream, as code and reason.
    pub fn end(&self, kind: &str) -> Option<(Code, String)> {
        self.ends.get(kind)?.as_ref().map(|status| (status.code(), reason_of(status)))
    }
}

/// The machine-readable reason of a status.
pub fn reason_of(status: &Status) -> String {
    status.metadata().get("x-si-reason").map_or("", |reason| reason.to_str().unwrap()).to_owned()
}

/// A resource manager with its three streams.
pub struct Rm {
    pub id: String,
    pub client: SchedulerClient<Channel>,
    pub nodes: mpsc::Sender<si::NodeRequest>,
    pub applications: mpsc::Sender<si::ApplicationRequest>,
    pub allocations: mpsc::Sender<si::AllocationRequest>,
    seen: Arc<Mutex<Seen>>,
    news: Arc<Notify>,
}

impl Rm {
    /// Registers with [`QUEUES`] and opens the streams.
    pub async fn register(service: &Service, id: &str) -> Self {
        let mut client = service.client().await;
        client.register_resource_manager(registration(id, QUEUES)).await.unwrap();
        Self::open(client, id).await
    }

    /// Opens the streams of an RM that is registered, or not.
    pub async fn open(client: SchedulerClient<Channel>, id: &str) -> Self {
        let (seen, news) = (Arc::default(), Arc::new(Notify::new()));
        let (nodes, requests) = mpsc::channel(16);
        let replies = client.clone().update_node(ReceiverStream::new(requests)).await;
        follow("node", replies, &seen, &news, |seen: &mut Seen, reply: si::NodeResponse| {
            let size = reply.accepted.len() + reply.rejected.len();
            seen.message_sizes.push(size);
            seen.accepted_nodes.extend(reply.accepted.into_iter().map(|node| node.node_id));
            let rejected = reply.rejected.into_iter().map(|node| (node.node_id, node.reason));
            seen.rejected_nodes.extend(rejected);
        });
        let (applications, requests) = mpsc::channel(16);
        let replies = client.clone().update_application(ReceiverStream::new(requests)).await;
        follow("application", replies, &seen, &news, |seen, reply: si::ApplicationResponse| {
            let size = reply.accepted.len() + reply.rejected.len() + reply.updated.len();
            seen.message_sizes.push(size);
            let accepted = reply.accepted.into_iter().map(|accepted| accepted.application_id);
            seen.accepted_applications.extend(accepted);
            let rejected = reply.rejected.into_iter();
            let rejected = rejected.map(|rejected| (rejected.application_id, rejected.reason));
            seen.rejected_applications.extend(rejected);
            seen.updated_applications.extend(reply.updated);
        });
        let (allocations, requests) = mpsc::channel(16);
        let replies = client.clone().update_allocation(ReceiverStream::new(requests)).await;
        follow("allocation", replies, &seen, &news, |seen, reply: si::AllocationResponse| {
            let size = reply.new.len()
                + reply.released.len()
                + reply.rejected.len()
                + reply.rejected_allocations.len();
            seen.message_sizes.push(size);
            seen.new.extend(reply.new);
            seen.released.extend(reply.released);
            let rejected = reply.rejected.into_iter();
            let rejected = rejected.map(|rejected| (rejected.allocation_key, rejected.reason));
            seen.rejected_asks.extend(rejected);
            let rejected = reply.rejected_allocations.into_iter();
            let rejected = rejected.map(|rejected| (rejected.allocation_key, rejected.reason));
            seen.rejected_allocations.extend(rejected);
        });
        Self { id: id.to_owned(), client, nodes, applications, allocations, seen, news }
    }

    /// Binds all three streams without asking for anything.
    pub async fn hello(&self) {
        self.send_nodes(vec![]).await;
        self.send_applications(vec![], vec![]).await;
        self.send_allocations(vec![], vec![], vec![]).await;
    }

    pub async fn send_nodes(&self, nodes: Vec<si::NodeInfo>) {
        let request = si::NodeRequest { nodes, rm_id: self.id.clone(), ..Default::default() };
        self.nodes.send(request).await.unwrap();
    }

    pub async fn send_applications(
        &self,
        new: Vec<si::AddApplicationRequest>,
        remove: Vec<si::RemoveApplicationRequest>,
    ) {
        let rm_id = self.id.clone();
        let request = si::ApplicationRequest { new, remove, rm_id, ..Default::default() };
        self.applications.send(request).await.unwrap();
    }

    pub async fn send_allocations(
        &self,
        asks: Vec<si::AllocationAsk>,
        allocations: Vec<si::Allocation>,
        releases: Vec<si::AllocationRelease>,
    ) {
        let releases = si::AllocationReleasesRequest {
            allocations_to_release: releases,
            ..Default::default()
        };
        let request = si::AllocationRequest {
            asks,
            allocations,
            releases: Some(releases),
            rm_id: self.id.clone(),
            ..Default::default()
        };
        self.allocations.send(request).await.unwrap();
    }

    /// Reports nodes of 4 cores and 16 GB, and waits for their acceptance.
    pub async fn with_nodes(self, ids: &[&str]) -> Self {
        self.send_nodes(ids.iter().map(|id| node(id, 4_000, 16)).collect()).await;
        let n_nodes = self.read(|seen| seen.accepted_nodes.len()) + ids.len();
        self.until("nodes accepted", |seen| seen.accepted_nodes.len() >= n_nodes).await;
        self
    }

    /// Submits an application and waits for its acceptance.
    pub async fn with_application(self, id: &str, queue: &str) -> Self {
        self.send_applications(vec![application(id, queue)], vec![]).await;
        let accepted = |seen: &Seen| seen.accepted_applications.iter().any(|known| known == id);
        self.until("application accepted", accepted).await;
        self
    }

    /// Looks at what has come so far.
    pub fn read<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen.lock().unwrap())
    }

    /// Waits until what has come satisfies `reached`; `what` is for the failure.
    pub async fn until(&self, what: &str, reached: impl Fn(&Seen) -> bool) {
        let wait = async {
            loop {
                let news = self.news.notified();
                if self.read(&reached) {
                    return;
                }
                news.await;
            }
        };
        if timeout(PATIENCE, wait).await.is_err() {
            self.read(|seen| panic!("{}: not reached: {what}; seen: {seen:#?}", self.id));
        }
    }

    /// Waits for the rejection of `id`, and expects the reason code.
    pub async fn expect_rejection(&self, id: &str, code: &str) {
        self.until(&format!("`{id}` rejected"), |seen| seen.reason(id).is_some()).await;
        let reason = self.read(|seen| seen.reason(id).unwrap().to_owned());
        let code = format!("[{code}");
        assert!(reason.contains(&code) && reason.ends_with(']'), "`{id}`: {reason}");
    }
}

fn follow<R: Send + Debug + 'static>(
    kind: &'static str,
    replies: Result<Response<Streaming<R>>, Status>,
    seen: &Arc<Mutex<Seen>>,
    news: &Arc<Notify>,
    note: fn(&mut Seen, R),
) {
    let (seen, news) = (Arc::clone(seen), Arc::clone(news));
    tokio::spawn(async move {
        let end = match replies {
            Err(status) => Some(status),
            Ok(replies) => {
                let mut replies = replies.into_inner();
                loop {
                    match replies.message().await {
                        Ok(Some(reply)) => note(&mut seen.lock().unwrap(), reply),
                        Ok(None) => break None,
                        Err(status) => break Some(status),
                    }
                    news.notify_waiters();
                }
            }
        };
        seen.lock().unwrap().ends.insert(kind, end);
        news.notify_waiters();
    });
}

/// A registration with its own queues.
pub fn registration(id: &str, queues: &str) -> si::RegisterResourceManagerRequest {
    si::RegisterResourceManagerRequest {
        rm_id: id.to_owned(),
        version: "test".to_owned(),
        policy_group: "queues".to_owned(),
        config: queues.to_owned(),
        ..Default::default()
    }
}

/// An amount of thousandths of a core and gigabytes.
pub fn resource(vcore: i64, gigabytes: i64) -> si::Resource {
    amount(&[("vcore", vcore), ("memory", gigabytes.saturating_mul(1_000_000_000))])
}

/// An amount by name.
pub fn amount(quantities: &[(&str, i64)]) -> si::Resource {
    let resources = quantities.iter();
    let resources =
        resources.map(|(name, value)| ((*name).to_owned(), si::Quantity { value: *value }));
    si::Resource { resources: resources.collect() }
}

/// A new node, open for allocations.
pub fn node(id: &str, vcore: i64, gigabytes: i64) -> si::NodeInfo {
    si::NodeInfo {
        node_id: id.to_owned(),
        action: si::node_info::ActionFromRm::Create.into(),
        schedulable_resource: Some(resource(vcore, gigabytes)),
        ..Default::default()
    }
}

/// An application of user `alice`.
pub fn application(id: &str, queue: &str) -> si::AddApplicationRequest {
    let ugi = si::UserGroupInformation { user: "alice".to_owned(), groups: vec!["dev".to_owned()] };
    si::AddApplicationRequest {
        application_id: id.to_owned(),
        queue_name: queue.to_owned(),
        partition_name: "default".to_owned(),
        ugi: Some(ugi),
        ..Default::default()
    }
}

/// A request for one container of 1 core and 1 GB.
pub fn ask(application: &str, key: &str) -> si::Allocation {
    si::Allocation {
        allocation_key: key.to_owned(),
        application_id: application.to_owned(),
        partition_name: "default".to_owned(),
        resource_per_alloc: Some(resource(1_000, 1)),
        ..Default::default()
    }
}

/// The same in the form of older RMs.
pub fn old_ask(application: &str, key: &str, n: i32) -> si::AllocationAsk {
    si::AllocationAsk {
        allocation_key: key.to_owned(),
        application_id: application.to_owned(),
        partition_name: "default".to_owned(),
        resource_ask: Some(resource(1_000, 1)),
        max_allocations: n,
        ..Default::default()
    }
}

/// The end of the allocation with this key.
pub fn release(application: &str, key: &str) -> si::AllocationRelease {
    si::AllocationRelease {
        application_id: application.to_owned(),
        allocation_key: key.to_owned(),
        partition_name: "default".to_owned(),
        termination_type: si::TerminationType::StoppedByRm.into(),
        ..Default::default()
    }
}
