//! Allocation responses queued for a stream. New allocations are stored encoded.
//!
//! # Why
//! A decoded message owns a copy of each name for each allocation: ten heap allocations made by one
//! thread and freed by another. Here the names go from the scheduler's memory directly into the
//! encoded bytes, through one scratch message that is reused for all allocations.
//!
//! # Invariant
//! The items and their order are those of [`AllocationNotices::into_message`].

use std::ops::Range;

use bytes::{Buf, BufMut};
use monoceros_actors::AllocationNotices;
use monoceros_proto::si::v1 as si;
use prost::encoding::{DecodeContext, WireType};
use prost::{DecodeError, Message};

use super::reply::{Cutter, MOST_LISTS, Reply, padded};

/// Most bytes that are reserved at once for items to come. A long first item, such as one with
/// large tags, says little about the others.
const RESERVED_BYTES: usize = 64 << 10;

/// A queued allocation response.
#[derive(Clone, Debug, Default)]
pub struct QueuedAllocations {
    new: EncodedItems,
    /// All lists except the new allocations.
    others: si::AllocationResponse,
}

/// Encoded items of a repeated field, each preceded by its field tag and length.
#[derive(Clone, Debug, Default)]
struct EncodedItems {
    bytes: Vec<u8>,
    /// End offsets of the items in `bytes`.
    ends: Vec<usize>,
}

impl EncodedItems {
    /// Byte ranges of the items.
    fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| start..end)
    }

    /// Appends encoded items whose end offsets within `bytes` are `ends`.
    fn add(&mut self, bytes: &[u8], ends: impl IntoIterator<Item = usize>) {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.ends.extend(ends.into_iter().map(|end| before + end));
    }

    /// Reserves memory for `n` more items of the length of those that are there, at most
    /// [`RESERVED_BYTES`].
    fn reserve(&mut self, n: usize) {
        let length = self.bytes.len() / self.ends.len().max(1);
        self.bytes.reserve_exact(n.saturating_mul(length).min(RESERVED_BYTES));
        self.ends.reserve(n);
    }

    /// Appends the one new allocation of `message`.
    fn add_new(&mut self, message: &si::AllocationResponse) {
        message.encode_raw(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }
}

impl QueuedAllocations {
    /// Encodes the new allocations of a notification.
    pub fn of(notification: AllocationNotices<'_>) -> Self {
        let mut queued = Self::default();
        let mut one = one(si::Allocation::default());
        let mut before = None;
        let new = notification.new_allocations();
        let n_new = new.len();
        for allocation in new {
            let Some(before) = before.replace(allocation) else {
                allocation.write_to(&mut one.new[0]);
                queued.new.add_new(&one);
                // Most others are about as long.
                queued.new.reserve(n_new - 1);
                continue;
            };
            allocation.write_over(before, &mut one.new[0]);
            queued.new.add_new(&one);
        }
        queued.others = notification.into_others();
        queued
    }

    /// Decodes the whole response.
    #[cfg(test)]
    pub fn into_message(self) -> si::AllocationResponse {
        let new = si::AllocationResponse::decode(&*self.new.bytes).expect("encoded here").new;
        si::AllocationResponse { new, ..self.others }
    }
}

/// A message with one new allocation and nothing else; it encodes as one item of the field.
fn one(allocation: si::Allocation) -> si::AllocationResponse {
    si::AllocationResponse { new: vec![allocation], ..Default::default() }
}

impl From<si::AllocationResponse> for QueuedAllocations {
    fn from(mut others: si::AllocationResponse) -> Self {
        let mut new = EncodedItems::default();
        for allocation in std::mem::take(&mut others.new) {
            new.add_new(&one(allocation));
        }
        Self { new, others }
    }
}

impl Message for QueuedAllocations {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        buf.put_slice(&self.new.bytes);
        self.others.encode_raw(buf);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        self.others.merge_field(tag, wire_type, buf, ctx)?;
        for allocation in std::mem::take(&mut self.others.new) {
            self.new.add_new(&one(allocation));
        }
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        self.new.bytes.len() + self.others.encoded_len()
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Reply for QueuedAllocations {
    /// Decodes the new allocations; used by tracing only.
    fn new_allocations(&self) -> impl Iterator<Item = (String, String)> {
        self.new.ranges().flat_map(|range| {
            let one = si::AllocationResponse::decode(&self.new.bytes[range]);
            let new = one.expect("encoded here").new.into_iter();
            new.map(|new| (new.application_id, new.allocation_key))
        })
    }

    fn set_seq(&mut self, seq: u64) {
        self.others.seq = seq;
    }

    fn set_taken_seq(&mut self, taken: u64) {
        self.others.taken_seq = taken;
    }

    fn lengths(&self) -> [usize; MOST_LISTS] {
        padded([
            self.new.ends.len(),
            self.others.rejected.len(),
            self.others.rejected_allocations.len(),
            self.others.released.len(),
            self.others.released_asks.len(),
        ])
    }

    fn append(&mut self, later: Self) {
        self.new.add(&later.new.bytes, later.new.ends);
        self.others.rejected.extend(later.others.rejected);
        self.others.rejected_allocations.extend(later.others.rejected_allocations);
        self.others.released.extend(later.others.released);
        self.others.released_asks.extend(later.others.released_asks);
    }

    fn cut(self, cutter: &mut Cutter<Self>) {
        for range in self.new.ranges() {
            let item = &self.new.bytes[range];
            cutter.item(item.len()).new.add(item, [item.len()]);
        }
        let others = self.others;
        cutter.list(others.rejected, |queued| &mut queued.others.rejected);
        cutter.list(others.rejected_allocations, |queued| &mut queued.others.rejected_allocations);
        cutter.list(others.released, |queued| &mut queued.others.released);
        cutter.list(others.released_asks, |queued| &mut queued.others.released_asks);
    }
}

#[cfg(test)]
pub(in crate::grpc) mod tests;
