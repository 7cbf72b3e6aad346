//! The service in a process of its own, for benchmarks that speak to it over loopback.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    dead_code,
    reason = "every benchmark uses a part of this"
)]

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use monoceros::grpc::stubs::scheduler_client::SchedulerClient;
use monoceros_proto::si::v1 as si;
use tonic::transport::{Channel, Endpoint};

/// The `monoceros` binary, running; killed when dropped.
pub struct Service {
    child: Child,
    /// Where resource managers connect.
    pub address: String,
    /// Kept open: the service prints more than the line that is read here.
    _output: BufReader<ChildStdout>,
}

impl Service {
    /// Starts it on free ports: the binary built with this benchmark, or the one whose path is in
    /// `BENCH_SERVICE`, so that two builds can be measured in turn.
    pub fn start() -> Self {
        let built = env!("CARGO_BIN_EXE_monoceros");
        let program = std::env::var_os("BENCH_SERVICE").unwrap_or_else(|| built.into());
        let mut child = Command::new(program)
            .args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let address = line.split("grpc=").nth(1).unwrap().split_whitespace().next().unwrap();
        Self { address: format!("http://{address}"), child, _output: output }
    }

    /// A connection of its own.
    pub async fn client(&self) -> SchedulerClient<Channel> {
        let endpoint = Endpoint::from_shared(self.address.clone()).unwrap();
        SchedulerClient::new(endpoint.connect().await.unwrap()).max_decoding_message_size(64 << 20)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Amounts by name.
pub fn resource(amounts: &[(&str, i64)]) -> si::Resource {
    let quantity = |&(name, value): &(&str, i64)| (name.to_owned(), si::Quantity { value });
    si::Resource { resources: amounts.iter().map(quantity).collect() }
}
