//! A wrapper that ends the streams of a service at shutdown.
//!
//! # Why
//! A connection closes in order once its last stream has ended, and a watching stream (health,
//! reflection, metrics) never ends by itself: one such client would keep the service up until the
//! connection is cut off. Health and reflection come from a library, so this wrapper ends their
//! streams.
//!
//! # Invariants
//! * Frames that are ready when the shutdown begins are sent before the end.
//! * After the end is sent, the requests of the stream end too: a service that waits for the next
//!   request would keep the stream open.
//! * Before the shutdown, frames pass unchanged.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::Frame;
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::codegen::{Body as HttpBody, Bytes};

use super::end::StreamEnd;
use super::wrapped::Wrapping;

/// Wraps a service whose streams end when the token is cancelled.
#[derive(Clone)]
pub(super) struct Ending(pub(super) CancellationToken);

impl Wrapping for Ending {
    fn wrap(
        &self,
        request: Request<Body>,
    ) -> (Request<Body>, impl FnOnce(Response<Body>) -> Response<Body> + Send + 'static) {
        let ended = Box::pin(self.0.clone().cancelled_owned());
        let not_ended = CancellationToken::new();
        let end_sent = Box::pin(not_ended.clone().cancelled_owned());
        let request = request.map(|body| Body::new(EndingRequests { body, ended: end_sent }));
        let ending = move |response: Response<Body>| {
            let not_ended = Some(not_ended.drop_guard());
            response.map(|body| Body::new(EndingReplies { body, ended, not_ended }))
        };
        (request, ending)
    }
}

type Ended = Pin<Box<WaitForCancellationFutureOwned>>;

/// The request body; it ends once the end of the reply was sent.
struct EndingRequests {
    body: Body,
    ended: Ended,
}

/// The reply body; at shutdown it ends with the status of a shutdown.
struct EndingReplies {
    body: Body,
    ended: Ended,
    /// Dropped when the end was sent.
    not_ended: Option<DropGuard>,
}

impl HttpBody for EndingRequests {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        self.ended.as_mut().poll(cx).map(|()| None)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

impl HttpBody for EndingReplies {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.not_ended.is_none() {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        ready!(self.ended.as_mut().poll(cx));
        self.not_ended = None;
        let mut trailers = HeaderMap::new();
        Status::from(&StreamEnd::ShuttingDown).add_header(&mut trailers)?;
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.not_ended.is_none() || self.body.is_end_stream()
    }
}
