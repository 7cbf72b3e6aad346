//! The path of the published interface, as a second path to the scheduler service.
//!
//! # Why
//! The stubs of this repository have packages of their own, so that one program can link them
//! together with those of the published interface. A gRPC path begins with the package. Clients of
//! the published interface call `/si.v1.Scheduler/…` all the same.
//!
//! # Invariants
//! * A call on the alias is identical to a call on the real path: only the path is rewritten,
//!   before the service sees the request.
//! * Messages are the same bytes under both names, since no message name is on the wire.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{Request, Response, Uri};
use tonic::server::NamedService;

/// The scheduler under its published name.
pub(super) enum PublishedScheduler {}

impl NamedService for PublishedScheduler {
    const NAME: &'static str = "si.v1.Scheduler";
}

/// A service under the name of `N`.
pub(super) struct Alias<N, S> {
    service: S,
    name: PhantomData<fn() -> N>,
}

impl<N, S: NamedService> Alias<N, S> {
    /// Wraps a clone of the server; clones share the service.
    pub(super) fn of(service: &S) -> Self
    where
        S: Clone,
    {
        Self { service: service.clone(), name: PhantomData }
    }
}

impl<N, S: Clone> Clone for Alias<N, S> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), name: PhantomData }
    }
}

impl<N: NamedService, S> NamedService for Alias<N, S> {
    const NAME: &'static str = N::NAME;
}

impl<N, S> Service<Request<Body>> for Alias<N, S>
where
    N: NamedService,
    S: NamedService + Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(uri) = renamed(request.uri(), N::NAME, S::NAME) {
            *request.uri_mut() = uri;
        }
        self.service.call(request)
    }
}

/// The URI of the same method of the service `to`. `None` if the URI is not one of the service
/// `from`; the router lets no such call through.
fn renamed(uri: &Uri, from: &str, to: &str) -> Option<Uri> {
    let path = uri.path_and_query()?.as_str();
    let method = path.strip_prefix('/')?.strip_prefix(from)?.strip_prefix('/')?;
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(format!("/{to}/{method}")).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_service_name_is_rewritten() {
        let renamed = |uri: &str| {
            let uri =
                renamed(&uri.parse().unwrap(), "si.v1.Scheduler", "monoceros.si.v1.Scheduler");
            uri.map(|uri| uri.to_string())
        };
        let as_sent_by_http_2 = renamed("http://host:1/si.v1.Scheduler/UpdateNode?a=b");
        let expected = "http://host:1/monoceros.si.v1.Scheduler/UpdateNode?a=b";
        assert_eq!(as_sent_by_http_2.as_deref(), Some(expected));
        let method = renamed("/si.v1.Scheduler/si.v1.Scheduler").unwrap();
        assert_eq!(method, "/monoceros.si.v1.Scheduler/si.v1.Scheduler");
        assert_eq!(renamed("/si.v1.SchedulerToo/UpdateNode"), None);
        assert_eq!(renamed("/si.v1.Scheduler"), None);
    }
}
