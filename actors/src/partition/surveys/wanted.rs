//! For which requests more machines would help, told to the RM. What a caller of the handle reads of
//! the same is in `outstanding`.
//!
//! # How
//! Three surveys, one after another in one step. The queues say what they have left ([`Rooms`]);
//! the applications that wait below them say what they wait for, class by class, and what the
//! limits of their users and groups leave ([`WaitingFor`]); [`scale_up::wanted`] decides; the
//! applications that it names say which of their asks these are ([`Signal`]).
//!
//! # Who is visited
//! The RM is told of each request once, so a request that waits on costs nothing after that: only
//! applications with something untold are visited, and those that take their part of a maximum or
//! of a limit before them.
//!
//! While nothing is decided, no actor is visited, because requests that wait then do not wait for
//! machines.

use std::collections::{BTreeMap, BTreeSet};

use monoceros_rules::decide::scale_up::{self, ApplicationWaiting, QueueRoom, Wanted};
use monoceros_rules::limits::LimitId;
use monoceros_rules::values::resources::Limits;
use monoceros_rules::work::allocations::ApplicationSlot;
use monoceros_rules::work::asks::ClassId;

use super::Partition;
use crate::application::Application;
use crate::queue::{LeaveToRun, LimitedUsers, Queue, Room};
use crate::step::{ApplicationEntry, Baton, QueueSlot, Route, Survey};

/// Tells the RM of requests that it was not told of.
pub(in crate::partition) fn tell_wanted() -> impl Survey {
    Rooms { rooms: BTreeMap::new() }
}

/// What queues have left.
struct Rooms {
    rooms: BTreeMap<QueueSlot, Room>,
}

impl Survey for Rooms {
    fn route(&mut self, partition: &mut Partition, baton: &Baton) -> Route {
        if partition.decides() { Route::default().all_queues(baton) } else { Route::default() }
    }

    fn at_queue(&mut self, queue: &mut Queue, baton: &mut Baton) {
        self.rooms.insert(queue.slot(), queue.room(&baton.books.trackers));
    }

    fn home(self: Box<Self>, partition: &mut Partition, _: &mut Baton) {
        let rooms = self.rooms;
        let places: BTreeMap<QueueSlot, usize> = rooms.keys().copied().zip(0..).collect();
        let (mut leave, mut queues) = (Vec::new(), Vec::new());
        for room in rooms.into_values() {
            let parent = room.parent.and_then(|parent| places.get(&parent).copied());
            queues.push(QueueRoom { parent, key: room.key, left: room.left });
            leave.push(room.leave);
        }
        let (limits, waiting) = (BTreeMap::new(), Vec::new());
        partition.survey_next(WaitingFor { places, queues, leave, limits, waiting });
    }
}

/// What applications wait for.
struct WaitingFor {
    /// Where each queue is in the following lists.
    places: BTreeMap<QueueSlot, usize>,
    queues: Vec<QueueRoom>,
    leave: Vec<LeaveToRun>,
    /// What the limits of users and groups leave to the applications.
    limits: BTreeMap<LimitId, Limits>,
    waiting: Vec<ApplicationWaiting>,
}

impl WaitingFor {
    /// Whether every queue from this one up to root has room for one more running application.
    fn may_start(&self, leaf: usize) -> bool {
        let mut upward = std::iter::successors(Some(leaf), |queue| self.queues[*queue].parent);
        upward.all(|queue| self.leave[queue].may_start)
    }

    /// The queues in which all that waits is visited, though the RM was told of it: it takes its
    /// part of what a queue, a user or a group leaves to applications that have something untold,
    /// or has to hear that it may not run yet. The untold ones wait in these leaves.
    fn visited_whole(&self, untold: &BTreeSet<usize>) -> Vec<bool> {
        let mut whole = scale_up::shares_room(&self.queues, untold);
        for (leaf, whole) in whole.iter_mut().enumerate() {
            let is_limited = match self.leave[leaf].limited {
                LimitedUsers::None => false,
                LimitedUsers::MayStart => !untold.is_empty(),
                LimitedUsers::Full => true,
            };
            *whole |= self.leave[leaf].is_waiting && (is_limited || !self.may_start(leaf));
        }
        whole
    }
}

impl Survey for WaitingFor {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        let waits_at = |entry: &ApplicationEntry| {
            self.places.get(&entry.leaf).copied().filter(|leaf| self.leave[*leaf].is_waiting)
        };
        let directory = &baton.directory;
        let untold = || {
            let listed = directory.untold.iter().filter_map(|slot| directory.application(*slot));
            listed.filter(|entry| self.places.contains_key(&entry.leaf))
        };
        let whole = self.visited_whole(&untold().filter_map(waits_at).collect());
        if !whole.contains(&true) {
            return Route::default().applications(untold().map(|entry| entry.slot).rev());
        }
        Route::default().applications_that(baton, |entry| {
            waits_at(entry).is_some_and(|leaf| whole[leaf])
                || directory.untold.contains(&entry.slot)
        })
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        let place = self.places[&application.leaf_slot()];
        let may_start = self.may_start(place);
        application.review_leave(may_start, baton);
        self.waiting.extend(application.waiting(place, &mut self.limits, baton));
    }

    fn home(self: Box<Self>, partition: &mut Partition, _: &mut Baton) {
        let Self { queues, limits, waiting, .. } = *self;
        let mut wanted: BTreeMap<ApplicationSlot, Vec<(ClassId, u64)>> = BTreeMap::new();
        let mut order = Vec::new();
        for Wanted { application, class, count } in scale_up::wanted(queues, limits, waiting) {
            let of_one = wanted.entry(application).or_default();
            if of_one.is_empty() {
                order.push(application);
            }
            of_one.push((class, count));
        }
        partition.survey_next(Signal { order, wanted });
    }
}

/// The last survey: applications tell the RM of their requests.
struct Signal {
    /// In the order in which their requests would be placed.
    order: Vec<ApplicationSlot>,
    wanted: BTreeMap<ApplicationSlot, Vec<(ClassId, u64)>>,
}

impl Survey for Signal {
    fn route(&mut self, _: &mut Partition, _: &Baton) -> Route {
        Route::default().applications(self.order.iter().copied())
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        let wanted = self.wanted.remove(&application.slot()).unwrap_or_default();
        application.signal(wanted, baton);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use monoceros_rules::order::keys::{QueueKey, QueueView};
    use monoceros_rules::values::resources::Resources;

    use super::*;

    fn queue(parent: Option<usize>, left: Limits) -> QueueRoom {
        let nothing = Resources::new();
        let view = QueueView {
            priority: 0,
            allocated: &nothing,
            guaranteed: None,
            fair_max: None,
            pending: &nothing,
            path: &Arc::from("root"),
        };
        QueueRoom { parent, key: QueueKey::new(true, &view), left }
    }

    fn waiting_for(queues: Vec<(QueueRoom, bool, LimitedUsers)>) -> WaitingFor {
        let leave = |may_start, limited| LeaveToRun { is_waiting: true, may_start, limited };
        let (queues, leave) = queues
            .into_iter()
            .map(|(queue, may_start, limited)| (queue, leave(may_start, limited)))
            .unzip();
        let (limits, waiting) = (BTreeMap::new(), Vec::new());
        let places = BTreeMap::new();
        WaitingFor { places, queues, leave, limits, waiting }
    }

    #[test]
    fn an_application_may_start_where_no_queue_up_to_root_is_full() {
        let chain = |root, middle| {
            let free = |parent, may_start| {
                (queue(parent, Limits::unlimited()), may_start, LimitedUsers::None)
            };
            waiting_for(vec![free(None, root), free(Some(0), middle), free(Some(1), true)])
        };
        assert!(chain(true, true).may_start(2));
        assert!(!chain(true, false).may_start(2));
        assert!(!chain(false, true).may_start(2));
        assert!(chain(true, false).may_start(0), "those below do not count");
    }

    #[test]
    fn a_leaf_is_visited_whole_where_something_is_shared_or_somebody_may_not_start() {
        let unlimited = Limits::unlimited;
        let maximum = || Limits::of(&[("vcore", 1)]);
        let look = waiting_for(vec![
            (queue(None, unlimited()), true, LimitedUsers::None),
            (queue(Some(0), unlimited()), true, LimitedUsers::None),
            (queue(Some(0), unlimited()), true, LimitedUsers::MayStart),
            (queue(Some(0), unlimited()), true, LimitedUsers::Full),
            (queue(Some(0), unlimited()), false, LimitedUsers::None),
            (queue(Some(0), maximum()), true, LimitedUsers::None),
            (queue(Some(5), unlimited()), true, LimitedUsers::None),
            (queue(Some(5), unlimited()), true, LimitedUsers::None),
        ]);
        let whole = |untold: &[usize]| -> Vec<usize> {
            let whole = look.visited_whole(&untold.iter().copied().collect());
            whole.iter().enumerate().filter(|(_, whole)| **whole).map(|(leaf, _)| leaf).collect()
        };
        assert_eq!(whole(&[]), [3, 4], "somebody may not start there");
        assert_eq!(whole(&[1]), [2, 3, 4], "its user may be one of those in 2 and 3");
        assert_eq!(whole(&[6]), [2, 3, 4, 5, 6, 7], "it shares the maximum of 5");
    }
}
