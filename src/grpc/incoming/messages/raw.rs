//! A measured message, and its decoding.
//!
//! Small messages are decoded in place. Large ones take credit for their decoded size and are
//! decoded on a blocking thread.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use tokio::task::spawn_blocking;

use super::super::Common;
use super::super::budget::{Credit, Pool};
use super::super::measure::{Measure, text};
use super::super::shapes::ShapeId;
use super::{Broken, no_credit, unreadable};
use crate::grpc::end::StreamEnd;

/// Messages up to this size are processed in place, which takes about a millisecond.
pub(in crate::grpc::incoming) const AT_ONCE_BYTES: usize = 256 << 10;

/// A message that was measured but not decoded.
pub(in crate::grpc) struct RawMessage {
    pub(super) bytes: Bytes,
    pub(super) measure: Measure,
    pub(super) shape: ShapeId,
    pub(super) credit: Credit,
    pub(super) common: Arc<Common>,
}

/// A decoded message with its credit.
pub(in crate::grpc) struct Decoded<T> {
    /// The message.
    pub(in crate::grpc) message: T,
    /// Held until the scheduler has the message. `None` for small messages.
    pub(in crate::grpc) credit: Option<Charge>,
}

/// The credit of a message; returned on drop.
pub(in crate::grpc) struct Charge {
    _credit: Credit,
}

impl RawMessage {
    /// The resource manager that the message names; empty if none.
    pub(in crate::grpc) fn rm_id(&self) -> &str {
        let shape = self.common.shapes.shape(self.shape);
        shape.rm.and_then(|field| text(shape, &self.bytes, field)).unwrap_or_default()
    }

    /// The length before decoding.
    pub(in crate::grpc) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the message can be decoded in place.
    pub(in crate::grpc) fn is_small(&self) -> bool {
        self.bytes.len() <= AT_ONCE_BYTES && self.measure.decoded_bytes <= AT_ONCE_BYTES
    }

    /// Decodes a [small](Self::is_small) message.
    pub(in crate::grpc) fn decode_at_once<T: Message + Default>(self) -> Result<T, StreamEnd> {
        T::decode(self.bytes).map_err(|error| unreadable(error.to_string()))
    }

    /// Decodes a message of a session.
    pub(in crate::grpc) async fn decode<T>(self) -> Result<Decoded<T>, StreamEnd>
    where
        T: Message + Default + 'static,
    {
        let pool = Arc::clone(&self.common.budget.bound);
        self.decode_on(pool).await
    }

    /// Decodes a message of a caller without session.
    pub(in crate::grpc) async fn decode_unbound<T>(self) -> Result<Decoded<T>, StreamEnd>
    where
        T: Message + Default + 'static,
    {
        let pool = Arc::clone(self.credit.pool());
        self.decode_on(pool).await
    }

    async fn decode_on<T>(self, pool: Arc<Pool>) -> Result<Decoded<T>, StreamEnd>
    where
        T: Message + Default + 'static,
    {
        if self.is_small() {
            return Ok(Decoded { message: self.decode_at_once()?, credit: None });
        }
        let (weight, bytes) = (self.weight(), self.bytes);
        // If the bytes have credit of another pool, it is returned when the bytes are dropped.
        let (mut credit, received) = if Arc::ptr_eq(self.credit.pool(), &pool) {
            (self.credit, None)
        } else {
            (Credit::none(&pool), Some(self.credit))
        };
        credit.cover(weight).await.map_err(no_credit)?;
        let decoded = move || {
            let decoded = T::decode(bytes);
            drop(received);
            decoded
        };
        let decoded = run_large(&pool, AT_ONCE_BYTES + 1, decoded).await;
        let Ok(decoded) = decoded else {
            return Err(StreamEnd::Internal("a message could not be decoded, through a bug"));
        };
        let message = decoded.map_err(|error| unreadable(error.to_string()))?;
        Ok(Decoded { message, credit: Some(Charge { _credit: credit }) })
    }

    /// The bytes of a message of a caller without session, to be decoded elsewhere, and their
    /// credit.
    pub(in crate::grpc::incoming) async fn into_bytes(
        mut self,
    ) -> Result<(Bytes, Charge), StreamEnd> {
        let weight = self.weight();
        self.credit.cover(weight).await.map_err(no_credit)?;
        Ok((self.bytes, Charge { _credit: self.credit }))
    }

    /// The bytes, and the credit that they have.
    pub(super) fn into_bytes_as_received(self) -> (Bytes, Charge) {
        (self.bytes, Charge { _credit: self.credit })
    }

    /// The bytes, uncompressed.
    pub(in crate::grpc::incoming) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    fn weight(&self) -> usize {
        self.measure.decoded_bytes.max(self.bytes.len())
    }
}

/// Processes a message: in place, or on a blocking thread if it is large. The pool bounds the
/// number of such threads, which leaves processor time to others.
pub(super) async fn run_large<T: Send + 'static>(
    pool: &Pool,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Broken> {
    if bytes <= AT_ONCE_BYTES {
        return Ok(work());
    }
    // The semaphore is never closed.
    let worker = Arc::clone(&pool.workers).acquire_owned().await.map_err(|_| Broken::Gone)?;
    let work = move || {
        let _worker = worker;
        work()
    };
    spawn_blocking(work).await.map_err(|_| {
        Broken::Refused(StreamEnd::Internal("a message could not be dealt with, through a bug"))
    })
}
