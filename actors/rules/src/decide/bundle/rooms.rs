//! The places of a gang on the capacity that preemption has reserved for it.
//!
//! Each member gets the capacity that was reserved for a member of its task group (a *room*): the
//! larger members get the larger rooms, and members of equal size get rooms in their order. The
//! rooms are [lifted](crate::pending::nominations::Nominations::lift) during the search, and no
//! other ask may use them.
//!
//! # Invariant
//! All members get their rooms, or nothing is taken.

use super::{Chosen, Found, Group, Members, MembersAt, Place, largest_first};
use crate::nodes::{Domain, NodeIndex};
use crate::pending::nominations::Room;
use crate::values::resources::Resources;

/// Takes the rooms of all members. `None` if a member has outgrown its room or may not use it any
/// more, or if there are too few or too many rooms.
pub fn take(nodes: &mut NodeIndex, bundle: &[Group<'_>], rooms: &[Room]) -> Option<Found> {
    let mut found = Found::default();
    let is_whole =
        (0..bundle.len()).all(|group| take_group(nodes, bundle, group, rooms, &mut found));
    let has_all = found.places.len() == rooms.len();
    if is_whole && has_all {
        return Some(found);
    }
    found.undo(nodes);
    None
}

fn take_group(
    nodes: &mut NodeIndex,
    bundle: &[Group<'_>],
    group: usize,
    rooms: &[Room],
    found: &mut Found,
) -> bool {
    let total = nodes.capacity().clone();
    let mut rooms = in_order(rooms, group, &total).into_iter();
    let sizes = bundle[group].members.iter().map(|members| members.request.resources);
    let required = bundle[group].required();
    let mut domain: Option<Domain> = None;
    for at in largest_first(sizes, &total) {
        let of = MembersAt { group, members: at };
        let members = of.within(bundle);
        for _ in 0..members.count {
            let Some(room) = rooms.next() else { return false };
            if !may_have(nodes, members, room) {
                return false;
            }
            if let Some(key) = required {
                let value = nodes.attribute(room.node, key);
                let Some(its) = value.map(|value| Domain::new(key, value)) else { return false };
                if *domain.get_or_insert_with(|| its.clone()) != its {
                    return false;
                }
            }
            found.take(nodes, members, Place { of, node: room.node });
        }
    }
    found.chosen.extend(domain.map(|domain| Chosen { group, domain, has_moved: false }));
    true
}

fn may_have(nodes: &NodeIndex, members: &Members<'_>, room: &Room) -> bool {
    let request = &members.request;
    let is_open = match request.required {
        Some(required) => **nodes.id(room.node) == *required,
        None => nodes.is_open(room.node),
    };
    is_open
        && room.amount.holds(request.resources)
        && nodes.has_room(room.node, request.resources)
        && nodes.admits(room.node, request)
}

/// Returns the rooms of one group, the larger ones first.
pub(crate) fn in_order<'a>(rooms: &'a [Room], group: usize, total: &Resources) -> Vec<&'a Room> {
    let rooms: Vec<&Room> = rooms.iter().filter(|room| room.group == group).collect();
    let order = largest_first(rooms.iter().map(|room| &room.amount), total);
    order.into_iter().map(|at| rooms[at]).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::nodes::{NodeOrder, NodeRequest};
    use crate::values::ids::NodeSlot;

    fn vcores(n: i64) -> Resources {
        Resources::of(&[("vcore", n)])
    }

    fn index(free: &[i64]) -> (NodeIndex, Vec<NodeSlot>) {
        let mut nodes = NodeIndex::new(NodeOrder::default());
        let insert = |(at, free): (usize, &i64)| {
            nodes.insert(Arc::from(format!("n{at}")), vcores(8), vcores(*free), true).unwrap()
        };
        let slots = free.iter().enumerate().map(insert).collect();
        (nodes, slots)
    }

    fn members(size: &Resources, count: u32) -> Members<'_> {
        Members { request: NodeRequest::of(size), count, tags: None }
    }

    fn room(group: usize, node: NodeSlot, amount: i64) -> Room {
        Room { group, node, amount: vcores(amount) }
    }

    #[test]
    fn larger_members_get_the_larger_rooms_of_their_group() {
        let (mut nodes, n) = index(&[8, 8, 8]);
        let (two, four) = (vcores(2), vcores(4));
        let bundle = [
            Group { members: vec![members(&two, 1), members(&four, 1)], ..Group::default() },
            Group { members: vec![members(&two, 1)], ..Group::default() },
        ];
        let rooms = [room(1, n[0], 2), room(0, n[1], 2), room(0, n[2], 4)];
        let found = take(&mut nodes, &bundle, &rooms).unwrap();
        let at = |group, at| {
            let of = MembersAt { group, members: at };
            found.places().iter().find(|place| place.of == of).unwrap().node
        };
        assert_eq!([at(0, 0), at(0, 1), at(1, 0)], [n[1], n[2], n[0]]);
        assert_eq!(nodes.available(n[2]), &vcores(4));
    }

    #[test]
    fn without_all_of_its_rooms_a_gang_takes_none() {
        let two = vcores(2);
        let bundle = [Group { members: vec![members(&two, 2)], ..Group::default() }];
        let (nodes, n) = index(&[8, 8]);
        let all = |of: &[(NodeSlot, i64)]| {
            of.iter().map(|(node, amount)| room(0, *node, *amount)).collect::<Vec<_>>()
        };
        let none = |mut nodes: NodeIndex, rooms: Vec<Room>| {
            let before = nodes.fingerprint();
            assert!(take(&mut nodes, &bundle, &rooms).is_none());
            assert_eq!(nodes.fingerprint(), before);
        };
        none(nodes, all(&[(n[0], 2)]));
        let (nodes, n) = index(&[8, 8]);
        none(nodes, all(&[(n[0], 2), (n[1], 2), (n[1], 2)]));
        let (nodes, n) = index(&[8, 8]);
        none(nodes, all(&[(n[0], 2), (n[1], 1)]));
        let (nodes, n) = index(&[8, 1]);
        none(nodes, all(&[(n[0], 2), (n[1], 2)]));
        let (mut nodes, n) = index(&[8, 8]);
        nodes.set_open(n[1], false);
        none(nodes, all(&[(n[0], 2), (n[1], 2)]));
    }
}
