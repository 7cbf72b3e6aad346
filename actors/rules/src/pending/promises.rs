//! What was promised to askers for whom victims leave: the room is theirs.
//!
//! # Why
//! Between the moment at which victims are chosen and that at which the asker runs, the room must not
//! go to somebody else, least of all to those who lost it: they would ask again at once, get what they
//! lost, and the asker would preempt once more. The node is the asker's by its reservation. What
//! reservations do not cover is kept here:
//! * The asker's amount is taken off the headroom of its own path, for everybody but itself. What its
//!   victims below a queue still hold there is not taken off twice: it is used until they have left.
//! * Whatever an application that lost something asks for afterwards is not tried meanwhile.
//! * A gang needs room on many nodes at once: it has *room reservations*, amounts on nodes. What is
//!   beyond them stays usable by others. What of them no victim holds any more is *kept*: the node
//!   index does not show it. While the gang itself looks for places its rooms are *lifted*: they are
//!   not kept from it, and nobody else looks.
//!
//! # When a promise ends
//! When the asker is placed, when its reservation ends, when it is refused for the first time after
//! the last victim is confirmed, or after the time for which a reservation may wait; whichever is
//! first. Whoever ends it calls [`Promises::end`].
//!
//! # Who leaves for nobody
//! A promise may end while its victims have still to leave: its asker was withdrawn, say. What they
//! hold is [coming](Promises::coming), and nobody else is told to leave for what that is enough for.
//! The same holds for those who leave because a queue is above its maximum.
//!
//! # Invariants
//! * An asker has at most one promise; a victim leaves for at most one asker.
//! * What is promised below a queue is the sum of the promises to askers there; what is taken off it is
//!   the sum of what each of their victims below the queue do not hold any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::pending::reservations::Reserver;
use crate::values::ids::{AllocationId, ApplicationSlot, NodeSlot};
use crate::values::instant::after;
use crate::values::resources::Resources;

/// Who was promised something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promisee {
    /// An ask.
    Ask(Reserver),
    /// The gang of an application.
    Gang(ApplicationSlot),
}

/// What was promised.
#[derive(Clone, Debug)]
pub struct Promise {
    /// The leaf of the asker.
    pub queue: Arc<str>,
    /// What it will take; of a gang, all members together.
    pub amount: Resources,
    /// When it was promised, ns since the epoch.
    pub since_ns: i64,
    /// The number of the last thing that had arrived by then
    /// ([`Books::arrival`](crate::books::Books::arrival)).
    pub arrival: u64,
    /// The victims that are not confirmed yet.
    pub victims: BTreeMap<AllocationId, Victim>,
    /// Who lost something.
    pub losers: Vec<ApplicationSlot>,
    /// The rooms of a gang, one for each member.
    pub rooms: Vec<Room>,
}

/// Room on a node for one member of a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The place of its task group in the declaration.
    pub group: usize,
    /// The node.
    pub node: NodeSlot,
    /// How much.
    pub amount: Resources,
}

/// One who leaves for an asker.
#[derive(Clone, Debug)]
pub struct Victim {
    /// Its leaf.
    pub queue: Arc<str>,
    /// Its node.
    pub node: NodeSlot,
    /// What it holds until it is confirmed.
    pub amount: Resources,
}

/// One who leaves for nobody.
#[derive(Clone, Debug)]
struct Stray {
    node: NodeSlot,
    amount: Resources,
    /// When it was told to leave, ns since the epoch.
    since_ns: i64,
}

/// What comes free on a node because somebody leaves for nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coming {
    /// How much.
    pub amount: Resources,
    /// Who leaves.
    pub who: Vec<AllocationId>,
    /// Until when that is counted on, ns since the epoch.
    pub until_ns: i64,
}

/// What was promised to askers below a queue.
#[derive(Clone, Debug, Default)]
struct Sums {
    promised: Resources,
    taken_off: Resources,
}

/// All promises of a partition.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    askers: BTreeMap<Promisee, Promise>,
    victims: BTreeMap<AllocationId, Promisee>,
    queues: BTreeMap<Arc<str>, Sums>,
    losers: BTreeMap<ApplicationSlot, BTreeSet<Promisee>>,
    /// By node, the gangs that have rooms there.
    nodes: BTreeMap<NodeSlot, BTreeSet<Promisee>>,
    /// Those who leave for nobody any more, or never did.
    strays: BTreeMap<AllocationId, Stray>,
    /// The gangs whose rooms are lifted.
    lifted: BTreeSet<Promisee>,
    /// A deadline is armed for the next one that will have waited too long.
    is_watched: bool,
}

/// What the confirmation of a victim meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// For whom it left.
    pub promisee: Promisee,
    /// It was the last one: the asker may be placed.
    pub is_last: bool,
}

impl Promises {
    /// A plan was carried out.
    pub fn make(&mut self, promisee: Promisee, promise: Promise) {
        self.end(promisee);
        for victim in promise.victims.keys() {
            self.victims.insert(*victim, promisee);
        }
        for queue in path(&promise.queue) {
            let sums = self.queues.entry(Arc::from(queue)).or_default();
            sums.promised.add(&promise.amount);
            sums.taken_off.add(&promise.part(queue));
        }
        for loser in &promise.losers {
            self.losers.entry(*loser).or_default().insert(promisee);
        }
        for room in &promise.rooms {
            self.nodes.entry(room.node).or_default().insert(promisee);
        }
        self.askers.insert(promisee, promise);
    }

    /// The promise is over. `None` if there is none.
    pub fn end(&mut self, promisee: Promisee) -> Option<Promise> {
        let promise = self.askers.remove(&promisee)?;
        for (id, victim) in &promise.victims {
            self.victims.remove(id);
            self.strays_away(*id, victim, promise.since_ns);
        }
        for queue in path(&promise.queue) {
            if let Some(sums) = self.queues.get_mut(queue) {
                sums.promised.subtract(&promise.amount);
                sums.promised.prune();
                sums.taken_off.subtract(&promise.part(queue));
                sums.taken_off.prune();
                if sums.promised.is_empty() {
                    self.queues.remove(queue);
                }
            }
        }
        for loser in &promise.losers {
            remove(&mut self.losers, loser, promisee);
        }
        for room in &promise.rooms {
            remove(&mut self.nodes, &room.node, promisee);
        }
        self.lifted.remove(&promisee);
        Some(promise)
    }

    /// A victim is gone. `None` if it left for nobody who still waits.
    pub fn confirmed(&mut self, victim: AllocationId) -> Option<Confirmed> {
        self.strays.remove(&victim);
        let confirmed = self.change(victim, |victims| drop(victims.remove(&victim)));
        self.victims.remove(&victim);
        confirmed
    }

    /// One leaves for nobody since then, ns since the epoch, until it is [confirmed](Self::confirmed).
    pub fn strays_away(&mut self, id: AllocationId, victim: &Victim, since_ns: i64) {
        let Victim { node, amount, .. } = victim.clone();
        self.strays.insert(id, Stray { node, amount, since_ns });
    }

    /// What comes free because somebody leaves for nobody, by node: nobody else has to leave for what
    /// that is enough for. It is counted on for as long as a reservation may wait.
    pub fn coming(&self, now_ns: i64, timeout: Duration) -> BTreeMap<NodeSlot, Coming> {
        let mut coming: BTreeMap<NodeSlot, Coming> = BTreeMap::new();
        for (id, stray) in &self.strays {
            let until_ns = after(stray.since_ns, timeout);
            if until_ns <= now_ns {
                continue;
            }
            let first = || Coming { until_ns, ..Coming::default() };
            let here = coming.entry(stray.node).or_insert_with(first);
            here.amount.add(&stray.amount);
            here.who.push(*id);
            here.until_ns = here.until_ns.min(until_ns);
        }
        coming
    }

    /// A victim that has still to leave holds so much now.
    pub fn resized(&mut self, victim: AllocationId, amount: &Resources) {
        if let Some(stray) = self.strays.get_mut(&victim) {
            stray.amount.clone_from(amount);
        }
        self.change(victim, |victims| {
            if let Some(victim) = victims.get_mut(&victim) {
                victim.amount.clone_from(amount);
            }
        });
    }

    /// Changes the victims of the asker for whom this one leaves, and what is taken off queues with
    /// them. `None` if it leaves for nobody who still waits; else the asker, and whether any are left.
    fn change(
        &mut self,
        victim: AllocationId,
        change: impl FnOnce(&mut BTreeMap<AllocationId, Victim>),
    ) -> Option<Confirmed> {
        let promisee = self.of_victim(victim)?;
        let promise = self.askers.get_mut(&promisee)?;
        for queue in path(&promise.queue) {
            if let Some(sums) = self.queues.get_mut(queue) {
                sums.taken_off.subtract(&promise.part(queue));
            }
        }
        change(&mut promise.victims);
        for queue in path(&promise.queue) {
            if let Some(sums) = self.queues.get_mut(queue) {
                sums.taken_off.add(&promise.part(queue));
                sums.taken_off.prune();
            }
        }
        Some(Confirmed { promisee, is_last: promise.victims.is_empty() })
    }

    /// The promise of an asker; it does not preempt again while it has one.
    pub fn of(&self, promisee: Promisee) -> Option<&Promise> {
        self.askers.get(&promisee)
    }

    /// For whom a victim leaves.
    pub fn of_victim(&self, victim: AllocationId) -> Option<Promisee> {
        self.victims.get(&victim).copied()
    }

    /// What is taken off the headroom of a queue; who was promised some of it adds
    /// [its own](Self::own) again.
    pub fn taken_off(&self, queue: &str) -> Option<&Resources> {
        self.queues.get(queue).map(|sums| &sums.taken_off)
    }

    /// What askers in a queue and below were promised and do not have yet.
    pub fn promised(&self, queue: &str) -> Option<&Resources> {
        self.queues.get(queue).map(|sums| &sums.promised)
    }

    /// What is taken off every queue of its path for this one. Once its victims have left, that is
    /// all it was promised.
    pub fn own(&self, promisee: Promisee) -> Resources {
        let Some(promise) = self.of(promisee) else { return Resources::new() };
        // The higher a queue, the more of its victims are below it.
        let root = path(&promise.queue).last().unwrap_or_default();
        promise.part(root)
    }

    /// The promise because of which an ask of an application is not tried: it arrived after
    /// something was taken from the application for another.
    pub fn bars(&self, application: ApplicationSlot, arrival: u64) -> Option<(Promisee, &Promise)> {
        let of = self.losers.get(&application)?.iter();
        let mut of = of.map(|promisee| (*promisee, &self.askers[promisee]));
        of.find(|(promisee, promise)| {
            arrival > promise.arrival && promisee.application() != application
        })
    }

    /// What gangs keep of a node; `None`: nothing.
    pub fn kept(&self, node: NodeSlot) -> Option<Resources> {
        let gangs = self.nodes.get(&node)?.iter().filter(|gang| !self.lifted.contains(gang));
        gangs.map(|gang| self.kept_for(node, *gang)).reduce(|sum, kept| sum.plus(&kept))
    }

    /// What is kept of a node for one: its rooms there, as far as its victims do not hold them still.
    /// Nothing while they are lifted.
    pub fn kept_for(&self, node: NodeSlot, promisee: Promisee) -> Resources {
        let promise = self.askers.get(&promisee).filter(|_| !self.lifted.contains(&promisee));
        let Some(promise) = promise else { return Resources::new() };
        let mut room = Resources::new();
        for of in promise.rooms.iter().filter(|of| of.node == node) {
            room.add(&of.amount);
        }
        let mut leaving = Resources::new();
        for victim in promise.victims.values().filter(|victim| victim.node == node) {
            leaving.add(&victim.amount);
        }
        room.minus_clamped(&leaving).pruned()
    }

    /// The rooms of a gang are kept from it no longer, or again.
    pub fn lift(&mut self, promisee: Promisee, lifted: bool) {
        if lifted && self.askers.contains_key(&promisee) {
            self.lifted.insert(promisee);
        } else {
            self.lifted.remove(&promisee);
        }
    }

    /// The gangs that have reserved room on a node.
    pub fn on_node(&self, node: NodeSlot) -> impl Iterator<Item = Promisee> {
        self.nodes.get(&node).into_iter().flatten().copied()
    }

    /// Notes that a deadline is armed for the next promise that will have waited too long. Says whether
    /// none was.
    pub fn watch(&mut self) -> bool {
        !std::mem::replace(&mut self.is_watched, true)
    }

    /// That deadline is over. Returns those that have waited for longer than a reservation may, and
    /// when to look again, ns since the epoch, unless there are no others.
    pub fn waited(&mut self, now_ns: i64, timeout: Duration) -> (Vec<Promisee>, Option<i64>) {
        let until = |promise: &Promise| after(promise.since_ns, timeout);
        let (over, left): (Vec<_>, Vec<_>) =
            self.askers.iter().partition(|(_, promise)| until(promise) <= now_ns);
        let next_ns = left.iter().map(|(_, promise)| until(promise)).min();
        let over = over.into_iter().map(|(promisee, _)| *promisee).collect();
        self.is_watched = next_ns.is_some();
        (over, next_ns)
    }

    /// All of them, each with its asker.
    pub fn all(&self) -> impl Iterator<Item = (Promisee, &Promise)> {
        self.askers.iter().map(|(promisee, promise)| (*promisee, promise))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.askers.len()
    }

    /// Whether nobody was promised anything.
    pub fn is_empty(&self) -> bool {
        self.askers.is_empty()
    }
}

impl Promise {
    /// What is taken off a queue above the asker.
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

impl Promisee {
    /// Its application.
    pub fn application(self) -> ApplicationSlot {
        match self {
            Self::Ask(reserver) => reserver.application,
            Self::Gang(application) => application,
        }
    }
}

fn remove<K: Ord>(from: &mut BTreeMap<K, BTreeSet<Promisee>>, key: &K, promisee: Promisee) {
    if let Some(of) = from.get_mut(key) {
        of.remove(&promisee);
        if of.is_empty() {
            from.remove(key);
        }
    }
}

/// The queue and those above it.
fn path(queue: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(queue), |path| path.rsplit_once('.').map(|(above, _)| above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::ids::AskSlot;

    fn ask(application: u32) -> Promisee {
        let application = ApplicationSlot::at(application);
        Promisee::Ask(Reserver { application, ask: AskSlot::at(0) })
    }

    fn vcore(n: i64) -> Resources {
        Resources::of(&[("vcore", n)])
    }

    fn promise(queue: &str, amount: i64, victims: &[u32], losers: &[u32]) -> Promise {
        let victim = |at: &u32| {
            let queue = Arc::from("root.victims");
            let victim = Victim { queue, node: NodeSlot::at(0), amount: vcore(amount) };
            (AllocationId::numbered(*at), victim)
        };
        Promise {
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
    fn what_was_promised_is_taken_off_the_path_of_the_asker_until_it_ends() {
        let mut promises = Promises::default();
        promises.make(ask(0), promise("root.a.b", 5, &[1], &[7]));
        promises.make(ask(1), promise("root.a", 2, &[2], &[7]));
        assert_eq!(promises.taken_off("root.a.b"), Some(&vcore(5)));
        assert_eq!(promises.taken_off("root.a"), Some(&vcore(7)));
        assert_eq!(promises.promised("root"), Some(&vcore(7)));
        assert_eq!(promises.taken_off("root"), Some(&Resources::new()), "it is still used");
        assert_eq!(promises.own(ask(0)), Resources::new());
        promises.confirmed(AllocationId::numbered(1));
        promises.confirmed(AllocationId::numbered(2));
        assert_eq!(promises.taken_off("root"), Some(&vcore(7)));
        assert_eq!(promises.own(ask(0)), vcore(5));
        assert_eq!(promises.taken_off("root.c"), None);
        assert!(promises.end(ask(0)).is_some() && promises.end(ask(0)).is_none());
        assert_eq!(promises.taken_off("root.a.b"), None);
        assert_eq!(promises.taken_off("root"), Some(&vcore(2)));
        promises.end(ask(1));
        assert!(promises.is_empty() && promises.queues.is_empty());
        assert!(promises.victims.is_empty() && promises.losers.is_empty());
    }

    #[test]
    fn who_lost_something_waits_with_what_it_asks_for_afterwards() {
        let mut promises = Promises::default();
        promises.make(ask(0), promise("root.a", 5, &[1], &[7]));
        let bars = |promises: &Promises, application, arrival| {
            promises.bars(ApplicationSlot::at(application), arrival).map(|(promisee, _)| promisee)
        };
        assert_eq!(bars(&promises, 7, 11), Some(ask(0)));
        assert_eq!(bars(&promises, 7, 10), None, "it was there before");
        assert_eq!(bars(&promises, 8, 11), None, "it lost nothing");
        promises.end(ask(0));
        assert_eq!(bars(&promises, 7, 11), None);
    }

    #[test]
    fn the_last_confirmation_is_told_apart() {
        let mut promises = Promises::default();
        promises.make(ask(0), promise("root.a", 5, &[1, 2], &[7]));
        let confirmed = |is_last| Some(Confirmed { promisee: ask(0), is_last });
        assert_eq!(promises.confirmed(AllocationId::numbered(1)), confirmed(false));
        assert_eq!(promises.confirmed(AllocationId::numbered(1)), None, "twice");
        assert_eq!(promises.confirmed(AllocationId::numbered(2)), confirmed(true));
        assert!(promises.of(ask(0)).is_some());
    }

    #[test]
    fn who_leaves_for_nobody_makes_room_that_is_coming() {
        let mut promises = Promises::default();
        let timeout = Duration::from_nanos(50);
        let coming = |promises: &Promises, now| promises.coming(now, timeout);
        promises.make(ask(0), promise("root.a", 5, &[1, 2], &[7]));
        assert!(coming(&promises, 100).is_empty(), "it comes to the asker");
        promises.end(ask(0));
        let who = [1, 2].map(AllocationId::numbered).to_vec();
        let both = Coming { amount: vcore(10), who, until_ns: 150 };
        assert_eq!(coming(&promises, 149), [(NodeSlot::at(0), both)].into());
        assert!(coming(&promises, 150).is_empty(), "it is waited for no longer");
        promises.resized(AllocationId::numbered(2), &vcore(1));
        promises.confirmed(AllocationId::numbered(1));
        assert_eq!(coming(&promises, 100)[&NodeSlot::at(0)].amount, vcore(1));
        promises.confirmed(AllocationId::numbered(2));
        assert!(coming(&promises, 100).is_empty() && promises.strays.is_empty());
    }

    #[test]
    fn a_victim_of_another_size_gives_back_another_amount() {
        let mut promises = Promises::default();
        promises.make(ask(0), promise("root.a", 5, &[1], &[7]));
        let taken_off = |promises: &Promises| promises.taken_off("root").cloned();
        assert_eq!(taken_off(&promises), Some(Resources::new()));
        promises.resized(AllocationId::numbered(1), &vcore(2));
        assert_eq!(taken_off(&promises), Some(vcore(3)));
        assert_eq!(promises.own(ask(0)), vcore(3));
        promises.resized(AllocationId::numbered(9), &vcore(2));
        promises.confirmed(AllocationId::numbered(1));
        assert_eq!(taken_off(&promises), Some(vcore(5)));
        promises.end(ask(0));
        assert!(promises.queues.is_empty());
    }

    #[test]
    fn a_promise_has_waited_after_the_time_of_a_reservation() {
        let mut promises = Promises::default();
        promises.make(ask(0), promise("root.a", 5, &[1], &[]));
        promises.make(ask(1), Promise { since_ns: 120, ..promise("root.a", 5, &[2], &[]) });
        let timeout = Duration::from_nanos(50);
        assert_eq!((promises.watch(), promises.watch()), (true, false));
        assert_eq!(promises.waited(149, timeout), (vec![], Some(150)));
        assert_eq!(promises.waited(150, timeout), (vec![ask(0)], Some(170)));
        promises.end(ask(0));
        assert!(!promises.watch(), "another one waits still");
        assert_eq!(promises.waited(170, timeout), (vec![ask(1)], None));
        assert!(promises.watch());
    }

    #[test]
    fn what_is_beyond_the_rooms_of_a_gang_stays_usable() {
        let gang = Promisee::Gang(ApplicationSlot::at(3));
        let node = NodeSlot::at(0);
        let mut promises = Promises::default();
        let room = |node| Room { group: 0, node, amount: vcore(4) };
        let rooms = vec![room(node), room(node), room(NodeSlot::at(1))];
        promises.make(gang, Promise { rooms, ..promise("root.a", 5, &[1], &[]) });
        assert_eq!(promises.kept(node), Some(vcore(3)), "a victim holds 5 of the 8 still");
        promises.lift(gang, true);
        assert_eq!(promises.kept(node), None);
        promises.lift(gang, false);
        promises.confirmed(AllocationId::numbered(1));
        assert_eq!(promises.kept(node), Some(vcore(8)));
        assert_eq!(promises.kept(NodeSlot::at(2)), None);
        assert_eq!(promises.on_node(NodeSlot::at(1)).collect::<Vec<_>>(), [gang]);
        promises.end(gang);
        assert_eq!(promises.kept(node), None);
        assert!(promises.nodes.is_empty());
    }
}
