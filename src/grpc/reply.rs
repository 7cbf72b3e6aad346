//! Responses as lists of items: cutting and joining them.
//!
//! Large responses are cut and small ones joined, because the cost of a message hardly depends on
//! its size.
//!
//! # Invariant
//! A client processes the lists of a message in a fixed order, list by list, and [`Reply`] names
//! them in that order. Cutting and joining preserve the order in which items are processed.

use std::{iter, mem};

use monoceros_proto::si::v1 as si;
use prost::Message;

use super::outbox::Bounds;

/// A response message of one of the streams.
pub trait Reply: Message + Default + 'static {
    /// The number of items in each list, in the order in which clients process the lists. Unused
    /// entries at the end are 0.
    fn lengths(&self) -> [usize; MOST_LISTS];

    /// Adds every item to `cutter`, in the order of [`lengths`](Self::lengths).
    fn cut(self, cutter: &mut Cutter<Self>);

    /// Appends the items of `later`, list by list.
    fn append(&mut self, later: Self);

    /// The application id and allocation key of each new allocation.
    fn new_allocations(&self) -> impl Iterator<Item = (String, String)> {
        iter::empty()
    }

    /// Sets the number of the message, if the message has such a field.
    fn set_seq(&mut self, seq: u64) {
        let _ = seq;
    }

    /// Sets the number of the last request that was taken.
    fn set_taken_seq(&mut self, taken: u64);

    /// The number of items over all lists.
    fn items(&self) -> usize {
        self.lengths().iter().sum()
    }

    /// Whether a client processes the items of the joined message in the same order as those of the
    /// two messages. True if `later` fills no list before the last one filled here.
    fn may_be_joined_by(&self, later: &Self) -> bool {
        let last = self.lengths().iter().rposition(|&length| length > 0);
        let first = later.lengths().iter().position(|&length| length > 0);
        last <= first
    }
}

/// The maximum number of lists in a response.
pub const MOST_LISTS: usize = 10;

/// Pads the lengths of a response with fewer lists.
pub(super) fn padded<const N: usize>(lengths: [usize; N]) -> [usize; MOST_LISTS] {
    let mut all = [0; MOST_LISTS];
    all[..N].copy_from_slice(&lengths);
    all
}

/// Splits a response that is too large into messages within the chunk bounds.
pub struct Cutter<R> {
    bounds: Bounds,
    full: Vec<R>,
    open: R,
    open_items: usize,
    open_bytes: usize,
}

/// Maximum size of field number, wire type and length of an item in its list.
const ITEM_OVERHEAD_BYTES: usize = 8;

impl<R: Reply> Cutter<R> {
    /// Creates a cutter without items.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, full: Vec::new(), open: R::default(), open_items: 0, open_bytes: 0 }
    }

    /// Adds all items of one list, in their order.
    pub fn list<I: Message>(&mut self, items: Vec<I>, list: fn(&mut R) -> &mut Vec<I>) {
        for item in items {
            let open = self.item(item.encoded_len() + ITEM_OVERHEAD_BYTES);
            list(open).push(item);
        }
    }

    /// Returns the message to which an item of `bytes`, overhead included, is to be added.
    pub fn item(&mut self, bytes: usize) -> &mut R {
        let full = self.open_items == self.bounds.chunk_items
            || self.open_bytes.saturating_add(bytes) > self.bounds.chunk_bytes;
        if full && self.open_items > 0 {
            self.full.push(mem::take(&mut self.open));
            (self.open_items, self.open_bytes) = (0, 0);
        }
        self.open_items += 1;
        self.open_bytes += bytes;
        &mut self.open
    }

    /// The messages, in the order of the items.
    pub fn finish(mut self) -> Vec<R> {
        if self.open_items > 0 {
            self.full.push(self.open);
        }
        self.full
    }
}

impl Reply for si::ApplicationResponse {
    fn set_seq(&mut self, seq: u64) {
        self.seq = seq;
    }

    fn set_taken_seq(&mut self, taken: u64) {
        self.taken_seq = taken;
    }

    fn lengths(&self) -> [usize; MOST_LISTS] {
        padded([self.accepted.len(), self.rejected.len(), self.updated.len()])
    }

    fn append(&mut self, later: Self) {
        self.accepted.extend(later.accepted);
        self.rejected.extend(later.rejected);
        self.updated.extend(later.updated);
    }

    fn cut(self, cutter: &mut Cutter<Self>) {
        cutter.list(self.accepted, |reply| &mut reply.accepted);
        cutter.list(self.rejected, |reply| &mut reply.rejected);
        cutter.list(self.updated, |reply| &mut reply.updated);
    }
}

impl Reply for si::NodeResponse {
    fn set_seq(&mut self, seq: u64) {
        self.seq = seq;
    }

    fn set_taken_seq(&mut self, taken: u64) {
        self.taken_seq = taken;
    }

    fn lengths(&self) -> [usize; MOST_LISTS] {
        padded([self.accepted.len(), self.rejected.len()])
    }

    fn append(&mut self, later: Self) {
        self.accepted.extend(later.accepted);
        self.rejected.extend(later.rejected);
    }

    fn cut(self, cutter: &mut Cutter<Self>) {
        cutter.list(self.accepted, |reply| &mut reply.accepted);
        cutter.list(self.rejected, |reply| &mut reply.rejected);
    }
}
