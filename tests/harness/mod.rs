//! A running service, and its clients.
//!
//! [`Service`] starts the built binary on free ports and kills it at the end of the test. [`Rm`] is
//! a resource manager with its streams, [`shim::Shim`] a callback stream.
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "every test binary uses a part of this"
)]

mod dice;
mod messages;
pub mod programs;
mod proxy;
mod rm;
pub mod shim;
pub mod transcript;

pub use dice::Dice;
pub use messages::{
    QUEUES, amount, application, ask, node, old_ask, registration, release, resource,
};
pub use proxy::Proxy;
pub use rm::{Rm, Seen, reason_of};

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use monoceros::grpc::stubs::scheduler_client::SchedulerClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tonic::transport::{Channel, Endpoint};

/// Time limit of every wait, sufficient for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An answer over HTTP.
#[derive(Debug)]
pub struct HttpAnswer {
    pub status: u16,
    /// Status line and headers, in lower case.
    pub head: String,
    pub body: String,
}

impl HttpAnswer {
    /// Parses the body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// Returns the answer of a server to an HTTP request.
pub async fn http_at(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> HttpAnswer {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let headers: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
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

pub struct Service {
    child: Child,
    log: Arc<Mutex<String>>,
    printed: Arc<Mutex<String>>,
    pub grpc: SocketAddr,
    pub http: SocketAddr,
}

impl Service {
    /// Starts the service with default settings.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts the service with some settings: `("GRPC__SEND_CHUNK_ITEMS", "2")`.
    pub fn start_with(settings: &[(&str, &str)]) -> Self {
        let mut command = Self::command();
        for (key, value) in settings {
            command.env(format!("MONOCEROS__{key}"), value);
        }
        Self::spawn(command)
    }

    /// Starts the service with a settings file.
    pub fn start_configured(settings: &str) -> Self {
        let mut command = Self::command();
        command.args(["--config", settings]);
        Self::spawn(command)
    }

    /// Starts the service on given addresses.
    pub fn start_at(grpc: &str, http: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monoceros"));
        command.args(["serve", "--grpc", grpc, "--http", http]);
        Self::spawn(command)
    }

    /// Starts the service with its own simulated resource manager.
    pub fn start_demo() -> Self {
        let mut command = Self::command();
        command.arg("--demo");
        Self::spawn(command)
    }

    /// Starts the service with this limit of file descriptors.
    pub fn start_with_descriptors(descriptors: usize) -> Self {
        let mut command = Command::new("sh");
        let serve = format!(
            "ulimit -n {descriptors}; exec \"$0\" serve --grpc 127.0.0.1:0 --http 127.0.0.1:0"
        );
        command.args(["-c", &serve, env!("CARGO_BIN_EXE_monoceros")]);
        Self::spawn(command)
    }

    /// Starts the service by a command that prints its addresses as the service does.
    pub fn start_by(command: Command) -> Self {
        Self::spawn(command)
    }

    fn command() -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monoceros"));
        command.args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        command
    }

    /// Starts the service with some settings, and with a standard error that the test provides.
    pub fn start_logging_to(stderr: impl Into<Stdio>, settings: &[(&str, &str)]) -> Self {
        let mut command = Self::command();
        for (key, value) in settings {
            command.env(format!("MONOCEROS__{key}"), value);
        }
        command.stderr(stderr);
        Self::adopt(&mut command)
    }

    /// Starts the service from a shell, which gets the command line as its arguments.
    pub fn start_from_shell(script: &str) -> Self {
        let service = Self::command();
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(service.get_program()).args(service.get_args());
        command.stderr(Stdio::null());
        Self::adopt(&mut command)
    }

    fn spawn(mut command: Command) -> Self {
        Self::adopt(command.stderr(Stdio::piped()))
    }

    fn adopt(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        if let Some(stderr) = child.stderr.take() {
            let (stderr, seen) = (BufReader::new(stderr), Arc::clone(&log));
            std::thread::spawn(move || {
                for line in stderr.lines().map_while(Result::ok) {
                    eprintln!("{line}");
                    seen.lock().unwrap().extend([line.as_str(), "\n"]);
                }
            });
        }
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = |key: &str| {
            let (_, rest) =
                line.split_once(key).unwrap_or_else(|| panic!("no `{key}` in `{line}`"));
            rest.split_whitespace().next().unwrap().parse().unwrap()
        };
        let (grpc, http) = (address("grpc="), address("http="));
        // A thread continues to read, or the service would wait for room in the pipe.
        let printed = Arc::new(Mutex::new(String::new()));
        let copy = Arc::clone(&printed);
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                copy.lock().unwrap().extend([line.as_str(), "\n"]);
            }
        });
        Self { child, log, printed, grpc, http }
    }

    /// Opens a new connection.
    pub async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.grpc)).unwrap();
        endpoint.connect().await.unwrap()
    }

    /// Returns a resource manager's client with a new connection.
    pub async fn client(&self) -> SchedulerClient<Channel> {
        SchedulerClient::new(self.channel().await)
    }

    /// Returns the value of a counter, such as `name{label="x"}`. Fails if it is not shown, because
    /// a misspelt name would look like zero.
    pub async fn counted(&self, series: &str) -> u64 {
        let counted = self.counted_if_shown(series).await;
        counted.unwrap_or_else(|| panic!("there is no series `{series}`"))
    }

    async fn counted_if_shown(&self, series: &str) -> Option<u64> {
        let metrics = self.get("/ws/v1/metrics").await;
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        Some(value.parse().unwrap())
    }

    /// Waits until a counter has reached a value. A counter may change after the answer to a
    /// request, and some are not shown before their first change.
    pub async fn until_counted(&self, series: &str, value: u64) {
        let counted = async {
            while self.counted_if_shown(series).await.is_none_or(|counted| counted < value) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let in_time = timeout(PATIENCE, counted).await.is_ok();
        assert!(in_time, "`{series}` is not {value}: {}", self.counted(series).await);
    }

    pub async fn get(&self, path: &str) -> String {
        self.http("GET", path, &[], "").await.body
    }

    /// Returns the answer to an HTTP request.
    pub async fn http(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> HttpAnswer {
        http_at(self.http, method, path, headers, body).await
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.send_signal("-TERM");
    }

    /// Sends SIGHUP.
    pub fn hang_up(&self) {
        self.send_signal("-HUP");
    }

    /// Sends a signal, named as for `kill`.
    pub fn send_signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
        if name == "-STOP" {
            self.until_stopped();
        }
    }

    /// Waits until all threads are stopped. One that runs when the signal is sent may go on for as
    /// long as the thread that gets the signal waits for a processor.
    fn until_stopped(&self) {
        let begun = Instant::now();
        let is_stopped = |thread: PathBuf| {
            let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
            // The state comes after the name in parentheses.
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
        };
        while let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.child.id())) {
            if threads.flatten().all(|thread| is_stopped(thread.path())) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "it does not stop");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns the memory in use in bytes. Zero if the system does not report it.
    pub fn memory(&self) -> usize {
        self.status("VmRSS:")
    }

    pub fn peak_memory(&self) -> usize {
        self.status("VmHWM:")
    }

    fn status(&self, key: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let kilobytes = line.and_then(|line| line.split_whitespace().next());
        kilobytes.map_or(0, |kilobytes| kilobytes.parse::<usize>().unwrap() << 10)
    }

    /// Returns the number of open file descriptors. Zero if the system does not report it.
    pub fn open_descriptors(&self) -> usize {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        open.map_or(0, Iterator::count)
    }

    /// Returns the log so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until the service has printed `text` to standard output.
    pub async fn until_printed(&self, text: &str) {
        let printed = async {
            while !self.printed.lock().unwrap().contains(text) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        assert!(timeout(PATIENCE, printed).await.is_ok(), "`{text}` is not printed");
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the service has logged `text` this many times.
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

/// Returns a free address for a service that is started twice. The port is outside the range for
/// clients, since a client could get it while the service is down. Each call returns another
/// address, because tests of one binary run in parallel.
pub fn address() -> String {
    static N_TRIED: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    let next =
        || SocketAddr::from(([127, 0, 0, 1], first + N_TRIED.fetch_add(1, Ordering::Relaxed)));
    let mut addresses = std::iter::repeat_with(next);
    let free = |address: &SocketAddr| TcpListener::bind(address).is_ok();
    addresses.find(free).unwrap().to_string()
}

/// Runs a command to its end: exit code, standard output, standard error.
pub fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_monoceros")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A file, removed when dropped.
pub struct TempFile(pub PathBuf);

impl TempFile {
    /// Writes `text` to a new file whose name ends in `name`.
    pub fn new(name: &str, text: &str) -> Self {
        static N_FILES: AtomicUsize = AtomicUsize::new(0);
        let (process, number) = (std::process::id(), N_FILES.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("monoceros-{process}-{number}-{name}"));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
