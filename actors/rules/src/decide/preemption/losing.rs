//! The facts of an application whose allocations may be preempted: its bounds, and which of its
//! allocations belong together.

use std::collections::BTreeSet;

use super::survey::{ApplicationFacts, GroupFacts, goes_as_one};
use crate::allocations::Allocation;
use crate::applications::application::Application;
use crate::applications::native::{Native, NativeGroup};
use crate::books::Books;
use crate::queues::EvictionBounds;
use crate::specs::ask::TaskGroup;
use crate::values::ids::{AllocationId, ApplicationSlot};

/// An application whose allocations may be preempted.
pub struct Loser<'a> {
    /// The application.
    pub book: &'a Application,
    /// The slot of the application in the directory.
    pub slot: ApplicationSlot,
    /// The number of allocations that it may lose, by the settings of its leaf.
    pub bounds: &'a EvictionBounds,
    /// The books.
    pub books: &'a Books,
    /// The present time, ns since the epoch.
    pub now_ns: i64,
}

/// The allocations of one application that belong together.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Together {
    /// All allocations that are not being released, if they are preempted together or not at all;
    /// otherwise none.
    pub mates: Vec<AllocationId>,
    /// The members of task groups that have no more members than they need.
    pub short: BTreeSet<AllocationId>,
}

impl Loser<'_> {
    /// Returns the facts for a survey. `queue` is the index of its queue among the surveyed queues.
    /// `winner` is `None` if a queue is above its maximum.
    pub fn facts(&self, queue: usize, winner: Option<ApplicationSlot>) -> ApplicationFacts {
        let (evictions, bounds, now_ns) = (&self.books.evictions, self.bounds, self.now_ns);
        let is_barred = |winner| evictions.is_barred(winner, self.slot, now_ns);
        let groups = self.groups().iter();
        let facts = |group: &NativeGroup| GroupFacts {
            name: group.name.clone(),
            min_members: group.min_members,
        };
        ApplicationFacts {
            slot: self.slot,
            queue,
            allowance: evictions.allowance(self.slot, bounds, now_ns),
            bound_ends_ns: evictions.bound_ends_ns(self.slot, winner, bounds, now_ns),
            is_barred: winner.is_some_and(is_barred),
            goes_as_one: goes_as_one(self.book.tags.as_ref()),
            groups: groups.map(facts).collect(),
        }
    }

    /// Returns the allocations that belong together, in order of their UUIDs, held places last.
    pub fn together(&self) -> Together {
        let mut together = Together::default();
        for group in self.groups() {
            let members: Vec<AllocationId> = self.members(group).collect();
            if members.len() <= group.min_members as usize {
                together.short.extend(members);
            }
        }
        if goes_as_one(self.book.tags.as_ref()) {
            let mut named: Vec<_> = self.book.allocations.iter().collect();
            named.sort();
            let all = named.into_iter().map(|(_, id)| *id).chain(self.book.holds());
            together.mates.extend(all.filter(|id| self.staying(*id).is_some()));
        }
        together
    }

    /// Returns the task groups that have fewer members than they need after these victims are
    /// evicted.
    pub fn left_short_by(&self, victims: &[AllocationId]) -> BTreeSet<TaskGroup> {
        let table = &self.books.allocations;
        let loses = |group: &&NativeGroup| {
            let is_of_group = |it: &Allocation| it.spec.member_of() == Some(&group.name);
            victims.iter().any(|id| table.get(*id).is_some_and(is_of_group))
        };
        let is_short = |group: &&NativeGroup| {
            let left = self.members(group).filter(|id| !victims.contains(id));
            left.count() < group.min_members as usize
        };
        let groups = self.groups().iter().filter(loses).filter(is_short);
        groups.map(|group| TaskGroup::clone(&group.name)).collect()
    }

    fn groups(&self) -> &[NativeGroup] {
        self.book.native().map(Native::groups).unwrap_or_default()
    }

    /// Returns the allocation, unless it is being released.
    fn staying(&self, id: AllocationId) -> Option<&Allocation> {
        self.books.allocations.get(id).filter(|it| it.leaving.is_none())
    }

    /// Returns the members of a task group that run and are not being released.
    fn members(&self, group: &NativeGroup) -> impl Iterator<Item = AllocationId> {
        self.book.each_allocation().filter(|id| {
            self.staying(*id).is_some_and(|it| it.spec.member_of() == Some(&group.name))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::allocations::Leaving;
    use crate::applications::application::NewApplication;
    use crate::decide::preemption::DISRUPTION;
    use crate::nodes::NodeOrder;
    use crate::specs::ask::AskSpec;
    use crate::specs::declaration::DeclaredGroup;
    use crate::values::ids::NodeSlot;
    use crate::values::resources::Resources;

    /// An application whose group `w` needs two members, and runs these allocations: members of the
    /// group, or others.
    fn world(goes_as_one: bool, are_members: &[bool]) -> (Books, Application, Vec<AllocationId>) {
        let size = Resources::of(&[("vcore", 1)]);
        let declared = DeclaredGroup::new("w", 2, Some(size.clone()));
        let tags = Arc::new([(DISRUPTION.into(), "all".into())].into());
        let new = NewApplication::small(Some(declared));
        let new = NewApplication { tags: goes_as_one.then_some(tags), ..new };
        let mut book = Application::new(new, Arc::from("root.a"), 0);
        let mut books = Books::new(NodeOrder::default());
        let mut ids = Vec::new();
        for (nth, is_member) in are_members.iter().enumerate() {
            let spec = AskSpec::new(format!("a{nth}"), size.clone());
            let group = is_member.then(|| TaskGroup::new("w".to_owned()));
            let spec = spec.with(|it| it.task_group = group);
            let entry =
                Allocation::new(ApplicationSlot::at(0), Arc::new(spec), NodeSlot::at(0), 0, 0);
            let id = books.allocations.insert(entry);
            book.allocations.insert(Arc::from(format!("a{nth}")), id);
            ids.push(id);
        }
        (books, book, ids)
    }

    fn loser<'a>(books: &'a Books, book: &'a Application, bounds: &'a EvictionBounds) -> Loser<'a> {
        Loser { book, slot: ApplicationSlot::at(0), bounds, books, now_ns: 0 }
    }

    #[test]
    fn a_group_is_short_of_a_needed_victim() {
        let (books, book, ids) = world(false, &[true, true, true, false]);
        let bounds = EvictionBounds::default();
        let loser = loser(&books, &book, &bounds);
        assert!(loser.left_short_by(&ids[..1]).is_empty(), "two are left");
        assert!(loser.left_short_by(&ids[3..]).is_empty(), "it is no member");
        assert_eq!(loser.left_short_by(&ids[1..3]).len(), 1);
    }

    #[test]
    fn members_that_leave_do_not_count() {
        let (mut books, book, ids) = world(false, &[true, true, true]);
        let bounds = EvictionBounds::default();
        assert!(loser(&books, &book, &bounds).together().short.is_empty());
        books.allocations.get_mut(ids[0]).unwrap().change().leaving = Some(Leaving::Preempted);
        let together = loser(&books, &book, &bounds).together();
        assert_eq!(together.short, BTreeSet::from([ids[1], ids[2]]));
        assert_eq!(loser(&books, &book, &bounds).left_short_by(&ids[1..2]).len(), 1);
    }

    #[test]
    fn only_a_tag_makes_mates_of_all() {
        let bounds = EvictionBounds::default();
        for goes_as_one in [false, true] {
            let (books, book, ids) = world(goes_as_one, &[false, false]);
            let loser = loser(&books, &book, &bounds);
            let mates = if goes_as_one { ids } else { Vec::new() };
            assert_eq!(loser.together().mates, mates);
            assert_eq!(loser.facts(3, None).goes_as_one, goes_as_one);
        }
    }

    #[test]
    fn facts_name_groups_and_their_needs() {
        let (books, book, _) = world(false, &[]);
        let bounds = EvictionBounds { max_evictions: 1, ..EvictionBounds::default() };
        let facts = loser(&books, &book, &bounds).facts(3, None);
        assert_eq!((facts.queue, facts.allowance, facts.is_barred), (3, Some(1), false));
        assert_eq!((facts.groups.len(), facts.groups[0].min_members), (1, 2));
    }
}
