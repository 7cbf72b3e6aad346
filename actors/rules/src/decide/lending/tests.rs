use std::sync::Arc;

use super::*;
use crate::asks::Asks;
use crate::limits::Trackers;
use crate::nodes::NodeOrder;
use crate::pending::reservations::Holder;
use crate::queues::{LimitConfig, PriorityPolicy, QueueConfig};
use crate::values::ids::{ApplicationSlot, AskSlot};
use crate::values::resources::{Limits, Resources};

fn vcores(quantity: i64) -> Resources {
    Resources::of(&[("vcore", quantity)])
}

/// Root is queue 0; the leaves root.a and root.b are 1 and 2. The nodes n1 and n2 have 4 of 8 free.
fn books(set: impl Fn(u32, &mut QueueConfig)) -> Books {
    let mut books = Books::new(NodeOrder::default());
    for (queue, path) in (0..).zip(["root", "root.a", "root.b"]) {
        let mut config = QueueConfig::bare(path, queue > 0);
        set(queue, &mut config);
        books.enter_queue(queue, (queue > 0).then_some(0), &Arc::new(config));
    }
    for id in ["n1", "n2"] {
        books.nodes.insert(Arc::from(id), vcores(8), vcores(4), true).unwrap();
    }
    books
}

/// Has an ask for 6 in the leaf root.b reserve a node.
fn reserve(books: &mut Books, node: &str, holder: Holder, ask: AskSpec) -> Reserver {
    let number = u32::try_from(books.reservations.len()).unwrap();
    let who = Reserver { application: ApplicationSlot::at(number), ask: AskSlot::at(0) };
    let node = books.nodes.slot_of(node).unwrap();
    let reservation = Reservation::new(node, Arc::new(ask), 0).held_by(holder);
    books.reservations.make(&mut books.nodes, who, reservation);
    who
}

fn of_b() -> Holder {
    Holder { leaf: 2, ..Holder::default() }
}

fn with_priority(ask: AskSpec, priority: i32) -> AskSpec {
    AskSpec { priority, ..ask }
}

fn large() -> AskSpec {
    AskSpec::new("large", vcores(6))
}

/// Returns the node that an ask for 3 of this priority in the leaf root.a borrows.
fn borrowed(books: &Books, priority: i32) -> Option<(String, Loan)> {
    let ask = with_priority(AskSpec::new("small", vcores(3)), priority);
    let lent = Lent::first((1, &ask), None, &NodeRequest::of(&ask.resources), books)?;
    Some((books.nodes.id(lent.node).to_string(), lent.loan))
}

fn of(node: &str, loan: Loan) -> (String, Loan) {
    (node.to_owned(), loan)
}

#[test]
fn the_first_node_is_lent_whose_reservation_comes_after_the_ask() {
    let mut books = books(|_, _| ());
    reserve(&mut books, "n1", of_b(), with_priority(large(), 5));
    reserve(&mut books, "n2", of_b(), large());
    assert_eq!(borrowed(&books, 0), None);
    assert_eq!(borrowed(&books, 1), Some(of("n2", Loan::Priority)));
    assert_eq!(borrowed(&books, 6), Some(of("n1", Loan::Priority)));
    let full = books.nodes.slot_of("n1").unwrap();
    books.nodes.update(full, None, &vcores(2));
    assert_eq!(borrowed(&books, 6), Some(of("n2", Loan::Priority)), "the other has no room");
    books.nodes.set_open(full, false);
    let closed = books.nodes.slot_of("n2").unwrap();
    books.nodes.set_open(closed, false);
    assert_eq!(borrowed(&books, 6), None);
}

#[test]
fn priorities_count_as_the_queues_show_them() {
    let set = |queue, config: &mut QueueConfig| {
        if queue == 1 {
            config.settings.priority_policy = PriorityPolicy::Fence;
            config.settings.priority_offset = 3;
        }
    };
    let mut books = books(set);
    reserve(&mut books, "n1", of_b(), with_priority(large(), 2));
    assert_eq!(borrowed(&books, -9), Some(of("n1", Loan::Priority)), "the fence shows 3");
    reserve(&mut books, "n2", Holder { leaf: 1, ..of_b() }, large());
    let full = books.nodes.slot_of("n1").unwrap();
    books.nodes.update(full, None, &vcores(0));
    assert_eq!(borrowed(&books, 0), None, "behind the same fence numbers count");
    assert_eq!(borrowed(&books, 1), Some(of("n2", Loan::Priority)));
}

#[test]
fn what_a_guarantee_owes_is_lent_by_whoever_is_owed_nothing() {
    for (theirs, used, is_lent) in [(0, 0, true), (4, 4, true), (4, 9, true), (4, 3, false)] {
        let set = |queue, config: &mut QueueConfig| {
            let guaranteed = [0, 3, theirs][queue as usize];
            config.guaranteed = (guaranteed > 0).then(|| vcores(guaranteed));
        };
        let mut books = books(set);
        books.queues.count(2, &vcores(used));
        reserve(&mut books, "n1", of_b(), with_priority(large(), 9));
        let loan = borrowed(&books, 0);
        assert_eq!(loan, is_lent.then(|| of("n1", Loan::Guarantee)), "{theirs}, {used} used");
        books.queues.count(1, &vcores(1));
        assert_eq!(borrowed(&books, 0), None, "it does not fit as a whole");
    }
}

#[test]
fn what_could_not_run_protects_nothing() {
    let set = |queue, config: &mut QueueConfig| {
        if queue == 2 {
            config.max = Some(Limits::of(&[("vcore", 10)]));
        }
    };
    let mut books = books(set);
    let who = reserve(&mut books, "n1", of_b(), large());
    assert_eq!(borrowed(&books, 0), None);
    books.queues.charge(2, &vcores(5));
    assert_eq!(borrowed(&books, 0), Some(of("n1", Loan::Suspended)));
    assert!(!could_run(books.reservations.of(who).unwrap(), &books));
    assert_eq!(
        borrowed(&books, 1),
        Some(of("n1", Loan::Priority)),
        "it stays where it can be lent"
    );
    books.queues.give_back(2, &vcores(1));
    assert_eq!(borrowed(&books, 0), None);
}

#[test]
fn a_limit_of_a_user_keeps_an_ask_from_running() {
    let mut books = books(|_, _| ());
    let mut root = QueueConfig::bare("root", false);
    let mut leaf = QueueConfig::bare("root.b", true);
    leaf.limits = vec![LimitConfig {
        users: vec!["ann".into()],
        max_resources: Some(Limits::of(&[("vcore", 8)])),
        ..LimitConfig::default()
    }];
    root.children.push(leaf);
    books.trackers = Trackers::new(&root);
    let [user, application, queue] = ["ann", "app", "root.b"].map(Arc::from);
    let lane = books.trackers.join(&user, &[], &application, &queue).lane;
    reserve(&mut books, "n1", Holder { lane: Some(lane), ..of_b() }, large());
    assert_eq!(borrowed(&books, 0), None);
    let loosening = books.loosen();
    books.trackers.charge(lane, &vcores(3), loosening);
    assert_eq!(borrowed(&books, 0), Some(of("n1", Loan::Suspended)));
}

#[test]
fn nothing_is_lent_that_others_leave_or_that_may_be_nowhere_else() {
    let mut books = books(|_, _| ());
    let who = reserve(&mut books, "n1", of_b(), large());
    reserve(&mut books, "n2", of_b(), large().with(|it| it.required_node = Some("n2".into())));
    assert_eq!(borrowed(&books, 9), Some(of("n1", Loan::Priority)));
    books.reservations.note_preempted(&mut books.nodes, who);
    assert_eq!(borrowed(&books, 9), None);
}

#[test]
fn nodes_of_others_come_after_all_open_ones() {
    let mut books = books(|_, _| ());
    reserve(&mut books, "n2", of_b(), large());
    let [n1, n2] = ["n1", "n2"].map(|id| books.nodes.slot_of(id).unwrap());
    let n3 = books.nodes.insert(Arc::from("n3"), vcores(8), vcores(4), true).unwrap();
    let mut asks = Asks::new();
    let spec = with_priority(AskSpec::new("small", vcores(3)), 1);
    let (slot, _) = asks.put(spec, 0, 1);
    let next = |node, is_pair| after_refusal((1, asks.ask(slot)), node, is_pair, &books);
    assert_eq!(next(n1, false), Some((n3, None)));
    let (node, lent) = next(n3, false).unwrap();
    assert_eq!((node, lent.unwrap().loan), (n2, Loan::Priority));
    assert_eq!(next(n3, true), None, "a member in place of a placeholder borrows nothing");
    assert_eq!(next(n2, false), None, "no open node is asked after a lent one");
}
