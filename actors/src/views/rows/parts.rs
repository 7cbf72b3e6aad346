//! The cost of reading a row, in parts: a slice of a list ends after a number of parts.

use monoceros_rules::limits::{GroupUsage, PlaceUsage, UserUsage};

/// Objects that are only examined (asks that are not pending, allocations that are only counted) and
/// together cost as much as reading one part.
pub(super) const LOOKS_PER_PART: usize = 4;

/// The parts of a user.
pub(crate) fn parts_of_user(user: &UserUsage) -> usize {
    1 + user.groups.len() + parts_of_place(&user.queues)
}

/// The parts of a group.
pub(crate) fn parts_of_group(group: &GroupUsage) -> usize {
    1 + group.applications.len() + parts_of_place(&group.queues)
}

fn parts_of_place(place: &PlaceUsage) -> usize {
    1 + place.running.len() + place.children.iter().map(parts_of_place).sum::<usize>()
}
