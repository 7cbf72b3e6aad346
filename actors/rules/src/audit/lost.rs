//! Lost members of declared gangs in the full search: which asks come first in their place, counted
//! again from the table of allocations.

use std::sync::Arc;

use super::{AllocationFact, ApplicationFact, AskFact, Facts};
use crate::applications::gang::Gang;
use crate::applications::native::Stage;
use crate::specs::ask::TaskGroup;

/// The counts of members that a decided gang keeps of one group.
#[derive(Clone, Debug)]
pub struct MembersFact {
    /// The name of the task group.
    pub group: TaskGroup,
    /// The number of members that it needs.
    pub needs: u32,
    /// The number of members that have an allocation.
    pub members: u32,
    /// The number of lost members that have no successor yet.
    pub lost: u32,
}

impl MembersFact {
    /// Returns the counts of each group of a gang; empty unless the gang was declared and is
    /// decided.
    pub fn of(gang: &Gang) -> Vec<Self> {
        let native = gang.native.as_ref().filter(|native| native.stage == Stage::Decided);
        let groups = native.into_iter().flat_map(|native| native.groups());
        let fact = |group: &crate::applications::native::NativeGroup| Self {
            group: Arc::clone(&group.name),
            needs: group.min_members,
            members: group.members(),
            lost: group.lost(),
        };
        groups.map(fact).collect()
    }
}

impl Facts {
    /// Checks that the counts of members agree with the table.
    pub(super) fn check_members(&self, application: &ApplicationFact, wrong: &mut Vec<String>) {
        for fact in &application.members {
            let members = self.members_of(application, &fact.group);
            let there = members.filter(|member| !is_asked(member)).count();
            if there != fact.members as usize || fact.lost > fact.needs {
                let id = &application.id;
                wrong.push(format!("{id}: {there} members, counted {fact:?}"));
            }
        }
    }

    /// Returns the groups of a gang that lost members and have fewer members and held places than
    /// they need.
    pub(super) fn owed(&self, application: &ApplicationFact) -> Vec<TaskGroup> {
        let is_owed = |fact: &&super::MembersFact| {
            let there = self.members_of(application, &fact.group).count() as u64;
            let held = application.task_groups.get(&fact.group);
            let held = held.map_or(0, |it| it.count.saturating_sub(it.replaced + it.timed_out));
            fact.lost > 0 && there + held < u64::from(fact.needs)
        };
        application.members.iter().filter(is_owed).map(|fact| Arc::clone(&fact.group)).collect()
    }

    /// Returns the allocations of members, and their placements that wait for a predicate. A
    /// placement that is to take a held place is not one of them.
    fn members_of<'a>(
        &'a self,
        application: &'a ApplicationFact,
        group: &'a TaskGroup,
    ) -> impl Iterator<Item = &'a AllocationFact> {
        let of_group = move |fact: &&AllocationFact| {
            fact.application == application.slot
                && fact.member_of.as_ref() == Some(group)
                && !fact.takes_a_place()
        };
        self.allocations.iter().filter(of_group)
    }
}

/// Whether the placement waits for its predicate.
fn is_asked(fact: &AllocationFact) -> bool {
    fact.question.is_some()
}

/// Returns the asks of an application for members of these groups, which lost members. They come
/// before other asks of their queue and priority.
pub(super) fn for_owed<'a>(
    application: &ApplicationFact,
    owed: &[TaskGroup],
    asks: &[&'a AskFact],
) -> Vec<&'a AskFact> {
    let is_for_owed = |ask: &&&AskFact| {
        let group = ask.task_group.as_ref().filter(|_| !ask.placeholder);
        group.is_some_and(|group| owed.contains(group))
            && ask.priority == application.priority
            && !ask.backs_off
    };
    asks.iter().filter(is_for_owed).copied().collect()
}
