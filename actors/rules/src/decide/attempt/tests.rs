//! Tests each phase of an attempt alone, and the reason that is given for an ask that was not
//! placed.

use std::sync::Arc;

use super::*;
use crate::allocations::Allocation;
use crate::asks::Try;
use crate::limits::{Tables, Trackers};
use crate::nodes::{Exclusion, NodeOrder};
use crate::queues::{LimitConfig, QueueConfig};
use crate::specs::ask::AskSpec;
use crate::values::epoch::Loosening;
use crate::values::ids::ApplicationSlot;
use crate::values::resources::{Limits, Resources};

fn vcores(quantity: i64) -> Resources {
    Resources::of(&[("vcore", quantity * 1_000)])
}

/// A partition with nodes that have this much free of 9.
struct World {
    books: Books,
    asks: Asks,
    headroom: Limits,
    lane: Option<LaneId>,
    backoff_asks: u64,
    asks_later: bool,
}

impl World {
    fn new(free: &[(&str, i64)]) -> Self {
        let mut books = Books::new(NodeOrder::default());
        for (id, free) in free {
            books.nodes.insert(Arc::from(*id), vcores(9), vcores(*free), true).unwrap();
        }
        let headroom = Limits::unlimited();
        let asks = Asks::new();
        Self { books, asks, headroom, lane: None, backoff_asks: 0, asks_later: false }
    }

    fn ask(&mut self, key: &str, vcore: i64) -> AskSlot {
        self.put(AskSpec::new(key, vcores(vcore)))
    }

    fn put(&mut self, spec: AskSpec) -> AskSlot {
        let sequence = self.books.arrival();
        self.asks.put(spec, 0, sequence).0
    }

    /// Returns the search of an ask, where a test enters the nodes that refused it.
    fn trying(&mut self, slot: AskSlot) -> &mut Try {
        let (era, growth) = (self.books.unsettled.era(), self.books.nodes.growth());
        self.asks.ask_mut(slot).trying_since(era, growth)
    }

    fn with<T>(&self, look: impl FnOnce(&Attempt<'_>) -> T) -> T {
        let view = View {
            headroom: &self.headroom,
            loosening: Loosening::numbered(1),
            may_start: true,
            nodes: Some(&self.books.nodes),
            limits: None,
            queues: None,
        };
        let Self { asks, books, lane, backoff_asks, asks_later, .. } = self;
        look(&Attempt {
            owed: &[],
            application: ApplicationSlot::at(0),
            leaf: 0,
            beside_nominations: None,
            gang: None,
            asks,
            view: &view,
            lane: *lane,
            books,
            backoff_asks: *backoff_asks,
            asks_later: *asks_later,
        })
    }

    fn next(&self) -> Next {
        self.with(next)
    }

    /// Returns the obstacle of the ask that comes first, with its explanation.
    fn parked(&self) -> (Obstacle, String) {
        let nothing = Resources::new();
        let path = [
            (Arc::from("root"), Limits::unlimited()),
            (Arc::from("root.a"), self.headroom.clone()),
        ];
        self.with(|attempt| match next(attempt) {
            Next::Park(parking) => {
                let queues = path.iter().map(|(queue, left)| QueueRoom {
                    queue,
                    is_stopped: false,
                    max: Some(left),
                    used: &nothing,
                    running: 0,
                    most_running: 0,
                });
                (parking.obstacle, attempt.why(&parking, queues).to_string())
            }
            other => panic!("not parked: {other:?}"),
        })
    }

    /// Parks the ask that comes first, as the actor does.
    fn park(&mut self) {
        let Next::Park(parking) = self.next() else { panic!("it is not parked") };
        let waits = self.with(|attempt| {
            parking.obstacle.waits(&attempt.asks.ask(parking.ask).spec, attempt.view)
        });
        self.asks.set_waits(parking.class, waits);
    }

    fn placed(&self) -> (String, String) {
        let Next::Place(candidate) = self.next() else { panic!("not placed: {:?}", self.next()) };
        let key = self.asks.ask(candidate.ask).key.to_string();
        (key, self.books.nodes.id(candidate.node).to_string())
    }
}

fn pair(one: &str, other: &str) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

#[test]
fn the_first_class_that_fits_goes_to_the_first_node_with_room() {
    let mut world = World::new(&[("n1", 3), ("n2", 5)]);
    assert!(matches!(world.next(), Next::Decline(_)), "nothing is asked for");
    world.ask("a", 2);
    world.ask("b", 1);
    assert_eq!(world.placed(), pair("a", "n2"), "the emptier node comes first");
}

#[test]
fn what_is_over_the_maximum_of_a_queue_waits_and_says_which_queue_lacks_how_much() {
    let mut world = World::new(&[("n1", 9)]);
    world.headroom = Limits::of(&[("vcore", 3_000)]);
    world.ask("a", 5);
    world.ask("b", 2);
    let why =
        "root.a leaves too little of cores (0 of 3 used); 2 cores more would remove this obstacle";
    assert_eq!(world.parked(), (Obstacle::Quota, why.to_owned()));
    world.park();
    assert_eq!(world.placed(), pair("b", "n1"), "the next class has its turn");
}

#[test]
fn what_is_over_the_limit_of_its_user_says_whose_limit_lacks_how_much() {
    let mut world = World::new(&[("n1", 9)]);
    let mut root = QueueConfig::bare("root", false);
    let max_resources = Some(Limits::of(&[("vcore", 4_000)]));
    let users = vec!["ann".to_owned()];
    root.limits = vec![LimitConfig { users, max_resources, ..LimitConfig::default() }];
    root.children.push(QueueConfig::bare("root.a", true));
    let mut trackers = Trackers::default();
    trackers.reload(&Arc::new(Tables::of(&root)), Loosening::NONE);
    let names: [Arc<str>; 3] = ["ann", "app", "root.a"].map(Arc::from);
    let lane = trackers.join(&names[0], &[], &names[1], &names[2]).lane;
    world.headroom = trackers.headroom(lane);
    world.lane = Some(lane);
    world.books.trackers = trackers;
    world.ask("a", 6);
    let why = "user ann has too little left of cores (0 of 4 used) in root; 2 cores more would \
               remove this obstacle";
    assert_eq!(world.parked(), (Obstacle::Limits, why.to_owned()));
}

#[test]
fn what_no_node_holds_says_how_many_lack_what() {
    let mut world = World::new(&[("n1", 3), ("n2", 4)]);
    world.ask("a", 5);
    let why = "no node has room (2 nodes: 2 lack cores); 1 core more on n2, which comes nearest, \
               would remove this obstacle";
    assert_eq!(world.parked(), (Obstacle::NoNode, why.to_owned()));
    world.park();
    assert!(matches!(world.next(), Next::Decline(_)), "it is not tried again for nothing");
}

#[test]
fn an_ask_that_names_a_node_goes_there_or_waits_for_it() {
    let mut world = World::new(&[("n1", 9), ("n2", 3)]);
    let named = |key: &str, vcore, node: &str| {
        AskSpec::new(key, vcores(vcore)).with(|it| it.required_node = Some(Arc::from(node)))
    };
    let slot = world.put(named("a", 5, "n2"));
    let why = "node n2, which is required, lacks 2 cores";
    assert_eq!(world.parked(), (Obstacle::RequiredNode, why.to_owned()));
    world.asks.withdraw(slot);
    let slot = world.put(named("b", 5, "n3"));
    let why = "node n3, which is required, is not there";
    assert_eq!(world.parked(), (Obstacle::RequiredNode, why.to_owned()));
    world.asks.withdraw(slot);
    let slot = world.put(named("d", 1, "n2"));
    world.asks.exclude(slot, Exclusion { node: Arc::from("n2"), until_ns: 5 });
    let why = "node n2, which is required, can never run it, says the resource manager";
    assert_eq!(world.parked(), (Obstacle::RequiredNode, why.to_owned()));
    world.asks.withdraw(slot);
    world.put(named("c", 3, "n2"));
    assert_eq!(world.placed(), pair("c", "n2"));
    let n2 = world.books.nodes.slot_of("n2").unwrap();
    world.books.nodes.set_open(n2, false);
    assert_eq!(world.placed(), pair("c", "n2"), "it goes to a node that takes no other, too");
}

#[test]
fn an_ask_passes_over_the_nodes_that_it_is_excluded_from() {
    let mut world = World::new(&[("n1", 9), ("n2", 3)]);
    let slot = world.ask("a", 2);
    let other = world.ask("b", 2);
    let until = |node: &str, until_ns| Exclusion { node: Arc::from(node), until_ns };
    world.asks.exclude(slot, until("n1", 5));
    world.asks.exclude(slot, until("n1", 9));
    assert_ne!(world.asks.class_of(slot), world.asks.class_of(other));
    assert_eq!(world.placed(), pair("a", "n2"));
    world.asks.exclude(slot, until("n2", 7));
    assert_eq!(
        world.parked().1,
        "all nodes with room were refused by predicates (2 nodes: 2 can never run it)"
    );
    world.park();
    assert_eq!(world.placed(), pair("b", "n1"));
    assert!(!world.asks.admit(slot, &until("n1", 5)), "a later exclusion counts");
    assert!(world.asks.admit(slot, &until("n1", 9)));
    assert_eq!(world.placed(), pair("a", "n1"), "its time is over");
}

#[test]
fn a_pass_ends_where_as_many_asks_as_the_leaf_allows_found_no_node() {
    let mut world = World::new(&[("n1", 4), ("n2", 4)]);
    world.backoff_asks = 2;
    for (key, vcore) in [("a", 5), ("b", 6), ("c", 1)] {
        world.ask(key, vcore);
    }
    world.park();
    world.park();
    assert!(matches!(world.next(), Next::BackOff(_)), "c is not looked at");
    world.backoff_asks = 0;
    assert_eq!(world.placed(), pair("c", "n1"));
}

/// A search that two of three nodes refused continues with the third.
#[test]
fn a_search_goes_on_with_nodes_that_have_not_refused() {
    let mut world = World::new(&[("n1", 9), ("n2", 8), ("n3", 7)]);
    let slot = world.ask("a", 2);
    world.asks_later = true;
    world.trying(slot).refused_by(&[Arc::from("n1"), Arc::from("n2")], 16);
    let Next::Place(candidate) = world.next() else { panic!("n3 was not asked yet") };
    assert!(candidate.is_continued && candidate.alternatives.is_empty());
    assert_eq!(&**world.books.nodes.id(candidate.node), "n3");
    world.books.unsettled.begin_era();
    assert_eq!(world.placed(), pair("a", "n1"), "what was refused before does not count any more");
    world.asks_later = false;
    assert_eq!(world.placed(), pair("a", "n1"), "nor where predicates are asked at once");
}

#[test]
fn a_search_that_everybody_refused_says_what_it_waits_for() {
    let mut world = World::new(&[("n1", 9), ("n2", 8)]);
    let slot = world.ask("a", 2);
    world.asks_later = true;
    world.trying(slot).refused_by(&[Arc::from("n1")], 16);
    let n2 = world.books.nodes.slot_of("n2").unwrap();
    world.books.nodes.update(n2, None, &vcores(0));
    let spec = Arc::new(AskSpec::new("other", vcores(8)));
    let other = ApplicationSlot::at(0);
    let placement = Allocation::new(other, spec, n2, 0, 0);
    let id = world.books.allocations.insert(placement);
    let candidates = vec![Arc::from("n2")];
    let growth = world.books.nodes.growth();
    let number = world.books.unsettled.ask((other, id), candidates, false, growth);
    assert_eq!(world.parked().0, Obstacle::HeldByOthers);
    world.books.unsettled.take(number);
    assert_eq!(
        world.parked(),
        (
            Obstacle::Refused,
            "all nodes with room were refused by predicates (2 nodes: 1 refused it or did not \
             answer, 1 lacks cores)"
                .to_owned()
        )
    );
    let n1 = world.books.nodes.slot_of("n1").unwrap();
    world.books.nodes.touch(n1);
    assert_eq!(world.parked().0, Obstacle::GrewMeanwhile);
}

#[test]
fn an_attempt_that_is_repeated_says_the_same() {
    let mut world = World::new(&[("n1", 3)]);
    world.ask("a", 5);
    assert_eq!(world.next(), world.next());
}
