//! What is noted of the decisions that this application carries out, for people who read them later
//! ([`monoceros_rules::decisions`], `docs/decisions.md`).
//!
//! # Invariants
//! * Each allocation that the RM is told of as decided here is exactly one decision, and it is kept
//!   where it gets its name ([`Application::bind`]); so is each reservation, and each allocation that
//!   is told to leave for others.
//! * Nothing is decided by what is noted, and where nothing is kept nothing is looked at.

use std::sync::Arc;

use monoceros_rules::allocations::Grounds;
use monoceros_rules::decide::attempt::Candidate;
use monoceros_rules::decide::preemption::Chosen;
use monoceros_rules::decisions::{Decisions, Later, Ruled, Told, Way};
use monoceros_rules::nodes::PassedFor;
use monoceros_rules::queues::PriorityPolicy;
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::values::ids::{AllocationId, AskSlot, NodeSlot};

use super::Application;
use crate::step::{Baton, Offering, PlaceAnswer, Placement, Takes};

/// Searches for nodes.
impl Application {
    /// A node was found for an ask, perhaps for the place of a placeholder.
    pub(super) fn note_found(
        &self,
        candidate: &Candidate,
        takes: Option<Takes>,
        baton: &mut Baton,
    ) {
        if !baton.decisions.is_on() {
            return;
        }
        let ask = self.book.asks.ask(candidate.ask);
        let is_its_own =
            ask.is_reserved() && self.has_reserved_slot(candidate.ask, candidate.node, baton);
        let Baton { decisions, books, .. } = baton;
        let Some(search) = decisions.search() else { return };
        search.tried = 1 + u32::try_from(candidate.alternatives.len()).unwrap_or(u32::MAX);
        if is_its_own || takes.is_some_and(|takes| takes.in_place) {
            // There was nothing to search for.
        } else if candidate.is_continued {
            // The search went on where others have refused the ask, and not in the order of nodes.
            if let Some(trying) = ask.trying() {
                let refused = trying.refused();
                let n = u32::try_from(refused.len()).unwrap_or(u32::MAX);
                search.tried = search.tried.saturating_add(n);
                let one = trying.last_refused().and_then(|id| books.nodes.slot_of(id));
                search.passed.note_many(PassedFor::Refused, refused.len(), one);
            }
        } else {
            let (first, n_others) = candidate.preferred_to.unwrap_or((candidate.node, 0));
            let has_failed = ask.has_failed_on(books.nodes.id(first));
            let elsewhere = ask.request_elsewhere().filter(|_| !has_failed);
            let request = elsewhere.unwrap_or_else(|| ask.request());
            books.nodes.passed_over(&request, None, first, &mut search.passed);
            if n_others > 0 {
                search.passed.note_many(PassedFor::Preference, n_others, Some(first));
            }
        }
    }

    /// The node that was asked did not take the placement, and the next one is asked.
    pub(super) fn note_next(
        &self,
        slot: AskSlot,
        before: NodeSlot,
        next: NodeSlot,
        baton: &mut Baton,
    ) {
        let Baton { decisions, books, .. } = baton;
        let Some(search) = decisions.searching() else { return };
        search.tried += 1;
        let ask = self.book.asks.ask(slot);
        if ask.has_failed_on(books.nodes.id(next)) {
            // All others have been asked, and each has said why not.
            return;
        }
        let request = ask.request_elsewhere().unwrap_or_else(|| ask.request());
        books.nodes.passed_over(&request, Some(before), next, &mut search.passed);
    }

    /// The node that was asked did not take the placement.
    pub(super) fn note_refused(answer: PlaceAnswer, node: NodeSlot, baton: &mut Baton) {
        let Some(search) = baton.decisions.searching() else { return };
        let refused = answer == PlaceAnswer::Refused;
        search.passed.note(if refused { PassedFor::Refused } else { PassedFor::Room }, node);
    }

    /// No node could be used: all that were not asked were passed over.
    fn note_none_found(&self, slot: AskSlot, reserves: NodeSlot, baton: &mut Baton) {
        let Baton { decisions, books, .. } = baton;
        let Some(search) = decisions.searching() else { return };
        if self.book.asks.ask(slot).required_node.is_some() {
            search.passed.note(PassedFor::Room, reserves);
        } else {
            let others = books.nodes.len().saturating_sub(search.passed.sum() as usize);
            search.passed.note_many(PassedFor::Range, others, None);
        }
    }
}

/// Decisions made in an offer.
impl Application {
    /// A placement is decided by the offer that is here, and told at once.
    pub(super) fn note_placed(&self, placement: &Placement, baton: &mut Baton) {
        if baton.decisions.is_on() {
            self.note_decided(placement.allocation, self.rule_of(placement, baton), baton);
        }
    }

    /// A placement is decided by the offer that is here, and told when an answer has come or a
    /// placeholder is gone.
    pub(super) fn note_on_its_way(&self, placement: &Placement, baton: &mut Baton) {
        if baton.decisions.is_on() {
            self.note_unsettled(placement.allocation, self.rule_of(placement, baton), baton);
        }
    }

    /// A member of a gang that is decided as a whole.
    pub(super) fn note_member(&self, id: AllocationId, baton: &mut Baton) {
        if let Some(search) = baton.decisions.search() {
            search.tried = 1;
            self.note_decided(id, Ruled::Gang, baton);
        }
    }

    /// A member of a gang that is decided as a whole once the RM has answered for each.
    pub(super) fn note_unsettled_member(&self, id: AllocationId, baton: &mut Baton) {
        if let Some(search) = baton.decisions.search() {
            search.tried = 1;
            self.note_unsettled(id, Ruled::Gang, baton);
        }
    }

    /// The RM is asked whether an ask may reserve a node.
    pub(super) fn note_claim(
        &self,
        slot: AskSlot,
        node: NodeSlot,
        question: u64,
        baton: &mut Baton,
    ) {
        self.note_none_found(slot, node, baton);
        if self.note_way(Ruled::NearestNode, baton) {
            Self::put_aside(Later::Claim(question), baton);
        }
    }

    fn note_decided(&self, id: AllocationId, ruled: Ruled, baton: &mut Baton) {
        if self.note_way(ruled, baton) {
            baton.decisions.is_about(id);
        }
    }

    fn note_unsettled(&self, id: AllocationId, ruled: Ruled, baton: &mut Baton) {
        if self.note_way(ruled, baton) {
            Self::put_aside(Later::Allocation(id), baton);
        }
    }

    /// By which rule a placement has its node.
    fn rule_of(&self, placement: &Placement, baton: &Baton) -> Ruled {
        match placement.takes {
            Some(Takes { hold: true, in_place: true, .. }) => Ruled::HoldInPlace,
            Some(Takes { hold: true, in_place: false, .. }) => Ruled::HoldElsewhere,
            Some(Takes { in_place: true, .. }) => Ruled::PlaceholderInPlace,
            Some(Takes { in_place: false, .. }) => Ruled::PlaceholderElsewhere,
            None if placement.spec.required_node.is_some() => Ruled::RequiredNode,
            None if self.book.asks.ask(placement.ask).is_reserved()
                && self.is_at_reserved(placement, baton) =>
            {
                Ruled::AtReserved
            }
            None => Ruled::FirstNode,
        }
    }

    /// Notes how the offer came here. Says whether decisions are kept.
    fn note_way(&self, ruled: Ruled, baton: &mut Baton) -> bool {
        let Baton { decisions, offer, books, .. } = baton;
        let Some(way) = decisions.begin() else { return false };
        way.ruled = Some(ruled);
        way.is_of(&self.leaf_facts.config.path, &self.book.id);
        levels(way, offer);
        decisions.searched(|node| books.nodes.id(node));
        true
    }

    fn put_aside(what: Later, baton: &mut Baton) {
        let Baton { decisions, books, now_ns, .. } = baton;
        decisions.put_aside(what, *now_ns, |what| match what {
            Later::Allocation(id) => books.allocations.get(id).is_some(),
            Later::Claim(number) => books.unsettled.claim(number).is_some(),
        });
    }
}

/// Decisions that are kept.
impl Application {
    /// The RM is told of an allocation.
    pub(super) fn keep_allocation(&self, id: AllocationId, baton: &mut Baton) {
        let Baton { decisions, books, now_ns, .. } = baton;
        if !decisions.is_on() {
            return;
        }
        let Some(entry) = books.allocations.get(id) else { return };
        let told = told(&entry.spec, books.nodes.id(entry.node), Ruled::FirstNode, *now_ns);
        decisions.keep_allocation(id, self.is_who(), &told);
    }

    /// An ask has a node reserved, which it found in the offer that is here.
    pub(super) fn keep_reservation(&self, slot: AskSlot, node: NodeSlot, baton: &mut Baton) {
        let spec = &self.book.asks.ask(slot).spec;
        let waits_for_it = spec.required_node.is_some();
        let ruled = if waits_for_it { Ruled::AwaitsRequired } else { Ruled::NearestNode };
        self.note_none_found(slot, node, baton);
        if self.note_way(ruled, baton) {
            Self::keep(spec, node, ruled, baton);
        }
    }

    /// The RM has answered that an ask may reserve a node, which it has from now on.
    pub(super) fn keep_claim(
        &self,
        slot: AskSlot,
        node: NodeSlot,
        question: u64,
        baton: &mut Baton,
    ) {
        let spec = &self.book.asks.ask(slot).spec;
        let Baton { decisions, books, now_ns, .. } = baton;
        let told = told(spec, books.nodes.id(node), Ruled::NearestNode, *now_ns);
        decisions.keep_aside(Later::Claim(question), &told);
    }

    /// Others leave a node for an ask, which has it reserved.
    pub(super) fn keep_promise(&self, slot: AskSlot, node: NodeSlot, baton: &mut Baton) {
        if let Some(way) = baton.decisions.begin() {
            way.is_of(&self.leaf_facts.config.path, &self.book.id);
            Self::keep(&self.book.asks.ask(slot).spec, node, Ruled::Promised, baton);
        }
    }

    /// An allocation is told to leave for others.
    pub(super) fn keep_eviction(
        &self,
        id: AllocationId,
        chosen: Option<&Chosen>,
        grounds: &Arc<Grounds>,
        baton: &mut Baton,
    ) {
        let Baton { decisions, books, now_ns, .. } = baton;
        let Some(way) = decisions.begin() else { return };
        let Some(entry) = books.allocations.get(id) else { return };
        way.is_of(&self.leaf_facts.config.path, &self.book.id);
        if let Some(chosen) = chosen {
            let next = chosen.next.and_then(|id| books.allocations.get(id));
            let second = next.map(|next| (&**next.key(), next.spec.pod().map(|pod| &**pod)));
            way.victim(chosen.choice(grounds, entry, next), second);
        }
        let ruled = match **grounds {
            Grounds::Guarantee { .. } => Ruled::Guarantee,
            Grounds::RequiredNode { .. } => Ruled::ForNode,
            Grounds::Quota { .. } => Ruled::Quota,
        };
        let told = told(&entry.spec, books.nodes.id(entry.node), ruled, *now_ns);
        decisions.keep_eviction(grounds, &told);
    }

    fn keep(spec: &AskSpec, node: NodeSlot, ruled: Ruled, baton: &mut Baton) {
        let Baton { decisions, books, now_ns, .. } = baton;
        let told = told(spec, books.nodes.id(node), ruled, *now_ns);
        Decisions::keep(decisions, &told);
    }

    /// The leaf, and the application.
    fn is_who(&self) -> (&str, &str) {
        (&self.leaf_facts.config.path, &self.book.id)
    }
}

/// Who came first at each level of the path of an offer, and before whom.
fn levels(way: &mut Way, offer: &Offering) {
    for pair in offer.frames.windows(2) {
        let [above, below] = pair else { continue };
        let queue = above.facts.config.path.len();
        // A sibling has the same parent: its own name is all that differs.
        let runner_up = below.runner_up.as_ref().and_then(|key| key.name().get(queue + 1..));
        way.level(queue, below.facts.sibling_order(), below.verdict, runner_up);
        let config = &below.facts.config;
        let is_fenced = config.settings.priority_policy == PriorityPolicy::Fence;
        way.figures_are(is_fenced, config.guaranteed.is_some());
    }
    if let Some(leaf) = offer.frames.last() {
        let runner_up = offer.runner_up.as_ref().map(|key| &**key.name());
        let (facts, queue) = (&leaf.facts, leaf.facts.config.path.len());
        way.level(queue, facts.child_order(), offer.verdict, runner_up);
        way.figures_are(false, facts.config.guaranteed.is_some());
    }
}

/// What is told of an ask, or of its allocation.
fn told<'a>(spec: &'a AskSpec, node: &'a str, ruled: Ruled, at_ns: i64) -> Told<'a> {
    Told { at_ns, ruled, key: &spec.key, pod: spec.pod().map(|pod| &**pod), node }
}
