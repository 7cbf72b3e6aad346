//! One stream, in both directions.
//!
//! # How a stream ends
//! * The client closes its side: once the scheduler has settled its requests, or after ten seconds,
//!   the replies still queued are delivered and the stream ends OK.
//! * The client disappears: replies that it did not take wait for the next stream of the session.
//! * The server ends it, see [`StreamEnd`](super::end::StreamEnd). Some kinds send a last message
//!   before the status. Requests already received on a stream that was displaced by a newer one are
//!   still processed.
//!
//! # Numbered requests
//! A client may number its requests over all its streams. The requests are then forwarded in the
//! order of their numbers, by the stream that received the next one; see the sequence of the
//! session.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use tonic::{Request, Response, Status, Streaming};

use self::reader::RequestReader;
use super::encoded::Encoded;
use super::end::internal;
use super::incoming::Messages;
use super::kind::StreamKind;
use super::{BEAT_HEADER, GrpcEdge};
use crate::identity::Identity;

mod beat;
mod reader;
mod taken;
mod writer;

/// The reply stream type that the generated trait requires.
pub(super) type ReplyStream<K> =
    Pin<Box<dyn Stream<Item = Result<Encoded<<K as StreamKind>::Reply>, Status>> + Send>>;

/// Opens a stream: binds it if its metadata name a resource manager, and starts its reader.
pub(super) async fn open<K: StreamKind>(
    edge: Arc<GrpcEdge>,
    request: Request<Streaming<K::Request>>,
) -> Result<Response<ReplyStream<K>>, Status> {
    // `IncomingLayer` has taken the messages out of the library's stream, which is now empty.
    let (metadata, extensions, _) = request.into_parts();
    let messages = Messages::taken_from(&extensions);
    let mut requests = messages.ok_or_else(|| internal("a stream came without its messages"))?;
    let mut reader = RequestReader::<K>::new(edge, Identity::of(&extensions));
    // Dropping the writer releases the stream, even if binding fails.
    let writer = reader.writer();
    match reader.bind_by_metadata(&metadata).await {
        Ok(()) => {}
        Err(end) if K::farewell(&end).is_none() => return Err(reader.stream.status(&end)),
        Err(end) => reader.stream.close(end),
    }
    let mut writer = writer;
    if reader.is_bound() {
        requests.bound();
        if metadata.get(BEAT_HEADER).is_some_and(|asked| asked == "yes") {
            writer = writer.beating();
        }
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
