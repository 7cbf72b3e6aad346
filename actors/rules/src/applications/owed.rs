//! Lost members of a declared gang: until the gang is whole again, as many of its asks come before
//! others of its queue. A member is lost with its node, by preemption or by a failure. For people,
//! `docs/gangs.md#members-that-are-lost`.
//!
//! # Why the application remembers
//! Whether a group is owed members depends on placements in flight, which the application does not
//! count by group. The list is computed again when they may have changed, and only if a member is
//! owed: an application that lost none pays one comparison.

use smallvec::SmallVec;

use super::application::Application;
use crate::allocations::{Allocation, AllocationTable, Pairing};
use crate::specs::ask::TaskGroup;

/// The task groups of a gang whose asks come before others, because they lost members.
pub(super) type OwedGroups = SmallVec<[TaskGroup; 1]>;

impl Application {
    /// Counts a new allocation, if it belongs to a member of a declared gang.
    pub fn member_joined(&mut self, entry: &Allocation) {
        if let (Some(native), Some(group)) = (self.native_mut(), entry.spec.member_of()) {
            native.joined(group, matches!(entry.pairing, Pairing::Took { .. }));
        }
    }

    /// Counts a held place of this task group that was lost with its node or by preemption. Returns
    /// the group if it has too few members because of that.
    pub fn place_lost<'a>(&mut self, group: Option<&'a TaskGroup>) -> Option<&'a TaskGroup> {
        group.filter(|group| self.gang.as_mut().is_some_and(|gang| gang.place_lost(group)))
    }

    /// Finds the groups that are owed members. To be called when members were placed or lost, or
    /// when placements of them began or ceased to wait for predicates.
    pub fn review_owed(&mut self, table: &AllocationTable) {
        let gang = self.gang.as_deref().filter(|gang| gang.owes());
        if gang.is_none() && self.owed.is_empty() {
            return;
        }
        self.owed.clear();
        let Some((gang, native)) = gang.and_then(|gang| Some((gang, gang.native.as_ref()?))) else {
            return;
        };
        let asked = |group: &TaskGroup| {
            let is_it = |entry: &&Allocation| {
                entry.takes().is_none() && entry.spec.member_of() == Some(group)
            };
            let asked = self.unsettled.iter().filter_map(|id| table.get(*id)).filter(is_it);
            asked.count() as u64
        };
        let lost = native.groups().iter().filter(|group| group.lost() > 0).map(|group| &group.name);
        self.owed.extend(lost.filter(|group| gang.owed(group, asked(group)) > 0).cloned());
    }

    /// Returns the task groups that are owed members, as found by the last review.
    pub fn owed_groups(&self) -> &[TaskGroup] {
        &self.owed
    }

    /// Whether the gang asks for members that it lost, with the priority of the application.
    pub fn lacks_members(&self) -> bool {
        !self.owed.is_empty() && self.asks.any_in_priority(&self.owed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::applications::native::Departure;
    use crate::specs::ask::AskSpec;
    use crate::specs::declaration::DeclaredGroup;
    use crate::values::ids::{ApplicationSlot, NodeSlot};
    use crate::values::resources::Resources;

    /// Returns an application with a gang of one task group `w` that needs three members.
    fn gang_of_three() -> Application {
        let size = Resources::of(&[("vcore", 2)]);
        Application::small(Some(DeclaredGroup::new("w", 3, Some(size))))
    }

    #[test]
    fn lost_member_goes_first_until_its_predicate_is_asked() {
        let (mut book, group) = (gang_of_three(), TaskGroup::new("w".to_owned()));
        let spec = AskSpec::new("m", Resources::of(&[("vcore", 2)]));
        let spec = Arc::new(spec.with(|it| it.task_group = Some(TaskGroup::clone(&group))));
        let entry =
            || Allocation::new(ApplicationSlot::at(0), Arc::clone(&spec), NodeSlot::at(0), 0, 0);
        book.native_mut().unwrap().decide();
        book.member_joined(&entry());
        book.asks.put(Arc::clone(&spec), 0, 1);
        let mut table = AllocationTable::new();
        book.review_owed(&table);
        assert!(!book.lacks_members(), "nothing was lost");
        assert!(book.gang_mut().member_left(&group, Departure::Lost));
        book.review_owed(&table);
        assert!(book.lacks_members());
        for _ in 0..3 {
            let id = table.insert(entry());
            book.unsettled.insert(id);
        }
        book.review_owed(&table);
        assert!(!book.lacks_members());
    }

    #[test]
    fn place_lost_by_an_undecided_gang_is_not_owed() {
        let (mut book, group) = (gang_of_three(), TaskGroup::new("w".to_owned()));
        assert_eq!(book.place_lost(Some(&group)), None);
        book.native_mut().unwrap().decide();
        assert_eq!(book.place_lost(Some(&group)), Some(&group));
    }
}
