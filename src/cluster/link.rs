//! The connection to one other member, kept open for as long as that member lives.
//!
//! # Why not the client of the library
//! The library connects when a call is made, and does not show whether the other side answers. Here
//! the connection is open before the first call, pings are always under way, and the time of the
//! last received byte is known: a member that stands still is noticed within a second.
//!
//! # Processes of another incarnation
//! A process that was started again may have the address of the member's former self. So each
//! connection begins with a request for the incarnation that is meant. Where the process says that
//! it has another one, the connection carries no calls, and the member counts as one that answers no
//! ping.
//!
//! # Invariants
//! * Pings leave every [`PING_EVERY`]. A connection without an answer for a second is closed, and
//!   all calls on it end.
//! * Without TLS only loopback addresses are connected to.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Uri, Version};
use tracing::{debug, info, warn};

use super::tls::ClientTls;
use crate::grpc::{PING_EVERY, PING_PATIENCE, is_other_incarnation, member_windows};
use crate::settings::is_loopback;

/// Time within which a connection is made.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
/// Pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(100);
/// A member that sent nothing for this time, in which it should have answered two pings, counts as
/// one that answers none.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);
/// A member that sent nothing for this time stands still: pings and their answers come more often.
const ACTS_WITHIN: Duration = Duration::from_millis(300);
/// Pause between two looks whether something was received.
const LOOK_PAUSE: Duration = Duration::from_millis(10);
/// Largest headers of an answer, in bytes. Those of a client are bounded by its own.
const HEADER_BYTES: u32 = 256 << 10;
/// First request on a connection. Any answer will do: only the incarnation counts.
const FIRST: &str = "http://member/readyz";

type Sender = SendRequest<Body>;

/// The connection to one other member. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Link {
    state: watch::Receiver<State>,
    received: LastReceived,
    task: AbortHandle,
}

/// State of a connection. While the next attempt to connect is under way it is that of the last.
#[derive(Clone, Debug)]
enum State {
    /// No attempt to connect has ended yet.
    New,
    /// Calls go over this sender.
    Open(Sender),
    /// No process of this incarnation listens at the address: the operating system's error, or that
    /// another incarnation does.
    Refused(String),
    /// The attempt failed otherwise, or the connection ended. Empty if it ended without an error.
    Down(String),
}

impl State {
    /// State after an attempt that failed.
    fn failed(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused(error.to_string()),
            _ => Self::Down(error.to_string()),
        }
    }

    fn sender(&self) -> Option<&Sender> {
        match self {
            Self::Open(sender) => Some(sender),
            Self::New | Self::Refused(_) | Self::Down(_) => None,
        }
    }

    /// Why the member does not answer, for people.
    fn problem(&self) -> &str {
        match self {
            Self::Refused(why) | Self::Down(why) if !why.is_empty() => why,
            Self::New | Self::Open(_) | Self::Refused(_) | Self::Down(_) => "it does not answer",
        }
    }
}

/// When the last byte was received.
#[derive(Clone, Debug)]
struct LastReceived {
    begun: Instant,
    /// Milliseconds after `begun`.
    last: Arc<AtomicU64>,
}

impl LastReceived {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn note(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
    }

    fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    fn silence(&self) -> Duration {
        Duration::from_millis(self.now().saturating_sub(self.last()))
    }

    /// Whether something is received from now on, before the silence is longer than `bound`.
    async fn receives_within(&self, bound: Duration) -> bool {
        let before = self.last();
        while self.last() == before {
            if self.silence() >= bound {
                return false;
            }
            sleep(LOOK_PAUSE).await;
        }
        true
    }
}

impl Link {
    /// Connects to the member at `address` in the background, again and again. The first request on
    /// a connection has these headers.
    pub(super) fn to(
        member: &str,
        address: &str,
        tls: Option<Arc<ClientTls>>,
        headers: HeaderMap,
    ) -> Self {
        let (updates, state) = watch::channel(State::New);
        let received = LastReceived { begun: Instant::now(), last: Arc::default() };
        let dialler = Dialler {
            member: member.to_owned(),
            address: address.to_owned(),
            tls,
            headers,
            received: received.clone(),
        };
        let task = tokio::spawn(dialler.keep(updates)).abort_handle();
        Self { state, received, task }
    }

    /// Why the member does not answer, for people.
    pub(super) fn problem(&self) -> String {
        self.state.borrow().problem().to_owned()
    }

    /// Whether the member answers pings now.
    pub(super) fn answers_pings(&self) -> bool {
        self.state.borrow().sender().is_some_and(|sender| !sender.is_closed())
            && self.received.silence() < ANSWERS_WITHIN
    }

    /// Whether no process of this incarnation listens at the address of the member, as far as is
    /// known.
    pub(super) fn refuses(&self) -> bool {
        matches!(*self.state.borrow(), State::Refused(_))
    }

    /// Whether the member acts at this moment. Pings show that later: an answer may be from the time
    /// just before the member stood still.
    pub(super) async fn acts(&self) -> bool {
        self.answers_pings() && self.received.receives_within(ACTS_WITHIN).await
    }

    /// The connection, awaited for at most a second.
    pub(super) async fn sender(&self) -> Option<Sender> {
        let mut state = self.state.clone();
        let connected = state.wait_for(|state| state.sender().is_some());
        let connected = timeout(CONNECT_PATIENCE, connected).await.ok()?.ok()?;
        connected.sender().cloned()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Makes the connections of a [`Link`].
struct Dialler {
    member: String,
    address: String,
    tls: Option<Arc<ClientTls>>,
    headers: HeaderMap,
    received: LastReceived,
}

impl Dialler {
    /// Keeps a connection open until the task is aborted.
    async fn keep(self, updates: watch::Sender<State>) {
        let (member, address) = (&*self.member, &*self.address);
        if self.tls.is_none() && !is_loopback(address) {
            let why = "its address is no loopback address, and `cluster.tls.names` is not set here";
            warn!(member, address, why, "no connection to another member");
            updates.send_replace(State::Down(why.to_owned()));
            return;
        }
        let mut is_reported = false;
        loop {
            let connected = timeout(CONNECT_PATIENCE, self.connect()).await.unwrap_or_else(late);
            match connected {
                Ok((sender, connection)) => {
                    is_reported = false;
                    let mut connection = pin!(connection);
                    let end = tokio::select! {
                        biased;
                        end = &mut connection => end,
                        is_other = self.leads_to_other(sender.clone()) => {
                            // The connection ends with the last sender.
                            let _unused = self.begin(sender, is_other, &updates);
                            connection.await
                        }
                    };
                    let why = end.err().map(|error| error.to_string()).unwrap_or_default();
                    info!(member, address, why, "connection to another member ended");
                    updates.send_replace(State::Down(why));
                }
                Err(error) => {
                    updates.send_replace(State::failed(&error));
                    let was_reported = std::mem::replace(&mut is_reported, true);
                    match error.kind() {
                        _ if was_reported => {
                            debug!(member, address, %error, "no connection to another member");
                        }
                        // A wrong certificate stays wrong until an operator acts.
                        io::ErrorKind::InvalidData => {
                            warn!(member, address, %error, "no connection to another member");
                        }
                        _ => info!(member, address, %error, "no connection to another member"),
                    }
                }
            }
            sleep(PAUSE).await;
        }
    }

    /// Whether the process at the other end says that it has another incarnation.
    async fn leads_to_other(&self, mut sender: Sender) -> bool {
        let mut first = Request::new(Body::empty());
        *first.version_mut() = Version::HTTP_2;
        *first.uri_mut() = Uri::from_static(FIRST);
        *first.headers_mut() = self.headers.clone();
        let answered = sender.send_request(first).await;
        answered.is_ok_and(|answer| is_other_incarnation(&answer))
    }

    /// Makes a new connection available for calls. Returns the sender of one that leads to another
    /// incarnation: kept without use, it shows by its end that the other process may have gone.
    fn begin(
        &self,
        sender: Sender,
        is_other: bool,
        updates: &watch::Sender<State>,
    ) -> Option<Sender> {
        let (member, address) = (&*self.member, &*self.address);
        if is_other {
            let why = "another incarnation of it is at its address";
            info!(member, address, why, "no connection to another member");
            updates.send_replace(State::Refused(why.to_owned()));
            return Some(sender);
        }
        info!(member, address, "connected to another member");
        updates.send_replace(State::Open(sender));
        None
    }

    async fn connect(
        &self,
    ) -> io::Result<(Sender, impl Future<Output = hyper::Result<()>> + Send + use<>)> {
        let stream = TcpStream::connect(&self.address).await?;
        let _ = stream.set_nodelay(true);
        let transport = match &self.tls {
            None => Transport::Plain(stream),
            Some(tls) => {
                // Names are pinned, so the host counts for nothing.
                let host = ServerName::try_from("member").map_err(io::Error::other)?;
                let connector = TlsConnector::from(tls.current());
                Transport::Tls(Box::new(connector.connect(host, stream).await?))
            }
        };
        self.received.note();
        let stream = Noting { transport, received: self.received.clone() };
        let (stream_window, connection_window) = member_windows();
        let mut http = Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_PATIENCE)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(stream_window)
            .initial_connection_window_size(connection_window)
            .max_header_list_size(HEADER_BYTES);
        http.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)
    }
}

fn late<T>(_: tokio::time::error::Elapsed) -> io::Result<T> {
    Err(io::ErrorKind::TimedOut.into())
}

enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection that notes when something was received.
struct Noting {
    transport: Transport,
    received: LastReceived,
}

/// Forwards a call to the transport.
macro_rules! on_transport {
    ($self:ident, $method:ident $(, $argument:expr)*) => {
        match &mut $self.transport {
            Transport::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Transport::Tls(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for Noting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(on_transport!(self, poll_read, cx, buffer));
        self.received.note();
        Poll::Ready(read)
    }
}

impl AsyncWrite for Noting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_transport!(self, poll_write, cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_transport!(self, poll_flush, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_transport!(self, poll_shutdown, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_transport!(self, poll_write_vectored, cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_acts_if_it_is_received_again_in_time() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let received = LastReceived { begun: Instant::now(), last: Arc::default() };
            sleep(Duration::from_millis(100)).await;
            let begun = Instant::now();
            assert!(!received.receives_within(ACTS_WITHIN).await, "an old byte shows nothing");
            assert!(begun.elapsed() < Duration::from_millis(220), "{:?}", begun.elapsed());
            let asked = begun.elapsed();
            assert!(!received.receives_within(ACTS_WITHIN).await);
            assert_eq!(begun.elapsed(), asked, "silent for too long already");
            received.note();
            let other = received.clone();
            let later = async {
                sleep(Duration::from_millis(190)).await;
                other.note();
            };
            let (acts, ()) = tokio::join!(received.receives_within(ACTS_WITHIN), later);
            assert!(acts);
        });
    }

    #[test]
    fn a_refused_connection_differs_from_one_that_failed_otherwise() {
        let refused = State::failed(&io::ErrorKind::ConnectionRefused.into());
        assert!(matches!(refused, State::Refused(_)), "{refused:?}");
        let late = State::failed(&io::ErrorKind::TimedOut.into());
        assert!(matches!(late, State::Down(_)), "{late:?}");
        assert_eq!(late.problem(), "timed out");
        for state in [State::New, State::Down(String::new())] {
            assert_eq!(state.problem(), "it does not answer");
        }
    }
}
