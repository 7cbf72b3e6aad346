//! Reports about the service itself: its addresses on standard output, the first line of the log, and
//! the state of the log.

use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use monoceros_actors::metrics::LogMetrics;
use tokio::task::spawn_blocking;
use tokio::time::interval;
use tracing::{info, warn};

use crate::cli::{BUILD, Build, ServeArgs};
use crate::logging::{LineCounts, LogControl, clean};
use crate::settings::Settings;

/// Prints the addresses, for people and for programs that started us with port 0.
pub(super) fn announce(grpc: SocketAddr, http: SocketAddr, page: String) {
    // Printing may block on a pipe without a reader, so it has a thread of its own.
    spawn_blocking(move || {
        if let Err(error) = print_addresses(grpc, http, &page) {
            warn!(%error, "cannot print where we listen");
        }
    });
}

fn print_addresses(grpc: SocketAddr, http: SocketAddr, page: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "monoceros listens: grpc={grpc} http={http}")?;
    writeln!(stdout, "open {page}")?;
    writeln!(stdout, "try: curl {page}ws/v1/scheduler/healthcheck")?;
    stdout.flush()
}

/// Returns the page for a browser on this machine.
pub(super) fn page(http: SocketAddr, is_https: bool) -> String {
    let scheme = if is_https { "https" } else { "http" };
    // A listener on all addresses also listens on loopback, which a browser can open.
    let host = match http.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    format!("{scheme}://{}/", SocketAddr::new(host, http.port()))
}

/// Logs the build, the files it read, and its addresses.
pub(super) fn log_start(settings: &Settings, args: &ServeArgs, grpc: SocketAddr, page: &str) {
    let Build { version, commit, target, .. } = BUILD;
    let shown = |path: Option<&PathBuf>| match path {
        Some(path) => path.display().to_string(),
        None => "built-in".to_owned(),
    };
    let policies = settings.registration.policy_dir.as_ref();
    info!(
        version,
        commit,
        target,
        settings = shown(args.config.as_ref()),
        queues = shown(settings.scheduler.queues.as_ref()),
        policies = policies.map(|path| path.display().to_string()).unwrap_or_default(),
        log = settings.log.filter,
        %grpc,
        open = page,
        "monoceros runs"
    );
}

/// Counts the lines of the log, and reports on standard output when they cannot be written.
pub(super) async fn report_log(log: LogControl, counted: LogMetrics) {
    let mut health = log.clone();
    let count = async {
        let mut every_second = interval(Duration::from_secs(1));
        loop {
            every_second.tick().await;
            let LineCounts { written, left_out, lost, .. } = log.counts();
            counted.set(written, left_out, lost);
        }
    };
    let report = async {
        loop {
            let why = health.unwritable().await;
            // Printing may block on a pipe without a reader. If it fails, nobody is left to notify.
            let printed = spawn_blocking(move || {
                let why = clean(&why);
                writeln!(io::stdout(), "monoceros: the log cannot be written: {why}")
            });
            let _ = printed.await;
            health.writable().await;
        }
    };
    let ((), ()) = tokio::join!(count, report);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_address_can_always_be_opened() {
        for (address, is_https, expected) in [
            ("127.0.0.1:9080", false, "http://127.0.0.1:9080/"),
            ("0.0.0.0:80", false, "http://127.0.0.1:80/"),
            ("[::]:443", true, "https://[::1]:443/"),
            ("10.1.2.3:1", true, "https://10.1.2.3:1/"),
        ] {
            assert_eq!(page(address.parse().unwrap(), is_https), expected);
        }
    }
}
