//! For which requests more machines would help: told to the RM, or to a caller of the handle.
//!
//! # How
//! Three surveys, one after another in one step. The queues say what they have left ([`Rooms`]);
//! the applications that wait below them say what they wait for, class by class, and what the
//! limits of their users and groups leave ([`WaitingFor`]); [`scale_up::wanted`] decides; the
//! applications that it names say which of their asks these are ([`Signal`], [`Outstanding`]).
//!
//! While nothing is decided, no actor is visited, because requests that wait then do not wait for
//! machines.

use std::collections::BTreeMap;

use monoceros_config as config;
use monoceros_rules::decide::scale_up::{self, ApplicationWaiting, QueueRoom, Wanted};
use monoceros_rules::limits::LimitId;
use monoceros_rules::values::resources::Limits;
use monoceros_rules::work::allocations::ApplicationSlot;
use monoceros_rules::work::asks::ClassId;
use tokio::sync::oneshot;

use super::{Partition, answer};
use crate::application::Application;
use crate::queue::{Queue, Room};
use crate::snapshot::OutstandingRequest;
use crate::step::{Baton, QueueSlot, Route, Survey};

/// Tells the RM of requests that it was not told of.
pub(in crate::partition) fn tell_wanted() -> impl Survey {
    Rooms { audience: Audience::Rm, rooms: BTreeMap::new() }
}

/// Tells a caller of at most `most` requests, in the order in which they would be placed.
pub(crate) fn outstanding(
    most: usize,
    reply: oneshot::Sender<Vec<OutstandingRequest>>,
) -> impl Survey {
    Rooms { audience: Audience::Reader { most, reply }, rooms: BTreeMap::new() }
}

/// Who is told.
enum Audience {
    /// The RM's callback; each request once.
    Rm,
    /// A caller of the handle, who wants at most `most` requests.
    Reader { most: usize, reply: oneshot::Sender<Vec<OutstandingRequest>> },
}

/// What queues have left.
struct Rooms {
    audience: Audience,
    rooms: BTreeMap<QueueSlot, Room>,
}

impl Survey for Rooms {
    fn route(&mut self, partition: &Partition, baton: &Baton) -> Route {
        if partition.decides() { Route::default().all_queues(baton) } else { Route::default() }
    }

    fn at_queue(&mut self, queue: &mut Queue, _: &mut Baton) {
        self.rooms.insert(queue.slot(), queue.room());
    }

    fn home(self: Box<Self>, partition: &mut Partition, _: &mut Baton) {
        let Self { audience, rooms } = *self;
        let places = rooms.keys().copied().zip(0..).collect();
        let (limits, waiting) = (BTreeMap::new(), Vec::new());
        partition.survey_next(WaitingFor { audience, rooms, places, limits, waiting });
    }
}

/// What applications wait for.
struct WaitingFor {
    audience: Audience,
    rooms: BTreeMap<QueueSlot, Room>,
    /// Where each queue is in the list that is decided from.
    places: BTreeMap<QueueSlot, usize>,
    /// What the limits of users and groups leave to them.
    limits: BTreeMap<LimitId, Limits>,
    waiting: Vec<ApplicationWaiting>,
}

impl Survey for WaitingFor {
    fn route(&mut self, _: &Partition, baton: &Baton) -> Route {
        let rooms = &self.rooms;
        Route::default().applications_that(baton, |entry| {
            rooms.get(&entry.leaf).is_some_and(|room| room.is_waiting)
        })
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        let leaf = application.leaf_slot();
        let may_start = may_start(&self.rooms, leaf);
        let place = self.places[&leaf];
        self.waiting.extend(application.waiting(place, may_start, &mut self.limits, baton));
    }

    fn home(self: Box<Self>, partition: &mut Partition, _: &mut Baton) {
        let Self { audience, rooms, places, limits, waiting } = *self;
        let room = |room: Room| QueueRoom {
            parent: room.parent.and_then(|parent| places.get(&parent).copied()),
            key: room.key,
            left: room.left,
        };
        let rooms = rooms.into_values().map(room).collect();
        let wanted = ByApplication::of(scale_up::wanted(rooms, limits, waiting));
        match audience {
            Audience::Rm => partition.survey_next(Signal { wanted }),
            Audience::Reader { most, reply } => {
                partition.survey_next(Outstanding { wanted, most, found: Vec::new(), reply });
            }
        }
    }
}

/// Whether every queue from this one up to root has room for one more running application.
fn may_start(rooms: &BTreeMap<QueueSlot, Room>, leaf: QueueSlot) -> bool {
    let first = rooms.get(&leaf);
    let mut upward = std::iter::successors(first, |room| rooms.get(&room.parent?));
    upward.all(|room| room.may_start)
}

/// The requests that would run on more machines, by application.
struct ByApplication {
    /// In the order in which their requests would be placed.
    order: Vec<ApplicationSlot>,
    wanted: BTreeMap<ApplicationSlot, Vec<(ClassId, u64)>>,
}

impl ByApplication {
    fn of(all: Vec<Wanted>) -> Self {
        let (mut order, mut wanted) = (Vec::new(), BTreeMap::new());
        for Wanted { application, class, count } in all {
            let of_one: &mut Vec<_> = wanted.entry(application).or_default();
            if of_one.is_empty() {
                order.push(application);
            }
            of_one.push((class, count));
        }
        Self { order, wanted }
    }

    fn route(&self) -> Route {
        Route::default().applications(self.order.iter().copied())
    }

    fn take(&mut self, application: &Application) -> Vec<(ClassId, u64)> {
        self.wanted.remove(&application.slot()).unwrap_or_default()
    }
}

/// The last survey, if the RM is told: applications tell it of their requests.
struct Signal {
    wanted: ByApplication,
}

impl Survey for Signal {
    fn route(&mut self, _: &Partition, _: &Baton) -> Route {
        self.wanted.route()
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        application.signal(self.wanted.take(application), baton);
    }
}

/// The last survey, if a caller is told: applications describe their requests.
struct Outstanding {
    wanted: ByApplication,
    most: usize,
    found: Vec<OutstandingRequest>,
    reply: oneshot::Sender<Vec<OutstandingRequest>>,
}

impl Survey for Outstanding {
    fn route(&mut self, _: &Partition, _: &Baton) -> Route {
        self.wanted.route()
    }

    fn at_application(&mut self, application: &mut Application, _: &mut Baton) {
        let wanted = self.wanted.take(application);
        self.found.extend(application.outstanding(wanted, self.most - self.found.len()));
    }

    fn home(self: Box<Self>, partition: &mut Partition, _: &mut Baton) {
        let Self { mut found, reply, .. } = *self;
        let name = config::plain_name(&partition.name);
        for request in &mut found {
            name.clone_into(&mut request.partition);
        }
        answer(reply, found);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use monoceros_rules::order::keys::{QueueKey, QueueView};
    use monoceros_rules::values::resources::Resources;

    use super::*;

    fn room(parent: Option<u32>, may_start: bool) -> Room {
        let nothing = Resources::new();
        let view = QueueView {
            priority: 0,
            allocated: &nothing,
            guaranteed: None,
            fair_max: None,
            pending: &nothing,
            path: &Arc::from("root"),
        };
        Room {
            parent: parent.map(QueueSlot),
            key: QueueKey::new(true, &view),
            left: Limits::unlimited(),
            is_waiting: true,
            may_start,
        }
    }

    #[test]
    fn an_application_may_start_where_no_queue_up_to_root_is_full() {
        let rooms = |root, middle| {
            let rooms = [room(None, root), room(Some(0), middle), room(Some(1), true)];
            (0..).map(QueueSlot).zip(rooms).collect::<BTreeMap<_, _>>()
        };
        assert!(may_start(&rooms(true, true), QueueSlot(2)));
        assert!(!may_start(&rooms(true, false), QueueSlot(2)));
        assert!(!may_start(&rooms(false, true), QueueSlot(2)));
        assert!(may_start(&rooms(true, false), QueueSlot(0)), "those below do not count");
    }
}
