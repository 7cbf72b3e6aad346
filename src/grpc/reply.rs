//! Responses as lists of items: cutting and joining them.
//!
//! What is too large for one message is cut, and what is small is joined, because the cost of a
//! message hardly depends on its size.
//!
//! # Invariant
//! A client deals with the lists of a message in a fixed order, list by list, and [`Reply`] gives
//! them in that order. Whatever is cut or joined here is dealt with in the order it was before.

use std::{iter, mem};

use monoceros_proto::si::v1 as si;
use prost::Message;

use super::outbox::Bounds;

/// A response message of one of the streams.
pub trait Reply: Message + Default + 'static {
    /// How many items each list holds, in the order in which clients deal with the lists. Kinds
    /// with fewer lists end in zeros.
    fn lengths(&self) -> [usize; MOST_LISTS];

    /// Adds every item to `cutter`, list by list in that order.
    fn cut(self, cutter: &mut Cutter<Self>);

    /// Adds the items of each list of `later` to the same list.
    fn append(&mut self, later: Self);

    /// The application and the key of each allocation that it tells of as new.
    fn new_allocations(&self) -> impl Iterator<Item = (String, String)> {
        iter::empty()
    }

    /// Says its number, for clients that ask for it and messages that can.
    fn set_seq(&mut self, seq: u64) {
        let _ = seq;
    }

    /// Says up to which number requests of the client were taken.
    fn set_taken_seq(&mut self, taken: u64);

    /// How many items it holds, over all its lists.
    fn items(&self) -> usize {
        self.lengths().iter().sum()
    }

    /// Whether a client that reads both in one message deals with the items in the same order as
    /// when it reads one after the other: `later` has nothing in a list before the last one that
    /// is filled here.
    fn may_be_joined_by(&self, later: &Self) -> bool {
        let last = self.lengths().iter().rposition(|&length| length > 0);
        let first = later.lengths().iter().position(|&length| length > 0);
        last <= first
    }
}

/// How many lists a response has at most.
pub const MOST_LISTS: usize = 10;

/// The lengths of a response with fewer lists.
pub(super) fn padded<const N: usize>(lengths: [usize; N]) -> [usize; MOST_LISTS] {
    let mut all = [0; MOST_LISTS];
    all[..N].copy_from_slice(&lengths);
    all
}

/// Builds messages within the chunk bounds out of the items of one that is too large.
pub struct Cutter<R> {
    bounds: Bounds,
    full: Vec<R>,
    open: R,
    open_items: usize,
    open_bytes: usize,
}

/// Field number, wire type and length of an item in its list take at most so many bytes.
const ITEM_OVERHEAD_BYTES: usize = 8;

impl<R: Reply> Cutter<R> {
    /// A cutter that has got nothing yet.
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

    /// The message that an item of so many bytes, all included, is to be added to.
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
