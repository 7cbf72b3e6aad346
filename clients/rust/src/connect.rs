//! Connections to the addresses of a scheduler.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tonic::Status;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

use crate::route::Target;

/// A connection of any kind.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Opens a connection to `host:port`. Tests have one without sockets.
pub(crate) type Dial = Arc<dyn Fn(String) -> Dialling + Send + Sync>;
type Dialling = BoxFuture<'static, io::Result<Box<dyn Io>>>;

/// Opens connections by TCP.
pub(crate) fn tcp() -> Dial {
    Arc::new(|address| {
        async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Io>)
        }
        .boxed()
    })
}

/// Host and port of an endpoint.
pub(crate) fn authority(endpoint: &Endpoint) -> String {
    endpoint.uri().authority().map(ToString::to_string).unwrap_or_default()
}

/// Connects to a configured address, or to a member with the settings of the first one.
pub(crate) async fn open(
    endpoints: &[Endpoint],
    dial: &Dial,
    target: &Target,
) -> Result<Channel, Status> {
    let channel = match target {
        #[cfg(not(test))]
        Target::Configured(at) => endpoints[*at].connect().await,
        #[cfg(test)]
        Target::Configured(at) => {
            let address = authority(&endpoints[*at]);
            let dialler = Dialler { dial: Arc::clone(dial), address };
            endpoints[*at].connect_with_connector(dialler).await
        }
        Target::Member(address) => {
            let first = endpoints.first().expect("there is at least one");
            let scheme = first.uri().scheme_str().unwrap_or("http");
            let origin = format!("{scheme}://{address}").parse::<Uri>();
            let origin = origin.map_err(|error| Status::unavailable(error.to_string()))?;
            let dialler = Dialler { dial: Arc::clone(dial), address: address.clone() };
            first.clone().origin(origin).connect_with_connector(dialler).await
        }
    };
    channel.map_err(|error| Status::from_error(Box::new(error)))
}

/// Connects to one address, whatever the endpoint names.
struct Dialler {
    dial: Dial,
    address: String,
}

impl Service<Uri> for Dialler {
    type Response = TokioIo<Box<dyn Io>>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connection = (self.dial)(self.address.clone());
        async move { connection.await.map(TokioIo::new) }.boxed()
    }
}
