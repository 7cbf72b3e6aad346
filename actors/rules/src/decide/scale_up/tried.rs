//! The asks of one application that were tried and are pending, for the scale-up signal.

use std::collections::BTreeMap;

use super::ApplicationWaiting;
use crate::applications::application::Application;
use crate::applications::native::Stage;
use crate::asks::Ask;
use crate::limits::{LaneId, LimitId, Trackers};
use crate::order::keys::AskKey;
use crate::queues::QueueConfig;
use crate::values::ids::{ApplicationSlot, ClassId};
use crate::values::resources::Limits;

/// View of an application for the scale-up signal.
#[derive(Debug)]
pub struct Tried<'a> {
    /// The application.
    pub book: &'a Application,
    /// The slot of the application in the directory.
    pub slot: ApplicationSlot,
    /// The configuration of its leaf.
    pub leaf: &'a QueueConfig,
    /// The lane of the application, if its user or group has limits.
    pub lane: Option<LaneId>,
    /// The last ask that was tried; `None` unless the application backs off.
    pub reached: Option<AskKey>,
}

impl<'a> Tried<'a> {
    /// Returns the pending requests; `None` if none of them was tried, or if a gang waits for
    /// answers. `leaf` is the index of its leaf in the list of queues. The amounts that the limits
    /// of its user and group leave are added to `left`.
    pub fn waiting(
        &self,
        leaf: usize,
        trackers: &Trackers,
        left: &mut BTreeMap<LimitId, Limits>,
    ) -> Option<ApplicationWaiting> {
        let key = self.book.sort_key(self.leaf)?;
        let asks = &self.book.asks;
        let (classes, together) = match self.book.undecided() {
            Some(native) if native.stage == Stage::InFlight => return None,
            Some(native) => {
                let bundled = native.bundle(asks);
                (bundled.map_or_else(|_| Vec::new(), |it| asks.tried_together(&it)), true)
            }
            None => (asks.tried(self.reached), false),
        };
        if classes.is_empty() {
            return None;
        }
        let rooms = self.lane.map(|lane| trackers.rooms(lane));
        let mut limits = Vec::new();
        for (limit, room) in rooms.into_iter().flatten() {
            left.insert(limit, room);
            limits.push(limit);
        }
        Some(ApplicationWaiting { application: self.slot, leaf, key, limits, classes, together })
    }

    /// Returns the asks of a class that more machines would help, in order, each with the number of
    /// its outstanding allocations: the first asks after `behind` that have `count` outstanding
    /// allocations together. Asks that require a node are omitted.
    pub fn requests(
        &self,
        class: ClassId,
        behind: Option<&AskKey>,
        count: u64,
    ) -> impl Iterator<Item = (AskKey, &'a Ask, u64)> {
        let asks = &self.book.asks;
        let tried = asks.tried_after(class, behind, count, self.reached);
        let tried = tried.map(|(key, slot, count)| (key, asks.ask(slot), count));
        tried.take_while(|(_, ask, _)| ask.required_node.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specs::ask::AskSpec;
    use crate::values::resources::Resources;

    #[test]
    fn only_asks_that_were_tried_wait_for_machines() {
        let (mut book, leaf) = (Application::small(None), QueueConfig::bare("root.a", true));
        let (slot, _) = book.asks.put(AskSpec::new("a", Resources::of(&[("vcore", 1)])), 0, 1);
        let (trackers, mut left) = (Trackers::default(), BTreeMap::new());
        let tried = |book: &Application, left: &mut BTreeMap<LimitId, Limits>| {
            let (slot, lane, reached) = (ApplicationSlot::at(0), None, None);
            let view = Tried { book, slot, leaf: &leaf, lane, reached };
            view.waiting(0, &trackers, left).map(|it| (it.together, it.classes.len()))
        };
        assert_eq!(tried(&book, &mut left), None);
        book.asks.ask_mut(slot).attempted = true;
        assert_eq!(tried(&book, &mut left), Some((false, 1)));
        assert!(left.is_empty(), "no limits");
    }
}
