//! A process without a scheduler: a resource manager and its probes, for a scheduler in another
//! process.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use anyhow::Context as _;
use prometheus::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Ended, Signals, Work, connection_limits, end_edges, listen};
use crate::cli::{BUILD, Build};
use crate::connections::Connections;
use crate::connections::descriptors::Descriptors;
use crate::security::Security;
use crate::settings::{Settings, WrongSettings};
use crate::systemd::Systemd;
use crate::watchdog::{Health, Healthy, Readiness};
use crate::{files, rest};

/// A resource manager whose scheduler is in another process.
pub struct StandaloneManager {
    /// Address of the scheduler, for people.
    pub scheduler: String,
    /// Whether the manager has work. Reported by probes.
    pub readiness: watch::Receiver<Readiness>,
    /// Runs the manager until the shutdown begins, with a registry for its metrics. Its end is the
    /// end of the process.
    pub run: Box<dyn FnOnce(Registry, CancellationToken) -> Work + Send>,
}

/// Runs the manager until SIGTERM or SIGINT, then ends it within `shutdown.grace`.
pub async fn run(
    settings: Settings,
    standalone_manager: StandaloneManager,
) -> anyhow::Result<ExitCode> {
    let StandaloneManager { scheduler, readiness, run } = standalone_manager;
    let descriptors = Descriptors::raised();
    let security = Security::load(&settings).context(WrongSettings)?;
    let http = listen("rest.address", settings.rest.address).await?;
    let address = http.local_addr()?;
    // No gRPC listener.
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    for warning in security.warnings(nowhere, address) {
        warn!(%warning, "security");
    }
    let shutdown = CancellationToken::new();
    let hangup = signal(SignalKind::hangup())?;
    let healthy = Healthy::fixed(Health::Serving).ready_by(readiness);
    let systemd = Systemd::from_environment(healthy.clone());
    let systemd = systemd.context("the thread that tells systemd cannot start")?;
    let [_, limits] = connection_limits(&settings, descriptors);
    let http = Connections::new(http, security.rest.clone(), shutdown.clone()).limited(limits);
    let numbers = Registry::new();
    #[cfg(target_os = "linux")]
    numbers.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
    let mut edges = JoinSet::new();
    let work = run(numbers.clone(), shutdown.clone());
    edges.spawn(async move { work.await.context("the resource manager in this process") });
    let (access, rest, stop) = (security.access.clone(), settings.rest.clone(), shutdown.clone());
    let at = scheduler.clone();
    edges.spawn(async move {
        let served = rest::serve_probes(http, numbers, at, access, &rest, healthy, stop);
        served.await.context("REST edge")
    });
    // From the ready message on, a signal must not kill the process unhandled.
    let signals = Signals::new()?;
    systemd.ready(&format!("http={address}"));
    let (reloaded, stop) = (systemd.clone(), shutdown.clone());
    tokio::spawn(files::keep_fresh(security.sources(), hangup, reloaded, stop));
    let Build { version, commit, target, .. } = BUILD;
    info!(version, commit, target, scheduler, http = %address, "monoceros runs");
    // Printing may block on a pipe without a reader, so it has a thread of its own.
    spawn_blocking(move || {
        if let Err(error) = writeln!(io::stdout(), "monoceros listens: http={address}") {
            warn!(%error, "cannot print where we listen");
        }
    });
    let end = tokio::select! {
        biased;
        signal = signals.wait() => {
            info!(signal, "shutting down");
            Ended::Asked
        }
        Some(ended) = edges.join_next() => Ended::Edge(ended),
    };
    shutdown.cancel();
    let grace = settings.shutdown.grace();
    let rest = end_edges(&mut edges);
    if timeout(grace, async { tokio::join!(systemd.stopping(), rest) }).await.is_err() {
        warn!(grace = ?grace, "what was under way did not end in time and is cut");
    }
    end.code()
}
