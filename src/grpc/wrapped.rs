//! A wrapper of services that sees the bodies of all calls: requests, replies, or both.

use std::convert::Infallible;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;

/// The changes that a wrapper makes to each call.
pub(super) trait Wrapping: Clone + Send + Sync + 'static {
    /// Returns the request for the service, and a function that converts its response.
    fn wrap(
        &self,
        request: Request<Body>,
    ) -> (Request<Body>, impl FnOnce(Response<Body>) -> Response<Body> + Send + 'static);
}

/// A wrapped service, under the same name.
#[derive(Clone)]
pub(super) struct Wrapped<S, W> {
    service: S,
    wrapping: W,
}

impl<S, W> Wrapped<S, W> {
    pub(super) fn new(service: S, wrapping: W) -> Self {
        Self { service, wrapping }
    }
}

impl<S: NamedService, W> NamedService for Wrapped<S, W> {
    const NAME: &'static str = S::NAME;
}

impl<S, W> Service<Request<Body>> for Wrapped<S, W>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
    W: Wrapping,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (request, and_then) = self.wrapping.wrap(request);
        let response = self.service.call(request);
        Box::pin(async move { Ok(and_then(response.await?)) })
    }
}
