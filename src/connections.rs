//! The connections of an edge: plain, or inside TLS.
//!
//! # Why here
//! Both edges need what neither of their servers brings: certificates that are replaced while the
//! service runs, and a deadline for a client that connects and sends nothing.
//!
//! # Invariants
//! * A client that is slow to agree on keys holds up nobody: handshakes go on beside each other and
//!   beside the acceptance of new connections.
//! * Only a connection whose handshake is complete is handed on; a plain one for HTTP/2 only when
//!   its client has begun to speak that: the server behind has no deadline for it.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;
use tracing::{debug, warn};

use crate::identity::certificate::Names;
use crate::identity::layer::Peer;
use crate::tls::Tls;

/// Pause before the next connection is taken when taking one failed: commonly the process has no
/// file descriptor left, and one must be given back first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a client of HTTP/2 begins with (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long a client may take for that: as long as for a handshake.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause before a preface of which only a part is there is looked at again.
const PREFACE_PAUSE: Duration = Duration::from_millis(20);

/// The connections that come to one listener, until the service stops.
#[derive(Debug)]
pub struct Connections {
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    speaks_http_2: bool,
    /// Connections that are not ready: of TLS, or to a server of HTTP/2.
    handshakes: JoinSet<Option<Connection>>,
    stop: CancellationToken,
}

/// One connection, and who is at its other end.
#[derive(Debug)]
pub struct Connection {
    transport: Transport,
    peer: Peer,
}

#[derive(Debug)]
enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connections {
    /// The connections that come to `listener` until `stop` is cancelled.
    pub fn new(listener: TcpListener, tls: Option<Arc<Tls>>, stop: CancellationToken) -> Self {
        Self { listener, tls, speaks_http_2: false, handshakes: JoinSet::new(), stop }
    }

    /// The same for a server of HTTP/2: a plain connection whose client does not begin with the
    /// preface of it within ten seconds is closed.
    #[must_use]
    pub fn speaking_http_2(self) -> Self {
        Self { speaks_http_2: true, ..self }
    }

    /// The address of the listener.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The next one; none once the service stops. What was under way may be dropped.
    pub async fn next(&mut self) -> Option<Connection> {
        let stop = self.stop.clone();
        stop.run_until_cancelled(self.ready()).await
    }

    /// All connections, as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<Connection, Infallible>> {
        stream::unfold(self, async |mut connections| {
            let connection = connections.next().await?;
            Some((Ok(connection), connections))
        })
    }

    async fn ready(&mut self) -> Connection {
        loop {
            let (stream, address) = tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        warn!(%error, "connection not accepted");
                        sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
                Some(ended) = self.handshakes.join_next() => match ended {
                    Ok(Some(connection)) => return connection,
                    Ok(None) | Err(_) => continue,
                },
            };
            // Small messages should not wait for an acknowledgement of earlier ones. A connection
            // that is broken already says so at its first read.
            let _ = stream.set_nodelay(true);
            match &self.tls {
                None if self.speaks_http_2 => {
                    self.handshakes.spawn(preface(stream, address));
                }
                None => return Connection::plain(stream, address),
                Some(tls) => {
                    self.handshakes.spawn(handshake(Arc::clone(tls), stream, address));
                }
            }
        }
    }
}

async fn handshake(tls: Arc<Tls>, stream: TcpStream, address: SocketAddr) -> Option<Connection> {
    match tls.accept(stream).await {
        Ok(stream) => Some(Connection::tls(stream, address)),
        Err(error) => {
            debug!(peer = %address, %error, "no TLS with this client");
            None
        }
    }
}

async fn preface(stream: TcpStream, address: SocketAddr) -> Option<Connection> {
    match timeout(PREFACE_TIMEOUT, begins(&stream)).await {
        Ok(Ok(true)) => Some(Connection::plain(stream, address)),
        Ok(Ok(false) | Err(_)) => None,
        Err(_) => {
            debug!(peer = %address, "no HTTP/2 from this client");
            None
        }
    }
}

/// Waits for the whole preface, and takes nothing of it. Says whether to hand the connection on: a
/// client that speaks something else is handed on, too, because the server tells it so.
async fn begins(stream: &TcpStream) -> io::Result<bool> {
    let mut beginning = [0; PREFACE.len()];
    loop {
        let n_bytes = stream.peek(&mut beginning).await?;
        if n_bytes == 0 {
            return Ok(false);
        }
        if n_bytes == PREFACE.len() || !PREFACE.starts_with(&beginning[..n_bytes]) {
            return Ok(true);
        }
        // A part that was looked at is still there: no news would wake us.
        sleep(PREFACE_PAUSE).await;
    }
}

impl Connection {
    fn plain(stream: TcpStream, address: SocketAddr) -> Self {
        let peer = Peer { address, certificate: None };
        Self { transport: Transport::Plain(stream), peer }
    }

    fn tls(stream: TlsStream<TcpStream>, address: SocketAddr) -> Self {
        // The chain was verified in the handshake; the key behind its first certificate, too.
        let chain = stream.get_ref().1.peer_certificates();
        let certificate = chain.and_then(<[_]>::first).map(|first| Arc::new(Names::of(first)));
        let peer = Peer { address, certificate };
        Self { transport: Transport::Tls(Box::new(stream)), peer }
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

/// Passes a call on to whichever transport it is.
macro_rules! on_transport {
    ($self:ident, $method:ident $(, $argument:expr)*) => {
        match &mut $self.get_mut().transport {
            Transport::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Transport::Tls(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_transport!(self, poll_read, cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_transport!(self, poll_write, cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_transport!(self, poll_flush, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_transport!(self, poll_shutdown, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
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
    async fn a_handshake_that_takes_ten_seconds_is_given_up() {
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

    /// Connections for HTTP/2 without TLS, and a client that has said so much.
    async fn plain(said: &[u8], stop: &CancellationToken) -> (Connections, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connections = Connections::new(listener, None, stop.clone()).speaking_http_2();
        let mut client = TcpStream::connect(connections.address().unwrap()).await.unwrap();
        client.write_all(said).await.unwrap();
        (connections, client)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_begin_within_ten_seconds_is_given_up() {
        for said in [&b""[..], &PREFACE[..23]] {
            let (mut connections, mut client) = plain(said, &CancellationToken::new()).await;
            let (began, mut nothing) = (Instant::now(), [0; 64]);
            tokio::select! {
                _ = connections.next() => panic!("nobody speaks HTTP/2"),
                read = client.read(&mut nothing) => assert_eq!(read.unwrap_or(0), 0),
            }
            assert_eq!(began.elapsed().as_secs(), 10);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_begins_is_handed_on_with_all_that_it_said() {
        for said in [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0"[..], b"GET / HTTP/1.1\r\n\r\n"] {
            let (mut connections, _client) = plain(said, &CancellationToken::new()).await;
            let mut connection = connections.next().await.unwrap();
            let mut read = vec![0; said.len()];
            connection.read_exact(&mut read).await.unwrap();
            assert_eq!(read, said);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_has_yet_to_begin_holds_up_no_end() {
        let stop = CancellationToken::new();
        let (connections, mut client) = plain(&PREFACE[..5], &stop).await;
        let began = Instant::now();
        let served = tokio::spawn(connections.into_stream().for_each(|_| async {}));
        sleep(PREFACE_TIMEOUT / 2).await;
        stop.cancel();
        served.await.unwrap();
        assert_eq!(client.read(&mut [0; 64]).await.unwrap_or(0), 0);
        assert_eq!(began.elapsed(), PREFACE_TIMEOUT / 2);
    }
}
