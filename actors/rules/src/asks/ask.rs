//! An ask of an application: its outstanding allocations, and its state so far.
//!
//! An application may have a hundred thousand asks, and few are ever refused. So the answers of
//! predicates are kept apart, behind one pointer ([`Refusals`]).

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use smallvec::SmallVec;

use super::failed_starts::FailedStarts;
use super::failures::FailureLog;
use super::preemption::Tries;
use super::search::Try;
use super::wish::AskWish;
use crate::nodes::{Domain, Exclusion, NodeIndex, NodeRequest, PassedBy};
use crate::order::keys::AskKey;
use crate::queues::figures::QueueTable;
use crate::specs::ask::{AskSpec, Shape};
use crate::values::epoch::{Epoch, Growth};
use crate::values::ids::{AllocationId, ClassId, NodeSlot};
use crate::values::rare::{Nothing, Rare};
use crate::values::resources::Sum;
use crate::values::retries::Retries;
use crate::waiting::WaitSet;
use crate::waiting::obstacle::refused;

/// Most different reasons that are kept of the refusals of one ask: they come from outside.
pub const REASONS_MAX: usize = 64;

/// An ask of an application. It dereferences to its specification.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug)]
pub struct Ask {
    /// The specification.
    pub spec: Arc<AskSpec>,
    /// Outstanding allocations.
    pub outstanding: u32,
    /// The time since when it counts as pending: its creation time, or its arrival if that is
    /// earlier, ns since the epoch. The clock of an RM may be ahead.
    pub created_ns: i64,
    /// Arrival, ns since the epoch; a request that replaces it does not change this.
    pub arrived_ns: i64,
    /// Order of arrival.
    pub sequence: u64,
    /// The outstanding instances were withdrawn.
    pub withdrawn: bool,
    /// The last try did not fit the quota of its queues.
    pub over_quota: bool,
    /// The last try did not fit the limits of its user and group.
    pub over_user_quota: bool,
    /// A scale-up signal was sent for it: once in its life.
    pub signalled: bool,
    /// Tried at least once with enough headroom by its user's limits.
    pub attempted: bool,
    /// In its last try, the RM did not answer for some nodes. So it is not known whether more
    /// machines would help.
    pub unanswered: bool,
    /// Allocations made from it that live.
    pub live: SmallVec<[AllocationId; 1]>,
    /// The next number to try in `<key>#n`.
    pub next_uuid: u32,
    /// The ask has a class of its own, which no other joins.
    pub(super) is_single: bool,
    pub(super) class: Option<ClassId>,
    /// State of a search that few asks need.
    pub search: Rare<Search>,
}

/// State of a search that few asks need.
#[derive(Debug, Default)]
pub struct Search {
    /// Placements that wait for their predicate, or for the placeholder whose place they take.
    pub unsettled: SmallVec<[AllocationId; 1]>,
    /// Preemption attempts.
    pub tries: Option<Box<Tries>>,
    /// The terms of the placement constraint.
    pub(super) wish: Option<Box<AskWish>>,
    /// The domain that its task group has chosen, if it is to stay in one; shared by the whole
    /// group.
    pub domain: Option<Arc<Domain>>,
    /// Refusals by predicates and the RM.
    pub(super) refusals: Option<Box<Refusals>>,
    /// Starts that failed since one succeeded.
    pub(super) starts: Option<Box<FailedStarts>>,
    /// The node that it has reserved.
    pub(super) reserved: Option<NodeSlot>,
    /// Its reservation is suspended: the node is open to all, since the ask could not run.
    pub(super) is_suspended: bool,
    /// The growths that passed it by, while its amount is more than all nodes have left together.
    pub(super) passed_by: Option<PassedBy>,
    /// Another ask reserved a node in its place.
    pub was_replaced: bool,
}

impl Nothing for Search {
    const NOTHING: &'static Self = &Self {
        unsettled: SmallVec::new_const(),
        tries: None,
        wish: None,
        domain: None,
        refusals: None,
        starts: None,
        reserved: None,
        is_suspended: false,
        passed_by: None,
        was_replaced: false,
    };
}

/// Refusals of an ask by predicates and the RM.
#[derive(Debug, Default)]
pub struct Refusals {
    /// The search in which some nodes have refused it since its last allocation, and the next are
    /// asked.
    trying: Option<Box<Try>>,
    /// Every node with capacity refused it, or the one it names did: it waits.
    rests: bool,
    /// The node that it has reserved refused it, and others are next.
    refused_at_reserved: bool,
    /// The node that it was to reserve refused the reservation.
    may_not_reserve: bool,
    /// The question whether it may reserve a node, while that is open.
    pub claim: Option<u64>,
    /// The reasons of predicates in its present search, each with the number of nodes.
    pub reasons: BTreeMap<String, u32>,
    /// The reasons when every node with room had refused it last; only for explanations.
    pub last_reasons: BTreeMap<String, u32>,
    /// The time of the next try without a change.
    pub retries: Retries,
    /// The time of the last report that predicates refused it, ns since the epoch.
    pub told_ns: Option<i64>,
    /// Nodes that the RM has refused for good: the ask does not use them until their time is over.
    pub excluded: Vec<Exclusion>,
    /// The reasons why it was not placed so far, while it is in no class that keeps them.
    pub(super) failures: Option<Box<FailureLog>>,
}

impl Ask {
    pub(super) fn new(
        spec: Arc<AskSpec>,
        outstanding: u32,
        arrived_ns: i64,
        sequence: u64,
    ) -> Self {
        Self {
            created_ns: spec.counted_creation_ns(arrived_ns),
            spec,
            outstanding,
            arrived_ns,
            sequence,
            withdrawn: false,
            over_quota: false,
            over_user_quota: false,
            signalled: false,
            attempted: false,
            unanswered: false,
            live: SmallVec::new(),
            next_uuid: 1,
            is_single: false,
            class: None,
            search: Rare::default(),
        }
    }

    /// The terms of its placement constraint, if it has one.
    pub fn wish(&self) -> Option<&AskWish> {
        self.search.wish.as_deref()
    }

    /// Returns the creation time as its RM stated it, or else its arrival, ns since the epoch: for
    /// people, since it may lie ahead.
    pub fn stated_creation_ns(&self) -> i64 {
        self.spec.created_ns.unwrap_or(self.arrived_ns)
    }

    /// Returns its position in the order of the asks of its application.
    pub fn order_key(&self) -> AskKey {
        AskKey::new(self.priority, self.created_ns, self.sequence)
    }

    /// Returns the request for a node that a search gets.
    pub fn request(&self) -> NodeRequest<'_> {
        debug_assert_eq!(
            self.spec.constraint.is_some(),
            self.search.wish.is_some(),
            "none is forgotten"
        );
        let request = NodeRequest {
            required: self.spec.required_node.as_deref(),
            own: self.search.reserved,
            wish: self.search.wish.as_deref().map(AskWish::wish),
            domains: self.search.domain.as_deref().map_or(&[], std::slice::from_ref),
            ..NodeRequest::of(&self.spec.resources)
        };
        match &self.search.refusals {
            Some(refusals) => NodeRequest { excluded: &refusals.excluded, ..request },
            None => request,
        }
    }

    /// The refusals, if there ever were any.
    pub fn refusals(&self) -> Option<&Refusals> {
        self.search.refusals.as_deref()
    }

    /// Mutable access to the refusals, which are created if there were none.
    pub fn refusals_mut(&mut self) -> &mut Refusals {
        self.search.make().refusals.get_or_insert_default()
    }

    /// Mutable access to the refusals, if there ever were any.
    pub fn noted_refusals(&mut self) -> Option<&mut Refusals> {
        self.search.find_mut()?.refusals.as_deref_mut()
    }

    /// Forgets its preemption attempts.
    pub fn forget_tries(&mut self) {
        if let Some(search) = self.search.find_mut() {
            search.tries = None;
        }
    }

    /// Sets the domain that its task group has chosen, or clears it.
    pub fn set_domain(&mut self, domain: Option<Arc<Domain>>) {
        if domain.is_some() {
            self.search.make().domain = domain;
        } else if let Some(search) = self.search.find_mut() {
            search.domain = None;
        }
    }

    /// Notes that a placement of it no longer waits for its predicate, or for a placeholder to end.
    pub(super) fn waits_no_longer(&mut self, placement: AllocationId) {
        if let Some(search) = self.search.find_mut() {
            search.unsettled.retain(|unsettled| *unsettled != placement);
        }
    }

    /// Returns its search for a node whose predicate passes, while some nodes have refused it and
    /// others have still to be asked.
    pub fn trying(&self) -> Option<&Try> {
        self.refusals()?.trying.as_deref()
    }

    /// Returns the search of [`Self::trying`], to be changed.
    pub fn trying_mut(&mut self) -> Option<&mut Try> {
        self.search.find_mut()?.refusals.as_mut()?.trying.as_deref_mut()
    }

    /// Returns the search of [`Self::trying`] if it holds in this era; otherwise one that begins
    /// now, at this growth of the node index.
    pub fn trying_since(&mut self, era: u64, growth: Growth) -> &mut Try {
        let refusals = self.refusals_mut();
        refusals.rests = false;
        let trying = refusals.trying.take().filter(|trying| trying.holds(era));
        refusals.trying.insert(trying.unwrap_or_else(|| Box::new(Try::new(era, growth))))
    }

    /// Whether every node with capacity has refused it, or the one it names: it waits.
    pub fn is_resting(&self) -> bool {
        self.refusals().is_some_and(|refusals| refusals.rests)
    }

    /// Notes that it found no node. Growths that leave no capacity for it are counted from now on,
    /// if its amount is more than all nodes have left together.
    pub fn count_passed_by(&mut self, nodes: &NodeIndex) {
        let counted = match self.search.passed_by {
            Some(before) => nodes.passed_by(&self.request(), before),
            None if nodes.is_free_in_all(&self.resources) => return,
            None => PassedBy { at: nodes.growth(), times: 0 },
        };
        self.search.make().passed_by = Some(counted);
    }

    /// The growths that passed it by, as counted at its last try.
    pub fn passed_by(&self) -> PassedBy {
        self.search.passed_by.unwrap_or_default()
    }

    /// Whether it would be [passed by](PassedBy::is_enough) if it were tried now.
    pub fn is_passed_by(&self, nodes: &NodeIndex) -> bool {
        self.search.passed_by.is_some_and(|it| nodes.passed_by(&self.request(), it).is_enough())
    }

    /// Whether it has a node reserved.
    pub fn is_reserved(&self) -> bool {
        self.search.reserved.is_some()
    }

    /// Whether the node that it has reserved refused it at the last question, and nothing has
    /// changed since.
    pub fn is_refused_at_reserved(&self) -> bool {
        self.refusals().is_some_and(|refusals| refusals.refused_at_reserved)
    }

    /// Notes that the node that it has reserved refused it.
    pub fn refuse_at_reserved(&mut self) {
        self.refusals_mut().refused_at_reserved = true;
    }

    /// Whether the node that it was to reserve refused the reservation, and nothing has changed
    /// since.
    pub fn may_not_reserve(&self) -> bool {
        self.refusals().is_some_and(|refusals| refusals.may_not_reserve)
    }

    /// Notes that the node that it was to reserve refused the reservation.
    pub fn forbid_to_reserve(&mut self) {
        self.refusals_mut().may_not_reserve = true;
    }

    /// Takes the open question whether it may reserve a node, if there is one.
    pub fn take_claim(&mut self) -> Option<u64> {
        self.noted_refusals()?.claim.take()
    }

    /// No node was found for it.
    pub fn found_no_node(&mut self) {
        self.begin_anew();
        self.attempted = true;
    }

    /// Every node that was asked has refused it, for these reasons.
    pub fn refused_by_all(&mut self, reasons: BTreeMap<String, u32>) {
        self.attempted = true;
        if !reasons.is_empty() || self.refusals().is_some() {
            self.refusals_mut().reasons = reasons;
        }
    }

    /// Adds the reasons of predicates, each with a number of nodes, to those of its present search.
    pub fn note_reasons(&mut self, reasons: Vec<(String, u32)>) {
        let noted = &mut self.refusals_mut().reasons;
        for (reason, nodes) in reasons {
            if noted.len() < REASONS_MAX || noted.contains_key(&reason) {
                let count = noted.entry(reason).or_default();
                *count = count.saturating_add(nodes);
            }
        }
    }

    /// What it waits for, as part of `waits`, also because it may come to use a node that another has
    /// reserved. An ask that requires its node uses no other.
    pub fn or_to_borrow(&self, waits: WaitSet, leaf: u32, queues: &QueueTable) -> WaitSet {
        if self.required_node.is_some() {
            return waits;
        }
        waits.or_to_borrow(self.priority, leaf, queues)
    }

    /// What it waits for after every node with room refused it up to this epoch, or the one that it
    /// requires.
    pub fn waits_refused(&self, at: Epoch, leaf: u32, queues: &QueueTable) -> WaitSet {
        let parked = Box::new(refused(&self.spec, at));
        self.or_to_borrow(WaitSet::Parked(parked), leaf, queues)
    }

    /// Notes that every node with capacity has refused it, or the one it names.
    pub fn rest(&mut self) {
        let refusals = self.refusals_mut();
        (refusals.trying, refusals.rests) = (None, true);
    }

    /// Whether no answer of a predicate about it still counts.
    pub fn is_fresh(&self) -> bool {
        self.refusals().is_none_or(|refusals| {
            refusals.trying.is_none() && !refusals.rests && !refusals.refused_at_reserved
        })
    }

    /// Forgets the refusals of predicates.
    pub fn refresh(&mut self) {
        if let Some(refusals) = self.noted_refusals() {
            (refusals.trying, refusals.rests) = (None, false);
            (refusals.refused_at_reserved, refusals.may_not_reserve) = (false, false);
        }
    }

    /// Begins the search for a node again.
    pub fn begin_anew(&mut self) {
        self.unanswered = false;
        self.refresh();
        if let Some(refusals) = self.noted_refusals() {
            refusals.reasons.clear();
        }
    }

    /// Whether nothing of it is allocated, waits for an answer, or is outstanding.
    pub fn is_over(&self) -> bool {
        self.outstanding == 0 && self.live.is_empty() && self.search.unsettled.is_empty()
    }

    /// Returns the number of allocations still to come: outstanding, or waiting for their
    /// predicate.
    pub fn still_to_come(&self) -> i64 {
        let unsettled = i64::try_from(self.search.unsettled.len()).unwrap_or(i64::MAX);
        i64::from(self.outstanding).saturating_add(unsettled)
    }

    /// Lets it join the class of its shape again, unless it may not use nodes that the others may,
    /// has one reserved, or could not be started.
    pub(super) fn join_others(&mut self) {
        let is_excluded = self.refusals().is_some_and(|refusals| !refusals.excluded.is_empty());
        self.is_single = is_excluded || self.is_reserved() || self.starts().is_some();
    }

    /// The outstanding amount.
    pub(super) fn pending(&self) -> Sum {
        Sum::times(&self.spec.resources, i64::from(self.outstanding))
    }

    pub(super) fn shape(&self) -> Shape {
        Shape::of(&self.spec, if self.is_single { self.sequence } else { 0 })
    }

    /// Whether it was tried, and lacks perhaps only machines.
    pub(super) fn lacks_machines(&self) -> bool {
        self.attempted && !self.unanswered
    }

    /// Forgets the reasons why it was not placed so far.
    pub(super) fn forget_failures(&mut self) {
        if let Some(refusals) = self.noted_refusals() {
            refusals.failures = None;
        }
    }

    /// Forgets refusals and growths that passed it by, for its next allocation.
    pub(super) fn forget_refusals(&mut self) {
        self.begin_anew();
        if let Some(search) = self.search.find_mut() {
            (search.passed_by, search.was_replaced) = (None, false);
        }
        if let Some(refusals) = self.noted_refusals() {
            refusals.retries.passed();
        }
    }
}

impl Deref for Ask {
    type Target = AskSpec;

    fn deref(&self) -> &AskSpec {
        &self.spec
    }
}
