//! The part of a member's `AdminService` that the client calls: deregistrations.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use monoceros_proto::v1 as cb;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::members::Member;

/// Answers every call as a deregistration.
#[derive(Clone)]
pub(super) struct Admin(pub(super) Arc<Member>);

impl NamedService for Admin {
    const NAME: &'static str = "monoceros.v1.AdminService";
}

impl Service<http::Request<Body>> for Admin {
    type Response = http::Response<Body>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let admin = self.clone();
        async move { Ok(Grpc::new(ProstCodec::default()).unary(admin, request).await) }.boxed()
    }
}

impl UnaryService<cb::DeregisterResourceManagerRequest> for Admin {
    type Response = cb::DeregisterResourceManagerResponse;
    type Future = BoxFuture<'static, Result<Response<Self::Response>, Status>>;

    fn call(&mut self, request: Request<cb::DeregisterResourceManagerRequest>) -> Self::Future {
        let left = self.0.deregister(&request.into_inner());
        async move { left.map(|()| Response::new(cb::DeregisterResourceManagerResponse::default())) }.boxed()
    }
}
