//! The search for places of all members of a gang. An RM in this process is asked about each member
//! in the middle of the search, and counts each member that passes as running. The entries of
//! members for the allocation table are built here, too.

use std::sync::Arc;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::allocations::course::Course;
use monoceros_rules::applications::application::Application;
use monoceros_rules::asks::{Ask, Asks, Bundled};
use monoceros_rules::decide::bundle::Found;
use monoceros_rules::decide::gang::{GangSearch, Member, Next, NotPlaced, take_rooms};
use monoceros_rules::values::ids::{ApplicationSlot, NodeSlot};

use super::{Baton, Counting, GangOp, Op};

impl Baton {
    /// Finds a place for each member, or continues the search that is under way.
    pub(crate) fn search_places(
        &mut self,
        whose: ApplicationSlot,
        (book, gang): (&mut Application, &mut GangSearch),
        bundled: &Bundled,
    ) -> Result<Found, NotPlaced> {
        let mut search = gang.take_search(&book.asks, bundled, &self.books.nodes);
        search.begin_step(&self.books.nodes, !self.offer.asks_later);
        let outcome = loop {
            match search.next(book, &mut self.books.nodes) {
                Next::Ask(member) => {
                    let passes = self.ask_about_member(whose, &mut book.asks, member);
                    search.answered(passes);
                }
                Next::Count(member) => {
                    search.answered(self.member_passes(whose, &book.asks, member).is_ok());
                }
                Next::Assume(member) => {
                    self.count_on_member(Counting::Assumes, whose, &book.asks, member);
                }
                Next::Forget(members) => {
                    for member in members {
                        self.count_on_member(Counting::Forgets, whose, &book.asks, member);
                    }
                }
                Next::Over(outcome) => break outcome,
            }
        };
        if matches!(outcome, Err(NotPlaced::Unfinished)) {
            tracing::debug!(application = %book.id, places = search.n_places(),
                "the search for places of the gang goes on later");
        }
        gang.put_search(search, outcome.as_ref().err());
        outcome
    }

    /// Gives all members the capacity that is kept for them by the gang's nomination, if each
    /// passes the predicate of an RM in this process.
    pub(crate) fn place_in_rooms(
        &mut self,
        whose: ApplicationSlot,
        book: &Application,
        bundled: &Bundled,
    ) -> Result<Found, NotPlaced> {
        let rooms = (&self.books.nominations, &mut self.books.nodes);
        let mut found = take_rooms(whose, book, bundled, rooms)?;
        if self.offer.asks_later {
            return Ok(found);
        }
        let mut assumed = Vec::new();
        for at in 0..found.places().len() {
            let place = found.places()[at];
            let (ask, _) = bundled[place.of.group][place.of.members];
            let member = Member { ask, node: place.node };
            if self.member_passes(whose, &book.asks, member).is_err() {
                found.undo(&mut self.books.nodes);
                for member in assumed.into_iter().rev() {
                    self.count_on_member(Counting::Forgets, whose, &book.asks, member);
                }
                return Err(NotPlaced::Unfit);
            }
            self.count_on_member(Counting::Assumes, whose, &book.asks, member);
            assumed.push(member);
        }
        Ok(found)
    }

    /// Asks whether a member may run on a node, or have its place held there. A member that passes
    /// is counted by the RM from now on. The reason of a refusal is noted if events are recorded.
    fn ask_about_member(
        &mut self,
        whose: ApplicationSlot,
        asks: &mut Asks,
        member: Member,
    ) -> bool {
        let Err(why) = self.member_passes(whose, asks, member) else {
            self.count_on_member(Counting::Assumes, whose, asks, member);
            return true;
        };
        self.tally.refused();
        self.offer.refused += 1;
        if self.settings.tracking.is_on() {
            let reasons = &mut asks.ask_mut(member.ask).refusals_mut().reasons;
            *reasons.entry(why).or_default() += 1;
        }
        false
    }

    fn member_passes(
        &mut self,
        whose: ApplicationSlot,
        asks: &Asks,
        member: Member,
    ) -> Result<(), String> {
        let node = Arc::clone(self.books.nodes.id(member.node));
        self.predicate((whose, &asks.ask(member.ask).spec), &node, true)
    }

    /// Builds the entry of a member on its node, which the caller puts into the allocation table.
    pub(crate) fn member_on(
        &self,
        whose: ApplicationSlot,
        ask: &Ask,
        node: NodeSlot,
    ) -> Allocation {
        let (spec, now_ns) = (Arc::clone(&ask.spec), self.now_ns);
        let course = Course::of(&spec, now_ns, || self.services.clock.now_ns());
        let mut entry = Allocation::new(whose, spec, node, ask.created_ns, now_ns);
        entry.follow(course);
        entry
    }

    /// Notes that no bundle is in flight any more: it is settled or withdrawn. The applications
    /// that waited to have theirs in flight are visited.
    pub(crate) fn end_flight(&mut self) {
        for slot in self.books.unsettled.end_bundle() {
            self.effects.revisit(slot, Op::Gang(GangOp::WakeBundle));
        }
    }

    fn count_on_member(
        &self,
        counting: Counting,
        whose: ApplicationSlot,
        asks: &Asks,
        member: Member,
    ) {
        self.count_on(counting, (whose, &asks.ask(member.ask).spec), member.node);
    }
}
