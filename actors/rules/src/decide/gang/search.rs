//! The search for places of all members of a gang, with the predicates of an RM in this process, in
//! as many steps as it takes. [`Next`] names what its caller has to do with the RM before the
//! search continues.
//!
//! # Why in several steps
//! If the members of a gang all differ, ten thousand members take ten thousand searches, and nine
//! of ten nodes may refuse each of them. No other request in the partition is answered during a
//! step. So a step has a bounded number of looks at nodes and of refusals; the rest of the search
//! continues with the next offer, from the places that were found ([`find_within`]). The usual
//! search is over in one step.
//!
//! # The nodes and domains that are tried
//! If all members find places on nodes where no start of them failed, only such nodes are used. If
//! a member of a group that has to stay in one domain is refused on every node of the domain, the
//! group is tried in another domain.
//!
//! # Predicates
//! An answer counts in the step in which it was given. While the search continues, the RM is not
//! asked again about a place that passed in an earlier step; once all have passed, it is asked
//! again about the places of earlier steps, in the step that books all members. A refusal counts
//! until the search is over.
//!
//! # Invariant
//! * Between two steps, nothing is taken, and the RM counts no member.

use fixedbitset::FixedBitSet;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

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

/// The number of looks at nodes that one step may take for a gang: some ten milliseconds.
const LOOKS_PER_STEP: u64 = 400_000;
/// The number of refusals by nodes that one step may take for a gang.
const REFUSALS_PER_STEP: usize = 2_048;
/// The number of domains in which predicates are asked about the members of a gang.
const DOMAINS_ASKED: usize = 16;

/// A member of the gang on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member {
    /// Its ask.
    pub ask: AskSlot,
    /// The node.
    pub node: NodeSlot,
}

/// What the caller has to do before the search continues.
#[derive(Debug)]
pub enum Next {
    /// Ask the RM about a member; if the member passes, the RM counts it. The answer goes to
    /// [`MemberSearch::answered`].
    Ask(Member),
    /// Ask the RM about a member without the RM counting it. The answer goes to
    /// [`MemberSearch::answered`].
    Count(Member),
    /// Have the RM count a member that passed in an earlier step.
    Assume(Member),
    /// Have the RM stop counting these members, in this order.
    Forget(Vec<Member>),
    /// Nothing: the search, or its part of this step, is over. If places were found, they are taken
    /// from the index; otherwise nothing is.
    Over(Result<Found, NotPlaced>),
}

/// A search for places of all members of a gang.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberSearch {
    /// The members.
    bundled: Bundled,
    allowed: AllowedNodes,
    /// The growth of the nodes when the search began: any later growth may be what it lacks.
    since: Growth,
    paused: Paused,
    avoid: AvoidedDomains,
    /// The nodes that refused each ask, by their slots. A new node with the slot of a removed one
    /// counts as one that refused, until the next search.
    #[serde(with = "refusals_as_lists")]
    refusals: FxHashMap<AskSlot, FixedBitSet>,
    /// The members that passed in earlier steps.
    #[serde(with = "crate::values::sorted")]
    passed: FxHashSet<Member>,
    /// The ask of the member that was refused last.
    refused: Option<AskSlot>,
    /// The number of times that a member was refused wherever its group may be.
    n_domains: usize,
    step: Step,
}

/// Refusals in serialized form: for each ask, the indices of the nodes.
mod refusals_as_lists {
    use std::collections::BTreeMap;

    use serde::{Deserializer, Serializer};

    use super::{AskSlot, FixedBitSet, FxHashMap};
    use crate::values::pairs;

    pub(super) fn serialize<S: Serializer>(
        refusals: &FxHashMap<AskSlot, FixedBitSet>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let lists = refusals.iter().map(|(ask, nodes)| (*ask, nodes.ones().collect::<Vec<_>>()));
        pairs::serialize(&lists.collect::<BTreeMap<_, _>>(), serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<FxHashMap<AskSlot, FixedBitSet>, D::Error> {
        let lists: BTreeMap<AskSlot, Vec<usize>> = pairs::deserialize(deserializer)?;
        Ok(lists.into_iter().map(|(ask, nodes)| (ask, nodes.into_iter().collect())).collect())
    }
}

/// The part of a search in one step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Step {
    /// The number of looks at nodes at which the step ends.
    until: u64,
    /// The number of refusals that the step may still take.
    refusals: usize,
    /// Whether predicates are asked during the search.
    asks_now: bool,
    doing: Doing,
    /// The places that predicates are asked about.
    found: Found,
    /// The members that the RM counts, in the order of their places.
    assumed: Vec<Member>,
    /// Whether all members are asked about in this step, without answers of earlier steps.
    asks_about_all: bool,
    /// The number of members of a refused group that pass, at the last refusal of this step.
    n_fit: Option<u64>,
}

/// What a search does now.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
enum Doing {
    /// Finds places on nodes.
    #[default]
    Find,
    /// Asks about the member at this index of the list of places.
    Ask(usize),
    /// Moves the member at this index to another node.
    Move(usize),
    /// Counts the members of a refused group that pass.
    Count(Count),
    /// Ends the search, or its part of this step.
    End(NotPlaced),
}

/// A count of the members of a refused group that pass where they are.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Count {
    group: usize,
    /// The ask of the member that was refused.
    refused: AskSlot,
    /// The index of the next place.
    at: usize,
    /// The number of questions that may still be asked.
    left: usize,
    passed: u64,
}

/// Steps.
impl MemberSearch {
    /// A search that begins at this growth of the nodes.
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

    /// Continues with a changed bundle of the gang. The results for asks that are still in it are
    /// kept.
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

    /// Has domains that did not take a group tried again, after a change that concerns the gang.
    pub(super) fn tries_domains_again(&mut self) {
        self.paused.forget_tried();
    }

    /// Begins the part of this step. If the RM answers later, `asks_now` is false and the search
    /// ends with the places.
    pub fn begin_step(&mut self, nodes: &NodeIndex, asks_now: bool) {
        debug_assert!(self.step.assumed.is_empty(), "between two steps the RM counts on nothing");
        let until = nodes.looks().saturating_add(LOOKS_PER_STEP);
        self.step = Step { until, refusals: REFUSALS_PER_STEP, asks_now, ..Step::default() };
    }

    /// Returns the number of members of a refused group that pass, if a member was refused in this
    /// step; 0 if they were not counted.
    pub(super) fn n_fit(&self) -> Option<u64> {
        self.step.n_fit
    }

    /// Returns the number of places that a paused search remembers.
    pub fn n_places(&self) -> usize {
        self.paused.n_places()
    }

    /// Continues until the caller has to act.
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

    /// Applies the answer to the last question.
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

/// The work within a step.
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

    /// Begins again, with the nodes where starts failed, too.
    fn begin_on_all_nodes(&mut self, nodes: &NodeIndex) {
        self.allowed = AllowedNodes::Any;
        self.since = nodes.growth();
        self.paused = Paused::default();
        self.avoid.clear();
        self.refusals.clear();
        self.passed.clear();
        (self.refused, self.n_domains) = (None, 0);
    }

    /// Returns the member at this index of the list of places, on its node.
    fn member(&self, at: usize) -> Member {
        let place = self.step.found.places()[at];
        let (ask, _) = self.bundled[place.of.group][place.of.members];
        Member { ask, node: place.node }
    }

    /// Notes that the RM counts a member, and continues with the next one.
    fn assume(&mut self, at: usize, member: Member) {
        self.step.assumed.push(member);
        self.step.doing = Doing::Ask(at + 1);
    }

    /// Has the RM stop counting the members, the last one first.
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

    /// Moves a member that was refused to another node: of the same domain, if its group has to
    /// stay in one.
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
            // Only a gang that may hold fewer places than declared has to know how many pass.
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

    /// Continues the count with the next member of the group. After the last one, continues the
    /// search without this domain of the group.
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
