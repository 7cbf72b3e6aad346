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

/// The requests that are not known to be taken.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Most items that are joined in one message.
    batch_items: usize,
    kept: VecDeque<Kept>,
    /// How many of them the present streams have got.
    sent: usize,
    /// The number of the last one.
    last: u64,
    items: usize,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    items: usize,
    request: AnyRequest,
}

impl Outgoing {
    /// Nothing was said yet.
    pub(crate) fn new(batch_items: usize) -> Self {
        Self { batch_items, kept: VecDeque::new(), sent: 0, last: 0, items: 0 }
    }

    /// Another request. One without items vanishes.
    pub(crate) fn push(&mut self, request: AnyRequest) {
        let items = request.items();
        if items == 0 {
            return;
        }
        self.items += items;
        let is_waiting = self.kept.len() > self.sent;
        let mut request = request;
        if is_waiting
            && let Some(last) = self.kept.back_mut()
            && last.items + items <= self.batch_items
        {
            let Some(back) = last.request.join(request) else {
                last.items += items;
                return;
            };
            request = back;
        }
        self.last += 1;
        request.set_number(self.last);
        self.kept.push_back(Kept { number: self.last, items, request });
    }

    /// The kind of the next one to send, if there is any.
    pub(crate) fn next_kind(&self) -> Option<Kind> {
        self.kept.get(self.sent).map(|kept| kept.request.kind())
    }

    /// Whether the next one to send can hardly grow any more.
    pub(crate) fn is_full(&self) -> bool {
        let waiting = self.kept.len() - self.sent;
        waiting > 1 || self.kept.back().is_some_and(|last| last.items >= self.batch_items)
    }

    /// The next one, to be sent now.
    pub(crate) fn send(&mut self) -> Option<AnyRequest> {
        let request = self.kept.get(self.sent)?.request.clone();
        self.sent += 1;
        Some(request)
    }

    /// The scheduler has taken everything up to `number`.
    pub(crate) fn taken(&mut self, number: u64) {
        while self.kept.front().is_some_and(|kept| kept.number <= number) {
            if let Some(kept) = self.kept.pop_front() {
                self.items -= kept.items;
            }
            self.sent = self.sent.saturating_sub(1);
        }
    }

    /// The streams are new, and the scheduler has taken everything up to `number`: all that comes
    /// after it is to be sent again.
    pub(crate) fn resume(&mut self, number: u64) {
        self.taken(number);
        self.sent = 0;
        self.last = self.last.max(number);
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
        outgoing.resume(41);
        outgoing.push(asks(1));
        assert_eq!(outgoing.send().map(|request| number(&request)), Some(42));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_doubled_whatever_breaks(steps in prop::collection::vec(0..4u8, 0..60)) {
            let mut outgoing = Outgoing::new(BATCH_ITEMS);
            let (mut made, mut got, mut taken) = (0, 0, 0);
            let mut on_the_way = VecDeque::new();
            for step in steps.into_iter().chain([3, 1, 1, 1, 2]) {
                match step {
                    0 => { outgoing.push(asks(1)); made += 1; }
                    1 => on_the_way.extend(std::iter::from_fn(|| outgoing.send())),
                    2 => while let Some(request) = on_the_way.pop_front() {
                        if number(&request) == taken + 1 {
                            taken += 1;
                            got += request.items();
                        }
                    },
                    // The streams break, and half of what was on its way has arrived.
                    _ => {
                        for request in on_the_way.drain(..).take(2) {
                            if number(&request) == taken + 1 {
                                taken += 1;
                                got += request.items();
                            }
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
