//! The search for places of all members of a gang, with the predicates of an RM in this process, in as
//! many steps as it takes.
//!
//! # Why in several steps
//! Ten thousand members that differ all have ten thousand searches, and nine of ten nodes may refuse
//! each of them. While one step lasts nobody else of the partition has an answer. So a step has a bounded
//! number of looks at nodes and of refusals; what is left goes on with the next offer, from the places
//! that were found ([`monoceros_rules::decide::bundle::find_within`]). The usual search is over in one.
//!
//! # Predicates
//! An answer counts for the step in which it was given. A place that passed in an earlier step is not
//! asked about again while the search goes on; once all have passed, those of earlier steps are asked about
//! again in the step that books all members. A refusal counts until the search is over.
//!
//! # Invariant
//! * Between two steps nothing is taken, and the RM counts on nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use monoceros_rules::asks::{Ask, Bundled};
use monoceros_rules::decide::bundle::{self, Found, MembersAt, Paused, Unfound};
use monoceros_rules::nodes::{Domain, NodeRequest};
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::values::epoch::Growth;
use monoceros_rules::values::ids::{AskSlot, NodeSlot};
use monoceros_rules::waiting::{BundleWaits, WaitSet};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Application;
use super::bundle::{NotPlaced, groups};
use crate::step::{Baton, Counting};

/// How many looks at nodes one step has for a gang: some ten milliseconds.
const LOOKS_PER_STEP: u64 = 400_000;
/// How many refusals by nodes one step takes for a gang.
const REFUSALS_PER_STEP: usize = 2_048;
/// In how many domains predicates are asked about the members of a gang.
const DOMAINS_ASKED: usize = 16;

/// By the place of a group in the bundle, the domains where a member of it was refused.
pub(super) type Avoided = BTreeMap<usize, Vec<Domain>>;

/// Which nodes members may use while places are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// Those where no start of the member failed.
    Elsewhere,
    /// All.
    Anywhere,
}

impl Where {
    pub(super) fn request(self, ask: &Ask) -> NodeRequest<'_> {
        let elsewhere = ask.request_elsewhere().filter(|_| self == Self::Elsewhere);
        elsewhere.unwrap_or_else(|| ask.request())
    }
}

/// A search that is under way.
pub(super) struct Search {
    /// What it looks for.
    bundled: Bundled,
    nodes: Where,
    /// The growth of the nodes when it began: whatever came later may be what it lacks.
    since: Growth,
    paused: Paused,
    avoid: Avoided,
    /// Which nodes refused which ask, by their slots. A node that comes in place of one that left counts as
    /// one that refused, until the next search.
    refusals: FxHashMap<AskSlot, FixedBitSet>,
    /// The asks that passed on nodes in earlier steps.
    passed: FxHashSet<(AskSlot, NodeSlot)>,
    /// The member that was refused last, and in how many domains some were.
    refused: Option<AskSlot>,
    n_domains: usize,
}

/// What one step has left for a search.
struct Slice {
    /// The number of looks at which it ends.
    until: u64,
    refusals: usize,
}

impl Slice {
    fn begin(baton: &Baton) -> Self {
        let until = baton.books.nodes.looks().saturating_add(LOOKS_PER_STEP);
        Self { until, refusals: REFUSALS_PER_STEP }
    }

    /// A node has refused a member. Says whether another may be asked in this step.
    fn goes_on(&mut self, baton: &Baton) -> bool {
        self.refusals = self.refusals.saturating_sub(1);
        self.refusals > 0 && baton.books.nodes.looks() < self.until
    }
}

/// Members that the RM counts on their nodes.
type AssumedMembers = Vec<(Arc<AskSpec>, NodeSlot)>;

/// Not all members passed.
enum NotPassed {
    /// No node will have this one, of this group. So many of that pass, if that was counted.
    Refused { group: usize, member: AskSlot, passed: u64 },
    /// The rest is asked in a later step.
    Unfinished,
}

impl Search {
    fn new(bundled: &Bundled, nodes: Where, since: Growth) -> Self {
        Self {
            bundled: bundled.clone(),
            nodes,
            since,
            paused: Paused::default(),
            avoid: Avoided::new(),
            refusals: FxHashMap::default(),
            passed: FxHashSet::default(),
            refused: None,
            n_domains: 0,
        }
    }

    /// The gang asks for this from now on. What was found for asks that are still among it stays.
    fn goes_on_with(&mut self, bundled: &Bundled) {
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
        self.passed.retain(|(slot, _)| now.contains_key(slot));
    }

    /// Something has changed for the gang: a domain that did not take a group may take it now.
    pub(super) fn tries_domains_again(&mut self) {
        self.paused.forget_tried();
    }
}

impl Application {
    /// Finds a place for each member where predicates in this process pass it. If all find one on nodes
    /// where no start of them failed, only such nodes are used. A group that has to stay in one domain
    /// tries another where a member is refused on every node of the first.
    pub(super) fn place_members(
        &mut self,
        bundled: &Bundled,
        baton: &mut Baton,
    ) -> Result<Found, NotPlaced> {
        let mut slice = Slice::begin(baton);
        let mut search = self.search_for(bundled, baton);
        loop {
            let mut found = match self.find_places(&mut search, slice.until, baton) {
                Ok(found) => found,
                Err(Unfound::Paused(paused)) => return Err(self.pause(search, paused)),
                Err(Unfound::Short(_)) if search.nodes == Where::Elsewhere => {
                    *search = Search::new(bundled, Where::Anywhere, baton.books.nodes.growth());
                    continue;
                }
                Err(Unfound::Short(shortage)) => {
                    if let Some(refused) = search.refused {
                        return Err(NotPlaced::Refused(refused, search.since));
                    }
                    let native = self.book.undecided().map_or(&[][..], |native| native.groups());
                    let asks = &self.book.asks;
                    let groups = groups(asks, native, bundled, &search.avoid, search.nodes);
                    let places = BundleWaits::new(&groups, &shortage, search.since);
                    return Err(NotPlaced::Short(Box::new((shortage, places))));
                }
            };
            if baton.offer.asks_later {
                return Ok(found);
            }
            match self.ask_members_at_once(&mut search, &mut found, &mut slice, baton) {
                Ok(()) => return Ok(found),
                Err(NotPassed::Unfinished) => {
                    let paused = found.pause(&mut baton.books.nodes);
                    return Err(self.pause(search, paused));
                }
                Err(NotPassed::Refused { group, member, passed }) => {
                    if let Some(bundle) = &mut self.bundle {
                        bundle.n_fit = Some(passed);
                    }
                    let domain = found.domain_of(group).cloned();
                    found.undo(&mut baton.books.nodes);
                    search.refused = Some(member);
                    search.n_domains += 1;
                    match domain.filter(|_| search.n_domains < DOMAINS_ASKED) {
                        Some(domain) => search.avoid.entry(group).or_default().push(domain),
                        None if search.nodes == Where::Elsewhere => {
                            let since = baton.books.nodes.growth();
                            *search = Search::new(bundled, Where::Anywhere, since);
                        }
                        None => return Err(NotPlaced::Refused(member, search.since)),
                    }
                }
            }
        }
    }

    /// The search that is under way, or one that begins.
    fn search_for(&mut self, bundled: &Bundled, baton: &Baton) -> Box<Search> {
        let under_way = self.bundle.as_mut().and_then(|bundle| bundle.search.take());
        if let Some(mut search) = under_way {
            search.goes_on_with(bundled);
            return search;
        }
        let mut members = bundled.iter().flatten();
        let any_failed =
            members.any(|(slot, _)| self.book.asks.ask(*slot).request_elsewhere().is_some());
        let nodes = if any_failed { Where::Elsewhere } else { Where::Anywhere };
        Box::new(Search::new(bundled, nodes, baton.books.nodes.growth()))
    }

    fn pause(&mut self, mut search: Box<Search>, paused: Paused) -> NotPlaced {
        tracing::debug!(application = %self.book.id, places = paused.n_places(),
            "the search for places of the gang goes on later");
        search.paused = paused;
        if let Some(bundle) = &mut self.bundle {
            (bundle.waits, bundle.search) = (WaitSet::Due, Some(search));
        }
        NotPlaced::Unfinished
    }

    fn find_places(
        &self,
        search: &mut Search,
        until: u64,
        baton: &mut Baton,
    ) -> Result<Found, Unfound> {
        let native = self.book.undecided().map_or(&[][..], |native| native.groups());
        let asks = &self.book.asks;
        let groups = groups(asks, native, &search.bundled, &search.avoid, search.nodes);
        let paused = std::mem::take(&mut search.paused);
        bundle::find_within(&mut baton.books.nodes, &groups, paused, until)
    }

    /// Asks the RM in this process whether each member may run at its place, or have it held. Those that
    /// passed in an earlier step are asked about once more in the end.
    fn ask_members_at_once(
        &mut self,
        search: &mut Search,
        found: &mut Found,
        slice: &mut Slice,
        baton: &mut Baton,
    ) -> Result<(), NotPassed> {
        let passed_now = search.passed.is_empty();
        let assumed = self.ask_predicates(search, found, slice, baton)?;
        if passed_now {
            return Ok(());
        }
        self.forget_members(assumed, baton);
        search.passed.clear();
        self.ask_predicates(search, found, slice, baton).map(drop)
    }

    /// Counts the members of a group that pass where they are, of which those before `at` have passed.
    fn count_passing(
        &self,
        search: &Search,
        found: &Found,
        (at, group): (usize, usize),
        baton: &mut Baton,
    ) -> u64 {
        let places = found.places();
        let mut passed = places[..at].iter().filter(|place| place.of.group == group).count();
        let rest = places[at + 1..].iter().filter(|place| place.of.group == group);
        for place in rest.take(REFUSALS_PER_STEP) {
            let (slot, _) = search.bundled[place.of.group][place.of.members];
            let spec = &*self.book.asks.ask(slot).spec;
            let node = Arc::clone(baton.books.nodes.id(place.node));
            let answer = baton.predicate((self.slot, spec), &node, true);
            passed += usize::from(answer.is_ok());
        }
        passed as u64
    }

    /// Asks about the members that did not pass in an earlier step. One that may not run at its place moves
    /// to another node, of the same domain where its group has one. Unless all pass the RM counts on none.
    fn ask_predicates(
        &mut self,
        search: &mut Search,
        found: &mut Found,
        slice: &mut Slice,
        baton: &mut Baton,
    ) -> Result<AssumedMembers, NotPassed> {
        let mut assumed = AssumedMembers::new();
        let mut passed = Vec::new();
        for at in 0..found.places().len() {
            let (slot, spec) = match self.ask_about(search, found, at, slice, baton) {
                Ok(member) => member,
                Err(mut why) => {
                    if let NotPassed::Refused { group, passed, .. } = &mut why
                        && self.holds_again()
                    {
                        *passed = self.count_passing(search, found, (at, *group), baton);
                    }
                    self.forget_members(assumed, baton);
                    if matches!(why, NotPassed::Unfinished) {
                        search.passed.extend(passed);
                    }
                    return Err(why);
                }
            };
            let node = found.places()[at].node;
            passed.push((slot, node));
            self.assume_member(spec, node, &mut assumed, baton);
        }
        Ok(assumed)
    }

    /// Finds a node for one member where it passes, from its place on. Returns its ask, and what that
    /// asks for.
    fn ask_about(
        &mut self,
        search: &mut Search,
        found: &mut Found,
        at: usize,
        slice: &mut Slice,
        baton: &mut Baton,
    ) -> Result<(AskSlot, Arc<AskSpec>), NotPassed> {
        let place = found.places()[at];
        let (slot, _) = search.bundled[place.of.group][place.of.members];
        let spec = Arc::clone(&self.book.asks.ask(slot).spec);
        let mut node = place.node;
        loop {
            let refusals = search.refusals.entry(slot).or_default();
            if !refusals.contains(node.index()) {
                if search.passed.contains(&(slot, node)) {
                    return Ok((slot, spec));
                }
                let id = Arc::clone(baton.books.nodes.id(node));
                let about = (self.slot, &*spec);
                let Err(why) = baton.predicate(about, &id, true) else {
                    return Ok((slot, spec));
                };
                self.note_refusal(slot, why, baton);
                refusals.grow_and_insert(node.index());
            }
            let ask = self.book.asks.ask(slot);
            let (request, tags) = (search.nodes.request(ask), ask.spec.tags.as_ref());
            let request = request.avoiding(refusals);
            let next = found.move_member(&mut baton.books.nodes, at, &request, tags);
            let refused = NotPassed::Refused { group: place.of.group, member: slot, passed: 0 };
            node = next.ok_or(refused)?;
            if !slice.goes_on(baton) {
                return Err(NotPassed::Unfinished);
            }
        }
    }

    fn note_refusal(&mut self, slot: AskSlot, why: String, baton: &mut Baton) {
        baton.tally.refused();
        baton.offer.refused += 1;
        if baton.settings.tracking.is_on() {
            let reasons = &mut self.book.asks.ask_mut(slot).refusals_mut().reasons;
            *reasons.entry(why).or_default() += 1;
        }
    }

    /// The predicate of a member has passed: the RM counts it, so that it is seen when its mates are
    /// asked about.
    pub(super) fn assume_member(
        &self,
        spec: Arc<AskSpec>,
        node: NodeSlot,
        assumed: &mut AssumedMembers,
        baton: &Baton,
    ) {
        baton.count_on(Counting::Assumes, (self.slot, &spec), node);
        assumed.push((spec, node));
    }

    /// The gang does not fit: none of its members counts.
    pub(super) fn forget_members(&self, assumed: AssumedMembers, baton: &Baton) {
        for (spec, node) in assumed.into_iter().rev() {
            baton.count_on(Counting::Forgets, (self.slot, &spec), node);
        }
    }
}
