//! Nominations: capacity that is kept for a preemptor, an ask or a gang, while its victims are
//! released.
//!
//! # Why
//! Between the choice of victims and the placement of the preemptor, the capacity must not be given
//! to another ask, least of all to an ask of the preempted applications: they would regain what
//! they lost, and the preemptor would preempt once more. A reservation keeps the node for the
//! preemptor. This table keeps what reservations do not cover:
//! * The amount of the preemptor is subtracted from the headroom of its path, for all other asks.
//!   The amount that its victims below a queue still hold is not subtracted a second time: it
//!   counts as used until they are released.
//! * Asks of a preempted application that arrive later are not tried while the nomination lasts.
//! * A gang needs capacity on many nodes at once: it reserves amounts on nodes, its *rooms*. Other
//!   asks may use the capacity of a node beyond them. The part of a room that no victim holds any
//!   more is *kept*: the node index does not show it. While the gang itself searches for places,
//!   its rooms are *lifted*, which means suspended: the index shows them to the gang, and no other
//!   ask is tried.
//!
//! # When a nomination ends
//! A nomination ends at the first of these: the preemptor is placed; its reservation ends; it is
//! refused for the first time after the last victim was confirmed; the time for which a reservation
//! may wait is over. The code that ends it calls [`Nominations::end`].
//!
//! # Victims whose preemptor is gone
//! A nomination may end before its victims are released, for example because the preemptor was
//! withdrawn. These are *orphaned victims*. The amount that they hold is
//! [coming](Nominations::coming), and no further victims are chosen for an ask for which it is
//! enough. The same holds for the victims of a queue above its maximum, which have no preemptor.
//!
//! # Invariants
//! * A preemptor has at most one nomination; a victim belongs to at most one preemptor.
//! * The nominations counted for a queue are the sum of those of preemptors below it. The amount
//!   subtracted from its headroom is the same sum, each nomination less the amount that its victims
//!   below the queue still hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pending::reservations::Reserver;
use crate::values::ids::{AllocationId, ApplicationSlot, NodeSlot};
use crate::values::instant::after;
use crate::values::resources::Resources;

/// A preemptor that has a nomination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Preemptor {
    /// An ask.
    Ask(Reserver),
    /// The gang of an application.
    Gang(ApplicationSlot),
}

/// The nomination of a preemptor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Nomination {
    /// The path of the preemptor's leaf.
    pub queue: Arc<str>,
    /// The amount that the preemptor needs; for a gang, of all members together.
    pub amount: Resources,
    /// The time when it was made, ns since the epoch.
    pub since_ns: i64,
    /// The last arrival number at that time ([`Books::arrival`](crate::books::Books::arrival)).
    pub arrival: u64,
    /// The victims that are not confirmed yet.
    #[serde(with = "crate::values::pairs")]
    pub victims: BTreeMap<AllocationId, Victim>,
    /// The applications of its victims.
    pub losers: Vec<ApplicationSlot>,
    /// The rooms of a gang, one for each member.
    pub rooms: Vec<Room>,
}

/// The capacity on a node that is reserved for one member of a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// The index of its task group in the declaration.
    pub group: usize,
    /// The node.
    pub node: NodeSlot,
    /// The amount.
    pub amount: Resources,
}

/// A victim that is not released yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Victim {
    /// The path of its leaf.
    pub queue: Arc<str>,
    /// The node of the victim.
    pub node: NodeSlot,
    /// The amount that it holds until it is confirmed.
    pub amount: Resources,
}

/// A victim whose preemptor is gone, or that never had a preemptor.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct OrphanedVictim {
    node: NodeSlot,
    amount: Resources,
    /// The time at which its eviction was requested, ns since the epoch.
    since_ns: i64,
}

/// The capacity that orphaned victims will free on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coming {
    /// The amount that the victims hold together.
    pub amount: Resources,
    /// The victims.
    pub who: Vec<AllocationId>,
    /// The time, ns since the epoch, until which the victims are expected to end.
    pub until_ns: i64,
}

/// The sums of nominations below a queue.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Sums {
    nominated: Resources,
    taken_off: Resources,
}

/// All nominations of a partition.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Nominations {
    #[serde(with = "crate::values::pairs")]
    preemptors: BTreeMap<Preemptor, Nomination>,
    #[serde(with = "crate::values::pairs")]
    victims: BTreeMap<AllocationId, Preemptor>,
    queues: BTreeMap<Arc<str>, Sums>,
    losers: BTreeMap<ApplicationSlot, BTreeSet<Preemptor>>,
    /// The gangs with reserved capacity, by node.
    nodes: BTreeMap<NodeSlot, BTreeSet<Preemptor>>,
    /// Orphaned victims.
    #[serde(with = "crate::values::pairs")]
    orphans: BTreeMap<AllocationId, OrphanedVictim>,
    /// The gangs whose rooms are lifted.
    lifted: BTreeSet<Preemptor>,
    /// Whether a deadline is armed for the next nomination that will have waited too long.
    is_watched: bool,
}

/// The effect of the confirmation of a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// The preemptor.
    pub preemptor: Preemptor,
    /// Whether it was the last victim: the preemptor may be placed.
    pub is_last: bool,
}

impl Nominations {
    /// Records the nomination of a plan that was carried out. It replaces an earlier nomination of
    /// the preemptor.
    pub fn make(&mut self, preemptor: Preemptor, nomination: Nomination) {
        self.end(preemptor);
        for victim in nomination.victims.keys() {
            self.victims.insert(*victim, preemptor);
        }
        for queue in path(&nomination.queue) {
            let sums = self.queues.entry(Arc::from(queue)).or_default();
            sums.nominated.add(&nomination.amount);
            sums.taken_off.add(&nomination.part(queue));
        }
        for loser in &nomination.losers {
            self.losers.entry(*loser).or_default().insert(preemptor);
        }
        for room in &nomination.rooms {
            self.nodes.entry(room.node).or_default().insert(preemptor);
        }
        self.preemptors.insert(preemptor, nomination);
    }

    /// Ends the nomination of a preemptor. Victims that are not released yet become orphaned.
    /// `None` if there is no nomination.
    pub fn end(&mut self, preemptor: Preemptor) -> Option<Nomination> {
        let nomination = self.preemptors.remove(&preemptor)?;
        for (id, victim) in &nomination.victims {
            self.victims.remove(id);
            self.add_orphan(*id, victim, nomination.since_ns);
        }
        for queue in path(&nomination.queue) {
            if let Some(sums) = self.queues.get_mut(queue) {
                sums.nominated.subtract(&nomination.amount);
                sums.nominated.prune();
                sums.taken_off.subtract(&nomination.part(queue));
                sums.taken_off.prune();
                if sums.nominated.is_empty() {
                    self.queues.remove(queue);
                }
            }
        }
        for loser in &nomination.losers {
            remove(&mut self.losers, loser, preemptor);
        }
        for room in &nomination.rooms {
            remove(&mut self.nodes, &room.node, preemptor);
        }
        self.lifted.remove(&preemptor);
        Some(nomination)
    }

    /// Records that a victim is released. `None` if its preemptor has no nomination any more.
    pub fn confirmed(&mut self, victim: AllocationId) -> Option<Confirmed> {
        self.orphans.remove(&victim);
        let confirmed = self.change(victim, |victims| drop(victims.remove(&victim)));
        self.victims.remove(&victim);
        confirmed
    }

    /// Records an orphaned victim, whose eviction was requested at this time, ns since the epoch.
    /// It counts until it is [confirmed](Self::confirmed).
    pub fn add_orphan(&mut self, id: AllocationId, victim: &Victim, since_ns: i64) {
        let Victim { node, amount, .. } = victim.clone();
        self.orphans.insert(id, OrphanedVictim { node, amount, since_ns });
    }

    /// Returns the capacity that orphaned victims will free, by node. It is expected for as long as
    /// a reservation may wait.
    pub fn coming(&self, now_ns: i64, timeout: Duration) -> BTreeMap<NodeSlot, Coming> {
        let mut coming: BTreeMap<NodeSlot, Coming> = BTreeMap::new();
        for (id, orphan) in &self.orphans {
            let until_ns = after(orphan.since_ns, timeout);
            if until_ns <= now_ns {
                continue;
            }
            let first = || Coming { until_ns, ..Coming::default() };
            let here = coming.entry(orphan.node).or_insert_with(first);
            here.amount.add(&orphan.amount);
            here.who.push(*id);
            here.until_ns = here.until_ns.min(until_ns);
        }
        coming
    }

    /// Records that a victim that is not released yet holds another amount now.
    pub fn resized(&mut self, victim: AllocationId, amount: &Resources) {
        if let Some(orphan) = self.orphans.get_mut(&victim) {
            orphan.amount.clone_from(amount);
        }
        self.change(victim, |victims| {
            if let Some(victim) = victims.get_mut(&victim) {
                victim.amount.clone_from(amount);
            }
        });
    }

    /// Changes the victims of this victim's preemptor, and the amounts that are subtracted from
    /// queues. Returns the preemptor, and whether it has no victims left; `None` if it has no
    /// nomination any more.
    fn change(
        &mut self,
        victim: AllocationId,
        change: impl FnOnce(&mut BTreeMap<AllocationId, Victim>),
    ) -> Option<Confirmed> {
        let preemptor = self.of_victim(victim)?;
        let nomination = self.preemptors.get_mut(&preemptor)?;
        for queue in path(&nomination.queue) {
            if let Some(sums) = self.queues.get_mut(queue) {
                sums.taken_off.subtract(&nomination.part(queue));
            }
        }
        change(&mut nomination.victims);
        for queue in path(&nomination.queue) {
            if let Some(sums) = self.queues.get_mut(queue) {
                sums.taken_off.add(&nomination.part(queue));
                sums.taken_off.prune();
            }
        }
        Some(Confirmed { preemptor, is_last: nomination.victims.is_empty() })
    }

    /// Returns the nomination of a preemptor, which does not preempt again while it has one.
    pub fn of(&self, preemptor: Preemptor) -> Option<&Nomination> {
        self.preemptors.get(&preemptor)
    }

    /// Returns the preemptor of a victim.
    pub fn of_victim(&self, victim: AllocationId) -> Option<Preemptor> {
        self.victims.get(&victim).copied()
    }

    /// Returns the amount that is subtracted from the headroom of a queue. A preemptor adds [its
    /// own](Self::own) part again.
    pub fn taken_off(&self, queue: &str) -> Option<&Resources> {
        self.queues.get(queue).map(|sums| &sums.taken_off)
    }

    /// Returns the sum of the nominations in a queue and below.
    pub fn nominated(&self, queue: &str) -> Option<&Resources> {
        self.queues.get(queue).map(|sums| &sums.nominated)
    }

    /// Returns the amount that every queue of its path subtracts for this preemptor. Once its
    /// victims are released, that is its whole nomination.
    pub fn own(&self, preemptor: Preemptor) -> Resources {
        let Some(nomination) = self.of(preemptor) else { return Resources::new() };
        // Victims below a queue are below the queues above it, too.
        let root = path(&nomination.queue).last().unwrap_or_default();
        nomination.part(root)
    }

    /// Returns the nomination that keeps an ask of an application from being tried: the ask arrived
    /// after allocations of its application were preempted for another.
    pub fn bars(
        &self,
        application: ApplicationSlot,
        arrival: u64,
    ) -> Option<(Preemptor, &Nomination)> {
        let of = self.losers.get(&application)?.iter();
        let mut of = of.map(|preemptor| (*preemptor, &self.preemptors[preemptor]));
        of.find(|(preemptor, nomination)| {
            arrival > nomination.arrival && preemptor.application() != application
        })
    }

    /// Returns the amount that is kept for gangs on a node; `None` if no gang has rooms there.
    pub fn kept(&self, node: NodeSlot) -> Option<Resources> {
        let gangs = self.nodes.get(&node)?.iter().filter(|gang| !self.lifted.contains(gang));
        gangs.map(|gang| self.kept_for(node, *gang)).reduce(|sum, kept| sum.plus(&kept))
    }

    /// Returns the reserved capacity of a preemptor on a node, less the amount that its victims
    /// there still hold. It is empty while the rooms are lifted.
    pub fn kept_for(&self, node: NodeSlot, preemptor: Preemptor) -> Resources {
        let nomination =
            self.preemptors.get(&preemptor).filter(|_| !self.lifted.contains(&preemptor));
        let Some(nomination) = nomination else { return Resources::new() };
        let mut room = Resources::new();
        for of in nomination.rooms.iter().filter(|of| of.node == node) {
            room.add(&of.amount);
        }
        let mut leaving = Resources::new();
        for victim in nomination.victims.values().filter(|victim| victim.node == node) {
            leaving.add(&victim.amount);
        }
        room.minus_clamped(&leaving).pruned()
    }

    /// Lifts the rooms of a gang, or ends that.
    pub fn lift(&mut self, preemptor: Preemptor, lifted: bool) {
        if lifted && self.preemptors.contains_key(&preemptor) {
            self.lifted.insert(preemptor);
        } else {
            self.lifted.remove(&preemptor);
        }
    }

    /// Returns the gangs with rooms on a node.
    pub fn on_node(&self, node: NodeSlot) -> impl Iterator<Item = Preemptor> {
        self.nodes.get(&node).into_iter().flatten().copied()
    }

    /// Notes that a deadline is armed for the next nomination that will have waited too long.
    /// Returns whether none was armed before.
    pub fn watch(&mut self) -> bool {
        !std::mem::replace(&mut self.is_watched, true)
    }

    /// Returns, when the deadline has passed, the preemptors that have waited for longer than a
    /// reservation may; and the time of the next check, ns since the epoch, if there are others.
    pub fn waited(&mut self, now_ns: i64, timeout: Duration) -> (Vec<Preemptor>, Option<i64>) {
        let until = |nomination: &Nomination| after(nomination.since_ns, timeout);
        let (over, left): (Vec<_>, Vec<_>) =
            self.preemptors.iter().partition(|(_, nomination)| until(nomination) <= now_ns);
        let next_ns = left.iter().map(|(_, nomination)| until(nomination)).min();
        let over = over.into_iter().map(|(preemptor, _)| *preemptor).collect();
        self.is_watched = next_ns.is_some();
        (over, next_ns)
    }

    /// Returns all nominations, each with its preemptor.
    pub fn all(&self) -> impl Iterator<Item = (Preemptor, &Nomination)> {
        self.preemptors.iter().map(|(preemptor, nomination)| (*preemptor, nomination))
    }

    /// Returns the number of nominations.
    pub fn len(&self) -> usize {
        self.preemptors.len()
    }

    /// Whether there are no nominations.
    pub fn is_empty(&self) -> bool {
        self.preemptors.is_empty()
    }
}

impl Nomination {
    /// Returns the amount that is subtracted from a queue above the preemptor.
    fn part(&self, queue: &str) -> Resources {
        let mut leaving = Resources::new();
        for victim in self.victims.values() {
            if path(&victim.queue).any(|above| above == queue) {
                leaving.add(&victim.amount);
            }
        }
        self.amount.minus_clamped(&leaving).pruned()
    }
}

impl Preemptor {
    /// Returns the preemptor's application.
    pub fn application(self) -> ApplicationSlot {
        match self {
            Self::Ask(reserver) => reserver.application,
            Self::Gang(application) => application,
        }
    }
}

fn remove<K: Ord>(from: &mut BTreeMap<K, BTreeSet<Preemptor>>, key: &K, preemptor: Preemptor) {
    if let Some(of) = from.get_mut(key) {
        of.remove(&preemptor);
        if of.is_empty() {
            from.remove(key);
        }
    }
}

/// Returns the queue and the queues above it.
fn path(queue: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(queue), |path| path.rsplit_once('.').map(|(above, _)| above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::ids::AskSlot;

    fn ask(application: u32) -> Preemptor {
        let application = ApplicationSlot::at(application);
        Preemptor::Ask(Reserver { application, ask: AskSlot::at(0) })
    }

    fn vcore(n: i64) -> Resources {
        Resources::of(&[("vcore", n)])
    }

    fn nomination(queue: &str, amount: i64, victims: &[u32], losers: &[u32]) -> Nomination {
        let victim = |at: &u32| {
            let queue = Arc::from("root.victims");
            let victim = Victim { queue, node: NodeSlot::at(0), amount: vcore(amount) };
            (AllocationId::numbered(*at), victim)
        };
        Nomination {
            queue: Arc::from(queue),
            amount: vcore(amount),
            since_ns: 100,
            arrival: 10,
            victims: victims.iter().map(victim).collect(),
            losers: losers.iter().map(|at| ApplicationSlot::at(*at)).collect(),
            rooms: Vec::new(),
        }
    }

    #[test]
    fn a_nomination_is_taken_off_the_path_of_its_preemptor_until_it_ends() {
        let mut nominations = Nominations::default();
        nominations.make(ask(0), nomination("root.a.b", 5, &[1], &[7]));
        nominations.make(ask(1), nomination("root.a", 2, &[2], &[7]));
        assert_eq!(nominations.taken_off("root.a.b"), Some(&vcore(5)));
        assert_eq!(nominations.taken_off("root.a"), Some(&vcore(7)));
        assert_eq!(nominations.nominated("root"), Some(&vcore(7)));
        assert_eq!(nominations.taken_off("root"), Some(&Resources::new()), "it is still used");
        assert_eq!(nominations.own(ask(0)), Resources::new());
        nominations.confirmed(AllocationId::numbered(1));
        nominations.confirmed(AllocationId::numbered(2));
        assert_eq!(nominations.taken_off("root"), Some(&vcore(7)));
        assert_eq!(nominations.own(ask(0)), vcore(5));
        assert_eq!(nominations.taken_off("root.c"), None);
        assert!(nominations.end(ask(0)).is_some() && nominations.end(ask(0)).is_none());
        assert_eq!(nominations.taken_off("root.a.b"), None);
        assert_eq!(nominations.taken_off("root"), Some(&vcore(2)));
        nominations.end(ask(1));
        assert!(nominations.is_empty() && nominations.queues.is_empty());
        assert!(nominations.victims.is_empty() && nominations.losers.is_empty());
    }

    #[test]
    fn who_lost_something_waits_with_what_it_asks_for_afterwards() {
        let mut nominations = Nominations::default();
        nominations.make(ask(0), nomination("root.a", 5, &[1], &[7]));
        let bars = |nominations: &Nominations, application, arrival| {
            nominations
                .bars(ApplicationSlot::at(application), arrival)
                .map(|(preemptor, _)| preemptor)
        };
        assert_eq!(bars(&nominations, 7, 11), Some(ask(0)));
        assert_eq!(bars(&nominations, 7, 10), None, "it was there before");
        assert_eq!(bars(&nominations, 8, 11), None, "it lost nothing");
        nominations.end(ask(0));
        assert_eq!(bars(&nominations, 7, 11), None);
    }

    #[test]
    fn the_last_confirmation_is_told_apart() {
        let mut nominations = Nominations::default();
        nominations.make(ask(0), nomination("root.a", 5, &[1, 2], &[7]));
        let confirmed = |is_last| Some(Confirmed { preemptor: ask(0), is_last });
        assert_eq!(nominations.confirmed(AllocationId::numbered(1)), confirmed(false));
        assert_eq!(nominations.confirmed(AllocationId::numbered(1)), None, "twice");
        assert_eq!(nominations.confirmed(AllocationId::numbered(2)), confirmed(true));
        assert!(nominations.of(ask(0)).is_some());
    }

    #[test]
    fn who_leaves_for_nobody_makes_room_that_is_coming() {
        let mut nominations = Nominations::default();
        let timeout = Duration::from_nanos(50);
        let coming = |nominations: &Nominations, now| nominations.coming(now, timeout);
        nominations.make(ask(0), nomination("root.a", 5, &[1, 2], &[7]));
        assert!(coming(&nominations, 100).is_empty(), "it comes to the preemptor");
        nominations.end(ask(0));
        let who = [1, 2].map(AllocationId::numbered).to_vec();
        let both = Coming { amount: vcore(10), who, until_ns: 150 };
        assert_eq!(coming(&nominations, 149), [(NodeSlot::at(0), both)].into());
        assert!(coming(&nominations, 150).is_empty(), "it is waited for no longer");
        nominations.resized(AllocationId::numbered(2), &vcore(1));
        nominations.confirmed(AllocationId::numbered(1));
        assert_eq!(coming(&nominations, 100)[&NodeSlot::at(0)].amount, vcore(1));
        nominations.confirmed(AllocationId::numbered(2));
        assert!(coming(&nominations, 100).is_empty() && nominations.orphans.is_empty());
    }

    #[test]
    fn a_victim_of_another_size_gives_back_another_amount() {
        let mut nominations = Nominations::default();
        nominations.make(ask(0), nomination("root.a", 5, &[1], &[7]));
        let taken_off = |nominations: &Nominations| nominations.taken_off("root").cloned();
        assert_eq!(taken_off(&nominations), Some(Resources::new()));
        nominations.resized(AllocationId::numbered(1), &vcore(2));
        assert_eq!(taken_off(&nominations), Some(vcore(3)));
        assert_eq!(nominations.own(ask(0)), vcore(3));
        nominations.resized(AllocationId::numbered(9), &vcore(2));
        nominations.confirmed(AllocationId::numbered(1));
        assert_eq!(taken_off(&nominations), Some(vcore(5)));
        nominations.end(ask(0));
        assert!(nominations.queues.is_empty());
    }

    #[test]
    fn a_nomination_waits_as_long_as_a_reservation() {
        let mut nominations = Nominations::default();
        nominations.make(ask(0), nomination("root.a", 5, &[1], &[]));
        nominations
            .make(ask(1), Nomination { since_ns: 120, ..nomination("root.a", 5, &[2], &[]) });
        let timeout = Duration::from_nanos(50);
        assert_eq!((nominations.watch(), nominations.watch()), (true, false));
        assert_eq!(nominations.waited(149, timeout), (vec![], Some(150)));
        assert_eq!(nominations.waited(150, timeout), (vec![ask(0)], Some(170)));
        nominations.end(ask(0));
        assert!(!nominations.watch(), "another one waits still");
        assert_eq!(nominations.waited(170, timeout), (vec![ask(1)], None));
        assert!(nominations.watch());
    }

    #[test]
    fn what_is_beyond_the_rooms_of_a_gang_stays_usable() {
        let gang = Preemptor::Gang(ApplicationSlot::at(3));
        let node = NodeSlot::at(0);
        let mut nominations = Nominations::default();
        let room = |node| Room { group: 0, node, amount: vcore(4) };
        let rooms = vec![room(node), room(node), room(NodeSlot::at(1))];
        nominations.make(gang, Nomination { rooms, ..nomination("root.a", 5, &[1], &[]) });
        assert_eq!(nominations.kept(node), Some(vcore(3)), "a victim holds 5 of the 8 still");
        nominations.lift(gang, true);
        assert_eq!(nominations.kept(node), None);
        nominations.lift(gang, false);
        nominations.confirmed(AllocationId::numbered(1));
        assert_eq!(nominations.kept(node), Some(vcore(8)));
        assert_eq!(nominations.kept(NodeSlot::at(2)), None);
        assert_eq!(nominations.on_node(NodeSlot::at(1)).collect::<Vec<_>>(), [gang]);
        nominations.end(gang);
        assert_eq!(nominations.kept(node), None);
        assert!(nominations.nodes.is_empty());
    }
}
