//! One connection: bytes in, bytes out, and when it is given up.
//!
//! # Invariants
//! * A client that takes nothing of what is written to it for as long as the limits say is cut off; one
//!   that takes it slowly is not. So that the two can be told apart, the system is asked to keep little
//!   that it has not sent.
//! * A connection ends as soon as somebody [cuts](Peer::cut) it.
//! * Its place is given back after its descriptor.

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

use super::places::{Calls, Place};
use crate::identity::certificate::Names;
use crate::identity::layer::Peer;

/// How much may wait in the system that was not sent: a client that takes less of it while it is
/// waited for has stopped.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 16 << 10;

/// One connection, and who is at its other end.
#[derive(Debug)]
pub struct Connection {
    transport: Transport,
    peer: Peer,
    /// Somebody wants it closed.
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    /// While nothing can be written: when it is given up.
    stalled: Option<Pin<Box<Sleep>>>,
    patience: Duration,
    _place: Place,
}

#[derive(Debug)]
pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Has small messages sent at once, and little kept that is not sent. A connection that is broken
/// already says so at its first read.
pub(super) fn set_up(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES);
}

impl Transport {
    /// The names that the client has proved, if it showed a certificate.
    fn certificate(&self) -> Option<Arc<Names>> {
        let Self::Tls(stream) = self else { return None };
        // The chain was verified in the handshake; the key behind its first certificate, too.
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
        place: Place,
    ) -> Self {
        let certificate = transport.certificate();
        let ended = Box::pin(cut.clone().cancelled_owned());
        let peer = Peer { address, certificate, is_spare: place.is_spare, calls, cut };
        Self { transport, peer, cut: ended, stalled: None, patience, _place: place }
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Fails once somebody wants the connection closed, and has whoever reads woken then.
    fn check_cut(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.cut.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }

    /// What has become of writing; an error if nothing could be written for too long.
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
        // Whoever waits to cut it need not.
        self.peer.cut.cancel();
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
