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

/// A placement on `n0000` that could go to `n0001`, too, and what each node makes of the answer
/// that it passes there.
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
