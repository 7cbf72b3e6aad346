//! Unacknowledged requests: numbered, batched, and kept until the scheduler acknowledges them.
//!
//! # Why they are kept
//! A broken stream loses the requests in flight. So a request stays here until its number is
//! acknowledged, and is sent again under the same number on the next streams.
//!
//! # Invariants
//! * Numbers rise by one, in the order in which requests were made.
//! * A request that was sent once is never changed; small requests are joined before that.

use std::collections::VecDeque;

use crate::request::{AnyRequest, Kind};

/// Default maximum of items joined in one message.
pub(crate) const BATCH_ITEMS: usize = 1_000;

/// Most bytes that are joined in one message. A larger item is a message of its own.
const BATCH_BYTES: usize = 1 << 20;

/// Most items sent and not acknowledged: fewer than the scheduler holds while an earlier request is
/// missing (one item per 4 KiB of `session.ingress_bytes`).
const AHEAD_ITEMS: usize = 16_384;

/// Most bytes sent and not acknowledged: fewer than `session.ingress_bytes`.
const AHEAD_BYTES: usize = 64 << 20;

/// The queue of unacknowledged requests.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Most items joined in one message.
    batch_items: usize,
    kept: VecDeque<Kept>,
    /// Number of requests sent on the present streams.
    sent: usize,
    /// Number of items in these requests.
    sent_items: usize,
    /// Number of bytes in these requests.
    sent_bytes: usize,
    /// The highest number sent on any stream; requests up to it are never changed.
    sealed: u64,
    /// The number of the last request.
    last: u64,
    items: usize,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    items: usize,
    bytes: usize,
    request: AnyRequest,
}

impl Outgoing {
    /// Creates an empty queue.
    pub(crate) fn new(batch_items: usize) -> Self {
        Self {
            batch_items,
            kept: VecDeque::new(),
            sent: 0,
            sent_items: 0,
            sent_bytes: 0,
            sealed: 0,
            last: 0,
            items: 0,
        }
    }

    /// Queues a request. One without items is dropped, and one with too many bytes is split.
    pub(crate) fn push(&mut self, request: AnyRequest) {
        if request.bytes() <= BATCH_BYTES {
            return self.put(request);
        }
        for part in request.into_single() {
            self.put(part);
        }
    }

    fn put(&mut self, request: AnyRequest) {
        let (items, bytes) = (request.items(), request.bytes());
        if items == 0 {
            return;
        }
        self.items += items;
        let mut request = request;
        if let Some(last) = self.kept.back_mut()
            && last.number > self.sealed
            && last.items + items <= self.batch_items
            && last.bytes + bytes <= BATCH_BYTES
        {
            let Some(back) = last.request.join(request) else {
                last.items += items;
                last.bytes += bytes;
                return;
            };
            request = back;
        }
        self.last += 1;
        request.set_number(self.last);
        self.kept.push_back(Kept { number: self.last, items, bytes, request });
    }

    /// The kind of the next request to send. `None` if there is none or too much is in flight.
    pub(crate) fn next_kind(&self) -> Option<Kind> {
        let next = self.kept.get(self.sent)?;
        let fits = self.sent_items + next.items <= AHEAD_ITEMS
            && self.sent_bytes + next.bytes <= AHEAD_BYTES;
        (self.sent == 0 || fits).then(|| next.request.kind())
    }

    /// Whether the next request has hardly room for further items.
    pub(crate) fn is_full(&self) -> bool {
        let waiting = self.kept.len() - self.sent;
        let is_large = |last: &Kept| last.items >= self.batch_items || last.bytes >= BATCH_BYTES;
        waiting > 1 || self.kept.back().is_some_and(is_large)
    }

    /// Takes the next request to be sent now.
    pub(crate) fn send(&mut self) -> Option<AnyRequest> {
        let next = self.kept.get(self.sent)?;
        let request = next.request.clone();
        self.sent += 1;
        self.sent_items += next.items;
        self.sent_bytes += next.bytes;
        self.sealed = self.sealed.max(next.number);
        Some(request)
    }

    /// Removes the requests up to `number`, which the scheduler has acknowledged.
    pub(crate) fn acknowledge(&mut self, number: u64) {
        while self.kept.front().is_some_and(|kept| kept.number <= number) {
            let Some(kept) = self.kept.pop_front() else { break };
            self.items -= kept.items;
            if self.sent > 0 {
                self.sent -= 1;
                self.sent_items -= kept.items;
                self.sent_bytes -= kept.bytes;
            }
        }
    }

    /// Prepares for new streams: requests up to `number` are acknowledged, and all later ones are
    /// to be sent again.
    pub(crate) fn resume(&mut self, number: u64) {
        self.acknowledge(number);
        (self.sent, self.sent_items, self.sent_bytes) = (0, 0, 0);
        self.last = self.last.max(number);
    }

    /// Takes over the session of another instance, whose last acknowledged request is `number`.
    /// Requests that were never sent are numbered from there. Sent ones belonged to a lost session
    /// and are dropped.
    pub(crate) fn continue_from(&mut self, number: u64) {
        let sealed = self.sealed;
        let never_sent = std::mem::take(&mut self.kept).into_iter().filter(|it| it.number > sealed);
        let requests: Vec<AnyRequest> = never_sent.map(|kept| kept.request).collect();
        self.restart();
        (self.last, self.sealed) = (number, number);
        for request in requests {
            self.push(request);
        }
    }

    /// Starts a new session: requests of the one before are dropped.
    pub(crate) fn restart(&mut self) {
        *self = Self::new(self.batch_items);
    }

    /// The number of the last acknowledged request.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.kept.front().map_or(self.last, |kept| kept.number - 1)
    }

    /// The number of unacknowledged items.
    pub(crate) fn items(&self) -> usize {
        self.items
    }
}

#[cfg(test)]
mod tests {
    use monoceros_proto::si::v1 as si;
    use proptest::prelude::*;

    use super::*;

    fn asks(n: usize) -> AnyRequest {
        let allocations = vec![si::Allocation::default(); n];
        si::AllocationRequest { allocations, ..Default::default() }.into()
    }

    fn nodes(n: usize) -> AnyRequest {
        let nodes = vec![si::NodeInfo::default(); n];
        si::NodeRequest { nodes, ..Default::default() }.into()
    }

    fn number(request: &AnyRequest) -> u64 {
        match request {
            AnyRequest::Nodes(request) => request.client_seq,
            AnyRequest::Applications(request) => request.client_seq,
            AnyRequest::Allocations(request) => request.client_seq,
        }
    }

    #[test]
    fn adjacent_requests_of_a_kind_are_joined() {
        let mut outgoing = Outgoing::new(BATCH_ITEMS);
        outgoing.push(asks(1));
        outgoing.push(asks(1));
        assert!(!outgoing.is_full());
        outgoing.push(nodes(1));
        assert!(outgoing.is_full(), "the first will not grow any more");
        assert_eq!(outgoing.send().map(|request| request.items()), Some(2));
        outgoing.push(nodes(BATCH_ITEMS));
        let sent: Vec<_> = std::iter::from_fn(|| outgoing.send()).collect();
        assert_eq!(sent.iter().map(number).collect::<Vec<_>>(), [2, 3]);
        outgoing.push(nodes(1));
        assert_eq!(outgoing.send().map(|request| number(&request)), Some(4), "never changed");
    }

    #[test]
    fn unacknowledged_requests_are_resent_under_their_number() {
        let mut outgoing = Outgoing::new(BATCH_ITEMS);
        for _ in 0..3 {
            outgoing.push(nodes(1));
            outgoing.send().unwrap();
        }
        outgoing.acknowledge(1);
        outgoing.push(asks(1));
        assert_eq!((outgoing.acknowledged(), outgoing.items()), (1, 3));
        outgoing.resume(2);
        assert_eq!(outgoing.acknowledged(), 2);
        let again: Vec<_> = std::iter::from_fn(|| outgoing.send()).collect();
        assert_eq!(again.iter().map(number).collect::<Vec<_>>(), [3, 4]);
        outgoing.acknowledge(4);
        assert_eq!((outgoing.acknowledged(), outgoing.items()), (4, 0));
    }

    #[test]
    fn numbers_continue_those_of_another_instance() {
        let mut outgoing = Outgoing::new(BATCH_ITEMS);
        outgoing.push(nodes(1));
        outgoing.send().unwrap();
        outgoing.push(asks(1));
        outgoing.continue_from(41);
        outgoing.push(nodes(1));
        let sent: Vec<_> = std::iter::from_fn(|| outgoing.send()).collect();
        assert_eq!(sent.iter().map(number).collect::<Vec<_>>(), [42, 43]);
        assert_eq!(sent[0].kind(), Kind::Allocations, "what was never sent");
    }

    #[test]
    fn a_sent_request_never_grows() {
        let mut outgoing = Outgoing::new(BATCH_ITEMS);
        outgoing.push(asks(1));
        outgoing.send().unwrap();
        outgoing.resume(0);
        outgoing.push(asks(1));
        let sent: Vec<_> = std::iter::from_fn(|| outgoing.send()).collect();
        assert_eq!(sent.iter().map(AnyRequest::items).collect::<Vec<_>>(), [1, 1]);
    }

    fn large_ask(key: &str, bytes: usize) -> si::Allocation {
        let tags = [("t".to_owned(), "x".repeat(bytes))].into();
        si::Allocation {
            allocation_tags: tags,
            allocation_key: key.to_owned(),
            ..Default::default()
        }
    }

    #[test]
    fn large_requests_are_split_by_bytes() {
        let mut outgoing = Outgoing::new(BATCH_ITEMS);
        let keys = ["a", "b", "c", "d", "e"];
        let allocations: Vec<_> = keys.iter().map(|key| large_ask(key, BATCH_BYTES / 3)).collect();
        let releases = Some(si::AllocationReleasesRequest {
            allocations_to_release: vec![si::AllocationRelease::default()],
            ..Default::default()
        });
        outgoing.push(si::AllocationRequest { allocations, releases, ..Default::default() }.into());
        outgoing.push(
            si::AllocationRequest {
                allocations: vec![large_ask("f", 2 * BATCH_BYTES)],
                ..Default::default()
            }
            .into(),
        );
        outgoing.push(asks(1));
        let (mut order, mut sizes) = (Vec::new(), Vec::new());
        while let Some(request) = outgoing.send() {
            sizes.push(request.bytes());
            let AnyRequest::Allocations(request) = request else { panic!("of one kind") };
            order.extend(request.allocations.into_iter().map(|ask| ask.allocation_key));
            order.extend(request.releases.map(|_| "release".to_owned()));
        }
        assert_eq!(order, ["a", "b", "c", "d", "e", "release", "f", ""]);
        let is_small = |size: &&usize| **size <= BATCH_BYTES;
        assert_eq!((sizes.len(), sizes.iter().filter(is_small).count()), (5, 4), "{sizes:?}");
    }

    #[test]
    fn bytes_in_flight_are_bounded() {
        let mut outgoing = Outgoing::new(BATCH_ITEMS);
        for _ in 0..100 {
            let allocations = vec![large_ask("k", BATCH_BYTES)];
            outgoing.push(si::AllocationRequest { allocations, ..Default::default() }.into());
        }
        while outgoing.next_kind().is_some() {
            outgoing.send().unwrap();
        }
        assert_eq!(outgoing.sent, 63);
        outgoing.acknowledge(1);
        assert_eq!(outgoing.next_kind(), Some(Kind::Allocations));
        outgoing.resume(1);
        assert_eq!(outgoing.sent_bytes, 0);
    }

    #[test]
    fn items_in_flight_are_bounded() {
        let mut outgoing = Outgoing::new(BATCH_ITEMS);
        for _ in 0..20 {
            outgoing.push(asks(BATCH_ITEMS));
        }
        while outgoing.next_kind().is_some() {
            outgoing.send().unwrap();
        }
        assert_eq!(outgoing.sent, 16);
        outgoing.acknowledge(1);
        assert_eq!(outgoing.next_kind(), Some(Kind::Allocations));
    }

    proptest! {
        #[test]
        fn breaks_neither_lose_nor_repeat_requests(steps in prop::collection::vec(0..4u8, 0..60)) {
            let mut outgoing = Outgoing::new(BATCH_ITEMS);
            let (mut made, mut got, mut taken) = (0, 0, 0);
            let mut on_the_way = VecDeque::new();
            // Requests that arrived out of order. The first copy of a number counts; later ones are
            // ignored.
            let mut held = std::collections::BTreeMap::new();
            for step in steps.into_iter().chain([3, 1, 1, 1, 2]) {
                match step {
                    0 => { outgoing.push(asks(1)); made += 1; }
                    1 => on_the_way.extend(std::iter::from_fn(|| outgoing.send())),
                    2 => {
                        for request in on_the_way.drain(..) {
                            held.entry(number(&request)).or_insert(request.items());
                        }
                        held.retain(|&number, _| number > taken);
                        while let Some(items) = held.remove(&(taken + 1)) {
                            taken += 1;
                            got += items;
                        }
                    }
                    // The streams break after every second request in flight has arrived.
                    _ => {
                        for request in on_the_way.drain(..).skip(1).step_by(2) {
                            held.entry(number(&request)).or_insert(request.items());
                        }
                        outgoing.resume(taken);
                    }
                }
            }
            prop_assert_eq!(made, got);
            outgoing.acknowledge(taken);
            prop_assert_eq!(outgoing.items(), 0);
        }
    }
}
