//! The explanation of a declared gang that is undecided: an entry for all of it, and one for each
//! group that is short of asks or places.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::applications::native::{MissingAsks, Native, Stage};
use monoceros_rules::asks::{Ask, Bundled};
use monoceros_rules::decide::bundle::{self, MembersAt};
use monoceros_rules::decide::explain::{self, GangWhy, ShortDomain, Why};
use monoceros_rules::decide::gang::{
    AllowedNodes, AvoidedDomains, GangSearch, groups, short_members, total,
};
use monoceros_rules::nodes::{Fits, NodeLacks, NodeRequest};
use monoceros_rules::pending::nominations::Preemptor;
use monoceros_rules::specs::ask::{AskSpec, TaskGroup};
use monoceros_rules::values::ids::AskSlot;
use monoceros_rules::values::resources::Resources;

use super::explained::{ExplainedClass, Explainer, failing_since, not_started};

/// The obstacles that keep a gang from its places, each with the counts of nodes for one more of the
/// members concerned.
struct Kept {
    whys: Vec<(GangWhy, Option<NodeLacks>)>,
    /// The time since which they are known, ns since the epoch.
    since_ns: Option<i64>,
}

impl Kept {
    fn by(why: GangWhy, since_ns: Option<i64>) -> Self {
        Self { whys: vec![(why, None)], since_ns }
    }
}

impl Explainer<'_> {
    /// Returns the entries of a declared gang that is undecided: one for all of it, and one for
    /// each group that is short.
    pub(super) fn explained_gang(&self) -> Vec<ExplainedClass> {
        let (Some(native), Some(bundle)) = (self.book.undecided(), self.bundle) else {
            return Vec::new();
        };
        let nodes = &self.baton.books.nodes;
        let members = native.groups().iter().map(|group| u64::from(group.wanted())).sum();
        let bundled = native.bundle(&self.book.asks);
        let total = bundled.as_ref().map(|bundled| total(&self.book.asks, bundled));
        let total = total.unwrap_or_default();
        let required = bundled
            .as_ref()
            .map(|bundled| explain::required_nodes(&self.book.asks, bundled, nodes));
        let required = required.unwrap_or_default();
        let first = bundled.as_ref().ok().and_then(|it| it.iter().flatten().next());
        let first =
            first.map(|(slot, _)| *slot).or_else(|| native.groups().iter().find_map(|it| it.ask));
        let Kept { mut whys, since_ns } = self.kept_from_places(native, bundle, bundled);
        // Other members may lack places only because some members can have none at all.
        let is_of_places =
            |why: &GangWhy| matches!(why, GangWhy::Places { .. } | GangWhy::Domain { .. });
        whys.retain(|(why, _)| required.is_empty() || !is_of_places(why));
        // A gang with missing asks searches no places.
        let preemption = self
            .book
            .undecided_bundle()
            .map(|_| self.preemptors.explained(Preemptor::Gang(self.slot)))
            .unwrap_or_default();
        let mut obstacles = self.own_obstacles(&total);
        obstacles.extend(not_started(native.starts.as_deref(), true));
        obstacles.extend(required);
        let entry = |group: Option<TaskGroup>, resources, count, obstacles: Vec<Why>, lacks| {
            let spec = AskSpec::new("", resources).with(|it| it.task_group = group);
            let takes_place = spec.task_group.is_some();
            let noted = obstacles.iter().find_map(|why| match why {
                Why::Gang(gang) => Some((gang.cause(), since_ns?)),
                _ => None,
            });
            let noted = failing_since(native.starts.as_deref()).or(noted);
            let noted = noted.or_else(|| bundle.over_since());
            ExplainedClass {
                gang: String::new(),
                preemption: preemption.clone(),
                position: 0,
                keys: Vec::new(),
                count,
                spec: Arc::new(spec),
                created_ns: self.book.submitted_ns,
                obstacles,
                takes_place,
                noted,
                lacks,
                texts: BTreeMap::new(),
            }
        };
        let of_ask = |ask: &Ask| self.lacks_of(ask);
        let any = |slot: Option<AskSlot>| match slot.and_then(|slot| self.book.asks.find(slot)) {
            Some(ask) => of_ask(ask),
            // For members of unknown size, all nodes are counted.
            None => nodes.lacks(&NodeRequest::of(&Resources::new()), &Fits::Unknown),
        };
        let is_refused = whys.iter().any(|(why, _)| matches!(why, GangWhy::Refused { .. }));
        let refused = bundle.refused().filter(|_| is_refused);
        let refused = refused.and_then(|slot| self.book.asks.find(slot));
        let counted = whys.iter().find_map(|(_, lacks)| lacks.clone());
        let lacks = counted.or_else(|| refused.map(of_ask)).unwrap_or_else(|| any(first));
        let short = whys.iter().filter_map(|(why, lacks)| {
            let (group, size, count) = short_group(why)?;
            let lacks = lacks.clone().unwrap_or_else(|| any(None));
            Some(entry(Some(group), size, count, vec![Why::Gang(why.clone())], lacks))
        });
        let short: Vec<_> = short.collect();
        obstacles.extend(whys.into_iter().map(|(why, _)| Why::Gang(why)));
        let mut whole = entry(None, total, members, obstacles, lacks);
        whole.texts = refused.map(explain::texts).unwrap_or_default();
        [whole].into_iter().chain(short).collect()
    }

    /// Returns the obstacles of a gang in addition to quotas and limits.
    fn kept_from_places(
        &self,
        native: &Native,
        bundle: &GangSearch,
        bundled: Result<Bundled, MissingAsks>,
    ) -> Kept {
        let nodes = &self.baton.books.nodes;
        if native.stage == Stage::InFlight {
            return Kept::by(GangWhy::InFlight, None);
        }
        if let Some((short, since_ns)) = bundle.short_of_places(nodes) {
            // Places may have become fewer since that search.
            let alone =
                bundled.map(|bundled| self.short_alone(native, &bundled)).unwrap_or_default();
            let group = |slot| self.book.asks.find(slot).and_then(|ask| ask.task_group.as_ref());
            let mut lacking = short.to_vec();
            for (slot, lacks) in alone {
                match lacking.iter_mut().find(|(other, _)| group(*other) == group(slot)) {
                    Some((_, before)) => *before = lacks.max(*before),
                    None => lacking.push((slot, lacks)),
                }
            }
            let whys = lacking.into_iter().filter_map(|short| self.lack_places(short));
            return Kept { whys: whys.collect(), since_ns: Some(since_ns) };
        }
        if let Some((why, since_ns)) = bundle.why(nodes) {
            return match why {
                GangWhy::Domain { short, .. } => {
                    Kept { whys: vec![self.lack_domain(short)], since_ns }
                }
                GangWhy::Refused { .. } => self.kept_by_refusal(native, bundled, (why, since_ns)),
                why => Kept::by(why, since_ns),
            };
        }
        let bundled = match bundled {
            Ok(bundled) => bundled,
            Err(MissingAsks { group, missing }) => {
                return Kept::by(GangWhy::Asks { group, missing }, None);
            }
        };
        // No search has found this, or quota was short before it.
        if let Some(short) = explain::short_of_domain(self.book, &bundled, nodes) {
            return Kept { whys: vec![self.lack_domain(short)], since_ns: None };
        }
        let short = self.short_alone(native, &bundled);
        let whys = short.into_iter().filter_map(|short| self.lack_places(short));
        Kept { whys: whys.collect(), since_ns: None }
    }

    /// Returns what nodes lack for a member.
    fn lacks_of(&self, ask: &Ask) -> NodeLacks {
        self.baton.books.nodes.lacks(&explain::request(ask), &self.fits(ask))
    }

    /// Returns the obstacle of a gang if every node with room refused one of its members: too few
    /// places on nodes that members may use, if that is known; otherwise the refusal.
    fn kept_by_refusal(
        &self,
        native: &Native,
        bundled: Result<Bundled, MissingAsks>,
        (why, since_ns): (GangWhy, Option<i64>),
    ) -> Kept {
        let short = bundled.map(|bundled| self.short_alone(native, &bundled));
        let short = short.unwrap_or_default().into_iter();
        let whys: Vec<_> = short.filter_map(|short| self.lack_places(short)).collect();
        let refusing = |(_, nodes): &(_, Option<NodeLacks>)| {
            nodes.as_ref().is_some_and(|nodes| !nodes.unfit.is_empty())
        };
        if whys.iter().any(refusing) {
            return Kept { whys, since_ns };
        }
        let refused = self.bundle.and_then(GangSearch::refused);
        let refused = refused.and_then(|slot| self.book.asks.find(slot));
        let why = match (why, refused) {
            (GangWhy::Refused { group, retry_ns, .. }, Some(ask)) => {
                let nodes = self.lacks_of(ask);
                let mut texts = explain::texts(ask);
                texts.retain(|text, _| !nodes.unfit.contains_key(&**text));
                GangWhy::Refused { group, texts, nodes: Some(nodes), retry_ns }
            }
            (why, _) => why,
        };
        Kept::by(why, since_ns)
    }

    /// Returns the members for which there are too few places even if the rest of the gang takes
    /// none: an ask of each group, with their number.
    fn short_alone(&self, native: &Native, bundled: &Bundled) -> Vec<(AskSlot, u64)> {
        let avoided = AvoidedDomains::new();
        let wanted = groups(&self.book.asks, native.groups(), bundled, &avoided, AllowedNodes::Any);
        let fits = |at: MembersAt| {
            let ask = self.book.asks.find(bundled[at.group][at.members].0);
            ask.map(|ask| self.fits(ask)).unwrap_or_default()
        };
        short_members(bundled, &bundle::short_alone(&self.baton.books.nodes, &wanted, fits))
    }

    /// Returns the obstacle that `lacks` members like this ask found no place.
    fn lack_places(&self, (slot, lacks): (AskSlot, u64)) -> Option<(GangWhy, Option<NodeLacks>)> {
        let ask = self.book.asks.find(slot)?;
        let counts = self.lacks_of(ask);
        let why = GangWhy::Places {
            group: ask.task_group.clone().unwrap_or_default(),
            size: Resources::clone(&ask.resources),
            lacks,
            nodes: counts.clone(),
            constraint: explain::constraint_of(ask, &self.baton.books.nodes),
        };
        Some((why, Some(counts)))
    }

    /// Returns the obstacle that no domain takes a whole group.
    fn lack_domain(&self, mut short: ShortDomain) -> (GangWhy, Option<NodeLacks>) {
        let nodes = &self.baton.books.nodes;
        explain::count_places(self.book, &mut short, nodes);
        let ask = explain::asks_of(self.book, &short.group).first().copied();
        let domain = short.domain();
        let domains = domain.as_slice();
        let request = ask.map_or_else(|| NodeRequest::of(&short.size), explain::request);
        let fits = ask.map(|ask| self.fits(ask)).unwrap_or_default();
        let counts = nodes.lacks(&NodeRequest { domains, ..request }, &fits);
        let constraint = ask.and_then(|ask| explain::constraint_of(ask, nodes));
        (GangWhy::Domain { short, nodes: counts.clone(), constraint }, Some(counts))
    }
}

/// Returns the group that is short, the size of a member, and the number of missing members.
fn short_group(why: &GangWhy) -> Option<(TaskGroup, Resources, u64)> {
    Some(match why {
        GangWhy::Asks { group, missing } => (Arc::clone(group), Resources::new(), *missing),
        GangWhy::Places { group, size, lacks, .. } => (Arc::clone(group), size.clone(), *lacks),
        GangWhy::Domain { short, .. } => {
            (Arc::clone(&short.group), short.size.clone(), short.lacks)
        }
        _ => return None,
    })
}
