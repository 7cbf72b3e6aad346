//! A reply of which a part is bytes already.
//!
//! # Why
//! What leaves is kept until the client has got it, and it is kept as bytes (module `outbox::sent`).
//! The stream sends those same bytes: they are shared, and nothing is encoded twice. What differs
//! from one time to the next, the numbers, is written behind them.
//!
//! # Invariant
//! A message may come in parts: a reader merges them, whatever is in which. No field is in both
//! parts but lists, whose items stand in the order in which they were said.

use bytes::{Buf, BufMut, Bytes};
use monoceros_proto::si::legacy::v0::UpdateResponse;
use monoceros_proto::si::v1 as si;
use prost::encoding::{DecodeContext, WireType};
use prost::{DecodeError, Message};

use super::reply::Reply;
use super::said::AllocationsSaid;

/// What an allocation stream sends.
pub type AllocationReply = Encoded<AllocationsSaid>;
/// What an application stream sends.
pub type ApplicationReply = Encoded<si::ApplicationResponse>;
/// What a node stream sends.
pub type NodeReply = Encoded<si::NodeResponse>;
/// What the one stream of the oldest dialect sends.
pub type LegacyReply = Encoded<UpdateResponse>;

/// A reply, the first part of it encoded. On the wire it is an `R`.
#[derive(Clone, Debug, Default)]
pub struct Encoded<R> {
    first: Bytes,
    rest: R,
}

impl<R: Reply> Encoded<R> {
    /// A reply of which nothing but its numbers is left to say.
    pub fn of(first: Bytes) -> Self {
        Self { first, rest: R::default() }
    }

    /// Says its number, as [`Reply::set_seq`].
    pub fn set_seq(&mut self, seq: u64) {
        self.rest.set_seq(seq);
    }

    /// Says up to which number requests of the client were taken, as [`Reply::set_taken_seq`].
    pub fn set_taken_seq(&mut self, taken: u64) {
        self.rest.set_taken_seq(taken);
    }

    /// The whole of it, as a client reads it.
    #[cfg(test)]
    pub fn decoded(self) -> R {
        R::decode(&*self.encode_to_vec()).expect("encoded here")
    }
}

/// Nothing of it is encoded yet.
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
    fn bytes_and_numbers_are_one_message() {
        let accepted = |id: &str| si::AcceptedNode { node_id: id.to_owned() };
        let said = si::NodeResponse { accepted: vec![accepted("n1")], ..Default::default() };
        let mut reply = NodeReply::of(said.encode_to_vec().into());
        reply.set_seq(7);
        reply.set_taken_seq(9);
        assert_eq!(reply.encoded_len(), reply.encode_to_vec().len());
        let expected = si::NodeResponse { seq: 7, taken_seq: 9, ..said };
        assert_eq!(reply.clone().decoded(), expected);
        // Read as what it is sent as, it says the same.
        let mut again = NodeReply::decode(&*reply.encode_to_vec()).unwrap();
        assert_eq!(again.clone().decoded(), expected);
        again.clear();
        assert_eq!(again.decoded(), si::NodeResponse::default());
        assert_eq!(NodeReply::from(expected.clone()).decoded(), expected);
    }
}
