//! The middleware that identifies the caller of every call.
//!
//! It wraps all services of both edges, so that no handler can be reached without it. It removes
//! the token from the request, so that no handler can log it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::Request;
use axum::http::header::AUTHORIZATION;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpConnectInfo;
use tower::{Layer, Service};

use super::access::Access;
use super::certificate::Names;
use crate::connections::Calls;

/// The peer of a connection. The server of either edge attaches it to each request.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The network address.
    pub address: SocketAddr,
    /// The names proved by a certificate, if the client sent one.
    pub certificate: Option<Arc<Names>>,
    /// Whether its connection is beyond the limit and answers health only.
    pub is_spare: bool,
    /// The open calls of its connection.
    pub calls: Calls,
    /// Closes its connection.
    pub cut: CancellationToken,
}

/// Attaches the caller's [`Identity`](super::Identity) to each request.
#[derive(Clone, Debug)]
pub struct IdentityLayer(Arc<Access>);

/// A service behind the [`IdentityLayer`].
#[derive(Clone, Debug)]
pub struct Identified<S> {
    access: Arc<Access>,
    inner: S,
}

impl IdentityLayer {
    /// Creates the layer.
    pub fn new(access: Arc<Access>) -> Self {
        Self(access)
    }
}

impl<S> Layer<S> for IdentityLayer {
    type Service = Identified<S>;

    fn layer(&self, inner: S) -> Identified<S> {
        Identified { access: Arc::clone(&self.0), inner }
    }
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for Identified<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        // No later layer needs the token, so none gets it.
        let authorization = request.headers_mut().remove(AUTHORIZATION);
        let peer = request.extensions().get::<Peer>().cloned();
        let certificate = peer.as_ref().and_then(|peer| peer.certificate.as_deref());
        let mut identity = self.access.identify(certificate, authorization.as_ref());
        if let Some(peer) = &peer {
            identity = identity.at(peer.address);
        }
        request.extensions_mut().insert(identity);
        if let Some(peer) = peer {
            // For `tonic::Request::remote_addr`.
            let connection = TcpConnectInfo { local_addr: None, remote_addr: Some(peer.address) };
            request.extensions_mut().insert(connection);
        }
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::FutureExt as _;
    use tower::service_fn;

    use super::*;
    use crate::identity::{Identity, Rule};

    #[test]
    fn a_request_gets_an_identity_and_loses_its_token() {
        let rules = vec![Rule::token("ops", &["a"], false).unwrap()];
        let access = Access::with_tokens(rules, b"ops:s3cr3t").unwrap();
        let mut service = IdentityLayer::new(Arc::new(access)).layer(service_fn(async |request| {
            let request: Request<()> = request;
            Ok::<_, Infallible>(request)
        }));
        let mut call = |request| service.call(request).now_or_never().unwrap().unwrap();

        let request = Request::builder().header("authorization", "Bearer s3cr3t");
        let seen = call(request.body(()).unwrap());
        assert!(Identity::of(seen.extensions()).check_rm("a").is_ok());
        assert!(seen.headers().is_empty());
        let seen = call(Request::new(()));
        assert!(Identity::of(seen.extensions()).check_rm("a").is_err());
    }
}
