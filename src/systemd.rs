//! Notifications to systemd, or to another supervisor with the same protocol (`sd_notify`): ready,
//! reloading, stopping, and the watchdog's sign of life.
//!
//! # Why a thread of its own
//! A message to systemd blocks while systemd does not read. Neither the watchdog, on which probes
//! depend, nor a worker of the edges may wait for it.
//!
//! # Invariants
//! * Without a supervisor (`NOTIFY_SOCKET` is not set) there is no thread, and nothing is sent.
//! * A sign of life is sent only while the scheduler serves and the watchdog runs. systemd restarts
//!   a service whose front hangs, as a liveness probe would.
//! * Only the end of the service waits for this thread, within its grace period.
//!
//! # When things go wrong
//! A failed notification is logged, and the service goes on.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::sync::oneshot;
use tracing::warn;

use crate::watchdog::Healthy;

/// Most queued notifications. Later ones are dropped.
const MOST_QUEUED: usize = 16;

/// Poll interval of the thread if systemd wants no watchdog notifications.
const IDLE: Duration = Duration::from_secs(3_600);

/// The supervisor of the process. Clones share it.
#[derive(Clone, Debug)]
pub struct Systemd(Option<SyncSender<Notification>>);

/// A new state of the service.
#[derive(Debug)]
enum Notification {
    /// The service listens. The text contains its addresses.
    Ready(String),
    Reloading,
    Reloaded,
    /// The service ends. The sender is used once systemd is notified.
    Stopping(oneshot::Sender<()>),
}

impl Systemd {
    /// Connects to the supervisor in the environment (`NOTIFY_SOCKET`). Sends the watchdog
    /// notifications that it wants (`WATCHDOG_USEC`) while `healthy` reports a serving scheduler.
    pub fn from_environment(healthy: Healthy) -> io::Result<Self> {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Ok(Self(None));
        }
        let (send, notifications) = sync_channel(MOST_QUEUED);
        // Half of the timeout, as systemd recommends, so that a delayed sign of life still arrives
        // in time.
        let beat = sd_notify::watchdog_enabled().map(|longest| longest / 2);
        let work = move || notify_until_end(&notifications, &healthy, beat);
        thread::Builder::new().name("systemd".to_owned()).spawn(work)?;
        Ok(Self(Some(send)))
    }

    /// No supervisor.
    #[cfg(test)]
    pub(crate) fn nobody() -> Self {
        Self(None)
    }

    /// Reports that the service listens, and where. Dependent units may start.
    pub fn ready(&self, listens: &str) {
        self.send(Notification::Ready(format!("listens: {listens}")));
    }

    /// Reports that the service reads its files again.
    pub fn reloading(&self) {
        self.send(Notification::Reloading);
    }

    /// Reports that the service has read its files again.
    pub fn reloaded(&self) {
        self.send(Notification::Reloaded);
    }

    /// Reports that the service ends, and waits until that is sent.
    pub async fn stopping(&self) {
        let (sent, done) = oneshot::channel();
        if self.send(Notification::Stopping(sent)) {
            // Fails if the thread has ended.
            let _ = done.await;
        }
    }

    /// Queues a notification. Returns `false` if it will not be sent.
    fn send(&self, notification: Notification) -> bool {
        self.0.as_ref().is_some_and(|send| send.try_send(notification).is_ok())
    }
}

fn notify_until_end(
    notifications: &Receiver<Notification>,
    healthy: &Healthy,
    beat: Option<Duration>,
) {
    let mut is_ready = false;
    loop {
        match notifications.recv_timeout(beat.unwrap_or(IDLE)) {
            Ok(Notification::Ready(status)) => {
                is_ready = true;
                notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
            }
            Ok(Notification::Reloading) => match NotifyState::monotonic_usec_now() {
                // Newer versions of systemd identify a reload by its time.
                Ok(now) => notify(&[NotifyState::Reloading, now]),
                Err(_) => notify(&[NotifyState::Reloading]),
            },
            Ok(Notification::Reloaded) => notify(&[NotifyState::Ready]),
            Ok(Notification::Stopping(sent)) => {
                notify(&[NotifyState::Stopping]);
                // The receiver may have been dropped.
                let _ = sent.send(());
                return;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // Also after each notification, so that a series of them does not delay the sign of life.
        if beat.is_some() && is_ready && healthy.is_watched_and_serving() {
            notify(&[NotifyState::Watchdog]);
        }
    }
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "systemd cannot be told");
    }
}
