//! The connections of an edge, plain or with TLS.
//!
//! # Why here
//! Both edges need features that their servers lack: certificates that are replaced while the
//! service runs, a timeout for clients that connect and send or receive nothing, and a limit on the
//! number of connections.
//!
//! # Invariants
//! * A slow TLS handshake delays no other client: handshakes run concurrently with each other and
//!   with the acceptance of new connections.
//! * A connection is passed on once its handshake is complete and its client has sent something;
//!   for HTTP/2 the preface, since an HTTP/2 server has no timeout for it.
//! * Among silent clients, the oldest makes room for the next. `slots` has the limits of all other
//!   connections.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, stream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

pub use self::slots::{Calls, Limits, OpenCall};
pub use self::transport::Connection;

use self::slots::ConnectionSlots;
use self::transport::{Transport, set_up};
use crate::tls::Tls;

pub mod descriptors;
mod slots;
mod transport;

/// Pause after a failed accept. Commonly the process has no file descriptor left, and one must be
/// freed first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The first bytes of an HTTP/2 client (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The time that a client may take to send its first bytes: as long as for a handshake.
const BEGINNING_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause before an incomplete preface is examined again.
const PREFACE_PAUSE: Duration = Duration::from_millis(20);

/// The default number of served connections.
const USUAL: usize = 1_024;

/// The connections accepted from one listener, until the service stops.
#[derive(Debug)]
pub struct Connections {
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    speaks_http_2: bool,
    limits: Limits,
    slots: Arc<ConnectionSlots>,
    /// Connections whose client has not begun.
    newcomers: JoinSet<Option<Connection>>,
    /// Connections whose clients were silent when they were added, oldest first. Some clients may
    /// have begun since.
    oldest: VecDeque<AbortHandle>,
    stop: CancellationToken,
}

impl Connections {
    /// Accepts connections from `listener` until `stop` is cancelled.
    pub fn new(listener: TcpListener, tls: Option<Arc<Tls>>, stop: CancellationToken) -> Self {
        let limits = Limits::serving(USUAL);
        Self {
            listener,
            tls,
            speaks_http_2: false,
            limits,
            slots: Arc::new(ConnectionSlots::new(limits)),
            newcomers: JoinSet::new(),
            oldest: VecDeque::new(),
            stop,
        }
    }

    /// Sets the limits.
    #[must_use]
    pub fn limited(self, limits: Limits) -> Self {
        Self { limits, slots: Arc::new(ConnectionSlots::new(limits)), ..self }
    }

    /// Requires the HTTP/2 preface: a plain connection is closed if its client does not begin with
    /// it within ten seconds.
    #[must_use]
    pub fn speaking_http_2(self) -> Self {
        Self { speaks_http_2: true, ..self }
    }

    /// The address of the listener.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The next connection. `None` once the service stops, which may drop connections not passed on
    /// yet.
    pub async fn next(&mut self) -> Option<Connection> {
        let stop = self.stop.clone();
        stop.run_until_cancelled(self.ready()).await
    }

    /// Converts to a stream of all connections.
    pub fn into_stream(self) -> impl Stream<Item = Result<Connection, Infallible>> {
        stream::unfold(self, async |mut connections| {
            let connection = connections.next().await?;
            Some((Ok(connection), connections))
        })
    }

    async fn ready(&mut self) -> Connection {
        loop {
            let is_full = self.newcomers.len() >= self.limits.newcomers.max(1);
            if is_full {
                self.turn_oldest_away();
            }
            tokio::select! {
                biased;
                Some(ended) = self.newcomers.join_next() => if let Ok(Some(connection)) = ended {
                    return connection;
                },
                accepted = self.listener.accept(), if !is_full => match accepted {
                    Ok((stream, address)) => self.welcome(stream, address),
                    Err(error) => {
                        warn!(%error, "connection not accepted");
                        // A silent client occupies a descriptor that others need.
                        self.turn_oldest_away();
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }

    fn welcome(&mut self, stream: TcpStream, address: SocketAddr) {
        set_up(&stream);
        let newcomer = Newcomer {
            address,
            tls: self.tls.clone(),
            speaks_http_2: self.speaks_http_2,
            slots: Arc::clone(&self.slots),
            patience: self.limits.patience,
        };
        if self.oldest.len() > 2 * self.limits.newcomers {
            self.oldest.retain(|newcomer| !newcomer.is_finished());
            self.slots.forget_closed();
        }
        self.oldest.push_back(self.newcomers.spawn(newcomer.begin(stream)));
    }

    /// Closes the newcomer that has been silent for the longest time.
    fn turn_oldest_away(&mut self) {
        while let Some(newcomer) = self.oldest.pop_front() {
            if !newcomer.is_finished() {
                return newcomer.abort();
            }
        }
    }
}

/// A connection whose client has not begun.
struct Newcomer {
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
    speaks_http_2: bool,
    slots: Arc<ConnectionSlots>,
    patience: Duration,
}

impl Newcomer {
    async fn begin(self, stream: TcpStream) -> Option<Connection> {
        let peer = self.address;
        let transport = match &self.tls {
            None => match timeout(BEGINNING_TIMEOUT, begins(&stream, self.speaks_http_2)).await {
                Ok(Ok(true)) => Transport::Plain(stream),
                Ok(Ok(false) | Err(_)) => return None,
                Err(_) => {
                    debug!(%peer, "nothing from this client");
                    return None;
                }
            },
            Some(tls) => match tls.accept(stream).await {
                Ok(stream) => Transport::Tls(Box::new(stream)),
                Err(error) => {
                    debug!(%peer, %error, "no TLS with this client");
                    return None;
                }
            },
        };
        let (cut, calls) = (CancellationToken::new(), Calls::default());
        let slot = self.slots.acquire(&cut, &calls).await?;
        Some(Connection::new(transport, peer, (cut, calls), self.patience, slot))
    }
}

/// Waits, without consuming bytes, until the client has begun; with HTTP/2, until the preface is
/// complete. Returns whether to pass the connection on. A client of another protocol is passed on
/// too, because the server answers it with an error.
async fn begins(stream: &TcpStream, speaks_http_2: bool) -> io::Result<bool> {
    let mut beginning = [0; PREFACE.len()];
    loop {
        let n_bytes = stream.peek(&mut beginning).await?;
        if n_bytes == 0 {
            return Ok(false);
        }
        let is_whole = n_bytes == PREFACE.len() || !PREFACE.starts_with(&beginning[..n_bytes]);
        if is_whole || !speaks_http_2 {
            return Ok(true);
        }
        // The bytes already peeked would not wake this task again.
        sleep(PREFACE_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use futures::StreamExt as _;
    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    use super::*;
    use crate::settings::TlsSettings;
    use crate::tls::HTTP_2;

    #[tokio::test(start_paused = true)]
    async fn handshake_times_out_after_ten_seconds() {
        let path = |name| {
            let name = format!("monoceros-connections-{}-{name}", std::process::id());
            std::env::temp_dir().join(name)
        };
        let files: [PathBuf; 2] = [path("crt"), path("key")];
        let names = vec!["localhost".to_owned()];
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
        fs::write(&files[0], cert.pem()).unwrap();
        fs::write(&files[1], signing_key.serialize_pem()).unwrap();
        let [certificate, key] = files.clone().map(Some);
        let settings = TlsSettings { certificate, key, ..TlsSettings::default() };
        let tls = Tls::load("grpc.tls", &settings, HTTP_2).unwrap().map(Arc::new);
        for file in files {
            fs::remove_file(file).unwrap();
        }

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut connections = Connections::new(listener, tls, CancellationToken::new());
        let (began, mut nothing) = (Instant::now(), [0; 64]);
        let mut silent = TcpStream::connect(connections.address().unwrap()).await.unwrap();
        tokio::select! {
            _ = connections.next() => panic!("nobody has shaken hands"),
            read = silent.read(&mut nothing) => assert_eq!(read.unwrap(), 0),
        }
        assert_eq!(began.elapsed().as_secs(), 10);
    }

    /// HTTP/2 connections without TLS, and a client that has sent these bytes.
    async fn plain(sent: &[u8], stop: &CancellationToken) -> (Connections, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connections = Connections::new(listener, None, stop.clone()).speaking_http_2();
        let mut client = TcpStream::connect(connections.address().unwrap()).await.unwrap();
        client.write_all(sent).await.unwrap();
        (connections, client)
    }

    #[tokio::test(start_paused = true)]
    async fn silent_client_times_out_after_ten_seconds() {
        for sent in [&b""[..], &PREFACE[..23]] {
            let (mut connections, mut client) = plain(sent, &CancellationToken::new()).await;
            let (began, mut nothing) = (Instant::now(), [0; 64]);
            tokio::select! {
                _ = connections.next() => panic!("nobody speaks HTTP/2"),
                read = client.read(&mut nothing) => assert_eq!(read.unwrap_or(0), 0),
            }
            assert_eq!(began.elapsed().as_secs(), 10);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn first_bytes_are_not_consumed() {
        for sent in [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0"[..], b"GET / HTTP/1.1\r\n\r\n"] {
            let (mut connections, _client) = plain(sent, &CancellationToken::new()).await;
            let mut connection = connections.next().await.unwrap();
            let mut read = vec![0; sent.len()];
            connection.read_exact(&mut read).await.unwrap();
            assert_eq!(read, sent);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_client_does_not_delay_shutdown() {
        let stop = CancellationToken::new();
        let (connections, mut client) = plain(&PREFACE[..5], &stop).await;
        let began = Instant::now();
        let served = tokio::spawn(connections.into_stream().for_each(|_| async {}));
        sleep(BEGINNING_TIMEOUT / 2).await;
        stop.cancel();
        served.await.unwrap();
        assert_eq!(client.read(&mut [0; 64]).await.unwrap_or(0), 0);
        assert_eq!(began.elapsed(), BEGINNING_TIMEOUT / 2);
    }

    #[tokio::test]
    async fn oldest_silent_client_makes_room() {
        let stop = CancellationToken::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let limits = Limits { newcomers: 4, ..Limits::serving(8) };
        let connections = Connections::new(listener, None, stop.clone()).limited(limits);
        let address = connections.address().unwrap();
        let mut connections = Box::pin(connections.into_stream());
        let crowd = tokio::spawn(async move {
            let mut silent = Vec::new();
            for _ in 0..50 {
                silent.push(TcpStream::connect(address).await.unwrap());
            }
            let mut probe = TcpStream::connect(address).await.unwrap();
            probe.write_all(b"GET /").await.unwrap();
            // The first silent connection is closed, or will be soon.
            assert_eq!(silent[0].read(&mut [0; 1]).await.unwrap_or(0), 0);
            (silent, probe)
        });
        let connection = connections.next().await.unwrap().unwrap();
        assert!(!connection.peer().is_spare);
        let turned_away = tokio::select! {
            _ = connections.next() => panic!("nobody else has spoken"),
            turned_away = crowd => turned_away,
        };
        turned_away.unwrap();
    }

    #[tokio::test]
    async fn only_a_stalled_reader_is_cut_off() {
        let patience = Duration::from_millis(600);
        for is_moving in [true, false] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let limits = Limits { patience, ..Limits::serving(8) };
            let stop = CancellationToken::new();
            let mut connections = Connections::new(listener, None, stop).limited(limits);
            let mut client = TcpStream::connect(connections.address().unwrap()).await.unwrap();
            client.write_all(b"GET /").await.unwrap();
            let mut connection = connections.next().await.unwrap();
            let began = Instant::now();
            let reading = tokio::spawn(async move {
                let mut piece = vec![0; 256 << 10];
                while is_moving && began.elapsed() < 4 * patience {
                    tokio::time::sleep(patience / 6).await;
                    client.read_exact(&mut piece).await.unwrap();
                }
                client
            });
            let mut written = 0;
            let document = vec![0; 1 << 20];
            let ended = loop {
                match connection.write_all(&document).await {
                    Ok(()) => written += document.len(),
                    Err(error) => break error,
                }
                assert!(written < 1 << 30);
            };
            assert_eq!(ended.kind(), std::io::ErrorKind::TimedOut);
            let lasted = began.elapsed();
            assert_eq!(lasted >= 4 * patience, is_moving, "{lasted:?}");
            drop(reading.await.unwrap());
        }
    }
}
