//! What an application says of asks that wait: which they are, and what stands in their way as far
//! as it can be seen from here. The survey of queues adds the rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::decide::explain::{self, Cause, Why};
use monoceros_rules::nodes::NodeLacks;
use monoceros_rules::work::asks::{AskSpec, PendingClass};

use super::Application;
use crate::step::{BACKOFF_LEAST, Baton, QueueSlot, RowSlot};

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
        let delay = self.leaf_facts.config.settings.backoff_delay.max(BACKOFF_LEAST);
        let delay_ns = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        let classes: Option<Vec<PendingClass<'_>>> = match which {
            Explained::Ask(key) => asks
                .slot_of(key)
                .map(|slot| asks.pending_class_of(slot, keys).into_iter().collect()),
            Explained::Classes { offset, most } => {
                Some(asks.pending_classes(*offset, keys).take(*most).collect())
            }
        };
        ExplainedApplication {
            id: Arc::clone(&self.book.id),
            leaf: self.leaf_facts.slot,
            row: self.row,
            starts: self.book.is_starting(),
            n_classes: asks.n_classes(),
            first_ask: asks.first_key().map(Arc::clone),
            backs_off_since_ns: self.backs_off_until().map(|until| until.saturating_sub(delay_ns)),
            classes: classes.map(|classes| self.explained_classes(classes, baton)),
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
            let (asks, gang) = (&self.book.asks, self.book.gang.as_deref());
            let place = explain::placeholders(asks, gang, class.first);
            let takes_place = place.is_some();
            let mut obstacles: Vec<Why> = place.into_iter().collect();
            if !takes_place {
                obstacles.extend(self.own_obstacles(&class, baton));
                obstacles.extend(explain::nodes(nodes, class.first, class.waits, &lacks));
            }
            ExplainedClass {
                position: class.position,
                count: class.count,
                spec: Arc::clone(&class.first.spec),
                created_ns: class.first.created_ns,
                obstacles,
                takes_place,
                noted: class.noted.map(|(obstacle, since)| (explain::noted(obstacle), since)),
                texts: explain::texts(class.first),
                keys: class.keys,
                lacks,
            }
        });
        explained.collect()
    }

    /// What of its user, its group and itself stands in the way of a class.
    fn own_obstacles(&self, class: &PendingClass<'_>, baton: &Baton) -> Vec<Why> {
        let wanted = class.shape.resources();
        let starts = self.book.is_starting();
        let mut obstacles = match self.limited_lane() {
            Some(lane) => explain::limits(&baton.books.trackers, lane, wanted, starts),
            None => Vec::new(),
        };
        obstacles.extend(self.backs_off_until().map(|until_ns| Why::BacksOff { until_ns }));
        obstacles
    }
}
