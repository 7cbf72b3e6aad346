//! For which requests more machines would help, told to the RM. What a caller of the handle reads of
//! the same is in `outstanding`.
//!
//! # How
//! Three surveys, one after another. The queues say what they have left ([`QueueRooms`]);
//! the applications that wait below them say what they wait for, class by class, and what the
//! limits of their users and groups leave ([`WaitingApplications`]); [`scale_up::wanted`] decides; the
//! applications that it names say which of their asks these are ([`Telling`]).
//!
//! # In slices
//! Each survey visits at most [`STOPS_MAX`] actors in one step, and looks at [`ASKS_MAX`] asks at most.
//! What is left is gone on with by an input of its own ([`Partition::look_on`]), behind whatever came in
//! meanwhile: a hundred thousand asks that are parked at once cost as many steps as they need, and no
//! long one. Which applications are visited, and what they may have, is found out in one step each, from
//! a few figures of each queue and of each of these applications. So the outcome is as good as a look taken while it was found out; what was placed or
//! withdrawn meanwhile is told of by nobody, and what came meanwhile has its turn a second later.
//!
//! # Who is visited
//! The RM is told of each request once, so a request that waits on costs nothing after that: only
//! applications with something untold are visited, and those that take their part of a maximum or
//! of a limit before them.
//!
//! While nothing is decided, no actor is visited, because requests that wait then do not wait for
//! machines.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::vec;

use monoceros_rules::decide::scale_up::{self, ApplicationWaiting, QueueRoom, Wanted};
use monoceros_rules::limits::LimitId;
use monoceros_rules::values::resources::Limits;
use monoceros_rules::work::allocations::ApplicationSlot;
use monoceros_rules::work::asks::ToTell;

use super::Partition;
use crate::application::Application;
use crate::queue::{LeaveToRun, LimitedUsers, Queue, Room};
use crate::step::{ApplicationEntry, Baton, QueueSlot, Route, Survey};

/// Most actors that are visited in one step.
const STOPS_MAX: usize = 256;
/// Most asks that are looked at in one step, whether the RM is told of them or was before.
const ASKS_MAX: usize = 2_048;

/// Tells the RM of requests that it was not told of.
pub(in crate::partition) fn tell_wanted() -> impl Survey {
    QueueRooms { rooms: BTreeMap::new(), left: None }
}

/// What queues have left.
struct QueueRooms {
    rooms: BTreeMap<QueueSlot, Room>,
    /// Those that are still to be visited; none before the first slice.
    left: Option<vec::IntoIter<QueueSlot>>,
}

impl Survey for QueueRooms {
    fn route(&mut self, partition: &mut Partition, baton: &Baton) -> Route {
        if !partition.decides() {
            (self.rooms, self.left) = (BTreeMap::new(), None);
            return Route::default();
        }
        let queues = &baton.directory.queues;
        let all = || baton.directory.all_queues().map(|entry| entry.facts.slot);
        let left = self.left.get_or_insert_with(|| all().collect::<Vec<_>>().into_iter());
        let part = left.by_ref().filter(|slot| queues.find(*slot).is_some());
        Route::default().queues(part.take(STOPS_MAX))
    }

    fn at_queue(&mut self, queue: &mut Queue, baton: &mut Baton) {
        self.rooms.insert(queue.slot(), queue.room(&baton.books.trackers));
    }

    fn home(self: Box<Self>, partition: &mut Partition, _: &mut Baton) {
        if self.left.as_ref().is_some_and(|left| left.len() > 0) {
            return partition.look_on(self);
        }
        let rooms = self.rooms;
        let places: BTreeMap<QueueSlot, usize> = rooms.keys().copied().zip(0..).collect();
        let (mut leave, mut queues) = (Vec::new(), Vec::new());
        for room in rooms.into_values() {
            let parent = room.parent.and_then(|parent| places.get(&parent).copied());
            queues.push(QueueRoom { parent, key: room.key, left: room.left });
            leave.push(room.leave);
        }
        let (limits, waiting) = (BTreeMap::new(), Vec::new());
        let (ids, left) = (BTreeMap::new(), None);
        partition.survey_next(WaitingApplications {
            places,
            queues,
            leave,
            limits,
            waiting,
            ids,
            left,
        });
    }
}

/// What applications wait for.
struct WaitingApplications {
    /// Where each queue is in the following lists.
    places: BTreeMap<QueueSlot, usize>,
    queues: Vec<QueueRoom>,
    leave: Vec<LeaveToRun>,
    /// What the limits of users and groups leave to the applications.
    limits: BTreeMap<LimitId, Limits>,
    waiting: Vec<ApplicationWaiting>,
    /// The ids of those that wait.
    ids: BTreeMap<ApplicationSlot, Arc<str>>,
    /// Those that are still to be visited; none before the first slice.
    left: Option<vec::IntoIter<ApplicationSlot>>,
}

impl WaitingApplications {
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

    /// Those of which there may be something to tell, and those that take their part before them.
    fn concerned(&self, baton: &Baton) -> Vec<ApplicationSlot> {
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
            return untold().map(|entry| entry.slot).rev().collect();
        }
        let is_concerned = |entry: &&ApplicationEntry| {
            waits_at(entry).is_some_and(|leaf| whole[leaf])
                || directory.untold.contains(&entry.slot)
        };
        let concerned = directory.all_applications().filter(is_concerned);
        concerned.map(|entry| entry.slot).rev().collect()
    }
}

impl Survey for WaitingApplications {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        let mut left = self.left.take().unwrap_or_else(|| self.concerned(baton).into_iter());
        let route = Route::default().applications(left.by_ref().take(STOPS_MAX));
        self.left = Some(left);
        route
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        let Some(place) = self.places.get(&application.leaf_slot()).copied() else { return };
        application.review_leave(self.may_start(place), baton);
        if let Some(waiting) = application.waiting(place, &mut self.limits, baton) {
            self.ids.insert(application.slot(), Arc::clone(&application.known().id));
            self.waiting.push(waiting);
        }
    }

    fn home(self: Box<Self>, partition: &mut Partition, _: &mut Baton) {
        if self.left.as_ref().is_some_and(|left| left.len() > 0) {
            return partition.look_on(self);
        }
        let Self { queues, limits, waiting, ids, .. } = *self;
        let mut order: VecDeque<WantedHere> = VecDeque::new();
        // All that is wanted of one application follows each other.
        for Wanted { application, class, resources, count } in
            scale_up::wanted(queues, limits, waiting)
        {
            if order.back().is_none_or(|last| last.application != application) {
                let id = Arc::clone(&ids[&application]);
                order.push_back(WantedHere { application, id, classes: VecDeque::new() });
            }
            if let Some(last) = order.back_mut() {
                last.classes.push_back(ToTell::first(class, resources, count));
            }
        }
        partition.survey_next(Telling { order, looked_at: 0 });
    }
}

/// The requests of an application that more machines would let run, class by class.
struct WantedHere {
    application: ApplicationSlot,
    /// By then the place may be another's.
    id: Arc<str>,
    classes: VecDeque<ToTell>,
}

/// The last survey: applications tell the RM of their requests.
struct Telling {
    /// In the order in which their requests would be placed.
    order: VecDeque<WantedHere>,
    /// How many asks this slice has looked at.
    looked_at: usize,
}

impl Survey for Telling {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        self.looked_at = 0;
        let is_there = |wanted: &WantedHere| {
            let entry = baton.directory.application(wanted.application);
            entry.is_some_and(|entry| entry.id == wanted.id)
        };
        while self.order.front().is_some_and(|next| !is_there(next)) {
            self.order.pop_front();
        }
        let next = self.order.iter().take(STOPS_MAX);
        Route::default().applications(next.map(|wanted| wanted.application))
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        // Who is passed over has left.
        while let Some(mut next) = self.order.pop_front() {
            if next.application != application.slot() {
                continue;
            }
            if next.id == application.known().id {
                let most = ASKS_MAX - self.looked_at;
                self.looked_at += application.signal(&mut next.classes, most, baton);
                if !next.classes.is_empty() {
                    self.order.push_front(next);
                }
            }
            return;
        }
    }

    fn is_full(&self) -> bool {
        self.looked_at >= ASKS_MAX
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        if self.order.is_empty() {
            partition.looked(baton);
        } else {
            partition.look_on(self);
        }
    }
}

#[cfg(test)]
mod tests {
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

    fn waiting_for(queues: Vec<(QueueRoom, bool, LimitedUsers)>) -> WaitingApplications {
        let leave = |may_start, limited| LeaveToRun { is_waiting: true, may_start, limited };
        let (queues, leave) = queues
            .into_iter()
            .map(|(queue, may_start, limited)| (queue, leave(may_start, limited)))
            .unzip();
        let (limits, waiting) = (BTreeMap::new(), Vec::new());
        let (places, ids, left) = (BTreeMap::new(), BTreeMap::new(), None);
        WaitingApplications { places, queues, leave, limits, waiting, ids, left }
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
