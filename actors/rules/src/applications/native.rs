//! A gang with declared members: the members that have no ask of their own, and whether all have
//! places (`docs/gangs.md#declared-gangs`).
//!
//! # Internal asks and holds
//! The scheduler itself makes an ask for every member that its RM has not asked for yet: one
//! *internal ask* for each group, with as many instances as members are missing. When all members
//! get their places at once, placements of internal asks become *holds*: allocations that keep a
//! place for a member until its real ask takes it. For every sum, order and limit both count like
//! placeholders. The RM is never notified of them, and they have no key or UUID of the RM.
//!
//! # Invariants
//! * While the gang is undecided, the internal ask of a group has as many instances outstanding as
//!   the group needs members beyond those of real asks ([`Gang::complete`]).
//! * A decided gang has no internal ask.
//!
//! # After a restart
//! If members of a gang run already, an earlier scheduler decided it, and the places that it held
//! are lost. The RM may report how many are to be held again ([`HoldAgain`]). Then the gang is
//! undecided once more, but only for this number of members, and accepts fewer places if there are
//! not enough.
//!
//! [`Gang::complete`]: super::gang::Gang::complete

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::asks::failed_starts::FailedStarts;
use crate::asks::{Asks, Bundled};
use crate::nodes::{Domain, Terms};
use crate::specs::ask::{AskSpec, Form, TaskGroup};
use crate::specs::declaration::{Declaration, DeclaredGroup, Topology};
use crate::specs::hold_again::HoldAgain;
use crate::values::ids::{AllocationId, AskSlot};
use crate::values::resources::Resources;

/// The members that an application declared, and the state of their gang.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Native {
    groups: Vec<NativeGroup>,
    /// Whether the members have their places.
    pub stage: Stage,
    /// The places that are held for members.
    pub holds: BTreeSet<AllocationId>,
    /// Whether a member has replaced its hold, or was placed without one: the others need not be
    /// placed together any more.
    pub has_real: bool,
    /// Whether places were held for as long as they may be.
    pub is_over: bool,
    /// Whether a member has run. It has if it was reported, ended otherwise than by a failed start,
    /// or was not given back for the longest back-off.
    pub has_run: bool,
    /// The failed starts of the gang as a whole since a member ran; one for each time that no
    /// member could be started.
    pub starts: Option<Box<FailedStarts>>,
    /// The sum of `lost` over all groups.
    n_lost: u64,
    /// The places that an earlier scheduler held for it, if the RM reported them.
    held_before: Option<HeldBefore>,
}

/// The places that an earlier scheduler held for a gang of which some members run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HeldBefore {
    /// The time since when the places are held, ns since the epoch.
    since_ns: i64,
    /// Whether they are still searched.
    is_sought: bool,
}

/// The cause of the end of a member's allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It ended by itself, or its RM stopped it.
    Ended,
    /// It was lost with its node, preempted, or failed.
    Lost,
    /// The allocation could not be started.
    NotStarted,
}

impl Departure {
    /// Whether the member is to be replaced before others are placed.
    fn is_loss(self) -> bool {
        self != Self::Ended
    }
}

/// Whether the members of a gang have their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// No member has a place: places are searched.
    Undecided,
    /// All members have places in the scheduler, and the RM's predicates are asked.
    InFlight,
    /// All members have places.
    Decided,
}

/// The members of one task group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NativeGroup {
    /// The name.
    pub name: TaskGroup,
    /// The number of members that it needs.
    pub min_members: u32,
    /// The number of members for which places are searched together. It is less than the group
    /// needs only while places that an earlier scheduler held are to be held again.
    wanted: u32,
    /// The specification of the internal ask for members without an ask. `None`: there is none, and
    /// the gang waits for the asks of its members.
    pub spec: Option<Arc<AskSpec>>,
    /// The internal ask of the group, until the gang is decided.
    pub ask: Option<AskSlot>,
    /// The constraint of its members, ready for searches. It is kept as long as the application
    /// exists, so that places can be searched again if the holds are lost.
    #[serde(with = "crate::nodes::by_constraint")]
    pub terms: Option<Arc<Terms>>,
    /// The topology of its members.
    pub topology: Option<Arc<Topology>>,
    /// The domain of all members, if they have to be in one and it is chosen.
    pub domain: Option<Arc<Domain>>,
    /// Whether the domain was chosen with a bundle that may still be withdrawn.
    is_domain_tentative: bool,
    /// The number of members that were reported to run, by domain, if the domain was chosen before
    /// this scheduler started.
    reported: BTreeMap<Arc<str>, u32>,
    /// The number in the name of the last hold.
    last_hold: u64,
    /// The number of members that have an allocation. Held places are not counted.
    members: u32,
    /// The number of lost members that have no successor yet. A loss counts only if it left the
    /// group with too few members.
    lost: u32,
}

/// A group whose members have no size has too few asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingAsks {
    /// The group.
    pub group: TaskGroup,
    /// The number of missing asks.
    pub missing: u64,
}

impl Native {
    /// Builds an undecided gang.
    pub fn new(declaration: &Declaration) -> Self {
        Self {
            groups: declaration.groups().iter().map(NativeGroup::new).collect(),
            stage: Stage::Undecided,
            holds: BTreeSet::new(),
            has_real: false,
            is_over: false,
            has_run: false,
            starts: None,
            n_lost: 0,
            held_before: None,
        }
    }

    /// Starts the search for places that an earlier scheduler held, for each group less the places
    /// that are held now (`held`). A group whose members have no size had none, and no group had
    /// more than the members that it lacks.
    pub(super) fn hold_again(
        &mut self,
        again: &HoldAgain,
        held: impl Fn(&TaskGroup) -> u64,
        now_ns: i64,
    ) {
        let since_ns = again.since_ns.map_or(now_ns, |since_ns| since_ns.min(now_ns));
        self.held_before = Some(HeldBefore { since_ns, is_sought: true });
        for group in &mut self.groups {
            let most = if group.spec.is_some() { group.lacks(0) } else { 0 };
            let most = u32::try_from(most).unwrap_or(u32::MAX);
            let held = u32::try_from(held(&group.name)).unwrap_or(u32::MAX);
            group.wanted = again.places_of(&group.name).min(most).saturating_sub(held);
        }
    }

    /// Whether places that an earlier scheduler held are searched.
    pub fn holds_again(&self) -> bool {
        self.held_before.is_some_and(|before| before.is_sought)
    }

    /// Returns the time since when its places are held, if an earlier scheduler held them, ns since
    /// the epoch.
    pub fn held_since_ns(&self) -> Option<i64> {
        self.held_before.map(|before| before.since_ns)
    }

    /// Records that places are held for its members, or that none are. Returns whether places that
    /// an earlier scheduler held were searched.
    pub fn decide(&mut self) -> bool {
        (self.stage, self.is_over) = (Stage::Decided, false);
        for group in &mut self.groups {
            (group.wanted, group.is_domain_tentative) = (group.min_members, false);
        }
        let before = self.held_before.as_mut();
        before.is_some_and(|before| std::mem::take(&mut before.is_sought))
    }

    /// Lets places for all members be searched together: those of an earlier scheduler do not
    /// matter any more.
    pub fn forget_held_before(&mut self) {
        self.held_before = None;
        for group in &mut self.groups {
            group.wanted = group.min_members;
        }
    }

    /// Returns the number of members for which places are searched.
    pub fn wanted(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.wanted)).sum()
    }

    /// Reduces the number of places that are searched for the group by `fewer`.
    pub fn settle_for_fewer(&mut self, name: &TaskGroup, fewer: u64) {
        let fewer = u32::try_from(fewer).unwrap_or(u32::MAX);
        if let Some(group) = self.group_mut(name) {
            group.wanted = group.wanted.saturating_sub(fewer);
        }
    }

    /// Reduces the number of places that are searched by `fewer`, in the last groups first.
    pub fn settle_for_fewer_in_all(&mut self, mut fewer: u64) {
        for group in self.groups.iter_mut().rev() {
            let taken = u32::try_from(fewer).unwrap_or(u32::MAX).min(group.wanted);
            group.wanted -= taken;
            fewer -= u64::from(taken);
        }
    }

    /// Returns the amount for which places are searched, less `fewer` members of the last groups.
    pub fn amount_without(&self, mut fewer: u64) -> Resources {
        let mut amount = Resources::new();
        for group in self.groups.iter().rev() {
            let wanted = u64::from(group.wanted);
            let left = wanted.saturating_sub(fewer);
            fewer = fewer.saturating_sub(wanted);
            if let Some(spec) = &group.spec {
                let left = i64::try_from(left).unwrap_or(i64::MAX);
                amount.add(&spec.resources.times(left));
            }
        }
        amount
    }

    /// Returns the groups, as declared.
    pub fn groups(&self) -> &[NativeGroup] {
        &self.groups
    }

    /// The groups, to be changed.
    pub fn groups_mut(&mut self) -> &mut [NativeGroup] {
        &mut self.groups
    }

    /// Returns the group with this name.
    pub fn group(&self, name: &TaskGroup) -> Option<&NativeGroup> {
        self.groups.iter().find(|declared| declared.name == *name)
    }

    /// Whether the gang has this group.
    pub fn has(&self, group: &TaskGroup) -> bool {
        self.group(group).is_some()
    }

    /// Counts a member of the group that has an allocation now. It succeeds a lost member, if there
    /// is one, unless it `took_a_place` that was held.
    pub fn joined(&mut self, group: &TaskGroup, took_a_place: bool) {
        let Some(group) = self.group_mut(group) else { return };
        group.members += 1;
        if !took_a_place && group.lost > 0 {
            group.lost -= 1;
            self.n_lost -= 1;
        }
    }

    /// Counts the end of a member's allocation; `held` is the number of places that are held for
    /// the group. Returns whether the member was lost and the group has fewer than it needs.
    pub fn left(&mut self, group: &TaskGroup, departure: Departure, held: u64) -> bool {
        let Some(of) = self.group_mut(group) else { return false };
        of.members = of.members.saturating_sub(1);
        departure.is_loss() && self.lost_one(group, held)
    }

    /// Counts the loss of a member, or of a place that was held for one; `held` is the number of
    /// places that are still held. Returns whether the group has fewer members than it needs.
    pub fn lost_one(&mut self, group: &TaskGroup, held: u64) -> bool {
        let is_decided = self.stage == Stage::Decided;
        let Some(group) = self.group_mut(group) else { return false };
        let counts = is_decided && group.lacks(held) > 0 && group.lost < group.min_members;
        if counts {
            group.lost += 1;
            self.n_lost += 1;
        }
        counts
    }

    /// Returns the number of lost members of all groups that have no successor yet.
    pub fn n_lost(&self) -> u64 {
        self.n_lost
    }

    /// Records that a place is held for a member of the group with this index. Returns the name of
    /// the hold.
    pub fn hold(&mut self, group: usize, id: AllocationId) -> Arc<str> {
        self.holds.insert(id);
        self.groups[group].next_hold()
    }

    /// Counts a real allocation of this group that is reported while the gang is undecided: an
    /// earlier scheduler decided the gang, and the member has one of the places that it held.
    /// Returns whether places are still searched.
    pub fn real_reported(&mut self, group: Option<&TaskGroup>) -> bool {
        self.has_real = true;
        if !self.holds_again() {
            return false;
        }
        if let Some(group) = group {
            self.settle_for_fewer(group, 1);
        }
        self.wanted() > 0
    }

    /// Resets the count of lost members, for a gang that is undecided again: places for all its
    /// members are searched together.
    pub fn forget_lost(&mut self) {
        for group in &mut self.groups {
            group.lost = 0;
        }
        self.n_lost = 0;
    }

    /// Records that a member has run, and drops the failed starts of the gang.
    pub fn runs(&mut self) {
        self.has_run = true;
        self.starts = None;
    }

    /// Whether members had allocations, none ever ran, and no allocation is left that may run.
    pub fn could_not_be_started(&self) -> bool {
        let has_members = || self.groups.iter().any(|group| group.members > 0);
        self.stage == Stage::Decided && self.has_real && !self.has_run && !has_members()
    }

    /// Whether the gang backs off because no member could be started.
    pub fn backs_off(&self) -> bool {
        self.starts.as_ref().is_some_and(|starts| starts.until_ns().is_some())
    }

    fn group_mut(&mut self, name: &TaskGroup) -> Option<&mut NativeGroup> {
        self.groups.iter_mut().find(|declared| declared.name == *name)
    }

    /// Returns the asks that are decided together: of each group the first in order, as many as it
    /// needs, then the internal one.
    ///
    /// # Errors
    /// A group whose members have no size has fewer asks than members.
    pub fn bundle(&self, asks: &Asks) -> Result<Bundled, MissingAsks> {
        self.groups.iter().map(|group| group.bundle(asks)).collect()
    }
}

impl NativeGroup {
    fn new(declared: &DeclaredGroup) -> Self {
        let spec = declared.member.as_ref().map(|member| {
            let spec = AskSpec {
                priority: declared.priority,
                preemption: declared.preemption,
                placeholder: true,
                form: Form::Internal,
                tags: declared.tags.clone(),
                ..AskSpec::new("", member.clone())
            };
            Arc::new(spec.with(|it| {
                it.task_group = Some(Arc::clone(&declared.name));
                it.required_node.clone_from(&declared.required_node);
                it.constraint = declared.ask_constraint();
            }))
        });
        Self {
            name: Arc::clone(&declared.name),
            min_members: u32::try_from(declared.min_members).unwrap_or(u32::MAX),
            wanted: u32::try_from(declared.min_members).unwrap_or(u32::MAX),
            spec,
            ask: None,
            terms: None,
            topology: declared.topology.clone().map(Arc::new),
            domain: None,
            is_domain_tentative: false,
            reported: BTreeMap::new(),
            last_hold: 0,
            members: 0,
            lost: 0,
        }
    }

    /// The number of members that have an allocation. Held places are not counted.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// The number of lost members that have no successor yet.
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// Returns the number of members that it lacks if `held` places are held for it.
    pub fn lacks(&self, held: u64) -> u64 {
        u64::from(self.min_members).saturating_sub(u64::from(self.members).saturating_add(held))
    }

    /// Returns the number of members for which places are searched together, while the gang is
    /// undecided.
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// Returns the number of these members that have no ask of their own.
    pub fn missing(&self, asks: &Asks) -> u32 {
        let there = u32::try_from(asks.outstanding_members(&self.name)).unwrap_or(u32::MAX);
        self.wanted.saturating_sub(there)
    }

    /// Returns the attribute that has to have one value on the nodes of all members.
    pub fn required_domain(&self) -> Option<&str> {
        self.topology.as_ref()?.required.as_deref()
    }

    /// Returns the topology to be met; `None` if the domain is already fixed.
    pub fn sought_topology(&self) -> Option<&Arc<Topology>> {
        self.topology.as_ref().filter(|_| self.domain.is_none())
    }

    /// Chooses a domain for its members, until a bundle in it is decided or withdrawn.
    pub fn choose_domain(&mut self, domain: Domain) {
        (self.domain, self.is_domain_tentative) = (Some(Arc::new(domain)), true);
    }

    /// Drops the domain for a new search, unless members run in it.
    pub fn forget_domain(&mut self) {
        if self.members == 0 {
            self.domain = None;
            self.reported.clear();
        } else if self.is_domain_tentative {
            self.domain = None;
        }
    }

    /// Counts a member that is reported to run where the required attribute has this value. If this
    /// scheduler did not choose the domain, it is the one with most members, of several the first
    /// by value. Returns whether the domain changed.
    pub fn member_reported(&mut self, value: &str) -> bool {
        let Some(key) = self.topology.as_ref().and_then(|it| it.required.as_deref()) else {
            return false;
        };
        if self.domain.is_some() && self.reported.is_empty() {
            return false;
        }
        *self.reported.entry(Arc::from(value)).or_default() += 1;
        let most = self.reported.iter().rev().max_by_key(|(_, members)| **members);
        let Some((value, _)) = most else { return false };
        let domain = Domain::new(key, value);
        let is_other = self.domain.as_deref() != Some(&domain);
        self.domain = Some(Arc::new(domain));
        is_other
    }

    /// Returns the name of the next hold, which is shown to people.
    fn next_hold(&mut self) -> Arc<str> {
        self.last_hold += 1;
        Arc::from(format!("{}~{}", self.name, self.last_hold))
    }

    fn bundle(&self, asks: &Asks) -> Result<Vec<(AskSlot, u32)>, MissingAsks> {
        let mut bundled = Vec::new();
        let mut needed = self.wanted;
        for (slot, outstanding) in asks.members_of(&self.name) {
            let taken = outstanding.min(needed);
            if taken == 0 {
                break;
            }
            needed -= taken;
            bundled.push((slot, taken));
        }
        match self.ask {
            Some(slot) if needed > 0 => bundled.push((slot, needed)),
            None if needed > 0 => {
                let (group, missing) = (Arc::clone(&self.name), u64::from(needed));
                return Err(MissingAsks { group, missing });
            }
            _ => {}
        }
        Ok(bundled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applications::gang::Gang;
    use crate::values::resources::Sum;

    fn vcores(n: i64) -> Resources {
        Resources::of(&[("vcore", n)])
    }

    fn member(key: &str, group: &str, instances: u32) -> AskSpec {
        let task_group = Some(TaskGroup::new(group.to_owned()));
        let spec = AskSpec { instances, ..AskSpec::new(key, vcores(1)) };
        spec.with(|it| it.task_group = task_group)
    }

    /// Returns a gang of four workers of two cores and one driver of any size.
    fn gang(asks: &mut Asks) -> Gang {
        let worker = DeclaredGroup::new("w", 4, Some(vcores(2)));
        let declaration = Declaration::new(vec![worker, DeclaredGroup::new("d", 1, None)]);
        let mut gang = Gang::declared(&declaration.unwrap());
        for group in gang.native.as_mut().unwrap().groups_mut() {
            group.ask = group.spec.clone().map(|spec| asks.put_internal(spec, 0, 0));
        }
        gang
    }

    #[test]
    fn a_real_ask_takes_the_place_of_internal_ones_as_long_as_there_are_any() {
        let mut asks = Asks::new();
        let mut gang = gang(&mut asks);
        let pending = |asks: &Asks| asks.pending().shown().clone();
        let count = |gang: &Gang| gang.group(&"w".to_owned()).map_or(0, |group| group.count);
        assert_eq!(gang.complete(&mut asks), vcores(8).into());
        assert_eq!((pending(&asks), count(&gang)), (vcores(8), 4));
        let (first, _) = asks.put(member("a", "w", 3), 1, 1);
        assert_eq!(gang.complete(&mut asks), vcores(-6).into());
        assert_eq!((pending(&asks), count(&gang)), (vcores(5), 1));
        asks.put(member("b", "w", 2), 2, 2);
        asks.put(member("c", "other", 1), 3, 3);
        gang.complete(&mut asks);
        assert_eq!((pending(&asks), count(&gang)), (vcores(6), 0));
        asks.withdraw(first);
        assert_eq!(gang.complete(&mut asks), vcores(4).into(), "members again");
        assert_eq!((pending(&asks), count(&gang)), (vcores(7), 2));
        assert_eq!(gang.complete(&mut asks), Sum::default());
    }

    #[test]
    fn a_bundle_is_the_first_asks_of_each_group_and_then_internal_ones() {
        let mut asks = Asks::new();
        let mut gang = gang(&mut asks);
        gang.complete(&mut asks);
        let native = gang.undecided().unwrap();
        let group = TaskGroup::new("d".to_owned());
        assert_eq!(native.bundle(&asks), Err(MissingAsks { group, missing: 1 }));
        let (driver, _) = asks.put(member("d", "d", 5), 9, 1);
        let (late, _) = asks.put(member("l", "w", 3), 9, 2);
        let (early, _) = asks.put(member("e", "w", 2), 8, 3);
        gang.complete(&mut asks);
        let native = gang.undecided().unwrap();
        let bundled = native.bundle(&asks).unwrap();
        assert_eq!(bundled, [vec![(early, 2), (late, 2)], vec![(driver, 1)]]);
        asks.withdraw(late);
        gang.complete(&mut asks);
        let native = gang.undecided().unwrap();
        let internal = native.groups()[0].ask.unwrap();
        assert_eq!(native.bundle(&asks).unwrap()[0], [(early, 2), (internal, 2)]);
    }

    #[test]
    fn no_key_names_an_internal_ask_and_none_is_listed() {
        let mut asks = Asks::new();
        let mut gang = gang(&mut asks);
        gang.complete(&mut asks);
        assert_eq!((asks.slot_of(""), asks.len()), (None, 0));
        assert!(asks.pending_keys(None).is_empty());
        let slot = gang.native.as_ref().unwrap().groups()[0].ask.unwrap();
        assert_eq!(asks.remove_internal(slot), vcores(8).into());
        assert!(asks.pending().is_empty());
    }

    /// One of four workers runs; for the driver, which has no declared size, no place is held.
    #[test]
    fn places_are_held_again_for_members_that_are_lacking() {
        let mut asks = Asks::new();
        let mut gang = gang(&mut asks);
        let native = gang.native.as_mut().unwrap();
        let workers = TaskGroup::new("w".to_owned());
        native.decide();
        native.joined(&workers, false);
        let places = [("w", 9), ("d", 1)].map(|(name, n)| (TaskGroup::new(name.to_owned()), n));
        let again = HoldAgain { since_ns: Some(7), places: places.to_vec() };
        native.hold_again(&again, |_| 0, 5);
        assert_eq!((native.wanted(), native.held_since_ns()), (3, Some(5)), "not later than now");
        native.stage = Stage::Undecided;
        assert_eq!(gang.complete(&mut asks), vcores(6).into());
        let native = gang.native.as_mut().unwrap();
        assert_eq!(native.bundle(&asks).unwrap().len(), 2);
        native.settle_for_fewer(&workers, 1);
        assert_eq!(native.amount_without(1), vcores(2));
        native.settle_for_fewer_in_all(1);
        assert_eq!(native.wanted(), 1);
        native.settle_for_fewer_in_all(5);
        assert_eq!((native.wanted(), native.holds_again()), (0, true));
        assert!(native.decide(), "its places were held before");
        assert!(!native.decide());
        assert_eq!((native.wanted(), native.held_since_ns()), (5, Some(5)));
        native.forget_held_before();
        assert_eq!(native.held_since_ns(), None);
    }

    #[test]
    fn holds_are_numbered_within_their_group() {
        let mut gang = gang(&mut Asks::new());
        let native = gang.native.as_mut().unwrap();
        let names = [1, 2].map(|id| native.hold(0, AllocationId::numbered(id)));
        assert_eq!((names, native.holds.len()), (["w~1", "w~2"].map(Arc::from), 2));
    }

    #[test]
    fn a_reported_member_has_one_of_the_places() {
        let mut gang = gang(&mut Asks::new());
        let native = gang.native.as_mut().unwrap();
        assert!(!native.real_reported(None), "none were held before");
        native.decide();
        let name = Arc::clone(&native.groups()[0].name);
        let again = HoldAgain { since_ns: None, places: vec![(Arc::clone(&name), 2)] };
        native.hold_again(&again, |_| 0, 0);
        assert!(native.real_reported(Some(&name)));
        assert!(!native.real_reported(Some(&name)), "all that were held run");
    }
}
