//! The scale-up signal: reports to the RM the requests that more machines would let run.
//! `outstanding` lists the same requests for a caller of the handle.
//!
//! # How
//! Four surveys run one after another. The queues report the capacity that they have left
//! ([`QueueRooms`]). The applications below them report their pending asks, class by class, and the
//! amounts that the limits of their users and groups leave ([`WaitingApplications`]). The rule
//! decides without visiting an actor ([`Deciding`]). The applications whose requests it chooses
//! report these to the RM ([`Reporting`]).
//!
//! # In slices
//! In one step at most [`STOPS_MAX`] actors are visited, [`LOOKED_THROUGH`] applications checked
//! for whether they must be visited, [`DECIDED_MAX`] decided, and [`ASKS_MAX`] asks examined. The
//! rest is an input of its own ([`Partition::continue_signal`]), behind the inputs that arrived
//! before it: a hundred thousand asks that are parked at once cost many short steps, and no long
//! one. Only some figures of queues are computed for all queues at once.
//!
//! The slices see the partition at slightly different times. Asks that are placed or withdrawn
//! during the scan are not reported; asks that arrive during the scan are reported by the next one,
//! one second later. There is one exception: if a leaf had scale-up signals that the RM had not
//! received when the scan began, a new ask in it is reported by this scan, provided that its
//! application was not visited yet, because applications that use the same maximum are visited
//! then.
//!
//! # Which applications are visited
//! The RM is notified of each request once, so a pending request costs nothing after that. Only
//! applications with scale-up signals that the RM has not received are visited, and those that use
//! part of a maximum or of a limit before them.
//!
//! While the partition decides nothing, no actor is visited, because requests that are pending then
//! do not wait for machines.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;
use std::vec;

use monoceros_rules::asks::ToSignal;
use monoceros_rules::decide::scale_up::{self, Counting, InOrder, QueueRoom, Wanted};
use monoceros_rules::limits::LimitId;
use monoceros_rules::values::ids::ApplicationSlot;
use monoceros_rules::values::resources::Limits;

use super::Partition;
use crate::application::Application;
use crate::queue::{LeaveToRun, LimitedUsers, Queue, Room};
use crate::step::{Baton, Directory, QueueSlot, Route, Survey};

/// Most actors that are visited in one step.
const STOPS_MAX: usize = 256;
/// Most applications that are checked in one step for whether they must be visited.
const LOOKED_THROUGH: u32 = 4_096;
/// Most applications that are decided in one step.
const DECIDED_MAX: usize = 1_024;
/// Most asks that are examined in one step, whether or not the RM was notified of them before.
const ASKS_MAX: usize = 2_048;

/// Returns the survey that notifies the RM of requests that it does not know of yet.
pub(in crate::partition) fn scale_up_survey() -> impl Survey {
    QueueRooms { rooms: BTreeMap::new(), left: None }
}

/// Survey of the capacity that queues have left.
struct QueueRooms {
    rooms: BTreeMap<QueueSlot, Room>,
    /// Queues still to be visited; `None` before the first slice.
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
            return partition.continue_signal(self);
        }
        let rooms = self.rooms;
        let places: BTreeMap<QueueSlot, usize> = rooms.keys().copied().zip(0..).collect();
        let (mut leave, mut queues) = (Vec::new(), Vec::new());
        for room in rooms.into_values() {
            let parent = room.parent.and_then(|parent| places.get(&parent).copied());
            queues.push(QueueRoom { parent, key: room.key, left: room.left });
            leave.push(room.leave);
        }
        let (limits, waiting) = (BTreeMap::new(), InOrder::default());
        let (ids, unsignalled, whole) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        partition.survey_next(WaitingApplications {
            places,
            queues,
            leave,
            limits,
            waiting,
            ids,
            unsignalled,
            whole,
            left: Left::Unknown,
        });
    }
}

/// Survey of pending asks of applications.
struct WaitingApplications {
    /// The position of each queue in the following lists.
    places: BTreeMap<QueueSlot, usize>,
    queues: Vec<QueueRoom>,
    leave: Vec<LeaveToRun>,
    /// The amounts that limits of users and groups leave to the applications.
    limits: BTreeMap<LimitId, Limits>,
    waiting: InOrder,
    /// The ids of the waiting applications.
    ids: BTreeMap<ApplicationSlot, Arc<str>>,
    /// When the visits were determined, the leaves with an application whose scale-up signal the RM
    /// had not yet received.
    unsignalled: BTreeSet<QueueSlot>,
    /// The queues in which every waiting application is visited.
    whole: Vec<bool>,
    left: Left,
}

/// The applications still to be visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Not determined yet.
    Unknown,
    /// Applications with scale-up signals that the RM has not received, after this one.
    Untold(Option<(QueueSlot, ApplicationSlot)>),
    /// Concerned applications from this slot on, up to the last slot of all.
    Concerned(u32, u32),
    Nobody,
}

impl WaitingApplications {
    /// Whether every queue from this one up to root has room for one more running application.
    fn may_start(&self, leaf: usize) -> bool {
        let mut upward = std::iter::successors(Some(leaf), |queue| self.queues[*queue].parent);
        upward.all(|queue| self.leave[queue].may_start)
    }

    /// Returns the queues in which every waiting application is visited, although the RM knows of
    /// its asks: the application uses part of what a queue, a user or a group leaves to
    /// applications with scale-up signals that the RM has not received, or has to be notified that
    /// it may not run yet. The applications with such signals wait in the leaves `unsignalled`.
    fn visited_whole(&self, unsignalled: &BTreeSet<usize>) -> Vec<bool> {
        let mut counted = unsignalled.clone();
        if !unsignalled.is_empty() {
            let limited = self.leave.iter().enumerate();
            let limited =
                limited.filter(|(_, it)| it.is_waiting && it.limited != LimitedUsers::None);
            counted.extend(limited.map(|(leaf, _)| leaf));
        }
        let mut whole = scale_up::shares_room(&self.queues, &counted);
        for (leaf, whole) in whole.iter_mut().enumerate() {
            let is_limited = match self.leave[leaf].limited {
                LimitedUsers::None => false,
                LimitedUsers::MayStart => !unsignalled.is_empty(),
                LimitedUsers::Full => true,
            };
            *whole |= self.leave[leaf].is_waiting && (is_limited || !self.may_start(leaf));
        }
        whole
    }

    /// Returns the position of a leaf in which an application waits.
    fn waits_at(&self, leaf: QueueSlot) -> Option<usize> {
        self.places.get(&leaf).copied().filter(|leaf| self.leave[*leaf].is_waiting)
    }

    /// Determines the applications to visit.
    fn begin(&mut self, directory: &Directory) {
        let known = directory.unsignalled.keys().filter(|leaf| self.places.contains_key(*leaf));
        self.unsignalled = known.copied().collect();
        let unsignalled = self.unsignalled.iter().filter_map(|leaf| self.waits_at(*leaf)).collect();
        self.whole = self.visited_whole(&unsignalled);
        self.left = if self.whole.contains(&true) {
            Left::Concerned(0, u32::try_from(directory.applications.bound()).unwrap_or(u32::MAX))
        } else {
            Left::Untold(None)
        };
    }

    /// Returns the next applications with scale-up signals that the RM has not received.
    fn next_unsignalled(
        &mut self,
        behind: Option<(QueueSlot, ApplicationSlot)>,
        directory: &Directory,
    ) -> Vec<ApplicationSlot> {
        let from = behind.map_or(Unbounded, |(leaf, _)| Included(leaf));
        let leaves = directory.unsignalled.range((from, Unbounded));
        let next: Vec<_> = leaves
            .filter(|(leaf, _)| self.unsignalled.contains(leaf))
            .flat_map(|(leaf, here)| {
                let last = behind.filter(|(last, _)| last == leaf);
                let from = last.map_or(Unbounded, |(_, slot)| Excluded(slot));
                here.range((from, Unbounded)).map(|slot| (*leaf, *slot))
            })
            .take(STOPS_MAX)
            .collect();
        self.left = next.last().map_or(Left::Nobody, |last| Left::Untold(Some(*last)));
        next.into_iter().map(|(_, slot)| slot).collect()
    }

    /// Returns the next applications that may have scale-up signals that the RM has not received,
    /// and those that use part of a maximum before them.
    fn next_concerned(
        &mut self,
        (from, end): (u32, u32),
        directory: &Directory,
    ) -> Vec<ApplicationSlot> {
        let (mut next, mut concerned) = (from, Vec::new());
        while next < end.min(from.saturating_add(LOOKED_THROUGH)) && concerned.len() < STOPS_MAX {
            let slot = ApplicationSlot::at(next);
            next += 1;
            let Some(leaf) = directory.application(slot).map(|entry| entry.leaf) else { continue };
            let is_unsignalled = || {
                let here =
                    directory.unsignalled.get(&leaf).filter(|_| self.unsignalled.contains(&leaf));
                here.is_some_and(|here| here.contains(&slot))
            };
            if self.waits_at(leaf).is_some_and(|leaf| self.whole[leaf]) || is_unsignalled() {
                concerned.push(slot);
            }
        }
        self.left = if next < end { Left::Concerned(next, end) } else { Left::Nobody };
        concerned
    }
}

impl Survey for WaitingApplications {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        let directory = &baton.directory;
        if self.left == Left::Unknown {
            self.begin(directory);
        }
        Route::default().applications(match self.left {
            Left::Untold(behind) => self.next_unsignalled(behind, directory),
            Left::Concerned(from, end) => self.next_concerned((from, end), directory),
            Left::Unknown | Left::Nobody => Vec::new(),
        })
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        let Some(place) = self.places.get(&application.leaf_facts.slot).copied() else { return };
        if self.ids.contains_key(&application.slot) {
            // In an earlier step another application had this slot, and is counted.
            return;
        }
        application.review_leave(self.may_start(place), baton);
        if let Some(waiting) =
            application.tried().waiting(place, &baton.books.trackers, &mut self.limits)
        {
            self.ids.insert(application.slot, Arc::clone(&application.known().id));
            self.waiting.insert(waiting);
        }
    }

    fn home(self: Box<Self>, partition: &mut Partition, _: &mut Baton) {
        if self.left != Left::Nobody {
            return partition.continue_signal(self);
        }
        let Self { queues, limits, waiting, ids, .. } = *self;
        let counting = Counting::new(queues, limits, waiting);
        partition.survey_next(Deciding { counting, ids, order: VecDeque::new() });
    }
}

/// Decides which requests more machines would let run. No actor is visited.
struct Deciding {
    counting: Counting,
    ids: BTreeMap<ApplicationSlot, Arc<str>>,
    /// The applications with decided requests.
    order: VecDeque<WantedHere>,
}

impl Survey for Deciding {
    fn home(mut self: Box<Self>, partition: &mut Partition, _: &mut Baton) {
        for _ in 0..DECIDED_MAX {
            let Some(wanted) = self.counting.next() else {
                return partition.survey_next(Reporting { order: self.order, looked_at: 0 });
            };
            let Some(application) = wanted.first().map(|first| first.application) else { continue };
            let first =
                |Wanted { class, resources, count, .. }| ToSignal::first(class, resources, count);
            let classes = wanted.into_iter().map(first).collect();
            let id = Arc::clone(&self.ids[&application]);
            self.order.push_back(WantedHere { application, id, classes });
        }
        partition.continue_signal(self);
    }
}

/// The requests of an application that more machines would let run, class by class.
struct WantedHere {
    application: ApplicationSlot,
    /// The application's id; another application may have its slot when it is visited.
    id: Arc<str>,
    classes: VecDeque<ToSignal>,
}

/// The last survey: applications notify the RM of their requests.
struct Reporting {
    /// Applications in the order in which their requests would be placed.
    order: VecDeque<WantedHere>,
    /// The number of asks that this slice has examined.
    looked_at: usize,
}

impl Survey for Reporting {
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
        // Entries of removed applications are passed over.
        while let Some(mut next) = self.order.pop_front() {
            if next.application != application.slot {
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
            partition.signal_done(baton);
        } else {
            partition.continue_signal(self);
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
        let (limits, waiting) = (BTreeMap::new(), InOrder::default());
        let (places, ids) = (BTreeMap::new(), BTreeMap::new());
        let (unsignalled, whole, left) = (BTreeSet::new(), Vec::new(), Left::Unknown);
        WaitingApplications {
            places,
            queues,
            leave,
            limits,
            waiting,
            ids,
            unsignalled,
            whole,
            left,
        }
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
        let whole = |unsignalled: &[usize]| -> Vec<usize> {
            let whole = look.visited_whole(&unsignalled.iter().copied().collect());
            whole.iter().enumerate().filter(|(_, whole)| **whole).map(|(leaf, _)| leaf).collect()
        };
        assert_eq!(whole(&[]), [3, 4], "somebody may not start there");
        assert_eq!(whole(&[1]), [2, 3, 4], "its user may be one of those in 2 and 3");
        assert_eq!(whole(&[6]), [2, 3, 4, 5, 6, 7], "it shares the maximum of 5");
    }
}
