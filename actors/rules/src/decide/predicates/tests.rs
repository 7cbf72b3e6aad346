use std::sync::Arc;

use super::Confirmation::{Confirmed, Refused, Void};
use super::*;
use crate::allocations::Allocation;
use crate::nodes::NodeOrder;
use crate::specs::ask::AskSpec;
use crate::values::epoch::Growth;
use crate::values::ids::ApplicationSlot;
use crate::values::resources::Resources;

fn vcore(quantity: i64) -> Resources {
    Resources::of(&[("vcore", quantity)])
}

/// A placement is held on `n0000` and could be placed on `n0001`, too. Tests what each node decides
/// after the answer that the placement passes there.
#[test]
fn the_node_that_passes_confirms_a_placement_while_it_has_room_and_nothing_came_between() {
    let mut books = Books::new(NodeOrder::default());
    let slots = ["n0000", "n0001"]
        .map(|id| books.nodes.insert(Arc::from(id), vcore(4), vcore(4), true).unwrap());
    let application = ApplicationSlot::at(0);
    let spec = Arc::new(AskSpec::new("k", vcore(3)));
    let placement = Allocation::new(application, spec, slots[0], 0, 0);
    let id = books.allocations.insert(placement);
    books.nodes.update(slots[0], None, &vcore(1));
    let candidates = slots.iter().map(|slot| Arc::clone(books.nodes.id(*slot))).collect();
    let number = books.unsettled.ask((application, id), candidates, false, Growth::NONE);
    let on = |books: &Books, at: usize, scope| {
        confirm(books, books.unsettled.get(number).unwrap(), slots[at], &scope)
    };
    assert_eq!([0, 1].map(|at| on(&books, at, Scope::Topology)), [Confirmed, Confirmed]);

    books.nodes.update(slots[0], None, &vcore(-1));
    assert_eq!(on(&books, 0, Scope::Static), Refused, "the node shrank below what it holds");
    books.nodes.update(slots[1], None, &vcore(2));
    assert_eq!(on(&books, 1, Scope::Static), Refused, "others took the room");
    books.nodes.update(slots[1], None, &vcore(3));
    books.nodes.set_open(slots[1], false);
    assert_eq!(on(&books, 1, Scope::Static), Refused, "the node drains");
    books.nodes.set_open(slots[1], true);

    books.unsettled.changed(slots[1]);
    assert_eq!(on(&books, 1, Scope::Node), Void);
    assert_eq!(on(&books, 1, Scope::Static), Confirmed, "this answer rests on nothing");
}

#[test]
fn a_refused_member_tries_other_places_first() {
    let node = NodeSlot::at(3);
    let (in_place, elsewhere) = (Some((true, node)), Some((false, node)));
    for (place, has_verdict, is_resting, after) in [
        (in_place, true, false, AfterRefusal::OtherPlaces(Some(node))),
        (in_place, false, true, AfterRefusal::OtherPlaces(Some(node))),
        (elsewhere, false, false, AfterRefusal::OtherPlaces(None)),
        (elsewhere, true, false, AfterRefusal::OtherNodes),
        (None, true, false, AfterRefusal::OtherNodes),
        (None, true, true, AfterRefusal::Rests),
        (None, false, false, AfterRefusal::Rests),
    ] {
        assert_eq!(AfterRefusal::of(place, has_verdict, is_resting), after, "{place:?}");
    }
}

#[test]
fn only_a_paired_placement_has_a_place() {
    let mut books = Books::new(NodeOrder::default());
    let (application, node) = (ApplicationSlot::at(0), NodeSlot::at(0));
    let spec = Arc::new(AskSpec::new("k", vcore(1)));
    let placement = Allocation::new(application, spec, node, 0, 0);
    let placeholder = books.allocations.insert(placement.clone());
    let id = books.allocations.insert(placement);
    let number = books.unsettled.ask((application, id), Vec::new(), false, Growth::NONE);
    assert_eq!(place_taken_by(number, &books), None);
    let entry = books.allocations.get_mut(id).unwrap();
    entry.change().pairing = Pairing::Takes { placeholder, in_place: true };
    assert_eq!(place_taken_by(number, &books), Some((true, node)));
    assert_eq!(place_taken_by(number + 1, &books), None);
}
