//! Reads and renewals of an application by surveys. The surveys are in `partition::surveys`; only
//! what needs private fields of an application is here, so that a new survey is a file there.

use std::collections::VecDeque;
use std::sync::Arc;

use monoceros_rules::applications::application::Application as Book;
use monoceros_rules::applications::backoff::{self, Backoff};
use monoceros_rules::applications::blocked::Blocked;
use monoceros_rules::asks::ToSignal;
use monoceros_rules::audit::{ApplicationFact, BesideBook};
use monoceros_rules::decide::scale_up::Tried;
use monoceros_rules::nodes::NodeIndex;

use super::explained::{Explained, ExplainedApplication, Explainer};
use super::{Application, events};
use crate::step::{Baton, Notice, RowUpdate, ScaleUpRequests, UnplacedRequest};

impl Application {
    /// Returns the book.
    pub(crate) fn known(&self) -> &Book {
        &self.book
    }

    /// Returns the end of its back-off, ns since the epoch; `None` if it does not back off.
    pub(crate) fn backs_off_until(&self) -> Option<i64> {
        self.backoff.as_ref().and_then(Backoff::until_ns)
    }

    /// Applies the changes of a new configuration of its leaf. Limits may have changed there, so
    /// the application may count for another group from now on. Returns the update for its row.
    pub(crate) fn refresh(&mut self, baton: &mut Baton) -> Option<RowUpdate> {
        self.leaf_facts = Arc::clone(&baton.directory.queue(self.leaf_facts.slot).facts);
        let (book, books) = (&self.book, &mut baton.books);
        let of = (&book.id, &*book.groups);
        let group = self.lane.rejoin(of, book.allocated(), &mut books.trackers);
        if self.lane.lane().is_some() {
            books.reservations.set_lane(self.slot, self.lane.limited());
        }
        if let Some(group) = group {
            self.set_group(group, baton);
        }
        if self.leaf_facts.config.settings.backoff_asks == 0
            && let Some(backoff) = &mut self.backoff
        {
            backoff.end();
        }
        self.search_victims_again(baton);
        self.update()
    }

    /// Explains some of its asks, each class with at most `keys` keys.
    pub(crate) fn explained(
        &self,
        which: &Explained,
        keys: usize,
        baton: &Baton,
    ) -> ExplainedApplication {
        let delay = self.leaf_facts.config.settings.backoff_delay.max(backoff::LEAST);
        let delay_ns = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        let until_ns = self.backs_off_until();
        let explainer = Explainer {
            book: &self.book,
            slot: self.slot,
            leaf: self.leaf_facts.slot,
            row: self.row,
            lane: self.lane.limited(),
            bundle: self.bundle.as_deref(),
            pairs: self.pairs.search(),
            backs_off: until_ns.map(|until_ns| (until_ns.saturating_sub(delay_ns), until_ns)),
            preemptors: self.preemptors(baton),
            baton,
        };
        explainer.explained(which, keys)
    }

    /// Notes which maxima of running applications keep it from starting, if it has pending asks,
    /// and whether the next scale-up signal may name any of its asks. `may_start`: its queues allow
    /// one more running application.
    pub(crate) fn review_leave(&mut self, may_start: bool, baton: &mut Baton) {
        if !self.book.asks.pending().is_empty() {
            let (lane, trackers) = (self.lane.limited(), &baton.books.trackers);
            let limits_allow = lane.is_none_or(|lane| trackers.may_start(lane));
            let now = Blocked::of(self.book.is_starting(), may_start, limits_allow);
            events::blocked(&mut self.blocked, now, &self.book, baton);
        }
        self.review_unsignalled(baton);
    }

    /// Returns a view of its tried asks for the scale-up signal.
    pub(crate) fn tried(&self) -> Tried<'_> {
        Tried {
            book: &self.book,
            slot: self.slot,
            leaf: &self.leaf_facts.config,
            lane: self.lane.limited(),
            reached: self.backoff.as_ref().map(Backoff::reached),
        }
    }

    /// Sends the RM the scale-up signal for its asks that were not signalled before. Examines
    /// `most` asks at most, and leaves the rest in the queue. Returns the number of asks that were
    /// examined.
    pub(crate) fn signal(
        &mut self,
        to_signal: &mut VecDeque<ToSignal>,
        most: usize,
        baton: &mut Baton,
    ) -> usize {
        let (reached, mut requests, mut looked_at) =
            (self.backoff.as_ref().map(Backoff::reached), Vec::new(), 0);
        // If a gang was refused, one of its asks was refused for all of them.
        let bundle = self.book.undecided().and(self.bundle.as_ref());
        let is_bundle_refused = bundle.is_some_and(|bundle| bundle.is_refused());
        while let Some(class) = to_signal.front_mut()
            && looked_at < most
        {
            let asks = &mut self.book.asks;
            let signalled = asks.signal(class, reached, most - looked_at);
            looked_at += signalled.looked_at;
            for slot in signalled.due {
                let ask = asks.ask(slot);
                let by_predicates = ask.is_resting() || is_bundle_refused;
                requests.push(UnplacedRequest { spec: Arc::clone(&ask.spec), by_predicates });
            }
            if class.is_over() {
                to_signal.pop_front();
            }
        }
        if !requests.is_empty() {
            let application = Arc::clone(&self.book.id);
            let wanting = Box::new(ScaleUpRequests { application, requests });
            baton.effects.notify(Notice::ScaleUp(wanting));
        }
        self.review_unsignalled(baton);
        looked_at
    }

    /// Has the directory list the application as long as the next scale-up signal may have to name
    /// it.
    fn review_unsignalled(&mut self, baton: &mut Baton) {
        let is_unsignalled = self.book.asks.any_unsignalled() || self.blocked.is_any();
        self.listed.set_unsignalled(
            is_unsignalled,
            self.leaf_facts.slot,
            self.slot,
            &mut baton.directory,
        );
    }

    /// Returns the facts that an audit compares.
    pub(crate) fn fact(&self, nodes: &NodeIndex) -> ApplicationFact {
        let beside = BesideBook {
            slot: self.slot,
            leaf: self.leaf_facts.slot.0,
            group: self.owner.group.clone(),
            backs_off: self.backs_off_until().is_some(),
            aging_ns: self.aging.deadline_ns(),
            rests: self.bundle.as_ref().is_some_and(|bundle| bundle.rests(nodes)),
        };
        ApplicationFact::of(&self.book, beside, nodes)
    }
}
