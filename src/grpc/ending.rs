//! Streams of services that know nothing of our shutdown end with it all the same.
//!
//! # Why
//! A connection closes in order once its last stream has ended, and a stream that watches something
//! (health, reflection, metrics) never ends by itself: one such client would keep the service up
//! until it is cut. The services of health and reflection are not ours, so the end is put around
//! them.
//!
//! # Invariants
//! * What the service had to say when the end came is said before it.
//! * Once the end is said, the requests of the stream end too: a service that waits for the next
//!   one would keep the stream.
//! * A service that is not ending is not touched: its frames pass as they are.

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

/// Around a service whose streams end when a token is cancelled.
#[derive(Clone)]
pub(super) struct Ending(pub(super) CancellationToken);

impl Wrapping for Ending {
    fn wrap(
        &self,
        request: Request<Body>,
    ) -> (Request<Body>, impl FnOnce(Response<Body>) -> Response<Body> + Send + 'static) {
        let ended = Box::pin(self.0.clone().cancelled_owned());
        let said = CancellationToken::new();
        let heard = Box::pin(said.clone().cancelled_owned());
        let request = request.map(|body| Body::new(EndingRequests { body, ended: heard }));
        let ending = move |response: Response<Body>| {
            let said = Some(said.drop_guard());
            response.map(|body| Body::new(EndingReplies { body, ended, said }))
        };
        (request, ending)
    }
}

type Ended = Pin<Box<WaitForCancellationFutureOwned>>;

/// What a client sends, until it was told of the end.
struct EndingRequests {
    body: Body,
    ended: Ended,
}

/// What a client is sent, with the status of a shutdown at the end.
struct EndingReplies {
    body: Body,
    ended: Ended,
    /// Dropped when the end was said.
    said: Option<DropGuard>,
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
        if self.said.is_none() {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        ready!(self.ended.as_mut().poll(cx));
        self.said = None;
        let mut trailers = HeaderMap::new();
        Status::from(&StreamEnd::ShuttingDown).add_header(&mut trailers)?;
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.said.is_none() || self.body.is_end_stream()
    }
}
