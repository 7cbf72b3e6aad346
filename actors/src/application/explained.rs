//! Explanations of pending asks: the asks, and the obstacles that their application knows. The
//! survey of queues adds the other obstacles.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::applications::application::Application as Book;
use monoceros_rules::asks::failed_starts::FailedStarts;
use monoceros_rules::asks::{Ask, PendingClass};
use monoceros_rules::decide::explain::{self, Cause, GangWhy, Why};
use monoceros_rules::decide::pairs;
use monoceros_rules::decide::preemption::Preemptors;
use monoceros_rules::limits::LaneId;
use monoceros_rules::nodes::{Fits, NodeLacks};
use monoceros_rules::pending::nominations::Preemptor;
use monoceros_rules::pending::reservations::Reserver;
use monoceros_rules::specs::ask::{AskSpec, Form};
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot};
use monoceros_rules::values::resources::Resources;
use monoceros_rules::waiting::WaitSet;

use crate::step::{Baton, QueueSlot, RowSlot};
use monoceros_rules::decide::gang::GangSearch;

/// The asks to be explained.
#[derive(Clone, Debug)]
pub(crate) enum Explained {
    /// The class of the ask with this key.
    Ask(String),
    /// The classes after the first `offset`, at most `most` of them.
    Classes { offset: usize, most: usize },
}

/// An application whose asks are explained.
pub(crate) struct ExplainedApplication {
    pub(crate) id: Arc<str>,
    pub(crate) leaf: QueueSlot,
    pub(crate) row: Option<RowSlot>,
    /// Whether it has still to start.
    pub(crate) starts: bool,
    /// The number of its classes, and the key of its first ask.
    pub(crate) n_classes: usize,
    pub(crate) first_ask: Option<Arc<str>>,
    /// The start of its back-off, ns since the epoch; `None` if it does not back off.
    pub(crate) backs_off_since_ns: Option<i64>,
    /// `None`: there is no ask with the key in question.
    pub(crate) classes: Option<Vec<ExplainedClass>>,
}

/// A class of asks that is explained.
pub(crate) struct ExplainedClass {
    pub(crate) position: usize,
    pub(crate) keys: Vec<Arc<str>>,
    pub(crate) count: u64,
    /// A sentence on how many members of its task group run; empty unless the group lacks some.
    pub(crate) gang: String,
    /// The specification of the member that is tried for the whole class.
    pub(crate) spec: Arc<AskSpec>,
    pub(crate) created_ns: i64,
    pub(crate) obstacles: Vec<Why>,
    /// A sentence on whether the asks preempt others, and if not, why.
    pub(crate) preemption: String,
    /// Whether it takes the place of a placeholder, for which it needs no quota.
    pub(crate) takes_place: bool,
    /// The cause that was noted when the class was tried, and the time since which it holds, ns
    /// since the epoch.
    pub(crate) noted: Option<(Cause, i64)>,
    pub(crate) lacks: NodeLacks,
    /// The reasons of predicates, each with the number of nodes.
    pub(crate) texts: BTreeMap<String, u32>,
}

/// A reader that explains the pending asks of one application.
pub(super) struct Explainer<'a> {
    pub(super) book: &'a Book,
    pub(super) slot: ApplicationSlot,
    pub(super) leaf: QueueSlot,
    pub(super) row: Option<RowSlot>,
    /// The lane of its user and group, if these are limited.
    pub(super) lane: Option<LaneId>,
    /// The search for places of a declared gang.
    pub(super) bundle: Option<&'a GangSearch>,
    /// The search for members that take the places of placeholders.
    pub(super) pairs: &'a pairs::Search,
    /// The start and the end of its back-off, ns since the epoch.
    pub(super) backs_off: Option<(i64, i64)>,
    pub(super) preemptors: Preemptors<'a>,
    pub(super) baton: &'a Baton,
}

impl Explainer<'_> {
    /// Explains some of the asks, each class with at most `keys` keys.
    pub(super) fn explained(&self, which: &Explained, keys: usize) -> ExplainedApplication {
        let asks = &self.book.asks;
        let mut gang = self.explained_gang();
        let classes: Option<Vec<PendingClass<'_>>> = match which {
            // The obstacles of the gang are obstacles of each of its members, too.
            Explained::Ask(key) => asks
                .slot_of(key)
                .map(|slot| asks.pending_class_of(slot, keys).into_iter().collect()),
            Explained::Classes { offset, most } if gang.is_empty() => {
                Some(asks.pending_classes(*offset, keys).take(*most).collect())
            }
            Explained::Classes { offset, most } => {
                // The gang comes first, and its internal asks are part of its entry.
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
            gang.extend(self.explained_classes(classes));
            gang
        });
        ExplainedApplication {
            id: Arc::clone(&self.book.id),
            leaf: self.leaf,
            row: self.row,
            starts: self.book.is_starting(),
            n_classes: asks.n_classes(),
            first_ask: asks.first_key().map(Arc::clone),
            backs_off_since_ns: self.backs_off.map(|(since_ns, _)| since_ns),
            classes,
        }
    }

    fn explained_classes(&self, classes: Vec<PendingClass<'_>>) -> Vec<ExplainedClass> {
        let nodes = &self.baton.books.nodes;
        let fits: Vec<_> = classes.iter().map(|class| self.fits(class.first)).collect();
        let requests = classes.iter().zip(&fits);
        let requests: Vec<_> =
            requests.map(|(class, fits)| (explain::request(class.first), fits)).collect();
        let lacks = nodes.lacks_of_each(&requests);
        drop(requests);
        let explained = classes.into_iter().zip(lacks).zip(&fits).map(|((class, lacks), fits)| {
            let places = match self.book.undecided() {
                Some(_) => vec![Why::Gang(GangWhy::Undecided)],
                None => self.explained_places(class.first, &lacks, fits),
            };
            let takes_place = !places.is_empty();
            let mut obstacles: Vec<Why> =
                not_started(class.first.starts(), false).into_iter().collect();
            obstacles.extend(places);
            if !takes_place {
                obstacles.extend(self.gives_way(class.first));
                obstacles.extend(self.own_obstacles(class.shape.resources()));
                let why = explain::nodes(&self.baton.books, class.first, class.waits, &lacks, fits);
                obstacles.extend(why);
            }
            let group = class.first.spec.member_of();
            let lacking = group.and_then(|group| self.book.gang.as_ref()?.lacking(group));
            ExplainedClass {
                gang: lacking.map(|lacking| lacking.to_string()).unwrap_or_default(),
                position: class.position,
                count: class.count,
                spec: Arc::clone(&class.first.spec),
                created_ns: class.first.stated_creation_ns(),
                obstacles,
                takes_place,
                noted: failing_since(class.first.starts())
                    .or(class.noted.map(|(obstacle, since)| (explain::noted(obstacle), since))),
                preemption: self.explained_class(class.first),
                texts: explain::texts(class.first),
                keys: class.keys,
                lacks,
            }
        });
        explained.collect()
    }

    /// Returns a sentence on whether the asks of a class preempt others, by the ask that is tried
    /// for all. Empty for internal asks, which no RM has sent.
    fn explained_class(&self, first: &Ask) -> String {
        let slot = self.book.asks.slot_of(&first.key).filter(|_| first.form != Form::Internal);
        // A member of an undecided gang preempts with its gang.
        let who = slot.map(|slot| match self.book.undecided() {
            Some(_) => Preemptor::Gang(self.slot),
            None => Preemptor::Ask(Reserver { application: self.slot, ask: slot }),
        });
        who.map(|who| self.preemptors.explained(who)).unwrap_or_default()
    }

    /// Returns the nodes that an ask may use by facts of the nodes alone, as far as its RM knows.
    pub(super) fn fits(&self, ask: &Ask) -> Fits {
        self.baton.fits((self.slot, &ask.spec))
    }

    /// Returns the obstacles between an ask and the places of its task group; empty if there are no
    /// such places. `lacks`: what nodes lack for the ask, without the nodes that it may not use
    /// (`fits`).
    fn explained_places(&self, ask: &Ask, lacks: &NodeLacks, fits: &Fits) -> Vec<Why> {
        let (asks, nodes) = (&self.book.asks, &self.baton.books.nodes);
        let (Some(gang), Some(slot)) = (self.book.gang.as_deref(), asks.slot_of(&ask.key)) else {
            return Vec::new();
        };
        let table = &self.baton.books.allocations;
        let of_group = |entry: &&Allocation| entry.spec.member_of() == ask.member_of();
        let asked = self.book.unsettled.iter().filter_map(|id| table.get(*id)).filter(of_group);
        let asked = asked.filter(|entry| entry.question.is_some() && entry.takes().is_some());
        let free = pairs::free_places(asks, slot, gang, self.pairs, &self.baton.books);
        let places = explain::placeholders(asks, gang, ask, free, asked.count() as u64);
        let Some(mut places) = places else { return Vec::new() };
        if let Why::Placeholders { is_held, refused, .. } = &mut places {
            *is_held = self.book.native().is_some();
            let node = free.refused_on.map(|node| Arc::clone(nodes.id(node)));
            *refused = node.map(|node| (node, explain::texts(ask)));
        }
        let is_settled =
            matches!(places, Why::Placeholders { pending: 0, asked: 0, leaving: 0, .. });
        if free.forbidden == 0 || free.untried + free.refused > 0 || !is_settled {
            return vec![places];
        }
        // It may take none of the places, so it needs other capacity, unless one of the places is
        // on the node that it requires.
        let is_refused = self.pairs.is_nowhere(ask.order_key());
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
            None => explain::nodes(&self.baton.books, ask, &WaitSet::Due, lacks, fits)
                .or_else(|| is_refused.then(|| explain::refused(ask, lacks))),
        };
        vec![room.unwrap_or(places)]
    }

    /// Returns the obstacle of an ask that has to wait until a preemptor runs, because allocations
    /// of the application were preempted for it.
    fn gives_way(&self, ask: &Ask) -> Option<Why> {
        let (preemptor, _) = self.baton.books.nominations.bars(self.slot, ask.sequence)?;
        let application = self.baton.directory.application_id(preemptor.application());
        Some(Why::GivesWay { application })
    }

    /// Returns the obstacles of the application's user, group and own state for this amount.
    pub(super) fn own_obstacles(&self, wanted: &Resources) -> Vec<Why> {
        let starts = self.book.is_starting();
        let mut obstacles = match self.lane {
            Some(lane) => explain::limits(&self.baton.books.trackers, lane, wanted, starts),
            None => Vec::new(),
        };
        obstacles.extend(self.backs_off.map(|(_, until_ns)| Why::BacksOff { until_ns }));
        obstacles
    }
}

/// Returns the obstacle of an ask, or of a gang, that waits because it could not be started.
pub(super) fn not_started(starts: Option<&FailedStarts>, of_gang: bool) -> Option<Why> {
    let failed = starts.filter(|starts| starts.until_ns().is_some())?.summary();
    Some(Why::StartFailed { failed, of_gang })
}

/// Returns the cause of an ask, or of a gang, that waits because it could not be started, and the
/// time of its first failed start, ns since the epoch.
pub(super) fn failing_since(starts: Option<&FailedStarts>) -> Option<(Cause, i64)> {
    let starts = starts.filter(|starts| starts.until_ns().is_some())?;
    Some((Cause::StartFailed, starts.since_ns()))
}
