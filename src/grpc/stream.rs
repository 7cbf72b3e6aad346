//! One stream, in both directions.
//!
//! # How it ends
//! * The client closes its side: once the scheduler has settled what it was asked, or after
//!   ten seconds, what waits is still delivered, and the stream ends OK.
//! * The client goes away: what was not taken waits for the next stream of the session.
//! * The server ends it: see [`StreamEnd`](super::end::StreamEnd). A kind of stream may have something to say before that. What
//!   has come by a stream that a newer one displaced is still dealt with.
//!
//! # Requests with numbers
//! A client may number its requests over all its streams. They are then handed on in that order, by
//! whichever stream has brought the one that is due; see the sequence of the session.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use tonic::{Request, Response, Status, Streaming};

use self::reader::RequestReader;
use super::GrpcEdge;
use super::encoded::Encoded;
use super::end::internal;
use super::incoming::Messages;
use super::kind::StreamKind;
use crate::identity::Identity;

mod reader;
mod taken;
mod writer;

/// The replies of a stream as the generated trait wants them.
pub(super) type ReplyStream<K> =
    Pin<Box<dyn Stream<Item = Result<Encoded<<K as StreamKind>::Reply>, Status>> + Send>>;

/// Opens a stream: binds it if its metadata say to whom, and starts to read it.
pub(super) async fn open<K: StreamKind>(
    edge: Arc<GrpcEdge>,
    request: Request<Streaming<K::Request>>,
) -> Result<Response<ReplyStream<K>>, Status> {
    // The stream of the library is empty: what the client sends was taken out before it.
    let (metadata, extensions, _) = request.into_parts();
    let messages = Messages::taken_from(&extensions);
    let mut requests = messages.ok_or_else(|| internal("a stream came without its messages"))?;
    let mut reader = RequestReader::<K>::new(edge, Identity::of(&extensions));
    // Dropping the writer releases the stream, also when binding it fails.
    let writer = reader.writer();
    match reader.bind_by_metadata(&metadata).await {
        Ok(()) => {}
        Err(end) if K::farewell(&end).is_none() => return Err(reader.stream.status(&end)),
        Err(end) => reader.stream.close(end),
    }
    if reader.is_bound() {
        requests.bound();
    }
    let headers = writer.headers();
    let writer = writer.begun();
    tokio::spawn(reader.run(requests));
    let mut response = Response::new(writer.into_stream());
    *response.metadata_mut() = headers;
    Ok(response)
}

#[cfg(test)]
mod tests;
