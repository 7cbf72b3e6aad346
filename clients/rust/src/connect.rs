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
use tonic::transport::{Channel, ClientTlsConfig, Endpoint, Error};

use crate::options::Options;
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

/// TLS of all addresses.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) config: ClientTlsConfig,
    /// Name for which all certificates have to be valid. `None` for the host of each address.
    pub(crate) name: Option<String>,
}

impl Tls {
    /// Adds TLS to an endpoint that leads to `uri`.
    pub(crate) fn applied(&self, endpoint: Endpoint, uri: &Uri) -> Result<Endpoint, Error> {
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = self.name.as_deref().unwrap_or(host);
        endpoint.tls_config(self.config.clone().domain_name(name))
    }
}

/// Connects to a configured address, or to a member with the settings of the first one.
pub(crate) async fn open(options: &Options, target: &Target) -> Result<Channel, Status> {
    let failed = |error: Error| Status::from_error(Box::new(error));
    let endpoints = &options.endpoints;
    let (endpoint, uri, address) = match target {
        Target::Configured(at) => {
            let endpoint = endpoints[*at].clone();
            let uri = endpoint.uri().clone();
            (endpoint, uri, None)
        }
        Target::Member(address) => {
            let first = endpoints.first().expect("there is at least one");
            let scheme = first.uri().scheme_str().unwrap_or("http");
            let uri = format!("{scheme}://{address}").parse::<Uri>();
            let uri = uri.map_err(|error| Status::unavailable(error.to_string()))?;
            (first.clone().origin(uri.clone()), uri, Some(address.clone()))
        }
    };
    #[cfg(test)]
    let address = address.or_else(|| Some(authority(&endpoint)));
    let endpoint = match &options.tls {
        Some(tls) => tls.applied(endpoint, &uri).map_err(failed)?,
        None => endpoint,
    };
    let channel = match address {
        Some(address) => {
            let dialler = Dialler { dial: Arc::clone(&options.dial), address };
            endpoint.connect_with_connector(dialler).await
        }
        None => endpoint.connect().await,
    };
    channel.map_err(failed)
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
