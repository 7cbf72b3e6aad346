//! Tests of the bounds in a small model of one leaf, against a full search: after any loosening or
//! tightening, in any order, an offer finds exactly the ask that a full search finds first.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::asks::Asks;
use crate::limits::SharedLimits;
use crate::nodes::{NodeIndex, NodeOrder, NodeRequest};
use crate::order::keys::AskKey;
use crate::order::tree::{Bound, OrderedTree};
use crate::specs::ask::AskSpec;
use crate::values::again::written_and_read;
use crate::values::epoch::{Epoch, Loosening};
use crate::values::ids::{AskSlot, NodeSlot};
use crate::values::resources::{Limits, Resources};

const APPS: usize = 3;
const NODES: usize = 3;

/// A leaf with its applications, below a parent of which only the headroom is known.
struct Model {
    nodes: NodeIndex,
    apps: Vec<App>,
    rows: OrderedTree<usize, (), Waits>,
    max: Limits,
    used: Resources,
    above: Limits,
    may_start: (bool, bool),
    /// The numbers of the last loosenings above and in the leaf.
    loosened: (Loosening, Loosening),
    loosenings: Loosening,
    arrivals: u64,
    declined_at: Epoch,
    /// The phase in which all asks are pending.
    phase: Phase,
}

#[derive(Default)]
struct App {
    asks: Asks,
    runs: bool,
    placed: Vec<(NodeSlot, Resources)>,
    declined_at: Epoch,
}

#[derive(Debug, PartialEq)]
struct Found {
    app: usize,
    ask: AskSlot,
    node: NodeSlot,
}

impl Model {
    fn new() -> Self {
        let mut nodes = NodeIndex::new(NodeOrder::default());
        for id in ["a", "b", "c"] {
            let much = of(9, 9);
            nodes.insert(Arc::from(id), much.clone(), Resources::new(), true).unwrap();
        }
        Self {
            nodes,
            apps: (0..APPS).map(|_| App::default()).collect(),
            rows: OrderedTree::new(),
            max: Limits::unlimited(),
            used: Resources::new(),
            above: Limits::unlimited(),
            may_start: (true, true),
            loosened: (Loosening::NONE, Loosening::NONE),
            loosenings: Loosening::NONE,
            arrivals: 0,
            declined_at: Epoch::default(),
            phase: Phase::Normal,
        }
    }

    fn node(&self, at: usize) -> NodeSlot {
        self.nodes.by_id().nth(at % NODES).unwrap()
    }

    fn loosen(&mut self) -> Loosening {
        self.loosenings = self.loosenings.next();
        self.loosenings
    }

    fn headroom(&self) -> Limits {
        let mut headroom = self.above.clone();
        headroom.narrow(&self.max.less(&self.used));
        headroom
    }

    /// Updates the row of an application in the leaf.
    fn tell(&mut self, at: usize) {
        let app = &self.apps[at];
        let set = app.asks.waits().declined(app.declined_at);
        let waits = match self.phase {
            Phase::Reserved => Waits::new(WaitSet::Nothing, set, WaitSet::Nothing, !app.runs),
            _ => Waits::new(set, WaitSet::Nothing, WaitSet::Nothing, !app.runs),
        };
        self.rows.remove(&at);
        if !app.asks.pending().is_empty() {
            self.rows.insert(at, (), waits);
        }
    }

    /// Makes one offer from the parent, which enters the leaf only if its bound allows.
    fn offer(&mut self) -> Option<Found> {
        let own_headroom = self.max.less(&self.used);
        let own = View {
            headroom: &own_headroom,
            loosening: self.loosened.1,
            may_start: self.may_start.1,
            nodes: None,
            limits: None,
            queues: None,
        };
        let waits = self.rows.bound().cloned().unwrap_or_default();
        let mut declined = Declined::default();
        declined.note(self.phase, self.declined_at);
        let seen = waits.as_seen_from_above(&own, &declined);
        let from_above = View {
            headroom: &self.above,
            loosening: self.loosened.0,
            may_start: self.may_start.0,
            nodes: Some(&self.nodes),
            limits: None,
            queues: None,
        };
        if !seen.may(self.phase, &from_above) {
            return None;
        }
        loop {
            let headroom = self.headroom();
            let view = View {
                headroom: &headroom,
                loosening: self.loosened.0.max(self.loosened.1),
                may_start: self.may_start.0 && self.may_start.1,
                nodes: Some(&self.nodes),
                limits: None,
                queues: None,
            };
            let Some((&at, (), _)) = self.rows.first(|waits| waits.may(self.phase, &view)) else {
                self.declined_at = view.epoch();
                return None;
            };
            let found = consider(at, &mut self.apps[at], &view);
            if found.is_some() {
                return found;
            }
            self.tell(at);
        }
    }

    /// Makes the offer without any bound.
    fn search(&self) -> Option<Found> {
        let headroom = self.headroom();
        let may_start = self.may_start.0 && self.may_start.1;
        for (at, app) in self.apps.iter().enumerate().filter(|(_, app)| app.runs || may_start) {
            let mut asks: Vec<_> = app.asks.iter().filter(|ask| ask.outstanding > 0).collect();
            asks.sort_by_key(|ask| AskKey::new(ask.priority, ask.created_ns, ask.sequence));
            for ask in asks {
                let room = |slot: &NodeSlot| {
                    self.nodes.is_open(*slot)
                        && self.nodes.available(*slot).holds(&ask.resources)
                        && self.nodes.total(*slot).holds(&ask.resources)
                };
                if !headroom.allows(&ask.resources) {
                    continue;
                }
                if let Some(node) = self.nodes.iter().find(room) {
                    let ask = app.asks.slot_of(&ask.key).unwrap();
                    return Some(Found { app: at, ask, node });
                }
            }
        }
        None
    }

    fn place(&mut self, found: &Found) {
        let app = &mut self.apps[found.app];
        let resources = (*app.asks.ask(found.ask).resources).clone();
        app.asks.take_one(found.ask);
        app.asks.drop_if_done(found.ask);
        app.placed.push((found.node, resources.clone()));
        app.runs = true;
        self.used.add(&resources);
        let left = self.nodes.available(found.node).minus(&resources);
        self.nodes.update(found.node, None, &left);
        self.tell(found.app);
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Ask { app, vcore, memory, repeat, priority } => {
                self.arrivals += 1;
                let key = self.arrivals.to_string();
                let spec =
                    AskSpec { instances: repeat, priority, ..AskSpec::new(key, of(vcore, memory)) };
                let now = i64::try_from(self.arrivals).unwrap();
                self.apps[app].asks.put(spec, now, self.arrivals);
                self.tell(app);
            }
            Op::Release { app } => {
                let Some((node, resources)) = self.apps[app].placed.pop() else { return };
                self.used.subtract(&resources);
                let left = self.nodes.available(node).plus(&resources);
                self.nodes.update(node, None, &left);
                self.loosened = (self.loosen(), self.loosenings);
            }
            Op::Node { at, vcore, memory } => {
                self.nodes.update(self.node(at), None, &of(vcore, memory));
            }
            Op::Open { at, open } => self.nodes.set_open(self.node(at), open),
            Op::Above { vcore, memory } => {
                let tighter = self.above.clone();
                self.above = limits(vcore, memory);
                if self.above != tighter {
                    self.loosened.0 = self.loosen();
                }
            }
            Op::Tighten { vcore } => {
                // Other queues took it: no loosening, and no update.
                self.above.narrow(&limits(Some(vcore), None));
            }
            Op::Max { vcore, memory } => {
                self.max = limits(vcore, memory);
                self.loosened = (self.loosen(), self.loosenings);
            }
            Op::MayStart { above, own } => {
                let more = (above && !self.may_start.0) || (own && !self.may_start.1);
                self.may_start = (above, own);
                if more {
                    self.loosened.0 = self.loosen();
                }
            }
            Op::WriteAndRead => {
                self.nodes = written_and_read(&self.nodes);
                self.rows = written_and_read(&self.rows);
                for app in &mut self.apps {
                    app.asks = written_and_read(&app.asks);
                }
            }
        }
    }
}

fn consider(at: usize, app: &mut App, view: &View<'_>) -> Option<Found> {
    while let Some((class, ask)) = app.asks.first(view) {
        let resources = app.asks.shape(class).resources().clone();
        let parked = if view.headroom.allows(&resources) {
            if let Some(node) =
                view.nodes.and_then(|nodes| nodes.first(&NodeRequest::of(&resources)))
            {
                return Some(Found { app: at, ask, node });
            }
            Parked::roomless(&resources, view)
        } else {
            Parked::short(&resources, view)
        };
        app.asks.set_waits(class, WaitSet::Parked(Box::new(parked)));
    }
    app.declined_at = view.epoch();
    None
}

fn of(vcore: i64, memory: i64) -> Resources {
    Resources::of(&[("vcore", vcore), ("memory", memory)]).pruned()
}

fn limits(vcore: Option<i64>, memory: Option<i64>) -> Limits {
    let named = [("vcore", vcore), ("memory", memory)];
    let named: Vec<_> = named.into_iter().filter_map(|(name, q)| Some((name, q?))).collect();
    Limits::of(&named)
}

#[derive(Clone, Debug)]
enum Op {
    Ask { app: usize, vcore: i64, memory: i64, repeat: u32, priority: i32 },
    Release { app: usize },
    Node { at: usize, vcore: i64, memory: i64 },
    Open { at: usize, open: bool },
    Above { vcore: Option<i64>, memory: Option<i64> },
    Tighten { vcore: i64 },
    Max { vcore: Option<i64>, memory: Option<i64> },
    MayStart { above: bool, own: bool },
    WriteAndRead,
}

fn op() -> impl Strategy<Value = Op> {
    let limit = || prop::option::of(0..6_i64);
    prop_oneof![
        6 => (0..APPS, 0..4_i64, 0..4_i64, 1..3_u32, 0..2)
            .prop_map(|(app, vcore, memory, repeat, priority)| {
                Op::Ask { app, vcore: vcore.max(i64::from(memory == 0)), memory, repeat, priority }
            }),
        4 => (0..APPS).prop_map(|app| Op::Release { app }),
        5 => (0..NODES, -1..6_i64, 0..6_i64)
            .prop_map(|(at, vcore, memory)| Op::Node { at, vcore, memory }),
        1 => (0..NODES, any::<bool>()).prop_map(|(at, open)| Op::Open { at, open }),
        2 => (limit(), limit()).prop_map(|(vcore, memory)| Op::Above { vcore, memory }),
        2 => (0..4_i64).prop_map(|vcore| Op::Tighten { vcore }),
        2 => (limit(), limit()).prop_map(|(vcore, memory)| Op::Max { vcore, memory }),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(above, own)| Op::MayStart { above, own }),
        2 => Just(Op::WriteAndRead),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn an_offer_finds_what_a_full_search_finds(
        phase in prop_oneof![Just(Phase::Reserved), Just(Phase::Normal)],
        ops in prop::collection::vec(op(), 0..60),
    ) {
        let mut model = Model { phase, ..Model::new() };
        for op in &ops {
            model.apply(op);
            // A few decisions, and not always all: the next change finds bounds in any state.
            for _ in 0..2 {
                let foreseen = model.search();
                let found = model.offer();
                prop_assert_eq!(&found, &foreseen, "after {:?}", op);
                match found {
                    Some(found) => model.place(&found),
                    None => break,
                }
            }
        }
    }
}

fn open_view<'a>(headroom: &'a Limits, nodes: &'a NodeIndex) -> View<'a> {
    View {
        headroom,
        loosening: Loosening::numbered(1),
        may_start: true,
        nodes: Some(nodes),
        limits: None,
        queues: None,
    }
}

#[test]
fn what_waits_for_different_things_calls_for_one_visit_only() {
    let (headroom, mut nodes) = (Limits::unlimited(), NodeIndex::new(NodeOrder::default()));
    let slot = nodes.insert(Arc::from("n"), of(9, 9), Resources::new(), true).unwrap();
    let view = open_view(&headroom, &nodes);
    let mut both = WaitSet::Parked(Box::new(Parked::roomless(&of(4, 0), &view)));
    both.join(&WaitSet::Parked(Box::new(Parked::roomless(&of(0, 4), &view))));
    assert!(!both.may(&view), "nothing was loosened");
    nodes.update(slot, None, &of(1, 1));
    let view = open_view(&headroom, &nodes);
    assert!(both.may(&view), "the least of both is nothing, which any node holds");
    assert!(!both.declined(view.epoch()).may(&view));
}

#[test]
fn what_the_queue_itself_holds_back_is_not_seen_from_above() {
    let tight = Limits::of(&[("vcore", 1)]);
    let own = |number| {
        let loosening = Loosening::numbered(number);
        View {
            headroom: &tight,
            loosening,
            may_start: true,
            nodes: None,
            limits: None,
            queues: None,
        }
    };
    let at = Epoch { loosening: Loosening::numbered(5), ..Epoch::default() };
    let parked = WaitSet::Parked(Box::new(Parked::short(&of(2, 0), &own(5))));
    let wide = Limits::unlimited();
    let above = View {
        headroom: &wide,
        loosening: Loosening::numbered(9),
        may_start: true,
        nodes: None,
        limits: None,
        queues: None,
    };
    assert!(!parked.as_seen_from_above(&own(5), at).may(&above));
    let looser = Limits::of(&[("vcore", 2)]);
    let own = View {
        headroom: &looser,
        loosening: Loosening::numbered(6),
        may_start: true,
        nodes: None,
        limits: None,
        queues: None,
    };
    assert_eq!(parked.as_seen_from_above(&own, at), WaitSet::Due, "its own quota was loosened");
}

#[test]
fn an_application_that_has_to_start_waits_while_none_may_start() {
    let headroom = Limits::unlimited();
    let waits = Waits::new(WaitSet::Due, WaitSet::Nothing, WaitSet::Nothing, true);
    let view = |may_start| View {
        headroom: &headroom,
        loosening: Loosening::NONE,
        may_start,
        nodes: None,
        limits: None,
        queues: None,
    };
    assert!(waits.may(Phase::Normal, &view(true)));
    assert!(!waits.may(Phase::Normal, &view(false)));
    assert_eq!(waits.as_seen_from_above(&view(false), &Declined::default()), Waits::default());
}

/// Returns the view of an offer without quota and without permission to start.
fn exhausted<'a>(headroom: &'a Limits, nodes: &'a NodeIndex) -> View<'a> {
    View {
        headroom,
        loosening: Loosening::NONE,
        may_start: false,
        nodes: Some(nodes),
        limits: None,
        queues: None,
    }
}

#[test]
fn what_may_take_the_place_of_a_placeholder_needs_no_quota_and_is_seen_in_its_own_phase_alone() {
    let nothing_left = Limits::of(&[("vcore", 0)]);
    let mut nodes = NodeIndex::new(NodeOrder::default());
    let slot = nodes.insert(Arc::from("n"), of(9, 9), of(1, 1), true).unwrap();
    let growth = nodes.growth();
    let due = Waits::new(WaitSet::Nothing, WaitSet::Nothing, WaitSet::Due, true);
    assert!(due.may(Phase::Pairs, &exhausted(&nothing_left, &nodes)));
    assert!(
        !due.may(Phase::Reserved, &exhausted(&nothing_left, &nodes))
            && !due.may(Phase::Normal, &exhausted(&nothing_left, &nodes))
    );
    let at = Epoch { loosening: Loosening::NONE, growth };
    let parked = WaitSet::Parked(Box::new(Parked::refused(&of(1, 1), at)));
    let parked = Waits::new(WaitSet::Nothing, WaitSet::Nothing, parked, true);
    assert!(!parked.may(Phase::Pairs, &exhausted(&nothing_left, &nodes)), "nothing has changed");
    let seen = parked.as_seen_from_above(&exhausted(&nothing_left, &nodes), &Declined::default());
    assert_eq!(seen, parked, "no quota of a queue holds it back");
    nodes.touch(slot);
    assert!(seen.may(Phase::Pairs, &exhausted(&nothing_left, &nodes)), "a node has grown");
}

/// Whether a bound covers another is decided without joining them; the answer must be the same.
#[test]
fn a_bound_covers_what_changes_nothing_when_it_is_joined() {
    let parked = |short: Option<Resources>, at: u64, roomless: Option<Resources>| {
        let short_at = Loosening::numbered(at);
        WaitSet::Parked(Box::new(Parked { short, short_at, roomless, ..Parked::default() }))
    };
    let sets = [
        WaitSet::Nothing,
        WaitSet::Due,
        parked(Some(of(1, 5)), 3, None),
        parked(Some(of(1, 5)), 2, None),
        parked(Some(of(2, 5)), 3, None),
        parked(None, 0, Some(of(1, 1))),
        parked(Some(of(1, 5)), 3, Some(of(1, 1))),
        parked(Some(Resources::of(&[("vcore", 1), ("memory", 0)])), 3, None),
    ];
    let by = |first: u8, second: u8, at: u64| {
        let mut by = SharedLimits::only(first);
        by.include(SharedLimits::only(second));
        Some(Box::new(LimitedStarts { by, at: Loosening::numbered(at) }))
    };
    let limited = [None, by(1, 1, 3), by(1, 2, 3), by(1, 1, 2)];
    let mut bounds = Vec::new();
    for (nth, normal) in sets.iter().enumerate() {
        for early in &sets {
            for is_starting in [false, true] {
                // The bound of pairs differs from that of asks with a reservation.
                let pairs = sets[(nth + 3) % sets.len()].clone();
                for pairs in [WaitSet::Nothing, WaitSet::Due, pairs] {
                    let mut waits = Waits::new(normal.clone(), early.clone(), pairs, is_starting);
                    waits.normal.limited = limited[nth % limited.len()].clone();
                    bounds.push(waits);
                }
            }
        }
    }
    for one in &bounds {
        for other in &bounds {
            let mut joined = one.clone();
            joined.join(other);
            assert_eq!(one.covers(other), joined == *one, "{one:?} and {other:?}");
        }
    }
}
