//! The service in its own process, for benchmarks over loopback.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    dead_code,
    reason = "every benchmark uses a part of this"
)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use monoceros::grpc::stubs::scheduler_client::SchedulerClient;
use monoceros_proto::si::v1 as si;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};

/// Longest time until the service has ended. Streams are cut after a second.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// The running `monoceros` binary, ended when dropped.
pub struct Service {
    child: Child,
    /// The gRPC address.
    pub address: String,
    /// The HTTP address and port.
    pub rest: String,
    /// Kept open, because the service prints more than the line that is read here.
    _output: BufReader<ChildStdout>,
}

impl Service {
    /// Starts the service on free ports: the binary built with this benchmark, or the one whose
    /// path is in `BENCH_SERVICE`, so that two builds can be compared.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts the service with some settings such as `("READS__BYTES", "1000000")`.
    pub fn start_with(settings: &[(&str, &str)]) -> Self {
        let built = env!("CARGO_BIN_EXE_monoceros");
        let program = std::env::var_os("BENCH_SERVICE").unwrap_or_else(|| built.into());
        let mut child = Command::new(program)
            .args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .env("MONOCEROS__SHUTDOWN__GRACE", "1")
            .envs(settings.iter().map(|(key, value)| (format!("MONOCEROS__{key}"), *value)))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let after = |key| line.split(key).nth(1).unwrap().split_whitespace().next().unwrap();
        let (address, rest) = (after("grpc="), after("http=").to_owned());
        Self { address: format!("http://{address}"), rest, child, _output: output }
    }

    /// Kills the service at once.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Opens a new connection.
    pub async fn client(&self) -> SchedulerClient<Channel> {
        let endpoint = Endpoint::from_shared(self.address.clone()).unwrap();
        SchedulerClient::new(endpoint.connect().await.unwrap()).max_decoding_message_size(64 << 20)
    }
}

impl Service {
    /// Returns the memory in use in KiB. Zero if the system does not report it.
    pub fn resident_kib(&self) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Returns the CPU time of all its threads so far. Zero if the system does not report it.
    pub fn cpu_time(&self) -> Duration {
        let stat = self.proc("stat");
        // After the name, which may contain spaces: user and system time in hundredths of a second.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
        Duration::from_millis(10 * ticks.sum::<u64>())
    }

    /// Returns the CPU time of each thread so far, summed by name.
    pub fn cpu_by_thread(&self) -> HashMap<String, Duration> {
        let mut by_name = HashMap::new();
        let tasks = format!("/proc/{}/task", self.child.id());
        for task in std::fs::read_dir(tasks).into_iter().flatten().flatten() {
            let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
            // In nanoseconds, which `stat` does not have.
            let spent = read("schedstat");
            let spent = spent.split_whitespace().next().and_then(|text| text.parse().ok());
            *by_name.entry(read("comm").trim().to_owned()).or_default() +=
                Duration::from_nanos(spent.unwrap_or(0));
        }
        by_name
    }

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap_or_default()
    }
}

impl Drop for Service {
    /// Ends the service in order, so that an instrumented build writes its profile, or else kills
    /// it.
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let begun = Instant::now();
        let mut is_over = !matches!(self.child.try_wait(), Ok(None))
            || signal::kill(pid, Signal::SIGTERM).is_err();
        while !is_over && begun.elapsed() < ENDS_WITHIN {
            std::thread::sleep(Duration::from_millis(5));
            is_over = !matches!(self.child.try_wait(), Ok(None));
        }
        if !is_over {
            eprintln!("the service does not end and is killed");
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes an amount from names.
pub fn resource(amounts: &[(&str, i64)]) -> si::Resource {
    let quantity = |&(name, value): &(&str, i64)| (name.to_owned(), si::Quantity { value });
    si::Resource { resources: amounts.iter().map(quantity).collect() }
}
