//! A service whose front actor fails ends its process with exit code 70, so that its supervisor
//! restarts it; and a service whose front hangs stops notifying systemd.
//!
//! # Why a program of its own
//! Nothing from outside can make the front fail, and the service has no hook for it. So this
//! program is its own service: started again with `serve`, it runs the service's code in a process
//! of its own. Its log has a second subscriber, as an operator might configure, and that subscriber
//! fails when the front logs that a certain resource manager has registered. What follows is the
//! service's own behaviour, up to the exit code of a real process.
#![allow(clippy::unwrap_used)]

#[path = "../harness/mod.rs"]
mod harness;

use std::fmt::Debug;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, ExitCode};
use std::time::Duration;

use monoceros::cli::ServeArgs;
use monoceros::settings::{Flags, Settings};
use monoceros::{logging, serve};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::harness::{PATIENCE, QUEUES, Service, registration};

/// The resource manager whose log event makes the front panic.
const PANICS: &str = "panics";
/// The resource manager whose log event stops the front's actor system.
const STOPS: &str = "stops";
/// The resource manager whose log event lets the front hang.
const HANGS: &str = "hangs";

fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_default();
    match argument.as_str() {
        "serve" => run_service().unwrap(),
        // Some test runners list the tests first.
        "--list" => ExitCode::SUCCESS,
        _ => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                for rm_id in [PANICS, STOPS] {
                    the_process_ends_with_its_own_code_when_the_front_is_gone(rm_id).await;
                }
                no_sign_of_life_is_given_while_the_front_hangs().await;
            });
            ExitCode::SUCCESS
        }
    }
}

async fn the_process_ends_with_its_own_code_when_the_front_is_gone(rm_id: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("serve");
    let mut service = Service::start_by(command);
    let mut client = service.client().await;
    client.register_resource_manager(registration("harmless", QUEUES)).await.unwrap();
    assert_eq!(service.http("GET", "/healthz", &[], "").await.status, 200);
    // Whether the reply still arrives is up to chance.
    let _ = client.register_resource_manager(registration(rm_id, QUEUES)).await;
    let status = service.wait(PATIENCE).await;
    assert_eq!(status.code(), Some(70), "{status}");
    service.until_logged("the scheduler is lost", 1).await;
}

async fn no_sign_of_life_is_given_while_the_front_hangs() {
    let path = std::env::temp_dir().join(format!("monoceros-{}-lost", std::process::id()));
    let manager = UnixDatagram::bind(&path).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("serve").env("NOTIFY_SOCKET", &path).env_remove("WATCHDOG_PID");
    command.env("WATCHDOG_USEC", "100000");
    let service = Service::start_by(command);
    let hears = |patience| {
        manager.set_read_timeout(Some(patience)).unwrap();
        let mut buffer = [0; 4096];
        let length = manager.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
    };
    assert!(hears(PATIENCE).unwrap().starts_with("READY=1\n"));
    assert_eq!(hears(PATIENCE).unwrap(), "WATCHDOG=1\n");
    let mut client = service.client().await;
    let registration = registration(HANGS, QUEUES);
    let calling = tokio::spawn(async move { client.register_resource_manager(registration).await });
    while service.http("GET", "/healthz", &[], "").await.status != 503 {
        // Earlier notifications would wait in the socket.
        while hears(Duration::from_millis(10)).is_some() {}
    }
    // Watchdog notifications: a stopped service has at most two in flight; a running one would send
    // twenty in this time.
    let late = std::iter::from_fn(|| hears(Duration::from_secs(1))).take(3).count();
    assert!(late < 3, "signs of life of a service that does not serve");
    calling.abort();
    std::fs::remove_file(path).unwrap();
}

/// Runs the service on free ports.
fn run_service() -> anyhow::Result<ExitCode> {
    let free = Some("127.0.0.1:0".to_owned());
    let flags = Flags { grpc: free.clone(), http: free, queues: None };
    let settings = Settings::load_with_values(None, &flags)?;
    let (layer, log) = logging::layer(std::io::stderr(), &settings.0.log)?;
    tracing_subscriber::registry().with(LevelFilter::INFO).with(Deadly).with(layer).try_init()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome =
        runtime.block_on(serve::run(settings, &ServeArgs::default(), None, log.account()));
    runtime.shutdown_background();
    outcome
}

/// A log layer that fails on certain events.
struct Deadly;

impl<S: Subscriber> Layer<S> for Deadly {
    fn on_event(&self, event: &Event<'_>, _ctx: Context<'_, S>) {
        if std::thread::current().name() == Some("monoceros-front") {
            event.record(&mut Of);
        }
    }
}

/// Finds the resource manager of an event.
struct Of;

impl Visit for Of {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() != "rm" {
            return;
        }
        match format!("{value:?}").trim_matches('"') {
            PANICS => panic!("this subscriber cannot write"),
            STOPS => actix::System::current().stop(),
            HANGS => loop {
                std::thread::park();
            },
            _ => {}
        }
    }
}
