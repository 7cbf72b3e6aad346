//! Records of the decisions that a step carries out, for people who read them later
//! ([`monoceros_rules::decisions`], `docs/decisions.md`).
//!
//! # Invariants
//! * Each allocation that the RM is notified of as decided here is exactly one record, made where
//!   the allocation gets its UUID. So is each reservation, and each allocation to be evicted for
//!   others.
//! * No decision depends on a record, and if none are kept, nothing is read for them.

use std::sync::Arc;

use monoceros_rules::allocations::Grounds;
use monoceros_rules::asks::Ask;
use monoceros_rules::decide::attempt::Candidate;
use monoceros_rules::decide::preemption::Chosen;
use monoceros_rules::decisions::{DecidedFor, Decisions, Later, Ruled, Told, Way};
use monoceros_rules::nodes::PassedFor;
use monoceros_rules::pending::reservations::Reserver;
use monoceros_rules::queues::PriorityPolicy;
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot, NodeSlot};

use super::{Baton, Offering, PlaceAnswer, Placement, Takes};

/// Searches for nodes.
impl Baton {
    /// Notes that a node was found for an ask, which may take the place of a placeholder there.
    pub(crate) fn note_found(
        &mut self,
        (application, ask): (ApplicationSlot, &Ask),
        candidate: &Candidate,
        takes: Option<Takes>,
    ) {
        let Self { decisions, books, .. } = self;
        let Some(search) = decisions.search() else { return };
        let who = Reserver { application, ask: candidate.ask };
        let is_its_own = books.reservations.is_at(who, candidate.node);
        search.tried = 1 + u32::try_from(candidate.alternatives.len()).unwrap_or(u32::MAX);
        if is_its_own || takes.is_some_and(|takes| takes.in_place) {
            // The node was given, so there was no search.
        } else if candidate.is_continued {
            // The search continued after nodes that refused the ask, and not in the order of nodes.
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

    /// Notes that the node that was asked did not take the placement, and that the next one is
    /// asked.
    pub(crate) fn note_next(&mut self, ask: &Ask, before: NodeSlot, next: NodeSlot) {
        let Self { decisions, books, .. } = self;
        let Some(search) = decisions.searching() else { return };
        search.tried += 1;
        if ask.has_failed_on(books.nodes.id(next)) {
            // All others have been asked, and each has given its reason.
            return;
        }
        let request = ask.request_elsewhere().unwrap_or_else(|| ask.request());
        books.nodes.passed_over(&request, Some(before), next, &mut search.passed);
    }

    /// Notes that the node that was asked did not take the placement.
    pub(crate) fn note_refused(&mut self, answer: PlaceAnswer, node: NodeSlot) {
        let Some(search) = self.decisions.searching() else { return };
        let refused = answer == PlaceAnswer::Refused;
        search.passed.note(if refused { PassedFor::Refused } else { PassedFor::Room }, node);
    }

    /// Notes that no node could be used: all nodes that were not asked were passed over.
    fn note_none_found(&mut self, spec: &AskSpec, reserves: NodeSlot) {
        let Self { decisions, books, .. } = self;
        let Some(search) = decisions.searching() else { return };
        if spec.required_node.is_some() {
            search.passed.note(PassedFor::Room, reserves);
        } else {
            let others = books.nodes.len().saturating_sub(search.passed.sum() as usize);
            search.passed.note_many(PassedFor::Range, others, None);
        }
    }
}

/// Decisions made in an offer.
impl Baton {
    /// Notes a placement decided by the present offer and reported at once.
    pub(crate) fn note_placed(&mut self, of: DecidedFor<'_>, placement: &Placement) {
        if self.decisions.is_on() && self.note_way(of, self.rule_of(placement)) {
            self.decisions.is_about(placement.allocation);
        }
    }

    /// Notes a placement decided by the present offer, to be reported when an answer has arrived
    /// or a placeholder is gone.
    pub(crate) fn note_on_its_way(&mut self, of: DecidedFor<'_>, placement: &Placement) {
        if self.decisions.is_on() && self.note_way(of, self.rule_of(placement)) {
            self.put_aside(Later::Allocation(placement.allocation));
        }
    }

    /// Notes a member of a gang that is decided as a whole. `waits`: it is reported once the RM has
    /// answered for each member.
    pub(crate) fn note_member(&mut self, of: DecidedFor<'_>, id: AllocationId, waits: bool) {
        if let Some(search) = self.decisions.search() {
            search.tried = 1;
        }
        if !self.note_way(of, Ruled::Gang) {
            return;
        }
        if waits {
            self.put_aside(Later::Allocation(id));
        } else {
            self.decisions.is_about(id);
        }
    }

    /// Notes that the RM is asked whether an ask may reserve a node.
    pub(crate) fn note_claim(
        &mut self,
        of: DecidedFor<'_>,
        spec: &AskSpec,
        node: NodeSlot,
        question: u64,
    ) {
        self.note_none_found(spec, node);
        if self.note_way(of, Ruled::NearestNode) {
            self.put_aside(Later::Claim(question));
        }
    }

    /// Returns the rule that gave a placement its node.
    fn rule_of(&self, placement: &Placement) -> Ruled {
        let who = Reserver { application: placement.application, ask: placement.ask };
        match placement.takes {
            Some(Takes { hold: true, in_place: true, .. }) => Ruled::HoldInPlace,
            Some(Takes { hold: true, in_place: false, .. }) => Ruled::HoldElsewhere,
            Some(Takes { in_place: true, .. }) => Ruled::PlaceholderInPlace,
            Some(Takes { in_place: false, .. }) => Ruled::PlaceholderElsewhere,
            None if placement.spec.required_node.is_some() => Ruled::RequiredNode,
            None if self.books.reservations.is_at(who, placement.node) => Ruled::AtReserved,
            None => Ruled::FirstNode,
        }
    }

    /// Records how the offer reached the application. Returns whether decisions are kept.
    fn note_way(&mut self, of: DecidedFor<'_>, ruled: Ruled) -> bool {
        let Self { decisions, offer, books, .. } = self;
        let Some(way) = decisions.begin() else { return false };
        way.ruled = Some(ruled);
        way.is_of(of.leaf, of.id);
        levels(way, offer);
        decisions.searched(|node| books.nodes.id(node));
        true
    }

    fn put_aside(&mut self, what: Later) {
        let Self { decisions, books, now_ns, .. } = self;
        decisions.put_aside(what, *now_ns, |what| match what {
            Later::Allocation(id) => books.allocations.get(id).is_some(),
            Later::Claim(number) => books.unsettled.claim(number).is_some(),
        });
    }
}

/// Records that are kept.
impl Baton {
    /// Records an allocation of which the RM is notified.
    pub(crate) fn keep_allocation(&mut self, of: DecidedFor<'_>, id: AllocationId) {
        let Self { decisions, books, now_ns, .. } = self;
        if !decisions.is_on() {
            return;
        }
        let Some(entry) = books.allocations.get(id) else {
            debug_assert!(false, "an allocation is in the table when it gets its name");
            return;
        };
        let told = told(&entry.spec, books.nodes.id(entry.node), Ruled::FirstNode, *now_ns);
        decisions.keep_allocation(id, (of.leaf, of.id), &told);
    }

    /// Records the reservation of a node that an ask found in the present offer.
    pub(crate) fn keep_reservation(&mut self, of: DecidedFor<'_>, spec: &AskSpec, node: NodeSlot) {
        let waits_for_it = spec.required_node.is_some();
        let ruled = if waits_for_it { Ruled::AwaitsRequired } else { Ruled::NearestNode };
        self.note_none_found(spec, node);
        if self.note_way(of, ruled) {
            self.keep(spec, node, ruled);
        }
    }

    /// Records a reservation that the RM has allowed.
    pub(crate) fn keep_claim(&mut self, spec: &AskSpec, node: NodeSlot, question: u64) {
        let Self { decisions, books, now_ns, .. } = self;
        let told = told(spec, books.nodes.id(node), Ruled::NearestNode, *now_ns);
        decisions.keep_aside(Later::Claim(question), &told);
    }

    /// Records a nomination: victims are evicted from a node for an ask, which has it reserved.
    pub(crate) fn keep_nomination(&mut self, of: DecidedFor<'_>, spec: &AskSpec, node: NodeSlot) {
        if let Some(way) = self.decisions.begin() {
            way.is_of(of.leaf, of.id);
            self.keep(spec, node, Ruled::Nominated);
        }
    }

    /// Records that an allocation is to be evicted for others.
    pub(crate) fn keep_eviction(
        &mut self,
        of: DecidedFor<'_>,
        id: AllocationId,
        chosen: Option<&Chosen>,
        grounds: &Arc<Grounds>,
    ) {
        let Self { decisions, books, now_ns, .. } = self;
        let Some(way) = decisions.begin() else { return };
        let Some(entry) = books.allocations.get(id) else {
            debug_assert!(false, "a victim is in the table until it is gone");
            return;
        };
        way.is_of(of.leaf, of.id);
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

    fn keep(&mut self, spec: &AskSpec, node: NodeSlot, ruled: Ruled) {
        let Self { decisions, books, now_ns, .. } = self;
        let told = told(spec, books.nodes.id(node), ruled, *now_ns);
        Decisions::keep(decisions, &told);
    }
}

/// Notes, for each level of an offer's path, the child that came first and its runner-up.
fn levels(way: &mut Way, offer: &Offering) {
    for pair in offer.frames.windows(2) {
        let [above, below] = pair else { continue };
        let queue = above.facts.config.path.len();
        // Siblings have the same parent, so the runner-up is named without the parent's path.
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

/// Builds the report of an ask, or of its allocation.
fn told<'a>(spec: &'a AskSpec, node: &'a str, ruled: Ruled, at_ns: i64) -> Told<'a> {
    Told { at_ns, ruled, key: &spec.key, pod: spec.pod().map(|pod| &**pod), node }
}
