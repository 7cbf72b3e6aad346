use proptest::prelude::*;

use super::*;
use crate::nodes::{NodeOrder, NodeRequest};
use crate::queues::QueueConfig;
use crate::values::again::written_and_read;
use crate::values::resources::Resources;

fn vcores(quantity: i64) -> Resources {
    Resources::of(&[("vcore", quantity)])
}

fn who(application: u32, ask: u32) -> Reserver {
    Reserver { application: ApplicationSlot::at(application), ask: AskSlot::at(ask) }
}

fn ask(vcore: i64, required: Option<&str>) -> Arc<AskSpec> {
    let required_node = required.map(Arc::from);
    Arc::new(AskSpec::new("ask", vcores(vcore)).with(|it| it.required_node = required_node))
}

/// Builds nodes n0, n1, … of four cores each, of which one is free.
fn nodes(number: u32) -> NodeIndex {
    let mut nodes = NodeIndex::new(NodeOrder::default());
    for number in 0..number {
        nodes.insert(Arc::from(format!("n{number}")), vcores(4), vcores(1), true).unwrap();
    }
    nodes
}

fn on(node: NodeSlot, spec: &Arc<AskSpec>) -> Reservation {
    Reservation::new(node, Arc::clone(spec), 5)
}

#[test]
fn a_node_is_reserved_by_one_ask_or_by_all_that_require_it() {
    let (mut nodes, mut all) = (nodes(2), Reservations::default());
    let (n0, n1) = (NodeSlot::at(0), NodeSlot::at(1));
    let (normal, for_n0, for_n1) = (ask(2, None), ask(2, Some("n0")), ask(2, Some("n1")));
    assert!(!all.may_reserve(&nodes, n1, &for_n0), "it requires another");
    assert!(!all.may_reserve(&nodes, n0, &ask(5, None)), "it is larger than the node");

    all.make(&mut nodes, who(0, 0), on(n0, &for_n0));
    assert!(all.may_reserve(&nodes, n0, &for_n0) && !all.may_reserve(&nodes, n0, &normal));
    all.make(&mut nodes, who(1, 0), on(n0, &for_n0));
    assert_eq!(all.normal_on(n0), None);

    all.make(&mut nodes, who(0, 1), on(n1, &normal));
    assert_eq!(all.normal_on(n1), Some(who(0, 1)));
    assert!(!all.may_reserve(&nodes, n1, &for_n1) && !all.may_reserve(&nodes, n1, &normal));

    assert!(all.end(&mut nodes, who(0, 0)).is_some());
    assert!(nodes.is_reserved(n0), "the other one still has it");
    assert!(all.end(&mut nodes, who(1, 0)).is_some());
    assert!(!nodes.is_reserved(n0));
    assert!(all.end(&mut nodes, who(1, 0)).is_none(), "it ends once");
}

#[test]
fn an_ask_that_changes_keeps_its_node_while_that_is_large_enough() {
    let (mut nodes, mut all) = (nodes(2), Reservations::default());
    let (n0, me) = (NodeSlot::at(0), who(0, 0));
    assert!(all.keep(&mut nodes, me, &ask(9, None)), "it has none to lose");
    all.make(&mut nodes, me, on(n0, &ask(2, None)));
    assert!(all.keep(&mut nodes, me, &ask(4, None)));
    assert_eq!(*all.of(me).unwrap().spec.resources, vcores(4));
    assert!(!all.keep(&mut nodes, me, &ask(5, None)), "too large");
    assert!(!all.keep(&mut nodes, me, &ask(4, Some("n0"))), "it is of the other kind now");
    nodes.update(n0, Some(&vcores(3)), &vcores(0));
    assert_eq!(all.too_large_for(&nodes, n0), [me]);
    assert_eq!(all.too_large_for(&nodes, NodeSlot::at(1)), []);
}

#[test]
fn a_reservation_has_waited_when_it_is_older_than_the_timeout() {
    let reservation = on(NodeSlot::at(0), &ask(1, None));
    let timeout = Duration::from_nanos(100);
    assert!(!reservation.has_waited(105, timeout));
    assert!(reservation.has_waited(106, timeout));
    assert!(!reservation.has_waited(i64::MAX, Duration::MAX), "never");
}

#[derive(Clone, Debug)]
enum Change {
    /// An ask of an application tries to reserve a node, which it may require.
    Make((u32, u32), u32, bool),
    End((u32, u32)),
    /// All reservations on a node end, and the node is removed and added again.
    Renew(u32),
    /// All reservations of an application end.
    Leave(u32),
    WriteAndRead,
}

const NODES: u32 = 4;

fn change() -> impl Strategy<Value = Change> {
    let ask = || (0..3_u32, 0..3_u32);
    prop_oneof![
        5 => (ask(), 0..NODES, prop::bool::weighted(0.4))
            .prop_map(|(who, node, required)| Change::Make(who, node, required)),
        2 => ask().prop_map(Change::End),
        1 => (0..NODES).prop_map(Change::Renew),
        1 => (0..3_u32).prop_map(Change::Leave),
        1 => Just(Change::WriteAndRead),
    ]
}

/// By ask, the number of its node, and whether the ask requires the node.
type Model = BTreeMap<Reserver, (u32, bool)>;

fn check(all: &Reservations, nodes: &NodeIndex, model: &Model) {
    assert_eq!((all.len(), all.is_empty()), (model.len(), model.is_empty()));
    let listed = all
        .iter()
        .map(|(who, it)| (who, (u32::try_from(it.node.index()).unwrap(), it.is_required())));
    assert_eq!(listed.collect::<Model>(), *model);
    for number in 0..NODES {
        let node = NodeSlot::at(number);
        let there: Vec<_> = model.iter().filter(|(_, (at, _))| *at == number).collect();
        let required = there.iter().filter(|(_, (_, required))| *required).count();
        assert!(required == there.len() || there.len() == 1, "one kind, and one of the first");
        assert_eq!(nodes.is_reserved(node), !there.is_empty());
        assert!(all.on_node(node).map(|(who, _)| who).eq(there.iter().map(|(who, _)| **who)));
        let normal = there.iter().find(|(_, (_, required))| !required).map(|(who, _)| **who);
        assert_eq!(all.normal_on(node), normal);
    }
    for application in 0..3 {
        let application = ApplicationSlot::at(application);
        let of_it = model.keys().filter(|who| who.application == application);
        let listed = all.of_application(application);
        assert!(listed.map(|(ask, _)| ask).eq(of_it.map(|who| who.ask)));
    }
    let is_free = (0..NODES).any(|number| !nodes.is_reserved(NodeSlot::at(number)));
    assert_eq!(nodes.first(&NodeRequest::of(&vcores(1))).is_some(), is_free);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn table_and_index_agree_after_any_history(changes in prop::collection::vec(change(), 0..60)) {
        let (mut nodes, mut all) = (nodes(NODES), Reservations::default());
        let mut model = Model::new();
        for change in changes {
            match change {
                Change::Make((application, ask_number), number, required) => {
                    let (me, node) = (who(application, ask_number), NodeSlot::at(number));
                    let spec = ask(2, required.then(|| format!("n{number}")).as_deref());
                    let mut there = model.values().filter(|(at, _)| *at == number);
                    let may = there.all(|(_, theirs)| required && *theirs);
                    prop_assert_eq!(all.may_reserve(&nodes, node, &spec), may);
                    if may && !model.contains_key(&me) {
                        all.make(&mut nodes, me, on(node, &spec));
                        model.insert(me, (number, required));
                    }
                }
                Change::End((application, ask)) => {
                    let me = who(application, ask);
                    let ended = all.end(&mut nodes, me);
                    let expected = model.remove(&me).map(|(number, _)| number as usize);
                    prop_assert_eq!(ended.map(|it| it.node.index()), expected);
                }
                Change::Renew(number) => {
                    let node = NodeSlot::at(number);
                    let there: Vec<_> = all.on_node(node).map(|(who, _)| who).collect();
                    for who in there {
                        all.end(&mut nodes, who);
                    }
                    model.retain(|_, (at, _)| *at != number);
                    let id = Arc::clone(nodes.id(node));
                    nodes.remove(node);
                    nodes.insert(id, vcores(4), vcores(1), true).unwrap();
                }
                Change::Leave(application) => {
                    let slot = ApplicationSlot::at(application);
                    let asks: Vec<_> = all.of_application(slot).map(|(ask, _)| ask).collect();
                    for ask in asks {
                        all.end(&mut nodes, Reserver { application: slot, ask });
                    }
                    model.retain(|who, _| who.application != slot);
                }
                Change::WriteAndRead => {
                    (all, nodes) = (written_and_read(&all), written_and_read(&nodes));
                }
            }
            check(&all, &nodes, &model);
        }
    }

    /// The first reservation to be replaced is the one that a scan of all reservations finds.
    #[test]
    fn the_last_that_is_replaced_is_found_without_a_look_at_all(
        made in prop::collection::vec((0..6_u32, -2..3_i32, 0..5_i64, 0..8_u8), 0..24),
        (priority, created_ns) in (-2..3_i32, 0..5_i64),
    ) {
        let mut queues = QueueTable::default();
        queues.enter(0, None, Arc::new(QueueConfig::bare("root", true)));
        let (mut nodes, mut all) = (nodes(6), Reservations::default());
        let spec = |priority| Arc::new(AskSpec { priority, ..AskSpec::new("ask", vcores(2)) });
        for (number, priority, created_ns, kind) in made {
            let me = who(number, 0);
            match kind {
                0 => drop(all.end(&mut nodes, me)),
                1 => prop_assert!(all.keep(&mut nodes, me, &spec(priority))),
                2 if all.of(me).is_some_and(Reservation::may_be_suspended) => {
                    all.suspend(&mut nodes, me);
                }
                3 => all.note_preempted(&mut nodes, me),
                _ if all.of(me).is_none() => {
                    let holder = Holder { created_ns, ..Holder::default() };
                    let made = on(NodeSlot::at(number), &spec(priority)).held_by(holder);
                    all.make(&mut nodes, me, made);
                }
                _ => {}
            }
        }
        let rank = Holder { created_ns, ..Holder::default() }.rank(&queues, priority);
        let after = all.iter().filter(|(_, it)| it.is_bounded() && rank.replaces(&it.rank(&queues)));
        let last = after.min_by(|(_, a), (_, b)| a.rank(&queues).compare(&b.rank(&queues)));
        let found = all.last_replaced_by(&rank, &queues);
        prop_assert_eq!(found.map(|(who, _)| who), last.map(|(who, _)| who));
    }
}
