//! One connection: reading, writing, and the conditions under which it is closed.
//!
//! # Invariants
//! * A client that receives nothing of the data written to it for the configured time is cut off; a
//!   slow client is not. To tell them apart, the system is asked to buffer little unsent data.
//! * A connection ends as soon as it is [cut](Peer::cut).
//! * Its slot is returned after its descriptor is closed.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

use super::slots::{Calls, ConnectionSlot};
use crate::identity::certificate::Names;
use crate::identity::layer::Peer;

/// Unsent bytes that the system may buffer: a client that receives less than this within its
/// patience has stopped.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 16 << 10;

/// One connection and its peer.
#[derive(Debug)]
pub struct Connection {
    transport: Transport,
    peer: Peer,
    /// Completes when the connection is to be closed.
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The timeout of the present write, while nothing can be written.
    stalled: Option<Pin<Box<Sleep>>>,
    patience: Duration,
    _slot: ConnectionSlot,
}

#[derive(Debug)]
pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Disables delays of small messages, and limits unsent data. Errors are ignored: a broken
/// connection fails at its first read.
pub(super) fn set_up(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES);
}

impl Transport {
    /// The names proved by the client's certificate, if it sent one.
    fn certificate(&self) -> Option<Arc<Names>> {
        let Self::Tls(stream) = self else { return None };
        // The handshake has verified the chain, and that the client owns the key of its first
        // certificate.
        let chain = stream.get_ref().1.peer_certificates();
        chain.and_then(<[_]>::first).map(|first| Arc::new(Names::of(first)))
    }
}

impl Connection {
    pub(super) fn new(
        transport: Transport,
        address: SocketAddr,
        (cut, calls): (CancellationToken, Calls),
        patience: Duration,
        slot: ConnectionSlot,
    ) -> Self {
        let certificate = transport.certificate();
        let ended = Box::pin(cut.clone().cancelled_owned());
        let peer = Peer { address, certificate, is_spare: slot.is_spare, calls, cut };
        Self { transport, peer, cut: ended, stalled: None, patience, _slot: slot }
    }

    /// The peer of the connection.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Fails once the connection is cut, and wakes the reading task then.
    fn check_cut(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.cut.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }

    /// Passes on the result of a write. Fails if nothing could be written for too long.
    fn moving<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
        stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Tasks that wait to cut the connection can stop.
        self.peer.cut.cancel();
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
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

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_cut(cx)?;
        on_transport!(self, poll_read, cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = on_transport!(self, poll_write, cx, bytes);
        self.moving(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = on_transport!(self, poll_flush, cx);
        self.moving(cx, written)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = on_transport!(self, poll_shutdown, cx);
        self.moving(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = on_transport!(self, poll_write_vectored, cx, slices);
        self.moving(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
