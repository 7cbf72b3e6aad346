//! The search for places of all members of a gang, with the predicates of an RM in this process, in as many
//! steps as it takes. It asks for what is to be done ([`Next`]), and whoever has the RM does it.
//!
//! # Why in several steps
//! Ten thousand members that differ all have ten thousand searches, and nine of ten nodes may refuse each of
//! them. While one step lasts nobody else of the partition has an answer. So a step has a bounded number of
//! looks at nodes and of refusals; what is left goes on with the next offer, from the places that were found
//! ([`find_within`]). The usual search is over in one.
//!
//! # The nodes and domains that are tried
//! If all members find a place on nodes where no start of them failed, only such nodes are used. A group that
//! has to stay in one domain tries another where a member is refused on every node of the first.
//!
//! # Predicates
//! An answer counts for the step in which it was given. A place that passed in an earlier step is not asked
//! about again while the search goes on; once all have passed, those of earlier steps are asked about again in
//! the step that books all members. A refusal counts until the search is over.
//!
//! # Invariant
//! * Between two steps nothing is taken, and the RM counts on nothing.

use fixedbitset::FixedBitSet;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::applications::application::Application;
use crate::applications::native::Native;
use crate::asks::{Asks, Bundled};
use crate::decide::bundle::{Found, MembersAt, Paused, Unfound, find_within};
use crate::nodes::NodeIndex;
use crate::values::epoch::Growth;
use crate::values::ids::{AskSlot, NodeSlot};
use crate::waiting::BundleWaits;

use super::members::{AllowedNodes, AvoidedDomains, groups};
use super::obstacle::NotPlaced;

/// How many looks at nodes one step has for a gang: some ten milliseconds.
const LOOKS_PER_STEP: u64 = 400_000;
/// How many refusals by nodes one step takes for a gang.
const REFUSALS_PER_STEP: usize = 2_048;
/// In how many domains predicates are asked about the members of a gang.
const DOMAINS_ASKED: usize = 16;

/// A member of the gang, at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Its ask.
    pub ask: AskSlot,
    /// The node.
    pub node: NodeSlot,
}

/// What is to be done before the search goes on.
#[derive(Debug)]
pub enum Next {
    /// Ask the RM about a member; if it passes, the RM counts on it. The answer goes to
    /// [`MemberSearch::answered`].
    Ask(Member),
    /// Ask the RM about a member that is only counted. The answer goes to [`MemberSearch::answered`].
    Count(Member),
    /// Have the RM count on a member that passed in an earlier step.
    Assume(Member),
    /// Have the RM count on these members no longer, in this order.
    Forget(Vec<Member>),
    /// Nothing: the search is over, or its part of this step. Places that were found are taken from the index;
    /// else nothing is.
    Over(Result<Found, NotPlaced>),
}

/// A search for places of all members of a gang.
#[derive(Debug)]
pub struct MemberSearch {
    /// The members.
    bundled: Bundled,
    allowed: AllowedNodes,
    /// The growth of the nodes when the search began: whatever came later may be what it lacks.
    since: Growth,
    paused: Paused,
    avoid: AvoidedDomains,
    /// The nodes that refused an ask, by their slots. A node that comes in place of one that left counts as one
    /// that refused, until the next search.
    refusals: FxHashMap<AskSlot, FixedBitSet>,
    /// The members that passed in earlier steps.
    passed: FxHashSet<Member>,
    /// The member that was refused last.
    refused: Option<AskSlot>,
    /// The number of times that some member was refused wherever its group may be.
    n_domains: usize,
    step: Step,
}

/// The part of a search that one step does.
#[derive(Debug, Default)]
struct Step {
    /// The number of looks at nodes at which it ends.
    until: u64,
    /// The number of refusals that are left.
    refusals: usize,
    /// Whether predicates are asked in the middle of the search.
    asks_now: bool,
    doing: Doing,
    /// The places that predicates are asked about.
    found: Found,
    /// The members that the RM counts on, in the order of their places.
    assumed: Vec<Member>,
    /// Whether no answer of an earlier step is used.
    asks_about_all: bool,
    /// The number of members of a refused group that pass, from the last refusal of this step.
    n_fit: Option<u64>,
}

/// What a search is at.
#[derive(Debug, Default)]
enum Doing {
    /// Finds places on nodes.
    #[default]
    Find,
    /// Asks about the member at this index in the list.
    Ask(usize),
    /// Moves the member at this index in the list to another node.
    Move(usize),
    /// Counts the members of a group that pass.
    Count(Count),
    /// It is over, or its part of this step.
    End(NotPlaced),
}

/// The members of a refused group that pass where they are.
#[derive(Clone, Copy, Debug)]
struct Count {
    group: usize,
    /// The ask of the member that was refused.
    refused: AskSlot,
    /// The next index in the list.
    at: usize,
    /// The number of questions that are left.
    left: usize,
    passed: u64,
}

/// One step after another.
impl MemberSearch {
    /// A search that begins, when the nodes have grown so far.
    pub fn new(asks: &Asks, bundled: &Bundled, since: Growth) -> Self {
        let mut members = bundled.iter().flatten();
        let any_failed = members.any(|(slot, _)| asks.ask(*slot).request_elsewhere().is_some());
        let allowed = if any_failed { AllowedNodes::WithoutFailedStart } else { AllowedNodes::Any };
        Self {
            bundled: bundled.clone(),
            allowed,
            since,
            paused: Paused::default(),
            avoid: AvoidedDomains::new(),
            refusals: FxHashMap::default(),
            passed: FxHashSet::default(),
            refused: None,
            n_domains: 0,
            step: Step::default(),
        }
    }

    /// Goes on with another bundle of the gang. What was found for asks that are still among it stays.
    pub(super) fn goes_on_with(&mut self, bundled: &Bundled) {
        if self.bundled == *bundled {
            return;
        }
        let mut now = FxHashMap::default();
        for (group, members) in bundled.iter().enumerate() {
            let at = |(members, (slot, _)): (usize, &(AskSlot, u32))| {
                (*slot, MembersAt { group, members })
            };
            now.extend(members.iter().enumerate().map(at));
        }
        let before = std::mem::replace(&mut self.bundled, bundled.clone());
        self.paused.move_places(|of| now.get(&before.get(of.group)?.get(of.members)?.0).copied());
        self.paused.forget_tried();
        self.refusals.retain(|slot, _| now.contains_key(slot));
        self.passed.retain(|member| now.contains_key(&member.ask));
    }

    /// Has domains that did not take a group tried again: something has changed for the gang.
    pub(super) fn tries_domains_again(&mut self) {
        self.paused.forget_tried();
    }

    /// Begins the part of this step. Where the RM answers later, `asks_now` is false and places are all that is
    /// looked for.
    pub fn begin_step(&mut self, nodes: &NodeIndex, asks_now: bool) {
        debug_assert!(self.step.assumed.is_empty(), "between two steps the RM counts on nothing");
        let until = nodes.looks().saturating_add(LOOKS_PER_STEP);
        self.step = Step { until, refusals: REFUSALS_PER_STEP, asks_now, ..Step::default() };
    }

    /// The number of members of a refused group that pass, if a member was refused in this step; 0 where that
    /// was not counted.
    pub(super) fn n_fit(&self) -> Option<u64> {
        self.step.n_fit
    }

    /// The number of places that a search remembers that goes on later.
    pub fn n_places(&self) -> usize {
        self.paused.n_places()
    }

    /// Goes on until something is to be done.
    pub fn next(&mut self, book: &Application, nodes: &mut NodeIndex) -> Next {
        loop {
            let next = match std::mem::take(&mut self.step.doing) {
                Doing::Find => self.find(book, nodes),
                Doing::Ask(at) => self.ask(at),
                Doing::Move(at) => self.move_member(at, book, nodes),
                Doing::Count(count) => Some(self.count(count, nodes)),
                Doing::End(why) => Some(Next::Over(Err(why))),
            };
            if let Some(next) = next {
                return next;
            }
        }
    }

    /// Takes the answer about the member of the last question.
    pub fn answered(&mut self, passes: bool) {
        match &mut self.step.doing {
            Doing::Ask(at) => {
                let at = *at;
                let member = self.member(at);
                if passes {
                    self.assume(at, member);
                } else {
                    self.refusals
                        .entry(member.ask)
                        .or_default()
                        .grow_and_insert(member.node.index());
                    self.step.doing = Doing::Move(at);
                }
            }
            Doing::Count(count) => {
                count.at += 1;
                count.left -= 1;
                count.passed += u64::from(passes);
            }
            doing => debug_assert!(false, "nothing was asked: {doing:?}"),
        }
    }
}

/// What each step does.
impl MemberSearch {
    fn find(&mut self, book: &Application, nodes: &mut NodeIndex) -> Option<Next> {
        let native = book.undecided().map(Native::groups).unwrap_or_default();
        let groups = groups(&book.asks, native, &self.bundled, &self.avoid, self.allowed);
        let paused = std::mem::take(&mut self.paused);
        match find_within(nodes, &groups, paused, self.step.until) {
            Ok(found) if !self.step.asks_now => return Some(Next::Over(Ok(found))),
            Ok(found) => {
                self.step.asks_about_all = self.passed.is_empty();
                (self.step.found, self.step.doing) = (found, Doing::Ask(0));
            }
            Err(Unfound::Paused(paused)) => {
                self.paused = paused;
                self.step.doing = Doing::End(NotPlaced::Unfinished);
            }
            Err(Unfound::Short(_)) if self.allowed == AllowedNodes::WithoutFailedStart => {
                self.begin_on_all_nodes(nodes);
            }
            Err(Unfound::Short(shortage)) => {
                self.step.doing = Doing::End(if let Some(refused) = self.refused {
                    NotPlaced::Refused(refused, self.since)
                } else {
                    let places = BundleWaits::new(&groups, &shortage, self.since);
                    NotPlaced::Short(Box::new((shortage, places)))
                });
            }
        }
        None
    }

    /// Begins again, with nodes where starts failed.
    fn begin_on_all_nodes(&mut self, nodes: &NodeIndex) {
        self.allowed = AllowedNodes::Any;
        self.since = nodes.growth();
        self.paused = Paused::default();
        self.avoid.clear();
        self.refusals.clear();
        self.passed.clear();
        (self.refused, self.n_domains) = (None, 0);
    }

    /// The member at this index in the list, at its node.
    fn member(&self, at: usize) -> Member {
        let place = self.step.found.places()[at];
        let (ask, _) = self.bundled[place.of.group][place.of.members];
        Member { ask, node: place.node }
    }

    /// Counts on a member, and goes on with the next one.
    fn assume(&mut self, at: usize, member: Member) {
        self.step.assumed.push(member);
        self.step.doing = Doing::Ask(at + 1);
    }

    /// Has the RM forget the members that it counts on, the last one first.
    fn forget(&mut self) -> Next {
        let mut assumed = std::mem::take(&mut self.step.assumed);
        assumed.reverse();
        Next::Forget(assumed)
    }

    fn ask(&mut self, at: usize) -> Option<Next> {
        if at == self.step.found.places().len() {
            if self.step.asks_about_all {
                self.step.assumed.clear();
                return Some(Next::Over(Ok(std::mem::take(&mut self.step.found))));
            }
            self.passed.clear();
            (self.step.asks_about_all, self.step.doing) = (true, Doing::Ask(0));
            return Some(self.forget());
        }
        let member = self.member(at);
        let refusals = self.refusals.get(&member.ask);
        if refusals.is_some_and(|refusals| refusals.contains(member.node.index())) {
            self.step.doing = Doing::Move(at);
            return None;
        }
        if self.passed.contains(&member) {
            self.assume(at, member);
            return Some(Next::Assume(member));
        }
        self.step.doing = Doing::Ask(at);
        Some(Next::Ask(member))
    }

    /// Moves a member that may not run at its node: to a node of the same domain where its group has one.
    fn move_member(
        &mut self,
        at: usize,
        book: &Application,
        nodes: &mut NodeIndex,
    ) -> Option<Next> {
        let Member { ask: slot, .. } = self.member(at);
        let ask = book.asks.ask(slot);
        let refusals = self.refusals.entry(slot).or_default();
        let request = self.allowed.request(ask).avoiding(refusals);
        let found = &mut self.step.found;
        let group = found.places()[at].of.group;
        if found.move_member(nodes, at, &request, ask.spec.tags.as_ref()).is_none() {
            let before = &found.places()[..at];
            let passed = before.iter().filter(|place| place.of.group == group).count() as u64;
            // Only a gang that settles for fewer members has to know how many pass.
            let count = book.undecided().is_some_and(Native::holds_again);
            let (left, passed) = if count { (REFUSALS_PER_STEP, passed) } else { (0, 0) };
            let count = Count { group, refused: slot, at: at + 1, left, passed };
            self.step.doing = Doing::Count(count);
            return None;
        }
        self.step.refusals = self.step.refusals.saturating_sub(1);
        if self.step.refusals > 0 && nodes.looks() < self.step.until {
            self.step.doing = Doing::Ask(at);
            return None;
        }
        self.passed.extend(&self.step.assumed);
        self.paused = std::mem::take(&mut self.step.found).pause(nodes);
        self.step.doing = Doing::End(NotPlaced::Unfinished);
        Some(self.forget())
    }

    /// Counts on with the next member of the group; or, after the last one, goes on without this group's domain.
    fn count(&mut self, mut count: Count, nodes: &mut NodeIndex) -> Next {
        let places = self.step.found.places();
        let rest = places.iter().enumerate().skip(count.at).filter(|_| count.left > 0);
        let mut of_group = rest.filter(|(_, place)| place.of.group == count.group);
        if let Some((at, _)) = of_group.next() {
            count.at = at;
            self.step.doing = Doing::Count(count);
            return Next::Count(self.member(at));
        }
        self.step.n_fit = Some(count.passed);
        let domain = self.step.found.domain_of(count.group).cloned();
        self.step.found.undo(nodes);
        self.refused = Some(count.refused);
        self.n_domains += 1;
        match domain.filter(|_| self.n_domains < DOMAINS_ASKED) {
            Some(domain) => self.avoid.entry(count.group).or_default().push(domain),
            None if self.allowed == AllowedNodes::WithoutFailedStart => {
                self.begin_on_all_nodes(nodes);
            }
            None => {
                self.step.doing = Doing::End(NotPlaced::Refused(count.refused, self.since));
            }
        }
        self.forget()
    }
}
