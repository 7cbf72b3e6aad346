//! What an application says of asks that wait: which they are, and what stands in their way as far
//! as it can be seen from here. The survey of queues adds the rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::decide::explain::{self, Cause, GangWhy, ShortDomain, Why};
use monoceros_rules::decide::pairs;
use monoceros_rules::decide::preemption::Promisee;
use monoceros_rules::nodes::{NodeIndex, NodeLacks, NodeRequest};
use monoceros_rules::order::waits::WaitSet;
use monoceros_rules::values::resources::Resources;
use monoceros_rules::work::allocations::{Allocation, AllocationId, Form};
use monoceros_rules::work::asks::{Ask, AskSpec, PendingClass, TaskGroup};
use monoceros_rules::work::native::{Bundled, MissingAsks, Stage};

use super::Application;
use super::bundle::total;
use crate::step::{BACKOFF_LEAST, Baton, QueueSlot, RowSlot};

/// For how many sizes of members places are counted, each of which looks at every node; and for how
/// many nodes it is said that members require them.
const COUNTED: usize = 20;

/// Which asks are to be explained.
#[derive(Clone, Debug)]
pub(crate) enum Explained {
    /// The class of the ask with this key.
    Ask(String),
    /// The classes behind the first `offset`, at most `most` of them.
    Classes { offset: usize, most: usize },
}

/// An application whose asks are explained.
pub(crate) struct ExplainedApplication {
    pub(crate) id: Arc<str>,
    pub(crate) leaf: QueueSlot,
    pub(crate) row: Option<RowSlot>,
    /// It has still to start.
    pub(crate) starts: bool,
    /// The number of its classes, and the key of its first ask.
    pub(crate) n_classes: usize,
    pub(crate) first_ask: Option<Arc<str>>,
    /// Since when it backs off, ns since the epoch.
    pub(crate) backs_off_since_ns: Option<i64>,
    /// `None`: there is no ask of the key that was named.
    pub(crate) classes: Option<Vec<ExplainedClass>>,
}

/// A class of asks that is explained.
pub(crate) struct ExplainedClass {
    pub(crate) position: usize,
    pub(crate) keys: Vec<Arc<str>>,
    pub(crate) count: u64,
    /// What was asked for, by the member that is tried for all.
    pub(crate) spec: Arc<AskSpec>,
    pub(crate) created_ns: i64,
    pub(crate) obstacles: Vec<Why>,
    /// Why they do not preempt others, or that they do.
    pub(crate) preemption: String,
    /// It takes the place of a placeholder, and needs no quota for it.
    pub(crate) takes_place: bool,
    /// The cause that was noted when it was tried, and since when.
    pub(crate) noted: Option<(Cause, i64)>,
    pub(crate) lacks: NodeLacks,
    /// What predicates said, each with the number of nodes.
    pub(crate) texts: BTreeMap<String, u32>,
}

impl Application {
    /// Explains some of its asks, each class with at most `keys` keys.
    pub(crate) fn explained(
        &self,
        which: &Explained,
        keys: usize,
        baton: &Baton,
    ) -> ExplainedApplication {
        let asks = &self.book.asks;
        let mut gang = self.explained_gang(baton);
        let delay = self.leaf_facts.config.settings.backoff_delay.max(BACKOFF_LEAST);
        let delay_ns = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        let classes: Option<Vec<PendingClass<'_>>> = match which {
            // What keeps the gang from its places keeps each of its members waiting.
            Explained::Ask(key) => asks
                .slot_of(key)
                .map(|slot| asks.pending_class_of(slot, keys).into_iter().collect()),
            Explained::Classes { offset, most } if gang.is_empty() => {
                Some(asks.pending_classes(*offset, keys).take(*most).collect())
            }
            Explained::Classes { offset, most } => {
                // The gang comes first, and what it asks for internally is in its entry.
                let entries = gang.len();
                gang.drain(..entries.min(*offset));
                gang.truncate(*most);
                let classes = asks.pending_classes(0, keys);
                let real = classes.filter(|class| class.first.form != Form::Internal);
                let behind = offset.saturating_sub(entries);
                Some(real.skip(behind).take(*most - gang.len()).collect())
            }
        };
        let classes = classes.map(|classes| {
            gang.extend(self.explained_classes(classes, baton));
            gang
        });
        ExplainedApplication {
            id: Arc::clone(&self.book.id),
            leaf: self.leaf_facts.slot,
            row: self.row,
            starts: self.book.is_starting(),
            n_classes: asks.n_classes(),
            first_ask: asks.first_key().map(Arc::clone),
            backs_off_since_ns: self.backs_off_until().map(|until| until.saturating_sub(delay_ns)),
            classes,
        }
    }

    fn explained_classes(
        &self,
        classes: Vec<PendingClass<'_>>,
        baton: &Baton,
    ) -> Vec<ExplainedClass> {
        let nodes = &baton.books.nodes;
        let requests: Vec<_> = classes.iter().map(|class| explain::request(class.first)).collect();
        let lacks = nodes.lacks_of_each(&requests);
        drop(requests);
        let explained = classes.into_iter().zip(lacks).map(|(class, lacks)| {
            let places = match self.book.undecided() {
                Some(_) => vec![Why::Gang(GangWhy::Undecided)],
                None => self.explained_places(class.first, &lacks, baton),
            };
            let takes_place = !places.is_empty();
            let mut obstacles = places;
            if !takes_place {
                obstacles.extend(self.gives_way(class.first, baton));
                obstacles.extend(self.own_obstacles(class.shape.resources(), baton));
                obstacles.extend(explain::nodes(nodes, class.first, class.waits, &lacks));
            }
            ExplainedClass {
                position: class.position,
                count: class.count,
                spec: Arc::clone(&class.first.spec),
                created_ns: class.first.stated_creation_ns(),
                obstacles,
                takes_place,
                noted: class.noted.map(|(obstacle, since)| (explain::noted(obstacle), since)),
                preemption: self.explained_class(class.first, baton),
                texts: explain::texts(class.first),
                keys: class.keys,
                lacks,
            }
        });
        explained.collect()
    }

    /// Whether the asks of a class preempt others, by the one that is tried for all; nothing of what
    /// no RM has asked for.
    fn explained_class(&self, first: &Ask, baton: &Baton) -> String {
        let slot = self.book.asks.slot_of(&first.key).filter(|_| first.form != Form::Internal);
        // A member of an undecided gang asks with its gang.
        let who = slot.map(|slot| match self.book.undecided() {
            Some(_) => Promisee::Gang(self.slot),
            None => Promisee::Ask(self.reserver(slot)),
        });
        who.map(|who| self.explained_preemption(who, baton)).unwrap_or_default()
    }

    /// What keeps an ask from the places of its task group, if there are any. `lacks` is what nodes
    /// lack for it.
    fn explained_places(&self, ask: &Ask, lacks: &NodeLacks, baton: &Baton) -> Vec<Why> {
        let (asks, nodes) = (&self.book.asks, &baton.books.nodes);
        let (Some(gang), Some(slot)) = (self.book.gang.as_deref(), asks.slot_of(&ask.key)) else {
            return Vec::new();
        };
        let table = &baton.books.allocations;
        let of_group = |entry: &&Allocation| entry.spec.member_of() == ask.member_of();
        let asked = self.book.unsettled.iter().filter_map(|id| table.get(*id)).filter(of_group);
        let asked = asked.filter(|entry| entry.question.is_some() && entry.takes().is_some());
        let free = pairs::free_places(asks, slot, gang, &self.pairs.search, &baton.books);
        let places = explain::placeholders(asks, gang, ask, free, asked.count() as u64);
        let Some(places) = places else { return Vec::new() };
        let is_settled =
            matches!(places, Why::Placeholders { pending: 0, asked: 0, leaving: 0, .. });
        if free.forbidden == 0 || free.untried + free.refused > 0 || !is_settled {
            return vec![places];
        }
        // It needs room beside the places that it may not take, as long as none is where it has to be.
        let is_refused = self.pairs.search.is_nowhere(ask.order_key());
        let room = match &ask.required_node {
            Some(node) => {
                let group = ask.member_of().and_then(|group| gang.group(group));
                let mut places = group.into_iter().flat_map(|group| group.free.values());
                let is_there = |id: &AllocationId| {
                    table.get(*id).is_some_and(|entry| **nodes.id(entry.node) == **node)
                };
                let required = || {
                    let why = explain::required_of(nodes, node, &ask.resources);
                    let is_refused = is_refused || lacks.refused > 0;
                    why.or_else(|| is_refused.then(|| explain::refused(ask, lacks)))
                };
                if places.any(is_there) { None } else { required() }
            }
            None => explain::nodes(nodes, ask, &WaitSet::Due, lacks)
                .or_else(|| is_refused.then(|| explain::refused(ask, lacks))),
        };
        vec![room.unwrap_or(places)]
    }

    /// A declared gang that is not decided: an entry for all of it, and one for the group that is
    /// short.
    fn explained_gang(&self, baton: &Baton) -> Vec<ExplainedClass> {
        let (Some(native), Some(bundle)) = (self.book.undecided(), &self.bundle) else {
            return Vec::new();
        };
        let nodes = &baton.books.nodes;
        let members = native.groups().iter().map(|group| u64::from(group.min_members)).sum();
        let bundled = native.bundle(&self.book.asks);
        let total = bundled.as_ref().map(|bundled| total(&self.book.asks, bundled));
        let total = total.unwrap_or_default();
        let required = bundled.as_ref().map(|bundled| self.required_nodes(bundled, nodes));
        let required = required.unwrap_or_default();
        let (why, since_ns) = match (native.stage, bundled, bundle.why(nodes)) {
            (Stage::InTheAir, ..) => (Some(GangWhy::InTheAir), None),
            (_, _, Some((why, since_ns))) => (Some(why), since_ns),
            (_, Err(MissingAsks { group, missing }), None) => {
                (Some(GangWhy::Asks { group, missing }), None)
            }
            (_, Ok(bundled), None) => {
                let short = self.short_of_domain(&bundled, nodes);
                (short.or_else(|| self.short_of_places(&bundled, nodes)), None)
            }
        };
        // One whose members are not all there yet looks for no places.
        let preemption = self
            .undecided_bundle()
            .map(|_| self.explained_preemption(Promisee::Gang(self.slot), baton))
            .unwrap_or_default();
        let mut entries = Vec::new();
        let mut obstacles = self.own_obstacles(&total, baton);
        // Others may lack places because of those that can have none.
        let is_of_places =
            |why: &GangWhy| matches!(why, GangWhy::Places { .. } | GangWhy::Domain { .. });
        let is_moot = |why: &GangWhy| is_of_places(why) && !required.is_empty();
        let why = why.filter(|why| !is_moot(why));
        obstacles.extend(required);
        let entry = |group: Option<TaskGroup>, resources, count, obstacles: Vec<Why>, lacks| {
            let spec = AskSpec::new("", resources).with(|it| it.task_group = group);
            let takes_place = spec.task_group.is_some();
            let noted = obstacles.iter().find_map(|why| match why {
                Why::Gang(gang) => Some((gang.cause(), since_ns?)),
                _ => None,
            });
            let noted = noted.or_else(|| bundle.over_since());
            ExplainedClass {
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
        let mut short = None;
        if let Some(mut why) = why {
            let mut lacks = NodeLacks::default();
            if let GangWhy::Places { size, nodes: counts, .. } = &mut why {
                lacks = nodes.lacks(&NodeRequest::of(size));
                counts.clone_from(&lacks);
            }
            if let GangWhy::Domain { short, nodes: counts } = &mut why {
                self.count_places(short, nodes);
                let domain = short.domain();
                let domains = domain.as_slice();
                lacks = nodes.lacks(&NodeRequest { domains, ..NodeRequest::of(&short.size) });
                counts.clone_from(&lacks);
            }
            short = match &why {
                GangWhy::Asks { group, missing } => {
                    Some((Arc::clone(group), Resources::new(), *missing))
                }
                GangWhy::Places { group, size, lacks, .. } => {
                    Some((Arc::clone(group), size.clone(), *lacks))
                }
                GangWhy::Domain { short, .. } => {
                    Some((Arc::clone(&short.group), short.size.clone(), short.lacks))
                }
                _ => None,
            }
            .map(|(group, size, count)| {
                entry(Some(group), size, count, vec![Why::Gang(why.clone())], lacks)
            });
            obstacles.push(Why::Gang(why));
        }
        let refused = obstacles.iter().any(|why| matches!(why, Why::Gang(GangWhy::Refused { .. })));
        let refused =
            bundle.refused().filter(|_| refused).and_then(|slot| self.book.asks.find(slot));
        let lacks = refused.map(|ask| nodes.lacks(&explain::request(ask))).unwrap_or_default();
        let mut whole = entry(None, total, members, obstacles, lacks);
        whole.texts = refused.map(explain::texts).unwrap_or_default();
        entries.push(whole);
        entries.extend(short);
        entries
    }

    /// What stands in the way of the members that require a node, for each node.
    fn required_nodes(&self, bundled: &Bundled, nodes: &NodeIndex) -> Vec<Why> {
        let mut wanted: BTreeMap<&Arc<str>, Resources> = BTreeMap::new();
        for (slot, count) in bundled.iter().flatten() {
            let ask = self.book.asks.ask(*slot);
            let Some(node) = &ask.required_node else { continue };
            if wanted.len() < COUNTED || wanted.contains_key(node) {
                let of_node = wanted.entry(node).or_default();
                of_node.add(&ask.resources.times(i64::from(*count)));
            }
        }
        let wanted = wanted.iter();
        wanted.filter_map(|(node, want)| explain::required_of(nodes, node, want)).collect()
    }

    /// The first members of one size for which alone there are too few places: no search was made
    /// that says so, or quota was short before it.
    fn short_of_places(&self, bundled: &Bundled, nodes: &NodeIndex) -> Option<GangWhy> {
        let mut sizes: Vec<(&Ask, u64)> = Vec::new();
        for (slot, count) in bundled.iter().flatten() {
            let ask = self.book.asks.ask(*slot);
            if ask.required_node.is_some() {
                continue;
            }
            let is_alike = |(it, _): &(&Ask, u64)| it.resources.same_amount(&ask.resources);
            match sizes.iter().position(is_alike) {
                Some(known) => sizes[known].1 += u64::from(*count),
                None if sizes.len() < COUNTED => sizes.push((ask, u64::from(*count))),
                None => {}
            }
        }
        sizes.into_iter().find_map(|(ask, members)| {
            let lacks = members - nodes.places(&ask.request(), members);
            (lacks > 0).then(|| GangWhy::Places {
                group: ask.task_group.clone().unwrap_or_default(),
                size: Resources::clone(&ask.resources),
                lacks,
                nodes: NodeLacks::default(),
            })
        })
    }

    /// The first group that has to stay in one domain and is too large for each by itself: no search
    /// was made that says so, or quota was short before it. Only members of one size are counted.
    fn short_of_domain(&self, bundled: &Bundled, nodes: &NodeIndex) -> Option<GangWhy> {
        let groups = self.book.undecided()?.groups().iter().zip(bundled);
        let keyed = groups.filter_map(|(group, members)| Some((group.required_domain()?, members)));
        keyed.take(COUNTED).find_map(|(key, members)| {
            let (slot, _) = members.first()?;
            let ask = self.book.asks.ask(*slot);
            let mut short = ShortDomain {
                group: ask.task_group.clone().unwrap_or_default(),
                size: Resources::clone(&ask.resources),
                members: members.iter().map(|(_, count)| u64::from(*count)).sum(),
                lacks: 0,
                key: Arc::from(key),
                value: None,
            };
            self.count_places(&mut short, nodes);
            (short.lacks > 0).then(|| GangWhy::Domain { short, nodes: NodeLacks::default() })
        })
    }

    /// How many members of a group are short in the domain that comes nearest, where all of them are
    /// of one size and nothing else keeps them off nodes.
    fn count_places(&self, short: &mut ShortDomain, nodes: &NodeIndex) {
        let bundled = self.book.undecided().and_then(|it| it.bundle(&self.book.asks).ok());
        let mut of_group = bundled.iter().flatten().flatten().filter_map(|(slot, _)| {
            let ask = self.book.asks.ask(*slot);
            (ask.task_group.as_ref() == Some(&short.group)).then_some(ask)
        });
        let is_plain =
            |ask: &Ask| ask.request().wants_only_room() && ask.resources.same_amount(&short.size);
        if !of_group.all(is_plain) {
            return;
        }
        let request = NodeRequest::of(&short.size);
        let places = nodes.places_by_domain(&short.key, &request, short.members);
        let nearest = places.into_iter().rev().max_by_key(|(_, places)| *places);
        match nearest {
            None => (short.lacks, short.value) = (short.members, None),
            // Others of the gang may have the places.
            Some((_, places)) if places >= short.members => {}
            Some((value, places)) => {
                (short.lacks, short.value) = (short.members - places, Some(value));
            }
        }
    }

    /// What of its user, its group and itself stands in the way of so much.
    /// For whom something of the application was taken, who is to run before the ask does.
    fn gives_way(&self, ask: &Ask, baton: &Baton) -> Option<Why> {
        let (promisee, _) = baton.books.promises.bars(self.slot, ask.sequence)?;
        let application = baton.directory.application_id(promisee.application());
        Some(Why::GivesWay { application })
    }

    fn own_obstacles(&self, wanted: &Resources, baton: &Baton) -> Vec<Why> {
        let starts = self.book.is_starting();
        let mut obstacles = match self.limited_lane() {
            Some(lane) => explain::limits(&baton.books.trackers, lane, wanted, starts),
            None => Vec::new(),
        };
        obstacles.extend(self.backs_off_until().map(|until_ns| Why::BacksOff { until_ns }));
        obstacles
    }
}
