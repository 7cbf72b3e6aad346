//! The placeholders of an application: their number and state in each task group (`docs/gangs.md`).
//!
//! # Why counted
//! An RM that runs members of a gang together first asks for placeholders, which are scheduled like
//! any ask and hold places until real members replace them. The scheduler does not know how many
//! members a group has. So it counts: a real member waits for a placeholder of its group as long as
//! one may still be placed or become free ([`Gang::is_usable`]), and is scheduled like any other
//! ask afterwards.
//!
//! A gang that declares its members ([`Native`]) gets no placeholders from its RM: the scheduler
//! makes asks for members that have none, and holds places for them. They are counted here as
//! placeholders.
//!
//! # Invariants
//! * For each group, `count` = placeholders still to be placed + placed + `replaced` + `timed_out`.
//! * [`Group::free`] has exactly the placeholders that no member is about to replace and that the
//!   RM was not asked to end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::native::{Departure, Native, Stage};
use crate::allocations::Allocation;
use crate::asks::Asks;
use crate::specs::ask::TaskGroup;
use crate::specs::declaration::Declaration;
use crate::specs::hold_again::HoldAgain;
use crate::values::ids::AllocationId;
use crate::values::resources::{Resources, Sum};

/// The placeholders of one task group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The size of the first placeholder of the group.
    pub min_resource: Resources,
    /// The number of placeholders that were requested or reported.
    pub count: u64,
    /// The number of placeholders that a member replaced.
    pub replaced: u64,
    /// The number of placeholders that ended in any other way.
    pub timed_out: u64,
    /// The placed placeholders that a member may replace.
    #[serde(with = "crate::values::pairs")]
    pub free: BTreeMap<PlaceKey, AllocationId>,
}

impl Group {
    /// Returns the number of placeholders that are still to be placed, are placed, or are about to
    /// end.
    fn left(&self) -> u64 {
        self.count.saturating_sub(self.replaced + self.timed_out)
    }
}

/// A group of a decided gang that has fewer members than it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// The name of the task group.
    pub group: TaskGroup,
    /// The number of members that have an allocation.
    pub runs: u64,
    /// The number of places that are held in addition.
    pub held: u64,
    /// The number of members that it needs.
    pub needs: u64,
    /// The number of lost members for which its asks come before others.
    pub lost: u64,
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, runs, held, needs, lost } = self;
        let run = if *runs == 1 { "runs" } else { "run" };
        write!(f, "{runs} of {needs} members of task group {group} {run}")?;
        match held {
            0 => {}
            1 => f.write_str(", and 1 place is held")?,
            held => write!(f, ", and {held} places are held")?,
        }
        match lost {
            0 => Ok(()),
            1 => f.write_str("; 1 was lost and goes before others of its queue and priority"),
            lost => {
                write!(f, "; {lost} were lost and go before others of their queue and priority")
            }
        }
    }
}

/// The sort key of a group's free places.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PlaceKey {
    /// A placeholder: its creation time (ns since the epoch) and its UUID.
    Placeholder(i64, Arc<str>),
    /// A held place; those of a group are all alike.
    Hold(AllocationId),
}

impl PlaceKey {
    /// Returns the key of this allocation.
    fn of(id: AllocationId, place: &Allocation) -> Self {
        if place.is_hold() {
            Self::Hold(id)
        } else {
            Self::Placeholder(place.created_ns, Arc::clone(&place.uuid))
        }
    }
}

/// The end of a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceholderEnd {
    /// The RM confirms that a member replaced it.
    Replaced,
    /// Any other end: it timed out, was stopped, preempted, or lost with its node.
    TimedOut,
}

/// The placeholders of an application, by task group, and its declared members.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Gang {
    /// The amount of all its placeholders together, as submitted; empty if none was submitted.
    pub placeholder_ask: Resources,
    /// The number of the deadline of its placeholders, while one is set.
    pub timer: Option<u64>,
    /// The declared members, if the gang has declared any.
    pub native: Option<Box<Native>>,
    groups: BTreeMap<Arc<String>, Group>,
}

impl Gang {
    /// Builds a gang without placeholders.
    pub fn new(placeholder_ask: Resources) -> Self {
        Self { placeholder_ask, ..Self::default() }
    }

    /// Builds a gang with declared members, which is undecided.
    pub fn declared(declaration: &Declaration) -> Self {
        Self { native: Some(Box::new(Native::new(declaration))), ..Self::default() }
    }

    /// Returns the declared members, until it is decided that they get places.
    pub fn undecided(&self) -> Option<&Native> {
        self.native.as_deref().filter(|native| native.stage != Stage::Decided)
    }

    /// Sets the internal asks to the number of members that have no ask of their own. Returns the
    /// change of pending.
    ///
    /// To be called after any change of the asks of real members, while the gang is
    /// [`Stage::Undecided`].
    pub fn complete(&mut self, asks: &mut Asks) -> Sum {
        let mut change = Sum::default();
        let Some(native) = &self.native else { return change };
        for declared in native.groups() {
            let (Some(slot), Some(spec)) = (declared.ask, &declared.spec) else { continue };
            let missing = declared.missing(asks);
            let before = asks.ask(slot).outstanding;
            if missing == before {
                continue;
            }
            change.add_sum(&asks.set_outstanding(slot, missing));
            let group = self.groups.entry(Arc::clone(&declared.name)).or_default();
            group.min_resource.clone_from(&spec.resources);
            group.count = group.count + u64::from(missing) - u64::from(before);
        }
        change.prune();
        change
    }

    /// Returns every group that has or had placeholders, by name.
    pub fn groups(&self) -> impl Iterator<Item = (&Arc<String>, &Group)> {
        self.groups.iter()
    }

    /// Returns the counts of a group.
    pub fn group(&self, name: &String) -> Option<&Group> {
        self.groups.get(name)
    }

    /// Whether a real member of the group has to wait for a placeholder: one is still to be placed,
    /// is placed, or is about to end.
    pub fn is_usable(&self, name: &String) -> bool {
        self.held(name) > 0
    }

    /// Returns the number of asks of a group that come before others: one for each lost member, at
    /// most as many as the group lacks. `asked` is the number of members with a placement that
    /// waits for its predicate. 0 unless the gang was declared and is decided.
    pub fn owed(&self, name: &TaskGroup, asked: u64) -> u64 {
        let Some(native) = self.native.as_ref().filter(|it| it.n_lost() > 0) else { return 0 };
        let Some(group) = native.group(name) else { return 0 };
        u64::from(group.lost()).min(group.lacks(self.held(name) + asked))
    }

    /// Counts the end of a member's allocation; see [`Native::left`].
    pub fn member_left(&mut self, name: &TaskGroup, departure: Departure) -> bool {
        let held = self.held(name);
        self.native.as_mut().is_some_and(|native| native.left(name, departure, held))
    }

    /// Counts a held place that was lost with its node or by preemption; see [`Native::lost_one`].
    pub fn place_lost(&mut self, name: &TaskGroup) -> bool {
        let held = self.held(name);
        self.native.as_mut().is_some_and(|native| native.lost_one(name, held))
    }

    /// Returns the shortage of a declared group; `None` if it has the members that it needs, or the
    /// gang is undecided.
    pub fn lacking(&self, name: &TaskGroup) -> Option<Lacking> {
        let native = self.native.as_ref().filter(|native| native.stage == Stage::Decided)?;
        let group = native.group(name)?;
        let held = self.held(name);
        (group.lacks(held) > 0).then(|| Lacking {
            group: TaskGroup::clone(name),
            runs: u64::from(group.members()),
            held,
            needs: u64::from(group.min_members),
            lost: self.owed(name, 0),
        })
    }

    /// Whether lost members of any group have no successor yet.
    pub fn owes(&self) -> bool {
        self.native.as_ref().is_some_and(|native| native.n_lost() > 0)
    }

    /// Returns the number of placeholders of the group that are still to be placed, are placed, or
    /// are about to end.
    pub fn held(&self, name: &String) -> u64 {
        self.groups.get(name).map_or(0, Group::left)
    }

    /// Whether any placeholder is free to be replaced.
    pub fn has_free(&self) -> bool {
        self.groups.values().any(|group| !group.free.is_empty())
    }

    /// Starts the search for places that an earlier scheduler held, and that are not held now.
    pub fn hold_again(&mut self, again: &HoldAgain, now_ns: i64) {
        let Self { native, groups, .. } = self;
        if let Some(native) = native {
            native.hold_again(again, |name| groups.get(name).map_or(0, Group::left), now_ns);
        }
    }

    /// Counts this many more placeholders, which are requested or reported.
    pub fn add(&mut self, name: &Arc<String>, size: &Resources, more: u64) {
        let first = || Group { min_resource: size.clone(), ..Group::default() };
        self.groups.entry(Arc::clone(name)).or_insert_with(first).count += more;
    }

    /// Counts this many fewer placeholders, because the RM changed its ask.
    pub fn take_off(&mut self, name: &String, fewer: u64) {
        if let Some(group) = self.groups.get_mut(name) {
            group.count = group.count.saturating_sub(fewer);
        }
    }

    /// Counts placeholders that have ended, or will not be placed any more.
    pub fn end(&mut self, name: &String, end: PlaceholderEnd, how_many: u64) {
        if let Some(group) = self.groups.get_mut(name) {
            match end {
                PlaceholderEnd::Replaced => group.replaced += how_many,
                PlaceholderEnd::TimedOut => group.timed_out += how_many,
            }
        }
    }

    /// Records that a placeholder is free to be replaced: it is placed, or the member that was to
    /// replace it does not. The caller notifies the [search](crate::decide::pairs::Search::freed)
    /// for members.
    pub fn put_free(&mut self, name: &String, id: AllocationId, place: &Allocation) {
        if let Some(group) = self.groups.get_mut(name) {
            group.free.insert(PlaceKey::of(id, place), id);
        }
    }

    /// Records that no placeholder of the group is free any more.
    pub fn take_all_free(&mut self, name: &String) {
        if let Some(group) = self.groups.get_mut(name) {
            group.free.clear();
        }
    }

    /// Records that a placeholder is no longer free.
    pub fn take_free(&mut self, name: &String, id: AllocationId, place: &Allocation) {
        if let Some(group) = self.groups.get_mut(name) {
            group.free.remove(&PlaceKey::of(id, place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specs::ask::AskSpec;
    use crate::values::ids::{ApplicationSlot, NodeSlot};

    #[test]
    fn members_wait_for_placeholders_until_each_is_replaced_or_gone() {
        let (size, name) = (Resources::of(&[("vcore", 2)]), Arc::new("workers".to_owned()));
        let mut gang = Gang::default();
        assert!(!gang.is_usable(&name), "a group without placeholders");
        gang.add(&name, &size, 2);
        gang.add(&name, &Resources::of(&[("vcore", 9)]), 1);
        gang.take_off(&name, 3);
        gang.add(&name, &Resources::of(&[("vcore", 3)]), 3);
        assert_eq!(gang.group(&name).map(|group| group.min_resource.clone()), Some(size));
        gang.end(&name, PlaceholderEnd::Replaced, 2);
        assert!(gang.is_usable(&name), "one of three is left");
        gang.end(&name, PlaceholderEnd::TimedOut, 1);
        assert!(!gang.is_usable(&name));
        gang.add(&name, &Resources::new(), 1);
        assert!(gang.is_usable(&name), "another one is asked for");
    }

    #[test]
    fn a_free_placeholder_is_listed_in_order_of_its_creation() {
        let name = Arc::new("g".to_owned());
        let mut gang = Gang::default();
        gang.add(&name, &Resources::new(), 2);
        let [first, second] = [1, 2].map(AllocationId::numbered);
        let placeholder = |created_ns: i64, uuid: &str| {
            let (application, node) = (ApplicationSlot::at(0), NodeSlot::at(0));
            let spec = Arc::new(AskSpec::new("p", Resources::new()));
            let mut entry = Allocation::new(application, spec, node, created_ns, 0);
            entry.uuid = Arc::from(uuid);
            entry
        };
        gang.put_free(&name, second, &placeholder(7, "b"));
        gang.put_free(&name, first, &placeholder(5, "z"));
        let free =
            |gang: &Gang| gang.group(&name).unwrap().free.values().copied().collect::<Vec<_>>();
        assert_eq!(free(&gang), [first, second]);
        gang.take_free(&name, first, &placeholder(5, "z"));
        assert_eq!(free(&gang), [second]);
        assert!(gang.has_free());
    }
}
