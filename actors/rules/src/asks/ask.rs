//! An ask of an application: its outstanding allocations, and the state of its search.
//!
//! An application may have a hundred thousand asks, and few are ever refused. So the answers of
//! predicates are stored separately, behind one pointer ([`Refusals`]).

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
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
use crate::values::usual::is_usual;
use crate::waiting::WaitSet;
use crate::waiting::obstacle::refused;

/// The most different reasons of refusals that are kept for one ask: they come from outside.
pub const REASONS_MAX: usize = 64;

/// An ask of an application. It dereferences to its specification.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ask {
    /// The specification.
    pub spec: Arc<AskSpec>,
    /// The number of outstanding allocations.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub outstanding: u32,
    /// The time since when it counts as pending, ns since the epoch: its creation time, or its
    /// arrival if that is earlier. The clock of an RM may be ahead.
    pub created_ns: i64,
    /// The time of arrival, ns since the epoch; a request that replaces it does not change this.
    pub arrived_ns: i64,
    /// The number of its arrival.
    pub sequence: u64,
    /// Whether outstanding instances were withdrawn.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub withdrawn: bool,
    /// Whether its last try did not fit the quotas of its queues.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub over_quota: bool,
    /// Whether its last try did not fit the limits of its user and group.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub over_user_quota: bool,
    /// Whether a scale-up signal was sent for it, which is done once in its life.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub signalled: bool,
    /// Whether it was tried at least once with enough headroom under its user's limits.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub attempted: bool,
    /// Whether the RM did not answer for some nodes in its last try. Then it is not known whether
    /// more machines would help.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub unanswered: bool,
    /// The live allocations that were made from it.
    #[serde(default, skip_serializing_if = "SmallVec::is_empty")]
    pub live: SmallVec<[AllocationId; 1]>,
    /// The next number to try in `<key>#n`.
    pub next_uuid: u32,
    /// Whether it has a class of its own, which no other ask joins.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub(super) is_single: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) class: Option<ClassId>,
    /// The state of a search that few asks need.
    #[serde(default, skip_serializing_if = "Rare::is_nothing")]
    pub search: Rare<Search>,
}

/// The state of a search that few asks need.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Search {
    /// The placements that wait for their predicate, or for the placeholder that they replace.
    #[serde(default, skip_serializing_if = "SmallVec::is_empty")]
    pub unsettled: SmallVec<[AllocationId; 1]>,
    /// The preemption attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tries: Option<Box<Tries>>,
    /// The terms of the placement constraint that it has to meet now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) wish: Option<Box<AskWish>>,
    /// The domain that its task group has chosen, if the group has to be in one; shared by the
    /// whole group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Arc<Domain>>,
    /// The refusals by predicates and the RM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refusals: Option<Box<Refusals>>,
    /// The starts that failed since the last successful one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) starts: Option<Box<FailedStarts>>,
    /// The node that it has reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reserved: Option<NodeSlot>,
    /// Whether its reservation is suspended: the node is open to all, since the ask could not run
    /// there.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub(super) is_suspended: bool,
    /// The growths that passed it by, if its amount is more than the free capacity of all nodes
    /// together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) passed_by: Option<PassedBy>,
    /// Whether another ask reserved a node instead of it.
    #[serde(default, skip_serializing_if = "is_usual")]
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

/// The refusals of an ask by predicates and the RM.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Refusals {
    /// The search in which predicates have refused some nodes since its last allocation, and
    /// further nodes are asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trying: Option<Box<Try>>,
    /// Whether predicates refused every node with capacity, or the node that it requires: it waits.
    #[serde(default, skip_serializing_if = "is_usual")]
    rests: bool,
    /// Whether its predicate refused the node that it has reserved, so that other nodes are next.
    #[serde(default, skip_serializing_if = "is_usual")]
    refused_at_reserved: bool,
    /// Whether the RM refused its reservation of a node.
    #[serde(default, skip_serializing_if = "is_usual")]
    may_not_reserve: bool,
    /// The number of the open question whether it may reserve a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<u64>,
    /// The reasons of predicates in its present search, each with the number of nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<String, u32>,
    /// The reasons from the last time that predicates refused every node with room; only for
    /// explanations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub last_reasons: BTreeMap<String, u32>,
    /// The schedule of tries without a change.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub retries: Retries,
    /// The time of the last report that predicates refused it, ns since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_ns: Option<i64>,
    /// The nodes that the RM has refused for good: the ask does not use them until the exclusion
    /// ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<Exclusion>,
    /// The reasons why it was not placed, while it is in no class that keeps them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

    /// Returns the terms of its placement constraint, if it has one.
    pub fn wish(&self) -> Option<&AskWish> {
        self.search.wish.as_deref()
    }

    /// Returns the creation time as its RM stated it, or else its arrival, ns since the epoch. It
    /// is only shown, since it may be in the future.
    pub fn stated_creation_ns(&self) -> i64 {
        self.spec.created_ns.unwrap_or(self.arrived_ns)
    }

    /// Returns its position in the order of the asks of its application.
    pub fn order_key(&self) -> AskKey {
        AskKey::new(self.priority, self.created_ns, self.sequence)
    }

    /// Returns the request for a node with which a search is made.
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

    /// Returns the refusals, if there ever were any.
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

    /// Drops its preemption attempts.
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

    /// Records that a placement of it no longer waits for its predicate, or for a placeholder to
    /// end.
    pub(super) fn waits_no_longer(&mut self, placement: AllocationId) {
        if let Some(search) = self.search.find_mut() {
            search.unsettled.retain(|unsettled| *unsettled != placement);
        }
    }

    /// Returns its search for a node whose predicate passes, if predicates have refused some nodes
    /// and others have still to be asked about.
    pub fn trying(&self) -> Option<&Try> {
        self.refusals()?.trying.as_deref()
    }

    /// Returns the search of [`Self::trying`], to be changed.
    pub fn trying_mut(&mut self) -> Option<&mut Try> {
        self.search.find_mut()?.refusals.as_mut()?.trying.as_deref_mut()
    }

    /// Returns the search of [`Self::trying`] if its refusals hold in this era; otherwise a new
    /// one, begun at this growth of the node index.
    pub fn trying_since(&mut self, era: u64, growth: Growth) -> &mut Try {
        let refusals = self.refusals_mut();
        refusals.rests = false;
        let trying = refusals.trying.take().filter(|trying| trying.holds(era));
        refusals.trying.insert(trying.unwrap_or_else(|| Box::new(Try::new(era, growth))))
    }

    /// Whether predicates refused every node with capacity, or the node that it requires: it waits.
    pub fn is_resting(&self) -> bool {
        self.refusals().is_some_and(|refusals| refusals.rests)
    }

    /// Records that it found no node. If its amount is more than the free capacity of all nodes
    /// together, growths that leave too little for it are counted from now on.
    pub fn count_passed_by(&mut self, nodes: &NodeIndex) {
        let counted = match self.search.passed_by {
            Some(before) => nodes.passed_by(&self.request(), before),
            None if nodes.is_free_in_all(&self.resources) => return,
            None => PassedBy { at: nodes.growth(), times: 0 },
        };
        self.search.make().passed_by = Some(counted);
    }

    /// Returns the growths that passed it by, as counted at its last try.
    pub fn passed_by(&self) -> PassedBy {
        self.search.passed_by.unwrap_or_default()
    }

    /// Whether enough growths have [passed it by](PassedBy::is_enough), counted up to now.
    pub fn is_passed_by(&self, nodes: &NodeIndex) -> bool {
        self.search.passed_by.is_some_and(|it| nodes.passed_by(&self.request(), it).is_enough())
    }

    /// Whether it has a node reserved.
    pub fn is_reserved(&self) -> bool {
        self.search.reserved.is_some()
    }

    /// Whether its predicate refused the node that it has reserved at the last question, and there
    /// was no change since.
    pub fn is_refused_at_reserved(&self) -> bool {
        self.refusals().is_some_and(|refusals| refusals.refused_at_reserved)
    }

    /// Records that its predicate refused the node that it has reserved.
    pub fn refuse_at_reserved(&mut self) {
        self.refusals_mut().refused_at_reserved = true;
    }

    /// Whether the RM refused its reservation of a node, and there was no change since.
    pub fn may_not_reserve(&self) -> bool {
        self.refusals().is_some_and(|refusals| refusals.may_not_reserve)
    }

    /// Records that the RM refused its reservation of a node.
    pub fn forbid_to_reserve(&mut self) {
        self.refusals_mut().may_not_reserve = true;
    }

    /// Removes and returns the open question whether it may reserve a node, if there is one.
    pub fn take_claim(&mut self) -> Option<u64> {
        self.noted_refusals()?.claim.take()
    }

    /// Records that no node was found for it.
    pub fn found_no_node(&mut self) {
        self.begin_again();
        self.attempted = true;
    }

    /// Records that predicates refused every node that was asked about, for these reasons.
    pub fn refused_by_all(&mut self, reasons: BTreeMap<String, u32>) {
        self.attempted = true;
        if !reasons.is_empty() || self.refusals().is_some() {
            self.refusals_mut().reasons = reasons;
        }
    }

    /// Adds reasons of predicates to those of its present search, each with a number of nodes.
    pub fn note_reasons(&mut self, reasons: Vec<(String, u32)>) {
        let noted = &mut self.refusals_mut().reasons;
        for (reason, nodes) in reasons {
            if noted.len() < REASONS_MAX || noted.contains_key(&reason) {
                let count = noted.entry(reason).or_default();
                *count = count.saturating_add(nodes);
            }
        }
    }

    /// Returns `waits`, extended by the case that the ask may use a node which another ask has
    /// reserved. An ask that requires its node uses no other.
    pub fn or_to_borrow(&self, waits: WaitSet, leaf: u32, queues: &QueueTable) -> WaitSet {
        if self.required_node.is_some() {
            return waits;
        }
        waits.or_to_borrow(self.priority, leaf, queues)
    }

    /// Returns the bound of the ask after predicates refused every node with room up to this epoch,
    /// or the node that it requires.
    pub fn waits_refused(&self, at: Epoch, leaf: u32, queues: &QueueTable) -> WaitSet {
        let parked = Box::new(refused(&self.spec, at));
        self.or_to_borrow(WaitSet::Parked(parked), leaf, queues)
    }

    /// Records that predicates refused every node with capacity, or the node that it requires.
    pub fn rest(&mut self) {
        let refusals = self.refusals_mut();
        (refusals.trying, refusals.rests) = (None, true);
    }

    /// Whether no refusal of a predicate counts any more.
    pub fn is_fresh(&self) -> bool {
        self.refusals().is_none_or(|refusals| {
            refusals.trying.is_none() && !refusals.rests && !refusals.refused_at_reserved
        })
    }

    /// Drops the refusals of predicates, and the refusal of a reservation.
    pub fn refresh(&mut self) {
        if let Some(refusals) = self.noted_refusals() {
            (refusals.trying, refusals.rests) = (None, false);
            (refusals.refused_at_reserved, refusals.may_not_reserve) = (false, false);
        }
    }

    /// Begins the search for a node again.
    pub fn begin_again(&mut self) {
        self.unanswered = false;
        self.refresh();
        if let Some(refusals) = self.noted_refusals() {
            refusals.reasons.clear();
        }
    }

    /// Whether it has no outstanding instance, no placement that waits, and no live allocation.
    pub fn is_over(&self) -> bool {
        self.outstanding == 0 && self.live.is_empty() && self.search.unsettled.is_empty()
    }

    /// Returns the number of its allocations that are still to be made: outstanding, or waiting for
    /// their predicate.
    pub fn still_to_come(&self) -> i64 {
        let unsettled = i64::try_from(self.search.unsettled.len()).unwrap_or(i64::MAX);
        i64::from(self.outstanding).saturating_add(unsettled)
    }

    /// Lets it join the class of its shape again, unless it may not use nodes that the others may,
    /// has a reserved node, or has failed starts.
    pub(super) fn join_others(&mut self) {
        let is_excluded = self.refusals().is_some_and(|refusals| !refusals.excluded.is_empty());
        self.is_single = is_excluded || self.is_reserved() || self.starts().is_some();
    }

    /// Returns the outstanding amount.
    pub(super) fn pending(&self) -> Sum {
        Sum::times(&self.spec.resources, i64::from(self.outstanding))
    }

    pub(super) fn shape(&self) -> Shape {
        Shape::of(&self.spec, if self.is_single { self.sequence } else { 0 })
    }

    /// Whether it was tried, and may lack only machines.
    pub(super) fn lacks_machines(&self) -> bool {
        self.attempted && !self.unanswered
    }

    /// Drops the reasons why it was not placed.
    pub(super) fn forget_failures(&mut self) {
        if let Some(refusals) = self.noted_refusals() {
            refusals.failures = None;
        }
    }

    /// Drops refusals and growths that passed it by, for its next allocation.
    pub(super) fn forget_refusals(&mut self) {
        self.begin_again();
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
