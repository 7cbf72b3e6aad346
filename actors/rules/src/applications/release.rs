//! The end of allocations: which of them a release names, in which order they end, and what happens
//! to each.
//!
//! # Order
//! All allocations of an application end in the order of their UUIDs, so that notices are sent in
//! the same order in every run. If ending them takes several steps, it is the order of the table,
//! since sorting names takes long.

use std::sync::Arc;

use super::application::Application;
use super::application_state::ApplicationState;
use super::gang::PlaceholderEnd;
use super::native::Departure;
use super::resource_seconds::Account;
use crate::allocations::{Allocation, AllocationTable, Leaving};
use crate::specs::ask::Form;
use crate::specs::release::{Cause, Which};
use crate::values::ids::AllocationId;

/// The pending asks that a release withdraws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawn<'a> {
    /// No ask.
    Nothing,
    /// The ask with this key.
    Key(&'a Arc<str>),
    /// All asks of this form, or of every form.
    All(Option<Form>),
}

/// What happens to an allocation that a release names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It could not be started: its ask is pending again.
    PendsAgain,
    /// It was a placeholder, and the member that waits to replace it does so now.
    Swapped,
    /// It ends.
    Ends,
}

/// What happens to a placement or allocation whose node was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranded {
    /// It is a member of a bundle in flight: it needs another place.
    Displaced,
    /// It waits for the answer to this question, which is no longer valid.
    Question(u64),
    /// It was to replace a placeholder on another node, which is released without it.
    Unpaired,
    /// It was a placeholder, and the member that waits to replace it is on another node: that
    /// member replaces it now.
    Swapped,
    /// It ends.
    Ends,
}

/// The effect of an allocation's end on its gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GangEnd {
    /// The count in which the end of a placeholder is added; `None` if its ask is pending again.
    pub placeholder: Option<PlaceholderEnd>,
    /// The cause of the end, if it is a member.
    pub departure: Departure,
}

impl GangEnd {
    /// Returns the effect of a release.
    pub fn released(cause: Cause) -> Self {
        let placeholder = match cause {
            Cause::ConfirmedReplacement => PlaceholderEnd::Replaced,
            _ => PlaceholderEnd::TimedOut,
        };
        let departure = match cause {
            Cause::ConfirmedPreemption | Cause::Failed => Departure::Lost,
            _ => Departure::Ended,
        };
        Self { placeholder: Some(placeholder), departure }
    }

    /// The effect of the loss of the node.
    pub const LOST_NODE: Self =
        Self { placeholder: Some(PlaceholderEnd::TimedOut), departure: Departure::Lost };

    /// The effect if the allocation could not be started.
    pub const NOT_STARTED: Self = Self { placeholder: None, departure: Departure::NotStarted };
}

impl Stranded {
    /// Returns what happens to this entry of the table.
    pub fn of(entry: &Allocation, table: &AllocationTable) -> Self {
        if entry.is_in_bundle() {
            return Self::Displaced;
        }
        if let Some(question) = entry.question {
            return Self::Question(question);
        }
        if entry.takes().is_some() {
            return Self::Unpaired;
        }
        let real = entry.gives_way_to().and_then(|real| table.get(real));
        let takes_over = real.is_some_and(|it| it.question.is_none() && it.node != entry.node);
        if takes_over { Self::Swapped } else { Self::Ends }
    }
}

impl Application {
    /// Returns the allocations that a release names, in the order in which they end; at most
    /// `at_once` of them end in one step.
    pub fn named(&self, which: &Which, at_once: usize) -> Vec<AllocationId> {
        match which {
            Which::Uuid(uuid) => self.allocations.get(uuid).copied().into_iter().collect(),
            Which::Key(key) => {
                self.asks.slot_of(key).map_or_else(Vec::new, |it| self.asks.ask(it).live.to_vec())
            }
            Which::All if self.allocations.len() <= at_once => self.all_allocations(),
            Which::All => {
                let mut all: Vec<_> = self.allocations.values().copied().collect();
                all.sort_unstable();
                all.extend(self.holds());
                all
            }
        }
    }

    /// Returns the asks that a release withdraws. A UUID withdraws an ask only if the ask has the
    /// unified form, in which the UUID is the key.
    pub fn withdrawn_by<'a>(&self, which: &'a Which, cause: Cause) -> Withdrawn<'a> {
        match which {
            _ if cause.keeps_asks() => Withdrawn::Nothing,
            Which::All => Withdrawn::All(Some(Form::Unified)),
            Which::Key(key) => Withdrawn::Key(key),
            Which::Uuid(key) => {
                let slot = self.asks.slot_of(key);
                let is_key = slot.is_some_and(|slot| self.asks.ask(slot).form == Form::Unified);
                if is_key { Withdrawn::Key(key) } else { Withdrawn::Nothing }
            }
        }
    }

    /// Returns what happens to an allocation that is released. A member that still waits for its
    /// predicate cannot replace its placeholder.
    pub fn fate(&self, id: AllocationId, cause: Cause, table: &AllocationTable) -> Fate {
        let Some(entry) = table.get(id) else { return Fate::Ends };
        let lives = matches!(self.state(), ApplicationState::Accepted | ApplicationState::Running);
        if cause.is_failure_to_start() && lives && entry.leaving.is_none() {
            return Fate::PendsAgain;
        }
        let Some(real) = entry.gives_way_to() else { return Fate::Ends };
        let is_asked = table.get(real).is_some_and(|real| real.question.is_some());
        if is_asked { Fate::Ends } else { Fate::Swapped }
    }

    /// Returns the allocations in order of their UUIDs, then the places held for members.
    pub fn all_allocations(&self) -> Vec<AllocationId> {
        let mut all: Vec<_> = self.allocations.iter().collect();
        all.sort();
        all.into_iter().map(|(_, id)| *id).chain(self.holds()).collect()
    }

    /// Returns the allocations that end in the next step of a removal, at most `most`, and whether
    /// these are all. If there are more, the choice is the same in every run.
    pub fn next_to_remove(&self, most: usize) -> (Vec<AllocationId>, bool) {
        let mut ids: Vec<AllocationId> = self.each_allocation().collect();
        if ids.len() <= most {
            return (self.all_allocations(), true);
        }
        ids.select_nth_unstable(most);
        ids.truncate(most);
        ids.sort_unstable();
        (ids, false)
    }

    /// Counts the usage over time of an allocation that ends.
    pub fn count_use(
        &mut self,
        entry: &Allocation,
        was_preempted: bool,
        instance_type: Option<&Arc<str>>,
        now_ns: i64,
    ) {
        let is_preempted = was_preempted || entry.leaving == Some(Leaving::Preempted);
        let account = Account::of(is_preempted, entry.spec.placeholder);
        self.history.count(account, instance_type, entry.resources(), entry.bound_ns, now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocations::Pairing;
    use crate::specs::ask::AskSpec;
    use crate::values::ids::{ApplicationSlot, NodeSlot};
    use crate::values::resources::Resources;

    fn allocation(key: &str, node: u32) -> Allocation {
        let spec = Arc::new(AskSpec::new(key, Resources::of(&[("vcore", 1)])));
        Allocation::new(ApplicationSlot::at(0), spec, NodeSlot::at(node), 0, 0)
    }

    /// Returns an application with these allocations by UUID, in order of their ids.
    fn with_allocations(uuids: &[&str]) -> (Application, Vec<AllocationId>) {
        let (mut book, mut table) = (Application::small(None), AllocationTable::new());
        let ids = uuids.iter().map(|uuid| {
            let id = table.insert(allocation(uuid, 0));
            book.allocations.insert(Arc::from(*uuid), id);
            id
        });
        let ids = ids.collect();
        (book, ids)
    }

    #[test]
    fn few_allocations_end_by_uuid_and_many_by_id() {
        let (book, ids) = with_allocations(&["c", "a", "b"]);
        assert_eq!(book.named(&Which::All, 3), [ids[1], ids[2], ids[0]]);
        assert_eq!(book.named(&Which::All, 2), ids);
        assert_eq!(book.named(&Which::Uuid(Arc::from("b")), 2), [ids[2]]);
        assert!(book.named(&Which::Key(Arc::from("b")), 2).is_empty(), "no ask has that key");
    }

    #[test]
    fn removal_takes_several_steps_where_there_is_much() {
        let (book, ids) = with_allocations(&["c", "a", "b"]);
        assert_eq!(book.next_to_remove(2), (ids[..2].to_vec(), false));
        assert_eq!(book.next_to_remove(3), (vec![ids[1], ids[2], ids[0]], true));
    }

    #[test]
    fn uuid_withdraws_only_asks_that_have_it_as_key() {
        let mut book = Application::small(None);
        let keys = ["old", "new"].map(Arc::<str>::from);
        book.asks.put(AskSpec::new("old", Resources::new()), 0, 1);
        let unified = AskSpec { form: Form::Unified, ..AskSpec::new("new", Resources::new()) };
        book.asks.put(unified, 0, 2);
        let [old, new] = &keys;
        let by = |which: &Which| book.withdrawn_by(which, Cause::Stopped) != Withdrawn::Nothing;
        assert!(!by(&Which::Uuid(Arc::clone(old))) && by(&Which::Uuid(Arc::clone(new))));
        assert!(by(&Which::Key(Arc::clone(old))));
        let all = book.withdrawn_by(&Which::All, Cause::Failed);
        assert_eq!(all, Withdrawn::All(Some(Form::Unified)));
        let timeout = book.withdrawn_by(&Which::All, Cause::ConfirmedTimeout);
        assert_eq!(timeout, Withdrawn::Nothing);
    }

    #[test]
    fn placeholder_is_swapped_unless_its_member_is_asked_about() {
        let (mut book, mut table) = (Application::small(None), AllocationTable::new());
        let real = table.insert(allocation("m", 1));
        let mut placeholder = allocation("p", 0);
        placeholder.change().pairing = Pairing::GivesWay(real);
        let placeholder = table.insert(placeholder);
        let fate = |table: &AllocationTable| book.fate(placeholder, Cause::Stopped, table);
        let stranded = |table: &AllocationTable| {
            Stranded::of(table.get(placeholder).expect("it is there"), table)
        };
        assert_eq!((fate(&table), stranded(&table)), (Fate::Swapped, Stranded::Swapped));
        table.get_mut(real).unwrap().change().question = Some(7);
        assert_eq!((fate(&table), stranded(&table)), (Fate::Ends, Stranded::Ends));
        let entry = table.get(real).unwrap();
        assert_eq!(Stranded::of(entry, &table), Stranded::Question(7));
        book.ask_added(0, &mut Vec::new());
        let failed = book.fate(placeholder, Cause::SchedulingFailed, &table);
        assert_eq!(failed, Fate::PendsAgain);
    }
}
