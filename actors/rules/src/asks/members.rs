//! Asks of real members of task groups, without those that back off.

use super::class::Class;
use super::table::Asks;
use crate::specs::ask::TaskGroup;
use crate::values::ids::{AskSlot, ClassId};
use crate::waiting::View;

impl Asks {
    /// Returns the first class of these task groups that may use an offer. Only members with the
    /// highest pending priority are tried.
    pub fn first_of(&self, groups: &[TaskGroup], view: &View<'_>) -> Option<(ClassId, AskSlot)> {
        let may = |id: &ClassId| {
            let class = self.order.get(&self.class(*id).key);
            class.is_some_and(|(_, waits)| waits.may(view))
        };
        let usable = self.first_in_priority(groups).filter(may);
        let first = usable.min_by_key(|id| self.class(*id).key)?;
        Some((first, self.first_member(first)))
    }

    /// Whether members of these task groups have the highest pending priority and do not back off.
    pub fn any_in_priority(&self, groups: &[TaskGroup]) -> bool {
        self.first_in_priority(groups).next().is_some()
    }

    fn first_in_priority(&self, groups: &[TaskGroup]) -> impl Iterator<Item = ClassId> {
        let priority = self.priority();
        let classes = groups.iter().filter_map(|group| self.members.get(group)).flatten().copied();
        classes.filter(move |id| {
            self.class(*id).key.priority() == priority && !self.class_backs_off(*id)
        })
    }

    /// Returns the classes of real members of the given groups, without those that back off.
    pub(super) fn tried_classes(
        &self,
        is_meant: impl Fn(&TaskGroup) -> bool,
    ) -> impl Iterator<Item = &Class> {
        let meant = self.members.iter().filter(move |(group, _)| is_meant(group));
        let classes = meant.flat_map(|(_, classes)| classes);
        classes.filter(|class| !self.class_backs_off(**class)).map(|class| self.class(*class))
    }
}
