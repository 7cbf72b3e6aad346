//! Messages to a service manager with systemd's protocol.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;

use crate::harness::{PATIENCE, Service};

/// The socket of a service manager.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("monoceros-{}-{name}", std::process::id()));
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, path }
    }

    /// Starts the service as the manager would, with a watchdog timeout in microseconds.
    fn start(&self, watchdog: Option<&str>) -> Service {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monoceros"));
        command.args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        command.env("NOTIFY_SOCKET", &self.path).env_remove("WATCHDOG_PID");
        match watchdog {
            Some(longest) => command.env("WATCHDOG_USEC", longest),
            None => command.env_remove("WATCHDOG_USEC"),
        };
        Service::start_by(command)
    }

    /// Receives the next message.
    fn receive(&self) -> String {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    /// Receives the next message that is no sign of life.
    fn receive_state(&self) -> String {
        let mut messages = std::iter::repeat_with(|| self.receive());
        messages.find(|message| message != "WATCHDOG=1\n").unwrap()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[tokio::test]
async fn systemd_is_notified_of_start_reload_and_end() {
    let manager = Manager::new("news");
    let mut service = manager.start(None);
    let status = format!("STATUS=listens: grpc={} http={}", service.grpc, service.http);
    assert_eq!(manager.receive(), format!("READY=1\n{status}\n"));
    assert_eq!(service.get("/healthz").await, "serving\n");
    service.hang_up();
    let reloading = manager.receive();
    let (first, time) = reloading.trim_end().split_once('\n').unwrap();
    assert_eq!(first, "RELOADING=1");
    let time: u64 = time.strip_prefix("MONOTONIC_USEC=").unwrap().parse().unwrap();
    assert!(time > 0);
    assert_eq!(manager.receive(), "READY=1\n");
    service.terminate();
    assert_eq!(manager.receive(), "STOPPING=1\n");
    assert!(service.wait(PATIENCE).await.success());
    manager.socket.set_nonblocking(true).unwrap();
    assert!(manager.socket.recv(&mut [0]).is_err(), "that was all, without a watchdog");
}

#[tokio::test]
async fn systemd_gets_signs_of_life_until_shutdown() {
    let manager = Manager::new("life");
    let mut service = manager.start(Some("100000"));
    assert!(manager.receive().starts_with("READY=1\n"), "no sign of life comes first");
    for _ in 0..5 {
        assert_eq!(manager.receive(), "WATCHDOG=1\n");
    }
    service.hang_up();
    assert!(manager.receive_state().starts_with("RELOADING=1\n"));
    assert_eq!(manager.receive_state(), "READY=1\n");
    assert_eq!(manager.receive(), "WATCHDOG=1\n");
    service.terminate();
    assert_eq!(manager.receive_state(), "STOPPING=1\n");
    assert!(service.wait(PATIENCE).await.success());
    manager.socket.set_nonblocking(true).unwrap();
    assert!(manager.socket.recv(&mut [0]).is_err(), "nothing comes behind the end");
}

#[tokio::test]
async fn a_missing_service_manager_is_harmless() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monoceros"));
    command.args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", "/does/not/exist");
    let mut service = Service::start_by(command);
    service.until_logged("systemd cannot be told", 1).await;
    assert_eq!(service.get("/healthz").await, "serving\n");
    service.terminate();
    assert!(service.wait(PATIENCE).await.success());
}
