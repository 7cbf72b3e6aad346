//! Allocations that an RM reports: to which known allocation, or ask, a report refers.

use std::sync::Arc;

use super::application::Application;
use crate::nodes::Terms;
use crate::specs::ask::{AskSpec, Form, TaskGroup};
use crate::values::ids::{AllocationId, ApplicationSlot, AskSlot};

/// The subject of a report of a running allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// The allocation whose UUID the report names.
    Known(AllocationId),
    /// The allocations of this ask, which has no further ones to come. In the unified form the key
    /// is the identity: the reported allocation runs, though under another UUID.
    KnownByKey(AskSlot),
    /// An allocation that is not known yet.
    New,
}

impl Application {
    /// Finds the subject of a report.
    pub fn reported(&self, spec: &AskSpec, uuid: &str) -> Reported {
        if let Some(id) = self.allocations.get(uuid) {
            return Reported::Known(*id);
        }
        let by_key = self.ask_in_todays_form(spec).filter(|slot| {
            let ask = self.asks.ask(*slot);
            ask.still_to_come() == 0 && !ask.live.is_empty()
        });
        by_key.map_or(Reported::New, Reported::KnownByKey)
    }

    /// Returns the ask with the key of a specification in the unified form, in which the key is the
    /// identity.
    pub fn ask_in_todays_form(&self, spec: &AskSpec) -> Option<AskSlot> {
        self.asks.slot_of(&spec.key).filter(|_| spec.form == Form::Unified)
    }

    /// Counts the placeholders that are requested with this specification. They replace the pending
    /// instances of a known ask; returns the task group for which those were counted.
    pub fn count_placeholders(
        &mut self,
        spec: &AskSpec,
        known: Option<AskSlot>,
    ) -> Option<TaskGroup> {
        let before = known.map(|slot| self.asks.ask(slot));
        let before =
            before.and_then(|ask| Some((TaskGroup::clone(ask.spec.place_in()?), ask.outstanding)));
        if let Some(group) = spec.place_in() {
            self.gang_mut().add(group, &spec.resources, u64::from(spec.instances));
        }
        let (group, outstanding) = before?;
        self.gang_mut().take_off(&group, u64::from(outstanding));
        Some(group)
    }

    /// Sets the terms of the placement constraint of an ask, or clears them. The members of a
    /// declared gang are mates of each other.
    pub fn set_wish(
        &mut self,
        ask: AskSlot,
        terms: Option<Arc<Terms>>,
        now_ns: i64,
        own: ApplicationSlot,
    ) {
        let mates = self.native().map(|_| own);
        match terms {
            Some(terms) => self.asks.set_wish(ask, terms, now_ns, mates),
            None => self.asks.clear_wish(ask),
        }
    }

    /// Whether a rejection refers to an allocation that exists, by this UUID, or without one by the
    /// key of the specification.
    pub fn is_allocated(&self, spec: &AskSpec, uuid: Option<&Arc<str>>) -> bool {
        if let Some(uuid) = uuid {
            return self.allocations.contains_key(uuid);
        }
        let slot = self.ask_in_todays_form(spec);
        slot.is_some_and(|slot| !self.asks.ask(slot).live.is_empty())
    }

    /// Returns the keys of the asks that the RM sent and that have no answer yet, each with its
    /// form, in order of arrival.
    pub fn unanswered(&self) -> Vec<(Form, Arc<str>)> {
        let form = |key: &Arc<str>| self.asks.slot_of(key).map(|slot| self.asks.ask(slot).form);
        let keys = self.asks.pending_keys(None).into_iter();
        keys.filter_map(|key| Some((form(&key)?, key))).collect()
    }

    /// Removes an allocation that has ended from its ask. Returns the specification, if the ask is
    /// over with it.
    pub fn drop_instance(&mut self, key: &str, id: AllocationId) -> Option<Arc<AskSpec>> {
        let slot = self.asks.slot_of(key)?;
        let live = &mut self.asks.ask_mut(slot).live;
        // If there are many, it is usually one of the first.
        if let Some(at) = live.iter().position(|live| *live == id) {
            live.remove(at);
        }
        let ask = self.asks.ask(slot);
        let over = (ask.is_over() && !ask.withdrawn).then(|| Arc::clone(&ask.spec));
        self.asks.drop_if_done(slot);
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::resources::Resources;

    fn spec(key: &str, form: Form) -> AskSpec {
        AskSpec { form, ..AskSpec::new(key, Resources::of(&[("vcore", 1)])) }
    }

    #[test]
    fn report_under_another_uuid_means_the_key_once_all_runs() {
        let (mut book, unified) = (Application::small(None), spec("a", Form::Unified));
        let (slot, _) = book.asks.put(unified.clone(), 0, 1);
        assert_eq!(book.reported(&unified, "a"), Reported::New, "it is outstanding");
        book.asks.take_one(slot);
        let id = AllocationId::numbered(1);
        book.asks.ask_mut(slot).live.push(id);
        assert_eq!(book.reported(&unified, "x"), Reported::KnownByKey(slot));
        assert_eq!(book.reported(&spec("a", Form::Ask), "x"), Reported::New);
        book.allocations.insert(Arc::from("x"), id);
        assert_eq!(book.reported(&unified, "x"), Reported::Known(id));
    }

    #[test]
    fn last_instance_ends_its_ask_unless_that_was_withdrawn() {
        let mut book = Application::small(None);
        for (number, key) in [(1, "a"), (2, "b")] {
            let (slot, _) = book.asks.put(spec(key, Form::Unified), 0, number);
            book.asks.take_one(slot);
            let id = AllocationId::numbered(u32::try_from(number).unwrap());
            book.asks.ask_mut(slot).live.push(id);
            book.asks.ask_mut(slot).withdrawn = key == "b";
        }
        assert!(book.drop_instance("a", AllocationId::numbered(1)).is_some());
        assert!(book.drop_instance("b", AllocationId::numbered(2)).is_none());
        assert!(book.asks.is_empty());
    }

    #[test]
    fn asks_without_an_answer_come_in_order_of_arrival() {
        let mut book = Application::small(None);
        book.asks.put(spec("late", Form::Unified), 0, 2);
        book.asks.put(spec("early", Form::Ask), 0, 1);
        let keys: Vec<_> = book.unanswered().into_iter().map(|it| it.1.to_string()).collect();
        assert_eq!(keys, ["early", "late"]);
    }
}
