//! Facts about the members of a bundle, derived from their asks: amounts, and the form that the
//! search for nodes takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::applications::application::Application;
use crate::applications::native::{Native, NativeGroup};
use crate::asks::{Ask, Asks, Bundled};
use crate::decide::bundle::{Found, Group, Members, MembersAt};
use crate::nodes::{Domain, NodeIndex, NodeRequest};
use crate::specs::ask::{Form, TaskGroup};
use crate::values::ids::AskSlot;
use crate::values::resources::Resources;

/// The domains where a member of a group was refused, by the index of the group in the bundle.
pub type AvoidedDomains = BTreeMap<usize, Vec<Domain>>;

/// The nodes that members may use in a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllowedNodes {
    /// The nodes where no start of the member failed.
    WithoutFailedStart,
    /// All nodes.
    Any,
}

impl AllowedNodes {
    /// Returns the request for a node of a member with this ask.
    pub fn request(self, ask: &Ask) -> NodeRequest<'_> {
        let elsewhere = ask.request_elsewhere().filter(|_| self == Self::WithoutFailedStart);
        elsewhere.unwrap_or_else(|| ask.request())
    }
}

/// Returns the amount of all members together.
pub fn total(asks: &Asks, bundled: &Bundled) -> Resources {
    let mut total = Resources::new();
    for (slot, count) in bundled.iter().flatten() {
        total.add(&asks.ask(*slot).resources.times(i64::from(*count)));
    }
    total
}

/// Returns the least amount of each resource that any member takes.
pub fn least(asks: &Asks, bundled: &Bundled) -> Resources {
    let mut sizes = bundled.iter().flatten().map(|(slot, _)| &*asks.ask(*slot).resources);
    let mut least = sizes.next().cloned().unwrap_or_default();
    for size in sizes {
        least.lower_to(size);
    }
    least
}

/// Returns the asks of members that lack places, each with the number of members of its group
/// without a place.
pub fn short_members(bundled: &Bundled, short: &[(MembersAt, u64)]) -> Vec<(AskSlot, u64)> {
    short.iter().map(|(of, lacks)| (bundled[of.group][of.members].0, *lacks)).collect()
}

/// Returns the bundle in the form that the search for nodes takes.
pub fn groups<'a>(
    asks: &'a Asks,
    native: &'a [NativeGroup],
    bundled: &Bundled,
    avoid: &'a AvoidedDomains,
    nodes: AllowedNodes,
) -> Vec<Group<'a>> {
    let members = |(slot, count): &(AskSlot, u32)| {
        let ask = asks.ask(*slot);
        Members { request: nodes.request(ask), count: *count, tags: ask.spec.tags.as_ref() }
    };
    let group = |(at, group): (usize, &Vec<(AskSlot, u32)>)| Group {
        members: group.iter().map(members).collect(),
        topology: native.get(at).and_then(NativeGroup::sought_topology).map(|it| &**it),
        avoid: avoid.get(&at).map_or(&[], Vec::as_slice),
    };
    bundled.iter().enumerate().map(group).collect()
}

/// Whether the RM is asked about any of the members: about members with an ask, and about held
/// places if it judges them.
pub fn is_asked_about(asks: &Asks, bundled: &Bundled, asks_about_holds: bool) -> bool {
    let mut members = bundled.iter().flatten();
    members.any(|(slot, _)| asks_about_holds || !asks.ask(*slot).spec.placeholder)
}

/// Notes that the asks were tried. More machines would help them if only root's quota and the nodes
/// are too small; the scale-up signal checks that.
pub fn note_tried(asks: &mut Asks, bundled: &Bundled) {
    for (slot, _) in bundled.iter().flatten() {
        let ask = asks.ask_mut(*slot);
        (ask.attempted, ask.unanswered) = (true, false);
    }
}

/// Notes that the RM gave no answers that count: whether more machines would help the asks is
/// unknown.
pub fn note_unanswered(asks: &mut Asks, bundled: &Bundled) {
    for (slot, _) in bundled.iter().flatten() {
        asks.ask_mut(*slot).unanswered = true;
    }
}

/// Returns the places that are held for members without an ask: the group of each, and the id of
/// its node. The internal asks of these members may have been removed already.
pub fn held_places(
    book: &Application,
    bundled: &Bundled,
    found: &Found,
    nodes: &NodeIndex,
) -> Vec<(TaskGroup, Arc<str>)> {
    let groups = book.native().map(Native::groups).unwrap_or_default();
    let held = found.places().iter().filter(|place| {
        let (slot, _) = bundled[place.of.group][place.of.members];
        book.asks.find(slot).is_none_or(|ask| ask.form == Form::Internal)
    });
    held.map(|place| (Arc::clone(&groups[place.of.group].name), Arc::clone(nodes.id(place.node))))
        .collect()
}
