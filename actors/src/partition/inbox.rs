//! The inbox of a partition: the entries that wait, and the choice of the next.
//!
//! The order is not that of the mailbox, because messages arrive while a step is out, and because
//! offers must have their turn among them.
//!
//! # Invariants
//! * Entries begin in order of arrival. If an entry was too long for one step, its rest goes before
//!   later entries.
//! * Entries and offers take turns while there are both, so that neither the RM nor pending asks
//!   starve.
//! * A question that goes ahead of entries is answered after the step that is under way. Between
//!   two questions other work has its turn, so questions starve nothing either.
//! * Slices of lists have turns of their own, at a [`Pace`] that leaves most of the time to other
//!   work. They do not affect the turns of entries, offers and questions.
//! * The RM's acknowledgements, and the conclusion that a halted partition waits for, go ahead of
//!   all entries: both allow the partition to continue, and neither can change the meaning of an
//!   entry.

use std::collections::VecDeque;
use std::sync::Arc;

use super::input::{Conclude, Entry, Input, LocalRequest, Request, Stamped};
use super::pace::Pace;
use crate::clock::Clock;
use crate::step::{Alarm, Op};

/// Entries of a partition that have not begun, and the state of turn-taking.
pub(super) struct Inbox<S> {
    entries: VecDeque<Entry<S>>,
    /// Questions that need not wait for earlier entries.
    questions: VecDeque<S>,
    /// Whether the last turn was a question's.
    was_question: bool,
    /// Slices of lists.
    slices: VecDeque<S>,
    pace: Pace,
    /// The next turn while there are both entries and an offer.
    turn: Turn,
    /// The number of notices that the RM has taken and that the partition has not counted yet.
    acknowledged: usize,
    conclusion: Option<Conclude>,
}

/// Turns of entries and offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    #[default]
    Entry,
    Offer,
}

/// The next thing that the partition does.
pub(super) enum Next<S> {
    Input(Stamped),
    Local(LocalRequest<S>),
    /// A slice of a list. `is_alone`: there is nothing else to do.
    Slice {
        survey: S,
        is_alone: bool,
    },
    Offer,
    Nothing,
}

/// The next entries, as far as gathered changes depend on them.
#[derive(Clone, Copy)]
pub(super) enum Ahead<'a> {
    /// Orders to an application.
    Orders(&'a [Op]),
    /// The end of a chunk. The next chunk is usually on its way.
    ChunkEnd,
    Other,
    Nothing,
}

/// Whether an offer could leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MayOffer {
    No,
    Yes,
    /// An offer must leave before any entry: the oracle has foreseen its decision.
    AtOnce,
}

impl<S> Default for Inbox<S> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            questions: VecDeque::new(),
            was_question: false,
            slices: VecDeque::new(),
            pace: Pace::default(),
            turn: Turn::default(),
            acknowledged: 0,
            conclusion: None,
        }
    }
}

impl<S> Inbox<S> {
    pub(super) fn push(&mut self, entry: Entry<S>) {
        self.entries.push_back(entry);
    }

    /// Puts the rest of the last entry before all others.
    pub(super) fn push_first(&mut self, rest: Input) {
        self.entries.push_front(Entry::Input(rest));
    }

    /// Whether the rest of an entry is next.
    pub(super) fn has_unfinished(&self) -> bool {
        matches!(self.entries.front(), Some(Entry::Input(Input::Unfinished(..))))
    }

    /// Returns the orders and alarms that wait: what the partition owes itself.
    pub(super) fn own_inputs(&self) -> Vec<Input> {
        let own = |entry: &Entry<S>| match entry {
            Entry::Input(input @ (Input::Unfinished(..) | Input::Alarm(_))) => Some(input.clone()),
            _ => None,
        };
        self.entries.iter().filter_map(own).collect()
    }

    /// Adds a question that goes ahead of all entries.
    pub(super) fn push_question(&mut self, question: S) {
        self.questions.push_back(question);
    }

    /// Adds a slice of a list.
    pub(super) fn push_slice(&mut self, slice: S) {
        self.slices.push_back(slice);
    }

    pub(super) fn push_input(&mut self, input: Input) {
        self.push(Entry::Input(input));
    }

    pub(super) fn acknowledge(&mut self, notices: usize) {
        self.acknowledged += notices;
    }

    pub(super) fn conclude(&mut self, conclusion: Conclude) {
        self.conclusion = Some(conclusion);
    }

    /// Drops all entries, questions and slices, when the partition ends.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.questions.clear();
        self.slices.clear();
    }

    /// Returns the input that goes ahead of all entries, if there is one.
    pub(super) fn ahead(&mut self, clock: &Clock) -> Option<Stamped> {
        let input = if self.acknowledged > 0 {
            Input::Acknowledged(std::mem::take(&mut self.acknowledged))
        } else {
            Input::Conclude(self.conclusion.take()?)
        };
        Some(Stamped { at_ns: clock.now_ns(), input })
    }

    /// Returns the next thing to do at this time, ns since the epoch.
    pub(super) fn next(&mut self, may_offer: MayOffer, now_ns: i64) -> Next<S> {
        self.pace.at(now_ns);
        let may_ask = may_offer != MayOffer::AtOnce && !self.was_question;
        if may_ask && let Some(question) = self.question() {
            return question;
        }
        let may_read = may_offer != MayOffer::AtOnce && self.pace.lets(now_ns);
        if may_read && let Some(survey) = self.slices.pop_front() {
            self.pace.begins(now_ns);
            let is_alone = may_offer == MayOffer::No && self.entries.is_empty();
            return Next::Slice { survey, is_alone };
        }
        self.was_question = false;
        self.pace.something_else();
        match self.next_but_questions(may_offer, now_ns) {
            Next::Nothing => self.at_leisure(now_ns),
            next => next,
        }
    }

    /// Returns the next thing to do while there is no entry and no offer.
    fn at_leisure(&mut self, now_ns: i64) -> Next<S> {
        if let Some(question) = self.question() {
            return question;
        }
        let Some(survey) = self.slices.pop_front() else { return Next::Nothing };
        self.pace.begins(now_ns);
        Next::Slice { survey, is_alone: true }
    }

    fn question(&mut self) -> Option<Next<S>> {
        let question = self.questions.pop_front()?;
        self.was_question = true;
        Some(Next::Local(LocalRequest::Read(question)))
    }

    fn next_but_questions(&mut self, may_offer: MayOffer, now_ns: i64) -> Next<S> {
        let offers = match may_offer {
            MayOffer::No => false,
            MayOffer::Yes => self.turn == Turn::Offer || self.entries.is_empty(),
            MayOffer::AtOnce => true,
        };
        self.turn = if offers { Turn::Entry } else { Turn::Offer };
        if offers {
            return Next::Offer;
        }
        match self.entries.pop_front() {
            Some(Entry::Input(input)) => Next::Input(Stamped { at_ns: now_ns, input }),
            Some(Entry::Local(request)) => Next::Local(request),
            None => Next::Nothing,
        }
    }

    /// Returns the next entry if it is a request.
    fn next_request(&self) -> Option<&Request> {
        match self.entries.front() {
            Some(Entry::Input(Input::Request(next))) => Some(next),
            _ => None,
        }
    }

    /// Returns what the next entries are, as far as changes that were gathered depend on it. The end
    /// of a chunk decides nothing.
    pub(super) fn ahead_of_gathered(&self) -> Ahead<'_> {
        let is_chunk_end =
            |entry: &&Entry<S>| matches!(entry, Entry::Local(LocalRequest::ChunkDone));
        match self.entries.iter().find(|entry| !is_chunk_end(entry)) {
            Some(Entry::Input(Input::Request(Request::Application { ops, .. }))) => {
                Ahead::Orders(ops)
            }
            Some(_) => Ahead::Other,
            None if self.entries.is_empty() => Ahead::Nothing,
            None => Ahead::ChunkEnd,
        }
    }

    /// Returns the next entry if it is a request to an application.
    pub(super) fn next_orders(&self) -> Option<(&Arc<str>, &[Op])> {
        match self.next_request() {
            Some(Request::Application { id, ops }) => Some((id, ops)),
            _ => None,
        }
    }

    /// Takes the orders of the next entry, if it is a request to an application.
    pub(super) fn take_orders(&mut self) -> Option<Vec<Op>> {
        self.next_orders()?;
        match self.entries.pop_front() {
            Some(Entry::Input(Input::Request(Request::Application { ops, .. }))) => Some(ops),
            _ => None,
        }
    }

    /// Whether the next entry adds, changes or removes one more node: queues are refreshed once for
    /// all nodes of a request.
    pub(super) fn node_is_next(&self) -> bool {
        use Request::{ChangeNode, CreateNode, RemoveNode};
        matches!(self.next_request(), Some(CreateNode(_) | ChangeNode { .. } | RemoveNode(_)))
    }

    /// Whether the notices of the next entry may be sent together with those of the step before it.
    /// If no entry waits, `offers` decides that for the next offer.
    pub(super) fn goes_on(&self, offers: impl FnOnce() -> bool) -> bool {
        match self.entries.front() {
            // A removed node puts the notices in an order of its own. A scale-up signal may bring
            // as many requests as one message should have.
            Some(Entry::Input(
                Input::Request(Request::RemoveNode(_)) | Input::Alarm(Alarm::ScaleUp),
            )) => false,
            None => offers(),
            Some(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox(nodes: &[&str]) -> Inbox<Question> {
        let mut inbox = Inbox::default();
        for node in nodes {
            inbox.push(Request::RemoveNode(Arc::from(*node)).into());
        }
        inbox
    }

    fn shown(next: Next<Question>) -> String {
        match next {
            Next::Input(Stamped { at_ns, input: Input::Request(Request::RemoveNode(id)) }) => {
                format!("{id} at {at_ns}")
            }
            Next::Input(other) => format!("{other:?}"),
            Next::Local(_) => "local request".to_owned(),
            Next::Slice { is_alone: false, .. } => "slice".to_owned(),
            Next::Slice { is_alone: true, .. } => "slice alone".to_owned(),
            Next::Offer => "offer".to_owned(),
            Next::Nothing => "nothing".to_owned(),
        }
    }

    #[test]
    fn entries_in_their_order_and_offers_take_turns() {
        let mut inbox = inbox(&["a", "b"]);
        let next: Vec<String> = (1..=5).map(|at| shown(inbox.next(MayOffer::Yes, at))).collect();
        assert_eq!(next, ["a at 1", "offer", "b at 3", "offer", "offer"]);
        assert_eq!(shown(inbox.next(MayOffer::No, 6)), "nothing");
    }

    /// A question that is never answered.
    struct Question;

    #[test]
    fn a_question_goes_ahead_and_between_two_something_else_has_its_turn() {
        let mut inbox = inbox(&["a", "b"]);
        for _ in 0..3 {
            inbox.push_question(Question);
        }
        assert_eq!(shown(inbox.next(MayOffer::AtOnce, 1)), "offer");
        let next: Vec<String> = (2..=6).map(|at| shown(inbox.next(MayOffer::Yes, at))).collect();
        assert_eq!(next, ["local request", "a at 3", "local request", "offer", "local request"]);
        inbox.push_question(Question);
        let next: Vec<String> = (7..=9).map(|at| shown(inbox.next(MayOffer::No, at))).collect();
        assert_eq!(next, ["b at 7", "local request", "nothing"]);
        inbox.push_question(Question);
        inbox.push_question(Question);
        let next: Vec<String> = (7..=9).map(|at| shown(inbox.next(MayOffer::No, at))).collect();
        assert_eq!(
            next,
            ["local request", "local request", "nothing"],
            "nothing else has anything to do"
        );
    }

    #[test]
    fn slices_have_a_fifth_of_the_time_and_all_of_it_while_nothing_else_is_to_do() {
        let mut inbox = inbox(&["a", "b"]);
        for _ in 0..4 {
            inbox.push_slice(Question);
        }
        assert_eq!(shown(inbox.next(MayOffer::AtOnce, 99)), "offer");
        // Each slice takes 10, so other work has the next 40.
        for (at_ns, next) in
            [(100, "slice"), (110, "a at 110"), (120, "offer"), (130, "b at 130"), (150, "slice")]
        {
            assert_eq!(shown(inbox.next(MayOffer::Yes, at_ns)), next);
        }
        assert_eq!(shown(inbox.next(MayOffer::Yes, 160)), "offer");
        for (at_ns, next) in [(170, "slice alone"), (171, "slice alone"), (172, "nothing")] {
            assert_eq!(shown(inbox.next(MayOffer::No, at_ns)), next);
        }
    }

    #[test]
    fn an_offer_that_was_foreseen_goes_before_whatever_came_meanwhile() {
        let mut inbox = inbox(&["a"]);
        assert_eq!(shown(inbox.next(MayOffer::AtOnce, 1)), "offer");
        assert_eq!(shown(inbox.next(MayOffer::AtOnce, 2)), "offer");
        assert_eq!(shown(inbox.next(MayOffer::Yes, 3)), "a at 3");
    }

    #[tokio::test]
    async fn what_the_rm_has_taken_is_one_input_ahead_of_all_entries() {
        let (mut inbox, clock) = (inbox(&["a"]), Clock::new(0));
        assert!(inbox.ahead(&clock).is_none());
        inbox.acknowledge(2);
        inbox.acknowledge(3);
        inbox.conclude(Conclude::Forget);
        let ahead = inbox.ahead(&clock).map(|stamped| stamped.input);
        assert!(matches!(ahead, Some(Input::Acknowledged(5))));
        let ahead = inbox.ahead(&clock).map(|stamped| stamped.input);
        assert!(matches!(ahead, Some(Input::Conclude(Conclude::Forget))));
        assert!(inbox.ahead(&clock).is_none());
    }
}
