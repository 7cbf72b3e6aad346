//! What systemd is told of the service, or whatever else watches it in the same way (`sd_notify`):
//! that it is ready, reads its files again, ends, and is alive.
//!
//! # Why a thread of its own
//! A message to systemd waits while systemd does not read. Neither the watchdog, which probes depend
//! on, nor a worker of the edges may wait for it.
//!
//! # Invariants
//! * Where nobody listens (`NOTIFY_SOCKET` is not set) there is no thread, and nothing is said.
//! * A sign of life is given only while the scheduler serves and the watchdog looks: a service whose
//!   front hangs is started again by systemd, as by a probe of liveness.
//! * Nobody waits for this thread except the end of the service, within its grace.
//!
//! # When things go wrong
//! What cannot be said is a line of the log, and the service goes on.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::sync::oneshot;
use tracing::warn;

use crate::watchdog::Healthy;

/// How many facts may wait while systemd does not read; what comes then is left out.
const MAX_WAITING: usize = 16;

/// How often the thread looks where systemd wants no signs of life: it has nothing to do then.
const IDLE: Duration = Duration::from_secs(3_600);

/// Who watches the process. Clones tell the same.
#[derive(Clone, Debug)]
pub struct Systemd(Option<SyncSender<Fact>>);

/// What is so of the service from now on.
#[derive(Debug)]
enum Fact {
    /// It listens; the text says where.
    Ready(String),
    Reloading,
    Reloaded,
    /// It ends; whoever waits hears when it is said.
    Stopping(oneshot::Sender<()>),
}

impl Systemd {
    /// Whoever the environment says listens (`NOTIFY_SOCKET`) and wants signs of life
    /// (`WATCHDOG_USEC`), given as long as `healthy` says that there is life.
    pub fn from_environment(healthy: Healthy) -> io::Result<Self> {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Ok(Self(None));
        }
        let (tell, facts) = sync_channel(MAX_WAITING);
        // Half of it, as systemd asks for: one that comes late is not the last.
        let beat = sd_notify::watchdog_enabled().map(|longest| longest / 2);
        let work = move || tell_until_end(&facts, &healthy, beat);
        thread::Builder::new().name("systemd".to_owned()).spawn(work)?;
        Ok(Self(Some(tell)))
    }

    /// One that nobody listens to.
    #[cfg(test)]
    pub(crate) fn nobody() -> Self {
        Self(None)
    }

    /// The service listens, and where: what waits for it may start.
    pub fn ready(&self, listens: &str) {
        self.tell(Fact::Ready(format!("listens: {listens}")));
    }

    /// The service reads its files again.
    pub fn reloading(&self) {
        self.tell(Fact::Reloading);
    }

    /// The service has read its files again.
    pub fn reloaded(&self) {
        self.tell(Fact::Reloaded);
    }

    /// The service ends. Returns when that is said.
    pub async fn stopping(&self) {
        let (said, heard) = oneshot::channel();
        if self.tell(Fact::Stopping(said)) {
            // Where the thread is gone nothing can be said.
            let _ = heard.await;
        }
    }

    /// Whether somebody will say it.
    fn tell(&self, fact: Fact) -> bool {
        self.0.as_ref().is_some_and(|tell| tell.try_send(fact).is_ok())
    }
}

fn tell_until_end(facts: &Receiver<Fact>, healthy: &Healthy, beat: Option<Duration>) {
    let mut is_ready = false;
    loop {
        match facts.recv_timeout(beat.unwrap_or(IDLE)) {
            Ok(Fact::Ready(status)) => {
                is_ready = true;
                say(&[NotifyState::Ready, NotifyState::Status(&status)]);
            }
            Ok(Fact::Reloading) => match NotifyState::monotonic_usec_now() {
                // Newer systemd tells by the time which reload is meant.
                Ok(now) => say(&[NotifyState::Reloading, now]),
                Err(_) => say(&[NotifyState::Reloading]),
            },
            Ok(Fact::Reloaded) => say(&[NotifyState::Ready]),
            Ok(Fact::Stopping(said)) => {
                say(&[NotifyState::Stopping]);
                // Who has waited may have been cut.
                let _ = said.send(());
                return;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // After each fact, too: many of them keep no sign of life back.
        if beat.is_some() && is_ready && healthy.is_watched_and_serving() {
            say(&[NotifyState::Watchdog]);
        }
    }
}

fn say(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "systemd cannot be told");
    }
}
