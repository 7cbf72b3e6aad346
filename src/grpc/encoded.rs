//! A reply whose first part is stored encoded.
//!
//! # Why
//! A sent message is kept, encoded, until the client has received it (module `outbox::sent`). The
//! stream sends the same shared bytes, so nothing is encoded twice. The message's own number and
//! the number of the last request taken change from one delivery to the next; they are appended
//! behind the encoded bytes.
//!
//! # Invariant
//! A reader decodes both parts as one message, wherever the fields are divided between them. Only
//! list fields may occur in both parts: their items are concatenated in order.

use bytes::{Buf, BufMut, Bytes};
use monoceros_proto::si::legacy::v0::UpdateResponse;
use monoceros_proto::si::v1 as si;
use prost::encoding::{DecodeContext, WireType};
use prost::{DecodeError, Message};

use super::allocation_responses::QueuedAllocations;
use super::reply::Reply;

/// Reply on an allocation stream.
pub type AllocationReply = Encoded<QueuedAllocations>;
/// Reply on an application stream.
pub type ApplicationReply = Encoded<si::ApplicationResponse>;
/// Reply on a node stream.
pub type NodeReply = Encoded<si::NodeResponse>;
/// Reply on the single stream of the legacy dialect.
pub type LegacyReply = Encoded<UpdateResponse>;

/// A reply whose first part is encoded. On the wire it is an `R`.
#[derive(Clone, Debug, Default)]
pub struct Encoded<R> {
    first: Bytes,
    rest: R,
}

impl<R: Reply> Encoded<R> {
    /// A reply that is encoded except for its numbers.
    pub fn of(first: Bytes) -> Self {
        Self { first, rest: R::default() }
    }

    /// Sets the number of the message, see [`Reply::set_seq`].
    pub fn set_seq(&mut self, seq: u64) {
        self.rest.set_seq(seq);
    }

    /// Sets the number of the last request taken, see [`Reply::set_taken_seq`].
    pub fn set_taken_seq(&mut self, taken: u64) {
        self.rest.set_taken_seq(taken);
    }

    /// Decodes the whole reply.
    #[cfg(test)]
    pub fn decoded(self) -> R {
        R::decode(&*self.encode_to_vec()).expect("encoded here")
    }
}

/// Nothing is encoded in advance.
impl<R: Reply> From<R> for Encoded<R> {
    fn from(reply: R) -> Self {
        Self { first: Bytes::new(), rest: reply }
    }
}

impl<R: Reply> Message for Encoded<R> {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        buf.put_slice(&self.first);
        self.rest.encode_raw(buf);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        self.rest.merge_field(tag, wire_type, buf, ctx)
    }

    fn encoded_len(&self) -> usize {
        self.first.len() + self.rest.encoded_len()
    }

    fn clear(&mut self) {
        self.first.clear();
        self.rest.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_bytes_and_numbers_form_one_message() {
        let accepted = |id: &str| si::AcceptedNode { node_id: id.to_owned(), ..Default::default() };
        let response = si::NodeResponse { accepted: vec![accepted("n1")], ..Default::default() };
        let mut reply = NodeReply::of(response.encode_to_vec().into());
        reply.set_seq(7);
        reply.set_taken_seq(9);
        assert_eq!(reply.encoded_len(), reply.encode_to_vec().len());
        let expected = si::NodeResponse { seq: 7, taken_seq: 9, ..response };
        assert_eq!(reply.clone().decoded(), expected);
        // Decoded again, it has the same content.
        let mut again = NodeReply::decode(&*reply.encode_to_vec()).unwrap();
        assert_eq!(again.clone().decoded(), expected);
        again.clear();
        assert_eq!(again.decoded(), si::NodeResponse::default());
        assert_eq!(NodeReply::from(expected.clone()).decoded(), expected);
    }
}
