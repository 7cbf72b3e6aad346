//! What was not taken yet: numbered, batched, and kept until the scheduler says that it has it.
//!
//! # Why kept
//! A stream that breaks takes with it what was on its way. So a request stays here until its number
//! was taken, and goes out again, under the same number, when streams have been opened anew.
//!
//! # Invariants
//! * Numbers rise by one, in the order in which requests were made.
//! * A request that was sent once is never changed; small ones are joined before that.

use std::collections::VecDeque;

use crate::request::{AnyRequest, Kind};

/// Most items that are joined in one message, unless set otherwise.
pub(crate) const BATCH_ITEMS: usize = 1_000;

/// Most bytes that are joined in one message. An item that is larger goes by itself.
const BATCH_BYTES: usize = 1 << 20;

/// Most items that are sent and not known to be taken: less than the scheduler holds while an earlier
/// request is missing (one item per 4 KiB of `session.ingress_bytes`).
const AHEAD_ITEMS: usize = 16_384;

/// Most bytes of the same, likewise (`session.ingress_bytes`).
const AHEAD_BYTES: usize = 64 << 20;

/// The requests that are not known to be taken.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Most items that are joined in one message.
    batch_items: usize,
    kept: VecDeque<Kept>,
    /// How many of them the present streams have got.
    sent: usize,
    /// How many items these have.
    sent_items: usize,
    /// How many bytes.
    sent_bytes: usize,
    /// The highest number that any stream has got: what it stands for is never changed.
    sealed: u64,
    /// The number of the last one.
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
    /// Nothing was said yet.
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

    /// Another request. One without items vanishes, and one with too many bytes becomes several.
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

    /// The kind of the next one to send, if there is any, and not too much is on its way.
    pub(crate) fn next_kind(&self) -> Option<Kind> {
        let next = self.kept.get(self.sent)?;
        let fits = self.sent_items + next.items <= AHEAD_ITEMS
            && self.sent_bytes + next.bytes <= AHEAD_BYTES;
        (self.sent == 0 || fits).then(|| next.request.kind())
    }

    /// Whether the next one to send can hardly grow any more.
    pub(crate) fn is_full(&self) -> bool {
        let waiting = self.kept.len() - self.sent;
        let is_large = |last: &Kept| last.items >= self.batch_items || last.bytes >= BATCH_BYTES;
        waiting > 1 || self.kept.back().is_some_and(is_large)
    }

    /// The next one, to be sent now.
    pub(crate) fn send(&mut self) -> Option<AnyRequest> {
        let next = self.kept.get(self.sent)?;
        let request = next.request.clone();
        self.sent += 1;
        self.sent_items += next.items;
        self.sent_bytes += next.bytes;
        self.sealed = self.sealed.max(next.number);
        Some(request)
    }

    /// The scheduler has taken everything up to `number`.
    pub(crate) fn taken(&mut self, number: u64) {
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

    /// The streams are new, and the scheduler has taken everything up to `number`: all that comes
    /// after it is to be sent again.
    pub(crate) fn resume(&mut self, number: u64) {
        self.taken(number);
        (self.sent, self.sent_items, self.sent_bytes) = (0, 0, 0);
        self.last = self.last.max(number);
    }

    /// The session of another instance goes on, of which everything up to `number` was taken: what was
    /// never sent comes behind that. What was, belongs to a session that is gone.
    pub(crate) fn follow(&mut self, number: u64) {
        let sealed = self.sealed;
        let never_sent = std::mem::take(&mut self.kept).into_iter().filter(|it| it.number > sealed);
        let requests: Vec<AnyRequest> = never_sent.map(|kept| kept.request).collect();
        self.restart();
        (self.last, self.sealed) = (number, number);
        for request in requests {
            self.push(request);
        }
    }

    /// The session is new: what was to be said to the one before it is dropped.
    pub(crate) fn restart(&mut self) {
        *self = Self::new(self.batch_items);
    }

    /// The number of the last request that is known to be taken.
    pub(crate) fn known(&self) -> u64 {
        self.kept.front().map_or(self.last, |kept| kept.number - 1)
    }

    /// How many items are not known to be taken.
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
    fn neighbours_of_a_kind_are_joined_until_they_are_sent_or_many() {
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
    fn what_was_not_taken_is_sent_again_under_its_number() {
        let mut outgoing = Outgoing::new(BATCH_ITEMS);
        for _ in 0..3 {
            outgoing.push(nodes(1));
            outgoing.send().unwrap();
        }
        outgoing.taken(1);
        outgoing.push(asks(1));
        assert_eq!((outgoing.known(), outgoing.items()), (1, 3));
        outgoing.resume(2);
        assert_eq!(outgoing.known(), 2);
        let again: Vec<_> = std::iter::from_fn(|| outgoing.send()).collect();
        assert_eq!(again.iter().map(number).collect::<Vec<_>>(), [3, 4]);
        outgoing.taken(4);
        assert_eq!((outgoing.known(), outgoing.items()), (4, 0));
    }

    #[test]
    fn who_goes_on_with_the_session_of_another_counts_on() {
        let mut outgoing = Outgoing::new(BATCH_ITEMS);
        outgoing.push(nodes(1));
        outgoing.send().unwrap();
        outgoing.push(asks(1));
        outgoing.follow(41);
        outgoing.push(nodes(1));
        let sent: Vec<_> = std::iter::from_fn(|| outgoing.send()).collect();
        assert_eq!(sent.iter().map(number).collect::<Vec<_>>(), [42, 43]);
        assert_eq!(sent[0].kind(), Kind::Allocations, "what was never sent");
    }

    #[test]
    fn what_was_sent_once_never_grows_also_when_it_is_sent_again() {
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
    fn messages_are_bounded_in_bytes_and_what_is_too_much_for_one_becomes_several() {
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
    fn no_more_bytes_are_on_their_way_than_a_scheduler_holds() {
        let mut outgoing = Outgoing::new(BATCH_ITEMS);
        for _ in 0..100 {
            let allocations = vec![large_ask("k", BATCH_BYTES)];
            outgoing.push(si::AllocationRequest { allocations, ..Default::default() }.into());
        }
        while outgoing.next_kind().is_some() {
            outgoing.send().unwrap();
        }
        assert_eq!(outgoing.sent, 63);
        outgoing.taken(1);
        assert_eq!(outgoing.next_kind(), Some(Kind::Allocations));
        outgoing.resume(1);
        assert_eq!(outgoing.sent_bytes, 0);
    }

    #[test]
    fn no_more_is_on_its_way_than_a_scheduler_holds() {
        let mut outgoing = Outgoing::new(BATCH_ITEMS);
        for _ in 0..20 {
            outgoing.push(asks(BATCH_ITEMS));
        }
        while outgoing.next_kind().is_some() {
            outgoing.send().unwrap();
        }
        assert_eq!(outgoing.sent, 16);
        outgoing.taken(1);
        assert_eq!(outgoing.next_kind(), Some(Kind::Allocations));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_doubled_whatever_breaks(steps in prop::collection::vec(0..4u8, 0..60)) {
            let mut outgoing = Outgoing::new(BATCH_ITEMS);
            let (mut made, mut got, mut taken) = (0, 0, 0);
            let mut on_the_way = VecDeque::new();
            // What has arrived and was not due: it counts, whatever comes under its number later.
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
                    // The streams break, and every other one of what was on its way has arrived.
                    _ => {
                        for request in on_the_way.drain(..).skip(1).step_by(2) {
                            held.entry(number(&request)).or_insert(request.items());
                        }
                        outgoing.resume(taken);
                    }
                }
            }
            prop_assert_eq!(made, got);
            outgoing.taken(taken);
            prop_assert_eq!(outgoing.items(), 0);
        }
    }
}
